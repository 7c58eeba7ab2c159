//! The figures with two axes: rate over size, and the roofline.

use super::chart::{self, Figure, WIDTH, legend, line, marker, x_axis, y_axis};
use super::figures::{Row, slug, unit};
use super::palette::{Look, Palette, kernel};
use super::scale::{Scale, count, digits, px, times};
use super::summary::{bandwidth, best_rate, grouped, intensity, our_line, tflops};
use crate::record::{Line, Record, Side};
use maud::{Markup, html};

/// Where the horizontal scale's ends are.
const X: [f64; 2] = [42.0, WIDTH - 8.0];
/// Where the vertical scale's ends are.
const Y: [f64; 2] = [214.0, 20.0];
/// From the top of a plot to its legend.
const LEGEND_TOP: f64 = 250.0;

/// Rate over n for the square products of a suite: a figure for each dtype and layout, a line for
/// each candidate.
pub fn curves(rows: &[Row], palette: &Palette) -> Vec<Figure> {
    let lines =
        rows.iter().flat_map(|(row, lines)| lines.iter().map(move |line| (row.mode, *line)));
    let square = lines.filter(|(_, line)| {
        line.m == line.n && line.n == line.k && line.n > 0 && tflops(line).is_some()
    });
    let groups = grouped(square, |(mode, line)| {
        let mut title = format!("{} {}", line.dtype, line.layout);
        if line.batch != 1 {
            title += &format!(" batch {}", line.batch);
        }
        if line.epilogue != "none" {
            title += &format!(" {}", line.epilogue);
        }
        title + mode.suffix()
    });
    let figures = groups.into_iter().map(|(title, lines)| {
        let lines: Vec<&Line> = lines.into_iter().map(|(_, line)| line).collect();
        curve_figure(&title, &lines, palette)
    });
    figures.collect()
}

/// One of the figures of [`curves`].
fn curve_figure(title: &str, lines: &[&Line], palette: &Palette) -> Figure {
    let candidates = grouped(lines.iter().copied(), |line| line.candidate.clone());
    let best = |lines: &[&Line]| lines.iter().filter_map(|line| tflops(line)).fold(0.0, f64::max);
    let peaks: Vec<f64> = candidates.iter().map(|(_, lines)| best(lines)).collect();
    let (least, most) = (peaks.iter().copied().fold(f64::INFINITY, f64::min), best(lines));
    let rates: Vec<f64> = lines.iter().filter_map(|line| tflops(line)).collect();
    // Candidates that are far apart are told apart on a logarithmic scale only.
    let log = most / least > 8.0;
    let y = if log { Scale::log(&rates, Y) } else { Scale::linear(&rates, Y) };
    let mut sizes: Vec<f64> = lines.iter().map(|line| line.n as f64).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    let domain = match (sizes.first(), sizes.last()) {
        (Some(low), Some(high)) if low < high => [*low, *high],
        (Some(only), _) => [only / 2.0, only * 2.0],
        _ => [1.0, 2.0],
    };
    let x = Scale { domain, range: X, log: true };
    let unit = unit(lines.first().map_or("", |line| &line.dtype));
    let y_title = if log { format!("{unit}, log scale") } else { unit.to_owned() };
    let entries: Vec<(Look, String)> =
        candidates.iter().map(|(name, _)| (palette.look(name), name.clone())).collect();
    let (names, height) = legend(&entries, LEGEND_TOP);
    let words: Vec<String> = candidates
        .iter()
        .map(|(name, lines)| format!("{name} up to {} {unit}", digits(best(lines))))
        .collect();
    Figure {
        slug: format!("square-{}", slug(title)),
        title: format!("{title}, n x n x n"),
        remark: String::new(),
        label: format!("Rate over size, {title}: {}", words.join(", ")),
        height: LEGEND_TOP + height,
        body: html! {
            (y_axis(&y, (X[0], X[1]), &y_title))
            (x_axis(&x, &sizes, (Y[1], Y[0]), "n, log scale"))
            // Ours last, on top of the others.
            @for side in [Side::Peer, Side::Ours] {
                @for (name, lines) in &candidates {
                    @if lines.iter().any(|line| line.side == side) {
                        (curve(lines, &x, &y, palette.look(name)))
                    }
                }
            }
            (names)
        },
    }
}

/// One candidate's line and its markers.
fn curve(lines: &[&Line], x: &Scale, y: &Scale, look: Look) -> Markup {
    let mut points: Vec<(usize, f64)> =
        lines.iter().filter_map(|line| Some((line.n, tflops(line)?))).collect();
    points.sort_by_key(|(n, _)| *n);
    let place = |(n, rate): &(usize, f64)| (x.at(*n as f64), y.at(*rate));
    let ours = lines.iter().any(|line| line.candidate == "gemmite");
    html! {
        g class=(look.class()) { (path(if ours { "run ours" } else { "run" }, look.dash(), &{
            points.iter().map(place).collect::<Vec<_>>()
        })) }
        @for point in &points {
            @let name = lines.first().map_or("", |line| line.candidate.as_str());
            (marker(look, place(point), &format!("{name}, n = {}: {}", point.0, digits(point.1))))
        }
    }
}

/// A line through points.
fn path(class: &str, dash: &str, points: &[(f64, f64)]) -> Markup {
    let places: Vec<String> =
        points.iter().map(|(x, y)| format!("{},{}", px(*x), px(*y))).collect();
    html! { polyline class=(class) stroke-dasharray=(dash) points=(places.join(" ")) {} }
}

/// Rate over arithmetic intensity, a point for each row of ours, under the roofs that the record
/// itself shows: a figure for each dtype, all on the same scales.
pub fn rooflines(record: &Record, rows: &[Row]) -> Vec<Figure> {
    let ours = rows.iter().filter_map(|(row, lines)| {
        let line = our_line(lines)?;
        Some((row, line, intensity(line)?, tflops(line)?))
    });
    let groups = grouped(ours, |(_, line, ..)| line.dtype.clone());
    let best = |dtype: &str| best_rate(record, dtype);
    let points = || groups.iter().flat_map(|(_, points)| points);
    let palette = Palette::new(points().map(|(_, line, ..)| computed_by(line)));
    let mut rates: Vec<f64> = points().map(|(.., rate)| *rate).collect();
    rates.extend(groups.iter().map(|(dtype, _)| best(dtype)));
    let mut intensities: Vec<f64> = points().map(|(_, _, intensity, _)| *intensity).collect();
    if let Some(bandwidth) = bandwidth(record) {
        intensities.extend(groups.iter().map(|(dtype, _)| best(dtype) * 1000.0 / bandwidth));
    }
    let scales = (Scale::log(&intensities, X), Scale::log(&rates, Y));
    let figures = groups.iter().map(|(dtype, points)| {
        let (roof, best) = (bandwidth(record), best(dtype));
        let places: Vec<Point> = points
            .iter()
            .map(|(row, line, intensity, rate)| Point {
                name: computed_by(line),
                tip: format!("{}{}", row.problem, row.mode.suffix()),
                place: (*intensity, *rate),
            })
            .collect();
        roofline(dtype, &places, (roof, best), &scales, &palette)
    });
    figures.collect()
}

/// The kernel behind a line of ours.
fn computed_by(line: &Line) -> &str {
    kernel(line).unwrap_or(&line.candidate)
}

/// A point of a roofline.
struct Point<'a> {
    /// The kernel.
    name: &'a str,
    /// The row.
    tip: String,
    /// Intensity and rate.
    place: (f64, f64),
}

/// One dtype's roofline.
fn roofline(
    dtype: &str,
    points: &[Point],
    (bandwidth, best): (Option<f64>, f64),
    (x, y): &(Scale, Scale),
    palette: &Palette,
) -> Figure {
    let names = grouped(points.iter(), |point| point.name);
    let entries: Vec<(Look, String)> =
        names.iter().map(|(name, _)| (palette.look(name), (*name).to_owned())).collect();
    let (names, height) = legend(&entries, LEGEND_TOP);
    let corners: Vec<(f64, f64)> =
        roof(bandwidth, best, x, y).iter().map(|(i, rate)| (x.at(*i), y.at(*rate))).collect();
    let unit = unit(dtype);
    let top = format!("best rate in this record {}", digits(best));
    let share = |point: &Point| point.place.1 / best;
    let nearest = points.iter().map(share).fold(0.0, f64::max);
    Figure {
        slug: format!("roofline-{}", slug(dtype)),
        title: format!("{dtype} roofline"),
        remark: String::new(),
        label: format!(
            "Roofline of {dtype}: {} of ours; the best rate of any candidate is {} {unit}, \
             ours come to {} of it",
            count(points.len(), "row"),
            digits(best),
            times(nearest)
        ),
        height: LEGEND_TOP + height,
        body: html! {
            (y_axis(y, (X[0], X[1]), &format!("{unit}, log scale")))
            (x_axis(x, &x.ticks(), (Y[1], Y[0]), "operations per byte, log scale"))
            (path("roof", "5 3", &corners))
            (chart::text("m e halo", (X[1], y.at(best) - 4.0), &top))
            @for point in points {
                @let place = (x.at(point.place.0), y.at(point.place.1));
                (marker(palette.look(point.name), place, &format!("{}, {}: {} {unit}", {
                    &point.tip
                }, point.name, digits(point.place.1))))
            }
            (line("axis", (X[0], Y[0]), (X[1], Y[0])))
            (names)
        },
    }
}

/// The corners of the roof inside the scales: up along the memory's bandwidth, then flat.
fn roof(bandwidth: Option<f64>, best: f64, x: &Scale, y: &Scale) -> Vec<(f64, f64)> {
    let [left, right] = x.domain;
    let Some(bandwidth) = bandwidth else { return vec![(left, best), (right, best)] };
    let rate = |intensity: f64| bandwidth * intensity / 1000.0;
    let (start, ridge) = (left.max(y.domain[0] * 1000.0 / bandwidth), best * 1000.0 / bandwidth);
    if ridge <= start {
        vec![(left, best), (right, best)]
    } else if ridge >= right {
        vec![(start, rate(start)), (right, rate(right))]
    } else {
        vec![(start, rate(start)), (ridge, best), (right, best)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roofs_have_a_ridge_where_it_is_in_sight() {
        let scale = |low, high| Scale { domain: [low, high], range: [0.0, 1.0], log: true };
        let (x, y) = (scale(1.0, 1000.0), scale(1.0, 1000.0));
        let ridge = [(1.0, 2.0), (400.0, 800.0), (1000.0, 800.0)];
        assert_eq!(roof(Some(2000.0), 800.0, &x, &y), ridge);
        assert_eq!(roof(None, 800.0, &x, &y), [(1.0, 800.0), (1000.0, 800.0)]);
        assert_eq!(roof(Some(100.0), 800.0, &x, &y), [(10.0, 1.0), (1000.0, 100.0)]);
        assert_eq!(roof(Some(1e6), 800.0, &x, &y), [(1.0, 800.0), (1000.0, 800.0)]);
    }
}
