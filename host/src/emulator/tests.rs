//! The library's rules on emulated GPUs.

use super::Options;
use crate::{
    Device, DeviceKind, Gemm, Layout, Matrix, MatrixMut, MatrixRef, Shape, Strides, random,
};

fn integers(rows: usize, cols: usize, seed: u64) -> Matrix<f32> {
    random::integers(Shape::new(rows, cols), seed, -9..=9).unwrap()
}

#[test]
fn products_are_those_of_the_cpu() {
    let (a, b) = (integers(33, 20, 1), integers(20, 47, 2));
    let gpu = Device::emulator((7, 0)).unwrap();
    let expected = Gemm::new().alpha(2.0).run(&Device::cpu(), &a, &b).unwrap();
    for kernel in ["auto", "k01_naive", "k02_tiled_16_uncoalesced"] {
        let gemm = Gemm::new().alpha(2.0).kernel(kernel);
        assert_eq!(gemm.run(&gpu, &a, &b).unwrap(), expected, "{kernel}");
    }
    // On matrices of the device, in order on a stream.
    let (on_a, on_b) = (gpu.upload(&a).unwrap(), gpu.upload(&b).unwrap());
    let mut on_c = gpu.uninit(expected.shape()).unwrap();
    let stream = gpu.stream().unwrap();
    let gemm = Gemm::new().alpha(2.0);
    gemm.enqueue(&stream, &on_a, &on_b, &mut on_c).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(on_c.download().unwrap(), expected);
    let zeros = gpu.zeros::<f32>(Shape::new(40, 50)).unwrap().download().unwrap();
    assert!(zeros.as_slice().iter().all(|&x| x == 0.0));
}

#[test]
fn only_elements_of_c_are_written() {
    let (a, b) = (integers(5, 6, 1), integers(6, 4, 2));
    let gpu = Device::emulator((8, 0)).unwrap();
    let layout = Layout { shape: Shape::new(5, 4), strides: Strides::new(-9, 2), offset: 40 };
    let mut c = vec![0.5f32; 50];
    let gemm = Gemm::new().beta(2.0);
    gemm.run_into(&gpu, &a, &b, MatrixMut::new(&mut c, layout).unwrap()).unwrap();
    let product = Gemm::new().run(&Device::cpu(), &a, &b).unwrap();
    let written = MatrixRef::new(&c, layout).unwrap().to_matrix().unwrap();
    for (found, product) in written.as_slice().iter().zip(product.as_slice()) {
        assert_eq!(*found, product + 1.0);
    }
    assert_eq!(c.iter().filter(|&&x| x == 0.5).count(), 50 - 20);
}

#[test]
fn plans_are_those_of_a_gpu() {
    let layout = Layout::row_major(Shape::new(4096, 4096));
    let plan = |arch| {
        let gpu = Device::emulator(arch).unwrap();
        Gemm::<crate::bf16>::new().plan(gpu.info(), layout, layout).unwrap().to_string()
    };
    assert_eq!(plan((7, 5)), "k07_warp_tile_bf16, grid 32x32 of 256x1 threads");
    assert_eq!(plan((8, 0)), "k11_tensor_core_bf16, grid 16x32 of 256x1 threads");
    assert_eq!(plan((9, 0)), "warp_group_128x256_nn_bf16, grid 132x1 of 384x1 threads");
}

#[test]
fn each_is_a_device_of_its_own() {
    let options = Options { multiprocessors: Some(4), checks: false, ..Options::default() };
    let (one, two) = (Device::emulator((9, 0)).unwrap(), Device::emulator_with(&options).unwrap());
    assert!(one == one.clone() && one != two);
    assert!(matches!(one.info().kind, DeviceKind::Emulator { arch: (9, 0), .. }));
    assert_eq!(two.info().multiprocessors, Some(4));
    let a = integers(3, 3, 1);
    let on = |device: &Device| device.upload(&a).unwrap();
    let mut c = on(&one);
    let error = Gemm::new().run_device(&on(&one), &on(&two), &mut c).unwrap_err();
    assert!(error.is_device_mismatch(), "{error}");
    let stream = two.stream().unwrap();
    let error = Gemm::new().enqueue(&stream, &on(&one), &on(&one), &mut c).unwrap_err();
    assert!(error.is_device_mismatch(), "{error}");
    let error = Device::emulator((6, 1)).unwrap_err();
    assert!(error.is_no_device() && error.to_string().contains("emulator:8.0"), "{error}");
}

#[test]
fn a_misuse_is_an_error_with_the_lines_of_ptx() {
    let gpu = Device::emulator((8, 0)).unwrap();
    let a = gpu.upload(&integers(20, 20, 1)).unwrap();
    // Nothing has written B.
    let b = gpu.uninit::<f32>(Shape::new(20, 20)).unwrap();
    let mut c = gpu.uninit::<f32>(Shape::new(20, 20)).unwrap();
    let gemm = Gemm::new().kernel("k02_tiled_16");
    let error = gemm.run_device(&a, &b, &mut c).unwrap_err();
    let text = error.to_string();
    assert!(error.is_emulator_report() && text.contains("Uninitialized"), "{text}");
    assert!(text.contains("k02_tiled_16_f32") && text.contains("ld.global"), "{text}");
    // The device goes on.
    gemm.run_device(&a, &a, &mut c).unwrap();
}

/// A tile of 16 x 16 is loaded once for 16 rows and 16 columns: a sixteenth of the loads, as the
/// tutorials compute it. Writes stay what they are.
#[test]
fn tiles_cut_loads_by_their_width() {
    const N: usize = 64;
    let (a, b) = (integers(N, N, 1), integers(N, N, 2));
    let counted = |kernel: &str| {
        let options = Options { arch: (7, 0), statistics: true, ..Options::default() };
        let gpu = Device::emulator_with(&options).unwrap();
        let (a, b) = (gpu.upload(&a).unwrap(), gpu.upload(&b).unwrap());
        let mut c = gpu.uninit(Shape::new(N, N)).unwrap();
        Gemm::new().kernel(kernel).run_device(&a, &b, &mut c).unwrap();
        super::statistics(&gpu).unwrap()
    };
    let (naive, tiled) = (counted("k01_naive"), counted("k02_tiled_16"));
    assert_eq!(naive.global_loaded, 4 * 2 * (N * N * N) as u64);
    assert_eq!(tiled.global_loaded, naive.global_loaded / 16);
    assert_eq!([naive.global_stored, tiled.global_stored], [4 * (N * N) as u64; 2]);
    assert_eq!(naive.shared_stored, 0);
    assert_eq!(tiled.shared_stored, tiled.global_loaded);
    assert!(super::statistics(&Device::cpu()).is_none());
}
