//! `gemmite matmul`: .npy files in, a .npy file out.

use std::io::Write;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use gemmite::emulator::{self, Options};
use gemmite::verify::{Problem, Rows};
use gemmite::{DType, Device, DeviceChoice, DeviceKind, Gemm, Matrix, Op, Shape, with_element};

use crate::args::{self, MatmulArgs, VerifyRows};
use crate::element::CliElement;
use crate::engine;
use crate::npy::NpyFile;
use crate::output::Output;
use crate::progress::watch;
use crate::statistics;
use gemmite_bench::text;

/// The input files, whose headers fit each other.
struct Inputs {
    a: NpyFile,
    b: NpyFile,
    c: Option<NpyFile>,
    /// Shape of the product.
    shape: Shape,
    /// Products that one element sums.
    k: usize,
}

/// Reads, multiplies, verifies, writes, reports.
pub fn run(args: &MatmulArgs, out: &mut impl Write) -> Result<()> {
    let output = Output::new(&args.output, args.force)?;
    let inputs = Inputs::open(args)?;
    let device = open_device(args)?;
    if let Some(path) = &args.tuning {
        args::load_tuning(&device, path)?;
    }
    with_element!(inputs.a.dtype(), T => product::<T>(args, inputs, &device, &output, out))
}

impl Inputs {
    /// Opens the files and holds their dtypes and shapes against each other, before anything is
    /// read.
    fn open(args: &MatmulArgs) -> Result<Self> {
        let a = NpyFile::open(&args.a, args.dtype)?;
        let b = NpyFile::open(&args.b, args.dtype)?;
        let stated = args.dtype.map(DType::output);
        let c = args.c.as_deref().map(|c| NpyFile::open(c, stated)).transpose()?;
        ensure!(
            b.dtype() == a.dtype(),
            "dtypes differ: {} is {} and {} is {}; convert one: x.astype(...)",
            a.path().display(),
            a.dtype(),
            b.path().display(),
            b.dtype()
        );
        if let Some(c) = &c {
            ensure!(
                c.dtype() == a.dtype().output(),
                "dtypes differ: the product of {} matrices is {} and {} is {}; convert one: \
                 x.astype(...)",
                a.dtype(),
                a.dtype().output(),
                c.path().display(),
                c.dtype()
            );
        }
        let (op_a, op_b) = ops(args);
        let (left, right) = (apply(op_a, a.shape()), apply(op_b, b.shape()));
        ensure!(
            left.cols == right.rows,
            "shapes do not match: {} is {}, {} is {}; the columns of the first, {}, have to be as \
             many as the rows of the second, {} (--transpose-a and --transpose-b exchange them)",
            named(&a, op_a),
            left,
            named(&b, op_b),
            right,
            left.cols,
            right.rows
        );
        let shape = Shape::new(left.rows, right.cols);
        if let Some(c) = &c {
            ensure!(
                c.shape() == shape,
                "shapes do not match: the product is {shape} and {} is {}",
                c.path().display(),
                c.shape()
            );
        }
        Ok(Inputs { a, b, c, shape, k: left.cols })
    }
}

fn ops(args: &MatmulArgs) -> (Op, Op) {
    let op = |transpose| if transpose { Op::Transpose } else { Op::None };
    (op(args.transpose_a), op(args.transpose_b))
}

fn apply(op: Op, shape: Shape) -> Shape {
    match op {
        Op::None => shape,
        Op::Transpose => shape.transposed(),
    }
}

fn named(file: &NpyFile, op: Op) -> String {
    match op {
        Op::None => file.path().display().to_string(),
        Op::Transpose => format!("the transpose of {}", file.path().display()),
    }
}

fn open_device(args: &MatmulArgs) -> Result<Device> {
    let device = match (args.statistics, args.device) {
        (false, _) => args::open_device(args.device)?,
        (true, DeviceChoice::Emulator { arch }) => {
            Device::emulator_with(&Options { arch, statistics: true, ..Options::default() })?
        }
        (true, other) => bail!(
            "--statistics counts what an emulated GPU does, and the device is {other}: add \
             --device emulator"
        ),
    };
    if let (DeviceKind::Cpu, Some(kernel)) = (device.info().kind, &args.kernel) {
        // `best` found no GPU; its error says why.
        let why = match args.device {
            DeviceChoice::Best => Device::cuda(0).err(),
            _ => None,
        };
        let message = format!(
            "--kernel {kernel} needs a GPU and the device is the CPU: leave --kernel out, or \
             choose a GPU with --device"
        );
        match why {
            Some(why) => return Err(why).context(message),
            None => bail!(message),
        }
    }
    Ok(device)
}

fn product<T: CliElement>(
    args: &MatmulArgs,
    inputs: Inputs,
    device: &Device,
    output: &Output,
    out: &mut impl Write,
) -> Result<()> {
    let (op_a, op_b) = ops(args);
    let alpha = T::scalar(&args.alpha)?;
    let beta = args.beta.as_ref().map(T::scalar).transpose()?;
    let precision = args.digits.precision(T::DTYPE)?;
    let mut gemm = Gemm::<T>::new().op_a(op_a).op_b(op_b).alpha(alpha).precision(precision);
    if let Some(beta) = beta {
        gemm = gemm.beta(beta);
    }
    if let Some(kernel) = &args.kernel {
        gemm = gemm.kernel(kernel.as_str());
    }

    let start = Instant::now();
    let Inputs { a, b, c, shape, k } = inputs;
    describe_inputs(out, &a, &b, c.as_ref())?;
    let (a, b, c) = watch("reading", || -> Result<_> {
        Ok((a.read::<T>()?, b.read::<T>()?, c.map(NpyFile::read::<T::Output>).transpose()?))
    })?;
    let (a, b) = (a.view()?, b.view()?);
    let mut result = match c {
        Some(c) => c.into_row_major()?,
        None => Matrix::zeros(shape)?,
    };
    // The verification needs C as it was.
    let before = (args.verify.is_some() && beta.is_some()).then(|| result.clone());
    let plan = gemm.plan_on(device, a.layout(), b.layout())?;
    // A tuning's plans have multiplied on it already.
    let counted = emulator::statistics(device).unwrap_or_default();
    let times = engine::run(device, &gemm, a, b, &mut result, beta.is_some())?;

    writeln!(out, "device   {}", engine::describe(device))?;
    writeln!(out, "kernel   {plan}")?;
    let speed = text::speed(T::DTYPE, shape, k, times.product);
    writeln!(out, "product  {}, {speed}", text::duration(times.product))?;
    if let Some(with_copies) = times.with_copies {
        writeln!(out, "copies   {} with the copies", text::duration(with_copies))?;
    }
    if args.statistics {
        let all = emulator::statistics(device).unwrap_or_default();
        statistics::write(out, &all.since(&counted))?;
    }
    if let Some(rows) = args.verify {
        let rows = match rows {
            VerifyRows::All => Rows::All,
            VerifyRows::Auto => engine::affordable_rows(shape, k),
        };
        let c = before.as_ref().map(Matrix::view);
        let problem = Problem { op_a, op_b, precision, alpha, beta, c, ..Problem::product(a, b) };
        let exactness = engine::verify(&problem, &result, rows)
            .context("the product is wrong; nothing was written")?;
        writeln!(out, "exact    {}", exactness_line(&exactness, shape))?;
    }
    watch("writing", || output.write(&result))?;
    writeln!(out, "c        {shape} {}  {}", T::DTYPE.output(), args.output.display())?;
    writeln!(out, "total    {}", text::duration(start.elapsed()))?;
    Ok(())
}

fn describe_inputs(
    out: &mut impl Write,
    a: &NpyFile,
    b: &NpyFile,
    c: Option<&NpyFile>,
) -> Result<()> {
    for (name, file) in [("a", Some(a)), ("b", Some(b)), ("c0", c)] {
        let Some(file) = file else { continue };
        let order = if file.is_fortran_order() { ", Fortran order" } else { "" };
        let path = file.path().display();
        writeln!(out, "{name:<8} {} {}  {path}{order}", file.shape(), file.dtype())?;
    }
    Ok(())
}

fn exactness_line(exactness: &gemmite::verify::Exactness, shape: Shape) -> String {
    let rows = engine::checked_rows(exactness, shape);
    match exactness.worst {
        None => format!("every element, {rows} checked"),
        Some((row, col)) => format!(
            "largest error {:.3} of its bound, at ({row}, {col}), {rows} checked",
            exactness.max_err_over_bound
        ),
    }
}
