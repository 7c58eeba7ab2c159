//! Choices and checks for made-up devices.

use super::floor::Floor;
use super::variants::variant_of;
use super::*;
use crate::OwnKernel;
use crate::device::DeviceKind;
use gemm_spec::{Strides, Tiles, Writes, kernels};
use proptest::prelude::*;
use std::collections::HashSet;

mod apart;
mod fusion;
mod in_step;
mod narrow;
mod odd;
mod said;

fn gpu() -> DeviceInfo {
    DeviceInfo {
        name: "a GPU".into(),
        kind: DeviceKind::Cuda { ordinal: 0 },
        compute_capability: Some((9, 0)),
        total_memory: None,
        memory_bandwidth: None,
        l2_cache: None,
        shared_memory_per_block: Some(48 << 10),
        shared_memory_per_block_optin: None,
        multiprocessors: None,
        clusters_of_eight: None,
        driver_version: None,
        launch_limits: Some(LaunchLimits {
            threads_per_block: 1024,
            block: [1024, 1024, 64],
            grid: [i32::MAX as u32, 65_535, 65_535],
            shared_bytes_per_block: 48 << 10,
            shared_bytes_per_block_optin: 163 << 10,
        }),
    }
}

/// One with as many multiprocessors as the model was fitted to.
pub(crate) fn h100() -> DeviceInfo {
    DeviceInfo { multiprocessors: Some(132), ..hopper() }
}

/// A C of `shape`, with operands that no map describes.
pub(super) fn task(dtype: DType, shape: (usize, usize)) -> Task {
    let shape = Shape::new(shape.0, shape.1);
    Task {
        dtype,
        precision: Precision::Full,
        shape,
        k: 4096,
        output: dtype.output(),
        batch: 1,
        shared: [false; 2],
        splits: true,
        along_k: [true, false],
        maps: false,
        row_maps: true,
        unmapped: None,
        rows: Rows::Free,
        skew: [0; 2],
        whole: false,
        fused: None,
        reads_c: false,
    }
}

/// A kernel of f32 that is the table's own.
fn own_kernel(variant: &str) -> OwnKernel {
    let row = Kernel::find(variant, DType::F32).unwrap();
    let text: &str = String::leak(crate::ptx::of_kernel(row));
    // SAFETY: it is what the row says.
    unsafe { OwnKernel::new(text, row.name, row) }.unwrap()
}

/// A product of bf16.
pub(crate) fn product(a: Layout, b: Layout) -> Product {
    Product {
        dtype: DType::BF16,
        output: DType::BF16,
        precision: Precision::Full,
        a,
        b,
        c: Layout::row_major(Shape::new(a.shape.rows, b.shape.cols)),
        k: a.shape.cols,
        alpha: Factor::F32(1.0),
        beta: None,
        fusion: Fusion::default(),
        batch: Batch::ONE,
        batch_invariant: false,
        reads: Reads::InOrder,
        writes: Writes::Plain,
    }
}

fn choose_kernel(
    choice: &KernelChoice,
    task: Task,
    info: &DeviceInfo,
) -> Result<&'static Kernel, Error> {
    super::choose(choice, &task, info).map(|chosen| chosen.kernel)
}

fn choose(choice: KernelChoice, shape: (usize, usize)) -> Result<&'static str, Error> {
    choose_kernel(&choice, task(DType::F32, shape), &gpu()).map(|kernel| kernel.name)
}

#[test]
fn auto_takes_the_best_that_there_is() {
    assert_eq!(choose(KernelChoice::Auto, (1024, 512)).unwrap(), "k10_grouped_order_f32");
    assert!(choose(KernelChoice::Auto, (0, 0)).is_ok());
    assert_eq!(choose("k01_naive".into(), (1, 1)).unwrap(), "k01_naive_f32");
    // The fastest that the dtype and the GPU have.
    let auto = |dtype, capability| {
        let info = DeviceInfo { compute_capability: Some(capability), ..gpu() };
        choose_kernel(&KernelChoice::Auto, task(dtype, (1000, 1000)), &info).unwrap().name
    };
    assert_eq!(auto(DType::F64, (9, 0)), "k11_tensor_64x128_f64");
    assert_eq!(auto(DType::F64, (8, 0)), "k10_grouped_order_f64");
    assert_eq!(auto(DType::F64, (7, 0)), "k08_double_buffer_f64");
    assert_eq!(auto(DType::I8, (9, 0)), "k11_tensor_deep_i8");
    assert_eq!(auto(DType::BF16, (8, 0)), "k11_tensor_core_bf16");
    assert_eq!(auto(DType::BF16, (7, 5)), "k07_warp_tile_bf16");
    assert_eq!(auto(DType::I8, (7, 0)), "k07_warp_tile_i8");
    assert_eq!(auto(DType::F8E4M3, (8, 9)), "k07_warp_tile_f8e4m3");
    // With the shared memory of a GPU of capability 8.6.
    let limits =
        LaunchLimits { shared_bytes_per_block_optin: 99 << 10, ..gpu().launch_limits.unwrap() };
    let compute_capability = Some((8, 6));
    let small = DeviceInfo { compute_capability, launch_limits: Some(limits), ..gpu() };
    let task = task(DType::F16, (1000, 1000));
    let chosen = choose_kernel(&KernelChoice::Auto, task, &small).unwrap();
    assert_eq!(chosen.name, "k11_tensor_core_f16");
    let error = choose("k99".into(), (1, 1)).unwrap_err();
    assert!(error.is_unsupported() && error.to_string().contains("k01_naive"), "{error}");
}

#[test]
fn impossible_launches_name_limit_and_need() {
    let large =
        Kernel { tiles: Tiles::square(64), ..*Kernel::find("k02_tiled_32", DType::F32).unwrap() };
    let error = choose(KernelChoice::Spec(large), (100, 100)).unwrap_err();
    let text = error.to_string();
    assert!(error.is_unsupported() && text.contains("4096") && text.contains("1024"), "{text}");
    assert!(text.contains("100x100") && text.contains("k02_tiled_32_f32"), "{text}");

    let huge = Kernel { tiles: Tiles::square(usize::MAX), ..large };
    assert!(choose(KernelChoice::Spec(huge), (100, 100)).unwrap_err().is_unsupported());

    // Within every limit, but no kernel has that tile: launching it would run the entry with the
    // wrong block.
    let foreign = Kernel { tiles: Tiles::square(8), ..large };
    let error = choose(KernelChoice::Spec(foreign), (100, 100)).unwrap_err();
    assert!(error.is_unsupported() && error.to_string().contains("not one of"), "{error}");

    // Windows of K as long as can be counted, and warps that have none.
    let skinny = *Kernel::find("skinny_rows", DType::F32).unwrap();
    for (cols, depth, says) in
        [(64, 1 << 9, "shared memory"), (256, 1 << 9, "shared memory"), (512, 64, "not one of")]
    {
        let tiles = Tiles { block: [16, cols, depth], ..skinny.tiles };
        let error = choose(KernelChoice::Spec(Kernel { tiles, ..skinny }), (9, 9)).unwrap_err();
        assert!(error.to_string().contains(says), "{cols}: {error}");
    }

    let wide = choose("k02_tiled_8".into(), (1, usize::MAX)).unwrap_err();
    assert!(wide.is_unsupported() && wide.to_string().contains("blocks along x"), "{wide}");
}

#[test]
fn old_devices_lack_kernels() {
    let old = DeviceInfo { compute_capability: Some((6, 1)), ..gpu() };
    let task = task(DType::F16, (4, 4));
    let error = choose_kernel(&KernelChoice::Auto, task, &old).unwrap_err();
    let text = error.to_string();
    assert!(error.is_unsupported() && text.contains("missing kernel for this GPU"), "{text}");
    assert!(text.contains("7.0") && text.contains("6.1"), "{text}");
}

#[test]
fn every_kernel_of_the_table_can_be_chosen() {
    for kernel in kernels() {
        let Kernel { variant, dtype, precision, .. } = *kernel;
        let found = |a, b| Kernel::find_for(variant, dtype, precision, [a, b]) == Some(kernel);
        let all = [[true, true], [true, false], [false, true], [false, false]];
        let along_k = all.into_iter().find(|&[a, b]| found(a, b)).unwrap();
        let task = Task { along_k, precision, maps: true, ..task(dtype, (1000, 1000)) };
        for choice in [KernelChoice::Spec(*kernel), variant.into()] {
            assert_eq!(choose_kernel(&choice, task, &hopper()).unwrap(), kernel);
        }
    }
}

/// With the shared memory of compute capability 9.0.
pub(crate) fn hopper() -> DeviceInfo {
    let mut info = gpu();
    info.launch_limits.as_mut().unwrap().shared_bytes_per_block_optin = 227 << 10;
    info
}

#[test]
fn warp_groups_take_what_maps_describe() {
    let mapped = Task { maps: true, ..task(DType::BF16, (4096, 4096)) };
    let auto = |task: Task, info: &DeviceInfo| {
        choose_kernel(&KernelChoice::Auto, task, info).unwrap().name
    };
    assert_eq!(auto(mapped, &hopper()), "warp_group_128x256_nn_bf16");
    let transposed = Task { along_k: [false, true], ..mapped };
    assert_eq!(auto(transposed, &hopper()), "warp_group_128x256_tt_bf16");
    let blackwell = DeviceInfo { compute_capability: Some((10, 0)), ..hopper() };
    let unmapped = Task { maps: false, ..mapped };
    assert_eq!(auto(unmapped, &hopper()), "warp_group_direct_128x192_nn_bf16");
    assert_eq!(auto(mapped, &blackwell), "k11_tensor_core_bf16");
    // With little shared memory a smaller tile.
    assert!(auto(mapped, &gpu()).ends_with("_64x64_nn_bf16"));
    let named = "warp_group_128x256".into();
    let unmapped = Task { maps: false, ..mapped };
    let error = choose_kernel(&named, unmapped, &hopper()).unwrap_err();
    assert!(error.is_unsupported() && error.to_string().contains("16 bytes"), "{error}");
    let error = choose_kernel(&named, mapped, &blackwell).unwrap_err();
    assert!(error.is_unsupported() && error.to_string().contains("9.0 and no other"), "{error}");
}

#[test]
fn small_tiles_are_taken_where_large_ones_leave_the_gpu_idle() {
    let auto = |shape| {
        let task = Task { maps: true, ..task(DType::BF16, shape) };
        choose_kernel(&KernelChoice::Auto, task, &h100()).unwrap().variant
    };
    assert_eq!(auto((2048, 2048)), "warp_group_128x256");
    assert_eq!(auto((1, 64)), "warp_group_64x64");
}

#[test]
fn tf32_is_taken_where_it_is_asked_for() {
    let mapped = Task { along_k: [true, true], maps: true, ..task(DType::F32, (4096, 4096)) };
    let tf32 = Task { precision: Precision::Tf32, ..mapped };
    let auto = |task| choose_kernel(&KernelChoice::Auto, task, &hopper()).unwrap().name;
    assert_eq!(auto(tf32), "warp_group_128x256_nt_tf32");
    assert_eq!(auto(mapped), "k10_grouped_order_f32");
    let stored = |along_k| auto(Task { along_k, ..tf32 });
    assert_eq!(stored([false, true]), "warp_group_128x256_tt_tf32");
    assert_eq!(stored([true, false]), "warp_group_swap_ab_128x256_nn_tf32");
    // As they are stored no kernel takes less.
    assert_eq!(stored([false, false]), "k12_warp_specialized_f32");
    let named = |task| choose_kernel(&"warp_group_128x256".into(), task, &hopper());
    assert!(named(mapped).is_err() && named(Task { along_k: [true, false], ..tf32 }).is_err());
    assert_eq!(named(tf32).unwrap().precision, Precision::Tf32);
}

#[test]
fn operands_are_copied_for_kernels_that_read_them_in_no_other_way() {
    let chosen = |task: Task, shape: (usize, usize), unmapped, along_k| {
        let shape = Shape::new(shape.0, shape.1);
        let maps = unmapped == [false; 2];
        let task = Task { shape, unmapped: Some(unmapped), along_k, maps, ..task };
        let chosen = super::choose(&KernelChoice::Auto, &task, &hopper()).unwrap();
        (chosen.kernel.name, chosen.copied)
    };
    let (large, mapped) = ((4095, 4095), [false; 2]);
    let i8 = task(DType::I8, large);
    let kernel = "warp_group_128x256_nt_i8";
    assert_eq!(chosen(i8, large, mapped, [true, true]), (kernel, [false, false]));
    assert_eq!(chosen(i8, large, mapped, [true, false]), (kernel, [false, true]));
    assert_eq!(chosen(i8, large, [false, true], [false, true]), (kernel, [true, true]));
    let small = chosen(i8, (4096, 8), mapped, [false, true]);
    assert_eq!(small.1, [false; 2], "{small:?}");
    let fp8 = task(DType::F8E5M2, large);
    let kernel = "warp_group_128x256_nt_f8e5m2";
    assert_eq!(chosen(fp8, large, mapped, [true, true]), (kernel, [false, false]));
    assert_eq!(chosen(fp8, large, mapped, [false, false]), (kernel, [true, true]));
    let tf32 = Task { precision: Precision::Tf32, ..task(DType::F32, large) };
    let kernel = "warp_group_128x256_nt_tf32";
    assert_eq!(chosen(tf32, large, [true, true], [false, false]), (kernel, [true, true]));
    let of_words = "warp_group_128x256_tt_tf32";
    assert_eq!(chosen(tf32, large, mapped, [false, false]), (of_words, [false, true]));
    let unmapped = Task { unmapped: Some([true; 2]), ..tf32 };
    let in_place = super::choose(&KernelChoice::Auto, &unmapped.in_place(), &hopper()).unwrap();
    assert_eq!(in_place.copied, [false; 2]);
    // What can be read as it lies is.
    let bf16 = task(DType::BF16, large);
    let kernel = "warp_group_128x256_tt_bf16";
    assert_eq!(chosen(bf16, large, [false, true], [false, false]), (kernel, [false, true]));
    // f32 is copied where that is faster: B along K, and rows that no map describes.
    let kernel = "k12_warp_specialized_f32";
    let f32 = |unmapped, along_k| chosen(task(DType::F32, large), large, unmapped, along_k);
    for (along_k, copied) in [
        ([true, false], mapped),
        ([false, false], mapped),
        ([true, true], [false, true]),
        ([false, true], [false, true]),
    ] {
        assert_eq!(f32(mapped, along_k), (kernel, copied));
        assert_eq!(f32([true; 2], along_k), (kernel, [true; 2]));
    }
    let small = chosen(task(DType::F32, large), (256, 256), mapped, [true, true]);
    assert_eq!(small.1, [false; 2], "{small:?}");
}

#[test]
fn maps_describe_rows_and_columns_at_multiples_of_16_bytes() {
    let layout = |rows, cols, offset| Layout {
        shape: Shape::new(5, 40),
        strides: Strides::new(rows, cols),
        offset,
    };
    let bf16 = |layout: &Layout| mappable(layout, DType::BF16, 256);
    for (rows, cols) in [(40, 1), (48, 1), (1, 8), (1, 1 << 38)] {
        assert!(bf16(&layout(rows, cols, 0)), "{rows} {cols}");
    }
    for (rows, cols) in [(41, 1), (44, 1), (80, 2), (-40, 1), (0, 1), (1, 0), (1, 1), (1, 1 << 39)]
    {
        assert!(!bf16(&layout(rows, cols, 0)), "{rows} {cols}");
    }
    assert!(bf16(&layout(40, 1, 8)) && !bf16(&layout(40, 1, 4)));
    assert!(!mappable(&layout(40, 1, 0), DType::BF16, 264));
    let of = |c: Shape, k, cols| {
        let of = |shape| Layout { shape, ..layout(cols, 1, 0) };
        Task::of(&product(of(Shape::new(c.rows, k)), of(Shape::new(k, c.cols))), [0, 0])
    };
    let shape = Shape::new(5, 40);
    assert!(of(shape, 40, 40).maps && !of(shape, 40, 41).maps && !of(shape, 0, 40).maps);
    assert!(of(Shape::new(0, 40), 40, 41).maps, "nothing is refused where nothing is computed");
    assert_eq!(of(shape, 40, 40).along_k, [true, false]);
}

#[test]
fn products_are_turned_to_few_rows_and_contiguous_rows() {
    let product = |shape: (usize, usize), c: Strides| {
        let (shape, k) = (Shape::new(shape.0, shape.1), 5);
        let (a, b) = (Shape::new(shape.rows, k), Shape::new(k, shape.cols));
        let product = self::product(Layout::row_major(a), Layout::row_major(b));
        Product { c: Layout::strided(shape, c), ..product }
    };
    let turned = |product: Product| product.oriented(&KernelChoice::Auto, &hopper());
    let by_columns = product((30, 40), Strides::new(1, 30));
    let (of_columns, was) = turned(by_columns);
    assert!(was && of_columns.c == Layout::row_major(Shape::new(40, 30)));
    assert_eq!((of_columns.a.shape, of_columns.b.shape), (Shape::new(40, 5), Shape::new(5, 30)));
    for (p, j) in (0..5).flat_map(|p| (0..40).map(move |j| (p, j))) {
        assert_eq!(of_columns.a.index(j, p), by_columns.b.index(p, j));
    }
    // Rows are left as they are, and so is a C with neither.
    for strides in [Strides::new(40, 1), Strides::new(99, 2)] {
        let product = product((30, 40), strides);
        assert_eq!((turned(product).0.c, turned(product).1), (product.c, false));
    }
    // Few columns become few rows, and few rows stay what they are.
    assert!(turned(product((30, 4), Strides::new(4, 1))).1);
    assert!(!turned(product((4, 30), Strides::new(1, 4))).1);
    assert!(!turned(product((4, 4), Strides::new(1, 4))).1);
    let gated = Fusion { gated: true, ..Fusion::default() };
    assert!(!turned(Product { fusion: gated, ..by_columns }).1);
    let own = KernelChoice::Own(own_kernel("k10_grouped_order"));
    assert!(!by_columns.oriented(&own, &hopper()).1);
    // One column is a row, whatever its stride was.
    let (row, _) = turned(product((30, 1), Strides::new(1, 1)));
    assert_eq!((row.c.strides, row.a.strides), (Strides::new(32, 1), Strides::new(16, 1)));
}

#[test]
fn few_tiles_of_long_sums_are_split() {
    let h100 = DeviceInfo { multiprocessors: Some(132), ..hopper() };
    let chosen = |dtype, shape, k| {
        let task = Task { maps: true, k, ..task(dtype, shape) };
        super::choose(&KernelChoice::Auto, &task, &h100).unwrap()
    };
    let deep = chosen(DType::BF16, (128, 128), 65536);
    assert!(deep.parts > 8, "{deep:?}");
    assert!(chosen(DType::F64, (256, 256), 65536).parts > 2);
    assert_eq!(chosen(DType::BF16, (4096, 4096), 4096).parts, 1);
    assert_eq!(chosen(DType::BF16, (128, 128), 64).parts, 1);
    // So many as there are steps, and no more.
    let split = |parts| KernelChoice::from(format!("k02_tiled_16/{parts}").as_str());
    let task = Task { k: 100, ..task(DType::F32, (10, 10)) };
    let parts = |n| super::choose(&split(n), &task, &h100).unwrap().parts;
    assert_eq!([0, 1, 2, 3, 7, 1000].map(parts), [1, 1, 2, 3, 7, 7]);
    let long = Task { k: 1 << 30, ..task };
    let most = super::choose(&split(1 << 20), &long, &h100).unwrap().parts;
    assert!(most > 60_000 && most <= gemm_spec::MAX_GRID_Y, "{most}");
    let deep = Task { k: 1 << 16, ..task };
    let parts = |task: Task| super::choose(&KernelChoice::Auto, &task, &h100).unwrap().parts;
    assert!(parts(deep) > 1 && parts(deep.in_place()) == 1);
}

#[test]
fn extents_beyond_any_memory_are_planned_or_refused_without_overflow() {
    let extents = [0, 1, 1 << 20, 1 << 40, usize::MAX - 1, usize::MAX];
    for (rows, cols) in extents.iter().flat_map(|&m| extents.map(|n| (m, n))) {
        for (k, maps) in extents.iter().flat_map(|&k| [(k, false), (k, true)]) {
            let task = Task { k, maps, ..task(DType::BF16, (rows, cols)) };
            for choice in [KernelChoice::Auto, "k02_tiled_16/7".into()] {
                if let Ok(chosen) = super::choose(&choice, &task, &hopper()) {
                    assert!(chosen.parts >= 1 && chosen.prediction.total() > 0.0);
                }
            }
        }
    }
}

/// Whether the choice looks at a way at all.
fn is_looked_at(way: &Chosen, task: &Task, info: &DeviceInfo) -> bool {
    !variant_of(task.dtype, way.kernel.variant).unwrap().is_left_out(task, info)
}

/// What ways to compute a task are not predicted to be below.
fn least_of<'a>(task: &'a Task, info: &DeviceInfo) -> impl Fn(&Chosen) -> f64 + use<'a> {
    let floor = Floor::new(task, info);
    move |way| {
        let least = variant_of(task.dtype, way.kernel.variant).unwrap().least(&floor);
        match way.parts {
            1 => least.whole.max(least.of_one_tile),
            parts => least.of_parts.max(floor.of_parts(way.kernel, parts)),
        }
    }
}

proptest! {
    #[test]
    fn plans_are_valid(
        shape in (0usize..5000, 0usize..5000),
        k in 0usize..100_000,
        dtype in proptest::sample::select(DType::ALL.to_vec()),
        along_k in (any::<bool>(), any::<bool>()),
        (unmapped, by_rows) in ((any::<bool>(), any::<bool>()), any::<bool>()),
        (multiprocessors, memory) in (0u32..200, 0..narrow::MEMORIES.len()),
        batch in proptest::sample::select(vec![1usize, 2, 300]),
        capability in proptest::sample::select(vec![(7, 0), (8, 0), (8, 9), (9, 0), (10, 0)]),
    ) {
        let info = DeviceInfo {
            multiprocessors: Some(multiprocessors),
            compute_capability: Some(capability),
            ..narrow::with_memory(narrow::MEMORIES[memory])
        };
        let unmapped = [unmapped.0, unmapped.1];
        let task = Task {
            k,
            batch,
            splits: batch == 1,
            along_k: [along_k.0, along_k.1],
            maps: k > 0 && unmapped == [false; 2],
            row_maps: k > 0 && by_rows,
            unmapped: Some(unmapped).filter(|_| k > 0 && dtype.size_bytes() < 8),
            ..task(dtype, shape)
        };
        let chosen = super::choose(&KernelChoice::Auto, &task, &info).unwrap();
        let Chosen { kernel, copied, parts, tile_cols, rest, prediction } = chosen;
        let micros = prediction.total();
        // What was not looked at would not have won, in rests neither.
        let least_of = least_of(&task, &info);
        for way in candidates(&task, &info).filter(|way| way.rest.is_none()) {
            let least = least_of(&way);
            prop_assert!(least <= way.prediction.total(), "{least} {way:?}");
        }
        let ways = candidates(&task, &info);
        let (looked_at, others): (Vec<_>, Vec<_>) =
            ways.partition(|way| is_looked_at(way, &task, &info));
        let fastest = looked_at.into_iter().min_by(Chosen::compare);
        prop_assert_eq!(chosen, fastest.unwrap_or(chosen));
        // Of tiles that are larger than C the model knows no more than that they do no less.
        prop_assert!(others.iter().all(|way| micros <= 1.5 * way.prediction.total()));
        prop_assert!(kernel.dtype == dtype && kernel.target.runs_on(capability));
        prop_assert!(micros.is_finite() && micros > 0.0);
        let found = task.after_copies(kernel, copied);
        let has_maps = (0..2).all(|i| copied[i] || !unmapped[i]);
        prop_assert!(!kernel.takes_maps() || has_maps && kernel.stored.takes(found.along_k));
        prop_assert!(!kernel.takes_row_maps() || task.row_maps);
        prop_assert!(kernel.copies_are_along_k().is_some() || copied == [false; 2]);
        prop_assert!(batch == 1 || parts == 1 && kernel.takes_slices());
        prop_assert!(task.splits || !kernel.joins());
        let is_narrow = kernel.narrows() && tile_cols < 64 && tile_cols.is_multiple_of(8);
        prop_assert!(tile_cols == 0 || is_narrow && parts == 1 && batch == 1);
        // Every part has something to sum.
        let len = part_len(kernel, k, parts);
        prop_assert!(parts == 1 || (parts - 1) * len < k && k <= parts * len);
        if let Some(rest) = rest {
            let [own, last] = rest.split(task.shape);
            prop_assert!(!own.is_empty() && !last.is_empty() && batch == 1);
            // One of them may lack memory, and comes first.
            prop_assert!(parts == 1 || rest.parts == 1 && !rest.kernel.joins());
            // Whole tiles, so that all of it starts where maps may.
            let [rows, cols, _] = kernel.tiles.block;
            let [down, across] = kernel.cluster_tiles();
            let tile = if rest.of_rows { rows * down } else { cols * across };
            prop_assert!(rest.from.is_multiple_of(tile));
            prop_assert_eq!(rest.kernel.takes_maps(), kernel.takes_maps());
            prop_assert!(rest.kernel.parts_of_cluster() == 1);
            prop_assert!(rest.kernel.stored.takes(found.along_k));
            let len = part_len(rest.kernel, k, rest.parts);
            prop_assert!(rest.parts == 1 || (rest.parts - 1) * len < k && k <= rest.parts * len);
        }
    }

    #[test]
    fn spans_are_tight(
        shape in (0usize..6, 0usize..6),
        strides in (-9isize..10, -9isize..10),
        offset in 90usize..95,
    ) {
        let shape = Shape::new(shape.0, shape.1);
        let layout = Layout { shape, strides: Strides::new(strides.0, strides.1), offset };
        let indices = (0..shape.rows)
            .flat_map(|i| (0..shape.cols).map(move |j| layout.index(i, j)));
        let expected = (
            indices.clone().min().unwrap_or(0),
            indices.max().map_or(0, |last| last + 1),
        );
        prop_assert_eq!(span(&layout), expected);
        // A transfer copies each element once, nothing else, and finds it again.
        let Transfer { source, dense, len, copy } = transfer(&layout).unwrap();
        let copied: Vec<usize> = if dense {
            let (first, end) = span(&source);
            (first..end).collect()
        } else {
            let indices = (0..source.shape.rows)
                .flat_map(|i| (0..source.shape.cols).map(move |j| source.index(i, j)));
            indices.collect()
        };
        prop_assert_eq!(copied.len(), len);
        let distinct = copied.iter().collect::<HashSet<_>>().len();
        let (first, end) = span(&source);
        prop_assert_eq!(dense, shape.is_empty() || end - first == distinct && distinct == len);
        prop_assert_eq!(copy.shape, shape);
        prop_assert!(copy.check(len).is_ok());
        prop_assert!(!shape.is_empty() || copy.offset == 0);
        for (i, j) in (0..shape.rows).flat_map(|i| (0..shape.cols).map(move |j| (i, j))) {
            prop_assert_eq!(copied[copy.index(i, j)], layout.index(i, j));
        }
    }
}

#[test]
fn lengths_end_where_slices_do() {
    let most = isize::MAX as usize;
    assert_eq!(Shape::new(1, most).checked_len(), Some(most));
    assert_eq!(Shape::new(2, most).checked_len(), None);
}

#[test]
fn a_kernel_with_no_tile_is_refused() {
    let row = *kernels().find(|kernel| kernel.dtype == DType::F32).unwrap();
    let kernel = Kernel { tiles: Tiles::square(0), ..row };
    assert!(kernel.launches(Shape::new(4, 4)).is_none());
    let error = choose(KernelChoice::Spec(kernel), (4, 4)).unwrap_err();
    assert!(error.is_unsupported(), "{error}");
}

/// What a plan launches, so that all of it is compiled before the first product.
#[test]
fn a_plan_lists_its_kernels() {
    let h100 = h100();
    let of = |choice: &str, k: usize| {
        let [a, b] = [Shape::new(300, k), Shape::new(k, 300)].map(Layout::row_major);
        let product = product(a, b);
        let task = Task::of(&product, [0; 2]);
        let chosen = super::choose(&choice.into(), &task, &h100).unwrap();
        let plan = Plan::new(&product, false, chosen, &h100);
        plan.kernels(task.dtype, (task.rows, (9, 0))).map(|of| of.variant).collect::<Vec<_>>()
    };
    assert_eq!(of("k02_tiled_16", 4096), ["k02_tiled_16"]);
    assert_eq!(of("k02_tiled_16/4", 4096), ["k02_tiled_16", "finish_overlapped"]);
}

#[test]
fn empty_sums_and_batches_have_no_kernels_that_cannot_take_them() {
    let a = Layout::row_major(Shape::new(64, 0));
    let empty = product(a, Layout::row_major(Shape::new(0, 64)));
    let of = |product: &Product| Task::of(product, [0; 2]);
    assert_eq!((of(&empty).maps, of(&empty).unmapped), (false, None));
    let a = Layout::row_major(Shape::new(0, 63));
    let nothing = product(a, Layout::row_major(Shape::new(63, 64)));
    assert_eq!((of(&nothing).maps, of(&nothing).unmapped), (true, None));
    let batch = Batch { count: 2, a: 0, b: 4096, c: 4096 };
    let full =
        product(Layout::row_major(Shape::new(64, 64)), Layout::row_major(Shape::new(64, 64)));
    let full = Product { batch, ..full };
    assert_eq!((of(&full).splits, of(&full).shared), (false, [true, false]));
    let batch = Task { batch: 2, ..task(DType::F32, (64, 64)) };
    let split = KernelChoice::Split { variant: "k02_tiled_16".into(), parts: 2 };
    assert!(super::choose(&split, &batch, &gpu()).is_err());
    assert!(super::choose(&split, &Task { batch: 1, ..batch }, &gpu()).is_ok());
    let planned = |variant: &str, parts, task: &Task| {
        let choice = KernelChoice::Planned { variant: variant.into(), copied: [false; 2], parts };
        super::choose(&choice, task, &gpu()).is_ok()
    };
    let one = Task { batch: 1, ..batch };
    assert!(planned("k02_tiled_16", 1, &batch) && !planned("k02_tiled_16", 2, &batch));
    assert!(planned("k02_tiled_16", 2, &one));
    assert!(planned("k09_async_copy", 1, &one) && !planned("k09_async_copy", 2, &one));
    assert!(!planned("k09_async_copy", 1, &batch));
}
