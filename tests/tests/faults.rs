//! Faults of a real GPU: each in a process of its own, which this one starts. What is left behind
//! is looked at from here: the GPU's memory is free again, and the next product is right.

use gemmite::cuda::{RawOperands, Reads, cust};
use gemmite::{Device, Gemm, Layout, Matrix, Shape, matmul, random};
use gemmite_tests::{cuda, say, variants_on};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The fault that a child has to bring about.
const FAULT: &str = "GEMMITE_TEST_FAULT";

/// PTX with a kernel that traps, and one that writes where nothing is.
const KERNELS: &str = "
.version 7.0
.target sm_70
.address_size 64
.visible .entry traps() { trap; }
.visible .entry writes_nowhere() {
    .reg .b64 %rd;
    mov.b64 %rd, 64;
    st.global.u32 [%rd], 1;
    ret;
}
";

fn numbers(rows: usize, cols: usize, seed: u64) -> Matrix<f32> {
    random::integers(Shape::new(rows, cols), seed, -3..=3).unwrap()
}

/// Whether a product on the device is right.
fn is_right(device: &Device) -> bool {
    let (a, b) = (numbers(70, 50, 1), numbers(50, 60, 2));
    matmul(device, &a, &b).unwrap() == matmul(&Device::cpu(), &a, &b).unwrap()
}

/// Bytes of the GPU that are free.
fn free_memory() -> usize {
    let _context = cust::quick_init().expect("there is a GPU");
    cust::memory::mem_get_info().expect("the driver says").0
}

/// This program once more, to bring about a fault.
fn start(fault: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture", "--test-threads", "1"])
        .env(FAULT, fault)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits for a child that must end well, and says what it said.
fn assert_ends_well(child: Child) {
    let output = child.wait_with_output().unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    let lines = text.iter().flat_map(|text| text.lines());
    lines.filter(|line| line.starts_with("fault:")).for_each(say);
    assert!(output.status.success(), "{}\n{}\n{}", output.status, text[0], text[1]);
}

/// The GPU for one test at a time: others would miss what one has taken.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether as much is free as was, within a while and what the driver keeps for itself.
fn assert_given_back(before: usize) {
    let end = Instant::now() + Duration::from_secs(20);
    let missing = || before.saturating_sub(free_memory()) >> 20;
    while missing() > 64 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(200));
    }
    assert!(missing() <= 64, "{} MiB", missing());
}

/// The part of the children, which other tests start; nothing when nobody has asked.
#[test]
fn child() {
    match std::env::var(FAULT).as_deref() {
        Ok("traps") => lose_the_context("traps"),
        Ok("writes_nowhere") => lose_the_context("writes_nowhere"),
        Ok("foreign") => foreign_addresses(),
        Ok("full") => full(),
        Ok("works") => work_for(Duration::from_secs(5)),
        Ok("works on") => work_for(Duration::from_secs(600)),
        Ok("no device") => no_device(),
        Ok(other) => panic!("{other} is no fault"),
        Err(_) => {}
    }
}

/// Products beside a kernel that ends the context: errors from then on, and no panic, no number.
fn lose_the_context(kernel: &str) {
    let device = Device::cuda(0).unwrap();
    let (a, b) = (numbers(300, 200, 1), numbers(200, 100, 2));
    let (on_a, on_b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
    let mut c = device.uninit(Shape::new(300, 100)).unwrap();
    let stream = device.stream().unwrap();
    assert!(is_right(&device));

    let raw = cust::device::Device::get_device(0).unwrap();
    let context = cust::context::Context::new(raw).unwrap();
    let module = cust::module::Module::from_ptx(KERNELS, &[]).unwrap();
    let function = module.get_function(kernel).unwrap();
    let other = cust::stream::Stream::new(cust::stream::StreamFlags::DEFAULT, None).unwrap();
    // SAFETY: no parameters; that the context is lost is what this process is for.
    unsafe { other.launch(&function, (1, 1, 1), (1, 1, 1), 0, &[]).unwrap() };
    assert!(other.synchronize().is_err());
    // What the GPU has lost cannot be given back, and cust would panic over it.
    std::mem::forget((other, module, context));

    // On this thread, and on one that has seen no call fail, so that the launch is the first.
    let mut product = || Gemm::new().run_device(&on_a, &on_b, &mut c).unwrap_err();
    let fresh = std::thread::scope(|scope| scope.spawn(&mut product).join().unwrap());
    assert!(fresh.is_context_lost(), "{fresh}");
    let error = Gemm::new().run_device(&on_a, &on_b, &mut c).unwrap_err();
    assert!(error.is_context_lost(), "{error}");
    say(&format!("fault: {kernel}: {error}"));
    for error in [
        Gemm::<f32>::new().run(&device, &a, &b).unwrap_err(),
        Gemm::new().enqueue(&stream, &on_a, &on_b, &mut c).unwrap_err(),
        c.download().unwrap_err(),
        device.upload(&a).map(drop).unwrap_err(),
        stream.synchronize().unwrap_err(),
    ] {
        assert!(error.is_context_lost(), "{error}");
    }
    // Nor can code be loaded, and that is not the code's fault.
    let layouts = [a.view().layout(), b.view().layout()];
    for kernel in ["k03_thread_column", "k05_vector_loads"] {
        let gemm = Gemm::<f32>::new().kernel(kernel);
        let error = gemm.load(&device, layouts[0], layouts[1]).unwrap_err();
        assert!(error.is_context_lost() && !error.is_jit(), "{error}");
    }
    // Another handle is of the same context.
    if let Ok(again) = Device::cuda(0) {
        assert!(Gemm::<f32>::new().run(&again, &a, &b).unwrap_err().is_context_lost());
    }
    assert_eq!(matmul(&Device::cpu(), &a, &b).unwrap().shape(), Shape::new(300, 100));
}

/// Addresses that nobody has allocated, which `enqueue_raw` cannot know: the error comes with the
/// first wait.
fn foreign_addresses() {
    let device = Device::cuda(0).unwrap();
    assert!(is_right(&device));
    let raw = cust::device::Device::get_device(0).unwrap();
    let context = cust::context::Context::new(raw).unwrap();
    let stream = cust::stream::Stream::new(cust::stream::StreamFlags::DEFAULT, None).unwrap();
    let layout = Layout::row_major(Shape::new(64, 64));
    let operands = RawOperands {
        a: 1 << 40,
        a_layout: layout,
        b: 1 << 41,
        b_layout: layout,
        c: 1 << 42,
        c_layout: layout,
        reads: Reads::InOrder,
    };
    // SAFETY: none; that this is a fault and nothing worse is what this process is for.
    unsafe { Gemm::<f32>::new().enqueue_raw(&device, &stream, operands).unwrap() };
    assert!(stream.synchronize().is_err());
    std::mem::forget((stream, context));
    let a = numbers(64, 64, 1);
    let error = Gemm::<f32>::new().run(&device, &a, &a).unwrap_err();
    assert!(error.is_context_lost(), "{error}");
    say(&format!("fault: foreign addresses: {error}"));
}

/// All of the memory taken, so that the driver has none for a kernel's code: an error of its kind,
/// or a right product, and all is well when memory is free again.
fn full() {
    let device = Device::cuda(0).unwrap();
    let (a, b) = (numbers(70, 50, 1), numbers(50, 60, 2));
    let expected = matmul(&Device::cpu(), &a, &b).unwrap();
    let (on_a, on_b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
    let mut c = device.uninit(expected.shape()).unwrap();
    let (mut taken, mut rows) = (Vec::new(), 1 << 20);
    while rows > 0 {
        match device.uninit::<i32>(Shape::new(rows, 1 << 14)) {
            Ok(matrix) => taken.push(matrix),
            Err(error) => {
                assert!(error.is_out_of_memory(), "{error}");
                rows /= 2;
            }
        }
    }
    let (mut right, mut wrong) = (0, Vec::new());
    for kernel in variants_on(&device) {
        match Gemm::new().kernel(kernel).run_device(&on_a, &on_b, &mut c) {
            Ok(()) => {
                assert_eq!(c.download().unwrap(), expected, "{kernel}");
                right += 1;
            }
            Err(error) if error.is_unsupported() => {}
            Err(error) => {
                assert!(error.is_out_of_memory() && !error.is_jit(), "{error}");
                wrong.push(error.to_string());
            }
        }
    }
    let last = wrong.last().map_or("none refused", String::as_str);
    say(&format!("fault: full: {right} right, {} without memory: {last}", wrong.len()));
    drop(taken);
    assert!(is_right(&device));
}

/// Right products for so long.
fn work_for(time: Duration) {
    let device = Device::cuda(0).unwrap();
    let (a, b) = (numbers(1000, 2000, 1), numbers(2000, 1500, 2));
    let expected = matmul(&Device::cpu(), &a, &b).unwrap();
    say("fault: at work");
    let (end, mut products) = (Instant::now() + time, 0);
    while Instant::now() < end {
        assert_eq!(matmul(&device, &a, &b).unwrap(), expected);
        products += 1;
    }
    say(&format!("fault: {products} products of two processes at a time, all right"));
}

/// A process that is shown no GPU.
fn no_device() {
    let error = Device::cuda(0).unwrap_err();
    say(&format!("fault: no device: {error}"));
    assert!(!error.to_string().is_empty() && is_right(&Device::best()));
}

#[test]
fn a_lost_context_is_an_error_in_its_process_and_nothing_elsewhere() {
    let Some(device) = cuda() else { return };
    let _turn = turn();
    assert!(is_right(&device));
    let before = free_memory();
    for fault in ["traps", "writes_nowhere", "foreign"] {
        assert_ends_well(start(fault));
        assert!(is_right(&device), "{fault}");
        assert_given_back(before);
    }
}

#[test]
fn a_full_gpu_is_an_error_of_its_kind() {
    let Some(device) = cuda() else { return };
    let _turn = turn();
    let before = free_memory();
    assert_ends_well(start("full"));
    assert!(is_right(&device));
    assert_given_back(before);
}

#[test]
fn two_processes_share_a_gpu() {
    let Some(device) = cuda() else { return };
    let _turn = turn();
    let before = free_memory();
    let children = [start("works"), start("works")];
    assert!(is_right(&device));
    children.into_iter().for_each(assert_ends_well);
    assert_given_back(before);
}

#[test]
fn a_process_that_is_killed_leaves_nothing() {
    let Some(device) = cuda() else { return };
    let _turn = turn();
    assert!(is_right(&device));
    let before = free_memory();
    let mut child = start("works on");
    // Until it holds memory, which is when it is at work.
    let end = Instant::now() + Duration::from_secs(30);
    while before.saturating_sub(free_memory()) >> 20 < 100 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(50));
    }
    std::thread::sleep(Duration::from_millis(500));
    assert!(child.try_wait().unwrap().is_none(), "it is still at work");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_given_back(before);
    assert!(is_right(&device));
}

#[test]
fn a_process_without_a_gpu_computes_on_the_cpu() {
    let Some(_) = cuda() else { return };
    let _turn = turn();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child", "--nocapture"]).env(FAULT, "no device");
    command.env("CUDA_VISIBLE_DEVICES", "").stdout(Stdio::piped()).stderr(Stdio::piped());
    assert_ends_well(command.spawn().unwrap());
}

#[test]
fn devices_come_and_go() {
    let Some(device) = cuda() else { return };
    let _turn = turn();
    assert!(is_right(&device));
    drop(device);
    let cycle = || assert!(is_right(&Device::cuda(0).unwrap()));
    (0..20).for_each(|_| cycle());
    let before = free_memory();
    (0..300).for_each(|_| cycle());
    assert_given_back(before);
}
