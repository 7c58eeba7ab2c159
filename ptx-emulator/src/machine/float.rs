//! f32 and f64 arithmetic (PTX ISA 9.7.3). The plain forms to nearest have functions of their own;
//! all others go through one that looks at the modifiers.

use super::{Context, Lower, Outcome, Step, forms, integer, packed};
use crate::error::Error;
use crate::numeric::{self as n, MinMax, Property, Rounding, batch};
use crate::program::{Builder, Class, Handler, Instruction, Modifiers, exactly, is_float};
use crate::syntax::ast::{self, Type};

pub(super) const TABLE: &[(&str, Lower)] = &[
    ("copysign", lower),
    ("cos", lower),
    ("ex2", lower_any),
    ("fma", lower_any),
    ("lg2", lower),
    ("rcp", lower),
    ("rsqrt", lower),
    ("sin", lower),
    ("sqrt", lower),
    ("tanh", lower_any),
    ("testp", testp),
];

/// The rounding modifiers of arithmetic.
pub(super) const ROUNDINGS: &[(&str, Rounding)] = &[
    ("rn", Rounding::NearestEven),
    ("rz", Rounding::TowardZero),
    ("rm", Rounding::Down),
    ("rp", Rounding::Up),
];

/// What to compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Add,
    Sub,
    Mul,
    Fma,
    Div,
    DivApprox,
    DivFull,
    Neg,
    Abs,
    Min,
    Max,
    Rcp,
    RcpApprox,
    Sqrt,
    SqrtApprox,
    Rsqrt,
    Sin,
    Cos,
    Lg2,
    Ex2,
    Tanh,
    Copysign,
}

const OPS: [Op; 22] = [
    Op::Add,
    Op::Sub,
    Op::Mul,
    Op::Fma,
    Op::Div,
    Op::DivApprox,
    Op::DivFull,
    Op::Neg,
    Op::Abs,
    Op::Min,
    Op::Max,
    Op::Rcp,
    Op::RcpApprox,
    Op::Sqrt,
    Op::SqrtApprox,
    Op::Rsqrt,
    Op::Sin,
    Op::Cos,
    Op::Lg2,
    Op::Ex2,
    Op::Tanh,
    Op::Copysign,
];

/// An operation with its modifiers, in the number of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Form {
    op: Op,
    rounding: Rounding,
    ftz: bool,
    sat: bool,
    nan: bool,
    xorsign: bool,
    packed: bool,
}

impl Form {
    fn pack(self) -> u64 {
        let rounding = ROUNDINGS.iter().position(|(_, mode)| *mode == self.rounding);
        self.op as u64
            | (rounding.unwrap_or(0) as u64) << 8
            | u64::from(self.ftz) << 16
            | u64::from(self.sat) << 17
            | u64::from(self.nan) << 18
            | u64::from(self.xorsign) << 19
            | u64::from(self.packed) << 20
    }

    fn unpack(number: u64) -> Form {
        let flag = |bit: u32| number >> bit & 1 == 1;
        Form {
            op: OPS[(number & 0xff) as usize],
            rounding: ROUNDINGS[(number >> 8 & 0xff) as usize].1,
            ftz: flag(16),
            sat: flag(17),
            nan: flag(18),
            xorsign: flag(19),
            packed: flag(20),
        }
    }

    fn plain(op: Op) -> Form {
        let rounding = Rounding::NearestEven;
        Form { op, rounding, ftz: false, sat: false, nan: false, xorsign: false, packed: false }
    }
}

/// Lowers `fma`, `ex2` and `tanh`, which the 16-bit formats have too.
fn lower_any(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    match integer::float_lowering(i) {
        Some(lower) => lower(b, i),
        None => packed::lower(b, i),
    }
}

/// Lowers an instruction of f32, f64 or f32x2.
pub(super) fn lower(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    forms::check(i)?;
    let mut modifiers = Modifiers::new(i);
    let approximate = modifiers.flag("approx");
    let full = modifiers.flag("full");
    let mut form = Form::plain(operation(&i.opcode, approximate, full, &modifiers)?);
    form.rounding = modifiers.choose(ROUNDINGS).unwrap_or_default();
    form.ftz = modifiers.flag("ftz");
    form.sat = modifiers.flag("sat");
    form.nan = modifiers.flag("NaN");
    form.xorsign = modifiers.flag("xorsign") && modifiers.flag("abs");
    form.packed = modifiers.flag("f32x2");
    let ty = if form.packed { Type::B64 } else { modifiers.ty()? };
    let sources = match form.op {
        Op::Fma => 3,
        Op::Add | Op::Sub | Op::Mul | Op::Div | Op::DivApprox | Op::DivFull => 2,
        Op::Min | Op::Max | Op::Copysign => 2,
        _ => 1,
    };
    if i.operands.len() != 1 + sources {
        return Err(modifiers.unsupported("this number of operands"));
    }
    let number = form.pack();
    let handler = handler(form, ty);
    let class = Class::Float;
    integer::add_uniform(b, i, &modifiers, Some(handler), (ty, class))?;
    b.last().number = number;
    Ok(())
}

fn operation(
    opcode: &str,
    approximate: bool,
    full: bool,
    modifiers: &Modifiers<'_>,
) -> Result<Op, Error> {
    Ok(match opcode {
        "add" => Op::Add,
        "sub" => Op::Sub,
        "mul" => Op::Mul,
        "fma" | "mad" => Op::Fma,
        "div" if full => Op::DivFull,
        "div" if approximate => Op::DivApprox,
        "div" => Op::Div,
        "neg" => Op::Neg,
        "abs" => Op::Abs,
        "min" => Op::Min,
        "max" => Op::Max,
        "rcp" if approximate => Op::RcpApprox,
        "rcp" => Op::Rcp,
        "sqrt" if approximate => Op::SqrtApprox,
        "sqrt" => Op::Sqrt,
        "rsqrt" => Op::Rsqrt,
        "sin" => Op::Sin,
        "cos" => Op::Cos,
        "lg2" => Op::Lg2,
        "ex2" => Op::Ex2,
        "tanh" => Op::Tanh,
        "copysign" => Op::Copysign,
        _ => return Err(modifiers.unsupported("this form")),
    })
}

/// The function that executes a form.
fn handler(form: Form, ty: Type) -> Handler {
    let plain = form == Form::plain(form.op);
    match (ty, form.op) {
        (Type::F32, Op::Fma) if plain => fma_f32,
        (Type::F32, Op::Add) if plain => |c, i| batch2(c, i, batch::add_f32),
        (Type::F32, Op::Sub) if plain => |c, i| batch2(c, i, batch::sub_f32),
        (Type::F32, Op::Mul) if plain => |c, i| batch2(c, i, batch::mul_f32),
        (Type::F64, Op::Fma) if plain => fma_f64,
        (Type::F64, Op::Add) if plain => {
            |c, i| c.binary(i, |x, y| n::add_f64(x, y, Rounding::NearestEven))
        }
        (Type::F64, Op::Mul) if plain => {
            |c, i| c.binary(i, |x, y| n::mul_f64(x, y, Rounding::NearestEven))
        }
        (Type::F32, _) => |c, i| {
            let form = Form::unpack(i.number);
            each(c, i, |x, y, z| single(form, x as u32, y as u32, z as u32).into())
        },
        (Type::B64, _) => |c, i| {
            let form = Form::unpack(i.number);
            each(c, i, |x, y, z| {
                let low = single(form, x as u32, y as u32, z as u32);
                let high = single(form, (x >> 32) as u32, (y >> 32) as u32, (z >> 32) as u32);
                u64::from(high) << 32 | u64::from(low)
            })
        },
        _ => |c, i| {
            let form = Form::unpack(i.number);
            each(c, i, |x, y, z| double(form, x, y, z))
        },
    }
}

/// The low halves of lanes.
fn narrow(lanes: &[u64; 32]) -> [u32; 32] {
    std::array::from_fn(|lane| lanes[lane] as u32)
}

fn widen(lanes: &[u32; 32]) -> [u64; 32] {
    std::array::from_fn(|lane| lanes[lane].into())
}

fn fma_f32(c: &mut Context<'_>, i: &Instruction) -> Outcome {
    let mut out = [0; 32];
    batch::fma_f32(&narrow(c.lanes(i.a)), &narrow(c.lanes(i.b)), &narrow(c.lanes(i.c)), &mut out);
    c.write(i.d, &widen(&out));
    Ok(Step::Next)
}

fn fma_f64(c: &mut Context<'_>, i: &Instruction) -> Outcome {
    let mut out = [0; 32];
    batch::fma_f64(c.lanes(i.a), c.lanes(i.b), c.lanes(i.c), &mut out);
    c.write(i.d, &out);
    Ok(Step::Next)
}

#[inline(always)]
fn batch2(
    c: &mut Context<'_>,
    i: &Instruction,
    f: impl Fn(&[u32; 32], &[u32; 32], &mut [u32; 32]),
) -> Outcome {
    let mut out = [0; 32];
    f(&narrow(c.lanes(i.a)), &narrow(c.lanes(i.b)), &mut out);
    c.write(i.d, &widen(&out));
    Ok(Step::Next)
}

/// Writes f of up to three sources, lane by lane where they execute.
#[inline(always)]
pub(super) fn each(
    c: &mut Context<'_>,
    i: &Instruction,
    f: impl Fn(u64, u64, u64) -> u64,
) -> Outcome {
    let (a, b, d) = (c.lanes(i.a), c.lanes(i.b), c.lanes(i.c));
    let mask = c.mask;
    let value = |lane: usize| if mask >> lane & 1 == 1 { f(a[lane], b[lane], d[lane]) } else { 0 };
    let out = std::array::from_fn(value);
    c.write(i.d, &out);
    Ok(Step::Next)
}

fn single(form: Form, x: u32, y: u32, z: u32) -> u32 {
    let flush = |x: u32| if form.ftz { n::flush_f32(x) } else { x };
    let (x, y, z) = (flush(x), flush(y), flush(z));
    let mut result = unflushed(form, x, y, z);
    if form.ftz && n::is_least_normal_f32(result) {
        // What counts is the result before it is rounded.
        result = unflushed(Form { rounding: Rounding::TowardZero, ..form }, x, y, z);
    }
    let result = flush(result);
    if form.sat { n::saturate_f32(result) } else { result }
}

/// The result before `.ftz` and `.sat`.
fn unflushed(form: Form, x: u32, y: u32, z: u32) -> u32 {
    let mode = form.rounding;
    let how = MinMax { max: form.op == Op::Max, nan: form.nan, xorsign_abs: form.xorsign };
    match form.op {
        Op::Add => n::add_f32(x, y, mode),
        Op::Sub => n::sub_f32(x, y, mode),
        Op::Mul => n::mul_f32(x, y, mode),
        Op::Fma => n::fma_f32(x, y, z, mode),
        Op::Div => n::div_f32(x, y, mode),
        Op::DivApprox => n::div_approx_f32(x, y),
        Op::DivFull => n::div_full_f32(x, y),
        Op::Neg => n::neg_f32(x),
        Op::Abs => n::abs_f32(x),
        Op::Min | Op::Max => n::min_max_f32(x, y, how),
        Op::Rcp => n::rcp_f32(x, mode),
        Op::RcpApprox => n::rcp_approx_f32(x),
        Op::Sqrt => n::sqrt_f32(x, mode),
        Op::SqrtApprox => n::sqrt_approx_f32(x),
        Op::Rsqrt => n::rsqrt_approx_f32(x),
        Op::Sin => n::sin_approx_f32(x),
        Op::Cos => n::cos_approx_f32(x),
        Op::Lg2 => n::lg2_approx_f32(x),
        Op::Ex2 => n::ex2_approx_f32(x),
        Op::Tanh => n::tanh_approx_f32(x),
        Op::Copysign => n::copysign_f32(x, y),
    }
}

fn double(form: Form, x: u64, y: u64, z: u64) -> u64 {
    let mode = form.rounding;
    let how = MinMax { max: form.op == Op::Max, nan: form.nan, xorsign_abs: form.xorsign };
    match form.op {
        Op::Add => n::add_f64(x, y, mode),
        Op::Sub => n::sub_f64(x, y, mode),
        Op::Mul => n::mul_f64(x, y, mode),
        Op::Fma => n::fma_f64(x, y, z, mode),
        Op::Div => n::div_f64(x, y, mode),
        Op::Neg => n::neg_f64(x),
        Op::Abs => n::abs_f64(x),
        Op::Min | Op::Max => n::min_max_f64(x, y, how),
        Op::Rcp => n::rcp_f64(x, mode),
        Op::RcpApprox => n::rcp_approx_ftz_f64(x),
        Op::Sqrt => n::sqrt_f64(x, mode),
        Op::Rsqrt if form.ftz => n::rsqrt_approx_ftz_f64(x),
        Op::Rsqrt => n::rsqrt_approx_f64(x),
        Op::Copysign => n::copysign_f64(x, y),
        // The lowering lets none of these through.
        Op::Sin
        | Op::Cos
        | Op::Lg2
        | Op::Ex2
        | Op::Tanh
        | Op::DivApprox
        | Op::DivFull
        | Op::SqrtApprox => n::NAN_F64,
    }
}

const PROPERTIES: &[(&str, Property)] = &[
    ("finite", Property::Finite),
    ("infinite", Property::Infinite),
    ("number", Property::Number),
    ("notanumber", Property::NotANumber),
    ("normal", Property::Normal),
    ("subnormal", Property::Subnormal),
];

fn testp(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    let [d, x] = exactly(i)?;
    let mut modifiers = Modifiers::new(i);
    let property = modifiers
        .find(|word| PROPERTIES.iter().position(|(name, _)| *name == word))
        .ok_or_else(|| modifiers.unsupported("property"))?;
    let ty = modifiers.ty()?;
    modifiers.finish()?;
    if !is_float(ty) || !matches!(ty, Type::F32 | Type::F64) {
        return Err(modifiers.unsupported(&format!("type {ty:?}")));
    }
    let mut out = Instruction::new(
        |c, i| {
            let property = PROPERTIES[(i.number & 0xff) as usize].1;
            let x = c.lanes(i.a);
            let holds = |lane: usize| match i.number >> 8 {
                0 => n::testp_f32(x[lane] as u32, property),
                _ => n::testp_f64(x[lane], property),
            };
            let value = (0..32).map(|lane| u32::from(holds(lane)) << lane).sum();
            c.write_predicate(i.p, value);
            Ok(Step::Next)
        },
        Class::Float,
    );
    out.number = property as u64 | u64::from(ty == Type::F64) << 8;
    (out.p, out.a) = (b.predicate_destination(d)?, b.source(x, ty)?);
    b.add(out);
    Ok(())
}
