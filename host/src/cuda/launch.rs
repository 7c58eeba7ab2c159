//! Launches through the driver.

use super::context::{CudaContext, allocation_failure};
use super::driver::Check;
use super::launch_ex::{LaunchAttribute, LaunchConfig, LaunchEx};
use super::{TensorLayout, TensorMap};
use crate::device::DeviceInfo;
use crate::error::Error;
use crate::launch::Driver;
use crate::plan::PlanCache;
use cust::sys::{self, CUstream};
use gemm_spec::{Kernel, Launch};
use smallvec::SmallVec;
use std::ffi::c_void;

/// A stream of a context, which is current.
pub(super) struct CudaDriver<'a> {
    pub context: &'a CudaContext,
    pub stream: CUstream,
}

impl Driver for CudaDriver<'_> {
    fn info(&self) -> &DeviceInfo {
        self.context.info()
    }

    fn plans(&self) -> &PlanCache {
        self.context.plans()
    }

    fn encode(&self, layout: &TensorLayout, address: u64) -> Result<TensorMap, Error> {
        layout.encode_checked(address)
    }

    /// In the stream's order, which takes no synchronisation (CUDA driver API, "Stream Ordered
    /// Memory Allocator"), where the driver has that.
    fn allocate(&self, bytes: usize) -> Result<u64, Error> {
        let mut address = 0;
        // SAFETY: the context is current, and the stream is its own.
        let (call, result) = unsafe {
            match self.is_pooled() {
                true => {
                    let result = sys::cuMemAllocAsync(&mut address, bytes, self.stream);
                    ("cuMemAllocAsync", result)
                }
                false => ("cuMemAlloc", sys::cuMemAlloc_v2(&mut address, bytes)),
            }
        };
        match result {
            sys::CUresult::CUDA_SUCCESS => Ok(address),
            _ => Err(allocation_failure(call, self.context, bytes)),
        }
    }

    /// On a GPU it may be read anyway.
    fn let_read(&self, _: u64, _: usize) -> Result<(), Error> {
        Ok(())
    }

    fn release(&self, address: u64) {
        // SAFETY: it was allocated on this stream, and is freed once, behind what uses it. There is
        // nothing to be done about a failure, which only an earlier fault of the context makes.
        unsafe {
            if self.is_pooled() {
                let _ = sys::cuMemFreeAsync(address, self.stream);
            } else {
                let _ = sys::cuStreamSynchronize(self.stream);
                let _ = sys::cuMemFree_v2(address);
            }
        }
    }

    unsafe fn launch(
        &self,
        kernel: &'static Kernel,
        launch: &Launch,
        arguments: &[&[u8]],
    ) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        let (call, result) = unsafe { self.launch_kernel(kernel, launch, arguments)? };
        let ((grid_x, grid_y), (block_x, block_y)) = (launch.grid, launch.block);
        result.check(call, || {
            format!(
                "launching {} for a C of shape {} (grid {grid_x}x{grid_y}, block \
                {block_x}x{block_y}) on {}",
                kernel.name,
                launch.shape,
                self.context.name()
            )
        })
    }
}

impl CudaDriver<'_> {
    /// Whether memory is allocated in the stream's order: where the driver can, and of work that is
    /// recorded in any case, since nobody else sees to its memory.
    fn is_pooled(&self) -> bool {
        self.context.has_memory_pools() || self.is_recorded()
    }

    /// Whether work on the stream is recorded and not run.
    fn is_recorded(&self) -> bool {
        use sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE as NONE;
        let mut status = NONE;
        // SAFETY: the stream is alive, and `status` may be written to.
        let _ = unsafe { sys::cuStreamIsCapturing(self.stream, &mut status) };
        status != NONE
    }

    /// Kernels of compute capability 9.0 start while the one before them in the stream ends, and
    /// wait for it before they touch memory.
    ///
    /// # Safety
    /// As [`Driver::launch`].
    unsafe fn launch_kernel(
        &self,
        kernel: &'static Kernel,
        launch: &Launch,
        arguments: &[&[u8]],
    ) -> Result<(&'static str, sys::CUresult), Error> {
        let kernel = kernel.on(self.info().compute_capability.unwrap_or_default());
        let function = self.context.modules().function(kernel, self.context)?;
        let pointer = |argument: &&[u8]| argument.as_ptr().cast_mut().cast();
        let mut pointers: SmallVec<[*mut c_void; 8]> = arguments.iter().map(pointer).collect();
        let ((grid_x, grid_y), (block_x, block_y)) = (launch.grid, launch.block);
        // `choose_kernel` has held it against the device's limit.
        let shared = kernel.dynamic_shared_bytes() as u32;
        // SAFETY: the caller's promise; the driver reads as many arguments as the kernel has
        // parameters, and copies them before it returns; grid and block are the kernel's own,
        // within the device's limits; the attribute is for kernels that wait for the grids before
        // them.
        Ok(unsafe {
            match LaunchEx::get().filter(|_| kernel.overlaps()) {
                Some(launch_ex) => {
                    let mut overlap = LaunchAttribute::overlap();
                    let config = LaunchConfig {
                        grid: [grid_x, grid_y, launch.layers],
                        block: [block_x, block_y, 1],
                        shared,
                        stream: self.stream,
                        attributes: &raw mut overlap,
                        count: 1,
                    };
                    let arguments = pointers.as_mut_ptr();
                    ("cuLaunchKernelEx", launch_ex.call(&config, function.0, arguments))
                }
                None => {
                    let result = sys::cuLaunchKernel(
                        function.0,
                        grid_x,
                        grid_y,
                        launch.layers,
                        block_x,
                        block_y,
                        1,
                        shared,
                        self.stream,
                        pointers.as_mut_ptr(),
                        std::ptr::null_mut(),
                    );
                    ("cuLaunchKernel", result)
                }
            }
        })
    }
}
