//! Blocks and clusters: their state, and the scheduler of their warps.
//!
//! Warps take turns. When none can go on, that is a deadlock, and the report says who waits for
//! what. All blocks of a cluster run together.

use super::context::{ALL, Context, Lanes, lanes_of};
use super::hopper::Hopper;
use super::registers;
use super::statistics::Statistics;
use super::warp::{Frame, Path, Status, Stop, Warp};
use crate::check::shadow::LAST_EPOCH;
use crate::check::{Fault, Report, ReportKind};
use crate::emulator::{Launch, Options};
use crate::memory::{GlobalMemory, SharedMemory};
use crate::program::{END, Function, Program, Special};
use crate::sync::{NamedBarrier, Released};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

/// What all blocks of a launch have in common.
pub(crate) struct Grid<'a> {
    pub options: &'a Options,
    pub memory: &'a GlobalMemory,
    pub program: &'a Program,
    /// The constants of each function, for each rank in a cluster.
    pub constants: Vec<Vec<Vec<Lanes>>>,
    pub launch: Launch,
    /// The kernel's name.
    pub kernel: &'a str,
    /// The parameter block.
    pub parameters: Vec<u8>,
    /// Shared variables, for reports.
    pub regions: Arc<[(String, u64, u64)]>,
    /// The first address after a block's shared memory.
    pub shared_end: u64,
    /// What fences of the whole GPU have released, where the kernel has any; see
    /// [`Fences`](crate::check::shadow::Fences).
    pub released: Vec<AtomicU32>,
}

impl Grid<'_> {
    /// The threads of a block.
    pub fn threads(&self) -> u32 {
        self.launch.block.iter().product()
    }

    /// The place of a linear index in three extents.
    pub fn place(index: u64, [x, y, _]: [u32; 3]) -> [u32; 3] {
        let (x, y) = (u64::from(x), u64::from(y));
        [(index % x) as u32, (index / x % y) as u32, (index / x / y) as u32]
    }
}

/// One block.
#[derive(Debug)]
pub(crate) struct Block {
    pub index: [u32; 3],
    /// Its number in the order of launching.
    pub linear: u64,
    pub shared: SharedMemory,
    pub warps: Vec<Warp>,
    pub barriers: [NamedBarrier; 16],
    /// Its interval of the race checker, from 1.
    pub epoch: u32,
    /// It has had so many intervals that their numbers have begun again.
    pub wrapped: bool,
    /// Barriers of all threads are all that orders it so far: Level 1 of the race checker is exact.
    pub by_barriers: bool,
}

impl Block {
    fn new(grid: &Grid<'_>, index: [u32; 3]) -> Block {
        let [x, y, _] = grid.launch.grid.map(u64::from);
        let linear = (u64::from(index[2]) * y + u64::from(index[1])) * x + u64::from(index[0]);
        let regions = grid.regions.clone();
        // Level 2 has a shadow of its own.
        let check = grid.options.checks && !grid.program.beyond_barriers;
        let threads = grid.threads();
        let warp = |number: u32| Warp {
            index: number as usize,
            live: if threads - 32 * number >= 32 { ALL } else { (1 << (threads % 32)) - 1 },
            ..Warp::default()
        };
        Block {
            index,
            linear,
            shared: SharedMemory::new(grid.shared_end, regions, check),
            warps: (0..threads.div_ceil(32)).map(warp).collect(),
            barriers: Default::default(),
            epoch: 1,
            wrapped: false,
            by_barriers: true,
        }
    }

    /// Ends an interval of the race checker.
    pub fn next_epoch(&mut self) {
        self.epoch += 1;
        if self.epoch > LAST_EPOCH {
            (self.epoch, self.wrapped) = (1, true);
            self.shared.shadow.clear();
        }
    }

    /// Has a barrier wait for all threads that have not exited. Returns how many it expects.
    pub fn wait_for_all(&mut self, number: usize) -> u32 {
        let barrier = &mut self.barriers[number];
        barrier.wait_for_all();
        let warps = self.warps.iter().enumerate();
        let comes =
            |(index, warp): &(usize, &Warp)| warp.status != Status::Done || barrier.has(*index);
        32 * warps.filter(comes).count() as u32
    }

    /// A barrier releases warps: wakes them, and ends an interval of the race checker where they
    /// are all that have not exited.
    pub fn release(&mut self, released: &Released) {
        let live = self.warps.iter().filter(|warp| warp.status != Status::Done).count();
        match released.lanes.len() == live {
            true => self.next_epoch(),
            false => self.by_barriers = false,
        }
        for (warp, _) in &released.lanes {
            if let Some(warp) = self.warps.get_mut(*warp) {
                warp.released = Some(released.reduction);
                warp.status = Status::Ready;
            }
        }
    }
}

/// Blocks that run together; one alone where there are no clusters.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub blocks: Vec<Block>,
    pub hopper: Hopper,
    /// Rounds of turns so far.
    rounds: u64,
    /// What would have been said before lanes parted because nothing went on.
    stuck: Option<Box<Report>>,
}

/// How a cluster's turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Finished,
    Unfinished,
}

/// Instructions that a warp executes before the next one has its turn.
const WARP_TURN: u64 = 4096;

/// Rounds in which the same warp is late: more than a ring of stages has.
const LATE_ROUNDS: u64 = 64;

impl Cluster {
    /// The cluster of a number in the order of launching.
    pub fn new(grid: &Grid<'_>, number: u64) -> Cluster {
        let extents = grid.launch.cluster;
        let clusters: [u32; 3] = std::array::from_fn(|i| grid.launch.grid[i] / extents[i]);
        let first = Grid::place(number, clusters);
        let ranks: u32 = extents.iter().product();
        let block = |rank: u32| {
            let inside = Grid::place(rank.into(), extents);
            Block::new(grid, std::array::from_fn(|i| first[i] * extents[i] + inside[i]))
        };
        let blocks: Vec<Block> = (0..ranks).map(block).collect();
        let mut cluster =
            Cluster { hopper: Hopper::new(grid, &blocks), blocks, rounds: 0, stuck: None };
        for rank in 0..cluster.blocks.len() {
            for warp in 0..cluster.blocks[rank].warps.len() {
                let frame = cluster.first_frame(grid, rank, warp);
                cluster.blocks[rank].warps[warp].frames.push(frame);
            }
        }
        cluster
    }

    fn first_frame(&mut self, grid: &Grid<'_>, rank: usize, warp: usize) -> Frame {
        let function = &grid.program.functions[0];
        let warp = &mut self.blocks[rank].warps[warp];
        let local = warp.local.push(function.frame, function.alignment);
        let (index, live) = (warp.index, warp.live);
        let mut frame = new_frame(function, 0, local, live);
        for (special, slot) in &function.specials {
            let place = Place { grid, block: &self.blocks[rank], rank, warp: index };
            frame.registers[*slot as usize] = place.special(*special);
        }
        frame
    }

    /// Runs until all is done, or until the warps have had `turns` turns each.
    pub fn run(
        &mut self,
        grid: &Grid<'_>,
        statistics: &mut Statistics,
        turns: u64,
    ) -> Result<Turn, Box<Report>> {
        let result = self.take_turns(grid, statistics, turns);
        result.map_err(|report| match report.kind {
            // Lanes have parted in vain.
            ReportKind::Deadlock | ReportKind::Divergence | ReportKind::Barrier => {
                self.stuck.take().unwrap_or(report)
            }
            _ => report,
        })
    }

    fn take_turns(
        &mut self,
        grid: &Grid<'_>,
        statistics: &mut Statistics,
        turns: u64,
    ) -> Result<Turn, Box<Report>> {
        for _ in 0..turns {
            let (mut alive, mut moved) = (false, false);
            let late = self.late(grid);
            for rank in 0..self.blocks.len() {
                for index in 0..self.blocks[rank].warps.len() {
                    alive |= self.blocks[rank].warps[index].status != Status::Done;
                    if late != Some((rank, index)) {
                        moved |= self.run_warp(grid, statistics, rank, index)?;
                    }
                }
            }
            if let Some((rank, index)) = late
                && !moved
            {
                moved |= self.run_warp(grid, statistics, rank, index)?;
            }
            self.rounds += 1;
            if !alive {
                self.check_end(grid)?;
                self.give_back();
                return Ok(Turn::Finished);
            }
            if !moved {
                let stuck = self.deadlock(grid);
                if !self.part() {
                    return Err(stuck);
                }
                self.stuck.get_or_insert(stuck);
            }
        }
        Ok(Turn::Unfinished)
    }

    /// Nothing goes on: lanes of a warp that wait for others, which wait where they meet again, may
    /// wait for what they do behind that. Returns whether there are any.
    fn part(&mut self) -> bool {
        let warps = self.blocks.iter_mut().flat_map(|block| &mut block.warps);
        let polling = warps.filter(|warp| matches!(warp.status, Status::Polling(_)));
        polling.filter_map(|warp| warp.frames.last_mut()).any(|frame| frame.part())
    }

    /// What the warps had is for those of the next cluster.
    fn give_back(&mut self) {
        let warps = self.blocks.iter_mut().flat_map(|block| &mut block.warps);
        for frame in warps.flat_map(|warp| warp.frames.drain(..)) {
            registers::give_back(frame.registers);
        }
    }

    /// The block and the warp that is late, for this and some rounds more.
    fn late(&self, grid: &Grid<'_>) -> Option<(usize, usize)> {
        let (warps, first) = (self.blocks[0].warps.len(), self.blocks[0].linear);
        let bits = grid.options.timing.draw(!((first << 40) ^ (self.rounds / LATE_ROUNDS)))?;
        let number = (bits % (warps * self.blocks.len()) as u64) as usize;
        Some((number / warps, number % warps))
    }

    /// Copies that nobody has waited for when the cluster ends.
    fn check_end(&self, grid: &Grid<'_>) -> Result<(), Box<Report>> {
        match self.hopper.unfinished() {
            None => Ok(()),
            Some((line, message)) => {
                let fault = Fault::new(ReportKind::Asynchronous, message);
                Err(self.report(grid, 0, 0, 1, line, *fault))
            }
        }
    }

    /// Gives a warp its turn, if it can go on. Returns whether it has executed anything.
    fn run_warp(
        &mut self,
        grid: &Grid<'_>,
        statistics: &mut Statistics,
        rank: usize,
        index: usize,
    ) -> Result<bool, Box<Report>> {
        let status = &self.blocks[rank].warps[index].status;
        if !matches!(status, Status::Ready | Status::Polling(_)) {
            return Ok(false);
        }
        let mut warp = std::mem::take(&mut self.blocks[rank].warps[index]);
        let before = warp.steps;
        warp.status = Status::Ready;
        let frame = warp.frames.pop().unwrap_or_default();
        let function = frame.function;
        let mut context = Context {
            grid,
            cluster: self,
            rank,
            warp: &mut warp,
            frame,
            code: &grid.program.functions[function].code,
            constants: &grid.constants[rank][function],
            mask: 0,
            statistics,
        };
        let result = context.run(WARP_TURN);
        let (mask, frame) = (context.mask, std::mem::take(&mut context.frame));
        warp.frames.push(frame);
        let moved = warp.steps > before || warp.status == Status::Done;
        let live = warp.live;
        let line = warp.line;
        self.blocks[rank].warps[index] = warp;
        match result {
            Ok(Stop::Blocked | Stop::Turn) => {}
            Err(fault) => return Err(self.report(grid, rank, index, mask, line, *fault)),
        }
        if live != ALL {
            self.left(grid, rank, index, live)?;
        }
        Ok(moved)
    }

    /// Lanes have exited: barriers that wait for others alone go on.
    fn left(
        &mut self,
        grid: &Grid<'_>,
        rank: usize,
        index: usize,
        live: u32,
    ) -> Result<(), Box<Report>> {
        let block = &mut self.blocks[rank];
        for number in 0..block.barriers.len() {
            match block.barriers[number].exit(index, live) {
                Ok(Some(released)) => block.release(&released),
                Ok(None) => {}
                Err(error) => {
                    let fault = Fault::new(ReportKind::Barrier, error.to_string());
                    let line = block.warps[index].line;
                    return Err(self.report(grid, rank, index, live, line, *fault));
                }
            }
        }
        Ok(())
    }

    /// Adds to a fault where it happened.
    fn report(
        &self,
        grid: &Grid<'_>,
        rank: usize,
        warp: usize,
        mask: u32,
        line: u32,
        fault: Fault,
    ) -> Box<Report> {
        let (rank, warp) = fault.warp.unwrap_or((rank, warp));
        let lane = fault.lane.or(lanes_of(mask).next()).unwrap_or(0);
        let thread = Grid::place((warp * 32 + lane) as u64, grid.launch.block);
        Box::new(Report {
            kind: fault.kind,
            message: fault.message,
            kernel: grid.kernel.to_string(),
            line: Some(fault.line.unwrap_or(line)),
            block: Some(self.blocks[rank].index),
            thread: Some(thread),
            address: fault.address,
            allocation: fault.allocation,
            other: fault.other,
        })
    }

    /// Nothing goes on: who waits for what.
    fn deadlock(&self, grid: &Grid<'_>) -> Box<Report> {
        let (mut lines, mut exited, mut first) = (Vec::new(), 0, None);
        for (rank, block) in self.blocks.iter().enumerate() {
            for warp in &block.warps {
                let what = match &warp.status {
                    Status::Done => {
                        exited += 1;
                        continue;
                    }
                    Status::Ready => "can't go on".to_string(),
                    Status::Barrier(number) => block.barriers[*number].describe(*number as u32),
                    Status::Polling(what) => what.clone(),
                };
                let [x, y, z] = block.index;
                let name = match self.blocks.len() {
                    1 => format!("warp {}", warp.index),
                    _ => format!("warp {} of block ({x}, {y}, {z})", warp.index),
                };
                lines.push(format!("{name} (PTX line {}) {what}", warp.line));
                first.get_or_insert((rank, warp.index, warp.live, warp.line));
            }
        }
        let shown = 8;
        let more = lines.len().saturating_sub(shown);
        lines.truncate(shown);
        if more > 0 {
            lines.push(format!("and {more} more warps"));
        }
        if exited > 0 {
            lines.push(format!("warps that have exited: {exited}"));
        }
        let (rank, warp, live, line) = first.unwrap_or((0, 0, 1, 0));
        let fault = Fault::new(ReportKind::Deadlock, lines.join("; "));
        self.report(grid, rank, warp, live, line, *fault)
    }
}

/// A frame of a function that `lanes` enter.
pub(crate) fn new_frame(function: &Function, index: usize, local: u64, lanes: u32) -> Frame {
    Frame {
        function: index,
        call: 0,
        registers: registers::for_warp(function),
        predicates: vec![0; function.predicates],
        path: Path { pc: 0, mask: lanes, meet: END },
        stack: Vec::new(),
        spins: 0,
        local,
        entered: lanes,
        marks: Default::default(),
        results: Vec::new(),
    }
}

/// Of the GPU, as its special registers tell.
pub(crate) const MULTIPROCESSORS: u32 = 132;

/// Where special registers are read.
pub(crate) struct Place<'a> {
    pub grid: &'a Grid<'a>,
    pub block: &'a Block,
    pub rank: usize,
    pub warp: usize,
}

impl Place<'_> {
    /// The value of a special register in each lane.
    pub fn special(&self, special: Special) -> Lanes {
        let launch = &self.grid.launch;
        let clusters = |axis: usize| launch.grid[axis] / launch.cluster[axis];
        let all = |value: u32| [u64::from(value); 32];
        match special {
            Special::Thread(axis) => std::array::from_fn(|lane| {
                let thread = (self.warp * 32 + lane) as u64;
                Grid::place(thread, launch.block)[axis].into()
            }),
            Special::BlockSize(axis) => all(launch.block[axis]),
            Special::Block(axis) => all(self.block.index[axis]),
            Special::GridSize(axis) => all(launch.grid[axis]),
            Special::Lane => std::array::from_fn(|lane| lane as u64),
            Special::Warp => all(self.warp as u32),
            Special::WarpCount => all(self.block.warps.len() as u32),
            Special::LaneMask(which) => std::array::from_fn(|lane| lane_mask(which, lane)),
            Special::Cluster(axis) => all(self.block.index[axis] / launch.cluster[axis]),
            Special::ClusterCount(axis) => all(clusters(axis)),
            Special::BlockInCluster(axis) => all(self.block.index[axis] % launch.cluster[axis]),
            Special::ClusterSize(axis) => all(launch.cluster[axis]),
            Special::ClusterRank => all(self.rank as u32),
            Special::ClusterRanks => all(launch.cluster.iter().product()),
            Special::ExplicitCluster => all((launch.cluster != [1; 3]).into()),
            Special::Multiprocessor => all(self.block.linear as u32 % MULTIPROCESSORS),
            Special::Multiprocessors => all(MULTIPROCESSORS),
            Special::GridId => all(1),
            Special::DynamicShared => all(launch.dynamic_shared),
            Special::TotalShared => all(self.grid.shared_bytes()),
            Special::Zero => all(0),
        }
    }
}

impl Grid<'_> {
    /// Bytes of shared memory that a block has, declared and dynamic.
    pub fn shared_bytes(&self) -> u32 {
        self.program.shared_bytes as u32 + self.launch.dynamic_shared
    }
}

fn lane_mask(which: crate::program::LaneMask, lane: usize) -> u64 {
    use crate::program::LaneMask::*;
    let (equal, less) = (1u32 << lane, (1u32 << lane) - 1);
    u64::from(match which {
        Equal => equal,
        Less => less,
        LessEqual => less | equal,
        Greater => !(less | equal),
        GreaterEqual => !less,
    })
}
