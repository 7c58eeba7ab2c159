//! Level 1 of the race checker: by barrier interval.
//!
//! Each word of shared and global memory remembers its last writer and its readers since then. An
//! interval ("epoch") of a block ends at a barrier of all its threads (that have not exited); one
//! of a warp, at `bar.warp.sync`. Two accesses race if one writes, they are of different threads,
//! they aren't both strong (volatile, relaxed or atomic, of scopes that reach each other), and no
//! end of an interval lies between them; of different blocks, if no end of a launch does, nor a
//! fence of each ([`Fences`]). A weak write counts on when its thread writes strongly behind it.
//! Smaller accesses have cells of their own per byte, made when the first one comes, so that
//! neighbours in a word don't get in each other's way.
//! Sources: PTX ISA 8.7.1 (races); the design is that of last-access shadow memory as in HiRace.

use crate::memory::PAGE_WORDS;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};

/// How far an access is strong: it doesn't race with strong accesses by those that it reaches and
/// that reach it (PTX ISA, "Morally strong operations").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// It is weak.
    Weak,
    /// Within its block: `.cta`.
    Block,
    /// Within its cluster. Kernels that have it are for Level 2, where clusters count as blocks.
    Cluster,
    /// Everywhere on the GPU.
    All,
}

/// Who accesses, when, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    /// The block's linear index.
    pub block: u64,
    /// The thread's linear index in the block.
    pub thread: u32,
    /// The block's interval, from 1.
    pub epoch: u32,
    /// The warp's interval, from 0.
    pub warp_epoch: u32,
    /// The block's intervals have had numbers that now come again, which tell nothing of records
    /// that were not cleared.
    pub wrapped: bool,
    /// The line of PTX.
    pub line: u32,
    /// Whether it is volatile, relaxed, acquire, release or atomic, and of which scope.
    pub reach: Reach,
}

/// Fences of the whole GPU, or accesses that acquire and release there, by cluster, whose records
/// then have the cluster's first block, the number of one of its warps in the place of a thread,
/// and that warp's time in the places of both intervals ([`Stamp::at`]). A cluster has released
/// what the lanes that had one knew of each warp, and one that had none has acquired nothing. Two
/// accesses for which both is so may be ordered, and count as if they were.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fences<'a> {
    /// The time up to which each warp's accesses are released, by clusters as their first blocks
    /// are numbered; none where the kernel has no fences.
    pub released: &'a [AtomicU32],
    /// Warps of a cluster.
    pub warps: usize,
    /// Whether the cluster that accesses now has had one.
    pub acquired: bool,
}

impl Fences<'_> {
    /// Whether an access of the cluster with that first block may be ordered before the present
    /// one. Of blocks that are not known it may.
    #[inline]
    fn order(&self, block: u64, record: Record) -> bool {
        self.acquired && self.has_released(block, record)
    }

    /// Whether the cluster with that first block has released an access of its own.
    #[inline]
    fn has_released(&self, block: u64, record: Record) -> bool {
        let warp = ((record & THREAD_MASK) >> THREAD_SHIFT) as usize;
        let time = ((record & (EPOCH_MASK | WARP_EPOCH_MASK)) >> WARP_EPOCH_SHIFT) as u32;
        let place = (block as usize).saturating_mul(self.warps).saturating_add(warp);
        let released = self.released.get(place);
        released.is_none_or(|released| released.load(SeqCst) >= time)
    }

    /// Warps of each of a cluster's blocks, where records say which of the cluster's it was.
    pub fn warps_of_block(&self, blocks: usize) -> Option<u32> {
        (!self.released.is_empty()).then(|| (self.warps / blocks.max(1)) as u32)
    }

    /// What is released of a cluster, as far as its fences know its warps.
    pub fn release(&self, block: u64, times: impl Iterator<Item = u32>) {
        let first = block as usize * self.warps;
        for (released, time) in self.released.iter().skip(first).zip(times) {
            released.fetch_max(time, SeqCst);
        }
    }
}

/// The other side of a race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Race {
    pub block: u64,
    pub thread: u32,
    pub line: u32,
    /// The other side wrote.
    pub wrote: bool,
}

const LINE_BITS: u32 = 23;
const EPOCH_BITS: u32 = 16;
const WARP_EPOCH_BITS: u32 = 11;
/// The interval of a block after which its shadow must be cleared.
pub(crate) const LAST_EPOCH: u32 = (1 << EPOCH_BITS) - 1;
/// The interval of a warp after which the block's must be another.
pub(crate) const LAST_WARP_EPOCH: u32 = (1 << WARP_EPOCH_BITS) - 1;

/// A record of an access in one word: line, thread, epoch, warp epoch, flags. 0: none.
pub(crate) type Record = u64;
const STRONG: Record = 1;
/// More lanes of the warp.
const WARP: Record = 2;
/// Threads of more warps.
const BLOCK: Record = 4;
/// Not strong, but towards its own warp, which has accessed it weakly before in an earlier interval
/// of its own.
const WEAK_BEFORE: Record = 8;
const WARP_EPOCH_SHIFT: u32 = 4;
const EPOCH_SHIFT: u32 = WARP_EPOCH_SHIFT + WARP_EPOCH_BITS;
/// The place of the thread in a record: the next lane's is `1 << THREAD_SHIFT` more.
pub(crate) const THREAD_SHIFT: u32 = EPOCH_SHIFT + EPOCH_BITS;
const LINE_SHIFT: u32 = THREAD_SHIFT + 10;
const EPOCH_MASK: Record = ((1 << EPOCH_BITS) - 1) << EPOCH_SHIFT;
const WARP_EPOCH_MASK: Record = ((1 << WARP_EPOCH_BITS) - 1) << WARP_EPOCH_SHIFT;
const THREAD_MASK: Record = 1023 << THREAD_SHIFT;
const LINE_MASK: Record = !0 << LINE_SHIFT;
/// The part of the thread's index that is the warp's.
const WARP_MASK: Record = (1023 & !31) << THREAD_SHIFT;

/// The last time that [`Stamp::at`] takes: over a hundred million steps that synchronise.
const LAST_TIME: u32 = (1 << (EPOCH_BITS + WARP_EPOCH_BITS)) - 1;

impl Stamp {
    /// The same of the warp of that number in its cluster, at a time of its own.
    pub fn at(self, warp: u32, time: u32) -> Stamp {
        let time = time.min(LAST_TIME);
        let (epoch, warp_epoch) = (time >> WARP_EPOCH_BITS, time & LAST_WARP_EPOCH);
        Stamp { thread: warp, epoch, warp_epoch, ..self }
    }

    #[inline]
    pub fn record(&self) -> Record {
        u64::from(self.line & ((1 << LINE_BITS) - 1)) << LINE_SHIFT
            | u64::from(self.thread) << THREAD_SHIFT
            | u64::from(self.epoch) << EPOCH_SHIFT
            | u64::from(self.warp_epoch) << WARP_EPOCH_SHIFT
            | u64::from(self.reach != Reach::Weak)
    }
}

/// Whether an access of one block isn't ordered after an earlier one of the same block.
#[inline]
fn unordered(old: Record, new: Record) -> bool {
    let differs = old ^ new;
    if differs & EPOCH_MASK != 0 || old & new & STRONG != 0 {
        return false;
    }
    if old & BLOCK != 0 || differs & WARP_MASK != 0 {
        return true;
    }
    differs & WARP_EPOCH_MASK == 0
        && (differs & THREAD_MASK != 0 || old & WARP != 0)
        && (old & WEAK_BEFORE == 0 || new & STRONG == 0)
}

/// The readers' record with one more reader of the same block.
#[inline]
fn join(old: Record, new: Record) -> Record {
    let differs = old ^ new;
    if differs & EPOCH_MASK != 0 {
        return new;
    }
    // Where one reader is weak, all count as weak.
    let strong = !(!old & STRONG | !new & STRONG);
    if differs & WARP_MASK != 0 {
        return (old | BLOCK) & strong;
    }
    if differs & WARP_EPOCH_MASK != 0 {
        return old & BLOCK | if old & STRONG == 0 { still_weak(old, new) } else { new };
    }
    // A weak read of the same interval counts towards its own warp too.
    let before = if new & STRONG == 0 { !WEAK_BEFORE } else { !0 };
    (if differs & THREAD_MASK != 0 { old | WARP } else { old }) & strong & before
}

/// The writer's record with one more write of the same block, which doesn't race. A weak write
/// still counts when its warp writes strongly behind it.
#[inline]
fn join_writes(old: Record, new: Record) -> Record {
    let differs = old ^ new;
    if new & STRONG == 0 || old & STRONG != 0 || differs & (EPOCH_MASK | WARP_MASK) != 0 {
        return new;
    }
    let weak = still_weak(old, new);
    if differs & WARP_EPOCH_MASK == 0 { weak & !WEAK_BEFORE | old & WEAK_BEFORE } else { weak }
}

/// The record of an access behind a weak one of an earlier interval of the same warp, which it
/// still is towards others: races with their strong accesses are the weak one's.
#[inline]
fn still_weak(old: Record, new: Record) -> Record {
    match new & STRONG {
        0 => new,
        _ => new & !(LINE_MASK | STRONG) | old & LINE_MASK | WEAK_BEFORE,
    }
}

fn race(record: Record, block: u64, wrote: bool) -> Race {
    Race {
        block,
        thread: ((record & THREAD_MASK) >> THREAD_SHIFT) as u32,
        line: (record >> LINE_SHIFT) as u32,
        wrote,
    }
}

/// The last writer and the readers of a place.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    write: Record,
    read: Record,
}

impl Cell {
    #[inline]
    fn conflict(&self, new: Record, block: u64, writes: bool) -> Option<Race> {
        if unordered(self.write, new) && self.write != 0 {
            return Some(race(self.write, block, true));
        }
        if writes && unordered(self.read, new) && self.read != 0 {
            return Some(race(self.read, block, false));
        }
        None
    }

    #[inline]
    fn update(&mut self, new: Record, writes: bool) {
        if writes {
            self.write = join_writes(self.write, new);
        } else {
            self.read = join(self.read, new);
        }
    }
}

/// Shared memory of one block.
#[derive(Debug, Default)]
pub(crate) struct BlockShadow {
    words: Vec<Cell>,
    /// Cells of bytes; empty until the first access that is smaller than a word.
    bytes: Vec<[Cell; 4]>,
}

impl BlockShadow {
    /// A shadow of `words` words; of none, one that finds nothing.
    pub fn new(words: usize) -> BlockShadow {
        BlockShadow { words: vec![Cell::default(); words], bytes: Vec::new() }
    }

    /// Whether it finds anything.
    #[inline]
    pub fn is_on(&self) -> bool {
        !self.words.is_empty()
    }

    /// Forgets all: every thread has passed a barrier.
    pub fn clear(&mut self) {
        self.words.fill(Cell::default());
        self.bytes.fill([Cell::default(); 4]);
    }

    /// An access to `size` (1, 2, 4 or 8) bytes at a multiple of it.
    #[inline]
    pub fn access(&mut self, address: u64, size: u32, stamp: &Stamp, writes: bool) -> Option<Race> {
        let new = stamp.record();
        let word = (address / 4) as usize;
        if size < 4 {
            return self.small_access(address, size, stamp, writes);
        }
        for word in word..word + size as usize / 4 {
            let cell = &mut self.words[word];
            if let Some(race) = cell.conflict(new, stamp.block, writes) {
                return Some(race);
            }
            cell.update(new, writes);
            if !self.bytes.is_empty() {
                let conflict = |cell: &Cell| cell.conflict(new, stamp.block, writes);
                if let Some(race) = self.bytes[word].iter().find_map(conflict) {
                    return Some(race);
                }
            }
        }
        None
    }

    /// Records an access of a word, unless it races: then it is for [`BlockShadow::access`] to say
    /// with whom. Returns whether it does not.
    #[inline(always)]
    pub fn word_access(&mut self, word: usize, new: Record, writes: bool) -> bool {
        let cell = &mut self.words[word];
        // An epoch of 0 is that of no access, and never the present one.
        let mut races = unordered(cell.write, new);
        if writes {
            races |= unordered(cell.read, new);
        }
        if races || !self.bytes.is_empty() && self.byte_conflict(word, new, writes) {
            return false;
        }
        self.words[word].update(new, writes);
        true
    }

    fn byte_conflict(&self, word: usize, new: Record, writes: bool) -> bool {
        self.bytes[word].iter().any(|cell| cell.conflict(new, 0, writes).is_some())
    }

    fn small_access(
        &mut self,
        address: u64,
        size: u32,
        stamp: &Stamp,
        writes: bool,
    ) -> Option<Race> {
        let (new, word) = (stamp.record(), (address / 4) as usize);
        if self.bytes.is_empty() {
            self.bytes = vec![Default::default(); self.words.len()];
        }
        let first = address as usize % 4;
        for cell in &mut self.bytes[word][first..first + size as usize] {
            if let Some(race) = cell.conflict(new, stamp.block, writes) {
                return Some(race);
            }
            cell.update(new, writes);
        }
        self.words[word].conflict(new, stamp.block, writes)
    }
}

/// A cell of global memory: records, and the blocks that they are of, plus 1. Where a cell is of
/// two blocks at once, the records may not match the blocks; the race is found all the same.
#[derive(Debug, Default)]
struct SharedCell {
    writer: AtomicU64,
    write: AtomicU64,
    reader: AtomicU64,
    read: AtomicU64,
}

/// Set in `reader` where more blocks have read, weakly towards others as the one in it.
const MORE_WEAK: u64 = 1 << 63;
/// Set in `writer` and `reader` where the access was strong towards other blocks; of readers, all.
const STRONG_BLOCK: u64 = 1 << 62;
/// Set in `reader` where blocks other than the one in it have read strongly. Where some block has
/// read weakly, it is one of these that is in it.
const MORE_STRONG: u64 = 1 << 61;
const BLOCK_MASK: u64 = MORE_STRONG - 1;

impl SharedCell {
    /// Records an access, and finds the race with an earlier one.
    #[inline]
    fn access(&self, stamp: &Stamp, writes: bool, fences: Fences<'_>) -> Option<Race> {
        if writes {
            self.record_write(stamp, fences).or_else(|| self.conflict_with_read(stamp, fences))
        } else {
            self.record_read(stamp, fences);
            self.conflict_with_write(stamp, fences)
        }
    }

    /// Finds the race of an access with an earlier one, and records nothing.
    fn conflict(&self, stamp: &Stamp, writes: bool, fences: Fences<'_>) -> Option<Race> {
        let race = self.conflict_with_write(stamp, fences);
        if writes { race.or_else(|| self.conflict_with_read(stamp, fences)) } else { race }
    }

    fn tag(stamp: &Stamp) -> u64 {
        (stamp.block + 1) | if stamp.reach == Reach::All { STRONG_BLOCK } else { 0 }
    }

    fn between(
        tag: u64,
        record: Record,
        (stamp, fences): (&Stamp, Fences<'_>),
        wrote: bool,
    ) -> Option<Race> {
        if tag == 0 {
            return None;
        }
        let block = (tag & BLOCK_MASK) - 1;
        let is_strong = stamp.reach == Reach::All;
        let racing = if is_strong { MORE_WEAK } else { MORE_WEAK | MORE_STRONG };
        let found = if block == stamp.block && tag & racing == 0 {
            // Where records are of warps, what a cluster does by itself is not looked at.
            fences.released.is_empty() && !stamp.wrapped && unordered(record, stamp.record())
        } else {
            // Where more blocks have read, which one it was is not known.
            let is_one = tag & (MORE_WEAK | MORE_STRONG) == 0;
            let both_strong = is_strong && tag & STRONG_BLOCK != 0;
            !(both_strong || fences.order(if is_one { block } else { u64::MAX }, record))
        };
        found.then(|| race(record, block, wrote))
    }

    fn record_write(&self, stamp: &Stamp, fences: Fences<'_>) -> Option<Race> {
        let tag = self.writer.swap(SharedCell::tag(stamp), SeqCst);
        let record = self.write.swap(stamp.record(), SeqCst);
        let race = SharedCell::between(tag, record, (stamp, fences), true);
        if stamp.reach != Reach::Weak && tag == stamp.block + 1 && race.is_none() {
            self.keep_weak(tag, record, stamp, fences);
        }
        race
    }

    /// A strong write has come behind one of the same block that was weak towards others, which
    /// still counts: without fences for ever, with them until it is released.
    #[cold]
    fn keep_weak(&self, tag: u64, record: Record, stamp: &Stamp, fences: Fences<'_>) {
        if fences.released.is_empty() {
            self.writer.store(tag, SeqCst);
            self.write.store(join_writes(record, stamp.record()), SeqCst);
        } else if !fences.has_released(stamp.block, record) {
            self.writer.store(tag, SeqCst);
            self.write.store(record, SeqCst);
        }
    }

    fn conflict_with_write(&self, stamp: &Stamp, fences: Fences<'_>) -> Option<Race> {
        let (tag, record) = (self.writer.load(SeqCst), self.write.load(SeqCst));
        SharedCell::between(tag, record, (stamp, fences), true)
    }

    fn conflict_with_read(&self, stamp: &Stamp, fences: Fences<'_>) -> Option<Race> {
        let (tag, record) = (self.reader.load(SeqCst), self.read.load(SeqCst));
        SharedCell::between(tag, record, (stamp, fences), false)
    }

    fn record_read(&self, stamp: &Stamp, fences: Fences<'_>) {
        let new = SharedCell::tag(stamp);
        let is_own = |tag: u64| (tag ^ new) & BLOCK_MASK == 0;
        // Before the tag, so that it is not that of a block whose tag is not seen yet.
        let record = self.read.load(SeqCst);
        let mut old = self.reader.load(SeqCst);
        let next = loop {
            let next = match old {
                0 => new,
                // Where one reader of a block is weak, all count as weak.
                _ if is_own(old) => old & (new | !STRONG_BLOCK),
                _ if new & STRONG_BLOCK != 0 => old | MORE_STRONG,
                _ if old & STRONG_BLOCK != 0 => new | MORE_STRONG,
                _ => old | MORE_WEAK,
            };
            if next == old {
                break next;
            }
            match self.reader.compare_exchange(old, next, SeqCst, SeqCst) {
                Ok(_) => break next,
                Err(now) => old = now,
            }
        };
        if is_own(old) && old & MORE_WEAK == 0 {
            let joined = match fences.released.is_empty() {
                true => join(record, stamp.record()),
                // One reader of a cluster is remembered: the last one, a weak one before others.
                false if stamp.reach != Reach::Weak && record & STRONG == 0 => record,
                false => stamp.record(),
            };
            if joined != record {
                self.read.store(joined, SeqCst);
            }
        } else if is_own(next) && !is_own(old) {
            self.read.store(stamp.record(), SeqCst);
        }
    }
}

/// A page of global memory.
#[derive(Debug)]
pub(crate) struct PageShadow {
    words: Vec<SharedCell>,
    /// Cells of bytes, four for each word, made when the first small access comes.
    bytes: OnceLock<Vec<SharedCell>>,
}

impl PageShadow {
    pub fn new() -> Box<PageShadow> {
        let words = (0..PAGE_WORDS).map(|_| SharedCell::default()).collect();
        Box::new(PageShadow { words, bytes: OnceLock::new() })
    }

    /// An access to `size` bytes of a word from `byte` on.
    #[inline]
    pub fn access(
        &self,
        word: usize,
        byte: usize,
        size: u32,
        (stamp, fences): (&Stamp, Fences<'_>),
        writes: bool,
    ) -> Option<Race> {
        let whole = &self.words[word];
        if size < 4 {
            let make = || (0..4 * PAGE_WORDS).map(|_| SharedCell::default()).collect();
            let first = 4 * word + byte;
            let cells = &self.bytes.get_or_init(make)[first..first + size as usize];
            let found = cells.iter().find_map(|cell| cell.access(stamp, writes, fences));
            return found.or_else(|| whole.conflict(stamp, writes, fences));
        }
        whole.access(stamp, writes, fences).or_else(|| {
            let cells = &self.bytes.get()?[4 * word..4 * word + 4];
            cells.iter().find_map(|cell| cell.conflict(stamp, writes, fences))
        })
    }
}

#[cfg(test)]
mod tests;
