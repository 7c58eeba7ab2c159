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

/// Rows and columns of tiles that a cluster of so many blocks takes at a time: one below the other,
/// but 8, which are four rows of two.
#[inline(always)]
pub const fn cluster_tiles(cluster: u32) -> [u32; 2] {
    match cluster {
        8 => [4, 2],
        _ => [cluster, 1],
    }
}

/// Tiles that clusters take one after the other in `tiles_m` x `tiles_n` tiles of blocks, of each
/// of `slices`, where `at_once` clusters go through them all.
///
/// The blocks of a cluster take tiles one below the other, so that the last row of tiles leaves one
/// of two blocks idle where `tiles_m` is odd. The blocks take the tiles of that row
/// [`side_by_side`] where there are fewer waves then. Of 33 x 16 tiles, by as many clusters of two
/// as an H100 SXM has room for:
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
/// `cluster` is 1, 2 or 8. Counts that do not fit in a u32 are [`u32::MAX`].
#[inline]
pub const fn of_clusters(tiles: [u32; 2], cluster: u32, slices: u32, at_once: u32) -> u32 {
    let [tiles_m, tiles_n] = tiles;
    let [rows, cols] = cluster_tiles(at_least_1(cluster));
    let below = tiles_m.div_ceil(rows).saturating_mul(tiles_n.div_ceil(cols));
    if cluster != 2 || tiles_m.is_multiple_of(2) {
        return below;
    }
    let beside = side_by_side(tiles, cluster);
    let at_once = at_least_1(at_once);
    let (least, most) = (beside.saturating_mul(slices), below.saturating_mul(slices));
    if least.div_ceil(at_once) < most.div_ceil(at_once) { beside } else { below }
}

/// Tiles of clusters of which those of the last row of tiles lie side by side, where `tiles_m` is
/// odd: behind `tiles_m / 2 * tiles_n` tiles as ever come those of the last row, two at a time, of
/// which the very last may lie past the end of C.
///
/// # Preconditions
///
/// As [`of_clusters`].
#[inline]
pub const fn side_by_side([tiles_m, tiles_n]: [u32; 2], cluster: u32) -> u32 {
    let whole = (tiles_m / at_least_1(cluster)).saturating_mul(tiles_n);
    match cluster == 2 && !tiles_m.is_multiple_of(2) {
        true => whole.saturating_add(tiles_n.div_ceil(2)),
        false => whole,
    }
}

/// Tiles of so many whose steps clusters with equal shares cut into as many shares as there are
/// clusters: none where tiles fill whole waves; else those of the last wave, and of the one before
/// it where the last is so small that many clusters would share a tile. The others are whole.
///
/// # Preconditions
///
/// `clusters` is not 0.
#[inline]
pub const fn shared_tiles(tiles: u32, clusters: u32) -> u32 {
    match tiles % at_least_1(clusters) {
        0 => 0,
        last if last >= clusters - clusters / 2 || tiles < clusters => last,
        last => clusters + last,
    }
}

/// Row and column of the tile of a cluster's first block, and whether those of the others lie
/// beside it, and not below: of cluster tile `number` of `tiles`, as [`of_clusters`] or
/// [`side_by_side`] counts them in `rows` x `cols` tiles of clusters, an odd last row of blocks'
/// tiles counted as a whole one. Those that lie one below the other come in groups of `group` rows,
/// as [`grouped`] has them.
#[inline]
pub const fn of_cluster(
    number: u32,
    [rows, cols]: [u32; 2],
    tiles: u32,
    cluster: u32,
    group: u32,
) -> (u32, u32, bool) {
    let has_beside = cluster > 1 && tiles != rows.wrapping_mul(cols);
    let rows = if has_beside { rows.wrapping_sub(1) } else { rows };
    let first = rows.wrapping_mul(cols);
    if has_beside && number >= first {
        return (rows.wrapping_mul(cluster), (number - first).wrapping_mul(cluster), true);
    }
    let (row, col) = grouped(number, rows, cols, group);
    (row.wrapping_mul(cluster), col, false)
}

/// Rows of blocks' tiles that clusters go through together.
pub const CLUSTER_GROUP: u32 = 16;

/// A number to divide by that the host has made a multiplication of, since a device has no
/// instruction for a division.
///
/// With l = ceil(log2 d) and m = ceil(2^(31 + l) / d), x / d is x * m / 2^(31 + l), rounded down,
/// for all x below 2^31 (Granlund and Montgomery, "Division by Invariant Integers using
/// Multiplication", 1994).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Divisor {
    multiplier: u32,
    shift: u32,
}

impl Divisor {
    /// To divide by `divisor`; 0 counts as 1.
    #[inline]
    pub const fn new(divisor: u32) -> Self {
        let divisor = at_least_1(divisor);
        let shift = 63 - (divisor - 1).leading_zeros();
        let multiplier = (1u64 << shift).div_ceil(divisor as u64) as u32;
        Divisor { multiplier, shift }
    }

    /// `x` divided by it, `x` being below 2^31.
    #[inline(always)]
    pub const fn divide(self, x: u32) -> u32 {
        ((x as u64 * self.multiplier as u64) >> self.shift) as u32
    }
}

/// The order in which clusters go through the tiles of all slices, as [`of_clusters`] counts them
/// and [`of_cluster`] has them, made by the host: the device then finds a tile's place by
/// multiplications. All 0 for kernels that need none.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TileOrder {
    /// Rows of clusters' tiles, an odd last row of blocks' tiles counted as a whole one.
    pub rows: u32,
    /// Columns of clusters' tiles.
    pub cols: u32,
    /// Rows of clusters' tiles whose blocks' lie one below the other.
    below: u32,
    /// Tiles of clusters of a slice, and of all.
    tiles: u32,
    all: u32,
    /// Rows of a group of rows.
    group: u32,
    of_slice: Divisor,
    of_group: Divisor,
    /// By the rows of a whole group, and of the last one.
    of_whole: Divisor,
    of_last: Divisor,
    /// Steps of the sums of a slice but for the last.
    pub steps: u32,
    of_steps: Divisor,
    /// 1 where a cluster's tiles take K in turns from its first step on and from its last one back;
    /// see [`Self::turning`].
    turns: u32,
}

impl TileOrder {
    /// That of `tiles_m` x `tiles_n` tiles of blocks, of each of `slices`, whose sums take `steps`,
    /// by clusters of `cluster` blocks, in groups of `group` rows of clusters, where `at_once`
    /// clusters go through them all.
    ///
    /// # Preconditions
    ///
    /// As [`of_clusters`]; there are fewer than 2^31 tiles of all slices, and fewer than 2^31 / 6
    /// columns of them.
    pub const fn new(
        tiles: [u32; 2],
        cluster: u32,
        [slices, steps]: [u32; 2],
        at_once: u32,
        group: u32,
    ) -> Self {
        let [tiles_m, tiles_n] = tiles;
        let of_cluster = cluster_tiles(at_least_1(cluster));
        let (rows, cols) = (tiles_m.div_ceil(of_cluster[0]), tiles_n.div_ceil(of_cluster[1]));
        let tiles = of_clusters(tiles, cluster, slices, at_once);
        let has_beside = cluster == 2 && tiles != rows.wrapping_mul(cols);
        let below = if has_beside { rows.wrapping_sub(1) } else { rows };
        let group = at_least_1(if group < below { group } else { below });
        TileOrder {
            rows,
            cols,
            below,
            tiles,
            all: tiles.saturating_mul(slices),
            group,
            of_slice: Divisor::new(tiles),
            of_group: Divisor::new(group.saturating_mul(cols)),
            of_whole: Divisor::new(group),
            of_last: Divisor::new(below % group),
            steps,
            of_steps: Divisor::new(steps),
            turns: 0,
        }
    }

    /// The same in which a cluster's second tile, its fourth and so on take K from the last step
    /// back, if `turns`. What all clusters read last for one wave of tiles they read first for the
    /// next one, out of the L2 cache, as long as both lie in the same rows or columns of C.
    ///
    /// Kernels whose blocks have 128 rows do so, but not for floats of 8 bits, whose sums lose what
    /// goes by the order of K.
    pub const fn turning(self, turns: bool) -> Self {
        TileOrder { turns: turns as u32, ..self }
    }

    /// Whether the last of so many tiles that a cluster has taken is one of these.
    #[inline(always)]
    pub const fn is_turned(&self, taken: u32) -> bool {
        self.turns != 0 && taken != 0 && taken.is_multiple_of(2)
    }

    /// The slice of tile `number` of all, and its place as [`of_cluster`] has it, by clusters
    /// of `cluster` blocks; `None` behind the last.
    #[inline(always)]
    pub const fn place(&self, number: u32, cluster: u32) -> Option<(u32, (u32, u32, bool))> {
        if number >= self.all {
            return None;
        }
        let slice = if self.all == self.tiles { 0 } else { self.of_slice.divide(number) };
        let number = number - slice * self.tiles;
        let first = self.below * self.cols;
        if cluster == 2 && number >= first {
            return Some((slice, (self.below * cluster, (number - first) * cluster, true)));
        }
        let of_group = self.of_group.divide(number);
        let first_row = of_group * self.group;
        let in_group = number - first_row * self.cols;
        let (rows, by) = match first_row + self.group <= self.below {
            true => (self.group, self.of_whole),
            false => (self.below - first_row, self.of_last),
        };
        let col = by.divide(in_group);
        let [down, across] = cluster_tiles(cluster);
        Some((slice, ((first_row + in_group - col * rows) * down, col * across, false)))
    }

    /// `step` modulo the steps of a slice but for the last.
    #[inline(always)]
    pub const fn step(&self, step: u32) -> u32 {
        step - self.of_steps.divide(step) * self.steps
    }

    /// All numbers, in their order.
    pub const fn words(&self) -> [u32; 18] {
        let TileOrder { of_slice, of_group, of_whole, of_last, of_steps, .. } = *self;
        [
            self.rows,
            self.cols,
            self.below,
            self.tiles,
            self.all,
            self.group,
            of_slice.multiplier,
            of_slice.shift,
            of_group.multiplier,
            of_group.shift,
            of_whole.multiplier,
            of_whole.shift,
            of_last.multiplier,
            of_last.shift,
            self.steps,
            of_steps.multiplier,
            of_steps.shift,
            self.turns,
        ]
    }
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
    fn every_tile_has_one_cluster() {
        every_grid(|tiles_m, tiles_n| {
            for (cluster, at_once) in [(1, 5), (2, 1), (2, 5), (2, 66)] {
                let tiles = [tiles_m, tiles_n];
                let grid = [tiles_m.div_ceil(cluster), tiles_n];
                let most = grid[0] * grid[1];
                let (fewest, counts) = (side_by_side(tiles, cluster), [1, 3]);
                let counts = counts.map(|slices| of_clusters(tiles, cluster, slices, at_once));
                for count in [fewest, counts[0], counts[1]] {
                    assert!(count == fewest || count == most);
                    let of_block = |number, rank| {
                        let (row, col, beside) = of_cluster(number, grid, count, cluster, 8);
                        if beside { (row, col + rank) } else { (row + rank, col) }
                    };
                    let places: Vec<_> = (0..count)
                        .flat_map(|number| (0..cluster).map(move |rank| of_block(number, rank)))
                        .filter(|&(row, col)| row < tiles_m && col < tiles_n)
                        .collect();
                    let set: HashSet<_> = places.iter().collect();
                    assert_eq!(places.len() as u32, tiles_m * tiles_n, "{tiles:?} by {cluster}");
                    assert_eq!(set.len(), places.len());
                }
            }
        });
        // Of eight blocks, which are four rows of two.
        every_grid(|tiles_m, tiles_n| {
            let order = TileOrder::new([tiles_m, tiles_n], 8, [3, 5], 2, 4);
            let of_block =
                |(row, col, _): (u32, u32, bool), rank: u32| (row + rank / 2, col + rank % 2);
            let places: Vec<_> = (0..u32::MAX)
                .map_while(|number| order.place(number, 8))
                .flat_map(|(slice, at)| (0..8).map(move |rank| (slice, of_block(at, rank))))
                .filter(|&(_, (row, col))| row < tiles_m && col < tiles_n)
                .collect();
            let set: HashSet<_> = places.iter().collect();
            assert_eq!(places.len() as u32, 3 * tiles_m * tiles_n);
            assert_eq!(set.len(), places.len());
            assert_eq!(of_clusters([tiles_m, tiles_n], 8, 3, 2), order.rows * order.cols);
        });
        // Waves are saved, or nothing changes.
        assert_eq!(of_clusters([3, 35], 2, 1, 66), 35 + 18);
        assert_eq!(of_clusters([3, 33], 2, 1, 66), 2 * 33);
        assert_eq!(of_clusters([3, 20], 2, 1, 66), 2 * 20);
        assert_eq!(of_clusters([3, 20], 2, 2, 66), 20 + 10);
        assert_eq!(of_clusters([u32::MAX, u32::MAX], 2, u32::MAX, 66), u32::MAX);
        assert_eq!(side_by_side([1, 7], 2), 4);
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
    fn a_divisor_divides() {
        let most = (1 << 31) - 1;
        let sizes = [1, 2, 3, 5, 6, 7, 8, 9, 63, 64, 65, 1000, 65_535, 1 << 20, most, most + 1, !0];
        for d in sizes {
            let divisor = Divisor::new(d);
            let multiples = sizes
                .iter()
                .flat_map(|n| (0..3).map(|i| n.wrapping_mul(d).wrapping_add(i).wrapping_sub(1)));
            for x in multiples.chain(sizes).chain([0]).filter(|&x| x <= most) {
                assert_eq!(divisor.divide(x), x / d, "{x} / {d}");
            }
        }
        assert_eq!(Divisor::new(0).divide(7), 7);
    }

    #[test]
    fn every_other_tile_is_turned_where_it_is_asked_for() {
        let order = TileOrder::new([4, 4], 2, [1, 8], 2, 8);
        let turned = |order: TileOrder| core::array::from_fn(|taken| order.is_turned(taken as u32));
        assert_eq!(turned(order), [false; 7]);
        assert_eq!(turned(order.turning(true)), [false, false, true, false, true, false, true]);
        assert_eq!(order.turning(true).turning(false), order);
    }

    #[test]
    fn an_order_made_before_is_the_same() {
        every_grid(|tiles_m, tiles_n| {
            for (cluster, at_once, group) in [(1, 5, 16), (2, 1, 8), (2, 5, 8), (2, 66, 1)] {
                for slices in [1, 3] {
                    let tiles = [tiles_m, tiles_n];
                    let count = of_clusters(tiles, cluster, slices, at_once);
                    let extent = [tiles_m.div_ceil(cluster), tiles_n];
                    let order = TileOrder::new(tiles, cluster, [slices, 5], at_once, group);
                    for number in 0..count * slices {
                        let (slice, number_in) = (number / count, number % count);
                        let at = of_cluster(number_in, extent, count, cluster, group);
                        let place = order.place(number, cluster);
                        let case = (tiles, cluster, group, slices);
                        assert_eq!(place, Some((slice, at)), "{number} of {case:?}");
                    }
                    assert_eq!(order.place(count * slices, cluster), None);
                    assert_eq!(order.step(7), 2);
                }
            }
        });
        assert_eq!(TileOrder::default().place(0, 2), None);
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
