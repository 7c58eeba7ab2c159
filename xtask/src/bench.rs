//! Measures and reports with the release profile: hands arguments to the programs that do it.

use anyhow::Result;

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
    workspace.run_where_we_stand(&["--release", "--package", "gemmite-bench"], &args.arguments)
}

/// `gemmite report ARGUMENTS`
pub fn report(workspace: &Workspace, args: &Args) -> Result<()> {
    let arguments = [&["report".to_owned()], &args.arguments[..]].concat();
    workspace.run_where_we_stand(&["--release", "--package", "gemmite-cli"], &arguments)
}
