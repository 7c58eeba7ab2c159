//! The barrier of a cluster: `barrier.cluster.arrive` and `barrier.cluster.wait`.
//!
//! PTX ISA, "barrier.cluster". A phase ends when all threads of the cluster that have not exited
//! have arrived; each thread arrives, then waits, in turns.

use std::fmt;

/// The state of a cluster's barrier.
#[derive(Clone, Debug)]
pub struct ClusterBarrier {
    phase: u64,
    /// By warp of the cluster.
    warps: Vec<Lanes>,
}

#[derive(Clone, Copy, Debug)]
struct Lanes {
    live: u32,
    /// Those that have arrived in this phase.
    arrived: u32,
    /// Those that have arrived in the phase before and have not waited yet.
    owes_wait: u32,
}

/// A use that the PTX ISA leaves undefined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterBarrierError {
    /// A second arrival without a wait between.
    ArrivesAgain {
        /// The lane.
        lane: u32,
    },
    /// A wait without an arrival before.
    WaitsWithoutArrival {
        /// The lane.
        lane: u32,
    },
}

impl fmt::Display for ClusterBarrierError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ArrivesAgain { lane } => {
                write!(f, "lane {lane} arrives at the cluster's barrier again without a wait")
            }
            Self::WaitsWithoutArrival { lane } => {
                write!(f, "lane {lane} waits at the cluster's barrier without having arrived")
            }
        }
    }
}

impl std::error::Error for ClusterBarrierError {}

impl ClusterBarrier {
    /// For a cluster whose warps have these lanes, one block's after the other's.
    pub fn new(live: &[u32]) -> Self {
        let warps = live.iter().map(|&live| Lanes { live, arrived: 0, owes_wait: 0 });
        ClusterBarrier { phase: 0, warps: warps.collect() }
    }

    /// The phase that runs, from 0.
    pub fn phase(&self) -> u64 {
        self.phase
    }

    /// Lanes of a warp arrive. Returns whether that ends the phase.
    pub fn arrive(&mut self, warp: usize, lanes: u32) -> Result<bool, ClusterBarrierError> {
        let state = &mut self.warps[warp];
        let again = lanes & (state.arrived | state.owes_wait);
        if again != 0 {
            return Err(ClusterBarrierError::ArrivesAgain { lane: again.trailing_zeros() });
        }
        state.arrived |= lanes;
        Ok(self.finish())
    }

    /// Whether the phase is over for all of these lanes, each of which must have arrived.
    pub fn is_over(&self, warp: usize, lanes: u32) -> Result<bool, ClusterBarrierError> {
        let state = &self.warps[warp];
        match lanes & !(state.arrived | state.owes_wait) {
            0 => Ok(lanes & !state.owes_wait == 0),
            missing => {
                let lane = missing.trailing_zeros();
                Err(ClusterBarrierError::WaitsWithoutArrival { lane })
            }
        }
    }

    /// Lanes of a warp wait. Returns those of them that may go on; the others have to wait again
    /// after the phase.
    pub fn wait(&mut self, warp: usize, lanes: u32) -> Result<u32, ClusterBarrierError> {
        let state = &mut self.warps[warp];
        let missing = lanes & !(state.arrived | state.owes_wait);
        if missing != 0 {
            let lane = missing.trailing_zeros();
            return Err(ClusterBarrierError::WaitsWithoutArrival { lane });
        }
        let done = lanes & state.owes_wait;
        state.owes_wait &= !done;
        Ok(done)
    }

    /// Lanes of a warp exit. Returns whether that ends the phase.
    pub fn exit(&mut self, warp: usize, lanes: u32) -> bool {
        let state = &mut self.warps[warp];
        state.live &= !lanes;
        state.arrived &= !lanes;
        state.owes_wait &= !lanes;
        self.warps.iter().any(|warp| warp.arrived != 0) && self.finish()
    }

    fn finish(&mut self) -> bool {
        if self.warps.iter().any(|warp| warp.arrived != warp.live) {
            return false;
        }
        for warp in &mut self.warps {
            warp.owes_wait |= std::mem::take(&mut warp.arrived);
        }
        self.phase += 1;
        true
    }

    /// What those who wait miss.
    pub fn describe(&self) -> String {
        let count = |lanes: fn(&Lanes) -> u32| -> u32 {
            self.warps.iter().map(|warp| lanes(warp).count_ones()).sum()
        };
        let missing = self.warps.iter().enumerate().filter(|(_, w)| w.arrived != w.live);
        let missing: Vec<String> = missing.map(|(warp, _)| warp.to_string()).collect();
        format!(
            "waits at the cluster's barrier, phase {}: {} of {} threads have arrived; missing are \
             warps {} of the cluster",
            self.phase,
            count(|warp| warp.arrived),
            count(|warp| warp.live),
            missing.join(", ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: u32 = u32::MAX;

    #[test]
    fn all_threads_arrive_once_a_phase() {
        let mut barrier = ClusterBarrier::new(&[ALL, ALL]);
        assert_eq!(barrier.arrive(0, ALL), Ok(false));
        assert_eq!(barrier.wait(0, ALL), Ok(0));
        assert!(barrier.describe().contains("32 of 64 threads have arrived; missing are warps 1"));
        assert_eq!(barrier.arrive(1, ALL), Ok(true));
        assert_eq!(barrier.wait(0, ALL), Ok(ALL));
        assert_eq!(barrier.arrive(0, ALL), Ok(false));
        assert_eq!(barrier.wait(0, ALL), Ok(0));
        assert_eq!(barrier.wait(1, ALL), Ok(ALL));
        assert_eq!(barrier.phase(), 1);
    }

    #[test]
    fn threads_that_exit_are_not_waited_for() {
        let mut barrier = ClusterBarrier::new(&[ALL, ALL]);
        barrier.arrive(0, ALL).unwrap();
        assert!(!barrier.exit(1, 0xffff));
        assert!(barrier.exit(1, !0xffff));
        assert_eq!(barrier.wait(0, ALL), Ok(ALL));
        assert!(!barrier.exit(0, ALL));
    }

    #[test]
    fn misuse_is_named() {
        let mut barrier = ClusterBarrier::new(&[ALL, ALL]);
        let error = ClusterBarrierError::WaitsWithoutArrival { lane: 3 };
        assert_eq!(barrier.wait(0, 8), Err(error));
        barrier.arrive(0, 8).unwrap();
        assert_eq!(barrier.arrive(0, 8), Err(ClusterBarrierError::ArrivesAgain { lane: 3 }));
    }
}
