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
