//! Integer arithmetic (PTX ISA 9.7.1), and the way to the other types of the same opcodes.

#![allow(clippy::unnecessary_cast, reason = "an expression is written once for every width")]

use super::{Lower, carry, float, packed};
use crate::error::Error;
use crate::program::{Builder, Class, Handler, Instruction, Modifiers, exactly, is_float, type_of};
use crate::syntax::ast::{self, Type};

pub(super) const TABLE: &[(&str, Lower)] = &[
    ("abs", abs),
    ("add", add),
    ("div", div),
    ("dp2a", dp2a),
    ("dp4a", dp4a),
    ("mad", mad),
    ("mad24", mad24),
    ("max", max),
    ("min", min),
    ("mul", mul),
    ("mul24", mul24),
    ("neg", neg),
    ("rem", rem),
    ("sad", sad),
    ("sub", sub),
];

/// The handler of an expression for an integer type of 16, 32 or 64 bits. In the expression, `T` is
/// the type, `U` the unsigned one of its width, `W` and `UW` those of twice the width.
macro_rules! integer {
    ($ty:expr, $method:ident, |$($x:ident),+| $body:expr) => {
        match $ty {
            Type::U16 | Type::B16 => integer!(@ u16, u16, u32, u32, $method, |$($x),+| $body),
            Type::S16 => integer!(@ i16, u16, i32, u32, $method, |$($x),+| $body),
            Type::U32 | Type::B32 => integer!(@ u32, u32, u64, u64, $method, |$($x),+| $body),
            Type::S32 => integer!(@ i32, u32, i64, u64, $method, |$($x),+| $body),
            Type::U64 | Type::B64 => integer!(@ u64, u64, u128, u128, $method, |$($x),+| $body),
            Type::S64 => integer!(@ i64, u64, i128, u128, $method, |$($x),+| $body),
            _ => None,
        }
    };
    (@ $t:ty, $u:ty, $w:ty, $uw:ty, $method:ident, |$($x:ident),+| $body:expr) => {{
        #[allow(dead_code)]
        type T = $t;
        #[allow(dead_code)]
        type U = $u;
        #[allow(dead_code)]
        type W = $w;
        #[allow(dead_code)]
        type UW = $uw;
        let handler: Handler = |context, instruction| {
            context.$method(instruction, |$($x),+| {
                $(let $x = $x as T;)+
                $body
            })
        };
        Some(handler)
    }};
}
pub(super) use integer;

/// The types of an instruction, without taking them.
fn peek(instruction: &ast::Instruction) -> Option<Type> {
    instruction.modifiers.iter().rev().find_map(|word| type_of(word))
}

/// Whether an instruction is of f32, f64, their vectors, of the packed 16-bit formats, or writes a
/// carry.
pub(super) fn float_lowering(instruction: &ast::Instruction) -> Option<Lower> {
    if instruction.modifiers.iter().any(|word| &**word == "f32x2") {
        return Some(float::lower);
    }
    if instruction.modifiers.iter().any(|word| &**word == "cc") {
        return Some(carry::lower);
    }
    match peek(instruction)? {
        Type::F32 | Type::F64 => Some(float::lower),
        ty if is_float(ty) => Some(packed::lower),
        _ => None,
    }
}

/// The handler, or the error that the type has none.
pub(super) fn need(
    modifiers: &Modifiers<'_>,
    handler: Option<Handler>,
    ty: Type,
) -> Result<Handler, Error> {
    handler.ok_or_else(|| modifiers.unsupported(&format!("type {ty:?}")))
}

/// Adds an instruction whose sources and destination have one type.
pub(super) fn add_uniform(
    builder: &mut Builder<'_, '_>,
    instruction: &ast::Instruction,
    modifiers: &Modifiers<'_>,
    handler: Option<Handler>,
    (ty, class): (Type, Class),
) -> Result<(), Error> {
    let handler = need(modifiers, handler, ty)?;
    modifiers.finish()?;
    let mut out = Instruction::new(handler, class);
    let (d, sources) = match instruction.operands.as_slice() {
        [d, sources @ ..] if !sources.is_empty() && sources.len() <= 3 => (d, sources),
        _ => return Err(modifiers.invalid("the number of operands is wrong")),
    };
    for (operand, slot) in sources.iter().zip([&mut out.a, &mut out.b, &mut out.c]) {
        *slot = builder.source(operand, ty)?;
    }
    out.d = builder.destination(d, ty)?;
    builder.add(out);
    Ok(())
}

/// A lowering of a type's integers; floats go to their families.
macro_rules! lower_integer {
    ($name:ident, $operands:literal, |$ty:ident, $modifiers:ident| $handler:expr) => {
        fn $name(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
            if let Some(lower) = float_lowering(i) {
                return lower(b, i);
            }
            exactly::<$operands>(i)?;
            let mut $modifiers = Modifiers::new(i);
            let $ty = $modifiers.ty()?;
            let handler: Option<Handler> = $handler;
            add_uniform(b, i, &$modifiers, handler, ($ty, Class::Integer))
        }
    };
}

lower_integer!(add_one, 3, |ty, modifiers| if modifiers.flag("sat") {
    match ty {
        Type::S32 => integer!(ty, binary, |x, y| x.saturating_add(y) as U as u64),
        _ => None,
    }
} else {
    integer!(ty, binary, |x, y| x.wrapping_add(y) as U as u64)
});
lower_integer!(sub, 3, |ty, modifiers| if modifiers.flag("sat") {
    match ty {
        Type::S32 => integer!(ty, binary, |x, y| x.saturating_sub(y) as U as u64),
        _ => None,
    }
} else {
    integer!(ty, binary, |x, y| x.wrapping_sub(y) as U as u64)
});
// Division by 0 gives all ones, its remainder the dividend; PTX leaves both open (9.7.1.8).
lower_integer!(div, 3, |ty, modifiers| integer!(ty, binary, |x, y| {
    (if y == 0 { !0 } else { x.wrapping_div(y) }) as U as u64
}));
lower_integer!(rem, 3, |ty, modifiers| integer!(ty, binary, |x, y| {
    (if y == 0 { x } else { x.wrapping_rem(y) }) as U as u64
}));
lower_integer!(sad, 4, |ty, modifiers| integer!(ty, ternary, |x, y, z| {
    let distance = if x < y { y.wrapping_sub(x) } else { x.wrapping_sub(y) };
    distance.wrapping_add(z) as U as u64
}));
lower_integer!(neg, 2, |ty, modifiers| integer!(ty, unary, |x| {
    (0 as T).wrapping_sub(x) as U as u64
}));
lower_integer!(abs, 2, |ty, modifiers| match ty {
    Type::S16 | Type::S32 | Type::S64 => integer!(ty, unary, |x| {
        (if x < 0 as T { (0 as T).wrapping_sub(x) } else { x }) as U as u64
    }),
    _ => None,
});

/// Packed 16-bit integers, half by half.
macro_rules! halves {
    ($half:ty, |$x:ident, $y:ident| $body:expr) => {{
        let handler: Handler = |context, instruction| {
            context.binary(instruction, |a, b| {
                let half = |shift: u32| {
                    let ($x, $y) = ((a >> shift) as $half, (b >> shift) as $half);
                    u64::from($body as u16) << shift
                };
                half(0) | half(16)
            })
        };
        handler
    }};
}

/// `add`, `min` and `max` of two packed 16-bit integers.
fn packed_integers(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<Option<()>, Error> {
    let mut modifiers = Modifiers::new(i);
    let Some(signed) = modifiers.choose(&[("u16x2", false), ("s16x2", true)]) else {
        return Ok(None);
    };
    let relu = modifiers.flag("relu");
    let handler = match (&*i.opcode, signed) {
        ("min", true) if relu => halves!(i16, |x, y| x.min(y).max(0)),
        ("max", true) if relu => halves!(i16, |x, y| x.max(y).max(0)),
        _ if relu => return Err(modifiers.unsupported("modifier .relu")),
        ("add", _) => halves!(u16, |x, y| x.wrapping_add(y)),
        ("min", false) => halves!(u16, |x, y| x.min(y)),
        ("min", true) => halves!(i16, |x, y| x.min(y)),
        ("max", false) => halves!(u16, |x, y| x.max(y)),
        ("max", true) => halves!(i16, |x, y| x.max(y)),
        _ => return Ok(None),
    };
    add_uniform(b, i, &modifiers, Some(handler), (Type::B32, Class::Integer))?;
    Ok(Some(()))
}

fn add(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    match packed_integers(b, i)? {
        Some(()) => Ok(()),
        None => add_one(b, i),
    }
}

fn min(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    min_max(b, i, false)
}

fn max(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    min_max(b, i, true)
}

fn min_max(b: &mut Builder<'_, '_>, i: &ast::Instruction, max: bool) -> Result<(), Error> {
    if let Some(lower) = float_lowering(i) {
        return lower(b, i);
    }
    exactly::<3>(i)?;
    if packed_integers(b, i)?.is_some() {
        return Ok(());
    }
    let mut modifiers = Modifiers::new(i);
    let relu = modifiers.flag("relu");
    let ty = modifiers.ty()?;
    let handler: Option<Handler> = match (max, relu, ty) {
        (false, false, _) => integer!(ty, binary, |x, y| x.min(y) as U as u64),
        (true, false, _) => integer!(ty, binary, |x, y| x.max(y) as U as u64),
        (false, true, Type::S32) => {
            Some(|c, i| c.binary(i, |x, y| (x as i32).min(y as i32).max(0) as u64))
        }
        (true, true, Type::S32) => {
            Some(|c, i| c.binary(i, |x, y| (x as i32).max(y as i32).max(0) as u64))
        }
        _ => None,
    };
    add_uniform(b, i, &modifiers, handler, (ty, Class::Integer))
}

/// Which part of a product is wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Low,
    High,
    Wide,
}

const PARTS: &[(&str, Part)] = &[("lo", Part::Low), ("hi", Part::High), ("wide", Part::Wide)];

/// The type of twice the width.
fn double(ty: Type) -> Option<Type> {
    Some(match ty {
        Type::U16 => Type::U32,
        Type::S16 => Type::S32,
        Type::U32 => Type::U64,
        Type::S32 => Type::S64,
        _ => return None,
    })
}

fn mul(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    if let Some(lower) = float_lowering(i) {
        return lower(b, i);
    }
    let [d, x, y] = exactly(i)?;
    let mut modifiers = Modifiers::new(i);
    let part = modifiers.choose(PARTS);
    let part = part.ok_or_else(|| modifiers.invalid(".lo, .hi or .wide is missing"))?;
    let ty = modifiers.ty()?;
    modifiers.finish()?;
    let handler = match part {
        Part::Low => integer!(ty, binary, |x, y| x.wrapping_mul(y) as U as u64),
        Part::High => {
            integer!(ty, binary, |x, y| ((x as W * y as W) >> T::BITS) as U as u64)
        }
        Part::Wide if double(ty).is_some() => {
            integer!(ty, binary, |x, y| (x as W * y as W) as UW as u64)
        }
        Part::Wide => None,
    };
    let result = if part == Part::Wide { double(ty).unwrap_or(ty) } else { ty };
    let mut out = Instruction::new(need(&modifiers, handler, ty)?, Class::Integer);
    (out.a, out.b) = (b.source(x, ty)?, b.source(y, ty)?);
    out.d = b.destination(d, result)?;
    b.add(out);
    Ok(())
}

fn mad(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    if let Some(lower) = float_lowering(i) {
        return lower(b, i);
    }
    let [d, x, y, z] = exactly(i)?;
    let mut modifiers = Modifiers::new(i);
    let part = modifiers.choose(PARTS);
    let part = part.ok_or_else(|| modifiers.invalid(".lo, .hi or .wide is missing"))?;
    let sat = modifiers.flag("sat");
    let ty = modifiers.ty()?;
    modifiers.finish()?;
    let handler = match (part, sat) {
        (Part::Low, false) => {
            integer!(ty, ternary, |x, y, z| x.wrapping_mul(y).wrapping_add(z) as U as u64)
        }
        (Part::High, false) => integer!(ty, ternary, |x, y, z| {
            (((x as W * y as W) >> T::BITS) as T).wrapping_add(z) as U as u64
        }),
        (Part::High, true) if ty == Type::S32 => integer!(ty, ternary, |x, y, z| {
            (((x as W * y as W) >> T::BITS) as T).saturating_add(z) as U as u64
        }),
        (Part::Wide, false) => match ty {
            Type::U16 => Some(wide_u16 as Handler),
            Type::S16 => Some(wide_s16 as Handler),
            Type::U32 => Some(wide_u32 as Handler),
            Type::S32 => Some(wide_s32 as Handler),
            _ => None,
        },
        _ => None,
    };
    let result = if part == Part::Wide { double(ty).unwrap_or(ty) } else { ty };
    let mut out = Instruction::new(need(&modifiers, handler, ty)?, Class::Integer);
    (out.a, out.b) = (b.source(x, ty)?, b.source(y, ty)?);
    (out.c, out.d) = (b.source(z, result)?, b.destination(d, result)?);
    b.add(out);
    Ok(())
}

macro_rules! wide_handler {
    ($name:ident, $t:ty, $w:ty, $uw:ty) => {
        fn $name(c: &mut super::Context<'_>, i: &Instruction) -> super::Outcome {
            c.ternary(i, |x, y, z| {
                let product = <$w>::from(x as $t) * <$w>::from(y as $t);
                u64::from((product as $uw).wrapping_add(z as $uw))
            })
        }
    };
}
wide_handler!(wide_u16, u16, u32, u32);
wide_handler!(wide_s16, i16, i32, u32);
wide_handler!(wide_u32, u32, u64, u64);
wide_handler!(wide_s32, i32, i64, u64);

/// The low 24 bits, extended.
fn low24(x: u64, signed: bool) -> i64 {
    let x = (x & 0xff_ffff) as i64;
    if signed { x << 40 >> 40 } else { x }
}

fn mul24(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    exactly::<3>(i)?;
    let mut modifiers = Modifiers::new(i);
    let high = modifiers.choose(&[("lo", false), ("hi", true)]);
    let ty = modifiers.ty()?;
    let handler: Option<Handler> = match (high, ty) {
        (Some(false), Type::U32) => {
            Some(|c, i| c.binary(i, |x, y| (low24(x, false) * low24(y, false)) as u32 as u64))
        }
        (Some(false), Type::S32) => {
            Some(|c, i| c.binary(i, |x, y| (low24(x, true) * low24(y, true)) as u32 as u64))
        }
        (Some(true), Type::U32) => Some(|c, i| {
            c.binary(i, |x, y| ((low24(x, false) * low24(y, false)) >> 16) as u32 as u64)
        }),
        (Some(true), Type::S32) => {
            Some(|c, i| c.binary(i, |x, y| ((low24(x, true) * low24(y, true)) >> 16) as u32 as u64))
        }
        _ => None,
    };
    add_uniform(b, i, &modifiers, handler, (ty, Class::Integer))
}

fn mad24(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    exactly::<4>(i)?;
    let mut modifiers = Modifiers::new(i);
    let high = modifiers.choose(&[("lo", false), ("hi", true)]);
    let saturate = modifiers.flag("sat");
    let ty = modifiers.ty()?;
    let handler: Option<Handler> = match (high, saturate, ty) {
        (Some(false), false, Type::U32) => Some(|c, i| {
            c.ternary(i, |x, y, z| (low24(x, false) * low24(y, false) + z as i64) as u32 as u64)
        }),
        (Some(false), false, Type::S32) => Some(|c, i| {
            c.ternary(i, |x, y, z| (low24(x, true) * low24(y, true) + z as i64) as u32 as u64)
        }),
        (Some(true), false, Type::U32) => Some(|c, i| {
            c.ternary(i, |x, y, z| {
                (((low24(x, false) * low24(y, false)) >> 16) + z as i64) as u32 as u64
            })
        }),
        (Some(true), false, Type::S32) => Some(|c, i| {
            c.ternary(i, |x, y, z| {
                (((low24(x, true) * low24(y, true)) >> 16) + z as i64) as u32 as u64
            })
        }),
        (Some(true), true, Type::S32) => Some(|c, i| {
            c.ternary(i, |x, y, z| {
                let sum = ((low24(x, true) * low24(y, true)) >> 16) + i64::from(z as i32);
                sum.clamp(i32::MIN.into(), i32::MAX.into()) as u32 as u64
            })
        }),
        _ => None,
    };
    add_uniform(b, i, &modifiers, handler, (ty, Class::Integer))
}

/// The sum of products of a's bytes and `b`'s parts of `width` bits from `first` on.
fn dot(x: u64, y: u64, signs: (bool, bool), (terms, width, first): (u32, u32, u32)) -> u64 {
    let part = |x: u64, shift: u32, width: u32, signed: bool| {
        let unused = 64 - width;
        let x = x >> shift << unused;
        if signed { x as i64 >> unused } else { (x >> unused) as i64 }
    };
    let term = |k: u32| part(x, k * width, width, signs.0) * part(y, 8 * (first + k), 8, signs.1);
    (0..terms).map(term).sum::<i64>() as u64
}

/// The two types of `dp4a` and `dp2a`: whether a and b have signs.
fn dot_signs(modifiers: &mut Modifiers<'_>) -> Result<(bool, bool), Error> {
    let signed = |ty: Type, modifiers: &Modifiers<'_>| match ty {
        Type::U32 => Ok(false),
        Type::S32 => Ok(true),
        _ => Err(modifiers.unsupported(&format!("type {ty:?}"))),
    };
    let (x, y) = (modifiers.ty()?, modifiers.ty()?);
    Ok((signed(x, modifiers)?, signed(y, modifiers)?))
}

fn dp4a(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    exactly::<4>(i)?;
    let mut modifiers = Modifiers::new(i);
    let handler: Handler = match dot_signs(&mut modifiers)? {
        (false, false) => |c, i| c.ternary(i, |x, y, z| quad(x, y, z, (false, false))),
        (false, true) => |c, i| c.ternary(i, |x, y, z| quad(x, y, z, (false, true))),
        (true, false) => |c, i| c.ternary(i, |x, y, z| quad(x, y, z, (true, false))),
        (true, true) => |c, i| c.ternary(i, |x, y, z| quad(x, y, z, (true, true))),
    };
    add_uniform(b, i, &modifiers, Some(handler), (Type::B32, Class::Integer))
}

fn quad(x: u64, y: u64, z: u64, signs: (bool, bool)) -> u64 {
    dot(x, y, signs, (4, 8, 0)).wrapping_add(z) as u32 as u64
}

fn dp2a(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    exactly::<4>(i)?;
    let mut modifiers = Modifiers::new(i);
    let high = modifiers.choose(&[("lo", false), ("hi", true)]);
    let high = high.ok_or_else(|| modifiers.invalid(".lo or .hi is missing"))?;
    let (x, y) = dot_signs(&mut modifiers)?;
    modifiers.finish()?;
    let mut out = Instruction::new(pair, Class::Integer);
    out.number = u64::from(x) | u64::from(y) << 1 | u64::from(high) << 2;
    let [d, p, q, r] = exactly(i)?;
    out.d = b.destination(d, Type::B32)?;
    out.a = b.source(p, Type::B32)?;
    (out.b, out.c) = (b.source(q, Type::B32)?, b.source(r, Type::B32)?);
    b.add(out);
    Ok(())
}

fn pair(c: &mut super::Context<'_>, i: &Instruction) -> super::Outcome {
    let signs = (i.number & 1 != 0, i.number & 2 != 0);
    let first = if i.number & 4 != 0 { 2 } else { 0 };
    c.ternary(i, |x, y, z| dot(x, y, signs, (2, 16, first)).wrapping_add(z) as u32 as u64)
}
