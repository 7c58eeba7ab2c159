//! What becomes of the products of a step: they stay in the tensor cores' sums, or are multiplied
//! by scales and added to others.

use super::{Side, WarpGroup, multiply_stage, write};
use cuda_std::GpuFloat;
use cuda_std::wgmma::{self, Accumulate, Accumulator, Descriptor};
use gemm_spec::{GemmParams, SCALE_BLOCK, ScaleParams};

/// How a group sums up the products of its tile.
pub trait Summing<T: WarpGroup, const SUMS: usize>: Copy
where
    [T::Sum; SUMS]: Accumulator<T>,
{
    /// What it has to know of a tile, and its own registers.
    type Tile;

    /// Whether a step's products are done, and its stage is free, when [`Self::multiply`] returns;
    /// else those of the step before are.
    const AT_ONCE: bool;

    /// Whether products get epilogues.
    const EPILOGUES: bool;

    /// Begins the tile of the group's rows and columns of C from `at` on.
    ///
    /// # Safety
    /// As [`multiply`](super::multiply); by all threads of the group.
    unsafe fn begin(self, p: &GemmParams<T::Sum>, at: (u64, u64)) -> Self::Tile;

    /// Multiplies a stage.
    ///
    /// # Safety
    /// By all threads of the group, on tiles that have arrived.
    unsafe fn multiply<A: Side<T>, B: Side<T>>(
        tile: &mut Self::Tile,
        sums: &mut [T::Sum; SUMS],
        a: [Descriptor<T, A>; 4],
        b: [Descriptor<T, B>; 4],
        is_first: bool,
    );

    /// Adds what [`Self::multiply`] left in other registers.
    fn add(tile: &Self::Tile, sums: &mut [T::Sum; SUMS]);
}

/// The sums stay where they are from step to step.
#[derive(Clone, Copy)]
pub struct InPlace;

impl<T: WarpGroup, const SUMS: usize> Summing<T, SUMS> for InPlace
where
    [T::Sum; SUMS]: Accumulator<T>,
{
    type Tile = ();
    const AT_ONCE: bool = false;
    const EPILOGUES: bool = true;

    #[inline(always)]
    unsafe fn begin(self, _: &GemmParams<T::Sum>, _: (u64, u64)) {}

    #[inline(always)]
    unsafe fn multiply<A: Side<T>, B: Side<T>>(
        _: &mut (),
        sums: &mut [T::Sum; SUMS],
        a: [Descriptor<T, A>; 4],
        b: [Descriptor<T, B>; 4],
        is_first: bool,
    ) {
        let start = if is_first { Accumulate::Start } else { Accumulate::Continue };
        // SAFETY: the caller's promise.
        unsafe {
            multiply_stage(sums, a, b, start);
            wgmma::commit_group();
            // The products of the step before are done; these go on.
            wgmma::wait_group::<1, _>(sums);
        }
    }

    #[inline(always)]
    fn add(_: &(), _: &mut [T::Sum; SUMS]) {}
}

/// Each step's sums are multiplied by the scales of its rows and columns, and added up in f32. The
/// other group's products go on meanwhile.
///
/// A step is a block of K, and a tile a block of columns, so that a thread needs two scales of A,
/// for its two rows, and one of B. Those of a step are on their way during the one before.
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
    /// The sums of a step.
    part: [f32; SUMS],
    /// What they are multiplied by: those of rows 0 to 7 of each 16, and of the others.
    factors: [f32; 2],
    /// The next step's scales: of A for both rows, of B.
    next: [f32; 3],
    /// Where they were.
    from: [*const f32; 3],
    /// Elements to those of the step behind it.
    strides: [isize; 2],
    /// Steps whose scales have not been read.
    left: u32,
}

impl<const SUMS: usize> ScaledTile<SUMS> {
    /// Reads the next step's scales, if there is one; else the last one's again.
    ///
    /// # Safety
    /// They may be read.
    #[inline(always)]
    unsafe fn read(&mut self) {
        // SAFETY: the caller's promise.
        self.next = unsafe { [self.from[0].read(), self.from[1].read(), self.from[2].read()] };
        let [a, b] = if self.left > 1 { self.strides } else { [0, 0] };
        self.left = self.left.wrapping_sub(1);
        let [first, second, of_b] = self.from;
        self.from = [first.wrapping_offset(a), second.wrapping_offset(a), of_b.wrapping_offset(b)];
    }
}

impl<T: WarpGroup<Sum = f32>, const SUMS: usize> Summing<T, SUMS> for BlockScaled
where
    [f32; SUMS]: Accumulator<T>,
{
    type Tile = ScaledTile<SUMS>;
    const AT_ONCE: bool = true;
    const EPILOGUES: bool = false;

    #[inline(always)]
    unsafe fn begin(self, p: &GemmParams<f32>, (row, col): (u64, u64)) -> ScaledTile<SUMS> {
        const { assert!(T::DEPTH as usize == SCALE_BLOCK && 2 * SUMS == SCALE_BLOCK) };
        let ScaleParams { a_row_stride, a_k_stride, b_k_stride, b_col_stride } = self.places;
        let first = row + write::place().0 as u64;
        // Rows past the last have its scales: they are computed, and not written.
        let of_row = |row: u64| {
            let row = if row < p.m { row } else { p.m - 1 };
            self.a.wrapping_offset((row as i64 * a_row_stride) as isize)
        };
        // So do tiles past the last column.
        let col = if col < p.n { col } else { p.n - 1 };
        let block = col / SCALE_BLOCK as u64;
        let of_b = self.b.wrapping_offset((block as i64 * b_col_stride) as isize);
        let mut tile = ScaledTile {
            part: [0.0; SUMS],
            factors: [0.0; 2],
            next: [0.0; 3],
            from: [of_row(first), of_row(first + 8), of_b],
            strides: [a_k_stride as isize, b_k_stride as isize],
            left: p.k.div_ceil(SCALE_BLOCK as u64) as u32,
        };
        // SAFETY: row and column lie in C, and K is not 0.
        unsafe { tile.read() };
        tile
    }

    #[inline(always)]
    unsafe fn multiply<A: Side<T>, B: Side<T>>(
        tile: &mut ScaledTile<SUMS>,
        _: &mut [f32; SUMS],
        a: [Descriptor<T, A>; 4],
        b: [Descriptor<T, B>; 4],
        _: bool,
    ) {
        // SAFETY: the caller's promise; the scales are those of a step that there is.
        unsafe {
            multiply_stage(&mut tile.part, a, b, Accumulate::Start);
            wgmma::commit_group();
            let [first, second, of_b] = tile.next;
            tile.factors = [first * of_b, second * of_b];
            tile.read();
            wgmma::wait_group::<0, _>(&mut tile.part);
        }
    }

    #[inline(always)]
    fn add(tile: &ScaledTile<SUMS>, sums: &mut [f32; SUMS]) {
        for i in 0..SUMS {
            // Pairs of a row, then of the row 8 further.
            sums[i] = GpuFloat::mul_add(tile.part[i], tile.factors[i / 2 % 2], sums[i]);
        }
    }
}
