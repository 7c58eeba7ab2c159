//! Tiles that are stored as their matrix is.

use super::Operand;
use crate::{Element, SharedTile, pack};
use cuda_std::{async_copy, thread};
use gemm_spec::Tiles;

impl<T: Element> Operand<T> {
    /// Whether packs of 16 bytes along the outer extent are packs of the matrix: it is contiguous
    /// there, whole packs fill it, and every row of it starts at a multiple of 16 bytes.
    #[inline(always)]
    pub fn packs_across(&self) -> bool {
        self.outer_stride == 1
            && aligned(self.start, self.k_stride)
            && self.outer_left.is_multiple_of(T::LANES as u64)
    }

    /// The same along K, of which there are `depth` values.
    #[inline(always)]
    pub fn packs_along_k(&self, depth: u64) -> bool {
        self.k_stride == 1
            && aligned(self.start, self.outer_stride)
            && depth.is_multiple_of(T::LANES as u64)
    }
}

#[inline(always)]
fn aligned<T>(start: *const T, stride: i64) -> bool {
    (start as u64 | (stride as u64).wrapping_mul(size_of::<T>() as u64)).is_multiple_of(16)
}

/// A thread's part in bringing tiles of an operand into shared memory as they are: `N` packs of 16
/// bytes of each; the first tile holds what K has more than whole tiles.
///
/// With ALONG_K a row of the stored tile runs along K, else along the outer extent. With PACKS its
/// packs are packs of the matrix, as [`Operand::packs_along_k`] or [`Operand::packs_across`] says,
/// and are copied asynchronously; else they are gathered element by element.
#[derive(Clone, Copy)]
pub struct TileCourier<T, const N: usize, const ALONG_K: bool, const PACKS: bool> {
    /// The thread's first element of the next tile.
    source: *const T,
    /// Elements of the matrix from one of the thread's packs to its next, from one tile to the
    /// next, and from one k to the next.
    step: i64,
    tile: i64,
    k_stride: i64,
    /// Elements of the matrix from one element of a pack to the next, where it is gathered.
    stride: i64,
    /// Elements in a stored tile before the thread's first pack.
    target: usize,
    /// Outer indices from the first pack's to the end of the matrix; 0 or less: none.
    room: i32,
    /// k of the first pack.
    k: i32,
}

impl<T: Element, const N: usize, const ALONG_K: bool, const PACKS: bool>
    TileCourier<T, N, ALONG_K, PACKS>
{
    /// For tiles of `outer` x `depth`, carried by `threads` threads.
    #[inline(always)]
    pub fn new(operand: Operand<T>, [outer, depth]: [usize; 2], threads: usize) -> Self {
        let thread = thread::thread_idx_x() as usize;
        let across = if ALONG_K { depth / T::LANES } else { outer / T::LANES };
        let (row, col) = (thread / across, thread % across * T::LANES);
        let (first_outer, first_k) = if ALONG_K { (row, col) } else { (col, row) };
        let pitch = Tiles::tensor_pitch([outer, depth], ALONG_K, size_of::<T>());
        let (row_stride, stride) = match ALONG_K {
            true => (operand.outer_stride, operand.k_stride),
            false => (operand.k_stride, operand.outer_stride),
        };
        TileCourier {
            source: operand.at(first_outer, first_k),
            step: (threads / across) as i64 * row_stride,
            tile: depth as i64 * operand.k_stride,
            k_stride: operand.k_stride,
            stride,
            target: row * pitch + col,
            room: operand.outer_left.min(outer as u64) as i32 - first_outer as i32,
            k: first_k as i32,
        }
    }

    /// Starts the copies of the first tile, of which `depth` values of k are wanted; what lies
    /// outside of the matrix becomes 0. `extents` and `threads` are those of [`Self::new`].
    ///
    /// # Safety
    /// The matrix may be read, as far as `depth` goes. The tile lies in shared memory, and no other
    /// thread touches these elements of it before the copies have arrived.
    #[inline(always)]
    pub unsafe fn start_first(
        &mut self,
        tile: SharedTile<T>,
        extents: [usize; 2],
        threads: usize,
        depth: usize,
    ) {
        // SAFETY: the caller's promise.
        unsafe { self.bring(tile, extents, threads, depth as i32, true) };
        self.source = self.source.wrapping_offset(depth as isize * self.k_stride as isize);
    }

    /// Starts the copies of the next tile, all of it, if `more`.
    ///
    /// # Safety
    /// As [`Self::start_first`].
    #[inline(always)]
    pub unsafe fn start(
        &mut self,
        tile: SharedTile<T>,
        extents: [usize; 2],
        threads: usize,
        more: bool,
    ) {
        // SAFETY: the caller's promise.
        unsafe { self.bring(tile, extents, threads, i32::MAX, more) };
        self.source = self.source.wrapping_offset(self.tile as isize);
    }

    #[inline(always)]
    unsafe fn bring(
        &self,
        tile: SharedTile<T>,
        [outer, depth]: [usize; 2],
        threads: usize,
        k_left: i32,
        more: bool,
    ) {
        let pitch = Tiles::tensor_pitch([outer, depth], ALONG_K, size_of::<T>());
        let across = if ALONG_K { depth / T::LANES } else { outer / T::LANES };
        let rows = threads / across;
        // Outer indices and values of k from pack v on to the end.
        let left = |v: usize| match ALONG_K {
            true => (self.room - (v * rows) as i32, k_left.saturating_sub(self.k)),
            false => (self.room, k_left.saturating_sub(self.k + (v * rows) as i32)),
        };
        // SAFETY: the places lie in the tile; only what lies inside of the matrix is read.
        unsafe {
            let target = tile.add(self.target);
            let mut source = self.source;
            if PACKS {
                for v in 0..N {
                    let (outer_left, k_left) = left(v);
                    let wanted = outer_left > 0 && k_left > 0;
                    let target = target.add(v * rows * pitch).cast::<u128>();
                    async_copy::copy_if(more, target, source.cast(), wanted);
                    source = source.wrapping_offset(self.step as isize);
                }
            } else if more {
                // Through registers, and slower: a pack's reads are waited for before it is
                // written. N.B. The number of packs is computed where a constant would do, so that
                // the loop stays one: unrolled, its addresses take the registers that the sums
                // need.
                for v in 0..threads * N / thread::block_dim_x() as usize {
                    let (outer_left, k_left) = left(v);
                    let mut lanes = T::ZEROS;
                    for (l, lane) in lanes.as_mut().iter_mut().enumerate() {
                        let l = l as i32;
                        let inside = match ALONG_K {
                            true => outer_left > 0 && k_left > l,
                            false => outer_left > l && k_left > 0,
                        };
                        if inside {
                            *lane = source
                                .wrapping_offset((i64::from(l) * self.stride) as isize)
                                .read();
                        }
                    }
                    pack::write_shared(target.add(v * rows * pitch), lanes);
                    source = source.wrapping_offset(self.step as isize);
                }
            }
        }
    }
}
