//! What a kernel does with single elements: load, widen, multiply, add, round.

use crate::Packed;
use cuda_std::GpuFloat;
use cuda_std::half::{bf16, f16};

/// The type in which products are summed: i32, f32 or f64.
pub trait Sum: Packed {
    /// The empty sum.
    const ZERO: Self;

    /// `self * factor + addend`: one rounding for floats, wrapping for i32.
    fn mul_add(self, factor: Self, addend: Self) -> Self;

    /// `self * factor`, wrapping for i32.
    fn mul(self, factor: Self) -> Self;

    /// Two sums that live in neighbouring registers, the first in an even one.
    type Pair: Copy;

    /// Makes a pair.
    fn pair(even: Self, odd: Self) -> Self::Pair;

    /// Takes it apart.
    fn split(pair: Self::Pair) -> (Self, Self);
}

/// An element of a matrix.
pub trait Element: Packed {
    /// What its products are summed in.
    type Sum: Sum;

    /// The element's value, exactly.
    fn widen(self) -> Self::Sum;

    /// The element nearest to `sum`, ties to even.
    fn narrow(sum: Self::Sum) -> Self;
}

/// A pair of words as one 64-bit register, which ptxas gives to two neighbouring ones.
#[inline(always)]
fn pack(even: u32, odd: u32) -> u64 {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: moves registers.
    unsafe {
        let pair: u64;
        core::arch::asm!("mov.b64 {}, {{{}, {}}};", out(reg64) pair, in(reg32) even,
            in(reg32) odd, options(pure, nomem, nostack));
        pair
    }
    #[cfg(not(target_arch = "nvptx64"))]
    return u64::from(even) | u64::from(odd) << 32;
}

/// The inverse of [`pack`].
#[inline(always)]
fn unpack(pair: u64) -> (u32, u32) {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: moves registers.
    unsafe {
        let (even, odd): (u32, u32);
        core::arch::asm!("mov.b64 {{{}, {}}}, {};", out(reg32) even, out(reg32) odd,
            in(reg64) pair, options(pure, nomem, nostack));
        (even, odd)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    return (pair as u32, (pair >> 32) as u32);
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

    type Pair = u64;

    #[inline(always)]
    fn pair(even: i32, odd: i32) -> u64 {
        pack(even as u32, odd as u32)
    }

    #[inline(always)]
    fn split(pair: u64) -> (i32, i32) {
        let (even, odd) = unpack(pair);
        (even as i32, odd as i32)
    }
}

macro_rules! float_sum {
    ($float:ident, $pair:ty, $make:expr, $split:expr) => {
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

            type Pair = $pair;

            #[inline(always)]
            fn pair(even: $float, odd: $float) -> $pair {
                $make(even, odd)
            }

            #[inline(always)]
            fn split(pair: $pair) -> ($float, $float) {
                $split(pair)
            }
        }
    };
}

float_sum!(f32, u64, |even: f32, odd: f32| pack(even.to_bits(), odd.to_bits()), |pair| {
    let (even, odd) = unpack(pair);
    (f32::from_bits(even), f32::from_bits(odd))
});
// A f64 is a pair by itself.
float_sum!(f64, (f64, f64), |even, odd| (even, odd), |pair| pair);

macro_rules! same_sum {
    ($element:ident) => {
        impl Element for $element {
            type Sum = $element;

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

macro_rules! half_element {
    ($element:ident) => {
        impl Element for $element {
            type Sum = f32;

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
