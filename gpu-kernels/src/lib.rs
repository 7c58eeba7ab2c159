//! The matrix multiplication kernels, C = alpha * A * B + beta * C.
//!
//! A kernel family is one generic body; its entry points are made from the family's list in
//! `gemm-spec`, which is the only place where a kernel is registered. `cargo xtask build-ptx`
//! compiles this crate to `host/ptx/`. The crate compiles for the host too, so that its index
//! arithmetic can be tested there.
// A loop over indices is unrolled whatever it indexes; iterators over arrays of registers are not
// always, and what is left of the loop puts the array into local memory.
#![allow(clippy::needless_range_loop)]
#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]
// Entry points need the features; `cargo xtask sweep` compiles the bodies alone.
#![cfg_attr(target_arch = "nvptx64", allow(unused_features))]

mod element;
mod epilogue;
pub mod finish;
pub mod ladder;
mod output_tile;
mod own;
pub mod pack;
pub mod repack;
pub mod skinny;
mod slice;
pub mod tensor;
#[cfg(feature = "warp_group")]
#[cfg_attr(not(feature = "sm_90a"), allow(unused))]
// Without its entry points only the body is left.
pub mod warp_group;

pub use cuda_std::{F8E4M3, F8E5M2};
pub use element::{Element, Output, Sum, Write};
pub use epilogue::{One, store};
pub use output_tile::OutputTile;
pub use own::{Epilogue, Lean, Plain, apply};
pub use pack::Packed;
pub use slice::{k_of, of_layer, output_of_layer};

/// A tile in shared memory. Rust-CUDA's `shared_array!` returns `*mut T`; ours returns a pointer
/// that knows its address space, with the same methods.
pub type SharedTile<T> = cuda_std::shared::SharedPtr<T>;
