//! One step of a dot product with the tensor cores' arithmetic: a fast way and a general one.
//!
//! The general way, [`general`], is integer arithmetic on one element. The fast way, [`block`],
//! takes 8 columns at once in `f32`, if all exponents are moderate: a product of two operands is
//! exact in `f32` (at most 22 significant bits), so is its scaling by a power of two, and cutting
//! it is the truncating conversion to an integer.

use crate::numeric::{Format, NAN_16, NAN_F32, Rounding, narrow_f64_f16};

use super::lanes::{Lanes, Left};
use super::planes::{BLOCK, Row, SPECIAL, ZERO, exponent};
use super::{Accumulator, Arithmetic};

/// The largest exponents for which the fast way is exact. Below, a product that is cut might be
/// rounded first, being subnormal; above, it might overflow.
const MODERATE: std::ops::RangeInclusive<i16> = -90..=120;

/// Adds the products of a row of A and a block of B to `c`: one step. The elements of `c` are
/// values of the accumulator's type.
#[inline(always)]
pub(super) fn block<L: Lanes>(
    arithmetic: Arithmetic,
    to: Accumulator,
    left: Left<'_>,
    right: &[Row],
    c: &mut [f32; BLOCK],
    min_exponent_c: i16,
) {
    let largest = L::largest(left, right, c.map(|x| exponent(x, min_exponent_c)));
    // Columns of zeros alone fit every scale.
    let all_zero = ZERO / 2;
    let scaled = largest.map(|e| if e < all_zero { 0 } else { e });
    if scaled.iter().any(|e| !MODERATE.contains(e)) {
        for (column, c) in c.iter_mut().enumerate() {
            *c = general(arithmetic, to, left, right, column, *c, min_exponent_c);
        }
        return;
    }
    // 2^(fraction_bits - largest), exact, for the f32 exponent is at most 25 + 90.
    let bits = arithmetic.fraction_bits;
    let scale = scaled.map(|e| f32::from_bits(((bits - i32::from(e) + 127) as u32) << 23));
    let sums = L::sums(left, right, scale);
    for j in 0..BLOCK {
        let weight = f64::from_bits(((i64::from(scaled[j]) - i64::from(bits) + 1023) as u64) << 52);
        let total = sums[j] + f64::from((c[j] * scale[j]) as i32);
        c[j] = round(total * weight, arithmetic.narrow, to);
    }
}

/// Rounds an exact sum whose magnitude is a normal `f32`, or 0.
#[inline(always)]
fn round(x: f64, narrow: bool, to: Accumulator) -> f32 {
    if to == Accumulator::F16 {
        return crate::numeric::widen_f16(narrow_f64_f16(x));
    }
    let cut_bits = if narrow { 52 - 13 } else { 52 - 23 };
    f64::from_bits(x.to_bits() >> cut_bits << cut_bits) as f32
}

/// What infinities and NaNs among the terms make of the sum, if there are any.
fn special(left: Left<'_>, right: &[Row], column: usize, c: f32) -> Option<f32> {
    let products = left.value.iter().zip(right).map(|(&a, row)| {
        let b = row.value[column];
        if a.is_finite() && b.is_finite() { 0.0 } else { a * b }
    });
    let sum: f32 = products.sum::<f32>() + if c.is_finite() { 0.0 } else { c };
    (sum != 0.0).then_some(sum)
}

/// The step for one column, for any exponents, with integers.
#[cold]
#[inline(never)]
fn general(
    arithmetic: Arithmetic,
    to: Accumulator,
    left: Left<'_>,
    right: &[Row],
    column: usize,
    c: f32,
    min_exponent_c: i16,
) -> f32 {
    if let Some(special) = special(left, right, column, c) {
        return special;
    }
    // (exponent, negative, significand, weight of its lowest bit)
    let product = |(k, row): (usize, &Row)| {
        let (a, b) = (left.value[k], row.value[column]);
        let ((x, i), (y, j)) = (parts(a), parts(b));
        let largest = i32::from(left.exponent[k]) + i32::from(row.exponent[column]);
        (largest, a.is_sign_negative() != b.is_sign_negative(), x * y, i + j)
    };
    let (x, i) = parts(c);
    let terms = right[..left.value.len()].iter().enumerate().map(product).chain([(
        exponent(c, min_exponent_c).into(),
        c.is_sign_negative(),
        x,
        i,
    )]);
    let effective = |e: i32, x: u64| if x == 0 { arithmetic.zero_exponent } else { e };
    let largest = terms.clone().map(|(e, _, x, _)| effective(e, x)).max().unwrap_or(0);
    let low = largest - arithmetic.fraction_bits;
    let sum: i64 = terms
        .map(|(_, negative, x, weight)| {
            let shift = weight - low;
            let cut = if shift >= 0 { x << shift.min(63) } else { x >> (-shift).min(63) };
            if negative { -(cut as i64) } else { cut as i64 }
        })
        .sum();
    let (negative, magnitude) = (sum < 0, u128::from(sum.unsigned_abs()));
    if sum == 0 {
        return 0.0;
    }
    if to == Accumulator::F16 {
        let mode = Rounding::NearestEven;
        let bits = Format::F16.round(negative, magnitude, low, false, mode);
        return crate::numeric::widen_f16(bits as u16);
    }
    if 127 - magnitude.leading_zeros() as i32 + low >= 128 {
        return if negative { f32::NEG_INFINITY } else { f32::INFINITY };
    }
    let format = Format { fraction_bits: if arithmetic.narrow { 13 } else { 23 }, ..Format::F32 };
    let bits = format.round(negative, magnitude, low, false, Rounding::TowardZero);
    f32::from_bits((bits as u32) << (23 - format.fraction_bits))
}

/// The significand of a finite value, an integer, and the weight of its lowest bit.
fn parts(x: f32) -> (u64, i32) {
    let field = x.to_bits() >> 23 & 0xff;
    let fraction = u64::from(x.to_bits() & 0x7f_ffff);
    if field == 0 { (fraction, -149) } else { (fraction | 1 << 23, field as i32 - 150) }
}

/// The pattern of a result.
#[inline]
pub(super) fn pattern(x: f32, to: Accumulator) -> u32 {
    match (to, x.is_nan()) {
        (Accumulator::F16, true) => NAN_16.into(),
        (Accumulator::F16, false) => narrow_f64_f16(x.into()).into(),
        (_, true) => NAN_F32,
        (_, false) => x.to_bits(),
    }
}

const _: () = assert!(SPECIAL + ZERO > *MODERATE.end() && ZERO + 127 < ZERO / 2);
