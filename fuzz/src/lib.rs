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
use std::io::{self, Write};
use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};
use std::process;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, Once, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Counts the bytes that a program has allocated.
#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// The longest that an input may take, on a machine that has much else to do.
pub const LONGEST: Duration = Duration::from_secs(10);
/// An input that takes as long is not waited for: it may never end.
const HANGS: Duration = Duration::from_secs(30);
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

/// Reads the inputs of these numbers, one after the other, up to the first that fails. One that
/// hangs is printed, and ends the process with 1.
///
/// # Errors
/// The input that fails.
pub fn run(target: &Target, seed: u64, numbers: Range<u64>) -> Result<Summary, Box<Failure>> {
    run_watched(target, seed, numbers, HANGS)
}

fn run_watched(
    target: &Target,
    seed: u64,
    numbers: Range<u64>,
    hangs: Duration,
) -> Result<Summary, Box<Failure>> {
    let seeds = (target.seeds)();
    let failure = |number, reason| {
        let input = input(target, &seeds, seed, number);
        Box::new(Failure { target: target.name, seed, number, input, reason })
    };
    // The number of the input that is being read, and since when.
    let current = Mutex::new(None);
    thread::scope(|scope| {
        // Dropped at the end, which the watch waits for.
        let (_done, is_done) = channel::<()>();
        let (current, failure) = (&current, &failure);
        scope.spawn(move || {
            while is_done.recv_timeout(hangs / 10) == Err(RecvTimeoutError::Timeout) {
                let begun: Option<(u64, Instant)> =
                    *current.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some((number, _)) = begun.filter(|(_, start)| start.elapsed() > hangs) {
                    let failure = failure(number, format!("it takes more than {hangs:?}"));
                    let _ = writeln!(io::stderr(), "error: {failure}");
                    process::exit(1);
                }
            }
        });
        let mut summary = Summary::default();
        for number in numbers {
            let input = input(target, &seeds, seed, number);
            *current.lock().unwrap_or_else(PoisonError::into_inner) =
                Some((number, Instant::now()));
            let of_input = one(target, &input).map_err(|reason| failure(number, reason))?;
            summary.inputs += 1;
            summary.right += of_input.right;
            summary.longest = summary.longest.max(of_input.longest);
            summary.largest = summary.largest.max(of_input.largest);
        }
        Ok(summary)
    })
}

/// The input of that number.
fn input(target: &Target, seeds: &[Vec<u8>], seed: u64, number: u64) -> Vec<u8> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(number);
    mutate::input(&mut rng, seeds, target.words)
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::env;
    use std::process::Command;

    /// Says that this process is the one that hangs.
    const HANG: &str = "GEMMITE_FUZZ_HANG";

    #[test]
    fn an_input_that_hangs_is_printed() {
        if env::var_os(HANG).is_some() {
            fn read(_: &[u8]) -> bool {
                loop {
                    thread::park();
                }
            }
            let target = Target { name: "hangs", what: "", seeds: Vec::new, words: &[], read };
            let ended = run_watched(&target, 7, 5..6, Duration::from_millis(50));
            unreachable!("it does not end: {ended:?}");
        }
        let mut again = Command::new(env::current_exe().unwrap());
        again.args(["--exact", "tests::an_input_that_hangs_is_printed", "--nocapture"]);
        let ran = again.env(HANG, "1").output().unwrap();
        let said = String::from_utf8(ran.stderr).unwrap();
        assert_eq!(ran.status.code(), Some(1), "{said}");
        assert!(said.contains("hangs: input 5 of seed 7 fails: it takes more than 50ms"), "{said}");
    }
}
