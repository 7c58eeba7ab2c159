//! Arithmetic on bit patterns as PTX defines it: formats, rounding, conversions, approximations.
//!
//! Everything here is pure: patterns in, patterns out, one lane at a time, or [`batch`] for a warp.
//! Sections of the PTX ISA (9.1): 9.7.3 and 9.7.4 floating point, 9.7.9.21 `cvt`, 9.7.1 `testp`.
//!
//! `.ftz` and `.sat` are functions of their own ([`flush_f32`], [`saturate_f32`]...): an
//! instruction flushes its inputs, computes, flushes its result and saturates last. A result counts
//! as subnormal if it is before it is rounded ([`is_least_normal_f32`], [`fma_ftz_f16`]).

mod approx;
mod arith16;
mod arith32;
mod arith64;
pub mod batch;
mod convert;
mod format;
mod minmax;
mod round;
mod soft;
#[cfg(test)]
mod tests;

pub use approx::*;
pub use arith16::*;
pub use arith32::*;
pub use arith64::*;
pub use convert::*;
pub use format::{Encoding, Format, Value};
pub use minmax::*;
pub use round::Rounding;

/// The NaN that every `f32` instruction of the GPU returns.
pub const NAN_F32: u32 = 0x7fff_ffff;
/// The NaN that every `f16` and `bf16` instruction of the GPU returns.
pub const NAN_16: u16 = 0x7fff;
/// The NaN of an invalid `f64` operation (`CUDART_NAN`); a NaN operand is passed on instead.
pub const NAN_F64: u64 = 0xfff8_0000_0000_0000;
