//! Local memory of a warp: the same addresses for each lane, contents of its own for each.

/// A byte of each lane.
type Bytes = [u8; 32];

/// A stack that grows with the calls. Parameters of device functions live here too.
#[derive(Debug, Default)]
pub(crate) struct LocalMemory {
    bytes: Vec<Bytes>,
    /// A bit for each lane that has written the byte.
    written: Vec<u32>,
}

/// Local addresses below this one are nobody's.
const START: u64 = 16;

impl LocalMemory {
    /// Space for a frame above what is in use, and its first address.
    pub fn push(&mut self, bytes: u64) -> u64 {
        let base = self.bytes.len().next_multiple_of(64);
        let end = base + bytes as usize;
        self.bytes.resize(end, [0; 32]);
        self.written.resize(end, 0);
        base as u64 + START
    }

    /// Drops the frame at `base` and all above it.
    pub fn pop(&mut self, base: u64) {
        self.bytes.truncate((base - START) as usize);
        self.written.truncate((base - START) as usize);
    }

    /// The index of a byte, where all `size` bytes from it are there.
    pub fn index(&self, address: u64, size: u64) -> Option<usize> {
        let index = address.checked_sub(START)?;
        (index.checked_add(size)? <= self.bytes.len() as u64).then_some(index as usize)
    }

    /// The value of `size` bytes, and whether all of them were written.
    pub fn load(&self, index: usize, size: usize, lane: usize) -> (u64, bool) {
        let mut bytes = [0; 8];
        let mut written = true;
        for (i, byte) in bytes[..size].iter_mut().enumerate() {
            *byte = self.bytes[index + i][lane];
            written &= self.written[index + i] >> lane & 1 == 1;
        }
        (u64::from_le_bytes(bytes), written)
    }

    /// Writes `size` bytes.
    pub fn store(&mut self, index: usize, size: usize, lane: usize, value: u64) {
        for (i, byte) in value.to_le_bytes()[..size].iter().enumerate() {
            self.bytes[index + i][lane] = *byte;
            self.written[index + i] |= 1 << lane;
        }
    }

    /// Copies bytes of the lanes of `mask`, with what is known of their being written.
    pub fn copy(&mut self, from: u64, to: u64, bytes: u64, mask: u32) {
        let (from, to) = ((from - START) as usize, (to - START) as usize);
        for i in 0..bytes as usize {
            for lane in (0..32).filter(|lane| mask >> lane & 1 == 1) {
                self.bytes[to + i][lane] = self.bytes[from + i][lane];
            }
            let written = self.written[from + i] & mask;
            self.written[to + i] = self.written[to + i] & !mask | written;
        }
    }
}
