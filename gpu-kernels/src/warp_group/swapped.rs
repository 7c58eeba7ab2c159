//! A group's sums on their way to C where the kernel computes C transposed, so that columns of the
//! group's tile are rows of C.

use super::tiles::Place;
use super::write::{
    BoxOfC, is_mappable, place, store_box, sync, thread_of_group, wait_for_copies, word,
};
use super::{GROUP_ROWS, Geometry, Operands};
use crate::{Element, Output, SharedTile, Sum};
use cuda_std::wgmma::Tile;
use cuda_std::{fence, mma, tma};
use gemm_spec::{C_BOXES, GemmParams, swapped_box_rows};

/// Columns of C in a box of elements of 32 bits, and rows.
const COLS: usize = 32;
const ROWS: usize = 32;

/// The block with C as it is, which is the transposed one of the kernel's.
#[inline(always)]
pub fn of_c<S: Sum>(p: &GemmParams<S>) -> GemmParams<S> {
    let [row, col] = [p.c_row_stride, p.c_col_stride];
    GemmParams { m: p.n, n: p.m, c_row_stride: col, c_col_stride: row, ..*p }
}

/// Multiplies by alpha and rounds, and transposes the sums on their way to shared memory, from
/// where the copy engine takes boxes of rows of C, as many as the tile has columns or half of them.
/// Whether that was done: where C's map is used.
///
/// # Safety
/// As [`write`](super::write::write).
#[inline(always)]
pub unsafe fn write_swapped<T: Element, G: Geometry, const SUMS: usize>(
    operands: &Operands<T>,
    p: &GemmParams<T::Sum>,
    at: Place,
    (boxes, group): (SharedTile<BoxOfC>, usize),
    sums: &[T::Sum; SUMS],
) -> bool {
    let of_box = const { swapped_box_rows(2 * SUMS, size_of::<T::Output>()) };
    let start = operands.start as u64;
    let is_mapped = is_mappable::<T::Output, _>(start, &of_c(p));
    if !T::is_plain(p) || p.reads_c != 0 || !is_mapped {
        return false;
    }
    if at.row >= p.m || at.col >= p.n {
        return true;
    }
    if size_of::<T::Output>() == 4 {
        // SAFETY: the caller's promise.
        unsafe { write_words::<T, G, SUMS>(operands, p, at, (boxes.cast(), group), sums) };
        return true;
    }
    // One box in the room of both.
    let boxes: SharedTile<Tile<T::Output, { 2 * GROUP_ROWS }>> = boxes.cast();
    let alpha = T::Output::factor(p.alpha);
    let (thread, batch) = (thread_of_group(), (at.slice * p.slices.map_batch) as i32);
    let (warp, lane) = (thread as u32 / 32, thread as u32 % 32);
    // Of a fragment of 16 rows and 16 columns: its columns are rows of the box.
    let (to_row, to_col) = (lane / 16 * 8 + lane % 8, warp * 16 + lane / 8 % 2 * 8);
    // SAFETY: a box is free when it is written, and read by the copy engine when all threads have.
    unsafe {
        for i in 0..2 * SUMS / of_box {
            if i > 0 {
                wait_for_copies(warp);
            }
            sync::<G>(group);
            for part in 0..of_box / 16 {
                let first = i * of_box / 2 + 8 * part;
                let value = |j: usize| alpha.mul(T::Output::convert(sums[first + j]));
                let pack = |j: usize| word(T::Output::narrow_pair([value(j), value(j + 1)]));
                let to = boxes.element(16 * part as u32 + to_row, to_col);
                mma::store_matrices_transposed(to, [pack(0), pack(2), pack(4), pack(6)]);
            }
            fence::async_shared();
            sync::<G>(group);
            let col = at.col + (i * of_box) as u64;
            if thread == 0 && col < p.n {
                store_box(operands, p, [at.row as i32, col as i32, batch], boxes);
                tma::commit_group();
            }
        }
    }
    true
}

/// The same of elements of 32 bits, by two boxes at a time, each of half of the group's columns of
/// C: two are put down while those before are copied. The last coordinate in C's map is the slice,
/// also of parts of K, whose sums have these bits.
///
/// # Safety
/// As [`write_swapped`]; C's map is used.
#[inline(always)]
unsafe fn write_words<T: Element, G: Geometry, const SUMS: usize>(
    operands: &Operands<T>,
    p: &GemmParams<T::Sum>,
    at: Place,
    (boxes, group): (SharedTile<Tile<T::Output, ROWS>>, usize),
    sums: &[T::Sum; SUMS],
) {
    const { assert!(swapped_box_rows(2 * SUMS, 4) == ROWS && C_BOXES == 2) };
    // Others have no kernels of these.
    const {
        let is_used = G::SWAPS && size_of::<T::Output>() == 4;
        assert!(!is_used || (2 * SUMS).is_multiple_of(ROWS));
    };
    let alpha = T::Output::factor(p.alpha);
    let thread = thread_of_group();
    let (to_col, to_row) = place();
    let (half, to_col) = (to_col / COLS, to_col % COLS);
    let all = 2 * SUMS / ROWS;
    // SAFETY: a box is free when it is written, and read by the copy engine when all threads have.
    unsafe {
        sync::<G>(group);
        for i in 0..all {
            let both = boxes.add(2 * (i % 2));
            let to = both.add(half);
            // Lanes of one column of C lie in four rows that are even, or odd, so that the swizzle
            // has them in banks of their own.
            for j in 0..ROWS / 2 {
                let value = alpha.mul(T::Output::convert(sums[ROWS / 2 * i + j]));
                let (row, col) = (to_row + j / 4 * 8 + j % 2, to_col + j / 2 % 2 * 8);
                to.element(row as u32, col as u32).write(T::Output::narrow(value));
            }
            fence::async_shared();
            // Those before, which are written next.
            if i > 0 && i + 1 < all {
                wait_for_copies((thread / 32) as u32);
            }
            sync::<G>(group);
            if thread == 0 {
                let col = at.col + (i * ROWS) as u64;
                for half in 0..2 {
                    let row = at.row + (half * COLS) as u64;
                    if col < p.n && row < p.m {
                        let to = both.add(half);
                        let at = [row as i32, col as i32, at.slice as i32];
                        store_box(operands, p, at, to);
                    }
                }
                tma::commit_group();
            }
        }
    }
}
