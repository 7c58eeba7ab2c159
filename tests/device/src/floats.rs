//! `GpuFloat` and the approximations.

use cuda_std::float::{GpuFloat, approx};
use cuda_std::{kernel, thread};

macro_rules! floats {
    ($($name:ident, $type:ident;)*) => {$(
        #[doc = concat!("One-dimensional grid, a thread an element. Leaves in `out + 12 * i`, for \
            x = `xs[i]`, y = \
            `ys[i]`, z = `zs[i]`, n = `ns[i]`: floor, ceil, round, round_ties_even, trunc, fract, \
            abs, signum, sqrt of \
            x, copysign of x and y, x * y + z, x to the power of n; all `", stringify!($type),
            "`.")]
        ///
        /// # Safety
        /// The slices have equal lengths; `out` points to 12 times as many elements that nothing
        /// else accesses.
        #[kernel]
        pub unsafe fn $name(xs: &[$type], ys: &[$type], zs: &[$type], ns: &[i32], out: *mut $type) {
            let i = thread::index_1d() as usize;
            if i >= xs.len() {
                return;
            }
            // SAFETY: i is an index of all slices, and each thread has its own elements of `out`.
            unsafe {
                let (x, y) = (*xs.get_unchecked(i), *ys.get_unchecked(i));
                let (z, n) = (*zs.get_unchecked(i), *ns.get_unchecked(i));
                let out = out.add(12 * i);
                out.write(GpuFloat::floor(x));
                out.add(1).write(GpuFloat::ceil(x));
                out.add(2).write(GpuFloat::round(x));
                out.add(3).write(GpuFloat::round_ties_even(x));
                out.add(4).write(GpuFloat::trunc(x));
                out.add(5).write(GpuFloat::fract(x));
                out.add(6).write(GpuFloat::abs(x));
                out.add(7).write(GpuFloat::signum(x));
                out.add(8).write(GpuFloat::sqrt(x));
                out.add(9).write(GpuFloat::copysign(x, y));
                out.add(10).write(GpuFloat::mul_add(x, y, z));
                out.add(11).write(GpuFloat::powi(x, n));
            }
        }
    )*};
}

floats! {
    floats_f32, f32;
    floats_f64, f64;
}

/// One-dimensional grid, a thread an element. Leaves in `out + 5 * i`: exp2, log2, sin, cos, rsqrt
/// of `xs[i]`.
///
/// # Safety
/// `out` points to 5 elements for each of `xs`, that nothing else accesses.
#[kernel]
pub unsafe fn approximations(xs: &[f32], out: *mut f32) {
    let i = thread::index_1d() as usize;
    if i >= xs.len() {
        return;
    }
    // SAFETY: i is an index of `xs`, and each thread has its own elements of `out`.
    unsafe {
        let x = *xs.get_unchecked(i);
        let out = out.add(5 * i);
        out.write(approx::exp2(x));
        out.add(1).write(approx::log2(x));
        out.add(2).write(approx::sin(x));
        out.add(3).write(approx::cos(x));
        out.add(4).write(approx::rsqrt(x));
    }
}
