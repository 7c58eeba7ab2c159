//! The thread that starts all copies of a block.

use super::ring::Ring;
use super::tiles::ClusterTiles;
use super::{CLUSTER, DEPTH, GROUPS, Operands, Rows64, TILES, TILES_A, TILES_B};
use crate::SharedTile;
use cuda_std::{cluster, tma};
use gemm_spec::GemmParams;

/// Brings the tiles of A and B of every step of every tile, as soon as a stage is empty, and waits
/// until the last ones are.
///
/// # Safety
///
/// By one thread of the block; the rest as [`multiply`](super::multiply).
#[inline(always)]
pub unsafe fn bring<T, const STAGES: usize, const A_ALONG_K: bool, const B_ALONG_K: bool>(
    operands: &Operands<'_, T>,
    p: &GemmParams<f32>,
    mut tiles: ClusterTiles,
    mut ring: Ring<STAGES>,
    stages: SharedTile<Rows64<T>>,
) {
    const SHARE: usize = TILES_B / CLUSTER;
    let rank = cluster::block_rank() as usize;
    let steps = p.k.div_ceil(DEPTH as u64) as u32;
    // SAFETY: a stage is filled after all its readers have given it back; the maps' use is as the
    // caller promises.
    unsafe {
        while let Some((row, col)) = tiles.next() {
            let (row, col) = (row as i32, col as i32 + (rank * SHARE * 64) as i32);
            for step in 0..steps {
                let k = (step * DEPTH as u32) as i32;
                ring.wait_empty();
                let full = ring.full();
                full.arrive_expect(TILES as u32 * Rows64::<T>::BYTES);
                let a = stages.add(ring.stage() * TILES);
                let b = a.add(TILES_A + rank * SHARE);
                for i in 0..GROUPS {
                    let at = place::<A_ALONG_K>(row + 64 * i as i32, k);
                    tma::load(a.add(i), operands.a, at, full);
                }
                for i in 0..SHARE {
                    let at = place::<B_ALONG_K>(col + 64 * i as i32, k);
                    tma::load_multicast(b.add(i), operands.b, at, full, 0b11);
                }
                ring.next();
            }
        }
        // The other block gives stages back here, in shared memory that goes when the block does.
        for _ in 0..STAGES {
            ring.wait_empty();
            ring.next();
        }
    }
}

/// Coordinates of a box, the contiguous extent first.
#[inline(always)]
fn place<const ALONG_K: bool>(outer: i32, k: i32) -> [i32; 2] {
    if ALONG_K { [k, outer] } else { [outer, k] }
}
