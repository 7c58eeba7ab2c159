//! The main job: real matrices multiplied on the best device, checked, timed.
//!
//! With the profile that `cargo test` has, whose crates that multiply, emulate and verify are
//! optimised, and with the features that it unites: what one of the two has compiled the other need
//! not.

use anyhow::{Context, Result};
use xshell::cmd;

use crate::artifacts::artifacts;
use crate::build_ptx;
use crate::workspace::{Workspace, hand_over};

#[derive(clap::Args)]
pub struct Args {
    /// Goes to `gemmite demo` as it is: see `cargo xtask demo -- --help`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

pub fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    build_ptx::make_current(workspace)?;
    // Cargo unites the features that tests ask for where it builds one; this is the smallest.
    const BUILD: [&str; 5] = ["--workspace", "--bin", "gemmite", "--test", "no_driver"];
    let sh = &workspace.sh;
    let built = artifacts(cmd!(sh, "cargo build {BUILD...}"))?;
    let gemmite = built.iter().find(|built| built.target == "gemmite" && !built.is_test);
    let gemmite = &gemmite.context("cargo built no program called gemmite")?.executable;
    let args = &args.args;
    hand_over(cmd!(sh, "{gemmite} demo {args...}"))
}
