//! What a kernel does with single elements: load, widen, multiply, add, round.

use crate::Packed;
use cuda_std::half::{HalfExt, bf16, f16};
use cuda_std::warp::WarpShuffleValue;
use cuda_std::wgmma::Tf32;
use cuda_std::{F8E4M3, F8E5M2, GpuFloat};
use gemm_spec::{DType, GemmParams};

/// The type in which products are summed: i32, f32 or f64.
pub trait Sum: Element<Sum = Self, Output = Self> + WarpShuffleValue {
    /// The empty sum.
    const ZERO: Self;

    /// `self * factor + addend`: one rounding for floats, wrapping for i32.
    fn mul_add(self, factor: Self, addend: Self) -> Self;

    /// `self * factor`, wrapping for i32.
    fn mul(self, factor: Self) -> Self;

    /// `self + other`, wrapping for i32.
    fn add(self, other: Self) -> Self;

    /// The nearest f32.
    fn to_f32(self) -> f32;

    /// The f32 that a factor's field of the parameter block holds where C has floats.
    fn float_factor(self) -> f32;
}

/// An element of A and B.
pub trait Element: Packed {
    /// What its products are summed in.
    type Sum: Sum;
    /// The elements of C unless the launch asks for others.
    type Output: Output<Self::Sum, Factor = Self::Sum>;

    /// The element's value, exactly.
    fn widen(self) -> Self::Sum;

    /// Whether the launch asks for no other elements of C.
    fn is_plain(p: &GemmParams<Self::Sum>) -> bool;

    /// Calls `write` with the type of C's elements: the one of `DType::outputs` that the launch
    /// asks for.
    ///
    /// # Safety
    /// As [`Write::write`].
    unsafe fn with_output<W: Write<Self::Sum>>(p: &GemmParams<Self::Sum>, write: W) -> W::Done;
}

/// An element of C, finished from sums of type `S`.
pub trait Output<S: Sum>: Copy {
    /// Its dtype as the parameter block has it.
    const CODE: u32;
    /// The type of alpha, of beta and of what they are multiplied with.
    type Factor: Sum;

    /// Alpha or beta from its place in the parameter block.
    fn factor(field: S) -> Self::Factor;

    /// A sum, rounded to nearest, ties to even, where the types differ.
    fn convert(sum: S) -> Self::Factor;

    /// The element's value, exactly.
    fn widen(self) -> Self::Factor;

    /// The element nearest to `value`, ties to even.
    fn narrow(value: Self::Factor) -> Self;

    /// Two neighbours, each as by [`Self::narrow`].
    #[inline(always)]
    fn narrow_pair(pair: [Self::Factor; 2]) -> [Self; 2] {
        let [first, second] = pair;
        [Self::narrow(first), Self::narrow(second)]
    }
}

/// A way to write sums to a C of any type.
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

    #[inline(always)]
    fn mul_add(self, factor: i32, addend: i32) -> i32 {
        self.wrapping_mul(factor).wrapping_add(addend)
    }

    #[inline(always)]
    fn mul(self, factor: i32) -> i32 {
        self.wrapping_mul(factor)
    }

    #[inline(always)]
    fn add(self, other: i32) -> i32 {
        self.wrapping_add(other)
    }

    #[inline(always)]
    fn to_f32(self) -> f32 {
        self as f32
    }

    #[inline(always)]
    fn float_factor(self) -> f32 {
        f32::from_bits(self.cast_unsigned())
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

            #[inline(always)]
            fn add(self, other: $float) -> $float {
                self + other
            }

            #[inline(always)]
            fn to_f32(self) -> f32 {
                self as f32
            }

            #[inline(always)]
            fn float_factor(self) -> f32 {
                self as f32
            }
        }
    };
}

float_sum!(f32);
float_sum!(f64);

macro_rules! element {
    ($element:ident, $sum:ident, |$x:ident| $widen:expr, $default:ident $(, $other:ident)*) => {
        impl Element for $element {
            type Sum = $sum;
            type Output = $default;

            #[inline(always)]
            fn widen(self) -> $sum {
                let $x = self;
                $widen
            }

            #[inline(always)]
            fn is_plain(_p: &GemmParams<$sum>) -> bool {
                true $(&& _p.output != <$other as Output<$sum>>::CODE)*
            }

            #[inline(always)]
            unsafe fn with_output<W: Write<$sum>>(p: &GemmParams<$sum>, write: W) -> W::Done {
                // SAFETY: the caller's promise.
                unsafe {
                    match p.output {
                        $(<$other as Output<$sum>>::CODE => write.write::<$other>(),)*
                        _ => write.write::<$default>(),
                    }
                }
            }
        }
    };
}

element!(i8, i32, |x| i32::from(x), i32, f32, f16, bf16);
element!(i32, i32, |x| x, i32);
element!(F8E4M3, f32, |x| x.to_f32(), bf16, f16, f32);
element!(F8E5M2, f32, |x| x.to_f32(), bf16, f16, f32);
element!(f16, f32, |x| x.to_f32_gpu(), f16, bf16, f32);
element!(bf16, f32, |x| x.to_f32_gpu(), bf16, f16, f32);
element!(f32, f32, |x| x, f32);
element!(Tf32, f32, |x| x.0, f32);
element!(f64, f64, |x| x, f64);

/// A C of the type of the sums.
macro_rules! same_output {
    ($sum:ident, $dtype:ident) => {
        impl Output<$sum> for $sum {
            const CODE: u32 = DType::$dtype as u32;
            type Factor = $sum;

            #[inline(always)]
            fn factor(field: $sum) -> $sum {
                field
            }

            #[inline(always)]
            fn convert(sum: $sum) -> $sum {
                sum
            }

            #[inline(always)]
            fn widen(self) -> $sum {
                self
            }

            #[inline(always)]
            fn narrow(value: $sum) -> $sum {
                value
            }
        }
    };
}

same_output!(i32, I32);
same_output!(f32, F32);
same_output!(f64, F64);

/// A C of floats from sums of i32, by factors of f32.
impl Output<i32> for f32 {
    const CODE: u32 = DType::F32 as u32;
    type Factor = f32;

    #[inline(always)]
    fn factor(field: i32) -> f32 {
        f32::from_bits(field.cast_unsigned())
    }

    #[inline(always)]
    fn convert(sum: i32) -> f32 {
        sum as f32
    }

    #[inline(always)]
    fn widen(self) -> f32 {
        self
    }

    #[inline(always)]
    fn narrow(value: f32) -> f32 {
        value
    }
}

macro_rules! half_output {
    ($half:ident, $dtype:ident) => {
        impl<S: Sum> Output<S> for $half
        where
            f32: Output<S, Factor = f32>,
        {
            const CODE: u32 = DType::$dtype as u32;
            type Factor = f32;

            #[inline(always)]
            fn factor(field: S) -> f32 {
                <f32 as Output<S>>::factor(field)
            }

            #[inline(always)]
            fn convert(sum: S) -> f32 {
                <f32 as Output<S>>::convert(sum)
            }

            #[inline(always)]
            fn widen(self) -> f32 {
                self.to_f32_gpu()
            }

            #[inline(always)]
            fn narrow(value: f32) -> $half {
                $half::from_f32_gpu(value)
            }

            #[inline(always)]
            fn narrow_pair(pair: [f32; 2]) -> [$half; 2] {
                let bits = $half::pack_gpu(pair);
                [$half::from_bits(bits as u16), $half::from_bits((bits >> 16) as u16)]
            }
        }
    };
}

half_output!(f16, F16);
half_output!(bf16, BF16);
