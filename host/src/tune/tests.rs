//! Tunings on emulated GPUs, with times that the tests make up.

use super::*;
use crate::emulator::{Options, ptx_of};
use crate::matrix::Matrix;
use crate::plan::candidates;
use crate::plan::tests::hopper;
use crate::{bf16, random};
use gemm_spec::{Kernel, Op, Precision, Shape};
use proptest::prelude::*;

fn gpu() -> Device {
    emulated(&Options::default())
}

fn emulated(options: &Options) -> Device {
    Device::emulator_with(&Options { arch: (8, 0), ..options.clone() }).unwrap()
}

fn layouts(m: usize, n: usize, k: usize) -> [Layout; 2] {
    [Layout::row_major(Shape::new(m, k)), Layout::row_major(Shape::new(k, n))]
}

/// The last one is the fastest, by far.
fn last_wins(plans: &[Plan]) -> Vec<Result<f64, String>> {
    (0..plans.len()).map(|i| Ok((100 - i) as f64)).collect()
}

/// A tuning of two products for a device.
fn tuning(device: &Device) -> Tuning {
    let mut tuning = Tuning::new(device).unwrap();
    let gemm = Gemm::<f32>::new();
    for sizes in [(20, 24, 130), (5, 40, 64)] {
        let layouts = layouts(sizes.0, sizes.1, sizes.2);
        tuning.add(&tune(device, &gemm, layouts, &mut last_wins).unwrap());
    }
    assert_eq!(tuning.len(), 2);
    tuning
}

#[test]
fn what_was_fastest_is_taken_and_right() {
    let device = gpu();
    let (gemm, [a, b]) = (Gemm::<f32>::new(), layouts(20, 24, 130));
    let model = gemm.plan_on(&device, a, b).unwrap();
    let tuned = tune(&device, &gemm, [a, b], &mut last_wins).unwrap();
    assert_eq!(tuned.measured()[0].plan, model);
    assert!(tuned.best().plan != model && tuned.best() == tuned.measured().last().unwrap());
    // Nothing is taken that has not been asked for.
    assert_eq!(gemm.plan_on(&device, a, b).unwrap(), model);
    let text = tuning(&device).to_string();
    let read: Tuning = text.parse().unwrap();
    assert_eq!((&read, read.to_string()), (&tuning(&device), text));
    device.take_tuning(&read).unwrap();
    assert_eq!(gemm.plan_on(&device, a, b).unwrap(), tuned.best().plan);
    assert_eq!(gemm.plan(device.info(), a, b).unwrap(), model);
    let (of_a, of_b) = (random::normal(a.shape, 1).unwrap(), random::normal(b.shape, 2).unwrap());
    let named = gemm.clone().kernel(&tuned.best().plan);
    let c: Matrix<f32> = gemm.run(&device, &of_a, &of_b).unwrap();
    assert_eq!(c, named.run(&device, &of_a, &of_b).unwrap());
    // Batch invariance and other problems keep their plans.
    let other = gemm.clone().batch_invariant(true);
    assert_eq!(other.plan_on(&device, a, b).unwrap(), other.plan(device.info(), a, b).unwrap());
    device.forget_tuning();
    assert_eq!(gemm.plan_on(&device, a, b).unwrap(), model);
}

#[test]
fn a_file_is_whole_or_an_error() {
    let device = gpu();
    let folder = std::env::temp_dir().join(format!("gemmite-tuning-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("a.txt");
    let written = tuning(&device);
    written.write(&path).unwrap();
    assert_eq!(Tuning::read(&path).unwrap(), written);
    assert_eq!(device.load_tuning(&path).unwrap(), 2);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
    let error = written.write(folder.join("none/b.txt")).unwrap_err();
    assert!(!error.is_tuning() && error.to_string().contains("b.txt"), "{error}");
    assert!(Tuning::read(folder.join("c.txt")).unwrap_err().to_string().contains("c.txt"));
    std::fs::write(&path, [0xff, 0xfe]).unwrap();
    assert!(Tuning::read(&path).unwrap_err().is_tuning());
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn damage_of_any_byte_is_seen() {
    let text = tuning(&gpu()).to_string();
    let refused = |text: &str| match text.parse::<Tuning>() {
        Ok(_) => false,
        Err(error) => error.is_tuning(),
    };
    for end in 0..text.len() {
        assert!(refused(&text[..end]), "cut off at {end}");
    }
    for at in 0..text.len() {
        let mut bytes = text.clone().into_bytes();
        bytes[at] ^= 1;
        assert!(refused(&String::from_utf8(bytes).unwrap()), "byte {at}");
    }
    let doubled = format!("{text}{text}");
    assert!(refused(&doubled) && refused(&format!("{text}\n")) && refused(""));
}

#[test]
fn other_versions_gpus_drivers_and_libraries_are_said() {
    let device = gpu();
    let tuning = tuning(&device);
    let newer = tuning.to_string().replacen("version 3", "version 4", 1);
    let error = newer.parse::<Tuning>().unwrap_err();
    assert!(error.is_tuning() && error.to_string().contains("has version 4"), "{error}");
    let change = |change: &dyn Fn(&mut Origin), says: &str| {
        let mut foreign = tuning.clone();
        change(&mut foreign.origin);
        let error = device.take_tuning(&foreign).unwrap_err();
        assert!(error.is_tuning() && error.to_string().contains(says), "{error}");
        let [a, b] = layouts(20, 24, 130);
        let gemm = Gemm::<f32>::new();
        assert_eq!(gemm.plan_on(&device, a, b).unwrap(), gemm.plan(device.info(), a, b).unwrap());
    };
    change(&|of| of.gpu = "NVIDIA B200".into(), "NVIDIA B200");
    change(&|of| of.capability = (9, 0), "9.0");
    change(&|of| of.multiprocessors = 7, "7");
    change(&|of| of.clusters = 15, "clusters of eight numbering 15");
    change(&|of| of.driver = (13, 0), "CUDA 13.0");
    change(&|of| of.library = "0.0.9 x".into(), "0.0.9");
    let small = emulated(&Options { multiprocessors: Some(3), ..Options::default() });
    assert!(small.take_tuning(&tuning).unwrap_err().is_tuning());
}

#[test]
fn plans_that_the_model_does_not_compare_are_refused() {
    let device = gpu();
    let refused = |change: &dyn Fn(&mut Entry)| {
        let mut forged = tuning(&device);
        change(&mut forged.entries[1]);
        // It is well formed; the device refuses it, and the right plan beside it.
        let forged: Tuning = forged.to_string().parse().unwrap();
        let error = device.take_tuning(&forged).unwrap_err();
        assert!(error.is_tuning() && error.to_string().contains("5x40"), "{error}");
        let (gemm, [a, b]) = (Gemm::<f32>::new(), layouts(20, 24, 130));
        assert_eq!(gemm.plan_on(&device, a, b).unwrap(), gemm.plan(device.info(), a, b).unwrap());
    };
    refused(&|entry| entry.variant = "k99".into());
    refused(&|entry| entry.variant = "k01_naive".into());
    refused(&|entry| entry.variant = "warp_group_64x64".into());
    refused(&|entry| entry.parts = 1_000_000_007);
    refused(&|entry| entry.copied = [true, false]);
    // Nothing lies along K and is none that could be described, but is.
    refused(&|entry| (entry.task.maps, entry.task.unmapped) = (true, Some([true, true])));
}

/// The library's kernels, but one that adds alpha to its sums.
fn wrong(kernel: &str) -> Device {
    let kernel = Kernel::find(kernel, crate::DType::F32).unwrap();
    let text = ptx_of(kernel).replace("mul.rn.f32", "add.rn.f32");
    assert_ne!(text, ptx_of(kernel));
    emulated(&Options { ptx: Some(text.into()), ..Options::default() })
}

#[test]
fn wrong_products_are_neither_timed_nor_taken() {
    let (right, gemm) = (gpu(), Gemm::<f32>::new());
    let sizes = layouts(20, 24, 130);
    let kernel = tune(&right, &gemm, sizes, &mut last_wins).unwrap();
    let kernel = kernel.best().plan.kernel.unwrap().variant;
    let wrong = wrong(kernel);
    let mut timed = Vec::new();
    let mut timer = |plans: &[Plan]| {
        timed = plans.to_vec();
        last_wins(plans)
    };
    let tuned = tune(&wrong, &gemm, sizes, &mut timer).unwrap();
    let is_that = |plan: &Plan| plan.kernel.unwrap().variant == kernel;
    assert!(!timed.is_empty() && !timed.iter().any(is_that));
    assert!(!is_that(&tuned.best().plan));
    let spoiled: Vec<_> = tuned.measured().iter().filter(|of| is_that(&of.plan)).collect();
    assert!(!spoiled.is_empty() && spoiled.iter().all(|of| of.is_wrong && of.micros.is_err()));
    // The same GPU by name, on which the kernel has gone wrong since.
    let error = wrong.take_tuning(&tuning(&right)).unwrap_err();
    assert!(error.is_tuning() && error.to_string().contains(kernel), "{error}");
}

#[test]
fn times_that_are_none_do_not_win() {
    let (device, gemm) = (gpu(), Gemm::<f32>::new());
    let run = |timer: &mut dyn Timer| tune(&device, &gemm, layouts(20, 24, 130), timer);
    let mut odd = |plans: &[Plan]| {
        let times = [Err("failed".into()), Ok(f64::NAN), Ok(-1.0), Ok(0.0), Ok(5.0)];
        times.into_iter().take(plans.len()).collect()
    };
    let tuned = run(&mut odd).unwrap();
    assert_eq!(tuned.best().micros, Ok(5.0));
    assert!(tuned.measured().iter().filter(|of| of.micros.is_ok()).count() == 1);
    assert!(run(&mut |_: &[Plan]| Vec::new()).is_err());
    // Alpha and beta take no part.
    let factors = gemm.clone().alpha(0.0).beta(3.0);
    let tried =
        |gemm: &Gemm<f32>| tune(&device, gemm, layouts(20, 24, 130), &mut last_wins).unwrap();
    assert_eq!(tried(&factors).measured(), tried(&gemm).measured());
    // Within the noise the model's choice stays.
    let mut even = |plans: &[Plan]| -> Vec<_> {
        (0..plans.len()).map(|i| Ok(if i == 0 { 1.009 } else { 1.0 })).collect()
    };
    assert_eq!(run(&mut even).unwrap().best, 0);
}

#[test]
fn what_cannot_be_tuned_is_said() {
    let sizes = layouts(20, 24, 130);
    let error = |device: &Device, gemm: Gemm<f32>, sizes| {
        tune(device, &gemm, sizes, &mut last_wins).unwrap_err().to_string()
    };
    assert!(error(&Device::cpu(), Gemm::new(), sizes).contains("choose a GPU"));
    assert!(Tuning::new(&Device::cpu()).is_err());
    assert!(Device::cpu().take_tuning(&tuning(&gpu())).is_err());
    assert!(error(&gpu(), Gemm::new().kernel("k01_naive"), sizes).contains("named"));
    assert!(error(&gpu(), Gemm::new().batch_invariant(true), sizes).contains("invariance"));
    assert!(error(&gpu(), Gemm::new(), layouts(20, 24, 0)).contains("no sums"));
    assert!(error(&gpu(), Gemm::new(), layouts(20, 0, 5)).contains("no sums"));
    assert!(error(&gpu(), Gemm::new(), layouts(1, 1, 1 << 23)).contains("no check of them"));
}

#[test]
fn copies_are_tried_as_they_will_be_made() {
    let options = Options { arch: (9, 0), multiprocessors: Some(4), ..Options::default() };
    let device = Device::emulator_with(&options).unwrap();
    // Neither rows of 131 elements nor of 201 are at multiples of 16 bytes.
    let (gemm, sizes) = (Gemm::<bf16>::new(), layouts(70, 131, 201));
    let mut copies_win = |plans: &[Plan]| -> Vec<_> {
        plans.iter().map(|plan| Ok(if plan.copied == [true; 2] { 1.0 } else { 9.0 })).collect()
    };
    let tuned = tune(&device, &gemm, sizes, &mut copies_win).unwrap();
    assert_eq!(tuned.best().plan.copied, [true; 2]);
    let mut tuning = Tuning::new(&device).unwrap();
    tuning.add(&tuned);
    device.take_tuning(&tuning.to_string().parse().unwrap()).unwrap();
    assert_eq!(gemm.plan_on(&device, sizes[0], sizes[1]).unwrap(), tuned.best().plan);
}

proptest! {
    /// Every plan of every product can be tried on a small one.
    #[test]
    fn small_products_are_of_the_same_kind(
        (m, n, k) in (1usize..3000, 1usize..3000, 1usize..30_000),
        (ops, aligned, how) in (0usize..4, any::<bool>(), 0usize..3),
    ) {
        let (m, n, k) = if aligned { (m * 16, n * 16, k * 16) } else { (m, n, k) };
        let op = |bit| if ops & bit == 0 { Op::None } else { Op::Transpose };
        let stored = |op, shape: Shape| match op {
            Op::None => Layout::row_major(shape),
            Op::Transpose => Layout::row_major(shape.transposed()),
        };
        let (a, b) = (stored(op(1), Shape::new(m, k)), stored(op(2), Shape::new(k, n)));
        fn check<T: Element>(gemm: &Gemm<T>, a: Layout, b: Layout) {
            let info = hopper();
            let product = gemm.product(a, b).unwrap();
            let task = Task::of(&product.oriented(&KernelChoice::Auto, &info).0, [0, 0]);
            for chosen in candidates(&task, &info) {
                trial::is_alike::<T>(&task, &chosen, &info).unwrap();
            }
        }
        let precision = [Precision::Full, Precision::Tf32, Precision::Bf16x6][how];
        check(&Gemm::<f32>::new().op_a(op(1)).op_b(op(2)).precision(precision), a, b);
        check(&Gemm::<bf16>::new().op_a(op(1)).op_b(op(2)), a, b);
        check(&Gemm::<f64>::new().op_a(op(1)).op_b(op(2)), a, b);
        check(&Gemm::<i8>::new().op_a(op(1)).op_b(op(2)), a, b);
    }
}
