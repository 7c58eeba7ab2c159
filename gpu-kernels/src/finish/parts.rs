//! The kernel `finish`: sums in memory, in one or more parts, go through an epilogue to C.
//!
//! # Idea
//!
//! ```text
//! for each run of four neighbours of a row, in parallel:
//!     x = the sum of the parts, the first first
//!     finish x
//! ```
//!
//! # Mapping
//!
//! A block takes 8 rows, a warp 128 neighbouring columns of one. Where there are many parts, which
//! are often those of a small C, a block takes one row (`finish_deep`): its 8 warps stand behind
//! each other along the parts, and the first adds up what they have.
//!
//! # Shared memory
//!
//! For `finish_deep` the sums of its warps.
//!
//! # Preconditions
//!
//! Parts start at multiples of 16 bytes, and so do their rows, which are contiguous.

use super::{RUN, finish, raise};
use crate::{Element, SharedTile, Sum, store};
#[cfg(feature = "sm_90")]
use cuda_std::grid;
use cuda_std::thread;
use gemm_spec::GemmParams;

/// Parts that are on their way at a time: without the others a thread would wait for each.
const AHEAD: usize = 16;

/// The sum of `parts` parts, the first first, read [`AHEAD`] at a time.
#[inline(always)]
fn add_up<S: Sum, const N: usize>(parts: u64, read: impl Fn(u64) -> [S; N]) -> [S; N] {
    let mut sums = [S::ZERO; N];
    let mut part = 0;
    while part < parts {
        let mut ahead = [[S::ZERO; N]; AHEAD];
        for i in 0..AHEAD {
            if part + (i as u64) < parts {
                ahead[i] = read(part + i as u64);
            }
        }
        for i in 0..AHEAD {
            for j in 0..N {
                sums[j] = sums[j].add(ahead[i][j]);
            }
        }
        part += AHEAD as u64;
    }
    sums
}

/// Which sums a thread of a block of 256 adds up: those of a row, of some of the parts. `DEPTH`
/// warps stand behind each other along the parts, and have parts that are neighbours.
struct Share {
    row: u64,
    /// The block's first column.
    col: u64,
    /// The warp's place along the parts.
    along: u64,
    lane: u64,
    /// The warp's first part.
    first: u64,
    /// How many it has.
    parts: u64,
}

impl Share {
    #[inline(always)]
    fn new<const DEPTH: u64>(parts: u64) -> Self {
        let thread = u64::from(thread::thread_idx_x());
        let (warp, lane) = (thread / 32, thread % 32);
        let along = warp % DEPTH;
        let each = parts.div_ceil(DEPTH);
        let first = (along * each).min(parts);
        Share {
            row: u64::from(thread::block_idx_y()) * (8 / DEPTH) + warp / DEPTH,
            col: u64::from(thread::block_idx_x()) * (32 * RUN as u64),
            along,
            lane,
            first,
            parts: (parts - first).min(each),
        }
    }

    /// The sums of all warps along the parts, in their order, to the first of them; `sums` are this
    /// lane's of this warp.
    ///
    /// # Safety
    ///
    /// By all threads of the block; `memory` has room for [`RUN`] sums of each of them, and nobody
    /// else uses it.
    #[inline(always)]
    unsafe fn join<S: Sum, const DEPTH: u64>(
        &self,
        memory: Option<SharedTile<S>>,
        mut sums: [S; RUN],
    ) -> [S; RUN] {
        let Some(memory) = memory else { return sums };
        // SAFETY: each thread writes places of its own, and between that and the reads of others
        // stands a barrier.
        unsafe {
            // Neighbouring lanes at neighbouring sums.
            let place = |along: u64, i: usize| (along * RUN as u64 + i as u64) * 32 + self.lane;
            for i in 0..RUN {
                memory.add(place(self.along, i) as usize).write(sums[i]);
            }
            thread::sync_threads();
            if self.along == 0 {
                for along in 1..DEPTH {
                    for i in 0..RUN {
                        sums[i] = sums[i].add(memory.add(place(along, i) as usize).read());
                    }
                }
            }
        }
        sums
    }
}

/// Finishes sums in memory: `parts` of them, which are added, the first first. The parameter block
/// stands for C as it does in a product's kernel; A's strides are those of a part, K is the number
/// of parts, and B's row stride leads from part to part. Parts start at multiples of 16 bytes, and
/// so do their rows, which are contiguous.
///
/// # Safety
///
/// By all threads of a block of 256; `sums` may be read, and the rest as `finish`; where
/// `DEPTH` is not 1 there is memory of the block's own, for [`RUN`] sums of each thread.
#[inline(always)]
pub unsafe fn finish_parts<const DEPTH: u64>(
    sums: *const f32,
    c: *mut u8,
    p: &GemmParams<f32>,
    memory: Option<SharedTile<f32>>,
) {
    let share = Share::new::<DEPTH>(p.k);
    let (row, col) = (share.row, share.col + share.lane * RUN as u64);
    let is_inside = row < p.m && col < p.n;
    let (mut largest, mut x) = (0, [0.0; RUN]);
    // SAFETY: the caller's promise; runs lie in C, and so in the parts.
    unsafe {
        if is_inside {
            let left = (p.n - col).min(RUN as u64) as usize;
            let offset = row as i64 * p.a_row_stride + col as i64 * p.a_col_stride;
            let start = sums.wrapping_offset(offset as isize);
            let part = |part: u64| {
                let part = (share.first + part) as i64;
                start.wrapping_offset((part * p.b_row_stride) as isize)
            };
            x = match left {
                // As a word, which is one access.
                RUN => add_up(share.parts, |of| {
                    core::mem::transmute::<u128, [f32; RUN]>(part(of).cast::<u128>().read())
                }),
                _ => add_up(share.parts, |of| {
                    let mut x = [0.0; RUN];
                    for i in 0..RUN {
                        if i < left {
                            x[i] = part(of).wrapping_add(i).read();
                        }
                    }
                    x
                }),
            };
        }
        x = share.join::<_, DEPTH>(memory, x);
        if share.along == 0 {
            if is_inside {
                largest = finish(c, p, (row, col), x);
            }
            if p.epilogue.amax != 0 {
                raise(p.epilogue.amax, largest);
            }
        }
    }
}

/// Finishes sums of elements without epilogues, as [`finish_parts`] does: alpha and beta alone.
///
/// # Safety
///
/// As [`finish_parts`].
#[inline(always)]
pub unsafe fn add_parts<T: Element, const DEPTH: u64>(
    sums: *const T::Sum,
    c: *mut T::Output,
    p: &GemmParams<T::Sum>,
    memory: Option<SharedTile<T::Sum>>,
) {
    let share = Share::new::<DEPTH>(p.k);
    let row = share.row;
    // Neighbouring lanes at neighbouring sums.
    let col = |run: usize| share.col + run as u64 * 32 + share.lane;
    let mut x = [T::Sum::ZERO; RUN];
    for run in 0..RUN {
        let col = col(run);
        if row < p.m && col < p.n {
            let offset = row as i64 * p.a_row_stride + col as i64 * p.a_col_stride;
            let from = sums.wrapping_offset(offset as isize);
            let [sum] = add_up(share.parts, |part| {
                let part = (share.first + part) as isize;
                let part = from.wrapping_offset(part * p.b_row_stride as isize);
                // SAFETY: the caller's promise; (row, col) lies in C, and so in the parts.
                unsafe { [part.read()] }
            });
            x[run] = sum;
        }
    }
    // SAFETY: the caller's promise.
    unsafe {
        x = share.join::<_, DEPTH>(memory, x);
        for run in 0..RUN {
            let col = col(run);
            if share.along == 0 && row < p.m && col < p.n {
                store::<T>(c, p, row, col, x[run]);
            }
        }
    }
}

/// Makes entry points from rows of a list.
#[cfg(any(feature = "sm_70", feature = "sm_90"))]
macro_rules! entries {
    ($((
        $name:ident, $variant:literal, $element:ident, [$bm:literal, $bn:literal, $depth:tt],
        $warp:tt, [1, $run:literal], $stages:literal, $min_blocks:literal
    ),)*) => {$(
        /// `finish`, which adds up parts of sums and writes C; see the module.
        ///
        /// # Safety
        ///
        /// The pointers and the block describe sums that the grid may read and a C that it may
        /// write, which nothing else touches during the launch; the grid is one of
        /// `Kernel::launches`.
        #[cuda_std::kernel(max_threads = 256, min_blocks = $min_blocks)]
        pub unsafe fn $name(sums: *const $element, c: *mut u8, p: GemmParams<$element>) {
            const { assert!($bm * $depth == 8 && $bn == 32 * RUN && $run == RUN) };
            let memory = entries!(@memory $element, $depth);
            // The next kernel may get ready; the one before has ended.
            #[cfg(feature = "sm_90")]
            {
                grid::launch_dependents();
                grid::wait_for_grids();
            }
            // SAFETY: the host's promise, passed on.
            unsafe { entries!(@body $element, $depth, (sums, c, &p, memory)) }
        }
    )*};
    (@memory $element:ident, 1) => { None };
    (@memory $element:ident, $depth:literal) => {
        Some(cuda_std::shared_array![$element; $depth * 32 * RUN])
    };
    (@body f32, $depth:literal, ($sums:ident, $c:ident, $p:expr, $memory:ident)) => {
        finish_parts::<$depth>($sums, $c, $p, $memory)
    };
    // What sums of i8 become, those of i32 become too.
    (@body i32, $depth:literal, ($sums:ident, $c:ident, $p:expr, $memory:ident)) => {
        add_parts::<i8, $depth>($sums, $c.cast(), $p, $memory)
    };
    (@body f64, $depth:literal, ($sums:ident, $c:ident, $p:expr, $memory:ident)) => {
        add_parts::<f64, $depth>($sums, $c.cast(), $p, $memory)
    };
}

#[cfg(feature = "sm_70")]
gemm_spec::finish_kernels!(entries);

#[cfg(feature = "sm_90")]
gemm_spec::finish_overlapped_kernels!(entries);
