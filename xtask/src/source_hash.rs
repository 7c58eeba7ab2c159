//! One hash of everything that decides what a PTX file says, except the compiler, which is recorded
//! beside it.
//!
//! In it go, in this order and each with its name and length, so that no two different sets hash
//! alike:
//! - the settings: architecture, PTX version and what `build-ptx` asks of the builder;
//! - of each crate in [`CRATES`]: Cargo.toml, build.rs where there is one, and every .rs file under
//!   src, sorted by path relative to the checkout, with `/` between folders and line ends as `\n`;
//! - name, version and features of the crates from the registry that are compiled into the kernels
//!   or into their procedural macros (`cargo tree` for the device target);
//! - the edition that the root's Cargo.toml gives every crate.
//!
//! So it depends neither on where the checkout lies, nor on the order in which a folder is read,
//! nor on how git wrote line ends. Rebuilding is right whenever it changes; where it changed
//! needlessly (a comment, say), the rebuilt file differs from the old one in its header alone.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};
use xshell::cmd;

use crate::workspace::{Workspace, files_under, slashes};

/// The kernels, what they are built from, and the builder.
pub const CRATES: [&str; 6] =
    ["gpu-kernels", "gemm-spec", "fp8", "cuda_std", "cuda_std/macros", "cuda_builder"];

/// The sources that the kernels' hash covers.
pub struct Sources {
    /// (path relative to the root, with slashes; contents with `\n`), sorted.
    files: Vec<(String, String)>,
    /// One line a registry crate: name, version, features.
    registry: Vec<String>,
}

impl Sources {
    /// Reads them from the checkout.
    pub fn read(workspace: &Workspace) -> Result<Self> {
        let mut files = Vec::new();
        for path in source_files(&workspace.root)? {
            let bytes = std::fs::read(&path).with_context(|| path.display().to_string())?;
            let text = String::from_utf8(bytes).with_context(|| path.display().to_string())?;
            files.push((workspace.display(&path), text));
        }
        // Of the root's manifest only the edition reaches the kernels.
        let manifest = std::fs::read_to_string(workspace.root.join("Cargo.toml"))?;
        let edition = manifest.lines().find(|line| line.starts_with("edition = "));
        files.push(("Cargo.toml".into(), edition.context("no edition in Cargo.toml")?.into()));
        Ok(Self::new(files, registry_crates(workspace)?))
    }

    fn new(mut files: Vec<(String, String)>, mut registry: Vec<String>) -> Self {
        for (_, text) in &mut files {
            *text = text.replace("\r\n", "\n");
        }
        files.sort();
        registry.sort();
        registry.dedup();
        Sources { files, registry }
    }

    /// The hash, in hexadecimal, of these sources built with `settings`.
    pub fn hash(&self, settings: &str) -> String {
        let mut hasher = Sha256::new();
        let mut part = |name: &str, contents: &str| {
            for text in [name, contents] {
                hasher.update((text.len() as u64).to_le_bytes());
                hasher.update(text);
            }
        };
        part("settings", settings);
        for (path, text) in &self.files {
            part(path, text);
        }
        part("registry", &self.registry.join("\n"));
        hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Fails where the compiler read a file of the checkout that is not in the hash.
    pub fn ensure_cover(&self, workspace: &Workspace, used: &[PathBuf]) -> Result<()> {
        for path in used {
            let Ok(relative) = path.strip_prefix(&workspace.root) else { continue };
            if path.starts_with(&workspace.target_dir) {
                continue;
            }
            let relative = slashes(relative);
            ensure!(
                self.files.iter().any(|(known, _)| *known == relative),
                "the kernels are built from {relative}, which the hash in the PTX header does not \
                 cover: add its crate to CRATES in xtask/src/source_hash.rs"
            );
        }
        Ok(())
    }
}

fn source_files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for dir in CRATES.map(|name| root.join(name)) {
        files.push(dir.join("Cargo.toml"));
        files.extend(Some(dir.join("build.rs")).filter(|path| path.exists()));
        let sources = files_under(&dir.join("src"))?;
        files
            .extend(sources.into_iter().filter(|path| path.extension().is_some_and(|e| e == "rs")));
    }
    Ok(files)
}

fn registry_crates(workspace: &Workspace) -> Result<Vec<String>> {
    let tree = cmd!(
        workspace.sh,
        "cargo tree --package gpu-kernels --target nvptx64-nvidia-cuda --edges normal
         --prefix none --no-dedupe --format '{p}|{f}'"
    );
    // Crates of the checkout are printed with their folder, in parentheses; those of the registry
    // without.
    Ok(tree.quiet().read()?.lines().filter(|line| !line.contains('(')).map(String::from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(files: &[(&str, &str)]) -> Sources {
        let files = files.iter().map(|(path, text)| (path.to_string(), text.to_string()));
        Sources::new(files.collect(), vec!["half v2.7.1|".into()])
    }

    #[test]
    fn order_and_line_ends_do_not_matter() {
        let one = sources(&[("a.rs", "fn a() {}\n"), ("b.rs", "fn b() {}\n")]);
        let two = sources(&[("b.rs", "fn b() {}\r\n"), ("a.rs", "fn a() {}\r\n")]);
        assert_eq!(one.hash("sm_70"), two.hash("sm_70"));
    }

    #[test]
    fn names_texts_settings_and_dependencies_matter() {
        let base = sources(&[("a.rs", "x"), ("b.rs", "y")]);
        let others = [
            sources(&[("a.rs", "x"), ("c.rs", "y")]),
            sources(&[("a.rs", "y"), ("b.rs", "x")]),
            sources(&[("a.rs", "xb.rs"), ("", "y")]),
            sources(&[("a.rs", "x")]),
        ];
        for other in others {
            assert_ne!(base.hash("sm_70"), other.hash("sm_70"));
        }
        assert_ne!(base.hash("sm_70"), base.hash("sm_80"));
        let mut newer = sources(&[("a.rs", "x"), ("b.rs", "y")]);
        newer.registry = vec!["half v2.8.0|".into()];
        assert_ne!(base.hash("sm_70"), newer.hash("sm_70"));
    }
}
