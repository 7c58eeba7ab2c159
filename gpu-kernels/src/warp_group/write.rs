//! A group's sums on their way to C.

use super::finished::write_finished;
use super::old::add_boxes;
use super::rows::write_by_rows;
use super::swapped::{write_mapped, write_swapped};
use super::tiles::Place;
use super::word_boxes::write_word_boxes;
use super::{GROUP_ROWS, Geometry, Operands, Rows64};
use crate::{Element, Epilogue, Output, OutputTile, SharedTile, Sum, Write, apply};
use core::marker::PhantomData;
use cuda_std::barrier::NamedBarrier;
use cuda_std::tma::CachePolicy;
use cuda_std::wgmma::{B64, Tile};
use cuda_std::{SharedPtr, fence, misc, mma, thread, tma, warp};
use gemm_spec::{C_BOXES, GemmParams, Writes, c_row_bytes};

/// A box of C: 64 rows of 128 bytes.
pub type BoxOfC = Rows64<u8>;

/// Which ways to C there are, beside that by rows.
#[derive(Clone, Copy)]
pub struct Ways {
    /// Through what the parameter block has for an epilogue.
    pub epilogues: bool,
    /// By whole boxes, where C's map is used.
    pub boxes: bool,
    /// By boxes of elements of 32 bits, too.
    pub word_boxes: bool,
    /// Whether the block's groups, which all write, have their boxes copied at one time, where
    /// there is one for each: a whole tile goes faster to memory than its parts one by one.
    pub meet: bool,
    /// Whether C's old values are in the boxes, or on their way there, as far as there is room.
    pub adds_brought: bool,
    /// Columns of the tile where they are fewer than the kernel's; else 0.
    pub tile_cols: u32,
}

/// Applies an epilogue to the sums of a group's rows and columns of C from `at` on.
///
/// # Safety
/// By all threads of the group; the rest as [`apply`].
#[inline(always)]
pub unsafe fn finish<T: Element, E: Epilogue<T>, const SUMS: usize>(
    epilogue: E,
    p: &GemmParams<T::Sum>,
    at: Place,
    sums: &mut [T::Sum; SUMS],
) {
    if E::IS_PLAIN {
        return;
    }
    let (row, col) = place();
    // As `part` has them.
    let of_sum = |i: usize| {
        let (row, col) = (row + i / 2 % 2 * 8, col + i / 8 * 16 + i / 4 % 2 * 8 + i % 2);
        (at.row + row as u64, at.col + col as u64)
    };
    // SAFETY: the caller's promise.
    unsafe { apply(epilogue, p, sums, of_sum) };
}

/// Finishes the sums of a group's rows and columns of C from `at` on, and writes them to a C of
/// any kind, in one of the `ways` that there are. What writes them is chosen once, before the
/// first.
///
/// # Safety
///
/// By all threads of group `number`; the boxes are its own shared memory; no copy from them is on
/// its way; the rest as [`multiply`](super::multiply).
#[inline(always)]
pub unsafe fn write<T: Element, G: Geometry, E: Epilogue<T>, const SUMS: usize>(
    operands: &Operands<T>,
    p: &GemmParams<T::Sum>,
    at: Place,
    (boxes, number): (SharedTile<BoxOfC>, usize),
    sums: &[T::Sum; SUMS],
    ways: Ways,
) {
    // N.B. Places of columns do not change from tile to tile. Unless the stride is a new number for
    // each, the compiler computes all of them before the first tile, and keeps them in memory.
    let n = match ways.tile_cols {
        0 => p.n,
        cols => p.n.min(at.col + u64::from(cols)),
    };
    let fresh = GemmParams { n, c_col_stride: misc::afresh_i64(p.c_col_stride), ..*p };
    let geometry = PhantomData::<G>;
    let operands = &operands.of_slice(p, at);
    let group = Group { operands, p: &fresh, at, boxes, number, sums, ways, geometry };
    // SAFETY: the caller's promise.
    unsafe {
        let is_usual = size_of::<T::Output>() == 2;
        let is_written = if E::IS_LEAN {
            group.write_lean()
        } else if G::SWAPS {
            write_swapped::<T, G, SUMS>(operands, &fresh, at, (boxes, number, ways), sums)
        } else if ways.epilogues && is_usual && !p.epilogue.is_none() {
            // Only products with such a C get epilogues.
            write_finished::<T, G, SUMS>(operands, &fresh, at, (boxes, number, ways.meet), sums);
            true
        } else {
            T::with_output(&fresh, group)
        };
        if !is_written {
            let memory = (boxes.cast(), number);
            if SUMS.is_multiple_of(32) {
                write_by_rows::<T, G, SUMS>(operands, &fresh, at, memory, sums);
            } else {
                // 64 columns at a time, of which the last may be the next tile's.
                let p = GemmParams { n: n.min(at.col + 2 * SUMS as u64), ..fresh };
                write_by_rows::<T, G, SUMS>(operands, &p, at, memory, sums);
            }
        }
    }
}

/// A group's sums, and where they go.
struct Group<'a, T: Element, G, const SUMS: usize> {
    operands: &'a Operands<T>,
    p: &'a GemmParams<T::Sum>,
    at: Place,
    boxes: SharedTile<BoxOfC>,
    number: usize,
    sums: &'a [T::Sum; SUMS],
    ways: Ways,
    geometry: PhantomData<G>,
}

impl<T: Element, G: Geometry, const SUMS: usize> Group<'_, T, G, SUMS> {
    /// As [`Write::write`], of the C that lean entry points get.
    ///
    /// # Safety
    /// As [`write`]; C has the usual elements, its map is used, and its old values take no part.
    #[inline(always)]
    unsafe fn write_lean(self) -> bool {
        let Group { operands, p, at, boxes, number, sums, ways, .. } = self;
        if at.row >= p.m || at.col >= p.n {
            return true;
        }
        // SAFETY: the caller's promise.
        unsafe {
            if G::SWAPS {
                let memory = (boxes, number, ways);
                write_mapped::<T, G, SUMS>(operands, p, at, memory, sums, false);
            } else if size_of::<T::Output>() == 2 {
                let memory = (boxes.cast(), number, ways);
                write_boxes::<T, T::Output, G, SUMS>(operands, p, at, memory, sums);
            } else if ways.word_boxes {
                let memory = (boxes.cast(), number);
                write_word_boxes::<T, T::Output, G, SUMS>(operands, p, at, memory, sums);
            } else {
                let extent = [GROUP_ROWS, 2 * SUMS];
                let tile = OutputTile::new(operands.start, p, (at.row, at.col), extent);
                if !tile.has_pairs::<T::Output>() {
                    return false;
                }
                write_pairs::<T, T::Output, G, SUMS>(tile, p, sums);
            }
        }
        true
    }
}

impl<T: Element, G: Geometry, const SUMS: usize> Write<T::Sum> for Group<'_, T, G, SUMS> {
    /// Whether they have been written; else they have to be, by rows.
    type Done = bool;

    /// Elements of 16 bits, and those of 32 where there are ways for them, go through shared memory
    /// by whole boxes, while the next tile is multiplied, where C's map is used. From the registers
    /// go others of 32 bits, of which pairs fill whole sectors, and those of the usual C whose old
    /// values take part, or whose tiles are narrow.
    ///
    /// # Safety
    /// As [`write`].
    #[inline(always)]
    unsafe fn write<C: Output<T::Sum>>(self) -> bool {
        let Group { operands, p, at, boxes, number, sums, ways, .. } = self;
        // Groups of a cluster's tile may lie past the end of C.
        let is_inside = at.row < p.m && at.col < p.n;
        let by_words = size_of::<C>() == 4 && ways.word_boxes;
        let is_plain = C::CODE == T::Output::CODE;
        // Groups in turn have no registers for boxes of a C that is read.
        let adds = p.reads_c != 0 && is_plain && !G::IN_TURN && size_of::<C>() == 2;
        let by_boxes = (size_of::<C>() == 2 || by_words)
            && (p.reads_c == 0 || adds)
            && ways.boxes
            && is_mappable::<C, _>(operands.start as u64, p);
        // SAFETY: the caller's promise.
        unsafe {
            if !is_inside {
                return true;
            }
            if by_boxes && by_words {
                let memory = (boxes.cast(), number);
                write_word_boxes::<T, C, G, SUMS>(operands, p, at, memory, sums);
                return true;
            }
            if by_boxes {
                let memory = (boxes.cast(), number, ways);
                match adds {
                    true => add_boxes::<T, C, G, SUMS>(operands, p, at, memory, sums),
                    false => write_boxes::<T, C, G, SUMS>(operands, p, at, memory, sums),
                }
                return true;
            }
            let tile = OutputTile::new(operands.start, p, (at.row, at.col), [GROUP_ROWS, 2 * SUMS]);
            let is_usual = is_plain && (p.reads_c != 0 || ways.tile_cols != 0);
            let by_pairs = (size_of::<C>() == 4 || is_usual) && tile.has_pairs::<C>();
            if by_pairs {
                write_pairs::<T, C, G, SUMS>(tile, p, sums);
            }
            by_pairs
        }
    }
}

/// Whether C's map is used.
#[inline(always)]
pub fn is_mappable<C, S>(start: u64, p: &GemmParams<S>) -> bool {
    let strides = [p.c_row_stride, p.c_col_stride];
    gemm_spec::is_mappable(size_of::<C>() as u64, start, strides, p.n, p.slices.c)
}

/// Waits until the boxes have been read, before any is written again or goes with the block: the
/// group's first warp, which started the copies.
///
/// # Safety
/// By all threads of the group, each with the number of its warp.
#[inline(always)]
pub unsafe fn wait_for_copies(warp: u32) {
    if warp == 0 {
        tma::wait_group_read::<0>();
        // SAFETY: the whole warp is here.
        unsafe { warp::sync_warp(u32::MAX) };
    }
}

/// A thread's part of 16 columns, as [`place`](cuda_std::wgmma::place) of `wgmma` has it: two pairs
/// of neighbours, 8 columns apart, of a row and of the row 8 further down.
#[inline(always)]
pub fn part<S: Copy, const SUMS: usize>(sums: &[S; SUMS], q: usize) -> [[[S; 2]; 2]; 2] {
    let pair = |i: usize| [sums[8 * q + i], sums[8 * q + i + 1]];
    [[pair(0), pair(4)], [pair(2), pair(6)]]
}

/// The thread's number in its group, afresh, so that places that follow from it are not kept in
/// registers while tiles are multiplied.
#[inline(always)]
pub fn thread_of_group() -> usize {
    (misc::afresh(thread::thread_idx_x()) % 128) as usize
}

/// The first of a thread's rows of the group's tile, and the first of its columns.
#[inline(always)]
pub fn place() -> (usize, usize) {
    let thread = thread_of_group();
    (thread / 32 * 16 + thread % 32 / 4, thread % 4 * 2)
}

/// The row of a box that a thread has the address of when matrices of 8 x 8 are stored, and the
/// first of its columns: rows 0 to 7, then 8 to 15; of the first 8 columns, then of the next.
#[inline(always)]
pub fn place_of_rows() -> (u32, u32) {
    let thread = thread_of_group() as u32;
    let lane = thread % 32;
    (thread / 32 * 16 + lane / 8 % 2 * 8 + lane % 8, lane / 16 * 8)
}

/// Parts of 16 columns whose old values are on their way at a time.
const AT_ONCE: usize = 4;

/// # Safety
/// As [`OutputTile::store_pairs`].
#[inline(always)]
unsafe fn write_pairs<T: Element, C: Output<T::Sum>, G: Geometry, const SUMS: usize>(
    tile: OutputTile,
    p: &GemmParams<T::Sum>,
    sums: &[T::Sum; SUMS],
) {
    // SAFETY: the caller's promise.
    unsafe {
        // Beside a C of 32 bits, groups in turn have registers for the smaller number alone.
        match SUMS.is_multiple_of(8 * AT_ONCE) && (!G::IN_TURN || size_of::<T::Output>() == 2) {
            true => write_pairs_of::<T, C, SUMS, { 2 * AT_ONCE }>(tile, p, sums),
            false if SUMS.is_multiple_of(4 * AT_ONCE) => {
                write_pairs_of::<T, C, SUMS, AT_ONCE>(tile, p, sums)
            }
            false => write_pairs_of::<T, C, SUMS, { AT_ONCE / 2 }>(tile, p, sums),
        }
    }
}

/// The same, with so many pairs on their way at a time.
///
/// # Safety
/// As [`write_pairs`].
#[inline(always)]
unsafe fn write_pairs_of<T: Element, C: Output<T::Sum>, const SUMS: usize, const PAIRS: usize>(
    tile: OutputTile,
    p: &GemmParams<T::Sum>,
    sums: &[T::Sum; SUMS],
) {
    let (row, col) = place();
    for q in (0..SUMS / 8).step_by(PAIRS / 2) {
        for r in 0..2 {
            let further = |j| 16 * q + 8 * j;
            let value = |j: usize| part(sums, q + j / 2)[r][j % 2].map(C::convert);
            let mut values: [_; PAIRS] = core::array::from_fn(value);
            // SAFETY: the caller's promise.
            unsafe { tile.store_pairs::<_, C>(p, row + 8 * r, col, further, &mut values) };
        }
    }
}

/// Columns of C that are copied at a time, of elements of 16 bits.
const fn cols_of_copy(sums: usize) -> usize {
    c_row_bytes(2 * sums, 2) / 2
}

/// The place of an element in a box of 64 columns of C, which may be two of 32 for the copy engine.
///
/// # Safety
/// Row and column are in the box.
#[inline(always)]
pub unsafe fn element_of_box<C, const SUMS: usize>(
    of_c: SharedTile<Rows64<C>>,
    row: u32,
    (part, col): (usize, u32),
) -> SharedPtr<C> {
    // SAFETY: the caller's promise; a box is as large as both of its halves.
    unsafe {
        match cols_of_copy(SUMS) {
            64 => of_c.element(row, part as u32 * 16 + col),
            _ => {
                let half: SharedTile<Tile<C, GROUP_ROWS, B64>> = of_c.cast();
                half.add(part / 2).element(row, part as u32 % 2 * 16 + col)
            }
        }
    }
}

/// Multiplies by alpha and rounds, and puts the sums into shared memory as the copy engine reads
/// them, a box for 64 columns.
///
/// # Safety
/// As [`write`]; C's elements have 16 bits, its map is used, and no copy from the boxes is on its
/// way.
#[inline(always)]
unsafe fn write_boxes<T: Element, C: Output<T::Sum>, G: Geometry, const SUMS: usize>(
    operands: &Operands<T>,
    p: &GemmParams<T::Sum>,
    at: Place,
    (boxes, group, ways): (SharedTile<Rows64<C>>, usize, Ways),
    sums: &[T::Sum; SUMS],
) {
    let alpha = C::factor(p.alpha);
    let (to_row, to_col) = place_of_rows();
    // SAFETY: a box is free when it is written, and read by the copy engine when all threads have.
    unsafe {
        sync::<G>(group);
        for i in 0..SUMS.div_ceil(32) {
            for part in 0..4 {
                if 32 * i + 8 * part >= SUMS {
                    break;
                }
                let value = |j: usize| alpha.mul(C::convert(sums[32 * i + 8 * part + j]));
                let pack = |j: usize| word(C::narrow_pair([value(j), value(j + 1)]));
                let of_c = boxes.add(i % C_BOXES);
                let to = element_of_box::<C, SUMS>(of_c, to_row, (part, to_col));
                mma::store_matrices(to, [pack(0), pack(2), pack(4), pack(6)]);
            }
            send::<T, G, SUMS>(operands, p, at, (boxes.cast(), group, ways.meet), i);
        }
    }
}

/// Columns behind the last whole box, where boxes do not make a tile: a copy would write the next
/// tile's too.
const fn cols_behind_boxes(sums: usize) -> usize {
    if cols_of_copy(sums) == 64 { 2 * sums % 64 } else { 0 }
}

/// Whether the boxes of so many sums are more than a group has, so that each is used again.
pub const fn uses_boxes_again(sums: usize) -> bool {
    sums.div_ceil(32) > C_BOXES
}

/// Has box number `i` of the tile copied to C, when all threads have written it; but waits for the
/// last one where there is a box for each, since whole rows go faster to memory. Behind it the next
/// box may be written.
///
/// # Safety
/// By all threads of the group, and where they `meet` of all groups; C's map is used.
#[inline(always)]
pub unsafe fn send<T: Element, G: Geometry, const SUMS: usize>(
    operands: &Operands<T>,
    p: &GemmParams<T::Sum>,
    Place { row, col, slice, .. }: Place,
    (boxes, group, meet): (SharedTile<BoxOfC>, usize, bool),
    i: usize,
) {
    const { assert!(C_BOXES == 2, "the box behind this one is that of the last copy") };
    let (all, thread) = (SUMS.div_ceil(32), thread_of_group());
    let in_turn = uses_boxes_again(SUMS);
    let first = match in_turn {
        true => i,
        false if i + 1 == all => 0,
        false => return,
    };
    // SAFETY: the caller's promise.
    unsafe {
        fence::async_shared();
        if in_turn && i > 0 && i + 1 < all {
            wait_for_copies((thread / 32) as u32);
        }
        match meet && !in_turn {
            // Of both groups: one alone has nobody to meet.
            true => NamedBarrier::<3, 256>.sync(),
            false => sync::<G>(group),
        }
        let is_behind = |i: usize| cols_behind_boxes(SUMS) > 0 && i + 1 == all;
        if is_behind(i) {
            write_behind_boxes::<T, SUMS>(operands, p, (row, col), boxes.add(i % C_BOXES));
        }
        if thread == 0 {
            let batch = (slice * p.slices.map_batch) as i32;
            for i in first..=i {
                if is_behind(i) {
                    break;
                }
                let col = col + 64 * i as u64;
                if col < p.n {
                    let at = [col as i32, row as i32, batch];
                    store_box(operands, p, at, boxes.add(i % C_BOXES));
                }
                let half = 64 * i + cols_of_copy(SUMS);
                if cols_of_copy(SUMS) < 64 && half < 2 * SUMS && col + 32 < p.n {
                    let halves: SharedTile<Tile<u8, GROUP_ROWS, B64>> =
                        boxes.add(i % C_BOXES).cast();
                    let at = [col as i32 + 32, row as i32, batch];
                    store_box(operands, p, at, halves.add(1));
                }
            }
            tma::commit_group();
        }
    }
}

/// Writes the columns of the tile at `row` and `col` that are behind its whole boxes, and lie in a
/// box of their own: two threads each row, by chunks.
///
/// # Safety
/// By all threads of the group, when all have written the box; C's map may be used, and its
/// elements have 16 bits.
#[inline(always)]
unsafe fn write_behind_boxes<T: Element, const SUMS: usize>(
    operands: &Operands<T>,
    p: &GemmParams<T::Sum>,
    (row, col): (u64, u64),
    of_c: SharedTile<BoxOfC>,
) {
    /// Columns of 16 bytes.
    const CHUNK: usize = 8;
    const { assert!(cols_behind_boxes(SUMS).is_multiple_of(2 * CHUNK)) };
    let (of_row, number) = (thread_of_group() / 2, thread_of_group() % 2);
    let row = row + of_row as u64;
    if row >= p.m {
        return;
    }
    let of_row = of_row as u32;
    for j in 0..cols_behind_boxes(SUMS) / (2 * CHUNK) {
        let chunk = (2 * j + number) * CHUNK;
        let col = col + (2 * SUMS / 64 * 64 + chunk) as u64;
        if col < p.n {
            let further = 2 * (row as i64 * p.c_row_stride + col as i64);
            let to = operands.start.cast::<u8>().wrapping_offset(further as isize);
            // SAFETY: the chunk is in the box, and as C's rows are whole chunks, in C.
            unsafe {
                let from = of_c.cast::<Rows64<u16>>().element(of_row, chunk as u32);
                to.cast::<u128>().write(from.cast::<u128>().read());
            }
        }
    }
}

/// Starts the copy of a box to C, as [`Writes`] says.
///
/// # Safety
/// As [`tma::store`], by C's map.
#[inline(always)]
pub unsafe fn store_box<T: Element, B>(
    operands: &Operands<T>,
    p: &GemmParams<T::Sum>,
    at: [i32; 3],
    from: SharedTile<B>,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let map = &*operands.maps[2];
        match p.writes == Writes::FirstOut as u32 {
            true => tma::store_with_policy(map, at, from, CachePolicy::evict_first()),
            false => tma::store(map, at, from),
        }
    }
}

/// Two elements of 16 bits as a word.
#[inline(always)]
pub fn word<C: Copy>(pair: [C; 2]) -> u32 {
    match size_of::<C>() {
        // SAFETY: a pair of 16 bits each has the bytes of a word.
        2 => unsafe { core::mem::transmute_copy(&pair) },
        // Others are not put into boxes.
        _ => 0,
    }
}

/// Waits for the group's other threads.
///
/// # Safety
/// By all of them.
#[inline(always)]
pub unsafe fn sync<G: Geometry>(group: usize) {
    // SAFETY: the caller's promise.
    unsafe { sync_number(if G::GROUPS == 1 { 0 } else { group }) }
}

/// The same of a group of any kernel.
///
/// # Safety
/// By all of them.
#[inline(always)]
pub unsafe fn sync_number(group: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match group {
            0 => NamedBarrier::<1, 128>.sync(),
            _ => NamedBarrier::<2, 128>.sync(),
        }
    }
}
