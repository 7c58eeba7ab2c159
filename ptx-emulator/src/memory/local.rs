//! Local memory of a warp: the same addresses for each lane, contents of its own for each.
//!
//! Reads of what nobody wrote aren't reported: compilers copy the padding of structures, and set a
//! bit-field's bits one after the other. Such bytes have a pattern that shows in results.

use super::UNWRITTEN;

/// A byte of each lane.
type Bytes = [u8; 32];

/// A stack that grows with the calls. Parameters of device functions live here too.
#[derive(Debug, Default)]
pub(crate) struct LocalMemory {
    bytes: Vec<Bytes>,
}

/// The most bytes of a thread, in all its calls (CUDA C++ Programming Guide, technical
/// specifications: 512 KB), and what the frames leave free between them.
const MOST: u64 = (512 << 10) + (64 << 10);
/// Local addresses below this one, which is a multiple of each alignment, are nobody's.
const START: u64 = 1 << 16;

impl LocalMemory {
    /// The index of an aligned frame's first byte, above what is in use.
    fn next(&self, alignment: u64) -> usize {
        self.bytes.len().next_multiple_of(alignment.max(64) as usize)
    }

    /// Whether there is room for a frame above what is in use.
    pub fn has_room(&self, bytes: u64, alignment: u64) -> bool {
        self.next(alignment) as u64 + bytes <= MOST
    }

    /// Space for a frame above what is in use, and its first address.
    pub fn push(&mut self, bytes: u64, alignment: u64) -> u64 {
        let base = self.next(alignment);
        let end = base + bytes as usize;
        self.bytes.resize(end, [UNWRITTEN; 32]);
        base as u64 + START
    }

    /// Drops the frame at `base` and all above it.
    pub fn pop(&mut self, base: u64) {
        self.bytes.truncate((base - START) as usize);
    }

    /// The index of a byte, where all `size` bytes from it are there.
    pub fn index(&self, address: u64, size: u64) -> Option<usize> {
        let index = address.checked_sub(START)?;
        (index.checked_add(size)? <= self.bytes.len() as u64).then_some(index as usize)
    }

    /// The value of `size` bytes.
    pub fn load(&self, index: usize, size: usize, lane: usize) -> u64 {
        let mut bytes = [0; 8];
        for (i, byte) in bytes[..size].iter_mut().enumerate() {
            *byte = self.bytes[index + i][lane];
        }
        u64::from_le_bytes(bytes)
    }

    /// Writes `size` bytes.
    pub fn store(&mut self, index: usize, size: usize, lane: usize, value: u64) {
        for (i, byte) in value.to_le_bytes()[..size].iter().enumerate() {
            self.bytes[index + i][lane] = *byte;
        }
    }

    /// Copies bytes of the lanes of `mask`.
    pub fn copy(&mut self, from: u64, to: u64, bytes: u64, mask: u32) {
        let (from, to) = ((from - START) as usize, (to - START) as usize);
        for i in 0..bytes as usize {
            for lane in (0..32).filter(|lane| mask >> lane & 1 == 1) {
                self.bytes[to + i][lane] = self.bytes[from + i][lane];
            }
        }
    }
}
