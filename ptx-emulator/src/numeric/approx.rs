//! The approximate functions (PTX ISA 9.7.3, 9.7.4), within the bounds that PTX states.
//!
//! The hardware's tables are not public. These are computed in `f64` and rounded once, so their
//! error against the true value is at most half a unit in the last place (for `f64` approximations,
//! 2^-20 relative); a GPU differs from them by its own stated bound:
//!
//! | function | bound of the GPU |
//! |---|---|
//! | `rcp.approx.f32` | 1 ulp |
//! | `sqrt.approx.f32` | 2^-23 relative |
//! | `rsqrt.approx.f32` | 2^-22.9 relative |
//! | `div.approx.f32` | 2 ulp for a divisor in [2^-126, 2^126] |
//! | `div.full.f32` | 2 ulp |
//! | `ex2.approx.f32` | 2^-22 relative |
//! | `lg2.approx.f32` | 2^-22 absolute in (0.5, 2), else 2^-22 relative |
//! | `sin.approx.f32`, `cos.approx.f32` | 2^-20.5 absolute in [-2 pi, 2 pi] |
//! | `tanh.approx.f32` | 2^-11 relative |
//! | `ex2.approx.f16`, `.bf16` | 2^-9.9, 2^-7 relative |
//! | `tanh.approx.f16`, `.bf16` | 2^-10.987, 2^-8 absolute |

use super::{
    NAN_F64, canonical_f32, flush_bf16, flush_f32, narrow_f64_bf16, narrow_f64_f16, widen_bf16,
    widen_f16,
};

macro_rules! of_f32 {
    ($(#[$doc:meta])* $name:ident, $x:ident => $value:expr) => {
        $(#[$doc])*
        #[inline]
        pub fn $name(a: u32) -> u32 {
            let $x = f64::from(f32::from_bits(a));
            canonical_f32($value as f32)
        }
    };
}

of_f32!(
    /// `rcp.approx.f32`.
    rcp_approx_f32, x => 1.0 / x
);
of_f32!(
    /// `sqrt.approx.f32`.
    sqrt_approx_f32, x => x.sqrt()
);
of_f32!(
    /// `rsqrt.approx.f32`; of -0 it is minus infinity.
    rsqrt_approx_f32, x => 1.0 / x.sqrt()
);
of_f32!(
    /// `ex2.approx.f32`.
    ex2_approx_f32, x => x.exp2()
);
of_f32!(
    /// `lg2.approx.f32`; of both zeros it is minus infinity.
    lg2_approx_f32, x => x.log2()
);
of_f32!(
    /// `sin.approx.f32`; of an infinity it is NaN.
    sin_approx_f32, x => x.sin()
);
of_f32!(
    /// `cos.approx.f32`.
    cos_approx_f32, x => x.cos()
);
of_f32!(
    /// `tanh.approx.f32`.
    tanh_approx_f32, x => x.tanh()
);

/// `div.approx.f32`: a divisor above 2^126 gives 0, of an infinity NaN (PTX ISA 9.7.3.8).
#[inline]
pub fn div_approx_f32(a: u32, b: u32) -> u32 {
    let (x, y) = (f32::from_bits(a), f32::from_bits(b));
    if y.is_finite() && y.abs() > f32::from_bits((126 + 127) << 23) {
        let zero = f32::from_bits((a ^ b) & 0x8000_0000);
        return canonical_f32(if x.is_finite() { zero } else { f32::NAN });
    }
    div_full_f32(a, b)
}

/// `div.full.f32`.
#[inline]
pub fn div_full_f32(a: u32, b: u32) -> u32 {
    canonical_f32(f32::from_bits(a) / f32::from_bits(b))
}

/// Keeps the upper 32 bits, of NaN the default one.
#[inline]
fn upper_half(x: f64) -> u64 {
    let bits = if x.is_nan() { NAN_F64 } else { x.to_bits() };
    let upper = bits & 0xffff_ffff_0000_0000;
    // A subnormal result is flushed.
    if upper & 0x7ff0_0000_0000_0000 == 0 { upper & 1 << 63 } else { upper }
}

/// A subnormal `f64` as a zero of its sign, lower 32 bits ignored.
#[inline]
fn flushed_upper(a: u64) -> f64 {
    f64::from_bits(upper_half(f64::from_bits(a)))
}

/// `rcp.approx.ftz.f64`: reads and writes the upper 32 bits alone (PTX ISA 9.7.3.15).
#[inline]
pub fn rcp_approx_ftz_f64(a: u64) -> u64 {
    upper_half(1.0 / flushed_upper(a))
}

/// `rsqrt.approx.ftz.f64`: reads and writes the upper 32 bits alone (PTX ISA 9.7.3.18).
#[inline]
pub fn rsqrt_approx_ftz_f64(a: u64) -> u64 {
    upper_half(1.0 / flushed_upper(a).sqrt())
}

/// `rsqrt.approx.f64`.
#[inline]
pub fn rsqrt_approx_f64(a: u64) -> u64 {
    let root = 1.0 / f64::from_bits(a).sqrt();
    if root.is_nan() { NAN_F64 } else { root.to_bits() }
}

/// `ex2.approx.f16`.
#[inline]
pub fn ex2_approx_f16(a: u16) -> u16 {
    narrow_f64_f16(f64::from(widen_f16(a)).exp2())
}

/// `ex2.approx.ftz.bf16`.
#[inline]
pub fn ex2_approx_ftz_bf16(a: u16) -> u16 {
    flush_bf16(narrow_f64_bf16(f64::from(widen_bf16(flush_bf16(a))).exp2()))
}

/// `tanh.approx.f16`.
#[inline]
pub fn tanh_approx_f16(a: u16) -> u16 {
    narrow_f64_f16(f64::from(widen_f16(a)).tanh())
}

/// `tanh.approx.bf16`.
#[inline]
pub fn tanh_approx_bf16(a: u16) -> u16 {
    narrow_f64_bf16(f64::from(widen_bf16(a)).tanh())
}

/// A function of `f32` with `.ftz`: operand and result flushed.
#[inline]
pub fn with_ftz_f32(a: u32, f: impl Fn(u32) -> u32) -> u32 {
    flush_f32(f(flush_f32(a)))
}
