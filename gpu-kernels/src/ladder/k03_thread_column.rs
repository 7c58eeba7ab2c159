//! Step 3: a thread computes several elements of a column, and reads each factor of B once for all
//! of them.
//!
//! # Idea
//!
//! ```text
//! for each BM x BN tile of C, in parallel, one block:
//!     sum[TM] = 0                                          a column of TM elements a thread
//!     for k0 in 0..K step BK:
//!         tile_a = A[rows of the tile][k0..k0 + BK]        BM * BK / threads elements a thread
//!         tile_b = B[k0..k0 + BK][columns of the tile]     BN * BK / threads elements a thread
//!         wait
//!         for k in 0..BK:
//!             b = tile_b[k][col]                           one read for TM products
//!             for i in 0..TM: sum[i] += tile_a[row + i][k] * b
//!         wait
//!     C[row + i][col] = alpha * sum[i] + beta * C[row + i][col] for each i
//! ```
//!
//! # Mapping
//!
//! BM x BN / TM threads in a line. Neighbouring threads have neighbouring columns, so that a warp
//! reads 32 different banks of `tile_b`, and one element of `tile_a` (broadcast).
//!
//! # Shared memory
//!
//! `tile_a` BM x BK and `tile_b` BK x BN sums: 4 KiB for 64, 64, 8 in f32.
//!
//! # Preconditions
//!
//! Those of [`GemmParams`], and a grid from `Kernel::launches`. Any shape, any strides. No thread
//! leaves before the last barrier.
//!
//! # Change since the last step
//!
//! TM = 8 products need 9 reads of shared memory and not 16, and the larger tile of C halves the
//! loads from global memory once more: M N K (1 / BM + 1 / BN).

use super::parts::Operand;
use crate::{Element, SharedTile, Sum, store};
use cuda_std::thread;
use gemm_spec::{GemmParams, Tiles};

/// Computes TM elements of a column of C, with the block's other threads.
///
/// # Safety
///
/// Called by all threads of a block, whose tiles lie in shared memory that nothing else uses. The
/// pointers and the parameter block describe matrices that the grid may read (A, B) and write (C),
/// and no other code touches C during the launch.
#[inline(always)]
pub unsafe fn thread_column<
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
    // The thread's first row and its column, within the tile.
    let (i0, j) = (thread / bn * TM, thread % bn);
    let mut sums = [T::Sum::ZERO; TM];
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
                let factor = tile_b.add(k * bn + j).read();
                for (i, sum) in sums.iter_mut().enumerate() {
                    *sum = tile_a.add((i0 + i) * bk + k).read().mul_add(factor, *sum);
                }
            }
            thread::sync_threads();
            a.advance(bk);
            b.advance(bk);
            left = left.saturating_sub(bk as u64);
        }
        let col = col + j as u64;
        for (i, sum) in sums.iter().enumerate() {
            let row = row + (i0 + i) as u64;
            if row < p.m && col < p.n {
                store::<T>(c, &p, row, col, *sum);
            }
        }
    }
}

/// Makes entry points of this step from rows of a list; see `ladder_entries!`.
#[macro_export]
macro_rules! k03_thread_column {
    ($($row:tt)*) => {
        $crate::ladder_entries! {
            $crate::ladder::k03_thread_column::thread_column, shared: 0, units: 1; $($row)*
        }
    };
}

/// The entry points of the table.
#[cfg(feature = "sm_70")]
pub mod entries {
    use cuda_std::half::{bf16, f16};
    gemm_spec::k03_thread_column_kernels!(k03_thread_column);
}
