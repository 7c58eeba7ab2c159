//! Operands that no map describes, brought by a whole group.
//!
//! A warp reads a row of a tile at a time, as rows are contiguous: lane l its elements 2 l and
//! 2 l + 1, wherever they lie. So that a group does not wait for each, all of a step's are on their
//! way before the first is put down, in the place and the order in which the copy engine would.

use super::ring::Ring;
use super::tiles::Place;
use super::{GROUP_ROWS, Geometry, Rows64, Side, WarpGroup, Work, tiles_b};
use crate::{SharedTile, k_of};
use cuda_std::{fence, grid, misc, thread};

/// Threads that bring operands: all of a group.
pub const BRINGERS: u32 = 128;
/// Rows of a tile that a warp brings: every fourth.
const ROWS: usize = GROUP_ROWS / 4;

/// Brings the tiles of A and B of every step of every tile, as soon as a stage is empty.
///
/// # Safety
///
/// By all threads of the first group; the rest as [`multiply`](super::multiply).
#[inline(always)]
pub unsafe fn bring_elements<T, A, B, G, W, const SUMS: usize>(
    mut work: W,
    mut ring: Ring<G>,
    stages: SharedTile<Rows64<T>>,
) where
    T: WarpGroup,
    A: Side<T>,
    B: Side<T>,
    G: Geometry,
    W: Work<T, G>,
{
    const {
        let is_small = G::GROUPS == 1 && tiles_b(SUMS) == 1 && G::CLUSTER == 1;
        assert!(!W::IS_DIRECT || is_small && size_of::<T>() == 2);
    };
    // SAFETY: a stage is written after all its readers have given it back, and the copy engine's
    // and the tensor cores' way to it is fenced before the group says that it is full.
    unsafe {
        // Nothing was read so far that the kernel before this one may write.
        grid::wait_for_grids();
        while let Some(Place { row, col, slice, .. }) = work.next() {
            let p = work.params();
            let k = k_of(p, slice);
            let slices = [p.slices.a, p.slices.b].map(|bytes| i64::from(slice) * bytes);
            let [a, b] = work.sources();
            let a = a.wrapping_byte_offset(slices[0] as isize);
            let b = b.wrapping_byte_offset(slices[1] as isize);
            let a = Source::new::<A>(a, (row, p.m), (p.a_row_stride, p.a_col_stride));
            let b = Source::new::<B>(b, (col, p.n), (p.b_col_stride, p.b_row_stride));
            for step in 0..work.steps(slice) {
                let first_k = u64::from(step * T::DEPTH);
                let of_a = a.read::<A>(first_k, k);
                let of_b = b.read::<B>(first_k, k);
                ring.wait_empty();
                let stage = stages.add(ring.stage() * 2);
                put(stage, &of_a);
                put(stage.add(1), &of_b);
                fence::async_shared();
                ring.full().arrive();
                ring.next();
            }
        }
    }
}

/// A thread's part of an operand's tiles, in rows of 64 elements along the extent in which the
/// operand is contiguous.
struct Source<T> {
    /// The thread's first element of the first tile.
    start: *const T,
    /// Elements along the extent that C keeps that are left, 64 at most.
    outer_left: u32,
    /// From one to the next, and along K.
    outer_stride: i64,
    k_stride: i64,
}

/// Row of a tile that the thread's warp brings first, and the first of the thread's columns.
#[inline(always)]
fn place() -> (u32, u32) {
    let thread = thread::thread_idx_x();
    (thread / 32, thread % 32 * 2)
}

impl<T: WarpGroup> Source<T> {
    #[inline(always)]
    fn new<S: Side<T>>(
        start: *const T,
        (outer, extent): (u64, u64),
        (outer_stride, k_stride): (i64, i64),
    ) -> Self {
        let (row, col) = place();
        let (to_outer, to_k) = if S::ALONG_K { (row, col) } else { (col, row) };
        let offset =
            (outer as i64 + i64::from(to_outer)) * outer_stride + i64::from(to_k) * k_stride;
        Source {
            start: start.wrapping_offset(offset as isize),
            outer_left: extent.saturating_sub(outer).min(GROUP_ROWS as u64) as u32,
            outer_stride,
            k_stride,
        }
    }

    /// The thread's pairs of the tile that begins with `first_k` of `k`; 0 outside of the operand.
    ///
    /// # Safety
    /// The operand may be read.
    #[inline(always)]
    unsafe fn read<S: Side<T>>(&self, first_k: u64, k: u64) -> [[u16; 2]; ROWS] {
        let k_left = k.saturating_sub(first_k).min(GROUP_ROWS as u64) as u32;
        let (rows, cols) =
            if S::ALONG_K { (self.outer_left, k_left) } else { (k_left, self.outer_left) };
        let (down, across) = match S::ALONG_K {
            true => (self.outer_stride, self.k_stride),
            false => (self.k_stride, self.outer_stride),
        };
        let (row, col) = place();
        let start = self.start.wrapping_offset((first_k as i64 * self.k_stride) as isize);
        let mut pairs = [[0; 2]; ROWS];
        for i in 0..ROWS {
            let from = start.wrapping_offset((4 * i as i64 * down) as isize).cast::<u16>();
            let is_inside = row + 4 * (i as u32) < rows;
            // SAFETY: elements inside of the operand.
            pairs[i] = unsafe {
                [
                    misc::read_if(is_inside && col < cols, from),
                    misc::read_if(
                        is_inside && col + 1 < cols,
                        from.wrapping_offset(across as isize),
                    ),
                ]
            };
        }
        pairs
    }
}

/// Puts a thread's pairs into a tile.
///
/// # Safety
/// The tile is free.
#[inline(always)]
unsafe fn put<T>(tile: SharedTile<Rows64<T>>, pairs: &[[u16; 2]; ROWS]) {
    let tile: SharedTile<Rows64<u16>> = tile.cast();
    let (row, col) = place();
    for i in 0..ROWS {
        let word = u32::from(pairs[i][0]) | u32::from(pairs[i][1]) << 16;
        // SAFETY: the caller's promise; columns are even.
        unsafe { tile.element(row + 4 * i as u32, col).cast::<u32>().write(word) };
    }
}
