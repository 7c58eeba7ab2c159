//! Suites: what is multiplied, as data files.
//!
//! A suite is a CSV file in bench/suites; lines that start with `#` are comments. A cell may hold
//! several values with spaces between, and the line then stands for every combination; the dtype
//! `tf32` and `bf16x6` are f32 multiplied with these [`Precision`]s; `m` in the
//! columns `n` and `k` is the value of `m`. An empty cell takes the usual value: batch 1, rows of a
//! stored matrix without a gap, epilogue none, the kernel that the library chooses.

use anyhow::{Context, Result, bail, ensure};
use gemm_spec::{Activation, DType, Layout, Op, Precision, Shape, Strides};
use serde::Deserialize;
use std::collections::HashSet;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// The suites that the program carries, by name.
const CARRIED: [(&str, &str); 16] = [
    ("square", include_str!("../suites/square.csv")),
    ("between", include_str!("../suites/between.csv")),
    ("random", include_str!("../suites/random.csv")),
    ("llm", include_str!("../suites/llm.csv")),
    ("chunks", include_str!("../suites/chunks.csv")),
    ("odd", include_str!("../suites/odd.csv")),
    ("skinny", include_str!("../suites/skinny.csv")),
    ("deep-k", include_str!("../suites/deep-k.csv")),
    ("eight-bit", include_str!("../suites/eight-bit.csv")),
    ("batched", include_str!("../suites/batched.csv")),
    ("beta", include_str!("../suites/beta.csv")),
    ("exact", include_str!("../suites/exact.csv")),
    ("ladder", include_str!("../suites/ladder.csv")),
    ("hopper", include_str!("../suites/hopper.csv")),
    ("bf16x6", include_str!("../suites/bf16x6.csv")),
    ("cpu", include_str!("../suites/cpu.csv")),
];

/// The suites that a run on a GPU takes unless told otherwise.
pub const GPU_SUITES: [&str; 15] = [
    "square",
    "between",
    "random",
    "llm",
    "chunks",
    "odd",
    "skinny",
    "deep-k",
    "batched",
    "eight-bit",
    "beta",
    "exact",
    "ladder",
    "hopper",
    "bf16x6",
];

/// A named list of problems.
#[derive(Clone, Debug, PartialEq)]
pub struct Suite {
    /// Its name, as records have it.
    pub name: String,
    /// Its problems, in the file's order.
    pub rows: Vec<Row>,
}

/// One problem: C = alpha * op(A) * op(B) + beta * C, `batch` times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// Element type of A and B; C's is [`DType::output`].
    pub dtype: DType,
    /// How exactly elements of f32 have to be multiplied.
    pub precision: Precision,
    /// What is done with the stored A; a: (m, k) after it.
    pub op_a: Op,
    /// What is done with the stored B; b: (k, n) after it.
    pub op_b: Op,
    /// Rows of C.
    pub m: usize,
    /// Columns of C.
    pub n: usize,
    /// Terms of each sum.
    pub k: usize,
    /// Independent products; their operands lie one after the other.
    pub batch: usize,
    /// Elements between the starts of stored rows of A, B and C, which are row-major.
    pub leading: [usize; 3],
    /// alpha and beta.
    pub epilogue: Epilogue,
    /// Which kernels of ours take part.
    pub kernels: Kernels,
}

/// What is done with the sums.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Epilogue {
    /// Factor of the product.
    pub alpha: f64,
    /// Factor of C's old value, which takes no part where this is `None`.
    pub beta: Option<f64>,
    /// Whether a row is added to each row.
    pub bias: bool,
    /// The function that each element goes through after it.
    pub activation: Activation,
}

impl Epilogue {
    /// The product as it is.
    pub const NONE: Epilogue =
        Epilogue { alpha: 1.0, beta: None, bias: false, activation: Activation::Identity };

    /// Whether there is more than alpha and beta.
    pub fn is_fused(&self) -> bool {
        self.bias || self.activation != Activation::Identity
    }
}

/// Which kernels of ours take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernels {
    /// The one that the library chooses.
    Auto,
    /// Every one in the table.
    All,
}

/// A line of a suite file.
#[derive(Deserialize)]
struct Cells {
    dtype: String,
    layout: String,
    m: String,
    n: String,
    k: String,
    batch: String,
    lda: String,
    ldb: String,
    ldc: String,
    epilogue: String,
    kernels: String,
}

impl Suite {
    /// The names of the suites that the program carries.
    pub fn names() -> impl Iterator<Item = &'static str> {
        CARRIED.iter().map(|(name, _)| *name)
    }

    /// The carried suite of that name, or else the one in the file at that path.
    pub fn find(name_or_path: &str) -> Result<Suite> {
        if let Some((name, text)) = CARRIED.iter().find(|(name, _)| *name == name_or_path) {
            return Suite::parse(name, text).with_context(|| format!("suite {name}"));
        }
        let path = Path::new(name_or_path);
        let text = std::fs::read_to_string(path).with_context(|| {
            let names: Vec<&str> = Suite::names().collect();
            format!("{name_or_path:?} is no suite ({}) and no file", names.join(", "))
        })?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        Suite::parse(&name, &text).with_context(|| path.display().to_string())
    }

    /// The suite of that name from its text.
    pub fn parse(name: &str, text: &str) -> Result<Suite> {
        let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
        let mut rows = Vec::new();
        for cells in reader.deserialize() {
            let cells: Cells = cells?;
            let before = rows.len();
            cells.expand(&mut rows)?;
            ensure!(rows.len() > before, "a line without a dtype, a layout or an m");
        }
        let mut seen = HashSet::new();
        for row in &rows {
            let key = format!("{:?}", Row { kernels: Kernels::Auto, ..*row });
            let (dtype, ops, Row { m, n, k, .. }) = (row.dtype_name(), row.ops(), row);
            ensure!(seen.insert(key), "{dtype} {ops} {m}x{n}x{k} stands there twice");
        }
        Ok(Suite { name: name.to_owned(), rows })
    }
}

impl Cells {
    /// Appends a row for every combination of the cells' values.
    fn expand(&self, rows: &mut Vec<Row>) -> Result<()> {
        for dtype in self.dtype.split_whitespace() {
            let hows = [Precision::Tf32, Precision::Bf16x6];
            let how = hows.into_iter().find(|how| how.name(DType::F32) == dtype);
            let (dtype, precision) = match (how, dtype.parse()) {
                (Some(precision), _) => (DType::F32, precision),
                (None, Ok(dtype)) => (dtype, Precision::Full),
                (None, Err(_)) => bail!("no dtype: {dtype}"),
            };
            for layout in self.layout.split_whitespace() {
                for m in self.m.split_whitespace() {
                    for n in self.n.split_whitespace() {
                        for k in self.k.split_whitespace() {
                            let row = self.row(dtype, layout, [m, n, k])?;
                            rows.push(Row { precision, ..row });
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn row(&self, dtype: DType, layout: &str, [m, n, k]: [&str; 3]) -> Result<Row> {
        let number = |text: &str| text.parse().with_context(|| format!("no number: {text:?}"));
        let or = |text: &str, usual| if text.is_empty() { Ok(usual) } else { number(text) };
        let m = number(m)?;
        let of_m = |text: &str| if text == "m" { Ok(m) } else { number(text) };
        let mut row = Row::new(dtype, layout.parse()?, [m, of_m(n)?, of_m(k)?])?;
        row.batch = or(&self.batch, 1)?;
        let [a, b, c] = row.leading;
        row.leading = [or(&self.lda, a)?, or(&self.ldb, b)?, or(&self.ldc, c)?];
        row.epilogue = self.epilogue.parse()?;
        row.kernels = match self.kernels.as_str() {
            "" => Kernels::Auto,
            "all" => Kernels::All,
            other => bail!("kernels: {other:?} is neither empty nor `all`"),
        };
        row.check()?;
        Ok(row)
    }
}

impl Row {
    /// A plain product of matrices without gaps. `sizes`: m, n, k.
    pub fn new(dtype: DType, ops: Ops, [m, n, k]: [usize; 3]) -> Result<Row> {
        let Ops { op_a, op_b } = ops;
        let mut row = Row {
            dtype,
            precision: Precision::Full,
            op_a,
            op_b,
            m,
            n,
            k,
            batch: 1,
            leading: [0; 3],
            epilogue: Epilogue::NONE,
            kernels: Kernels::Auto,
        };
        row.leading = row.stored().map(|shape| shape.cols);
        row.check()?;
        Ok(row)
    }

    /// Whether it can be measured.
    ///
    /// # Errors
    /// Where it cannot; they say why.
    pub fn check(&self) -> Result<()> {
        let extents = [self.m, self.n, self.k, self.batch];
        ensure!(!extents.contains(&0), "an extent of 0 cannot be timed");
        for (name, (shape, leading)) in
            ["lda", "ldb", "ldc"].iter().zip(self.stored().into_iter().zip(self.leading))
        {
            let cols = shape.cols;
            ensure!(leading >= cols, "{name} = {leading}, and a row has {cols} elements");
        }
        let bytes = self.lens().map(|len| len.checked_mul(self.dtype.output().size_bytes()));
        ensure!(bytes.iter().all(Option::is_some), "larger than any memory");
        let has_epilogues = matches!(self.dtype, DType::F16 | DType::BF16 | DType::F32);
        let may_be = !self.epilogue.is_fused() || has_epilogues && self.batch == 1;
        ensure!(may_be, "bias and activation are for one product of f16, bf16 or f32");
        let Epilogue { alpha, beta, .. } = self.epilogue;
        for (name, factor) in [("alpha", Some(alpha)), ("beta", beta)] {
            let is_i32 = |x: f64| x.fract() == 0.0 && (-2147483648.0..=2147483647.0).contains(&x);
            let fits = !self.dtype.output().is_integer() || factor.is_none_or(is_i32);
            let factor = factor.unwrap_or_default();
            ensure!(fits, "{name} = {factor}: for {} it is a whole number of 32 bits", self.dtype);
            let is_f64 = self.dtype == DType::F64 || !factor.is_finite();
            let fits = is_f64 || (factor as f32).is_finite();
            ensure!(fits, "{name} = {factor:?}: for {} it is a number of f32", self.dtype);
        }
        Ok(())
    }

    /// Shapes of A, B and C as they are stored.
    fn stored(&self) -> [Shape; 3] {
        let stored = |op, rows, cols| match op {
            Op::None => Shape::new(rows, cols),
            Op::Transpose => Shape::new(cols, rows),
        };
        let (a, b) = (stored(self.op_a, self.m, self.k), stored(self.op_b, self.k, self.n));
        [a, b, Shape::new(self.m, self.n)]
    }

    /// Layouts of A, B and C as they are stored, each of one product of the batch.
    pub fn layouts(&self) -> [Layout; 3] {
        let [a, b, c] = self.stored();
        let [lda, ldb, ldc] = self.leading;
        [(a, lda), (b, ldb), (c, ldc)]
            .map(|(shape, leading)| Layout::strided(shape, Strides::new(leading as isize, 1)))
    }

    /// Elements from one product's A, B and C to the next one's.
    pub fn batch_strides(&self) -> [usize; 3] {
        let [a, b, c] = self.stored();
        let [lda, ldb, ldc] = self.leading;
        [a.rows.saturating_mul(lda), b.rows.saturating_mul(ldb), c.rows.saturating_mul(ldc)]
    }

    /// Elements of the buffers of A, B and C, the whole batch and the gaps counted.
    pub fn lens(&self) -> [usize; 3] {
        self.batch_strides().map(|stride| stride.saturating_mul(self.batch))
    }

    /// Multiplications and additions.
    pub fn flop(&self) -> f64 {
        2.0 * self.m as f64 * self.n as f64 * self.k as f64 * self.batch as f64
    }

    /// The fewest bytes that the product can move: each operand once, C twice where it is read.
    pub fn bytes(&self) -> f64 {
        let [m, n, k] = [self.m, self.n, self.k].map(|extent| extent as f64);
        let c = if self.epilogue.beta.is_some() { 2.0 } else { 1.0 };
        let [of_factors, of_c] =
            [self.dtype, self.dtype.output()].map(|dtype| dtype.size_bytes() as f64);
        ((m * k + k * n) * of_factors + c * m * n * of_c) * self.batch as f64
    }

    /// The dtype, as records have it.
    pub fn dtype_name(&self) -> &'static str {
        self.precision.name(self.dtype)
    }

    /// The transposes, as records have them.
    pub fn ops(&self) -> Ops {
        Ops { op_a: self.op_a, op_b: self.op_b }
    }
}

/// The transposes of A and B: `n` for none, `t` for transposed, A's first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ops {
    /// A's.
    pub op_a: Op,
    /// B's.
    pub op_b: Op,
}

impl FromStr for Ops {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Ops> {
        let op = |letter| match letter {
            'n' => Some(Op::None),
            't' => Some(Op::Transpose),
            _ => None,
        };
        let ops: Option<Vec<Op>> = text.chars().map(op).collect();
        match ops.as_deref() {
            Some(&[op_a, op_b]) => Ok(Ops { op_a, op_b }),
            _ => bail!("layout {text:?}: expected nn, nt, tn or tt"),
        }
    }
}

impl fmt::Display for Ops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = |op| if op == Op::None { 'n' } else { 't' };
        write!(f, "{}{}", letter(self.op_a), letter(self.op_b))
    }
}

impl FromStr for Epilogue {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Epilogue> {
        let mut epilogue = Epilogue::NONE;
        for part in text.split_whitespace().filter(|part| *part != "none") {
            let number = |value: &str| {
                value.parse().with_context(|| format!("epilogue: no number in {part:?}"))
            };
            let expected =
                || format!("epilogue {part:?}: expected alpha=X, beta=Y, bias or an activation");
            match part.split_once('=') {
                Some(("alpha", value)) => epilogue.alpha = number(value)?,
                Some(("beta", value)) => epilogue.beta = Some(number(value)?),
                Some(_) => bail!(expected()),
                None if part == "bias" => epilogue.bias = true,
                None => {
                    let activation = part.parse().with_context(expected)?;
                    let before = std::mem::replace(&mut epilogue.activation, activation);
                    let is_first = before == Activation::Identity;
                    ensure!(is_first, "epilogue {text:?}: {before} and {activation}");
                }
            }
        }
        Ok(epilogue)
    }
}

impl fmt::Display for Epilogue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let alpha = (self.alpha != 1.0).then(|| format!("alpha={}", self.alpha));
        let beta = self.beta.map(|beta| format!("beta={beta}"));
        let bias = self.bias.then(|| "bias".to_owned());
        let activation =
            (self.activation != Activation::Identity).then(|| self.activation.to_string());
        let parts: Vec<String> = [alpha, beta, bias, activation].into_iter().flatten().collect();
        f.write_str(if parts.is_empty() { "none" } else { "" })?;
        f.write_str(&parts.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "dtype,layout,m,n,k,batch,lda,ldb,ldc,epilogue,kernels\n";

    fn parse(lines: &str) -> Result<Suite> {
        Suite::parse("test", &format!("# a comment\n{HEAD}{lines}"))
    }

    #[test]
    fn every_carried_suite_is_well_formed() {
        for name in Suite::names() {
            let suite = Suite::find(name).unwrap();
            assert!(!suite.rows.is_empty(), "{name}");
            for (index, row) in suite.rows.iter().enumerate() {
                assert!(!suite.rows[..index].contains(row), "{name} has {row:?} twice");
            }
        }
        assert!(GPU_SUITES.iter().all(|name| Suite::names().any(|known| known == *name)));
        let error = format!("{:#}", Suite::find("sqare").unwrap_err());
        assert!(error.contains("square") && error.contains("sqare"), "{error}");
    }

    #[test]
    fn a_line_stands_for_every_combination() {
        let suite = parse("bf16 f32,nn tt,2 3,m,7,,,,,,\n").unwrap();
        assert_eq!(suite.rows.len(), 8);
        let last = suite.rows[7];
        assert_eq!((last.dtype, last.m, last.n, last.k), (DType::F32, 3, 3, 7));
        assert_eq!(last.ops().to_string(), "tt");
        assert_eq!(last.leading, [3, 7, 3]);
        assert_eq!(last.lens(), [21, 21, 9]);
        let suite = parse("f32 tf32,nt,8,m,m,,,,,,\n").unwrap();
        assert_eq!(suite.rows.iter().map(Row::dtype_name).collect::<Vec<_>>(), ["f32", "tf32"]);
    }

    #[test]
    fn cells_are_read() {
        let row = parse("f64,tn,2,3,5,4,8,9,10,alpha=0.5 beta=2,all\n").unwrap().rows[0];
        assert_eq!((row.batch, row.leading, row.kernels), (4, [8, 9, 10], Kernels::All));
        assert_eq!(row.epilogue.to_string(), "alpha=0.5 beta=2");
        assert_eq!(row.batch_strides(), [40, 45, 20]);
        assert_eq!(row.layouts()[0].shape, Shape::new(5, 2));
        assert_eq!(row.flop(), 240.0);
        assert_eq!(row.bytes(), ((10 + 15 + 12) * 4 * 8) as f64);
    }

    #[test]
    fn nonsense_is_refused() {
        for line in [
            "f31,nn,2,m,m,,,,,,",
            "f32,nx,2,m,m,,,,,,",
            "f32,n,2,m,m,,,,,,",
            "f32,nn,0,m,m,,,,,,",
            "f32,nn,,m,m,,,,,,",
            "f32,nn,2,x,m,,,,,,",
            "f32,nn,2,m,m,,1,,,,",
            "f32,nn,2,m,m,,,,,gamma=1,",
            "f32,nn,2,m,m,,,,,beta=,",
            "f32,nn,2,m,m,,,,,beta,",
            "f32,nn,2,m,m,,,,,alpha=1e39,",
            "f32,nn,2,m,m,,,,,bias=0,",
            "f32,nn,2,m,m,,,,,relu=7,",
            "f32,nn,2,m,m,,,,,relu gelu,",
            "f32,nn,2 2,m,m,,,,,,",
            "f32,nn,2,m,m,,,,,,some",
            "f32,nn,2,m,m",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
