//! Which tiles of C a cluster computes, one after the other.

use super::{GROUP_ROWS, Geometry};
use core::marker::PhantomData;
use cuda_std::cluster;
use gemm_spec::order::{self, CLUSTER_GROUP};

/// Steps between the first ones of neighbouring tiles: even, since steps are brought in pairs, and
/// twice an odd number, so that all pairs of any power of two are gone through.
pub const SPREAD: u32 = 6;

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
    pub fn of_block(
        at: (u32, u32, bool),
        cluster: usize,
        [height, width]: [u32; 2],
        slice: u32,
    ) -> Self {
        let (row, col, is_beside) = at;
        // One tile for all of a cluster is that of its number.
        let rank = if cluster == 1 { 0 } else { cluster::block_rank() };
        let [_, across] = order::cluster_tiles(cluster as u32);
        let (row, col) = match is_beside {
            true => (row, col + rank),
            false => (row + rank / across, col + rank % across),
        };
        let (row, col) = (u64::from(row) * u64::from(height), u64::from(col) * u64::from(width));
        Place { row, col, slice, is_beside }
    }
}

/// The step along K with which tile number `col` of a row begins, of so many rows of tiles, where
/// `together` neighbours share rows of A: the first, but for a C of one row of tiles. There nobody
/// shares B, and blocks that are at different places of their rows at one time spread their reads
/// over the memory.
///
/// It is to be taken modulo the tile's steps.
#[inline(always)]
pub fn first_step(rows: u32, col: u32, together: u32) -> u32 {
    match rows {
        1 => col / together * SPREAD,
        _ => 0,
    }
}

/// The tiles that are left to a cluster of a list's product.
#[derive(Clone, Copy)]
pub struct ClusterTiles<G> {
    next: u32,
    end: u32,
    /// Rows and columns of tiles of clusters.
    rows: u32,
    cols: u32,
    /// Columns of a tile.
    width: u32,
    geometry: PhantomData<G>,
}

impl<G: Geometry> ClusterTiles<G> {
    /// Rows of a block's tile.
    const HEIGHT: usize = G::GROUPS * GROUP_ROWS;

    /// None so far, of `width` columns each.
    #[inline(always)]
    pub fn none(width: usize) -> Self {
        let (next, width) = (cluster::cluster_idx_x(), width as u32);
        ClusterTiles { next, end: 0, rows: 0, cols: 0, width, geometry: PhantomData }
    }

    /// Goes on to the tiles of a C of so many rows and columns, which come behind those so far,
    /// none of them side by side: how many waves all have is not known.
    #[inline(always)]
    pub fn go_on(&mut self, rows: u64, cols: u64) {
        self.next -= self.end;
        self.rows = rows.div_ceil((G::CLUSTER * Self::HEIGHT) as u64) as u32;
        self.cols = cols.div_ceil(self.width.into()) as u32;
        self.end = self.rows * self.cols;
    }

    /// Where this block's part of the next tile starts.
    #[inline(always)]
    pub fn next(&mut self) -> Option<Place> {
        if self.next >= self.end {
            return None;
        }
        let (extent, cluster) = ([self.rows, self.cols], G::CLUSTER as u32);
        let group = CLUSTER_GROUP / cluster;
        let at = order::of_cluster(self.next, extent, self.end, cluster, group);
        self.next += cluster::cluster_dim_x();
        Some(Place::of_block(at, G::CLUSTER, [Self::HEIGHT as u32, self.width], 0))
    }
}
