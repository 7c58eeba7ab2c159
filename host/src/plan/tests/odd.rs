//! Operands whose rows begin anywhere.

use super::*;
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
