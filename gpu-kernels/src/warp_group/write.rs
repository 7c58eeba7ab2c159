//! A group's sums on their way to C.

use super::{GROUP_COLS, GROUP_ROWS, GROUPS, Operands, Rows64, Sums, TILES_B, WarpGroup};
use crate::{OutputTile, SharedTile};
use cuda_std::barrier::NamedBarrier;
use cuda_std::{fence, mma, thread, tma, wgmma};
use gemm_spec::GemmParams;

/// Whether C's map is used: its rows are contiguous, and start at multiples of 16 bytes.
#[inline(always)]
pub fn is_mappable<T>(start: *const T, p: &GemmParams<f32>) -> bool {
    let bytes = (p.c_row_stride as u64).wrapping_mul(size_of::<T>() as u64);
    p.c_col_stride == 1 && p.c_row_stride > 0 && (start as u64 | bytes).is_multiple_of(16)
}

/// Finishes the sums of the group's 64 x 256 elements of C from (row, col) on, and writes them: past
/// shared memory by whole boxes, while the next tile is multiplied, or one by one.
///
/// # Safety
///
/// By all threads of the group; `c` is the group's own shared memory; the rest as
/// [`multiply`](super::multiply).
#[inline(always)]
pub unsafe fn write<T: WarpGroup>(
    operands: &Operands<'_, T>,
    p: &GemmParams<f32>,
    (row, col): (u64, u64),
    c: SharedTile<Rows64<T>>,
    group: usize,
    sums: &mut Sums,
) where
    wgmma::MnMajor: wgmma::Major<T>,
{
    if row >= p.m {
        return;
    }
    let tile = OutputTile::<T>::new(operands.start, p, (row, col), [GROUP_ROWS, GROUP_COLS]);
    let boxes = is_mappable(operands.start, p);
    // SAFETY: the caller's promise.
    unsafe {
        match (boxes, tile.pairs) {
            (true, true) => finish_rows::<T, true>(tile, p, sums),
            (true, false) => finish_rows::<T, false>(tile, p, sums),
            (false, true) => store_rows::<T, true>(tile, p, sums),
            (false, false) => store_rows::<T, false>(tile, p, sums),
        }
        if boxes {
            write_boxes(operands, p, (row, col), c, group, sums);
        }
    }
}

/// Waits for the boxes that are on their way: shared memory goes when the block does.
///
/// # Safety
/// By all threads of the group.
#[inline(always)]
pub unsafe fn finish(_group: usize) {
    if thread::thread_idx_x() % 128 == 0 {
        // SAFETY: waits for copies of this thread.
        unsafe { tma::wait_group::<0>() };
    }
}

/// A thread's pairs of neighbours, of two rows, as [`wgmma::place`] has them: pair j of row r is
/// number 2 * j + r.
#[inline(always)]
fn pairs(sums: &Sums, r: usize) -> [[f32; 2]; GROUP_COLS / 8] {
    let mut pairs = [[0.0; 2]; GROUP_COLS / 8];
    for j in 0..GROUP_COLS / 8 {
        pairs[j] = [sums[4 * j + 2 * r], sums[4 * j + 2 * r + 1]];
    }
    pairs
}

/// The row of a thread's pairs number r of the group's tile, and the column of their first.
#[inline(always)]
fn place(r: usize) -> (usize, usize) {
    let thread = thread::thread_idx_x() as usize % 128;
    (thread / 32 * 16 + thread % 32 / 4 + 8 * r, thread % 4 * 2)
}

/// # Safety
/// As [`OutputTile::finish_row`].
#[inline(always)]
unsafe fn finish_rows<T: WarpGroup, const PAIRS: bool>(
    tile: OutputTile<T>,
    p: &GemmParams<f32>,
    sums: &mut Sums,
) where
    wgmma::MnMajor: wgmma::Major<T>,
{
    for r in 0..2 {
        let (mut pairs, (row, col)) = (pairs(sums, r), place(r));
        // SAFETY: the caller's promise.
        unsafe { tile.finish_row::<PAIRS>(p, row, col, |j| 8 * j, &mut pairs) };
        for j in 0..GROUP_COLS / 8 {
            [sums[4 * j + 2 * r], sums[4 * j + 2 * r + 1]] = pairs[j];
        }
    }
}

/// # Safety
/// As [`OutputTile::store_row`].
#[inline(always)]
unsafe fn store_rows<T: WarpGroup, const PAIRS: bool>(
    tile: OutputTile<T>,
    p: &GemmParams<f32>,
    sums: &Sums,
) where
    wgmma::MnMajor: wgmma::Major<T>,
{
    for r in 0..2 {
        let (mut pairs, (row, col)) = (pairs(sums, r), place(r));
        // SAFETY: the caller's promise.
        unsafe { tile.store_row::<PAIRS>(p, row, col, |j| 8 * j, &mut pairs) };
    }
}

/// Rounds the sums, puts them into shared memory as the copy engine reads them, four boxes of 64
/// columns, and has these copied.
///
/// # Safety
/// As [`write`].
#[inline(always)]
unsafe fn write_boxes<T: WarpGroup>(
    operands: &Operands<'_, T>,
    p: &GemmParams<f32>,
    (row, col): (u64, u64),
    c: SharedTile<Rows64<T>>,
    group: usize,
    sums: &Sums,
) where
    wgmma::MnMajor: wgmma::Major<T>,
{
    let thread = thread::thread_idx_x() % 128;
    let lane = thread % 32;
    // SAFETY: the shared memory is written when the last boxes have been read, and read by the copy
    // engine when all threads have written.
    unsafe {
        if thread == 0 {
            tma::wait_group_read::<0>();
        }
        sync(group);
        // Matrices of 8 x 8: rows 0 to 7, then 8 to 15; of the first 8 columns, then of the next.
        let (in_row, in_col) = (thread / 32 * 16 + lane / 8 % 2 * 8 + lane % 8, lane / 16 * 8);
        for q in 0..GROUP_COLS as u32 / 16 {
            let tile = c.add(q as usize / 4);
            let at = tile.element(in_row, q % 4 * 16 + in_col);
            let s = &sums[8 * q as usize..][..8];
            let pack = |i: usize| pack(T::narrow(s[i]), T::narrow(s[i + 1]));
            mma::store_matrices(at, [pack(0), pack(2), pack(4), pack(6)]);
        }
        fence::async_shared();
        sync(group);
        if thread == 0 {
            for i in 0..TILES_B {
                let col = col + 64 * i as u64;
                if col < p.n {
                    tma::store(operands.c, [col as i32, row as i32], c.add(i));
                }
            }
            tma::commit_group();
        }
    }
}

/// Two elements of 16 bits as a word, the first in its low half.
#[inline(always)]
fn pack<T: Copy>(first: T, second: T) -> u32 {
    const { assert!(size_of::<T>() == 2) };
    // SAFETY: a pair has as many bytes as a word.
    unsafe { core::mem::transmute_copy(&[first, second]) }
}

/// Waits for the group's other threads.
///
/// # Safety
/// By all of them.
#[inline(always)]
unsafe fn sync(group: usize) {
    const { assert!(GROUPS == 2) };
    // SAFETY: the caller's promise.
    unsafe {
        match group {
            0 => NamedBarrier::<1, 128>.sync(),
            _ => NamedBarrier::<2, 128>.sync(),
        }
    }
}
