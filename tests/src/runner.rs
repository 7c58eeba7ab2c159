//! Runs cases on engines and judges what they leave behind.

use crate::case::Case;
use crate::engine::Engine;
use crate::place::Placed;
use crate::table::Chosen;
use gemmite::verify::{self, Exactness, Problem, Rows};
use gemmite::{Element, MatrixRef, OutputOf, Precision};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// What the library says of operands that a kernel does not take.
const REFUSAL: &str = "takes A and B as its name says";

/// What a run over many cases and engines found.
#[derive(Debug, Default)]
pub struct Summary {
    /// Cases times engines, but for those that were refused.
    pub runs: usize,
    /// Cases that are not for an engine's kernel, which said so.
    pub refused: usize,
    /// Cases that an engine was not asked to run.
    pub left_out: usize,
    /// One line for each run that failed.
    pub failures: Vec<String>,
    /// The largest error over its bound of the runs that passed, and where it was.
    pub largest: Option<(f64, String)>,
}

/// What was found of right products of one case, by a hash of C's bytes: many engines leave the
/// same in C, and it is verified once.
type Verified = HashMap<u64, Exactness>;

/// What became of a try to multiply.
pub type Attempt = Result<(), String>;

/// Runs `case` on `engine` with A and B in dtype `T` and C in `C`, and checks the result and
/// everything around the operands.
///
/// # Errors
/// What went wrong: the library's error, the verification's mismatch, or the name of a buffer that
/// changed where it must not.
pub fn run_case<T: Element, C: OutputOf<T>>(
    case: &Case,
    engine: &Engine,
) -> Result<Exactness, String> {
    run_verified::<T, C>(case, engine, &mut Verified::new())
}

fn run_verified<T: Element, C: OutputOf<T>>(
    case: &Case,
    engine: &Engine,
    verified: &mut Verified,
) -> Result<Exactness, String> {
    let multiply = |a: &mut Placed<T>, b: &mut Placed<T>, c: &mut Placed<C>| {
        engine.run(case, a, b, c).map_err(|error| format!("the call failed: {error}"))
    };
    check_case(case, engine.precision, verified, multiply)
}

/// [`run_case`] with anything that multiplies: `multiply` gets A, B and C in their buffers.
///
/// # Errors
/// As [`run_case`].
pub fn run_case_with<T: Element, C: OutputOf<T>>(
    case: &Case,
    multiply: impl FnOnce(&mut Placed<T>, &mut Placed<T>, &mut Placed<C>) -> Attempt,
) -> Result<Exactness, String> {
    check_case(case, Precision::Full, &mut Verified::new(), multiply)
}

fn check_case<T: Element, C: OutputOf<T>>(
    case: &Case,
    precision: Precision,
    verified: &mut Verified,
    multiply: impl FnOnce(&mut Placed<T>, &mut Placed<T>, &mut Placed<C>) -> Attempt,
) -> Result<Exactness, String> {
    let (a, b, before) = (case.a::<T>(), case.b::<T>(), case.c::<C>());
    let (mut a_after, mut b_after, mut c) = (a.clone(), b.clone(), before.clone());
    multiply(&mut a_after, &mut b_after, &mut c)?;
    if c.surroundings() != before.surroundings() {
        return Err("C's guards or gaps were written to".into());
    }
    for (name, before, after) in [("A", &a, &a_after), ("B", &b, &b_after)] {
        if bytes(before) != bytes(after) {
            return Err(format!("{name} was written to"));
        }
    }
    let mut hasher = DefaultHasher::new();
    bytes(&c).hash(&mut hasher);
    let hash = hasher.finish();
    if let Some(exactness) = verified.get(&hash) {
        return Ok(*exactness);
    }
    let problem = Problem {
        a: view(&a)?,
        b: view(&b)?,
        op_a: case.op_a,
        op_b: case.op_b,
        precision,
        alpha: case.alpha::<C>(),
        beta: case.beta::<C>(),
        c: Some(view(&before)?),
    };
    let exactness = verify::check(&problem, view(&c)?, Rows::All);
    let exactness = exactness.map_err(|mismatch| mismatch.to_string())?;
    verified.insert(hash, exactness);
    Ok(exactness)
}

/// Runs every case on every engine with A and B in dtype `T` and C in `C`.
pub fn run_table<T: Element, C: OutputOf<T>>(cases: &[Case], engines: &[Engine]) -> Summary {
    run_table_where::<T, C>(cases, engines, |_, _| true)
}

/// [`run_table`] for the pairs that `run` picks, and of these [`Chosen`].
pub fn run_table_where<T: Element, C: OutputOf<T>>(
    cases: &[Case],
    engines: &[Engine],
    run: impl Fn(&Case, &Engine) -> bool,
) -> Summary {
    let (chosen, mut numbers) = (Chosen::of_environment(), 0..);
    let mut summary = Summary::default();
    let mut verified = HashMap::new();
    for engine in engines.iter().filter(|engine| engine.computes(T::DTYPE)) {
        for (which, case) in cases.iter().enumerate() {
            if !run(case, engine) || !numbers.next().is_some_and(|number| chosen.has(number)) {
                summary.left_out += 1;
                continue;
            }
            let dtypes = format!("{} to {}", engine.precision.name(T::DTYPE), C::DTYPE);
            let name = format!("{} on {} in {dtypes}", case.name, engine.name);
            let refuses = engine.refuses::<T, C>(case);
            let verified = verified.entry((which, engine.precision)).or_default();
            match run_verified::<T, C>(case, engine, verified) {
                Err(failure) if refuses && failure.contains(REFUSAL) => {
                    summary.refused += 1;
                    continue;
                }
                Ok(_) if refuses => {
                    summary.failures.push(format!("{name}: the kernel takes what it cannot"));
                }
                Ok(exactness) => summary.note(exactness.max_err_over_bound, name),
                Err(failure) => summary.failures.push(format!("{name}: {failure}")),
            }
            summary.runs += 1;
        }
    }
    summary
}

impl Summary {
    fn note(&mut self, ratio: f64, name: String) {
        if self.largest.as_ref().is_none_or(|(largest, _)| ratio > *largest) {
            self.largest = Some((ratio, name));
        }
    }

    /// Fails with every failure at once.
    ///
    /// # Panics
    /// Where a run failed, or there was none.
    pub fn assert_passed(&self) {
        assert!(self.runs > 0, "nothing was run");
        assert!(
            self.failures.is_empty(),
            "{} of {} runs failed:\n{}",
            self.failures.len(),
            self.runs,
            self.failures.join("\n")
        );
    }
}

fn bytes<T: Element>(placed: &Placed<T>) -> &[u8] {
    bytemuck::cast_slice(&placed.buffer)
}

fn view<T: Element>(placed: &Placed<T>) -> Result<MatrixRef<'_, T>, String> {
    MatrixRef::new(&placed.buffer, placed.layout).map_err(|error| error.to_string())
}
