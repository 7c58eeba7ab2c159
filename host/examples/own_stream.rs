//! For those who work with cust already: buffers and a stream of their own.
//!
//!     cargo run --release -p gemmite --example own_stream
//!
//! Without a GPU it says so and ends.

use gemmite::cuda::cust::context::Context;
use gemmite::cuda::cust::device::Device as CustDevice;
use gemmite::cuda::cust::memory::{CopyDestination, DeviceBuffer};
use gemmite::cuda::cust::stream::{Stream, StreamFlags};
use gemmite::cuda::{RawOperands, Reads};
use gemmite::{Device, Gemm, Layout, Shape};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = match Device::cuda(0) {
        Ok(device) => device,
        Err(error) if error.is_no_device() => {
            println!("{error}");
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };

    // The device's primary context: the library uses the same one.
    let _context = Context::new(CustDevice::get_device(0)?)?;
    let stream = Stream::new(StreamFlags::DEFAULT, None)?;

    let (m, n, k) = (3, 2, 4);
    let a = DeviceBuffer::from_slice(&[1.0f32; 12])?;
    let b = DeviceBuffer::from_slice(&[2.0f32; 8])?;
    let c = DeviceBuffer::from_slice(&[0.0f32; 6])?;
    let operands = RawOperands {
        a: a.as_device_ptr().as_raw(),
        a_layout: Layout::row_major(Shape::new(m, k)),
        b: b.as_device_ptr().as_raw(),
        b_layout: Layout::col_major(Shape::new(k, n)),
        c: c.as_device_ptr().as_raw(),
        c_layout: Layout::row_major(Shape::new(m, n)),
        // Nothing that was enqueued before writes to A or B.
        reads: Reads::AtOnce,
    };
    // SAFETY: the buffers are of the device's primary context and hold their layouts, C is apart
    // from A and B, and all of them stay until the stream is done.
    unsafe { Gemm::<f32>::new().enqueue_raw(&device, &stream, operands)? };
    stream.synchronize()?;

    let mut result = [0.0f32; 6];
    c.copy_to(&mut result)?;
    println!("C = {result:?}");
    assert_eq!(result, [8.0; 6]);
    Ok(())
}
