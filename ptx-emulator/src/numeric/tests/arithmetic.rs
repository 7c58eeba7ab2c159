//! Arithmetic against native operations and exact inequalities.

use proptest::prelude::*;

use super::super::*;
use super::{MODES, Patterns};

const RN: Rounding = Rounding::NearestEven;

/// The one NaN of `f32`.
fn canon(x: f32) -> u64 {
    canonical_f32(x).into()
}

#[test]
fn soft_f32_to_nearest_is_native() {
    let mut p = Patterns(2);
    for _ in 0..400_000 {
        let (a, b, c) = (p.f32(), p.f32(), p.f32());
        let [x, y, z] = [a, b, c].map(f32::from_bits);
        let [a, b, c] = [a, b, c].map(u64::from);
        let f = Format::F32;
        assert_eq!(soft::add(f, a, b, RN), canon(x + y), "{x:e} + {y:e}");
        assert_eq!(soft::mul(f, a, b, RN), canon(x * y), "{x:e} * {y:e}");
        assert_eq!(soft::div(f, a, b, RN), canon(x / y), "{x:e} / {y:e}");
        assert_eq!(soft::sqrt(f, a, RN), canon(x.sqrt()), "sqrt {x:e}");
        assert_eq!(soft::fma(f, a, b, c, RN), canon(x.mul_add(y, z)), "{x:e} * {y:e} + {z:e}");
    }
}

#[test]
fn soft_f64_to_nearest_is_native() {
    let mut p = Patterns(3);
    for _ in 0..400_000 {
        let (a, b, c) = (p.f64(), p.f64(), p.f64());
        let f = Format::F64;
        assert_eq!(soft::add(f, a, b, RN), add_f64(a, b, RN), "{a:x} + {b:x}");
        assert_eq!(soft::mul(f, a, b, RN), mul_f64(a, b, RN), "{a:x} * {b:x}");
        assert_eq!(soft::div(f, a, b, RN), div_f64(a, b, RN), "{a:x} / {b:x}");
        assert_eq!(soft::sqrt(f, a, RN), sqrt_f64(a, RN), "sqrt {a:x}");
        assert_eq!(soft::fma(f, a, b, c, RN), fma_f64(a, b, c, RN), "{a:x} * {b:x} + {c:x}");
    }
}

#[test]
fn fma_f32_is_native() {
    let mut p = Patterns(4);
    let mut batch = [[0u32; 32]; 4];
    for _ in 0..30_000 {
        batch = batch.map(|register| register.map(|_| p.f32()));
        let [a, b, c, d] = &mut batch;
        batch::fma_f32(a, b, c, d);
        for ((&a, &b), (&c, &d)) in a.iter().zip(&*b).zip(c.iter().zip(&*d)) {
            let [x, y, z] = [a, b, c].map(f32::from_bits);
            let expected = canonical_f32(x.mul_add(y, z));
            assert_eq!(fma_f32(a, b, c, RN), expected, "{x:e} * {y:e} + {z:e}");
            assert_eq!(d, expected, "batch {x:e} * {y:e} + {z:e}");
        }
    }
}

#[test]
fn directed_f32_is_soft() {
    let mut p = Patterns(15);
    for _ in 0..300_000 {
        let (a, b, c) = (p.f32(), p.f32(), p.f32());
        let [x, y, z] = [a, b, c].map(u64::from);
        for mode in MODES {
            let f = Format::F32;
            assert_eq!(u64::from(add_f32(a, b, mode)), soft::add(f, x, y, mode), "{a:x} + {b:x}");
            assert_eq!(u64::from(mul_f32(a, b, mode)), soft::mul(f, x, y, mode), "{a:x} * {b:x}");
            let fused = soft::fma(f, x, y, z, mode);
            assert_eq!(u64::from(fma_f32(a, b, c, mode)), fused, "{a:x} * {b:x} + {c:x}");
        }
    }
}

#[test]
fn batches_of_f64_are_the_lanes() {
    let mut p = Patterns(14);
    for _ in 0..10_000 {
        let [a, b, c] = [[0; 32]; 3].map(|lanes| lanes.map(|_: u64| p.f64()));
        let mut d = [0; 32];
        batch::fma_f64(&a, &b, &c, &mut d);
        let lanes = std::array::from_fn(|lane| fma_f64(a[lane], b[lane], c[lane], RN));
        assert_eq!(d, lanes);
    }
}

#[test]
fn half_precision_rounds_once() {
    let mut p = Patterns(5);
    for _ in 0..1_000_000 {
        let (a, b, c) = (p.u16(), p.u16(), p.u16());
        let [x, y, z] = [a, b, c].map(u64::from);
        for (format, add, sub, mul, fma) in [
            (Format::F16, add_f16(a, b), sub_f16(a, b), mul_f16(a, b), fma_f16(a, b, c)),
            (Format::BF16, add_bf16(a, b), sub_bf16(a, b), mul_bf16(a, b), fma_bf16(a, b, c)),
        ] {
            assert_eq!(u64::from(add), soft::add(format, x, y, RN), "{a:x} + {b:x}");
            assert_eq!(u64::from(sub), soft::add(format, x, y ^ 0x8000, RN), "{a:x} - {b:x}");
            assert_eq!(u64::from(mul), soft::mul(format, x, y, RN), "{a:x} * {b:x}");
            assert_eq!(u64::from(fma), soft::fma(format, x, y, z, RN), "{a:x} * {b:x} + {c:x}");
        }
    }
}

/// Checks the four modes of one operation: neighbours that enclose the exact result, whose side
/// `below(x)` tells: whether x <= exact.
fn encloses(
    f: impl Fn(Rounding) -> u32,
    at_most: impl Fn(f64) -> bool,
    at_least: impl Fn(f64) -> bool,
) {
    let [nearest, zero, down, up] = MODES.map(|m| f32::from_bits(f(m)));
    assert!(down == up || down.next_up() == up, "{down:e} {up:e}");
    assert!(down == f32::NEG_INFINITY || at_most(down.into()), "{down:e}");
    assert!(up == f32::INFINITY || at_least(up.into()), "{up:e}");
    if down != up {
        assert!(!at_least(down.into()) && !at_most(up.into()), "exact but {down:e} {up:e}");
    }
    assert!(nearest == down || nearest == up);
    assert!(zero == if down >= 0.0 { down } else { up });
}

#[test]
fn directed_f32_encloses_the_exact_result() {
    let mut p = Patterns(6);
    for _ in 0..200_000 {
        let (a, b) = (p.f32(), p.f32());
        let (x, y) = (f64::from(f32::from_bits(a)), f64::from(f32::from_bits(b)));
        if !x.is_finite() || !y.is_finite() || y == 0.0 {
            continue;
        }
        let product = x * y;
        encloses(|m| mul_f32(a, b, m), |v| v <= product, |v| v >= product);
        // Exact comparison of v with x + y by the error of the sum.
        let sum = x + y;
        let error = (x - (sum - (sum - x))) + (y - (sum - x));
        let less = |v: f64| v < sum || v == sum && error >= 0.0;
        let more = |v: f64| v > sum || v == sum && error <= 0.0;
        encloses(|m| add_f32(a, b, m), less, more);
        encloses(|m| sub_f32(a, b ^ 0x8000_0000, m), less, more);
        // v <= x / y iff v * y <= x for positive y; products of f32 are exact in f64.
        let quotient_at_most = |v: f64| if y > 0.0 { v * y <= x } else { v * y >= x };
        let quotient_at_least = |v: f64| if y > 0.0 { v * y >= x } else { v * y <= x };
        encloses(|m| div_f32(a, b, m), quotient_at_most, quotient_at_least);
        if x > 0.0 {
            encloses(|m| sqrt_f32(a, m), |v| v * v <= x, |v| v * v >= x);
        }
    }
}

proptest! {
    /// Small significands, so that the exact result fits 128 bits.
    #[test]
    fn directed_fma_encloses_the_exact_result(
        a in -0xff_ffffi64..0xff_ffff, b in -0xff_ffffi64..0xff_ffff, c in -0xff_ffffi64..0xff_ffff,
        shift in -30i32..30,
    ) {
        let scale = 2f64.powi(shift);
        let [x, y] = [a, b].map(|v| (v as f32).to_bits());
        let z = ((c as f64 * scale) as f32).to_bits();
        let exact = ((i128::from(a) * i128::from(b)) << 40) + (i128::from(c) << (40 + shift));
        // Exact: below 2^100, no bits under 2^-40.
        let compare = |v: f64| (v * 2f64.powi(40)) as i128;
        if exact != 0 {
            encloses(|m| fma_f32(x, y, z, m), |v| compare(v) <= exact, |v| compare(v) >= exact);
        }
    }

    #[test]
    fn directed_f64_of_integers(a in 1i64..1 << 53, b in 1i64..1 << 53) {
        let [x, y] = [a, b].map(|v| (v as f64).to_bits());
        let exact = i128::from(a) * i128::from(b);
        let [_, zero, down, up] = MODES.map(|m| f64::from_bits(mul_f64(x, y, m)));
        prop_assert!(down as i128 <= exact && up as i128 >= exact && zero == down);
        prop_assert!(down == up && down as i128 == exact || down.next_up() == up);
        let [_, _, down, up] = MODES.map(|m| f64::from_bits(div_f64(x, y, m)));
        prop_assert!(down == up || down.next_up() == up);
        let [_, _, down, up] = MODES.map(|m| f64::from_bits(fma_f64(down.to_bits(), y, 0, m)));
        prop_assert!(down <= a as f64 || up <= a as f64);
    }

    #[test]
    fn negation_turns_down_into_up(a in any::<u64>(), b in any::<u64>(), c in any::<u64>()) {
        let not_nan = |x: u64| !f64::from_bits(x).is_nan();
        let sign = 1u64 << 63;
        let (down, up) = (Rounding::Down, Rounding::Up);
        let sum = add_f64(a, b, down);
        if not_nan(sum) {
            prop_assert_eq!(add_f64(a ^ sign, b ^ sign, up) ^ sign, sum);
        }
        let fused = fma_f64(a, b, c, down);
        if not_nan(fused) {
            prop_assert_eq!(fma_f64(a, b ^ sign, c ^ sign, up) ^ sign, fused);
        }
    }
}

#[test]
fn zeros_and_nans() {
    let [plus, minus, one, nan] = [0u32, 0x8000_0000, 0x3f80_0000, 0x7fc0_1234];
    for mode in MODES {
        let zero = if mode == Rounding::Down { minus } else { plus };
        assert_eq!(add_f32(plus, minus, mode), zero);
        assert_eq!(sub_f32(one, one, mode), zero);
        assert_eq!(add_f32(minus, minus, mode), minus);
        assert_eq!(fma_f32(one, one, 0xbf80_0000, mode), zero);
        assert_eq!(add_f32(nan, one, mode), NAN_F32);
        assert_eq!(div_f32(plus, minus, mode), NAN_F32);
        assert_eq!(rcp_f32(minus, mode), 0xff80_0000);
        assert_eq!(sqrt_f32(minus, mode), minus);
        assert_eq!(sqrt_f32(0xbf80_0000, mode), NAN_F32);
        let payload = 0x7ff0_0000_0000_0777;
        assert_eq!(add_f64(one.into(), payload, mode), payload | 1 << 51);
        assert_eq!(mul_f64(0, f64::INFINITY.to_bits(), mode), NAN_F64);
    }
    assert_eq!(saturate_f32(nan), 0);
    assert_eq!(saturate_f32(minus), 0);
    assert_eq!(saturate_f32(0x4000_0000), one);
    assert_eq!(flush_f32(0x807f_ffff), minus);
    assert_eq!(flush_f32(0x0080_0000), 0x0080_0000);
    assert_eq!(copysign_f32(minus, one), 0xbf80_0000);
    // 2^-14 (1 - 2^-11) rounds to 2^-14, which an H100 flushes all the same.
    assert_eq!([mul_f16(0x0400, 0x3bff), mul_ftz_f16(0x0400, 0x3bff)], [0x0400, 0]);
    assert_eq!(fma_ftz_f16(0xbbff, 0x0400, 0), 0x8000);
    assert_eq!(mul_ftz_f16(0x8400, 0x3c00), 0x8400);
    assert_eq!(mul_ftz_f16(0x8000, 0x3c00), 0x8000);
    assert_eq!(mul_ftz_f16(0x8000, 0xbc00), 0);
    assert!(testp_f32(minus, Property::Normal) && !testp_f32(1, Property::Normal));
}

#[test]
fn minimum_and_maximum() {
    let (min, max) = (MinMax::default(), MinMax { max: true, ..MinMax::default() });
    let xorsign = MinMax { xorsign_abs: true, ..MinMax::default() };
    let f = f32::to_bits;
    assert_eq!(min_max_f32(f(0.0), f(-0.0), min), f(-0.0));
    assert_eq!(min_max_f32(f(-0.0), f(0.0), max), f(0.0));
    assert_eq!(min_max_f32(f(f32::NAN), f(3.0), min), f(3.0));
    assert_eq!(min_max_f32(f(3.0), f(f32::NAN), max), f(3.0));
    assert_eq!(min_max_f32(f(f32::NAN), f(f32::NAN), max), NAN_F32);
    assert_eq!(min_max_f32(f(f32::NAN), f(3.0), MinMax { nan: true, ..min }), NAN_F32);
    assert_eq!(min_max_f32(f(-2.0), f(3.0), xorsign), f(-2.0));
    assert_eq!(min_max_f32(f(-2.0), f(-3.0), xorsign), f(2.0));
    let mut p = Patterns(7);
    for _ in 0..100_000 {
        let (a, b) = (p.u16(), p.u16());
        let (x, y) = (widen_f16(a), widen_f16(b));
        let low = f64::from(widen_f16(min_max_f16(a, b, min)));
        let high = f64::from(widen_f16(min_max_f16(a, b, max)));
        if x.is_nan() && y.is_nan() {
            assert!(low.is_nan() && high.is_nan());
        } else {
            // std's min and max also prefer numbers to NaN.
            assert_eq!((low, high), (x.min(y).into(), x.max(y).into()), "{a:x} {b:x}");
        }
    }
}
