//! Operands decoded once: values as `f32` and exponents apart.

use crate::numeric::{Format, Value, widen_bf16, widen_f16};

use super::Element;

/// The exponent of a zero: below every sum of two others.
pub(super) const ZERO: i16 = -8000;
/// The exponent of an infinity or NaN: with it every sum of two is above every finite one.
pub(super) const SPECIAL: i16 = 16000;

/// Columns that a block of B has.
pub(super) const BLOCK: usize = 8;

/// One row of a block of B.
#[derive(Clone, Copy)]
pub(super) struct Row {
    pub value: [f32; BLOCK],
    pub exponent: [i16; BLOCK],
}

/// The exponent of a value of a format whose normal numbers begin at `2^min_exponent`; subnormal
/// numbers have that exponent.
#[inline]
pub(super) fn exponent(value: f32, min_exponent: i16) -> i16 {
    let field = (value.to_bits() >> 23 & 0xff) as i16;
    if value == 0.0 {
        ZERO
    } else if field == 255 {
        SPECIAL
    } else {
        (field - 127).max(min_exponent)
    }
}

/// A type's decoder: every value of at most 16 bits, and of tf32, is an `f32` exactly.
#[derive(Clone)]
pub(super) struct Decoder {
    element: Element,
    min_exponent: i16,
    flip: u32,
    /// The values of an 8-bit format.
    table: Vec<f32>,
}

impl Decoder {
    /// Negates what it decodes if told so.
    pub fn new(element: Element, negate: bool) -> Self {
        let format = element.format().expect("a float of at most 32 bits");
        let table = if element.bits() == 8 { table_of(format) } else { Vec::new() };
        let flip = if negate { 1 << 31 } else { 0 };
        Self { element, min_exponent: format.min_exponent() as i16, flip, table }
    }

    #[inline]
    fn value(&self, bits: u32) -> f32 {
        let value = match self.element {
            Element::F16 => widen_f16(bits as u16),
            Element::Bf16 => widen_bf16(bits as u16),
            Element::Tf32 => f32::from_bits(bits & 0xffff_e000),
            _ => self.table[(bits & 0xff) as usize],
        };
        f32::from_bits(value.to_bits() ^ self.flip)
    }

    /// Decodes A, row-major, as it stands.
    pub fn decode(&self, bits: &[u32]) -> (Vec<f32>, Vec<i16>) {
        let values: Vec<f32> = bits.iter().map(|&bits| self.value(bits)).collect();
        let exponents = values.iter().map(|&x| exponent(x, self.min_exponent)).collect();
        (values, exponents)
    }

    /// Decodes B, row-major k x n, to blocks of 8 columns, each of k rows.
    pub fn decode_blocks(&self, bits: &[u32], n: usize) -> Vec<Row> {
        let k = bits.len() / n;
        let mut rows = Vec::with_capacity(bits.len() / BLOCK);
        for block in 0..n / BLOCK {
            for row in 0..k {
                let start = row * n + block * BLOCK;
                let mut value = [0.0; BLOCK];
                for (value, &bits) in value.iter_mut().zip(&bits[start..start + BLOCK]) {
                    *value = self.value(bits);
                }
                let exponent = value.map(|x| exponent(x, self.min_exponent));
                rows.push(Row { value, exponent });
            }
        }
        rows
    }
}

fn table_of(format: Format) -> Vec<f32> {
    (0..256)
        .map(|bits| match format.decode(bits) {
            Value::Nan => f32::NAN,
            _ => format.to_f64(bits) as f32,
        })
        .collect()
}
