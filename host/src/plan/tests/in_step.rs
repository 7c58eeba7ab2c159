//! Clusters of eight blocks that are in step, and groups that take tiles in turn.

use super::*;

/// The variant, and parts of K, for as many products of that shape, nn.
fn chosen((m, n, k): (usize, usize, usize), count: usize) -> (&'static str, usize) {
    let [a, b] = [(m, k), (k, n)].map(|(rows, cols)| Shape::new(rows, cols));
    let mut product = product(Layout::row_major(a), Layout::row_major(b));
    product.batch = Batch { count, a: (m * k) as isize, b: (k * n) as isize, c: (m * n) as isize };
    let task = Task::of(&product, [0, 0]);
    let Chosen { kernel, parts, .. } =
        super::super::choose(&KernelChoice::Auto, &task, &hopper()).unwrap();
    (kernel.variant, parts)
}

/// What was fastest on an H100 (docs/performance.md).
#[test]
fn clusters_are_in_step_where_that_is_faster() {
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

/// Likewise.
#[test]
fn groups_take_turns_where_that_is_faster() {
    assert_eq!(chosen((2048, 22_016, 4096), 1), ("warp_group_ping_pong_128x192", 1));
    assert_eq!(chosen((8192, 8192, 8192), 1), ("warp_group_ping_pong_128x192", 1));
    assert_eq!(chosen((4096, 4096, 4096), 1), ("warp_group_128x256", 1));
    // Not in batches, nor where half of a tile would be empty.
    assert!(!chosen((2048, 22_016, 4096), 2).0.contains("ping_pong"));
    assert!(!chosen((448, 10_240, 8192), 1).0.contains("ping_pong"));
}

/// An epilogue has a kernel that has it, and rows that are alike one that others are alike with.
#[test]
fn what_comes_behind_the_sums_takes_no_turns() {
    let [a, b] = [(2048, 4096), (4096, 22_016)].map(|(rows, cols)| Shape::new(rows, cols));
    let plain = product(Layout::row_major(a), Layout::row_major(b));
    let relu = Fusion { activation: crate::Activation::Relu, ..Fusion::default() };
    let variant = |product: &Product| {
        let (auto, task, info) = (KernelChoice::Auto, Task::of(product, [0, 0]), hopper());
        let chosen = choose_for(product, &auto, &task, |task| {
            super::super::choose(&KernelChoice::Auto, task, &info)
        });
        chosen.unwrap().kernel.variant
    };
    assert_eq!(variant(&plain), "warp_group_ping_pong_128x192");
    let layer = variant(&Product { fusion: relu, ..plain });
    assert!(!layer.contains("ping_pong"), "{layer}");
    for fusion in [Fusion::default(), relu] {
        let alike = variant(&Product { batch_invariant: true, fusion, ..plain });
        assert!(!alike.contains("ping_pong"), "{alike}");
    }
}
