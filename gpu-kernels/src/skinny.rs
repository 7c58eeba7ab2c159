//! Products with few rows of C, bound by reading B once.
//!
//! # Idea
//!
//! ```text
//! for each tile of ROWS x BN of C, in parallel:
//!     for each window of K, dealt out to the warps:
//!         packs_b = B(window, the warp's columns)      16 bytes at a time, many on their way
//!         part_a  = A(the tile's rows, window)         a few elements a lane, to shared memory
//!         sums   += part_a * packs_b                   each lane a square of B in its registers
//!     add the sums of lanes and warps, in a fixed order
//!     write them to C
//! ```
//!
//! # Mapping
//!
//! A block of 256 threads computes ROWS x BN of C; grid x runs along the tiles of a row, y along
//! those of a column. Its warps stand next to each other over the tile's columns, and where they
//! have covered them, behind each other along K: windows of K go round among these. In a warp 8
//! lanes stand next to each other along N, 4 along K. A lane takes squares of L x L elements of B,
//! in packs of L: so it has the same elements whether packs run along N or along K, and only which
//! index of a square counts packs differs.
//!
//! All loads of a window are on their way before the first is waited for: P packs of B a lane, with
//! P = 8 and 16 bytes 4 KiB a warp, 32 KiB a block. No barrier joins the warps before the end, so
//! that some multiply while others wait.
//!
//! # Shared memory
//!
//! A region for each warp. First it has the window of A, widened, a row for each k; L rows are
//! followed by 16 bytes, so that the four groups of lanes along K read different banks. At the end
//! it has the warp's sums.
//!
//! # Preconditions
//!
//! Those of [`GemmParams`], and a grid from `Kernel::launches`. Any shape, any strides; B is read
//! by packs where it is contiguous along N or K and aligned to them, but for ragged ends; A where
//! it is contiguous along K. The order of a sum depends on K and nothing else.

use crate::ladder::warp_and_lane;
use crate::{Element, Packed, SharedTile, Sum, pack, store};
use cuda_std::misc::{afresh, afresh_i64};
use cuda_std::{thread, warp};
use gemm_spec::{GemmParams, SKINNY_LANES, SKINNY_THREADS, Tiles};

/// Lanes of a warp along K.
const LANES_K: usize = SKINNY_LANES[0];
/// Lanes of a warp along N.
const LANES_N: usize = SKINNY_LANES[1];
/// All lanes of a warp.
const ALL: u32 = !0;

/// Computes a tile of C, with the block's other threads. A lane has L columns, and takes P packs of
/// B and V of A in a window.
///
/// # Safety
///
/// Called by all threads of a block; `memory` is shared memory of
/// [`skinny_len`](Tiles::skinny_len) elements that nothing else uses, at a multiple of 16 bytes.
/// The pointers and the parameter block describe matrices that the grid may read (A, B) and write
/// (C), and no other code touches C during the launch.
#[inline(always)]
pub unsafe fn skinny<
    T: Element,
    const ROWS: usize,
    const L: usize,
    const P: usize,
    const V: usize,
>(
    (a, b, c): (*const T, *const T, *mut T::Output),
    p: GemmParams<T::Sum>,
    tiles: Tiles,
    memory: SharedTile<T::Sum>,
) {
    let ([_, cols, _], [_, warp_cols]) = (tiles.block, tiles.warp);
    let row = u64::from(thread::block_idx_y()) * ROWS as u64;
    let col = u64::from(thread::block_idx_x()) * cols as u64;
    let warps_across = cols / warp_cols;
    let region_len = tiles.skinny_region(T::Sum::LANES);
    let (warp, lane) = warp_and_lane();
    let (across, along) = (warp % warps_across, warp / warps_across);
    let share = Share {
        row,
        col: col + (across * warp_cols) as u64,
        k: (along * window(P)) as u64,
        step: tiles.block[2],
        lane,
    };
    // SAFETY: elements of A and B are read only inside of the matrices; each warp writes its own
    // region, and between its writes and the reads of other warps stands a barrier.
    unsafe {
        let region = memory.add(warp * region_len);
        let mut sums = match p.b_is_along_k() {
            true => share.sums::<T, ROWS, L, P, V, true>((a, b), &p, region),
            false => share.sums::<T, ROWS, L, P, V, false>((a, b), &p, region),
        };
        add_lanes(&mut sums);
        warp::sync_warp(ALL);
        if lane < LANES_N {
            for i in 0..ROWS {
                for j in 0..L {
                    region.add(i * warp_cols + lane * L + j).write(sums[i][j]);
                }
            }
        }
        thread::sync_threads();
        for v in 0..(ROWS * cols).div_ceil(SKINNY_THREADS) {
            let e = thread::thread_idx_x() as usize + v * SKINNY_THREADS;
            let (i, j) = (e / cols, e % cols);
            let (to_row, to_col) = (row + i as u64, col + j as u64);
            if i < ROWS && to_row < p.m && to_col < p.n {
                let place = j / warp_cols * region_len + i * warp_cols + j % warp_cols;
                let mut sum = T::Sum::ZERO;
                for along in 0..SKINNY_THREADS / 32 / warps_across {
                    sum = sum.add(memory.add(along * warps_across * region_len + place).read());
                }
                store::<T>(c, &p, to_row, to_col, sum);
            }
        }
    }
}

/// How much of K a warp takes at a time, whose lanes have so many packs of B each.
const fn window(packs: usize) -> usize {
    LANES_K * packs
}

/// What a warp computes: `ROWS` rows from `row` on, the columns of its lanes from `col` on, windows
/// of K from `k` on, `step` apart.
#[derive(Clone, Copy)]
struct Share {
    row: u64,
    col: u64,
    k: u64,
    step: usize,
    /// This thread's lane.
    lane: usize,
}

impl Share {
    /// The sums of this lane's squares. `ALONG_K`: the packs of B run along K.
    ///
    /// # Safety
    /// By all lanes of a warp, whose own `region` is; A and B may be read.
    #[inline(always)]
    unsafe fn sums<
        T: Element,
        const ROWS: usize,
        const L: usize,
        const P: usize,
        const V: usize,
        const ALONG_K: bool,
    >(
        self,
        (a, b): (*const T, *const T),
        p: &GemmParams<T::Sum>,
        region: SharedTile<T::Sum>,
    ) -> [[T::Sum; L]; ROWS] {
        const { assert!(P.is_multiple_of(L)) };
        let mut sums = [[T::Sum::ZERO; L]; ROWS];
        let mut rows = PartOfA::<T, ROWS, L, P, V>::new(a, p, self);
        let mut columns = PartOfB::<T, L, P, ALONG_K>::new(b, p, self);
        let mut left = if self.col < p.n { p.k.saturating_sub(self.k) } else { 0 };
        // SAFETY: a warp's lanes have the same `left`; each lane has read the region's last rows of
        // A when others write the next, and reads when they have written.
        unsafe {
            while left > 0 {
                let of_window = left.min(window(P) as u64) as u32;
                let packs_b = columns.load(of_window);
                let packs_a = rows.load(of_window);
                warp::sync_warp(ALL);
                rows.store(&packs_a, region);
                warp::sync_warp(ALL);
                self.multiply::<T, ROWS, L, P, ALONG_K>(&packs_b, region, &mut sums);
                rows.advance(self.step);
                columns.advance(self.step);
                left = left.saturating_sub(self.step as u64);
            }
        }
        sums
    }

    /// Adds the products of the lane's squares with the rows of A.
    ///
    /// # Safety
    /// The region has the window of A.
    #[inline(always)]
    unsafe fn multiply<
        T: Element,
        const ROWS: usize,
        const L: usize,
        const P: usize,
        const ALONG_K: bool,
    >(
        self,
        packs: &[[T; L]; P],
        region: SharedTile<T::Sum>,
        sums: &mut [[T::Sum; L]; ROWS],
    ) {
        for square in 0..P / L {
            // SAFETY: the rows of A that belong to the square.
            let square_of_a = unsafe {
                let group = square * LANES_K + self.lane / LANES_N;
                region.add(group * group_len::<T::Sum>(ROWS, L))
            };
            for k in 0..L {
                let mut factors = [T::Sum::ZERO; L];
                for j in 0..L {
                    let (pack, l) = if ALONG_K { (j, k) } else { (k, j) };
                    factors[j] = packs[square * L + pack][l].widen();
                }
                // SAFETY: as above.
                let column = unsafe { read_column::<T::Sum, ROWS>(square_of_a.add(k * ROWS)) };
                for i in 0..ROWS {
                    for j in 0..L {
                        sums[i][j] = column[i].mul_add(factors[j], sums[i][j]);
                    }
                }
            }
        }
    }
}

/// From one group of so many k of A's window to the next, in elements.
const fn group_len<S: Sum>(rows: usize, group: usize) -> usize {
    group * rows + S::LANES
}

/// Elements that lie side by side in shared memory, 16 bytes at a time where there are so many.
///
/// # Safety
/// They may be read, and lie at a multiple of 16 bytes where there are so many.
#[inline(always)]
unsafe fn read_column<S: Sum, const ROWS: usize>(place: SharedTile<S>) -> [S; ROWS] {
    let mut column = [S::ZERO; ROWS];
    // SAFETY: the caller's promise.
    unsafe {
        if ROWS.is_multiple_of(S::LANES) {
            for group in 0..ROWS / S::LANES {
                let lanes = pack::read_shared(place.add(group * S::LANES));
                for l in 0..S::LANES {
                    column[group * S::LANES + l] = lanes.as_ref()[l];
                }
            }
        } else {
            for i in 0..ROWS {
                column[i] = place.add(i).read();
            }
        }
    }
    column
}

/// Adds each sum of the lanes that have the same columns; all of them have the result.
///
/// # Safety
/// By all lanes of a warp.
#[inline(always)]
unsafe fn add_lanes<S: Sum, const L: usize, const ROWS: usize>(sums: &mut [[S; L]; ROWS]) {
    for i in 0..ROWS {
        for j in 0..L {
            // SAFETY: the caller's promise.
            let (other, _) = unsafe { warp::warp_shuffle_xor(ALL, sums[i][j], 8, 32) };
            sums[i][j] = sums[i][j].add(other);
            // SAFETY: as above.
            let (other, _) = unsafe { warp::warp_shuffle_xor(ALL, sums[i][j], 16, 32) };
            sums[i][j] = sums[i][j].add(other);
        }
    }
}

/// This lane's part of bringing windows of A into shared memory: V packs along K, neighbouring
/// lanes along the extent in which A is contiguous.
struct PartOfA<T, const ROWS: usize, const L: usize, const P: usize, const V: usize> {
    /// The first element of the lane's first pack of the window.
    start: *const T,
    k_stride: i64,
    /// From one of its packs to the next: elements in A, rows, k, and elements in the region.
    stride: i64,
    row_step: u32,
    k_step: u32,
    place_step: u32,
    /// The first pack's k in the window, and elements from the region's start to its place there.
    k: u32,
    place: u32,
    /// Rows of A from the first pack's on, as far as they belong to the tile.
    rows_left: u32,
    /// Whether the lane has packs at all.
    takes_part: bool,
    /// Packs may be read as such, where K does not end in them.
    whole: bool,
}

impl<T: Element, const ROWS: usize, const L: usize, const P: usize, const V: usize>
    PartOfA<T, ROWS, L, P, V>
{
    #[inline(always)]
    fn new(a: *const T, p: &GemmParams<T::Sum>, share: Share) -> Self {
        // Packs of a row.
        let packs = const { window(P) / L };
        const { assert!(32 % ROWS == 0 && 32 % (window(P) / L) == 0) };
        let lane = share.lane;
        let (row, pack) = match p.a_is_along_k() {
            true => (lane / packs, lane % packs),
            false => (lane % ROWS, lane / ROWS),
        };
        let (row_step, pack_step) = match p.a_is_along_k() {
            true => (32 / packs, 0),
            false => (0, 32 / ROWS),
        };
        let offset = |row: u64, k: u64| row as i64 * p.a_row_stride + k as i64 * p.a_col_stride;
        let (k, k_step) = (pack * L, pack_step * L);
        let takes_part = lane < ROWS * packs;
        let rows_left = (p.m - share.row).min(ROWS as u64).saturating_sub(row as u64);
        let first = offset(share.row + row as u64, share.k + k as u64);
        let start = a.wrapping_offset(first as isize);
        let stride = offset(row_step as u64, k_step as u64);
        let bytes = (stride as u64).wrapping_mul(size_of::<T>() as u64);
        let is_aligned = (start as u64 | bytes).is_multiple_of(size_of::<[T; L]>() as u64);
        PartOfA {
            start,
            k_stride: p.a_col_stride,
            stride,
            row_step: row_step as u32,
            k_step: k_step as u32,
            place_step: (row_step + pack_step * group_len::<T::Sum>(ROWS, L)) as u32,
            k: k as u32,
            place: (row + pack * group_len::<T::Sum>(ROWS, L)) as u32,
            rows_left: if takes_part { rows_left as u32 } else { 0 },
            takes_part,
            whole: p.a_col_stride == 1 && is_aligned,
        }
    }

    /// Reads the lane's packs of the window, of which `left` values of k lie in A; what lies
    /// outside is 0.
    ///
    /// # Safety
    /// A may be read.
    #[inline(always)]
    unsafe fn load(&self, left: u32) -> [[T; L]; V] {
        let mut packs = [[T::ZEROS.as_ref()[0]; L]; V];
        let (mut row, mut source) = (0, self.start);
        let stride = afresh_i64(self.stride) as isize;
        if self.whole && left >= window(P) as u32 {
            for v in 0..V {
                if row < self.rows_left {
                    // SAFETY: the pack lies in the matrix and is aligned.
                    packs[v] = unsafe { read_pack(source) };
                }
                row += self.row_step;
                source = source.wrapping_offset(stride);
            }
        } else {
            let mut k = self.k;
            for v in 0..V {
                let count = if row < self.rows_left { left.saturating_sub(k) } else { 0 };
                // SAFETY: so many elements lie in the matrix.
                packs[v] = unsafe { gather(source, self.k_stride, count) };
                row += self.row_step;
                k += self.k_step;
                source = source.wrapping_offset(stride);
            }
        }
        packs
    }

    /// Writes the packs, widened, to their places in the region: a row for each k.
    ///
    /// # Safety
    /// No other lane touches these elements.
    #[inline(always)]
    unsafe fn store(&self, packs: &[[T; L]; V], region: SharedTile<T::Sum>) {
        if !self.takes_part {
            return;
        }
        let mut place = afresh(self.place);
        for v in 0..V {
            for l in 0..L {
                // SAFETY: the place lies in the region.
                unsafe {
                    let place = region.add(place as usize + l * ROWS);
                    place.write(packs[v][l].widen());
                }
            }
            place += self.place_step;
        }
    }

    /// Moves on along K.
    #[inline(always)]
    fn advance(&mut self, step: usize) {
        self.start = self.start.wrapping_offset(step as isize * self.k_stride as isize);
    }
}

/// This lane's part of B: P packs of each window, in squares.
struct PartOfB<T, const L: usize, const P: usize, const ALONG_K: bool> {
    /// The lane's first element of the window.
    start: *const T,
    k_stride: i64,
    col_stride: i64,
    /// The lane's place in the window along K.
    k: u32,
    /// The columns from the lane's first to the last of B.
    cols_left: u32,
    /// Packs may be read as such, where K does not end in them.
    whole: bool,
}

impl<T: Element, const L: usize, const P: usize, const ALONG_K: bool> PartOfB<T, L, P, ALONG_K> {
    #[inline(always)]
    fn new(b: *const T, p: &GemmParams<T::Sum>, share: Share) -> Self {
        let (k, col) = (share.lane / LANES_N * L, share.lane % LANES_N * L);
        let first = b.wrapping_offset((share.col as i64 * p.b_col_stride) as isize);
        let (stride, other) = match ALONG_K {
            true => (p.b_row_stride, p.b_col_stride),
            false => (p.b_col_stride, p.b_row_stride),
        };
        let bytes = (other as u64).wrapping_mul(size_of::<T>() as u64);
        let is_aligned = (first as u64 | bytes).is_multiple_of(size_of::<[T; L]>() as u64);
        let cols = (LANES_N * L) as u64;
        let offset = (share.k as i64 + k as i64) * p.b_row_stride + col as i64 * p.b_col_stride;
        PartOfB {
            start: first.wrapping_offset(offset as isize),
            k_stride: p.b_row_stride,
            col_stride: p.b_col_stride,
            k: k as u32,
            cols_left: p.n.saturating_sub(share.col + col as u64).min(cols) as u32,
            whole: stride == 1 && is_aligned && share.col + cols <= p.n,
        }
    }

    /// Moves on along K.
    #[inline(always)]
    fn advance(&mut self, step: usize) {
        self.start = self.start.wrapping_offset(step as isize * self.k_stride as isize);
    }

    /// Reads the lane's packs of a window, of which `left` values of k lie in B; what lies outside
    /// is 0. Pack q of a square is its row q, or with `ALONG_K` its column q.
    ///
    /// # Safety
    /// B may be read.
    #[inline(always)]
    unsafe fn load(&self, left: u32) -> [[T; L]; P] {
        let mut packs = [[T::ZEROS.as_ref()[0]; L]; P];
        // From one pack to the next, and from one element of a pack to the next. Afresh, else
        // their multiples take registers from window to window.
        let (across, along) = match ALONG_K {
            true => (self.col_stride, self.k_stride),
            false => (self.k_stride, self.col_stride),
        };
        let (across, further) =
            (afresh_i64(across) as isize, LANES_K as isize * L as isize * self.k_stride as isize);
        let mut square = self.start;
        if self.whole && left >= window(P) as u32 {
            for s in 0..P / L {
                let mut source = square;
                for q in 0..L {
                    // SAFETY: the pack lies in the matrix and is aligned.
                    packs[s * L + q] = unsafe { read_pack(source) };
                    source = source.wrapping_offset(across);
                }
                square = square.wrapping_offset(further);
            }
        } else {
            for s in 0..P / L {
                let mut source = square;
                for q in 0..L {
                    let count = self.count(left, s, q);
                    // SAFETY: so many elements lie in the matrix.
                    packs[s * L + q] = unsafe { gather(source, along, count) };
                    source = source.wrapping_offset(across);
                }
                square = square.wrapping_offset(further);
            }
        }
        packs
    }

    /// How many elements of pack `q` of a square lie in B.
    #[inline(always)]
    fn count(&self, left: u32, square: usize, q: usize) -> u32 {
        let k_left = left.saturating_sub(self.k + (square * LANES_K * L) as u32);
        let (across, along) = match ALONG_K {
            true => (self.cols_left, k_left),
            false => (k_left, self.cols_left),
        };
        if (q as u32) < across { along } else { 0 }
    }
}

/// L elements side by side, in one access.
///
/// # Safety
/// They lie at a multiple of their bytes, and may be read.
#[inline(always)]
unsafe fn read_pack<T: Copy, const L: usize>(source: *const T) -> [T; L] {
    // SAFETY: the caller's promise; every bit pattern is a pack.
    unsafe {
        match size_of::<[T; L]>() {
            8 => core::mem::transmute_copy(&source.cast::<u64>().read()),
            16 => core::mem::transmute_copy(&source.cast::<u128>().read()),
            _ => unreachable!("no pack"),
        }
    }
}

/// The first `count` elements `stride` apart, then 0; L where there are more.
///
/// # Safety
/// They may be read.
#[inline(always)]
unsafe fn gather<T: Packed, const L: usize>(source: *const T, stride: i64, count: u32) -> [T; L] {
    let mut pack = [T::ZEROS.as_ref()[0]; L];
    let (mut source, stride) = (source, afresh_i64(stride) as isize);
    for l in 0..L {
        if (l as u32) < count {
            // SAFETY: the caller's promise.
            pack[l] = unsafe { source.read() };
        }
        source = source.wrapping_offset(stride);
    }
    pack
}

/// Makes entry points from rows of a list.
#[cfg(feature = "sm_70")]
macro_rules! entries {
    ($((
        $name:ident, $variant:literal, $element:ident, $block:expr, $warp:expr, $thread:expr,
        $stages:literal, $min_blocks:literal
    ),)*) => {$(
        #[doc = concat!("`", $variant, "` for `", stringify!($element), "`; see the module.")]
        ///
        /// # Safety
        ///
        /// The pointers and the block describe matrices that the grid may read (A, B) and write
        /// (C); nothing else touches C during the launch; the grid is one of `Kernel::launches`.
        #[cuda_std::kernel(max_threads = 256, min_blocks = $min_blocks)]
        pub unsafe fn $name(
            a: *const $element,
            b: *const $element,
            c: *mut <$element as Element>::Output,
            p: GemmParams<<$element as Element>::Sum>,
        ) {
            type S = <$element as Element>::Sum;
            const TILES: Tiles = Tiles::of_threads($block, $warp, $thread, $stages, $min_blocks);
            const ROWS: usize = TILES.block[0];
            const L: usize = TILES.thread[1];
            const WINDOW: usize = TILES.skinny_window();
            const P: usize = WINDOW / LANES_K;
            const V: usize = (ROWS * WINDOW / L).div_ceil(32);
            let memory = cuda_std::shared_array![S; TILES.skinny_len(<S as Packed>::LANES)];
            // SAFETY: the memory is this block's own; the rest is the host's promise, passed on.
            unsafe { skinny::<$element, ROWS, L, P, V>((a, b, c), p, TILES, memory) }
        }
    )*};
}

#[cfg(feature = "sm_70")]
use crate::{F8E4M3, F8E5M2};
#[cfg(feature = "sm_70")]
use cuda_std::half::{bf16, f16};
#[cfg(feature = "sm_70")]
gemm_spec::skinny_kernels!(entries);
