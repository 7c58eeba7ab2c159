//! Conversions over all bits, against formulas in f64, and around every tie.

use super::*;
use std::format;

/// What the formats' definitions say of a magnitude: mantissa bits, bias, whether the highest
/// exponent is that of infinity and NaN alone.
struct Format {
    mantissa: u32,
    bias: i32,
    has_infinity: bool,
}

impl Format {
    fn value(&self, bits: u8) -> f64 {
        let (exponent, fraction) =
            (i32::from(bits & 0x7f) >> self.mantissa, i32::from(bits) & ((1 << self.mantissa) - 1));
        let unit = 2f64.powi(1 - self.bias - self.mantissa as i32);
        let magnitude = match (exponent, fraction) {
            (31, 0) if self.has_infinity => f64::INFINITY,
            (31, _) if self.has_infinity => f64::NAN,
            (15, 7) if !self.has_infinity => f64::NAN,
            (0, _) => f64::from(fraction) * unit,
            _ => f64::from(fraction + (1 << self.mantissa)) * unit * 2f64.powi(exponent - 1),
        };
        if bits >= 0x80 { -magnitude } else { magnitude }
    }
}

/// The two types, for one body.
trait Float8: Copy + PartialEq + PartialOrd + fmt::Debug + fmt::Display {
    const FORMAT: Format;
    const LARGEST: u8;
    fn of(bits: u8) -> Self;
    fn bits(self) -> u8;
    fn widen(self) -> f32;
    fn narrow(value: f32) -> Self;
    fn nan(self) -> bool;
    fn finite(self) -> bool;
}

macro_rules! float8 {
    ($type:ident, $format:expr) => {
        impl Float8 for $type {
            const FORMAT: Format = $format;
            const LARGEST: u8 = $type::MAX.to_bits();
            fn of(bits: u8) -> Self {
                $type::from_bits(bits)
            }
            fn bits(self) -> u8 {
                self.to_bits()
            }
            fn widen(self) -> f32 {
                self.to_f32()
            }
            fn narrow(value: f32) -> Self {
                $type::from_f32(value)
            }
            fn nan(self) -> bool {
                self.is_nan()
            }
            fn finite(self) -> bool {
                self.is_finite()
            }
        }
    };
}

float8!(F8E4M3, Format { mantissa: 3, bias: 7, has_infinity: false });
float8!(F8E5M2, Format { mantissa: 2, bias: 15, has_infinity: true });

fn values_are_the_formats<T: Float8>() {
    for bits in 0..=u8::MAX {
        let (number, expected) = (T::of(bits), T::FORMAT.value(bits));
        let value = f64::from(number.widen());
        assert_eq!(number.nan(), expected.is_nan(), "{bits:#x}");
        assert_eq!(number.finite(), expected.is_finite(), "{bits:#x}");
        if expected.is_nan() {
            assert!(value.is_nan(), "{bits:#x}");
            assert!(T::narrow(number.widen()).nan());
            continue;
        }
        assert_eq!(value, expected, "{bits:#x}");
        assert_eq!(value.is_sign_negative(), bits >= 0x80);
        if expected.is_finite() {
            assert_eq!(T::narrow(number.widen()).bits(), bits, "there and back");
            assert_eq!(format!("{number}"), format!("{}", expected as f32));
        }
    }
}

#[test]
fn widening_is_exact() {
    values_are_the_formats::<F8E4M3>();
    values_are_the_formats::<F8E5M2>();
    assert_eq!(F8E4M3::MAX.to_f32(), 448.0);
    assert_eq!(F8E5M2::MAX.to_f32(), 57344.0);
    assert_eq!(F8E4M3::LEAST.to_f32(), 2f32.powi(-9));
    assert_eq!(F8E5M2::LEAST.to_f32(), 2f32.powi(-16));
    assert_eq!((F8E4M3::ONE.to_f32(), F8E5M2::ONE.to_f32()), (1.0, 1.0));
    assert_eq!(F8E5M2::INFINITY.to_f32(), f32::INFINITY);
}

/// Between any two neighbours: the tie, and the numbers of f32 beside it.
fn ties_go_to_even<T: Float8>() {
    for bits in 0..T::LARGEST {
        let (low, high) = (T::of(bits).widen(), T::of(bits + 1).widen());
        let tie = (low + high) / 2.0;
        let even = bits + (bits & 1);
        let beside = |step: i32| f32::from_bits(tie.to_bits().wrapping_add_signed(step));
        for (value, expected) in [(beside(-1), bits), (tie, even), (beside(1), bits + 1)] {
            assert_eq!(T::narrow(value).bits(), expected, "{value}");
            assert_eq!(T::narrow(-value).bits(), expected | 0x80, "-{value}");
        }
    }
}

#[test]
fn narrowing_takes_the_nearest_and_even_ones_of_two() {
    ties_go_to_even::<F8E4M3>();
    ties_go_to_even::<F8E5M2>();
}

fn too_large_is_the_largest<T: Float8>() {
    let largest = T::of(T::LARGEST).widen();
    for value in [largest * 1.01, largest * 1.2, largest * 100.0, f32::MAX, f32::INFINITY] {
        assert_eq!(T::narrow(value).bits(), T::LARGEST, "{value}");
        assert_eq!(T::narrow(-value).bits(), T::LARGEST | 0x80, "-{value}");
    }
    for nan in [f32::NAN, -f32::NAN, f32::from_bits(0x7f80_0001)] {
        assert!(T::narrow(nan).nan());
    }
}

#[test]
fn narrowing_saturates_and_keeps_nan() {
    too_large_is_the_largest::<F8E4M3>();
    too_large_is_the_largest::<F8E5M2>();
    for tiny in [0.0, f32::from_bits(1), f32::MIN_POSITIVE] {
        assert_eq!((F8E4M3::from_f32(tiny).to_bits(), F8E5M2::from_f32(tiny).to_bits()), (0, 0));
        assert_eq!(F8E4M3::from_f32(-tiny).to_bits(), 0x80);
    }
}

fn is_ordered_as_its_values<T: Float8>() {
    for x in 0..=u8::MAX {
        for y in 0..=u8::MAX {
            let (of_x, of_y) = (T::FORMAT.value(x), T::FORMAT.value(y));
            let (x, y) = (T::of(x), T::of(y));
            assert_eq!(x.partial_cmp(&y), of_x.partial_cmp(&of_y), "{x:?} {y:?}");
            assert_eq!(x == y, of_x == of_y, "{x:?} {y:?}");
        }
    }
}

#[test]
fn order_is_that_of_the_values() {
    is_ordered_as_its_values::<F8E4M3>();
    is_ordered_as_its_values::<F8E5M2>();
}
