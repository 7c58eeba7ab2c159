//! A group's sums on their way to C.

use super::{GROUP_ROWS, Geometry, Operands, Rows64};
use crate::{Element, OutputTile, SharedTile};
use cuda_std::barrier::NamedBarrier;
use cuda_std::half::HalfExt;
use cuda_std::{fence, misc, mma, thread, tma, warp};
use gemm_spec::{C_BOXES, GemmParams};

/// Whether C's map is used: its rows are contiguous, and start and end at multiples of 16 bytes,
/// since the copy engine writes whole chunks of them.
#[inline(always)]
fn is_mappable<T>(start: *const T, p: &GemmParams<f32>) -> bool {
    let bytes = |elements: u64| elements.wrapping_mul(size_of::<T>() as u64);
    let at_chunks = start as u64 | bytes(p.c_row_stride as u64) | bytes(p.n);
    // The host has no map of rows that are further apart.
    let is_near = p.c_row_stride > 0 && p.c_row_stride < (1 << 40) / size_of::<T>() as i64;
    p.c_col_stride == 1 && is_near && at_chunks.is_multiple_of(16)
}

/// Finishes the sums of the group's rows and columns of C from (row, col) on, and writes them: past
/// shared memory by whole boxes, while the next tile is multiplied, or as [`by_rows`] does.
///
/// # Safety
///
/// As [`WarpGroup::write`](super::WarpGroup::write).
#[inline(always)]
pub unsafe fn by_boxes<T, G: Geometry, const SUMS: usize>(
    operands: &Operands<'_, T>,
    p: &GemmParams<f32>,
    at: (u64, u64),
    boxes: [SharedTile<Rows64<T>>; 2],
    group: usize,
    sums: &[f32; SUMS],
) where
    T: Element<Sum = f32, Output = T> + HalfExt,
{
    // SAFETY: the caller's promise.
    unsafe {
        if p.reads_c == 0 && is_mappable(operands.start, p) {
            if SUMS / 32 > C_BOXES {
                sync_all::<G>(group);
            } else {
                sync::<G>(group);
            }
            if at.0 < p.m {
                write_boxes::<T, G, SUMS>(operands, p, at, boxes, group, sums);
            }
        } else {
            by_rows(operands, p, at, sums);
        }
    }
}

/// Finishes the sums and writes them from the registers, in pairs where C allows it, else one by
/// one.
///
/// # Safety
///
/// As [`by_boxes`].
#[inline(always)]
pub unsafe fn by_rows<T: Element, const SUMS: usize>(
    operands: &Operands<'_, T>,
    p: &GemmParams<T::Sum>,
    at: (u64, u64),
    sums: &[T::Sum; SUMS],
) {
    // A tile of a cluster that reaches past the end of C.
    if at.0 >= p.m || at.1 >= p.n {
        return;
    }
    // N.B. Places of columns do not change from tile to tile. Unless the stride is a new number for
    // each, the compiler computes all of them before the first tile, and keeps them in memory.
    let fresh = GemmParams { c_col_stride: afresh(p.c_col_stride), ..*p };
    let tile = OutputTile::<T>::new(operands.start, &fresh, at, [GROUP_ROWS, 2 * SUMS]);
    // SAFETY: the caller's promise.
    unsafe {
        if tile.pairs {
            write_rows::<T, SUMS, true>(tile, p, sums);
        } else {
            write_rows::<T, SUMS, false>(tile, p, sums);
        }
    }
}

/// Waits until the boxes have been read, before any is written again or goes with the block: the
/// group's first warp, which started the copies.
///
/// # Safety
/// By all threads of the group.
#[inline(always)]
pub unsafe fn finish() {
    if thread::thread_idx_x() % 128 < 32 {
        tma::wait_group_read::<0>();
        // SAFETY: the whole warp is here.
        unsafe { warp::sync_warp(u32::MAX) };
    }
}

/// [`misc::afresh`] of both halves.
#[inline(always)]
fn afresh(stride: i64) -> i64 {
    let high = misc::afresh((stride >> 32) as u32);
    (u64::from(high) << 32 | u64::from(misc::afresh(stride as u32))) as i64
}

/// A thread's part of 16 columns, as [`place`](cuda_std::wgmma::place) of `wgmma` has it: two pairs
/// of neighbours, 8 columns apart, of a row and of the row 8 further down.
#[inline(always)]
fn part<S: Copy, const SUMS: usize>(sums: &[S; SUMS], q: usize) -> [[[S; 2]; 2]; 2] {
    let pair = |i: usize| [sums[8 * q + i], sums[8 * q + i + 1]];
    [[pair(0), pair(4)], [pair(2), pair(6)]]
}

/// The first of a thread's rows of the group's tile, and the first of its columns.
#[inline(always)]
fn place() -> (usize, usize) {
    let thread = thread::thread_idx_x() as usize % 128;
    (thread / 32 * 16 + thread % 32 / 4, thread % 4 * 2)
}

/// # Safety
/// As [`OutputTile::store_row`].
#[inline(always)]
unsafe fn write_rows<T: Element, const SUMS: usize, const PAIRS: bool>(
    tile: OutputTile<T>,
    p: &GemmParams<T::Sum>,
    sums: &[T::Sum; SUMS],
) {
    let (row, col) = place();
    for q in 0..SUMS / 8 {
        let mut part = part(sums, q);
        for r in 0..2 {
            let further = |j| 16 * q + 8 * j;
            // SAFETY: the caller's promise.
            unsafe { tile.store_row::<PAIRS>(p, row + 8 * r, col, further, &mut part[r]) };
        }
    }
}

/// Multiplies by alpha and rounds, puts the sums into shared memory as the copy engine reads them,
/// a box for 64 columns, and has the boxes copied.
///
/// # Safety
/// As [`by_boxes`]; no copy from the boxes is on its way.
#[inline(always)]
unsafe fn write_boxes<T, G: Geometry, const SUMS: usize>(
    operands: &Operands<'_, T>,
    p: &GemmParams<f32>,
    (row, col): (u64, u64),
    boxes: [SharedTile<Rows64<T>>; 2],
    group: usize,
    sums: &[f32; SUMS],
) where
    T: Element<Sum = f32, Output = T> + HalfExt,
{
    let thread = thread::thread_idx_x() % 128;
    let lane = thread % 32;
    // Matrices of 8 x 8: rows 0 to 7, then 8 to 15; of the first 8 columns, then of the next.
    let (to_row, to_col) = (thread / 32 * 16 + lane / 8 % 2 * 8 + lane % 8, lane / 16 * 8);
    // SAFETY: the boxes are free, and read by the copy engine when all threads have written.
    unsafe {
        let box_of = |i: usize| boxes[i / C_BOXES].add(i % C_BOXES);
        for i in 0..SUMS / 32 {
            for part in 0..4 {
                let sum = |j: usize| p.alpha * sums[32 * i + 8 * part + j];
                let pack = |j: usize| T::pack_gpu([sum(j), sum(j + 1)]);
                let to = box_of(i).element(to_row, part as u32 * 16 + to_col);
                mma::store_matrices(to, [pack(0), pack(2), pack(4), pack(6)]);
            }
        }
        fence::async_shared();
        sync::<G>(group);
        if thread == 0 {
            for i in 0..SUMS / 32 {
                let col = col + 64 * i as u64;
                if col < p.n {
                    tma::store(operands.c, [col as i32, row as i32], box_of(i));
                }
            }
            tma::commit_group();
        }
    }
}

/// Waits for the group's other threads.
///
/// # Safety
/// By all of them.
#[inline(always)]
unsafe fn sync<G: Geometry>(group: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match group {
            _ if G::GROUPS == 1 => NamedBarrier::<1, 128>.sync(),
            0 => NamedBarrier::<1, 128>.sync(),
            _ => NamedBarrier::<2, 128>.sync(),
        }
    }
}

/// Waits for the threads of all groups.
///
/// # Safety
/// By all of them.
#[inline(always)]
unsafe fn sync_all<G: Geometry>(group: usize) {
    const { assert!(G::GROUPS <= 2) };
    // SAFETY: the caller's promise.
    unsafe {
        match G::GROUPS {
            1 => sync::<G>(group),
            _ => NamedBarrier::<3, 256>.sync(),
        }
    }
}
