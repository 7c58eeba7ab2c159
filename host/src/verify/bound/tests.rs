//! The outcomes that are right, element by element.

use super::*;

/// What element a . b may be, in a K of `a.len()`.
fn expect(dtype: DType, a: &[f64], b: &[f64], alpha: f64, beta: Option<f64>, c: f64) -> Expected {
    let panel: Vec<[f64; PANEL]> = b.iter().map(|&b| [b; PANEL]).collect();
    let sums = match dtype {
        DType::F8E4M3 => super::super::sums::e4m3_row(a, &panel),
        DType::F8E5M2 => super::super::sums::e5m2_row(a, &panel),
        DType::F64 => super::super::sums::compensated_row(a, &panel),
        _ => super::super::sums::plain_row(a, &panel),
    };
    let output = if dtype.is_fp8() { DType::F32 } else { dtype };
    Rules::new((dtype, output), a.len(), alpha, beta).expect(&sums, 3, c, (a, &panel))
}

fn product(dtype: DType, a: &[f64], b: &[f64]) -> Expected {
    expect(dtype, a, b, 1.0, None, 0.0)
}

const INF: f64 = f64::INFINITY;
const F32_MAX: f64 = f32::MAX as f64;

#[test]
fn formats_are_those_of_ieee() {
    for (dtype, unit, overflow, least) in [
        (DType::F16, 2f64.powi(-11), 65_520.0, 2f64.powi(-24)),
        (DType::BF16, 2f64.powi(-8), (2.0 - 2f64.powi(-8)) * 2f64.powi(127), 2f64.powi(-133)),
        (DType::F32, 2f64.powi(-24), (2.0 - 2f64.powi(-24)) * 2f64.powi(127), 2f64.powi(-149)),
        (DType::F64, 2f64.powi(-53), f64::MAX, f64::from_bits(1)),
    ] {
        let format = Format::of(dtype);
        assert_eq!((format.unit, format.overflow, format.least), (unit, overflow, least));
    }
}

#[test]
fn exponents_come_apart_and_together() {
    for x in [1.0, -0.75, 3e300, f64::MAX, f64::MIN_POSITIVE, f64::from_bits(1), -5e-324, 1e-310] {
        let (m, exp) = frexp(x);
        assert!((0.5..1.0).contains(&m.abs()), "{x:e}");
        assert_eq!(ldexp(m, exp), x);
    }
    assert_eq!(ldexp(1.0, 3000), INF);
    assert_eq!(ldexp(1.0, -3000), 0.0);
    assert_eq!(ldexp(ldexp(1.5, 1000), -2000), ldexp(1.5, -1000));
}

#[test]
fn the_bound_is_tight_for_short_sums() {
    // One product, one rounding: the neighbours but one are wrong.
    let (a, b) = (1.0 + 2f64.powi(-20), 1.0 + 2f64.powi(-15));
    let expected = product(DType::F32, &[a], &[b]);
    let right = (a * b) as f32;
    assert!(expected.allows(f64::from(right)));
    assert!(!expected.allows(f64::from(right.next_up().next_up())));
    assert!(!expected.allows(f64::from(right.next_down().next_down())));
    // An empty sum is exactly 0, and beta = 1 gives C back.
    assert!(product(DType::F32, &[], &[]).allows(0.0));
    assert!(!product(DType::F32, &[], &[]).allows(1e-45));
    assert!(expect(DType::F64, &[], &[], 1.0, Some(1.0), 0.1).allows(0.1));
    assert!(!expect(DType::F64, &[], &[], 1.0, Some(1.0), 0.1).allows(0.1f64.next_up()));
}

#[test]
fn twice_the_bound_is_wrong_and_the_bound_is_right() {
    for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64] {
        let a: Vec<f64> = (0..50).map(|k| f64::from(k - 20) / 16.0).collect();
        let b: Vec<f64> = (0..50).map(|k| f64::from(k * k % 17) / 8.0).collect();
        let expected = expect(dtype, &a, &b, 1.25, Some(-0.5), 3.0);
        let (value, bound) = (expected.value(), expected.bound());
        assert!(bound > 0.0 && bound.is_finite());
        for sign in [-1.0, 1.0] {
            assert!(expected.allows(value + sign * 0.99 * bound), "{dtype}");
            assert!(!expected.allows(value + sign * 2.0 * bound), "{dtype}");
        }
        assert!((expected.ratio(value + 0.5 * bound) - 0.5).abs() < 1e-2, "{dtype}");
    }
}

/// 2^14 + 1 + 1: in f32 it is exact, and tensor cores make 2^14 of it. Nothing else is right.
#[test]
fn floats_of_8_bits_may_lose_what_14_bits_do_not_hold() {
    for dtype in [DType::F8E4M3, DType::F8E5M2] {
        let (mut a, mut b) = ([0.0; 96], [0.0; 96]);
        (a[0], b[0]) = (128.0, 128.0);
        for k in [1, 40] {
            (a[k], b[k]) = (1.0, 1.0);
        }
        let expected = expect(dtype, &a, &b, 0.5, None, 0.0);
        for (out, is_right) in [(8193.0, true), (8192.0, true), (8191.0, false), (8195.0, false)] {
            assert_eq!(expected.allows(out), is_right, "{dtype} {out}");
        }
        // A product less shows where all of them fit, a zero matrix everywhere.
        let ones = expect(dtype, &[1.0; 512], &[1.0; 512], 1.0, Some(1.0), 0.25);
        assert!(ones.allows(512.25) && !ones.allows(511.25));
        let thirds: Vec<f64> = (0..512).map(|k| f64::from(k % 7 + 8) / 8.0).collect();
        assert!(!product(dtype, &thirds, &thirds).allows(0.0));
    }
}

#[test]
fn nan_passes_only_where_ieee_gives_nan() {
    for dtype in [DType::F8E5M2, DType::F16, DType::BF16, DType::F32, DType::F64] {
        assert!(!product(dtype, &[1.0, 2.0], &[3.0, 4.0]).allows(f64::NAN));
        for (a, b) in
            [([f64::NAN, 1.0], [0.0, 1.0]), ([INF, 1.0], [0.0, 1.0]), ([INF, INF], [1.0, -1.0])]
        {
            let expected = product(dtype, &a, &b);
            assert!(expected.allows(f64::NAN) && expected.value().is_nan());
            assert!(!expected.allows(0.0) && !expected.allows(INF) && !expected.allows(-INF));
        }
    }
}

#[test]
fn infinity_keeps_its_sign() {
    for dtype in [DType::F8E5M2, DType::F16, DType::BF16, DType::F32, DType::F64] {
        let expected = product(dtype, &[INF, 1.0], &[-2.0, 5.0]);
        assert!(expected.allows(-INF) && expected.value() == -INF);
        assert!(!expected.allows(INF) && !expected.allows(f64::NAN) && !expected.allows(-1e300));
        let expected = expect(dtype, &[INF], &[-2.0], -3.0, Some(1.0), 5.0);
        assert!(expected.allows(INF) && !expected.allows(-INF));
        let expected = expect(dtype, &[INF], &[2.0], 1.0, Some(-1.0), INF);
        assert!(expected.allows(f64::NAN) && !expected.allows(INF));
        let expected = expect(dtype, &[1.0], &[2.0], 1.0, Some(2.0), -INF);
        assert!(expected.allows(-INF) && !expected.allows(INF) && !expected.allows(f64::NAN));
    }
}

#[test]
fn what_is_not_read_takes_no_part() {
    let a = [INF, f64::NAN];
    assert!(expect(DType::F32, &[], &[], 0.0, Some(2.0), 3.0).allows(6.0));
    assert!(expect(DType::F32, &[1.0], &[2.0], 1.0, Some(0.0), f64::NAN).allows(2.0));
    // A caller leaves A and B away where alpha is 0; K is then 0 whatever it was.
    let rules = Rules::new((DType::F32, DType::F32), a.len(), 0.0, None);
    assert_eq!((rules.k, rules.alpha), (0, 0.0));
    // Nothing to sum: alpha takes no part, infinite or not.
    assert!(expect(DType::F64, &[], &[], INF, Some(1.0), 3.0).allows(3.0));
    assert!(!expect(DType::F64, &[], &[], INF, Some(1.0), 3.0).allows(f64::NAN));
}

#[test]
fn alpha_that_is_not_finite() {
    let expected = expect(DType::F32, &[1.0], &[2.0], f64::NAN, None, 0.0);
    assert!(expected.allows(f64::NAN) && !expected.allows(2.0) && !expected.allows(INF));
    let expected = expect(DType::F32, &[1.0], &[2.0], INF, None, 0.0);
    assert!(expected.allows(INF) && !expected.allows(F32_MAX));
    let expected = expect(DType::F32, &[f64::NAN], &[2.0], INF, None, 0.0);
    assert!(!expected.allows(INF) && expected.allows(f64::NAN));
}

#[test]
fn overflow_of_the_element_type() {
    let near = product(DType::F16, &[65_504.0], &[1.0]);
    assert!(near.allows(65_504.0) && !near.allows(-INF) && !near.allows(f64::NAN));
    let far = product(DType::F16, &[256.0, 256.0], &[256.0, 256.0]);
    assert!(far.allows(INF) && !far.allows(65_504.0) && !far.allows(-INF));
    let below = product(DType::F16, &[60_000.0], &[1.0]);
    assert!(below.allows(60_000.0) && !below.allows(INF));
}

#[test]
fn overflow_of_the_accumulator() {
    // The whole sum is finite; in some orders it overflows upwards, downwards, or both ways.
    let both = product(DType::F32, &[F32_MAX; 4], &[1.0, 1.0, -1.0, -1.0]);
    assert!(both.allows(0.0) && both.allows(INF) && both.allows(-INF) && both.allows(f64::NAN));
    let up = product(DType::F32, &[F32_MAX; 3], &[1.0, 1.0, -0.5]);
    assert!(up.allows(INF) && !up.allows(-INF) && !up.allows(f64::NAN) && !up.allows(F32_MAX));
    let one_sign = product(DType::F32, &[F32_MAX, F32_MAX], &[-1.0, -1.0]);
    assert!(one_sign.allows(-INF) && !one_sign.allows(f64::NAN) && !one_sign.allows(-F32_MAX));
    let small = product(DType::F32, &[F32_MAX / 4.0; 3], &[1.0, 1.0, -1.0]);
    assert!(small.allows(F32_MAX / 4.0) && !small.allows(INF) && !small.allows(f64::NAN));
}

#[test]
fn f64_is_checked_to_the_end_of_its_range() {
    let big = 2f64.powi(1000);
    // The exact value is 2^1001 and every partial sum overflows.
    let expected = product(DType::F64, &[big, big, big], &[big, -big, 2.0]);
    assert!((expected.value() / (2.0 * big) - 1.0).abs() < 1e-12);
    assert!(expected.allows(INF) && expected.allows(-INF) && expected.allows(f64::NAN));
    // Nothing overflows, and the ends of the range meet.
    let expected = product(DType::F64, &[big, 1.0 / big], &[1.0, big]);
    assert!(expected.allows(big) && !expected.allows(big * (1.0 + 1e-15)) && !expected.allows(INF));
    // The sum overflows and alpha brings it back.
    let expected = expect(DType::F64, &[big], &[big], 1.0 / big, Some(1.0), 7.0);
    assert!(expected.allows(big) && expected.allows(INF) && !expected.allows(f64::NAN));
    assert!(!expected.allows(big * (1.0 + 1e-14)) && !expected.allows(0.0));
    // beta * C overflows by itself.
    let expected = expect(DType::F64, &[1.0], &[1.0], 1.0, Some(big), -big);
    assert!(expected.allows(-INF) && !expected.allows(INF) && !expected.allows(-f64::MAX));
}

#[test]
fn subnormal_products_have_their_floor() {
    let least = f64::from(f32::from_bits(1));
    // 0.25 of the least subnormal: 0 is right, twice the least is not.
    let expected = product(DType::F32, &[least], &[0.25]);
    assert!(expected.allows(0.0) && expected.allows(least) && !expected.allows(2.0 * least));
    let expected = product(DType::F16, &[2f64.powi(-14)], &[2f64.powi(-11)]);
    assert!(expected.allows(0.0) && !expected.allows(2f64.powi(-23)));
    let least = f64::from_bits(1);
    let expected = product(DType::F64, &[least, 1.0], &[0.25, least]);
    assert!(expected.allows(least) && !expected.allows(5.0 * least));
}

#[test]
fn gamma_counts_roundings() {
    let unit = Format::of(DType::F32).unit;
    assert_eq!(gamma(0, unit), 0.0);
    assert!(gamma(1, unit) >= unit && gamma(100, unit) < 100.1 * unit);
    assert!(gamma(max_k(DType::F32) + 2, unit) <= 1.0);
}
