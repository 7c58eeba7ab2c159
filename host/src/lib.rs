//! Matrix multiplication on NVIDIA GPUs with kernels written in Rust, and on the CPU where there is
//! no GPU.
//!
//! ```
//! use gemmite::{Device, Matrix, Shape, matmul, random};
//!
//! let device = Device::best(); // the first CUDA device that works, else the CPU
//! let a: Matrix<f32> = random::normal(Shape::new(300, 200), 1)?;
//! let b: Matrix<f32> = random::normal(Shape::new(200, 100), 2)?;
//! let c = matmul(&device, &a, &b)?;
//! assert_eq!(c.shape(), Shape::new(300, 100));
//! # Ok::<(), gemmite::Error>(())
//! ```
//!
//! - [`Gemm`] has the options: transposes, alpha, beta, the kernel; blocking and asynchronous
//!   calls.
//! - [`Epilogue`] says what becomes of the sums: bias, activation, residual, scales.
//! - [`MatrixRef`] and [`MatrixMut`] view slices with any strides; [`DeviceMatrix`] is data that
//!   stays on a device; [`DeviceBatch`] is many matrices of one shape, for products in one call.
//! - [`Gemm::run_grouped`] and its kin take products of several shapes in one call, by offsets in
//!   the device's memory too ([`Gemm::enqueue_rows`]).
//! - [`Streaming`] takes products of host data that a GPU's memory does not hold.
//! - [`Graph`] is work that a GPU repeats in one call.
//! - [`cuda`] takes device addresses and streams of those who work with `cust` themselves.
//! - [`emulator`] runs the kernels on the CPU, exactly as a GPU would, and reports their misuse of
//!   memory and barriers.
//! - [`ScaledGemm`] multiplies floats of 8 bits with scales for blocks of 128
//!   ([`Gemm::block_scaled`]).
//! - [`OwnKernel`] launches kernels of a crate of yours, with steps of their own.
//! - The feature `ndarray` takes and gives arrays of that crate.
//! - [`tune`](mod@tune) measures plans on a GPU and keeps the best in a file.
//! - [`verify`](mod@verify) checks a product against a reference with an error bound;
//!   [`reference`](mod@reference) has the textbook loops.
//!
//! The kernels are embedded as PTX, and for compute capability 9.0 as machine code, so a user of
//! the library needs no device compiler; the driver is opened at run time, so a program that uses
//! the library starts without one. To build without a CUDA toolkit set `CUDA_LIBRARY_PATH=/`:
//! cust's build script looks for a folder `lib64` there, and nothing is linked from it.

mod backend;
mod batch;
mod cpu;
mod cubin;
pub mod cuda;
mod device;
mod element;
pub mod emulator;
mod epilogue;
mod error;
mod gemm;
mod graph;
mod grouped;
mod launch;
mod matrix;
#[cfg(feature = "ndarray")]
mod ndarray;
mod own;
mod parallel;
mod plan;
mod ptx;
pub mod random;
pub mod reference;
mod scaled;
mod stage;
mod streaming;
pub mod tune;
pub mod verify;

pub use batch::DeviceBatch;
pub use device::{Device, DeviceChoice, DeviceInfo, DeviceKind, DeviceMatrix, Stream};
pub use element::{Element, OutputOf, Scalar};
pub use epilogue::{DeviceEpilogue, Epilogue, Fused, HostEpilogue, Source};
pub use error::Error;
pub use fp8::{F8E4M3, F8E5M2};
pub use gemm::{Gemm, matmul};
pub use gemm_spec::{
    Activation, DType, Kernel, KernelFamily, Launch, Layout, LayoutError, Op, Places, Precision,
    Shape, Stored, Strides, Target, ThreadOrder, Tiles, UnknownActivation, variants,
};
pub use graph::Graph;
pub use grouped::DeviceProduct;
pub use half::{bf16, f16};
pub use matrix::{Matrix, MatrixMut, MatrixRef};
pub use own::OwnKernel;
pub use plan::{Batch, GroupedPlan, KernelChoice, LaunchLimits, Plan, Prediction, Rest};
pub use scaled::ScaledGemm;
pub use streaming::{Progress, Streaming};

/// The README's program compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
