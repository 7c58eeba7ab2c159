//! The boxes in which the copy engine brings tiles of operands, and takes those of C away.

use crate::{Kernel, KernelFamily};

/// Boxes of C that each group of a kernel has shared memory of its own for, at least.
pub const C_BOXES: usize = 2;
/// Bytes of a box of C: 64 rows of 128.
pub(crate) const C_BOX_BYTES: usize = 64 * 128;

/// Those of a kernel whose tiles have so many columns, and whose clusters' blocks take so many
/// parts of K: where sums of one part meet another's, they have room for all, of 4 bytes each.
pub const fn c_boxes(cols: usize, parts: usize) -> usize {
    let of_sums = (4 * 64 * cols).div_ceil(C_BOX_BYTES);
    if parts > 1 && of_sums > C_BOXES { of_sums } else { C_BOXES }
}

/// Bytes that a stage of rows that begin anywhere has more than its tiles: a chunk of 16 for each
/// of 64 rows of A and of B.
pub const DIRECT_FURTHER_BYTES: usize = 2 * 64 * 16;
/// Columns of B in a box, for tiles of so many columns of C, where they are rows along K, or where
/// they are not: 32 rows where boxes of 64 do not make a tile, half of it where these do not
/// either, or where half is less than 64; all where blocks of a cluster take `parts` parts of K,
/// share none of B, and may have tiles of fewer columns. Rows of 64 bytes would take the copy
/// engine as long as those of 128, so that of columns that are no rows whole boxes of 64 are
/// brought, the last half of which is the next tile's; but where a tile has 32 columns there is no
/// next one, and halves past C's end would cost more.
pub const fn box_cols(cols: usize, along_k: bool, parts: usize) -> usize {
    match cols % 64 {
        _ if along_k && parts > 1 => cols,
        _ if cols == 32 => 32,
        0 => 64,
        _ if !along_k => 64,
        16 | 48 => cols / 2,
        32 if cols < 128 => cols / 2,
        _ => 32,
    }
}

/// Bytes of a row of C's boxes, for tiles of so many columns of elements of `bytes` bytes: 64 where
/// rows of 128 do not make a tile, and 128 where those do not either: then what is behind whole
/// boxes is no copy's.
pub const fn c_row_bytes(cols: usize, bytes: usize) -> usize {
    match cols.saturating_mul(bytes) % 128 {
        64 => 64,
        _ => 128,
    }
}

/// Whether the copy engine may write a C of `n` columns, of elements of `bytes` bytes, that starts
/// at an address and has so many bytes from slice to slice, of which there are several or parts of
/// K: its rows are contiguous, and start and end at multiples of 16 bytes, since whole chunks of
/// them are written.
#[inline(always)]
pub fn is_mappable(bytes: u64, start: u64, strides: [i64; 2], n: u64, to_slice: i64) -> bool {
    let [row, col] = strides;
    let in_bytes = |elements: u64| elements.wrapping_mul(bytes);
    let at_chunks = start | to_slice as u64 | in_bytes(row as u64) | in_bytes(n);
    // There is no map of rows that are further apart.
    let is_near = row > 0 && row < (1 << 40) / bytes as i64;
    col == 1 && is_near && at_chunks.is_multiple_of(16)
}

/// Rows of C in a box, for the transposed tiles of so many columns of elements of `bytes` bytes:
/// all of them, or half where there is no room for more; of 32 bits 32, since their groups have two
/// boxes of 32 columns at a time, and put two down while two are copied.
pub const fn swapped_box_rows(cols: usize, bytes: usize) -> usize {
    match bytes {
        4 => 32,
        _ if cols <= 2 * 64 => cols,
        _ => cols / 2,
    }
}

/// Rows of an operand of which each has a map of its own, with every eighth behind it.
pub const DIRECT_ROWS: usize = 8;

/// Rows of the boxes in which tensor maps have an operand of so many rows along K: those it has, in
/// whole swizzled patterns of 8, and `most` at most. Rows past its end would cost the copy engine
/// more than rows that are there.
pub const fn box_rows(extent: u64, most: u32) -> u32 {
    let whole = extent.saturating_add(7) & !7;
    if whole < most as u64 { whole as u32 } else { most }
}

/// Whether the boxes of an A of so many rows along K have 32 rows, two for each 64 of a tile: where
/// the last tile has no more than those. Rows past the end would cost as much as others, and more.
pub const fn halves_boxes(rows: u64) -> bool {
    rows > 64 && matches!(rows % 64, 1..=32)
}

/// Rows of the boxes of a tile of so many boxes of 64 rows, which `blocks` blocks of a cluster
/// bring for each other, equally many each: all 64, or parts of them.
pub const fn shared_box_rows(boxes: usize, blocks: usize) -> usize {
    let mut parts = 1;
    // A cluster for which no boxes are equally many has no kernel.
    while parts < 64 && !(boxes * parts).is_multiple_of(if blocks == 0 { 1 } else { blocks }) {
        parts *= 2;
    }
    64 / parts
}

impl Kernel {
    /// Bytes of a row of the boxes of A and of B, where they lie along K, or where they do not.
    pub const fn operand_row_bytes(&self, along_k: [bool; 2]) -> [usize; 2] {
        let of_b = box_cols(self.tiles.block[1], false, 1) * self.dtype.size_bytes();
        [128, if along_k[1] || of_b > 128 { 128 } else { of_b }]
    }

    /// Rows of the boxes of an A of `m` rows and a B of `n` columns, in which this kernel is
    /// brought them: those that lie along K have boxes of their rows, others of `k`. `tile_cols` as
    /// [`Slices::tile_cols`](crate::Slices::tile_cols).
    pub const fn operand_box_rows(
        &self,
        [m, n, k]: [u64; 3],
        along_k: [bool; 2],
        tile_cols: u32,
    ) -> [u32; 2] {
        use KernelFamily::{
            WarpGroup, WarpGroupGrouped, WarpGroupHalves, WarpGroupInStep, WarpGroupPingPong,
            WarpGroupScaled, WarpGroupSplit, WarpGroupSwapAb,
        };
        let ([rows, cols, _], [down, across]) = (self.tiles.block, self.cluster_tiles());
        match self.family {
            WarpGroupInStep => {
                let of_a = shared_box_rows(rows / 64, across);
                return [of_a as u32, shared_box_rows(cols / 64, down) as u32];
            }
            // Of products of any extents.
            WarpGroupGrouped => return [64; 2],
            _ => {}
        }
        let may_halve = matches!(
            self.family,
            WarpGroup
                | WarpGroupHalves
                | WarpGroupPingPong
                | WarpGroupScaled
                | WarpGroupSwapAb
                | WarpGroupSplit
        );
        let of_a = if may_halve && halves_boxes(m) { 32 } else { box_rows(m, 64) };
        let of_tile = box_cols(cols, true, self.parts_of_cluster()) as u32;
        let of_b = box_rows(n, if tile_cols == 0 { of_tile } else { tile_cols });
        // Of K as many as a row has elements, or as there are where threads do not turn them.
        let of_k = match self.dtype.size_bytes() {
            2 if k > 0 => box_rows(k, 64),
            bytes => (128 / bytes) as u32,
        };
        [if along_k[0] { of_a } else { of_k }, if along_k[1] { of_b } else { of_k }]
    }
}
