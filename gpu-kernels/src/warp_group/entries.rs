//! The entry points of the table.

use super::{
    BlockScaled, Element, GROUP_ROWS, InPlace, List, Maps, OneProduct, Operands, Plain, Shared,
    StreamK, Summands, Table, WarpGroup,
};
use crate::{Lean, warp_group};
use core::ptr;
use cuda_std::half::{bf16, f16};
use cuda_std::tma::TensorMap;
use cuda_std::{F8E4M3, F8E5M2};
use gemm_spec::{GemmParams, SPLIT_DEPTH, ScaleParams};

#[allow(non_camel_case_types)] // As it stands in the table.
type tf32 = cuda_std::wgmma::Tf32;

/// Makes entry points from rows of a list, and their lean ones.
macro_rules! both {
    ($product:ident, $geometry:ident; $($row:tt,)*) => {
        warp_group! { @entries $product, $geometry, ""; $($row,)* }
        warp_group! { @entries $product, $geometry, "_lean"; $($row with () => Lean,)* }
    };
    ($($row:tt,)*) => { both! { new, Blocks; $($row,)* } };
}
#[cfg(feature = "sm_90a_second")]
gemm_spec::warp_group_kernels!(both);
#[cfg(feature = "sm_90a_first")]
gemm_spec::warp_group_in_step_kernels!(both);

/// The same of which groups take tiles in turn.
macro_rules! ping_pong {
    ($($rows:tt)*) => { both! { new, PingPong; $($rows)* } };
}
#[cfg(feature = "sm_90a_second")]
gemm_spec::warp_group_ping_pong_kernels!(ping_pong);

/// The same of which A and B are swapped, and lie otherwise then.
macro_rules! swap_ab {
    ($((
        $name:ident, $variant:literal, $element:ident, $stored:ident, $($numbers:tt)*
    ),)*) => {$(
        swap_ab! { @$stored $name, $variant, $element, $($numbers)* }
    )*};
    (@Nn $name:ident, $variant:literal, $element:ident, $($numbers:tt)*) => {
        both! { new, SwapAb; ($name, $variant, $element, Tt, $($numbers)*), }
    };
    (@Nt $name:ident, $variant:literal, $element:ident, $($numbers:tt)*) => {
        both! { new, SwapAb; ($name, $variant, $element, Nt, $($numbers)*), }
    };
}
#[cfg(feature = "sm_90a_second")]
gemm_spec::warp_group_swap_ab_kernels!(swap_ab);

/// The same of which blocks take halves of K, in tiles that may have fewer columns.
macro_rules! halves {
    ($($rows:tt)*) => { both! { narrow, Parts; $($rows)* } };
}
#[cfg(feature = "sm_90a_second")]
gemm_spec::warp_group_halves_kernels!(halves);

/// Makes entry points from rows of a list of kernels that take scales.
macro_rules! scaled {
    ($((
        $name:ident, $variant:literal, $element:ident, $stored:ident,
        [$bm:literal, $bn:literal, $bk:literal], $cluster:literal, $stages:literal
    ),)*) => {$(
        #[doc = concat!("`", $variant, "` for `", stringify!($element), "`; see the body.")]
        ///
        /// # Safety
        ///
        /// As the kernels without scales; the grid may read the scales.
        // Pointers in a block would be generic ones, and slower.
        #[allow(clippy::too_many_arguments)]
        #[cuda_std::kernel(max_threads = 128 + 2 * $bm, min_blocks = 1, cluster = ($cluster, 1, 1))]
        pub unsafe fn $name(
            #[grid_constant] a: &TensorMap<3>,
            #[grid_constant] b: &TensorMap<3>,
            #[grid_constant] c: &TensorMap<3>,
            start: *mut <$element as Element>::Output,
            p: GemmParams<<$element as Element>::Sum>,
            a_scales: *const f32,
            b_scales: *const f32,
            places: ScaleParams,
        ) {
            const { assert!($bm % GROUP_ROWS == 0 && $bk == <$element as WarpGroup>::DEPTH) };
            let scales = BlockScaled { a: a_scales, b: b_scales, places };
            // SAFETY: the host's promise, passed on.
            unsafe {
                let operands = Operands { maps: [a, b, c], start };
                $crate::warp_group!(
                    @multiply $stored, $element, Blocks[$bm / 64, $cluster, $stages], $bn,
                    (OneProduct::new(&operands, &p), scales, Plain)
                )
            }
        }
    )*};
}

/// The same for elements that are sums of three bf16.
macro_rules! split {
    ($((
        $name:ident, $variant:literal, bf16x6, $stored:ident,
        [$bm:literal, $bn:literal, $bk:literal], $cluster:literal, $stages:literal
    ),)*) => {$(
        #[doc = concat!("`", $variant, "`; see the body.")]
        ///
        /// # Safety
        ///
        /// As the kernels of bf16, of matrices that are split as `Kernel::splits_elements` says.
        #[cuda_std::kernel(max_threads = 128 + 2 * $bm, min_blocks = 1, cluster = ($cluster, 1, 1))]
        pub unsafe fn $name(
            #[grid_constant] a: &TensorMap<3>,
            #[grid_constant] b: &TensorMap<3>,
            #[grid_constant] c: &TensorMap<3>,
            start: *mut <bf16 as Element>::Output,
            p: GemmParams<<bf16 as Element>::Sum>,
        ) {
            const { assert!($bm % GROUP_ROWS == 0 && $bk == SPLIT_DEPTH) };
            const { assert!(SPLIT_DEPTH == <bf16 as WarpGroup>::DEPTH as usize) };
            // SAFETY: the host's promise, passed on.
            unsafe {
                let operands = Operands { maps: [a, b, c], start };
                $crate::warp_group!(
                    @multiply $stored, bf16, Split[$bm / 64, $cluster, $stages], $bn,
                    (OneProduct::new(&operands, &p), Summands::<{ $bm + $bn }>, Plain)
                )
            }
        }
    )*};
}

/// The same for kernels that take a list of products.
macro_rules! grouped {
    ($((
        $name:ident, $variant:literal, $element:ident, $stored:ident,
        [$bm:literal, $bn:literal, $bk:literal], $cluster:literal, $stages:literal
    ),)*) => {$(
        #[doc = concat!("`", $variant, "` for `", stringify!($element), "`; see the body.")]
        ///
        /// # Safety
        ///
        /// As the kernels for one product, for as many as the block has slices: each has its maps
        /// and its numbers; or, where `offsets` is no null pointer, all have the first's, B's map
        /// has a matrix for each, and there are one offset more than products.
        #[cuda_std::kernel(max_threads = 128 + 2 * $bm, min_blocks = 1, cluster = ($cluster, 1, 1))]
        pub unsafe fn $name(
            #[grid_constant] table: &Table,
            start: *mut <$element as Element>::Output,
            offsets: *const i32,
            p: GemmParams<<$element as Element>::Sum>,
        ) {
            const { assert!($bm % GROUP_ROWS == 0 && $bk == <$element as WarpGroup>::DEPTH) };
            // SAFETY: the host's promise, passed on.
            unsafe {
                $crate::warp_group!(
                    @multiply $stored, $element, Blocks[$bm / 64, $cluster, $stages], $bn,
                    (List::new(table, start, offsets, &p), InPlace, Plain)
                )
            }
        }
    )*};
}

/// The same for kernels of operands that have no maps.
macro_rules! direct {
    ($((
        $name:ident, $variant:literal, $element:ident, $stored:ident,
        [$bm:literal, $bn:literal, $bk:literal], 1, $stages:literal, $min_blocks:literal
    ),)*) => {$(
        #[doc = concat!("`", $variant, "` for `", stringify!($element), "`; see the body.")]
        ///
        /// # Safety
        ///
        /// The pointers and the block describe matrices that the grid may read (A, B) and write
        /// (C); the rest as the kernels that take maps.
        #[cuda_std::kernel(max_threads = 128 + 2 * $bm, min_blocks = $min_blocks)]
        pub unsafe fn $name(
            a: *const $element,
            b: *const $element,
            start: *mut <$element as Element>::Output,
            p: GemmParams<<$element as Element>::Sum>,
            #[grid_constant] maps: &Maps,
        ) {
            const { assert!($bm % GROUP_ROWS == 0 && $bk == <$element as WarpGroup>::DEPTH) };
            // SAFETY: the host's promise, passed on.
            unsafe {
                let operands = Operands { maps: [ptr::null(); 3], start };
                $crate::warp_group!(
                    @multiply $stored, $element, Blocks[$bm / 64, 1, $stages], $bn,
                    (OneProduct::direct(&operands, &p, [a, b], maps), InPlace, Plain)
                )
            }
        }
    )*};
}

/// The same for kernels whose clusters have equal shares of the steps of all tiles.
macro_rules! stream_k {
    ($((
        $name:ident, $variant:literal, $element:ident, $stored:ident,
        [$bm:literal, $bn:literal, $bk:literal], $cluster:literal, $stages:literal
    ),)*) => {$(
        #[doc = concat!("`", $variant, "` for `", stringify!($element), "`; see the body.")]
        ///
        /// # Safety
        ///
        /// As the kernels without shares. The grid may read and write `sums`, which has room for
        /// the tile of each of its blocks, and `keys`, of which each group that multiplies has one;
        /// none of these is `key`. Nothing else touches them during the launch.
        // Pointers in a block would be generic ones, and slower.
        #[allow(clippy::too_many_arguments)]
        #[cuda_std::kernel(max_threads = 128 + 2 * $bm, min_blocks = 1, cluster = ($cluster, 1, 1))]
        pub unsafe fn $name(
            #[grid_constant] a: &TensorMap<3>,
            #[grid_constant] b: &TensorMap<3>,
            #[grid_constant] c: &TensorMap<3>,
            start: *mut <$element as Element>::Output,
            p: GemmParams<<$element as Element>::Sum>,
            sums: *mut <$element as Element>::Sum,
            keys: *mut u64,
            key: u64,
        ) {
            const { assert!($bm % GROUP_ROWS == 0 && $bk == <$element as WarpGroup>::DEPTH) };
            // SAFETY: the host's promise, passed on.
            unsafe {
                let operands = Operands { maps: [a, b, c], start };
                let shared = Shared { sums, keys, key };
                $crate::warp_group!(
                    @multiply $stored, $element, Blocks[$bm / 64, $cluster, $stages], $bn,
                    (StreamK::new(&operands, &p, shared), InPlace, Plain)
                )
            }
        }
    )*};
}

#[cfg(feature = "sm_90a_first")]
gemm_spec::warp_group_scaled_kernels!(scaled);
#[cfg(feature = "sm_90a_first")]
gemm_spec::warp_group_split_kernels!(split);
#[cfg(feature = "sm_90a_first")]
gemm_spec::warp_group_grouped_kernels!(grouped);
#[cfg(feature = "sm_90a_first")]
gemm_spec::warp_group_direct_kernels!(direct);
#[cfg(feature = "sm_90a_first")]
gemm_spec::warp_group_stream_k_kernels!(stream_k);
