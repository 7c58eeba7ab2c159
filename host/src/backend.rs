//! What a device has to offer; the CPU and CUDA each do, and every host path runs on both.
//!
//! Backends deal in bytes and in a [`Product`] without a type parameter, so that they can be trait
//! objects.

use crate::device::DeviceInfo;
use crate::error::Error;
use crate::plan::{KernelChoice, Product, ScaledProduct};
use gemm_spec::Kernel;
use std::any::Any;
use std::fmt::Debug;

/// A device.
pub(crate) trait Backend: Any + Debug + Send + Sync {
    fn info(&self) -> &DeviceInfo;

    /// Memory of `bytes` bytes, whose contents are unspecified.
    fn allocate(&self, bytes: usize) -> Result<Box<dyn Memory>, Error>;

    /// A queue of its own.
    fn queue(&self) -> Result<Box<dyn Queue>, Error>;

    /// Gets a kernel ready to be launched; else the first product that takes it does.
    fn load(&self, _kernel: &'static Kernel) -> Result<(), Error> {
        Ok(())
    }

    /// Multiplies host data; when it returns, C holds the result and nothing but C's elements was
    /// written.
    ///
    /// # Safety
    /// The product's layouts are valid for the pointers, as [`HostOperands`] says.
    unsafe fn multiply_host(
        &self,
        product: &Product,
        kernel: &KernelChoice,
        operands: HostOperands,
    ) -> Result<(), Error>;

    /// Multiplies memory of this device: on `queue`, or at once and to the end where there is none.
    fn multiply(
        &self,
        queue: Option<&dyn Queue>,
        product: &Product,
        kernel: &KernelChoice,
        operands: Operands<'_>,
    ) -> Result<(), Error>;

    /// The same with scales, those of A and of B.
    fn multiply_scaled(
        &self,
        queue: Option<&dyn Queue>,
        product: &ScaledProduct,
        kernel: &KernelChoice,
        operands: Operands<'_>,
        scales: [&dyn Memory; 2],
    ) -> Result<(), Error>;
}

/// Where index 0 of the layouts of A, B and C lies in the host's memory.
///
/// The pointers are aligned for the dtype of each. Every element of A and B, if the product reads
/// them, is valid to read; every element of C to read and write, and nobody else touches it. What
/// lies between elements may be anybody's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostOperands {
    pub a: *const u8,
    pub b: *const u8,
    pub c: *mut u8,
}

/// The memory of A, B and C.
pub(crate) struct Operands<'a> {
    pub a: &'a dyn Memory,
    pub b: &'a dyn Memory,
    pub c: &'a mut dyn Memory,
}

/// A piece of a device's memory. Dropping it waits for the work that uses it.
pub(crate) trait Memory: Any + Debug + Send + Sync {
    fn bytes(&self) -> usize;

    /// Copies `data` to byte `at`, after the work enqueued on this memory; returns when `data` is
    /// free again.
    fn write(&mut self, at: usize, data: &[u8]) -> Result<(), Error>;

    /// Copies from byte `at`, after the work enqueued on this memory.
    fn read(&self, at: usize, data: &mut [u8]) -> Result<(), Error>;

    /// Sets every byte to zero.
    fn clear(&mut self) -> Result<(), Error>;
}

/// Work in order.
pub(crate) trait Queue: Any + Debug + Send + Sync {
    /// Waits for all that was enqueued.
    fn synchronize(&self) -> Result<(), Error>;
}
