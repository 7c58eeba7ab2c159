//! Fuzzing by ordinary programs: a [`Target`] takes bytes, whatever they are, and returns.
//!
//! An input is made from a seed and its number and nothing else, so that what fails here fails on
//! every machine. An input fails by a panic, by more than [`LONGEST`], or by more than
//! [`LARGEST`] bytes of memory. Targets that find a wrong answer panic.

pub mod bytes;
pub mod mutate;
pub mod targets;

use peak_alloc::PeakAlloc;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::cell::RefCell;
use std::fmt;
use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;
use std::time::{Duration, Instant};

/// Counts the bytes that a program has allocated.
#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// The longest that an input may take, on a machine that has much else to do.
pub const LONGEST: Duration = Duration::from_secs(10);
/// The most bytes that an input may have allocated at a time: an emulated GPU's table of pages for
/// all of its 16 GiB, twice, and what is small.
pub const LARGEST: usize = 384 << 20;

/// Something that reads bytes of unknown origin.
pub struct Target {
    /// As the command line has it.
    pub name: &'static str,
    /// What it reads, in a few words.
    pub what: &'static str,
    /// Right inputs, from which wrong ones are made.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Words of its language.
    pub words: &'static [&'static str],
    /// Reads an input; whether it was a right one.
    pub read: fn(&[u8]) -> bool,
}

/// What became of some inputs of a target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// How many there were.
    pub inputs: u64,
    /// How many of them the target took for right.
    pub right: u64,
    /// The longest time of one.
    pub longest: Duration,
    /// The most bytes that one had allocated.
    pub largest: usize,
}

/// An input that fails.
#[derive(Debug)]
pub struct Failure {
    /// The target's name.
    pub target: &'static str,
    /// By which it can be made again.
    pub seed: u64,
    /// Its number.
    pub number: u64,
    /// The bytes.
    pub input: Vec<u8>,
    /// What is wrong.
    pub reason: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { target, seed, number, input, reason } = self;
        let text: String =
            input.iter().take(2000).map(|byte| byte.escape_ascii().to_string()).collect();
        write!(
            f,
            "{target}: input {number} of seed {seed} fails: {reason}\n\
             `cargo xtask fuzz {target} --seed {seed} --from {number} --inputs 1` makes it \
             again; it is\n{text}"
        )
    }
}

impl std::error::Error for Failure {}

/// Reads the inputs of these numbers, one after the other, up to the first that fails.
///
/// # Errors
/// The input that fails.
pub fn run(target: &Target, seed: u64, numbers: Range<u64>) -> Result<Summary, Box<Failure>> {
    let seeds = (target.seeds)();
    let mut summary = Summary::default();
    for number in numbers {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(number);
        let input = mutate::input(&mut rng, &seeds, target.words);
        match one(target, &input) {
            Ok(of_input) => {
                summary.inputs += 1;
                summary.right += of_input.right;
                summary.longest = summary.longest.max(of_input.longest);
                summary.largest = summary.largest.max(of_input.largest);
            }
            Err(reason) => {
                let target = target.name;
                return Err(Box::new(Failure { target, seed, number, input, reason }));
            }
        }
    }
    Ok(summary)
}

/// Reads one input.
///
/// # Errors
/// What is wrong with it.
pub fn one(target: &Target, input: &[u8]) -> Result<Summary, String> {
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let start = Instant::now();
    let right = caught(|| (target.read)(input))?;
    let longest = start.elapsed();
    let largest = MEMORY.peak_usage().saturating_sub(before);
    if longest > LONGEST {
        return Err(format!("it takes {longest:?}"));
    }
    if largest > LARGEST {
        return Err(format!("it takes {largest} bytes of memory"));
    }
    Ok(Summary { inputs: 1, right: u64::from(right), longest, largest })
}

thread_local! {
    /// What the last panic of this thread said, where one is being waited for.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// What `read` returns, or what it panics with.
fn caught(read: impl FnOnce() -> bool) -> Result<bool, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let waited = PANIC.with_borrow_mut(|last| {
                last.as_mut().map(|last| *last = info.to_string()).is_some()
            });
            if !waited {
                before(info);
            }
        }));
    });
    PANIC.set(Some(String::from("a panic of another thread")));
    let read = panic::catch_unwind(AssertUnwindSafe(read));
    let message = PANIC.take().unwrap_or_default();
    read.map_err(|_| message)
}
