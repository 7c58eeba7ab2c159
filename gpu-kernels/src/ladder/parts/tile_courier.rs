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

    /// Whether a tile of it is stored in rows along K, as the matrix is.
    #[inline(always)]
    pub fn is_along_k(&self) -> bool {
        self.k_stride == 1 && self.outer_stride != 1
    }

    /// Whether the packs of a tile that is stored so are packs of the matrix.
    #[inline(always)]
    pub fn packs(&self, along_k: bool, depth: u64) -> bool {
        if along_k { self.packs_along_k(depth) } else { self.packs_across() }
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
/// and are copied asynchronously; else single elements are, and where these are too small for it
/// packs are gathered through registers.
#[derive(Clone, Copy)]
pub struct TileCourier<T, const N: usize, const ALONG_K: bool, const PACKS: bool> {
    /// The thread's first element of the next tile, and its place.
    source: *const T,
    target: SharedTile<T>,
    /// Elements of the matrix from one of the thread's copies to its next, from one tile to the
    /// next, and from one k to the next.
    step: i64,
    tile: i64,
    k_stride: i64,
    /// Elements of the matrix from one element of a pack to the next, where it is gathered.
    stride: i64,
    /// Outer indices from the first copy's to the end of the matrix; 0 or less: none.
    room: i32,
    /// k of the first copy.
    k: i32,
}

impl<T: Element, const N: usize, const ALONG_K: bool, const PACKS: bool>
    TileCourier<T, N, ALONG_K, PACKS>
{
    /// Elements of one copy, and copies of a tile.
    const UNIT: usize = if PACKS || size_of::<T>() < 4 { T::LANES } else { 1 };
    const COPIES: usize = N * T::LANES / Self::UNIT;

    /// Copies to a stored row, and the stored rows that the threads fill at once.
    #[inline(always)]
    fn across_and_rows([outer, depth]: [usize; 2], threads: usize) -> (usize, usize) {
        let across = if ALONG_K { depth } else { outer } / Self::UNIT;
        (across, threads / across)
    }

    /// For tiles of `outer` x `depth`, the first at `tile`, carried by `threads` threads.
    ///
    /// # Safety
    /// The tile lies in shared memory.
    #[inline(always)]
    pub unsafe fn new(
        operand: Operand<T>,
        tile: SharedTile<T>,
        extents: [usize; 2],
        threads: usize,
    ) -> Self {
        let thread = thread::thread_idx_x() as usize;
        let (across, rows) = Self::across_and_rows(extents, threads);
        let (row, col) = (thread / across, thread % across * Self::UNIT);
        let (outer, k) = if ALONG_K { (row, col) } else { (col, row) };
        let pitch = Tiles::tensor_pitch(extents, ALONG_K, size_of::<T>());
        let (row_stride, stride) = match ALONG_K {
            true => (operand.outer_stride, operand.k_stride),
            false => (operand.k_stride, operand.outer_stride),
        };
        TileCourier {
            source: operand.at(outer, k),
            // SAFETY: the thread's first copy lies in the tile.
            target: unsafe { tile.add(row * pitch + col) },
            step: rows as i64 * row_stride,
            tile: extents[1] as i64 * operand.k_stride,
            k_stride: operand.k_stride,
            stride,
            room: operand.outer_left.min(extents[0] as u64) as i32 - outer as i32,
            k: k as i32,
        }
    }

    /// Starts the copies of the first tile, of which `depth` values of k are wanted; what lies
    /// outside of the matrix becomes 0. The next tile's place is `hop` elements further.
    /// `extents` and `threads` are those of [`Self::new`].
    ///
    /// # Safety
    /// The matrix may be read, as far as `depth` goes. The tile lies in shared memory, and no other
    /// thread touches these elements of it before the copies have arrived.
    #[inline(always)]
    pub unsafe fn start_first(
        &mut self,
        extents: [usize; 2],
        threads: usize,
        depth: usize,
        hop: isize,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            self.bring(extents, threads, depth as i32, true);
            self.target = self.target.offset(hop);
        }
        self.source = self.source.wrapping_offset(depth as isize * self.k_stride as isize);
    }

    /// Starts the copies of the next tile, all of it, if `more`.
    ///
    /// # Safety
    /// As [`Self::start_first`].
    #[inline(always)]
    pub unsafe fn start(&mut self, extents: [usize; 2], threads: usize, more: bool, hop: isize) {
        // SAFETY: the caller's promise.
        unsafe {
            self.bring(extents, threads, i32::MAX, more);
            self.target = self.target.offset(hop);
        }
        self.source = self.source.wrapping_offset(self.tile as isize);
    }

    #[inline(always)]
    unsafe fn bring(&self, extents: [usize; 2], threads: usize, k_left: i32, more: bool) {
        let pitch = Tiles::tensor_pitch(extents, ALONG_K, size_of::<T>());
        let (_, rows) = Self::across_and_rows(extents, threads);
        // Outer indices and values of k from copy v on to the end.
        let left = |v: usize| match ALONG_K {
            true => (self.room - (v * rows) as i32, k_left.saturating_sub(self.k)),
            false => (self.room, k_left.saturating_sub(self.k + (v * rows) as i32)),
        };
        let mut source = self.source;
        // SAFETY: the places lie in the tile; only what lies inside of the matrix is read.
        unsafe {
            if Self::UNIT == 1 || PACKS {
                for v in 0..Self::COPIES {
                    let (outer_left, k_left) = left(v);
                    let wanted = outer_left > 0 && k_left > 0;
                    let target = self.target.add(v * rows * pitch);
                    match (PACKS, size_of::<T>()) {
                        (true, _) => {
                            async_copy::copy_if(more, target.cast::<u128>(), source.cast(), wanted);
                        }
                        (false, 8) => {
                            async_copy::copy_if(more, target.cast::<u64>(), source.cast(), wanted);
                        }
                        _ => {
                            async_copy::copy_if(more, target.cast::<u32>(), source.cast(), wanted);
                        }
                    }
                    source = source.wrapping_offset(self.step as isize);
                }
            } else if more {
                // N.B. The number of packs is computed where a constant would do, so that the loop
                // stays one: unrolled, its addresses take the registers that the sums need.
                for v in 0..threads * N / thread::block_dim_x() as usize {
                    let (outer_left, k_left) = left(v);
                    let mut lanes = T::ZEROS;
                    for (l, lane) in lanes.as_mut().iter_mut().enumerate() {
                        let inside = match ALONG_K {
                            true => outer_left > 0 && k_left > l as i32,
                            false => outer_left > l as i32 && k_left > 0,
                        };
                        if inside {
                            *lane =
                                source.wrapping_offset(l as isize * self.stride as isize).read();
                        }
                    }
                    pack::write_shared(self.target.add(v * rows * pitch), lanes);
                    source = source.wrapping_offset(self.step as isize);
                }
            }
        }
    }
}
