//! What a lane of a [`skinny`](super) kernel has brought near of the next window of B.

use super::{LANES_N, Share, window};
use crate::Element;
use cuda_std::misc;
use gemm_spec::GemmParams;

/// This lane's line of the window of B that the warp takes next: of a row of the window, or of a
/// column where B runs along K.
pub struct Near<T, const L: usize, const P: usize, const ALONG_K: bool> {
    start: *const T,
    /// From window to window.
    each: isize,
}

impl<T: Element, const L: usize, const P: usize, const ALONG_K: bool> Near<T, L, P, ALONG_K> {
    /// Columns of the warp.
    const COLS: usize = LANES_N * L;

    #[inline(always)]
    pub fn new(b: *const T, p: &GemmParams<T::Sum>, share: Share) -> Self {
        let (lines, len) = match ALONG_K {
            true => (Self::COLS, window(P)),
            false => (window(P), Self::COLS),
        };
        // Lanes that there are more than lines ask for what else a row may touch.
        let (line, part) = (share.lane % lines, share.lane / lines);
        let further = part * (len - 1) / ((32 / lines).max(2) - 1);
        let (k, col) = if ALONG_K { (further, line) } else { (line, further) };
        let (k, col) = (share.k + (share.step + k) as u64, share.col + col as u64);
        let offset = k as i64 * p.b_row_stride + col as i64 * p.b_col_stride;
        let stride = if ALONG_K { 1 } else { p.b_row_stride as isize };
        Near { start: b.wrapping_offset(offset as isize), each: share.step as isize * stride }
    }

    /// Has the line brought into the L2 cache; of a line that several windows have parts of, asked
    /// for by the first of them.
    ///
    /// # Safety
    /// The next window and the warp's columns lie in B, which may be read.
    #[inline(always)]
    pub unsafe fn bring(&self) {
        const LINE: usize = 128;
        if !ALONG_K || self.start as usize % LINE < window(P) * size_of::<T>() {
            // SAFETY: the caller's promise.
            unsafe { misc::prefetch_l2(self.start) };
        }
    }

    /// Moves on along K.
    #[inline(always)]
    pub fn advance(&mut self) {
        self.start = self.start.wrapping_offset(self.each);
    }
}
