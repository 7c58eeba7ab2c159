//! `gemmite demo --reference 001`: the comparison of "Speed up matrix multiplication 2".
//!
//! 2000x2000 matrices of i32 in which every element is 1, multiplied by a loop on the CPU, by the
//! naive kernel and by the tiled one. The tutorial times whole calls: allocation, copies, the
//! kernel, and for its first call the start of CUDA itself. Those times are printed in its form,
//! and the kernels' own beside them.

use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use gemmite::verify::Problem;
use gemmite::{
    Device, DeviceKind, Error, Gemm, Kernel, KernelChoice, Layout, Matrix, MatrixRef, Shape, Tiles,
    random, reference,
};

use crate::args::DemoArgs;
use crate::demo::{self, Tally};
use crate::engine;
use crate::progress;
use gemmite_bench::text::{self, milliseconds};

/// The tutorial's two kernels, by its names and ours.
const KERNELS: [(&str, &str); 2] = [("cuda", "k01_naive"), ("cuda tile", "k02_tiled_16")];
/// Rows of C that the CPU loop computes between two steps of the progress bar.
const PANEL: usize = 25;

/// How long one contestant took.
struct Contest {
    name: &'static str,
    /// The first call, with all set-up; what the tutorial prints.
    first: Duration,
    /// A later call: allocation, copies and kernel.
    call: Duration,
    /// The kernel alone.
    kernel: Duration,
}

/// Runs the comparison; an error where a product is wrong.
pub fn run(args: &DemoArgs, out: &mut impl Write) -> Result<()> {
    let size = args.size.map_or(2000, usize::from);
    let shape = Shape::new(size, size);
    let start = Instant::now();
    let (device, no_gpu) = demo::open(args.device)?;
    let opening = start.elapsed();
    if let DeviceKind::Emulator { .. } = device.info().kind {
        bail!("reference 001 compares times, and the emulator's are not a GPU's");
    }
    let on_gpu = device.info().kind != DeviceKind::Cpu;
    writeln!(out, "reference 001: {shape} i32, every element of A and B is 1")?;
    writeln!(out, "device: {}", engine::describe(&device))?;
    writeln!(out)?;

    let ones = Matrix::from_fn(shape, |_, _| 1)?;
    let mut tally = Tally::default();
    let mut contests = Vec::new();
    if on_gpu {
        for (name, kernel) in KERNELS {
            let set_up = if contests.is_empty() { opening } else { Duration::ZERO };
            let contest = on_device(&device, name, kernel, set_up, &ones, &mut tally)?;
            writeln!(out, "{name} Duration: {}", milliseconds(contest.first))?;
            contests.push(contest);
        }
    }
    let (c, time) = cpu_loop(&ones, &ones)?;
    tally.add("the CPU loop", all_are(&c, size));
    writeln!(out, "cpu Duration: {}", milliseconds(time))?;
    contests.push(Contest { name: "cpu", first: time, call: time, kernel: time });

    random_integers(&device, on_gpu, shape, &mut tally)?;
    let passed = if tally.all_right() { "pass" } else { "FAILED" };
    writeln!(out, "correctness check {passed}\n")?;
    if on_gpu {
        compare(&contests, opening, out)?;
        impossible_launch(&device, shape, &mut tally, out)?;
    } else {
        let parts = ["cuda", "cuda tile", "their ratios", "the impossible launch"];
        tally.skipped += parts.len();
        let why = no_gpu.map_or("the device is the CPU, as asked".into(), |why| why.to_string());
        writeln!(out, "skipped: {}: {why}\n", parts.join(", "))?;
    }
    tally.finish(out)
}

/// Times one kernel as the tutorial does, and by itself.
fn on_device(
    device: &Device,
    name: &'static str,
    kernel: &str,
    set_up: Duration,
    ones: &Matrix<i32>,
    tally: &mut Tally,
) -> Result<Contest> {
    let gemm = Gemm::<i32>::new().kernel(kernel);
    let mut c = Matrix::zeros(ones.shape())?;
    let mut call = || -> Result<Duration> {
        let start = Instant::now();
        gemm.run_into(device, ones, ones, &mut c)?;
        Ok(start.elapsed())
    };
    let first = set_up + call()?;
    let mut calls = (0..5).map(|_| call()).collect::<Result<Vec<_>>>()?;
    calls.sort();
    tally.add(kernel, all_are(&c, ones.shape().cols));

    let (a, b) = (device.upload(ones)?, device.upload(ones)?);
    let mut on_gpu = device.uninit(ones.shape())?;
    let kernel = engine::kernel_time(&device.stream()?, &gemm, &a, &b, &mut on_gpu)?;
    Ok(Contest { name, first, call: calls[calls.len() / 2], kernel })
}

/// The tutorial's `matmul_cpu`, panel by panel of rows for the sake of the progress bar.
fn cpu_loop(a: &Matrix<i32>, b: &Matrix<i32>) -> Result<(Matrix<i32>, Duration)> {
    let cols = a.shape().cols;
    let bar = progress::bar("CPU loop", a.shape().rows.div_ceil(PANEL));
    let start = Instant::now();
    let mut data = Vec::with_capacity(a.shape().rows * b.shape().cols);
    for panel in a.as_slice().chunks(PANEL * cols) {
        let shape = Shape::new(panel.len() / cols, cols);
        let panel = MatrixRef::new(panel, Layout::row_major(shape))?;
        data.extend_from_slice(reference::ijk(panel, b.view())?.as_slice());
        bar.inc(1);
    }
    let time = start.elapsed();
    bar.finish_and_clear();
    Ok((Matrix::from_vec(Shape::new(a.shape().rows, b.shape().cols), data)?, time))
}

/// A product of ones: every element is the number of terms in its sum.
fn all_are(c: &Matrix<i32>, k: usize) -> Result<&'static str, String> {
    match c.as_slice().iter().position(|&x| x as usize != k) {
        None => Ok("exact"),
        Some(i) => {
            let (row, col) = (i / c.shape().cols, i % c.shape().cols);
            Err(format!("element ({row}, {col}) is {} and not {k}", c.as_slice()[i]))
        }
    }
}

/// Ones forgive a wrong index. Random elements do not: both kernels, or the CPU engine, against
/// exact sums.
fn random_integers(device: &Device, on_gpu: bool, shape: Shape, tally: &mut Tally) -> Result<()> {
    let integers = |seed| random::integers::<i32>(shape, seed, i32::MIN..=i32::MAX);
    let (a, b) = (integers(1)?, integers(2)?);
    let problem = Problem::product(a.view(), b.view());
    let rows = engine::affordable_rows(shape, shape.rows);
    let kernels = if on_gpu { &KERNELS[..] } else { &[("cpu", "auto")] };
    for (_, kernel) in kernels {
        let c = Gemm::new().kernel(*kernel).run(device, &a, &b)?;
        let exactness = engine::verify(&problem, &c, rows);
        let what = format!("random elements, {kernel}");
        tally.add(&what, exactness.map(|e| engine::error_over_bound(&e)));
    }
    Ok(())
}

/// The table of times, and the ratios that the tutorial gives.
fn compare(contests: &[Contest], opening: Duration, out: &mut impl Write) -> Result<()> {
    let head = ["", "first call", "call with copies", "kernel alone"];
    let mut rows = vec![head.map(String::from).to_vec()];
    for contest in contests {
        let times = [contest.first, contest.call, contest.kernel].map(milliseconds);
        rows.push([vec![contest.name.to_owned()], times.to_vec()].concat());
    }
    let [naive, tiled, cpu] = contests else { bail!("three contestants take part") };
    for (name, slow, fast) in [("cpu / cuda", cpu, naive), ("cuda / cuda tile", naive, tiled)] {
        let ratio = |of: fn(&Contest) -> Duration| {
            let ratio = of(slow).as_secs_f64() / of(fast).as_secs_f64();
            format!("{}x", text::three_digits(ratio))
        };
        rows.push(vec![name.into(), ratio(|c| c.first), ratio(|c| c.call), ratio(|c| c.kernel)]);
    }
    writeln!(out, "{}", text::table(1, &rows))?;
    writeln!(
        out,
        "The durations above are the first calls, as the tutorial's are: with allocation and\n\
         copies, and cuda's with the start of CUDA ({}). Kernel alone: the operands are on the\n\
         GPU, and nothing is copied.\n",
        text::duration(opening)
    )?;
    Ok(())
}

/// The tutorial's mistake, a block as wide as the matrix, is an error that the caller gets, and
/// work goes on.
fn impossible_launch(
    device: &Device,
    shape: Shape,
    tally: &mut Tally,
    out: &mut impl Write,
) -> Result<()> {
    let Some(naive) = Kernel::find("k01_naive", gemmite::DType::I32) else { bail!("no k01_naive") };
    // 33 is the least width that no GPU takes, and the tutorial's is the matrix's.
    let tile = shape.cols.max(33);
    let ones = Matrix::from_fn(shape, |_, _| 1)?;
    let one_block = Gemm::<i32>::new()
        .kernel(KernelChoice::Spec(Kernel { tiles: Tiles::square(tile), ..*naive }));
    let refused: Result<Matrix<i32>, Error> = one_block.run(device, &ones, &ones);
    match &refused {
        Err(error) => writeln!(out, "one block of {tile}x{tile} threads: {error}\n")?,
        Ok(_) => writeln!(out, "one block of {tile}x{tile} threads: no error\n")?,
    }
    let expected = refused.err().map(|_| "an error").ok_or("it was launched");
    tally.add("the impossible launch", expected);
    let after = Gemm::new().run(device, &ones, &ones)?;
    tally.add("the product after the impossible launch", all_are(&after, shape.cols));
    Ok(())
}
