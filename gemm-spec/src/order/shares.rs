//! Equal shares of the steps of all tiles, of which no tile has a whole number.
//!
//! Clusters go through the steps of all tiles, one tile behind the other, a share each; what a
//! share has of a tile is one of the tile's parts, which a second kernel adds up. Of 2 tiles of 10
//! steps, by 5 clusters, as they stand in a row:
//!
//! ```text
//! tile      0 0 0 0 0 0 0 0 0 0 1 1 1 1 1 1 1 1 1 1
//! step      0 2 4 6 1 3 5 7 8 9 8 9 0 2 4 6 1 3 5 7
//! cluster   0 0 0 0 1 1 1 1 2 2 2 2 3 3 3 3 4 4 4 4
//! ```
//!
//! Whole shares of a tile take its first steps in turn, and what is less than a share, before or
//! behind them, has the last ones: at one time clusters of all tiles read nearly the same rows of
//! K, out of the L2 cache, and those of one tile what lies beside each other in memory.

use super::{TileOrder, at_least_1, at_most};

/// Equal shares of all tiles' steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EqualShares {
    /// Steps of a share; the last cluster may have fewer.
    pub steps: u32,
    /// Parts that a tile has, all as many.
    pub parts: u32,
}

/// What a cluster computes at a time: some of the steps of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The tile's number.
    pub tile: u32,
    /// Which of its parts it is.
    pub part: u32,
    /// The first step of K.
    pub first: u32,
    /// From a step to the next.
    pub each: u32,
    /// How many there are, at least one.
    pub steps: u32,
}

impl EqualShares {
    /// Those of so many tiles, of so many steps each, for `clusters` clusters; `None` where tiles
    /// are whole then, or have no more parts, all as long, than there are clusters for them, or
    /// where numbers are too large.
    pub const fn of(tiles: u32, steps: u32, clusters: u32) -> Option<Self> {
        let all = tiles as u64 * steps as u64;
        if all == 0 || all >= 1 << 31 || clusters == 0 {
            return None;
        }
        let share = (all as u32).div_ceil(clusters);
        let (mut tile, mut parts) = (0, 0);
        while tile < tiles {
            let [first, last] = clusters_of(tile, steps, share);
            if last - first + 1 > parts {
                parts = last - first + 1;
            }
            tile += 1;
        }
        if parts == 1 || tiles as u64 * parts as u64 <= clusters as u64 {
            return None;
        }
        // A tile of fewer parts has its last one cut in two.
        tile = 0;
        while tile < tiles {
            let [first, last] = clusters_of(tile, steps, share);
            let end = (tile + 1) * steps;
            let of_last = if first == last { steps } else { end - last * share };
            if last - first + 1 + 1 < parts || last - first + 1 < parts && of_last < 2 {
                return None;
            }
            tile += 1;
        }
        Some(EqualShares { steps: share, parts })
    }
}

/// The clusters that have the first and the last step of a tile of `steps` steps.
const fn clusters_of(tile: u32, steps: u32, share: u32) -> [u32; 2] {
    let (share, begin) = (at_least_1(share), tile * steps);
    [begin / share, (begin + steps - 1) / share]
}

impl TileOrder {
    /// The same of equal shares.
    pub const fn sharing(self, shares: EqualShares) -> Self {
        let EqualShares { steps, parts } = shares;
        let of_share = super::Divisor::new(steps);
        TileOrder { share: steps, parts, of_share, turns: 0, ..self }
    }

    /// What a cluster has to compute from step `at` of all on, of which its own begin at its number
    /// times the share; `None` behind its last. It has gone on by the piece's steps then.
    ///
    /// # Preconditions
    ///
    /// The order is of one slice and [shares](Self::sharing) its steps.
    #[inline(always)]
    pub const fn piece(&self, cluster: u32, at: u32) -> Option<Piece> {
        let (share, steps) = (self.share, self.steps);
        let begin = cluster * share;
        let end = at_most(begin + share, self.all * steps);
        if at >= end {
            return None;
        }
        let tile = self.of_steps.divide(at);
        let of_tile = tile * steps;
        let first = self.of_share.divide(of_tile);
        let last = self.of_share.divide(of_tile + steps - 1);
        let (from, to) = (at - of_tile, at_most(steps, end - of_tile));
        // Of a tile of fewer parts the last step is one for itself.
        let is_second = at != begin && from != 0;
        let is_cut = !is_second && to == steps && last - first + 1 < self.parts;
        let to = if is_cut { to - 1 } else { to };
        let part = cluster - first + is_second as u32;
        // Steps of the first part, if that is no whole share.
        let lead = (first + 1) * share - of_tile;
        let lead = if lead >= at_most(share, steps) { 0 } else { lead };
        let whole = self.of_share.divide(steps - lead);
        let (first, each) = match from.checked_sub(lead) {
            None => (steps - lead + from, 1),
            Some(at) => {
                let number = self.of_share.divide(at);
                let in_turn = number + (at - number * share) * whole;
                if number < whole { (in_turn, whole) } else { (at, 1) }
            }
        };
        Some(Piece { tile, part, first, each, steps: to - from })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{TileOrder, of_clusters};
    use super::*;
    use std::vec;

    #[test]
    fn every_step_of_every_tile_is_in_one_part() {
        let mut shared = 0;
        for tiles_m in 1..30 {
            for tiles_n in [1, 2, 3, 9] {
                for steps in [1, 2, 3, 5, 8, 24, 64, 257] {
                    for clusters in [1, 2, 14, 15, 16] {
                        let tiles = of_clusters([tiles_m, tiles_n], 8, 1, clusters);
                        if let Some(shares) = EqualShares::of(tiles, steps, clusters) {
                            check([tiles_m, tiles_n], steps, clusters, shares);
                            shared += 1;
                        }
                    }
                }
            }
        }
        assert!(shared > 500, "{shared}");
    }

    fn check(tiles: [u32; 2], steps: u32, clusters: u32, shares: EqualShares) {
        let order = TileOrder::new(tiles, 8, [1, steps], clusters, 2).sharing(shares);
        let number = of_clusters(tiles, 8, 1, clusters);
        let mut seen = vec![vec![false; steps as usize]; number as usize];
        let mut parts = vec![vec![false; shares.parts as usize]; number as usize];
        for cluster in 0..clusters {
            let (mut at, mut of_cluster) = (cluster * shares.steps, 0);
            while let Some(piece) = order.piece(cluster, at) {
                let tile = piece.tile as usize;
                assert!(piece.steps > 0, "{piece:?}");
                for i in 0..piece.steps {
                    let step = piece.first + i * piece.each;
                    let seen = &mut seen[tile][step as usize];
                    assert!(!*seen, "{:?}: {piece:?}", (tiles, steps, clusters));
                    *seen = true;
                }
                let part = &mut parts[tile][piece.part as usize];
                assert!(!*part, "{:?}: {piece:?} again", (tiles, steps, clusters));
                *part = true;
                (at, of_cluster) = (at + piece.steps, of_cluster + piece.steps);
            }
            assert!(of_cluster <= shares.steps);
        }
        assert!(seen.iter().flatten().all(|&seen| seen), "{:?}", (tiles, steps, clusters));
        assert!(parts.iter().flatten().all(|&part| part), "{:?}", (tiles, steps, clusters));
    }

    #[test]
    fn shares_that_begin_in_a_tile_read_the_same_rows_of_k() {
        let shares = EqualShares::of(2, 1020, 15).unwrap();
        assert_eq!(shares, EqualShares { steps: 136, parts: 8 });
        let order = TileOrder::new([4, 4], 8, [1, 1020], 15, 2).sharing(shares);
        for cluster in [0, 1, 6, 8, 9, 14] {
            let piece = order.piece(cluster, cluster * 136).unwrap();
            assert_eq!([piece.first, piece.each], [cluster % 8, 7], "{piece:?}");
        }
        let first = order.piece(7, 7 * 136).unwrap();
        assert_eq!(first, Piece { tile: 0, part: 7, first: 952, each: 1, steps: 68 });
        let second = order.piece(7, 7 * 136 + 68).unwrap();
        assert_eq!(second, Piece { tile: 1, part: 0, first: 952, each: 1, steps: 68 });
    }

    #[test]
    fn whole_tiles_and_equal_parts_are_no_shares() {
        for tiles in [1, 3, 5, 15, 30] {
            assert_eq!(EqualShares::of(tiles, 15, 15), None, "{tiles}");
        }
        assert_eq!(EqualShares::of(0, 8, 15), None);
        assert_eq!(EqualShares::of(8, 0, 15), None);
        assert_eq!(EqualShares::of(8, 8, 0), None);
        assert_eq!(EqualShares::of(1 << 16, 1 << 15, 15), None);
    }
}
