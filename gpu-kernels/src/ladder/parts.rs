//! What several steps of the ladder do in the same way.

use crate::{Element, Packed, SharedTile, Sum, pack, store};
use cuda_std::{async_copy, thread};
use gemm_spec::GemmParams;

/// A or B as one block sees it. Both have an extent that C keeps, the rows of A or the columns of
/// B, here called outer, and K.
#[derive(Clone, Copy)]
pub struct Operand<T> {
    /// The element at the block's first outer index and the step's first k.
    pub start: *const T,
    /// Elements from one outer index to the next.
    pub outer_stride: i64,
    /// Elements from one k to the next.
    pub k_stride: i64,
    /// Outer indices from the block's first to the end of the matrix.
    pub outer_left: u64,
}

impl<T: Element> Operand<T> {
    /// The rows of A from `row` on.
    #[inline(always)]
    pub fn a(a: *const T, p: &GemmParams<T::Sum>, row: u64) -> Self {
        Operand {
            start: a.wrapping_offset((row as i64 * p.a_row_stride) as isize),
            outer_stride: p.a_row_stride,
            k_stride: p.a_col_stride,
            outer_left: p.m - row,
        }
    }

    /// The columns of B from `col` on.
    #[inline(always)]
    pub fn b(b: *const T, p: &GemmParams<T::Sum>, col: u64) -> Self {
        Operand {
            start: b.wrapping_offset((col as i64 * p.b_col_stride) as isize),
            outer_stride: p.b_col_stride,
            k_stride: p.b_row_stride,
            outer_left: p.n - col,
        }
    }

    /// Moves on by `depth` along K.
    #[inline(always)]
    pub fn advance(&mut self, depth: usize) {
        self.start = self.start.wrapping_offset(depth as isize * self.k_stride as isize);
    }

    /// The address of an element, inside of the matrix or not.
    #[inline(always)]
    pub fn at(&self, outer: usize, k: usize) -> *const T {
        let offset = outer as i64 * self.outer_stride + k as i64 * self.k_stride;
        self.start.wrapping_offset(offset as isize)
    }

    /// This thread's `N` elements of a tile of `outer` x `depth` that `threads` threads load
    /// together, widened; 0 outside of the matrix. Element number e of the tile lies at (e / depth,
    /// e % depth) where the tile is stored along K, else at (e % outer, e / outer).
    ///
    /// # Safety
    /// The matrix may be read; `k_left` values of k are left of it.
    #[inline(always)]
    pub unsafe fn elements<const N: usize>(
        &self,
        [outer, depth]: [usize; 2],
        along_k: bool,
        threads: usize,
        k_left: u64,
    ) -> [T::Sum; N] {
        let mut elements = [T::Sum::ZERO; N];
        for (v, element) in elements.iter_mut().enumerate() {
            let e = thread::thread_idx_x() as usize + v * threads;
            let (o, k) = if along_k { (e / depth, e % depth) } else { (e % outer, e / outer) };
            if (o as u64) < self.outer_left && (k as u64) < k_left {
                // SAFETY: inside of the matrix.
                *element = unsafe { self.at(o, k).read() }.widen();
            }
        }
        elements
    }
}

/// Which rows, or which columns, of a block's tile a thread computes: groups of neighbours, as many
/// as a 16-byte pack of sums holds, `gap` apart.
#[derive(Clone, Copy)]
pub struct Spread {
    /// The first one.
    pub first: usize,
    /// From the start of one group to the start of the next.
    pub gap: usize,
}

impl Spread {
    /// The place of the thread's row or column number `i`.
    #[inline(always)]
    pub fn at<S: Sum>(self, i: usize) -> usize {
        self.first + i / S::LANES * self.gap + i % S::LANES
    }

    /// The thread's elements of one row of a tile in shared memory, 16 bytes at a time.
    ///
    /// # Safety
    /// The row lies in shared memory, at a multiple of 16 bytes, and holds what this thread may
    /// read.
    #[inline(always)]
    pub unsafe fn read<S: Sum, const N: usize>(self, row: SharedTile<S>) -> [S; N] {
        let mut values = [S::ZERO; N];
        for group in 0..N / S::LANES {
            // SAFETY: the caller's promise.
            let lanes = unsafe { pack::read_shared(row.add(self.first + group * self.gap)) };
            for (l, &value) in lanes.as_ref().iter().enumerate() {
                values[group * S::LANES + l] = value;
            }
        }
        values
    }
}

/// Adds the outer product of a column of A's tile and a row of B's to the thread's sums.
///
/// In squares of 2 x 2, each entered where the last one was left.
#[inline(always)]
pub fn outer_product<S: Sum, const TM: usize, const TN: usize>(
    a: &[S; TM],
    b: &[S; TN],
    sums: &mut [[S; TN]; TM],
) {
    if TM % 2 == 0 {
        for m in 0..TM / 2 {
            for n in 0..TN {
                let n = if m % 2 == 0 { n } else { TN - 1 - n };
                for &i in &[2 * m, 2 * m + 1] {
                    sums[i][n] = a[i].mul_add(b[n], sums[i][n]);
                }
            }
        }
        return;
    }
    for (a, sums) in a.iter().zip(sums) {
        for (b, sum) in b.iter().zip(sums) {
            *sum = a.mul_add(*b, *sum);
        }
    }
}

/// The sums in pairs of registers: those of rows i + 1 and i, for even i, in this order.
#[inline(always)]
pub fn pair_up<S: Sum, const TM: usize, const TN: usize>(
    sums: &[[S; TN]; TM],
) -> [[S::Pair; TN]; TM] {
    let mut pairs = [[S::pair(S::ZERO, S::ZERO); TN]; TM];
    for i in 0..TM / 2 {
        for j in 0..TN {
            pairs[i][j] = S::pair(sums[2 * i + 1][j], sums[2 * i][j]);
        }
    }
    pairs
}

/// The inverse of [`pair_up`].
#[inline(always)]
pub fn take_apart<S: Sum, const TM: usize, const TN: usize>(
    pairs: &[[S::Pair; TN]; TM],
    sums: &mut [[S; TN]; TM],
) {
    for i in 0..TM / 2 {
        for j in 0..TN {
            (sums[2 * i + 1][j], sums[2 * i][j]) = S::split(pairs[i][j]);
        }
    }
}

/// Multiplies the tiles of one step. Both hold a row for each k: A's the rows of A (so it is
/// transposed), B's the columns of B.
///
/// # Safety
/// The tiles have `depth` rows of `pitch` elements in shared memory, which this thread may read.
#[inline(always)]
pub unsafe fn multiply<S: Sum, const TM: usize, const TN: usize>(
    depth: usize,
    (tile_a, pitch_a, rows): (SharedTile<S>, usize, Spread),
    (tile_b, pitch_b, cols): (SharedTile<S>, usize, Spread),
    sums: &mut [[S; TN]; TM],
) {
    for k in 0..depth {
        // SAFETY: k < depth.
        let (a, b) =
            unsafe { (rows.read(tile_a.add(k * pitch_a)), cols.read(tile_b.add(k * pitch_b))) };
        outer_product(&a, &b, sums);
    }
}

/// Writes the thread's sums to C.
///
/// # Safety
/// As [`store`], for those of the elements that lie in C.
#[inline(always)]
pub unsafe fn store_tile<T: Element, const TM: usize, const TN: usize>(
    c: *mut T,
    p: &GemmParams<T::Sum>,
    (row, rows): (u64, Spread),
    (col, cols): (u64, Spread),
    sums: &[[T::Sum; TN]; TM],
) {
    for (i, sums) in sums.iter().enumerate() {
        let row = row + rows.at::<T::Sum>(i) as u64;
        for (j, sum) in sums.iter().enumerate() {
            let col = col + cols.at::<T::Sum>(j) as u64;
            if row < p.m && col < p.n {
                // SAFETY: the element lies in C.
                unsafe { store(c, p, row, col, *sum) };
            }
        }
    }
}

/// Number of the warp in its block, and of the lane in its warp.
#[inline(always)]
pub fn warp_and_lane() -> (usize, usize) {
    let thread = thread::thread_idx_x() as usize;
    (thread / 32, thread % 32)
}

/// Where a thread's rows and columns of the block's tile lie when C is dealt out by warps: warps
/// row by row over the block, lanes row by row over the warp, each lane's groups spread over its
/// warp's tile so that neighbours read neighbouring packs of shared memory.
#[inline(always)]
pub fn in_warp_tile<S: Sum>(
    block_cols: usize,
    warp: [usize; 2],
    thread: [usize; 2],
) -> (Spread, Spread) {
    let (number, lane) = warp_and_lane();
    let warps_across = block_cols / warp[1];
    let lanes_across = warp[1] / thread[1];
    let spread = |number: usize, lane: usize, axis: usize| Spread {
        first: number * warp[axis] + lane * S::LANES,
        gap: warp[axis] / thread[axis] * S::LANES,
    };
    (
        spread(number / warps_across, lane / lanes_across, 0),
        spread(number % warps_across, lane % lanes_across, 1),
    )
}

/// A thread's part in bringing tiles of an operand into shared memory through registers: `N` packs
/// of 16 bytes of each tile.
///
/// The tile in shared memory has a row for each k. Where the matrix is contiguous along its outer
/// extent a pack lies in one of these rows; where it is contiguous along K a pack is a column of
/// the tile, and is written element by element: the transpose. A matrix that is neither, or not
/// aligned to 16 bytes, is read element by element.
#[derive(Clone, Copy)]
pub struct Courier<T, const N: usize> {
    operand: Operand<T>,
    /// Packs run along K.
    along_k: bool,
    /// Packs may be read as such.
    whole: bool,
    /// The thread's first pack: outer index and k of its first element.
    outer: usize,
    k: usize,
    /// From one pack of the thread to its next: outer index, or k.
    step: usize,
}

impl<T: Element, const N: usize> Courier<T, N> {
    /// For tiles of `outer` x `depth`, carried by `threads` threads.
    #[inline(always)]
    pub fn new(operand: Operand<T>, [outer, depth]: [usize; 2], threads: usize) -> Self {
        let along_k = operand.k_stride == 1 && operand.outer_stride != 1;
        let (stride, other) = match along_k {
            true => (operand.k_stride, operand.outer_stride),
            false => (operand.outer_stride, operand.k_stride),
        };
        let bytes = size_of::<T>() as u64;
        let whole =
            stride == 1 && (operand.start as u64 | (other as u64).wrapping_mul(bytes)) % 16 == 0;
        let thread = thread::thread_idx_x() as usize;
        let across = if along_k { depth / T::LANES } else { outer / T::LANES };
        let (row, col) = (thread / across, thread % across * T::LANES);
        let (outer, k) = if along_k { (row, col) } else { (col, row) };
        Courier { operand, along_k, whole, outer, k, step: threads / across }
    }

    /// Outer index and k of the thread's pack `v`.
    #[inline(always)]
    fn place(&self, v: usize) -> (usize, usize) {
        match self.along_k {
            true => (self.outer + v * self.step, self.k),
            false => (self.outer, self.k + v * self.step),
        }
    }

    /// Reads the thread's packs of the next tile, of which `k_left` values of k lie in the matrix;
    /// what lies outside is 0.
    ///
    /// # Safety
    /// The matrix may be read.
    #[inline(always)]
    pub unsafe fn load(&mut self, depth: usize, k_left: u64) -> [T::Pack; N] {
        let mut packs = [T::ZEROS; N];
        for (v, lanes) in packs.iter_mut().enumerate() {
            let (outer, k) = self.place(v);
            let (outer_left, k_left) = (
                self.operand.outer_left.saturating_sub(outer as u64),
                k_left.saturating_sub(k as u64),
            );
            let source = self.operand.at(outer, k);
            let (left, other_left, stride) = match self.along_k {
                true => (k_left, outer_left, self.operand.k_stride),
                false => (outer_left, k_left, self.operand.outer_stride),
            };
            // SAFETY: only elements inside of the matrix are read.
            unsafe {
                if self.whole && left >= T::LANES as u64 && other_left > 0 {
                    *lanes = pack::read_global(source);
                } else if other_left > 0 {
                    for (l, lane) in lanes.as_mut().iter_mut().enumerate() {
                        if (l as u64) < left {
                            *lane = source.wrapping_offset(l as isize * stride as isize).read();
                        }
                    }
                }
            }
        }
        self.operand.advance(depth);
        packs
    }

    /// Writes the packs, widened, to their places in the tile, whose rows are `pitch` apart.
    ///
    /// # Safety
    /// The tile lies in shared memory, and no other thread touches these elements of it.
    #[inline(always)]
    pub unsafe fn store(&self, packs: &[T::Pack; N], tile: SharedTile<T::Sum>, pitch: usize) {
        for (v, lanes) in packs.iter().enumerate() {
            let (outer, k) = self.place(v);
            // SAFETY: the place lies in the tile.
            unsafe {
                let place = tile.add(k * pitch + outer);
                if self.along_k {
                    for (l, lane) in lanes.as_ref().iter().enumerate() {
                        place.add(l * pitch).write(lane.widen());
                    }
                } else {
                    for (group, lanes) in lanes.as_ref().chunks(T::Sum::LANES).enumerate() {
                        let mut sums = T::Sum::ZEROS;
                        for (sum, lane) in sums.as_mut().iter_mut().zip(lanes) {
                            *sum = lane.widen();
                        }
                        pack::write_shared(place.add(group * T::Sum::LANES), sums);
                    }
                }
            }
        }
    }
}

/// A thread's part in bringing tiles of an operand into shared memory by asynchronous copies: `N`
/// elements of each tile, where `PACKS` in packs of 16 bytes, which have to be packs of the matrix
/// and of the tile, else one by one.
///
/// The first tile holds what K has more than whole tiles, so that later ones need not ask where K
/// ends. There is no branch in [`AsyncCourier::start`]: the copies stand among the multiplications,
/// and a branch would keep the compiler from mixing the two.
#[derive(Clone, Copy)]
pub struct AsyncCourier<T, const N: usize, const PACKS: bool> {
    /// The thread's first element of the next tile.
    source: *const T,
    /// From one of the thread's copies to the next: in the matrix, and in the tile.
    source_step: i64,
    target_step: usize,
    /// From one tile to the next.
    stride: i64,
    /// The place of its first copy in the tile.
    target: usize,
    /// Bit v: copy v lies inside of the matrix along the outer extent.
    inside: u32,
    /// k of the first copy, and from one to the next.
    k: i32,
    k_step: i32,
}

/// Whether tiles of an operand can be copied in packs: it is contiguous along its outer extent,
/// which whole packs fill, and every row starts at a multiple of 16 bytes.
#[inline(always)]
pub fn in_packs<T: Element>(operand: &Operand<T>) -> bool {
    let row = (operand.k_stride as u64).wrapping_mul(size_of::<T>() as u64);
    operand.outer_stride == 1
        && (operand.start as u64 | row) % 16 == 0
        && operand.outer_left % T::LANES as u64 == 0
}

impl<T: Element, const N: usize, const PACKS: bool> AsyncCourier<T, N, PACKS> {
    /// For tiles of `outer` x `depth` whose rows are `pitch` apart, carried by `threads` threads.
    #[inline(always)]
    pub fn new(
        operand: Operand<T>,
        [outer, depth]: [usize; 2],
        pitch: usize,
        threads: usize,
    ) -> Self {
        let along_k = operand.k_stride == 1 && operand.outer_stride != 1;
        let thread = thread::thread_idx_x() as usize;
        // The place of the first copy, and the step to the next.
        let ((o, k), (outer_step, k_step)) = if PACKS {
            let across = outer / T::LANES;
            ((thread % across * T::LANES, thread / across), (0, threads / across))
        } else if along_k {
            ((thread / depth, thread % depth), (threads / depth, 0))
        } else {
            ((thread % outer, thread / outer), (0, threads / outer))
        };
        let mut inside = 0;
        for v in 0..N {
            inside |= u32::from(((o + v * outer_step) as u64) < operand.outer_left) << v;
        }
        AsyncCourier {
            source: operand.at(o, k),
            source_step: outer_step as i64 * operand.outer_stride
                + k_step as i64 * operand.k_stride,
            target_step: k_step * pitch + outer_step,
            stride: depth as i64 * operand.k_stride,
            target: k * pitch + o,
            inside,
            k: k as i32,
            k_step: k_step as i32,
        }
    }

    /// Starts the copies of a tile of which the first `depth` values of k are wanted, and goes on to
    /// the next tile; what lies outside of the matrix becomes 0.
    ///
    /// # Safety
    /// The matrix may be read, as far as `depth` goes. The tile lies in shared memory, and no other
    /// thread touches these elements of it before the copies have arrived.
    #[inline(always)]
    pub unsafe fn start_first(&mut self, tile: SharedTile<T>, depth: i32, k_stride: i64) {
        let in_k = |v: usize| self.k + v as i32 * self.k_step < depth;
        // SAFETY: the caller's promise.
        unsafe { self.copy(tile, true, in_k) };
        self.source = self.source.wrapping_offset(depth as isize * k_stride as isize);
    }

    /// Starts the copies of a whole tile, if `more`, and goes on to the next.
    ///
    /// # Safety
    /// As [`AsyncCourier::start_first`].
    #[inline(always)]
    pub unsafe fn start(&mut self, tile: SharedTile<T>, more: bool) {
        // SAFETY: the caller's promise.
        unsafe { self.copy(tile, more, |_| true) };
        self.source = self.source.wrapping_offset(self.stride as isize);
    }

    #[inline(always)]
    unsafe fn copy(&self, tile: SharedTile<T>, more: bool, in_k: impl Fn(usize) -> bool) {
        // SAFETY: the places lie in the tile; only elements inside of the matrix are wanted.
        unsafe {
            let mut target = tile.add(self.target);
            let mut source = self.source;
            for v in 0..if PACKS { N / T::LANES } else { N } {
                let wanted = self.inside >> v & 1 != 0 && in_k(v);
                if PACKS {
                    async_copy::copy_if(more, target.cast::<u128>(), source.cast(), wanted);
                } else {
                    async_copy::copy_if(more, target, source, wanted);
                }
                source = source.wrapping_offset(self.source_step as isize);
                target = target.add(self.target_step);
            }
        }
    }
}
