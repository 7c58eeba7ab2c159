//! Code that a page quotes from a file of the checkout.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

/// Most lines of a quotation: a page shows the heart of a kernel and links the rest.
const LINES: usize = 16;

/// The lines of the file at `path` from the one that contains `from` to the next that contains
/// `to`, and those that close what is open there, as a Markdown block with a link.
pub fn quote(root: &Path, to_root: &str, path: &str, from: &str, to: &str) -> Result<String> {
    let text = std::fs::read_to_string(root.join(path)).with_context(|| format!("no {path}"))?;
    let lines = excerpt(&text, from, to).with_context(|| path.to_owned())?;
    let language = if path.ends_with(".rs") { "rust" } else { "text" };
    Ok(format!("```{language}\n{}\n```\n\nFrom [{path}]({to_root}{path}).", lines.join("\n")))
}

/// The lines, without the indentation that they share.
fn excerpt<'a>(text: &'a str, from: &str, to: &str) -> Result<Vec<&'a str>> {
    ensure!(!from.is_empty() && !to.is_empty(), "an empty string is in every line");
    let lines: Vec<&str> = text.lines().collect();
    let mut starts = (0..lines.len()).filter(|&at| lines[at].contains(from));
    let start = starts.next().with_context(|| format!("no line contains {from:?}"))?;
    if let Some(second) = starts.next() {
        bail!("{from:?} stands in line {} and in line {}", start + 1, second + 1);
    }
    let count = lines[start..].iter().position(|line| line.contains(to));
    let count = 1 + count.with_context(|| format!("{to:?} does not follow {from:?}"))?;
    let count = count + closers(&lines[start..], count);
    ensure!(count <= LINES, "{count} lines; {LINES} at most");
    let lines = &lines[start..start + count];
    let indentation = |line: &&str| line.len() - line.trim_start().len();
    let shared = lines.iter().filter(|line| !line.is_empty()).map(indentation).min().unwrap_or(0);
    Ok(lines.iter().map(|line| line.get(shared..).unwrap_or("")).collect())
}

/// Lines behind the first `count` that do nothing but close what is open there.
fn closers(lines: &[&str], count: usize) -> usize {
    let depth = |line: &&str| {
        let of = |brackets: &str| line.chars().filter(|&c| brackets.contains(c)).count() as i64;
        of("([{") - of(")]}")
    };
    let mut open: i64 = lines[..count].iter().map(depth).sum();
    let closes = |line: &&&str| {
        let line = line.trim();
        let closes = open > 0 && !line.is_empty() && line.chars().all(|c| ")]};,".contains(c));
        open += depth(&line);
        closes
    };
    lines[count..].iter().take_while(closes).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excerpts_lose_their_indentation() {
        let text = "fn f() {\n    if x {\n        y\n\n    }\n}\n    if z {\n    }\n";
        assert_eq!(excerpt(text, "if x", "}").unwrap(), ["if x {", "    y", "", "}"]);
        assert_eq!(excerpt(text, "y", "y").unwrap(), ["y"]);
        assert_eq!(
            excerpt(text, "if z", "if z").unwrap(),
            ["if z {", "}"],
            "what is open is closed"
        );
        assert!(excerpt(text, "if", "}").is_err(), "twice");
        assert!(excerpt(text, "none", "}").is_err());
        assert!(excerpt(text, "y", "none").is_err());
        assert!(excerpt(&"line\n".repeat(20).replacen("line", "first", 1), "first", "x").is_err());
    }
}
