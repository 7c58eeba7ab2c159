//! A tile of finished sums on its way to C.

use crate::{Element, Sum};
use gemm_spec::GemmParams;

/// A block's tile of C, as far as it lies in C.
#[derive(Clone, Copy)]
pub struct OutputTile<T: Element> {
    /// Its first element.
    start: *mut T::Output,
    row_stride: i64,
    col_stride: i64,
    /// Its rows and columns that lie in C.
    rows: u32,
    cols: u32,
    /// All of it lies in C, and two neighbours of a row, from an even column on, are one access.
    pub pairs: bool,
}

impl<T: Element> OutputTile<T> {
    /// The tile of `rows` x `cols` elements from (row, col) on; `row < p.m`, `col < p.n`, and
    /// `cols` is even.
    #[inline(always)]
    pub fn new(
        c: *mut T::Output,
        p: &GemmParams<T::Sum>,
        (row, col): (u64, u64),
        [rows, cols]: [usize; 2],
    ) -> Self {
        let offset = row as i64 * p.c_row_stride + col as i64 * p.c_col_stride;
        let start = c.wrapping_offset(offset as isize);
        let whole = p.m - row >= rows as u64 && p.n - col >= cols as u64;
        let bytes = size_of::<T::Output>() as u64;
        let aligned = (start as u64 | (p.c_row_stride as u64).wrapping_mul(bytes)) % (2 * bytes);
        OutputTile {
            start,
            row_stride: p.c_row_stride,
            col_stride: p.c_col_stride,
            rows: (p.m - row).min(rows as u64) as u32,
            cols: (p.n - col).min(cols as u64) as u32,
            pairs: whole && p.c_col_stride == 1 && aligned == 0,
        }
    }

    /// Writes a thread's part of a row as [`store`](crate::store) writes an element: pair `i` of
    /// `sums` lies at the tile's columns `first + further(i)`, which is even, and the next. Of
    /// `sums` nothing is left.
    ///
    /// Where `further(i)` is a constant of the program, as it should be, it ends up in the
    /// instructions, and the row has one address. `PAIRS` is [`Self::pairs`], asked once for all
    /// rows: between the instructions for whole tiles there shall stand no others.
    ///
    /// # Safety
    ///
    /// As [`store`](crate::store), for the elements that lie in C; `row` and the columns lie in the
    /// tile.
    #[inline(always)]
    pub unsafe fn store_row<const PAIRS: bool>(
        &self,
        p: &GemmParams<T::Sum>,
        row: usize,
        first: usize,
        further: impl Fn(usize) -> usize,
        sums: &mut [[T::Sum; 2]],
    ) {
        let row_start = self.start.wrapping_offset((row as i64 * self.row_stride) as isize);
        for pair in sums.iter_mut() {
            *pair = [p.alpha.mul(pair[0]), p.alpha.mul(pair[1])];
        }
        // SAFETY: only elements in C are touched; a pair is aligned where `pairs` says so.
        unsafe {
            if PAIRS {
                let start = row_start.wrapping_add(first);
                // All reads before the first write, so that none of them waits for another.
                if p.reads_c != 0 {
                    for (i, pair) in sums.iter_mut().enumerate() {
                        let old = start.wrapping_add(further(i)).cast::<[T::Output; 2]>();
                        let [first, second] = read_pair(old);
                        *pair = [
                            p.beta.mul_add(first.widen(), pair[0]),
                            p.beta.mul_add(second.widen(), pair[1]),
                        ];
                    }
                }
                for (i, &[first, second]) in sums.iter().enumerate() {
                    let pair = [T::narrow(first), T::narrow(second)];
                    write_pair(start.wrapping_add(further(i)).cast(), pair);
                }
            } else if (row as u32) < self.rows {
                for (i, pair) in sums.iter().enumerate() {
                    for (j, &sum) in pair.iter().enumerate() {
                        let col = first + further(i) + j;
                        if (col as u32) < self.cols {
                            let offset = col as i64 * self.col_stride;
                            let c = row_start.wrapping_offset(offset as isize);
                            let mut value = sum;
                            if p.reads_c != 0 {
                                value = p.beta.mul_add(c.read().widen(), value);
                            }
                            c.write(T::narrow(value));
                        }
                    }
                }
            }
        }
    }
}

/// Two neighbours at a multiple of their size, in one access.
///
/// # Safety
/// They may be read.
#[inline(always)]
unsafe fn read_pair<O: Copy>(pair: *const [O; 2]) -> [O; 2] {
    // SAFETY: the caller's promise; every bit pattern is a pair.
    unsafe {
        match size_of::<O>() {
            2 => core::mem::transmute_copy(&pair.cast::<u32>().read()),
            4 => core::mem::transmute_copy(&pair.cast::<u64>().read()),
            8 => core::mem::transmute_copy(&pair.cast::<u128>().read()),
            _ => pair.read(),
        }
    }
}

/// As [`read_pair`].
///
/// # Safety
/// They may be written.
#[inline(always)]
unsafe fn write_pair<O: Copy>(place: *mut [O; 2], pair: [O; 2]) {
    // SAFETY: the caller's promise.
    unsafe {
        match size_of::<O>() {
            2 => place.cast::<u32>().write(core::mem::transmute_copy(&pair)),
            4 => place.cast::<u64>().write(core::mem::transmute_copy(&pair)),
            8 => place.cast::<u128>().write(core::mem::transmute_copy(&pair)),
            _ => place.write(pair),
        }
    }
}
