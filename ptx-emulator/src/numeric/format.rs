//! Binary floating-point formats as parameters, with exact decoding and rounding to any of them.

use super::Rounding;

const F64_INFINITY: u64 = 0x7ff0_0000_0000_0000;

/// Which patterns of the largest exponent are not numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Infinities and NaNs as in IEEE 754.
    Ieee,
    /// No infinity; all ones is NaN (e4m3).
    NanOnly,
    /// Numbers only (e2m3, e3m2, e2m1).
    Finite,
}

/// A binary floating-point format of at most 64 bits; patterns lie in the low bits of a `u64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Bits of the exponent field.
    pub exponent_bits: u32,
    /// Bits of the fraction field, without the hidden one.
    pub fraction_bits: u32,
    /// What the largest exponent means.
    pub encoding: Encoding,
    /// The pattern that an invalid operation gives.
    pub nan: u64,
}

/// What a pattern stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// Not a number.
    Nan,
    /// An infinity.
    Infinite {
        /// Its sign.
        negative: bool,
    },
    /// `significand * 2^exponent`; the significand is 0 for both zeros.
    Finite {
        /// The sign, of a zero too.
        negative: bool,
        /// An integer with the hidden bit.
        significand: u64,
        /// The weight of the significand's lowest bit.
        exponent: i32,
    },
}

const fn format(exponent_bits: u32, fraction_bits: u32, encoding: Encoding, nan: u64) -> Format {
    Format { exponent_bits, fraction_bits, encoding, nan }
}

impl Format {
    /// IEEE binary16.
    pub const F16: Self = format(5, 10, Encoding::Ieee, 0x7fff);
    /// The upper half of binary32.
    pub const BF16: Self = format(8, 7, Encoding::Ieee, 0x7fff);
    /// The upper 19 bits of binary32; PTX keeps them in bits 31..13 of a register.
    pub const TF32: Self = format(8, 10, Encoding::Ieee, 0x3_ffff);
    /// IEEE binary32.
    pub const F32: Self = format(8, 23, Encoding::Ieee, 0x7fff_ffff);
    /// IEEE binary64.
    pub const F64: Self = format(11, 52, Encoding::Ieee, 0xfff8_0000_0000_0000);
    /// 8 bits, largest number 448, no infinity.
    pub const E4M3: Self = format(4, 3, Encoding::NanOnly, 0x7f);
    /// 8 bits, largest number 57344.
    pub const E5M2: Self = format(5, 2, Encoding::Ieee, 0x7f);
    /// 6 bits, largest number 7.5; a NaN becomes the largest number.
    pub const E2M3: Self = format(2, 3, Encoding::Finite, 0x1f);
    /// 6 bits, largest number 28.
    pub const E3M2: Self = format(3, 2, Encoding::Finite, 0x1f);
    /// 4 bits, largest number 6.
    pub const E2M1: Self = format(2, 1, Encoding::Finite, 0x07);

    /// Half the exponent's range: the exponent field of 1.0.
    #[inline]
    pub const fn bias(self) -> i32 {
        (1 << (self.exponent_bits - 1)) - 1
    }

    /// The smallest exponent of a normal number.
    #[inline]
    pub const fn min_exponent(self) -> i32 {
        1 - self.bias()
    }

    /// The sign bit.
    #[inline]
    pub const fn sign_mask(self) -> u64 {
        1 << (self.exponent_bits + self.fraction_bits)
    }

    #[inline]
    const fn fraction_mask(self) -> u64 {
        (1 << self.fraction_bits) - 1
    }

    #[inline]
    const fn exponent_mask(self) -> u64 {
        (1 << self.exponent_bits) - 1
    }

    /// The positive infinity; formats without one give [`Format::max_finite`].
    #[inline]
    pub const fn infinity(self) -> u64 {
        match self.encoding {
            Encoding::Ieee => self.exponent_mask() << self.fraction_bits,
            Encoding::NanOnly | Encoding::Finite => self.max_finite(),
        }
    }

    /// The largest number.
    #[inline]
    pub const fn max_finite(self) -> u64 {
        let magnitudes = self.sign_mask() - 1;
        match self.encoding {
            Encoding::Ieee => (self.exponent_mask() << self.fraction_bits) - 1,
            Encoding::NanOnly => magnitudes - 1,
            Encoding::Finite => magnitudes,
        }
    }

    /// What `bits` stands for.
    #[inline]
    pub const fn decode(self, bits: u64) -> Value {
        let negative = bits & self.sign_mask() != 0;
        let field = (bits >> self.fraction_bits) & self.exponent_mask();
        let fraction = bits & self.fraction_mask();
        if field == self.exponent_mask() {
            match self.encoding {
                Encoding::Ieee if fraction == 0 => return Value::Infinite { negative },
                Encoding::Ieee => return Value::Nan,
                Encoding::NanOnly if fraction == self.fraction_mask() => return Value::Nan,
                Encoding::NanOnly | Encoding::Finite => {}
            }
        }
        let low = self.min_exponent() - self.fraction_bits as i32;
        if field == 0 {
            Value::Finite { negative, significand: fraction, exponent: low }
        } else {
            let significand = fraction | (1 << self.fraction_bits);
            Value::Finite { negative, significand, exponent: low + field as i32 - 1 }
        }
    }

    /// Rounds `significand * 2^exponent` once; `sticky` says that the true magnitude is a little
    /// more than that. Overflow follows the mode; formats without infinity give the largest number.
    #[inline]
    pub fn round(
        self,
        negative: bool,
        significand: u128,
        exponent: i32,
        sticky: bool,
        mode: Rounding,
    ) -> u64 {
        let sign = if negative { self.sign_mask() } else { 0 };
        if significand == 0 {
            let tiny = sticky && mode.increments(negative, false, false, true);
            return sign | u64::from(tiny);
        }
        let top = 127 - significand.leading_zeros() as i32 + exponent;
        // The weight of the result's lowest bit.
        let low = top.max(self.min_exponent()) - self.fraction_bits as i32;
        let cut = low - exponent;
        let (kept, half, rest) = if cut <= 0 {
            ((significand << -cut) as u64, false, sticky)
        } else if cut > 128 {
            (0, false, true)
        } else {
            let below = significand & ((1u128 << (cut - 1)) - 1);
            let kept = if cut == 128 { 0 } else { (significand >> cut) as u64 };
            (kept, (significand >> (cut - 1)) & 1 == 1, below != 0 || sticky)
        };
        let up = mode.increments(negative, kept & 1 == 1, half, rest);
        // A carry out of the fraction runs into the exponent field, as it should.
        let field = (low + self.fraction_bits as i32 - self.min_exponent()) as u64;
        let magnitude = (field << self.fraction_bits) + kept + u64::from(up);
        if magnitude > self.max_finite() {
            let infinite = mode.overflows_to_infinity(negative);
            return sign | if infinite { self.infinity() } else { self.max_finite() };
        }
        sign | magnitude
    }

    /// Rounds an `f64`; NaN gives the format's NaN.
    #[inline]
    pub fn from_f64(self, x: f64, mode: Rounding) -> u64 {
        let negative = x.is_sign_negative();
        let sign = if negative { self.sign_mask() } else { 0 };
        let magnitude = x.abs().to_bits();
        if magnitude >= F64_INFINITY {
            return if magnitude > F64_INFINITY { self.nan } else { sign | self.infinity() };
        }
        if self.fraction_bits == 52 {
            return x.to_bits();
        }
        // As `round`, in 64 bits: this path is hot.
        let exponent = (magnitude >> 52) as i32 - 1023;
        let significand = magnitude & ((1 << 52) - 1) | u64::from(magnitude >> 52 != 0) << 52;
        let under = (self.min_exponent() - exponent).max(0);
        let cut = (52 - self.fraction_bits as i32 + under).min(63);
        let kept = significand >> cut;
        let below = significand & ((1 << (cut - 1)) - 1);
        let half = significand >> (cut - 1) & 1 == 1;
        let up = mode.increments(negative, kept & 1 == 1, half, below != 0);
        let field = (exponent + under - self.min_exponent()) as u64;
        let result = (field << self.fraction_bits) + kept + u64::from(up);
        if result > self.max_finite() {
            let infinite = mode.overflows_to_infinity(negative);
            return sign | if infinite { self.infinity() } else { self.max_finite() };
        }
        sign | result
    }

    /// The value as an `f64`; exact for every format of at most 64 bits.
    #[inline]
    pub fn to_f64(self, bits: u64) -> f64 {
        match self.decode(bits) {
            Value::Nan => f64::NAN,
            Value::Infinite { negative: true } => f64::NEG_INFINITY,
            Value::Infinite { negative: false } => f64::INFINITY,
            Value::Finite { negative, significand, exponent } => {
                let mode = Rounding::NearestEven;
                let magnitude = u128::from(significand);
                f64::from_bits(Self::F64.round(negative, magnitude, exponent, false, mode))
            }
        }
    }
}
