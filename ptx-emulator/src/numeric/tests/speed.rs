//! Timings, printed on request: `cargo test -p ptx-emulator -- --ignored --nocapture speed`.

use std::hint::black_box;
use std::time::Instant;

use super::super::*;
use super::Patterns;

/// Prints the time of one call of `f` for a warp.
fn time(name: &str, mut f: impl FnMut()) {
    let rounds = 20_000;
    let start = Instant::now();
    for _ in 0..rounds {
        f();
    }
    let nanoseconds = start.elapsed().as_secs_f64() * 1e9 / f64::from(rounds);
    println!("{name:30} {nanoseconds:8.1} ns per warp");
}

#[test]
#[ignore = "prints timings"]
fn speed() {
    let mut p = Patterns(9);
    let mut random = || [0u32; 32].map(|_| 0x3f80_0000 | p.f32() & 0x807f_ffff);
    let (a, b, c) = (random(), random(), random());
    let mut d = [0u32; 32];
    let rn = Rounding::NearestEven;
    time("batch::add_f32", || batch::add_f32(black_box(&a), black_box(&b), black_box(&mut d)));
    time("batch::fma_f32", || {
        batch::fma_f32(black_box(&a), black_box(&b), black_box(&c), black_box(&mut d));
    });
    time("batch::fma_f32_portable", || {
        batch::fma_f32_portable(black_box(&a), black_box(&b), black_box(&c), black_box(&mut d));
    });
    let wide = |x: [u32; 32]| x.map(|x| f64::from(f32::from_bits(x)).to_bits());
    let (x, y, z, mut w) = (wide(a), wide(b), wide(c), [0; 32]);
    time("batch::fma_f64", || {
        batch::fma_f64(black_box(&x), black_box(&y), black_box(&z), black_box(&mut w));
    });
    let mut lanes = |name: &str, f: &dyn Fn(u32, u32, u32) -> u32| {
        time(name, || {
            for lane in 0..32 {
                d[lane] = f(black_box(a[lane]), b[lane], c[lane]);
            }
            black_box(&mut d);
        });
    };
    lanes("f32::mul_add", &|a, b, c| {
        f32::from_bits(a).mul_add(f32::from_bits(b), f32::from_bits(c)).to_bits()
    });
    lanes("fma_f32 rn", &|a, b, c| fma_f32(a, b, c, rn));
    lanes("fma_f32 rz", &|a, b, c| fma_f32(a, b, c, Rounding::TowardZero));
    lanes("add_f32 rz", &|a, b, _| add_f32(a, b, Rounding::TowardZero));
    lanes("fma_f64 rn", &|a, b, c| {
        let [a, b, c] = [a, b, c].map(|x| u64::from(x) << 32 | 1);
        fma_f64(a, b, c, rn) as u32
    });
    lanes("fma_bf16x2", &|a, b, c| packed3(a, b, c, fma_bf16));
    let to = |to, from| Conversion::new(to, from, rn);
    let bf16 = to(Number::Bf16, Number::F32);
    lanes("cvt.rn.bf16x2.f32", &|a, b, _| bf16.convert_pair(a.into(), b.into()) as u32);
    let s32 = to(Number::S32, Number::F32);
    lanes("cvt.rni.s32.f32", &|a, _, _| s32.convert(a.into()) as u32);
    let e4m3 = to(Number::E4m3, Number::F32);
    lanes("cvt.rn.satfinite.e4m3x2.f32", &|a, b, _| e4m3.convert_pair(a.into(), b.into()) as u32);
    lanes("ex2.approx.f32", &|a, _, _| ex2_approx_f32(a));
}
