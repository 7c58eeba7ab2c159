//! Every device function of `cuda_std`, on the GPU against the CPU, and what it lowers to.
//!
//! The kernels are those of tests/device; build.rs compiled them for sm_70 and for sm_80, and every
//! test runs both modules. The tests of [`ptx_text`] need no GPU.

mod atomics;
mod floats;
mod gpu;
mod halves;
mod memory;
mod ptx_text;
mod threads;
mod warps;
