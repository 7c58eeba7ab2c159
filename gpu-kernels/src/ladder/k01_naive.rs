//! Step 1: one thread computes one element of C, straight from global memory.
//!
//! # Idea
//!
//! ```text
//! for each element (row, col) of C, in parallel:
//!     sum = 0
//!     for i in 0..K: sum += A[row][i] * B[i][col]
//!     C[row][col] = alpha * sum + beta * C[row][col]
//! ```
//!
//! # Mapping
//!
//! A block of 16 x 16 threads computes a tile of 16 x 16 elements of C; the grid covers C.
//! `k01_naive` lets `threadIdx.x` run along the columns, so the 16 threads of a row read
//! neighbouring elements of B, write neighbouring elements of C, and share one element of A: their
//! accesses coalesce when the matrices are row-major. `k01_naive_uncoalesced` lets `threadIdx.x`
//! run along the rows: neighbours are a whole row apart.
//!
//! # Shared memory
//!
//! None. Each thread loads 2 K elements from global memory, 2 M N K in all; the caches catch the
//! repeats.
//!
//! # Preconditions
//!
//! Those of [`GemmParams`], and a grid from `Kernel::launches`. Any shape, any strides.

use crate::{Element, Sum, of_layer, store};
use cuda_std::thread;
use gemm_spec::{GemmParams, ThreadOrder};

/// Computes the element of C that belongs to this thread.
///
/// # Safety
///
/// The pointers and the parameter block describe matrices that every thread of the grid may read
/// (A, B) and write (C), and no other code touches C during the launch. `tile` is the launch's.
#[inline(always)]
pub unsafe fn naive<T: Element>(
    a: *const T,
    b: *const T,
    c: *mut T::Output,
    p: GemmParams<T::Sum>,
    tile: u32,
    order: ThreadOrder,
) {
    let x = thread::block_idx_x() as u64 * tile as u64 + thread::thread_idx_x() as u64;
    let y = thread::block_idx_y() as u64 * tile as u64 + thread::thread_idx_y() as u64;
    let (row, col) = match order {
        ThreadOrder::AlongColumns => (y, x),
        ThreadOrder::AlongRows => (x, y),
    };
    if row >= p.m || col >= p.n {
        return;
    }
    // SAFETY: row < m and col < n, and the offsets stay in A and B as the caller promises.
    unsafe {
        let mut a = a.offset((row as i64 * p.a_row_stride) as isize);
        let mut b = b.offset((col as i64 * p.b_col_stride) as isize);
        let (a_step, b_step) = (p.a_col_stride as isize, p.b_row_stride as isize);
        let mut sum = T::Sum::ZERO;
        let mut left = p.k;
        while left >= 4 {
            // N.B. Four pairs are loaded before the first is multiplied. nvcc unrolls such a loop
            // by itself, LLVM does not: with one pair at a time, f32, 4096^3 takes 34.5 ms on an
            // H100, and nvcc's 25.3 ms.
            let pair =
                |l| (a.wrapping_offset(l * a_step).read(), b.wrapping_offset(l * b_step).read());
            for &(a, b) in &[pair(0), pair(1), pair(2), pair(3)] {
                sum = a.widen().mul_add(b.widen(), sum);
            }
            a = a.wrapping_offset(4 * a_step);
            b = b.wrapping_offset(4 * b_step);
            left -= 4;
        }
        for _ in 0..left {
            sum = a.read().widen().mul_add(b.read().widen(), sum);
            a = a.wrapping_offset(a_step);
            b = b.wrapping_offset(b_step);
        }
        store::<T>(c, &p, row, col, sum);
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
        #[cuda_std::kernel(max_threads = $tile * $tile)]
        pub unsafe fn $name(
            a: *const $element,
            b: *const $element,
            c: *mut <$element as Element>::Output,
            p: GemmParams<<$element as Element>::Sum>,
        ) {
            // SAFETY: the host's promise, passed on.
            unsafe {
                let ((a, b, c), p) = of_layer::<$element>((a, b, c), p);
                naive(a, b, c, p, $tile, ThreadOrder::$order)
            }
        }
    )*};
}

#[cfg(any(feature = "sm_70", rust_cuda))]
use cuda_std::half::{bf16, f16};
#[cfg(any(feature = "sm_70", rust_cuda))]
gemm_spec::k01_naive_kernels!(entries);
