//! Wrong inputs: hands arguments to the program that makes and reads them.

use anyhow::Result;
use xshell::cmd;

use crate::bench::Args;
use crate::workspace::Workspace;

/// `fuzz ARGUMENTS`
pub fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let arguments = args.arguments();
    let package = ["--package", "gemmite-fuzz"];
    let program = cmd!(workspace.sh, "cargo run --quiet {package...} -- {arguments...}");
    Ok(program.quiet().run()?)
}
