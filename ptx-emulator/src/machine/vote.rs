//! Exchanges between the lanes of a warp (PTX ISA 9.7.9.6, 9.7.13.8 to 9.7.13.14).

use super::bits::constant;
use super::context::lanes_of;
use super::{Context, Lower, Outcome, Step};
use crate::check::{Fault, ReportKind};
use crate::error::Error;
use crate::program::{Builder, Class, Handler, Instruction, Modifiers, SINK, Slot, exactly};
use crate::syntax::ast::{self, Operand, Type};

pub(super) const TABLE: &[(&str, Lower)] = &[
    ("activemask", activemask),
    ("elect", elect),
    ("match", matches),
    ("redux", redux),
    ("shfl", shfl),
    ("vote", vote),
];

impl Context<'_> {
    /// Of each lane's member mask, all threads that haven't exited execute the instruction with
    /// the same mask, and each executing lane is a member (PTX ISA 9.7.13.8).
    pub(super) fn check_members(&self, slot: Slot) -> Result<(), Box<Fault>> {
        let masks = self.lanes(slot);
        for lane in lanes_of(self.mask) {
            let members = masks[lane] as u32;
            if members >> lane & 1 == 0 {
                let message = format!("lane {lane} is not in its own member mask {members:#x}");
                return Err(Fault::of_lane(ReportKind::Divergence, lane, message));
            }
            let absent = members & self.warp.live & !self.mask;
            if absent != 0 {
                let absent = absent.trailing_zeros();
                let message = format!(
                    "lane {absent} is in the member mask {members:#x}, but it does not execute \
                    the instruction with the others"
                );
                return Err(Fault::of_lane(ReportKind::Divergence, lane, message));
            }
            let differs = |other: &usize| masks[*other] as u32 != members;
            if let Some(other) = lanes_of(members & self.mask).find(differs) {
                let message = format!(
                    "lane {other} is in the member mask {members:#x}, and has another one itself"
                );
                return Err(Fault::of_lane(ReportKind::Divergence, lane, message));
            }
        }
        Ok(())
    }
}

/// Lanes in the groups that have the same member mask.
pub(super) fn groups(c: &Context<'_>, slot: Slot) -> Vec<u32> {
    let masks = c.lanes(slot);
    let mut rest = c.mask;
    let mut groups = Vec::new();
    while rest != 0 {
        let group = masks[rest.trailing_zeros() as usize] as u32 & rest;
        groups.push(group);
        rest &= !group;
    }
    groups
}

fn activemask(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    let [d] = exactly(i)?;
    let mut modifiers = Modifiers::new(i);
    let ty = modifiers.ty()?;
    modifiers.finish()?;
    let mut out = Instruction::new(
        |c, i| {
            let mask = u64::from(c.mask);
            c.write(i.d, &[mask; 32]);
            Ok(Step::Next)
        },
        Class::Warp,
    );
    out.d = b.destination(d, ty)?;
    b.add(out);
    Ok(())
}

/// The leader is the lowest member; PTX leaves open which one it is.
fn elect(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    let [d, mask] = exactly(i)?;
    let mut modifiers = Modifiers::new(i);
    modifiers.flag("sync");
    modifiers.finish()?;
    let Operand::Pair(pair) = d else {
        return Err(modifiers.invalid("the destination is no pair d|p"));
    };
    let mut out = Instruction::new(
        |c, i| {
            c.check_members(i.a)?;
            let (mut out, mut leaders) = ([0; 32], 0);
            // Lanes that have ended lead nobody.
            for group in groups(c, i.a) {
                let leader = group.trailing_zeros();
                leaders |= 1 << leader;
                lanes_of(group).for_each(|lane| out[lane] = leader.into());
            }
            c.write(i.d, &out);
            c.write_predicate(i.p, leaders);
            Ok(Step::Next)
        },
        Class::Warp,
    );
    out.d = b.destination(&pair.0, Type::B32)?;
    (out.p, out.a) = (b.predicate_destination(&pair.1)?, b.source(mask, Type::B32)?);
    b.add(out);
    Ok(())
}

fn vote(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    let [d, p, mask] = exactly(i)?;
    let mut modifiers = Modifiers::new(i);
    if !modifiers.flag("sync") {
        return Err(modifiers.unsupported("the form without .sync"));
    }
    let all: Handler = |c, i| vote_with(c, i, |votes, group| votes == group);
    let any: Handler = |c, i| vote_with(c, i, |votes, _| votes != 0);
    let uni: Handler = |c, i| vote_with(c, i, |votes, group| votes == 0 || votes == group);
    let kinds = [("all", all), ("any", any), ("uni", uni), ("ballot", ballot as Handler)];
    let ballots = i.modifiers.iter().any(|word| &**word == "ballot");
    let handler = modifiers.choose(&kinds).ok_or_else(|| modifiers.unsupported("the form"))?;
    modifiers.ty()?;
    modifiers.finish()?;
    let mut out = Instruction::new(handler, Class::Warp);
    if ballots {
        out.d = b.destination(d, Type::B32)?;
    } else {
        out.p = b.predicate_destination(d)?;
    }
    (out.q, out.a) = (b.predicate_source(p)?, b.source(mask, Type::B32)?);
    b.add(out);
    Ok(())
}

fn vote_with(c: &mut Context<'_>, i: &Instruction, f: impl Fn(u32, u32) -> bool) -> Outcome {
    c.check_members(i.a)?;
    let votes = c.predicate(i.q);
    let groups = groups(c, i.a);
    let value = groups.into_iter().filter(|group| f(votes & group, *group)).sum();
    c.write_predicate(i.p, value);
    Ok(Step::Next)
}

fn ballot(c: &mut Context<'_>, i: &Instruction) -> Outcome {
    c.check_members(i.a)?;
    let votes = c.predicate(i.q);
    let mut out = [0; 32];
    for group in groups(c, i.a) {
        lanes_of(group).for_each(|lane| out[lane] = u64::from(votes & group));
    }
    c.write(i.d, &out);
    Ok(Step::Next)
}

fn matches(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    let [d, x, mask] = exactly(i)?;
    let mut modifiers = Modifiers::new(i);
    modifiers.flag("sync");
    let all = modifiers.choose(&[("all", true), ("any", false)]);
    let all = all.ok_or_else(|| modifiers.invalid(".all or .any is missing"))?;
    let ty = modifiers.ty()?;
    modifiers.finish()?;
    let mut out = Instruction::new(if all { match_all } else { match_any }, Class::Warp);
    let (d, p) = match d {
        Operand::Pair(pair) => (&pair.0, Some(&pair.1)),
        d => (d, None),
    };
    out.d = b.destination(d, Type::B32)?;
    out.p = match p {
        Some(p) => b.predicate_destination(p)?,
        None => SINK,
    };
    (out.a, out.b) = (b.source(mask, Type::B32)?, b.source(x, ty)?);
    b.add(out);
    Ok(())
}

fn match_any(c: &mut Context<'_>, i: &Instruction) -> Outcome {
    c.check_members(i.a)?;
    let x = *c.lanes(i.b);
    let mut out = [0; 32];
    for group in groups(c, i.a) {
        for lane in lanes_of(group) {
            let same = lanes_of(group).filter(|other| x[*other] == x[lane]);
            out[lane] = same.fold(0, |mask, lane| mask | 1 << lane);
        }
    }
    c.write(i.d, &out);
    Ok(Step::Next)
}

fn match_all(c: &mut Context<'_>, i: &Instruction) -> Outcome {
    c.check_members(i.a)?;
    let x = *c.lanes(i.b);
    let (mut out, mut holds) = ([0; 32], 0);
    for group in groups(c, i.a) {
        let first = group.trailing_zeros() as usize;
        if lanes_of(group).all(|lane| x[lane] == x[first]) {
            holds |= group;
            lanes_of(group).for_each(|lane| out[lane] = u64::from(group));
        }
    }
    c.write(i.d, &out);
    c.write_predicate(i.p, holds);
    Ok(Step::Next)
}

fn redux(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    let [d, x, mask] = exactly(i)?;
    let mut modifiers = Modifiers::new(i);
    modifiers.flag("sync");
    let op = modifiers.find(|word| {
        ["add", "min", "max", "and", "or", "xor"].contains(&word).then(|| word.to_string())
    });
    let ty = modifiers.ty()?;
    modifiers.finish()?;
    let handler: Handler = match (op.as_deref(), ty) {
        (Some("add"), Type::U32 | Type::S32) => |c, i| reduce(c, i, u32::wrapping_add),
        (Some("min"), Type::U32) => |c, i| reduce(c, i, u32::min),
        (Some("max"), Type::U32) => |c, i| reduce(c, i, u32::max),
        (Some("min"), Type::S32) => |c, i| reduce(c, i, |x, y| (x as i32).min(y as i32) as u32),
        (Some("max"), Type::S32) => |c, i| reduce(c, i, |x, y| (x as i32).max(y as i32) as u32),
        (Some("and"), Type::B32) => |c, i| reduce(c, i, |x, y| x & y),
        (Some("or"), Type::B32) => |c, i| reduce(c, i, |x, y| x | y),
        (Some("xor"), Type::B32) => |c, i| reduce(c, i, |x, y| x ^ y),
        _ => return Err(modifiers.unsupported("this form")),
    };
    let mut out = Instruction::new(handler, Class::Warp);
    out.d = b.destination(d, ty)?;
    (out.a, out.b) = (b.source(mask, Type::B32)?, b.source(x, ty)?);
    b.add(out);
    Ok(())
}

fn reduce(c: &mut Context<'_>, i: &Instruction, f: impl Fn(u32, u32) -> u32) -> Outcome {
    c.check_members(i.a)?;
    let x = *c.lanes(i.b);
    let mut out = [0; 32];
    for group in groups(c, i.a) {
        let result = lanes_of(group).map(|lane| x[lane] as u32).reduce(&f).unwrap_or(0);
        lanes_of(group).for_each(|lane| out[lane] = result.into());
    }
    c.write(i.d, &out);
    Ok(Step::Next)
}

/// How `shfl` finds its source lane.
const SHUFFLES: &[(&str, u64)] = &[("up", 0), ("down", 1), ("bfly", 2), ("idx", 3)];

fn shfl(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    let mut modifiers = Modifiers::new(i);
    if !modifiers.flag("sync") {
        return Err(modifiers.unsupported("the form without .sync"));
    }
    let mode = modifiers.choose(SHUFFLES).ok_or_else(|| modifiers.unsupported("the form"))?;
    let ty = modifiers.ty()?;
    modifiers.finish()?;
    let [d, x, offset, clamp, mask] = exactly(i)?;
    let (d, p) = match d {
        Operand::Pair(pair) => (&pair.0, Some(&pair.1)),
        d => (d, None),
    };
    let mut out = Instruction::new(shuffle, Class::Warp);
    out.number = mode;
    out.d = b.destination(d, ty)?;
    out.p = match p {
        Some(p) => b.predicate_destination(p)?,
        None => SINK,
    };
    (out.a, out.b) = (b.source(x, ty)?, b.source(offset, Type::B32)?);
    out.c = b.source(clamp, Type::B32)?;
    out.list = Box::new([b.source(mask, Type::B32)?, constant(b, 0)]);
    b.add(out);
    Ok(())
}

fn shuffle(c: &mut Context<'_>, i: &Instruction) -> Outcome {
    c.check_members(i.list[0])?;
    let (x, offsets, clamps) = (*c.lanes(i.a), *c.lanes(i.b), *c.lanes(i.c));
    let members = *c.lanes(i.list[0]);
    let (mut out, mut valid) = ([0; 32], 0u32);
    for lane in lanes_of(c.mask) {
        let (offset, clamp) = (offsets[lane] as u32 & 31, clamps[lane] as u32 & 31);
        let segment = clamps[lane] as u32 >> 8 & 31;
        let me = lane as u32;
        let (lowest, highest) = (me & segment, me & segment | clamp & !segment);
        let (source, inside) = match i.number {
            0 => (me.wrapping_sub(offset), me as i32 - offset as i32 >= highest as i32),
            1 => (me + offset, me + offset <= highest),
            2 => (me ^ offset, me ^ offset <= highest),
            _ => {
                let source = lowest | offset & !segment;
                (source, source <= highest)
            }
        };
        let source = if inside { source } else { me } as usize;
        if members[lane] >> source & 1 == 0 || c.mask >> source & 1 == 0 {
            let message = format!("shfl reads lane {source}, which doesn't take part");
            return Err(Fault::of_lane(ReportKind::Divergence, lane, message));
        }
        out[lane] = x[source];
        valid |= u32::from(inside) << lane;
    }
    c.write(i.d, &out);
    c.write_predicate(i.p, valid);
    Ok(Step::Next)
}
