//! Loads, stores and prefetches (PTX ISA 9.7.9.8 to 9.7.9.15).

use super::context::lanes_of;
use super::hopper::Hopper;
use super::movement::is_parameter;
use super::{Context, Lanes, Lower, Outcome, Step, global, shared};
use crate::check::shadow::{Fences, Race, Reach};
use crate::check::{AccessKind, Fault, OtherSide, ReportKind};
use crate::error::Error;
use crate::memory::{
    Allocation, LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW, Space, WINDOW_BYTES, number,
};
use crate::order::Order;
use crate::program::{
    Address, Builder, Class, Detail, Instruction, Memory, Modifiers, bits, is_signed,
};
use crate::syntax::ast::{self, Operand, Type};

pub(super) const TABLE: &[(&str, Lower)] = &[
    ("applypriority", prefetch),
    ("createpolicy", createpolicy),
    ("discard", prefetch),
    ("ld", ld),
    ("ldu", ld),
    ("prefetch", prefetch),
    ("prefetchu", prefetch),
    ("st", st),
];

/// The state space of a modifier; `None` inside: generic.
pub(super) fn space(word: &str) -> Option<Space> {
    Some(match word {
        "global" => Space::Global,
        "shared" | "shared::cta" | "shared::cluster" => Space::Shared,
        "local" => Space::Local,
        "const" => Space::Const,
        "param" | "param::entry" | "param::func" => Space::Param,
        _ => return None,
    })
}

/// The operands of an access, of which there is one more, a policy for caches, where
/// `.L2::cache_hint` stands.
pub(super) fn operands<const N: usize>(i: &ast::Instruction) -> Result<&[Operand; N], Error> {
    let hinted = i.modifiers.iter().any(|word| &**word == "L2::cache_hint");
    let count = i.operands.len().saturating_sub(hinted.into());
    let operands = i.operands[..count].try_into();
    operands.map_err(|_| Modifiers::new(i).invalid("the number of operands is wrong"))
}

/// Takes a state space, and whether shared addresses in it may be of any block of the cluster: in
/// `.shared::cluster` and generic ones, but `.shared` is `.shared::cta` (PTX ISA 9.7.9.8).
pub(super) fn find_space(modifiers: &mut Modifiers<'_>) -> (Option<Space>, bool) {
    let found = modifiers.find(|word| Some((space(word)?, word == "shared::cluster")));
    found.map_or((None, true), |(space, cluster)| (Some(space), cluster))
}

/// Hints for caches: `.ca`, `.L1::no_allocate`, `.L2::128B`. They don't change what is loaded.
pub(super) fn is_hint(word: &str) -> bool {
    const HINTS: [&str; 10] = ["ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "unified", "weak"];
    HINTS.contains(&word) || word.starts_with("L1::") || word.starts_with("L2::")
}

/// Takes `.volatile`, `.relaxed.gpu` and the like: how far the access is strong, and whether it
/// acquires and whether it releases beyond its cluster. Atomic ones are strong without such words.
pub(super) fn strength(
    b: &mut Builder<'_, '_>,
    modifiers: &mut Modifiers<'_>,
    is_atomic: bool,
) -> (Reach, (bool, bool)) {
    let order = ["volatile", "relaxed", "acquire", "release", "acq_rel", "mmio", "seq_cst"];
    let found = modifiers.find(|word| order.iter().find(|name| **name == word).copied());
    let scopes = ["cta", "cluster", "gpu", "sys"];
    let scope = modifiers.find(|word| scopes.iter().find(|name| **name == word).copied());
    let is = |words: [&str; 3]| found.is_some_and(|word| words.contains(&word));
    let (acquires, releases) =
        (is(["acquire", "acq_rel", "seq_cst"]), is(["release", "acq_rel", "seq_cst"]));
    let beyond = !matches!(scope, Some("cta" | "cluster"));
    let reach = match scope {
        _ if found.is_none() && !is_atomic => Reach::Weak,
        Some("cta") => Reach::Block,
        Some("cluster") => Reach::Cluster,
        _ => Reach::All,
    };
    if acquires || releases || reach == Reach::Cluster {
        b.beyond_barriers();
    }
    (reach, (acquires && beyond, releases && beyond))
}

/// Reads the modifiers of a load or store.
fn access(
    b: &mut Builder<'_, '_>,
    modifiers: &mut Modifiers<'_>,
    address: &Address,
) -> Result<(Memory, Type), Error> {
    let (reach, (acquires, releases)) = strength(b, modifiers, false);
    let (space, cluster) = find_space(modifiers);
    let space = space.or(address.home.filter(|home| *home != Space::Const));
    modifiers.skip(is_hint);
    let count = modifiers.choose(&[("v2", 2), ("v4", 4), ("v8", 8)]).unwrap_or(1);
    let ty = modifiers.ty()?;
    modifiers.finish()?;
    if ty == Type::B128 || ty == Type::Pred {
        return Err(modifiers.unsupported(&format!("type {ty:?}")));
    }
    let size = (bits(ty) / 8) as u8;
    if u32::from(size) * count as u32 > 32 {
        return Err(modifiers.invalid("more than 32 bytes"));
    }
    if reach != Reach::Weak && matches!(space, None | Some(Space::Global)) {
        b.communicates();
        if acquires || releases {
            b.orders_blocks();
        }
    }
    // Parameters of a device function, and variables in .param, lie in the frame.
    let space = match (space, address.frame) {
        (Some(Space::Param | Space::Local), true) => Some(Space::Local),
        (Some(_), true) => return Err(modifiers.invalid("the variable is in local memory")),
        (space, false) => space,
        (None, true) => return Err(modifiers.invalid("a local variable's address isn't generic")),
    };
    let signed = is_signed(ty);
    let frame = address.frame;
    let bits = 0;
    Ok((Memory { space, cluster, frame, size, count, signed, reach, acquires, releases, bits }, ty))
}

fn ld(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    let mut modifiers = Modifiers::new(i);
    let [d, address] = operands(i)?;
    let address = b.address(address)?;
    let (mut memory, ty) = access(b, &mut modifiers, &address)?;
    let elements = b.elements(d)?;
    if elements.len() != usize::from(memory.count) {
        return Err(modifiers.invalid("the destination has the wrong number of elements"));
    }
    let mut out = Instruction::new(load, Class::Memory);
    let mut width = 64;
    let mut list = Vec::new();
    for element in &elements {
        let (slot, bits) = b.wide_destination(element, ty)?;
        list.push(slot);
        if *element != Operand::Sink {
            width = width.min(bits);
        }
    }
    memory.bits = width as u8;
    (out.writes, out.list) = (memory.count, list.into());
    (out.a, out.number) = (address.base, address.offset as u64);
    out.detail = Detail::Memory(memory);
    b.add(out);
    Ok(())
}

fn st(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    let mut modifiers = Modifiers::new(i);
    if modifiers.flag("async") || modifiers.flag("bulk") {
        return Err(modifiers.unsupported("modifier .async"));
    }
    let [address, value] = operands(i)?;
    let address = b.address(address)?;
    let (memory, ty) = access(b, &mut modifiers, &address)?;
    let elements = b.elements(value)?;
    if elements.len() != usize::from(memory.count) {
        return Err(modifiers.invalid("the source has the wrong number of elements"));
    }
    let sources = elements.iter().map(|element| b.wide_source(element, ty));
    let list: Vec<_> = sources.collect::<Result<_, _>>()?;
    let mut out = Instruction::new(store, Class::Memory);
    out.list = list.into();
    (out.a, out.number) = (address.base, address.offset as u64);
    out.detail = Detail::Memory(memory);
    b.add(out);
    Ok(())
}

/// Prefetches and the like look at nothing and change nothing.
fn prefetch(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    let mut modifiers = Modifiers::new(i);
    modifiers.find(space);
    let levels = ["L1", "L2", "L2::evict_last", "L2::evict_normal", "tensormap"];
    modifiers.skip(|word| levels.contains(&word));
    modifiers.finish()?;
    if let Some(address) = i.operands.first() {
        b.address(address)?;
    }
    b.add(Instruction::new(|_, _| Ok(Step::Next), Class::Memory));
    Ok(())
}

/// A cache policy is a number that only caches understand.
fn createpolicy(b: &mut Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    let [d, ..] = i.operands.as_slice() else {
        return Err(Modifiers::new(i).invalid("operands are missing"));
    };
    let mut out = Instruction::new(
        |c, i| {
            c.write(i.d, &[0; 32]);
            Ok(Step::Next)
        },
        Class::Memory,
    );
    out.d = b.destination(d, Type::B64)?;
    b.add(out);
    Ok(())
}

/// What a warp accesses: the addresses in their own space, and how.
pub(super) struct Access<'i> {
    pub addresses: Lanes,
    pub memory: Memory,
    pub line: u32,
    pub list: &'i [u32],
}

impl Context<'_> {
    /// The addresses of an instruction.
    #[inline]
    pub(super) fn addresses(&self, i: &Instruction, memory: Memory) -> Lanes {
        let base = self.lanes(i.a);
        let offset = if memory.frame { i.number.wrapping_add(self.frame.local) } else { i.number };
        std::array::from_fn(|lane| base[lane].wrapping_add(offset))
    }

    /// The first lane whose address isn't a multiple of `bytes`.
    pub(super) fn check_alignment(&self, addresses: &Lanes, bytes: u64) -> Result<(), Box<Fault>> {
        let mut all = 0;
        for (lane, address) in addresses.iter().enumerate() {
            all |= if self.mask >> lane & 1 == 1 { *address } else { 0 };
        }
        if all & (bytes - 1) == 0 {
            return Ok(());
        }
        let lane = lanes_of(self.mask).find(|lane| addresses[*lane] & (bytes - 1) != 0);
        let lane = lane.unwrap_or(0);
        let message = format!("an access of {bytes} bytes at an address that isn't a multiple");
        Err(Fault::of_lane(ReportKind::Misaligned, lane, message).at(addresses[lane]))
    }

    /// Executes an access once for each state space that the executing lanes' addresses lie in.
    pub(super) fn by_space(
        &mut self,
        space: Option<Space>,
        addresses: Lanes,
        mut access: impl FnMut(&mut Self, Space, Lanes) -> Result<(), Box<Fault>>,
    ) -> Result<(), Box<Fault>> {
        if let Some(space) = space {
            return access(self, space, addresses);
        }
        let all = self.mask;
        let mut rest = all;
        let mut result = Ok(());
        while rest != 0 && result.is_ok() {
            let first = rest.trailing_zeros() as usize;
            let (space, start) = generic(addresses[first]);
            let same = lanes_of(rest).filter(|lane| generic(addresses[*lane]).0 == space);
            self.mask = same.fold(0, |mask, lane| mask | 1 << lane);
            rest &= !self.mask;
            let own = std::array::from_fn(|lane| addresses[lane].wrapping_sub(start));
            result = access(self, space, own);
        }
        self.mask = all;
        result
    }

    /// The fault of an address in global memory that no allocation has.
    pub(super) fn stray(&self, lane: usize, address: u64, bytes: u64) -> Box<Fault> {
        let memory = self.grid.memory;
        let inside = memory.at_or_before(address);
        let freed = inside.filter(|a| !a.alive && address - a.base < a.bytes);
        if let Some(allocation) = freed {
            let message = format!("an access of {bytes} bytes to memory that was freed");
            let note = Some(allocation.note(address));
            return Fault::of_lane(ReportKind::UseAfterFree, lane, message)
                .at(address)
                .inside(note);
        }
        let message = format!("an access of {bytes} bytes that no allocation covers");
        Fault::of_lane(ReportKind::OutOfBounds, lane, message)
            .at(address)
            .inside(memory.nearest(address))
    }

    /// The fault of a race that an access of a lane has lost.
    pub(super) fn race(
        &self,
        race: Race,
        lane: usize,
        (what, address): (&str, u64),
        writes: bool,
    ) -> Box<Fault> {
        let launch = &self.grid.launch;
        let block = super::block::Grid::place(race.block, launch.grid);
        // Of the clusters of a kernel with fences of the GPU it is the warp that is known.
        let (rank, thread) = match self.fences().warps_of_block(self.cluster.blocks.len()) {
            None => (0, race.thread),
            Some(warps) => (race.thread / warps, race.thread % warps * 32),
        };
        let further = super::block::Grid::place(rank.into(), launch.cluster);
        let block = [0, 1, 2].map(|i| block[i] + further[i]);
        let thread = super::block::Grid::place(thread.into(), launch.block);
        let access = if race.wrote { AccessKind::Write } else { AccessKind::Read };
        let verb = if writes { "write" } else { "read" };
        let message = format!("a {verb} of {what} memory that nothing orders with another access");
        let other = OtherSide { access, line: race.line, block, thread };
        Fault::of_lane(ReportKind::DataRace, lane, message).at(address).against(other)
    }

    /// What fences of the whole GPU order.
    pub(super) fn fences(&self) -> Fences<'_> {
        let Hopper { acquired, ref order, .. } = self.cluster.hopper;
        let warps = order.as_ref().map_or(0, Order::warps);
        Fences { released: &self.grid.released, warps, acquired }
    }

    /// A fence of the whole GPU, or an access that acquires or releases as far.
    pub(super) fn order_blocks(&mut self, acquires: bool, releases: bool) {
        self.cluster.hopper.acquired |= acquires && !self.grid.released.is_empty();
        if releases {
            self.order_release_to_all();
        }
    }
}

/// The space of a generic address, and where its window begins.
fn generic(address: u64) -> (Space, u64) {
    for (start, space) in
        [(SHARED_WINDOW, Space::Shared), (LOCAL_WINDOW, Space::Local), (PARAM_WINDOW, Space::Param)]
    {
        if address.wrapping_sub(start) < WINDOW_BYTES {
            return (space, start);
        }
    }
    (Space::Global, 0)
}

/// An element as a register of `bits` bits takes it.
#[inline(always)]
pub(super) fn extend(value: u64, memory: Memory) -> u64 {
    if !memory.signed {
        return value;
    }
    let unused = 64 - 8 * u32::from(memory.size);
    let extended = ((value << unused) as i64 >> unused) as u64;
    extended & (u64::MAX >> (64 - u32::from(memory.bits)))
}

fn load(c: &mut Context<'_>, i: &Instruction) -> Outcome {
    let Detail::Memory(memory) = i.detail else {
        return Ok(Step::Next);
    };
    let addresses = c.addresses(i, memory);
    c.check_alignment(&addresses, u64::from(memory.size) * u64::from(memory.count))?;
    c.order_blocks(memory.acquires, false);
    let load = |c: &mut Context<'_>, space, addresses| {
        let access = Access { addresses, memory, line: i.line, list: &i.list };
        match space {
            Space::Global | Space::Const => global::load(c, &access),
            Space::Shared => shared::load(c, &access),
            Space::Local => load_local(c, &access),
            Space::Param => load_param(c, &access),
        }
    };
    c.by_space(memory.space, addresses, load).or_else(|fault| {
        // The parameters' window is inside that of global memory.
        let is_global = memory.space == Some(Space::Global);
        match is_global && fault.address.is_some_and(is_parameter) {
            true => c.by_space(None, addresses, load),
            false => Err(fault),
        }
    })?;
    if memory.reach != Reach::Weak {
        c.frame.spin();
    }
    Ok(Step::Next)
}

fn store(c: &mut Context<'_>, i: &Instruction) -> Outcome {
    let Detail::Memory(memory) = i.detail else {
        return Ok(Step::Next);
    };
    let addresses = c.addresses(i, memory);
    c.check_alignment(&addresses, u64::from(memory.size) * u64::from(memory.count))?;
    c.by_space(memory.space, addresses, |c, space, addresses| {
        let access = Access { addresses, memory, line: i.line, list: &i.list };
        match space {
            Space::Global => global::store(c, &access),
            Space::Shared => shared::store(c, &access),
            Space::Local => store_local(c, &access),
            Space::Const | Space::Param => {
                let lane = c.mask.trailing_zeros() as usize;
                let message = "a store to constant memory or a parameter";
                let fault = Fault::of_lane(ReportKind::ReadOnly, lane, message);
                Err(fault.at(addresses[lane]))
            }
        }
    })?;
    // What it releases includes itself.
    c.order_blocks(false, memory.releases);
    Ok(Step::Next)
}

/// Faults if the allocation is of constant memory.
pub(super) fn need_writable(
    allocation: &Allocation,
    lane: usize,
    address: u64,
) -> Result<(), Box<Fault>> {
    if !allocation.read_only {
        return Ok(());
    }
    let fault = Fault::of_lane(ReportKind::ReadOnly, lane, "a store to constant memory");
    Err(fault.at(address).inside(Some(allocation.note(address))))
}

/// The fault of a local address that no variable has.
fn stray_local(lane: usize, address: u64) -> Box<Fault> {
    let message = "an access outside local memory";
    Fault::of_lane(ReportKind::OutOfBounds, lane, message).at(address)
}

fn load_local(c: &mut Context<'_>, access: &Access<'_>) -> Result<(), Box<Fault>> {
    let memory = access.memory;
    let size = usize::from(memory.size);
    for (k, slot) in access.list.iter().enumerate() {
        let mut values = [0; 32];
        for lane in lanes_of(c.mask) {
            let address = access.addresses[lane].wrapping_add((k * size) as u64);
            let index = c.warp.local.index(address, size as u64);
            let index = index.ok_or_else(|| stray_local(lane, address))?;
            let value = c.warp.local.load(index, size, lane);
            values[lane] = extend(value, memory);
        }
        c.write(*slot, &values);
    }
    Ok(())
}

fn store_local(c: &mut Context<'_>, access: &Access<'_>) -> Result<(), Box<Fault>> {
    let size = usize::from(access.memory.size);
    for (k, slot) in access.list.iter().enumerate() {
        let values = *c.lanes(*slot);
        for lane in lanes_of(c.mask) {
            let address = access.addresses[lane].wrapping_add((k * size) as u64);
            let index = c.warp.local.index(address, size as u64);
            let index = index.ok_or_else(|| stray_local(lane, address))?;
            c.warp.local.store(index, size, lane, values[lane]);
        }
    }
    Ok(())
}

fn load_param(c: &mut Context<'_>, access: &Access<'_>) -> Result<(), Box<Fault>> {
    let memory = access.memory;
    let size = u64::from(memory.size);
    for (k, slot) in access.list.iter().enumerate() {
        let mut values = [0; 32];
        for lane in lanes_of(c.mask) {
            let address = access.addresses[lane].wrapping_add(k as u64 * size);
            let end = address.checked_add(size);
            let end = end.filter(|end| *end <= c.grid.parameters.len() as u64);
            let Some(end) = end else {
                let message = "a load from beyond the parameters";
                return Err(Fault::of_lane(ReportKind::OutOfBounds, lane, message).at(address));
            };
            let value = number(&c.grid.parameters[address as usize..end as usize]);
            values[lane] = extend(value, memory);
        }
        c.write(*slot, &values);
    }
    Ok(())
}
