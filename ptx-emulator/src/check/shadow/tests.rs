//! Tests of the shadow memory.

use super::*;

fn stamp(block: u64, thread: u32, epoch: u32) -> Stamp {
    Stamp { block, thread, epoch, warp_epoch: 0, wrapped: false, line: 7, reach: Reach::Weak }
}

#[test]
fn barriers_order_and_neighbours_do_not_race() {
    let mut shadow = BlockShadow::new(4);
    assert_eq!(shadow.access(0, 4, &stamp(0, 1, 1), true), None);
    assert_eq!(shadow.access(4, 4, &stamp(0, 2, 1), true), None);
    let found = shadow.access(0, 4, &stamp(0, 2, 1), false).unwrap();
    assert_eq!(found, Race { block: 0, thread: 1, line: 7, wrote: true });
    assert_eq!(shadow.access(0, 4, &stamp(0, 2, 2), false), None);
    assert_eq!(shadow.access(0, 4, &stamp(0, 1, 2), true).unwrap().thread, 2);
    for byte in 0..4 {
        assert_eq!(shadow.access(8 + byte, 1, &stamp(0, byte as u32, 1), true), None);
    }
    assert!(shadow.access(8, 4, &stamp(0, 0, 1), false).is_some());
    assert_eq!(shadow.access(8, 8, &stamp(0, 0, 2), false), None);
    assert!(shadow.access(14, 2, &stamp(0, 1, 2), true).is_some());
}

#[test]
fn warps_have_intervals_of_their_own() {
    let mut shadow = BlockShadow::new(1);
    let at = |thread, warp_epoch| Stamp { warp_epoch, ..stamp(0, thread, 1) };
    assert_eq!(shadow.access(0, 4, &at(1, 0), true), None);
    assert_eq!(shadow.access(0, 4, &at(2, 1), false), None);
    assert_eq!(shadow.access(0, 4, &at(3, 1), false), None);
    assert!(shadow.access(0, 4, &at(2, 1), true).is_some());
    let mut shadow = BlockShadow::new(1);
    assert_eq!(shadow.access(0, 4, &at(1, 0), false), None);
    assert_eq!(shadow.access(0, 4, &at(1, 1), true), None);
    assert!(shadow.access(0, 4, &at(32, 2), true).is_some());
}

#[test]
fn strong_accesses_race_only_with_weak_ones() {
    let mut shadow = BlockShadow::new(1);
    let strong = |thread| Stamp { reach: Reach::All, ..stamp(0, thread, 1) };
    assert_eq!(shadow.access(0, 4, &strong(1), true), None);
    assert_eq!(shadow.access(0, 4, &strong(2), true), None);
    assert!(shadow.access(0, 4, &stamp(0, 1, 1), false).is_some());
}

#[test]
fn blocks_are_not_ordered() {
    let page = PageShadow::new();
    let fences = Fences { released: &[], warps: 1, acquired: false };
    let access = |word, byte, size, stamp: Stamp, writes| {
        page.access(word, byte, size, (&stamp, fences), writes)
    };
    assert_eq!(access(0, 0, 4, stamp(0, 1, 1), false), None);
    assert_eq!(access(0, 0, 4, stamp(1, 1, 9), false), None);
    let found = access(0, 0, 4, stamp(1, 1, 10), true).unwrap();
    assert_eq!((found.block, found.wrote), (0, false));
    assert_eq!(access(9, 0, 4, stamp(2, 1, 1), true), None);
    assert_eq!(access(9, 0, 4, stamp(2, 1, 1), false), None);
    assert_eq!(access(9, 0, 4, stamp(2, 5, 2), false), None);
    assert!(access(9, 2, 2, stamp(3, 5, 2), false).is_some());
    assert_eq!(access(20, 1, 1, stamp(3, 1, 1), true), None);
    assert_eq!(access(20, 2, 1, stamp(4, 1, 1), true), None);
    assert!(access(20, 0, 4, stamp(4, 1, 2), false).is_some());
}

#[test]
fn strong_readers_of_other_blocks_hide_no_weak_one() {
    let weak = |block| stamp(block, 1, 1);
    let strong = |block| Stamp { reach: Reach::All, ..stamp(block, 1, 1) };
    for readers in [[weak(0), strong(1)], [strong(1), weak(0)]] {
        for (writer, expected) in [
            (strong(0), None),
            (weak(0), Some(0)),
            (strong(1), Some(0)),
            (strong(2), Some(0)),
            (weak(2), Some(0)),
        ] {
            let page = PageShadow::new();
            let fences = Fences { released: &[], warps: 1, acquired: false };
            for reader in &readers {
                assert_eq!(page.access(0, 0, 4, (reader, fences), false), None);
            }
            let found = page.access(0, 0, 4, (&writer, fences), true);
            assert_eq!(found.map(|race| race.block), expected, "{readers:?} {writer:?}");
        }
    }
}

#[test]
fn a_weak_read_counts_behind_a_strong_one_of_its_warp() {
    let weak = |thread, warp_epoch| Stamp { warp_epoch, ..stamp(0, thread, 1) };
    let strong = |thread, warp_epoch| Stamp { reach: Reach::All, ..weak(thread, warp_epoch) };
    let mut shadow = BlockShadow::new(1);
    let mut access = |stamp: Stamp, writes| shadow.access(0, 4, &stamp, writes);
    assert_eq!(access(weak(0, 0), false), None);
    assert_eq!(access(strong(1, 1), false), None);
    // Its own warp has ended an interval between.
    assert_eq!(access(strong(2, 1), true), None);
    assert_eq!(access(strong(32, 0), true).map(|race| race.wrote), Some(false));
    // Weakly once more, in the interval of the strong one.
    let mut shadow = BlockShadow::new(1);
    let mut access = |stamp: Stamp, writes| shadow.access(0, 4, &stamp, writes);
    for read in [weak(0, 0), strong(0, 1), weak(1, 1)] {
        assert_eq!(access(read, false), None);
    }
    assert_eq!(access(strong(2, 1), true).map(|race| race.wrote), Some(false));
}

#[test]
fn fences_of_both_clusters_may_order_them() {
    for time in [5, 70_000, 10_000_000] {
        let page = PageShadow::new();
        let released: [AtomicU32; 4] = Default::default();
        let fences = |acquired| Fences { released: &released, warps: 2, acquired };
        let by = stamp(0, 0, 0).at(1, time);
        assert_eq!(page.access(0, 0, 4, (&by, fences(false)), true), None);
        let reader = stamp(1, 0, 0).at(0, 1);
        let read = |acquired| page.access(0, 0, 4, (&reader, fences(acquired)), false);
        assert!(read(false).is_some() && read(true).is_some());
        // A fence of a warp that knows of it what it did before.
        fences(false).release(0, [time + 4, time - 1].into_iter());
        assert!(read(true).is_some());
        fences(false).release(0, [time + 4, time].into_iter());
        assert!(read(false).is_some() && read(true).is_none());
        fences(false).release(0, [0, 0].into_iter());
        assert!(read(true).is_none());
    }
}
