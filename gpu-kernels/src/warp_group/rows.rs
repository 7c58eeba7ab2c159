//! Sums that go to C by rows, through shared memory: wherever its rows are not whole chunks for the
//! copy engine.

use super::swapped::of_c;
use super::tiles::Place;
use super::write::{part, place, sync, thread_of_group};
use super::{GROUP_ROWS, Geometry, Operands};
use crate::{Element, Output, SharedTile, Sum, Write};
use cuda_std::misc;
use gemm_spec::{C_BOXES, GemmParams};

/// Columns that are in shared memory at a time.
const COLS: usize = 64;
/// Columns of a lane: those of neighbouring lanes are neighbours.
const HALVES: usize = COLS / 32;
/// Rows of a warp: every fourth.
const ROWS: usize = GROUP_ROWS / 4;

/// Puts the sums into shared memory, 64 columns at a time, and writes them from there to a C of any
/// kind, row by row, as far as they lie in it.
///
/// # Safety
/// As [`write`](super::write::write).
#[inline(always)]
pub unsafe fn write_by_rows<T: Element, G: Geometry, const SUMS: usize>(
    operands: &Operands<T>,
    p: &GemmParams<T::Sum>,
    at: Place,
    (memory, group): (SharedTile<T::Sum>, usize),
    sums: &[T::Sum; SUMS],
) {
    const {
        assert!(size_of::<[super::write::BoxOfC; C_BOXES]>() >= GROUP_ROWS * COLS * 4);
        assert!(size_of::<T::Sum>() == 4 && (!G::IN_TURN || SUMS <= 96));
    };
    let all = const { SUMS.div_ceil(32) as u32 };
    macro_rules! write_columns {
        ($i:expr, $at_once:literal) => {
            // SAFETY: the group writes when all of it has read, and reads when all of it has
            // written.
            unsafe {
                sync::<G>(group);
                for part in 0..SUMS.div_ceil(32) {
                    if part as u32 == $i {
                        let sums = core::array::from_fn(|j| sums[(32 * part + j).min(SUMS - 1)]);
                        put::<_, G>(memory, &sums);
                    }
                }
                sync::<G>(group);
                let at = (at.row, at.col + u64::from(COLS as u32 * $i));
                let start = operands.start.cast();
                let of_c = of_c(p);
                let (p, at) = if G::SWAPS { (&of_c, (at.1, at.0)) } else { (p, at) };
                T::with_output(p, Columns::<_, $at_once> { start, p, at, memory });
            }
        };
    }
    if G::IN_TURN {
        // The group holds sums of other rows, too: those that are in memory need no register any
        // more, and elements of fewer rows are on their way.
        write_columns!(0, 2);
        if all > 1 {
            write_columns!(1, 2);
        }
        if all > 2 {
            write_columns!(2, 2);
        }
        return;
    }
    // All counters afresh, so that the loops stay loops.
    let mut i = misc::afresh(0);
    while i < all {
        write_columns!(i, 4);
        i = misc::afresh(i + 1);
    }
}

/// The place of a sum: rows of 64, in which chunks of 8 change places, so that rows that lanes
/// write together lie in different banks.
#[inline(always)]
fn element(row: usize, col: usize) -> usize {
    row * COLS + (col ^ (row % 8 * 8))
}

/// Writes a thread's sums of 64 columns to shared memory, as C has them.
///
/// # Safety
/// The thread alone touches the elements.
#[inline(always)]
unsafe fn put<S: Copy, G: Geometry>(memory: SharedTile<S>, sums: &[S; 32]) {
    let (row, col) = place();
    for q in 0..4 {
        let part = part(sums, q);
        for r in 0..2 {
            for j in 0..2 {
                let (row, col) = (row + 8 * r, 16 * q + 8 * j + col);
                // SAFETY: the caller's promise; columns are even.
                unsafe {
                    if G::SWAPS {
                        memory.add(element(col, row)).write(part[r][j][0]);
                        memory.add(element(col + 1, row)).write(part[r][j][1]);
                        continue;
                    }
                    let to = memory.add(element(row, col)).cast::<u64>();
                    to.write(core::mem::transmute_copy(&part[r][j]));
                }
            }
        }
    }
}

/// 64 columns of a group's sums, in shared memory, of which elements of so many rows are on their
/// way at a time.
struct Columns<'a, S, const AT_ONCE: usize> {
    /// C's first element.
    start: *mut u8,
    p: &'a GemmParams<S>,
    /// The first of their rows and columns of C.
    at: (u64, u64),
    memory: SharedTile<S>,
}

impl<S: Sum, const AT_ONCE: usize> Write<S> for Columns<'_, S, AT_ONCE> {
    type Done = ();

    /// # Safety
    /// By all threads of the group; the sums are in shared memory.
    #[inline(always)]
    unsafe fn write<C: Output<S>>(self) {
        const { assert!(ROWS.is_multiple_of(AT_ONCE) && AT_ONCE.is_multiple_of(2)) };
        let Columns { start, p, at, memory } = self;
        let (warp, lane) = (thread_of_group() / 32, thread_of_group() % 32);
        let (alpha, beta) = (C::factor(p.alpha), C::factor(p.beta));
        // Rows and columns that are left from the thread's first on, 64 at most.
        let left = |first: u64, end: u64| end.saturating_sub(first).min(COLS as u64) as u32;
        let rows = left(at.0 + warp as u64, p.m);
        let cols = left(at.1 + lane as u64, p.n);
        let offset = (at.0 + warp as u64) as i64 * p.c_row_stride
            + (at.1 + lane as u64) as i64 * p.c_col_stride;
        let mut row_start = start.cast::<C>().wrapping_offset(offset as isize);
        let (to_row, to_col) = (4 * p.c_row_stride as isize, 32 * p.c_col_stride as isize);
        // Eight rows further on chunks change places likewise.
        let first = |i: usize, half: usize| element(warp + 4 * (i % 2), lane + 32 * half);
        let from: [[_; HALVES]; 2] = [0, 1].map(|i| [0, 1].map(|half| first(i, half)));
        let mut r = misc::afresh(0);
        while 4 * r < rows && cols > 0 {
            let place = |i: usize, half: usize| {
                row_start.wrapping_offset(i as isize * to_row + half as isize * to_col)
            };
            let is_inside =
                |i: usize, half: usize| 4 * (r + i as u32) < rows && 32 * (half as u32) < cols;
            let mut values = [[C::Factor::ZERO; HALVES]; AT_ONCE];
            for i in 0..AT_ONCE {
                for half in 0..HALVES {
                    let from = from[i % 2][half] + COLS * 4 * (r as usize + i - i % 2);
                    // SAFETY: the group's sums are there.
                    values[i][half] = alpha.mul(C::convert(unsafe { memory.add(from).read() }));
                }
            }
            // SAFETY: places inside lie in C. All reads before the first write, so that none of
            // them waits for another.
            unsafe {
                if p.reads_c != 0 {
                    let mut old = [[None; HALVES]; AT_ONCE];
                    for i in 0..AT_ONCE {
                        for half in 0..HALVES {
                            if is_inside(i, half) {
                                old[i][half] = Some(place(i, half).read());
                            }
                        }
                    }
                    for i in 0..AT_ONCE {
                        for half in 0..HALVES {
                            if let Some(old) = old[i][half] {
                                values[i][half] = beta.mul_add(old.widen(), values[i][half]);
                            }
                        }
                    }
                }
                for i in 0..AT_ONCE {
                    for half in 0..HALVES {
                        if is_inside(i, half) {
                            place(i, half).write(C::narrow(values[i][half]));
                        }
                    }
                }
            }
            row_start = row_start.wrapping_offset(AT_ONCE as isize * to_row);
            r = misc::afresh(r + AT_ONCE as u32);
        }
    }
}
