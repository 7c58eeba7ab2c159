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
    let group = at_least_1(at_most(group, tiles_m));
    let blocks = at_least_1(group.wrapping_mul(tiles_n));
    let first_row = (linear / blocks).wrapping_mul(group); // Wraps where C has no columns.
    let rows_left = tiles_m.saturating_sub(first_row);
    let rows = at_least_1(at_most(group, rows_left));
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
/// odd: `tiles_m / 2 * tiles_n` tiles as ever, and those of the last row, two at a time, of which
/// the very last may lie past the end of C.
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
/// tiles counted as a whole one. They come in groups of `group` rows, as [`grouped`] has them, and
/// those of an odd last row behind the others.
///
/// [`TileOrder`] has these between the others; for equal shares, whose kernels have this order,
/// there are no registers for that.
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

/// Rows of a group of so many, of `rows` in all, and the first row of the last group.
#[inline(always)]
const fn groups(rows: u32, group: u32) -> (u32, u32) {
    let group = at_least_1(at_most(group, rows));
    (group, rows.saturating_sub(1) / group * group)
}

/// Row within the last group of so many `rows` of clusters' tiles, column, and whether the blocks'
/// tiles lie side by side: of the tile that is `of_pair`th of those of two columns, the `pair`th
/// two. Before what lies in the group comes what lies below it side by side.
#[inline(always)]
const fn of_pair(pair: u32, of_pair: u32, rows: u32) -> (u32, u32, bool) {
    let col = 2 * pair;
    match of_pair {
        0 => (rows, col, true),
        1.. if of_pair <= rows => (of_pair - 1, col, false),
        _ => (of_pair - 1 - rows, col + 1, false),
    }
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

/// The order in which clusters go through the tiles of all slices, as [`of_clusters`] counts them,
/// made by the host: the device then finds a tile's place by multiplications. All 0 for kernels
/// that need none.
///
/// It is that of [`of_cluster`] but where tiles lie side by side: in the last group of rows each
/// two of them come before the others of their two columns, so that those columns of B come from
/// memory once. Of 5 x 3 tiles of blocks, by clusters of two in groups of two rows:
///
/// ```text
/// 1 3 6
/// 1 3 6
/// 2 4 7
/// 2 4 7
/// 0 0 5
/// ```
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TileOrder {
    /// Rows of clusters' tiles, an odd last row of blocks' tiles counted as a whole one.
    pub rows: u32,
    /// Columns of clusters' tiles.
    pub cols: u32,
    /// 1 where the odd last row of blocks' tiles lies side by side.
    has_beside: u32,
    /// Tiles of clusters of a slice, and of all.
    tiles: u32,
    all: u32,
    /// Rows of a group of rows.
    group: u32,
    /// The last group's first row, and its rows, without one that lies side by side.
    last_row: u32,
    of_last_group: u32,
    of_slice: Divisor,
    of_group: Divisor,
    /// By the rows of a whole group.
    of_whole: Divisor,
    /// By those of the last one, or by its tiles of two columns where there is a row side by side.
    of_last: Divisor,
    /// Steps of the sums of a slice but for the last.
    pub steps: u32,
    of_steps: Divisor,
    /// 1 where a cluster's tiles take K in turns from its first step on and from its last one back;
    /// see [`Self::turning`].
    turns: u32,
    /// 1 where the next kernel of the stream waits until all clusters have ended; see
    /// [`Self::spread`].
    holds_next: u32,
    /// See [`Self::near`]; no GPCs where clusters begin with the tile of their number.
    gpcs: u32,
    pairs_before: u32,
    of_gpcs: Divisor,
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
        let (group, last_row) = groups(below, group);
        let of_last_group = below - last_row;
        TileOrder {
            rows,
            cols,
            has_beside: has_beside as u32,
            tiles,
            all: tiles.saturating_mul(slices),
            group,
            last_row,
            of_last_group,
            of_slice: Divisor::new(tiles),
            of_group: Divisor::new(group.saturating_mul(cols)),
            of_whole: Divisor::new(group),
            of_last: Divisor::new(match has_beside {
                true => 2 * of_last_group + 1,
                false => of_last_group,
            }),
            steps,
            of_steps: Divisor::new(steps),
            turns: 0,
            holds_next: 0,
            gpcs: 0,
            pairs_before: 0,
            of_gpcs: Divisor::new(1),
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

    /// The same behind which the next kernel of the stream starts when all clusters have ended, and
    /// not when all have begun. It finds an idle GPU then, on which its clusters are spread evenly
    /// over the GPCs: where fewer than there is room for come one by one to where others end, some
    /// GPCs get as many as they have room for, and their blocks wait for the one way that these
    /// have to the L2 cache.
    pub const fn spread(self) -> Self {
        TileOrder { holds_next: 1, ..self }
    }

    /// The same, of clusters that begin with neighbouring tiles where they are on one GPC, whose
    /// requests for the same rows are answered together: on an idle GPU of so many GPCs, of which
    /// each gets a cluster in turn, behind so many clusters that come to another one first.
    ///
    /// # Preconditions
    ///
    /// `gpcs` is not 0, and there are no fewer clusters than `pairs_before`.
    pub const fn near(self, gpcs: u32, pairs_before: u32) -> Self {
        TileOrder { gpcs, pairs_before, of_gpcs: Divisor::new(gpcs), ..self.spread() }
    }

    /// Whether the next kernel of the stream waits until all clusters have ended.
    #[inline(always)]
    pub const fn holds_next(&self) -> bool {
        self.holds_next != 0
    }

    /// The number of the tile with which that cluster begins, of so many.
    #[inline(always)]
    pub const fn first(&self, cluster: u32, clusters: u32) -> u32 {
        if self.gpcs == 0 {
            return cluster;
        }
        let others = clusters - self.pairs_before;
        if cluster < self.pairs_before {
            return others + cluster;
        }
        let cluster = cluster - self.pairs_before;
        let (round, each) = (self.of_gpcs.divide(cluster), self.of_gpcs.divide(others));
        let (gpc, more) = (cluster - round * self.gpcs, others - each * self.gpcs);
        gpc * each + at_most(gpc, more) + round
    }

    /// Whether the last of so many tiles that a cluster has taken is one of these.
    #[inline(always)]
    pub const fn is_turned(&self, taken: u32) -> bool {
        self.turns != 0 && taken != 0 && taken.is_multiple_of(2)
    }

    /// The slice of tile `number` of all, and its place in the form of [`of_cluster`], by clusters
    /// of `cluster` blocks; `None` behind the last.
    #[inline(always)]
    pub const fn place(&self, number: u32, cluster: u32) -> Option<(u32, (u32, u32, bool))> {
        if number >= self.all {
            return None;
        }
        let slice = if self.all == self.tiles { 0 } else { self.of_slice.divide(number) };
        let number = number - slice * self.tiles;
        let first_row = at_most(self.of_group.divide(number) * self.group, self.last_row);
        let in_group = number - first_row * self.cols;
        let (rows, by) = match first_row == self.last_row {
            true => (self.of_last_group, self.of_last),
            false => (self.group, self.of_whole),
        };
        let quotient = by.divide(in_group);
        let (row, col, is_beside) =
            match cluster == 2 && self.has_beside != 0 && first_row == self.last_row {
                true => of_pair(quotient, in_group - quotient * (2 * rows + 1), rows),
                false => (in_group - quotient * rows, quotient, false),
            };
        let [down, across] = cluster_tiles(cluster);
        Some((slice, ((first_row + row) * down, col * across, is_beside)))
    }

    /// `step` modulo the steps of a slice but for the last.
    #[inline(always)]
    pub const fn step(&self, step: u32) -> u32 {
        step - self.of_steps.divide(step) * self.steps
    }

    /// All numbers, in their order.
    pub const fn words(&self) -> [u32; 25] {
        let TileOrder { of_slice, of_group, of_whole, of_last, of_steps, of_gpcs, .. } = *self;
        [
            self.rows,
            self.cols,
            self.has_beside,
            self.tiles,
            self.all,
            self.group,
            self.last_row,
            self.of_last_group,
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
            self.holds_next,
            self.gpcs,
            self.pairs_before,
            of_gpcs.multiplier,
            of_gpcs.shift,
        ]
    }
}

/// The compiler sees that a division by it cannot panic, and leaves the check out.
#[inline]
const fn at_least_1(x: u32) -> u32 {
    if x == 0 { 1 } else { x }
}

#[inline]
const fn at_most(x: u32, most: u32) -> u32 {
    if x < most { x } else { most }
}

#[cfg(test)]
mod tests;
