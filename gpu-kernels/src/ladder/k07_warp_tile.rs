//! Step 7: each warp computes a compact tile of its own.
//!
//! # Idea
//!
//! ```text
//! as step 6, but C is dealt out in two levels:
//!     the block's BM x BN tile to warps, WM x WN each    a warp reads WM + WN factors for each k,
//!     the warp's tile to lanes, TM x TN each               and not 16 + 128
//! ```
//!
//! # Mapping
//!
//! Warps row by row over the block's tile, lanes row by row over the warp's. A lane's groups of
//! rows and columns are spread over its warp's tile, so that neighbours read neighbouring packs.
//!
//! # Shared memory
//!
//! As step 6. A warp of 32 x 64 reads 8 packs of `tile_a` and 16 of `tile_b` for a k; in step 6,
//! with two rows of 16 threads, it reads 4 and 32.
//!
//! # Preconditions
//!
//! Those of [`GemmParams`], and a grid from `Kernel::launches`. Any shape, any strides; operands
//! that are contiguous along one extent and aligned to 16 bytes are read by 16 bytes. No thread
//! leaves before the last barrier.
//!
//! # Change since the last step
//!
//! Fewer different addresses in a warp's reads of shared memory: more broadcast, fewer wavefronts.

use super::parts::{Courier, Operand, in_warp_tile, multiply, store_tile};
use crate::{Element, SharedTile, Sum};
use cuda_std::thread;
use gemm_spec::{GemmParams, Tiles};

/// Computes a tile of TM x TN elements of C, with the block's other threads.
///
/// # Safety
///
/// Called by all threads of a block, whose tiles lie in shared memory that nothing else uses. The
/// pointers and the parameter block describe matrices that the grid may read (A, B) and write (C),
/// and no other code touches C during the launch.
#[inline(always)]
pub unsafe fn warp_tile<
    T: Element,
    const TM: usize,
    const TN: usize,
    const NA: usize,
    const NB: usize,
>(
    (a, b, c): (*const T, *const T, *mut T::Output),
    p: GemmParams<T::Sum>,
    Tiles { block: [bm, bn, bk], warp, .. }: Tiles,
    tile_a: SharedTile<T::Sum>,
    tile_b: SharedTile<T::Sum>,
) {
    let threads = bm * bn / (TM * TN);
    let row = thread::block_idx_y() as u64 * bm as u64;
    let col = thread::block_idx_x() as u64 * bn as u64;
    let mut a = Courier::<T, NA>::new(Operand::a(a, &p, row), [bm, bk], threads);
    let mut b = Courier::<T, NB>::new(Operand::b(b, &p, col), [bn, bk], threads);
    let (pitch_a, pitch_b) = (bm + Tiles::PADDING, bn + Tiles::PADDING);
    let (rows, cols) = in_warp_tile::<T::Sum>(thread::thread_idx_x() as usize, bn, warp, [TM, TN]);
    let mut sums = [[T::Sum::ZERO; TN]; TM];
    let mut left = p.k;
    // SAFETY: elements of A and B are read only inside of the matrices; between the writes of a
    // tile and the reads of other threads stands a barrier, and another before the next writes.
    unsafe {
        while left > 0 {
            let (packs_a, packs_b) = (a.load(bk, left), b.load(bk, left));
            a.store(&packs_a, tile_a, pitch_a);
            b.store(&packs_b, tile_b, pitch_b);
            thread::sync_threads();
            multiply(bk, (tile_a, pitch_a, rows), (tile_b, pitch_b, cols), &mut sums);
            thread::sync_threads();
            left = left.saturating_sub(bk as u64);
        }
        store_tile::<T, TM, TN>((c, [bm, bn, bk]), &p, (row, rows), (col, cols), sums);
    }
}

/// Makes entry points of this step from rows of a list; see `ladder_entries!`.
#[macro_export]
macro_rules! k07_warp_tile {
    ($($row:tt)*) => {
        $crate::ladder_entries! {
            $crate::ladder::k07_warp_tile::warp_tile, shared: 4, units: LANES; $($row)*
        }
    };
}

/// The entry points of the table.
#[cfg(feature = "sm_70")]
pub mod entries {
    use crate::{F8E4M3, F8E5M2};
    use cuda_std::half::{bf16, f16};
    gemm_spec::k07_warp_tile_kernels!(k07_warp_tile);
}
