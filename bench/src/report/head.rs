//! The page's beginning: what was measured on what and how, what is missing, what is wrong.

use super::reasons;
use super::scale::count;
use super::summary::{grouped, time_ms};
use crate::record::{Line, Record, Side, State};
use maud::{Markup, html};

/// Facts that a complete record has.
const EXPECTED: [&str; 7] =
    ["device", "driver", "commit", "date", "data", "timer_floor_us", "copy_gbps"];
/// Facts that have a place of their own on the page.
const APART: [&str; 2] = ["method", "missing"];

/// One sentence under the title.
pub fn lead(record: &Record) -> Markup {
    let rows = record.rows().len();
    let timed = record.lines.iter().filter(|line| time_ms(line).is_some()).count();
    html! {
        "gemmite, " @match record.fact("commit") {
            Some(commit) => { "commit " code { (commit) } }
            None => "commit not recorded"
        }
        ", " (record.fact("date").unwrap_or("date not recorded")) ": "
        (count(rows, "row")) ", " (count(record.lines.len(), "line")) ", " (timed) " of them timed."
    }
}

/// The section: facts, method, missing peers, wrong and failed candidates.
pub fn what(record: &Record) -> Markup {
    let absent: Vec<&str> = EXPECTED.into_iter().filter(|key| record.fact(key).is_none()).collect();
    let facts = || record.facts.iter().filter(|(key, _)| !APART.contains(&key.as_str()));
    html! {
        (wrong(record))
        (missing(record))
        h3 { "On what" }
        @if facts().next().is_some() {
            table class="facts" {
                tbody { @for (key, value) in facts() {
                    tr { th scope="row" { (key.replace('_', " ")) } td { (value) } }
                } }
            }
        }
        @if !absent.is_empty() {
            p class="small" { "Not recorded: " (absent.join(", ").replace('_', " ")) "." }
        }
        (method(record))
    }
}

/// How it was measured and how to do it again.
fn method(record: &Record) -> Markup {
    let methods: Vec<&str> = (record.facts.iter())
        .filter(|(key, _)| key == "method")
        .map(|(_, value)| value.as_str())
        .collect();
    html! { div class="whole" {
        h3 { "How" }
        p {
            "All candidates of a row, ours and the peers, ran in one session on the same data. A \
             candidate whose product is wrong gets no time. A time is the median of the samples; \
             its spread is half the distance from the 10th to the 90th percentile. In burst mode, \
             the usual one, candidates take turns, one sample each, with the device idle in \
             between; in sustained mode each runs for a time without a pause; as graphs, a \
             sample's runs are one launch. "
            "A rate is 2 m n k operations, times the batch, over the median. To repeat it on the \
             machine in front of you: " code { "cargo xtask bench" } "."
        }
        @if methods.is_empty() {
            p class="small" { "The record says no more about the method." }
        } @else {
            ul class="small" { @for method in methods { li { (method) } } }
        }
    } }
}

/// Candidates that were refused or that failed.
fn wrong(record: &Record) -> Markup {
    let kinds = [
        (State::Refused, "Refused: the product misses the error bound"),
        (State::Failed, "Failed: gave up with an error"),
    ];
    html! {
        @for (state, title) in kinds {
            @let lines: Vec<&Line> =
                record.lines.iter().filter(|line| line.state == state).collect();
            @let ours = lines.iter().filter(|line| line.side == Side::Ours).count();
            @if !lines.is_empty() {
                div class="alarm" role="note" {
                    h3 { (title) }
                    p { (ours) " of ours, " (lines.len() - ours) " of peers." }
                    (reasons::list(lines.iter().map(|line| (line.row(), Some(*line))).collect()))
                }
            }
        }
    }
}

/// Peers that were not there.
fn missing(record: &Record) -> Markup {
    let facts: Vec<&str> = (record.facts.iter())
        .filter(|(key, _)| key == "missing")
        .map(|(_, value)| value.as_str())
        .collect();
    let named = |name: &str| facts.iter().any(|fact| fact.split(':').next() == Some(name));
    let note = |lines: &[&Line]| {
        let notes = lines.iter().map(|line| &line.note).find(|note| !note.is_empty());
        notes.map(|note| format!(": {note}")).unwrap_or_default()
    };
    let absent = record.lines.iter().filter(|line| line.state == State::Missing);
    let groups: Vec<(&str, Vec<&Line>)> = grouped(absent, |line| line.candidate.as_str());
    let no_peer =
        !record.lines.iter().any(|line| line.side == Side::Peer && time_ms(line).is_some());
    html! {
        @if no_peer {
            div class="note" {
                h3 { "No peer has a time" }
                p { "So nothing here says how fast this is beside other libraries." }
            }
        }
        @if !facts.is_empty() || !groups.is_empty() {
            div class="note" {
                h3 { "Missing peers" }
                p { "Looked for and not found; where one is missing, nothing is compared with it." }
                ul {
                    @for fact in &facts { li { (fact) } }
                    @for (name, lines) in groups.iter().filter(|(name, _)| !named(name)) {
                        li {
                            (name) ", missing on " (count(lines.len(), "row"))
                            (note(lines))
                        }
                    }
                }
            }
        }
    }
}
