//! Wrong inputs: hands arguments to the program that makes and reads them.

use anyhow::Result;
use xshell::cmd;

use crate::bench::Args;
use crate::workspace::{Workspace, hand_over};

/// `fuzz ARGUMENTS`
pub fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let arguments = args.arguments();
    let package = ["--package", "gemmite-fuzz"];
    hand_over(cmd!(workspace.sh, "cargo run --quiet {package...} -- {arguments...}"))
}
