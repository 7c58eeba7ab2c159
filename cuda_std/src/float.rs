//! Floating-point functions that `core` lacks.
//!
//! [`GpuFloat`] has those that are exact or correctly rounded on the device, and `powi` with its
//! bound. Functions that the hardware only approximates are in [`approx`], with their error. `exp`,
//! `ln`, `sin` and the like to full precision are not here: they need libdevice, which stock rustc
//! can't link.
//!
//! `abs`, `copysign` and `signum` of `core` work on the device as they are; they are in the trait
//! for generic code.

pub mod approx;

#[cfg(target_arch = "nvptx64")]
use core::arch::asm;

/// Functions of f32 and f64. On the host they are std's.
pub trait GpuFloat: Copy + PartialOrd + private::Sealed {
    /// The greatest integer that is not greater.
    ///
    /// Lowers to `cvt.rmi` (PTX ISA, data movement and conversion instructions).
    fn floor(self) -> Self;
    /// The least integer that is not less.
    ///
    /// Lowers to `cvt.rpi` (PTX ISA, data movement and conversion instructions).
    fn ceil(self) -> Self;
    /// The nearest integer; half-way cases away from 0.
    ///
    /// Lowers to `cvt.rzi` and the correction by the part that it cut off.
    fn round(self) -> Self;
    /// The nearest integer; half-way cases to the even one.
    ///
    /// Lowers to `cvt.rni` (PTX ISA, data movement and conversion instructions).
    fn round_ties_even(self) -> Self;
    /// The integer part.
    ///
    /// Lowers to `cvt.rzi` (PTX ISA, data movement and conversion instructions).
    fn trunc(self) -> Self;
    /// `self - self.trunc()`, exactly.
    ///
    /// Lowers to `cvt.rzi` and `sub.rn`.
    fn fract(self) -> Self;
    /// The absolute value.
    ///
    /// Lowers to `abs` (PTX ISA, floating-point instructions).
    fn abs(self) -> Self;
    /// 1 or -1 with the sign of `self`, zeros included; NaN for NaN.
    fn signum(self) -> Self;
    /// The magnitude of `self` with the sign of `sign`.
    ///
    /// Lowers to `copysign` or bit operations (PTX ISA, floating-point instructions).
    fn copysign(self, sign: Self) -> Self;
    /// `self * a + b`, rounded once.
    ///
    /// Lowers to `fma.rn` (PTX ISA, floating-point instructions).
    fn mul_add(self, a: Self, b: Self) -> Self;
    /// The square root, correctly rounded; of `f32` approximated where `cuda_builder`'s
    /// `fast_sqrt(true)` asks for it.
    ///
    /// Lowers to `sqrt.rn`, or then `sqrt.approx.f32` (PTX ISA, floating-point instructions).
    fn sqrt(self) -> Self;
    /// `self` to the power of `n`, by repeated squaring; 1 for `n` = 0.
    ///
    /// Relative error at most `(|n| + 1) * EPSILON` as long as neither the result nor the power's
    /// inverse overflows or is subnormal.
    fn powi(self, n: i32) -> Self;
}

mod private {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// The device's instruction `$device` on one register, or std's method `$host`.
macro_rules! unary {
    ($float:ident, $register:ident, $name:ident, $device:expr) => {
        #[inline(always)]
        fn $name(self) -> Self {
            #[cfg(target_arch = "nvptx64")]
            {
                let result: $float;
                // SAFETY: computes on registers.
                unsafe {
                    asm!(concat!($device, " {}, {};"), out($register) result,
                        in($register) self, options(pure, nomem, nostack));
                }
                result
            }
            #[cfg(not(target_arch = "nvptx64"))]
            $float::$name(self)
        }
    };
}

macro_rules! gpu_float {
    ($float:ident, $register:ident, $fma:ident, $sqrt:ident, $cvt:literal) => {
        impl GpuFloat for $float {
            unary!($float, $register, floor, concat!("cvt.rmi", $cvt));
            unary!($float, $register, ceil, concat!("cvt.rpi", $cvt));
            unary!($float, $register, round_ties_even, concat!("cvt.rni", $cvt));
            unary!($float, $register, trunc, concat!("cvt.rzi", $cvt));

            #[inline(always)]
            fn round(self) -> Self {
                let whole = GpuFloat::trunc(self);
                // Exact: a number and its integer part are within a factor of 2, or the part is 0.
                if $float::abs(self - whole) >= 0.5 {
                    whole + $float::copysign(1.0, self)
                } else {
                    whole
                }
            }

            #[inline(always)]
            fn fract(self) -> Self {
                self - GpuFloat::trunc(self)
            }

            #[inline(always)]
            fn abs(self) -> Self {
                $float::abs(self)
            }

            #[inline(always)]
            fn signum(self) -> Self {
                $float::signum(self)
            }

            #[inline(always)]
            fn copysign(self, sign: Self) -> Self {
                $float::copysign(self, sign)
            }

            #[inline(always)]
            fn mul_add(self, a: Self, b: Self) -> Self {
                #[cfg(target_arch = "nvptx64")]
                return core::intrinsics::$fma(self, a, b);
                #[cfg(not(target_arch = "nvptx64"))]
                return $float::mul_add(self, a, b);
            }

            #[inline(always)]
            fn sqrt(self) -> Self {
                // Not `sqrt.rn` as text, which `fast_sqrt` would not change.
                #[cfg(target_arch = "nvptx64")]
                return core::intrinsics::$sqrt(self);
                #[cfg(not(target_arch = "nvptx64"))]
                return $float::sqrt(self);
            }

            #[inline(always)]
            fn powi(self, n: i32) -> Self {
                let mut power = 1.0;
                let mut square = self;
                let mut left = n.unsigned_abs();
                loop {
                    if left & 1 == 1 {
                        power *= square;
                    }
                    left >>= 1;
                    if left == 0 {
                        break;
                    }
                    square *= square;
                }
                if n < 0 { 1.0 / power } else { power }
            }
        }
    };
}

gpu_float!(f32, reg32, fmaf32, sqrtf32, ".f32.f32");
gpu_float!(f64, reg64, fmaf64, sqrtf64, ".f64.f64");

#[cfg(test)]
mod tests {
    use super::GpuFloat;

    #[test]
    fn round_is_std_s() {
        let values = [0.0f32, 0.49999997, 0.5, 1.5, 2.5, 8388607.5, 8388609.0, 3e30, f32::INFINITY];
        for value in values.into_iter().flat_map(|value| [value, -value]) {
            assert_eq!(GpuFloat::round(value).to_bits(), value.round().to_bits(), "{value}");
            assert_eq!(GpuFloat::round(value as f64).to_bits(), (value as f64).round().to_bits());
        }
        assert!(GpuFloat::round(f32::NAN).is_nan());
    }

    #[test]
    fn powi_is_within_its_bound() {
        for n in [-20, -3, -1, 0, 1, 2, 7, 31, 100] {
            for x in [-1.25f64, 0.5, 0.99, 1.0, 1.1, 3.0] {
                let sign = if n % 2 == 0 { 1.0 } else { x.signum() };
                let exact = x.abs().powf(n as f64) * sign;
                let bound = (n as f64).abs() + 2.0 /* one of them powf's own */;
                let error = ((GpuFloat::powi(x, n) - exact) / exact).abs();
                assert!(error <= bound * f64::EPSILON, "{x}^{n}: {error}");
            }
        }
    }
}
