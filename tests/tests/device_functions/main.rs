//! Every device function of `cuda_std`, on the GPU against the CPU, and what it lowers to.
//!
//! The kernels are those of tests/device; build.rs compiled them for sm_70, sm_80, sm_90 and
//! sm_90a, and every test runs each module that has its functions. The tests of [`ptx_text`] need
//! no GPU.

mod async_copies;
mod atomics;
mod floats;
mod gpu;
mod halves;
mod hopper;
mod matrices;
mod memory;
mod ptx_text;
mod threads;
mod warps;
