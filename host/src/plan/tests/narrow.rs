//! Tiles of fewer columns than the kernel's.

use super::super::speed::SHORT_SUMS;
use super::*;
use gemm_spec::Placing;

/// Operands along K where maps reach.
fn chosen(shape: (usize, usize), k: usize) -> Chosen {
    let task = Task { maps: true, k, along_k: [true; 2], ..task(DType::BF16, shape) };
    super::super::choose(&KernelChoice::Auto, &task, &h100()).unwrap()
}

#[test]
fn they_are_as_many_as_fill_waves() {
    // 64 tiles of 64 on 66 clusters, of two halves of K each.
    let halves = chosen((16, 4096), 4096);
    assert_eq!((halves.kernel.variant, halves.tile_cols), ("warp_group_halves_64x64", 0));
    // 64 of 40, where 64 columns make 40.
    assert_eq!(chosen((64, 2560), 4096).tile_cols, 40);
    // 160 tiles of 64, in equal shares.
    let shared = chosen((64, 10_240), 8192);
    assert_eq!((shared.kernel.variant, shared.tile_cols), ("warp_group_stream_k_64x64", 0));
    // 192 of 64, halves of which are three for a cluster at most.
    assert_eq!(chosen((16, 12_288), 4096).kernel.variant, "warp_group_halves_64x64");
    // 128 tiles of 64 are one each.
    let whole = chosen((64, 8192), 8192);
    assert_eq!((whole.kernel.narrows(), whole.tile_cols), (false, 0));
}

/// 32 columns are taken by tiles of 32 where they are no rows of B, by tiles of 64 where they are,
/// whose boxes have as many rows as there are, and not of 128, whose second box of B would lie past
/// them.
#[test]
fn few_columns_have_no_boxes_past_them() {
    for (along_k, least) in [([true, false], 32), ([true, true], 64), ([false, false], 32)] {
        let cols = |cols| {
            let task = Task { maps: true, along_k, ..task(DType::BF16, (14_336, cols)) };
            let chosen = super::super::choose(&KernelChoice::Auto, &task, &h100()).unwrap();
            chosen.kernel.tiles.block[1]
        };
        assert_eq!([32, 64, 128].map(cols), [least, 64, 128]);
    }
}

/// On an H200 where sums are short.
#[test]
fn batches_of_which_operands_are_most_get_rows_of_64() {
    let chosen = |(rows, cols), k| {
        let task = Task { maps: true, k, batch: 32, ..task(DType::BF16, (rows, cols)) };
        [h100(), h200()].map(|info| {
            super::super::choose(&KernelChoice::Auto, &task, &info).unwrap().kernel.tiles.block[0]
        })
    };
    // Probabilities times values, and queries times keys, which are mostly C.
    assert_eq!(chosen((512, 128), 512), [64, 64]);
    assert_eq!(chosen((2048, 128), 2048), [64, 128]);
    assert_eq!(chosen((4096, 128), 4096), [64, 128]);
    assert_eq!(chosen((4096, 4096), 128), [128, 128]);
}

/// Bytes a second of memory and bytes of the L2 cache of GPUs with an H100's processor: of a slower
/// one than an H100 SXM, of that, and of an H200.
pub const MEMORIES: [(u64, u64); 3] =
    [(2_039_000_000_000, 50 << 20), (3_352_000_000_000, 50 << 20), (4_917_000_000_000, 60 << 20)];

pub fn with_memory((bandwidth, l2_cache): (u64, u64)) -> DeviceInfo {
    DeviceInfo { memory_bandwidth: Some(bandwidth), l2_cache: Some(l2_cache), ..h100() }
}

fn h200() -> DeviceInfo {
    with_memory(MEMORIES[2])
}

/// What was fastest on an H200 and is not, or was not measured, on an H100 (docs/performance.md).
#[test]
fn an_h200_has_plans_of_its_own() {
    let variants = |[m, n, k]: [usize; 3], b: fn(Shape) -> Layout| {
        let product = product(Layout::row_major(Shape::new(m, k)), b(Shape::new(k, n)));
        let task = Task::of(&product, [0, 0]);
        let chosen = |info: &DeviceInfo| {
            super::super::choose(&KernelChoice::Auto, &task, info).unwrap().kernel.variant
        };
        [chosen(&h100()), chosen(&h200())]
    };
    // The L2 cache is what tiles of 64 rows wait for where they are nearly a wave, and those of
    // 80 columns do not where sums are short.
    let [slow, fast] = variants([512, 2048, 4096], Layout::row_major);
    assert_eq!([slow, fast], ["warp_group_in_step_64x192", "warp_group_64x128"]);
    let [slow, fast] = variants([1024, 1024, 1024], Layout::col_major);
    assert_eq!([slow, fast], ["warp_group_in_step_64x192", "warp_group_swap_ab_128x80"]);
    // Clusters in step are where sums are not long, and get out of it where rows begin within
    // sectors.
    let [slow, fast] = variants([1032, 712, 1296], Layout::col_major);
    assert_eq!([slow, fast], ["warp_group_in_step_64x192", "warp_group_in_step_64x128"]);
    let [slow, fast] = variants([480, 1896, 5160], Layout::row_major);
    assert_eq!([slow, fast], ["warp_group_in_step_64x192", "warp_group_64x128"]);
    // More of B on its way at a time, though half of each tile is empty.
    let [slow, fast] = variants([64, 28_672, 4096], Layout::col_major);
    assert_eq!([slow, fast], ["warp_group_halves_64x64", "warp_group_128x224"]);
    // 160 tiles of 64 columns for 132 multiprocessors, which are 64 of 160 in halves of K.
    let [slow, fast] = variants([64, 10_240, 8192], Layout::col_major);
    assert_eq!([slow, fast], ["warp_group_stream_k_64x64", "warp_group_halves_64x160"]);
    // Clusters of two, of which each reads half of A.
    let [slow, fast] = variants([64, 8192, 8192], Layout::col_major);
    assert_eq!([slow, fast], ["warp_group_64x64", "warp_group_pairs_64x64"]);
    // Nearly all is C.
    let [slow, fast] = variants([8192, 8192, 64], Layout::row_major);
    assert_eq!([slow, fast], ["warp_group_ping_pong_128x192", "warp_group_128x192"]);
}

/// What the model calls short sums of tiles of 80 columns are those whose clusters have no places.
#[test]
fn short_sums_have_no_places() {
    let name = "warp_group_swap_ab_128x80";
    let kernel = Kernel::find_for(name, DType::BF16, Precision::Full, [true; 2]).unwrap();
    let has_places = |steps: usize| {
        let k = steps * kernel.tiles.block[2];
        kernel.placing(Shape::new(1024, 1024), k, h200().places()) != Placing::Any
    };
    let steps = SHORT_SUMS as usize;
    assert_eq!([steps - 1, steps].map(has_places), [false, true]);
}

/// Few rows of C, in tiles of as many as they are parts of, whose clusters have places.
#[test]
fn a_wave_of_tiles_of_few_rows_has_places() {
    let variant = |m, n, k| {
        let task = Task { maps: true, k, along_k: [true; 2], ..task(DType::BF16, (m, n)) };
        super::super::choose(&KernelChoice::Auto, &task, &h200()).unwrap().kernel.variant
    };
    assert_eq!(variant(384, 4096, 14_336), "warp_group_swap_ab_128x96");
    assert_eq!(variant(192, 8192, 28_672), "warp_group_swap_ab_128x96");
    assert_eq!(variant(320, 4096, 14_336), "warp_group_swap_ab_128x80");
    assert_eq!(variant(160, 6144, 4096), "warp_group_swap_ab_128x80");
    // Without places tiles of 128 x 96 are slower, but for few steps.
    let nn = |m, n, k| {
        let [a, b] = [Shape::new(m, k), Shape::new(k, n)].map(Layout::row_major);
        let task = Task::of(&product(a, b), [0, 0]);
        super::super::choose(&KernelChoice::Auto, &task, &h200()).unwrap().kernel.variant
    };
    assert_eq!(nn(1025, 1025, 1025), "warp_group_swap_ab_128x80");
    assert_eq!(nn(5472, 224, 488), "warp_group_swap_ab_128x96");
    // Where A's rows begin within sectors, columns had better begin with lines.
    assert_eq!(nn(3656, 1472, 5960), "warp_group_ping_pong_128x192");
    assert_eq!(nn(3840, 3840, 3840), "warp_group_ping_pong_128x176");
}

#[test]
fn long_sums_of_few_rows_have_parts_by_the_widest_swapped_tiles_alone() {
    let task = Task { maps: true, k: 28_672, along_k: [true; 2], ..task(DType::BF16, (160, 8192)) };
    let parts = |variant| {
        let kernel = Kernel::find_for(variant, DType::BF16, Precision::Full, [true; 2]).unwrap();
        super::super::model::splits(kernel, &task, &h200()).collect::<Vec<_>>()
    };
    assert!(parts("warp_group_swap_ab_128x160").contains(&2));
    assert_eq!(parts("warp_group_swap_ab_128x80"), [1]);
    let plan = super::super::choose(&KernelChoice::Auto, &task, &h200()).unwrap();
    assert_eq!((plan.kernel.variant, plan.parts), ("warp_group_swap_ab_128x160", 2));
}

#[test]
fn a_faster_memory_changes_predictions() {
    let h200 = h200();
    // 344 tiles of 64 are six for some clusters of two halves; 394 of 56 are less for them.
    let task = Task { maps: true, k: 4096, along_k: [true; 2], ..task(DType::BF16, (16, 22_016)) };
    let on = |info| super::super::choose(&KernelChoice::Auto, &task, info).unwrap();
    let (slow, fast) = (on(&h100()), on(&h200));
    assert_eq!((slow.kernel.variant, slow.tile_cols), ("warp_group_halves_64x64", 56));
    assert!(fast.prediction.memory < 0.8 * slow.prediction.memory);
}

#[test]
fn short_rows_that_split_sectors_are_copied() {
    // Few columns are few rows of the transposed C, which lie along M in rows of so many.
    let copied = |rows: usize| {
        let unmapped = Some([false; 2]);
        let task = Task { maps: true, unmapped, k: 8192, ..task(DType::BF16, (rows, 8192)) };
        let task = Task { along_k: [false, true], ..task };
        super::super::choose(&KernelChoice::Auto, &task, &h100()).unwrap().copied
    };
    let is_copied = [8, 16, 24, 32, 64].map(|rows| copied(rows) == [true, false]);
    assert_eq!(is_copied, [true, false, true, false, false]);
    // Nor are they taken by wide tiles, whose boxes of A lie past so few.
    let eight =
        product(Layout::row_major(Shape::new(8192, 8192)), Layout::row_major(Shape::new(8192, 8)));
    let task = Task::turned_if(true, &eight);
    let chosen = super::super::choose(&KernelChoice::Auto, &task, &h200()).unwrap();
    assert_eq!((chosen.kernel.variant, chosen.copied), ("warp_group_pairs_64x64", [true, false]));
}

/// Where rows have to be alike no plan takes the place of one that finds no memory.
#[test]
fn rows_that_have_to_be_alike_get_no_copies_for_speed() {
    let of_f32 = |batch_invariant| {
        let [a, b] = [(4095, 4099), (4099, 4097)]
            .map(|(rows, cols)| Layout::row_major(Shape::new(rows, cols)));
        let (dtype, output) = (DType::F32, DType::F32);
        let product = Product { dtype, output, batch_invariant, ..product(a, b) };
        let task = Task::turned_if(false, &product);
        super::super::choose(&KernelChoice::Auto, &task, &h100()).unwrap()
    };
    let (free, alike) = (of_f32(false), of_f32(true));
    assert_eq!((free.kernel.variant, free.copied), ("k12_warp_specialized", [true; 2]));
    assert_eq!(alike.copied, [false; 2]);
}

/// What a block of f64 has on its way is what it gets of memory; two parts of K have twice that.
#[test]
fn few_rows_of_f64_have_a_block_for_each_multiprocessor() {
    let chosen = |cols, k| {
        let task = Task { k, ..task(DType::F64, (4, cols)) };
        let plan = super::super::choose(&KernelChoice::Auto, &task, &h200()).unwrap();
        (plan.kernel.variant, plan.parts)
    };
    assert_eq!(chosen(4096, 4096), ("k11_tensor_32x64", 2));
    assert_eq!(chosen(8192, 8192), ("k11_tensor_32x64", 1));
}

#[test]
fn few_k_of_f32_is_taken_in_steps_of_8() {
    let chosen = |k| {
        let task = Task { maps: true, k, ..task(DType::F32, (4096, 4096)) };
        super::super::choose(&KernelChoice::Auto, &task, &h200()).unwrap().kernel.variant
    };
    let few = "k09_async_copy";
    assert_eq!([16, 64, 4096].map(chosen), [few, few, "k12_warp_specialized"]);
}
