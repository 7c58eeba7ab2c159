//! Those of `warp_group` whose groups take tiles in turn.

/// Calls `$with!` once with every `warp_group` kernel whose two groups take tiles in turn: as
/// [`warp_group_kernels!`](crate::warp_group_kernels).
#[macro_export]
macro_rules! warp_group_ping_pong_kernels {
    ($with:ident) => {
        $with! {
        (
            warp_group_ping_pong_128x192_nn_f16, "warp_group_ping_pong_128x192", f16, Nn,
            [128, 192, 64], 2, 4
        ),
        (
            warp_group_ping_pong_128x192_nt_f16, "warp_group_ping_pong_128x192", f16, Nt,
            [128, 192, 64], 2, 4
        ),
        (
            warp_group_ping_pong_128x192_tn_f16, "warp_group_ping_pong_128x192", f16, Tn,
            [128, 192, 64], 2, 4
        ),
        (
            warp_group_ping_pong_128x192_tt_f16, "warp_group_ping_pong_128x192", f16, Tt,
            [128, 192, 64], 2, 4
        ),
        (
            warp_group_ping_pong_128x192_nn_bf16, "warp_group_ping_pong_128x192", bf16, Nn,
            [128, 192, 64], 2, 4
        ),
        (
            warp_group_ping_pong_128x192_nt_bf16, "warp_group_ping_pong_128x192", bf16, Nt,
            [128, 192, 64], 2, 4
        ),
        (
            warp_group_ping_pong_128x192_tn_bf16, "warp_group_ping_pong_128x192", bf16, Tn,
            [128, 192, 64], 2, 4
        ),
        (
            warp_group_ping_pong_128x192_tt_bf16, "warp_group_ping_pong_128x192", bf16, Tt,
            [128, 192, 64], 2, 4
        ),
        (
            warp_group_ping_pong_128x176_nn_f16, "warp_group_ping_pong_128x176", f16, Nn,
            [128, 176, 64], 2, 4
        ),
        (
            warp_group_ping_pong_128x176_nt_f16, "warp_group_ping_pong_128x176", f16, Nt,
            [128, 176, 64], 2, 5
        ),
        (
            warp_group_ping_pong_128x176_tn_f16, "warp_group_ping_pong_128x176", f16, Tn,
            [128, 176, 64], 2, 4
        ),
        (
            warp_group_ping_pong_128x176_tt_f16, "warp_group_ping_pong_128x176", f16, Tt,
            [128, 176, 64], 2, 5
        ),
        (
            warp_group_ping_pong_128x176_nn_bf16, "warp_group_ping_pong_128x176", bf16, Nn,
            [128, 176, 64], 2, 4
        ),
        (
            warp_group_ping_pong_128x176_nt_bf16, "warp_group_ping_pong_128x176", bf16, Nt,
            [128, 176, 64], 2, 5
        ),
        (
            warp_group_ping_pong_128x176_tn_bf16, "warp_group_ping_pong_128x176", bf16, Tn,
            [128, 176, 64], 2, 4
        ),
        (
            warp_group_ping_pong_128x176_tt_bf16, "warp_group_ping_pong_128x176", bf16, Tt,
            [128, 176, 64], 2, 5
        ),
        (
            warp_group_ping_pong_128x176_nt_f8e4m3, "warp_group_ping_pong_128x176", F8E4M3, Nt,
            [128, 176, 128], 2, 5
        ),
        (
            warp_group_ping_pong_128x176_nt_tf32, "warp_group_ping_pong_128x176", tf32, Nt,
            [128, 176, 32], 2, 5
        ),
        (
            warp_group_ping_pong_128x160_nt_f16, "warp_group_ping_pong_128x160", f16, Nt,
            [128, 160, 64], 2, 5
        ),
        (
            warp_group_ping_pong_128x160_tt_f16, "warp_group_ping_pong_128x160", f16, Tt,
            [128, 160, 64], 2, 5
        ),
        (
            warp_group_ping_pong_128x160_nt_bf16, "warp_group_ping_pong_128x160", bf16, Nt,
            [128, 160, 64], 2, 5
        ),
        (
            warp_group_ping_pong_128x160_tt_bf16, "warp_group_ping_pong_128x160", bf16, Tt,
            [128, 160, 64], 2, 5
        ),
        (
            warp_group_ping_pong_128x192_nt_i8, "warp_group_ping_pong_128x192", i8, Nt,
            [128, 192, 128], 2, 4
        ),
        (
            warp_group_ping_pong_128x192_nt_f8e4m3, "warp_group_ping_pong_128x192", F8E4M3, Nt,
            [128, 192, 128], 2, 4
        ),
        (
            warp_group_ping_pong_128x192_nt_f8e5m2, "warp_group_ping_pong_128x192", F8E5M2, Nt,
            [128, 192, 128], 2, 4
        ),
        (
            warp_group_ping_pong_128x192_nt_tf32, "warp_group_ping_pong_128x192", tf32, Nt,
            [128, 192, 32], 2, 4
        ),
        (
            warp_group_ping_pong_128x160_nt_f8e4m3, "warp_group_ping_pong_128x160", F8E4M3, Nt,
            [128, 160, 128], 2, 5
        ),
        (
            warp_group_ping_pong_128x160_nt_f8e5m2, "warp_group_ping_pong_128x160", F8E5M2, Nt,
            [128, 160, 128], 2, 5
        ),
        }
    };
}
