//! Registers that products in flight still read and write.
//!
//! PTX ISA, `wgmma.fence`, `wgmma.mma_async`, `wgmma.wait_group`: the accumulator and the registers
//! of A belong to an operation until a wait covers it, and need a fence between other accesses to
//! them and the operation; a further operation of the same shape may take the accumulator over
//! without one.

use rustc_hash::{FxHashMap, FxHashSet};
use std::fmt;

/// The registers of one warp, by any number that tells them apart.
#[derive(Clone, Debug, Default)]
pub struct RegisterHazards {
    /// Registers in flight.
    in_flight: FxHashMap<u32, Use>,
    /// Registers accessed since the last fence.
    touched: FxHashSet<u32>,
    /// Fences so far.
    fences: u64,
}

/// The use of a register by an operation in flight.
#[derive(Clone, Copy, Debug)]
struct Use {
    operation: u64,
    /// N and K of what accumulates in it; `None`: it is one of A's.
    accumulates: Option<(usize, usize)>,
    /// How many fences came before.
    fences: u64,
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
        self.fences += 1;
    }

    /// `wgmma.mma_async` number `operation`, its N and K, and the registers of its accumulator and
    /// of A.
    pub fn start(
        &mut self,
        operation: u64,
        shape: (usize, usize),
        accumulator: &[u32],
        a: &[u32],
    ) -> Result<(), RegisterHazard> {
        let registers = || accumulator.iter().chain(a).copied();
        let is_unfenced = |register: &u32| self.fences == 0 || self.touched.contains(register);
        if let Some(register) = registers().find(is_unfenced) {
            return Err(RegisterHazard::NoFence { register });
        }
        let in_flight = |register: &u32| Some((*register, *self.in_flight.get(register)?));
        for (register, Use { operation, accumulates, .. }) in a.iter().filter_map(in_flight) {
            if accumulates.is_some() {
                return Err(RegisterHazard::InFlight { register, operation });
            }
        }
        for (register, other) in accumulator.iter().filter_map(in_flight) {
            let Use { operation, accumulates, fences } = other;
            match accumulates {
                None => return Err(RegisterHazard::InFlight { register, operation }),
                Some(of) if of != shape && fences == self.fences => {
                    return Err(RegisterHazard::NoFence { register });
                }
                _ => {}
            }
        }
        let new = |accumulates| Use { operation, accumulates, fences: self.fences };
        let (of_a, of_accumulator) = (new(None), new(Some(shape)));
        self.in_flight.extend(a.iter().map(|&register| (register, of_a)));
        self.in_flight.extend(accumulator.iter().map(|&register| (register, of_accumulator)));
        Ok(())
    }

    /// Any other instruction reads or writes a register that operations use.
    pub fn access(&mut self, register: u32) -> Result<(), RegisterHazard> {
        if let Some(&Use { operation, .. }) = self.in_flight.get(&register) {
            return Err(RegisterHazard::InFlight { register, operation });
        }
        self.touched.insert(register);
        Ok(())
    }

    /// A wait covers the operations up to number `last`.
    pub fn wait(&mut self, last: u64) {
        self.in_flight.retain(|_, of| of.operation > last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: (usize, usize) = (8, 16);

    #[test]
    fn accumulators_belong_to_operations_until_a_wait() {
        let mut registers = RegisterHazards::default();
        assert_eq!(
            registers.start(0, SHAPE, &[1, 2], &[]),
            Err(RegisterHazard::NoFence { register: 1 })
        );
        registers.fence();
        registers.start(0, SHAPE, &[1, 2], &[9]).unwrap();
        registers.start(1, SHAPE, &[1, 2], &[10]).unwrap();
        let hazard = RegisterHazard::InFlight { register: 2, operation: 1 };
        assert_eq!(registers.access(2), Err(hazard));
        registers.wait(0);
        assert_eq!(registers.access(2), Err(hazard));
        assert_eq!(registers.access(9), Ok(()));
        assert!(registers.access(10).is_err());
        registers.wait(1);
        assert_eq!(registers.access(2), Ok(()));
        assert_eq!(registers.access(77), Ok(()));
    }

    #[test]
    fn registers_need_a_fence_after_other_accesses() {
        let mut registers = RegisterHazards::default();
        registers.fence();
        registers.start(0, SHAPE, &[1], &[]).unwrap();
        registers.wait(0);
        registers.start(1, SHAPE, &[1], &[]).unwrap();
        registers.wait(1);
        registers.access(1).unwrap();
        assert_eq!(
            registers.start(2, SHAPE, &[1], &[]),
            Err(RegisterHazard::NoFence { register: 1 })
        );
        registers.fence();
        assert_eq!(registers.start(2, SHAPE, &[1], &[]), Ok(()));
        let hazard = RegisterHazard::InFlight { register: 1, operation: 2 };
        assert_eq!(registers.start(3, SHAPE, &[4], &[1]), Err(hazard));
    }

    #[test]
    fn products_take_over_accumulators_of_their_shape_alone() {
        let mut registers = RegisterHazards::default();
        registers.fence();
        registers.start(0, SHAPE, &[1], &[9]).unwrap();
        let hazard = RegisterHazard::InFlight { register: 9, operation: 0 };
        assert_eq!(registers.start(1, SHAPE, &[9], &[]), Err(hazard));
        let other = (16, 16);
        assert_eq!(
            registers.start(1, other, &[1], &[]),
            Err(RegisterHazard::NoFence { register: 1 })
        );
        registers.fence();
        assert_eq!(registers.start(1, other, &[1], &[]), Ok(()));
    }
}
