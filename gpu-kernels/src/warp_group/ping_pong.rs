//! Groups that take tiles in turn: one writes its sums while the other multiplies. CUTLASS calls
//! this ping-pong.
//!
//! Each group has all 128 rows of its tile, in two instructions for each 32 bytes of K. Stages come
//! in the order of tiles, so that a group goes past those of the other's; and since a barrier tells
//! one round from the next alone, it waits for a stage only when the other group has seen all those
//! before.

use super::ring::Ring;
use super::tiles::Place;
use super::write::{self, BoxOfC, Ways};
use super::{
    GROUP_ROWS, Geometry, Part, Rows64, Side, WarpGroup, Work, is_cleared, stage_bytes,
    sync_cleared,
};
use crate::{Epilogue, SharedTile, Sum};
use cuda_std::barrier::NamedBarrier;
use cuda_std::grid;
use cuda_std::wgmma::{self, Accumulate, Accumulator};

/// A group's part where groups take a block's tiles in turn, each all rows of one: as `consume` of
/// the module above has it, but for the turns.
///
/// # Safety
/// As there.
#[inline(always)]
pub unsafe fn consume<T, A, B, G, W, E, const SUMS: usize>(
    mut work: W,
    (epilogue, mut ring): (E, Ring<G>),
    (stages, c): (SharedTile<Rows64<T>>, SharedTile<BoxOfC>),
    group: usize,
) where
    T: WarpGroup,
    G: Geometry,
    W: Work<T, G>,
    E: Epilogue<T>,
    A: Side<T>,
    B: Side<T>,
    [T::Sum; SUMS]: Accumulator<T>,
{
    const { assert!(!G::IN_TURN || G::GROUPS == 2 && W::IS_ONE && !W::IS_DIRECT) };
    // SAFETY: a stage is read when its copies have arrived, and given back when the products that
    // read it are done; the maps' and C's use is as the caller promises.
    unsafe {
        let c = c.add(group * gemm_spec::C_BOXES);
        let stage_bytes = stage_bytes::<T, B, G, W, SUMS>() as u32;
        let (upper, lower) = (A::first(stages), A::first(stages.add(1)));
        let b = B::first(stages.add(G::GROUPS));
        if is_cleared(work.box_rows::<A, B>(), B::BOX) {
            sync_cleared::<G>();
        }
        // Again, and not kept from before.
        work.begin(2 * SUMS);
        // The first tile is the first group's.
        if group == 1 {
            if has_next(&work) {
                pass_turn(group);
            }
            skip(&mut work, &mut ring);
        }
        // N.B. Were it `while let`, ptxas would keep the place before in registers, too.
        while has_next(&work) {
            let Place { row, col, slice, .. } = work.next().unwrap_unchecked();
            // In two registers, and not in four, while the tile is multiplied.
            let [row_tile, col_tile] = [(row / ROWS) as u32, (col / 8) as u32];
            let steps = work.steps(slice);
            wait_for_turn(group);
            // Past the end of C, stages are passed on for the other blocks of the cluster.
            if row >= work.params().m {
                ring.pass(steps, group);
                if has_next(&work) {
                    pass_turn(group);
                }
                skip(&mut work, &mut ring);
                continue;
            }
            let mut sums = [[T::Sum::ZERO; SUMS]; 2];
            let mut step = 0;
            // N.B. As in the module above, one that runs at least once.
            loop {
                ring.wait_full();
                let further = ring.stage() as u32 * stage_bytes;
                let parts = [A::parts(upper.past(further)), A::parts(lower.past(further))];
                let start = if step == 0 { Accumulate::Start } else { Accumulate::Continue };
                multiply_stage::<T, A, B, SUMS>(&mut sums, parts, B::parts(b.past(further)), start);
                wgmma::commit_group();
                wgmma::wait_group::<1, _>(&mut sums);
                if step != 0 {
                    ring.before().release();
                }
                ring.next();
                step += 1;
                if step == steps {
                    break;
                }
            }
            // All stages before the next tile's have come: whoever waits for those waits for the
            // right round.
            if has_next(&work) {
                pass_turn(group);
            }
            wgmma::wait_group::<0, _>(&mut sums);
            ring.before().release();
            // Up to here only stages were read, whose copies are started when they may be.
            grid::wait_for_grids();
            let [row, col] = [u64::from(row_tile) * ROWS, u64::from(col_tile) * 8];
            let mut place = Place { row, col, slice, is_beside: false };
            let (operands, p) = (work.operands(), work.params());
            let ways = Ways {
                epilogues: true,
                boxes: work.has_box(place.row),
                word_boxes: false,
                meet: false,
                adds_brought: false,
                tile_cols: 0,
            };
            // One code for both halves, the upper one first; of a short one the compiler makes two.
            loop {
                write::wait_for_copies(warp());
                write::finish(epilogue, p, place, &mut sums[0]);
                write::write::<T, G, E, SUMS>(operands, p, place, (c, group), &sums[0], ways);
                if !place.row.is_multiple_of(ROWS) {
                    break;
                }
                sums[0] = sums[1];
                place.row += GROUP_ROWS as u64;
            }
            skip(&mut work, &mut ring);
        }
        write::wait_for_copies(warp());
    }
}

/// Rows of a tile.
const ROWS: u64 = 2 * GROUP_ROWS as u64;

/// The number of the thread's warp in its group, afresh.
#[inline(always)]
fn warp() -> u32 {
    write::thread_of_group() as u32 / 32
}

/// Whether there is a tile behind this one.
#[inline(always)]
fn has_next<T: WarpGroup, G: Geometry, W: Work<T, G>>(work: &W) -> bool {
    work.clone().next().is_some()
}

/// Goes past the other group's next tile, if there is one, and its stages.
#[inline(always)]
fn skip<T: WarpGroup, G: Geometry, W: Work<T, G>>(work: &mut W, ring: &mut Ring<G>) {
    if let Some(place) = work.next() {
        ring.skip(work.steps(place.slice));
    }
}

/// Starts the products of one stage, of the tile's upper 64 rows and of its lower ones.
///
/// # Safety
///
/// By all threads of the group, on tiles that have arrived.
#[inline(always)]
unsafe fn multiply_stage<T: WarpGroup, A: Side<T>, B: Side<T>, const SUMS: usize>(
    sums: &mut [[T::Sum; SUMS]; 2],
    a: [[Part<T, A>; 4]; 2],
    b: [Part<T, B>; 4],
    start: Accumulate,
) where
    [T::Sum; SUMS]: Accumulator<T>,
{
    // SAFETY: the caller's promise.
    unsafe {
        wgmma::fence(sums);
        for i in 0..4 {
            let start = if i == 0 { start } else { Accumulate::Continue };
            wgmma::multiply(&mut sums[0], a[0][i], b[i], start);
            wgmma::multiply(&mut sums[1], a[1][i], b[i], start);
        }
    }
}

/// Waits until the other group has started all products of the tile before.
///
/// # Safety
/// By all threads of the group, once for each [`pass_turn`] of the other.
#[inline(always)]
unsafe fn wait_for_turn(group: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match group {
            0 => NamedBarrier::<6, 256>.sync(),
            _ => NamedBarrier::<7, 256>.sync(),
        }
    }
}

/// Lets the other group go on with the tile behind this one, of which there is one.
///
/// # Safety
/// By all threads of the group.
#[inline(always)]
unsafe fn pass_turn(group: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match group {
            0 => NamedBarrier::<7, 256>.arrive(),
            _ => NamedBarrier::<6, 256>.arrive(),
        }
    }
}
