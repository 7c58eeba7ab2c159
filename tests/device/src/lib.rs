//! Kernels that exercise each function of `cuda_std`, for `tests/device_functions.rs` in the
//! package `gemmite-tests`, which launches them and compares with the CPU.
//!
//! Each kernel's doc says with what grid it is launched and what it leaves where. "Thread" without
//! more is the thread's index along x in its block.
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx, asm_experimental_arch))]

#[cfg(feature = "sm_80")]
pub mod async_copies;
pub mod atomics;
pub mod floats;
pub mod halves;
#[cfg(feature = "sm_90a")]
pub mod hopper;
pub mod matrices;
pub mod memory;
pub mod shuffles;
pub mod threads;
pub mod timing;
pub mod warps;
