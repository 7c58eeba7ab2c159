//! Products that are larger than a device's memory.

use crate::device::Device;
use crate::element::{Element, OutputOf};
use crate::epilogue::HostEpilogue;
use crate::error::Error;
use crate::gemm::Gemm;
use crate::matrix::{MatrixMut, MatrixRef};
use std::fmt;

/// How a product of host data goes through a device that does not hold it: how much of the memory
/// it may take, and who hears how far it is.
///
/// Calls without it ([`Gemm::run`], [`Gemm::run_into`]) take half of what is free. What fits is
/// copied and multiplied whole; else panels of A and B come, are multiplied, and their rows of C go
/// back, copies and products overlapped. Each element of C is summed on the device at once, as it
/// is for a product that fits, by the plan of its panel: its bits may be others.
///
/// ```
/// use gemmite::{Device, Gemm, Matrix, Shape, Streaming, random};
/// let a: Matrix<f32> = random::normal(Shape::new(500, 300), 1)?;
/// let b: Matrix<f32> = random::normal(Shape::new(300, 400), 2)?;
/// let mut c: Matrix<f32> = Matrix::zeros(Shape::new(500, 400))?;
/// let said = |progress: gemmite::Progress| println!("{} of {}", progress.done, progress.all);
/// let streaming = Streaming::new().memory(1 << 30).progress(&said);
/// Gemm::new().run_streamed(&Device::best(), &a, &b, &mut c, &streaming)?;
/// # Ok::<(), gemmite::Error>(())
/// ```
#[derive(Clone, Copy, Default)]
#[must_use = "options do nothing before they are passed to a call"]
pub struct Streaming<'a> {
    memory: Option<usize>,
    progress: Option<&'a (dyn Fn(Progress) + Sync)>,
}

/// How far a product is: so many of so many panels of C are in host memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Panels that are done.
    pub done: usize,
    /// All panels; 1 where the device holds the product.
    pub all: usize,
}

impl<'a> Streaming<'a> {
    /// Half of the memory that is free, and nobody hears of it.
    pub fn new() -> Self {
        Streaming::default()
    }

    /// No more than so many bytes of the device's memory for the matrices; copies that a kernel
    /// needs beside them ([`Plan::copied`](crate::Plan::copied)) are not counted. Products that
    /// have no panels are not limited: those without sums, whose alpha or K is 0, and those by an
    /// [`OwnKernel`](crate::OwnKernel).
    pub fn memory(mut self, bytes: usize) -> Self {
        self.memory = Some(bytes);
        self
    }

    /// Calls `heard` whenever a panel is done, from the thread that has done it.
    pub fn progress(mut self, heard: &'a (dyn Fn(Progress) + Sync)) -> Self {
        self.progress = Some(heard);
        self
    }

    /// The bytes that may be taken where so many are free; `None` for no limit.
    pub(crate) fn limit(&self, free: Option<usize>) -> Option<usize> {
        // What is left is for copies of operands and the driver's own.
        const TAKEN: usize = 2;
        self.memory.or(free.map(|free| free / TAKEN))
    }

    /// Whether somebody has set a limit.
    pub(crate) fn is_limited(&self) -> bool {
        self.memory.is_some()
    }

    pub(crate) fn say(&self, progress: Progress) {
        if let Some(heard) = self.progress {
            heard(progress);
        }
    }
}

impl fmt::Debug for Streaming<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Streaming").field("memory", &self.memory).finish_non_exhaustive()
    }
}

impl<T: Element, C: OutputOf<T>> Gemm<T, C> {
    /// As [`Gemm::run_into`], with a limit of the device's memory and somebody who hears how far it
    /// is. The CPU computes in the host's memory and takes none.
    ///
    /// # Errors
    /// As [`Gemm::run_into`]; [`Error::is_out_of_memory`] where not even 64 rows and columns fit.
    pub fn run_streamed<'a, 'b, 'c>(
        &self,
        device: &Device,
        a: impl Into<MatrixRef<'a, T>>,
        b: impl Into<MatrixRef<'b, T>>,
        c: impl Into<MatrixMut<'c, C>>,
        streaming: &Streaming<'_>,
    ) -> Result<(), Error> {
        let (operands, epilogue) = ((a.into(), b.into()), HostEpilogue::new());
        self.multiply_host(device, operands, c.into(), epilogue, streaming)
    }
}
