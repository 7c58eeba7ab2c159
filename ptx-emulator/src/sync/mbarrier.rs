//! The mbarrier object: phases that end when all arrivals and all expected bytes have come.
//!
//! PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier". Phase `p` ends as
//! soon as the pending count and the transaction count are both 0; the next begins at once with the
//! expected count as its pending count.

use std::fmt;

/// The largest count of arrivals, and of bytes in flight in either direction.
const MOST: i64 = (1 << 20) - 1;

/// A live mbarrier object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mbarrier {
    phase: u64,
    expected: u32,
    pending: u32,
    transactions: i64,
}

/// What an arrive-on returns: the state before it, for a later wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrivalState(u64);

/// What a wait waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// The end of the phase in which a state was returned.
    State(ArrivalState),
    /// The end of the current or the last phase with that parity, 0 or 1.
    Parity(u32),
}

/// A use of an mbarrier that the PTX ISA leaves undefined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MbarrierError {
    /// No object lives at the address.
    NotInitialised,
    /// `mbarrier.init` where an object lives already, without `mbarrier.inval`.
    AlreadyInitialised,
    /// An initial count outside 1 to 2^20 - 1, or an arrival with count 0.
    Count(u32),
    /// More arrivals than the phase still expects.
    TooManyArrivals {
        /// Arrivals of this operation.
        arrivals: u32,
        /// Arrivals that the phase still expected.
        pending: u32,
        /// The phase.
        phase: u64,
    },
    /// The transaction count left -(2^20 - 1) to 2^20 - 1.
    Transactions(i64),
    /// `.noComplete` on the arrival that completes the phase.
    Completes,
    /// A wait for a phase that is neither the current nor the one before it.
    StalePhase {
        /// The phase of the state.
        waited: u64,
        /// The barrier's.
        phase: u64,
    },
    /// A parity other than 0 and 1.
    Parity(u32),
}

impl fmt::Display for MbarrierError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotInitialised => write!(f, "no mbarrier was initialised here"),
            Self::AlreadyInitialised => {
                write!(f, "an mbarrier lives here already: mbarrier.inval must come first")
            }
            Self::Count(count) => write!(f, "a count of {count}; allowed are 1 to 1048575"),
            Self::TooManyArrivals { arrivals, pending, phase } => {
                write!(f, "{arrivals} arrivals in phase {phase}, which expects {pending} more")
            }
            Self::Transactions(bytes) => {
                write!(f, "a transaction count of {bytes}, outside -1048575 to 1048575")
            }
            Self::Completes => write!(f, "an arrival with .noComplete completes the phase"),
            Self::StalePhase { waited, phase } => {
                write!(f, "a wait for phase {waited} while phase {phase} runs")
            }
            Self::Parity(parity) => write!(f, "a phase parity of {parity}; allowed are 0 and 1"),
        }
    }
}

impl std::error::Error for MbarrierError {}

impl ArrivalState {
    /// The bits that the register gets.
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// The state in a register, as [`to_bits`](Self::to_bits) gave it.
    pub fn from_bits(bits: u64) -> Self {
        ArrivalState(bits)
    }

    /// `mbarrier.pending_count`: arrivals that were missing before the arrive-on.
    pub fn pending_count(self) -> u32 {
        (self.0 & MOST as u64) as u32
    }

    fn phase(self) -> u64 {
        self.0 >> 20
    }
}

impl Mbarrier {
    /// `mbarrier.init`: phase 0, in which `count` arrivals are pending.
    pub fn new(count: u32) -> Result<Self, MbarrierError> {
        if count == 0 || i64::from(count) > MOST {
            return Err(MbarrierError::Count(count));
        }
        Ok(Mbarrier { phase: 0, expected: count, pending: count, transactions: 0 })
    }

    /// The phase that runs, from 0.
    pub fn phase(&self) -> u64 {
        self.phase
    }

    /// Arrivals that the phase misses.
    pub fn pending(&self) -> u32 {
        self.pending
    }

    /// Bytes that the phase misses; negative where bytes came before they were expected.
    pub fn transactions(&self) -> i64 {
        self.transactions
    }

    fn state(&self) -> ArrivalState {
        ArrivalState(self.phase << 20 | u64::from(self.pending))
    }

    /// `mbarrier.arrive` with a count. The state is that before the arrival.
    pub fn arrive(&mut self, count: u32) -> Result<ArrivalState, MbarrierError> {
        let state = self.state();
        if count == 0 {
            return Err(MbarrierError::Count(count));
        }
        let Some(left) = self.pending.checked_sub(count) else {
            let Mbarrier { pending, phase, .. } = *self;
            return Err(MbarrierError::TooManyArrivals { arrivals: count, pending, phase });
        };
        self.pending = left;
        self.complete();
        Ok(state)
    }

    /// `mbarrier.arrive.noComplete`.
    pub fn arrive_no_complete(&mut self, count: u32) -> Result<ArrivalState, MbarrierError> {
        match self.pending == count && self.transactions == 0 {
            true => Err(MbarrierError::Completes),
            false => self.arrive(count),
        }
    }

    /// `mbarrier.arrive_drop`: an arrival after which later phases expect as many fewer.
    pub fn arrive_drop(&mut self, count: u32) -> Result<ArrivalState, MbarrierError> {
        if count > self.pending {
            return self.arrive(count);
        }
        self.expected -= count.min(self.expected);
        self.arrive(count)
    }

    /// `mbarrier.arrive.expect_tx`: `expect_tx`, then an arrival.
    pub fn arrive_expect(&mut self, bytes: u32) -> Result<ArrivalState, MbarrierError> {
        let state = self.state();
        self.expect(bytes)?;
        self.arrive(1)?;
        Ok(state)
    }

    /// `mbarrier.expect_tx`: the phase waits for that many more bytes.
    pub fn expect(&mut self, bytes: u32) -> Result<(), MbarrierError> {
        self.add(i64::from(bytes))
    }

    /// `complete_tx`: that many bytes have come.
    pub fn complete_transactions(&mut self, bytes: u32) -> Result<(), MbarrierError> {
        self.add(-i64::from(bytes))?;
        self.complete();
        Ok(())
    }

    /// `cp.async.mbarrier.arrive` without `.noinc` first makes room for its own arrival.
    pub fn add_pending(&mut self) -> Result<(), MbarrierError> {
        if i64::from(self.pending) >= MOST {
            return Err(MbarrierError::Count(self.pending + 1));
        }
        self.pending += 1;
        Ok(())
    }

    fn add(&mut self, bytes: i64) -> Result<(), MbarrierError> {
        let sum = self.transactions + bytes;
        if sum.abs() > MOST {
            return Err(MbarrierError::Transactions(sum));
        }
        self.transactions = sum;
        Ok(())
    }

    fn complete(&mut self) {
        if self.pending == 0 && self.transactions == 0 {
            self.phase += 1;
            self.pending = self.expected;
        }
    }

    /// The number of the phase whose end is waited for; `None` where the barrier's very first phase
    /// is not over and the parity is that of "the phase before it".
    pub fn waited_phase(&self, waited: Waited) -> Result<Option<u64>, MbarrierError> {
        match waited {
            Waited::State(state) if state.phase() == self.phase => Ok(Some(self.phase)),
            Waited::State(state) if state.phase() + 1 == self.phase => Ok(Some(state.phase())),
            Waited::State(state) => {
                Err(MbarrierError::StalePhase { waited: state.phase(), phase: self.phase })
            }
            Waited::Parity(parity) if parity > 1 => Err(MbarrierError::Parity(parity)),
            Waited::Parity(parity) if self.phase & 1 == u64::from(parity) => Ok(Some(self.phase)),
            Waited::Parity(_) => Ok(self.phase.checked_sub(1)),
        }
    }

    /// `mbarrier.test_wait`: whether what is waited for is over.
    pub fn test(&self, waited: Waited) -> Result<bool, MbarrierError> {
        Ok(self.waited_phase(waited)? != Some(self.phase))
    }

    /// What a thread that waits still misses; `address` is the object's in shared memory.
    pub fn describe(&self, address: u32) -> String {
        let Mbarrier { phase, expected, pending, transactions } = self;
        let bytes = match transactions {
            0 => "no transactions missing".to_string(),
            1.. => format!("{transactions} bytes of transactions missing"),
            _ => format!("{} bytes of transactions that nobody expected", -transactions),
        };
        format!(
            "waits for the end of phase {phase} of the mbarrier at shared+{address:#x}: \
             {pending} of {expected} arrivals missing, {bytes}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_ends_when_arrivals_and_bytes_have_come() {
        let mut barrier = Mbarrier::new(1).unwrap();
        assert!(!barrier.test(Waited::Parity(0)).unwrap());
        assert!(barrier.test(Waited::Parity(1)).unwrap());
        barrier.complete_transactions(100).unwrap();
        assert_eq!(barrier.transactions(), -100);
        barrier.arrive_expect(164).unwrap();
        assert!(!barrier.test(Waited::Parity(0)).unwrap());
        assert!(barrier.describe(0x40).contains("phase 0 of the mbarrier at shared+0x40"));
        assert!(barrier.describe(0x40).contains("0 of 1 arrivals missing, 64 bytes"));
        barrier.complete_transactions(64).unwrap();
        assert_eq!(barrier.phase(), 1);
        assert!(barrier.test(Waited::Parity(0)).unwrap());
        assert!(!barrier.test(Waited::Parity(1)).unwrap());
    }

    #[test]
    fn bytes_alone_do_not_end_a_phase() {
        let mut barrier = Mbarrier::new(2).unwrap();
        barrier.arrive(1).unwrap();
        barrier.expect(16).unwrap();
        barrier.complete_transactions(16).unwrap();
        assert_eq!(barrier.phase(), 0);
        barrier.arrive(1).unwrap();
        assert_eq!(barrier.phase(), 1);
    }

    #[test]
    fn states_name_phases() {
        let mut barrier = Mbarrier::new(2).unwrap();
        let first = barrier.arrive(1).unwrap();
        assert_eq!(first.pending_count(), 2);
        assert!(!barrier.test(Waited::State(first)).unwrap());
        let second = ArrivalState::from_bits(barrier.arrive(1).unwrap().to_bits());
        assert_eq!(second.pending_count(), 1);
        assert!(barrier.test(Waited::State(first)).unwrap());
        barrier.arrive(2).unwrap();
        let stale = MbarrierError::StalePhase { waited: 0, phase: 2 };
        assert_eq!(barrier.test(Waited::State(first)), Err(stale));
    }

    #[test]
    fn dropped_arrivals_are_not_expected_again() {
        let mut barrier = Mbarrier::new(3).unwrap();
        barrier.arrive_drop(1).unwrap();
        barrier.arrive(2).unwrap();
        assert_eq!((barrier.phase(), barrier.pending()), (1, 2));
    }

    #[test]
    fn misuse_is_named() {
        assert_eq!(Mbarrier::new(0), Err(MbarrierError::Count(0)));
        assert_eq!(Mbarrier::new(1 << 20), Err(MbarrierError::Count(1 << 20)));
        let mut barrier = Mbarrier::new(1).unwrap();
        let error = barrier.arrive(2).unwrap_err();
        assert!(error.to_string().contains("2 arrivals in phase 0, which expects 1"));
        assert_eq!(barrier.arrive_no_complete(1), Err(MbarrierError::Completes));
        barrier.expect((1 << 20) - 1).unwrap();
        assert_eq!(barrier.expect(1), Err(MbarrierError::Transactions(1 << 20)));
        assert_eq!(barrier.test(Waited::Parity(2)), Err(MbarrierError::Parity(2)));
    }
}
