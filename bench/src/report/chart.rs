//! What all charts are drawn with: figures, axes, markers, legends.
//!
//! A chart is [`WIDTH`] units wide, about a phone's width, so that its text keeps its size there;
//! wide pages put several charts side by side instead of stretching one.

use super::palette::Look;
use super::scale::{Scale, px, tick};
use super::style;
use maud::{Markup, PreEscaped, html};

/// Width of every chart, in units that are CSS pixels on a phone.
pub const WIDTH: f64 = 360.0;
/// From one line of text to the next.
pub const LINE_HEIGHT: f64 = 15.0;

/// A drawing and its heading.
pub struct Figure {
    /// Letters, digits and hyphens: the file's name where the figure stands alone.
    pub slug: String,
    /// The heading.
    pub title: String,
    /// What a heading is too short for, in the page's caption.
    pub remark: String,
    /// What is seen, in words, for readers who do not see it.
    pub label: String,
    /// Height of the drawing.
    pub height: f64,
    /// What is inside the `svg` element.
    pub body: Markup,
}

impl Figure {
    /// The figure as a part of the page.
    pub fn inline(&self) -> Markup {
        let view_box = format!("0 0 {} {}", px(WIDTH), px(self.height));
        html! {
            figure {
                figcaption {
                    (self.title)
                    @if !self.remark.is_empty() { " " span { (self.remark) } }
                }
                svg viewBox=(view_box) role="img" aria-label=(self.label) { (self.body) }
            }
        }
    }

    /// The figure as a file of its own, with its heading, its background and `source`, a line that
    /// says where the numbers are from.
    pub fn standalone(&self, source: &str) -> String {
        let (margin, head) = (12.0, 48.0);
        let (width, height) = (WIDTH + 2.0 * margin, self.height + head + margin);
        let shift = format!("translate({} {})", px(margin), px(head));
        let view_box = format!("0 0 {} {}", px(width), px(height));
        let style = PreEscaped([style::COLOURS, style::CHART].concat());
        let text = html! {
            svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox=(view_box)
                width=(px(width)) height=(px(height)) aria-label=(self.label) {
                title { (self.title) }
                style { (style) }
                rect class="paper" width=(px(width)) height=(px(height)) rx="6" {}
                text class="h" x=(px(margin)) y="22" { (fitted(&self.title, WIDTH / 1.2)) }
                text class="m" x=(px(margin)) y="38" { (fitted(source, WIDTH)) }
                g transform=(shift) { (self.body) }
            }
        };
        // XML allows no control characters, and names come from a file.
        text.into_string().replace(|c: char| c.is_control() && c != '\n', " ") + "\n"
    }
}

/// A generous guess of a text's width: fonts differ.
pub fn text_width(text: &str) -> f64 {
    let width = |letter: char| match letter {
        'm' | 'w' | 'M' | 'W' | '@' => 11.0,
        'A'..='Z' => 8.0,
        '0'..='9' => 7.0,
        _ => 6.6,
    };
    text.chars().map(width).sum()
}

/// The text, cut where it would not fit.
pub fn fitted(text: &str, width: f64) -> String {
    if text_width(text) <= width {
        return text.to_owned();
    }
    let mut kept = text.to_owned();
    while kept.pop().is_some() && text_width(&kept) + text_width("…") > width {}
    kept + "…"
}

/// A straight line.
pub fn line(class: &str, from: (f64, f64), to: (f64, f64)) -> Markup {
    html! { line class=(class) x1=(px(from.0)) y1=(px(from.1)) x2=(px(to.0)) y2=(px(to.1)) {} }
}

/// Text at a place on its base line.
pub fn text(class: &str, (x, y): (f64, f64), text: &str) -> Markup {
    html! { text class=(class) x=(px(x)) y=(px(y)) { (text) } }
}

/// A marker with a tool tip.
pub fn marker(look: Look, (x, y): (f64, f64), tip: &str) -> Markup {
    let points = |corners: &[(f64, f64)]| {
        let corners = corners.iter().map(|(dx, dy)| format!("{},{}", px(x + dx), px(y + dy)));
        corners.collect::<Vec<_>>().join(" ")
    };
    let corners = match look.shape() {
        1 => points(&[(-3.5, -3.5), (3.5, -3.5), (3.5, 3.5), (-3.5, 3.5)]),
        2 => points(&[(0.0, -4.8), (4.6, 3.4), (-4.6, 3.4)]),
        3 => points(&[(0.0, -5.0), (5.0, 0.0), (0.0, 5.0), (-5.0, 0.0)]),
        4 => points(&[(0.0, 4.8), (4.6, -3.4), (-4.6, -3.4)]),
        _ => String::new(),
    };
    let tip = html! { @if !tip.is_empty() { title { (tip) } } };
    html! {
        g class=(look.class()) {
            @if corners.is_empty() {
                circle class="mark" cx=(px(x)) cy=(px(y)) r="4" { (tip) }
            } @else {
                polygon class="mark" points=(corners) { (tip) }
            }
        }
    }
}

/// Names and their markers in columns of one width, in as many lines as it takes, down from `top`;
/// with the height.
pub fn legend(entries: &[(Look, String)], top: f64) -> (Markup, f64) {
    let width = |(_, name): &(Look, String)| 16.0 + text_width(name) + 10.0;
    let column = entries.iter().map(width).fold(0.0, f64::max).clamp(1.0, WIDTH);
    // The last one needs no room behind it.
    let columns = ((WIDTH + 10.0) / column).floor().max(1.0) as usize;
    let place = |index: usize| {
        ((index % columns) as f64 * column, top + (index / columns) as f64 * LINE_HEIGHT)
    };
    let markup = html! {
        g class="legend" {
            @for (index, (look, name)) in entries.iter().enumerate() {
                @let (x, y) = place(index);
                (marker(*look, (x + 6.0, y + 8.0), ""))
                (text("", (x + 15.0, y + 12.0), &fitted(name, WIDTH - 20.0)))
            }
        }
    };
    (markup, entries.len().div_ceil(columns) as f64 * LINE_HEIGHT)
}

/// Grid lines and numbers of a horizontal scale, between `top` and `bottom`, the numbers under it.
pub fn x_axis(scale: &Scale, ticks: &[f64], (top, bottom): (f64, f64), title: &str) -> Markup {
    let mut free = f64::NEG_INFINITY;
    let mut labels = Vec::new();
    for value in ticks {
        let (x, label) = (scale.at(*value), tick(*value));
        let half = text_width(&label) / 2.0;
        let centre = x.clamp(half, WIDTH - half);
        // A number that would touch the one before it is left out; its grid line stays.
        let shown = centre - half >= free;
        if shown {
            free = centre + half + 3.0;
        }
        labels.push((x, centre, label, shown));
    }
    html! {
        @for (x, centre, label, shown) in &labels {
            (line("grid", (*x, top), (*x, bottom)))
            @if *shown { (text("m mid", (*centre, bottom + 14.0), label)) }
        }
        (line("axis", (scale.range[0], bottom), (scale.range[1], bottom)))
        (text("m mid", ((scale.range[0] + scale.range[1]) / 2.0, bottom + 28.0), title))
    }
}

/// Grid lines and numbers of a vertical scale, between `left` and `right`, the numbers left of it.
pub fn y_axis(scale: &Scale, (left, right): (f64, f64), title: &str) -> Markup {
    html! {
        @for value in scale.ticks() {
            @let y = scale.at(value);
            (line("grid", (left, y), (right, y)))
            (text("m e", (left - 5.0, y + 4.0), &tick(value)))
        }
        (line("axis", (left, scale.range[0]), (left, scale.range[1])))
        (text("m", (0.0, 10.0), title))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut() {
        assert_eq!(fitted("short", 100.0), "short");
        for letter in ["x", "m"] {
            let cut = fitted(&letter.repeat(99), 100.0);
            assert!(cut.ends_with('…') && text_width(&cut) <= 100.0);
        }
    }

    #[test]
    fn files_stand_alone() {
        let figure = Figure {
            slug: "a".into(),
            title: "x < y & \"z\" \u{1}".into(),
            remark: String::new(),
            label: "words".into(),
            height: 10.0,
            body: line("axis", (0.0, 1.0), (2.25, 3.0)),
        };
        let text = figure.standalone("here");
        assert!(text.starts_with("<svg xmlns=") && text.contains("<title>x &lt; y &amp; "));
        assert!(text.contains("prefers-color-scheme: dark") && !text.contains('\u{1}'));
        assert!(text.contains(r#"<line class="axis" x1="0" y1="1" x2="2.2" y2="3"></line>"#));
    }
}
