//! The ladder: every kernel on one product, a bar each, and the peers below.

use super::chart::{Figure, LINE_HEIGHT, WIDTH, fitted, text, text_width, x_axis};
use super::figures::{Row, slug, state_word, unit};
use super::scale::{Scale, digits, px};
use super::summary::{fastest_peer, tflops};
use crate::record::{Line, RowKey, Side, State};
use maud::{Markup, html};

/// The suite that is drawn here.
pub const LADDER: &str = "ladder";

/// The most that names may take.
const NAMES: f64 = 164.0;
/// Where the bars end.
const BARS_END: f64 = 258.0;
/// Where the rates end; the shares end at the right edge.
const RATES_END: f64 = 304.0;
/// Between our kernels and the peers.
const GAP: f64 = 8.0;

/// A figure for each row.
pub fn figures(rows: &[Row]) -> Vec<Figure> {
    rows.iter().filter_map(|(row, lines)| figure(row, lines)).collect()
}

/// The lines that are drawn: ours by their step, then the peers, the fastest first. What is not on
/// the machine, or has no such product, is left out.
fn rungs<'a>(lines: &[&'a Line]) -> Vec<&'a Line> {
    let there = |line: &&Line| {
        tflops(line).is_some() || matches!(line.state, State::Refused | State::Failed)
    };
    let (mut ours, mut peers): (Vec<&Line>, Vec<&Line>) =
        lines.iter().copied().filter(there).partition(|line| line.side == Side::Ours);
    // `k02` of `k02_tiled_16`; variants of a step stay in the order of the kernels' table.
    ours.sort_by_key(|line| line.candidate.split('_').next());
    let rate = |line: &Line| tflops(line).unwrap_or(0.0);
    peers.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
    ours.extend(peers);
    ours
}

/// One row of the ladder.
fn figure(row: &RowKey, lines: &[&Line]) -> Option<Figure> {
    let rungs = rungs(lines);
    let rates: Vec<f64> = rungs.iter().filter_map(|line| tflops(line)).collect();
    if rates.is_empty() {
        return None;
    }
    let best = fastest_peer(lines);
    let names = rungs.iter().map(|line| text_width(&line.candidate)).fold(0.0, f64::max);
    let scale = Scale::linear(&rates, [names.min(NAMES) + 6.0, BARS_END]);
    let unit = unit(&rungs.first()?.dtype);
    let best_rate = best.and_then(tflops);
    let (body, height) = drawing(&rungs, &scale, &unit, best_rate);
    let words: Vec<String> = rungs.iter().map(|line| words(line, best_rate)).collect();
    let title = format!("{}{}", row.problem, row.mode.suffix());
    Some(Figure {
        slug: format!("{}-{}", slug(&row.suite), slug(&title)),
        title: format!("Ladder, {title}"),
        remark: best.map(|best| format!("share of {}", best.candidate)).unwrap_or_default(),
        label: format!("Rates of the kernels and the peers in {unit}: {}", words.join(", ")),
        height,
        body,
    })
}

/// The bars under their headings, and the height. `best` is the fastest peer's rate.
fn drawing(rungs: &[&Line], scale: &Scale, unit: &str, best: Option<f64>) -> (Markup, f64) {
    let top = |index: usize| {
        let gap = if rungs[index].side == Side::Peer { GAP } else { 0.0 };
        (index + 1) as f64 * LINE_HEIGHT + gap
    };
    let bottom = rungs.len().checked_sub(1).map_or(0.0, top) + LINE_HEIGHT;
    // A short axis has room for three numbers.
    let ticks = [0.0, scale.domain[1] / 2.0, scale.domain[1]];
    let body = html! {
        (text("m e", (RATES_END, 11.0), unit))
        @if best.is_some() { (text("m e", (WIDTH, 11.0), "share")) }
        (x_axis(scale, &ticks, (LINE_HEIGHT, bottom), unit))
        @for (index, line) in rungs.iter().enumerate() { (rung(line, scale, best, top(index))) }
    };
    (body, bottom + 34.0)
}

/// One bar, down from `top`, with its name and its numbers.
fn rung(line: &Line, scale: &Scale, best: Option<f64>, top: f64) -> Markup {
    let (middle, base) = (top + LINE_HEIGHT / 2.0, top + 11.5);
    let class = if line.side == Side::Ours { "c0" } else { "plain" };
    html! {
        (text("", (0.0, base), &fitted(&line.candidate, NAMES)))
        @match tflops(line) {
            Some(rate) => {
                @let [start, end] = [scale.at(0.0), scale.at(rate)];
                // A bar of a hundredth of the longest is still seen.
                rect class={ (class) " fill" } x=(px(start)) y=(px(middle - 4.5))
                    width=(px((end - start).max(1.5))) height="9" { title { (words(line, best)) } }
                (text("b e", (RATES_END, base), &digits(rate)))
                @if let Some(best) = best { (text("e", (WIDTH, base), &share(rate, best))) }
            }
            None => { (text("m e", (WIDTH, base), state_word(line.state))) }
        }
    }
}

/// A rate as a part of the fastest peer's.
fn share(rate: f64, best: f64) -> String {
    format!("{} %", digits(100.0 * rate / best))
}

/// A line in words.
fn words(line: &Line, best: Option<f64>) -> String {
    match (tflops(line), best) {
        (None, _) => format!("{} {}", line.candidate, state_word(line.state)),
        (Some(rate), None) => format!("{} {}", line.candidate, digits(rate)),
        (Some(rate), Some(best)) => {
            format!("{} {} ({})", line.candidate, digits(rate), share(rate, best))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{line, untimed};

    #[test]
    fn kernels_go_by_step_and_peers_by_rate() {
        let lines = [
            line("ladder", "k10_grouped_order", 3.0),
            line("ladder", "k02_tiled_8", 8.0),
            line("ladder", "k02_tiled_16", 7.0),
            untimed("ladder", "k03_thread_column", State::Refused),
            untimed("ladder", "k09_async_copy", State::Unsupported),
            line("ladder", "k01_naive", 9.0),
            line("ladder", "gemmite", 4.0),
            line("ladder", "nvcc_twin_naive_16", 9.5),
            untimed("ladder", "triton", State::Missing),
            untimed("ladder", "torch", State::Failed),
            line("ladder", "cublas", 2.0),
        ];
        let lines: Vec<&Line> = lines.iter().collect();
        let names: Vec<&str> = rungs(&lines).iter().map(|line| line.candidate.as_str()).collect();
        let ours = ["gemmite", "k01_naive", "k02_tiled_8", "k02_tiled_16", "k03_thread_column"];
        assert_eq!(names[..5], ours);
        assert_eq!(names[5..], ["k10_grouped_order", "cublas", "nvcc_twin_naive_16", "torch"]);
        let [figure] = &figures(&[(lines[0].row(), lines.clone())])[..] else { panic!("one row") };
        for words in ["gemmite 0.000131 (50.0 %)", "k03_thread_column refused", "cublas 0.000262"] {
            assert!(figure.label.contains(words), "{words}: {}", figure.label);
        }
    }

    #[test]
    fn every_rung_has_a_line_of_its_own() {
        let lines: Vec<Line> =
            (0..26).map(|i| line("ladder", &format!("k{i:02}_idea"), 1.0 + f64::from(i))).collect();
        let lines: Vec<&Line> = lines.iter().collect();
        let [figure] = &figures(&[(lines[0].row(), lines.clone())])[..] else { panic!("one row") };
        assert_eq!(figure.height, 27.0 * LINE_HEIGHT + 34.0);
        assert_eq!(figure.body.clone().into_string().matches("<rect").count(), 26);
    }
}
