//! Clusters of eight blocks that are in step.

use super::*;

/// What was fastest on an H100 (docs/performance.md).
#[test]
fn clusters_are_in_step_where_that_is_faster() {
    let chosen = |(m, n, k), count| {
        let [a, b] = [(m, k), (k, n)].map(|(rows, cols)| Shape::new(rows, cols));
        let mut product = product(Layout::row_major(a), Layout::row_major(b));
        product.batch =
            Batch { count, a: (m * k) as isize, b: (k * n) as isize, c: (m * n) as isize };
        let task = Task::of(&product, [0, 0]);
        let Chosen { kernel, parts, .. } =
            super::super::choose(&KernelChoice::Auto, &task, &hopper()).unwrap();
        (kernel.variant, parts)
    };
    assert_eq!(chosen((512, 512, 65_536), 1), ("warp_group_in_step_128x128", 7));
    assert_eq!(chosen((512, 512, 16_384), 1), ("warp_group_in_step_128x128", 7));
    assert_eq!(chosen((768, 1024, 4096), 1), ("warp_group_in_step_64x128", 1));
    assert_eq!(chosen((512, 1536, 4096), 1), ("warp_group_in_step_64x128", 1));
    assert_eq!(chosen((512, 4096, 4096), 1), ("warp_group_128x128", 1));
    // Rows that lie in two lines of the L2 cache each.
    assert_eq!(chosen((888, 1584, 5968), 1), ("warp_group_in_step_128x128", 1));
    assert_eq!(chosen((136, 4896, 6440), 1), ("warp_group_in_step_64x192", 1));
    assert_eq!(chosen((6336, 360, 2272), 1), ("warp_group_in_step_128x192", 1));
    assert!(!chosen((768, 1024, 4096), 2).0.contains("in_step"));
}
