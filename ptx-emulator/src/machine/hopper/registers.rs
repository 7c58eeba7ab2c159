//! `setmaxnreg`, and the registers that products in flight own (PTX ISA 9.7.19.5, 9.7.15.7).

use super::super::context::{Context, Outcome, Step};
use super::super::warp::Status;
use super::wgmma::WarpGroup;
use crate::check::{Fault, ReportKind};
use crate::error::Error;
use crate::program::{Builder, CONSTANT, Class, Instruction, Modifiers, Slot};
use crate::sync::{RegisterChange, RegisterPool};
use crate::syntax::ast::{self, Constant, Operand};
use std::collections::HashSet;

/// Registers of 32 bits of a multiprocessor.
const REGISTERS: u32 = 65_536;

/// Lowers `setmaxnreg`.
pub(super) fn lower(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    let mut modifiers = Modifiers::new(i);
    let action = modifiers.choose(&[("inc", true), ("dec", false)]);
    let aligned = modifiers.flag("sync") && modifiers.flag("aligned");
    modifiers.flag("u32");
    let (Some(increase), true) = (action, aligned) else {
        return Err(modifiers.unsupported("this form"));
    };
    modifiers.finish()?;
    let [Operand::Constant(Constant::Integer(count @ 0..=256))] = i.operands[..] else {
        return Err(modifiers.invalid("the number of registers"));
    };
    let mut out = Instruction::new(run, Class::Synchronization);
    out.number = count as u64 | u64::from(increase) << 32;
    b.add(out);
    Ok(())
}

impl Context<'_> {
    /// The block's registers: those that the kernel's directives leave to each thread.
    fn register_pool(&mut self) -> &mut RegisterPool {
        let directives = &self.grid.program.directives;
        let threads = self.grid.threads().next_multiple_of(32);
        let blocks = directives.min_blocks.unwrap_or(1).max(1);
        let most = directives.max_threads.map_or(threads, |most| {
            most.iter().fold(1, |product: u32, extent| product.saturating_mul(*extent))
        });
        let share = (REGISTERS / most.max(threads).saturating_mul(blocks)).min(255) / 8 * 8;
        // No thread has more (CUDA C++ Programming Guide, technical specifications).
        let registers = directives.max_registers.unwrap_or(share).min(255);
        let warps = self.cluster.hopper.warps;
        let pool = &mut self.cluster.hopper.registers[self.rank];
        pool.get_or_insert_with(|| RegisterPool::new(warps, registers))
    }
}

fn run(c: &mut Context<'_>, i: &Instruction) -> Outcome {
    c.converged("setmaxnreg")?;
    let count = i.number as u32;
    let change =
        if i.number >> 32 != 0 { RegisterChange::Increase } else { RegisterChange::Decrease };
    let warp = c.warp.index;
    let pool = c.register_pool();
    let done = pool.change(warp, change(count));
    if !done.map_err(|error| Fault::new(ReportKind::Asynchronous, error.to_string()))? {
        let waits = pool.describe(warp);
        c.warp.status = Status::Polling(waits);
        return Ok(Step::Retry);
    }
    Ok(Step::Next)
}

/// Marks the instructions that use registers of products.
pub(crate) fn watch(code: &mut [Instruction]) {
    let mut owned: HashSet<Slot> = HashSet::new();
    for instruction in code.iter() {
        if instruction.is_group_product() {
            owned.extend(&instruction.list);
        }
    }
    for instruction in code.iter_mut().filter(|_| !owned.is_empty()) {
        let Instruction { d, a, b, c, list, .. } = instruction;
        let mut uses = [*d, *a, *b, *c].into_iter().chain(list.iter().copied());
        let uses = uses.any(|slot| owned.contains(&slot));
        instruction.watched = uses && !instruction.is_group_product();
    }
}

impl Context<'_> {
    /// Looks whether an instruction uses registers that a product in flight owns.
    pub fn touch(&mut self, i: &Instruction) -> Result<(), Box<Fault>> {
        let key = (self.rank, self.warp.index / 4);
        let (function, warp) = (self.frame.function, self.warp.index % 4);
        let WarpGroup { hazards, .. } = self.cluster.hopper.warpgroups.entry(key).or_default();
        for slot in [i.a, i.b, i.c, i.d].into_iter().chain(i.list.iter().copied()) {
            if slot == 0 || slot & CONSTANT != 0 {
                continue;
            }
            let hazard = hazards[warp].access(register(function, slot));
            hazard.map_err(|hazard| Fault::new(ReportKind::Asynchronous, hazard.to_string()))?;
        }
        Ok(())
    }
}

/// A number for a register of a function.
pub(super) fn register(function: usize, slot: Slot) -> u32 {
    slot ^ (function as u32) << 22
}
