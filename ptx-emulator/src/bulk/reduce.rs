//! The arithmetic of bulk reductions, one element at a time.
//!
//! PTX ISA, `cp.reduce.async.bulk`: each element is reduced atomically, in no order among others.

use crate::numeric::{self, MinMax};
use std::fmt;

/// The operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ReduceOp {
    And,
    Or,
    Xor,
    Add,
    Inc,
    Dec,
    Min,
    Max,
}

/// The elements' type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ReduceType {
    B32,
    U32,
    S32,
    B64,
    U64,
    S64,
    F16,
    Bf16,
    F32,
    F64,
}

impl ReduceType {
    /// Bytes of an element.
    pub fn bytes(self) -> usize {
        match self {
            Self::F16 | Self::Bf16 => 2,
            Self::B32 | Self::U32 | Self::S32 | Self::F32 => 4,
            Self::B64 | Self::U64 | Self::S64 | Self::F64 => 8,
        }
    }
}

/// An operation that the type does not have, or that is not emulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnsupportedReduction(pub ReduceOp, pub ReduceType);

impl fmt::Display for UnsupportedReduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the bulk reduction {:?} of {:?} is not emulated", self.0, self.1)
    }
}

impl std::error::Error for UnsupportedReduction {}

/// Subnormal results of f32 become zero.
fn flushed(value: f32) -> f32 {
    if value.is_subnormal() { 0f32.copysign(value) } else { value }
}

/// Reduces the elements of `source` into those of `destination`, of the same length.
pub fn reduce_bytes(
    op: ReduceOp,
    of: ReduceType,
    destination: &mut [u8],
    source: &[u8],
) -> Result<(), UnsupportedReduction> {
    let bytes = of.bytes();
    for (to, from) in destination.chunks_exact_mut(bytes).zip(source.chunks_exact(bytes)) {
        let wide = |part: &[u8]| {
            let mut all = [0; 8];
            all[..bytes].copy_from_slice(part);
            u64::from_le_bytes(all)
        };
        let result = reduce(op, of, wide(to), wide(from))?;
        to.copy_from_slice(&result.to_le_bytes()[..bytes]);
    }
    Ok(())
}

/// Whether the type has the operation.
pub fn check_reduction(op: ReduceOp, of: ReduceType) -> Result<(), UnsupportedReduction> {
    reduce(op, of, 0, 0).map(drop)
}

/// One element; values in the low bits.
fn reduce(op: ReduceOp, of: ReduceType, old: u64, new: u64) -> Result<u64, UnsupportedReduction> {
    use ReduceOp::{Add, And, Dec, Inc, Max, Min, Or, Xor};
    use ReduceType::{B32, B64, Bf16, F16, F32, F64, S32, S64, U32, U64};
    let (old32, new32) = (old as u32, new as u32);
    Ok(match (op, of) {
        (And, B32 | B64 | U32 | S32 | U64 | S64) => old & new,
        (Or, B32 | B64 | U32 | S32 | U64 | S64) => old | new,
        (Xor, B32 | B64 | U32 | S32 | U64 | S64) => old ^ new,
        (Add, U32 | S32) => old32.wrapping_add(new32).into(),
        (Add, U64 | S64) => old.wrapping_add(new),
        (Add, F32) => {
            let sum = flushed(f32::from_bits(old32)) + flushed(f32::from_bits(new32));
            flushed(sum).to_bits().into()
        }
        (Add, F64) => (f64::from_bits(old) + f64::from_bits(new)).to_bits(),
        (Add, F16) => numeric::add_f16(old as u16, new as u16).into(),
        (Add, Bf16) => numeric::add_bf16(old as u16, new as u16).into(),
        (Min | Max, F16) => {
            let how = MinMax { max: op == Max, ..MinMax::default() };
            numeric::min_max_f16(old as u16, new as u16, how).into()
        }
        (Min | Max, Bf16) => {
            let how = MinMax { max: op == Max, ..MinMax::default() };
            numeric::min_max_bf16(old as u16, new as u16, how).into()
        }
        (Inc, U32) => u64::from(if old32 >= new32 { 0 } else { old32 + 1 }),
        (Dec, U32) => u64::from(if old32 == 0 || old32 > new32 { new32 } else { old32 - 1 }),
        (Min, U32) => old32.min(new32).into(),
        (Max, U32) => old32.max(new32).into(),
        (Min, S32) => u64::from((old32 as i32).min(new32 as i32) as u32),
        (Max, S32) => u64::from((old32 as i32).max(new32 as i32) as u32),
        (Min, U64) => old.min(new),
        (Max, U64) => old.max(new),
        (Min, S64) => (old as i64).min(new as i64) as u64,
        (Max, S64) => (old as i64).max(new as i64) as u64,
        _ => return Err(UnsupportedReduction(op, of)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_reduced_each_on_its_own() {
        let reduced = |op, of, old: [u32; 2], new: [u32; 2]| {
            let mut bytes: Vec<u8> = old.iter().flat_map(|v| v.to_le_bytes()).collect();
            let from: Vec<u8> = new.iter().flat_map(|v| v.to_le_bytes()).collect();
            reduce_bytes(op, of, &mut bytes, &from).unwrap();
            let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
            [word(0), word(4)]
        };
        use ReduceOp::*;
        use ReduceType::*;
        assert_eq!(reduced(Add, U32, [1, u32::MAX], [2, 1]), [3, 0]);
        assert_eq!(reduced(Add, U64, [u32::MAX, 0], [1, 0]), [0, 1]);
        assert_eq!(reduced(Min, S32, [1, 0], [u32::MAX, 5]), [u32::MAX, 0]);
        assert_eq!(reduced(Max, U32, [1, 0], [u32::MAX, 5]), [u32::MAX, 5]);
        assert_eq!(reduced(Inc, U32, [3, 5], [3, 9]), [0, 6]);
        assert_eq!(reduced(Dec, U32, [0, 5], [3, 9]), [3, 4]);
        assert_eq!(reduced(Xor, B32, [5, 5], [1, 5]), [4, 0]);
        let bits = |a: f32, b: f32| [a.to_bits(), b.to_bits()];
        let sum = reduced(Add, F32, bits(1.5, 1.0e-40), bits(2.0, 0.0));
        assert_eq!(sum, bits(3.5, 0.0));
        let halves = |low: u32, high: u32| low | high << 16;
        let sum = reduced(Add, Bf16, [halves(0x3f80, 0x4000); 2], [halves(0x3f80, 0xc040); 2]);
        assert_eq!(sum, [halves(0x4000, 0xbf80); 2]);
        let most = reduced(Max, F16, [halves(0x3c00, 0xbc00); 2], [halves(0x4000, 0); 2]);
        assert_eq!(most, [halves(0x4000, 0); 2]);
        let error = reduce_bytes(Inc, F32, &mut [0; 4], &[0; 4]);
        assert_eq!(error, Err(UnsupportedReduction(Inc, F32)));
    }
}
