//! Scales from values to places in a chart, their ticks, and numbers as a reader wants them.

/// A map from an interval of values to an interval of places.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Least and greatest value.
    pub domain: [f64; 2],
    /// Where these two are drawn.
    pub range: [f64; 2],
    /// Whether equal ratios, not equal differences, have equal lengths.
    pub log: bool,
}

impl Scale {
    /// From 0 to a round number not below any of `values`.
    pub fn linear(values: &[f64], range: [f64; 2]) -> Scale {
        let most = usable(values).fold(0.0, f64::max);
        let step = round_up(if most > 0.0 { most / 5.0 } else { 0.2 });
        Scale { domain: [0.0, (most / step).ceil().max(1.0) * step], range, log: false }
    }

    /// Between round numbers that enclose all of `values`, with equal lengths for equal ratios.
    pub fn log(values: &[f64], range: [f64; 2]) -> Scale {
        let least = usable(values).fold(f64::INFINITY, f64::min);
        let most = usable(values).fold(0.0, f64::max);
        let mut domain = [1.0, 10.0];
        if least.is_finite() {
            domain = [round_down(least), round_up(most)];
        }
        if domain[0] == domain[1] {
            domain = [domain[0] / 2.0, domain[1] * 2.0];
        }
        Scale { domain, range, log: true }
    }

    /// Where `value` is drawn; what lies outside the domain is drawn at its end.
    pub fn at(&self, value: f64) -> f64 {
        let [low, high] = self.domain;
        let value = value.clamp(low, high);
        let share = match self.log {
            true => (value / low).ln() / (high / low).ln(),
            false => (value - low) / (high - low),
        };
        self.range[0] + share * (self.range[1] - self.range[0])
    }

    /// Round values inside the domain, about six at most.
    pub fn ticks(&self) -> Vec<f64> {
        let [low, high] = self.domain;
        let decades = (high / low).log10();
        let step = round_up((high - low) / 5.0);
        let multiples = (low / step - 1e-9).ceil() as i64..=(high / step + 1e-9).floor() as i64;
        // Less than a decade of a logarithmic scale is nearly a linear one.
        if !self.log || decades < 0.9 {
            return multiples.map(|i| tidy(i as f64 * step)).filter(|v| *v >= low).collect();
        }
        let within = |value: &f64| *value >= low * 0.999_999 && *value <= high * 1.000_001;
        let exponents = low.log10().floor() as i32..=high.log10().ceil() as i32;
        if decades <= 2.1 {
            let values = exponents.flat_map(|e| [1.0, 2.0, 5.0].map(|digit| power(digit, e)));
            return values.filter(within).collect();
        }
        let every = (decades / 6.0).ceil() as i32;
        exponents.filter(|e| e % every == 0).map(|e| power(1.0, e)).filter(within).collect()
    }
}

/// The numbers among `values` that a chart can show; no rate or ratio is out of these bounds.
fn usable(values: &[f64]) -> impl Iterator<Item = f64> {
    values.iter().copied().filter(|value| (1e-30..1e30).contains(value))
}

/// `digit` times ten to the `exponent`, exact where a decimal number is.
fn power(digit: f64, exponent: i32) -> f64 {
    if exponent < 0 { digit / 10f64.powi(-exponent) } else { digit * 10f64.powi(exponent) }
}

/// Takes the rounding error off a multiple of a round step.
fn tidy(value: f64) -> f64 {
    format!("{value:.9e}").parse().unwrap_or(value)
}

/// The steps that count as round.
const ROUND: [f64; 4] = [1.0, 2.0, 5.0, 10.0];

/// The least of 1, 2 or 5 times a power of ten that is not below `value`.
fn round_up(value: f64) -> f64 {
    let exponent = value.log10().floor() as i32;
    let fits = |digit: &&f64| power(**digit, exponent) >= value * 0.999_999_999;
    power(*ROUND.iter().find(fits).unwrap_or(&10.0), exponent)
}

/// The greatest of 1, 2 or 5 times a power of ten that is not above `value`.
fn round_down(value: f64) -> f64 {
    let exponent = value.log10().floor() as i32;
    let fits = |digit: &&f64| power(**digit, exponent) <= value * 1.000_000_001;
    power(*ROUND.iter().rev().find(fits).unwrap_or(&1.0), exponent)
}

/// A number with three digits that count, or all of a whole number: `0.0117`, `8.07`, `1234`; a
/// dash for what is no number.
pub fn digits(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if !value.is_finite() {
        return "–".to_owned();
    }
    // Rounding may carry into another digit, so the exponent is that of the rounded number.
    let rounded: f64 = format!("{value:.2e}").parse().unwrap_or(value);
    let exponent = rounded.abs().log10().floor() as i32;
    if exponent < -6 {
        return format!("{value:.1e}");
    }
    format!("{value:.*}", (2 - exponent).max(0) as usize)
}

/// A tick's number, with no zeros at its end.
pub fn tick(value: f64) -> String {
    let text = digits(value);
    if !text.contains('.') || text.contains('e') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A time with its unit: `4.21 µs`, `16.8 ms`, `1.23 s`.
pub fn time(ms: f64) -> String {
    if ms < 0.9995 {
        format!("{} µs", digits(ms * 1e3))
    } else if ms < 999.5 {
        format!("{} ms", digits(ms))
    } else {
        format!("{} s", digits(ms / 1e3))
    }
}

/// A ratio of speeds: `0.0117×`, `1.05×`.
pub fn times(ratio: f64) -> String {
    format!("{}×", digits(ratio))
}

/// A number of things: `1 row`, `2 rows`.
pub fn count(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// A length in a chart, short enough for a file.
pub fn px(length: f64) -> String {
    let text = format!("{length:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_meet_their_ends() {
        let linear = Scale::linear(&[3.0, 690.0], [10.0, 110.0]);
        assert_eq!(linear.domain, [0.0, 800.0]);
        assert_eq!((linear.at(0.0), linear.at(400.0), linear.at(9e9)), (10.0, 60.0, 110.0));
        assert_eq!(linear.ticks(), [0.0, 200.0, 400.0, 600.0, 800.0]);
        let log = Scale::log(&[0.012, 1.05], [0.0, 100.0]);
        assert_eq!(log.domain, [0.01, 2.0]);
        assert_eq!((log.at(0.01), log.at(2.0)), (0.0, 100.0));
        assert!((Scale::log(&[1.0, 100.0], [0.0, 2.0]).at(10.0) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn ticks_are_round_and_few() {
        let ticks = |low, high| Scale::log(&[low, high], [0.0, 1.0]).ticks();
        assert_eq!(ticks(0.012, 1.05), [0.01, 0.1, 1.0]);
        assert_eq!(ticks(0.2, 2.0), [0.2, 0.5, 1.0, 2.0]);
        assert_eq!(ticks(1e-6, 1e6), [1e-6, 1e-4, 0.01, 1.0, 100.0, 1e4, 1e6]);
        let near = Scale { domain: [0.8, 1.25], range: [0.0, 1.0], log: true };
        assert_eq!(near.ticks(), [0.8, 0.9, 1.0, 1.1, 1.2]);
        for high in [1e-9, 0.3, 0.7, 1.0, 7.0, 33.0, 999.0, 1.1e12] {
            for scale in [Scale::linear(&[high], [0.0, 1.0]), Scale::log(&[high], [0.0, 1.0])] {
                let ticks = scale.ticks();
                assert!((2..=8).contains(&ticks.len()), "{high}: {ticks:?}");
                assert!(ticks.iter().all(|tick| (0.0..=1.0).contains(&scale.at(*tick))));
            }
        }
    }

    #[test]
    fn nothing_to_show_has_a_scale_too() {
        for values in [&[][..], &[0.0], &[f64::NAN, f64::INFINITY, 1e-300]] {
            for scale in [Scale::linear(values, [0.0, 1.0]), Scale::log(values, [0.0, 1.0])] {
                assert!(scale.at(1.0).is_finite() && !scale.ticks().is_empty());
            }
        }
    }

    #[test]
    fn numbers_have_three_digits_and_units() {
        let texts = [0.011_71, 0.999_6, 8.068, 99.96, 690.4, 12_345.6].map(digits);
        assert_eq!(texts, ["0.0117", "1.00", "8.07", "100", "690", "12346"]);
        assert_eq!([0.2, 1.0, 100.0, 0.01].map(tick), ["0.2", "1", "100", "0.01"]);
        assert_eq!([0.004_21, 16.8, 1234.0].map(time), ["4.21 µs", "16.8 ms", "1.23 s"]);
        assert_eq!((digits(f64::NAN).as_str(), px(2.04).as_str()), ("–", "2"));
        assert_eq!(digits(1.234e-9), "1.2e-9");
        assert_eq!([count(1, "row"), count(0, "row")], ["1 row", "0 rows"]);
    }
}
