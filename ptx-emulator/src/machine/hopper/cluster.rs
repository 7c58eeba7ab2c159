//! Clusters: the barrier, addresses in other blocks, dependent grids (PTX ISA 9.7.13.5, 9.7.9.23).

use super::super::context::{Context, Outcome, Step};
use super::super::warp::Status;
use super::Window;
use crate::check::{Fault, ReportKind};
use crate::error::Error;
use crate::memory::{RANK_SHIFT, SHARED_WINDOW, WINDOW_BYTES};
use crate::order::SyncObject;
use crate::program::{Builder, Class, Instruction, Modifiers, exactly};
use crate::syntax::ast::{self, Type};

/// Lowers `barrier.cluster`.
pub(super) fn lower_barrier(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    exactly::<0>(i)?;
    let mut modifiers = Modifiers::new(i);
    modifiers.flag("cluster");
    let arrives = modifiers.choose(&[("arrive", true), ("wait", false)]);
    let Some(arrives) = arrives else { return Err(modifiers.unsupported("this form")) };
    let aligned = modifiers.flag("aligned");
    let relaxed = match arrives {
        true => modifiers.choose(&[("release", false), ("relaxed", true)]).unwrap_or(false),
        false => {
            modifiers.flag("acquire");
            false
        }
    };
    modifiers.finish()?;
    b.beyond_barriers();
    let mut out = Instruction::new(if arrives { arrive } else { wait }, Class::Synchronization);
    out.number = u64::from(aligned) | u64::from(relaxed) << 1;
    b.add(out);
    Ok(())
}

fn arrive(c: &mut Context<'_>, i: &Instruction) -> Outcome {
    if i.number & 1 != 0 {
        c.converged("barrier.cluster.arrive.aligned")?;
    }
    let phase = c.cluster.hopper.barrier.phase();
    let (warp, lanes) = (c.cluster_warp(), c.mask);
    match (&mut c.cluster.hopper.order, i.number & 2 != 0) {
        (Some(order), true) => order.release_fenced(warp, lanes, SyncObject::Cluster, phase),
        (Some(order), false) => order.release(warp, lanes, SyncObject::Cluster, phase),
        (None, _) => {}
    }
    match c.cluster.hopper.barrier.arrive(warp, lanes) {
        Ok(_) => Ok(Step::Next),
        Err(error) => Err(Fault::new(ReportKind::Barrier, error.to_string())),
    }
}

fn wait(c: &mut Context<'_>, i: &Instruction) -> Outcome {
    if i.number & 1 != 0 {
        c.converged("barrier.cluster.wait.aligned")?;
    }
    let (warp, lanes) = (c.cluster_warp(), c.mask);
    let barrier = &mut c.cluster.hopper.barrier;
    let over = barrier.is_over(warp, lanes);
    if !over.map_err(|error| Fault::new(ReportKind::Barrier, error.to_string()))? {
        c.warp.status = Status::Polling(barrier.describe());
        return Ok(Step::Retry);
    }
    // The phase that is over is the last one: the next can't end before these lanes arrive.
    let phase = barrier.phase() - 1;
    let waited = barrier.wait(warp, lanes);
    waited.map_err(|error| Fault::new(ReportKind::Barrier, error.to_string()))?;
    c.order_acquire(lanes, SyncObject::Cluster, phase);
    Ok(Step::Next)
}

/// The operands' type, and whether addresses are of the shared window.
fn window(modifiers: &mut Modifiers<'_>) -> Result<(Type, bool), Error> {
    let shared = modifiers.flag("shared::cluster");
    let ty = modifiers.ty()?;
    modifiers.finish()?;
    match (ty, shared) {
        (Type::U32, true) | (Type::U64, _) => Ok((ty, shared)),
        _ => Err(modifiers.invalid("the type is neither .u64, nor .u32 of .shared::cluster")),
    }
}

/// Lowers `mapa`.
pub(super) fn lower_mapa(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    let [d, address, rank] = exactly(i)?;
    let mut modifiers = Modifiers::new(i);
    let (ty, shared) = window(&mut modifiers)?;
    let mut out = Instruction::new(if shared { mapa } else { mapa_generic }, Class::Move);
    (out.d, out.a) = (b.destination(d, ty)?, b.source(address, ty)?);
    out.b = b.source(rank, Type::U32)?;
    b.beyond_barriers();
    b.add(out);
    Ok(())
}

/// The address of the same place in the block of another rank.
fn mapped(c: &mut Context<'_>, i: &Instruction, base: u64) -> Outcome {
    let (addresses, ranks) = (c.lanes(i.a), c.lanes(i.b));
    let mut out = [0; 32];
    for lane in super::super::context::lanes_of(c.mask) {
        let inside = addresses[lane].wrapping_sub(base);
        if inside >= WINDOW_BYTES || ranks[lane] >= c.cluster.blocks.len() as u64 {
            let message = format!(
                "mapa of address {:#x} for rank {} in a cluster of {} blocks",
                addresses[lane],
                ranks[lane],
                c.cluster.blocks.len()
            );
            return Err(Fault::of_lane(ReportKind::OutOfBounds, lane, message));
        }
        let offset = inside & ((1 << RANK_SHIFT) - 1);
        out[lane] = base + (offset | (ranks[lane] + 1) << RANK_SHIFT);
    }
    c.write(i.d, &out);
    Ok(Step::Next)
}

fn mapa(c: &mut Context<'_>, i: &Instruction) -> Outcome {
    mapped(c, i, 0)
}

fn mapa_generic(c: &mut Context<'_>, i: &Instruction) -> Outcome {
    mapped(c, i, SHARED_WINDOW)
}

/// Lowers `getctarank`.
pub(super) fn lower_rank(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    let [d, address] = exactly(i)?;
    let mut modifiers = Modifiers::new(i);
    let (ty, shared) = window(&mut modifiers)?;
    let mut out = Instruction::new(rank, Class::Move);
    (out.d, out.a) = (b.destination(d, Type::U32)?, b.source(address, ty)?);
    out.number = u64::from(!shared);
    b.add(out);
    Ok(())
}

fn rank(c: &mut Context<'_>, i: &Instruction) -> Outcome {
    let addresses = *c.lanes(i.a);
    let mut out = [0; 32];
    for lane in super::super::context::lanes_of(c.mask) {
        let window = Window { generic: i.number != 0, own_only: false };
        out[lane] = c.named_place(lane, addresses[lane], window)?.0 as u64;
    }
    c.write(i.d, &out);
    Ok(Step::Next)
}

/// Lowers `griddepcontrol`: a launch waits for the one before it, so there is nothing to do.
pub(super) fn lower_grid(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    exactly::<0>(i)?;
    let mut modifiers = Modifiers::new(i);
    if modifiers.choose(&[("launch_dependents", ()), ("wait", ())]).is_none() {
        return Err(modifiers.unsupported("this form"));
    }
    modifiers.finish()?;
    b.add(Instruction::new(|_, _| Ok(Step::Next), Class::Synchronization));
    Ok(())
}
