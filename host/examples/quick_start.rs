//! The shortest way: two matrices, the best device, the product, checked.
//!
//!     cargo run --release -p gemmite --example quick_start

use gemmite::verify::{self, Problem, Rows};
use gemmite::{Device, Gemm, Matrix, Op, Shape, matmul, random};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::best();
    println!("device: {device}");

    let a: Matrix<f32> = random::normal(Shape::new(500, 300), 1)?;
    let b: Matrix<f32> = random::normal(Shape::new(300, 400), 2)?;
    let c = matmul(&device, &a, &b)?;
    println!("A {} * B {} = C {}", a.shape(), b.shape(), c.shape());

    let problem = Problem::product(a.view(), b.view());
    let exactness = verify::check(&problem, c.view(), Rows::All)?;
    println!("largest error, as a part of its bound: {:.3}", exactness.max_err_over_bound);

    // G = 0.5 * A^T * A + 2 * G
    let mut gram = Matrix::zeros(Shape::new(300, 300))?;
    Gemm::new().op_a(Op::Transpose).alpha(0.5).beta(2.0).run_into(&device, &a, &a, &mut gram)?;
    println!("G(0, 0) = {}", gram[(0, 0)]);
    Ok(())
}
