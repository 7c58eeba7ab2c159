//! Element types of a matrix.

use core::fmt;
use core::str::FromStr;

/// The type of a matrix's elements.
///
/// A and B of one product have the same dtype, sums run in [`DType::accumulator`], and C has
/// [`DType::output`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DType {
    /// 8-bit signed integer; sums and C are i32.
    I8,
    /// 32-bit signed integer; sums and products wrap around, as in two's complement.
    I32,
    /// IEEE 754 binary16.
    F16,
    /// bfloat16: the upper half of a binary32.
    BF16,
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary64.
    F64,
}

impl DType {
    /// Every dtype, in the order of the tables.
    pub const ALL: [DType; 6] =
        [DType::I8, DType::I32, DType::F16, DType::BF16, DType::F32, DType::F64];

    /// Bytes of one element.
    pub const fn size_bytes(self) -> usize {
        match self {
            DType::I8 => 1,
            DType::F16 | DType::BF16 => 2,
            DType::I32 | DType::F32 => 4,
            DType::F64 => 8,
        }
    }

    /// The dtype in which products are summed, and in which alpha and beta are given.
    pub const fn accumulator(self) -> DType {
        match self {
            DType::I8 => DType::I32,
            DType::F16 | DType::BF16 => DType::F32,
            other => other,
        }
    }

    /// The dtype of C where A and B have this one.
    pub const fn output(self) -> DType {
        match self {
            DType::I8 => DType::I32,
            other => other,
        }
    }

    /// Whether its numbers are whole, so that products are exact, modulo 2^32.
    pub const fn is_integer(self) -> bool {
        matches!(self, DType::I8 | DType::I32)
    }

    /// The name as it stands in kernel names and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            DType::I8 => "i8",
            DType::I32 => "i32",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::F32 => "f32",
            DType::F64 => "f64",
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A dtype's name was not one of `i8`, `i32`, `f16`, `bf16`, `f32`, `f64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownDType;

impl fmt::Display for UnknownDType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown dtype: expected i8, i32, f16, bf16, f32 or f64")
    }
}

impl core::error::Error for UnknownDType {}

impl FromStr for DType {
    type Err = UnknownDType;

    fn from_str(name: &str) -> Result<Self, UnknownDType> {
        DType::ALL.into_iter().find(|dtype| dtype.name() == name).ok_or(UnknownDType)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn names_round_trip() {
        for dtype in DType::ALL {
            assert_eq!(dtype.to_string().parse(), Ok(dtype));
        }
        assert_eq!("f8".parse::<DType>(), Err(UnknownDType));
    }
}
