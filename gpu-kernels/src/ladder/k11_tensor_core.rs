//! Step 11: a warp multiplies whole small matrices at once, on its tensor core.
//!
//! # Idea
//!
//! ```text
//! as step 10, but in place of each lane's outer products:
//!     for k in 0..BK step KI:                              KI: 16; i8 32, f64 8
//!         a[i] = 16 rows of tile_a, KI of K                for each 16 rows of the warp's tile
//!         b[j] = 8 columns of tile_b, KI of K              for each 8 columns
//!         sum[i][j] += a[i] * b[j]                         one instruction, 16 x 8 x KI products
//! ```
//!
//! f16 and bf16 are multiplied exactly and summed in f32, i8 exactly and summed in i32. f64 is
//! multiplied and summed as f64. i32 has no instruction: its numbers are taken apart into bytes,
//! whose ten products that matter modulo 2^32 are summed in 32 bits, so that the result is exact.
//!
//! # Mapping
//!
//! Warps row by row over the block's tile. What a lane holds of 16 x 8 sums is fixed by the
//! instruction: two neighbours of row lane / 4, and of the row 8 further down.
//!
//! # Shared memory
//!
//! A ring as in step 9. A tile is stored as its matrix is: rows along K, or rows along the extent
//! that C keeps, so that packs of 16 bytes go in as they are in all four transposes. The rows that
//! are read together lie in different banks: of elements of 1 or 2 bytes, which are read 16 bytes
//! of 8 rows at a time, since a row's packs change places ([`Tiles::swizzled`]); of others by
//! padding of 16 or 32 bytes a row.
//!
//! In f64 no barrier of the block stands in the loop: each stage has two of its own (`mbarrier`),
//! on which its copies and the warps that have read it are counted. So a warp waits for nothing but
//! data, and reads while others multiply.
//!
//! # Preconditions
//!
//! Those of [`GemmParams`], and a grid from `Kernel::launches`. Any shape, any strides; a matrix
//! that packs of 16 bytes do not fit is copied element by element, and through registers where an
//! element has fewer than 4 bytes. No thread leaves before the last barrier, and all lanes of a
//! warp stay together. Compute capability 8.0, for f64 9.0.
//!
//! # Change since the last step
//!
//! On an H100 at 4096^3 (`2026-11-28-2607888a2-2.csv`), against the fastest step without tensor
//! cores: f16 0.320 ms and not 3.10 (step 6), f64 2.30 and not 7.30 (step 10), i32 2.24 and not
//! 4.43 (step 9).

use super::k10_grouped_order::GROUP;
use super::parts::{Arrivals, Operand, Ring, TileCourier, TileShape};
use crate::tensor::{StoredTile, TensorCore};
use crate::{Element, Epilogue, OutputTile, SharedTile, Sum, apply};
use core::ops::Range;
use cuda_std::misc::afresh;
use cuda_std::{grid, thread};
use gemm_spec::{GemmParams, Tiles, order};

/// Computes a warp's MT x NT tiles of 16 x 8 elements of C, with the block's other warps.
///
/// # Safety
///
/// Called by all threads of a block, whose tiles lie in shared memory that nothing else uses. The
/// pointers and the parameter block describe matrices that the grid may read (A, B) and write (C),
/// and no other code touches C during the launch.
#[inline(always)]
pub unsafe fn tensor_core<
    T: TensorCore,
    const MT: usize,
    const NT: usize,
    const NA: usize,
    const NB: usize,
    const PENDING: u32,
    E: Epilogue<T>,
>(
    (a, b, c): (*const T, *const T, *mut T::Output),
    p: GemmParams<T::Sum>,
    tiles: Tiles,
    memory: SharedTile<T>,
    epilogue: E,
) {
    let [bm, bn, _] = tiles.block;
    let place = |x: u32| {
        let number = thread::block_idx_y() * thread::grid_dim_x() + x;
        let (row, col) = order::grouped(number, thread::grid_dim_y(), thread::grid_dim_x(), GROUP);
        (u64::from(row) * bm as u64, u64::from(col) * bn as u64)
    };
    let (row, col) = place(thread::block_idx_x());
    if T::FREE {
        // The next kernel of the stream may get ready, but not what adds parts of K: it would wait
        // beside them. The one before may still run.
        if p.slices.map_k == 0 {
            grid::launch_dependents();
        }
        grid::wait_for_grids();
    }
    let (a, b) = (Operand::a(a, &p, row), Operand::b(b, &p, col));
    let mut sums = [[T::NO_SUMS; NT]; MT];
    // SAFETY: the caller's promise.
    unsafe {
        macro_rules! multiply {
            ($a_along_k:literal, $b_along_k:literal, $packs:literal) => {{
                main_loop::<T, MT, NT, NA, NB, PENDING, $a_along_k, $b_along_k, $packs>(
                    (a, b),
                    p.k,
                    tiles,
                    memory,
                    &mut sums,
                );
                [$a_along_k, $b_along_k]
            }};
        }
        // A tile is stored as its matrix is, in packs where they fit.
        let (a_along_k, b_along_k) = (a.is_along_k(), b.is_along_k());
        let packs = a.packs(a_along_k, p.k) && b.packs(b_along_k, p.k);
        let along_k = match (a_along_k, b_along_k, packs) {
            (false, false, true) => multiply!(false, false, true),
            (false, true, true) => multiply!(false, true, true),
            (true, false, true) => multiply!(true, false, true),
            (true, true, true) => multiply!(true, true, true),
            (false, false, false) => multiply!(false, false, false),
            (false, true, false) => multiply!(false, true, false),
            (true, false, false) => multiply!(true, false, false),
            (true, true, false) => multiply!(true, true, false),
        };
        // N.B. The place is computed again: kept, it would take registers that the loop needs.
        let place = place(afresh(thread::block_idx_x()));
        let tile = OutputTile::new(c, &p, place, [bm, bn]);
        match tile.has_plain_pairs::<T>(&p) {
            true => {
                store_sums::<T, E, MT, NT, true>(tile, &p, tiles, along_k, &sums, place, epilogue)
            }
            false => {
                store_sums::<T, E, MT, NT, false>(tile, &p, tiles, along_k, &sums, place, epilogue)
            }
        }
    }
}

/// Writes the warp's sums, after the epilogue, to the block's tile of C, which begins at `place`.
///
/// # Safety
///
/// As [`apply`] and [`OutputTile::store_singles`]; PAIRS is [`OutputTile::has_plain_pairs`].
#[inline(always)]
unsafe fn store_sums<
    T: TensorCore,
    E: Epilogue<T>,
    const MT: usize,
    const NT: usize,
    const PAIRS: bool,
>(
    tile: OutputTile,
    p: &GemmParams<T::Sum>,
    tiles: Tiles,
    along_k: [bool; 2],
    sums: &[[T::Sums; NT]; MT],
    place: (u64, u64),
    epilogue: E,
) {
    // N.B. Afresh, as the tile's place is.
    let thread = afresh(thread::thread_idx_x()) as usize;
    let (warp_row, warp_col) = warp_place(tiles, thread / 32);
    for m in 0..MT {
        for r in 0..2 {
            let mut pairs = [[T::Sum::ZERO; 2]; NT];
            for n in 0..NT {
                let neighbours = [&sums[m][n / 2 * 2], &sums[m][n / 2 * 2 + 1]];
                pairs[n] = T::pair(neighbours, r, n % 2, along_k);
            }
            let (row, col) = T::place(r, thread % 32, along_k);
            let (row, col) = (warp_row + m * 16 + row, warp_col + col);
            let further = |n: usize| n % 2 * T::second_pair(along_k) + n / 2 * 16;
            let at = |i: usize| {
                let col = col + further(i / 2) + i % 2;
                (place.0 + row as u64, place.1 + col as u64)
            };
            // SAFETY: the caller's promise.
            unsafe {
                apply(epilogue, p, pairs.as_flattened_mut(), at);
                match PAIRS {
                    true => tile.store_pairs::<_, T::Output>(p, row, col, further, &mut pairs),
                    false => tile.store_singles::<T>(p, row, col, further, &pairs),
                }
            }
        }
    }
}

/// Row and column within the block's tile of that of warp `number`.
#[inline(always)]
fn warp_place(Tiles { block, warp, .. }: Tiles, number: usize) -> (usize, usize) {
    let across = block[1] / warp[1];
    (number / across * warp[0], number % across * warp[1])
}

/// A_ALONG_K and B_ALONG_K say how the tiles are stored, PACKS how they are brought.
///
/// # Safety
///
/// As [`tensor_core`].
#[inline(always)]
unsafe fn main_loop<
    T: TensorCore,
    const MT: usize,
    const NT: usize,
    const NA: usize,
    const NB: usize,
    const PENDING: u32,
    const A_ALONG_K: bool,
    const B_ALONG_K: bool,
    const PACKS: bool,
>(
    (a, b): (Operand<T>, Operand<T>),
    depth: u64,
    tiles: Tiles,
    memory: SharedTile<T>,
    sums: &mut [[T::Sums; NT]; MT],
) {
    let Tiles { block: [bm, bn, bk], stages, .. } = tiles;
    let threads = bm / tiles.warp[0] * (bn / tiles.warp[1]) * 32;
    let bytes = size_of::<T>();
    let shape = |outer: usize, along_k: bool| {
        let pitch = Tiles::tensor_pitch([outer, bk], along_k, bytes);
        TileShape { outer, depth: bk, pitch, threads }
    };
    let (shape_a, shape_b) = (shape(bm, A_ALONG_K), shape(bn, B_ALONG_K));
    // One stage: the tile of A, then the tile of B.
    let size_a = Tiles::tensor_len([bm, bk], bytes);
    let stage = (size_a + Tiles::tensor_len([bn, bk], bytes)) * bytes;
    // Copies that stand together hold up a warp's products. Where registers are left they are
    // spread over a step's products but the last ones, which run when the next stage has arrived:
    // due(slot) copies stand before the product of that number.
    let copies = TileCourier::<T, NA, A_ALONG_K, PACKS>::COPIES
        + TileCourier::<T, NB, B_ALONG_K, PACKS>::COPIES;
    let reads_ahead = MT * NT <= T::AHEAD;
    let slots = if T::SPREAD { (bk / T::K - 1) * MT * NT } else { 1 };
    assert!(slots > 0, "a step has two instructions along K at least");
    // Steps that a warp may be ahead of another, and the product behind which it needs the others
    // to have read the stage that it fills: half a step gives them time.
    let slack = usize::from(T::FREE && stages > 3);
    let late = if T::FREE { slots / 2 } else { 0 };
    assert!(!T::FREE || late > 0, "a step has two products at least before its last extent of K");
    let due =
        |slot: usize| ((slot + 1).saturating_sub(late) * copies).div_ceil(slots - late).min(copies);
    // The first step has what K has more than whole steps.
    let mut left = depth.div_ceil(bk as u64);
    // SAFETY: elements of A and B are read only inside of the matrices. A stage is read after its
    // copies have arrived at every thread, and written again when all warps have read it, as
    // `Arrivals` has them wait.
    unsafe {
        let memory_b = memory.add(size_a);
        let mut a = TileCourier::<T, NA, A_ALONG_K, PACKS>::new(a, memory, shape_a);
        let mut b = TileCourier::<T, NB, B_ALONG_K, PACKS>::new(b, memory_b, shape_b);
        if left > 0 {
            let first = (depth - (left - 1) * bk as u64) as usize;
            a.start_first(shape_a, first);
            b.start_first(shape_b, first);
        }
        let mut arrivals: Arrivals<PENDING> = match T::FREE {
            true => {
                Arrivals::apart(memory.add(stages * stage / bytes).cast(), stages, slack, threads)
            }
            false => Arrivals::together(stages),
        };
        arrivals.copies_started(0);
        let mut fill = Ring::new(stages, stage);
        let mut read = fill;
        for ahead in 1..stages - 1 - slack {
            let hop = fill.step();
            a.hop(hop);
            b.hop(hop);
            start((&mut a, &mut b), (shape_a, shape_b), 0..copies, left > ahead as u64);
            arrivals.copies_started(ahead);
        }
        let hop = fill.step();
        a.hop(hop);
        b.hop(hop);
        arrivals.wait_full();
        let (row, col) = warp_place(tiles, super::warp_and_lane().0);
        let mut tile_a = stored::<T, A_ALONG_K>(memory, shape_a, row, T::place_a(A_ALONG_K));
        let mut tile_b = stored::<T, B_ALONG_K>(memory_b, shape_b, col, T::place_b(B_ALONG_K));
        // The factors of the first k of a step are read at the end of the step before.
        let mut now = (read_a::<T, MT>(tile_a, 0), read_b::<T, NT>(tile_b, 0));
        while left > 0 {
            left -= 1;
            let more = left > (stages - 2 - slack) as u64;
            start((&mut a, &mut b), (shape_a, shape_b), 0..due(0), more);
            for step in 0..bk / T::K {
                let mut k = (step + 1) * T::K;
                if k == bk {
                    arrivals.next();
                    let hop = fill.step();
                    a.hop(hop);
                    b.hop(hop);
                    let hop = read.step();
                    tile_a = tile_a.hop(hop);
                    tile_b = tile_b.hop(hop);
                    k = 0;
                }
                let read = || (read_a(tile_a, k), read_b(tile_b, k));
                let ahead = if reads_ahead { read() } else { now };
                for m in 0..MT {
                    for n in 0..NT {
                        let slot = (step * MT + m) * NT + n;
                        T::multiply(&now.0[m], &now.1[n / 2][n % 2], &mut sums[m][n]);
                        if slot + 1 == late {
                            arrivals.wait_empty();
                        }
                        let due = due(slot)..due(slot + 1);
                        start((&mut a, &mut b), (shape_a, shape_b), due, more);
                    }
                }
                now = if reads_ahead { ahead } else { read() };
            }
        }
    }
}

/// Starts those of a step's copies, if `more`: A's, then B's.
///
/// # Safety
/// As [`TileCourier::start`].
#[inline(always)]
unsafe fn start<
    T: Element,
    const NA: usize,
    const NB: usize,
    const A_ALONG_K: bool,
    const B_ALONG_K: bool,
    const PACKS: bool,
>(
    (a, b): (&mut TileCourier<T, NA, A_ALONG_K, PACKS>, &mut TileCourier<T, NB, B_ALONG_K, PACKS>),
    (shape_a, shape_b): (TileShape, TileShape),
    copies: Range<usize>,
    more: bool,
) {
    for c in copies {
        // SAFETY: the caller's promise.
        unsafe {
            match c.checked_sub(TileCourier::<T, NA, A_ALONG_K, PACKS>::COPIES) {
                None => a.start(shape_a, c, more),
                Some(c) => b.start(shape_b, c, more),
            }
        }
    }
}

/// Reads the warp's rows of A.
///
/// # Safety
/// As [`TensorCore::read_a`].
#[inline(always)]
unsafe fn read_a<T: TensorCore, const MT: usize>(tile: StoredTile<T>, k: usize) -> [T::A; MT] {
    // SAFETY: the caller's promise.
    unsafe {
        let mut a = [T::read_a(tile, 0, k); MT];
        for m in 1..MT {
            a[m] = T::read_a(tile, 16 * m, k);
        }
        a
    }
}

/// Reads the warp's columns of B: number n is in element n % 2 of n / 2.
///
/// # Safety
/// As [`TensorCore::read_b`].
#[inline(always)]
unsafe fn read_b<T: TensorCore, const NT: usize>(tile: StoredTile<T>, k: usize) -> [[T::B; 2]; NT] {
    // SAFETY: the caller's promise.
    unsafe {
        let mut b = [T::read_b(tile, 0, k); NT];
        for n in 1..NT / 2 {
            b[n] = T::read_b(tile, 16 * n, k);
        }
        b
    }
}

/// The tile of that shape at `start`, for a lane that begins at `place` behind
/// `first`, where its warp's part begins.
///
/// # Safety
/// The tile lies in shared memory.
#[inline(always)]
unsafe fn stored<T: Element, const ALONG_K: bool>(
    start: SharedTile<T>,
    shape: TileShape,
    first: usize,
    (outer, k): (usize, usize),
) -> StoredTile<T> {
    let (row, col) = if ALONG_K { (first + outer, k) } else { (k, first + outer) };
    let col = match size_of::<T>() {
        1 | 2 => Tiles::swizzled(row, col / T::LANES, shape.pitch / T::LANES) * T::LANES,
        _ => col,
    };
    // SAFETY: the caller's promise.
    let start = unsafe { start.add(row * shape.pitch + col) };
    StoredTile { start, pitch: shape.pitch, along_k: ALONG_K }
}

/// Makes entry points of this step from rows of a list, which may have an
/// [`Epilogue`](crate::Epilogue) of their own; see `ladder_entries!`.
#[macro_export]
macro_rules! k11_tensor_core {
    ($((
        $name:ident, $variant:literal, $element:ident, [$bm:literal, $bn:literal, $bk:literal],
        [$wm:literal, $wn:literal], $thread:tt, $stages:literal, $min_blocks:literal
    ) $(with ($($parameter:tt)*) => $epilogue:expr)?,)*) => {$(
        #[doc = concat!("`", $variant, "` for `", stringify!($element), "`; see the body.")]
        ///
        /// # Safety
        ///
        /// The pointers and the block describe matrices that the grid may read (A, B) and write
        /// (C); nothing else touches C during the launch; the grid is one of `Kernel::launches`.
        #[::cuda_std::kernel(
            max_threads = $bm / $wm * ($bn / $wn) * 32, min_blocks = $min_blocks
        )]
        pub unsafe fn $name(
            a: *const $element,
            b: *const $element,
            c: *mut <$element as $crate::Element>::Output,
            p: ::gemm_spec::GemmParams<<$element as $crate::Element>::Sum>,
            $($($parameter)*)?
        ) {
            const TILES: ::gemm_spec::Tiles = ::gemm_spec::Tiles::of_threads(
                [$bm, $bn, $bk],
                [$wm, $wn],
                $thread,
                $stages,
                $min_blocks,
            );
            const PER_PACK: usize =
                $bm / $wm * ($bn / $wn) * 32 * <$element as $crate::Packed>::LANES;
            let (operands, p) = $crate::of_layer::<$element>((a, b, c), p);
            // SAFETY: the shared memory is this block's own; the rest is the host's promise, passed
            // on.
            unsafe {
                let memory = ::cuda_std::shared::dynamic_shared_mem::<$element>();
                $crate::ladder::k11_tensor_core::tensor_core::<
                    $element,
                    { $wm / 16 },
                    { $wn / 8 },
                    { $bm * $bk / PER_PACK },
                    { $bn * $bk / PER_PACK },
                    { $stages - 2 },
                    _,
                >(operands, p, TILES, memory, $crate::epilogue_or_plain!($($epilogue)?))
            }
        }
    )*};
}

/// The entry points of the table.
#[cfg(feature = "sm_80")]
pub mod entries {
    use cuda_std::half::{bf16, f16};
    gemm_spec::k11_tensor_core_sm80_kernels!(k11_tensor_core);
}

/// The entry points of the table that need compute capability 9.0.
#[cfg(feature = "sm_90")]
pub mod entries_sm90 {
    gemm_spec::k11_tensor_core_sm90_kernels!(k11_tensor_core);
}
