//! What a lane of a [`skinny`](super) kernel reads of B.

use super::packs::{gather, read_pack, unpacked};
use super::{LANES_K, LANES_N, Share, window};
use crate::Element;
use cuda_std::misc::{self, afresh, afresh_i64};
use gemm_spec::GemmParams;

/// This lane's part of B: P packs of each window, in squares, or of C columns.
pub struct PartOfB<T, const L: usize, const P: usize, const C: usize, const ALONG_K: bool> {
    /// The lane's first element of the window.
    start: *const T,
    place: usize,
    /// Columns of B from the warp's first on.
    cols_left: u32,
    /// Packs may be read as such, where K does not end in them.
    pub whole: bool,
}

impl<T: Element, const L: usize, const P: usize, const C: usize, const ALONG_K: bool>
    PartOfB<T, L, P, C, ALONG_K>
{
    #[inline(always)]
    pub fn new(b: *const T, p: &GemmParams<T::Sum>, share: Share) -> Self {
        let start = b.wrapping_offset((share.col as i64 * p.b_col_stride) as isize);
        let (stride, other) = match ALONG_K {
            true => (p.b_row_stride, p.b_col_stride),
            false => (p.b_col_stride, p.b_row_stride),
        };
        let bytes = (other as u64).wrapping_mul(size_of::<T>() as u64);
        let is_aligned = (start as u64 | bytes).is_multiple_of(size_of::<[T; L]>() as u64);
        let cols = (LANES_N * L) as u64;
        let mut part = PartOfB {
            start,
            place: share.place,
            cols_left: p.n.saturating_sub(share.col).min(cols) as u32,
            whole: stride == 1 && is_aligned && share.col + cols <= p.n,
        };
        let (k, col) = part.first();
        let k = share.k as i64 + i64::from(k);
        let offset = k * p.b_row_stride + i64::from(col) * p.b_col_stride;
        part.start = start.wrapping_offset(offset as isize);
        part
    }

    /// K and column of the lane's first element, in the window and among the warp's columns.
    #[inline(always)]
    fn first(&self) -> (u32, u32) {
        let place = afresh(self.place as u32);
        let (along, across) = (place / LANES_N as u32, place % LANES_N as u32);
        match C == L {
            true => (along * L as u32, across * L as u32),
            false => ((across % 2 * LANES_K as u32 + along) * L as u32, across / 2 * C as u32),
        }
    }

    /// Moves on along K.
    #[inline(always)]
    pub fn advance(&mut self, p: &GemmParams<T::Sum>, step: usize) {
        let stride = afresh_i64(p.b_row_stride) as isize;
        self.start = self.start.wrapping_offset(step as isize * stride);
    }

    /// Has the lane's packs of the window that is `step` further along K, all of which lies in B,
    /// brought into the L2 cache. That brings lines of 128 bytes, asked for once: by who reads the
    /// first half.
    ///
    /// # Safety
    /// B may be read.
    #[inline(always)]
    pub unsafe fn prefetch(&self, p: &GemmParams<T::Sum>, step: usize) {
        if !self.whole {
            return;
        }
        let stride = if ALONG_K { p.b_col_stride } else { p.b_row_stride };
        let across = afresh_i64(stride) as isize;
        let k_stride = if ALONG_K { 1 } else { across };
        let mut square = self.start.wrapping_offset(step as isize * k_stride);
        for _ in 0..P / C {
            let mut source = square;
            for _ in 0..C {
                if source as usize % 128 < 64 {
                    // SAFETY: the pack lies in the matrix.
                    unsafe { misc::prefetch_l2(source) };
                }
                source = source.wrapping_offset(across);
            }
            square = square.wrapping_offset((LANES_K * C) as isize * k_stride);
        }
    }

    /// Reads the lane's packs of a window, of which `left` values of k lie in B; what lies outside
    /// is 0. Pack q of a square is its row q, or with `ALONG_K` its column q, of C columns.
    ///
    /// # Safety
    /// B may be read.
    #[inline(always)]
    pub unsafe fn load(&self, p: &GemmParams<T::Sum>, left: u32) -> [[T; L]; P] {
        let mut packs = [[T::ZEROS.as_ref()[0]; L]; P];
        let (k_stride, col_stride) = (afresh_i64(p.b_row_stride), afresh_i64(p.b_col_stride));
        // From one pack to the next, and within one.
        let (across, along) = match ALONG_K {
            true => (col_stride as isize, k_stride),
            false => (k_stride as isize, col_stride),
        };
        let mut square = self.start;
        if self.whole && left >= window(P) as u32 {
            // A known stride goes into the instructions.
            let k_stride = if ALONG_K { 1 } else { k_stride as isize };
            for s in 0..P / C {
                let mut source = square;
                for q in 0..C {
                    // SAFETY: the pack lies in the matrix and is aligned.
                    packs[s * C + q] = unpacked(unsafe { read_pack::<T, L>(source) });
                    source = source.wrapping_offset(across);
                }
                square = square.wrapping_offset((LANES_K * C) as isize * k_stride);
            }
        } else {
            let (k, col) = self.first();
            let cols_left = self.cols_left.saturating_sub(col);
            let mut k_left = left.saturating_sub(k);
            for s in 0..P / C {
                let mut source = square;
                let (across_left, along_left) =
                    if ALONG_K { (cols_left, k_left) } else { (k_left, cols_left) };
                for q in 0..C {
                    let count = if (q as u32) < across_left { along_left } else { 0 };
                    // SAFETY: so many elements lie in the matrix.
                    packs[s * C + q] = unpacked(unsafe { gather::<T, L>(source, along, count) });
                    source = source.wrapping_offset(across);
                }
                square = square.wrapping_offset((LANES_K * C) as isize * k_stride as isize);
                k_left = k_left.saturating_sub((LANES_K * C) as u32);
            }
        }
        packs
    }
}
