//! Where the blocks of a cluster take parts of K of one tile: their sums meet in the first of them.
//!
//! The other block puts its sums into its own shared memory, from where the copy engine takes them
//! to the first, whose barriers count their bytes: a store to another block would have to be made
//! visible there by a fence that waits for the whole GPU. Each warp sends what the same warp of the
//! first block adds up, and those without rows of C nothing.

use super::write::{BoxOfC, sync, wait_for_copies};
use super::{GROUP_ROWS, Geometry, WarpGroup, Work};
use crate::{SharedTile, Sum};
use cuda_std::mbarrier::{Mbarrier, Parity};
use cuda_std::{cluster, fence, thread, tma, warp};

/// Warps of a group.
const WARPS: u32 = 4;
/// Rows of C of a warp.
const WARP_ROWS: u64 = GROUP_ROWS as u64 / WARPS as u64;

/// Where a warp's sums meet those of the other block.
#[derive(Clone, Copy)]
pub struct Meeting {
    /// The warp's number in its group.
    warp: u32,
    /// Its sums; in the first block, the other's.
    sums: SharedTile<u128>,
    /// They are here; in the first block.
    here: SharedTile<Mbarrier>,
    /// Those of all warps have been read, and their memory is not used any more; in the other one.
    read: SharedTile<Mbarrier>,
    /// Tiles so far, and those of which this warp had sums.
    tiles: u32,
    met: u32,
}

impl Meeting {
    /// Makes the barriers ready, one a warp and one for all.
    ///
    /// # Safety
    /// By one thread, before anybody uses them.
    #[inline(always)]
    pub unsafe fn init(barriers: SharedTile<Mbarrier>) {
        // SAFETY: the caller's promise.
        unsafe {
            for warp in 0..WARPS as usize {
                barriers.add(warp).init(1);
            }
            barriers.add(WARPS as usize).init(WARPS);
        }
    }

    /// That of a warp of the group, of a tile with so many sums a thread.
    ///
    /// # Safety
    /// The boxes hold a tile of sums.
    #[inline(always)]
    pub unsafe fn new<const SUMS: usize>(
        boxes: SharedTile<BoxOfC>,
        barriers: SharedTile<Mbarrier>,
        warp: u32,
    ) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            let sums = boxes.cast::<u128>().add(warp as usize * (SUMS / 4 * 32));
            let (here, read) = (barriers.add(warp as usize), barriers.add(WARPS as usize));
            Meeting { warp, sums, here, read, tiles: 0, met: 0 }
        }
    }

    /// Joins the warp's sums of a tile with the other block's, where it has rows of C, of which so
    /// many are left from the group's first one on. Whether they are all of them, and this block
    /// writes them.
    ///
    /// # Safety
    /// By all threads of the group of that number in both blocks; the barriers are ready, and no
    /// sums on their way.
    #[inline(always)]
    pub unsafe fn join<S: Sum, G: Geometry, const SUMS: usize>(
        &mut self,
        sums: &mut [S; SUMS],
        rows: u64,
        group: usize,
    ) -> bool {
        const { assert!(size_of::<S>() == 4) };
        let bytes = (SUMS / 4 * 32 * size_of::<u128>()) as u32;
        let has_rows = u64::from(self.warp) * WARP_ROWS < rows;
        let lane = thread::thread_idx_x() % 32;
        let is_first = cluster::block_rank() == 0;
        // SAFETY: each block writes and reads memory of its own; a copy ends before `here` does,
        // and the next one is started when these have been read.
        unsafe {
            if is_first {
                if has_rows {
                    if lane == 0 {
                        self.here.arrive_expect(bytes);
                    }
                    self.here.wait(Parity::of(self.met));
                    for i in 0..SUMS / 4 {
                        let word = self.sums.add(i * 32 + lane as usize).read();
                        let word: [S; 4] = core::mem::transmute_copy(&word);
                        for j in 0..4 {
                            sums[4 * i + j] = sums[4 * i + j].add(word[j]);
                        }
                    }
                }
                // Their memory is that of rows of C on their way, too.
                sync::<G>(group);
            } else if has_rows {
                self.end::<G>();
                for i in 0..SUMS / 4 {
                    let word: [S; 4] = core::array::from_fn(|j| sums[4 * i + j]);
                    self.sums.add(i * 32 + lane as usize).write(core::mem::transmute_copy(&word));
                }
                fence::async_shared();
                warp::sync_warp(u32::MAX);
                if lane == 0 {
                    tma::send(self.sums.in_block(0), self.sums, bytes, self.here.in_block(0));
                }
            }
        }
        self.met += u32::from(has_rows);
        self.tiles += 1;
        is_first
    }

    /// Tells the other block that its sums have been read and C written: this one no longer uses
    /// their memory.
    ///
    /// # Safety
    /// By all threads of the warp, of the first block.
    #[inline(always)]
    pub unsafe fn give_back<G: Geometry>(&self) {
        if G::PARTS == 1 {
            return;
        }
        // Rows of C may be on their way from there.
        // SAFETY: the caller's promise.
        unsafe { wait_for_copies(self.warp) };
        fence::async_shared();
        // SAFETY: the caller's promise; the other block waits for it before it ends.
        unsafe {
            warp::sync_warp(u32::MAX);
            if thread::thread_idx_x().is_multiple_of(32) {
                self.read.in_block(1).arrive();
            }
        }
    }

    /// Waits until the first block has given back what this one has sent, if it is another.
    ///
    /// # Safety
    /// By all threads of the warp.
    #[inline(always)]
    pub unsafe fn end<G: Geometry>(&self) {
        if G::PARTS > 1 && cluster::block_rank() != 0 && self.tiles > 0 {
            // SAFETY: the caller's promise.
            unsafe { self.read.wait(Parity::of(self.tiles - 1)) }
        }
    }
}

/// Joins a group's sums of a tile, from a row of C on, with those that other blocks of the cluster
/// have of it, or other clusters. Whether they are all of the tile's then, and this block writes
/// them.
///
/// # Safety
/// As [`Meeting::join`] or [`Work::join`].
#[inline(always)]
pub unsafe fn join<T: WarpGroup, G: Geometry, W: Work<T, G>, const SUMS: usize>(
    work: &W,
    meeting: &mut Meeting,
    sums: &mut [T::Sum; SUMS],
    (row, group): (u64, usize),
) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        match G::PARTS {
            1 => work.join(sums, group),
            _ => {
                let rows = work.params().m.saturating_sub(row);
                meeting.join::<T::Sum, G, SUMS>(sums, rows, group)
            }
        }
    }
}
