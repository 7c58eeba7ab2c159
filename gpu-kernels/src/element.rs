//! What a kernel does with single elements: load, widen, multiply, add, round.

use crate::Packed;
use cuda_std::GpuFloat;
use cuda_std::half::{bf16, f16};

/// The type in which products are summed: i32, f32 or f64.
pub trait Sum: Element<Sum = Self, Output = Self> {
    /// The empty sum.
    const ZERO: Self;

    /// `self * factor + addend`: one rounding for floats, wrapping for i32.
    fn mul_add(self, factor: Self, addend: Self) -> Self;

    /// `self * factor`, wrapping for i32.
    fn mul(self, factor: Self) -> Self;
}

/// An element of A and B.
pub trait Element: Packed {
    /// What its products are summed in.
    type Sum: Sum;
    /// The elements of C.
    type Output: Element<Sum = Self::Sum>;

    /// The element's value, exactly.
    fn widen(self) -> Self::Sum;

    /// The element of C nearest to `sum`, ties to even.
    fn narrow(sum: Self::Sum) -> Self::Output;
}

impl Sum for i32 {
    const ZERO: i32 = 0;

    #[inline(always)]
    fn mul_add(self, factor: i32, addend: i32) -> i32 {
        self.wrapping_mul(factor).wrapping_add(addend)
    }

    #[inline(always)]
    fn mul(self, factor: i32) -> i32 {
        self.wrapping_mul(factor)
    }
}

macro_rules! float_sum {
    ($float:ident) => {
        impl Sum for $float {
            const ZERO: $float = 0.0;

            #[inline(always)]
            fn mul_add(self, factor: $float, addend: $float) -> $float {
                GpuFloat::mul_add(self, factor, addend)
            }

            #[inline(always)]
            fn mul(self, factor: $float) -> $float {
                self * factor
            }
        }
    };
}

float_sum!(f32);
float_sum!(f64);

macro_rules! same_sum {
    ($element:ident) => {
        impl Element for $element {
            type Sum = $element;
            type Output = $element;

            #[inline(always)]
            fn widen(self) -> $element {
                self
            }

            #[inline(always)]
            fn narrow(sum: $element) -> $element {
                sum
            }
        }
    };
}

same_sum!(i32);
same_sum!(f32);
same_sum!(f64);

impl Element for i8 {
    type Sum = i32;
    type Output = i32;

    #[inline(always)]
    fn widen(self) -> i32 {
        i32::from(self)
    }

    #[inline(always)]
    fn narrow(sum: i32) -> i32 {
        sum
    }
}

macro_rules! half_element {
    ($element:ident) => {
        impl Element for $element {
            type Sum = f32;
            type Output = $element;

            #[inline(always)]
            fn widen(self) -> f32 {
                cuda_std::half::HalfExt::to_f32_gpu(self)
            }

            #[inline(always)]
            fn narrow(sum: f32) -> $element {
                cuda_std::half::HalfExt::from_f32_gpu(sum)
            }
        }
    };
}

half_element!(f16);
half_element!(bf16);
