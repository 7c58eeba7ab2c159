//! Launches of kernels that take tensor maps, large shared memory or launch attributes.

use std::ffi::{c_int, c_void};

use bytemuck::Pod;
use cust::function::{Function, FunctionAttribute};
use cust::sys::{self, CUfunction_attribute, CUresult};
use gemmite::cuda::{TensorElement, TensorLayout, TensorMap};

use crate::gpu::{Buffer, Gpu};

/// One argument of a kernel, as words; a slice is two.
pub struct Argument(Vec<u64>);

impl From<u32> for Argument {
    fn from(value: u32) -> Self {
        Argument(vec![value.into()])
    }
}

impl<T: Pod> From<&Buffer<T>> for Argument {
    fn from(buffer: &Buffer<T>) -> Self {
        Argument(vec![buffer.address()])
    }
}

impl From<&TensorMap> for Argument {
    fn from(map: &TensorMap) -> Self {
        Argument(map.words().to_vec())
    }
}

impl From<usize> for Argument {
    fn from(value: usize) -> Self {
        Argument(vec![value as u64])
    }
}

/// A launch of blocks in a line.
#[derive(Clone, Copy)]
pub struct Launch {
    pub blocks: (u32, u32, u32),
    pub threads: u32,
    pub shared_bytes: u32,
    /// May start before the kernel before it has ended.
    pub overlaps: bool,
}

impl Launch {
    pub fn new(blocks: u32, threads: u32) -> Self {
        Launch { blocks: (blocks, 1, 1), threads, shared_bytes: 0, overlaps: false }
    }

    /// Launches a kernel and waits for it.
    pub fn run(self, gpu: &Gpu, kernel: &str, arguments: &[Argument]) {
        self.start(gpu, kernel, arguments);
        gpu.stream().synchronize().unwrap_or_else(|error| panic!("{kernel}: {error}"));
    }

    /// Launches a kernel.
    pub fn start(self, gpu: &Gpu, kernel: &str, arguments: &[Argument]) {
        let function = gpu.function(kernel);
        let local = function.get_attribute(FunctionAttribute::LocalSizeBytes).unwrap();
        assert_eq!(local, 0, "{kernel}: bytes of local memory, which spilled registers would take");
        let mut pointers: Vec<*mut c_void> =
            arguments.iter().map(|argument| argument.0.as_ptr().cast_mut().cast()).collect();
        let config = self.config(gpu, &function);
        let attribute = Attribute::new(6, 1); // Programmatic stream serialization.
        let config =
            Config { attributes: &attribute, attribute_count: self.overlaps.into(), ..config };
        let address =
            cuda_driver_loader::symbol(c"cuLaunchKernelEx").expect("a driver for CUDA 12");
        // SAFETY: the function has this type in cuda.h since CUDA 12.0; the parameters are as many
        // and as large as the kernel's doc says; the caller's buffers live until the stream is
        // synchronised.
        let answer = unsafe {
            let launch = std::mem::transmute::<*const (), LaunchKernelEx>(address);
            launch(&config, function.to_raw(), pointers.as_mut_ptr(), std::ptr::null_mut())
        };
        let (name, text) = cuda_driver_loader::describe(answer);
        assert_eq!(answer, 0, "launching {kernel}: {name}: {text}");
    }

    fn config(self, gpu: &Gpu, function: &Function) -> Config {
        if self.shared_bytes > 48 << 10 {
            let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: the function is alive.
            let result = unsafe {
                sys::cuFuncSetAttribute(function.to_raw(), attribute, self.shared_bytes as i32)
            };
            assert_eq!(result, CUresult::CUDA_SUCCESS);
        }
        let (x, y, z) = self.blocks;
        Config {
            grid: [x, y, z],
            block: [self.threads, 1, 1],
            shared_bytes: self.shared_bytes,
            stream: gpu.stream().as_inner(),
            attributes: std::ptr::null(),
            attribute_count: 0,
        }
    }
}

/// `CUlaunchConfig`
#[repr(C)]
struct Config {
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    stream: sys::CUstream,
    attributes: *const Attribute,
    attribute_count: u32,
}

/// `CUlaunchAttribute`
#[repr(C)]
struct Attribute {
    id: c_int,
    padding: [u8; 4],
    value: [u64; 8],
}

impl Attribute {
    fn new(id: c_int, value: u64) -> Self {
        Attribute { id, padding: [0; 4], value: [value, 0, 0, 0, 0, 0, 0, 0] }
    }
}

type LaunchKernelEx = unsafe extern "C" fn(
    *const Config,
    sys::CUfunction,
    *mut *mut c_void,
    *mut *mut c_void,
) -> c_int;

/// The map of the tensor that `buffer` begins with.
pub fn map<T: Pod>(layout: &TensorLayout, buffer: &Buffer<T>) -> TensorMap {
    layout.encode(buffer.address()).unwrap_or_else(|error| panic!("{error}"))
}

/// A tensor of words in boxes.
pub fn words(sizes: &[u64], boxes: &[u32]) -> TensorLayout {
    TensorLayout::new(TensorElement::U32, sizes, boxes)
}
