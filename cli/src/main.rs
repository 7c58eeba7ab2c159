//! The command `gemmite`: multiplies .npy matrices on a GPU or on the CPU, makes test matrices, and
//! shows what the machine has.

mod args;
mod bench;
mod demo;
mod element;
mod engine;
mod explain;
mod generate;
mod info;
mod matmul;
mod output;
mod progress;
mod reference001;
mod report;
mod statistics;
mod tune;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use gemmite_cli::npy;

use args::{Cli, Command, Reference};

fn main() -> ExitCode {
    // clap itself ends the process with 2 on wrong usage.
    let cli = Cli::parse();
    let mut out = Said(io::stdout().lock());
    let result = match &cli.command {
        // Their files are made whether what they say can be written or not.
        Command::Matmul(args) => unread(&mut out, |out| matmul::run(args, out)),
        Command::Generate(args) => unread(&mut out, |out| generate::run(args, out)),
        Command::Bench(args) => bench::run(args, &mut out),
        Command::Report(args) => unread(&mut out, |out| report::run(args, out)),
        Command::Explain(args) => explain::run(args, &mut out),
        Command::Tune(args) => unread(&mut out, |out| tune::run(args, out)),
        Command::Info => info::run(&mut out),
        Command::Demo(args) => match args.reference {
            None => demo::run(args, &mut out),
            Some(Reference::Tiling001) => reference001::run(args, &mut out),
        },
    };
    match result.and_then(|()| Ok(out.flush()?)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Whoever reads the output has read enough (`gemmite info | head -1`): nothing to
            // complain about.
            if !is_broken_pipe(&error) {
                print_error(&error);
            }
            ExitCode::FAILURE
        }
    }
}

/// Standard output, whose errors say that they are its own: a command has files too.
struct Said<W>(W);

fn of_output(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot write to standard output: {error}"))
}

impl<W: Write> Write for Said<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(of_output)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(of_output)
    }
}

/// Runs a command for which a reader that has gone is no error, and any other error of its output
/// one to be told when the rest is done.
fn unread<W: Write>(
    out: &mut W,
    run: impl FnOnce(&mut Unread<'_, W>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut out = Unread { out, failed: None };
    run(&mut out)?;
    Ok(out.failed.map_or(Ok(()), Err)?)
}

/// A writer that takes all.
struct Unread<'a, W> {
    out: &'a mut W,
    /// The first error, but for a reader that has gone.
    failed: Option<io::Error>,
}

impl<W> Unread<'_, W> {
    fn note(&mut self, error: io::Error) {
        if error.kind() != io::ErrorKind::BrokenPipe {
            self.failed.get_or_insert(error);
        }
    }
}

impl<W: Write> Write for Unread<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes).or_else(|error| {
            self.note(error);
            Ok(bytes.len())
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush().or_else(|error| {
            self.note(error);
            Ok(())
        })
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
}

/// The error and, indented, what caused it. Nothing is left to do where stderr is closed.
fn print_error(error: &anyhow::Error) {
    let mut err = io::stderr().lock();
    let _ = writeln!(err, "error: {error}");
    let mut above = error.to_string();
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        // A message that repeats its cause has said it already.
        if !above.contains(&cause) {
            let _ = writeln!(err, "  caused by: {cause}");
        }
        above = cause;
    }
}
