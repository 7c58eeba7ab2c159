//! Comparisons and selections (PTX ISA 9.7.5).

use super::{Context, Lower, Outcome, Step, integer};
use crate::error::Error;
use crate::numeric as n;
use crate::program::{
    Builder, Class, Handler, Instruction, Modifiers, Predicate, SINK, TRUE, exactly, is_float,
};
use crate::syntax::ast::{self, Operand, Type};
use std::cmp::Ordering;

pub(super) const TABLE: &[(&str, Lower)] =
    &[("selp", selp), ("set", set), ("setp", setp), ("slct", slct)];

/// The comparisons: for which orders they hold, and whether NaN makes them hold.
const COMPARISONS: [(&str, [bool; 3], bool); 18] = [
    ("eq", [false, true, false], false),
    ("ne", [true, false, true], false),
    ("lt", [true, false, false], false),
    ("le", [true, true, false], false),
    ("gt", [false, false, true], false),
    ("ge", [false, true, true], false),
    ("lo", [true, false, false], false),
    ("ls", [true, true, false], false),
    ("hi", [false, false, true], false),
    ("hs", [false, true, true], false),
    ("equ", [false, true, false], true),
    ("neu", [true, false, true], true),
    ("ltu", [true, false, false], true),
    ("leu", [true, true, false], true),
    ("gtu", [false, false, true], true),
    ("geu", [false, true, true], true),
    ("num", [true, true, true], false),
    ("nan", [false, false, false], true),
];

/// Combinations with another predicate.
const COMBINATIONS: &[(&str, u64)] = &[("and", 1), ("or", 2), ("xor", 3)];

/// How to compare, in the number of an instruction.
#[derive(Clone, Copy)]
struct Form {
    less: bool,
    equal: bool,
    greater: bool,
    unordered: bool,
    ftz: bool,
    kind: Kind,
    combination: u64,
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Unsigned,
    Signed16,
    Signed32,
    Signed64,
    F32,
    F64,
    F16,
    Bf16,
}

const KINDS: [Kind; 8] = [
    Kind::Unsigned,
    Kind::Signed16,
    Kind::Signed32,
    Kind::Signed64,
    Kind::F32,
    Kind::F64,
    Kind::F16,
    Kind::Bf16,
];

impl Form {
    fn pack(self) -> u64 {
        u64::from(self.less)
            | u64::from(self.equal) << 1
            | u64::from(self.greater) << 2
            | u64::from(self.unordered) << 3
            | u64::from(self.ftz) << 4
            | (self.kind as u64) << 8
            | self.combination << 16
    }

    fn unpack(number: u64) -> Form {
        let flag = |bit: u32| number >> bit & 1 == 1;
        Form {
            less: flag(0),
            equal: flag(1),
            greater: flag(2),
            unordered: flag(3),
            ftz: flag(4),
            kind: KINDS[(number >> 8 & 7) as usize],
            combination: number >> 16 & 0xff,
        }
    }

    fn holds(self, order: Option<Ordering>) -> bool {
        match order {
            Some(Ordering::Less) => self.less,
            Some(Ordering::Equal) => self.equal,
            Some(Ordering::Greater) => self.greater,
            None => self.unordered,
        }
    }

    /// The lanes for which the comparison holds.
    fn compare(self, x: &[u64; 32], y: &[u64; 32]) -> u32 {
        let flush = |x: u64| if self.ftz { n::flush_f32(x as u32) } else { x as u32 };
        let single = |x: u64| f32::from_bits(flush(x));
        match self.kind {
            Kind::Unsigned => self.all(x, y, |x, y| Some(x.cmp(&y))),
            Kind::Signed16 => self.all(x, y, |x, y| Some((x as i16).cmp(&(y as i16)))),
            Kind::Signed32 => self.all(x, y, |x, y| Some((x as i32).cmp(&(y as i32)))),
            Kind::Signed64 => self.all(x, y, |x, y| Some((x as i64).cmp(&(y as i64)))),
            Kind::F32 => self.all(x, y, |x, y| single(x).partial_cmp(&single(y))),
            Kind::F64 => self.all(x, y, |x, y| f64::from_bits(x).partial_cmp(&f64::from_bits(y))),
            Kind::F16 => self.all(x, y, |x, y| {
                let widen =
                    |x: u64| n::widen_f16(if self.ftz { n::flush_f16(x as u16) } else { x as u16 });
                widen(x).partial_cmp(&widen(y))
            }),
            Kind::Bf16 => {
                self.all(x, y, |x, y| n::widen_bf16(x as u16).partial_cmp(&n::widen_bf16(y as u16)))
            }
        }
    }

    #[inline(always)]
    fn all(
        self,
        x: &[u64; 32],
        y: &[u64; 32],
        order: impl Fn(u64, u64) -> Option<Ordering>,
    ) -> u32 {
        let mut holds = 0;
        for lane in 0..32 {
            holds |= u32::from(self.holds(order(x[lane], y[lane]))) << lane;
        }
        holds
    }

    fn combine(self, compared: u32, other: u32) -> u32 {
        match self.combination {
            1 => compared & other,
            2 => compared | other,
            3 => compared ^ other,
            _ => compared,
        }
    }
}

/// Reads a comparison's modifiers up to the type that is compared.
fn form(modifiers: &mut Modifiers<'_>) -> Result<(Form, usize), Error> {
    let index = modifiers.find(|word| COMPARISONS.iter().position(|(name, ..)| *name == word));
    let index = index.ok_or_else(|| modifiers.invalid("the comparison is missing"))?;
    let (_, [less, equal, greater], unordered) = COMPARISONS[index];
    let combination = modifiers.choose(COMBINATIONS).unwrap_or(0);
    let ftz = modifiers.flag("ftz");
    let kind = Kind::Unsigned;
    Ok((Form { less, equal, greater, unordered, ftz, kind, combination }, index))
}

fn kind(modifiers: &Modifiers<'_>, index: usize, ty: Type) -> Result<Kind, Error> {
    let unsigned_name = (6..10).contains(&index);
    if is_float(ty) != (index >= 10) && (index >= 10 || unsigned_name) {
        return Err(modifiers.invalid("this comparison is not for this type"));
    }
    Ok(match ty {
        Type::F32 => Kind::F32,
        Type::F64 => Kind::F64,
        Type::F16 => Kind::F16,
        Type::Bf16 => Kind::Bf16,
        Type::S16 if !unsigned_name => Kind::Signed16,
        Type::S32 if !unsigned_name => Kind::Signed32,
        Type::S64 if !unsigned_name => Kind::Signed64,
        Type::B16
        | Type::B32
        | Type::B64
        | Type::U16
        | Type::U32
        | Type::U64
        | Type::S16
        | Type::S32
        | Type::S64 => Kind::Unsigned,
        _ => return Err(modifiers.unsupported(&format!("type {ty:?}"))),
    })
}

/// Fails where `.ftz` stands, and numbers of the type are not flushed.
fn check_ftz(modifiers: &Modifiers<'_>, ftz: bool, ty: Type) -> Result<(), Error> {
    match ftz && !matches!(ty, Type::F32 | Type::F16) {
        true => Err(modifiers.invalid(".ftz is not for this type")),
        false => Ok(()),
    }
}

fn setp(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    let mut modifiers = Modifiers::new(i);
    let (mut form, index) = form(&mut modifiers)?;
    let ty = modifiers.ty()?;
    modifiers.finish()?;
    check_ftz(&modifiers, form.ftz, ty)?;
    form.kind = kind(&modifiers, index, ty)?;
    let (d, x, y, other) = match i.operands.as_slice() {
        [d, x, y] if form.combination == 0 => (d, x, y, None),
        [d, x, y, other] if form.combination != 0 => (d, x, y, Some(other)),
        _ => return Err(modifiers.invalid("the number of operands is wrong")),
    };
    let mut out = Instruction::new(run_setp, Class::Integer);
    out.number = form.pack();
    let (p, opposite) = match d {
        Operand::Pair(pair) => (&pair.0, Some(&pair.1)),
        d => (d, None),
    };
    out.p = b.predicate_destination(p)?;
    let opposite = match opposite {
        Some(opposite) => b.predicate_destination(opposite)?,
        None => SINK,
    };
    out.number |= u64::from(opposite) << 32;
    (out.a, out.b) = (b.source(x, ty)?, b.source(y, ty)?);
    if let Some(other) = other {
        out.q = b.predicate_source(other)?;
    }
    b.add(out);
    Ok(())
}

fn run_setp(c: &mut Context<'_>, i: &Instruction) -> Outcome {
    let form = Form::unpack(i.number);
    let compared = form.compare(c.lanes(i.a), c.lanes(i.b));
    let other: Predicate = c.predicate(i.q);
    c.write_predicate(i.p, form.combine(compared, other));
    let opposite = (i.number >> 32) as Predicate;
    if opposite != SINK {
        c.write_predicate(opposite, form.combine(!compared, other));
    }
    Ok(Step::Next)
}

fn set(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    let mut modifiers = Modifiers::new(i);
    let (mut form, index) = form(&mut modifiers)?;
    let (result, ty) = (modifiers.ty()?, modifiers.ty()?);
    modifiers.finish()?;
    // A result of f16 takes `.ftz` whatever is compared.
    check_ftz(&modifiers, form.ftz && result != Type::F16, ty)?;
    form.kind = kind(&modifiers, index, ty)?;
    let (d, x, y, other) = match i.operands.as_slice() {
        [d, x, y] if form.combination == 0 => (d, x, y, TRUE),
        [d, x, y, other] if form.combination != 0 => (d, x, y, b.predicate_source(other)?),
        _ => return Err(modifiers.invalid("the number of operands is wrong")),
    };
    let handler: Handler = match result {
        Type::U32 | Type::S32 => |c, i| run_set(c, i, 0xffff_ffff),
        Type::F32 => |c, i| run_set(c, i, 0x3f80_0000),
        Type::F16 => |c, i| run_set(c, i, 0x3c00),
        Type::Bf16 => |c, i| run_set(c, i, 0x3f80),
        _ => return Err(modifiers.unsupported(&format!("type {result:?}"))),
    };
    let mut out = Instruction::new(handler, Class::Integer);
    (out.number, out.q) = (form.pack(), other);
    (out.a, out.b) = (b.source(x, ty)?, b.source(y, ty)?);
    out.d = b.destination(d, result)?;
    b.add(out);
    Ok(())
}

fn run_set(c: &mut Context<'_>, i: &Instruction, one: u64) -> Outcome {
    let form = Form::unpack(i.number);
    let compared = form.compare(c.lanes(i.a), c.lanes(i.b));
    let holds = form.combine(compared, c.predicate(i.q));
    let out = std::array::from_fn(|lane| if holds >> lane & 1 == 1 { one } else { 0 });
    c.write(i.d, &out);
    Ok(Step::Next)
}

fn selp(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    let [d, x, y, p] = exactly(i)?;
    let mut modifiers = Modifiers::new(i);
    let ty = modifiers.ty()?;
    modifiers.finish()?;
    let mut out = Instruction::new(run_selp, Class::Integer);
    (out.a, out.b) = (b.source(x, ty)?, b.source(y, ty)?);
    (out.q, out.d) = (b.predicate_source(p)?, b.destination(d, ty)?);
    b.add(out);
    Ok(())
}

pub(super) fn run_selp(c: &mut Context<'_>, i: &Instruction) -> Outcome {
    let chosen = c.predicate(i.q);
    let (x, y) = (c.lanes(i.a), c.lanes(i.b));
    let choose = |lane| if chosen >> lane & 1 == 1 { x[lane] } else { y[lane] };
    let out = std::array::from_fn(choose);
    c.write(i.d, &out);
    Ok(Step::Next)
}

fn slct(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    let [d, x, y, z] = exactly(i)?;
    let mut modifiers = Modifiers::new(i);
    let ftz = modifiers.flag("ftz");
    let (ty, selector) = (modifiers.ty()?, modifiers.ty()?);
    modifiers.finish()?;
    let handler: Handler = match (selector, ftz) {
        (Type::S32, false) => |c, i| c.ternary(i, |x, y, z| if z as i32 >= 0 { x } else { y }),
        (Type::F32, false) => {
            |c, i| c.ternary(i, |x, y, z| if f32::from_bits(z as u32) >= 0.0 { x } else { y })
        }
        (Type::F32, true) => |c, i| {
            c.ternary(
                i,
                |x, y, z| {
                    if f32::from_bits(n::flush_f32(z as u32)) >= 0.0 { x } else { y }
                },
            )
        },
        _ => return Err(modifiers.unsupported(&format!("type {selector:?}"))),
    };
    let handler = integer::need(&modifiers, Some(handler), ty)?;
    let mut out = Instruction::new(handler, Class::Integer);
    (out.a, out.b) = (b.source(x, ty)?, b.source(y, ty)?);
    (out.c, out.d) = (b.source(z, selector)?, b.destination(d, ty)?);
    b.add(out);
    Ok(())
}
