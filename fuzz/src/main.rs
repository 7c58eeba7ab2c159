//! `cargo xtask fuzz`: reads inputs of all targets or of some, and counts them.

use anyhow::{Context, Result, ensure};
use clap::Parser;
use gemmite_fuzz::{Target, run, targets};
use std::fmt;
use std::io::{self, Write};
use std::ops::Range;
use std::process::ExitCode;
use std::time::Instant;

/// Reads wrong inputs, which are made of right ones: none may panic, hang, take much memory or give
/// a wrong answer. The same seed gives the same inputs everywhere.
#[derive(Parser)]
#[command(name = "cargo xtask fuzz", bin_name = "cargo xtask fuzz")]
struct Args {
    /// Targets [default: all]
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    /// Inputs of each
    #[arg(long, default_value_t = 10_000)]
    inputs: u64,
    /// What the inputs are drawn from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The number of the first input
    #[arg(long, default_value_t = 0)]
    from: u64,
}

fn main() -> ExitCode {
    match fuzz(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The inputs' numbers, of which there are some.
fn numbers(args: &Args) -> Result<Range<u64>> {
    ensure!(args.inputs > 0, "--inputs: at least 1");
    let end = args.from.checked_add(args.inputs);
    Ok(args.from..end.context("--from: so many numbers there are not behind it")?)
}

fn fuzz(args: &Args) -> Result<()> {
    let numbers = numbers(args)?;
    let named = args.targets.iter().map(|name| {
        let names: Vec<&str> = targets::ALL.iter().map(|target| target.name).collect();
        targets::find(name).with_context(|| format!("no target {name:?}: {}", names.join(", ")))
    });
    let mut chosen: Vec<&Target> = named.collect::<Result<_>>()?;
    if chosen.is_empty() {
        chosen = targets::ALL.iter().collect();
    }
    for target in chosen {
        let start = Instant::now();
        let summary = run(target, args.seed, numbers.clone())?;
        say(format_args!(
            "{:<9} {} inputs of seed {}, {} right, none failed; the longest {:.0} ms, the largest \
             {:.1} MiB; {:.0} s ({})",
            target.name,
            summary.inputs,
            args.seed,
            summary.right,
            summary.longest.as_secs_f64() * 1e3,
            summary.largest as f64 / (1 << 20) as f64,
            start.elapsed().as_secs_f64(),
            target.what
        ))?;
    }
    Ok(())
}

/// Prints a line; a reader that has gone is no error, and the exit status tells what was found.
fn say(line: impl fmt::Display) -> io::Result<()> {
    match writeln!(io::stdout(), "{line}") {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_no_input_is_refused() {
        let numbers = |line: &str| numbers(&Args::parse_from(line.split(' ')));
        assert_eq!(numbers("fuzz --from 7 --inputs 2").unwrap(), 7..9);
        assert!(numbers("fuzz --inputs 0").is_err());
        assert!(numbers("fuzz --from 18446744073709551615").is_err());
    }
}
