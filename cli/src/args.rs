//! The command line.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, ensure};
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use gemmite::{DType, Device, DeviceChoice, Precision, Shape};
use gemmite_bench::command::MeasureArgs;
use gemmite_bench::record;
use gemmite_bench::suite::Ops;

/// Multiplies matrices on NVIDIA GPUs with kernels written in Rust, or on the CPU where there is no
/// GPU.
#[derive(Parser)]
#[command(name = "gemmite", version, arg_required_else_help = true, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Subcommand)]
pub enum Command {
    /// Multiply two matrices from .npy files: C = alpha * op(A) * op(B) + beta * C
    Matmul(Box<MatmulArgs>),
    /// Write a matrix of seeded random numbers to a .npy file
    Generate(GenerateArgs),
    /// Show the driver, the GPUs, and the kernels that fit each
    Info,
    /// Multiply real matrices, verify every product, and print how long it took and how exact it is
    Demo(DemoArgs),
    /// Time one product, verified, beside the peers on this machine (cuBLAS, torch, Triton, ...)
    Bench(Box<BenchArgs>),
    /// Show which kernel a product would run, how long that is predicted to take, and what else
    /// there is
    Explain(ExplainArgs),
    /// Measure the plans of products on this GPU, verified, and keep the fastest in a file
    Tune(TuneArgs),
    /// Make a page from a record of `cargo xtask bench`
    Report(ReportArgs),
}

/// Options of `gemmite matmul`.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  gemmite matmul a.npy b.npy -o c.npy
  gemmite matmul a.npy a.npy --transpose-a -o gram.npy --verify
  gemmite matmul a.npy b.npy --alpha 0.5 --beta 1 --c c0.npy -o c.npy
  gemmite matmul a.npy b.npy -o c.npy --device cuda:1 --kernel k02_tiled_16
  gemmite matmul a.npy b.npy -o c.npy --device emulator:8.0 --kernel k11_tensor_core
  gemmite matmul a.npy b.npy -o c.npy --device emulator --kernel k02_tiled_16 --statistics
  gemmite matmul a.npy b.npy -o c.npy --bf16x6 --verify

A and B are matrices of one dtype: int8, int32, float16, float32 or float64 as numpy.save writes
them, or bfloat16 of the package ml_dtypes. Floats of 8 bits are those of that package too, or bytes
(uint8) with --dtype f8e4m3 or --dtype f8e5m2. Sums run in f32 for floats of 8 and 16 bits; the
product of int8 matrices is one of int32, that of floats of 8 bits one of bf16; i32 wraps around.

The emulator runs a GPU kernel's PTX on the CPU, thousands of times slower than a GPU, and stops
with a report where the kernel misuses memory or a barrier: for products of some hundred rows.

Exit status: 0 done, 1 an error or a product that failed its verification, 2 a command line that
cannot be read.")]
pub struct MatmulArgs {
    /// A, as a .npy file
    pub a: PathBuf,
    /// B, as a .npy file
    pub b: PathBuf,
    /// Where to write the product
    #[arg(short, long, value_name = "C.npy")]
    pub output: PathBuf,
    /// Multiply by the transpose of A
    #[arg(long)]
    pub transpose_a: bool,
    /// Multiply by the transpose of B
    #[arg(long)]
    pub transpose_b: bool,
    /// Factor of the product
    #[arg(long, value_name = "X", default_value = "1", allow_hyphen_values = true)]
    pub alpha: Scalar,
    /// Factor of the C that is added to the product
    #[arg(long, value_name = "Y", requires = "c", allow_hyphen_values = true)]
    pub beta: Option<Scalar>,
    /// The C that is added to the product, as a .npy file
    #[arg(long, value_name = "C0.npy", requires = "beta")]
    pub c: Option<PathBuf>,
    /// The dtype of the files, where they do not say it (raw bytes), or to have it checked
    #[arg(long, value_parser = dtype_parser())]
    pub dtype: Option<DType>,
    /// The device: best (a GPU, else the CPU), cpu, cuda, cuda:N, emulator or emulator:X.Y
    #[arg(long, default_value = "best", value_name = "DEVICE")]
    pub device: DeviceChoice,
    #[command(flatten)]
    pub digits: Digits,
    /// The GPU kernel, instead of the one that the library would choose
    #[arg(
        long,
        value_name = "NAME",
        value_parser = kernel_parser()
    )]
    pub kernel: Option<String>,
    /// Take the plans of this file of `gemmite tune` where there are some
    #[arg(long, value_name = "FILE", conflicts_with = "kernel")]
    pub tuning: Option<PathBuf>,
    /// Compare the product with one that the CPU sums in higher precision
    #[arg(
        long,
        value_name = "ROWS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "auto"
    )]
    pub verify: Option<VerifyRows>,
    /// Count what an emulated GPU does: instructions, bytes, sectors, bank conflicts
    #[arg(long)]
    pub statistics: bool,
    /// Overwrite the output
    #[arg(long)]
    pub force: bool,
}

/// Options of `gemmite explain`.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  gemmite explain 4096 4096 4096 --dtype bf16
  gemmite explain 128 128 65536 --dtype bf16 --layout nt --all
  gemmite explain 1 8192 8192 --device emulator:8.0

Nothing is run. The times are those of a model of the GPU, fitted to an H100 and an
H200; without a GPU the plan is that for an emulated one of compute capability 9.0, which is an H100
to the model.")]
pub struct ExplainArgs {
    /// Rows of C
    pub m: usize,
    /// Columns of C
    pub n: usize,
    /// Products that one element of C sums
    pub k: usize,
    /// The dtype of A and B
    #[arg(long, default_value = "f32", value_parser = dtype_parser())]
    pub dtype: DType,
    /// How A and B are stored: n in rows, t transposed, A's letter first
    #[arg(long, default_value = "nn", value_name = "nn|nt|tn|tt")]
    pub layout: Ops,
    /// Products of that shape in one call, their matrices one behind the other
    #[arg(long, default_value_t = 1, value_name = "COUNT")]
    pub batch: usize,
    #[command(flatten)]
    pub digits: Digits,
    /// The plan of this kernel, as in k02_tiled_16, or with K in parts, as in k02_tiled_16/4
    /// [default: the library's choice]
    #[arg(long, value_name = "NAME")]
    pub kernel: Option<String>,
    /// The device: cuda, cuda:N, emulator or emulator:X.Y with a compute capability [default: the
    /// first GPU, else emulator:9.0]
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<DeviceChoice>,
    /// List all plans that are compared, and not the fastest alone
    #[arg(long)]
    pub all: bool,
    /// The plan by which a row's bits do not depend on how many rows there are
    #[arg(long)]
    pub batch_invariant: bool,
    /// Take the plans of this file of `gemmite tune` where there are some
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kernel", "batch_invariant"])]
    pub tuning: Option<PathBuf>,
}

/// Options of `gemmite tune`.
#[derive(Args)]
#[command(override_usage = "\
gemmite tune <M> <N> <K> [OPTIONS]
       gemmite tune --suite <SUITE> [OPTIONS]")]
#[command(after_long_help = "\
Examples:
  gemmite tune 16 4096 4096 --dtype bf16 --layout nt
  gemmite tune --suite llm -o llm.txt
  gemmite matmul a.npy b.npy -o c.npy --tuning llm.txt

The library chooses plans by a model of the GPU; this measures what it chooses among. Every plan's
product is verified before it is timed. The file is for this GPU, driver and version of gemmite, and
for products that are exactly so; products that are in it already are measured again. A program
takes it by `Device::load_tuning`.")]
pub struct TuneArgs {
    /// Rows of C, columns of C, and products that one element of C sums
    #[arg(
        value_names = ["M", "N", "K"],
        num_args = 3,
        conflicts_with = "suite",
        required_unless_present = "suite"
    )]
    pub sizes: Vec<usize>,
    /// The products of a suite: its name, as in llm, or its CSV file
    #[arg(long, value_name = "SUITE", conflicts_with_all = ["tf32", "bf16x6"])]
    pub suite: Option<String>,
    /// The dtype of A and B
    #[arg(long, default_value = "f32", value_parser = dtype_parser(), conflicts_with = "suite")]
    pub dtype: DType,
    /// How A and B are stored: n in rows, t transposed, A's letter first
    #[arg(long, default_value = "nn", value_name = "nn|nt|tn|tt", conflicts_with = "suite")]
    pub layout: Ops,
    #[command(flatten)]
    pub digits: Digits,
    /// The GPU: cuda or cuda:N
    #[arg(long, default_value = "cuda", value_name = "DEVICE")]
    pub device: DeviceChoice,
    /// The most timed samples of each plan; up to 4 times as many where times jump
    #[arg(long, default_value_t = 10, value_name = "N")]
    pub rounds: usize,
    /// Where the plans are kept; those of a file that is there already stay
    #[arg(short, long, default_value = "gemmite-tuning.txt", value_name = "FILE")]
    pub output: PathBuf,
    /// Start anew where there is a file
    #[arg(long)]
    pub force: bool,
}

/// Options of `gemmite generate`.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  gemmite generate --shape 512x256 --dtype f32 --seed 1 -o a.npy
  gemmite generate --shape 1000x1000 --dtype i32 --distribution integers -o a.npy

The same shape, dtype, seed and distribution give the same numbers on every machine.")]
pub struct GenerateArgs {
    /// Rows and columns
    #[arg(long, value_name = "ROWSxCOLS", value_parser = parse_shape)]
    pub shape: Shape,
    /// The dtype
    #[arg(long, default_value = "f32", value_parser = dtype_parser())]
    pub dtype: DType,
    /// Where the random numbers start
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// How they are distributed
    #[arg(long, value_enum, default_value_t = Distribution::Normal)]
    pub distribution: Distribution,
    /// Where to write the matrix
    #[arg(short, long, value_name = "A.npy")]
    pub output: PathBuf,
    /// Overwrite the output
    #[arg(long)]
    pub force: bool,
}

/// Options of `gemmite demo`.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  gemmite demo
  gemmite demo --device cpu
  gemmite demo --device emulator:8.0
  gemmite demo --reference 001

Reference 001 is the tutorial's comparison of a CPU loop, a naive kernel and a tiled kernel on
2000x2000 matrices of i32.")]
pub struct DemoArgs {
    /// A tutorial's comparison instead of the products of all dtypes
    #[arg(long, value_name = "NUMBER")]
    pub reference: Option<Reference>,
    /// Rows and columns [default: 2048 on a GPU, 512 on the CPU, 64 emulated, 2000 for 001]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub size: Option<u16>,
    /// The device: best (a GPU, else the CPU), cpu, cuda, cuda:N, emulator or emulator:X.Y
    #[arg(long, default_value = "best", value_name = "DEVICE")]
    pub device: DeviceChoice,
}

/// Options of `gemmite bench`.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  gemmite bench 4096 4096 4096 --dtype bf16
  gemmite bench 16 4096 4096 --dtype bf16 --layout nt --against cublaslt,torch
  gemmite bench 512 512 512 --device cpu --against none

A kernel's time is the median over many runs between two events on the GPU; every product is
verified before it is timed. A peer that is not on the machine is said to be missing; one that was
asked for by --against and is not there is an error. `cargo xtask bench` measures whole suites.")]
pub struct BenchArgs {
    /// Rows of C
    pub m: usize,
    /// Columns of C
    pub n: usize,
    /// Terms of each sum
    pub k: usize,
    /// The dtype of A and B
    #[arg(long, default_value = "f32", value_parser = dtype_parser())]
    pub dtype: DType,
    /// n as it is or t transposed, for A and B: nn, nt, tn or tt; all matrices are row-major
    #[arg(long, default_value = "nn", value_name = "AB")]
    pub layout: Ops,
    #[command(flatten)]
    pub digits: Digits,
    /// Independent products, one after the other in memory
    #[arg(long, default_value_t = 1, value_name = "COUNT")]
    pub batch: usize,
    /// Factor of the product
    #[arg(long, default_value_t = 1.0, value_name = "X", allow_hyphen_values = true)]
    pub alpha: f64,
    /// Factor of C's old value, which takes no part unless this is given
    #[arg(long, value_name = "Y", allow_hyphen_values = true)]
    pub beta: Option<f64>,
    /// What is measured, and how.
    #[command(flatten)]
    pub measure: MeasureArgs,
}

/// Options of `gemmite report`.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  gemmite report
  gemmite report bench/record/nvidia-h100-80gb-hbm3/DATE-COMMIT.csv -o report.html
  gemmite report --svg docs/pictures

Without RECORD it takes, of the records of the latest date, the one with the most rows, and of
several with as many rows the one that started last: a run that was cut off, or of some suites
alone, stands behind a whole one of the same day. The output names the record.

The page is one file that loads nothing from elsewhere.")]
pub struct ReportArgs {
    /// The record [default: of the latest date, the one with the most rows]
    pub record: Option<PathBuf>,
    /// Where to write the page [default: beside the record]
    #[arg(short, long, value_name = "PAGE.html")]
    pub output: Option<PathBuf>,
    /// Also write the pictures, as SVG files, to this folder
    #[arg(long, value_name = "FOLDER")]
    pub svg: Option<PathBuf>,
    /// Where records are
    #[arg(
        long,
        default_value_os_t = record::usual_folder(),
        value_name = "FOLDER",
        conflicts_with = "record"
    )]
    pub records: PathBuf,
}

/// The tutorials that have a demonstration.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Reference {
    /// 2000x2000 matrices of i32: CPU loop, naive kernel, tiled kernel.
    #[value(name = "001")]
    Tiling001,
}

/// How random numbers are distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Distribution {
    /// Mean 0, standard deviation 1; of whole numbers 100 (i32) and 32 (i8)
    Normal,
    /// From 0 to 1; for i8 and i32 whole numbers from -100 to 100
    Uniform,
    /// Whole numbers from -9 to 9
    Integers,
}

/// How much of a product is verified.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum VerifyRows {
    /// All rows of a small product, a sample of a large one's
    Auto,
    /// All rows
    All,
}

/// Opens the device of `--device`. An explicit choice never falls back.
pub fn open_device(choice: DeviceChoice) -> Result<Device> {
    choice.open().with_context(|| {
        format!(
            "{choice} cannot be used; `gemmite info` shows what there is, and --device cpu works \
             everywhere"
        )
    })
}

/// How exactly f32 is multiplied.
#[derive(clap::Args)]
pub struct Digits {
    /// Multiply f32 as tf32 where that is faster
    #[arg(long, conflicts_with = "bf16x6")]
    tf32: bool,
    /// Multiply f32 as sums of three bf16 where that is faster
    #[arg(long)]
    bf16x6: bool,
}

impl Digits {
    /// What was asked for, of matrices of that dtype.
    pub fn precision(&self, dtype: DType) -> Result<Precision> {
        let precision = match (self.tf32, self.bf16x6) {
            (true, _) => Precision::Tf32,
            (_, true) => Precision::Bf16x6,
            _ => return Ok(Precision::Full),
        };
        let name = precision.name(DType::F32);
        ensure!(dtype == DType::F32, "--{name} is for f32, and the matrices are of {dtype}");
        Ok(precision)
    }
}

/// Takes the plans of `--tuning`, and says for how many products.
pub fn load_tuning(device: &Device, path: &Path) -> Result<usize> {
    device.load_tuning(path).with_context(|| format!("--tuning {}", path.display()))
}

/// A number from the command line, which becomes alpha or beta once the dtype is known.
#[derive(Clone, Debug)]
pub struct Scalar(pub String);

impl FromStr for Scalar {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse::<f64>() {
            Ok(_) => Ok(Scalar(text.to_owned())),
            Err(_) => Err("expected a number"),
        }
    }
}

fn parse_shape(text: &str) -> Result<Shape, &'static str> {
    let usage = "expected ROWSxCOLS, as in 512x256";
    let (rows, cols) = text.split_once('x').ok_or(usage)?;
    let shape = Shape::new(rows.parse().map_err(|_| usage)?, cols.parse().map_err(|_| usage)?);
    let bytes = shape.checked_len().and_then(|len| len.checked_mul(size_of::<f64>()));
    bytes.filter(|&bytes| bytes <= isize::MAX as usize).ok_or("larger than any memory")?;
    Ok(shape)
}

/// Kernels that a user can choose; of the others it is said what they are for.
fn kernel_parser() -> impl clap::builder::TypedValueParser<Value = String> {
    use clap::builder::TypedValueParser;
    let others = gemm_spec::entries().map(|kernel| kernel.variant);
    let others = others.filter(|variant| gemm_spec::purpose(variant).is_some());
    let others = BTreeSet::from_iter(others).into_iter();
    let others = others.map(|variant| PossibleValue::new(variant).hide(true));
    let values = gemm_spec::variants().map(PossibleValue::new).chain(others);
    PossibleValuesParser::new(values).try_map(|name| match gemm_spec::purpose(&name) {
        Some(purpose) => Err(format!(
            "it is for {purpose}, where the library takes it by itself: leave the option out, or \
             choose a kernel that `gemmite info` lists"
        )),
        None => Ok(name),
    })
}

fn dtype_parser() -> impl clap::builder::TypedValueParser<Value = DType> {
    use clap::builder::TypedValueParser;
    let values = DType::ALL.map(|dtype| {
        let value = PossibleValue::new(dtype.name());
        if dtype.is_fp8() { value.alias(&dtype.name()[2..]) } else { value }
    });
    PossibleValuesParser::new(values).try_map(|name| name.parse::<DType>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn shapes_are_read() {
        assert_eq!(parse_shape("512x256"), Ok(Shape::new(512, 256)));
        assert_eq!(parse_shape("0x7"), Ok(Shape::new(0, 7)));
        for wrong in ["512", "x", "5x", "-1x2", "1x2x3", "99999999999x99999999999"] {
            assert!(parse_shape(wrong).is_err(), "{wrong}");
        }
    }
}
