//! Products of warpgroups: `wgmma.mma_async`, its fence, groups and waits (PTX ISA 9.7.15).
//!
//! A product starts when all four warps have come to it, and takes effect when one of them waits
//! for it: then the operands are read from shared memory, and the accumulators of all four change.

use super::super::block::Cluster;
use super::super::context::{Context, Lanes, Outcome, Step};
use super::super::warp::{Frame, Status};
use super::registers::register;
use crate::bulk::{Major, MatrixDescriptor, OperandShape};
use crate::check::{Fault, ReportKind};
use crate::order::{Actor, Kind, OpId, RegisterHazards};
use crate::program::{Detail, Instruction, Slot};
use crate::sync::{WARPS_OF_GROUP, WarpGroupOps};
use crate::tensor_core::Wgmma;
use std::collections::VecDeque;
use std::sync::Arc;

/// A product, lowered. Its instruction has B's descriptor as `b`, A's as `c`, and as `q` whether
/// the accumulators take part; else they are written alone.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub wgmma: Wgmma,
    /// A, where it is in registers.
    pub a: Option<[Slot; 4]>,
    pub accumulators: Box<[Slot]>,
    pub major_a: Major,
    pub major_b: Major,
}

impl Operation {
    fn a_registers(&self) -> &[Slot] {
        self.a.as_ref().map_or(&[], |slots| slots)
    }

    fn shape_a(&self) -> OperandShape {
        let (depth, element) = self.depth();
        OperandShape { outer: 64, depth, element, major: self.major_a }
    }

    fn shape_b(&self) -> OperandShape {
        let (depth, element) = self.depth();
        OperandShape { outer: self.wgmma.n as u32, depth, element, major: self.major_b }
    }

    fn depth(&self) -> (u32, u32) {
        (self.wgmma.shape().k as u32, self.wgmma.a.bits() as u32 / 8)
    }
}

/// What the four warps must agree in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    line: u32,
    a: Option<u64>,
    b: u64,
    accumulate: bool,
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Key { line, a, b, accumulate } = self;
        let a = a.map_or(String::new(), |a| format!("A at {a:#x}, "));
        write!(f, "of line {line}, {a}B at {b:#x}, accumulate {accumulate}")
    }
}

/// A product under way.
#[derive(Debug)]
struct Product {
    number: u64,
    operation: Arc<Operation>,
    key: Key,
    op: Option<OpId>,
    /// The frame of each warp that has come to it: its depth and the call that it is of.
    frames: [(usize, u64); WARPS_OF_GROUP],
    is_done: bool,
    waits: usize,
}

/// A warpgroup's products and registers.
#[derive(Debug, Default)]
pub(crate) struct WarpGroup {
    ops: WarpGroupOps<Key>,
    products: VecDeque<Product>,
    pub hazards: [RegisterHazards; WARPS_OF_GROUP],
}

fn fault(message: impl ToString) -> Box<Fault> {
    Fault::new(ReportKind::Asynchronous, message.to_string())
}

impl Context<'_> {
    fn warpgroup_key(&self) -> (usize, usize) {
        (self.rank, self.warp.index / WARPS_OF_GROUP)
    }

    /// The warpgroup; its four warps must exist, and all lanes of this one execute together.
    fn warpgroup(&mut self, what: &str) -> Result<&mut WarpGroup, Box<Fault>> {
        self.converged(what)?;
        let key = self.warpgroup_key();
        if self.mask != u32::MAX || (key.1 + 1) * WARPS_OF_GROUP > self.cluster.hopper.warps {
            return Err(fault(format!("{what} in a warpgroup that has not 128 threads")));
        }
        Ok(self.cluster.hopper.warpgroups.entry(key).or_default())
    }
}

/// `wgmma.fence`.
pub(super) fn fence(c: &mut Context<'_>, _: &Instruction) -> Outcome {
    let warp = c.warp.index % WARPS_OF_GROUP;
    c.warpgroup("wgmma.fence")?.hazards[warp].fence();
    Ok(Step::Next)
}

/// `wgmma.commit_group`.
pub(super) fn commit(c: &mut Context<'_>, _: &Instruction) -> Outcome {
    let warp = c.warp.index % WARPS_OF_GROUP;
    c.warpgroup("wgmma.commit_group")?.ops.commit(warp).map_err(fault)?;
    Ok(Step::Next)
}

/// `wgmma.mma_async`.
pub(super) fn multiply(c: &mut Context<'_>, i: &Instruction) -> Outcome {
    let Detail::Hopper(detail) = &i.detail else { unreachable!("lowered with a product") };
    let super::Operation::Product(operation) = &**detail else {
        unreachable!("lowered with a product")
    };
    let a = match operation.a {
        None => Some(c.uniform(i.c, "A's descriptor")?),
        Some(_) => None,
    };
    let accumulate = c.predicate(i.q);
    if accumulate != 0 && accumulate != u32::MAX {
        return Err(fault("lanes of a warp differ in scale-d of wgmma.mma_async"));
    }
    let b = c.uniform(i.b, "B's descriptor")?;
    let key = Key { line: i.line, a, b, accumulate: accumulate != 0 };
    let (warp, function) = (c.warp.index % WARPS_OF_GROUP, c.frame.function);
    let frame = (c.warp.frames.len(), c.frame.call);
    let checks = c.grid.options.checks;
    let group = c.warpgroup("wgmma.mma_async")?;
    let (number, is_complete) = group.ops.multiply(warp, key).map_err(fault)?;
    if checks {
        let numbers = |slots: &[Slot]| -> Vec<u32> {
            slots.iter().map(|slot| register(function, *slot)).collect()
        };
        let accumulators = numbers(&operation.accumulators);
        let (a, shape) = (numbers(operation.a_registers()), operation.wgmma.shape());
        let started = group.hazards[warp].start(number, (shape.n, shape.k), &accumulators, &a);
        started.map_err(fault)?;
    }
    let product = match group.products.iter_mut().find(|product| product.number == number) {
        Some(product) => product,
        None => {
            for (bits, shape) in [(a, operation.shape_a()), (Some(b), operation.shape_b())] {
                let Some(bits) = bits else { continue };
                let descriptor = MatrixDescriptor::decode(bits).map_err(fault)?;
                descriptor.check(&shape).map_err(fault)?;
            }
            group.products.push_back(Product {
                number,
                operation: operation.clone(),
                key,
                op: None,
                frames: [(0, 0); WARPS_OF_GROUP],
                is_done: false,
                waits: 0,
            });
            group.products.back_mut().expect("one was added")
        }
    };
    product.frames[warp] = frame;
    if is_complete {
        c.start_product(number, operation, key)?;
    }
    Ok(Step::Next)
}

/// `wgmma.wait_group`.
pub(super) fn wait(c: &mut Context<'_>, i: &Instruction) -> Outcome {
    let (warp, latest) = (c.warp.index % WARPS_OF_GROUP, i.number as usize);
    let group = c.warpgroup("wgmma.wait_group")?;
    let Some(numbers) = group.ops.wait(warp, latest) else {
        let waits = group.ops.describe(warp);
        c.warp.status = Status::Polling(waits);
        return Ok(Step::Retry);
    };
    let Some(last) = numbers.last().copied() else { return Ok(Step::Next) };
    c.finish_products(last)?;
    let key = c.warpgroup_key();
    let mut ops = Vec::new();
    if let Some(group) = c.cluster.hopper.warpgroups.get_mut(&key) {
        group.hazards[warp].wait(last);
        for product in group.products.iter_mut().filter(|p| numbers.contains(&p.number)) {
            product.waits += 1;
            ops.push(product.op);
        }
        while group.products.front().is_some_and(|product| product.waits == WARPS_OF_GROUP) {
            group.products.pop_front();
        }
    }
    ops.into_iter().for_each(|op| c.order_complete(op, u32::MAX));
    Ok(Step::Next)
}

impl Context<'_> {
    /// All four warps have come: the product may read its operands from now on.
    fn start_product(
        &mut self,
        number: u64,
        operation: &Operation,
        key: Key,
    ) -> Result<(), Box<Fault>> {
        let first = self.cluster_warp() / WARPS_OF_GROUP * WARPS_OF_GROUP;
        let warps: [usize; WARPS_OF_GROUP] = std::array::from_fn(|warp| first + warp);
        let op = self.cluster.hopper.order.as_mut().map(|order| order.issue_group(&warps));
        for (bits, shape) in [(key.a, operation.shape_a()), (Some(key.b), operation.shape_b())] {
            let Some(bits) = bits else { continue };
            let descriptor = MatrixDescriptor::decode(bits).map_err(fault)?;
            let mut chunks = Vec::new();
            descriptor.for_each_chunk(&shape, |_, _, address| chunks.push(u64::from(address)));
            for &address in &chunks {
                self.need_shared(0, (self.rank, address), 16, "an operand of wgmma")?;
            }
            if let Some(op) = op {
                let (actor, rank) = (Actor::Op(op), self.rank);
                let chunks = chunks.into_iter().map(|address| (address, 16));
                self.order_places(actor, rank, chunks, Kind::Read, key.line)?;
            }
        }
        let group = self.warpgroup_key();
        if let Some(group) = self.cluster.hopper.warpgroups.get_mut(&group)
            && let Some(product) = group.products.iter_mut().find(|p| p.number == number)
        {
            product.op = op;
        }
        if self.is_eager() {
            self.finish_products(number)?;
        }
        Ok(())
    }

    /// Products up to a number take effect, in their order.
    fn finish_products(&mut self, last: u64) -> Result<(), Box<Fault>> {
        let key = self.warpgroup_key();
        let Some(mut group) = self.cluster.hopper.warpgroups.remove(&key) else { return Ok(()) };
        let mut result = Ok(());
        for product in &mut group.products {
            if product.number <= last && !product.is_done && result.is_ok() {
                product.is_done = true;
                result = self.compute(product);
            }
        }
        self.cluster.hopper.warpgroups.insert(key, group);
        result
    }

    /// The matrix that a descriptor finds in shared memory, by (outer, k).
    fn operand(
        &self,
        bits: u64,
        shape: &OperandShape,
        line: u32,
        mut put: impl FnMut(usize, usize, u32),
    ) -> Result<(), Box<Fault>> {
        let descriptor = MatrixDescriptor::decode(bits).map_err(fault)?;
        let memory = &self.cluster.blocks[self.rank].shared;
        let mut missing = None;
        let size = shape.element;
        let step = if shape.major == Major::K { (0, 1) } else { (1, 0) };
        descriptor.for_each_chunk(shape, |outer, k, address| {
            for half in 0..2 {
                let at = u64::from(address + 8 * half);
                let (value, written) = memory.load(at, 8);
                if written != 0xff {
                    missing.get_or_insert(at + u64::from(written.trailing_ones() / size * size));
                }
                for i in 0..8 / size {
                    let element = half * (8 / size) + i;
                    let place = (outer + element * step.0, k + element * step.1);
                    let bits = (value >> (8 * size * i)) as u32 & (u32::MAX >> (32 - 8 * size));
                    put(place.0 as usize, place.1 as usize, bits);
                }
            }
        });
        match missing.filter(|_| self.grid.options.checks) {
            Some(at) => {
                let what = "shared memory, by wgmma.mma_async,";
                let mut fault = crate::memory::uninitialized(0, what, at, memory.note(at));
                (fault.line, fault.lane) = (Some(line), None);
                Err(fault)
            }
            None => Ok(()),
        }
    }

    fn compute(&mut self, product: &Product) -> Result<(), Box<Fault>> {
        let Product { operation, key, frames, .. } = product;
        let wgmma = &operation.wgmma;
        let shape = wgmma.shape();
        let first = self.warp.index / WARPS_OF_GROUP * WARPS_OF_GROUP;
        if (0..WARPS_OF_GROUP).any(|warp| !self.has_frame(first + warp, frames[warp])) {
            let message = "a function returned before the products that it started had been \
                           waited for, and its registers are gone";
            return Err(Fault::new(ReportKind::Asynchronous, message.to_string()));
        }
        let mut a = vec![0; shape.m * shape.k];
        match key.a {
            Some(bits) => self.operand(bits, &operation.shape_a(), key.line, |m, k, value| {
                a[m * shape.k + k] = value;
            })?,
            None => {
                let warps: [Vec<[u32; 32]>; 4] = std::array::from_fn(|warp| {
                    let frame = self.frame_of(first + warp, frames[warp].0);
                    gather(frame, operation.a_registers())
                });
                a = wgmma.a_from_registers(warps.each_ref().map(|warp| &warp[..]));
            }
        }
        let mut b = vec![0; shape.k * shape.n];
        self.operand(key.b, &operation.shape_b(), key.line, |n, k, value| {
            b[k * shape.n + n] = value;
        })?;
        let mut sums: [Vec<[u32; 32]>; 4] = std::array::from_fn(|warp| {
            gather(self.frame_of(first + warp, frames[warp].0), &operation.accumulators)
        });
        let arch = (self.grid.options.arch.major, self.grid.options.arch.minor);
        wgmma.execute(arch, &a, &b, key.accumulate, sums.each_mut().map(|sum| &mut sum[..]));
        for (warp, sums) in sums.iter().enumerate() {
            let frame = self.frame_of_mut(first + warp, frames[warp].0);
            for (slot, sum) in operation.accumulators.iter().zip(sums) {
                let register: &mut Lanes = &mut frame.registers[*slot as usize];
                *register = sum.map(u64::from);
            }
        }
        Ok(())
    }

    /// Whether a warp of the block is still in the call with that number, so deep.
    fn has_frame(&self, warp: usize, (depth, call): (usize, u64)) -> bool {
        let deep = match warp == self.warp.index {
            true => depth <= self.warp.frames.len(),
            false => depth < self.cluster.blocks[self.rank].warps[warp].frames.len(),
        };
        deep && self.frame_of(warp, depth).call == call
    }

    /// A frame of a warp of the block, by its depth.
    fn frame_of(&self, warp: usize, depth: usize) -> &Frame {
        if warp != self.warp.index {
            return &self.cluster.blocks[self.rank].warps[warp].frames[depth];
        }
        self.warp.frames.get(depth).unwrap_or(&self.frame)
    }

    fn frame_of_mut(&mut self, warp: usize, depth: usize) -> &mut Frame {
        if warp != self.warp.index {
            let Cluster { blocks, .. } = &mut *self.cluster;
            return &mut blocks[self.rank].warps[warp].frames[depth];
        }
        self.warp.frames.get_mut(depth).unwrap_or(&mut self.frame)
    }
}

fn gather(frame: &Frame, slots: &[Slot]) -> Vec<[u32; 32]> {
    slots.iter().map(|slot| frame.registers[*slot as usize].map(|lane| lane as u32)).collect()
}
