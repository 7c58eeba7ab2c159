//! Measures with the release profile: hands its arguments to the program `gemmite-bench`.

use anyhow::Result;
use xshell::cmd;

use crate::workspace::Workspace;

#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
    /// What `gemmite-bench` takes; `cargo xtask bench --help` shows it
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

pub fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let arguments = &args.arguments;
    let bench =
        cmd!(workspace.sh, "cargo run --quiet --release --package gemmite-bench -- {arguments...}");
    Ok(bench.quiet().run()?)
}
