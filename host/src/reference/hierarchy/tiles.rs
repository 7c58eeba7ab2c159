//! Sizes of the hierarchy's tiles, and which of them a GPU can have.

use gemm_spec::{DType, MAX_GRID_X, Shape};

/// Lanes of a warp: threads that execute one instruction together.
pub const LANES: usize = 32;
/// The most threads of a block (CUDA C++ Programming Guide, technical specifications).
pub const MAX_THREADS: usize = 1024;
/// The most 32-bit registers of a thread.
pub const MAX_REGISTERS: usize = 255;
/// The most shared memory of a block, of compute capability 9.0. Others have less; 48 KiB needs no
/// request anywhere.
pub const MAX_SHARED_BYTES: usize = 227 * 1024;

/// Rows, columns and depth of the tiles of each level, in elements.
///
/// ```text
/// C        m x n            a grid of blocks
/// block    block_m x block_n   block_k deep; (block_m / warp_m) * (block_n / warp_n) warps
/// warp     warp_m x warp_n     (warp_m / thread_m) x (warp_n / thread_n) = 32 lanes
/// thread   thread_m x thread_n
/// ```
///
/// Any sizes can be written down; [`Tiles::check`] says which make a kernel. It is a `const fn`, so
/// tiles that are known when a program is compiled can be checked then:
///
/// ```
/// use gemmite::{DType, reference::hierarchy::Tiles};
/// const TILES: Tiles = Tiles {
///     block_m: 128,
///     block_n: 128,
///     block_k: 8,
///     warp_m: 32,
///     warp_n: 64,
///     thread_m: 8,
///     thread_n: 8,
/// };
/// const { assert!(TILES.check(DType::F32).is_ok()) };
/// assert_eq!((TILES.warps(), TILES.threads(), TILES.lanes()), (8, 256, (4, 8)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tiles {
    /// Rows of C that a block computes.
    pub block_m: usize,
    /// Columns of C that a block computes.
    pub block_n: usize,
    /// How much of K a block has in shared memory at a time.
    pub block_k: usize,
    /// Rows of the block's tile that a warp computes.
    pub warp_m: usize,
    /// Columns of the block's tile that a warp computes.
    pub warp_n: usize,
    /// Rows of the warp's tile that a thread computes.
    pub thread_m: usize,
    /// Columns of the warp's tile that a thread computes.
    pub thread_n: usize,
}

/// Why no kernel can have these [`Tiles`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TilesError {
    /// A size is 0.
    #[error("a tile has at least one element each way")]
    Zero,
    /// Warps do not partition the block.
    #[error("the block's tile is not a whole number of the warp's tiles each way")]
    Block,
    /// Threads do not partition the warp.
    #[error("the warp's tile is not a whole number of the thread's tiles each way")]
    Warp,
    /// A warp would not have 32 lanes.
    #[error("the warp's tile has {0} x {1} of the thread's tiles; a warp has 32 lanes")]
    Lanes(usize, usize),
    /// A block would have more than [`MAX_THREADS`].
    #[error("the block's tile has {0} x {1} of the thread's tiles; a block has at most 1024")]
    Threads(usize, usize),
    /// A thread would need more than [`MAX_REGISTERS`] for its sums and fragments.
    #[error("the thread's tile and its fragments do not fit into 255 registers")]
    Registers,
    /// A block would need more than [`MAX_SHARED_BYTES`].
    #[error("the block's tiles of A and B do not fit into 227 KiB of shared memory")]
    Shared,
    /// C would need more than [`MAX_GRID_X`] blocks.
    #[error("a C of {0} has more of the block's tiles than a grid has blocks (2^31 - 1)")]
    Grid(Shape),
}

impl Tiles {
    /// Whether a kernel for elements of `dtype` can have these tiles.
    ///
    /// # Errors
    /// When the tiles do not nest, or some GPU limit has no room for them; see [`TilesError`].
    pub const fn check(&self, dtype: DType) -> Result<(), TilesError> {
        let Tiles { block_m, block_n, block_k, warp_m, warp_n, thread_m, thread_n } = *self;
        if block_m == 0 || block_n == 0 || block_k == 0 || thread_m == 0 || thread_n == 0 {
            return Err(TilesError::Zero);
        }
        if warp_m == 0 || warp_n == 0 {
            return Err(TilesError::Zero);
        }
        if !block_m.is_multiple_of(warp_m) || !block_n.is_multiple_of(warp_n) {
            return Err(TilesError::Block);
        }
        if !warp_m.is_multiple_of(thread_m) || !warp_n.is_multiple_of(thread_n) {
            return Err(TilesError::Warp);
        }
        let (lanes_m, lanes_n) = self.lanes();
        if lanes_m.saturating_mul(lanes_n) != LANES {
            return Err(TilesError::Lanes(lanes_m, lanes_n));
        }
        let (threads_m, threads_n) = (block_m / thread_m, block_n / thread_n);
        if threads_m.saturating_mul(threads_n) > MAX_THREADS {
            return Err(TilesError::Threads(threads_m, threads_n));
        }
        // The sums, a fragment of A and one of B; addresses and loop counters come on top.
        let sum_bytes = dtype.accumulator().size_bytes();
        let fragments = thread_m.saturating_add(thread_n);
        let values = thread_m.saturating_mul(thread_n).saturating_add(fragments);
        if values.saturating_mul(sum_bytes / 4) > MAX_REGISTERS {
            return Err(TilesError::Registers);
        }
        // No overflow: 1024 threads of 255 rows or columns at most.
        if (block_m + block_n).saturating_mul(block_k).saturating_mul(sum_bytes) > MAX_SHARED_BYTES
        {
            return Err(TilesError::Shared);
        }
        Ok(())
    }

    /// Warps of a block.
    ///
    /// # Panics
    /// When the warp's tile is empty, which [`Tiles::check`] refuses.
    pub const fn warps(&self) -> usize {
        (self.block_m / self.warp_m) * (self.block_n / self.warp_n)
    }

    /// How a warp's lanes are arranged: rows and columns of thread tiles, whose product is 32. Lane
    /// `l` has the thread tile (l / columns, l % columns) of the warp's tile.
    ///
    /// # Panics
    /// When the thread's tile is empty, which [`Tiles::check`] refuses.
    pub const fn lanes(&self) -> (usize, usize) {
        (self.warp_m / self.thread_m, self.warp_n / self.thread_n)
    }

    /// Threads of a block.
    ///
    /// # Panics
    /// Where [`Tiles::warps`] does.
    pub const fn threads(&self) -> usize {
        self.warps() * LANES
    }

    /// The block's tiles of C along m and n.
    pub(super) fn grid(&self, c: Shape) -> Result<(u32, u32), TilesError> {
        let (m, n) = (c.rows.div_ceil(self.block_m), c.cols.div_ceil(self.block_n));
        match m.checked_mul(n) {
            // An empty C may have too many rows of no tiles.
            Some(0) => Ok((0, 0)),
            Some(blocks) if blocks <= MAX_GRID_X => Ok((m as u32, n as u32)),
            _ => Err(TilesError::Grid(c)),
        }
    }
}
