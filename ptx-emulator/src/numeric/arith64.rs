//! `f64` arithmetic (PTX ISA 9.7.3): native to nearest, [`soft`] in the directed modes.
//!
//! A NaN operand is passed on, made quiet, the first of them if there are two; PTX does not promise
//! more. An invalid operation gives [`NAN_F64`].

use super::{Format, NAN_F64, Rounding, soft};

const SIGN: u64 = 1 << 63;

/// The result of an operation on `operands`, with the NaN that the module names.
#[inline]
pub(super) fn finish(x: f64, operands: &[u64]) -> u64 {
    if !x.is_nan() {
        return x.to_bits();
    }
    let nan = operands.iter().copied().find(|&bits| f64::from_bits(bits).is_nan());
    nan.map_or(NAN_F64, |bits| bits | 1 << 51)
}

macro_rules! binary {
    ($(#[$doc:meta])* $name:ident, $op:tt, $soft:path) => {
        $(#[$doc])*
        #[inline]
        pub fn $name(a: u64, b: u64, mode: Rounding) -> u64 {
            if mode == Rounding::NearestEven {
                finish(f64::from_bits(a) $op f64::from_bits(b), &[a, b])
            } else {
                $soft(Format::F64, a, b, mode)
            }
        }
    };
}

binary!(
    /// `add.f64`.
    add_f64, +, soft::add
);
binary!(
    /// `sub.f64`.
    sub_f64, -, soft_sub
);
binary!(
    /// `mul.f64`.
    mul_f64, *, soft::mul
);
binary!(
    /// `div.rnd.f64`.
    div_f64, /, soft::div
);

fn soft_sub(format: Format, a: u64, b: u64, mode: Rounding) -> u64 {
    // A NaN keeps its sign.
    let negated = if f64::from_bits(b).is_nan() { b } else { b ^ SIGN };
    soft::add(format, a, negated, mode)
}

/// `fma.f64`: one rounding.
#[inline]
pub fn fma_f64(a: u64, b: u64, c: u64, mode: Rounding) -> u64 {
    if mode == Rounding::NearestEven {
        let [x, y, z] = [a, b, c].map(f64::from_bits);
        finish(super::batch::fused_f64(x, y, z), &[a, b, c])
    } else {
        soft::fma(Format::F64, a, b, c, mode)
    }
}

/// `sqrt.rnd.f64`.
#[inline]
pub fn sqrt_f64(a: u64, mode: Rounding) -> u64 {
    if mode == Rounding::NearestEven {
        finish(f64::from_bits(a).sqrt(), &[a])
    } else {
        soft::sqrt(Format::F64, a, mode)
    }
}

/// `rcp.rnd.f64`.
#[inline]
pub fn rcp_f64(a: u64, mode: Rounding) -> u64 {
    div_f64(1.0f64.to_bits(), a, mode)
}

/// `neg.f64`: the sign bit alone, of NaN too.
#[inline]
pub fn neg_f64(a: u64) -> u64 {
    a ^ SIGN
}

/// `abs.f64`: clears the sign bit, of NaN too.
#[inline]
pub fn abs_f64(a: u64) -> u64 {
    a & !SIGN
}

/// `copysign.f64 d, a, b`: the magnitude of `b` with the sign of `a`.
#[inline]
pub fn copysign_f64(a: u64, b: u64) -> u64 {
    a & SIGN | b & !SIGN
}
