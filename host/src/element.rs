//! The element types of a matrix, and the arithmetic of their sums.

use bytemuck::Pod;
use fp8::{F8E4M3, F8E5M2};
use gemm_spec::DType;
use half::{bf16, f16};
use std::fmt::{Debug, Display};

mod sealed {
    pub trait Sealed {}
    impl Sealed for i8 {}
    impl Sealed for i32 {}
    impl Sealed for fp8::F8E4M3 {}
    impl Sealed for fp8::F8E5M2 {}
    impl Sealed for half::f16 {}
    impl Sealed for half::bf16 {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// An element of a matrix: `i8`, `i32`, [`F8E4M3`], [`F8E5M2`], [`f16`](struct@f16), [`bf16`],
/// `f32` or `f64`.
///
/// The trait is sealed: a kernel exists for these eight and no others.
pub trait Element:
    sealed::Sealed + Copy + Send + Sync + Debug + Display + Default + PartialEq + PartialOrd + Pod
{
    /// The type's name in kernels and files.
    const DTYPE: DType;

    /// The type of the sums: `f32` for floats of 8 and 16 bits, `i32` for `i8`, else the type
    /// itself.
    type Scalar: Scalar;

    /// The elements of C where A and B have this type and no others are asked for: `i32` for `i8`,
    /// [`bf16`] for floats of 8 bits, else the type itself.
    type Output: OutputOf<Self> + Element<Scalar = Self::Scalar>;

    /// The value, exactly.
    fn to_f64(self) -> f64;

    /// The nearest value, ties to even. For integers the fraction is cut off and values out of
    /// range become the nearest bound, as they do for floats of 8 bits.
    fn from_f64(value: f64) -> Self;

    /// The value in the type of the sums, exactly.
    fn widen(self) -> Self::Scalar;

    /// A sum as an element of C, rounded to nearest, ties to even, where the types differ.
    fn narrow(sum: Self::Scalar) -> Self::Output;
}

/// An element of C where A and B have elements of type `T`. Alpha and beta are then of its
/// [`Element::Scalar`], in which alpha * sum + beta * C is computed and from which it is rounded
/// once.
///
/// | A and B | C |
/// |---|---|
/// | [`f16`](struct@f16), [`bf16`], [`F8E4M3`], [`F8E5M2`] | `f16`, `bf16` or `f32` |
/// | `i8` | `i32`; `f32`, `f16` or `bf16` by an alpha of `f32`, which dequantises |
/// | `i32`, `f32`, `f64` | the same |
pub trait OutputOf<T: Element>: Element<Output = Self> {
    /// A sum in the type of alpha, rounded to nearest, ties to even, where that is another.
    fn convert(sum: T::Scalar) -> Self::Scalar;
}

macro_rules! output_of {
    ($($output:ty: $($type:ty)*;)*) => {$($(
        impl OutputOf<$type> for $output {
            fn convert(sum: <$type as Element>::Scalar) -> <$output as Element>::Scalar {
                sum as _
            }
        }
    )*)*};
}

output_of! {
    i32: i8 i32;
    f16: i8 F8E4M3 F8E5M2 f16 bf16;
    bf16: i8 F8E4M3 F8E5M2 f16 bf16;
    f32: i8 F8E4M3 F8E5M2 f16 bf16 f32;
    f64: f64;
}

/// A type in which products are summed: `i32`, `f32` or `f64`.
///
/// `i32` wraps around on overflow, as the kernels do.
pub trait Scalar: Element<Scalar = Self, Output = Self> {
    /// Zero.
    const ZERO: Self;
    /// One.
    const ONE: Self;

    /// `self + other`.
    fn plus(self, other: Self) -> Self;

    /// `self * other`.
    fn times(self, other: Self) -> Self;
}

macro_rules! scalar {
    ($type:ty, $dtype:ident, $zero:literal, $one:literal, $plus:expr, $times:expr) => {
        impl Element for $type {
            const DTYPE: DType = DType::$dtype;
            type Scalar = $type;
            type Output = $type;

            fn to_f64(self) -> f64 {
                f64::from(self)
            }

            fn from_f64(value: f64) -> Self {
                value as $type
            }

            fn widen(self) -> Self {
                self
            }

            fn narrow(sum: Self) -> Self {
                sum
            }
        }

        impl Scalar for $type {
            const ZERO: Self = $zero;
            const ONE: Self = $one;

            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                $plus(self, other)
            }

            #[inline(always)]
            fn times(self, other: Self) -> Self {
                $times(self, other)
            }
        }
    };
}

scalar!(i32, I32, 0, 1, i32::wrapping_add, i32::wrapping_mul);
scalar!(f32, F32, 0.0, 1.0, |a, b| a + b, |a, b| a * b);
scalar!(f64, F64, 0.0, 1.0, |a, b| a + b, |a, b| a * b);

impl Element for i8 {
    const DTYPE: DType = DType::I8;
    type Scalar = i32;
    type Output = i32;

    fn to_f64(self) -> f64 {
        f64::from(self)
    }

    fn from_f64(value: f64) -> Self {
        value as i8
    }

    fn widen(self) -> i32 {
        i32::from(self)
    }

    fn narrow(sum: i32) -> i32 {
        sum
    }
}

macro_rules! half_element {
    ($type:ty, $dtype:ident) => {
        impl Element for $type {
            const DTYPE: DType = DType::$dtype;
            type Scalar = f32;
            type Output = $type;

            fn to_f64(self) -> f64 {
                <$type>::to_f64(self)
            }

            fn from_f64(value: f64) -> Self {
                // Not the crate's own conversion: on x86 it rounds twice, to f32 and then to
                // nearest.
                <$type>::from_f32(to_f32_odd(value))
            }

            fn widen(self) -> f32 {
                self.to_f32()
            }

            fn narrow(sum: f32) -> Self {
                <$type>::from_f32(sum)
            }
        }
    };
}

/// Rounds to odd: cuts off, and sets the last bit where something was cut off. A later rounding to
/// a type with at least two bits fewer is then that of the exact value.
fn to_f32_odd(value: f64) -> f32 {
    let nearest = value as f32;
    if f64::from(nearest) == value || value.is_nan() {
        return nearest;
    }
    let outward = f64::from(nearest).abs() > value.abs();
    f32::from_bits((nearest.to_bits() - u32::from(outward)) | 1)
}

half_element!(f16, F16);
half_element!(bf16, BF16);

macro_rules! fp8_element {
    ($type:ident) => {
        impl Element for $type {
            const DTYPE: DType = DType::$type;
            type Scalar = f32;
            type Output = bf16;

            fn to_f64(self) -> f64 {
                f64::from(self.to_f32())
            }

            fn from_f64(value: f64) -> Self {
                $type::from_f32(to_f32_odd(value))
            }

            fn widen(self) -> f32 {
                self.to_f32()
            }

            fn narrow(sum: f32) -> bf16 {
                bf16::from_f32(sum)
            }
        }
    };
}

fp8_element!(F8E4M3);
fp8_element!(F8E5M2);

/// From a dtype, known when the program runs, to a type, known when it was compiled: evaluates an
/// expression with `$T` as the dtype's element type.
///
/// ```
/// use gemmite::{DType, with_element};
/// let bytes = with_element!(DType::BF16, T => size_of::<T>());
/// assert_eq!(bytes, 2);
/// ```
#[macro_export]
macro_rules! with_element {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            $crate::DType::I8 => {
                type $T = i8;
                $body
            }
            $crate::DType::I32 => {
                type $T = i32;
                $body
            }
            $crate::DType::F8E4M3 => {
                type $T = $crate::F8E4M3;
                $body
            }
            $crate::DType::F8E5M2 => {
                type $T = $crate::F8E5M2;
                $body
            }
            $crate::DType::F16 => {
                type $T = $crate::f16;
                $body
            }
            $crate::DType::BF16 => {
                type $T = $crate::bf16;
                $body
            }
            $crate::DType::F32 => {
                type $T = f32;
                $body
            }
            $crate::DType::F64 => {
                type $T = f64;
                $body
            }
        }
    };
}

/// As [`with_element!`](crate::with_element), for the dtype of A and B and that of C: `$T` and `$C`
/// are their elements' types, `$C` an [`OutputOf<$T>`](crate::OutputOf). Where there is no such
/// product, `$else` is evaluated.
///
/// ```
/// use gemmite::{DType, Gemm, with_elements};
/// let gemm = with_elements!(DType::I8, DType::F32, (T, C) => {
///     format!("{:?}", Gemm::<T>::new().output::<C>())
/// }, else => String::new());
/// assert!(gemm.contains("alpha: 1.0"));
/// ```
#[macro_export]
macro_rules! with_elements {
    ($dtype:expr, $output:expr, ($T:ident, $C:ident) => $body:expr, else => $else:expr) => {
        $crate::with_elements!(@match ($dtype, $output), $T, $C, $body, $else,
            (I8, I32, i8, i32)
            (I8, F32, i8, f32)
            (I8, F16, i8, $crate::f16)
            (I8, BF16, i8, $crate::bf16)
            (I32, I32, i32, i32)
            (F8E4M3, BF16, $crate::F8E4M3, $crate::bf16)
            (F8E4M3, F16, $crate::F8E4M3, $crate::f16)
            (F8E4M3, F32, $crate::F8E4M3, f32)
            (F8E5M2, BF16, $crate::F8E5M2, $crate::bf16)
            (F8E5M2, F16, $crate::F8E5M2, $crate::f16)
            (F8E5M2, F32, $crate::F8E5M2, f32)
            (F16, F16, $crate::f16, $crate::f16)
            (F16, BF16, $crate::f16, $crate::bf16)
            (F16, F32, $crate::f16, f32)
            (BF16, BF16, $crate::bf16, $crate::bf16)
            (BF16, F16, $crate::bf16, $crate::f16)
            (BF16, F32, $crate::bf16, f32)
            (F32, F32, f32, f32)
            (F64, F64, f64, f64)
        )
    };
    (@match $which:expr, $T:ident, $C:ident, $body:expr, $else:expr,
        $(($dtype:ident, $output:ident, $t:ty, $c:ty))*) => {
        match $which {
            $(($crate::DType::$dtype, $crate::DType::$output) => {
                type $T = $t;
                type $C = $c;
                $body
            })*
            _ => $else,
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_types_round_to_nearest_even_once() {
        // 1 + 2^-11 lies half way between 1 and the next f16; even is 1.
        assert_eq!(f16::narrow(1.0 + 2f32.powi(-11)), f16::ONE);
        assert_eq!(f16::narrow(1.0 + 3.0 * 2f32.powi(-11)).to_bits(), f16::ONE.to_bits() + 2);
        assert_eq!(bf16::narrow(1.0 + 2f32.powi(-8)), bf16::ONE);
        // Rounding to f32 first would make a tie of this one and lose the last bit.
        let above_tie = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
        assert_eq!(<f16 as Element>::from_f64(above_tie).to_bits(), f16::ONE.to_bits() + 1);
        let above_tie = 1.0 + 2f64.powi(-8) + 2f64.powi(-40);
        assert_eq!(<bf16 as Element>::from_f64(above_tie).to_bits(), bf16::ONE.to_bits() + 1);
        assert_eq!(<f16 as Element>::from_f64(1e300), f16::INFINITY);
        assert_eq!(<f16 as Element>::from_f64(-1e-300).to_bits(), f16::NEG_ZERO.to_bits());
        assert!(<f16 as Element>::from_f64(f64::NAN).is_nan());
        assert!(f16::narrow(f32::NAN).is_nan() && bf16::narrow(f32::NAN).is_nan());
    }

    #[test]
    fn floats_of_8_bits_are_rounded_once_and_saturate() {
        // Just above the tie of 1 and 1.125: rounding to f32 first would make a tie of it.
        let above_tie = 1.0 + 2f64.powi(-4) + 2f64.powi(-40);
        assert_eq!(<F8E4M3 as Element>::from_f64(above_tie).to_bits(), F8E4M3::ONE.to_bits() + 1);
        let above_tie = 1.0 + 2f64.powi(-3) + 2f64.powi(-40);
        assert_eq!(<F8E5M2 as Element>::from_f64(above_tie).to_bits(), F8E5M2::ONE.to_bits() + 1);
        assert_eq!(<F8E4M3 as Element>::from_f64(1e300), F8E4M3::MAX);
        assert_eq!(<F8E5M2 as Element>::from_f64(f64::NEG_INFINITY).to_f64(), -57344.0);
        assert!(<F8E5M2 as Element>::from_f64(f64::NAN).is_nan());
    }

    #[test]
    fn outputs_are_those_of_the_spec() {
        for dtype in DType::ALL {
            for output in DType::ALL {
                let found = with_elements!(dtype, output, (T, C) => {
                    fn dtypes<T: Element, C: OutputOf<T>>() -> Option<(DType, DType, DType)> {
                        Some((T::DTYPE, C::DTYPE, C::Scalar::DTYPE))
                    }
                    dtypes::<T, C>()
                }, else => None);
                let expected = dtype.outputs().contains(&output);
                let expected = expected.then_some((dtype, output, output.factor()));
                assert_eq!(found, expected, "{dtype} {output}");
            }
        }
    }

    #[test]
    fn i32_wraps() {
        assert_eq!(i32::MAX.plus(1), i32::MIN);
        assert_eq!(65_536.times(65_537), 65_536);
        assert_eq!(i32::from_f64(-7.9), -7);
    }
}
