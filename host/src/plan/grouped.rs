//! Lists of products that have shapes of their own, in one launch where that is faster.

use super::choose::{Task, check_launch, choose};
use super::model::{Prediction, predict};
use super::{Batch, Factor, KernelChoice, Plan, Product, is_mappable_step, mappable};
use crate::device::DeviceInfo;
use crate::error::{Error, Kind};
use gemm_spec::{DType, Kernel, Layout, Precision, Shape};
use std::ops::Range;

/// The variants for lists, each with the one for one product that has its tiles and its speed.
const OF_LISTS: [(&str, &str); 2] = [
    ("warp_group_grouped_128x256", "warp_group_128x256"),
    ("warp_group_grouped_128x128", "warp_group_128x128"),
];

/// What a list of products will run; made by [`Gemm::plan_grouped`](crate::Gemm::plan_grouped).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct GroupedPlan {
    /// The kernel that computes the whole list, or `None` where products are computed one after the
    /// other.
    pub kernel: Option<&'static Kernel>,
    /// How long the list takes, as [`Prediction::total`] has it of one product.
    pub microseconds: f64,
    /// What each product would run alone, and does where there is no kernel for the list.
    pub plans: Vec<Plan>,
}

/// A list as the kernel takes it: the products that have something to compute, the longest sums
/// first, and their numbers in the list.
#[derive(Clone, Debug)]
pub(crate) struct Grouped {
    pub kernel: &'static Kernel,
    pub products: Vec<(usize, Product)>,
    /// Whether they are the transposed ones.
    pub turned: bool,
    pub prediction: Prediction,
}

/// The way to compute a list in one launch; `None` where products go one by one: where the kernel
/// does not take all of them, or is not faster. `bases` are the addresses of index 0 of the layouts
/// of A and B.
///
/// # Errors
/// Where the kernel for lists was chosen by name, and does not take this one.
pub(crate) fn group(
    choice: &KernelChoice,
    products: &[Product],
    bases: &[[u64; 2]],
    info: &DeviceInfo,
) -> Result<Option<Grouped>, Error> {
    let is_named = is_of_lists(choice);
    if *choice != KernelChoice::Auto && !is_named {
        return Ok(None);
    }
    let has_work = |(number, product): (usize, &Product)| {
        (!product.shape().is_empty()).then_some((number, *product))
    };
    let work: Vec<_> = products.iter().enumerate().filter_map(has_work).collect();
    let way = |turned| oriented(&work, (bases, turned), choice, info);
    match [false, true].into_iter().find_map(way) {
        Some(grouped) if is_named => Ok(Some(grouped)),
        Some(grouped) => Ok(Some(grouped).filter(|of| work.len() > 1 && of.is_faster(info))),
        None if is_named => {
            let first = |of: &Product| gemm_spec::grouped(of.dtype, [true; 2]).next();
            match products.first().map(first) {
                // A list without a product, or without an element of C.
                None => Ok(None),
                Some(Some(kernel)) if work.is_empty() => Ok(Some(Grouped {
                    kernel,
                    products: Vec::new(),
                    turned: false,
                    prediction: Prediction::default(),
                })),
                Some(_) => Err(Error::new(Kind::NotGrouped)),
            }
        }
        None => Ok(None),
    }
}

/// Whether the choice is a kernel for lists.
fn is_of_lists(choice: &KernelChoice) -> bool {
    match choice {
        KernelChoice::Named(name) => OF_LISTS.iter().any(|(variant, _)| name == variant),
        KernelChoice::Spec(kernel) => {
            let all = [[true, true], [true, false]];
            let rows = all.into_iter().flat_map(|of| gemm_spec::grouped(kernel.dtype, of));
            rows.into_iter().any(|row| row == kernel)
        }
        _ => false,
    }
}

/// Whether a choice leaves it to that kernel.
fn allows(choice: &KernelChoice, kernel: &Kernel) -> bool {
    match choice {
        KernelChoice::Named(name) => name == kernel.variant,
        KernelChoice::Spec(of) => of == kernel,
        _ => true,
    }
}

/// The list, or that of the transposed products, where the kernel takes it.
fn oriented(
    work: &[(usize, Product)],
    (bases, turned): (&[[u64; 2]], bool),
    choice: &KernelChoice,
    info: &DeviceInfo,
) -> Option<Grouped> {
    let of = |&(number, product): &(usize, Product)| (number, product.turned_if(turned));
    let mut products: Vec<_> = work.iter().map(of).collect();
    // Blocks that have the longest sums last would keep all others waiting.
    products.sort_by_key(|(_, product)| std::cmp::Reverse(product.k));
    let task = |&(number, ref product): &(usize, Product)| {
        let [a, b] = bases[number];
        Task::of(product, if turned { [b, a] } else { [a, b] })
    };
    let (_, longest) = products.first().filter(|(_, product)| product.k > 0)?;
    let tasks: Vec<_> = products.iter().map(task).collect();
    let along_k = tasks[0].along_k;
    let (kernel, prediction) = fastest(choice, &tasks, info)?;
    let is_taken = |((_, product), task): (&(usize, Product), &Task)| {
        let is_plain = product.fusion.is_none() && product.batch.count == 1;
        let is_free = !product.batch_invariant;
        // Of an empty sum nothing is read.
        let is_stored = product.k == 0 || task.maps && task.along_k == along_k;
        let task = Task { maps: true, along_k, ..*task };
        is_plain && is_free && is_stored && check_launch(kernel, &task, info).is_ok()
    };
    let has_empty_sums = products.iter().any(|(_, product)| product.k == 0);
    let tiles = products.iter().map(|(_, product)| blocks(kernel, product.shape()));
    let is_countable = tiles.fold(0, usize::saturating_add) <= i32::MAX as usize;
    // What an empty sum is multiplied by must not make it NaN.
    let stays_finite = !has_empty_sums || is_finite(longest.alpha);
    let takes_all = products.iter().zip(&tasks).all(is_taken);
    (takes_all && is_countable && stays_finite).then_some(Grouped {
        kernel,
        products,
        turned,
        prediction,
    })
}

fn is_finite(factor: Factor) -> bool {
    match factor {
        Factor::I32(_) => true,
        Factor::F32(x) => x.is_finite(),
        Factor::F64(x) => x.is_finite(),
    }
}

/// Blocks for a C of that shape, in whole clusters.
pub(crate) fn blocks(kernel: &Kernel, shape: Shape) -> usize {
    let [rows, cols, _] = kernel.tiles.block;
    let down = shape.rows.div_ceil(rows).next_multiple_of(kernel.cluster());
    down.saturating_mul(shape.cols.div_ceil(cols))
}

impl Grouped {
    /// Whether the list is predicted to take less time than its products, one after the other.
    fn is_faster(&self, info: &DeviceInfo) -> bool {
        let alone = |(_, product): &(usize, Product)| {
            let chosen = choose(&KernelChoice::Auto, &Task::of(product, [0, 0]), info);
            chosen.map_or(f64::INFINITY, |chosen| chosen.prediction.total())
        };
        self.prediction.total() <= self.products.iter().map(alone).sum()
    }
}

/// The kernel that is predicted to take the least time for the tasks, of those that a choice
/// leaves, for operands that lie as the first task's do.
fn fastest(
    choice: &KernelChoice,
    tasks: &[Task],
    info: &DeviceInfo,
) -> Option<(&'static Kernel, Prediction)> {
    let first = tasks.first()?;
    let kernels = gemm_spec::grouped(first.dtype, first.along_k);
    let kernels = kernels.filter(|kernel| allows(choice, kernel));
    let with_time = kernels.map(|kernel| (kernel, of_list(kernel, tasks, info)));
    with_time.min_by(|(_, one), (_, other)| one.total().total_cmp(&other.total()))
}

/// What a list takes by a kernel: its products' time where they leave no multiprocessor idle, at
/// least that of the longest.
fn of_list(kernel: &Kernel, tasks: &[Task], info: &DeviceInfo) -> Prediction {
    let mut list = Prediction::default();
    let mut longest = [0.0f64; 2];
    let like = OF_LISTS.iter().find(|(variant, _)| *variant == kernel.variant);
    for task in tasks {
        let like = like.and_then(|(_, like)| {
            Kernel::find_for(like, task.dtype, Precision::Full, task.along_k)
        });
        // There is one but for empty sums, which take next to nothing.
        let Some(like) = like else { continue };
        // Each reads operands of its own.
        let task = Task { shared: [false; 2], ..*task };
        let of = |batch| predict(like, [false; 2], 1, &Task { batch, ..task }, info);
        let alone = of(1);
        // As many of it as fill whole waves.
        let many = info.multiprocessors.unwrap_or(1).max(1) as usize;
        let part = of(many);
        list.multiplying += part.multiplying / many as f64;
        list.memory += part.memory / many as f64;
        longest = [longest[0].max(alone.multiplying), longest[1].max(alone.memory)];
        (list.launches, list.visible) = (alone.launches, alone.visible);
    }
    list.multiplying = list.multiplying.max(longest[0]);
    list.memory = list.memory.max(longest[1]);
    list
}

/// Rows of one A and one C that belong to products one behind the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowsProduct {
    /// All rows; B is the first product's.
    pub product: Product,
    /// Products.
    pub count: usize,
    /// Elements from B to the next product's B.
    pub b_step: isize,
    /// Index of the first offset in its memory.
    pub first_offset: usize,
}

impl RowsProduct {
    /// The products for these offsets, as many as there are.
    pub fn products(&self, offsets: &[i32]) -> Vec<Product> {
        let of = |(number, rows): (usize, Range<usize>)| {
            let Product { a, b, c, .. } = self.product;
            let part = |of: Layout| Layout {
                shape: Shape::new(rows.len(), of.shape.cols),
                ..Batch::layout(of, of.strides.row, rows.start)
            };
            Product {
                a: part(a),
                b: Batch::layout(b, self.b_step, number),
                c: part(c),
                ..self.product
            }
        };
        self.ranges(&offsets[..=self.count]).into_iter().enumerate().map(of).collect()
    }

    /// The rows of each product for these offsets: each offset counts as the nearest that lies in
    /// the rows and before none of a smaller number.
    fn ranges(&self, offsets: &[i32]) -> Vec<Range<usize>> {
        let mut reached = 0;
        let all = self.product.c.shape.rows;
        let of = |&offset: &i32| {
            reached = usize::try_from(offset).unwrap_or(0).min(all).max(reached);
            reached
        };
        let ends: Vec<usize> = offsets.iter().map(of).collect();
        ends.windows(2).map(|pair| pair[0]..pair[1]).collect()
    }
}

/// The kernel that computes the products from offsets on the device, and their rows as it takes
/// them. Bases are the addresses of index 0 of A and B.
///
/// # Errors
/// Where there is none for them, or the device does not run it.
pub(crate) fn choose_rows(
    choice: &KernelChoice,
    rows: &RowsProduct,
    bases: [u64; 2],
    info: &DeviceInfo,
) -> Result<(&'static Kernel, Product), Error> {
    let (dtype, none) = (rows.product.dtype, || Error::new(Kind::NotGrouped));
    match choice {
        KernelChoice::Auto => {}
        _ if is_of_lists(choice) => {}
        KernelChoice::Named(variant)
        | KernelChoice::Split { variant, .. }
        | KernelChoice::Planned { variant, .. } => {
            let name = variant.clone();
            return Err(Error::new(Kind::UngroupedKernel { name, kernels: variants() }));
        }
        KernelChoice::Spec(kernel) => {
            return Err(Error::new(Kind::ForeignKernel { kernel: *kernel }));
        }
        KernelChoice::Own(own) => {
            let name = own.kernel().name.to_string();
            return Err(Error::new(Kind::UngroupedKernel { name, kernels: variants() }));
        }
    }
    let product = rows.product.turned_if(false);
    let task = Task::of(&product, bases);
    // Of empty sums nothing is read.
    let along_k = if product.k == 0 { [true; 2] } else { task.along_k };
    // Nobody knows the offsets here: all products may have as many rows.
    let rows_each = product.shape().rows.div_ceil(rows.count.max(1));
    let shape = Shape::new(rows_each, product.shape().cols);
    let typical = vec![Task { shape, along_k, ..task }; rows.count.clamp(1, 64)];
    let (kernel, _) = fastest(choice, &typical, info).ok_or_else(none)?;
    let maps = product.k == 0
        || is_mappable_step(rows.count, dtype, rows.b_step)
            && mappable(&product.a, dtype, bases[0])
            && mappable(&product.b, dtype, bases[1]);
    // The kernel's numbers of rows and tiles.
    let tiles = blocks(kernel, product.shape()).saturating_add(
        rows.count.saturating_mul(blocks(kernel, Shape::new(1, product.shape().cols))),
    );
    if product.batch_invariant || tiles > i32::MAX as usize || rows.count >= i32::MAX as usize {
        return Err(none());
    }
    check_launch(kernel, &Task { along_k, maps, ..task }, info)?;
    Ok((kernel, product))
}

/// Dtypes of A and B for which there are kernels for lists.
pub(crate) fn dtypes() -> impl Iterator<Item = DType> {
    let has = |dtype: &DType| gemm_spec::grouped(*dtype, [true; 2]).next().is_some();
    [DType::F16, DType::BF16].into_iter().filter(has)
}

/// The names of the kernels for lists.
fn variants() -> String {
    OF_LISTS.map(|(variant, _)| variant).join(", ")
}

#[cfg(test)]
mod tests;
