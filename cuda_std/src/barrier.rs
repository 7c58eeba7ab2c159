//! Named barriers: 16 barriers of a block at which only some of its warps meet.
//!
//! `sync_threads` is barrier 0 with all threads, so kernels use 1 to 15 for others. (PTX ISA,
//! `bar`/`barrier`.)

use crate::gpu_only;

/// Barrier `ID` of the block for `THREADS` threads, whole warps.
///
/// Both are constants: a barrier whose number lies in a register makes ptxas reserve all 16.
///
/// ```compile_fail,E0080
/// // A barrier has whole warps.
/// unsafe { cuda_std::barrier::NamedBarrier::<1, 100>.sync() }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct NamedBarrier<const ID: u32, const THREADS: u32>;

impl<const ID: u32, const THREADS: u32> NamedBarrier<ID, THREADS> {
    /// Refuses, at compile time, what is no barrier.
    pub const IS_VALID: () = {
        assert!(ID < 16, "a block has barriers 0 to 15");
        assert!(
            THREADS.is_multiple_of(32) && 32 <= THREADS && THREADS <= 1024,
            "a barrier has whole warps, up to 1024 threads"
        );
    };

    /// Waits until `THREADS` threads have come here or to [`arrive`](Self::arrive); what they wrote
    /// to memory before is visible to those that waited.
    ///
    /// Lowers to `bar.sync ID, THREADS` (PTX ISA, `bar`).
    ///
    /// # Safety
    /// All lanes of the warp call this together, and every round of the barrier gets exactly
    /// `THREADS` threads. `ID` 0 is `sync_threads`' own.
    #[inline(always)]
    pub unsafe fn sync(self) {
        const { Self::IS_VALID };
        // SAFETY: the caller's promise.
        unsafe { sync(ID, THREADS) }
    }

    /// Counts as having come and does not wait.
    ///
    /// Lowers to `bar.arrive ID, THREADS` (PTX ISA, `bar`).
    ///
    /// # Safety
    /// As [`sync`](Self::sync); some warp waits in the round.
    #[inline(always)]
    pub unsafe fn arrive(self) {
        const { Self::IS_VALID };
        // SAFETY: the caller's promise.
        unsafe { arrive(ID, THREADS) }
    }
}

#[gpu_only]
#[inline(always)]
unsafe fn sync(id: u32, threads: u32) {
    // SAFETY: the caller's promise.
    unsafe { crate::intrinsics::named_barrier_sync(id, threads) }
}

#[gpu_only]
#[inline(always)]
unsafe fn arrive(id: u32, threads: u32) {
    // SAFETY: the caller's promise.
    unsafe { crate::intrinsics::named_barrier_arrive(id, threads) }
}
