//! Global memory: allocations far apart, in pages that appear when they are written.
//!
//! Pages hold atomics because blocks run on several threads of the CPU; where two blocks touch one
//! word without order, that is the emulated program's race, and the result is any of the values.

use super::UNWRITTEN;
use crate::check::AllocationNote;
use crate::check::shadow::{Fences, PageShadow, Race, Stamp};
use crate::error::Error;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

/// Words of 4 bytes of a page.
pub(crate) const PAGE_WORDS: usize = 1024;
const PAGE_BYTES: u64 = 4 * PAGE_WORDS as u64;
/// The least distance between two allocations.
const GUARD_BYTES: u64 = 4096;
/// The first address of all.
const FIRST: u64 = 0x7f00_0000_0000;

/// Words of a page with a bit for each byte that has been written.
#[derive(Debug)]
pub(crate) struct Page {
    words: [AtomicU32; PAGE_WORDS],
    written: [AtomicU8; PAGE_WORDS],
}

impl Page {
    /// Zeros, which count as written where `written` is all ones.
    fn new(written: u8) -> Box<Page> {
        Box::new(Page {
            words: [const { AtomicU32::new(0) }; PAGE_WORDS],
            written: std::array::from_fn(|_| AtomicU8::new(written)),
        })
    }

    fn copy(&self) -> Box<Page> {
        let page = Page::new(0);
        for i in 0..PAGE_WORDS {
            page.words[i].store(self.words[i].load(Relaxed), Relaxed);
            page.written[i].store(self.written[i].load(Relaxed), Relaxed);
        }
        page
    }

    /// Writes the bytes of `mask` (of the word's bytes) and marks them written.
    #[inline]
    fn store(&self, word: usize, value: u32, mask: u8) {
        if mask == 0xf {
            self.words[word].store(value, Relaxed);
        } else {
            let bits = byte_bits(mask);
            let merge = |old: u32| Some((old & !bits) | (value & bits));
            let _ = self.words[word].fetch_update(Relaxed, Relaxed, merge);
        }
        if self.written[word].load(Relaxed) & mask != mask {
            self.written[word].fetch_or(mask, Relaxed);
        }
    }
}

/// The bits of the bytes of a mask.
fn byte_bits(mask: u8) -> u32 {
    (0..4).filter(|byte| mask >> byte & 1 == 1).map(|byte| 0xff << (8 * byte)).sum()
}

/// One allocation, alive or freed.
#[derive(Debug)]
pub(crate) struct Allocation {
    pub base: u64,
    pub bytes: u64,
    /// Not freed.
    pub alive: bool,
    /// Kernels may only read it: `.const`.
    pub read_only: bool,
    /// The variable's name. Its bytes are zeros that were written, a page of them as it is touched.
    pub name: Option<String>,
    pages: Vec<OnceLock<Box<Page>>>,
    /// What pages were before their first store since [`GlobalMemory::remember`]; none where that
    /// is not asked for.
    before: Vec<OnceLock<Option<Box<Page>>>>,
    shadows: Vec<OnceLock<Box<PageShadow>>>,
}

impl Allocation {
    /// Whether all of `bytes` bytes at an address lie in it.
    #[inline]
    pub fn has(&self, address: u64, bytes: u64) -> bool {
        let offset = address.wrapping_sub(self.base);
        offset <= self.bytes && bytes <= self.bytes - offset
    }

    /// The value and the written bytes of `size` (1, 2, 4 or 8) bytes at an offset that is a
    /// multiple of it.
    #[inline]
    pub fn load(&self, offset: u64, size: u32) -> (u64, u8) {
        let Some(page) = self.pages[(offset / PAGE_BYTES) as usize].get() else {
            return (0, if self.name.is_some() { ((1u32 << size) - 1) as u8 } else { 0 });
        };
        let word = (offset / 4) as usize % PAGE_WORDS;
        let (low, written) = (page.words[word].load(Relaxed), page.written[word].load(Relaxed));
        match size {
            8 => {
                let high = u64::from(page.words[word + 1].load(Relaxed));
                let high_written = page.written[word + 1].load(Relaxed);
                (high << 32 | u64::from(low), high_written << 4 | written)
            }
            4 => (low.into(), written),
            _ => {
                let byte = offset as u32 % 4;
                let value = u64::from(low >> (8 * byte)) & ((1 << (8 * size)) - 1);
                (value, written >> byte & ((1 << size) - 1))
            }
        }
    }

    /// Writes `size` (1, 2, 4 or 8) bytes at an offset that is a multiple of it.
    #[inline]
    pub fn store(&self, offset: u64, size: u32, value: u64) {
        let written = if self.name.is_some() { 0xf } else { 0 };
        let number = (offset / PAGE_BYTES) as usize;
        let page = &self.pages[number];
        if let Some(before) = self.before.get(number) {
            before.get_or_init(|| page.get().map(|page| page.copy()));
        }
        let page = page.get_or_init(|| Page::new(written));
        let word = (offset / 4) as usize % PAGE_WORDS;
        match size {
            8 => {
                page.store(word, value as u32, 0xf);
                page.store(word + 1, (value >> 32) as u32, 0xf);
            }
            4 => page.store(word, value as u32, 0xf),
            _ => {
                let byte = offset as u32 % 4;
                page.store(word, (value as u32) << (8 * byte), ((1 << size) - 1) << byte);
            }
        }
    }

    /// Records an access for the race checker, and finds the race with an earlier one and the
    /// offset at which it is.
    #[inline]
    pub fn race(
        &self,
        offset: u64,
        bytes: u32,
        who: (&Stamp, Fences<'_>),
        writes: bool,
    ) -> Option<(u64, Race)> {
        let (mut at, end) = (offset, offset + u64::from(bytes));
        while at < end {
            let page = &self.shadows[(at / PAGE_BYTES) as usize];
            let page = page.get_or_init(PageShadow::new);
            let (word, size) = ((at / 4) as usize % PAGE_WORDS, (4 - at % 4).min(end - at));
            if let Some(race) = page.access(word, at as usize % 4, size as u32, who, writes) {
                return Some((at, race));
            }
            at += size;
        }
        None
    }

    /// What a report says of an address in or near it.
    pub fn note(&self, address: u64) -> AllocationNote {
        AllocationNote {
            base: self.base,
            bytes: self.bytes,
            offset: address.wrapping_sub(self.base) as i64,
            name: self.name.clone(),
        }
    }
}

/// All allocations of a GPU, by rising address.
#[derive(Debug)]
pub(crate) struct GlobalMemory {
    allocations: Vec<Allocation>,
    next: u64,
    /// Bytes that can still be allocated.
    left: u64,
}

impl GlobalMemory {
    pub fn new(capacity: u64) -> GlobalMemory {
        GlobalMemory { allocations: Vec::new(), next: FIRST, left: capacity }
    }

    /// A new allocation, unwritten. One of 0 bytes has an address of its own too.
    pub fn allocate(&mut self, bytes: u64, alignment: u64) -> Result<u64, Error> {
        if bytes > self.left {
            let left = self.left;
            return Err(Error::memory(format!("{bytes} bytes asked for, {left} are left")));
        }
        self.left -= bytes;
        // Only as aligned as asked: what relies on more is to fail. But words are found by their
        // distance from the base, so that an aligned access of 8 bytes has to be one of theirs.
        let alignment = alignment.max(8);
        let base = self.next.next_multiple_of(2 * alignment) + alignment;
        self.next = base + bytes + GUARD_BYTES;
        let pages = bytes.div_ceil(PAGE_BYTES) as usize;
        self.allocations.push(Allocation {
            base,
            bytes,
            alive: true,
            read_only: false,
            name: None,
            pages: (0..pages).map(|_| OnceLock::new()).collect(),
            before: Vec::new(),
            shadows: (0..pages).map(|_| OnceLock::new()).collect(),
        });
        Ok(base)
    }

    /// Names an allocation after its variable, whose bytes are zeros.
    pub fn describe(&mut self, base: u64, name: &str, read_only: bool) {
        if let Some(allocation) = self.allocations.iter_mut().rev().find(|a| a.base == base) {
            allocation.name = Some(name.to_string());
            allocation.read_only = read_only;
        }
    }

    pub fn free(&mut self, address: u64) -> Result<(), Error> {
        let at = self.allocations.binary_search_by_key(&address, |a| a.base);
        let Some(allocation) = at.ok().map(|at| &mut self.allocations[at]) else {
            return Err(Error::memory(format!("{address:#x} is not an allocation's address")));
        };
        if !allocation.alive {
            return Err(Error::memory(format!("the allocation {address:#x} is freed twice")));
        }
        allocation.alive = false;
        allocation.pages = Vec::new();
        allocation.shadows = Vec::new();
        self.left += allocation.bytes;
        Ok(())
    }

    /// The allocations that are alive and were asked for by the host, not variables.
    pub fn alive(&self) -> impl Iterator<Item = &Allocation> {
        self.allocations.iter().filter(|allocation| allocation.alive && allocation.name.is_none())
    }

    /// The allocation at or before an address, whether or not the address lies in it.
    #[inline]
    pub fn at_or_before(&self, address: u64) -> Option<&Allocation> {
        let after = self.allocations.partition_point(|a| a.base <= address);
        after.checked_sub(1).map(|at| &self.allocations[at])
    }

    /// The living allocation that has all of `bytes` bytes at an address.
    #[inline]
    pub fn find(&self, address: u64, bytes: u64) -> Option<&Allocation> {
        self.at_or_before(address).filter(|a| a.alive && a.has(address, bytes))
    }

    /// What a report says of an address that no allocation has: the nearest one.
    pub fn nearest(&self, address: u64) -> Option<AllocationNote> {
        let after = self.allocations.partition_point(|a| a.base <= address);
        let before = after.checked_sub(1).map(|at| &self.allocations[at]);
        let distance = |a: &Allocation| {
            let end = a.base + a.bytes;
            if address < a.base { a.base - address } else { address.saturating_sub(end) }
        };
        let nearest =
            before.into_iter().chain(self.allocations.get(after)).min_by_key(|a| distance(a))?;
        (distance(nearest) < 1 << 32).then(|| nearest.note(address))
    }

    fn host(&self, address: u64, bytes: usize) -> Result<&Allocation, Error> {
        self.find(address, bytes as u64).ok_or_else(|| {
            Error::memory(format!("{bytes} bytes at {address:#x} are not inside one allocation"))
        })
    }

    pub fn host_write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Error> {
        let allocation = self.host(address, bytes.len())?;
        let mut offset = address - allocation.base;
        let mut rest = bytes;
        while !rest.is_empty() {
            let size = if offset.is_multiple_of(4) && rest.len() >= 4 { 4 } else { 1 };
            let (now, later) = rest.split_at(size);
            allocation.store(offset, size as u32, super::number(now));
            offset += size as u64;
            rest = later;
        }
        Ok(())
    }

    pub fn host_read(&self, address: u64, bytes: &mut [u8]) -> Result<(), Error> {
        let allocation = self.host(address, bytes.len())?;
        let mut offset = address - allocation.base;
        let mut rest = bytes;
        while !rest.is_empty() {
            let size = if offset.is_multiple_of(4) && rest.len() >= 4 { 4 } else { 1 };
            let (now, later) = rest.split_at_mut(size);
            let (value, written) = allocation.load(offset, size as u32);
            for (byte, (to, from)) in now.iter_mut().zip(value.to_le_bytes()).enumerate() {
                *to = if written >> byte & 1 == 1 { from } else { UNWRITTEN };
            }
            offset += size as u64;
            rest = later;
        }
        Ok(())
    }

    /// Forgets who touched what: the launches before are over.
    pub fn clear_shadows(&mut self) {
        for shadow in self.allocations.iter_mut().flat_map(|a| &mut a.shadows) {
            shadow.take();
        }
    }

    /// From now on pages are kept as they are, each when it is first stored to.
    pub fn remember(&mut self) {
        for allocation in &mut self.allocations {
            allocation.before = allocation.pages.iter().map(|_| OnceLock::new()).collect();
        }
    }

    /// Keeps no pages any longer; where they are not `wanted` as they are now, they are again what
    /// they were.
    pub fn forget(&mut self, wanted: bool) {
        for allocation in &mut self.allocations {
            let before = std::mem::take(&mut allocation.before);
            let stored = allocation.pages.iter_mut().zip(before);
            for (page, before) in stored.filter(|_| !wanted) {
                if let Some(before) = before.into_inner() {
                    *page = before.map_or_else(OnceLock::new, OnceLock::from);
                }
            }
        }
        if !wanted {
            self.clear_shadows();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocations_have_guards_and_stay_freed() {
        let mut memory = GlobalMemory::new(1 << 20);
        let a = memory.allocate(10, 256).unwrap();
        let b = memory.allocate(10, 256).unwrap();
        assert!(a.is_multiple_of(256) && b - a >= 10 + GUARD_BYTES);
        assert!(memory.find(a, 10).is_some());
        assert!(memory.find(a, 11).is_none());
        assert!(memory.find(a + 10, 0).is_some());
        assert_eq!(memory.nearest(a + 12).unwrap().offset, 12);
        assert_eq!(memory.nearest(b - 2).unwrap().offset, -2);
        memory.free(a).unwrap();
        assert!(memory.free(a).is_err() && memory.free(a + 1).is_err());
        assert!(memory.find(a, 1).is_none());
        assert!(memory.allocate(10, 256).unwrap() > b);
        assert!(memory.allocate(1 << 20, 256).is_err());
    }

    #[test]
    fn bytes_come_back_and_are_known_to_be_written() {
        let mut memory = GlobalMemory::new(1 << 20);
        let a = memory.allocate(10_000, 256).unwrap();
        let data: Vec<u8> = (0..9_999).map(|i| i as u8).collect();
        memory.host_write(a + 1, &data).unwrap();
        let mut back = vec![0; 10_000];
        memory.host_read(a, &mut back).unwrap();
        assert_eq!((back[0], &back[1..]), (UNWRITTEN, &data[..]));
        let allocation = memory.find(a, 1).unwrap();
        assert_eq!(allocation.load(0, 8), (0x0605_0403_0201_0000, 0xfe));
        assert_eq!(allocation.load(2, 2), (0x0201, 3));
        allocation.store(0, 1, 0xff);
        assert_eq!(allocation.load(0, 4), (0x0201_00ff, 0xf));
        assert!(memory.host_write(a + 2, &data).is_err());
    }

    #[test]
    fn what_was_remembered_comes_back_where_that_is_wanted() {
        let mut memory = GlobalMemory::new(1 << 20);
        let a = memory.allocate(3 * PAGE_BYTES, 256).unwrap();
        let [first, second] = [a, a + PAGE_BYTES];
        memory.host_write(first, &[1, 2]).unwrap();
        for (wanted, then) in [(false, [(0x0201, 3), (0, 0)]), (true, [(0x05_0406, 7), (7, 1)])] {
            memory.remember();
            for (at, bytes) in [(first, &[3, 4, 5][..]), (first, &[6]), (second, &[7])] {
                memory.host_write(at, bytes).unwrap();
            }
            let kept = memory.find(a, 1).unwrap().before.iter().filter(|page| page.get().is_some());
            assert_eq!(kept.count(), 2);
            memory.forget(wanted);
            assert_eq!([0, PAGE_BYTES].map(|at| memory.find(a, 4).unwrap().load(at, 4)), then);
        }
    }
}
