//! The dependencies' licences, sources and versions, held to the lists of deny.toml.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde_json::Value;

/// The lists of deny.toml.
#[derive(Debug, Default, PartialEq)]
struct Lists {
    /// Licences that may be.
    licences: Vec<String>,
    /// `name@version` of versions that may stand beside a newer one.
    skipped: Vec<String>,
    /// Registries that crates may come from.
    registries: Vec<String>,
}

/// What is wrong with the dependencies that `cargo metadata` lists, by the text of deny.toml.
pub fn check(deny: &str, metadata: &str) -> Result<Vec<String>> {
    let lists = Lists::read(deny);
    let metadata: Value = serde_json::from_str(metadata)?;
    let packages = metadata["packages"].as_array().context("no packages")?;
    let text = |package: &Value, key: &str| package[key].as_str().unwrap_or_default().to_owned();
    let mut wrong = Vec::new();
    let mut versions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in packages.iter().filter(|package| package["source"].is_string()) {
        let (name, version) = (text(package, "name"), text(package, "version"));
        let (licence, source) = (text(package, "license"), text(package, "source"));
        if !is_allowed(&licence, &lists.licences) {
            wrong.push(format!("{name}@{version}: the licence {licence:?} is not on the list"));
        }
        let is_known = |registry: &String| source.strip_prefix("registry+") == Some(registry);
        if !lists.registries.iter().any(is_known) {
            wrong.push(format!("{name}@{version}: it comes from {source}"));
        }
        versions.entry(name).or_default().push(version);
    }
    for (name, versions) in &versions {
        let skipped = |version: &&String| lists.skipped.contains(&format!("{name}@{version}"));
        if versions.iter().filter(|version| !skipped(version)).count() > 1 {
            wrong.push(format!("{name}: versions {}", versions.join(" and ")));
        }
    }
    for skipped in &lists.skipped {
        let (name, version) = skipped.split_once('@').unwrap_or((skipped, ""));
        let there = versions.get(name).is_some_and(|all| all.len() > 1);
        if !there || !versions[name].iter().any(|found| found == version) {
            wrong.push(format!("{skipped} is skipped, and there is no such duplicate"));
        }
    }
    Ok(wrong)
}

impl Lists {
    /// As much of TOML as the file has: keys at the beginning of a line, and strings in quotes.
    fn read(text: &str) -> Lists {
        let mut lists = Lists::default();
        let mut key = "";
        for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
            if let Some((name, _)) = line.split_once(" = ").filter(|_| !line.starts_with('{')) {
                key = name;
            }
            let mut strings = line.split('"').skip(1).step_by(2).map(str::to_owned);
            match key {
                "allow" => lists.licences.extend(strings),
                "skip" => lists.skipped.extend(strings.next()),
                "allow-registry" => lists.registries.extend(strings),
                _ => {}
            }
        }
        lists
    }
}

/// Whether an expression of SPDX, with the slash of old for `OR`, can be met by the licences.
fn is_allowed(expression: &str, allowed: &[String]) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = &words[..];
    let is_met = either(&mut rest, allowed);
    is_met && rest.is_empty()
}

/// `A OR B`, which binds less than `AND`.
fn either(rest: &mut &[&str], allowed: &[String]) -> bool {
    let mut is_met = both(rest, allowed);
    while let [first, after @ ..] = rest
        && *first == "OR"
    {
        *rest = after;
        is_met |= both(rest, allowed);
    }
    is_met
}

fn both(rest: &mut &[&str], allowed: &[String]) -> bool {
    let mut is_met = one(rest, allowed);
    while let [first, after @ ..] = rest
        && *first == "AND"
    {
        *rest = after;
        is_met &= one(rest, allowed);
    }
    is_met
}

fn one(rest: &mut &[&str], allowed: &[String]) -> bool {
    let words = *rest;
    match words {
        ["(", after @ ..] => {
            *rest = after;
            let is_met = either(rest, allowed);
            match rest {
                [")", after @ ..] => *rest = after,
                _ => return false,
            }
            is_met
        }
        [licence, "WITH", exception, after @ ..] => {
            *rest = after;
            allowed.contains(&format!("{licence} WITH {exception}"))
        }
        [licence, after @ ..] => {
            *rest = after;
            allowed.iter().any(|known| known == licence)
        }
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DENY: &str = r#"
allow = [
    "MIT",
    # "GPL",
    "A WITH B",
]
skip = [
    { crate = "x@1.0.0", reason = "y = z" },
]
allow-registry = ["r"]
"#;

    #[test]
    fn lists_are_read() {
        let of = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect();
        let expected = Lists {
            licences: of(&["MIT", "A WITH B"]),
            skipped: of(&["x@1.0.0"]),
            registries: of(&["r"]),
        };
        assert_eq!(Lists::read(DENY), expected);
    }

    #[test]
    fn licences_are_expressions() {
        let allowed = &Lists::read(DENY).licences;
        for fine in ["MIT", "GPL OR MIT", "GPL/MIT", "A WITH B", "(GPL OR MIT) AND A WITH B"] {
            assert!(is_allowed(fine, allowed), "{fine}");
        }
        for not in ["", "GPL", "A", "MIT AND GPL", "(MIT", "MIT)", "MIT GPL", "MIT AND (GPL OR A)"]
        {
            assert!(!is_allowed(not, allowed), "{not}");
        }
    }

    #[test]
    fn what_is_not_on_the_lists_is_said() {
        let package = |name: &str, version: &str, licence: &str, source: &str| {
            format!(
                r#"{{"name":"{name}","version":"{version}","license":{licence},"source":{source}}}"#
            )
        };
        let check = |packages: &[String]| {
            check(DENY, &format!(r#"{{"packages":[{}]}}"#, packages.join(","))).unwrap()
        };
        let (mit, known) = (r#""MIT""#, r#""registry+r""#);
        let old = [package("x", "1.0.0", mit, known), package("x", "2.0.0", mit, known)];
        let ours = package("ours", "0.1.0", "null", "null");
        assert!(check(&[&old[..], &[ours]].concat()).is_empty());
        let with = |more: String| check(&[&old[..], &[more]].concat());
        assert!(with(package("y", "1.0.0", "null", known))[0].contains("the licence"));
        assert!(with(package("y", "1.0.0", mit, r#""git+r""#))[0].contains("git+r"));
        assert!(with(package("x", "3.0.0", mit, known))[0].contains("x: versions"));
        assert!(check(&old[1..])[0].contains("no such duplicate"));
    }
}
