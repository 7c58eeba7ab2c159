//! Decoding and rounding of the formats, exhaustively.

use super::super::*;
use super::{MODES, Patterns};

const SMALL: [Format; 8] = [
    Format::F16,
    Format::BF16,
    Format::TF32,
    Format::E4M3,
    Format::E5M2,
    Format::E2M3,
    Format::E3M2,
    Format::E2M1,
];

#[test]
fn every_number_survives_a_round_trip() {
    for format in SMALL {
        for bits in 0..format.sign_mask() * 2 {
            if format.decode(bits) != Value::Nan {
                for mode in MODES {
                    assert_eq!(format.from_f64(format.to_f64(bits), mode), bits, "{format:?}");
                }
            }
        }
    }
}

#[test]
fn between_neighbours_every_mode_goes_the_right_way() {
    for format in SMALL {
        for low in 0..format.max_finite() {
            let (x, y) = (format.to_f64(low), format.to_f64(low + 1));
            let middle = (x + y) / 2.0;
            let even = low + (low & 1);
            for (value, nearest, away) in [
                (middle, even, low + 1),
                (middle.next_down(), low, low),
                (middle.next_up(), low + 1, low + 1),
                (x.next_up(), low, low),
                (y.next_down(), low + 1, low + 1),
            ] {
                let minus = |bits| bits | format.sign_mask();
                let check = |mode, up, down| {
                    assert_eq!(format.from_f64(value, mode), up, "{format:?} {mode:?} {value:e}");
                    assert_eq!(format.from_f64(-value, mode), minus(down), "{format:?} {mode:?}");
                };
                check(Rounding::NearestEven, nearest, nearest);
                check(Rounding::NearestAway, away, away);
                check(Rounding::TowardZero, low, low);
                check(Rounding::Down, low, low + 1);
                check(Rounding::Up, low + 1, low);
            }
        }
    }
}

#[test]
fn overflow_follows_the_mode() {
    let f = Format::F16;
    assert_eq!(f.from_f64(65519.9, Rounding::NearestEven), 0x7bff);
    assert_eq!(f.from_f64(65520.0, Rounding::NearestEven), 0x7c00);
    assert_eq!(f.from_f64(1e9, Rounding::TowardZero), 0x7bff);
    assert_eq!(f.from_f64(1e9, Rounding::Down), 0x7bff);
    assert_eq!(f.from_f64(-1e9, Rounding::Down), 0xfc00);
    assert_eq!(f.from_f64(-1e9, Rounding::Up), 0xfbff);
    assert_eq!(Format::E4M3.from_f64(1e9, Rounding::NearestEven), 0x7e);
    assert_eq!(Format::E4M3.from_f64(f64::NEG_INFINITY, Rounding::NearestEven), 0xfe);
    assert_eq!(Format::E2M1.from_f64(f64::NAN, Rounding::NearestEven), 0x7);
    assert_eq!(Format::E2M1.to_f64(Format::E2M1.max_finite()), 6.0);
    assert_eq!(Format::E2M3.to_f64(Format::E2M3.max_finite()), 7.5);
    assert_eq!(Format::E3M2.to_f64(Format::E3M2.max_finite()), 28.0);
    assert_eq!(Format::E4M3.to_f64(Format::E4M3.max_finite()), 448.0);
    assert_eq!(Format::E5M2.to_f64(Format::E5M2.max_finite()), 57344.0);
}

#[test]
fn widening_is_exact() {
    for a in 0..=u16::MAX {
        let same = |x: f32, format: Format| {
            let y = format.to_f64(a.into());
            x.is_nan() && y.is_nan() || f64::from(x).to_bits() == y.to_bits()
        };
        assert!(same(widen_f16(a), Format::F16), "{a:x}");
        assert!(same(widen_bf16(a), Format::BF16), "{a:x}");
    }
}

#[test]
fn fast_narrowing_equals_the_general_rounding() {
    let mut patterns = Patterns(1);
    let check = |x: f64| {
        let mode = Rounding::NearestEven;
        assert_eq!(u64::from(narrow_f64_f16(x)), Format::F16.from_f64(x, mode), "{x:e}");
        assert_eq!(u64::from(narrow_f64_bf16(x)), Format::BF16.from_f64(x, mode), "{x:e}");
        let y = x as f32;
        let bf16 = Format::BF16.from_f64(f64::from(y), mode);
        assert_eq!(u64::from(narrow_f32_bf16(y.to_bits())), bf16, "{x:e}");
    };
    for a in 0..0x7bffu16 {
        let (x, y) = (f64::from(widen_f16(a)), f64::from(widen_f16(a + 1)));
        let middle = (x + y) / 2.0;
        for v in [x, middle, middle.next_up(), middle.next_down()] {
            check(v);
            check(-v);
        }
    }
    for a in 0..0x7f7fu16 {
        let (x, y) = (f64::from(widen_bf16(a)), f64::from(widen_bf16(a + 1)));
        let middle = (x + y) / 2.0;
        for v in [x, middle, middle.next_up(), middle.next_down()] {
            check(v);
            check(-v);
        }
    }
    for _ in 0..300_000 {
        check(f64::from_bits(patterns.f64()));
        check(f64::from_bits(patterns.next()));
    }
}

#[test]
fn both_roundings_of_f64_agree() {
    let mut patterns = Patterns(11);
    for _ in 0..300_000 {
        let x = f64::from_bits(patterns.f64());
        let Value::Finite { negative, significand, exponent } = Format::F64.decode(x.to_bits())
        else {
            continue;
        };
        for format in SMALL.into_iter().chain([Format::F32, Format::F64]) {
            for mode in MODES {
                let general = format.round(negative, significand.into(), exponent, false, mode);
                assert_eq!(format.from_f64(x, mode), general, "{format:?} {mode:?} {x:e}");
            }
        }
    }
}

#[test]
fn integral_rounding_is_the_libraries() {
    let mut patterns = Patterns(12);
    for i in 0..300_000 {
        let random = f64::from_bits(patterns.f64());
        let x = if i % 2 == 0 { random } else { f64::from(i - 150_000) / 4.0 };
        for (mode, expected) in [
            (Rounding::NearestEven, x.round_ties_even()),
            (Rounding::NearestAway, x.round()),
            (Rounding::TowardZero, x.trunc()),
            (Rounding::Down, x.floor()),
            (Rounding::Up, x.ceil()),
        ] {
            let rounded = round_to_integral(x, mode);
            assert!(rounded.to_bits() == expected.to_bits() || x.is_nan(), "{x:e} {mode:?}");
        }
    }
}
