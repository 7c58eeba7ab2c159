//! Our kernels against the same kernels in CUDA C++ (`peers/twins.cu`), 4096^3 unless asked
//! otherwise.

use crate::record::Row;
use crate::timing::{Times, Work, alternate};
use anyhow::{Context, Result};
use cust::function::Function;
use cust::memory::{CopyDestination, DeviceBuffer};
use cust::module::Module;
use cust::stream::{Stream, StreamFlags};
use gemm_spec::GemmParams;
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
         speed_ratio: the baseline's median over ours, the baseline being the faster C++ form",
        settings.n, settings.rounds, settings.verified_rows
    )
}

/// Times k01 and k02 in three dtypes on CUDA device 0, whose context is current, against the C++
/// forms in the module at `peers` (a cubin, or PTX).
pub fn run(peers: &Path, settings: &Settings) -> Result<Vec<Row>> {
    let device = Device::cuda(0)?;
    let peers = load(peers)?;
    let mut rows = Vec::new();
    for (variant, algorithm, tile) in [
        ("k01_naive", "naive", 16),
        ("k02_tiled_8", "tiled", 8),
        ("k02_tiled_16", "tiled", 16),
        ("k02_tiled_32", "tiled", 32),
    ] {
        let names = Names { variant, algorithm, tile };
        rows.extend(compare::<f32>(&device, &peers, &names, settings, random::normal)?);
        rows.extend(compare::<i32>(&device, &peers, &names, settings, |shape, seed| {
            random::integers(shape, seed, -100..=100)
        })?);
        rows.extend(compare::<f64>(&device, &peers, &names, settings, random::normal)?);
    }
    Ok(rows)
}

/// Which kernels stand against each other.
struct Names<'a> {
    variant: &'a str,
    algorithm: &'a str,
    tile: u32,
}

/// A kernel, ours or a peer's: enqueues C = A * B.
type Multiply<'a> = Box<dyn Fn(&Buffers, &Stream) -> Result<()> + 'a>;

fn compare<T: Element>(
    device: &Device,
    peers: &Module,
    names: &Names<'_>,
    settings: &Settings,
    data: impl Fn(Shape, u64) -> Result<Matrix<T>, gemmite::Error>,
) -> Result<Vec<Row>> {
    let n = settings.n;
    let layout = Layout::row_major(Shape::new(n, n));
    let (a, b) = (data(layout.shape, 1)?, data(layout.shape, 2)?);
    let mut gpu = Buffers::new(&a, &b)?;
    let peer = |form: &str| Peer::find(peers, form, names, T::DTYPE.name(), n);
    let (tutorial, twin) = (peer("tutorial")?, peer("twin")?);
    let gemm = Gemm::<T>::new().kernel(names.variant);
    let candidates: [(String, Multiply<'_>); 3] = [
        (format!("{}_{}", names.variant, T::DTYPE), {
            Box::new(|gpu, stream| {
                let [a, b, c] = gpu.addresses();
                let operands =
                    RawOperands { a, a_layout: layout, b, b_layout: layout, c, c_layout: layout };
                // SAFETY: three buffers of n * n elements on this device, which outlive the
                // stream's work.
                unsafe { gemm.enqueue_raw(device, stream, operands)? };
                Ok(())
            })
        }),
        (tutorial.name.clone(), Box::new(|gpu, stream| tutorial.tutorial(gpu, n, stream))),
        (twin.name.clone(), Box::new(|gpu, stream| twin.twin::<T>(gpu, n, stream))),
    ];
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
    Ok(rows(candidates.map(|(name, _)| name), T::DTYPE.name(), n, times))
}

/// Ours first, compared with the faster of the two others.
fn rows(names: [String; 3], dtype: &str, n: usize, times: Vec<Times>) -> Vec<Row> {
    let faster = if times[1].median_ms() <= times[2].median_ms() { 1 } else { 2 };
    let ratio = times[faster].median_ms() / times[0].median_ms();
    let baseline = (names[faster].clone(), ratio);
    std::iter::zip(names, times)
        .enumerate()
        .map(|(index, (candidate, times))| Row {
            candidate,
            baseline: (index == 0).then(|| baseline.clone()),
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
    fn find(
        peers: &'a Module,
        form: &str,
        names: &Names<'_>,
        dtype: &str,
        n: usize,
    ) -> Result<Peer<'a>> {
        let Names { algorithm, tile, .. } = *names;
        let name = format!("{form}_{algorithm}_{tile}_{dtype}");
        let function =
            peers.get_function(&name).with_context(|| format!("the peers lack {name}"))?;
        let grid = u32::try_from(n)?.div_ceil(tile);
        Ok(Peer { name, function, grid, tile })
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
