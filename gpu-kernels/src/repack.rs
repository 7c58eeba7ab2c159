//! Copies operands to rows along K, or along M and N for step 12, for kernels that read them in no
//! other way or are slower there.
//!
//! # Idea
//!
//! ```text
//! for each tile of so many rows of 128 bytes, in parallel:
//!     a source that is contiguous along its rows:   read 16 bytes, write them
//!     down its columns:   read 16 bytes of each of so many columns as make a word
//!                         put the words into shared memory, each into its row
//!                         write the rows, 16 bytes at a time
//! ```
//!
//! Where 16 bytes of the source do not start at a multiple of 16, they are cut out of the two
//! times 16 bytes that do.
//!
//! Elements are written as they are, or each as three bf16 that it is the sum of
//! ([`InSummands`]).
//!
//! # Mapping
//!
//! A block of 256 threads copies a tile. Each matrix has a layer of the grid, those of one operand
//! before those of the other. Where the source is contiguous down its columns, the lanes of a warp
//! read 64 bytes of each of 8 columns, or of twice or four times as many.
//!
//! # Shared memory
//!
//! The tile, for sources that are contiguous down their columns. In a row chunks of 16 bytes change
//! places by the row's number, so that words that are written together lie in different banks.
//!
//! # Preconditions
//!
//! Those of [`RepackParams`], and a grid of the larger of both operands' `Kernel::launches`. Any
//! strides; elements move by packs of 16 bytes where those of the source are contiguous and do not
//! begin or end its row or column, else one by one. Of the source nothing is read but its
//! elements. The targets start at a multiple of 16 bytes.

use crate::pack::{Words, cut};
use crate::{Packed, SharedTile, pack};
use cuda_std::half::{HalfExt, bf16, f16};
use cuda_std::{mma, thread};
use gemm_spec::{RepackParams, SPLIT, SPLIT_DEPTH};

/// Bytes of a tile's row: a line of memory.
const LINE: usize = 128;
/// Packs of 16 bytes in it.
const PACKS: usize = LINE / 16;
/// Words in it.
const WORDS: usize = LINE / 4;
/// Threads of a block.
const THREADS: usize = 256;

/// How elements are written.
pub trait Form {
    /// An element.
    type Source: Packed;
    /// One of the target.
    type Target: Copy;

    /// Columns to which rows of the target are written that have `cols` elements.
    #[inline(always)]
    fn cols(cols: u64) -> u64 {
        cols
    }

    /// Writes a pack of elements of the target's row, from column `col` on.
    ///
    /// # Safety
    /// The row has them, and may be written.
    unsafe fn write(row: *mut Self::Target, col: u64, pack: Words);
}

macro_rules! as_they_are {
    ($($element:ident)*) => {$(
        impl Form for $element {
            type Source = $element;
            type Target = $element;

            #[inline(always)]
            unsafe fn write(row: *mut $element, col: u64, pack: Words) {
                // SAFETY: the caller's promise.
                unsafe { pack::write_global(row.wrapping_add(col as usize).cast::<u32>(), pack) }
            }
        }
    )*};
}

as_they_are! { i8 f16 f32 }

/// Elements of f32 as three bf16 each, as `Kernel::splits_elements` says; with zeros to whole
/// [`SPLIT_DEPTH`].
pub struct InSummands;

impl Form for InSummands {
    type Source = f32;
    type Target = bf16;

    #[inline(always)]
    fn cols(cols: u64) -> u64 {
        cols.next_multiple_of(SPLIT_DEPTH as u64)
    }

    #[inline(always)]
    unsafe fn write(row: *mut bf16, col: u64, pack: Words) {
        let (block, within) = (col as usize / SPLIT_DEPTH, col as usize % SPLIT_DEPTH);
        let first = row.wrapping_add(block * SPLIT * SPLIT_DEPTH + within);
        let of = pack.map(|bits| summands(f32::from_bits(bits)));
        for i in 0..SPLIT {
            let pairs = [[of[0][i], of[1][i]], [of[2][i], of[3][i]]].map(bf16::pack_gpu);
            let words = u64::from(pairs[0]) | u64::from(pairs[1]) << 32;
            // SAFETY: the caller's promise; packs of four lie at multiples of 8 bytes.
            unsafe { first.wrapping_add(i * SPLIT_DEPTH).cast::<u64>().write(words) };
        }
    }
}

/// Three numbers that bf16 has, whose sum is `x`: the nearest, the one nearest to what is left, and
/// what is left then. All of it, unless that is less than bf16's least, for an `x` below 2^-110; of
/// infinity and NaN the first is all. The first is 0 of 0 alone, or infinity times it were NaN.
#[inline(always)]
fn summands(x: f32) -> [f32; SPLIT] {
    let nearest = |x: f32| bf16::from_f32_gpu(x).to_f32_gpu();
    if x.abs() < f32::INFINITY {
        let (rounded, sign) = (nearest(x), x.to_bits() & 0x8000_0000);
        // What is larger than bf16's largest is nearer to infinity, and less than half of its
        // least to 0.
        let first = if rounded.abs() == f32::INFINITY {
            f32::from_bits(x.to_bits() & 0xffff_0000)
        } else if rounded == 0.0 && x != 0.0 {
            f32::from_bits(sign | 0x0001_0000)
        } else {
            rounded
        };
        let second = nearest(x - first);
        [first, second, x - first - second]
    } else {
        [x, 0.0, 0.0]
    }
}

/// An operand that is copied, or none: its first element and that of its copy.
pub type Copied<F> = (*const <F as Form>::Source, *mut <F as Form>::Target, RepackParams);

/// Copies the block's tile, of `N` packs for each thread: of the first operand in its layers of the
/// grid, of the second in the others.
///
/// # Safety
///
/// By all threads of a block of `THREADS`; the pointers and the blocks of parameters describe
/// sources that may be read and targets that may be written, which nothing else touches meanwhile;
/// the tile is the block's own shared memory, at a multiple of 16 bytes, `N * THREADS` packs.
#[inline(always)]
pub unsafe fn repack<F: Form, const N: usize>(
    first: Copied<F>,
    second: Copied<F>,
    tile: SharedTile<u32>,
) {
    let (layer, of_first) = (thread::block_idx_z(), first.2.layers as u32);
    let is_first = layer < of_first;
    // Number by number. For blocks that are chosen as a whole ptxas takes 4 registers less and 8
    // instructions more, and small copies take half a microsecond longer.
    let (a, b) = (first.2, second.2);
    let p = RepackParams {
        layers: either(is_first, a.layers, b.layers),
        rows: either(is_first, a.rows, b.rows),
        cols: either(is_first, a.cols, b.cols),
        row_stride: either(is_first, a.row_stride, b.row_stride),
        col_stride: either(is_first, a.col_stride, b.col_stride),
        pitch: either(is_first, a.pitch, b.pitch),
        source_step: either(is_first, a.source_step, b.source_step),
        target_step: either(is_first, a.target_step, b.target_step),
    };
    let (source, target) =
        (either(is_first, first.0, second.0), either(is_first, first.1, second.1));
    let matrix = if is_first { layer } else { layer - of_first };
    // SAFETY: the caller's promise.
    unsafe { copy::<F, N>((source, target, p), matrix, tile) }
}

/// The first, or the second.
#[inline(always)]
fn either<X>(is_first: bool, first: X, second: X) -> X {
    if is_first { first } else { second }
}

/// Copies the block's tile of the operand's matrix number `matrix`, as far as it has one.
///
/// # Safety
/// As [`repack`].
#[inline(always)]
unsafe fn copy<F: Form, const N: usize>(
    (source, target, p): Copied<F>,
    matrix: u32,
    tile: SharedTile<u32>,
) {
    let source = source.wrapping_offset((i64::from(matrix) * p.source_step) as isize);
    let target = target.wrapping_offset((i64::from(matrix) * p.target_step) as isize);
    let row = u64::from(thread::block_idx_y()) * rows::<N>() as u64;
    let col = u64::from(thread::block_idx_x()) * (LINE / size_of::<F::Source>()) as u64;
    let cols = F::cols(p.cols);
    if row >= p.rows || col >= cols {
        return;
    }
    let number = thread::thread_idx_x() as usize;
    // Where the thread's packs go that it writes.
    let to: [_; N] = core::array::from_fn(|v| {
        let i = number + v * THREADS;
        (i / PACKS, i % PACKS)
    });
    let of_target = |(to_row, to_pack): (usize, usize)| {
        (row + to_row as u64, col + (to_pack * F::Source::LANES) as u64)
    };
    // SAFETY: only elements of the source are read, and rows of the target written to the end of
    // their pitch; the tile is read when all of it has been written.
    unsafe {
        let packs = if p.row_stride.unsigned_abs() < p.col_stride.unsigned_abs() {
            let from = down::<F::Source, N>(number).map(|(pack, of_col)| {
                let at = (row + (pack * F::Source::LANES) as u64, col + of_col as u64);
                Pieces::down(source, &p, at)
            });
            put::<F::Source, N>(tile, number, read(from));
            thread::sync_threads();
            to.map(|(row, pack)| pack::read_shared(tile.add(word::<F::Source>(row, pack * 4))))
        } else {
            read(to.map(|to| Pieces::across(source, &p, of_target(to))))
        };
        for v in 0..N {
            let (row, col) = of_target(to[v]);
            if row < p.rows && col < cols {
                F::write(target.wrapping_add((row * p.pitch) as usize), col, packs[v]);
            }
        }
    }
}

/// Rows of a tile of `N` packs for each thread.
const fn rows<const N: usize>() -> usize {
    N * THREADS / PACKS
}

/// Columns of a source of such elements whose elements of one row make a word.
const fn columns<T>() -> usize {
    4 / size_of::<T>()
}

/// Where the packs come from that a thread brings down the source's columns: the number of each,
/// downwards, and its column. Those of a word stand together.
///
/// Four packs below each other in eight words' columns are a warp's.
#[inline(always)]
fn down<T: Packed, const N: usize>(number: usize) -> [(usize, usize); N] {
    let groups_down = rows::<N>() / T::LANES / 4;
    core::array::from_fn(|v| {
        let (lane, group) = (number % 32, number / 32 + v / columns::<T>() * (THREADS / 32));
        let pack = group % groups_down * 4 + lane % 4;
        let word = group / groups_down * 8 + lane / 4;
        (pack, word * columns::<T>() + v % columns::<T>())
    })
}

/// The place of a word in the tile.
#[inline(always)]
fn word<T: Packed>(row: usize, word: usize) -> usize {
    row * WORDS + (word ^ (row / T::LANES % 4 * 8))
}

/// Puts the packs that [`down`] names into the tile, each word into its row.
///
/// # Safety
/// The thread alone touches these words.
#[inline(always)]
unsafe fn put<T: Packed, const N: usize>(tile: SharedTile<u32>, number: usize, packs: [Words; N]) {
    let places = down::<T, N>(number);
    let columns = columns::<T>();
    for word_of_thread in 0..N / columns {
        let v = word_of_thread * columns;
        let (pack, col) = places[v];
        for l in 0..T::LANES {
            // The element of each column, the first the lowest.
            let of = |c: usize| packs[v + c][l / columns];
            let words = match columns {
                1 => of(0),
                2 => mma::permute_bytes(of(0), of(1), if l % 2 == 0 { 0x5410 } else { 0x7632 }),
                _ => {
                    let pair =
                        |c| mma::permute_bytes(of(c), of(c + 1), 0x40 + 0x11 * (l as u32 % 4));
                    mma::permute_bytes(pair(0), pair(2), 0x5410)
                }
            };
            let to = word::<T>(pack * T::LANES + l, col / columns);
            // SAFETY: the caller's promise.
            unsafe { tile.add(to).write(words) };
        }
    }
}

/// As many elements as make a pack, along a row or column of the source.
#[derive(Clone, Copy)]
struct Pieces<T> {
    start: *const T,
    /// Elements of the row or column in front of the first, and from it on: 64 at most.
    before: u32,
    left: u32,
    /// Elements from one to the next.
    stride: i64,
}

impl<T: Packed> Pieces<T> {
    /// From (row, col) on down the column, as far as the source has that.
    #[inline(always)]
    fn down(source: *const T, p: &RepackParams, (row, col): (u64, u64)) -> Self {
        let left = if col < p.cols { p.rows.saturating_sub(row) } else { 0 };
        Pieces::new(source, p, (row, col), (row, left, p.row_stride))
    }

    /// From (row, col) on along the row, as far as the source has that.
    #[inline(always)]
    fn across(source: *const T, p: &RepackParams, (row, col): (u64, u64)) -> Self {
        let left = if row < p.rows { p.cols.saturating_sub(col) } else { 0 };
        Pieces::new(source, p, (row, col), (col, left, p.col_stride))
    }

    #[inline(always)]
    fn new(
        source: *const T,
        p: &RepackParams,
        (row, col): (u64, u64),
        (before, left, stride): (u64, u64, i64),
    ) -> Self {
        let offset = row as i64 * p.row_stride + col as i64 * p.col_stride;
        let start = source.wrapping_offset(offset as isize);
        Pieces { start, before: before.min(64) as u32, left: left.min(64) as u32, stride }
    }

    /// Bytes of the first element behind a multiple of 16.
    #[inline(always)]
    fn shift(&self) -> u32 {
        self.start as u32 % 16
    }

    /// Bytes to the second 16: where the first are all, it is they once more.
    #[inline(always)]
    fn second(&self) -> u32 {
        if self.shift() == 0 { 0 } else { 16 }
    }

    /// Whether the pack is contiguous, and so is what lies in the same chunks of 16 bytes, all of
    /// the same row or column.
    #[inline(always)]
    fn is_quick(&self) -> bool {
        let size = size_of::<T>() as u32;
        self.stride == 1
            && self.before * size >= self.shift()
            && self.left * size + self.shift() >= 16 + self.second()
    }

    /// The pack, out of two chunks.
    ///
    /// # Safety
    /// The elements may be read, and [`Self::is_quick`] says so.
    #[inline(always)]
    unsafe fn quick(&self) -> [Words; 2] {
        let first = self.start.wrapping_byte_sub(self.shift() as usize);
        let second = first.wrapping_byte_add(self.second() as usize);
        // SAFETY: the caller's promise.
        unsafe { [first, second].map(|chunk| pack::read_global(chunk.cast::<u32>())) }
    }

    /// The pack, element by element; 0 for those that there are not.
    ///
    /// # Safety
    /// The elements that there are may be read.
    #[inline(always)]
    unsafe fn one_by_one(&self) -> Words {
        let mut pack = T::ZEROS;
        for (l, element) in pack.as_mut().iter_mut().enumerate() {
            if (l as u32) < self.left {
                let at = self.start.wrapping_offset((l as i64 * self.stride) as isize);
                // SAFETY: the caller's promise.
                *element = unsafe { at.read() };
            }
        }
        // SAFETY: a pack is 16 bytes.
        unsafe { core::mem::transmute_copy(&pack) }
    }
}

/// Reads packs: all chunks are on their way before the first is used.
///
/// # Safety
/// The elements may be read.
#[inline(always)]
unsafe fn read<T: Packed, const N: usize>(packs: [Pieces<T>; N]) -> [Words; N] {
    // SAFETY: the caller's promise.
    unsafe {
        if packs.iter().all(Pieces::is_quick) {
            let chunks = packs.map(|of| of.quick());
            core::array::from_fn(|v| cut(chunks[v], packs[v].shift()))
        } else {
            packs.map(|of| of.one_by_one())
        }
    }
}

/// Makes entry points from rows of a list.
#[cfg(feature = "sm_90")]
macro_rules! entries {
    ($((
        $name:ident, $variant:literal, $element:ident, [$bm:literal, $bn:literal, 1], $warp:tt,
        [$tm:literal, $tn:literal], $stages:literal, $min_blocks:literal
    ),)*) => {$(
        #[doc = concat!("`repack` of elements as large as `", stringify!($element), "`, or to it.")]
        ///
        /// # Safety
        ///
        /// The pointers and the blocks describe sources that the grid may read and targets that it
        /// may write, which nothing else touches during the launch; the grid is the larger of both
        /// operands' `Kernel::launches`, with a layer for each of their matrices.
        #[cuda_std::kernel(max_threads = 256, min_blocks = $min_blocks)]
        pub unsafe fn $name(
            a: *const <$element as Form>::Source,
            copy_of_a: *mut <$element as Form>::Target,
            of_a: RepackParams,
            b: *const <$element as Form>::Source,
            copy_of_b: *mut <$element as Form>::Target,
            of_b: RepackParams,
        ) {
            const N: usize = $bm * PACKS / THREADS;
            const { assert!($bn * size_of::<<$element as Form>::Source>() == LINE) };
            const { assert!($bm == rows::<N>()) };
            const { assert!($bm * $bn / ($tm * $tn) == THREADS) };
            let tile = cuda_std::shared_array![u32; $bm * WORDS];
            // The kernel that reads the copy may get ready; the one before has ended.
            grid::launch_dependents();
            grid::wait_for_grids();
            // SAFETY: the tile is this block's own; the rest is the host's promise, passed on.
            unsafe { repack::<$element, N>((a, copy_of_a, of_a), (b, copy_of_b, of_b), tile) }
        }
    )*};
}

#[cfg(feature = "sm_90")]
use cuda_std::grid;
#[cfg(feature = "sm_90")]
#[allow(non_camel_case_types)] // As it stands in the table.
type bf16x6 = InSummands;
#[cfg(feature = "sm_90")]
gemm_spec::repack_kernels!(entries);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_is_the_sum_of_its_summands() {
        let some = [0x3f80_0000, 0x3fff_ffff, 0x3f80_8001, 0xc049_0fdb, 0x7f7f_ffff, 0x0900_0001];
        for bits in some.into_iter().chain((1u32..4000).map(|i| 0x2000_0000 + i * 0x3_1415)) {
            let x = f32::from_bits(bits);
            let of = summands(x);
            assert_eq!(of.map(f64::from).iter().sum::<f64>(), f64::from(x), "{x:e}");
            let is_bf16 = |x: &f32| x.is_finite() && x.to_bits().trailing_zeros() >= 16;
            assert!(of.iter().all(is_bf16), "{x:e}: {of:?}");
            let most = f64::from(x.abs()) / 128.0;
            assert!(f64::from(of[1].abs()) <= most, "{x:e}");
            assert!(f64::from(of[2].abs()) <= most / 256.0, "{x:e}");
        }
        for tiny in [0x0012_3457, 0x8000_0001, 0x0000_8000].map(f32::from_bits) {
            let [first, second, third] = summands(tiny);
            assert!(first != 0.0 && first + second + third == tiny, "{tiny:e}");
        }
        assert_eq!(summands(-0.0), [0.0; 3]);
        assert_eq!(summands(f32::NEG_INFINITY), [f32::NEG_INFINITY, 0.0, 0.0]);
        assert!(summands(f32::NAN)[0].is_nan());
    }

    #[test]
    fn packs_down_the_columns_cover_the_tile_once_and_meet_in_no_bank() {
        fn check<T: Packed, const N: usize>() {
            let mut seen = vec![false; rows::<N>() * WORDS];
            for warp in 0..THREADS / 32 {
                for v in (0..N).step_by(columns::<T>()) {
                    for l in 0..T::LANES {
                        let mut banks = [false; 32];
                        for lane in 0..32 {
                            let (pack, col) = down::<T, N>(warp * 32 + lane)[v];
                            let at = word::<T>(pack * T::LANES + l, col / columns::<T>());
                            assert!(!std::mem::replace(&mut seen[at], true));
                            assert!(!std::mem::replace(&mut banks[at % 32], true));
                        }
                    }
                }
            }
            assert!(seen.iter().all(|&seen| seen));
        }
        check::<i8, 4>();
        check::<f16, 2>();
        check::<f32, 2>();
    }
}
