//! The project's own commands, run as `cargo xtask <command>`: one module a command, and this file
//! chooses.

#[macro_use]
mod say;

mod artifacts;
mod bench;
mod build_ptx;
mod bundle;
mod demo;
mod doctor;
mod fuzz;
mod mutate;
mod nvidia_tools;
mod pictures;
mod ptxas;
mod source_hash;
mod sweep;
mod tables;
mod tidy;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use workspace::Workspace;

/// The project's own commands.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Says what this machine has of what the project needs, with the remedy for what is missing
    Doctor,
    /// Compiles the kernels to the PTX files in host/ptx
    BuildPtx(build_ptx::Args),
    /// Multiplies real matrices on the best device and checks the result
    Demo(demo::Args),
    /// Assembles the PTX for each GPU generation; shows registers, shared memory, spills and
    /// warnings
    Ptxas(ptxas::Args),
    /// Formatting, lints, documentation, the style's sizes, and generated pages
    Tidy,
    /// Measures the suites against every peer on this machine; `bench compare A B` compares records
    Bench(bench::Args),
    /// Deletes or alters each barrier and wait of the kernels' PTX, for the emulator to find
    Mutate(bench::Args),
    /// Wrong inputs for all that reads files, texts, names and layouts
    Fuzz(bench::Args),
    /// Time by tile: a step of the ladder with tiles of your choice
    Sweep(sweep::Args),
    /// Makes a page from a record of `bench`: `gemmite report`
    Report(bench::Args),
    /// Fills the generated regions of README.md and the guide: tables from records, quoted code
    Tables(tables::Args),
    /// Draws the guide's pictures from the table of kernels
    Pictures(pictures::Args),
    /// A folder to run on a GPU machine that has no Rust: the command, the tests and what they need
    Bundle(bundle::Args),
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = note!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    let workspace = Workspace::find()?;
    match command {
        Command::Doctor => doctor::run(&workspace),
        Command::BuildPtx(args) => build_ptx::run(&workspace, &args),
        Command::Demo(args) => demo::run(&workspace, &args),
        Command::Ptxas(args) => ptxas::run(&workspace, &args),
        Command::Tidy => tidy::run(&workspace),
        Command::Bench(args) => bench::run(&workspace, &args),
        Command::Mutate(args) => mutate::run(&workspace, &args),
        Command::Fuzz(args) => fuzz::run(&workspace, &args),
        Command::Sweep(args) => sweep::run(&workspace, &args),
        Command::Report(args) => bench::report(&workspace, &args),
        Command::Tables(args) => tables::run(&workspace, &args),
        Command::Pictures(args) => pictures::run(&workspace, &args),
        Command::Bundle(args) => bundle::run(&workspace, &args),
    }
}
