//! The registers of a block, as `setmaxnreg` moves them between its warpgroups.
//!
//! PTX ISA, "setmaxnreg": all warps of a warpgroup execute the same one; `.dec` gives registers
//! back to the block's pool, `.inc` waits until the pool has enough.

use super::WARPS_OF_GROUP;
use std::fmt;

/// The pool of a block.
#[derive(Clone, Debug)]
pub struct RegisterPool {
    free: u32,
    groups: Vec<Group>,
}

/// A warpgroup, four warps one after the other; the last one of a block may have fewer.
#[derive(Clone, Debug)]
struct Group {
    /// Registers of each thread.
    registers: u32,
    /// Its warps, a bit each.
    all: u32,
    /// What the warps that have come ask for.
    asked: Option<RegisterChange>,
    /// The warps that have come, and those that have not left after the change.
    come: u32,
    leaving: u32,
}

/// What a warpgroup asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterChange {
    /// `setmaxnreg.dec`, to so many registers a thread.
    Decrease(u32),
    /// `setmaxnreg.inc`, to so many registers a thread.
    Increase(u32),
}

/// A use that the PTX ISA forbids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterPoolError {
    /// Not a multiple of 8 from 24 to 256.
    Count(u32),
    /// `.dec` to more, or `.inc` to fewer, than the warp has.
    Direction {
        /// Registers per thread that it has.
        has: u32,
        /// Those it asks for.
        asks: u32,
    },
    /// Warps of one warpgroup ask for different changes.
    Different(RegisterChange, RegisterChange),
}

impl fmt::Display for RegisterPoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => {
                write!(f, "setmaxnreg {count}: not a multiple of 8 from 24 to 256")
            }
            Self::Direction { has, asks } if asks > has => {
                write!(f, "setmaxnreg.dec {asks} in a warp whose threads have {has}")
            }
            Self::Direction { has, asks } => {
                write!(f, "setmaxnreg.inc {asks} in a warp whose threads have {has}")
            }
            Self::Different(one, other) => {
                write!(f, "{one} and {other} by warps of one warpgroup")
            }
        }
    }
}

impl std::error::Error for RegisterPoolError {}

impl fmt::Display for RegisterChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decrease(count) => write!(f, "setmaxnreg.dec {count}"),
            Self::Increase(count) => write!(f, "setmaxnreg.inc {count}"),
        }
    }
}

/// Threads of a warp.
const THREADS: u32 = 32;

impl Group {
    /// Registers of all its threads, for one a thread.
    fn threads(&self) -> u32 {
        self.all.count_ones() * THREADS
    }

    fn check(&self, change: RegisterChange) -> Result<(), RegisterPoolError> {
        let (RegisterChange::Decrease(asks) | RegisterChange::Increase(asks)) = change;
        if !(24..=256).contains(&asks) || !asks.is_multiple_of(8) {
            return Err(RegisterPoolError::Count(asks));
        }
        let has = self.registers;
        let possible = match change {
            RegisterChange::Decrease(_) => asks <= has,
            RegisterChange::Increase(_) => asks >= has,
        };
        if possible { Ok(()) } else { Err(RegisterPoolError::Direction { has, asks }) }
    }
}

impl RegisterPool {
    /// For a block of so many warps, each thread of which starts with `registers`.
    pub fn new(warps: usize, registers: u32) -> Self {
        let group = |first: usize| Group {
            registers,
            all: (1 << WARPS_OF_GROUP.min(warps - first)) - 1,
            asked: None,
            come: 0,
            leaving: 0,
        };
        RegisterPool { free: 0, groups: (0..warps).step_by(WARPS_OF_GROUP).map(group).collect() }
    }

    /// `setmaxnreg`, by all threads of the warp. Returns whether it goes on: if not, its warpgroup
    /// is not complete or the pool has too little, and the warp asks again.
    pub fn change(
        &mut self,
        warp: usize,
        change: RegisterChange,
    ) -> Result<bool, RegisterPoolError> {
        let (group, bit) = (&mut self.groups[warp / WARPS_OF_GROUP], 1 << (warp % WARPS_OF_GROUP));
        if group.leaving & bit != 0 {
            group.leaving &= !bit;
            return Ok(true);
        }
        group.check(change)?;
        match group.asked {
            Some(asked) if asked != change => {
                return Err(RegisterPoolError::Different(asked, change));
            }
            _ => group.asked = Some(change),
        }
        group.come |= bit;
        if group.come != group.all {
            return Ok(false);
        }
        let (RegisterChange::Decrease(count) | RegisterChange::Increase(count)) = change;
        let more = count.saturating_sub(group.registers) * group.threads();
        if more > self.free {
            return Ok(false);
        }
        self.free += group.registers.saturating_sub(count) * group.threads();
        self.free -= more;
        (group.registers, group.asked, group.come) = (count, None, 0);
        group.leaving = group.all & !bit;
        Ok(true)
    }

    /// What a warp waits for.
    pub fn describe(&self, warp: usize) -> String {
        let Group { registers, all, asked, come, .. } = &self.groups[warp / WARPS_OF_GROUP];
        let (missing, free) = ((all & !come).count_ones(), self.free);
        match asked {
            Some(RegisterChange::Increase(count)) if missing == 0 => format!(
                "waits for {} registers to raise its warpgroup's {registers} per thread to \
                 {count}; the block's pool has {free}",
                (count - registers) * self.groups[warp / WARPS_OF_GROUP].threads(),
            ),
            _ => format!("waits for {missing} warps of its warpgroup to execute setmaxnreg"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use RegisterChange::{Decrease, Increase};

    /// The warps of a warpgroup ask, one after the other; says how each goes on.
    fn all(pool: &mut RegisterPool, group: usize, change: RegisterChange) -> Vec<bool> {
        (0..4).map(|warp| pool.change(4 * group + warp, change).unwrap()).collect()
    }

    #[test]
    fn registers_move_from_warpgroup_to_warpgroup() {
        let mut pool = RegisterPool::new(12, 168);
        assert_eq!(all(&mut pool, 1, Increase(232)), [false; 4]);
        let waits = "waits for 8192 registers to raise its warpgroup's 168 per thread to 232; the";
        assert!(pool.describe(4).starts_with(waits));
        assert_eq!(all(&mut pool, 0, Decrease(40)), [false, false, false, true]);
        assert!((0..3).all(|warp| pool.change(warp, Decrease(40)) == Ok(true)));
        assert_eq!(all(&mut pool, 1, Increase(232)), [true; 4]);
        assert_eq!(all(&mut pool, 2, Increase(232)), [false, false, false, true]);
        assert_eq!(all(&mut pool, 1, Increase(240)), [false; 4]);
    }

    #[test]
    fn a_warpgroup_changes_together() {
        let mut pool = RegisterPool::new(8, 168);
        assert_eq!(pool.change(0, Decrease(40)), Ok(false));
        assert_eq!(pool.describe(0), "waits for 3 warps of its warpgroup to execute setmaxnreg");
        let error = RegisterPoolError::Different(Decrease(40), Decrease(48));
        assert_eq!(pool.change(1, Decrease(48)), Err(error));
    }

    #[test]
    fn misuse_is_named() {
        let mut pool = RegisterPool::new(1, 168);
        assert_eq!(pool.change(0, Decrease(41)), Err(RegisterPoolError::Count(41)));
        assert_eq!(pool.change(0, Increase(264)), Err(RegisterPoolError::Count(264)));
        let error = RegisterPoolError::Direction { has: 168, asks: 176 };
        assert_eq!(pool.change(0, Decrease(176)), Err(error));
        let error = RegisterPoolError::Direction { has: 168, asks: 40 };
        assert_eq!(pool.change(0, Increase(40)), Err(error));
    }
}
