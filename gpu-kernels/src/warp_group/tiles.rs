//! Which tiles of C a cluster computes, one after the other, slice by slice.

use super::{GROUP_ROWS, Geometry};
use core::marker::PhantomData;
use cuda_std::cluster;
use gemm_spec::{GemmParams, order};

/// Rows of blocks in a group of the order.
pub const ORDER_GROUP: usize = 16;
/// Columns of tiles that go row after row where two groups multiply and the host asks for it.
const ROW_AFTER_ROW: usize = 128;

/// Steps between the first ones of neighbouring tiles: even, since steps are brought in pairs, and
/// twice an odd number, so that all pairs of any power of two are gone through.
pub const SPREAD: u32 = 6;
/// Neighbouring tiles that begin with the same step where B lies along its columns.
pub const TOGETHER: u32 = 16;

/// Where a tile is.
#[derive(Clone, Copy)]
pub struct Place {
    /// Its first row of C.
    pub row: u64,
    /// Its first column.
    pub col: u64,
    /// The number of its slice.
    pub slice: u32,
    /// Whether the tiles of the cluster's blocks lie side by side, and not one below the other:
    /// then it is rows of A that they share.
    pub is_beside: bool,
}

impl Place {
    /// This block's, of a cluster's tile as [`order::of_cluster`] has it, in tiles of so many rows
    /// and columns.
    #[inline(always)]
    pub fn of_block(at: (u32, u32, bool), [height, width]: [u32; 2], slice: u32) -> Self {
        let (row, col, is_beside) = at;
        let rank = cluster::block_rank();
        let (row, col) = if is_beside { (row, col + rank) } else { (row + rank, col) };
        let (row, col) = (u64::from(row) * u64::from(height), u64::from(col) * u64::from(width));
        Place { row, col, slice, is_beside }
    }
}

/// The tiles that are left to a cluster.
#[derive(Clone, Copy)]
pub struct ClusterTiles<G> {
    next: u32,
    end: u32,
    /// Rows and columns of tiles, those of clusters that lie one below the other.
    rows: u32,
    cols: u32,
    /// Tiles of a slice, for clusters.
    tiles: u32,
    /// Columns of a tile.
    width: u32,
    /// Whether tiles go row after row.
    by_rows: bool,
    geometry: PhantomData<G>,
}

impl<G: Geometry> ClusterTiles<G> {
    /// Rows of a block's tile.
    const HEIGHT: usize = G::GROUPS * GROUP_ROWS;

    /// None at all.
    #[inline(always)]
    pub fn none() -> Self {
        let geometry = PhantomData;
        ClusterTiles {
            next: 0,
            end: 0,
            rows: 0,
            cols: 0,
            tiles: 0,
            width: 1,
            by_rows: false,
            geometry,
        }
    }

    /// All of this cluster's, of `width` columns each.
    #[inline(always)]
    pub fn new<S>(p: &GemmParams<S>, width: usize) -> Self {
        let rows = p.m.div_ceil(Self::HEIGHT as u64) as u32;
        let cols = p.n.div_ceil(width as u64) as u32;
        let (cluster, at_once) = (G::CLUSTER as u32, cluster::cluster_dim_x());
        let tiles = order::of_clusters([rows, cols], cluster, p.slices.count, at_once);
        ClusterTiles {
            next: cluster::cluster_idx_x(),
            end: tiles * p.slices.count,
            rows: rows.div_ceil(cluster),
            cols,
            tiles,
            width: width as u32,
            by_rows: G::GROUPS == 2 && width == ROW_AFTER_ROW && p.streams_c != 0,
            geometry: PhantomData,
        }
    }

    /// Goes on to the tiles of a C of so many rows and columns, which come behind those so far,
    /// none of them side by side: how many waves all have is not known.
    #[inline(always)]
    pub fn go_on(&mut self, rows: u64, cols: u64) {
        self.next -= self.end;
        self.rows = rows.div_ceil((G::CLUSTER * Self::HEIGHT) as u64) as u32;
        self.cols = cols.div_ceil(self.width.into()) as u32;
        self.tiles = self.rows * self.cols;
        self.end = self.tiles;
    }

    /// The step along K with which a tile begins: the first, but for a C of one row of tiles. There
    /// nobody shares B, and blocks that are at different places of their columns at one time spread
    /// their reads over the memory, except those that share A, which stay in step. Where B lies
    /// along its columns, neighbours read neighbouring bytes of a row, and stay together.
    #[inline(always)]
    pub fn first_step(&self, tile: Place, steps: u32, is_along_k: bool) -> u32 {
        let together = match is_along_k {
            false => TOGETHER,
            true if G::CLUSTER > 1 && tile.is_beside => G::CLUSTER as u32,
            true => 1,
        };
        match self.rows {
            1 => tile.col as u32 / (self.width * together) * SPREAD % steps,
            _ => 0,
        }
    }

    /// Whether each byte of B is read once, and blocks go on to other bytes of it: there is one row
    /// of tiles, and they are more than run at one time.
    #[inline(always)]
    pub fn reads_b_once<S>(&self, p: &GemmParams<S>) -> bool {
        self.rows == 1 && p.slices.count == 1 && self.cols > cluster::cluster_dim_x()
    }

    /// Where this block's part of the next tile starts.
    #[inline(always)]
    pub fn next(&mut self) -> Option<Place> {
        if self.next >= self.end {
            return None;
        }
        let extent = [self.rows, self.cols];
        // Blocks alone need no register for it.
        let tiles = if G::CLUSTER > 1 { self.tiles } else { self.rows * self.cols };
        // A division takes as long as a step of small tiles.
        let (slice, number) = match self.end == tiles {
            true => (0, self.next),
            false => (self.next / tiles, self.next % tiles),
        };
        // N.B. Two calls: by one number, which is 1 or not, there would be a division more.
        let cluster = G::CLUSTER as u32;
        let at = match self.by_rows {
            true => order::of_cluster(number, extent, tiles, cluster, 1),
            false => {
                order::of_cluster(number, extent, tiles, cluster, ORDER_GROUP as u32 / cluster)
            }
        };
        self.next += cluster::cluster_dim_x();
        Some(Place::of_block(at, [Self::HEIGHT as u32, self.width], slice))
    }
}
