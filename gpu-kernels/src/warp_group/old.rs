//! C's old values on their way to what is added to them: into the boxes by which the sums leave,
//! and from there to the threads that have the sums, as these are put down later.

use super::finished::sums_of_box;
use super::swapped::{self, of_c};
use super::tiles::Place;
use super::write::{
    BoxOfC, Ways, element_of_box, is_mappable, place_of_rows, send, sync, thread_of_group,
    wait_for_copies, word,
};
use super::{GROUP_ROWS, Geometry, Operands, Rows64};
use crate::{Element, Output, SharedTile, Sum};
use cuda_std::{SharedPtr, async_copy, grid, misc, mma, tma};
use gemm_spec::{C_BOXES, GemmParams, c_row_bytes, swapped_box_rows};

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

/// Whether C's map describes it as a kernel has it, which may compute it transposed.
#[inline(always)]
fn has_boxes<T: Element, G: Geometry>(start: u64, p: &GemmParams<T::Sum>) -> bool {
    match G::SWAPS {
        true => T::is_plain(p) && is_mappable::<T::Output, _>(start, &of_c(p)),
        false => T::is_plain(p) && is_mappable::<T::Output, _>(start, p),
    }
}

/// Has the block's tile of C brought into the L2 cache, where its old values take part and its map
/// is used, while its sums are being computed.
///
/// # Safety
/// By one thread; the rest as [`write`].
#[inline(always)]
pub unsafe fn prefetch<T: Element, G: Geometry, const SUMS: usize>(
    operands: &Operands<T>,
    p: &GemmParams<T::Sum>,
    Place { row, col, slice, .. }: Place,
) {
    if p.reads_c == 0 || !has_boxes::<T, G>(operands.start as u64, p) {
        return;
    }
    let (bytes, batch) = (size_of::<T::Output>(), (slice * p.slices.map_batch) as i32);
    // Columns of the tile and rows of a group's part that are a box's.
    let [of_cols, of_rows] = match G::SWAPS {
        true => [swapped_box_rows(2 * SUMS, bytes), 128 / bytes],
        false => [c_row_bytes(2 * SUMS, bytes) / bytes, GROUP_ROWS],
    };
    for i in 0..(2 * SUMS).div_ceil(of_cols) {
        for j in 0..G::GROUPS * GROUP_ROWS / of_rows {
            let at = [(col as usize + i * of_cols) as i32, (row as usize + j * of_rows) as i32];
            let [first, second] = if G::SWAPS { [at[1], at[0]] } else { at };
            // SAFETY: there are maps, and the last is C's.
            unsafe { tma::prefetch(&*operands.maps[2], [first, second, batch]) };
        }
    }
}

/// Bytes of a line of the L2 cache.
const LINE: u64 = 128;

/// Has rows of the block's tile of C brought into the L2 cache, where its old values take part and
/// are read by rows, as [`prefetch`] has those that its map describes.
///
/// # Safety
/// By thread number `thread` of `threads`, each once; the rest as [`write`].
#[inline(always)]
pub unsafe fn prefetch_rows<T: Element, G: Geometry, const SUMS: usize>(
    operands: &Operands<T>,
    p: &GemmParams<T::Sum>,
    Place { row, col, slice, .. }: Place,
    (thread, threads): (u32, u32),
) {
    let start = operands.start as u64;
    let by_map = has_boxes::<T, G>(start, p);
    let of_c = of_c(p);
    let (rows, cols) = ((G::GROUPS * GROUP_ROWS) as u64, 2 * SUMS as u64);
    let (p, [row, col], [rows, cols]) = match G::SWAPS {
        true => (&of_c, [col, row], [cols, rows]),
        false => (p, [row, col], [rows, cols]),
    };
    if p.reads_c == 0 || by_map || p.c_col_stride != 1 || col >= p.n {
        return;
    }
    let size = size_of::<T::Output>() as u64;
    let last = ((p.n - col).min(cols) - 1) * size;
    let mut further = u64::from(thread);
    while further < rows && row + further < p.m {
        let first = (row + further) as i64 * p.c_row_stride + col as i64;
        let first = start.wrapping_add_signed(first * size as i64 + i64::from(slice) * p.slices.c);
        let mut byte = 0;
        while byte < last + LINE {
            // SAFETY: an element of the row; after whole lines its last one.
            unsafe { misc::prefetch_l2((first + byte.min(last)) as *const T::Output) };
            byte += LINE;
        }
        further += u64::from(threads);
    }
}

/// Has the first of them brought into the group's boxes before the products of a tile begin, so
/// that they are on their way together. Whether that was done: where the boxes are nothing else's
/// until then, and the sums of the tile at `at` are added there.
///
/// # Safety
/// By all threads of the group of number `group`, each with the number of its warp; the rest as
/// [`write`](super::write::write), whose sums are all of the tile's, with boxes among its ways.
#[inline(always)]
pub unsafe fn bring_early<T: Element, G: Geometry, const SUMS: usize>(
    operands: &Operands<T>,
    p: &GemmParams<T::Sum>,
    at: Place,
    boxes: SharedTile<BoxOfC>,
    (group, warp): (usize, u32),
) -> bool {
    let has_memory = G::PARTS == 1 && !G::IN_TURN && size_of::<T::Output>() == 2;
    if !has_memory || p.reads_c == 0 || !p.epilogue.is_none() {
        return false;
    }
    let operands = &operands.of_slice(p, at);
    let is_inside = at.row < p.m && at.col < p.n;
    if !is_inside || !has_boxes::<T, G>(operands.start as u64, p) {
        return false;
    }
    // SAFETY: the caller's promise; the boxes are free when all know that they have been read.
    unsafe {
        grid::wait_for_grids();
        wait_for_copies(warp);
        sync::<G>(group);
        match G::SWAPS {
            true => swapped::bring_box::<T, SUMS, 0>(operands, p, at, boxes.cast()),
            false => bring_boxes::<T, T::Output, SUMS>(operands, p, at, boxes.cast()),
        }
    }
    true
}

/// As `write_boxes` of [`write`](super::write), of a C whose old values take part. A loop over
/// boxes, as for epilogues; the first boxes are brought at one time, if they have not been, each
/// other one when the box is free that was sent before.
///
/// # Safety
/// As there; [`bring_early`] has brought what it is said to have.
#[inline(always)]
pub unsafe fn add_boxes<T: Element, C: Output<T::Sum>, G: Geometry, const SUMS: usize>(
    operands: &Operands<T>,
    p: &GemmParams<T::Sum>,
    at: Place,
    (boxes, group, ways): (SharedTile<Rows64<C>>, usize, Ways),
    sums: &[T::Sum; SUMS],
) {
    // Others have no boxes of such a C.
    if size_of::<C>() != 2 {
        return;
    }
    let (alpha, beta) = (C::factor(p.alpha), C::factor(p.beta));
    let (to_row, to_col) = place_of_rows();
    let all = const { SUMS.div_ceil(32) };
    // SAFETY: C's map is used; a box is free when it is brought, and sent when it is written.
    unsafe {
        if !ways.adds_brought {
            sync::<G>(group);
            bring_boxes::<T, C, SUMS>(operands, p, at, boxes);
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
            send::<T, G, SUMS>(operands, p, at, (boxes.cast(), group, ways.meet), i);
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

/// Has the old values of a tile's first boxes brought, of as many as there are.
///
/// # Safety
/// As [`bring_box`].
#[inline(always)]
unsafe fn bring_boxes<T: Element, C: Output<T::Sum>, const SUMS: usize>(
    operands: &Operands<T>,
    p: &GemmParams<T::Sum>,
    at: Place,
    boxes: SharedTile<Rows64<C>>,
) {
    const { assert!(C_BOXES == 2) };
    // SAFETY: the caller's promise.
    unsafe {
        bring_box::<T, C, SUMS>(operands, p, at, boxes, 0);
        if SUMS > 32 {
            bring_box::<T, C, SUMS>(operands, p, at, boxes, 1);
        }
    }
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
