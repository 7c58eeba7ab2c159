//! Tests of what orders accesses of threads, and what does not.

use super::*;

pub(super) const ALL: u32 = u32::MAX;
pub(super) const SHARED: Space = Space::Shared(0);

/// Four warps in one block.
pub(super) fn block() -> Order {
    Order::new(&[ALL; 4], 1)
}

pub(super) fn access(kind: Kind, line: u32) -> Access {
    Access { kind, line }
}

pub(super) fn lane(warp: usize, lane: u32) -> Actor {
    Actor::Lanes { warp, lanes: 1 << lane }
}

/// All lanes of a warp write or read their word, from `base` on.
pub(super) fn row(
    order: &mut Order,
    warp: usize,
    base: u64,
    kind: Kind,
    line: u32,
) -> Result<(), Box<Race>> {
    let addresses = std::array::from_fn(|lane| base + 4 * lane as u64);
    order.access_lanes((warp, ALL), SHARED, &addresses, 4, access(kind, line))
}

pub(super) fn why(result: Result<(), Box<Race>>) -> Why {
    result.unwrap_err().why
}

const BARRIER: SyncObject = SyncObject::Barrier { block: 0, number: 0 };
pub(super) const MBARRIER: SyncObject = SyncObject::Mbarrier { block: 0, offset: 64 };

/// A barrier of all four warps.
pub(super) fn barrier(order: &mut Order, phase: u64) {
    (0..4).for_each(|warp| order.release(warp, ALL, BARRIER, phase));
    (0..4).for_each(|warp| order.acquire(warp, ALL, BARRIER, phase));
}

#[test]
fn a_barrier_orders_warps() {
    let mut order = block();
    for phase in 0..4 {
        for warp in 0..4 {
            row(&mut order, warp, 128 * warp as u64, Kind::Write, 1).unwrap();
        }
        barrier(&mut order, 2 * phase);
        for warp in 0..4 {
            for from in 0..4 {
                row(&mut order, warp, 128 * from, Kind::Read, 2).unwrap();
            }
        }
        barrier(&mut order, 2 * phase + 1);
    }
}

#[test]
fn without_a_barrier_both_sides_are_named() {
    let mut order = block();
    row(&mut order, 0, 0, Kind::Write, 10).unwrap();
    let race = order.access(lane(1, 7), SHARED, 12, 4, access(Kind::Read, 20)).unwrap_err();
    assert_eq!(race.this, Site { warp: 1, lane: 7, line: 20, writes: false, by_operation: false });
    assert_eq!(race.other, Site { warp: 0, lane: 3, line: 10, writes: true, by_operation: false });
    assert_eq!((race.address, race.why), (12, Why::Unordered));
    assert_eq!(
        race.to_string(),
        "race at shared+0xc of block 0: read of line 20 by warp 1, lane 7, after the write of \
         line 10 by warp 0, lane 3: nothing orders them"
    );
}

#[test]
fn a_write_waits_for_all_readers() {
    let mut order = block();
    row(&mut order, 0, 0, Kind::Write, 1).unwrap();
    barrier(&mut order, 0);
    (1..4).for_each(|warp| row(&mut order, warp, 0, Kind::Read, 2).unwrap());
    // A barrier that one of the readers has not come to.
    (0..3).for_each(|warp| order.release(warp, ALL, BARRIER, 1));
    order.acquire(0, ALL, BARRIER, 1);
    let race = row(&mut order, 0, 0, Kind::Write, 3).unwrap_err();
    assert_eq!((race.other.warp, race.other.writes), (3, false));
}

#[test]
fn each_of_many_readers_counts() {
    const WARPS: usize = 9;
    for unordered in 0..WARPS - 1 {
        let mut order = Order::new(&[ALL; WARPS], 1);
        let writer = WARPS - 1;
        for warp in 0..writer {
            row(&mut order, warp, 0, Kind::Read, 1 + warp as u32).unwrap();
        }
        for warp in (0..writer).filter(|&warp| warp != unordered) {
            order.release(warp, ALL, BARRIER, 0);
        }
        order.acquire(writer, ALL, BARRIER, 0);
        let race = row(&mut order, writer, 0, Kind::Write, 20).unwrap_err();
        assert_eq!((race.other.warp, race.other.line), (unordered as u32, 1 + unordered as u32));
    }
}

#[test]
fn global_memory_is_checked_past_the_end_of_a_page() {
    const PAGE: u64 = PAGE_BYTES;
    for address in [PAGE - 8, PAGE - 2, PAGE, 2 * PAGE - 4] {
        let write = access(Kind::Write, 1);
        for at in PAGE - 8..2 * PAGE + 16 {
            let mut order = block();
            order.access(lane(0, 0), Space::Global, address, PAGE as u32 + 4, write).unwrap();
            let second = order.access(lane(1, 0), Space::Global, at, 1, write);
            let is_there = (address..address + PAGE + 4).contains(&at);
            assert_eq!(second.is_err(), is_there, "{at} of {address}");
        }
    }
}

#[test]
fn lanes_of_a_warp_need_a_warp_barrier() {
    let mut order = block();
    row(&mut order, 0, 0, Kind::Write, 1).unwrap();
    let own = row(&mut order, 0, 0, Kind::Read, 2);
    assert_eq!(own, Ok(()));
    let next = |order: &mut Order| order.access(lane(0, 5), SHARED, 16, 4, access(Kind::Read, 3));
    assert_eq!(why(next(&mut order)), Why::SameWarp);
    order.warp_sync(0, ALL);
    assert_eq!(next(&mut order), Ok(()));
}

#[test]
fn a_warp_barrier_of_some_lanes_orders_these() {
    let mut order = block();
    row(&mut order, 0, 0, Kind::Write, 1).unwrap();
    order.warp_sync(0, 0b11);
    let read = |order: &mut Order, by, of: u64| {
        order.access(lane(0, by), SHARED, 4 * of, 4, access(Kind::Read, 2))
    };
    assert_eq!(read(&mut order, 0, 1), Ok(()));
    assert_eq!(why(read(&mut order, 0, 2)), Why::SameWarp);
    assert_eq!(why(read(&mut order, 2, 0)), Why::SameWarp);
}

#[test]
fn bytes_of_a_word_are_apart() {
    let mut order = block();
    for byte in 0..4 {
        let write = access(Kind::Write, 1);
        order.access(lane(byte as usize, 0), SHARED, byte, 1, write).unwrap();
    }
    let half = order.access(lane(0, 0), SHARED, 0, 2, access(Kind::Read, 2)).unwrap_err();
    assert_eq!((half.address, half.other.warp), (1, 1));
    barrier(&mut order, 0);
    order.access(lane(0, 0), SHARED, 0, 4, access(Kind::Write, 3)).unwrap();
    let word = order.access(lane(1, 0), SHARED, 2, 2, access(Kind::Write, 4));
    assert_eq!(why(word), Why::Unordered);
    // An access over two words, of which it has half each.
    let straddling = order.access(lane(0, 0), SHARED, 2, 4, access(Kind::Write, 5));
    assert_eq!(straddling, Ok(()));
    order.access(lane(2, 0), SHARED, 6, 2, access(Kind::Write, 6)).unwrap();
    assert!(order.access(lane(2, 0), SHARED, 5, 1, access(Kind::Read, 6)).is_err());
}

#[test]
fn an_mbarrier_passes_a_message_to_those_who_wait() {
    let mut order = block();
    row(&mut order, 0, 0, Kind::Write, 1).unwrap();
    order.release(0, ALL, MBARRIER, 0);
    let read = |order: &mut Order, warp| row(order, warp, 0, Kind::Read, 2);
    assert_eq!(why(read(&mut order, 1)), Why::Unordered);
    order.acquire(1, ALL, MBARRIER, 1);
    assert_eq!(why(read(&mut order, 1)), Why::Unordered);
    order.acquire(1, ALL, MBARRIER, 0);
    assert_eq!(read(&mut order, 1), Ok(()));
    assert_eq!(why(read(&mut order, 2)), Why::Unordered);
}

#[test]
fn what_comes_after_the_arrival_is_not_passed() {
    let mut order = block();
    order.release(0, ALL, MBARRIER, 0);
    row(&mut order, 0, 0, Kind::Write, 1).unwrap();
    order.acquire(1, ALL, MBARRIER, 0);
    assert_eq!(why(row(&mut order, 1, 0, Kind::Read, 2)), Why::Unordered);
}

#[test]
fn phases_do_not_mix() {
    let mut order = block();
    row(&mut order, 0, 0, Kind::Write, 1).unwrap();
    order.release(0, ALL, MBARRIER, 0);
    order.release(2, ALL, MBARRIER, 2);
    order.acquire(1, ALL, MBARRIER, 2);
    assert_eq!(why(row(&mut order, 1, 0, Kind::Read, 2)), Why::Unordered);
}

#[test]
fn one_lane_arrives_for_its_warp_only_after_a_warp_barrier() {
    for synchronised in [false, true] {
        let mut order = block();
        row(&mut order, 0, 0, Kind::Write, 1).unwrap();
        if synchronised {
            order.warp_sync(0, ALL);
        }
        order.release(0, 1, MBARRIER, 0);
        order.acquire(1, ALL, MBARRIER, 0);
        let own = order.access(lane(1, 9), SHARED, 0, 4, access(Kind::Read, 2));
        assert_eq!(own, Ok(()));
        let all = row(&mut order, 1, 0, Kind::Read, 2);
        assert_eq!(all.is_ok(), synchronised);
    }
}

#[test]
fn one_lane_waits_for_its_warp_only_before_a_warp_barrier() {
    for synchronised in [false, true] {
        let mut order = block();
        row(&mut order, 0, 0, Kind::Write, 1).unwrap();
        order.release(0, ALL, MBARRIER, 0);
        order.acquire(1, 1, MBARRIER, 0);
        assert_eq!(order.access(lane(1, 0), SHARED, 40, 4, access(Kind::Read, 2)), Ok(()));
        if synchronised {
            order.warp_sync(1, ALL);
        }
        assert_eq!(row(&mut order, 1, 0, Kind::Read, 2).is_ok(), synchronised);
    }
}

#[test]
fn messages_go_on_from_hand_to_hand() {
    let mut order = block();
    row(&mut order, 0, 0, Kind::Write, 1).unwrap();
    order.release(0, ALL, MBARRIER, 0);
    order.acquire(1, ALL, MBARRIER, 0);
    order.release(1, 2, MBARRIER, 1);
    order.acquire(2, 4, MBARRIER, 1);
    assert_eq!(order.access(lane(2, 2), SHARED, 4, 4, access(Kind::Write, 2)), Ok(()));
    assert!(order.access(lane(2, 3), SHARED, 8, 4, access(Kind::Write, 2)).is_err());
}

#[test]
fn the_clusters_barrier_orders_blocks() {
    let mut order = Order::new(&[ALL; 4], 2);
    let there = Space::Shared(1);
    order.access(lane(0, 0), there, 8, 4, access(Kind::Write, 1)).unwrap();
    assert_eq!(order.access(lane(2, 0), SHARED, 8, 4, access(Kind::Read, 2)), Ok(()));
    let read = |order: &mut Order| order.access(lane(2, 0), there, 8, 4, access(Kind::Read, 2));
    assert!(read(&mut order).is_err());
    (0..4).for_each(|warp| order.release(warp, ALL, SyncObject::Cluster, 0));
    (0..4).for_each(|warp| order.acquire(warp, ALL, SyncObject::Cluster, 0));
    assert_eq!(read(&mut order), Ok(()));
}

#[test]
fn a_relaxed_arrival_passes_what_a_fence_released() {
    for fenced in [false, true] {
        let mut order = block();
        row(&mut order, 0, 0, Kind::Write, 1).unwrap();
        if fenced {
            order.fence(0, ALL);
        }
        row(&mut order, 0, 256, Kind::Write, 1).unwrap();
        order.release_fenced(0, ALL, MBARRIER, 0);
        order.acquire(1, ALL, MBARRIER, 0);
        assert_eq!(row(&mut order, 1, 0, Kind::Read, 2).is_ok(), fenced);
        assert!(row(&mut order, 1, 256, Kind::Read, 2).is_err());
    }
}

/// Data and a flag in global memory: the writer's fence and the reader's, each left out in turn.
#[test]
fn a_flag_needs_a_fence_on_both_sides() {
    for (writer, reader) in [(true, true), (false, true), (true, false)] {
        let mut order = block();
        let flag = SyncObject::Location(Space::Global, 0x1_0000);
        let (data, at) = (0x2_0000, Space::Global);
        order.access(lane(0, 0), at, data, 8, access(Kind::Write, 1)).unwrap();
        if writer {
            order.fence(0, 1);
        }
        order.access(lane(0, 0), at, 0x1_0000, 4, access(Kind::StrongWrite, 2)).unwrap();
        order.release_fenced(0, 1, flag, 0);
        order.access(lane(3, 4), at, 0x1_0000, 4, access(Kind::StrongRead, 3)).unwrap();
        order.acquire_with_fence(3, 1 << 4, flag, 0);
        if reader {
            order.fence(3, 1 << 4);
        }
        let read = order.access(lane(3, 4), at, data, 8, access(Kind::Read, 4));
        assert_eq!(read.is_ok(), writer && reader);
    }
}

#[test]
fn strong_accesses_race_with_weak_ones_alone() {
    let mut order = block();
    let at = |order: &mut Order, warp, kind| {
        order.access(lane(warp, 0), Space::Global, 64, 4, access(kind, warp as u32))
    };
    at(&mut order, 0, Kind::StrongWrite).unwrap();
    at(&mut order, 1, Kind::StrongWrite).unwrap();
    at(&mut order, 2, Kind::StrongRead).unwrap();
    assert_eq!(why(at(&mut order, 3, Kind::Read)), Why::Unordered);
}

#[test]
fn what_is_forgotten_races_no_more() {
    let mut order = block();
    row(&mut order, 0, 0, Kind::Write, 1).unwrap();
    order.forget(0, 0, 128);
    assert_eq!(row(&mut order, 1, 0, Kind::Write, 2), Ok(()));
}

/// Two blocks of two warps; `.cta` scope does not reach from one to the other.
#[test]
fn accesses_of_a_blocks_scope_are_weak_towards_other_blocks() {
    use Kind::{BlockRead, BlockWrite, StrongRead, StrongWrite};
    for (first, second) in [
        (BlockWrite, BlockWrite),
        (BlockWrite, StrongRead),
        (StrongWrite, BlockRead),
        (BlockRead, StrongWrite),
    ] {
        for (warp, same_block) in [(1, true), (2, false)] {
            let mut order = Order::new(&[ALL; 4], 2);
            order.access(lane(0, 0), SHARED, 8, 4, access(first, 1)).unwrap();
            let result = order.access(lane(warp, 0), SHARED, 8, 4, access(second, 2));
            assert_eq!(result.is_ok(), same_block, "{first:?} {second:?}");
        }
    }
}
