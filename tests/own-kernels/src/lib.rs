//! A user's kernel crate: bodies of `gpu-kernels` with an epilogue of its own. The package
//! `gemmite-tests` builds it and launches the kernels; docs/guide/own_epilogue.md tells how.
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx, asm_experimental_arch))]

use gpu_kernels::Epilogue;

/// Scores of attention: the sum and a bias of its column, held within a limit; nothing right of
/// the diagonal.
#[derive(Clone, Copy)]
pub struct Causal {
    /// An f32 for each column of C.
    bias: *const f32,
    limit: f32,
}

impl<T: gpu_kernels::Element<Sum = f32>> Epilogue<T> for Causal {
    #[inline(always)]
    unsafe fn apply(self, sum: f32, (row, col): (u64, u64)) -> f32 {
        if col > row {
            return 0.0;
        }
        // SAFETY: the host promises a bias for each column.
        let x = sum + unsafe { self.bias.add(col as usize).read() };
        x.clamp(-self.limit, self.limit)
    }
}

/// For GPUs from compute capability 8.0 on.
#[cfg(feature = "sm_80")]
pub mod ampere {
    use crate::Causal;
    use cuda_std::half::bf16;

    gpu_kernels::k11_tensor_core! {
        (causal_bf16, "k11_tensor_core", bf16, [128, 256, 32], [64, 64], [16, 8], 3, 1)
            with (bias: *const f32, limit: f32,) => Causal { bias, limit },
    }

    gpu_kernels::k10_grouped_order! {
        (causal_f32, "k10_grouped_64x64", f32, [64, 64, 16], [32, 32], [8, 4], 4, 4)
            with (bias: *const f32, limit: f32,) => Causal { bias, limit },
    }
}

/// For Hopper.
#[cfg(feature = "sm_90a")]
pub mod hopper {
    use crate::Causal;
    use cuda_std::half::bf16;

    gpu_kernels::warp_group! {
        (causal_nt_bf16, "warp_group_128x128", bf16, Nt, [128, 128, 64], 2, 6)
            with (bias: *const f32, limit: f32,) => Causal { bias, limit },
    }
}
