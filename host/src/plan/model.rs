//! How long a product takes: the model by which a plan is chosen.
//!
//! All numbers are of an H100 SXM (compute capability 9.0) or, where memory like an H200's makes a
//! difference, of that, fitted to the records of bench/record; other GPUs are taken to have as
//! much of it as they have multiprocessors, and the bandwidth that their driver tells. What counts
//! is which of several plans is faster, and by how much roughly; docs/performance.md compares the
//! model with what was measured.

use super::by_rows::by_rows_of_c;
use super::choose::Task;
use super::speed::{IN_STEP, Speed, is_of_80_columns, not_shared};
use super::waiting::{faster, has_steps_ahead, is_one_row, waiting};
use crate::device::DeviceInfo;
use gemm_spec::{Activation, DType, Kernel, KernelFamily, Places, Placing, Shape, order};

/// Multiprocessors of the GPU that was measured.
pub(super) const MULTIPROCESSORS: f64 = 132.0;
/// Bytes that its memory moves in a microsecond, and how much of that a kernel gets.
pub(super) const BANDWIDTH: f64 = 3.352e6;
pub(super) const OF_BANDWIDTH: f64 = 0.895;
/// Microseconds from the end of what ran before to the first instruction, and from the last to the
/// end.
pub(super) const LAUNCH: f64 = 2.0;
/// Bytes that the L2 cache gives one multiprocessor in a microsecond, when all of them read.
const L2_RATE: f64 = 90e3;
/// The same for boxes of tensor maps: all of it, for each multiprocessor of an H100, and what one
/// gets at most.
const L2_RATE_OF_BOXES: f64 = 63e3;
const L2_RATE_OF_ONE: f64 = 118e3;
/// The same for narrow tiles, which read more of it than of memory.
const L2_RATE_OF_NARROW: f64 = 72e3;
/// The same where K is in parts, and what is read has just come from memory.
const L2_RATE_OF_PARTS: f64 = 54e3;
/// How much more than a kernel gets of it memory would move for few rows, were there more to ask.
pub(super) const OF_COPIES: f64 = 1.12;
/// Elements of a tile for which a multiprocessor's tensor cores do a step, a row of 128 bytes of
/// both operands each, in a microsecond: 32 in a cycle of 1755 MHz.
pub(super) const TENSOR_RATE: f64 = 56.2e3;
/// The least microseconds of a step that reads sectors twice ([`Task::splits_sectors`]).
const SPLIT_SECTORS: f64 = 0.4;
/// How much longer one row of 16-bit elements takes than memory does, by the kernel for one row;
/// the same of 64 bits and a B along N.
const ONE_ROW: f64 = 1.35;
const ONE_ROW_OF_64_BITS: f64 = 1.06;
/// Bytes that stay in the L2 cache from one kernel to the next.
pub(super) const L2_BYTES: f64 = 30e6;
/// Bytes of the L2 cache of the GPU that was measured. An H200's has more slices, with as much
/// more bandwidth.
const L2_CACHE: f64 = 52_428_800.0;

/// Microseconds until the first copy of a tile has come, of few rows; the same of others and of K
/// in parts, with their last; of halves, whose sums meet behind it.
const FIRST_COPY: f64 = 0.4;
const FIRST_OF_OTHERS: f64 = 1.0;
const FIRST_OF_HALVES: f64 = 1.1;

/// What part of the memory's rate copies of operands get, those of one matrix and those of many.
const COPIES: [f64; 2] = [0.85, 0.5];
/// Microseconds that they take beside it.
const COPYING: f64 = 0.8;
/// Bytes of parts that the kernel `finish` reads in a microsecond from the L2 cache.
const PARTS_RATE: f64 = 3.5e6;
/// The same behind a kernel of boxes.
const PARTS_RATE_BEHIND_BOXES: f64 = 3.0e6;
/// Microseconds of its first and last instructions, and of waiting for 16 parts.
const FINISH: f64 = 2.5;
/// The first and last of them behind a kernel of boxes, which lets it get ready.
const FINISH_BEHIND_BOXES: f64 = 0.85;
const ROUND: f64 = 0.7;
/// What part of the shorter of two is not hidden behind the longer.
const VISIBLE: f64 = 0.2;
/// The same for kernels whose copies one thread starts, stages ahead.
const VISIBLE_COPIES: f64 = 0.05;
/// What part of all traffic C is from where on a faster memory changes what of it is visible.
const NEARLY_ALL: f64 = 0.9;
/// By how much a multiprocessor is faster whose others have nothing to do.
const ALONE: f64 = 0.3;
/// The same of kernels of boxes.
const ALONE_WITH_BOXES: f64 = 0.8;
/// By how much memory is slower where K is in parts.
const SPREAD: f64 = 1.25;
/// Bytes of sums that a multiprocessor writes in a microsecond.
const SUMS_RATE: f64 = 25e3;
/// By how much a step of a tile that is cut takes longer where there are whole ones too.
const SKEW: f64 = 0.06;
/// Microseconds from a key to who waits for it.
const JOIN: f64 = 2.3;
/// The same for each other one, of few rows.
const JOIN_OF_FEW: f64 = 0.6;
/// Bytes of another's sums that a multiprocessor reads in a microsecond.
const JOIN_RATE: f64 = 60e3;

/// Bytes that memory gives in a microsecond, as much as a kernel gets of it.
pub(super) fn memory_rate(info: &DeviceInfo) -> f64 {
    OF_BANDWIDTH * info.memory_bandwidth.map_or(BANDWIDTH, |bytes| bytes as f64 / 1e6)
}

/// How much larger the L2 cache is than that of the GPU that was measured, and so how much faster,
/// where it is one of the same kind.
pub(super) fn l2_ratio(info: &DeviceInfo) -> f64 {
    match (info.l2_cache, info.compute_capability) {
        (Some(bytes), Some((9, _))) => bytes as f64 / L2_CACHE,
        _ => 1.0,
    }
}

/// Blocks of a kernel that are on a multiprocessor at one time.
pub(super) fn blocks_at_once(kernel: &Kernel) -> usize {
    Speed::of(kernel).blocks
}

/// K of all parts but the last, where it is split into `parts`: whole steps of the kernel, one for
/// each block of a cluster that takes parts of it too. A block without a step takes one behind K,
/// which behind another part than the last would be the next one's.
pub(crate) fn part_len(kernel: &Kernel, k: usize, parts: usize) -> usize {
    let depth = kernel.tiles.block[2].saturating_mul(kernel.parts_of_cluster()).max(1);
    let len = k.div_ceil(parts.max(1)).max(1);
    len.checked_next_multiple_of(depth).unwrap_or(len)
}

/// Microseconds in which a group of four warps finishes one sum, with a bias or with an activation
/// that takes exponentials.
const OF_A_BIAS: f64 = 1.1e-4;
const OF_AN_ACTIVATION: f64 = 2.1e-4;

/// The fewest columns of tiles that are tried where a kernel may have fewer than its own, and what
/// others have more.
const NARROWEST: usize = 24;
const NARROWER: usize = 8;

/// The columns of tiles with which the multiprocessor that has most of a C's columns has the
/// fewest; 0 where these are the kernel's own.
pub(super) fn narrow(kernel: &Kernel, shape: Shape, info: &DeviceInfo) -> usize {
    let [rows, all, _] = kernel.tiles.block;
    let multiprocessors = info.multiprocessors.unwrap_or(1).max(1) as usize;
    let places = multiprocessors.div_ceil(kernel.parts_of_cluster());
    let most_of_one = |cols: usize| {
        let tiles = shape.rows.div_ceil(rows).saturating_mul(shape.cols.div_ceil(cols));
        tiles.div_ceil(places).saturating_mul(cols)
    };
    // The widest, but where another has a twentieth less.
    let better = |best: usize, cols: usize| match 20 * most_of_one(cols) < 19 * most_of_one(best) {
        true => cols,
        false => best,
    };
    let narrow = (NARROWEST..all).step_by(NARROWER).rev();
    let best = narrow.fold(all, better);
    if best == all { 0 } else { best }
}

/// Microseconds that a plan takes, by a model of the device that is fitted to measurements. All
/// zero for the CPU, of which there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Prediction {
    /// From launch to launch.
    pub launches: f64,
    /// The kernel's, as long as it waits for nothing but the L2 cache.
    pub multiplying: f64,
    /// What memory takes for A, B and C, meanwhile.
    pub memory: f64,
    /// Copies of operands before the kernel.
    pub copies: f64,
    /// Adding up parts of K behind it.
    pub adding: f64,
    /// The rows or columns that are computed apart, all of it.
    pub rest: f64,
    /// What part of the shorter of multiplying and memory is not hidden behind the longer.
    pub visible: f64,
}

impl Prediction {
    /// All of it: the shorter of multiplying and memory is hidden behind the longer, but for a
    /// part.
    pub fn total(&self) -> f64 {
        let (multiplying, memory) = (self.multiplying, self.memory);
        let both = multiplying.max(memory) + self.visible * multiplying.min(memory);
        self.launches + both + self.copies + self.adding + self.rest
    }
}

/// Bytes that copies move for each byte of an operand: it is read and written; elements that become
/// three of half their size are written one and a half times as large.
pub(super) const COPIED: f64 = 2.0;
pub(super) const SPLIT: f64 = 2.5;

/// Microseconds of copies of operands, which are one launch, but for its own; `moved` is how many
/// bytes move for each.
pub(super) fn copying(copied: [bool; 2], moved: f64, task: &Task, info: &DeviceInfo) -> f64 {
    if copied == [false; 2] {
        return 0.0;
    }
    let copies = copied.into_iter().zip(operand_bytes(task));
    let bytes: f64 = copies.map(|(is, of)| if is { of } else { 0.0 }).sum();
    COPYING + moved * bytes / (COPIES[usize::from(task.batch > 1)] * memory_rate(info))
}

/// Bytes of A and of B.
pub(super) fn operand_bytes(task: &Task) -> [f64; 2] {
    let (m, n, k) = (task.shape.rows as f64, task.shape.cols as f64, task.k as f64);
    let size = task.dtype.size_bytes() as f64;
    let [a, b] = task.shared.map(|shared| if shared { 1.0 } else { task.batch as f64 });
    [m * k * size * a, k * n * size * b]
}

/// Bytes of C, or of the sums of several parts.
pub(super) fn bytes_of_sums(parts: usize, task: &Task) -> f64 {
    let elements = task.shape.rows as f64 * task.shape.cols as f64;
    match parts {
        1 => elements * task.batch as f64 * task.output.size_bytes() as f64,
        _ => elements * parts as f64 * task.dtype.accumulator().size_bytes() as f64,
    }
}

/// Steps of a block along K, in so many parts.
pub(super) fn steps_of_part(kernel: &Kernel, parts: usize, task: &Task) -> f64 {
    let steps = part_len(kernel, task.k, parts).div_ceil(kernel.tiles.block[2]);
    steps.div_ceil(kernel.parts_of_cluster()) as f64
}

/// What a task takes by a kernel, with copies of operands before it, and K in `parts`.
pub(super) fn predict(
    kernel: &Kernel,
    copied: [bool; 2],
    parts: usize,
    task: &Task,
    info: &DeviceInfo,
) -> Prediction {
    let given = &task.after_copies(kernel, copied);
    let task = &given.taken_by(kernel);
    let size = |dtype: DType| dtype.size_bytes() as f64;
    let (m, n) = (task.shape.rows as f64, task.shape.cols as f64);
    let places = places(info);
    let memory_rate = memory_rate(info);
    let (operand, of_c) = (operand_bytes(task), bytes_of_sums(parts, task));
    let mut traffic = operand[0] + operand[1] + of_c;
    // Not those that read B once, nor blocks that have steps ahead on their way.
    let spreads = kernel.family != KernelFamily::Skinny && !has_steps_ahead(kernel);
    if !kernel.takes_maps() && spreads && parts > 1 {
        traffic *= SPREAD;
    }
    if kernel.family == KernelFamily::Skinny {
        // B is read for each row of tiles, as far as it does not stay in the L2 cache.
        let again = task.shape.rows.div_ceil(kernel.tiles.block[0]).saturating_sub(1) as f64;
        traffic += again * (operand[1] - L2_BYTES).max(0.0);
        traffic *= match (kernel.tiles.block[0], task.along_k[1], task.dtype.size_bytes()) {
            (1, _, 2) => ONE_ROW,
            (1, false, 8) => ONE_ROW_OF_64_BITS,
            (1, ..) | (_, false, _) => 1.0,
            _ => 1.5,
        };
    }
    let multiplying = match kernel.joins() {
        true => sharing(kernel, task, places),
        false => multiplying(kernel, parts, task, (places, l2_ratio(info))),
    };
    let multiplying = multiplying + finishing_sums(kernel, parts, task, places);
    let first = first_copy(kernel, parts, task);
    let memory = waiting(kernel, parts, task, (traffic, memory_rate), places) + first;
    let mut prediction = Prediction {
        launches: LAUNCH,
        visible: match kernel.takes_maps() {
            true => {
                let share = of_c / traffic.max(1.0);
                let faster = if share > NEARLY_ALL { faster(memory_rate) } else { 1.0 };
                share.powi(2) * Speed::of(kernel).visible_of_c.at(faster)
                    + visible_of_copies(kernel, task)
            }
            false => VISIBLE,
        },
        multiplying,
        memory,
        ..Prediction::default()
    };
    if copied != [false; 2] {
        prediction.launches += LAUNCH;
        let moved = if kernel.splits_elements() { SPLIT } else { COPIED };
        prediction.copies = copying(copied, moved, given, info);
    }
    if parts > 1 {
        let bytes = of_c + m * n * size(task.output);
        let (of_finish, rate) = finishing(kernel);
        let rate = if bytes < L2_BYTES { rate } else { memory_rate };
        prediction.launches += LAUNCH;
        let has = info.compute_capability.unwrap_or_default();
        let finish = task.rows.adding(task.dtype.accumulator(), parts, task.shape, has);
        // Those that one warp adds up.
        let of_one = parts.div_ceil(finish.tiles.block[2]);
        prediction.adding = of_finish + (of_one / 16) as f64 * ROUND + bytes / rate;
    }
    prediction
}

/// Microseconds in which groups take their sums through an epilogue while nobody multiplies: of all
/// tiles, or of the last one where groups take them in turn.
fn finishing_sums(kernel: &Kernel, parts: usize, task: &Task, places: Places) -> f64 {
    let of_sum = match task.fused {
        Some(_) if parts > 1 || !kernel.has_epilogues() => return 0.0,
        Some(Activation::Identity | Activation::Relu) => OF_A_BIAS,
        Some(_) => OF_AN_ACTIVATION,
        None => return 0.0,
    };
    let [rows, cols, _] = kernel.tiles.block;
    let sums = rows.min(task.shape.rows) * cols.min(task.shape.cols);
    if kernel.takes_tiles_in_turn() {
        return of_sum * sums as f64;
    }
    let tiles =
        clusters(kernel, task, task.batch, places) / f64::from(kernel.clusters_at_once(places));
    of_sum * (sums / (rows / 64).max(1)) as f64 * tiles.ceil()
}

/// Microseconds until the first copy has come, and what else a kernel waits for once.
fn first_copy(kernel: &Kernel, parts: usize, task: &Task) -> f64 {
    match is_one_row(kernel, task) {
        true if kernel.parts_of_cluster() > 1 => FIRST_OF_HALVES,
        true if parts == 1 => FIRST_COPY,
        _ => FIRST_OF_OTHERS,
    }
}

/// What part of multiplying is not hidden behind copies of operands: more where tiles have few
/// columns, for each of which the rows of A come from the L2 cache.
fn visible_of_copies(kernel: &Kernel, task: &Task) -> f64 {
    let [rows, cols, _] = kernel.tiles.block;
    let rows = rows.min(task.shape.rows);
    match kernel.parts_of_cluster() > 1 {
        true => VISIBLE_COPIES * (0.5 + 0.7 * rows as f64 / cols as f64),
        false => VISIBLE_COPIES,
    }
}

/// The least microseconds of a step, which are `step` but where sectors are read twice.
fn least_step(step: f64, kernel: &Kernel, task: &Task) -> f64 {
    let step = of_tensor_cores(step, kernel);
    match kernel.takes_maps() && (0..2).any(|i| task.splits_sectors(i)) {
        true => step.max(SPLIT_SECTORS),
        false => step,
    }
}

/// `step`, or of kernels of boxes what their tensor cores take for one, if that is more.
pub(super) fn of_tensor_cores(step: f64, kernel: &Kernel) -> f64 {
    let [rows, cols, _] = kernel.tiles.block;
    match kernel.takes_maps() {
        true => step.max((rows * cols) as f64 / TENSOR_RATE),
        false => step,
    }
}

/// Microseconds of a kernel that waits for nothing but the L2 cache.
fn multiplying(
    kernel: &Kernel,
    parts: usize,
    task: &Task,
    (places, l2_ratio): (Places, f64),
) -> f64 {
    let steps = steps_of_part(kernel, parts, task);
    let speed = Speed::with(kernel, steps, task, l2_ratio);
    let Speed { mut step, mut tile, blocks, .. } = speed;
    let by_l2 = speed.by_l2(l2_ratio, kernel, task);
    let operations = speed.operations * by_l2;
    let [rows, cols, depth] = kernel.tiles.block;
    let (m, n) = (task.shape.rows, task.shape.cols);
    if parts > 1 {
        let sums = rows.min(m) * cols.min(n) * task.dtype.accumulator().size_bytes();
        tile += sums as f64 / SUMS_RATE;
    }
    let cluster = kernel.cluster();
    let clusters = clusters(kernel, task, parts.max(task.batch), places);
    let tiles = clusters * cluster as f64;
    let bytes = task.dtype.size_bytes() * depth;
    let [down, across] = kernel.cluster_tiles();
    let bytes_of_step = (rows.min(m) * bytes / across + cols.min(n) * bytes / down) as f64;
    let operations_of_step = 2.0 * (rows * cols * depth) as f64;
    let l2_rate = |part: f64| match parts > 1 {
        true => L2_RATE_OF_PARTS,
        false if kernel.parts_of_cluster() > 1 => L2_RATE_OF_NARROW,
        false if kernel.takes_maps() => (by_l2 * L2_RATE_OF_BOXES / part).min(L2_RATE_OF_ONE),
        false => L2_RATE,
    };
    let mut longer = speed.skewed_by(kernel, task);
    let mut clusters_at_once = kernel.clusters_at_once(places);
    if kernel.takes_steps_in_turn() && clusters > clusters_at_once.into() {
        // Fifteen clusters of eight take as long for several waves as fourteen should.
        clusters_at_once -= clusters_at_once / 15;
    }
    if parts.max(task.batch) == 1 {
        if kernel.gains_by_rows(task.shape, task.k, clusters_at_once) {
            longer *= speed.row_after_row;
        }
        let placing = kernel.placing(task.shape, task.k, places);
        let [of_work, of_least] = placed(kernel, placing, steps, task.skew != [0; 2]);
        (longer, step) = (longer * of_work, step * of_least);
    }
    let not_shared = not_shared(kernel, parts, task);
    step = least_step(step, kernel, task);
    let (resident, cluster) = (blocks as f64, cluster as f64);
    let at_once = f64::from(clusters_at_once) * cluster * resident;
    // With so many blocks on a multiprocessor, and that part of them at work: the fewer there are,
    // the faster each is.
    let of_tile = |blocks: f64, part: f64| {
        let read = blocks * bytes_of_step / l2_rate(part) * not_shared;
        let alone = 1.0 + alone(kernel) * (1.0 - part);
        let work = (blocks * operations_of_step / operations / alone).max(read);
        tile + steps * (longer * work).max(step)
    };
    let (waves, rest) = ((tiles / at_once).floor(), tiles % at_once);
    let has_work = has_work(kernel, parts.max(task.batch), task, tiles);
    let last = match rest > 0.0 {
        true => of_tile((rest / (at_once / resident)).ceil(), has_work * rest / at_once),
        false => 0.0,
    };
    let time = waves * of_tile(resident, 1.0) + last;
    match kernel.takes_maps() {
        // C is written while the next tile is multiplied.
        true => {
            let tiles_of_one = waves + f64::from(rest > 0.0);
            let hidden = if kernel.takes_tiles_in_turn() { 1.0 } else { 0.8 };
            time - tile * (tiles_of_one - 1.0).max(0.0) * hidden
                + by_rows_of_c(kernel, task, tiles_of_one)
        }
        false => time,
    }
}

/// Fewer steps than that are on their way, most of them, before one is waited for: by 8, which take
/// no longer without places, and 17.
pub(super) const FEW_STEPS: f64 = 12.0;

/// What part of its time a step takes whose clusters are placed so, of rows that lie in two lines
/// of the L2 cache or do not: of what it waits for, and of the least that it takes. By what an H200
/// took for kernels that compute C transposed; others that gained wait for other things.
fn placed(kernel: &Kernel, placing: Placing, steps: f64, is_skewed: bool) -> [f64; 2] {
    match (placing, kernel.tiles.block, is_skewed) {
        _ if !kernel.swaps_operands() => [1.0; 2],
        (Placing::Any, [128, 96, _], _) if steps >= FEW_STEPS => [1.15, 1.0],
        (Placing::Any, ..) => [1.0; 2],
        (_, [128, 96, _], true) => [1.35; 2],
        (_, _, true) => [1.0; 2],
        (_, [128, 80, _], _) => [0.85; 2],
        (Placing::Spread, [128, 96, _], _) => [1.08, 0.93],
        (Placing::Near, [128, 96, _], _) => [0.85, 0.9],
        (Placing::Near, ..) => [0.97, 1.0],
        _ => [1.0; 2],
    }
}

/// The least of both, wherever clusters are.
pub(super) fn least_placed(kernel: &Kernel) -> [f64; 2] {
    let [spread, near] =
        [Placing::Spread, Placing::Near].map(|placing| placed(kernel, placing, FEW_STEPS, false));
    let in_step = if is_of_80_columns(kernel) { IN_STEP } else { 1.0 };
    [0, 1].map(|i| spread[i].min(near[i]).min(in_step))
}

/// What part of so many tiles has rows and columns of C, of as many parts of K or matrices as
/// `count`: others fill clusters.
fn has_work(kernel: &Kernel, count: usize, task: &Task, tiles: f64) -> f64 {
    let [down, across] = tiles_of_blocks(kernel, task);
    match kernel.takes_maps() {
        true => (down as f64 * across as f64 * count as f64 / tiles.max(1.0)).min(1.0),
        false => 1.0,
    }
}

/// Microseconds of the first and last instructions of the kernel that adds up parts, behind this
/// one, and bytes of parts that it reads in one.
pub(super) fn finishing(kernel: &Kernel) -> (f64, f64) {
    match kernel.takes_maps() {
        true => (FINISH_BEHIND_BOXES, PARTS_RATE_BEHIND_BOXES),
        false => (FINISH, PARTS_RATE),
    }
}

/// By how much a multiprocessor is faster whose others have nothing to do.
pub(super) fn alone(kernel: &Kernel) -> f64 {
    if kernel.takes_maps() { ALONE_WITH_BOXES } else { ALONE }
}

/// Microseconds of a kernel whose clusters have equal shares of the steps of all tiles, and join
/// what they have.
fn sharing(kernel: &Kernel, task: &Task, places: Places) -> f64 {
    let speed = Speed::of(kernel);
    let Speed { operations, step, tile, .. } = speed;
    let [rows, cols, depth] = kernel.tiles.block;
    let cluster = kernel.cluster() as f64;
    let tiles = f64::from(kernel.joined_tiles(task.shape));
    let steps = task.k.div_ceil(depth) as f64;
    let most = tiles * f64::from(kernel.blocks_of_tile(task.k));
    let clusters = f64::from(kernel.clusters_at_once(places)).min(most).max(1.0);
    let (m, n) = (task.shape.rows, task.shape.cols);
    let bytes = (task.dtype.size_bytes() * depth) as f64;
    let bytes_of_step = bytes * (rows.min(m) as f64 + cols.min(n) as f64 / cluster);
    let work = (2.0 * (rows * cols * depth) as f64 / operations).max(bytes_of_step / L2_RATE);
    let work = speed.skewed_by(kernel, task) * work;
    let part = clusters * cluster / f64::from(places.multiprocessors);
    let step = (work / (1.0 + ALONE * (1.0 - part).max(0.0))).max(least_step(step, kernel, task));
    let share = tiles / clusters;
    // Tiles that are cut, for each cluster.
    let cut =
        f64::from(order::shared_tiles(kernel.joined_tiles(task.shape), clusters as u32)) / clusters;
    // What is open is written, and read by who closes it.
    let sums = (rows.min(m) * cols.min(n) * size_of::<f32>()) as f64;
    let others = if cut < 1.0 { (1.0 / cut).ceil() } else { 1.0 };
    let next = if is_one_row(kernel, task) { JOIN_OF_FEW } else { JOIN };
    let joining = match cut {
        0.0 => 0.0,
        _ => sums / SUMS_RATE + JOIN + (others - 1.0) * next + others * sums / JOIN_RATE,
    };
    // Clusters at different steps do not find each other's strips in the L2 cache.
    let alone = if tiles > clusters { SKEW * cut } else { 0.0 };
    (share + alone) * steps * step + tile + 0.2 * tile * (share - 1.0).max(0.0) + joining
}

/// Tiles of C that clusters take, of as many parts of K or matrices of a batch as `count`.
pub(super) fn clusters(kernel: &Kernel, task: &Task, count: usize, places: Places) -> f64 {
    let cluster = kernel.cluster() / kernel.parts_of_cluster();
    let of_slice = match cluster {
        1 => tiles(kernel, task) as f64,
        _ => {
            // What does not fit is more than a grid has, and refused elsewhere.
            let saturated = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
            let at_once = kernel.clusters_at_once(places);
            let tiles = tiles_of_blocks(kernel, task).map(saturated);
            order::of_clusters(tiles, cluster as u32, saturated(count), at_once).into()
        }
    };
    of_slice * count as f64
}

/// Where blocks find room on a GPU, or on one like that of the measurements.
pub(super) fn places(info: &DeviceInfo) -> Places {
    match info.multiprocessors {
        Some(_) => info.places(),
        None => Places::of(MULTIPROCESSORS as u32),
    }
}

/// Rows and columns of tiles of C.
pub(super) fn tiles_of_blocks(kernel: &Kernel, task: &Task) -> [usize; 2] {
    let [rows, cols, _] = kernel.tiles.block;
    [task.shape.rows.div_ceil(rows), task.shape.cols.div_ceil(cols)]
}

/// Tiles of C, with those that fill clusters whose tiles lie one below the other.
fn tiles(kernel: &Kernel, task: &Task) -> usize {
    let [down, across] = tiles_of_blocks(kernel, task);
    let of_cluster = kernel.cluster_tiles();
    let whole = |count: usize, of: usize| count.div_ceil(of).saturating_mul(of);
    whole(down, of_cluster[0]).saturating_mul(whole(across, of_cluster[1]))
}

/// Numbers of parts that are worth a try, for K and C of a task: those that give every
/// multiprocessor a tile once or twice, and the smallest.
pub(super) fn splits(
    kernel: &Kernel,
    task: &Task,
    info: &DeviceInfo,
) -> impl Iterator<Item = usize> {
    let [_, cols, depth] = kernel.tiles.block;
    let tiles = tiles(kernel, task);
    let most = task.k / (least_steps(kernel) * depth);
    let clusters = kernel.clusters_at_once(places(info)) as usize;
    let once = clusters * kernel.cluster() * Speed::of(kernel).blocks / tiles.max(1);
    // Such a step is so long that parts of the least steps are worth it before all blocks have one.
    let once = if kernel.takes_row_maps() { once.min(most) } else { once };
    let tries = [1, 2, 3, 4, 6, 8, once, 2 * once, 3 * once];
    // Of 16 bits and C transposed the widest alone is faster than others, by more than a little.
    let splits = !kernel.swaps_operands() || kernel.dtype.size_bytes() == 4 || cols >= 160;
    let most = if kernel.takes_slices() && splits { most } else { 1 };
    let is_tried = move |&i: &usize| {
        let parts = tries[i];
        parts > 0 && (parts == 1 || parts <= most) && !tries[..i].contains(&parts)
    };
    (0..tries.len()).filter(is_tried).map(move |i| tries[i])
}

/// The least steps of a part of K: fewer cost more than they give; the warps of few rows have a
/// step each, and steps of rows that are cut out are long.
pub(super) fn least_steps(kernel: &Kernel) -> usize {
    match kernel.family {
        KernelFamily::Skinny => 1,
        _ if kernel.takes_row_maps() => 2,
        _ => 4,
    }
}
