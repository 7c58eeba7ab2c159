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
//! and not W columns and one row.
//!
//! # Shared memory
//!
//! As step 9.
//!
//! # Preconditions
//!
//! Those of [`GemmParams`], and a grid from `Kernel::launches`. Any shape, any strides. No thread
//! leaves before the last barrier. Compute capability 8.0.
//!
//! # Change since the last step
//!
//! Less traffic between L2 cache and memory.

use super::k09_async_copy::async_copy;
use cuda_std::thread;
use gemm_spec::Tiles;

/// Rows of tiles in a group.
const GROUP: u32 = 8;

/// The tile of C of this block.
#[inline(always)]
fn grouped(tiles: &Tiles, [m, n]: [u64; 2]) -> (u64, u64) {
    let _ = (tiles, m, n);
    let number = thread::block_idx_y() * thread::grid_dim_x() + thread::block_idx_x();
    let (rows, cols) = (thread::grid_dim_y(), thread::grid_dim_x());
    let group = number / (GROUP * cols);
    let first = group * GROUP;
    let height = (rows - first).min(GROUP);
    let within = number % (GROUP * cols);
    ((first + within % height).into(), (within / height).into())
}

macro_rules! list {
    ($($row:tt)*) => {
        async_entries! { order: grouped; $($row)* }
    };
}

gemm_spec::k10_grouped_order_kernels!(list);
