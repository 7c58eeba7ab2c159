//! `min` and `max` of every float type (PTX ISA 9.7.3.12, 9.7.3.13, 9.7.4.9, 9.7.4.10).
//!
//! Without `.NaN` the operand that is a number wins over NaN; with it any NaN gives the one NaN.
//! -0 is less than +0. `.ftz` is the caller's: it flushes the operands first.

use super::{NAN_16, NAN_F32, NAN_F64};

/// The modifiers of `min` and `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct MinMax {
    /// `max` rather than `min`.
    pub max: bool,
    /// `.NaN`: NaN if any operand is.
    pub nan: bool,
    /// `.xorsign.abs`: compares magnitudes; the sign is the exclusive or of the operands' signs.
    pub xorsign_abs: bool,
}

macro_rules! min_max {
    ($(#[$doc:meta])* $name:ident, $bits:ty, $key:ident, $infinity:expr, $nan:expr) => {
        /// Orders patterns as numbers, -0 below +0.
        #[inline]
        fn $key(x: $bits) -> $bits {
            const SIGN: $bits = 1 << (<$bits>::BITS - 1);
            if x & SIGN != 0 { !x } else { x | SIGN }
        }

        $(#[$doc])*
        #[inline]
        pub fn $name(a: $bits, b: $bits, how: MinMax) -> $bits {
            const SIGN: $bits = 1 << (<$bits>::BITS - 1);
            let (a_nan, b_nan) = (a & !SIGN > $infinity, b & !SIGN > $infinity);
            if a_nan && b_nan || how.nan && (a_nan || b_nan) {
                return $nan;
            }
            let (x, y) = if how.xorsign_abs { (a & !SIGN, b & !SIGN) } else { (a, b) };
            let a_wins = b_nan || !a_nan && ($key(x) < $key(y)) != how.max;
            let winner = if a_wins { x } else { y };
            if how.xorsign_abs { winner | (a ^ b) & SIGN } else { winner }
        }
    };
}

min_max!(
    /// `min.f32`, `max.f32`.
    min_max_f32, u32, key_f32, 0x7f80_0000, NAN_F32
);
min_max!(
    /// `min.f64`, `max.f64`, which take no modifiers; of two NaNs it gives the default one.
    min_max_f64, u64, key_f64, 0x7ff0_0000_0000_0000, NAN_F64
);
min_max!(
    /// `min.f16`, `max.f16`.
    min_max_f16, u16, key_f16, 0x7c00, NAN_16
);
min_max!(
    /// `min.bf16`, `max.bf16`.
    min_max_bf16, u16, key_bf16, 0x7f80, NAN_16
);
