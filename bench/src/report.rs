//! The report of a record: one HTML page that needs nothing else, and figures for a README.
//!
//! The page has no script and loads nothing. Its charts are SVG with the page's colours, which
//! follow the reader's choice of light or dark; every number that is drawn stands in a table too.

mod bars;
mod chart;
mod figures;
mod head;
mod ladder;
mod losses;
mod page;
mod palette;
mod plots;
mod reasons;
mod scale;
mod style;
pub mod summary;
mod table;

use crate::record::Record;
use anyhow::{Result, ensure};

/// The report as one HTML page.
///
/// # Errors
///
/// If a number that cannot be drawn came through to the page, which is a mistake in this module.
pub fn html(record: &Record) -> Result<String> {
    let page = page::page(record).into_string();
    check("the page", &page)?;
    Ok(page)
}

/// Figures that stand alone, for a README: file names and contents. They are the geometric means,
/// the curves of the suite `square`, the rooflines and the ladder, as far as the record has them.
///
/// # Errors
///
/// As [`html`].
pub fn svgs(record: &Record) -> Result<Vec<(String, String)>> {
    let (rows, palette) = (record.rows(), palette::Palette::of_candidates(record));
    let mut figures = Vec::from_iter(figures::overview(&summary::summaries(record)));
    figures.extend(plots::curves(&page::of_suite(&rows, "square"), &palette));
    figures.extend(plots::rooflines(record, &rows));
    figures.extend(ladder::figures(&page::of_suite(&rows, ladder::LADDER)));
    let facts = ["device", "date", "commit"].map(|key| record.fact(key));
    let source = facts.into_iter().flatten().collect::<Vec<_>>().join(", ");
    let mut files: Vec<(String, String)> = Vec::new();
    for figure in figures {
        // Names that differ in signs only would have one file.
        let taken = |name: &str| files.iter().any(|(known, _)| known == name);
        let mut names = (1..).map(|number| match number {
            1 => format!("{}.svg", figure.slug),
            _ => format!("{}-{number}.svg", figure.slug),
        });
        let name = names.find(|name| !taken(name)).unwrap_or_default();
        let text = figure.standalone(&source);
        check(&name, &text)?;
        files.push((name, text));
    }
    Ok(files)
}

/// Refuses places in a drawing that are no numbers: a browser would leave out what has them and
/// nobody would notice.
fn check(name: &str, text: &str) -> Result<()> {
    // In texts quotation marks are escaped, so that these are attributes.
    for (before, after) in text.split("=\"").zip(text.split("=\"").skip(1)) {
        let attribute = before.rsplit(' ').next().unwrap_or_default();
        let value = after.split('"').next().unwrap_or_default();
        // Labels are prose, and anchors and classes names.
        let is_place = !attribute.starts_with("aria-") && !["id", "class"].contains(&attribute);
        let mut words = value.split(|c: char| !c.is_alphanumeric());
        let is_wrong = is_place && words.any(|word| ["NaN", "inf"].contains(&word));
        ensure!(!is_wrong, "{name} has a place that is no number: {attribute}={value:?}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{check, html};
    use crate::record::{Line, Mode, Record, Side, State};

    #[test]
    fn places_are_checked_and_prose_is_not() {
        for wrong in ["x=\"NaN\"", "points=\"1,2 -inf,3\"", "transform=\"translate(1 inf)\""] {
            assert!(check("x", &format!("<g class=\"a\" {wrong}></g>")).is_err(), "{wrong}");
        }
        let note = "it is (inf, NaN): \"NaN\",inf x=\"inf\"".to_owned();
        let line = Line { candidate: "g (inf x=\"inf\"".into(), note, ..line("square", "g", 1.0) };
        html(&record(&[line])).unwrap();
    }

    /// A record of these lines.
    pub fn record(lines: &[Line]) -> Record {
        Record { facts: Vec::new(), lines: lines.to_vec() }
    }

    /// A line of f32 64 x 64 x 64 that was timed, without a spread; names that start with `g` or
    /// `k` are ours.
    pub fn line(suite: &str, candidate: &str, median_ms: f64) -> Line {
        let ours = candidate.starts_with(['g', 'k']);
        Line {
            suite: suite.into(),
            dtype: "f32".into(),
            layout: "nn".into(),
            m: 64,
            n: 64,
            k: 64,
            batch: 1,
            lda: 64,
            ldb: 64,
            ldc: 64,
            epilogue: "none".into(),
            candidate: candidate.into(),
            side: if ours { Side::Ours } else { Side::Peer },
            mode: Mode::Burst,
            state: State::Timed,
            median_ms: Some(median_ms),
            p10_ms: None,
            p90_ms: None,
            rounds: Some(30),
            runs: Some(1),
            tflops: None,
            gbps: None,
            error_over_bound: None,
            sm_mhz: None,
            temp_c: None,
            power_w: None,
            throttle: String::new(),
            note: String::new(),
        }
    }

    /// The same without a time.
    pub fn untimed(suite: &str, candidate: &str, state: State) -> Line {
        Line { state, median_ms: None, ..line(suite, candidate, 1.0) }
    }
}
