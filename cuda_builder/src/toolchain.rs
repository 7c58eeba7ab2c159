//! The device compiler: a rustc whose sysroot has the sources of `core`, found or fetched.
//!
//! Any rustc with LLVM's NVPTX back end makes PTX, but it has no ready-made `core` for the
//! target, so `core` is compiled along with the kernels and its sources have to be there. They
//! are looked for in this order:
//!
//! 1. the rustc that [`RUSTC_VARIABLE`] names: an error if it will not do;
//! 2. the rustc in use (`RUSTC`, else `rustc` in the search path);
//! 3. the other toolchains of rustup, newest first;
//! 4. Debian and its kin: packages from the distribution's own mirror, unpacked into a cache
//!    folder, without root and without a change to the system.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

mod debian;

/// The environment variable that names the device compiler: the path of a `rustc`.
pub const RUSTC_VARIABLE: &str = "CUDA_BUILDER_RUSTC";
/// The environment variable that names the folder in which a fetched compiler is kept.
pub const CACHE_VARIABLE: &str = "CUDA_BUILDER_CACHE";
/// The oldest rustc that kernels are compiled with, as (major, minor).
pub const OLDEST_RUSTC: (u32, u32) = (1, 95);

/// Why there is no device compiler.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolchainError {
    /// [`RUSTC_VARIABLE`] names something that will not do.
    #[error("{RUSTC_VARIABLE}={}: {reason}", .path.display())]
    Override {
        /// The variable's value.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// No way led to a compiler.
    #[error(
        "no compiler for device code: it takes rustc {}.{} or later with the sources of `core`.\n\
         Tried:\n{}\n\
         Remedies (one is enough):\n  \
         - with rustup: `rustup component add rust-src`\n  \
         - on Debian and its kin: a way to the package mirror, so that the compiler can be \
         fetched (no root needed)\n  \
         - {RUSTC_VARIABLE}=<path of a rustc whose sysroot has lib/rustlib/src/rust/library>",
        OLDEST_RUSTC.0, OLDEST_RUSTC.1,
        .tried.iter().map(|t| format!("  - {t}")).collect::<Vec<_>>().join("\n")
    )]
    NotFound {
        /// One line for each way that was tried: which, and why not.
        tried: Vec<String>,
    },
    /// The cache folder could not be used.
    #[error("{action}")]
    Cache {
        /// What was being done, with the path.
        action: String,
        /// The system's error.
        source: io::Error,
    },
}

/// How the compiler was found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// By [`RUSTC_VARIABLE`].
    Override,
    /// It is the rustc in use.
    InUse,
    /// Another toolchain of rustup's, by name.
    Rustup(String),
    /// Packages of the distribution, unpacked into this folder; with the package version.
    Debian {
        /// The folder.
        root: PathBuf,
        /// The version of the distribution's package.
        version: String,
    },
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Override => write!(f, "named by {RUSTC_VARIABLE}"),
            Source::InUse => write!(f, "the rustc in use, with rust-src"),
            Source::Rustup(name) => write!(f, "rustup's toolchain {name}, with rust-src"),
            Source::Debian { root, version } => {
                write!(f, "the distribution's packages {version}, unpacked in {}", root.display())
            }
        }
    }
}

/// A rustc that can compile device code.
#[derive(Clone, Debug)]
pub struct DeviceToolchain {
    rustc: PathBuf,
    cargo: PathBuf,
    release: String,
    description: String,
    source: Source,
    library_path: Vec<PathBuf>,
}

impl DeviceToolchain {
    /// Finds the device compiler, or fetches it into `cache_dir` (about 140 MB; a line on
    /// standard error says so).
    ///
    /// Concurrent calls, in this process or in others, wait for one another while one fetches.
    ///
    /// # Errors
    /// [`ToolchainError::Override`] if [`RUSTC_VARIABLE`] is set to what will not do;
    /// [`ToolchainError::NotFound`], with both remedies, if no way leads to a compiler.
    pub fn find_or_fetch(cache_dir: &Path) -> Result<DeviceToolchain, ToolchainError> {
        if let Some(path) = env::var_os(RUSTC_VARIABLE).filter(|value| !value.is_empty()) {
            let path = PathBuf::from(path);
            return Self::probe(&path, Vec::new(), Source::Override)
                .map_err(|reason| ToolchainError::Override { path, reason });
        }
        let mut tried = Vec::new();
        let in_use = env::var_os("RUSTC").filter(|value| !value.is_empty());
        let in_use = PathBuf::from(in_use.unwrap_or_else(|| "rustc".into()));
        match Self::probe(&in_use, Vec::new(), Source::InUse) {
            Ok(found) => return Ok(found),
            Err(reason) => tried.push(format!("the rustc in use ({}): {reason}", in_use.display())),
        }
        match Self::other_rustup_toolchain() {
            Some(found) => return Ok(found),
            None => tried.push("rustup's other toolchains: none has rust-src".to_owned()),
        }
        match debian::find_or_fetch(cache_dir) {
            Ok(found) => Ok(found),
            Err(debian::Failure::Cache { action, source }) => {
                Err(ToolchainError::Cache { action, source })
            }
            Err(debian::Failure::Unavailable(reason)) => {
                tried.push(format!("the distribution's packages: {reason}"));
                Err(ToolchainError::NotFound { tried })
            }
        }
    }

    /// Path of the compiler.
    pub fn rustc(&self) -> &Path {
        &self.rustc
    }

    /// The cargo to drive it with: its own where it has one, else the cargo in use.
    pub fn cargo(&self) -> &Path {
        &self.cargo
    }

    /// The release, as `rustc -vV` tells it: `1.96.0`.
    pub fn version(&self) -> &str {
        &self.release
    }

    /// The release with all that decides on the code it makes:
    /// `1.96.0 (ac68faa20 2026-05-25), LLVM 22.1.8`.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// How it was found.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The environment variables with which cargo uses this compiler: `RUSTC`,
    /// `RUSTC_BOOTSTRAP` and, where its shared libraries lie elsewhere, `LD_LIBRARY_PATH`.
    pub fn command_env(&self) -> Vec<(OsString, OsString)> {
        let mut variables = vec![
            ("RUSTC".into(), self.rustc.clone().into_os_string()),
            // Device code needs unstable features (`abi_ptx`, inline assembly for PTX), which a
            // stable rustc only opens to those who set this.
            ("RUSTC_BOOTSTRAP".into(), "1".into()),
        ];
        variables.extend(library_variable(&self.library_path));
        variables
    }

    /// Asks the rustc at `path` what it is. The error says why it will not do.
    fn probe(path: &Path, library_path: Vec<PathBuf>, source: Source) -> Result<Self, String> {
        let sysroot = ask(path, &library_path, &["--print", "sysroot"])?;
        let sysroot = PathBuf::from(sysroot.trim());
        if sysroot.as_os_str().is_empty() {
            return Err("it names no sysroot, so it is no rustc".to_owned());
        }
        if !has_sources(&sysroot) {
            return Err(format!("no sources of `core` in its sysroot {}", sysroot.display()));
        }
        // A rustup proxy picks a toolchain by the folder it runs in; the real compiler does not.
        let real = sysroot.join("bin").join(format!("rustc{}", env::consts::EXE_SUFFIX));
        let rustc = if real.is_file() { real } else { path.to_owned() };
        let about = ask(&rustc, &library_path, &["-vV"])?;
        let release = field(&about, "release").ok_or("`rustc -vV` names no release")?;
        match release_number(release) {
            Some(number) if number >= OLDEST_RUSTC => {}
            _ => return Err(format!("rustc {release} is too old")),
        }
        let line = about.lines().next().unwrap_or_default();
        let line = line.strip_prefix("rustc ").unwrap_or(line);
        let llvm = field(&about, "LLVM version").unwrap_or("unknown");
        let own_cargo = sysroot.join("bin").join(format!("cargo{}", env::consts::EXE_SUFFIX));
        let cargo = if own_cargo.is_file() { own_cargo } else { crate::cargo::cargo_in_use() };
        Ok(Self {
            release: release.to_owned(),
            description: format!("{line}, LLVM {llvm}"),
            rustc,
            cargo,
            source,
            library_path,
        })
    }

    /// The newest of rustup's toolchains that will do.
    fn other_rustup_toolchain() -> Option<Self> {
        let home = env::var_os("RUSTUP_HOME")
            .map(PathBuf::from)
            .or_else(|| env::var_os("HOME").map(|home| PathBuf::from(home).join(".rustup")))?;
        let toolchains = fs::read_dir(home.join("toolchains")).ok()?;
        toolchains
            .flatten()
            .filter(|entry| has_sources(&entry.path()))
            .filter_map(|entry| {
                let name = entry.file_name().to_string_lossy().into_owned();
                let rustc =
                    entry.path().join("bin").join(format!("rustc{}", env::consts::EXE_SUFFIX));
                Self::probe(&rustc, Vec::new(), Source::Rustup(name)).ok()
            })
            .max_by_key(|toolchain| release_number(&toolchain.release))
    }
}

/// Where a fetched compiler is kept: the folder that [`CACHE_VARIABLE`] names, else
/// `device-toolchain` in cargo's target folder.
pub fn default_cache(target_dir: &Path) -> PathBuf {
    match env::var_os(CACHE_VARIABLE).filter(|value| !value.is_empty()) {
        Some(folder) => folder.into(),
        None => target_dir.join("device-toolchain"),
    }
}

fn has_sources(sysroot: &Path) -> bool {
    sysroot.join("lib/rustlib/src/rust/library/core/src/lib.rs").is_file()
}

/// `LD_LIBRARY_PATH` with these folders before what it has already.
fn library_variable(folders: &[PathBuf]) -> Option<(OsString, OsString)> {
    if folders.is_empty() {
        return None;
    }
    let present = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let present = env::split_paths(&present).filter(|path| !path.as_os_str().is_empty());
    let joined = env::join_paths(folders.iter().cloned().chain(present)).ok()?;
    Some(("LD_LIBRARY_PATH".into(), joined))
}

/// Standard output of `rustc` with these arguments.
fn ask(rustc: &Path, library_path: &[PathBuf], arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(rustc)
        .args(arguments)
        .envs(library_variable(library_path))
        .output()
        .map_err(|error| format!("cannot be run: {error}"))?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        return Err(format!("`rustc {}` fails: {}", arguments.join(" "), message.trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The value of `name: value` in the output of `rustc -vV`.
fn field<'a>(about: &'a str, name: &str) -> Option<&'a str> {
    about.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// (1, 96) of `1.96.0+dfsg1-1` or `1.98.0-nightly`.
fn release_number(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_read() {
        assert_eq!(release_number("1.96.0"), Some((1, 96)));
        assert_eq!(release_number("1.98.0-nightly"), Some((1, 98)));
        assert_eq!(release_number("1.96.0+dfsg1-1~deb12u2"), Some((1, 96)));
        assert_eq!(release_number("nightly"), None);
        assert_eq!(
            field("rustc 1\nrelease: 1.96.0\nLLVM version: 22.1.8\n", "release"),
            Some("1.96.0")
        );
    }

    #[test]
    fn the_error_names_every_way_out() {
        let error = ToolchainError::NotFound { tried: vec!["the rustc in use: no".to_owned()] };
        let text = error.to_string();
        for part in [
            "  - the rustc in use: no\n",
            "rustup component add rust-src",
            "CUDA_BUILDER_RUSTC",
            "Debian",
        ] {
            assert!(text.contains(part), "{part:?} is not in:\n{text}");
        }
    }
}
