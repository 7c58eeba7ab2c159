//! What a correct output may be: the exact value, the bound around it, and where infinity or NaN is
//! right.
//!
//! The rules and their derivation are in docs/numerics.md.

use approx::abs_diff_eq;
use gemm_spec::{DType, Precision};

use super::sums::{PANEL, Sums, two_product, two_sum};

/// The numbers of a floating-point format, in f64.
#[derive(Clone, Copy, Debug)]
pub(super) struct Format {
    /// Largest relative error of one rounding.
    pub unit: f64,
    /// Least magnitude that rounds to infinity; for f64 the largest finite number, since f64 can't
    /// hold the former.
    pub overflow: f64,
    /// Least positive number; a rounding among subnormal numbers is off by at most half of it.
    pub least: f64,
}

impl Format {
    pub fn of(dtype: DType) -> Format {
        let (digits, max_exp, least_exp) = match dtype {
            DType::F16 => (11, 15, -24),
            DType::BF16 => (8, 127, -133),
            DType::F32 => (24, 127, -149),
            // Integers are compared exactly and ask for no bound; no C has elements of 8 bits.
            DType::F64 | DType::I8 | DType::I32 | DType::F8E4M3 | DType::F8E5M2 => {
                (53, 1023, -1074)
            }
        };
        let unit = ldexp(1.0, -digits);
        let overflow = if max_exp == 1023 { f64::MAX } else { ldexp(2.0 - unit, max_exp) };
        Format { unit, overflow, least: ldexp(1.0, least_exp) }
    }
}

/// Higham's gamma: the relative error that `count` roundings accumulate at most, where `count *
/// unit` is below 1.
pub(super) fn gamma(count: usize, unit: f64) -> f64 {
    let nu = count as f64 * unit;
    nu / (1.0 - nu)
}

/// The largest `k` whose bound says anything of sums of one sign: from here on it would be about as
/// large as the sum of magnitudes. (Where signs cancel, it is as large as the sum long before.) Of
/// products of 8-bit floats of one sign tensor cores may lose all by then; see docs/numerics.md.
pub(super) fn max_k(dtype: DType) -> usize {
    if dtype.is_fp8() {
        return 1 << 15;
    }
    (0.5 / Format::of(dtype.accumulator()).unit) as usize - 4
}

/// What a product does besides summing, and how exactly.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    operands: DType,
    element: Format,
    accumulator: Format,
    rounds_to_element: bool,
    /// Terms of each sum; 0 where A and B are not read.
    k: usize,
    alpha: f64,
    /// `None` where C is not read.
    beta: Option<f64>,
    /// Relative errors on the way of a product, of C's old value, and of the reference itself.
    gamma_product: f64,
    gamma_c: f64,
    gamma_reference: f64,
    /// Whether elements may be multiplied as sums of three bf16.
    splits: bool,
}

impl Rules {
    /// Rules for sums of `k` terms, for the dtypes of A and B and of C; `beta` is `None` or 0 where
    /// C is not read. Sums of integers are exact, and one more rounding makes floats of them: as a
    /// sum of one term has.
    pub fn new((dtype, output): (DType, DType), k: usize, alpha: f64, beta: Option<f64>) -> Rules {
        let k = if dtype.is_integer() { k.min(1) } else { k };
        let beta = beta.filter(|&beta| beta != 0.0);
        let (k, alpha) = if k == 0 || alpha == 0.0 { (0, 0.0) } else { (k, alpha) };
        let accumulator = Format::of(output.factor());
        let reference_unit = Format::of(DType::F64).unit;
        let product_roundings = k + usize::from(alpha != 1.0) + usize::from(beta.is_some());
        let c_roundings = k + usize::from(beta != Some(1.0));
        let gamma_reference = if dtype == DType::F64 {
            (4.0 * (k + 4) as f64 * reference_unit).powi(2)
        } else {
            gamma(k + 4, reference_unit)
        };
        Rules {
            operands: dtype,
            element: Format::of(output),
            accumulator,
            rounds_to_element: output != output.factor(),
            k,
            alpha,
            beta,
            gamma_product: gamma(product_roundings, accumulator.unit),
            gamma_c: gamma(c_roundings, accumulator.unit),
            gamma_reference,
            splits: false,
        }
    }

    /// The same for elements that may be multiplied so. With tf32 each is cut off by less than
    /// 2^-10 of it, and what has been cut off two factors is less than 2^-9 + 2^-20 of their
    /// product. Of sums of three bf16 less than 2^-23 of a product is left out, and tensor cores
    /// cut off less than 2^-18 of the products that they add up from zero; and half of bf16's least
    /// number may be lost of an element below 2^-110.
    pub fn precision(self, precision: Precision) -> Rules {
        let (cut, splits) = match (precision, self.operands) {
            (Precision::Tf32, DType::F32) => (ldexp(1.0, -9) + ldexp(1.0, -20), false),
            (Precision::Bf16x6, DType::F32) => (ldexp(1.0, -18) + ldexp(1.0, -23), true),
            _ => (0.0, false),
        };
        let gamma_product = self.gamma_product + cut * (1.0 + self.gamma_product);
        Rules { gamma_product, splits, ..self }
    }

    /// What element (i, j) may be, from its sums and C's old value (which is not looked at where C
    /// is not read).
    ///
    /// `row` is row i of A and `panel` holds column j of B in its lane `lane`; they are looked at
    /// term by term where something is infinite or NaN, or may become so.
    pub fn expect(
        &self,
        sums: &Sums,
        lane: usize,
        c: f64,
        (row, panel): (&[f64], &[[f64; PANEL]]),
    ) -> Expected {
        let (hi, lo, abs) = (sums.hi[lane], sums.lo[lane], sums.abs[lane]);
        let cut = sums.cut[lane] + self.lost_of_elements(lane, (row, panel));
        let (beta, c) = self.beta.map_or((0.0, 0.0), |beta| (beta, c));
        // Larger than every partial result in every order; NaN where something is not finite.
        let magnitude = abs + abs * self.alpha.abs() + (beta * c).abs();
        if magnitude < self.accumulator.overflow / 4.0 {
            let sum = Sum { hi, lo, abs, exp: 0 };
            let c = self.c_term(c, false);
            let is_exact = self.sums_exactly(abs, lane, (row, panel));
            let rules = if is_exact { Rules { gamma_product: 0.0, ..*self } } else { *self };
            return rules.finish(&sum, FINITE, (self.alpha, 0), c, cut);
        }
        let terms = Terms::of(row, panel, lane);
        let mut signs = terms.signs.scaled_by(self.alpha);
        let c_sum = if beta.is_finite() && c.is_finite() {
            self.c_term(c, true)
        } else {
            signs.add(beta * c);
            Sum::ZERO
        };
        let may = if self.alpha.is_finite() {
            signs.outcomes(self.overflows(&terms, &c_sum))
        } else if self.alpha.is_nan() || signs.nan {
            NAN
        } else {
            POSITIVE | NEGATIVE | NAN
        };
        // It is not finite where a term is not, and is not looked at then.
        self.finish(&terms.sum, may, frexp_or(self.alpha), c_sum, cut)
    }

    /// What a sum loses with small elements that are split.
    fn lost_of_elements(&self, lane: usize, (row, panel): (&[f64], &[[f64; PANEL]])) -> f64 {
        if !self.splits {
            return 0.0;
        }
        let least = Format::of(DType::BF16).least;
        let small = |x: f64| if x != 0.0 && x.abs() < ldexp(1.0, -110) { least / 2.0 } else { 0.0 };
        let of_term = |(&a, b): (&f64, &[f64; PANEL])| {
            let b = b[lane];
            small(a) * b.abs() + small(b) * a.abs()
        };
        row.iter().zip(panel).map(of_term).filter(|of| of.is_finite()).sum()
    }

    /// By how much more than an element its first summand may be, of two: they are rounded.
    fn of_first_summands(&self) -> f64 {
        if self.splits { (1.0 + ldexp(1.0, -8)).powi(2) } else { 1.0 }
    }

    /// Whether every partial sum is a whole number that the accumulator holds, in whatever order:
    /// where the operands are such numbers, short enough for tf32 too, and nothing comes behind.
    /// What tensor cores lose of 8-bit floats stands in the sums' `cut`, and beside it roundings.
    fn sums_exactly(&self, abs: f64, lane: usize, (row, panel): (&[f64], &[[f64; PANEL]])) -> bool {
        let is_short = |x: f64| x.fract() == 0.0 && x.abs() <= 2048.0;
        self.alpha == 1.0
            && self.beta.is_none()
            && !self.operands.is_fp8()
            && abs * self.of_first_summands() < 1.0 / self.accumulator.unit
            && row.iter().zip(panel).all(|(&a, b)| is_short(a) && is_short(b[lane]))
    }

    /// beta * c, which are finite, exactly; `apart` keeps the exponent apart, so that nothing
    /// overflows.
    fn c_term(&self, c: f64, apart: bool) -> Sum {
        let beta = self.beta.unwrap_or(0.0);
        let ((beta, beta_exp), (c, c_exp)) =
            if apart { (frexp_or(beta), frexp_or(c)) } else { ((beta, 0), (c, 0)) };
        let (hi, lo) = two_product(beta, c);
        Sum { hi, lo, abs: hi.abs(), exp: beta_exp + c_exp }
    }

    /// Multiplies by alpha, adds C's term, and puts the bound around it; `cut` is how far the sum
    /// may be off beside its roundings.
    fn finish(&self, sum: &Sum, mut may: u8, alpha: (f64, i32), c: Sum, cut: f64) -> Expected {
        if may & FINITE == 0 {
            return Expected { hi: 0.0, lo: 0.0, bound: 0.0, exp: 0, may };
        }
        // The sum of magnitudes is itself a rounded sum.
        let abs = sum.abs * (1.0 + 4.0 * (self.k as f64 + 4.0) * f64::EPSILON);
        let (hi, error) = two_product(sum.hi, alpha.0);
        let product = Sum {
            hi,
            lo: error + sum.lo * alpha.0,
            abs: abs * alpha.0.abs(),
            exp: sum.exp + alpha.1,
        };
        let exp = match (product.abs == 0.0, c.abs == 0.0) {
            (false, false) => product.exp.max(c.exp),
            (true, false) => c.exp,
            _ => product.exp,
        };
        let (product, c) = (product.at(exp), c.at(exp));
        let (hi, carry) = two_sum(product.hi, c.hi);
        let (hi, lo) = two_sum(hi, carry + (product.lo + c.lo));
        let total = product.abs + c.abs;
        let mut bound = self.gamma_product * product.abs
            + self.gamma_c * c.abs
            + self.gamma_reference * total
            + ldexp(cut * alpha.0.abs() * (1.0 + self.gamma_product), alpha.1 - exp)
            + ldexp(self.underflow(), -exp);
        if self.rounds_to_element {
            let magnitude = ldexp(hi.abs() + bound, exp);
            if magnitude >= self.element.overflow {
                may |= if hi >= -bound { POSITIVE } else { 0 };
                may |= if hi <= bound { NEGATIVE } else { 0 };
            }
            bound += self.element.unit * (hi.abs() + bound) + ldexp(self.element.least / 2.0, -exp);
        }
        Expected { hi, lo, bound, exp, may }
    }

    /// What roundings among the accumulator's subnormal numbers add at most, the reference's own
    /// included.
    fn underflow(&self) -> f64 {
        // Six instructions cut off where one multiplication rounds; half is the reference's.
        let k = self.k as f64 * if self.splits { 6.5 } else { 1.0 };
        let scaling = if self.k > 0 && self.alpha != 1.0 { 1.0 } else { 0.0 };
        let c_scaling = if self.beta.is_some_and(|beta| beta != 1.0) { 1.0 } else { 0.0 };
        (k * self.alpha.abs() + scaling + c_scaling) * self.accumulator.least
    }

    /// Whether the positive terms alone, and the negative terms alone, may exceed the accumulator's
    /// range in some order of evaluation.
    fn overflows(&self, terms: &Terms, c: &Sum) -> (bool, bool) {
        let factor = self.alpha.abs().max(1.0);
        let scaled = |sum: f64| ldexp(sum, terms.sum.exp) * factor;
        let (positive, negative) = (scaled(terms.positive), scaled(terms.negative));
        let (positive, negative) =
            if self.alpha < 0.0 { (negative, positive) } else { (positive, negative) };
        let c = ldexp(c.hi, c.exp);
        let slack = (1.0 + self.gamma_product) * self.of_first_summands();
        let exceeds = |terms: f64| terms * slack >= self.accumulator.overflow;
        (exceeds(positive + c.max(0.0)), exceeds(negative + (-c).max(0.0)))
    }
}

/// (hi + lo) * 2^exp, and the sum of the terms' magnitudes.
#[derive(Clone, Copy, Debug)]
struct Sum {
    hi: f64,
    lo: f64,
    abs: f64,
    exp: i32,
}

impl Sum {
    const ZERO: Sum = Sum { hi: 0.0, lo: 0.0, abs: 0.0, exp: 0 };

    /// The same value with another exponent.
    fn at(self, exp: i32) -> Sum {
        let shift = self.exp - exp;
        let Sum { hi, lo, abs, .. } = self;
        Sum { hi: ldexp(hi, shift), lo: ldexp(lo, shift), abs: ldexp(abs, shift), exp }
    }
}

/// The terms of one sum, looked at one by one.
struct Terms {
    /// The compensated sum of the finite terms. Each product's exponent was kept apart, so that
    /// nothing overflowed.
    sum: Sum,
    /// The magnitudes of the positive finite terms and of the negative ones, times 2^-`sum.exp`.
    positive: f64,
    negative: f64,
    /// The other terms.
    signs: Signs,
}

impl Terms {
    fn of(row: &[f64], panel: &[[f64; PANEL]], lane: usize) -> Terms {
        let mut signs = Signs::default();
        let mut products = Vec::with_capacity(row.len());
        for (&a, b) in row.iter().zip(panel) {
            let b = b[lane];
            if !(a.is_finite() && b.is_finite()) {
                signs.add(a * b);
            } else if a != 0.0 && b != 0.0 {
                let ((a, a_exp), (b, b_exp)) = (frexp(a), frexp(b));
                products.push((a, b, a_exp + b_exp));
            }
        }
        let exp = products.iter().map(|product| product.2).max().unwrap_or(0);
        let mut terms =
            Terms { sum: Sum { exp, ..Sum::ZERO }, positive: 0.0, negative: 0.0, signs };
        for (a, b, product_exp) in products {
            let (product, error) = two_product(a, b);
            let product = ldexp(product, product_exp - exp);
            let (hi, carry) = two_sum(terms.sum.hi, product);
            terms.sum.hi = hi;
            terms.sum.lo += carry + ldexp(error, product_exp - exp);
            terms.sum.abs += product.abs();
            terms.positive += product.max(0.0);
            terms.negative += (-product).max(0.0);
        }
        terms
    }
}

/// Which infinite or NaN terms a sum has.
#[derive(Clone, Copy, Debug, Default)]
struct Signs {
    positive: bool,
    negative: bool,
    nan: bool,
}

impl Signs {
    fn add(&mut self, term: f64) {
        self.positive |= term == f64::INFINITY;
        self.negative |= term == f64::NEG_INFINITY;
        self.nan |= term.is_nan();
    }

    fn scaled_by(self, alpha: f64) -> Signs {
        let Signs { positive, negative, nan } = self;
        if alpha < 0.0 { Signs { positive: negative, negative: positive, nan } } else { self }
    }

    /// What the sum of these terms and of finite terms, which overflow as `(positive, negative)`
    /// says, may be.
    fn outcomes(self, (positive, negative): (bool, bool)) -> u8 {
        if self.nan || (self.positive && self.negative) {
            return NAN;
        }
        let if_so = |condition: bool, outcome: u8| if condition { outcome } else { 0 };
        match (self.positive, self.negative) {
            (true, _) => POSITIVE | if_so(negative, NAN),
            (_, true) => NEGATIVE | if_so(positive, NAN),
            _ => {
                FINITE
                    | if_so(positive, POSITIVE)
                    | if_so(negative, NEGATIVE)
                    | if_so(positive && negative, NAN)
            }
        }
    }
}

/// A finite number within the bound.
const FINITE: u8 = 1;
/// Positive infinity.
const POSITIVE: u8 = 2;
/// Negative infinity.
const NEGATIVE: u8 = 4;
/// NaN.
const NAN: u8 = 8;

/// What one element of the output may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected {
    /// The value is (hi + lo) * 2^exp, and the bound is bound * 2^exp.
    hi: f64,
    lo: f64,
    bound: f64,
    exp: i32,
    /// The outcomes that are right, as a set of the constants above.
    may: u8,
}

impl Expected {
    /// A value within a bound, where numbers from `overflow` on are infinite; the same infinity or
    /// NaN where it is none.
    pub fn near(value: f64, bound: f64, overflow: f64) -> Expected {
        let may = match value {
            _ if value.is_nan() || bound.is_nan() => NAN,
            _ if value == f64::INFINITY => POSITIVE,
            _ if value == f64::NEG_INFINITY => NEGATIVE,
            _ if value + bound >= overflow => FINITE | POSITIVE,
            _ if value - bound <= -overflow => FINITE | NEGATIVE,
            _ => FINITE,
        };
        Expected { hi: value, lo: 0.0, bound, exp: 0, may }
    }

    /// True where `out` is right.
    pub fn allows(&self, out: f64) -> bool {
        if out.is_nan() {
            return self.may & NAN != 0;
        }
        if out.is_infinite() {
            return self.may & if out > 0.0 { POSITIVE } else { NEGATIVE } != 0;
        }
        // Two subtractions, since the reference has more digits than one f64.
        let distance = ldexp(out, -self.exp) - self.hi;
        self.may & FINITE != 0 && abs_diff_eq!(distance, self.lo, epsilon = self.bound)
    }

    /// |out - value| / bound: 0 where they are equal, and NaN where one of them is not finite.
    pub fn ratio(&self, out: f64) -> f64 {
        if self.may & FINITE == 0 || !out.is_finite() {
            return f64::NAN;
        }
        let error = ((ldexp(out, -self.exp) - self.hi) - self.lo).abs();
        if error == 0.0 { 0.0 } else { error / self.bound }
    }

    /// The value, rounded to f64; infinite or NaN where the output has to be.
    pub fn value(&self) -> f64 {
        match self.may {
            may if may & FINITE != 0 => ldexp(self.hi + self.lo, self.exp),
            may if may & NAN != 0 => f64::NAN,
            POSITIVE => f64::INFINITY,
            _ => f64::NEG_INFINITY,
        }
    }

    /// The bound, rounded to f64.
    pub fn bound(&self) -> f64 {
        ldexp(self.bound, self.exp)
    }
}

/// x * 2^exp.
fn ldexp(mut x: f64, mut exp: i32) -> f64 {
    const STEP: i32 = 1000;
    let power = |exp: i32| f64::from_bits(((1023 + exp) as u64) << 52);
    while exp > STEP {
        x *= power(STEP);
        exp -= STEP;
    }
    while exp < -STEP {
        x *= power(-STEP);
        exp += STEP;
    }
    x * power(exp)
}

/// x as m * 2^exp with 0.5 <= |m| < 1, for a finite x other than 0.
fn frexp(x: f64) -> (f64, i32) {
    let field = (x.to_bits() >> 52 & 0x7ff) as i32;
    if field == 0 {
        let (m, exp) = frexp(x * ldexp(1.0, 64));
        return (m, exp - 64);
    }
    let m = f64::from_bits(x.to_bits() & !(0x7ff << 52) | 1022 << 52);
    (m, field - 1022)
}

/// [`frexp`], and `x` itself where it is 0 or not finite.
fn frexp_or(x: f64) -> (f64, i32) {
    if x == 0.0 || !x.is_finite() { (x, 0) } else { frexp(x) }
}

#[cfg(test)]
mod tests;
