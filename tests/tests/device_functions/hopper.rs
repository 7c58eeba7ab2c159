//! What compute capability 9.0 adds, each function alone, on the module for sm_90a.
//!
//! The kernels are those of tests/device/src/hopper. The tests of [`ptx_text`] need no GPU; the
//! others are skipped, in sight, on any GPU but one of capability 9.0, since sm_90a has no other.

mod clusters;
mod copies;
mod launch;
mod mbarriers;
mod products;
mod ptx_text;
mod warpgroups;
