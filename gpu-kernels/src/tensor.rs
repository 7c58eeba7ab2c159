//! What a warp's tensor cores multiply, for each element type.

use crate::ladder::warp_and_lane;
use crate::{Element, SharedTile};
use cuda_std::half::{bf16, f16};
use cuda_std::mma;

/// A tile of an operand in shared memory, as one lane sees it.
#[derive(Clone, Copy)]
pub struct StoredTile<T> {
    /// What the lane reads first: the element at its [`TensorCore::place_a`] or
    /// [`TensorCore::place_b`] of the warp's part.
    pub start: SharedTile<T>,
    /// Elements from one stored row to the next.
    pub pitch: usize,
    /// A stored row runs along K, and there is one for each row of A or column of B; else a stored
    /// row runs along those, and there is one for each k.
    pub along_k: bool,
}

impl<T> StoredTile<T> {
    /// The element so far from where the lane starts. Of elements of 1 or 2 bytes rows are
    /// multiples of 8 further on, and columns whole chunks of 16 bytes, of which the lane's first
    /// is a multiple.
    ///
    /// # Safety
    /// It lies in the tile.
    #[inline(always)]
    pub unsafe fn at(self, outer: usize, k: usize) -> SharedTile<T> {
        let (row, col) = if self.along_k { (outer, k) } else { (k, outer) };
        // SAFETY: the caller's promise; `Tiles::swizzled` says why the chunk is that one.
        unsafe {
            match size_of::<T>() {
                1 | 2 => self.start.flip(col * size_of::<T>()).add(row * self.pitch),
                _ => self.start.add(row * self.pitch + col),
            }
        }
    }

    /// The same tile in the stage so many bytes further.
    ///
    /// # Safety
    /// There is one.
    #[inline(always)]
    pub unsafe fn hop(self, bytes: isize) -> Self {
        // SAFETY: the caller's promise.
        StoredTile { start: unsafe { self.start.cast::<u8>().offset(bytes).cast() }, ..self }
    }
}

/// Elements with an instruction that multiplies 16 x [`Self::K`] by [`Self::K`] x 8 of them.
pub trait TensorCore: Element {
    /// The instruction's extent along K.
    const K: usize;
    /// Instructions of a warp's tile up to which registers are left to read the factors of the next
    /// ones before these.
    const AHEAD: usize;
    /// Whether registers are left to start a step's copies one by one among its instructions, and
    /// not all before them.
    const SPREAD: bool;
    /// Whether a warp waits for copies and not for the block's other warps, and kernels overlap:
    /// for elements of compute capability 9.0.
    const FREE: bool = false;
    /// A lane's part of 16 rows of A.
    type A: Copy;
    /// A lane's part of 8 columns of B.
    type B: Copy;
    /// A lane's part of 16 x 8 sums.
    type Sums: Copy;
    /// All 0.
    const NO_SUMS: Self::Sums;

    /// Outer index and k at which the lane starts to read 16 rows of A and K values of k.
    fn place_a(along_k: bool) -> (usize, usize);

    /// The same for two times 8 columns of B.
    fn place_b(along_k: bool) -> (usize, usize);

    /// Reads 16 rows of A from `row` on, and K values of k. Both are constants of the program, so
    /// that they end up in the instructions and the lane keeps one address for all that it reads.
    ///
    /// # Safety
    /// All lanes of the warp read together, from a tile that they may read.
    unsafe fn read_a(tile: StoredTile<Self>, row: usize, k: usize) -> Self::A;

    /// Reads two times 8 columns of B from `col` on, and K values of k.
    ///
    /// # Safety
    /// As [`Self::read_a`].
    unsafe fn read_b(tile: StoredTile<Self>, col: usize, k: usize) -> [Self::B; 2];

    /// Adds the product to the sums.
    ///
    /// # Safety
    /// All lanes of the warp together.
    unsafe fn multiply(a: &Self::A, b: &Self::B, sums: &mut Self::Sums);

    /// Sum number i of a lane's four.
    fn sum(sums: &Self::Sums, i: usize) -> Self::Sum;

    /// Two neighbours of a row of 16 x 16 sums, of which the lane has those of two instructions:
    /// pair `t` of row `r`, both 0 or 1.
    ///
    /// Rows and columns are as the instruction has them unless a tile could only be read in another
    /// order; `along_k` says how the tiles of A and B are stored.
    #[inline(always)]
    fn pair(sums: [&Self::Sums; 2], r: usize, t: usize, _along_k: [bool; 2]) -> [Self::Sum; 2] {
        [Self::sum(sums[t], 2 * r), Self::sum(sums[t], 2 * r + 1)]
    }

    /// Row and column of the first sum of pair 0 of row `r`, for that lane.
    #[inline(always)]
    fn place(r: usize, lane: usize, _along_k: [bool; 2]) -> (usize, usize) {
        (lane / 4 + r * 8, lane % 4 * 2)
    }

    /// Columns from pair 0 to pair 1.
    #[inline(always)]
    fn second_pair(_along_k: [bool; 2]) -> usize {
        8
    }
}

macro_rules! half_tensor {
    ($half:ident, $multiply:ident) => {
        impl TensorCore for $half {
            const K: usize = 16;
            const AHEAD: usize = usize::MAX;
            const SPREAD: bool = true;
            type A = [u32; 4];
            type B = [u32; 2];
            type Sums = [f32; 4];
            const NO_SUMS: [f32; 4] = [0.0; 4];

            #[inline(always)]
            fn place_a(along_k: bool) -> (usize, usize) {
                let (_, lane) = warp_and_lane();
                // Matrices: rows 0 to 7, then 8 to 15; of k 0 to 7, then of 8 to 15.
                let (row, k) = (lane / 8 % 2 * 8, lane / 16 * 8);
                if along_k { (row + lane % 8, k) } else { (row, k + lane % 8) }
            }

            #[inline(always)]
            fn place_b(along_k: bool) -> (usize, usize) {
                let (_, lane) = warp_and_lane();
                // Matrices: k 0 to 7, then 8 to 15; of columns 0 to 7, then of 8 to 15.
                let (k, col) = (lane / 8 % 2 * 8, lane / 16 * 8);
                if along_k { (col + lane % 8, k) } else { (col, k + lane % 8) }
            }

            #[inline(always)]
            unsafe fn read_a(tile: StoredTile<$half>, row: usize, k: usize) -> [u32; 4] {
                // SAFETY: the caller's promise.
                unsafe {
                    match tile.along_k {
                        true => mma::load_matrices(tile.at(row, k)),
                        false => mma::load_matrices_transposed(tile.at(row, k)),
                    }
                }
            }

            #[inline(always)]
            unsafe fn read_b(tile: StoredTile<$half>, col: usize, k: usize) -> [[u32; 2]; 2] {
                // SAFETY: the caller's promise.
                let [a, b, c, d] = unsafe { <$half>::read_a(tile, col, k) };
                [[a, b], [c, d]]
            }

            #[inline(always)]
            unsafe fn multiply(a: &[u32; 4], b: &[u32; 2], sums: &mut [f32; 4]) {
                // SAFETY: the caller's promise.
                *sums = unsafe { mma::$multiply(*a, *b, *sums) };
            }

            #[inline(always)]
            fn sum(sums: &[f32; 4], i: usize) -> f32 {
                sums[i]
            }
        }
    };
}

/// Tiles in rows along K are read as those of 16-bit floats are, two elements for each of theirs.
/// No instruction transposes bytes; a tile in rows across K is read as one of pairs of bytes,
/// transposed, and taken apart (`bytes_across_k`).
impl TensorCore for i8 {
    const K: usize = 32;
    const AHEAD: usize = usize::MAX;
    const SPREAD: bool = false;
    type A = [u32; 4];
    type B = [u32; 2];
    type Sums = [i32; 4];
    const NO_SUMS: [i32; 4] = [0; 4];

    #[inline(always)]
    fn place_a(along_k: bool) -> (usize, usize) {
        let (_, lane) = warp_and_lane();
        // Matrices: rows 0 to 7, then 8 to 15; of k 0 to 15, then of 16 to 31.
        let (row, k) = (lane / 8 % 2 * 8, lane / 16 * 16);
        if along_k { (row + lane % 8, k) } else { (0, row_of_matrix(lane)) }
    }

    #[inline(always)]
    fn place_b(along_k: bool) -> (usize, usize) {
        let (_, lane) = warp_and_lane();
        // Matrices: k 0 to 15, then 16 to 31; of columns 0 to 7, then of 8 to 15.
        let (k, col) = (lane / 8 % 2 * 16, lane / 16 * 8);
        if along_k { (col + lane % 8, k) } else { (0, row_of_matrix(lane)) }
    }

    #[inline(always)]
    unsafe fn read_a(tile: StoredTile<i8>, row: usize, k: usize) -> [u32; 4] {
        // SAFETY: the caller's promise.
        unsafe {
            if tile.along_k {
                mma::load_matrices(tile.at(row, k))
            } else {
                let [even, odd] = bytes_across_k(tile, row, k);
                [even[0], odd[0], even[1], odd[1]]
            }
        }
    }

    #[inline(always)]
    unsafe fn read_b(tile: StoredTile<i8>, col: usize, k: usize) -> [[u32; 2]; 2] {
        // SAFETY: the caller's promise.
        unsafe {
            if tile.along_k {
                let [a, b, c, d] = mma::load_matrices(tile.at(col, k));
                [[a, b], [c, d]]
            } else {
                bytes_across_k(tile, col, k)
            }
        }
    }

    #[inline(always)]
    unsafe fn multiply(a: &[u32; 4], b: &[u32; 2], sums: &mut [i32; 4]) {
        // SAFETY: the caller's promise.
        *sums = unsafe { mma::multiply_i8(*a, *b, *sums) };
    }

    #[inline(always)]
    fn sum(sums: &[i32; 4], i: usize) -> i32 {
        sums[i]
    }

    /// From `bytes_across_k` the even columns are those of one instruction, the odd ones those
    /// of the other.
    #[inline(always)]
    fn pair(sums: [&[i32; 4]; 2], r: usize, t: usize, [_, b_along_k]: [bool; 2]) -> [i32; 2] {
        let (even, odd) = (sums[0][2 * r + t], sums[1][2 * r + t]);
        if b_along_k { [sums[t][2 * r], sums[t][2 * r + 1]] } else { [even, odd] }
    }

    #[inline(always)]
    fn place(r: usize, lane: usize, [a_along_k, b_along_k]: [bool; 2]) -> (usize, usize) {
        let row = if a_along_k { lane / 4 + r * 8 } else { lane / 4 * 2 + r };
        (row, if b_along_k { lane % 4 * 2 } else { lane % 4 * 4 })
    }

    #[inline(always)]
    fn second_pair([_, b_along_k]: [bool; 2]) -> usize {
        if b_along_k { 8 } else { 2 }
    }
}

/// 32 values of k for 16 outer indices from a tile stored in rows across K: for the even outer
/// index 2 * (lane / 4), then for the odd one after it, k from 4 * (lane % 4) on as a word, and k
/// from 16 + 4 * (lane % 4) on.
///
/// A pair of bytes, neighbours across K, is one element to `ldmatrix`, which brings two of them,
/// neighbours along K, to a lane. Two such words hold four bytes for each of two outer indices.
///
/// # Safety
/// As [`TensorCore::read_a`].
#[inline(always)]
unsafe fn bytes_across_k(tile: StoredTile<i8>, outer: usize, k: usize) -> [[u32; 2]; 2] {
    let (_, lane) = warp_and_lane();
    // SAFETY: the caller's promise.
    let [a, b, c, d] = unsafe { mma::load_matrices_transposed(tile.at(outer, k)) };
    let even = if lane % 4 < 2 { 0x6420 } else { 0x2064 };
    let odd = even + 0x1111;
    let words = |of| [mma::permute_bytes(a, b, of), mma::permute_bytes(c, d, of)];
    [words(even), words(odd)]
}

/// The k whose row lane `lane` gives the address of.
///
/// Rows 2 q and 2 q + 1 of a matrix go to the lanes with lane % 4 = q, which need k 4 q to 4 q + 3
/// of each 16, two of a matrix. Were it the first two of the first matrix for all q, rows 8 apart
/// would meet in the same banks; so q 2 and 3 take their last two first.
#[inline(always)]
fn row_of_matrix(lane: usize) -> usize {
    let (row, matrix, half) = (lane % 8, lane / 8 % 2, lane / 16);
    let pair = matrix ^ (row / 4);
    half * 16 + row / 2 * 4 + pair * 2 + row % 2
}

half_tensor!(f16, multiply_f16);
half_tensor!(bf16, multiply_bf16);

impl TensorCore for f64 {
    const K: usize = 8;
    const AHEAD: usize = 8;
    const SPREAD: bool = true;
    const FREE: bool = true;
    /// Two rows at k, then at k + 4, so that the lanes of a warp read different banks.
    type A = [[f64; 2]; 2];
    /// A column at the same two.
    type B = [f64; 2];
    type Sums = [f64; 4];
    const NO_SUMS: [f64; 4] = [0.0; 4];

    #[inline(always)]
    fn place_a(_: bool) -> (usize, usize) {
        let (_, lane) = warp_and_lane();
        (lane / 4, lane % 4)
    }

    #[inline(always)]
    fn place_b(along_k: bool) -> (usize, usize) {
        Self::place_a(along_k)
    }

    #[inline(always)]
    unsafe fn read_a(tile: StoredTile<f64>, row: usize, k: usize) -> [[f64; 2]; 2] {
        // SAFETY: the caller's promise.
        let rows = |k| unsafe { [tile.at(row, k).read(), tile.at(row + 8, k).read()] };
        [rows(k), rows(k + 4)]
    }

    #[inline(always)]
    unsafe fn read_b(tile: StoredTile<f64>, col: usize, k: usize) -> [[f64; 2]; 2] {
        // SAFETY: the caller's promise.
        let column = |col| unsafe { [tile.at(col, k).read(), tile.at(col, k + 4).read()] };
        [column(col), column(col + 8)]
    }

    #[inline(always)]
    unsafe fn multiply(a: &[[f64; 2]; 2], b: &[f64; 2], sums: &mut [f64; 4]) {
        // SAFETY: the caller's promise.
        *sums = unsafe { mma::multiply_f64(*a, *b, *sums) };
    }

    #[inline(always)]
    fn sum(sums: &[f64; 4], i: usize) -> f64 {
        sums[i]
    }
}

/// By bytes: with a = sum of a_p 256^p and b = sum of b_q 256^q, a * b modulo 2^32 is the sum of
/// a_p b_q 256^(p + q) over p + q < 4, ten products of bytes without sign, each exact.
impl TensorCore for i32 {
    const K: usize = 16;
    const AHEAD: usize = 0;
    const SPREAD: bool = false;
    /// Byte p of the elements in the p-th two words.
    type A = [[u32; 2]; 4];
    type B = [u32; 4];
    /// The sums of p + q = 0, 1, 2, 3.
    type Sums = [[u32; 4]; 4];
    const NO_SUMS: [[u32; 4]; 4] = [[0; 4]; 4];

    #[inline(always)]
    fn place_a(_: bool) -> (usize, usize) {
        let (_, lane) = warp_and_lane();
        (lane / 4, lane % 4)
    }

    #[inline(always)]
    fn place_b(along_k: bool) -> (usize, usize) {
        Self::place_a(along_k)
    }

    #[inline(always)]
    unsafe fn read_a(tile: StoredTile<i32>, row: usize, k: usize) -> [[u32; 2]; 4] {
        let mut a = [[0; 2]; 4];
        for i in 0..2 {
            // SAFETY: the caller's promise.
            let bytes = unsafe { bytes_along_k(tile, row + i * 8, k) };
            for p in 0..4 {
                a[p][i] = bytes[p];
            }
        }
        a
    }

    #[inline(always)]
    unsafe fn read_b(tile: StoredTile<i32>, col: usize, k: usize) -> [[u32; 4]; 2] {
        // SAFETY: the caller's promise.
        unsafe { [bytes_along_k(tile, col, k), bytes_along_k(tile, col + 8, k)] }
    }

    #[inline(always)]
    unsafe fn multiply(a: &[[u32; 2]; 4], b: &[u32; 4], sums: &mut [[u32; 4]; 4]) {
        for p in 0..4 {
            for q in 0..4 - p {
                // SAFETY: the caller's promise.
                sums[p + q] = unsafe { mma::multiply_u8(a[p], b[q], sums[p + q]) };
            }
        }
    }

    #[inline(always)]
    fn sum(sums: &[[u32; 4]; 4], i: usize) -> i32 {
        (sums[0][i])
            .wrapping_add(sums[1][i] << 8)
            .wrapping_add(sums[2][i] << 16)
            .wrapping_add(sums[3][i] << 24)
            .cast_signed()
    }
}

/// Four elements along K as four words, the first of their lowest bytes.
///
/// The elements are 4 apart, so that the lanes of a warp read different banks; which k stand
/// together is all the same as long as A and B agree.
///
/// # Safety
/// As [`TensorCore::read_a`].
#[inline(always)]
unsafe fn bytes_along_k(tile: StoredTile<i32>, outer: usize, k: usize) -> [u32; 4] {
    let mut e = [0; 4];
    for (j, e) in e.iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        *e = unsafe { tile.at(outer, k + j * 4).read() }.cast_unsigned();
    }
    transpose_bytes(e)
}

/// Word p of the result has byte p of each of the four words.
#[inline(always)]
fn transpose_bytes(e: [u32; 4]) -> [u32; 4] {
    let low = [mma::permute_bytes(e[0], e[1], 0x5140), mma::permute_bytes(e[2], e[3], 0x5140)];
    let high = [mma::permute_bytes(e[0], e[1], 0x7362), mma::permute_bytes(e[2], e[3], 0x7362)];
    [
        mma::permute_bytes(low[0], low[1], 0x5410),
        mma::permute_bytes(low[0], low[1], 0x7632),
        mma::permute_bytes(high[0], high[1], 0x5410),
        mma::permute_bytes(high[0], high[1], 0x7632),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Eight rows of 16 bytes at an odd multiple of 16 bytes lie in all 32 banks where the rows'
    /// numbers differ modulo 8; the lanes that a matrix's rows go to get four neighbours along K.
    #[test]
    fn rows_across_k_lie_in_all_banks_and_are_neighbours_in_a_word() {
        for matrix in 0..4 {
            let mut banks: Vec<_> = (0..8).map(|row| row_of_matrix(matrix * 8 + row) % 8).collect();
            banks.sort_unstable();
            assert_eq!(banks, [0, 1, 2, 3, 4, 5, 6, 7]);
        }
        for member in 0..4 {
            for half in 0..2 {
                let rows = |matrix| {
                    [0, 1].map(|b| row_of_matrix((half * 2 + matrix) * 8 + 2 * member + b))
                };
                // As the two selectors take them: the first matrix is the low one for member < 2.
                let (low, high) = if member < 2 { (rows(0), rows(1)) } else { (rows(1), rows(0)) };
                let first = half * 16 + member * 4;
                assert_eq!([low, high].concat(), [first, first + 1, first + 2, first + 3]);
            }
        }
    }

    #[test]
    fn bytes_are_transposed() {
        let e = [0x0302_0100, 0x1312_1110, 0x2322_2120, 0x3332_3130];
        let expected = [0x3020_1000, 0x3121_1101, 0x3222_1202, 0x3323_1303];
        assert_eq!(transpose_bytes(e), expected);
    }

    #[test]
    fn ten_products_of_bytes_make_a_product() {
        for (a, b) in
            [(0x1234_5678_u32, 0x9abc_def0_u32), (u32::MAX, 3), (0x8000_0001, 0xffff_fffe)]
        {
            let (a_bytes, b_bytes) = (a.to_le_bytes(), b.to_le_bytes());
            let mut sums = [[0u32; 4]; 4];
            for p in 0..4 {
                for q in 0..4 - p {
                    let product = u32::from(a_bytes[p]) * u32::from(b_bytes[q]);
                    sums[p + q][0] = sums[p + q][0].wrapping_add(product);
                }
            }
            let expected = a.cast_signed().wrapping_mul(b.cast_signed());
            assert_eq!(<i32 as TensorCore>::sum(&sums, 0), expected);
        }
    }
}
