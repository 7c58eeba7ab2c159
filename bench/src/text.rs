//! How numbers stand in the command's output.

use std::time::Duration;

use gemmite::{DType, Shape};

/// A duration with three digits and the unit that suits it: `1.23 ms`.
pub fn duration(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    let (value, unit) = match seconds {
        s if s >= 1.0 => (s, "s"),
        s if s >= 1e-3 => (s * 1e3, "ms"),
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
/// operations.
pub fn speed(dtype: DType, c: Shape, k: usize, time: Duration) -> String {
    let operations = 2.0 * c.rows as f64 * c.cols as f64 * k as f64;
    let giga = operations / time.as_secs_f64().max(1e-9) / 1e9;
    let unit = format!("G{}/s", operation(dtype.name()));
    if giga < 0.005 {
        return format!("<0.01 {unit}");
    }
    format!("{} {unit}", three_digits(giga))
}

/// A count of bytes in binary units: `79.6 GiB`.
pub fn bytes(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
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
        for (seconds, want) in cases {
            assert_eq!(duration(Duration::from_secs_f64(seconds)), want);
        }
        assert_eq!(bytes(512), "512 B");
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
