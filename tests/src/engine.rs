//! The engines that a case runs on, and the skips of those that are not there.

use crate::case::Case;
use crate::place::Placed;
use gemm_spec::Target;
use gemmite::cuda::cust::{
    self,
    context::Context,
    error::CudaError,
    memory::{CopyDestination, DeviceBuffer},
    stream::{Stream, StreamFlags},
};
use gemmite::cuda::{RawOperands, Reads};
use gemmite::{DType, Device, DeviceKind, Element, Gemm, Layout, MatrixMut, MatrixRef, Op};
use gemmite::{KernelChoice, OutputOf, Precision, Scalar};
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// How the operands reach an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// `run_into`: host slices.
    Host,
    /// `run_device`: matrices in the device's memory, with the case's strides.
    Device,
    /// `enqueue_raw` or `run_emulated`: device memory of the caller's own, guards included. For
    /// GPUs and emulated ones only.
    Raw,
}

/// A way to compute a product.
#[derive(Clone, Debug)]
pub struct Engine {
    /// What a failure is reported by, as in `cuda k02_tiled_16 host`.
    pub name: String,
    /// Where it computes.
    pub device: Device,
    /// The variant of [`gemm_spec::variants`]; `None` for the library's choice.
    pub kernel: Option<&'static str>,
    /// Parts that its kernel splits K into; 1: none.
    pub parts: usize,
    /// How it gets its operands.
    pub path: Path,
    /// How exactly f32 is multiplied.
    pub precision: Precision,
}

impl Engine {
    pub(crate) fn new(device: &Device, kernel: Option<&'static str>, path: Path) -> Engine {
        let engine = match device.info().kind {
            DeviceKind::Cpu => "cpu".into(),
            DeviceKind::Cuda { .. } => "cuda".into(),
            DeviceKind::Emulator { arch: (major, minor), .. } => {
                format!("emulator:{major}.{minor}")
            }
        };
        let name = format!("{engine} {} {path:?}", kernel.unwrap_or("auto"));
        let precision = Precision::Full;
        Engine { name, device: device.clone(), kernel, parts: 1, path, precision }
    }

    /// The same with K in so many parts, for a kernel that has a name.
    pub fn split(self, parts: usize) -> Engine {
        Engine { name: format!("{} in {parts} parts", self.name), parts, ..self }
    }

    /// The same with elements of f32 multiplied so.
    pub fn precision(self, precision: Precision) -> Engine {
        Engine { precision, ..self }
    }

    /// The first instance of its kernel for `dtype`.
    fn instance(&self, dtype: DType) -> Option<&'static gemm_spec::Kernel> {
        gemm_spec::Kernel::find_in(self.kernel?, dtype, self.precision)
    }

    /// Whether its kernel has an instance for `dtype` that its device runs.
    pub fn computes(&self, dtype: DType) -> bool {
        self.kernel.is_none() || self.instance(dtype).is_some_and(|of| runs(&self.device, of))
    }

    /// Whether its kernel takes operands as tensor maps.
    pub fn takes_maps(&self, dtype: DType) -> bool {
        self.instance(dtype).is_some_and(|kernel| kernel.takes_maps())
    }

    /// Whether its kernel's blocks go on from tile to tile.
    pub fn is_resident(&self, dtype: DType) -> bool {
        self.instance(dtype).is_some_and(|kernel| kernel.is_resident())
    }

    /// Whether its kernel refuses `case`: it takes tensor maps, and none describes A or B as they
    /// reach the device, or there is nothing to sum up.
    pub fn refuses<T: Element, C: OutputOf<T>>(&self, case: &Case) -> bool {
        let takes_row_maps = self.instance(T::DTYPE).is_some_and(|kernel| kernel.takes_row_maps());
        if !self.takes_maps(T::DTYPE) && !takes_row_maps || case.m == 0 || case.n == 0 {
            return false;
        }
        let no_terms = case.k == 0 || case.alpha::<C>() == C::Scalar::ZERO;
        if self.instance(T::DTYPE).is_some_and(|kernel| kernel.splits_elements()) {
            // It reads copies, which are made of any.
            return no_terms;
        }
        let a = self.on_device(case.a::<T>().layout, case.op_a);
        let b = self.on_device(case.b::<T>().layout, case.op_b);
        // Of a C in columns the transposed product is computed, and of one that has few.
        let c = self.on_device(case.c::<C>().layout, Op::None);
        let is_turned = match case.m.min(case.n) <= 16 {
            true => case.n < case.m,
            false => c.strides.row == 1 && c.strides.col != 1,
        };
        let stored = match is_turned {
            true => [b, a].map(|layout| layout.apply(Op::Transpose)),
            false => [a, b],
        };
        let is_mappable = if takes_row_maps { is_mappable_by_rows } else { is_mappable::<T> };
        no_terms || ![a, b].iter().all(is_mappable) || !self.is_stored_for(T::DTYPE, stored)
    }

    /// Whether its kernel has an instance for A and B as they are stored.
    fn is_stored_for(&self, dtype: DType, [a, b]: [Layout; 2]) -> bool {
        let along_k = [
            gemm_spec::is_along_k(a.strides.row, a.strides.col),
            gemm_spec::is_along_k(b.strides.col, b.strides.row),
        ];
        let find = |name| gemm_spec::Kernel::find_for(name, dtype, self.precision, along_k);
        self.kernel.is_none_or(|name| find(name).is_some())
    }

    /// The layout of op(A) or op(B) in the memory of a GPU.
    fn on_device(&self, layout: Layout, op: Op) -> Layout {
        let mut layout = match self.path {
            // The whole buffer is there, at a multiple of 256 bytes.
            Path::Raw => layout.apply(op),
            Path::Host => copied(&layout.apply(op)),
            Path::Device => copied(&layout).apply(op),
        };
        // A single row or column lies as is best: nobody goes on to the next one.
        let Layout { shape, strides, .. } = &mut layout;
        match (shape.rows, shape.cols) {
            (1, _) => strides.row = if strides.col == 1 { 1 << 10 } else { 1 },
            (_, 1) => strides.col = if strides.row == 1 { 1 << 10 } else { 1 },
            _ => {}
        }
        layout
    }

    /// The options of `case` on this engine.
    pub fn gemm<T: Element, C: OutputOf<T>>(&self, case: &Case) -> Gemm<T, C> {
        let gemm = Gemm::default().op_a(case.op_a).op_b(case.op_b).alpha(case.alpha::<C>());
        let gemm = match case.beta::<C>() {
            Some(beta) => gemm.beta(beta),
            None => gemm,
        };
        let gemm = gemm.precision(self.precision);
        match self.kernel {
            Some(kernel) if self.parts > 1 => {
                gemm.kernel(KernelChoice::Split { variant: kernel.into(), parts: self.parts })
            }
            Some(kernel) => gemm.kernel(kernel),
            None => gemm,
        }
    }

    /// Computes `case` into `c`. Where the engine has copies of whole buffers, guards included,
    /// they are copied back.
    ///
    /// # Errors
    /// What the library or the driver answers.
    pub fn run<T: Element, C: OutputOf<T>>(
        &self,
        case: &Case,
        a: &mut Placed<T>,
        b: &mut Placed<T>,
        c: &mut Placed<C>,
    ) -> Result<(), String> {
        let gemm = self.gemm::<T, C>(case);
        match self.path {
            Path::Host => self.run_host(&gemm, a, b, c).map_err(|error| error.to_string()),
            Path::Device => self.run_device(&gemm, a, b, c).map_err(|error| error.to_string()),
            Path::Raw if self.is_emulated() => {
                let (a, b) = ((&a.buffer[..], a.layout), (&b.buffer[..], b.layout));
                let c = (&mut c.buffer[..], c.layout);
                gemm.run_emulated(&self.device, a, b, c).map_err(|error| error.to_string())
            }
            Path::Raw => run_raw(&self.device, &gemm, a, b, c),
        }
    }

    fn is_emulated(&self) -> bool {
        matches!(self.device.info().kind, DeviceKind::Emulator { .. })
    }

    fn run_host<T: Element, C: OutputOf<T>>(
        &self,
        gemm: &Gemm<T, C>,
        a: &Placed<T>,
        b: &Placed<T>,
        c: &mut Placed<C>,
    ) -> Result<(), gemmite::Error> {
        let a = MatrixRef::new(&a.buffer, a.layout)?;
        let b = MatrixRef::new(&b.buffer, b.layout)?;
        gemm.run_into(&self.device, a, b, MatrixMut::new(&mut c.buffer, c.layout)?)
    }

    fn run_device<T: Element, C: OutputOf<T>>(
        &self,
        gemm: &Gemm<T, C>,
        a: &Placed<T>,
        b: &Placed<T>,
        c: &mut Placed<C>,
    ) -> Result<(), gemmite::Error> {
        let a = self.device.upload(MatrixRef::new(&a.buffer, a.layout)?)?;
        let b = self.device.upload(MatrixRef::new(&b.buffer, b.layout)?)?;
        let mut on_device = self.device.upload(MatrixRef::new(&c.buffer, c.layout)?)?;
        gemm.run_device(&a, &b, &mut on_device)?;
        let result = on_device.download()?;
        for i in 0..result.shape().rows {
            for j in 0..result.shape().cols {
                c.buffer[c.layout.index(i, j)] = result[(i, j)];
            }
        }
        Ok(())
    }
}

/// The layout of a copy: as it is where the elements lie side by side, else row by row. An extent
/// of stride 0 is copied once.
fn copied(layout: &Layout) -> Layout {
    let Layout { shape, strides, .. } = *layout;
    let reach = |count: usize, stride: isize| count.saturating_sub(1) * stride.unsigned_abs();
    let span = reach(shape.rows, strides.row) + reach(shape.cols, strides.col) + 1;
    match (strides.row, strides.col) {
        (0, _) | (_, 0) => Layout { offset: 0, ..*layout },
        _ if span == shape.rows * shape.cols => Layout { offset: 0, ..*layout },
        _ => Layout::row_major(shape),
    }
}

/// Whether a tensor map describes it: it is contiguous along one
/// extent, and along the other at multiples of 16 bytes, the first one too.
fn is_mappable<T: Element>(layout: &Layout) -> bool {
    let in_chunks = |elements: usize| (elements * size_of::<T>()).is_multiple_of(16);
    let other = match (layout.strides.row, layout.strides.col) {
        (other, 1) | (1, other) => usize::try_from(other).unwrap_or(0),
        _ => 0,
    };
    other > 0 && in_chunks(other) && in_chunks(layout.offset)
}

/// The same of maps of every eighth row.
fn is_mappable_by_rows(layout: &Layout) -> bool {
    match (layout.strides.row, layout.strides.col) {
        (other, 1) | (1, other) => other > 0,
        _ => false,
    }
}

/// Whole buffers, guards included, in memory of cust's; the kernel works between the guards. They
/// come back after it, so that the runner sees every byte that it wrote to.
fn run_raw<T: Element, C: OutputOf<T>>(
    device: &Device,
    gemm: &Gemm<T, C>,
    a: &mut Placed<T>,
    b: &mut Placed<T>,
    c: &mut Placed<C>,
) -> Result<(), String> {
    let DeviceKind::Cuda { ordinal } = device.info().kind else {
        return Err(format!("{device} takes no device addresses"));
    };
    let text = |error: CudaError| error.to_string();
    let ordinal = u32::try_from(ordinal).map_err(|error| error.to_string())?;
    let device_of_cust = cust::device::Device::get_device(ordinal).map_err(text)?;
    // The primary context, which the library uses as well; `device` keeps it alive.
    let _context = Context::new(device_of_cust).map_err(text)?;
    // A stream that waits for the copies, which are work of the default stream.
    let stream = Stream::new(StreamFlags::DEFAULT, None).map_err(text)?;
    let (a_layout, b_layout, c_layout) = (a.layout, b.layout, c.layout);
    let mut bytes: [&mut [u8]; 3] = [
        bytemuck::cast_slice_mut(&mut a.buffer),
        bytemuck::cast_slice_mut(&mut b.buffer),
        bytemuck::cast_slice_mut(&mut c.buffer),
    ];
    let mut buffers = Vec::new();
    for bytes in &bytes {
        buffers.push(DeviceBuffer::from_slice(bytes).map_err(text)?);
    }
    let [a_address, b_address, c_address] =
        [0, 1, 2].map(|operand: usize| buffers[operand].as_device_ptr().as_raw());
    let (a, b, c) = (a_address, b_address, c_address);
    // The buffers were filled before.
    let reads = Reads::AtOnce;
    let operands = RawOperands { a, a_layout, b, b_layout, c, c_layout, reads };
    // SAFETY: stream and buffers are of the primary context of `device`; the layouts were made for
    // these buffers, which are three and live until the stream is done.
    unsafe { gemm.enqueue_raw(device, &stream, operands) }.map_err(|error| error.to_string())?;
    stream.synchronize().map_err(text)?;
    for (bytes, buffer) in bytes.iter_mut().zip(&buffers) {
        buffer.copy_to(bytes).map_err(text)?;
    }
    Ok(())
}

/// Every engine of this machine for all cases: the CPU, and each kernel of the table where there is
/// a GPU; a missing GPU is a skip. The emulator has [`emulator_engines`](crate::emulator_engines).
pub fn engines() -> Vec<Engine> {
    let mut engines = cpu_engines();
    engines.extend(cuda().iter().flat_map(cuda_engines));
    engines
}

/// The CPU, from host slices and from device matrices.
pub fn cpu_engines() -> Vec<Engine> {
    [Path::Host, Path::Device].map(|path| Engine::new(&Device::cpu(), None, path)).into()
}

/// The library's own choice and every variant of the table that a GPU runs.
pub fn cuda_engines(device: &Device) -> Vec<Engine> {
    let named = variants_on(device);
    let kernels = || std::iter::once(None).chain(named.iter().copied().map(Some));
    [Path::Host, Path::Device, Path::Raw]
        .into_iter()
        .flat_map(|path| kernels().map(move |kernel| (kernel, path)))
        .map(|(kernel, path)| Engine::new(device, kernel, path))
        .collect()
}

/// The first GPU. `None`, and a counted and printed skip, where there is none; a skip too where it
/// does not run every kernel.
///
/// # Panics
/// Where there is a GPU that does not work, and where there is none and the environment says
/// `GEMMITE_REQUIRE_CUDA=1`: a machine that has to have one can't pass by skipping.
pub fn cuda() -> Option<Device> {
    match Device::cuda(0) {
        Ok(device) => {
            let (of, all) = (variants_on(&device).len(), gemm_spec::variants().count());
            if let Some((major, minor)) = device.info().compute_capability.filter(|_| of < all) {
                let why = format!("the GPU has compute capability {major}.{minor}");
                skip(&format!("{} of {all} kernels", all - of), &why);
            }
            Some(device)
        }
        Err(error) if error.is_no_device() && !cuda_is_required() => {
            skip("engine cuda", &error.to_string());
            None
        }
        Err(error) => panic!("engine cuda: {error}"),
    }
}

/// The first GPU, if it is of compute capability 9.0, whose own kernels run on no other. Where it
/// is another, [`cuda`] has counted a skip.
///
/// # Panics
/// As [`cuda`].
pub fn hopper() -> Option<Device> {
    cuda().filter(is_hopper)
}

/// Whether a device is of compute capability 9.0.
pub fn is_hopper(device: &Device) -> bool {
    device.info().compute_capability == Some(Target::Sm90a.min_capability())
}

/// The variants of the table that a GPU runs, for whatever dtype.
pub fn variants_on(device: &Device) -> Vec<&'static str> {
    let is_run =
        |variant: &&str| gemm_spec::kernels().any(|of| of.variant == *variant && runs(device, of));
    gemm_spec::variants().filter(is_run).collect()
}

/// Whether a device has the compute capability that a kernel is for.
pub fn runs(device: &Device, kernel: &gemm_spec::Kernel) -> bool {
    device.info().compute_capability.is_some_and(|has| kernel.target.runs_on(has))
}

/// Whether the environment says `GEMMITE_REQUIRE_CUDA=1`: a missing GPU is then a failure.
pub fn cuda_is_required() -> bool {
    std::env::var("GEMMITE_REQUIRE_CUDA").is_ok_and(|value| value == "1")
}

static SKIPPED: AtomicUsize = AtomicUsize::new(0);

/// Counts a skip and prints it, in sight even where the test passes. A reason is printed once.
pub fn skip(what: &str, why: &str) {
    static REASONS: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let count = SKIPPED.fetch_add(1, Ordering::Relaxed) + 1;
    let test = std::thread::current().name().unwrap_or("?").to_string();
    let mut reasons = REASONS.lock().unwrap_or_else(PoisonError::into_inner);
    if reasons.iter().any(|reason| reason == why) {
        say(&format!("skipped ({count}): {what}, in test {test}: as above"));
    } else {
        say(&format!("skipped ({count}): {what}, in test {test}: {why}"));
        reasons.push(why.to_string());
    }
}

/// How many skips this process has counted.
pub fn skipped() -> usize {
    SKIPPED.load(Ordering::Relaxed)
}

/// Prints a line to standard error past the test harness, which would keep the lines of passing
/// tests to itself.
pub fn say(line: &str) {
    // Nothing can be done about a closed standard error.
    let _ = writeln!(std::io::stderr(), "{line}");
}
