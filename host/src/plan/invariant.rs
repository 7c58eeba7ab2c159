//! Products whose rows do not depend on how many rows there are.
//!
//! A row of C keeps its bits if three things do not change with the number of rows: the order in
//! which its products are summed, the parts of K, and what comes after the sum. Kernels fall into
//! classes whose members sum in the same order, and the class goes by dtype, precision and GPU:
//!
//! - **Warp groups**: instructions of 32 bytes of K, from the first k to the last, whatever the
//!   tile (launches let every other tile go back where nobody asks for this). But that one with a
//!   single row of tiles begins at another k in each column of tiles; there the transposed product,
//!   which has more rows of tiles, takes its place.
//! - **Tensor cores** (`k11_tensor_core`): of each dtype one kernel.
//! - **One by one**: a fused multiply-add for each k, from the first to the last, in the kernels of
//!   steps 1 to 10 and 12.
//!
//! Integers are summed exactly: every plan gives the same bits. Kernels that deal out K to warps
//! (`skinny`) keep to one order too, but their own; they are there for those who name them.

use super::choose::check_launch;
use super::variants::CANDIDATES;
use super::{KernelChoice, Product, Task};
use crate::device::DeviceInfo;
use gemm_spec::{DType, Kernel, KernelFamily, Shape};

/// What a task's rows must not depend on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Rows {
    /// Anything goes: nobody asked, or every plan gives the same bits.
    #[default]
    Free,
    /// The number of rows.
    Alike,
    /// The number of rows, with an epilogue behind the sums. Neighbours of a row share reciprocals
    /// there, so that rows of the transposed product, whose neighbours are others, are not alike.
    AlikeAndFused,
}

impl Rows {
    /// Of a product.
    pub(crate) fn of(product: &Product) -> Rows {
        if !product.batch_invariant {
            return Rows::Free;
        }
        match product.fusion.is_none() {
            true if product.dtype.is_integer() => Rows::Free,
            true => Rows::Alike,
            false => Rows::AlikeAndFused,
        }
    }

    /// The kernel that adds parts of K up to a C of that shape. Of those for many parts some add
    /// them in an order of their own, and are taken for few rows.
    pub(crate) fn adding(
        self,
        sums: DType,
        parts: usize,
        shape: Shape,
        has: (u32, u32),
    ) -> &'static Kernel {
        let shape = match self {
            Rows::Free => shape,
            _ => Shape::new(usize::MAX, usize::MAX),
        };
        gemm_spec::finish(sums, parts, shape, has)
    }
}

/// Kernels that sum in the same order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    WarpGroups,
    TensorCores,
    OneByOne,
}

impl Class {
    /// The class of a task, whatever the shapes.
    fn of(task: &Task, info: &DeviceInfo) -> Class {
        if task.k == 0 {
            // Nothing is summed.
            return Class::OneByOne;
        }
        let maps =
            task.rows == Rows::Alike && warp_groups().any(|variant| runs(variant, task, info));
        match maps {
            true => Class::WarpGroups,
            false if runs(TENSOR_CORE, task, info) => Class::TensorCores,
            false => Class::OneByOne,
        }
    }

    fn has(self, kernel: &Kernel) -> bool {
        use KernelFamily::*;
        match self {
            Class::WarpGroups => {
                matches!(kernel.family, WarpGroup | WarpGroupDirect | WarpGroupInStep)
            }
            Class::TensorCores => kernel.variant == TENSOR_CORE,
            Class::OneByOne => !matches!(
                kernel.family,
                TensorCore
                    | WarpGroup
                    | WarpGroupScaled
                    | WarpGroupDirect
                    | WarpGroupStreamK
                    | WarpGroupHalves
                    | WarpGroupInStep
                    | WarpGroupPingPong
                    | WarpGroupSwapAb
                    | WarpGroupSplit
                    | Skinny
                    | Repack
                    | Finish
            ),
        }
    }
}

/// The variant of [`Class::TensorCores`].
const TENSOR_CORE: &str = "k11_tensor_core";

/// The variants of [`Class::WarpGroups`] that take maps. Those that do not always begin with the
/// first k, run where these do, and are no reason to turn a product; nor are clusters in step,
/// which always do, nor groups that take turns, which are not taken there. Shares of a tile's
/// steps, which go by the number of tiles, keep no order, nor do halves, whose tiles' columns go
/// by it, nor what multiplies split elements.
fn warp_groups() -> impl Iterator<Item = &'static str> {
    let is_one = |variant: &str| {
        let others = ["direct", "stream_k", "halves", "in_step", "ping_pong", "swap_ab", "split"];
        variant.starts_with("warp_group") && !others.iter().any(|other| variant.contains(other))
    };
    CANDIDATES.into_iter().filter(move |variant| is_one(variant))
}

/// Whether a variant runs on the device, for operands that lie as it takes them.
fn runs(variant: &str, task: &Task, info: &DeviceInfo) -> bool {
    let any = Task { shape: Shape::new(1, 1), along_k: [true; 2], maps: true, ..*task };
    any.find(variant).is_some_and(|kernel| check_launch(kernel, &any, info).is_ok())
}

/// Whether the kernel's blocks may begin at different k for a C of that shape: see `first_step` in
/// gpu-kernels/src/warp_group/work.rs, which has fewer. What floats of 8 bits lose goes by the
/// order, which is kept.
fn begins_anywhere(kernel: &Kernel, shape: Shape) -> bool {
    let [rows, cols, _] = kernel.tiles.block;
    let shape = if kernel.swaps_operands() { shape.transposed() } else { shape };
    let is_one = matches!(kernel.family, KernelFamily::WarpGroup | KernelFamily::WarpGroupPingPong);
    (is_one || kernel.swaps_operands())
        && kernel.dtype.size_bytes() > 1
        && shape.rows <= rows * kernel.cluster()
        && shape.cols > cols
}

/// Whether a kernel of boxes has no epilogue, for which others of boxes take its place.
pub(super) fn is_for_sums_alone(kernel: &Kernel) -> bool {
    kernel.parts_of_cluster() > 1 || kernel.swaps_operands()
}

/// Whether the library may choose a kernel for a task: always where rows are free.
pub(super) fn may_be_chosen(kernel: &Kernel, task: &Task, info: &DeviceInfo) -> bool {
    // Of several products in one launch such clusters and such turns have not been measured.
    let is_in_turn = kernel.takes_steps_in_turn() || kernel.takes_tiles_in_turn();
    // A group has all rows of a tile: where half of the last ones are empty, others do less.
    let is_half_empty = task.shape.rows.div_ceil(64) % 2 == 1 && task.shape.rows < 1024;
    // Nor of few rows, of C of other dtypes, or by kernels that compute C transposed.
    let is_few = task.shape.rows <= 64 || task.output != task.dtype.output();
    let is_no_use = task.fused.is_some() && is_for_sums_alone(kernel)
        || kernel.takes_tiles_in_turn() && is_half_empty
        || kernel.swaps_operands() && is_few
        || (is_in_turn || kernel.swaps_operands()) && task.batch > 1;
    let is_alike = || keeps_order(kernel, task) && Class::of(task, info).has(kernel);
    !is_no_use && (task.rows == Rows::Free || is_alike())
}

/// Whether a kernel that was named sums a task's rows alike.
pub(super) fn keeps_order(kernel: &Kernel, task: &Task) -> bool {
    match task.rows {
        Rows::Free => true,
        _ if kernel.joins() || kernel.parts_of_cluster() > 1 || kernel.splits_elements() => false,
        Rows::Alike => !begins_anywhere(kernel, task.shape),
        // The kernel has some epilogues itself, others come behind it.
        Rows::AlikeAndFused => !kernel.has_epilogues(),
    }
}

impl Product {
    /// The product that kernels take of it, and whether that is the turned one.
    pub(crate) fn oriented(&self, choice: &KernelChoice, info: &DeviceInfo) -> (Product, bool) {
        let turned = self.is_taken_turned(choice, info);
        (self.turned_if(turned), turned)
    }

    /// As [`Product::is_turned`]; for rows that have to be alike, turned only where a kernel for
    /// Hopper needs it.
    #[inline]
    pub(crate) fn is_taken_turned(&self, choice: &KernelChoice, info: &DeviceInfo) -> bool {
        match choice {
            // Its epilogue knows rows from columns.
            KernelChoice::Own(_) => false,
            _ if Rows::of(self) == Rows::Free => self.is_turned(),
            _ => self.has_to_be_turned(choice, info),
        }
    }

    /// Whether rows that have to be alike take the transposed product.
    fn has_to_be_turned(&self, choice: &KernelChoice, info: &DeviceInfo) -> bool {
        let fits = |turned| {
            let task = Task::turned_if(turned, self);
            if task.rows != Rows::Alike {
                return true;
            }
            let named = |variant: &str| {
                let mut instances = task.instances(variant).into_iter().flatten();
                instances.next().is_none_or(|kernel| !begins_anywhere(kernel, task.shape))
            };
            match choice {
                KernelChoice::Named(name) => named(name),
                KernelChoice::Split { variant, .. } => named(variant),
                KernelChoice::Spec(kernel) => named(kernel.variant),
                KernelChoice::Own(_) => true,
                _ if Class::of(&task, info) != Class::WarpGroups => true,
                // What is planned is one of the plans that there are without a choice.
                KernelChoice::Auto | KernelChoice::Planned { .. } => {
                    warp_groups().any(|variant| runs(variant, &task, info) && named(variant))
                }
            }
        };
        !fits(false) && fits(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::choose;
    use crate::plan::tests::{hopper, task};
    use crate::{Gemm, Layout, Op};

    fn gpus() -> [DeviceInfo; 4] {
        let of = |capability, shared| {
            let mut info = hopper();
            info.compute_capability = Some(capability);
            if let Some(limits) = &mut info.launch_limits {
                limits.shared_bytes_per_block_optin = shared;
            }
            info
        };
        [of((7, 0), 96 << 10), of((8, 6), 99 << 10), of((9, 0), 227 << 10), of((12, 0), 99 << 10)]
    }

    const ROWS: [usize; 12] = [1, 2, 17, 63, 64, 65, 128, 129, 256, 257, 1000, 5000];

    /// The kernel of each number of rows for a C of `n` columns, A stored so.
    fn chosen<T: crate::Element>(
        info: &DeviceInfo,
        gemm: &Gemm<T>,
        op_a: Op,
        (n, k): (usize, usize),
    ) -> Vec<(&'static Kernel, bool)> {
        let plan = |m: usize| {
            let a = if op_a == Op::None { Shape::new(m, k) } else { Shape::new(k, m) };
            let (a, b) = (Layout::row_major(a), Layout::row_major(Shape::new(k, n)));
            let gemm = gemm.clone().op_a(op_a).batch_invariant(true);
            let plan = gemm.plan(info, a, b).unwrap();
            assert_eq!(plan.parts, 1, "{plan}");
            let shape = if plan.turned { Shape::new(n, m) } else { Shape::new(m, n) };
            let kernel = plan.kernel.unwrap();
            assert!(!begins_anywhere(kernel, shape), "{plan} for {m} rows");
            (kernel, plan.turned)
        };
        ROWS.into_iter().map(plan).collect()
    }

    fn is_of_one_class<T: crate::Element>() {
        for info in gpus() {
            for (op_a, sizes) in [
                (Op::None, (4096, 4096)),
                (Op::Transpose, (4097, 511)),
                (Op::None, (40, 100_000)),
                (Op::Transpose, (1, 64)),
                (Op::None, (100, 1)),
                (Op::None, (7, 0)),
            ] {
                let kernels = chosen::<T>(&info, &Gemm::new(), op_a, sizes);
                let class = |kernel: &Kernel| {
                    let classes = [Class::WarpGroups, Class::TensorCores, Class::OneByOne];
                    classes.into_iter().find(|class| class.has(kernel)).unwrap()
                };
                let first = class(kernels[0].0);
                assert!(kernels.iter().all(|(kernel, _)| class(kernel) == first), "{kernels:?}");
                if first == Class::TensorCores {
                    let one = kernels[0].0.tiles;
                    assert!(kernels.iter().all(|(kernel, _)| kernel.tiles == one));
                }
            }
        }
    }

    #[test]
    fn the_class_does_not_go_by_the_rows() {
        is_of_one_class::<f32>();
        is_of_one_class::<f64>();
        is_of_one_class::<crate::bf16>();
        is_of_one_class::<crate::F8E4M3>();
    }

    #[test]
    fn many_parts_are_added_in_one_order() {
        let of = |rows: Rows, m| rows.adding(DType::F32, 16, Shape::new(m, 2048), (9, 0)).variant;
        assert_ne!(of(Rows::Free, 16), of(Rows::Free, 17));
        assert_eq!(of(Rows::Alike, 16), of(Rows::Alike, 17));
    }

    #[test]
    fn few_rows_are_turned_on_hopper_alone() {
        let [_, ampere, hopper, _] = gpus();
        let gemm = Gemm::<crate::bf16>::new();
        let of = |info| chosen(info, &gemm, Op::None, (4096, 4096));
        let turned: Vec<bool> = of(&hopper).iter().map(|(_, turned)| *turned).collect();
        assert_eq!(turned, ROWS.map(|m| m <= 64));
        assert!(of(&hopper)[11].0.variant == "warp_group_128x256");
        assert!(
            of(&ampere)
                .iter()
                .all(|(kernel, turned)| { kernel.variant == "k11_tensor_core" && !turned })
        );
        let tf32 = Gemm::<f32>::new().precision(gemm_spec::Precision::Tf32);
        assert!(chosen(&hopper, &tf32, Op::None, (4096, 4096))[0].0.takes_maps());
        // Elements that may be split are multiplied whole, and no other way is taken by name.
        let split = Gemm::<f32>::new().precision(gemm_spec::Precision::Bf16x6);
        let kernels = chosen(&hopper, &split, Op::None, (4096, 4096));
        assert!(kernels.iter().all(|(kernel, _)| Class::OneByOne.has(kernel)));
        let named = split.kernel("warp_group_split_128x128");
        let square = Layout::row_major(Shape::new(512, 512));
        assert!(named.plan(&hopper, square, square).is_ok());
        assert!(named.batch_invariant(true).plan(&hopper, square, square).is_err());
    }

    #[test]
    fn the_class_is_that_of_layouts_and_shapes_that_no_launch_covers() {
        let task = task(crate::DType::F8E4M3, (usize::MAX, 1));
        let task = Task { rows: Rows::Alike, ..task };
        assert_eq!(Class::of(&task, &hopper()), Class::WarpGroups);
    }

    /// A kernel of another class would run.
    #[test]
    fn what_no_kernel_of_the_class_takes_is_refused() {
        let unmapped = task(crate::DType::F8E4M3, (300, 200));
        assert!(choose(&KernelChoice::Auto, &unmapped, &hopper()).is_ok());
        let unmapped = Task { rows: Rows::Alike, ..unmapped };
        let error = choose(&KernelChoice::Auto, &unmapped, &hopper()).unwrap_err();
        assert!(error.is_unsupported() && error.to_string().contains("300x200"), "{error}");
    }

    #[test]
    fn integers_and_epilogues() {
        let [.., hopper, _] = gpus();
        let task = |rows| {
            let (a, b) = (Shape::new(3000, 4096), Shape::new(4096, 4096));
            let gemm = Gemm::<crate::bf16>::new();
            let product = gemm.product(Layout::row_major(a), Layout::row_major(b)).unwrap();
            Task { rows, splits: rows == Rows::Free, ..Task::of(&product, [0; 2]) }
        };
        let auto = |task| choose(&KernelChoice::Auto, &task, &hopper).unwrap().kernel;
        assert!(auto(task(Rows::Alike)).takes_maps());
        assert_eq!(auto(task(Rows::AlikeAndFused)).variant, "k11_tensor_core");
        // As fast as ever.
        let plan = |gemm: Gemm<i8>| {
            let layout = Layout::row_major(Shape::new(3, 4096));
            gemm.plan(&hopper, layout, Layout::row_major(Shape::new(4096, 4096))).unwrap()
        };
        assert_eq!(plan(Gemm::new().batch_invariant(true)), plan(Gemm::new()));
    }

    #[test]
    fn kernels_that_begin_anywhere_are_refused() {
        let [.., hopper, _] = gpus();
        let plan = |kernel: &str, m, n| {
            let (a, b) = (Layout::row_major(Shape::new(m, 512)), Shape::new(512, n));
            let gemm = Gemm::<crate::bf16>::new().kernel(kernel).batch_invariant(true);
            gemm.plan(&hopper, a, Layout::row_major(b))
        };
        // In neither direction are there two rows of tiles, and in both two columns.
        let error = plan("warp_group_128x128", 200, 200).unwrap_err();
        assert!(error.is_unsupported() && error.to_string().contains("200x200"), "{error}");
        assert!(plan("warp_group_128x128", 200, 2000).unwrap().turned);
        // Those that join sums or halves do it by the number of tiles.
        for kernel in ["warp_group_stream_k_64x64", "warp_group_halves_64x64"] {
            let of = |invariant| {
                let gemm = Gemm::<crate::bf16>::new().kernel(kernel).batch_invariant(invariant);
                let layouts = [(100, 512), (512, 400)].map(|(rows, cols)| Shape::new(rows, cols));
                gemm.plan(&hopper, Layout::row_major(layouts[0]), Layout::col_major(layouts[1]))
            };
            assert_eq!(of(false).unwrap().kernel.unwrap().variant, kernel);
            assert!(of(true).unwrap_err().is_unsupported());
        }
        // One column of tiles, and sums in which the order of k is kept.
        assert!(!plan("warp_group_128x128", 100, 128).unwrap().turned);
        let (a, b) = (Layout::row_major(Shape::new(100, 512)), Shape::new(512, 400));
        let fp8 = Gemm::<crate::F8E4M3>::new().kernel("warp_group_128x128").batch_invariant(true);
        assert!(!fp8.plan(&hopper, a, Layout::col_major(b)).unwrap().turned);
        assert!(!plan("warp_group_128x128", 300, 2000).unwrap().turned);
        assert!(!plan("skinny_rows", 5, 2000).unwrap().turned);
        assert_eq!(plan("k11_tensor_core/3", 5, 2000).unwrap().parts, 3);
    }
}
