//! What an instruction can see and change.

use super::block::{Block, Cluster, Grid};
use super::statistics::Statistics;
use super::warp::{Frame, Warp};
use crate::check::Fault;
use crate::check::shadow::{Reach, Stamp};
use crate::program::{CONSTANT, Instruction, NEGATED, Predicate, Slot};

/// A value of each lane, in the low bits; those above a register's width are 0.
pub(crate) type Lanes = [u64; 32];

/// All lanes.
pub(crate) const ALL: u32 = u32::MAX;

/// What comes after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The next one, or where the instruction has set the path to.
    Next,
    /// The same one again, when somebody has woken the warp.
    Wait,
    /// The same one again, when the others have had their turn.
    Retry,
    /// Nothing: no lane is left.
    Done,
}

/// What an instruction returns.
pub(crate) type Outcome = Result<Step, Box<Fault>>;

/// A warp at work, and what is around it.
pub(crate) struct Context<'a> {
    pub grid: &'a Grid<'a>,
    pub cluster: &'a mut Cluster,
    /// The block's place in the cluster.
    pub rank: usize,
    pub warp: &'a mut Warp,
    pub frame: Frame,
    /// The code and the constants of the frame's function.
    pub code: &'a [Instruction],
    pub constants: &'a [Lanes],
    /// The lanes that execute the instruction.
    pub mask: u32,
    pub statistics: &'a mut Statistics,
}

/// The lanes of a mask, rising.
pub(crate) fn lanes_of(mask: u32) -> impl Iterator<Item = usize> {
    let mut rest = mask;
    std::iter::from_fn(move || {
        let lane = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
        rest &= rest - 1;
        Some(lane)
    })
}

impl Context<'_> {
    /// The value of a source.
    #[inline(always)]
    pub fn lanes(&self, slot: Slot) -> &Lanes {
        if slot & CONSTANT == 0 {
            &self.frame.registers[slot as usize]
        } else {
            &self.constants[(slot & !CONSTANT) as usize]
        }
    }

    /// Writes the executing lanes of a destination.
    #[inline(always)]
    pub fn write(&mut self, slot: Slot, value: &Lanes) {
        let register = &mut self.frame.registers[slot as usize];
        if self.mask == ALL {
            *register = *value;
        } else {
            for lane in lanes_of(self.mask) {
                register[lane] = value[lane];
            }
        }
    }

    /// The lanes in which a predicate is true.
    #[inline(always)]
    pub fn predicate(&self, predicate: Predicate) -> u32 {
        let value = self.frame.predicates[(predicate & !NEGATED) as usize];
        if predicate & NEGATED != 0 { !value } else { value }
    }

    /// Writes the executing lanes of a predicate.
    #[inline(always)]
    pub fn write_predicate(&mut self, predicate: Predicate, value: u32) {
        let register = &mut self.frame.predicates[predicate as usize];
        *register = *register & !self.mask | value & self.mask;
    }

    /// Writes f of one source.
    #[inline(always)]
    pub fn unary(&mut self, i: &Instruction, f: impl Fn(u64) -> u64) -> Outcome {
        let a = self.lanes(i.a);
        let mut out = [0; 32];
        for lane in 0..32 {
            out[lane] = f(a[lane]);
        }
        self.write(i.d, &out);
        Ok(Step::Next)
    }

    /// Writes f of two sources.
    #[inline(always)]
    pub fn binary(&mut self, i: &Instruction, f: impl Fn(u64, u64) -> u64) -> Outcome {
        let (a, b) = (self.lanes(i.a), self.lanes(i.b));
        let mut out = [0; 32];
        for lane in 0..32 {
            out[lane] = f(a[lane], b[lane]);
        }
        self.write(i.d, &out);
        Ok(Step::Next)
    }

    /// Writes f of three sources.
    #[inline(always)]
    pub fn ternary(&mut self, i: &Instruction, f: impl Fn(u64, u64, u64) -> u64) -> Outcome {
        let (a, b, c) = (self.lanes(i.a), self.lanes(i.b), self.lanes(i.c));
        let mut out = [0; 32];
        for lane in 0..32 {
            out[lane] = f(a[lane], b[lane], c[lane]);
        }
        self.write(i.d, &out);
        Ok(Step::Next)
    }

    /// The block.
    #[inline(always)]
    pub fn block(&mut self) -> &mut Block {
        &mut self.cluster.blocks[self.rank]
    }

    /// Who accesses memory, when and how.
    #[inline]
    pub fn stamp(&self, line: u32, reach: Reach) -> Stamp {
        let block = &self.cluster.blocks[self.rank];
        Stamp {
            block: block.linear,
            thread: self.warp.index as u32 * 32,
            epoch: block.epoch,
            warp_epoch: self.warp.epoch,
            wrapped: block.wrapped,
            line,
            reach,
        }
    }
}
