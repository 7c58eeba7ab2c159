//! f16 and bf16 arithmetic, single and packed in pairs (PTX ISA 9.7.4).

use super::{Lower, forms, integer};
use crate::error::Error;
use crate::numeric::{self as n, MinMax, Rounding};
use crate::program::{Builder, Class, Handler, Modifiers};
use crate::syntax::ast::{self, Type};

pub(super) const TABLE: &[(&str, Lower)] = &[];

/// What to compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Add,
    Sub,
    Mul,
    Fma,
    Neg,
    Abs,
    Min,
    Max,
    Ex2,
    Tanh,
}

const OPS: [(&str, Op); 10] = [
    ("add", Op::Add),
    ("sub", Op::Sub),
    ("mul", Op::Mul),
    ("fma", Op::Fma),
    ("neg", Op::Neg),
    ("abs", Op::Abs),
    ("min", Op::Min),
    ("max", Op::Max),
    ("ex2", Op::Ex2),
    ("tanh", Op::Tanh),
];

/// Modifiers, as bits of an instruction's number.
const FTZ: u64 = 1 << 8;
const SAT: u64 = 1 << 9;
const RELU: u64 = 1 << 10;
const NAN: u64 = 1 << 11;
const XORSIGN: u64 = 1 << 12;
const BRAIN: u64 = 1 << 13;

/// Lowers an instruction of f16, f16x2, bf16 or bf16x2.
pub(super) fn lower(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    forms::check(i)?;
    let mut modifiers = Modifiers::new(i);
    let op = OPS.iter().position(|(name, _)| *name == &*i.opcode);
    let op = op.ok_or_else(|| modifiers.unsupported("this form"))?;
    modifiers.choose(&[("rn", Rounding::NearestEven)]);
    modifiers.flag("approx");
    let mut number = op as u64;
    for (word, flag) in
        [("ftz", FTZ), ("sat", SAT), ("relu", RELU), ("NaN", NAN), ("xorsign", XORSIGN)]
    {
        if modifiers.flag(word) {
            number |= flag;
        }
    }
    modifiers.flag("abs");
    let ty = modifiers.ty()?;
    let handler: Handler = match ty {
        Type::F16 | Type::Bf16 => |c, i| {
            super::float::each(c, i, |x, y, z| half(i.number, x as u16, y as u16, z as u16).into())
        },
        Type::F16x2 | Type::Bf16x2 => |c, i| {
            super::float::each(c, i, |x, y, z| {
                let f = |x, y, z| half(i.number, x, y, z);
                n::packed3(x as u32, y as u32, z as u32, f).into()
            })
        },
        _ => return Err(modifiers.unsupported(&format!("type {ty:?}"))),
    };
    if matches!(ty, Type::Bf16 | Type::Bf16x2) {
        number |= BRAIN;
    }
    integer::add_uniform(b, i, &modifiers, Some(handler), (ty, Class::Float))?;
    b.last().number = number;
    Ok(())
}

fn half(number: u64, x: u16, y: u16, z: u16) -> u16 {
    let (op, brain) = (OPS[(number & 0xff) as usize].1, number & BRAIN != 0);
    let flush = |x: u16| match (number & FTZ != 0, brain) {
        (false, _) => x,
        (true, false) => n::flush_f16(x),
        (true, true) => n::flush_bf16(x),
    };
    let (x, y, z) = (flush(x), flush(y), flush(z));
    let how =
        MinMax { max: op == Op::Max, nan: number & NAN != 0, xorsign_abs: number & XORSIGN != 0 };
    let result = match (op, brain) {
        (Op::Add, false) => n::add_f16(x, y),
        (Op::Add, true) => n::add_bf16(x, y),
        (Op::Sub, false) => n::sub_f16(x, y),
        (Op::Sub, true) => n::sub_bf16(x, y),
        (Op::Mul, false) if number & FTZ != 0 => n::mul_ftz_f16(x, y),
        (Op::Mul, false) => n::mul_f16(x, y),
        (Op::Mul, true) => n::mul_bf16(x, y),
        (Op::Fma, false) if number & FTZ != 0 => n::fma_ftz_f16(x, y, z),
        (Op::Fma, false) => n::fma_f16(x, y, z),
        (Op::Fma, true) => n::fma_bf16(x, y, z),
        (Op::Neg, _) => n::neg_16(x),
        (Op::Abs, _) => n::abs_16(x),
        (Op::Min | Op::Max, false) => n::min_max_f16(x, y, how),
        (Op::Min | Op::Max, true) => n::min_max_bf16(x, y, how),
        (Op::Ex2, false) => n::ex2_approx_f16(x),
        (Op::Ex2, true) => n::ex2_approx_ftz_bf16(x),
        (Op::Tanh, false) => n::tanh_approx_f16(x),
        (Op::Tanh, true) => n::tanh_approx_bf16(x),
    };
    let result = flush(result);
    match (number & SAT != 0, number & RELU != 0, brain) {
        (true, _, false) => n::saturate_f16(result),
        (true, _, true) => n::saturate_bf16(result),
        (_, true, false) => n::relu_f16(result),
        (_, true, true) => n::relu_bf16(result),
        _ => result,
    }
}
