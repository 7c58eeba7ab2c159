//! Sums of thousands of whole numbers, which no order of adding them rounds: the bound of a long
//! sum of random numbers lets a part of K be missing, and here one product is not.

use gemmite::emulator::Options;
use gemmite::verify::{Problem, Rows, check};
use gemmite::{Device, Element, Gemm, Matrix, Op, OutputOf, Precision, Shape, bf16, f16};
use gemmite_tests::{cuda, say};

/// From -2 to 2, by a hash of the place.
fn numbers<T: Element>(shape: Shape, seed: usize) -> Matrix<T> {
    Matrix::from_fn(shape, |i, j| {
        let mixed = (i * 0x9E37_79B1 + j * 0x85EB_CA77 + seed).wrapping_mul(0xC2B2_AE3D);
        T::from_f64(((mixed >> 13) % 5) as f64 - 2.0)
    })
    .unwrap()
}

/// All plans that the library compares, and the kernels that were named.
fn all_plans<T: Element, C: OutputOf<T>>(
    device: &Device,
    gemm: &Gemm<T, C>,
    (m, n, k): (usize, usize, usize),
    named: &[&str],
) {
    for (op_a, op_b) in [(Op::None, Op::None), (Op::None, Op::Transpose), (Op::Transpose, Op::None)]
    {
        let stored = |op, rows, cols| match op {
            Op::None => Shape::new(rows, cols),
            Op::Transpose => Shape::new(cols, rows),
        };
        let (a, b) = (numbers(stored(op_a, m, k), 1), numbers(stored(op_b, k, n), 2));
        let gemm = gemm.clone().op_a(op_a).op_b(op_b);
        let plans = gemm.plans(device.info(), a.view().layout(), b.view().layout()).unwrap();
        let planned = plans.iter().map(|plan| (plan.to_string(), gemm.clone().kernel(plan)));
        let named = named.iter().map(|name| (name.to_string(), gemm.clone().kernel(*name)));
        let (on_a, on_b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
        let mut expected: Option<Matrix<C>> = None;
        for (plan, gemm) in planned.chain(named) {
            let mut c = device.uninit(Shape::new(m, n)).unwrap();
            gemm.run_device(&on_a, &on_b, &mut c).unwrap();
            let c = c.download().unwrap();
            // What one of them has, and is right, all have to the bit.
            if let Some(expected) = &expected {
                let is_same = expected.as_slice() == c.as_slice();
                assert!(is_same, "{plan} of {m}x{n}x{k} {op_a:?} {op_b:?} on {device}");
                continue;
            }
            let problem = Problem { op_a, op_b, ..Problem::product(a.view(), b.view()) };
            let exactness = check(&problem, c.view(), Rows::drawn(24));
            exactness.unwrap_or_else(|wrong| panic!("{plan} on {device}: {wrong}"));
            expected = Some(c);
        }
    }
}

#[test]
fn emulated() {
    let options = Options { multiprocessors: Some(6), arch: (9, 0), ..Options::default() };
    let device = Device::emulator_with(&options).unwrap();
    all_plans(&device, &Gemm::<bf16>::new(), (40, 72, 520), &["warp_group_64x64/3"]);
    let older = Device::emulator_with(&Options { arch: (8, 0), ..options }).unwrap();
    all_plans(&older, &Gemm::<f32>::new(), (9, 20, 501), &["k10_grouped_order/5"]);
}

#[test]
fn on_cuda() {
    let Some(device) = cuda() else { return };
    let info = device.info();
    let named: &[&str] = match info.compute_capability {
        Some((9, 0)) => &["warp_group_64x64/40", "warp_group_128x128/9", "k11_tensor_core/33"],
        _ => &["k02_tiled_16/33"],
    };
    let split: &[&str] = match info.compute_capability {
        Some((9, 0)) => &["warp_group_split_128x128/5"],
        _ => &[],
    };
    for sizes in [(64, 64, 262_144), (128, 136, 65_544), (264, 256, 32_768), (520, 512, 16_384)] {
        all_plans(&device, &Gemm::<bf16>::new().output::<f32>(), sizes, named);
        all_plans(&device, &Gemm::<f16>::new(), sizes, named);
        all_plans(&device, &Gemm::<f32>::new().precision(Precision::Tf32), sizes, &[]);
        all_plans(&device, &Gemm::<f32>::new().precision(Precision::Bf16x6), sizes, split);
    }
    for sizes in [(70, 61, 65_537), (128, 130, 8191)] {
        all_plans(&device, &Gemm::<bf16>::new(), sizes, &[]);
        all_plans(&device, &Gemm::<f32>::new(), sizes, &["k10_grouped_order/19"]);
        all_plans(&device, &Gemm::<f64>::new(), sizes, &["k02_tiled_16/33"]);
        all_plans(&device, &Gemm::<i8>::new(), sizes, &[]);
    }
    say("long sums of whole numbers on cuda, 6 dtypes");
}
