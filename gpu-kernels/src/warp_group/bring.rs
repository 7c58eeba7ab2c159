//! The thread that starts all copies of a block.

use super::ring::Ring;
use super::tiles::Place;
use super::{
    GROUP_ROWS, Geometry, ROW_BYTES, Rows64, Side, WarpGroup, Work, boxes_b, old, stage_bytes,
};
use crate::{Epilogue, SharedTile};
use cuda_std::tma::{CachePolicy, TensorMap};
use cuda_std::{cluster, grid, misc, thread, tma};
use gemm_spec::{Reads, order, shared_box_rows};

/// Steps of its first tile of which a block of one group has B brought into the L2 cache while the
/// kernel before this one ends: most of a ring where memory is all that counts.
const fn steps_ahead<G: Geometry>() -> usize {
    if G::PARTS > 1 { 8 } else { 2 }
}

/// Has B of the first steps brought into the L2 cache, and of few rows the blocks' parts of A, or A
/// of few columns, by a warp that starts no copies, for the one that does has more to get ready.
/// That is no read: what is written meanwhile is written there.
///
/// # Safety
///
/// By one thread of the block, whose work has begun; the rest as [`bring`].
#[inline(always)]
pub unsafe fn bring_near<T, A, B, G, W, const SUMS: usize>(mut work: W)
where
    T: WarpGroup,
    A: Side<T>,
    B: Side<T>,
    G: Geometry,
    W: Work<T, G>,
{
    if work.params().reads != Reads::InOrder as u32 {
        return;
    }
    if let Some(tile) = work.next() {
        let mut k = StepsOfK::of::<T, B, G, W>(&work, tile);
        let (numbers, rank) = (work.numbers(tile.slice), cluster::block_rank() as usize);
        // SAFETY: the caller's promise.
        unsafe {
            let [a, b, _] = work.operands().maps;
            if work.params().n <= 2 * SUMS as u64 {
                // Of one column of tiles it is A that is read once.
                for _ in 0..steps_ahead::<G>() {
                    tma::prefetch(&*a, place::<T, A>(tile.row as i32, k.next(), numbers[0]));
                }
                return;
            }
            for _ in 0..steps_ahead::<G>() {
                prefetch_b::<T, B, G, SUMS>(&*b, tile, (k.next(), numbers[1]), rank);
            }
            if G::PARTS > 1 {
                // A part of A for all blocks, which else want each step's all at one time; no more
                // of a long K than of B, since others wait for this warp.
                for i in 0..steps_ahead::<G>() as u32 {
                    let step = i * thread::grid_dim_x() + thread::block_idx_x();
                    let (row, k) = (tile.row as i32, step * T::DEPTH);
                    if u64::from(k) < work.params().k {
                        tma::prefetch(&*a, place::<T, A>(row, k as i32, numbers[0]));
                    }
                }
            }
        }
    }
}

/// Brings the tiles of A and B of every step of every tile, as soon as a stage is empty, and waits
/// until the last ones are.
///
/// # Safety
///
/// By one thread of the block; the rest as [`multiply`](super::multiply).
#[inline(always)]
pub unsafe fn bring<T, A, B, G, W, E, const SUMS: usize>(
    work: W,
    ring: Ring<G>,
    stages: SharedTile<Rows64<T>>,
) where
    T: WarpGroup,
    A: Side<T>,
    B: Side<T>,
    G: Geometry,
    W: Work<T, G>,
    E: Epilogue<T>,
{
    // SAFETY: the caller's promise.
    unsafe {
        // N.B. Two loops: a policy is no number that a warp shares, and one to evict as ever makes
        // copies slower than none, by a third where all blocks read one B.
        match G::GROUPS == 1 && work.reads_b_once() {
            true => bring_tiles::<T, A, B, G, W, E, SUMS, true>(work, ring, stages),
            false => bring_tiles::<T, A, B, G, W, E, SUMS, false>(work, ring, stages),
        }
    }
}

/// Does so, and has the L2 cache let B go first where `B_ONCE`.
///
/// # Safety
/// As [`bring`].
#[inline(always)]
unsafe fn bring_tiles<T, A, B, G, W, E, const SUMS: usize, const B_ONCE: bool>(
    mut work: W,
    mut ring: Ring<G>,
    stages: SharedTile<Rows64<T>>,
) where
    T: WarpGroup,
    A: Side<T>,
    B: Side<T>,
    G: Geometry,
    W: Work<T, G>,
    E: Epilogue<T>,
{
    let [rows_a, rows_b] = work.box_rows::<A, B>();
    let is_halved = work.halves_boxes::<A>();
    let rows_a = if is_halved { HALF } else { rows_a };
    let rows_b = boxes_b::<T, B>(SUMS) as u32 * rows_b;
    let stage_bytes = stage_bytes::<T, B, G, W, SUMS>();
    let of_tiles = stage_bytes / G::TOGETHER;
    let policy = if B_ONCE { Some(CachePolicy::evict_first()) } else { None };
    let reads = work.params().reads;
    // SAFETY: a stage is filled after all its readers have given it back; the maps' use is as the
    // caller promises.
    unsafe {
        while let Some(tile) = work.next() {
            work.read();
            let operands = work.operands();
            let mut k = StepsOfK::of::<T, B, G, W>(&work, tile);
            let steps = k.steps;
            let rank = cluster::block_rank() as usize;
            let maps = [&*operands.maps[0], &*operands.maps[1]];
            let numbers = work.numbers(tile.slice);
            let stages = stages.cast::<u8>();
            let from_row = |row| boxes_a::<T, G, W>(&work, row);
            let of_halves = if is_halved { from_row(tile.row + u64::from(HALF)) } else { 0 };
            let boxes_a = [from_row(tile.row), of_halves];
            let rows = (boxes_a[0] + boxes_a[1]) * rows_a + rows_b;
            let bytes = rows * (G::TOGETHER * ROW_BYTES) as u32;
            let copies = Copies { maps, stages, stage_bytes, tile, boxes_a, numbers, rank, policy };
            // Here, where the first copy is ready to start: so far nothing was read that the kernel
            // before this one may write. Behind the first tile it is over at once. Who reads at
            // once leaves it to the groups that multiply, which wait before they touch C.
            if reads != Reads::AtOnce as u32 {
                grid::wait_for_grids();
            }
            for _ in 0..steps {
                // Both stages of a pair at a time, so that memory is asked for neighbouring bytes
                // of a row at nearly one time; where the ring is too short for that, one.
                if G::STAGES >= 8 && ring.stage().is_multiple_of(2) {
                    ring.after().wait_empty();
                }
                ring.wait_empty();
                ring.full().arrive_expect(bytes);
                let k = k.next();
                copies.of_a::<T, A, G>(ring, k);
                copies.of_b::<T, B, G, SUMS>(ring, k);
                if G::TOGETHER > 1 {
                    for i in 1..G::TOGETHER {
                        let stages = stages.add(i * of_tiles);
                        let (copies, k) =
                            (Copies { stages, ..copies }, k + (i as u32 * T::DEPTH) as i32);
                        copies.of_a::<T, A, G>(ring, k);
                        copies.of_b::<T, B, G, SUMS>(ring, k);
                    }
                }
                ring.next();
            }
            // Behind the copies, which the groups wait for.
            if W::IS_ONE && !E::IS_LEAN {
                old::prefetch::<T, G, SUMS>(operands, work.params(), tile);
            }
        }
        // The other blocks give stages back here, in shared memory that goes when the block does.
        // Of many stages one code, which is run once: an instruction cache has not room for all.
        let stages = G::STAGES as u32;
        for _ in 0..if stages < 8 { stages } else { misc::afresh(stages) } {
            ring.wait_empty();
            ring.next();
        }
    }
}

/// Rows of a box of A that is one of two of 64.
const HALF: u32 = 32;

/// Boxes of A that are brought for a tile from that row on: of one product those that have rows,
/// since others take the copy engine longer than these, and nobody reads them; but all or none
/// where a group reads all.
#[inline(always)]
fn boxes_a<T: WarpGroup, G: Geometry, W: Work<T, G>>(work: &W, row: u64) -> u32 {
    let all = G::GROUPS as u64;
    let boxes = match W::IS_ONE {
        true => work.params().m.saturating_sub(row).div_ceil(GROUP_ROWS as u64),
        false => all,
    };
    match G::IN_TURN && boxes > 0 {
        true => all as u32,
        false => boxes.min(all) as u32,
    }
}

/// The steps of a tile, which may begin anywhere and goes around.
#[derive(Clone, Copy)]
struct StepsOfK {
    /// Where the slice's K starts.
    start: u32,
    /// From one step to the next.
    each: u32,
    step: u32,
    steps: u32,
    /// Whether steps are counted from the last one back.
    is_turned: bool,
}

impl StepsOfK {
    /// Those of the work's tile, which is the last that it has come to.
    #[inline(always)]
    fn of<T: WarpGroup, B: Side<T>, G: Geometry, W: Work<T, G>>(work: &W, tile: Place) -> Self {
        let steps = work.steps(tile.slice) / G::TOGETHER as u32;
        // Sums of floats of 8 bits keep few bits, and what is lost goes by the order of K; scales
        // are read in that order.
        let step = match size_of::<T>() {
            1 => 0,
            _ => work.first_step(tile, steps, B::ALONG_K),
        };
        // Elsewhere the loop of who brings is what others wait for, and its tiles share little.
        let is_turned = G::GROUPS == 2 && T::TURNS && work.is_turned();
        let each = work.next_k() * G::TOGETHER as u32;
        StepsOfK { start: work.first_k(tile.slice), each, step, steps, is_turned }
    }

    /// The k at which the step begins; goes on to the next.
    #[inline(always)]
    fn next(&mut self) -> i32 {
        let step = if self.is_turned { self.steps - 1 - self.step } else { self.step };
        let k = self.start + step * self.each;
        self.step = if self.step + 1 == self.steps { 0 } else { self.step + 1 };
        k as i32
    }
}

/// What copies of a tile's steps have in common.
#[derive(Clone, Copy)]
struct Copies<'a> {
    maps: [&'a TensorMap<3>; 2],
    stages: SharedTile<u8>,
    stage_bytes: usize,
    tile: Place,
    /// Boxes of A that the tile has rows of, and where they are halves the second ones of 64 rows.
    boxes_a: [u32; 2],
    /// Of the slice's matrices in the maps.
    numbers: [i32; 2],
    /// Of the block in its cluster.
    rank: usize,
    policy: Option<CachePolicy>,
}

impl Copies<'_> {
    /// The stage's memory.
    ///
    /// # Safety
    /// The ring's stages are there.
    #[inline(always)]
    unsafe fn stage<G: Geometry>(&self, ring: Ring<G>) -> SharedTile<u8> {
        // SAFETY: the caller's promise.
        unsafe { self.stages.add(ring.stage() * self.stage_bytes) }
    }

    /// Starts this block's copies of a step's tile of A into the stage.
    ///
    /// # Safety
    /// As [`bring`]; the stage is empty.
    #[inline(always)]
    unsafe fn of_a<T, A: Side<T>, G: Geometry>(&self, ring: Ring<G>, k: i32) {
        let Copies { tile: Place { row, is_beside, .. }, boxes_a, rank, .. } = *self;
        let (row, full) = (row as i32, ring.full());
        if G::IN_STEP {
            let share = Share::of_a::<G>(rank);
            // SAFETY: the caller's promise.
            return unsafe { self.bring_share::<T, A, G>(ring, share, (row, k)) };
        }
        // SAFETY: the caller's promise.
        unsafe {
            let a = self.stage(ring).cast::<Rows64<T>>();
            let at = |i| place::<T, A>(row + 64 * i as i32, k, self.numbers[0]);
            let at_second = |i| place::<T, A>(row + (64 * i as i32 + 32), k, self.numbers[0]);
            let second = |i| a.add(i).cast::<u8>().add(HALF as usize * ROW_BYTES);
            if !G::SHARES || !is_beside {
                for i in 0..G::GROUPS {
                    if (i as u32) < boxes_a[0] {
                        tma::load(a.add(i), self.maps[0], at(i), full);
                    }
                }
                if boxes_a[1] > 0 {
                    for i in 0..G::GROUPS {
                        if (i as u32) < boxes_a[1] {
                            tma::load(second(i), self.maps[0], at_second(i), full);
                        }
                    }
                }
            } else if G::GROUPS == G::CLUSTER || ring.stage() % G::CLUSTER == rank {
                // Here it is A that they share: a tile each, or one in turn.
                let i = rank % G::GROUPS;
                if (i as u32) < boxes_a[0] {
                    tma::load_multicast(a.add(i), self.maps[0], at(i), full, all::<G>());
                }
                if (i as u32) < boxes_a[1] {
                    let at = at_second(i);
                    tma::load_multicast(second(i), self.maps[0], at, full, all::<G>());
                }
            }
        }
    }

    /// Starts the copies of what this block brings of a step's tile, from there on, for all that
    /// read it.
    ///
    /// # Safety
    /// As [`bring`]; the stage is empty.
    #[inline(always)]
    unsafe fn bring_share<T, M: Side<T>, G: Geometry>(
        &self,
        ring: Ring<G>,
        share: Share,
        (outer, k): (i32, i32),
    ) {
        let (map, batch) = (self.maps[share.operand], self.numbers[share.operand]);
        // SAFETY: the caller's promise.
        unsafe {
            let tile = self.stage(ring).add(share.operand * G::GROUPS * GROUP_ROWS * ROW_BYTES);
            for i in 0..share.each() {
                let (row, at) = share.copy::<T, M>(i, (outer, k, batch));
                // Of A's boxes those that are there.
                if share.operand == 1 || ((row / GROUP_ROWS) as u32) < self.boxes_a[0] {
                    let (to, full) = (tile.add(row * ROW_BYTES), ring.full());
                    match self.policy {
                        Some(policy) if share.operand == 1 => {
                            let blocks = share.readers;
                            tma::load_multicast_with_policy(to, map, at, full, blocks, policy)
                        }
                        _ => tma::load_multicast(to, map, at, full, share.readers),
                    }
                }
            }
        }
    }

    /// The same of B.
    ///
    /// # Safety
    /// As [`Self::of_a`].
    #[inline(always)]
    unsafe fn of_b<T, B: Side<T>, G: Geometry, const SUMS: usize>(&self, ring: Ring<G>, k: i32) {
        let Copies { tile: Place { col, is_beside, .. }, rank, policy, .. } = *self;
        let (col, full) = (col as i32, ring.full());
        let (map, boxes) = (self.maps[1], boxes_b::<T, B>(SUMS));
        if G::IN_STEP {
            let share = Share::of_b::<G>(rank, boxes);
            // SAFETY: the caller's promise.
            return unsafe { self.bring_share::<T, B, G>(ring, share, (col, k)) };
        }
        // SAFETY: the caller's promise.
        unsafe {
            let b = self.stage(ring).add(G::GROUPS * GROUP_ROWS * ROW_BYTES);
            let at = |i: usize| place::<T, B>(col + (i * B::BOX) as i32, k, self.numbers[1]);
            let to = |i: usize| b.add(i * B::BOX * ROW_BYTES);
            if !G::SHARES || !is_beside {
                let (first, of_each) = boxes_of_b::<G>(rank, boxes, false);
                let load = |i: usize| {
                    let (to, at) = (to(i), at(i));
                    match (G::SHARES, policy) {
                        (false, Some(policy)) => tma::load_with_policy(to, map, at, full, policy),
                        (true, Some(policy)) => {
                            let all = all::<G>();
                            tma::load_multicast_with_policy(to, map, at, full, all, policy)
                        }
                        (false, None) => tma::load(to, map, at, full),
                        (true, None) => tma::load_multicast(to, map, at, full, all::<G>()),
                    }
                };
                for i in 0..of_each {
                    load(first + i);
                }
                // Of an odd number the last one in turn.
                if G::SHARES && !boxes.is_multiple_of(2) && ring.stage() % 2 == rank {
                    load(boxes - 1);
                }
            } else {
                for i in 0..boxes {
                    tma::load(to(i), map, at(i), full);
                }
            }
        }
    }
}

/// The first of a block's boxes of a step's tile of B, and how many there are, of so many in all:
/// but for the last of an odd number that a cluster shares.
#[inline(always)]
fn boxes_of_b<G: Geometry>(rank: usize, boxes: usize, is_beside: bool) -> (usize, usize) {
    match G::SHARES && !is_beside {
        true => (rank * (boxes / G::CLUSTER), boxes / G::CLUSTER),
        false => (0, boxes),
    }
}

/// Has a block's boxes of a step's tile of B brought into the L2 cache, from there along K on, of
/// the matrix of that number in B's map.
///
/// # Safety
/// The map's use is as [`bring`] has it.
#[inline(always)]
unsafe fn prefetch_b<T: WarpGroup, B: Side<T>, G: Geometry, const SUMS: usize>(
    map: &TensorMap<3>,
    tile: Place,
    (k, batch): (i32, i32),
    rank: usize,
) {
    let boxes = boxes_b::<T, B>(SUMS);
    if G::IN_STEP {
        let share = Share::of_b::<G>(rank, boxes);
        for i in 0..share.each() {
            let (_, at) = share.copy::<T, B>(i, (tile.col as i32, k, batch));
            // SAFETY: the caller's promise.
            unsafe { tma::prefetch(map, at) };
        }
        return;
    }
    let (first, of_each) = boxes_of_b::<G>(rank, boxes, tile.is_beside);
    for i in first..first + of_each {
        let col = tile.col as i32 + (i * B::BOX) as i32;
        // SAFETY: the caller's promise.
        unsafe { tma::prefetch(map, place::<T, B>(col, k, batch)) };
    }
}

/// What a block brings of a tile that several of its cluster read.
#[derive(Clone, Copy)]
struct Share {
    /// 0 of A, 1 of B.
    operand: usize,
    /// Boxes of 64 rows of the tile.
    boxes: usize,
    /// The blocks that bring it for each other, and which of them this one is.
    blocks: usize,
    number: usize,
    /// Who reads it.
    readers: u16,
}

impl Share {
    /// Of the tile of A that the blocks beside this one read too.
    #[inline(always)]
    fn of_a<G: Geometry>(rank: usize) -> Self {
        let [_, across] = const { order::cluster_tiles(G::CLUSTER as u32) };
        let (blocks, first) = (across as usize, rank - rank % across as usize);
        let readers = ((1 << blocks) - 1) << first;
        Share { operand: 0, boxes: G::GROUPS, blocks, number: rank - first, readers }
    }

    /// Of the tile of B that the blocks above and below this one read too.
    #[inline(always)]
    fn of_b<G: Geometry>(rank: usize, boxes: usize) -> Self {
        let [down, across] = const { order::cluster_tiles(G::CLUSTER as u32) };
        let (blocks, number) = (down as usize, rank / across as usize);
        let readers = (all::<G>() / ((1 << across) - 1)) << (rank % across as usize);
        Share { operand: 1, boxes, blocks, number, readers }
    }

    /// Rows of a copy.
    #[inline(always)]
    fn rows(self) -> usize {
        shared_box_rows(self.boxes, self.blocks)
    }

    /// This block's copies.
    #[inline(always)]
    fn each(self) -> usize {
        self.boxes * GROUP_ROWS / self.rows() / self.blocks
    }

    /// To which of the tile's rows copy number `i` goes, and from where: rows follow each other
    /// box by box, along K or along the extent that C keeps.
    #[inline(always)]
    fn copy<T, M: Side<T>>(
        self,
        i: usize,
        (outer, k, batch): (i32, i32, i32),
    ) -> (usize, [i32; 3]) {
        let row = (self.number * self.each() + i) * self.rows();
        let at = match M::ALONG_K {
            true => place::<T, M>(outer + row as i32, k, batch),
            false => {
                let of_box = row / GROUP_ROWS * GROUP_ROWS;
                place::<T, M>(outer + of_box as i32, k + (row - of_box) as i32, batch)
            }
        };
        (row, at)
    }
}

/// All blocks of a cluster.
const fn all<G: Geometry>() -> u16 {
    (1 << G::CLUSTER) - 1
}

/// Coordinates of a box, the contiguous extent first.
#[inline(always)]
fn place<T, M: Side<T>>(outer: i32, k: i32, batch: i32) -> [i32; 3] {
    if M::ALONG_K { [k, outer, batch] } else { [outer, k, batch] }
}
