//! Loads and stores of shared memory, and the counts of accesses to memory.

use super::Context;
use super::context::{Lanes, lanes_of};
use super::memory::Access;
use crate::check::shadow::{Race, Reach, Record, Stamp};
use crate::check::{Fault, ReportKind};
use crate::memory::{RANK_SHIFT, own_window};
use crate::order::{Kind, Space};

impl Context<'_> {
    /// The block of the cluster that a shared address is of, and the address there.
    #[inline]
    pub(super) fn home(&self, address: u64) -> Option<(usize, u64)> {
        match address >> RANK_SHIFT {
            0 if self.cluster.blocks.len() == 1 => Some((0, address)),
            0 => None,
            rank => {
                let rank = rank as usize - 1;
                let own = address & ((1 << RANK_SHIFT) - 1);
                (rank < self.cluster.blocks.len()).then_some((rank, own))
            }
        }
    }

    /// Where addresses lie in the block's own shared memory; those of others are beyond it.
    #[inline]
    fn own(&self, addresses: &Lanes) -> Lanes {
        let window = own_window(self.rank, self.cluster.blocks.len());
        addresses.map(|address| address.wrapping_sub(window))
    }

    /// The home of `bytes` bytes at a shared address that is the block's own or, where `cluster`
    /// says so, any block's of the cluster; or the fault that it is not.
    #[inline]
    pub(super) fn shared_home(
        &self,
        lane: usize,
        (address, bytes): (u64, u64),
        cluster: bool,
    ) -> Result<(usize, u64), Box<Fault>> {
        let home = self.home(address);
        if let Some((rank, own)) = home
            && (cluster || rank == self.rank)
            && self.cluster.blocks[rank].shared.contains(own, bytes)
        {
            return Ok((rank, own));
        }
        let what = match home {
            Some((rank, _)) if rank != self.rank && !cluster => {
                "of another block's shared memory, where only the block's own may be accessed"
            }
            None if address >> RANK_SHIFT == 0 => {
                "at an address without its block's number in the cluster"
            }
            _ => "outside the block's shared memory",
        };
        let message = format!("an access of {bytes} bytes {what}");
        let own = address & ((1 << RANK_SHIFT) - 1);
        let note = self.cluster.blocks[self.rank].shared.note(own);
        Err(Fault::of_lane(ReportKind::OutOfBounds, lane, message).at(address).inside(note))
    }

    /// Looks for races of an access to shared memory. `stamp` is of the warp's first lane.
    #[inline]
    pub(super) fn check_shared_race(
        &mut self,
        (rank, address, size): (usize, u64, u32),
        lane: usize,
        stamp: &Stamp,
        writes: bool,
    ) -> Result<(), Box<Fault>> {
        if self.cluster.hopper.order.is_some() {
            return self.order_shared((rank, address, size), lane, stamp, writes);
        }
        let stamp = Stamp { thread: stamp.thread + lane as u32, ..*stamp };
        let shared = &mut self.cluster.blocks[rank].shared;
        match shared.shadow.access(address, size, &stamp, writes) {
            None => Ok(()),
            Some(race) => Err(self.shared_race(race, (rank, address), lane, writes)),
        }
    }

    #[cold]
    fn shared_race(
        &self,
        race: Race,
        (rank, address): (usize, u64),
        lane: usize,
        writes: bool,
    ) -> Box<Fault> {
        let note = self.cluster.blocks[rank].shared.note(address);
        self.race(race, lane, ("shared", address), writes).inside(note)
    }

    /// Whether races in a block's shared memory are looked for.
    #[inline]
    pub(super) fn checks_shared_races(&self) -> bool {
        let block = &self.cluster.blocks[self.rank];
        block.by_barriers && block.shared.shadow.is_on() || self.cluster.hopper.order.is_some()
    }

    /// Counts an access to global memory.
    pub(super) fn count_global(&mut self, addresses: &Lanes) {
        if !self.grid.options.statistics {
            return;
        }
        self.statistics.global_accesses += 1;
        let mut sectors: Vec<u64> = lanes_of(self.mask).map(|lane| addresses[lane] / 32).collect();
        sectors.sort_unstable();
        sectors.dedup();
        self.statistics.global_sectors += sectors.len() as u64;
    }

    /// Counts an access of `bytes` bytes of each lane to shared memory. Lanes have their turn in
    /// groups that access 128 bytes together; in a group, two words of one bank are a conflict.
    pub(super) fn count_shared(&mut self, addresses: &Lanes, bytes: u64) {
        if !self.grid.options.statistics {
            return;
        }
        self.statistics.shared_accesses += 1;
        let group = (128 / bytes.max(4)).min(32) as usize;
        for first in (0..32).step_by(group) {
            let lanes = (first..first + group).filter(|lane| self.mask >> lane & 1 == 1);
            let words = |lane: usize| (0..bytes.div_ceil(4)).map(move |k| addresses[lane] / 4 + k);
            let mut all: Vec<u64> = lanes.flat_map(words).collect();
            all.sort_unstable();
            all.dedup();
            let mut banks = [0u64; 32];
            all.iter().for_each(|word| banks[(word % 32) as usize] += 1);
            let rounds = banks.into_iter().max().unwrap_or(0);
            self.statistics.bank_conflicts += rounds.saturating_sub(1);
        }
    }
}

impl Context<'_> {
    /// Whether an access is a plain one: of words of the block's own memory, where no mbarrier is,
    /// and for Level 2 not a strong one.
    fn is_plain(&self, access: &Access<'_>, own: &Lanes, bytes: u64) -> bool {
        let (hopper, memory) = (&self.cluster.hopper, access.memory);
        let shared = &self.cluster.blocks[self.rank].shared;
        shared.span(own, self.mask, bytes).is_some_and(|span| {
            hopper.order.is_none()
                || memory.reach == Reach::Weak && !hopper.may_have_mbarrier(&span)
        })
    }

    /// What Level 1 remembers of an access by the warp's first lane, if it looks for races.
    fn record(&self, access: &Access<'_>) -> Option<Record> {
        let block = &self.cluster.blocks[self.rank];
        let looks = block.by_barriers && block.shared.shadow.is_on();
        looks.then(|| self.stamp(access.line, access.memory.reach).record())
    }
}

/// The plain case of a load: what is loaded was written, and not raced for. Returns whether that is
/// all there is to do.
fn load_words<const WORDS: usize>(
    c: &mut Context<'_>,
    access: &Access<'_>,
) -> Result<bool, Box<Fault>> {
    let (own, mask, record) = (c.own(&access.addresses), c.mask, c.record(access));
    let bytes = 4 * WORDS as u64;
    let mut out = [[0; 32]; WORDS];
    let plain = c.grid.options.checks
        && c.is_plain(access, &own, bytes)
        && c.block().shared.load_lanes(&own, mask, record, &mut out);
    if !plain {
        return Ok(false);
    }
    c.order_lanes(Space::Shared(c.rank as u32), &own, bytes, (Kind::Read, access.line))?;
    let per_element = usize::from(access.memory.size) / 4;
    for (words, slot) in out.chunks(per_element).zip(access.list) {
        let high = words.get(1).unwrap_or(&[0; 32]);
        let value = |lane: usize| u64::from(words[0][lane]) | u64::from(high[lane]) << 32;
        c.write(*slot, &std::array::from_fn(value));
    }
    c.statistics.shared_loaded += bytes * u64::from(mask.count_ones());
    c.count_shared(&access.addresses, bytes);
    Ok(true)
}

/// As [`load_words`], of a store.
fn store_words<const WORDS: usize>(
    c: &mut Context<'_>,
    access: &Access<'_>,
) -> Result<bool, Box<Fault>> {
    let (own, mask, record) = (c.own(&access.addresses), c.mask, c.record(access));
    let bytes = 4 * WORDS as u64;
    if !c.is_plain(access, &own, bytes) {
        return Ok(false);
    }
    let per_element = usize::from(access.memory.size) / 4;
    let mut values = [[0; 32]; WORDS];
    for (words, slot) in values.chunks_mut(per_element).zip(access.list) {
        let lanes = c.lanes(*slot);
        for (k, word) in words.iter_mut().enumerate() {
            *word = std::array::from_fn(|lane| (lanes[lane] >> (32 * k)) as u32);
        }
    }
    c.order_lanes(Space::Shared(c.rank as u32), &own, bytes, (Kind::Write, access.line))?;
    if !c.block().shared.store_lanes(&own, mask, record, &values) {
        return Ok(false);
    }
    c.statistics.shared_stored += bytes * u64::from(mask.count_ones());
    c.count_shared(&access.addresses, bytes);
    Ok(true)
}

/// Loads elements of 1, 2, 4 or 8 bytes.
pub(super) fn load(c: &mut Context<'_>, access: &Access<'_>) -> Result<(), Box<Fault>> {
    let memory = access.memory;
    let (size, count) = (u32::from(memory.size), usize::from(memory.count));
    let bytes = u64::from(size) * count as u64;
    let plain = match (size >= 4 && !memory.signed, bytes) {
        (true, 4) => load_words::<1>(c, access)?,
        (true, 8) => load_words::<2>(c, access)?,
        (true, 16) => load_words::<4>(c, access)?,
        _ => false,
    };
    if plain {
        return Ok(());
    }
    let (checks, races) = (c.grid.options.checks, c.checks_shared_races());
    let stamp = c.stamp(access.line, memory.reach);
    let mut values = [[0; 32]; 8];
    let (mut unwritten, mut origin) = ([0u32; 8], 0);
    for lane in lanes_of(c.mask) {
        let at = (access.addresses[lane], bytes);
        let (rank, own) = c.shared_home(lane, at, memory.cluster)?;
        for (k, values) in values[..count].iter_mut().enumerate() {
            let address = own + k as u64 * u64::from(size);
            let shared = &c.cluster.blocks[rank].shared;
            let (value, written) = shared.load(address, size);
            values[lane] = value;
            if checks && written.count_ones() != size {
                c.in_flight(lane, rank, address)?;
                unwritten[k] |= 1 << lane;
                origin = address;
            }
            if races {
                c.check_shared_race((rank, address, size), lane, &stamp, false)?;
            }
        }
    }
    for (slot, values) in access.list.iter().zip(&mut values) {
        if memory.signed {
            values.iter_mut().for_each(|value| *value = super::memory::extend(*value, memory));
        }
        c.write(*slot, values);
    }
    for (lanes, slot) in unwritten.iter().zip(access.list).filter(|(lanes, _)| **lanes != 0) {
        c.frame.marks.mark(*slot, *lanes, access.line, origin);
    }
    c.statistics.shared_loaded += bytes * u64::from(c.mask.count_ones());
    c.count_shared(&access.addresses, bytes);
    Ok(())
}

/// Stores elements of 1, 2, 4 or 8 bytes.
pub(super) fn store(c: &mut Context<'_>, access: &Access<'_>) -> Result<(), Box<Fault>> {
    let memory = access.memory;
    let (size, count) = (u32::from(memory.size), usize::from(memory.count));
    let bytes = u64::from(size) * count as u64;
    let plain = match (size >= 4, bytes) {
        (true, 4) => store_words::<1>(c, access)?,
        (true, 8) => store_words::<2>(c, access)?,
        (true, 16) => store_words::<4>(c, access)?,
        _ => false,
    };
    if plain {
        return Ok(());
    }
    let races = c.checks_shared_races();
    let stamp = c.stamp(access.line, memory.reach);
    for lane in lanes_of(c.mask) {
        let at = (access.addresses[lane], bytes);
        let (rank, own) = c.shared_home(lane, at, memory.cluster)?;
        for (k, slot) in access.list[..count].iter().enumerate() {
            let address = own + k as u64 * u64::from(size);
            if races {
                c.check_shared_race((rank, address, size), lane, &stamp, true)?;
            }
            let value = c.lanes(*slot)[lane];
            c.cluster.blocks[rank].shared.store(address, size, value);
        }
    }
    c.statistics.shared_stored += bytes * u64::from(c.mask.count_ones());
    c.count_shared(&access.addresses, bytes);
    Ok(())
}
