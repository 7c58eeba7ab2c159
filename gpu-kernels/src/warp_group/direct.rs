//! Operands whose rows begin anywhere: every eighth row has a tensor map of its own.
//!
//! Eight rows further down is a multiple of 16 bytes, so that a map of every eighth row there is,
//! if it begins with the chunk of 16 bytes in which the first of them does. The copy engine brings
//! boxes of eight rows; who multiplies cuts each row out of its chunks, a thread one, and puts it
//! in the place and the order in which the copy engine would.
//!
//! Eight chunks of a row are in nine of memory. Where rows lie along K, the first of the nine is
//! the last of the step before, which the thread has kept, and at a tile's first step one that it
//! reads by itself; else a box has one chunk more than the tiles beside each other. (Boxes of nine
//! chunks for each tile take the copy engine 1.6 times as long as of eight: rows then begin
//! anywhere in the lines of shared memory, too.)

use super::ring::Ring;
use super::tiles::Place;
use super::{GROUP_ROWS, Geometry, Rows64, Side, WarpGroup, Work};
use crate::pack::{Words, cut};
use crate::{SharedTile, k_of};
use core::marker::PhantomData;
use cuda_std::barrier::NamedBarrier;
use cuda_std::tma::TensorMap;
use cuda_std::{fence, grid, misc, thread, tma};
use gemm_spec::{DIRECT_FURTHER_BYTES, DIRECT_ROWS};

/// Bytes of a chunk.
const CHUNK: u32 = 16;
/// Chunks of a tile's row.
const CHUNKS: usize = 8;
/// Rows of which each has a map of its own.
const CLASSES: u32 = DIRECT_ROWS as u32;
/// Rows of a class in a tile.
const OF_CLASS: u32 = GROUP_ROWS as u32 / CLASSES;
/// Warps that bring: a box takes the thread that starts its copy longer than the copy engine.
pub const WRITERS: u32 = 4;

/// The maps of an operand: of its rows 0, 8, 16 and so on, of its rows 1, 9, and so on.
pub type RowMaps = [TensorMap<3>; DIRECT_ROWS];

/// The maps of A and of B.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub struct Maps {
    /// A's.
    pub a: RowMaps,
    /// B's.
    pub b: RowMaps,
}

/// Bytes of an operand's rows in a stage, as the copy engine brings them for so many tiles.
const fn raw_bytes(along_k: bool, tiles: usize) -> usize {
    const { assert!(DIRECT_FURTHER_BYTES == 2 * GROUP_ROWS * CHUNK as usize) };
    GROUP_ROWS * if along_k { CHUNKS * tiles } else { CHUNKS * tiles + 1 } * CHUNK as usize
}

/// Brings the rows of A and B of every step of every tile, as soon as a stage is empty.
///
/// # Safety
///
/// By one thread of each of the [`WRITERS`]; stages have [`DIRECT_FURTHER_BYTES`] more than their
/// tiles, of A and of B; the rest as [`multiply`](super::multiply).
#[inline(always)]
pub unsafe fn bring_rows<T, A, B, G, W>(
    mut work: W,
    mut ring: Ring<G>,
    stages: SharedTile<u8>,
    (tiles_b, stage_bytes): (usize, usize),
) where
    T: WarpGroup,
    A: Side<T>,
    B: Side<T>,
    G: Geometry,
    W: Work<T, G>,
{
    let of_a = raw_bytes(A::ALONG_K, G::GROUPS);
    // SAFETY: a stage is filled after all its readers have given it back; the maps' use is as the
    // caller promises.
    unsafe {
        let maps = &*work.row_maps();
        // Nothing was read so far that the kernel before this one may write.
        grid::wait_for_grids();
        while let Some(place) = work.next() {
            let (mut a, mut b) = rows_of::<T, A, B, G, W>(&work, place);
            for _ in 0..work.steps(place.slice) {
                ring.wait_empty();
                ring.full().arrive_expect(a.bytes(G::GROUPS) + b.bytes(tiles_b));
                let rows = stages.add(ring.stage() * stage_bytes);
                a.bring(&maps.a, G::GROUPS, rows, ring);
                b.bring(&maps.b, tiles_b, rows.add(of_a), ring);
                a.go_on();
                b.go_on();
                ring.next();
            }
        }
    }
}

/// What a thread knows of the row that it cuts out of its chunks, at all steps of a tile.
#[derive(Clone, Copy)]
pub struct OwnRow {
    /// Where its second chunk is in a stage.
    from: u32,
    /// The bits of the number of a chunk from there on which the copy engine's swizzle flips.
    flips: u32,
    /// Its number in the tile.
    row: u32,
    /// Bytes in front of it.
    shift: u32,
    /// Its k in a step, where that goes on from row to row; else 0, or behind all of K where there
    /// is no such row.
    k: u32,
    /// Its first chunk, which comes with the step before, if it lies along K.
    head: Option<Words>,
}

/// The rows of a thread: one of the tile whose number is that of its half group, and one of the
/// tile as many further as there are half groups, if there is that.
pub type OwnRows = [OwnRow; 2];

impl OwnRow {
    /// No row.
    pub const NONE: Self = OwnRow { from: 0, flips: 0, row: 0, shift: 0, k: 0, head: None };
}

/// Those rows, of A or B, in a tile of the block from `place` on.
///
/// # Safety
/// By a thread of the groups that multiply; A and B may be read.
#[inline(always)]
pub unsafe fn own_rows<T, A, B, G, W>(work: &W, place: Place, tiles_b: usize) -> OwnRows
where
    T: WarpGroup,
    A: Side<T>,
    B: Side<T>,
    G: Geometry,
    W: Work<T, G>,
{
    let (a, b) = rows_of::<T, A, B, G, W>(work, place);
    let of_a = raw_bytes(A::ALONG_K, G::GROUPS) as u32;
    let k = k_of(work.params(), place.slice);
    [0, 1].map(|i| {
        let tile = tile_of::<G>(i);
        // SAFETY: the caller's promise.
        unsafe {
            match tile.checked_sub(G::GROUPS) {
                None => a.own(tile, G::GROUPS, 0, k),
                Some(tile) if tile < tiles_b => b.own(tile, tiles_b, of_a, k),
                _ => OwnRow::NONE,
            }
        }
    })
}

/// The number of the tile in which a thread has its row of that number.
#[inline(always)]
fn tile_of<G: Geometry>(i: usize) -> usize {
    let (half, ..) = row_of_thread();
    half as usize + 2 * G::GROUPS * i
}

/// Whether a thread has a row of that number, where a stage has so many tiles.
#[inline(always)]
fn has<G: Geometry>(i: usize, tiles: usize) -> bool {
    2 * G::GROUPS * (i + 1) <= tiles || tile_of::<G>(i) < tiles
}

/// Makes a stage of rows, that have come in chunks, one of `tiles`: a thread a row or two. So much
/// of K is left; what lies behind it is another slice's, or nothing.
///
/// # Safety
/// By all threads of the groups that multiply; the stage is full.
#[inline(always)]
pub unsafe fn settle<G: Geometry>(
    stage: SharedTile<u8>,
    tiles: usize,
    own: &mut OwnRows,
    k_left: u64,
) {
    let mut chunks = [[[0; 4]; CHUNKS + 1]; 2];
    // SAFETY: the caller's promise: rows are overwritten when all of them have been read.
    unsafe {
        for (i, own) in own.iter_mut().enumerate() {
            if has::<G>(i, tiles) && u64::from(own.k) < k_left {
                // All of them before the first is used.
                let [first, further @ ..] = &mut chunks[i];
                *further = core::array::from_fn(|c| own.chunk(stage, c));
                *first = match own.head {
                    Some(head) => head,
                    None => own.before(stage),
                };
                own.head = own.head.map(|_| further[CHUNKS - 1]);
            }
        }
        sync_all::<G>();
        for (i, own) in own.iter().enumerate() {
            if has::<G>(i, tiles) {
                let tile: SharedTile<Rows64<u16>> = stage.cast();
                let tile = tile.add(tile_of::<G>(i));
                let first = tile.element(own.row, 0).cast::<u8>();
                for c in 0..CHUNKS {
                    let words = cut([chunks[i][c], chunks[i][c + 1]], own.shift);
                    // As the swizzle has them.
                    let to = first.flip(CHUNK as usize * c);
                    to.cast::<u128>().write(core::mem::transmute::<[u32; 4], u128>(words));
                }
            }
        }
        fence::async_shared();
        sync_all::<G>();
    }
}

impl OwnRow {
    /// A chunk, from the second on.
    ///
    /// # Safety
    /// As [`settle`].
    #[inline(always)]
    unsafe fn chunk(&self, stage: SharedTile<u8>, number: usize) -> Words {
        let further = self.from + CHUNK * (number as u32 ^ self.flips);
        // SAFETY: the caller's promise.
        unsafe { stage.add(further as usize).cast::<u32>().read_words() }
    }

    /// The first chunk, where it is in the stage.
    ///
    /// # Safety
    /// As [`settle`].
    #[inline(always)]
    unsafe fn before(&self, stage: SharedTile<u8>) -> Words {
        // SAFETY: the caller's promise.
        unsafe { stage.add((self.from - CHUNK) as usize).cast::<u32>().read_words() }
    }
}

/// Waits for all threads of the groups that multiply.
///
/// # Safety
/// By all of them.
#[inline(always)]
unsafe fn sync_all<G: Geometry>() {
    const { assert!(G::GROUPS <= 2) };
    // SAFETY: the caller's promise.
    unsafe {
        match G::GROUPS {
            1 => NamedBarrier::<5, 128>.sync(),
            _ => NamedBarrier::<5, 256>.sync(),
        }
    }
}

/// The half group, and the class of the thread's row, and its number in that.
///
/// Of eight threads that read or write at one time, no two have the same number, whose rows begin
/// in the same banks where they come from, nor the same class, whose rows do so in the tile.
#[inline(always)]
fn row_of_thread() -> (u32, u32, u32) {
    // Behind the group that brings.
    let thread = misc::afresh(thread::thread_idx_x()) - 128;
    let (half, thread) = (thread / GROUP_ROWS as u32, thread % GROUP_ROWS as u32);
    (half, thread % CLASSES, (thread + thread / CLASSES) % OF_CLASS)
}

/// A's and B's rows of a tile.
#[inline(always)]
fn rows_of<T, A, B, G, W>(
    work: &W,
    Place { row, col, slice, .. }: Place,
) -> (Rows<T, A>, Rows<T, B>)
where
    T: WarpGroup,
    A: Side<T>,
    B: Side<T>,
    G: Geometry,
    W: Work<T, G>,
{
    let p = work.params();
    let [a, b] = work.sources();
    // Slices are parts of K, or one matrix below the other.
    let (first_k, batch) = (work.first_k(slice), slice * p.slices.map_batch);
    let end_k = first_k + k_of(p, slice) as u32;
    let rows = |along_k, outer: u64, bytes_to_next: i64| {
        let (of_matrix, end) = if along_k { (outer, outer as u32) } else { (p.k, end_k) };
        let further = if bytes_to_next == 0 { 0 } else { batch * of_matrix as u32 };
        (further, further + end)
    };
    let of_a = rows(A::ALONG_K, p.m, p.slices.a);
    let of_b = rows(B::ALONG_K, p.n, p.slices.b);
    (
        Rows::new(a, (row as u32, first_k), of_a, (p.a_row_stride, p.a_col_stride)),
        Rows::new(b, (col as u32, first_k), of_b, (p.b_col_stride, p.b_row_stride)),
    )
}

/// An operand's rows of a step, along the extent in which it is contiguous.
struct Rows<T, S> {
    operand: *const T,
    /// Elements from a row to the next.
    pitch: i64,
    /// The first row, and the first column.
    row: u32,
    col: u32,
    /// The row behind the last.
    end: u32,
    side: PhantomData<S>,
}

impl<T: WarpGroup, S: Side<T>> Rows<T, S> {
    /// Those of a tile's first step, of the matrix or slice whose rows are those from `further` to
    /// `end`.
    #[inline(always)]
    fn new(
        operand: *const T,
        (outer, k): (u32, u32),
        (further, end): (u32, u32),
        (outer_stride, k_stride): (i64, i64),
    ) -> Self {
        let (row, col, pitch) = match S::ALONG_K {
            true => (outer, k, outer_stride),
            false => (k, outer, k_stride),
        };
        Rows { operand, pitch, row: further + row, col, end, side: PhantomData }
    }

    /// The number among boxes of every eighth row of the first that is not before the tile's.
    #[inline(always)]
    fn first_of(&self, class: u32) -> u32 {
        (self.row + CLASSES - 1 - class) / CLASSES
    }

    /// Calls `with` the class of each box that a warp brings for so many tiles beside each other,
    /// its first row's number in the class, where it goes to, and its bytes. Boxes of rows that
    /// there are not are left out.
    #[inline(always)]
    fn for_boxes(&self, tiles: usize, mut with: impl FnMut(u32, u32, usize, u32)) {
        let (tiles, size) = match S::ALONG_K {
            true => (tiles, raw_bytes(true, 1)),
            false => (1, raw_bytes(false, tiles)),
        };
        let bytes = size / CLASSES as usize;
        let warp = thread::thread_idx_x() / 32;
        for i in 0..CLASSES / WRITERS {
            let class = warp * (CLASSES / WRITERS) + i;
            for tile in 0..tiles {
                let first = self.first_of(class) + OF_CLASS * tile as u32;
                if CLASSES * first + class < self.end {
                    with(class, first, size * tile + bytes * class as usize, bytes as u32);
                }
            }
        }
    }

    /// Bytes of those boxes.
    #[inline(always)]
    fn bytes(&self, tiles: usize) -> u32 {
        let mut sum = 0;
        self.for_boxes(tiles, |_, _, _, bytes| sum += bytes);
        sum
    }

    /// Starts their copies.
    ///
    /// # Safety
    /// As [`bring_rows`]; the stage is empty.
    #[inline(always)]
    unsafe fn bring<G: Geometry>(
        &self,
        maps: &RowMaps,
        tiles: usize,
        stage: SharedTile<u8>,
        ring: Ring<G>,
    ) {
        // Of rows along K the first chunk was there at the step before.
        let col = self.col as i32 + if S::ALONG_K { (CHUNK / 2) as i32 } else { 0 };
        self.for_boxes(tiles, |class, first, to, _| {
            // SAFETY: the caller's promise; there are so many classes.
            unsafe {
                let map = &*maps.as_ptr().add(class as usize);
                tma::load(stage.add(to), map, [col, first as i32, 0], ring.full());
            }
        });
    }

    /// Goes on to the next step.
    #[inline(always)]
    fn go_on(&mut self) {
        match S::ALONG_K {
            true => self.col += T::DEPTH,
            false => self.row += T::DEPTH,
        }
    }

    /// What a thread knows of its row of a tile, of so many beside each other, before which a stage
    /// has `further` bytes, and of so much of K.
    ///
    /// # Safety
    /// As [`own_rows`].
    #[inline(always)]
    unsafe fn own(&self, tile: usize, tiles: usize, further: u32, k: u64) -> OwnRow {
        let (_, class, number) = row_of_thread();
        let (in_class, row) =
            (OF_CLASS * class + number, CLASSES * (self.first_of(class) + number));
        let row = row + class - self.row;
        // Eight rows further on it is the same.
        let down = class.wrapping_mul(2 * self.pitch as u32);
        let shift = (self.operand as u32).wrapping_add(down) % CHUNK;
        let (from, flips, k, head) = match S::ALONG_K {
            // Eight rows of 128 bytes are a pattern.
            true => {
                let from = raw_bytes(true, tile) as u32 + in_class * CHUNKS as u32 * CHUNK;
                let of_operand = self.row + GROUP_ROWS as u32 * tile as u32 + row;
                // SAFETY: the caller's promise.
                let head = unsafe { self.head(of_operand, shift, k) };
                (from, number, if of_operand < self.end { 0 } else { u32::MAX }, Some(head))
            }
            false => {
                let pitch = raw_bytes(false, tiles) as u32 / GROUP_ROWS as u32;
                let chunk = (CHUNKS * tile) as u32 + 1;
                (in_class * pitch + CHUNK * chunk, 0, row, None)
            }
        };
        OwnRow { from: further + from, flips, row, shift, k, head }
    }

    /// The chunk in which a row of a tile along K begins. What is in it before the row is of no
    /// interest; what lies behind K is 0.
    ///
    /// # Safety
    /// As [`own_rows`].
    #[inline(always)]
    unsafe fn head(&self, row: u32, shift: u32, k: u64) -> Words {
        let (before, mut words) = (shift / 2, [0; 4]);
        if row >= self.end {
            return words;
        }
        let start = i64::from(row) * self.pitch + i64::from(self.col);
        let start = self.operand.wrapping_offset(start as isize).cast::<u16>();
        // SAFETY: the caller's promise. A chunk lies in memory as a whole if one of its elements
        // does, yet nobody need know that of its end.
        unsafe {
            if k >= u64::from(CHUNK / 2 - before) {
                let chunk = start.wrapping_sub(before as usize).cast::<u128>().read();
                return core::mem::transmute::<u128, [u32; 4]>(chunk);
            }
            for i in 0..CHUNK / 2 {
                let further = u64::from(i.wrapping_sub(before));
                if i >= before && further < k {
                    let element = u32::from(start.add(further as usize).read());
                    words[i as usize / 2] |= element << (16 * (i % 2));
                }
            }
        }
        words
    }
}
