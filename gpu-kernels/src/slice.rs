//! Which of the products of a launch a block computes.

use crate::Element;
#[cfg(not(rust_cuda))]
use cuda_std::misc;
use cuda_std::thread;
use gemm_spec::GemmParams;

/// Where A, B and C start.
pub type Pointers<T> = (*const T, *const T, *mut <T as Element>::Output);

/// A, B and K of the product that this block's layer of the grid computes. C is left as it is: see
/// [`output_of_layer`].
#[inline(always)]
pub fn of_layer<T: Element>(
    (a, b, c): Pointers<T>,
    mut p: GemmParams<T::Sum>,
) -> (Pointers<T>, GemmParams<T::Sum>) {
    let slice = thread::block_idx_z();
    p.k = k_of(&p, slice);
    let (to_a, to_b) = (distance(slice, p.slices.a), distance(slice, p.slices.b));
    ((a.wrapping_byte_offset(to_a), b.wrapping_byte_offset(to_b), c), p)
}

/// K of a slice.
#[inline(always)]
pub fn k_of<S>(p: &GemmParams<S>, slice: u32) -> u64 {
    // N.B. As a number of its own: of two fields the compiler makes one read from an address that
    // it chooses, and a driver puts the whole block into local memory for that.
    #[cfg(not(rust_cuda))]
    let last_k = misc::afresh_i64(p.slices.last_k as i64) as u64;
    #[cfg(rust_cuda)] // Rust-CUDA has no such function.
    let last_k = p.slices.last_k;
    if slice + 1 == p.slices.count { last_k } else { p.k }
}

/// Where the C starts that this block's layer of the grid computes, from the launch's on. Whoever
/// writes C asks for it then, so that no registers hold it while K is gone through.
#[inline(always)]
pub fn output_of_layer<O, S>(c: *mut O, p: &GemmParams<S>) -> *mut O {
    c.wrapping_byte_offset(distance(thread::block_idx_z(), p.slices.c))
}

#[inline(always)]
fn distance(slice: u32, bytes: i64) -> isize {
    (i64::from(slice) * bytes) as isize
}
