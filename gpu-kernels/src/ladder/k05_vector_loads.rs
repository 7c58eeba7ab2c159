//! Step 5: global and shared memory are read 16 bytes at a time.
//!
//! # Idea
//!
//! ```text
//! as step 4, but
//!     tile_a is stored transposed: a row for each k        so that a thread's TM factors of A lie
//!     packs of 16 bytes go from global to shared memory    side by side, like those of B
//!     a[0..4], a[4..8], b[0..4], b[4..8] are read as packs
//! ```
//!
//! # Mapping
//!
//! As step 4. Where an operand is contiguous along K, a thread's pack holds several k of one row
//! (or column), and is written to as many rows of the tile; where it is contiguous along the other
//! extent the pack is written as it is.
//!
//! # Shared memory
//!
//! `tile_a` BK x BM and `tile_b` BK x BN sums: 8 KiB for 128, 128, 8 in f32. Writing a column of
//! a tile meets one bank many times, and so do the reads of packs TN columns apart; step 6 mends
//! both.
//!
//! # Preconditions
//!
//! Those of [`GemmParams`], and a grid from `Kernel::launches`. Any shape, any strides; operands
//! that are contiguous along one extent and aligned to 16 bytes are read by 16 bytes. No thread
//! leaves before the last barrier.
//!
//! # Change since the last step
//!
//! A quarter of the load instructions, for the same bytes.

use super::parts::{Courier, Operand, Spread, multiply, store_tile};
use crate::{Element, Packed, SharedTile, Sum};
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
pub unsafe fn vector_loads<
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
    let mut a = Courier::<T, NA>::new(Operand::a(a, &p, row), [bm, bk], threads);
    let mut b = Courier::<T, NB>::new(Operand::b(b, &p, col), [bn, bk], threads);
    // Neighbouring packs belong to one thread.
    let thread = thread::thread_idx_x() as usize;
    let (pitch_a, pitch_b) = (bm, bn);
    let rows = Spread { first: thread / (bn / TN) * TM, gap: T::Sum::LANES };
    let cols = Spread { first: thread % (bn / TN) * TN, gap: T::Sum::LANES };
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
macro_rules! k05_vector_loads {
    ($($row:tt)*) => {
        $crate::ladder_entries! {
            $crate::ladder::k05_vector_loads::vector_loads, shared: 0, units: LANES; $($row)*
        }
    };
}

/// The entry points of the table.
#[cfg(feature = "sm_70")]
pub mod entries {
    use cuda_std::half::{bf16, f16};
    gemm_spec::k05_vector_loads_kernels!(k05_vector_loads);
}
