//! The registers of a block, as `setmaxnreg` moves them between its warps.
//!
//! PTX ISA, "setmaxnreg": `.dec` gives registers back to the block's pool, `.inc` waits until the
//! pool has enough.

use std::fmt;

/// The pool of a block.
#[derive(Clone, Debug)]
pub struct RegisterPool {
    free: u32,
    /// Registers per thread of each warp. (All warps of a warpgroup ask for the same.)
    warps: Vec<u32>,
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
        }
    }
}

impl std::error::Error for RegisterPoolError {}

/// Threads of a warp.
const THREADS: u32 = 32;

impl RegisterPool {
    /// For a block of so many warps, each thread of which starts with `registers`.
    pub fn new(warps: usize, registers: u32) -> Self {
        RegisterPool { free: 0, warps: vec![registers; warps] }
    }

    fn check(count: u32) -> Result<(), RegisterPoolError> {
        match (24..=256).contains(&count) && count.is_multiple_of(8) {
            true => Ok(()),
            false => Err(RegisterPoolError::Count(count)),
        }
    }

    /// `setmaxnreg.dec`, by all threads of the warp.
    pub fn decrease(&mut self, warp: usize, count: u32) -> Result<(), RegisterPoolError> {
        Self::check(count)?;
        let has = &mut self.warps[warp];
        if count > *has {
            return Err(RegisterPoolError::Direction { has: *has, asks: count });
        }
        self.free += (*has - count) * THREADS;
        *has = count;
        Ok(())
    }

    /// `setmaxnreg.inc`, by all threads of the warp. Returns whether the pool had enough: if not,
    /// the warp waits and asks again.
    pub fn increase(&mut self, warp: usize, count: u32) -> Result<bool, RegisterPoolError> {
        Self::check(count)?;
        let has = &mut self.warps[warp];
        if count < *has {
            return Err(RegisterPoolError::Direction { has: *has, asks: count });
        }
        let needed = (count - *has) * THREADS;
        if needed > self.free {
            return Ok(false);
        }
        self.free -= needed;
        *has = count;
        Ok(true)
    }

    /// What a warp that asks for `count` waits for.
    pub fn describe(&self, warp: usize, count: u32) -> String {
        let has = self.warps[warp];
        format!(
            "waits for {} registers to raise its {has} per thread to {count}; the block's pool has \
             {}",
            count.saturating_sub(has) * THREADS,
            self.free
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_move_from_warp_to_warp() {
        let mut pool = RegisterPool::new(12, 168);
        assert_eq!(pool.increase(4, 232), Ok(false));
        let waits = "waits for 2048 registers to raise its 168 per thread to 232; the block's pool";
        assert!(pool.describe(4, 232).starts_with(waits));
        (0..4).for_each(|warp| pool.decrease(warp, 40).unwrap());
        assert!((4..12).all(|warp| pool.increase(warp, 232) == Ok(true)));
        assert_eq!(pool.increase(7, 240), Ok(false));
    }

    #[test]
    fn misuse_is_named() {
        let mut pool = RegisterPool::new(1, 168);
        assert_eq!(pool.decrease(0, 41), Err(RegisterPoolError::Count(41)));
        assert_eq!(pool.increase(0, 264), Err(RegisterPoolError::Count(264)));
        let error = RegisterPoolError::Direction { has: 168, asks: 176 };
        assert_eq!(pool.decrease(0, 176), Err(error));
        let error = RegisterPoolError::Direction { has: 168, asks: 40 };
        assert_eq!(pool.increase(0, 40), Err(error));
    }
}
