//! Hopper's kernels: their lists.

mod ping_pong;
mod swap_ab;

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
        (warp_group_128x256_tt_tf32, "warp_group_128x256", tf32, Tt, [128, 256, 32], 2, 4),
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
        (warp_group_128x128_tt_tf32, "warp_group_128x128", tf32, Tt, [128, 128, 32], 2, 6),
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
        (warp_group_64x32_nn_f16, "warp_group_64x32", f16, Nn, [64, 32, 64], 2, 16),
        (warp_group_64x32_tn_f16, "warp_group_64x32", f16, Tn, [64, 32, 64], 2, 16),
        (warp_group_64x32_nn_bf16, "warp_group_64x32", bf16, Nn, [64, 32, 64], 2, 16),
        (warp_group_64x32_tn_bf16, "warp_group_64x32", bf16, Tn, [64, 32, 64], 2, 16),
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

/// Calls `$with!` once with every `warp_group` kernel of f32 that is multiplied as sums of three
/// bf16: as [`warp_group_kernels!`](crate::warp_group_kernels); a stage has all three.
#[macro_export]
macro_rules! warp_group_split_kernels {
    ($with:ident) => {
        $with! {
        (
            warp_group_split_128x128_nt_bf16x6, "warp_group_split_128x128", bf16x6, Nt,
            [128, 128, 64], 2, 2
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
        (
            warp_group_halves_64x160_nt_f16, "warp_group_halves_64x160", f16, Nt,
            [64, 160, 64], 2, 6
        ),
        (
            warp_group_halves_64x160_tt_f16, "warp_group_halves_64x160", f16, Tt,
            [64, 160, 64], 2, 6
        ),
        (
            warp_group_halves_64x160_nt_bf16, "warp_group_halves_64x160", bf16, Nt,
            [64, 160, 64], 2, 6
        ),
        (
            warp_group_halves_64x160_tt_bf16, "warp_group_halves_64x160", bf16, Tt,
            [64, 160, 64], 2, 6
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
        (
            warp_group_in_step_128x192_nn_f16, "warp_group_in_step_128x192", f16, Nn,
            [128, 192, 64], 8, 4
        ),
        (
            warp_group_in_step_128x192_nt_f16, "warp_group_in_step_128x192", f16, Nt,
            [128, 192, 64], 8, 4
        ),
        (
            warp_group_in_step_128x192_tn_f16, "warp_group_in_step_128x192", f16, Tn,
            [128, 192, 64], 8, 4
        ),
        (
            warp_group_in_step_128x192_tt_f16, "warp_group_in_step_128x192", f16, Tt,
            [128, 192, 64], 8, 4
        ),
        (
            warp_group_in_step_128x192_nn_bf16, "warp_group_in_step_128x192", bf16, Nn,
            [128, 192, 64], 8, 4
        ),
        (
            warp_group_in_step_128x192_nt_bf16, "warp_group_in_step_128x192", bf16, Nt,
            [128, 192, 64], 8, 4
        ),
        (
            warp_group_in_step_128x192_tn_bf16, "warp_group_in_step_128x192", bf16, Tn,
            [128, 192, 64], 8, 4
        ),
        (
            warp_group_in_step_128x192_tt_bf16, "warp_group_in_step_128x192", bf16, Tt,
            [128, 192, 64], 8, 4
        ),
        (
            warp_group_in_step_64x192_nn_f16, "warp_group_in_step_64x192", f16, Nn,
            [64, 192, 64], 8, 6
        ),
        (
            warp_group_in_step_64x192_nt_f16, "warp_group_in_step_64x192", f16, Nt,
            [64, 192, 64], 8, 6
        ),
        (
            warp_group_in_step_64x192_tn_f16, "warp_group_in_step_64x192", f16, Tn,
            [64, 192, 64], 8, 6
        ),
        (
            warp_group_in_step_64x192_tt_f16, "warp_group_in_step_64x192", f16, Tt,
            [64, 192, 64], 8, 6
        ),
        (
            warp_group_in_step_64x192_nn_bf16, "warp_group_in_step_64x192", bf16, Nn,
            [64, 192, 64], 8, 6
        ),
        (
            warp_group_in_step_64x192_nt_bf16, "warp_group_in_step_64x192", bf16, Nt,
            [64, 192, 64], 8, 6
        ),
        (
            warp_group_in_step_64x192_tn_bf16, "warp_group_in_step_64x192", bf16, Tn,
            [64, 192, 64], 8, 6
        ),
        (
            warp_group_in_step_64x192_tt_bf16, "warp_group_in_step_64x192", bf16, Tt,
            [64, 192, 64], 8, 6
        ),
        }
    };
}
