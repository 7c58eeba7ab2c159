//! Infinity, small numbers and overflow behind an epilogue.

use super::*;
use crate::matrix::Matrix;
use crate::{Device, Gemm, HostEpilogue};

const INF: f32 = f32::INFINITY;
const NOT_FINITE: [f32; 3] = [INF, -INF, f32::NAN];

fn matrix(rows: usize, cols: usize, data: &[f32]) -> Matrix<f32> {
    Matrix::from_vec(Shape::new(rows, cols), data.to_vec()).unwrap()
}

fn one(x: f32) -> Matrix<f32> {
    matrix(1, 1, &[x])
}

/// Whether `out` is right for a row times columns, one below the other.
fn passes(a: &[f32], b: &[f32], epilogue: &HostEpilogue<'_, f32>, out: f32) -> bool {
    let k = a.len();
    let (a, b) = (matrix(1, k, a), matrix(b.len() / k, k, b));
    let problem = Problem::product(a.view(), b.t());
    check_fused(&problem, epilogue, one(out).view(), Rows::All).is_ok()
}

fn activations() -> impl Iterator<Item = (Activation, HostEpilogue<'static, f32>)> {
    let of = |activation| (activation, HostEpilogue::new().activation(activation));
    Activation::ALL.into_iter().filter(|&of| of != Activation::Identity).map(of)
}

#[test]
fn infinity_times_a_factor_is_infinite() {
    let (two, three) = (one(2.0), one(-3.0));
    let rows = || HostEpilogue::new().row_scale(&two);
    let cols = || HostEpilogue::new().col_scale(&three);
    for (epilogue, right) in [(rows(), INF), (cols(), -INF), (rows().col_scale(&three), -INF)] {
        for out in [INF, -INF, f32::NAN, 0.0, f32::MAX] {
            assert_eq!(passes(&[INF], &[1.0], &epilogue, out), out == right, "{out}");
        }
    }
    let gated = HostEpilogue::new().gated();
    assert!(passes(&[INF], &[1.0, -2.0], &gated, -INF));
    assert!(!passes(&[INF], &[1.0, -2.0], &gated, f32::NAN));
}

#[test]
fn subnormal_numbers_are_kept() {
    let two = one(2.0);
    let scaled = || HostEpilogue::new().row_scale(&two);
    let tiny = f32::from_bits(1 << 9);
    assert!(passes(&[tiny], &[1.0], &scaled(), 2.0 * tiny));
    assert!(!passes(&[tiny], &[1.0], &scaled(), 0.0));
}

#[test]
fn an_activation_of_negative_infinity_is_zero() {
    for (activation, epilogue) in activations() {
        let passes = |out| passes(&[-INF], &[1.0], &epilogue, out);
        assert!(passes(0.0) && passes(-0.0), "{activation}");
        for out in [1.0, -6.0, 1e-6, -1e-6, f32::MAX, INF, -INF, f32::NAN] {
            assert!(!passes(out), "{activation}: {out}");
        }
        // What SiLU's kernel has of it.
        let clamped = -30.0 * (-30f32).exp();
        assert_eq!(passes(clamped), activation != Activation::Relu, "{activation}");
    }
}

#[test]
fn small_numbers_are_held_to_their_size() {
    let sizes = (-30..=-1).flat_map(|exp| [1.0, 2.5].map(|digit| digit * 10f32.powi(exp)));
    for x in sizes.flat_map(|x| [x, -x]) {
        for (activation, epilogue) in activations() {
            let passes = |out| passes(&[x], &[1.0], &epilogue, out);
            let right = activate_f64(activation, x.into()) as f32;
            assert!(passes(right), "{activation} of {x}");
            assert!(right == 0.0 || !passes(0.0), "{activation} of {x}");
            for off in [2e-6, -2e-6] {
                assert!(!passes(right + off * x), "{activation} of {x}");
            }
            // Exact but for the product's rounding.
            let close = passes(right + 4e-7 * x);
            assert_eq!(close, activation != Activation::Relu, "{activation} of {x}");
        }
    }
}

#[test]
fn sums_that_overflow_in_part_may_be_infinite() {
    const MAX: f32 = f32::MAX;
    let both = [MAX, MAX, -MAX, -MAX];
    let bias = one(1.0);
    let biased = || HostEpilogue::new().bias(&bias);
    for out in [1.0, INF, -INF, f32::NAN] {
        assert!(passes(&both, &[1.0; 4], &biased(), out), "{out}");
    }
    let relu = biased().activation(Activation::Relu);
    for (out, right) in [(0.0, true), (INF, true), (f32::NAN, true), (-INF, false)] {
        assert_eq!(passes(&both, &[1.0; 4], &relu, out), right, "{out}");
    }
    // Overflow of one sign.
    for (out, right) in [(INF, true), (0.0, false), (-INF, false), (f32::NAN, false)] {
        assert_eq!(passes(&[MAX, MAX, -1.0, -1.0], &[1.0; 4], &biased(), out), right, "{out}");
    }
    // No overflow.
    let half = both.map(|x| x / 8.0);
    assert!(NOT_FINITE.iter().all(|&out| !passes(&half, &[1.0; 4], &biased(), out)));
    // In a gate, and in what is multiplied by it.
    let gated = HostEpilogue::new().gated();
    let (sum, number) = ([1.0; 4], [1e-30, 0.0, 0.0, 0.0]);
    for columns in [[sum, number], [number, sum]] {
        for out in [0.0, INF, -INF, f32::NAN] {
            assert!(passes(&both, columns.as_flattened(), &gated, out), "{out}");
        }
    }
    let (a, b) = (matrix(1, 4, &both), matrix(4, 1, &[1.0; 4]));
    let c = Gemm::new().fused(biased()).run(&Device::cpu(), &a, &b).unwrap();
    assert!(passes(&both, &[1.0; 4], &biased(), c[(0, 0)]), "{c:?}");
}
