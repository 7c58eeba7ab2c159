//! Which modifiers the arithmetic of floats has (PTX ISA 9.7.3, 9.7.4): its lines of syntax.

use crate::error::Error;
use crate::program::{Modifiers, type_of};
use crate::syntax::ast;

/// A line of syntax: opcodes, types, lists of modifiers that have one each, and modifiers that may
/// stand there too.
type Form = (
    &'static [&'static str],
    &'static [&'static str],
    &'static [&'static [&'static str]],
    &'static [&'static str],
);

const ROUNDINGS: &[&str] = &["rn", "rz", "rm", "rp"];
const NEAREST: &[&str] = &["rn"];
const APPROX: &[&str] = &["approx"];
const FTZ: &[&str] = &["ftz"];
const XORSIGN: &[&[&str]] = &[&["xorsign"], &["abs"]];

const SUMS: &[&str] = &["add", "sub", "mul"];
const EXTREMES: &[&str] = &["min", "max"];
const SIGNS: &[&str] = &["neg", "abs"];
const F16: &[&str] = &["f16", "f16x2"];
const BF16: &[&str] = &["bf16", "bf16x2"];

const FORMS: &[Form] = &[
    (SUMS, &["f32"], &[], &["rn", "rz", "rm", "rp", "ftz", "sat"]),
    (SUMS, &["f32x2"], &[], &["rn", "rz", "rm", "rp", "ftz"]),
    (SUMS, &["f64"], &[], ROUNDINGS),
    (SUMS, F16, &[], &["rn", "ftz", "sat"]),
    (SUMS, BF16, &[], NEAREST),
    (&["fma", "mad"], &["f32"], &[ROUNDINGS], &["ftz", "sat"]),
    (&["fma", "mad"], &["f64"], &[ROUNDINGS], &[]),
    (&["fma"], &["f32x2"], &[ROUNDINGS], FTZ),
    (&["fma"], F16, &[NEAREST], &["ftz", "sat"]),
    (&["fma"], F16, &[NEAREST], &["ftz", "relu"]),
    (&["fma"], BF16, &[NEAREST], &["relu"]),
    (&["div", "rcp", "sqrt"], &["f32"], &[ROUNDINGS], FTZ),
    (&["div", "rcp", "sqrt"], &["f64"], &[ROUNDINGS], &[]),
    (&["div"], &["f32"], &[&["full"]], FTZ),
    (&["div", "rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2"], &["f32"], &[APPROX], FTZ),
    (&["rcp"], &["f64"], &[APPROX, FTZ], &[]),
    (&["rsqrt"], &["f64"], &[APPROX], FTZ),
    (&["ex2"], F16, &[APPROX], &[]),
    (&["ex2"], BF16, &[APPROX, FTZ], &[]),
    (&["tanh"], &["f32", "f16", "f16x2", "bf16", "bf16x2"], &[APPROX], &[]),
    (SIGNS, &["f32", "f16", "f16x2"], &[], FTZ),
    (SIGNS, &["f64", "bf16", "bf16x2"], &[], &[]),
    (EXTREMES, &["f32", "f16", "f16x2"], &[], &["ftz", "NaN"]),
    (EXTREMES, &["f32", "f16", "f16x2"], XORSIGN, &["ftz", "NaN"]),
    (EXTREMES, BF16, &[], &["NaN"]),
    (EXTREMES, BF16, XORSIGN, &["NaN"]),
    (EXTREMES, &["f64"], &[], &[]),
    (&["copysign"], &["f32", "f64"], &[], &[]),
];

/// Fails if no line of syntax is that of the instruction.
pub(super) fn check(i: &ast::Instruction) -> Result<(), Error> {
    let is_type = |word: &str| word == "f32x2" || type_of(word).is_some();
    let is_of = |(opcodes, types, one_of, others): &Form| {
        let allows = |word: &str| {
            let fixed = one_of.iter().any(|words| words.contains(&word));
            if is_type(word) { types.contains(&word) } else { fixed || others.contains(&word) }
        };
        let has = |words: &&[&str]| i.modifiers.iter().any(|word| words.contains(&&**word));
        opcodes.contains(&&*i.opcode)
            && i.modifiers.iter().all(|word| allows(word))
            && one_of.iter().all(has)
    };
    match FORMS.iter().any(is_of) {
        true => Ok(()),
        false => Err(Modifiers::new(i).unsupported("this form")),
    }
}
