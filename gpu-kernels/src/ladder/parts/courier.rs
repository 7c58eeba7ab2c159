//! Tiles that travel through registers.

use super::Operand;
use crate::{Element, Packed, SharedTile, pack};
use cuda_std::thread;

/// A thread's part in bringing tiles of an operand into shared memory through registers: `N` packs
/// of 16 bytes of each tile.
///
/// The tile in shared memory has a row for each k. Where the matrix is contiguous along its outer
/// extent a pack lies in one of these rows; where it is contiguous along K a pack is a column of
/// the tile, and is written element by element: the transpose. A matrix that is neither, or not
/// aligned to 16 bytes, is read element by element.
#[derive(Clone, Copy)]
pub struct Courier<T, const N: usize> {
    operand: Operand<T>,
    /// Packs run along K.
    along_k: bool,
    /// Packs may be read as such.
    whole: bool,
    /// The thread's first pack: outer index and k of its first element.
    outer: usize,
    k: usize,
    /// From one pack of the thread to its next: outer index, or k.
    step: usize,
}

impl<T: Element, const N: usize> Courier<T, N> {
    /// For tiles of `outer` x `depth`, carried by `threads` threads.
    #[inline(always)]
    pub fn new(operand: Operand<T>, [outer, depth]: [usize; 2], threads: usize) -> Self {
        let along_k = operand.k_stride == 1 && operand.outer_stride != 1;
        let (stride, other) = match along_k {
            true => (operand.k_stride, operand.outer_stride),
            false => (operand.outer_stride, operand.k_stride),
        };
        let bytes = size_of::<T>() as u64;
        let whole = stride == 1
            && (operand.start as u64 | (other as u64).wrapping_mul(bytes)).is_multiple_of(16);
        let thread = thread::thread_idx_x() as usize;
        let across = if along_k { depth / T::LANES } else { outer / T::LANES };
        let (row, col) = (thread / across, thread % across * T::LANES);
        let (outer, k) = if along_k { (row, col) } else { (col, row) };
        Courier { operand, along_k, whole, outer, k, step: threads / across }
    }

    /// Outer index and k of the thread's pack `v`.
    #[inline(always)]
    fn place(&self, v: usize) -> (usize, usize) {
        match self.along_k {
            true => (self.outer + v * self.step, self.k),
            false => (self.outer, self.k + v * self.step),
        }
    }

    /// Reads the thread's packs of the next tile, of which `k_left` values of k lie in the matrix;
    /// what lies outside is 0.
    ///
    /// # Safety
    /// The matrix may be read.
    #[inline(always)]
    pub unsafe fn load(&mut self, depth: usize, k_left: u64) -> [T::Pack; N] {
        let mut packs = [T::ZEROS; N];
        for (v, lanes) in packs.iter_mut().enumerate() {
            let (outer, k) = self.place(v);
            let (outer_left, k_left) = (
                self.operand.outer_left.saturating_sub(outer as u64),
                k_left.saturating_sub(k as u64),
            );
            let source = self.operand.at(outer, k);
            let (left, other_left, stride) = match self.along_k {
                true => (k_left, outer_left, self.operand.k_stride),
                false => (outer_left, k_left, self.operand.outer_stride),
            };
            // SAFETY: only elements inside of the matrix are read.
            unsafe {
                if self.whole && left >= T::LANES as u64 && other_left > 0 {
                    *lanes = pack::read_global(source);
                } else if other_left > 0 {
                    for (l, lane) in lanes.as_mut().iter_mut().enumerate() {
                        if (l as u64) < left {
                            *lane = source.wrapping_offset(l as isize * stride as isize).read();
                        }
                    }
                }
            }
        }
        self.operand.advance(depth);
        packs
    }

    /// Writes the packs, widened, to their places in the tile, whose rows are `pitch` apart.
    ///
    /// # Safety
    /// The tile lies in shared memory, and no other thread touches these elements of it.
    #[inline(always)]
    pub unsafe fn store(&self, packs: &[T::Pack; N], tile: SharedTile<T::Sum>, pitch: usize) {
        for (v, lanes) in packs.iter().enumerate() {
            let (outer, k) = self.place(v);
            // SAFETY: the place lies in the tile.
            unsafe {
                let place = tile.add(k * pitch + outer);
                if self.along_k {
                    for (l, lane) in lanes.as_ref().iter().enumerate() {
                        place.add(l * pitch).write(lane.widen());
                    }
                } else {
                    for (group, lanes) in lanes.as_ref().chunks(T::Sum::LANES).enumerate() {
                        let mut sums = T::Sum::ZEROS;
                        for (sum, lane) in sums.as_mut().iter_mut().zip(lanes) {
                            *sum = lane.widen();
                        }
                        pack::write_shared(place.add(group * T::Sum::LANES), sums);
                    }
                }
            }
        }
    }
}
