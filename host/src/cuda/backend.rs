//! The CUDA backend: host data travels, device data stays.

use super::context::CudaContext;
use super::launch::{self, Addresses};
use super::memory::{CudaMemory, Mark};
use super::stream::{CudaQueue, CudaStream};
use crate::backend::{Backend, HostOperands, Memory, Operands, Queue};
use crate::device::{Device, DeviceInfo};
use crate::error::{Error, Kind, Operand};
use crate::plan::{KernelChoice, Product, Task, Transfer, choose_kernel, span, transfer};
use bytemuck::Pod;
use gemm_spec::{DType, Layout};
use std::any::Any;
use std::sync::Arc;

/// A CUDA device.
#[derive(Debug)]
pub(super) struct CudaBackend {
    context: Arc<CudaContext>,
}

/// The context of a CUDA device, an error for another.
pub(super) fn context_of(device: &Device) -> Result<&Arc<CudaContext>, Error> {
    let backend = &*device.backend as &dyn Any;
    match backend.downcast_ref::<CudaBackend>() {
        Some(backend) => Ok(&backend.context),
        None => Err(Error::new(Kind::NotCuda { device: device.name().to_string() })),
    }
}

impl CudaBackend {
    pub(super) fn new(context: Arc<CudaContext>) -> Self {
        CudaBackend { context }
    }

    fn foreign(&self, operand: Operand) -> Error {
        let expected = self.context.name().to_string();
        Error::new(Kind::DifferentDevices { operand, expected })
    }

    fn memory<'a>(
        &self,
        memory: &'a dyn Memory,
        operand: Operand,
    ) -> Result<&'a CudaMemory, Error> {
        let memory = (memory as &dyn Any).downcast_ref::<CudaMemory>();
        memory
            .filter(|memory| memory.belongs_to(&self.context))
            .ok_or_else(|| self.foreign(operand))
    }

    /// Enqueues a product on memory of this context. The context is current.
    fn enqueue(
        &self,
        stream: &CudaStream,
        product: &Product,
        kernel: &KernelChoice,
        operands: [&CudaMemory; 3],
    ) -> Result<(), Error> {
        self.wait_for_operands(stream, product, operands)?;
        self.launch(stream, product, kernel, operands)
    }

    /// Makes the stream wait for the work on the operands that must come first. The context is
    /// current.
    fn wait_for_operands(
        &self,
        stream: &CudaStream,
        product: &Product,
        [a, b, c]: [&CudaMemory; 3],
    ) -> Result<(), Error> {
        if product.k > 0 {
            a.before_read(stream)?;
            b.before_read(stream)?;
        }
        c.before_write(stream)
    }

    /// Launches on a stream that waits for its operands. The context is current.
    fn launch(
        &self,
        stream: &CudaStream,
        product: &Product,
        kernel: &KernelChoice,
        [a, b, c]: [&CudaMemory; 3],
    ) -> Result<(), Error> {
        let addresses = Addresses { a: a.address(), b: b.address(), c: c.address() };
        // SAFETY: a `DeviceMatrix` keeps its layout inside its memory, C is another one than A and
        // B, and the stream now waits for the work that was on them. Later work waits for this: the
        // caller marks it or waits for it.
        unsafe { launch::enqueue(&self.context, stream.raw(), product, kernel, addresses) }
    }

    /// Copies what the product needs of a host matrix to the device; the layout is the one there.
    /// The context is current.
    ///
    /// # Safety
    /// Every element of the layout from `data` is valid to read, and aligned for the dtype.
    unsafe fn stage(
        &self,
        dtype: DType,
        data: *const u8,
        layout: &Layout,
    ) -> Result<(CudaMemory, Layout), Error> {
        let Transfer { source, dense, len, copy } = self.transfer(dtype, layout)?;
        let bytes = len * dtype.size_bytes();
        let mut memory = CudaMemory::new(&self.context, bytes)?;
        // SAFETY: the source's elements are the layout's, and side by side where it is dense.
        unsafe {
            if dense {
                let first = span(&source).0 * dtype.size_bytes();
                memory.write(0, std::slice::from_raw_parts(data.add(first), bytes))?;
            } else {
                memory.write(0, &gather(dtype, data, &source)?)?;
            }
        }
        Ok((memory, copy))
    }

    /// How a matrix travels, if its bytes fit into the address space.
    fn transfer(&self, dtype: DType, layout: &Layout) -> Result<Transfer, Error> {
        let fits = |transfer: &Transfer| {
            let bytes = transfer.len.checked_mul(dtype.size_bytes());
            bytes.is_some_and(|bytes| isize::try_from(bytes).is_ok())
        };
        transfer(layout)
            .filter(fits)
            .ok_or_else(|| Error::new(Kind::TooLarge { shape: layout.shape, dtype }))
    }
}

impl Backend for CudaBackend {
    fn info(&self) -> &DeviceInfo {
        self.context.info()
    }

    fn allocate(&self, bytes: usize) -> Result<Box<dyn Memory>, Error> {
        let _current = self.context.make_current()?;
        Ok(Box::new(CudaMemory::new(&self.context, bytes)?))
    }

    fn queue(&self) -> Result<Box<dyn Queue>, Error> {
        Ok(Box::new(CudaQueue::new(&self.context)?))
    }

    unsafe fn multiply_host(
        &self,
        product: &Product,
        kernel: &KernelChoice,
        operands: HostOperands,
    ) -> Result<(), Error> {
        let (dtype, shape) = (product.dtype, product.c.shape);
        // Before any copy: a choice that cannot run shall not cost one.
        let travelled = |layout: &Layout| match product.k {
            0 => Ok(*layout),
            _ => self.transfer(dtype, layout).map(|transfer| transfer.copy),
        };
        let (a, b) = (travelled(&product.a)?, travelled(&product.b)?);
        // Memory of a context starts at multiples of 256 bytes.
        let task = Task::new(dtype, shape, product.k, [&a, &b], [0, 0]);
        choose_kernel(kernel, task, self.info())?;
        if shape.is_empty() {
            return Ok(());
        }
        let _current = self.context.make_current()?;
        let mut device = *product;
        let nothing = || CudaMemory::new(&self.context, 0);
        let (a, b, c);
        // SAFETY: the caller's promise; A and B are read if k is not 0, C if there is a beta.
        unsafe {
            (a, b) = if product.k > 0 {
                let (a, a_layout) = self.stage(dtype, operands.a, &product.a)?;
                let (b, b_layout) = self.stage(dtype, operands.b, &product.b)?;
                (device.a, device.b) = (a_layout, b_layout);
                (a, b)
            } else {
                (nothing()?, nothing()?)
            };
            let dtype = dtype.output();
            let Transfer { dense, len, source, copy } = self.transfer(dtype, &product.c)?;
            let bytes = len * dtype.size_bytes();
            (c, device.c) = if product.beta.is_some() {
                self.stage(dtype, operands.c, &product.c)?
            } else {
                (CudaMemory::new(&self.context, bytes)?, copy)
            };
            self.context.blocking(|stream| self.enqueue(stream, &device, kernel, [&a, &b, &c]))?;
            if dense {
                let first = span(&source).0 * dtype.size_bytes();
                c.read(0, std::slice::from_raw_parts_mut(operands.c.add(first), bytes))
            } else {
                let mut packed = bytes_of(bytes)?;
                c.read(0, &mut packed)?;
                scatter(dtype, &packed, operands.c, &source);
                Ok(())
            }
        }
    }

    fn multiply(
        &self,
        queue: Option<&dyn Queue>,
        product: &Product,
        kernel: &KernelChoice,
        operands: Operands<'_>,
    ) -> Result<(), Error> {
        let a = self.memory(operands.a, Operand::A)?;
        let b = self.memory(operands.b, Operand::B)?;
        let c = (operands.c as &mut dyn Any).downcast_mut::<CudaMemory>();
        let c = c.filter(|memory| memory.belongs_to(&self.context));
        let c = c.ok_or_else(|| self.foreign(Operand::C))?;
        let _current = self.context.make_current()?;
        let Some(queue) = queue else {
            return self
                .context
                .blocking(|stream| self.enqueue(stream, product, kernel, [a, b, c]));
        };
        let queue = (queue as &dyn Any).downcast_ref::<CudaQueue>();
        let (stream, _order) = match queue.filter(|queue| queue.belongs_to(&self.context)) {
            Some(queue) => queue.in_order(),
            None => {
                let expected = self.context.name().to_string();
                return Err(Error::new(Kind::ForeignStream { expected }));
            }
        };
        self.wait_for_operands(stream, product, [a, b, c])?;
        let launched = self.launch(stream, product, kernel, [a, b, c]);
        // Some of several panels may be under way even where one failed.
        let mark = Mark::new(&self.context, stream).or_else(|error| {
            // Without a mark nobody can wait for the work later, so it is waited for now.
            stream.synchronize(self.context.name()).and(Err(error))
        })?;
        if product.k > 0 {
            a.reading(mark.clone());
            b.reading(mark.clone());
        }
        c.writing(mark);
        launched
    }
}

/// Zeroed bytes on the host, aligned for every dtype by the allocator's rule for large blocks or by
/// the caller's use.
fn bytes_of(len: usize) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len).map_err(|_| {
        Error::new(Kind::OutOfMemory { place: "the host".into(), wanted: len, free: None })
    })?;
    bytes.resize(len, 0);
    Ok(bytes)
}

/// The layout's elements, row by row.
///
/// # Safety
/// Every element of the layout from `data` is valid to read, and aligned for the dtype.
unsafe fn gather(dtype: DType, data: *const u8, layout: &Layout) -> Result<Vec<u8>, Error> {
    // `transfer` has checked the product.
    let mut packed = bytes_of(layout.shape.rows * layout.shape.cols * dtype.size_bytes())?;
    // SAFETY: the caller's promise, for a type of the dtype's size.
    unsafe {
        match dtype.size_bytes() {
            1 => gather_as::<u8>(data, layout, &mut packed),
            2 => gather_as::<u16>(data.cast(), layout, &mut packed),
            4 => gather_as::<u32>(data.cast(), layout, &mut packed),
            _ => gather_as::<u64>(data.cast(), layout, &mut packed),
        }
    }
    Ok(packed)
}

/// # Safety
/// Every element of the layout from `data` is valid to read.
unsafe fn gather_as<W: Pod>(data: *const W, layout: &Layout, packed: &mut [u8]) {
    let cols = layout.shape.cols;
    for (index, bytes) in packed.chunks_exact_mut(size_of::<W>()).enumerate() {
        // SAFETY: the place lies in the layout's shape.
        let word = unsafe { *data.add(layout.index(index / cols, index % cols)) };
        bytes.copy_from_slice(bytemuck::bytes_of(&word));
    }
}

/// Writes packed elements, row by row, to their places, and to nothing between them.
///
/// # Safety
/// Every element of the layout from `data` is valid to write, and aligned for the dtype.
unsafe fn scatter(dtype: DType, packed: &[u8], data: *mut u8, layout: &Layout) {
    // SAFETY: the caller's promise, for a type of the dtype's size.
    unsafe {
        match dtype.size_bytes() {
            1 => scatter_as::<u8>(packed, data, layout),
            2 => scatter_as::<u16>(packed, data.cast(), layout),
            4 => scatter_as::<u32>(packed, data.cast(), layout),
            _ => scatter_as::<u64>(packed, data.cast(), layout),
        }
    }
}

/// # Safety
/// Every element of the layout from `data` is valid to write.
unsafe fn scatter_as<W: Pod>(packed: &[u8], data: *mut W, layout: &Layout) {
    let cols = layout.shape.cols;
    for (index, bytes) in packed.chunks_exact(size_of::<W>()).enumerate() {
        let word = bytemuck::pod_read_unaligned(bytes);
        // SAFETY: the place lies in the layout's shape.
        unsafe { *data.add(layout.index(index / cols, index % cols)) = word };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemm_spec::{Shape, Strides};

    #[test]
    fn scatter_undoes_gather_and_leaves_the_rest() {
        let layout = Layout { shape: Shape::new(2, 3), strides: Strides::new(-7, 2), offset: 8 };
        let data: Vec<u32> = (0..20).collect();
        let mut copy = vec![99u32; 20];
        // SAFETY: the layout's indices are 1 to 12, within both vectors.
        unsafe {
            let packed = gather(DType::F32, data.as_ptr().cast(), &layout).unwrap();
            scatter(DType::F32, &packed, copy.as_mut_ptr().cast(), &layout);
        }
        let places = [8, 10, 12, 1, 3, 5];
        for (index, &value) in copy.iter().enumerate() {
            assert_eq!(value, if places.contains(&index) { data[index] } else { 99 });
        }
    }
}
