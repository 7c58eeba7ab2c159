//! `cargo xtask mutate`: the score of all kernels, or of some.

use anyhow::{Result, ensure};
use clap::Parser;
use gemmite_mutation::{Harmless, Trial};
use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

/// Deletes or alters each barrier, fence and wait in the kernels' PTX in turn; the emulator must
/// report each such mutant, or give a wrong product, or it is on the list of the harmless ones.
#[derive(Parser)]
#[command(name = "cargo xtask mutate", bin_name = "cargo xtask mutate")]
struct Args {
    /// Kernels whose names begin so; may be given more than once [default: all]
    #[arg(long, value_name = "NAME")]
    kernel: Vec<String>,
    /// Mutants that are tried at a time [default: as many as the CPU has cores]
    #[arg(long)]
    jobs: Option<usize>,
    /// Tries every Nth mutant alone
    #[arg(long, default_value_t = 1, value_name = "N")]
    every: usize,
    /// Prints the harmless ones too, with the reasons
    #[arg(long)]
    list: bool,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<()> {
    let harmless = Harmless::of_the_project();
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let jobs = args.jobs.unwrap_or(cores);
    let trial = Trial { harmless: &harmless, jobs, every: args.every.max(1) };
    let wanted = |name: &str| args.kernel.iter().any(|start| name.starts_with(start));
    let all = args.kernel.is_empty();
    let kernels: Vec<_> = gemm_spec::entries().filter(|k| all || wanted(k.name)).collect();
    ensure!(!kernels.is_empty(), "no kernel's name begins with {}", args.kernel.join(" or "));
    let (mut tried, mut reported, mut wrong, mut unknown) = (0, 0, 0, 0);
    let (mut used, mut found) = (BTreeSet::new(), BTreeSet::new());
    for kernel in &kernels {
        let score = trial.run(kernel)?;
        say(&score)?;
        if args.list {
            for survivor in &score.survivors {
                let reason = survivor.entry.map(|entry| &harmless.entries()[entry].reason);
                let reason = reason.map_or("", |reason| reason);
                say(format_args!("  {}: {reason}", survivor.mutant))?;
            }
        }
        tried += score.tried();
        (reported, wrong) = (reported + score.reported, wrong + score.wrong);
        unknown += score.unknown().count();
        used.extend(score.used_entries());
        found.extend(score.found_entries.iter().copied());
    }
    let survivors = tried - reported - wrong;
    say(format_args!(
        "{} kernels: {} of {tried} mutants found, {reported} by a report, {wrong} by the product; \
         {} harmless, {unknown} unexplained",
        kernels.len(),
        reported + wrong,
        survivors - unknown,
    ))?;
    let stale: Vec<&usize> = found.difference(&used).collect();
    for entry in &stale {
        say(format_args!("on the list, but found: {}", harmless.entries()[**entry].text))?;
    }
    ensure!(unknown == 0 && stale.is_empty(), "the list of the harmless mutants is not right");
    Ok(())
}

/// Prints a line; a reader that has gone is no error, and the score is told by the exit status.
fn say(line: impl fmt::Display) -> io::Result<()> {
    match writeln!(io::stdout(), "{line}") {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}
