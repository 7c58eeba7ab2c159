//! Asynchronous operations as agents.

use super::clock::Clock;
use super::shadow::PAGE_BYTES;
use super::warp::{Known, Warp};
use super::{Access, Actor, Kind, Order, Race, Space, SyncObject};
use std::cell::Cell;
use std::collections::VecDeque;
use std::ops::Range;

/// An asynchronous operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OpId(pub(super) u32);

#[derive(Debug)]
pub(super) struct Op {
    /// Of the warp that issued it (the first of a warpgroup).
    pub(super) warp: u16,
    pub(super) lanes: u32,
    /// Whether it accesses memory through the async proxy.
    pub(super) is_async: bool,
    is_group: bool,
    /// The warp's time when it was issued.
    pub(super) issued: u32,
    /// What comes before it.
    pub(super) seen: Clock,
    pub(super) fenced: Clock,
    /// The lanes of the warp that have waited for it, and when.
    pub(super) waited: Vec<(u32, u32)>,
    /// Whether it makes no more accesses.
    pub(super) is_done: bool,
    /// How many shadow cells, and lists of reads, remember it.
    cells: Cell<u32>,
}

impl Op {
    /// Whether lanes issued it, each for itself, and not a warpgroup.
    pub(super) fn is_of_lanes(&self) -> bool {
        !self.is_group
    }
}

/// All operations that may still matter.
#[derive(Debug, Default)]
pub(super) struct Ops {
    ops: VecDeque<Op>,
    /// The number of the first; the very first is 1.
    first: u32,
    /// Operations since the clocks were last cleaned.
    since: u32,
}

impl Ops {
    pub(super) fn get(&self, id: OpId) -> &Op {
        &self.ops[(id.0 - 1 - self.first) as usize]
    }

    /// An operation that may be forgotten already.
    fn find(&mut self, id: OpId) -> Option<&mut Op> {
        self.ops.get_mut((id.0 - 1).checked_sub(self.first)? as usize)
    }

    /// So many more cells remember an operation.
    pub(super) fn remember(&self, id: u32, count: u32) {
        let cells = &self.get(OpId(id)).cells;
        cells.set(cells.get() + count);
    }

    /// So many fewer do.
    pub(super) fn forget(&self, id: u32, count: u32) {
        let cells = &self.get(OpId(id)).cells;
        cells.set(cells.get() - count);
    }

    fn lives(&self, id: u32) -> bool {
        let Some(index) = (id - 1).checked_sub(self.first) else { return false };
        self.ops.get(index as usize).is_some_and(|op| !op.is_done || op.cells.get() > 0)
    }

    fn push(&mut self, op: Op) -> OpId {
        self.since += 1;
        self.ops.push_back(op);
        OpId(self.first + self.ops.len() as u32)
    }
}

/// Clocks are cleaned of forgotten operations after so many new ones.
const CLEAN_AFTER: u32 = 256;

impl Order {
    /// Lanes of a warp issue an asynchronous operation: one for all of them, of which each lane
    /// does its part (`cp.async`), or a single lane's (bulk copies). It comes after all that the
    /// lanes know, and in each lane after what the lane did.
    ///
    /// Bulk copies that several lanes start are one operation for each of them.
    ///
    /// `is_async` says whether it works through the async proxy: bulk copies do, `cp.async` and
    /// `st.async` on mbarriers do not.
    pub fn issue(&mut self, warp: usize, lanes: u32, is_async: bool) -> OpId {
        self.clean();
        let state = &mut self.warps[warp];
        let Known { seen, fenced } = state.common(lanes);
        let issued = state.time;
        // What the issuing lanes do from now on does not come before the operation.
        state.time += 1;
        let (mut seen, mut fenced) = (seen, fenced);
        if lanes.count_ones() == 1 {
            // One lane's own accesses: what it did, and what of that it has fenced is in `fenced`.
            seen.add_lane(warp as u16, lanes.trailing_zeros() as u8, issued);
        } else if !is_async {
            fenced = Clock::default();
        }
        self.ops.push(Op {
            warp: warp as u16,
            lanes,
            is_async,
            is_group: false,
            issued,
            seen,
            fenced,
            waited: Vec::new(),
            is_done: false,
            cells: Cell::new(0),
        })
    }

    /// The warps of a warpgroup issue `wgmma.mma_async`, which reads shared memory through the
    /// async proxy. It comes after what all of them know. (The PTX ISA orders it after nothing but
    /// what a `wgmma.fence` or a proxy fence orders; a wait for an mbarrier between the fence and
    /// the instruction is taken as enough, since kernels do so.)
    pub fn issue_group(&mut self, warps: &[usize]) -> OpId {
        self.clean();
        let known = |warp: &mut Warp| {
            warp.time += 1;
            warp.common(warp.live)
        };
        let mut common = known(&mut self.warps[warps[0]]);
        for &warp in &warps[1..] {
            common.meet(&known(&mut self.warps[warp]));
        }
        self.ops.push(Op {
            warp: warps[0] as u16,
            lanes: u32::MAX,
            is_async: true,
            is_group: true,
            issued: 0,
            seen: common.seen,
            fenced: common.fenced,
            waited: Vec::new(),
            is_done: false,
            cells: Cell::new(0),
        })
    }

    /// The end of a block, whose shared memory goes: every access by others must come before.
    /// `line` is that of the last exit.
    pub fn end_of_block(
        &mut self,
        block: u32,
        warps: Range<usize>,
        line: u32,
    ) -> Result<(), Box<Race>> {
        let mut known = Known::new(self.warps.len());
        for warp in warps.clone() {
            self.warps[warp].publish(warp, u32::MAX, &mut known);
        }
        let op = self.ops.push(Op {
            warp: warps.start as u16,
            lanes: 1,
            is_async: false,
            is_group: true,
            issued: 0,
            seen: known.seen,
            fenced: known.fenced,
            waited: Vec::new(),
            is_done: false,
            cells: Cell::new(0),
        });
        let access = Access { kind: Kind::Write, line };
        let used = self.shared[block as usize].used().into_iter();
        let used = used.map(|page| (page * PAGE_BYTES, PAGE_BYTES as u32));
        let result = self.access_all(Actor::Op(op), Space::Shared(block), used, access);
        self.finish(op);
        result
    }

    /// An operation is complete for lanes that have waited for it: the issuing lanes with a
    /// `wait_group`, or a warp of a warpgroup.
    pub fn complete_for(&mut self, op: OpId, warp: usize, lanes: u32) {
        let state = &mut self.warps[warp];
        let Some(record) = self.ops.find(op) else { return };
        match record.is_group || usize::from(record.warp) != warp {
            true => state.learn_op(lanes, op.0),
            false => record.waited.push((lanes & record.lanes, state.time)),
        }
        record.is_done = true;
    }

    /// The completion of an operation is counted at an mbarrier, in that phase: whoever waits for
    /// the phase knows that the operation is complete, and nothing of what came before it.
    pub fn complete_at(&mut self, op: OpId, object: SyncObject, phase: u64) {
        self.finish(op);
        self.slot(object, phase).seen.add_op(op.0);
    }

    /// An operation has made all its accesses, and what waits for it is yet to come.
    pub fn finish(&mut self, op: OpId) {
        if let Some(op) = self.ops.find(op) {
            op.is_done = true;
        }
    }

    /// How many operations are remembered.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.ops.ops.len()
    }

    /// Forgets operations that no cell remembers.
    fn clean(&mut self) {
        if self.ops.since < CLEAN_AFTER {
            return;
        }
        self.ops.since = 0;
        let ops = &self.ops;
        let mut keep = |clock: &mut Clock| clock.retain_ops(|op| ops.lives(op));
        self.warps.iter_mut().for_each(|warp| warp.clocks(&mut keep));
        for slots in self.slots.values_mut() {
            slots.clocks(&mut keep);
        }
        for op in &mut self.ops.ops {
            if op.is_done {
                (op.seen, op.fenced) = (Clock::default(), Clock::default());
            }
        }
        let mut dead = 0;
        while dead < self.ops.ops.len() && !self.ops.lives(self.ops.first + 1 + dead as u32) {
            dead += 1;
        }
        self.ops.ops.drain(..dead);
        self.ops.first += dead as u32;
    }
}
