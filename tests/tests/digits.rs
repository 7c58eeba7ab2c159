//! Real input through the command: tests/digits.py, on the CPU and, where there is one, on the GPU.

use gemmite_tests::{cuda, say, skip};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The exit status by which the script says that it has no NumPy or no data, and cannot fetch them.
const UNAVAILABLE: i32 = 77;

/// The folder of the profile that this test was built with: target/debug, as a rule.
fn profile_folder() -> PathBuf {
    let test = std::env::current_exe().expect("a running program has a path");
    let deps = test.parent().expect("a program lies in a folder");
    if deps.ends_with("deps") { deps.parent().expect("deps has a parent") } else { deps }.into()
}

/// The command: `GEMMITE_BIN`, or what cargo builds with this test's profile, or, where there is no
/// cargo, what lies beside this test.
fn gemmite() -> PathBuf {
    if let Some(path) = std::env::var_os("GEMMITE_BIN") {
        return path.into();
    }
    let folder = profile_folder();
    let path = folder.join(format!("gemmite{}", std::env::consts::EXE_SUFFIX));
    if let Some(cargo) = std::env::var_os("CARGO") {
        let profile = match folder.file_name().and_then(|name| name.to_str()) {
            Some("debug") | None => "dev",
            Some(name) => name,
        };
        let mut build = Command::new(cargo);
        // With a test beside it, for which cargo has compiled the library already: of the command
        // alone it would have fewer features.
        build.args(["build", "--quiet", "--workspace", "--bin", "gemmite", "--test", "no_driver"]);
        build.args(["--profile", profile]);
        build.arg("--target-dir").arg(folder.parent().expect("a profile lies in a target folder"));
        build.current_dir(env!("CARGO_MANIFEST_DIR"));
        assert!(build.status().expect("cargo starts").success(), "gemmite-cli does not build");
    }
    assert!(path.is_file(), "{} is missing: set GEMMITE_BIN", path.display());
    path
}

fn script() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("digits.py");
    let beside = profile_folder().join("digits.py");
    [here, beside].into_iter().find(|path| path.is_file()).expect("digits.py lies in tests/")
}

/// What the script says, or `None`, and a counted skip, where there is no Python or nothing to be
/// had for it.
fn run(device: &str) -> Option<Output> {
    let what = format!("the digits on {device}");
    if Command::new("python3").arg("--version").output().is_err() {
        absent(&what, "there is no python3");
        return None;
    }
    let target = profile_folder().parent().map(PathBuf::from).unwrap_or_default();
    let output = Command::new("python3")
        .arg(script())
        .args(["--device", device, "--gemmite"])
        .arg(gemmite())
        .arg("--cache")
        .arg(target.join("pypi"))
        .output()
        .expect("python3 starts, for it has said its version");
    if output.status.code() == Some(UNAVAILABLE) {
        absent(&what, String::from_utf8_lossy(&output.stderr).trim());
        return None;
    }
    Some(output)
}

/// A skip, or a failure where the environment says `GEMMITE_REQUIRE_DIGITS=1`.
fn absent(what: &str, why: &str) {
    let required = std::env::var("GEMMITE_REQUIRE_DIGITS").is_ok_and(|value| value == "1");
    assert!(!required, "{what}: {why}");
    skip(what, why);
}

fn passes_on(device: &str) {
    if let Some(output) = run(device) {
        let said = String::from_utf8_lossy(&output.stdout);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}:\n{said}{complaint}", output.status);
        // Three products in two dtypes, np.cov's besides, and the exact one.
        assert_eq!(said.matches("within the bound").count(), 8, "{said}");
        say(&format!("digits on {device}:\n{}", said.trim_end()));
    }
}

#[test]
fn digits_through_the_command() {
    // One test, so that what has to be fetched and built is fetched and built once.
    passes_on("cpu");
    if cuda().is_some() {
        passes_on("cuda");
    }
}
