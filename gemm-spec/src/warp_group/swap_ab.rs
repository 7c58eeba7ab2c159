//! Those of `warp_group` of which A and B are swapped.

/// Calls `$with!` once with every `warp_group` kernel that is given B and A, each transposed, for A
/// and B, and computes C transposed: as [`warp_group_kernels!`](crate::warp_group_kernels), whose
/// tiles' rows are columns of C here, and their columns rows.
#[macro_export]
macro_rules! warp_group_swap_ab_kernels {
    ($with:ident) => {
        $with! {
        (
            warp_group_swap_ab_128x256_nn_tf32, "warp_group_swap_ab_128x256",
            tf32, Nn, [128, 256, 32], 2, 4
        ),
        (
            warp_group_swap_ab_128x128_nn_tf32, "warp_group_swap_ab_128x128",
            tf32, Nn, [128, 128, 32], 2, 6
        ),
        (
            warp_group_swap_ab_128x160_nn_f16, "warp_group_swap_ab_128x160",
            f16, Nn, [128, 160, 64], 2, 5
        ),
        (
            warp_group_swap_ab_128x160_nn_bf16, "warp_group_swap_ab_128x160",
            bf16, Nn, [128, 160, 64], 2, 5
        ),
        (
            warp_group_swap_ab_128x160_nt_f16, "warp_group_swap_ab_128x160",
            f16, Nt, [128, 160, 64], 2, 5
        ),
        (
            warp_group_swap_ab_128x160_nt_bf16, "warp_group_swap_ab_128x160",
            bf16, Nt, [128, 160, 64], 2, 5
        ),
        (
            warp_group_swap_ab_128x96_nt_bf16, "warp_group_swap_ab_128x96",
            bf16, Nt, [128, 96, 64], 2, 6
        ),
        (
            warp_group_swap_ab_128x96_nt_f16, "warp_group_swap_ab_128x96",
            f16, Nt, [128, 96, 64], 2, 6
        ),
        (
            warp_group_swap_ab_128x96_nn_bf16, "warp_group_swap_ab_128x96",
            bf16, Nn, [128, 96, 64], 2, 6
        ),
        (
            warp_group_swap_ab_128x96_nn_f16, "warp_group_swap_ab_128x96",
            f16, Nn, [128, 96, 64], 2, 6
        ),
        (
            warp_group_swap_ab_128x80_nn_f16, "warp_group_swap_ab_128x80",
            f16, Nn, [128, 80, 64], 2, 7
        ),
        (
            warp_group_swap_ab_128x80_nn_bf16, "warp_group_swap_ab_128x80",
            bf16, Nn, [128, 80, 64], 2, 7
        ),
        (
            warp_group_swap_ab_128x80_nt_f16, "warp_group_swap_ab_128x80",
            f16, Nt, [128, 80, 64], 2, 7
        ),
        (
            warp_group_swap_ab_128x80_nt_bf16, "warp_group_swap_ab_128x80",
            bf16, Nt, [128, 80, 64], 2, 7
        ),
        (
            warp_group_swap_ab_64x96_nn_f16, "warp_group_swap_ab_64x96",
            f16, Nn, [64, 96, 64], 2, 10
        ),
        (
            warp_group_swap_ab_64x96_nn_bf16, "warp_group_swap_ab_64x96",
            bf16, Nn, [64, 96, 64], 2, 10
        ),
        (
            warp_group_swap_ab_64x96_nt_f16, "warp_group_swap_ab_64x96",
            f16, Nt, [64, 96, 64], 2, 10
        ),
        (
            warp_group_swap_ab_64x96_nt_bf16, "warp_group_swap_ab_64x96",
            bf16, Nt, [64, 96, 64], 2, 10
        ),
        (
            warp_group_swap_ab_64x80_nn_f16, "warp_group_swap_ab_64x80",
            f16, Nn, [64, 80, 64], 2, 11
        ),
        (
            warp_group_swap_ab_64x80_nn_bf16, "warp_group_swap_ab_64x80",
            bf16, Nn, [64, 80, 64], 2, 11
        ),
        (
            warp_group_swap_ab_64x80_nt_f16, "warp_group_swap_ab_64x80",
            f16, Nt, [64, 80, 64], 2, 11
        ),
        (
            warp_group_swap_ab_64x80_nt_bf16, "warp_group_swap_ab_64x80",
            bf16, Nt, [64, 80, 64], 2, 11
        ),
        (
            warp_group_swap_ab_64x48_nn_f16, "warp_group_swap_ab_64x48",
            f16, Nn, [64, 48, 64], 2, 14
        ),
        (
            warp_group_swap_ab_64x48_nn_bf16, "warp_group_swap_ab_64x48",
            bf16, Nn, [64, 48, 64], 2, 14
        ),
        (
            warp_group_swap_ab_64x48_nt_f16, "warp_group_swap_ab_64x48",
            f16, Nt, [64, 48, 64], 2, 14
        ),
        (
            warp_group_swap_ab_64x48_nt_bf16, "warp_group_swap_ab_64x48",
            bf16, Nt, [64, 48, 64], 2, 14
        ),
        }
    };
}
