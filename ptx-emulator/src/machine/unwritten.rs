//! Values that were loaded from shared memory before anything had written it.
//!
//! Pipelined kernels load the next step's operands at the end of every step, the last one included,
//! and never use what they get then. So such a load marks the lanes of its registers; arithmetic
//! carries the marks on; and an instruction that stores a marked lane, takes it for an address,
//! compares it or shows it to other lanes is a fault.

use super::context::lanes_of;
use super::{Context, compare, movement};
use crate::check::Fault;
use crate::memory::uninitialized;
use crate::program::{CONSTANT, Class, Handler, Instruction, NEGATED, SINK, Slot};
use rustc_hash::FxHashMap;

/// The marks of a function's registers.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    /// Marked lanes, by register.
    lanes: FxHashMap<Slot, u32>,
    /// The line and the address of a load that marked the register.
    origins: FxHashMap<Slot, (u32, u64)>,
}

impl Marks {
    /// Whether there are none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    fn of(&self, slot: Slot) -> u32 {
        if slot & CONSTANT != 0 { 0 } else { self.lanes.get(&slot).copied().unwrap_or(0) }
    }

    fn set(&mut self, slot: Slot, marked: u32, origin: Option<(u32, u64)>) {
        if marked == 0 {
            self.lanes.remove(&slot);
        } else if slot != 0 {
            self.lanes.insert(slot, marked);
            if let Some(origin) = origin {
                self.origins.insert(slot, origin);
            }
        }
    }

    /// Marks lanes of a register that a load from `address` has written.
    #[cold]
    pub fn mark(&mut self, slot: Slot, lanes: u32, line: u32, address: u64) {
        self.set(slot, self.of(slot) | lanes, Some((line, address)));
    }
}

impl Context<'_> {
    /// Carries marks through an instruction, before it executes; its results are marked
    /// where its sources are.
    #[cold]
    pub(super) fn follow_marks(&mut self, i: &Instruction) -> Result<(), Box<Fault>> {
        let (run, mask) = (i.run, self.mask);
        let same = |handler: Handler| std::ptr::fn_addr_eq(handler, run);
        let accumulates = self.predicate(i.q) != 0;
        let marks = &mut self.frame.marks;
        if same(movement::copy) || same(compare::run_selp) {
            let chosen = if same(movement::copy) {
                u32::MAX
            } else {
                let value = self.frame.predicates[(i.q & !NEGATED) as usize];
                if i.q & NEGATED != 0 { !value } else { value }
            };
            let marked = marks.of(i.a) & chosen | marks.of(i.b) & !chosen;
            let origin = marks.origins.get(&i.a).or(marks.origins.get(&i.b)).copied();
            let kept = marks.of(i.d) & !mask;
            marks.set(i.d, kept | marked & mask, origin);
            return Ok(());
        }
        let (written, read) = i.list.split_at(i.writes as usize);
        let computes = matches!(i.class, Class::Integer | Class::Float | Class::Move);
        let computes = computes && i.p == SINK;
        // Matrices are in the list; what is beside it says where they are in memory.
        let multiplies = i.class == Class::Matrix && i.a == 0;
        let adds = i.is_group_product() && accumulates;
        let sums = if adds { written } else { &[] };
        let (mut passed, mut origin) = (0, None);
        let beside = [i.a, i.b, i.c].map(|slot| (slot, computes));
        let listed = read.iter().chain(sums).map(|slot| (*slot, computes || multiplies));
        for (slot, passes) in beside.into_iter().chain(listed) {
            let marked = marks.of(slot) & mask;
            let Some(lane) = lanes_of(marked).next() else {
                continue;
            };
            let from = marks.origins.get(&slot).copied().unwrap_or_default();
            if passes {
                passed |= marked;
                origin = Some(from);
                continue;
            }
            let (line, address) = from;
            let note = self.cluster.blocks[self.rank].shared.note(address);
            let mut fault = uninitialized(lane, "shared memory", address, note);
            fault.message.push_str(&format!(", and PTX line {} uses the value", i.line));
            fault.line = Some(line);
            return Err(fault);
        }
        if i.class == Class::Matrix && passed != 0 {
            passed = u32::MAX;
        }
        for slot in written.iter().chain([&i.d]) {
            let kept = marks.of(*slot) & !mask;
            marks.set(*slot, kept | passed, origin);
        }
        Ok(())
    }
}
