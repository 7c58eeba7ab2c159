//! One product on one device, timed in its parts, and its verification.

use std::time::{Duration, Instant};

use anyhow::Result;
use gemmite::verify::{Exactness, Mismatch, Problem, Rows, check};
use gemmite::{Device, DeviceKind, DeviceMatrix, Element, Gemm, Matrix, MatrixRef, Shape, Stream};

use crate::progress::watch;

/// How long a product took.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// The product alone, its operands on the device and its kernel loaded.
    pub product: Duration,
    /// With the copies to the GPU and back; `None` on the CPU, where nothing is copied.
    pub with_copies: Option<Duration>,
}

/// How a device is named in the output: `NVIDIA H100 80GB HBM3 (cuda:0)`.
pub fn describe(device: &Device) -> String {
    match device.info().kind {
        DeviceKind::Cpu | DeviceKind::Emulator { .. } => device.name().to_owned(),
        DeviceKind::Cuda { ordinal } => format!("{} (cuda:{ordinal})", device.name()),
    }
}

/// Computes `gemm`(`a`, `b`) into `c`, which holds C's old value. Runs once, as a user's call does,
/// but that the kernel is loaded before, so that no time is the loading.
pub fn run<T: Element>(
    device: &Device,
    gemm: &Gemm<T>,
    a: MatrixRef<'_, T>,
    b: MatrixRef<'_, T>,
    c: &mut Matrix<T::Output>,
    reads_c: bool,
) -> Result<Times> {
    if device.info().kind == DeviceKind::Cpu {
        let start = Instant::now();
        watch("multiplying", || gemm.run_into(device, a, b, &mut *c))?;
        return Ok(Times { product: start.elapsed(), with_copies: None });
    }
    watch("loading the kernel", || gemm.load(device, a.layout(), b.layout()))?;
    let start = Instant::now();
    let a = device.upload(a)?;
    let b = device.upload(b)?;
    let mut on_gpu = if reads_c { device.upload(&*c)? } else { device.uninit(c.shape())? };
    let launch = Instant::now();
    watch("multiplying", || gemm.run_device(&a, &b, &mut on_gpu))?;
    let product = launch.elapsed();
    *c = on_gpu.download()?;
    Ok(Times { product, with_copies: Some(start.elapsed()) })
}

/// The time of one run of the kernel among several in a row, the operands on the device: launches
/// overlap with the run before, so that what is left is the kernel's own time. The median of five
/// such rows.
pub fn kernel_time<T: Element>(
    stream: &Stream,
    gemm: &Gemm<T>,
    a: &DeviceMatrix<T>,
    b: &DeviceMatrix<T>,
    c: &mut DeviceMatrix<T::Output>,
) -> Result<Duration> {
    const LONG_ENOUGH: Duration = Duration::from_millis(20);
    let mut time = |runs: u32| -> Result<Duration> {
        let start = Instant::now();
        for _ in 0..runs {
            gemm.enqueue(stream, a, b, c)?;
        }
        stream.synchronize()?;
        Ok(start.elapsed() / runs)
    };
    time(1)?;
    let one = time(1)?;
    let runs = (LONG_ENOUGH.as_secs_f64() / one.as_secs_f64().max(1e-6)).ceil() as u32;
    let mut times = (0..5).map(|_| time(runs.max(1))).collect::<Result<Vec<_>>>()?;
    times.sort();
    Ok(times[times.len() / 2])
}

/// How many multiplications a verification may take before it takes to samples: seconds on two
/// cores.
const AFFORDABLE: usize = 1 << 31;

/// The rows of a product of `shape` over `k` that a verification checks in reasonable time.
pub fn affordable_rows(shape: Shape, k: usize) -> Rows {
    let row = shape.cols.saturating_mul(k).max(1);
    if shape.rows <= AFFORDABLE / row {
        return Rows::All;
    }
    Rows::drawn((AFFORDABLE / row).max(16))
}

/// Compares `c` with a sum in higher precision on the CPU.
pub fn verify<T: Element>(
    problem: &Problem<'_, T>,
    c: &Matrix<T::Output>,
    rows: Rows,
) -> Result<Exactness, Mismatch> {
    watch("verifying", || check(problem, c.view(), rows))
}

/// How exact a product is, for a line: `exact` or `0.042`, the largest error as a fraction of its
/// bound.
pub fn error_over_bound(exactness: &Exactness) -> String {
    match exactness.worst {
        None => "exact".into(),
        Some(_) => format!("{:.3}", exactness.max_err_over_bound),
    }
}

/// Which part of a product was checked: `all rows` or `262 of 2048 rows`.
pub fn checked_rows(exactness: &Exactness, shape: Shape) -> String {
    match exactness.checked / shape.cols.max(1) {
        rows if rows == shape.rows || shape.is_empty() => "all rows".into(),
        rows => format!("{rows} of {} rows", shape.rows),
    }
}
