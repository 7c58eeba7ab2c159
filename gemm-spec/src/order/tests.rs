//! Tests of the order of tiles.

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
                let of_number = |number: u32| {
                    let at = of_cluster(number % count, extent, count, cluster, group);
                    (number / count, at)
                };
                let mut expected: Vec<_> = (0..count * slices).map(of_number).collect();
                let places = (0..count * slices).map(|number| order.place(number, cluster));
                let mut places: Vec<_> = places.map(Option::unwrap).collect();
                // Those side by side have other numbers.
                if count != extent[0] * extent[1] {
                    expected.sort();
                    places.sort();
                }
                assert_eq!(places, expected, "{:?}", (tiles, cluster, group, slices));
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

#[test]
fn the_odd_last_row_lies_between_the_columns_whose_b_it_reads() {
    // The picture of `TileOrder`'s documentation.
    let picture = [[1, 3, 6], [1, 3, 6], [2, 4, 7], [2, 4, 7], [0, 0, 5]];
    let order = TileOrder::new([5, 3], 2, [1, 1], 8, 2);
    let tiles = (0..u32::MAX).map_while(|number| order.place(number, 2)).enumerate();
    for (number, (_, (row, col, is_beside))) in tiles.clone() {
        let (row, col) = (row as usize, col as usize);
        assert_eq!(picture[row][col], number);
        match is_beside {
            true => assert!((row, col + 1) == (4, 3) || picture[row][col + 1] == number),
            false => assert_eq!(picture[row + 1][col], number),
        }
    }
    assert_eq!(tiles.count(), 8);
    // Columns of B that the waves of 66 clusters touch, of 3 x 128 tiles: each in one wave or two,
    // where the last row at the end would touch each again.
    let order = TileOrder::new([3, 128], 2, [1, 64], 66, 8);
    let places: Vec<_> = (0..u32::MAX).map_while(|number| order.place(number, 2)).collect();
    let cols = |wave: &[(u32, (u32, u32, bool))]| {
        let cols = wave.iter().flat_map(|&(_, (_, col, beside))| [col, col + u32::from(beside)]);
        cols.collect::<HashSet<_>>().len()
    };
    assert_eq!(places.len(), 192);
    assert!(places.chunks(66).map(cols).sum::<usize>() <= 128 + 2 * 2);
}

#[test]
fn clusters_that_are_near_begin_with_tiles_of_their_own() {
    let order = TileOrder::new([32, 4], 2, [1, 64], 64, 1);
    assert!(!order.holds_next() && order.spread().holds_next());
    let firsts = |order: TileOrder, clusters| -> Vec<u32> {
        (0..clusters).map(|cluster| order.first(cluster, clusters)).collect()
    };
    assert_eq!(firsts(order.spread(), 5), [0, 1, 2, 3, 4]);
    for (gpcs, before) in [(7, 4), (8, 0), (1, 0), (3, 2)] {
        let near = order.near(gpcs, before);
        assert!(near.holds_next());
        for clusters in [before, before + 1, 17, 60, 64, 66] {
            let mut all = firsts(near, clusters);
            // Of each GPC, one after the other.
            for gpc in 0..gpcs {
                let of_gpc: Vec<_> = all[before as usize..]
                    .iter()
                    .skip(gpc as usize)
                    .step_by(gpcs as usize)
                    .collect();
                assert!(of_gpc.windows(2).all(|two| *two[0] + 1 == *two[1]), "{of_gpc:?}");
            }
            all.sort_unstable();
            assert!(all.iter().copied().eq(0..clusters), "{clusters} clusters, {gpcs} GPCs");
        }
    }
    // Each GPC has eight of 64, and the one before them the last four.
    assert_eq!(firsts(order.near(7, 4), 64)[..12], [60, 61, 62, 63, 0, 9, 18, 27, 36, 44, 52, 1]);
}
