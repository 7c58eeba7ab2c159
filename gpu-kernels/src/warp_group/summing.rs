//! What becomes of the products of a step: they stay in the tensor cores' sums, or are multiplied
//! by scales and added to others.

use super::side::Part;
use super::{Side, WarpGroup, multiply_stage, write};
use cuda_std::wgmma::{self, Accumulate, Accumulator};
use cuda_std::{GpuFloat, grid, thread, warp};
use gemm_spec::{GemmParams, SCALE_BLOCK, ScaleParams};

/// How a group sums up the products of its tile.
pub trait Summing<T: WarpGroup, const SUMS: usize>: Copy
where
    [T::Sum; SUMS]: Accumulator<T>,
{
    /// What it has to know of a tile, and its own registers.
    type Tile;

    /// Accumulators that steps take in turn.
    const TURNS: usize;

    /// Whether products get epilogues.
    const EPILOGUES: bool;

    /// Whether there is something to multiply first, so that the stage before goes back early.
    const IN_TWO: bool = false;

    /// Begins the tile of the group's rows and columns of C from `at` on.
    ///
    /// # Safety
    /// As [`multiply`](super::multiply); by all threads of the group.
    unsafe fn begin(self, p: &GemmParams<T::Sum>, at: (u64, u64)) -> Self::Tile;

    /// Multiplies the part of a stage that comes first, if there is one. The products of the step
    /// before are done when it returns.
    ///
    /// # Safety
    /// By all threads of the group, on tiles that have arrived.
    #[inline(always)]
    unsafe fn multiply_first<A: Side<T>, B: Side<T>>(
        _tile: &mut Self::Tile,
        _a: [Part<T, A>; 4],
        _b: [Part<T, B>; 4],
    ) {
    }

    /// Multiplies a stage, in accumulator number `turn`. The products of the step before are done
    /// when it returns, and added up; these go on.
    ///
    /// # Safety
    /// By all threads of the group, on tiles that have arrived.
    unsafe fn multiply<A: Side<T>, B: Side<T>>(
        tile: &mut Self::Tile,
        sums: &mut [T::Sum; SUMS],
        a: [Part<T, A>; 4],
        b: [Part<T, B>; 4],
        turn: usize,
        is_first: bool,
    );

    /// Behind the last step, where there are several accumulators: waits for its products, in that
    /// of number `turn`, and adds them up.
    ///
    /// # Safety
    /// By all threads of the group.
    unsafe fn end_turns(tile: &mut Self::Tile, sums: &mut [T::Sum; SUMS], turn: usize);

    /// Behind that, and what is done meanwhile: the sums are there.
    ///
    /// # Safety
    /// By all threads of the group.
    unsafe fn end(sums: &mut [T::Sum; SUMS]);
}

/// The sums stay where they are from step to step.
#[derive(Clone, Copy)]
pub struct InPlace;

impl<T: WarpGroup, const SUMS: usize> Summing<T, SUMS> for InPlace
where
    [T::Sum; SUMS]: Accumulator<T>,
{
    type Tile = ();
    const TURNS: usize = 1;
    const EPILOGUES: bool = true;

    #[inline(always)]
    unsafe fn begin(self, _: &GemmParams<T::Sum>, _: (u64, u64)) {}

    #[inline(always)]
    unsafe fn multiply<A: Side<T>, B: Side<T>>(
        _: &mut (),
        sums: &mut [T::Sum; SUMS],
        a: [Part<T, A>; 4],
        b: [Part<T, B>; 4],
        _: usize,
        is_first: bool,
    ) {
        let start = if is_first { Accumulate::Start } else { Accumulate::Continue };
        // SAFETY: the caller's promise.
        unsafe {
            multiply_stage::<T, A, B, _>(sums, a, b, start);
            wgmma::commit_group();
            wgmma::wait_group::<1, _>(sums);
        }
    }

    #[inline(always)]
    unsafe fn end_turns(_: &mut (), _: &mut [T::Sum; SUMS], _: usize) {}

    #[inline(always)]
    unsafe fn end(sums: &mut [T::Sum; SUMS]) {
        // SAFETY: the caller's promise.
        unsafe { wgmma::wait_group::<0, _>(sums) }
    }
}

/// Each step's sums are multiplied by the scales of its rows and columns, and added up in f32,
/// while the next step's products go on, in the other of two accumulators.
///
/// A step is a block of K, and a tile a block of columns, so that a thread needs two scales of A,
/// for its two rows, and one of B, as the three beside it do. Each of the four reads one, two steps
/// before it is used.
#[derive(Clone, Copy)]
pub struct BlockScaled {
    /// A's scales.
    pub a: *const f32,
    /// B's.
    pub b: *const f32,
    /// Where they lie.
    pub places: ScaleParams,
}

/// A tile of [`BlockScaled`].
pub struct ScaledTile<const SUMS: usize> {
    /// The sums of a step and of the one before.
    parts: [[f32; SUMS]; 2],
    /// What the latest step's are multiplied by: those of rows 0 to 7 of each 16, and of the
    /// others.
    factors: [f32; 2],
    /// This thread's scale of the two steps behind it: of A for the one row, for the other, of B,
    /// and of B again.
    next: [f32; 2],
    /// Where the last of these was.
    from: *const f32,
    /// Elements to that of the step behind it.
    stride: isize,
    /// Steps whose scales have not been read.
    left: u32,
}

impl<const SUMS: usize> ScaledTile<SUMS> {
    /// Reads the scale of the next step for that turn, if there is one; else the last one's again.
    ///
    /// # Safety
    /// It may be read.
    #[inline(always)]
    unsafe fn read(&mut self, turn: usize) {
        // SAFETY: the caller's promise.
        self.next[turn] = unsafe { self.from.read() };
        self.from = self.from.wrapping_offset(if self.left > 1 { self.stride } else { 0 });
        self.left = self.left.wrapping_sub(1);
    }

    /// The factors of the next step, in that turn, from the scales of four threads.
    ///
    /// # Safety
    /// By all threads of the group.
    #[inline(always)]
    unsafe fn factors(&self, turn: usize) -> [f32; 2] {
        // SAFETY: the caller's promise.
        let of = |i| unsafe { warp::warp_shuffle_idx(u32::MAX, self.next[turn], i, 4).0 };
        let of_b = of(2);
        [of(0) * of_b, of(1) * of_b]
    }

    /// Adds a step's sums, times its factors.
    #[inline(always)]
    fn add(&self, sums: &mut [f32; SUMS], turn: usize, factors: [f32; 2]) {
        for i in 0..SUMS {
            // Pairs of a row, then of the row 8 further.
            sums[i] = GpuFloat::mul_add(self.parts[turn][i], factors[i / 2 % 2], sums[i]);
        }
    }
}

impl<T: WarpGroup<Sum = f32>, const SUMS: usize> Summing<T, SUMS> for BlockScaled
where
    [f32; SUMS]: Accumulator<T>,
{
    type Tile = ScaledTile<SUMS>;
    const TURNS: usize = 2;
    const EPILOGUES: bool = false;

    #[inline(always)]
    unsafe fn begin(self, p: &GemmParams<f32>, (row, col): (u64, u64)) -> ScaledTile<SUMS> {
        const { assert!(T::DEPTH as usize == SCALE_BLOCK && 2 * SUMS == SCALE_BLOCK) };
        let ScaleParams { a_row_stride, a_k_stride, b_k_stride, b_col_stride } = self.places;
        let member = thread::thread_idx_x() % 4;
        // Rows past the last have its scales: they are computed, and not written.
        let row = row + write::place().0 as u64 + 8 * u64::from(member);
        let row = if row < p.m { row } else { p.m - 1 };
        // So do tiles past the last column.
        let col = if col < p.n { col } else { p.n - 1 };
        let block = col / SCALE_BLOCK as u64;
        let (from, number, outer_stride, stride) = match member {
            0 | 1 => (self.a, row, a_row_stride, a_k_stride),
            _ => (self.b, block, b_col_stride, b_k_stride),
        };
        let mut tile = ScaledTile {
            // Before the first step nothing is added, times nothing.
            parts: [[0.0; SUMS]; 2],
            factors: [0.0; 2],
            next: [0.0; 2],
            from: from.wrapping_offset((number as i64 * outer_stride) as isize),
            stride: stride as isize,
            left: p.k.div_ceil(SCALE_BLOCK as u64) as u32,
        };
        // Scales may be the results of the kernel before this one.
        grid::wait_for_grids();
        // SAFETY: row and column lie in C, and K is not 0.
        unsafe {
            tile.read(0);
            tile.read(1);
        }
        tile
    }

    #[inline(always)]
    unsafe fn multiply<A: Side<T>, B: Side<T>>(
        tile: &mut ScaledTile<SUMS>,
        sums: &mut [f32; SUMS],
        a: [Part<T, A>; 4],
        b: [Part<T, B>; 4],
        turn: usize,
        _: bool,
    ) {
        // SAFETY: the caller's promise; the scales are those of a step that there is.
        unsafe {
            // Before the products, so that what was read has been used when its registers are
            // loaded again.
            let before = tile.factors;
            tile.factors = tile.factors(turn);
            tile.read(turn);
            multiply_stage::<T, A, B, _>(&mut tile.parts[turn], a, b, Accumulate::Start);
            wgmma::commit_group();
            wgmma::wait_group::<1, _>(&mut tile.parts[1 - turn]);
            tile.add(sums, 1 - turn, before);
        }
    }

    #[inline(always)]
    unsafe fn end_turns(tile: &mut ScaledTile<SUMS>, sums: &mut [f32; SUMS], turn: usize) {
        // SAFETY: the caller's promise.
        unsafe { wgmma::wait_group::<0, _>(&mut tile.parts[turn]) };
        tile.add(sums, turn, tile.factors);
    }

    #[inline(always)]
    unsafe fn end(_: &mut [f32; SUMS]) {}
}
