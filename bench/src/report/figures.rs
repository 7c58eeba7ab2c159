//! The figures that are rows of bars: ratios to the peers.

use super::bars::{self, Bar};
use super::chart::{Figure, legend};
use super::palette::{Look, Palette};
use super::scale::{Scale, count, digits, times};
use super::summary::{Comparison, SuiteSummary, compare, grouped, ratio, tflops, time_ms};
use crate::record::{Line, RowKey, Side, State};
use crate::text;

/// A row of a suite and its candidates.
pub type Row<'a> = (RowKey, Vec<&'a Line>);

/// The most rows in one figure; more are spread over several.
const ROWS: usize = 16;

/// The unit of a rate of that element type.
pub fn unit(dtype: &str) -> String {
    format!("T{}/s", text::operation(dtype))
}

/// What became of a line, as a word.
pub fn state_word(state: State) -> &'static str {
    match state {
        State::Timed => "timed",
        State::Missing => "missing",
        State::Unsupported => "unsupported",
        State::Refused => "refused",
        State::Failed => "failed",
    }
}

/// Text as a part of a file's name.
pub fn slug(text: &str) -> String {
    let text = text.to_lowercase();
    let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-")
}

/// A scale for ratios, with 1 inside.
fn ratio_scale(ratios: &[f64]) -> Scale {
    let near = [0.8, 1.25];
    if ratios.iter().all(|ratio| (near[0]..=near[1]).contains(ratio)) {
        return Scale { domain: near, range: bars::RANGE, log: true };
    }
    Scale::log(&[ratios, &[0.9, 1.1]].concat(), bars::RANGE)
}

/// The classes of a bar from 1 to `ratio`.
fn ratio_class(ratio: f64, within_spread: bool) -> String {
    let colour = if ratio < 1.0 { "loss" } else { "win" };
    format!("{colour} {}", if within_spread { "hollow" } else { "fill" })
}

/// Each suite's geometric mean against the fastest peer.
pub fn overview(summaries: &[SuiteSummary]) -> Option<Figure> {
    let means: Vec<(&SuiteSummary, f64)> =
        summaries.iter().filter_map(|suite| Some((suite, suite.against_fastest?))).collect();
    let ratios: Vec<f64> = means.iter().map(|(_, mean)| *mean).collect();
    let rows: Vec<Bar> = means
        .iter()
        .map(|(suite, mean)| Bar {
            name: format!("{}{}", suite.suite, suite.mode.suffix()),
            numbers: match (&suite.worst, &suite.best) {
                (Some(worst), Some(best)) if suite.compared > 1 => format!(
                    "{}, {} to {}",
                    count(suite.compared, "row"),
                    times(worst.ratio()),
                    times(best.ratio())
                ),
                _ => "1 row".to_owned(),
            },
            end: times(*mean),
            span: Some([1.0, *mean]),
            class: ratio_class(*mean, false),
            marks: Vec::new(),
            tip: format!("{}{}: {}", suite.suite, suite.mode.suffix(), times(*mean)),
        })
        .collect();
    let axis = "our speed / the fastest peer's, log scale";
    let (body, height) = bars::bars(&rows, &ratio_scale(&ratios), axis, Some(1.0));
    let words: Vec<String> = rows
        .iter()
        .zip(&means)
        .map(|(bar, (_, mean))| format!("{} {}", bar.name, times(*mean)))
        .collect();
    (!rows.is_empty()).then(|| Figure {
        slug: "ratio".to_owned(),
        title: "Our speed over the fastest peer's".to_owned(),
        remark: "geometric mean of each suite; left of 1 is slower".to_owned(),
        label: format!("Geometric mean of our speed over the fastest peer's: {}", words.join(", ")),
        height,
        body,
    })
}

/// The rows of one suite: a bar to our speed over the fastest peer's, markers for the other peers.
/// One figure for each dtype and mode, all on one scale.
pub fn ratios(rows: &[Row], palette: &Palette) -> Vec<Figure> {
    let compared: Vec<(Comparison, &Row)> =
        rows.iter().filter_map(|row| Some((compare(row.0.clone(), &row.1)?, row))).collect();
    let all: Vec<f64> = compared
        .iter()
        .flat_map(|(comparison, (_, lines))| peers(lines).map(|peer| ratio(comparison.ours, peer)))
        .collect();
    let scale = ratio_scale(&all);
    let groups = grouped(compared, |(comparison, _)| {
        (comparison.row.suite.clone(), comparison.ours.dtype.clone(), comparison.row.mode)
    });
    let mut figures = Vec::new();
    for ((suite, dtype, mode), group) in groups {
        // As many figures as needed, of about the same height.
        let parts = group.len().div_ceil(ROWS);
        for (part, rows) in group.chunks(group.len().div_ceil(parts)).enumerate() {
            let title = match parts {
                1 => format!("{suite}, {dtype}{}", mode.suffix()),
                _ => format!("{suite}, {dtype}{}, {} of {parts}", mode.suffix(), part + 1),
            };
            figures.push(ratio_figure(title, rows, &scale, palette));
        }
    }
    figures
}

/// The timed lines of peers.
fn peers<'a>(lines: &[&'a Line]) -> impl Iterator<Item = &'a Line> {
    lines.iter().copied().filter(|line| line.side == Side::Peer && time_ms(line).is_some())
}

/// One of the figures of [`ratios`].
fn ratio_figure(
    title: String,
    rows: &[(Comparison, &Row)],
    scale: &Scale,
    palette: &Palette,
) -> Figure {
    let bars: Vec<Bar> =
        rows.iter().map(|(row, lines)| ratio_bar(row, &lines.1, palette)).collect();
    let (drawing, drawn) = bars::bars(&bars, scale, "our speed / the peer's, log scale", Some(1.0));
    let names = grouped(rows.iter().flat_map(|(_, (_, lines))| peers(lines)), |line| {
        line.candidate.clone()
    });
    let entries: Vec<(Look, String)> =
        names.into_iter().map(|(name, _)| (palette.look(&name), name)).collect();
    let (names, height) = legend(&entries, drawn + 4.0);
    let ratios = || rows.iter().map(|(row, _)| row.ratio());
    let (least, most) = (ratios().fold(f64::INFINITY, f64::min), ratios().fold(0.0, f64::max));
    let label = format!(
        "Our speed over the fastest peer's, {title}: {}, from {} to {}; the numbers are in \
         the tables below",
        count(rows.len(), "row"),
        times(least),
        times(most)
    );
    Figure {
        slug: format!("ratio-{}", slug(&title)),
        title,
        remark: String::new(),
        label,
        height: drawn + 4.0 + height,
        body: maud::html! { (drawing) (names) },
    }
}

/// A row's bar and markers.
fn ratio_bar(row: &Comparison, lines: &[&Line], palette: &Palette) -> Bar {
    let Comparison { ours, peer, .. } = row;
    let problem = &row.row.problem;
    let name = problem.strip_prefix(&format!("{} ", ours.dtype)).unwrap_or(problem);
    let rate = |line: &Line| tflops(line).map_or_else(|| "–".to_owned(), digits);
    let about = if row.within_spread() { "≈" } else { "" };
    Bar {
        name: name.to_owned(),
        numbers: format!("{} of {} {}", rate(ours), rate(peer), unit(&ours.dtype)),
        end: format!("{about}{}", times(row.ratio())),
        span: Some([1.0, row.ratio()]),
        class: ratio_class(row.ratio(), row.within_spread()),
        marks: peers(lines)
            .map(|peer| {
                let tip = format!("{} against {}", times(ratio(ours, peer)), peer.candidate);
                (palette.look(&peer.candidate), ratio(ours, peer), tip)
            })
            .collect(),
        tip: format!("{problem}: {} {}, {} {}", ours.candidate, rate(ours), peer.candidate, {
            rate(peer)
        }),
    }
}
