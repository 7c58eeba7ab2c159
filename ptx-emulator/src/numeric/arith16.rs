//! `f16` and `bf16` arithmetic (PTX ISA 9.7.4): one rounding, to nearest even.
//!
//! Both formats go the same way: exact or rounded-to-odd in `f64`, then rounded once. NaN results
//! are [`NAN_16`]. The packed forms apply these to each half.

use super::arith32::fma_odd;
use super::{NAN_16, narrow_f64_bf16, narrow_f64_f16};

/// Widens an `f16`; exact.
#[inline]
pub fn widen_f16(a: u16) -> f32 {
    let sign = u32::from(a & 0x8000) << 16;
    let magnitude = u32::from(a & 0x7fff);
    if magnitude >= 0x7c00 {
        let nan = if magnitude > 0x7c00 { 0x7fff_ffff } else { 0x7f80_0000 };
        return f32::from_bits(sign | nan);
    }
    // As an f32 pattern the number is 2^112 too small; the product is exact, for subnormals too.
    let scaled = f32::from_bits(magnitude << 13) * f32::from_bits((127 + 112) << 23);
    f32::from_bits(sign | scaled.to_bits())
}

/// Widens a `bf16`; exact.
#[inline]
pub fn widen_bf16(a: u16) -> f32 {
    f32::from_bits(u32::from(a) << 16)
}

/// `.ftz` of an `f16`.
#[inline]
pub fn flush_f16(a: u16) -> u16 {
    if a & 0x7c00 == 0 { a & 0x8000 } else { a }
}

/// `.ftz` of a `bf16`.
#[inline]
pub fn flush_bf16(a: u16) -> u16 {
    if a & 0x7f80 == 0 { a & 0x8000 } else { a }
}

/// `.sat` of an `f16`: clamps to [0, 1]; NaN and -0 become +0.
#[inline]
pub fn saturate_f16(a: u16) -> u16 {
    if a >> 15 == 1 || a > 0x7c00 { 0 } else { a.min(0x3c00) }
}

/// `.sat` of a `bf16`.
#[inline]
pub fn saturate_bf16(a: u16) -> u16 {
    if a >> 15 == 1 || a > 0x7f80 { 0 } else { a.min(0x3f80) }
}

/// `.relu` of an `f16`: a negative number becomes +0, NaN the one NaN.
#[inline]
pub fn relu_f16(a: u16) -> u16 {
    if a & 0x7fff > 0x7c00 {
        NAN_16
    } else if a >> 15 == 1 {
        0
    } else {
        a
    }
}

/// `.relu` of a `bf16`.
#[inline]
pub fn relu_bf16(a: u16) -> u16 {
    if a & 0x7fff > 0x7f80 {
        NAN_16
    } else if a >> 15 == 1 {
        0
    } else {
        a
    }
}

macro_rules! arithmetic {
    ($type:literal, $widen:ident, $narrow:ident,
     $add:ident, $sub:ident, $mul:ident, $fma:ident) => {
        #[doc = concat!("`add.", $type, "`.")]
        #[inline]
        pub fn $add(a: u16, b: u16) -> u16 {
            $fma(a, ONE[usize::from($type.len() == 4)], b)
        }

        #[doc = concat!("`sub.", $type, "`.")]
        #[inline]
        pub fn $sub(a: u16, b: u16) -> u16 {
            $fma(a, ONE[usize::from($type.len() == 4)], b ^ 0x8000)
        }

        #[doc = concat!("`mul.", $type, "`.")]
        #[inline]
        pub fn $mul(a: u16, b: u16) -> u16 {
            $narrow(f64::from($widen(a)) * f64::from($widen(b)))
        }

        #[doc = concat!("`fma.rn.", $type, "`.")]
        #[inline]
        pub fn $fma(a: u16, b: u16, c: u16) -> u16 {
            let [a, b, c] = [a, b, c].map(|x| f64::from($widen(x)));
            $narrow(fma_odd(a, b, c))
        }
    };
}

/// 1.0 in `f16` and in `bf16`.
const ONE: [u16; 2] = [0x3c00, 0x3f80];

arithmetic!("f16", widen_f16, narrow_f64_f16, add_f16, sub_f16, mul_f16, fma_f16);
arithmetic!("bf16", widen_bf16, narrow_f64_bf16, add_bf16, sub_bf16, mul_bf16, fma_bf16);

/// `fma.rn.ftz.f16`, without the flush of the operands: what is less than the smallest normal
/// number before it is rounded becomes zero, as on an H100.
#[inline]
pub fn fma_ftz_f16(a: u16, b: u16, c: u16) -> u16 {
    const LEAST_NORMAL: f64 = 1.0 / 16384.0;
    let [a, b, c] = [a, b, c].map(|x| f64::from(widen_f16(x)));
    let odd = fma_odd(a, b, c);
    let flushed = if odd.abs() < LEAST_NORMAL { 0f64.copysign(odd) } else { odd };
    narrow_f64_f16(flushed)
}

/// `mul.rn.ftz.f16`, likewise.
#[inline]
pub fn mul_ftz_f16(a: u16, b: u16) -> u16 {
    fma_ftz_f16(a, b, 0x8000) // to add -0 changes nothing
}

/// `neg.f16`, `neg.bf16`: the sign bit alone.
#[inline]
pub fn neg_16(a: u16) -> u16 {
    a ^ 0x8000
}

/// `abs.f16`, `abs.bf16`: clears the sign bit.
#[inline]
pub fn abs_16(a: u16) -> u16 {
    a & 0x7fff
}

/// Applies a function of one half to both halves of a packed register.
#[inline]
pub fn packed1(a: u32, f: impl Fn(u16) -> u16) -> u32 {
    u32::from(f(a as u16)) | u32::from(f((a >> 16) as u16)) << 16
}

/// Applies a function of two halves, half by half.
#[inline]
pub fn packed2(a: u32, b: u32, f: impl Fn(u16, u16) -> u16) -> u32 {
    let high = f((a >> 16) as u16, (b >> 16) as u16);
    u32::from(f(a as u16, b as u16)) | u32::from(high) << 16
}

/// Applies a function of three halves, half by half.
#[inline]
pub fn packed3(a: u32, b: u32, c: u32, f: impl Fn(u16, u16, u16) -> u16) -> u32 {
    let high = f((a >> 16) as u16, (b >> 16) as u16, (c >> 16) as u16);
    u32::from(f(a as u16, b as u16, c as u16)) | u32::from(high) << 16
}
