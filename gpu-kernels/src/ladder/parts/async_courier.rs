//! Tiles that travel past the registers.

use super::Operand;
use crate::{Element, SharedTile};
use cuda_std::{async_copy, thread};

/// A thread's part in bringing tiles of an operand into shared memory by asynchronous copies: `N`
/// elements of each tile, where `PACKS` in packs of 16 bytes, which have to be packs of the matrix
/// ([`Operand::packs_across`]) and of the tile, else one by one. With `ENDS` the last pack of a row
/// may have less of the matrix ([`Operand::aligned_across`]): the thread whose it is copies its
/// elements one by one.
///
/// The first tile holds what K has more than whole tiles, so that later ones need not ask where K
/// ends. There is no branch in [`AsyncCourier::start`]: the copies stand among the multiplications,
/// and a branch would keep the compiler from mixing the two. [`AsyncCourier::start_tile`] is for
/// threads that only bring.
#[derive(Clone, Copy)]
pub struct AsyncCourier<T, const N: usize, const PACKS: bool, const ENDS: bool> {
    /// What the thread's last copy was of, or would have been of in a tile before the first.
    source: *const T,
    /// The place of its first copy in the tile.
    target: SharedTile<T>,
    /// Bytes of the matrix from a tile's last copy to the next one's first, from one copy to the
    /// next, and from one k to the next.
    rest: i64,
    step: i64,
    k_stride: i64,
    /// Bit v: copy v lies inside of the matrix along the outer extent. Of packs with `ENDS`:
    /// elements of each that do.
    inside: u32,
    /// k of the first copy.
    k: i32,
}

/// Tiles of `outer` x `depth` elements, their rows `pitch` apart, that `threads` threads bring.
/// Constants of the program: of the places in a tile a thread keeps no more than its first.
#[derive(Clone, Copy)]
pub struct TileShape {
    /// Rows of A or columns of B.
    pub outer: usize,
    /// Values of k.
    pub depth: usize,
    /// Elements from one stored row to the next.
    pub pitch: usize,
    /// Threads of the block.
    pub threads: usize,
}

impl<T: Element, const N: usize, const PACKS: bool, const ENDS: bool>
    AsyncCourier<T, N, PACKS, ENDS>
{
    /// Copies of a thread.
    pub const COPIES: usize = if PACKS { N / T::LANES } else { N };

    /// From one copy of a thread to its next: outer indices, values of k.
    #[inline(always)]
    fn steps(shape: TileShape) -> (usize, usize) {
        match PACKS {
            true => (0, shape.threads * T::LANES / shape.outer),
            false => (shape.threads / shape.depth, 0),
        }
    }

    /// For tiles of that shape, the first at `tile`.
    ///
    /// # Safety
    /// The tile lies in shared memory.
    #[inline(always)]
    pub unsafe fn new(operand: Operand<T>, tile: SharedTile<T>, shape: TileShape) -> Self {
        let along_k = operand.k_stride == 1 && operand.outer_stride != 1;
        let thread = thread::thread_idx_x() as usize;
        let (outer_step, k_step) = Self::steps(shape);
        // Neighbours are neighbours in the matrix.
        let (o, k) = if PACKS {
            let across = shape.outer / T::LANES;
            (thread % across * T::LANES, thread / across)
        } else if along_k {
            (thread / shape.depth, thread % shape.depth)
        } else {
            (thread % outer_step, thread / outer_step)
        };
        let bytes = size_of::<T>() as i64;
        let k_stride = operand.k_stride * bytes;
        let step = outer_step as i64 * operand.outer_stride * bytes + k_step as i64 * k_stride;
        let mut inside = 0;
        if PACKS && ENDS {
            inside = operand.outer_left.saturating_sub(o as u64).min(T::LANES as u64) as u32;
        } else {
            for v in 0..Self::COPIES {
                inside |= u32::from(((o + v * outer_step) as u64) < operand.outer_left) << v;
            }
        }
        let rest = shape.depth as i64 * k_stride - (Self::COPIES as i64 - 1) * step;
        AsyncCourier {
            source: operand.at(o, k).wrapping_byte_offset(-rest as isize),
            // SAFETY: the thread's first copy lies in the tile.
            target: unsafe { tile.add(k * shape.pitch + o) },
            rest,
            step,
            k_stride,
            inside,
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
    pub unsafe fn start_first(&mut self, shape: TileShape, depth: i32) {
        let ((_, k_step), k) = (Self::steps(shape), self.k);
        let next = self.source.wrapping_byte_offset((i64::from(depth) * self.k_stride) as isize);
        // SAFETY: the caller's promise.
        unsafe { self.start_all(shape, |v| k + ((v * k_step) as i32) < depth) };
        self.source = next;
    }

    /// Starts all copies of the next tile, by a branch where there may be `ENDS`.
    ///
    /// # Safety
    /// As [`AsyncCourier::start_first`].
    #[inline(always)]
    pub unsafe fn start_tile(&mut self, shape: TileShape) {
        // SAFETY: the caller's promise.
        unsafe { self.start_all(shape, |_| true) };
    }

    /// Starts copy number `v` of the next tile, if `more`; all of them, one after the other, make a
    /// whole tile. Not for packs with `ENDS`.
    ///
    /// # Safety
    /// As [`AsyncCourier::start_first`].
    #[inline(always)]
    pub unsafe fn start(&mut self, shape: TileShape, v: usize, more: bool) {
        // SAFETY: the caller's promise.
        unsafe { self.copy(shape, v, more, true) };
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
    unsafe fn start_all(&mut self, shape: TileShape, in_k: impl Fn(usize) -> bool) {
        let lanes = T::LANES as u32;
        let part = PACKS && ENDS && !self.inside.is_multiple_of(lanes);
        if !part {
            for v in 0..Self::COPIES {
                // SAFETY: the caller's promise.
                unsafe { self.copy(shape, v, true, in_k(v)) };
            }
            return;
        }
        // N.B. `cp.async` could copy a part of 16 bytes, which memcheck takes for all of them.
        for v in 0..Self::COPIES {
            let (target, source) = self.step_to(shape, v);
            for lane in 0..T::LANES {
                let wanted = in_k(v) && (lane as u32) < self.inside;
                // SAFETY: the pack lies in the tile; only elements inside of the matrix are wanted.
                unsafe {
                    async_copy::copy_if(true, target.add(lane), source.wrapping_add(lane), wanted);
                }
            }
        }
    }

    /// Goes on to copy number `v`: its place in the tile and what it is of.
    #[inline(always)]
    fn step_to(&mut self, shape: TileShape, v: usize) -> (SharedTile<T>, *const T) {
        let (outer_step, k_step) = Self::steps(shape);
        self.source = async_copy::walk(self.source, if v == 0 { self.rest } else { self.step });
        // SAFETY: a place in the tile.
        (unsafe { self.target.add(v * (k_step * shape.pitch + outer_step)) }, self.source)
    }

    #[inline(always)]
    unsafe fn copy(&mut self, shape: TileShape, v: usize, more: bool, in_k: bool) {
        let (target, source) = self.step_to(shape, v);
        let inside = if PACKS && ENDS { self.inside != 0 } else { self.inside >> v & 1 != 0 };
        // SAFETY: the place lies in the tile; only elements inside of the matrix are wanted.
        unsafe {
            if PACKS {
                let (target, source) = (target.cast::<u128>(), source.cast());
                async_copy::copy_if(more, target, source, inside && in_k);
            } else {
                async_copy::copy_if(more, target, source, inside && in_k);
            }
        }
    }
}
