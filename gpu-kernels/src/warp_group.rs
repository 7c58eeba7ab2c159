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
//! Where the groups take turns ([`PingPong`]), each has tiles of its own, 128 x 128, and writes one
//! while the other group multiplies the next; see [`turns`].
//!
//! # Mapping
//!
//! The blocks of a cluster take tiles of C that lie one below the other. Each brings its own rows
//! of A, and a part of the columns of B for all. Clusters take tiles in groups of rows, as in
//! step 10 of the ladder, each the next one that is as many further as there are clusters.
//!
//! # Shared memory
//!
//! A ring of stages, each a tile of A and one of B in rows of 128 bytes, swizzled, as the tensor
//! cores read them: rows run along K, or along the extent that C keeps where the matrix does. Two
//! barriers a stage. Behind the ring boxes of C that are copied out. A tile of more columns than
//! they have room for takes the last stage it was multiplied from too, and gives that back during
//! the next tile's first products.
//!
//! # Preconditions
//!
//! Those of [`GemmParams`], K not 0, and a grid from `Kernel::launches` as `Kernel::resident` says.
//! A and B as tensor maps, of boxes of 64 rows of 128 bytes along the extent that is contiguous; C
//! in any strides, as a map where its rows allow one. Compute capability 9.0.

mod bring;
mod ring;
mod tiles;
mod turns;
mod write;

use crate::{Element, SharedTile, Sum};
use bring::bring;
use core::marker::PhantomData;
use cuda_std::mbarrier::{self, Mbarrier};
use cuda_std::tma::{self, TensorMap};
use cuda_std::wgmma::{self, Accumulate, Accumulator, Descriptor, KMajor, MnMajor, Tile};
use cuda_std::{cluster, grid, misc, registers, shared, thread};
use gemm_spec::{C_BOXES, GemmParams};
use ring::Ring;
use tiles::ClusterTiles;
use turns::Turns;
use write::BoxOfC;

/// Rows of C that a group of four warps computes.
pub const GROUP_ROWS: usize = 64;

/// How a kernel deals out its work.
pub trait Geometry: Copy {
    /// Groups that multiply: one for each 64 rows of the block's tile.
    const GROUPS: usize;
    /// Blocks of a cluster.
    const CLUSTER: usize;
    /// Stages of the ring.
    const STAGES: usize;
    /// Whether a tile is one group's, and the next tile the next group's; else each has 64 rows of
    /// every tile.
    const TAKES_TURNS: bool = false;
}

/// The numbers of a [`Geometry`].
#[derive(Clone, Copy)]
pub struct Blocks<const GROUPS: usize, const CLUSTER: usize, const STAGES: usize>;

impl<const GROUPS: usize, const CLUSTER: usize, const STAGES: usize> Geometry
    for Blocks<GROUPS, CLUSTER, STAGES>
{
    const GROUPS: usize = GROUPS;
    const CLUSTER: usize = CLUSTER;
    const STAGES: usize = STAGES;
}

/// `G`, with groups that take turns.
#[derive(Clone, Copy)]
pub struct PingPong<G>(PhantomData<G>);

impl<G: Geometry> Geometry for PingPong<G> {
    const GROUPS: usize = G::GROUPS;
    const CLUSTER: usize = G::CLUSTER;
    const STAGES: usize = G::STAGES;
    const TAKES_TURNS: bool = true;
}

/// Elements that Hopper's tensor cores multiply.
pub trait WarpGroup: wgmma::Element + Element {
    /// K of a step: a row of 128 bytes.
    const DEPTH: u32 = 128 / size_of::<Self>() as u32;
}

impl WarpGroup for cuda_std::half::f16 {}
impl WarpGroup for cuda_std::half::bf16 {}
impl WarpGroup for wgmma::Tf32 {}
impl WarpGroup for i8 {}

/// The direction in which tiles of an operand are contiguous.
pub trait Side<T>: wgmma::Major<T> {
    /// Whether it is K.
    const ALONG_K: bool;

    /// The four instructions' parts of a stage.
    ///
    /// # Safety
    /// The pointer is to the first of the stage's tiles that the instructions read.
    unsafe fn parts(tiles: SharedTile<Rows64<T>>) -> [Descriptor<T, Self>; 4];
}

impl<T: wgmma::Element> Side<T> for KMajor {
    const ALONG_K: bool = true;

    #[inline(always)]
    unsafe fn parts(tiles: SharedTile<Rows64<T>>) -> [Descriptor<T, Self>; 4] {
        // SAFETY: the caller's promise.
        let tile = unsafe { tiles.k_major() };
        [tile, tile.step::<1>(), tile.step::<2>(), tile.step::<3>()]
    }
}

impl<T: wgmma::Element> Side<T> for MnMajor
where
    MnMajor: wgmma::Major<T>,
{
    const ALONG_K: bool = false;

    #[inline(always)]
    unsafe fn parts(tiles: SharedTile<Rows64<T>>) -> [Descriptor<T, Self>; 4] {
        // SAFETY: the caller's promise; elements have 16 bits, so that the tile has 64 values of K.
        unsafe {
            let tile = tiles.mn_major();
            [tile, tile.step::<1>(), tile.step::<2>(), tile.step::<3>()]
        }
    }
}

/// A tile of 64 rows of 128 bytes.
pub type Rows64<T> = Tile<T, 64>;

/// Tiles of 64 rows of B in a stage, for so many sums a thread: two columns each.
const fn tiles_b(sums: usize) -> usize {
    sums / 32
}

/// The operands of a launch as maps, and C's address.
pub struct Operands<'a, T: Element> {
    /// A's map.
    pub a: &'a TensorMap<2>,
    /// B's.
    pub b: &'a TensorMap<2>,
    /// C's, which is used where `write::write` says so.
    pub c: &'a TensorMap<2>,
    /// C's first element.
    pub start: *mut T::Output,
}

impl<T: Element> Operands<'_, T> {
    /// Has the maps brought near, for the first copies not to wait for them.
    #[inline(always)]
    fn prefetch_maps(&self) {
        tma::prefetch_map(self.a);
        tma::prefetch_map(self.b);
        tma::prefetch_map(self.c);
    }
}

/// Computes a cluster's tiles of C, with the blocks of the cluster. `PARTS` are the times 64 rows
/// that a group has of a tile: all of them where groups take turns, else one.
///
/// # Safety
///
/// Called by all threads of a block of 128 for each group and 128 more, in clusters as `G` says,
/// whose dynamic shared memory holds the stages, [`C_BOXES`] boxes of C a group and the barriers.
/// The maps and the parameter block describe matrices that the grid may read (A, B) and write (C),
/// and no other code touches C during the launch.
#[inline(always)]
pub unsafe fn multiply<T, A, B, G, const SUMS: usize, const PARTS: usize>(
    operands: &Operands<'_, T>,
    p: &GemmParams<T::Sum>,
) where
    T: WarpGroup,
    G: Geometry,
    A: Side<T>,
    B: Side<T>,
    [T::Sum; SUMS]: Accumulator<T>,
{
    // SAFETY: the memory is the block's own, and as large as the caller promises. The barriers are
    // ready in both blocks before either uses the other's, and the thread that brings stays until
    // the other block is done with them.
    unsafe {
        let stages: SharedTile<Rows64<T>> = shared::dynamic_shared_mem();
        let c = stages.add(G::STAGES * (G::GROUPS + tiles_b(SUMS))).cast::<BoxOfC>();
        let barriers: SharedTile<Mbarrier> = c.add(G::GROUPS * C_BOXES).cast();
        let ring = Ring::<G>::new(barriers);
        let turns = barriers.add(2 * G::STAGES);
        if thread::thread_idx_x() == 0 {
            operands.prefetch_maps();
            ring.init();
            turns::init::<G>(turns);
            mbarrier::fence_init();
        }
        // That fence covers the barriers, and nothing else was written.
        cluster::arrive_relaxed();
        let tiles = ClusterTiles::<G>::new(p, 2 * SUMS);
        cluster::wait();
        // The next kernel of the stream may get ready; the one before has ended.
        grid::launch_dependents();
        grid::wait_for_grids();
        match thread::thread_idx_x() / 128 {
            0 => {
                if G::GROUPS > 1 {
                    registers::decrease::<40>();
                }
                if thread::thread_idx_x() == 0 {
                    bring::<T, A, B, G, SUMS>(operands, p, tiles, ring, stages);
                }
            }
            group => {
                // One group alone has as many registers as a thread may have.
                if G::GROUPS > 1 {
                    registers::increase::<232>();
                }
                let turns = Turns::<G>::new(turns, group as usize - 1);
                let memory = (stages, c);
                consume::<T, A, B, G, SUMS, PARTS>(operands, p, tiles, ring, memory, turns);
            }
        }
    }
}

/// A group's part: multiplies what comes, and writes C.
///
/// # Safety
///
/// As [`multiply`]; by the 128 threads of the group that `turns` says.
#[inline(always)]
unsafe fn consume<T, A, B, G, const SUMS: usize, const PARTS: usize>(
    operands: &Operands<'_, T>,
    p: &GemmParams<T::Sum>,
    mut tiles: ClusterTiles<G>,
    mut ring: Ring<G>,
    (stages, c): (SharedTile<Rows64<T>>, SharedTile<BoxOfC>),
    mut turns: Turns<G>,
) where
    T: WarpGroup,
    G: Geometry,
    A: Side<T>,
    B: Side<T>,
    [T::Sum; SUMS]: Accumulator<T>,
{
    const { assert!(PARTS == if G::TAKES_TURNS { G::GROUPS } else { 1 }) };
    let steps = p.k.div_ceil(T::DEPTH.into()) as u32;
    let group = turns.group();
    let first_part = if G::TAKES_TURNS { 0 } else { group };
    // Whether the stage before is still this group's.
    let mut holds = false;
    // SAFETY: a stage is read when its copies have arrived, and given back when the products that
    // read it are done, and the copies of C from it; the maps' and C's use is as the caller
    // promises.
    unsafe {
        let c = c.add(group * C_BOXES);
        if G::TAKES_TURNS && group > 0 {
            tiles.skip();
            ring.skip(steps);
        }
        while let Some((row, col)) = tiles.next() {
            let mut sums = [[T::Sum::ZERO; SUMS]; PARTS];
            let mut step = 0;
            turns.wait();
            // N.B. K is not 0, and the loop is one that runs at least once: were there a way around
            // it, the sums would be copied where the ways meet, while instructions still add to
            // them.
            loop {
                ring.wait_full();
                let stage = stages.add(ring.stage() * (G::GROUPS + tiles_b(SUMS)));
                let start = if step == 0 { Accumulate::Start } else { Accumulate::Continue };
                let (a, b) = (stage.add(first_part), stage.add(G::GROUPS));
                multiply_stage::<T, A, B, _, PARTS>(&mut sums, (a, b), start);
                wgmma::commit_group();
                // The products of the step before are done; these go on.
                wgmma::wait_group::<1, _>(&mut sums);
                if step == 0 && !G::TAKES_TURNS {
                    write::wait_for_copies();
                }
                if holds {
                    ring.before().release();
                }
                holds = true;
                ring.next();
                step += 1;
                if step == steps {
                    break;
                }
            }
            turns.pass();
            wgmma::wait_group::<0, _>(&mut sums);
            let last = ring.before();
            if G::TAKES_TURNS {
                // The other group goes on, with the next tile, and needs the stage.
                last.release();
                holds = false;
                tiles.skip();
                ring.skip(steps);
            }
            let last = stages.add(last.stage() * (G::GROUPS + tiles_b(SUMS)));
            let boxes = [c, last.add(group * C_BOXES).cast()];
            let row = row + (first_part * GROUP_ROWS) as u64;
            write_parts::<T, G, SUMS, PARTS>(operands, p, (row, col), (boxes, group), sums);
        }
        write::wait_for_copies();
        if holds {
            ring.before().release();
        }
    }
}

/// Writes a group's sums, 64 rows after the other.
///
/// # Safety
///
/// As [`write::write`]; where there are several parts, each of no more columns than the group's own
/// boxes have.
#[inline(always)]
unsafe fn write_parts<T: Element, G: Geometry, const SUMS: usize, const PARTS: usize>(
    operands: &Operands<'_, T>,
    p: &GemmParams<T::Sum>,
    (row, col): (u64, u64),
    (boxes, group): ([SharedTile<BoxOfC>; 2], usize),
    mut sums: [[T::Sum; SUMS]; PARTS],
) {
    const { assert!(PARTS == 1 || PARTS == 2 && SUMS / 32 <= C_BOXES) };
    let mut part = 0;
    loop {
        // SAFETY: the caller's promise; the boxes are free when the copies from them are done.
        unsafe {
            if PARTS > 1 {
                write::wait_for_copies();
            }
            let row = row + u64::from(part) * GROUP_ROWS as u64;
            write::write::<T, G, SUMS>(operands, p, (row, col), (boxes, group), &sums[0]);
        }
        part += 1;
        // Afresh, so that it stays a loop, of which the code is there once.
        if PARTS == 1 || part == misc::afresh(PARTS as u32) {
            break;
        }
        sums[0] = sums[PARTS - 1];
    }
}

/// Starts the products of one stage: for each part four instructions, each of 32 bytes of K.
///
/// # Safety
///
/// By all threads of the group, on tiles that have arrived: of A one a part, and B's.
#[inline(always)]
unsafe fn multiply_stage<T, A, B, R, const PARTS: usize>(
    sums: &mut [R; PARTS],
    (a, b): (SharedTile<Rows64<T>>, SharedTile<Rows64<T>>),
    start: Accumulate,
) where
    T: WarpGroup,
    A: Side<T>,
    B: Side<T>,
    R: Accumulator<T>,
{
    // SAFETY: the caller's promise.
    unsafe {
        let b = B::parts(b);
        wgmma::fence(sums);
        for k in 0..4 {
            let accumulate = if k == 0 { start } else { Accumulate::Continue };
            for part in 0..PARTS {
                wgmma::multiply(&mut sums[part], A::parts(a.add(part))[k], b[k], accumulate);
            }
        }
    }
}

/// Makes entry points from rows of a list.
#[macro_export]
macro_rules! warp_group {
    ($((
        $name:ident, $variant:literal, $element:ident, $stored:ident,
        [$bm:literal, $bn:literal, $bk:literal], $cluster:literal, $stages:literal
        $(, $schedule:ident)?
    ),)*) => {$(
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
            cluster = ($cluster, 1, 1)
        )]
        pub unsafe fn $name(
            #[grid_constant] a: &::cuda_std::tma::TensorMap<2>,
            #[grid_constant] b: &::cuda_std::tma::TensorMap<2>,
            #[grid_constant] c: &::cuda_std::tma::TensorMap<2>,
            start: *mut <$element as $crate::Element>::Output,
            p: ::gemm_spec::GemmParams<<$element as $crate::Element>::Sum>,
        ) {
            const {
                assert!($bm % $crate::warp_group::GROUP_ROWS == 0);
                assert!($bk == <$element as $crate::warp_group::WarpGroup>::DEPTH);
            };
            // SAFETY: the host's promise, passed on.
            unsafe {
                let operands = $crate::warp_group::Operands { a, b, c, start };
                $crate::warp_group!(
                    @multiply $stored, $element, [$bm / 64, $cluster, $stages $(, $schedule)?], $bn,
                    (&operands, &p)
                )
            }
        }
    )*};
    (@multiply Nn, $($rest:tt)*) => { $crate::warp_group!(@call KMajor, MnMajor, $($rest)*) };
    (@multiply Nt, $($rest:tt)*) => { $crate::warp_group!(@call KMajor, KMajor, $($rest)*) };
    (@multiply Tn, $($rest:tt)*) => { $crate::warp_group!(@call MnMajor, MnMajor, $($rest)*) };
    (@multiply Tt, $($rest:tt)*) => { $crate::warp_group!(@call MnMajor, KMajor, $($rest)*) };
    (@geometry $groups:expr, $cluster:literal, $stages:literal) => {
        $crate::warp_group::Blocks<{ $groups }, $cluster, $stages>
    };
    (@geometry $groups:expr, $cluster:literal, $stages:literal, PingPong) => {
        $crate::warp_group::PingPong<$crate::warp_group!(@geometry $groups, $cluster, $stages)>
    };
    (@parts $groups:expr, $cluster:literal, $stages:literal) => { 1 };
    (@parts $groups:expr, $cluster:literal, $stages:literal, PingPong) => { $groups };
    (@call $a:ident, $b:ident, $element:ident, [$($geometry:tt)*], $bn:literal,
        $arguments:tt) => {
        $crate::warp_group::multiply::<
            $element,
            ::cuda_std::wgmma::$a,
            ::cuda_std::wgmma::$b,
            $crate::warp_group!(@geometry $($geometry)*),
            { $bn / 2 },
            { $crate::warp_group!(@parts $($geometry)*) },
        > $arguments
    };
}

/// The entry points of the table.
#[cfg(feature = "sm_90a")]
pub mod entries {
    use cuda_std::half::{bf16, f16};
    #[allow(non_camel_case_types)] // As it stands in the table.
    type tf32 = cuda_std::wgmma::Tf32;
    gemm_spec::warp_group_kernels!(warp_group);
}
