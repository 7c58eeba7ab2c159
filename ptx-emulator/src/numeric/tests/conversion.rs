//! `cvt` and the approximate functions.

use super::super::*;
use super::Patterns;

use Number as N;
use Rounding as R;

fn cvt(to: N, from: N, rounding: R, a: u64) -> u64 {
    Conversion::new(to, from, rounding).convert(a)
}

#[test]
fn integers() {
    assert_eq!(cvt(N::S32, N::S8, R::NearestEven, 0xff80), 0xffff_ffff_ffff_ff80);
    assert_eq!(cvt(N::U32, N::U8, R::NearestEven, 0xff80), 0x80);
    assert_eq!(cvt(N::U8, N::S32, R::NearestEven, 0x1ff), 0xff);
    assert_eq!(cvt(N::S8, N::S32, R::NearestEven, 0x1ff), u64::MAX);
    let sat = |to, from, a| {
        Conversion { sat: true, ..Conversion::new(to, from, R::TowardZero) }.convert(a)
    };
    assert_eq!(sat(N::U8, N::S32, -5i64 as u64), 0);
    assert_eq!(sat(N::U8, N::S32, 300), 255);
    assert_eq!(sat(N::S8, N::S32, -300i64 as u64), -128i64 as u64);
    assert_eq!(sat(N::S16, N::U32, 70_000), 32767);
    assert_eq!(sat(N::U64, N::S64, u64::MAX), 0);
    assert_eq!(sat(N::S64, N::U64, u64::MAX), i64::MAX as u64);
}

#[test]
fn floats_to_integers() {
    let f = |x: f32| u64::from(x.to_bits());
    for (x, rni, rzi, rmi, rpi) in [
        (2.5f32, 2i64, 2, 2, 3),
        (-2.5, -2, -2, -3, -2),
        (3.5, 4, 3, 3, 4),
        (-0.25, 0, 0, -1, 0),
        (1e20, 0x7fff_ffff, 0x7fff_ffff, 0x7fff_ffff, 0x7fff_ffff),
        (-1e20, -0x8000_0000, -0x8000_0000, -0x8000_0000, -0x8000_0000),
    ] {
        for (mode, expected) in
            [(R::NearestEven, rni), (R::TowardZero, rzi), (R::Down, rmi), (R::Up, rpi)]
        {
            assert_eq!(cvt(N::S32, N::F32, mode, f(x)) as i64, expected, "{x} {mode:?}");
        }
    }
    let nan = f(f32::NAN);
    assert_eq!(cvt(N::U8, N::F32, R::TowardZero, f(-3.0)), 0);
    assert_eq!(cvt(N::U8, N::F32, R::TowardZero, f(256.0)), 255);
    assert_eq!(cvt(N::S32, N::F32, R::TowardZero, nan), 0);
    assert_eq!(cvt(N::U64, N::F32, R::TowardZero, nan), 1 << 63);
    assert_eq!(cvt(N::S64, N::F16, R::TowardZero, 0x7e00), 1 << 63);
    assert_eq!(cvt(N::U32, N::F64, R::TowardZero, NAN_F64), 0x8000_0000);
    assert_eq!(cvt(N::S32, N::F64, R::TowardZero, NAN_F64) as i64, i64::from(i32::MIN));
}

#[test]
fn integers_to_floats() {
    let mut p = Patterns(8);
    for _ in 0..100_000 {
        let r = p.next() >> (p.next() % 64);
        for (from, value) in [
            (N::U64, i128::from(r)),
            (N::S64, i128::from(r as i64)),
            (N::U32, i128::from(r as u32)),
            (N::S32, i128::from(r as i32)),
            (N::S16, i128::from(r as i16)),
            (N::U8, i128::from(r as u8)),
        ] {
            for to in [N::F32, N::F64, N::F16, N::Bf16] {
                let format = to.format().unwrap();
                let at = |mode| format.to_f64(cvt(to, from, mode, r));
                let (down, up) = (at(R::Down), at(R::Up));
                assert!(down == f64::NEG_INFINITY || (down as i128) <= value, "{value} {to:?}");
                assert!(up == f64::INFINITY || (up as i128) >= value, "{value} {to:?}");
                let nearest = at(R::NearestEven);
                assert!(nearest == down || nearest == up);
                let zero = at(R::TowardZero);
                assert!(zero == if value < 0 { up } else { down });
                if down.is_finite() && up.is_finite() && down != up {
                    let (below, above) = (value - down as i128, up as i128 - value);
                    let closer = if below < above { down } else { up };
                    assert!(below == above || nearest == closer, "{value} {to:?}");
                    assert_eq!(
                        cvt(to, from, R::Up, r),
                        next_pattern(to, cvt(to, from, R::Down, r))
                    );
                }
            }
        }
    }
}

/// The next greater number of a format.
fn next_pattern(to: N, bits: u64) -> u64 {
    if bits & to.format().unwrap().sign_mask() == 0 { bits + 1 } else { bits - 1 }
}

#[test]
fn modifiers_of_floats() {
    let f = |x: f32| u64::from(x.to_bits());
    let rn = |to, from| Conversion::new(to, from, R::NearestEven);
    let relu = Conversion { relu: true, ..rn(N::F16, N::F32) };
    assert_eq!(relu.convert(f(-1.0)), 0);
    assert_eq!(relu.convert(f(-0.0)), 0);
    assert_eq!(relu.convert(f(-f32::NAN)), 0x7fff);
    let finite = Conversion { satfinite: true, ..rn(N::F16, N::F32) };
    assert_eq!(finite.convert(f(1e9)), 0x7bff);
    assert_eq!(finite.convert(f(f32::NEG_INFINITY)), 0xfbff);
    assert_eq!(finite.convert(f(f32::NAN)), 0x7fff);
    let sat = Conversion { sat: true, ..rn(N::F32, N::F64) };
    assert_eq!(sat.convert(2.5f64.to_bits()), f(1.0));
    assert_eq!(sat.convert(NAN_F64), 0);
    let ftz = Conversion { ftz: true, ..rn(N::F32, N::F64) };
    assert_eq!(ftz.convert((-1e-40f64).to_bits()), f(-0.0));
    assert_eq!(rn(N::F32, N::F64).convert((-1e-40f64).to_bits()), f(-1e-40));
    let integral = Conversion { integral: true, ..rn(N::F32, N::F32) };
    assert_eq!(integral.convert(f(-0.5)), f(-0.0));
    assert_eq!(integral.convert(f(2.5)), f(2.0));
    let tf32 = |mode| Conversion::new(N::Tf32, N::F32, mode);
    assert_eq!(tf32(R::NearestAway).convert(0x3f80_1000), 0x3f80_2000);
    assert_eq!(tf32(R::NearestEven).convert(0x3f80_1000), 0x3f80_0000);
    assert_eq!(tf32(R::TowardZero).convert(0x3f80_1fff), 0x3f80_0000);
    assert_eq!(tf32(R::NearestAway).convert(0x7f7f_ffff), 0x7f80_0000);
    let finite = Conversion { satfinite: true, ..tf32(R::NearestAway) };
    assert_eq!(finite.convert(0x7f7f_ffff), 0x7f7f_e000);
}

/// The words that an H100 gives (tests/record, 2026-11-21, 672160253).
#[test]
fn conversions_of_nan() {
    let double = 0x7ff8_0000_0000_0001;
    for mode in [R::NearestEven, R::TowardZero, R::Down, R::Up] {
        assert_eq!(cvt(N::F16, N::F64, mode, double), 0x7e00);
        assert_eq!(cvt(N::Bf16, N::F64, mode, double), 0x7fc0);
        assert_eq!(cvt(N::F32, N::F64, mode, double), 0x7fc0_0000);
    }
    assert_eq!(cvt(N::F32, N::Bf16, R::NearestEven, 0x7fc1), 0x7fc1_0000);
    assert_eq!(cvt(N::Tf32, N::F32, R::NearestAway, 0x7fc0_0001), 0x7fc0_0000);
    assert_eq!(cvt(N::Tf32, N::F32, R::NearestEven, 0x7fc0_0001), 0x7fff_e000);
    assert_eq!(cvt(N::Tf32, N::F32, R::TowardZero, 0x7fc0_0001), 0x7fff_e000);
    assert_eq!(cvt(N::F16, N::F32, R::NearestEven, 0x7fc0_0001), 0x7fff);
    let relu = Conversion { relu: true, ..Conversion::new(N::Tf32, N::F32, R::TowardZero) };
    assert_eq!(relu.convert(0x7fc0_0001), 0x7fff_e000);
}

#[test]
fn packed_conversions() {
    let f = |x: f32| u64::from(x.to_bits());
    let rn = |to, from| Conversion::new(to, from, R::NearestEven);
    assert_eq!(rn(N::Bf16, N::F32).convert_pair(f(1.0), f(-2.0)), 0x3f80_c000);
    let fp8 = Conversion { satfinite: true, ..rn(N::E4m3, N::F32) };
    assert_eq!(fp8.convert_pair(f(1.0), f(1e9)), 0x387e);
    assert_eq!(fp8.convert_pair(f(f32::NAN), f(-1e-9)), 0x7f80);
    let fp8 = Conversion { satfinite: true, ..rn(N::E5m2, N::F32) };
    assert_eq!(fp8.convert_pair(f(f32::INFINITY), f(f32::NAN)), 0x7b7f);
    let fp4 = Conversion { satfinite: true, ..rn(N::E2m1, N::F32) };
    assert_eq!(fp4.convert_pair(f(-1.0), f(100.0)), 0xa7);
    for a in 0..=255u64 {
        for (small, format) in [(N::E4m3, Format::E4M3), (N::E5m2, Format::E5M2)] {
            let wide = rn(N::F16, small).convert_packed(a << 8 | 0x38);
            let back = Conversion { satfinite: true, ..rn(small, N::F16) }.convert_packed(wide);
            let value = format.decode(a);
            let expected = match value {
                Value::Nan => 0x7f,
                Value::Infinite { .. } => a - 1,
                Value::Finite { .. } => a,
            };
            assert_eq!(back >> 8, expected, "{small:?} {a:x} {wide:x}");
            assert_eq!(back & 0xff, 0x38);
        }
    }
}

#[test]
fn approximations() {
    let f = |x: f32| x.to_bits();
    assert_eq!(rcp_approx_f32(f(-0.0)), f(f32::NEG_INFINITY));
    assert_eq!(rsqrt_approx_f32(f(-0.0)), f(f32::NEG_INFINITY));
    assert_eq!(rsqrt_approx_f32(f(-1.0)), NAN_F32);
    assert_eq!(lg2_approx_f32(f(-0.0)), f(f32::NEG_INFINITY));
    assert_eq!(lg2_approx_f32(f(8.0)), f(3.0));
    assert_eq!(ex2_approx_f32(f(-3.0)), f(0.125));
    assert_eq!(ex2_approx_f32(f(f32::NEG_INFINITY)), 0);
    assert_eq!(sin_approx_f32(f(f32::INFINITY)), NAN_F32);
    assert_eq!(tanh_approx_f32(f(f32::INFINITY)), f(1.0));
    assert_eq!(div_approx_f32(f(1.0), f(2e38)), 0);
    assert_eq!(div_approx_f32(f(f32::INFINITY), f(2e38)), NAN_F32);
    assert_eq!(div_approx_f32(f(1.0), f(f32::INFINITY)), 0);
    assert_eq!(div_full_f32(f(6.0), f(3.0)), f(2.0));
    assert_eq!(with_ftz_f32(f(1e-40), rcp_approx_f32), f(f32::INFINITY));
    assert_eq!(rcp_approx_ftz_f64(4.0f64.to_bits()), 0.25f64.to_bits());
    assert_eq!(rsqrt_approx_ftz_f64(4.0f64.to_bits()), 0.5f64.to_bits());
    assert_eq!(rcp_approx_ftz_f64(1), f64::INFINITY.to_bits());
    assert_eq!(ex2_approx_f16(0x3c00), 0x4000);
    assert_eq!(tanh_approx_bf16(0x7f80), 0x3f80);
}
