//! How the tensor cores of each architecture add up.
//!
//! PTX leaves the order and the precision open. The model here is that of Li et al., "MMA-Sim:
//! Bit-Accurate Reference Model of Tensor Cores and Matrix Cores" (arXiv 2511.10909), whose authors
//! compared it with hardware from Volta to Blackwell. One step adds up to `step` exact products and
//! the accumulator: every term is cut (toward zero) below `fraction_bits` bits under the largest
//! exponent of the terms, where a product's exponent is the sum of its factors' exponents, and the
//! cut terms are added exactly. The sum is rounded toward zero to f32, to nearest even to f16.
//! Longer products run step after step, each rounded.

use super::Element;

/// Which unit multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// `mma.sync`.
    Mma,
    /// `wgmma.mma_async`.
    Wgmma,
}

/// The parameters of the sum of float products.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Arithmetic {
    /// Bits kept under the largest exponent.
    pub fraction_bits: i32,
    /// Products along k that are added at once.
    pub step: usize,
    /// The exponent with which a term that is zero takes part in the search for the largest.
    pub zero_exponent: i32,
    /// FP8 in `mma.sync` on Hopper, whose tensor cores have it in `wgmma` alone: the assembler
    /// (13.5) widens to f16 and multiplies twice from zero, first where k mod 4 is 0 or 1, then the
    /// rest; C is added last, by an ordinary addition to nearest.
    pub widened: bool,
    /// An f32 result keeps only 13 fraction bits (FP8 on Ada, and in `wgmma` on Hopper).
    pub narrow: bool,
}

impl Arithmetic {
    /// That of an architecture, such as (9, 0), for operands of a type.
    pub fn of(arch: (u32, u32), unit: Unit, element: Element) -> Self {
        let fp8 = matches!(element, Element::E4m3 | Element::E5m2);
        // Bytes of a row of A that a step takes.
        let (fraction_bits, bytes, zero_exponent) = match arch {
            (7, 0..=4) => (23, 8, -131),
            (..=8, _) => (24, 16, -132),
            _ => (25, 32, -133),
        };
        let narrow = fp8 && (unit == Unit::Wgmma || arch == (8, 9));
        let widened = fp8 && unit == Unit::Mma && arch.0 == 9;
        Self {
            fraction_bits: if narrow { 13 } else { fraction_bits },
            step: if widened { 16 } else { bytes * 8 / element.bits() },
            zero_exponent,
            widened,
            narrow,
        }
    }
}
