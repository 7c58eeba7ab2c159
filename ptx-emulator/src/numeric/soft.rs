//! Exactly rounded add, mul, fma, div and sqrt of any format and mode, on integers.
//!
//! The directed modes run here; round to nearest has native paths in `arith32` and `arith64`.
//! Intermediate results are 128-bit significands whose lowest bit is "jammed": set when anything
//! below it was cut off. With more than two bits between it and the rounding position, the one
//! rounding at the end is exact.

use super::{Format, Rounding, Value};

/// A finite operand or exact intermediate result: `(-1)^negative * significand * 2^exponent`.
#[derive(Clone, Copy)]
struct Term {
    negative: bool,
    significand: u128,
    exponent: i32,
}

/// The NaN of an operation: `f64` passes a NaN operand on, made quiet; others have one NaN.
fn nan_of(format: Format, operands: &[u64]) -> u64 {
    if format == Format::F64 {
        for &bits in operands {
            if format.decode(bits) == Value::Nan {
                return bits | 1 << 51;
            }
        }
    }
    format.nan
}

fn infinity(format: Format, negative: bool) -> u64 {
    format.infinity() | if negative { format.sign_mask() } else { 0 }
}

/// Shifts so that the highest bit is bit 125; two bits are left for a carry.
fn normalize(t: Term) -> Term {
    let shift = t.significand.leading_zeros() as i32 - 2;
    Term { significand: t.significand << shift, exponent: t.exponent - shift, ..t }
}

fn shift_right_jam(x: u128, by: i32) -> u128 {
    if by == 0 {
        x
    } else if by > 127 {
        u128::from(x != 0)
    } else {
        (x >> by) | u128::from(x & ((1 << by) - 1) != 0)
    }
}

/// The sum of two finite terms of at most 106 bits each, rounded once.
fn add_terms(format: Format, x: Term, y: Term, mode: Rounding) -> u64 {
    let zero_of_sum = if mode == Rounding::Down { format.sign_mask() } else { 0 };
    match (x.significand == 0, y.significand == 0) {
        (true, true) if x.negative == y.negative => {
            return if x.negative { format.sign_mask() } else { 0 };
        }
        (true, true) => return zero_of_sum,
        (true, false) => return format.round(y.negative, y.significand, y.exponent, false, mode),
        (false, true) => return format.round(x.negative, x.significand, x.exponent, false, mode),
        (false, false) => {}
    }
    let (x, y) = (normalize(x), normalize(y));
    let (big, small) = if x.exponent >= y.exponent { (x, y) } else { (y, x) };
    let aligned = shift_right_jam(small.significand, big.exponent - small.exponent);
    if big.negative == small.negative {
        let sum = big.significand + aligned;
        return format.round(big.negative, sum, big.exponent, false, mode);
    }
    if big.significand == aligned {
        return zero_of_sum;
    }
    let negative = if big.significand > aligned { big.negative } else { small.negative };
    let difference = big.significand.abs_diff(aligned);
    format.round(negative, difference, big.exponent, false, mode)
}

/// `a + b`.
pub fn add(format: Format, a: u64, b: u64, mode: Rounding) -> u64 {
    match (format.decode(a), format.decode(b)) {
        (Value::Nan, _) | (_, Value::Nan) => nan_of(format, &[a, b]),
        (Value::Infinite { negative: x }, Value::Infinite { negative: y }) if x != y => format.nan,
        (Value::Infinite { negative }, _) | (_, Value::Infinite { negative }) => {
            infinity(format, negative)
        }
        (x @ Value::Finite { .. }, y @ Value::Finite { .. }) => {
            add_terms(format, term(x), term(y), mode)
        }
    }
}

fn term(value: Value) -> Term {
    match value {
        Value::Finite { negative, significand, exponent } => {
            Term { negative, significand: u128::from(significand), exponent }
        }
        Value::Nan | Value::Infinite { .. } => {
            Term { negative: false, significand: 0, exponent: 0 }
        }
    }
}

fn is_zero(value: Value) -> bool {
    matches!(value, Value::Finite { significand: 0, .. })
}

fn is_negative(format: Format, bits: u64) -> bool {
    bits & format.sign_mask() != 0
}

/// `a * b`.
pub fn mul(format: Format, a: u64, b: u64, mode: Rounding) -> u64 {
    let (x, y) = (format.decode(a), format.decode(b));
    let negative = is_negative(format, a) != is_negative(format, b);
    match (x, y) {
        (Value::Nan, _) | (_, Value::Nan) => nan_of(format, &[a, b]),
        (Value::Infinite { .. }, other) | (other, Value::Infinite { .. }) => {
            if is_zero(other) {
                format.nan
            } else {
                infinity(format, negative)
            }
        }
        _ => {
            let (x, y) = (term(x), term(y));
            let significand = x.significand * y.significand;
            format.round(negative, significand, x.exponent + y.exponent, false, mode)
        }
    }
}

/// `a * b + c`, rounded once.
pub fn fma(format: Format, a: u64, b: u64, c: u64, mode: Rounding) -> u64 {
    let (x, y, z) = (format.decode(a), format.decode(b), format.decode(c));
    if x == Value::Nan || y == Value::Nan || z == Value::Nan {
        return nan_of(format, &[a, b, c]);
    }
    let negative = is_negative(format, a) != is_negative(format, b);
    let infinite = |v| matches!(v, Value::Infinite { .. });
    if infinite(x) || infinite(y) {
        let invalid = is_zero(x) || is_zero(y) || infinite(z) && is_negative(format, c) != negative;
        return if invalid { format.nan } else { infinity(format, negative) };
    }
    if infinite(z) {
        return c;
    }
    let (x, y) = (term(x), term(y));
    let significand = x.significand * y.significand;
    let product = Term { negative, significand, exponent: x.exponent + y.exponent };
    add_terms(format, product, term(z), mode)
}

/// `a / b`.
pub fn div(format: Format, a: u64, b: u64, mode: Rounding) -> u64 {
    let (x, y) = (format.decode(a), format.decode(b));
    let negative = is_negative(format, a) != is_negative(format, b);
    let sign = if negative { format.sign_mask() } else { 0 };
    match (x, y) {
        (Value::Nan, _) | (_, Value::Nan) => nan_of(format, &[a, b]),
        (Value::Infinite { .. }, Value::Infinite { .. }) => format.nan,
        (Value::Infinite { .. }, _) => infinity(format, negative),
        (_, Value::Infinite { .. }) => sign,
        _ if is_zero(y) => {
            if is_zero(x) {
                format.nan
            } else {
                infinity(format, negative)
            }
        }
        _ if is_zero(x) => sign,
        _ => {
            let (x, y) = (normalize(term(x)), normalize(term(y)));
            let divisor = y.significand >> 62; // exact: an operand has at most 53 bits
            let quotient = x.significand / divisor;
            let inexact = x.significand % divisor != 0;
            let exponent = x.exponent - (y.exponent + 62);
            format.round(negative, quotient, exponent, inexact, mode)
        }
    }
}

/// The square root of `a`; of -0 it is -0.
pub fn sqrt(format: Format, a: u64, mode: Rounding) -> u64 {
    match format.decode(a) {
        Value::Nan => nan_of(format, &[a]),
        Value::Finite { significand: 0, .. } | Value::Infinite { negative: false } => a,
        Value::Finite { negative: true, .. } | Value::Infinite { negative: true } => format.nan,
        x @ Value::Finite { .. } => {
            let mut x = normalize(term(x));
            if x.exponent % 2 != 0 {
                x.significand <<= 1;
                x.exponent -= 1;
            }
            let root = x.significand.isqrt();
            let inexact = root * root != x.significand;
            format.round(false, root, x.exponent / 2, inexact, mode)
        }
    }
}
