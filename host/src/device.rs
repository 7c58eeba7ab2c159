//! Devices, their streams, and matrices in their memory.

use crate::backend::{Backend, Memory, Queue};
use crate::cpu::CpuBackend;
use crate::cuda;
use crate::element::Element;
use crate::emulator;
use crate::error::{Error, Kind};
use crate::matrix::{Matrix, MatrixRef, reserve};
use crate::plan::{LaunchLimits, Transfer, span, transfer};
use gemm_spec::{Layout, Places, Shape};
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;
use std::sync::Arc;

/// Where products are computed: a CUDA GPU, the CPU, or an emulated GPU.
///
/// Clones share one device. A choice by name never falls back: [`Device::cuda`] is a GPU or an
/// error.
#[derive(Clone, Debug)]
pub struct Device {
    pub(crate) backend: Arc<dyn Backend>,
}

/// What a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeviceKind {
    /// The host's processor.
    Cpu,
    /// An NVIDIA GPU.
    Cuda {
        /// Its number for the driver; `CUDA_VISIBLE_DEVICES` changes it.
        ordinal: usize,
    },
    /// An emulated GPU.
    Emulator {
        /// Its compute capability (major, minor).
        arch: (u32, u32),
        /// How many were made in this process before it.
        number: usize,
    },
}

/// Facts about a device. What only a GPU has is `None` on the CPU.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// The device's name, as in "NVIDIA H100 80GB HBM3" or "CPU, 2 threads".
    pub name: String,
    /// What it is.
    pub kind: DeviceKind,
    /// Compute capability (major, minor).
    pub compute_capability: Option<(u32, u32)>,
    /// Bytes of memory.
    pub total_memory: Option<u64>,
    /// Bytes that the memory's pins move in a second: two a clock for eight lanes of the bus.
    pub memory_bandwidth: Option<u64>,
    /// Bytes of the L2 cache.
    pub l2_cache: Option<u64>,
    /// Bytes of shared memory that a block may declare.
    pub shared_memory_per_block: Option<u32>,
    /// Bytes of shared memory that a block may ask for at launch.
    pub shared_memory_per_block_optin: Option<u32>,
    /// Streaming multiprocessors.
    pub multiprocessors: Option<u32>,
    /// Clusters of eight blocks that run at one time, each block on a multiprocessor of its own,
    /// where the driver says it (`cuOccupancyMaxActiveClusters`): it depends on the single GPU.
    pub clusters_of_eight: Option<u32>,
    /// The newest CUDA (major, minor) that the driver knows.
    pub driver_version: Option<(u32, u32)>,
    /// What one launch may ask for.
    pub launch_limits: Option<LaunchLimits>,
}

impl DeviceInfo {
    /// Whether its memory is as fast as an H200's, and not as an H100's: then other things are what
    /// kernels wait for.
    pub(crate) fn has_fast_memory(&self) -> bool {
        self.memory_bandwidth.is_some_and(|bandwidth| bandwidth >= 4_000_000_000_000)
    }

    /// Where blocks find room: anywhere, if it is not known how many multiprocessors there are.
    pub fn places(&self) -> Places {
        let places = Places::of(self.multiprocessors.unwrap_or(u32::MAX));
        let clusters_of_eight = self.clusters_of_eight.unwrap_or(places.clusters_of_eight);
        Places { clusters_of_eight, ..places }
    }
}

/// A device by name, as a command line or a file has it: `best`, `cpu`, `cuda`, `cuda:N`,
/// `emulator` or `emulator:8.0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The first GPU that works, else the CPU.
    Best,
    /// The CPU.
    Cpu,
    /// The GPU of that number and no other.
    Cuda(usize),
    /// A new emulated GPU.
    Emulator {
        /// Its compute capability (major, minor); of `emulator` alone
        /// [`DEFAULT_ARCH`](emulator::DEFAULT_ARCH).
        arch: (u32, u32),
    },
}

impl DeviceChoice {
    /// Opens the device. A choice by name never falls back.
    ///
    /// # Errors
    /// As [`Device::cuda`] and [`Device::emulator`].
    pub fn open(self) -> Result<Device, Error> {
        match self {
            DeviceChoice::Best => Ok(Device::best()),
            DeviceChoice::Cpu => Ok(Device::cpu()),
            DeviceChoice::Cuda(ordinal) => Device::cuda(ordinal),
            DeviceChoice::Emulator { arch } => Device::emulator(arch),
        }
    }
}

impl FromStr for DeviceChoice {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unknown = "expected best, cpu, cuda, cuda:N as in cuda:1, emulator, or emulator:X.Y \
                       with a compute capability, as in emulator:8.0";
        let capability = |text: &str| -> Option<(u32, u32)> {
            let (major, minor) = text.split_once('.')?;
            Some((major.parse().ok()?, minor.parse().ok()?))
                .filter(|&arch| emulator::is_known(arch))
        };
        match text {
            "emulator" => Ok(DeviceChoice::Emulator { arch: emulator::DEFAULT_ARCH }),
            _ if text.starts_with("emulator:") => {
                let arch = text.split_once(':').and_then(|(_, arch)| capability(arch));
                arch.map(|arch| DeviceChoice::Emulator { arch }).ok_or(emulator::UNKNOWN_ARCH)
            }
            "best" => Ok(DeviceChoice::Best),
            "cpu" => Ok(DeviceChoice::Cpu),
            "cuda" => Ok(DeviceChoice::Cuda(0)),
            _ => {
                let ordinal = text.strip_prefix("cuda:").ok_or(unknown)?;
                ordinal.parse().map(DeviceChoice::Cuda).map_err(|_| unknown)
            }
        }
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceChoice::Best => f.write_str("best"),
            DeviceChoice::Cpu => f.write_str("cpu"),
            DeviceChoice::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
            DeviceChoice::Emulator { arch: (major, minor) } => {
                write!(f, "emulator:{major}.{minor}")
            }
        }
    }
}

impl Device {
    /// The first CUDA device that opens and for which there are kernels, else the CPU.
    pub fn best() -> Device {
        let has_kernels =
            |device: &Device| device.info().compute_capability.is_some_and(cuda::has_kernels);
        (0..cuda::device_count().unwrap_or(0))
            .filter_map(|ordinal| Device::cuda(ordinal).ok())
            .find(has_kernels)
            .unwrap_or_else(Device::cpu)
    }

    /// The CPU.
    pub fn cpu() -> Device {
        Device { backend: CpuBackend::shared() }
    }

    /// The CUDA device of that number.
    ///
    /// # Errors
    /// When there is no such device or no driver ([`Error::is_no_device`]; the message says what to
    /// do), or the driver cannot use it.
    pub fn cuda(ordinal: usize) -> Result<Device, Error> {
        Ok(Device { backend: cuda::open(ordinal)? })
    }

    /// A new emulated GPU of that compute capability (major, minor): runs the kernels' PTX on the
    /// CPU, thousands of times slower than a GPU, and reports their misuse of memory and barriers.
    /// [`Device::best`] never takes it.
    ///
    /// # Errors
    /// When there is none of that compute capability; the message names those that there are.
    pub fn emulator(arch: (u32, u32)) -> Result<Device, Error> {
        Device::emulator_with(&emulator::Options { arch, ..emulator::Options::default() })
    }

    /// As [`Device::emulator`], with every option.
    ///
    /// # Errors
    /// As [`Device::emulator`].
    pub fn emulator_with(options: &emulator::Options) -> Result<Device, Error> {
        Ok(Device { backend: emulator::open(options)? })
    }

    /// How many CUDA devices there are.
    ///
    /// # Errors
    /// When there is no driver, or it does not answer.
    pub fn cuda_count() -> Result<usize, Error> {
        cuda::device_count()
    }

    /// The device's name.
    pub fn name(&self) -> &str {
        &self.info().name
    }

    /// The device's facts.
    pub fn info(&self) -> &DeviceInfo {
        self.backend.info()
    }

    /// A new stream: work on one stream runs in order, work on two may overlap. On a GPU it takes
    /// turns with the legacy default stream of the process (CUDA driver API, "Stream
    /// synchronization behavior"): what others wrote there before is seen.
    ///
    /// # Errors
    /// When the driver has none left.
    pub fn stream(&self) -> Result<Stream, Error> {
        Ok(Stream { queue: self.backend.queue()?, backend: Arc::clone(&self.backend) })
    }

    /// Copies a matrix to the device. Strides of a view whose elements lie side by side are kept;
    /// others are gathered, row by row.
    ///
    /// # Errors
    /// When the device's memory does not suffice ([`Error::is_out_of_memory`]), the shape has more
    /// bytes than addresses ([`Error::is_shape`]), or the driver fails.
    pub fn upload<'a, T: Element>(
        &self,
        matrix: impl Into<MatrixRef<'a, T>>,
    ) -> Result<DeviceMatrix<T>, Error> {
        let matrix = matrix.into();
        with_elements(&matrix, |data, transfer| {
            let mut memory = self.backend.allocate(size_of_val(data))?;
            memory.write(0, bytemuck::cast_slice(data))?;
            Ok(self.device_matrix(memory, transfer.copy))
        })
    }

    /// Copies a buffer to the device, for a matrix that lies in it.
    pub(crate) fn upload_buffer<T: Element>(
        &self,
        data: &[T],
        layout: Layout,
    ) -> Result<DeviceMatrix<T>, Error> {
        // Its errors are those of a layout that does not lie in it.
        MatrixRef::new(data, layout)?;
        let mut memory = self.backend.allocate(size_of_val(data))?;
        memory.write(0, bytemuck::cast_slice(data))?;
        Ok(self.device_matrix(memory, layout))
    }

    /// A row-major matrix whose elements are unspecified; a C to be written to.
    ///
    /// # Errors
    /// When the device's memory does not suffice ([`Error::is_out_of_memory`]), the shape has more
    /// bytes than addresses ([`Error::is_shape`]), or the driver fails.
    pub fn uninit<T: Element>(&self, shape: Shape) -> Result<DeviceMatrix<T>, Error> {
        let too_large = || Error::new(Kind::TooLarge { shape, dtype: T::DTYPE });
        let bytes = shape.checked_len().and_then(|len| len.checked_mul(size_of::<T>()));
        let bytes = bytes.filter(|&bytes| isize::try_from(bytes).is_ok()).ok_or_else(too_large)?;
        let memory = self.backend.allocate(bytes)?;
        Ok(self.device_matrix(memory, Layout::row_major(shape)))
    }

    /// A row-major matrix of zeros.
    ///
    /// # Errors
    /// When the device's memory does not suffice ([`Error::is_out_of_memory`]), the shape has more
    /// bytes than addresses ([`Error::is_shape`]), or the driver fails.
    pub fn zeros<T: Element>(&self, shape: Shape) -> Result<DeviceMatrix<T>, Error> {
        let mut matrix = self.uninit(shape)?;
        matrix.memory.clear()?;
        Ok(matrix)
    }

    fn device_matrix<T>(&self, memory: Box<dyn Memory>, layout: Layout) -> DeviceMatrix<T> {
        DeviceMatrix { memory, layout, backend: Arc::clone(&self.backend), element: PhantomData }
    }
}

impl PartialEq for Device {
    /// True for the same device, however often it was opened. Each emulated GPU is another.
    fn eq(&self, other: &Device) -> bool {
        self.info().kind == other.info().kind
    }
}

impl Eq for Device {}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A matrix in a device's memory, until it is dropped.
///
/// Dropping it waits for the work that uses it, so no order of drops can free memory under a
/// running kernel.
#[derive(Debug)]
pub struct DeviceMatrix<T> {
    pub(crate) memory: Box<dyn Memory>,
    layout: Layout,
    backend: Arc<dyn Backend>,
    element: PhantomData<T>,
}

impl<T: Element> DeviceMatrix<T> {
    /// Rows and columns.
    pub fn shape(&self) -> Shape {
        self.layout.shape
    }

    /// Shape, strides and offset within the device's buffer.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The device that holds it.
    pub fn device(&self) -> Device {
        Device { backend: Arc::clone(&self.backend) }
    }

    /// Bytes that it holds in the device's memory.
    pub fn size_bytes(&self) -> usize {
        self.memory.bytes()
    }

    /// The address of the layout's index 0 in the device's memory, for kernels of one's own (see
    /// [`OwnKernel::argument`](crate::OwnKernel::argument)); `None` on the CPU. It is valid as long
    /// as the matrix is there and [`DeviceMatrix::write`] gives it no other memory, and work that
    /// uses it is not waited for.
    pub fn device_address(&self) -> Option<u64> {
        self.memory.device_address()
    }

    /// Copies the matrix to the host, after the work that was enqueued on it.
    ///
    /// # Errors
    /// When the host's memory does not suffice, or the driver fails; a fault of enqueued work can
    /// show here.
    pub fn download(&self) -> Result<Matrix<T>, Error> {
        let (first, end) = span(&self.layout);
        let mut data: Vec<T> = reserve(Shape::new(1, end - first))?;
        data.resize(end - first, T::default());
        self.memory.read(first * size_of::<T>(), bytemuck::cast_slice_mut(&mut data))?;
        if self.layout == Layout::row_major(self.layout.shape) {
            return Matrix::from_vec(self.layout.shape, data);
        }
        let offset = self.layout.offset - first;
        MatrixRef::new(&data, Layout { offset, ..self.layout })?.to_matrix()
    }

    /// Overwrites the matrix with one of the same shape from the host, after the work that was
    /// enqueued on it. Where the two layouts differ, the matrix gets new memory and the layout that
    /// [`Device::upload`] would give it: a graph that was recorded goes on with the old memory.
    ///
    /// # Errors
    /// When the shapes differ, the device's memory does not suffice, or the driver fails.
    pub fn write<'a>(&mut self, matrix: impl Into<MatrixRef<'a, T>>) -> Result<(), Error> {
        let matrix = matrix.into();
        let (expected, found) = (self.shape(), matrix.shape());
        if expected != found {
            return Err(Error::new(Kind::Overwrite { expected, found }));
        }
        with_elements(&matrix, |data, transfer| {
            if transfer.copy.lies_as(&self.layout) && !self.layout.overlaps_itself() {
                return self.memory.write(0, bytemuck::cast_slice(data));
            }
            // Any other pair of layouts: a fresh buffer takes this one's place.
            *self = self.device().upload(matrix)?;
            Ok(())
        })
    }

    /// Another view of the same memory, which it fits into.
    pub(crate) fn set_layout(&mut self, layout: Layout) {
        self.layout = layout;
    }

    pub(crate) fn memory(&self) -> &dyn Memory {
        &*self.memory
    }

    pub(crate) fn is_on(&self, backend: &Arc<dyn Backend>) -> bool {
        self.backend.info().kind == backend.info().kind
    }
}

/// Calls `with` with the elements that have to travel, side by side.
pub(crate) fn with_elements<T: Element, R>(
    matrix: &MatrixRef<'_, T>,
    with: impl FnOnce(&[T], Transfer) -> Result<R, Error>,
) -> Result<R, Error> {
    let shape = matrix.shape();
    let transfer = transfer(&matrix.layout())
        .ok_or_else(|| Error::new(Kind::TooLarge { shape, dtype: T::DTYPE }))?;
    if transfer.dense {
        let (first, _) = span(&transfer.source);
        // SAFETY: the span is made of the view's elements and nothing else.
        let data = unsafe { std::slice::from_raw_parts(matrix.as_ptr().add(first), transfer.len) };
        return with(data, transfer);
    }
    // SAFETY: the source's elements are elements of the view.
    let source = unsafe { MatrixRef::from_raw(matrix.as_ptr(), transfer.source) };
    with(source.to_matrix()?.as_slice(), transfer)
}

/// Work in order on one device; see [`Device::stream`].
///
/// Dropping a stream does not wait: its work goes on, and the matrices that it uses wait for it.
#[derive(Debug)]
pub struct Stream {
    pub(crate) queue: Box<dyn Queue>,
    pub(crate) backend: Arc<dyn Backend>,
}

impl Stream {
    /// Waits for everything that was enqueued.
    ///
    /// # Errors
    /// While the stream is being recorded ([`Error::is_recording`]), which that would break, and
    /// when the driver fails; a fault of enqueued work can show here.
    pub fn synchronize(&self) -> Result<(), Error> {
        self.queue.synchronize()
    }

    /// The device that it belongs to.
    pub fn device(&self) -> Device {
        Device { backend: Arc::clone(&self.backend) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_read_and_written() {
        let emulator = DeviceChoice::Emulator { arch: (8, 6) };
        for choice in [DeviceChoice::Best, DeviceChoice::Cpu, DeviceChoice::Cuda(3), emulator] {
            assert_eq!(choice.to_string().parse(), Ok(choice));
        }
        assert_eq!("cuda".parse(), Ok(DeviceChoice::Cuda(0)));
        assert_eq!("emulator".parse(), Ok(DeviceChoice::Emulator { arch: (9, 0) }));
        let wrong = ["", "gpu", "cuda:", "cuda:-1", "cuda:x", "cuda3", "best:1"];
        let no_arch = ["emulator:", "emulator:8", "emulator:sm_80", "emulator:6.1", "emulator8.0"];
        for wrong in wrong.into_iter().chain(no_arch) {
            assert!(wrong.parse::<DeviceChoice>().is_err(), "{wrong}");
        }
        assert_eq!(DeviceChoice::Cpu.open().unwrap().info().kind, DeviceKind::Cpu);
    }
}
