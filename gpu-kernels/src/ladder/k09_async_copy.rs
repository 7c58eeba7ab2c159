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
//! S stages of step 6's tiles, asked for by the launch: 33 KiB for 128, 128, 8 and 4 stages in f32.
//!
//! # Preconditions
//!
//! Those of [`GemmParams`], and a grid from `Kernel::launches`. Any shape, any strides. No thread
//! leaves before the last barrier. Compute capability 8.0.
//!
//! # Change since the last step
//!
//! No registers hold what is on its way, so more steps can be.

use super::parts::{AsyncCourier, Operand, in_warp_tile, multiply, store_tile};
use crate::{Element, SharedTile, Sum};
use cuda_std::{async_copy, thread};
use gemm_spec::{GemmParams, Tiles};

/// Computes a tile of TM x TN elements of C, with the block's other threads.
///
/// # Safety
///
/// Called by all threads of a block, whose tiles lie in shared memory that nothing else uses. The
/// pointers and the parameter block describe matrices that the grid may read (A, B) and write (C),
/// and no other code touches C during the launch.
#[inline(always)]
pub unsafe fn async_copy<
    T: Element<Sum = T> + Sum,
    const TM: usize,
    const TN: usize,
    const NA: usize,
    const NB: usize,
    const PENDING: u32,
>(
    (a, b, c): (*const T, *const T, *mut T),
    p: GemmParams<T>,
    Tiles { block: [bm, bn, bk], warp, stages, .. }: Tiles,
    tiles: SharedTile<T>,
    (tile_row, tile_col): (u64, u64),
) {
    let threads = bm * bn / (TM * TN);
    let (row, col) = (tile_row * bm as u64, tile_col * bn as u64);
    let mut a = AsyncCourier::<T, NA>::new(Operand::a(a, &p, row), [bm, bk], threads);
    let mut b = AsyncCourier::<T, NB>::new(Operand::b(b, &p, col), [bn, bk], threads);
    let (pitch_a, pitch_b) = (bm + Tiles::PADDING, bn + Tiles::PADDING);
    // One stage: the tile of A, then the tile of B.
    let (size_a, stage) = (bk * pitch_a, bk * (pitch_a + pitch_b));
    let (rows, cols) = in_warp_tile::<T>(bn, warp, [TM, TN]);
    let mut sums = [[T::ZERO; TN]; TM];
    let mut to_load = p.k;
    let mut to_multiply = p.k;
    let (mut load, mut read) = (0, 0);
    // SAFETY: elements of A and B are read only inside of the matrices. A stage is read after its
    // copies have arrived at every thread (the wait, then the barrier), and written again after
    // another barrier.
    unsafe {
        let mut start = |load: &mut usize, to_load: &mut u64| {
            if *to_load > 0 {
                a.start(tiles.add(*load), pitch_a, *to_load);
                b.start(tiles.add(*load + size_a), pitch_b, *to_load);
                *to_load = to_load.saturating_sub(bk as u64);
            }
            async_copy::commit_group();
            *load = if *load == (stages - 1) * stage { 0 } else { *load + stage };
        };
        for _ in 0..stages - 1 {
            start(&mut load, &mut to_load);
        }
        while to_multiply > 0 {
            async_copy::wait_group::<PENDING>();
            thread::sync_threads();
            start(&mut load, &mut to_load);
            let (tile_a, tile_b) = (tiles.add(read), tiles.add(read + size_a));
            multiply(bk, (tile_a, pitch_a, rows), (tile_b, pitch_b, cols), &mut sums);
            read = if read == (stages - 1) * stage { 0 } else { read + stage };
            to_multiply = to_multiply.saturating_sub(bk as u64);
        }
        store_tile(c, &p, (row, rows), (col, cols), &sums);
    }
}

macro_rules! list {
    ($($row:tt)*) => {
        async_entries! { order: row_by_row; $($row)* }
    };
}

/// The tile of C of this block: rows of tiles one after the other.
#[inline(always)]
fn row_by_row(_: &Tiles, _: [u64; 2]) -> (u64, u64) {
    (thread::block_idx_y().into(), thread::block_idx_x().into())
}

gemm_spec::k09_async_copy_kernels!(list);
