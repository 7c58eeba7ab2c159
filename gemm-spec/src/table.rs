//! The table of kernels: each family's list, which is the only place where a kernel is registered.
//!
//! The device crate makes its entry points from the lists, and the table is filled from them.

use crate::kernel::{Kernel, Stored, ThreadOrder, Tiles};
use crate::{DType, KernelFamily, Precision, Shape, Target};

/// Calls `$with!` once with every `k01_naive` kernel: entry point, variant, element, tile, thread
/// order.
#[macro_export]
macro_rules! k01_naive_kernels {
    ($with:ident) => {
        $with! {
        (k01_naive_i8, "k01_naive", i8, 16, AlongColumns),
        (k01_naive_i32, "k01_naive", i32, 16, AlongColumns),
        (k01_naive_f16, "k01_naive", f16, 16, AlongColumns),
        (k01_naive_bf16, "k01_naive", bf16, 16, AlongColumns),
        (k01_naive_f32, "k01_naive", f32, 16, AlongColumns),
        (k01_naive_f64, "k01_naive", f64, 16, AlongColumns),
        (k01_naive_uncoalesced_i32, "k01_naive_uncoalesced", i32, 16, AlongRows),
        (k01_naive_uncoalesced_f16, "k01_naive_uncoalesced", f16, 16, AlongRows),
        (k01_naive_uncoalesced_bf16, "k01_naive_uncoalesced", bf16, 16, AlongRows),
        (k01_naive_uncoalesced_f32, "k01_naive_uncoalesced", f32, 16, AlongRows),
        (k01_naive_uncoalesced_f64, "k01_naive_uncoalesced", f64, 16, AlongRows),
        }
    };
}

/// Calls `$with!` once with every `k02_tiled` kernel: entry point, variant, element, tile, thread
/// order.
#[macro_export]
macro_rules! k02_tiled_kernels {
    ($with:ident) => {
        $with! {
        (k02_tiled_8_i32, "k02_tiled_8", i32, 8, AlongColumns),
        (k02_tiled_8_f16, "k02_tiled_8", f16, 8, AlongColumns),
        (k02_tiled_8_bf16, "k02_tiled_8", bf16, 8, AlongColumns),
        (k02_tiled_8_f32, "k02_tiled_8", f32, 8, AlongColumns),
        (k02_tiled_8_f64, "k02_tiled_8", f64, 8, AlongColumns),
        (k02_tiled_16_i8, "k02_tiled_16", i8, 16, AlongColumns),
        (k02_tiled_16_f8e4m3, "k02_tiled_16", F8E4M3, 16, AlongColumns),
        (k02_tiled_16_f8e5m2, "k02_tiled_16", F8E5M2, 16, AlongColumns),
        (k02_tiled_16_i32, "k02_tiled_16", i32, 16, AlongColumns),
        (k02_tiled_16_f16, "k02_tiled_16", f16, 16, AlongColumns),
        (k02_tiled_16_bf16, "k02_tiled_16", bf16, 16, AlongColumns),
        (k02_tiled_16_f32, "k02_tiled_16", f32, 16, AlongColumns),
        (k02_tiled_16_f64, "k02_tiled_16", f64, 16, AlongColumns),
        (k02_tiled_32_i32, "k02_tiled_32", i32, 32, AlongColumns),
        (k02_tiled_32_f16, "k02_tiled_32", f16, 32, AlongColumns),
        (k02_tiled_32_bf16, "k02_tiled_32", bf16, 32, AlongColumns),
        (k02_tiled_32_f32, "k02_tiled_32", f32, 32, AlongColumns),
        (k02_tiled_32_f64, "k02_tiled_32", f64, 32, AlongColumns),
        (k02_tiled_16_uncoalesced_i32, "k02_tiled_16_uncoalesced", i32, 16, AlongRows),
        (k02_tiled_16_uncoalesced_f16, "k02_tiled_16_uncoalesced", f16, 16, AlongRows),
        (k02_tiled_16_uncoalesced_bf16, "k02_tiled_16_uncoalesced", bf16, 16, AlongRows),
        (k02_tiled_16_uncoalesced_f32, "k02_tiled_16_uncoalesced", f32, 16, AlongRows),
        (k02_tiled_16_uncoalesced_f64, "k02_tiled_16_uncoalesced", f64, 16, AlongRows),
        }
    };
}

/// Calls `$with!` once with every `k03_thread_column` kernel: entry point, variant, element, and
/// the numbers of [`Tiles`]: block, warp, thread, stages, min_blocks.
#[macro_export]
macro_rules! k03_thread_column_kernels {
    ($with:ident) => {
        $with! {
        (k03_thread_column_i32, "k03_thread_column", i32, [64, 64, 8], [64, 64], [8, 1], 1, 1),
        (k03_thread_column_f16, "k03_thread_column", f16, [64, 64, 8], [64, 64], [8, 1], 1, 1),
        (k03_thread_column_bf16, "k03_thread_column", bf16, [64, 64, 8], [64, 64], [8, 1], 1, 1),
        (k03_thread_column_f32, "k03_thread_column", f32, [64, 64, 8], [64, 64], [8, 1], 1, 1),
        (k03_thread_column_f64, "k03_thread_column", f64, [64, 64, 8], [64, 64], [8, 1], 1, 1),
        }
    };
}

/// Calls `$with!` once with every `k04_thread_tile` kernel: entry point, variant, element, and the
/// numbers of [`Tiles`]: block, warp, thread, stages, min_blocks.
#[macro_export]
macro_rules! k04_thread_tile_kernels {
    ($with:ident) => {
        $with! {
        (k04_thread_tile_i32, "k04_thread_tile", i32, [128, 128, 8], [128, 128], [8, 8], 1, 1),
        (k04_thread_tile_f16, "k04_thread_tile", f16, [128, 128, 8], [128, 128], [8, 8], 1, 1),
        (k04_thread_tile_bf16, "k04_thread_tile", bf16, [128, 128, 8], [128, 128], [8, 8], 1, 1),
        (k04_thread_tile_f32, "k04_thread_tile", f32, [128, 128, 8], [128, 128], [8, 8], 1, 1),
        (k04_thread_tile_f64, "k04_thread_tile", f64, [128, 64, 8], [128, 64], [8, 4], 1, 1),
        }
    };
}

/// Calls `$with!` once with every `k05_vector_loads` kernel: entry point, variant, element, and the
/// numbers of [`Tiles`]: block, warp, thread, stages, min_blocks.
#[macro_export]
macro_rules! k05_vector_loads_kernels {
    ($with:ident) => {
        $with! {
        (k05_vector_loads_i32, "k05_vector_loads", i32, [128, 128, 8], [128, 128], [8, 8], 1, 2),
        (k05_vector_loads_f16, "k05_vector_loads", f16, [128, 128, 16], [128, 128], [8, 8], 1, 2),
        (k05_vector_loads_bf16, "k05_vector_loads", bf16, [128, 128, 16], [128, 128], [8, 8], 1, 2),
        (k05_vector_loads_f32, "k05_vector_loads", f32, [128, 128, 8], [128, 128], [8, 8], 1, 2),
        (k05_vector_loads_f64, "k05_vector_loads", f64, [128, 64, 8], [128, 64], [8, 4], 1, 1),
        }
    };
}

/// Calls `$with!` once with every `k06_no_conflicts` kernel: entry point, variant, element, and the
/// numbers of [`Tiles`]: block, warp, thread, stages, min_blocks.
#[macro_export]
macro_rules! k06_no_conflicts_kernels {
    ($with:ident) => {
        $with! {
        (k06_no_conflicts_i32, "k06_no_conflicts", i32, [128, 128, 8], [128, 128], [8, 8], 1, 2),
        (k06_no_conflicts_f16, "k06_no_conflicts", f16, [128, 128, 16], [128, 128], [8, 8], 1, 2),
        (k06_no_conflicts_bf16, "k06_no_conflicts", bf16, [128, 128, 16], [128, 128], [8, 8], 1, 2),
        (k06_no_conflicts_f32, "k06_no_conflicts", f32, [128, 128, 8], [128, 128], [8, 8], 1, 2),
        (k06_no_conflicts_f64, "k06_no_conflicts", f64, [128, 64, 8], [128, 64], [8, 4], 1, 1),
        }
    };
}

/// Calls `$with!` once with every `k07_warp_tile` kernel: entry point, variant, element, and the
/// numbers of [`Tiles`]: block, warp, thread, stages, min_blocks.
#[macro_export]
macro_rules! k07_warp_tile_kernels {
    ($with:ident) => {
        $with! {
        (k07_warp_tile_i8, "k07_warp_tile", i8, [128, 128, 32], [32, 64], [8, 8], 1, 1),
        (k07_warp_tile_f8e4m3, "k07_warp_tile", F8E4M3, [128, 128, 32], [32, 64], [8, 8], 1, 1),
        (k07_warp_tile_f8e5m2, "k07_warp_tile", F8E5M2, [128, 128, 32], [32, 64], [8, 8], 1, 1),
        (k07_warp_tile_i32, "k07_warp_tile", i32, [128, 128, 8], [32, 64], [8, 8], 1, 2),
        (k07_warp_tile_f16, "k07_warp_tile", f16, [128, 128, 16], [32, 64], [8, 8], 1, 2),
        (k07_warp_tile_bf16, "k07_warp_tile", bf16, [128, 128, 16], [32, 64], [8, 8], 1, 2),
        (k07_warp_tile_f32, "k07_warp_tile", f32, [128, 128, 8], [32, 64], [8, 8], 1, 2),
        (k07_warp_tile_f64, "k07_warp_tile", f64, [128, 64, 8], [32, 32], [8, 4], 1, 1),
        }
    };
}

/// Calls `$with!` once with every `k08_double_buffer` kernel: entry point, variant, element, and
/// the numbers of [`Tiles`]: block, warp, thread, stages, min_blocks.
#[macro_export]
macro_rules! k08_double_buffer_kernels {
    ($with:ident) => {
        $with! {
        (k08_double_buffer_i32, "k08_double_buffer", i32, [128, 128, 8], [32, 64], [8, 8], 2, 1),
        (k08_double_buffer_f16, "k08_double_buffer", f16, [128, 128, 16], [32, 64], [8, 8], 2, 1),
        (k08_double_buffer_bf16, "k08_double_buffer", bf16, [128, 128, 16], [32, 64], [8, 8], 2, 1),
        (k08_double_buffer_f32, "k08_double_buffer", f32, [128, 128, 8], [32, 64], [8, 8], 2, 2),
        (k08_double_buffer_f64, "k08_double_buffer", f64, [128, 64, 8], [32, 32], [8, 4], 2, 1),
        }
    };
}

/// Calls `$with!` once with every `k09_async_copy` kernel: entry point, variant, element, and the
/// numbers of [`Tiles`]: block, warp, thread, stages, min_blocks.
#[macro_export]
macro_rules! k09_async_copy_kernels {
    ($with:ident) => {
        $with! {
        (k09_async_copy_i32, "k09_async_copy", i32, [128, 128, 8], [32, 64], [8, 8], 3, 2),
        (k09_async_copy_f32, "k09_async_copy", f32, [128, 128, 8], [32, 64], [8, 8], 3, 2),
        (k09_async_copy_f64, "k09_async_copy", f64, [128, 64, 8], [32, 32], [8, 4], 4, 1),
        }
    };
}

/// Calls `$with!` once with every `k10_grouped_order` kernel: entry point, variant, element, and
/// the numbers of [`Tiles`]: block, warp, thread, stages, min_blocks.
#[macro_export]
macro_rules! k10_grouped_order_kernels {
    ($with:ident) => {
        $with! {
        (k10_grouped_order_i32, "k10_grouped_order", i32, [128, 128, 8], [32, 64], [8, 8], 3, 1),
        (k10_grouped_order_f32, "k10_grouped_order", f32, [128, 128, 16], [32, 64], [8, 8], 3, 2),
        (k10_grouped_order_f64, "k10_grouped_order", f64, [128, 64, 8], [32, 32], [8, 4], 4, 1),
        (k10_grouped_64x64_f32, "k10_grouped_64x64", f32, [64, 64, 16], [32, 32], [8, 4], 4, 4),
        }
    };
}

/// Calls `$with!` once with every `k11_tensor_core` kernel for compute capability 8.0: entry point,
/// variant, element, and the numbers of [`Tiles`]: block, warp, instruction, stages, min_blocks.
#[macro_export]
macro_rules! k11_tensor_core_sm80_kernels {
    ($with:ident) => {
        $with! {
        (k11_tensor_core_i8, "k11_tensor_core", i8, [128, 256, 64], [64, 64], [16, 8], 4, 1),
        (k11_tensor_core_i32, "k11_tensor_core", i32, [64, 128, 32], [32, 32], [16, 8], 3, 1),
        (k11_tensor_core_f16, "k11_tensor_core", f16, [128, 256, 32], [64, 64], [16, 8], 4, 1),
        (k11_tensor_core_bf16, "k11_tensor_core", bf16, [128, 256, 32], [64, 64], [16, 8], 4, 1),
        (k11_tensor_64x64_i8, "k11_tensor_64x64", i8, [64, 64, 64], [32, 32], [16, 8], 4, 4),
        (k11_tensor_64x64_f16, "k11_tensor_64x64", f16, [64, 64, 32], [32, 32], [16, 8], 4, 4),
        (k11_tensor_64x64_bf16, "k11_tensor_64x64", bf16, [64, 64, 32], [32, 32], [16, 8], 4, 4),
        }
    };
}

/// The same for compute capability 9.0: f64, with smaller tiles for a C of few, and a step that
/// takes more shared memory than most GPUs before have.
#[macro_export]
macro_rules! k11_tensor_core_sm90_kernels {
    ($with:ident) => {
        $with! {
        (k11_tensor_core_f64, "k11_tensor_core", f64, [128, 128, 16], [64, 32], [16, 8], 5, 1),
        (k11_tensor_64x128_f64, "k11_tensor_64x128", f64, [64, 128, 16], [32, 32], [16, 8], 5, 1),
        (k11_tensor_64x64_f64, "k11_tensor_64x64", f64, [64, 64, 16], [32, 16], [16, 8], 4, 2),
        (k11_tensor_32x64_f64, "k11_tensor_32x64", f64, [32, 64, 32], [16, 16], [16, 8], 6, 1),
        (k11_tensor_32x32_f64, "k11_tensor_32x32", f64, [32, 32, 32], [16, 16], [16, 8], 6, 2),
        (k11_tensor_deep_i8, "k11_tensor_deep", i8, [128, 256, 128], [64, 64], [16, 8], 3, 1),
        }
    };
}

/// Calls `$with!` once with every `k12_warp_specialized` kernel: entry point, variant, element, and
/// the numbers of [`Tiles`]: block, warp, thread, stages, min_blocks.
#[macro_export]
macro_rules! k12_warp_specialized_kernels {
    ($with:ident) => {
        $with! {
        (
            k12_warp_specialized_f32, "k12_warp_specialized", f32, [128, 256, 16], [32, 128],
            [8, 16], 6, 1
        ),
        }
    };
}

/// Calls `$with!` once with every `repack` kernel: entry point, variant, an element of the size
/// that it copies, and the numbers of [`Tiles`]: block, warp, thread, stages, min_blocks.
#[macro_export]
macro_rules! repack_kernels {
    ($with:ident) => {
        $with! {
        (repack_i8, "repack", i8, [128, 128, 1], [128, 128], [8, 8], 1, 1),
        (repack_f16, "repack", f16, [64, 64, 1], [64, 64], [4, 4], 1, 1),
        (repack_f32, "repack", f32, [64, 32, 1], [64, 32], [4, 2], 1, 1),
        (repack_bf16x6, "repack", bf16x6, [64, 32, 1], [64, 32], [4, 2], 1, 1),
        }
    };
}

/// Calls `$with!` once with the `finish` kernel: entry point, variant, the elements of its sums,
/// and the numbers of [`Tiles`]: block, warp, thread, stages, min_blocks.
#[macro_export]
macro_rules! finish_kernels {
    ($with:ident) => {
        $with! {
        (finish_i32, "finish", i32, [8, 128, 1], [1, 128], [1, 4], 1, 1),
        (finish_f32, "finish", f32, [8, 128, 1], [1, 128], [1, 4], 1, 1),
        (finish_f64, "finish", f64, [8, 128, 1], [1, 128], [1, 4], 1, 1),
        }
    };
}

/// The same of the kernels that start while the one before them ends; those with several warps
/// along the parts are for many of them.
#[macro_export]
macro_rules! finish_overlapped_kernels {
    ($with:ident) => {
        $with! {
        (finish_overlapped_i32, "finish_overlapped", i32, [8, 128, 1], [1, 128], [1, 4], 1, 1),
        (finish_overlapped_f32, "finish_overlapped", f32, [8, 128, 1], [1, 128], [1, 4], 1, 1),
        (finish_overlapped_f64, "finish_overlapped", f64, [8, 128, 1], [1, 128], [1, 4], 1, 1),
        (finish_deep_i32, "finish_deep", i32, [1, 128, 8], [1, 128], [1, 4], 1, 1),
        (finish_deep_f32, "finish_deep", f32, [1, 128, 8], [1, 128], [1, 4], 1, 1),
        (finish_deep_f64, "finish_deep", f64, [1, 128, 8], [1, 128], [1, 4], 1, 1),
        }
    };
}

/// Rows of the table from a family's list; the family comes from the caller.
macro_rules! rows {
    ($(($name:ident, $variant:literal, $element:ident, $tile:literal, $order:ident),)*) => {
        rows! {$(
            ($name, $variant, $element, Stored::Any, Tiles::square($tile), ThreadOrder::$order),
        )*}
    };
    ($((
        $name:ident, $variant:literal, $element:ident, $stored:ident, $block:tt, $cluster:tt,
        $stages:tt, $min_blocks:tt
    ),)*) => {
        rows! {$((
            $name,
            $variant,
            $element,
            Stored::$stored,
            Tiles { min_blocks: $min_blocks, ..Tiles::of_groups($block, $cluster, $stages) },
            ThreadOrder::AlongColumns
        ),)*}
    };
    ($((
        $name:ident, $variant:literal, $element:ident, $block:tt, $warp:tt, $thread:tt, $stages:tt,
        $min_blocks:tt
    ),)*) => {
        rows! {$((
            $name,
            $variant,
            $element,
            Stored::Any,
            Tiles::of_threads($block, $warp, $thread, $stages, $min_blocks),
            ThreadOrder::AlongColumns
        ),)*}
    };
    ($((
        $name:ident, $variant:literal, $element:ident, $stored:ident, $block:tt, $cluster:tt,
        $stages:tt
    ),)*) => {
        rows! {$((
            $name,
            $variant,
            $element,
            Stored::$stored,
            Tiles::of_groups($block, $cluster, $stages),
            ThreadOrder::AlongColumns
        ),)*}
    };
    ($((
        $name:ident, $variant:literal, $element:ident, $stored:expr, $tiles:expr, $order:expr
    ),)*) => {
        &[$(Kernel {
            name: stringify!($name),
            variant: $variant,
            family: FAMILY,
            dtype: dtype!($element),
            precision: precision!($element),
            tiles: $tiles,
            order: $order,
            stored: $stored,
            target: FAMILY.target(dtype!($element)),
        }
        .where_it_fits()),*]
    };
}

/// Rows at one address.
///
/// N.B. What a constant refers to has an address in every part of a program that names it, and rows
/// are told apart by theirs.
macro_rules! at_one_address {
    ($rows:expr) => {{
        const ROWS: &[Kernel] = $rows;
        static AT_ONE_ADDRESS: [Kernel; ROWS.len()] = *ROWS.first_chunk().unwrap();
        &AT_ONE_ADDRESS
    }};
}

/// The rows of a family's list.
macro_rules! of_family {
    ($family:ident, $($list:tt)+) => {{
        const FAMILY: KernelFamily = KernelFamily::$family;
        at_one_address!($($list)+!(rows))
    }};
}

mod lean;

use lean::LEAN;

/// Every family with its list.
static FAMILIES: &[&[Kernel]] = &[
    of_family!(Naive, k01_naive_kernels),
    of_family!(Tiled, k02_tiled_kernels),
    of_family!(ThreadColumn, k03_thread_column_kernels),
    of_family!(ThreadTile, k04_thread_tile_kernels),
    of_family!(VectorLoads, k05_vector_loads_kernels),
    of_family!(NoConflicts, k06_no_conflicts_kernels),
    of_family!(WarpTile, k07_warp_tile_kernels),
    of_family!(DoubleBuffer, k08_double_buffer_kernels),
    of_family!(AsyncCopy, k09_async_copy_kernels),
    of_family!(GroupedOrder, k10_grouped_order_kernels),
    of_family!(TensorCore, k11_tensor_core_sm80_kernels),
    of_family!(TensorCore, k11_tensor_core_sm90_kernels),
    of_family!(WarpSpecialized, k12_warp_specialized_kernels),
    LEAN[0].0,
    of_family!(WarpGroupDirect, crate::warp_group_direct_kernels),
    of_family!(WarpGroupStreamK, crate::warp_group_stream_k_kernels),
    LEAN[1].0,
    LEAN[2].0,
    LEAN[3].0,
    LEAN[4].0,
    of_family!(WarpGroupSplit, crate::warp_group_split_kernels),
    SKINNY,
];

static SKINNY: &[Kernel] = of_family!(Skinny, crate::skinny_kernels);

/// Those for few rows stand in the module for compute capability 9.0 once more, where they start
/// while the kernel before them ends.
static SKINNY_OVERLAPPED: &[Kernel] = at_one_address!(&once_more::<{ SKINNY.len() }>(SKINNY));

const fn once_more<const N: usize>(kernels: &[Kernel]) -> [Kernel; N] {
    let mut rows = [kernels[0]; N];
    let mut i = 0;
    while i < N {
        rows[i] = Kernel { target: Target::Sm90, ..kernels[i] };
        i += 1;
    }
    rows
}

/// The kernels for operands with scales.
static SCALED: &[Kernel] = of_family!(WarpGroupScaled, crate::warp_group_scaled_kernels);

/// The kernel for operands of `dtype` with scales for blocks of them; see
/// [`ScaleParams`](crate::ScaleParams).
pub fn scaled(dtype: DType) -> Option<&'static Kernel> {
    SCALED.iter().find(|kernel| kernel.dtype == dtype)
}

/// The kernels for lists of products.
static GROUPED: &[Kernel] = of_family!(WarpGroupGrouped, crate::warp_group_grouped_kernels);

/// The kernels for lists of products of operands of `dtype` that lie along K or do not; see
/// [`GroupedProduct`](crate::GroupedProduct).
pub fn grouped(dtype: DType, along_k: [bool; 2]) -> impl Iterator<Item = &'static Kernel> + Clone {
    let is_for = move |kernel: &&Kernel| kernel.dtype == dtype && kernel.stored.takes(along_k);
    GROUPED.iter().filter(is_for)
}

/// The kernels that copy an operand before a product.
static REPACKS: &[Kernel] = of_family!(Repack, repack_kernels);

/// The kernel that copies elements of as many bytes as those of `dtype`, for kernels that multiply
/// them so.
pub fn repack(dtype: DType, precision: Precision) -> Option<&'static Kernel> {
    let is_split = (dtype, precision) == (DType::F32, Precision::Bf16x6);
    let how = if is_split { precision } else { Precision::Full };
    let is_for = |kernel: &&Kernel| kernel.dtype.size_bytes() == dtype.size_bytes();
    REPACKS.iter().filter(is_for).find(|kernel| kernel.precision == how)
}

/// The kernels that finish sums in memory.
static FINISH: &[Kernel] = of_family!(Finish, finish_kernels);

/// The same for GPUs where kernels overlap.
static FINISH_OVERLAPPED: &[Kernel] = of_family!(FinishOverlapped, finish_overlapped_kernels);

/// The kernel that takes sums from memory to a C of that shape, in so many parts, on a GPU of that
/// compute capability; those of a dtype that no sums have are taken for f32.
pub fn finish(sums: DType, parts: usize, shape: Shape, has: (u32, u32)) -> &'static Kernel {
    let kernels = if Target::Sm90.runs_on(has) { FINISH_OVERLAPPED } else { FINISH };
    let is_of = |kernel: &&Kernel| {
        let [rows, cols, depth] = kernel.tiles.block;
        let blocks = shape.rows.div_ceil(rows).saturating_mul(shape.cols.div_ceil(cols));
        let is_worth_it = depth == 1 || depth <= parts && blocks <= MOST_DEEP_BLOCKS;
        kernel.dtype == sums && is_worth_it
    };
    kernels.iter().rev().find(is_of).unwrap_or(&kernels[1])
}

/// Blocks of the kernels with several warps along the parts that an H100 has room for at a time, by
/// their registers: more would come one behind the other, and each takes as long as memory's
/// answers do.
const MOST_DEEP_BLOCKS: usize = 2 * 132;

/// Every kernel: those that multiply, with scales or for lists too, those that copy, and those that
/// finish. Each stands in the module of its target, and maybe in another ([`of_module`]).
pub fn entries() -> impl Iterator<Item = &'static Kernel> + Clone {
    let others = SCALED.iter().chain(GROUPED).chain(REPACKS).chain(FINISH);
    kernels().chain(others).chain(FINISH_OVERLAPPED)
}

/// The entry points of a target's module.
pub fn of_module(target: Target) -> impl Iterator<Item = &'static Kernel> + Clone {
    let lean = LEAN.iter().flat_map(|(_, lean)| *lean);
    entries().chain(SKINNY_OVERLAPPED).chain(lean).filter(move |kernel| kernel.target == target)
}

/// Every kernel that multiplies two operands without scales, family by family.
pub fn kernels() -> impl Iterator<Item = &'static Kernel> + Clone {
    FAMILIES.iter().copied().flatten()
}

/// The names by which a user chooses a kernel, each once, in the table's order.
pub fn variants() -> impl Iterator<Item = &'static str> + Clone {
    let is_first = |kernel: &&Kernel| {
        let first = kernels().find(|other| other.variant == kernel.variant);
        first.is_some_and(|first| first.name == kernel.name)
    };
    kernels().filter(is_first).map(|kernel| kernel.variant)
}

impl Kernel {
    /// What a GPU of that compute capability runs for a row of the table: the row itself, or its
    /// entry point of the same name that starts while the kernel before it ends.
    pub fn on(&'static self, has: (u32, u32)) -> &'static Kernel {
        // A row of somebody's own is none of these, whatever its name.
        let place = SKINNY.iter().position(|row| core::ptr::eq(row, self));
        let place = place.filter(|_| Target::Sm90.runs_on(has));
        place.map_or(self, |place| &SKINNY_OVERLAPPED[place])
    }

    /// The instances of `variant` for `dtype`, multiplied so.
    fn instances(
        variant: &str,
        dtype: DType,
        precision: Precision,
    ) -> impl Iterator<Item = &'static Kernel> {
        kernels().filter(move |kernel| {
            kernel.variant == variant && kernel.dtype == dtype && kernel.precision == precision
        })
    }

    /// The instance of `variant` for `dtype`, multiplied so, and operands that lie along K or do
    /// not.
    pub fn find_for(
        variant: &str,
        dtype: DType,
        precision: Precision,
        along_k: [bool; 2],
    ) -> Option<&'static Kernel> {
        Kernel::instances(variant, dtype, precision).find(|kernel| kernel.stored.takes(along_k))
    }

    /// The instance of `variant` for `dtype`, multiplied with all digits, the first where operands
    /// can be stored in several ways.
    pub fn find(variant: &str, dtype: DType) -> Option<&'static Kernel> {
        Kernel::find_in(variant, dtype, Precision::Full)
    }

    /// The same for elements multiplied so.
    pub fn find_in(variant: &str, dtype: DType, precision: Precision) -> Option<&'static Kernel> {
        Kernel::instances(variant, dtype, precision).next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::format;
    use std::string::String;

    #[test]
    fn names_are_variant_and_dtype_and_unique() {
        let mut seen = HashSet::new();
        for kernel in kernels() {
            let stored = match kernel.stored {
                Stored::Any => String::new(),
                stored => format!("_{}", stored.name()),
            };
            let element = kernel.precision.name(kernel.dtype);
            assert_eq!(kernel.name, format!("{}{stored}_{element}", kernel.variant));
            assert!(seen.insert(kernel.name), "{} is registered twice", kernel.name);
            let found = [true, false].map(|a| {
                let Kernel { variant, dtype, precision, .. } = *kernel;
                [true, false].map(|b| Kernel::find_for(variant, dtype, precision, [a, b]))
            });
            assert!(found.as_flattened().contains(&Some(kernel)), "{}", kernel.name);
        }
        assert_eq!(Kernel::find("k99", DType::F32), None);
        let variants: HashSet<_> = kernels().map(|kernel| kernel.variant).collect();
        assert_eq!(self::variants().count(), variants.len());
        assert!(self::variants().all(|variant| variants.contains(variant)));
    }

    #[test]
    fn kernels_that_stand_in_two_modules_overlap_in_one() {
        for has in [(9, 0), (10, 0)] {
            let skinny = Kernel::find("skinny_row", DType::F32).unwrap();
            let again = skinny.on(has);
            assert_eq!((skinny.on((8, 9)), again.target), (skinny, Target::Sm90));
            assert!(again.overlaps() && !skinny.overlaps() && again.on(has) == again);
        }
        for kernel in entries() {
            let again = kernel.on((9, 0));
            let modules = Target::ALL.into_iter().flat_map(of_module);
            let named = modules.filter(|other| other.name == kernel.name).count();
            assert_eq!(named, if again == kernel { 1 } else { 2 }, "{}", kernel.name);
        }
    }

    #[test]
    fn tiles_divide_each_other() {
        for kernel in kernels() {
            let (Tiles { block, warp, thread, stages, .. }, name) = (kernel.tiles, kernel.name);
            for i in 0..2 {
                assert_eq!([block[i] % warp[i], warp[i] % thread[i]], [0; 2], "{name}");
            }
            assert!(block[2] > 0 && stages > 0, "{name}");
        }
    }
}
