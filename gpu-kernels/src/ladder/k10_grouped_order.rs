//! Step 10: blocks that run at one time share rows of A and columns of B in the L2 cache.
//!
//! # Idea
//!
//! ```text
//! as step 9, but the block with number i computes another tile of C:
//!     groups of G rows of tiles, one after the other
//!     within a group column by column: G tiles that share columns of B, then the next G
//! ```
//!
//! # Mapping
//!
//! As step 7 within the tile. A wave of W blocks touches about W / G columns of tiles and G rows,
//! where without groups it touches all columns of tiles, or W, and as many rows as it fills.
//!
//! # Shared memory
//!
//! As step 9: 49.5 KiB for 128, 128, 16, 3 in f32.
//!
//! # Preconditions
//!
//! Those of [`GemmParams`], and a grid from `Kernel::launches`. Any shape, any strides. No thread
//! leaves before the last barrier. Compute capability 8.0.
//!
//! # Change since the last step
//!
//! Less traffic between L2 cache and memory.

use super::k09_async_copy::multiply_tile;
use crate::{Epilogue, SharedTile, Sum, of_layer};
use cuda_std::thread;
use gemm_spec::{GemmParams, Tiles, order};

/// Rows of tiles in a group.
pub const GROUP: u32 = 8;

/// [`multiply_tile`] for the tiles of C in groups.
///
/// # Safety
///
/// As [`multiply_tile`].
#[inline(always)]
pub unsafe fn grouped_order<
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
    let number = thread::block_idx_y() * thread::grid_dim_x() + thread::block_idx_x();
    let (row, col) = order::grouped(number, thread::grid_dim_y(), thread::grid_dim_x(), GROUP);
    let tile = (row.into(), col.into());
    let (operands, p) = of_layer(operands, p);
    // SAFETY: the caller's promise.
    unsafe {
        let memory = (memory, tiles);
        multiply_tile::<T, TM, TN, NA, NB, PENDING, E>(operands, p, memory, tile, epilogue);
    }
}

/// Makes entry points of this step from rows of a list; see `ladder_entries!`.
#[macro_export]
macro_rules! k10_grouped_order {
    ($($row:tt)*) => {
        $crate::ladder_entries! {
            $crate::ladder::k10_grouped_order::grouped_order, shared: dynamic, units: 1; $($row)*
        }
    };
}

/// The entry points of the table.
#[cfg(feature = "sm_80")]
pub mod entries {
    gemm_spec::k10_grouped_order_kernels!(k10_grouped_order);
}
