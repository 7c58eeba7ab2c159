//! Shadow memory: for each word, the last write and the reads since.

use super::ops::Ops;

/// The agent of a stamp that is an operation's; its time is the operation's number.
pub(super) const OP: u16 = u16::MAX;
/// The agent in place of a read where there are several; its time is the list's number.
const MANY: u16 = u16::MAX - 1;
/// The agent in place of a write where bytes of the word were accessed apart; its time is the
/// number of the four cells.
const SPLIT: u16 = u16::MAX - 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flags {
    pub(super) strong: bool,
    /// Strong towards its own block alone.
    pub(super) of_block: bool,
    pub(super) is_async: bool,
    /// The operation's lanes are one actor.
    pub(super) whole_op: bool,
    /// Among the reads, a write before the last one, which need not be ordered after it.
    pub(super) wrote: bool,
}

impl Flags {
    pub(super) const NONE: Flags =
        Flags { strong: false, of_block: false, is_async: false, whole_op: false, wrote: false };
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
}

/// A word.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    pub(super) write: Stamp,
    read: Stamp,
}

impl Cell {
    pub(super) const EMPTY: Cell = Cell { write: Stamp::NONE, read: Stamp::NONE };

    #[inline(always)]
    pub(super) fn is_split(&self) -> bool {
        self.write.agent == SPLIT
    }
}

/// The words of a block's shared memory. They are made as soon as one is used.
#[derive(Debug)]
pub(super) struct Shadow {
    cells: Vec<Cell>,
    words: usize,
}

impl Shadow {
    pub(super) fn new(words: usize) -> Self {
        Shadow { cells: Vec::new(), words }
    }

    #[inline(always)]
    pub(super) fn cell(&mut self, word: usize) -> &mut Cell {
        if word >= self.cells.len() {
            self.grow(word);
        }
        &mut self.cells[word]
    }

    /// The bytes up to the last word that may have been accessed.
    pub(super) fn used_bytes(&self) -> u32 {
        self.cells.len() as u32 * 4
    }

    #[cold]
    fn grow(&mut self, word: usize) {
        self.cells.resize(self.words.max(word + 1), Cell::EMPTY);
    }
}

/// Lists of reads, and split words.
#[derive(Debug, Default)]
pub(super) struct Tables {
    lists: Vec<Vec<Stamp>>,
    free_lists: Vec<u32>,
    splits: Vec<[Cell; 4]>,
    free_splits: Vec<u32>,
}

impl Tables {
    /// The reads since the last write.
    #[inline(always)]
    pub(super) fn reads<'a>(&'a self, cell: &'a Cell) -> &'a [Stamp] {
        match cell.read.agent {
            MANY => &self.lists[cell.read.time as usize],
            _ => std::slice::from_ref(&cell.read),
        }
    }

    /// Records a write, after which the reads before it no longer count.
    #[inline(always)]
    pub(super) fn write(&mut self, cell: &mut Cell, stamp: Stamp, ops: &Ops) {
        self.clear(cell, ops);
        if stamp.agent == OP {
            ops.remember(stamp.time);
        }
        cell.write = stamp;
    }

    /// Records a strong write. Other strong writes need not be ordered after it, so that the one
    /// before and the reads before still count for what comes after.
    pub(super) fn write_too(&mut self, cell: &mut Cell, stamp: Stamp, ops: &Ops) {
        let mut old = cell.write;
        old.flags.wrote = true;
        if old.flags == (Flags { wrote: true, ..stamp.flags })
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
            ops.remember(stamp.time);
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
            ops.remember(stamp.time);
        }
        if old.agent != MANY && replaces(&old) {
            if old.agent == OP {
                ops.forget(old.time);
            }
            cell.read = stamp;
            return;
        }
        self.read_many(cell, stamp, ops);
    }

    fn read_many(&mut self, cell: &mut Cell, stamp: Stamp, ops: &Ops) {
        let old = cell.read;
        if old.agent != MANY {
            let list = self.new_list();
            self.lists[list as usize].extend([old, stamp]);
            cell.read = Stamp { agent: MANY, time: list, ..Stamp::NONE };
            return;
        }
        let list = &mut self.lists[old.time as usize];
        for read in list.iter_mut() {
            if read.agent != stamp.agent || read.flags != stamp.flags {
                continue;
            }
            if read.time == stamp.time {
                read.lanes |= stamp.lanes;
                if stamp.agent == OP {
                    ops.forget(stamp.time);
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

    fn new_list(&mut self) -> u32 {
        self.free_lists.pop().unwrap_or_else(|| {
            self.lists.push(Vec::new());
            self.lists.len() as u32 - 1
        })
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
        match cell.write.agent {
            OP => ops.forget(cell.write.time),
            SPLIT => {
                let index = cell.write.time;
                for byte in 0..4 {
                    let mut part = self.take_part(index, byte);
                    self.clear(&mut part, ops);
                    self.put_part(index, byte, part);
                }
                self.free_splits.push(index);
            }
            _ => {}
        }
        match cell.read.agent {
            OP => ops.forget(cell.read.time),
            MANY => {
                let list = &mut self.lists[cell.read.time as usize];
                list.iter().filter(|read| read.agent == OP).for_each(|read| ops.forget(read.time));
                list.clear();
                self.free_lists.push(cell.read.time);
            }
            _ => {}
        }
    }

    /// Splits the cell into one for each byte, unless it is split; their number.
    pub(super) fn split(&mut self, cell: &mut Cell, ops: &Ops) -> u32 {
        if cell.is_split() {
            return cell.write.time;
        }
        let mut parts = [*cell; 4];
        for part in &mut parts[1..] {
            if part.write.agent == OP {
                ops.remember(part.write.time);
            }
            for read in self.reads(cell) {
                if read.agent == OP {
                    ops.remember(read.time);
                }
            }
            if cell.read.agent == MANY {
                let list = self.new_list();
                self.lists[list as usize] = self.lists[cell.read.time as usize].clone();
                part.read.time = list;
            }
        }
        let index = self.free_splits.pop().unwrap_or_else(|| {
            self.splits.push([Cell::EMPTY; 4]);
            self.splits.len() as u32 - 1
        });
        self.splits[index as usize] = parts;
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

    /// Takes the cell of a byte out of a split word, for a moment.
    pub(super) fn take_part(&mut self, split: u32, byte: usize) -> Cell {
        std::mem::replace(&mut self.splits[split as usize][byte], Cell::EMPTY)
    }

    /// Puts it back.
    pub(super) fn put_part(&mut self, split: u32, byte: usize, cell: Cell) {
        self.splits[split as usize][byte] = cell;
    }
}
