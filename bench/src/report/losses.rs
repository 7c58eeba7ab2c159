//! The section that comes first: where we are slower, and by how much.

use super::figures::{mode_suffix, overview, state_word};
use super::scale::{time, times};
use super::summary::{self, Comparison, SuiteSummary, grouped, time_ms};
use super::table::{Column, cell, long_table, number, prose, table};
use crate::record::Record;
use maud::{Markup, html};

/// The summary of each suite and the list of losses.
pub fn section(record: &Record) -> Markup {
    let (summaries, losses) = (summary::summaries(record), summary::losses(record));
    let compared: usize = summaries.iter().map(|suite| suite.compared).sum();
    let within = losses.iter().filter(|loss| loss.within_spread()).count();
    html! {
        @if compared == 0 {
            p { "No row has both a time of ours and a time of a peer, so nothing is compared." }
        } @else {
            p {
                "Our speed over the fastest peer's, row by row: below 1 we are slower. Ours is "
                code { "gemmite" } ", the library's own choice of kernel, where the row has it, \
                 and else the fastest of our kernels. Of " (compared) " rows compared, we are \
                 slower on "
                strong { (losses.len()) } ", by no more than the spread of the samples on "
                (within) " of them."
            }
        }
        @if let Some(figure) = overview(&summaries) {
            div class="charts" { (figure.inline()) }
        }
        (suites(&summaries))
        @if compared > 0 {
            h3 { "Losses, worst first" }
            @if losses.is_empty() { p { "None." } } @else { (loss_table(&losses)) }
        }
        (without_ours(record))
    }
}

/// A table of the suites, and one against each peer.
fn suites(summaries: &[SuiteSummary]) -> Markup {
    const COLUMNS: [Column; 8] = [
        Column::text("Suite"),
        Column::number("Rows"),
        Column::number("Compared"),
        Column::number("Geometric mean"),
        Column::number("Slower"),
        Column::number("Not slower"),
        Column::number("Within spread"),
        Column::text("Worst row"),
    ];
    let count = |count: usize| number(Some(count.to_string()));
    let rows = summaries.iter().map(|suite| {
        let worst = suite.worst.as_ref();
        let worst = worst.map(|row| format!("{} {}", times(row.ratio()), row.row.problem));
        vec![
            suite_cell(suite),
            count(suite.rows),
            count(suite.compared),
            number(suite.against_fastest.map(times)),
            count(suite.losses),
            count(suite.wins),
            count(suite.within_spread),
            html! { td class="row" { (worst.as_deref().unwrap_or("–")) } },
        ]
    });
    let rows: Vec<Vec<Markup>> = rows.collect();
    html! {
        @if !rows.is_empty() {
            h3 { "By suite, against the fastest peer of each row" }
            (table("Summary of each suite", &COLUMNS, &rows))
            p class="small" {
                "Rows within the spread are also among the slower or the not slower ones."
            }
            (each_peer(summaries))
        }
    }
}

/// The geometric means against each peer, a column for each.
fn each_peer(summaries: &[SuiteSummary]) -> Markup {
    let means = summaries.iter().flat_map(|suite| &suite.against);
    let peers: Vec<&String> =
        grouped(means, |(name, ..)| name).into_iter().map(|(name, _)| name).collect();
    let names = peers.iter().map(|name| Column::named((*name).clone()));
    let columns: Vec<Column> = std::iter::once(Column::text("Suite")).chain(names).collect();
    let mean = |suite: &SuiteSummary, peer: &String| {
        let (_, rows, mean) = suite.against.iter().find(|(name, ..)| name == peer)?;
        Some(format!("{} ({rows})", times(*mean)))
    };
    let rows = summaries.iter().filter(|suite| !suite.against.is_empty()).map(|suite| {
        let means = peers.iter().map(|peer| number(mean(suite, peer)));
        std::iter::once(suite_cell(suite)).chain(means).collect()
    });
    let rows: Vec<Vec<Markup>> = rows.collect();
    html! {
        @if !rows.is_empty() {
            h3 { "By suite, against each peer: geometric mean and, in brackets, rows" }
            (table("Summary against each peer", &columns, &rows))
        }
    }
}

/// A suite's name and mode.
fn suite_cell(suite: &SuiteSummary) -> Markup {
    html! { td class="row" { (suite.suite) (mode_suffix(suite.mode)) } }
}

/// The losses.
fn loss_table(losses: &[Comparison]) -> Markup {
    const COLUMNS: [Column; 7] = [
        Column::number("Ratio"),
        Column::text("Row"),
        Column::text("Suite"),
        Column::text("Ours"),
        Column::number("Time"),
        Column::text("Fastest peer"),
        Column::number("Time"),
    ];
    let milliseconds = |line| number(time_ms(line).map(time));
    let rows = losses.iter().map(|loss| {
        let suffix = mode_suffix(loss.row.mode);
        vec![
            html! { td class="n" { b class="loss-text" { (times(loss.ratio())) } } },
            html! { td class="row" {
                (loss.row.problem) (suffix)
                @if loss.within_spread() { " (within spread)" }
            } },
            cell(&loss.row.suite),
            cell(&loss.ours.candidate),
            milliseconds(loss.ours),
            cell(&loss.peer.candidate),
            milliseconds(loss.peer),
        ]
    });
    long_table("Losses, worst first", &COLUMNS, &rows.collect::<Vec<_>>())
}

/// Rows that only a peer has a time for: not in any mean, so said here.
fn without_ours(record: &Record) -> Markup {
    const COLUMNS: [Column; 4] =
        [Column::text("Row"), Column::text("Suite"), Column::text("Ours"), Column::text("Why")];
    let rows = summary::without_ours(record).into_iter().map(|(row, line)| {
        let suffix = mode_suffix(row.mode);
        let state =
            |line: &crate::record::Line| format!("{}: {}", line.candidate, state_word(line.state));
        vec![
            html! { td class="row" { (row.problem) (suffix) } },
            cell(&row.suite),
            cell(&line.map_or_else(|| "no line".to_owned(), state)),
            prose(line.map_or("", |line| &line.note)),
        ]
    });
    let rows: Vec<Vec<Markup>> = rows.collect();
    html! {
        @if !rows.is_empty() {
            h3 { "A peer has a time and we have none" }
            p class="small" { "These rows are in none of the means above." }
            (long_table("Rows without a time of ours", &COLUMNS, &rows))
        }
    }
}
