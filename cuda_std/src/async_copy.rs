//! Copies from global to shared memory that pass by the registers and run beside the thread's
//! further work: `cp.async`, for compute capability 8.0 and later.
//!
//! A thread starts copies, closes them into a group with [`commit_group`], and waits with
//! [`wait_group`] until all but its latest groups have arrived. Other threads see what has arrived
//! after a barrier behind the wait.

use crate::gpu_only;
use crate::mbarrier::Mbarrier;
use crate::shared::SharedPtr;
#[cfg(target_arch = "nvptx64")]
use core::arch::asm;

/// Starts the copy of one `T` of 4, 8 or 16 bytes from global to shared memory, if `start` is true;
/// if `wanted` is false, zeros are written instead and nothing is read. No branch is taken.
///
/// Lowers to `cp.async.ca.shared.global` for 4 and 8 bytes, `cp.async.cg.shared.global` for 16,
/// which go past the L1 cache (PTX ISA, data movement and conversion instructions, `cp.async`).
///
/// # Safety
/// Where `start`: `target` lies in the block's shared memory, and both addresses are aligned to the
/// size of `T`. Where `wanted` too, `source` points to a `T` in global memory that nobody writes
/// before the copy has arrived. Until then, and until a barrier behind [`wait_group`] for other
/// threads, nobody touches the target.
#[gpu_only]
#[inline(always)]
pub unsafe fn copy_if<T: Copy>(start: bool, target: SharedPtr<T>, source: *const T, wanted: bool) {
    // SAFETY: the caller's promise.
    unsafe { copy_part_if(start, target, source, if wanted { size_of::<T>() as u32 } else { 0 }) }
}

/// The same of the first `bytes` bytes of a `T`, which alone are read: zeros are written in the
/// place of the others.
///
/// # Safety
/// As [`copy_if`]; `bytes` is at most the size of `T`, and so much may be read.
#[gpu_only]
#[inline(always)]
pub unsafe fn copy_part_if<T: Copy>(
    start: bool,
    target: SharedPtr<T>,
    source: *const T,
    bytes: u32,
) {
    const {
        assert!(matches!(size_of::<T>(), 4 | 8 | 16), "an asynchronous copy has 4, 8 or 16 bytes");
    }
    let (start, target) = (u32::from(start), target.address());
    // N.B. The address is generic, and the instruction wants a global one: outside of the windows
    // of the other spaces the two are the same (PTX ISA, "Generic Addressing").
    // SAFETY: the caller's promise.
    unsafe {
        match size_of::<T>() {
            4 => asm!("{{ .reg .pred p; setp.ne.u32 p, {}, 0;",
                "@p cp.async.ca.shared.global [{}], [{}], 4, {}; }}", in(reg32) start,
                in(reg32) target, in(reg64) source, in(reg32) bytes, options(nostack)),
            8 => asm!("{{ .reg .pred p; setp.ne.u32 p, {}, 0;",
                "@p cp.async.ca.shared.global [{}], [{}], 8, {}; }}", in(reg32) start,
                in(reg32) target, in(reg64) source, in(reg32) bytes, options(nostack)),
            _ => asm!("{{ .reg .pred p; setp.ne.u32 p, {}, 0;",
                "@p cp.async.cg.shared.global [{}], [{}], 16, {}; }}", in(reg32) start,
                in(reg32) target, in(reg64) source, in(reg32) bytes, options(nostack)),
        }
    }
}

/// The pointer so many bytes on, behind the copies that were started before.
///
/// An addition that LLVM leaves as it is, where it is. A walk `p`, `p + s`, `p + 2 * s` in a loop
/// it turns into sums of `p` with numbers that it computes before the loop, which costs registers,
/// and moves among registers. Lowers to `add.s64` (PTX ISA, integer arithmetic instructions).
#[inline(always)]
pub fn walk<T>(pointer: *const T, bytes: i64) -> *const T {
    #[cfg(target_arch = "nvptx64")]
    {
        let mut pointer = pointer;
        // SAFETY: an addition; without `pure` it keeps its place.
        unsafe {
            asm!("add.s64 {0}, {0}, {1};", inout(reg64) pointer, in(reg64) bytes,
                options(nostack));
        }
        pointer
    }
    #[cfg(not(target_arch = "nvptx64"))]
    pointer.wrapping_byte_offset(bytes as isize)
}

/// Closes this thread's copies since the last group into a group, which may be empty.
///
/// Lowers to `cp.async.commit_group` (PTX ISA, data movement and conversion instructions).
#[gpu_only]
#[inline(always)]
pub fn commit_group() {
    // SAFETY: no operands; without options the compiler keeps it behind the copies.
    unsafe { asm!("cp.async.commit_group;", options(nostack)) }
}

/// Has the barrier count an arrival of this thread when all copies that it has started so far have
/// arrived; they need no group then.
///
/// Lowers to `cp.async.mbarrier.arrive.noinc.shared.b64` (PTX ISA, `cp.async.mbarrier.arrive`).
///
/// # Safety
/// The barrier is ready, and this arrival is one of those that it was made for.
#[gpu_only]
#[inline(always)]
pub unsafe fn arrive_on(barrier: SharedPtr<Mbarrier>) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("cp.async.mbarrier.arrive.noinc.shared.b64 [{}];", in(reg32) barrier.address(),
            options(nostack));
    }
}

/// Waits until at most the latest `PENDING` of this thread's groups are still on their way.
///
/// Lowers to `cp.async.wait_group` (PTX ISA, data movement and conversion instructions).
#[gpu_only]
#[inline(always)]
pub fn wait_group<const PENDING: u32>() {
    // SAFETY: no operands but a constant; without options the compiler keeps it in its place.
    unsafe { asm!("cp.async.wait_group {};", const PENDING, options(nostack)) }
}
