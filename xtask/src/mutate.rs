//! Deletes and alters the kernels' barriers: hands arguments to the program that does it.

use anyhow::Result;
use xshell::cmd;

use crate::bench::Args;
use crate::workspace::Workspace;

/// `mutate ARGUMENTS`
pub fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let arguments = args.arguments();
    let package = ["--package", "gemmite-mutation"];
    let program = cmd!(workspace.sh, "cargo run --quiet {package...} -- {arguments...}");
    Ok(program.quiet().run()?)
}
