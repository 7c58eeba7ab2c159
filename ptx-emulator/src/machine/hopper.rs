//! What compute capability 9.0 adds: mbarriers, bulk and tensor copies, clusters, products of
//! warpgroups, registers that warps hand over.
//!
//! The rules are in [`crate::sync`], [`crate::bulk`] and [`crate::order`], which know no machine;
//! here instructions are lowered to them, and memory and registers are moved. Asynchronous
//! operations take effect when somebody asks for them (at the latest legal moment), with their
//! destinations unwritten until then, or at once, as [`Timing`](crate::Timing) says.

mod bulk;
mod cluster;
mod copy;
mod fence;
mod mbarrier;
mod order;
mod registers;
mod tensor;
mod wgmma;
mod wgmma_lower;

pub(crate) use registers::watch;

use super::Lower;
use super::block::{Block, Grid};
use super::context::Context;
use crate::check::{Fault, ReportKind};
use crate::memory::{RANK_SHIFT, SHARED_WINDOW, WINDOW_BYTES};
use crate::order::{OpId, Order};
use crate::sync::{AsyncGroups, ClusterBarrier, Mbarrier, RegisterPool};
use crate::syntax::ast;
use rustc_hash::FxHashMap;
use std::ops::Range;

/// A place in the shared memory of a block of the cluster: its rank and the address there.
pub(crate) type Place = (usize, u64);

/// Which addresses an operand in shared memory has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// Generic ones.
    generic: bool,
    /// Those of the block's own shared memory alone.
    own_only: bool,
}

impl Window {
    const OWN: Window = Window { generic: false, own_only: true };
    const CLUSTER: Window = Window { generic: false, own_only: false };
}

/// What the instructions need besides their slots.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Mbarrier(mbarrier::Operation),
    Copy(copy::Operation),
    Product(std::sync::Arc<wgmma::Operation>),
}

/// The state of a cluster beyond its blocks' memories and barriers.
#[derive(Debug)]
pub(crate) struct Hopper {
    /// The checker of Level 2, where barriers of whole blocks aren't all that orders.
    pub order: Option<Order>,
    /// Whether it has had a fence of the whole GPU.
    pub acquired: bool,
    /// For each block, the times up to which fences of it or of its cluster have released its
    /// warps' accesses; a fence of the GPU there releases them further.
    released: Vec<Vec<u32>>,
    /// Warps of a block.
    warps: usize,
    mbarriers: FxHashMap<Place, Mbarrier>,
    /// The addresses, in any block, among which all of them are.
    among: Range<u64>,
    /// Arrivals at them that wait for copies.
    arrivals: Vec<mbarrier::CopyArrival>,
    barrier: ClusterBarrier,
    /// Copies to shared memory that are under way.
    loads: Vec<copy::Load>,
    /// Copies to global memory that are under way, by their numbers.
    stores: FxHashMap<u64, copy::Store>,
    next_store: u64,
    /// What their writes are to the checker, until somebody waits for more than the reads.
    writes: FxHashMap<u64, OpId>,
    /// The groups of the latter, by rank, warp and lane.
    groups: FxHashMap<(usize, usize, usize), AsyncGroups<u64>>,
    /// Of each warpgroup, by rank and number.
    warpgroups: FxHashMap<(usize, usize), wgmma::WarpGroup>,
    /// Of each block.
    registers: Vec<Option<RegisterPool>>,
    /// The phase of the barrier at which each warp has last arrived.
    barrier_phases: Vec<u64>,
}

impl Hopper {
    pub fn new(grid: &Grid<'_>, blocks: &[Block]) -> Hopper {
        let live: Vec<u32> =
            blocks.iter().flat_map(|block| block.warps.iter().map(|warp| warp.live)).collect();
        let ordered = grid.options.checks && grid.program.beyond_barriers;
        Hopper {
            order: ordered.then(|| Order::new(&live, blocks.len())),
            acquired: false,
            released: vec![Vec::new(); blocks.len()],
            warps: live.len() / blocks.len().max(1),
            mbarriers: FxHashMap::default(),
            among: Range { start: u64::MAX, end: 0 },
            arrivals: Vec::new(),
            barrier: ClusterBarrier::new(&live),
            loads: Vec::new(),
            stores: FxHashMap::default(),
            next_store: 0,
            writes: FxHashMap::default(),
            groups: FxHashMap::default(),
            warpgroups: FxHashMap::default(),
            registers: vec![None; blocks.len()],
            barrier_phases: vec![0; live.len()],
        }
    }

    /// An mbarrier comes to be.
    fn add_mbarrier(&mut self, place: Place, barrier: Mbarrier) {
        let Range { start, end } = self.among;
        self.among = start.min(place.1)..end.max(place.1 + 8);
        self.mbarriers.insert(place, barrier);
    }

    /// Whether some of these bytes of a block may be an mbarrier's.
    pub fn may_have_mbarrier(&self, bytes: &Range<u64>) -> bool {
        bytes.start < self.among.end && self.among.start < bytes.end
    }

    /// Whether an mbarrier lives in the 8 bytes around an address.
    pub fn mbarrier_at(&self, (rank, address): Place) -> bool {
        self.may_have_mbarrier(&(address..address + 1))
            && self.mbarriers.contains_key(&(rank, address & !7))
    }

    /// Lanes of a warp exit.
    pub fn exit(&mut self, rank: usize, warp: usize, lanes: u32) {
        let number = rank * self.warps + warp;
        self.barrier.exit(number, lanes);
        if let Some(order) = &mut self.order {
            order.exit(number, lanes);
        }
    }

    /// What is wrong at the cluster's end: copies that nobody has waited for.
    pub fn unfinished(&self) -> Option<(u32, String)> {
        let load = self.loads.iter().map(|load| (load.line, "into shared memory"));
        let store = self.stores.values().map(|store| (store.line, "out of shared memory"));
        let (line, direction) = load.chain(store).min()?;
        let message = format!("the block exits while a copy {direction} is under way");
        Some((line, message))
    }
}

/// What lowers the instruction, if it is one of these.
pub(crate) fn find(instruction: &ast::Instruction) -> Option<Lower> {
    let words: Vec<&str> = instruction.modifiers.iter().take(3).map(|word| &**word).collect();
    let has_tensor = instruction.modifiers.get(3).is_some_and(|word| &**word == "tensor");
    Some(match (&*instruction.opcode, &words[..]) {
        ("mbarrier", _) => mbarrier::lower,
        ("cp", ["async", "mbarrier", ..]) => mbarrier::lower_copies,
        ("cp", ["async", "bulk", "commit_group" | "wait_group", ..]) => bulk::lower_groups,
        ("cp", ["async", "bulk", "tensor", ..]) => tensor::lower,
        ("cp", ["async", "bulk", "prefetch", ..]) if !has_tensor => bulk::lower_prefetch,
        ("cp", ["reduce", "async", "bulk", ..]) if !has_tensor => bulk::lower,
        ("cp", ["async", "bulk", "prefetch", ..] | ["reduce", "async", "bulk", ..]) => {
            tensor::lower
        }
        ("cp", ["async", "bulk", ..]) => bulk::lower,
        ("barrier", ["cluster", ..]) => cluster::lower_barrier,
        ("mapa", _) => cluster::lower_mapa,
        ("getctarank", _) => cluster::lower_rank,
        ("fence", ["proxy" | "mbarrier_init", ..] | ["proxy::alias", ..]) => fence::lower,
        ("griddepcontrol", _) => cluster::lower_grid,
        ("setmaxnreg", _) => registers::lower,
        ("wgmma", ["mma_async", ..]) => wgmma_lower::lower,
        ("wgmma", _) => wgmma_lower::lower_control,
        ("prefetch", ["tensormap", ..] | ["param" | "const", "tensormap", ..]) => tensor::prefetch,
        _ => return None,
    })
}

impl Context<'_> {
    /// The warp's number in its cluster.
    fn cluster_warp(&self) -> usize {
        self.rank * self.cluster.hopper.warps + self.warp.index
    }

    /// The place of an address, in a block that has not exited.
    fn shared_place(&self, lane: usize, address: u64, window: Window) -> Result<Place, Box<Fault>> {
        let place = self.named_place(lane, address, window)?;
        self.check_alive(lane, place.0, address)?;
        Ok(place)
    }

    /// The place that an address names, whatever has become of its block.
    fn named_place(&self, lane: usize, address: u64, window: Window) -> Result<Place, Box<Fault>> {
        let fault =
            |message: &str| Err(Fault::of_lane(ReportKind::OutOfBounds, lane, message).at(address));
        let inside = address.wrapping_sub(if window.generic { SHARED_WINDOW } else { 0 });
        if inside >= WINDOW_BYTES {
            return fault("an address that is not in shared memory");
        }
        let (rank, offset) = (inside >> RANK_SHIFT, inside & ((1 << RANK_SHIFT) - 1));
        let blocks = self.cluster.blocks.len();
        let rank = match rank {
            0 if blocks > 1 => {
                return fault("an address without its block's number in the cluster");
            }
            0 => 0,
            rank => rank as usize - 1,
        };
        if rank >= blocks {
            return fault("an address in the shared memory of a block that the cluster hasn't");
        }
        if window.own_only && rank != self.rank {
            return fault("another block's shared memory, where only the block's own may be used");
        }
        Ok((rank, offset))
    }

    /// Another block's shared memory goes when the block exits.
    pub fn check_alive(&self, lane: usize, rank: usize, address: u64) -> Result<(), Box<Fault>> {
        let is_done = |warp: &super::warp::Warp| warp.status == super::warp::Status::Done;
        if rank == self.rank || !self.cluster.blocks[rank].warps.iter().all(is_done) {
            return Ok(());
        }
        let message = "the shared memory of a block of the cluster that has exited";
        Err(Fault::of_lane(ReportKind::UseAfterFree, lane, message).at(address))
    }

    /// Checks that all of the bytes are shared memory of the block.
    fn need_shared(
        &self,
        lane: usize,
        (rank, address): Place,
        bytes: u64,
        what: &str,
    ) -> Result<(), Box<Fault>> {
        let shared = &self.cluster.blocks[rank].shared;
        if shared.contains(address, bytes) {
            return Ok(());
        }
        let message = format!("{what} of {bytes} bytes that the block's shared memory has not");
        let fault = Fault::of_lane(ReportKind::OutOfBounds, lane, message);
        Err(fault.at(address).inside(shared.note(address)))
    }
}
