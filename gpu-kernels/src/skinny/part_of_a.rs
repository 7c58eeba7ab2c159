//! What a lane of a [`skinny`](super) kernel brings of A into shared memory.

use super::packs::{gather, read_pack, unpacked};
use super::{Share, row_len, window};
use crate::{Element, Packed, SharedTile, pack};
use cuda_std::misc::afresh;
use gemm_spec::GemmParams;

/// This lane's part of A's windows: V packs, along the extent in which A is contiguous; those of
/// neighbouring lanes lie side by side.
///
/// N.B. Windows that lie in A are most of them, and little is computed for each. What the others
/// take follows from the lane and the parameters afresh: the registers are full of sums and packs.
pub struct PartOfA<T, const ROWS: usize, const L: usize, const P: usize, const V: usize> {
    /// The first element of the lane's first pack of the window; in the last row of A where it has
    /// none.
    start: *const T,
    /// Whether the second lies in A; else it is the first again.
    has_second: bool,
    /// From window to window.
    each: isize,
    lane: usize,
    /// Rows of A from the tile's first on.
    rows_left: u32,
    /// Whether packs run along K, and not along M.
    along_k: bool,
    /// Packs may be read as such, where K does not end in them.
    pub is_whole: bool,
}

impl<T: Element, const ROWS: usize, const L: usize, const P: usize, const V: usize>
    PartOfA<T, ROWS, L, P, V>
{
    /// Packs of a row of the window, and of a column.
    const ACROSS: u32 = (window(P) / L) as u32;
    const DOWN: u32 = ROWS.div_ceil(L) as u32;
    /// Rows from one of a lane's packs to the next where they run along K, and k where they do not.
    const NEXT_ROW: u32 = 32 / Self::ACROSS;
    const NEXT_K: u32 = 32 / Self::DOWN;

    #[inline(always)]
    pub fn new(a: *const T, p: &GemmParams<T::Sum>, share: Share) -> Self {
        const {
            assert!(32 % Self::ACROSS == 0 && 32 % Self::DOWN == 0 && V <= 2);
            // All lanes have packs, or there is one row.
            assert!(ROWS == 1 || ROWS.is_multiple_of(L) && ROWS * window(P) == 32 * V * L);
        };
        let rows_left = (p.m - share.row).min(ROWS as u64) as u32;
        // The one row may lie in any steps.
        let along_k = ROWS == 1 || p.a_is_along_k();
        let start = a.wrapping_offset(
            (share.row as i64 * p.a_row_stride + share.k as i64 * p.a_col_stride) as isize,
        );
        let (stride, other) = match along_k {
            true => (p.a_col_stride, p.a_row_stride),
            false => (p.a_row_stride, p.a_col_stride),
        };
        let bytes = (other as u64).wrapping_mul(size_of::<T>() as u64);
        let is_aligned = (start as u64 | bytes).is_multiple_of(size_of::<[T; L]>() as u64);
        let has_rows = along_k || rows_left == ROWS as u32;
        let is_whole = stride == 1 && is_aligned && has_rows;
        let mut part = PartOfA {
            start,
            has_second: false,
            each: share.step as isize * p.a_col_stride as isize,
            lane: share.lane,
            rows_left,
            along_k,
            is_whole,
        };
        let (row, k) = part.first();
        let offset =
            i64::from(row.min(rows_left - 1)) * p.a_row_stride + i64::from(k) * p.a_col_stride;
        part.start = start.wrapping_offset(offset as isize);
        part.has_second = !along_k || row + Self::NEXT_ROW < rows_left;
        part
    }

    /// Row and k of the lane's first pack in the window.
    #[inline(always)]
    fn first(&self) -> (u32, u32) {
        let lane = afresh(self.lane as u32);
        match self.along_k {
            true => (lane / Self::ACROSS, lane % Self::ACROSS * L as u32),
            false => (lane % Self::DOWN * L as u32, lane / Self::DOWN),
        }
    }

    /// From the first of the lane's packs to the second.
    #[inline(always)]
    fn further(&self, p: &GemmParams<T::Sum>) -> isize {
        let further = match self.along_k {
            true => Self::NEXT_ROW as isize * p.a_row_stride as isize,
            false => Self::NEXT_K as isize * p.a_col_stride as isize,
        };
        if self.has_second { further } else { 0 }
    }

    /// Reads the lane's packs of a window that lies in A along K; in the place of rows that A does
    /// not have its last one.
    ///
    /// # Safety
    /// A may be read, and [`Self::is_whole`] says so.
    #[inline(always)]
    pub unsafe fn load_whole(&self, p: &GemmParams<T::Sum>) -> [[T; L]; V] {
        let mut source = self.start;
        core::array::from_fn(|_| {
            // SAFETY: the pack lies in the matrix and is aligned.
            let pack = unpacked(unsafe { read_pack::<T, L>(source) });
            source = source.wrapping_offset(self.further(p));
            pack
        })
    }

    /// Reads the lane's packs of a window, of which `left` values of k lie in A; what lies outside
    /// is 0.
    ///
    /// # Safety
    /// A may be read.
    #[inline(always)]
    pub unsafe fn load(&self, p: &GemmParams<T::Sum>, left: u32) -> [[T; L]; V] {
        let (mut source, (mut row, mut k)) = (self.start, self.first());
        core::array::from_fn(|_| {
            let is_inside = row < self.rows_left && k < left;
            let (stride, count) = match self.along_k {
                true => (p.a_col_stride, left.saturating_sub(k)),
                false => (p.a_row_stride, self.rows_left.saturating_sub(row)),
            };
            let count = if is_inside { count } else { 0 };
            // SAFETY: so many elements lie in the matrix.
            let pack = unpacked(unsafe { gather::<T, L>(source, stride, count) });
            match self.along_k {
                true => row += Self::NEXT_ROW,
                false => k += Self::NEXT_K,
            }
            source = source.wrapping_offset(self.further(p));
            pack
        })
    }

    /// Writes the packs, widened, to their places in the region's rows.
    ///
    /// # Safety
    /// No other lane touches these elements.
    #[inline(always)]
    pub unsafe fn store(&self, packs: &[[T; L]; V], region: SharedTile<T::Sum>) {
        let (row, k) = self.first();
        if ROWS == 1 && row > 0 {
            return;
        }
        let pitch = row_len::<T::Sum>(P);
        for v in 0..V {
            // SAFETY: the places lie in the region, those of packs at multiples of 16 bytes.
            unsafe {
                let place = region.add(row as usize * pitch + k as usize);
                if self.along_k {
                    let place = place.add(v * Self::NEXT_ROW as usize * pitch);
                    for first in (0..L).step_by(T::Sum::LANES) {
                        let mut widened = T::Sum::ZEROS;
                        for l in 0..T::Sum::LANES {
                            widened.as_mut()[l] = packs[v][first + l].widen();
                        }
                        pack::write_shared(place.add(first), widened);
                    }
                } else {
                    let place = place.add(v * Self::NEXT_K as usize);
                    for l in 0..L {
                        place.add(l * pitch).write(packs[v][l].widen());
                    }
                }
            }
        }
    }

    /// Moves on along K.
    #[inline(always)]
    pub fn advance(&mut self) {
        self.start = self.start.wrapping_offset(self.each);
    }
}
