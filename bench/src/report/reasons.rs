//! Lines without a time and why, as a list: a reason is a sentence or two, and a table on a phone
//! has no room for it.

use super::figures::state_word;
use super::scale::digits;
use super::summary::grouped;
use super::table::seen;
use crate::record::{Line, RowKey};
use maud::{Markup, html};

/// A list of rows and lines, candidates with the same reason on the same row together; `None`
/// stands for a row without a line of ours.
pub fn list(lines: Vec<(RowKey, Option<&Line>)>) -> Markup {
    let reason = |(row, line): &(RowKey, Option<&Line>)| {
        let why = line.map(|line| (line.state, line.error_over_bound, line.note.clone()));
        (row.clone(), why)
    };
    let items: Vec<Markup> = grouped(lines, reason)
        .into_iter()
        .map(|((row, _), lines)| {
            let lines: Vec<&Line> = lines.into_iter().filter_map(|(_, line)| line).collect();
            item(&row, &lines)
        })
        .collect();
    let (first, folded) = items.split_at(seen(items.len()));
    html! {
        ul class="reasons" { @for item in first { (item) } }
        @if !folded.is_empty() {
            details class="more" {
                summary { (folded.len()) " more" }
                ul class="reasons" { @for item in folded { (item) } }
            }
        }
    }
}

/// One reason of one or more candidates on a row.
fn item(row: &RowKey, lines: &[&Line]) -> Markup {
    let names: Vec<&str> = lines.iter().map(|line| line.candidate.as_str()).collect();
    let place = html! {
        (row.problem) (row.mode.suffix()) ", suite " (row.suite)
    };
    let Some(line) = lines.first() else {
        return html! { li { "no line of ours: " (place) } };
    };
    html! {
        li {
            b { (names.join(", ")) } ", " (state_word(line.state))
            @if let Some(times) = line.error_over_bound {
                " at " (digits(times)) " times the bound"
            }
            ": " (place)
            @if !line.note.is_empty() { div class="small" { (line.note) } }
        }
    }
}
