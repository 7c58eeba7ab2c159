//! What a call promises, on the CPU; the case table in `tests/` has every device.

use super::*;
use crate::{DType, KernelChoice, Shape, Strides, random};

fn filled(shape: (usize, usize), value: f32) -> Matrix<f32> {
    Matrix::from_fn(Shape::new(shape.0, shape.1), |_, _| value).unwrap()
}

#[test]
fn c_is_not_read_without_beta() {
    let (a, b) = (filled((3, 4), 1.0), filled((4, 2), 2.0));
    let mut c = filled((3, 2), f32::NAN);
    Gemm::new().run_into(&Device::cpu(), &a, &b, &mut c).unwrap();
    assert!(c.as_slice().iter().all(|&x| x == 8.0));

    let mut c = filled((3, 2), f32::NAN);
    Gemm::new().beta(0.0).run_into(&Device::cpu(), &a, &b, &mut c).unwrap();
    assert!(c.as_slice().iter().all(|&x| x == 8.0));

    let mut c = filled((3, 2), f32::NAN);
    Gemm::new().beta(1.0).run_into(&Device::cpu(), &a, &b, &mut c).unwrap();
    assert!(c.as_slice().iter().all(|x| x.is_nan()));
}

#[test]
fn a_and_b_are_not_read_with_an_alpha_of_zero() {
    let (a, b) = (filled((3, 4), f32::NAN), filled((4, 2), f32::INFINITY));
    let mut c = filled((3, 2), 5.0);
    Gemm::new().alpha(0.0).beta(2.0).run_into(&Device::cpu(), &a, &b, &mut c).unwrap();
    assert!(c.as_slice().iter().all(|&x| x == 10.0));
    let c = Gemm::new().alpha(0.0).run(&Device::cpu(), &a, &b).unwrap();
    assert!(c.as_slice().iter().all(|&x| x == 0.0));
}

#[test]
fn empty_products_are_defined() {
    let (a, b) = (filled((3, 0), 1.0), filled((0, 2), 1.0));
    let mut c = filled((3, 2), 7.0);
    let gemm = Gemm::new().alpha(f32::INFINITY);
    gemm.clone().beta(3.0).run_into(&Device::cpu(), &a, &b, &mut c).unwrap();
    assert!(c.as_slice().iter().all(|&x| x == 21.0));
    assert_eq!(gemm.run(&Device::cpu(), &a, &b).unwrap(), filled((3, 2), 0.0));
    let none = matmul(&Device::cpu(), &filled((0, 4), 1.0), &filled((4, 2), 1.0)).unwrap();
    assert_eq!(none.shape(), Shape::new(0, 2));
    // Nothing here may take time in proportion to the longer extent.
    let tall = Matrix::<f64>::zeros(Shape::new(usize::MAX, 0)).unwrap();
    let wide = Matrix::<f64>::zeros(Shape::new(0, 0)).unwrap();
    assert!(matmul(&Device::cpu(), &tall, &wide).unwrap().as_slice().is_empty());
}

#[test]
fn misuse_is_an_error() {
    let cpu = Device::cpu();
    let (a, b) = (filled((3, 4), 1.0), filled((3, 2), 1.0));
    assert!(matmul(&cpu, &a, &b).unwrap_err().is_shape());
    assert!(Gemm::new().op_a(Op::Transpose).run(&cpu, &a, &b).is_ok());
    let error = Gemm::new().run_into(&cpu, &a, a.t(), &mut filled((3, 2), 0.0)).unwrap_err();
    assert!(error.is_shape() && error.to_string().contains("3x3"), "{error}");
    assert!(Gemm::new().beta(1.0).run(&cpu, &a, a.t()).unwrap_err().is_shape());
    let named = Gemm::new().kernel("k02_tiled_16").run(&cpu, &a, a.t()).unwrap_err();
    assert!(named.is_unsupported(), "{named}");
}

#[test]
fn data_stays_on_the_device() {
    let cpu = Device::cpu();
    let (a, b) = (random::normal::<f64>(Shape::new(5, 7), 1), random::normal(Shape::new(3, 7), 2));
    let (a, b) = (a.unwrap(), b.unwrap());
    let (device_a, device_b) = (cpu.upload(&a).unwrap(), cpu.upload(b.t()).unwrap());
    assert_eq!(device_b.layout().strides, Strides::new(1, 7));
    assert_eq!(device_b.download().unwrap(), b.t().to_matrix().unwrap());
    let mut device_c = cpu.uninit(Shape::new(5, 3)).unwrap();
    let stream = cpu.stream().unwrap();
    Gemm::new().enqueue(&stream, &device_a, &device_b, &mut device_c).unwrap();
    stream.synchronize().unwrap();
    let expected = matmul(&cpu, &a, b.t()).unwrap();
    assert_eq!(device_c.download().unwrap(), expected);
    Gemm::new().beta(-1.0).run_device(&device_a, &device_b, &mut device_c).unwrap();
    assert_eq!(device_c.download().unwrap(), Matrix::zeros(Shape::new(5, 3)).unwrap());
}

#[test]
fn the_plan_of_the_cpu_is_its_engine() {
    let layout = Layout::row_major(Shape::new(4, 4));
    let info = Device::cpu().info().clone();
    let plan = Gemm::<f32>::new().plan(&info, layout, layout).unwrap();
    assert_eq!((plan.kernel, plan.to_string()), (None, "CPU engine".to_string()));
    let choice = KernelChoice::Named("k02_tiled_8".into());
    assert!(Gemm::<f32>::new().kernel(choice).plan(&info, layout, layout).is_err());
    assert_eq!(f32::DTYPE, DType::F32);
}

#[test]
fn factors_are_rounded_to_those_of_another_c() {
    let one = Matrix::from_fn(Shape::new(1, 1), |_, _| 1i8).unwrap();
    for (alpha, expected) in [(0.75, 1), (2.5, 2), (-1.5, -2), (1e12, i32::MAX)] {
        let gemm = Gemm::<i8>::new().output::<f32>().alpha(alpha).output::<i32>();
        assert_eq!(gemm.run(&Device::cpu(), &one, &one).unwrap().as_slice(), [expected]);
    }
}
