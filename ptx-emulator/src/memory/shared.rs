//! Shared memory of one block.

use super::SHARED_START;
use crate::check::AllocationNote;
use crate::check::shadow::BlockShadow;
use std::sync::Arc;

/// A variable's name, its first address and its size.
pub(crate) type Region = (String, u64, u64);

/// Words of 4 bytes with a bit for each byte that has been written, and the race checker's memory.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    bytes: u64,
    words: Vec<u32>,
    written: Vec<u8>,
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
            shadow: BlockShadow::new(if check_races { words } else { 0 }),
            regions,
        }
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
