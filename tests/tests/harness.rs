//! The benchmark harness on a GPU: its clock, what it adds, and that a wrong kernel gets no time.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use gemmite::DType;
use gemmite::cuda::Reads;
use gemmite::cuda::cust::{
    self, function::Function, memory::DeviceBuffer, module::Module, stream::Stream,
};
use gemmite_bench::candidates::Entrant;
use gemmite_bench::case::{Case, Data};
use gemmite_bench::gpu::{Gpu, GpuWork, Operands, Watch};
use gemmite_bench::record::{Line, State};
use gemmite_bench::run::{Bench, Options, measure};
use gemmite_bench::suite::Row;
use gemmite_bench::timing::Effort;

const KERNELS: &str = include_str!(env!("DEVICE_FUNCTIONS_SM_70"));

/// The GPU, for one test at a time: what another test runs meanwhile would be timed too.
fn gpu() -> Option<(MutexGuard<'static, ()>, Gpu, Module)> {
    static TURN: Mutex<()> = Mutex::new(());
    gemmite_tests::cuda()?;
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let gpu = Gpu::open(0).unwrap();
    let module = Module::from_ptx(KERNELS, &[]).unwrap();
    Some((turn, gpu, module))
}

fn empty<'a>(function: &'a Function<'_>) -> impl Fn(&Stream) -> anyhow::Result<()> + 'a {
    move |stream| {
        // SAFETY: the kernel takes nothing and does nothing.
        unsafe { stream.launch(function, 1, 1, 0, &[])? };
        Ok(())
    }
}

/// Nothing runs before what is timed.
fn nothing(_: &Stream) -> anyhow::Result<()> {
    Ok(())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

#[test]
fn an_empty_kernel_takes_next_to_nothing() {
    let Some((_turn, gpu, module)) = gpu() else { return };
    let function = module.get_function("empty").unwrap();
    let launch = empty(&function);
    let time = |launches: u32| {
        let all = |stream: &Stream| (0..launches).try_for_each(|_| launch(stream));
        let once = || gpu.time(nothing, all).unwrap();
        once();
        median((0..51).map(|_| once()).collect())
    };
    let (floor, one, many) = (gpu.timer_floor().unwrap(), time(1), time(64) / 64);
    gemmite_tests::say(&format!(
        "timer: {floor:?} between two events, {one:?} around an empty kernel, {many:?} for each of \
         64 in a row"
    ));
    assert!(floor < Duration::from_micros(5), "{floor:?}");
    assert!(one < Duration::from_micros(10), "{one:?}");
    // Launched one by one from the host it would be twice this and more.
    assert!(many < Duration::from_micros(3), "{many:?}");
}

/// Launches `copy_words` over buffers of `words` 16-byte words.
fn copy<'a>(
    function: &'a Function<'_>,
    from: &'a DeviceBuffer<u8>,
    to: &'a DeviceBuffer<u8>,
    words: u64,
) -> impl Fn(&Stream) -> anyhow::Result<()> + 'a {
    let blocks = u32::try_from(words.div_ceil(1024)).unwrap();
    move |stream| {
        let (from, to) = (from.as_device_ptr(), to.as_device_ptr());
        // SAFETY: both buffers hold that many 16-byte words and outlive the work, which `time`
        // waits for.
        unsafe {
            cust::launch!(function<<<blocks, 256, 0, stream>>>(from, to, words))?;
        }
        Ok(())
    }
}

#[test]
fn a_copy_of_known_bytes_is_as_fast_as_a_plain_one() {
    const BYTES: usize = 1 << 30;
    let Some((_turn, gpu, module)) = gpu() else { return };
    let pattern: Vec<u8> = (0..BYTES).map(|i| (i / 16 % 251) as u8).collect();
    let from = DeviceBuffer::from_slice(&pattern).unwrap();
    let to = DeviceBuffer::<u8>::zeroed(BYTES).unwrap();
    let function = module.get_function("copy_words").unwrap();
    let copy = copy(&function, &from, &to, (BYTES / 16) as u64);
    gpu.time(nothing, &copy).unwrap();
    assert!(to.as_host_vec().unwrap() == pattern, "the copy is wrong");
    let time = median((0..30).map(|_| gpu.time(nothing, &copy).unwrap()).collect());
    let ours = 2.0 * BYTES as f64 / time.as_secs_f64() / 1e9;
    let plain = gpu.copy_gbps(BYTES).unwrap();
    gemmite_tests::say(&format!(
        "copy of 1 GiB, bytes read and written: {ours:.0} GB/s by a Rust kernel, {plain:.0} GB/s \
         by the driver, {:.3} of it",
        ours / plain
    ));
    assert!((0.95..1.05).contains(&(ours / plain)), "{ours} and {plain} GB/s");
}

#[test]
fn the_clock_of_the_gpu_agrees_with_the_hosts() {
    const BYTES: usize = 1 << 28;
    let Some((_turn, gpu, module)) = gpu() else { return };
    let from = DeviceBuffer::<u8>::zeroed(BYTES).unwrap();
    let to = DeviceBuffer::<u8>::zeroed(BYTES).unwrap();
    let function = module.get_function("copy_words").unwrap();
    let copy = copy(&function, &from, &to, (BYTES / 16) as u64);
    gpu.time(nothing, &copy).unwrap();
    // Some 400 ms of work, beside which the host's part vanishes.
    let start = Instant::now();
    let by_gpu = gpu.time(nothing, |stream| (0..2000).try_for_each(|_| copy(stream))).unwrap();
    let by_host = start.elapsed();
    let ratio = by_gpu.as_secs_f64() / by_host.as_secs_f64();
    gemmite_tests::say(&format!("clocks: {by_gpu:?} by the GPU, {by_host:?} by the host"));
    // The stream is held until all is enqueued, at most 50 ms.
    assert!((0.8..1.001).contains(&ratio), "{by_gpu:?} by the GPU, {by_host:?} by the host");
}

const N: usize = 500;

fn options() -> Options {
    let effort = Effort { rounds: 5, ..Effort::STANDARD };
    let (peers, kernels, data, reads) = (vec![], vec![], Data::Normal, Reads::InOrder);
    Options { effort, sustained: None, graphs: false, reads, data, peers, kernels, plans: 0 }
}

fn square() -> Row {
    Row::new(DType::F32, "nn".parse().unwrap(), [N; 3]).unwrap()
}

/// Measures `product_with_less`, with so many rows and terms less.
fn with_less(gpu: &Gpu, module: &Module, rows_less: u32, terms_less: u32) -> Line {
    let case = Case::<f32>::generate(square(), Data::Normal).unwrap();
    let operands = Operands::new(gpu, &case).unwrap();
    let function = module.get_function("product_with_less").unwrap();
    let blocks = (N as u32).div_ceil(16);
    let launch = |[a, b, c]: [u64; 3], stream: &Stream| {
        // SAFETY: three matrices of N rows and columns, which outlive the work.
        unsafe {
            cust::launch!(function<<<(blocks, blocks), (16, 16), 0, stream>>>(
                a, b, c, N as u32, rows_less, terms_less
            ))?;
        }
        Ok(())
    };
    let work = GpuWork::new(gpu, &operands, &case, Box::new(launch));
    let entrants = vec![Entrant::peer("product_with_less", String::new(), work)];
    measure("harness", &case, entrants, &options(), None).remove(0)
}

#[test]
fn a_broken_kernel_gets_no_time() {
    let Some((_turn, gpu, module)) = gpu() else { return };
    let right = with_less(&gpu, &module, 0, 0);
    assert_eq!(right.state, State::Timed, "{}", right.note);
    assert!(right.median_ms.unwrap() > 0.0);
    for (rows_less, terms_less, says) in [(1, 0, "was not written"), (0, 1, "are wrong")] {
        let line = with_less(&gpu, &module, rows_less, terms_less);
        gemmite_tests::say(&format!("refused: {}", line.note));
        assert_eq!((line.state, line.median_ms), (State::Refused, None));
        assert!(line.note.contains(says), "{}", line.note);
    }
}

#[test]
fn a_row_is_measured_against_the_peers_that_are_there() {
    let Some((_turn, gpu, module)) = gpu() else { return };
    let copies = Operands::new(&gpu, &Case::<f32>::generate(square(), Data::Normal).unwrap());
    assert!(copies.unwrap().copies() > 10, "operands of 3 MB outgrow no L2 cache alone");
    if let Ok(watch) = Watch::new(&gpu) {
        let (_, seen) = watch.during(|| std::thread::sleep(Duration::from_millis(50)));
        assert!(seen.sm_mhz.is_some() && seen.temp_c.is_some(), "{seen:?}");
    }
    // The module first: unloaded behind the last context, it ends the process.
    drop((module, gpu));
    let bench = Bench::on_gpu(0, &gemmite_bench::candidates::Peer::ON_GPU).unwrap();
    let peers = bench.peers().to_vec();
    let options = Options { peers, kernels: vec!["k01_naive".into()], ..options() };
    let mut odd = Row::new(DType::BF16, "tt".parse().unwrap(), [33, 65, 129]).unwrap();
    odd.batch = 3;
    odd.leading = [40, 130, 70];
    odd.epilogue = "alpha=0.5 beta=-0.5".parse().unwrap();
    for row in [square(), odd] {
        for line in bench.row("harness", row, &options).unwrap() {
            let Line { candidate, state, note, .. } = &line;
            gemmite_tests::say(&format!("{}: {candidate}: {state:?} {note}", line.problem()));
            let failed = matches!(state, State::Failed | State::Refused);
            assert!(!failed, "{candidate}: {note}");
        }
    }
}
