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
    assert_eq!(chosen((512, 3584, 4096), 1), ("warp_group_128x128", 1));
    assert!(!chosen((768, 1024, 4096), 2).0.contains("in_step"));
}
