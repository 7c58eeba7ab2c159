//! Fences between the ways in which memory is reached.
//!
//! Tensor cores (`wgmma`) and the copy engine ([`tma`](crate::tma)) reach memory by another way
//! ("proxy") than the threads' loads and stores. What threads wrote has to be made visible to it by
//! the threads that wrote, before the barrier that tells others. What copies brought needs no
//! fence: waiting on the copy's barrier makes it visible. Compute capability 9.0. (PTX ISA,
//! "Proxies" and `fence.proxy`.)

use crate::gpu_only;
#[cfg(target_arch = "nvptx64")]
use core::arch::asm;

/// This thread's accesses of the block's shared memory come before what tensor cores and the copy
/// engine do there later.
///
/// Lowers to `fence.proxy.async.shared::cta` (PTX ISA, `fence.proxy`).
#[gpu_only]
#[inline(always)]
pub fn async_shared() {
    // SAFETY: a fence has no precondition.
    unsafe { asm!("fence.proxy.async.shared::cta;", options(nostack)) }
}

/// As [`async_shared`], for global memory that the copy engine reads or writes later.
///
/// Lowers to `fence.proxy.async.global` (PTX ISA, `fence.proxy`).
#[gpu_only]
#[inline(always)]
pub fn async_global() {
    // SAFETY: a fence has no precondition.
    unsafe { asm!("fence.proxy.async.global;", options(nostack)) }
}
