//! The thread that starts all copies of a block.

use super::ring::Ring;
use super::tiles::ClusterTiles;
use super::{Geometry, Operands, Rows64, Side, WarpGroup, place_in_cluster, tiles_b};
use crate::SharedTile;
use cuda_std::mbarrier::Mbarrier;
use cuda_std::tma::{self, TensorMap};
use gemm_spec::GemmParams;

/// Brings the tiles of A and B of every step of every tile, as soon as a stage is empty, and waits
/// until the last ones are.
///
/// # Safety
///
/// By one thread of the block; the rest as [`multiply`](super::multiply).
#[inline(always)]
pub unsafe fn bring<T: WarpGroup, A: Side<T>, B: Side<T>, G: Geometry, const SUMS: usize>(
    operands: &Operands<'_, T>,
    p: &GemmParams<T::Sum>,
    mut tiles: ClusterTiles<G>,
    mut ring: Ring<G>,
    stages: SharedTile<Rows64<T>>,
) {
    let tiles_b = tiles_b(SUMS);
    let (share_a, share_b) = (G::TILES_A / G::CLUSTER[1], tiles_b / G::CLUSTER[0]);
    let [row, col] = place_in_cluster::<G>();
    let (first_a, first_b) = (col as usize * share_a, row as usize * share_b);
    // The blocks of this one's row have its rank and those that are whole columns further.
    let columns = (0..G::CLUSTER[1]).fold(0, |mask, i| mask | 1u16 << (i * G::CLUSTER[0]));
    let masks = [columns << row, ((1 << G::CLUSTER[0]) - 1) << (col * G::CLUSTER[0] as u32)];
    let steps = p.k.div_ceil(T::DEPTH.into()) as u32;
    // SAFETY: a stage is filled after all its readers have given it back; the maps' use is as the
    // caller promises.
    unsafe {
        while let Some((row, col)) = tiles.next() {
            let (row, col) = (row as i32 + 64 * first_a as i32, col as i32 + 64 * first_b as i32);
            for step in 0..steps {
                let k = (step * T::DEPTH) as i32;
                ring.wait_empty();
                let full = ring.full();
                full.arrive_expect((G::TILES_A + tiles_b) as u32 * Rows64::<T>::BYTES);
                let a = stages.add(ring.stage() * (G::TILES_A + tiles_b));
                let b = a.add(G::TILES_A + first_b);
                for i in 0..share_a {
                    let at = place::<T, A>(row + 64 * i as i32, k);
                    load(G::CLUSTER[1], a.add(first_a + i), operands.a, at, full, masks[0]);
                }
                for i in 0..share_b {
                    let at = place::<T, B>(col + 64 * i as i32, k);
                    load(G::CLUSTER[0], b.add(i), operands.b, at, full, masks[1]);
                }
                ring.next();
            }
        }
        // The other blocks give stages back here, in shared memory that goes when the block does.
        for _ in 0..G::STAGES {
            ring.wait_empty();
            ring.next();
        }
    }
}

/// Starts the copy of a box, to as many blocks: the ones of the mask where they are several.
///
/// # Safety
/// As [`tma::load_multicast`].
#[inline(always)]
unsafe fn load<T>(
    blocks: usize,
    to: SharedTile<Rows64<T>>,
    map: &TensorMap<2>,
    at: [i32; 2],
    full: SharedTile<Mbarrier>,
    mask: u16,
) {
    // SAFETY: the caller's promise.
    unsafe {
        match blocks {
            1 => tma::load(to, map, at, full),
            _ => tma::load_multicast(to, map, at, full, mask),
        }
    }
}

/// Coordinates of a box, the contiguous extent first.
#[inline(always)]
fn place<T, M: Side<T>>(outer: i32, k: i32) -> [i32; 2] {
    if M::ALONG_K { [k, outer] } else { [outer, k] }
}
