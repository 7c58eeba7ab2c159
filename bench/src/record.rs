//! Record files: what was measured, on what, from which commit.

use crate::timing::Times;
use anyhow::{Context, Result};
use cust::device::Device;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where a measurement was taken.
#[derive(Clone, Debug)]
pub struct Environment {
    /// The GPU's name.
    pub gpu: String,
    /// The driver's own version, from nvidia-smi.
    pub driver: String,
    /// The commit of this program.
    pub commit: String,
    /// The day, in UTC.
    pub date: String,
}

/// One measured candidate.
#[derive(Clone, Debug)]
pub struct Row {
    /// Kernel or peer.
    pub candidate: String,
    /// What it is compared with, and that one's median over its own; `None` for a peer.
    pub baseline: Option<(String, f32)>,
    /// Element type.
    pub dtype: String,
    /// m, n, k.
    pub sizes: [usize; 3],
    /// Its times.
    pub times: Times,
}

impl Environment {
    /// Of this machine and this program. The commit is read from the file BUNDLE beside the
    /// program, as `cargo xtask bundle` writes it, or else from git.
    pub fn read(device: Device) -> Result<Environment> {
        let driver = ask("nvidia-smi", &["--query-gpu=driver_version", "--format=csv,noheader"]);
        Ok(Environment {
            gpu: device.name()?,
            driver: driver.unwrap_or_else(|| "unknown".into()),
            commit: bundled_commit()
                .or_else(|| ask("git", &["describe", "--always", "--dirty", "--abbrev=9"]))
                .unwrap_or_else(|| "unknown".into()),
            date: jiff::Timestamp::now().strftime("%Y-%m-%d").to_string(),
        })
    }

    /// `<folder>/<gpu>/<date>-<commit>-<suite>.csv`
    pub fn path(&self, folder: &Path, suite: &str) -> PathBuf {
        let gpu = self.gpu.to_lowercase().replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        folder.join(gpu).join(format!("{}-{}-{suite}.csv", self.date, self.commit))
    }
}

/// The record as CSV, the environment and the method in comment lines on top.
pub fn csv(environment: &Environment, method: &str, rows: &[Row]) -> String {
    let Environment { gpu, driver, commit, date } = environment;
    let mut text =
        format!("# gpu: {gpu}\n# driver: {driver}\n# commit: {commit}\n# date: {date}\n");
    for line in method.lines() {
        let _ = writeln!(text, "# {line}");
    }
    text.push_str(
        "candidate,dtype,m,n,k,median_ms,p10_ms,p90_ms,rounds,tflops,baseline,speed_ratio\n",
    );
    for row in rows {
        let [m, n, k] = row.sizes;
        let median = row.times.median_ms();
        let tflops = 2.0 * m as f64 * n as f64 * k as f64 / f64::from(median) / 1e9;
        let (baseline, ratio) = match &row.baseline {
            Some((name, ratio)) => (name.as_str(), format!("{ratio:.4}")),
            None => ("", String::new()),
        };
        let _ = writeln!(
            text,
            "{},{},{m},{n},{k},{median:.4},{:.4},{:.4},{},{tflops:.3},{baseline},{ratio}",
            row.candidate,
            row.dtype,
            row.times.quantile_ms(0.1),
            row.times.quantile_ms(0.9),
            row.times.rounds(),
        );
    }
    text
}

/// Writes a record to its place, folders made as needed.
pub fn write(path: &Path, text: &str) -> Result<()> {
    let folder = path.parent().context("a record has a folder")?;
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn bundled_commit() -> Option<String> {
    let program = std::env::current_exe().ok()?;
    let bundle = std::fs::read_to_string(program.parent()?.join("BUNDLE")).ok()?;
    let commit = bundle.lines().find_map(|line| line.strip_prefix("commit: "))?;
    let (hash, state) = commit.trim().split_once(' ').unwrap_or((commit.trim(), ""));
    let short = hash.get(..9).unwrap_or(hash);
    Some(if state.is_empty() { short.to_owned() } else { format!("{short}-{state}") })
}

/// The first line that a program prints, where it is there and succeeds.
fn ask(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.lines().next().unwrap_or("").trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_reads_as_a_table() {
        let environment = Environment {
            gpu: "NVIDIA H100 80GB HBM3".into(),
            driver: "1.2".into(),
            commit: "abc".into(),
            date: "2026-01-02".into(),
        };
        let row = Row {
            candidate: "k".into(),
            baseline: Some(("peer".into(), 1.25)),
            dtype: "f32".into(),
            sizes: [1000, 1000, 1000],
            times: Times::new(vec![2.0]).unwrap(),
        };
        let text = csv(&environment, "two\nlines", &[row]);
        assert!(text.contains("# two\n# lines\ncandidate,"));
        assert!(text.ends_with("k,f32,1000,1000,1000,2.0000,2.0000,2.0000,1,1.000,peer,1.2500\n"));
        let path = environment.path(Path::new("record"), "twins");
        assert_eq!(path, Path::new("record/nvidia-h100-80gb-hbm3/2026-01-02-abc-twins.csv"));
    }
}
