//! `gemmite demo`: products of every dtype, each verified.

use std::fmt::Display;
use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use gemmite::verify::Problem;
use gemmite::{
    DType, Device, DeviceChoice, DeviceKind, Element, Error, Gemm, Matrix, Shape, bf16, emulator,
    random, reference, with_element,
};

use crate::args::{self, DemoArgs};
use crate::engine;
use crate::progress::watch;
use gemmite_bench::text;

/// The device of a demonstration and, where `best` had to be the CPU, why there is no GPU.
pub fn open(choice: DeviceChoice) -> Result<(Device, Option<Error>)> {
    let device = args::open_device(choice)?;
    let no_gpu = match (choice, device.info().kind) {
        (DeviceChoice::Best, DeviceKind::Cpu) => Device::cuda(0).err(),
        _ => None,
    };
    Ok((device, no_gpu))
}

/// Multiplies matrices of every dtype and verifies each product; an error where one is wrong.
pub fn run(args: &DemoArgs, out: &mut impl Write) -> Result<()> {
    let (device, no_gpu) = open(args.device)?;
    let kind = device.info().kind;
    let (usual, runs) = match kind {
        DeviceKind::Cpu => (512, RUNS),
        DeviceKind::Cuda { .. } => (2048, RUNS),
        DeviceKind::Emulator { .. } => (64, 1),
    };
    let size = args.size.map_or(usual, usize::from);
    let shape = Shape::new(size, size);
    writeln!(out, "device   {}", engine::describe(&device))?;
    if let Some((major, minor)) = device.info().compute_capability {
        writeln!(out, "         compute capability {major}.{minor}")?;
    }
    writeln!(
        out,
        "product  {shape} times {shape}, elements from N(0, 1) (i8 and i32: whole numbers)\n"
    )?;

    let mut tally = Tally::default();
    let head = ["dtype", "kernel", "time", "speed", "with copies", "error/bound", "checked"];
    let mut rows = vec![head.map(String::from).to_vec()];
    for dtype in DType::ALL {
        rows.push(with_element!(dtype, T => product::<T>(&device, shape, runs, &mut tally))?);
    }
    writeln!(out, "{}", text::table(2, &rows))?;
    if matches!(kind, DeviceKind::Cuda { .. }) {
        writeln!(
            out,
            "time         of a run among many in a row, its operands on the GPU\n\
             with copies  of one call with host data: to the GPU, the product, and back\n"
        )?;
    }
    if kind == DeviceKind::Cpu {
        loops(&device, shape, &mut tally, out)?;
    }
    if let Some(why) = no_gpu {
        tally.skipped += DType::ALL.len();
        writeln!(out, "skipped  the {} products on a GPU: {why}\n", DType::ALL.len())?;
        emulated(&mut tally, out)?;
    }
    tally.finish(out)
}

/// What became of the verifications.
#[derive(Default)]
pub struct Tally {
    verified: usize,
    wrong: Vec<String>,
    /// Products that this machine has no device for.
    pub skipped: usize,
}

impl Tally {
    /// Counts one verification; returns how exact the product is, or `WRONG`.
    pub fn add(&mut self, what: &str, result: Result<impl Display, impl Display>) -> String {
        match result {
            Ok(exactness) => {
                self.verified += 1;
                exactness.to_string()
            }
            Err(why) => {
                self.wrong.push(format!("{what}: {why}"));
                "WRONG".into()
            }
        }
    }

    /// Whether nothing was wrong so far.
    pub fn all_right(&self) -> bool {
        self.wrong.is_empty()
    }

    /// The last line, and an error where anything was wrong.
    pub fn finish(self, out: &mut impl Write) -> Result<()> {
        let Tally { verified, wrong, skipped } = self;
        writeln!(out, "{verified} products verified, {} wrong, {skipped} skipped", wrong.len())?;
        if !wrong.is_empty() {
            bail!("the verification failed:\n  {}", wrong.join("\n  "));
        }
        Ok(())
    }
}

/// Where there is no GPU, one small product by a GPU's kernel all the same.
fn emulated(tally: &mut Tally, out: &mut impl Write) -> Result<()> {
    let shape = Shape::new(128, 128);
    let device = Device::emulator(emulator::DEFAULT_ARCH)?;
    let row = product::<bf16>(&device, shape, 1, tally)?;
    let [dtype, kernel, time, _, _, exactness, _] = &row[..] else { bail!("a row has 7 columns") };
    writeln!(
        out,
        "emulated {shape} times {shape} {dtype} by the PTX of {kernel},\n\
         {:9}as an {device}: no misuse of memory or barriers, error/bound {exactness}, {time}\n",
        ""
    )?;
    Ok(())
}

/// How often a product runs as a call with host data does; the times are those of the median run.
const RUNS: usize = 5;

/// One row of the table.
fn product<T: Element>(
    device: &Device,
    shape: Shape,
    runs: usize,
    tally: &mut Tally,
) -> Result<Vec<String>> {
    let (a, b) = watch("generating", || -> Result<_, Error> {
        Ok((random::normal::<T>(shape, 1)?, random::normal::<T>(shape, 2)?))
    })?;
    let gemm = Gemm::<T>::new();
    let plan = gemm.plan(device.info(), a.view().layout(), b.view().layout())?;
    let mut c = Matrix::zeros(shape)?;
    let mut times = (0..runs)
        .map(|_| engine::run(device, &gemm, a.view(), b.view(), &mut c, false))
        .collect::<Result<Vec<_>>>()?;
    times.sort_by_key(|times| times.product);
    let times = times[runs / 2];
    let time = match device.info().kind {
        DeviceKind::Cuda { .. } => own_time(device, &gemm, &a, &b)?,
        _ => times.product,
    };
    let problem = Problem::product(a.view(), b.view());
    let rows = engine::affordable_rows(shape, shape.rows);
    let exactness = engine::verify(&problem, &c, rows);
    let checked = exactness.as_ref().map_or("".into(), |e| engine::checked_rows(e, shape));
    let kernel = plan.kernel.map_or("CPU engine", |kernel| kernel.name);
    let verdict = tally.add(kernel, exactness.map(|e| engine::error_over_bound(&e)));
    Ok(vec![
        T::DTYPE.to_string(),
        kernel.into(),
        text::duration(time),
        text::speed(T::DTYPE, shape, shape.rows, time),
        times.with_copies.map_or("-".into(), text::duration),
        verdict,
        checked,
    ])
}

/// What a product takes on a GPU beside others of its kind: one alone waits for its launch longer
/// than for its sums.
fn own_time<T: Element>(
    device: &Device,
    gemm: &Gemm<T>,
    a: &Matrix<T>,
    b: &Matrix<T>,
) -> Result<Duration> {
    let mut c = device.uninit(Shape::new(a.shape().rows, b.shape().cols))?;
    let (a, b) = (device.upload(a)?, device.upload(b)?);
    watch("timing", || engine::kernel_time(&device.stream()?, gemm, &a, &b, &mut c))
}

/// The most that the tutorials' loops get: they take seconds where the engine takes milliseconds.
const LOOP_SIZE: usize = 512;

/// The CPU engine against the tutorials' loops, which share no code with it. Sums of small whole
/// numbers are exact in every order, so the products have to be equal.
fn loops(device: &Device, shape: Shape, tally: &mut Tally, out: &mut impl Write) -> Result<()> {
    let shape = Shape::new(shape.rows.min(LOOP_SIZE), shape.cols.min(LOOP_SIZE));
    let integers = |seed| random::integers::<f32>(shape, seed, -9..=9);
    let (a, b) = (integers(1)?, integers(2)?);
    let engine = Gemm::new().run(device, &a, &b)?;
    let head = ["CPU loop", "time", "speed", "as the engine"];
    let mut table = vec![head.map(String::from).to_vec()];
    for (name, run) in reference::loops::<f32>() {
        let start = Instant::now();
        let c = watch(name, || run(a.view(), b.view()))?;
        let time = start.elapsed();
        let equal = if c == engine { Ok("equal") } else { Err("it is not what the engine gives") };
        let speed = text::speed(DType::F32, shape, shape.rows, time);
        let verdict = tally.add(&format!("the loop {name}"), equal);
        table.push(vec![name.into(), text::duration(time), speed, verdict]);
    }
    writeln!(out, "the tutorials' loops, {shape} f32, whole numbers")?;
    writeln!(out, "{}", text::table(1, &table))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_product_is_an_error_that_names_it() {
        let mut tally = Tally::default();
        assert_eq!(tally.add("k01", Ok::<_, String>("exact")), "exact");
        assert!(tally.all_right());
        assert_eq!(tally.add("k02", Err::<String, _>("element (0, 1)")), "WRONG");
        assert!(!tally.all_right());
        let mut out = Vec::new();
        let error = tally.finish(&mut out).unwrap_err().to_string();
        assert!(error.contains("k02: element (0, 1)"), "{error}");
        assert_eq!(out, b"1 products verified, 1 wrong, 0 skipped\n");
    }
}
