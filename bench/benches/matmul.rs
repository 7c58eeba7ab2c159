//! `cargo bench`: square products on the CPU engine and, where there is a GPU, with every variant
//! of the table.
//!
//! GPU times are those between two events on the GPU, so neither launches nor copies count. The
//! numbers that are published come from `gemmite-bench`, which compares with peers in one run;
//! these are for comparing two commits. The matrices are small enough to stay in the L2 cache.

use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use cust::memory::{CopyDestination, DeviceBuffer};
use cust::stream::{Stream, StreamFlags};
use gemmite::cuda::RawOperands;
use gemmite::verify::{self, Problem, Rows};
use gemmite::{Device, Element, Gemm, Layout, Matrix, Shape, bf16, f16, random};
use gemmite_bench::timing;
use std::time::Duration;

type Group<'a> = BenchmarkGroup<'a, criterion::measurement::WallTime>;

fn benches(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("cpu");
    on_cpu::<i32>(&mut group);
    on_cpu::<f16>(&mut group);
    on_cpu::<bf16>(&mut group);
    on_cpu::<f32>(&mut group);
    on_cpu::<f64>(&mut group);
    group.finish();
    match Device::cuda(0) {
        Ok(device) => {
            let _context = cust::quick_init().expect("the device works: the library has opened it");
            let mut group = criterion.benchmark_group("cuda");
            on_cuda::<i32>(&mut group, &device);
            on_cuda::<f16>(&mut group, &device);
            on_cuda::<bf16>(&mut group, &device);
            on_cuda::<f32>(&mut group, &device);
            on_cuda::<f64>(&mut group, &device);
            group.finish();
        }
        Err(error) if error.is_no_device() => println!("skipped: the group cuda: {error}"),
        Err(error) => panic!("the GPU does not work: {error}"),
    }
}

fn on_cpu<T: Element>(group: &mut Group<'_>) {
    let shape = Shape::new(256, 256);
    let (a, b) = (random::normal::<T>(shape, 1).unwrap(), random::normal::<T>(shape, 2).unwrap());
    let (device, gemm) = (Device::cpu(), Gemm::<T>::new());
    verified(&a, &b, &gemm.run(&device, &a, &b).unwrap());
    group.throughput(Throughput::Elements(2 * 256 * 256 * 256));
    group.bench_function(format!("{}/256", T::DTYPE), |bencher| {
        bencher.iter(|| gemm.run(&device, &a, &b).unwrap());
    });
}

fn on_cuda<T: Element>(group: &mut Group<'_>, device: &Device) {
    const N: usize = 1024;
    let layout = Layout::row_major(Shape::new(N, N));
    let matrix = |seed| random::normal::<T>(layout.shape, seed).unwrap();
    let (host_a, host_b, mut out) = (matrix(1), matrix(2), matrix(3));
    let upload = |matrix: &Matrix<T>| {
        DeviceBuffer::from_slice(bytemuck::cast_slice::<T, u8>(matrix.as_slice())).unwrap()
    };
    let buffers = [upload(&host_a), upload(&host_b), upload(&out)];
    let [a, b, c] = [0, 1, 2].map(|i: usize| buffers[i].as_device_ptr().as_raw());
    let operands = RawOperands { a, a_layout: layout, b, b_layout: layout, c, c_layout: layout };
    let stream = Stream::new(StreamFlags::DEFAULT, None).unwrap();
    group.throughput(Throughput::Elements(2 * (N * N * N) as u64));
    for variant in gemm_spec::variants() {
        let gemm = Gemm::<T>::new().kernel(variant);
        // SAFETY: three buffers of N * N elements on this device, which outlive the work: the next
        // line waits for it.
        unsafe { gemm.enqueue_raw(device, &stream, operands) }.unwrap();
        stream.synchronize().unwrap();
        buffers[2].copy_to(bytemuck::cast_slice_mut(out.as_mut_slice())).unwrap();
        verified(&host_a, &host_b, &out);
        group.bench_function(format!("{variant}_{}/{N}", T::DTYPE), |bencher| {
            bencher.iter_custom(|iterations| {
                let ms = timing::once(&stream, |stream| {
                    for _ in 0..iterations {
                        // SAFETY: three buffers of N * N elements on this device, which outlive
                        // the work: `once` waits for it.
                        unsafe { gemm.enqueue_raw(device, stream, operands)? };
                    }
                    Ok(())
                });
                Duration::from_secs_f64(f64::from(ms.unwrap()) / 1e3)
            });
        });
    }
}

/// Nothing is timed that is wrong.
fn verified<T: Element>(a: &Matrix<T>, b: &Matrix<T>, out: &Matrix<T>) {
    let problem = Problem::product(a.view(), b.view());
    verify::check(&problem, out.view(), Rows::Sampled { count: 32, seed: 4 }).unwrap();
}

criterion_group!(all, benches);
criterion_main!(all);
