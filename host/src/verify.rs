//! Checks a product against a reference that is more exact than any engine.
//!
//! [`check`] sums every element again, for floats of up to 32 bits in f64, for f64 in compensated
//! arithmetic of about twice its precision, for i8 and i32 in the same wrapping arithmetic, and
//! compares within a bound that follows from K and the dtype. NaN passes only where IEEE arithmetic
//! gives NaN. The bound and the rules are derived in docs/numerics.md.
//!
//! ```
//! use gemmite::{Device, Op, Shape, matmul, random, verify};
//!
//! let a = random::normal::<f32>(Shape::new(20, 30), 1)?;
//! let b = random::normal::<f32>(Shape::new(30, 10), 2)?;
//! let c = matmul(&Device::best(), &a, &b)?;
//! let problem = verify::Problem::product(a.view(), b.view());
//! let exactness = verify::check(&problem, c.view(), verify::Rows::All)?;
//! assert!(exactness.max_err_over_bound <= 1.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod aligned;
mod bound;
mod fused;
mod outcome;
mod scaled;
mod sums;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use std::hash::{BuildHasher, RandomState};

use crate::element::{Element, OutputOf, Scalar};
use crate::matrix::MatrixRef;
use crate::parallel;
use bound::Rules;
use gemm_spec::{DType, Op, Precision, Shape};
use outcome::{Tally, Verdict};
use sums::{PANEL, SumRow, Sums};

pub use fused::check_fused;
pub use outcome::{Exactness, Mismatch, Wrong};
pub use scaled::check_scaled;

/// A product C = alpha * op(A) * op(B) + beta * C, as it was asked for.
#[derive(Clone, Copy, Debug)]
pub struct Problem<'a, T: Element, C: OutputOf<T> = <T as Element>::Output> {
    /// A before `op_a`; op(A): (m, k).
    pub a: MatrixRef<'a, T>,
    /// B before `op_b`; op(B): (k, n).
    pub b: MatrixRef<'a, T>,
    /// What is done with A first.
    pub op_a: Op,
    /// What is done with B first.
    pub op_b: Op,
    /// How exactly elements of f32 had to be multiplied.
    pub precision: Precision,
    /// Factor of the product; where it is 0, A and B take no part.
    pub alpha: C::Scalar,
    /// Factor of C's old value; where it is `None` or 0, that value takes no part.
    pub beta: Option<C::Scalar>,
    /// C's old value, (m, n); needed where it takes part.
    pub c: Option<MatrixRef<'a, C>>,
}

impl<'a, T: Element, C: OutputOf<T>> Problem<'a, T, C> {
    /// The plain product A * B. a: (m, k), b: (k, n).
    pub fn product(a: MatrixRef<'a, T>, b: MatrixRef<'a, T>) -> Self {
        let alpha = <C::Scalar as Scalar>::ONE;
        Problem {
            a,
            b,
            op_a: Op::None,
            op_b: Op::None,
            precision: Precision::Full,
            alpha,
            beta: None,
            c: None,
        }
    }
}

/// Which rows of the output are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// Every row.
    All,
    /// One row of each of `count` bands of as many rows, at random from `seed`, and the first and
    /// the last row besides; every row where `count` reaches them all. For outputs so large that
    /// summing them again takes too long: each sampled row is checked whole.
    Sampled {
        /// Rows to choose.
        count: usize,
        /// The same seed chooses the same rows.
        seed: u64,
    },
}

impl Rows {
    /// [`Rows::Sampled`], of a seed that is another in each call: what one verification does not
    /// look at another does.
    pub fn drawn(count: usize) -> Rows {
        Rows::Sampled { count, seed: RandomState::new().hash_one(count) }
    }
}

/// Whether sums of `k` terms have a bound that something wrong exceeds.
pub(crate) fn has_bound(dtype: DType, k: usize) -> bool {
    dtype.is_integer() || k <= bound::max_k(dtype)
}

/// Checks `out` element by element against the product that `problem` asks for.
///
/// The time is that of m * n * k multiplications in f64 on all cores for [`Rows::All`]. Beside the
/// operands it needs memory for at most 2^22 elements of A and, for each core, 16 columns of B in
/// f64.
///
/// # Errors
/// [`Mismatch`] where an element is wrong, where the shapes do not fit each other, or where K is so
/// large that the dtype's bound would let anything pass (2^23 for sums in f32, 2^15 where the
/// elements have 8 bits).
pub fn check<T: Element, C: OutputOf<T>>(
    problem: &Problem<'_, T, C>,
    out: MatrixRef<'_, C>,
    rows: Rows,
) -> Result<Exactness, Mismatch> {
    let checked = Checked::new(problem, out, false)?;
    let rows = rows.of(out.shape())?;
    let tally = match T::DTYPE {
        _ if C::DTYPE == DType::I32 => checked.run(&Wrapping::new(problem), &rows),
        dtype => checked.run(&Floating::new(&checked, sums::row_of(dtype)), &rows),
    };
    tally.finish(T::DTYPE, out.shape(), checked.a.shape().cols)
}

impl Rows {
    fn of(self, shape: Shape) -> Result<Vec<usize>, Mismatch> {
        let rows = if shape.is_empty() { 0 } else { shape.rows };
        match self {
            Rows::Sampled { count, seed } if count < rows => {
                // What is sampled is held twice.
                let mut room = Vec::<[usize; 4]>::new();
                room.try_reserve_exact(count).map_err(|_| Mismatch::rows(shape))?;
                drop(room);
                let mut rng = ChaCha8Rng::seed_from_u64(seed);
                let start = |band: usize| (band as u128 * rows as u128 / count as u128) as usize;
                let of_band = |band| rng.random_range(start(band)..start(band + 1));
                let mut chosen: Vec<usize> = (0..count).map(of_band).collect();
                chosen.extend([0, rows - 1]);
                chosen.sort_unstable();
                chosen.dedup();
                Ok(chosen)
            }
            _ => {
                let mut all = Vec::new();
                all.try_reserve_exact(rows).map_err(|_| Mismatch::rows(shape))?;
                all.extend(0..rows);
                Ok(all)
            }
        }
    }
}

/// A problem whose shapes fit; the transposes are applied.
struct Checked<'a, T, C> {
    a: MatrixRef<'a, T>,
    b: MatrixRef<'a, T>,
    /// `None` where C is not read.
    c: Option<MatrixRef<'a, C>>,
    out: MatrixRef<'a, C>,
    precision: Precision,
    alpha: f64,
    beta: Option<f64>,
    /// Terms of each sum: 0 where A and B are not read.
    k: usize,
}

impl<'a, T: Element, C: OutputOf<T>> Checked<'a, T, C> {
    /// `pairs`: C has one column for two of op(B).
    fn new(
        problem: &Problem<'a, T, C>,
        out: MatrixRef<'a, C>,
        pairs: bool,
    ) -> Result<Self, Mismatch> {
        let apply = |matrix: MatrixRef<'a, T>, op| match op {
            Op::None => matrix,
            Op::Transpose => matrix.t(),
        };
        let (a, b) = (apply(problem.a, problem.op_a), apply(problem.b, problem.op_b));
        let cols = if pairs { b.shape().cols / 2 } else { b.shape().cols };
        let product = Shape::new(a.shape().rows, cols);
        if a.shape().cols != b.shape().rows {
            return Err(Mismatch::inner(a.shape(), b.shape()));
        }
        if out.shape() != product {
            return Err(Mismatch::output(product, out.shape()));
        }
        let alpha = problem.alpha.to_f64();
        let beta = problem.beta.map(Element::to_f64).filter(|&beta| beta != 0.0);
        let c = match (beta, problem.c) {
            (None, _) => None,
            (Some(_), None) => return Err(Mismatch::no_c()),
            (Some(_), Some(c)) if c.shape() != product => {
                return Err(Mismatch::output(product, c.shape()));
            }
            (Some(_), c) => c,
        };
        let k = if alpha == 0.0 { 0 } else { a.shape().cols };
        if !has_bound(T::DTYPE, k) {
            return Err(Mismatch::unbounded(T::DTYPE, k, bound::max_k(T::DTYPE)));
        }
        // Rows of A and columns of B are copied, at least one of them; views may repeat more.
        let mut room = Vec::<[f64; PANEL + 1]>::new();
        let wanted = if product.is_empty() { 0 } else { k };
        room.try_reserve_exact(wanted).map_err(|_| Mismatch::terms(k))?;
        let precision = problem.precision;
        Ok(Checked { a, b, c, out, precision, alpha, beta, k })
    }

    /// Sums and judges the elements of `rows`, sixteen columns at a time, in blocks of rows that
    /// share one copy of A.
    fn run<R: Reference<T, C>>(&self, reference: &R, rows: &[usize]) -> Tally {
        const BLOCK_ELEMS: usize = 1 << 22;
        const COPY_ELEMS: usize = 1 << 14;
        let [block_rows, rows_of_copy] =
            [BLOCK_ELEMS, COPY_ELEMS].map(|elems| (elems / self.k.max(1)).max(1));
        let panels = self.out.shape().cols.div_ceil(PANEL);
        let mut tally = Tally::default();
        for rows in rows.chunks(block_rows) {
            let mut a = vec![R::Operand::default(); rows.len() * self.k];
            parallel::each_chunk(&mut a, rows_of_copy * self.k.max(1), |copy, a| {
                let rows = &rows[copy * rows_of_copy..];
                for (&i, a) in rows.iter().zip(a.chunks_mut(self.k.max(1))) {
                    for (k, a) in a.iter_mut().enumerate() {
                        *a = R::operand(self.a[(i, k)]);
                    }
                }
            });
            let of_panel = |panel| self.run_panel(reference, rows, &a, panel);
            tally = tally.merge(parallel::reduce(panels, &of_panel, Tally::merge));
        }
        tally
    }

    /// Judges the elements in `rows` and in the columns of one panel. a: (rows, k), row-major.
    fn run_panel<R: Reference<T, C>>(
        &self,
        reference: &R,
        rows: &[usize],
        a: &[R::Operand],
        panel: usize,
    ) -> Tally {
        let first = panel * PANEL;
        let lanes = PANEL.min(self.out.shape().cols - first);
        let mut b = vec![[R::Operand::default(); PANEL]; self.k];
        for (k, b) in b.iter_mut().enumerate() {
            for (lane, b) in b[..lanes].iter_mut().enumerate() {
                *b = R::operand(self.b[(k, first + lane)]);
            }
        }
        // Rows in parallel too, for outputs with few columns.
        const ROWS_PER_TASK: usize = 64;
        let of_task = |task: usize| {
            let mut tally = Tally::default();
            for (at, &i) in rows.iter().enumerate().skip(task * ROWS_PER_TASK).take(ROWS_PER_TASK) {
                let a = &a[at * self.k..][..self.k];
                let sums = reference.sums((i, first), a, &b);
                for lane in 0..lanes {
                    let j = first + lane;
                    let c = self.c.map(|c| c[(i, j)]);
                    tally.add((i, j), reference.judge(&sums, lane, c, self.out[(i, j)], (a, &b)));
                }
            }
            tally
        };
        parallel::reduce(rows.len().div_ceil(ROWS_PER_TASK), &of_task, Tally::merge)
    }
}

/// One way to compute the reference.
trait Reference<T, C>: Sync {
    /// An operand's element as it is multiplied.
    type Operand: Copy + Default + Send + Sync;
    /// The sums of one row with a panel.
    type Sums;

    fn operand(element: T) -> Self::Operand;

    /// Of the row and of the columns from `at` on. a: (k,), b: (k, PANEL).
    fn sums(
        &self,
        at: (usize, usize),
        a: &[Self::Operand],
        b: &[[Self::Operand; PANEL]],
    ) -> Self::Sums;

    /// Judges `out`, whose sum is in lane `lane`; `c` is C's old value where it takes part.
    fn judge(
        &self,
        sums: &Self::Sums,
        lane: usize,
        c: Option<C>,
        out: C,
        operands: (&[Self::Operand], &[[Self::Operand; PANEL]]),
    ) -> Verdict;
}

/// Wrapping i32, compared exactly.
struct Wrapping {
    alpha: i32,
    beta: i32,
}

impl Wrapping {
    fn new<T: Element, C: OutputOf<T>>(problem: &Problem<'_, T, C>) -> Self {
        // An i32 passes through f64 unchanged.
        let integer = |scalar: C::Scalar| scalar.to_f64() as i32;
        Wrapping { alpha: integer(problem.alpha), beta: problem.beta.map_or(0, integer) }
    }
}

impl<T: Element, C: Element> Reference<T, C> for Wrapping {
    type Operand = i32;
    type Sums = [i32; PANEL];

    fn operand(element: T) -> i32 {
        element.to_f64() as i32
    }

    fn sums(&self, _: (usize, usize), a: &[i32], b: &[[i32; PANEL]]) -> [i32; PANEL] {
        sums::wrapping_row(a, b)
    }

    fn judge(
        &self,
        sums: &[i32; PANEL],
        lane: usize,
        c: Option<C>,
        out: C,
        _: (&[i32], &[[i32; PANEL]]),
    ) -> Verdict {
        let integer = |element: C| element.to_f64() as i32;
        let c = c.map_or(0, integer);
        let expected = self.alpha.wrapping_mul(sums[lane]).wrapping_add(self.beta.wrapping_mul(c));
        Verdict::exact(integer(out), expected)
    }
}

/// Floating point, compared within the bound.
struct Floating {
    rules: Rules,
    sum_row: SumRow,
}

impl Floating {
    fn new<T: Element, C: Element>(checked: &Checked<'_, T, C>, sum_row: SumRow) -> Self {
        let dtypes = (T::DTYPE, C::DTYPE);
        let rules = Rules::new(dtypes, checked.k, checked.alpha, checked.beta);
        Floating { rules: rules.precision(checked.precision), sum_row }
    }
}

impl<T: Element, C: Element> Reference<T, C> for Floating {
    type Operand = f64;
    type Sums = Sums;

    fn operand(element: T) -> f64 {
        element.to_f64()
    }

    fn sums(&self, _: (usize, usize), a: &[f64], b: &[[f64; PANEL]]) -> Sums {
        (self.sum_row)(a, b)
    }

    fn judge(
        &self,
        sums: &Sums,
        lane: usize,
        c: Option<C>,
        out: C,
        operands: (&[f64], &[[f64; PANEL]]),
    ) -> Verdict {
        let c = c.map_or(0.0, C::to_f64);
        Verdict::bounded(out.to_f64(), &self.rules.expect(sums, lane, c, operands))
    }
}

#[cfg(test)]
mod tests;
