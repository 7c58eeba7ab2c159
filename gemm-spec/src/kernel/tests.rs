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

/// Boxes are whole patterns of 8 rows, and the blocks that bring them bring all of a tile, equally
/// many each.
#[test]
fn blocks_bring_equal_parts_of_tiles() {
    let shared = |kernel: &Kernel| Some((kernel.shared_box_rows()?, kernel.tiles.block));
    for (boxes, [rows, cols, _]) in kernels().filter_map(shared) {
        for (of_box, (extent, blocks)) in boxes.into_iter().zip([(rows, 2), (cols, 4)]) {
            assert!(of_box <= 64 && of_box % 8 == 0 && extent % (of_box * blocks) == 0);
        }
    }
    let of = |variant| Kernel::find(variant, DType::BF16).unwrap().shared_box_rows();
    assert_eq!(of("warp_group_in_step_64x128"), Some([32, 32]));
    assert_eq!(of("warp_group_in_step_128x192"), Some([64, 16]));
    assert_eq!(of("warp_group_128x192"), None);
}
