//! Work on the GPU: buffers that outgrow its L2 cache, samples between two events, and what the GPU
//! said of itself meanwhile.

mod replay;
mod watch;

use crate::case::Case;
use crate::timing::Work;
use anyhow::{Context as _, Result, ensure};
use cust::context::Context;
use cust::device::{Device as CudaDevice, DeviceAttribute};
use cust::event::{Event, EventFlags};
use cust::memory::{AsyncCopyDestination, CopyDestination, DeviceBuffer, mem_get_info};
use cust::module::Module;
use cust::stream::{Stream, StreamFlags};
use gemmite::cuda::{L2Promotion, Reads, TensorElement, TensorLayout, TensorSwizzle};
use gemmite::{Device, Element, Gemm, Layout, Op, Shape, bf16};
use std::cell::{Cell, RefCell};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use replay::Replay;
pub use watch::{Seen, Watch};

/// The GPU that is measured, its context current on this thread, and the stream that all work of a
/// run goes to.
pub struct Gpu {
    /// The library's view of it.
    pub device: Device,
    /// Where work is enqueued.
    pub stream: Stream,
    /// When products of ours read their operands.
    pub reads: Reads,
    l2_bytes: usize,
    cuda: CudaDevice,
    _context: Context,
}

impl Gpu {
    /// The CUDA device of that number.
    pub fn open(ordinal: usize) -> Result<Gpu> {
        let device = Device::cuda(ordinal)?;
        let cuda = CudaDevice::get_device(u32::try_from(ordinal)?)?;
        let context = Context::new(cuda)?;
        let l2_bytes = cuda.get_attribute(DeviceAttribute::L2CacheSize)?;
        // One that blocking copies come before: they go to the default stream.
        let stream = Stream::new(StreamFlags::DEFAULT, None)?;
        Ok(Gpu {
            device,
            stream,
            reads: Reads::InOrder,
            l2_bytes: l2_bytes.try_into()?,
            cuda,
            _context: context,
        })
    }

    /// `sm_90` for compute capability 9.0.
    pub fn arch(&self) -> Result<String> {
        let major = self.cuda.get_attribute(DeviceAttribute::ComputeCapabilityMajor)?;
        let minor = self.cuda.get_attribute(DeviceAttribute::ComputeCapabilityMinor)?;
        Ok(format!("sm_{major}{minor}"))
    }

    /// Its PCI address, by which NVML knows it too, whatever the order of the devices.
    fn pci_bus_id(&self) -> Result<String> {
        let [domain, bus, device] =
            [DeviceAttribute::PciDomainId, DeviceAttribute::PciBusId, DeviceAttribute::PciDeviceId]
                .map(|attribute| self.cuda.get_attribute(attribute));
        Ok(format!("{:08x}:{:02x}:{:02x}.0", domain?, bus?, device?))
    }

    /// The time between two events around `enqueue`'s work, which comes behind that of `before`.
    ///
    /// The stream is held until all of it is enqueued, so that the host's part does not count.
    pub fn time(
        &self,
        before: impl FnOnce(&Stream) -> Result<()>,
        enqueue: impl FnOnce(&Stream) -> Result<()>,
    ) -> Result<Duration> {
        let (start, end) = (Event::new(EventFlags::DEFAULT)?, Event::new(EventFlags::DEFAULT)?);
        let hold = Hold::new(&self.stream)?;
        before(&self.stream)?;
        start.record(&self.stream)?;
        enqueue(&self.stream)?;
        end.record(&self.stream)?;
        drop(hold);
        end.synchronize()?;
        Ok(Duration::from_secs_f64(f64::from(end.elapsed_time_f32(&start)?) / 1e3))
    }

    /// The median time between two events with nothing between them: what the method adds to each
    /// sample.
    pub fn timer_floor(&self) -> Result<Duration> {
        let mut times = (0..101)
            .map(|_| self.time(|_| Ok(()), |_| Ok(())))
            .collect::<Result<Vec<Duration>>>()?;
        times.sort();
        Ok(times[times.len() / 2])
    }

    /// The median time that the host spends on `enqueue`.
    pub fn host_time(&self, mut enqueue: impl FnMut(&Stream) -> Result<()>) -> Result<Duration> {
        let mut times = Vec::new();
        for _ in 0..20 {
            for _ in 0..16 {
                let start = Instant::now();
                enqueue(&self.stream)?;
                times.push(start.elapsed());
            }
            // So that no call waits for a place in the queue.
            self.stream.synchronize()?;
        }
        times.sort();
        Ok(times[times.len() / 2])
    }

    /// The same of a kernel that does nothing: what of it the driver takes. Its parameters have as
    /// many bytes as those of a product, three maps of 128 and its numbers.
    pub fn launch_time(&self) -> Result<Duration> {
        const TEXT: &str = ".version 6.0 .target sm_60 .address_size 64 \
            .visible .entry empty(.param .align 64 .b8 p[640]) { ret; }";
        let module = Module::from_ptx(TEXT, &[])?;
        let function = module.get_function("empty")?;
        let mut bytes = [0u8; 640];
        let arguments = [(&raw mut bytes).cast()];
        self.host_time(|stream| {
            // SAFETY: one parameter of as many bytes, which the kernel does not read.
            unsafe { stream.launch(&function, 1, 128, 0, &arguments)? };
            Ok(())
        })
    }

    /// The same of the three tensor maps of a product, which the driver encodes.
    pub fn maps_time(&self) -> Result<Duration> {
        let layout = TensorLayout::new(TensorElement::Bf16, &[128, 128, 1], &[64, 64, 1])
            .strides(&[256, 256])
            .swizzle(TensorSwizzle::B128)
            .promotion(L2Promotion::B128);
        self.host_time(|_| {
            for operand in 1..=3 {
                // Nothing is read there.
                std::hint::black_box(layout.encode(operand << 20)?);
            }
            Ok(())
        })
    }

    /// The median times of planning a bf16 product, nt, of extents from 1 to 4097, and of finding a
    /// plan that was made before.
    pub fn plan_times(&self) -> Result<[Duration; 2]> {
        let extents = [1, 16, 100, 512, 1000, 4097];
        let gemm = Gemm::<bf16>::new().op_b(Op::Transpose);
        let (mut made, mut found) = (Vec::new(), Vec::new());
        for (m, n) in extents.iter().flat_map(|&m| extents.map(|n| (m, n))) {
            for k in extents {
                let [a, b] = [m, n].map(|outer| Layout::row_major(Shape::new(outer, k)));
                let start = Instant::now();
                std::hint::black_box(gemm.plan(self.device.info(), a, b)?);
                made.push(start.elapsed());
                gemm.plan_on(&self.device, a, b)?;
                // Too short to be timed alone.
                let start = Instant::now();
                for _ in 0..64 {
                    std::hint::black_box(gemm.plan_on(&self.device, a, b)?);
                }
                found.push(start.elapsed() / 64);
            }
        }
        Ok([made, found].map(|mut times| {
            times.sort();
            times[times.len() / 2]
        }))
    }

    /// 10^9 bytes a second, read and written bytes counted, that a plain device-to-device copy
    /// moves: the median of 30 copies of `bytes` bytes.
    pub fn copy_gbps(&self, bytes: usize) -> Result<f64> {
        let source = DeviceBuffer::<u8>::zeroed(bytes)?;
        let mut copy = DeviceBuffer::<u8>::zeroed(bytes)?;
        let mut one = || {
            let nothing = |_: &Stream| Ok(());
            self.time(nothing, |stream| {
                // SAFETY: both buffers outlive the copy: `time` waits for it.
                unsafe { copy.async_copy_from(&source, stream)? };
                Ok(())
            })
        };
        one()?;
        let mut times = (0..30).map(|_| one()).collect::<Result<Vec<Duration>>>()?;
        times.sort();
        Ok(2.0 * bytes as f64 / times[times.len() / 2].as_secs_f64() / 1e9)
    }
}

/// Holds a stream: what is enqueued after it starts when it is dropped, so that the GPU never waits
/// for the host between two kernels of a sample.
///
/// It lets go by itself after 50 ms: a host that waits for the GPU meanwhile, because the queue of
/// launches is full or a library loads code, must not wait forever.
struct Hold {
    released: Arc<(Mutex<bool>, Condvar)>,
}

impl Hold {
    fn new(stream: &Stream) -> Result<Hold> {
        const AT_MOST: Duration = Duration::from_millis(50);
        let released = Arc::new((Mutex::new(false), Condvar::new()));
        let seen = Arc::clone(&released);
        stream.add_callback(Box::new(move || {
            let (released, changed) = &*seen;
            let guard = released.lock().unwrap_or_else(PoisonError::into_inner);
            drop(changed.wait_timeout_while(guard, AT_MOST, |released| !*released));
        }))?;
        Ok(Hold { released })
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let (released, changed) = &*self.released;
        *released.lock().unwrap_or_else(PoisonError::into_inner) = true;
        changed.notify_all();
    }
}

/// A case's operands on the GPU, in so many copies that a run finds nothing of its operands in the
/// L2 cache.
pub struct Operands {
    buffers: [DeviceBuffer<u8>; 3],
    /// One for all copies.
    bias: DeviceBuffer<u8>,
    /// Bytes from one copy to the next.
    strides: [usize; 3],
    /// Bytes of C.
    c_bytes: usize,
    copies: usize,
    next: Cell<usize>,
}

impl Operands {
    /// Between two uses of a copy, others of this many times the size of the L2 cache are used.
    /// With 3 a kernel that has the cache let its reads go first found a tenth of them there again:
    /// where all lines are such, the oldest stay.
    const L2_FOLD: usize = 40;

    /// Uploads a case.
    pub fn new<T: Element>(gpu: &Gpu, case: &Case<T>) -> Result<Operands> {
        let [a, b] = [&case.a, &case.b].map(|v| bytemuck::cast_slice(v));
        let sources: [&[u8]; 3] = [a, b, bytemuck::cast_slice(&case.c)];
        let strides = sources.map(|source| source.len().next_multiple_of(256));
        let one: usize = strides.iter().sum();
        let (free, _) = mem_get_info()?;
        ensure!(one < free, "the operands take {one} bytes, and the GPU has {free} free");
        let wanted = (Self::L2_FOLD * gpu.l2_bytes).div_ceil(one) + 1;
        let copies = wanted.min(free / 2 / one).max(1);
        let buffer = |operand: usize| -> Result<DeviceBuffer<u8>> {
            let (source, stride) = (sources[operand], strides[operand]);
            // SAFETY: each copy is written below, and what lies between two is no operand's: of it
            // only that is read which copying it along reads.
            let buffer = unsafe { DeviceBuffer::uninitialized(stride * copies)? };
            buffer.index(..source.len()).copy_from(source)?;
            // All that there are once more, since there may be tens of thousands.
            let mut filled = 1;
            while filled < copies {
                let more = filled.min(copies - filled);
                let bytes = (more - 1) * stride + source.len();
                let from = filled * stride;
                buffer.index(from..from + bytes).copy_from(&buffer.index(..bytes))?;
                filled += more;
            }
            Ok(buffer)
        };
        let buffers = [buffer(0)?, buffer(1)?, buffer(2)?];
        let bias = DeviceBuffer::from_slice(bytemuck::cast_slice(&case.bias))?;
        let (c_bytes, next) = (sources[2].len(), Cell::new(0));
        Ok(Operands { buffers, bias, strides, c_bytes, copies, next })
    }

    /// The address of the row that is added to each row of C.
    pub fn bias(&self) -> u64 {
        self.bias.as_device_ptr().as_raw()
    }

    /// How many copies there are.
    pub fn copies(&self) -> usize {
        self.copies
    }

    /// Addresses of A, B and C of the copy whose turn it is.
    fn next(&self) -> [u64; 3] {
        let copy = self.next.get();
        self.next.set((copy + 1) % self.copies);
        self.addresses(copy)
    }

    fn addresses(&self, copy: usize) -> [u64; 3] {
        let at =
            |i: usize| self.buffers[i].as_device_ptr().as_raw() + (copy * self.strides[i]) as u64;
        [at(0), at(1), at(2)]
    }

    fn c(&self) -> cust::memory::DeviceSlice<u8> {
        self.buffers[2].index(..self.c_bytes)
    }
}

/// Enqueues one product on the operands at three addresses, or the whole batch of products.
pub type Launch<'a> = Box<dyn FnMut([u64; 3], &Stream) -> Result<()> + 'a>;

/// As many graphs of [`MAX_RUNS`](crate::timing::MAX_RUNS) runs use tens of thousands of copies:
/// all that there are, but of the smallest products.
const MAX_GRAPHS: usize = 256;

/// A candidate that runs in this process.
pub struct GpuWork<'a, T: Element> {
    gpu: &'a Gpu,
    operands: &'a Operands,
    case: &'a Case<T>,
    launch: Launch<'a>,
    /// Recorded samples by their runs, while they are replayed: so many that they use every copy
    /// of the operands, in turn.
    replays: Option<HashMap<u32, VecDeque<Replay>>>,
}

impl<'a, T: Element> GpuWork<'a, T> {
    /// `operands` are those of `case`. `launch` must work on the addresses it is given, on the
    /// stream it is given, and be done when the stream has got past it.
    pub fn new(
        gpu: &'a Gpu,
        operands: &'a Operands,
        case: &'a Case<T>,
        launch: Launch<'a>,
    ) -> Self {
        GpuWork { gpu, operands, case, launch, replays: None }
    }
}

impl<T: Element> Work for GpuWork<'_, T> {
    fn sample(&mut self, runs: u32) -> Result<Duration> {
        let GpuWork { gpu, operands, launch, replays, .. } = self;
        // Another copy's product first, untimed: code that another candidate has driven out of the
        // caches costs up to 7 % of a product of 60 us (docs/performance.md), and whoever follows
        // himself would be spared.
        let launch = RefCell::new(launch);
        let enqueue_one = |stream: &Stream| (launch.borrow_mut())(operands.next(), stream);
        let enqueue = |stream: &Stream| (0..runs).try_for_each(|_| enqueue_one(stream));
        let Some(replays) = replays else { return gpu.time(enqueue_one, enqueue) };
        let replays = match replays.entry(runs) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let graphs = operands.copies().div_ceil(runs as usize).min(MAX_GRAPHS);
                let record = |_| {
                    let replay = Replay::record(&gpu.stream, enqueue)?;
                    // The first time it is brought to the GPU.
                    replay.enqueue(&gpu.stream)?;
                    Ok(replay)
                };
                entry.insert((0..graphs).map(record).collect::<Result<_>>()?)
            }
        };
        replays.rotate_left(1);
        gpu.time(enqueue_one, |stream| replays[0].enqueue(stream))
    }

    fn replay(&mut self, on: bool) -> bool {
        self.replays = on.then(HashMap::new);
        true
    }

    fn host_time(&mut self) -> Result<Option<Duration>> {
        let GpuWork { gpu, operands, launch, .. } = self;
        gpu.host_time(|stream| launch(operands.next(), stream)).map(Some)
    }
}

impl<T: Element> crate::candidates::Candidate<T> for GpuWork<'_, T> {
    fn product(&mut self) -> Result<Vec<T::Output>> {
        self.operands.c().copy_from(bytemuck::cast_slice(&self.case.c))?;
        (self.launch)(self.operands.addresses(0), &self.gpu.stream)?;
        self.gpu.stream.synchronize().context("the product did not finish")?;
        let mut out = self.case.c.clone();
        self.operands.c().copy_to(bytemuck::cast_slice_mut(&mut out))?;
        Ok(out)
    }
}
