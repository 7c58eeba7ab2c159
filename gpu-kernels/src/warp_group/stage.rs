//! What a stage of the ring holds, and how many of them there are.

use super::{GROUP_ROWS, Geometry, ROW_BYTES, Side, WarpGroup, Work};
use crate::SharedTile;
use cuda_std::barrier::NamedBarrier;
use cuda_std::{fence, misc, thread};
use gemm_spec::DIRECT_FURTHER_BYTES;

/// Boxes of B in a stage, for so many sums a thread: two columns each.
pub const fn boxes_b<T, B: Side<T>>(sums: usize) -> usize {
    (2 * sums).div_ceil(B::BOX)
}

/// A stage: boxes of A, then those of B.
#[derive(Clone, Copy)]
pub struct Stage {
    /// Its bytes: the tiles, and what chunks that hold their rows have more.
    pub bytes: usize,
    /// From its first byte to its tile of B.
    pub to_b: usize,
    /// Rows that are brought of a box of A, and of one of B.
    pub rows: [u32; 2],
    /// Boxes of A and of B, and rows of one of B.
    boxes: [usize; 2],
    box_b: usize,
}

impl Stage {
    /// Those of a kernel for that work.
    ///
    /// Where stages are as [small](Geometry::IS_FEW) as the rows of A allow, no row of A's tile
    /// stays empty: behind those that are brought lie B's, which are read in their place, and whose
    /// sums nobody writes.
    #[inline(always)]
    pub fn of<T, A, B, G, W, const SUMS: usize>(work: &W) -> Self
    where
        T: WarpGroup,
        A: Side<T>,
        B: Side<T>,
        G: Geometry,
        W: Work<T, G>,
    {
        const { assert!(!G::IS_FEW || G::GROUPS == 1 && 2 * SUMS >= GROUP_ROWS) };
        let (rows, boxes) = (work.box_rows::<A, B>(), [G::GROUPS, boxes_b::<T, B>(SUMS)]);
        let empty = if G::IS_FEW { GROUP_ROWS - rows[0] as usize } else { 0 };
        let to_b = (G::GROUPS * GROUP_ROWS - empty) * ROW_BYTES;
        let bytes = Stage::largest::<T, B, G, W, SUMS>() - empty * ROW_BYTES;
        Stage { bytes, to_b, rows, boxes, box_b: B::BOX }
    }

    /// Bytes of the largest, of which memory holds as many as the geometry has.
    pub const fn largest<T, B, G, W, const SUMS: usize>() -> usize
    where
        T: WarpGroup,
        B: Side<T>,
        G: Geometry,
        W: Work<T, G>,
    {
        let rows = G::GROUPS * GROUP_ROWS + boxes_b::<T, B>(SUMS) * B::BOX;
        rows * ROW_BYTES + if W::IS_DIRECT { DIRECT_FURTHER_BYTES } else { 0 }
    }

    /// How many of these it holds.
    #[inline(always)]
    pub fn count<T, B, G, W, const SUMS: usize>(self) -> u32
    where
        T: WarpGroup,
        B: Side<T>,
        G: Geometry,
        W: Work<T, G>,
    {
        if !G::IS_FEW {
            return G::STAGES as u32;
        }
        let all = (G::STAGES * Stage::largest::<T, B, G, W, SUMS>()) as u32;
        (all / self.bytes as u32).min(G::MOST_STAGES as u32)
    }

    /// Whether copies leave rows of some box that the instructions read.
    #[inline(always)]
    pub fn is_cleared<G: Geometry>(self) -> bool {
        let [rows_a, rows_b] = self.rows;
        !G::IS_FEW && rows_a < GROUP_ROWS as u32 || rows_b < self.box_b as u32
    }

    /// Writes zeros there, in so many stages.
    ///
    /// # Safety
    ///
    /// By the 96 threads of the first group that do not start copies.
    #[inline(always)]
    pub unsafe fn clear<G: Geometry>(self, stages: SharedTile<u8>, count: usize) {
        if !self.is_cleared::<G>() {
            return;
        }
        let [boxes_a, boxes_b] = self.boxes;
        let (first, boxes) = (if G::IS_FEW { boxes_a } else { 0 }, boxes_a + boxes_b);
        let of_stage = boxes - first;
        // SAFETY: the tiles are the block's own, and no copy touches these rows.
        unsafe {
            let mut number = misc::afresh(0) as usize;
            while number < count * of_stage {
                let (stage, i) = (number / of_stage, first + number % of_stage);
                let (start, brought, end) = match i.checked_sub(boxes_a) {
                    None => (i * GROUP_ROWS * ROW_BYTES, self.rows[0], GROUP_ROWS),
                    Some(i) => (self.to_b + i * self.box_b * ROW_BYTES, self.rows[1], self.box_b),
                };
                let of_box = stages.add(stage * self.bytes + start).cast::<u128>();
                // Chunks of 16 bytes, 8 a row.
                let mut chunk = (8 * brought + thread::thread_idx_x() - 32) as usize;
                while chunk < 8 * end {
                    of_box.add(chunk).write(0);
                    chunk += 96;
                }
                number += 1;
            }
            fence::async_shared();
            sync_cleared::<G>();
        }
    }

    /// Waits until they are written.
    ///
    /// # Safety
    /// By all threads of the groups that multiply.
    #[inline(always)]
    pub unsafe fn wait_cleared<G: Geometry>(self) {
        if self.is_cleared::<G>() {
            // SAFETY: the caller's promise.
            unsafe { sync_cleared::<G>() }
        }
    }
}

/// The groups that multiply meet those that clear.
///
/// # Safety
/// By all threads of the former, and by the latter.
#[inline(always)]
unsafe fn sync_cleared<G: Geometry>() {
    const { assert!(G::GROUPS <= 2) };
    // SAFETY: the caller's promise.
    unsafe {
        match G::GROUPS {
            1 => NamedBarrier::<4, 224>.sync(),
            _ => NamedBarrier::<4, 352>.sync(),
        }
    }
}
