//! Streams: work in order.

use super::context::{CudaContext, lock};
use super::driver::{Check, failure};
use crate::backend::Queue;
use crate::error::Error;
use cust::stream::{Stream, StreamFlags};
use cust::sys::CUstream;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// A stream with a number of its own: the driver may give a new stream a destroyed one's handle,
/// and work of the old one may still run.
#[derive(Debug)]
pub(super) struct CudaStream {
    stream: Stream,
    id: u64,
}

impl CudaStream {
    /// A new stream of the current context.
    pub(super) fn new(name: &str) -> Result<Self, Error> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let stream = Stream::new(StreamFlags::NON_BLOCKING, None)
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
    context: Arc<CudaContext>,
}

impl CudaQueue {
    pub(super) fn new(context: &Arc<CudaContext>) -> Result<Self, Error> {
        let _current = context.make_current()?;
        let stream = ManuallyDrop::new(CudaStream::new(context.name())?);
        Ok(CudaQueue { stream, order: Mutex::default(), context: Arc::clone(context) })
    }

    /// The stream, for work that leaves marks behind, until the guard goes.
    pub(super) fn in_order(&self) -> (&CudaStream, MutexGuard<'_, ()>) {
        (&self.stream, lock(&self.order))
    }

    pub(super) fn belongs_to(&self, context: &Arc<CudaContext>) -> bool {
        Arc::ptr_eq(&self.context, context)
    }
}

impl Queue for CudaQueue {
    fn synchronize(&self) -> Result<(), Error> {
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
