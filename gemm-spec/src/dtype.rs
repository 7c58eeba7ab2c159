//! Element types of a matrix.

use core::fmt;
use core::str::FromStr;

/// The type of a matrix's elements.
///
/// A and B of one product have the same dtype, sums run in [`DType::accumulator`], and C has one of
/// [`DType::outputs`], [`DType::output`] unless another is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DType {
    /// 8-bit signed integer; sums are i32.
    I8,
    /// 8-bit float with 4 bits of exponent and no infinity (OCP's e4m3); sums are f32.
    F8E4M3,
    /// 8-bit float with 5 bits of exponent (OCP's e5m2); sums are f32.
    F8E5M2,
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
    pub const ALL: [DType; 8] = [
        DType::I8,
        DType::I32,
        DType::F8E4M3,
        DType::F8E5M2,
        DType::F16,
        DType::BF16,
        DType::F32,
        DType::F64,
    ];

    /// Bytes of one element.
    pub const fn size_bytes(self) -> usize {
        match self {
            DType::I8 | DType::F8E4M3 | DType::F8E5M2 => 1,
            DType::F16 | DType::BF16 => 2,
            DType::I32 | DType::F32 => 4,
            DType::F64 => 8,
        }
    }

    /// The dtype in which products are summed.
    pub const fn accumulator(self) -> DType {
        match self {
            DType::I8 => DType::I32,
            DType::F8E4M3 | DType::F8E5M2 | DType::F16 | DType::BF16 => DType::F32,
            other => other,
        }
    }

    /// The dtype of C where A and B have this one and nothing else is asked for.
    pub const fn output(self) -> DType {
        self.outputs()[0]
    }

    /// The dtypes that C may have where A and B have this one, the default first. Sums of i8 become
    /// a C of floats by an alpha of f32.
    pub const fn outputs(self) -> &'static [DType] {
        match self {
            DType::I8 => &[DType::I32, DType::F32, DType::F16, DType::BF16],
            DType::I32 => &[DType::I32],
            DType::F16 => &[DType::F16, DType::BF16, DType::F32],
            DType::BF16 | DType::F8E4M3 | DType::F8E5M2 => &[DType::BF16, DType::F16, DType::F32],
            DType::F32 => &[DType::F32],
            DType::F64 => &[DType::F64],
        }
    }

    /// The dtype of alpha and beta, and of alpha * sum + beta * C, where C has this one.
    pub const fn factor(self) -> DType {
        self.accumulator()
    }

    /// Whether its numbers are whole, so that products are exact, modulo 2^32.
    pub const fn is_integer(self) -> bool {
        matches!(self, DType::I8 | DType::I32)
    }

    /// Whether it is one of the floats of 8 bits.
    pub const fn is_fp8(self) -> bool {
        matches!(self, DType::F8E4M3 | DType::F8E5M2)
    }

    /// The name as it stands in kernel names and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            DType::I8 => "i8",
            DType::I32 => "i32",
            DType::F8E4M3 => "f8e4m3",
            DType::F8E5M2 => "f8e5m2",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::F32 => "f32",
            DType::F64 => "f64",
        }
    }
}

/// How exactly elements of f32 are multiplied. Elements of other dtypes are multiplied exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// With all of their digits.
    #[default]
    Full,
    /// Cut off to tf32, 8 bits of exponent and 10 of mantissa, where a tensor core is faster so;
    /// sums are f32.
    Tf32,
    /// As sums of three bf16 each, where a tensor core is faster so: six of the nine products of
    /// two such sums, the others being less than f32's last digit; sums are f32.
    Bf16x6,
}

impl Precision {
    /// The name of a dtype multiplied so, as it stands in kernel names.
    pub const fn name(self, dtype: DType) -> &'static str {
        match (self, dtype) {
            (Precision::Tf32, DType::F32) => "tf32",
            (Precision::Bf16x6, DType::F32) => "bf16x6",
            _ => dtype.name(),
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A dtype's name was not one of [`DType::name`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownDType;

impl fmt::Display for UnknownDType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown dtype: expected i8, i32, f8e4m3, f8e5m2, f16, bf16, f32 or f64")
    }
}

impl core::error::Error for UnknownDType {}

impl FromStr for DType {
    type Err = UnknownDType;

    /// By [`DType::name`]; the floats of 8 bits also without their `f8`.
    fn from_str(name: &str) -> Result<Self, UnknownDType> {
        let is_it = |dtype: &DType| {
            dtype.name() == name || dtype.is_fp8() && dtype.name().strip_prefix("f8") == Some(name)
        };
        DType::ALL.into_iter().find(is_it).ok_or(UnknownDType)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn outputs_are_no_narrower_than_their_operands() {
        for dtype in DType::ALL {
            assert!(dtype.outputs().contains(&dtype.output()));
            for output in dtype.outputs() {
                assert!(output.size_bytes() >= dtype.size_bytes(), "{dtype} {output}");
                assert_eq!(output.factor().size_bytes(), dtype.accumulator().size_bytes());
            }
        }
    }

    #[test]
    fn names_round_trip() {
        for dtype in DType::ALL {
            assert_eq!(dtype.to_string().parse(), Ok(dtype));
        }
        assert_eq!("e4m3".parse(), Ok(DType::F8E4M3));
        assert_eq!("e5m2".parse(), Ok(DType::F8E5M2));
        for name in ["f8", "", "16", "8e4m3"] {
            assert_eq!(name.parse::<DType>(), Err(UnknownDType));
        }
    }
}
