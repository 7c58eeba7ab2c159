//! Factors of a product, free of their type.

use crate::element::Scalar;
use gemm_spec::DType;

/// Alpha or beta, in the type of C's scalars.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Factor {
    I32(i32),
    F32(f32),
    F64(f64),
}

/// By their bits: NaN is itself, and -0 is not 0.
impl PartialEq for Factor {
    fn eq(&self, other: &Factor) -> bool {
        match (*self, *other) {
            (Factor::I32(ours), Factor::I32(theirs)) => ours == theirs,
            (Factor::F32(ours), Factor::F32(theirs)) => ours.to_bits() == theirs.to_bits(),
            (Factor::F64(ours), Factor::F64(theirs)) => ours.to_bits() == theirs.to_bits(),
            _ => false,
        }
    }
}

impl Factor {
    pub(crate) fn new<S: Scalar>(value: S) -> Self {
        match S::DTYPE {
            DType::I32 => Factor::I32(bytemuck::cast(value)),
            DType::F64 => Factor::F64(bytemuck::cast(value)),
            _ => Factor::F32(bytemuck::cast(value)),
        }
    }

    /// A small number for a C of that dtype.
    pub(crate) fn of(dtype: DType, value: u8) -> Self {
        match dtype {
            DType::I32 => Factor::I32(value.into()),
            DType::F64 => Factor::F64(value.into()),
            _ => Factor::F32(value.into()),
        }
    }

    /// The value as `S`, which is the type that it was made from.
    pub(crate) fn get<S: Scalar>(self) -> S {
        match self {
            Factor::I32(value) => bytemuck::cast(value),
            Factor::F32(value) => bytemuck::cast(value),
            Factor::F64(value) => bytemuck::cast(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_of_epilogues_are_of_the_type_of_the_sums() {
        assert_eq!(Factor::of(DType::I32, 3), Factor::new(3i32));
        assert_eq!(Factor::of(DType::F64, 3), Factor::new(3f64));
        assert_eq!(Factor::of(DType::F32, 3), Factor::new(3f32));
    }
}
