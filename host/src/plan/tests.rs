//! Choices and checks for made-up devices.

use super::*;
use crate::device::DeviceKind;
use gemm_spec::{Strides, Tiles, kernels};
use proptest::prelude::*;

fn gpu() -> DeviceInfo {
    DeviceInfo {
        name: "a GPU".into(),
        kind: DeviceKind::Cuda { ordinal: 0 },
        compute_capability: Some((9, 0)),
        total_memory: None,
        shared_memory_per_block: Some(48 << 10),
        shared_memory_per_block_optin: None,
        multiprocessors: None,
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

fn choose(choice: KernelChoice, shape: (usize, usize)) -> Result<&'static str, Error> {
    let shape = Shape::new(shape.0, shape.1);
    choose_kernel(&choice, DType::F32, shape, &gpu()).map(|kernel| kernel.name)
}

#[test]
fn auto_follows_its_rule() {
    assert_eq!(choose(KernelChoice::Auto, (32, 512)).unwrap(), "k10_grouped_order_f32");
    assert_eq!(choose(KernelChoice::Auto, (512, 31)).unwrap(), "k02_tiled_16_f32");
    assert_eq!(choose(KernelChoice::Auto, (0, 0)).unwrap(), "k02_tiled_16_f32");
    assert_eq!(choose("k01_naive".into(), (1, 1)).unwrap(), "k01_naive_f32");
    // The first of the list that the dtype and the GPU have.
    let auto = |dtype, capability| {
        let info = DeviceInfo { compute_capability: Some(capability), ..gpu() };
        let shape = Shape::new(100, 100);
        choose_kernel(&KernelChoice::Auto, dtype, shape, &info).unwrap().name
    };
    assert_eq!(auto(DType::F64, (9, 0)), "k11_tensor_core_f64");
    assert_eq!(auto(DType::F64, (8, 0)), "k10_grouped_order_f64");
    assert_eq!(auto(DType::F64, (7, 0)), "k08_double_buffer_f64");
    assert_eq!(auto(DType::I8, (9, 0)), "k11_tensor_deep_i8");
    assert_eq!(auto(DType::BF16, (8, 0)), "k11_tensor_core_bf16");
    assert_eq!(auto(DType::BF16, (7, 5)), "k08_double_buffer_bf16");
    assert_eq!(auto(DType::I8, (7, 0)), "k07_warp_tile_i8");
    // With the shared memory of a GPU of capability 8.6.
    let limits =
        LaunchLimits { shared_bytes_per_block_optin: 99 << 10, ..gpu().launch_limits.unwrap() };
    let small = DeviceInfo { launch_limits: Some(limits), ..gpu() };
    let shape = Shape::new(100, 100);
    let chosen = choose_kernel(&KernelChoice::Auto, DType::F16, shape, &small).unwrap();
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

    let wide = choose("k02_tiled_8".into(), (1, usize::MAX)).unwrap_err();
    assert!(wide.is_unsupported() && wide.to_string().contains("blocks along x"), "{wide}");
}

#[test]
fn old_devices_lack_kernels() {
    let old = DeviceInfo { compute_capability: Some((6, 1)), ..gpu() };
    let shape = Shape::new(4, 4);
    let error = choose_kernel(&KernelChoice::Auto, DType::F16, shape, &old).unwrap_err();
    let text = error.to_string();
    assert!(error.is_unsupported() && text.contains("missing kernel for this GPU"), "{text}");
    assert!(text.contains("7.0") && text.contains("6.1"), "{text}");
}

#[test]
fn every_kernel_of_the_table_can_be_chosen() {
    for kernel in kernels() {
        let shape = Shape::new(1000, 1000);
        for choice in [KernelChoice::Spec(*kernel), kernel.variant.into()] {
            assert_eq!(choose_kernel(&choice, kernel.dtype, shape, &gpu()).unwrap(), kernel);
        }
    }
}

#[test]
fn plans_say_what_they_launch() {
    let kernel = Kernel::find("k02_tiled_8", DType::F32);
    let plan = |rows, cols| Plan { shape: Shape::new(rows, cols), k: 3, kernel }.to_string();
    assert_eq!(plan(20, 9), "k02_tiled_8_f32, grid 2x3 of 8x8 threads");
    assert_eq!(
        plan(65_536 * 8, 1),
        "k02_tiled_8_f32, grid 1x65535 of 8x8 threads and 1 more panels"
    );
    assert_eq!(plan(0, 9), "k02_tiled_8_f32");
}

proptest! {
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
        prop_assert!(copy.check(len).is_ok());
        for (i, j) in (0..shape.rows).flat_map(|i| (0..shape.cols).map(move |j| (i, j))) {
            prop_assert_eq!(copied[copy.index(i, j)], layout.index(i, j));
        }
    }
}

#[test]
fn a_kernel_with_no_tile_is_refused() {
    let row = *kernels().find(|kernel| kernel.dtype == DType::F32).unwrap();
    let kernel = Kernel { tiles: Tiles::square(0), ..row };
    assert!(kernel.launches(Shape::new(4, 4)).is_none());
    let error = choose(KernelChoice::Spec(kernel), (4, 4)).unwrap_err();
    assert!(error.is_unsupported(), "{error}");
}
