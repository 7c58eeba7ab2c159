//! Tensor cores, a warpgroup at a time: `wgmma`, for `sm_90a`.
//!
//! A warpgroup is four warps, of which the first has a number that is a multiple of 4. Its 128
//! threads hold the sums of a 64 x N tile in registers; A (64 x K) and B (K x N) come from shared
//! memory, by [`Descriptor`]s, or A from registers. K of one instruction is 32 bytes: 16 elements
//! of `f16` or `bf16`, 8 of [`Tf32`], 32 of [`F8E4M3`], [`F8E5M2`] or `i8`.
//!
//! The products run beside the threads' other work:
//!
//! ```text
//! wgmma::fence(&mut sums);                       what was done to the registers is done
//! for each 32 bytes of K in the stage
//!     wgmma::multiply(&mut sums, a, b, Accumulate::Continue);
//! wgmma::commit_group();                         the products since the last one are a group
//! wgmma::wait_group::<0, _>(&mut sums);          all groups but so many have ended
//! ```
//!
//! Between the fence and the wait behind which its group has ended, nothing else may touch an
//! accumulator. [`fence`] and [`wait_group`] take it for this reason: what they are given has been
//! written before the one and is not read before the other, whatever the compiler moves. Where
//! ptxas finds a register touched in between, it says "wgmma ... serialized" and makes each product
//! wait for the one before: look for it (`ptxas -v`) in what is built from this.
//!
//! Sum `i` of a thread is the element of the tile that [`place`] says. (PTX ISA, "Asynchronous
//! Warpgroup Level Matrix Instructions".)
//!
//! # Safety
//! All functions here are for whole warpgroups: its threads run them together, at one place of the
//! program. [`fence`], [`commit_group`] and [`wait_group`] are convergent to the compiler. rustc
//! does not know that of `asm!`, as which [`multiply`] is written; between a fence and a commit
//! without a branch it cannot be copied or moved away from them.

use crate::gpu_only;
use crate::half::{bf16, f16};
use crate::{F8E4M3, F8E5M2};

mod descriptor;
mod instructions;

pub use descriptor::{B32, B64, B128, Descriptor, KMajor, Major, MnMajor, Swizzle, Tile};
pub use instructions::{Accumulator, Registers};

mod sealed {
    pub trait Sealed {}
}

/// An element type of A and B.
pub trait Element: sealed::Sealed {
    /// K of an instruction: 32 bytes of elements.
    const K: usize;
}

/// `f32` of which the tensor cores take the upper 19 bits: 8 of exponent, 10 of mantissa.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tf32(pub f32);

macro_rules! elements {
    ($($type:ty)*) => {$(
        impl sealed::Sealed for $type {}

        impl Element for $type {
            const K: usize = 32 / size_of::<$type>();
        }
    )*};
}

elements! { f16 bf16 Tf32 F8E4M3 F8E5M2 i8 }

/// What becomes of the sums that are there.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accumulate {
    /// D = A * B: what the registers held is not read, so that nothing has to clear them.
    Start = 0,
    /// D = A * B + D.
    Continue = 1,
}

/// Row and column, in the 64 x N tile, of sum `index` of thread `thread` (0..128) of the
/// warpgroup.
///
/// Warp w has rows 16 w to 16 w + 15; in each 8 columns a thread has two neighbours in one row and
/// the two 8 rows below (PTX ISA, "Register Fragments for wgmma.mma_async", matrix D).
#[inline(always)]
pub const fn place(thread: u32, index: u32) -> (u32, u32) {
    let (warp, group, member) = (thread / 32, thread % 32 / 4, thread % 4);
    (16 * warp + group + 8 * (index / 2 % 2), 8 * (index / 4) + 2 * member + index % 2)
}

/// What this thread did to the registers of `sums` (and of A's fragments, if they are registers) is
/// done before the products that follow. Needed before the first product and wherever the registers
/// have been touched; not between products that only add to the same sums.
///
/// `sums` is one accumulator, an array of them, or `()`. Lowers to `wgmma.fence.sync.aligned` (PTX
/// ISA, `wgmma.fence`).
///
/// # Safety
/// As the module says.
#[gpu_only]
#[inline(always)]
pub unsafe fn fence<R: Registers>(sums: &mut R) {
    sums.pin();
    // SAFETY: the caller's promise.
    unsafe { crate::intrinsics::wgmma_fence() }
}

/// Starts D = A * B (+ D), with A and B from shared memory.
///
/// The type of `sums` says N: `[f32; N / 2]`, or `[i32; N / 2]` for `i8`. Lowers to
/// `wgmma.mma_async.sync.aligned.m64nNkK` (PTX ISA, `wgmma.mma_async`).
///
/// ```compile_fail,E0277
/// use cuda_std::{bf16, wgmma::*};
/// // There is no instruction for a tile of 200 columns here.
/// unsafe fn f(sums: &mut [f32; 100], a: Descriptor<bf16, KMajor>, b: Descriptor<bf16, KMajor>) {
///     unsafe { multiply(sums, a, b, Accumulate::Start) }
/// }
/// ```
///
/// ```compile_fail,E0277
/// use cuda_std::wgmma::*;
/// // Bytes are summed in i32.
/// unsafe fn f(sums: &mut [f32; 32], a: Descriptor<i8, KMajor>, b: Descriptor<i8, KMajor>) {
///     unsafe { multiply(sums, a, b, Accumulate::Start) }
/// }
/// ```
///
/// ```compile_fail,E0308
/// use cuda_std::{bf16, f16, wgmma::*};
/// // A and B have one element type.
/// unsafe fn f(sums: &mut [f32; 32], a: Descriptor<f16, KMajor>, b: Descriptor<bf16, KMajor>) {
///     unsafe { multiply(sums, a, b, Accumulate::Start) }
/// }
/// ```
///
/// # Safety
/// As the module says. [`fence`] stands before; nothing touches `sums` until a [`wait_group`] for
/// this product's group. The tiles hold 64 rows of A and N of B, and K elements of each from the
/// descriptor's step on; nobody writes to them until then, and what threads wrote there is followed
/// by [`fence::async_shared`](crate::fence::async_shared) and a barrier.
#[inline(always)]
pub unsafe fn multiply<T, R, MA, MB, SA, SB>(
    sums: &mut R,
    a: Descriptor<T, MA, SA>,
    b: Descriptor<T, MB, SB>,
    accumulate: Accumulate,
) where
    T: Element,
    R: Accumulator<T>,
    MA: Major<T>,
    MB: Major<T>,
    SA: Swizzle,
    SB: Swizzle,
{
    // SAFETY: the caller's promise.
    unsafe { sums.multiply::<MA, MB>(a.bits(), b.bits(), accumulate as u32) }
}

/// As [`multiply`], with A from registers: word `i` of `a` holds neighbours along K, 4 bytes of
/// them, of the row and the place that `mma`'s 16-row fragment has: rows `group` and `group` + 8 of
/// the warp's 16 at bytes 4 * `member`, then the same at bytes 16 + 4 * `member` ([`mma`] has the
/// words).
///
/// [`mma`]: crate::mma
///
/// # Safety
/// As [`multiply`]; the registers of `a` were written before the [`fence`], and are not touched
/// until the [`wait_group`] either: give both functions the array of `a`s too.
#[inline(always)]
pub unsafe fn multiply_registers<T, R, MB, SB>(
    sums: &mut R,
    a: &[u32; 4],
    b: Descriptor<T, MB, SB>,
    accumulate: Accumulate,
) where
    T: Element,
    R: Accumulator<T>,
    MB: Major<T>,
    SB: Swizzle,
{
    // SAFETY: the caller's promise.
    unsafe { sums.multiply_registers::<MB>(a, b.bits(), accumulate as u32) }
}

/// Closes the warpgroup's products since the last group into a group, which may be empty.
///
/// Lowers to `wgmma.commit_group.sync.aligned` (PTX ISA, `wgmma.commit_group`).
///
/// # Safety
/// As the module says.
#[gpu_only]
#[inline(always)]
pub unsafe fn commit_group() {
    // SAFETY: the caller's promise.
    unsafe { crate::intrinsics::wgmma_commit_group() }
}

/// Waits until at most the latest `PENDING` groups (0 to 7) are still running. What is given as
/// `sums` may be touched behind it, if its products are among those that have ended; pass `()`
/// where only shared memory is waited for.
///
/// Lowers to `wgmma.wait_group.sync.aligned` (PTX ISA, `wgmma.wait_group`).
///
/// # Safety
/// As the module says.
#[inline(always)]
pub unsafe fn wait_group<const PENDING: u32, R: Registers>(sums: &mut R) {
    const { assert!(PENDING < 8, "at most 7 groups are waited past") };
    // SAFETY: the caller's promise.
    unsafe { wait_for::<PENDING>() };
    sums.pin();
}

#[gpu_only]
#[inline(always)]
unsafe fn wait_for<const PENDING: u32>() {
    // SAFETY: the caller's promise.
    unsafe { crate::intrinsics::wgmma_wait_group(const { PENDING as u64 }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_has_one_place() {
        let mut seen = [[false; 64]; 64];
        for thread in 0..128 {
            for index in 0..32 {
                let (row, col) = place(thread, index);
                let seen = &mut seen[row as usize][col as usize];
                assert!(!*seen, "{row}, {col} twice");
                *seen = true;
            }
        }
        assert_eq!(place(0, 0), (0, 0));
        assert_eq!(place(33, 7), (24, 11));
    }

    #[test]
    fn an_instruction_has_32_bytes_of_k() {
        assert_eq!(
            [f16::K, bf16::K, Tf32::K, F8E4M3::K, F8E5M2::K, i8::K],
            [16, 16, 8, 32, 32, 32]
        );
    }
}
