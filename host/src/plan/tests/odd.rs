//! Operands whose rows begin anywhere.

use super::*;
use crate::plan::choose::check_launch;
use crate::plan::maps::mappable_by_rows;

#[test]
fn maps_of_every_eighth_row_describe_rows_that_go_forward() {
    let by_rows = |(rows, cols), batch| {
        let layout =
            Layout { shape: Shape::new(5, 40), strides: Strides::new(rows, cols), offset: 1 };
        mappable_by_rows(&layout, DType::BF16, batch)
    };
    for strides in [(41, 1), (40, 1), (1, 5), (1, 7), (1, 1)] {
        assert!(by_rows(strides, (1, 0)) && by_rows(strides, (3, 0)), "{strides:?}");
    }
    for strides in [(80, 2), (-41, 1), (1, -5), (0, 1), (1, 0)] {
        assert!(!by_rows(strides, (1, 0)), "{strides:?}");
    }
    // One matrix behind the other, as rows are.
    assert!(by_rows((41, 1), (3, 205)) && by_rows((1, 7), (3, 280)));
    assert!(!by_rows((41, 1), (3, 206)) && !by_rows((41, 1), (3, -205)));
    assert!(!by_rows((1, 1), (3, 5)) && !by_rows((1, 1), (3, 40)));
}

/// What was fastest on an H100 (docs/performance.md): few steps without copies, more with them.
#[test]
fn small_odd_products_are_copied_where_that_is_faster() {
    let chosen = |(m, k, n)| {
        let [a, b] = [(m, k), (k, n)].map(|(rows, cols)| Shape::new(rows, cols));
        let product = product(Layout::row_major(a), Layout::row_major(b));
        let task = Task::of(&product, [0, 0]);
        let Chosen { kernel, parts, .. } =
            super::super::choose(&KernelChoice::Auto, &task, &hopper()).unwrap();
        (kernel.variant, parts)
    };
    assert_eq!(chosen((33, 129, 65)), ("warp_group_direct_64x64", 1));
    assert_eq!(chosen((511, 515, 513)), ("warp_group_64x64", 1));
    assert_eq!(chosen((64, 4097, 4095)), ("warp_group_direct_64x64", 4));
    assert_eq!(chosen((129, 4097, 4095)), ("warp_group_direct_128x192", 3));
}

/// Their coordinates are signed, whatever of them is copied first.
#[test]
fn maps_end_where_coordinates_do() {
    const MOST: usize = i32::MAX as usize;
    let takes = |kernel: &Kernel, (m, n, k): (usize, usize, usize)| {
        let along_k = [true; 2];
        let task = Task { k, along_k, maps: true, ..task(DType::BF16, (m, n)) };
        check_launch(kernel, &task, &hopper()).is_ok()
    };
    let by_maps = |variant| Kernel::find_for(variant, DType::BF16, Precision::Full, [true; 2]);
    for variant in ["warp_group_64x64", "warp_group_direct_64x64", "warp_group_swap_ab_64x48"] {
        let kernel = by_maps(variant).unwrap();
        for shape in [(MOST, 8, 64), (8, MOST, 64), (8, 8, MOST), (MOST + 1, 0, 64)] {
            assert!(takes(kernel, shape), "{variant} {shape:?}");
        }
        for shape in [(MOST + 1, 8, 64), (8, MOST + 1, 64), (8, 8, MOST + 1), (MOST + 1, 8, 0)] {
            assert!(!takes(kernel, shape), "{variant} {shape:?}");
        }
    }
}

/// C's of a batch that no map reaches: neither these kernels, nor copies for them.
#[test]
fn batches_far_apart_have_kernels_without_maps() {
    let layout = Layout::row_major(Shape::new(256, 256));
    let of_step = |c| {
        let batch = crate::plan::Batch { count: 3, a: 1 << 16, b: 1 << 16, c };
        Task::of(&Product { batch, ..product(layout, layout) }, [0, 0])
    };
    let (near, far) = (of_step(1 << 38), of_step(1 << 39));
    assert!(near.maps && near.unmapped.is_some());
    assert!(!far.maps && far.unmapped.is_none());
    let kernel = super::super::choose(&KernelChoice::Auto, &far, &hopper()).unwrap().kernel;
    assert!(!kernel.takes_maps(), "{}", kernel.name);
}

/// Rows of the table that somebody made by hand have any number of columns.
#[test]
fn shared_memory_is_counted_for_tiles_of_any_columns() {
    for kernel in gemm_spec::kernels().filter(|kernel| kernel.takes_maps()) {
        for cols in 1..=80 {
            let [rows, _, depth] = kernel.tiles.block;
            let tiles = gemm_spec::Tiles { block: [rows, cols, depth], ..kernel.tiles };
            assert!(Kernel { tiles, ..*kernel }.shared_bytes() < usize::MAX, "{}", kernel.name);
        }
    }
}
