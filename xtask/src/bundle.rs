//! A folder that runs on a GPU machine without Rust: the command, the tests, and what both need.
//!
//! Everything is built with the release profile, as a user would run it, stripped, and packed as
//! one: programs that all have the library in them are then little more than one of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use xshell::{Shell, cmd};

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
    /// The folder; what is in it goes [default: bundle, in the checkout]
    #[arg(long)]
    out: Option<PathBuf>,
}

pub fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let sh = &workspace.sh;
    let out = begin(workspace, args)?;

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
        write_program(sh, &out.join(name), text)?;
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

/// Empties the bundle's folder, and tells where it is.
fn begin(workspace: &Workspace, args: &Args) -> Result<PathBuf> {
    let out = match &args.out {
        Some(out) => std::path::absolute(out)?,
        None => workspace.root.join("bundle"),
    };
    ensure!(
        !out.exists() || out.join("BUNDLE").exists() || files_under(&out)?.is_empty(),
        "{} is there and is no bundle: choose another folder with --out",
        out.display()
    );
    let sh = &workspace.sh;
    sh.remove_path(&out)?;
    sh.create_dir(out.join("tests"))?;
    // From here on it is one to the next run, wherever this one is cut off.
    sh.write_file(out.join("BUNDLE"), "unfinished\n")?;
    Ok(out)
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

fn write_program(sh: &Shell, path: &Path, text: &str) -> Result<()> {
    sh.write_file(path, text)?;
    Ok(cmd!(sh, "chmod +x {path}").quiet().run()?)
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
    use sha2::{Digest, Sha256};
    use xshell::TempDir;

    /// A folder, in which the shell stands, with the scripts and with programs of these texts.
    fn folder(programs: &[(&str, &str)]) -> (Workspace, TempDir) {
        let sh = Shell::new().unwrap();
        let folder = sh.create_temp_dir().unwrap();
        let root = folder.path().to_owned();
        sh.change_dir(&root);
        sh.write_file("BUNDLE", "commit: none\n").unwrap();
        for (name, text) in SCRIPTS.iter().chain(programs) {
            write_program(&sh, &root.join(name), text).unwrap();
        }
        (Workspace { sh, target_dir: root.join("target"), root }, folder)
    }

    #[test]
    fn a_bundle_that_was_cut_off_is_begun_again() {
        let (workspace, _folder) = folder(&[]);
        let out = workspace.root.join("a");
        let args = Args { out: Some(out.clone()) };
        assert_eq!(begin(&workspace, &args).unwrap(), out);
        begin(&workspace, &args).unwrap();
        workspace.sh.remove_path(out.join("BUNDLE")).unwrap();
        workspace.sh.write_file(out.join("mine"), "").unwrap();
        assert!(begin(&workspace, &args).unwrap_err().to_string().contains("is no bundle"));
        assert!(out.join("mine").exists());
    }

    #[test]
    fn programs_are_unpacked_whole_or_not_at_all() {
        let (workspace, _folder) = folder(&[("gemmite", ""), ("gemmite-bench", "")]);
        let sh = &workspace.sh;
        sh.write_file("tests/a", "first").unwrap();
        // Nothing that can be packed, so that a part of the file is a part of it.
        let bytes = (0..1u32 << 16).flat_map(|i| Sha256::digest(i.to_le_bytes()));
        sh.write_file("tests/b", bytes.collect::<Vec<u8>>()).unwrap();
        pack(&workspace, &workspace.root).unwrap();
        let whole = sh.read_binary_file("programs.tar.xz").unwrap();
        sh.write_file("programs.tar.xz", &whole[..whole.len() / 2]).unwrap();
        cmd!(sh, "./unpack.sh").quiet().ignore_stderr().run().unwrap_err();
        let left = sh.read_dir(".").unwrap();
        assert_eq!(left.len(), SCRIPTS.len() + 2, "{left:?}");
        sh.write_file("programs.tar.xz", whole).unwrap();
        // Again, over what is there.
        for _ in 0..2 {
            cmd!(sh, "./unpack.sh").quiet().run().unwrap();
            assert_eq!(sh.read_file("tests/a").unwrap(), "first");
            assert!(workspace.root.join("gemmite").exists());
        }
    }

    #[test]
    fn a_run_of_no_test_is_a_failure() {
        let test = "#!/bin/sh\n[ \"$1\" = typo ] && n=0\n\
                    echo \"test result: ok. ${n:-1} passed; 0 failed; 0 ignored\"\n";
        let (workspace, _folder) = folder(&[("tests/a", test)]);
        let run = |filter: &str| cmd!(workspace.sh, "./run-tests.sh {filter}").quiet().read();
        let said = run("right").unwrap();
        assert!(said.ends_with("passed 1, failed 0, ignored 0, skipped 0; failing programs: none"));
        run("typo").unwrap_err();
    }

    #[test]
    fn a_sanitizer_that_ran_nothing_is_a_failure() {
        let sanitizer = "#!/bin/sh\ncase \"$*\" in *cuda_f32*) \
                         echo f32 to f32: 12 runs, 3 refused, 0 left out, 0 failed;; esac\n\
                         echo test result: ok\n";
        let gpu = ("nvidia-smi", "#!/bin/sh\necho one\n");
        let (workspace, _folder) =
            folder(&[gpu, ("compute-sanitizer", sanitizer), ("tests/a", "")]);
        let Workspace { sh, root, .. } = &workspace;
        let path = format!("{}:{}", root.display(), std::env::var("PATH").unwrap());
        let run = |dtype: &str| {
            let run = cmd!(sh, "./sanitize.sh memcheck small {dtype}").env("PATH", &path);
            run.quiet().ignore_status().read().unwrap()
        };
        let lines = |said: &str, part| said.lines().filter(|line| line.contains(part)).count();
        let right = run("f32");
        assert_eq!(lines(&right, ": rc 0, "), 3, "{right}");
        let wrong = run("f23");
        assert_eq!(lines(&wrong, ": rc 1, "), 3, "{wrong}");
    }

    #[test]
    fn glibc_versions_are_found_in_binary_text() {
        let bytes = b"\0GLIBC_2.2.5\0xGLIBC_2.34\0GLIBC_PRIVATE\0GLIBC_2.4\0GLIBC_";
        assert_eq!(glibc_versions(bytes).max(), Some((2, 34)));
        assert_eq!(glibc_versions(bytes).count(), 3);
    }
}
