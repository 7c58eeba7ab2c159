//! Registers that products in flight still read and write.
//!
//! PTX ISA, `wgmma.fence`, `wgmma.mma_async`, `wgmma.wait_group`: the accumulator and the registers
//! of A belong to an operation until a wait covers it, and need a fence between other accesses to
//! them and the operation; a further operation of the same shape may take the accumulator over
//! without one.

use std::collections::{HashMap, HashSet};
use std::fmt;

/// The registers of one warp, by any number that tells them apart.
#[derive(Clone, Debug, Default)]
pub struct RegisterHazards {
    /// Registers in flight: the operation, and whether it writes them.
    in_flight: HashMap<u32, (u64, bool)>,
    /// Registers accessed since the last fence.
    touched: HashSet<u32>,
    has_fenced: bool,
}

/// A use of registers that the PTX ISA leaves undefined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterHazard {
    /// An access to a register of an operation that no wait covers.
    InFlight {
        /// The register.
        register: u32,
        /// The operation.
        operation: u64,
    },
    /// An operation on a register with no `wgmma.fence` since it was accessed, or with none at all.
    NoFence {
        /// The register.
        register: u32,
    },
}

impl fmt::Display for RegisterHazard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InFlight { .. } => write!(
                f,
                "a register of a wgmma.mma_async for which no wgmma.wait_group has waited"
            ),
            Self::NoFence { .. } => write!(
                f,
                "wgmma.mma_async on a register that was accessed before, with no wgmma.fence \
                 between"
            ),
        }
    }
}

impl std::error::Error for RegisterHazard {}

impl RegisterHazards {
    /// `wgmma.fence`.
    pub fn fence(&mut self) {
        self.touched.clear();
        self.has_fenced = true;
    }

    /// `wgmma.mma_async` number `operation`, with the registers of its accumulator and of A.
    pub fn start(
        &mut self,
        operation: u64,
        accumulator: &[u32],
        a: &[u32],
    ) -> Result<(), RegisterHazard> {
        let registers = || accumulator.iter().chain(a).copied();
        let is_unfenced = |register: &u32| !self.has_fenced || self.touched.contains(register);
        if let Some(register) = registers().find(is_unfenced) {
            return Err(RegisterHazard::NoFence { register });
        }
        if let Some((register, &(operation, _))) =
            a.iter().find_map(|r| Some((*r, self.in_flight.get(r).filter(|(_, w)| *w)?)))
        {
            return Err(RegisterHazard::InFlight { register, operation });
        }
        self.in_flight.extend(a.iter().map(|&register| (register, (operation, false))));
        self.in_flight.extend(accumulator.iter().map(|&register| (register, (operation, true))));
        Ok(())
    }

    /// Any other instruction reads or writes a register that operations use.
    pub fn access(&mut self, register: u32, writes: bool) -> Result<(), RegisterHazard> {
        match self.in_flight.get(&register) {
            Some(&(operation, in_use)) if writes || in_use => {
                Err(RegisterHazard::InFlight { register, operation })
            }
            _ => {
                self.touched.insert(register);
                Ok(())
            }
        }
    }

    /// A wait covers the operations up to number `last`.
    pub fn wait(&mut self, last: u64) {
        self.in_flight.retain(|_, (operation, _)| *operation > last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accumulators_belong_to_operations_until_a_wait() {
        let mut registers = RegisterHazards::default();
        assert_eq!(registers.start(0, &[1, 2], &[]), Err(RegisterHazard::NoFence { register: 1 }));
        registers.fence();
        registers.start(0, &[1, 2], &[9]).unwrap();
        registers.start(1, &[1, 2], &[10]).unwrap();
        let hazard = RegisterHazard::InFlight { register: 2, operation: 1 };
        assert_eq!(registers.access(2, false), Err(hazard));
        registers.wait(0);
        assert_eq!(registers.access(2, false), Err(hazard));
        assert_eq!(registers.access(9, true), Ok(()));
        assert!(registers.access(10, true).is_err());
        assert_eq!(registers.access(10, false), Ok(()));
        registers.wait(1);
        assert_eq!(registers.access(2, true), Ok(()));
        assert_eq!(registers.access(77, true), Ok(()));
    }

    #[test]
    fn registers_need_a_fence_after_other_accesses() {
        let mut registers = RegisterHazards::default();
        registers.fence();
        registers.start(0, &[1], &[]).unwrap();
        registers.wait(0);
        registers.start(1, &[1], &[]).unwrap();
        registers.wait(1);
        registers.access(1, false).unwrap();
        assert_eq!(registers.start(2, &[1], &[]), Err(RegisterHazard::NoFence { register: 1 }));
        registers.fence();
        assert_eq!(registers.start(2, &[1], &[]), Ok(()));
        let hazard = RegisterHazard::InFlight { register: 1, operation: 2 };
        assert_eq!(registers.start(3, &[4], &[1]), Err(hazard));
    }
}
