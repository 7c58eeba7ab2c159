//! The products that mutants compute.

use bytemuck::{cast_slice, cast_slice_mut};
use gemm_spec::{Kernel, KernelFamily, Layout, Precision, SCALE_BLOCK, Shape, Stored, Strides};
use gemmite::emulator::{self, Options, Statistics, Timing};
use gemmite::{
    Device, Element, F8E4M3, F8E5M2, Gemm, HostEpilogue, KernelChoice, Matrix, MatrixMut,
    MatrixRef, OutputOf, bf16, f16, with_elements,
};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// How an operand lies in its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Row after row, each at a multiple of 16 elements.
    Rows,
    /// Column after column, likewise.
    Cols,
    /// Row after row, without gaps: a host matrix whose copy lies as it does.
    DenseRows,
    /// Column after column, likewise.
    DenseCols,
    /// Row after row, at odd distances.
    OddRows,
    /// Column after column, at odd distances.
    OddCols,
    /// No two elements side by side.
    Spaced,
}

impl Way {
    fn layout(self, shape: Shape) -> Layout {
        let even = |extent: usize| extent.next_multiple_of(16) as isize + 16;
        let odd = |extent: usize| extent as isize | 1;
        let strides = match self {
            Way::Rows => Strides::new(even(shape.cols), 1),
            Way::Cols => Strides::new(1, even(shape.rows)),
            Way::DenseRows => Strides::new(shape.cols as isize, 1),
            Way::DenseCols => Strides::new(1, shape.rows as isize),
            Way::OddRows => Strides::new(odd(shape.cols), 1),
            Way::OddCols => Strides::new(1, odd(shape.rows)),
            Way::Spaced => Strides::new(2 * shape.cols as isize + 5, 2),
        };
        Layout { shape, strides, offset: 0 }
    }
}

/// A product: C = 2 A B - C, or without C's old value, or with a bias.
struct Product<T, C> {
    kernel: &'static Kernel,
    clusters: usize,
    a: (Vec<T>, Layout),
    b: (Vec<T>, Layout),
    c: (Vec<C>, Layout),
    reads_c: bool,
    /// What is added to each row, by the kernel's epilogue.
    bias: Option<Vec<C>>,
    /// The scales of A and of B, for the kernels that take them.
    scales: Option<[Matrix<f32>; 2]>,
    expected: Vec<C>,
}

/// A product of any types.
pub(crate) trait Case: Send + Sync {
    /// Computes it with a text in place of the kernel's own.
    fn run(&self, text: &Arc<str>, timing: Timing, statistics: bool) -> Result<Statistics, Found>;

    /// Where its operands lie.
    fn describe(&self) -> String;
}

/// What became of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The emulator has reported something, or refuses the text.
    Report,
    /// The product is wrong.
    Wrong,
    /// The emulator has panicked, which it must not.
    Panic,
}

/// A small integer without a pattern, exact in every type.
fn number(seed: usize) -> f64 {
    f64::from((seed as u32).wrapping_mul(2_654_435_761).rotate_right(13) as i32 % 3)
}

/// A matrix of such numbers; between its elements lie others.
fn operand<T: Element>(layout: Layout, seed: usize) -> Vec<T> {
    let Layout { shape, strides, .. } = layout;
    let reach = (shape.rows as isize - 1) * strides.row + (shape.cols as isize - 1) * strides.col;
    (0..reach.unsigned_abs() + 1).map(|i| T::from_f64(number(i + seed))).collect()
}

/// The shape of C, the terms of its sums, and how A, B and C lie.
#[derive(Clone, Copy)]
struct Plan {
    shape: Shape,
    k: usize,
    ways: [Way; 3],
    reads_c: bool,
    biased: bool,
}

/// How many clusters compute each product: one, and of kernels that join what clusters have of a
/// tile several too.
fn clusters(kernel: &Kernel) -> &'static [usize] {
    if kernel.joins() { &[1, 3] } else { &[1] }
}

/// K of a part that another kernel leaves to one that finishes sums.
const PART: usize = 16;

/// The parts that it is left, one more than it has warps along them.
fn parts(kernel: &Kernel) -> usize {
    kernel.tiles.block[2] + 1
}

/// Products in tiles in both directions, the last ones ragged, with more steps than the kernel has
/// in shared memory at a time.
fn plans(kernel: &Kernel, is_usual: bool) -> Vec<Plan> {
    use Way::{Cols, OddCols, OddRows, Rows, Spaced};
    let ([rows, cols, depth], stages) = (kernel.tiles.block, kernel.tiles.stages);
    match kernel.family {
        KernelFamily::WarpGroupScaled | KernelFamily::WarpGroupGrouped => {
            return plans_of_host_data(kernel);
        }
        KernelFamily::Repack => return plans_of_repack(),
        _ if kernel.stored != Stored::Any => return plans_of_warp_group(kernel, is_usual),
        _ => {}
    }
    let even = Shape::new(rows + 16, cols + 16);
    let odd = Shape::new(rows + 5, cols + 3);
    let k = match kernel.family {
        // The last part is shorter, whatever is added below.
        KernelFamily::Finish | KernelFamily::FinishOverlapped => parts(kernel) * PART - PART / 2,
        // Each stage has a barrier for those who fill it again.
        KernelFamily::WarpSpecialized => (2 * stages + 1) * depth,
        KernelFamily::TensorCore if kernel.overlaps() => (2 * stages + 1) * depth,
        _ => (stages + 2) * depth,
    };
    let of = |shape, k, a, b, c| Plan { shape, k, ways: [a, b, c], reads_c: true, biased: false };
    let even = |a, b| of(even, k + depth / 2, a, b, Rows);
    let odd = |a, b| of(odd, k + 3, a, b, OddRows);
    vec![
        even(Rows, Rows),
        even(Rows, Cols),
        even(Cols, Rows),
        even(Cols, Cols),
        odd(OddRows, OddRows),
        odd(OddRows, OddCols),
        odd(OddCols, OddRows),
        odd(OddCols, OddCols),
        odd(Spaced, Spaced),
        even(Rows, Spaced),
        even(Cols, Spaced),
        even(Spaced, Rows),
        even(Spaced, Cols),
        odd(OddRows, Spaced),
        odd(OddCols, Spaced),
        odd(Spaced, OddRows),
        odd(Spaced, OddCols),
    ]
}

/// Blocks go on from tile to tile, and so do their stages: which of them is the last one makes a
/// difference, so that there is a case for each.
fn plans_of_warp_group(kernel: &Kernel, is_usual: bool) -> Vec<Plan> {
    let ([rows, cols, depth], stages) = (kernel.tiles.block, kernel.tiles.stages);
    let (in_rows, in_cols) = match kernel.takes_maps() {
        true => (Way::Rows, Way::Cols),
        false => (Way::OddRows, Way::OddCols),
    };
    let a = if matches!(kernel.stored, Stored::Nn | Stored::Nt) { in_rows } else { in_cols };
    let b = if matches!(kernel.stored, Stored::Nt | Stored::Tt) { in_cols } else { in_rows };
    let of = |tiles: usize, steps: usize, c: Way, reads_c: bool| Plan {
        shape: Shape::new((2 * tiles - 1) * rows + 16, cols - 16),
        // Of each block that takes a part of K.
        k: steps * depth * kernel.parts_of_cluster() - 16,
        ways: [a, b, c],
        reads_c,
        biased: false,
    };
    let one = (1..=stages).map(|more| of(1, stages + more, Way::Rows, false));
    let two = [(Way::Rows, false), (Way::OddRows, true), (Way::Rows, true)];
    let two = two.map(|(c, reads_c)| of(2, stages + 1, c, reads_c));
    // How C is written goes by the number of steps, on the emulator, in three ways.
    let ways = [2, 3].map(|more| of(2, stages + more, Way::Rows, true));
    let two = two.into_iter().chain(ways);
    // An operand along K that has fewer rows than a tile: the others are cleared.
    let shape = match kernel.stored {
        Stored::Nn | Stored::Nt => Shape::new(24, cols - 16),
        _ => Shape::new(rows + 16, 24),
    };
    let few = Plan { shape, ..of(1, stages + 1, Way::Rows, false) };
    // With a single step, C of a tile is written soon after that of the tile before, and with two
    // not much later.
    let short = [1, 2].map(|steps| of(stages + 2, steps, Way::Rows, false));
    // Only C of the usual dtype, of 16 bits, has epilogues in the kernel.
    let has_epilogues = is_usual && kernel.takes_maps() && kernel.dtype.output().size_bytes() == 2;
    let biased = [short[0], short[1], of(2, stages + 1, Way::Rows, false)];
    let dense = [a, b, Way::Rows].map(|way| match way {
        Way::Cols => Way::DenseCols,
        _ => Way::DenseRows,
    });
    let biased = biased.map(|plan| Plan { biased: true, ways: dense, ..plan });
    let biased = biased.into_iter().filter(|_| has_epilogues);
    // The last row of tiles side by side, the very last past C's end.
    let beside = Plan {
        shape: Shape::new(2 * rows + 16, 3 * cols - 16),
        ..of(1, stages + 1, Way::Rows, false)
    };
    // Or, of halves, one row of them, each byte of whose B is read once.
    let beside = match kernel.parts_of_cluster() {
        1 => beside,
        _ => Plan { shape: Shape::new(24, 3 * cols - 16), ..beside },
    };
    let beside = (kernel.cluster() > 1).then_some(beside);
    // Beside shares there are whole tiles, two for each cluster, that meet nobody.
    let whole = kernel.joins().then(|| of(4 * kernel.cluster(), 2, Way::OddRows, true));
    let short = short.into_iter().chain([few]);
    short.chain(one).chain(two).chain(biased).chain(beside).chain(whole).collect()
}

/// The same for kernels whose operands come from the host, and lie as they do there where they have
/// no gaps: those that take scales or lists.
fn plans_of_host_data(kernel: &Kernel) -> Vec<Plan> {
    let b = if kernel.stored == Stored::Nn { Way::DenseRows } else { Way::DenseCols };
    let plans = plans_of_warp_group(kernel, true).into_iter().filter(|plan| !plan.biased);
    let of = |plan: Plan| {
        // Rows of C at odd distances; those of a B in rows would be so too.
        let odd = usize::from(plan.ways[2] == Way::OddRows && b == Way::DenseCols);
        let shape = Shape::new(plan.shape.rows, plan.shape.cols - odd);
        Plan { shape, ways: [Way::DenseRows, b, Way::DenseRows], ..plan }
    };
    plans.map(of).collect()
}

/// Products that the library computes with copies of A and of B: sums so long that it is worth it,
/// operands that are contiguous along neither extent, or along the other one.
fn plans_of_repack() -> Vec<Plan> {
    let of = |a, b| Plan {
        shape: Shape::new(192, 192),
        k: 203,
        ways: [a, b, Way::Rows],
        reads_c: false,
        biased: false,
    };
    vec![of(Way::OddCols, Way::OddRows), of(Way::OddRows, Way::OddCols)]
}

/// The cases that together come to all of a kernel's code: with the C that its operands have if
/// nothing else is asked for, then with every other. Beside each, whether it is one of the first.
pub(crate) fn cases(kernel: &'static Kernel) -> impl Iterator<Item = (Box<dyn Case>, bool)> {
    let outputs = kernel.dtype.outputs().iter();
    outputs.flat_map(move |&output| {
        let of = move |plan, clusters| -> Box<dyn Case> {
            with_elements!(kernel.dtype, output, (T, C) => {
                Box::new(Product::<T, C>::new(kernel, plan, clusters))
            }, else => unreachable!("the dtype has this output"))
        };
        let is_usual = output == kernel.dtype.output();
        plans(kernel, is_usual).into_iter().flat_map(move |plan| {
            clusters(kernel).iter().map(move |&clusters| (of(plan, clusters), is_usual))
        })
    })
}

impl<T: Element, C: OutputOf<T>> Product<T, C> {
    fn new(kernel: &'static Kernel, plan: Plan, clusters: usize) -> Product<T, C> {
        let Plan { shape, k, ways: [a, b, c], reads_c, biased } = plan;
        let a_layout = a.layout(Shape::new(shape.rows, k));
        let b_layout = b.layout(Shape::new(k, shape.cols));
        let c_layout = c.layout(shape);
        let a: Vec<T> = operand(a_layout, 0);
        let b: Vec<T> = operand(b_layout, 77_777);
        let c: Vec<C> = operand(c_layout, 999_999);
        let bias = biased.then(|| operand(Way::Rows.layout(Shape::new(1, shape.cols)), 5));
        let of_bias = |j: usize| bias.as_ref().map_or(0.0, |bias: &Vec<C>| bias[j].to_f64());
        let mut expected = c.clone();
        let from_a = |i, p| a[a_layout.index(i, p)].to_f64();
        let from_b = |p, j| b[b_layout.index(p, j)].to_f64();
        let scales = (kernel.family == KernelFamily::WarpGroupScaled).then(|| {
            let blocks = |extent: usize| extent.div_ceil(SCALE_BLOCK);
            [
                scales(Shape::new(shape.rows, blocks(k)), 3),
                scales(Shape::new(blocks(k), blocks(shape.cols)), 4),
            ]
        });
        let scale = |i, p, j| match &scales {
            Some([a, b]) => {
                f64::from(a[(i, p / SCALE_BLOCK)] * b[(p / SCALE_BLOCK, j / SCALE_BLOCK)])
            }
            None => 1.0,
        };
        for i in 0..shape.rows {
            for j in 0..shape.cols {
                let term = |p| scale(i, p, j) * from_a(i, p) * from_b(p, j);
                let sum: f64 = (0..k).map(term).sum();
                let at = c_layout.index(i, j);
                let old = if reads_c { c[at].to_f64() } else { 0.0 };
                expected[at] = C::from_f64(2.0 * sum - old + of_bias(j));
            }
        }
        let (a, b, c) = ((a, a_layout), (b, b_layout), (c, c_layout));
        Product { kernel, clusters, a, b, c, reads_c, bias, scales, expected }
    }
}

impl<T: Element, C: OutputOf<T>> Case for Product<T, C> {
    fn run(&self, text: &Arc<str>, timing: Timing, statistics: bool) -> Result<Statistics, Found> {
        // None of these kernels takes as many steps in cases of this size.
        const STEPS: u64 = 1 << 20;
        let options = Options {
            // Kernels that read copies are for 9.0.
            arch: self.kernel.target.min_capability().max(match self.kernel.family {
                KernelFamily::Repack | KernelFamily::FinishOverlapped => (9, 0),
                _ => (0, 0),
            }),
            multiprocessors: Some((self.clusters * self.kernel.cluster()) as u32),
            timing,
            threads: 1,
            step_limit: STEPS,
            statistics,
            ptx: Some(Arc::clone(text)),
            ..Options::default()
        };
        let mut c = self.c.0.clone();
        let attempt = catch_unwind(AssertUnwindSafe(|| {
            let device = Device::emulator_with(&options).map_err(|_| Found::Report)?;
            let gemm = Gemm::<T, C>::default().precision(self.kernel.precision);
            let gemm = gemm.alpha(C::Scalar::from_f64(2.0));
            let gemm = match self.kernel.family {
                // It is part of what the library does by itself; those of f32 are copied for tf32,
                // or split.
                KernelFamily::Repack if self.kernel.splits_elements() => gemm,
                KernelFamily::Repack => gemm.precision(Precision::Tf32),
                // It adds up parts that another kernel left.
                KernelFamily::Finish | KernelFamily::FinishOverlapped => {
                    let parts = parts(self.kernel);
                    gemm.kernel(KernelChoice::Split { variant: "k02_tiled_16".into(), parts })
                }
                _ => gemm.kernel(self.kernel.variant),
            };
            let gemm = if self.reads_c { gemm.beta(C::Scalar::from_f64(-1.0)) } else { gemm };
            let (a, b) = ((&self.a.0[..], self.a.1), (&self.b.0[..], self.b.1));
            let c = (&mut c[..], self.c.1);
            let ran = match (&self.bias, &self.scales) {
                (Some(bias), _) => run_biased(&gemm, &device, a, b, c, bias),
                (_, Some(scales)) => run_scaled(&gemm, &device, a, b, c, scales),
                _ if self.kernel.family == KernelFamily::WarpGroupGrouped => {
                    run_list(&gemm, &device, a, b, c)
                }
                _ => gemm.run_emulated(&device, a, b, c),
            };
            ran.map_err(|_| Found::Report)?;
            Ok(emulator::statistics(&device).unwrap_or_default())
        }));
        let statistics = attempt.unwrap_or(Err(Found::Panic))?;
        if c == self.expected { Ok(statistics) } else { Err(Found::Wrong) }
    }

    fn describe(&self) -> String {
        let Product { clusters, a: (_, a), b: (_, b), c: (_, c), .. } = self;
        format!("A {a:?}, B {b:?}, C {c:?} of {}, clusters at a time {clusters}", C::DTYPE)
    }
}

/// Scales of 1 and 2 without a pattern.
fn scales(shape: Shape, seed: usize) -> Matrix<f32> {
    let scale = |i, q| number(seed + i * shape.cols + q).min(1.0) as f32 + 1.0;
    Matrix::from_fn(shape, scale).expect("there is memory for it")
}

/// C = 2 A B, or less C's old value, with scales; for the types whose kernels take them.
fn run_scaled<T: Element, C: Element>(
    gemm: &dyn Any,
    device: &Device,
    a: (&[T], Layout),
    b: (&[T], Layout),
    c: (&mut [C], Layout),
    [a_scales, b_scales]: &[Matrix<f32>; 2],
) -> Result<(), gemmite::Error> {
    macro_rules! with_output {
        ($($c:ty)*) => {$(
            if let Some(gemm) = gemm.downcast_ref::<Gemm<F8E4M3, $c>>() {
                let a = MatrixRef::new(cast_slice::<T, F8E4M3>(a.0), a.1)?;
                let b = MatrixRef::new(cast_slice::<T, F8E4M3>(b.0), b.1)?;
                let c = MatrixMut::new(cast_slice_mut::<C, $c>(c.0), c.1)?;
                let (a, b) = ((a, a_scales.view()), (b, b_scales.view()));
                return gemm.clone().block_scaled().run_into(device, a, b, c);
            }
        )*};
    }
    with_output!(bf16 f16 f32);
    unreachable!("plans are made for these types alone")
}

/// C = 2 A B, or less C's old value, as a list of two: the upper half of the rows and the lower.
fn run_list<T: Element, C: OutputOf<T>>(
    gemm: &Gemm<T, C>,
    device: &Device,
    (a, a_layout): (&[T], Layout),
    b: (&[T], Layout),
    (c, c_layout): (&mut [C], Layout),
) -> Result<(), gemmite::Error> {
    let Shape { rows, cols } = c_layout.shape;
    let upper = rows / 2;
    let (a, b) = (MatrixRef::new(a, a_layout)?, MatrixRef::new(b.0, b.1)?);
    let part = |rows| a.block(rows, 0..a_layout.shape.cols);
    // Its rows lie one behind the other.
    let (above, below) = c.split_at_mut(upper * c_layout.strides.row as usize);
    let of = |rows| Layout { shape: Shape::new(rows, cols), ..c_layout };
    let above = MatrixMut::new(above, of(upper))?;
    let below = MatrixMut::new(below, of(rows - upper))?;
    let list = vec![(part(0..upper)?, b, above), (part(upper..rows)?, b, below)];
    gemm.run_grouped_into(device, list)
}

/// C = 2 A B + bias, for the types whose kernels have epilogues.
fn run_biased<T: Element, C: Element>(
    gemm: &dyn Any,
    device: &Device,
    a: (&[T], Layout),
    b: (&[T], Layout),
    c: (&mut [C], Layout),
    bias: &[C],
) -> Result<(), gemmite::Error> {
    macro_rules! with_types {
        ($(($t:ty, $c:ty))*) => {$(
            if let Some(gemm) = gemm.downcast_ref::<Gemm<$t, $c>>() {
                let a = MatrixRef::new(cast_slice::<T, $t>(a.0), a.1)?;
                let b = MatrixRef::new(cast_slice::<T, $t>(b.0), b.1)?;
                let row = Layout::row_major(Shape::new(1, c.1.shape.cols));
                let bias = MatrixRef::new(cast_slice::<C, $c>(bias), row)?;
                let c = MatrixMut::new(cast_slice_mut::<C, $c>(c.0), c.1)?;
                let fused = gemm.fused(HostEpilogue::new().bias(bias));
                return fused.run_into(device, a, b, c);
            }
        )*};
    }
    with_types!((f16, f16)(bf16, bf16)(F8E4M3, bf16)(F8E5M2, bf16));
    unreachable!("plans are made for these types alone")
}
