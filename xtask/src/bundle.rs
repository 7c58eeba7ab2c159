//! A folder that runs on a GPU machine without Rust: the command, the tests, and what both need.
//!
//! Everything is built with the release profile, as a user would run it, stripped, and packed as
//! one: programs that all have the library in them are then little more than one of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use xshell::cmd;

use crate::artifacts::{Artifact, artifacts};
use crate::nvidia_tools::in_path;
use crate::workspace::{Workspace, files_under, slashes};

/// Packages whose test executables go in; the library's own need no GPU.
const TESTED: [&str; 2] = ["gemmite-cli", "gemmite-tests"];
/// Test executables that stay out: they need no GPU, and the first reads files of the checkout.
const LEFT_OUT: [&str; 2] = ["gemmite-tests-ptx", "gemmite-tests-runner"];
/// Packages whose programs go in.
const PROGRAMS: [&str; 2] = ["gemmite-cli", "gemmite-bench"];
/// The most that a bundle may weigh.
const MAX_BYTES: u64 = 64 << 20;

/// What is run there.
const SCRIPTS: [(&str, &str); 4] = [
    ("unpack.sh", include_str!("bundle/unpack.sh")),
    ("run-tests.sh", include_str!("bundle/run-tests.sh")),
    ("sanitize.sh", include_str!("bundle/sanitize.sh")),
    ("counters.sh", include_str!("bundle/counters.sh")),
];

#[derive(clap::Args)]
pub struct Args {
    /// The folder; what is in it goes
    #[arg(long, default_value = "bundle")]
    out: PathBuf,
}

pub fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let sh = &workspace.sh;
    let out = sh.current_dir().join(&args.out);
    ensure!(
        !out.exists() || out.join("BUNDLE").exists() || files_under(&out)?.is_empty(),
        "{} is there and is no bundle: choose another folder with --out",
        out.display()
    );
    sh.remove_path(&out)?;
    sh.create_dir(out.join("tests"))?;

    let artifacts = built(workspace)?;
    let mut executables = Vec::new();
    for (name, path) in programs(&artifacts)? {
        executables.push((out.join(name), path));
    }
    for (name, path) in tests(&artifacts)? {
        executables.push((out.join("tests").join(name), path));
    }
    for (copy, original) in &executables {
        sh.copy_file(original, copy)?;
    }
    strip(workspace, executables.iter().map(|(copy, _)| copy.as_path()))?;
    copy_sources(workspace, &out)?;
    for (name, text) in SCRIPTS {
        sh.write_file(out.join(name), text)?;
        cmd!(sh, "chmod +x").arg(out.join(name)).quiet().run()?;
    }

    let glibc =
        executables.iter().map(|(copy, _)| newest_glibc(copy)).collect::<Result<Vec<_>>>()?;
    let glibc = glibc.into_iter().max().unwrap_or_default();
    sh.write_file(out.join("BUNDLE"), description(workspace, glibc)?)?;

    pack(workspace, &out)?;
    let files = files_under(&out)?;
    let mut bytes = 0;
    for file in &files {
        bytes += std::fs::metadata(file)?.len();
    }
    say!("{}", sh.read_file(out.join("BUNDLE"))?.trim_end())?;
    say!("{}: {} files, {:.1} MB", out.display(), files.len(), bytes as f64 / 1e6)?;
    ensure!(bytes <= MAX_BYTES, "a bundle may have {} MiB at most", MAX_BYTES >> 20);
    Ok(())
}

/// Builds programs and tests. By one command, so that both have the same features of what they
/// depend on, and it is compiled once.
fn built(workspace: &Workspace) -> Result<Vec<Artifact>> {
    let packages: BTreeSet<&str> = PROGRAMS.into_iter().chain(TESTED).collect();
    let packages = packages.into_iter().flat_map(|name| ["--package", name]);
    let sh = &workspace.sh;
    artifacts(cmd!(sh, "cargo build --release --bins --tests {packages...}"))
}

/// Name and path of each program of [`PROGRAMS`] that was built.
fn programs(artifacts: &[Artifact]) -> Result<BTreeMap<String, &Path>> {
    let is_program = |built: &&Artifact| !built.is_test && PROGRAMS.contains(&&*built.package);
    let mut programs = BTreeMap::new();
    for artifact in artifacts.iter().filter(is_program) {
        programs.insert(artifact.target.clone(), &*artifact.executable);
    }
    ensure!(programs.contains_key("gemmite"), "gemmite-cli built no program called gemmite");
    Ok(programs)
}

/// Name and path of each test executable of [`TESTED`]; the name is the package's and the target's.
fn tests(artifacts: &[Artifact]) -> Result<BTreeMap<String, &Path>> {
    let is_test = |built: &&Artifact| built.is_test && TESTED.contains(&&*built.package);
    let mut tests = BTreeMap::new();
    for artifact in artifacts.iter().filter(is_test) {
        let name = format!("{}-{}", artifact.package, artifact.target);
        if LEFT_OUT.contains(&name.as_str()) {
            continue;
        }
        if let Some(other) = tests.insert(name, &*artifact.executable) {
            bail!("two tests of one package have the name of {}", other.display());
        }
    }
    Ok(tests)
}

fn strip<'a>(workspace: &Workspace, executables: impl Iterator<Item = &'a Path>) -> Result<()> {
    if in_path("strip").is_none() {
        note!("`strip` (package binutils) is not in PATH: the bundle keeps its symbols")?;
        return Ok(());
    }
    let sh = &workspace.sh;
    Ok(cmd!(sh, "strip").args(executables).quiet().run()?)
}

/// Puts all that `unpack.sh` unpacks into one file.
fn pack(workspace: &Workspace, out: &Path) -> Result<()> {
    const PACKED: [&str; 3] = ["gemmite", "gemmite-bench", "tests"];
    let sh = &workspace.sh;
    let _in_out = sh.push_dir(out);
    cmd!(sh, "tar --create --file programs.tar {PACKED...}").quiet().run()?;
    // A window as long as several programs: what they share is there once.
    cmd!(sh, "xz --lzma2=preset=6,dict=64MiB programs.tar")
        .quiet()
        .run()
        .context("xz packs the bundle: it is in the package xz-utils")?;
    for path in PACKED {
        sh.remove_path(path)?;
    }
    Ok(())
}

/// The Python test, at the path that it has here. The peers' sources are in `gemmite-bench`.
fn copy_sources(workspace: &Workspace, out: &Path) -> Result<()> {
    let to = out.join("tests/digits.py");
    Ok(workspace.sh.copy_file(workspace.root.join("tests/digits.py"), to)?)
}

/// The newest glibc symbol version that an executable names. A stripped executable names those
/// alone that it needs.
fn newest_glibc(executable: &Path) -> Result<(u32, u32)> {
    let bytes = std::fs::read(executable)?;
    Ok(glibc_versions(&bytes).max().unwrap_or_default())
}

fn glibc_versions(bytes: &[u8]) -> impl Iterator<Item = (u32, u32)> {
    const NAME: &[u8] = b"GLIBC_";
    let starts = bytes.windows(NAME.len()).enumerate().filter(|(_, window)| *window == NAME);
    starts.filter_map(|(at, _)| {
        let rest = &bytes[at + NAME.len()..];
        let end = rest.iter().position(|b| !b.is_ascii_digit() && *b != b'.')?;
        let mut parts = std::str::from_utf8(&rest[..end]).ok()?.split('.');
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    })
}

fn description(workspace: &Workspace, (major, minor): (u32, u32)) -> Result<String> {
    let sh = &workspace.sh;
    let commit = match cmd!(sh, "git rev-parse HEAD").quiet().ignore_stderr().read() {
        Ok(commit) => {
            let changes = cmd!(sh, "git status --porcelain").quiet().read()?;
            commit + if changes.is_empty() { "" } else { " dirty" }
        }
        Err(_) => "unknown: not a git checkout".into(),
    };
    let compiler = cmd!(sh, "rustc --version --verbose").quiet().read()?;
    let field =
        |name: &str| compiler.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("?");
    let mut text = String::new();
    writeln!(text, "commit: {commit}")?;
    writeln!(text, "compiler: {}", compiler.lines().next().unwrap_or("?"))?;
    writeln!(text, "host: {}", field("host: "))?;
    writeln!(text, "glibc: {major}.{minor} or newer")?;
    for target in gemm_spec::Target::ALL {
        let ptx = workspace.ptx_file(target.arch());
        let header = crate::build_ptx::Header::read(&ptx)?;
        writeln!(text, "{}: {}", slashes(ptx.strip_prefix(&workspace.root)?), header.hash)?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn glibc_versions_are_found_in_binary_text() {
        let bytes = b"\0GLIBC_2.2.5\0xGLIBC_2.34\0GLIBC_PRIVATE\0GLIBC_2.4\0GLIBC_";
        assert_eq!(glibc_versions(bytes).max(), Some((2, 34)));
        assert_eq!(glibc_versions(bytes).count(), 3);
    }
}
