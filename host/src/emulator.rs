//! Emulated GPUs: the crate `ptx-emulator` as a device.
//!
//! An emulated GPU runs the very PTX that a driver would get, on the CPU, and checks it: a data
//! race, a stray or uninitialised access, a barrier that not all threads reach ends the call with
//! an error that is the report ([`Error::is_emulator_report`]). Plans, grids, arguments and tensor
//! maps are made by the code that makes them for CUDA devices.
//!
//! ```
//! use gemmite::{Device, Gemm, Matrix, Shape, random};
//!
//! let a: Matrix<f32> = random::integers(Shape::new(20, 30), 1, -9..=9)?;
//! let b: Matrix<f32> = random::integers(Shape::new(30, 10), 2, -9..=9)?;
//! let gpu = Device::emulator((8, 0))?;
//! let c = Gemm::new().kernel("k02_tiled_16").run(&gpu, &a, &b)?;
//! assert_eq!(c, Gemm::new().run(&Device::cpu(), &a, &b)?);
//! # Ok::<(), gemmite::Error>(())
//! ```

#[cfg(test)]
pub(crate) mod faults;
mod launch;
mod limits;
mod raw;

use crate::backend::{Backend, Each, HostOperands, Memory, Operands, Queue};
use crate::device::{Device, DeviceInfo, DeviceKind};
use crate::error::{Error, Kind, Operand};
use crate::launch::{Scales, enqueue, enqueue_grouped, enqueue_rows, enqueue_scaled};
use crate::plan::{KernelChoice, PlanCache, Product, RowsProduct, ScaledProduct};
use crate::ptx;
use crate::stage::{self, Stage};
use crate::streaming::Streaming;
use gemm_spec::{Kernel, Reads, Writes};
use launch::EmulatorDriver;
pub(crate) use limits::{UNKNOWN_ARCH, is_known};
use ptx_emulator::{Arch, Emulator, Module};
use std::any::Any;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use ptx_emulator;
pub use ptx_emulator::{Statistics, Timing};

/// The compute capability of an emulated GPU where none is named: the one that runs every kernel.
pub const DEFAULT_ARCH: (u32, u32) = (9, 0);

/// What an emulated GPU is like; see [`Device::emulator_with`](crate::Device::emulator_with).
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Compute capability (major, minor).
    pub arch: (u32, u32),
    /// Multiprocessors, by which kernels are chosen and grids of some are bounded. `None`: those of
    /// a GPU of that compute capability. All blocks run in any case.
    pub multiprocessors: Option<u32>,
    /// Whether data races and uninitialised reads are looked for. Bounds, alignment and barriers
    /// are always checked.
    pub checks: bool,
    /// When asynchronous copies and products take effect; by default as late as they may.
    pub timing: Timing,
    /// Threads of the CPU to run blocks on; 0: as many as there are.
    pub threads: usize,
    /// Instructions that one warp may execute in a launch; what takes more is stopped.
    pub step_limit: u64,
    /// Whether [`statistics`] has sectors, bank conflicts and lines as well, which takes time.
    pub statistics: bool,
    /// A text of PTX that kernels are taken from in place of the library's, [`ptx_of`] with changes
    /// for example: to see what the emulator says of them. Kernels that it has not are the
    /// library's.
    pub ptx: Option<Arc<str>>,
}

impl Default for Options {
    fn default() -> Options {
        let ptx_emulator::Options { timing, threads, step_limit, .. } = Default::default();
        Options {
            arch: DEFAULT_ARCH,
            multiprocessors: None,
            checks: true,
            timing,
            threads,
            step_limit,
            statistics: false,
            ptx: None,
        }
    }
}

/// A GPU that no other has anything to do with.
pub(crate) fn open(options: &Options) -> Result<Arc<dyn Backend>, Error> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let (major, minor) = options.arch;
    let emulation = ptx_emulator::Options {
        arch: Arch::new(major, minor),
        checks: options.checks,
        timing: options.timing,
        threads: options.threads,
        step_limit: options.step_limit,
        statistics: options.statistics,
        ..ptx_emulator::Options::default()
    };
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let info = limits::describe(options, number, emulation.memory)
        .ok_or_else(|| Error::new(Kind::NoEmulator { arch: options.arch }))?;
    let gpu = Gpu {
        info,
        emulator: Mutex::new(Emulator::new(emulation)),
        ptx: options.ptx.clone(),
        own_module: Mutex::default(),
        statistics: Mutex::default(),
        plans: PlanCache::default(),
        #[cfg(test)]
        faults: Default::default(),
    };
    Ok(Arc::new(EmulatorBackend { gpu: Arc::new(gpu) }))
}

/// The module that an emulated GPU gets for a kernel: the lines have the numbers that they have in
/// the file in host/ptx, and those of other kernels are empty.
pub fn ptx_of(kernel: &Kernel) -> String {
    ptx::of_kernel(kernel)
}

/// What the launches on an emulated GPU have done so far, counted; `None` for other devices.
pub fn statistics(device: &Device) -> Option<Statistics> {
    let backend = (&*device.backend as &dyn Any).downcast_ref::<EmulatorBackend>()?;
    let counted = backend.gpu.statistics.lock().unwrap_or_else(PoisonError::into_inner);
    Some(counted.clone())
}

/// One emulated GPU. Its memory lives as long as anything of it.
#[derive(Debug)]
struct Gpu {
    info: DeviceInfo,
    emulator: Mutex<Emulator>,
    /// The kernels' text, where it is not the library's.
    ptx: Option<Arc<str>>,
    /// That text, parsed.
    own_module: Mutex<Option<Arc<Module>>>,
    /// Of all launches.
    statistics: Mutex<Statistics>,
    plans: PlanCache,
    /// The calls that tests make fail.
    #[cfg(test)]
    faults: faults::Faults,
}

impl Gpu {
    /// The emulator, for one call. A panic elsewhere can have left C's contents half written, which
    /// is what they are after any error.
    fn lock(&self) -> MutexGuard<'_, Emulator> {
        self.emulator.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Comes before each call that a driver could answer with an error; tests have it fail.
    #[cfg(not(test))]
    fn call(&self, _: &'static str) -> Result<(), Error> {
        Ok(())
    }

    /// Memory of `bytes` bytes.
    fn allocate(&self, bytes: usize) -> Result<u64, Error> {
        self.call("allocate")?;
        self.lock().allocate(bytes as u64).map_err(|_| {
            let place = self.info.name.clone();
            Error::new(Kind::OutOfMemory { place, wanted: bytes, free: None })
        })
    }

    /// The module of the text that takes the place of the library's, parsed at the first launch:
    /// its variables lie in the GPU's memory once.
    fn own_module(&self, kernel: &Kernel, text: &str) -> Result<Arc<Module>, Error> {
        let mut parsed = self.own_module.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(module) = &*parsed {
            return Ok(Arc::clone(module));
        }
        let module = Arc::new(launch::parse(kernel, text)?);
        *parsed = Some(Arc::clone(&module));
        Ok(module)
    }

    /// A host call's mistake, which the backend does not make.
    fn failure(&self, doing: &str, source: ptx_emulator::Error) -> Error {
        let context = format!("{doing} on {}", self.info.name);
        Error::new(Kind::Emulator { context, source })
    }
}

#[derive(Debug)]
struct EmulatorBackend {
    gpu: Arc<Gpu>,
}

impl EmulatorBackend {
    fn foreign(&self, operand: Operand) -> Error {
        let expected = self.gpu.info.name.clone();
        Error::new(Kind::DifferentDevices { operand, expected })
    }

    fn memory<'a>(
        &self,
        memory: &'a dyn Memory,
        operand: Operand,
    ) -> Result<&'a EmulatorMemory, Error> {
        let memory = (memory as &dyn Any).downcast_ref::<EmulatorMemory>();
        memory
            .filter(|memory| Arc::ptr_eq(&memory.gpu, &self.gpu))
            .ok_or_else(|| self.foreign(operand))
    }
}

impl EmulatorBackend {
    /// An error for another device's queue.
    fn check_queue(&self, queue: Option<&dyn Queue>) -> Result<(), Error> {
        let ours = |queue: &dyn Queue| {
            let queue = (queue as &dyn Any).downcast_ref::<EmulatorQueue>();
            queue.is_some_and(|queue| Arc::ptr_eq(&queue.gpu, &self.gpu))
        };
        if queue.is_some_and(|queue| !ours(queue)) {
            let expected = self.gpu.info.name.clone();
            return Err(Error::new(Kind::ForeignStream { expected }));
        }
        Ok(())
    }
}

impl Stage for EmulatorBackend {
    type Memory = EmulatorMemory;

    fn device_info(&self) -> &DeviceInfo {
        &self.gpu.info
    }

    fn free_memory(&self) -> Option<usize> {
        // It is the host's.
        None
    }

    fn new_memory(&self, bytes: usize) -> Result<EmulatorMemory, Error> {
        let address = self.gpu.allocate(bytes)?;
        Ok(EmulatorMemory { gpu: Arc::clone(&self.gpu), address, bytes })
    }

    fn run(
        &self,
        product: &Product,
        kernel: &KernelChoice,
        operands: Each<&EmulatorMemory>,
    ) -> Result<(), Error> {
        let addresses = operands.map(|memory| memory.address);
        // Launches run one after the other here. What kernels are told goes by the shape and by the
        // steps of 128 bytes along K, for all of their ways to be run.
        let is_even = product.shape().rows.wrapping_add(product.k).is_multiple_of(2);
        let reads = if is_even { Reads::AtOnce } else { Reads::InOrder };
        let steps = product.k.saturating_mul(product.dtype.size_bytes()).div_ceil(128);
        let writes = [Writes::Late, Writes::Plain, Writes::FirstOut][steps % 3];
        let product = &Product { reads, writes, ..*product };
        // SAFETY: the emulator checks every access, and its launches are done when they return.
        unsafe { enqueue(&EmulatorDriver { gpu: &self.gpu }, product, kernel, addresses) }
    }
}

impl Backend for EmulatorBackend {
    fn info(&self) -> &DeviceInfo {
        &self.gpu.info
    }

    fn allocate(&self, bytes: usize) -> Result<Box<dyn Memory>, Error> {
        Ok(Box::new(self.new_memory(bytes)?))
    }

    fn queue(&self) -> Result<Box<dyn Queue>, Error> {
        Ok(Box::new(EmulatorQueue { gpu: Arc::clone(&self.gpu) }))
    }

    fn plans(&self) -> Option<&PlanCache> {
        Some(&self.gpu.plans)
    }

    unsafe fn multiply_host(
        &self,
        product: &Product,
        kernel: &KernelChoice,
        operands: &HostOperands,
        streaming: &Streaming<'_>,
    ) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        unsafe { stage::multiply_host(self, product, kernel, operands, streaming) }
    }

    fn multiply(
        &self,
        queue: Option<&dyn Queue>,
        product: &Product,
        kernel: &KernelChoice,
        operands: Operands<'_>,
    ) -> Result<(), Error> {
        self.check_queue(queue)?;
        let operands = operands.own(|memory, operand| self.memory(memory, operand))?;
        self.run(product, kernel, operands)
    }

    fn multiply_scaled(
        &self,
        queue: Option<&dyn Queue>,
        product: &ScaledProduct,
        kernel: &KernelChoice,
        operands: Operands<'_>,
        [a_scales, b_scales]: [&dyn Memory; 2],
    ) -> Result<(), Error> {
        self.check_queue(queue)?;
        let operands = operands.own(|memory, operand| self.memory(memory, operand))?;
        let addresses = operands.map(|memory| memory.address);
        let scales = Scales {
            a: self.memory(a_scales, Operand::A)?.address,
            b: self.memory(b_scales, Operand::B)?.address,
        };
        let driver = EmulatorDriver { gpu: &self.gpu };
        // SAFETY: the emulator checks every access, and its launches are done when they return.
        unsafe { enqueue_scaled(&driver, product, kernel, addresses, scales) }
    }

    fn multiply_grouped(
        &self,
        queue: Option<&dyn Queue>,
        products: &[Product],
        kernel: &KernelChoice,
        operands: Vec<Operands<'_>>,
    ) -> Result<(), Error> {
        self.check_queue(queue)?;
        let mut addresses = Vec::with_capacity(operands.len());
        for (number, operands) in operands.into_iter().enumerate() {
            let own = operands.own(|memory, operand| self.memory(memory, operand));
            let own = own.map_err(|error| error.of_product(number))?;
            addresses.push(own.map(|memory| memory.address));
        }
        let driver = EmulatorDriver { gpu: &self.gpu };
        // SAFETY: the emulator checks every access, and its launches are done when they return.
        unsafe { enqueue_grouped(&driver, products, kernel, &addresses) }
    }

    fn multiply_rows(
        &self,
        queue: Option<&dyn Queue>,
        rows: &RowsProduct,
        kernel: &KernelChoice,
        operands: Operands<'_>,
        offsets: &dyn Memory,
    ) -> Result<(), Error> {
        self.check_queue(queue)?;
        let operands = operands.own(|memory, operand| self.memory(memory, operand))?;
        let addresses = operands.map(|memory| memory.address);
        let offsets = self.memory(offsets, Operand::Offsets)?.address;
        let driver = EmulatorDriver { gpu: &self.gpu };
        // SAFETY: the emulator checks every access, and its launches are done when they return.
        unsafe { enqueue_rows(&driver, rows, kernel, addresses, offsets) }
    }
}

/// An allocation of its own: the guards around it and what was written in it are the emulator's
/// to watch.
#[derive(Debug)]
struct EmulatorMemory {
    gpu: Arc<Gpu>,
    address: u64,
    bytes: usize,
}

impl Memory for EmulatorMemory {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn device_address(&self) -> Option<u64> {
        Some(self.address)
    }

    fn write(&mut self, at: usize, data: &[u8]) -> Result<(), Error> {
        self.gpu.call("write")?;
        let to = self.address + at as u64;
        let written = self.gpu.lock().write(to, data);
        written.map_err(|error| self.gpu.failure("writing", error))
    }

    fn read(&self, at: usize, data: &mut [u8]) -> Result<(), Error> {
        self.gpu.call("read")?;
        let from = self.address + at as u64;
        let read = self.gpu.lock().read(from, data);
        read.map_err(|error| self.gpu.failure("reading", error))
    }

    fn clear(&mut self) -> Result<(), Error> {
        const ZEROS: [u8; 4096] = [0; 4096];
        for at in (0..self.bytes).step_by(ZEROS.len()) {
            self.write(at, &ZEROS[..ZEROS.len().min(self.bytes - at)])?;
        }
        Ok(())
    }
}

impl Drop for EmulatorMemory {
    fn drop(&mut self) {
        // It is freed once, here.
        let _ = self.gpu.lock().free(self.address);
    }
}

/// Work is done when the call that enqueues it returns.
#[derive(Debug)]
struct EmulatorQueue {
    gpu: Arc<Gpu>,
}

impl Queue for EmulatorQueue {
    fn synchronize(&self) -> Result<(), Error> {
        Ok(())
    }
}

impl DeviceKind {
    /// Of an emulated GPU.
    fn emulator(options: &Options, number: usize) -> DeviceKind {
        DeviceKind::Emulator { arch: options.arch, number }
    }
}

#[cfg(test)]
mod tests;
