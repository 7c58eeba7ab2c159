//! What a verification found.

use super::bound::Expected;
use gemm_spec::{DType, Shape};
use std::cmp::Ordering;
use std::fmt;

/// How exact a correct product is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exactness {
    /// The largest error as a fraction of its element's bound: from 0, every element exact, to 1.
    /// Elements that are rightly infinite or NaN do not count.
    pub max_err_over_bound: f64,
    /// Row and column of that element; `None` where every element is exact.
    pub worst: Option<(usize, usize)>,
    /// How many elements were checked.
    pub checked: usize,
}

impl fmt::Display for Exactness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.worst {
            None => write!(f, "{} elements checked, all exact", self.checked),
            Some((row, col)) => write!(
                f,
                "{} elements checked, the largest error is {:.3} of its bound, at ({row}, {col})",
                self.checked, self.max_err_over_bound
            ),
        }
    }
}

/// One wrong element.
#[derive(Clone, Copy, Debug)]
pub struct Wrong {
    /// Its row.
    pub row: usize,
    /// Its column.
    pub col: usize,
    /// The reference's value, rounded to f64; infinite or NaN where the output has to be.
    pub expected: f64,
    /// What the output has.
    pub got: f64,
    /// How far from `expected` it may be.
    pub bound: f64,
}

impl Wrong {
    /// The error as a multiple of the bound; `None` where there is no such number, because nothing
    /// but the expected value is right, or NaN or infinity takes part.
    pub fn error_over_bound(&self) -> Option<f64> {
        let ratio = (self.got - self.expected).abs() / self.bound;
        Some(ratio).filter(|ratio| ratio.is_finite())
    }
}

/// Why an output was not accepted.
#[derive(Clone, Debug, thiserror::Error)]
#[error(transparent)]
pub struct Mismatch(Box<Kind>);

#[derive(Clone, Debug, thiserror::Error)]
enum Kind {
    #[error("nothing to verify: op(A) is {a} and op(B) is {b}, so there is no product")]
    Inner { a: Shape, b: Shape },
    #[error("the product has shape {product} and the given C has shape {given}")]
    Output { product: Shape, given: Shape },
    #[error("{text}")]
    Epilogue { text: String },
    #[error("{shape} has more rows than memory has room for their numbers: sample fewer")]
    Rows { shape: Shape },
    #[error("K = {k}: memory has no room for one row of A and sixteen columns of B")]
    Terms { k: usize },
    #[error("beta was given, so the verification needs C's old value")]
    NoC,
    #[error(
        "K = {k} is too large to verify {dtype}: beyond {max_k} the bound on the error of a sum is \
         as large as the sum; use a dtype with wider sums"
    )]
    Unbounded { dtype: DType, k: usize, max_k: usize },
    #[error(
        "{wrong} of {checked} elements of a {shape} product of {dtype} (k = {k}) are wrong; {}",
        worst_text(.worst)
    )]
    Elements { dtype: DType, shape: Shape, k: usize, wrong: usize, checked: usize, worst: Wrong },
}

fn worst_text(worst: &Wrong) -> String {
    let Wrong { row, col, expected, got, bound } = *worst;
    let difference = (got - expected).abs();
    let times = worst.error_over_bound();
    let times = times.map(|times| format!(" ({times:.3} times the bound)")).unwrap_or_default();
    format!(
        "the worst, at ({row}, {col}): expected {expected:?}, got {got:?}, \
         off by {difference:.3e}, bound {bound:.3e}{times}"
    )
}

impl Mismatch {
    pub(super) fn inner(a: Shape, b: Shape) -> Self {
        Mismatch(Box::new(Kind::Inner { a, b }))
    }

    pub(super) fn output(product: Shape, given: Shape) -> Self {
        Mismatch(Box::new(Kind::Output { product, given }))
    }

    pub(super) fn epilogue(error: &crate::Error) -> Self {
        Mismatch(Box::new(Kind::Epilogue { text: error.to_string() }))
    }

    pub(super) fn rows(shape: Shape) -> Self {
        Mismatch(Box::new(Kind::Rows { shape }))
    }

    pub(super) fn terms(k: usize) -> Self {
        Mismatch(Box::new(Kind::Terms { k }))
    }

    pub(super) fn no_c() -> Self {
        Mismatch(Box::new(Kind::NoC))
    }

    pub(super) fn unbounded(dtype: DType, k: usize, max_k: usize) -> Self {
        Mismatch(Box::new(Kind::Unbounded { dtype, k, max_k }))
    }

    /// How many elements are wrong; 0 where the elements were not looked at, because the shapes do
    /// not fit or K is too large.
    pub fn wrong_elements(&self) -> usize {
        match *self.0 {
            Kind::Elements { wrong, .. } => wrong,
            _ => 0,
        }
    }

    /// The worst element: the one that is the most bounds away, NaN and infinity first.
    pub fn worst(&self) -> Option<Wrong> {
        match *self.0 {
            Kind::Elements { worst, .. } => Some(worst),
            _ => None,
        }
    }
}

/// What was found about one element.
pub(super) struct Verdict {
    right: bool,
    /// Error over bound; infinite where a NaN or an infinity is wrong.
    ratio: f64,
    expected: f64,
    got: f64,
    bound: f64,
}

impl Verdict {
    /// For elements that have to be equal.
    pub fn exact(got: i32, expected: i32) -> Self {
        let (got, expected) = (f64::from(got), f64::from(expected));
        Verdict { right: got == expected, ratio: (got - expected).abs(), expected, got, bound: 0.0 }
    }

    /// For elements with a bound.
    pub fn bounded(got: f64, expected: &Expected) -> Self {
        let right = expected.allows(got);
        let ratio = expected.ratio(got);
        let ratio = match (ratio.is_nan(), right) {
            (false, _) => ratio,
            (true, true) => 0.0,
            (true, false) => f64::INFINITY,
        };
        Verdict { right, ratio, expected: expected.value(), got, bound: expected.bound() }
    }
}

/// What was found about many elements; the order in which parts are merged makes no difference.
#[derive(Default)]
pub(super) struct Tally {
    checked: usize,
    wrong: usize,
    /// The largest ratio among the right elements that are not exact.
    largest: Option<(f64, (usize, usize))>,
    worst: Option<(f64, Wrong)>,
}

impl Tally {
    pub fn add(&mut self, at: (usize, usize), verdict: Verdict) {
        let Verdict { right, ratio, expected, got, bound } = verdict;
        self.checked += 1;
        if right {
            let largest = (ratio > 0.0).then_some((ratio, at));
            self.largest = larger(self.largest, largest, |&at| at);
            return;
        }
        self.wrong += 1;
        let wrong = Wrong { row: at.0, col: at.1, expected, got, bound };
        self.worst = larger(self.worst, Some((ratio, wrong)), |wrong| (wrong.row, wrong.col));
    }

    pub fn merge(self, other: Tally) -> Tally {
        Tally {
            checked: self.checked + other.checked,
            wrong: self.wrong + other.wrong,
            largest: larger(self.largest, other.largest, |&at| at),
            worst: larger(self.worst, other.worst, |wrong| (wrong.row, wrong.col)),
        }
    }

    pub fn finish(self, dtype: DType, shape: Shape, k: usize) -> Result<Exactness, Mismatch> {
        let Tally { checked, wrong, largest, worst } = self;
        if let Some((_, worst)) = worst {
            return Err(Mismatch(Box::new(Kind::Elements {
                dtype,
                shape,
                k,
                wrong,
                checked,
                worst,
            })));
        }
        let (max_err_over_bound, worst) =
            largest.map_or((0.0, None), |(ratio, at)| (ratio, Some(at)));
        Ok(Exactness { max_err_over_bound, worst, checked })
    }
}

/// The one with the larger ratio; of equals, the one that comes first in the matrix.
fn larger<V>(
    a: Option<(f64, V)>,
    b: Option<(f64, V)>,
    place: impl Fn(&V) -> (usize, usize),
) -> Option<(f64, V)> {
    match (a, b) {
        (Some(a), Some(b)) => {
            let order = a.0.total_cmp(&b.0).then_with(|| place(&b.1).cmp(&place(&a.1)));
            Some(if order == Ordering::Less { b } else { a })
        }
        (a, b) => a.or(b),
    }
}
