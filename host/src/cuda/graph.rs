//! CUDA graphs (CUDA C++ Programming Guide, "CUDA Graphs"): work of a stream, recorded and
//! launched again.

use super::backend::on_queue;
use super::context::{CudaContext, lock};
use super::driver::Check;
use super::memory::CudaMemory;
use super::stream::{CudaQueue, CudaStream};
use crate::backend::{Queue, Recording};
use crate::error::{Error, Kind};
use cust::sys;
use std::ffi::c_int;
use std::sync::{Arc, Mutex};

/// The memory that recorded work reads and writes.
#[derive(Debug, Default)]
pub(super) struct Uses {
    pub read: Vec<CudaMemory>,
    pub written: Vec<CudaMemory>,
}

/// A graph that can be launched.
#[derive(Debug)]
struct CudaGraph {
    /// One launch at a time: the driver's graphs are not synchronised.
    executable: Mutex<Executable>,
    uses: Uses,
    counted: Counted,
}

#[derive(Debug)]
struct Executable(sys::CUgraphExec);

// SAFETY: the driver's functions on graphs may be called from any thread, one at a time.
unsafe impl Send for Executable {}

/// Records what `work` enqueues on the queue. The context is current.
pub(super) fn record(
    queue: &CudaQueue,
    context: &Arc<CudaContext>,
    work: &mut dyn FnMut() -> Result<(), Error>,
) -> Result<Box<dyn Recording>, Error> {
    let name = || format!("recording on {}", context.name());
    // Before the work: once that has given its matrices back, what others enqueue on them has to
    // leave marks, which the graph waits for.
    let counted = Counted::new(context);
    let mut capture = Capture::begin(queue, context)?;
    work()?;
    let uses = capture.end()?;
    let mut executable = std::ptr::null_mut();
    // SAFETY: the graph is whole; `executable` may be written to.
    unsafe { sys::cuGraphInstantiateWithFlags(&mut executable, capture.graph, 0) }
        .check("cuGraphInstantiateWithFlags", name)?;
    let executable = Mutex::new(Executable(executable));
    Ok(Box::new(CudaGraph { executable, uses, counted }))
}

/// A graph, or one that is being recorded, as its context counts them.
#[derive(Debug)]
struct Counted(Arc<CudaContext>);

impl Counted {
    fn new(context: &Arc<CudaContext>) -> Self {
        context.add_graph();
        Counted(Arc::clone(context))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let _current = self.0.make_current();
        // Not for every graph: the others would have to get their memory anew.
        if self.0.remove_graph() {
            give_back_memory();
        }
    }
}

/// Work that is being recorded, until this is dropped, and then the graph that it became.
struct Capture<'a> {
    queue: &'a CudaQueue,
    stream: &'a CudaStream,
    context: &'a CudaContext,
    is_open: bool,
    /// Until the queue has been told of the end: another thread may record on it from then on.
    is_recording: bool,
    graph: sys::CUgraph,
}

impl<'a> Capture<'a> {
    fn begin(queue: &'a CudaQueue, context: &'a CudaContext) -> Result<Self, Error> {
        let stream = queue.begin_recording()?;
        let graph = std::ptr::null_mut();
        let (is_open, is_recording) = (false, true);
        let mut capture = Capture { queue, stream, context, is_open, is_recording, graph };
        // Loading code and allocating memory shall be possible meanwhile.
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the stream is alive and of this context.
        unsafe { sys::cuStreamBeginCapture_v2(stream.raw(), mode) }
            .check("cuStreamBeginCapture", || format!("recording on {}", context.name()))?;
        capture.is_open = true;
        Ok(capture)
    }

    /// Ends it; the graph is whole then. Tells what the work uses, each once.
    fn end(&mut self) -> Result<Uses, Error> {
        self.is_open = false;
        // SAFETY: it was begun on this stream; the graph may be written to.
        unsafe { sys::cuStreamEndCapture(self.stream.raw(), &mut self.graph) }
            .check("cuStreamEndCapture", || format!("recording on {}", self.context.name()))?;
        self.is_recording = false;
        let mut uses = self.queue.end_recording();
        for memory in [&mut uses.read, &mut uses.written] {
            memory.sort_by_key(CudaMemory::address);
            memory.dedup_by_key(|memory| memory.address());
        }
        Ok(uses)
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        if self.is_open {
            // SAFETY: as in `end`. Who has failed says why.
            let _ = unsafe { sys::cuStreamEndCapture(self.stream.raw(), &mut self.graph) };
        }
        if self.is_recording {
            self.queue.end_recording();
        }
        if !self.graph.is_null() {
            // SAFETY: it is destroyed once, and what was made of it lives on.
            let _ = unsafe { sys::cuGraphDestroy(self.graph) };
        }
    }
}

impl Recording for CudaGraph {
    fn enqueue(&self, queue: &dyn Queue) -> Result<(), Error> {
        let context = &self.counted.0;
        let _current = context.make_current()?;
        let (read, written): (Vec<_>, Vec<_>) =
            (self.uses.read.iter().collect(), self.uses.written.iter().collect());
        on_queue(context, queue, (&read, &written), true, |stream| {
            let executable = lock(&self.executable);
            // SAFETY: graph and stream are alive and of this context; its memory is kept by `uses`,
            // and the stream waits for the work on it.
            unsafe { sys::cuGraphLaunch(executable.0, stream.raw()) }
                .check("cuGraphLaunch", || context.name().to_string())
        })
    }
}

impl Drop for CudaGraph {
    fn drop(&mut self) {
        let _current = self.counted.0.make_current();
        // SAFETY: it is destroyed once; launches that run end first, which the driver sees to.
        let _ = unsafe { sys::cuGraphExecDestroy(lock(&self.executable).0) };
    }
}

/// What work allocates while it is recorded is the graph's, and stays with the driver when that is
/// gone (CUDA Programming Guide, "Physical Memory Footprint"); drivers of CUDA 11.4 and later give
/// it back here. The context is current.
fn give_back_memory() {
    type Trim = unsafe extern "C" fn(sys::CUdevice) -> c_int;
    let Some(address) = cuda_driver_loader::symbol(c"cuDeviceGraphMemTrim") else { return };
    // SAFETY: the address is that of the function, whose type is the one in cuda.h.
    let trim = unsafe { std::mem::transmute::<*const (), Trim>(address) };
    let mut device = 0;
    // SAFETY: `device` may be written to. Nothing is lost where it fails.
    let result = unsafe { sys::cuCtxGetDevice(&mut device) };
    if result == sys::CUresult::CUDA_SUCCESS {
        // SAFETY: the device is one of the driver's. What running graphs use stays.
        let _ = unsafe { trim(device) };
    }
}

/// An error where the queue is being recorded on.
pub(super) fn is_recording() -> Error {
    Error::new(Kind::Recording)
}
