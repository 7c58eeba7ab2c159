//! The barriers 0 to 15 of a block: `bar` and `barrier.cta`.
//!
//! PTX ISA, "bar, barrier". Arrivals count threads in whole warps; a block whose last warp is not
//! full counts as if it were. A barrier without a count waits for all threads that have not exited
//! (PTX ISA, "exit").

use std::fmt;

/// Lanes of one warp of the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threads {
    /// The warp's number in its block.
    pub warp: usize,
    /// The lanes that execute the instruction.
    pub lanes: u32,
    /// The lanes of the warp that have not exited.
    pub live: u32,
}

/// What an arrival does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// `.arrive`: goes on at once.
    Arrive,
    /// `.sync`: waits.
    Sync,
    /// `.red`: waits for the votes of all; these are the lanes that vote true.
    Reduce(u32),
}

/// The votes of all threads, for `.red`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reduction {
    /// Threads that voted.
    pub votes: u32,
    /// Threads that voted true: `.popc`.
    pub count: u32,
}

impl Reduction {
    /// `.red.and`.
    pub fn all(self) -> bool {
        self.count == self.votes
    }

    /// `.red.or`.
    pub fn any(self) -> bool {
        self.count > 0
    }
}

/// A use of a barrier that the PTX ISA forbids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedBarrierError {
    /// A thread count that is 0 or no multiple of 32.
    Count(u32),
    /// A thread count other than that of those who wait already.
    Mismatch {
        /// The count of those who came first.
        first: u32,
        /// This one's.
        now: u32,
    },
    /// More threads than the barrier expects.
    TooMany {
        /// Threads with this arrival.
        threads: u32,
        /// Threads that the barrier expects.
        expected: u32,
    },
    /// A thread that has already arrived at this phase of the barrier.
    Again {
        /// Its warp.
        warp: usize,
        /// Its lane.
        lane: u32,
    },
    /// `.red` together with other arrivals.
    Mixed,
}

impl fmt::Display for NamedBarrierError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => {
                write!(f, "a barrier of {count} threads: not a positive multiple of 32")
            }
            Self::Mismatch { first, now } => {
                write!(f, "a barrier of {now} threads, at which others wait for {first}")
            }
            Self::TooMany { threads, expected } => {
                write!(f, "{threads} threads at a barrier of {expected}")
            }
            Self::Again { warp, lane } => {
                write!(f, "lane {lane} of warp {warp} arrives twice in one phase of the barrier")
            }
            Self::Mixed => write!(f, "barrier.red and other arrivals at one barrier"),
        }
    }
}

impl std::error::Error for NamedBarrierError {}

#[derive(Clone, Copy, Debug, Default)]
struct Arrived {
    lanes: u32,
    waiting: u32,
    live: u32,
}

/// One barrier of a block.
#[derive(Clone, Debug, Default)]
pub struct NamedBarrier {
    phase: u64,
    expected: u32,
    /// It waits for all threads of the block.
    of_all: bool,
    warps: Vec<Arrived>,
    reduction: Reduction,
    reduces: bool,
}

/// The end of a phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Released {
    /// The lanes that waited, by warp.
    pub lanes: Vec<(usize, u32)>,
    /// The votes.
    pub reduction: Reduction,
}

impl NamedBarrier {
    /// How many phases are over.
    pub fn phase(&self) -> u64 {
        self.phase
    }

    /// Whether lanes of a warp have arrived at the present phase.
    pub fn has(&self, warp: usize) -> bool {
        self.warps.get(warp).is_some_and(|warp| warp.lanes != 0)
    }

    /// The phase waits for all threads: those that exit without arriving are not waited for.
    pub fn wait_for_all(&mut self) {
        self.of_all = true;
    }

    /// An arrival of some lanes of a warp at the barrier of `expected` threads. Returns who goes on
    /// where it is the last one.
    pub fn arrive(
        &mut self,
        threads: Threads,
        expected: u32,
        arrival: Arrival,
    ) -> Result<Option<Released>, NamedBarrierError> {
        if expected == 0 || !expected.is_multiple_of(32) {
            return Err(NamedBarrierError::Count(expected));
        }
        let reduces = matches!(arrival, Arrival::Reduce(_));
        if self.warps.iter().any(|warp| warp.lanes != 0) {
            if expected != self.expected {
                let first = self.expected;
                return Err(NamedBarrierError::Mismatch { first, now: expected });
            }
            if reduces != self.reduces {
                return Err(NamedBarrierError::Mixed);
            }
        }
        (self.expected, self.reduces) = (expected, reduces);
        let Threads { warp, lanes, live } = threads;
        if self.warps.len() <= warp {
            self.warps.resize(warp + 1, Arrived::default());
        }
        let arrived = &mut self.warps[warp];
        if arrived.lanes & lanes != 0 {
            let lane = (arrived.lanes & lanes).trailing_zeros();
            return Err(NamedBarrierError::Again { warp, lane });
        }
        arrived.lanes |= lanes;
        arrived.live = live;
        if arrival != Arrival::Arrive {
            arrived.waiting |= lanes;
        }
        if let Arrival::Reduce(votes) = arrival {
            self.reduction.votes += lanes.count_ones();
            self.reduction.count += (votes & lanes).count_ones();
        }
        self.finish()
    }

    /// Lanes of a warp exit: the warp counts as a whole with the others alone, and without any of
    /// them not at all.
    pub fn exit(&mut self, warp: usize, live: u32) -> Result<Option<Released>, NamedBarrierError> {
        match self.warps.get_mut(warp) {
            Some(arrived) if arrived.lanes != 0 => arrived.live = live,
            _ if self.of_all && live == 0 => self.expected -= 32,
            _ => return Ok(None),
        }
        self.finish()
    }

    fn threads(&self) -> u32 {
        let count = |warp: &Arrived| match warp.lanes {
            0 => 0,
            lanes if lanes & warp.live == warp.live => 32,
            lanes => lanes.count_ones(),
        };
        self.warps.iter().map(count).sum()
    }

    fn finish(&mut self) -> Result<Option<Released>, NamedBarrierError> {
        let (threads, expected) = (self.threads(), self.expected);
        if threads > expected {
            return Err(NamedBarrierError::TooMany { threads, expected });
        }
        if threads < expected {
            return Ok(None);
        }
        self.phase += 1;
        self.of_all = false;
        let warps = std::mem::take(&mut self.warps);
        let waiting = warps.iter().enumerate().filter(|(_, warp)| warp.waiting != 0);
        let lanes = waiting.map(|(warp, arrived)| (warp, arrived.waiting)).collect();
        Ok(Some(Released { lanes, reduction: std::mem::take(&mut self.reduction) }))
    }

    /// What those who wait miss; `number` is the barrier's.
    pub fn describe(&self, number: u32) -> String {
        let arrived = self.warps.iter().enumerate().filter(|(_, warp)| warp.lanes != 0);
        let warps: Vec<String> = arrived.map(|(warp, _)| warp.to_string()).collect();
        format!(
            "waits at barrier {number}: {} of {} threads have arrived, of warps {}",
            self.threads(),
            self.expected,
            warps.join(", ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warp(warp: usize) -> Threads {
        Threads { warp, lanes: u32::MAX, live: u32::MAX }
    }

    #[test]
    fn the_last_warp_releases_all() {
        let mut barrier = NamedBarrier::default();
        assert_eq!(barrier.arrive(warp(2), 96, Arrival::Sync), Ok(None));
        assert_eq!(barrier.arrive(warp(0), 96, Arrival::Arrive), Ok(None));
        assert_eq!(
            barrier.describe(1),
            "waits at barrier 1: 64 of 96 threads have arrived, of \
             warps 0, 2"
        );
        let released = barrier.arrive(warp(1), 96, Arrival::Sync).unwrap().unwrap();
        assert_eq!(released.lanes, [(1, u32::MAX), (2, u32::MAX)]);
        assert_eq!(barrier.phase(), 1);
        assert_eq!(barrier.arrive(warp(0), 32, Arrival::Sync).unwrap().unwrap().lanes.len(), 1);
    }

    #[test]
    fn a_warp_that_is_not_full_counts_whole() {
        let mut barrier = NamedBarrier::default();
        barrier.arrive(warp(0), 64, Arrival::Sync).unwrap();
        let part = Threads { warp: 1, lanes: 0xff, live: 0xffff };
        assert_eq!(barrier.arrive(part, 64, Arrival::Sync), Ok(None));
        let rest = Threads { lanes: 0xff00, ..part };
        assert!(barrier.arrive(rest, 64, Arrival::Sync).unwrap().is_some());
        barrier.arrive(warp(0), 64, Arrival::Sync).unwrap();
        assert_eq!(barrier.arrive(part, 64, Arrival::Sync), Ok(None));
        assert!(barrier.exit(1, 0xff).unwrap().is_some());
    }

    #[test]
    fn warps_that_exit_are_waited_for_with_a_count_alone() {
        let mut barrier = NamedBarrier::default();
        barrier.arrive(warp(0), 96, Arrival::Sync).unwrap();
        assert_eq!(barrier.exit(1, 0), Ok(None));
        barrier.wait_for_all();
        assert_eq!((barrier.exit(1, 1), barrier.exit(1, 0)), (Ok(None), Ok(None)));
        assert!((barrier.has(0), barrier.has(1)) == (true, false));
        assert_eq!(barrier.exit(2, 0).unwrap().unwrap().lanes, [(0, u32::MAX)]);
        barrier.arrive(warp(0), 64, Arrival::Sync).unwrap();
        assert_eq!(barrier.exit(2, 0), Ok(None));
    }

    #[test]
    fn votes_are_counted() {
        let mut barrier = NamedBarrier::default();
        barrier.arrive(warp(0), 64, Arrival::Reduce(0xf)).unwrap();
        assert_eq!(barrier.arrive(warp(1), 64, Arrival::Sync), Err(NamedBarrierError::Mixed));
        let released = barrier.arrive(warp(1), 64, Arrival::Reduce(1)).unwrap().unwrap();
        assert_eq!(released.reduction, Reduction { votes: 64, count: 5 });
        assert!(released.reduction.any() && !released.reduction.all());
    }

    #[test]
    fn misuse_is_named() {
        let mut barrier = NamedBarrier::default();
        assert_eq!(barrier.arrive(warp(0), 48, Arrival::Sync), Err(NamedBarrierError::Count(48)));
        barrier.arrive(warp(0), 64, Arrival::Arrive).unwrap();
        let mismatch = NamedBarrierError::Mismatch { first: 64, now: 96 };
        assert_eq!(barrier.arrive(warp(1), 96, Arrival::Sync), Err(mismatch));
        let again = NamedBarrierError::Again { warp: 0, lane: 0 };
        assert_eq!(barrier.arrive(warp(0), 64, Arrival::Sync), Err(again));
    }
}
