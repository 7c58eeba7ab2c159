//! `cvt` between all integer and float types (PTX ISA 9.7.9.21).

use super::{Encoding, Format, Rounding, canonical_f32};

/// A type that `cvt` reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "PTX's names")]
pub enum Number {
    U8,
    S8,
    U16,
    S16,
    U32,
    S32,
    U64,
    S64,
    F16,
    Bf16,
    F32,
    F64,
    /// In bits 31..13 of 32; the lower bits are 0.
    Tf32,
    E4m3,
    E5m2,
    E2m3,
    E3m2,
    E2m1,
}

impl Number {
    /// Width in bits of the pattern (e2m3 and e3m2 stand in 8 bits of a packed register).
    #[inline]
    pub const fn bits(self) -> u32 {
        match self {
            Self::U8 | Self::S8 | Self::E4m3 | Self::E5m2 | Self::E2m3 | Self::E3m2 => 8,
            Self::U16 | Self::S16 | Self::F16 | Self::Bf16 => 16,
            Self::U32 | Self::S32 | Self::F32 | Self::Tf32 => 32,
            Self::U64 | Self::S64 | Self::F64 => 64,
            Self::E2m1 => 4,
        }
    }

    /// Whether it is a signed integer type.
    #[inline]
    pub const fn is_signed(self) -> bool {
        matches!(self, Self::S8 | Self::S16 | Self::S32 | Self::S64)
    }

    /// The float format, of integers `None`.
    #[inline]
    pub const fn format(self) -> Option<Format> {
        Some(match self {
            Self::F16 => Format::F16,
            Self::Bf16 => Format::BF16,
            Self::F32 => Format::F32,
            Self::F64 => Format::F64,
            Self::Tf32 => Format::TF32,
            Self::E4m3 => Format::E4M3,
            Self::E5m2 => Format::E5M2,
            Self::E2m3 => Format::E2M3,
            Self::E3m2 => Format::E3M2,
            Self::E2m1 => Format::E2M1,
            _ => return None,
        })
    }

    /// Cuts an integer to the type's width and extends it to 64 bits by its sign or by zeros.
    #[inline]
    const fn extend(self, bits: u64) -> u64 {
        let unused = 64 - self.bits();
        if self.is_signed() {
            ((bits << unused) as i64 >> unused) as u64
        } else {
            bits << unused >> unused
        }
    }
}

/// A `cvt` instruction of one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Conversion {
    /// `.dtype`.
    pub to: Number,
    /// `.atype`.
    pub from: Number,
    /// The rounding modifier; of exact conversions any.
    pub rounding: Rounding,
    /// The rounding is to an integral value (`.rni`, `.rzi`, `.rmi`, `.rpi`); matters from float to
    /// float, where the result is integral too.
    pub integral: bool,
    /// `.ftz`: subnormal `f32` operands and results become zeros.
    pub ftz: bool,
    /// `.sat`: integers clamp to the range of the destination, floats to [0, 1].
    pub sat: bool,
    /// `.relu`: a negative result becomes +0.
    pub relu: bool,
    /// `.satfinite`: a result beyond the largest number becomes that number.
    pub satfinite: bool,
}

impl Conversion {
    /// A conversion without modifiers but the rounding.
    #[inline]
    pub const fn new(to: Number, from: Number, rounding: Rounding) -> Self {
        let (integral, ftz, sat) = (false, false, false);
        Self { to, from, rounding, integral, ftz, sat, relu: false, satfinite: false }
    }

    /// Converts a pattern of `from` (upper bits are ignored) to one of `to`, which, if it is an
    /// integer, comes extended to 64 bits by its sign or by zeros, as a wider register takes it.
    #[inline]
    pub fn convert(self, a: u64) -> u64 {
        if let Some(bits) = self.common(a) {
            return bits;
        }
        self.general(a)
    }

    /// The conversions that kernels are full of, without modifiers.
    #[inline]
    fn common(self, a: u64) -> Option<u64> {
        let plain = Self::new(self.to, self.from, Rounding::NearestEven);
        if self != plain {
            return None;
        }
        let bits = a as u32;
        Some(match (self.from, self.to) {
            (Number::F32, Number::Bf16) => narrow_f32_bf16(bits).into(),
            (Number::F32, Number::F16) => narrow_f32_f16(bits).into(),
            (Number::Bf16, Number::F32) => super::widen_bf16(a as u16).to_bits().into(),
            (Number::F16, Number::F32) => canonical_f32(super::widen_f16(a as u16)).into(),
            (Number::U32, Number::F32) => (bits as f32).to_bits().into(),
            (Number::S32, Number::F32) => (bits as i32 as f32).to_bits().into(),
            (Number::U32 | Number::S32 | Number::U64 | Number::S64, Number::U32) => bits.into(),
            (Number::S32, Number::S64 | Number::U64) => i64::from(bits as i32) as u64,
            (Number::U32, Number::S64 | Number::U64) => bits.into(),
            _ => return None,
        })
    }

    fn general(self, a: u64) -> u64 {
        if self.to.format().is_none() {
            return match self.from.format() {
                None => self.integer_to_integer(a),
                Some(from) => self.float_to_integer(self.read(a, from)),
            };
        }
        // Each destination apart, so that its format is a constant.
        match self.to {
            Number::F16 => self.to_float(a, Format::F16),
            Number::Bf16 => self.to_float(a, Format::BF16),
            Number::F32 => self.to_float(a, Format::F32),
            Number::F64 => self.to_float(a, Format::F64),
            Number::Tf32 => self.to_float(a, Format::TF32),
            Number::E4m3 => self.to_float(a, Format::E4M3),
            Number::E5m2 => self.to_float(a, Format::E5M2),
            Number::E2m3 => self.to_float(a, Format::E2M3),
            Number::E3m2 => self.to_float(a, Format::E3M2),
            _ => self.to_float(a, Format::E2M1),
        }
    }

    #[inline(always)]
    fn to_float(self, a: u64, to: Format) -> u64 {
        match self.from.format() {
            None => self.finish(self.integer_to_float(a, to), to),
            Some(from) => {
                let x = self.read(a, from);
                let bits = if x.is_nan() { self.nan(a, to) } else { self.float_to_float(x, to) };
                self.finish(bits, to)
            }
        }
    }

    /// What a NaN becomes, which PTX leaves open. As on an H100: f64 and `.rna` keep the upper bits,
    /// bf16 to f32 is a shift, all others give the format's one NaN. (The sign, which goes with the
    /// bits here, was not in what the H100 showed.)
    fn nan(self, a: u64, to: Format) -> u64 {
        let quiet = 1 << (to.fraction_bits - 1);
        let upper = |a: u64, from: Format| {
            let sign = if a & from.sign_mask() == 0 { 0 } else { to.sign_mask() };
            let payload = a >> (from.fraction_bits - to.fraction_bits) & (quiet - 1);
            sign | to.infinity() | quiet | payload
        };
        match (self.from, self.to) {
            (Number::F64, Number::F16 | Number::Bf16 | Number::F32) => upper(a, Format::F64),
            (Number::F32, Number::Tf32) if self.rounding == Rounding::NearestAway => {
                upper(a, Format::F32)
            }
            (Number::Bf16, Number::F32) => (a & 0xffff) << 16,
            _ => to.nan,
        }
    }

    fn integer_to_integer(self, a: u64) -> u64 {
        let a = self.from.extend(a);
        if !self.sat {
            return self.to.extend(a);
        }
        let value = if self.from.is_signed() { i128::from(a as i64) } else { i128::from(a) };
        let (low, high) = integer_range(self.to);
        value.clamp(low, high) as u64
    }

    #[inline(always)]
    fn integer_to_float(self, a: u64, to: Format) -> u64 {
        let a = self.from.extend(a);
        let negative = self.from.is_signed() && (a as i64) < 0;
        if self.rounding == Rounding::NearestEven {
            // Native conversions round once, to nearest even.
            match (to.fraction_bits, self.from.is_signed()) {
                (23, true) => return u64::from((a as i64 as f32).to_bits()),
                (23, false) => return u64::from((a as f32).to_bits()),
                (52, true) => return (a as i64 as f64).to_bits(),
                (52, false) => return (a as f64).to_bits(),
                _ => {}
            }
        }
        let magnitude = if negative { a.wrapping_neg() } else { a };
        to.round(negative, u128::from(magnitude), 0, false, self.rounding)
    }

    /// The operand as an `f64`, exactly, after `.ftz`.
    #[inline]
    fn read(self, a: u64, from: Format) -> f64 {
        match self.from {
            Number::F32 => {
                let bits = if self.ftz { super::flush_f32(a as u32) } else { a as u32 };
                f64::from(f32::from_bits(bits))
            }
            Number::F64 => f64::from_bits(a),
            Number::F16 => f64::from(super::widen_f16(a as u16)),
            Number::Bf16 => f64::from(super::widen_bf16(a as u16)),
            Number::Tf32 => f64::from(f32::from_bits(a as u32 & 0xffff_e000)),
            _ => from.to_f64(a),
        }
    }

    /// Clamps to the destination always, as PTX says; NaN is 0, or the lowest `i64` pattern cut to
    /// the width when a 64-bit type takes part.
    #[inline]
    fn float_to_integer(self, x: f64) -> u64 {
        if x.is_nan() {
            let wide = self.from == Number::F64 || self.to.bits() == 64;
            return if wide { self.to.extend(1 << (self.to.bits() - 1)) } else { 0 };
        }
        let x = round_to_integral(x, self.rounding);
        match self.to {
            Number::U8 => u64::from(x as u8),
            Number::S8 => i64::from(x as i8) as u64,
            Number::U16 => u64::from(x as u16),
            Number::S16 => i64::from(x as i16) as u64,
            Number::U32 => u64::from(x as u32),
            Number::S32 => i64::from(x as i32) as u64,
            Number::U64 => x as u64,
            _ => x as i64 as u64,
        }
    }

    #[inline(always)]
    fn float_to_float(self, x: f64, to: Format) -> u64 {
        let x = if self.integral { round_to_integral(x, self.rounding) } else { x };
        let nearest = self.rounding == Rounding::NearestEven;
        match self.to {
            Number::F64 => x.to_bits(),
            Number::F32 if nearest => canonical_f32(x as f32).into(),
            Number::F16 if nearest => narrow_f64_f16(x).into(),
            Number::Bf16 if nearest => narrow_f64_bf16(x).into(),
            _ => to.from_f64(x, self.rounding),
        }
    }

    /// The modifiers of a float result, and tf32's place in its register.
    #[inline(always)]
    fn finish(self, mut bits: u64, to: Format) -> u64 {
        if self.ftz && self.to == Number::F32 {
            bits = super::flush_f32(bits as u32).into();
        }
        let sign = to.sign_mask();
        let nan = to.encoding != Encoding::Finite && bits & !sign > to.infinity();
        if self.satfinite && !nan && bits & !sign > to.max_finite() {
            bits = bits & sign | to.max_finite();
        }
        if self.relu {
            bits = if nan {
                to.nan
            } else if bits & sign != 0 {
                0
            } else {
                bits
            };
        }
        if self.sat {
            let one = (to.bias() as u64) << to.fraction_bits;
            bits = if nan || bits & sign != 0 { 0 } else { bits.min(one) };
        }
        if self.to == Number::Tf32 { bits << 13 } else { bits }
    }

    /// The packed forms of two operands: `a` goes to the upper half of the result.
    #[inline]
    pub fn convert_pair(self, a: u64, b: u64) -> u64 {
        self.convert(a) << self.to.bits() | self.convert(b)
    }

    /// The packed forms of one packed operand (f16x2 to e4m3x2 and back): half by half.
    #[inline]
    pub fn convert_packed(self, a: u64) -> u64 {
        let bits = self.from.bits();
        self.convert_pair(a >> bits & ((1 << bits) - 1), a & ((1 << bits) - 1))
    }
}

fn integer_range(to: Number) -> (i128, i128) {
    let bits = to.bits();
    if to.is_signed() { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) }
}

/// Rounds to an integral value in the given mode; keeps the sign of zero.
#[inline]
pub fn round_to_integral(x: f64, mode: Rounding) -> f64 {
    // From 2^52 on there is no fraction. The library's functions are calls on plain x86-64.
    const INTEGRAL: f64 = (1u64 << 52) as f64;
    if x.is_nan() || x.abs() >= INTEGRAL {
        return x;
    }
    let truncated = x as i64 as f64;
    let rest = x - truncated;
    let rounded = match mode {
        Rounding::NearestEven => (x.abs() + INTEGRAL) - INTEGRAL,
        Rounding::NearestAway => truncated.abs() + f64::from(rest.abs() >= 0.5),
        Rounding::TowardZero => truncated,
        Rounding::Down => truncated - f64::from(rest < 0.0),
        Rounding::Up => truncated + f64::from(rest > 0.0),
    };
    rounded.copysign(x)
}

/// `x / 2^shift`, to nearest even; `shift` in 1..=63.
#[inline]
fn shift_nearest(x: u64, shift: u32) -> u64 {
    let odd = x >> shift & 1;
    (x + (1 << (shift - 1)) - 1 + odd) >> shift
}

/// Rounds to a 16-bit format with `FRACTION` fraction bits, to nearest even.
#[inline]
fn narrow_f64<const FRACTION: u32>(x: f64) -> u16 {
    let bias = (1i64 << (14 - FRACTION)) - 1;
    let infinity = ((1u64 << (15 - FRACTION)) - 1) << FRACTION;
    let bits = x.to_bits();
    let sign = (bits >> 48) as u16 & 0x8000;
    let magnitude = bits & !(1 << 63);
    if magnitude > 0x7ff0_0000_0000_0000 {
        return super::NAN_16;
    }
    let exponent = (magnitude >> 52) as i64 - 1023 + bias;
    let cut = 52 - FRACTION;
    let rounded = if exponent >= 1 {
        shift_nearest(magnitude - (((1023 - bias) as u64) << 52), cut).min(infinity)
    } else if exponent > -12 {
        let significand = magnitude & ((1 << 52) - 1) | 1 << 52;
        shift_nearest(significand, cut + (1 - exponent) as u32)
    } else {
        0
    };
    sign | rounded as u16
}

/// Rounds an `f64` to `f16`, to nearest even.
#[inline]
pub fn narrow_f64_f16(x: f64) -> u16 {
    narrow_f64::<10>(x)
}

/// Rounds an `f64` to `bf16`, to nearest even.
#[inline]
pub fn narrow_f64_bf16(x: f64) -> u16 {
    narrow_f64::<7>(x)
}

/// `cvt.rn.f16.f32`.
#[inline]
pub fn narrow_f32_f16(a: u32) -> u16 {
    narrow_f64_f16(f64::from(f32::from_bits(a)))
}

/// `cvt.rn.bf16.f32`.
#[inline]
pub fn narrow_f32_bf16(a: u32) -> u16 {
    if a & 0x7fff_ffff > 0x7f80_0000 {
        return super::NAN_16;
    }
    ((a + 0x7fff + (a >> 16 & 1)) >> 16) as u16
}
