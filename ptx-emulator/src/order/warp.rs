//! What the lanes of a warp know.

use super::clock::{Clock, lanes_of};
use super::shadow::Stamp;

/// What an agent knows: accesses that come before, and those of them that are fenced for the async
/// proxy.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    pub(super) seen: Clock,
    pub(super) fenced: Clock,
}

impl Known {
    pub(super) fn new(warps: usize) -> Self {
        Known { seen: Clock::new(warps), fenced: Clock::new(warps) }
    }

    pub(super) fn join(&mut self, other: &Known) {
        self.seen.join(&other.seen);
        self.fenced.join(&other.fenced);
    }

    pub(super) fn meet(&mut self, other: &Known) {
        self.seen.meet(&other.seen);
        self.fenced.meet(&other.fenced);
    }
}

/// A warp's clock, and what its lanes know.
#[derive(Debug)]
pub(super) struct Warp {
    /// The rank of its block in the cluster.
    pub(super) block: u32,
    /// Counts the steps that synchronise.
    pub(super) time: u32,
    /// Lanes that have not exited.
    pub(super) live: u32,
    /// What all lanes know.
    pub(super) all: Known,
    /// What some lanes know besides.
    own: Vec<Option<Box<Known>>>,
    /// What a fence of some lanes has made ready for a relaxed write.
    pub(super) released: Vec<(u32, Known)>,
    /// The initialisations of mbarriers: lanes and times.
    pub(super) inits: Vec<(u32, u32)>,
    /// What a relaxed read of some lanes has made ready for a fence.
    pub(super) read: Vec<(u32, Known)>,
}

impl Warp {
    pub(super) fn new(live: u32, block: u32, warps: usize) -> Self {
        Warp {
            block,
            time: 1,
            live,
            all: Known::new(warps),
            own: Vec::new(),
            released: Vec::new(),
            inits: Vec::new(),
            read: Vec::new(),
        }
    }

    fn is_all(&self, lanes: u32) -> bool {
        lanes & self.live == self.live
    }

    fn own(&self, lane: u8) -> Option<&Known> {
        self.own.get(usize::from(lane))?.as_deref()
    }

    fn own_mut(&mut self, lane: u8) -> &mut Known {
        if self.own.is_empty() {
            self.own.resize(32, None);
        }
        let warps = self.all.seen.warps.len();
        self.own[usize::from(lane)].get_or_insert_with(|| Box::new(Known::new(warps)))
    }

    /// Whether each of `lanes` knows that access of a warp, itself number `number`.
    pub(super) fn lanes_see(&self, lanes: u32, other: &Stamp, number: u16) -> bool {
        let sees = |lane: u8, of: u8| {
            let Stamp { agent, time, .. } = *other;
            agent == number && of == lane
                || self.all.seen.covers_lane(agent, of, time)
                || self.own(lane).is_some_and(|own| own.seen.covers_lane(agent, of, time))
        };
        lanes_of(lanes).all(|lane| lanes_of(other.lanes).all(|of| sees(lane, of)))
    }

    /// Whether each of `lanes` knows that the operation is complete.
    pub(super) fn lanes_know_op(&self, lanes: u32, op: u32) -> bool {
        let knows = |lane| self.own(lane).is_some_and(|own| own.seen.has_op(op));
        self.all.seen.has_op(op) || !self.own.is_empty() && lanes_of(lanes).all(knows)
    }

    /// Adds what the lanes know, and what they did, to `to`; they did it before what they do next.
    pub(super) fn publish(&mut self, number: usize, lanes: u32, to: &mut Known) {
        to.join(&self.all);
        for lane in lanes_of(lanes) {
            if let Some(own) = self.own(lane) {
                to.join(own);
            }
        }
        if self.is_all(lanes) {
            to.seen.add_warp(number, self.time);
        } else {
            lanes_of(lanes).for_each(|lane| to.seen.add_lane(number as u16, lane, self.time));
        }
        self.time += 1;
    }

    /// What each of the lanes knows, less what each of them did.
    pub(super) fn common(&self, lanes: u32) -> Known {
        let known = |lane| {
            let mut known = self.all.clone();
            if let Some(own) = self.own(lane) {
                known.join(own);
            }
            known
        };
        if self.own.is_empty() {
            return self.all.clone();
        }
        let mut all = lanes_of(lanes).map(known);
        let mut common = all.next().unwrap_or_default();
        all.for_each(|known| common.meet(&known));
        common
    }

    /// The lanes know what `from` knows.
    pub(super) fn learn(&mut self, lanes: u32, from: &Known) {
        if self.is_all(lanes) {
            self.all.join(from);
        } else {
            lanes_of(lanes).for_each(|lane| self.own_mut(lane).join(from));
        }
    }

    /// The lanes know that an operation is complete.
    pub(super) fn learn_op(&mut self, lanes: u32, op: u32) {
        if self.is_all(lanes) {
            self.all.seen.add_op(op);
        } else {
            lanes_of(lanes).for_each(|lane| self.own_mut(lane).seen.add_op(op));
        }
    }

    /// `bar.warp.sync`: the lanes know what each of them knows and did.
    pub(super) fn synchronise(&mut self, number: usize, lanes: u32) {
        if self.is_all(lanes) && self.own.is_empty() {
            self.all.seen.add_warp(number, self.time);
            self.time += 1;
            return;
        }
        let mut known = Known::new(self.all.seen.warps.len());
        self.publish(number, lanes, &mut known);
        self.learn(lanes, &known);
        if self.is_all(lanes) {
            self.own.clear();
        }
    }

    /// `fence.proxy.async`: what the lanes know and did may be accessed by the async proxy.
    pub(super) fn fence_proxy(&mut self, number: usize, lanes: u32) {
        let (time, is_all) = (self.time, self.is_all(lanes));
        if is_all {
            self.all.fenced.join(&self.all.seen);
            self.all.fenced.add_warp(number, time);
        }
        for lane in lanes_of(lanes) {
            if !is_all || self.own(lane).is_some() {
                let seen = self.all.seen.clone();
                let own = self.own_mut(lane);
                own.fenced.join(&seen);
                own.fenced.join(&own.seen);
                own.fenced.add_lane(number as u16, lane, time);
            }
        }
        self.time += 1;
    }

    /// Visits all clocks.
    pub(super) fn clocks(&mut self, mut visit: impl FnMut(&mut Clock)) {
        let own = self.own.iter_mut().flatten().map(|own| &mut **own);
        let pending = self.released.iter_mut().chain(&mut self.read).map(|(_, known)| known);
        for known in own.chain(pending).chain([&mut self.all]) {
            visit(&mut known.seen);
            visit(&mut known.fenced);
        }
    }
}
