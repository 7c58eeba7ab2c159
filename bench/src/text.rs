//! How numbers stand in the command's output.

use std::time::Duration;

use gemmite::{DType, Shape};

/// A duration with three digits and the unit that suits it: `1.23 ms`.
pub fn duration(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    // What would be 1000 of a unit is 1.00 of the next.
    let (value, unit) = match seconds {
        s if s >= 0.9995 => (s, "s"),
        s if s >= 0.9995e-3 => (s * 1e3, "ms"),
        s => (s * 1e6, "us"),
    };
    format!("{} {unit}", three_digits(value))
}

/// Milliseconds, as the tutorials print them.
pub fn milliseconds(time: Duration) -> String {
    format!("{:.3} ms", time.as_secs_f64() * 1e3)
}

/// What is counted for that dtype: operations, floating-point ones or others.
pub fn operation(dtype: &str) -> &'static str {
    if dtype.starts_with(['i', 'u']) { "OP" } else { "FLOP" }
}

/// The speed of a product of `m` x `k` and `k` x `n`: a multiplication and an addition count as two
/// operations. In one unit, as tables have it.
pub fn speed(dtype: DType, c: Shape, k: usize, time: Duration) -> String {
    let operations = 2.0 * c.rows as f64 * c.cols as f64 * k as f64;
    let giga = operations / time.as_secs_f64().max(1e-9) / 1e9;
    format!("{} G{}/s", at_least_a_hundredth(giga), operation(dtype.name()))
}

fn at_least_a_hundredth(value: f64) -> String {
    if value < 0.005 { "<0.01".to_owned() } else { three_digits(value) }
}

/// Operations of that dtype a second, `per_second` of them: `699 TFLOP/s`, `1.20 GOP/s`.
pub fn rate(dtype: &str, per_second: f64) -> String {
    let operation = operation(dtype);
    match per_second / 1e9 {
        giga if giga < 999.5 => format!("{} G{operation}/s", at_least_a_hundredth(giga)),
        giga => format!("{} T{operation}/s", three_digits(giga / 1e3)),
    }
}

/// A count of bytes in binary units: `79.6 GiB`.
pub fn bytes(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= if unit == 0 { 1024.0 } else { 1023.5 } && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    let value = if unit == 0 { bytes.to_string() } else { three_digits(value) };
    format!("{value} {}", units[unit])
}

/// A value from 0 up with three significant digits, and all of its digits where it has more before
/// the point.
pub fn three_digits(value: f64) -> String {
    match value {
        v if v >= 99.95 => format!("{v:.0}"),
        v if v >= 9.995 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

/// A table with aligned columns: text to the left, numbers (every column but the first `text`) to
/// the right.
pub fn table(text: usize, rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|j| {
            rows.iter().filter_map(|row| row.get(j)).map(|c| c.chars().count()).max().unwrap_or(0)
        })
        .collect();
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (j, (cell, &width)) in row.iter().zip(&widths).enumerate() {
            let gap = if j == 0 { "" } else { "  " };
            line += &match j < text {
                true => format!("{gap}{cell:<width$}"),
                false => format!("{gap}{cell:>width$}"),
            };
        }
        out += line.trim_end();
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_a_unit() {
        let cases =
            [(0.0, "0.00 us"), (1.5e-6, "1.50 us"), (0.0123456, "12.3 ms"), (345.6, "346 s")];
        let borders = [(999.4e-6, "999 us"), (999.6e-6, "1.00 ms"), (0.9996, "1.00 s")];
        for (seconds, want) in cases.into_iter().chain(borders) {
            assert_eq!(duration(Duration::from_secs_f64(seconds)), want);
        }
        assert_eq!(bytes(512), "512 B");
        assert_eq!(bytes((1 << 20) - 100), "1.00 MiB");
        assert_eq!(rate("bf16", 698.7e12), "699 TFLOP/s");
        assert_eq!(rate("i8", 999.4e9), "999 GOP/s");
        assert_eq!(rate("i32", 999.6e9), "1.00 TOP/s");
        assert_eq!(rate("f32", 2e3), "<0.01 GFLOP/s");
        assert_eq!(bytes(85_520_809_984), "79.6 GiB");
        let second = Duration::from_secs(1);
        assert_eq!(speed(DType::F32, Shape::new(1000, 1000), 1000, second), "2.00 GFLOP/s");
    }

    #[test]
    fn columns_are_aligned() {
        let rows = [vec!["a".into(), "10".into()], vec!["bcd".into(), "7".into()]];
        assert_eq!(table(1, &rows), "a    10\nbcd   7\n");
    }
}
