//! How many registers a warpgroup's threads have: `setmaxnreg`, for `sm_90a`.
//!
//! A kernel is launched with one count for all its threads. A warpgroup that only starts copies
//! gives registers back, and one that sums in them takes more. The kernel needs
//! `#[kernel(max_threads = ..., min_blocks = 1)]`; ptxas says so where it ignores the instruction.
//!
//! ```compile_fail,E0080
//! // Counts are multiples of 8.
//! unsafe { cuda_std::registers::increase::<236>() }
//! ```

use crate::gpu_only;

/// Refuses, at compile time, what is no count of registers.
const fn check(count: u32) {
    assert!(
        count.is_multiple_of(8) && 24 <= count && count <= 256,
        "a thread has 24 to 256 registers, a multiple of 8"
    );
}

/// Takes registers, up to `COUNT` for each thread; waits until the block has so many free.
///
/// Lowers to `setmaxnreg.inc.sync.aligned.u32` (PTX ISA, `setmaxnreg`).
///
/// # Safety
/// All threads of the warpgroup call this at one place; they have at most `COUNT` registers. Enough
/// are free or will be given back: the sum over the block's warpgroups fits.
#[inline(always)]
pub unsafe fn increase<const COUNT: u32>() {
    const { check(COUNT) };
    // SAFETY: the caller's promise.
    unsafe { increase_to::<COUNT>() }
}

#[gpu_only]
#[inline(always)]
unsafe fn increase_to<const COUNT: u32>() {
    // SAFETY: the caller's promise.
    unsafe { crate::intrinsics::increase_registers(const { COUNT }) }
}

/// Gives registers back, down to `COUNT` for each thread.
///
/// Lowers to `setmaxnreg.dec.sync.aligned.u32` (PTX ISA, `setmaxnreg`).
///
/// # Safety
/// All threads of the warpgroup call this at one place; they have at least `COUNT` registers.
#[inline(always)]
pub unsafe fn decrease<const COUNT: u32>() {
    const { check(COUNT) };
    // SAFETY: the caller's promise.
    unsafe { decrease_to::<COUNT>() }
}

#[gpu_only]
#[inline(always)]
unsafe fn decrease_to<const COUNT: u32>() {
    // SAFETY: the caller's promise.
    unsafe { crate::intrinsics::decrease_registers(const { COUNT }) }
}
