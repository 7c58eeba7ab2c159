//! The differences, grouped, in few enough characters to be read at once.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use gemmite_tests::say;

use super::cases::case::Bound;
use super::{Outcome, Verdict};

/// The most characters that the table of differences may have.
const MAX_TABLE: usize = 7400;
/// The most characters of one group's row.
const MAX_ROW: usize = 420;
/// What a row may have at least; rows that do not fit then are counted.
const MIN_ROW: usize = 170;

/// What is printed of a group of cases that differ.
#[derive(Default)]
struct Group {
    cases: usize,
    of_cases: usize,
    words: usize,
    of_words: usize,
    unknown: usize,
    names: Vec<String>,
    first: String,
}

/// The instruction of a case: its first word up to a dot, of matrix products the types as well.
fn instruction(name: &str) -> String {
    let (instruction, rest) = name.split_once(' ').unwrap_or((name, ""));
    let parts: Vec<&str> = instruction.split('.').collect();
    match parts[0] {
        "mma" | "wgmma" => {
            let types = parts.iter().position(|part| part.starts_with('m') && part.contains('k'));
            let types = parts[types.map_or(1, |at| at + 1)..].join(".");
            let types = types.trim_start_matches("row.col.");
            let model = if rest.contains("special") {
                " model, special values"
            } else if rest.contains("model") {
                " model"
            } else {
                ""
            };
            format!("{} {types}{model}", parts[0])
        }
        first => first.to_owned(),
    }
}

/// The text in one line, of a compiler's log the first line that says an error.
fn brief(text: &str, most: usize) -> String {
    let said = |line: &&str| line.contains("ptxas") || line.contains("error   ");
    let line = text.lines().find(said).or_else(|| text.lines().next()).unwrap_or("");
    line.chars().take(most).collect()
}

/// What a case that is not as it should be is to be called.
fn trouble(outcome: &Outcome) -> Option<(&'static str, usize, usize, String)> {
    let all = outcome.case.output_bytes().div_ceil(8);
    Some(match &outcome.verdict {
        Verdict::Agrees { .. } | Verdict::Skipped(_) => return None,
        Verdict::Differs { words, of, first } => ("differs", *words, *of, first.clone()),
        Verdict::Refused(log) => ("REFUSED by the driver", all, all, brief(log, 200)),
        Verdict::Failed(error) => ("LAUNCH FAILED", all, all, brief(error, 200)),
        Verdict::Emulator(report) => ("EMULATOR's report", all, all, brief(report, 200)),
    })
}

fn is_known<'a>(name: &str, known: &'a [(&str, &str)]) -> Option<&'a (&'a str, &'a str)> {
    known.iter().find(|(start, _)| name.starts_with(start))
}

/// Cases that differ by kind of trouble, family and instruction.
type Groups<'a> = BTreeMap<(&'static str, &'a str, String), Group>;

fn groups<'a>(outcomes: &'a [Outcome], known: &[(&str, &str)]) -> Groups<'a> {
    let mut counts: BTreeMap<(&str, String), usize> = BTreeMap::new();
    for outcome in outcomes {
        *counts.entry((outcome.family, instruction(&outcome.case.name))).or_default() += 1;
    }
    let mut groups = Groups::new();
    for outcome in outcomes {
        let Some((kind, words, of, first)) = trouble(outcome) else { continue };
        let name = &outcome.case.name;
        let instruction = instruction(name);
        let of_cases = counts[&(outcome.family, instruction.clone())];
        let group = groups.entry((kind, outcome.family, instruction)).or_default();
        group.of_cases = of_cases;
        group.cases += 1;
        group.words += words;
        group.of_words += of;
        group.unknown += usize::from(is_known(name, known).is_none());
        group.names.push(name.clone());
        if group.first.is_empty() {
            group.first = first;
        }
    }
    groups
}

/// The rows, each cut to its share of what may be printed.
fn table(groups: &Groups<'_>) -> String {
    let mut text = String::new();
    let share = (MAX_TABLE / groups.len().max(1)).clamp(MIN_ROW, MAX_ROW);
    for (i, ((kind, family, instruction), group)) in groups.iter().enumerate() {
        if text.len() + share > MAX_TABLE {
            writeln!(text, "and {} groups more", groups.len() - i).unwrap();
            break;
        }
        let Group { cases, of_cases, words, of_words, unknown, names, first } = group;
        let known = if *unknown == 0 { ", known" } else { "" };
        let family = if instruction.starts_with(family) { "" } else { &format!("{family}: ") };
        let name = names[0].replace("sync.aligned.", "").replace("row.col.", "");
        let mut row = format!(
            "{kind}: {family}{instruction}: {cases}/{of_cases} cases, {words}/{of_words} \
             words{known}; {first}; {name}"
        );
        if names.len() > 1 {
            write!(row, "; also {}", names[1..].join(", ")).unwrap();
        }
        writeln!(text, "{}", row.chars().take(share).collect::<String>()).unwrap();
    }
    text
}

/// How many words of the approximate functions have the emulator's very bits, and how many NaNs
/// have other bits.
fn other_bits(outcomes: &[Outcome]) -> String {
    let (mut text, mut nans, mut nan_cases) = (String::new(), 0, 0);
    for outcome in outcomes {
        let Verdict::Agrees { words, other_bits } = outcome.verdict else { continue };
        match outcome.case.bound {
            Bound::Within { .. } => {
                write!(text, " {} {}/{words};", outcome.case.name, words - other_bits).unwrap();
            }
            _ => {
                nans += other_bits;
                nan_cases += usize::from(other_bits > 0);
            }
        }
    }
    format!(
        "approximate functions within their bounds, words with the emulator's very bits:{text}\n\
         NaNs of other bits: {nans} words in {nan_cases} cases"
    )
}

/// Every case that differs, to the file that `PTX_CONFORMANCE` names.
fn write_all(outcomes: &[Outcome]) {
    let Some(path) = std::env::var_os("PTX_CONFORMANCE") else { return };
    let mut text = String::new();
    for outcome in outcomes {
        if let Some((kind, words, of, first)) = trouble(outcome) {
            let name = &outcome.case.name;
            writeln!(text, "{kind}\t{}\t{name}\t{words}/{of}\t{first}", outcome.family).unwrap();
        }
    }
    std::fs::write(path, text).expect("the file of differences");
}

/// Prints what became of the cases; how many differ and are not known to.
pub fn print(
    outcomes: &[Outcome],
    known: &[(&str, &str)],
    (major, minor): (u32, u32),
    time: Duration,
) -> usize {
    write_all(outcomes);
    let mut skipped: BTreeMap<&str, usize> = BTreeMap::new();
    for outcome in outcomes {
        if let Verdict::Skipped(target) = &outcome.verdict {
            *skipped.entry(target).or_default() += 1;
        }
    }
    for (target, cases) in &skipped {
        let why = format!("the GPU has capability {major}.{minor}");
        gemmite_tests::skip(&format!("{cases} cases for {target}"), &why);
    }
    let groups = groups(outcomes, known);
    let troubled: usize = groups.values().map(|group| group.cases).sum();
    let unknown = groups.values().map(|group| group.unknown).sum();
    let words: usize = outcomes.iter().map(|outcome| outcome.case.output_bytes() / 8).sum();
    say(&other_bits(outcomes));
    say(table(&groups).trim_end());
    for entry in known {
        let (start, reason) = entry;
        let differs = |outcome: &&Outcome| trouble(outcome).is_some();
        let named = |outcome: &&Outcome| outcome.case.name.starts_with(start);
        let count = outcomes.iter().filter(differs).filter(named).count();
        say(&format!("known: {start}: {count} cases differ: {reason}"));
    }
    say(&format!(
        "PTX conformance, capability {major}.{minor}: {} cases, {words} words, in {time:.1?}: {} \
         agree, {troubled} differ ({unknown} not known), {} skipped",
        outcomes.len(),
        outcomes.len() - troubled - skipped.values().sum::<usize>(),
        skipped.values().sum::<usize>(),
    ));
    unknown
}

#[test]
fn the_report_is_short_whatever_differs() {
    let outcome = |(family, case): (&'static str, super::Case)| {
        let differs = Verdict::Differs { words: 1, of: 2, first: "word ".repeat(100) };
        Outcome { family, case, verdict: differs }
    };
    let families = super::FAMILIES.iter();
    let cases = families.flat_map(|family| family.1().into_iter().map(|case| (family.0, case)));
    let outcomes: Vec<Outcome> = cases.map(outcome).collect();
    let text = table(&groups(&outcomes, &[]));
    assert!(text.len() < MAX_TABLE + 100, "{}", text.len());
    assert!(text.lines().count() > 30, "{text}");
    assert_eq!(
        instruction("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"),
        "wgmma f32.f16.f16"
    );
    let mma = "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 model";
    assert_eq!(instruction(mma), "mma f32.tf32.tf32.f32 model");
    assert_eq!(instruction("red.global.add.u32 of all threads"), "red");
}
