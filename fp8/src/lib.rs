//! Floats of 8 bits: [`F8E4M3`] and [`F8E5M2`], for host and device.
//!
//! The formats are those of the Open Compute Project ("OCP 8-bit Floating Point Specification",
//! revision 1.0) and of NVIDIA's tensor cores (PTX ISA, "Alternate Floating-Point Data Formats").
//! All arithmetic is f32's: there is only the way there, which is exact, and the way back.
//!
//! (The crate `float8` has types of these names. Ours are not those because they call 448, the
//! largest number of e4m3, infinite.)
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

use core::cmp::Ordering;
use core::fmt;

/// A float of 8 bits, 4 of exponent and 3 of mantissa, from 2^-9 to 448 and 0, of both signs.
///
/// It has no infinity, and one NaN of each sign, all ones.
#[repr(transparent)]
#[derive(Clone, Copy, Default)]
#[cfg_attr(feature = "bytemuck", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct F8E4M3(u8);

/// A float of 8 bits, 5 of exponent and 2 of mantissa, from 2^-16 to 57344 and 0, of both signs;
/// infinity and NaN are as in IEEE 754. It is the upper half of an f16.
#[repr(transparent)]
#[derive(Clone, Copy, Default)]
#[cfg_attr(feature = "bytemuck", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct F8E5M2(u8);

/// All bits but the sign.
const MAGNITUDE: u8 = 0x7f;

/// `magnitude * 2^-exponent`, without its sign, as bits of `MANTISSA` and more above them.
///
/// Normal numbers have their mantissa rounded where it lies, and a carry ends up in the exponent.
/// Smaller ones are added to a number whose last digit is the least number of the format.
#[inline(always)]
const fn round<const MANTISSA: u32, const BIAS: u32>(magnitude: u32) -> u32 {
    let least_normal = (128 - BIAS) << 23;
    if magnitude < least_normal {
        let aligner = (128 - BIAS + 23 - MANTISSA) << 23;
        let sum = f32::from_bits(magnitude) + f32::from_bits(aligner);
        return sum.to_bits() - aligner;
    }
    let cut = 23 - MANTISSA;
    // Just less than half a unit, plus 1 where the kept part is odd.
    let rounded = magnitude + (1 << (cut - 1)) - 1 + (magnitude >> cut & 1);
    (rounded >> cut) - ((127 - BIAS) << MANTISSA)
}

macro_rules! common {
    ($type:ident, $mantissa:literal, $bias:literal, $max:literal) => {
        impl $type {
            /// The largest number.
            pub const MAX: $type = $type($max);
            /// The least positive number, which is subnormal.
            pub const LEAST: $type = $type(1);
            /// 1.
            pub const ONE: $type = $type($bias << $mantissa);
            /// The NaN that conversions give.
            pub const NAN: $type = $type(MAGNITUDE);

            /// The number of these bits.
            #[inline(always)]
            pub const fn from_bits(bits: u8) -> Self {
                $type(bits)
            }

            /// Its bits.
            #[inline(always)]
            pub const fn to_bits(self) -> u8 {
                self.0
            }

            /// The nearest number, ties to even; a larger one than the largest, infinity too,
            /// becomes the largest of its sign, and NaN stays NaN: what `cvt.rn.satfinite` gives
            /// (PTX ISA, `cvt`).
            #[inline(always)]
            pub const fn from_f32(value: f32) -> Self {
                let bits = value.to_bits();
                let magnitude = bits & 0x7fff_ffff;
                if magnitude > 0x7f80_0000 {
                    return Self::NAN;
                }
                let rounded = round::<$mantissa, $bias>(magnitude);
                let rounded = if rounded > $max { $max } else { rounded as u8 };
                $type((bits >> 24) as u8 & 0x80 | rounded)
            }

            /// Whether it is neither infinite nor NaN.
            #[inline(always)]
            pub const fn is_finite(self) -> bool {
                self.0 & MAGNITUDE <= $max
            }
        }

        impl PartialEq for $type {
            fn eq(&self, other: &Self) -> bool {
                self.to_f32() == other.to_f32()
            }
        }

        impl PartialOrd for $type {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                self.to_f32().partial_cmp(&other.to_f32())
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.to_f32().fmt(f)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.to_f32(), f)
            }
        }
    };
}

common!(F8E4M3, 3, 7, 0x7e);
common!(F8E5M2, 2, 15, 0x7b);

impl F8E4M3 {
    /// The same value as f32; exact, and NaN stays NaN.
    #[inline(always)]
    pub const fn to_f32(self) -> f32 {
        let magnitude = (self.0 & MAGNITUDE) as u32;
        let sign = (self.0 as u32 & 0x80) << 24;
        // The bits at their places, in f32's range of exponents: 2^(127 - 7) too small.
        let value = f32::from_bits(magnitude << 20) * f32::from_bits((127 + 120) << 23);
        let bits = if magnitude == 0x7f { 0x7fc0_0000 } else { value.to_bits() };
        f32::from_bits(bits | sign)
    }

    /// Whether it is NaN.
    #[inline(always)]
    pub const fn is_nan(self) -> bool {
        self.0 & MAGNITUDE == MAGNITUDE
    }
}

impl F8E5M2 {
    /// Infinity.
    pub const INFINITY: F8E5M2 = F8E5M2(0x7c);

    /// The same value as f32; exact, and NaN stays NaN.
    #[inline(always)]
    pub const fn to_f32(self) -> f32 {
        let magnitude = (self.0 & MAGNITUDE) as u32;
        let sign = (self.0 as u32 & 0x80) << 24;
        // The bits at their places, in f32's range of exponents: 2^(127 - 15) too small.
        let value = f32::from_bits(magnitude << 21) * f32::from_bits((127 + 112) << 23);
        let bits = if magnitude >= 0x7c { 0x7f80_0000 | magnitude << 21 } else { value.to_bits() };
        f32::from_bits(bits | sign)
    }

    /// Whether it is NaN.
    #[inline(always)]
    pub const fn is_nan(self) -> bool {
        self.0 & MAGNITUDE > 0x7c
    }
}

#[cfg(test)]
mod tests;
