//! Tiles that are stored as their matrix is.

use super::{Operand, TileShape};
use crate::{Element, SharedTile, pack};
use cuda_std::{async_copy, misc, thread};
use gemm_spec::Tiles;

impl<T: Element> Operand<T> {
    /// Whether it is contiguous along the outer extent, and every row of it starts at a multiple of
    /// 16 bytes.
    #[inline(always)]
    pub fn aligned_across(&self) -> bool {
        self.outer_stride == 1 && aligned(self.start, self.k_stride)
    }

    /// Whether packs of 16 bytes along the outer extent are packs of the matrix, which fill it.
    #[inline(always)]
    pub fn packs_across(&self) -> bool {
        self.aligned_across() && self.outer_left.is_multiple_of(T::LANES as u64)
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
    /// What the thread's last copy was of, or would have been of in a tile before the first.
    source: *const T,
    /// The place of its first copy in the tile.
    target: SharedTile<T>,
    /// Bytes of the matrix from a tile's last copy to the next one's first, from one copy to the
    /// next, and from one k to the next.
    rest: i64,
    step: i64,
    k_stride: i64,
    /// Bytes of the matrix from one element of a pack to the next, where it is gathered.
    stride: i64,
    /// Outer indices from the first copy's to the end of the matrix; 0 or less: none.
    room: i32,
    /// k of the first copy.
    k: i32,
}

impl<T: Element, const N: usize, const ALONG_K: bool, const PACKS: bool>
    TileCourier<T, N, ALONG_K, PACKS>
{
    /// Whether packs are gathered through registers: elements of 2 bytes are too small for an
    /// asynchronous copy.
    const GATHERED: bool = !PACKS && size_of::<T>() < 4;
    /// Elements of one copy.
    const UNIT: usize = if PACKS || Self::GATHERED { T::LANES } else { 1 };
    /// The thread's copies of a tile.
    pub const COPIES: usize = N * T::LANES / Self::UNIT;

    /// Copies to a stored row, and the stored rows that the threads fill at once.
    #[inline(always)]
    fn across_and_rows(shape: TileShape) -> (usize, usize) {
        let across = if ALONG_K { shape.depth } else { shape.outer } / Self::UNIT;
        (across, shape.threads / across)
    }

    /// For tiles of that shape, the first at `tile`; the pitch is that of stored rows.
    ///
    /// # Safety
    /// The tile lies in shared memory.
    #[inline(always)]
    pub unsafe fn new(operand: Operand<T>, tile: SharedTile<T>, shape: TileShape) -> Self {
        let thread = thread::thread_idx_x() as usize;
        let (across, rows) = Self::across_and_rows(shape);
        let (row, col) = (thread / across, thread % across * Self::UNIT);
        let (outer, k) = if ALONG_K { (row, col) } else { (col, row) };
        let place = match size_of::<T>() {
            1 | 2 => {
                assert!(rows.is_multiple_of(8), "a thread's copies change places alike");
                Tiles::swizzled(row, thread % across, across) * Self::UNIT
            }
            _ => col,
        };
        let bytes = size_of::<T>() as i64;
        let (outer_stride, k_stride) = (operand.outer_stride * bytes, operand.k_stride * bytes);
        let (row_stride, stride) = match ALONG_K {
            true => (outer_stride, k_stride),
            false => (k_stride, outer_stride),
        };
        let step = rows as i64 * row_stride;
        let rest = shape.depth as i64 * k_stride - (Self::COPIES as i64 - 1) * step;
        TileCourier {
            source: operand.at(outer, k).wrapping_byte_offset(-rest as isize),
            // SAFETY: the thread's first copy lies in the tile.
            target: unsafe { tile.add(row * shape.pitch + place) },
            rest,
            step,
            k_stride,
            stride,
            room: operand.outer_left.min(shape.outer as u64) as i32 - outer as i32,
            k: k as i32,
        }
    }

    /// Starts the copies of the first tile, of which `depth` values of k are wanted; what lies
    /// outside of the matrix becomes 0.
    ///
    /// # Safety
    /// The matrix may be read, as far as `depth` goes. The tile lies in shared memory, and no other
    /// thread touches these elements of it before the copies have arrived.
    #[inline(always)]
    pub unsafe fn start_first(&mut self, shape: TileShape, depth: usize) {
        let next = self.source.wrapping_byte_offset(depth as isize * self.k_stride as isize);
        for v in 0..Self::COPIES {
            // SAFETY: the caller's promise.
            unsafe { self.bring(shape, v, depth as i32, true) };
        }
        self.source = next;
    }

    /// Starts copy number `v` of the next tile, if `more`; all of them, one after the other, make a
    /// whole tile.
    ///
    /// # Safety
    /// As [`Self::start_first`].
    #[inline(always)]
    pub unsafe fn start(&mut self, shape: TileShape, v: usize, more: bool) {
        // SAFETY: the caller's promise.
        unsafe { self.bring(shape, v, i32::MAX, more) };
    }

    /// Goes to the stage so many bytes further.
    ///
    /// # Safety
    /// A tile may be written there.
    #[inline(always)]
    pub unsafe fn hop(&mut self, bytes: isize) {
        // SAFETY: the caller's promise.
        self.target = unsafe { self.target.cast::<u8>().offset(bytes).cast() };
    }

    #[inline(always)]
    unsafe fn bring(&mut self, shape: TileShape, v: usize, k_left: i32, more: bool) {
        let (_, rows) = Self::across_and_rows(shape);
        let (room, k) = (self.room, self.k);
        // Outer indices and values of k from copy v on to the end.
        let left = |v: usize| match ALONG_K {
            true => (room - (v * rows) as i32, k_left.saturating_sub(k)),
            false => (room, k_left.saturating_sub(k + (v * rows) as i32)),
        };
        // SAFETY: the places lie in the tile; only what lies inside of the matrix is read.
        unsafe {
            if !Self::GATHERED {
                self.source =
                    async_copy::walk(self.source, if v == 0 { self.rest } else { self.step });
                let (outer_left, k_left) = left(v);
                let (wanted, target) =
                    (outer_left > 0 && k_left > 0, self.target.add(v * rows * shape.pitch));
                let source = self.source;
                match (PACKS, size_of::<T>()) {
                    (true, _) => {
                        async_copy::copy_if(more, target.cast::<u128>(), source.cast(), wanted);
                    }
                    (false, 8) => {
                        async_copy::copy_if(more, target.cast::<u64>(), source.cast(), wanted);
                    }
                    _ => async_copy::copy_if(more, target.cast::<u32>(), source.cast(), wanted),
                }
            } else if v == 0 {
                // All at once, and one after the other. N.B. Their number afresh, so that the loop
                // stays one: unrolled, its addresses take the registers that the sums need.
                let number = misc::afresh(N as u32) as usize;
                let mut source = self.source.wrapping_byte_offset(self.rest as isize);
                for v in 0..if more { number } else { 0 } {
                    let (outer_left, k_left) = left(v);
                    let mut lanes = T::ZEROS;
                    for (l, lane) in lanes.as_mut().iter_mut().enumerate() {
                        let inside = match ALONG_K {
                            true => outer_left > 0 && k_left > l as i32,
                            false => outer_left > l as i32 && k_left > 0,
                        };
                        if inside {
                            let way = l as isize * self.stride as isize;
                            *lane = source.wrapping_byte_offset(way).read();
                        }
                    }
                    pack::write_shared(self.target.add(v * rows * shape.pitch), lanes);
                    source = source.wrapping_byte_offset(self.step as isize);
                }
                let tile = shape.depth as isize * self.k_stride as isize;
                self.source = self.source.wrapping_byte_offset(tile);
            }
        }
    }
}
