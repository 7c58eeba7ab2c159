//! Batches on every engine: each kernel, matrices at any distance, one operand for all, C between
//! other elements that stay as they are.

use gemmite::{
    Batch, Device, Element, F8E4M3, Gemm, Layout, Matrix, MatrixMut, MatrixRef, Op, OutputOf,
    Precision, Shape, Strides, bf16, f16, random,
};
use gemmite_tests::{cuda, runs, variants_on};
use std::fmt::Debug;

/// How the matrices of an operand lie.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// One behind the other, at multiples of 16 elements.
    Even,
    /// One behind the other, at odd distances, in rows at odd distances.
    Odd,
    /// Side by side in the rows of one matrix, at multiples of 16 elements.
    Beside,
    /// From the last to the first.
    Backwards,
    /// One for all.
    Shared,
}

use Way::{Backwards, Beside, Even, Odd, Shared};

/// The matrices of an operand: where they lie in a buffer of so many elements.
#[derive(Clone, Copy, Debug)]
struct Placed {
    layout: Layout,
    step: isize,
    count: usize,
    len: usize,
}

/// Products in a batch.
const COUNT: usize = 3;

/// `op` is that of the layout: columns are contiguous where it transposes.
fn place(way: Way, shape: Shape, op: Op) -> Placed {
    let stored = if op == Op::None { shape } else { shape.transposed() };
    let Shape { rows, cols } = stored;
    let even = |extent: usize| extent.next_multiple_of(16) + 16;
    let pitch = match way {
        Odd => cols | 1,
        Beside => even(cols) * COUNT,
        _ => even(cols),
    };
    let matrix = (rows * pitch).max(1);
    let (step, offset) = match way {
        Even => (matrix as isize, 0),
        Odd => (matrix as isize + 5, 3),
        Beside => (even(cols) as isize, 0),
        Backwards => (-(matrix as isize), 2 * matrix),
        Shared => (0, 16),
    };
    let count = if way == Shared { 1 } else { COUNT };
    let layout = Layout { shape: stored, strides: Strides::new(pitch as isize, 1), offset };
    Placed { layout: layout.apply(op), step, count, len: COUNT * (matrix + 16) + 16 }
}

impl Placed {
    fn at(&self, number: usize) -> Layout {
        let offset = self.layout.offset as isize + number as isize * self.step;
        Layout { offset: offset as usize, ..self.layout }
    }
}

/// The buffer of a batch.
fn buffer<T: Element>(placed: &Placed, seed: u64) -> Matrix<T> {
    random::integers(Shape::new(1, placed.len), seed, -3..=3).unwrap()
}

#[derive(Clone)]
struct Problem {
    shape: Shape,
    k: usize,
    ways: [Way; 3],
    ops: [Op; 2],
    beta: bool,
}

/// Computes it as a batch on a device, and product by product on the CPU. Whether it did: a named
/// kernel may refuse the operands.
fn check<T: Element, C: OutputOf<T> + Debug>(device: &Device, kernel: &str, of: &Problem) -> bool {
    let Problem { shape, k, ways, ops, beta } = of;
    let a = place(ways[0], Shape::new(shape.rows, *k), ops[0]);
    let b = place(ways[1], Shape::new(*k, shape.cols), ops[1]);
    let c = place(ways[2], *shape, Op::None);
    let (on_a, on_b) = (buffer::<T>(&a, 1), buffer::<T>(&b, 2));
    let mut expected = buffer::<C>(&c, 3);
    let upload = |matrix: &Matrix<T>, of: &Placed| {
        device.upload(matrix).unwrap().into_batch(of.layout, of.count, of.step).unwrap()
    };
    let (of_a, of_b) = (upload(&on_a, &a), upload(&on_b, &b));
    let into = device.upload(&expected).unwrap().into_batch(c.layout, COUNT, c.step);
    let mut into = into.unwrap();
    let splits = gemm_spec::Kernel::find_in(kernel, T::DTYPE, Precision::Bf16x6).is_some();
    let how = if splits { Precision::Bf16x6 } else { Precision::Tf32 };
    let gemm = Gemm::<T, C>::default().precision(how);
    let gemm = if *beta { gemm.beta(C::Scalar::from_f64(2.0)) } else { gemm };
    for number in 0..COUNT {
        let a = MatrixRef::new(on_a.as_slice(), a.at(number)).unwrap();
        let b = MatrixRef::new(on_b.as_slice(), b.at(number)).unwrap();
        let c = MatrixMut::new(expected.as_mut_slice(), c.at(number)).unwrap();
        gemm.run_into(&Device::cpu(), a, b, c).unwrap();
    }
    let done = gemm.clone().kernel(kernel).run_device_batch(&of_a, &of_b, &mut into);
    let what = format!("{kernel} on {device}: {shape} k {k} {ways:?} {ops:?} of {}", T::DTYPE);
    match done {
        Ok(()) => {}
        // Named kernels may be for other operands, another GPU or one product alone.
        Err(error) if error.is_unsupported() && kernel != "auto" => return false,
        Err(error) => panic!("{what}: {error}"),
    }
    let whole = into.into_matrix(Layout::row_major(expected.shape())).unwrap();
    let found = whole.download().unwrap();
    let differs = (0..c.len).find(|&i| found.as_slice()[i] != expected.as_slice()[i]);
    if let Some(i) = differs {
        let (found, expected) = (found.as_slice()[i], expected.as_slice()[i]);
        panic!("{what}: element {i} of C's buffer is {found:?} and should be {expected:?}");
    }
    true
}

/// Every way of each operand once, and every transpose, of operands that maps describe each.
fn problems(shapes: &[(usize, usize, usize)]) -> impl Iterator<Item = Problem> {
    let ways = [
        [Even, Even, Even],
        [Odd, Odd, Odd],
        [Beside, Beside, Beside],
        [Shared, Even, Even],
        [Even, Shared, Beside],
        [Backwards, Even, Odd],
        [Even, Odd, Backwards],
        [Shared, Shared, Even],
        [Even, Even, Backwards],
        // With the first and these, all transposes.
        [Even, Even, Even],
        [Even, Even, Beside],
        [Even, Even, Odd],
    ];
    let ops = [Op::None, Op::Transpose];
    let ops = [[ops[0]; 2], [ops[0], ops[1]], [ops[1], ops[0]], [ops[1]; 2]];
    shapes.iter().flat_map(move |&(m, n, k)| {
        ways.into_iter().enumerate().map(move |(i, ways)| Problem {
            shape: Shape::new(m, n),
            k,
            ways,
            ops: ops[i % 4],
            beta: i % 3 == 1,
        })
    })
}

type Sizes<'a> = &'a [(usize, usize, usize)];

fn check_each<T: Element, C: OutputOf<T> + Debug>(device: &Device, kernels: &[&str], of: Sizes) {
    for kernel in kernels {
        let ran = problems(of).filter(|problem| check::<T, C>(device, kernel, problem)).count();
        // By whatever precision it has.
        let takes_batches = gemm_spec::kernels().any(|of| {
            of.variant == *kernel && of.dtype == T::DTYPE && of.takes_slices() && runs(device, of)
        });
        assert!(ran > 0 || !takes_batches && *kernel != "auto", "{kernel} computed nothing");
    }
}

/// Calls `check_each` for every dtype, and makes a test of each on a GPU, for all kernels.
macro_rules! each_dtype {
    ($($on_cuda:ident: $type:ty => $output:ty;)*) => {
        fn check_all(device: &Device, kernels: &[&str], shapes: Sizes) {
            $(check_each::<$type, $output>(device, kernels, shapes);)*
        }

        $(
            #[test]
            fn $on_cuda() {
                let Some(device) = cuda() else { return };
                let kernels: Vec<&str> =
                    std::iter::once("auto").chain(variants_on(&device)).collect();
                check_each::<$type, $output>(&device, &kernels, &ON_CUDA);
            }
        )*
    };
}

each_dtype! {
    batches_on_cuda_bf16: bf16 => bf16;
    batches_on_cuda_bf16_to_f32: bf16 => f32;
    batches_on_cuda_f32: f32 => f32;
    batches_on_cuda_f64: f64 => f64;
    batches_on_cuda_i8: i8 => i32;
    batches_on_cuda_f8e4m3: F8E4M3 => f16;
    batches_on_cuda_f16: f16 => f16;
    batches_on_cuda_i32: i32 => i32;
}

const ON_CUDA: [(usize, usize, usize); 5] =
    [(130, 72, 40), (1, 300, 70), (70, 2, 129), (300, 260, 203), (9, 7, 0)];

/// Each kernel that takes batches takes some of those that a GPU is asked for, which is seen
/// without one.
#[test]
fn every_kernel_that_takes_batches_is_asked_for_one() {
    fn one<T: Element>(device: &Device) {
        for kernel in gemm_spec::kernels().filter(|kernel| kernel.dtype == T::DTYPE) {
            let gemm = Gemm::<T>::new().precision(kernel.precision).kernel(kernel.variant);
            let is_planned = |Problem { shape, k, ways, ops, .. }: Problem| {
                let a = place(ways[0], Shape::new(shape.rows, k), ops[0]);
                let b = place(ways[1], Shape::new(k, shape.cols), ops[1]);
                let c = shape.rows * shape.cols + 16;
                let batch = Batch { count: COUNT, a: a.step, b: b.step, c: c as isize };
                let plan = gemm.plan_batch(device.info(), a.layout, b.layout, batch);
                plan.is_ok_and(|plan| plan.kernel == Some(kernel))
            };
            let planned = problems(&ON_CUDA).filter(|of| is_planned(of.clone())).count();
            assert!(planned > 0 || !kernel.takes_slices(), "{} computes nothing", kernel.name);
        }
    }
    let device = Device::emulator((9, 0)).unwrap();
    one::<bf16>(&device);
    one::<f16>(&device);
    one::<f32>(&device);
    one::<f64>(&device);
    one::<i8>(&device);
    one::<i32>(&device);
    one::<F8E4M3>(&device);
}

#[test]
fn batches_on_the_cpu() {
    check_all(&Device::cpu(), &["auto"], &[(20, 33, 17), (1, 5, 9), (5, 1, 9), (4, 4, 0)]);
}

#[test]
fn batches_on_the_emulator() {
    let device = Device::emulator((9, 0)).unwrap();
    check_all(&device, &["auto"], &[(20, 33, 17), (1, 40, 9), (5, 3, 0)]);
    let older = Device::emulator((7, 0)).unwrap();
    check_all(&older, &["auto"], &[(20, 33, 17)]);
    // Kernels that take maps, of one group and of two in clusters, and copies before them.
    let kernels = ["warp_group_64x64", "warp_group_128x128"];
    check_each::<bf16, bf16>(&device, &kernels, &[(130, 72, 40)]);
    check_each::<f32, f32>(&device, &["warp_group_split_128x128"], &[(130, 72, 70)]);
    check_each::<F8E4M3, bf16>(&device, &["auto"], &[(192, 192, 203)]);
}

#[test]
fn more_than_a_grid_has_layers_on_cuda() {
    let Some(device) = cuda() else { return };
    let count = 70_000;
    let shape = Shape::new(count, 3);
    let a: Matrix<f32> = random::integers(shape, 1, -3..=3).unwrap();
    let row = Layout::row_major(Shape::new(1, 3));
    let batch = |matrix: &Matrix<f32>| device.upload(matrix).unwrap().into_batch(row, count, 3);
    let (a, mut c) = (batch(&a).unwrap(), device.zeros_batch(count, Shape::new(1, 1)).unwrap());
    let squares = Gemm::new().op_b(Op::Transpose);
    squares.run_device_batch(&a, &a, &mut c).unwrap();
    let (of_a, c) = (a.download().unwrap(), c.download().unwrap());
    for (a, c) in of_a.iter().zip(&c) {
        assert_eq!(c[(0, 0)], a.as_slice().iter().map(|x| x * x).sum::<f32>());
    }
}

#[test]
fn plans_of_batches_say_how_many() {
    let device = Device::emulator((9, 0)).unwrap();
    let square = Layout::row_major(Shape::new(256, 256));
    let batch = Batch { count: 128, a: 65_536, b: 0, c: 65_536 };
    let plan = Gemm::<bf16>::new().plan_batch(device.info(), square, square, batch).unwrap();
    assert_eq!((plan.batch, plan.parts), (128, 1));
    let one = Gemm::<bf16>::new().plan(device.info(), square, square).unwrap();
    // A GPU that is full does not do with small tiles.
    let tile =
        |plan: &gemmite::Plan| plan.kernel.unwrap().tiles.block[..2].iter().product::<usize>();
    assert!(tile(&plan) > tile(&one), "{plan}, {one}");
    assert!(plan.prediction.total() < 128.0 * one.prediction.total() / 4.0);
}
