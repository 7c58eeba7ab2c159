//! What is known of other warps and of asynchronous operations.

use super::shadow::{OP, Stamp};

/// For each warp, up to when its accesses are known: those of all lanes, and of some lanes further.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock {
    /// By warp: the accesses of all its lanes up to then.
    pub(super) warps: Vec<u32>,
    /// (warp, lane, time): those of a lane up to then, where that is later.
    lanes: Vec<(u16, u8, u32)>,
    /// Operations whose completion is known, in order.
    ops: Vec<u32>,
    /// (warp, lane, time): those of a lane at that time alone, which is known no further.
    single: Vec<(u16, u8, u32)>,
}

impl Clock {
    pub(super) fn new(warps: usize) -> Self {
        Clock { warps: vec![0; warps], ..Clock::default() }
    }

    /// Knows all that `other` knows.
    pub(super) fn join(&mut self, other: &Clock) {
        if self.warps.len() < other.warps.len() {
            self.warps.resize(other.warps.len(), 0);
        }
        for (time, &further) in self.warps.iter_mut().zip(&other.warps) {
            *time = further.max(*time);
        }
        let warps = &self.warps;
        self.lanes.retain(|&(warp, _, time)| time > warps[warp as usize]);
        self.single.retain(|&(warp, _, time)| time > warps[warp as usize]);
        for &(warp, lane, time) in &other.lanes {
            self.add_lane(warp, lane, time);
        }
        // Those of mbarriers' initialisations go round for long.
        if self.single != other.single {
            for &(warp, lane, time) in &other.single {
                self.add_single(warp, lane, time);
            }
        }
        if self.ops.is_empty() {
            self.ops.extend_from_slice(&other.ops);
        } else if !other.ops.is_empty() {
            for &op in &other.ops {
                self.add_op(op);
            }
        }
    }

    /// For each warp, the latest time that is known of any of its lanes.
    pub(super) fn latest(mut self) -> Vec<u32> {
        for (warp, _, time) in self.lanes {
            let latest = &mut self.warps[usize::from(warp)];
            *latest = time.max(*latest);
        }
        self.warps
    }

    /// Knows only what both know.
    pub(super) fn meet(&mut self, other: &Clock) {
        let both = |&&(warp, lane, time): &&_| {
            self.covers_lane(warp, lane, time) && other.covers_lane(warp, lane, time)
        };
        let single = (self.single != other.single).then(|| -> Vec<(u16, u8, u32)> {
            self.single.iter().chain(&other.single).filter(both).copied().collect()
        });
        let mut lanes = Vec::new();
        let mine = std::mem::take(&mut self.lanes);
        for (a, b) in [(&mine, other), (&other.lanes, &*self)] {
            for &(warp, lane, time) in a {
                lanes.push((warp, lane, time.min(b.lane_time(warp, lane))));
            }
        }
        // What a lane of one is known by in the other only past its own list.
        for &(warp, lane, time) in &mine {
            if let Some(further) = other.lanes.iter().find(|l| (l.0, l.1) == (warp, lane)) {
                lanes.push((warp, lane, time.min(further.2)));
            }
        }
        for (time, &further) in self.warps.iter_mut().zip(&other.warps) {
            *time = further.min(*time);
        }
        for (warp, lane, time) in lanes {
            self.add_lane(warp, lane, time);
        }
        self.ops.retain(|&op| other.has_op(op));
        if let Some(single) = single {
            self.single.clear();
            single.into_iter().for_each(|(warp, lane, time)| self.add_single(warp, lane, time));
        }
    }

    fn lane_time(&self, warp: u16, lane: u8) -> u32 {
        let extra = self.lanes.iter().find(|l| (l.0, l.1) == (warp, lane));
        extra.map_or(self.warps[warp as usize], |l| l.2)
    }

    /// Knows a lane's accesses up to `time`.
    pub(super) fn add_lane(&mut self, warp: u16, lane: u8, time: u32) {
        if self.warps[warp as usize] >= time {
            return;
        }
        match self.lanes.iter_mut().find(|l| (l.0, l.1) == (warp, lane)) {
            Some(known) => known.2 = known.2.max(time),
            None => self.lanes.push((warp, lane, time)),
        }
    }

    /// Knows a lane's accesses at that time, and none before.
    pub(super) fn add_single(&mut self, warp: u16, lane: u8, time: u32) {
        if !self.covers_lane(warp, lane, time) {
            self.single.push((warp, lane, time));
        }
    }

    /// Knows the accesses of all lanes of a warp up to `time`.
    pub(super) fn add_warp(&mut self, warp: usize, time: u32) {
        self.warps[warp] = self.warps[warp].max(time);
        let time = self.warps[warp];
        self.lanes.retain(|l| usize::from(l.0) != warp || l.2 > time);
        self.single.retain(|l| usize::from(l.0) != warp || l.2 > time);
    }

    /// Knows that an operation is complete.
    pub(super) fn add_op(&mut self, op: u32) {
        match self.ops.last() {
            Some(&last) if last >= op => {
                if let Err(at) = self.ops.binary_search(&op) {
                    self.ops.insert(at, op);
                }
            }
            _ => self.ops.push(op),
        }
    }

    pub(super) fn has_op(&self, op: u32) -> bool {
        self.ops.binary_search(&op).is_ok()
    }

    /// Drops operations that no cell remembers.
    pub(super) fn retain_ops(&mut self, lives: impl Fn(u32) -> bool) {
        self.ops.retain(|&op| lives(op));
    }

    /// Whether all that `other` knows of warps is known, but of one.
    pub(super) fn knows_warps(&self, other: &Clock, but: usize) -> bool {
        let pairs = self.warps.iter().zip(&other.warps).enumerate();
        { pairs }.all(|(warp, (known, time))| known >= time || warp == but)
    }

    /// Whether a lane's access is known.
    pub(super) fn covers_lane(&self, warp: u16, lane: u8, time: u32) -> bool {
        self.warps[warp as usize] >= time
            || self.lanes.iter().any(|l| (l.0, l.1) == (warp, lane) && l.2 >= time)
            || self.single.contains(&(warp, lane, time))
    }

    /// Whether the access of all lanes of the stamp is known.
    pub(super) fn covers(&self, stamp: &Stamp) -> bool {
        let Stamp { agent, lanes, time, .. } = *stamp;
        if agent == OP {
            return self.has_op(time);
        }
        self.warps[agent as usize] >= time
            || !(self.lanes.is_empty() && self.single.is_empty())
                && lanes_of(lanes).all(|lane| self.covers_lane(agent, lane, time))
    }
}

/// The numbers of the lanes in a mask.
pub(super) fn lanes_of(mask: u32) -> impl Iterator<Item = u8> {
    (0..32).filter(move |lane| mask >> lane & 1 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_go_further_than_their_warp() {
        let mut clock = Clock::new(2);
        clock.add_lane(1, 3, 5);
        assert!(clock.covers_lane(1, 3, 5) && !clock.covers_lane(1, 3, 6));
        assert!(!clock.covers_lane(1, 4, 1));
        clock.add_warp(1, 5);
        assert!(clock.lanes.is_empty() && clock.covers_lane(1, 4, 5));
        let mut other = Clock::new(2);
        other.add_lane(1, 0, 9);
        other.add_op(7);
        other.add_op(3);
        clock.join(&other);
        assert!(clock.covers_lane(1, 0, 9) && clock.has_op(3) && clock.has_op(7));
    }

    #[test]
    fn a_meeting_knows_what_both_know() {
        let mut a = Clock::new(2);
        a.add_warp(0, 4);
        a.add_lane(1, 2, 6);
        a.add_op(1);
        a.add_op(2);
        let mut b = Clock::new(2);
        b.add_warp(0, 3);
        b.add_warp(1, 5);
        b.add_lane(1, 2, 8);
        b.add_op(2);
        a.meet(&b);
        assert!(a.covers_lane(0, 0, 3) && !a.covers_lane(0, 0, 4));
        assert!(a.covers_lane(1, 2, 6) && !a.covers_lane(1, 2, 7));
        assert!(!a.covers_lane(1, 1, 5));
        assert!(a.has_op(2) && !a.has_op(1));
    }
}
