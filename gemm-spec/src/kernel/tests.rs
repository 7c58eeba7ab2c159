//! What holds of every kernel of the table.

use super::*;
use crate::{Placing, Shape, kernels};

#[test]
fn blocks_respect_every_gpu_of_their_target() {
    for kernel in kernels() {
        let (x, y) = kernel.block();
        assert!(x * y <= 1024 && (x * y) % 32 == 0, "{}", kernel.name);
        // What a block may have without asking, what every GPU from 8.0 on gives, and 9.0.
        let limit = match (kernel.dynamic_shared_bytes(), kernel.target) {
            (0, _) => 48 << 10,
            (_, Target::Sm90 | Target::Sm90a) => 227 << 10,
            _ => 99 << 10,
        };
        assert!(kernel.shared_bytes() <= limit, "{}", kernel.name);
    }
}

#[test]
fn warps_have_32_lanes() {
    // Groups of warps compute a tile together; warps one behind the other along K the same.
    let is_other = |kernel: &&Kernel| kernel.is_resident() || kernel.family == KernelFamily::Skinny;
    for kernel in kernels().filter(|kernel| !is_other(kernel)) {
        let ([rows, cols], [block_rows, block_cols, _]) =
            (kernel.warp_extent(), kernel.tiles.block);
        let (x, y) = kernel.block();
        let warps = block_rows / rows * (block_cols / cols);
        let bring = kernel.family == KernelFamily::WarpSpecialized;
        let bring = if bring { BRINGERS } else { 0 };
        assert_eq!(warps * 32 + bring, (x * y) as usize, "{}", kernel.name);
        assert!(block_rows % rows == 0 && block_cols % cols == 0, "{}", kernel.name);
    }
    let extent = |variant| Kernel::find(variant, DType::F32).unwrap().warp_extent();
    assert_eq!(extent("k02_tiled_8"), [4, 8]);
    assert_eq!(extent("k02_tiled_16_uncoalesced"), [16, 2]);
    assert_eq!(extent("k03_thread_column"), [8, 32]);
    assert_eq!(extent("k06_no_conflicts"), [16, 128]);
}

/// Boxes are whole patterns of 8 rows, and the blocks that bring them for each other bring all of a
/// tile, equally many each.
#[test]
fn blocks_bring_equal_parts_of_tiles() {
    let in_step = |kernel: &&Kernel| kernel.family == KernelFamily::WarpGroupInStep;
    for kernel in kernels().filter(in_step) {
        let ([rows, cols, _], [down, across]) = (kernel.tiles.block, kernel.cluster_tiles());
        let boxes = kernel.operand_box_rows([8, 8, 64], [true; 2], 0).map(|rows| rows as usize);
        for (of_box, (extent, blocks)) in boxes.into_iter().zip([(rows, across), (cols, down)]) {
            assert!(of_box <= 64 && of_box % 8 == 0 && extent % (of_box * blocks) == 0);
        }
    }
    let of = |variant, [m, n]: [u64; 2], along_k, cols| {
        let kernel = Kernel::find(variant, DType::BF16).unwrap();
        kernel.operand_box_rows([m, n, 4096], along_k, cols)
    };
    assert_eq!(of("warp_group_in_step_64x128", [9, 9], [true; 2], 0), [32, 32]);
    assert_eq!(of("warp_group_in_step_128x192", [9, 9], [false; 2], 0), [64, 16]);
    assert_eq!(of("warp_group_128x192", [1000, 1000], [true; 2], 0), [64, 64]);
    // Few rows, a last tile of few, and columns between.
    assert_eq!(of("warp_group_64x64", [20, 50], [true; 2], 0), [24, 56]);
    assert_eq!(of("warp_group_64x64", [96, 96], [true; 2], 0), [32, 64]);
    assert_eq!(of("warp_group_64x64", [97, 96], [false, true], 0), [64, 64]);
    assert_eq!(of("warp_group_64x96", [97, 96], [true; 2], 0), [64, 48]);
    assert_eq!(of("warp_group_halves_64x64", [16, 400], [true; 2], 40), [16, 40]);
    // Boxes of whole tiles, where blocks take parts of K.
    assert_eq!(of("warp_group_halves_64x160", [16, 400], [true; 2], 0), [16, 160]);
    assert_eq!(of("warp_group_halves_64x160", [16, 400], [true; 2], 136), [16, 136]);
    assert_eq!(of("warp_group_halves_64x160", [64, 100], [true; 2], 0), [64, 104]);
    // A K of less than a step, along the extents that C keeps.
    let of_k = |k, along_k| {
        let kernel = Kernel::find("warp_group_128x192", DType::BF16).unwrap();
        kernel.operand_box_rows([1000, 1000, k], along_k, 0)
    };
    assert_eq!(of_k(20, [true, false]), [64, 24]);
    assert_eq!(of_k(63, [false, false]), [64, 64]);
    assert_eq!(of_k(0, [false, true]), [64, 64]);
}

#[test]
fn one_product_goes_row_after_row_where_b_stays_in_the_cache() {
    // The second tile that is taken: to the right of the first, or below it.
    let second = |variant: &str, shape: Shape, k: usize, slices: u32| {
        let kernel = Kernel::find(variant, DType::BF16).unwrap();
        let launch = kernel.launches(shape).unwrap().next().unwrap();
        let places = Places::of(132);
        let launch = kernel.resident(launch, slices, places);
        let order = kernel.tile_order(&launch, (slices, k), false, places);
        let [height, width, _] = kernel.tiles.block;
        let (_, (row, col, _)) = order.place(1, 2).unwrap();
        let at = (row as usize * height, col as usize * width);
        assert!(at.0 < shape.rows && at.1 < shape.cols, "{at:?} of {shape:?}");
        at
    };
    let is_right =
        |variant, rows, cols, k, slices| match second(variant, Shape::new(rows, cols), k, slices) {
            (0, _) => true,
            (_, 0) => false,
            at => panic!("{at:?} is no neighbour"),
        };
    let of = |rows, cols, k| is_right("warp_group_128x256", rows, cols, k, 1);
    assert!(of(4096, 4096, 4096) && of(8192, 4096, 4096));
    // B is 42 MB, and A 134 MB; a wave has less than two rows; there are few of them; K is short.
    assert!(!of(4096, 5120, 4096) && !of(16384, 4096, 4096));
    assert!(!of(4096, 8704, 2048) && !of(768, 4096, 4096) && !of(4096, 4096, 960));
    assert!(!of(2048, 2048, 4096) && of(4096, 2048, 4096), "eight columns and as many rows");
    assert!(!is_right("warp_group_128x256", 4096, 4096, 4096, 2), "slices were not measured");
    assert!(!is_right("warp_group_halves_64x64", 4096, 1024, 4096, 1), "parts of a cluster");
}

#[test]
fn clusters_have_places_where_the_way_to_the_l2_cache_is_what_they_wait_for() {
    let of = |variant: &str, [rows, cols, k]: [usize; 3]| {
        let kernel = Kernel::find(variant, DType::BF16).unwrap();
        kernel.placing(Shape::new(rows, cols), k, Places::of(132))
    };
    // 48 clusters, 64, and 128.
    assert_eq!(of("warp_group_swap_ab_128x80", [6144, 160, 4096]), Placing::Spread);
    assert_eq!(of("warp_group_swap_ab_128x80", [4096, 320, 4096]), Placing::Near);
    assert_eq!(of("warp_group_swap_ab_128x80", [8192, 320, 4096]), Placing::Any);
    // As much as there is room for, of kernels of which nothing is gained so; few steps.
    assert_eq!(of("warp_group_64x128", [4096, 256, 4096]), Placing::Any);
    assert_eq!(of("warp_group_64x128", [4096, 128, 4096]), Placing::Spread);
    assert_eq!(of("warp_group_64x128", [4096, 128, 23 * 64]), Placing::Any);
    // Tiles that are multiplied for longer, single blocks, groups that take turns, equal shares.
    for variant in ["128x256", "128x128", "64x64", "in_step_64x128", "ping_pong_128x160"] {
        let variant = std::format!("warp_group_{variant}");
        assert_eq!(of(&variant, [2048, 128, 4096]), Placing::Any, "{variant}");
    }
    assert_eq!(of("warp_group_stream_k_64x64", [2048, 128, 4096]), Placing::Any);
}
