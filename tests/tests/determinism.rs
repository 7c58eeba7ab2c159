//! The same bits every time: of one plan, whenever and on however many threads it runs; and of a
//! row, with however many others it is computed, where `Gemm::batch_invariant` asks for that.

use gemmite::emulator::{Options, Timing};
use gemmite::{
    Activation, Device, Element, Epilogue, F8E4M3, Gemm, Matrix, MatrixRef, Op, OutputOf,
    Precision, Shape, bf16, f16, random,
};
use gemmite_tests::{cuda, say, variants_on};

/// As bits: NaN equals itself, and 0 is not -0.
fn bits<C: Element>(c: &Matrix<C>) -> Vec<u8> {
    bytemuck::cast_slice(c.as_slice()).to_vec()
}

fn operands<T: Element>((m, n, k): (usize, usize, usize)) -> (Matrix<T>, Matrix<T>) {
    let of = |shape, seed| random::normal(shape, seed).unwrap();
    (of(Shape::new(m, k), 1), of(Shape::new(k, n), 2))
}

fn emulator(arch: (u32, u32), timing: Timing, threads: usize) -> Device {
    // Few multiprocessors, so that blocks go on from tile to tile.
    let multiprocessors = Some(4);
    let options = Options { arch, timing, threads, multiprocessors, ..Options::default() };
    Device::emulator_with(&options).unwrap()
}

/// Runs a product on all devices, the first of them twice.
fn is_the_same_on<T: Element>(devices: &[Device], gemm: &Gemm<T>, sizes: (usize, usize, usize)) {
    let (a, b) = operands::<T>(sizes);
    let expected = bits(&gemm.run(&devices[0], &a, &b).unwrap());
    for device in devices {
        let found = bits(&gemm.run(device, &a, &b).unwrap());
        assert!(found == expected, "{gemm:?} of {sizes:?} on {device}");
    }
}

/// Every plan of the emulator that can be named, under all timings and numbers of threads.
fn is_the_same_emulated<T: Element>(kernels: &[&str]) {
    let timings = [Timing::Latest, Timing::Eager, Timing::Seeded(7)];
    let devices = timings.map(|timing| [1, 3].map(|threads| emulator((9, 0), timing, threads)));
    for kernel in kernels {
        let gemm = Gemm::<T>::new().kernel(*kernel);
        is_the_same_on(devices.as_flattened(), &gemm, (66, 72, 144));
    }
}

#[test]
fn emulator_bf16() {
    is_the_same_emulated::<bf16>(&["warp_group_64x64", "warp_group_64x64/2", "k11_tensor_core/3"]);
}

/// Whose blocks wait for what others have summed up: halves of K, and equal shares.
const HALVES: &str = "warp_group_halves_64x64";
const SHARES: &str = "warp_group_stream_k_64x64";

#[test]
fn emulator_sums_of_several_blocks() {
    is_the_same_emulated::<bf16>(&[HALVES, SHARES, "warp_group_in_step_64x128/3"]);
    // So many parts are added by another kernel than few.
    is_the_same_emulated::<f32>(&["k02_tiled_16/9"]);
}

#[test]
fn emulator_f32() {
    is_the_same_emulated::<f32>(&["k10_grouped_order", "k02_tiled_16/5", "skinny_rows"]);
}

#[test]
fn emulator_f64_and_i8() {
    is_the_same_emulated::<f64>(&["k11_tensor_core", "k11_tensor_core/2"]);
    is_the_same_emulated::<i8>(&["auto", "k11_tensor_core/2"]);
}

#[test]
fn cpu_from_run_to_run() {
    fn one<T: Element>() {
        let (a, b) = operands::<T>((130, 300, 600));
        let gemm = Gemm::<T>::new();
        let expected = bits(&gemm.run(&Device::cpu(), &a, &b).unwrap());
        // Several at a time, so that threads take other tasks.
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..3 {
                        let found = gemm.run(&Device::cpu(), &a, &b).unwrap();
                        assert!(bits(&found) == expected, "{}", T::DTYPE);
                    }
                });
            }
        });
    }
    one::<bf16>();
    one::<f32>();
    one::<f64>();
    one::<i8>();
}

#[test]
fn cuda_from_run_to_run() {
    fn one<T: Element>(device: &Device, kernels: &[&str]) {
        let devices = vec![device.clone(); 8];
        for kernel in kernels {
            let gemm = Gemm::<T>::new().kernel(*kernel);
            is_the_same_on(&devices, &gemm, (300, 1032, 4104));
        }
        is_the_same_on(&devices, &Gemm::<T>::new(), (100, 100, 60_000));
    }
    let Some(device) = cuda() else { return };
    let hopper = ["warp_group_128x128/3", "warp_group_in_step_64x128/3", HALVES, SHARES];
    let bf16 = ["k11_tensor_core", "k11_tensor_core/7", "skinny_rows"].into_iter().chain(hopper);
    one::<bf16>(&device, &runnable(&device, bf16.chain(["auto"])));
    one::<f32>(&device, &["auto", "k10_grouped_order/5", "k02_tiled_16"]);
    one::<f64>(&device, &["auto", "k02_tiled_16/3"]);
    one::<i8>(&device, &["auto", "k07_warp_tile/4"]);
    one::<F8E4M3>(&device, &["auto", "k07_warp_tile"]);
}

/// Of the names of plans those that the device has a kernel for.
fn runnable<'a>(device: &Device, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let variants = variants_on(device);
    let is_run =
        |name: &&str| *name == "auto" || variants.contains(&name.split('/').next().unwrap());
    names.filter(is_run).collect()
}

/// Rows of a product with `rows` of them, for each of that list: those of the one with the most.
fn rows_are_alike<T: Element, C: OutputOf<T>>(
    device: &Device,
    gemm: &Gemm<T, C>,
    rows: &[usize],
    (n, k): (usize, usize),
    [op_a, op_b]: [Op; 2],
) {
    let most = rows.iter().copied().max().unwrap();
    let (a, b) = operands::<T>((most, n, k));
    let b = if op_b == Op::None { b } else { b.t().to_matrix().unwrap() };
    let gemm = gemm.clone().op_a(op_a).op_b(op_b).batch_invariant(true);
    let of = |m: usize| {
        let a = a.view().block(0..m, 0..k).unwrap();
        let a = if op_a == Op::None { a } else { a.t() };
        gemm.run(device, &a.to_matrix().unwrap(), &b).unwrap()
    };
    let all = of(most);
    for &m in rows {
        let expected = all.view().block(0..m, 0..n).unwrap().to_matrix().unwrap();
        let found = of(m);
        let differs = |(i, j): &(usize, usize)| {
            bytemuck::bytes_of(&found[(*i, *j)]) != bytemuck::bytes_of(&expected[(*i, *j)])
        };
        let wrong = (0..m).flat_map(|i| (0..n).map(move |j| (i, j))).find(differs);
        assert_eq!(wrong, None, "{m} of {most} rows, {n} columns, {k} terms, {gemm:?}, {device}");
    }
}

const NN: [Op; 2] = [Op::None; 2];
const NT: [Op; 2] = [Op::None, Op::Transpose];
const TN: [Op; 2] = [Op::Transpose, Op::None];

#[test]
fn rows_are_alike_on_the_cpu() {
    fn one<T: Element>() {
        for ops in [NN, TN] {
            let rows = [1, 2, 3, 17, 100, 300];
            rows_are_alike(&Device::cpu(), &Gemm::<T>::new(), &rows, (70, 613), ops);
            rows_are_alike(&Device::cpu(), &Gemm::<T>::new(), &rows, (1, 2), ops);
        }
    }
    one::<bf16>();
    one::<F8E4M3>();
    one::<f32>();
    one::<f64>();
    one::<i8>();
    let tf32 = Gemm::<f32>::new().precision(Precision::Tf32).alpha(0.3);
    rows_are_alike(&Device::cpu(), &tf32, &[1, 2, 40], (300, 77), NT);
}

const FEW: [usize; 5] = [1, 2, 17, 66, 140];

#[test]
fn rows_are_alike_on_hopper_emulated() {
    let device = emulator((9, 0), Timing::Eager, 0);
    // As they are, transposed, copied; turned where rows are few.
    rows_are_alike(&device, &Gemm::<bf16>::new(), &FEW, (136, 136), NN);
    rows_are_alike(&device, &Gemm::<bf16>::new(), &[1, 3, 70], (129, 200), TN);
    rows_are_alike(&device, &Gemm::<bf16>::new().output::<f32>(), &[1, 70], (40, 200), NT);
    let tf32 = Gemm::<f32>::new().precision(Precision::Tf32).alpha(0.7);
    rows_are_alike(&device, &tf32, &[1, 140, 260], (136, 40), NT);
    let split = Gemm::<f32>::new().precision(Precision::Bf16x6);
    rows_are_alike(&device, &split, &[1, 140], (136, 40), NT);
    rows_are_alike(&device, &Gemm::<F8E4M3>::new(), &[1, 70, 140], (136, 272), NN);
    rows_are_alike(&device, &Gemm::<f64>::new(), &[1, 17, 66], (70, 90), NN);
    rows_are_alike(&device, &Gemm::<i8>::new(), &[1, 17, 66], (70, 200), NT);
    let split = Gemm::<bf16>::new().kernel("warp_group_64x64/2");
    rows_are_alike(&device, &split, &[1, 66], (136, 200), NN);
}

#[test]
fn rows_are_alike_on_older_gpus_emulated() {
    let device = emulator((8, 0), Timing::Eager, 0);
    rows_are_alike(&device, &Gemm::<f16>::new(), &[1, 17, 140], (70, 201), NN);
    rows_are_alike(&device, &Gemm::<f32>::new(), &FEW, (70, 101), NN);
    rows_are_alike(&device, &Gemm::<f64>::new(), &[1, 17, 70], (70, 101), TN);
    for kernel in ["k11_tensor_core/3", "skinny_rows", "k02_tiled_16/2"] {
        rows_are_alike(&device, &Gemm::<bf16>::new().kernel(kernel), &[1, 17, 40], (70, 301), NN);
    }
    let device = emulator((7, 0), Timing::Eager, 0);
    rows_are_alike(&device, &Gemm::<bf16>::new(), &[1, 17, 140], (70, 101), NT);
}

/// Whatever the library may choose for a number of rows sums in one order.
#[test]
fn all_plans_of_a_class_give_the_same_bits() {
    fn one<T: Element>(sizes: (usize, usize, usize), least: usize) {
        let device = emulator((9, 0), Timing::Eager, 0);
        let (a, b) = operands::<T>(sizes);
        let gemm = Gemm::<T>::new().batch_invariant(true);
        let plans = gemm.plans(device.info(), a.view().layout(), b.view().layout()).unwrap();
        assert!(plans.len() >= least, "{plans:?}");
        let mut expected = None;
        for plan in plans {
            let found = bits(&gemm.clone().kernel(&plan).run(&device, &a, &b).unwrap());
            assert!(*expected.get_or_insert(found.clone()) == found, "{plan}, {}", T::DTYPE);
        }
    }
    one::<bf16>((260, 264, 136), 4);
    // Turned, A copied or read as it is.
    one::<bf16>((63, 263, 136), 3);
    one::<f32>((150, 140, 77), 4);
}

#[test]
fn rows_with_epilogues_are_alike() {
    fn one(device: &Device, (n, k): (usize, usize)) {
        let (a, b) = operands::<bf16>((140, n, k));
        let bias: Matrix<bf16> = random::normal(Shape::new(1, n), 3).unwrap();
        let gemm = Gemm::<bf16>::new().batch_invariant(true);
        let of = |m: usize| {
            let epilogue = Epilogue::new().bias(bias.view()).activation(Activation::Silu);
            let a = a.view().block(0..m, 0..k).unwrap();
            gemm.fused(epilogue).run(device, a, &b).unwrap()
        };
        let all = of(140);
        for m in [1, 17, 70] {
            let expected = all.view().block(0..m, 0..n).unwrap().to_matrix().unwrap();
            assert_eq!(bits(&of(m)), bits(&expected), "{m} rows on {device}");
        }
    }
    one(&Device::cpu(), (70, 100));
    one(&emulator((9, 0), Timing::Eager, 0), (72, 96));
    if let Some(device) = cuda() {
        one(&device, (1024, 1000));
        one(&device, (1023, 1000));
    }
}

#[test]
fn rows_are_alike_on_cuda() {
    fn one<T: Element>(device: &Device) {
        let rows = [1, 2, 5, 17, 64, 65, 100, 128, 129, 300, 1000];
        for ops in [NN, NT, TN, [Op::Transpose; 2]] {
            for (n, k) in [(1024, 4096), (1031, 777), (8, 2048), (100, 10_000)] {
                rows_are_alike(device, &Gemm::<T>::new(), &rows, (n, k), ops);
            }
        }
    }
    let Some(device) = cuda() else { return };
    one::<bf16>(&device);
    one::<f16>(&device);
    one::<f32>(&device);
    one::<f64>(&device);
    one::<i8>(&device);
    one::<F8E4M3>(&device);
    let rows = [1, 17, 64, 65, 256, 257, 600];
    let tf32 = Gemm::<f32>::new().precision(Precision::Tf32);
    rows_are_alike(&device, &tf32, &rows, (1024, 4096), NT);
    let named = ["k11_tensor_core/5", "skinny_rows/3", "warp_group_64x64/4"].into_iter();
    for kernel in runnable(&device, named) {
        let gemm = Gemm::<bf16>::new().kernel(kernel);
        rows_are_alike(&device, &gemm, &rows, (1024, 4096), NN);
    }
    // So many parts of 17 rows are added by another kernel than those of 16, where that is free.
    let gemm = Gemm::<f32>::new().kernel("k10_grouped_64x64/16");
    rows_are_alike(&device, &gemm, &[1, 16, 17], (2048, 4096), NN);
    say("rows are alike on cuda, 7 dtypes");
}

/// The tests compare bits of products whose order of sums matters: another order shows.
#[test]
fn another_order_has_other_bits() {
    let (a, b) = operands::<f32>((5, 40, 3000));
    let device = emulator((9, 0), Timing::Eager, 0);
    let of = |kernel: &str| {
        let a: MatrixRef<'_, f32> = a.view();
        bits(&Gemm::new().kernel(kernel).run(&device, a, &b).unwrap())
    };
    assert_ne!(of("k02_tiled_16"), of("k02_tiled_16/2"));
    assert_ne!(of("k02_tiled_16"), of("skinny_rows"));
    // Rows do differ where nobody asks for the contrary.
    let (a, b) = operands::<f32>((66, 136, 1000));
    let row = a.view().block(0..1, 0..1000).unwrap();
    let gemm = Gemm::<f32>::new();
    let alone = gemm.run(&device, row, &b).unwrap();
    let all = gemm.run(&device, &a, &b).unwrap();
    assert_ne!(alone, all.view().block(0..1, 0..136).unwrap().to_matrix().unwrap());
}
