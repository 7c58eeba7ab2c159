//! Executes lowered kernels, warp by warp, 32 lanes at once.
//!
//! Each family of instructions has a file with its lowering (from a syntax tree's instruction to a
//! function and operands) and those functions. [`lower`] finds the family by the opcode.

pub(crate) mod asynchronous;
pub(crate) mod atomics;
mod barrier;
mod bits;
mod block;
mod carry;
mod compare;
mod context;
mod control;
pub(crate) mod convert;
mod float;
mod forms;
mod global;
pub(crate) mod hopper;
mod integer;
mod launch;
pub(crate) mod matrix;
mod memory;
mod movement;
mod needs;
mod packed;
mod registers;
mod shared;
mod statistics;
mod unwritten;
mod vote;
mod warp;

pub(crate) use context::{Context, Lanes, Outcome, Step};
pub(crate) use launch::{Job, launch};
pub use statistics::Statistics;

use crate::error::Error;
use crate::program::flow::Flow;
use crate::program::{Builder, Class, Instruction, Slot};
use crate::syntax::ast;

/// Lowers an instruction of one family.
type Lower = fn(&mut Builder<'_, '_>, &ast::Instruction) -> Result<(), Error>;

/// The families' tables: opcodes and what lowers them.
const FAMILIES: &[&[(&str, Lower)]] = &[
    asynchronous::TABLE,
    atomics::TABLE,
    barrier::TABLE,
    bits::TABLE,
    carry::TABLE,
    compare::TABLE,
    control::TABLE,
    convert::TABLE,
    float::TABLE,
    integer::TABLE,
    matrix::TABLE,
    memory::TABLE,
    movement::TABLE,
    packed::TABLE,
    vote::TABLE,
];

/// Lowers an instruction.
pub(crate) fn lower(
    builder: &mut Builder<'_, '_>,
    instruction: &ast::Instruction,
) -> Result<(), Error> {
    needs::check(builder, instruction)?;
    if let Some(lower) = hopper::find(instruction) {
        return lower(builder, instruction);
    }
    let tables = FAMILIES.iter().flat_map(|table| table.iter());
    let mut found = tables.filter(|(opcode, _)| *opcode == &*instruction.opcode);
    match found.next() {
        Some((_, lower)) => lower(builder, instruction),
        None => {
            let words = instruction.modifiers.iter().map(|word| format!(".{word}"));
            let name = format!("{}{}", instruction.opcode, words.collect::<String>());
            Err(Error::unsupported(instruction.at, format!("the instruction {name}")))
        }
    }
}

/// What an instruction does to the control flow; of branches, without their targets.
pub(crate) fn flow(instruction: &Instruction) -> Flow {
    control::flow(instruction)
}

/// What stands behind the last instruction of a function.
pub(crate) fn end_of_function() -> Instruction {
    Instruction::new(control::ret, Class::Control)
}

/// Puts the address of a place of the function's frame into a register.
pub(crate) fn frame_address(d: Slot, offset: u64) -> Instruction {
    let mut instruction = Instruction::new(movement::frame_address, Class::Move);
    (instruction.d, instruction.number) = (d, offset);
    instruction
}

/// Puts so many bits of a time into a register, or its upper half.
pub(crate) fn read_clock(d: Slot, bits: u32, high: bool) -> Instruction {
    let mut instruction = Instruction::new(movement::read_clock, Class::Move);
    let below = if high { 32 } else { 0 };
    (instruction.d, instruction.number) = (d, u64::from(bits << 8 | below));
    instruction
}
