//! The model of the tensor cores' sums on numbers of 1024 bits: slow and plain.
//!
//! A term is a fixed-point number with its lowest bit at 2^-400. Cutting clears bits; positive and
//! negative terms are added apart.

use std::cmp::Ordering;

use crate::numeric::{Format, NAN_16, NAN_F32, Rounding, Value};
use crate::tensor_core::{Accumulator, Arithmetic, Element};

const WORDS: usize = 16;
const LOW: i32 = -400;

#[derive(Clone, Copy, PartialEq)]
struct Wide([u64; WORDS]);

impl Wide {
    /// `x * 2^exponent`.
    fn new(x: u64, exponent: i32) -> Self {
        let mut wide = Self([0; WORDS]);
        for bit in 0..64 {
            if x >> bit & 1 == 1 {
                let place = (exponent + bit - LOW) as usize;
                wide.0[place / 64] |= 1 << (place % 64);
            }
        }
        wide
    }

    fn bit(&self, place: i32) -> bool {
        let place = place - LOW;
        place >= 0 && self.0[place as usize / 64] >> (place as usize % 64) & 1 == 1
    }

    /// Clears the bits below `2^place`.
    fn cut(mut self, place: i32) -> Self {
        for low in LOW..place {
            let low = (low - LOW) as usize;
            self.0[low / 64] &= !(1 << (low % 64));
        }
        self
    }

    fn plus(self, other: Self) -> Self {
        let mut sum = [0; WORDS];
        let mut carry = false;
        for (i, sum) in sum.iter_mut().enumerate() {
            let (x, first) = self.0[i].overflowing_add(other.0[i]);
            let (x, second) = x.overflowing_add(carry.into());
            (*sum, carry) = (x, first || second);
        }
        Self(sum)
    }

    fn minus(self, other: Self) -> Self {
        let complement = Self(other.0.map(|word| !word)).plus(Self::new(1, LOW));
        self.plus(complement)
    }

    fn compare(&self, other: &Self) -> Ordering {
        self.0.iter().rev().cmp(other.0.iter().rev())
    }

    /// The place of the highest bit.
    fn top(&self) -> Option<i32> {
        (LOW..LOW + 64 * WORDS as i32).rev().find(|&place| self.bit(place))
    }
}

/// A value of A, B or C.
#[derive(Clone, Copy)]
struct Number {
    value: Value,
    /// The exponent field's, without normalising subnormal numbers.
    exponent: i32,
}

fn number(format: Format, bits: u64) -> Number {
    let value = format.decode(bits);
    let exponent = match value {
        Value::Finite { exponent, .. } => exponent + format.fraction_bits as i32,
        Value::Nan | Value::Infinite { .. } => 0,
    };
    Number { value, exponent }
}

fn format_of(element: Element) -> Format {
    match element {
        Element::F16 => Format::F16,
        Element::Bf16 => Format::BF16,
        Element::Tf32 => Format::TF32,
        Element::E4m3 => Format::E4M3,
        Element::E5m2 => Format::E5M2,
        _ => panic!("not a float of the tensor cores' model"),
    }
}

/// The element's number; tf32 stands in the upper bits of its word.
fn operand(element: Element, bits: u32) -> Number {
    let bits = if element == Element::Tf32 { bits >> 13 } else { bits };
    number(format_of(element), bits.into())
}

fn f64_of(format: Format, bits: u32) -> f64 {
    format.to_f64(bits.into())
}

/// A term: the exponent that it takes part with, its sign and its magnitude.
type Term = (i32, bool, Wide);

/// The sum of a whole row and column, step by step.
pub fn dot(
    arithmetic: Arithmetic,
    (a_type, b_type): (Element, Element),
    (c_type, d_type): (Accumulator, Accumulator),
    a: &[u32],
    b: &[u32],
    c: u32,
) -> u32 {
    let format = |to| if to == Accumulator::F16 { Format::F16 } else { Format::F32 };
    if arithmetic.widened {
        let half = |x: &[u32], upper: bool| -> Vec<u32> {
            x.iter().enumerate().filter(|(i, _)| (i / 2 % 2 == 1) == upper).map(|x| *x.1).collect()
        };
        let plain = Arithmetic { widened: false, ..arithmetic };
        let dot = |upper, c| {
            let (a, b) = (half(a, upper), half(b, upper));
            dot(plain, (a_type, b_type), (d_type, d_type), &a, &b, c)
        };
        let products = f64_of(format(d_type), dot(true, dot(false, 0)));
        // One rounding: f64 holds these sums exactly, or f32 rounds them as f64 does.
        let sum = products + f64_of(format(c_type), c);
        return match d_type {
            _ if sum.is_nan() => format(d_type).nan as u32,
            Accumulator::F16 => format(d_type).from_f64(sum, Rounding::NearestEven) as u32,
            _ => (sum as f32).to_bits(),
        };
    }
    let mut sum = number(format(c_type), c.into());
    let mut bits = c;
    for (a, b) in a.chunks(arithmetic.step).zip(b.chunks(arithmetic.step)) {
        let pairs: Vec<_> =
            a.iter().zip(b).map(|(&a, &b)| (operand(a_type, a), operand(b_type, b))).collect();
        bits = step(arithmetic, d_type, &pairs, sum);
        sum = number(format(d_type), bits.into());
    }
    bits
}

fn step(arithmetic: Arithmetic, d: Accumulator, pairs: &[(Number, Number)], c: Number) -> u32 {
    let (nan, infinity, negative_infinity) = match d {
        Accumulator::F16 => (u32::from(NAN_16), 0x7c00, 0xfc00),
        _ => (NAN_F32, 0x7f80_0000, 0xff80_0000),
    };
    let mut infinite = [false, false];
    let mut terms: Vec<Term> = Vec::new();
    for (x, y) in pairs {
        match (x.value, y.value) {
            (Value::Nan, _) | (_, Value::Nan) => return nan,
            (Value::Infinite { negative: s }, Value::Infinite { negative: t }) => {
                infinite[usize::from(s != t)] = true;
            }
            (Value::Infinite { negative: s }, Value::Finite { negative: t, significand, .. })
            | (Value::Finite { negative: t, significand, .. }, Value::Infinite { negative: s }) => {
                if significand == 0 {
                    return nan;
                }
                infinite[usize::from(s != t)] = true;
            }
            (
                Value::Finite { negative: s, significand: x_bits, exponent: i },
                Value::Finite { negative: t, significand: y_bits, exponent: j },
            ) => {
                let magnitude = Wide::new(x_bits * y_bits, i + j);
                terms.push((x.exponent + y.exponent, s != t, magnitude));
            }
        }
    }
    match c.value {
        Value::Nan => return nan,
        Value::Infinite { negative } => infinite[usize::from(negative)] = true,
        Value::Finite { negative, significand, exponent } => {
            terms.push((c.exponent, negative, Wide::new(significand, exponent)));
        }
    }
    match infinite {
        [true, true] => nan,
        [true, false] => infinity,
        [false, true] => negative_infinity,
        [false, false] => finite(arithmetic, d, &terms),
    }
}

fn finite(arithmetic: Arithmetic, d: Accumulator, terms: &[Term]) -> u32 {
    let exponent = |term: &Term| term.2.top().map_or(arithmetic.zero_exponent, |_| term.0);
    let largest = terms.iter().map(exponent).max().unwrap();
    let zero = Wide::new(0, 0);
    let [plus, minus] = [false, true].map(|sign| {
        let of_sign = terms.iter().filter(|term| term.1 == sign);
        of_sign.fold(zero, |sum, term| sum.plus(term.2.cut(largest - arithmetic.fraction_bits)))
    });
    let (negative, magnitude) = match plus.compare(&minus) {
        Ordering::Equal => return 0,
        Ordering::Greater => (false, plus.minus(minus)),
        Ordering::Less => (true, minus.minus(plus)),
    };
    let top = magnitude.top().unwrap();
    // 60 bits hold the sum: it spans at most 25 + 2 + 6 bits.
    let significand = (0..60).fold(0u64, |x, i| x << 1 | u64::from(magnitude.bit(top - i)));
    if d == Accumulator::F16 {
        let mode = Rounding::NearestEven;
        return Format::F16.round(negative, significand.into(), top - 59, false, mode) as u32;
    }
    let sign = if negative { 1 << 31 } else { 0 };
    if top > 127 {
        return sign | 0x7f80_0000;
    }
    let fraction_bits = if arithmetic.narrow { 13 } else { 23 };
    let low = top.max(-126) - fraction_bits;
    let kept = magnitude.cut(low);
    // As an integer of 2^-149, which fits a u64 only in pieces: rebuild the pattern by its fields.
    let Some(top) = kept.top() else { return sign };
    let field = (top + 127).max(0) as u32;
    let first = if field == 0 { -127 } else { top - 1 };
    let fraction = (0..23).fold(0u32, |x, i| x << 1 | u32::from(kept.bit(first - i)));
    sign | field << 23 | fraction
}
