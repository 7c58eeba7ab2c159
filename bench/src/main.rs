//! `gemmite-bench`: measures the suites and writes a record, or compares two records.

use anyhow::{Result, ensure};
use clap::{Parser, Subcommand};
use gemmite_bench::command::{self, MeasureArgs};
use gemmite_bench::record::{self, Line, Record, Side, State};
use gemmite_bench::suite::{GPU_SUITES, Suite};
use gemmite_bench::{compare, environment, run};
use std::io::{self, Write, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Measures kernels against peers in the same run and writes a record.
#[derive(Parser)]
#[command(
    name = "cargo xtask bench",
    bin_name = "cargo xtask bench",
    version,
    args_conflicts_with_subcommands = true,
    max_term_width = 100,
    after_long_help = "\
Examples:
  cargo xtask bench
  cargo xtask bench square llm --against cublaslt,torch
  cargo xtask bench square --sustained 2 --no-record
  cargo xtask bench compare OLD.csv NEW.csv

A candidate whose product is wrong gets no time. A peer that is not on the machine is said to be
missing, in the output and in the record."
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: RunArgs,
}

#[derive(Subcommand)]
enum Command {
    /// Shows which times moved beyond the noise between two records
    Compare {
        /// The earlier record
        before: PathBuf,
        /// The later record
        after: PathBuf,
    },
}

#[derive(clap::Args)]
struct RunArgs {
    /// Suites by name, or CSV files of rows [default: all of a GPU, or `cpu`]
    suites: Vec<String>,
    #[command(flatten)]
    measure: MeasureArgs,
    /// Leave out rows of more than this many billion operations, and say how many
    #[arg(long, value_name = "X")]
    max_gflop: Option<f64>,
    /// Folder of the record files
    #[arg(long, default_value_os_t = record::usual_folder(), value_name = "FOLDER")]
    records: PathBuf,
    /// Print alone, write no record
    #[arg(long, conflicts_with = "records")]
    no_record: bool,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match &cli.command {
        Some(Command::Compare { before, after }) => compare_files(before, after),
        None => run_suites(&cli.run),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // Whoever reads the output has read enough.
            let is_read = error.downcast_ref::<io::Error>();
            if is_read.is_none_or(|error| error.kind() != io::ErrorKind::BrokenPipe) {
                let _ = writeln!(io::stderr(), "error: {error:#}");
            }
            ExitCode::FAILURE
        }
    }
}

fn compare_files(before: &Path, after: &Path) -> Result<bool> {
    let (before, after) = (Record::read(before)?, Record::read(after)?);
    write!(stdout(), "{}", compare::text(&before, &after))?;
    Ok(true)
}

/// The suites of these names, which a record tells apart by theirs.
fn find(names: &[String]) -> Result<Vec<Suite>> {
    let mut suites: Vec<Suite> = Vec::new();
    for name in names {
        let suite = Suite::find(name)?;
        let is_new = suites.iter().all(|known| known.name != suite.name);
        ensure!(
            is_new,
            "two suites are called {}: measure each once, by a name of its own",
            suite.name
        );
        suites.push(suite);
    }
    Ok(suites)
}

/// False where one of our kernels was refused or failed.
fn run_suites(args: &RunArgs) -> Result<bool> {
    let (bench, options) = args.measure.open()?;
    let usual: &[&str] = if matches!(bench, run::Bench::Cpu) { &["cpu"] } else { &GPU_SUITES };
    let names: Vec<String> = if args.suites.is_empty() {
        usual.iter().map(ToString::to_string).collect()
    } else {
        args.suites.clone()
    };
    let suites = find(&names)?;
    let mut record = Record { facts: bench.facts()?, lines: Vec::new() };
    record.facts.extend(environment::facts());
    let mut fact = |key: &str, value: String| record.facts.push((key.into(), value));
    // By name: folders are the machine's own.
    fact("suites", suites.iter().map(|suite| suite.name.as_str()).collect::<Vec<_>>().join(" "));
    fact("data", options.data.to_string());
    run::method(&options).into_iter().for_each(|line| fact("method", line));
    args.measure.beside().into_iter().for_each(|line| fact("method", line));
    let mut rows = Vec::new();
    for suite in &suites {
        let (taken, left_out) = run::within(suite, args.max_gflop);
        if left_out > 0 {
            fact("left_out", format!("{left_out} rows of {}, larger than asked for", suite.name));
        }
        rows.extend(taken.into_iter().map(|row| (suite.name.as_str(), row)));
    }
    ensure!(!rows.is_empty(), "no row is left to measure");
    fact("rows", format!("0 of {}", rows.len()));
    for (key, value) in &record.facts {
        writeln!(stdout(), "{key}: {value}")?;
    }
    let path = if args.no_record { None } else { Some(record.write_new(&args.records)?) };
    for (done, (suite, row)) in rows.iter().enumerate() {
        let lines = bench
            .row(suite, *row, &options)
            .unwrap_or_else(|error| vec![run::failed(suite, row, &error)]);
        let head = format!("{} ({} of {})", lines[0].problem(), done + 1, rows.len());
        write!(stdout(), "\n{suite}: {head}\n{}", command::table(&lines))?;
        stdout().flush()?;
        record.lines.extend(lines);
        if let Some(rows_done) = record.facts.last_mut() {
            rows_done.1 = format!("{} of {}", done + 1, rows.len());
        }
        // After each row: a run that is stopped leaves what it has.
        path.iter().try_for_each(|path| record.write_over(path))?;
    }
    write!(stdout(), "\n{}", command::summary(&record))?;
    if let Some(path) = &path {
        writeln!(stdout(), "\nwritten to {}", path.display())?;
    }
    let spoiled = |line: &&Line| {
        line.side == Side::Ours && matches!(line.state, State::Refused | State::Failed)
    };
    Ok(record.lines.iter().find(spoiled).is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
        let cli = Cli::parse_from(["bench", "compare", "a", "b"]);
        assert!(matches!(cli.command, Some(Command::Compare { .. })));
        assert!(find(&["square".into(), "llm".into()]).is_ok());
        assert!(find(&["square".into(), "suites/square.csv".into()]).is_err());
        let cli = Cli::parse_from(["bench", "square", "--against", "torch,cublas"]);
        assert_eq!(cli.run.suites, ["square"]);
        assert_eq!(cli.run.measure.against.unwrap().len(), 2);
    }
}
