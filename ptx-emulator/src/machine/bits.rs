//! Logic, shifts and bit fields (PTX ISA 9.7.1 and 9.7.8).

#![allow(clippy::unnecessary_cast, reason = "an expression is written once for every width")]

use super::integer::{add_uniform, integer, need};
use super::{Context, Lower, Outcome, Step};
use crate::error::Error;
use crate::program::{Builder, Class, Handler, Instruction, Modifiers, Value, bits, exactly};
use crate::syntax::ast::{self, Type};

pub(super) const TABLE: &[(&str, Lower)] = &[
    ("and", and),
    ("bfe", bfe),
    ("bfi", bfi),
    ("bfind", bfind),
    ("bmsk", bmsk),
    ("brev", brev),
    ("clz", clz),
    ("cnot", cnot),
    ("fns", fns),
    ("lop3", lop3),
    ("not", not),
    ("or", or),
    ("popc", popc),
    ("prmt", prmt),
    ("shf", shf),
    ("shl", shl),
    ("shr", shr),
    ("szext", szext),
    ("xor", xor),
];

/// `and`, `or`, `xor` of numbers or of predicates.
fn logic(
    b: &mut Builder<'_, '_>,
    i: &ast::Instruction,
    numbers: Handler,
    predicates: Handler,
) -> Result<(), Error> {
    let [d, x, y] = exactly(i)?;
    let mut modifiers = Modifiers::new(i);
    let ty = modifiers.ty()?;
    match ty {
        Type::Pred => {
            modifiers.finish()?;
            let mut out = Instruction::new(predicates, Class::Integer);
            out.p = b.predicate_destination(d)?;
            out.q = b.predicate_source(x)?;
            out.number = b.predicate_source(y)?.into();
            b.add(out);
            Ok(())
        }
        Type::B16 | Type::B32 | Type::B64 => {
            add_uniform(b, i, &modifiers, Some(numbers), (ty, Class::Integer))
        }
        _ => Err(modifiers.unsupported(&format!("type {ty:?}"))),
    }
}

fn and(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    logic(
        b,
        i,
        |c, i| c.binary(i, |x, y| x & y),
        |c, i| {
            c.write_predicate(i.p, c.predicate(i.q) & c.predicate(i.number as u32));
            Ok(Step::Next)
        },
    )
}

fn or(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    logic(
        b,
        i,
        |c, i| c.binary(i, |x, y| x | y),
        |c, i| {
            c.write_predicate(i.p, c.predicate(i.q) | c.predicate(i.number as u32));
            Ok(Step::Next)
        },
    )
}

fn xor(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    logic(
        b,
        i,
        |c, i| c.binary(i, |x, y| x ^ y),
        |c, i| {
            c.write_predicate(i.p, c.predicate(i.q) ^ c.predicate(i.number as u32));
            Ok(Step::Next)
        },
    )
}

fn not(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    let [d, x] = exactly(i)?;
    let mut modifiers = Modifiers::new(i);
    let ty = modifiers.ty()?;
    if ty == Type::Pred {
        modifiers.finish()?;
        let mut out = Instruction::new(
            |c, i| {
                c.write_predicate(i.p, !c.predicate(i.q));
                Ok(Step::Next)
            },
            Class::Integer,
        );
        (out.p, out.q) = (b.predicate_destination(d)?, b.predicate_source(x)?);
        b.add(out);
        return Ok(());
    }
    let handler = match ty {
        Type::B16 | Type::B32 | Type::B64 => integer!(ty, unary, |x| !x as u64),
        _ => None,
    };
    add_uniform(b, i, &modifiers, handler, (ty, Class::Integer))
}

fn cnot(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    exactly::<2>(i)?;
    let mut modifiers = Modifiers::new(i);
    let ty = modifiers.ty()?;
    let handler: Handler = |c, i| c.unary(i, |x| u64::from(x == 0));
    add_uniform(b, i, &modifiers, Some(handler), (ty, Class::Integer))
}

/// A shift: the amount is 32 bits wide whatever the type, and those beyond the width count as it.
fn shift(
    b: &mut Builder<'_, '_>,
    i: &ast::Instruction,
    handler: impl Fn(Type) -> Option<Handler>,
) -> Result<(), Error> {
    let [d, x, y] = exactly(i)?;
    let mut modifiers = Modifiers::new(i);
    let ty = modifiers.ty()?;
    modifiers.finish()?;
    let mut out = Instruction::new(need(&modifiers, handler(ty), ty)?, Class::Integer);
    (out.a, out.b) = (b.source(x, ty)?, b.source(y, Type::U32)?);
    out.d = b.destination(d, ty)?;
    b.add(out);
    Ok(())
}

fn shl(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    shift(b, i, |ty| match ty {
        Type::B16 => {
            Some(|c, i| c.binary(i, |x, y| if y < 16 { (x << y) as u16 as u64 } else { 0 }))
        }
        Type::B32 => {
            Some(|c, i| c.binary(i, |x, y| if y < 32 { (x << y) as u32 as u64 } else { 0 }))
        }
        Type::B64 => Some(|c, i| c.binary(i, |x, y| if y < 64 { x << y } else { 0 })),
        _ => None,
    })
}

fn shr(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    shift(b, i, |ty| match ty {
        Type::B16 | Type::U16 | Type::B32 | Type::U32 | Type::B64 | Type::U64 => {
            Some(|c, i| c.binary(i, |x, y| if y < 64 { x >> y } else { 0 }))
        }
        Type::S16 => Some(|c, i| c.binary(i, |x, y| (x as i16 >> y.min(15)) as u16 as u64)),
        Type::S32 => Some(|c, i| c.binary(i, |x, y| (x as i32 >> y.min(31)) as u32 as u64)),
        Type::S64 => Some(|c, i| c.binary(i, |x, y| (x as i64 >> y.min(63)) as u64)),
        _ => None,
    })
}

/// The 32 bits of b:a from c on, counted from below (`.r`) or above (`.l`).
fn shf(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    exactly::<4>(i)?;
    let mut modifiers = Modifiers::new(i);
    let left = modifiers.choose(&[("l", true), ("r", false)]);
    let wrap = modifiers.choose(&[("wrap", true), ("clamp", false)]);
    let ty = modifiers.ty()?;
    let handler: Option<Handler> = match (left, wrap) {
        (Some(true), Some(true)) => {
            Some(|c, i| c.ternary(i, |x, y, z| (y << 32 | x) << (z & 31) >> 32))
        }
        (Some(true), Some(false)) => {
            Some(|c, i| c.ternary(i, |x, y, z| (y << 32 | x) << z.min(32) >> 32))
        }
        (Some(false), Some(true)) => {
            Some(|c, i| c.ternary(i, |x, y, z| ((y << 32 | x) >> (z & 31)) as u32 as u64))
        }
        (Some(false), Some(false)) => {
            Some(|c, i| c.ternary(i, |x, y, z| ((y << 32 | x) >> z.min(32)) as u32 as u64))
        }
        _ => None,
    };
    add_uniform(b, i, &modifiers, handler, (ty, Class::Integer))
}

/// An instruction whose result has 32 bits whatever the source's type.
fn count(
    b: &mut Builder<'_, '_>,
    i: &ast::Instruction,
    handler: impl Fn(Type, bool) -> Option<Handler>,
) -> Result<(), Error> {
    let [d, x] = exactly(i)?;
    let mut modifiers = Modifiers::new(i);
    let amount = modifiers.flag("shiftamt");
    let ty = modifiers.ty()?;
    modifiers.finish()?;
    let mut out = Instruction::new(need(&modifiers, handler(ty, amount), ty)?, Class::Integer);
    (out.a, out.d) = (b.source(x, ty)?, b.destination(d, Type::U32)?);
    b.add(out);
    Ok(())
}

fn popc(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    count(b, i, |ty, _| match ty {
        Type::B32 | Type::B64 => integer!(ty, unary, |x| x.count_ones().into()),
        _ => None,
    })
}

fn clz(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    count(b, i, |ty, _| match ty {
        Type::B32 | Type::B64 => integer!(ty, unary, |x| x.leading_zeros().into()),
        _ => None,
    })
}

/// The highest bit that differs from the sign; all ones where there is none.
fn bfind(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    count(b, i, |ty, amount| match (ty, amount) {
        (Type::U32 | Type::U64 | Type::S32 | Type::S64, false) => integer!(ty, unary, |x| {
            let x = if x < 0 as T { !x } else { x };
            u64::from((T::BITS - x.leading_zeros()).wrapping_sub(1))
        }),
        (Type::U32 | Type::U64 | Type::S32 | Type::S64, true) => integer!(ty, unary, |x| {
            let x = if x < 0 as T { !x } else { x };
            u64::from(if x == 0 { u32::MAX } else { x.leading_zeros() })
        }),
        _ => None,
    })
}

fn brev(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    exactly::<2>(i)?;
    let mut modifiers = Modifiers::new(i);
    let ty = modifiers.ty()?;
    let handler = match ty {
        Type::B32 | Type::B64 => integer!(ty, unary, |x| x.reverse_bits() as u64),
        _ => None,
    };
    add_uniform(b, i, &modifiers, handler, (ty, Class::Integer))
}

/// `length` bits of x from `start` on, extended by the last of them, or by x's sign where the
/// field reaches beyond it (PTX ISA 9.7.1.19).
fn extract(x: u64, start: u64, length: u64, (width, signed): (u32, bool)) -> u64 {
    let (start, length, top) = (start & 255, length & 255, u64::from(width) - 1);
    let sign = signed && length > 0 && x >> (start + length - 1).min(top) & 1 == 1;
    let field = if start > top { 0 } else { x >> start };
    let known = length.min((top + 1).saturating_sub(start));
    let mask = if known >= 64 { u64::MAX } else { (1 << known) - 1 };
    let all = if width == 64 { u64::MAX } else { (1 << width) - 1 };
    (field & mask | if sign { !mask } else { 0 }) & all
}

fn bfe(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    let [d, x, start, length] = exactly(i)?;
    let mut modifiers = Modifiers::new(i);
    let ty = modifiers.ty()?;
    modifiers.finish()?;
    let handler: Handler = match ty {
        Type::U32 => |c, i| c.ternary(i, |x, s, l| extract(x, s, l, (32, false))),
        Type::S32 => |c, i| c.ternary(i, |x, s, l| extract(x, s, l, (32, true))),
        Type::U64 => |c, i| c.ternary(i, |x, s, l| extract(x, s, l, (64, false))),
        Type::S64 => |c, i| c.ternary(i, |x, s, l| extract(x, s, l, (64, true))),
        _ => return Err(modifiers.unsupported(&format!("type {ty:?}"))),
    };
    let mut out = Instruction::new(handler, Class::Integer);
    (out.d, out.a) = (b.destination(d, ty)?, b.source(x, ty)?);
    (out.b, out.c) = (b.source(start, Type::U32)?, b.source(length, Type::U32)?);
    b.add(out);
    Ok(())
}

fn bfi(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    let [d, x, y, start, length] = exactly(i)?;
    let mut modifiers = Modifiers::new(i);
    let ty = modifiers.ty()?;
    modifiers.finish()?;
    if !matches!(ty, Type::B32 | Type::B64) {
        return Err(modifiers.unsupported(&format!("type {ty:?}")));
    }
    let mut out = Instruction::new(insert, Class::Integer);
    (out.d, out.a) = (b.destination(d, ty)?, b.source(x, ty)?);
    (out.b, out.c) = (b.source(y, ty)?, b.source(start, Type::U32)?);
    out.list = Box::new([b.source(length, Type::U32)?]);
    out.number = bits(ty).into();
    b.add(out);
    Ok(())
}

fn insert(c: &mut Context<'_>, i: &Instruction) -> Outcome {
    let (x, y, start, length) = (c.lanes(i.a), c.lanes(i.b), c.lanes(i.c), c.lanes(i.list[0]));
    let out = std::array::from_fn(|lane| {
        let (start, length) = (start[lane] & 255, length[lane] & 255);
        if start >= i.number || length == 0 {
            return y[lane];
        }
        let length = length.min(i.number - start);
        let mask = if length >= 64 { u64::MAX } else { (1 << length) - 1 };
        y[lane] & !(mask << start) | (x[lane] & mask) << start
    });
    c.write(i.d, &out);
    Ok(Step::Next)
}

/// Ones from bit a on, b of them.
fn bmsk(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    exactly::<3>(i)?;
    let mut modifiers = Modifiers::new(i);
    let wrap = modifiers.choose(&[("clamp", false), ("wrap", true)]);
    let ty = modifiers.ty()?;
    let handler: Option<Handler> = match wrap {
        Some(false) => Some(|c, i| c.binary(i, |x, y| ones_from(x.min(32), y.min(32)))),
        Some(true) => Some(|c, i| c.binary(i, |x, y| ones_from(x & 31, y & 31))),
        None => None,
    };
    add_uniform(b, i, &modifiers, handler, (ty, Class::Integer))
}

fn ones_from(start: u64, length: u64) -> u64 {
    (((1u64 << length) - 1) << start) as u32 as u64
}

/// Extends the low b bits of a.
fn szext(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    exactly::<3>(i)?;
    let mut modifiers = Modifiers::new(i);
    let wrap = modifiers.choose(&[("clamp", false), ("wrap", true)]);
    let ty = modifiers.ty()?;
    let handler: Option<Handler> = match (wrap, ty) {
        (Some(false), Type::U32) => {
            Some(|c, i| c.binary(i, |x, n| extract(x, 0, n.min(32), (32, false))))
        }
        (Some(false), Type::S32) => {
            Some(|c, i| c.binary(i, |x, n| extract(x, 0, n.min(32), (32, true))))
        }
        (Some(true), Type::U32) => {
            Some(|c, i| c.binary(i, |x, n| extract(x, 0, n & 31, (32, false))))
        }
        (Some(true), Type::S32) => {
            Some(|c, i| c.binary(i, |x, n| extract(x, 0, n & 31, (32, true))))
        }
        _ => None,
    };
    add_uniform(b, i, &modifiers, handler, (ty, Class::Integer))
}

fn lop3(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    let [d, x, y, z, table] = exactly(i)?;
    let mut modifiers = Modifiers::new(i);
    let ty = modifiers.ty()?;
    modifiers.finish()?;
    let ast::Operand::Constant(ast::Constant::Integer(table @ 0..=255)) = table else {
        return Err(modifiers.invalid("the table is not a number from 0 to 255"));
    };
    let mut out = Instruction::new(
        |c, i| {
            c.ternary(i, |x, y, z| {
                let term = |k: u64| {
                    let chosen = if k & 4 != 0 { x } else { !x }
                        & if k & 2 != 0 { y } else { !y }
                        & if k & 1 != 0 { z } else { !z };
                    if i.number >> k & 1 == 1 { chosen } else { 0 }
                };
                (0..8).map(term).fold(0, |all, term| all | term) as u32 as u64
            })
        },
        Class::Integer,
    );
    out.number = *table as u64;
    (out.d, out.a) = (b.destination(d, ty)?, b.source(x, ty)?);
    (out.b, out.c) = (b.source(y, ty)?, b.source(z, ty)?);
    b.add(out);
    Ok(())
}

/// The ways of `prmt` to choose bytes: the selector itself, or one made from its lowest two bits
/// (PTX ISA 9.7.9.7).
fn prmt(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    exactly::<4>(i)?;
    let mut modifiers = Modifiers::new(i);
    let ty = modifiers.ty()?;
    let mode = modifiers.find(|word| Some(word.to_string()));
    let handler: Handler = match mode.as_deref() {
        None => |c, i| c.ternary(i, permute),
        Some("f4e") => |c, i| {
            c.ternary(i, |x, y, s| permute(x, y, [0x3210, 0x4321, 0x5432, 0x6543][s as usize & 3]))
        },
        Some("b4e") => |c, i| {
            c.ternary(i, |x, y, s| permute(x, y, [0x5670, 0x6701, 0x7012, 0x0123][s as usize & 3]))
        },
        Some("rc8") => |c, i| {
            c.ternary(i, |x, y, s| permute(x, y, [0x0000, 0x1111, 0x2222, 0x3333][s as usize & 3]))
        },
        Some("ecl") => |c, i| {
            c.ternary(i, |x, y, s| permute(x, y, [0x3210, 0x3211, 0x3222, 0x3333][s as usize & 3]))
        },
        Some("ecr") => |c, i| {
            c.ternary(i, |x, y, s| permute(x, y, [0x0000, 0x1110, 0x2210, 0x3210][s as usize & 3]))
        },
        Some("rc16") => |c, i| {
            c.ternary(i, |x, y, s| permute(x, y, [0x1010, 0x3232, 0x1010, 0x3232][s as usize & 3]))
        },
        Some(other) => return Err(modifiers.unsupported(&format!("modifier .{other}"))),
    };
    add_uniform(b, i, &modifiers, Some(handler), (ty, Class::Integer))
}

/// Four bytes out of b:a; a selector with its highest bit set copies the byte's sign.
fn permute(x: u64, y: u64, selector: u64) -> u64 {
    let bytes = y << 32 | x;
    let byte = |k: u32| {
        let choice = selector >> (4 * k);
        let byte = bytes >> (8 * (choice & 7)) & 0xff;
        let byte = match choice & 8 {
            0 => byte,
            _ => (byte >> 7) * 0xff,
        };
        byte << (8 * k)
    };
    (0..4).map(byte).sum()
}

/// The place of the n-th set bit of a mask from a base on, upwards or downwards.
fn fns(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    exactly::<4>(i)?;
    let mut modifiers = Modifiers::new(i);
    let ty = modifiers.ty()?;
    let handler: Handler = |c, i| {
        c.ternary(i, |mask, base, offset| {
            let (base, offset) = (base as u32 & 31, offset as i32);
            let set = |bit: &u32| mask >> bit & 1 == 1;
            let found = match offset {
                0 => set(&base).then_some(base),
                1.. => (base..32).filter(set).nth(offset as usize - 1),
                _ => (0..=base).rev().filter(set).nth(offset.unsigned_abs() as usize - 1),
            };
            found.map_or(u32::MAX.into(), u64::from)
        })
    };
    add_uniform(b, i, &modifiers, Some(handler), (ty, Class::Integer))
}

/// A constant of 32 bits.
pub(super) fn constant(b: &mut Builder<'_, '_>, value: u32) -> u32 {
    b.constant(Value::Bits(value.into()))
}
