//! The kernels for few rows of C: their list, and how a block deals out its tile and K.

use crate::Tiles;

/// Threads of a block.
pub const THREADS: usize = 256;
/// Lanes of a warp along K and along N.
pub const LANES: [usize; 2] = [4, 8];

impl Tiles {
    /// How much of K a warp of a `skinny` kernel takes at a time. Warps stand next to each other
    /// over the block's columns, then behind each other along K.
    pub const fn skinny_window(&self) -> usize {
        let across = self.block[1] / self.warp[1];
        self.block[2] / (THREADS / 32 / across)
    }

    /// Elements of a warp's region of shared memory, where 16 bytes are so many: rows of a window
    /// of A, 16 bytes behind each; or the warp's sums.
    pub const fn skinny_region(&self, lanes: usize) -> usize {
        let [rows, cols] = self.warp;
        let of_a = rows * (self.skinny_window() + lanes);
        if of_a > rows * cols { of_a } else { rows * cols }
    }

    /// Elements of all warps' regions.
    pub const fn skinny_len(&self, lanes: usize) -> usize {
        self.skinny_region(lanes) * (THREADS / 32)
    }
}

/// Calls `$with!` once with every `skinny` kernel: entry point, variant, element, and the numbers
/// of [`Tiles`]: block, warp, thread, stages, min_blocks.
///
/// One row, or as many as give a thread 64 registers of sums.
#[macro_export]
macro_rules! skinny_kernels {
    ($with:ident) => {
        $with! {
        (skinny_row_i8, "skinny_row", i8, [1, 32, 256], [1, 32], [1, 4], 1, 3),
        (skinny_row_f8e4m3, "skinny_row", F8E4M3, [1, 32, 256], [1, 32], [1, 4], 1, 3),
        (skinny_row_f8e5m2, "skinny_row", F8E5M2, [1, 32, 256], [1, 32], [1, 4], 1, 3),
        (skinny_row_i32, "skinny_row", i32, [1, 32, 256], [1, 32], [1, 4], 1, 2),
        (skinny_row_f16, "skinny_row", f16, [1, 64, 256], [1, 64], [1, 8], 1, 2),
        (skinny_row_bf16, "skinny_row", bf16, [1, 64, 256], [1, 64], [1, 8], 1, 2),
        (skinny_row_f32, "skinny_row", f32, [1, 32, 256], [1, 32], [1, 4], 1, 2),
        (skinny_row_f64, "skinny_row", f64, [1, 16, 256], [1, 16], [1, 2], 1, 2),
        (skinny_rows_i8, "skinny_rows", i8, [16, 64, 64], [16, 32], [16, 4], 1, 2),
        (skinny_rows_f8e4m3, "skinny_rows", F8E4M3, [16, 64, 64], [16, 32], [16, 4], 1, 2),
        (skinny_rows_f8e5m2, "skinny_rows", F8E5M2, [16, 64, 64], [16, 32], [16, 4], 1, 1),
        (skinny_rows_i32, "skinny_rows", i32, [16, 64, 64], [16, 32], [16, 4], 1, 2),
        (skinny_rows_f16, "skinny_rows", f16, [16, 64, 64], [16, 32], [16, 4], 1, 2),
        (skinny_rows_bf16, "skinny_rows", bf16, [16, 64, 64], [16, 32], [16, 4], 1, 2),
        (skinny_rows_f32, "skinny_rows", f32, [16, 64, 64], [16, 32], [16, 4], 1, 2),
        (skinny_rows_f64, "skinny_rows", f64, [16, 32, 32], [16, 16], [16, 2], 1, 2),
        }
    };
}
