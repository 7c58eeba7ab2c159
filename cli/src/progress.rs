//! A sign of life for work that takes long, where somebody watches.

use std::io::{IsTerminal, stderr};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Work that is done sooner is not worth a line that appears and vanishes.
const PATIENCE: Duration = Duration::from_millis(700);
const TICK: Duration = Duration::from_millis(100);

/// Runs `work`; meanwhile, where stderr is a terminal, shows a spinner with `what` and the time it
/// takes. The line is gone when the work is done.
pub fn watch<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let _spinner = Spinner::begin(what);
    work()
}

/// A spinner that turns until it is dropped. It knows nothing of the work, so that the compiler
/// makes it once and not for each.
struct Spinner(Option<(Sender<()>, JoinHandle<()>)>);

impl Spinner {
    fn begin(what: &str) -> Self {
        let what = what.to_owned();
        Self(stderr().is_terminal().then(|| {
            let (done, is_done) = channel();
            (done, thread::spawn(move || spin(what, &is_done)))
        }))
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        if let Some((done, thread)) = self.0.take() {
            drop(done);
            // A spinner that panicked is no reason to lose the work.
            let _ = thread.join();
        }
    }
}

fn spin(what: String, is_done: &Receiver<()>) {
    let over = |timeout| is_done.recv_timeout(timeout) != Err(RecvTimeoutError::Timeout);
    if over(PATIENCE) {
        return;
    }
    let style = ProgressStyle::with_template("{spinner} {msg} {elapsed}");
    let spinner = ProgressBar::new_spinner()
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
        .with_message(what)
        .with_elapsed(PATIENCE);
    while !over(TICK) {
        spinner.tick();
    }
    spinner.finish_and_clear();
}

/// A bar over `steps` steps of `what`, for work that can say how far it has come.
pub fn bar(what: &str, steps: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {bar:30} {percent:>3}% {elapsed}, {eta} left");
    ProgressBar::new(steps as u64)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        .with_message(what.to_owned())
}
