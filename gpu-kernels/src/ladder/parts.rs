//! What several steps of the ladder do in the same way.

mod arrivals;
mod async_courier;
mod courier;
mod tile_courier;

pub use arrivals::Arrivals;
pub use async_courier::{AsyncCourier, TileShape};
pub use courier::Courier;
pub use tile_courier::TileCourier;

use crate::{Element, Epilogue, OutputTile, SharedTile, Sum, apply, pack};
use cuda_std::thread;
use gemm_spec::GemmParams;

/// A or B as one block sees it. Both have an extent that C keeps, the rows of A or the columns of
/// B, here called outer, and K.
#[derive(Clone, Copy)]
pub struct Operand<T> {
    /// The element at the block's first outer index and the step's first k.
    pub start: *const T,
    /// Elements from one outer index to the next.
    pub outer_stride: i64,
    /// Elements from one k to the next.
    pub k_stride: i64,
    /// Outer indices from the block's first to the end of the matrix.
    pub outer_left: u64,
}

impl<T: Element> Operand<T> {
    /// The rows of A from `row` on.
    #[inline(always)]
    pub fn a(a: *const T, p: &GemmParams<T::Sum>, row: u64) -> Self {
        Operand {
            start: a.wrapping_offset((row as i64 * p.a_row_stride) as isize),
            outer_stride: p.a_row_stride,
            k_stride: p.a_col_stride,
            outer_left: p.m - row,
        }
    }

    /// The columns of B from `col` on.
    #[inline(always)]
    pub fn b(b: *const T, p: &GemmParams<T::Sum>, col: u64) -> Self {
        Operand {
            start: b.wrapping_offset((col as i64 * p.b_col_stride) as isize),
            outer_stride: p.b_col_stride,
            k_stride: p.b_row_stride,
            outer_left: p.n - col,
        }
    }

    /// Moves on by `depth` along K.
    #[inline(always)]
    pub fn advance(&mut self, depth: usize) {
        self.start = self.start.wrapping_offset(depth as isize * self.k_stride as isize);
    }

    /// The address of an element, inside of the matrix or not.
    #[inline(always)]
    pub fn at(&self, outer: usize, k: usize) -> *const T {
        let offset = outer as i64 * self.outer_stride + k as i64 * self.k_stride;
        self.start.wrapping_offset(offset as isize)
    }

    /// This thread's `N` elements of a tile of `outer` x `depth` that `threads` threads load
    /// together, widened; 0 outside of the matrix. Element number e of the tile lies at (e / depth,
    /// e % depth) where the tile is stored along K, else at (e % outer, e / outer).
    ///
    /// # Safety
    /// The matrix may be read; `k_left` values of k are left of it.
    #[inline(always)]
    pub unsafe fn elements<const N: usize>(
        &self,
        [outer, depth]: [usize; 2],
        along_k: bool,
        threads: usize,
        k_left: u64,
    ) -> [T::Sum; N] {
        let mut elements = [T::Sum::ZERO; N];
        for (v, element) in elements.iter_mut().enumerate() {
            let e = thread::thread_idx_x() as usize + v * threads;
            let (o, k) = if along_k { (e / depth, e % depth) } else { (e % outer, e / outer) };
            if (o as u64) < self.outer_left && (k as u64) < k_left {
                // SAFETY: inside of the matrix.
                *element = unsafe { self.at(o, k).read() }.widen();
            }
        }
        elements
    }
}

/// Shared memory in stages, gone through from the first to the last and again.
///
/// N.B. Every address that a thread needs in a stage makes the hops by itself. As a sum of the
/// stage's start and the way within it each would be taken apart again: LLVM adds first what does
/// not change, and keeps one register for each read.
#[derive(Clone, Copy)]
pub struct Ring {
    /// Bytes from the first stage to the present one.
    at: u32,
    /// Bytes from one stage to the next, and from the first to the last.
    stage: u32,
    last: u32,
}

impl Ring {
    /// At the first of `stages` stages of `stage` bytes.
    #[inline(always)]
    pub fn new(stages: usize, stage: usize) -> Self {
        Ring { at: 0, stage: stage as u32, last: ((stages - 1) * stage) as u32 }
    }

    /// Goes to the next stage, which is so many bytes further.
    #[inline(always)]
    pub fn step(&mut self) -> isize {
        if self.at == self.last {
            self.at = 0;
            -(self.last as isize)
        } else {
            self.at += self.stage;
            self.stage as isize
        }
    }
}

/// Which rows, or which columns, of a block's tile a thread computes: groups of neighbours, as many
/// as a 16-byte pack of sums holds, `gap` apart.
#[derive(Clone, Copy)]
pub struct Spread {
    /// The first one.
    pub first: usize,
    /// From the start of one group to the start of the next.
    pub gap: usize,
}

impl Spread {
    /// The place of the thread's row or column number `i`.
    #[inline(always)]
    pub fn at<S: Sum>(self, i: usize) -> usize {
        self.first + self.further::<S>(i)
    }

    /// How far that is behind the first one.
    #[inline(always)]
    pub fn further<S: Sum>(self, i: usize) -> usize {
        i / S::LANES * self.gap + i % S::LANES
    }

    /// The thread's elements of one row of a tile in shared memory, 16 bytes at a time.
    ///
    /// # Safety
    /// The row lies in shared memory, at a multiple of 16 bytes, and holds what this thread may
    /// read.
    #[inline(always)]
    pub unsafe fn read<S: Sum, const N: usize>(self, row: SharedTile<S>) -> [S; N] {
        let mut values = [S::ZERO; N];
        for group in 0..N / S::LANES {
            // SAFETY: the caller's promise.
            let lanes = unsafe { pack::read_shared(row.add(self.first + group * self.gap)) };
            for (l, &value) in lanes.as_ref().iter().enumerate() {
                values[group * S::LANES + l] = value;
            }
        }
        values
    }
}

/// Adds the outer product of a column of A's tile and a row of B's to the thread's sums.
///
/// N.B. In pairs of rows, there and back again along the columns, so that neighbouring products
/// share factors: counters fit a multiprocessor that reads one register of each of its two banks
/// in a cycle and keeps the operands of the last two instructions. ptxas keeps this order. It was
/// the fastest of four that were tried, by 1 to 2 % on an H100 (docs/performance.md).
#[inline(always)]
pub fn outer_product<S: Sum, const TM: usize, const TN: usize>(
    a: &[S; TM],
    b: &[S; TN],
    sums: &mut [[S; TN]; TM],
) {
    for pair in 0..TM.div_ceil(2) {
        for step in 0..TN {
            let j = if pair % 2 == 0 { step } else { TN - 1 - step };
            for i in 2 * pair..TM.min(2 * pair + 2) {
                sums[i][j] = a[i].mul_add(b[j], sums[i][j]);
            }
        }
    }
}

/// Multiplies the tiles of one step. Both hold a row for each k: A's the rows of A (so it is
/// transposed), B's the columns of B.
///
/// # Safety
/// The tiles have `depth` rows of `pitch` elements in shared memory, which this thread may read.
#[inline(always)]
pub unsafe fn multiply<S: Sum, const TM: usize, const TN: usize>(
    depth: usize,
    (tile_a, pitch_a, rows): (SharedTile<S>, usize, Spread),
    (tile_b, pitch_b, cols): (SharedTile<S>, usize, Spread),
    sums: &mut [[S; TN]; TM],
) {
    for k in 0..depth {
        // SAFETY: k < depth.
        let (a, b) =
            unsafe { (rows.read(tile_a.add(k * pitch_a)), cols.read(tile_b.add(k * pitch_b))) };
        outer_product(&a, &b, sums);
    }
}

/// Applies an epilogue to the thread's sums, which [`store_tile`] writes.
///
/// # Safety
/// As [`apply`].
#[inline(always)]
pub unsafe fn finish_tile<T: Element, E: Epilogue<T>, const TM: usize, const TN: usize>(
    epilogue: E,
    p: &GemmParams<T::Sum>,
    (row, rows): (u64, Spread),
    (col, cols): (u64, Spread),
    sums: &mut [[T::Sum; TN]; TM],
) {
    if E::IS_PLAIN {
        return;
    }
    for i in 0..TM {
        let row = row + rows.at::<T::Sum>(i) as u64;
        let at = |j| (row, col + cols.at::<T::Sum>(j) as u64);
        // SAFETY: the caller's promise.
        unsafe { apply(epilogue, p, &mut sums[i], at) };
    }
}

/// Writes the thread's sums to the block's tile of C, whose first element is (row, col).
///
/// # Safety
/// As [`OutputTile::store_singles`].
#[inline(always)]
pub unsafe fn store_tile<T: Element, const TM: usize, const TN: usize>(
    (c, block): (*mut T::Output, [usize; 3]),
    p: &GemmParams<T::Sum>,
    (row, rows): (u64, Spread),
    (col, cols): (u64, Spread),
    sums: [[T::Sum; TN]; TM],
) {
    const { assert!(TN.is_multiple_of(2)) };
    let tile = OutputTile::new(c, p, (row, col), [block[0], block[1]]);
    // SAFETY: the caller's promise.
    unsafe {
        match tile.has_plain_pairs::<T>(p) {
            true => store_rows::<T, TM, TN, true>(tile, p, (rows, cols), sums),
            false => store_rows::<T, TM, TN, false>(tile, p, (rows, cols), sums),
        }
    }
}

/// # Safety
/// As [`store_tile`]; PAIRS is [`OutputTile::has_plain_pairs`].
#[inline(always)]
unsafe fn store_rows<T: Element, const TM: usize, const TN: usize, const PAIRS: bool>(
    tile: OutputTile,
    p: &GemmParams<T::Sum>,
    (rows, cols): (Spread, Spread),
    mut sums: [[T::Sum; TN]; TM],
) {
    for (i, sums) in sums.iter_mut().enumerate() {
        let (row, further) = (rows.at::<T::Sum>(i), |i| cols.further::<T::Sum>(2 * i));
        let (pairs, _) = sums.as_chunks_mut();
        // SAFETY: the caller's promise.
        unsafe {
            match PAIRS {
                true => tile.store_pairs::<_, T::Output>(p, row, cols.first, further, pairs),
                false => tile.store_singles::<T>(p, row, cols.first, further, pairs),
            }
        }
    }
}

/// Number of the warp in its block, and of the lane in its warp.
#[inline(always)]
pub fn warp_and_lane() -> (usize, usize) {
    let thread = thread::thread_idx_x() as usize;
    (thread / 32, thread % 32)
}

/// Where a thread's rows and columns of the block's tile lie when C is dealt out by warps: warps
/// row by row over the block, lanes row by row over the warp, each lane's groups spread over its
/// warp's tile so that neighbours read neighbouring packs of shared memory.
#[inline(always)]
pub fn in_warp_tile<S: Sum>(
    thread_number: usize,
    block_cols: usize,
    warp: [usize; 2],
    thread: [usize; 2],
) -> (Spread, Spread) {
    let (number, lane) = (thread_number / 32, thread_number % 32);
    let warps_across = block_cols / warp[1];
    let lanes_across = warp[1] / thread[1];
    let spread = |number: usize, lane: usize, axis: usize| Spread {
        first: number * warp[axis] + lane * S::LANES,
        gap: warp[axis] / thread[axis] * S::LANES,
    };
    (
        spread(number / warps_across, lane / lanes_across, 0),
        spread(number % warps_across, lane % lanes_across, 1),
    )
}
