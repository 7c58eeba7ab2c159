//! Launches: limits, arguments, and the threads of the CPU that run the blocks.

use super::block::{Cluster, Grid, MULTIPROCESSORS, Turn};
use super::context::Lanes;
use super::statistics::Statistics;
use crate::check::{Report, ReportKind};
use crate::emulator::{Arch, Argument, Launch, Options};
use crate::error::ErrorKind;
use crate::memory::{GlobalMemory, own_window};
use crate::program::{Instance, Module, Program, Target, Value};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// What to launch.
pub(crate) struct Job<'a> {
    pub module: &'a Module,
    pub instance: &'a Instance,
    pub kernel: &'a str,
    pub launch: &'a Launch,
    pub arguments: &'a [Argument],
}

/// Turns of a cluster's warps before other clusters have theirs, where blocks talk to each other.
const CLUSTER_TURNS: u64 = 64;
/// The most warps of a kernel whose fences order its blocks, counted as if each block were a
/// cluster: each of these has a word.
const MOST_FENCED: u64 = 1 << 24;
/// Clusters that run at the same time then: kernels whose blocks wait for each other have one or
/// two on each multiprocessor.
const RESIDENT: usize = 2 * MULTIPROCESSORS as usize;

/// Launches a kernel and waits for it.
pub(crate) fn launch(
    options: &Options,
    memory: &mut GlobalMemory,
    job: &Job<'_>,
) -> Result<Statistics, Box<Report>> {
    let program = job.module.program(job.kernel).map_err(|error| {
        let kind = match (error.kind, error.at) {
            (_, None) => ReportKind::NoSuchKernel,
            (ErrorKind::Unsupported, _) => ReportKind::Unsupported,
            _ => ReportKind::Invalid,
        };
        let mut report = Report::of_launch(kind, job.kernel, error.message);
        report.line = error.at.map(|at| at.line);
        report
    })?;
    let launch = with_cluster(job, &program);
    check_target(options.arch, job)?;
    check_limits(options, job.kernel, &launch, &program)?;
    let parameters = parameters(job, &program)?;
    memory.clear_shadows();
    let clusters = clusters(&launch);
    let threads = match options.threads {
        0 => std::thread::available_parallelism().map_or(1, |count| count.get()),
        count => count,
    };
    let threads = if program.communicates { 1 } else { threads.min(clusters as usize).max(1) };
    let blocks = launch.cluster.iter().product::<u32>() as usize;
    let windows = (0..blocks).map(|rank| own_window(rank, blocks));
    let constants: Vec<_> =
        windows.map(|window| constants(&program, job.instance, window)).collect();
    let regions = regions(&program, &launch);
    let shared_end = program.shared_end + u64::from(launch.dynamic_shared);
    let run = |memory: &GlobalMemory, threads: usize| {
        let is_tracked = program.orders_blocks && options.checks;
        let warps = if is_tracked { warps_of_clusters(&launch) } else { 0 };
        let released = (0..warps).map(|_| AtomicU32::new(0)).collect();
        let grid = Grid {
            options,
            memory,
            program: &program,
            constants: constants.clone(),
            launch,
            kernel: job.kernel,
            parameters: parameters.clone(),
            regions: regions.clone().into(),
            shared_end,
            released,
        };
        if threads == 1 { in_order(&grid, clusters) } else { in_parallel(&grid, clusters, threads) }
    };
    if threads == 1 {
        return run(memory, 1);
    }
    // Blocks that don't talk give the same result in any order; where one errs, the report is that
    // of the first in order, which running them in order gives.
    memory.remember();
    let result = run(memory, threads);
    memory.forget(result.is_ok());
    result.or_else(|_| run(memory, 1))
}

fn clusters(launch: &Launch) -> u64 {
    (0..3).map(|i| u64::from(launch.grid[i] / launch.cluster[i])).product()
}

/// Warps of as many clusters as there are blocks.
fn warps_of_clusters(launch: &Launch) -> u64 {
    let warps = product(launch.block).div_ceil(32).saturating_mul(product(launch.cluster));
    product(launch.grid).saturating_mul(warps)
}

/// The launch with the cluster that the kernel requires, and its grid in blocks.
fn with_cluster(job: &Job<'_>, program: &Program) -> Launch {
    let mut launch = *job.launch;
    if let Some(required) = program.directives.required_cluster {
        if launch.cluster == [1; 3] {
            launch.cluster = required;
        }
        if program.directives.blocks_are_clusters {
            launch.grid = [0, 1, 2].map(|i| launch.grid[i].saturating_mul(required[i]));
        }
    }
    launch
}

/// Runs clusters one after the other; some at a time where blocks talk to each other.
fn in_order(grid: &Grid<'_>, clusters: u64) -> Result<Statistics, Box<Report>> {
    let mut statistics = Statistics::default();
    let mut numbers = 0..clusters;
    let turns = if grid.program.communicates { CLUSTER_TURNS } else { u64::MAX };
    let mut resident: VecDeque<Cluster> = VecDeque::new();
    loop {
        if resident.len() < RESIDENT
            && let Some(number) = numbers.next()
        {
            resident.push_front(Cluster::new(grid, number));
        }
        let Some(mut cluster) = resident.pop_front() else {
            return Ok(statistics);
        };
        if cluster.run(grid, &mut statistics, turns)? == Turn::Unfinished {
            resident.push_back(cluster);
        }
    }
}

/// Runs clusters on several threads, each taking the next one in order.
fn in_parallel(grid: &Grid<'_>, clusters: u64, threads: usize) -> Result<Statistics, Box<Report>> {
    let next = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    let work = || {
        let mut statistics = Statistics::default();
        while !stop.load(Ordering::Relaxed) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= clusters {
                break;
            }
            let ran = Cluster::new(grid, number).run(grid, &mut statistics, u64::MAX);
            if let Err(report) = ran {
                stop.store(true, Ordering::Relaxed);
                return Err(report);
            }
        }
        Ok(statistics)
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let mut sum = Statistics::default();
        for worker in workers {
            match worker.join() {
                Ok(statistics) => sum.add(&statistics?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(sum)
    })
}

/// The parameter block.
fn parameters(job: &Job<'_>, program: &Program) -> Result<Vec<u8>, Box<Report>> {
    let error = |message: String| Report::of_launch(ReportKind::Argument, job.kernel, message);
    let (wanted, given) = (program.parameters.len(), job.arguments.len());
    if wanted != given {
        return Err(error(format!("the kernel takes {wanted} arguments, {given} are given")));
    }
    let mut block = Vec::new();
    for (number, ((offset, bytes), argument)) in
        program.parameters.iter().zip(job.arguments).enumerate()
    {
        let given = argument.0.len() as u64;
        if given != *bytes {
            return Err(error(format!(
                "argument {number} has {given} bytes, the kernel's parameter {bytes}"
            )));
        }
        block.resize(*offset as usize, 0);
        block.extend_from_slice(&argument.0);
    }
    Ok(block)
}

/// The constants of each function, with the addresses of this GPU's variables, and those of shared
/// memory behind `window`.
fn constants(program: &Program, instance: &Instance, window: u64) -> Vec<Vec<Lanes>> {
    let value = |value: &Value| match value {
        Value::Bits(bits) => [*bits; 32],
        Value::Variable(index, offset) => {
            [instance.addresses[*index].wrapping_add_signed(*offset); 32]
        }
        Value::Shared(place) => [window.wrapping_add(*place); 32],
        Value::DynamicShared(offset) => {
            [window.wrapping_add(program.shared_end).wrapping_add_signed(*offset); 32]
        }
    };
    let functions = program.functions.iter();
    functions.map(|function| function.constants.iter().map(value).collect()).collect()
}

fn regions(program: &Program, launch: &Launch) -> Vec<(String, u64, u64)> {
    let mut regions = program.shared.clone();
    if launch.dynamic_shared > 0 || regions.is_empty() {
        let bytes = u64::from(launch.dynamic_shared);
        regions.push(("dynamic shared memory".to_string(), program.shared_end, bytes));
    }
    regions
}

/// Bytes of shared memory that a block of an architecture can have when the launch asks for it
/// (CUDA C++ Programming Guide, technical specifications per compute capability).
fn shared_limit(arch: Arch) -> u32 {
    match (arch.major, arch.minor) {
        (7, 5) => 64 << 10,
        (7, _) => 96 << 10,
        (8, 0) | (8, 7) => 163 << 10,
        (8, _) => 99 << 10,
        (9, _) | (10, _) => 227 << 10,
        (12, _) => 99 << 10,
        _ => 48 << 10,
    }
}

/// The product of three extents, or the largest number.
fn product(extents: [u32; 3]) -> u64 {
    extents.into_iter().fold(1, |product: u64, extent| product.saturating_mul(extent.into()))
}

/// That the module's `.target` runs on the architecture.
fn check_target(arch: Arch, job: &Job<'_>) -> Result<(), Box<Report>> {
    match Target::of(&job.module.tree).find(|target| !target.runs_on(arch)) {
        Some(target) => {
            let Arch { major, minor } = arch;
            let message = format!("a module for {target} on compute capability {major}.{minor}");
            Err(Report::of_launch(ReportKind::LaunchLimit, job.kernel, message))
        }
        None => Ok(()),
    }
}

/// The limits of the architecture and the promises of the kernel.
fn check_limits(
    options: &Options,
    kernel: &str,
    launch: &Launch,
    program: &Program,
) -> Result<(), Box<Report>> {
    let error = |message: String| Err(Report::of_launch(ReportKind::LaunchLimit, kernel, message));
    let arch = options.arch;
    let Launch { grid, block, cluster, dynamic_shared } = *launch;
    if grid.contains(&0) || block.contains(&0) || cluster.contains(&0) {
        return error("an extent of 0".to_string());
    }
    let threads = product(block);
    if threads > 1024 || block[0] > 1024 || block[1] > 1024 || block[2] > 64 {
        return error(format!("a block of {block:?} threads; at most 1024, 64 of them along z"));
    }
    if grid[0] > i32::MAX as u32 || grid[1] > 65_535 || grid[2] > 65_535 {
        return error(format!("a grid of {grid:?} blocks"));
    }
    check_cluster(arch, kernel, launch, program)?;
    let directives = &program.directives;
    if let Some(most) = directives.max_threads
        && threads > product(most)
    {
        return error(format!("{threads} threads; the kernel says .maxntid {most:?}"));
    }
    if let Some(required) = directives.required_threads
        && block != required
    {
        return error(format!("a block of {block:?}; the kernel says .reqntid {required:?}"));
    }
    if program.orders_blocks && options.checks && warps_of_clusters(launch) > MOST_FENCED {
        return error(format!(
            "a grid of {grid:?} blocks with fences of the GPU, for which at most {MOST_FENCED} \
             warps of clusters are emulated"
        ));
    }
    let declared = program.shared_bytes;
    let limit = if dynamic_shared == 0 { 48 << 10 } else { shared_limit(arch) };
    if declared > 48 << 10 || declared + u64::from(dynamic_shared) > u64::from(limit) {
        return error(format!(
            "{declared} bytes of declared and {dynamic_shared} of dynamic shared memory; a block \
            can have {} and {limit}",
            48 << 10
        ));
    }
    Ok(())
}

/// The limits of clusters, and what the kernel says of them.
fn check_cluster(
    arch: Arch,
    kernel: &str,
    launch: &Launch,
    program: &Program,
) -> Result<(), Box<Report>> {
    let error = |message: String| Err(Report::of_launch(ReportKind::LaunchLimit, kernel, message));
    let Launch { grid, cluster, .. } = *launch;
    if (0..3).any(|i| !grid[i].is_multiple_of(cluster[i])) {
        return error(format!("a grid of {grid:?} blocks in clusters of {cluster:?}"));
    }
    let ranks = product(cluster);
    if ranks > 16 || ranks > 1 && arch.major < 9 {
        let Arch { major, minor } = arch;
        return error(format!("a cluster of {ranks} blocks on {major}.{minor}"));
    }
    let directives = &program.directives;
    match directives.required_cluster {
        Some(required) if cluster != required => {
            let says = format!("the kernel says .reqnctapercluster {required:?}");
            return error(format!("a cluster of {cluster:?}; {says}"));
        }
        None if directives.explicit_cluster && cluster == [1; 3] => {
            return error("no cluster; the kernel says .explicitcluster".to_string());
        }
        _ => {}
    }
    if let Some(most) = directives.max_cluster_rank
        && ranks > most.into()
    {
        return error(format!(
            "a cluster of {ranks} blocks; the kernel says .maxclusterrank {most}"
        ));
    }
    Ok(())
}
