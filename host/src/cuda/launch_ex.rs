//! `cuLaunchKernelEx` and what goes with it, which are newer than the driver API of cust_raw.

use cuda_driver_loader::answered;
use cust::sys;
use gemm_spec::Kernel;
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

/// `CUlaunchConfig` of cuda.h.
#[repr(C)]
pub(super) struct LaunchConfig {
    /// Blocks along x, y and z.
    pub grid: [u32; 3],
    /// Threads along x, y and z.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared: u32,
    pub stream: sys::CUstream,
    pub attributes: *mut LaunchAttribute,
    pub count: u32,
}

/// `CUlaunchAttribute` of cuda.h: a value of 64 bytes behind 8 for its name.
#[repr(C)]
pub(super) struct LaunchAttribute {
    id: u32,
    padding: u32,
    value: [u64; 8],
}

impl LaunchAttribute {
    /// `CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION`, allowed: the kernel may start
    /// before the one before it in the stream has ended.
    pub(super) fn overlap() -> Self {
        LaunchAttribute { id: 6, padding: 0, value: [1, 0, 0, 0, 0, 0, 0, 0] }
    }

    /// `CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION`: so many blocks along x, one along y and z.
    fn cluster(blocks: u32) -> Self {
        let value = [u64::from(blocks) | 1 << 32, 1, 0, 0, 0, 0, 0, 0];
        LaunchAttribute { id: 4, padding: 0, value }
    }
}

/// The function's type, whose answer is one of [`answered`].
type Function = unsafe extern "C" fn(
    config: *const LaunchConfig,
    function: sys::CUfunction,
    arguments: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> c_int;

/// `cuLaunchKernelEx`.
#[derive(Clone, Copy)]
pub(super) struct LaunchEx(Function);

impl LaunchEx {
    /// The function, where the driver is of CUDA 11.8 or later.
    pub(super) fn get() -> Option<LaunchEx> {
        static FOUND: OnceLock<Option<LaunchEx>> = OnceLock::new();
        *FOUND.get_or_init(|| {
            let address = cuda_driver_loader::symbol(c"cuLaunchKernelEx")?;
            // SAFETY: the address is that of the function, whose type is the one in cuda.h.
            Some(LaunchEx(unsafe { std::mem::transmute::<*const (), Function>(address) }))
        })
    }

    /// Calls it.
    ///
    /// # Safety
    /// As `cuLaunchKernel`.
    pub(super) unsafe fn call(
        self,
        config: &LaunchConfig,
        function: sys::CUfunction,
        arguments: *mut *mut c_void,
    ) -> sys::CUresult {
        // SAFETY: the caller's promise.
        answered(unsafe { (self.0)(config, function, arguments, std::ptr::null_mut()) })
    }
}

/// The type of `cuOccupancyMaxActiveClusters`.
type MaxActiveClusters = unsafe extern "C" fn(
    clusters: *mut i32,
    function: sys::CUfunction,
    config: *const LaunchConfig,
) -> c_int;

/// How many clusters of a kernel run at one time on the current context's device, as far as the
/// driver says it, which one of CUDA 11.8 does.
///
/// # Safety
/// The function is the kernel's, of a module that is loaded in the current context, and may have
/// its shared memory.
pub(super) unsafe fn clusters_at_once(kernel: &Kernel, function: sys::CUfunction) -> Option<u32> {
    let address = cuda_driver_loader::symbol(c"cuOccupancyMaxActiveClusters")?;
    // SAFETY: the address is that of the function, whose type is the one in cuda.h.
    let ask = unsafe { std::mem::transmute::<*const (), MaxActiveClusters>(address) };
    let cluster = kernel.cluster() as u32;
    let mut attribute = LaunchAttribute::cluster(cluster);
    let (x, y) = kernel.block();
    let config = LaunchConfig {
        grid: [cluster, 1, 1],
        block: [x, y, 1],
        shared: kernel.dynamic_shared_bytes() as u32,
        stream: std::ptr::null_mut(),
        attributes: &raw mut attribute,
        count: 1,
    };
    let mut clusters = 0;
    // SAFETY: the number may be written; the driver reads the rest. The function is as promised.
    let result = answered(unsafe { ask(&raw mut clusters, function, &raw const config) });
    let is_said = result == sys::CUresult::CUDA_SUCCESS && clusters > 0;
    is_said.then_some(clusters as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structures_are_as_large_as_in_the_header() {
        assert_eq!((size_of::<LaunchConfig>(), size_of::<LaunchAttribute>()), (56, 72));
        assert_eq!(LaunchAttribute::cluster(8).value[..2], [8 | 1 << 32, 1]);
    }
}
