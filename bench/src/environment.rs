//! Facts about the machine and the program for the head of a record.

use std::process::Command;

/// When, from which commit, and on what processor.
pub fn facts() -> Vec<(String, String)> {
    let commit = bundled_commit().or_else(checkouts_commit);
    let now = jiff::Timestamp::now();
    let threads = std::thread::available_parallelism().map_or(0, usize::from);
    [
        ("date", now.strftime("%Y-%m-%d").to_string()),
        ("started", now.strftime("%H:%M UTC").to_string()),
        ("commit", commit.unwrap_or_else(|| "unknown".into())),
        ("cpu", format!("{}, {threads} threads", cpu().unwrap_or_else(|| "unknown".into()))),
        ("system", format!("{} {}", std::env::consts::OS, std::env::consts::ARCH)),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .to_vec()
}

fn cpu() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// The commit in the file BUNDLE beside the program, as `cargo xtask bundle` writes it.
fn bundled_commit() -> Option<String> {
    let program = std::env::current_exe().ok()?;
    let bundle = std::fs::read_to_string(program.parent()?.join("BUNDLE")).ok()?;
    let commit = bundle.lines().find_map(|line| line.strip_prefix("commit: "))?;
    let (hash, state) = commit.trim().split_once(' ').unwrap_or((commit.trim(), ""));
    let short = hash.get(..9).unwrap_or(hash);
    Some(if state.is_empty() { short.to_owned() } else { format!("{short}-{state}") })
}

/// The commit of the checkout that cargo runs us from, wherever the user stands.
fn checkouts_commit() -> Option<String> {
    let package = std::env::var("CARGO_MANIFEST_DIR").ok()?;
    let describe = ["describe", "--always", "--dirty", "--abbrev=9", "--exclude=*"];
    ask("git", &[&["-C", &package], &describe[..]].concat())
}

/// The first line that a program prints, where it is there and succeeds.
fn ask(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.lines().next().unwrap_or("").trim().to_owned())
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_record_gets_its_name_from_the_facts() {
        let facts = super::facts();
        for key in ["date", "commit", "cpu"] {
            assert!(facts.iter().any(|(name, value)| name == key && !value.is_empty()), "{key}");
        }
    }
}
