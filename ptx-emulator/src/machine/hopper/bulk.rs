//! `cp.async.bulk` and `cp.reduce.async.bulk` without tensor maps, and the groups of both
//! (PTX ISA 9.7.9.25.4).

use super::super::context::{Context, Outcome, Step, lanes_of};
use super::super::memory::operands;
use super::Window;
use super::copy::{At, Direction, Load, Operation, Out, Piece, Store};
use crate::bulk::{BulkCopyError, ReduceOp, ReduceType, check_bulk_copy, check_reduction};
use crate::check::{Fault, ReportKind};
use crate::error::Error;
use crate::program::{Builder, Class, Detail, Instruction, Modifiers};
use crate::syntax::ast::{self, Constant, Operand, Type};

/// Where a copy's end is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Global,
    Cluster,
    Block,
}

/// Takes destination and source.
pub(super) fn ends(modifiers: &mut Modifiers<'_>) -> Result<(End, End), Error> {
    let table =
        [("global", End::Global), ("shared::cluster", End::Cluster), ("shared::cta", End::Block)];
    match (modifiers.choose(&table), modifiers.choose(&table)) {
        (Some(to), Some(from)) => Ok((to, from)),
        _ => Err(modifiers.unsupported("this form")),
    }
}

/// Takes the operation and the type of a reduction.
pub(super) fn reduction(modifiers: &mut Modifiers<'_>) -> Result<(ReduceOp, ReduceType), Error> {
    let ops = [
        ("and", ReduceOp::And),
        ("or", ReduceOp::Or),
        ("xor", ReduceOp::Xor),
        ("add", ReduceOp::Add),
        ("inc", ReduceOp::Inc),
        ("dec", ReduceOp::Dec),
        ("min", ReduceOp::Min),
        ("max", ReduceOp::Max),
    ];
    modifiers
        .choose(&ops)
        .zip(Some(ReduceType::B32))
        .ok_or_else(|| modifiers.unsupported("the reduction"))
}

/// The type of a reduction without a map.
fn reduce_type(modifiers: &mut Modifiers<'_>) -> Result<ReduceType, Error> {
    let wide = modifiers.flag("noftz");
    match modifiers.ty()? {
        Type::F16 => Ok(ReduceType::F16),
        Type::Bf16 => Ok(ReduceType::Bf16),
        ty if wide => Err(modifiers.unsupported(&format!(".noftz and type {ty:?}"))),
        Type::B32 => Ok(ReduceType::B32),
        Type::U32 => Ok(ReduceType::U32),
        Type::S32 => Ok(ReduceType::S32),
        Type::B64 => Ok(ReduceType::B64),
        Type::U64 => Ok(ReduceType::U64),
        Type::S64 => Ok(ReduceType::S64),
        Type::F32 => Ok(ReduceType::F32),
        Type::F64 => Ok(ReduceType::F64),
        ty => Err(modifiers.unsupported(&format!("type {ty:?}"))),
    }
}

/// Lowers a copy without a map.
pub(super) fn lower(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    let mut modifiers = Modifiers::new(i);
    let reduces = modifiers.flag("reduce");
    modifiers.skip(|word| matches!(word, "async" | "bulk"));
    let (to, from) = ends(&mut modifiers)?;
    let counted = modifiers.flag("mbarrier::complete_tx::bytes");
    let grouped = modifiers.flag("bulk_group");
    let multicast = modifiers.flag("multicast::cluster");
    let hinted = modifiers.flag("L2::cache_hint");
    let reduce = match reduces {
        true => Some((reduction(&mut modifiers)?.0, reduce_type(&mut modifiers)?)),
        false => None,
    };
    if let Some((op, ty)) = reduce {
        check_reduction(op, ty).map_err(|error| modifiers.invalid(&error.to_string()))?;
    }
    modifiers.finish()?;
    let direction = match (to, from, counted, grouped) {
        (End::Cluster | End::Block, End::Global, true, false) if !reduces => Direction::Load,
        (End::Cluster, End::Block, true, false) if !reduces => Direction::ToBlock,
        (End::Global, End::Block, false, true) => Direction::Store(reduce),
        _ => return Err(modifiers.unsupported("this form")),
    };
    let wanted = 3 + usize::from(counted) + usize::from(multicast) + usize::from(hinted);
    if i.operands.len() != wanted {
        return Err(modifiers.invalid("the number of operands"));
    }
    let (destination, source) = (At::new(b, &i.operands[0])?, At::new(b, &i.operands[1])?);
    let is_store = matches!(direction, Direction::Store(_));
    let (shared, other) = if is_store { (source, destination) } else { (destination, source) };
    let size = b.source(&i.operands[2], Type::U32)?;
    let mbarrier = if counted { Some(At::new(b, &i.operands[3])?) } else { None };
    let multicast = if multicast { Some(b.source(&i.operands[4], Type::U16)?) } else { None };
    let coordinates = Box::default();
    let window = if is_store || to == End::Block { Window::OWN } else { Window::CLUSTER };
    let operation =
        Operation { direction, shared, window, other, mbarrier, multicast, size, coordinates };
    b.beyond_barriers();
    if reduces {
        b.communicates();
    }
    b.add(operation.instruction(run));
    Ok(())
}

/// Lowers `cp.async.bulk.prefetch`, which looks at nothing and changes nothing.
pub(super) fn lower_prefetch(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    let mut modifiers = Modifiers::new(i);
    modifiers.skip(|word| matches!(word, "async" | "bulk" | "prefetch" | "L2::cache_hint"));
    if !(modifiers.flag("L2") && modifiers.flag("global")) {
        return Err(modifiers.unsupported("this form"));
    }
    modifiers.finish()?;
    let [address, size] = operands(i)?;
    b.address(address)?;
    b.source(size, Type::U32)?;
    b.add(Instruction::new(|_, _| Ok(Step::Next), Class::Memory));
    Ok(())
}

/// The copy of an instruction.
pub(super) fn operation(i: &Instruction) -> &Operation {
    match &i.detail {
        Detail::Hopper(operation) => match &**operation {
            super::Operation::Copy(operation) => operation,
            _ => unreachable!("lowered with a copy"),
        },
        _ => unreachable!("lowered with a copy"),
    }
}

fn run(c: &mut Context<'_>, i: &Instruction) -> Outcome {
    let operation = operation(i);
    for lane in lanes_of(c.mask) {
        let bytes = c.lanes(operation.size)[lane] as u32;
        let (shared, other) = (operation.shared.of(c, lane), operation.other.of(c, lane));
        let checked = match operation.direction {
            Direction::Store(_) => check_bulk_copy(other, shared, bytes),
            _ => check_bulk_copy(shared, other, bytes),
        };
        checked.map_err(|error| {
            let at = match error {
                BulkCopyError::Alignment { address, .. } => address,
                BulkCopyError::Size(_) => shared,
            };
            Fault::of_lane(ReportKind::Misaligned, lane, error.to_string()).at(at)
        })?;
        let place = c.shared_place(lane, shared, operation.window)?;
        if let Direction::Store(reduce) = operation.direction {
            let runs = vec![Out { shared: place.1, global: other, bytes }];
            let store = Store { op: None, rank: place.0, runs, reduce, line: i.line };
            c.start_store(lane, place, bytes, store)?;
            continue;
        }
        for (to, mbarrier) in c.destinations(operation, lane, place)? {
            let piece = match operation.direction {
                Direction::ToBlock => {
                    let from = c.shared_place(lane, other, Window::OWN)?;
                    c.need_shared(lane, from, bytes.into(), "a bulk copy")?;
                    Piece::Shared { from, shared: to.1, bytes }
                }
                _ => {
                    c.need_global(lane, other, bytes.into())?;
                    Piece::Global { global: other, shared: to.1, bytes }
                }
            };
            let pieces = vec![piece];
            let load = Load { op: None, mbarrier, bytes, pieces, line: i.line };
            c.start_load(lane, to, load)?;
        }
    }
    Ok(Step::Next)
}

impl Context<'_> {
    /// Where a copy goes, and the mbarrier that counts it there: one place, or the same one in
    /// each block of the mask.
    pub(super) fn destinations(
        &self,
        operation: &Operation,
        lane: usize,
        to: super::Place,
    ) -> Result<Vec<(super::Place, super::Place)>, Box<Fault>> {
        let fault =
            |message: String| Err(Fault::of_lane(ReportKind::Asynchronous, lane, message).at(to.1));
        let mbarrier = operation.mbarrier.map_or(0, |mbarrier| mbarrier.of(self, lane));
        let mbarrier = self.shared_place(lane, mbarrier, operation.window)?;
        if !mbarrier.1.is_multiple_of(8) {
            let message = "the address of an mbarrier is not a multiple of 8";
            return Err(Fault::of_lane(ReportKind::Misaligned, lane, message).at(mbarrier.1));
        }
        let Some(mask) = operation.multicast else {
            if mbarrier.0 != to.0 {
                return fault("the copy's mbarrier is in another block than its data".to_string());
            }
            return Ok(vec![(to, mbarrier)]);
        };
        let mask = self.lanes(mask)[lane];
        let blocks = self.cluster.blocks.len();
        if mask == 0 || mask >> blocks != 0 {
            return fault(format!("a multicast to blocks {mask:#b} of a cluster of {blocks}"));
        }
        let mut all = Vec::new();
        for rank in (0..blocks).filter(|rank| mask >> rank & 1 != 0) {
            self.check_alive(lane, rank, to.1)?;
            all.push(((rank, to.1), (rank, mbarrier.1)));
        }
        Ok(all)
    }
}

/// Lowers `cp.async.bulk.commit_group` and `cp.async.bulk.wait_group`.
pub(super) fn lower_groups(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    let mut modifiers = Modifiers::new(i);
    modifiers.skip(|word| matches!(word, "async" | "bulk"));
    b.beyond_barriers();
    if modifiers.flag("commit_group") {
        modifiers.finish()?;
        crate::program::exactly::<0>(i)?;
        let run = |c: &mut Context<'_>, _: &Instruction| {
            c.commit_stores();
            Ok(Step::Next)
        };
        b.add(Instruction::new(run, Class::Synchronization));
        return Ok(());
    }
    modifiers.flag("wait_group");
    let read = modifiers.flag("read");
    modifiers.finish()?;
    let [Operand::Constant(Constant::Integer(latest @ 0..))] = i.operands[..] else {
        return Err(modifiers.invalid("the number of groups"));
    };
    let run = if read { wait_read } else { wait };
    let mut out = Instruction::new(run, Class::Synchronization);
    out.number = latest as u64;
    b.add(out);
    Ok(())
}

fn wait(c: &mut Context<'_>, i: &Instruction) -> Outcome {
    c.wait_stores(i.number as usize, false)?;
    Ok(Step::Next)
}

fn wait_read(c: &mut Context<'_>, i: &Instruction) -> Outcome {
    c.wait_stores(i.number as usize, true)?;
    Ok(Step::Next)
}
