//! Loads and stores of global memory, and its races.

use super::Context;
use super::context::lanes_of;
use super::memory::{Access, extend, need_writable};
use crate::check::Fault;
use crate::check::shadow::{Reach, Stamp};
use crate::memory::{Allocation, uninitialized};

impl Context<'_> {
    /// Looks for races of a lane's access to global memory. `stamp` is of the warp's first lane.
    #[inline]
    pub(super) fn check_global_race(
        &mut self,
        allocation: &Allocation,
        place: (u64, u32),
        lane: usize,
        stamp: &Stamp,
        writes: bool,
    ) -> Result<(), Box<Fault>> {
        let stamp = match self.cluster.hopper.order.is_some() {
            true => self.order_global(place, lane, stamp, writes)?,
            false => Stamp { thread: stamp.thread + lane as u32, ..*stamp },
        };
        self.check_blocks_race(allocation, place, lane, &stamp, writes)
    }

    /// The part of Level 1, for which all of a cluster may count as one thread.
    #[inline]
    pub(super) fn check_blocks_race(
        &self,
        allocation: &Allocation,
        (address, bytes): (u64, u32),
        lane: usize,
        stamp: &Stamp,
        writes: bool,
    ) -> Result<(), Box<Fault>> {
        let offset = address - allocation.base;
        match allocation.race(offset, bytes, (stamp, self.fences()), writes) {
            None => Ok(()),
            Some((offset, race)) => {
                let address = allocation.base + offset;
                let fault = self.race(race, lane, ("global", address), writes);
                Err(fault.inside(Some(allocation.note(address))))
            }
        }
    }

    /// Looks for races of a warp's access to global memory, all of which allocations have.
    fn check_global_races(
        &mut self,
        access: &Access<'_>,
        bytes: u32,
        writes: bool,
    ) -> Result<(), Box<Fault>> {
        let Access { addresses, memory, line, .. } = access;
        let stamp = self.stamp(*line, memory.reach);
        let of_cluster = match self.cluster.hopper.order.is_some() && memory.reach == Reach::Weak {
            true => Some(self.order_global_lanes(addresses, bytes, &stamp, writes)?),
            false => None,
        };
        let mut allocation: Option<&Allocation> = None;
        for lane in lanes_of(self.mask) {
            let place = (addresses[lane], bytes);
            let inside = |a: &&Allocation| a.has(place.0, bytes.into());
            let found = allocation.filter(inside);
            let found = found.or_else(|| self.grid.memory.find(place.0, bytes.into()));
            allocation = found;
            let Some(found) = found.filter(|found| !found.read_only) else { continue };
            match of_cluster {
                Some(stamp) => self.check_blocks_race(found, place, lane, &stamp, writes)?,
                None => self.check_global_race(found, place, lane, &stamp, writes)?,
            }
        }
        Ok(())
    }

    /// Whether races in global memory are looked for.
    pub(super) fn checks_global_races(&self) -> bool {
        let block = &self.cluster.blocks[self.rank];
        let ordered = block.by_barriers || self.cluster.hopper.order.is_some();
        self.grid.options.checks && ordered
    }
}

/// Loads elements.
pub(super) fn load(c: &mut Context<'_>, access: &Access<'_>) -> Result<(), Box<Fault>> {
    let memory = access.memory;
    let (size, count) = (u32::from(memory.size), usize::from(memory.count));
    let bytes = u64::from(size) * count as u64;
    let checks = c.grid.options.checks;
    let mut values = [[0; 32]; 8];
    let mut allocation: Option<&Allocation> = None;
    let mut writable = false;
    for lane in lanes_of(c.mask) {
        let address = access.addresses[lane];
        let inside = |a: &&Allocation| a.has(address, bytes);
        let found = allocation.filter(inside).or_else(|| c.grid.memory.find(address, bytes));
        let Some(found) = found else {
            return Err(c.stray(lane, address, bytes));
        };
        allocation = Some(found);
        writable |= !found.read_only;
        for (k, values) in values[..count].iter_mut().enumerate() {
            let address = address + k as u64 * u64::from(size);
            let (value, written) = found.load(address - found.base, size);
            values[lane] = extend(value, memory);
            if checks && written.count_ones() != size {
                let note = Some(found.note(address));
                return Err(uninitialized(lane, "global memory", address, note));
            }
        }
    }
    if writable && c.checks_global_races() {
        c.check_global_races(access, bytes as u32, false)?;
    }
    for (slot, values) in access.list.iter().zip(&values) {
        c.write(*slot, values);
    }
    c.statistics.global_loaded += bytes * u64::from(c.mask.count_ones());
    c.count_global(&access.addresses);
    Ok(())
}

/// Stores elements.
pub(super) fn store(c: &mut Context<'_>, access: &Access<'_>) -> Result<(), Box<Fault>> {
    let memory = access.memory;
    let (size, count) = (u32::from(memory.size), usize::from(memory.count));
    let bytes = u64::from(size) * count as u64;
    let mut found = [None; 32];
    let mut allocation: Option<&Allocation> = None;
    for lane in lanes_of(c.mask) {
        let address = access.addresses[lane];
        let inside = |a: &&Allocation| a.has(address, bytes);
        allocation = allocation.filter(inside).or_else(|| c.grid.memory.find(address, bytes));
        let Some(allocation) = allocation else {
            return Err(c.stray(lane, address, bytes));
        };
        need_writable(allocation, lane, address)?;
        found[lane] = Some(allocation);
    }
    if c.checks_global_races() {
        c.check_global_races(access, bytes as u32, true)?;
    }
    for (lane, found) in found.iter().enumerate() {
        let Some(found) = found else { continue };
        let offset = access.addresses[lane] - found.base;
        for (k, slot) in access.list[..count].iter().enumerate() {
            found.store(offset + k as u64 * u64::from(size), size, c.lanes(*slot)[lane]);
        }
    }
    c.statistics.global_stored += bytes * u64::from(c.mask.count_ones());
    c.count_global(&access.addresses);
    Ok(())
}
