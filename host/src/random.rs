//! Seeded matrices: the same elements on every machine.

use crate::element::Element;
use crate::error::Error;
use crate::matrix::Matrix;
use crate::parallel;
use gemm_spec::{DType, Shape};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal, Uniform};
use std::ops::RangeInclusive;

/// Elements from N(0, 1), each rounded to its dtype. Whole numbers have no use for so narrow a
/// distribution: those of `i32` are drawn from N(0, 100^2) and cut, those of `i8` from N(0, 32^2),
/// cut, and held between -128 and 127.
///
/// # Errors
/// When there is not memory enough.
pub fn normal<T: Element>(shape: Shape, seed: u64) -> Result<Matrix<T>, Error> {
    let scale = match T::DTYPE {
        DType::I8 => 32.0,
        DType::I32 => 100.0,
        _ => 1.0,
    };
    fill(shape, seed, StandardNormal, |x: f64| T::from_f64(scale * x))
}

/// Elements uniform in [0, 1), each rounded to its dtype (so that 1 itself can occur). Whole
/// numbers are uniform over -100 to 100.
///
/// # Errors
/// When there is not memory enough.
pub fn uniform<T: Element>(shape: Shape, seed: u64) -> Result<Matrix<T>, Error> {
    if T::DTYPE.is_integer() {
        return integers(shape, seed, -100..=100);
    }
    fill(shape, seed, rand_distr::StandardUniform, T::from_f64)
}

/// Whole numbers, uniform over `range`. Where all sums of products stay exact in the dtype, two
/// correct products of such matrices are equal to the bit, in whatever order they were summed.
///
/// An empty range counts as its start alone.
///
/// # Errors
/// When there is not memory enough.
pub fn integers<T: Element>(
    shape: Shape,
    seed: u64,
    range: RangeInclusive<i32>,
) -> Result<Matrix<T>, Error> {
    let (start, end) = (*range.start(), (*range.end()).max(*range.start()));
    match Uniform::new_inclusive(start, end) {
        Ok(distribution) => fill(shape, seed, distribution, |x: i32| T::from_f64(x.into())),
        Err(_) => Matrix::from_fn(shape, |_, _| T::from_f64(start.into())),
    }
}

/// Elements that one stream of the generator makes. A constant, not the share of a thread: the
/// elements are to be the same on every machine.
const CHUNK: usize = 1 << 14;

/// Each chunk of the elements comes from a stream of its own, on whichever core is free.
fn fill<T: Element, X>(
    shape: Shape,
    seed: u64,
    distribution: impl Distribution<X> + Sync,
    element: impl Fn(X) -> T + Sync,
) -> Result<Matrix<T>, Error> {
    let mut matrix = Matrix::zeros(shape)?;
    parallel::each_chunk(matrix.as_mut_slice(), CHUNK, |stream, chunk| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(stream as u64);
        chunk.fill_with(|| element(distribution.sample(&mut rng)));
    });
    Ok(matrix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_decide() {
        let shape = Shape::new(3, 5);
        let first = normal::<f32>(shape, 1).unwrap();
        assert_eq!(first, normal::<f32>(shape, 1).unwrap());
        assert_ne!(first, normal::<f32>(shape, 2).unwrap());
    }

    #[test]
    fn chunks_differ_and_threads_do_not_matter() {
        let shape = Shape::new(3, CHUNK);
        let matrix = normal::<f64>(shape, 1).unwrap();
        let chunks: Vec<&[f64]> = matrix.as_slice().chunks(CHUNK).collect();
        assert!(chunks[0] != chunks[1] && chunks[1] != chunks[2]);
        let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        assert_eq!(one.install(|| normal::<f64>(shape, 1)).unwrap(), matrix);
    }

    #[test]
    fn values_lie_where_they_should() {
        let shape = Shape::new(100, 100);
        let whole = integers::<f64>(shape, 3, -4..=4).unwrap();
        assert!(whole.as_slice().iter().all(|x| x.abs() <= 4.0 && x.fract() == 0.0));
        assert!(whole.as_slice().contains(&-4.0) && whole.as_slice().contains(&4.0));
        let unit = uniform::<f64>(shape, 3).unwrap();
        assert!(unit.as_slice().iter().all(|x| (0.0..1.0).contains(x)));
        let normal = normal::<f64>(shape, 3).unwrap();
        let variance = normal.as_slice().iter().map(|x| x * x).sum::<f64>() / 1e4;
        assert!((0.9..1.1).contains(&variance), "{variance}");
        #[expect(clippy::reversed_empty_ranges, reason = "what the documentation promises")]
        let constant = integers::<i32>(Shape::new(1, 2), 3, 5..=1).unwrap();
        assert_eq!(constant.as_slice(), [5, 5]);
    }
}
