//! A group's sums on their way to C where the kernel computes C transposed, so that columns of the
//! group's tile are rows of C.

use super::old::{self, OldBox, words};
use super::tiles::Place;
use super::write::{
    BoxOfC, Ways, is_mappable, place, store_box, sync, thread_of_group, wait_for_copies,
};
use super::{GROUP_ROWS, Geometry, Operands};
use crate::{Element, Output, SharedTile, Sum};
use cuda_std::wgmma::Tile;
use cuda_std::{async_copy, fence, mma, tma};
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
    (boxes, group, ways): (SharedTile<BoxOfC>, usize, Ways),
    sums: &[T::Sum; SUMS],
) -> bool {
    let start = operands.start as u64;
    let (reads, is_words) = (p.reads_c != 0, size_of::<T::Output>() == 4);
    let is_mapped = is_mappable::<T::Output, _>(start, &of_c(p));
    if !T::is_plain(p) || reads && is_words || !is_mapped {
        return false;
    }
    if at.row < p.m && at.col < p.n {
        // SAFETY: the caller's promise.
        unsafe { write_mapped::<T, G, SUMS>(operands, p, at, (boxes, group, ways), sums, reads) };
    }
    true
}

/// The same where C's map is used, with C's old values or without.
///
/// # Safety
/// As [`write_swapped`]; the tile begins in C.
#[inline(always)]
pub unsafe fn write_mapped<T: Element, G: Geometry, const SUMS: usize>(
    operands: &Operands<T>,
    p: &GemmParams<T::Sum>,
    at: Place,
    (boxes, group, ways): (SharedTile<BoxOfC>, usize, Ways),
    sums: &[T::Sum; SUMS],
    reads: bool,
) {
    let memory = (boxes.cast(), group, ways.adds_brought);
    // SAFETY: the caller's promise.
    unsafe {
        if size_of::<T::Output>() == 4 {
            write_words::<T, G, SUMS>(operands, p, at, (boxes.cast(), group), sums);
            return;
        }
        match reads {
            true => {
                write_box::<T, G, SUMS, true, 0>(operands, p, at, memory, sums);
                write_box::<T, G, SUMS, true, 1>(operands, p, at, memory, sums);
            }
            false => {
                write_box::<T, G, SUMS, false, 0>(operands, p, at, memory, sums);
                write_box::<T, G, SUMS, false, 1>(operands, p, at, memory, sums);
            }
        }
    }
}

/// A box of C of 16 bits, in the room of both.
pub type RowsOfC<C> = Tile<C, { 2 * GROUP_ROWS }>;

/// The same of elements of 16 bits: box number `I` of one or two, into which C's old values are
/// brought first where they take part, if they have not been.
///
/// # Safety
/// As [`write_swapped`]; C's map is used.
#[inline(always)]
unsafe fn write_box<
    T: Element,
    G: Geometry,
    const SUMS: usize,
    const READS: bool,
    const I: usize,
>(
    operands: &Operands<T>,
    p: &GemmParams<T::Sum>,
    at: Place,
    (boxes, group, is_brought): (SharedTile<RowsOfC<T::Output>>, usize, bool),
    sums: &[T::Sum; SUMS],
) {
    let of_box = const { swapped_box_rows(2 * SUMS, size_of::<T::Output>()) };
    const { assert!(size_of::<T::Output>() != 2 || of_box_fits(SUMS)) };
    if I * of_box >= 2 * SUMS {
        return;
    }
    let (alpha, beta) = (T::Output::factor(p.alpha), T::Output::factor(p.beta));
    let (thread, batch) = (thread_of_group(), (at.slice * p.slices.map_batch) as i32);
    let (warp, lane) = (thread as u32 / 32, thread as u32 % 32);
    // Of a fragment of 16 rows and 16 columns: its columns are rows of the box.
    let (to_row, to_col) = (lane / 16 * 8 + lane % 8, warp * 16 + lane / 8 % 2 * 8);
    let col = at.col + (I * of_box) as u64;
    // SAFETY: a box is free when it is written, and read by the copy engine when all threads have.
    unsafe {
        if I > 0 {
            wait_for_copies(warp);
        }
        if !READS || I > 0 || !is_brought {
            sync::<G>(group);
            if READS {
                bring_box::<T, SUMS, I>(operands, p, at, boxes);
            }
        }
        if READS {
            async_copy::wait_group::<0>();
            sync::<G>(group);
        }
        macro_rules! write_parts {
            ($($part:literal)*) => {$(
                if 16 * $part < of_box {
                    let first = I * of_box / 2 + 8 * $part;
                    let value = |j: usize| {
                        alpha.mul(T::Output::convert(sums[(first + j).min(SUMS - 1)]))
                    };
                    let mut values = core::array::from_fn(value);
                    let to = boxes.element(16 * $part + to_row, to_col);
                    if READS {
                        let old = mma::load_matrices_transposed(to);
                        old::add::<T::Output, T::Sum>(&mut values, beta, old);
                    }
                    mma::store_matrices_transposed(to, words::<T::Output, T::Sum>(&values));
                }
            )*};
        }
        write_parts!(0 1 2 3 4 5 6 7);
        fence::async_shared();
        sync::<G>(group);
        if thread == 0 && col < p.n {
            store_box(operands, p, [at.row as i32, col as i32, batch], boxes);
            tma::commit_group();
        }
    }
}

/// Has the old values of box number `I` brought into it.
///
/// # Safety
/// By all threads of a group; C's map is used, and the box is free.
#[inline(always)]
pub unsafe fn bring_box<T: Element, const SUMS: usize, const I: usize>(
    operands: &Operands<T>,
    p: &GemmParams<T::Sum>,
    at: Place,
    boxes: SharedTile<RowsOfC<T::Output>>,
) {
    let of_box = const { swapped_box_rows(2 * SUMS, size_of::<T::Output>()) };
    let col = at.col + (I * of_box) as u64;
    let further = col as i64 * p.c_col_stride + at.row as i64;
    let old = OldBox {
        start: operands.start.cast_const().wrapping_offset(further as isize),
        stride: p.c_col_stride,
        rows: p.n.saturating_sub(col),
        cols: p.m - at.row,
    };
    // SAFETY: the caller's promise.
    unsafe { old.bring(of_box, |row, col| boxes.element(row, col)) };
}

/// Whether a tile of so many sums a thread is one box of C or two, of 128 rows at most.
const fn of_box_fits(sums: usize) -> bool {
    let of_box = swapped_box_rows(2 * sums, 2);
    of_box <= 128 && 2 * sums / of_box <= 2
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
