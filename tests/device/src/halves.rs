//! `cuda_std::half`.

use cuda_std::half::{HalfExt, bf16, f16};
use cuda_std::{kernel, thread};

macro_rules! halves {
    ($($widen:ident, $narrow:ident, $fma:ident, $type:ident;)*) => {$(
        #[doc = concat!("One-dimensional grid, a thread an element: `out[i]` is `xs[i]`, a `",
            stringify!($type),
            "`, as f32.")]
        ///
        /// # Safety
        /// `out` points to as many elements as `xs` has, that nothing else accesses.
        #[kernel]
        pub unsafe fn $widen(xs: &[$type], out: *mut f32) {
            let i = thread::index_1d() as usize;
            if let Some(x) = xs.get(i) {
                // SAFETY: each thread has its own element.
                unsafe { out.add(i).write(x.to_f32_gpu()) };
            }
        }

        #[doc = concat!("One-dimensional grid, a thread an element: `out[i]` is `xs[i]` as `",
            stringify!($type), "`.")]
        ///
        /// # Safety
        /// `out` points to as many elements as `xs` has, that nothing else accesses.
        #[kernel]
        pub unsafe fn $narrow(xs: &[f32], out: *mut $type) {
            let i = thread::index_1d() as usize;
            if let Some(x) = xs.get(i) {
                // SAFETY: each thread has its own element.
                unsafe { out.add(i).write($type::from_f32_gpu(*x)) };
            }
        }

        #[doc = concat!("One-dimensional grid, a thread an element: `out[i]` is `xs[3 i] * xs[3 i \
            + 1] + xs[3 i + 2]` in `",
            stringify!($type), "`.")]
        ///
        /// # Safety
        /// `out` points to a third as many elements as `xs` has, that nothing else accesses.
        #[kernel]
        pub unsafe fn $fma(xs: &[$type], out: *mut $type) {
            let i = thread::index_1d() as usize;
            if let Some([a, b, c]) = xs.get(3 * i..3 * i + 3) {
                // SAFETY: each thread has its own element.
                unsafe { out.add(i).write(a.mul_add_gpu(*b, *c)) };
            }
        }
    )*};
}

halves! {
    f16_to_f32, f32_to_f16, fma_f16, f16;
    bf16_to_f32, f32_to_bf16, fma_bf16, bf16;
}
