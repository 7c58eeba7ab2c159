//! A tile of finished sums on its way to C.

use crate::{Element, One, Output, Sum, output_of_layer};
use gemm_spec::GemmParams;

/// A block's tile of C, as far as it lies in C.
#[derive(Clone, Copy)]
pub struct OutputTile {
    /// The first element of C, of this block's layer of the grid.
    c: *mut u8,
    /// Elements from there to the tile's first.
    offset: i64,
    row_stride: i64,
    col_stride: i64,
    /// Its rows and columns that lie in C.
    rows: u32,
    cols: u32,
    /// All of it lies in C, and neighbours of a row are neighbours in memory.
    whole: bool,
}

impl OutputTile {
    /// The tile of `rows` x `cols` elements from (row, col) on; `row < p.m`, `col < p.n`, and
    /// `cols` is even.
    #[inline(always)]
    pub fn new<O, S>(
        c: *mut O,
        p: &GemmParams<S>,
        (row, col): (u64, u64),
        [rows, cols]: [usize; 2],
    ) -> Self {
        OutputTile {
            c: output_of_layer(c, p).cast(),
            offset: row as i64 * p.c_row_stride + col as i64 * p.c_col_stride,
            row_stride: p.c_row_stride,
            col_stride: p.c_col_stride,
            rows: (p.m - row).min(rows as u64) as u32,
            cols: (p.n - col).min(cols as u64) as u32,
            whole: p.m - row >= rows as u64 && p.n - col >= cols as u64 && p.c_col_stride == 1,
        }
    }

    /// The tile's first element, in a C of elements of type `C`.
    #[inline(always)]
    fn start<C>(&self) -> *mut C {
        self.c.cast::<C>().wrapping_offset(self.offset as isize)
    }

    /// Whether all of it lies in C, and two neighbours of a row, from an even column on, are one
    /// access to elements of type `C`.
    #[inline(always)]
    pub fn has_pairs<C>(&self) -> bool {
        let bytes = size_of::<C>() as u64;
        let start = self.start::<C>() as u64;
        let places = start | (self.row_stride as u64).wrapping_mul(bytes);
        self.whole && places.is_multiple_of(2 * bytes)
    }

    /// The same for a C as it is unless the launch asks for another.
    #[inline(always)]
    pub fn has_plain_pairs<T: Element>(&self, p: &GemmParams<T::Sum>) -> bool {
        T::is_plain(p) && self.has_pairs::<T::Output>()
    }

    /// Writes a thread's part of a row of a C of `C` as [`store`](crate::store) writes an element:
    /// pair `i` of `values`, which are sums by [`Output::convert`], lies at the tile's columns
    /// `first + further(i)`, which is even, and the next. Of `values` nothing is left.
    ///
    /// Where `further(i)` is a constant of the program, as it should be, it ends up in the
    /// instructions, and the row has one address. [`Self::has_pairs`] is asked once for all rows:
    /// between the instructions for whole tiles there shall stand no others.
    ///
    /// # Safety
    ///
    /// As [`store`](crate::store); [`Self::has_pairs`] says so for `C`, which is what the launch
    /// asks for; `row` and the columns lie in the tile.
    #[inline(always)]
    pub unsafe fn store_pairs<S: Sum, C: Output<S>>(
        &self,
        p: &GemmParams<S>,
        row: usize,
        first: usize,
        further: impl Fn(usize) -> usize,
        values: &mut [[C::Factor; 2]],
    ) {
        let row_start = self.start::<C>().wrapping_offset((row as i64 * self.row_stride) as isize);
        let start = row_start.wrapping_add(first);
        let (alpha, beta) = (C::factor(p.alpha), C::factor(p.beta));
        for pair in values.iter_mut() {
            *pair = [alpha.mul(pair[0]), alpha.mul(pair[1])];
        }
        // SAFETY: the tile lies in C, and its pairs are aligned.
        unsafe {
            // All reads before the first write, so that none of them waits for another.
            if p.reads_c != 0 {
                for (i, pair) in values.iter_mut().enumerate() {
                    let old = start.wrapping_add(further(i)).cast::<[C; 2]>();
                    let [first, second] = read_pair(old);
                    *pair = [
                        beta.mul_add(first.widen(), pair[0]),
                        beta.mul_add(second.widen(), pair[1]),
                    ];
                }
            }
            for (i, &pair) in values.iter().enumerate() {
                write_pair(start.wrapping_add(further(i)).cast(), C::narrow_pair(pair));
            }
        }
    }

    /// Writes the pairs of a row one by one, as far as they lie in C, to a C of any kind.
    ///
    /// # Safety
    ///
    /// As [`store`](crate::store), for the elements that lie in C; `row` and the columns lie in the
    /// tile.
    #[inline(always)]
    pub unsafe fn store_singles<T: Element>(
        &self,
        p: &GemmParams<T::Sum>,
        row: usize,
        first: usize,
        further: impl Fn(usize) -> usize,
        sums: &[[T::Sum; 2]],
    ) {
        if row as u32 >= self.rows {
            return;
        }
        let row_offset = self.offset + row as i64 * self.row_stride;
        for (i, pair) in sums.iter().enumerate() {
            for (j, &sum) in pair.iter().enumerate() {
                let col = first + further(i) + j;
                if (col as u32) < self.cols {
                    let offset = (row_offset + col as i64 * self.col_stride) as isize;
                    // SAFETY: the element lies in C.
                    unsafe { T::with_output(p, One { c: self.c, offset, p, sum }) };
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
