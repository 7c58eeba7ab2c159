//! Operands decoded once: values as `f32` and exponents apart.

use std::sync::LazyLock;

use crate::numeric::{Format, widen_bf16, widen_f16};

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
    let magnitude = value.to_bits() & 0x7fff_ffff;
    let finite = ((magnitude >> 23) as i16 - 127).max(min_exponent);
    let number = if magnitude >= 0x7f80_0000 { SPECIAL } else { finite };
    if magnitude == 0 { ZERO } else { number }
}

/// The decoder of a type, which may negate: every value is an `f32` exactly.
#[derive(Clone, Copy)]
pub(super) struct Decoder {
    element: Element,
    min_exponent: i16,
    flip: u32,
}

/// Calls a generic method of [`Decoder`] with the type's function from patterns to values.
macro_rules! with_values {
    ($decoder:expr, $method:ident($($argument:expr),*)) => {
        match $decoder.element {
            Element::F16 => $decoder.$method($($argument,)* |bits| widen_f16(bits as u16)),
            Element::Bf16 => $decoder.$method($($argument,)* |bits| widen_bf16(bits as u16)),
            Element::E4m3 => $decoder.$method($($argument,)* |bits| E4M3[(bits & 0xff) as usize]),
            Element::E5m2 => $decoder.$method($($argument,)* |bits| E5M2[(bits & 0xff) as usize]),
            _ => $decoder.$method($($argument,)* |bits| f32::from_bits(bits & 0xffff_e000)),
        }
    };
}

impl Decoder {
    /// Negates what it decodes if told so.
    pub fn new(element: Element, negate: bool) -> Self {
        let format = element.format().expect("a float of at most 32 bits");
        let flip = if negate { 1 << 31 } else { 0 };
        Self { element, min_exponent: format.min_exponent() as i16, flip }
    }

    /// Decodes A, row-major, as it stands.
    pub fn decode(&self, bits: &[u32]) -> (Vec<f32>, Vec<i16>) {
        with_values!(self, row_major(bits))
    }

    /// Decodes B, row-major k x n, to blocks of 8 columns, each of k rows.
    pub fn decode_blocks(&self, bits: &[u32], n: usize) -> Vec<Row> {
        with_values!(self, blocks(bits, n))
    }

    #[inline(always)]
    fn row_major(&self, bits: &[u32], value: impl Fn(u32) -> f32) -> (Vec<f32>, Vec<i16>) {
        let value = |&bits: &u32| f32::from_bits(value(bits).to_bits() ^ self.flip);
        let values: Vec<f32> = bits.iter().map(value).collect();
        let exponents = values.iter().map(|&x| exponent(x, self.min_exponent)).collect();
        (values, exponents)
    }

    #[inline(always)]
    fn blocks(&self, bits: &[u32], n: usize, value: impl Fn(u32) -> f32) -> Vec<Row> {
        let k = bits.len() / n;
        let mut rows = vec![Row { value: [0.0; BLOCK], exponent: [0; BLOCK] }; bits.len() / BLOCK];
        for (row, line) in bits.chunks_exact(n).enumerate() {
            for (block, eight) in line.chunks_exact(BLOCK).enumerate() {
                let out = &mut rows[block * k + row];
                for (j, &bits) in eight.iter().enumerate() {
                    let value = f32::from_bits(value(bits).to_bits() ^ self.flip);
                    out.value[j] = value;
                    out.exponent[j] = exponent(value, self.min_exponent);
                }
            }
        }
        rows
    }
}

static E4M3: LazyLock<[f32; 256]> = LazyLock::new(|| table_of(Format::E4M3));
static E5M2: LazyLock<[f32; 256]> = LazyLock::new(|| table_of(Format::E5M2));

/// The values of an 8-bit format.
fn table_of(format: Format) -> [f32; 256] {
    std::array::from_fn(|bits| format.to_f64(bits as u64) as f32)
}
