//! Step 4: a thread computes a small tile of C in registers: both factors of a product are read
//! once for many products.
//!
//! # Idea
//!
//! ```text
//! for each BM x BN tile of C, in parallel, one block:
//!     sum[TM][TN] = 0                                      a tile of TM x TN elements a thread
//!     for k0 in 0..K step BK:
//!         tile_a, tile_b as in step 3; wait
//!         for k in 0..BK:
//!             a[i] = tile_a[row + i][k], b[j] = tile_b[k][col + j]     TM + TN reads
//!             sum[i][j] += a[i] * b[j]                                 TM * TN products
//!         wait
//!     C[row + i][col + j] = alpha * sum[i][j] + beta * C[row + i][col + j]
//! ```
//!
//! # Mapping
//!
//! BM / TM x BN / TN threads in a line, row by row over the tile.
//!
//! # Shared memory
//!
//! As step 3: 8 KiB for 128, 128, 8 in f32. Neighbouring threads read TN columns apart, so that a
//! warp's reads of `tile_b` meet in the banks; step 6 mends that.
//!
//! # Preconditions
//!
//! Those of [`GemmParams`], and a grid from `Kernel::launches`. Any shape, any strides. No thread
//! leaves before the last barrier.
//!
//! # Change since the last step
//!
//! 64 products need 16 reads of shared memory and not 72.

use super::parts::{Operand, outer_product};
use crate::{Element, SharedTile, Sum, store};
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
pub unsafe fn thread_tile<
    T: Element,
    const TM: usize,
    const TN: usize,
    const NA: usize,
    const NB: usize,
>(
    (a, b, c): (*const T, *const T, *mut T::Output),
    p: GemmParams<T::Sum>,
    Tiles { block: [bm, bn, bk], .. }: Tiles,
    tile_a: SharedTile<T::Sum>,
    tile_b: SharedTile<T::Sum>,
) {
    let threads = bm * bn / (TM * TN);
    let row = thread::block_idx_y() as u64 * bm as u64;
    let col = thread::block_idx_x() as u64 * bn as u64;
    let (mut a, mut b) = (Operand::a(a, &p, row), Operand::b(b, &p, col));
    let thread = thread::thread_idx_x() as usize;
    // The thread's first row and column, within the block's tile.
    let (i0, j0) = (thread / (bn / TN) * TM, thread % (bn / TN) * TN);
    let mut sums = [[T::Sum::ZERO; TN]; TM];
    let mut left = p.k;
    // SAFETY: elements of A and B are read only inside of the matrices; between the writes of a
    // tile and the reads of other threads stands a barrier, and another before the next writes.
    unsafe {
        while left > 0 {
            let share_a: [T::Sum; NA] = a.elements([bm, bk], true, threads, left);
            let share_b: [T::Sum; NB] = b.elements([bn, bk], false, threads, left);
            for (v, element) in share_a.iter().enumerate() {
                tile_a.add(thread + v * threads).write(*element);
            }
            for (v, element) in share_b.iter().enumerate() {
                tile_b.add(thread + v * threads).write(*element);
            }
            thread::sync_threads();
            for k in 0..bk {
                let (mut column, mut row) = ([T::Sum::ZERO; TM], [T::Sum::ZERO; TN]);
                for (i, element) in column.iter_mut().enumerate() {
                    *element = tile_a.add((i0 + i) * bk + k).read();
                }
                for (j, element) in row.iter_mut().enumerate() {
                    *element = tile_b.add(k * bn + j0 + j).read();
                }
                outer_product(&column, &row, &mut sums);
            }
            thread::sync_threads();
            a.advance(bk);
            b.advance(bk);
            left = left.saturating_sub(bk as u64);
        }
        for (i, sums) in sums.iter().enumerate() {
            let row = row + (i0 + i) as u64;
            for (j, sum) in sums.iter().enumerate() {
                let col = col + (j0 + j) as u64;
                if row < p.m && col < p.n {
                    store::<T>(c, &p, row, col, *sum);
                }
            }
        }
    }
}

/// Makes entry points of this step from rows of a list; see `ladder_entries!`.
#[macro_export]
macro_rules! k04_thread_tile {
    ($($row:tt)*) => {
        $crate::ladder_entries! {
            $crate::ladder::k04_thread_tile::thread_tile, shared: 0, units: 1; $($row)*
        }
    };
}

/// The entry points of the table.
#[cfg(feature = "sm_70")]
pub mod entries {
    use cuda_std::half::{bf16, f16};
    gemm_spec::k04_thread_tile_kernels!(k04_thread_tile);
}
