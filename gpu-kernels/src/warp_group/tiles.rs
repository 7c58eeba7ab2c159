//! Which tiles of C a cluster computes, one after the other.

use super::{GROUP_ROWS, Geometry};
use core::marker::PhantomData;
use cuda_std::cluster;
use gemm_spec::{GemmParams, order};

/// Rows of blocks in a group of the order.
const ORDER_GROUP: usize = 16;

/// The tiles that are left to a cluster.
#[derive(Clone, Copy)]
pub struct ClusterTiles<G> {
    next: u32,
    end: u32,
    rows: u32,
    cols: u32,
    /// Columns of a tile.
    width: u32,
    geometry: PhantomData<G>,
}

impl<G: Geometry> ClusterTiles<G> {
    /// Rows of a block's tile.
    const HEIGHT: usize = G::GROUPS * GROUP_ROWS;

    /// All of this cluster's, of `width` columns each.
    #[inline(always)]
    pub fn new<S>(p: &GemmParams<S>, width: usize) -> Self {
        let rows = p.m.div_ceil((G::CLUSTER * Self::HEIGHT) as u64) as u32;
        let cols = p.n.div_ceil(width as u64) as u32;
        ClusterTiles {
            next: cluster::cluster_idx_x(),
            end: rows * cols,
            rows,
            cols,
            width: width as u32,
            geometry: PhantomData,
        }
    }

    /// Row and column of C at which this block's part of the next tile starts.
    #[inline(always)]
    pub fn next(&mut self) -> Option<(u64, u64)> {
        if self.next >= self.end {
            return None;
        }
        let group = (ORDER_GROUP / G::CLUSTER) as u32;
        let (row, col) = order::grouped(self.next, self.rows, self.cols, group);
        self.next += cluster::cluster_dim_x();
        let row = row * G::CLUSTER as u32 + cluster::block_rank();
        Some((u64::from(row) * Self::HEIGHT as u64, u64::from(col) * u64::from(self.width)))
    }
}
