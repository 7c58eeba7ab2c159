//! Shadow memory: for each word, the last write and the reads since.

use super::ops::Ops;
use rustc_hash::FxHashMap;

/// The agent of a stamp that is an operation's; its time is the operation's number.
pub(super) const OP: u16 = u16::MAX;
/// The agent in place of a read where there are several; its time is the list's number.
const MANY: u16 = u16::MAX - 1;
/// The agent in place of a write where bytes of the word were accessed apart; its time is the
/// number of the four cells.
const SPLIT: u16 = u16::MAX - 2;

/// What kind of access it was. In bits, so that a word's shadow is half a line of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flags(u16);

impl Flags {
    pub(super) const NONE: Flags = Flags(0);
    pub(super) const STRONG: Flags = Flags(1);
    /// Strong towards its own block alone.
    pub(super) const OF_BLOCK: Flags = Flags(2);
    pub(super) const ASYNC: Flags = Flags(4);
    /// The operation's lanes are one actor.
    pub(super) const WHOLE_OP: Flags = Flags(8);
    /// Among the reads, a write before the last one, which need not be ordered after it.
    pub(super) const WROTE: Flags = Flags(16);

    #[inline(always)]
    pub(super) fn has(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }

    /// These, and the other where that is so.
    #[inline(always)]
    pub(super) fn with(self, other: Flags, is_so: bool) -> Flags {
        if is_so { Flags(self.0 | other.0) } else { self }
    }
}

/// An access that was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) time: u32,
    pub(super) lanes: u32,
    pub(super) line: u32,
    pub(super) agent: u16,
    pub(super) flags: Flags,
}

impl Stamp {
    /// Before everything.
    const NONE: Stamp = Stamp { time: 0, lanes: 0, line: 0, agent: 0, flags: Flags::NONE };

    /// Not 0 where the other is another one; without branches.
    #[inline(always)]
    fn differs(&self, other: &Stamp) -> u32 {
        let who = u32::from(self.agent ^ other.agent) | u32::from(self.flags.0 ^ other.flags.0);
        self.time ^ other.time | self.lanes ^ other.lanes | self.line ^ other.line | who
    }
}

/// A word.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    pub(super) write: Stamp,
    read: Stamp,
}

impl Cell {
    const EMPTY: Cell = Cell { write: Stamp::NONE, read: Stamp::NONE };

    #[inline(always)]
    pub(super) fn is_split(&self) -> bool {
        self.write.agent == SPLIT
    }

    #[inline(always)]
    fn is_like(&self, other: &Cell) -> bool {
        self.write.differs(&other.write) | self.read.differs(&other.read) == 0
    }
}

/// Words of a page.
const PAGE: usize = 1024;
/// Bytes of a page.
pub(super) const PAGE_BYTES: u64 = 4 * PAGE as u64;

/// The words of a space, in pages that are made as soon as one of their words is used.
#[derive(Debug, Default)]
pub(super) struct Shadow {
    pages: Vec<Box<[Cell]>>,
    /// Where each page is, by its number.
    places: FxHashMap<u64, usize>,
    /// The page that was used last: its number and its place.
    last: Option<(u64, usize)>,
}

impl Shadow {
    #[inline]
    pub(super) fn page(&mut self, number: u64) -> &mut [Cell] {
        match self.last {
            Some((last, place)) if last == number => &mut self.pages[place],
            _ => self.other_page(number),
        }
    }

    fn other_page(&mut self, number: u64) -> &mut [Cell] {
        let place = *self.places.entry(number).or_insert(self.pages.len());
        if place == self.pages.len() {
            self.pages.push(vec![Cell::EMPTY; PAGE].into());
        }
        self.last = Some((number, place));
        &mut self.pages[place]
    }

    /// A word, if its page is made.
    pub(super) fn get(&self, word: u64) -> Option<&Cell> {
        let place = *self.places.get(&(word / PAGE as u64))?;
        Some(&self.pages[place][word as usize % PAGE])
    }

    /// See [`Shadow::get`].
    pub(super) fn get_mut(&mut self, word: u64) -> Option<&mut Cell> {
        let place = *self.places.get(&(word / PAGE as u64))?;
        Some(&mut self.pages[place][word as usize % PAGE])
    }

    /// The pages whose words may have been accessed, rising.
    pub(super) fn used(&self) -> Vec<u64> {
        let mut pages: Vec<u64> = self.places.keys().copied().collect();
        pages.sort_unstable();
        pages
    }
}

/// Reads since a word's last write, where there are several.
#[derive(Debug, Default)]
struct List {
    reads: Vec<Stamp>,
    /// The cells that have them.
    cells: u32,
}

/// Lists of reads, and split words.
#[derive(Debug, Default)]
pub(super) struct Tables {
    lists: Vec<List>,
    free_lists: Vec<u32>,
    splits: Vec<[Cell; 4]>,
    free_splits: Vec<u32>,
}

impl Tables {
    /// The reads since the last write.
    #[inline(always)]
    pub(super) fn reads<'a>(&'a self, cell: &'a Cell) -> &'a [Stamp] {
        match cell.read.agent {
            MANY => &self.lists[cell.read.time as usize].reads,
            _ => std::slice::from_ref(&cell.read),
        }
    }

    /// Records a write, after which the reads before it no longer count.
    #[inline(always)]
    pub(super) fn write(&mut self, cell: &mut Cell, stamp: Stamp, ops: &Ops) {
        self.clear(cell, ops);
        if stamp.agent == OP {
            ops.remember(stamp.time, 1);
        }
        cell.write = stamp;
    }

    /// Records a strong write. Other strong writes need not be ordered after it, so that the one
    /// before and the reads before still count for what comes after.
    pub(super) fn write_too(&mut self, cell: &mut Cell, stamp: Stamp, ops: &Ops) {
        let mut old = cell.write;
        old.flags = old.flags.with(Flags::WROTE, true);
        if old.flags == stamp.flags.with(Flags::WROTE, true)
            && (old.agent, old.time) == (stamp.agent, stamp.time)
        {
            cell.write.lanes |= stamp.lanes;
            return;
        }
        // The count of an operation's cells goes with the stamp.
        cell.write = Stamp::NONE;
        if old.time == 0 {
            // Nothing was written before.
        } else if cell.read.time == 0 && cell.read.agent == 0 {
            cell.read = old;
        } else {
            self.read_many(cell, old, ops);
        }
        if stamp.agent == OP {
            ops.remember(stamp.time, 1);
        }
        cell.write = stamp;
    }

    /// Records a read; `replaces` says whether it stands for an earlier one.
    #[inline(always)]
    pub(super) fn read(
        &mut self,
        cell: &mut Cell,
        stamp: Stamp,
        ops: &Ops,
        replaces: impl Fn(&Stamp) -> bool,
    ) {
        let old = cell.read;
        let is_same_step = (old.agent, old.time) == (stamp.agent, stamp.time);
        if is_same_step && old.agent != MANY && old.flags == stamp.flags {
            cell.read.lanes |= stamp.lanes;
            return;
        }
        if stamp.agent == OP {
            ops.remember(stamp.time, 1);
        }
        if old.agent != MANY && replaces(&old) {
            if old.agent == OP {
                ops.forget(old.time, 1);
            }
            cell.read = stamp;
            return;
        }
        self.read_many(cell, stamp, ops);
    }

    fn read_many(&mut self, cell: &mut Cell, stamp: Stamp, ops: &Ops) {
        let old = cell.read;
        if old.agent != MANY {
            cell.read = self.new_list([old, stamp]);
            return;
        }
        if self.lists[old.time as usize].cells > 1 {
            self.part_with(cell, ops);
        }
        let list = &mut self.lists[cell.read.time as usize].reads;
        for read in list.iter_mut() {
            if read.agent != stamp.agent || read.flags != stamp.flags {
                continue;
            }
            if read.time == stamp.time {
                read.lanes |= stamp.lanes;
                if stamp.agent == OP {
                    ops.forget(stamp.time, 1);
                }
                return;
            }
            // The same lanes later.
            if stamp.agent != OP && read.lanes & !stamp.lanes == 0 {
                *read = stamp;
                return;
            }
        }
        list.push(stamp);
    }

    /// A list of a cell's, in place of its read.
    fn new_list(&mut self, reads: impl IntoIterator<Item = Stamp>) -> Stamp {
        let number = self.free_lists.pop().unwrap_or_else(|| {
            self.lists.push(List::default());
            self.lists.len() as u32 - 1
        });
        let list = &mut self.lists[number as usize];
        list.cells = 1;
        list.reads.extend(reads);
        Stamp { agent: MANY, time: number, ..Stamp::NONE }
    }

    /// Gives the cell a list of its own in place of one that others have too.
    fn part_with(&mut self, cell: &mut Cell, ops: &Ops) {
        let list = &mut self.lists[cell.read.time as usize];
        list.cells -= 1;
        let reads = list.reads.clone();
        reads.iter().filter(|read| read.agent == OP).for_each(|read| ops.remember(read.time, 1));
        cell.read = self.new_list(reads);
    }

    /// Makes the first of these cells, as far as they are like one that was, what that one has
    /// become. Returns how many.
    #[inline]
    pub(super) fn replace(
        &mut self,
        cells: &mut [Cell],
        (was, is): &(Cell, Cell),
        ops: &Ops,
    ) -> usize {
        let mut count = 0;
        while let Some(cell) = cells.get_mut(count)
            && cell.is_like(was)
        {
            *cell = *is;
            count += 1;
        }
        if count > 0 {
            self.keep(is, count as u32, ops);
            self.release(was, count as u32, ops);
        }
        count
    }

    /// Counts more cells like this one.
    fn keep(&mut self, cell: &Cell, count: u32, ops: &Ops) {
        if cell.write.agent == OP {
            ops.remember(cell.write.time, count);
        }
        match cell.read.agent {
            OP => ops.remember(cell.read.time, count),
            MANY => self.lists[cell.read.time as usize].cells += count,
            _ => {}
        }
    }

    /// Counts fewer cells like this one, which is not split.
    fn release(&mut self, cell: &Cell, count: u32, ops: &Ops) {
        if cell.write.agent == OP {
            ops.forget(cell.write.time, count);
        }
        match cell.read.agent {
            OP => ops.forget(cell.read.time, count),
            MANY => {
                let List { reads, cells } = &mut self.lists[cell.read.time as usize];
                *cells -= count;
                if *cells == 0 {
                    let of_ops = reads.iter().filter(|read| read.agent == OP);
                    of_ops.for_each(|read| ops.forget(read.time, 1));
                    reads.clear();
                    self.free_lists.push(cell.read.time);
                }
            }
            _ => {}
        }
    }

    /// Makes the cell empty.
    #[inline(always)]
    pub(super) fn clear(&mut self, cell: &mut Cell, ops: &Ops) {
        if cell.read.agent >= SPLIT || cell.write.agent >= SPLIT {
            self.clear_slowly(cell, ops);
        }
        *cell = Cell::EMPTY;
    }

    #[cold]
    fn clear_slowly(&mut self, cell: &mut Cell, ops: &Ops) {
        if !cell.is_split() {
            self.release(cell, 1, ops);
            return;
        }
        let index = cell.write.time;
        self.parts_of(index).iter().for_each(|part| self.release(part, 1, ops));
        self.free_splits.push(index);
    }

    /// Splits the cell into one for each byte, unless it is split; their number.
    pub(super) fn split(&mut self, cell: &mut Cell, ops: &Ops) -> u32 {
        if cell.is_split() {
            return cell.write.time;
        }
        self.keep(cell, 3, ops);
        let index = self.free_splits.pop().unwrap_or_else(|| {
            self.splits.push([Cell::EMPTY; 4]);
            self.splits.len() as u32 - 1
        });
        self.splits[index as usize] = [*cell; 4];
        let write = Stamp { agent: SPLIT, time: index, ..Stamp::NONE };
        *cell = Cell { write, read: Stamp::NONE };
        index
    }

    /// The cells of a word's bytes, or the one of them all.
    pub(super) fn parts<'a>(&'a self, cell: &'a Cell) -> &'a [Cell] {
        match cell.is_split() {
            true => &self.splits[cell.write.time as usize],
            false => std::slice::from_ref(cell),
        }
    }

    /// Copies the cells of a split word's bytes.
    pub(super) fn parts_of(&self, split: u32) -> [Cell; 4] {
        self.splits[split as usize]
    }

    /// Puts them back.
    pub(super) fn put_parts(&mut self, split: u32, parts: [Cell; 4]) {
        self.splits[split as usize] = parts;
    }
}
