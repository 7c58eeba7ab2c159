//! Tiles that travel past the registers.

use super::Operand;
use crate::{Element, SharedTile};
use cuda_std::{async_copy, thread};

/// A thread's part in bringing tiles of an operand into shared memory by asynchronous copies: `N`
/// elements of each tile, where `PACKS` in packs of 16 bytes, which have to be packs of the matrix
/// and of the tile, else one by one.
///
/// The first tile holds what K has more than whole tiles, so that later ones need not ask where K
/// ends. There is no branch in [`AsyncCourier::start`]: the copies stand among the multiplications,
/// and a branch would keep the compiler from mixing the two.
#[derive(Clone, Copy)]
pub struct AsyncCourier<T, const N: usize, const PACKS: bool> {
    /// The thread's first element of the next tile.
    source: *const T,
    /// From one of the thread's copies to the next: in the matrix, and in the tile.
    source_step: i64,
    target_step: usize,
    /// From one tile to the next.
    stride: i64,
    /// The place of its first copy in the tile.
    target: usize,
    /// Bit v: copy v lies inside of the matrix along the outer extent.
    inside: u32,
    /// k of the first copy, and from one to the next.
    k: i32,
    k_step: i32,
}

impl<T: Element, const N: usize, const PACKS: bool> AsyncCourier<T, N, PACKS> {
    /// For tiles of `outer` x `depth` whose rows are `pitch` apart, carried by `threads` threads.
    #[inline(always)]
    pub fn new(
        operand: Operand<T>,
        [outer, depth]: [usize; 2],
        pitch: usize,
        threads: usize,
    ) -> Self {
        let along_k = operand.k_stride == 1 && operand.outer_stride != 1;
        let thread = thread::thread_idx_x() as usize;
        // The place of the first copy, and the step to the next.
        let ((o, k), (outer_step, k_step)) = if PACKS {
            let across = outer / T::LANES;
            ((thread % across * T::LANES, thread / across), (0, threads / across))
        } else if along_k {
            ((thread / depth, thread % depth), (threads / depth, 0))
        } else {
            ((thread % outer, thread / outer), (0, threads / outer))
        };
        let mut inside = 0;
        for v in 0..N {
            inside |= u32::from(((o + v * outer_step) as u64) < operand.outer_left) << v;
        }
        AsyncCourier {
            source: operand.at(o, k),
            source_step: outer_step as i64 * operand.outer_stride
                + k_step as i64 * operand.k_stride,
            target_step: k_step * pitch + outer_step,
            stride: depth as i64 * operand.k_stride,
            target: k * pitch + o,
            inside,
            k: k as i32,
            k_step: k_step as i32,
        }
    }

    /// Starts the copies of a tile of which the first `depth` values of k are wanted, and goes on
    /// to the next tile; what lies outside of the matrix becomes 0.
    ///
    /// # Safety
    /// The matrix may be read, as far as `depth` goes. The tile lies in shared memory, and no other
    /// thread touches these elements of it before the copies have arrived.
    #[inline(always)]
    pub unsafe fn start_first(&mut self, tile: SharedTile<T>, depth: i32, k_stride: i64) {
        let in_k = |v: usize| self.k + v as i32 * self.k_step < depth;
        // SAFETY: the caller's promise.
        unsafe { self.copy(tile, true, in_k) };
        self.source = self.source.wrapping_offset(depth as isize * k_stride as isize);
    }

    /// Starts the copies of a whole tile, if `more`, and goes on to the next.
    ///
    /// # Safety
    /// As [`AsyncCourier::start_first`].
    #[inline(always)]
    pub unsafe fn start(&mut self, tile: SharedTile<T>, more: bool) {
        // SAFETY: the caller's promise.
        unsafe { self.copy(tile, more, |_| true) };
        self.source = self.source.wrapping_offset(self.stride as isize);
    }

    #[inline(always)]
    unsafe fn copy(&self, tile: SharedTile<T>, more: bool, in_k: impl Fn(usize) -> bool) {
        // SAFETY: the places lie in the tile; only elements inside of the matrix are wanted.
        unsafe {
            let mut target = tile.add(self.target);
            let mut source = self.source;
            for v in 0..if PACKS { N / T::LANES } else { N } {
                let wanted = self.inside >> v & 1 != 0 && in_k(v);
                if PACKS {
                    async_copy::copy_if(more, target.cast::<u128>(), source.cast(), wanted);
                } else {
                    async_copy::copy_if(more, target, source, wanted);
                }
                source = source.wrapping_offset(self.source_step as isize);
                target = target.add(self.target_step);
            }
        }
    }
}
