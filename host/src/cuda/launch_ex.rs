//! `cuLaunchKernelEx`, which is newer than the driver API of cust_raw.

use cust::sys;
use std::ffi::c_void;
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
}

/// The function's type.
pub(super) type LaunchEx = unsafe extern "C" fn(
    config: *const LaunchConfig,
    function: sys::CUfunction,
    arguments: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> sys::CUresult;

/// The function, where the driver is of CUDA 11.8 or later.
pub(super) fn launch_ex() -> Option<LaunchEx> {
    static FOUND: OnceLock<Option<LaunchEx>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let address = cuda_driver_loader::symbol(c"cuLaunchKernelEx")?;
        // SAFETY: the address is that of the function, whose type is the one in cuda.h.
        Some(unsafe { std::mem::transmute::<*const (), LaunchEx>(address) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structures_are_as_large_as_in_the_header() {
        assert_eq!((size_of::<LaunchConfig>(), size_of::<LaunchAttribute>()), (56, 72));
    }
}
