//! Step 2: a block shares what its threads read, through tiles in shared memory.
//!
//! # Idea
//!
//! ```text
//! for each TILE x TILE tile of C, in parallel, one block:
//!     sum = 0                                              one a thread
//!     for k0 in 0..K step TILE:
//!         tile_a = A[rows of the tile][k0..k0 + TILE]      one element a thread; 0 outside of A
//!         tile_b = B[k0..k0 + TILE][columns of the tile]   one element a thread; 0 outside of B
//!         wait until both tiles are written
//!         for i in 0..TILE: sum += tile_a[row][i] * tile_b[i][col]
//!         wait until both tiles are read
//!     C[row][col] = alpha * sum + beta * C[row][col]
//! ```
//!
//! # Mapping
//!
//! A block of TILE x TILE threads, one output element a thread, `threadIdx.x` along the columns
//! (and, in the variant `uncoalesced`, along the rows, which makes neighbouring threads load a row
//! stride apart).
//!
//! # Shared memory
//!
//! Two tiles of TILE x TILE sums: 2 KiB for TILE = 16 in f32. f16 and bf16 are widened to f32 as
//! they are stored, once for each element of a tile and not once for each product. No padding: a
//! warp reads TILE neighbours of `tile_b` and 32 / TILE elements of `tile_a`, each for as many
//! lanes as it is for (broadcast). In `uncoalesced` it reads a column of `tile_a`, and stores
//! columns of both: with TILE = 16 these lie in two and four banks, eight words in each.
//!
//! # Preconditions
//!
//! Those of [`GemmParams`], and a grid from `Kernel::launches`. Any shape, any strides. No thread
//! leaves before the last barrier, also where its element lies outside of C.
//!
//! # Change since the last step
//!
//! Each block loads an element of A and of B once for TILE products: 2 M N K / TILE loads from
//! global memory in all. On an H100 at 4096^3 in f32: 25.3 ms before, 16.8 ms with TILE = 16,
//! 15.6 ms with TILE = 32 (`2026-11-21-1c245fd8e-twins.csv`).

use crate::{Element, SharedTile, Sum, of_layer, store};
use cuda_std::{kernel, shared_array, thread};
use gemm_spec::{GemmParams, ThreadOrder};

/// Computes the element of C that belongs to this thread, with the block's other threads.
///
/// # Safety
///
/// Called by all `TILE * TILE` threads of a block. The tiles have `TILE * TILE` elements in shared
/// memory that nothing else uses. The pointers and the parameter block describe matrices that the
/// grid may read (A, B) and write (C), and no other code touches C during the launch.
#[inline(always)]
pub unsafe fn tiled<T: Element, const TILE: usize>(
    (a, b, c): (*const T, *const T, *mut T::Output),
    p: GemmParams<T::Sum>,
    order: ThreadOrder,
    tile_a: SharedTile<T::Sum>,
    tile_b: SharedTile<T::Sum>,
) {
    let (tx, ty) = (thread::thread_idx_x() as usize, thread::thread_idx_y() as usize);
    let (bx, by) = (thread::block_idx_x() as u64, thread::block_idx_y() as u64);
    // Row and column within the tile, and of the tile within C.
    let (i, j, tile_row, tile_col) = match order {
        ThreadOrder::AlongColumns => (ty, tx, by, bx),
        ThreadOrder::AlongRows => (tx, ty, bx, by),
    };
    let row = tile_row * TILE as u64 + i as u64;
    let col = tile_col * TILE as u64 + j as u64;
    let (in_rows, in_cols) = (row < p.m, col < p.n);
    // A(row, k0 + j) and B(k0 + i, col) for k0 = 0; each step of the loop moves them by TILE.
    let mut a =
        a.wrapping_offset((row as i64 * p.a_row_stride + j as i64 * p.a_col_stride) as isize);
    let mut b =
        b.wrapping_offset((i as i64 * p.b_row_stride + col as i64 * p.b_col_stride) as isize);
    // Shares one element of A and one of B with the block, and returns `sum` plus this thread's
    // TILE products.
    let step = |mut sum: T::Sum, element_a: Option<T>, element_b: Option<T>| {
        // SAFETY: a tile is indexed below TILE * TILE; a barrier stands between the writes and the
        // reads of other threads, and another between those and the writes of the next step.
        unsafe {
            tile_a.add(i * TILE + j).write(element_a.map_or(T::Sum::ZERO, T::widen));
            tile_b.add(i * TILE + j).write(element_b.map_or(T::Sum::ZERO, T::widen));
            thread::sync_threads();
            for l in 0..TILE {
                let factor = tile_b.add(l * TILE + j).read();
                sum = tile_a.add(i * TILE + l).read().mul_add(factor, sum);
            }
            thread::sync_threads();
        }
        sum
    };
    let mut sum = T::Sum::ZERO;
    let mut left = p.k;
    // SAFETY: elements of A and B are read only inside of the matrices.
    unsafe {
        // Both loads of a step are on their way before either is waited for.
        while left >= TILE as u64 {
            let element_a = if in_rows { Some(a.read()) } else { None };
            let element_b = if in_cols { Some(b.read()) } else { None };
            sum = step(sum, element_a, element_b);
            a = a.wrapping_offset(TILE as isize * p.a_col_stride as isize);
            b = b.wrapping_offset(TILE as isize * p.b_row_stride as isize);
            left -= TILE as u64;
        }
        if left > 0 {
            let element_a = if in_rows && (j as u64) < left { Some(a.read()) } else { None };
            let element_b = if in_cols && (i as u64) < left { Some(b.read()) } else { None };
            sum = step(sum, element_a, element_b);
        }
        if in_rows && in_cols {
            store::<T>(c, &p, row, col, sum);
        }
    }
}

macro_rules! entries {
    ($(($name:ident, $variant:literal, $element:ident, $tile:literal, $order:ident),)*) => {$(
        #[doc = concat!("`", $variant, "` for `", stringify!($element), "`; see the module.")]
        ///
        /// # Safety
        ///
        /// The pointers and the block describe matrices that the grid may read (A, B) and write
        /// (C); nothing else touches C during the launch; the grid is one of `Kernel::launches`.
        #[cfg_attr(not(rust_cuda), kernel(max_threads = $tile * $tile))]
        #[cfg_attr(rust_cuda, kernel)] // Rust-CUDA's attribute knows no launch bounds.
        pub unsafe fn $name(
            a: *const $element,
            b: *const $element,
            c: *mut <$element as Element>::Output,
            p: GemmParams<<$element as Element>::Sum>,
        ) {
            // SAFETY: the tiles are this block's own; the rest is the host's promise, passed on.
            unsafe {
                let tile_a = shared_array![<$element as Element>::Sum; $tile * $tile];
                let tile_b = shared_array![<$element as Element>::Sum; $tile * $tile];
                let (operands, p) = of_layer::<$element>((a, b, c), p);
                tiled::<$element, $tile>(operands, p, ThreadOrder::$order, tile_a, tile_b)
            }
        }
    )*};
}

#[cfg(any(feature = "sm_70", rust_cuda))]
use crate::{F8E4M3, F8E5M2};
#[cfg(any(feature = "sm_70", rust_cuda))]
use cuda_std::half::{bf16, f16};
#[cfg(any(feature = "sm_70", rust_cuda))]
gemm_spec::k02_tiled_kernels!(entries);
