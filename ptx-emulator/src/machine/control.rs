//! Control flow (PTX ISA 9.7.12), and what ends or delays a thread.

use super::block::{Place, new_frame};
use super::context::lanes_of;
use super::{Context, Lower, Outcome, Step};
use crate::check::{Fault, ReportKind};
use crate::error::Error;
use crate::program::flow::Flow;
use crate::program::{
    Branch, Builder, Call, Class, Detail, Handler, Instruction, Modifiers, TRUE, exactly,
    frame_layout,
};
use crate::syntax::ast::{self, Operand, Type};

pub(super) const TABLE: &[(&str, Lower)] = &[
    ("bra", bra),
    ("brkpt", trap),
    ("brx", brx),
    ("call", call),
    ("exit", exit),
    ("nanosleep", nanosleep),
    ("pmevent", nothing),
    ("ret", lower_ret),
    ("trap", trap),
];

/// What an instruction does to the control flow; of branches, without their targets.
pub(super) fn flow(instruction: &Instruction) -> Flow {
    let run: Handler = instruction.run;
    let ends: [Handler; 3] = [ret, run_exit, run_trap];
    let leaves = ends.iter().any(|end| std::ptr::fn_addr_eq(*end, run));
    match (leaves, instruction.guard == TRUE) {
        (true, true) => Flow::End,
        // Lanes that leave don't meet the others again; those go on.
        _ => Flow::Next,
    }
}

fn bra(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    let [target] = exactly(i)?;
    let mut modifiers = Modifiers::new(i);
    let uniform = modifiers.flag("uni");
    modifiers.finish()?;
    let Operand::Name(label) = target else {
        return Err(modifiers.invalid("the target is no label"));
    };
    let handler: Handler = if uniform { run_uniform } else { run_branch };
    let mut out = Instruction::new(handler, Class::Control);
    out.detail = Detail::Branch(Default::default());
    b.add_branch(out, vec![label.clone()]);
    Ok(())
}

fn run_branch(c: &mut Context<'_>, i: &Instruction) -> Outcome {
    if let Detail::Branch(branch) = i.detail {
        c.frame.branch(branch, c.mask);
    }
    Ok(Step::Next)
}

/// `bra.uni` promises that all active threads go the same way.
fn run_uniform(c: &mut Context<'_>, i: &Instruction) -> Outcome {
    if c.mask != c.frame.path.mask {
        let message = "bra.uni is taken by a part of the warp's active threads";
        return Err(Fault::new(ReportKind::Divergence, message));
    }
    run_branch(c, i)
}

fn brx(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    let [index, list] = exactly(i)?;
    let mut modifiers = Modifiers::new(i);
    let _ = (modifiers.flag("idx"), modifiers.flag("uni"));
    modifiers.finish()?;
    let Operand::Name(name) = list else {
        return Err(modifiers.invalid("the list of targets is no name"));
    };
    let Some(labels) = b.tables.get(name).cloned() else {
        return Err(modifiers.invalid(&format!("no .branchtargets `{name}`")));
    };
    let mut out = Instruction::new(run_table, Class::Control);
    out.detail = Detail::Table(Box::default());
    out.a = b.source(index, Type::U32)?;
    b.add_branch(out, labels);
    Ok(())
}

fn run_table(c: &mut Context<'_>, i: &Instruction) -> Outcome {
    let Detail::Table(branches) = &i.detail else {
        return Ok(Step::Next);
    };
    let indices = *c.lanes(i.a);
    let outside = lanes_of(c.mask).find(|lane| indices[*lane] >= branches.len() as u64);
    if let Some(lane) = outside {
        let message = format!("index {} of {} branch targets", indices[lane], branches.len());
        return Err(Fault::of_lane(ReportKind::OutOfBounds, lane, message));
    }
    // Target by target: the lanes of each part from the others, which come back to this
    // instruction.
    let first = lanes_of(c.mask).next().unwrap_or(0);
    let chosen = indices[first];
    let same = lanes_of(c.mask).filter(|lane| indices[*lane] == chosen);
    let taken = same.fold(0, |mask, lane| mask | 1 << lane);
    if taken != c.mask {
        c.frame.path.pc -= 1;
    }
    c.frame.branch(branches[chosen as usize], taken);
    Ok(Step::Next)
}

/// The names of a list operand.
fn names(operand: &Operand) -> Option<Vec<&ast::Name>> {
    match operand {
        Operand::List(list) => list
            .iter()
            .map(|operand| match operand {
                Operand::Name(name) => Some(name),
                _ => None,
            })
            .collect(),
        _ => None,
    }
}

fn call(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    // CUDA's library leaves it to the driver.
    if i.operands.iter().any(|it| matches!(it, Operand::Name(it) if &**it == "__assertfail")) {
        b.add(Instruction::new(run_failed_assertion, Class::Control));
        return Ok(());
    }
    let mut modifiers = Modifiers::new(i);
    modifiers.flag("uni");
    modifiers.finish()?;
    let none = Operand::List(Vec::new());
    let mut operands = i.operands.as_slice();
    let prototype = match operands {
        [.., Operand::Name(last)] if operands.len() > 1 => b.prototypes.get(last).copied(),
        _ => None,
    };
    if prototype.is_some() {
        operands = &operands[..operands.len() - 1];
    }
    let (results, target, arguments) = match operands {
        [target @ Operand::Name(_)] => (&none, target, &none),
        [target @ Operand::Name(_), arguments @ Operand::List(_)] => (&none, target, arguments),
        [results @ Operand::List(_), target] => (results, target, &none),
        [results @ Operand::List(_), target, arguments @ Operand::List(_)] => {
            (results, target, arguments)
        }
        _ => return Err(modifiers.unsupported("this form")),
    };
    let Operand::Name(name) = target else {
        return Err(modifiers.unsupported("this form"));
    };
    let (Some(arguments), Some(results)) = (names(arguments), names(results)) else {
        return Err(modifiers.unsupported("an argument that is no .param variable"));
    };
    let lists = (&arguments[..], &results[..]);
    let mut out = Instruction::new(run_call, Class::Control);
    match prototype {
        None => out.detail = Detail::Call(Box::new(one_call(b, &modifiers, name, lists)?)),
        Some(prototype) => {
            let mut calls = Vec::new();
            for (address, name) in b.shared.functions_like(prototype) {
                calls.push((address, one_call(b, &modifiers, &name, lists)?));
            }
            out.run = run_calls;
            out.detail = Detail::Calls(calls.into());
            out.a = b.source(target, Type::U64)?;
        }
    }
    b.add(out);
    Ok(())
}

/// The call of one function.
fn one_call(
    b: &mut Builder<'_, '_>,
    modifiers: &Modifiers<'_>,
    name: &str,
    (arguments, results): (&[&ast::Name], &[&ast::Name]),
) -> Result<Call, Error> {
    let Some((function, callee)) = b.shared.function(name) else {
        return Err(modifiers.unsupported(&format!("the function `{name}` without a body")));
    };
    let (parameters, returned, _) = frame_layout(callee)?;
    if arguments.len() != parameters.len() || results.len() != returned.len() {
        return Err(modifiers.invalid("arguments or results don't fit the function"));
    }
    let mut call = Call { function, arguments: Vec::new(), results: Vec::new() };
    for (name, (offset, bytes)) in arguments.iter().zip(parameters) {
        call.arguments.push((b.frame_offset(name, bytes)?, offset, bytes));
    }
    for (name, (offset, bytes)) in results.iter().zip(returned) {
        call.results.push((offset, b.frame_offset(name, bytes)?, bytes));
    }
    Ok(call)
}

/// The deepest nesting of calls.
const MAX_CALLS: usize = 1000;
/// The most registers of the functions that a warp is in.
const MAX_REGISTERS: usize = 1 << 18;

fn run_call(c: &mut Context<'_>, i: &Instruction) -> Outcome {
    match &i.detail {
        Detail::Call(call) => enter(c, call),
        _ => Ok(Step::Next),
    }
}

/// A call through a register: the lanes that call the same function go together, the others come
/// back to this instruction.
fn run_calls(c: &mut Context<'_>, i: &Instruction) -> Outcome {
    let Detail::Calls(calls) = &i.detail else {
        return Ok(Step::Next);
    };
    let targets = *c.lanes(i.a);
    let first = lanes_of(c.mask).next().unwrap_or(0);
    let target = targets[first];
    let Some((_, call)) = calls.iter().find(|(address, _)| *address == target) else {
        let message = "a call of what is no function of these parameters";
        return Err(Fault::of_lane(ReportKind::OutOfBounds, first, message).at(target));
    };
    let same = lanes_of(c.mask).filter(|lane| targets[*lane] == target);
    let together = same.fold(0, |mask, lane| mask | 1 << lane);
    if together != c.mask {
        let next = c.frame.path.pc;
        c.frame.path.pc -= 1;
        c.frame.branch(Branch { target: next, meet: next }, together);
        c.mask = together;
    }
    enter(c, call)
}

/// The executing lanes enter a function.
fn enter(c: &mut Context<'_>, call: &Call) -> Outcome {
    if c.warp.frames.len() >= MAX_CALLS {
        let message = format!("more than {MAX_CALLS} calls inside each other");
        return Err(Fault::new(ReportKind::StepLimit, message));
    }
    let function = &c.grid.program.functions[call.function];
    if !c.warp.local.has_room(function.frame, function.alignment) {
        let message = "more than 512 KB of local memory in calls inside each other";
        return Err(Fault::new(ReportKind::StepLimit, message));
    }
    let registers = c.warp.frames.iter().map(|frame| frame.registers.len()).sum::<usize>();
    if registers + c.frame.registers.len() + function.registers > MAX_REGISTERS {
        let message = format!("more than {MAX_REGISTERS} registers in calls inside each other");
        return Err(Fault::new(ReportKind::StepLimit, message));
    }
    let local = c.warp.local.push(function.frame, function.alignment);
    let mut frame = new_frame(function, call.function, local, c.mask);
    c.warp.calls += 1;
    frame.call = c.warp.calls;
    let place =
        Place { grid: c.grid, block: &c.cluster.blocks[c.rank], rank: c.rank, warp: c.warp.index };
    for (special, slot) in &function.specials {
        frame.registers[*slot as usize] = place.special(*special);
    }
    for (from, to, bytes) in &call.arguments {
        c.warp.local.copy(c.frame.local + from, local + to, *bytes, c.mask);
    }
    let results = call.results.iter();
    frame.results =
        results.map(|(from, to, bytes)| (local + from, c.frame.local + to, *bytes)).collect();
    c.code = &function.code;
    c.constants = &c.grid.constants[c.rank][call.function];
    let caller = std::mem::replace(&mut c.frame, frame);
    c.warp.frames.push(caller);
    Ok(Step::Next)
}

fn lower_ret(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    let [] = exactly(i)?;
    let mut modifiers = Modifiers::new(i);
    modifiers.flag("uni");
    modifiers.finish()?;
    b.add(Instruction::new(ret, Class::Control));
    Ok(())
}

pub(super) fn ret(c: &mut Context<'_>, _: &Instruction) -> Outcome {
    let mask = c.mask;
    c.return_from(mask)
}

fn exit(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    let [] = exactly(i)?;
    Modifiers::new(i).finish()?;
    b.add(Instruction::new(run_exit, Class::Control));
    Ok(())
}

fn run_exit(c: &mut Context<'_>, _: &Instruction) -> Outcome {
    let mask = c.mask;
    c.exit(mask)
}

fn trap(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    let [] = exactly(i)?;
    Modifiers::new(i).finish()?;
    b.add(Instruction::new(run_trap, Class::Control));
    Ok(())
}

fn run_trap(_: &mut Context<'_>, _: &Instruction) -> Outcome {
    Err(Fault::new(ReportKind::Trap, "the kernel stopped itself by trap"))
}

fn run_failed_assertion(_: &mut Context<'_>, _: &Instruction) -> Outcome {
    Err(Fault::new(ReportKind::Trap, "an assertion of the kernel failed (__assertfail)"))
}

/// Others have their turn.
fn nanosleep(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    let [_] = exactly::<1>(i)?;
    let mut modifiers = Modifiers::new(i);
    modifiers.ty()?;
    modifiers.finish()?;
    nothing(b, i)
}

/// An instruction that computes nothing.
fn nothing(b: &mut Builder<'_, '_>, _: &ast::Instruction) -> Result<(), Error> {
    b.add(Instruction::new(|_, _| Ok(Step::Next), Class::Control));
    Ok(())
}
