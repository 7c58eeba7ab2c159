//! Elements of f32 as sums of three bf16, multiplied by six of the nine products of two such sums.

use super::side::Part;
use super::{ROW_BYTES, Side, Summing, WarpGroup};
use cuda_std::wgmma::{self, Accumulate, Accumulator, Descriptor, Major, Swizzle};
use gemm_spec::GemmParams;

/// A stage has three times `ROWS` rows of A and B: the first summands of a step's elements, then
/// the second, then the third, each at most 2^-8 of the one before.
///
/// The products of the first summands are most of the sum. Tensor cores cut off what does not fit
/// when they add, so each step has these summed from zero, by four instructions, and what comes of
/// that is added up in f32 while its other products go on. These five are less than 2^-6 of that,
/// and what is cut off them is less than what f32 loses: they stay in the tensor cores' sums. The
/// three products that are left out are less than 2^-23 of all (docs/numerics.md has the bounds).
///
/// Infinities and NaN have no second summands, but meet those of the other operand, which may be 0
/// or negative. Where that makes the small sums infinite or NaN, the large ones are so too and say
/// what f32 does. (First summands are rounded: sums of magnitudes within 2^-7 of f32's largest
/// number may become infinite where f32's do not.)
///
/// The large products come first, so that the stage before goes back when they are started: with
/// two stages, who brings the next one has no more time than one takes.
#[derive(Clone, Copy)]
pub struct Summands<const ROWS: usize>;

/// A tile of [`Summands`].
pub struct Tile<const SUMS: usize> {
    /// The products of the latest step's first summands.
    large: [f32; SUMS],
    /// The others of all steps.
    small: [f32; SUMS],
}

impl<T: WarpGroup<Sum = f32>, const SUMS: usize, const ROWS: usize> Summing<T, SUMS>
    for Summands<ROWS>
where
    [f32; SUMS]: Accumulator<T>,
{
    type Tile = Tile<SUMS>;
    const TURNS: usize = 1;
    const EPILOGUES: bool = false;
    const IN_TWO: bool = true;

    #[inline(always)]
    unsafe fn begin(self, _: &GemmParams<f32>, _: (u64, u64)) -> Tile<SUMS> {
        // Before the first step nothing is added.
        Tile { large: [0.0; SUMS], small: [0.0; SUMS] }
    }

    #[inline(always)]
    unsafe fn multiply_first<A: Side<T>, B: Side<T>>(
        tile: &mut Tile<SUMS>,
        a: [Part<T, A>; 4],
        b: [Part<T, B>; 4],
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            wgmma::fence(&mut tile.large);
            multiply_part::<T, A, B, SUMS>(&mut tile.large, a, b, Accumulate::Start);
            wgmma::commit_group();
            // The step before is done.
            wgmma::wait_group::<1, _>(&mut ());
        }
    }

    #[inline(always)]
    unsafe fn multiply<A: Side<T>, B: Side<T>>(
        tile: &mut Tile<SUMS>,
        sums: &mut [f32; SUMS],
        a: [Part<T, A>; 4],
        b: [Part<T, B>; 4],
        _: usize,
        is_first: bool,
    ) {
        let start = if is_first { Accumulate::Start } else { Accumulate::Continue };
        let stage = (ROWS * ROW_BYTES) as u32;
        // SAFETY: the caller's promise; the stages of a step lie one behind the other.
        unsafe {
            let (second_a, second_b) = (past(a, stage), past(b, stage));
            let (third_a, third_b) = (past(a, 2 * stage), past(b, 2 * stage));
            let (small, on) = (&mut tile.small, Accumulate::Continue);
            wgmma::fence(small);
            // The least come first.
            multiply_part::<T, A, B, SUMS>(small, third_a, b, start);
            multiply_part::<T, A, B, SUMS>(small, a, third_b, on);
            multiply_part::<T, A, B, SUMS>(small, second_a, second_b, on);
            multiply_part::<T, A, B, SUMS>(small, second_a, b, on);
            multiply_part::<T, A, B, SUMS>(small, a, second_b, on);
            wgmma::commit_group();
            wgmma::wait_group::<1, _>(&mut tile.large);
            for i in 0..SUMS {
                sums[i] += tile.large[i];
            }
        }
    }

    #[inline(always)]
    unsafe fn end_turns(tile: &mut Tile<SUMS>, sums: &mut [f32; SUMS], _: usize) {
        // SAFETY: the caller's promise.
        unsafe { wgmma::wait_group::<0, _>(&mut tile.small) };
        for i in 0..SUMS {
            let small = tile.small[i];
            let counts = small.abs() < f32::INFINITY || sums[i].abs() < f32::INFINITY;
            sums[i] += if counts { small } else { 0.0 };
        }
    }

    #[inline(always)]
    unsafe fn end(_: &mut [f32; SUMS]) {}
}

/// Starts the products of two stages' tiles.
///
/// # Safety
/// By all threads of the group, on tiles that have arrived; behind a fence.
#[inline(always)]
unsafe fn multiply_part<T: WarpGroup, A: Side<T>, B: Side<T>, const SUMS: usize>(
    sums: &mut [f32; SUMS],
    a: [Part<T, A>; 4],
    b: [Part<T, B>; 4],
    start: Accumulate,
) where
    [f32; SUMS]: Accumulator<T>,
{
    // SAFETY: the caller's promise.
    unsafe {
        wgmma::multiply(sums, a[0], b[0], start);
        wgmma::multiply(sums, a[1], b[1], Accumulate::Continue);
        wgmma::multiply(sums, a[2], b[2], Accumulate::Continue);
        wgmma::multiply(sums, a[3], b[3], Accumulate::Continue);
    }
}

/// The same parts of a tile that lies so many bytes further on.
///
/// # Safety
/// There is such a tile.
#[inline(always)]
unsafe fn past<D: Major<T>, S: Swizzle, T>(
    [a, b, c, d]: [Descriptor<T, D, S>; 4],
    bytes: u32,
) -> [Descriptor<T, D, S>; 4] {
    // SAFETY: the caller's promise.
    unsafe { [a.past(bytes), b.past(bytes), c.past(bytes), d.past(bytes)] }
}
