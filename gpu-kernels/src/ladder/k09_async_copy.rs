//! Step 9: the next tiles travel from global to shared memory past the registers, several steps
//! ahead.
//!
//! # Idea
//!
//! ```text
//! as step 8, but with a ring of S stages, each a tile of A and one of B:
//!     start the copies of the first S - 1 stages, a group each
//!     for each step:
//!         wait for the oldest group; wait for the block       its tiles are there, and the stage
//!         start the copies S - 1 steps ahead                  read last is free
//!         multiply this step's tiles
//! ```
//!
//! # Mapping
//!
//! As step 7. A copy is 16 bytes where a pack of the matrix is a pack of the tile (contiguous along
//! the extent that C keeps, aligned); elsewhere, as in the transposing copy of a row-major A, it is
//! one element, neighbouring threads along the extent in which the matrix is contiguous.
//!
//! # Shared memory
//!
//! S stages of the tiles of step 6, asked for by the launch: 24.8 KiB for 128, 128, 8, 3 in f32.
//!
//! # Preconditions
//!
//! Those of [`GemmParams`], and a grid from `Kernel::launches`. Any shape, any strides; one slice.
//! No thread leaves before the last barrier. Compute capability 8.0.
//!
//! # Change since the last step
//!
//! No registers hold what is on its way, so more steps can be.

use super::parts::{
    AsyncCourier, Operand, Ring, Spread, TileShape, finish_tile, in_warp_tile, outer_product,
    store_tile,
};
use crate::{Epilogue, SharedTile, Sum};
use cuda_std::misc::afresh;
use cuda_std::{async_copy, thread};
use gemm_spec::{GemmParams, Tiles};

/// [`multiply_tile`] for the tiles of C row by row.
///
/// # Safety
///
/// As [`multiply_tile`].
#[inline(always)]
pub unsafe fn async_copy<
    T: Sum,
    const TM: usize,
    const TN: usize,
    const NA: usize,
    const NB: usize,
    const PENDING: u32,
    E: Epilogue<T>,
>(
    operands: (*const T, *const T, *mut T),
    p: GemmParams<T>,
    tiles: Tiles,
    memory: SharedTile<T>,
    epilogue: E,
) {
    let tile = (thread::block_idx_y().into(), thread::block_idx_x().into());
    // SAFETY: the caller's promise.
    unsafe {
        let memory = (memory, tiles);
        multiply_tile::<T, TM, TN, NA, NB, PENDING, E>(operands, p, memory, tile, epilogue);
    }
}

/// Computes a thread's TM x TN elements of a tile of C, with the block's other threads.
///
/// # Safety
///
/// Called by all threads of a block, whose tiles lie in shared memory that nothing else uses. The
/// pointers and the parameter block describe matrices that the grid may read (A, B) and write (C),
/// and no other code touches C during the launch.
#[inline(always)]
pub unsafe fn multiply_tile<
    T: Sum,
    const TM: usize,
    const TN: usize,
    const NA: usize,
    const NB: usize,
    const PENDING: u32,
    E: Epilogue<T>,
>(
    (a, b, c): (*const T, *const T, *mut T),
    p: GemmParams<T>,
    (memory, tiles): (SharedTile<T>, Tiles),
    (tile_row, tile_col): (u64, u64),
    epilogue: E,
) {
    let (row, col) = (tile_row * tiles.block[0] as u64, tile_col * tiles.block[1] as u64);
    let (a, b) = (Operand::a(a, &p, row), Operand::b(b, &p, col));
    let mut sums = [[T::ZERO; TN]; TM];
    // SAFETY: the caller's promise.
    unsafe {
        match (a.packs_across(), b.packs_across()) {
            (true, true) => main_loop::<T, TM, TN, NA, NB, PENDING, true, true>(
                (a, b),
                p.k,
                tiles,
                memory,
                &mut sums,
            ),
            (true, false) => main_loop::<T, TM, TN, NA, NB, PENDING, true, false>(
                (a, b),
                p.k,
                tiles,
                memory,
                &mut sums,
            ),
            (false, true) => main_loop::<T, TM, TN, NA, NB, PENDING, false, true>(
                (a, b),
                p.k,
                tiles,
                memory,
                &mut sums,
            ),
            (false, false) => main_loop::<T, TM, TN, NA, NB, PENDING, false, false>(
                (a, b),
                p.k,
                tiles,
                memory,
                &mut sums,
            ),
        }
        // N.B. The thread's place is computed again: kept, it would take registers that the loop
        // needs.
        let (rows, cols) = in_warp_tile::<T>(
            afresh(thread::thread_idx_x()) as usize,
            tiles.block[1],
            tiles.warp,
            [TM, TN],
        );
        finish_tile(epilogue, &p, (row, rows), (col, cols), &mut sums);
        store_tile::<T, TM, TN>((c, tiles.block), &p, (row, rows), (col, cols), sums);
    }
}

/// # Safety
///
/// As [`multiply_tile`].
#[inline(always)]
unsafe fn main_loop<
    T: Sum,
    const TM: usize,
    const TN: usize,
    const NA: usize,
    const NB: usize,
    const PENDING: u32,
    const PACKS_A: bool,
    const PACKS_B: bool,
>(
    (a, b): (Operand<T>, Operand<T>),
    depth: u64,
    Tiles { block: [bm, bn, bk], warp, stages, .. }: Tiles,
    memory: SharedTile<T>,
    sums: &mut [[T; TN]; TM],
) {
    let threads = bm * bn / (TM * TN);
    let (pitch_a, pitch_b) = (bm + Tiles::PADDING, bn + Tiles::PADDING);
    let shape_a = TileShape { outer: bm, depth: bk, pitch: pitch_a, threads };
    let shape_b = TileShape { outer: bn, depth: bk, pitch: pitch_b, threads };
    // One stage: the tile of A, then the tile of B.
    let (size_a, stage) = (bk * pitch_a, bk * (pitch_a + pitch_b));
    let (rows, cols) = in_warp_tile::<T>(thread::thread_idx_x() as usize, bn, warp, [TM, TN]);
    let copies_a = AsyncCourier::<T, NA, PACKS_A, false>::COPIES;
    let copies_b = AsyncCourier::<T, NB, PACKS_B, false>::COPIES;
    // Where both operands come element by element there are many copies, and they start in two
    // parts, A's with the first k of a step and B's with the last but one.
    let second = if PACKS_A || PACKS_B { 0 } else { bk - 2 };
    // The first step has what K has more than whole steps.
    let mut left = depth.div_ceil(bk as u64);
    // SAFETY: elements of A and B are read only inside of the matrices. A stage is read after its
    // copies have arrived at every thread (the wait, then the barrier), and written again after
    // another barrier.
    unsafe {
        let (mut tile_a, mut tile_b) = (memory, memory.add(size_a));
        let mut a = AsyncCourier::<T, NA, PACKS_A, false>::new(a, tile_a, shape_a);
        let mut b = AsyncCourier::<T, NB, PACKS_B, false>::new(b, tile_b, shape_b);
        tile_a = tile_a.add(rows.first);
        tile_b = tile_b.add(cols.first);
        if left > 0 {
            let first = (depth - (left - 1) * bk as u64) as i32;
            a.start_first(shape_a, first);
            b.start_first(shape_b, first);
        }
        async_copy::commit_group();
        let mut fill = Ring::new(stages, stage * size_of::<T>());
        let mut read = fill;
        for ahead in 1..stages - 1 {
            let hop = fill.step();
            a.hop(hop);
            b.hop(hop);
            for v in 0..copies_a {
                a.start(shape_a, v, left > ahead as u64);
            }
            for v in 0..copies_b {
                b.start(shape_b, v, left > ahead as u64);
            }
            async_copy::commit_group();
        }
        let hop = fill.step();
        a.hop(hop);
        b.hop(hop);
        // Then the stage that is filled comes right before the one that is read, and makes the hop
        // that the other made a step before.
        let mut hop = fill.step();
        async_copy::wait_group::<PENDING>();
        thread::sync_threads();
        // The factors of the first k of a step are read at the end of the step before.
        let (rows, cols) = (Spread { first: 0, ..rows }, Spread { first: 0, ..cols });
        let mut now = (rows.read::<T, TM>(tile_a), cols.read::<T, TN>(tile_b));
        while left > 0 {
            left -= 1;
            let more = left > stages as u64 - 2;
            for k in 0..bk {
                if k == 0 {
                    for v in 0..copies_a {
                        a.start(shape_a, v, more);
                    }
                }
                if k == second {
                    for v in 0..copies_b {
                        b.start(shape_b, v, more);
                    }
                }
                let mut ahead = k + 1;
                if ahead == bk {
                    async_copy::commit_group();
                    async_copy::wait_group::<PENDING>();
                    thread::sync_threads();
                    a.hop(hop);
                    b.hop(hop);
                    hop = read.step();
                    tile_a = tile_a.cast::<u8>().offset(hop).cast();
                    tile_b = tile_b.cast::<u8>().offset(hop).cast();
                    ahead = 0;
                }
                let then = (
                    rows.read::<T, TM>(tile_a.add(ahead * pitch_a)),
                    cols.read::<T, TN>(tile_b.add(ahead * pitch_b)),
                );
                outer_product(&now.0, &now.1, sums);
                now = then;
            }
        }
    }
}

/// Makes entry points of this step from rows of a list; see `ladder_entries!`.
#[macro_export]
macro_rules! k09_async_copy {
    ($($row:tt)*) => {
        $crate::ladder_entries! {
            $crate::ladder::k09_async_copy::async_copy, shared: dynamic, units: 1; $($row)*
        }
    };
}

/// The entry points of the table.
#[cfg(feature = "sm_80")]
pub mod entries {
    gemm_spec::k09_async_copy_kernels!(k09_async_copy);
}
