//! Tests of asynchronous operations: what their issue, completion and proxy order.

use super::tests::{ALL, MBARRIER, SHARED, access, barrier, block, lane, row, why};
use super::*;

const EMPTY: SyncObject = SyncObject::Mbarrier { block: 0, offset: 72 };
const TILE: u32 = 128;

fn by_op(
    order: &mut Order,
    op: OpId,
    address: u64,
    kind: Kind,
    line: u32,
) -> Result<(), Box<Race>> {
    order.access(Actor::Op(op), SHARED, address, TILE, access(kind, line))
}

/// One lane issues a load of a tile.
fn load(order: &mut Order, warp: usize, address: u64) -> Result<OpId, Box<Race>> {
    let op = order.issue(warp, 1, true);
    by_op(order, op, address, Kind::Write, 50).map(|()| op)
}

#[test]
fn a_load_is_complete_for_those_who_wait() {
    let mut order = block();
    let op = load(&mut order, 0, 0).unwrap();
    assert_eq!(why(row(&mut order, 0, 0, Kind::Read, 2)), Why::InFlight);
    order.complete_at(op, MBARRIER, 0);
    assert_eq!(why(row(&mut order, 1, 0, Kind::Read, 2)), Why::Unordered);
    order.acquire(1, ALL, MBARRIER, 0);
    assert_eq!(row(&mut order, 1, 0, Kind::Read, 2), Ok(()));
    order.acquire(2, 1, MBARRIER, 0);
    assert_eq!(order.access(lane(2, 0), SHARED, 4, 4, access(Kind::Read, 2)), Ok(()));
    assert!(order.access(lane(2, 1), SHARED, 4, 4, access(Kind::Read, 2)).is_err());
    order.warp_sync(2, ALL);
    assert_eq!(row(&mut order, 2, 0, Kind::Read, 2), Ok(()));
}

#[test]
fn completion_passes_nothing_of_the_issuer() {
    let mut order = block();
    order.access(lane(0, 0), SHARED, 512, 4, access(Kind::Write, 1)).unwrap();
    let op = load(&mut order, 0, 0).unwrap();
    order.complete_at(op, MBARRIER, 0);
    order.acquire(1, ALL, MBARRIER, 0);
    let read = |order: &mut Order| order.access(lane(1, 0), SHARED, 512, 4, access(Kind::Read, 2));
    assert_eq!(why(read(&mut order)), Why::Unordered);
    order.release(0, 1, MBARRIER, 1);
    order.acquire(1, ALL, MBARRIER, 1);
    assert_eq!(read(&mut order), Ok(()));
}

/// A slot is filled, read by threads, and filled again: by a producer that waits for the readers'
/// arrival, or does not.
#[test]
fn a_slot_is_reused_when_its_readers_have_arrived() {
    for waits in [true, false] {
        let mut order = block();
        for phase in 0..3 {
            if waits && phase > 0 {
                order.acquire(0, 1, EMPTY, phase - 1);
            }
            let op = match load(&mut order, 0, 0) {
                Ok(op) => op,
                Err(race) => {
                    assert!(!waits && phase == 1);
                    assert_eq!(race.why, Why::Unordered);
                    break;
                }
            };
            order.complete_at(op, MBARRIER, phase);
            for warp in 1..4 {
                order.acquire(warp, ALL, MBARRIER, phase);
                row(&mut order, warp, 0, Kind::Read, 2).unwrap();
                order.release(warp, ALL, EMPTY, phase);
            }
        }
    }
}

/// As above, with one of the lanes arriving for its warp.
#[test]
fn an_elected_lane_arrives_after_a_warp_barrier() {
    for synchronised in [true, false] {
        let mut order = block();
        let op = load(&mut order, 0, 0).unwrap();
        order.complete_at(op, MBARRIER, 0);
        order.acquire(1, ALL, MBARRIER, 0);
        row(&mut order, 1, 0, Kind::Read, 2).unwrap();
        if synchronised {
            order.warp_sync(1, ALL);
        }
        order.release(1, 1, EMPTY, 0);
        order.acquire(0, 1, EMPTY, 0);
        assert_eq!(load(&mut order, 0, 0).is_ok(), synchronised);
    }
}

/// Threads write a tile, one lane stores it: the proxy fence is there (before the barrier by all,
/// after it by the issuer), comes too early, or is missing.
#[test]
fn a_store_needs_a_proxy_fence_after_the_writes() {
    for (early, writers, issuer) in
        [(false, true, false), (false, false, true), (true, false, false), (false, false, false)]
    {
        let mut order = block();
        if early {
            (0..4).for_each(|warp| order.fence_proxy(warp, ALL));
        }
        row(&mut order, 1, 0, Kind::Write, 1).unwrap();
        if writers {
            (0..4).for_each(|warp| order.fence_proxy(warp, ALL));
        }
        barrier(&mut order, 0);
        if issuer {
            order.fence_proxy(0, 1);
        }
        let op = order.issue(0, 1, true);
        let read = by_op(&mut order, op, 0, Kind::Read, 9);
        match writers || issuer {
            true => assert_eq!(read, Ok(())),
            false => assert_eq!(why(read), Why::NoProxyFence),
        }
    }
}

#[test]
fn a_lane_fences_its_own_writes() {
    for fenced in [true, false] {
        let mut order = block();
        let at = Actor::Lanes { warp: 2, lanes: 8 };
        order.access(at, SHARED, 0, 16, access(Kind::Write, 1)).unwrap();
        if fenced {
            order.fence_proxy(2, 8);
        }
        let op = order.issue(2, 8, true);
        let read = order.access(Actor::Op(op), SHARED, 0, 16, access(Kind::Read, 2));
        assert_eq!(read.is_ok(), fenced);
    }
}

/// The source of a store is written again: after the lane's wait, by the others after a barrier.
#[test]
fn a_stores_source_is_kept_until_a_wait() {
    let mut order = block();
    let op = order.issue(0, 1, true);
    by_op(&mut order, op, 0, Kind::Read, 9).unwrap();
    let own = |order: &mut Order| order.access(lane(0, 0), SHARED, 0, 4, access(Kind::Write, 3));
    assert_eq!(why(own(&mut order)), Why::InFlight);
    order.complete_for(op, 0, 1);
    assert_eq!(own(&mut order), Ok(()));
    assert!(order.access(lane(0, 1), SHARED, 4, 4, access(Kind::Write, 3)).is_err());
    assert!(order.access(lane(1, 0), SHARED, 8, 4, access(Kind::Write, 3)).is_err());
    barrier(&mut order, 0);
    assert_eq!(row(&mut order, 1, 0, Kind::Write, 3), Ok(()));
}

/// A later write by the issuer does not come before the operation, however late it is done.
#[test]
fn what_the_issuer_does_later_is_not_before() {
    let mut order = block();
    let op = order.issue(0, 1, true);
    order.access(lane(0, 0), SHARED, 0, 4, access(Kind::Write, 3)).unwrap();
    order.fence_proxy(0, 1);
    assert_eq!(why(by_op(&mut order, op, 0, Kind::Read, 9)), Why::SameWarp);
}

#[test]
fn copies_of_lanes_are_each_lanes_own() {
    let mut order = block();
    let op = order.issue(1, ALL, false);
    for lane in 0..32 {
        let actor = Actor::OpLanes(op, 1 << lane);
        order.access(actor, SHARED, 16 * lane, 16, access(Kind::Write, 1)).unwrap();
    }
    let read = |order: &mut Order, warp, by, of: u64| {
        order.access(lane(warp, by), SHARED, 16 * of, 4, access(Kind::Read, 2))
    };
    assert_eq!(why(read(&mut order, 1, 0, 0)), Why::InFlight);
    order.complete_for(op, 1, 0xffff);
    assert_eq!(read(&mut order, 1, 0, 0), Ok(()));
    assert!(read(&mut order, 1, 16, 16).is_err());
    order.complete_for(op, 1, !0xffff);
    assert_eq!(read(&mut order, 1, 16, 16), Ok(()));
    assert!(read(&mut order, 1, 0, 1).is_err());
    assert!(read(&mut order, 2, 0, 1).is_err());
    barrier(&mut order, 0);
    (0..4).for_each(|warp| assert_eq!(read(&mut order, warp, 3, 7), Ok(())));
}

#[test]
fn copies_of_lanes_write_apart() {
    let mut order = block();
    let op = order.issue(0, ALL, false);
    order.access(Actor::OpLanes(op, 1), SHARED, 0, 16, access(Kind::Write, 1)).unwrap();
    let second = order.access(Actor::OpLanes(op, 2), SHARED, 8, 16, access(Kind::Write, 1));
    assert_eq!(why(second), Why::InFlight);
}

/// A product of the warpgroup of warps 0 to 3.
fn multiply(order: &mut Order, address: u64) -> Result<OpId, Box<Race>> {
    let op = order.issue_group(&[0, 1, 2, 3]);
    by_op(order, op, address, Kind::Read, 70).map(|()| op)
}

#[test]
fn a_product_reads_what_all_its_warps_have_waited_for() {
    let mut order = block();
    let op = load(&mut order, 0, 0).unwrap();
    order.complete_at(op, MBARRIER, 0);
    (0..3).for_each(|warp| order.acquire(warp, ALL, MBARRIER, 0));
    assert_eq!(why(multiply(&mut order, 0).map(|_| ())), Why::Unordered);
    order.acquire(3, ALL, MBARRIER, 0);
    assert!(multiply(&mut order, 0).is_ok());
}

#[test]
fn a_product_needs_a_proxy_fence_after_writes_and_copies() {
    for fenced in [true, false] {
        let mut order = block();
        row(&mut order, 1, 0, Kind::Write, 1).unwrap();
        let op = order.issue(2, ALL, false);
        order.access(Actor::OpLanes(op, 1), SHARED, 256, TILE, access(Kind::Write, 1)).unwrap();
        order.complete_for(op, 2, ALL);
        if fenced {
            (0..4).for_each(|warp| order.fence_proxy(warp, ALL));
        }
        barrier(&mut order, 0);
        for address in [0, 256] {
            let result = multiply(&mut order, address).map(|_| ());
            match fenced {
                true => assert_eq!(result, Ok(())),
                false => assert_eq!(why(result), Why::NoProxyFence),
            }
        }
    }
}

/// A slot that a product reads is given back: after the wait for the product, or before it.
#[test]
fn a_slot_is_given_back_after_the_product() {
    for waits in [true, false] {
        let mut order = block();
        let op = load(&mut order, 3, 0).unwrap();
        order.complete_at(op, MBARRIER, 0);
        (0..4).for_each(|warp| order.acquire(warp, ALL, MBARRIER, 0));
        let product = multiply(&mut order, 0).unwrap();
        if waits {
            // Every warp waits; one lane of one of them arrives for all.
            (0..4).for_each(|warp| order.complete_for(product, warp, ALL));
        }
        order.release(0, 2, EMPTY, 0);
        order.acquire(3, 1, EMPTY, 0);
        let again = load(&mut order, 3, 0).map(|_| ());
        match waits {
            true => assert_eq!(again, Ok(())),
            false => assert_eq!(why(again), Why::InFlight),
        }
    }
}

#[test]
fn a_long_pipeline_is_forgotten_as_it_goes() {
    let mut order = block();
    for step in 0..5000 {
        let (slot, phase) = (step % 3 * 256, step / 3);
        let full = SyncObject::Mbarrier { block: 0, offset: 8 * (step % 3) as u32 };
        let empty = SyncObject::Mbarrier { block: 0, offset: 64 + 8 * (step % 3) as u32 };
        if phase > 0 {
            order.acquire(0, 1, empty, phase - 1);
        }
        let op = load(&mut order, 0, slot).unwrap();
        order.complete_at(op, full, phase);
        (0..4).for_each(|warp| order.acquire(warp, ALL, full, phase));
        let product = multiply(&mut order, slot).unwrap();
        (0..4).for_each(|warp| order.complete_for(product, warp, ALL));
        order.release(1, 1, empty, phase);
    }
    assert!(order.remembered() < 600, "{}", order.remembered());
}

/// Words that are split into bytes remember operations too.
#[test]
fn splits_count_operations() {
    let mut order = block();
    for step in 0..2000u64 {
        let op = load(&mut order, 0, 0).unwrap();
        order.complete_at(op, MBARRIER, step);
        (0..4).for_each(|warp| order.acquire(warp, ALL, MBARRIER, step));
        let byte = step % 4;
        order.access(lane(1, 0), SHARED, byte, 1, access(Kind::Read, 1)).unwrap();
        order.access(lane(1, 0), SHARED, byte, 2, access(Kind::Read, 1)).unwrap();
        order.release(1, 1, EMPTY, step);
        order.acquire(0, 1, EMPTY, step);
    }
    assert!(order.remembered() < 600, "{}", order.remembered());
}

/// Accesses by runs of words find what the same ones find word by word: words that are alike are
/// taken together.
#[test]
fn a_run_is_what_its_words_are() {
    const MAY: [Kind; 4] = [Kind::Read, Kind::Write, Kind::StrongRead, Kind::StrongWrite];
    let mut found = [0; 2];
    for seed in 1..400u64 {
        let mut state = seed;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        let mut orders = [block(), block()];
        let mut ops: Vec<OpId> = Vec::new();
        for line in 0..60 {
            let warp = random(4) as usize;
            match random(6) {
                0 => ops.extend(orders.each_mut().map(|order| order.issue(warp, 1, true)).first()),
                1 if let Some(&op) = ops.last() => orders.each_mut().iter_mut().for_each(|order| {
                    order.complete_at(op, MBARRIER, 0);
                }),
                2 => orders.iter_mut().for_each(|order| order.release(warp, ALL, MBARRIER, 0)),
                3 => orders.iter_mut().for_each(|order| {
                    order.acquire(warp, ALL, MBARRIER, 0);
                    order.fence_proxy(warp, ALL);
                }),
                _ => {
                    let actor = match ops.last() {
                        Some(&op) if random(3) > 0 => Actor::Op(op),
                        _ => lane(warp, 0),
                    };
                    let (first, kind) = (random(24), access(MAY[random(4) as usize], line));
                    let (at, bytes) = (first * 4 + random(8) / 7, random(40) + 1);
                    let [runs, words] = &mut orders;
                    let run = runs.access(actor, SHARED, at, bytes as u32, kind);
                    let ends = (at / 4 + 1..=(at + bytes - 1) / 4).map(|word| word * 4);
                    let starts: Vec<u64> = [at].into_iter().chain(ends).collect();
                    let by_word = starts.iter().try_for_each(|&start| {
                        let past = (start / 4 * 4 + 4).min(at + bytes);
                        words.access(actor, SHARED, start, (past - start) as u32, kind)
                    });
                    assert_eq!(run, by_word, "seed {seed}, line {line}");
                    found[usize::from(run.is_err())] += 1;
                }
            }
        }
    }
    assert!(found.iter().all(|&count| count > 500), "{found:?}");
}
