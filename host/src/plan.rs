//! What a call will do, decided before anything runs: shapes, layouts, the kernel, the device's
//! limits.
//!
//! Everything here is a pure function of shapes, options and a [`DeviceInfo`]; nothing here knows a
//! driver.

use crate::device::DeviceInfo;
use crate::element::{Element, OutputOf, Scalar};
use crate::error::{Error, Kind, Operand};
use gemm_spec::{Activation, DType, Kernel, Launch, Layout, Op, Precision, Shape, is_along_k};
use std::fmt;

mod scaled;
mod transfer;

pub(crate) use scaled::{ScaledProduct, choose_scaled};
pub(crate) use transfer::{Transfer, span, transfer};

/// Which kernel computes a product.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum KernelChoice {
    /// The library chooses by the shape; see [`Plan`].
    #[default]
    Auto,
    /// The variant of that name, one of [`gemm_spec::variants`]: `k02_tiled_16`. The CPU has
    /// none.
    Named(String),
    /// A row of the table of kernels, or one made by hand to ask what its limits are. It is checked
    /// against the device's limits first, and only rows of the table are launched.
    Spec(Kernel),
}

impl From<&str> for KernelChoice {
    /// `auto` is [`KernelChoice::Auto`], everything else a name.
    fn from(name: &str) -> Self {
        match name {
            "auto" => KernelChoice::Auto,
            name => KernelChoice::Named(name.to_string()),
        }
    }
}

/// What a GPU allows of one launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchLimits {
    /// Threads of a block.
    pub threads_per_block: u32,
    /// Threads of a block along x, y, z.
    pub block: [u32; 3],
    /// Blocks of a grid along x, y, z.
    pub grid: [u32; 3],
    /// Bytes of statically declared shared memory of a block.
    pub shared_bytes_per_block: u32,
    /// Bytes of shared memory of a block whose launch asks for it.
    pub shared_bytes_per_block_optin: u32,
}

/// Alpha or beta, in the type of C's scalars.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Factor {
    I32(i32),
    F32(f32),
    F64(f64),
}

impl Factor {
    pub(crate) fn new<S: Scalar>(value: S) -> Self {
        match S::DTYPE {
            DType::I32 => Factor::I32(bytemuck::cast(value)),
            DType::F64 => Factor::F64(bytemuck::cast(value)),
            _ => Factor::F32(bytemuck::cast(value)),
        }
    }

    /// The value as `S`, which is the type that it was made from.
    pub(crate) fn get<S: Scalar>(self) -> S {
        match self {
            Factor::I32(value) => bytemuck::cast(value),
            Factor::F32(value) => bytemuck::cast(value),
            Factor::F64(value) => bytemuck::cast(value),
        }
    }
}

/// A checked product C = alpha * A * B + beta * C, free of its elements' type.
///
/// Transposes are already in the layouts. The trivial cases are folded: `beta` is `None` where C is
/// not read, and `k` is 0 where A and B are not read because alpha is 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Product {
    /// Of A and B.
    pub dtype: DType,
    /// Of C.
    pub output: DType,
    pub precision: Precision,
    /// A: (m, k).
    pub a: Layout,
    /// B: (k, n).
    pub b: Layout,
    /// C: (m, n), or (m, n / 2) where the epilogue takes columns in pairs.
    pub c: Layout,
    /// The products that one sum has.
    pub k: usize,
    pub alpha: Factor,
    pub beta: Option<Factor>,
    /// Its layouts have C's shape, those of what comes before pairs are made of the sums'.
    pub fusion: Fusion,
}

/// The matrices that an epilogue may read.
pub(crate) const SOURCES: usize = 4;

/// The part of an epilogue that is no data; see [`Epilogue`](crate::Epilogue).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Fusion {
    /// Bias and residual, of C's dtype; factors of rows and of columns, of f32.
    pub sources: [Option<Layout>; SOURCES],
    pub amax: bool,
    pub activation: Activation,
    pub gated: bool,
}

impl Fusion {
    /// What the sources are called.
    pub const NAMES: [Operand; SOURCES] =
        [Operand::Bias, Operand::Residual, Operand::RowScale, Operand::ColScale];

    /// The dtypes of the sources, where C's is `output`.
    pub fn dtypes(output: DType) -> [DType; SOURCES] {
        [output, output, DType::F32, DType::F32]
    }

    /// Whether nothing is done.
    pub fn is_none(&self) -> bool {
        *self == Fusion::default()
    }

    /// The columns of C for so many of the sums.
    pub fn cols_of_c(&self, cols: usize) -> usize {
        if self.gated { cols / 2 } else { cols }
    }

    /// With sources repeated to the shape of the sums, the residual to C's; an error where one has
    /// another shape.
    pub fn spread(mut self, sums: Shape) -> Result<Fusion, Error> {
        if self.gated && !sums.cols.is_multiple_of(2) {
            return Err(Error::new(Kind::OddPairs { sums }));
        }
        let c = Shape::new(sums.rows, self.cols_of_c(sums.cols));
        for (i, source) in self.sources.iter_mut().enumerate() {
            let Some(layout) = source else { continue };
            let to = if i == 1 { c } else { sums };
            let found = layout.shape;
            // Factors of rows are one column, those of columns one row.
            let is_factor = [true, true, found.cols == 1, found.rows == 1][i];
            let fits = |found, wanted| found == wanted || found == 1;
            if !(is_factor && fits(found.rows, to.rows) && fits(found.cols, to.cols)) {
                let wanted = match i {
                    2 => Shape::new(to.rows, 1),
                    3 => Shape::new(1, to.cols),
                    _ => to,
                };
                let operand = Fusion::NAMES[i];
                return Err(Error::new(Kind::Source { operand, found, wanted }));
            }
            if found.rows == 1 {
                layout.strides.row = 0;
            }
            if found.cols == 1 {
                layout.strides.col = 0;
            }
            layout.shape = to;
        }
        Ok(self)
    }

    /// The same for the transposed C.
    pub fn transposed(self) -> Fusion {
        let [bias, residual, rows, cols] =
            self.sources.map(|source| source.map(|layout| layout.apply(Op::Transpose)));
        Fusion { sources: [bias, residual, cols, rows], ..self }
    }
}

/// The options of a product; see `Gemm`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Options<S> {
    pub op_a: Op,
    pub op_b: Op,
    pub precision: Precision,
    pub alpha: S,
    pub beta: Option<S>,
}

/// The shape of op(A) * op(B).
pub(crate) fn output_shape(op_a: Op, op_b: Op, a: Layout, b: Layout) -> Result<Shape, Error> {
    let (a, b) = (a.apply(op_a).shape, b.apply(op_b).shape);
    if a.cols != b.rows {
        return Err(Error::new(Kind::Inner { a, b }));
    }
    Ok(Shape::new(a.rows, b.cols))
}

/// How many products each element sums: none where alpha is 0.
pub(crate) fn terms<S: Scalar>(alpha: S, k: usize) -> usize {
    if alpha == S::ZERO { 0 } else { k }
}

impl Product {
    /// Checks shapes and that C's elements lie apart; the layouts already fit their buffers.
    pub(crate) fn new<T: Element, C: OutputOf<T>>(
        options: Options<C::Scalar>,
        [a, b, c]: [Layout; 3],
        fusion: Fusion,
    ) -> Result<Self, Error> {
        let Options { op_a, op_b, precision, alpha, beta } = options;
        let sums = output_shape(op_a, op_b, a, b)?;
        let fusion = fusion.spread(sums)?;
        let product = Shape::new(sums.rows, fusion.cols_of_c(sums.cols));
        if product != c.shape {
            let c = c.shape;
            return Err(Error::new(match fusion.gated {
                true => Kind::Pairs { sums, product, c },
                false => Kind::Output { product, c },
            }));
        }
        if c.overlaps_itself() {
            return Err(Error::new(Kind::Overlap { operand: Operand::C, layout: c }));
        }
        if fusion.gated && beta.is_some() {
            return Err(Error::new(Kind::GatedBeta));
        }
        let (a, b) = (a.apply(op_a), b.apply(op_b));
        let zero = <C::Scalar as Scalar>::ZERO;
        let k = terms(alpha, a.shape.cols);
        Ok(Product {
            dtype: T::DTYPE,
            output: C::DTYPE,
            precision,
            a,
            b,
            c,
            k,
            // With nothing to sum, alpha must not take part: it may be infinite, and the product
            // is 0.
            alpha: Factor::new(if k == 0 { zero } else { alpha }),
            beta: beta.filter(|&beta| beta != zero).map(Factor::new),
            fusion,
        })
    }

    /// The shape of the sums, which is C's unless the epilogue takes columns in pairs.
    pub(crate) fn shape(&self) -> Shape {
        Shape::new(self.a.shape.rows, self.b.shape.cols)
    }
}

/// The rule of [`KernelChoice::Auto`]: for an extent of C from which on they are chosen, the
/// variants in order; the first that has the dtype and runs on the device is taken. C of fewer rows
/// or columns leaves most of a large tile empty.
const AUTO: [(usize, &[&str]); 3] = [
    (64, &["warp_group_128x256"]),
    (
        32,
        &[
            "k11_tensor_deep",
            "k11_tensor_core",
            "k10_grouped_order",
            "k08_double_buffer",
            "k07_warp_tile",
        ],
    ),
    (0, &["k02_tiled_16"]),
];

/// What takes the place of a variant whose tiles of C would leave half of the GPU without work, and
/// of that one in turn.
const FINER: [(&str, &str); 3] = [
    ("warp_group_128x256", "warp_group_128x128"),
    ("warp_group_128x128", "warp_group_64x128"),
    ("warp_group_64x128", "warp_group_64x64"),
];

/// What the choice of a kernel goes by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task {
    pub dtype: DType,
    /// The least that is asked for.
    pub precision: Precision,
    /// Of C.
    pub shape: Shape,
    /// Whether A and B lie along K; see [`GemmParams::a_is_along_k`].
    pub along_k: [bool; 2],
    /// A and B can be described by tensor maps (see [`mappable`]), as far as there is work to do.
    pub maps: bool,
    /// Which of A and B would have to be copied for that, where there is work to do and elements of
    /// that size can be copied.
    pub unmapped: Option<[bool; 2]>,
}

impl Task {
    /// For a C of that shape, sums of `k` products with all digits, and A and B with these layouts
    /// from the device addresses `bases` on.
    pub fn new(
        dtype: DType,
        shape: Shape,
        k: usize,
        operands: [&Layout; 2],
        bases: [u64; 2],
    ) -> Self {
        let [a, b] = operands.map(|layout| layout.strides);
        let along_k = [is_along_k(a.row, a.col), is_along_k(b.col, b.row)];
        let unmapped = [0, 1].map(|i| !mappable(operands[i], dtype, bases[i]));
        let maps = shape.is_empty() || k > 0 && unmapped == [false; 2];
        let unmapped = Some(unmapped).filter(|_| k > 0 && !shape.is_empty());
        let unmapped = unmapped.filter(|_| gemm_spec::repack(dtype).is_some());
        Task { dtype, precision: Precision::Full, shape, along_k, maps, unmapped }
    }

    /// The same where less may do.
    pub fn precision(self, precision: Precision) -> Self {
        Task { precision, ..self }
    }

    /// The instances of a variant that may be taken, for any way of storing the operands: those of
    /// the precision asked for, then those that have more.
    fn instances(&self, variant: &str) -> [Option<&'static Kernel>; 2] {
        [self.precision, Precision::Full]
            .map(|precision| Kernel::find_in(variant, self.dtype, precision))
    }

    /// The instance of a variant for the operands as they are stored.
    fn find(&self, variant: &str) -> Option<&'static Kernel> {
        let find = |precision| Kernel::find_for(variant, self.dtype, precision, self.along_k);
        find(self.precision).or_else(|| find(Precision::Full))
    }
}

/// Whether a tensor map can describe a matrix (CUDA driver API, `cuTensorMapEncodeTiled`): it is
/// contiguous along one extent, and along the other it goes forward by a multiple of 16 bytes, from
/// an address that is one too. The layout's index 0 is at `base`.
pub(crate) fn mappable(layout: &Layout, dtype: DType, base: u64) -> bool {
    let Layout { shape, strides, offset } = *layout;
    let bytes = dtype.size_bytes() as u64;
    let address = base.wrapping_add(bytes.wrapping_mul(offset as u64));
    let stride = match (strides.row, strides.col) {
        (stride, 1) | (1, stride) => u64::try_from(stride).unwrap_or(0).saturating_mul(bytes),
        _ => 0,
    };
    let extents_fit = shape.rows.max(shape.cols) <= i32::MAX as usize;
    let stride_fits = stride > 0 && stride.is_multiple_of(16) && stride < 1 << 40;
    extents_fit && stride_fits && address.is_multiple_of(16)
}

/// A kernel, and which of A and B are copied first, to rows along K.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Chosen {
    pub kernel: &'static Kernel,
    pub copied: [bool; 2],
}

/// The least rows and columns of C for which an operand is copied: the time of the copy goes with
/// the operand, that of the product with C too. A guess until it is measured.
const LEAST_FOR_COPIES: usize = 128;

/// Chooses the kernel for a task as [`choose_kernel`] does. [`KernelChoice::Auto`] takes one that
/// reads tensor maps also where an operand has to be copied for it.
pub(crate) fn choose(
    choice: &KernelChoice,
    task: Task,
    info: &DeviceInfo,
) -> Result<Chosen, Error> {
    let kernel = choose_kernel(choice, task, info)?;
    let plain = Chosen { kernel, copied: [false; 2] };
    let is_large = task.shape.rows.min(task.shape.cols) >= LEAST_FOR_COPIES;
    let Some(unmapped) = task.unmapped.filter(|_| *choice == KernelChoice::Auto && is_large) else {
        return Ok(plain);
    };
    if kernel.takes_maps() {
        return Ok(plain);
    }
    let along_k = task.along_k;
    // No more than has to be; else what does not lie along K too.
    let tries = [unmapped, [0, 1].map(|i| unmapped[i] || !along_k[i])];
    let with_copies = tries.into_iter().find_map(|copied| {
        let along_k = [0, 1].map(|i| copied[i] || along_k[i]);
        let kernel = automatic(Task { along_k, maps: true, ..task }, info)?;
        kernel.takes_maps().then_some(Chosen { kernel, copied })
    });
    Ok(with_copies.unwrap_or(plain))
}

/// Chooses the kernel for a task as it is, and holds it against the device.
///
/// [`KernelChoice::Auto`] follows [`AUTO`].
pub(crate) fn choose_kernel(
    choice: &KernelChoice,
    task: Task,
    info: &DeviceInfo,
) -> Result<&'static Kernel, Error> {
    let Task { dtype, .. } = task;
    let named = |name: &str| {
        task.find(name)
            // Stored otherwise than its instances take them, which the check below says.
            .or_else(|| task.instances(name).into_iter().flatten().next())
            .ok_or_else(|| Error::new(Kind::UnknownKernel { name: name.to_string(), dtype }))
    };
    let kernel = match choice {
        KernelChoice::Auto => automatic(task, info)
            .ok_or_else(|| Error::new(Kind::UnknownKernel { name: "auto".into(), dtype }))?,
        KernelChoice::Named(name) => named(name)?,
        KernelChoice::Spec(kernel) if kernel.launches(Shape::new(0, 0)).is_none() => {
            return Err(Error::new(Kind::ForeignKernel { kernel: *kernel }));
        }
        KernelChoice::Spec(kernel) => {
            check_launch(kernel, task, info)?;
            let row = task.find(kernel.variant).filter(|row| *row == kernel);
            row.ok_or_else(|| Error::new(Kind::ForeignKernel { kernel: *kernel }))?
        }
    };
    check_launch(kernel, task, info)?;
    Ok(kernel)
}

/// The library's choice. Where nothing runs on the device it is the smallest kernel, whose check
/// says so.
fn automatic(task: Task, info: &DeviceInfo) -> Option<&'static Kernel> {
    let shape = task.shape;
    let wide_enough = |&&(least, _): &&(usize, _)| shape.rows.min(shape.cols) >= least;
    let ranked = AUTO.iter().filter(wide_enough).flat_map(|(_, variants)| *variants);
    let kernels = ranked.filter_map(|variant| task.find(variant));
    let smallest = kernels.clone().next_back();
    let runs = |kernel: &&Kernel| check_launch(kernel, task, info).is_ok();
    let kernel = kernels.clone().find(runs).or(smallest)?;
    let finer = |kernel: &&'static Kernel| {
        let (_, fine) = FINER.iter().find(|(coarse, _)| *coarse == kernel.variant)?;
        task.find(fine).filter(|fine| runs(fine) && leaves_idle(kernel, shape, info))
    };
    std::iter::successors(Some(kernel), finer).last()
}

/// Whether half of the GPU's multiprocessors or more get no block.
fn leaves_idle(kernel: &Kernel, shape: Shape, info: &DeviceInfo) -> bool {
    let first = kernel.launches(shape).and_then(|mut launches| launches.next());
    let blocks = first.map_or(0, |launch| u64::from(launch.grid.0) * u64::from(launch.grid.1));
    blocks * 2 <= u64::from(info.multiprocessors.unwrap_or(0))
}

/// Checks a kernel against the device's compute capability and launch limits.
fn check_launch(kernel: &Kernel, task: Task, info: &DeviceInfo) -> Result<(), Error> {
    let shape = task.shape;
    let (Some(has), Some(limits)) = (info.compute_capability, info.launch_limits) else {
        return Err(Error::new(Kind::KernelOnCpu { name: kernel.variant.to_string() }));
    };
    if !kernel.target.runs_on(has) {
        let (device, target) = (info.name.clone(), kernel.target);
        return Err(Error::new(Kind::MissingKernel { kernel: kernel.name, device, target, has }));
    }
    let is_stored_so = shape.is_empty() || kernel.stored.takes(task.along_k);
    if kernel.takes_maps() && !(task.maps && is_stored_so) {
        return Err(Error::new(Kind::NotMappable { kernel: kernel.name }));
    }
    let limit = |what, needed: u128, limit: u32| {
        if needed <= u128::from(limit) {
            return Ok(());
        }
        Err(Error::new(Kind::LaunchLimit {
            kernel: kernel.name,
            shape,
            device: info.name.clone(),
            what,
            needed: u64::try_from(needed).unwrap_or(u64::MAX),
            limit: limit.into(),
        }))
    };
    let (x, y) = kernel.block();
    limit("threads per block", u128::from(x) * u128::from(y), limits.threads_per_block)?;
    limit("threads per block along x", x.into(), limits.block[0])?;
    limit("threads per block along y", y.into(), limits.block[1])?;
    let shared = kernel.shared_bytes() as u128;
    let most = match kernel.dynamic_shared_bytes() {
        0 => limits.shared_bytes_per_block,
        _ => limits.shared_bytes_per_block_optin,
    };
    limit("bytes of shared memory per block", shared, most)?;
    // x is covered by one grid; y is cut into panels.
    let Some(mut launches) = kernel.launches(shape) else {
        let tile = kernel.tiles.block[0].min(kernel.tiles.block[1]);
        let blocks = shape.rows.max(shape.cols).div_ceil(tile) as u128;
        return limit("blocks along x", blocks, limits.grid[0].min(i32::MAX as u32));
    };
    if let Some(first) = launches.next() {
        limit("blocks along x", first.grid.0.into(), limits.grid[0])?;
        limit("blocks along y", first.grid.1.into(), limits.grid[1])?;
    }
    Ok(())
}

/// What a product will run, for display; made by `Gemm::plan`.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Shape of C.
    pub shape: Shape,
    /// Products that one element of C sums.
    pub k: usize,
    /// The kernel, or `None` where the CPU's engine computes.
    pub kernel: Option<&'static Kernel>,
    /// Which of A and B the device copies to rows along K before, because the kernel reads them in
    /// no other way. Where it lacks the memory, a kernel that needs no copies takes the place of
    /// this one.
    pub copied: [bool; 2],
    /// Those of the device, where it has them.
    pub multiprocessors: Option<u32>,
}

impl Plan {
    /// The kernel's launches, one after the other; `None` where the CPU's engine computes.
    pub fn launches(&self) -> Option<impl Iterator<Item = Launch> + use<>> {
        let (kernel, multiprocessors) = (self.kernel?, self.multiprocessors.unwrap_or(u32::MAX));
        let launches = kernel.launches(self.shape)?;
        Some(launches.map(move |launch| kernel.resident(launch, multiprocessors)))
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((kernel, mut launches)) = self.kernel.zip(self.launches()) else {
            return f.write_str("CPU engine");
        };
        match self.copied {
            [true, true] => f.write_str("A and B copied along K, ")?,
            [true, false] => f.write_str("A copied along K, ")?,
            [false, true] => f.write_str("B copied along K, ")?,
            [false, false] => {}
        }
        write!(f, "{}", kernel.name)?;
        if let Some(first) = launches.next() {
            let ((gx, gy), (bx, by)) = (first.grid, first.block);
            write!(f, ", grid {gx}x{gy} of {bx}x{by} threads")?;
            match launches.count() {
                0 => {}
                more => write!(f, " and {more} more panels")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
