//! The CUDA backend: host data travels, device data stays.

use super::context::CudaContext;
use super::graph;
use super::launch::CudaDriver;
use super::memory::{CudaMemory, Mark};
use super::stream::{CudaQueue, CudaStream};
use crate::backend::{Backend, Each, HostOperands, Memory, Operands, Queue, Recording};
use crate::device::{Device, DeviceInfo};
use crate::error::{Error, Kind, Operand};
use crate::launch::{self, Scales};
use crate::plan::{KernelChoice, PlanCache, Product, RowsProduct, ScaledProduct};
use crate::stage::{self, Stage};
use crate::streaming::Streaming;
use gemm_spec::Kernel;
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

    /// Launches on a stream that waits for its operands. The context is current.
    fn launch(
        &self,
        stream: &CudaStream,
        product: &Product,
        kernel: &KernelChoice,
        operands: &Each<&CudaMemory>,
    ) -> Result<(), Error> {
        let addresses = operands.map(CudaMemory::address);
        let driver = CudaDriver { context: &self.context, stream: stream.raw() };
        // SAFETY: a `DeviceMatrix` keeps its layout inside its memory, C is another one than A and
        // B, and the stream now waits for the work that was on them. Later work waits for this: the
        // caller marks it or waits for it.
        unsafe { launch::enqueue(&driver, product, kernel, addresses) }
    }
}

fn queue_of<'a>(context: &Arc<CudaContext>, queue: &'a dyn Queue) -> Result<&'a CudaQueue, Error> {
    let ours = (queue as &dyn Any).downcast_ref::<CudaQueue>();
    ours.filter(|queue| queue.belongs_to(context)).ok_or_else(|| {
        let expected = context.name().to_string();
        Error::new(Kind::ForeignStream { expected })
    })
}

/// Makes the stream wait for the work on the operands that must come first. The context is current.
fn wait_for_operands(
    stream: &CudaStream,
    read: &[&CudaMemory],
    written: &[&CudaMemory],
) -> Result<(), Error> {
    read.iter().try_for_each(|memory| memory.before_read(stream))?;
    written.iter().try_for_each(|memory| memory.before_write(stream))
}

/// Has `launch` enqueue work that reads and writes these: on `queue`, or to the end where there is
/// none. The context is current.
pub(super) fn in_order(
    context: &Arc<CudaContext>,
    queue: Option<&dyn Queue>,
    read: &[&CudaMemory],
    written: &[&CudaMemory],
    launch: impl Fn(&CudaStream) -> Result<(), Error>,
) -> Result<(), Error> {
    let Some(queue) = queue else {
        return context.blocking(|stream| match context.order_among_graphs() {
            Some(_shared) => marked(context, stream, read, written, &launch),
            None => {
                wait_for_operands(stream, read, written)?;
                launch(stream)
            }
        });
    };
    on_queue(context, queue, (read, written), false, launch)
}

/// The same on `queue`. A graph's matrices are nobody's borrow, and others may enqueue work on them
/// meanwhile: it has the order alone. The context is current.
pub(super) fn on_queue(
    context: &Arc<CudaContext>,
    queue: &dyn Queue,
    (read, written): (&[&CudaMemory], &[&CudaMemory]),
    is_graph: bool,
    launch: impl Fn(&CudaStream) -> Result<(), Error>,
) -> Result<(), Error> {
    let queue = queue_of(context, queue)?;
    let (stream, _order) = queue.in_order();
    if queue.add_uses(read, written)? {
        // Whoever enqueues the graph has it wait.
        return launch(stream);
    }
    let _alone = is_graph.then(|| context.exclusive_order());
    let _shared = (!is_graph).then(|| context.shared_order());
    marked(context, stream, read, written, launch)
}

/// Waits for what must come first, launches, and leaves marks for what must come later.
fn marked(
    context: &Arc<CudaContext>,
    stream: &CudaStream,
    read: &[&CudaMemory],
    written: &[&CudaMemory],
    launch: impl Fn(&CudaStream) -> Result<(), Error>,
) -> Result<(), Error> {
    wait_for_operands(stream, read, written)?;
    let launched = launch(stream);
    // Some of several panels may be under way even where one failed.
    let mark = Mark::new(context, stream).or_else(|error| {
        // Without a mark nobody can wait for the work later, so it is waited for now.
        stream.synchronize(context.name()).and(Err(error))
    })?;
    read.iter().for_each(|memory| memory.reading(mark.clone()));
    written.iter().for_each(|memory| memory.writing(mark.clone()));
    launched
}

/// The context is current in every call.
impl Stage for CudaBackend {
    type Memory = CudaMemory;

    fn device_info(&self) -> &DeviceInfo {
        self.context.info()
    }

    fn free_memory(&self) -> Option<usize> {
        self.context.free_memory().map(|(free, _)| free)
    }

    fn within<R>(&self, work: impl FnOnce() -> Result<R, Error>) -> Result<R, Error> {
        let _current = self.context.make_current()?;
        work()
    }

    fn new_memory(&self, bytes: usize) -> Result<CudaMemory, Error> {
        CudaMemory::new(&self.context, bytes)
    }

    fn run(
        &self,
        product: &Product,
        kernel: &KernelChoice,
        operands: Each<&CudaMemory>,
    ) -> Result<(), Error> {
        let (read, written) = operands.of(product);
        in_order(&self.context, None, &read, &written, |stream| {
            self.launch(stream, product, kernel, &operands)
        })
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

    fn record(
        &self,
        queue: &dyn Queue,
        work: &mut dyn FnMut() -> Result<(), Error>,
    ) -> Result<Box<dyn Recording>, Error> {
        let _current = self.context.make_current()?;
        graph::record(queue_of(&self.context, queue)?, &self.context, work)
    }

    fn load(&self, kernel: &'static Kernel) -> Result<(), Error> {
        let _current = self.context.make_current()?;
        let kernel = kernel.on(self.context.info().compute_capability.unwrap_or_default());
        self.context.modules().function(kernel, &self.context).map(drop)
    }

    fn plans(&self) -> Option<&PlanCache> {
        Some(self.context.plans())
    }

    unsafe fn multiply_host(
        &self,
        product: &Product,
        kernel: &KernelChoice,
        operands: &HostOperands,
        streaming: &Streaming<'_>,
    ) -> Result<(), Error> {
        let _current = self.context.make_current()?;
        // SAFETY: the caller's promise.
        unsafe { stage::multiply_host(self, product, kernel, operands, streaming) }
    }

    fn multiply(
        &self,
        queue: Option<&dyn Queue>,
        product: &Product,
        kernel: &KernelChoice,
        operands: Operands<'_>,
    ) -> Result<(), Error> {
        let operands = operands.own(|memory, operand| self.memory(memory, operand))?;
        let _current = self.context.make_current()?;
        let (read, written) = operands.of(product);
        in_order(&self.context, queue, &read, &written, |stream| {
            self.launch(stream, product, kernel, &operands)
        })
    }

    fn multiply_scaled(
        &self,
        queue: Option<&dyn Queue>,
        scaled: &ScaledProduct,
        kernel: &KernelChoice,
        operands: Operands<'_>,
        scales: [&dyn Memory; 2],
    ) -> Result<(), Error> {
        let operands = operands.own(|memory, operand| self.memory(memory, operand))?;
        let [a, b] = scales;
        let (a, b) = (self.memory(a, Operand::A)?, self.memory(b, Operand::B)?);
        let _current = self.context.make_current()?;
        let (mut read, written) = operands.of(&scaled.product);
        if !read.is_empty() {
            read.extend([a, b]);
        }
        in_order(&self.context, queue, &read, &written, |stream| {
            let addresses = operands.map(CudaMemory::address);
            let scales = Scales { a: a.address(), b: b.address() };
            let driver = CudaDriver { context: &self.context, stream: stream.raw() };
            // SAFETY: as in `launch`, for the scales as for A and B.
            unsafe { launch::enqueue_scaled(&driver, scaled, kernel, addresses, scales) }
        })
    }

    fn multiply_grouped(
        &self,
        queue: Option<&dyn Queue>,
        products: &[Product],
        kernel: &KernelChoice,
        operands: Vec<Operands<'_>>,
    ) -> Result<(), Error> {
        let (mut all, mut read, mut written) = (Vec::new(), Vec::new(), Vec::new());
        for (number, (product, operands)) in products.iter().zip(operands).enumerate() {
            let own = operands.own(|memory, operand| self.memory(memory, operand));
            let own = own.map_err(|error| error.of_product(number))?;
            let (reads, writes) = own.of(product);
            read.extend(reads);
            written.extend(writes);
            all.push(own);
        }
        let _current = self.context.make_current()?;
        in_order(&self.context, queue, &read, &written, |stream| {
            let addresses: Vec<_> = all.iter().map(|of| of.map(CudaMemory::address)).collect();
            let driver = CudaDriver { context: &self.context, stream: stream.raw() };
            // SAFETY: as in `launch`, for each product; no two of them have one C.
            unsafe { launch::enqueue_grouped(&driver, products, kernel, &addresses) }
        })
    }

    fn multiply_rows(
        &self,
        queue: Option<&dyn Queue>,
        rows: &RowsProduct,
        kernel: &KernelChoice,
        operands: Operands<'_>,
        offsets: &dyn Memory,
    ) -> Result<(), Error> {
        let operands = operands.own(|memory, operand| self.memory(memory, operand))?;
        let offsets = self.memory(offsets, Operand::Offsets)?;
        let _current = self.context.make_current()?;
        let (mut read, written) = operands.of(&rows.product);
        read.push(offsets);
        in_order(&self.context, queue, &read, &written, |stream| {
            let (addresses, offsets) = (operands.map(CudaMemory::address), offsets.address());
            let driver = CudaDriver { context: &self.context, stream: stream.raw() };
            // SAFETY: as in `launch`, for the matrices B of all products and the offsets as for A.
            unsafe { launch::enqueue_rows(&driver, rows, kernel, addresses, offsets) }
        })
    }
}
