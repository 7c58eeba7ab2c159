//! A device's primary context, and what is kept with it.

use super::backend::CudaBackend;
use super::driver::{Check, Current, OUT_OF_MEMORY, failure};
use super::module::{self, Modules};
use super::stream::CudaStream;
use crate::backend::Backend;
use crate::device::{DeviceInfo, DeviceKind};
use crate::error::{Error, Kind};
use crate::plan::{LaunchLimits, PlanCache};
use cust::context::Context;
use cust::device::{Device, DeviceAttribute};
use cust::sys;
use gemm_spec::Target;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{
    Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak,
};

/// One for each device while anything of it is alive: the context, its modules, its idle streams,
/// and the plans made for it.
#[derive(Debug)]
pub(super) struct CudaContext {
    info: DeviceInfo,
    has_memory_pools: bool,
    context: Context,
    /// Emptied before the context goes.
    modules: Mutex<Modules>,
    /// Streams for blocking calls; each is some call's own while it runs.
    idle: Mutex<Vec<CudaStream>>,
    plans: PlanCache,
    /// Held by whoever waits for work on matrices until the marks of new work on them are kept.
    /// What a call writes is nobody else's meanwhile, and calls share this; a graph writes to what
    /// others may hold, and has it alone.
    order: RwLock<()>,
    /// Graphs that there are. Without any, blocking calls need no marks: their operands are
    /// borrowed until they are done.
    graphs: AtomicUsize,
}

/// A mutex's value; a panic elsewhere has left it usable, for every change of ours is one step.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CudaContext {
    pub(super) fn info(&self) -> &DeviceInfo {
        &self.info
    }

    pub(super) fn name(&self) -> &str {
        &self.info.name
    }

    /// Makes the context current on this thread for the guard's life.
    pub(super) fn make_current(&self) -> Result<Current, Error> {
        Current::new(&self.context, self.name())
    }

    /// Whether memory can be allocated in a stream's order.
    pub(super) fn has_memory_pools(&self) -> bool {
        self.has_memory_pools
    }

    pub(super) fn plans(&self) -> &PlanCache {
        &self.plans
    }

    pub(super) fn modules(&self) -> MutexGuard<'_, Modules> {
        lock(&self.modules)
    }

    /// For calls whose operands are borrowed.
    pub(super) fn shared_order(&self) -> RwLockReadGuard<'_, ()> {
        self.order.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// For graphs.
    pub(super) fn exclusive_order(&self) -> RwLockWriteGuard<'_, ()> {
        self.order.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// One graph more. Its matrices are borrowed when it is recorded, so that nobody is amid a call
    /// then that writes them.
    pub(super) fn add_graph(&self) {
        self.graphs.fetch_add(1, Ordering::SeqCst);
    }

    /// One graph less; whether it was the last.
    pub(super) fn remove_graph(&self) -> bool {
        self.graphs.fetch_sub(1, Ordering::SeqCst) == 1
    }

    /// For blocking calls: the order, where graphs may write to their operands, and where they have
    /// to leave marks.
    pub(super) fn order_among_graphs(&self) -> Option<RwLockReadGuard<'_, ()>> {
        (self.graphs.load(Ordering::SeqCst) > 0).then(|| self.shared_order())
    }

    /// Runs `work` on a stream of its own, and waits for the stream whatever comes of it. The
    /// context is current.
    pub(super) fn blocking<R>(
        &self,
        work: impl FnOnce(&CudaStream) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let idle = lock(&self.idle).pop();
        let stream = match idle {
            Some(stream) => stream,
            None => CudaStream::new(self.name())?,
        };
        let result = work(&stream);
        let finished = stream.synchronize(self.name());
        lock(&self.idle).push(stream);
        let value = result?;
        finished?;
        Ok(value)
    }

    /// (free, total) bytes of the device's memory. The context is current.
    pub(super) fn free_memory(&self) -> Option<(usize, usize)> {
        cust::memory::mem_get_info().ok()
    }
}

impl Drop for CudaContext {
    fn drop(&mut self) {
        let _current = self.make_current();
        lock(&self.idle).clear();
        *lock(&self.modules) = Modules::default();
    }
}

fn no_device(ordinal: usize, reason: impl Into<String>) -> Error {
    Error::new(Kind::NoDevice { ordinal, reason: reason.into() })
}

/// Initialises the driver, once.
fn initialise(ordinal: usize) -> Result<(), Error> {
    if let Some(reason) = cuda_driver_loader::load_error() {
        return Err(no_device(
            ordinal,
            format!(
                "the NVIDIA driver's library could not be opened ({reason}); install the NVIDIA \
                driver, or use the CPU (`Device::cpu()`, `Device::best()`)"
            ),
        ));
    }
    cust::init(cust::CudaFlags::empty()).map_err(|_| {
        let driver = super::driver::last_failure("cuInit");
        let remedy = "does `nvidia-smi` list a GPU? The CPU works without one (`Device::cpu()`)";
        no_device(ordinal, format!("{driver}; {remedy}"))
    })
}

/// How many devices the driver has.
pub(crate) fn device_count() -> Result<usize, Error> {
    initialise(0)?;
    let count = Device::num_devices().check("cuDeviceGetCount", || "counting devices".into())?;
    Ok(count as usize)
}

/// The backend of a device; one context serves all that are open at a time.
pub(crate) fn open(ordinal: usize) -> Result<Arc<dyn Backend>, Error> {
    static OPEN: OnceLock<Mutex<HashMap<usize, Weak<CudaContext>>>> = OnceLock::new();
    let count = device_count().map_err(|error| match error.is_no_device() {
        true => initialise(ordinal).err().unwrap_or(error),
        false => error,
    })?;
    if ordinal >= count {
        let plural = if count == 1 { " is 1 device" } else { " are devices" };
        let reason = match count {
            0 => "the driver sees no GPU (is CUDA_VISIBLE_DEVICES set?)".to_string(),
            1 => format!("there{plural}, number 0"),
            _ => format!("there{plural} 0 to {}", count - 1),
        };
        return Err(no_device(ordinal, reason));
    }
    let mut open = lock(OPEN.get_or_init(Mutex::default));
    let context = match open.get(&ordinal).and_then(Weak::upgrade) {
        Some(context) => context,
        None => {
            let context = Arc::new(create(ordinal)?);
            open.insert(ordinal, Arc::downgrade(&context));
            context
        }
    };
    Ok(Arc::new(CudaBackend::new(context)))
}

fn create(ordinal: usize) -> Result<CudaContext, Error> {
    let what = || format!("opening CUDA device {ordinal}");
    let device = Device::get_device(ordinal as u32).check("cuDeviceGet", what)?;
    let info = describe(ordinal, device)?;
    // cust makes the new context current and leaves it so; the thread gets back what it had.
    let mut before = std::ptr::null_mut();
    // SAFETY: `before` may be written to.
    unsafe { sys::cuCtxGetCurrent(&mut before) }.check("cuCtxGetCurrent", what)?;
    let context = Context::new(device).check("cuDevicePrimaryCtxRetain", what)?;
    // SAFETY: `before` was current a moment ago, or is null for none.
    unsafe { sys::cuCtxSetCurrent(before) }.check("cuCtxSetCurrent", what)?;
    let (modules, idle, plans) = (Mutex::default(), Mutex::default(), PlanCache::default());
    let (order, graphs) = (RwLock::default(), AtomicUsize::default());
    let has_memory_pools = has_memory_pools(device);
    let mut context =
        CudaContext { info, has_memory_pools, context, modules, idle, plans, order, graphs };
    let current = context.make_current()?;
    context.info.clusters_of_eight = module::clusters_of_eight(&context);
    drop(current);
    Ok(context)
}

/// Whether memory can be allocated in a stream's order; drivers before CUDA 11.2 do not know what
/// is asked for, and some virtual GPUs do not have it.
fn has_memory_pools(device: Device) -> bool {
    let asked = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED;
    let mut value = 0;
    // SAFETY: `value` may be written to, and the device is one of the driver's.
    let answer = unsafe { sys::cuDeviceGetAttribute(&mut value, asked, device.as_raw()) };
    answer == sys::CUresult::CUDA_SUCCESS && value != 0
}

fn describe(ordinal: usize, device: Device) -> Result<DeviceInfo, Error> {
    use DeviceAttribute::*;
    let what = || format!("asking CUDA device {ordinal} for its limits");
    let attribute = |attribute| -> Result<u32, Error> {
        let value = device.get_attribute(attribute).check("cuDeviceGetAttribute", what)?;
        Ok(u32::try_from(value).unwrap_or(0))
    };
    let raw_attribute = |attribute| {
        let mut value = 0;
        // SAFETY: `value` may be written to, and the device is one of the driver's.
        unsafe { sys::cuDeviceGetAttribute(&mut value, attribute, device.as_raw()) }
            .check("cuDeviceGetAttribute", what)?;
        Ok::<_, Error>(u32::try_from(value).unwrap_or(0))
    };
    let mut version = 0;
    // SAFETY: `version` may be written to.
    unsafe { sys::cuDriverGetVersion(&mut version) }.check("cuDriverGetVersion", what)?;
    let version = u32::try_from(version).unwrap_or(0);
    let shared = attribute(MaxSharedMemoryPerBlock)?;
    let optin = raw_attribute(
        sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
    )?;
    // Thousands of clocks a second, lanes of the bus; zeros where a virtual machine hides them.
    let clocks = 1000 * u64::from(attribute(MemoryClockRate)?);
    let bandwidth = 2 * clocks * u64::from(attribute(GlobalMemoryBusWidth)?) / 8;
    let l2_cache = u64::from(attribute(L2CacheSize)?);
    Ok(DeviceInfo {
        name: device.name().check("cuDeviceGetName", what)?,
        kind: DeviceKind::Cuda { ordinal },
        compute_capability: Some((
            attribute(ComputeCapabilityMajor)?,
            attribute(ComputeCapabilityMinor)?,
        )),
        total_memory: Some(device.total_memory().check("cuDeviceTotalMem", what)? as u64),
        memory_bandwidth: (bandwidth > 0).then_some(bandwidth),
        l2_cache: (l2_cache > 0).then_some(l2_cache),
        shared_memory_per_block: Some(shared),
        shared_memory_per_block_optin: Some(optin),
        multiprocessors: Some(attribute(MultiprocessorCount)?),
        // Asked for with a context.
        clusters_of_eight: None,
        driver_version: Some((version / 1000, version % 1000 / 10)),
        launch_limits: Some(LaunchLimits {
            threads_per_block: attribute(MaxThreadsPerBlock)?,
            block: [attribute(MaxBlockDimX)?, attribute(MaxBlockDimY)?, attribute(MaxBlockDimZ)?],
            grid: [attribute(MaxGridDimX)?, attribute(MaxGridDimY)?, attribute(MaxGridDimZ)?],
            shared_bytes_per_block: shared,
            shared_bytes_per_block_optin: optin,
        }),
    })
}

/// True where some kernel runs on a device of that compute capability.
pub(crate) fn has_kernels(capability: (u32, u32)) -> bool {
    Target::ALL.iter().any(|target| target.min_capability() <= capability)
}

/// An error for a device's failed allocation by `call`.
pub(super) fn allocation_failure(
    call: &'static str,
    context: &CudaContext,
    wanted: usize,
) -> Error {
    if cuda_driver_loader::last_error() != OUT_OF_MEMORY {
        return failure(call, format!("allocating {wanted} bytes on {}", context.name()));
    }
    Error::new(Kind::OutOfMemory {
        place: context.name().to_string(),
        wanted,
        free: context.free_memory(),
    })
}
