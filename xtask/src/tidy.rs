//! What a change has to pass: formatting, lints, documentation, dependencies, what a machine can
//! check of the style's rules, and generated pages that are up to date.

mod manifests;
pub mod rust_text;
mod sources;
mod supply;

use std::io::ErrorKind::{InvalidData, NotFound};

use anyhow::{Context, Result, bail};
use xshell::cmd;

use crate::pictures;
use crate::tables;
use crate::workspace::Workspace;

/// A rule that is broken somewhere.
#[derive(Debug, PartialEq)]
struct Violation {
    /// Relative to the root.
    path: String,
    /// From 1.
    line: usize,
    message: String,
}

pub fn run(workspace: &Workspace) -> Result<()> {
    let mut failed = Vec::new();
    let violations = style(workspace)?;
    for violation in &violations {
        say!("{}:{}: {}", violation.path, violation.line, violation.message)?;
    }
    if !violations.is_empty() {
        failed.push(format!("the style, in {} places", violations.len()));
    }

    let dependencies = dependencies(workspace)?;
    for wrong in &dependencies {
        say!("{wrong}")?;
    }
    if !dependencies.is_empty() {
        failed.push("the dependencies (deny.toml)".to_owned());
    }

    let sh = &workspace.sh;
    let doc = |what: &[&str]| {
        cmd!(sh, "cargo doc --workspace --no-deps --all-features {what...}")
            .env("RUSTDOCFLAGS", "-D warnings")
    };
    let commands = [
        ("formatting", cmd!(sh, "cargo fmt --all --check")),
        ("lints", cmd!(sh, "cargo clippy --workspace --all-targets -- -D warnings")),
        (
            "lints with all features",
            cmd!(sh, "cargo clippy --workspace --all-targets --all-features -- -D warnings"),
        ),
        // A program and a library of the same name write the same pages, so each has a run of its
        // own, and the library's stay; where one package has both, the program's are left out.
        ("the programs' documentation", doc(&["--bins", "--exclude", "gemmite-bench"])),
        ("documentation", doc(&["--lib"])),
    ];
    for (what, command) in commands {
        if command.run().is_err() {
            failed.push(what.to_owned());
        }
    }
    if let Err(error) = tables::run(workspace, &tables::Args { check: true }) {
        failed.push(format!("the generated regions: {error:#}"));
    }
    if let Err(error) = pictures::run(workspace, &pictures::Args { check: true }) {
        failed.push(format!("the pictures: {error:#}"));
    }
    if !failed.is_empty() {
        bail!("not tidy: {}", failed.join("; "));
    }
    say!("tidy")?;
    Ok(())
}

/// What deny.toml has against the dependencies.
fn dependencies(workspace: &Workspace) -> Result<Vec<String>> {
    let deny = workspace.sh.read_file(workspace.root.join("deny.toml"))?;
    let metadata = cmd!(workspace.sh, "cargo metadata --locked --format-version 1");
    supply::check(&deny, &metadata.quiet().ignore_stderr().read()?)
}

/// The style's rules, over every file that git tracks or would track.
fn style(workspace: &Workspace) -> Result<Vec<Violation>> {
    // Names as they are, with zeros between them; else git writes some in quotes.
    let listed = cmd!(workspace.sh, "git ls-files -z --cached --others --exclude-standard")
        .quiet()
        .read()
        .context("the style's check asks git which files are the project's")?;
    let mut violations = Vec::new();
    for path in listed.split_terminator('\0') {
        let text = match std::fs::read_to_string(workspace.root.join(path)) {
            Ok(text) => text,
            // Deleted and not yet committed, or not text.
            Err(error) if matches!(error.kind(), NotFound | InvalidData) => continue,
            Err(error) => return Err(error).with_context(|| format!("cannot read {path}")),
        };
        let mut report = |line: usize, message: String| {
            violations.push(Violation { path: path.to_owned(), line, message });
        };
        sources::machine_paths(&text, &mut report);
        if path.ends_with(".rs") {
            let limit = sources::function_limit(path);
            sources::check(&text, limit, &mut report);
        } else if path == "Cargo.toml" {
            manifests::reasons(&text, &mut report);
            manifests::tables(&text, &mut report);
        } else if path.ends_with("/Cargo.toml") {
            manifests::inherited(&text, &mut report);
            manifests::tables(&text, &mut report);
        }
    }
    Ok(violations)
}

#[cfg(test)]
mod tests {
    use super::*;
    use xshell::Shell;

    #[test]
    fn every_file_is_looked_at_or_an_error() {
        let sh = Shell::new().unwrap();
        let folder = sh.create_temp_dir().unwrap();
        let root = folder.path().to_owned();
        sh.change_dir(&root);
        cmd!(sh, "git init --quiet").run().unwrap();
        sh.write_file("naïve name.rs", "fn f() {}\n").unwrap();
        sh.write_file("bytes", [0xff]).unwrap();
        let workspace = Workspace { sh, target_dir: root.join("target"), root };
        let found = style(&workspace).unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].path, "naïve name.rs");
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink("loop", workspace.root.join("loop")).unwrap();
            assert!(style(&workspace).unwrap_err().to_string().contains("cannot read loop"));
        }
    }
}
