//! Products by tiles of C, one task each, for the dtypes that the crate `gemm` does not sum as we
//! want.

use super::finish::Finish;
use super::{int, rows};
use crate::backend::HostOperands;
use crate::element::{Element, OutputOf, Scalar};
use crate::parallel;
use crate::plan::Product;
use gemm_spec::{DType, Layout, Precision, Shape};

/// Rows of a tile of C. With the two below, a task's blocks of A, B and C fill half a megabyte: a
/// second-level cache.
const TILE_ROWS: usize = 128;
/// Columns of a tile of C.
const TILE_COLS: usize = 256;
/// Products that are summed between two packings.
const TILE_DEPTH: usize = 256;

/// A task's blocks, row-major.
#[derive(Default)]
pub(super) struct Blocks<S> {
    pub a: Vec<S>,
    pub b: Vec<S>,
    pub sums: Vec<S>,
}

/// One rectangle of a matrix.
#[derive(Clone, Copy)]
pub(super) struct Block {
    pub row: usize,
    pub col: usize,
    pub rows: usize,
    pub cols: usize,
}

/// Where A, B and C lie, for tasks on any thread, and what becomes of the sums.
#[derive(Clone, Copy)]
pub(super) struct Origins<'a, T, C> {
    pub a: *const T,
    pub b: *const T,
    pub c: *mut C,
    pub finish: Option<Finish<'a, C>>,
}

// SAFETY: tasks only read A and B, and `multiply` gives each element of C to exactly one task.
unsafe impl<T: Sync, C: Send + Sync> Sync for Origins<'_, T, C> {}

/// The product.
///
/// # Safety
/// As [`HostOperands`] says, for elements of `T` and of `C`; C is not empty.
pub(super) unsafe fn multiply<T: Element, C: OutputOf<T>>(
    product: &Product,
    operands: &HostOperands,
) {
    let Shape { rows: m, cols: n } = product.shape();
    let tiles_across = n.div_ceil(TILE_COLS);
    let tiles = m.div_ceil(TILE_ROWS) * tiles_across;
    let HostOperands { a, b, c, .. } = *operands;
    let finish = Finish::<C>::new(product, operands);
    let origins = Origins { a: a.cast(), b: b.cast(), c: c.cast(), finish };
    parallel::each_with(tiles, Blocks::default, |blocks, tile| {
        let (row, col) = (tile / tiles_across * TILE_ROWS, tile % tiles_across * TILE_COLS);
        let (rows, cols) = (TILE_ROWS.min(m - row), TILE_COLS.min(n - col));
        let place = Block { row, col, rows, cols };
        // SAFETY: the tile lies in C, tiles do not overlap, and the caller vouches for the elements
        // while this runs.
        unsafe {
            sum_tile(product, &origins, place, blocks);
            store_tile(product, &blocks.sums, place, &origins);
        }
    });
}

/// Fills `blocks.sums` with the tile's part of A * B.
///
/// # Safety
/// As [`multiply`]; the tile lies in C.
unsafe fn sum_tile<T: Element, C>(
    product: &Product,
    origins: &Origins<'_, T, C>,
    place: Block,
    blocks: &mut Blocks<T::Scalar>,
) {
    let Block { row, col, rows, cols } = place;
    blocks.sums.clear();
    blocks.sums.resize(rows * cols, <T::Scalar as Scalar>::ZERO);
    for p in (0..product.k).step_by(TILE_DEPTH) {
        let depth = TILE_DEPTH.min(product.k - p);
        let (of_a, of_b) =
            (Block { row, col: p, rows, cols: depth }, Block { row: p, col, rows: depth, cols });
        // SAFETY: the blocks lie in A and in B.
        unsafe {
            pack(origins.a, &product.a, of_a, &mut blocks.a);
            pack(origins.b, &product.b, of_b, &mut blocks.b);
        }
        if product.dtype == DType::F32 && product.precision == Precision::Tf32 {
            for block in [&mut blocks.a, &mut blocks.b] {
                cut_off(bytemuck::cast_slice_mut(block));
            }
        }
        add_product(blocks, (rows, cols, depth), product.batch_invariant);
    }
}

/// Copies a block of a matrix, row-major, in the type of the sums.
///
/// # Safety
/// The block lies in the layout's shape, and its elements are valid to read from `data`.
pub(super) unsafe fn pack<T: Element>(
    data: *const T,
    layout: &Layout,
    block: Block,
    packed: &mut Vec<T::Scalar>,
) {
    packed.clear();
    for i in block.row..block.row + block.rows {
        // SAFETY: the row's first element is one of the block's, and so is each that a stride leads
        // to.
        unsafe {
            let row = data.add(layout.index(i, block.col));
            if layout.strides.col == 1 {
                let row = std::slice::from_raw_parts(row, block.cols);
                packed.extend(row.iter().map(|x| x.widen()));
            } else {
                let stride = layout.strides.col;
                packed.extend((0..block.cols).map(|j| (*row.offset(j as isize * stride)).widen()));
            }
        }
    }
}

/// Leaves of each f32 what tensor cores take of it: its upper 19 bits, 10 of them mantissa.
fn cut_off(block: &mut [f32]) {
    for element in block {
        *element = f32::from_bits(element.to_bits() & !0x1fff);
    }
}

/// sums += a * b. `alike`: a row's sums do not depend on how many rows there are, which they do in
/// the crate `gemm`.
pub(super) fn add_product<S: Scalar>(
    blocks: &mut Blocks<S>,
    (rows, cols, depth): (usize, usize, usize),
    alike: bool,
) {
    if S::DTYPE == DType::I32 {
        let sums = bytemuck::cast_slice_mut(&mut blocks.sums);
        let (a, b) = (bytemuck::cast_slice(&blocks.a), bytemuck::cast_slice(&blocks.b));
        return int::add_product(sums, a, b, cols, depth);
    }
    let Blocks { a, b, sums } = blocks;
    if alike {
        return rows::add_product(S::DTYPE, sums, a, b, (cols, depth));
    }
    assert!(a.len() == rows * depth && b.len() == depth * cols && sums.len() == rows * cols);
    // SAFETY: the three are row-major and have the lengths that the shapes say. S is f32 or f64, of
    // which the crate has a product: i32 has been multiplied above.
    unsafe {
        ::gemm::gemm(
            rows,
            cols,
            depth,
            sums.as_mut_ptr(),
            1,
            cols as isize,
            true,
            a.as_ptr(),
            1,
            depth as isize,
            b.as_ptr(),
            1,
            cols as isize,
            S::ONE,
            S::ONE,
            false,
            false,
            false,
            ::gemm::Parallelism::None,
        );
    }
}

/// Writes alpha * sum + beta * C to the tile's elements of C.
///
/// # Safety
/// As [`multiply`]; the tile lies in C, and nothing else touches its elements meanwhile.
pub(super) unsafe fn store_tile<T: Element, C: OutputOf<T>>(
    product: &Product,
    sums: &[T::Scalar],
    place: Block,
    origins: &Origins<'_, T, C>,
) {
    let alpha: C::Scalar = product.alpha.get();
    let beta = product.beta.map(|beta| beta.get::<C::Scalar>());
    for (i, row) in sums.chunks_exact(place.cols).enumerate() {
        if let Some(finish) = &origins.finish {
            // Scalars are of f32, which pass through f64 unchanged.
            let float = |scalar: C::Scalar| scalar.to_f64() as f32;
            let sums = row.iter().map(|&sum| float(alpha.times(C::convert(sum))));
            let at = |j| origins.c.wrapping_add(product.c.index(place.row + i, j));
            // SAFETY: the elements are the caller's to write, and its promise.
            unsafe { finish.row((place.row + i, place.col), sums, beta.map(float), at) };
            continue;
        }
        for (j, &sum) in row.iter().enumerate() {
            // SAFETY: the element is the caller's to write.
            unsafe {
                let element = origins.c.add(product.c.index(place.row + i, place.col + j));
                let product = alpha.times(C::convert(sum));
                *element = C::narrow(match beta {
                    Some(beta) => product.plus(beta.times((*element).widen())),
                    None => product,
                });
            }
        }
    }
}
