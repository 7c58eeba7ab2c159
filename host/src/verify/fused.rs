//! Products with an epilogue.

use super::bound::{Expected, Format, Rules};
use super::outcome::{Exactness, Mismatch, Tally, Verdict};
use super::sums::{self, PANEL, Sums};
use super::{Checked, Problem, Rows};
use crate::cpu::activate_f64;
use crate::element::{Element, OutputOf};
use crate::epilogue::HostEpilogue;
use crate::matrix::MatrixRef;
use crate::parallel;
use crate::plan::Fusion;
use gemm_spec::{Activation, DType, Shape};

/// Checks `out` as [`check`](super::check) does, for the product followed by `epilogue`.
///
/// The bound is that of the sum, carried through the epilogue's steps with one rounding of f32 for
/// each, and the error of the activation's approximation; see docs/numerics.md. Where the value is
/// not finite, `out` has to be the same infinity, or NaN. Where a part of a sum may overflow, `out`
/// may be what the epilogue makes of each outcome. Amax is not looked at.
///
/// # Errors
/// As [`check`](super::check), and where a matrix of the epilogue has a shape that does not fit.
pub fn check_fused<T: Element, C: OutputOf<T> + Element<Scalar = f32>>(
    problem: &Problem<'_, T, C>,
    epilogue: &HostEpilogue<'_, C>,
    out: MatrixRef<'_, C>,
    rows: Rows,
) -> Result<Exactness, Mismatch> {
    let fusion = epilogue.fusion();
    let checked = Checked::new(problem, out, fusion.gated)?;
    let (k, cols) = (checked.k, checked.b.shape().cols);
    let fusion = fusion.spread(Shape::new(out.shape().rows, cols));
    let fusion = fusion.map_err(|error| Mismatch::epilogue(&error))?;
    let rules = Rules::new((T::DTYPE, DType::F32), k, checked.alpha, None);
    let rules = rules.precision(checked.precision);
    let reference = Reference { checked: &checked, fusion, epilogue, rules };
    let rows = rows.of(out.shape())?;
    let of_panel = |panel| reference.run_panel(&rows, panel);
    let tally = parallel::reduce(cols.div_ceil(PANEL), &of_panel, Tally::merge);
    tally.finish(T::DTYPE, out.shape(), k)
}

/// Relative error of a rounding to f32.
const UNIT: f64 = 1.0 / (1u64 << 24) as f64;

/// The largest slope of an activation, of GELU at 1.4, rounded up.
const SLOPE: f64 = 1.2;

/// The error of an activation of x on the device, as a fraction of |x|. GELU's derivation has more
/// of it, since the error of a reciprocal is multiplied by some 1.7 near 0.
const ACTIVATION: f64 = 5e-7;
const ACTIVATION_GELU: f64 = 8e-7;

/// More than is left on the device of an activation of -infinity, which it takes for -6 or -30.
const CLAMPED: f64 = 1e-9;

/// A value, and how far the device's may be from it: 0 where the value is not finite.
#[derive(Clone, Copy)]
struct Near {
    value: f64,
    error: f64,
}

impl Near {
    fn rounded(value: f64, error: f64) -> Near {
        let rounded = error + UNIT * (value.abs() + error) + Format::of(DType::F32).least / 2.0;
        Near::new(value, rounded)
    }

    fn new(value: f64, error: f64) -> Near {
        Near { value, error: if value.is_finite() { error } else { 0.0 } }
    }

    /// What a sum may be, one after another: the finite number first.
    fn outcomes(sum: Expected) -> impl Iterator<Item = Near> + Clone {
        let number = Near::new(sum.value(), sum.bound());
        let others = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
        let others = others.map(|other| sum.allows(other).then_some(Near::new(other, 0.0)));
        let number = Some(number).filter(|number| number.value.is_finite());
        number.into_iter().chain(others.into_iter().flatten())
    }

    fn plus(self, addend: f64) -> Near {
        Near::rounded(self.value + addend, self.error)
    }

    fn times(self, other: Near) -> Near {
        let error = self.value.abs() * other.error + (other.value.abs() + other.error) * self.error;
        Near::rounded(self.value * other.value, error)
    }

    fn activated(self, activation: Activation) -> Near {
        let value = activate_f64(activation, self.value);
        let of_device = match activation {
            // Nothing is approximated.
            Activation::Identity => return self,
            Activation::Relu => return Near::new(value, self.error),
            Activation::Gelu => ACTIVATION_GELU,
            Activation::GeluTanh | Activation::Silu => ACTIVATION,
        };
        if self.value.is_infinite() {
            return Near::new(value, CLAMPED);
        }
        let error = SLOPE * self.error + of_device * (self.value.abs() + self.error);
        // Approximations may be 0 where they are subnormal.
        Near::new(value, error + f64::from(f32::MIN_POSITIVE))
    }

    /// Rounded to C's elements.
    fn expected(self, output: DType) -> Expected {
        let Near { value, error } = self;
        let format = Format::of(output);
        let rounding = match output {
            DType::F32 => 0.0,
            _ => format.unit * (value.abs() + error) + format.least / 2.0,
        };
        Expected::near(value, error + rounding, format.overflow)
    }
}

/// What the elements are held against.
struct Reference<'a, T: Element, C: OutputOf<T>> {
    checked: &'a Checked<'a, T, C>,
    fusion: Fusion,
    epilogue: &'a HostEpilogue<'a, C>,
    rules: Rules,
}

impl<T: Element, C: OutputOf<T>> Reference<'_, T, C> {
    /// Judges the elements in `rows` that the sums of one panel's columns go to.
    fn run_panel(&self, rows: &[usize], panel: usize) -> Tally {
        let Checked { a, b, k, .. } = *self.checked;
        let first = panel * PANEL;
        let lanes = PANEL.min(b.shape().cols - first);
        let column = |p: usize| {
            let element = |lane| if lane < lanes { b[(p, first + lane)].to_f64() } else { 0.0 };
            std::array::from_fn(element)
        };
        let b: Vec<[f64; PANEL]> = (0..k).map(column).collect();
        let mut tally = Tally::default();
        for &i in rows {
            let a: Vec<f64> = (0..k).map(|p| a[(i, p)].to_f64()).collect();
            let sums = sums::row_of(T::DTYPE)(&a, &b);
            let step = if self.fusion.gated { 2 } else { 1 };
            for lane in (0..lanes).step_by(step) {
                let at = (i, self.fusion.cols_of_c(first + lane));
                let out = self.checked.out[at].to_f64();
                let expected = self.expected(at, out, (&sums, lane), (&a, &b));
                tally.add(at, Verdict::bounded(out, &expected));
            }
        }
        tally
    }

    /// What element (i, j) of C may be, of the outcomes of its sums the one that `out` is right
    /// for, or else the first.
    fn expected(
        &self,
        at: (usize, usize),
        out: f64,
        (sums, lane): (&Sums, usize),
        operands: (&[f64], &[[f64; PANEL]]),
    ) -> Expected {
        let outcomes = |lane| Near::outcomes(self.rules.expect(sums, lane, 0.0, operands));
        // Without a gate the second one is not looked at.
        let seconds = outcomes(if self.fusion.gated { lane + 1 } else { lane });
        let seconds = seconds.take(if self.fusion.gated { usize::MAX } else { 1 });
        let both = outcomes(lane).flat_map(|x| seconds.clone().map(move |y| [x, y]));
        let mut all = both.map(|both| self.finished(at, both).expected(C::DTYPE));
        let first = all.next().expect("a sum has an outcome");
        if first.allows(out) {
            return first;
        }
        all.find(|other| other.allows(out)).unwrap_or(first)
    }

    /// Element (i, j) of C, from its sum, or from a gate's and the one that is multiplied by it.
    fn finished(&self, (i, j): (usize, usize), [x, up]: [Near; 2]) -> Near {
        let first = if self.fusion.gated { 2 * j } else { j };
        let gate = self.biased(x, (i, first), j).activated(self.fusion.activation);
        let x = match self.fusion.gated {
            true => gate.times(self.biased(up, (i, first + 1), j)),
            false => gate,
        };
        match self.source(1, (i, j)) {
            Some(residual) => x.plus(residual),
            None => x,
        }
    }

    /// The sum of row i and column `col`, which goes to column j of C, up to its bias.
    fn biased(&self, mut x: Near, (i, col): (usize, usize), j: usize) -> Near {
        for factor in [2, 3].into_iter().filter_map(|source| self.source(source, (i, col))) {
            x = x.times(Near { value: factor, error: 0.0 });
        }
        if let (Some(beta), Some(c)) = (self.checked.beta, self.checked.c) {
            let c = beta * c[(i, j)].to_f64();
            x = Near { error: x.error + UNIT * c.abs(), ..x }.plus(c);
        }
        self.source(0, (i, col)).map_or(x, |bias| x.plus(bias))
    }

    /// An element of a source of the epilogue, which is repeated where it has but one row or
    /// column.
    fn source(&self, number: usize, (i, j): (usize, usize)) -> Option<f64> {
        fn element<E: Element>(of: &Option<MatrixRef<'_, E>>, i: usize, j: usize) -> Option<f64> {
            let of = of.as_ref()?;
            let Shape { rows, cols } = of.shape();
            Some(of[(if rows == 1 { 0 } else { i }, if cols == 1 { 0 } else { j })].to_f64())
        }
        match number {
            0 | 1 => element(&self.epilogue.matrices[number], i, j),
            _ => element(&self.epilogue.factors[number - 2], i, j),
        }
    }
}

#[cfg(test)]
#[path = "tests_fused.rs"]
mod tests;
