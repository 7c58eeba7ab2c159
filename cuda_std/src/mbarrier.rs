//! Barriers in shared memory that count arriving threads and arriving bytes: `mbarrier`, for
//! compute capability 9.0.
//!
//! An [`Mbarrier`] goes through phases. A phase ends when as many arrivals have come as
//! [`init`](SharedPtr::init) said and all expected bytes have come; the next one begins at once. A
//! thread waits for the end of a phase by the phase's parity: the first is [`Parity::EVEN`], the
//! next odd, and so on. Before its first phase has ended a barrier looks as if an odd one had.
//!
//! The usual ring of stages has two barriers a stage: `full`, on which consumers wait for bytes
//! that the copy engine brings (one arrival, the producer's, with
//! [`arrive_expect`](SharedPtr::arrive_expect)), and `empty`, on which the producer waits until
//! the consumers have read them.
//!
//! ```text
//! producer: for each step   empty[stage].wait(parity.flipped()); full[stage].arrive_expect(bytes);
//!                           tma::load(..., full[stage])
//! consumer: for each step   full[stage].wait(parity); use the stage; empty[stage].arrive()
//! both:                     next stage; past the last one parity = parity.flipped()
//! ```
//!
//! `asm!` is not known to be convergent, and none of these instructions has to be: each is one
//! thread's alone. (PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier".)

use crate::cluster::ClusterPtr;
use crate::gpu_only;
use crate::shared::SharedPtr;
#[cfg(target_arch = "nvptx64")]
use core::arch::asm;

/// The storage of a barrier: 8 bytes of shared memory, as in `shared_array![Mbarrier; STAGES]`.
///
/// Opaque, and no `Copy`, so that only the methods of `SharedPtr<Mbarrier>` touch it.
#[repr(transparent)]
#[derive(Debug)]
pub struct Mbarrier(#[allow(dead_code)] u64);

/// Which of two neighbouring phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parity(u32);

impl Parity {
    /// The first, third, ... phase.
    pub const EVEN: Parity = Parity(0);
    /// The second, fourth, ... phase; a fresh barrier looks as if it had gone through one.
    pub const ODD: Parity = Parity(1);

    /// The parity of phase number `phase`, from 0.
    #[inline(always)]
    pub const fn of(phase: u32) -> Self {
        Parity(phase & 1)
    }

    /// The parity of the phases before and after.
    #[inline(always)]
    pub const fn flipped(self) -> Self {
        Parity(self.0 ^ 1)
    }
}

/// # Safety
/// Of all methods but [`init`](SharedPtr::init): the barrier is initialised, and this thread has
/// passed a barrier of the block (of the cluster, where other blocks take part) since.
impl SharedPtr<Mbarrier> {
    /// Makes the memory a barrier whose phases end with `arrivals` arrivals, 1 to 2^20 - 1.
    ///
    /// The thread that initialises calls [`fence_init`] after the last barrier, and then all
    /// threads that take part meet at a barrier of the block, or of the cluster. Lowers to
    /// `mbarrier.init.shared::cta.b64` (PTX ISA, `mbarrier.init`).
    ///
    /// # Safety
    /// The pointer is to 8 bytes of the block's shared memory, at a multiple of 8 bytes, that are
    /// no live barrier; one thread calls this.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn init(self, arrivals: u32) {
        // SAFETY: the caller's promise.
        unsafe {
            asm!("mbarrier.init.shared::cta.b64 [{}], {};", in(reg32) self.address(),
                in(reg32) arrivals, options(nostack));
        }
    }

    /// Ends the barrier's life, so that its memory may be used for something else.
    ///
    /// Lowers to `mbarrier.inval.shared::cta.b64` (PTX ISA, `mbarrier.inval`).
    ///
    /// # Safety
    /// As the block says; nobody uses the barrier at the same time or later.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn invalidate(self) {
        // SAFETY: the caller's promise.
        unsafe {
            asm!("mbarrier.inval.shared::cta.b64 [{}];", in(reg32) self.address(),
                options(nostack));
        }
    }

    /// Arrives. This thread's earlier accesses are visible to those of the block that wait.
    ///
    /// Lowers to `mbarrier.arrive.shared::cta.b64` (PTX ISA, `mbarrier.arrive`).
    ///
    /// # Safety
    /// As the block says; no phase gets more arrivals than [`init`](SharedPtr::init) said.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn arrive(self) {
        // SAFETY: the caller's promise.
        unsafe {
            asm!("mbarrier.arrive.shared::cta.b64 _, [{}];", in(reg32) self.address(),
                options(nostack));
        }
    }

    /// Has the phase wait for `bytes` more bytes of asynchronous copies, and arrives.
    ///
    /// Lowers to `mbarrier.arrive.expect_tx.shared::cta.b64` (PTX ISA, `mbarrier.arrive`).
    ///
    /// # Safety
    /// As [`arrive`](SharedPtr::arrive); a phase waits for fewer than 2^20 bytes, and copies of
    /// exactly as many bytes complete on this barrier in this phase.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn arrive_expect(self, bytes: u32) {
        // SAFETY: the caller's promise.
        unsafe {
            asm!("mbarrier.arrive.expect_tx.shared::cta.b64 _, [{}], {};",
                in(reg32) self.address(), in(reg32) bytes, options(nostack));
        }
    }

    /// Has the phase wait for `bytes` more bytes of asynchronous copies, and does not arrive.
    ///
    /// Lowers to `mbarrier.expect_tx.relaxed.cta.shared::cta.b64` (PTX ISA, `mbarrier.expect_tx`).
    ///
    /// # Safety
    /// As [`arrive_expect`](SharedPtr::arrive_expect), but for the arrival; the phase cannot end
    /// before this call.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn expect(self, bytes: u32) {
        // SAFETY: the caller's promise.
        unsafe {
            asm!("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [{}], {};",
                in(reg32) self.address(), in(reg32) bytes, options(nostack));
        }
    }

    /// Whether the phase of this parity has ended; returns at once.
    ///
    /// Lowers to `mbarrier.test_wait.parity.shared::cta.b64` (PTX ISA, `mbarrier.test_wait`).
    ///
    /// # Safety
    /// As the block says; the phase is the current one or the one before.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn test(self, parity: Parity) -> bool {
        let ended: u32;
        // SAFETY: the caller's promise.
        unsafe {
            asm!("{{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [{}], {};",
                "selp.u32 {}, 1, 0, p; }}", in(reg32) self.address(), in(reg32) parity.0,
                out(reg32) ended, options(nostack));
        }
        ended != 0
    }

    /// Whether the phase of this parity has ended; the hardware may suspend the thread for a while
    /// before it says no.
    ///
    /// Lowers to `mbarrier.try_wait.parity.shared::cta.b64` (PTX ISA, `mbarrier.try_wait`).
    ///
    /// # Safety
    /// As [`test`](SharedPtr::test).
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn try_wait(self, parity: Parity) -> bool {
        let ended: u32;
        // SAFETY: the caller's promise.
        unsafe {
            asm!("{{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [{}], {};",
                "selp.u32 {}, 1, 0, p; }}", in(reg32) self.address(), in(reg32) parity.0,
                out(reg32) ended, options(nostack));
        }
        ended != 0
    }

    /// Waits until the phase of this parity has ended: a loop around
    /// [`try_wait`](SharedPtr::try_wait). What arrived threads did before, and the bytes that
    /// copies brought, are visible after.
    ///
    /// # Safety
    /// As [`test`](SharedPtr::test).
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn wait(self, parity: Parity) {
        // SAFETY: the caller's promise.
        while !unsafe { self.try_wait(parity) } {}
    }
}

impl ClusterPtr<Mbarrier> {
    /// Arrives at a barrier of any block of the cluster.
    ///
    /// Lowers to `mbarrier.arrive.shared::cluster.b64` (PTX ISA, `mbarrier.arrive`), without a
    /// scope on purpose: `.release.cluster` costs a memory barrier of the whole GPU (`MEMBAR`) at
    /// each call, which took two fifths of a matrix product's speed. The order that this leaves is
    /// that of this block. It suffices to say that a stage has been read by `wgmma`, or by loads
    /// whose values have been used, and may be overwritten; what was *written* for the other block
    /// is for [`cluster::sync`](crate::cluster::sync).
    ///
    /// # Safety
    /// The barrier is initialised and both blocks have met at a barrier of the cluster since; its
    /// block has not ended; no phase gets more arrivals than it was initialised with.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn arrive(self) {
        // SAFETY: the caller's promise.
        unsafe {
            asm!("mbarrier.arrive.shared::cluster.b64 _, [{}];", in(reg32) self.address(),
                options(nostack));
        }
    }
}

/// Makes this thread's [`init`](SharedPtr::init)s visible to the cluster and to the copy engine;
/// a barrier of the cluster (or of the block, where the barriers stay in it) comes behind it.
///
/// Lowers to `fence.mbarrier_init.release.cluster` and `fence.proxy.async.shared::cta` (PTX ISA,
/// `membar`/`fence`).
#[gpu_only]
#[inline(always)]
pub fn fence_init() {
    // SAFETY: a fence has no precondition.
    unsafe {
        asm!(
            "fence.mbarrier_init.release.cluster;",
            "fence.proxy.async.shared::cta;",
            options(nostack)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parities_alternate() {
        assert_eq!(
            [0, 1, 2, 7].map(Parity::of),
            [Parity::EVEN, Parity::ODD, Parity::EVEN, Parity::ODD]
        );
        assert_eq!(Parity::EVEN.flipped(), Parity::ODD);
        assert_eq!(Parity::ODD.flipped(), Parity::EVEN);
        assert_eq!(size_of::<Mbarrier>(), 8);
    }
}
