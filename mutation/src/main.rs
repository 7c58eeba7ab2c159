//! `cargo xtask mutate`: the score of all kernels, or of some.

use anyhow::{Result, ensure};
use clap::Parser;
use gemm_spec::Kernel;
use gemmite_mutation::{Harmless, Named, Trial};
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
    let kernels = kernels(&args.kernel)?;
    let (mut tried, mut reported, mut wrong, mut unknown, mut stale) = (0, 0, 0, 0, 0);
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
        let named: Vec<Named> = score.stale().collect();
        for of_entry in named.chunk_by(|one, next| one.0 == next.0) {
            let ordinals: Vec<String> = of_entry.iter().map(|of| format!("#{}", of.1)).collect();
            let line = &harmless.entries()[of_entry[0].0].text;
            say(format_args!("  on the list, but found, {}: {line}", ordinals.join(" ")))?;
        }
        stale += named.len();
    }
    let survivors = tried - reported - wrong;
    say(format_args!(
        "{} kernels: {} of {tried} mutants found, {reported} by a report, {wrong} by the product; \
         {} harmless, {unknown} unexplained",
        kernels.len(),
        reported + wrong,
        survivors - unknown,
    ))?;
    ensure!(tried > 0, "there is no barrier, fence or wait in them");
    ensure!(unknown == 0 && stale == 0, "the list of the harmless mutants is not right");
    Ok(())
}

/// The kernels whose names begin so; all where nothing is asked for.
fn kernels(starts: &[String]) -> Result<Vec<&'static Kernel>> {
    let begins = |kernel: &&Kernel, start: &String| kernel.name.starts_with(start);
    for start in starts {
        let is_one = gemm_spec::entries().any(|kernel| begins(&kernel, start));
        ensure!(is_one, "no kernel's name begins with {start}");
    }
    let all = starts.is_empty();
    let wanted = |kernel: &&Kernel| all || starts.iter().any(|start| begins(kernel, start));
    Ok(gemm_spec::entries().filter(wanted).collect())
}

/// Prints a line; a reader that has gone is no error, and the score is told by the exit status.
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
    fn each_name_has_to_be_one() {
        let kernels =
            |starts: &[&str]| kernels(&starts.iter().map(|s| s.to_string()).collect::<Vec<_>>());
        assert!(kernels(&["k02_tiled_16_f", "repack_f16"]).unwrap().len() > 3);
        assert_eq!(kernels(&[]).unwrap().len(), gemm_spec::entries().count());
        assert!(kernels(&["repack_f16", "k99"]).unwrap_err().to_string().ends_with(" k99"));
    }
}
