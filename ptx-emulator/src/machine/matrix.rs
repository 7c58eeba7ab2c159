//! Matrix products of a warp, and what brings their operands (PTX ISA 9.7.14.5).

use super::memory::space;
use super::{Context, Lower, Outcome, Step};
use crate::check::shadow::Reach;
use crate::check::{Fault, ReportKind};
use crate::emulator::Arch;
use crate::error::Error;
use crate::memory::Space;
use crate::program::{
    Builder, Class, Detail, Handler, Instruction, Modifiers, Needs, Slot, exactly,
};
use crate::syntax::ast::{self, Operand, Type};
use crate::tensor_core::{Accumulator, Element, Mma, Product, Shape, layout};

pub(super) const TABLE: &[(&str, Lower)] =
    &[("ldmatrix", ldmatrix), ("mma", mma), ("movmatrix", movmatrix), ("stmatrix", stmatrix)];

const ELEMENTS: &[(&str, Element)] = &[
    ("f16", Element::F16),
    ("bf16", Element::Bf16),
    ("tf32", Element::Tf32),
    ("f64", Element::F64),
    ("s8", Element::S8),
    ("u8", Element::U8),
    ("e4m3", Element::E4m3),
    ("e5m2", Element::E5m2),
];

const ACCUMULATORS: &[(&str, Accumulator)] = &[
    ("f16", Accumulator::F16),
    ("f32", Accumulator::F32),
    ("f64", Accumulator::F64),
    ("s32", Accumulator::S32),
];

/// The sizes of a name: `m16n8k16`.
pub(super) fn shape(word: &str) -> Option<Shape> {
    let (m, rest) = word.strip_prefix('m')?.split_once('n')?;
    let (n, k) = rest.split_once('k')?;
    Some(Shape::new(m.parse().ok()?, n.parse().ok()?, k.parse().ok()?))
}

fn mma(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    let [d, x, y, c] = exactly(i)?;
    let mut modifiers = Modifiers::new(i);
    let fixed = ["sync", "aligned", "row", "col"];
    if !fixed.iter().all(|word| modifiers.flag(word)) {
        return Err(modifiers.unsupported("the form without .sync.aligned.row.col"));
    }
    modifiers.flag("kind::f8f6f4");
    let shape = modifiers.find(shape).ok_or_else(|| modifiers.unsupported("the shape"))?;
    let satfinite = modifiers.flag("satfinite");
    let types = |modifiers: &Modifiers<'_>| modifiers.unsupported("the types");
    let to = modifiers.choose(ACCUMULATORS).ok_or_else(|| types(&modifiers))?;
    let first = modifiers.choose(ELEMENTS).ok_or_else(|| types(&modifiers))?;
    let second = modifiers.choose(ELEMENTS).ok_or_else(|| types(&modifiers))?;
    let from = modifiers.choose(ACCUMULATORS).ok_or_else(|| types(&modifiers))?;
    modifiers.finish()?;
    let mma = Mma { shape, a: first, b: second, c: from, d: to, satfinite };
    let Some(row) = mma.table_row() else {
        return Err(modifiers.unsupported("shape and types"));
    };
    b.need(Needs::From(row.since.0, row.since.1))?;
    let registers = mma.registers();
    let double = first == Element::F64;
    let ty = if double { Type::F64 } else { Type::B32 };
    let mut list: Vec<Slot> = Vec::new();
    let wrong = || modifiers.invalid("an operand has the wrong number of registers");
    let destinations = b.elements(d)?;
    if destinations.len() != registers.d {
        return Err(wrong());
    }
    for element in &destinations {
        list.push(b.destination(element, ty)?);
    }
    for (operand, count) in [(x, registers.a), (y, registers.b), (c, registers.c)] {
        let elements = b.elements(operand)?;
        if elements.len() != count {
            return Err(wrong());
        }
        for element in &elements {
            let ty = if double { ty } else { constant_type(element, operand, c, to) };
            list.push(b.source(element, ty)?);
        }
    }
    let handler: Handler = if double { run_double } else { run };
    let mut out = Instruction::new(handler, Class::Matrix);
    (out.writes, out.list) = (registers.d as u8, list.into());
    out.detail = Detail::Matrix(Box::new(mma));
    b.add(out);
    Ok(())
}

/// The type as which a register, or a constant among those of C, is read.
fn constant_type(element: &Operand, operand: &Operand, c: &Operand, to: Accumulator) -> Type {
    let constant = matches!(element, Operand::Constant(ast::Constant::Double(_)));
    if constant && operand == c && to == Accumulator::F32 { Type::F32 } else { Type::B32 }
}

/// The arithmetic of a product on the emulated GPU.
fn product(c: &Context<'_>, mma: &Mma) -> Product {
    let Arch { major, minor } = c.grid.options.arch;
    mma.product((major, minor))
}

/// 32-bit registers of all lanes.
fn registers(c: &Context<'_>, slots: &[Slot]) -> [[u32; 32]; 8] {
    let mut registers = [[0; 32]; 8];
    for (register, slot) in registers.iter_mut().zip(slots) {
        let lanes = c.lanes(*slot);
        *register = std::array::from_fn(|lane| lanes[lane] as u32);
    }
    registers
}

fn run(c: &mut Context<'_>, i: &Instruction) -> Outcome {
    let Detail::Matrix(mma) = &i.detail else {
        return Ok(Step::Next);
    };
    c.whole_warp("mma")?;
    let count = mma.registers();
    let (to, rest) = i.list.split_at(count.d);
    let (first, rest) = rest.split_at(count.a);
    let (second, third) = rest.split_at(count.b);
    let (x, y, z) = (registers(c, first), registers(c, second), registers(c, third));
    let mut d = [[0; 32]; 8];
    let arithmetic = product(c, mma);
    let (x, y, z) = (&x[..count.a], &y[..count.b], &z[..count.c]);
    mma.execute(&arithmetic, x, y, z, &mut d[..count.d]);
    for (slot, register) in to.iter().zip(&d) {
        let value = std::array::from_fn(|lane| register[lane].into());
        c.write(*slot, &value);
    }
    Ok(Step::Next)
}

fn run_double(c: &mut Context<'_>, i: &Instruction) -> Outcome {
    let Detail::Matrix(mma) = &i.detail else {
        return Ok(Step::Next);
    };
    c.whole_warp("mma")?;
    let count = mma.registers();
    let values: Vec<[u64; 32]> = i.list.iter().map(|slot| *c.lanes(*slot)).collect();
    let (_, rest) = values.split_at(count.d);
    let (x, rest) = rest.split_at(count.a);
    let (y, z) = rest.split_at(count.b);
    let mut d = [[0; 32]; 4];
    let arithmetic = product(c, mma);
    mma.execute_f64(&arithmetic, x, y, z, &mut d[..count.d]);
    for (slot, value) in i.list.iter().zip(&d[..count.d]) {
        c.write(*slot, value);
    }
    Ok(Step::Next)
}

impl Context<'_> {
    /// Faults unless all 32 lanes execute the instruction (`.aligned`, and no thread has exited).
    fn whole_warp(&self, what: &str) -> Result<(), Box<Fault>> {
        if self.mask == u32::MAX {
            return Ok(());
        }
        let lane = (!self.mask).trailing_zeros();
        let message = format!("{what} is executed by a part of its warp: lane {lane} is elsewhere");
        Err(Fault::new(ReportKind::Divergence, message))
    }
}

/// How many 8 x 8 matrices an instruction moves, and whether transposed, in its number.
const TRANSPOSED: u64 = 1 << 8;
/// In the number: the address is a generic one.
const GENERIC: u64 = 1 << 9;

/// Reads the modifiers of `ldmatrix` and `stmatrix`: the number of matrices and the flags.
fn matrices(modifiers: &mut Modifiers<'_>) -> Result<(usize, u64), Error> {
    modifiers.flag("sync");
    modifiers.flag("aligned");
    if !modifiers.flag("m8n8") {
        return Err(modifiers.unsupported("the shape"));
    }
    let count = modifiers.choose(&[("x1", 1), ("x2", 2), ("x4", 4)]);
    let count: usize = count.ok_or_else(|| modifiers.unsupported("the number of matrices"))?;
    let mut number = count as u64;
    if modifiers.flag("trans") {
        number |= TRANSPOSED;
    }
    match modifiers.find(space) {
        Some(Space::Shared) => {}
        None => number |= GENERIC,
        Some(_) => return Err(modifiers.invalid("matrices are in shared memory")),
    }
    if modifiers.ty()? != Type::B16 {
        return Err(modifiers.unsupported("the type"));
    }
    modifiers.finish()?;
    Ok((count, number))
}

fn ldmatrix(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    let [d, address] = exactly(i)?;
    let mut modifiers = Modifiers::new(i);
    let (count, number) = matrices(&mut modifiers)?;
    let elements = b.elements(d)?;
    if elements.len() != count {
        return Err(modifiers.invalid("the destination has the wrong number of registers"));
    }
    let list = elements.iter().map(|element| b.destination(element, Type::B32));
    let mut out = Instruction::new(load, Class::Matrix);
    out.writes = count as u8;
    out.list = list.collect::<Result<Vec<_>, _>>()?.into();
    let address = b.address(address)?;
    (out.a, out.b) = (address.base, 0);
    (out.number, out.c) = (number | (address.offset as u64) << 16, 0);
    b.add(out);
    Ok(())
}

fn stmatrix(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    let [address, source] = exactly(i)?;
    let mut modifiers = Modifiers::new(i);
    let (count, number) = matrices(&mut modifiers)?;
    let elements = b.elements(source)?;
    if elements.len() != count {
        return Err(modifiers.invalid("the source has the wrong number of registers"));
    }
    let list = elements.iter().map(|element| b.source(element, Type::B32));
    let mut out = Instruction::new(store, Class::Matrix);
    out.list = list.collect::<Result<Vec<_>, _>>()?.into();
    let address = b.address(address)?;
    out.a = address.base;
    out.number = number | (address.offset as u64) << 16;
    b.add(out);
    Ok(())
}

fn movmatrix(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    let [d, x] = exactly(i)?;
    let mut modifiers = Modifiers::new(i);
    for word in ["sync", "aligned", "m8n8", "trans"] {
        if !modifiers.flag(word) {
            return Err(modifiers.unsupported("the form"));
        }
    }
    modifiers.ty()?;
    modifiers.finish()?;
    let mut out = Instruction::new(
        |c, i| {
            c.whole_warp("movmatrix")?;
            let [register, ..] = registers(c, &[i.a]);
            let moved = layout::transpose(&register);
            c.write(i.d, &std::array::from_fn(|lane| moved[lane].into()));
            Ok(Step::Next)
        },
        Class::Matrix,
    );
    (out.d, out.a) = (b.destination(d, Type::B32)?, b.source(x, Type::B32)?);
    b.add(out);
    Ok(())
}

/// The addresses of the rows of all matrices: lane 8 m + r has that of row r of matrix m.
fn rows(c: &mut Context<'_>, i: &Instruction) -> Result<Vec<(usize, u64)>, Box<Fault>> {
    let base = *c.lanes(i.a);
    let count = (i.number & 7) as usize;
    let offset = (i.number as i64 >> 16) as u64;
    let window = if i.number & GENERIC != 0 { crate::memory::SHARED_WINDOW } else { 0 };
    let mut addresses = [0; 32];
    let mut homes = Vec::with_capacity(8 * count);
    for (lane, address) in addresses[..8 * count].iter_mut().enumerate() {
        *address = base[lane].wrapping_add(offset).wrapping_sub(window);
        if *address % 16 != 0 {
            let message = "a row of a matrix at an address that isn't a multiple of 16";
            return Err(Fault::of_lane(ReportKind::Misaligned, lane, message).at(*address));
        }
        homes.push(c.shared_home(lane, (*address, 16), false)?);
    }
    let mask = std::mem::replace(&mut c.mask, (u64::from(u32::MAX) >> (32 - 8 * count)) as u32);
    c.count_shared(&addresses, 16);
    c.mask = mask;
    Ok(homes)
}

fn load(c: &mut Context<'_>, i: &Instruction) -> Outcome {
    c.whole_warp("ldmatrix")?;
    let homes = rows(c, i)?;
    let (checks, races) = (c.grid.options.checks, c.checks_shared_races());
    let stamp = c.stamp(i.line, Reach::Weak);
    let mut matrices = [[[0u16; 8]; 8]; 4];
    let (mut unwritten, mut origin) = ([0; 4], 0);
    for (lane, (rank, row_address)) in homes.iter().enumerate() {
        let row = &mut matrices[lane / 8][lane % 8];
        for word in 0..4 {
            let address = row_address + 4 * word as u64;
            let (value, written) = c.cluster.blocks[*rank].shared.load(address, 4);
            if checks && written != 0xf {
                c.in_flight(lane, *rank, address)?;
                unwritten[lane / 8] |= readers(lane % 8, i.number & TRANSPOSED != 0);
                origin = address;
            }
            if races {
                c.check_shared_race((*rank, address, 4), lane, &stamp, false)?;
            }
            (row[2 * word], row[2 * word + 1]) = (value as u16, (value >> 16) as u16);
        }
    }
    for (matrix, slot) in matrices.iter().zip(&i.list) {
        let register = layout::distribute(matrix, i.number & TRANSPOSED != 0);
        c.write(*slot, &std::array::from_fn(|lane| register[lane].into()));
    }
    for (lanes, slot) in unwritten.iter().zip(&i.list).filter(|(lanes, _)| **lanes != 0) {
        c.frame.marks.mark(*slot, *lanes, i.line, origin);
    }
    c.statistics.shared_loaded += 16 * homes.len() as u64;
    Ok(Step::Next)
}

/// The lanes that get elements of a row.
fn readers(row: usize, transposed: bool) -> u32 {
    if transposed { 0x1111_1111 << (row / 2) } else { 0xf << (4 * row) }
}

fn store(c: &mut Context<'_>, i: &Instruction) -> Outcome {
    c.whole_warp("stmatrix")?;
    let homes = rows(c, i)?;
    let races = c.checks_shared_races();
    let stamp = c.stamp(i.line, Reach::Weak);
    let sources = registers(c, &i.list);
    for (number, homes) in homes.chunks(8).enumerate() {
        let matrix = layout::collect(&sources[number], i.number & TRANSPOSED != 0);
        for (row, (rank, address)) in homes.iter().enumerate() {
            for word in 0..4 {
                let address = address + 4 * word as u64;
                if races {
                    let lane = 8 * number + row;
                    c.check_shared_race((*rank, address, 4), lane, &stamp, true)?;
                }
                let value =
                    u64::from(matrix[row][2 * word]) | u64::from(matrix[row][2 * word + 1]) << 16;
                c.cluster.blocks[*rank].shared.store(address, 4, value);
            }
        }
    }
    c.statistics.shared_stored += 16 * homes.len() as u64;
    Ok(Step::Next)
}
