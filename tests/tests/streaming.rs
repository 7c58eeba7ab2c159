//! Products that go through a device panel by panel: right, in the layouts that they have, within
//! the memory that they may take.

use gemmite::{
    Device, Element, Gemm, Layout, Matrix, MatrixMut, MatrixRef, Op, OutputOf, Progress, Shape,
    Streaming, Strides, bf16, random,
};
use gemmite_tests::cuda;
use std::fmt::Debug;
use std::sync::Mutex;

/// Computes C = 2 op(A) op(B) - C in so much memory, in a C with gaps, and returns how many panels
/// it took.
fn check<T: Element, C: OutputOf<T> + Debug>(
    device: &Device,
    (m, n, k): (usize, usize, usize),
    ops: [Op; 2],
    memory: usize,
) -> usize {
    let stored = |op, rows, cols| match op {
        Op::None => Shape::new(rows, cols),
        Op::Transpose => Shape::new(cols, rows),
    };
    let a: Matrix<T> = random::integers(stored(ops[0], m, k), 1, -3..=3).unwrap();
    let b: Matrix<T> = random::integers(stored(ops[1], k, n), 2, -3..=3).unwrap();
    let layout =
        Layout { shape: Shape::new(m, n), strides: Strides::new(n as isize + 3, 1), offset: 2 };
    let c: Matrix<C> = random::integers(Shape::new(1, (m + 1) * (n + 3)), 3, -9..=9).unwrap();
    let (mut expected, mut found) = (c.clone(), c);
    let scalar = |x| C::Scalar::from_f64(x);
    let gemm = Gemm::<T, C>::default().op_a(ops[0]).op_b(ops[1]);
    let gemm = gemm.alpha(scalar(2.0)).beta(scalar(-1.0));
    let into = MatrixMut::new(expected.as_mut_slice(), layout).unwrap();
    gemm.run_into(&Device::cpu(), &a, &b, into).unwrap();
    let said = Mutex::new(Vec::new());
    let hear = |progress: Progress| said.lock().unwrap().push(progress);
    let streaming = Streaming::new().memory(memory).progress(&hear);
    let into = MatrixMut::new(found.as_mut_slice(), layout).unwrap();
    gemm.run_streamed(device, &a, &b, into, &streaming).unwrap();
    assert!(found == expected, "{device}: {m}x{n}x{k} {ops:?} of {} in {memory} bytes", T::DTYPE);
    let said = said.into_inner().unwrap();
    let all = said[0].all;
    let mut done: Vec<usize> = said.iter().map(|progress| progress.done).collect();
    done.sort_unstable();
    assert!(said.iter().all(|progress| progress.all == all));
    assert_eq!(done, (1..=all).collect::<Vec<_>>());
    all
}

#[test]
fn panels_on_the_emulator() {
    let device = Device::emulator((9, 0)).unwrap();
    let (none, turned) = (Op::None, Op::Transpose);
    assert_eq!(check::<f32, f32>(&device, (70, 60, 50), [none, none], 1 << 20), 1);
    // B stays, and so does A, which is smaller then.
    assert!(check::<f32, f32>(&device, (300, 60, 50), [none, turned], 90_000) > 1);
    assert!(check::<f32, f32>(&device, (60, 300, 50), [turned, none], 90_000) > 1);
    // Neither.
    assert!(check::<bf16, f32>(&device, (200, 190, 150), [turned, turned], 128_000) > 4);
    assert!(check::<i8, i32>(&device, (129, 200, 40), [none, none], 60_000) > 2);
}

/// A kernel that was named takes operands that lie as they do, whichever is larger; one that does
/// not is refused before anything is copied.
#[test]
fn named_kernels_get_what_they_are_named_for() {
    let device = Device::emulator((9, 0)).unwrap();
    let a: Matrix<bf16> = random::integers(Shape::new(40, 64), 1, -3..=3).unwrap();
    let b: Matrix<bf16> = random::integers(Shape::new(64, 224), 2, -3..=3).unwrap();
    let of = |kernel: &str, op_b| Gemm::<bf16>::new().kernel(kernel).op_b(op_b);
    let run = |gemm: &Gemm<bf16>, b: &Matrix<bf16>| {
        let n = b.shape().rows * b.shape().cols / 64;
        let mut c = Matrix::zeros(Shape::new(40, n)).unwrap();
        let panels = Mutex::new(0);
        let count = |progress: Progress| *panels.lock().unwrap() = progress.all;
        let streaming = Streaming::new().memory(40_000).progress(&count);
        gemm.run_streamed(&device, &a, b, &mut c, &streaming)?;
        Ok::<_, gemmite::Error>((c, panels.into_inner().unwrap()))
    };
    // For a B along N alone.
    let (c, panels) = run(&of("warp_group_64x32", Op::None), &b).unwrap();
    assert!(panels > 1);
    assert_eq!(c, Gemm::new().run(&Device::cpu(), &a, &b).unwrap());
    let along_k = b.t().to_matrix().unwrap();
    let error = run(&of("warp_group_64x32", Op::Transpose), &along_k).unwrap_err();
    assert!(error.is_unsupported(), "{error}");
    // The last panel has 8 columns, of which the transposed product is computed.
    let few = b.view().block(0..64, 0..200).unwrap().to_matrix().unwrap();
    assert!(run(&of("warp_group_64x32", Op::None), &few).unwrap_err().is_unsupported());
}

#[test]
fn panels_on_cuda() {
    let Some(device) = cuda() else { return };
    for ops in [[Op::None, Op::None], [Op::Transpose, Op::None], [Op::None, Op::Transpose]] {
        assert!(check::<bf16, bf16>(&device, (3000, 2500, 700), ops, 4 << 20) > 4);
        assert!(check::<f32, f32>(&device, (1000, 5000, 300), ops, 8 << 20) > 2);
        assert!(check::<i8, i32>(&device, (5001, 333, 77), ops, 1 << 20) > 4);
    }
}

#[test]
fn the_cpu_takes_no_memory_and_limits_that_are_too_low_are_said() {
    let device = Device::cpu();
    assert_eq!(check::<f64, f64>(&device, (30, 20, 10), [Op::None, Op::None], 0), 1);
    let device = Device::emulator((8, 0)).unwrap();
    let a: Matrix<f32> = Matrix::zeros(Shape::new(100, 100)).unwrap();
    let mut c = a.clone();
    let streaming = Streaming::new().memory(1000);
    let (of_a, of_b): (MatrixRef<'_, f32>, MatrixRef<'_, f32>) = (a.view(), a.view());
    let error = Gemm::new().run_streamed(&device, of_a, of_b, &mut c, &streaming).unwrap_err();
    assert!(error.is_out_of_memory() && error.to_string().contains("1000 bytes"), "{error}");
    // Nothing to sum needs no panels.
    Gemm::new().alpha(0.0).run_streamed(&device, of_a, of_b, &mut c, &streaming).unwrap();
}
