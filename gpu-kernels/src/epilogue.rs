//! What happens to a finished sum.

use crate::{Element, Output, Sum, Write, output_of_layer};
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
    unsafe {
        let c = output_of_layer(c, p).cast();
        T::with_output(p, One { c, offset: offset as isize, p, sum })
    }
}

/// One sum, and the element of C that it belongs to, so many elements behind `c`.
pub struct One<'a, S> {
    /// Where C's elements start.
    pub c: *mut u8,
    /// Elements from there.
    pub offset: isize,
    /// The launch's.
    pub p: &'a GemmParams<S>,
    /// The sum.
    pub sum: S,
}

impl<S: Sum> Write<S> for One<'_, S> {
    type Done = ();

    /// # Safety
    /// As [`store`].
    #[inline(always)]
    unsafe fn write<C: Output<S>>(self) {
        let One { c, offset, p, sum } = self;
        let c = c.cast::<C>().wrapping_offset(offset);
        let mut value = C::factor(p.alpha).mul(C::convert(sum));
        if p.reads_c != 0 {
            // SAFETY: the element lies in C, and the caller promises that C may be read.
            value = C::factor(p.beta).mul_add(unsafe { c.read() }.widen(), value);
        }
        // SAFETY: the caller promises that this thread alone writes the element.
        unsafe { c.write(C::narrow(value)) };
    }
}
