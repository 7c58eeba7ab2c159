//! Shared memory of one block.

use super::SHARED_START;
use crate::check::AllocationNote;
use crate::check::shadow::{BlockShadow, Record, THREAD_SHIFT};
use std::ops::Range;
use std::sync::Arc;

/// A variable's name, its first address and its size.
pub(crate) type Region = (String, u64, u64);

/// Words of 4 bytes with a bit for each byte that has been written, and the race checker's memory.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    bytes: u64,
    words: Vec<u32>,
    written: Vec<u8>,
    /// Asynchronous copies of threads that are under way to each 16 bytes; empty before the first.
    awaited: Vec<u32>,
    /// Who touched what since the last barrier; empty when races aren't looked for.
    pub shadow: BlockShadow,
    /// The variables, for reports.
    regions: Arc<[Region]>,
}

impl SharedMemory {
    /// `end` is the first address after the last variable.
    pub fn new(end: u64, regions: Arc<[Region]>, check_races: bool) -> SharedMemory {
        let words = end.div_ceil(4) as usize;
        SharedMemory {
            bytes: end,
            words: vec![0; words],
            written: vec![0; words],
            awaited: Vec::new(),
            shadow: BlockShadow::new(if check_races { words } else { 0 }),
            regions,
        }
    }

    /// A copy of up to 16 bytes, to a multiple of their number, is under way from here on: they
    /// count as unwritten.
    pub fn begin_copy(&mut self, address: u64, bytes: u64) {
        self.poison(address, bytes);
        if self.awaited.is_empty() {
            self.awaited = vec![0; self.bytes.div_ceil(16) as usize];
        }
        self.awaited[(address / 16) as usize] += 1;
    }

    /// Such a copy is complete.
    pub fn end_copy(&mut self, address: u64) {
        self.awaited[(address / 16) as usize] -= 1;
    }

    /// Whether a copy to one of the 16 bytes around an address is under way.
    pub fn is_awaited(&self, address: u64) -> bool {
        self.awaited.get((address / 16) as usize).is_some_and(|copies| *copies > 0)
    }

    /// Whether all of `size` bytes at an address are the block's to use.
    #[inline]
    pub fn contains(&self, address: u64, size: u64) -> bool {
        address >= SHARED_START && address.checked_add(size).is_some_and(|end| end <= self.bytes)
    }

    /// The value and the written bytes of `size` (1, 2, 4 or 8) bytes at a multiple of it.
    #[inline]
    pub fn load(&self, address: u64, size: u32) -> (u64, u8) {
        let word = (address / 4) as usize;
        match size {
            4 => (self.words[word].into(), self.written[word]),
            8 => {
                let value = u64::from(self.words[word + 1]) << 32 | u64::from(self.words[word]);
                (value, self.written[word + 1] << 4 | self.written[word])
            }
            _ => {
                let byte = address as u32 % 4;
                let value = u64::from(self.words[word] >> (8 * byte)) & ((1 << (8 * size)) - 1);
                (value, self.written[word] >> byte & ((1 << size) - 1))
            }
        }
    }

    /// Writes `size` (1, 2, 4 or 8) bytes at a multiple of it.
    #[inline]
    pub fn store(&mut self, address: u64, size: u32, value: u64) {
        let word = (address / 4) as usize;
        match size {
            4 => {
                self.words[word] = value as u32;
                self.written[word] = 0xf;
            }
            8 => {
                self.words[word] = value as u32;
                self.words[word + 1] = (value >> 32) as u32;
                self.written[word] = 0xf;
                self.written[word + 1] = 0xf;
            }
            _ => {
                let byte = address as u32 % 4;
                let bits = ((1u32 << (8 * size)) - 1) << (8 * byte);
                let value = (value as u32) << (8 * byte);
                self.words[word] = (self.words[word] & !bits) | (value & bits);
                self.written[word] |= ((1 << size) - 1) << byte;
            }
        }
    }

    /// From the first to the last of the `size` bytes at the addresses of the lanes of `mask`, if
    /// all are the block's to use and no lane's address is that of another block.
    #[inline]
    pub fn span(&self, addresses: &[u64; 32], mask: u32, size: u64) -> Option<Range<u64>> {
        let (mut lowest, mut highest) = (u64::MAX, 0);
        for (lane, address) in addresses.iter().enumerate() {
            let active = mask >> lane & 1 == 1;
            lowest = lowest.min(if active { *address } else { u64::MAX });
            highest = highest.max(if active { *address } else { 0 });
        }
        let end = highest.saturating_add(size);
        (lowest >= SHARED_START && end <= self.bytes).then_some(lowest..end)
    }

    /// Loads words of the lanes of `mask`, all of them inside and aligned. `record` is of the
    /// warp's first lane, if races are looked for. Returns whether all were written and none races;
    /// where not, who asks must ask again lane by lane.
    #[inline]
    pub fn load_lanes<const WORDS: usize>(
        &mut self,
        addresses: &[u64; 32],
        mask: u32,
        record: Option<Record>,
        out: &mut [[u32; 32]; WORDS],
    ) -> bool {
        let (mut written, mut ordered) = (0xf, true);
        let (mut last, mut repeats) = (usize::MAX, 0);
        for lane in 0..32 {
            if mask >> lane & 1 == 0 {
                continue;
            }
            let first = (addresses[lane] / 4) as usize;
            let words = &self.words[first..first + WORDS];
            let flags = &self.written[first..first + WORDS];
            for k in 0..WORDS {
                out[k][lane] = words[k];
                written &= flags[k];
            }
            repeats = if first == last { repeats + 1 } else { 0 };
            last = first;
            // The third lane of one warp that reads a word adds nothing to what is known.
            if let Some(record) = record
                && repeats < 2
            {
                let record = record + ((lane as u64) << THREAD_SHIFT);
                for k in 0..WORDS {
                    ordered &= self.shadow.word_access(first + k, record, false);
                }
            }
        }
        written == 0xf && ordered
    }

    /// Stores words of the lanes of `mask`; as [`SharedMemory::load_lanes`].
    #[inline]
    pub fn store_lanes<const WORDS: usize>(
        &mut self,
        addresses: &[u64; 32],
        mask: u32,
        record: Option<Record>,
        values: &[[u32; 32]; WORDS],
    ) -> bool {
        for lane in 0..32 {
            if mask >> lane & 1 == 0 {
                continue;
            }
            let first = (addresses[lane] / 4) as usize;
            if let Some(record) = record {
                let record = record + ((lane as u64) << THREAD_SHIFT);
                for k in 0..WORDS {
                    if !self.shadow.word_access(first + k, record, true) {
                        return false;
                    }
                }
            }
            for (k, values) in values.iter().enumerate() {
                self.words[first + k] = values[lane];
                self.written[first + k] = 0xf;
            }
        }
        true
    }

    /// Makes bytes unwritten again: something will write them, nobody knows when.
    pub fn poison(&mut self, address: u64, size: u64) {
        for byte in address..address + size {
            self.written[(byte / 4) as usize] &= !(1 << (byte % 4));
        }
    }

    /// What a report says of an address: the variable that has it, or the one before.
    pub fn note(&self, address: u64) -> Option<AllocationNote> {
        let before = self.regions.iter().filter(|region| region.1 <= address);
        let nearest = before.max_by_key(|region| region.1).or(self.regions.first());
        nearest.map(|(name, base, bytes)| AllocationNote {
            base: *base,
            bytes: *bytes,
            offset: address.wrapping_sub(*base) as i64,
            name: Some(name.clone()),
        })
    }
}
