//! What a launch did, counted.

use crate::program::CLASSES;

/// Counts of a launch. An instruction counts once for the warp that executes it.
///
/// Bytes are those of loads, stores, atomics and copies, bulk ones included. What `wgmma` reads of
/// shared memory is not counted, nor are accesses and sectors of bulk copies. A sector and a bank
/// are those of the CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory" and "Shared
/// Memory and Memory Banks".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Instructions by class, as in [`Statistics::classes`].
    pub(crate) instructions: [u64; CLASSES],
    /// Bytes that lanes loaded from global memory.
    pub global_loaded: u64,
    /// Bytes that lanes stored to global memory.
    pub global_stored: u64,
    /// Sectors of 32 bytes that warps' accesses to global memory touched, each access for itself.
    pub global_sectors: u64,
    /// Accesses of warps to global memory.
    pub global_accesses: u64,
    /// Bytes that lanes loaded from shared memory.
    pub shared_loaded: u64,
    /// Bytes that lanes stored to shared memory.
    pub shared_stored: u64,
    /// Accesses of warps to shared memory.
    pub shared_accesses: u64,
    /// Rounds that those accesses take in 32 banks of 4 bytes beyond the fewest possible.
    pub bank_conflicts: u64,
    /// How often each line of the text was executed, by warps; empty where that is not counted.
    pub(crate) lines: Vec<u64>,
}

impl Statistics {
    /// What has been counted since an earlier state of the same counts.
    pub fn since(&self, earlier: &Statistics) -> Statistics {
        let mut since = self.clone();
        let instructions = since.instructions.iter_mut().zip(&earlier.instructions);
        let lines = since.lines.iter_mut().zip(&earlier.lines);
        instructions.chain(lines).for_each(|(count, before)| *count -= before);
        since.global_loaded -= earlier.global_loaded;
        since.global_stored -= earlier.global_stored;
        since.global_sectors -= earlier.global_sectors;
        since.global_accesses -= earlier.global_accesses;
        since.shared_loaded -= earlier.shared_loaded;
        since.shared_stored -= earlier.shared_stored;
        since.shared_accesses -= earlier.shared_accesses;
        since.bank_conflicts -= earlier.bank_conflicts;
        since
    }

    /// The names of the classes of instructions, each with the number executed.
    pub fn classes(&self) -> [(&'static str, u64); CLASSES] {
        const NAMES: [&str; CLASSES] =
            ["integer", "float", "move", "memory", "control", "warp", "synchronization", "matrix"];
        std::array::from_fn(|i| (NAMES[i], self.instructions[i]))
    }

    /// Instructions of all classes.
    pub fn total(&self) -> u64 {
        self.instructions.iter().sum()
    }

    /// How often warps executed instructions of a line of the text, from 1. Counted where
    /// [`Options::statistics`](crate::Options::statistics) asks for it.
    pub fn executed(&self, line: u32) -> u64 {
        self.lines.get(line as usize).copied().unwrap_or(0)
    }

    /// Counts an execution of a line.
    pub(crate) fn count_line(&mut self, line: u32) {
        let line = line as usize;
        if self.lines.len() <= line {
            self.lines.resize(line + 1, 0);
        }
        self.lines[line] += 1;
    }

    /// Adds the counts of another launch, or another part of the launch.
    pub fn add(&mut self, other: &Statistics) {
        for (sum, more) in self.instructions.iter_mut().zip(other.instructions) {
            *sum += more;
        }
        self.global_loaded += other.global_loaded;
        self.global_stored += other.global_stored;
        self.global_sectors += other.global_sectors;
        self.global_accesses += other.global_accesses;
        self.shared_loaded += other.shared_loaded;
        self.shared_stored += other.shared_stored;
        self.shared_accesses += other.shared_accesses;
        self.bank_conflicts += other.bank_conflicts;
        self.lines.resize(self.lines.len().max(other.lines.len()), 0);
        for (sum, more) in self.lines.iter_mut().zip(&other.lines) {
            *sum += more;
        }
    }
}
