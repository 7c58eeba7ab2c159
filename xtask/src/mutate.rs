//! Deletes and alters the kernels' barriers: hands arguments to the program that does it.

use anyhow::Result;
use xshell::cmd;

use crate::bench::Args;
use crate::workspace::{Workspace, hand_over};

/// `mutate ARGUMENTS`
pub fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let arguments = args.arguments();
    let package = ["--package", "gemmite-mutation"];
    hand_over(cmd!(workspace.sh, "cargo run --quiet {package...} -- {arguments...}"))
}
