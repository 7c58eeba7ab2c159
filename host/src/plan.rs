//! What a call will do, decided before anything runs: shapes, layouts, the kernel, the device's
//! limits.
//!
//! Everything here is a pure function of shapes, options and a [`DeviceInfo`]; nothing here knows a
//! driver.

use crate::device::DeviceInfo;
use crate::element::{Element, OutputOf, Scalar};
use crate::error::{Error, Kind, Operand};
use crate::own::{self, OwnKernel};
use gemm_spec::{
    Activation, DType, Kernel, Launch, Layout, MAX_GRID_Y, Op, Places, Precision, Reads, Shape,
    Strides, ThreadOrder, Writes,
};
use std::{fmt, ops::Range};

mod batch;
mod by_rows;
mod cache;
mod choose;
mod factor;
mod floor;
mod grouped;
mod invariant;
mod maps;
mod model;
mod rest;
mod scaled;
mod speed;
mod transfer;
mod variants;
mod waiting;

pub use batch::Batch;
pub(crate) use batch::{check_batch, is_mappable_step, is_near_step};
pub(crate) use cache::{Found, PlanCache};
pub(crate) use choose::{Chosen, Task, candidates, choose};
pub(crate) use factor::Factor;
pub use grouped::GroupedPlan;
pub(crate) use grouped::{RowsProduct, blocks, choose_rows, dtypes as grouped_dtypes, group};
pub(crate) use invariant::Rows;
pub(crate) use maps::mappable;
pub use model::Prediction;
pub(crate) use model::part_len;
pub use rest::Rest;
pub(crate) use rest::choose_for;
pub(crate) use scaled::{ScaledProduct, choose_scaled};
pub(crate) use transfer::{Transfer, span, transfer};

/// Which kernel computes a product.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum KernelChoice {
    /// The library chooses by the shape; see [`Plan`].
    #[default]
    Auto,
    /// The variant of that name, one of [`gemm_spec::variants`]: `k02_tiled_16`. The CPU has
    /// none.
    Named(String),
    /// That variant, with K split into so many parts, or as many as there are steps along K. Each
    /// part is summed by blocks of its own, and the sums are added in an order that the plan fixes.
    /// Read from `k02_tiled_16/4`.
    Split {
        /// As in [`KernelChoice::Named`].
        variant: String,
        /// Parts; of 0 and of 1 there is one.
        parts: usize,
    },
    /// A plan of [`Gemm::plans`](crate::Gemm::plans), of which this is made by `into()`: that
    /// kernel, with those copies of operands, so many parts of K and the [`Plan::rest`] that
    /// follows from them, and nothing in its place.
    Planned {
        /// As in [`KernelChoice::Named`].
        variant: String,
        /// As [`Plan::copied`].
        copied: [bool; 2],
        /// As [`Plan::parts`].
        parts: usize,
    },
    /// A row of the table of kernels, or one made by hand to ask what its limits are. It is checked
    /// against the device's limits first, and only rows of the table are launched.
    Spec(Kernel),
    /// A kernel of another crate.
    Own(OwnKernel),
}

impl From<&str> for KernelChoice {
    /// `auto` is [`KernelChoice::Auto`], a name with a number behind a slash is
    /// [`KernelChoice::Split`], everything else a name.
    fn from(name: &str) -> Self {
        match name {
            "auto" => KernelChoice::Auto,
            name => match name.rsplit_once('/').map(|(name, parts)| (name, parts.parse())) {
                Some((name, Ok(parts))) => KernelChoice::Split { variant: name.into(), parts },
                _ => KernelChoice::Named(name.to_string()),
            },
        }
    }
}

impl From<OwnKernel> for KernelChoice {
    fn from(own: OwnKernel) -> Self {
        KernelChoice::Own(own)
    }
}

impl From<&Plan> for KernelChoice {
    /// [`KernelChoice::Planned`]; [`KernelChoice::Auto`] for the CPU's engine. A plan does not have
    /// the arguments of an [`OwnKernel`]: of its row [`KernelChoice::Spec`], which is refused.
    fn from(plan: &Plan) -> Self {
        match plan.kernel {
            None => KernelChoice::Auto,
            Some(kernel) if own::ptx_of(kernel).is_some() => KernelChoice::Spec(*kernel),
            Some(kernel) => KernelChoice::Planned {
                variant: kernel.variant.into(),
                copied: plan.copied,
                parts: plan.parts,
            },
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

/// A checked product C = alpha * A * B + beta * C, free of its elements' type.
///
/// Transposes are already in the layouts. The trivial cases are folded: `beta` is `None` where C is
/// not read, and `k` is 0 where A and B are not read because alpha is 0.
#[derive(Clone, Copy, Debug, PartialEq)]
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
    /// The products that are computed alike; the layouts are those of the first.
    pub batch: Batch,
    /// Whether the bits of a row must not depend on how many rows there are.
    pub batch_invariant: bool,
    /// When A and B may be read.
    pub reads: Reads,
    /// How C is written; where it is plain, launches find it out.
    pub writes: Writes,
}

/// The matrices that an epilogue may read.
pub(crate) const SOURCES: usize = 4;

/// The part of an epilogue that is no data; see [`Epilogue`](crate::Epilogue).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Fusion {
    /// Bias and residual, of C's dtype; factors of rows and of columns, of f32.
    pub sources: [Option<Layout>; SOURCES],
    /// Where in its memory the amax lies, in elements.
    pub amax: Option<usize>,
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
    #[inline]
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

/// Rows or columns of C that are few: a kernel's tile has room for more.
const FEW: usize = 16;

/// The same matrix, where the stride of an extent of 1 leads 16 elements or a multiple of that
/// further, or to the neighbour, if the other extent's does not.
fn with_free_strides(mut layout: Layout) -> Layout {
    let Shape { rows, cols } = layout.shape;
    let free = |extent: usize, stride| match stride {
        1 => extent.checked_next_multiple_of(16).map_or(16, |pitch| pitch.max(16)) as isize,
        _ => 1,
    };
    if rows == 1 {
        layout.strides.row = free(cols, layout.strides.col);
    } else if cols == 1 {
        layout.strides.col = free(rows, layout.strides.row);
    }
    layout
}

/// The options of a product; see `Gemm`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Options<S> {
    pub op_a: Op,
    pub op_b: Op,
    pub precision: Precision,
    pub alpha: S,
    pub beta: Option<S>,
    pub batch_invariant: bool,
}

/// The shape of op(A) * op(B).
#[inline]
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
    // As `Gemm::product`.
    #[inline(always)]
    pub(crate) fn new<T: Element, C: OutputOf<T>>(
        options: Options<C::Scalar>,
        [a, b, c]: [Layout; 3],
        fusion: Fusion,
    ) -> Result<Self, Error> {
        let Options { op_a, op_b, precision, alpha, beta, batch_invariant } = options;
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
            batch: Batch::ONE,
            batch_invariant,
            reads: Reads::InOrder,
            writes: Writes::Plain,
        })
    }

    /// Whether kernels take it turned to the product of the transposed matrices, where nothing else
    /// asks for one of the two: few columns are few rows, else rows of C are contiguous if its rows
    /// or columns are. Columns that belong together in pairs are not turned.
    fn is_turned(&self) -> bool {
        let Shape { rows, cols } = self.shape();
        let Strides { row, col } = self.c.strides;
        let by_columns = match rows.min(cols) <= FEW {
            true => cols < rows,
            false => row == 1 && col != 1,
        };
        by_columns && !self.fusion.gated
    }

    /// A and B, of the turned product or as they are, and how far apart they are in a batch. An
    /// extent of 1 gets a stride with which the matrix is one of contiguous rows or columns.
    #[inline]
    fn operands(&self, turned: bool) -> [(Layout, isize); 2] {
        let Product { a, b, batch, .. } = self;
        let of = |layout: &Layout, step| match turned {
            true => (with_free_strides(layout.apply(Op::Transpose)), step),
            false => (with_free_strides(*layout), step),
        };
        match turned {
            true => [of(b, batch.b), of(a, batch.a)],
            false => [of(a, batch.a), of(b, batch.b)],
        }
    }

    /// The same product, turned or as it is, with such strides.
    pub(crate) fn turned_if(&self, turned: bool) -> Product {
        let [(a, a_step), (b, b_step)] = self.operands(turned);
        let (c, fusion) = match turned {
            true => (self.c.apply(Op::Transpose), self.fusion.transposed()),
            false => (self.c, self.fusion),
        };
        let batch = Batch { a: a_step, b: b_step, ..self.batch };
        Product { a, b, c: with_free_strides(c), fusion, batch, ..*self }
    }

    /// The shape of the sums, which is C's unless the epilogue takes columns in pairs.
    pub(crate) fn shape(&self) -> Shape {
        Shape::new(self.a.shape.rows, self.b.shape.cols)
    }
}

/// What a product will run; made by [`Gemm::plan`](crate::Gemm::plan).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Plan {
    /// Shape of the sums, which is C's, but where an epilogue makes one column of two.
    pub shape: Shape,
    /// Products that one element of C sums.
    pub k: usize,
    /// Products of the batch.
    pub batch: usize,
    /// The kernel, or `None` where the CPU's engine computes.
    pub kernel: Option<&'static Kernel>,
    /// Whether the transposed C is computed, as the product of the transposed B and A: kernels
    /// write along rows, and few columns are taken for few rows.
    pub turned: bool,
    /// Which of A and B, as the kernel takes them, the device copies before: to rows along K where
    /// the kernel reads them in no other way, or of f32 to rows along M and N, which are read
    /// faster ([`Kernel::copies_are_along_k`]). Where it lacks the memory, a kernel that needs no
    /// copies takes the place of this one.
    pub copied: [bool; 2],
    /// Parts of K, each summed by blocks of its own into memory of its own, and added up by a
    /// kernel behind: 1 is none. Where the device lacks the memory, there are none either.
    pub parts: usize,
    /// Columns of a block's tile, where they are fewer than the kernel's, so that there are as many
    /// tiles as multiprocessors; else 0.
    pub tile_cols: usize,
    /// The last rows or columns, where they are computed apart, because they would be a wave of
    /// their own, or as many small blocks as others where K is in parts. Not where sums go to
    /// memory for an epilogue that the kernel has not.
    pub rest: Option<Rest>,
    /// How long it takes.
    pub prediction: Prediction,
    /// Where the device's blocks find room: anywhere, if that is not known.
    pub places: Places,
}

impl Plan {
    /// The plan of the CPU's engine.
    pub(crate) fn of_cpu(product: &Product) -> Plan {
        Plan {
            shape: product.shape(),
            k: product.k,
            batch: product.batch.count,
            kernel: None,
            turned: false,
            copied: [false; 2],
            parts: 1,
            tile_cols: 0,
            rest: None,
            prediction: Prediction::default(),
            places: Places::of(u32::MAX),
        }
    }

    /// The plan of a choice for a product.
    pub(crate) fn new(product: &Product, turned: bool, chosen: Chosen, info: &DeviceInfo) -> Plan {
        let Chosen { kernel, copied, parts, tile_cols, rest, prediction } = chosen;
        Plan {
            kernel: Some(kernel),
            turned,
            copied,
            parts,
            tile_cols,
            rest,
            prediction,
            places: info.places(),
            ..Plan::of_cpu(product)
        }
    }

    /// C's shape as the kernel takes it.
    fn shape_of_kernel(&self) -> Shape {
        let swapped = self.kernel.is_some_and(Kernel::swaps_operands);
        if self.turned != swapped { self.shape.transposed() } else { self.shape }
    }

    /// All kernels that it launches, where sums are of that dtype and go through no epilogue that
    /// the kernel has not; copies are of elements of `dtype`.
    pub(crate) fn kernels(
        &self,
        dtype: DType,
        (rows, has): (Rows, (u32, u32)),
    ) -> impl Iterator<Item = &'static Kernel> + use<> {
        let shape = self.shape_of_kernel();
        let copies = self.kernel.filter(|_| self.copied != [false; 2]);
        let copy = copies.and_then(|kernel| gemm_spec::repack(dtype, kernel.precision));
        let adding = move |parts: usize, shape: Shape| {
            (parts > 1).then(|| rows.adding(dtype.accumulator(), parts, shape, has))
        };
        let rest = self.rest.map(|of| (of.kernel, adding(of.parts, of.split(shape)[1])));
        let (apart, adding_apart) = rest.unzip();
        let adding = adding(self.parts, self.rest.map_or(shape, |of| of.split(shape)[0]));
        [self.kernel, copy, adding, apart, adding_apart.flatten()].into_iter().flatten()
    }

    /// The kernel's launches, one after the other, without those of the rest; `None` where the
    /// CPU's engine computes.
    pub fn launches(&self) -> Option<impl Iterator<Item = Launch> + use<>> {
        let (kernel, places) = (self.kernel?, self.places);
        let shape = self.shape_of_kernel();
        let shape = self.rest.map_or(shape, |rest| rest.split(shape)[0]);
        // A batch is not split, and what is split is no batch.
        let slices = self.parts.max(self.batch);
        let launches = kernel.narrowed(self.tile_cols).launches(shape)?;
        let of_tile = kernel.blocks_of_tile(self.k);
        let blocks = move |slices: Range<usize>| (slices.len() as u32).saturating_mul(of_tile);
        Some(launches.flat_map(move |launch| {
            layers(slices).map(move |of| kernel.resident(launch, blocks(of), places))
        }))
    }
}

/// The slices of each of several launches, of which none has more than a grid has layers.
pub(crate) fn layers(slices: usize) -> impl Iterator<Item = Range<usize>> {
    let end = move |start: usize| slices.min(start.saturating_add(MAX_GRID_Y));
    (0..slices).step_by(MAX_GRID_Y).map(move |start| start..end(start))
}

impl Plan {
    /// How many launches there are. They are not counted one by one: of the longest C there are
    /// more than anyone waits for.
    fn launch_count(&self, kernel: &Kernel) -> usize {
        let Shape { rows, cols } = self.shape_of_kernel();
        let [block_rows, block_cols, _] = kernel.tiles.block;
        let blocks = match kernel.order {
            ThreadOrder::AlongColumns => rows.div_ceil(block_rows),
            ThreadOrder::AlongRows => cols.div_ceil(block_cols),
        };
        let panels = if kernel.is_resident() { 1 } else { blocks.div_ceil(MAX_GRID_Y) };
        panels.saturating_mul(self.parts.max(self.batch).div_ceil(MAX_GRID_Y))
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((kernel, mut launches)) = self.kernel.zip(self.launches()) else {
            return f.write_str("CPU engine");
        };
        if self.turned {
            f.write_str("transposed, ")?;
        }
        let along_k = kernel.copies_are_along_k() == Some(true);
        f.write_str(match (self.copied, along_k) {
            ([true, true], _) if kernel.splits_elements() => "A and B split into three bf16 each, ",
            ([true, true], true) => "A and B copied along K, ",
            ([true, false], true) => "A copied along K, ",
            ([false, true], true) => "B copied along K, ",
            ([true, true], false) => "A copied along M and B along N, ",
            ([true, false], false) => "A copied along M, ",
            ([false, true], false) => "B copied along N, ",
            ([false, false], _) => "",
        })?;
        write!(f, "{}", kernel.name)?;
        if self.parts > 1 {
            write!(f, ", K in {} parts", self.parts)?;
        }
        if self.tile_cols > 0 {
            write!(f, ", tiles of {} columns", self.tile_cols)?;
        }
        if let Some(first) = launches.next() {
            let ((gx, gy), (bx, by)) = (first.grid, first.block);
            write!(f, ", grid {gx}x{gy}")?;
            if first.layers > 1 {
                write!(f, "x{}", first.layers)?;
            }
            write!(f, " of {bx}x{by} threads")?;
            match self.launch_count(kernel) {
                0 | 1 => {}
                all => write!(f, " and {} more launches", all - 1)?,
            }
        }
        if let Some(Rest { of_rows, from, kernel, parts, turned }) = self.rest {
            let what = if of_rows { "rows" } else { "columns" };
            let turned = if turned { ", transposed," } else { "" };
            write!(f, "; {what} from {from} on{turned} by {}", kernel.variant)?;
            if parts > 1 {
                write!(f, ", K in {parts} parts")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests;
