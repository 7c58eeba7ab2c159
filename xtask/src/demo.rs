//! The main job: real matrices multiplied on the best device, checked, timed.
//!
//! With the profile that `cargo test` has, whose crates that multiply, emulate and verify are
//! optimised: what one of the two has compiled the other need not.

use anyhow::Result;
use xshell::cmd;

use crate::build_ptx;
use crate::workspace::Workspace;

#[derive(clap::Args)]
pub struct Args {
    /// Goes to `gemmite demo` as it is: see `cargo xtask demo -- --help`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

pub fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    build_ptx::make_current(workspace)?;
    let args = &args.args;
    cmd!(workspace.sh, "cargo run --package gemmite-cli --bin gemmite -- demo {args...}").run()?;
    Ok(())
}
