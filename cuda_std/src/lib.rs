//! The device standard library: what a kernel needs, under Rust-CUDA's names, on rustc's own NVPTX
//! target.
//!
//! A kernel crate is an ordinary `rlib` that depends on this crate; `cuda_builder` turns it into a
//! PTX module. It starts with
//!
//! ```text
//! #![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx, asm_experimental_arch))]
//! ```
//!
//! `abi_ptx` is for [`kernel`], `asm_experimental_arch` for [`kernel`] and [`shared_array!`], which
//! leave declarations in the module's assembly; nothing else is needed. The device compiler takes
//! nightly features because `cuda_builder` sets `RUSTC_BOOTSTRAP=1`.
//!
//! ```
//! use cuda_std::{kernel, shared_array, thread};
//!
//! /// Reverses the 64 elements at `data`, in one block of 64 threads.
//! ///
//! /// # Safety
//! /// `data` points to 64 elements that nothing else accesses; the block has 64 threads along x.
//! #[kernel(max_threads = 64)]
//! pub unsafe fn reverse(data: *mut i32) {
//!     let t = thread::thread_idx_x() as usize;
//!     // SAFETY: t < 64, each thread has its own element, and the barrier parts write and read.
//!     unsafe {
//!         let tile = shared_array![i32; 64];
//!         tile.add(t).write(*data.add(t));
//!         thread::sync_threads();
//!         *data.add(t) = tile.add(63 - t).read();
//!     }
//! }
//! ```
//!
//! # On the host
//! The crate compiles for the host too, with std and stable Rust, so that index arithmetic and
//! algorithms can be tested there: [`GpuFloat`], [`HalfExt`](half::HalfExt), [`SharedPtr`] and the
//! vectors work; what only a GPU can do panics and says so.
//!
//! # On the device
//! The crate owns the panic handler. A panic is a `trap`: the kernel ends and the host sees a
//! launch failure. There is no allocator and no printing. "Lowers to" in the docs names the PTX
//! instruction, and the section of the PTX ISA manual by its title, since numbers move between
//! versions.

#![cfg_attr(
    target_arch = "nvptx64",
    no_std,
    feature(abi_unadjusted, asm_experimental_arch, core_intrinsics, link_llvm_intrinsics),
    allow(internal_features)
)]

pub mod async_copy;
pub mod atomic;
pub mod barrier;
pub mod cfg;
pub mod cluster;
pub mod entry;
pub mod fence;
pub mod float;
pub mod grid;
pub mod half;
#[cfg(target_arch = "nvptx64")]
mod intrinsics;
pub mod mbarrier;
pub mod mem;
pub mod misc;
pub mod mma;
pub mod ptr;
pub mod registers;
pub mod shared;
pub mod thread;
pub mod tma;
pub mod vector;
pub mod warp;
pub mod wgmma;

pub use cuda_std_macros::{gpu_only, kernel, shared_array};
pub use float::GpuFloat;
pub use fp8::{F8E4M3, F8E5M2};
pub use half::{bf16, f16};
pub use shared::SharedPtr;

/// What most kernels use.
pub mod prelude {
    pub use crate::{GpuFloat, SharedPtr, bf16, f16, half::HalfExt, kernel, shared_array, thread};
}

#[cfg(target_arch = "nvptx64")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    core::intrinsics::abort()
}
