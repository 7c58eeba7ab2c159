//! Step 6: in f32 and i32 no two lanes of a warp meet in a bank of shared memory.
//!
//! # Idea
//!
//! ```text
//! as step 5, but
//!     each row of a tile is 4 elements longer than it need be      k and k + 1 lie in other banks
//!     a thread's packs lie BM / 2 rows (BN / 2 columns) apart      neighbours read neighbours
//! ```
//!
//! # Mapping
//!
//! As step 5, but a thread's 8 rows are two groups of 4, and so are its columns (f32: groups are
//! what a pack of 16 bytes holds).
//!
//! # Shared memory
//!
//! As step 5 with 4 more elements a row, 8.25 KiB. Rows of 132 words start 4 banks apart, so that
//! the transposing writes of a warp spread over the banks; 8 neighbouring threads read 8
//! neighbouring packs, which is all banks once.
//!
//! # Preconditions
//!
//! Those of [`GemmParams`], and a grid from `Kernel::launches`. Any shape, any strides; operands
//! that are contiguous along one extent and aligned to 16 bytes are read by 16 bytes. No thread
//! leaves before the last barrier.
//!
//! # Change since the last step
//!
//! By the addresses, in f32 and i32 no two lanes that are served together meet in a bank
//! (docs/guide has the picture). In f16, bf16 and f64, whose packs are 8 or 2 elements, those of a
//! transposing write still meet two by two.

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
pub unsafe fn no_conflicts<
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
    // Neighbouring packs belong to neighbouring threads.
    let thread = thread::thread_idx_x() as usize;
    let (pitch_a, pitch_b) = (bm + Tiles::PADDING, bn + Tiles::PADDING);
    let lanes = T::Sum::LANES;
    let rows = Spread { first: thread / (bn / TN) * lanes, gap: bm / TM * lanes };
    let cols = Spread { first: thread % (bn / TN) * lanes, gap: bn / TN * lanes };
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
macro_rules! k06_no_conflicts {
    ($($row:tt)*) => {
        $crate::ladder_entries! {
            $crate::ladder::k06_no_conflicts::no_conflicts, shared: 4, units: LANES; $($row)*
        }
    };
}

/// The entry points of the table.
#[cfg(feature = "sm_70")]
pub mod entries {
    use cuda_std::half::{bf16, f16};
    gemm_spec::k06_no_conflicts_kernels!(k06_no_conflicts);
}
