//! The page: sections in a fixed order, losses before everything that looks good.

use super::chart::Figure;
use super::figures::{self, Row, state_word};
use super::ladder::LADDER;
use super::palette::Palette;
use super::table::{Column, breakable, number, prose, table};
use super::{head, ladder, losses, plots, style};
use crate::record::{Line, Record, Side};
use crate::report::scale::{count, digits, time, times};
use crate::report::summary::{bandwidth, fastest_peer, grouped, our_line, ratio, tflops, time_ms};
use maud::{DOCTYPE, Markup, PreEscaped, html};

/// The sections' anchors and names.
const SECTIONS: [(&str, &str); 7] = [
    ("what", "What was measured"),
    ("losses", "Losses first"),
    ("peers", "Against the peers"),
    ("sizes", "Rate over size"),
    ("roofline", "Roofline"),
    ("ladder", "Ladder"),
    ("all", "All measurements"),
];

/// The whole page.
pub fn page(record: &Record) -> Markup {
    let (rows, palette) = (record.rows(), Palette::of_candidates(record));
    let device = record.fact("device").unwrap_or("an unnamed device");
    let title = format!("Matrix multiplication on {device}");
    let style = PreEscaped([style::COLOURS, style::CHART, style::PAGE].concat());
    let contents = [
        head::what(record),
        losses::section(record),
        against_peers(&rows, &palette),
        sizes(&rows, &palette),
        roofline(record, &rows),
        rungs(&rows),
        everything(&rows),
    ];
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "gemmite: " (title) }
                style { (style) }
            }
            body {
                header {
                    h1 { (title) }
                    p class="lead" { (head::lead(record)) }
                    nav aria-label="Sections" {
                        @for (anchor, name) in SECTIONS { a href={ "#" (anchor) } { (name) } }
                    }
                }
                main {
                    @for ((anchor, name), content) in SECTIONS.iter().zip(contents) {
                        section id=(anchor) aria-labelledby={ (anchor) "-title" } {
                            h2 id={ (anchor) "-title" } { (name) }
                            (content)
                        }
                    }
                }
            }
        }
    }
}

/// Figures side by side, or a sentence where there is none.
fn charts(figures: &[Figure], none: &str) -> Markup {
    html! {
        @if figures.is_empty() {
            p { (none) }
        } @else {
            div class="charts" { @for figure in figures { (figure.inline()) } }
        }
    }
}

/// The bars of each suite.
fn against_peers(rows: &[Row], palette: &Palette) -> Markup {
    let apart = rows.iter().filter(|(row, _)| row.suite != LADDER).cloned();
    let suites: Vec<(String, Vec<Figure>)> = grouped(apart, |(row, _)| row.suite.clone())
        .into_iter()
        .map(|(suite, rows)| (suite, figures::ratios(&rows, palette)))
        .filter(|(_, figures)| !figures.is_empty())
        .collect();
    html! {
        p class="small" {
            "A bar goes from 1, as fast as the fastest peer, to our speed over that peer's: to the \
             left where we are slower, to the right where we are faster. An outlined bar and ≈ \
             mark a difference within the spread. Markers show the same ratio for each peer. At \
             the right of a row's name: our rate and the fastest peer's. The suite ladder has a \
             section of its own."
        }
        @if suites.is_empty() { p { "No row here has both a time of ours and one of a peer." } }
        @for (suite, figures) in &suites {
            h3 { "Suite " (suite) }
            (charts(figures, ""))
        }
    }
}

/// The curves of the suite `square`.
fn sizes(rows: &[Row], palette: &Palette) -> Markup {
    let none = "The record has no timed n x n x n products in a suite named square.";
    html! { (charts(&plots::curves(&of_suite(rows, "square"), palette), none)) }
}

/// The rooflines, and where the roofs come from.
fn roofline(record: &Record, rows: &[Row]) -> Markup {
    let figures = plots::rooflines(record, rows);
    html! {
        p class="small" {
            "A point for each row of ours, marked by the kernel that computed it. Operations per \
             byte count each operand's bytes once. The flat roof is the best rate that any \
             candidate reached in this record, for that element type: measured, not from a data \
             sheet. "
            @match bandwidth(record) {
                Some(bandwidth) => {
                    "The slope is the bandwidth of a copy in device memory, measured in the same \
                     run: " (digits(bandwidth)) " GB/s. Points may lie above it where a row reads \
                     more than it writes, which memory does faster than a copy."
                }
                None => {
                    "There is no slope, because the record has no bandwidth of a copy \
                     (" code { "copy_gbps" } ")."
                }
            }
        }
        (charts(&figures, "The record has no row of ours with a time and a count of bytes."))
    }
}

/// The ladder's bars.
fn rungs(rows: &[Row]) -> Markup {
    let figures = ladder::figures(&of_suite(rows, LADDER));
    html! {
        p class="small" {
            "Every kernel on the same product, step by step, then the peers, the fastest first. At \
             the right of a bar are its rate and its share of the fastest peer's. What does not \
             compute the product is left out; the times are in the last section."
        }
        (charts(&figures, "The record has no timed line in a suite named ladder."))
    }
}

/// The rows of one suite.
pub fn of_suite<'a>(rows: &[Row<'a>], suite: &str) -> Vec<Row<'a>> {
    rows.iter().filter(|(row, _)| row.suite == suite).cloned().collect()
}

/// The columns of the full table.
const COLUMNS: [Column; 13] = [
    Column::text("Row"),
    Column::text("Candidate"),
    Column::number("Median"),
    Column::number("p10 to p90"),
    Column::number("TFLOP/s"),
    Column::number("GB/s"),
    Column::number("Our speed over it"),
    Column::number("Error / bound"),
    Column::number("Samples"),
    Column::number("MHz"),
    Column::number("°C"),
    Column::number("W"),
    Column::text("Throttling, note"),
];

/// Every line of the record, folded by suite.
fn everything(rows: &[Row]) -> Markup {
    html! {
        p class="small" {
            "Every candidate of every row, ours in bold, the fastest peer marked. Rates of whole \
             numbers are TOP/s. Our speed over a peer's is the peer's median over ours. MHz, °C \
             and W are the lowest clock, the highest temperature and the highest power draw while \
             the row was timed."
        }
        @if rows.is_empty() { p { "The record has no lines." } }
        @for (suite, rows) in grouped(rows, |(row, _)| row.suite.clone()) {
            @let cells: Vec<Vec<Markup>> = rows.iter().flat_map(|row| row_cells(row)).collect();
            details {
                summary {
                    "Suite " (suite) ": " (count(cells.len(), "line")) " of "
                    (count(rows.len(), "row"))
                }
                (table(&format!("All lines of suite {suite}"), &COLUMNS, &cells))
            }
        }
    }
}

/// The lines of one row.
fn row_cells((row, lines): &Row) -> Vec<Vec<Markup>> {
    let ours = our_line(lines).filter(|line| time_ms(line).is_some());
    let fastest = fastest_peer(lines).map(|line| &line.candidate);
    let suffix = row.mode.suffix();
    let cells = |line: &&Line| {
        let ratio = ours.filter(|_| time_ms(line).is_some()).map(|ours| ratio(ours, line));
        let ratio = ratio.filter(|_| line.side == Side::Peer);
        let numbers = |value: Option<u32>| number(value.map(|value| value.to_string()));
        let range = line.p10_ms.zip(line.p90_ms).filter(|_| time_ms(line).is_some());
        let samples = line.rounds.zip(line.runs).map(|(rounds, runs)| format!("{rounds} × {runs}"));
        let remarks = [line.throttle.as_str(), line.note.as_str()];
        let remarks: Vec<&str> = remarks.into_iter().filter(|text| !text.is_empty()).collect();
        let candidate = breakable(&line.candidate);
        vec![
            html! { td class="row" { (row.problem) (suffix) } },
            html! { td class="row" {
                @if line.side == Side::Ours { b { (candidate) } } @else { (candidate) }
                @if Some(&line.candidate) == fastest { " (fastest)" }
            } },
            number(Some(time_ms(line).map_or_else(|| state_word(line.state).to_owned(), time))),
            number(range.map(|(p10, p90)| format!("{} to {}", time(p10), time(p90)))),
            number(tflops(line).map(digits)),
            number(line.gbps.filter(|_| time_ms(line).is_some()).map(digits)),
            number(ratio.map(times)),
            number(line.error_over_bound.map(digits)),
            number(samples),
            numbers(line.sm_mhz),
            numbers(line.temp_c),
            numbers(line.power_w),
            prose(&remarks.join("; ")),
        ]
    };
    lines.iter().map(cells).collect()
}
