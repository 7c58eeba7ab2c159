//! Our kernels against the same kernels in CUDA C++ (`peers/twins.cu`), 4096^3 unless asked
//! otherwise.

use crate::record::Row;
use crate::timing::{Times, Work, alternate};
use anyhow::{Context, Result};
use cust::function::Function;
use cust::memory::{CopyDestination, DeviceBuffer};
use cust::module::Module;
use cust::stream::{Stream, StreamFlags};
use gemm_spec::{GemmParams, Kernel, KernelFamily};
use gemmite::cuda::RawOperands;
use gemmite::verify::{self, Problem, Rows};
use gemmite::{Device, Element, Gemm, Layout, Matrix, Scalar, Shape, random};
use std::ffi::c_void;
use std::path::Path;

/// What to compare.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Rows and columns of the matrices.
    pub n: usize,
    /// Timed runs of each candidate.
    pub rounds: usize,
    /// Rows of each result that are verified.
    pub verified_rows: usize,
}

/// The method in words, for the record.
pub fn method(settings: &Settings) -> String {
    format!(
        "suite: twins, C = A * B, row-major, n = {}\n\
         data: f32 and f64 N(0, 1), i32 uniform in -100..=100; C poisoned before verification\n\
         timing: one launch between two CUDA events, in alternation, 3 warm-up runs, {} timed\n\
         verification: {} rows of each candidate's C against the reference, before it is timed\n\
         tutorial: as the tutorials write it; twin: with our parameters; bench/peers/twins.cu\n\
         speed_ratio: the baseline's median over ours, the baseline being the faster C++ form, in \
         the thread order that coalesces",
        settings.n, settings.rounds, settings.verified_rows
    )
}

/// Times every variant of the table in three dtypes on CUDA device 0, whose context is current,
/// against the C++ forms in the module at `peers` (a cubin, or PTX), where it has them.
pub fn run(peers: &Path, settings: &Settings) -> Result<Vec<Row>> {
    let device = Device::cuda(0)?;
    let peers = load(peers)?;
    let mut rows = Vec::new();
    for variant in gemm_spec::variants() {
        rows.extend(compare::<f32>(&device, &peers, variant, settings, random::normal)?);
        rows.extend(compare::<i32>(&device, &peers, variant, settings, |shape, seed| {
            random::integers(shape, seed, -100..=100)
        })?);
        rows.extend(compare::<f64>(&device, &peers, variant, settings, random::normal)?);
    }
    Ok(rows)
}

/// A kernel, ours or a peer's: enqueues C = A * B.
type Multiply<'a> = Box<dyn Fn(&Buffers, &Stream) -> Result<()> + 'a>;

fn compare<T: Element>(
    device: &Device,
    peers: &Module,
    variant: &str,
    settings: &Settings,
    data: impl Fn(Shape, u64) -> Result<Matrix<T>, gemmite::Error>,
) -> Result<Vec<Row>> {
    let n = settings.n;
    let layout = Layout::row_major(Shape::new(n, n));
    let (a, b) = (data(layout.shape, 1)?, data(layout.shape, 2)?);
    let mut gpu = Buffers::new(&a, &b)?;
    let kernel = Kernel::find(variant, T::DTYPE).context("the table has every dtype")?;
    let (tutorial, twin) =
        (Peer::find(peers, "tutorial", kernel, n)?, Peer::find(peers, "twin", kernel, n)?);
    let gemm = Gemm::<T>::new().kernel(variant);
    let ours: Multiply<'_> = Box::new(|gpu, stream| {
        let [a, b, c] = gpu.addresses();
        let operands =
            RawOperands { a, a_layout: layout, b, b_layout: layout, c, c_layout: layout };
        // SAFETY: three buffers of n * n elements on this device, which outlive the stream's work.
        unsafe { gemm.enqueue_raw(device, stream, operands)? };
        Ok(())
    });
    let mut candidates = vec![(kernel.name.to_owned(), ours)];
    if let Some(tutorial) = &tutorial {
        let multiply: Multiply<'_> = Box::new(|gpu, stream| tutorial.tutorial(gpu, n, stream));
        candidates.push((tutorial.name.clone(), multiply));
    }
    if let Some(twin) = &twin {
        let multiply: Multiply<'_> = Box::new(|gpu, stream| twin.twin::<T>(gpu, n, stream));
        candidates.push((twin.name.clone(), multiply));
    }
    let stream = Stream::new(StreamFlags::DEFAULT, None)?;
    for (name, multiply) in &candidates {
        gpu.verify((&a, &b), settings.verified_rows, &stream, multiply)
            .with_context(|| format!("{name} is refused a time"))?;
    }
    let gpu = &gpu;
    let mut work: Vec<Work<'_>> = Vec::new();
    for (_, multiply) in &candidates {
        work.push(Box::new(move |stream| multiply(gpu, stream)));
    }
    let times = alternate(&stream, &mut work, 3, settings.rounds)?;
    drop(work);
    let names = candidates.into_iter().map(|(name, _)| name).collect();
    Ok(rows(names, T::DTYPE.name(), n, times))
}

/// Ours first, compared with the fastest of the others.
fn rows(names: Vec<String>, dtype: &str, n: usize, times: Vec<Times>) -> Vec<Row> {
    let fastest = std::iter::zip(&names, &times)
        .skip(1)
        .min_by(|a, b| a.1.median_ms().total_cmp(&b.1.median_ms()))
        .map(|(name, peer)| (name.clone(), peer.median_ms() / times[0].median_ms()));
    std::iter::zip(names, times)
        .enumerate()
        .map(|(index, (candidate, times))| Row {
            candidate,
            baseline: fastest.clone().filter(|_| index == 0),
            dtype: dtype.to_owned(),
            sizes: [n; 3],
            times,
        })
        .collect()
}

/// The matrices on the GPU, as bytes.
struct Buffers {
    a: DeviceBuffer<u8>,
    b: DeviceBuffer<u8>,
    c: DeviceBuffer<u8>,
}

impl Buffers {
    fn new<T: Element>(a: &Matrix<T>, b: &Matrix<T>) -> Result<Buffers> {
        let a = DeviceBuffer::from_slice(bytemuck::cast_slice(a.as_slice()))?;
        let b = DeviceBuffer::from_slice(bytemuck::cast_slice(b.as_slice()))?;
        // SAFETY: `verify` writes the buffer before anything reads it.
        let c = unsafe { DeviceBuffer::uninitialized(a.len())? };
        Ok(Buffers { a, b, c })
    }

    fn addresses(&self) -> [u64; 3] {
        [&self.a, &self.b, &self.c].map(|buffer| buffer.as_device_ptr().as_raw())
    }

    /// Runs a kernel into a poisoned C and checks the result.
    fn verify<T: Element>(
        &mut self,
        (a, b): (&Matrix<T>, &Matrix<T>),
        rows: usize,
        stream: &Stream,
        multiply: &Multiply<'_>,
    ) -> Result<()> {
        let poison = vec![0xff_u8; self.c.len()]; // NaN in every float dtype
        self.c.copy_from(&poison)?;
        multiply(self, stream)?;
        stream.synchronize()?;
        let mut out = vec![T::default(); a.as_slice().len()];
        self.c.copy_to(bytemuck::cast_slice_mut(&mut out))?;
        let out = Matrix::from_vec(a.shape(), out)?;
        let rows = Rows::Sampled { count: rows, seed: 3 };
        verify::check(&Problem::product(a.view(), b.view()), out.view(), rows)?;
        Ok(())
    }
}

/// A kernel of the peers, and its launch.
struct Peer<'a> {
    name: String,
    function: Function<'a>,
    grid: u32,
    tile: u32,
}

impl<'a> Peer<'a> {
    /// The peers' kernel of that form for the algorithm, the tile and the dtype of ours, in the
    /// thread order that coalesces. `None`, which is said, where they have none.
    fn find(peers: &'a Module, form: &str, kernel: &Kernel, n: usize) -> Result<Option<Peer<'a>>> {
        let algorithm = match kernel.family {
            KernelFamily::Naive => "naive",
            KernelFamily::Tiled => "tiled",
        };
        let name = format!("{form}_{algorithm}_{}_{}", kernel.tile, kernel.dtype);
        let Ok(function) = peers.get_function(&name) else {
            eprintln!("{}: the peers have no {name}", kernel.name);
            return Ok(None);
        };
        let tile = u32::try_from(kernel.tile)?;
        let grid = u32::try_from(n)?.div_ceil(tile);
        Ok(Some(Peer { name, function, grid, tile }))
    }

    /// Calls a kernel of the form `(a, b, c, int m, int n, int k)`.
    fn tutorial(&self, gpu: &Buffers, n: usize, stream: &Stream) -> Result<()> {
        let ([a, b, c], n) = (gpu.addresses(), i32::try_from(n)?);
        let arguments =
            [argument(&a), argument(&b), argument(&c), argument(&n), argument(&n), argument(&n)];
        self.launch(stream, &arguments)
    }

    /// Calls a kernel that takes the three addresses and our parameter block, in one struct.
    fn twin<T: Element>(&self, gpu: &Buffers, n: usize, stream: &Stream) -> Result<()> {
        let [a, b, c] = gpu.addresses();
        let size = n as u64;
        let params = GemmParams {
            m: size,
            n: size,
            k: size,
            a_row_stride: n as i64,
            a_col_stride: 1,
            b_row_stride: n as i64,
            b_col_stride: 1,
            c_row_stride: n as i64,
            c_col_stride: 1,
            alpha: T::Scalar::ONE,
            beta: T::Scalar::ZERO,
            reads_c: 0,
        };
        self.launch(stream, &[argument(&a), argument(&b), argument(&c), argument(&params)])
    }

    /// Launches with the addresses of the arguments.
    fn launch(&self, stream: &Stream, arguments: &[*mut c_void]) -> Result<()> {
        let (grid, block) = ((self.grid, self.grid, 1), (self.tile, self.tile, 1));
        // SAFETY: the two callers pass what the kernels of their form take (peers/twins.cu), over
        // buffers that outlive the stream's work: `verify` and `alternate` wait for it.
        unsafe { stream.launch(&self.function, grid, block, 0, arguments)? };
        Ok(())
    }
}

/// The address of an argument, as a launch wants it.
fn argument<T>(value: &T) -> *mut c_void {
    std::ptr::from_ref(value).cast_mut().cast()
}

/// Loads a cubin, or PTX.
fn load(path: &Path) -> Result<Module> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let module = match std::str::from_utf8(&bytes) {
        Ok(ptx) => Module::from_ptx(ptx, &[]),
        Err(_) => Module::from_cubin(&bytes, &[]),
    };
    module.with_context(|| format!("the driver does not load {}", path.display()))
}
