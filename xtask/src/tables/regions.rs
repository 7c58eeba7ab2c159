//! Where the generated regions of a file are.

use anyhow::{Context, Result, bail};

/// What a region's first line asks for.
#[derive(Debug, PartialEq)]
pub enum Marker {
    /// `<!-- table: NAME KEY=VALUE ... -->`
    Table { name: String, options: Vec<(String, String)> },
    /// `<!-- code: PATH from "..." to "..." -->`
    Code { path: String, from: String, to: String },
}

const END: &str = "<!-- end -->";

impl Marker {
    /// The marker on `line`; `None` where it is another line.
    fn parse(line: &str) -> Option<Result<Marker>> {
        let comment = line.strip_prefix("<!-- ")?.strip_suffix(" -->")?;
        if let Some(rest) = comment.strip_prefix("table: ") {
            return Some(table(rest));
        }
        comment.strip_prefix("code: ").map(code)
    }
}

fn table(text: &str) -> Result<Marker> {
    let mut words = text.split_whitespace();
    let name = words.next().context("a table has a name")?.to_owned();
    let option = |word: &str| {
        let (key, value) = word.split_once('=').with_context(|| format!("{word}: no KEY=VALUE"))?;
        Ok((key.to_owned(), value.to_owned()))
    };
    Ok(Marker::Table { name, options: words.map(option).collect::<Result<_>>()? })
}

fn code(text: &str) -> Result<Marker> {
    let parts: Vec<&str> = text.split('"').collect();
    let [path, from, " to ", to, ""] = parts[..] else { bail!("not PATH from \"...\" to \"...\"") };
    let path = path.strip_suffix(" from ").context("no `from` behind the path")?;
    Ok(Marker::Code { path: path.to_owned(), from: from.to_owned(), to: to.to_owned() })
}

/// `text` with the content of each region made anew by `content`.
pub fn fill(text: &str, mut content: impl FnMut(&Marker) -> Result<String>) -> Result<String> {
    let mut filled = String::new();
    let mut lines = text.lines().zip(1..);
    while let Some((line, number)) = lines.next() {
        filled += line;
        filled.push('\n');
        let Some(marker) = Marker::parse(line) else {
            if line == END {
                bail!("line {number}: an end without a beginning");
            }
            continue;
        };
        let here = || format!("line {number}: {line}");
        let made = marker.and_then(|marker| content(&marker)).with_context(here)?;
        filled += &format!("\n{}\n\n{END}\n", made.trim_end());
        for (old, _) in lines.by_ref() {
            if old == END {
                break;
            }
            if Marker::parse(old).is_some() {
                bail!("{}: another region begins before the end", here());
            }
        }
        if !text.lines().skip(number).any(|line| line == END) {
            bail!("{}: no {END} follows", here());
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str) -> Result<String> {
        fill(text, |marker| match marker {
            Marker::Table { name, options } => Ok(format!("{name} {options:?}\n")),
            Marker::Code { path, from, to } => Ok(format!("{path}: {from} ... {to}")),
        })
    }

    #[test]
    fn regions_are_replaced_and_the_rest_stays() {
        let text = "a\n<!-- table: x k=v -->\nold\n\nold\n<!-- end -->\nb\n\
                    <!-- code: p.rs from \"fn f\" to \"}\" -->\n<!-- end -->\n<!-- other -->\n";
        let want = "a\n<!-- table: x k=v -->\n\nx [(\"k\", \"v\")]\n\n<!-- end -->\nb\n\
                    <!-- code: p.rs from \"fn f\" to \"}\" -->\n\np.rs: fn f ... }\n\n\
                    <!-- end -->\n<!-- other -->\n";
        assert_eq!(filled(text).unwrap(), want);
        assert_eq!(filled(want).unwrap(), want);
    }

    #[test]
    fn broken_regions_are_errors() {
        for text in [
            "<!-- table: x -->\nno end\n",
            "<!-- end -->\n",
            "<!-- table: x -->\n<!-- table: y -->\n<!-- end -->\n",
            "<!-- table: x y -->\n<!-- end -->\n",
            "<!-- code: p from \"a\" -->\n<!-- end -->\n",
        ] {
            assert!(filled(text).is_err(), "{text}");
        }
    }
}
