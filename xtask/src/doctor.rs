//! Says what this machine has of what the project needs, and how to get what is missing.

mod driver;

use std::fmt;
use std::path::PathBuf;

use anyhow::{Result, bail};
use gemm_spec::Target;
use xshell::{Shell, cmd};

use crate::build_ptx;
use crate::nvidia_tools::{PTXAS, in_path};
use crate::workspace::Workspace;

/// One thing that was looked for.
struct Finding {
    what: &'static str,
    state: State,
    /// What was found; or what is missing, what misses it, and the remedy.
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// It is there.
    Found,
    /// `cargo xtask demo` and `cargo test` pass without it.
    Optional,
    /// `cargo xtask demo` or `cargo test` fails without it.
    Missing,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Found => "found",
            State::Optional => "no",
            State::Missing => "MISSING",
        };
        let mut lines = self.text.lines();
        write!(f, "{:16}  {state:7}  {}", self.what, lines.next().unwrap_or_default())?;
        lines.try_for_each(|line| write!(f, "\n{:27}{line}", ""))
    }
}

pub fn run(workspace: &Workspace) -> Result<()> {
    let findings = [
        host_compiler(workspace),
        linker(),
        device_compiler(workspace),
        committed_ptx(workspace),
        python(&workspace.sh),
        assembler(workspace),
        gpu(),
    ];
    for finding in &findings {
        say!("{finding}")?;
    }
    if findings.iter().any(|finding| finding.state == State::Missing) {
        bail!("`cargo xtask demo` and `cargo test` need what is MISSING above");
    }
    Ok(())
}

/// The first line that a command prints.
fn first_line(sh: &Shell, program: &str, args: &[&str]) -> Option<String> {
    let output = cmd!(sh, "{program} {args...}").quiet().ignore_stderr().read().ok()?;
    output.lines().next().map(String::from)
}

fn host_compiler(workspace: &Workspace) -> Finding {
    let version = |program| first_line(&workspace.sh, program, &["--version"]);
    let (state, text) = match (version("rustc"), version("cargo")) {
        (Some(rustc), Some(cargo)) => (State::Found, format!("{rustc}\n{cargo}")),
        _ => (State::Missing, "rustc and cargo 1.95: install them with https://rustup.rs".into()),
    };
    Finding { what: "host compiler", state, text }
}

fn linker() -> Finding {
    let (state, text) = match in_path("cc") {
        Some(path) => (State::Found, path.display().to_string()),
        None => (
            State::Missing,
            "no `cc` in PATH, by which rustc links: install gcc (Debian: package gcc)".into(),
        ),
    };
    Finding { what: "linker", state, text }
}

fn device_compiler(workspace: &Workspace) -> Finding {
    let (state, text) = match build_ptx::device_compiler(workspace) {
        Ok(found) => (State::Found, format!("rustc {}\n{}", found.description(), found.source())),
        // The error names its remedies.
        Err(error) => (State::Missing, format!("{error:#}")),
    };
    Finding { what: "device compiler", state, text }
}

fn committed_ptx(workspace: &Workspace) -> Finding {
    let (state, text) = match build_ptx::stale(workspace) {
        Ok(stale) if stale.is_empty() => (State::Found, "host/ptx is today's".into()),
        Ok(stale) => (
            stale_state(&build_ptx::files(workspace)),
            format!(
                "{}\n`cargo xtask demo` and `cargo xtask build-ptx` build it",
                stale.join("; ")
            ),
        ),
        Err(error) => (State::Missing, format!("{error:#}")),
    };
    Finding { what: "PTX of kernels", state, text }
}

/// Old files do; the library does not compile without them.
fn stale_state(files: &[PathBuf]) -> State {
    if files.iter().all(|path| path.exists()) { State::Optional } else { State::Missing }
}

fn python(sh: &Shell) -> Finding {
    let python = first_line(sh, "python3", &["--version"]);
    let pip = first_line(sh, "python3", &["-m", "pip", "--version"]);
    let (state, text) = match (python, pip) {
        (Some(python), Some(pip)) => (State::Found, format!("{python}\n{pip}")),
        (python, _) => (
            State::Optional,
            format!(
                "{}: `cargo xtask ptxas` fetches NVIDIA's assembler with pip, and one test \
                 compares with NumPy\ninstall them (Debian: packages python3-pip, python3-venv)",
                python.map_or("no python3".into(), |version| format!("{version} without pip")),
            ),
        ),
    };
    Finding { what: "Python", state, text }
}

fn assembler(workspace: &Workspace) -> Finding {
    let cached = Some(PTXAS.cached(workspace)).filter(|path| path.exists());
    let (state, text) = match in_path(PTXAS.name).or(cached) {
        Some(path) => (State::Found, path.display().to_string()),
        None => (State::Optional, "`cargo xtask ptxas` fetches it from PyPI".into()),
    };
    Finding { what: "PTX assembler", state, text }
}

fn gpu() -> Finding {
    let least = Target::ALL.into_iter().map(Target::min_capability).min().unwrap_or_default();
    let (state, text) = match driver::ask() {
        Ok(found) if found.gpus.is_empty() => (State::Optional, no_gpu("the driver has no GPU")),
        Ok(found) => {
            let (major, minor) = found.cuda;
            let mut text = format!("driver for CUDA {major}.{minor}");
            let mut usable = false;
            for (number, gpu) in found.gpus.iter().enumerate() {
                let (major, minor) = gpu.capability;
                let fits = (major as u32, minor as u32) >= least;
                usable |= fits;
                let verdict = if fits { "" } else { ": too old for every kernel" };
                text += &format!("\n{number}: {}, sm_{major}{minor}{verdict}", gpu.name);
            }
            (if usable { State::Found } else { State::Optional }, text)
        }
        Err(error) => (State::Optional, no_gpu(&format!("{error:#}"))),
    };
    Finding { what: "GPU", state, text }
}

fn no_gpu(reason: &str) -> String {
    format!(
        "{reason}\nthe demo computes on the CPU and emulates a GPU; the tests say what they skip\n\
         for a GPU of compute capability 7.0 or later install NVIDIA's driver; no CUDA toolkit"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_files_do_and_missing_ones_do_not() {
        let here = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
        assert_eq!(stale_state(std::slice::from_ref(&here)), State::Optional);
        assert_eq!(stale_state(&[here.with_extension("none"), here]), State::Missing);
    }
}
