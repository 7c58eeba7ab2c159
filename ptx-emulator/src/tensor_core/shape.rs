//! Element types and the one table of `mma.sync` shapes.

use crate::numeric::Format;

/// A type of the elements of A or B.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "PTX's names")]
pub enum Element {
    F16,
    Bf16,
    /// In the upper 19 bits of 32; the lower 13 are ignored.
    Tf32,
    F64,
    S8,
    U8,
    E4m3,
    E5m2,
}

impl Element {
    /// Bits of an element in a register.
    pub const fn bits(self) -> usize {
        match self {
            Self::S8 | Self::U8 | Self::E4m3 | Self::E5m2 => 8,
            Self::F16 | Self::Bf16 => 16,
            Self::Tf32 => 32,
            Self::F64 => 64,
        }
    }

    /// Whether it is an integer type.
    pub const fn is_integer(self) -> bool {
        matches!(self, Self::S8 | Self::U8)
    }

    /// The format of a float of at most 32 bits, as a pattern of [`Element::bits`] holds it.
    pub(crate) const fn format(self) -> Option<Format> {
        Some(match self {
            Self::F16 => Format::F16,
            Self::Bf16 => Format::BF16,
            Self::Tf32 => Format::TF32,
            Self::E4m3 => Format::E4M3,
            Self::E5m2 => Format::E5M2,
            Self::F64 | Self::S8 | Self::U8 => return None,
        })
    }
}

/// A type of the elements of C and D.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "PTX's names")]
pub enum Accumulator {
    F16,
    F32,
    F64,
    S32,
}

impl Accumulator {
    /// Bits of an element.
    pub const fn bits(self) -> usize {
        match self {
            Self::F16 => 16,
            Self::F32 | Self::S32 => 32,
            Self::F64 => 64,
        }
    }
}

/// The sizes of a product: A is m x k, B is k x n, C and D are m x n.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "PTX's names")]
pub struct Shape {
    pub m: usize,
    pub n: usize,
    pub k: usize,
}

impl Shape {
    /// m x n x k.
    pub const fn new(m: usize, n: usize, k: usize) -> Self {
        Self { m, n, k }
    }
}

/// A row of the table of `mma.sync` shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MmaShape {
    /// The sizes.
    pub shape: Shape,
    /// The types that A may have; B may have any of them when they are 8-bit, else A's.
    pub elements: &'static [Element],
    /// The types that C and D may have, both the same.
    pub accumulators: &'static [Accumulator],
    /// The first architecture that has it, as (major, minor).
    pub since: (u32, u32),
}

const fn row(
    (m, n, k): (usize, usize, usize),
    elements: &'static [Element],
    accumulators: &'static [Accumulator],
    since: (u32, u32),
) -> MmaShape {
    MmaShape { shape: Shape::new(m, n, k), elements, accumulators, since }
}

const F16: &[Element] = &[Element::F16];
const BF16: &[Element] = &[Element::Bf16];
const TF32: &[Element] = &[Element::Tf32];
const F64: &[Element] = &[Element::F64];
const INT8: &[Element] = &[Element::S8, Element::U8];
const FP8: &[Element] = &[Element::E4m3, Element::E5m2];
const HALF_OR_SINGLE: &[Accumulator] = &[Accumulator::F16, Accumulator::F32];
const SINGLE: &[Accumulator] = &[Accumulator::F32];
const DOUBLE: &[Accumulator] = &[Accumulator::F64];
const INTEGER: &[Accumulator] = &[Accumulator::S32];

/// The dense `mma.sync` shapes (PTX ISA 9.7.14.5.14), but for sub-byte types and the four products
/// of `m8n8k4` in f16.
pub const MMA_SHAPES: &[MmaShape] = &[
    row((16, 8, 8), F16, HALF_OR_SINGLE, (7, 5)),
    row((16, 8, 16), F16, HALF_OR_SINGLE, (8, 0)),
    row((16, 8, 8), BF16, SINGLE, (8, 0)),
    row((16, 8, 16), BF16, SINGLE, (8, 0)),
    row((16, 8, 4), TF32, SINGLE, (8, 0)),
    row((16, 8, 8), TF32, SINGLE, (8, 0)),
    row((8, 8, 4), F64, DOUBLE, (8, 0)),
    row((16, 8, 4), F64, DOUBLE, (9, 0)),
    row((16, 8, 8), F64, DOUBLE, (9, 0)),
    row((16, 8, 16), F64, DOUBLE, (9, 0)),
    row((8, 8, 16), INT8, INTEGER, (7, 5)),
    row((16, 8, 16), INT8, INTEGER, (8, 0)),
    row((16, 8, 32), INT8, INTEGER, (8, 0)),
    row((16, 8, 16), FP8, HALF_OR_SINGLE, (8, 9)),
    row((16, 8, 32), FP8, HALF_OR_SINGLE, (8, 9)),
];
