//! Data that stays on the device: a power iteration, whose products never leave it.
//!
//!     cargo run --release -p gemmite --example device_data

use gemmite::{Device, Gemm, Matrix, Op, Shape, random};

/// Rows and columns of the matrix.
const N: usize = 400;

fn main() -> Result<(), gemmite::Error> {
    let device = Device::best();
    println!("device: {device}");

    // S = X^T * X / N has no negative eigenvalues; the largest of them is about 4.
    let x = device.upload(&random::normal::<f64>(Shape::new(N, N), 1)?)?;
    let mut s = device.uninit(Shape::new(N, N))?;
    Gemm::new().op_a(Op::Transpose).alpha(1.0 / N as f64).run_device(&x, &x, &mut s)?;

    // Two vectors take turns. Each call returns at once; the stream keeps their order.
    let stream = device.stream()?;
    let mut v = device.upload(&Matrix::from_fn(Shape::new(N, 1), |_, _| 1.0)?)?;
    let mut w = device.uninit(Shape::new(N, 1))?;
    let shrink = Gemm::new().alpha(0.25); // keeps the vector's length in range
    for _ in 0..200 {
        shrink.enqueue(&stream, &s, &v, &mut w)?;
        std::mem::swap(&mut v, &mut w);
    }

    // The Rayleigh quotient v^T * S * v / (v^T * v).
    let mut sv = device.uninit(Shape::new(N, 1))?;
    let (mut top, mut bottom) =
        (device.uninit(Shape::new(1, 1))?, device.uninit(Shape::new(1, 1))?);
    let dot = Gemm::new().op_a(Op::Transpose);
    Gemm::new().enqueue(&stream, &s, &v, &mut sv)?;
    dot.enqueue(&stream, &v, &sv, &mut top)?;
    dot.enqueue(&stream, &v, &v, &mut bottom)?;

    // Only here does anything come back.
    let eigenvalue = top.download()?[(0, 0)] / bottom.download()?[(0, 0)];
    println!("largest eigenvalue of X^T * X / {N}: {eigenvalue:.6}");
    Ok(())
}
