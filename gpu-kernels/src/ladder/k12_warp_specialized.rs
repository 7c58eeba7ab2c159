//! Step 12: warps that multiply do nothing else; others bring the tiles.
//!
//! # Idea
//!
//! ```text
//! four warps, for each step:    wait until the stage is empty
//!                               start the copies of a tile of A and one of B
//! eight warps, for each step:   wait until the stage is full
//!                               multiply its tiles, as step 10 does
//!                               the stage is empty
//! ```
//!
//! Steps 9 and 10 copy and multiply in one thread: copies that go element by element, addresses and
//! their bounds stand among the products, and take every tenth instruction. Here they are other
//! warps' instructions, and the tiles always lie in one way, so that there is one loop for all four
//! transposes. `setmaxnreg` gives the registers of the warps that copy to those that multiply,
//! enough for 8 x 16 sums each: 24 values read for 128 products, where step 10 reads 16 for 64.
//!
//! # Mapping
//!
//! As step 10, with 8 x 16 elements a thread and tiles of 128 x 256; the threads that copy come
//! first.
//!
//! # Shared memory
//!
//! A ring as in step 9, and two barriers a stage (`mbarrier`), on which copies that have arrived
//! and threads that have read are counted: 147.1 KiB for 128, 256, 16, 6 in f32.
//!
//! # Preconditions
//!
//! Those of [`GemmParams`], and a grid from `Kernel::launches`. Any shape, any strides. Compute
//! capability 9.0.
//!
//! # Change since the last step
//!
//! f32 at 4096^3 on an H100, where both matrices' rows begin at multiples of 16 bytes: 2.60 ms,
//! 52.8 TFLOP/s, where step 10 takes 2.76 and cuBLASLt's fastest kernel 2.64; 0.87 instructions are
//! issued a cycle and scheduler, 0.91 of them multiply-adds. B stored along K, 2.87 ms, or rows
//! that begin anywhere, 3.65 ms, keep the 128 threads that copy element by element longer than the
//! others need: such operands are copied to rows along M and N first, where that is predicted to
//! pay, or step 10 is chosen (docs/performance.md).

use super::k10_grouped_order::GROUP;
use super::parts::{
    AsyncCourier, Operand, Ring, Spread, TileShape, finish_tile, in_warp_tile, outer_product,
    store_tile,
};
use crate::{Epilogue, SharedTile, Sum, of_layer};
use cuda_std::mbarrier::{Mbarrier, Parity};
use cuda_std::misc::afresh;
use cuda_std::{async_copy, grid, registers, thread};
use gemm_spec::{BRINGERS, GemmParams, Tiles, order};

/// A stage of the ring, and the parity of its phase.
#[derive(Clone, Copy)]
struct Stage {
    /// Barriers that stages are full, then that they are empty.
    barriers: SharedTile<Mbarrier>,
    number: u32,
    round: u32,
    stages: u32,
}

impl Stage {
    #[inline(always)]
    fn next(&mut self) {
        self.number += 1;
        if self.number == self.stages {
            self.number = 0;
            self.round += 1;
        }
    }

    #[inline(always)]
    fn full(self) -> SharedTile<Mbarrier> {
        // SAFETY: one of the ring's.
        unsafe { self.barriers.add(self.number as usize) }
    }

    #[inline(always)]
    fn empty(self) -> SharedTile<Mbarrier> {
        // SAFETY: one of the ring's.
        unsafe { self.barriers.add((self.stages + self.number) as usize) }
    }
}

/// Computes a block's tile of C, TM x TN elements of it a thread of those that multiply.
///
/// # Safety
///
/// Called by all threads of a block, [`BRINGERS`] and those that multiply, whose tiles and barriers
/// lie in shared memory that nothing else uses. The pointers and the parameter block describe
/// matrices that the grid may read (A, B) and write (C), and no other code touches C during the
/// launch.
#[inline(always)]
pub unsafe fn warp_specialized<
    T: Sum,
    const TM: usize,
    const TN: usize,
    const NA: usize,
    const NB: usize,
    E: Epilogue<T>,
>(
    operands: (*const T, *const T, *mut T),
    p: GemmParams<T>,
    tiles: Tiles,
    memory: SharedTile<T>,
    epilogue: E,
) {
    let ((a, b, c), p) = of_layer(operands, p);
    let Tiles { block: [bm, bn, bk], stages, .. } = tiles;
    let place = |x: u32| {
        let number = thread::block_idx_y() * thread::grid_dim_x() + x;
        let (row, col) = order::grouped(number, thread::grid_dim_y(), thread::grid_dim_x(), GROUP);
        (u64::from(row) * bm as u64, u64::from(col) * bn as u64)
    };
    let (row, col) = place(thread::block_idx_x());
    let (size_a, pitches) = (bk * (bm + Tiles::PADDING), bm + bn + 2 * Tiles::PADDING);
    // SAFETY: the barriers are ready when all threads have met. A stage is read after its copies
    // have arrived, and written again after all threads have read it.
    unsafe {
        let barriers = memory.add(stages * bk * pitches).cast();
        let stage = Stage { barriers, number: 0, round: 0, stages: stages as u32 };
        if thread::thread_idx_x() == 0 {
            for i in 0..stages {
                barriers.add(i).init(BRINGERS as u32);
                barriers.add(stages + i).init((bm * bn / (TM * TN)) as u32);
            }
        }
        thread::sync_threads();
        // The next kernel of the stream may get ready; the one before may still run.
        grid::launch_dependents();
        grid::wait_for_grids();
        let steps = p.k.div_ceil(bk as u64);
        if thread::thread_idx_x() < BRINGERS as u32 {
            // So many of both are what all threads have when the block starts.
            registers::decrease::<104>();
            let (a, b) = (Operand::a(a, &p, row), Operand::b(b, &p, col));
            let (memory, left) = ((memory, memory.add(size_a)), (steps, p.k));
            match (a.aligned_across(), b.aligned_across()) {
                (true, true) => bring::<T, NA, NB, true, true>((a, b), memory, left, tiles, stage),
                (true, false) => {
                    bring::<T, NA, NB, true, false>((a, b), memory, left, tiles, stage)
                }
                (false, true) => {
                    bring::<T, NA, NB, false, true>((a, b), memory, left, tiles, stage)
                }
                (false, false) => {
                    bring::<T, NA, NB, false, false>((a, b), memory, left, tiles, stage);
                }
            }
        } else {
            registers::increase::<200>();
            let mut sums = [[T::ZERO; TN]; TM];
            multiply::<T, TM, TN>((memory, memory.add(size_a)), steps, tiles, stage, &mut sums);
            // N.B. The places are computed again: kept, they would take registers that the loop
            // needs.
            let (row, col) = place(afresh(thread::block_idx_x()));
            let (rows, cols) = places::<T, TM, TN>(tiles);
            finish_tile(epilogue, &p, (row, rows), (col, cols), &mut sums);
            store_tile::<T, TM, TN>((c, tiles.block), &p, (row, rows), (col, cols), sums);
        }
    }
}

/// The rows and columns of a thread that multiplies.
#[inline(always)]
fn places<T: Sum, const TM: usize, const TN: usize>(tiles: Tiles) -> (Spread, Spread) {
    let number = afresh(thread::thread_idx_x()) as usize - BRINGERS;
    in_warp_tile::<T>(number, tiles.block[1], tiles.warp, [TM, TN])
}

/// Brings the tiles of every step.
///
/// # Safety
/// By the first [`BRINGERS`] threads; the rest as [`warp_specialized`].
#[inline(always)]
unsafe fn bring<
    T: Sum,
    const NA: usize,
    const NB: usize,
    const PACKS_A: bool,
    const PACKS_B: bool,
>(
    (a, b): (Operand<T>, Operand<T>),
    (memory_a, memory_b): (SharedTile<T>, SharedTile<T>),
    (steps, depth): (u64, u64),
    Tiles { block: [bm, bn, bk], stages, .. }: Tiles,
    mut stage: Stage,
) {
    let shape = |outer: usize| TileShape {
        outer,
        depth: bk,
        pitch: outer + Tiles::PADDING,
        threads: BRINGERS,
    };
    let (shape_a, shape_b) = (shape(bm), shape(bn));
    let bytes = bk * (shape_a.pitch + shape_b.pitch) * size_of::<T>();
    // SAFETY: the caller's promise; elements are read only inside of the matrices.
    unsafe {
        let mut a = AsyncCourier::<T, NA, PACKS_A, true>::new(a, memory_a, shape_a);
        let mut b = AsyncCourier::<T, NB, PACKS_B, true>::new(b, memory_b, shape_b);
        let mut ring = Ring::new(stages, bytes);
        let mut left = steps;
        // The first step has what K has more than whole steps.
        if left > 0 {
            let first = (depth - (left - 1) * bk as u64) as i32;
            a.start_first(shape_a, first);
            b.start_first(shape_b, first);
            async_copy::arrive_on(stage.full());
            left -= 1;
        }
        while left > 0 {
            left -= 1;
            stage.next();
            let hop = ring.step();
            a.hop(hop);
            b.hop(hop);
            if stage.round > 0 {
                stage.empty().wait(Parity::of(stage.round).flipped());
            }
            a.start_tile(shape_a);
            b.start_tile(shape_b);
            async_copy::arrive_on(stage.full());
        }
        // Nobody goes before the copies have come.
        if steps > 0 {
            stage.full().wait(Parity::of(stage.round));
        }
    }
}

/// Multiplies the tiles of every step.
///
/// # Safety
/// By all threads but the first [`BRINGERS`]; the rest as [`warp_specialized`].
#[inline(always)]
unsafe fn multiply<T: Sum, const TM: usize, const TN: usize>(
    (memory_a, memory_b): (SharedTile<T>, SharedTile<T>),
    steps: u64,
    tiles: Tiles,
    mut stage: Stage,
    sums: &mut [[T; TN]; TM],
) {
    let Tiles { block: [bm, bn, bk], stages, .. } = tiles;
    let (pitch_a, pitch_b) = (bm + Tiles::PADDING, bn + Tiles::PADDING);
    let (rows, cols) = places::<T, TM, TN>(tiles);
    let mut left = steps as u32;
    if left == 0 {
        return;
    }
    // SAFETY: the caller's promise.
    unsafe {
        let (mut tile_a, mut tile_b) = (memory_a.add(rows.first), memory_b.add(cols.first));
        let (rows, cols) = (Spread { first: 0, ..rows }, Spread { first: 0, ..cols });
        let mut ring = Ring::new(stages, bk * (pitch_a + pitch_b) * size_of::<T>());
        stage.full().wait(Parity::of(stage.round));
        // The factors of the first k of a step are read at the end of the step before.
        let mut now = (rows.read::<T, TM>(tile_a), cols.read::<T, TN>(tile_b));
        while left > 0 {
            left -= 1;
            for k in 0..bk {
                let mut ahead = k + 1;
                if ahead == bk {
                    // All of the stage has been read.
                    stage.empty().arrive();
                    let hop = ring.step();
                    tile_a = tile_a.cast::<u8>().offset(hop).cast();
                    tile_b = tile_b.cast::<u8>().offset(hop).cast();
                    stage.next();
                    if left > 0 {
                        stage.full().wait(Parity::of(stage.round));
                    }
                    ahead = 0;
                }
                let then = (
                    rows.read::<T, TM>(tile_a.add(ahead * pitch_a)),
                    cols.read::<T, TN>(tile_b.add(ahead * pitch_b)),
                );
                outer_product(&now.0, &now.1, sums);
                now = then;
            }
        }
    }
}

/// Makes entry points of this step from rows of a list, which may have an
/// [`Epilogue`](crate::Epilogue) of their own; see `ladder_entries!`.
#[macro_export]
macro_rules! k12_warp_specialized {
    ($((
        $name:ident, $variant:literal, $element:ident, [$bm:literal, $bn:literal, $bk:literal],
        $warp:tt, [$tm:literal, $tn:literal], $stages:literal, $min_blocks:literal
    ) $(with ($($parameter:tt)*) => $epilogue:expr)?,)*) => {$(
        #[doc = concat!("`", $variant, "` for `", stringify!($element), "`; see the body.")]
        ///
        /// # Safety
        ///
        /// The pointers and the block describe matrices that the grid may read (A, B) and write
        /// (C); nothing else touches C during the launch; the grid is one of `Kernel::launches`.
        #[::cuda_std::kernel(
            max_threads = $bm * $bn / ($tm * $tn) + 128, min_blocks = $min_blocks
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
                $warp,
                [$tm, $tn],
                $stages,
                $min_blocks,
            );
            // SAFETY: the shared memory is this block's own; the rest is the host's promise, passed
            // on.
            unsafe {
                let memory = ::cuda_std::shared::dynamic_shared_mem::<$element>();
                $crate::ladder::k12_warp_specialized::warp_specialized::<
                    $element,
                    $tm,
                    $tn,
                    { $bm * $bk / ::gemm_spec::BRINGERS },
                    { $bn * $bk / ::gemm_spec::BRINGERS },
                    _,
                >((a, b, c), p, TILES, memory, $crate::epilogue_or_plain!($($epilogue)?))
            }
        }
    )*};
}

/// The entry points of the table.
#[cfg(feature = "sm_90a_first")]
pub mod entries {
    gemm_spec::k12_warp_specialized_kernels!(k12_warp_specialized);
}
