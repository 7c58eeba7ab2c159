//! The thread that starts all copies of a block.

use super::ring::Ring;
use super::tiles::Place;
use super::{Geometry, Rows64, Side, WarpGroup, Work, tiles_b, write};
use crate::SharedTile;
use cuda_std::tma::CachePolicy;
use cuda_std::{cluster, grid, tma};

/// Brings the tiles of A and B of every step of every tile, as soon as a stage is empty, and waits
/// until the last ones are.
///
/// # Safety
///
/// By one thread of the block; the rest as [`multiply`](super::multiply).
#[inline(always)]
pub unsafe fn bring<T, A, B, G, W, const SUMS: usize>(
    work: W,
    ring: Ring<G>,
    stages: SharedTile<Rows64<T>>,
) where
    T: WarpGroup,
    A: Side<T>,
    B: Side<T>,
    G: Geometry,
    W: Work<T, G>,
{
    // SAFETY: the caller's promise.
    unsafe {
        // N.B. Two loops: a policy is no number that a warp shares, and one to evict as ever makes
        // copies slower than none, by a third where all blocks read one B.
        match G::GROUPS == 1 && work.reads_b_once() {
            true => bring_tiles::<T, A, B, G, W, SUMS, true>(work, ring, stages),
            false => bring_tiles::<T, A, B, G, W, SUMS, false>(work, ring, stages),
        }
    }
}

/// Does so, and has the L2 cache let B go first where `B_ONCE`.
///
/// # Safety
/// As [`bring`].
#[inline(always)]
unsafe fn bring_tiles<T, A, B, G, W, const SUMS: usize, const B_ONCE: bool>(
    mut work: W,
    mut ring: Ring<G>,
    stages: SharedTile<Rows64<T>>,
) where
    T: WarpGroup,
    A: Side<T>,
    B: Side<T>,
    G: Geometry,
    W: Work<T, G>,
{
    let tiles_b = tiles_b(SUMS);
    let [rows_a, rows_b] = work.box_rows::<A, B>();
    let rows = G::GROUPS as u32 * rows_a + tiles_b as u32 * rows_b;
    let bytes = rows * (Rows64::<T>::BYTES / 64);
    let policy = if B_ONCE { Some(CachePolicy::evict_first()) } else { None };
    // SAFETY: a stage is filled after all its readers have given it back; the maps' use is as the
    // caller promises.
    unsafe {
        while let Some(tile) = work.next() {
            let Place { row, col, slice, is_beside } = tile;
            let rank = cluster::block_rank() as usize;
            work.read();
            let (operands, steps) = (work.operands(), work.steps(slice));
            let [map_a, map_b] = [&*operands.maps[0], &*operands.maps[1]];
            // Sums of floats of 8 bits keep few bits, and what is lost goes by the order of K;
            // scales are read in that order.
            let mut step = match size_of::<T>() {
                1 => 0,
                _ => work.first_step(tile, steps, B::ALONG_K),
            };
            let (row, col) = (row as i32, col as i32);
            let (start, [batch_a, batch_b]) = (work.first_k(slice), work.numbers(slice));
            // Here, where the first copy is ready to start: so far nothing was read that the kernel
            // before this one may write. Behind the first tile it is over at once.
            grid::wait_for_grids();
            for _ in 0..steps {
                let k = (start + step * T::DEPTH) as i32;
                step = if step + 1 == steps { 0 } else { step + 1 };
                // Both stages of a pair at a time, so that memory is asked for neighbouring bytes
                // of a row at nearly one time; where the ring is too short for that, one.
                if G::STAGES >= 8 && ring.stage().is_multiple_of(2) {
                    ring.after().wait_empty();
                }
                ring.wait_empty();
                let full = ring.full();
                full.arrive_expect(bytes);
                let a = stages.add(ring.stage() * (G::GROUPS + tiles_b));
                let b = a.add(G::GROUPS);
                let of_a = |i| (a.add(i), place::<T, A>(row + 64 * i as i32, k, batch_a));
                let of_b = |i| (b.add(i), place::<T, B>(col + 64 * i as i32, k, batch_b));
                let all = (1 << G::CLUSTER) - 1;
                if G::CLUSTER == 1 || !is_beside {
                    for i in 0..G::GROUPS {
                        let (to, at) = of_a(i);
                        tma::load(to, map_a, at, full);
                    }
                    for i in 0..tiles_b / G::CLUSTER {
                        let (to, at) = of_b(rank * (tiles_b / G::CLUSTER) + i);
                        match (G::CLUSTER, policy) {
                            (1, Some(policy)) => tma::load_with_policy(to, map_b, at, full, policy),
                            (_, Some(policy)) => {
                                tma::load_multicast_with_policy(to, map_b, at, full, all, policy);
                            }
                            (1, None) => tma::load(to, map_b, at, full),
                            (_, None) => tma::load_multicast(to, map_b, at, full, all),
                        }
                    }
                } else {
                    // Here it is A that they share: a tile each, or one in turn.
                    if G::GROUPS == G::CLUSTER || ring.stage() % G::CLUSTER == rank {
                        let (to, at) = of_a(rank % G::GROUPS);
                        tma::load_multicast(to, map_a, at, full, all);
                    }
                    for i in 0..tiles_b {
                        let (to, at) = of_b(i);
                        tma::load(to, map_b, at, full);
                    }
                }
                ring.next();
            }
            // Behind the copies, which the groups wait for.
            if W::IS_ONE {
                write::prefetch::<T, G, SUMS>(operands, work.params(), tile);
            }
        }
        // The other blocks give stages back here, in shared memory that goes when the block does.
        for _ in 0..G::STAGES {
            ring.wait_empty();
            ring.next();
        }
    }
}

/// Coordinates of a box, the contiguous extent first.
#[inline(always)]
fn place<T, M: Side<T>>(outer: i32, k: i32, batch: i32) -> [i32; 3] {
    if M::ALONG_K { [k, outer, batch] } else { [outer, k, batch] }
}
