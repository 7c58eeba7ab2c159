//! The products that mutants compute.

use gemm_spec::{Kernel, KernelFamily, Layout, Shape, Stored, Strides};
use gemmite::emulator::{self, Options, Statistics, Timing};
use gemmite::{Device, Element, Gemm};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// How an operand lies in its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Row after row, each at a multiple of 16 elements.
    Rows,
    /// Column after column, likewise.
    Cols,
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
            Way::OddRows => Strides::new(odd(shape.cols), 1),
            Way::OddCols => Strides::new(1, odd(shape.rows)),
            Way::Spaced => Strides::new(2 * shape.cols as isize + 5, 2),
        };
        Layout { shape, strides, offset: 0 }
    }
}

/// A product: C = 2 A B - C, or without C's old value.
pub(crate) struct Case<T: Element> {
    kernel: &'static Kernel,
    a: (Vec<T>, Layout),
    b: (Vec<T>, Layout),
    c: (Vec<T::Output>, Layout),
    reads_c: bool,
    expected: Vec<T::Output>,
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

/// The shape of C and the terms of its sums: tiles in both directions, ragged, and more steps than
/// the kernel has in shared memory at a time.
fn extents(kernel: &Kernel) -> (Shape, usize) {
    let ([rows, cols, depth], stages) = (kernel.tiles.block, kernel.tiles.stages);
    match kernel.family {
        // Blocks go on from tile to tile, and so do their stages.
        KernelFamily::WarpGroup => (Shape::new(3 * rows + 8, cols - 8), 3 * depth - 8),
        _ => (Shape::new(rows + 5, cols + 3), (stages + 2) * depth + 3),
    }
}

impl<T: Element> Case<T> {
    /// The cases that together come to all of a kernel's code.
    pub fn of(kernel: &'static Kernel) -> Vec<Case<T>> {
        use Way::{Cols, OddCols, OddRows, Rows, Spaced};
        let ways: Vec<[Way; 3]> = match kernel.stored {
            Stored::Any => vec![
                [Rows, Rows, Rows],
                [Rows, Cols, Rows],
                [Cols, Rows, Rows],
                [Cols, Cols, Rows],
                [Spaced, Spaced, OddRows],
                [OddRows, OddRows, OddRows],
                [OddRows, OddCols, OddRows],
                [OddCols, OddRows, OddRows],
                [OddCols, OddCols, OddRows],
                [Rows, Spaced, Rows],
                [Spaced, Rows, Rows],
                [Cols, Spaced, Rows],
                [Spaced, Cols, Rows],
            ],
            stored => {
                let a = if matches!(stored, Stored::Nn | Stored::Nt) { Rows } else { Cols };
                let b = if matches!(stored, Stored::Nt | Stored::Tt) { Cols } else { Rows };
                vec![[a, b, Rows], [a, b, OddRows]]
            }
        };
        ways.into_iter().map(|ways| Case::new(kernel, ways, true)).collect()
    }

    fn new(kernel: &'static Kernel, [a, b, c]: [Way; 3], reads_c: bool) -> Case<T> {
        let (shape, k) = extents(kernel);
        let a_layout = a.layout(Shape::new(shape.rows, k));
        let b_layout = b.layout(Shape::new(k, shape.cols));
        let c_layout = c.layout(shape);
        let a: Vec<T> = operand(a_layout, 0);
        let b: Vec<T> = operand(b_layout, 77_777);
        let c: Vec<T::Output> = operand(c_layout, 999_999);
        let mut expected = c.clone();
        let from_a = |i, p| a[a_layout.index(i, p)].to_f64();
        let from_b = |p, j| b[b_layout.index(p, j)].to_f64();
        for i in 0..shape.rows {
            for j in 0..shape.cols {
                let sum: f64 = (0..k).map(|p| from_a(i, p) * from_b(p, j)).sum();
                let at = c_layout.index(i, j);
                let old = if reads_c { c[at].to_f64() } else { 0.0 };
                expected[at] = T::Output::from_f64(2.0 * sum - old);
            }
        }
        Case { kernel, a: (a, a_layout), b: (b, b_layout), c: (c, c_layout), reads_c, expected }
    }

    /// Computes it with a text in place of the kernel's own.
    pub fn run(
        &self,
        text: &Arc<str>,
        timing: Timing,
        statistics: bool,
    ) -> Result<Statistics, Found> {
        // None of these kernels takes as many steps in cases of this size.
        const STEPS: u64 = 1 << 20;
        let options = Options {
            arch: self.kernel.target.min_capability(),
            multiprocessors: Some(self.kernel.cluster() as u32),
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
            let gemm = Gemm::<T>::new().alpha(T::Scalar::from_f64(2.0)).kernel(self.kernel.variant);
            let gemm = if self.reads_c { gemm.beta(T::Scalar::from_f64(-1.0)) } else { gemm };
            let (a, b) = ((&self.a.0[..], self.a.1), (&self.b.0[..], self.b.1));
            let ran = gemm.run_emulated(&device, a, b, (&mut c, self.c.1));
            ran.map_err(|_| Found::Report)?;
            Ok(emulator::statistics(&device).unwrap_or_default())
        }));
        let statistics = attempt.unwrap_or(Err(Found::Panic))?;
        if c == self.expected { Ok(statistics) } else { Err(Found::Wrong) }
    }

    /// What is wrong with the kernel as it is.
    pub fn describe(&self) -> String {
        format!("A {:?}, B {:?}, C {:?}", self.a.1, self.b.1, self.c.1)
    }
}
