//! Sums of thousands of whole numbers, which no order of adding them rounds: the bound of a long sum
//! of random numbers lets a part of K be missing, and here one product is not.

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
fn all_plans<T: OutputOf<T>, C: OutputOf<T>>(
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
        for (plan, gemm) in planned.chain(named) {
            let c = gemm.run(device, &a, &b).unwrap();
            let problem = Problem { op_a, op_b, ..Problem::product(a.view(), b.view()) };
            let exactness = check(&problem, c.view(), Rows::drawn(24));
            exactness.unwrap_or_else(|wrong| panic!("{plan} on {device}: {wrong}"));
        }
    }
}
