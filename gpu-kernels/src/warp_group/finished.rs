//! A group's sums on their way to C, with biases and an activation.

use super::tiles::Place;
use super::write::{BoxOfC, element_of_box, place, place_of_rows, send, sync};
use super::{Geometry, Operands, Rows64};
use crate::finish::{activate, widen};
use crate::{Element, Output, SharedTile, Sum};
use cuda_std::half::{HalfExt, bf16, f16};
use cuda_std::{GpuFloat, misc, mma};
use gemm_spec::{C_BOXES, DType, GemmParams};

/// As `write_boxes` of [`write`](super::write) for the usual C, with biases and an activation. A
/// loop over boxes, since what an activation takes is long, and a driver compiles it once; a box's
/// biases are on their way while the one before is finished. Of groups in turn, which have no
/// registers for that nor need it, sums move up from box to box.
///
/// # Safety
/// As there; the host has seen that C's map is used, and that the epilogue has no more than these.
#[inline(always)]
pub unsafe fn write_finished<T: Element, G: Geometry, const SUMS: usize>(
    operands: &Operands<T>,
    p: &GemmParams<T::Sum>,
    at: Place,
    (boxes, group, meet): (SharedTile<BoxOfC>, usize, bool),
    sums: &[T::Sum; SUMS],
) {
    const { assert!(G::SWAPS || SUMS.is_multiple_of(8) && SUMS <= 128) };
    let alpha = p.alpha.float_factor();
    // Afresh, or the compiler makes a loop for each activation, with and without biases.
    let bias = misc::afresh_i64(p.epilogue.bias.address as i64) as u64;
    if at.row >= p.m || at.col >= p.n {
        return;
    }
    // SAFETY: as there.
    unsafe {
        let biases_of = |i: usize| biases(bias, at.col + 64 * i as u64, p.n);
        let mut next = if G::IN_TURN { [0; 8] } else { biases_of(0) };
        sync::<G>(group);
        let mut sums = *sums;
        let mut i = misc::afresh(0) as usize;
        loop {
            let words = if G::IN_TURN { biases_of(i) } else { next };
            if !G::IN_TURN {
                next = biases_of(i + 1);
            }
            let of_box = if G::IN_TURN { first(&sums) } else { sums_of_box(&sums, i) };
            let (to_row, to_col) = place_of_rows();
            let to: SharedTile<Rows64<u16>> = boxes.add(i % C_BOXES).cast();
            // Half a box at a time: of a whole one there are too many numbers for the registers.
            for half in 0..2 {
                let mut x: [f32; 16] = core::array::from_fn(|j| {
                    // Columns 0 and 1 of both rows, then 8 and 9.
                    let word = words[4 * half + j / 4] >> (16 * (j % 2));
                    let bias = widen(word as u16, <T::Output as Output<T::Sum>>::CODE);
                    GpuFloat::mul_add(alpha, of_box[16 * half + j].to_f32(), bias)
                });
                activate::<16, false>(&mut x, misc::afresh(p.epilogue.activation));
                for part in 0..2 {
                    let pack = |j: usize| halves::<T>([x[8 * part + j], x[8 * part + j + 1]]);
                    let to = element_of_box::<_, SUMS>(to, to_row, (2 * half + part, to_col));
                    mma::store_matrices(to, [pack(0), pack(2), pack(4), pack(6)]);
                }
            }
            send::<T, G, SUMS>(operands, p, at, (boxes, group, meet), i);
            i = misc::afresh(i as u32 + 1) as usize;
            if i == SUMS.div_ceil(32) {
                break;
            }
            if G::IN_TURN {
                sums = core::array::from_fn(|j| sums[(j + 32).min(SUMS - 1)]);
            }
        }
    }
}

/// The first box's sums.
#[inline(always)]
fn first<S: Copy, const SUMS: usize>(sums: &[S; SUMS]) -> [S; 32] {
    core::array::from_fn(|j| sums[j.min(SUMS - 1)])
}

/// The sums of box number `i`, of two to four, the last of which may be half of one: registers
/// cannot be told by a number, so there is a branch for each.
#[inline(always)]
pub fn sums_of_box<S: Copy, const SUMS: usize>(sums: &[S; SUMS], i: usize) -> [S; 32] {
    // Afresh: else the branches are one behind the other, and the last box goes through all four.
    let part = |i: usize| {
        misc::afresh(i as u32);
        core::array::from_fn(|j| sums[(32 * i + j).min(SUMS - 1)])
    };
    if SUMS > 96 && i == 3 {
        part(3)
    } else if SUMS > 64 && i == 2 {
        part(2)
    } else if SUMS > 32 && i == 1 {
        part(1)
    } else {
        part(0)
    }
}

/// A thread's biases of 64 columns, whose first is `first` of `n`, in pairs; zeros where the row's
/// address is 0.
///
/// # Safety
/// The row has `n` elements that may be read, of 16 bits, and starts at a multiple of 4 bytes; both
/// numbers are even.
#[inline(always)]
unsafe fn biases(row: u64, first: u64, n: u64) -> [u32; 8] {
    let mut words = [0; 8];
    if row != 0 {
        let col = first + place().1 as u64;
        let start = (row + 2 * col) as *const u32;
        // Columns 8 apart, which are 4 words.
        // SAFETY: the caller's promise.
        unsafe {
            if first + 64 <= n {
                for i in 0..8 {
                    words[i] = start.add(4 * i).read();
                }
            } else {
                for i in 0..8 {
                    if col + (8 * i as u64) < n {
                        words[i] = start.add(4 * i).read();
                    }
                }
            }
        }
    }
    words
}

/// A pair, rounded to elements of the usual C, of 16 bits, as a word.
#[inline(always)]
fn halves<T: Element>(pair: [f32; 2]) -> u32 {
    match <T::Output as Output<T::Sum>>::CODE == DType::BF16 as u32 {
        true => bf16::pack_gpu(pair),
        false => f16::pack_gpu(pair),
    }
}
