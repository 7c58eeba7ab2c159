//! Recorded work, which a GPU repeats in one call.

use crate::backend::{Backend, Recording};
use crate::device::Stream;
use crate::error::{Error, Kind};
use std::fmt;
use std::sync::Arc;

/// Products that were recorded once ([`Stream::record`]) and are repeated in one call: a CUDA
/// graph. Its launches cost the host nothing but that call, and the GPU less than launches do that
/// come one by one.
///
/// It repeats the same products on the memory that the matrices had, whatever that holds by then,
/// and keeps it until it is dropped itself. [`DeviceMatrix::write`](crate::DeviceMatrix::write)
/// gives a matrix other memory only where the layouts differ.
///
/// What its products take besides, for copies of operands and for sums of parts of K, the driver
/// keeps from run to run for all graphs of the device; it is given back when the last is dropped.
///
/// ```no_run
/// use gemmite::{Device, Gemm, Matrix, Shape};
/// let device = Device::cuda(0)?;
/// let a: Matrix<f32> = Matrix::zeros(Shape::new(512, 512))?;
/// let (a, mut b, mut c) = (device.upload(&a)?, device.upload(&a)?, device.upload(&a)?);
/// let stream = device.stream()?;
/// let graph = stream.record(|stream| {
///     Gemm::new().enqueue(stream, &a, &b, &mut c)?;
///     Gemm::new().enqueue(stream, &a, &c, &mut b)
/// })?;
/// for _ in 0..1000 {
///     graph.enqueue(&stream)?;
/// }
/// stream.synchronize()?;
/// # Ok::<(), gemmite::Error>(())
/// ```
pub struct Graph {
    recording: Box<dyn Recording>,
    backend: Arc<dyn Backend>,
}

impl Graph {
    /// Enqueues the recorded work on a stream and returns. The order of calls is kept for each
    /// matrix as by [`Gemm::enqueue`](crate::Gemm::enqueue); a graph that runs is waited for by the
    /// next call, on whatever stream.
    ///
    /// # Errors
    /// When the stream is another device's, another thread records on it
    /// ([`Error::is_recording`]), or the driver refuses the launch. A fault while it runs shows
    /// where it is waited for.
    pub fn enqueue(&self, stream: &Stream) -> Result<(), Error> {
        if self.backend.info().kind != stream.backend.info().kind {
            let expected = self.backend.info().name.clone();
            return Err(Error::new(Kind::ForeignStream { expected }));
        }
        self.recording.enqueue(&*stream.queue)
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Graph").field("recording", &self.recording).finish()
    }
}

impl Stream {
    /// Records what `work` enqueues on this stream, which runs when the graph is enqueued and not
    /// before. What `work` does beside, as uploads and blocking products, is done at once. Nobody
    /// in the process may use the legacy default stream meanwhile, as cust's `DeviceBuffer` does
    /// to copy: the driver refuses it.
    ///
    /// # Errors
    /// Those of `work`; when the device is no CUDA device ([`Error::is_device_mismatch`]), this
    /// thread or another is recording on the stream ([`Error::is_recording`]), or the driver cannot
    /// make a graph.
    pub fn record(&self, work: impl FnOnce(&Stream) -> Result<(), Error>) -> Result<Graph, Error> {
        let mut work = Some(work);
        let recording = self.backend.record(&*self.queue, &mut || match work.take() {
            Some(work) => work(self),
            None => Ok(()),
        })?;
        Ok(Graph { recording, backend: Arc::clone(&self.backend) })
    }
}

#[cfg(test)]
mod tests {
    use crate::{Device, Graph};

    #[test]
    fn graphs_go_between_threads_and_are_for_cuda_devices() {
        fn goes<T: Send + Sync>() {}
        goes::<Graph>();
        for device in [Device::cpu(), Device::emulator((9, 0)).unwrap()] {
            let error = device.stream().unwrap().record(|_| panic!("not called")).unwrap_err();
            assert!(error.is_device_mismatch(), "{error}");
        }
    }
}
