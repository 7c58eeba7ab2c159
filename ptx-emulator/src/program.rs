//! From a syntax tree to what the machine executes.
//!
//! A kernel is lowered when it is first launched: names become registers, addresses and indices,
//! each instruction gets the function that executes it, and each branch the place where the lanes
//! that part at it meet again. The table from opcodes to functions is the machine's.

mod builder;
pub(crate) mod flow;
pub(crate) mod instruction;
mod lower;
mod modifiers;
mod module;
mod operands;
mod target;
mod unset;

pub(crate) use builder::{Builder, frame_layout};
pub(crate) use instruction::{
    Branch, CARRY, CLASSES, CONSTANT, Call, Class, Detail, END, FALSE, Handler, Instruction,
    Memory, NEGATED, Predicate, SINK, Slot, TRUE,
};
pub(crate) use modifiers::{Modifiers, bits, is_float, is_signed, type_of};
pub use module::Module;
pub(crate) use module::{Function, Instance, LaneMask, Program, Special, Value};
pub(crate) use operands::{Address, exactly};
pub(crate) use target::{Needs, Target};
