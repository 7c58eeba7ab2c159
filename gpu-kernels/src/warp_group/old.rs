//! C's old values on their way to what is added to them: into the boxes by which the sums leave,
//! and from there to the threads that have the sums, as these are put down later.

use super::finished::sums_of_box;
use super::tiles::Place;
use super::write::{element_of_box, place_of_rows, send, sync, thread_of_group, word};
use super::{GROUP_ROWS, Geometry, Operands, Rows64};
use crate::{Element, Output, SharedTile, Sum};
use cuda_std::{SharedPtr, async_copy, misc, mma};
use gemm_spec::{C_BOXES, GemmParams};

/// Columns of a chunk of 16 bytes, and of a box.
const CHUNK: u32 = 8;
const CHUNKS: u32 = 8;

/// Rows and columns of C from a box's first on, and where they are.
#[derive(Clone, Copy)]
pub struct OldBox<C> {
    pub start: *const C,
    /// Elements from row to row.
    pub stride: i64,
    /// How many of the box's rows and columns are wanted: zeros take the place of others.
    pub rows: u64,
    pub cols: u64,
}

impl<C> OldBox<C> {
    /// Starts the copies of so many rows of 64 columns, a multiple of 16, to where `place` says, by
    /// rows and columns.
    ///
    /// # Safety
    /// By all threads of a group. C's elements have 16 bits, and its rows are whole chunks; the
    /// places are in a box that is free, a chunk behind each that is asked for.
    #[inline(always)]
    pub unsafe fn bring(self, rows: usize, place: impl Fn(u32, u32) -> SharedPtr<C>) {
        let thread = thread_of_group() as u32;
        let (first, col) = (thread / CHUNKS, thread % CHUNKS * CHUNK);
        let further = i64::from(first) * self.stride + i64::from(col);
        let mut source = self.start.wrapping_offset(further as isize);
        for i in 0..rows as u32 / 16 {
            let row = first + 16 * i;
            let wanted = u64::from(row) < self.rows && u64::from(col) < self.cols;
            // SAFETY: the caller's promise; what is wanted lies in C.
            unsafe {
                async_copy::copy_if::<u128>(true, place(row, col).cast(), source.cast(), wanted);
            }
            source = async_copy::walk(source, 32 * self.stride);
        }
        async_copy::commit_group();
    }
}

/// Adds beta times the old values to those of a thread that `mma::store_matrices` is to put where
/// `mma::load_matrices` has found `old`.
#[inline(always)]
pub fn add<C: Output<S>, S: Sum>(values: &mut [C::Factor; 8], beta: C::Factor, old: [u32; 4]) {
    // Others are not in boxes.
    if size_of::<C>() != 2 {
        return;
    }
    for i in 0..8 {
        // SAFETY: a word is two elements.
        let pair: [C; 2] = unsafe { core::mem::transmute_copy(&old[i / 2]) };
        values[i] = beta.mul_add(pair[i % 2].widen(), values[i]);
    }
}

/// As `write_boxes` of [`write`](super::write), of a C whose old values take part. A loop over
/// boxes, as for epilogues; the first boxes are brought at one time, each other one when the box is
/// free that was sent before.
///
/// # Safety
/// As there.
#[inline(always)]
pub unsafe fn add_boxes<T: Element, C: Output<T::Sum>, G: Geometry, const SUMS: usize>(
    operands: &Operands<T>,
    p: &GemmParams<T::Sum>,
    at: Place,
    (boxes, group, meet): (SharedTile<Rows64<C>>, usize, bool),
    sums: &[T::Sum; SUMS],
) {
    const { assert!(C_BOXES == 2) };
    // Others have no boxes of such a C.
    if size_of::<C>() != 2 {
        return;
    }
    let (alpha, beta) = (C::factor(p.alpha), C::factor(p.beta));
    let (to_row, to_col) = place_of_rows();
    let all = const { SUMS.div_ceil(32) };
    // SAFETY: C's map is used; a box is free when it is brought, and sent when it is written.
    unsafe {
        sync::<G>(group);
        bring_box::<T, C, SUMS>(operands, p, at, boxes, 0);
        if all > 1 {
            bring_box::<T, C, SUMS>(operands, p, at, boxes, 1);
        }
        let mut i = misc::afresh(0) as usize;
        loop {
            match i == 0 && all > 1 {
                true => async_copy::wait_group::<1>(),
                false => async_copy::wait_group::<0>(),
            }
            sync::<G>(group);
            let of_box = sums_of_box(sums, i);
            let of_c = boxes.add(i % C_BOXES);
            macro_rules! add_parts {
                ($($part:literal)*) => {$(
                    let to = element_of_box::<C, SUMS>(of_c, to_row, ($part, to_col));
                    let value = |j: usize| alpha.mul(C::convert(of_box[8 * $part + j]));
                    let mut values = core::array::from_fn(value);
                    add::<C, T::Sum>(&mut values, beta, mma::load_matrices(to));
                    mma::store_matrices(to, words::<C, T::Sum>(&values));
                )*};
            }
            add_parts!(0 1 2 3);
            send::<T, G, SUMS>(operands, p, at, (boxes.cast(), group, meet), i);
            if i > 0 && i + 1 < all {
                bring_box::<T, C, SUMS>(operands, p, at, boxes, i + 1);
            }
            i = misc::afresh(i as u32 + 1) as usize;
            if i == all {
                break;
            }
        }
    }
}

/// A thread's values of a part, rounded to pairs of elements.
#[inline(always)]
pub fn words<C: Output<S>, S: Sum>(values: &[C::Factor; 8]) -> [u32; 4] {
    core::array::from_fn(|i| word(C::narrow_pair([values[2 * i], values[2 * i + 1]])))
}

/// Has the old values of box number `i` of a tile brought into it, as far as they lie in the tile.
///
/// # Safety
/// As [`add_boxes`]; the box is free.
#[inline(always)]
unsafe fn bring_box<T: Element, C: Output<T::Sum>, const SUMS: usize>(
    operands: &Operands<T>,
    p: &GemmParams<T::Sum>,
    at: Place,
    boxes: SharedTile<Rows64<C>>,
    i: usize,
) {
    let (col, of_tile) = (at.col + 64 * i as u64, (2 * SUMS - 64 * i) as u64);
    let further = at.row as i64 * p.c_row_stride + col as i64;
    let old = OldBox {
        start: operands.start.cast::<C>().cast_const().wrapping_offset(further as isize),
        stride: p.c_row_stride,
        rows: p.m - at.row,
        cols: p.n.saturating_sub(col).min(of_tile),
    };
    // SAFETY: the caller's promise.
    unsafe {
        let of_c = boxes.add(i % C_BOXES);
        old.bring(GROUP_ROWS, |row, col| {
            element_of_box::<C, SUMS>(of_c, row, (col as usize / 16, col % 16))
        });
    }
}
