//! The engine against the plainest loops, at random.

use super::*;
use crate::gemm::Gemm;
use crate::matrix::{MatrixMut, MatrixRef};
use crate::random;
use crate::{Device, Layout, Matrix, Op, Shape, Strides};
use half::{bf16, f16};
use proptest::prelude::*;

/// C = alpha * op(A) * op(B) + beta * C as the definition has it, on small whole numbers, where
/// every dtype is exact.
fn by_definition(
    a: &MatrixRef<'_, i32>,
    b: &MatrixRef<'_, i32>,
    c: &MatrixRef<'_, i32>,
    alpha: i32,
    beta: i32,
) -> Vec<i32> {
    let (rows, cols, depth) = (a.shape().rows, b.shape().cols, a.shape().cols);
    let element = |i: usize, j: usize| {
        let sum: i32 = (0..depth).map(|p| a[(i, p)] * b[(p, j)]).sum();
        alpha * sum + beta * c[(i, j)]
    };
    (0..rows).flat_map(|i| (0..cols).map(move |j| (i, j))).map(|(i, j)| element(i, j)).collect()
}

/// A layout of `shape` with some padding, order and direction, and the buffer length that it needs.
fn layout_of(shape: Shape, col_major: bool, step: usize, flip: (bool, bool)) -> (Layout, usize) {
    let (rows, cols) = (shape.rows.max(1), shape.cols.max(1));
    let (row, col) = if col_major { (step, rows * step + 3) } else { (cols * step + 3, step) };
    let mut offset = 2;
    let mut signed = |flipped: bool, stride: usize, count: usize| {
        if flipped {
            offset += (count - 1) * stride;
        }
        if flipped { -(stride as isize) } else { stride as isize }
    };
    let strides = Strides::new(signed(flip.0, row, rows), signed(flip.1, col, cols));
    (Layout { shape, strides, offset }, rows * cols * step * 2 + 4 * (rows + cols) + 8)
}

fn whole_numbers<T: Element>(len: usize, seed: u64) -> Vec<T> {
    random::integers::<T>(Shape::new(1, len), seed, -4..=4).unwrap().into_vec()
}

fn as_i32<T: Element>(data: &[T]) -> Vec<i32> {
    data.iter().map(|x| x.to_f64() as i32).collect()
}

/// Runs one product of dtype T on the CPU and checks every element of C's buffer, the ones between
/// too.
fn check<T: Element>(shapes: (usize, usize, usize), bits: u16, alpha: i32, beta: i32) {
    let (m, n, k) = shapes;
    let bit = |i: u32| bits >> i & 1 == 1;
    let (op_a, op_b) = (op(bit(0)), op(bit(1)));
    let layout = |op: Op, rows, cols, at| {
        let stored = match op {
            Op::None => Shape::new(rows, cols),
            Op::Transpose => Shape::new(cols, rows),
        };
        layout_of(stored, bit(at), 1 + usize::from(bit(at + 1)), (bit(at + 2), bit(at + 3)))
    };
    let (a_layout, a_len) = layout(op_a, m, k, 2);
    let (b_layout, b_len) = layout(op_b, k, n, 6);
    let (c_layout, c_len) = layout(Op::None, m, n, 10);
    let (a, b) = (whole_numbers::<T>(a_len, 1), whole_numbers::<T>(b_len, 2));
    let mut c = whole_numbers::<T::Output>(c_len, 3);

    let (a_int, b_int, c_int) = (as_i32(&a), as_i32(&b), as_i32(&c));
    let view = |data, layout: Layout, op| MatrixRef::new(data, layout.apply(op)).unwrap();
    let expected = by_definition(
        &view(&a_int, a_layout, op_a),
        &view(&b_int, b_layout, op_b),
        &view(&c_int, c_layout, Op::None),
        alpha,
        beta,
    );
    let mut expected_buffer = c_int.clone();
    for (index, value) in expected.into_iter().enumerate() {
        expected_buffer[c_layout.index(index / n, index % n)] = value;
    }

    Gemm::<T>::new()
        .op_a(op_a)
        .op_b(op_b)
        .alpha(<T::Scalar as Element>::from_f64(alpha.into()))
        .beta(<T::Scalar as Element>::from_f64(beta.into()))
        .run_into(
            &Device::cpu(),
            MatrixRef::new(&a, a_layout).unwrap(),
            MatrixRef::new(&b, b_layout).unwrap(),
            MatrixMut::new(&mut c, c_layout).unwrap(),
        )
        .unwrap();
    assert_eq!(as_i32(&c), expected_buffer, "{} {shapes:?} {bits:b} {alpha} {beta}", T::DTYPE);
}

fn op(transpose: bool) -> Op {
    if transpose { Op::Transpose } else { Op::None }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_strides_and_factors(
        // k is small enough for sums of f16 and bf16 to be exact: |alpha| * 16 * k + |beta| * 4 <=
        // 256.
        shapes in (0usize..40, 0usize..40, 0usize..7),
        bits: u16,
        alpha in -2i32..=2,
        beta in -2i32..=2,
    ) {
        check::<i8>(shapes, bits, alpha, beta);
        check::<i32>(shapes, bits, alpha, beta);
        check::<f16>(shapes, bits, alpha, beta);
        check::<bf16>(shapes, bits, alpha, beta);
        check::<f32>(shapes, bits, alpha, beta);
        check::<f64>(shapes, bits, alpha, beta);
    }
}

#[test]
fn more_than_one_tile_each_way() {
    for shapes in [(129, 257, 259), (1, 600, 513), (300, 1, 300)] {
        check::<i32>(shapes, 0, 1, 0);
        check::<i32>(shapes, 0b0010_1011, -2, 1);
        check::<f32>(shapes, 0b0001_0011, 1, 1);
        check::<f64>(shapes, 0b1001_0010, 1, 1);
    }
}

#[test]
fn half_types_round_once() {
    // 2048 + 1 + 1 + ... in f16: each single addition would be lost to rounding, the sum is not.
    let ones = 2048;
    let a = Matrix::from_fn(Shape::new(1, ones + 1), |_, p| {
        f16::from_f64(if p == 0 { 2048.0 } else { 1.0 })
    })
    .unwrap();
    let b = Matrix::from_fn(Shape::new(ones + 1, 1), |_, _| f16::ONE).unwrap();
    let c = crate::matmul(&Device::cpu(), &a, &b).unwrap();
    assert_eq!(c[(0, 0)], f16::from_f64(4096.0));
}

#[test]
fn i32_wraps_in_sums_and_factors() {
    let a = Matrix::from_vec(Shape::new(1, 2), vec![i32::MAX, i32::MAX]).unwrap();
    let b = Matrix::from_vec(Shape::new(2, 1), vec![i32::MAX, 3]).unwrap();
    let c = Gemm::new().alpha(i32::MAX).run(&Device::cpu(), &a, &b).unwrap();
    let sum = i32::MAX.wrapping_mul(i32::MAX).wrapping_add(i32::MAX.wrapping_mul(3));
    assert_eq!(c[(0, 0)], sum.wrapping_mul(i32::MAX));
}

#[test]
fn repeated_rows_and_columns_are_read_where_they_lie() {
    let one = [3.0f32];
    let repeated = |rows, cols| {
        let layout = Layout::strided(Shape::new(rows, cols), Strides::new(0, 0));
        MatrixRef::new(&one, layout).unwrap()
    };
    let c = crate::matmul(&Device::cpu(), repeated(5, 70), repeated(70, 9)).unwrap();
    assert!(c.as_slice().iter().all(|&x| x == 630.0));
}

/// Alpha is a factor of the sum, not of an operand: alpha * B alone would leave the range here.
#[test]
fn alpha_meets_the_sum_and_nothing_else() {
    let product = |a: [f32; 2], b: [f32; 2], alpha| {
        let a = Matrix::from_vec(Shape::new(2, 1), a.to_vec()).unwrap();
        let b = Matrix::from_vec(Shape::new(1, 2), b.to_vec()).unwrap();
        Gemm::new().alpha(alpha).run(&Device::cpu(), &a, &b).unwrap().into_vec()
    };
    assert_eq!(product([1e30; 2], [1e-30; 2], 1e-30), [1e30f32 * 1e-30 * 1e-30; 4]);
    assert_eq!(product([0.0; 2], [1e30; 2], 1e30), [0.0; 4]);
    let row = Matrix::from_fn(Shape::new(1, 300), |_, _| 0.0f32).unwrap();
    let b = Matrix::from_fn(Shape::new(300, 40), |_, _| 1e30f32).unwrap();
    let c = Gemm::new().alpha(1e30).run(&Device::cpu(), &row, &b).unwrap();
    assert_eq!(c.as_slice(), [0.0; 40]);
}
