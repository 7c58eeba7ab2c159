//! What holds of every kernel of the table.

use super::*;
use crate::kernels;

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
        let boxes = kernel.operand_box_rows([8, 8], [true; 2], 0).map(|rows| rows as usize);
        for (of_box, (extent, blocks)) in boxes.into_iter().zip([(rows, across), (cols, down)]) {
            assert!(of_box <= 64 && of_box % 8 == 0 && extent % (of_box * blocks) == 0);
        }
    }
    let of = |variant, extents, along_k, cols| {
        Kernel::find(variant, DType::BF16).unwrap().operand_box_rows(extents, along_k, cols)
    };
    assert_eq!(of("warp_group_in_step_64x128", [9, 9], [true; 2], 0), [32, 32]);
    assert_eq!(of("warp_group_in_step_128x192", [9, 9], [false; 2], 0), [64, 16]);
    assert_eq!(of("warp_group_128x192", [1000, 1000], [true; 2], 0), [64, 64]);
    // Few rows, a last tile of few, and columns between.
    assert_eq!(of("warp_group_64x64", [20, 50], [true; 2], 0), [24, 56]);
    assert_eq!(of("warp_group_64x64", [96, 96], [true; 2], 0), [32, 64]);
    assert_eq!(of("warp_group_64x64", [97, 96], [false, true], 0), [64, 64]);
    assert_eq!(of("warp_group_64x160", [97, 96], [true; 2], 0), [64, 32]);
    assert_eq!(of("warp_group_halves_64x64", [16, 400], [true; 2], 40), [16, 40]);
}
