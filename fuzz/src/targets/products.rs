//! Small products on the CPU by any strides, against the definition.

use crate::Target;
use crate::bytes::Bytes;
use gemmite::{Device, Gemm, Layout, MatrixMut, MatrixRef, Op, Shape};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Elements of each buffer.
const LEN: usize = 256;

/// Products of i32, which are exact, and of f64, whose values are small whole numbers.
pub const PRODUCTS: Target = Target {
    name: "products",
    what: "products on the CPU by any strides, transposes and factors",
    seeds: Vec::new,
    words: &[],
    read: |input| {
        let mut bytes = Bytes(input);
        let (m, n, k) = (bytes.below(7), bytes.below(7), bytes.below(7));
        let (op_a, op_b) = (bytes.op(), bytes.op());
        let stored = |op, shape: Shape| match op {
            Op::None => shape,
            Op::Transpose => shape.transposed(),
        };
        let (a, b) = (stored(op_a, Shape::new(m, k)), stored(op_b, Shape::new(k, n)));
        let layouts = [bytes.near(a), bytes.near(b), bytes.near(Shape::new(m, n))];
        let (alpha, beta) = (bytes.below(7) as i32 - 3, bytes.below(7) as i32 - 3);
        let beta = Some(beta).filter(|_| bytes.byte().is_multiple_of(2));
        read(&data(bytes.byte()), layouts, [op_a, op_b], (alpha, beta))
    },
};

/// What A, B and C hold. An input is too short to say it byte by byte.
fn data(seed: u8) -> [Vec<i32>; 3] {
    let mut rng = ChaCha8Rng::seed_from_u64(seed.into());
    std::array::from_fn(|_| (0..LEN).map(|_| rng.random_range(-128..128)).collect())
}

fn read(
    [a, b, c]: &[Vec<i32>; 3],
    [of_a, of_b, of_c]: [Layout; 3],
    [op_a, op_b]: [Op; 2],
    (alpha, beta): (i32, Option<i32>),
) -> bool {
    let views = (MatrixRef::new(a, of_a), MatrixRef::new(b, of_b));
    let (mut found, mut found_f64) = (c.clone(), of_f64(c));
    let (Ok(view_a), Ok(view_b)) = views else { return false };
    let Ok(into) = MatrixMut::new(&mut found, of_c) else { return false };
    let gemm = Gemm::new().op_a(op_a).op_b(op_b).alpha(alpha);
    let gemm = beta.map_or(gemm.clone(), |beta| gemm.beta(beta));
    gemm.run_into(&Device::cpu(), view_a, view_b, into).expect("the views fit each other");

    let mut expected = c.clone();
    let (left, right) = (of_a.apply(op_a), of_b.apply(op_b));
    for i in 0..of_c.shape.rows {
        for j in 0..of_c.shape.cols {
            let products = (0..left.shape.cols).map(|l| a[left.index(i, l)] * b[right.index(l, j)]);
            let old = beta.map_or(0, |beta| beta * c[of_c.index(i, j)]);
            expected[of_c.index(i, j)] = alpha * products.sum::<i32>() + old;
        }
    }
    assert_eq!(found, expected, "{of_a:?} {of_b:?} {of_c:?}");

    let (a, b) = (of_f64(a), of_f64(b));
    let (a, b) = (MatrixRef::new(&a, of_a), MatrixRef::new(&b, of_b));
    let gemm = Gemm::new().op_a(op_a).op_b(op_b).alpha(f64::from(alpha));
    let gemm = beta.map_or(gemm.clone(), |beta| gemm.beta(f64::from(beta)));
    let into = MatrixMut::new(&mut found_f64, of_c).expect("it fitted before");
    let (a, b) = (a.expect("it fitted before"), b.expect("it fitted before"));
    gemm.run_into(&Device::cpu(), a, b, into).expect("the views fit each other");
    assert_eq!(found_f64, of_f64(&expected), "{of_a:?} {of_b:?} {of_c:?}");
    true
}

fn of_f64(numbers: &[i32]) -> Vec<f64> {
    numbers.iter().copied().map(f64::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_differ_and_are_hardly_ever_zero() {
        for seed in 0..=255 {
            let [a, b, c] = data(seed);
            assert!(a != b && b != c && a != c);
            for buffer in [a, b, c] {
                assert!(buffer.iter().filter(|x| **x == 0).count() < 10, "{seed}");
            }
        }
    }
}
