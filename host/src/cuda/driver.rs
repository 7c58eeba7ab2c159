//! Driver calls: their errors in the library's words, the current context, events.

use super::context::CudaContext;
use crate::error::{DriverCode, Error, Kind};
use cust::error::CudaResult;
use cust::sys::{self, CUresult};
use std::sync::Arc;

/// `CUDA_ERROR_OUT_OF_MEMORY`
pub(super) const OUT_OF_MEMORY: i32 = 2;

/// What this thread's last failed call answered.
pub(super) fn last_failure(call: &'static str) -> DriverCode {
    let code = cuda_driver_loader::last_error();
    let (name, text) = cuda_driver_loader::describe(code);
    DriverCode { call, code, name, text }
}

/// The error of this thread's last failed call; `context` says what was being done.
pub(super) fn failure(call: &'static str, context: impl Into<String>) -> Error {
    Error::new(Kind::Driver { context: context.into(), driver: last_failure(call) })
}

/// The driver's answer as a result.
pub(super) trait Check {
    type Value;

    /// An error that names the call and what it was for.
    fn check(
        self,
        call: &'static str,
        context: impl FnOnce() -> String,
    ) -> Result<Self::Value, Error>;
}

impl Check for CUresult {
    type Value = ();

    fn check(self, call: &'static str, context: impl FnOnce() -> String) -> Result<(), Error> {
        match self {
            CUresult::CUDA_SUCCESS => Ok(()),
            _ => Err(failure(call, context())),
        }
    }
}

impl<T> Check for CudaResult<T> {
    type Value = T;

    fn check(self, call: &'static str, context: impl FnOnce() -> String) -> Result<T, Error> {
        // cust folds many codes into one; the loader has kept the driver's.
        self.map_err(|_| failure(call, context()))
    }
}

/// A context that is current on this thread until the guard is dropped; what was current before is
/// again then.
#[derive(Debug)]
pub(super) struct Current {
    // A context is current on a thread, so the guard stays on it.
    thread: std::marker::PhantomData<*const ()>,
}

impl Current {
    pub(super) fn new(context: &cust::context::Context, name: &str) -> Result<Self, Error> {
        // SAFETY: the context is retained while `context` is borrowed, and the guard ends before
        // the borrower lets it go: it lives in a function that holds the context.
        unsafe { sys::cuCtxPushCurrent_v2(context.as_raw()) }
            .check("cuCtxPushCurrent", || name.to_string())?;
        Ok(Current { thread: std::marker::PhantomData })
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        let mut popped = std::ptr::null_mut();
        // SAFETY: pops what `new` pushed. An error would say that the context is lost, which the
        // next call says too.
        let _ = unsafe { sys::cuCtxPopCurrent_v2(&mut popped) };
    }
}

/// A point in a stream's work.
///
/// Raw, because cust's `Stream::wait_event` takes its `Event` by value and so destroys it.
#[derive(Debug)]
pub(super) struct Event {
    raw: sys::CUevent,
    context: Arc<CudaContext>,
}

// SAFETY: the driver's functions on events may be called from any thread.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    /// The point after what was enqueued on `stream` so far. The context is current.
    pub(super) fn record(context: &Arc<CudaContext>, stream: sys::CUstream) -> Result<Self, Error> {
        const DISABLE_TIMING: u32 = 2;
        let name = || context.name().to_string();
        let mut raw = std::ptr::null_mut();
        // SAFETY: `raw` may be written to.
        unsafe { sys::cuEventCreate(&mut raw, DISABLE_TIMING) }.check("cuEventCreate", name)?;
        let event = Event { raw, context: Arc::clone(context) };
        // SAFETY: event and stream are alive and of this context.
        unsafe { sys::cuEventRecord(event.raw, stream) }.check("cuEventRecord", name)?;
        Ok(event)
    }

    /// Makes `stream`'s further work wait for this point. The context is current.
    pub(super) fn block(&self, stream: sys::CUstream) -> Result<(), Error> {
        // SAFETY: event and stream are alive and of this context.
        unsafe { sys::cuStreamWaitEvent(stream, self.raw, 0) }
            .check("cuStreamWaitEvent", || self.context.name().to_string())
    }

    /// Whether the work has got past this point. The context is current.
    pub(super) fn is_past(&self) -> bool {
        // Of another thread's capture the call is none of a driver's business, and it is harmless.
        let mut mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the event is alive; the thread's mode is exchanged for another one and back.
        unsafe {
            let exchanged = sys::cuThreadExchangeStreamCaptureMode(&mut mode);
            let is_past = sys::cuEventQuery(self.raw) == CUresult::CUDA_SUCCESS;
            if exchanged == CUresult::CUDA_SUCCESS {
                let _ = sys::cuThreadExchangeStreamCaptureMode(&mut mode);
            }
            is_past
        }
    }

    /// Waits for this point. A lost context counts as waited for: nothing runs in it any more.
    pub(super) fn wait(&self) {
        // SAFETY: the event is alive.
        let _ = unsafe { sys::cuEventSynchronize(self.raw) };
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let _current = self.context.make_current();
        // SAFETY: nothing uses the event after this; the driver keeps it for streams that still
        // wait for it.
        let _ = unsafe { sys::cuEventDestroy_v2(self.raw) };
    }
}
