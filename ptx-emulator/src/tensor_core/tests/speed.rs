//! Timings, printed on request: `cargo test -p ptx-emulator -- --ignored --nocapture speed`.

use std::hint::black_box;
use std::time::Instant;

use super::Random;
use crate::tensor_core::{Accumulator as D, Element as E, Mma, Shape, Wgmma};

fn time(name: &str, rounds: u32, mut f: impl FnMut()) {
    let start = Instant::now();
    for _ in 0..rounds {
        f();
    }
    println!("{name:28} {:8.2} us", start.elapsed().as_secs_f64() * 1e6 / f64::from(rounds));
}

#[test]
#[ignore = "prints timings"]
fn speed() {
    let mut random = Random(6);
    for (name, (m, n, k), a, d) in [
        ("mma m16n8k16 bf16", (16, 8, 16), E::Bf16, D::F32),
        ("mma m16n8k16 f16 to f16", (16, 8, 16), E::F16, D::F16),
        ("mma m16n8k8 tf32", (16, 8, 8), E::Tf32, D::F32),
        ("mma m16n8k32 e4m3", (16, 8, 32), E::E4m3, D::F32),
        ("mma m16n8k32 s8", (16, 8, 32), E::S8, D::S32),
        ("mma m16n8k16 f64", (16, 8, 16), E::F64, D::F64),
        ("mma m8n8k4 f64", (8, 8, 4), E::F64, D::F64),
    ] {
        let shape = Shape::new(m, n, k);
        let mma = Mma { shape, a, b: a, c: d, d, satfinite: false };
        let registers = mma.registers();
        let product = mma.product((9, 0));
        let mut warp = |count: usize| -> Vec<[u32; 32]> {
            (0..count).map(|_| [0; 32].map(|_| numbers(random.next()))).collect()
        };
        if a == E::F64 {
            let wide = |warp: Vec<[u32; 32]>| -> Vec<[u64; 32]> {
                warp.into_iter().map(|r| r.map(|x| f64::from(x).to_bits())).collect()
            };
            let (ra, rb) = (wide(warp(registers.a)), wide(warp(registers.b)));
            let (rc, mut rd) = (wide(warp(registers.c)), vec![[0; 32]; registers.d]);
            time(name, 2000, || mma.execute_f64(&product, &ra, &rb, &rc, black_box(&mut rd)));
            continue;
        }
        let (ra, rb, rc) = (warp(registers.a), warp(registers.b), warp(registers.c));
        let mut rd = vec![[0; 32]; registers.d];
        time(name, 2000, || mma.execute(&product, &ra, &rb, &rc, black_box(&mut rd)));
    }
    for (name, n, a, d) in [
        ("wgmma m64n256k16 bf16", 256, E::Bf16, D::F32),
        ("wgmma m64n256k16 f16 to f16", 256, E::F16, D::F16),
        ("wgmma m64n256k32 e4m3", 256, E::E4m3, D::F32),
        ("wgmma m64n256k32 s8", 256, E::S8, D::S32),
        ("wgmma m64n64k8 tf32", 64, E::Tf32, D::F32),
    ] {
        let (satfinite, negate_a, negate_b) = (false, false, false);
        let wgmma = Wgmma { n, a, b: a, d, satfinite, negate_a, negate_b };
        let Shape { m, k, .. } = wgmma.shape();
        let mut matrix =
            |count: usize| -> Vec<u32> { (0..count).map(|_| numbers(random.next())).collect() };
        let (left, right) = (matrix(m * k), matrix(k * n));
        let mut sums: [_; 4] =
            std::array::from_fn(|_| vec![[0u32; 32]; wgmma.accumulator_registers()]);
        time(name, 50, || {
            let sums = sums.each_mut().map(|x| &mut x[..]);
            wgmma.execute((9, 0), &left, &right, false, black_box(sums));
        });
    }
}

/// A word whose bytes, halves and whole are numbers near 1 in every type.
fn numbers(bits: u64) -> u32 {
    let high = (0x38 | bits & 0x87) << 8 | bits >> 8 & 0xbf;
    let low = (0x38 | bits >> 16 & 0x87) << 8 | bits >> 24 & 0xbf;
    (high << 16 | low) as u32
}
