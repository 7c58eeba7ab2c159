//! Atomic operations and reductions (PTX ISA 9.7.13.5, 9.7.13.7). The lanes of a warp have their
//! turn in rising order.

use super::context::lanes_of;
use super::memory::{find_space, is_hint, need_writable, operands, strength};
use super::{Context, Lower, Outcome, Step};
use crate::check::{Fault, ReportKind};
use crate::error::Error;
use crate::memory::{Space, uninitialized};
use crate::numeric::{self as n, Rounding};
use crate::program::{Builder, Class, Detail, Instruction, Memory, Modifiers, bits, is_float};
use crate::syntax::ast::{self, Type};

pub(super) const TABLE: &[(&str, Lower)] = &[("atom", atom), ("red", red)];

/// What an atomic operation computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Add,
    And,
    Or,
    Xor,
    Exchange,
    Compare,
    Min,
    Max,
    Inc,
    Dec,
}

const OPS: &[(&str, Op)] = &[
    ("add", Op::Add),
    ("and", Op::And),
    ("or", Op::Or),
    ("xor", Op::Xor),
    ("exch", Op::Exchange),
    ("cas", Op::Compare),
    ("min", Op::Min),
    ("max", Op::Max),
    ("inc", Op::Inc),
    ("dec", Op::Dec),
];

/// An atomic operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    op: Op,
    ty: Type,
    memory: Memory,
}

fn atom(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    atomic(b, i, true)
}

fn red(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    atomic(b, i, false)
}

fn atomic(b: &mut Builder<'_, '_>, i: &ast::Instruction, returns: bool) -> Result<(), Error> {
    let mut modifiers = Modifiers::new(i);
    let (reach, (acquires, releases)) = strength(b, &mut modifiers, true);
    let (space, cluster) = find_space(&mut modifiers);
    let op = modifiers.choose(OPS).ok_or_else(|| modifiers.unsupported("the operation"))?;
    modifiers.flag("noftz");
    modifiers.skip(is_hint);
    let ty = modifiers.ty()?;
    modifiers.finish()?;
    let allowed = match op {
        Op::Add => {
            !matches!(ty, Type::B32 | Type::B64 | Type::S64 | Type::Pred | Type::B16 | Type::B128)
        }
        Op::Compare | Op::Exchange => matches!(ty, Type::B16 | Type::B32 | Type::B64),
        Op::And | Op::Or | Op::Xor => matches!(ty, Type::B32 | Type::B64),
        Op::Min | Op::Max => {
            matches!(ty, Type::U32 | Type::S32 | Type::U64 | Type::S64)
        }
        Op::Inc | Op::Dec => ty == Type::U32,
    };
    if !allowed || bits(ty) < 16 {
        return Err(modifiers.unsupported(&format!("type {ty:?}")));
    }
    let (d, address, x, y) = match (returns, op == Op::Compare) {
        (true, true) => operands(i).map(|[d, address, x, y]| (Some(d), address, x, Some(y)))?,
        (true, false) => operands(i).map(|[d, address, x]| (Some(d), address, x, None))?,
        (false, true) => operands(i).map(|[address, x, y]| (None, address, x, Some(y)))?,
        (false, false) => operands(i).map(|[address, x]| (None, address, x, None))?,
    };
    let address = b.address(address)?;
    let space = space.or(address.home);
    if !matches!(space, None | Some(Space::Global | Space::Shared)) {
        return Err(modifiers.invalid("atomics are for global and shared memory"));
    }
    if space != Some(Space::Shared) {
        b.communicates();
        if acquires || releases {
            b.orders_blocks();
        }
    }
    let size = (bits(ty) / 8) as u8;
    let memory = Memory {
        space,
        cluster,
        frame: false,
        size,
        count: 1,
        signed: false,
        reach,
        acquires,
        releases,
        bits: bits(ty) as u8,
    };
    let mut out = Instruction::new(run, Class::Memory);
    if let Some(d) = d {
        out.d = b.destination(d, ty)?;
    }
    (out.a, out.number) = (address.base, address.offset as u64);
    out.b = b.source(x, ty)?;
    if let Some(y) = y {
        out.c = b.source(y, ty)?;
    }
    out.detail = Detail::Atomic(Operation { op, ty, memory });
    b.add(out);
    Ok(())
}

fn run(c: &mut Context<'_>, i: &Instruction) -> Outcome {
    let Detail::Atomic(operation) = i.detail else {
        return Ok(Step::Next);
    };
    let memory = operation.memory;
    let addresses = c.addresses(i, memory);
    c.check_alignment(&addresses, memory.size.into())?;
    let mut old = [0; 32];
    c.order_blocks(memory.acquires, false);
    c.by_space(memory.space, addresses, |c, space, addresses| {
        for lane in lanes_of(c.mask) {
            let (x, y) = (c.lanes(i.b)[lane], c.lanes(i.c)[lane]);
            let (operation, line) = (operation, i.line);
            let one = One { lane, address: addresses[lane], x, y, operation, line };
            old[lane] = match space {
                Space::Global => global(c, &one)?,
                Space::Shared => shared(c, &one)?,
                _ => {
                    let message = "an atomic operation outside global and shared memory";
                    let fault = Fault::of_lane(ReportKind::OutOfBounds, lane, message);
                    return Err(fault.at(addresses[lane]));
                }
            };
        }
        Ok(())
    })?;
    // What it releases includes itself, and what it has acquired.
    c.order_blocks(false, memory.releases);
    if i.d != 0 {
        c.write(i.d, &old);
    }
    c.frame.spin();
    Ok(Step::Next)
}

/// One lane's operation.
struct One {
    lane: usize,
    address: u64,
    x: u64,
    y: u64,
    operation: Operation,
    line: u32,
}

fn global(c: &mut Context<'_>, one: &One) -> Result<u64, Box<Fault>> {
    let (lane, address) = (one.lane, one.address);
    let size = u32::from(one.operation.memory.size);
    let Some(found) = c.grid.memory.find(address, size.into()) else {
        return Err(c.stray(lane, address, size.into()));
    };
    need_writable(found, lane, address)?;
    let (old, written) = found.load(address - found.base, size);
    if c.grid.options.checks && written.count_ones() != size {
        return Err(uninitialized(lane, "global memory", address, Some(found.note(address))));
    }
    if c.checks_global_races() {
        let stamp = c.stamp(one.line, one.operation.memory.reach);
        c.check_global_race(found, (address, size), lane, &stamp, true)?;
    }
    found.store(address - found.base, size, one.operation.apply(old, one.x, one.y, true));
    c.statistics.global_loaded += u64::from(size);
    c.statistics.global_stored += u64::from(size);
    Ok(old)
}

fn shared(c: &mut Context<'_>, one: &One) -> Result<u64, Box<Fault>> {
    let lane = one.lane;
    let size = u32::from(one.operation.memory.size);
    let (rank, own) =
        c.shared_home(lane, (one.address, size.into()), one.operation.memory.cluster)?;
    let memory = &c.cluster.blocks[rank].shared;
    let (old, written) = memory.load(own, size);
    if c.grid.options.checks && written.count_ones() != size {
        return Err(c.unwritten_shared(lane, rank, own));
    }
    if c.checks_shared_races() {
        let stamp = c.stamp(one.line, one.operation.memory.reach);
        c.check_shared_race((rank, own, size), lane, &stamp, true)?;
    }
    let new = one.operation.apply(old, one.x, one.y, false);
    c.cluster.blocks[rank].shared.store(own, size, new);
    c.statistics.shared_loaded += u64::from(size);
    c.statistics.shared_stored += u64::from(size);
    Ok(old)
}

impl Operation {
    /// What the memory has afterwards. f32 sums in global memory flush subnormal numbers.
    fn apply(self, old: u64, x: u64, y: u64, global: bool) -> u64 {
        let mask = u64::MAX >> (64 - 8 * u32::from(self.memory.size));
        if self.op == Op::Add && is_float(self.ty) {
            return self.float_sum(old, x, global);
        }
        let extend = |value: u64| match self.ty {
            Type::S32 => i64::from(value as i32),
            _ => value as i64,
        };
        let signed = matches!(self.ty, Type::S32 | Type::S64);
        let less = if signed { extend(x) < extend(old) } else { x < old };
        let value = match self.op {
            Op::Add => old.wrapping_add(x),
            Op::And => old & x,
            Op::Or => old | x,
            Op::Xor => old ^ x,
            Op::Exchange => x,
            Op::Compare => {
                if old == x {
                    y
                } else {
                    old
                }
            }
            Op::Min => {
                if less {
                    x
                } else {
                    old
                }
            }
            Op::Max => {
                if less {
                    old
                } else {
                    x
                }
            }
            Op::Inc => {
                if old >= x {
                    0
                } else {
                    old + 1
                }
            }
            Op::Dec => {
                if old == 0 || old > x {
                    x
                } else {
                    old - 1
                }
            }
        };
        value & mask
    }

    fn float_sum(self, old: u64, x: u64, global: bool) -> u64 {
        let (a, b) = (old as u32, x as u32);
        match self.ty {
            Type::F32 if global => {
                let sum = n::add_f32(n::flush_f32(a), n::flush_f32(b), Rounding::NearestEven);
                n::flush_f32(sum).into()
            }
            Type::F32 => n::add_f32(a, b, Rounding::NearestEven).into(),
            Type::F64 => n::add_f64(old, x, Rounding::NearestEven),
            Type::F16 => n::add_f16(a as u16, b as u16).into(),
            Type::Bf16 => n::add_bf16(a as u16, b as u16).into(),
            Type::F16x2 => n::packed2(a, b, n::add_f16).into(),
            _ => n::packed2(a, b, n::add_bf16).into(),
        }
    }
}
