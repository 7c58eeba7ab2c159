//! Arrays of ndarray, in place and with any strides.
//!
//!     cargo run --release -p gemmite --features ndarray --example ndarray

use gemmite::{Device, Gemm, matmul};
use ndarray::{Array2, s};

fn main() -> Result<(), gemmite::Error> {
    let device = Device::best();
    println!("device: {device}");

    let data = Array2::from_shape_fn((6, 8), |(i, j)| (i * 8 + j) as f64);

    // Every other row, times the transpose of columns 2 to 4: nothing is copied on the host's side
    // of the call.
    let (left, right) = (data.slice(s![..;2, ..6]), data.slice(s![.., 2..5]));
    let product: Array2<f64> = matmul(&device, &left, &right)?.into();
    println!("{product}");
    assert_eq!(product, left.dot(&right));

    // Into a part of an array, whose other elements stay.
    let mut board = Array2::from_elem((3, 6), -1.0);
    let mut part = board.slice_mut(s![.., 1..4]);
    Gemm::new().run_into(&device, &left, &right, &mut part)?;
    println!("{board}");
    assert_eq!(board.slice(s![.., 1..4]), product);
    assert!(board.slice(s![.., 4..]).iter().all(|&x| x == -1.0));
    Ok(())
}
