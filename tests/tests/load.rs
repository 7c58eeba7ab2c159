//! Many products at a time: threads with streams of their own on one GPU, every dtype and kind of
//! plan, every result checked, the memory given back; and threads that share an emulated one.

use gemmite::emulator::Options;
use gemmite::{
    Device, DeviceMatrix, Element, F8E4M3, Gemm, Matrix, Op, Precision, Shape, Stream, bf16, f16,
    random,
};
use gemmite_tests::{cuda, say};
use std::sync::Mutex;

/// Threads, and streams of each.
const THREADS: usize = 16;
const STREAMS: usize = 4;

/// Memory is counted by one test at a time.
static COUNTED: Mutex<()> = Mutex::new(());

/// Products that each thread enqueues: `GEMMITE_LOAD`, or few.
fn products() -> usize {
    let wanted = std::env::var("GEMMITE_LOAD").ok().map(|text| text.parse());
    wanted.transpose().expect("GEMMITE_LOAD is a number").unwrap_or(200)
}

/// A product of one dtype on a thread's own matrices.
trait Problem: Send {
    fn enqueue(&mut self, stream: &Stream);
    /// Whether C holds the product; C is spoiled then.
    fn is_right(&mut self) -> bool;
}

struct Of<T: Element> {
    gemm: Gemm<T>,
    a: DeviceMatrix<T>,
    b: DeviceMatrix<T>,
    c: DeviceMatrix<T::Output>,
    expected: Matrix<T::Output>,
    spoiled: Matrix<T::Output>,
}

impl<T: Element> Of<T> {
    fn new(device: &Device, (m, n, k): (usize, usize, usize), op_b: Op) -> Self {
        let of_b = if op_b == Op::None { Shape::new(k, n) } else { Shape::new(n, k) };
        // Sums stay exact in every dtype.
        let a = random::integers(Shape::new(m, k), 1, -1..=1).unwrap();
        let b = random::integers(of_b, 2, -1..=1).unwrap();
        let gemm = Gemm::<T>::new().op_b(op_b).precision(Precision::Tf32);
        let expected = gemm.run(&Device::cpu(), &a, &b).unwrap();
        let spoiled = Matrix::from_fn(Shape::new(m, n), |_, _| T::Output::from_f64(100.0)).unwrap();
        let (a, b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
        Of { gemm, a, b, c: device.upload(&spoiled).unwrap(), expected, spoiled }
    }
}

impl<T: Element> Problem for Of<T> {
    fn enqueue(&mut self, stream: &Stream) {
        self.gemm.enqueue(stream, &self.a, &self.b, &mut self.c).unwrap();
    }

    fn is_right(&mut self) -> bool {
        let right = self.c.download().unwrap() == self.expected;
        self.c.write(&self.spoiled).unwrap();
        right
    }
}

fn problems(device: &Device) -> Vec<Box<dyn Problem>> {
    // Whole tiles, few rows, odd rows that are copied, long sums in parts, one element.
    let shapes = [(128, 192, 96), (3, 300, 200), (130, 129, 131), (8, 16, 60), (1, 1, 40)];
    let mut all: Vec<Box<dyn Problem>> = Vec::new();
    for (i, shape) in shapes.into_iter().enumerate() {
        let op = if i % 2 == 0 { Op::None } else { Op::Transpose };
        all.push(Box::new(Of::<bf16>::new(device, shape, op)));
        all.push(Box::new(Of::<f16>::new(device, shape, Op::None)));
        all.push(Box::new(Of::<f32>::new(device, shape, op)));
        all.push(Box::new(Of::<f64>::new(device, shape, op)));
        all.push(Box::new(Of::<i8>::new(device, shape, op)));
        all.push(Box::new(Of::<i32>::new(device, shape, op)));
        all.push(Box::new(Of::<F8E4M3>::new(device, shape, op)));
    }
    // Sums of 20000 that are split; exact where they are added in whole numbers or in f32.
    all.push(Box::new(Of::<i8>::new(device, (16, 64, 20_000), Op::None)));
    all.push(Box::new(Of::<f32>::new(device, (16, 64, 20_000), Op::Transpose)));
    all
}

/// One thread's products, checked whenever each problem has had a turn or so.
fn work(device: &Device, thread: usize, products: usize) -> usize {
    let streams: Vec<Stream> = (0..STREAMS).map(|_| device.stream().unwrap()).collect();
    let mut problems = problems(device);
    let (mut state, mut wrong) = (thread as u64 + 1, 0);
    let mut enqueued = vec![false; problems.len()];
    for i in 0..products {
        // xorshift64 (Marsaglia, "Xorshift RNGs", 2003).
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let number = (state >> 20) as usize % problems.len();
        problems[number].enqueue(&streams[(state >> 8) as usize % STREAMS]);
        enqueued[number] = true;
        if i % 100 == 99 || i + 1 == products {
            for (problem, enqueued) in problems.iter_mut().zip(&mut enqueued) {
                wrong += usize::from(std::mem::take(enqueued) && !problem.is_right());
            }
        }
    }
    streams.iter().for_each(|stream| stream.synchronize().unwrap());
    wrong
}

/// Bytes of the device's memory that are free; the context is current where a matrix lives.
fn free_memory() -> usize {
    let context = gemmite::cuda::cust::quick_init().expect("there is a GPU");
    let (free, _) = gemmite::cuda::cust::memory::mem_get_info().expect("the driver says");
    drop(context);
    free
}

/// A product of host data on a device, and its plan: those of one thread alone.
fn is_right_on<T: Element>(device: &Device, [m, n, k]: [usize; 3]) {
    let a = random::integers::<T>(Shape::new(m, k), 1, -1..=1).unwrap();
    let b = random::integers::<T>(Shape::new(k, n), 2, -1..=1).unwrap();
    let (gemm, a_layout, b_layout) = (Gemm::<T>::new(), a.view().layout(), b.view().layout());
    let plan = gemm.plan_on(device, a_layout, b_layout).unwrap();
    assert_eq!(plan, gemm.plan(device.info(), a_layout, b_layout).unwrap());
    let found = gemm.run(device, &a, &b).unwrap();
    assert!(found == gemm.run(&Device::cpu(), &a, &b).unwrap(), "{} {m}x{n}x{k}", T::DTYPE);
}

/// All of them look for the same plans and load the same kernels first.
#[test]
fn emulator_threads_share_a_device() {
    let options = Options { multiprocessors: Some(4), threads: 2, ..Options::default() };
    let device = Device::emulator_with(&options).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let device = &device;
            scope.spawn(move || {
                for turn in 0..3 {
                    let shape = [64 + 8 * turn, 72, 16 * (1 + (thread + turn) % 4)];
                    is_right_on::<bf16>(device, shape);
                    is_right_on::<f32>(device, shape);
                    is_right_on::<f64>(device, shape);
                    is_right_on::<i8>(device, [3, 65, 200 + thread]);
                }
            });
        }
    });
}

#[test]
fn threads_and_streams_share_a_gpu() {
    let Some(device) = cuda() else { return };
    let _alone = COUNTED.lock();
    let products = products();
    // Modules are loaded and pools have grown before memory is counted.
    assert_eq!(work(&device, THREADS, products.min(500)), 0);
    let before = free_memory();
    let start = std::time::Instant::now();
    let wrong: usize = std::thread::scope(|scope| {
        let run = |thread| {
            let device = &device;
            scope.spawn(move || work(device, thread, products))
        };
        let threads: Vec<_> = (0..THREADS).map(run).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    let seconds = start.elapsed().as_secs_f64();
    assert_eq!(wrong, 0);
    let all = THREADS * products;
    say(&format!("load: {all} products of {THREADS} threads in {seconds:.1} s, none wrong"));
    let after = free_memory();
    // The pool of the streams may keep what it has, as long as that does not grow with the work.
    let kept = before.saturating_sub(after) >> 20;
    say(&format!("load: {kept} MiB less are free than before"));
    assert!(kept < 256, "{kept} MiB");
}

#[test]
fn graphs_give_back_what_their_products_took() {
    let Some(device) = cuda() else { return };
    let _alone = COUNTED.lock();
    // Parts of K whose sums are 128 MiB.
    let gemm = Gemm::<f32>::new().kernel("k02_tiled_16/8");
    let [a, b] = [(2048, 1024), (1024, 2048)]
        .map(|(rows, cols)| device.zeros::<f32>(Shape::new(rows, cols)).unwrap());
    let mut c = device.zeros::<f32>(Shape::new(2048, 2048)).unwrap();
    let stream = device.stream().unwrap();
    // The module is loaded before memory is counted.
    gemm.enqueue(&stream, &a, &b, &mut c).unwrap();
    stream.synchronize().unwrap();
    let before = free_memory();
    let graph = stream.record(|stream| gemm.enqueue(stream, &a, &b, &mut c)).unwrap();
    (0..2).for_each(|_| graph.enqueue(&stream).unwrap());
    stream.synchronize().unwrap();
    drop(graph);
    let kept = before.saturating_sub(free_memory()) >> 20;
    assert!(kept < 64, "{kept} MiB");
}

/// Bytes of the host's memory that the process has.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("a process has a status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it has memory");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") << 10
}

/// The least and the most of what was seen.
struct Range(usize, usize);

impl Range {
    const NONE: Range = Range(usize::MAX, 0);

    fn see(&mut self, value: usize) {
        *self = Range(self.0.min(value), self.1.max(value));
    }

    /// In MiB.
    fn spread(&self) -> usize {
        (self.1 - self.0) >> 20
    }
}

/// `GEMMITE_SOAK` seconds of the same, or three rounds: every product right, the memory of the GPU
/// and of the process constant from the second round on.
#[test]
fn memory_stays_the_same_under_load() {
    let Some(device) = cuda() else { return };
    let _alone = COUNTED.lock();
    let seconds = std::env::var("GEMMITE_SOAK").ok().map(|text| text.parse());
    let seconds: u64 = seconds.transpose().expect("GEMMITE_SOAK is a number").unwrap_or(0);
    let end = std::time::Instant::now() + std::time::Duration::from_secs(seconds);
    let products = if seconds > 0 { 4000 } else { 100 };
    let (mut free, mut host, mut rounds) = (Range::NONE, Range::NONE, 0);
    let start = std::time::Instant::now();
    while rounds < 3 || std::time::Instant::now() < end {
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let device = &device;
                scope.spawn(move || assert_eq!(work(device, thread + rounds, products), 0));
            }
        });
        rounds += 1;
        // Modules are loaded and pools have grown in the first.
        if rounds > 1 {
            free.see(free_memory());
            host.see(resident());
        }
        if rounds % 20 == 0 {
            let (gpu, host, seconds) = (free.spread(), host.spread(), start.elapsed().as_secs());
            say(&format!("soak: {rounds} rounds, {seconds} s, within {gpu} and {host} MiB"));
        }
    }
    let (free, host, all) = (free.spread(), host.spread(), rounds * THREADS * products);
    say(&format!(
        "soak: {all} products in {} s, none wrong; free memory of the GPU within {free} MiB, the \
         process's within {host} MiB",
        start.elapsed().as_secs()
    ));
    assert!(free < 64 && host < 64, "{free} MiB, {host} MiB");
}
