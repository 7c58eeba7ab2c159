//! Hopper's kernels: their lists, and the boxes of their tensor maps.

/// Boxes of C that each group of a kernel has shared memory of its own for.
pub const C_BOXES: usize = 2;
/// Bytes of a box of C: 64 rows of 128.
pub(crate) const C_BOX_BYTES: usize = 64 * 128;

/// Bytes that a stage of rows that begin anywhere has more than its tiles: a chunk of 16 for each
/// of 64 rows of A and of B.
pub const DIRECT_FURTHER_BYTES: usize = 2 * 64 * 16;
/// Columns of B in a box, for tiles of so many columns of C, where they are rows along K, or where
/// they are not: 32 rows where boxes of 64 do not make a tile. Rows of 64 bytes would take the copy
/// engine as long as those of 128, so that of columns that are no rows whole boxes of 64 are
/// brought, the last half of which is the next tile's.
pub const fn box_cols(cols: usize, along_k: bool) -> usize {
    if cols.is_multiple_of(64) || !along_k { 64 } else { 32 }
}

/// Bytes of a row of C's boxes, for tiles of so many columns of elements of `bytes` bytes: 64 where
/// rows of 128 do not make a tile.
pub const fn c_row_bytes(cols: usize, bytes: usize) -> usize {
    if cols.saturating_mul(bytes).is_multiple_of(128) { 128 } else { 64 }
}

/// Rows of an operand of which each has a map of its own, with every eighth behind it.
pub const DIRECT_ROWS: usize = 8;

/// Rows of the boxes in which tensor maps have an operand of so many rows along K: those it has, in
/// whole swizzled patterns of 8, and 64 at most. Rows past its end would cost the copy engine more
/// than rows that are there.
pub const fn box_rows(extent: u64) -> u32 {
    let rows = if extent < 64 { extent as u32 } else { 64 };
    (rows + 7) & !7
}

/// Calls `$with!` once with every `warp_group` kernel: entry point, variant, element, how A and B
/// are stored, and the numbers of [`Tiles::of_groups`](crate::Tiles::of_groups): block, cluster,
/// stages.
#[macro_export]
macro_rules! warp_group_kernels {
    ($with:ident) => {
        $with! {
        (warp_group_128x256_nn_f16, "warp_group_128x256", f16, Nn, [128, 256, 64], 2, 4),
        (warp_group_128x256_nt_f16, "warp_group_128x256", f16, Nt, [128, 256, 64], 2, 4),
        (warp_group_128x256_tn_f16, "warp_group_128x256", f16, Tn, [128, 256, 64], 2, 4),
        (warp_group_128x256_tt_f16, "warp_group_128x256", f16, Tt, [128, 256, 64], 2, 4),
        (warp_group_128x256_nn_bf16, "warp_group_128x256", bf16, Nn, [128, 256, 64], 2, 4),
        (warp_group_128x256_nt_bf16, "warp_group_128x256", bf16, Nt, [128, 256, 64], 2, 4),
        (warp_group_128x256_tn_bf16, "warp_group_128x256", bf16, Tn, [128, 256, 64], 2, 4),
        (warp_group_128x256_tt_bf16, "warp_group_128x256", bf16, Tt, [128, 256, 64], 2, 4),
        (warp_group_128x256_nt_i8, "warp_group_128x256", i8, Nt, [128, 256, 128], 2, 4),
        (warp_group_128x256_nt_f8e4m3, "warp_group_128x256", F8E4M3, Nt, [128, 256, 128], 2, 4),
        (warp_group_128x256_nt_f8e5m2, "warp_group_128x256", F8E5M2, Nt, [128, 256, 128], 2, 4),
        (warp_group_128x256_nt_tf32, "warp_group_128x256", tf32, Nt, [128, 256, 32], 2, 4),
        (warp_group_128x224_nn_f16, "warp_group_128x224", f16, Nn, [128, 224, 64], 2, 4),
        (warp_group_128x224_nt_f16, "warp_group_128x224", f16, Nt, [128, 224, 64], 2, 4),
        (warp_group_128x224_tn_f16, "warp_group_128x224", f16, Tn, [128, 224, 64], 2, 4),
        (warp_group_128x224_tt_f16, "warp_group_128x224", f16, Tt, [128, 224, 64], 2, 4),
        (warp_group_128x224_nn_bf16, "warp_group_128x224", bf16, Nn, [128, 224, 64], 2, 4),
        (warp_group_128x224_nt_bf16, "warp_group_128x224", bf16, Nt, [128, 224, 64], 2, 4),
        (warp_group_128x224_tn_bf16, "warp_group_128x224", bf16, Tn, [128, 224, 64], 2, 4),
        (warp_group_128x224_tt_bf16, "warp_group_128x224", bf16, Tt, [128, 224, 64], 2, 4),
        (warp_group_128x192_nn_f16, "warp_group_128x192", f16, Nn, [128, 192, 64], 2, 4),
        (warp_group_128x192_nt_f16, "warp_group_128x192", f16, Nt, [128, 192, 64], 2, 4),
        (warp_group_128x192_tn_f16, "warp_group_128x192", f16, Tn, [128, 192, 64], 2, 4),
        (warp_group_128x192_tt_f16, "warp_group_128x192", f16, Tt, [128, 192, 64], 2, 4),
        (warp_group_128x192_nn_bf16, "warp_group_128x192", bf16, Nn, [128, 192, 64], 2, 4),
        (warp_group_128x192_nt_bf16, "warp_group_128x192", bf16, Nt, [128, 192, 64], 2, 4),
        (warp_group_128x192_tn_bf16, "warp_group_128x192", bf16, Tn, [128, 192, 64], 2, 4),
        (warp_group_128x192_tt_bf16, "warp_group_128x192", bf16, Tt, [128, 192, 64], 2, 4),
        (warp_group_128x160_nn_f16, "warp_group_128x160", f16, Nn, [128, 160, 64], 2, 4),
        (warp_group_128x160_nt_f16, "warp_group_128x160", f16, Nt, [128, 160, 64], 2, 5),
        (warp_group_128x160_tn_f16, "warp_group_128x160", f16, Tn, [128, 160, 64], 2, 4),
        (warp_group_128x160_tt_f16, "warp_group_128x160", f16, Tt, [128, 160, 64], 2, 5),
        (warp_group_128x160_nn_bf16, "warp_group_128x160", bf16, Nn, [128, 160, 64], 2, 4),
        (warp_group_128x160_nt_bf16, "warp_group_128x160", bf16, Nt, [128, 160, 64], 2, 5),
        (warp_group_128x160_tn_bf16, "warp_group_128x160", bf16, Tn, [128, 160, 64], 2, 4),
        (warp_group_128x160_tt_bf16, "warp_group_128x160", bf16, Tt, [128, 160, 64], 2, 5),
        (warp_group_128x128_nn_f16, "warp_group_128x128", f16, Nn, [128, 128, 64], 2, 6),
        (warp_group_128x128_nt_f16, "warp_group_128x128", f16, Nt, [128, 128, 64], 2, 6),
        (warp_group_128x128_tn_f16, "warp_group_128x128", f16, Tn, [128, 128, 64], 2, 6),
        (warp_group_128x128_tt_f16, "warp_group_128x128", f16, Tt, [128, 128, 64], 2, 6),
        (warp_group_128x128_nn_bf16, "warp_group_128x128", bf16, Nn, [128, 128, 64], 2, 6),
        (warp_group_128x128_nt_bf16, "warp_group_128x128", bf16, Nt, [128, 128, 64], 2, 6),
        (warp_group_128x128_tn_bf16, "warp_group_128x128", bf16, Tn, [128, 128, 64], 2, 6),
        (warp_group_128x128_tt_bf16, "warp_group_128x128", bf16, Tt, [128, 128, 64], 2, 6),
        (warp_group_128x128_nt_i8, "warp_group_128x128", i8, Nt, [128, 128, 128], 2, 6),
        (warp_group_128x128_nt_f8e4m3, "warp_group_128x128", F8E4M3, Nt, [128, 128, 128], 2, 6),
        (warp_group_128x128_nt_f8e5m2, "warp_group_128x128", F8E5M2, Nt, [128, 128, 128], 2, 6),
        (warp_group_128x128_nt_tf32, "warp_group_128x128", tf32, Nt, [128, 128, 32], 2, 6),
        (warp_group_64x256_nn_f16, "warp_group_64x256", f16, Nn, [64, 256, 64], 2, 5),
        (warp_group_64x256_nt_f16, "warp_group_64x256", f16, Nt, [64, 256, 64], 2, 5),
        (warp_group_64x256_tn_f16, "warp_group_64x256", f16, Tn, [64, 256, 64], 2, 5),
        (warp_group_64x256_tt_f16, "warp_group_64x256", f16, Tt, [64, 256, 64], 2, 5),
        (warp_group_64x256_nn_bf16, "warp_group_64x256", bf16, Nn, [64, 256, 64], 2, 5),
        (warp_group_64x256_nt_bf16, "warp_group_64x256", bf16, Nt, [64, 256, 64], 2, 5),
        (warp_group_64x256_tn_bf16, "warp_group_64x256", bf16, Tn, [64, 256, 64], 2, 5),
        (warp_group_64x256_tt_bf16, "warp_group_64x256", bf16, Tt, [64, 256, 64], 2, 5),
        (warp_group_64x192_nn_f16, "warp_group_64x192", f16, Nn, [64, 192, 64], 2, 6),
        (warp_group_64x192_nt_f16, "warp_group_64x192", f16, Nt, [64, 192, 64], 2, 6),
        (warp_group_64x192_tn_f16, "warp_group_64x192", f16, Tn, [64, 192, 64], 2, 6),
        (warp_group_64x192_tt_f16, "warp_group_64x192", f16, Tt, [64, 192, 64], 2, 6),
        (warp_group_64x192_nn_bf16, "warp_group_64x192", bf16, Nn, [64, 192, 64], 2, 6),
        (warp_group_64x192_nt_bf16, "warp_group_64x192", bf16, Nt, [64, 192, 64], 2, 6),
        (warp_group_64x192_tn_bf16, "warp_group_64x192", bf16, Tn, [64, 192, 64], 2, 6),
        (warp_group_64x192_tt_bf16, "warp_group_64x192", bf16, Tt, [64, 192, 64], 2, 6),
        (warp_group_64x160_nn_f16, "warp_group_64x160", f16, Nn, [64, 160, 64], 2, 6),
        (warp_group_64x160_nt_f16, "warp_group_64x160", f16, Nt, [64, 160, 64], 2, 7),
        (warp_group_64x160_tn_f16, "warp_group_64x160", f16, Tn, [64, 160, 64], 2, 6),
        (warp_group_64x160_tt_f16, "warp_group_64x160", f16, Tt, [64, 160, 64], 2, 7),
        (warp_group_64x160_nn_bf16, "warp_group_64x160", bf16, Nn, [64, 160, 64], 2, 6),
        (warp_group_64x160_nt_bf16, "warp_group_64x160", bf16, Nt, [64, 160, 64], 2, 7),
        (warp_group_64x160_tn_bf16, "warp_group_64x160", bf16, Tn, [64, 160, 64], 2, 6),
        (warp_group_64x160_tt_bf16, "warp_group_64x160", bf16, Tt, [64, 160, 64], 2, 7),
        (warp_group_64x128_nn_f16, "warp_group_64x128", f16, Nn, [64, 128, 64], 2, 8),
        (warp_group_64x128_nt_f16, "warp_group_64x128", f16, Nt, [64, 128, 64], 2, 8),
        (warp_group_64x128_tn_f16, "warp_group_64x128", f16, Tn, [64, 128, 64], 2, 8),
        (warp_group_64x128_tt_f16, "warp_group_64x128", f16, Tt, [64, 128, 64], 2, 8),
        (warp_group_64x128_nn_bf16, "warp_group_64x128", bf16, Nn, [64, 128, 64], 2, 8),
        (warp_group_64x128_nt_bf16, "warp_group_64x128", bf16, Nt, [64, 128, 64], 2, 8),
        (warp_group_64x128_tn_bf16, "warp_group_64x128", bf16, Tn, [64, 128, 64], 2, 8),
        (warp_group_64x128_tt_bf16, "warp_group_64x128", bf16, Tt, [64, 128, 64], 2, 8),
        (warp_group_64x128_nt_i8, "warp_group_64x128", i8, Nt, [64, 128, 128], 2, 8),
        (warp_group_64x128_nt_f8e4m3, "warp_group_64x128", F8E4M3, Nt, [64, 128, 128], 2, 8),
        (warp_group_64x128_nt_f8e5m2, "warp_group_64x128", F8E5M2, Nt, [64, 128, 128], 2, 8),
        (warp_group_64x128_nt_tf32, "warp_group_64x128", tf32, Nt, [64, 128, 32], 2, 8),
        (warp_group_64x96_nn_f16, "warp_group_64x96", f16, Nn, [64, 96, 64], 2, 8),
        (warp_group_64x96_nt_f16, "warp_group_64x96", f16, Nt, [64, 96, 64], 2, 10),
        (warp_group_64x96_tn_f16, "warp_group_64x96", f16, Tn, [64, 96, 64], 2, 8),
        (warp_group_64x96_tt_f16, "warp_group_64x96", f16, Tt, [64, 96, 64], 2, 10),
        (warp_group_64x96_nn_bf16, "warp_group_64x96", bf16, Nn, [64, 96, 64], 2, 8),
        (warp_group_64x96_nt_bf16, "warp_group_64x96", bf16, Nt, [64, 96, 64], 2, 10),
        (warp_group_64x96_tn_bf16, "warp_group_64x96", bf16, Tn, [64, 96, 64], 2, 8),
        (warp_group_64x96_tt_bf16, "warp_group_64x96", bf16, Tt, [64, 96, 64], 2, 10),
        (warp_group_pairs_64x64_nn_f16, "warp_group_pairs_64x64", f16, Nn, [64, 64, 64], 2, 12),
        (warp_group_pairs_64x64_nt_f16, "warp_group_pairs_64x64", f16, Nt, [64, 64, 64], 2, 12),
        (warp_group_pairs_64x64_tn_f16, "warp_group_pairs_64x64", f16, Tn, [64, 64, 64], 2, 12),
        (warp_group_pairs_64x64_tt_f16, "warp_group_pairs_64x64", f16, Tt, [64, 64, 64], 2, 12),
        (warp_group_pairs_64x64_nn_bf16, "warp_group_pairs_64x64", bf16, Nn, [64, 64, 64], 2, 12),
        (warp_group_pairs_64x64_nt_bf16, "warp_group_pairs_64x64", bf16, Nt, [64, 64, 64], 2, 12),
        (warp_group_pairs_64x64_tn_bf16, "warp_group_pairs_64x64", bf16, Tn, [64, 64, 64], 2, 12),
        (warp_group_pairs_64x64_tt_bf16, "warp_group_pairs_64x64", bf16, Tt, [64, 64, 64], 2, 12),
        (warp_group_64x64_nn_f16, "warp_group_64x64", f16, Nn, [64, 64, 64], 1, 8),
        (warp_group_64x64_nt_f16, "warp_group_64x64", f16, Nt, [64, 64, 64], 1, 8),
        (warp_group_64x64_tn_f16, "warp_group_64x64", f16, Tn, [64, 64, 64], 1, 8),
        (warp_group_64x64_tt_f16, "warp_group_64x64", f16, Tt, [64, 64, 64], 1, 8),
        (warp_group_64x64_nn_bf16, "warp_group_64x64", bf16, Nn, [64, 64, 64], 1, 8),
        (warp_group_64x64_nt_bf16, "warp_group_64x64", bf16, Nt, [64, 64, 64], 1, 8),
        (warp_group_64x64_tn_bf16, "warp_group_64x64", bf16, Tn, [64, 64, 64], 1, 8),
        (warp_group_64x64_tt_bf16, "warp_group_64x64", bf16, Tt, [64, 64, 64], 1, 8),
        (warp_group_64x64_nt_i8, "warp_group_64x64", i8, Nt, [64, 64, 128], 1, 8),
        (warp_group_64x64_nt_f8e4m3, "warp_group_64x64", F8E4M3, Nt, [64, 64, 128], 1, 8),
        (warp_group_64x64_nt_f8e5m2, "warp_group_64x64", F8E5M2, Nt, [64, 64, 128], 1, 8),
        (warp_group_64x64_nt_tf32, "warp_group_64x64", tf32, Nt, [64, 64, 32], 1, 8),
        }
    };
}

/// Calls `$with!` once with every `warp_group` kernel for operands whose rows begin anywhere: as
/// [`warp_group_kernels!`](crate::warp_group_kernels), and the blocks that a multiprocessor has at
/// one time.
#[macro_export]
macro_rules! warp_group_direct_kernels {
    ($with:ident) => {
        $with! {
        (
            warp_group_direct_64x64_nn_f16, "warp_group_direct_64x64", f16, Nn,
            [64, 64, 64], 1, 5, 2
        ),
        (
            warp_group_direct_64x64_nt_f16, "warp_group_direct_64x64", f16, Nt,
            [64, 64, 64], 1, 5, 2
        ),
        (
            warp_group_direct_64x64_tn_f16, "warp_group_direct_64x64", f16, Tn,
            [64, 64, 64], 1, 5, 2
        ),
        (
            warp_group_direct_64x64_tt_f16, "warp_group_direct_64x64", f16, Tt,
            [64, 64, 64], 1, 5, 2
        ),
        (
            warp_group_direct_64x64_nn_bf16, "warp_group_direct_64x64", bf16, Nn,
            [64, 64, 64], 1, 5, 2
        ),
        (
            warp_group_direct_64x64_nt_bf16, "warp_group_direct_64x64", bf16, Nt,
            [64, 64, 64], 1, 5, 2
        ),
        (
            warp_group_direct_64x64_tn_bf16, "warp_group_direct_64x64", bf16, Tn,
            [64, 64, 64], 1, 5, 2
        ),
        (
            warp_group_direct_64x64_tt_bf16, "warp_group_direct_64x64", bf16, Tt,
            [64, 64, 64], 1, 5, 2
        ),
        (
            warp_group_direct_128x192_nn_f16, "warp_group_direct_128x192", f16, Nn,
            [128, 192, 64], 1, 4, 1
        ),
        (
            warp_group_direct_128x192_nt_f16, "warp_group_direct_128x192", f16, Nt,
            [128, 192, 64], 1, 4, 1
        ),
        (
            warp_group_direct_128x192_tn_f16, "warp_group_direct_128x192", f16, Tn,
            [128, 192, 64], 1, 4, 1
        ),
        (
            warp_group_direct_128x192_tt_f16, "warp_group_direct_128x192", f16, Tt,
            [128, 192, 64], 1, 4, 1
        ),
        (
            warp_group_direct_128x192_nn_bf16, "warp_group_direct_128x192", bf16, Nn,
            [128, 192, 64], 1, 4, 1
        ),
        (
            warp_group_direct_128x192_nt_bf16, "warp_group_direct_128x192", bf16, Nt,
            [128, 192, 64], 1, 4, 1
        ),
        (
            warp_group_direct_128x192_tn_bf16, "warp_group_direct_128x192", bf16, Tn,
            [128, 192, 64], 1, 4, 1
        ),
        (
            warp_group_direct_128x192_tt_bf16, "warp_group_direct_128x192", bf16, Tt,
            [128, 192, 64], 1, 4, 1
        ),
        }
    };
}

/// Calls `$with!` once with every `warp_group` kernel for operands with scales for blocks along K:
/// as [`warp_group_kernels!`](crate::warp_group_kernels).
#[macro_export]
macro_rules! warp_group_scaled_kernels {
    ($with:ident) => {
        $with! {
        (
            warp_group_scaled_128x128_nt_f8e4m3, "warp_group_scaled_128x128", F8E4M3, Nt,
            [128, 128, 128], 2, 6
        ),
        }
    };
}

/// Calls `$with!` once with every `warp_group` kernel for a list of products: as
/// [`warp_group_kernels!`](crate::warp_group_kernels).
#[macro_export]
macro_rules! warp_group_grouped_kernels {
    ($with:ident) => {
        $with! {
        (
            warp_group_grouped_128x256_nn_f16, "warp_group_grouped_128x256", f16, Nn,
            [128, 256, 64], 2, 4
        ),
        (
            warp_group_grouped_128x256_nt_f16, "warp_group_grouped_128x256", f16, Nt,
            [128, 256, 64], 2, 4
        ),
        (
            warp_group_grouped_128x256_nn_bf16, "warp_group_grouped_128x256", bf16, Nn,
            [128, 256, 64], 2, 4
        ),
        (
            warp_group_grouped_128x256_nt_bf16, "warp_group_grouped_128x256", bf16, Nt,
            [128, 256, 64], 2, 4
        ),
        (
            warp_group_grouped_128x128_nn_f16, "warp_group_grouped_128x128", f16, Nn,
            [128, 128, 64], 2, 6
        ),
        (
            warp_group_grouped_128x128_nt_f16, "warp_group_grouped_128x128", f16, Nt,
            [128, 128, 64], 2, 6
        ),
        (
            warp_group_grouped_128x128_nn_bf16, "warp_group_grouped_128x128", bf16, Nn,
            [128, 128, 64], 2, 6
        ),
        (
            warp_group_grouped_128x128_nt_bf16, "warp_group_grouped_128x128", bf16, Nt,
            [128, 128, 64], 2, 6
        ),
        }
    };
}

/// Calls `$with!` once with every `warp_group` kernel whose clusters have equal shares of the steps
/// of all tiles: as [`warp_group_kernels!`](crate::warp_group_kernels).
#[macro_export]
macro_rules! warp_group_stream_k_kernels {
    ($with:ident) => {
        $with! {
        (
            warp_group_stream_k_128x256_nn_f16, "warp_group_stream_k_128x256", f16, Nn,
            [128, 256, 64], 2, 4
        ),
        (
            warp_group_stream_k_128x256_nt_f16, "warp_group_stream_k_128x256", f16, Nt,
            [128, 256, 64], 2, 4
        ),
        (
            warp_group_stream_k_128x256_tn_f16, "warp_group_stream_k_128x256", f16, Tn,
            [128, 256, 64], 2, 4
        ),
        (
            warp_group_stream_k_128x256_tt_f16, "warp_group_stream_k_128x256", f16, Tt,
            [128, 256, 64], 2, 4
        ),
        (
            warp_group_stream_k_128x256_nn_bf16, "warp_group_stream_k_128x256", bf16, Nn,
            [128, 256, 64], 2, 4
        ),
        (
            warp_group_stream_k_128x256_nt_bf16, "warp_group_stream_k_128x256", bf16, Nt,
            [128, 256, 64], 2, 4
        ),
        (
            warp_group_stream_k_128x256_tn_bf16, "warp_group_stream_k_128x256", bf16, Tn,
            [128, 256, 64], 2, 4
        ),
        (
            warp_group_stream_k_128x256_tt_bf16, "warp_group_stream_k_128x256", bf16, Tt,
            [128, 256, 64], 2, 4
        ),
        (
            warp_group_stream_k_64x64_nn_f16, "warp_group_stream_k_64x64", f16, Nn,
            [64, 64, 64], 1, 8
        ),
        (
            warp_group_stream_k_64x64_nt_f16, "warp_group_stream_k_64x64", f16, Nt,
            [64, 64, 64], 1, 8
        ),
        (
            warp_group_stream_k_64x64_tn_f16, "warp_group_stream_k_64x64", f16, Tn,
            [64, 64, 64], 1, 8
        ),
        (
            warp_group_stream_k_64x64_tt_f16, "warp_group_stream_k_64x64", f16, Tt,
            [64, 64, 64], 1, 8
        ),
        (
            warp_group_stream_k_64x64_nn_bf16, "warp_group_stream_k_64x64", bf16, Nn,
            [64, 64, 64], 1, 8
        ),
        (
            warp_group_stream_k_64x64_nt_bf16, "warp_group_stream_k_64x64", bf16, Nt,
            [64, 64, 64], 1, 8
        ),
        (
            warp_group_stream_k_64x64_tn_bf16, "warp_group_stream_k_64x64", bf16, Tn,
            [64, 64, 64], 1, 8
        ),
        (
            warp_group_stream_k_64x64_tt_bf16, "warp_group_stream_k_64x64", bf16, Tt,
            [64, 64, 64], 1, 8
        ),
        }
    };
}

/// Calls `$with!` once with every `warp_group` kernel for few rows, of which both blocks of a
/// cluster take half of K each, in tiles that may have fewer columns than its own: as
/// [`warp_group_kernels!`](crate::warp_group_kernels).
#[macro_export]
macro_rules! warp_group_halves_kernels {
    ($with:ident) => {
        $with! {
        (
            warp_group_halves_64x64_nn_f16, "warp_group_halves_64x64", f16, Nn,
            [64, 64, 64], 2, 13
        ),
        (
            warp_group_halves_64x64_nt_f16, "warp_group_halves_64x64", f16, Nt,
            [64, 64, 64], 2, 13
        ),
        (
            warp_group_halves_64x64_tn_f16, "warp_group_halves_64x64", f16, Tn,
            [64, 64, 64], 2, 13
        ),
        (
            warp_group_halves_64x64_tt_f16, "warp_group_halves_64x64", f16, Tt,
            [64, 64, 64], 2, 13
        ),
        (
            warp_group_halves_64x64_nn_bf16, "warp_group_halves_64x64", bf16, Nn,
            [64, 64, 64], 2, 13
        ),
        (
            warp_group_halves_64x64_nt_bf16, "warp_group_halves_64x64", bf16, Nt,
            [64, 64, 64], 2, 13
        ),
        (
            warp_group_halves_64x64_tn_bf16, "warp_group_halves_64x64", bf16, Tn,
            [64, 64, 64], 2, 13
        ),
        (
            warp_group_halves_64x64_tt_bf16, "warp_group_halves_64x64", bf16, Tt,
            [64, 64, 64], 2, 13
        ),
        (
            warp_group_halves_64x64_nt_i8, "warp_group_halves_64x64", i8, Nt,
            [64, 64, 128], 2, 13
        ),
        (
            warp_group_halves_64x64_nt_f8e4m3, "warp_group_halves_64x64", F8E4M3, Nt,
            [64, 64, 128], 2, 13
        ),
        (
            warp_group_halves_64x64_nt_f8e5m2, "warp_group_halves_64x64", F8E5M2, Nt,
            [64, 64, 128], 2, 13
        ),
        (
            warp_group_halves_64x64_nt_tf32, "warp_group_halves_64x64", tf32, Nt,
            [64, 64, 32], 2, 13
        ),
        }
    };
}

/// Calls `$with!` once with every `warp_group` kernel whose clusters' eight blocks are in step: as
/// [`warp_group_kernels!`](crate::warp_group_kernels).
#[macro_export]
macro_rules! warp_group_in_step_kernels {
    ($with:ident) => {
        $with! {
        (
            warp_group_in_step_128x128_nn_f16, "warp_group_in_step_128x128", f16, Nn,
            [128, 128, 64], 8, 6
        ),
        (
            warp_group_in_step_128x128_nt_f16, "warp_group_in_step_128x128", f16, Nt,
            [128, 128, 64], 8, 6
        ),
        (
            warp_group_in_step_128x128_tn_f16, "warp_group_in_step_128x128", f16, Tn,
            [128, 128, 64], 8, 6
        ),
        (
            warp_group_in_step_128x128_tt_f16, "warp_group_in_step_128x128", f16, Tt,
            [128, 128, 64], 8, 6
        ),
        (
            warp_group_in_step_128x128_nn_bf16, "warp_group_in_step_128x128", bf16, Nn,
            [128, 128, 64], 8, 6
        ),
        (
            warp_group_in_step_128x128_nt_bf16, "warp_group_in_step_128x128", bf16, Nt,
            [128, 128, 64], 8, 6
        ),
        (
            warp_group_in_step_128x128_tn_bf16, "warp_group_in_step_128x128", bf16, Tn,
            [128, 128, 64], 8, 6
        ),
        (
            warp_group_in_step_128x128_tt_bf16, "warp_group_in_step_128x128", bf16, Tt,
            [128, 128, 64], 8, 6
        ),
        (
            warp_group_in_step_64x128_nn_f16, "warp_group_in_step_64x128", f16, Nn,
            [64, 128, 64], 8, 8
        ),
        (
            warp_group_in_step_64x128_nt_f16, "warp_group_in_step_64x128", f16, Nt,
            [64, 128, 64], 8, 8
        ),
        (
            warp_group_in_step_64x128_tn_f16, "warp_group_in_step_64x128", f16, Tn,
            [64, 128, 64], 8, 8
        ),
        (
            warp_group_in_step_64x128_tt_f16, "warp_group_in_step_64x128", f16, Tt,
            [64, 128, 64], 8, 8
        ),
        (
            warp_group_in_step_64x128_nn_bf16, "warp_group_in_step_64x128", bf16, Nn,
            [64, 128, 64], 8, 8
        ),
        (
            warp_group_in_step_64x128_nt_bf16, "warp_group_in_step_64x128", bf16, Nt,
            [64, 128, 64], 8, 8
        ),
        (
            warp_group_in_step_64x128_tn_bf16, "warp_group_in_step_64x128", bf16, Tn,
            [64, 128, 64], 8, 8
        ),
        (
            warp_group_in_step_64x128_tt_bf16, "warp_group_in_step_64x128", bf16, Tt,
            [64, 128, 64], 8, 8
        ),
        }
    };
}
