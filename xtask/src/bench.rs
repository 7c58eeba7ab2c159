//! Measures and reports with the release profile: hands arguments to the programs that do it.

use anyhow::Result;
use xshell::cmd;

use crate::workspace::Workspace;

/// Arguments for another program.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
    /// Go on as they are; `--help` shows them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

impl Args {
    /// They, as they were given.
    pub fn arguments(&self) -> &[String] {
        &self.arguments
    }
}

/// `gemmite-bench ARGUMENTS`
pub fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let arguments = &args.arguments;
    let package = ["--package", "gemmite-bench"];
    let program = cmd!(workspace.sh, "cargo run --quiet --release {package...} -- {arguments...}");
    Ok(program.quiet().run()?)
}

/// `gemmite report ARGUMENTS`
pub fn report(workspace: &Workspace, args: &Args) -> Result<()> {
    let arguments = &args.arguments;
    let package = ["--package", "gemmite-cli"];
    let program =
        cmd!(workspace.sh, "cargo run --quiet --release {package...} -- report {arguments...}");
    Ok(program.quiet().run()?)
}
