//! The loops against each other, and against the verification.

use super::*;
use crate::element::Element;
use crate::{bf16, f16, random, verify};

const SIZES: [usize; 6] = [0, 1, 15, 16, 17, 33];

fn every_shape(mut visit: impl FnMut(Shape, Shape)) {
    for m in SIZES {
        for n in SIZES {
            for k in SIZES {
                visit(Shape::new(m, k), Shape::new(k, n));
            }
        }
    }
}

fn floats_agree<T: Element>() {
    every_shape(|a, b| {
        let (a, b) = (random::normal::<T>(a, 1).unwrap(), random::normal::<T>(b, 2).unwrap());
        let problem = verify::Problem::product(a.view(), b.view());
        let first = ijk(a.view(), b.view()).unwrap();
        for (name, run) in loops::<T>() {
            let c = run(a.view(), b.view()).unwrap();
            assert_eq!(c, first, "{name} adds in the order of k");
            if let Err(mismatch) = verify::check(&problem, c.view(), verify::Rows::All) {
                panic!("{name}: {mismatch}");
            }
        }
    });
}

#[test]
fn loops_agree_within_the_bound() {
    floats_agree::<f32>();
    floats_agree::<f64>();
    floats_agree::<f16>();
    floats_agree::<bf16>();
}

#[test]
fn loops_agree_exactly_on_integers() {
    every_shape(|a, b| {
        let depth = a.cols;
        // Large enough for sums to wrap around.
        let a = Matrix::from_fn(a, |i, j| (i as i32 + 3) * 65_537 - j as i32 * 1_000_003).unwrap();
        let b = Matrix::from_fn(b, |i, j| (j as i32 - 7) * 99_991 + i as i32 * 70_001).unwrap();
        let expected: Vec<i32> = (0..a.shape().rows)
            .flat_map(|i| (0..b.shape().cols).map(move |j| (i, j)))
            .map(|(i, j)| {
                let terms = (0..depth).map(|k| i128::from(a[(i, k)]) * i128::from(b[(k, j)]));
                terms.sum::<i128>() as i32
            })
            .collect();
        for (name, run) in loops::<i32>() {
            let c = run(a.view(), b.view()).unwrap();
            assert_eq!(c.as_slice(), expected, "{name}");
        }
        assert_eq!(tiled::<i32, 1>(a.view(), b.view()).unwrap().as_slice(), expected);
        assert_eq!(tiled::<i32, 5>(a.view(), b.view()).unwrap().as_slice(), expected);
    });
}

#[test]
fn loops_take_transposed_views() {
    let a = random::integers::<i32>(Shape::new(18, 5), 1, -9..=9).unwrap();
    let b = random::integers::<i32>(Shape::new(20, 18), 2, -9..=9).unwrap();
    let (a_copy, b_copy) = (a.t().to_matrix().unwrap(), b.t().to_matrix().unwrap());
    for (name, run) in loops::<i32>() {
        let copied = run(a_copy.view(), b_copy.view()).unwrap();
        assert_eq!(run(a.t(), b.t()).unwrap(), copied, "{name}");
    }
}

#[test]
fn infinity_meets_no_padding() {
    // One column of A, so a tile is padded; 0 * inf would spoil the sum.
    let a = Matrix::from_vec(Shape::new(1, 1), vec![f32::INFINITY]).unwrap();
    let b = Matrix::from_vec(Shape::new(1, 1), vec![2.0f32]).unwrap();
    for (name, run) in loops::<f32>() {
        assert_eq!(run(a.view(), b.view()).unwrap().as_slice(), [f32::INFINITY], "{name}");
    }
}

#[test]
fn shapes_that_do_not_fit_are_errors() {
    let a = Matrix::<f32>::zeros(Shape::new(2, 3)).unwrap();
    for (name, run) in loops::<f32>() {
        assert!(run(a.view(), a.view()).unwrap_err().is_shape(), "{name}");
    }
    let (long, flat) = (Shape::new(usize::MAX, 0), Shape::new(0, 0));
    let long = MatrixRef::<f32>::new(&[], gemm_spec::Layout::row_major(long)).unwrap();
    let flat = MatrixRef::new(&[], gemm_spec::Layout::row_major(flat)).unwrap();
    for (_, run) in loops::<f32>() {
        assert!(run(long, flat).unwrap().as_slice().is_empty());
    }
}
