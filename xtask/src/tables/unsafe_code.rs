//! How much `unsafe` each crate has.

use std::path::Path;

use anyhow::{Context, Result};

use super::markdown;
use crate::tidy::rust_text::{code_only, continues_name};
use crate::workspace::files_under;

/// Blocks, functions and implementations.
const KINDS: [&str; 3] = ["{", "fn", "impl"];

/// A table of the workspace's crates with what of each kind their files have.
pub fn table(root: &Path) -> Result<String> {
    let manifest = std::fs::read_to_string(root.join("Cargo.toml"))?;
    let (_, members) = manifest.split_once("members = [").context("no members")?;
    let (members, _) = members.split_once(']').context("the members do not end")?;
    let members: Vec<&str> = members.split('"').skip(1).step_by(2).collect();
    let mut rows = Vec::new();
    let mut total = [0; 3];
    for member in &members {
        let mut counts = [0; 3];
        let built = |file: &Path| file.iter().any(|folder| folder == "target");
        for file in files_under(&root.join(member))? {
            if built(file.strip_prefix(root)?) {
                continue;
            }
            // A crate in a crate's folder is counted by itself.
            let within = |other: &&str| {
                other.starts_with(&format!("{member}/")) && file.starts_with(root.join(other))
            };
            if file.extension().is_some_and(|end| end == "rs") && !members.iter().any(within) {
                let code = code_only(&std::fs::read_to_string(&file)?);
                (0..3).for_each(|i| counts[i] += count(&code)[i]);
            }
        }
        (0..3).for_each(|i| total[i] += counts[i]);
        rows.push(row(&format!("`{member}`"), counts));
    }
    rows.push(row("all", total));
    let head = ["crate", "blocks", "functions", "implementations"].map(str::to_owned);
    Ok(markdown(&head, &rows))
}

fn row(name: &str, counts: [usize; 3]) -> Vec<String> {
    std::iter::once(name.to_owned()).chain(counts.map(|count| count.to_string())).collect()
}

/// How often `unsafe` stands before each of [`KINDS`], which `extern "C"` may come in front of.
fn count(code: &str) -> [usize; 3] {
    let mut counts = [0; 3];
    for (at, word) in code.match_indices("unsafe") {
        let (before, after) = (&code[..at], &code[at + word.len()..]);
        if before.chars().next_back().is_some_and(continues_name) {
            continue;
        }
        let after = after.trim_start();
        let after = after.strip_prefix("extern").map_or(after, str::trim_start);
        let kind = KINDS.iter().position(|kind| {
            let rest = after.strip_prefix(kind);
            rest.is_some_and(|rest| *kind == "{" || !rest.starts_with(continues_name))
        });
        if let Some(kind) = kind {
            counts[kind] += 1;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_functions_and_implementations_are_counted() {
        let code = code_only(
            "unsafe { a() }; unsafe fn b() {} unsafe impl C for D {}\n\
             pub unsafe extern \"C\" fn e(); // unsafe { }\n let x = \"unsafe {\";\n\
             let unsafe_fn = 1; #[unsafe(no_mangle)] fn f() {}",
        );
        assert_eq!(count(&code), [1, 2, 1]);
    }
}
