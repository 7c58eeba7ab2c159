//! Hopper's kernel: groups of four warps multiply tiles that another group brings, all at a time.
//!
//! # Idea
//!
//! ```text
//! a block goes on from tile to tile of C:
//!     one thread, for each step of K:     wait until the stage is empty
//!                                         start the copy of a tile of A and of half a tile of B
//!     two groups of 128 threads:          wait until the stage is full
//!         64 x 256 sums += 64 x 64 of A * 64 x 256 of B       operands stay in shared memory
//!         the stage before is empty
//!     write the sums, while the copies for the next tile are on their way
//! ```
//!
//! With scales for blocks of 128 along K (`BlockScaled`), a step's sums start at 0 and are added to
//! others, times the scales, while the other group multiplies. Elements of f32 that copies have
//! made three bf16 of (`Summands`) are multiplied by six products of these, the largest of which
//! start at 0 in each step too.
//!
//! Of few rows both blocks of a cluster take half of K of one tile, and their sums meet (`halves`).
//! Of a list of products (`List`) a block goes on from the last tile of one to the first of the
//! next. With equal shares of all steps (`StreamK`) clusters join what they have of a tile. Where
//! groups take tiles in turn (`PingPong`), one multiplies while the other writes. Where A and B are
//! swapped (`SwapAb`), tiles have rows of C where others have columns. Of tf32 an A that lies along
//! M is none that instructions read: threads load it from the stage to their registers
//! (`FromRegisters`), while the products of the step before go on.
//!
//! What becomes of the sums is two thirds of the code: a multiprocessor's instruction cache holds
//! 32 KiB of it, and what is jumped over costs as well. So most kernels have a lean entry point
//! (`Lean`) for the commonest C beside the whole one.
//!
//! # Mapping
//!
//! The blocks of a cluster take tiles of C that lie one below the other. Each brings its own rows
//! of A, and a part of the columns of B for all. In the last row of tiles, where their number is
//! odd, they may lie side by side; then they share A, and each brings its own columns of B.
//! Clusters of eight take four rows of two tiles. Each of their blocks brings half of a tile of A
//! for the one beside it too, and a quarter of a tile of B for those above and below; a stage is
//! empty when all eight have given it back, so that they are in step. Parts of K take its steps in
//! turn there, so that all clusters read what lies beside each other.
//! Clusters take tiles in groups of rows, as in step 10 of the ladder, each the next one that is as
//! many further as there are clusters. Where the host says so every other tile of a cluster takes K
//! from its end, where the tile before, of the same rows or columns, has left A or B in the L2
//! cache. Of one wave of small tiles the next kernel may wait until all clusters have ended, so
//! that its own are spread over the GPCs evenly, and each begins with a tile beside those of its
//! neighbours there ([`TileOrder::spread`](gemm_spec::order::TileOrder::spread), `near`).
//!
//! # Shared memory
//!
//! A ring of stages, each a tile of A and one of B in rows of 128 bytes, swizzled, as the tensor
//! cores read them: rows run along K, or along the extent that C keeps where the matrix does; of
//! such an A of tf32, in two boxes of 32 elements of M for each 64, and of such a B whose tiles
//! have 32 columns in rows of 64 bytes, two in one of 128; of elements that are three bf16 three
//! such tiles of each. Two barriers a stage. Behind the ring
//! two boxes of C for each group, which are copied out; where a tile has more, each is written
//! again when it has been read. Threads bring to C what is less than a box and no half of one.
//! Rows that begin anywhere are brought by four threads, and into stages with a chunk more for each
//! row; who multiplies makes tiles of them, in place (`direct`).
//!
//! # Preconditions
//!
//! Those of [`GemmParams`](gemm_spec::GemmParams), K not 0 but in a list, and a grid from
//! `Kernel::launches` as `Kernel::resident` says.
//! A and B as tensor maps, of boxes of 64 rows of 128 bytes along the extent that is contiguous, or
//! of fewer as [`box_rows`](gemm_spec::box_rows), [`box_cols`](gemm_spec::box_cols) and
//! [`shared_box_rows`](gemm_spec::shared_box_rows) say, of rows that
//! [`operand_row_bytes`](gemm_spec::Kernel::operand_row_bytes) has; C in any strides, as a map
//! where its rows allow one. Or as maps of every eighth row, contiguous along one extent
//! (`direct`). Compute capability 9.0.

mod bring;
mod clear;
mod direct;
#[cfg(any(feature = "sm_90a_first", feature = "sm_90a_second"))]
pub mod entries;
mod finished;
mod from_registers;
mod geometry;
mod halves;
mod old;
mod operands;
mod ping_pong;
mod ring;
mod rows;
mod side;
mod split;
mod stream_k;
mod summing;
mod swapped;
mod tiles;
mod word_boxes;
mod work;
mod write;

use crate::{Element, Epilogue, Plain, SharedTile, Sum, k_of};
use bring::{bring, bring_near};
use clear::{clear, clear_rows, is_cleared, sync_cleared};
use cuda_std::mbarrier::{self, Mbarrier};
use cuda_std::wgmma::{self, Accumulate, Accumulator, Tile};
use cuda_std::{cluster, grid, misc, registers, shared, thread, warp};
pub use direct::Maps;
use direct::{OwnRow, WRITERS, bring_rows, own_rows, settle};
pub use from_registers::{BoxesOfWords, FromRegisters};
use gemm_spec::{DIRECT_FURTHER_BYTES, Writes, c_boxes};
use geometry::has_most_registers;
pub use geometry::{Blocks, Geometry, Parts, PingPong, Split, SwapAb};
use halves::Meeting;
pub use operands::Operands;
use ring::{Ring, give_back};
use side::Part;
pub use side::{Boxes, Side};
pub use split::Summands;
pub use stream_k::{Shared, StreamK};
pub use summing::{BlockScaled, InPlace, Summing};
pub use work::{List, OneProduct, Table, Work};
use write::{BoxOfC, Ways};

/// Rows of C that a group of four warps computes.
pub const GROUP_ROWS: usize = 64;

/// Elements that Hopper's tensor cores multiply.
pub trait WarpGroup: wgmma::Element + Element {
    /// K of a step: a row of 128 bytes.
    const DEPTH: u32 = 128 / size_of::<Self>() as u32;
    /// Whether tiles may take K from its end: not where sums keep few bits, and what they lose goes
    /// by the order.
    const TURNS: bool = true;
}

impl WarpGroup for cuda_std::half::f16 {}
impl WarpGroup for cuda_std::half::bf16 {}
impl WarpGroup for wgmma::Tf32 {}
impl WarpGroup for i8 {}
impl WarpGroup for cuda_std::F8E4M3 {
    const TURNS: bool = false;
}
impl WarpGroup for cuda_std::F8E5M2 {
    const TURNS: bool = false;
}

/// A tile of 64 rows of 128 bytes.
pub type Rows64<T> = Tile<T, 64>;
/// Bytes of those rows.
const ROW_BYTES: usize = 128;

/// Boxes of B in a stage, for so many sums a thread: two columns each.
const fn boxes_b<T, B: Side<T>>(sums: usize) -> usize {
    (2 * sums).div_ceil(B::BOX)
}

/// Bytes of a stage: its tiles, and what chunks that hold their rows have more.
const fn stage_bytes<T, B, G, W, const SUMS: usize>() -> usize
where
    T: WarpGroup,
    B: Side<T>,
    G: Geometry,
    W: Work<T, G>,
{
    let rows = G::GROUPS * GROUP_ROWS + boxes_b::<T, B>(SUMS) * B::BOX;
    G::TOGETHER * rows * ROW_BYTES + if W::IS_DIRECT { DIRECT_FURTHER_BYTES } else { 0 }
}

/// Computes a cluster's tiles of C, with the blocks of the cluster.
///
/// # Safety
///
/// Called by all threads of a block of 128 for each group and 128 more, in clusters as `G` says,
/// whose dynamic shared memory holds the stages, [`c_boxes`] boxes of C a group and the barriers.
/// What `work` has describes matrices that the grid may read (A, B) and write (C), and no other
/// code touches C during the launch; the grid may read what `summing` says.
#[inline(always)]
pub unsafe fn multiply<T, A, B, G, S, W, E, const SUMS: usize>(mut work: W, summing: S, epilogue: E)
where
    T: WarpGroup,
    G: Geometry,
    S: Summing<T, SUMS>,
    W: Work<T, G>,
    E: Epilogue<T>,
    A: Side<T>,
    B: Side<T>,
    [T::Sum; SUMS]: Accumulator<T>,
{
    // SAFETY: the memory is the block's own, and as large as the caller promises. The barriers are
    // ready in both blocks before either uses the other's, and the thread that brings stays until
    // the other block is done with them.
    unsafe {
        const { assert!(!W::IS_DIRECT || G::CLUSTER == 1 && size_of::<T>() == 2) };
        const { assert!(!A::IS_HALVED || W::IS_ONE && !W::IS_DIRECT && !G::IN_STEP) };
        // A stage is given back when the next one's products have begun.
        const { assert!(G::STAGES > 1 && G::PARTS <= 2) };
        const { assert!(!G::IN_STEP || B::BOX == 64 && (2 * SUMS).is_multiple_of(64)) };
        let stages: SharedTile<Rows64<T>> = shared::dynamic_shared_mem();
        let of_ring = G::STAGES * stage_bytes::<T, B, G, W, SUMS>();
        let c = stages.cast::<u8>().add(of_ring).cast::<BoxOfC>();
        let barriers: SharedTile<Mbarrier> = c.add(G::GROUPS * c_boxes(2 * SUMS, G::PARTS)).cast();
        let ring = Ring::<G>::new(barriers);
        let meetings = barriers.add(2 * G::STAGES);
        // By two warps: the fence waits for all that its thread has started.
        let thread = thread::thread_idx_x();
        if thread == 32 {
            work.prefetch_maps();
        }
        if thread == 0 {
            ring.init(if W::IS_DIRECT { WRITERS } else { 1 });
            if G::PARTS > 1 {
                Meeting::init(meetings);
            }
            mbarrier::fence_init();
        }
        let clears = work.halves_boxes::<A>();
        if clears {
            // Before any block may bring rows to where these are.
            let number = (thread, 128 + 128 * G::GROUPS);
            let (of_b, stage) = ((0, B::BOX), stage_bytes::<T, B, G, W, SUMS>());
            clear_rows::<G>([32, B::BOX as u32], of_b, stages.cast(), stage, number);
        }
        // The fence covers the barriers, and nothing else was written but that.
        match G::CLUSTER * G::PARTS {
            1 => {}
            _ if clears => cluster::arrive(),
            _ => cluster::arrive_relaxed(),
        }
        work.begin(2 * SUMS);
        if G::GROUPS == 1 && !W::IS_DIRECT && thread / 32 == 1 && warp::elect(u32::MAX) {
            bring_near::<T, A, B, G, W, SUMS>(work.clone());
        }
        match G::CLUSTER * G::PARTS {
            1 => thread::sync_threads(),
            _ => cluster::wait(),
        }
        // The next kernel of the stream may get ready; the one before may still run.
        if !W::IS_ONE || !work.params().order.holds_next() {
            grid::launch_dependents();
        }
        // A shuffle's result is one for the whole warp, as far as ptxas can see, and what follows
        // from it too: the loop over steps then takes 50 instructions, in registers that a warp
        // shares, and not 90.
        let warp = thread::thread_idx_x() / 32;
        let (warp, _) = warp::warp_shuffle_idx(u32::MAX, warp, 0, 32);
        match warp / 4 {
            0 => {
                if has_most_registers::<G>(SUMS) {
                    registers::decrease::<24>();
                } else if G::GROUPS > 1 && W::IS_DIRECT {
                    registers::decrease::<56>();
                } else if G::GROUPS > 1 {
                    registers::decrease::<40>();
                }
                // Elected, and not picked by its number: ptxas keeps all of what one thread does in
                // registers that a warp shares.
                if W::IS_DIRECT {
                    if warp::elect(u32::MAX) {
                        let stage = (boxes_b::<T, B>(SUMS), stage_bytes::<T, B, G, W, SUMS>());
                        bring_rows::<T, A, B, G, W>(work, ring, stages.cast(), stage);
                    }
                } else if thread::thread_idx_x() >= 32 {
                    let stage = stage_bytes::<T, B, G, W, SUMS>();
                    let boxes = (boxes_b::<T, B>(SUMS), B::BOX);
                    clear::<G>(work.box_rows::<A, B>(), boxes, stages.cast(), stage);
                    // Those of the first tile; while others are multiplied nobody is idle here.
                    if W::IS_ONE
                        && !E::IS_LEAN
                        && let Some(place) = work.next()
                    {
                        let number = (thread::thread_idx_x() - 32, 96);
                        let (operands, p) = (work.operands(), work.params());
                        old::prefetch_rows::<T, G, SUMS>(operands, p, place, number);
                    }
                } else if warp::elect(u32::MAX) {
                    bring::<T, A, B, G, W, E, SUMS>(work, ring, stages);
                }
            }
            group => {
                // One group alone has as many registers as a thread may have.
                if has_most_registers::<G>(SUMS) {
                    registers::increase::<240>();
                } else if G::GROUPS > 1 && W::IS_DIRECT {
                    registers::increase::<224>();
                } else if G::GROUPS > 1 {
                    registers::increase::<232>();
                }
                let group = group as usize - 1;
                if G::IN_TURN {
                    let of = (epilogue, ring);
                    ping_pong::consume::<T, A, B, G, W, E, SUMS>(work, of, (stages, c), group);
                } else {
                    let (memory, how) = ((stages, c, meetings), (summing, epilogue));
                    let number = (group, warp % 4);
                    consume::<T, A, B, G, S, W, E, SUMS>(work, how, ring, memory, number);
                }
            }
        }
    }
}

/// A group's part: multiplies what comes, and writes C.
///
/// # Safety
///
/// As [`multiply`]; by the 128 threads of group number `group` of those that multiply, each with
/// the number of its warp in it.
#[inline(always)]
unsafe fn consume<T, A, B, G, S, W, E, const SUMS: usize>(
    mut work: W,
    (summing, epilogue): (S, E),
    mut ring: Ring<G>,
    (stages, c, meetings): (SharedTile<Rows64<T>>, SharedTile<BoxOfC>, SharedTile<Mbarrier>),
    (group, warp): (usize, u32),
) where
    T: WarpGroup,
    G: Geometry,
    S: Summing<T, SUMS>,
    W: Work<T, G>,
    E: Epilogue<T>,
    A: Side<T>,
    B: Side<T>,
    [T::Sum; SUMS]: Accumulator<T>,
{
    // SAFETY: a stage is read when its copies have arrived, and given back when the products that
    // read it are done; the maps' and C's use is as the caller promises.
    unsafe {
        let (c, of_b) = (c.add(group * c_boxes(2 * SUMS, G::PARTS)), boxes_b::<T, B>(SUMS));
        let stage_bytes = stage_bytes::<T, B, G, W, SUMS>() as u32;
        let (a, b) = (A::first(stages.add(group)), B::first(stages.add(G::GROUPS)));
        if is_cleared(work.box_rows::<A, B>(), B::BOX) {
            sync_cleared::<G>();
        }
        let mut meeting = Meeting::new::<SUMS>(c, meetings, warp);
        // Whether the last stage of the tile before is still this group's.
        let mut holds = false;
        let (mut next, mut own);
        macro_rules! go_on {
            () => {
                next = work.next();
                own = match next {
                    Some(place) if W::IS_DIRECT => own_rows::<T, A, B, G, W>(&work, place, of_b),
                    _ => [OwnRow::NONE; 2],
                };
            };
        }
        if W::IS_DIRECT {
            // Rows are read by this group, too.
            grid::wait_for_grids();
        }
        go_on!();
        while let Some(mut place) = next {
            let steps = work.steps(place.slice) / G::TOGETHER as u32;
            let block_end = place.row + (G::GROUPS * GROUP_ROWS) as u64;
            // Afresh in lists, or what follows from it for C is kept in registers.
            let to_group = (group * GROUP_ROWS) as u32;
            place.row += u64::from(if W::IS_ONE { to_group } else { misc::afresh(to_group) });
            // A group without rows passes stages on, of which its boxes of A are not brought.
            if W::IS_ONE && !W::IS_DIRECT && place.row >= work.params().m {
                if holds {
                    ring.before().release();
                    holds = false;
                }
                ring.pass(steps, group);
                go_on!();
                continue;
            }
            let brings = W::IS_ONE && S::EPILOGUES && !E::IS_LEAN && work.has_box(place.row);
            let (operands, p, who) = (work.operands(), work.params(), (group, warp));
            let adds_brought = brings && old::bring_early::<T, G, SUMS>(operands, p, place, c, who);
            let mut sums = [T::Sum::ZERO; SUMS];
            let mut tile = summing.begin(work.params(), (place.row, place.col));
            let k = if W::IS_DIRECT { k_of(work.params(), place.slice) } else { 0 };
            let mut step = 0;
            // Boxes have to be read before they are written again. Where that is waited for early,
            // copies for the next tile wait too: between reads and writes of a C that is most of
            // what moves, memory loses less time so.
            let is_late = work.params().writes == Writes::Late as u32;
            let waits_early = !W::IS_DIRECT && !write::uses_boxes_again(SUMS) && !is_late;
            // A constant for each turn, since registers cannot be told by a number.
            macro_rules! turn {
                ($turn:literal) => {
                    ring.wait_full();
                    let further = ring.stage() as u32 * stage_bytes;
                    if W::IS_DIRECT {
                        let stage = stages.cast().add(further as usize);
                        let k_left = k - u64::from(step * T::DEPTH);
                        settle::<G>(stage, G::GROUPS + of_b, &mut own, k_left);
                    }
                    let (a, b) = (A::parts(a.past(further)), B::parts(b.past(further)));
                    let ready = (step == 0 && waits_early, step != 0 || holds);
                    if S::IN_TWO {
                        S::multiply_first::<A, B>(&mut tile, a, b);
                        give_back(ring, warp, ready);
                    }
                    S::multiply::<A, B>(&mut tile, &mut sums, a, b, $turn, step == 0);
                    if !S::IN_TWO {
                        give_back(ring, warp, ready);
                    }
                    ring.next();
                    step += 1;
                    if step == steps {
                        S::end_turns(&mut tile, &mut sums, $turn);
                        break;
                    }
                };
            }
            // N.B. K is not 0, and the loop is one that runs at least once: were there a way around
            // it, the sums would be copied where the ways meet, while instructions still add to
            // them. For that reason turns end in the loop, too.
            loop {
                turn!(0);
                if S::TURNS == 2 {
                    turn!(1);
                }
            }
            // While the last products go on, where there are registers.
            let early = W::IS_ONE && G::TOGETHER == 1 && size_of::<T::Output>() == 2;
            if early {
                go_on!();
            }
            S::end(&mut sums);
            holds = waits_early;
            if !holds {
                ring.before().release();
            }
            // Up to here only stages were read, whose copies are started when they may be.
            grid::wait_for_grids();
            if !halves::join::<T, G, W, SUMS>(&work, &mut meeting, &mut sums, (place.row, group)) {
                if !early {
                    go_on!();
                }
                continue;
            }
            if !waits_early {
                write::wait_for_copies(warp);
            }
            work.read();
            let (operands, p) = (work.operands(), work.params());
            write::finish(epilogue, p, place, &mut sums);
            let (meets, epilogues) = (W::IS_ONE && G::GROUPS > 1, W::EPILOGUES && S::EPILOGUES);
            let meet = meets && S::EPILOGUES && waits_early && block_end <= p.m;
            let word_boxes = W::IS_ONE && S::EPILOGUES && fills_words::<T, SUMS>();
            let (boxes, tile_cols) = (work.has_box(place.row), work.tile_cols());
            let ways = Ways { epilogues, boxes, word_boxes, meet, adds_brought, tile_cols };
            write::write::<T, G, E, SUMS>(operands, p, place, (c, group), &sums, ways);
            meeting.give_back::<G>();
            if !early {
                go_on!();
            }
        }
        write::wait_for_copies(warp);
        if holds {
            ring.before().release();
        }
        meeting.end::<G>();
    }
}

/// Whether a tile's rows of C are whole boxes of 32 words. Elsewhere than in kernels of one plain
/// product whose usual C they are, registers do not suffice for them.
const fn fills_words<T: WarpGroup, const SUMS: usize>() -> bool {
    size_of::<T::Output>() == 4 && (2 * SUMS).is_multiple_of(32)
}

/// Starts the products of one stage: four instructions, each of 32 bytes of K.
///
/// # Safety
///
/// By all threads of the group, on tiles that have arrived.
#[inline(always)]
unsafe fn multiply_stage<T: WarpGroup, A: Side<T>, B: Side<T>, R: Accumulator<T>>(
    sums: &mut R,
    a: [Part<T, A>; 4],
    b: [Part<T, B>; 4],
    start: Accumulate,
) {
    // SAFETY: the caller's promise.
    unsafe {
        wgmma::fence(sums);
        wgmma::multiply(sums, a[0], b[0], start);
        wgmma::multiply(sums, a[1], b[1], Accumulate::Continue);
        wgmma::multiply(sums, a[2], b[2], Accumulate::Continue);
        wgmma::multiply(sums, a[3], b[3], Accumulate::Continue);
    }
}

/// Makes entry points from rows of a list, which may have an [`Epilogue`] of their own behind them:
/// `with (parameters,) => value`.
#[macro_export]
macro_rules! warp_group {
    (@entries $product:ident, $geometry:ident, $suffix:literal; $((
        $name:ident, $variant:literal, $element:ident, $stored:ident,
        [$bm:literal, $bn:literal, $bk:literal], $cluster:literal, $stages:literal
    ) $(with ($($parameter:tt)*) => $epilogue:expr)?,)*) => {$(
        #[doc = concat!("`", $variant, "` for `", stringify!($element), "`; see the body.")]
        ///
        /// # Safety
        ///
        /// The maps, C's address and the block describe matrices that the grid may read (A, B) and
        /// write (C); nothing else touches C during the launch; the grid is one of
        /// `Kernel::launches`, as `Kernel::resident` says.
        #[::cuda_std::kernel(
            max_threads = 128 + 2 * $bm,
            min_blocks = 1,
            cluster = ($cluster, 1, 1),
            suffix = $suffix
        )]
        pub unsafe fn $name(
            #[grid_constant] a: &::cuda_std::tma::TensorMap<3>,
            #[grid_constant] b: &::cuda_std::tma::TensorMap<3>,
            #[grid_constant] c: &::cuda_std::tma::TensorMap<3>,
            start: *mut <$element as $crate::Element>::Output,
            p: ::gemm_spec::GemmParams<<$element as $crate::Element>::Sum>,
            $($($parameter)*)?
        ) {
            const {
                assert!($bm % $crate::warp_group::GROUP_ROWS == 0);
                assert!($bk == <$element as $crate::warp_group::WarpGroup>::DEPTH);
            };
            // SAFETY: the host's promise, passed on.
            unsafe {
                let operands = $crate::warp_group::Operands { maps: [a, b, c], start };
                let product = $crate::warp_group::OneProduct::$product(&operands, &p);
                let epilogue = $crate::epilogue_or_plain!($($epilogue)?);
                $crate::warp_group!(
                    @multiply $stored, $element, $geometry[$bm / 64, $cluster, $stages], $bn,
                    (product, $crate::warp_group::InPlace, epilogue)
                )
            }
        }
    )*};
    (@multiply Tt, tf32, $geometry:ident $blocks:tt, $bn:literal,
        ($product:expr, $summing:expr, $epilogue:expr)) => {
        // No instruction reads such an A.
        $crate::warp_group!(
            @with [$crate::warp_group::BoxesOfWords], KMajor, true, tf32, $geometry $blocks, $bn,
            ($product, $crate::warp_group::FromRegisters, $epilogue)
        )
    };
    (@multiply Nn, $($rest:tt)*) => { $crate::warp_group!(@of KMajor, MnMajor, false, $($rest)*) };
    (@multiply Nt, $($rest:tt)*) => { $crate::warp_group!(@of KMajor, KMajor, true, $($rest)*) };
    (@multiply Tn, $($rest:tt)*) => { $crate::warp_group!(@of MnMajor, MnMajor, false, $($rest)*) };
    (@multiply Tt, $($rest:tt)*) => { $crate::warp_group!(@of MnMajor, KMajor, true, $($rest)*) };
    (@of $a:ident, $($rest:tt)*) => {
        $crate::warp_group!(
            @with [$crate::warp_group::Boxes<
                ::cuda_std::wgmma::$a,
                { $crate::warp_group::GROUP_ROWS },
            >],
            $($rest)*
        )
    };
    (@with [$a:ty], $b:ident, $along_k:literal, $element:ident,
        $geometry:ident[$groups:expr, $cluster:literal, $stages:literal], $bn:literal,
        $arguments:tt) => {{
        type G = $crate::warp_group::$geometry<{ $groups }, $cluster, $stages>;
        const PARTS: usize = <G as $crate::warp_group::Geometry>::PARTS;
        $crate::warp_group::multiply::<
            $element,
            $a,
            $crate::warp_group::Boxes<
                ::cuda_std::wgmma::$b,
                { ::gemm_spec::box_cols($bn, $along_k, PARTS) },
            >,
            G,
            _,
            _,
            _,
            { $bn / 2 },
        > $arguments
    }};
    ($($rows:tt)*) => { $crate::warp_group! { @entries new, Blocks, ""; $($rows)* } };
}
