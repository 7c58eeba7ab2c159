//! What a device has to offer; the CPU and CUDA each do, and every host path runs on both.
//!
//! Backends deal in bytes and in a [`Product`] without a type parameter, so that they can be trait
//! objects.

use crate::device::DeviceInfo;
use crate::error::{Error, Kind, Operand};
use crate::plan::{Fusion, KernelChoice, PlanCache, Product, RowsProduct, SOURCES, ScaledProduct};
use crate::streaming::Streaming;
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

    /// Records what `work` enqueues on the queue, which does not run then.
    fn record(
        &self,
        _queue: &dyn Queue,
        _work: &mut dyn FnMut() -> Result<(), Error>,
    ) -> Result<Box<dyn Recording>, Error> {
        Err(Error::new(Kind::NoGraphs { device: self.info().name.clone() }))
    }

    /// Gets a kernel ready to be launched; else the first product that takes it does.
    fn load(&self, _kernel: &'static Kernel) -> Result<(), Error> {
        Ok(())
    }

    /// The plans that it keeps, where it has any.
    fn plans(&self) -> Option<&PlanCache> {
        None
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
        operands: &HostOperands,
        streaming: &Streaming<'_>,
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

    /// Multiplies a list of products as [`Self::multiply`] does one; an error says of which it is.
    fn multiply_grouped(
        &self,
        queue: Option<&dyn Queue>,
        products: &[Product],
        kernel: &KernelChoice,
        operands: Vec<Operands<'_>>,
    ) -> Result<(), Error>;

    /// Multiplies rows of products by offsets that are read when the work runs.
    fn multiply_rows(
        &self,
        queue: Option<&dyn Queue>,
        rows: &RowsProduct,
        kernel: &KernelChoice,
        operands: Operands<'_>,
        offsets: &dyn Memory,
    ) -> Result<(), Error>;
}

/// Something for each matrix of a product; those of the epilogue are there where the product's
/// [`Fusion`](crate::plan::Fusion) has them, in its order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Each<P> {
    pub a: P,
    pub b: P,
    pub c: P,
    pub sources: [Option<P>; SOURCES],
    pub amax: Option<P>,
}

impl<P: Copy> Each<P> {
    /// What `f` makes of each.
    pub fn map<Q>(&self, mut f: impl FnMut(P) -> Q) -> Each<Q> {
        Each {
            a: f(self.a),
            b: f(self.b),
            c: f(self.c),
            sources: self.sources.map(|source| source.map(&mut f)),
            amax: self.amax.map(&mut f),
        }
    }

    /// Those that the product reads, A and B only if it sums anything, and those that it writes to.
    pub fn of(&self, product: &Product) -> (Vec<P>, Vec<P>) {
        let operands = [self.a, self.b].into_iter().filter(|_| product.k > 0);
        let read = operands.chain(self.sources.into_iter().flatten()).collect();
        (read, std::iter::once(self.c).chain(self.amax).collect())
    }
}

/// Where index 0 of each layout lies in the host's memory.
///
/// The pointers are aligned for the dtype of each. Every element of A and B, if the product reads
/// them, and of the epilogue's sources is valid to read; every element of C, and amax, to read and
/// write, and nobody else touches it. What lies between elements may be anybody's.
pub(crate) type HostOperands = Each<*mut u8>;

/// The memory of each matrix.
pub(crate) struct Operands<'a> {
    pub a: &'a dyn Memory,
    pub b: &'a dyn Memory,
    pub c: &'a mut dyn Memory,
    pub sources: [Option<&'a dyn Memory>; SOURCES],
    pub amax: Option<&'a mut dyn Memory>,
}

impl<'a> Operands<'a> {
    /// Each as a backend's own memory, by `own`, which answers an error for another's.
    pub fn own<M>(
        self,
        own: impl Fn(&'a dyn Memory, Operand) -> Result<&'a M, Error>,
    ) -> Result<Each<&'a M>, Error> {
        let Operands { a, b, c, sources, amax } = self;
        let mut each = Each {
            a: own(a, Operand::A)?,
            b: own(b, Operand::B)?,
            c: own(c, Operand::C)?,
            sources: [None; SOURCES],
            amax: amax.map(|amax| own(amax, Operand::Amax)).transpose()?,
        };
        for (i, source) in sources.into_iter().enumerate() {
            each.sources[i] = source.map(|source| own(source, Fusion::NAMES[i])).transpose()?;
        }
        Ok(each)
    }
}

/// A piece of a device's memory. Dropping it waits for the work that uses it.
pub(crate) trait Memory: Any + Debug + Send + Sync {
    fn bytes(&self) -> usize;

    /// Its address in the device's memory; `None` where kernels take none.
    fn device_address(&self) -> Option<u64>;

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

/// Recorded work.
pub(crate) trait Recording: Debug + Send + Sync {
    /// Enqueues it.
    fn enqueue(&self, queue: &dyn Queue) -> Result<(), Error>;
}
