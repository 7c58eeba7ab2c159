//! Moves, packing and unpacking, and addresses of one space made those of another
//! (PTX ISA 9.7.9.1 to 9.7.9.6, 9.7.9.20).

use super::{Context, Lower, Outcome, Step};
use crate::error::Error;
use crate::memory::{LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW, WINDOW_BYTES};
use crate::program::{Builder, Class, Handler, Instruction, Modifiers, bits, exactly};
use crate::syntax::ast::{self, Operand, Type};

pub(super) const TABLE: &[(&str, Lower)] = &[("cvta", cvta), ("isspacep", isspacep), ("mov", mov)];

fn mov(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    let [d, x] = exactly(i)?;
    let mut modifiers = Modifiers::new(i);
    let ty = modifiers.ty()?;
    modifiers.finish()?;
    if ty == Type::Pred {
        let mut out = Instruction::new(
            |c, i| {
                c.write_predicate(i.p, c.predicate(i.q));
                Ok(Step::Next)
            },
            Class::Move,
        );
        (out.p, out.q) = (b.predicate_destination(d)?, b.predicate_source(x)?);
        b.add(out);
        return Ok(());
    }
    match (d, x) {
        (Operand::Vector(_), _) => unpack(b, d, x, ty, &modifiers),
        (_, Operand::Vector(_)) => pack(b, d, x, ty, &modifiers),
        _ => {
            let mut out = Instruction::new(copy, Class::Move);
            (out.a, out.d) = (b.source(x, ty)?, b.destination(d, ty)?);
            b.add(out);
            Ok(())
        }
    }
}

pub(super) fn copy(c: &mut Context<'_>, i: &Instruction) -> Outcome {
    let value = *c.lanes(i.a);
    c.write(i.d, &value);
    Ok(Step::Next)
}

/// The type of each of `count` parts of a packed type.
fn part(ty: Type, count: usize, modifiers: &Modifiers<'_>) -> Result<Type, Error> {
    match (bits(ty) as usize).checked_div(count) {
        Some(8) => Ok(Type::B8),
        Some(16) => Ok(Type::B16),
        Some(32) => Ok(Type::B32),
        Some(64) => Ok(Type::B64),
        _ => Err(modifiers.invalid("the vector's length doesn't fit the type")),
    }
}

fn pack(
    b: &mut Builder<'_, '_>,
    d: &Operand,
    x: &Operand,
    ty: Type,
    modifiers: &Modifiers<'_>,
) -> Result<(), Error> {
    let parts = b.elements(x)?;
    if ty == Type::B128 {
        return Err(modifiers.unsupported("type B128"));
    }
    let part = part(ty, parts.len(), modifiers)?;
    let mut out = Instruction::new(
        |c, i| {
            let mut value = [0; 32];
            for (k, slot) in i.list.iter().enumerate() {
                let x = c.lanes(*slot);
                for lane in 0..32 {
                    value[lane] |=
                        (x[lane] & (u64::MAX >> (64 - i.number))) << (k as u64 * i.number);
                }
            }
            c.write(i.d, &value);
            Ok(Step::Next)
        },
        Class::Move,
    );
    out.number = bits(part).into();
    let sources = parts.iter().map(|x| b.wide_source(x, part));
    out.list = sources.collect::<Result<Vec<_>, _>>()?.into();
    out.d = b.destination(d, ty)?;
    b.add(out);
    Ok(())
}

fn unpack(
    b: &mut Builder<'_, '_>,
    d: &Operand,
    x: &Operand,
    ty: Type,
    modifiers: &Modifiers<'_>,
) -> Result<(), Error> {
    let parts = b.elements(d)?;
    if ty == Type::B128 {
        return Err(modifiers.unsupported("type B128"));
    }
    let part = part(ty, parts.len(), modifiers)?;
    let mut out = Instruction::new(
        |c, i| {
            let x = *c.lanes(i.a);
            for (k, slot) in i.list.iter().enumerate() {
                let (shift, mask) = (k as u64 * i.number, u64::MAX >> (64 - i.number));
                let value = std::array::from_fn(|lane| x[lane] >> shift & mask);
                c.write(*slot, &value);
            }
            Ok(Step::Next)
        },
        Class::Move,
    );
    out.number = bits(part).into();
    out.a = b.source(x, ty)?;
    out.writes = parts.len() as u8;
    let destinations = parts.iter().map(|d| Ok(b.wide_destination(d, part)?.0));
    out.list = destinations.collect::<Result<Vec<_>, Error>>()?.into();
    b.add(out);
    Ok(())
}

/// Puts the address of a place of the function's frame into a register.
pub(super) fn frame_address(c: &mut Context<'_>, i: &Instruction) -> Outcome {
    let address = c.frame.local.wrapping_add(i.number);
    c.write(i.d, &[address; 32]);
    Ok(Step::Next)
}

/// Time is counted in instructions of the warp; the number says which bits of it.
pub(super) fn read_clock(c: &mut Context<'_>, i: &Instruction) -> Outcome {
    let (bits, below) = (i.number >> 8, i.number & 0xff);
    let now = c.warp.steps >> below & (u64::MAX >> (64 - bits));
    c.write(i.d, &[now; 32]);
    Ok(Step::Next)
}

/// The first generic address of a state space.
fn window(word: &str) -> Option<u64> {
    match word {
        "global" | "const" => Some(0),
        "shared" | "shared::cta" | "shared::cluster" => Some(SHARED_WINDOW),
        "local" => Some(LOCAL_WINDOW),
        "param" | "param::entry" => Some(PARAM_WINDOW),
        _ => None,
    }
}

fn cvta(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    let [d, x] = exactly(i)?;
    let mut modifiers = Modifiers::new(i);
    let to = modifiers.flag("to");
    let window = modifiers.find(window);
    let window = window.ok_or_else(|| modifiers.unsupported("the state space"))?;
    let ty = modifiers.ty()?;
    modifiers.finish()?;
    if ty != Type::U64 {
        return Err(modifiers.unsupported(&format!("type {ty:?}")));
    }
    let handler: Handler = match (to, window) {
        (_, 0) => copy,
        // What isn't in the window has no address in its space; the shared one's is no one's.
        (true, _) => |c, i| {
            c.unary(i, |x| {
                let offset = x.wrapping_sub(i.number);
                if offset < WINDOW_BYTES { offset } else { x }
            })
        },
        (false, _) => |c, i| c.unary(i, |x| x.wrapping_add(i.number)),
    };
    let mut out = Instruction::new(handler, Class::Move);
    out.number = window;
    (out.a, out.d) = (b.source(x, ty)?, b.destination(d, ty)?);
    b.add(out);
    Ok(())
}

fn isspacep(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    let [d, x] = exactly(i)?;
    let mut modifiers = Modifiers::new(i);
    let has = |wanted: &[&str]| i.modifiers.iter().any(|word| wanted.contains(&&**word));
    let (constant, own) = (has(&["const"]), has(&["shared", "shared::cta"]));
    let window = modifiers.find(window);
    let window = window.ok_or_else(|| modifiers.unsupported("the state space"))?;
    modifiers.finish()?;
    let handler: Handler = match (window, constant) {
        // Constant variables lie among global ones, and are none (PTX ISA 6.4.1.1).
        (0, true) => |c, i| are_inside(c, i, is_constant),
        (0, false) => |c, i| {
            // The parameters' window is inside that of global memory.
            let is = |c: &Context<'_>, address| address < SHARED_WINDOW && !is_constant(c, address);
            are_inside(c, i, |c, address| is(c, address) || is_parameter(address))
        },
        _ if own => |c, i| are_inside(c, i, is_own),
        _ => |c, i| are_inside(c, i, |_, address| address.wrapping_sub(i.number) < WINDOW_BYTES),
    };
    let mut out = Instruction::new(handler, Class::Move);
    out.number = window;
    (out.a, out.p) = (b.source(x, Type::U64)?, b.predicate_destination(d)?);
    b.add(out);
    Ok(())
}

/// Writes which lanes' addresses are inside.
fn are_inside(
    c: &mut Context<'_>,
    i: &Instruction,
    is_inside: impl Fn(&Context<'_>, u64) -> bool,
) -> Outcome {
    let x = c.lanes(i.a);
    let value = (0..32).map(|lane| u32::from(is_inside(c, x[lane])) << lane).sum();
    c.write_predicate(i.p, value);
    Ok(Step::Next)
}

/// Whether an address is one of the kernel's parameters.
pub(super) fn is_parameter(address: u64) -> bool {
    address.wrapping_sub(PARAM_WINDOW) < WINDOW_BYTES
}

/// Whether an address is in the block's own shared memory, not in another one's of its cluster.
fn is_own(c: &Context<'_>, address: u64) -> bool {
    let inside = address.wrapping_sub(SHARED_WINDOW);
    inside < WINDOW_BYTES && c.home(inside).is_some_and(|(rank, _)| rank == c.rank)
}

/// Whether an address is that of a variable in constant memory.
fn is_constant(c: &Context<'_>, address: u64) -> bool {
    c.grid.memory.find(address, 1).is_some_and(|allocation| allocation.read_only)
}
