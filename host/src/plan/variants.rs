//! The variants of kernels that plans are made of.

use super::choose::Task;
use super::floor::{Floor, Least};
use super::invariant::Rows;
use super::speed::Speed;
use crate::device::DeviceInfo;
use gemm_spec::{DType, Kernel, Precision, Shape};
use std::sync::LazyLock;

/// The variants that [`KernelChoice::Auto`] chooses among; of equals, the first.
pub(super) const CANDIDATES: [&str; 49] = [
    "warp_group_128x256",
    "warp_group_128x224",
    "warp_group_128x192",
    "warp_group_128x160",
    "warp_group_128x128",
    "warp_group_ping_pong_128x192",
    "warp_group_ping_pong_128x176",
    "warp_group_ping_pong_128x160",
    "warp_group_in_step_128x192",
    "warp_group_in_step_128x128",
    "warp_group_64x256",
    "warp_group_64x192",
    "warp_group_64x128",
    "warp_group_64x96",
    "warp_group_swap_ab_128x256",
    "warp_group_swap_ab_128x128",
    "warp_group_swap_ab_128x160",
    "warp_group_swap_ab_128x96",
    "warp_group_swap_ab_128x80",
    "warp_group_swap_ab_64x96",
    "warp_group_swap_ab_64x80",
    "warp_group_swap_ab_64x48",
    "warp_group_in_step_64x192",
    "warp_group_in_step_64x128",
    "warp_group_64x64",
    "warp_group_64x32",
    "warp_group_pairs_64x64",
    "warp_group_halves_64x64",
    "warp_group_halves_64x160",
    "warp_group_direct_128x192",
    "warp_group_direct_64x64",
    "warp_group_split_128x128",
    "warp_group_stream_k_128x256",
    "warp_group_stream_k_64x64",
    "k11_tensor_deep",
    "k11_tensor_core",
    "k11_tensor_64x128",
    "k11_tensor_64x64",
    "k11_tensor_32x64",
    "k11_tensor_32x32",
    "k12_warp_specialized",
    "k10_grouped_order",
    "k10_grouped_64x64",
    "k09_async_copy",
    "k08_double_buffer",
    "k07_warp_tile",
    "k02_tiled_16",
    "skinny_rows",
    "skinny_row",
];

/// A variant's kernels of one dtype.
pub(super) struct Variant {
    pub name: &'static str,
    pub kernels: Vec<&'static Kernel>,
    /// That of them with the largest clusters.
    widest: &'static Kernel,
    speed: Speed,
}

impl Variant {
    /// One of its kernels, of which all are of one family.
    pub fn any(&self) -> &'static Kernel {
        self.kernels[0]
    }

    pub fn instances(&self, precision: Precision) -> impl Iterator<Item = &'static Kernel> {
        self.kernels.iter().copied().filter(move |kernel| kernel.precision == precision)
    }

    /// What a task takes at the least, by any of its kernels: they have one rate, and that of the
    /// largest clusters bounds the others.
    pub fn least(&self, floor: &Floor<'_>) -> Least {
        floor.least(self.widest, &self.speed)
    }

    /// Whether its tiles have more rows or columns than C and than the smallest tiles of tensor
    /// maps, which do as much then with less; or fewer columns than these, and than C, for which A
    /// would be read once more. Not for rows that have to be alike, whatever their number, nor
    /// where the model takes clusters to have more multiprocessors than there are; and where memory
    /// is fast, a block that asks for more of it at a time may be faster.
    pub fn is_left_out(&self, task: &Task, info: &DeviceInfo) -> bool {
        const SMALLEST: usize = 64;
        const LARGEST_CLUSTER: u32 = 8;
        let kernel = self.any();
        let Shape { rows: m, cols: n } = task.taken_by(kernel).shape;
        let [rows, cols, _] = kernel.tiles.block;
        let is_too_large = |extent: usize, of_c: usize| extent > SMALLEST && of_c <= SMALLEST;
        kernel.takes_maps()
            && task.rows == Rows::Free
            && !task.shape.is_empty()
            && info.multiprocessors.is_none_or(|count| count >= LARGEST_CLUSTER)
            && (cols < SMALLEST && !kernel.swaps_operands() && n > cols
                || !info.has_fast_memory() && (is_too_large(rows, m) || is_too_large(cols, n)))
    }
}

/// What the table has of a dtype, looked for once: a plan asks dozens of times.
struct OfDtype {
    dtype: DType,
    /// First those of [`CANDIDATES`], in their order.
    variants: Vec<Variant>,
    candidates: usize,
}

impl OfDtype {
    fn new(dtype: DType) -> Self {
        let variant = |name| {
            let kernels = gemm_spec::kernels().filter(|of| of.dtype == dtype);
            let kernels: Vec<_> = kernels.filter(|of| of.variant == name).collect();
            let widest = kernels.iter().copied().max_by_key(|kernel| kernel.cluster())?;
            Some(Variant { name, kernels, widest, speed: Speed::of(widest) })
        };
        let mut variants: Vec<_> = CANDIDATES.into_iter().filter_map(variant).collect();
        let candidates = variants.len();
        let others = gemm_spec::variants().filter(|name| !CANDIDATES.contains(name));
        variants.extend(others.filter_map(variant));
        OfDtype { dtype, variants, candidates }
    }
}

fn variants_of(dtype: DType) -> Option<&'static OfDtype> {
    static ALL: LazyLock<Vec<OfDtype>> = LazyLock::new(|| DType::ALL.map(OfDtype::new).into());
    ALL.iter().find(|of| of.dtype == dtype)
}

/// Those of [`CANDIDATES`] that have an instance of the dtype.
pub(super) fn candidates_of(dtype: DType) -> impl Iterator<Item = &'static Variant> {
    variants_of(dtype).into_iter().flat_map(|of| &of.variants[..of.candidates])
}

/// The variant of that name, where it has an instance of the dtype.
pub(super) fn variant_of(dtype: DType, name: &str) -> Option<&'static Variant> {
    variants_of(dtype)?.variants.iter().find(|of| of.name == name)
}
