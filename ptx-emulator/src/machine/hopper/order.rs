//! The machine's calls of the checker of Level 2.

use super::super::block::Grid;
use super::super::context::{Context, Lanes};
use super::super::warp::{Status, Warp};
use super::Place;
use crate::check::shadow::{Reach, Stamp};
use crate::check::{AccessKind, Fault, OtherSide, ReportKind};
use crate::order::{Access, Actor, Kind, OpId, Order, Race, Space, SyncObject};

fn mbarrier((rank, address): Place) -> SyncObject {
    SyncObject::Mbarrier { block: rank as u32, offset: address as u32 }
}

fn kind(writes: bool, reach: Reach) -> Kind {
    match (writes, reach) {
        (false, Reach::Weak) => Kind::Read,
        (true, Reach::Weak) => Kind::Write,
        (false, Reach::Block) => Kind::BlockRead,
        (true, Reach::Block) => Kind::BlockWrite,
        (false, Reach::Cluster | Reach::All) => Kind::StrongRead,
        (true, Reach::Cluster | Reach::All) => Kind::StrongWrite,
    }
}

impl Context<'_> {
    fn order(&mut self) -> Option<&mut Order> {
        self.cluster.hopper.order.as_mut()
    }

    /// An access of some lanes to the same bytes of shared memory.
    pub fn order_bytes(
        &mut self,
        lanes: u32,
        place: Place,
        bytes: u64,
        kind: Kind,
        line: u32,
    ) -> Result<(), Box<Fault>> {
        let warp = self.cluster_warp();
        self.order_access(Actor::Lanes { warp, lanes }, place, bytes, kind, line)
    }

    /// An access to bytes of shared memory.
    pub fn order_access(
        &mut self,
        actor: Actor,
        (rank, address): Place,
        bytes: u64,
        kind: Kind,
        line: u32,
    ) -> Result<(), Box<Fault>> {
        self.order_places(actor, rank, [(address, bytes as u32)], kind, line)
    }

    /// The same access to several places of a block's shared memory: their addresses and bytes.
    pub fn order_places(
        &mut self,
        actor: Actor,
        rank: usize,
        places: impl IntoIterator<Item = (u64, u32)>,
        kind: Kind,
        line: u32,
    ) -> Result<(), Box<Fault>> {
        let Some(order) = self.order() else { return Ok(()) };
        let result =
            order.access_all(actor, Space::Shared(rank as u32), places, Access { kind, line });
        result.map_err(|race| self.order_race(&race))
    }

    /// A weak access of the warp, whose lanes have `bytes` bytes each at their own addresses.
    pub fn order_lanes(
        &mut self,
        space: Space,
        addresses: &Lanes,
        bytes: u64,
        (kind, line): (Kind, u32),
    ) -> Result<(), Box<Fault>> {
        let actor = (self.cluster_warp(), self.mask);
        let Some(order) = self.order() else { return Ok(()) };
        let access = Access { kind, line };
        let result = order.access_lanes(actor, space, addresses, bytes as u32, access);
        result.map_err(|race| self.order_race(&race))
    }

    /// The fault of a race.
    fn order_race(&self, race: &Race) -> Box<Fault> {
        let warps = self.cluster.hopper.warps;
        let warp = race.other.warp as usize;
        let thread = (warp % warps * 32) as u64 + u64::from(race.other.lane);
        let other = OtherSide {
            access: if race.other.writes { AccessKind::Write } else { AccessKind::Read },
            line: race.other.line,
            block: self.cluster.blocks[warp / warps].index,
            thread: Grid::place(thread, self.grid.launch.block),
        };
        let note = match race.space {
            Space::Shared(rank) => self.cluster.blocks[rank as usize].shared.note(race.address),
            Space::Global => None,
        };
        let lane = race.this.lane as usize;
        let fault = Fault::of_lane(ReportKind::DataRace, lane, race.to_string());
        let mut fault = fault.at(race.address).inside(note).against(other);
        fault.line = Some(race.this.line);
        let warp = race.this.warp as usize;
        fault.warp = Some((warp / warps, warp % warps));
        fault
    }

    /// Lanes arrive at an mbarrier.
    pub fn order_arrive(&mut self, lanes: u32, place: Place, phase: u64, relaxed: bool) {
        let warp = self.cluster_warp();
        let Some(order) = self.order() else { return };
        match relaxed {
            true => order.release_fenced(warp, lanes, mbarrier(place), phase),
            false => order.release(warp, lanes, mbarrier(place), phase),
        }
    }

    /// Lanes have waited for a phase of an mbarrier.
    pub fn order_waited(&mut self, lanes: u32, place: Place, phase: u64, relaxed: bool) {
        let warp = self.cluster_warp();
        let Some(order) = self.order() else { return };
        match relaxed {
            true => order.acquire_with_fence(warp, lanes, mbarrier(place), phase),
            false => order.acquire(warp, lanes, mbarrier(place), phase),
        }
    }

    /// An mbarrier is no more.
    pub fn order_remove(&mut self, place: Place) {
        if let Some(order) = self.order() {
            order.remove(mbarrier(place));
        }
    }

    /// A lane issues a bulk copy.
    pub fn order_issue(&mut self, lane: usize) -> Option<OpId> {
        let warp = self.cluster_warp();
        Some(self.order()?.issue(warp, 1 << lane, true))
    }

    /// A copy has come, which an mbarrier counts in that phase.
    pub fn order_come(&mut self, op: Option<OpId>, place: Place, phase: u64) {
        if let (Some(op), Some(order)) = (op, self.order()) {
            order.complete_at(op, mbarrier(place), phase);
        }
    }

    /// Lanes have waited for an operation.
    pub fn order_complete(&mut self, op: Option<OpId>, lanes: u32) {
        let warp = self.cluster_warp();
        if let (Some(op), Some(order)) = (op, self.order()) {
            order.complete_for(op, warp, lanes);
        }
    }

    /// Lanes arrive at a barrier of the block or the cluster.
    pub fn order_release(&mut self, object: SyncObject, phase: u64) {
        let (warp, lanes) = (self.cluster_warp(), self.mask);
        if let Some(order) = self.order() {
            order.release(warp, lanes, object, phase);
        }
    }

    /// Lanes have waited at a barrier of the block or the cluster.
    pub fn order_acquire(&mut self, lanes: u32, object: SyncObject, phase: u64) {
        let warp = self.cluster_warp();
        if let Some(order) = self.order() {
            order.acquire(warp, lanes, object, phase);
        }
    }

    /// `bar.warp.sync`.
    pub fn order_warp_sync(&mut self, lanes: u32) {
        let warp = self.cluster_warp();
        if let Some(order) = self.order() {
            order.warp_sync(warp, lanes);
        }
    }

    /// `fence`, `membar`.
    pub fn order_fence(&mut self) {
        let (warp, lanes) = (self.cluster_warp(), self.mask);
        if let Some(order) = self.order() {
            order.fence(warp, lanes);
        }
    }

    /// Lanes initialise an mbarrier.
    pub fn order_init(&mut self, lanes: u32, place: Place, line: u32) -> Result<(), Box<Fault>> {
        let warp = self.cluster_warp();
        if let Some(order) = self.order() {
            order.begin_init(warp, lanes);
        }
        let result = self.order_bytes(lanes, place, 8, Kind::Write, line);
        if let Some(order) = self.order() {
            order.end_init(warp);
        }
        result
    }

    /// `fence.mbarrier_init`.
    pub fn order_fence_inits(&mut self) {
        let (warp, lanes) = (self.cluster_warp(), self.mask);
        if let Some(order) = self.order() {
            order.fence_inits(warp, lanes);
        }
    }

    /// `fence.proxy.async`.
    pub fn order_fence_proxy(&mut self) {
        let (warp, lanes) = (self.cluster_warp(), self.mask);
        if let Some(order) = self.order() {
            order.fence_proxy(warp, lanes);
        }
    }

    /// An ordinary access of one lane to shared memory; not to an mbarrier's bytes.
    pub fn order_shared(
        &mut self,
        (rank, address, size): (usize, u64, u32),
        lane: usize,
        stamp: &Stamp,
        writes: bool,
    ) -> Result<(), Box<Fault>> {
        if self.cluster.hopper.mbarrier_at((rank, address)) {
            let message = "an ordinary access to the bytes of an mbarrier";
            return Err(Fault::of_lane(ReportKind::Mbarrier, lane, message).at(address));
        }
        self.check_alive(lane, rank, address)?;
        let kind = kind(writes, stamp.reach);
        self.order_bytes(1 << lane, (rank, address), size.into(), kind, stamp.line)?;
        if stamp.reach != Reach::Weak {
            self.order_strong(lane, Space::Shared(rank as u32), address, writes);
        }
        Ok(())
    }

    /// An access of one lane to global memory. What is left to Level 1 is how whole clusters are
    /// ordered, for which all of the cluster counts as one thread. Where clusters order each other
    /// by fences, what one's threads do among themselves may be ordered by way of another, so that
    /// it is not looked at.
    pub fn order_global(
        &mut self,
        (address, size): (u64, u32),
        lane: usize,
        stamp: &Stamp,
        writes: bool,
    ) -> Result<Stamp, Box<Fault>> {
        if self.grid.program.orders_blocks {
            // The flag itself is part of what it releases.
            let of_cluster = self.cluster_stamp(stamp);
            // What a flag of less reach passes on, a fence of the reader may release.
            if matches!(stamp.reach, Reach::Block | Reach::Cluster) {
                self.order_strong(lane, Space::Global, address, writes);
            }
            return Ok(of_cluster);
        }
        let warp = self.cluster_warp();
        let kind = kind(writes, stamp.reach);
        let actor = Actor::Lanes { warp, lanes: 1 << lane };
        if let Some(order) = self.order() {
            let access = Access { kind, line: stamp.line };
            let result = order.access(actor, Space::Global, address, size, access);
            result.map_err(|race| self.order_race(&race))?;
        }
        if stamp.reach != Reach::Weak {
            self.order_strong(lane, Space::Global, address, writes);
        }
        Ok(self.cluster_stamp(stamp))
    }

    /// As [`Context::order_global`], a weak access of the warp's lanes.
    pub fn order_global_lanes(
        &mut self,
        addresses: &Lanes,
        bytes: u32,
        stamp: &Stamp,
        writes: bool,
    ) -> Result<Stamp, Box<Fault>> {
        if !self.grid.program.orders_blocks {
            let kind = if writes { Kind::Write } else { Kind::Read };
            self.order_lanes(Space::Global, addresses, bytes.into(), (kind, stamp.line))?;
        }
        Ok(self.cluster_stamp(stamp))
    }

    /// An access of an asynchronous operation to a run of global memory. Reads are looked at as if
    /// they left no trace in their own cluster.
    pub fn order_run(
        &mut self,
        op: OpId,
        lane: usize,
        (address, bytes): (u64, u32),
        (kind, line): (Kind, u32),
    ) -> Result<(), Box<Fault>> {
        let (actor, access) = (Actor::Op(op), Access { kind, line });
        let writes = kind != Kind::Read;
        let orders_blocks = self.grid.program.orders_blocks;
        let Some(order) = self.order() else { return Ok(()) };
        let result = match writes {
            _ if orders_blocks => Ok(()),
            true => order.access(actor, Space::Global, address, bytes, access),
            false => order.check_global(actor, address, bytes, access),
        };
        result.map_err(|race| self.order_race(&race))?;
        let Some(allocation) = self.grid.memory.find(address, bytes.into()) else { return Ok(()) };
        if !self.checks_global_races() {
            return Ok(());
        }
        let reach = if kind == Kind::StrongWrite { Reach::All } else { Reach::Weak };
        let mut stamp = self.cluster_stamp(&self.stamp(line, reach));
        if !writes {
            // Who has waited for it knows that it is complete, and not what its warp does: any
            // fence of one who knows of the warp at all is one behind it.
            stamp = stamp.at(stamp.thread, 1);
        }
        self.check_blocks_race(allocation, (address, bytes), lane, &stamp, writes)
    }

    /// For Level 1, all of a cluster counts as one thread: it finds what clusters do to each other.
    /// Where fences order them, it is the warp and its time that say what has been released. What
    /// reaches no further than the cluster is weak then.
    fn cluster_stamp(&self, stamp: &Stamp) -> Stamp {
        let (block, warp) = (self.cluster.blocks[0].linear, self.cluster_warp());
        let order = self.cluster.hopper.order.as_ref();
        let (warp, time) = match order.filter(|_| self.grid.program.orders_blocks) {
            Some(order) => (warp as u32, order.time(warp)),
            None => (0, 1),
        };
        let reach = if stamp.reach == Reach::All { Reach::All } else { Reach::Weak };
        Stamp { block, reach, ..*stamp }.at(warp, time)
    }

    /// What these lanes know and did is released to whoever acquires it, of other clusters too, and
    /// with it what fences of less reach have released to them.
    pub fn order_release_to_all(&mut self) {
        let block = self.cluster.blocks[0].linear;
        let Some(times) = self.order_times() else { return };
        self.fences().release(block, times.into_iter());
        let within = &self.cluster.hopper.released[self.rank];
        self.fences().release(block, within.iter().copied());
    }

    /// It is released to the block or its cluster, where others may have the fence of the GPU.
    pub fn order_release_within(&mut self, cluster: bool) {
        let Some(times) = self.order_times() else { return };
        let (rank, released) = (self.rank, self.cluster.hopper.released.iter_mut());
        for (_, known) in released.enumerate().filter(|(block, _)| cluster || *block == rank) {
            known.resize(times.len(), 0);
            known.iter_mut().zip(&times).for_each(|(known, time)| *known = *time.max(known));
        }
    }

    /// Up to which times the lanes know what was done, where fences order blocks.
    fn order_times(&mut self) -> Option<Vec<u32>> {
        let (warp, lanes) = (self.cluster_warp(), self.mask);
        if self.grid.released.is_empty() {
            return None;
        }
        Some(self.order()?.release_to_all(warp, lanes))
    }

    /// A strong access synchronises with others of its place. Each counts as acquiring, and each
    /// write as releasing, whatever it says: what relaxed ones leave unordered is not reported.
    fn order_strong(&mut self, lane: usize, space: Space, address: u64, writes: bool) {
        let warp = self.cluster_warp();
        let Some(order) = self.order() else { return };
        let place = SyncObject::Location(space, address);
        order.acquire(warp, 1 << lane, place, 0);
        if writes {
            order.release(warp, 1 << lane, place, 0);
        }
    }

    /// A block exits, and its shared memory goes: no access of another block may come later.
    pub fn order_exit(&mut self) -> Result<(), Box<Fault>> {
        let (rank, warps, line) = (self.rank, self.cluster.hopper.warps, self.warp.line);
        let warp = self.warp.index;
        let others = &self.cluster.blocks[rank].warps;
        let is_done =
            |(index, other): (usize, &Warp)| other.status == Status::Done || index == warp;
        if self.cluster.blocks.len() == 1 || !others.iter().enumerate().all(is_done) {
            return Ok(());
        }
        let Some(order) = self.order() else { return Ok(()) };
        let result = order.end_of_block(rank as u32, rank * warps..(rank + 1) * warps, line);
        result.map_err(|race| {
            let mut fault = self.order_race(&race);
            let what = "the block exits, and its shared memory goes, while others may use it";
            fault.message = format!("{what}: {}", fault.message);
            fault
        })
    }

    /// The warp arrives at a barrier of its block. It must come after the barrier's last phase:
    /// else it might have arrived in that one, in place of a warp that was meant.
    pub fn order_barrier(&mut self, number: u32) -> Result<(), Box<Fault>> {
        let phase = self.cluster.blocks[self.rank].barriers[number as usize].phase();
        let (warp, lanes, block) = (self.cluster_warp(), self.mask, self.rank as u32);
        let object = SyncObject::Barrier { block, number };
        if let (Some(last), Some(order)) = (phase.checked_sub(1), self.order())
            && !order.is_after(warp, lanes, object, last)
        {
            let message = format!(
                "an arrival at barrier {number} that nothing orders after the barrier's last use, \
                 by other warps: it might have taken part in that"
            );
            return Err(Fault::new(ReportKind::Barrier, message));
        }
        self.cluster.hopper.barrier_phases[warp] = phase;
        self.order_release(object, phase);
        Ok(())
    }

    /// The warp has waited at a barrier of its block.
    pub fn order_barrier_over(&mut self, number: u32) {
        let phase = self.cluster.hopper.barrier_phases[self.cluster_warp()];
        let block = self.rank as u32;
        self.order_acquire(self.mask, SyncObject::Barrier { block, number }, phase);
    }
}
