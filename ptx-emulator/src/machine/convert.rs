//! `cvt` (PTX ISA 9.7.9.21).

use super::{Context, Lower, Outcome, Step};
use crate::error::Error;
use crate::numeric::{Conversion as Scalar, Number, Rounding};
use crate::program::{Builder, Class, Detail, Instruction, Modifiers, is_float};
use crate::syntax::ast::{self, Operand, Type};

pub(super) const TABLE: &[(&str, Lower)] = &[("cvt", cvt)];

/// A conversion, and what it does with registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conversion {
    scalar: Scalar,
    form: Form,
    /// The bits of the destination register.
    register: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// One number to one.
    Single,
    /// Two numbers in two registers to a pair in one.
    Pair,
    /// A pair in one register to a pair in one.
    Packed,
}

const ROUNDINGS: &[(&str, (Rounding, bool))] = &[
    ("rn", (Rounding::NearestEven, false)),
    ("rna", (Rounding::NearestAway, false)),
    ("rz", (Rounding::TowardZero, false)),
    ("rm", (Rounding::Down, false)),
    ("rp", (Rounding::Up, false)),
    ("rni", (Rounding::NearestEven, true)),
    ("rzi", (Rounding::TowardZero, true)),
    ("rmi", (Rounding::Down, true)),
    ("rpi", (Rounding::Up, true)),
];

/// A type of `cvt`: its number, and whether it is a pair of them.
fn number(word: &str) -> Option<(Number, bool)> {
    Some(match word {
        "u8" | "b8" => (Number::U8, false),
        "s8" => (Number::S8, false),
        "u16" | "b16" => (Number::U16, false),
        "s16" => (Number::S16, false),
        "u32" | "b32" => (Number::U32, false),
        "s32" => (Number::S32, false),
        "u64" | "b64" => (Number::U64, false),
        "s64" => (Number::S64, false),
        "f16" => (Number::F16, false),
        "bf16" => (Number::Bf16, false),
        "f32" => (Number::F32, false),
        "f64" => (Number::F64, false),
        "tf32" => (Number::Tf32, false),
        "f16x2" => (Number::F16, true),
        "bf16x2" => (Number::Bf16, true),
        "e4m3x2" => (Number::E4m3, true),
        "e5m2x2" => (Number::E5m2, true),
        "e2m3x2" => (Number::E2m3, true),
        "e3m2x2" => (Number::E3m2, true),
        _ => return None,
    })
}

/// The type of a register that has `bits` bits of a number.
fn register_type(number: Number, bits: u32) -> Type {
    match (number, bits) {
        (Number::F32, 32) => Type::F32,
        (Number::F64, 64) => Type::F64,
        (_, 8) => Type::B8,
        (_, 16) => Type::B16,
        (_, 32) => Type::B32,
        _ => Type::B64,
    }
}

fn cvt(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    let mut modifiers = Modifiers::new(i);
    let rounding = modifiers.choose(ROUNDINGS);
    let mut types = [(Number::U8, false); 2];
    for ty in &mut types {
        let found = modifiers.find(number);
        *ty = found.ok_or_else(|| modifiers.unsupported("the types"))?;
    }
    let [(to, to_pair), (from, from_pair)] = types;
    let mut scalar = Scalar::new(to, from, rounding.map_or_else(Default::default, |r| r.0));
    scalar.integral = rounding.is_some_and(|rounding| rounding.1);
    scalar.ftz = modifiers.flag("ftz");
    scalar.sat = modifiers.flag("sat");
    scalar.relu = modifiers.flag("relu");
    scalar.satfinite = modifiers.flag("satfinite");
    modifiers.finish()?;
    check_rounding(&modifiers, &scalar, rounding.is_some())?;
    let form = match (to_pair, from_pair) {
        (false, false) => Form::Single,
        (true, false) => Form::Pair,
        (true, true) => Form::Packed,
        (false, true) => return Err(modifiers.unsupported("the types")),
    };
    let (d, sources) = match (i.operands.as_slice(), form) {
        ([d, x], Form::Single | Form::Packed) => (d, [Some(x), None]),
        ([d, x, y], Form::Pair) => (d, [Some(x), Some(y)]),
        _ => return Err(modifiers.invalid("the number of operands is wrong")),
    };
    let from_bits = from.bits() * if from_pair { 2 } else { 1 };
    let to_bits = to.bits() * if to_pair { 2 } else { 1 };
    let handler = match form {
        Form::Single if is_truncation(&scalar) => truncate,
        _ => run,
    };
    let mut out = Instruction::new(handler, Class::Integer);
    if is_float(register_type(from, from_bits)) || is_float(register_type(to, to_bits)) {
        out.class = Class::Float;
    }
    let source = |b: &mut Builder<'_, '_>, operand: Option<&Operand>| match operand {
        Some(operand) => b.wide_source(operand, register_type(from, from_bits)),
        None => Ok(0),
    };
    (out.a, out.b) = (source(b, sources[0])?, source(b, sources[1])?);
    let (d, register) = b.wide_destination(d, register_type(to, to_bits))?;
    out.d = d;
    if is_truncation(&scalar) {
        let bits = to.bits().min(from.bits()).min(register);
        out.number = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
    }
    out.detail = Detail::Convert(Box::new(Conversion { scalar, form, register }));
    b.add(out);
    Ok(())
}

/// Whether the low bits of the source are the result.
fn is_truncation(scalar: &Scalar) -> bool {
    let integers = scalar.to.format().is_none() && scalar.from.format().is_none();
    let narrows = scalar.to.bits() <= scalar.from.bits() && !scalar.to.is_signed();
    integers && !scalar.sat && (narrows || !scalar.from.is_signed() && !scalar.to.is_signed())
}

/// A conversion that can't be exact needs a rounding modifier.
fn check_rounding(modifiers: &Modifiers<'_>, scalar: &Scalar, given: bool) -> Result<(), Error> {
    let needs = match (scalar.to.format(), scalar.from.format()) {
        (None, None) => false,
        (None, Some(_)) => !scalar.integral,
        (Some(_), None) => !given,
        (Some(_), Some(_)) => scalar.to.bits() < scalar.from.bits() && !given,
    };
    if needs { Err(modifiers.invalid("the rounding modifier is missing")) } else { Ok(()) }
}

fn truncate(c: &mut Context<'_>, i: &Instruction) -> Outcome {
    c.unary(i, |x| x & i.number)
}

fn run(c: &mut Context<'_>, i: &Instruction) -> Outcome {
    let Detail::Convert(conversion) = &i.detail else {
        return Ok(Step::Next);
    };
    let Conversion { scalar, form, register } = **conversion;
    let keep = if register >= 64 { u64::MAX } else { (1 << register) - 1 };
    match form {
        Form::Single => c.unary(i, |x| scalar.convert(x) & keep),
        Form::Packed => c.unary(i, |x| scalar.convert_packed(x) & keep),
        Form::Pair => c.binary(i, |x, y| scalar.convert_pair(x, y) & keep),
    }
}
