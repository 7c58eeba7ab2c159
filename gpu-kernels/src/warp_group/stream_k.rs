//! Equal shares of the work for all clusters, whatever the number of tiles: stream-K in its hybrid
//! form (Osama and others, "Stream-K: Work-centric Parallel Decomposition for Dense Matrix-Matrix
//! Multiplication on the GPU", arXiv 2301.03598).
//!
//! All steps of some tiles, those of one behind those of another, are cut into as many shares as
//! there are clusters; the other tiles fill whole waves, and are dealt out as in
//! [`ClusterTiles`](super::tiles::ClusterTiles). A cluster goes through its share from its end to
//! its beginning. What it has of a tile whose last steps are another's is open: it puts these sums
//! into memory, with a key beside them. Who has a tile's last steps adds those of the clusters
//! before it, the nearest first, when their keys are there, and writes the tile.
//!
//! An open piece is the first of a share, and what waits for it mostly the last of another, so that
//! nobody waits long. A cluster waits for clusters of smaller numbers alone. Blocks begin in the
//! order of their numbers, on all GPUs seen so far, which CUB's scans and CUTLASS's stream-K rely
//! on too: whoever is waited for runs, whatever else the GPU does.

use super::tiles::{Place, SPREAD};
use super::write::{sync, thread_of_group};
use super::{GROUP_ROWS, Geometry, Operands, Side, WarpGroup, Work};
use crate::Sum;
use core::marker::PhantomData;
use cuda_std::atomic::{AtomicU64, Ordering};
use cuda_std::{cluster, misc};
use gemm_spec::GemmParams;
use gemm_spec::order::{self, CLUSTER_GROUP};

/// Neighbouring clusters that begin with the same step where B lies along its columns.
const TOGETHER: u32 = 16;

/// Memory in which clusters join what they have of a tile; where they share
/// [none](order::shared_tiles), nowhere.
#[derive(Clone, Copy)]
pub struct Shared<S> {
    /// A tile of each block, of which a thread's sums lie as it has them.
    pub sums: *mut S,
    /// A word for each group of each block.
    pub keys: *mut u64,
    /// What it holds when the sums are there. Who has read these takes it away.
    pub key: u64,
}

/// One product, in equal shares.
#[derive(Clone, Copy)]
pub struct StreamK<'a, T: WarpGroup, G> {
    operands: &'a Operands<T>,
    p: &'a GemmParams<T::Sum>,
    shared: Shared<T::Sum>,
    /// Rows and columns of tiles of C, for clusters.
    extent: [u32; 2],
    /// Tiles, for clusters: those of an odd last row of blocks' tiles lie side by side.
    tiles: u32,
    /// Columns of a tile.
    width: u32,
    /// Steps of a tile.
    steps: u32,
    /// Tiles that are cut into shares.
    cut: u32,
    /// What is left of this cluster's share: from a step of these tiles to another.
    left: [u32; 2],
    /// The next of the other tiles, and how many of them this cluster has taken.
    whole: u32,
    taken: u32,
    /// The piece behind the last `next`: its first step of the tile, and how many it has.
    piece: [u32; 2],
    geometry: PhantomData<G>,
}

impl<'a, T: WarpGroup, G: Geometry> StreamK<'a, T, G> {
    /// All of it.
    #[inline(always)]
    pub fn new(
        operands: &'a Operands<T>,
        p: &'a GemmParams<T::Sum>,
        shared: Shared<T::Sum>,
    ) -> Self {
        StreamK {
            operands,
            p,
            shared,
            extent: [0; 2],
            tiles: 0,
            width: 1,
            steps: 1,
            cut: 0,
            left: [0; 2],
            whole: 0,
            taken: 0,
            piece: [0; 2],
            geometry: PhantomData,
        }
    }

    /// Where the share of a cluster begins; of the number of clusters, where the last one ends.
    #[inline(always)]
    fn begin_of(&self, cluster: u32) -> u32 {
        let (steps, clusters) = (self.cut * self.steps, cluster::cluster_dim_x());
        let (each, more) = (steps / clusters, steps % clusters);
        cluster * each + cluster.min(more)
    }

    /// A group's sums of this block's place in another cluster, for this thread, and their key.
    #[inline(always)]
    fn of_cluster<const SUMS: usize>(&self, cluster: u32, group: usize) -> (*mut u128, *mut u64) {
        let block = cluster as usize * G::CLUSTER + cluster::block_rank() as usize;
        let number = block * G::GROUPS + group;
        let sums = self.shared.sums.cast::<u128>();
        let first = number * (SUMS / 4 * 128) + thread_of_group();
        (sums.wrapping_add(first), self.shared.keys.wrapping_add(number))
    }
}

impl<T: WarpGroup, G: Geometry> Work<T, G> for StreamK<'_, T, G> {
    /// Not with what `next` keeps of the piece until its sums are written.
    const IS_ONE: bool = false;
    const EPILOGUES: bool = true;

    #[inline(always)]
    fn begin(&mut self, width: usize) {
        let height = (G::GROUPS * GROUP_ROWS) as u64;
        let rows = self.p.m.div_ceil(height) as u32;
        let cols = self.p.n.div_ceil(width as u64) as u32;
        self.extent = [rows.div_ceil(G::CLUSTER as u32), cols];
        self.tiles = order::side_by_side([rows, cols], G::CLUSTER as u32);
        self.width = width as u32;
        self.steps = self.p.k.div_ceil(T::DEPTH.into()) as u32;
        self.cut = order::shared_tiles(self.tiles, cluster::cluster_dim_x());
        let cluster = cluster::cluster_idx_x();
        self.left = [self.begin_of(cluster), self.begin_of(cluster + 1)];
        self.whole = self.cut + cluster;
    }

    #[inline(always)]
    fn box_rows<A: Side<T>, B: Side<T>>(&self) -> [u32; 2] {
        [A::box_rows(self.p.m, self.p.k), B::box_rows(self.p.n, self.p.k)]
    }

    #[inline(always)]
    fn next(&mut self) -> Option<Place> {
        let [begin, end] = self.left;
        let tile = if begin < end {
            let tile = (end - 1) / self.steps;
            let of_tile = tile * self.steps;
            let first = begin.max(of_tile);
            self.piece = [first - of_tile, end - first];
            self.left[1] = first;
            tile
        } else if self.whole < self.tiles {
            let tile = self.whole;
            self.piece = [0, self.steps];
            self.whole += cluster::cluster_dim_x();
            self.taken += 1;
            tile
        } else {
            return None;
        };
        let group = CLUSTER_GROUP / G::CLUSTER as u32;
        let at = order::of_cluster(tile, self.extent, self.tiles, G::CLUSTER as u32, group);
        let tile = [(G::GROUPS * GROUP_ROWS) as u32, self.width];
        Some(Place::of_block(at, G::CLUSTER, tile, 0))
    }

    #[inline(always)]
    fn operands(&self) -> &Operands<T> {
        self.operands
    }

    #[inline(always)]
    fn params(&self) -> &GemmParams<T::Sum> {
        self.p
    }

    #[inline(always)]
    fn steps(&self, _: u32) -> u32 {
        self.piece[1]
    }

    /// Open pieces, the first of all shares, begin where their tiles do, and are spread as tiles of
    /// one row are.
    #[inline(always)]
    fn first_step(&self, _: Place, steps: u32, b_along_k: bool) -> u32 {
        let together = if b_along_k { 1 } else { TOGETHER };
        match self.extent[0] {
            1 => cluster::cluster_idx_x() / together * SPREAD % steps,
            _ => 0,
        }
    }

    /// None of a share is, of which some clusters have one and some two.
    #[inline(always)]
    fn is_turned(&self) -> bool {
        self.p.order.is_turned(self.taken)
    }

    #[inline(always)]
    fn reads_b_once(&self) -> bool {
        self.extent[0] == 1
    }

    #[inline(always)]
    fn first_k(&self, _: u32) -> u32 {
        self.piece[0] * T::DEPTH
    }

    #[inline(always)]
    unsafe fn join<const SUMS: usize>(&self, sums: &mut [T::Sum; SUMS], group: usize) -> bool {
        const { assert!(size_of::<T::Sum>() == 4) };
        let [first, steps] = self.piece;
        let cluster = misc::afresh(cluster::cluster_idx_x());
        // SAFETY: sums and keys are as the caller promises. A group's sums are written when its
        // threads are here, and its key when they have written; they are read when the key is
        // there, and the key is taken away when all threads that waited for it have seen it.
        unsafe {
            if first + steps != self.steps {
                let (to, key) = self.of_cluster::<SUMS>(cluster, group);
                for i in 0..SUMS / 4 {
                    let word: [T::Sum; 4] = core::array::from_fn(|j| sums[4 * i + j]);
                    to.wrapping_add(i * 128).write(core::mem::transmute_copy(&word));
                }
                sync::<G>(group);
                if thread_of_group() == 0 {
                    AtomicU64::from_ptr(key).store(self.shared.key, Ordering::Release);
                }
                return false;
            }
            if first != 0 {
                // The tile's first step among all that are cut, where a share begins or goes on.
                let of_tile = self.left[1] - first;
                let mut before = cluster;
                loop {
                    before -= 1;
                    let (from, key) = self.of_cluster::<SUMS>(before, group);
                    let key = AtomicU64::from_ptr(key);
                    while key.load(Ordering::Acquire) != self.shared.key {}
                    for i in 0..SUMS / 4 {
                        let word = from.wrapping_add(i * 128).read();
                        let word: [T::Sum; 4] = core::mem::transmute_copy(&word);
                        for j in 0..4 {
                            sums[4 * i + j] = sums[4 * i + j].add(word[j]);
                        }
                    }
                    sync::<G>(group);
                    if thread_of_group() == 0 {
                        key.store(0, Ordering::Relaxed);
                    }
                    if self.begin_of(before) <= of_tile {
                        break;
                    }
                }
            }
        }
        true
    }
}
