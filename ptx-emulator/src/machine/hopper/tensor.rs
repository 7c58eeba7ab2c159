//! Copies with tensor maps (PTX ISA 9.7.9.27).

use super::super::context::{Context, Outcome, Step, lanes_of};
use super::Window;
use super::bulk::{End, ends, operation, reduction};
use super::copy::{At, Direction, Load, Operation, Out, Piece, Store};
use crate::bulk::{
    BoxError, LoadRun, ReduceType, StoreRun, TensorElement, TensorMap, check_reduction,
};
use crate::check::{Fault, ReportKind};
use crate::error::Error;
use crate::memory::{PARAM_WINDOW, WINDOW_BYTES, number};
use crate::program::{Builder, Instruction, Modifiers, Slot, Value};
use crate::syntax::ast::{self, Operand, Type};

/// The address of a map and the coordinates.
fn mapped(
    b: &mut Builder<'_, '_>,
    operand: Option<&Operand>,
    rank: usize,
    modifiers: &Modifiers<'_>,
) -> Result<(At, Box<[Slot]>), Error> {
    let Some(Operand::Address(address)) = operand else {
        return Err(modifiers.invalid("the tensor map is missing"));
    };
    let coordinates = match &address.coordinates[..] {
        [Operand::Vector(coordinates)] => coordinates,
        coordinates => &coordinates.to_vec(),
    };
    if coordinates.len() != rank {
        return Err(modifiers.invalid("the number of coordinates"));
    }
    let slots = coordinates.iter().map(|coordinate| b.source(coordinate, Type::S32));
    let slots = slots.collect::<Result<Vec<_>, _>>()?;
    Ok((At::generic(b, address)?, slots.into()))
}

/// Lowers a copy, a reduction or a prefetch with a map.
pub(super) fn lower(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    let mut modifiers = Modifiers::new(i);
    let reduces = modifiers.flag("reduce");
    modifiers.skip(|word| matches!(word, "async" | "bulk"));
    let prefetches = modifiers.flag("prefetch");
    if !modifiers.flag("tensor") {
        return Err(modifiers.unsupported("this form"));
    }
    let ranks = [("1d", 1), ("2d", 2), ("3d", 3), ("4d", 4), ("5d", 5)];
    let rank = modifiers.choose(&ranks).ok_or_else(|| modifiers.invalid("no dimension"))?;
    modifiers.flag("tile");
    let hinted = modifiers.flag("L2::cache_hint");
    let (shared, other, mbarrier, multicast, direction, coordinates);
    let mut window = Window::OWN;
    let none = At { slot: b.constant(Value::Bits(0)), offset: 0 };
    if prefetches {
        if !(modifiers.flag("L2") && modifiers.flag("global")) {
            return Err(modifiers.unsupported("this form"));
        }
        (other, coordinates) = mapped(b, i.operands.first(), rank, &modifiers)?;
        (shared, mbarrier, multicast, direction) = (none, None, None, Direction::Prefetch);
        expect(i, &modifiers, 1 + usize::from(hinted))?;
    } else {
        let (to, from) = ends(&mut modifiers)?;
        let counted = modifiers.flag("mbarrier::complete_tx::bytes");
        let grouped = modifiers.flag("bulk_group");
        let many = modifiers.flag("multicast::cluster");
        match (to, from, counted, grouped) {
            (End::Cluster | End::Block, End::Global, true, false) if !reduces => {
                expect(i, &modifiers, 3 + usize::from(many) + usize::from(hinted))?;
                shared = At::new(b, &i.operands[0])?;
                (other, coordinates) = mapped(b, i.operands.get(1), rank, &modifiers)?;
                mbarrier = Some(At::new(b, &i.operands[2])?);
                multicast = if many { Some(b.source(&i.operands[3], Type::U16)?) } else { None };
                direction = Direction::Load;
                window = if to == End::Cluster { Window::CLUSTER } else { Window::OWN };
            }
            (End::Global, End::Block, false, true) if !many => {
                expect(i, &modifiers, 2 + usize::from(hinted))?;
                (other, coordinates) = mapped(b, i.operands.first(), rank, &modifiers)?;
                shared = At::new(b, &i.operands[1])?;
                (mbarrier, multicast) = (None, None);
                // The type is the map's.
                let reduce = if reduces { Some(reduction(&mut modifiers)?) } else { None };
                direction = Direction::Store(reduce);
            }
            _ => return Err(modifiers.unsupported("this form")),
        }
    }
    modifiers.finish()?;
    b.beyond_barriers();
    if reduces {
        b.communicates();
    }
    let size = none.slot;
    let operation =
        Operation { direction, shared, window, other, mbarrier, multicast, size, coordinates };
    b.add(operation.instruction(run));
    Ok(())
}

fn expect(i: &ast::Instruction, modifiers: &Modifiers<'_>, count: usize) -> Result<(), Error> {
    match i.operands.len() == count {
        true => Ok(()),
        false => Err(modifiers.invalid("the number of operands")),
    }
}

/// Lowers `prefetch.tensormap`: the map is looked at.
pub(super) fn prefetch(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    let mut modifiers = Modifiers::new(i);
    modifiers.choose(&[("param", ()), ("const", ())]);
    modifiers.flag("tensormap");
    modifiers.finish()?;
    let [Operand::Address(address)] = &i.operands[..] else {
        return Err(modifiers.invalid("the address is missing"));
    };
    let other = At::generic(b, address)?;
    let (slot, direction) = (b.constant(Value::Bits(0)), Direction::Prefetch);
    let shared = At { slot, offset: 0 };
    let (mbarrier, multicast, coordinates) = (None, None, Box::default());
    let (window, size) = (Window::OWN, slot);
    let operation =
        Operation { direction, shared, window, other, mbarrier, multicast, size, coordinates };
    b.add(operation.instruction(run));
    Ok(())
}

/// How the elements of a map are reduced.
fn reduce_type(element: TensorElement) -> Option<ReduceType> {
    Some(match element {
        TensorElement::U8 | TensorElement::U16 => return None,
        TensorElement::U32 => ReduceType::U32,
        TensorElement::I32 => ReduceType::S32,
        TensorElement::U64 => ReduceType::U64,
        TensorElement::I64 => ReduceType::S64,
        TensorElement::F16 => ReduceType::F16,
        TensorElement::Bf16 => ReduceType::Bf16,
        TensorElement::F32 | TensorElement::F32Ftz => ReduceType::F32,
        TensorElement::Tf32 | TensorElement::Tf32Ftz => ReduceType::F32,
        TensorElement::F64 => ReduceType::F64,
    })
}

impl Context<'_> {
    /// The tensor map at a generic address.
    fn tensor_map(&self, lane: usize, address: u64) -> Result<TensorMap, Box<Fault>> {
        let fault = |kind, message: String| Err(Fault::of_lane(kind, lane, message).at(address));
        if !address.is_multiple_of(64) {
            let message = "a tensor map that does not lie at a multiple of 64".to_string();
            return fault(ReportKind::Misaligned, message);
        }
        let mut words = [0; 16];
        let offset = address.wrapping_sub(PARAM_WINDOW);
        if offset < WINDOW_BYTES {
            let bytes = self.grid.parameters.get(offset as usize..offset as usize + 128);
            let Some(bytes) = bytes else {
                let message = "a tensor map that no parameter has".to_string();
                return fault(ReportKind::OutOfBounds, message);
            };
            for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
                *word = number(bytes);
            }
        } else {
            self.need_global(lane, address, 128)?;
            let allocation = self.grid.memory.find(address, 128);
            for (k, word) in (0..).zip(&mut words) {
                *word = allocation.map_or(0, |a| a.load(address - a.base + 8 * k, 8).0);
            }
        }
        TensorMap::decode(&words)
            .or_else(|error| fault(ReportKind::Asynchronous, error.to_string()))
    }
}

fn box_fault(error: &BoxError, lane: usize, shared: u64) -> Box<Fault> {
    let kind = match error {
        BoxError::Alignment(_) | BoxError::FirstCoordinate { .. } => ReportKind::Misaligned,
        BoxError::NegativeStore { .. } | BoxError::PartialChunk { .. } => ReportKind::OutOfBounds,
        BoxError::Unsupported(_) => ReportKind::Unsupported,
        BoxError::Rank { .. } => ReportKind::Asynchronous,
    };
    Fault::of_lane(kind, lane, error.to_string()).at(shared)
}

fn run(c: &mut Context<'_>, i: &Instruction) -> Outcome {
    let operation = operation(i);
    for lane in lanes_of(c.mask) {
        let map = c.tensor_map(lane, operation.other.of(c, lane))?;
        let start: Vec<i32> =
            operation.coordinates.iter().map(|slot| c.lanes(*slot)[lane] as i32).collect();
        match operation.direction {
            Direction::Prefetch => {}
            Direction::Store(reduce) => {
                let from = c.shared_place(lane, operation.shared.of(c, lane), operation.window)?;
                let mut runs: Vec<Out> = Vec::new();
                let visit = |StoreRun { shared, global, bytes }| {
                    runs.push(Out { shared: shared.into(), global, bytes });
                };
                let stored = map.store(&start, from.1 as u32, visit);
                stored.map_err(|error| box_fault(&error, lane, from.1))?;
                let reduce = match (reduce, reduce_type(map.element)) {
                    (None, _) => None,
                    (Some((op, _)), Some(ty)) => {
                        check_reduction(op, ty).map_err(|error| {
                            Fault::of_lane(ReportKind::Unsupported, lane, error.to_string())
                        })?;
                        Some((op, ty))
                    }
                    (Some(_), None) => {
                        let message = format!("reductions of {:?} are not emulated", map.element);
                        return Err(Fault::of_lane(ReportKind::Unsupported, lane, message));
                    }
                };
                let store = Store { op: None, rank: from.0, runs, reduce, line: i.line };
                c.start_store(lane, from, map.box_bytes(), store)?;
            }
            Direction::Load | Direction::ToBlock => {
                let to = c.shared_place(lane, operation.shared.of(c, lane), operation.window)?;
                let mut pieces = Vec::new();
                let visit = |run| {
                    pieces.push(match run {
                        LoadRun::Copy { global, shared, bytes } => {
                            Piece::Global { global, shared: shared.into(), bytes }
                        }
                        LoadRun::Fill { shared, bytes } => {
                            Piece::Fill { fill: map.fill, shared: shared.into(), bytes }
                        }
                    });
                };
                let bytes = map.load(&start, to.1 as u32, visit);
                let bytes = bytes.map_err(|error| box_fault(&error, lane, to.1))?;
                for piece in &pieces {
                    if let Piece::Global { global, bytes, .. } = piece {
                        c.need_global(lane, *global, (*bytes).into())?;
                    }
                }
                for (to, mbarrier) in c.destinations(operation, lane, to)? {
                    let pieces = pieces.clone();
                    let load = Load { op: None, mbarrier, bytes, pieces, line: i.line };
                    c.start_load(lane, to, load)?;
                }
            }
        }
    }
    Ok(Step::Next)
}
