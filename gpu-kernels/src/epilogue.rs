//! What happens to a finished sum.

use crate::{Element, Sum};
use gemm_spec::GemmParams;

/// Writes C(row, col) = alpha * sum + beta * C(row, col), rounded once to C's elements where
/// beta is not used, and once after a fused multiply-add where it is. C is read only where
/// `p.reads_c` is set.
///
/// # Safety
///
/// `row < p.m`, `col < p.n`; `c` and the parameter block describe a matrix that this thread may
/// write (and read, where `p.reads_c` is set), and no other thread touches the element.
#[inline(always)]
pub unsafe fn store<T: Element>(
    c: *mut T::Output,
    p: &GemmParams<T::Sum>,
    row: u64,
    col: u64,
    sum: T::Sum,
) {
    let offset = row as i64 * p.c_row_stride + col as i64 * p.c_col_stride;
    // SAFETY: the caller promises that element (row, col) lies in C.
    let c = unsafe { c.offset(offset as isize) };
    let mut value = p.alpha.mul(sum);
    if p.reads_c != 0 {
        // SAFETY: as above, and the caller promises that C may be read.
        value = p.beta.mul_add(unsafe { c.read() }.widen(), value);
    }
    // SAFETY: the caller promises that this thread alone writes the element.
    unsafe { c.write(T::narrow(value)) };
}
