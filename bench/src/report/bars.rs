//! A chart of rows: each has a name, numbers, and a bar under them, all on one scale.

use super::chart::{LINE_HEIGHT, WIDTH, fitted, line, marker, text, text_width, x_axis};
use super::palette::Look;
use super::scale::{Scale, px};
use maud::{Markup, html};

/// Width kept free right of the bars for [`Bar::end`].
pub const GUTTER: f64 = 68.0;

/// One row.
pub struct Bar {
    /// What the row is.
    pub name: String,
    /// Numbers at the right of the name.
    pub numbers: String,
    /// The number at the right of the bar.
    pub end: String,
    /// Where the bar begins and ends, as values of the scale; `None` draws no bar.
    pub span: Option<[f64; 2]>,
    /// CSS classes: a colour, and how the bar is filled.
    pub class: String,
    /// Markers on the bar's line: look, value, tool tip.
    pub marks: Vec<(Look, f64, String)>,
    /// A tool tip.
    pub tip: String,
}

/// Places of the scale's ends in a chart whose bars have a gutter.
pub const RANGE: [f64; 2] = [8.0, WIDTH - GUTTER];

/// The rows and their scale, with the height. `origin` is the value that bars begin at, where it
/// is worth a line.
pub fn bars(rows: &[Bar], scale: &Scale, axis: &str, origin: Option<f64>) -> (Markup, f64) {
    let mut bottom = 0.0;
    let mut tops = Vec::new();
    for row in rows {
        tops.push(bottom);
        bottom += if two_lines(row) { 2.0 * LINE_HEIGHT } else { LINE_HEIGHT } + 21.0;
    }
    let markup = html! {
        (x_axis(scale, &scale.ticks(), (0.0, bottom), axis))
        @for (row, top) in rows.iter().zip(tops) { (bar(row, scale, origin, top)) }
    };
    (markup, bottom + 34.0)
}

/// Whether the name and the numbers do not fit beside each other.
fn two_lines(row: &Bar) -> bool {
    text_width(&row.name) + text_width(&row.numbers) + 8.0 > WIDTH
}

/// One row, down from `top`.
fn bar(row: &Bar, scale: &Scale, origin: Option<f64>, top: f64) -> Markup {
    let numbers_y = if two_lines(row) { top + LINE_HEIGHT } else { top };
    let middle = numbers_y + LINE_HEIGHT + 7.0;
    let ends = row.span.map(|span| span.map(|value| scale.at(value)));
    html! {
        (text("halo", (0.0, top + 12.0), &fitted(&row.name, WIDTH)))
        (text("m e halo", (WIDTH, numbers_y + 12.0), &row.numbers))
        @if let Some([a, b]) = ends {
            // A bar of no length is still seen.
            rect class=(row.class) x=(px(a.min(b))) y=(px(middle - 4.5))
                width=(px((a - b).abs().max(1.5))) height="9" { title { (row.tip) } }
        }
        @if let Some(x) = origin.map(|origin| scale.at(origin)) {
            (line("one", (x, middle - 8.0), (x, middle + 8.0)))
        }
        @for (look, value, tip) in &row.marks { (marker(*look, (scale.at(*value), middle), tip)) }
        (text("b e", (WIDTH, middle + 4.0), &row.end))
    }
}
