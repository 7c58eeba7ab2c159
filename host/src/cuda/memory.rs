//! Device memory, and the order of the work on it.

use super::context::{CudaContext, allocation_failure, lock};
use super::driver::{Check, Event};
use super::stream::CudaStream;
use crate::backend::Memory;
use crate::error::Error;
use cust::memory::DeviceBuffer;
use cust::sys;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::{Arc, Mutex};

/// A buffer on a device, shared with the graphs that use it.
#[derive(Clone, Debug)]
pub(super) struct CudaMemory(Arc<Buffer>);

/// The buffer itself.
///
/// Asynchronous work leaves an event here for each stream that uses the buffer, and everything that
/// touches it later waits for the events that it must: a reader for the last writer, a writer and
/// the drop for everyone.
#[derive(Debug)]
pub(super) struct Buffer {
    /// `None` where there are no bytes.
    buffer: ManuallyDrop<Option<DeviceBuffer<u8>>>,
    bytes: usize,
    pending: Mutex<Pending>,
    context: Arc<CudaContext>,
}

/// The work under way on a buffer.
#[derive(Debug, Default)]
struct Pending {
    write: Option<Mark>,
    /// The readers since then, one mark a stream.
    reads: Vec<Mark>,
}

/// The last work of a stream on a buffer.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    event: Arc<Event>,
    stream: u64,
}

impl Mark {
    /// Marks what was enqueued on `stream` so far. The context is current.
    pub(super) fn new(context: &Arc<CudaContext>, stream: &CudaStream) -> Result<Self, Error> {
        let event = Arc::new(Event::record(context, stream.raw())?);
        Ok(Mark { event, stream: stream.id() })
    }

    /// Makes `stream` wait, which is in order already where the work is its own.
    fn block(&self, stream: &CudaStream) -> Result<(), Error> {
        if self.stream == stream.id() { Ok(()) } else { self.event.block(stream.raw()) }
    }
}

impl Deref for CudaMemory {
    type Target = Buffer;

    fn deref(&self) -> &Buffer {
        &self.0
    }
}

impl CudaMemory {
    /// `bytes` bytes of unspecified contents. The context is current.
    pub(super) fn new(context: &Arc<CudaContext>, bytes: usize) -> Result<Self, Error> {
        let buffer = if bytes == 0 {
            None
        } else {
            // SAFETY: the bytes are read as plain data of unspecified value or after they were
            // written.
            let buffer = unsafe { DeviceBuffer::uninitialized(bytes) };
            Some(buffer.map_err(|_| allocation_failure("cuMemAlloc", context, bytes))?)
        };
        let buffer = ManuallyDrop::new(buffer);
        let (pending, context) = (Mutex::default(), Arc::clone(context));
        Ok(CudaMemory(Arc::new(Buffer { buffer, bytes, pending, context })))
    }

    /// The device address; 0 where there are no bytes.
    pub(super) fn address(&self) -> u64 {
        self.buffer.as_ref().map_or(0, |buffer| buffer.as_device_ptr().as_raw())
    }
}

impl Buffer {
    pub(super) fn belongs_to(&self, context: &Arc<CudaContext>) -> bool {
        Arc::ptr_eq(&self.context, context)
    }

    /// Makes `stream` wait for what must come before a read. The context is current.
    pub(super) fn before_read(&self, stream: &CudaStream) -> Result<(), Error> {
        lock(&self.pending).write.as_ref().map_or(Ok(()), |mark| mark.block(stream))
    }

    /// Makes `stream` wait for what must come before a write. The context is current.
    pub(super) fn before_write(&self, stream: &CudaStream) -> Result<(), Error> {
        let pending = lock(&self.pending);
        pending.write.iter().chain(&pending.reads).try_for_each(|mark| mark.block(stream))
    }

    /// Keeps the mark of a read. The context is current.
    pub(super) fn reading(&self, mark: Mark) {
        let reads = &mut lock(&self.pending).reads;
        reads.retain(|old| old.stream != mark.stream);
        // Streams come and go, and a matrix that is never written to has readers without end.
        if reads.len() == reads.capacity() {
            reads.retain(|old| !old.event.is_past());
        }
        reads.push(mark);
    }

    /// Keeps the mark of a write, which came after all before it.
    pub(super) fn writing(&self, mark: Mark) {
        *lock(&self.pending) = Pending { write: Some(mark), reads: Vec::new() };
    }

    /// Has `copy` enqueue what the caller waits for: behind what must come first, and, where there
    /// are graphs, with a mark for them. The context is current.
    fn in_order(
        &self,
        stream: &CudaStream,
        writes: bool,
        copy: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let order = self.context.order_among_graphs();
        if writes {
            self.before_write(stream)?
        } else {
            self.before_read(stream)?
        }
        copy()?;
        if order.is_some() {
            let mark = Mark::new(&self.context, stream)?;
            if writes { self.writing(mark) } else { self.reading(mark) }
        }
        Ok(())
    }

    fn what(&self, doing: &str, bytes: usize) -> String {
        format!("{doing} {bytes} bytes on {}", self.context.name())
    }
}

impl CudaMemory {
    /// Enqueues a copy from the host. The context is current.
    ///
    /// # Safety
    /// `data` stays as it is until the stream is synchronised.
    pub(super) unsafe fn enqueue_write(
        &mut self,
        stream: &CudaStream,
        at: usize,
        data: &[u8],
    ) -> Result<(), Error> {
        if data.is_empty() {
            return Ok(());
        }
        assert!(at <= self.bytes && data.len() <= self.bytes - at, "a write past the buffer");
        let to = self.address() + at as u64;
        self.in_order(stream, true, || {
            // SAFETY: the bytes lie in the buffer, and `data` stays.
            unsafe { sys::cuMemcpyHtoDAsync_v2(to, data.as_ptr().cast(), data.len(), stream.raw()) }
                .check("cuMemcpyHtoDAsync", || self.what("writing", data.len()))
        })
    }
}

impl Memory for CudaMemory {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn device_address(&self) -> Option<u64> {
        Some(self.address())
    }

    fn write(&mut self, at: usize, data: &[u8]) -> Result<(), Error> {
        let context = Arc::clone(&self.context);
        let _current = context.make_current()?;
        // SAFETY: `blocking` waits for the stream while `data` is borrowed.
        context.blocking(|stream| unsafe { self.enqueue_write(stream, at, data) })
    }

    fn read(&self, at: usize, data: &mut [u8]) -> Result<(), Error> {
        if data.is_empty() {
            return Ok(());
        }
        assert!(at <= self.bytes && data.len() <= self.bytes - at, "a read past the buffer");
        let _current = self.context.make_current()?;
        let from = self.address() + at as u64;
        let (to, len) = (data.as_mut_ptr(), data.len());
        self.context.blocking(|stream| {
            self.in_order(stream, false, || {
                // SAFETY: the bytes lie in the buffer; `data` is borrowed until `blocking` has
                // waited for the stream.
                unsafe { sys::cuMemcpyDtoHAsync_v2(to.cast(), from, len, stream.raw()) }
                    .check("cuMemcpyDtoHAsync", || self.what("reading", len))
            })
        })
    }

    fn clear(&mut self) -> Result<(), Error> {
        if self.bytes == 0 {
            return Ok(());
        }
        let _current = self.context.make_current()?;
        self.context.blocking(|stream| {
            self.in_order(stream, true, || {
                // SAFETY: the bytes are the buffer's.
                unsafe { sys::cuMemsetD8Async(self.address(), 0, self.bytes, stream.raw()) }
                    .check("cuMemsetD8Async", || self.what("clearing", self.bytes))
            })
        })
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let _current = self.context.make_current();
        let pending = std::mem::take(&mut *lock(&self.pending));
        for mark in pending.write.iter().chain(&pending.reads) {
            mark.event.wait();
        }
        // SAFETY: dropped once, here, and no work uses it any more.
        unsafe { ManuallyDrop::drop(&mut self.buffer) };
    }
}
