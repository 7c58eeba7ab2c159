//! The emulator's cases of instructions, on the GPU: it must compute what the emulator computes.
//!
//! A case is one small module of PTX with its input and a bound (ptx-emulator/tests/instructions).
//! Each runs on the GPU and on an emulated GPU of the same compute capability, both with the same
//! poison in the output. Where the bound is an error, the GPU's result is held against the true
//! value, else against the emulator's. All differences are listed at the end, by family and
//! instruction, and any that [`KNOWN`] does not name fails the test. Where the variable
//! `PTX_CONFORMANCE` names a file, it gets every case that differs.

#[allow(dead_code, reason = "the emulator's own tests use the rest")]
#[path = "../../../ptx-emulator/tests/instructions/cases.rs"]
mod cases;
mod gpu;
mod report;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use cases::case::Bound;
use cases::{Case, ENTRY, FAMILIES};
use ptx_emulator::{Arch, Argument, Emulator, Launch, Module, Options};

/// How the names of cases begin that a GPU and the emulator compute differently, and why that may
/// be.
const KNOWN: &[(&str, &str)] = &[];

/// What every byte of the output is before a launch.
const POISON: u8 = 0xa5;

/// What became of a case.
#[derive(Debug, PartialEq)]
pub enum Verdict {
    /// Within the bound.
    Agrees {
        /// Words of the output.
        words: usize,
        /// Those that have other bits than the emulator's.
        other_bits: usize,
    },
    /// Beyond the bound.
    Differs {
        /// Words that are.
        words: usize,
        /// Words of the output.
        of: usize,
        /// The first of them, described.
        first: String,
    },
    /// The driver's compiler refuses the module.
    Refused(String),
    /// The launch failed.
    Failed(String),
    /// The emulator reports something.
    Emulator(String),
    /// The module is for another GPU.
    Skipped(String),
}

/// A case, its family, and what became of it.
pub struct Outcome {
    /// The family's name.
    pub family: &'static str,
    /// The case.
    pub case: Case,
    /// What became of it.
    pub verdict: Verdict,
}

/// The output of a case on an emulated GPU.
fn emulate(case: &Case, (major, minor): (u32, u32)) -> Result<Vec<u8>, String> {
    let text = |error: ptx_emulator::Error| error.to_string();
    let module = Module::parse(&case.ptx).map_err(text)?;
    let arch = Arch::new(major, minor);
    let mut gpu = Emulator::new(Options { arch, threads: 1, ..Options::default() });
    let mut bytes = vec![POISON; case.output_bytes()];
    let input = gpu.allocate(case.input.len() as u64).map_err(text)?;
    let output = gpu.allocate(bytes.len() as u64).map_err(text)?;
    gpu.write(input, &case.input).map_err(text)?;
    gpu.write(output, &bytes).map_err(text)?;
    let arguments = [Argument::from(input), Argument::from(output), Argument::from(case.n)];
    let launch = Launch::new(case.blocks, case.threads);
    gpu.launch(&module, ENTRY, &launch, &arguments).map_err(|report| report.to_string())?;
    gpu.read(output, &mut bytes).map_err(text)?;
    Ok(bytes)
}

/// Words of 8 bytes, the last one filled up with zeros.
fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    })
}

/// Holds the GPU's output against the emulator's, or against the true values.
fn compare(case: &Case, gpu: &[u8], emulator: &[u8]) -> Verdict {
    let mask = case.mask();
    let (mut beyond, mut other_bits, mut first) = (0, 0, None);
    let pairs = words(gpu).zip(words(emulator)).zip(words(&case.expected));
    for (i, ((gpu, emulator), truth)) in pairs.enumerate() {
        if gpu == emulator {
            continue;
        }
        other_bits += 1;
        let within = matches!(case.bound, Bound::Within { .. });
        let expected = if within { truth } else { emulator & mask };
        // Nothing but the result is written.
        if (gpu ^ emulator) & !mask == 0 && case.bound.admits(gpu & mask, expected, mask) {
            continue;
        }
        beyond += 1;
        first.get_or_insert_with(|| {
            let shown = if (gpu ^ emulator) & !mask == 0 { mask } else { u64::MAX };
            let (gpu, emulator) = (gpu & shown, emulator & shown);
            let about =
                if within { format!(", true {:e}", f64::from_bits(truth)) } else { "".into() };
            let operands = case.operands(i);
            format!("GPU {gpu:#x}, emulator {emulator:#x}{about}; word {i}, {}", operands.trim())
        });
    }
    let words = case.output_bytes().div_ceil(8);
    match first {
        Some(first) => Verdict::Differs { words: beyond, of: words, first },
        None => Verdict::Agrees { words, other_bits },
    }
}

/// Runs one case on both.
fn verdict(gpu: &gpu::Gpu, index: usize, case: &Case) -> Verdict {
    let capability = gpu.capability;
    if let Some(target) = gpu::other_target(&case.ptx, capability) {
        return Verdict::Skipped(target);
    }
    let emulated = match std::panic::catch_unwind(|| emulate(case, capability)) {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(error)) => return Verdict::Emulator(error),
        Err(_) => return Verdict::Emulator("a panic".to_owned()),
    };
    match gpu.run(index, case) {
        Ok(bytes) => compare(case, &bytes, &emulated),
        Err(verdict) => verdict,
    }
}

/// Runs every case: modules are compiled and emulated by several threads, and launched one by one.
fn run_all(gpu: &gpu::Gpu) -> Vec<Outcome> {
    let cases: Vec<(&str, Case)> = FAMILIES
        .iter()
        .flat_map(|&(family, make)| make().into_iter().map(move |case| (family, case)))
        .collect();
    let next = AtomicUsize::new(0);
    let verdicts = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get().min(8));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                gpu.make_current();
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some((_, case)) = cases.get(index) else { break };
                    let verdict = verdict(gpu, index, case);
                    verdicts.lock().unwrap().push((index, verdict));
                }
            });
        }
    });
    let mut verdicts = verdicts.into_inner().unwrap();
    verdicts.sort_by_key(|(index, _)| *index);
    let pairs = cases.into_iter().zip(verdicts);
    pairs.map(|((family, case), (_, verdict))| Outcome { family, case, verdict }).collect()
}

#[test]
fn instructions_do_what_the_emulator_does() {
    let Some(device) = gemmite_tests::cuda() else { return };
    let start = std::time::Instant::now();
    let gpu = gpu::Gpu::new(device);
    let outcomes = run_all(&gpu);
    let unknown = report::print(&outcomes, KNOWN, gpu.capability, start.elapsed());
    assert_eq!(unknown, 0, "cases that differ and are not listed in KNOWN");
}

#[test]
fn a_single_wrong_bit_is_found() {
    for case in cases::family("arithmetic").iter().chain(&cases::family("approximations")).take(60)
    {
        let right = emulate(case, (9, 0)).unwrap();
        let agrees = |words, bits| Verdict::Agrees { words, other_bits: bits };
        assert_eq!(compare(case, &right, &right), agrees(right.len() / 8, 0), "{}", case.name);
        let mut wrong = right.clone();
        wrong[7] ^= 0x40; // the sign of f64's exponent, or what is not written of less
        assert!(matches!(compare(case, &wrong, &right), Verdict::Differs { words: 1, .. }));
    }
}
