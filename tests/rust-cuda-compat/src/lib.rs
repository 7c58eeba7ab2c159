//! The tiled kernels' source, compiled for the host against Rust-CUDA's published `cuda_std` 0.2.2.
//!
//! That this crate compiles is the test: the names and the calls that `gpu-kernels` takes from our
//! `cuda_std` are Rust-CUDA's. It can't run: neither crate runs kernels on the host. What is not
//! Rust-CUDA's stands below, in the place of `gpu-kernels`' own: the pointer to shared memory, the
//! conversions of 16-bit floats, and the cfg `rust_cuda`, under which the source leaves out the
//! launch bounds that Rust-CUDA's `#[kernel]` does not know.

#![allow(unexpected_cfgs)] // The published macros ask for targets that rustc no longer has.

// Formatted as part of `gpu-kernels`, which is of another edition.
#[rustfmt::skip]
#[path = "../../../gpu-kernels/src/epilogue.rs"]
mod epilogue;
#[rustfmt::skip]
#[path = "../../../gpu-kernels/src/ladder/k02_tiled.rs"]
pub mod k02_tiled;

#[rustfmt::skip]
#[path = "../../../gpu-kernels/src/slice.rs"]
mod slice;

pub use epilogue::{store, One};
pub use slice::{of_layer, output_of_layer};

use cuda_std::half::{bf16, f16};
use cuda_std::GpuFloat;
use fp8::{F8E4M3, F8E5M2};
use gemm_spec::GemmParams;

/// A tile in shared memory: what Rust-CUDA's `shared_array!` returns.
pub type SharedTile<T> = *mut T;

/// The type in which products are summed, as in `gpu-kernels`.
pub trait Sum: Copy {
    /// The empty sum.
    const ZERO: Self;

    /// `self * factor + addend`.
    fn mul_add(self, factor: Self, addend: Self) -> Self;

    /// `self * factor`.
    fn mul(self, factor: Self) -> Self;
}

/// An element of a matrix, as in `gpu-kernels`; C is never of another type than the usual.
pub trait Element: Copy {
    /// What its products are summed in.
    type Sum: Sum;
    /// The elements of C.
    type Output: Output<Self::Sum>;

    /// The element's value, exactly.
    fn widen(self) -> Self::Sum;

    /// Calls `write` with the type of C's elements.
    ///
    /// # Safety
    /// As [`Write::write`].
    unsafe fn with_output<W: Write<Self::Sum>>(_: &GemmParams<Self::Sum>, write: W) -> W::Done {
        // SAFETY: the caller's promise.
        unsafe { write.write::<Self::Output>() }
    }
}

/// An element of C, as in `gpu-kernels`.
pub trait Output<S: Sum>: Copy {
    /// The type of alpha and of beta.
    type Factor: Sum;

    /// Alpha or beta from the parameter block.
    fn factor(field: S) -> Self::Factor;

    /// A sum in the type of alpha.
    fn convert(sum: S) -> Self::Factor;

    /// The element's value, exactly.
    fn widen(self) -> Self::Factor;

    /// The element nearest to `value`.
    fn narrow(value: Self::Factor) -> Self;
}

/// A way to write sums, as in `gpu-kernels`.
pub trait Write<S: Sum> {
    /// What it says of it.
    type Done;

    /// Writes them to a C of elements of type `C`.
    ///
    /// # Safety
    /// As the implementation says.
    unsafe fn write<C: Output<S>>(self) -> Self::Done;
}

impl Sum for i32 {
    const ZERO: i32 = 0;

    fn mul_add(self, factor: i32, addend: i32) -> i32 {
        self.wrapping_mul(factor).wrapping_add(addend)
    }

    fn mul(self, factor: i32) -> i32 {
        self.wrapping_mul(factor)
    }
}

macro_rules! float_sums {
    ($($float:ident)*) => {$(
        impl Sum for $float {
            const ZERO: $float = 0.0;

            fn mul_add(self, factor: $float, addend: $float) -> $float {
                GpuFloat::mul_add(self, factor, addend)
            }

            fn mul(self, factor: $float) -> $float {
                self * factor
            }
        }
    )*};
}

float_sums!(f32 f64);

macro_rules! elements {
    ($($element:ident, $sum:ident, $output:ident, |$value:ident| $widen:expr;)*) => {$(
        impl Element for $element {
            type Sum = $sum;
            type Output = $output;

            fn widen(self) -> $sum {
                let $value = self;
                $widen
            }
        }
    )*};
}

elements! {
    i8, i32, i32, |value| value.into();
    i32, i32, i32, |value| value;
    f32, f32, f32, |value| value;
    f64, f64, f64, |value| value;
    F8E4M3, f32, bf16, |value| value.to_f32();
    F8E5M2, f32, bf16, |value| value.to_f32();
    f16, f32, f16, |value| value.to_f32();
    bf16, f32, bf16, |value| value.to_f32();
}

macro_rules! outputs {
    ($($output:ident, $sum:ident, |$value:ident| $widen:expr, |$from:ident| $narrow:expr;)*) => {$(
        impl Output<$sum> for $output {
            type Factor = $sum;

            fn factor(field: $sum) -> $sum {
                field
            }

            fn convert(sum: $sum) -> $sum {
                sum
            }

            fn widen(self) -> $sum {
                let $value = self;
                $widen
            }

            fn narrow($from: $sum) -> $output {
                $narrow
            }
        }
    )*};
}

outputs! {
    i32, i32, |value| value, |value| value;
    f32, f32, |value| value, |value| value;
    f64, f64, |value| value, |value| value;
    f16, f32, |value| value.to_f32(), |value| f16::from_f32(value);
    bf16, f32, |value| value.to_f32(), |value| bf16::from_f32(value);
}

#[cfg(test)]
mod tests {
    use gemm_spec::GemmParams;

    use super::bf16;
    use super::k02_tiled::{k02_tiled_16_bf16, k02_tiled_32_f32};

    /// The published macro makes `extern "C"` entries with the arguments of the source.
    #[test]
    fn entries_have_the_arguments_of_the_source() {
        let f32_entry: unsafe extern "C" fn(*const f32, _, _, GemmParams<f32>) = k02_tiled_32_f32;
        let bf16_entry: unsafe extern "C" fn(*const bf16, _, _, GemmParams<f32>) =
            k02_tiled_16_bf16;
        assert_ne!(f32_entry as usize, bf16_entry as usize);
    }
}
