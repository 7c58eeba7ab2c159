//! Sums, differences and products of numbers of several words: `.cc` writes a thread's carry;
//! `addc`, `subc` and `madc` read it (PTX ISA 9.7.2).

use super::context::lanes_of;
use super::{Context, Lower, Outcome, Step};
use crate::error::Error;
use crate::program::{Builder, CARRY, Class, FALSE, Handler, Instruction, Modifiers, SINK};
use crate::syntax::ast::{self, Type};

pub(super) const TABLE: &[(&str, Lower)] = &[("addc", lower), ("madc", lower), ("subc", lower)];

/// Lowers what reads the carry, writes it, or both.
pub(super) fn lower(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    let mut modifiers = Modifiers::new(i);
    if !["add", "addc", "mad", "madc", "sub", "subc"].contains(&&*i.opcode) {
        return Err(modifiers.unsupported("modifier .cc"));
    }
    let writes = modifiers.flag("cc");
    let reads = i.opcode.ends_with('c');
    let product = i.opcode.starts_with("mad");
    let high = match product {
        true => modifiers.choose(&[("lo", false), ("hi", true)]),
        false => Some(false),
    };
    let high = high.ok_or_else(|| modifiers.invalid(".lo or .hi is missing"))?;
    let ty = modifiers.ty()?;
    modifiers.finish()?;
    let handler: Handler = match (&*i.opcode, high, ty) {
        (_, _, Type::U32 | Type::U64 | Type::S32 | Type::S64) if !product => match &i.opcode[..3] {
            "add" => |c, i| run(c, i, |bits, [x, y, _], carry| sum(bits, x, y, carry)),
            _ => |c, i| run(c, i, |bits, [x, y, _], borrow| difference(bits, x, y, borrow)),
        },
        (_, false, Type::U32 | Type::U64 | Type::S32 | Type::S64) => {
            |c, i| run(c, i, |bits, [x, y, z], carry| sum(bits, x.wrapping_mul(y), z, carry))
        }
        (_, true, Type::U32 | Type::U64) => |c, i| {
            run(c, i, |bits, [x, y, z], carry| sum(bits, high_unsigned(bits, x, y), z, carry))
        },
        (_, true, Type::S32 | Type::S64) => {
            |c, i| run(c, i, |bits, [x, y, z], carry| sum(bits, high_signed(bits, x, y), z, carry))
        }
        _ => return Err(modifiers.unsupported(&format!("type {ty:?}"))),
    };
    let mut out = Instruction::new(handler, Class::Integer);
    out.number = if matches!(ty, Type::U64 | Type::S64) { 64 } else { 32 };
    let (d, sources) = match i.operands.as_slice() {
        [d, sources @ ..] if sources.len() == if product { 3 } else { 2 } => (d, sources),
        _ => return Err(modifiers.invalid("the number of operands is wrong")),
    };
    for (operand, slot) in sources.iter().zip([&mut out.a, &mut out.b, &mut out.c]) {
        *slot = b.source(operand, ty)?;
    }
    out.d = b.destination(d, ty)?;
    out.p = if writes { CARRY } else { SINK };
    out.q = if reads { CARRY } else { FALSE };
    b.add(out);
    Ok(())
}

/// Writes the result and the carry of a function of the bits of a word, three words and a carry.
#[inline(always)]
fn run(
    c: &mut Context<'_>,
    i: &Instruction,
    f: impl Fn(u32, [u64; 3], bool) -> (u64, bool),
) -> Outcome {
    let carries = c.predicate(i.q);
    let (x, y, z) = (c.lanes(i.a), c.lanes(i.b), c.lanes(i.c));
    let (mut out, mut carried) = ([0; 32], 0);
    for lane in lanes_of(c.mask) {
        let words = [x[lane], y[lane], z[lane]];
        let (word, carry) = f(i.number as u32, words, carries >> lane & 1 != 0);
        out[lane] = word;
        carried |= u32::from(carry) << lane;
    }
    c.write(i.d, &out);
    c.write_predicate(i.p, carried);
    Ok(Step::Next)
}

/// The low bits of a number.
fn low(bits: u32, x: u64) -> u64 {
    x & (u64::MAX >> (64 - bits))
}

fn sum(bits: u32, x: u64, y: u64, carry: bool) -> (u64, bool) {
    let sum = u128::from(low(bits, x)) + u128::from(low(bits, y)) + u128::from(carry);
    (low(bits, sum as u64), sum >> bits != 0)
}

fn difference(bits: u32, x: u64, y: u64, borrow: bool) -> (u64, bool) {
    let less = u128::from(low(bits, y)) + u128::from(borrow);
    let x = u128::from(low(bits, x));
    (low(bits, x.wrapping_sub(less) as u64), x < less)
}

fn high_unsigned(bits: u32, x: u64, y: u64) -> u64 {
    ((u128::from(low(bits, x)) * u128::from(low(bits, y))) >> bits) as u64
}

fn high_signed(bits: u32, x: u64, y: u64) -> u64 {
    let signed = |x: u64| i128::from((x << (64 - bits)) as i64 >> (64 - bits));
    ((signed(x) * signed(y)) >> bits) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_32_bits() {
        assert_eq!(sum(32, 0xffff_ffff, 1, false), (0, true));
        assert_eq!(sum(32, 0xffff_ffff, 0xffff_ffff, true), (0xffff_ffff, true));
        assert_eq!(sum(32, 1, 2, true), (4, false));
        assert_eq!(difference(32, 0, 1, false), (0xffff_ffff, true));
        assert_eq!(difference(32, 5, 4, true), (0, false));
        assert_eq!(difference(32, 0, 0xffff_ffff, true), (0, true));
        assert_eq!(high_unsigned(32, 0xffff_ffff, 0xffff_ffff), 0xffff_fffe);
        assert_eq!(low(32, high_signed(32, 0xffff_ffff, 2)), 0xffff_ffff);
    }

    #[test]
    fn words_of_64_bits() {
        assert_eq!(sum(64, u64::MAX, u64::MAX, true), (u64::MAX, true));
        assert_eq!(difference(64, 0, u64::MAX, true), (0, true));
        assert_eq!(high_unsigned(64, u64::MAX, u64::MAX), u64::MAX - 1);
        assert_eq!(high_signed(64, u64::MAX, u64::MAX), 0);
    }
}
