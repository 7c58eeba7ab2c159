//! The algorithms of kernels.

use crate::{DType, Target};

/// The algorithm of a kernel: one body in the device crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KernelFamily {
    /// One thread an output element, operands straight from global memory (`k01_naive`).
    Naive,
    /// One thread an output element, operands through square tiles in shared memory (`k02_tiled`).
    Tiled,
    /// A thread computes several rows of one column (`k03_thread_column`).
    ThreadColumn,
    /// A thread computes a small tile in registers (`k04_thread_tile`).
    ThreadTile,
    /// Global and shared memory are read 16 bytes at a time (`k05_vector_loads`).
    VectorLoads,
    /// Shared memory is laid out so that no two lanes meet in a bank (`k06_no_conflicts`).
    NoConflicts,
    /// A warp computes a tile of its own (`k07_warp_tile`).
    WarpTile,
    /// The next tiles are on their way while these are multiplied (`k08_double_buffer`).
    DoubleBuffer,
    /// The next tiles travel past the registers (`k09_async_copy`).
    AsyncCopy,
    /// Blocks that run together share operands in the L2 cache (`k10_grouped_order`).
    GroupedOrder,
    /// Warps multiply small matrices on their tensor cores (`k11_tensor_core`).
    TensorCore,
    /// Some warps bring tiles, and the others multiply them (`k12_warp_specialized`).
    WarpSpecialized,
    /// Groups of four warps multiply tiles that the tensor memory accelerator brings
    /// (`warp_group`).
    WarpGroup,
    /// The same for operands with scales for blocks of 128 along K (`warp_group`).
    WarpGroupScaled,
    /// The same for a list of products of several shapes (`warp_group`).
    WarpGroupGrouped,
    /// The same for operands whose rows begin anywhere, which are cut out of whole chunks
    /// (`warp_group`).
    WarpGroupDirect,
    /// The same with equal shares of all steps of all tiles (`warp_group`): stream-K.
    WarpGroupStreamK,
    /// The same for few rows, of which both blocks of a cluster take half of K of one tile; tiles
    /// may have fewer columns, for as many of them as there are clusters (`warp_group`).
    WarpGroupHalves,
    /// The same with clusters of eight blocks, in step, which bring tiles for each other, so that
    /// the L2 cache is asked once for what several want (`warp_group`).
    WarpGroupInStep,
    /// The same whose two groups take tiles in turn, so that one writes its sums while the other
    /// multiplies (`warp_group`).
    WarpGroupPingPong,
    /// The same for the transposed C, with B for A and A for B, so that tiles have any multiple of
    /// 16 rows of C (`warp_group`).
    WarpGroupSwapAb,
    /// The same of f32 whose elements are sums of three bf16 (`warp_group`).
    WarpGroupSplit,
    /// Few rows of C: B is read once, K is dealt out to warps (`skinny`).
    Skinny,
    /// No product: an operand is copied, to rows along K (`repack`).
    Repack,
    /// No product: sums in memory go through an epilogue to C (`finish`).
    Finish,
    /// The same, of a grid that starts while the kernel before it ends (`finish`).
    FinishOverlapped,
}

/// What the kernels of this name are for, if it is not the product of two operands: the library
/// takes them by itself, and [`variants`](crate::variants) has them not.
pub fn purpose(variant: &str) -> Option<&'static str> {
    let kernel = crate::entries().find(|kernel| kernel.variant == variant)?;
    match kernel.family {
        KernelFamily::WarpGroupScaled => Some("operands with scales"),
        KernelFamily::WarpGroupGrouped => Some("lists of products"),
        KernelFamily::Repack => Some("copies of operands"),
        KernelFamily::Finish | KernelFamily::FinishOverlapped => Some("sums in parts"),
        _ => None,
    }
}

impl KernelFamily {
    /// Whether its body is that of `warp_group`.
    pub const fn is_warp_group(self) -> bool {
        matches!(
            self,
            KernelFamily::WarpGroup
                | KernelFamily::WarpGroupScaled
                | KernelFamily::WarpGroupGrouped
                | KernelFamily::WarpGroupDirect
                | KernelFamily::WarpGroupStreamK
                | KernelFamily::WarpGroupHalves
                | KernelFamily::WarpGroupInStep
                | KernelFamily::WarpGroupPingPong
                | KernelFamily::WarpGroupSwapAb
                | KernelFamily::WarpGroupSplit
        )
    }

    /// The module that holds the family's kernels of `dtype`.
    pub const fn target(self, dtype: DType) -> Target {
        match (self, dtype) {
            (KernelFamily::TensorCore, DType::F64)
            | (KernelFamily::Repack | KernelFamily::FinishOverlapped, _) => Target::Sm90,
            (KernelFamily::WarpSpecialized, _) => Target::Sm90a,
            (family, _) if family.is_warp_group() => Target::Sm90a,
            (
                KernelFamily::AsyncCopy | KernelFamily::GroupedOrder | KernelFamily::TensorCore,
                _,
            ) => Target::Sm80,
            _ => Target::Sm70,
        }
    }

    /// What is new in the family, in a few words, for lists of kernels.
    pub const fn idea(self) -> &'static str {
        match self {
            KernelFamily::Naive => "one thread an element, straight from global memory",
            KernelFamily::Tiled => "the block shares square tiles in shared memory",
            KernelFamily::ThreadColumn => "a thread computes several rows of one column",
            KernelFamily::ThreadTile => "a thread computes a small tile in registers",
            KernelFamily::VectorLoads => "16 bytes at a time from global and shared memory",
            KernelFamily::NoConflicts => "no two lanes meet in a bank of shared memory",
            KernelFamily::WarpTile => "a warp computes a compact tile of its own",
            KernelFamily::DoubleBuffer => "the next tiles are on their way meanwhile",
            KernelFamily::AsyncCopy => "they travel past the registers, some steps ahead",
            KernelFamily::GroupedOrder => "blocks that run together share operands in the L2 cache",
            KernelFamily::TensorCore => "warps multiply small matrices on their tensor cores",
            KernelFamily::WarpSpecialized => "some warps bring the tiles, the others multiply",
            KernelFamily::WarpGroup => "groups of warps multiply tiles, others bring them",
            KernelFamily::WarpGroupScaled => "they multiply each step's sums by scales",
            KernelFamily::WarpGroupGrouped => "they go on from product to product",
            KernelFamily::WarpGroupDirect => "they cut odd operands out of whole chunks",
            KernelFamily::WarpGroupStreamK => "all have equal shares of all steps of all tiles",
            KernelFamily::WarpGroupHalves => "few rows: half of K for each block of a cluster",
            KernelFamily::WarpGroupInStep => "eight blocks of a cluster bring tiles for each other",
            KernelFamily::WarpGroupPingPong => "one group writes sums, the other multiplies",
            KernelFamily::WarpGroupSwapAb => "the transposed C, in tiles of few of its rows",
            KernelFamily::WarpGroupSplit => "f32 as sums of three bf16, by six of nine products",
            KernelFamily::Skinny => "few rows of C: B is read once, K dealt out to warps",
            KernelFamily::Repack => "an operand is copied to rows along K",
            KernelFamily::Finish => "sums go through an epilogue to C",
            KernelFamily::FinishOverlapped => "the same, beside the end of the kernel before it",
        }
    }
}
