//! A row of a suite with its data, and the judge of what a candidate made of it.

use crate::suite::Row;
use anyhow::{Context, Result, bail, ensure};
use gemmite::verify::{self, Problem, Rows};
use gemmite::{DType, Element, HostEpilogue, Layout, MatrixRef, OutputOf, Shape, random};
use rayon::prelude::*;
use std::any::Any;
use std::fmt;
use std::str::FromStr;

/// Evaluates an expression, a `Result`, with `$T` as the type of a dtype whose products have
/// epilogues in suites.
macro_rules! with_epilogue {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            gemmite::DType::F16 => {
                type $T = gemmite::f16;
                $body
            }
            gemmite::DType::BF16 => {
                type $T = gemmite::bf16;
                $body
            }
            gemmite::DType::F32 => {
                type $T = f32;
                $body
            }
            other => Err(anyhow::anyhow!("{other} has no epilogue")),
        }
    };
}
pub(crate) use with_epilogue;

/// What the operands hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Data {
    /// N(0, 1); for i32 a hundred times that and for i8 32 times that, cut to whole numbers.
    #[default]
    Normal,
    /// Uniform over [0, 1); for i8 and i32 whole numbers from -100 to 100.
    Uniform,
    /// Whole numbers from -9 to 9.
    Integers,
}

impl Data {
    /// Every kind.
    pub const ALL: [Data; 3] = [Data::Normal, Data::Uniform, Data::Integers];

    fn fill<T: Element>(self, len: usize, seed: u64) -> Result<Vec<T>> {
        let shape = Shape::new(1, len);
        let matrix = match self {
            Data::Normal => random::normal(shape, seed),
            Data::Uniform => random::uniform(shape, seed),
            Data::Integers => random::integers(shape, seed, -9..=9),
        };
        Ok(matrix?.into_vec())
    }
}

impl fmt::Display for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Data::Normal => "normal",
            Data::Uniform => "uniform",
            Data::Integers => "integers",
        })
    }
}

impl FromStr for Data {
    type Err = String;

    fn from_str(text: &str) -> Result<Data, String> {
        let found = Data::ALL.into_iter().find(|data| data.to_string() == text);
        found.ok_or_else(|| "expected normal, uniform or integers".into())
    }
}

/// A problem with its operands. Buffers are as [`Row::lens`] says; gaps between rows hold data too.
pub struct Case<T: Element> {
    /// The problem.
    pub row: Row,
    /// The buffer of A.
    pub a: Vec<T>,
    /// The buffer of B.
    pub b: Vec<T>,
    /// What C's buffer holds before a product: its old value where that takes part, else poison.
    pub c: Vec<T::Output>,
    /// The row that is added to each row of C, where the problem has one.
    pub bias: Vec<T::Output>,
}

/// A byte that fills C before a product that is verified: NaN in every float dtype, and in i32 a
/// number that no sum of the data in use reaches.
const POISON: u8 = 0xff;
const POISON_I32: u8 = 0x5a;

impl<T: Element> Case<T> {
    /// The problem with seeded data.
    pub fn generate(row: Row, data: Data) -> Result<Self> {
        ensure!(row.dtype == T::DTYPE, "{} data for a row of {}", T::DTYPE, row.dtype);
        let [a, b, c] = row.lens();
        let (a, b) = (data.fill(a, 1)?, data.fill(b, 2)?);
        let c = match row.epilogue.beta {
            Some(_) => data.fill(c, 3)?,
            None => {
                let mut poisoned = Vec::new();
                poisoned.try_reserve_exact(c).context("no memory for C")?;
                poisoned.resize(c, poison::<T::Output>());
                poisoned
            }
        };
        let bias = data.fill(if row.epilogue.bias { row.n } else { 0 }, 4)?;
        Ok(Case { row, a, b, c, bias })
    }

    /// Alpha in the type of the sums.
    pub fn alpha(&self) -> T::Scalar {
        T::Scalar::from_f64(self.row.epilogue.alpha)
    }

    /// Beta in the type of the sums.
    pub fn beta(&self) -> Option<T::Scalar> {
        self.row.epilogue.beta.map(T::Scalar::from_f64)
    }

    /// The views of A and B that product `index` of the batch multiplies.
    fn factors(&self, index: usize) -> Result<[MatrixRef<'_, T>; 2]> {
        let [a, b, _] = self.row.layouts();
        let [stride_a, stride_b, _] = self.row.batch_strides();
        let a = MatrixRef::new(&self.a[index * stride_a..], a)?;
        Ok([a, MatrixRef::new(&self.b[index * stride_b..], b)?])
    }

    /// The view of `c` that product `index` of the batch writes.
    fn result<'a>(&self, c: &'a [T::Output], index: usize) -> Result<MatrixRef<'a, T::Output>> {
        let [_, _, layout] = self.row.layouts();
        let [_, _, stride] = self.row.batch_strides();
        Ok(MatrixRef::new(&c[index * stride..], layout)?)
    }

    /// Judges the contents of C's buffer after one product: the largest error as a fraction of its
    /// bound.
    ///
    /// Sampled rows of sampled products of the batch are compared with the reference, whole;
    /// everywhere else nothing may be left unwritten, and no gap between rows may be written.
    ///
    /// # Errors
    /// When an element is wrong; the message says which and how.
    pub fn verify(&self, out: &[T::Output]) -> Result<f64> {
        ensure!(out.len() == self.c.len(), "C has {} elements, not {}", out.len(), self.c.len());
        self.verify_writes(out)?;
        if self.row.epilogue.is_fused() {
            return with_epilogue!(self.row.dtype, E => {
                let case = (self as &dyn Any).downcast_ref::<Case<E>>();
                case.context("a case of its own dtype")?.verify_fused(bytemuck::cast_slice(out))
            });
        }
        let last = self.row.batch - 1;
        let mut products = vec![0, last / 2, last];
        products.dedup();
        let mut worst = 0.0_f64;
        for &index in &products {
            let [a, b] = self.factors(index)?;
            let (out, c) = (self.result(out, index)?, self.result(&self.c, index)?);
            let (op_a, op_b) = (self.row.op_a, self.row.op_b);
            let (alpha, beta) = (self.alpha(), self.beta());
            let c = beta.map(|_| c);
            let product = Problem { precision: self.row.precision, ..Problem::product(a, b) };
            let problem = Problem { op_a, op_b, alpha, beta, c, ..product };
            let rows = self.affordable_rows(products.len());
            let checked = verify::check(&problem, out, rows);
            let exactness = checked.map_err(|wrong| {
                let wrong = anyhow::Error::new(wrong);
                if last == 0 { wrong } else { wrong.context(format!("product {index}")) }
            })?;
            worst = worst.max(exactness.max_err_over_bound);
        }
        Ok(worst)
    }

    /// Every element written, no gap written.
    fn verify_writes(&self, out: &[T::Output]) -> Result<()> {
        let Row { m, n, leading: [_, _, ldc], .. } = self.row;
        let untouched = |index: usize| bytes(&out[index]) == bytes(&self.c[index]);
        let reads_c = self.row.epilogue.beta.is_some();
        let wrong = |row: usize| {
            let start = row * ldc;
            let at = |column| format!("row {} of product {}, column {column}", row % m, row / m);
            // Where C's old value takes part, an element may rightly keep it.
            if let Some(column) = (0..n).find(|column| !reads_c && untouched(start + column)) {
                return Some(format!("{} was not written", at(column)));
            }
            let column = (n..ldc).find(|column| !untouched(start + column))?;
            Some(format!("{} was written, and C has {n} columns", at(column)))
        };
        first_wrong(out.len() / ldc, &wrong).map_or(Ok(()), |wrong| bail!(wrong))
    }

    /// As many rows as are summed again within a second or so on a few cores.
    fn affordable_rows(&self, products: usize) -> Rows {
        const MULTIPLICATIONS: usize = 1 << 29;
        let row = self.row.n.saturating_mul(self.row.k).saturating_mul(products).max(1);
        Rows::drawn((MULTIPLICATIONS / row).max(6))
    }
}

impl<T: OutputOf<T> + Element<Scalar = f32, Output = T>> Case<T> {
    /// The epilogue with data on the host.
    pub fn epilogue(&self) -> Result<HostEpilogue<'_, T>> {
        let epilogue = HostEpilogue::new().activation(self.row.epilogue.activation);
        if !self.row.epilogue.bias {
            return Ok(epilogue);
        }
        let layout = Layout::row_major(Shape::new(1, self.row.n));
        Ok(epilogue.bias(MatrixRef::new(&self.bias, layout)?))
    }

    /// [`Case::verify`] for a product with an epilogue, of which a batch has one.
    fn verify_fused(&self, out: &[T]) -> Result<f64> {
        let ([a, b], beta) = (self.factors(0)?, self.beta());
        let problem = Problem {
            precision: self.row.precision,
            op_a: self.row.op_a,
            op_b: self.row.op_b,
            alpha: self.alpha(),
            beta,
            c: beta.map(|_| self.result(&self.c, 0)).transpose()?,
            ..Problem::product(a, b)
        };
        let (out, rows) = (self.result(out, 0)?, self.affordable_rows(1));
        Ok(verify::check_fused(&problem, &self.epilogue()?, out, rows)?.max_err_over_bound)
    }
}

/// What is wrong in the first of `rows` rows that has something. Of no type of its own, so that
/// rayon's machinery is compiled once.
fn first_wrong(rows: usize, wrong: &(dyn Fn(usize) -> Option<String> + Sync)) -> Option<String> {
    (0..rows).into_par_iter().filter_map(wrong).find_first(|_| true)
}

/// The element that C is filled with before a product that does not read it.
fn poison<T: Element>() -> T {
    let byte = if T::DTYPE == DType::I32 { POISON_I32 } else { POISON };
    bytemuck::pod_read_unaligned(&vec![byte; size_of::<T>()])
}

fn bytes<T: Element>(element: &T) -> &[u8] {
    bytemuck::bytes_of(element)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::Row;
    use gemmite::{Scalar, reference};

    /// 3 products of 5x4x6 in two layouts with gaps.
    fn case<T: Element>(beta: Option<f64>) -> Case<T> {
        let mut row = Row::new(T::DTYPE, "tn".parse().unwrap(), [5, 4, 6]).unwrap();
        row.batch = 3;
        row.leading = [7, 5, 6];
        row.epilogue.beta = beta;
        Case::generate(row, Data::Normal).unwrap()
    }

    fn right<T: Element>(case: &Case<T>) -> Vec<T::Output> {
        let mut out = case.c.clone();
        let [_, _, stride] = case.row.batch_strides();
        for index in 0..case.row.batch {
            let [a, b] = case.factors(index).unwrap();
            let c = case.result(&case.c, index).unwrap();
            for i in 0..case.row.m {
                for j in 0..case.row.n {
                    let mut sum = T::Scalar::ZERO;
                    for k in 0..case.row.k {
                        sum = sum.plus(a[(k, i)].widen().times(b[(k, j)].widen()));
                    }
                    let beta = case.beta().unwrap_or(T::Scalar::ZERO);
                    let old = if case.beta().is_some() { c[(i, j)].widen() } else { beta };
                    let value = T::narrow(sum.plus(beta.times(old)));
                    out[index * stride + i * case.row.leading[2] + j] = value;
                }
            }
        }
        out
    }

    fn judges<T: Element>(beta: Option<f64>) {
        let case = case::<T>(beta);
        let right = right(&case);
        case.verify(&right).unwrap();
        let refused = |index: usize, value: T::Output, says: &str| {
            let mut wrong = right.clone();
            wrong[index] = value;
            let error = format!("{:#}", case.verify(&wrong).unwrap_err());
            assert!(error.contains(says), "{error}");
        };
        let one = T::Output::from_f64(1e3);
        refused(0, one, "wrong");
        // The last element of the last product, and one in the middle.
        refused(2 * 30 + 4 * 6 + 3, one, "product 2");
        refused(30, one, "product 1");
        // A gap after the first row.
        refused(4, one, "was written");
        if beta.is_none() {
            refused(2, case.c[2], "was not written");
        }
        assert!(case.verify(&right[1..]).is_err());
    }

    #[test]
    fn right_products_pass_and_wrong_ones_do_not() {
        judges::<f32>(None);
        judges::<f32>(Some(0.5));
        judges::<f64>(None);
        judges::<i32>(None);
        judges::<i8>(None);
        judges::<i8>(Some(2.0));
        judges::<gemmite::bf16>(Some(0.5));
        judges::<gemmite::f16>(None);
    }

    #[test]
    fn the_reference_loops_agree() {
        let row = Row::new(DType::F32, "nn".parse().unwrap(), [5, 4, 6]).unwrap();
        let case = Case::<f32>::generate(row, Data::Integers).unwrap();
        let [a, b] = case.factors(0).unwrap();
        let product = reference::ijk(a, b).unwrap();
        assert_eq!(case.verify(product.as_slice()).unwrap(), 0.0);
    }

    #[test]
    fn names_of_data_are_read() {
        for data in Data::ALL {
            assert_eq!(data.to_string().parse(), Ok(data));
        }
        assert!("zeros".parse::<Data>().is_err());
    }
}
