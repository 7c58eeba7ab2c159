//! Barriers of the block and of the warp, and fences (PTX ISA 9.7.13.1 to 9.7.13.4).

use super::vote::groups;
use super::warp::Status;
use super::{Context, Lower, Outcome, Step};
use crate::check::shadow::{LAST_WARP_EPOCH, Reach};
use crate::check::{Fault, ReportKind};
use crate::error::Error;
use crate::program::{Builder, Class, Handler, Instruction, Modifiers, Slot, Value, exactly};
use crate::sync::{Arrival, Reduction, Threads};
use crate::syntax::ast::{self, Type};

pub(super) const TABLE: &[(&str, Lower)] =
    &[("bar", bar), ("barrier", bar), ("fence", fence), ("membar", fence)];

/// What a barrier instruction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Sync,
    Arrive,
    Popc,
    And,
    Or,
}

const KINDS: [Kind; 5] = [Kind::Sync, Kind::Arrive, Kind::Popc, Kind::And, Kind::Or];

/// In the number of an instruction: the barrier has a count.
const COUNTED: u64 = 1 << 8;
/// In the number of an instruction: all threads of the warp must execute it together.
const ALIGNED: u64 = 1 << 9;

/// In the number of a fence.
const ACQUIRES: u64 = 1;
const RELEASES: u64 = 2;
const WITHIN_CLUSTER: u64 = 4;

fn bar(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    let mut modifiers = Modifiers::new(i);
    if modifiers.flag("warp") {
        return bar_warp(b, i, modifiers);
    }
    modifiers.flag("cta");
    let aligned = modifiers.flag("aligned") || &*i.opcode == "bar";
    let kinds = [("sync", 0), ("arrive", 1), ("red", 2)];
    let kind = modifiers.choose(&kinds).ok_or_else(|| modifiers.unsupported("the form"))?;
    let kind = match kind {
        0 => Kind::Sync,
        1 => Kind::Arrive,
        _ => {
            let votes = [("popc", Kind::Popc), ("and", Kind::And), ("or", Kind::Or)];
            let vote = modifiers.choose(&votes);
            vote.ok_or_else(|| modifiers.unsupported("the reduction"))?
        }
    };
    let reduces = matches!(kind, Kind::Popc | Kind::And | Kind::Or);
    if reduces {
        modifiers.ty()?;
    }
    modifiers.finish()?;
    let (d, barrier, count, vote) = match (reduces, i.operands.as_slice()) {
        (false, [barrier]) if kind == Kind::Sync => (None, barrier, None, None),
        (false, [barrier, count]) => (None, barrier, Some(count), None),
        (true, [d, barrier, vote]) => (Some(d), barrier, None, Some(vote)),
        (true, [d, barrier, count, vote]) => (Some(d), barrier, Some(count), Some(vote)),
        _ => return Err(modifiers.invalid("the number of operands is wrong")),
    };
    let mut out = Instruction::new(run, Class::Synchronization);
    out.number = kind as u64;
    if aligned {
        out.number |= ALIGNED;
    }
    out.a = b.source(barrier, Type::U32)?;
    if let Some(count) = count {
        out.b = b.source(count, Type::U32)?;
        out.number |= COUNTED;
        b.beyond_barriers();
    }
    match (kind, d) {
        (Kind::Popc, Some(d)) => out.d = b.destination(d, Type::U32)?,
        (_, Some(d)) => out.p = b.predicate_destination(d)?,
        _ => {}
    }
    if let Some(vote) = vote {
        out.q = b.predicate_source(vote)?;
    }
    b.add(out);
    Ok(())
}

impl Context<'_> {
    /// The value of an operand that must be the same for all executing lanes.
    pub(super) fn uniform(&self, slot: Slot, what: &str) -> Result<u64, Box<Fault>> {
        let values = self.lanes(slot);
        let first = values[self.mask.trailing_zeros() as usize];
        let differs = super::context::lanes_of(self.mask).find(|lane| values[*lane] != first);
        match differs {
            None => Ok(first),
            Some(lane) => {
                let message = format!("{what} is not the same for all threads of the warp");
                Err(Fault::of_lane(ReportKind::Divergence, lane, message))
            }
        }
    }

    /// Faults unless all threads of the warp that haven't exited execute the instruction.
    pub(super) fn converged(&self, what: &str) -> Result<(), Box<Fault>> {
        let absent = self.warp.live & !self.mask;
        if absent == 0 {
            return Ok(());
        }
        let lane = absent.trailing_zeros();
        let message = format!(
            "{what} is executed by a part of its warp: lane {lane} has not exited and is elsewhere"
        );
        Err(Fault::new(ReportKind::Divergence, message))
    }
}

fn run(c: &mut Context<'_>, i: &Instruction) -> Outcome {
    let kind = KINDS[(i.number & 0xff) as usize];
    if let Some(reduction) = c.warp.released.take() {
        let number = c.uniform(i.a, "the barrier's number")? as u32;
        c.order_barrier_over(number);
        finish(c, i, kind, reduction);
        return Ok(Step::Next);
    }
    if i.number & ALIGNED != 0 {
        c.converged("the barrier")?;
    } else if c.warp.live & !c.mask != 0 {
        let message = "a barrier without .aligned, executed by a part of a warp";
        return Err(Fault::new(ReportKind::Unsupported, message));
    }
    let number = c.uniform(i.a, "the barrier's number")? as usize;
    if number >= 16 {
        let message = format!("barrier {number}: a block has barriers 0 to 15");
        return Err(Fault::new(ReportKind::Barrier, message));
    }
    let expected = match i.number & COUNTED {
        0 => c.block().wait_for_all(number),
        _ => c.uniform(i.b, "the barrier's count")? as u32,
    };
    let arrival = match kind {
        Kind::Arrive => Arrival::Arrive,
        Kind::Sync => Arrival::Sync,
        _ => Arrival::Reduce(c.predicate(i.q)),
    };
    let (warp, lanes, live) = (c.warp.index, c.mask, c.warp.live);
    c.order_barrier(number as u32)?;
    let block = c.block();
    let arrived = block.barriers[number].arrive(Threads { warp, lanes, live }, expected, arrival);
    let released = arrived.map_err(|error| Fault::new(ReportKind::Barrier, error.to_string()))?;
    let Some(released) = released else {
        if kind == Kind::Arrive {
            block.by_barriers = false;
            return Ok(Step::Next);
        }
        c.warp.status = Status::Barrier(number);
        return Ok(Step::Wait);
    };
    block.release(&released);
    if kind != Kind::Arrive {
        c.order_barrier_over(number as u32);
    }
    c.warp.status = Status::Ready;
    finish(c, i, kind, released.reduction);
    Ok(Step::Next)
}

/// Writes the result of a reduction.
fn finish(c: &mut Context<'_>, i: &Instruction, kind: Kind, reduction: Reduction) {
    let all = |holds: bool| if holds { u32::MAX } else { 0 };
    match kind {
        Kind::Popc => c.write(i.d, &[reduction.count.into(); 32]),
        Kind::And => c.write_predicate(i.p, all(reduction.all())),
        Kind::Or => c.write_predicate(i.p, all(reduction.any())),
        Kind::Sync | Kind::Arrive => {}
    }
}

fn bar_warp(
    b: &mut Builder<'_, '_>,
    i: &ast::Instruction,
    mut modifiers: Modifiers<'_>,
) -> Result<(), Error> {
    let [mask] = exactly(i)?;
    modifiers.flag("sync");
    modifiers.finish()?;
    let mut out = Instruction::new(
        |c, i| {
            c.check_members(i.a)?;
            c.warp.epoch += 1;
            if c.warp.epoch > LAST_WARP_EPOCH {
                // Their numbers begin again in another interval of the block.
                c.warp.epoch = 0;
                c.block().next_epoch();
            }
            for lanes in groups(c, i.a) {
                c.order_warp_sync(lanes);
            }
            Ok(Step::Next)
        },
        Class::Synchronization,
    );
    out.a = b.source(mask, Type::B32)?;
    // Level 1 knows intervals of whole warps alone.
    if out.a != b.constant(Value::Bits(u32::MAX.into())) {
        b.beyond_barriers();
    }
    b.add(out);
    Ok(())
}

/// Fences. Memory is sequentially consistent here; they matter to the race checker.
fn fence(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    let mut modifiers = Modifiers::new(i);
    let all = ACQUIRES | RELEASES;
    let semantics = [("sc", all), ("acq_rel", all), ("acquire", ACQUIRES), ("release", RELEASES)];
    let ways = modifiers.choose(&semantics).unwrap_or(all);
    let scopes = [
        ("cta", Reach::Block),
        ("cluster", Reach::Cluster),
        ("gpu", Reach::All),
        ("sys", Reach::All),
        ("gl", Reach::All),
    ];
    let scope = modifiers.choose(&scopes);
    modifiers.finish()?;
    let handler: Handler = match (scope, i.operands.as_slice()) {
        (Some(Reach::All), []) => {
            b.orders_blocks();
            |c, i| {
                c.order_fence();
                c.order_blocks(i.number & ACQUIRES != 0, i.number & RELEASES != 0);
                Ok(Step::Next)
            }
        }
        (Some(_), []) => {
            b.beyond_barriers();
            |c, i| {
                c.order_fence();
                if i.number & RELEASES != 0 {
                    c.order_release_within(i.number & WITHIN_CLUSTER != 0);
                }
                Ok(Step::Next)
            }
        }
        _ => return Err(modifiers.unsupported("the form")),
    };
    let mut out = Instruction::new(handler, Class::Synchronization);
    out.number = ways | if scope == Some(Reach::Cluster) { WITHIN_CLUSTER } else { 0 };
    b.add(out);
    Ok(())
}
