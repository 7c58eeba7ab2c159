//! A sign of life for work that takes long, where somebody watches.

use std::io::{IsTerminal, stderr};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Work that is done sooner is not worth a line that appears and vanishes.
const PATIENCE: Duration = Duration::from_millis(700);
const TICK: Duration = Duration::from_millis(100);

/// Runs `work`; meanwhile, where stderr is a terminal, shows a spinner with `what` and the time it
/// takes. The line is gone when the work is done.
pub fn watch<T>(what: &str, work: impl FnOnce() -> T) -> T {
    if !stderr().is_terminal() {
        return work();
    }
    thread::scope(|scope| {
        let (done, is_done) = channel::<()>();
        scope.spawn(move || {
            let over = |timeout| is_done.recv_timeout(timeout) != Err(RecvTimeoutError::Timeout);
            if over(PATIENCE) {
                return;
            }
            let style = ProgressStyle::with_template("{spinner} {msg} {elapsed}");
            let spinner = ProgressBar::new_spinner()
                .with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
                .with_message(what.to_owned())
                .with_elapsed(PATIENCE);
            while !over(TICK) {
                spinner.tick();
            }
            spinner.finish_and_clear();
        });
        let result = work();
        drop(done);
        result
    })
}

/// A bar over `steps` steps of `what`, for work that can say how far it has come.
pub fn bar(what: &str, steps: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {bar:30} {percent:>3}% {elapsed}, {eta} left");
    ProgressBar::new(steps as u64)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        .with_message(what.to_owned())
}
