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
//! A warp loads packs of 16 bytes eight lanes at a time, so that those are neighbours whose packs
//! lie side by side in memory: along N the eight of a row, along K the four of a column. These have
//! but 64 bytes; with one row of C, for which there are registers, and several squares a lane, two
//! lanes along N therefore share their columns: each takes half of the packs of both, C = 2 L
//! columns, eight neighbours have a whole line, and at the end they exchange sums.
//!
//! All loads of a window are on their way before the first is waited for: P packs of B a lane, with
//! P = 8 and 16 bytes 4 KiB a warp, 32 KiB a block. The sums of several rows leave registers for
//! fewer, so that the next window is brought into the L2 cache meanwhile. No barrier joins the
//! warps before the end, so that some multiply while others wait.
//!
//! # Shared memory
//!
//! A region for each warp. First it has the window of A, widened, in rows along K, 16 bytes apart,
//! so that lanes write packs of several rows or of one to different banks; the four groups of lanes
//! along K read packs side by side. At the end it has the warp's sums.
//!
//! # Preconditions
//!
//! Those of [`GemmParams`], and a grid from `Kernel::launches`. Any shape, any strides; B is read
//! by packs where it is contiguous along N or K and aligned to them, but for ragged ends; A where
//! it is contiguous along K. The order of a sum depends on K, with one row also on whether B is
//! taken along K, and on nothing else.

use crate::ladder::warp_and_lane;
use crate::{Element, Packed, SharedTile, Sum, pack, store};
use cuda_std::misc::{afresh, afresh_i64};
use cuda_std::{grid, thread, warp};
use gemm_spec::{GemmParams, SKINNY_LANES, SKINNY_THREADS, Tiles};

mod packs;
mod part_of_b;

use packs::{gather, read_pack, unpacked};
use part_of_b::PartOfB;

/// Lanes of a warp along K.
const LANES_K: usize = SKINNY_LANES[0];
/// Lanes of a warp along N.
const LANES_N: usize = SKINNY_LANES[1];
/// All lanes of a warp.
const ALL: u32 = !0;

/// Computes a tile of C, with the block's other threads. A lane has L columns, and takes P packs of
/// B and V of A in a window; of a B along K it adds up C columns, its own and its neighbour's.
/// Where the grid `OVERLAPS`, which is for compute capability 9.0, it may start while the kernel
/// before it in its stream ends.
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
    const C: usize,
    const OVERLAPS: bool,
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
    // One row of packs that leave no registers has its lanes along N.
    let along_k = (ROWS > 1 || C > L) && p.b_is_along_k();
    let place = place_of_lane(lane, along_k);
    let (across, along) = (warp % warps_across, warp / warps_across);
    let share = Share {
        row,
        col: col + (across * warp_cols) as u64,
        k: (along * window(P)) as u64,
        step: tiles.block[2],
        lane,
        place,
    };
    if OVERLAPS {
        grid::wait_for_grids();
    }
    // SAFETY: elements of A and B are read only inside of the matrices; each warp writes its own
    // region, and between its writes and the reads of other warps stands a barrier.
    unsafe {
        let region = memory.add(warp * region_len);
        let mut sums = match p.b_is_along_k() {
            true => share.sums::<T, ROWS, L, P, V, C, true>((a, b), &p, region),
            false => share.sums::<T, ROWS, L, P, V, L, false>((a, b), &p, region),
        };
        if OVERLAPS {
            // Not before B has been read, which blocks of the next kernel would take room from.
            grid::launch_dependents();
        }
        let first = add_lanes(&mut sums, place, along_k);
        warp::sync_warp(ALL);
        // One row is written by one of the lanes that have it.
        if ROWS > 1 || place < LANES_N {
            for i in 0..ROWS.div_ceil(4) {
                for j in 0..L {
                    let to = (first + i) * warp_cols + place % LANES_N * L + j;
                    region.add(to).write(sums[i][j]);
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

/// The place of a lane among those of its warp: along N, and eight further for each along K, in
/// which lanes are neighbours where packs of B run along it.
const fn place_of_lane(lane: usize, along_k: bool) -> usize {
    if along_k { lane % LANES_K * LANES_N + lane / LANES_K } else { lane }
}

/// From a lane to that whose place differs by a power of two.
const fn to_lane(places: usize, along_k: bool) -> u32 {
    let lanes = match (along_k, places < LANES_N) {
        (false, _) => places,
        (true, true) => places * LANES_K,
        (true, false) => places / LANES_N,
    };
    lanes as u32
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
    /// Its place, as [`place_of_lane`] says.
    place: usize,
}

impl Share {
    /// The sums of this lane's columns. `ALONG_K`: the packs of B run along K.
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
        const C: usize,
        const ALONG_K: bool,
    >(
        self,
        (a, b): (*const T, *const T),
        p: &GemmParams<T::Sum>,
        region: SharedTile<T::Sum>,
    ) -> [[T::Sum; L]; ROWS] {
        const { assert!(P.is_multiple_of(C) && (ROWS == 1 || ROWS.is_multiple_of(4))) };
        const { assert!(C == L || C == 2 * L && ALONG_K) };
        let mut sums = [[T::Sum::ZERO; C]; ROWS];
        let mut rows = PartOfA::<T, ROWS, L, P, V>::new(a, p, self);
        let mut columns = PartOfB::<T, L, P, C, ALONG_K>::new(b, p, self);
        let mut left = if self.col < p.n { p.k.saturating_sub(self.k) } else { 0 };
        // SAFETY: a warp's lanes have the same `left`; each lane has read the region's last rows of
        // A when others write the next, and reads when they have written.
        unsafe {
            macro_rules! window {
                ($of_window:expr) => {
                    let packs_b = columns.load(p, $of_window);
                    let packs_a = rows.load(p, $of_window);
                    // Sums of several rows leave no registers for packs of another window.
                    if ROWS > 1 && left >= (self.step + window(P)) as u64 {
                        columns.prefetch(p, self.step);
                    }
                    warp::sync_warp(ALL);
                    rows.store(&packs_a, region);
                    warp::sync_warp(ALL);
                    self.multiply::<T, ROWS, L, P, C, ALONG_K>(&packs_b, region, &mut sums);
                    rows.advance(p, self.step);
                    columns.advance(p, self.step);
                    left = left.saturating_sub(self.step as u64);
                };
            }
            // One row has registers for a loop of its own over windows that lie in A and B, with no
            // other way in it.
            if ROWS == 1 && rows.whole && columns.whole {
                while left >= window(P) as u64 {
                    window!(window(P) as u32);
                }
            }
            while left > 0 {
                window!(left.min(window(P) as u64) as u32);
            }
            exchange(&sums, self.place)
        }
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
        const C: usize,
        const ALONG_K: bool,
    >(
        self,
        packs: &[[T; L]; P],
        region: SharedTile<T::Sum>,
        sums: &mut [[T::Sum; C]; ROWS],
    ) {
        // Of neighbours that share columns the second has the second of two squares.
        let place = afresh(self.place as u32) as usize;
        let of_lane = if C == L { 0 } else { place % 2 };
        let mut factors = T::Sum::ZEROS;
        for square in 0..P / C {
            let group = (square * (C / L) + of_lane) * LANES_K + place / LANES_N;
            for i in 0..ROWS {
                // SAFETY: the square's part of a row of A.
                let row = unsafe { region.add(i * row_len::<T::Sum>(P) + group * L) };
                for k in 0..L {
                    let lanes = T::Sum::LANES;
                    if k.is_multiple_of(lanes) {
                        // SAFETY: as above.
                        factors = unsafe { pack::read_shared(row.add(k)) };
                    }
                    let factor = factors.as_ref()[k % lanes];
                    for j in 0..C {
                        let (pack, l) = if ALONG_K { (j, k) } else { (k, j) };
                        let of_b = packs[square * C + pack][l].widen();
                        sums[i][j] = factor.mul_add(of_b, sums[i][j]);
                    }
                }
            }
        }
    }
}

/// From one row of A's window to the next, in elements.
const fn row_len<S: Sum>(packs: usize) -> usize {
    window(packs) + S::LANES
}

/// The sums of a lane's own L columns, of C that it shares with its neighbour where these are more.
///
/// # Safety
/// By all lanes of a warp.
#[inline(always)]
unsafe fn exchange<S: Sum, const L: usize, const C: usize, const ROWS: usize>(
    sums: &[[S; C]; ROWS],
    place: usize,
) -> [[S; L]; ROWS] {
    let mut own = [[S::ZERO; L]; ROWS];
    for i in 0..ROWS {
        for j in 0..L {
            own[i][j] = sums[i][j];
            if C > L {
                let (first, second) = (sums[i][j], sums[i][C - L + j]);
                let (of_lane, given) =
                    if place.is_multiple_of(2) { (first, second) } else { (second, first) };
                // SAFETY: the caller's promise.
                let (other, _) =
                    unsafe { warp::warp_shuffle_xor(ALL, given, to_lane(1, true), 32) };
                own[i][j] = of_lane.add(other);
            }
        }
    }
    own
}

/// Adds the sums of the four lanes that have the same columns. Of the result each has a quarter of
/// the rows, in its first ones: with one row all have it. Says which row is the first.
///
/// Half of the rows go to the partner in each of two rounds, so that a lane passes on three
/// quarters of its sums, and not twice all.
///
/// # Safety
/// By all lanes of a warp.
#[inline(always)]
unsafe fn add_lanes<S: Sum, const L: usize, const ROWS: usize>(
    sums: &mut [[S; L]; ROWS],
    place: usize,
    along_k: bool,
) -> usize {
    let (mut rows, mut first) = (ROWS, 0);
    for round in 0..2 {
        let partner = 16 >> round;
        let is_upper = place & partner != 0;
        let half = rows / 2;
        for i in 0..rows.div_ceil(2) {
            for j in 0..L {
                let (lower, upper) = (sums[i][j], sums[i + half][j]);
                let (own, given) = if is_upper { (upper, lower) } else { (lower, upper) };
                // SAFETY: the caller's promise.
                let (other, _) =
                    unsafe { warp::warp_shuffle_xor(ALL, given, to_lane(partner, along_k), 32) };
                sums[i][j] = own.add(other);
            }
        }
        if is_upper {
            first += half;
        }
        rows = rows.div_ceil(2);
    }
    first
}

/// This lane's part of bringing windows of A into shared memory: V packs along K, neighbouring
/// lanes along the extent in which A is contiguous.
///
/// N.B. What can be computed from the lane and the parameters is, in each window and afresh: the
/// registers are full of sums and packs.
struct PartOfA<T, const ROWS: usize, const L: usize, const P: usize, const V: usize> {
    /// The first element of the lane's first pack of the window.
    start: *const T,
    lane: usize,
    /// Rows of A from the tile's first on.
    rows_left: u32,
    along_k: bool,
    /// Packs may be read as such, where K does not end in them.
    whole: bool,
}

impl<T: Element, const ROWS: usize, const L: usize, const P: usize, const V: usize>
    PartOfA<T, ROWS, L, P, V>
{
    /// Packs of a row of the window.
    const PACKS: usize = window(P) / L;
    /// Whether there are as many as lanes.
    const ALL_HAVE_PACKS: bool = ROWS * Self::PACKS >= 32;

    #[inline(always)]
    fn new(a: *const T, p: &GemmParams<T::Sum>, share: Share) -> Self {
        const { assert!(32 % ROWS == 0 && 32 % Self::PACKS == 0) };
        let mut part = PartOfA {
            start: a,
            lane: share.lane,
            rows_left: (p.m - share.row).min(ROWS as u64) as u32,
            along_k: p.a_is_along_k(),
            whole: false,
        };
        let (row, k) = part.first();
        // Lanes without a pack say the same of it as others.
        let row = if ROWS == 1 { 0 } else { row };
        let (row, k) = (share.row as i64 + i64::from(row), share.k as i64 + i64::from(k));
        part.start = a.wrapping_offset((row * p.a_row_stride + k * p.a_col_stride) as isize);
        let bytes = (part.stride(p) as u64).wrapping_mul(size_of::<T>() as u64);
        let is_aligned = (part.start as u64 | bytes).is_multiple_of(size_of::<[T; L]>() as u64);
        part.whole = p.a_col_stride == 1 && is_aligned;
        part
    }

    /// Row and k of the lane's first pack in the window; a row that is none of the tile's where it
    /// has no pack.
    #[inline(always)]
    fn first(&self) -> (u32, u32) {
        let lane = afresh(self.lane as u32);
        let (rows, packs) = (ROWS as u32, Self::PACKS as u32);
        match self.along_k {
            true => (lane / packs, lane % packs * L as u32),
            false if Self::ALL_HAVE_PACKS || lane < rows * packs => {
                (lane % rows, lane / rows * L as u32)
            }
            false => (rows, 0),
        }
    }

    /// From one of its packs to the next, in rows and in k.
    #[inline(always)]
    fn step(&self) -> (u32, u32) {
        match self.along_k {
            true => (32 / Self::PACKS as u32, 0),
            false => (0, (32 / ROWS * L) as u32),
        }
    }

    /// The same in elements.
    #[inline(always)]
    fn stride(&self, p: &GemmParams<T::Sum>) -> isize {
        let (rows, k) = self.step();
        let stride = if self.along_k { p.a_row_stride } else { p.a_col_stride };
        afresh_i64(stride) as isize * (rows + k) as isize
    }

    /// Reads the lane's packs of the window, of which `left` values of k lie in A; what lies
    /// outside is 0.
    ///
    /// # Safety
    /// A may be read.
    #[inline(always)]
    unsafe fn load(&self, p: &GemmParams<T::Sum>, left: u32) -> [[T; L]; V] {
        let mut packs = [[T::ZEROS.as_ref()[0]; L]; V];
        let ((mut row, mut k), (row_step, k_step)) = (self.first(), self.step());
        let (mut source, stride) = (self.start, self.stride(p));
        if self.whole && left >= window(P) as u32 {
            for v in 0..V {
                let mut bits = 0;
                if row < self.rows_left {
                    // SAFETY: the pack lies in the matrix and is aligned.
                    bits = unsafe { read_pack::<T, L>(source) };
                }
                packs[v] = unpacked(bits);
                row += row_step;
                source = source.wrapping_offset(stride);
            }
        } else {
            for v in 0..V {
                let count = if row < self.rows_left { left.saturating_sub(k) } else { 0 };
                // SAFETY: so many elements lie in the matrix.
                packs[v] = unpacked(unsafe { gather::<T, L>(source, p.a_col_stride, count) });
                (row, k) = (row + row_step, k + k_step);
                source = source.wrapping_offset(stride);
            }
        }
        packs
    }

    /// Writes the packs, widened, to their places in the region's rows.
    ///
    /// # Safety
    /// No other lane touches these elements.
    #[inline(always)]
    unsafe fn store(&self, packs: &[[T; L]; V], region: SharedTile<T::Sum>) {
        let ((mut row, mut k), (row_step, k_step)) = (self.first(), self.step());
        for v in 0..V {
            if Self::ALL_HAVE_PACKS || row < ROWS as u32 {
                // SAFETY: the place lies in the region, at a multiple of 16 bytes.
                unsafe {
                    let place = region.add(row as usize * row_len::<T::Sum>(P) + k as usize);
                    for part in 0..L / T::Sum::LANES {
                        let (first, mut widened) = (part * T::Sum::LANES, T::Sum::ZEROS);
                        for l in 0..T::Sum::LANES {
                            widened.as_mut()[l] = packs[v][first + l].widen();
                        }
                        pack::write_shared(place.add(first), widened);
                    }
                }
            }
            (row, k) = (row + row_step, k + k_step);
        }
    }

    /// Moves on along K.
    #[inline(always)]
    fn advance(&mut self, p: &GemmParams<T::Sum>, step: usize) {
        let stride = afresh_i64(p.a_col_stride) as isize;
        self.start = self.start.wrapping_offset(step as isize * stride);
    }
}

/// Makes entry points from rows of a list, whose grids overlap or not.
#[cfg(any(feature = "sm_70", feature = "sm_90"))]
macro_rules! entries {
    (@overlaps $overlaps:literal; $((
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
            const C: usize = if ROWS == 1 && P.is_multiple_of(2 * L) { 2 * L } else { L };
            let memory = cuda_std::shared_array![S; TILES.skinny_len(<S as Packed>::LANES)];
            let (operands, p) = of_layer::<$element>((a, b, c), p);
            // SAFETY: the memory is this block's own; the rest is the host's promise, passed on.
            unsafe {
                skinny::<$element, ROWS, L, P, V, C, $overlaps>(operands, p, TILES, memory);
            }
        }
    )*};
    ($($row:tt)*) => { entries! { @overlaps false; $($row)* } };
}

#[cfg(any(feature = "sm_70", feature = "sm_90"))]
use crate::{F8E4M3, F8E5M2, of_layer};
#[cfg(any(feature = "sm_70", feature = "sm_90"))]
use cuda_std::half::{bf16, f16};
#[cfg(feature = "sm_70")]
gemm_spec::skinny_kernels!(entries);

/// The same in the module for compute capability 9.0.
#[cfg(feature = "sm_90")]
pub mod overlapped {
    use super::*;

    macro_rules! overlapped {
        ($($row:tt)*) => { entries! { @overlaps true; $($row)* } };
    }
    gemm_spec::skinny_kernels!(overlapped);
}
