//! Products with scales for blocks of 128: as `tiles`, and the sums of each block of K are
//! multiplied by their scales before they are added up.

use super::tiles::{Block, Blocks, Origins, add_product, pack, store_tile};
use crate::element::OutputOf;
use crate::parallel;
use crate::plan::ScaledProduct;
use fp8::F8E4M3;
use gemm_spec::SCALE_BLOCK;

/// Where the operands and their scales lie.
#[derive(Clone, Copy)]
pub(super) struct Sources {
    pub a: *const F8E4M3,
    pub b: *const F8E4M3,
    pub a_scales: *const f32,
    pub b_scales: *const f32,
}

// SAFETY: tasks only read them.
unsafe impl Sync for Sources {}

/// The product.
///
/// # Safety
/// Every element of the layouts of A, B and their scales is valid to read, and every element of C's
/// from `c` to read and write; C's lie apart. No extent is 0.
pub(super) unsafe fn multiply<C: OutputOf<F8E4M3>>(
    scaled: &ScaledProduct,
    sources: Sources,
    c: *mut C,
) {
    let product = &scaled.product;
    let (m, n) = (product.c.shape.rows, product.c.shape.cols);
    let tiles_across = n.div_ceil(SCALE_BLOCK);
    let tiles = m.div_ceil(SCALE_BLOCK) * tiles_across;
    let origins = Origins { a: sources.a, b: sources.b, c, finish: None };
    let start = || (Blocks::default(), Vec::new());
    parallel::each_with(tiles, start, |(blocks, sums), tile| {
        let row = tile / tiles_across * SCALE_BLOCK;
        let col = tile % tiles_across * SCALE_BLOCK;
        let (rows, cols) = (SCALE_BLOCK.min(m - row), SCALE_BLOCK.min(n - col));
        let place = Block { row, col, rows, cols };
        // SAFETY: the tile lies in C, tiles do not overlap, and the caller vouches for the elements
        // while this runs.
        unsafe {
            sum_tile(scaled, &sources, place, blocks, sums);
            store_tile::<F8E4M3, C>(product, sums, place, &origins);
        }
    });
}

/// Fills `sums` with the tile's part of the product.
///
/// # Safety
/// As [`multiply`]; the tile lies in C, and in one block of B's columns.
unsafe fn sum_tile(
    scaled: &ScaledProduct,
    sources: &Sources,
    place: Block,
    blocks: &mut Blocks<f32>,
    sums: &mut Vec<f32>,
) {
    let Block { row, col, rows, cols } = place;
    let ScaledProduct { product, a_scales, b_scales } = scaled;
    sums.clear();
    sums.resize(rows * cols, 0.0);
    for p in (0..product.k).step_by(SCALE_BLOCK) {
        let depth = SCALE_BLOCK.min(product.k - p);
        let of_a = Block { row, col: p, rows, cols: depth };
        let of_b = Block { row: p, col, rows: depth, cols };
        blocks.sums.clear();
        blocks.sums.resize(rows * cols, 0.0);
        // SAFETY: the blocks lie in A and in B, and have scales.
        unsafe {
            pack(sources.a, &product.a, of_a, &mut blocks.a);
            pack(sources.b, &product.b, of_b, &mut blocks.b);
            add_product(blocks, (rows, cols, depth), product.batch_invariant);
            let q = p / SCALE_BLOCK;
            let of_b = *sources.b_scales.add(b_scales.index(q, col / SCALE_BLOCK));
            for (i, (sums, part)) in sums.chunks_mut(cols).zip(blocks.sums.chunks(cols)).enumerate()
            {
                let factor = *sources.a_scales.add(a_scales.index(row + i, q)) * of_b;
                for (sum, part) in sums.iter_mut().zip(part) {
                    *sum += factor * part;
                }
            }
        }
    }
}
