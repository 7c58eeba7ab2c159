//! `f32` arithmetic (PTX ISA 9.7.3): native to nearest, [`soft`] in the directed modes.
//!
//! Results that are NaN are [`NAN_F32`], whatever the operands were.

use super::{Format, NAN_F32, Rounding, soft};

const ABS: u32 = 0x7fff_ffff;

/// The pattern of `x`, with the GPU's one NaN.
#[inline]
pub fn canonical_f32(x: f32) -> u32 {
    if x.is_nan() { NAN_F32 } else { x.to_bits() }
}

/// `.ftz`: a subnormal number becomes a zero of the same sign.
#[inline]
pub fn flush_f32(a: u32) -> u32 {
    if a & 0x7f80_0000 == 0 { a & !ABS } else { a }
}

/// Whether `a` is the smallest normal number, of either sign. What rounded to it may have been
/// less: then `.ftz` makes it zero, as an H100 does. Rounded toward zero it is subnormal.
#[inline]
pub fn is_least_normal_f32(a: u32) -> bool {
    a & ABS == 0x0080_0000
}

/// `.sat`: clamps to [0, 1]; NaN and -0 become +0.
#[inline]
pub fn saturate_f32(a: u32) -> u32 {
    let x = f32::from_bits(a);
    if x > 0.0 { if x < 1.0 { a } else { 0x3f80_0000 } } else { 0 }
}

/// `.relu`: a negative number becomes +0, NaN the one NaN.
#[inline]
pub fn relu_f32(a: u32) -> u32 {
    let x = f32::from_bits(a);
    if x.is_nan() {
        NAN_F32
    } else if a >> 31 == 1 {
        0
    } else {
        a
    }
}

macro_rules! binary {
    ($(#[$doc:meta])* $name:ident, $op:tt, $directed:expr) => {
        $(#[$doc])*
        #[inline]
        pub fn $name(a: u32, b: u32, mode: Rounding) -> u32 {
            if mode == Rounding::NearestEven {
                canonical_f32(f32::from_bits(a) $op f32::from_bits(b))
            } else {
                $directed(a, b, mode)
            }
        }
    };
}

const ONE: u32 = 0x3f80_0000;

binary!(
    /// `add.f32`.
    add_f32, +, |a, b, mode| fma_f32(a, ONE, b, mode)
);
binary!(
    /// `sub.f32`.
    sub_f32, -, |a, b: u32, mode| fma_f32(a, ONE, b ^ !ABS, mode)
);
binary!(
    /// `mul.f32`.
    mul_f32, *, |a, b, mode| {
        // Exact in f64.
        let product = f64::from(f32::from_bits(a)) * f64::from(f32::from_bits(b));
        Format::F32.from_f64(product, mode) as u32
    }
);
binary!(
    /// `div.rnd.f32`, the IEEE one.
    div_f32, /, |a: u32, b: u32, mode| soft::div(Format::F32, a.into(), b.into(), mode) as u32
);

/// `a * b + c` of numbers that fit `f32`, rounded to odd at 53 bits, so that rounding it once more
/// to `f32`, or to a narrower format, is exact (Boldo and Melquiond, "Emulation of FMA and
/// correctly rounded sums: proved algorithms using rounding to odd", 2008).
#[inline]
pub(crate) fn fma_odd(a: f64, b: f64, c: f64) -> f64 {
    let product = a * b; // exact: two significands of at most 24 bits
    let sum = product + c;
    // Knuth's two-sum: the error of the sum, exactly.
    let shadow = sum - product;
    let error = (product - (sum - shadow)) + (c - shadow);
    let bits = sum.to_bits();
    // Odd already, or exact, or not finite (then the error is NaN): as it is.
    let inexact = error.abs() > 0.0;
    let away = (error > 0.0) == (sum > 0.0);
    let odd = if away { bits.wrapping_add(1) } else { bits.wrapping_sub(1) };
    f64::from_bits(if inexact && bits & 1 == 0 { odd } else { bits })
}

/// `fma.f32`: one rounding.
#[inline]
pub fn fma_f32(a: u32, b: u32, c: u32, mode: Rounding) -> u32 {
    let [x, y, z] = [a, b, c].map(|x| f64::from(f32::from_bits(x)));
    let odd = fma_odd(x, y, z);
    if mode == Rounding::NearestEven {
        canonical_f32(odd as f32)
    } else if odd == 0.0 {
        // The sign of a zero depends on the mode.
        soft::fma(Format::F32, a.into(), b.into(), c.into(), mode) as u32
    } else {
        Format::F32.from_f64(odd, mode) as u32
    }
}

/// `sqrt.rnd.f32`.
#[inline]
pub fn sqrt_f32(a: u32, mode: Rounding) -> u32 {
    if mode == Rounding::NearestEven {
        canonical_f32(f32::from_bits(a).sqrt())
    } else {
        soft::sqrt(Format::F32, a.into(), mode) as u32
    }
}

/// `rcp.rnd.f32`.
#[inline]
pub fn rcp_f32(a: u32, mode: Rounding) -> u32 {
    div_f32(1.0f32.to_bits(), a, mode)
}

/// `neg.f32`: the sign bit alone, of NaN too.
#[inline]
pub fn neg_f32(a: u32) -> u32 {
    a ^ !ABS
}

/// `abs.f32`: clears the sign bit, of NaN too.
#[inline]
pub fn abs_f32(a: u32) -> u32 {
    a & ABS
}

/// `copysign.f32 d, a, b`: the magnitude of `b` with the sign of `a` (PTX ISA 9.7.3.2).
#[inline]
pub fn copysign_f32(a: u32, b: u32) -> u32 {
    a & !ABS | b & ABS
}

/// What `testp` asks (PTX ISA 9.7.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Property {
    /// Neither infinite nor NaN.
    Finite,
    /// Positive or negative infinity.
    Infinite,
    /// Not NaN.
    Number,
    /// NaN.
    NotANumber,
    /// Neither subnormal nor infinite nor NaN; both zeros count as normal.
    Normal,
    /// Smaller in magnitude than every normal number and not zero.
    Subnormal,
}

impl Property {
    #[inline]
    fn of(self, class: std::num::FpCategory) -> bool {
        use std::num::FpCategory as C;
        match self {
            Self::Finite => !matches!(class, C::Infinite | C::Nan),
            Self::Infinite => class == C::Infinite,
            Self::Number => class != C::Nan,
            Self::NotANumber => class == C::Nan,
            Self::Normal => matches!(class, C::Normal | C::Zero),
            Self::Subnormal => class == C::Subnormal,
        }
    }
}

/// `testp.f32`.
#[inline]
pub fn testp_f32(a: u32, property: Property) -> bool {
    property.of(f32::from_bits(a).classify())
}

/// `testp.f64`.
#[inline]
pub fn testp_f64(a: u64, property: Property) -> bool {
    property.of(f64::from_bits(a).classify())
}
