//! Streams: work in order.

use super::context::{CudaContext, lock};
use super::driver::{Check, failure};
use super::graph::{Uses, is_recording};
use super::memory::CudaMemory;
use crate::backend::Queue;
use crate::error::Error;
use cust::stream::{Stream, StreamFlags};
use cust::sys::CUstream;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::ThreadId;

/// A stream with a number of its own: the driver may give a new stream a destroyed one's handle,
/// and work of the old one may still run.
#[derive(Debug)]
pub(super) struct CudaStream {
    stream: Stream,
    id: u64,
}

impl CudaStream {
    /// A new stream of the current context, which waits for what was put into the legacy default
    /// stream before, as that does for it: whoever has an address from elsewhere may have written
    /// there by that stream, as cust's `DeviceBuffer` does.
    pub(super) fn new(name: &str) -> Result<Self, Error> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let stream = Stream::new(StreamFlags::DEFAULT, None)
            .check("cuStreamCreateWithPriority", || format!("making a stream on {name}"))?;
        Ok(CudaStream { stream, id: NEXT.fetch_add(1, Ordering::Relaxed) })
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    pub(super) fn raw(&self) -> CUstream {
        self.stream.as_inner()
    }

    /// Waits for all that was enqueued. The context is current.
    pub(super) fn synchronize(&self, name: &str) -> Result<(), Error> {
        self.stream
            .synchronize()
            .map_err(|_| failure("cuStreamSynchronize", format!("work on {name}")))
    }
}

/// A user's stream.
#[derive(Debug)]
pub(super) struct CudaQueue {
    stream: ManuallyDrop<CudaStream>,
    /// Held from a launch until its marks are kept: of two threads that enqueue at a time, the one
    /// that launches later must also mark later.
    order: Mutex<()>,
    /// The thread that records, and what it has recorded so far.
    recording: Mutex<Option<(ThreadId, Uses)>>,
    context: Arc<CudaContext>,
}

impl CudaQueue {
    pub(super) fn new(context: &Arc<CudaContext>) -> Result<Self, Error> {
        let _current = context.make_current()?;
        let stream = ManuallyDrop::new(CudaStream::new(context.name())?);
        let (order, recording) = (Mutex::default(), Mutex::default());
        Ok(CudaQueue { stream, order, recording, context: Arc::clone(context) })
    }

    /// The stream, for work that leaves marks behind, until the guard goes.
    pub(super) fn in_order(&self) -> (&CudaStream, MutexGuard<'_, ()>) {
        (&self.stream, lock(&self.order))
    }

    /// Begins to record on the stream; an error where that is done already.
    pub(super) fn begin_recording(&self) -> Result<&CudaStream, Error> {
        let _order = lock(&self.order);
        let mut recording = lock(&self.recording);
        if recording.is_some() {
            return Err(is_recording());
        }
        *recording = Some((std::thread::current().id(), Uses::default()));
        Ok(&self.stream)
    }

    /// Ends recording, and tells what the work uses.
    pub(super) fn end_recording(&self) -> Uses {
        lock(&self.recording).take().map_or_else(Uses::default, |(_, uses)| uses)
    }

    /// Adds work to what is recorded: whether it was; an error where another thread records.
    pub(super) fn add_uses(
        &self,
        read: &[&CudaMemory],
        written: &[&CudaMemory],
    ) -> Result<bool, Error> {
        let mut recording = lock(&self.recording);
        let Some((thread, uses)) = &mut *recording else { return Ok(false) };
        if *thread != std::thread::current().id() {
            return Err(is_recording());
        }
        uses.read.extend(read.iter().map(|&memory| memory.clone()));
        uses.written.extend(written.iter().map(|&memory| memory.clone()));
        Ok(true)
    }

    pub(super) fn belongs_to(&self, context: &Arc<CudaContext>) -> bool {
        Arc::ptr_eq(&self.context, context)
    }
}

impl Queue for CudaQueue {
    fn synchronize(&self) -> Result<(), Error> {
        // It would break what is being recorded; one that begins meanwhile ends with an error.
        if lock(&self.recording).is_some() {
            return Err(is_recording());
        }
        let _current = self.context.make_current()?;
        self.stream.synchronize(self.context.name())
    }
}

impl Drop for CudaQueue {
    fn drop(&mut self) {
        let _current = self.context.make_current();
        // SAFETY: dropped once, here. The driver lets work that is under way finish.
        unsafe { ManuallyDrop::drop(&mut self.stream) };
    }
}
