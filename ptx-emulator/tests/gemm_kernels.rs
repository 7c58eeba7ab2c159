//! The kernels of this repository, as their PTX files have them, give the product that plain loops
//! give, and no report. The values are small integers, so every order of summation is exact.

mod params;

use gemm_spec::{DType, GemmParams, Kernel, Shape, Strides, Target};
use params::bytes;
use ptx_emulator::{Arch, Argument, Emulator, Launch, Module, Options, Statistics};
use std::time::{Duration, Instant};

/// The bytes of a small integer as an element.
fn element(dtype: DType, value: i32) -> Vec<u8> {
    match dtype {
        DType::I8 => (value as i8).to_le_bytes().to_vec(),
        DType::I32 => value.to_le_bytes().to_vec(),
        DType::F32 => (value as f32).to_le_bytes().to_vec(),
        DType::F64 => f64::from(value).to_le_bytes().to_vec(),
        DType::BF16 => {
            let bits = (value as f32).to_bits();
            assert_eq!(bits & 0xffff, 0, "{value} is no bf16");
            ((bits >> 16) as u16).to_le_bytes().to_vec()
        }
        DType::F16 => half(value).to_le_bytes().to_vec(),
        // The upper half of an f16.
        DType::F8E5M2 => vec![half(value).to_le_bytes()[1]],
        // A mantissa bit more, and a bias of 7.
        DType::F8E4M3 => {
            let half = half(value);
            let magnitude = (half & 0x7fff).saturating_sub((15 - 7) << 10) >> 7;
            vec![magnitude as u8 | (half >> 8) as u8 & 0x80]
        }
    }
}

/// An integer of at most 11 bits as an f16.
fn half(value: i32) -> u16 {
    let magnitude = value.unsigned_abs() as u16;
    if magnitude == 0 {
        return 0;
    }
    let exponent = 15 - magnitude.leading_zeros() as u16;
    assert!(exponent <= 10, "{value} is no f16 for sure");
    let sign = u16::from(value < 0) << 15;
    sign | (exponent + 15) << 10 | (magnitude << (10 - exponent)) & 0x3ff
}

/// Small numbers without a pattern.
fn value(seed: usize) -> i32 {
    (seed as u32).wrapping_mul(2_654_435_761).rotate_right(13) as i32 % 3
}

struct Run {
    statistics: Statistics,
    time: Duration,
}

/// C = 2 A B - C for `m`, `n`, `k`, through one kernel.
fn run(
    module: &Module,
    kernel: &Kernel,
    (m, n, k): (usize, usize, usize),
    options: Options,
) -> Run {
    let mut gpu = Emulator::new(options);
    let (dtype, output) = (kernel.dtype, kernel.dtype.output());
    let a: Vec<i32> = (0..m * k).map(value).collect();
    let b: Vec<i32> = (0..k * n).map(|i| value(i + 7777)).collect();
    let c: Vec<i32> = (0..m * n).map(|i| value(i + 99_999)).collect();
    let mut upload = |values: &[i32], dtype: DType| {
        let bytes: Vec<u8> = values.iter().flat_map(|value| element(dtype, *value)).collect();
        let address = gpu.allocate(bytes.len() as u64).unwrap();
        gpu.write(address, &bytes).unwrap();
        address
    };
    let (a_at, b_at, c_at) = (upload(&a, dtype), upload(&b, dtype), upload(&c, output));
    let shape = Shape::new(m, n);
    let strides = [Shape::new(m, k), Shape::new(k, n), shape].map(Strides::row_major);
    let mut statistics = None;
    let start = Instant::now();
    for launch in kernel.launches(shape).unwrap() {
        assert_eq!(launch.start, (0, 0), "one launch covers these sizes");
        let params = match dtype {
            DType::I8 | DType::I32 => bytes(GemmParams::new(shape, k, strides, 2, Some(-1), 0i32)),
            DType::F64 => bytes(GemmParams::new(shape, k, strides, 2.0, Some(-1.0), 0f64)),
            _ => bytes(GemmParams::new(shape, k, strides, 2.0, Some(-1.0), 0f32)),
        };
        let shape = Launch {
            grid: [launch.grid.0, launch.grid.1, 1],
            block: [launch.block.0, launch.block.1, 1],
            cluster: [1, 1, 1],
            dynamic_shared: kernel.dynamic_shared_bytes() as u32,
        };
        let arguments = [a_at.into(), b_at.into(), c_at.into(), Argument::bytes(params)];
        match gpu.launch(module, kernel.name, &shape, &arguments) {
            Ok(counted) => statistics = Some(counted),
            Err(report) => panic!("{} {m}x{n}x{k}: {report}", kernel.name),
        }
    }
    let time = start.elapsed();
    let size = output.size_bytes();
    let mut result = vec![0; m * n * size];
    gpu.read(c_at, &mut result).unwrap();
    for row in 0..m {
        for col in 0..n {
            let sum: i32 = (0..k).map(|p| a[row * k + p] * b[p * n + col]).sum();
            let expected = element(output, 2 * sum - c[row * n + col]);
            let at = (row * n + col) * size;
            let found = &result[at..at + size];
            assert_eq!(found, expected, "{} {m}x{n}x{k} ({row}, {col})", kernel.name);
        }
    }
    Run { statistics: statistics.unwrap(), time }
}

fn module(target: Target) -> Module {
    let path = format!("{}/../host/ptx/{}.ptx", env!("CARGO_MANIFEST_DIR"), target.arch());
    Module::parse(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn options(target: Target) -> Options {
    let (major, minor) = target.min_capability();
    Options { arch: Arch::new(major, minor), ..Options::default() }
}

fn all_kernels(target: Target) {
    let module = module(target);
    let mut count = 0;
    let multiplies = |kernel: &&Kernel| gemm_spec::kernels().any(|row| row.name == kernel.name);
    for kernel in gemm_spec::of_module(target).filter(multiplies) {
        for sizes in [(1, 1, 1), (37, 29, 19), (65, 130, 33)] {
            run(&module, kernel, sizes, options(target));
        }
        count += 1;
    }
    assert!(count > 0);
}

#[test]
fn kernels_of_sm_70() {
    all_kernels(Target::Sm70);
}

#[test]
fn kernels_of_sm_80() {
    all_kernels(Target::Sm80);
}

#[test]
fn kernels_of_sm_90() {
    all_kernels(Target::Sm90);
}

/// The project's bound is 1 s on two cores; where others use them, the best of some runs counts.
#[test]
fn the_tiled_kernel_is_fast_enough() {
    const BOUND: Duration = Duration::from_secs(1);
    let kernel = Kernel::find("k02_tiled_16", DType::F32).unwrap();
    let options = Options { threads: 2, ..options(kernel.target) };
    let module = module(kernel.target);
    let mut best = Duration::MAX;
    for _ in 0..5 {
        let Run { time, statistics } = run(&module, kernel, (256, 256, 256), options.clone());
        println!("k02_tiled_16_f32 256^3: {time:?}, {} instructions", statistics.total());
        best = best.min(time);
        if best < BOUND {
            return;
        }
    }
    panic!("{best:?}");
}
