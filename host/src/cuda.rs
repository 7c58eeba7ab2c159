//! CUDA devices, and the way in for those who bring device memory and streams of their own.
//!
//! This module and its children are the only ones that name `cust` and the driver. A device uses
//! its primary context, as cust, the CUDA runtime and the libraries on it do, so addresses and
//! streams of theirs can be used here. Every call makes the context current for its own time and
//! leaves the thread as it was.
//!
//! Kernels are loaded once a context, at the first product that needs them: as machine code where
//! the library has it, else the driver compiles their PTX then.

mod backend;
mod context;
mod driver;
mod graph;
mod launch;
mod launch_ex;
mod memory;
mod module;
mod raw;
mod stream;
mod tensor_map;

// cust's symbols come from this crate; a dependency that nothing names would not be linked.
extern crate cuda_driver_loader as _;

pub(crate) use context::{device_count, has_kernels, open};
pub use cust;
pub use gemm_spec::Reads;
pub use module::check_ptx;
pub use raw::{RawEpilogue, RawMatrix, RawOperands, RawScales};
pub(crate) use tensor_map::TensorLayoutError;
pub use tensor_map::{L2Promotion, TensorElement, TensorLayout, TensorMap, TensorSwizzle};
