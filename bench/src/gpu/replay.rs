//! Work that a stream records once and repeats: a CUDA graph of several runs.

use anyhow::{Result, ensure};
use cust::stream::Stream;
use cust::sys::{self, CUresult};

/// Recorded work.
pub struct Replay(sys::CUgraphExec);

impl Replay {
    /// Records what `enqueue` puts on the stream.
    pub fn record(stream: &Stream, enqueue: impl FnOnce(&Stream) -> Result<()>) -> Result<Replay> {
        // Whoever enqueues may load code and allocate memory meanwhile.
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the stream is alive.
        check(unsafe { sys::cuStreamBeginCapture_v2(stream.as_inner(), mode) })?;
        let done = enqueue(stream);
        let mut graph = std::ptr::null_mut();
        // SAFETY: it was begun above; the graph may be written to.
        let ended = check(unsafe { sys::cuStreamEndCapture(stream.as_inner(), &mut graph) });
        let mut executable = std::ptr::null_mut();
        let made = done.and(ended).and_then(|()| {
            // SAFETY: the graph is whole; the executable one may be written to.
            check(unsafe { sys::cuGraphInstantiateWithFlags(&mut executable, graph, 0) })
        });
        if !graph.is_null() {
            // SAFETY: it is destroyed once; what was made of it lives on.
            let _ = unsafe { sys::cuGraphDestroy(graph) };
        }
        made.map(|()| Replay(executable))
    }

    /// Enqueues all of it.
    pub fn enqueue(&self, stream: &Stream) -> Result<()> {
        // SAFETY: graph and stream are alive; whoever recorded it sees to the memory.
        check(unsafe { sys::cuGraphLaunch(self.0, stream.as_inner()) })
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        // SAFETY: it is destroyed once; samples have been waited for.
        let _ = unsafe { sys::cuGraphExecDestroy(self.0) };
    }
}

fn check(result: CUresult) -> Result<()> {
    ensure!(result == CUresult::CUDA_SUCCESS, "the driver answers {result:?} to a CUDA graph");
    Ok(())
}
