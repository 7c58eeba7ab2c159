//! How long memory takes for a product's operands and C, which kernels wait for: a part of the
//! [model](super::model).

use super::choose::Task;
use super::model::{BANDWIDTH, OF_BANDWIDTH, OF_COPIES, blocks_at_once, bytes_of_sums, clusters};
use gemm_spec::{DType, Kernel, KernelFamily, Places, box_cols};

/// What part of something there is with an H100's memory, and how much more of it where memory
/// moves four times as much, by the root of that ([`faster`]). Slower memory was not measured, and
/// counts as an H100's, nor faster one than an H200's, and counts as that.
#[derive(Clone, Copy)]
pub(super) struct Part(pub f64, pub f64);

impl Part {
    /// [`faster`] of an H200.
    const MOST: f64 = 1.2111;

    pub fn at(self, faster: f64) -> f64 {
        self.0 * (1.0 + self.1 * (faster.clamp(1.0, Part::MOST) - 1.0))
    }
}

/// The root of how much more than an H100's a memory moves of which a kernel gets so many bytes in
/// a microsecond: 1.21 on an H200.
pub(super) fn faster(rate: f64) -> f64 {
    (rate / (OF_BANDWIDTH * BANDWIDTH)).sqrt()
}

/// Microseconds in which memory answers, while others ask too: less by the root of what another
/// memory moves (1.42 on an H200).
const MEMORY_LATENCY: f64 = 1.72;
/// The same of few rows, where it is alone.
const MEMORY_RATE_ALONE: f64 = 57e3;
/// How much more a block asks for with each 64 columns more.
const OF_WIDE: f64 = 0.6;
/// What part of the memory's rate tiles of two groups get where one of them has no rows.
const EMPTY_GROUP: Part = Part(0.9, 0.4);
/// The same of tiles of which boxes of B lie past C's last column.
const PAST: f64 = 0.65;
/// What part of it wide tiles of one group get side by side, in few and long steps.
const WIDE: Part = Part(0.87, -0.4);
/// The same of halves of K in tiles of more than 64 columns, of an A along M, whose boxes lie past
/// its rows, and along K; on an H100 they were not measured, and are taken where nothing else comes
/// near.
const IN_WIDE_HALVES: [Part; 2] = [Part(0.63, 0.2), Part(0.84, 0.2)];
/// The same of tiles that have half a box, of a B along N, of which the next tile's half is brought
/// too, and along K, whose boxes have 32 rows.
const IN_HALVES: [Part; 2] = [Part(0.83, 0.0), Part(0.91, 0.0)];
/// The same of tiles of two boxes of 64.
const IN_WHOLES: Part = Part(0.895, -0.4);
/// The same of tiles of one in clusters of two.
const IN_PAIRS: Part = Part(0.985, 0.07);
/// The same of tiles of one, of a B along N and along K.
const IN_ONES: [Part; 2] = [Part(1.0, -0.4), Part(0.99, -0.4)];
/// The same of tiles of one group and of two in batches of which A and B are most; of one where
/// tiles have so many steps.
const IN_BATCHES: [Part; 2] = [Part(1.0, -0.35), Part(0.96, 0.0)];
const MANY_STEPS: usize = 16;
/// What part of the stages of kernels without boxes is on its way.
const OF_STEPS_AHEAD: f64 = 0.65;
/// What part of the memory's rate equal shares get, in which most multiprocessors go from one tile
/// to another at a time of their own: where all tiles are cut, and where some are whole.
const SHARES: [f64; 2] = [0.93, 0.85];
/// The same of few rows.
const SHARES_OF_FEW: [f64; 2] = [0.885, 0.945];

/// Whether C has few rows, all in one row of tiles of tensor maps, of which memory is what counts.
pub(super) fn is_one_row(kernel: &Kernel, task: &Task) -> bool {
    let rows = kernel.tiles.block[0];
    kernel.takes_maps() && rows == 64 && task.shape.rows <= rows && task.batch <= 1
}

/// Whether a box of B lies past the last column of a C that is one column of tiles: the copy engine
/// takes longer for it than for others.
fn has_boxes_past(kernel: &Kernel, task: &Task) -> bool {
    let cols = kernel.tiles.block[1];
    let of_box = box_cols(cols, task.along_k[1], kernel.parts_of_cluster());
    let is_by_boxes = kernel.takes_maps() && !kernel.swaps_operands();
    is_by_boxes && (1..=(cols - 1) / of_box * of_box).contains(&task.shape.cols)
}

/// What part of the memory's rate a kernel gets in a batch of which A and B are most.
fn in_batches(kernel: &Kernel, task: &Task) -> Part {
    let [rows, _, depth] = kernel.tiles.block;
    match rows {
        128 => IN_BATCHES[1],
        64 if task.shape.rows > rows && task.k >= MANY_STEPS * depth => IN_BATCHES[0],
        _ => Part(1.0, 0.0),
    }
}

/// Microseconds that memory takes for so many bytes. The last tiles of kernels that copy them,
/// fewer than there are multiprocessors, do not get all that it could give.
pub(super) fn waiting(
    kernel: &Kernel,
    parts: usize,
    task: &Task,
    (bytes, rate): (f64, f64),
    places: Places,
) -> f64 {
    let [rows, cols, _] = kernel.tiles.block;
    let faster = faster(rate);
    let is_half_empty = kernel.takes_maps() && rows > 64 && task.shape.rows <= rows / 2;
    let rate = if is_half_empty { EMPTY_GROUP.at(faster) * rate } else { rate };
    let rate = if has_boxes_past(kernel, task) { PAST * rate } else { rate };
    let is_one_row = is_one_row(kernel, task);
    let rate = match is_one_row {
        true if kernel.parts_of_cluster() > 1 && cols > 64 => {
            IN_WIDE_HALVES[usize::from(task.along_k[0])].at(faster) * rate
        }
        true if kernel.parts_of_cluster() > 1 => rate,
        true if cols > 128 => WIDE.at(faster) * rate,
        true if cols == 128 => IN_WHOLES.at(faster) * rate,
        true if cols == 64 && kernel.cluster() > 1 => IN_PAIRS.at(faster) * rate,
        true if cols == 64 && kernel.cluster() == 1 => {
            IN_ONES[usize::from(task.along_k[1])].at(faster) * rate
        }
        true if !cols.is_multiple_of(64) => {
            IN_HALVES[usize::from(task.along_k[1])].at(faster) * rate
        }
        false if task.batch > 1 && 5.0 * bytes_of_sums(1, task) < bytes => {
            in_batches(kernel, task).at(faster) * rate
        }
        _ => rate,
    };
    let cluster = kernel.cluster() as f64;
    let clusters = clusters(kernel, task, parts.max(task.batch), places);
    let at_once = f64::from(kernel.clusters_at_once(places));
    // Equal shares have no last ones, but ends within tiles.
    let (clusters, last, rate) = match kernel.joins() {
        true => {
            let shares = if is_one_row { SHARES_OF_FEW } else { SHARES };
            (at_once, 0.0, rate * shares[usize::from(clusters > at_once)])
        }
        false => (clusters, clusters % at_once, rate),
    };
    // Of an empty C there are no last ones.
    if clusters == 0.0 || !kernel.takes_maps() && !has_steps_ahead(kernel) {
        return bytes / rate;
    }
    if !kernel.takes_maps() {
        let blocks = clusters.min(at_once * blocks_at_once(kernel) as f64);
        let asked = blocks * OF_STEPS_AHEAD * under_way(kernel, task) / MEMORY_LATENCY;
        return bytes / rate.min(faster * asked);
    }
    let of_last = bytes * last / clusters;
    let bringing = match is_one_row {
        // The fewer columns, the fewer bytes on their way.
        true if kernel.parts_of_cluster() > 1 => cluster * (cols as f64 / 64.0).sqrt(),
        // Side by side each brings its own.
        true => {
            let tiles = task.shape.cols.div_ceil(cols) as f64;
            let each = 1.0 + OF_WIDE * (cols as f64 / 64.0 - 1.0);
            each * if clusters < tiles { cluster } else { 1.0 }
        }
        false => cluster,
    };
    let rate_of = |clusters: f64| {
        let bringing = clusters.max(1.0) * bringing * faster;
        if !is_one_row {
            return rate.min(bringing * under_way(kernel, task) / MEMORY_LATENCY);
        }
        let (rate, asked) = (OF_COPIES * rate, bringing * MEMORY_RATE_ALONE);
        rate * asked / (rate * rate + asked * asked).sqrt()
    };
    (bytes - of_last) / rate_of(at_once) + of_last / rate_of(last)
}

/// Whether a kernel without boxes is known to wait for memory as those with them do, by how much
/// its blocks have on their way.
pub(super) fn has_steps_ahead(kernel: &Kernel) -> bool {
    kernel.family == KernelFamily::TensorCore && kernel.dtype == DType::F64
}

/// Bytes of operands that a block of a kernel with steps ahead has on their way from memory: its
/// part of all stages, of A as much as not all clusters of a row want.
fn under_way(kernel: &Kernel, task: &Task) -> f64 {
    let [rows, cols, depth] = kernel.tiles.block;
    let [down, across] = kernel.cluster_tiles();
    let of_a = rows.min(task.shape.rows) as f64 / across as f64;
    let of_b = cols.min(task.shape.cols) as f64 / down as f64;
    let wanted_by = task.shape.cols.div_ceil(cols * across).max(1);
    let rows = of_a / wanted_by as f64 + of_b;
    (kernel.tiles.stages * depth * task.dtype.size_bytes()) as f64 * rows
}
