//! Where the checkout and its build products are.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

use anyhow::{Context, Result};
use xshell::{Cmd, Shell, cmd};

/// The variable that says where records are, to `gemmite` and to `gemmite-bench`.
const RECORDS: &str = "GEMMITE_RECORDS";

/// The checkout, with a shell whose current folder is its root.
pub struct Workspace {
    /// Runs commands in the root.
    pub sh: Shell,
    /// The root: the folder of the workspace's Cargo.toml.
    pub root: PathBuf,
    /// Cargo's target folder, wherever the user's settings put it.
    pub target_dir: PathBuf,
}

impl Workspace {
    /// Finds the checkout that cargo runs us from.
    pub fn find() -> Result<Self> {
        // Read at run time: one target folder may serve several checkouts.
        let manifest_dir = env::var_os("CARGO_MANIFEST_DIR")
            .context("run this as `cargo xtask`, which says where the checkout is")?;
        let root = Path::new(&manifest_dir).parent().context("xtask has no parent folder")?;
        let sh = Shell::new()?;
        sh.change_dir(root);
        let metadata = cmd!(sh, "cargo metadata --no-deps --format-version 1").quiet().read()?;
        let metadata: serde_json::Value = serde_json::from_str(&metadata)?;
        let target_dir = metadata["target_directory"].as_str().context("no target_directory")?;
        Ok(Workspace { root: root.to_owned(), target_dir: target_dir.into(), sh })
    }

    /// `cargo run OPTIONS -- ARGUMENTS`, which takes relative paths from the folder where the user
    /// stands; only the records, unless the arguments or the user's `GEMMITE_RECORDS` name others,
    /// are the checkout's.
    pub fn run_where_we_stand(&self, options: &[&str], arguments: &[String]) -> Result<()> {
        let sh = Shell::new()?;
        let manifest = self.root.join("Cargo.toml");
        let run =
            cmd!(sh, "cargo run --quiet --manifest-path {manifest} {options...} -- {arguments...}");
        hand_over(run.env(RECORDS, self.records(env::var_os(RECORDS))))
    }

    /// The folder of the records: the user's, if one is set.
    fn records(&self, set: Option<OsString>) -> PathBuf {
        set.map_or_else(|| self.root.join("bench/record"), PathBuf::from)
    }

    /// The committed PTX of an architecture.
    pub fn ptx_file(&self, arch: &str) -> PathBuf {
        self.root.join("host/ptx").join(format!("{arch}.ptx"))
    }

    /// `path` as it is said to people: relative to the root, with slashes.
    pub fn display(&self, path: &Path) -> String {
        slashes(path.strip_prefix(&self.root).unwrap_or(path))
    }
}

/// Runs a program in our place: where it fails we end as it does, and it has said why.
pub fn hand_over(program: Cmd<'_>) -> Result<()> {
    let name = program.to_string();
    let status = Command::from(program).status().with_context(|| name)?;
    if !status.success() {
        exit(status.code().unwrap_or(1));
    }
    Ok(())
}

/// `path` with `/` on every system.
pub fn slashes(path: &Path) -> String {
    let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
    parts.join("/").replacen("//", "/", 1)
}

/// Every file under `dir`, at any depth, in order of name.
pub fn files_under(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let entries = std::fs::read_dir(dir).with_context(|| format!("reading {}", dir.display()))?;
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in entries {
        paths.push(entry?.path());
    }
    paths.sort();
    for path in paths {
        if path.is_dir() {
            files.extend(files_under(&path)?);
        } else {
            files.push(path);
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_records_that_the_user_has_set_is_kept() {
        let sh = Shell::new().unwrap();
        let workspace = Workspace { sh, root: "/w".into(), target_dir: "/w/target".into() };
        assert_eq!(workspace.records(None), Path::new("/w/bench/record"));
        assert_eq!(workspace.records(Some("mine".into())), Path::new("mine"));
    }
}
