//! Memory for the registers of warps, which goes from one to the next: a kernel's fill some
//! megabytes for a block, and to get them from the system and to clear them took a tenth of short
//! launches.

use super::Lanes;
use crate::program::Function;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What warps have left.
static SPARE: Mutex<Vec<Vec<Lanes>>> = Mutex::new(Vec::new());

/// As many are kept as a cluster of eight blocks has warps.
const MOST: usize = 128;

/// Registers for a warp that enters a function: zeros, but for those that it writes before it reads
/// them.
pub(super) fn for_warp(function: &Function) -> Vec<Lanes> {
    let mut registers = spare().pop().unwrap_or_default();
    registers.truncate(function.registers);
    function.unset.iter().for_each(|slot| {
        if let Some(register) = registers.get_mut(*slot as usize) {
            *register = [0; 32];
        }
    });
    registers.resize(function.registers, [0; 32]);
    registers
}

/// Takes the registers of a warp that needs them no longer.
pub(super) fn give_back(registers: Vec<Lanes>) {
    let mut spare = spare();
    if spare.len() < MOST {
        spare.push(registers);
    }
}

fn spare() -> MutexGuard<'static, Vec<Vec<Lanes>>> {
    SPARE.lock().unwrap_or_else(PoisonError::into_inner)
}
