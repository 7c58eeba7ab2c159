//! Step 8: while a step's tiles are multiplied, the next ones are on their way.
//!
//! # Idea
//!
//! ```text
//! as step 7, but with two tiles of A and two of B:
//!     load the first tiles into registers, write them to shared memory; wait
//!     for each step:
//!         load the next tiles into registers       they arrive while the products are computed
//!         multiply this step's tiles
//!         write the registers to the other pair    nobody reads it now
//!         wait                                     one barrier a step, not two
//! ```
//!
//! # Mapping
//!
//! As step 7.
//!
//! # Shared memory
//!
//! Two of step 7's pairs of tiles: 16.5 KiB for 128, 128, 8 in f32.
//!
//! # Preconditions
//!
//! Those of [`GemmParams`], and a grid from `Kernel::launches`. Any shape, any strides; operands
//! that are contiguous along one extent and aligned to 16 bytes are read by 16 bytes. No thread
//! leaves before the last barrier.
//!
//! # Change since the last step
//!
//! The latency of global memory is hidden behind the products, and half of the barriers are gone.

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
pub unsafe fn double_buffer<
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
    // Distances of this step's tiles from the first ones; they change places with the others.
    let (mut now_a, mut now_b) = (0, 0);
    // SAFETY: elements of A and B are read only inside of the matrices; a barrier stands between
    // the writes of a pair of tiles and its reads, and between these and the next writes.
    unsafe {
        let (packs_a, packs_b) = (a.load(bk, left), b.load(bk, left));
        a.store(&packs_a, tile_a, pitch_a);
        b.store(&packs_b, tile_b, pitch_b);
        thread::sync_threads();
        while left > 0 {
            left = left.saturating_sub(bk as u64);
            let (packs_a, packs_b) = (a.load(bk, left), b.load(bk, left));
            let (this_a, this_b) = (tile_a.add(now_a), tile_b.add(now_b));
            multiply(bk, (this_a, pitch_a, rows), (this_b, pitch_b, cols), &mut sums);
            (now_a, now_b) = (bk * pitch_a - now_a, bk * pitch_b - now_b);
            a.store(&packs_a, tile_a.add(now_a), pitch_a);
            b.store(&packs_b, tile_b.add(now_b), pitch_b);
            thread::sync_threads();
        }
        store_tile::<T, TM, TN>((c, [bm, bn, bk]), &p, (row, rows), (col, cols), sums);
    }
}

/// Makes entry points of this step from rows of a list; see `ladder_entries!`.
#[macro_export]
macro_rules! k08_double_buffer {
    ($($row:tt)*) => {
        $crate::ladder_entries! {
            $crate::ladder::k08_double_buffer::double_buffer, shared: 4, units: LANES; $($row)*
        }
    };
}

/// The entry points of the table.
#[cfg(feature = "sm_70")]
pub mod entries {
    use cuda_std::half::{bf16, f16};
    gemm_spec::k08_double_buffer_kernels!(k08_double_buffer);
}
