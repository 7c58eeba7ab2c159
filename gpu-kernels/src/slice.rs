//! Which of the products of a launch a block computes.

use crate::Element;
use cuda_std::thread;
use gemm_spec::GemmParams;

/// Where A, B and C of a product start.
pub type Pointers<T> = (*const T, *const T, *mut <T as Element>::Output);

/// Operands and block of the product that this block's layer of the grid computes.
#[inline(always)]
pub fn of_layer<T: Element>(
    (a, b, c): Pointers<T>,
    mut p: GemmParams<T::Sum>,
) -> (Pointers<T>, GemmParams<T::Sum>) {
    let slice = thread::block_idx_z();
    let at = |bytes: i64| (i64::from(slice) * bytes) as isize;
    let (to_a, to_b, to_c) = (at(p.slices.a), at(p.slices.b), at(p.slices.c));
    p.k = p.k_of(slice);
    let (a, b) = (a.wrapping_byte_offset(to_a), b.wrapping_byte_offset(to_b));
    ((a, b, c.wrapping_byte_offset(to_c)), p)
}
