//! Windows of B on their way to a lane of a [`skinny`](super) kernel.

use super::Share;
use super::packs::{read_shared, unpacked, write_shared};
use super::part_of_b::PartOfB;
use crate::{Element, SharedTile};
use cuda_std::async_copy;
use gemm_spec::GemmParams;

/// This lane's part of B, of which `PENDING` windows and one more are on their way in a ring of as
/// many slots of shared memory; or with `PENDING` 0 none, so that a window is read when it is
/// asked for.
///
/// A lane copies what it reads itself, so no other lane is waited for. Asynchronous copies take no
/// registers, which several rows of C leave none for.
pub struct Ahead<
    T,
    const L: usize,
    const P: usize,
    const C: usize,
    const ALONG_K: bool,
    const PENDING: u32,
> {
    columns: PartOfB<T, L, P, C, ALONG_K>,
    /// The lane's first pack of the first slot; packs of one lane are a warp's lanes apart.
    ring: SharedTile<[T; L]>,
    /// The slot of the window that comes next, in packs behind the first slot.
    slot: u32,
}

impl<
    T: Element,
    const L: usize,
    const P: usize,
    const C: usize,
    const ALONG_K: bool,
    const PENDING: u32,
> Ahead<T, L, P, C, ALONG_K, PENDING>
{
    /// Packs of a slot, of all lanes.
    const SLOT: u32 = 32 * P as u32;
    /// The same of all slots.
    const RING: u32 = if PENDING == 0 { 0 } else { Self::SLOT * (PENDING + 1) };

    /// With the first windows on their way, of `left` values of K.
    ///
    /// # Safety
    /// By all lanes of a warp; the ring lies at the front of `region`; B may be read.
    #[inline(always)]
    pub unsafe fn new(
        columns: PartOfB<T, L, P, C, ALONG_K>,
        p: &GemmParams<T::Sum>,
        share: Share,
        left: u64,
        region: SharedTile<T::Sum>,
    ) -> Self {
        const { assert!(PENDING == 0 || Self::RING.is_power_of_two()) };
        let mut ahead = Ahead { columns, ring: region.cast(), slot: 0 };
        // SAFETY: the lane's place in the ring, and the caller's promise.
        unsafe {
            ahead.ring = ahead.ring.add(share.lane);
            if PENDING > 0 {
                for i in 0..=PENDING {
                    let left = left.saturating_sub(u64::from(i) * share.step as u64);
                    ahead.start(p, share.step, left);
                }
            }
        }
        ahead
    }

    /// The lane's packs of the window that comes next, of which `left` values of k lie in B.
    ///
    /// # Safety
    /// B may be read.
    #[inline(always)]
    pub unsafe fn take(&self, p: &GemmParams<T::Sum>, left: u64) -> [[T; L]; P] {
        if PENDING > 0 {
            async_copy::wait_group::<PENDING>();
            let mut packs = [[T::ZEROS.as_ref()[0]; L]; P];
            // SAFETY: the lane's own packs, which have arrived.
            unsafe {
                let slot = self.ring.add(self.slot as usize);
                for q in 0..P {
                    packs[q] = unpacked(read_shared::<T, L>(slot.add(32 * q)));
                }
            }
            return packs;
        }
        // SAFETY: the caller's promise.
        unsafe { self.columns.load(p, left) }
    }

    /// Moves on to the next window, `step` further along K, when one of `left` has been taken.
    ///
    /// # Safety
    /// B may be read.
    #[inline(always)]
    pub unsafe fn advance(&mut self, p: &GemmParams<T::Sum>, step: usize, left: u64) {
        if PENDING == 0 {
            self.columns.advance(p, step);
        } else {
            let ahead = (PENDING as usize + 1) * step;
            // SAFETY: the slot's packs are in registers; and the caller's promise.
            unsafe { self.start(p, step, left.saturating_sub(ahead as u64)) };
        }
    }

    /// What of the region lies behind the ring.
    ///
    /// # Safety
    /// The region is the one that the ring was made in.
    #[inline(always)]
    pub unsafe fn behind(&self, region: SharedTile<T::Sum>) -> SharedTile<T::Sum> {
        // SAFETY: the caller's promise.
        unsafe { region.cast::<[T; L]>().add(Self::RING as usize).cast() }
    }

    /// Starts the copies of a window into the slot, a group of their own, and moves on to the next
    /// of both. What is no whole window comes by registers.
    ///
    /// # Safety
    /// As [`advance`](Ahead::advance).
    #[inline(always)]
    unsafe fn start(&mut self, p: &GemmParams<T::Sum>, step: usize, left: u64) {
        // SAFETY: the lane's own places; whole windows lie in the matrix, and packs are aligned.
        unsafe {
            let slot = self.ring.add(self.slot as usize);
            if self.columns.is_whole(left) {
                self.columns.each_place(p, |q, source| {
                    async_copy::copy_if(true, slot.add(32 * q), source.cast(), true);
                });
            } else if left > 0 {
                self.columns.each_gathered(p, left, |q, bits| {
                    write_shared(slot.add(32 * q), bits);
                });
            }
            async_copy::commit_group();
        }
        self.columns.advance(p, step);
        self.slot = (self.slot + Self::SLOT) % Self::RING;
    }
}
