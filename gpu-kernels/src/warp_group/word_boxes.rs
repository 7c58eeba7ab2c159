//! Sums on their way to a C of 32 bits by whole boxes.

use super::tiles::Place;
use super::write::{BoxOfC, place, store_box, sync, thread_of_group, wait_for_copies};
use super::{Geometry, Operands, Rows64};
use crate::{Element, Output, SharedTile, Sum};
use cuda_std::{fence, tma};
use gemm_spec::{C_BOXES, GemmParams};

/// Columns of a box.
const COLS: usize = 32;

/// Multiplies by alpha and rounds, and has the sums copied to C by boxes in turn, each when it is
/// written: a group has fewer of them than its tile. The last coordinate in C's map is the slice.
///
/// # Safety
/// By all threads of group number `group`, whose boxes they are; C's elements have 32 bits, its map
/// is used, and no copy from the boxes is on its way.
#[inline(always)]
pub unsafe fn write_word_boxes<T: Element, C: Output<T::Sum>, G: Geometry, const SUMS: usize>(
    operands: &Operands<T>,
    p: &GemmParams<T::Sum>,
    Place { row, col, slice, .. }: Place,
    (boxes, group): (SharedTile<Rows64<C>>, usize),
    sums: &[T::Sum; SUMS],
) {
    const { assert!(C_BOXES == 2, "the box behind this one is that of the last copy") };
    let alpha = C::factor(p.alpha);
    let (all, thread) = (2 * SUMS / COLS, thread_of_group());
    // SAFETY: a box is free when it is written, and read by the copy engine when all threads have.
    unsafe {
        sync::<G>(group);
        for i in 0..all {
            let value = |j: usize| alpha.mul(C::convert(sums[COLS / 2 * i + j]));
            let to: SharedTile<Rows64<C>> = boxes.add(i % C_BOXES);
            put(to, &core::array::from_fn(value));
            fence::async_shared();
            // The box before, which is written next.
            if i > 0 && i + 1 < all {
                wait_for_copies((thread / 32) as u32);
            }
            sync::<G>(group);
            if thread == 0 {
                let col = col + (COLS * i) as u64;
                if col < p.n {
                    let at = [col as i32, row as i32, slice as i32];
                    store_box(operands, p, at, to.cast::<BoxOfC>());
                }
                tma::commit_group();
            }
        }
    }
}

/// Puts the thread's part of a box down, in pairs. Half a warp writes four rows at a time, two of
/// them 8 columns further on than the others, since the swizzle has even and odd rows' chunks of
/// the same columns in the same banks.
///
/// # Safety
/// By all threads of the group; the box is theirs.
#[inline(always)]
unsafe fn put<S: Sum, C: Output<S>>(to: SharedTile<Rows64<C>>, values: &[C::Factor; COLS / 2]) {
    let (row, col) = place();
    let is_odd = row % 2 == 1;
    for part in 0..2 {
        for r in 0..2 {
            let pair = |j: usize| {
                let first = 8 * part + 4 * j + 2 * r;
                words(C::narrow_pair([values[first], values[first + 1]]))
            };
            let (near, far) = (pair(0), pair(1));
            let (first, second) = if is_odd { (far, near) } else { (near, far) };
            let put = |further: usize, pair: u64| {
                let (row, col) = (row + 8 * r, 16 * part + col + further);
                // SAFETY: the place lies in the box, at a multiple of 8 bytes.
                unsafe { to.element(row as u32, col as u32).cast::<u64>().write(pair) };
            };
            put(if is_odd { 8 } else { 0 }, first);
            put(if is_odd { 0 } else { 8 }, second);
        }
    }
}

/// Two elements of 32 bits; no others are put down so.
#[inline(always)]
fn words<C: Copy>(pair: [C; 2]) -> u64 {
    match size_of::<C>() {
        // SAFETY: a pair of 32 bits each has those bytes.
        4 => unsafe { core::mem::transmute_copy(&pair) },
        _ => 0,
    }
}
