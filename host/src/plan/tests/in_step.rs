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

/// Parts and grids are of as many clusters of eight as the driver says, else as an H100 said.
#[test]
fn clusters_of_eight_are_counted_by_the_driver() {
    let [a, b] = [(256, 131_072), (131_072, 256)].map(|(rows, cols)| Shape::new(rows, cols));
    let product = product(Layout::row_major(a), Layout::row_major(b));
    let task = Task::of(&product, [0, 0]);
    for (said, clusters) in [(None, 15), (Some(14), 14), (Some(16), 16)] {
        let info = DeviceInfo { clusters_of_eight: said, ..h100() };
        let chosen = super::super::choose(&KernelChoice::Auto, &task, &info).unwrap();
        let plan = Plan::new(&product, false, chosen, &info);
        let grid = plan.launches().unwrap().next().unwrap().grid;
        assert_eq!((plan.parts, grid), (clusters, (8 * clusters as u32, 1)), "{plan}");
    }
}

/// Likewise.
#[test]
fn groups_take_turns_where_that_is_faster() {
    assert_eq!(chosen((2048, 22_016, 4096), 1), ("warp_group_ping_pong_128x192", 1));
    assert_eq!(chosen((8192, 8192, 8192), 1), ("warp_group_ping_pong_128x192", 1));
    assert_eq!(chosen((4096, 4096, 4096), 1), ("warp_group_128x256", 1));
    // Where 176 columns fill waves, with an odd last row side by side.
    for shape in [(512, 28_672, 4096), (3840, 3840, 3840), (1920, 6144, 4096)] {
        assert_eq!(chosen(shape, 1), ("warp_group_ping_pong_128x176", 1));
    }
    // Not in batches, nor where half of a tile would be empty.
    assert!(!chosen((2048, 22_016, 4096), 2).0.contains("ping_pong"));
    assert!(!chosen((448, 10_240, 8192), 1).0.contains("ping_pong"));
}

/// An epilogue has a kernel that has it, but where one is named, and rows that are alike one that
/// others are alike with.
#[test]
fn what_comes_behind_the_sums_has_other_kernels() {
    let relu = Fusion { activation: crate::Activation::Relu, ..Fusion::default() };
    let chosen = |product: &Product, choice: &KernelChoice| {
        let (task, info) = (Task::of(product, [0, 0]), hopper());
        let choose = |task: &Task| super::super::choose(choice, task, &info);
        choose_for(product, choice, &task, choose).unwrap().kernel
    };
    let auto = KernelChoice::Auto;
    let shapes =
        [(2048, 22_016, "warp_group_ping_pong_128x192"), (16, 4096, "warp_group_halves_64x64")];
    for (m, n, variant) in shapes {
        let [a, b] = [(m, 4096), (4096, n)].map(|(rows, cols)| Shape::new(rows, cols));
        let plain = product(Layout::row_major(a), Layout::row_major(b));
        let layer = Product { fusion: relu, ..plain };
        assert_eq!(chosen(&plain, &auto).variant, variant);
        assert!(chosen(&layer, &auto).has_epilogues(), "{}", chosen(&layer, &auto).name);
        assert_eq!(chosen(&layer, &variant.into()).variant, variant);
        for product in [plain, layer] {
            let alike = chosen(&Product { batch_invariant: true, ..product }, &auto);
            assert_ne!(alike.variant, variant);
        }
    }
    // Groups in turn finish sums while others are multiplied.
    let gelu = Fusion { activation: crate::Activation::GeluTanh, ..relu };
    let square = Layout::row_major(Shape::new(4096, 4096));
    let layer = Product { fusion: gelu, ..product(square, square) };
    assert_eq!(chosen(&layer, &auto).variant, "warp_group_ping_pong_128x176");
}
