//! The last rows or columns of a C that fills the GPU some times and a little more: computed apart,
//! where they would be a wave of their own in which most multiprocessors have nothing to do, or as
//! many blocks as others where K is in parts.

use super::choose::{Chosen, Task, instance};
use super::floor::Floor;
use super::invariant::is_for_sums_alone;
use super::model::{Prediction, blocks_at_once, predict, splits};
use super::variants::candidates_of;
use super::{FEW, Fusion, KernelChoice, Product};
use crate::device::DeviceInfo;
use crate::error::Error;
use gemm_spec::{Kernel, KernelFamily, Layout, Shape};
use std::ops::Range;

/// What part of its time a product has to keep, at most, for two launches to be worth it.
const WORTH: f64 = 0.99;

/// The rows or columns of C, as the kernel takes it, that another kernel computes, or that one with
/// K in parts.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Rest {
    /// Whether they are rows; else columns.
    pub of_rows: bool,
    /// The first of them.
    pub from: usize,
    /// What computes them.
    pub kernel: &'static Kernel,
    /// Parts of their K, as [`Plan::parts`](crate::Plan::parts).
    pub parts: usize,
    /// Whether they are computed as those of the transposed C: few columns as few rows, as
    /// [`Plan::turned`](crate::Plan::turned).
    pub turned: bool,
}

impl Rest {
    /// The shape of what is left to the plan's kernel, of a C of that shape, and its own, as its
    /// kernel takes it.
    pub(crate) fn split(&self, shape: Shape) -> [Shape; 2] {
        let [main, rest] = split(self.of_rows, self.from, shape);
        [main, if self.turned { rest.transposed() } else { rest }]
    }

    /// The products of what is left, and of its own rows or columns, as its kernel takes it.
    pub(crate) fn products(&self, product: &Product) -> [Product; 2] {
        let Shape { rows, cols } = product.shape();
        let [main, rest] = match self.of_rows {
            true => [0..self.from, self.from..rows].map(|rows| product.block(rows, 0..cols)),
            false => [0..self.from, self.from..cols].map(|cols| product.block(0..rows, cols)),
        };
        [main, if self.turned { rest.turned_if(true) } else { rest }]
    }
}

fn split(of_rows: bool, from: usize, Shape { rows, cols }: Shape) -> [Shape; 2] {
    match of_rows {
        true => [from, rows.saturating_sub(from)].map(|rows| Shape::new(rows, cols)),
        false => [from, cols.saturating_sub(from)].map(|cols| Shape::new(rows, cols)),
    }
}

impl Product {
    /// The product of these rows and columns of C alone; columns of sums, of which an epilogue
    /// takes pairs together.
    fn block(&self, rows: Range<usize>, cols: Range<usize>) -> Product {
        let part = |layout: Layout, rows: &Range<usize>, cols: &Range<usize>| {
            let start = (rows.start as isize).wrapping_mul(layout.strides.row);
            let start = start.wrapping_add((cols.start as isize).wrapping_mul(layout.strides.col));
            let shape = Shape::new(rows.len(), cols.len());
            Layout { shape, offset: layout.offset.wrapping_add_signed(start), ..layout }
        };
        let all = 0..self.a.shape.cols;
        let of_c = self.fusion.cols_of_c(cols.start)..self.fusion.cols_of_c(cols.end);
        let [bias, residual, row_scale, col_scale] = self.fusion.sources;
        let of_sums = |source: Option<Layout>| source.map(|layout| part(layout, &rows, &cols));
        let residual = residual.map(|layout| part(layout, &rows, &of_c));
        let sources = [of_sums(bias), residual, of_sums(row_scale), of_sums(col_scale)];
        Product {
            a: part(self.a, &rows, &all),
            b: part(self.b, &all, &cols),
            c: part(self.c, &rows, &of_c),
            fusion: Fusion { sources, ..self.fusion },
            ..*self
        }
    }
}

impl Chosen {
    /// The same with a [`Rest`], where that is faster.
    pub(super) fn cut(self, task: &Task, info: &DeviceInfo) -> Chosen {
        self.cut_below(f64::INFINITY, task, info).unwrap_or(self)
    }

    /// The same with a [`Rest`], where that is faster and takes less than `most` microseconds.
    pub(super) fn cut_below(&self, most: f64, task: &Task, info: &DeviceInfo) -> Option<Chosen> {
        let mut most = most.min(WORTH * self.prediction.total());
        let mut best = None;
        for of_rows in [true, false] {
            if let Some(cut) = self.cut_at(of_rows, most, task, info) {
                most = cut.prediction.total();
                best = Some(cut);
            }
        }
        best
    }

    /// The same with the rest that whole waves leave, or whole tiles where K is in parts; `None`
    /// where there is none, and where it all takes `most` microseconds or more.
    fn cut_at(&self, of_rows: bool, most: f64, task: &Task, info: &DeviceInfo) -> Option<Chosen> {
        let Chosen { kernel, copied, parts, prediction: whole, .. } = *self;
        // Nobody else reads copies of split elements.
        let is_whole = kernel.joins()
            || kernel.parts_of_cluster() > 1
            || kernel.swaps_operands()
            || kernel.splits_elements();
        if is_whole || !task.splits || task.whole {
            return None;
        }
        let from = match parts {
            1 => waves(kernel, of_rows, task, info)?,
            _ => whole_tiles(kernel, of_rows, task)?,
        };
        let [main, rest] = split(of_rows, from, task.shape);
        // As the kernels find the operands.
        let task = task.after_copies(kernel, copied);
        let own = predict(kernel, [false; 2], parts, &Task { shape: main, ..task }, info);
        let own = Prediction { launches: whole.launches, copies: whole.copies, ..own };
        // Few columns are few rows. On tensor cores either are little work, by a kernel that begins
        // while this one ends, which those for few rows do not.
        let is_few = rest.cols <= FEW && rest.cols < rest.rows;
        let on_tensor_cores = kernel.takes_maps() || kernel.family == KernelFamily::TensorCore;
        let turned = is_few && !on_tensor_cores;
        let task = Task { shape: rest, unmapped: None, ..task };
        let task = if turned { task.turned() } else { task };
        // Parts of both would need memory, of which the second may find none.
        let task = Task { splits: parts == 1, whole: true, ..task };
        let rest = fastest(&task, kernel.takes_maps(), most - own.total(), info)?;
        let prediction = Prediction { rest: rest.prediction.total(), ..own };
        let rest = Rest { of_rows, from, kernel: rest.kernel, parts: rest.parts, turned };
        // Of equals, as rounded, the first.
        (prediction.total() < most).then_some(Chosen { rest: Some(rest), prediction, ..*self })
    }
}

/// What `choose` says of a task, for a product of it: where its epilogue needs all sums in memory,
/// so that nothing may be apart, the best of what is whole.
pub(crate) fn choose_for(
    product: &Product,
    choice: &KernelChoice,
    task: &Task,
    choose: impl Fn(&Task) -> Result<Chosen, Error>,
) -> Result<Chosen, Error> {
    let is_fused = !product.fusion.is_none() && *choice == KernelChoice::Auto;
    let task = Task { fused: is_fused.then_some(product.fusion.activation), ..*task };
    let chosen = choose(&task)?;
    let in_memory = is_fused && !chosen.kernel.has_epilogues();
    match chosen.rest.is_some() && in_memory {
        true => choose(&Task { whole: true, ..task }),
        false => Ok(chosen),
    }
}

/// Where the rows or columns begin that a kernel's whole waves leave, if there are any.
fn waves(kernel: &Kernel, of_rows: bool, task: &Task, info: &DeviceInfo) -> Option<usize> {
    info.multiprocessors?;
    // Kernels of which the second begins while the first one ends.
    let of_waves =
        matches!(kernel.family, KernelFamily::TensorCore | KernelFamily::WarpSpecialized);
    if !(kernel.takes_maps() || of_waves && kernel.overlaps()) {
        return None;
    }
    let ([rows, cols, _], [down, across]) = (kernel.tiles.block, kernel.cluster_tiles());
    let at_once = kernel.clusters_at_once(info.places()) as usize * blocks_at_once(kernel);
    let (rows, cols) = (rows * down, cols * across);
    let (down, across) = (task.shape.rows.div_ceil(rows), task.shape.cols.div_ceil(cols));
    let full = down.checked_mul(across)? / at_once * at_once;
    let (from, extent) = match of_rows {
        true => (full / across.max(1) * rows, task.shape.rows),
        false => (full / down.max(1) * cols, task.shape.cols),
    };
    (from > 0 && from < extent).then_some(from)
}

/// Where the few rows or columns begin that whole tiles leave, of kernels of threads: with K in
/// parts their tiles would be as many blocks as others.
fn whole_tiles(kernel: &Kernel, of_rows: bool, task: &Task) -> Option<usize> {
    let of_threads =
        matches!(kernel.family, KernelFamily::GroupedOrder | KernelFamily::WarpSpecialized);
    let [rows, cols, _] = kernel.tiles.block;
    let (tile, extent) = match of_rows {
        true => (rows, task.shape.rows),
        false => (cols, task.shape.cols),
    };
    let from = extent / tile * tile;
    (of_threads && from > 0 && from < extent && extent - from <= FEW).then_some(from)
}

/// The fastest way to compute a task as it is by kernels that take maps, or by others, in less than
/// `most` microseconds.
fn fastest(task: &Task, maps: bool, mut most: f64, info: &DeviceInfo) -> Option<Chosen> {
    let mut best = None;
    if most <= Floor::OF_ALL {
        return best;
    }
    let floor = Floor::new(task, info);
    for variant in candidates_of(task.dtype).filter(|variant| !variant.is_left_out(task, info)) {
        let least = variant.least(&floor);
        let kernel = (least.all() < most).then(|| instance(variant, [false; 2], task, info));
        let is_of_use = |kernel: &&Kernel| {
            kernel.takes_maps() == maps
                && !kernel.takes_steps_in_turn()
                && !kernel.swaps_operands()
                && !is_for_sums_alone(kernel)
        };
        let Some(kernel) = kernel.flatten().filter(is_of_use) else { continue };
        for parts in splits(kernel, task, info) {
            let least = match parts {
                1 => least.whole,
                _ if task.splits => floor.of_parts(kernel, parts),
                _ => break,
            };
            if least >= most {
                continue;
            }
            let way = Chosen::new(kernel, [false; 2], parts, task, info);
            if way.prediction.total() < most {
                most = way.prediction.total();
                best = Some(way);
            }
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulator::Options;
    use crate::emulator::faults::each_call_fails_on;
    use crate::plan::choose;
    use crate::{Activation, Device, Element, Gemm, HostEpilogue, Matrix, Op, OutputOf};
    use crate::{bf16, random};
    use std::fmt::Debug;

    type Sizes = (usize, usize, usize);

    /// Rows or columns, from which on, by what, and parts of K.
    type Apart = (bool, usize, &'static str, usize);

    /// An emulated device that computes the rest of such a product apart.
    fn device(product: &Product, copied: [bool; 2], apart: Apart) -> Device {
        let (of_rows, from, variant, parts) = apart;
        device_of(product, ("warp_group_64x64", copied, 1), |task, own| {
            let kernel = task.after_copies(own, copied).find(variant).unwrap();
            Rest { of_rows, from, kernel, parts, turned: false }
        })
    }

    /// The same, with the product itself by that variant, those copies, and K in parts.
    fn device_of(
        product: &Product,
        (variant, copied, parts): (&str, [bool; 2], usize),
        rest: impl FnOnce(&Task, &'static Kernel) -> Rest,
    ) -> Device {
        let device = Device::emulator_with(&Options { threads: 2, ..Options::default() }).unwrap();
        let (product, turned) = product.oriented(&KernelChoice::Auto, device.info());
        assert!(!turned);
        let task = Task::of(&product, [0, 0]);
        let planned = KernelChoice::Planned { variant: variant.into(), copied, parts };
        let own = choose(&planned, &task, device.info()).unwrap();
        let rest = Some(rest(&task, own.kernel));
        device
            .backend
            .plans()
            .unwrap()
            .tune([(task, Chosen { rest, ..own })].into_iter().collect());
        device
    }

    fn integers<T: Element>(rows: usize, cols: usize, seed: u64) -> Matrix<T> {
        random::integers(Shape::new(rows, cols), seed, -3..=3).unwrap()
    }

    /// 2 op(A) op(B) - C is the CPU's, exactly.
    fn check<C>((m, n, k): Sizes, ops: [Op; 2], copied: [bool; 2], apart: Apart)
    where
        C: OutputOf<bf16> + Element<Scalar = f32> + Debug,
    {
        let stored = |op, rows, cols, seed| match op {
            Op::None => integers::<bf16>(rows, cols, seed),
            Op::Transpose => integers(cols, rows, seed),
        };
        let (a, b) = (stored(ops[0], m, k, 1), stored(ops[1], k, n, 2));
        let gemm = Gemm::<bf16, C>::default().op_a(ops[0]).op_b(ops[1]).alpha(2.0);
        let product = gemm.product(a.view().layout(), b.view().layout()).unwrap();
        let device = device(&product, copied, apart);
        assert!(
            gemm.plan_on(&device, a.view().layout(), b.view().layout()).unwrap().rest.is_some()
        );
        let gemm = gemm.beta(-1.0);
        let c = integers::<C>(m, n, 3);
        let (mut expected, mut found) = (c.clone(), c);
        gemm.run_into(&Device::cpu(), &a, &b, &mut expected).unwrap();
        gemm.run_into(&device, &a, &b, &mut found).unwrap();
        assert!(found == expected, "{m}x{n}x{k} {ops:?} {apart:?}");
    }

    const NN: [Op; 2] = [Op::None; 2];
    const NT: [Op; 2] = [Op::None, Op::Transpose];
    const TN: [Op; 2] = [Op::Transpose, Op::None];
    const TT: [Op; 2] = [Op::Transpose; 2];

    #[test]
    fn rows_and_columns_are_apart() {
        let no = [false; 2];
        check::<bf16>((136, 136, 136), NN, no, (true, 128, "warp_group_64x64", 2));
        check::<f32>((136, 136, 136), NT, no, (false, 64, "warp_group_64x128", 1));
        check::<bf16>((136, 136, 136), TN, no, (true, 64, "warp_group_128x128", 1));
        check::<f32>((136, 136, 136), TT, no, (false, 128, "warp_group_64x64", 2));
    }

    #[test]
    fn copies_are_both_ones() {
        check::<bf16>((67, 131, 133), NN, [true; 2], (true, 64, "warp_group_64x64", 2));
        check::<f32>((65, 129, 136), NN, [false, true], (false, 128, "warp_group_64x64", 1));
    }

    /// K in parts, of the product itself: of f32, whose last columns are few rows.
    #[test]
    fn parts_come_before_what_is_apart() {
        let (m, n, k) = (130, 131, 96);
        let (a, b, c) = (integers::<f32>(m, k, 1), integers::<f32>(k, n, 2), integers(m, n, 3));
        let gemm = Gemm::<f32>::new().alpha(2.0);
        let product = gemm.product(a.view().layout(), b.view().layout()).unwrap();
        let device = device_of(&product, ("k10_grouped_order", [false; 2], 3), |task, _| {
            let kernel = Task { shape: Shape::new(m, 3), ..*task }.turned().find("skinny_rows");
            Rest { of_rows: false, from: 128, kernel: kernel.unwrap(), parts: 1, turned: true }
        });
        assert!(
            gemm.plan_on(&device, a.view().layout(), b.view().layout()).unwrap().rest.is_some()
        );
        let gemm = gemm.beta(-1.0);
        let (mut expected, mut found): (Matrix<f32>, _) = (c.clone(), c);
        gemm.run_into(&Device::cpu(), &a, &b, &mut expected).unwrap();
        gemm.run_into(&device, &a, &b, &mut found).unwrap();
        assert!(found == expected);
        // Where there is no memory for the parts, nothing has been written to C.
        let failed = each_call_fails_on::<f32>(&device, Shape::new(m, n), &|device, c| {
            gemm.run_into(device, &a, &b, c)
        });
        assert_eq!(failed["overcome"], 1, "{failed:?}");
    }

    /// An epilogue that needs all sums in memory gets the best of what is whole.
    #[test]
    fn nothing_is_apart_from_sums_in_memory() {
        let device = Device::emulator((9, 0)).unwrap();
        let (a, b) = (integers::<f32>(1021, 1033, 1), integers::<f32>(1033, 1031, 2));
        let gemm = Gemm::<f32>::new();
        let product = gemm.product(a.view().layout(), b.view().layout()).unwrap();
        let sources = [Some(Layout::row_major(product.shape())), None, None, None];
        let layer = Product { fusion: Fusion { sources, ..Fusion::default() }, ..product };
        let [plain, fused] = [product, layer].map(|product| {
            let (auto, task) = (KernelChoice::Auto, Task::of(&product, [0, 0]));
            choose_for(&product, &auto, &task, |task| choose(&auto, task, device.info())).unwrap()
        });
        assert!(plain.rest.is_some() && fused.rest.is_none());
        assert_eq!((plain.parts, fused.parts), (4, 3));
    }

    /// The model takes such a plan where whole tiles fill the GPU and one more row is too many.
    #[test]
    fn a_few_columns_more_are_apart_from_parts() {
        let device = Device::emulator((9, 0)).unwrap();
        let (a, b) = (integers::<f32>(1021, 1033, 1), integers::<f32>(1033, 1031, 2));
        let plan = Gemm::<f32>::new().plan_on(&device, a.view().layout(), b.view().layout());
        let plan = plan.unwrap();
        let rest = plan.rest.unwrap();
        assert!(plan.parts > 1 && rest.parts == 1 && rest.turned && !rest.of_rows, "{plan}");
        assert_eq!(rest.from, 1024);
    }

    /// Those of the kernel, and those for which sums go to memory.
    #[test]
    fn epilogues_have_their_parts_of_what_they_read() {
        let (m, n, k) = (80, 136, 64);
        let (a, b) = (integers::<bf16>(m, k, 1), integers::<bf16>(k, n, 2));
        let bias = integers::<bf16>(1, n, 3);
        let residual = integers::<bf16>(m, n, 4);
        let gemm = Gemm::<bf16>::new();
        let product = gemm.product(a.view().layout(), b.view().layout()).unwrap();
        for apart in [(true, 64, "warp_group_64x64", 1), (false, 64, "warp_group_64x64", 1)] {
            let devices = [Device::cpu(), device(&product, [false; 2], apart)];
            for with_residual in [false, true] {
                let [expected, found] = devices.each_ref().map(|device| {
                    let layer = HostEpilogue::new().bias(&bias).activation(Activation::Relu);
                    let layer = if with_residual { layer.residual(&residual) } else { layer };
                    gemm.fused(layer).run(device, &a, &b).unwrap()
                });
                assert!(found == expected, "{apart:?}, residual {with_residual}");
            }
        }
    }
}
