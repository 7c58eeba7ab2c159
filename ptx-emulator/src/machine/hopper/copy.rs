//! Bulk copies under way: how they are issued, and how they take effect.

use super::super::context::{Context, lanes_of};
use super::super::memory::need_writable;
use super::{Place, Window};
use crate::bulk::{Fill, ReduceOp, ReduceType, reduce_bytes};
use crate::check::{Fault, ReportKind};
use crate::error::Error;
use crate::memory::{Allocation, PARAM_WINDOW, SHARED_WINDOW, Space};
use crate::order::{Actor, Kind, OpId};
use crate::program::{Builder, Class, Detail, Handler, Instruction, Slot};
use crate::syntax::ast;

/// An address operand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    pub slot: Slot,
    pub offset: i64,
}

impl At {
    /// An address in the shared window or in global memory.
    pub fn new(b: &mut Builder<'_, '_>, operand: &ast::Operand) -> Result<At, Error> {
        let address = b.address(operand)?;
        Ok(At { slot: address.base, offset: address.offset })
    }

    /// A generic address; of a variable named, in its window.
    pub fn generic(b: &mut Builder<'_, '_>, address: &ast::Address) -> Result<At, Error> {
        let address = b.address_base(address)?;
        let window = match address.home {
            Some(Space::Param) => PARAM_WINDOW,
            Some(Space::Shared) => SHARED_WINDOW,
            _ => 0,
        };
        Ok(At { slot: address.base, offset: address.offset.wrapping_add_unsigned(window) })
    }

    /// The address in a lane.
    pub fn of(&self, c: &Context<'_>, lane: usize) -> u64 {
        c.lanes(self.slot)[lane].wrapping_add_signed(self.offset)
    }
}

/// What a copy does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Global to shared memory, of this block or of others.
    Load,
    /// Shared memory to that of another block.
    ToBlock,
    /// Shared to global memory, maybe with a reduction.
    Store(Option<(ReduceOp, ReduceType)>),
    /// Nowhere: the map is looked at.
    Prefetch,
}

/// A bulk or tensor copy, lowered.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub direction: Direction,
    /// Where the shared memory begins.
    pub shared: At,
    pub window: Window,
    /// Global memory, the tensor map, or the source in shared memory.
    pub other: At,
    pub mbarrier: Option<At>,
    /// The blocks of the cluster to copy to.
    pub multicast: Option<Slot>,
    /// Bytes, of a copy without a map.
    pub size: Slot,
    /// Of a copy with one.
    pub coordinates: Box<[Slot]>,
}

impl Operation {
    /// The instruction, whose list says what it reads.
    pub fn instruction(self, run: Handler) -> Instruction {
        let ends = [Some(self.shared), Some(self.other), self.mbarrier].into_iter().flatten();
        let others = [Some(self.size), self.multicast].into_iter().flatten();
        let slots = ends.map(|at| at.slot).chain(others).chain(self.coordinates.iter().copied());
        let mut out = Instruction::new(run, Class::Memory);
        out.list = slots.collect();
        out.detail = Detail::Hopper(Box::new(super::Operation::Copy(self)));
        out
    }
}

/// A part of a copy to shared memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Piece {
    Global { global: u64, shared: u64, bytes: u32 },
    Shared { from: Place, shared: u64, bytes: u32 },
    Fill { fill: Fill, shared: u64, bytes: u32 },
}

/// A copy to shared memory under way.
#[derive(Debug)]
pub(crate) struct Load {
    pub op: Option<OpId>,
    pub mbarrier: Place,
    pub bytes: u32,
    pub pieces: Vec<Piece>,
    pub line: u32,
}

/// A run of bytes from shared to global memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Out {
    pub shared: u64,
    pub global: u64,
    pub bytes: u32,
}

/// A copy to global memory under way.
#[derive(Debug)]
pub(crate) struct Store {
    pub op: Option<OpId>,
    pub rank: usize,
    pub runs: Vec<Out>,
    pub reduce: Option<(ReduceOp, ReduceType)>,
    pub line: u32,
}

/// The largest of 8, 4, 2 and 1 bytes that `left` has and both addresses are multiples of.
fn step(a: u64, b: u64, left: u32) -> u32 {
    [8, 4, 2].into_iter().find(|s| *s <= left && (a | b).is_multiple_of(u64::from(*s))).unwrap_or(1)
}

impl Context<'_> {
    /// Checks that an allocation has all the bytes.
    pub(super) fn need_global(
        &self,
        lane: usize,
        address: u64,
        bytes: u64,
    ) -> Result<&Allocation, Box<Fault>> {
        if let Some(allocation) = self.grid.memory.find(address, bytes) {
            return Ok(allocation);
        }
        let message = format!("a bulk copy of {bytes} bytes that no allocation has");
        let fault = Fault::of_lane(ReportKind::OutOfBounds, lane, message);
        Err(fault.at(address).inside(self.grid.memory.nearest(address)))
    }

    /// A copy to shared memory starts: its destination is unwritten until it has come.
    pub(super) fn start_load(
        &mut self,
        lane: usize,
        to: Place,
        load: Load,
    ) -> Result<(), Box<Fault>> {
        let Load { mbarrier, bytes, line, .. } = load;
        self.need_shared(lane, to, bytes.into(), "a bulk copy")?;
        self.need_shared(lane, mbarrier, 8, "an mbarrier")?;
        self.mbarrier(mbarrier, 1 << lane)?;
        // A copy of nothing is complete at once, and nobody need wait for it.
        if bytes == 0 {
            return Ok(());
        }
        let op = self.order_issue(lane);
        if let Some(op) = op {
            self.order_access(Actor::Op(op), mbarrier, 8, Kind::StrongWrite, line)?;
            self.order_access(Actor::Op(op), to, bytes.into(), Kind::Write, line)?;
            for piece in &load.pieces {
                match *piece {
                    Piece::Global { global, bytes, .. } => {
                        self.order_run(op, lane, (global, bytes), (Kind::Read, line))?;
                    }
                    Piece::Shared { from, bytes, .. } => {
                        self.order_access(Actor::Op(op), from, bytes.into(), Kind::Read, line)?;
                    }
                    Piece::Fill { .. } => {}
                }
            }
        }
        let load = Load { op, ..load };
        let global = |piece: &Piece| match piece {
            Piece::Global { bytes, .. } => u64::from(*bytes),
            Piece::Shared { .. } | Piece::Fill { .. } => 0,
        };
        self.statistics.global_loaded += load.pieces.iter().map(global).sum::<u64>();
        self.statistics.shared_stored += u64::from(bytes);
        if self.is_eager() {
            return self.finish_load(load);
        }
        self.cluster.blocks[to.0].shared.poison(to.1, bytes.into());
        self.cluster.hopper.loads.push(load);
        Ok(())
    }

    /// Lets all copies come that an mbarrier counts. Returns whether there was one.
    pub(super) fn complete_loads(&mut self, mbarrier: Place) -> Result<bool, Box<Fault>> {
        let loads = std::mem::take(&mut self.cluster.hopper.loads);
        let (come, wait) = loads.into_iter().partition(|load| load.mbarrier == mbarrier);
        self.cluster.hopper.loads = wait;
        let come: Vec<Load> = come;
        let any = !come.is_empty();
        for load in come {
            self.finish_load(load)?;
        }
        Ok(any)
    }

    fn finish_load(&mut self, load: Load) -> Result<(), Box<Fault>> {
        let Load { op, mbarrier, bytes, pieces, line } = load;
        let rank = mbarrier.0;
        for piece in pieces {
            match piece {
                Piece::Global { global, shared, bytes } => {
                    self.copy_in(rank, shared, global, bytes);
                }
                Piece::Shared { from, shared, bytes } => {
                    self.copy_across(rank, shared, from, bytes)
                }
                Piece::Fill { fill, shared, bytes } => {
                    let memory = &mut self.cluster.blocks[rank].shared;
                    let mut done = 0;
                    while done < bytes {
                        let at = shared + u64::from(done);
                        let size = step(at, 0, bytes - done);
                        let byte = |i: usize| fill.byte(at as u32 + i as u32);
                        let value: [u8; 8] = std::array::from_fn(byte);
                        memory.store(at, size, crate::memory::number(&value[..size as usize]));
                        done += size;
                    }
                }
            }
        }
        let at_line = |mut fault: Box<Fault>| {
            fault.line = Some(line);
            fault
        };
        let barrier = self.mbarrier(mbarrier, 1).map_err(at_line)?;
        let phase = barrier.phase();
        let completed = barrier.complete_transactions(bytes);
        completed.map_err(|error| {
            at_line(Fault::new(ReportKind::Mbarrier, error.to_string()).at(mbarrier.1))
        })?;
        self.order_come(op, mbarrier, phase);
        Ok(())
    }

    fn copy_in(&mut self, rank: usize, shared: u64, global: u64, bytes: u32) {
        let Some(allocation) = self.grid.memory.find(global, bytes.into()) else { return };
        let memory = &mut self.cluster.blocks[rank].shared;
        let (mut done, start) = (0, global - allocation.base);
        while done < bytes {
            let at = u64::from(done);
            let size = step(start + at, shared + at, bytes - done);
            let (value, written) = allocation.load(start + at, size);
            memory.store(shared + at, size, value);
            // What nothing has written stays so.
            if written.count_ones() != size {
                let missing = (0..u64::from(size)).filter(|byte| written >> byte & 1 == 0);
                missing.for_each(|byte| memory.poison(shared + at + byte, 1));
            }
            done += size;
        }
    }

    fn copy_across(&mut self, rank: usize, shared: u64, from: Place, bytes: u32) {
        for at in (0..u64::from(bytes)).step_by(8) {
            let (value, written) = self.cluster.blocks[from.0].shared.load(from.1 + at, 8);
            let memory = &mut self.cluster.blocks[rank].shared;
            memory.store(shared + at, 8, value);
            let missing = (0..8).filter(|byte| written >> byte & 1 == 0);
            missing.for_each(|byte| memory.poison(shared + at + byte, 1));
        }
    }

    /// A copy to global memory starts, of which the lane's next group will have a part.
    pub(super) fn start_store(
        &mut self,
        lane: usize,
        from: Place,
        bytes: u32,
        store: Store,
    ) -> Result<(), Box<Fault>> {
        self.need_shared(lane, from, bytes.into(), "a bulk copy")?;
        for run in &store.runs {
            let allocation = self.need_global(lane, run.global, run.bytes.into())?;
            need_writable(allocation, lane, run.global)?;
        }
        let op = self.order_issue(lane);
        if let Some(op) = op {
            self.order_access(Actor::Op(op), from, bytes.into(), Kind::Read, store.line)?;
        }
        // Its writes are complete later than its reads.
        let writes = self.order_issue(lane);
        if let Some(op) = writes {
            let kind = if store.reduce.is_some() { Kind::StrongWrite } else { Kind::Write };
            for Out { global, bytes, .. } in &store.runs {
                self.order_run(op, lane, (*global, *bytes), (kind, store.line))?;
            }
        }
        let stored = store.runs.iter().map(|run| u64::from(run.bytes));
        self.statistics.global_stored += stored.sum::<u64>();
        self.statistics.shared_loaded += u64::from(bytes);
        let store = Store { op, ..store };
        let hopper = &mut self.cluster.hopper;
        let number = hopper.next_store;
        hopper.next_store += 1;
        hopper.writes.extend(writes.map(|op| (number, op)));
        let key = (self.rank, self.warp.index, lane);
        hopper.groups.entry(key).or_default().push(number);
        hopper.stores.insert(number, store);
        if self.is_eager() {
            self.write_out(number)?;
        }
        Ok(())
    }

    /// A copy to global memory takes effect.
    fn write_out(&mut self, number: u64) -> Result<(), Box<Fault>> {
        let Some(store) = self.cluster.hopper.stores.get(&number) else { return Ok(()) };
        let (rank, line, reduce) = (store.rank, store.line, store.reduce);
        let memory = &self.cluster.blocks[rank].shared;
        for Out { shared, global, bytes } in &store.runs {
            let mut data = Vec::with_capacity(*bytes as usize);
            for at in *shared..*shared + u64::from(*bytes) {
                let (value, written) = memory.load(at, 1);
                if written == 0 && self.grid.options.checks {
                    let what = "shared memory, by a bulk copy,";
                    let mut fault = crate::memory::uninitialized(0, what, at, memory.note(at));
                    (fault.line, fault.lane) = (Some(line), None);
                    return Err(fault);
                }
                data.push(value as u8);
            }
            let Some(allocation) = self.grid.memory.find(*global, (*bytes).into()) else {
                continue;
            };
            let start = global - allocation.base;
            if let Some((op, ty)) = reduce {
                let mut old = Vec::with_capacity(*bytes as usize);
                for at in 0..u64::from(*bytes) {
                    let (value, written) = allocation.load(start + at, 1);
                    if written == 0 && self.grid.options.checks {
                        let (what, at) = ("global memory, by a bulk reduction,", global + at);
                        let note = Some(allocation.note(at));
                        let mut fault = crate::memory::uninitialized(0, what, at, note);
                        (fault.line, fault.lane) = (Some(line), None);
                        return Err(fault);
                    }
                    old.push(value as u8);
                }
                let reduced = reduce_bytes(op, ty, &mut old, &data);
                reduced.map_err(|e| Fault::new(ReportKind::Unsupported, e.to_string()))?;
                data = old;
            }
            let mut done = 0;
            while done < *bytes {
                let size = step(start + u64::from(done), 0, bytes - done);
                let part = &data[done as usize..(done + size) as usize];
                allocation.store(start + u64::from(done), size, crate::memory::number(part));
                done += size;
            }
        }
        if let Some(store) = self.cluster.hopper.stores.get_mut(&number) {
            store.runs.clear();
        }
        Ok(())
    }

    /// `cp.async.bulk.commit_group`.
    pub(super) fn commit_stores(&mut self) {
        for lane in lanes_of(self.mask) {
            let key = (self.rank, self.warp.index, lane);
            self.cluster.hopper.groups.entry(key).or_default().commit();
        }
    }

    /// `cp.async.bulk.wait_group`: the copies have taken effect, or at least read their sources.
    /// The bytes go both times; what is ordered is not the same.
    pub(super) fn wait_stores(&mut self, latest: usize, read: bool) -> Result<(), Box<Fault>> {
        for lane in lanes_of(self.mask) {
            let key = (self.rank, self.warp.index, lane);
            let Some(groups) = self.cluster.hopper.groups.get_mut(&key) else { continue };
            let numbers = if read { groups.wait_read(latest) } else { groups.wait(latest) };
            for number in numbers {
                self.write_out(number)?;
                let op = self.cluster.hopper.stores.remove(&number).and_then(|store| store.op);
                self.order_complete(op, 1 << lane);
                if !read {
                    let writes = self.cluster.hopper.writes.remove(&number);
                    self.order_complete(writes, 1 << lane);
                }
            }
        }
        Ok(())
    }
}
