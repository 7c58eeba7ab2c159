//! What a build of cargo's has made, by its messages.

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::Value;
use xshell::Cmd;

/// An executable that cargo built.
pub struct Artifact {
    /// Its package's name.
    pub package: String,
    /// Its target's name, which is its own before cargo adds a hash.
    pub target: String,
    /// Whether it is a test harness, also a program's own.
    pub is_test: bool,
    /// Where it is.
    pub executable: PathBuf,
}

/// Runs a build, and reads of its messages what it has made; errors are printed as ever.
pub fn artifacts(build: Cmd<'_>) -> Result<Vec<Artifact>> {
    let mut artifacts = Vec::new();
    let build = build.arg("--message-format=json-render-diagnostics");
    for line in build.read()?.lines().filter(|line| line.starts_with('{')) {
        let message: Value = serde_json::from_str(line)?;
        if let (Some("compiler-artifact"), Some(path)) =
            (message["reason"].as_str(), message["executable"].as_str())
        {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            artifacts.push(Artifact {
                package: package_name(&message["package_id"])?,
                target: text(&message["target"]["name"]),
                is_test: message["profile"]["test"] == true,
                executable: path.into(),
            });
        }
    }
    Ok(artifacts)
}

/// The name in a package id: `path+file:///x/cli#gemmite-cli@0.1.0`, or
/// `path+file:///x/tests#0.1.0` where the folder has the package's name.
fn package_name(id: &Value) -> Result<String> {
    let id = id.as_str().context("a message without package_id")?;
    let (folder, version) = id.rsplit_once('#').with_context(|| id.to_owned())?;
    Ok(match version.split_once('@') {
        Some((name, _)) => name.to_owned(),
        None => folder.rsplit('/').next().unwrap_or_default().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_ids_have_two_forms() {
        let name = |id: &str| package_name(&Value::from(id)).unwrap();
        assert_eq!(name("path+file:///x/cli#gemmite-cli@0.1.0"), "gemmite-cli");
        assert_eq!(name("path+file:///x/gemm-spec#0.1.0"), "gemm-spec");
    }
}
