//! What was measured of each kernel on an H100 SXM, for the [model](super::model).

use super::choose::Task;
use super::maps::WITHIN_SECTORS;
use super::model::{FEW_STEPS, L2_BYTES, MULTIPROCESSORS, tiles_of_blocks};
use super::waiting::Part;
use gemm_spec::{DType, Kernel, KernelFamily, Precision, Shape, Stored};
use rustc_hash::FxHashMap;
use std::sync::LazyLock;

/// K from which on tiles of 160 columns, which read most of the L2 cache, are slower in turn.
const LONG_SUMS: usize = 8192;

/// How much longer a step of clusters of two takes, for tiles of two groups, where rows of A and
/// rows of B begin within sectors.
const WITHIN_SECTORS_OF_BOTH: f64 = 1.1;

/// What part of their speed kernels that compute C transposed have where C is more than one wave.
const SEVERAL_WAVES: f64 = 0.93;
/// What part of a step tiles of 128 x 80 take in sums of fewer steps than from which on clusters
/// are placed ([`Kernel::placing`]).
pub(super) const IN_STEP: f64 = 0.75;
pub(super) const SHORT_SUMS: f64 = 24.0;
/// Microseconds that tiles of 128 x 96, and those of 128 x 128 in step, take more than by long sums
/// where a sum has few steps; those of 64 x 128 in step where it has more than [`SOON`], or C few
/// rows or columns.
const LATE: f64 = 0.35;
const SOON: f64 = 32.0;
/// Microseconds that tiles of 64 rows in step take more for each step behind [`SHORT_SUMS`] whose
/// rows begin within sectors, where clusters get out of step.
const OUT_OF_STEP: f64 = 0.05;
/// Rows and columns of C from which on both were seen.
const MORE_THAN_FEW: usize = 200;

/// Rows of C, and columns of tiles, from which on a faster L2 cache makes kernels faster
/// ([`Speed::of_l2`]).
const MANY_ROWS: usize = 1024;
const MANY_TILES: usize = 8;
/// Waves of tiles from which on it does so for groups in turn.
const WAVES_IN_TURN: f64 = 3.0;

/// A kernel's speed.
#[derive(Clone, Copy)]
pub(super) struct Speed {
    /// Operations that a multiprocessor does in a microsecond, while all have work.
    pub operations: f64,
    /// The least microseconds of a step along K.
    pub step: f64,
    /// Microseconds of a tile of C beside its steps.
    pub tile: f64,
    /// Blocks that are on a multiprocessor at one time.
    pub blocks: usize,
    /// By how much a step takes longer whose boxes' rows lie in two lines of the L2 cache each.
    pub skewed: f64,
    /// What part of multiplying is not hidden behind memory where all of its traffic is C, which
    /// the groups write that multiply: one group does one thing at a time, and a tile of 256
    /// columns keeps a stage until it is written.
    pub visible_of_c: Part,
    /// What part of its time a step takes where clusters go row after row because that is faster
    /// ([`Kernel::gains_by_rows`]): all of it for kernels of which that was not measured.
    pub row_after_row: f64,
    /// How much faster it is where the L2 cache is twice as fast and C has many rows and columns of
    /// tiles, which read the same of A and B.
    of_l2: f64,
}

/// Of all kernels, by where their names are: a plan asks for dozens, and to find what is known of
/// one takes as long as a prediction.
static SPEEDS: LazyLock<FxHashMap<usize, Speed>> = LazyLock::new(|| {
    gemm_spec::entries().map(|kernel| (kernel.name.as_ptr() as usize, Speed::new(kernel))).collect()
});

/// Trillions of operations a second of a kernel of boxes that does so many of 16 bits.
fn of_boxes(kernel: &Kernel, of_16_bits: f64) -> f64 {
    match kernel.dtype.size_bytes() {
        1 => 1.95 * of_16_bits,
        4 => 0.5 * of_16_bits,
        _ => of_16_bits,
    }
}

/// Trillions of operations a second, the least microseconds of a step, those of a tile, and blocks
/// on a multiprocessor.
fn measured(kernel: &Kernel) -> (f64, f64, f64, usize) {
    use DType::{BF16, F8E4M3, F8E5M2, F16, F32, F64, I8, I32};
    let tensor = |of_16_bits: f64| of_boxes(kernel, of_16_bits);
    // Of steps 7 and 8.
    let shallow = 0.11 * kernel.tiles.block[2] as f64;
    match (kernel.variant, kernel.dtype) {
        ("warp_group_stream_k_128x256", _) => (tensor(805.0), 0.3, 1.8, 1),
        ("warp_group_128x256", _) => (tensor(805.0), 0.3, 1.9, 1),
        // Where a block has one tile, nobody multiplies between a group's steps.
        ("warp_group_ping_pong_128x192", _) => (tensor(815.0), 0.475, 3.4, 1),
        ("warp_group_ping_pong_128x176", _) if !kernel.stored.b_is_along_k() => {
            (tensor(802.0), 0.447, 3.3, 1)
        }
        // The ends of tiles are twice as much beside steps of 8 bits.
        ("warp_group_ping_pong_128x176", F8E4M3 | F8E5M2) => (tensor(842.0), 0.447, 3.3, 1),
        ("warp_group_ping_pong_128x176", _) => (tensor(814.0), 0.447, 3.3, 1),
        ("warp_group_ping_pong_128x160", _) => (tensor(812.0), 0.42, 3.2, 1),
        ("warp_group_in_step_128x192", _) => (tensor(870.0), 0.42, 1.7, 1),
        ("warp_group_in_step_128x128", _) => (tensor(860.0), 0.285, 1.6, 1),
        ("warp_group_in_step_64x192", _) => (tensor(800.0), 0.222, 1.4, 1),
        ("warp_group_128x224", _) => (tensor(800.0), 0.29, 2.3, 1),
        ("warp_group_128x192", _) => (tensor(795.0), 0.28, 2.1, 1),
        // Columns of the next tile are brought too.
        ("warp_group_128x160", _) if !kernel.stored.b_is_along_k() => (tensor(665.0), 0.27, 1.5, 1),
        ("warp_group_128x160", _) => (tensor(740.0), 0.27, 1.5, 1),
        ("warp_group_128x128", _) => (tensor(740.0), 0.25, 2.1, 1),
        ("warp_group_split_128x128", _) => (138.0, 1.75, 2.0, 1),
        ("warp_group_in_step_64x128", _) => (tensor(740.0), 0.17, 1.35, 1),
        ("warp_group_64x256", _) => (tensor(615.0), 0.3, 1.5, 1),
        ("warp_group_64x192", _) => (tensor(540.0), 0.25, 1.1, 1),
        ("warp_group_64x128", _) => (tensor(507.0), 0.15, 1.2, 1),
        ("warp_group_64x96", _) => (tensor(412.0), 0.14, 1.3, 1),
        ("warp_group_pairs_64x64", _) => (tensor(359.0), 0.12, 0.7, 1),
        ("warp_group_64x64", _) => (tensor(359.0), 0.12, 0.6, 1),
        ("warp_group_64x32", _) => (tensor(190.0), 0.12, 0.6, 1),
        ("warp_group_stream_k_64x64", _) => (tensor(346.0), 0.12, 0.8, 1),
        // Both blocks share one way to rows that begin anywhere.
        ("warp_group_direct_64x64", _) => (173.0, 0.5, 2.4, 2),
        ("warp_group_direct_128x192", _) => (362.0, 1.1, 4.5, 1),
        ("k11_tensor_deep", _) => (640.0, 1.3, 4.0, 1),
        ("k11_tensor_core", F16 | BF16) => (344.0, 1.3, 4.0, 1),
        ("k11_tensor_core", I8) => (590.0, 1.3, 4.0, 1),
        ("k11_tensor_core", F64) => (62.5, 1.1, 2.0, 1),
        ("k11_tensor_64x64", F16 | BF16) => (168.0, 0.7, 2.0, 4),
        ("k11_tensor_64x64", I8) => (296.0, 0.7, 2.0, 4),
        ("k11_tensor_64x128", _) => (60.0, 0.55, 2.0, 1),
        ("k11_tensor_64x64", _) => (53.5, 0.44, 1.2, 2),
        ("k11_tensor_32x64", _) => (40.0, 0.42, 0.3, 1),
        ("k11_tensor_32x32", _) => (33.0, 0.2, 0.8, 2),
        ("k11_tensor_core", _) => (56.0, 1.3, 4.0, 1),
        ("k12_warp_specialized", _) => (54.0, 2.5, 4.0, 1),
        ("k09_async_copy", F32) => (48.6, 0.75, 2.6, 2),
        ("k10_grouped_order", F32) => (49.0, 1.6, 3.0, 2),
        ("k10_grouped_64x64", _) => (31.0, 0.54, 2.0, 4),
        ("k09_async_copy" | "k10_grouped_order", F64) => (19.4, 0.95, 3.0, 1),
        ("k09_async_copy" | "k10_grouped_order", _) => (31.2, 0.9, 3.0, 1),
        ("k08_double_buffer", F32) => (21.9, shallow, 3.0, 2),
        ("k08_double_buffer", F64) => (17.2, shallow, 3.0, 1),
        ("k08_double_buffer", I32) => (27.0, shallow, 3.0, 1),
        ("k08_double_buffer", _) => (29.2, shallow, 3.0, 1),
        ("k07_warp_tile", F32) => (31.6, shallow, 3.0, 2),
        ("k07_warp_tile", F64) => (12.2, shallow, 3.0, 1),
        ("k07_warp_tile", I32) => (28.0, shallow, 3.0, 2),
        ("k07_warp_tile", I8 | F8E4M3 | F8E5M2) => (25.4, shallow, 3.0, 1),
        ("k07_warp_tile", _) => (42.5, shallow, 3.0, 2),
        ("skinny_rows" | "skinny_row", F64) => (12.0, 1.0, 2.0, kernel.tiles.min_blocks),
        ("skinny_rows" | "skinny_row", I8 | F8E4M3 | F8E5M2) => {
            (15.0, 1.0, 2.0, kernel.tiles.min_blocks)
        }
        ("skinny_rows" | "skinny_row", _) => (25.0, 1.0, 2.0, kernel.tiles.min_blocks),
        // Step 2, and what is not chosen among.
        (_, F64) => (4.7, 0.9, 2.0, 8),
        _ => (8.3, 0.9, 2.0, 8),
    }
}

/// The same of kernels of tf32 whose threads bring A to registers, which holds them up.
fn measured_from_registers(kernel: &Kernel) -> (f64, f64, f64, usize) {
    match kernel.tiles.block {
        [128, 256, _] => (400.0, 0.3, 2.2, 1),
        _ => (310.0, 0.43, 3.2, 1),
    }
}

/// The same of kernels whose clusters' blocks take parts of K.
fn measured_in_parts(kernel: &Kernel) -> (f64, f64, f64, usize) {
    match kernel.tiles.block {
        [64, 160, _] => (of_boxes(kernel, 540.0), 0.25, 3.5, 1),
        _ => (of_boxes(kernel, 359.0), 0.12, 3.0, 1),
    }
}

/// The same of kernels that compute C transposed, of elements of 16 bits.
fn measured_swapped(kernel: &Kernel) -> (f64, f64, f64, usize) {
    match kernel.tiles.block {
        [128, 160, _] => (770.0, 0.425, 1.6, 1),
        [128, 96, _] => (690.0, 0.28, 0.9, 1),
        [128, 80, _] => (480.0, 0.28, 0.9, 1),
        [64, 96, _] => (410.0, 0.21, 0.6, 1),
        [64, 80, _] => (385.0, 0.19, 0.4, 1),
        _ => (275.0, 0.15, 0.6, 1),
    }
}

/// [`Speed::skewed`].
fn skewed(kernel: &Kernel) -> f64 {
    match kernel.variant {
        // Of what each block brings several read.
        "warp_group_in_step_64x128" => 0.25,
        "warp_group_in_step_64x192" => 0.2,
        "warp_group_in_step_128x128" | "warp_group_in_step_128x192" => 0.05,
        "warp_group_128x128" | "warp_group_128x160" => 0.3,
        "warp_group_64x64" => 0.65,
        "warp_group_pairs_64x64" => 0.5,
        "warp_group_128x256" | "warp_group_stream_k_128x256" => 0.12,
        "warp_group_swap_ab_64x48" => 0.64,
        // Every other tile's columns begin within lines too.
        "warp_group_ping_pong_128x176" if kernel.stored == Stored::Nn => 0.32,
        _ if kernel.takes_maps() && kernel.tiles.block[0] == 64 => 0.33,
        _ if kernel.takes_maps() => 0.21,
        _ => 0.0,
    }
}

/// [`Speed::visible_of_c`].
fn visible_of_c(kernel: &Kernel) -> Part {
    match kernel.variant {
        "warp_group_128x128" => Part(0.105, 6.6),
        "warp_group_128x160" | "warp_group_128x224" => Part(0.45, 0.0),
        "warp_group_128x192" => Part(0.45, -2.4),
        "warp_group_128x256" => Part(0.2, 1.9),
        _ if kernel.takes_tiles_in_turn() => Part(0.2, 5.7),
        _ if kernel.swaps_operands() => Part(0.2, 2.5),
        _ if kernel.tiles.block[0] == 64 => Part(0.2, 4.0),
        _ => Part(0.2, 0.0),
    }
}

/// [`Speed::row_after_row`].
fn row_after_row(kernel: &Kernel) -> f64 {
    match (kernel.variant, kernel.tiles.block) {
        ("warp_group_64x128", _) => 0.934,
        ("warp_group_64x192", _) => 0.964,
        ("warp_group_128x128", _) => 0.946,
        ("warp_group_128x160", _) => 0.961,
        ("warp_group_128x224", _) => 0.98,
        _ if kernel.takes_tiles_in_turn() => 0.987,
        (_, [64, 80, _]) if kernel.swaps_operands() => 0.906,
        (_, [64, 96, _]) if kernel.swaps_operands() => 0.878,
        (_, [128, 80, _]) if kernel.swaps_operands() => 0.89,
        (_, [128, 160, _]) if kernel.swaps_operands() => 0.981,
        _ => 1.0,
    }
}

/// [`Speed::of_l2`]: tiles of 64 rows read most of it for what they multiply, and those of two
/// groups in turn more than others.
fn of_l2(kernel: &Kernel) -> f64 {
    match kernel.tiles.block {
        [128, 176, _] if kernel.takes_tiles_in_turn() => 0.07,
        [128, 160, _] if kernel.takes_tiles_in_turn() => 0.12,
        _ if kernel.takes_tiles_in_turn() => 0.05,
        _ if !kernel.takes_maps() || kernel.takes_steps_in_turn() || kernel.swaps_operands() => 0.0,
        [64, 96 | 128 | 192 | 256, _] => 0.7,
        _ => 0.0,
    }
}

/// Whether a kernel has transposed tiles of 128 x 80.
pub(super) fn is_of_80_columns(kernel: &Kernel) -> bool {
    kernel.swaps_operands() && kernel.tiles.block[..2] == [128, 80]
}

/// Whether a task of more than few rows and columns has tiles of 64 x 128 for most multiprocessors
/// and for none twice: what these wait for is the L2 cache alone.
fn nearly_fills_a_wave(kernel: &Kernel, task: &Task) -> bool {
    const LEAST_TILES: f64 = 100.0;
    const LEAST_ROWS: usize = 160;
    let tiles = tiles_of(kernel, task) as f64;
    kernel.variant == "warp_group_64x128"
        // What another kernel leaves waits for more.
        && !task.whole
        && task.shape.rows.min(task.shape.cols) >= LEAST_ROWS
        && (LEAST_TILES..=MULTIPROCESSORS).contains(&tiles)
}

/// Tiles of a task's C.
fn tiles_of(kernel: &Kernel, task: &Task) -> usize {
    let [down, across] = tiles_of_blocks(kernel, task);
    down.saturating_mul(across)
}

/// Microseconds that a tile of so many steps takes more than at the least, where an H200 was asked
/// for that or was not.
fn late(kernel: &Kernel, steps: f64, task: &Task, is_asked: bool) -> f64 {
    let is_wide = task.shape.rows.min(task.shape.cols) >= MORE_THAN_FEW;
    let has_few_steps = steps < FEW_STEPS;
    let out_of_step = match is_asked && is_wide && task.skew.contains(&WITHIN_SECTORS) {
        true => OUT_OF_STEP * (steps - SHORT_SUMS).max(0.0),
        false => 0.0,
    };
    match (kernel.variant, kernel.tiles.block) {
        ("warp_group_in_step_64x128", _) if is_asked && is_wide && steps <= SOON => out_of_step,
        ("warp_group_in_step_64x128", _) => LATE + out_of_step,
        ("warp_group_in_step_64x192", _) => out_of_step,
        _ if !is_asked => 0.0,
        ("warp_group_in_step_128x128", _) if has_few_steps => LATE,
        (_, [128, 96, _]) if kernel.swaps_operands() && has_few_steps => LATE,
        _ => 0.0,
    }
}

impl Speed {
    pub fn of(kernel: &Kernel) -> Speed {
        let found = SPEEDS.get(&(kernel.name.as_ptr() as usize));
        found.copied().unwrap_or_else(|| Speed::new(kernel))
    }

    /// The same for a task's operands and a sum of so many steps, where the L2 cache is so many
    /// times as fast.
    pub fn with(kernel: &Kernel, steps: f64, task: &Task, l2_ratio: f64) -> Speed {
        let mut speed = Speed::of(kernel);
        let Speed { operations, step, tile, .. } = &mut speed;
        if kernel.family == KernelFamily::TensorCore && task.dtype.size_bytes() < 4 && !task.maps {
            // Elements that are too small for asynchronous copies come through registers.
            (*operations, *step) = (0.2 * *operations, 3.0 * *step);
        }
        if kernel.family == KernelFamily::WarpSpecialized {
            // A is turned round on its way as fast as others multiply, but not both, nor odd rows.
            *operations *= match (task.maps, task.along_k[1]) {
                (true, false) => 1.0,
                (true, true) | (false, _) => 0.9,
            };
        }
        if kernel.variant == "skinny_rows" && task.along_k[1] {
            *step *= 1.5;
        }
        let reads_l2_most = kernel.variant == "warp_group_ping_pong_128x160" && l2_ratio <= 1.0;
        if reads_l2_most && task.k >= LONG_SUMS {
            *operations *= 0.94;
        }
        if kernel.swaps_operands() && task.dtype.size_bytes() == 2 {
            // Of several waves each takes longer than one alone, the last one too.
            if tiles_of(kernel, task) as f64 > MULTIPROCESSORS {
                (*operations, *step) = (SEVERAL_WAVES * *operations, *step / SEVERAL_WAVES);
            }
        }
        // An H100 was not asked.
        let is_asked = l2_ratio > 1.0 && task.dtype.size_bytes() == 2;
        if is_asked && is_of_80_columns(kernel) && steps < SHORT_SUMS && task.skew == [0; 2] {
            // Sums so short that clusters are still in step.
            (*operations, *step) = (*operations / IN_STEP, IN_STEP * *step);
        }
        *tile += late(kernel, steps, task, is_asked);
        if kernel.family == KernelFamily::Skinny && task.dtype.size_bytes() < 4 && !task.maps {
            // They come one by one.
            *step *= 2.5;
        }
        speed
    }

    fn new(kernel: &Kernel) -> Speed {
        let along_k = kernel.stored.takes([true; 2]);
        let (trillions, step, tile, blocks) = match kernel.precision {
            Precision::Tf32 if !along_k => measured_from_registers(kernel),
            _ if kernel.swaps_operands() => measured_swapped(kernel),
            _ if kernel.parts_of_cluster() > 1 => measured_in_parts(kernel),
            _ => measured(kernel),
        };
        let operations = trillions * 1e6 / MULTIPROCESSORS;
        let (skewed, visible_of_c) = (skewed(kernel), visible_of_c(kernel));
        let row_after_row = row_after_row(kernel);
        let of_l2 = of_l2(kernel);
        Speed { operations, step, tile, blocks, skewed, visible_of_c, row_after_row, of_l2 }
    }

    /// How much faster it is for a task where the L2 cache is so many times as fast.
    pub fn by_l2(&self, ratio: f64, kernel: &Kernel, task: &Task) -> f64 {
        let Shape { rows, cols } = task.shape;
        let is_many = match kernel.takes_tiles_in_turn() {
            // One tile alone has nobody to take turns with.
            true => tiles_of(kernel, task) as f64 >= WAVES_IN_TURN * MULTIPROCESSORS,
            false => rows >= MANY_ROWS && cols >= MANY_TILES * kernel.tiles.block[1],
        };
        match is_many {
            true => 1.0 + self.of_l2 * (ratio - 1.0),
            false if nearly_fills_a_wave(kernel, task) => ratio,
            false => 1.0,
        }
    }

    /// By how much a step of a task takes longer, whose rows do not all begin with lines.
    pub fn skewed_by(&self, kernel: &Kernel, task: &Task) -> f64 {
        if task.skew == [0; 2] {
            return 1.0;
        }
        let [rows, cols, _] = kernel.tiles.block;
        let [down, across] = kernel.cluster_tiles();
        let rows = rows.min(task.shape.rows) as f64 / across as f64;
        let cols = cols.min(task.shape.cols) as f64 / down as f64;
        let [a, b] = task.skew.map(|skew| f64::from(skew) / 8.0);
        let longer = 1.0 + self.skewed * (rows * a + cols * b) / (rows + cols);
        let within = task.skew == [WITHIN_SECTORS; 2];
        let is_wide = kernel.tiles.block[0] == 128 && kernel.cluster() == 2;
        match within && is_wide && !kernel.swaps_operands() {
            true => WITHIN_SECTORS_OF_BOTH * longer,
            false => longer,
        }
    }
}

/// What part of its boxes a kernel of small tiles waits for: some of what neighbours ask for at one
/// time is answered together. Less is where rows of tiles read one B, which does not stay in the L2
/// cache, without a cluster that keeps them together, and where K is in parts.
pub(super) fn not_shared(kernel: &Kernel, parts: usize, task: &Task) -> f64 {
    let b = task.k.saturating_mul(task.shape.cols).saturating_mul(task.dtype.size_bytes());
    match (kernel.tiles.block, kernel.cluster()) {
        _ if kernel.family != KernelFamily::WarpGroup => 1.0,
        // All clusters want the same rows of A at one time.
        ([64, 64, _], 2) if parts > 1 => 0.92,
        ([64, 64, _], 2) if task.shape.rows <= 128 => 0.72,
        ([64, 64, _], 2) => 0.78,
        ([64, 64, _], _) if parts > 1 => 0.85,
        ([64, 64, _], _) if b as f64 > L2_BYTES && task.shape.rows > 64 => 1.1,
        ([64, 64, _], _) => 0.65,
        _ => 1.0,
    }
}
