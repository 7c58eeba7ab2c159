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
    let mut out = io::stdout().lock();
    let result = match &cli.command {
        // Their files are made whether anyone reads what they say or not.
        Command::Matmul(args) => matmul::run(args, &mut Unread(&mut out)),
        Command::Generate(args) => generate::run(args, &mut Unread(&mut out)),
        Command::Bench(args) => bench::run(args, &mut out),
        Command::Report(args) => report::run(args, &mut Unread(&mut out)),
        Command::Explain(args) => explain::run(args, &mut out),
        Command::Tune(args) => tune::run(args, &mut Unread(&mut out)),
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

/// A writer for which a reader that has gone is no error.
struct Unread<W>(W);

impl<W: Write> Write for Unread<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(bytes.len()),
            done => done,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.0.flush() {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            done => done,
        }
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
