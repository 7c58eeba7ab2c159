//! The GPU, the modules, guarded buffers and launches.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::process::Command;
use std::sync::{Mutex, MutexGuard};

use bytemuck::Pod;
use cuda_driver_loader as _;
use cust::context::{Context, CurrentContext};
use cust::device::{Device, DeviceAttribute};
use cust::error::{CudaError, CudaResult};
use cust::function::Function;
use cust::memory::{CopyDestination, DeviceBuffer};
use cust::module::Module;
use cust::stream::{Stream, StreamFlags};

/// The module for sm_70.
pub const SM_70: &str = include_str!(env!("DEVICE_FUNCTIONS_SM_70"));
/// The module for sm_80.
pub const SM_80: &str = include_str!(env!("DEVICE_FUNCTIONS_SM_80"));
/// The module for sm_90.
pub const SM_90: &str = include_str!(env!("DEVICE_FUNCTIONS_SM_90"));
/// The module for sm_90a.
pub const SM_90A: &str = include_str!(env!("DEVICE_FUNCTIONS_SM_90A"));

/// A GPU with one module loaded.
pub struct Gpu {
    pub name: &'static str,
    module: Module,
    stream: Stream,
}

/// The context of the process, made once and never torn down; tests take turns.
static CONTEXT: Mutex<Option<Context>> = Mutex::new(None);

/// Runs `test` with each module that the GPU can run. Without a GPU the test is skipped, in sight.
pub fn each_module(test: impl Fn(&Gpu)) {
    each_module_from((7, 0), test);
}

/// As [`each_module`], with the modules for the compute capability `first` and later: the others
/// have no such functions.
pub fn each_module_from(first: (i32, i32), test: impl Fn(&Gpu)) {
    let Some((_turn, capability)) = set_up() else { return };
    let modules = [("sm_70", (7, 0), SM_70), ("sm_80", (8, 0), SM_80), ("sm_90", (9, 0), SM_90)];
    for (name, least, text) in modules.into_iter().filter(|(_, least, _)| *least >= first) {
        if capability < least {
            gemmite_tests::skip(name, &format!("the GPU has capability {capability:?}"));
            continue;
        }
        let gpu = Gpu {
            name,
            module: load(name, text),
            stream: Stream::new(StreamFlags::DEFAULT, None).expect("a stream"),
        };
        test(&gpu);
    }
}

/// Runs `test` with the module for sm_90a, which no GPU runs but those of capability 9.0.
pub fn sm_90a(test: impl Fn(&Gpu)) {
    let Some((_turn, capability)) = set_up() else { return };
    if capability != (9, 0) {
        return gemmite_tests::skip("sm_90a", &format!("the GPU has capability {capability:?}"));
    }
    let stream = Stream::new(StreamFlags::DEFAULT, None).expect("a stream");
    test(&Gpu { name: "sm_90a", module: load("sm_90a", SM_90A), stream });
}

/// As [`each_module_from`], in a process of its own, for what would take the context of the other
/// tests with it if it failed. `path` is the calling test's.
pub fn each_module_alone(path: &str, first: (i32, i32), test: impl Fn(&Gpu)) {
    const ALONE: &str = "GEMMITE_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return each_module_from(first, test);
    }
    let Some(_turn) = set_up() else { return };
    let program = std::env::current_exe().expect("this program");
    let arguments = ["--exact", path, "--nocapture"];
    let output = Command::new(program).args(arguments).env(ALONE, "1").output();
    let output = output.expect("the child runs");
    let said =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    let one_passed = said[0].contains("test result: ok. 1 passed");
    assert!(output.status.success() && one_passed, "{path}, alone:\n{}{}", said[0], said[1]);
}

/// Runs `test` with a module of its own text.
pub fn with_module<R>(text: &str, test: impl FnOnce(&Gpu) -> R) -> R {
    let stream = Stream::new(StreamFlags::DEFAULT, None).expect("a stream");
    test(&Gpu { name: "by hand", module: load("by hand", text), stream })
}

fn load(name: &str, text: &str) -> Module {
    Module::from_ptx(text, &[]).unwrap_or_else(|error| {
        panic!("loading {name}: {}; ptxas says more about the text", describe(error))
    })
}

/// Held while a test has the GPU.
type Turn = MutexGuard<'static, Option<Context>>;

/// The turn, and the first GPU's compute capability. The context is current in this thread.
fn set_up() -> Option<(Turn, (i32, i32))> {
    let required = gemmite_tests::cuda_is_required();
    // A test that failed poisons the lock; the others can go on.
    let mut turn = CONTEXT.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let device = match cust::init(cust::CudaFlags::empty()).and_then(|()| Device::get_device(0)) {
        Ok(device) => device,
        Err(error @ (CudaError::NoDevice | CudaError::NotInitialized)) if !required => {
            gemmite_tests::skip("device functions on the GPU", &describe(error));
            return None;
        }
        Err(error) => panic!("no working GPU: {}", describe(error)),
    };
    if turn.is_none() {
        *turn = Some(Context::new(device).expect("a context"));
    }
    CurrentContext::set_current(turn.as_ref().unwrap()).expect("the context is current");
    let attribute = |attribute| device.get_attribute(attribute).expect("an attribute");
    let capability = (
        attribute(DeviceAttribute::ComputeCapabilityMajor),
        attribute(DeviceAttribute::ComputeCapabilityMinor),
    );
    Some((turn, capability))
}

fn describe(error: CudaError) -> String {
    format!("{error:?} ({error})")
}

/// One argument of a launch.
pub trait Argument {
    /// The bytes that the entry takes, in units of parameters.
    fn push(&self, parameters: &mut Vec<u64>);
}

impl Argument for u32 {
    fn push(&self, parameters: &mut Vec<u64>) {
        parameters.push(*self as u64); // Little-endian: the parameter is the first four bytes.
    }
}

/// A pointer argument.
impl<T: Pod> Argument for &Buffer<T> {
    fn push(&self, parameters: &mut Vec<u64>) {
        parameters.push(self.address());
    }
}

/// A slice argument: pointer and length.
pub struct Slice<'a, T: Pod>(pub &'a Buffer<T>);

impl<T: Pod> Argument for Slice<'_, T> {
    fn push(&self, parameters: &mut Vec<u64>) {
        parameters.extend([self.0.address(), self.0.len as u64]);
    }
}

/// A slice without elements, as cust passes it: a null pointer.
pub struct EmptySlice;

impl Argument for EmptySlice {
    fn push(&self, parameters: &mut Vec<u64>) {
        parameters.extend([0, 0]);
    }
}

impl Gpu {
    /// A kernel of the module.
    pub fn function(&self, kernel: &str) -> Function<'_> {
        let function = self.module.get_function(kernel);
        function.unwrap_or_else(|error| panic!("{kernel} of {}: {}", self.name, describe(error)))
    }

    /// The stream that launches go to.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Launches a kernel, waits for it, and panics where it fails.
    pub fn run(
        &self,
        kernel: &str,
        grid: impl Into<Dim>,
        block: impl Into<Dim>,
        arguments: &[&dyn Argument],
    ) {
        self.try_run(kernel, grid, block, 0, arguments)
            .unwrap_or_else(|error| panic!("{kernel} of {}: {}", self.name, describe(error)));
    }

    /// Launches a kernel with dynamic shared memory and waits for it.
    pub fn try_run(
        &self,
        kernel: &str,
        grid: impl Into<Dim>,
        block: impl Into<Dim>,
        dynamic_shared_bytes: u32,
        arguments: &[&dyn Argument],
    ) -> CudaResult<()> {
        let function = self.module.get_function(kernel)?;
        let mut parameters = Vec::new();
        for argument in arguments {
            argument.push(&mut parameters);
        }
        let pointers: Vec<*mut c_void> =
            parameters.iter().map(|parameter| std::ptr::from_ref(parameter) as *mut _).collect();
        let (grid, block) = (grid.into().0, block.into().0);
        // SAFETY: the parameters are as many and as large as the entry has, which the kernel's doc
        // in tests/device says; the buffers live until the kernel has ended.
        unsafe { self.stream.launch(&function, grid, block, dynamic_shared_bytes, &pointers)? };
        self.stream.synchronize()
    }
}

/// Extents along x, y and z.
pub struct Dim((u32, u32, u32));

impl From<u32> for Dim {
    fn from(x: u32) -> Self {
        Dim((x, 1, 1))
    }
}

impl From<(u32, u32, u32)> for Dim {
    fn from(extents: (u32, u32, u32)) -> Self {
        Dim(extents)
    }
}

/// Bytes before and after a buffer, which must stay as they are.
const GUARD_BYTES: usize = 256;
const GUARD: u8 = 0xa5;

/// Elements on the device between guard bands.
pub struct Buffer<T: Pod> {
    bytes: DeviceBuffer<u8>,
    len: usize,
    element: PhantomData<T>,
}

impl<T: Pod> Buffer<T> {
    /// A copy of `elements`.
    pub fn new(elements: &[T]) -> Self {
        let guard = [GUARD; GUARD_BYTES];
        let bytes = [&guard, bytemuck::cast_slice(elements), &guard].concat();
        let bytes = DeviceBuffer::from_slice(&bytes).expect("device memory");
        Buffer { bytes, len: elements.len(), element: PhantomData }
    }

    /// `len` elements of zero bits.
    pub fn zeros(len: usize) -> Self {
        Buffer::new(&vec![T::zeroed(); len])
    }

    /// The elements, after a look at the guard bands.
    pub fn download(&self) -> Vec<T> {
        let mut bytes = vec![0; self.bytes.len()];
        self.bytes.copy_to(&mut bytes).expect("a copy from the device");
        let (before, rest) = bytes.split_at(GUARD_BYTES);
        let (elements, after) = rest.split_at(self.len * size_of::<T>());
        let intact = |guard: &[u8]| guard.iter().all(|byte| *byte == GUARD);
        assert!(intact(before) && intact(after), "a write outside of the buffer");
        elements.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect()
    }

    /// The address of the first element.
    pub fn address(&self) -> u64 {
        self.bytes.as_device_ptr().as_raw() + GUARD_BYTES as u64
    }
}
