//! Which accesses are ordered: a happens-before checker for data races, with proxies.
//!
//! Two accesses to one byte race if one of them writes, neither is ordered before the other, and
//! not both are strong (PTX ISA, "Memory Consistency Model": "Causality order", "Data races").
//! The checker follows what orders: program order of a lane, `bar.warp.sync`, barriers, mbarrier
//! phases, the cluster's barrier, releases and acquires at a location, and the completion of
//! asynchronous operations. It needs one execution, not all of them: an order that the scheduler
//! chose is not taken for one that the program asks for.
//!
//! - An agent is a warp, whose clock counts its synchronising steps; each access is stamped with
//!   the warp, its lanes and the clock. Lanes of one warp are not ordered among each other until a
//!   step that synchronises them, so that "write by all, then arrive by one" is found. What lanes
//!   know apart from the rest of their warp is kept apart.
//! - An asynchronous operation is an agent of its own. It comes after what its issuer knew, and its
//!   completion orders the operation's own accesses and nothing that the issuer did ("Asynchronous
//!   operations").
//! - An access of the async proxy to what the generic proxy wrote needs a `fence.proxy.async` on
//!   the way ("Proxies"), so there is a second clock of what has been fenced. Generic reads before
//!   an asynchronous write need none: nobody fences them, and hardware has shown no harm.
//! - Shadow cells of 4 bytes hold the last write and the reads since (as FastTrack does, Flanagan
//!   and Freund, PLDI 2009); cells with accesses of fewer bytes are split. Of the words that an
//!   operation accesses, neighbours mostly have had the same accesses: they are looked at once.

mod clock;
mod ops;
mod race;
mod registers;
mod shadow;
mod sync;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_async;
mod warp;

pub use ops::OpId;
pub use race::{Race, Site, Why};
pub use registers::{RegisterHazard, RegisterHazards};
pub use sync::SyncObject;

use clock::Clock;
use ops::Ops;
use rustc_hash::FxHashMap;
use shadow::{Cell, Flags, OP, PAGE_BYTES, Shadow, Stamp, Tables};
use std::ops::Range;
use sync::Slots;
use warp::Warp;

/// Where an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// In the shared memory of the cluster's block of that rank; addresses are offsets.
    Shared(u32),
    /// In global memory.
    Global,
}

/// Who accesses memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Actor {
    /// Lanes of a warp of the cluster, all the same bytes.
    Lanes {
        /// The warp.
        warp: usize,
        /// The lanes.
        lanes: u32,
    },
    /// An asynchronous operation.
    Op(OpId),
    /// Some lanes' part of an operation that each lane does for itself: `cp.async`.
    OpLanes(OpId, u32),
}

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A weak read.
    Read,
    /// A weak write.
    Write,
    /// A strong read: relaxed, acquire or volatile. It doesn't race with other strong accesses.
    StrongRead,
    /// A strong write or an atomic operation.
    StrongWrite,
    /// A strong read of `.cta` scope, which is weak towards other blocks.
    BlockRead,
    /// A strong write or an atomic operation of `.cta` scope.
    BlockWrite,
}

impl Kind {
    fn writes(self) -> bool {
        matches!(self, Kind::Write | Kind::StrongWrite | Kind::BlockWrite)
    }

    fn is_strong(self) -> bool {
        !matches!(self, Kind::Read | Kind::Write)
    }

    fn is_of_block(self) -> bool {
        matches!(self, Kind::BlockRead | Kind::BlockWrite)
    }
}

/// An access: what it does, and the line of the PTX text that does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// What it does.
    pub kind: Kind,
    /// The line.
    pub line: u32,
}

/// The checker for the warps of one cluster (or of one block).
#[derive(Debug)]
pub struct Order {
    warps: Vec<Warp>,
    ops: Ops,
    slots: FxHashMap<SyncObject, Slots>,
    shared: Vec<Shadow>,
    global: Shadow,
    tables: Tables,
}

impl Order {
    /// For a cluster of `blocks` blocks whose warps, one block's after the other's, have these
    /// lanes.
    pub fn new(live: &[u32], blocks: usize) -> Self {
        let warps = live.len();
        let blocks_of_warps = (0..warps).map(|warp| (warp * blocks / warps) as u32);
        let warp = |(&lanes, block)| Warp::new(lanes, block, warps);
        Order {
            warps: live.iter().zip(blocks_of_warps).map(warp).collect(),
            ops: Ops::default(),
            slots: FxHashMap::default(),
            shared: (0..blocks).map(|_| Shadow::default()).collect(),
            global: Shadow::default(),
            tables: Tables::default(),
        }
    }

    /// How many warps it is for.
    pub fn warps(&self) -> usize {
        self.warps.len()
    }

    /// A warp's time, which each step that synchronises it brings forward.
    pub fn time(&self, warp: usize) -> u32 {
        self.warps[warp].time
    }

    /// An access to `bytes` bytes at `address`.
    pub fn access(
        &mut self,
        actor: Actor,
        space: Space,
        address: u64,
        bytes: u32,
        access: Access,
    ) -> Result<(), Box<Race>> {
        self.access_all(actor, space, [(address, bytes)], access)
    }

    /// The same access to several places: their addresses and bytes.
    pub fn access_all(
        &mut self,
        actor: Actor,
        space: Space,
        places: impl IntoIterator<Item = (u64, u32)>,
        access: Access,
    ) -> Result<(), Box<Race>> {
        let who = Who::new(&self.warps, &self.ops, actor, access);
        let shadow = match space {
            Space::Shared(block) => &mut self.shared[block as usize],
            Space::Global => &mut self.global,
        };
        let mut last = None;
        let mut places = places.into_iter();
        places.try_for_each(|place| who.run(space, shadow, place, &mut self.tables, &mut last))
    }

    /// Whether an access to global memory would be ordered; it leaves no trace. For reads of
    /// operations, each of which would else be remembered for as long as the memory.
    pub fn check_global(
        &self,
        actor: Actor,
        address: u64,
        bytes: u32,
        access: Access,
    ) -> Result<(), Box<Race>> {
        let who = Who::new(&self.warps, &self.ops, actor, access);
        for word in address / 4..(address + u64::from(bytes)).div_ceil(4) {
            let Some(cell) = self.global.get(word) else { continue };
            let (mut parts, end) = (self.tables.parts(cell), address + u64::from(bytes));
            if parts.len() > 1 {
                let first = address.saturating_sub(word * 4) as usize;
                parts = &parts[first..(end - word * 4).min(4) as usize];
            }
            let mut checked = parts.iter().map(|part| who.check(part, &self.tables));
            let checked = checked.find(Result::is_err).unwrap_or(Ok(()));
            checked.map_err(|other| who.race(other, Space::Global, word * 4))?;
        }
        Ok(())
    }

    /// The same access by lanes of a warp, each at its own address: all of `lanes` read or write
    /// `bytes` bytes. Lanes with the same address as the lane before are taken together.
    pub fn access_lanes(
        &mut self,
        (warp, lanes): (usize, u32),
        space: Space,
        addresses: &[u64; 32],
        bytes: u32,
        access: Access,
    ) -> Result<(), Box<Race>> {
        let mut who = Who::new(&self.warps, &self.ops, Actor::Lanes { warp, lanes }, access);
        let shadow = match space {
            Space::Shared(block) => &mut self.shared[block as usize],
            Space::Global => &mut self.global,
        };
        let mut left = lanes;
        while left != 0 {
            let first = left.trailing_zeros();
            let address = addresses[first as usize];
            who.stamp.lanes = 1 << first;
            left &= left - 1;
            while !who.writes && left != 0 && addresses[left.trailing_zeros() as usize] == address {
                who.stamp.lanes |= 1 << left.trailing_zeros();
                left &= left - 1;
            }
            who.run(space, shadow, (address, bytes), &mut self.tables, &mut None)?;
        }
        Ok(())
    }

    /// Forgets what was accessed in these bytes of shared memory: they become another object.
    pub fn forget(&mut self, block: u32, address: u64, bytes: u32) {
        for word in address / 4..(address + u64::from(bytes)).div_ceil(4) {
            if let Some(cell) = self.shared[block as usize].get_mut(word) {
                self.tables.clear(cell, &self.ops);
            }
        }
    }
}

/// An access that is about to happen, with what its actor knows.
struct Who<'a> {
    warps: &'a [Warp],
    ops: &'a Ops,
    stamp: Stamp,
    writes: bool,
    /// What is known to all lanes of the warp, or to the operation.
    seen: &'a Clock,
    /// For an access of the async proxy, what has been fenced.
    fenced: Option<&'a Clock>,
}

/// An earlier access that is not ordered, and its byte in a split word.
struct Conflict {
    stamp: Stamp,
    writes: bool,
    byte: Option<usize>,
}

impl<'a> Who<'a> {
    fn new(warps: &'a [Warp], ops: &'a Ops, actor: Actor, access: Access) -> Self {
        let Access { kind, line } = access;
        let (writes, strong) = (kind.writes(), kind.is_strong());
        let flags = Flags::NONE.with(Flags::STRONG, strong);
        let flags = flags.with(Flags::OF_BLOCK, kind.is_of_block());
        match actor {
            Actor::Lanes { warp, lanes } => {
                let time = warps[warp].time;
                let stamp = Stamp { time, lanes, line, agent: warp as u16, flags };
                Who { warps, ops, stamp, writes, seen: &warps[warp].all.seen, fenced: None }
            }
            Actor::Op(id) | Actor::OpLanes(id, _) => {
                let op = ops.get(id);
                let lanes = if let Actor::OpLanes(_, lanes) = actor { lanes } else { op.lanes };
                let flags = flags.with(Flags::ASYNC, op.is_async);
                let flags = flags.with(Flags::WHOLE_OP, matches!(actor, Actor::Op(_)));
                let stamp = Stamp { time: id.0, lanes, line, agent: OP, flags };
                // A strong access is that to the mbarrier that counts the operation, for which
                // none fences proxies after its initialisation.
                let fenced = (op.is_async && !strong).then_some(&op.fenced);
                Who { warps, ops, stamp, writes, seen: &op.seen, fenced }
            }
        }
    }

    /// Whether the other access is ordered before this one; the most common cases.
    #[inline(always)]
    fn is_after(&self, other: &Stamp, other_writes: bool) -> bool {
        let own = (self.stamp.agent, self.stamp.lanes) == (other.agent, other.lanes);
        if own && other.agent != OP && other.lanes.is_power_of_two() {
            return true;
        }
        let has = |clock: &Clock| clock.warps[other.agent as usize] >= other.time;
        if other.agent != OP && has(self.seen) {
            let needs_fence = other_writes && !other.flags.has(Flags::ASYNC);
            if self.fenced.is_none_or(|fenced| !needs_fence || has(fenced)) {
                return true;
            }
        }
        self.why(other, other_writes).is_none()
    }

    /// Why the other access is not ordered before this one, or `None` where it is (or where two
    /// strong accesses need no order).
    #[cold]
    fn why(&self, other: &Stamp, other_writes: bool) -> Option<Why> {
        if other.time == 0 || self.are_strong(other) {
            return None;
        }
        if other.agent == OP {
            return self.why_op(other, other_writes);
        }
        if !self.sees(other) {
            return Some(match other.agent == self.warp_of(&self.stamp) {
                true => Why::SameWarp,
                false => Why::Unordered,
            });
        }
        self.why_fence(other, other_writes)
    }

    /// Whether both accesses are strong, and each reaches the other's block.
    fn are_strong(&self, other: &Stamp) -> bool {
        let (a, b) = (self.stamp.flags, other.flags);
        let block = |stamp| self.warps[usize::from(self.warp_of(stamp))].block;
        let of_block = a.has(Flags::OF_BLOCK) || b.has(Flags::OF_BLOCK);
        let reach = || !of_block || block(&self.stamp) == block(other);
        a.has(Flags::STRONG) && b.has(Flags::STRONG) && reach()
    }

    /// The lack of a proxy fence after an access that is ordered.
    fn why_fence(&self, other: &Stamp, other_writes: bool) -> Option<Why> {
        let fenced = self.fenced.filter(|_| other_writes && !other.flags.has(Flags::ASYNC))?;
        (!fenced.covers(other)).then_some(Why::NoProxyFence)
    }

    /// The warp that acts or has issued the operation.
    fn warp_of(&self, stamp: &Stamp) -> u16 {
        match stamp.agent {
            OP => self.ops.get(OpId(stamp.time)).warp,
            warp => warp,
        }
    }

    fn why_op(&self, other: &Stamp, other_writes: bool) -> Option<Why> {
        let is_same = self.stamp.agent == OP && self.stamp.time == other.time;
        if is_same && (self.stamp.flags.has(Flags::WHOLE_OP) || self.stamp.lanes == other.lanes) {
            return None;
        }
        let op = self.ops.get(OpId(other.time));
        let knows = match self.stamp.agent {
            OP => self.seen.has_op(other.time),
            warp => self.warps[warp as usize].lanes_know_op(self.stamp.lanes, other.time),
        };
        if knows {
            return self.why_fence(other, other_writes);
        }
        // The lanes that have waited took the operation's accesses for their own.
        let mut left = other.lanes;
        for &(lanes, time) in &op.waited {
            let stamp = Stamp { time, lanes: lanes & other.lanes, agent: op.warp, ..*other };
            if stamp.lanes != 0 && self.sees(&stamp) {
                if let Some(why) = self.why_fence(&stamp, other_writes) {
                    return Some(why);
                }
                left &= !lanes;
            }
        }
        match left {
            0 => None,
            _ if op.is_done => Some(Why::Unordered),
            _ => Some(Why::InFlight),
        }
    }

    /// Whether all lanes of this access know all lanes of that one, which is a warp's.
    fn sees(&self, other: &Stamp) -> bool {
        if self.seen.covers(other) {
            return true;
        }
        if self.stamp.agent == OP {
            let op = self.ops.get(OpId(self.stamp.time));
            let is_own = op.warp == other.agent && other.time <= op.issued;
            return is_own && other.lanes == self.stamp.lanes && op.is_of_lanes();
        }
        let warp = &self.warps[self.stamp.agent as usize];
        warp.lanes_see(self.stamp.lanes, other, self.stamp.agent)
    }

    fn check(&self, cell: &Cell, tables: &Tables) -> Result<(), Conflict> {
        if !self.is_after(&cell.write, true) {
            return Err(Conflict { stamp: cell.write, writes: true, byte: None });
        }
        if self.writes || cell.write.flags.has(Flags::STRONG) {
            for read in tables.reads(cell) {
                let writes = read.flags.has(Flags::WROTE);
                if (self.writes || writes) && !self.is_after(read, writes) {
                    return Err(Conflict { stamp: *read, writes, byte: None });
                }
            }
        }
        Ok(())
    }

    /// The access to one place.
    #[inline]
    fn run(
        &self,
        space: Space,
        shadow: &mut Shadow,
        (address, bytes): (u64, u32),
        tables: &mut Tables,
        last: &mut Option<(Cell, Cell)>,
    ) -> Result<(), Box<Race>> {
        let (mut at, end) = (address, address + u64::from(bytes));
        while at < end {
            let start = at / PAGE_BYTES * PAGE_BYTES;
            let past = end.min(start + PAGE_BYTES);
            let inside = (at - start) as usize..(past - start) as usize;
            let result = self.in_page(shadow.page(start / PAGE_BYTES), inside, tables, last);
            result.map_err(|(byte, other)| self.race(other, space, start + byte as u64))?;
            at = past;
        }
        Ok(())
    }

    /// The access to bytes of a page. `last` is what the word before was and has become: one that
    /// is like it becomes the same. (Operations have many words, lanes have few.) Where one races,
    /// its byte's place in the page comes back.
    #[inline]
    fn in_page(
        &self,
        page: &mut [Cell],
        bytes: Range<usize>,
        tables: &mut Tables,
        last: &mut Option<(Cell, Cell)>,
    ) -> Result<(), (usize, Conflict)> {
        let (mut at, end) = (bytes.start, bytes.end);
        while at < end {
            let (word, past) = (at / 4, end.min(at / 4 * 4 + 4));
            if past - at < 4 {
                *last = None;
                let part = at % 4..past - 4 * word;
                self.part(&mut page[word], part, tables).map_err(|other| (at, other))?;
                at = past;
                continue;
            }
            if let Some(last) = last {
                let alike = tables.replace(&mut page[word..end / 4], last, self.ops);
                at += 4 * alike;
                if alike > 0 {
                    continue;
                }
            }
            let cell = &mut page[word];
            let before = (self.stamp.agent == OP && !cell.is_split()).then_some(*cell);
            self.whole(cell, tables).map_err(|other| (at, other))?;
            *last = before.map(|before| (before, *cell));
            at = past;
        }
        Ok(())
    }

    #[inline]
    fn whole(&self, cell: &mut Cell, tables: &mut Tables) -> Result<(), Conflict> {
        if cell.is_split() {
            return self.whole_of_split(cell, tables);
        }
        self.check(cell, tables)?;
        match self.writes {
            true if self.stamp.flags.has(Flags::STRONG) => {
                tables.write_too(cell, self.stamp, self.ops);
            }
            true => tables.write(cell, self.stamp, self.ops),
            false => tables.read(cell, self.stamp, self.ops, |old| self.replaces(old)),
        }
        Ok(())
    }

    /// Whether this read stands for that one: whoever is ordered after this one is after both.
    #[inline]
    fn replaces(&self, old: &Stamp) -> bool {
        // N.B. An operation's completion says nothing of what came before the operation, so that
        // its read stands for no other.
        if old.time == 0 || old.flags != self.stamp.flags || self.stamp.agent == OP {
            return old.time == 0;
        }
        let is_own = old.agent == self.stamp.agent && old.lanes & !self.stamp.lanes == 0;
        is_own || old.agent != OP && self.seen.warps[old.agent as usize] >= old.time
    }

    #[cold]
    fn whole_of_split(&self, cell: &mut Cell, tables: &mut Tables) -> Result<(), Conflict> {
        self.part(cell, 0..4, tables)?;
        // Behind a strong write the bytes' earlier ones still count.
        if self.writes && !self.stamp.flags.has(Flags::STRONG) {
            tables.write(cell, self.stamp, self.ops);
        }
        Ok(())
    }

    #[cold]
    fn part(
        &self,
        cell: &mut Cell,
        bytes: Range<usize>,
        tables: &mut Tables,
    ) -> Result<(), Conflict> {
        let split = tables.split(cell, self.ops);
        let (mut parts, mut last) = (tables.parts_of(split), None);
        let result = bytes.into_iter().try_for_each(|byte| {
            if let Some(last) = &last
                && tables.replace(&mut parts[byte..=byte], last, self.ops) > 0
            {
                return Ok(());
            }
            let before = parts[byte];
            let result = self.whole(&mut parts[byte], tables);
            last = Some((before, parts[byte]));
            result.map_err(|other| Conflict { byte: Some(byte), ..other })
        });
        tables.put_parts(split, parts);
        result
    }

    #[cold]
    fn race(&self, other: Conflict, space: Space, address: u64) -> Box<Race> {
        let Conflict { stamp, writes, byte } = other;
        let why = self.why(&stamp, writes).unwrap_or(Why::Unordered);
        let address = byte.map_or(address, |byte| address / 4 * 4 + byte as u64);
        let this = Site::new(&self.stamp, self.writes, self.ops);
        let other = Site::new(&stamp, writes, self.ops);
        Box::new(Race { this, other, space, address, why })
    }
}
