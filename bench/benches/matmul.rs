//! `cargo bench`: the CPU engine, the planner and, where there is a GPU, every variant of the
//! table.
//!
//! GPU times are those between two events on the GPU, so neither launches nor copies count. The
//! numbers that are published come from `cargo xtask bench`, which compares with peers in one run;
//! these are for comparing two commits (criterion's `--save-baseline` and `--baseline`).

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use gemm_spec::Kernel;
use gemmite::{DType, Device, DeviceInfo, Gemm, Layout, Shape, bf16, with_element};
use gemmite_bench::candidates::{Entrant, ours};
use gemmite_bench::case::{Case, Data};
use gemmite_bench::gpu::{Gpu, Operands};
use gemmite_bench::record::State;
use gemmite_bench::suite::{Kernels, Row};
use std::hint::black_box;

fn benches(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("cpu");
    for dtype in DType::ALL {
        with_element!(dtype, T => {
            let case = Case::<T>::generate(square(dtype, 256), Data::Normal).unwrap();
            bench(&mut group, &case, vec![ours::on_cpu(&case)]);
        });
    }
    group.finish();
    planner(criterion);
    match Device::cuda(0) {
        Ok(_) => {
            let gpu = Gpu::open(0).expect("the device works: the library has opened it");
            let mut group = criterion.benchmark_group("cuda");
            for dtype in DType::ALL {
                let row = Row { kernels: Kernels::All, ..square(dtype, 1024) };
                with_element!(dtype, T => {
                    let case = Case::<T>::generate(row, Data::Normal).unwrap();
                    let operands = Operands::new(&gpu, &case).unwrap();
                    bench(&mut group, &case, ours::entrants(&gpu, &operands, &case, &[], 0));
                });
            }
            group.finish();
        }
        Err(error) if error.is_no_device() => println!("skipped: the group cuda: {error}"),
        Err(error) => panic!("the GPU does not work: {error}"),
    }
}

fn square(dtype: DType, n: usize) -> Row {
    Row::new(dtype, "nn".parse().unwrap(), [n; 3]).unwrap()
}

/// Times candidates by their own clock, those that are right.
fn bench<T: gemmite::Element>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    case: &Case<T>,
    entrants: Vec<Entrant<'_, T>>,
) {
    group.throughput(Throughput::Elements(case.row.flop() as u64));
    for entrant in entrants {
        let mut candidate = match entrant.candidate {
            Ok(candidate) => candidate,
            Err(absence) if absence.state == State::Unsupported => {
                println!("skipped: {}: {}", entrant.name, absence.reason);
                continue;
            }
            Err(absence) => panic!("{}: {}", entrant.name, absence.reason),
        };
        case.verify(&candidate.product().unwrap()).unwrap();
        let name = format!("{}/{}/{}", entrant.name, case.row.dtype, case.row.n);
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|runs| candidate.sample(u32::try_from(runs).unwrap()).unwrap());
        });
    }
}

/// The choice of a kernel for an H100, which takes none: the first time, and when it was made
/// before.
fn planner(criterion: &mut Criterion) {
    let device = Device::emulator((9, 0)).unwrap();
    let mut info: DeviceInfo = device.info().clone();
    info.multiprocessors = Some(132);
    let gemm = Gemm::<bf16>::new();
    let mut group = criterion.benchmark_group("planner");
    for (m, n, k) in [(4097, 4096, 4096), (512, 512, 512), (1, 8192, 8192), (127, 131, 65_537)] {
        let a = Layout::row_major(Shape::new(m, k));
        let b = Layout::row_major(Shape::new(k, n));
        group.bench_function(format!("{m}x{n}x{k}"), |bencher| {
            bencher.iter(|| gemm.plan(&info, black_box(a), black_box(b)).unwrap());
        });
        group.bench_function(format!("{m}x{n}x{k}/found"), |bencher| {
            bencher.iter(|| gemm.plan_on(&device, black_box(a), black_box(b)).unwrap());
        });
    }
    group.bench_function("find", |bencher| {
        bencher.iter(|| Kernel::find(black_box("k02_tiled_16"), DType::F64));
    });
    group.finish();
}

criterion_group!(all, benches);
criterion_main!(all);
