//! `cp.async`: copies from global to shared memory in groups of each thread (PTX ISA 9.7.9.25.3).
//!
//! A copy's destination counts as unwritten from its start until its thread has waited for its
//! group, whenever the bytes arrive. With [`Timing::Latest`] they arrive at that wait.

use super::context::lanes_of;
use super::memory::{is_hint, space};
use super::{Context, Lower, Outcome, Step};
use crate::check::shadow::Reach;
use crate::check::{Fault, ReportKind};
use crate::emulator::Timing;
use crate::error::Error;
use crate::memory::{Space, uninitialized};
use crate::program::{Builder, Class, Instruction, Modifiers, TRUE, exactly};
use crate::sync::AsyncGroups;
use crate::syntax::ast::{self, Constant, Operand, Type};

pub(super) const TABLE: &[(&str, Lower)] = &[("cp", cp)];

/// One thread's copy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copy {
    /// Where from, in global memory.
    source: u64,
    /// Where to: the block's rank in its cluster, and the shared address.
    target: (usize, u64),
    /// Bytes to write; those from `from_source` on are zeros.
    bytes: u32,
    from_source: u32,
    line: u32,
    /// The bytes, where the copy has read them already.
    value: Option<[u64; 2]>,
    /// Its number among those of the warp.
    number: u64,
}

/// `cp.async` operations of a warp that are under way, lane by lane.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    lanes: Vec<AsyncGroups<Copy>>,
    /// How many have started.
    pub started: u64,
}

impl Copies {
    fn of(&mut self, lane: usize) -> &mut AsyncGroups<Copy> {
        if self.lanes.is_empty() {
            self.lanes.resize_with(32, AsyncGroups::default);
        }
        &mut self.lanes[lane]
    }

    /// Takes a lane's copies with numbers below `end`: they are complete.
    fn take(&mut self, lane: usize, end: u64) -> Vec<Copy> {
        self.of(lane).take_where(|copy| copy.number < end)
    }

    /// The line of a copy under way that writes a byte of a block's shared memory.
    pub fn writer(&self, rank: usize, address: u64) -> Option<u32> {
        let writes = |copy: &&Copy| {
            copy.target.0 == rank && address.wrapping_sub(copy.target.1) < u64::from(copy.bytes)
        };
        self.lanes.iter().flat_map(|groups| groups.pending()).find(writes).map(|copy| copy.line)
    }
}

impl Context<'_> {
    /// The fault of a word of shared memory that is read before it was written, or before the copy
    /// that writes it was waited for.
    #[cold]
    pub(super) fn unwritten_shared(&self, lane: usize, rank: usize, address: u64) -> Box<Fault> {
        if let Err(fault) = self.in_flight(lane, rank, address) {
            return fault;
        }
        let note = self.cluster.blocks[rank].shared.note(address);
        uninitialized(lane, "shared memory", address, note)
    }

    /// Faults if a copy is under way to an unwritten byte of shared memory.
    #[cold]
    pub(super) fn in_flight(
        &self,
        lane: usize,
        rank: usize,
        address: u64,
    ) -> Result<(), Box<Fault>> {
        // Rows past a matrix's end are read unwritten again and again, and there are many copies.
        if !self.cluster.blocks[rank].shared.is_awaited(address) {
            return Ok(());
        }
        let warps = self.cluster.blocks.iter().flat_map(|block| &block.warps);
        let mut copies = warps.map(|warp| &warp.copies).chain([&self.warp.copies]);
        let Some(line) = copies.find_map(|copies| copies.writer(rank, address)) else {
            return Ok(());
        };
        let note = self.cluster.blocks[rank].shared.note(address);
        let message = format!(
            "shared memory is read while the copy of PTX line {line} writes it: its thread has \
            not waited for it"
        );
        Err(Fault::of_lane(ReportKind::Asynchronous, lane, message).at(address).inside(note))
    }
}

fn cp(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    let mut modifiers = Modifiers::new(i);
    if !modifiers.flag("async") || i.modifiers.iter().any(|word| &**word == "bulk") {
        return Err(modifiers.unsupported("bulk copies, as"));
    }
    if modifiers.flag("commit_group") {
        modifiers.finish()?;
        let [] = exactly(i)?;
        b.add(Instruction::new(commit, Class::Memory));
        return Ok(());
    }
    let all = modifiers.flag("wait_all");
    if all || modifiers.flag("wait_group") {
        modifiers.finish()?;
        let mut out = Instruction::new(if all { wait_all } else { wait }, Class::Memory);
        match i.operands.as_slice() {
            [] if all => {}
            [Operand::Constant(Constant::Integer(groups))] if !all && *groups >= 0 => {
                out.number = *groups as u64;
            }
            _ => return Err(modifiers.invalid("the operand is no number of groups")),
        }
        b.add(out);
        return Ok(());
    }
    if i.modifiers.iter().any(|word| &**word == "mbarrier") {
        return Err(modifiers.unsupported("modifier .mbarrier"));
    }
    copy(b, i, modifiers)
}

/// In the number of a copy: its third operand is the predicate that leaves the source unread.
const IGNORES: u64 = 1 << 8;
/// In the number of a copy: its third operand is the number of bytes to read.
const SIZED: u64 = 1 << 9;

fn copy(
    b: &mut Builder<'_, '_>,
    i: &ast::Instruction,
    mut modifiers: Modifiers<'_>,
) -> Result<(), Error> {
    let all = modifiers.choose(&[("cg", false), ("ca", true)]);
    let all = all.ok_or_else(|| modifiers.invalid(".ca or .cg is missing"))?;
    let spaces = (modifiers.find(space), modifiers.find(space));
    if spaces != (Some(Space::Shared), Some(Space::Global)) {
        return Err(modifiers.unsupported("the state spaces"));
    }
    let hinted = modifiers.flag("L2::cache_hint");
    modifiers.skip(is_hint);
    modifiers.finish()?;
    let mut operands = i.operands.as_slice();
    if hinted {
        operands = operands.split_last().map_or(operands, |(_, rest)| rest);
    }
    let (to, from, bytes, rest) = match operands {
        [to, from, Operand::Constant(Constant::Integer(bytes)), rest @ ..] => {
            (to, from, *bytes as u64, rest)
        }
        _ => return Err(modifiers.invalid("the operands are wrong")),
    };
    if bytes != 16 && !(all && (bytes == 4 || bytes == 8)) {
        return Err(modifiers.invalid("the size is not 16 (or 4 or 8 with .ca)"));
    }
    let mut out = Instruction::new(start, Class::Memory);
    out.number = bytes;
    out.q = TRUE;
    match rest {
        [] => {}
        [operand] if b.is_predicate(operand) => {
            out.q = b.predicate_source(operand)?;
            out.number |= IGNORES;
        }
        [operand] => {
            out.c = b.source(operand, Type::U32)?;
            out.number |= SIZED;
        }
        _ => return Err(modifiers.invalid("the operands are wrong")),
    }
    let (to, from) = (b.address(to)?, b.address(from)?);
    (out.a, out.b) = (to.base, from.base);
    out.list = Box::new([
        b.constant(crate::program::Value::Bits(to.offset as u64)),
        b.constant(crate::program::Value::Bits(from.offset as u64)),
    ]);
    b.add(out);
    Ok(())
}

fn start(c: &mut Context<'_>, i: &Instruction) -> Outcome {
    let bytes = (i.number & 0xff) as u32;
    let (to, from) = (*c.lanes(i.a), *c.lanes(i.b));
    let offsets = (c.lanes(i.list[0])[0], c.lanes(i.list[1])[0]);
    let sizes = *c.lanes(i.c);
    let ignored = if i.number & IGNORES != 0 { c.predicate(i.q) } else { 0 };
    let to: [u64; 32] = std::array::from_fn(|lane| to[lane].wrapping_add(offsets.0));
    let from: [u64; 32] = std::array::from_fn(|lane| from[lane].wrapping_add(offsets.1));
    c.check_alignment(&to, bytes.into())?;
    let races = c.checks_shared_races();
    let stamp = c.stamp(i.line, Reach::Weak);
    let eager = c.is_eager();
    for lane in lanes_of(c.mask) {
        let from_source = match i.number & (IGNORES | SIZED) {
            SIZED => sizes[lane] as u32,
            _ if ignored >> lane & 1 == 1 => 0,
            _ => bytes,
        };
        if from_source > bytes {
            let message = format!("a copy of {bytes} bytes that is to read {from_source}");
            return Err(Fault::of_lane(ReportKind::Asynchronous, lane, message));
        }
        let target = c.shared_home(lane, (to[lane], bytes.into()), false)?;
        let source = from[lane];
        let (value, line, number) = (None, i.line, c.warp.copies.started);
        let mut copy = Copy { source, target, bytes, from_source, line, value, number };
        if from_source > 0 {
            c.check_source(lane, &copy)?;
        }
        if races {
            for part in (0..u64::from(bytes)).step_by(8) {
                let place = (target.0, target.1 + part, bytes.min(8));
                c.check_shared_race(place, lane, &stamp, true)?;
            }
        }
        if eager {
            copy.value = Some(c.read_source(lane, &copy)?);
        }
        c.cluster.blocks[target.0].shared.begin_copy(target.1, bytes.into());
        c.warp.copies.of(lane).push(copy);
        c.warp.copies.started += 1;
    }
    c.statistics.global_loaded += u64::from(bytes) * u64::from(c.mask.count_ones());
    c.statistics.shared_stored += u64::from(bytes) * u64::from(c.mask.count_ones());
    c.count_global(&from);
    c.count_shared(&to, bytes.into());
    Ok(Step::Next)
}

impl Context<'_> {
    /// Whether the operation that starts now takes effect at once.
    pub(super) fn is_eager(&mut self) -> bool {
        let timing = self.grid.options.timing;
        let block = self.cluster.blocks[self.rank].linear;
        let place = block << 40 ^ (self.warp.index as u64) << 32 ^ self.warp.steps;
        timing.draw(place).map_or(timing == Timing::Eager, |bits| bits & 1 == 1)
    }

    /// Bounds, alignment, races of what a copy reads.
    fn check_source(&mut self, lane: usize, copy: &Copy) -> Result<(), Box<Fault>> {
        let (address, bytes) = (copy.source, copy.bytes);
        if !address.is_multiple_of(bytes.into()) {
            let message = format!("a copy of {bytes} bytes from an address that isn't a multiple");
            return Err(Fault::of_lane(ReportKind::Misaligned, lane, message).at(address));
        }
        let Some(found) = self.grid.memory.find(address, copy.from_source.into()) else {
            return Err(self.stray(lane, address, copy.from_source.into()));
        };
        if self.checks_global_races() {
            let stamp = self.stamp(copy.line, Reach::Weak);
            self.check_global_race(found, (address, copy.from_source), lane, &stamp, false)?;
        }
        Ok(())
    }

    /// The bytes that a copy reads, in two words, zeros behind them.
    fn read_source(&self, lane: usize, copy: &Copy) -> Result<[u64; 2], Box<Fault>> {
        let (mut value, mut offset) = ([0; 2], 0);
        while offset < copy.from_source {
            let address = copy.source + u64::from(offset);
            // A copy's source is aligned to its size, so that these are aligned to theirs.
            let found = [8, 4, 2, 1].into_iter().find_map(|size| {
                let found = self.grid.memory.find(address, size.into());
                found.filter(|_| offset + size <= copy.from_source).map(|found| (found, size))
            });
            let Some((found, size)) = found else {
                return Err(self.stray(lane, address, 1));
            };
            let (bytes, written) = found.load(address - found.base, size);
            let first_unwritten = written.trailing_ones();
            if self.grid.options.checks && first_unwritten < size {
                let (address, note) = (address + u64::from(first_unwritten), found.note(address));
                return Err(uninitialized(lane, "global memory", address, Some(note)));
            }
            value[offset as usize / 8] |= bytes << (offset % 8 * 8);
            offset += size;
        }
        Ok(value)
    }

    /// Copies are complete: their bytes are there.
    fn arrive(&mut self, lane: usize, copies: &[Copy]) -> Result<(), Box<Fault>> {
        let races = self.checks_shared_races();
        for copy in copies {
            let (rank, target) = copy.target;
            let stamp = self.stamp(copy.line, Reach::Weak);
            for part in (0..u64::from(copy.bytes)).step_by(8).filter(|_| races) {
                let place = (rank, target + part, copy.bytes.min(8));
                self.check_shared_race(place, lane, &stamp, true)?;
            }
            self.land(lane, copy)?;
        }
        Ok(())
    }

    /// A copy's bytes are written.
    fn land(&mut self, lane: usize, copy: &Copy) -> Result<(), Box<Fault>> {
        let value = match copy.value {
            Some(value) => value,
            None => self.read_source(lane, copy)?,
        };
        let (rank, target) = copy.target;
        self.cluster.blocks[rank].shared.end_copy(target);
        for word in 0..u64::from(copy.bytes) / 4 {
            let part = value[word as usize / 2] >> (32 * (word % 2));
            self.cluster.blocks[rank].shared.store(target + 4 * word, 4, part & 0xffff_ffff);
        }
        Ok(())
    }

    /// A lane's copies that an mbarrier counts are complete: those of a warp of the cluster, which
    /// may be the one that runs, with numbers below `end`.
    pub(super) fn land_copies(
        &mut self,
        (rank, warp, lane): (usize, usize, usize),
        end: u64,
    ) -> Result<(), Box<Fault>> {
        let is_own = (rank, warp) == (self.rank, self.warp.index);
        let copies = match is_own {
            true => &mut self.warp.copies,
            false => &mut self.cluster.blocks[rank].warps[warp].copies,
        };
        copies.take(lane, end).iter().try_for_each(|copy| self.land(lane, copy))
    }
}

fn commit(c: &mut Context<'_>, _: &Instruction) -> Outcome {
    for lane in lanes_of(c.mask) {
        c.warp.copies.of(lane).commit();
    }
    Ok(Step::Next)
}

fn wait(c: &mut Context<'_>, i: &Instruction) -> Outcome {
    for lane in lanes_of(c.mask) {
        let copies = c.warp.copies.of(lane).wait(i.number as usize);
        c.arrive(lane, &copies)?;
    }
    Ok(Step::Next)
}

fn wait_all(c: &mut Context<'_>, _: &Instruction) -> Outcome {
    c.complete_copies()?;
    Ok(Step::Next)
}

impl Context<'_> {
    /// All copies of the executing lanes are complete.
    pub(super) fn complete_copies(&mut self) -> Result<(), Box<Fault>> {
        for lane in lanes_of(self.mask) {
            let copies = self.warp.copies.of(lane).wait_all();
            self.arrive(lane, &copies)?;
        }
        Ok(())
    }
}
