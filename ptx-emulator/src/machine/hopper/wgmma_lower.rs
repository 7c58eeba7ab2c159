//! Lowering of `wgmma` (PTX ISA 9.7.15.5, 9.7.15.7).

use super::wgmma::{Operation, commit, fence, multiply, wait};
use crate::bulk::Major;
use crate::error::Error;
use crate::program::{Builder, Class, Detail, Instruction, Modifiers, Slot, exactly};
use crate::syntax::ast::{self, Constant, Operand, Type};
use crate::tensor_core::{Accumulator, Element, Wgmma};
use std::sync::Arc;

/// Lowers `wgmma.mma_async`.
pub(super) fn lower(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    let mut modifiers = Modifiers::new(i);
    modifiers.flag("mma_async");
    if !(modifiers.flag("sync") && modifiers.flag("aligned")) {
        return Err(modifiers.unsupported("this form"));
    }
    let shape = |word: &str| {
        let (n, k) = word.strip_prefix("m64n")?.split_once('k')?;
        Some((n.parse::<usize>().ok()?, k.parse::<usize>().ok()?))
    };
    let shape = modifiers.find(shape).ok_or_else(|| modifiers.invalid("no shape"))?;
    let results = [("f32", Accumulator::F32), ("f16", Accumulator::F16), ("s32", Accumulator::S32)];
    let elements = [
        ("f16", Element::F16),
        ("bf16", Element::Bf16),
        ("tf32", Element::Tf32),
        ("e4m3", Element::E4m3),
        ("e5m2", Element::E5m2),
        ("s8", Element::S8),
        ("u8", Element::U8),
    ];
    let d = modifiers.choose(&results);
    let types = (d, modifiers.choose(&elements), modifiers.choose(&elements));
    let (Some(d), Some(of_a), Some(of_b)) = types else {
        return Err(modifiers.unsupported("the types"));
    };
    let satfinite = modifiers.flag("satfinite");
    modifiers.finish()?;
    let [accumulator, a, rest @ ..] = &i.operands[..] else {
        return Err(modifiers.invalid("operands are missing"));
    };
    let [descriptor_b, accumulate, rest @ ..] = rest else {
        return Err(modifiers.invalid("operands are missing"));
    };
    let in_registers = matches!(a, Operand::Vector(_));
    let Immediates { negate: [negate_a, negate_b], major: [major_a, major_b] } =
        Immediates::new(rest, of_a, in_registers, &modifiers)?;
    let wgmma = Wgmma { n: shape.0, a: of_a, b: of_b, d, satfinite, negate_a, negate_b };
    if !wgmma.is_valid() || wgmma.shape().k != shape.1 || satfinite && !of_a.is_integer() {
        return Err(modifiers.unsupported("the combination of types and shape"));
    }
    let accumulators = registers(b, accumulator)?;
    if accumulators.len() != wgmma.accumulator_registers() {
        return Err(modifiers.invalid("the number of accumulators"));
    }
    let mut out = Instruction::new(multiply, Class::Matrix);
    let a = match in_registers {
        true => {
            let a = registers(b, a)?;
            Some(a.as_ref().try_into().map_err(|_| modifiers.invalid("A has not four registers"))?)
        }
        false => {
            out.c = b.source(a, Type::B64)?;
            None
        }
    };
    out.b = b.source(descriptor_b, Type::B64)?;
    out.q = b.predicate_source(accumulate)?;
    out.writes = accumulators.len() as u8;
    out.list = accumulators.iter().chain(a.iter().flatten()).copied().collect();
    let operation = Operation { wgmma, a, accumulators, major_a, major_b };
    b.beyond_barriers();
    out.detail = Detail::Hopper(Box::new(super::Operation::Product(Arc::new(operation))));
    b.add(out);
    Ok(())
}

/// The factors and transpositions of an instruction.
struct Immediates {
    negate: [bool; 2],
    major: [Major; 2],
}

impl Immediates {
    /// From the last operands. Integers have none, other types two factors, and those of 16 bits a
    /// transposition for each operand in shared memory.
    fn new(
        operands: &[Operand],
        of_a: Element,
        in_registers: bool,
        modifiers: &Modifiers<'_>,
    ) -> Result<Immediates, Error> {
        let values = immediates(operands).ok_or_else(|| modifiers.invalid("the immediates"))?;
        let counts = match (of_a.is_integer(), of_a.bits() == 16, in_registers) {
            (true, ..) => (0, 0),
            (false, false, _) => (2, 0),
            (false, true, true) => (2, 1),
            (false, true, false) => (2, 2),
        };
        if values.len() != counts.0 + counts.1 {
            return Err(modifiers.invalid("the number of operands"));
        }
        let (factors, transpositions) = values.split_at(counts.0);
        let negates = |factor: i64| match factor {
            1 => Ok(false),
            -1 => Ok(true),
            _ => Err(modifiers.invalid("a factor that is neither 1 nor -1")),
        };
        let major = |transposed: i64| match transposed {
            0 => Ok(Major::K),
            1 => Ok(Major::Mn),
            _ => Err(modifiers.invalid("a transposition that is neither 0 nor 1")),
        };
        let negate = match *factors {
            [a, b] => [negates(a)?, negates(b)?],
            _ => [false; 2],
        };
        let major = match *transpositions {
            [a, b] => [major(a)?, major(b)?],
            [b] => [Major::K, major(b)?],
            _ => [Major::K; 2],
        };
        Ok(Immediates { negate, major })
    }
}

/// The integers that the last operands are.
fn immediates(operands: &[Operand]) -> Option<Vec<i64>> {
    let integer = |operand: &Operand| match operand {
        Operand::Constant(Constant::Integer(value)) => Some(*value),
        _ => None,
    };
    operands.iter().map(integer).collect()
}

/// The 32-bit registers of a vector operand.
fn registers(b: &mut Builder<'_, '_>, operand: &Operand) -> Result<Box<[Slot]>, Error> {
    let elements = b.elements(operand)?;
    let slots = elements.iter().map(|element| b.destination(element, Type::B32));
    Ok(slots.collect::<Result<Vec<_>, _>>()?.into())
}

/// Lowers `wgmma.fence`, `wgmma.commit_group` and `wgmma.wait_group`.
pub(super) fn lower_control(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    let mut modifiers = Modifiers::new(i);
    let what = modifiers.choose(&[("fence", 0), ("commit_group", 1), ("wait_group", 2)]);
    let aligned = modifiers.flag("sync") && modifiers.flag("aligned");
    let (Some(what), true) = (what, aligned) else {
        return Err(modifiers.unsupported("this form"));
    };
    modifiers.finish()?;
    b.beyond_barriers();
    let run = [fence, commit, wait][what];
    let mut out = Instruction::new(run, Class::Synchronization);
    if what == 2 {
        let [Operand::Constant(Constant::Integer(latest @ 0..))] = i.operands[..] else {
            return Err(modifiers.invalid("the number of groups"));
        };
        out.number = latest as u64;
    } else {
        exactly::<0>(i)?;
    }
    b.add(out);
    Ok(())
}
