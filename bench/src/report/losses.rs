//! The section that comes first: where we are slower, and by how much.

use super::figures::overview;
use super::ladder::LADDER;
use super::reasons;
use super::scale::{digits, time, times};
use super::summary::{self, Comparison, SuiteSummary, grouped, time_ms};
use super::table::{Column, cell, long_table, name, number, table};
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
    const COLUMNS: [Column; 9] = [
        Column::text("Suite"),
        Column::number("Rows"),
        Column::number("Compared"),
        Column::number("Geometric mean"),
        Column::number("At the roofs"),
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
            html! { td class="row" { (suite.suite) (suite.mode.suffix()) } },
            count(suite.rows),
            count(suite.compared),
            number(suite.against_fastest.map(times)),
            number(suite.at_roofs.map(times)),
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
                "Rows within the spread are also among the slower or the not slower ones. At the \
                 roofs: what the mean would be, if each of our rows took no more than its \
                 operations at the best rate of its element type in this record, and no more than \
                 its bytes at the bandwidth of a copy. Nothing beside them, the launch, the first \
                 data, the last tile, would cost anything then."
            }
            (each_peer(summaries))
        }
    }
}

/// The geometric means against each peer. What there is more of, suites or peers, goes down the
/// page, because a phone is narrow.
fn each_peer(summaries: &[SuiteSummary]) -> Markup {
    let peers = peers(summaries);
    let with_peers = |suite: &&SuiteSummary| suite.against.iter().any(|(n, ..)| peers.contains(&n));
    let suites: Vec<&SuiteSummary> = summaries.iter().filter(with_peers).collect();
    let title = |suite: &SuiteSummary| suite.suite.clone() + suite.mode.suffix();
    let (columns, rows): (Vec<Column>, Vec<Vec<Markup>>) = if peers.len() > suites.len() {
        let row = |peer: &&String| {
            let means = suites.iter().map(|suite| mean_cell(suite, peer));
            std::iter::once(cell(peer)).chain(means).collect()
        };
        let names = suites.iter().map(|suite| Column::named(title(suite)));
        let first = std::iter::once(Column::text("Peer"));
        (first.chain(names).collect(), peers.iter().map(row).collect())
    } else {
        let row = |suite: &&SuiteSummary| {
            let means = peers.iter().map(|peer| mean_cell(suite, peer));
            std::iter::once(cell(&title(suite))).chain(means).collect()
        };
        let names = peers.iter().map(|peer| Column::named((*peer).clone()));
        let first = std::iter::once(Column::text("Suite"));
        (first.chain(names).collect(), suites.iter().map(row).collect())
    };
    html! {
        @if !rows.is_empty() {
            h3 { "By suite, against each peer" }
            p class="small" {
                "The geometric mean of our speed over the peer's. A number of rows stands where \
                 the peer has no time on some of those compared. What takes part in the ladder \
                 alone stands in its section."
            }
            (table("Summary against each peer", &columns, &rows))
        }
    }
}

/// The peers with a time, without those of the ladder alone where there are others: they are many,
/// and the ladder's figures show each.
fn peers<'a>(summaries: &'a [SuiteSummary]) -> Vec<&'a String> {
    let names = |ladder: bool| -> Vec<&'a String> {
        let suites = summaries.iter().filter(|suite| ladder || suite.suite != LADDER);
        let means = suites.flat_map(|suite| &suite.against);
        grouped(means, |(name, ..)| name).into_iter().map(|(name, _)| name).collect()
    };
    let apart = names(false);
    if apart.is_empty() { names(true) } else { apart }
}

/// The mean of a suite against a peer, over how many rows if not all.
fn mean_cell(suite: &SuiteSummary, peer: &str) -> Markup {
    let mean = suite.against.iter().find(|(name, ..)| name == peer);
    html! {
        td class="n" {
            @match mean {
                Some((_, rows, mean)) => {
                    (digits(*mean))
                    @if *rows < suite.compared {
                        br; small { (rows) " of " (suite.compared) }
                    }
                }
                None => "–",
            }
        }
    }
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
        let suffix = loss.row.mode.suffix();
        vec![
            html! { td class="n" { b class="loss-text" { (times(loss.ratio())) } } },
            html! { td class="row" {
                (loss.row.problem) (suffix)
                @if loss.within_spread() { " (within spread)" }
            } },
            name(&loss.row.suite),
            name(&loss.ours.candidate),
            milliseconds(loss.ours),
            name(&loss.peer.candidate),
            milliseconds(loss.peer),
        ]
    });
    long_table("Losses, worst first", &COLUMNS, &rows.collect::<Vec<_>>())
}

/// Rows that only a peer has a time for: not in any mean, so said here.
fn without_ours(record: &Record) -> Markup {
    let rows = summary::without_ours(record);
    html! {
        @if !rows.is_empty() {
            h3 { "A peer has a time and we have none" }
            p class="small" { "These rows are in none of the means above." }
            (reasons::list(rows))
        }
    }
}
