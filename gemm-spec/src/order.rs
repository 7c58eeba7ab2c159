//! In which order blocks go through the tiles of C.
//!
//! A GPU starts the blocks of a grid roughly by number and has room for a wave of them at a time.
//! The blocks of a wave go through K side by side, so that a strip of A (the rows of one row of
//! tiles) or of B (the columns of one column of tiles) comes from memory for the first block that
//! wants it and from the L2 cache for the others. The fewer strips a wave touches, the less it
//! reads: W blocks in one row of tiles need 1 + W of them, in a square only 2 * sqrt(W). So
//! [`grouped`] makes waves squarer. A group pays where it holds more blocks than a wave (`group *
//! tiles_n` > W); below that a wave goes through whole groups and touches every column anyway.
//!
//! For C of 32 x 32 tiles and waves of 132 blocks, as many as an H100 SXM has multiprocessors:
//!
//! ```
//! use gemm_spec::order::grouped;
//! use std::collections::HashSet;
//!
//! let strips = |group| {
//!     let wave = (0..132).map(|linear| grouped(linear, 32, 32, group));
//!     let (rows, cols): (HashSet<u32>, HashSet<u32>) = wave.unzip();
//!     (rows.len(), cols.len()) // of A, of B
//! };
//! assert_eq!(strips(1), (5, 32)); // row after row of tiles
//! assert_eq!(strips(8), (8, 17));
//! ```

/// Row and column of the `linear`th block's tile, in a C of `tiles_m` x `tiles_n` tiles.
///
/// The rows of tiles are taken in groups of `group`. Within a group the order goes down a column of
/// the group's tiles, then down the next column; after its last column comes the next group. The
/// last group has the rows that are left. For 3 x 4 tiles in groups of 2:
///
/// ```text
///  0  2  4  6
///  1  3  5  7
///  8  9 10 11
/// ```
///
/// With `group` = 1 the order is row after row: (linear / tiles_n, linear % tiles_n). With `group`
/// = `tiles_m` or more it is column after column. (The kernel of the tutorial "Matrix
/// Multiplication" with Tileon sets its group to `tiles_m` and so groups nothing, though it has
/// all the variables for it.)
///
/// # Preconditions
///
/// `tiles_m * tiles_n` fits in a u32. A `group` of 0 counts as 1. Each number below `tiles_m *
/// tiles_n` has a tile of its own; a number from there on gets a tile outside of C, its row or its
/// column too large, so that a kernel whose grid is rounded up finds nothing to do for it. Nothing
/// here panics, since on a device there is nobody to hear it.
#[inline]
pub const fn grouped(linear: u32, tiles_m: u32, tiles_n: u32, group: u32) -> (u32, u32) {
    // No group is larger than all, so that `blocks` fits in a u32 as all the blocks do.
    let group = at_least_1(if group < tiles_m { group } else { tiles_m });
    let blocks = at_least_1(group.wrapping_mul(tiles_n));
    let first_row = (linear / blocks).wrapping_mul(group); // Wraps where C has no columns.
    let rows_left = tiles_m.saturating_sub(first_row);
    let rows = at_least_1(if group < rows_left { group } else { rows_left });
    let in_group = linear % blocks;
    (first_row + in_group % rows, in_group / rows)
}

/// Tiles that clusters take one after the other in `tiles_m` x `tiles_n` tiles of blocks, of each
/// of `slices`, where `at_once` clusters go through them all.
///
/// The blocks of a cluster take tiles one below the other, so that the last row of tiles leaves one
/// of two blocks idle where `tiles_m` is odd. The blocks take the tiles of that row side by side
/// where there are fewer waves then: behind `tiles_m / 2 * tiles_n` tiles as ever come those of the
/// last row, two at a time, of which the very last may lie past the end of C. Of 33 x 16 tiles, by
/// as many clusters of two as an H100 SXM has room for:
///
/// ```
/// use gemm_spec::order::of_clusters;
///
/// assert_eq!(of_clusters([33, 16], 2, 1, 66), 32 / 2 * 16 + 16 / 2); // 4 waves, and not 5
/// assert_eq!(of_clusters([31, 16], 2, 1, 66), 32 / 2 * 16); // 4 waves in any case
/// ```
///
/// # Preconditions
///
/// `cluster` is 1 or 2. Counts that do not fit in a u32 are [`u32::MAX`].
#[inline]
pub const fn of_clusters(
    [tiles_m, tiles_n]: [u32; 2],
    cluster: u32,
    slices: u32,
    at_once: u32,
) -> u32 {
    let rows = tiles_m.div_ceil(at_least_1(cluster));
    let below = rows.saturating_mul(tiles_n);
    if cluster != 2 || tiles_m.is_multiple_of(2) {
        return below;
    }
    let beside = (rows - 1).saturating_mul(tiles_n).saturating_add(tiles_n.div_ceil(2));
    let at_once = at_least_1(at_once);
    let (least, most) = (beside.saturating_mul(slices), below.saturating_mul(slices));
    if least.div_ceil(at_once) < most.div_ceil(at_once) { beside } else { below }
}

/// The compiler sees that a division by it cannot panic, and leaves the check out.
#[inline]
const fn at_least_1(x: u32) -> u32 {
    if x == 0 { 1 } else { x }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::vec::Vec;

    const SIZES: [u32; 8] = [1, 2, 3, 7, 8, 9, 16, 31];
    const GROUPS: [u32; 8] = [0, 1, 2, 3, 7, 8, 9, 40];

    fn every_grid(mut visit: impl FnMut(u32, u32)) {
        for tiles_m in SIZES {
            for tiles_n in SIZES {
                visit(tiles_m, tiles_n);
            }
        }
    }

    #[test]
    fn every_tile_has_one_block() {
        every_grid(|tiles_m, tiles_n| {
            for group in GROUPS {
                let blocks = tiles_m * tiles_n;
                let tiles: HashSet<_> =
                    (0..blocks).map(|block| grouped(block, tiles_m, tiles_n, group)).collect();
                assert_eq!(tiles.len() as u32, blocks, "{tiles_m} x {tiles_n} by {group}");
                assert!(tiles.iter().all(|&(row, col)| row < tiles_m && col < tiles_n));
            }
        });
    }

    #[test]
    fn a_number_too_large_is_outside_of_c() {
        let outside = |linear, tiles_m, tiles_n, group| {
            let (row, col) = grouped(linear, tiles_m, tiles_n, group);
            row >= tiles_m || col >= tiles_n
        };
        every_grid(|tiles_m, tiles_n| {
            for group in GROUPS {
                let blocks = tiles_m * tiles_n;
                for past in 0..2 * blocks {
                    assert!(outside(blocks + past, tiles_m, tiles_n, group));
                }
            }
        });
        for (tiles_m, tiles_n) in [(0, 0), (0, 5), (5, 0)] {
            for group in GROUPS {
                let numbers = [0, 1, 19, u32::MAX];
                assert!(numbers.iter().all(|&linear| outside(linear, tiles_m, tiles_n, group)));
            }
        }
    }

    #[test]
    fn groups_of_one_are_rows_and_one_group_is_columns() {
        every_grid(|tiles_m, tiles_n| {
            for block in 0..tiles_m * tiles_n {
                let at = |group| grouped(block, tiles_m, tiles_n, group);
                assert_eq!(at(1), (block / tiles_n, block % tiles_n));
                assert_eq!(at(0), at(1));
                assert_eq!(at(tiles_m), (block % tiles_m, block / tiles_m));
                assert_eq!(at(u32::MAX), at(tiles_m));
            }
        });
    }

    #[test]
    fn the_documented_picture() {
        let picture = [[0, 2, 4, 6], [1, 3, 5, 7], [8, 9, 10, 11]];
        for block in 0..12 {
            let (row, col) = grouped(block, 3, 4, 2);
            assert_eq!(picture[row as usize][col as usize], block);
        }
    }

    #[test]
    fn the_largest_grids_do_not_overflow() {
        const LAST: u32 = u32::MAX - 1;
        const { assert!(grouped(LAST, 1, u32::MAX, 8).1 == LAST) };
        assert_eq!(grouped(LAST, u32::MAX, 1, 8), (LAST, 0));
        assert_eq!(grouped(LAST, u32::MAX, 1, u32::MAX), (LAST, 0));
        assert_eq!(grouped(LAST, 65_535, 65_537, 8), (65_534, 65_536));
        assert_eq!(grouped(u32::MAX, 65_535, 65_537, 1), (65_535, 0), "one too many");
    }

    /// Strips of A and of B that each wave of `wave` blocks touches, added up.
    fn strips(tiles_m: u32, tiles_n: u32, group: u32, wave: usize) -> usize {
        let blocks: Vec<u32> = (0..tiles_m * tiles_n).collect();
        let strips_of = |wave: &[u32]| {
            let tiles = wave.iter().map(|&block| grouped(block, tiles_m, tiles_n, group));
            let (rows, cols): (HashSet<u32>, HashSet<u32>) = tiles.unzip();
            rows.len() + cols.len()
        };
        blocks.chunks(wave).map(strips_of).sum()
    }

    #[test]
    fn groups_cut_what_a_wave_touches() {
        // 1024 blocks are 7 waves of 132 and one of 100.
        let all = [1, 2, 4, 8, 16, 32].map(|group| strips(32, 32, group, 132));
        assert_eq!(all, [295, 302, 309, 220, 214, 295]);
        // A ragged grid, on which no group divides the rows and no wave ends with a group.
        assert!(strips(37, 53, 8, 132) < strips(37, 53, 1, 132));
        // One wave that is a whole square.
        assert_eq!(strips(64, 64, 8, 64) / 64, 8 + 8);
        assert_eq!(strips(64, 64, 1, 64) / 64, 1 + 64);
    }
}
