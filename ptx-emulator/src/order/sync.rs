//! What releases and acquires: barriers, locations, fences.

use super::clock::{Clock, lanes_of};
use super::warp::Known;
use super::{Order, Space};

/// An object by which threads synchronise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SyncObject {
    /// A barrier 0 to 15 of a block.
    Barrier {
        /// The block's rank in its cluster.
        block: u32,
        /// The barrier's number.
        number: u32,
    },
    /// An mbarrier.
    Mbarrier {
        /// The rank of the block in whose shared memory it lies.
        block: u32,
        /// Its offset there.
        offset: u32,
    },
    /// The cluster's barrier.
    Cluster,
    /// A location that strong operations access.
    Location(Space, u64),
}

/// What was released into an object in its last two phases.
#[derive(Debug, Default)]
pub(super) struct Slots([Option<(u64, Known)>; 2]);

impl Slots {
    pub(super) fn clocks(&mut self, mut visit: impl FnMut(&mut Clock)) {
        for (_, known) in self.0.iter_mut().flatten() {
            visit(&mut known.seen);
            visit(&mut known.fenced);
        }
    }
}

/// Adds what lanes know to a list, in which the same lanes are once, however often they ask.
fn join(list: &mut Vec<(u32, Known)>, lanes: u32, known: &Known) {
    match list.iter_mut().find(|(of, _)| *of == lanes) {
        Some((_, all)) => all.join(known),
        None => list.push((lanes, known.clone())),
    }
}

impl Order {
    /// What was released into the object in that phase, which may be a new one.
    pub(super) fn slot(&mut self, object: SyncObject, phase: u64) -> &mut Known {
        let warps = self.warps.len();
        let slot = &mut self.slots.entry(object).or_default().0[(phase & 1) as usize];
        if slot.as_ref().is_none_or(|(old, _)| *old != phase) {
            *slot = None;
        }
        &mut slot.get_or_insert_with(|| (phase, Known::new(warps))).1
    }

    /// Lanes of a warp arrive at an object, or write to it with release semantics: whoever acquires
    /// from its phase knows what they know and did.
    pub fn release(&mut self, warp: usize, lanes: u32, object: SyncObject, phase: u64) {
        let mut slot = std::mem::take(self.slot(object, phase));
        self.warps[warp].publish(warp, lanes, &mut slot);
        *self.slot(object, phase) = slot;
    }

    /// A release to whoever acquires, and does not have this clock: for each warp the time up to
    /// which the lanes know its accesses, or one of its lanes'; of their own warp all so far.
    pub fn release_to_all(&mut self, warp: usize, lanes: u32) -> Vec<u32> {
        let mut known = Known::new(self.warps.len());
        let time = self.warps[warp].time;
        self.warps[warp].publish(warp, lanes, &mut known);
        known.seen.add_warp(warp, time);
        known.seen.latest()
    }

    /// An arrival with `.relaxed`: what comes before the lanes' last fence is released, nothing
    /// else.
    pub fn release_fenced(&mut self, warp: usize, lanes: u32, object: SyncObject, phase: u64) {
        let mut slot = std::mem::take(self.slot(object, phase));
        for (of, known) in &self.warps[warp].released {
            if of & lanes != 0 {
                slot.join(known);
            }
        }
        *self.slot(object, phase) = slot;
    }

    /// Whether a warp comes after that phase of the object: it knows what was released in it.
    pub fn is_after(&self, warp: usize, lanes: u32, object: SyncObject, phase: u64) -> bool {
        let slot = self.slots.get(&object).and_then(|slots| slots.0[(phase & 1) as usize].as_ref());
        let Some((_, known)) = slot.filter(|(of, _)| *of == phase) else { return true };
        self.warps[warp].common(lanes).seen.knows_warps(&known.seen, warp)
    }

    /// Lanes of a warp have waited for a phase of the object, or read it with acquire semantics.
    pub fn acquire(&mut self, warp: usize, lanes: u32, object: SyncObject, phase: u64) {
        let Some(slots) = self.slots.get(&object) else { return };
        if let Some((of, known)) = &slots.0[(phase & 1) as usize]
            && *of == phase
        {
            self.warps[warp].learn(lanes, known);
        }
    }

    /// A relaxed read of the object: it acquires with the lanes' next fence.
    pub fn acquire_with_fence(&mut self, warp: usize, lanes: u32, object: SyncObject, phase: u64) {
        let Some(slots) = self.slots.get(&object) else { return };
        if let Some((of, known)) = &slots.0[(phase & 1) as usize]
            && *of == phase
        {
            join(&mut self.warps[warp].read, lanes, known);
        }
    }

    /// A fence of some lanes, `fence.acq_rel` or stronger, or `membar`: relaxed writes after it
    /// release what comes before it, and what relaxed reads before it have seen is acquired.
    pub fn fence(&mut self, warp: usize, lanes: u32) {
        let state = &mut self.warps[warp];
        for (of, known) in std::mem::take(&mut state.read) {
            if of & lanes != 0 {
                state.learn(of & lanes, &known);
            }
            if of & !lanes != 0 {
                state.read.push((of & !lanes, known));
            }
        }
        let mut known = Known::new(state.all.seen.warps.len());
        state.publish(warp, lanes, &mut known);
        state.released.iter_mut().for_each(|(of, _)| *of &= !lanes);
        state.released.retain(|(of, _)| *of != 0);
        state.released.push((lanes, known));
    }

    /// Lanes are about to initialise an mbarrier; they do so at a time of its own.
    pub fn begin_init(&mut self, warp: usize, lanes: u32) {
        let state = &mut self.warps[warp];
        state.time += 1;
        state.inits.push((lanes, state.time));
    }

    /// They have.
    pub fn end_init(&mut self, warp: usize) {
        self.warps[warp].time += 1;
    }

    /// `fence.mbarrier_init`: relaxed arrivals after it release the lanes' initialisations alone.
    pub fn fence_inits(&mut self, warp: usize, lanes: u32) {
        let state = &mut self.warps[warp];
        let mut known = Known::new(state.all.seen.warps.len());
        for &(of, time) in &state.inits {
            for lane in lanes_of(of & lanes) {
                known.seen.add_single(warp as u16, lane, time);
            }
        }
        join(&mut state.released, lanes, &known);
    }

    /// `fence.proxy.async` by some lanes.
    pub fn fence_proxy(&mut self, warp: usize, lanes: u32) {
        self.warps[warp].fence_proxy(warp, lanes);
    }

    /// `bar.warp.sync` of some lanes.
    pub fn warp_sync(&mut self, warp: usize, lanes: u32) {
        self.warps[warp].synchronise(warp, lanes);
    }

    /// Lanes of a warp exit.
    pub fn exit(&mut self, warp: usize, lanes: u32) {
        self.warps[warp].live &= !lanes;
    }

    /// The object is no more; another may come to its place.
    pub fn remove(&mut self, object: SyncObject) {
        self.slots.remove(&object);
    }
}
