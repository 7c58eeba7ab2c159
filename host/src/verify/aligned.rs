//! How far the sums of Hopper's tensor cores may be from the exact ones where the elements have 8
//! bits: they keep 14 bits of them.
//!
//! One instruction adds 32 products to a sum. Every term is cut, toward 0, below 13 bits under the
//! largest exponent of the terms, where a product's exponent is the sum of its factors'; what is
//! left is added exactly; and the result is cut to 14 bits. (Li et al., "MMA-Sim: Bit-Accurate
//! Reference Model of Tensor Cores and Matrix Cores", arXiv 2511.10909; docs/numerics.md derives
//! the bound from it.) So it is known of each term at most how much it loses and in which
//! direction, and what all lose is added up here, along the reference's own sums.

use super::sums::{PANEL, Sums};

/// Products that an instruction adds.
const STEP: usize = 32;
/// 2^-13: what is kept under the largest exponent.
const KEPT: f64 = 1.0 / 8192.0;
/// More than the reference's own sums are off where they are not exact, as a part of the sum of
/// magnitudes.
const SLACK: f64 = 1.0 / (1u64 << 38) as f64;

/// The sum of one lane's products so far, and how far below and above it the tensor cores' may be.
#[derive(Clone, Copy, Default)]
struct Lane {
    sum: f64,
    abs: f64,
    below: f64,
    above: f64,
    /// How far the sum itself may be off.
    slack: f64,
}

impl Lane {
    /// At least the magnitude of the tensor cores' sum.
    fn largest(&self) -> f64 {
        (self.sum + self.above).max(self.below - self.sum) + self.slack
    }

    /// At most that.
    fn smallest(&self) -> f64 {
        let toward_0 = (self.sum - self.below).max(-self.sum - self.above);
        (toward_0 - self.slack).max(0.0)
    }

    /// The sum is cut to multiples of `unit`.
    fn cut(&mut self, unit: f64) {
        let is_exact = self.below == 0.0 && self.above == 0.0;
        let loss = if is_exact { rest(self.sum.abs(), unit) } else { unit };
        let (may_be_positive, may_be_negative) =
            (self.sum + self.above > 0.0, self.sum - self.below < 0.0);
        self.below += if may_be_positive { loss } else { 0.0 };
        self.above += if may_be_negative { loss } else { 0.0 };
    }
}

/// The largest power of 2 that is no larger than `magnitude`; 0 for 0.
#[inline(always)]
fn power_of(magnitude: f64) -> f64 {
    f64::from_bits(magnitude.to_bits() & 0x7ff << 52)
}

/// What `magnitude` has beyond a multiple of `unit`, a power of 2 of which it has fewer than 2^50.
#[inline(always)]
fn rest(magnitude: f64, unit: f64) -> f64 {
    const WHOLE: f64 = (1u64 << 52) as f64;
    let units = magnitude * (1.0 / unit);
    // Rounds to whole numbers, also where there is no instruction for that.
    let rest = units - ((units + WHOLE) - WHOLE);
    unit * if rest < 0.0 { rest + 1.0 } else { rest }
}

/// As `plain_row`, for elements that are normal numbers from 2^`NORMAL` on and multiples of
/// 2^`LEAST`, with what tensor cores may lose.
#[inline(always)]
pub(super) fn aligned_body<const NORMAL: i32, const LEAST: i32>(
    a: &[f64],
    b: &[[f64; PANEL]],
) -> Sums {
    // A smaller number has the least normal one's exponent.
    let least = 2f64.powi(NORMAL);
    // Below, an f64 holds every multiple of the least product.
    let exact = 2f64.powi(53 + 2 * LEAST);
    let mut lanes = [Lane::default(); PANEL];
    for (a, b) in a.chunks(STEP).zip(b.chunks(STEP)) {
        let mut products = [[0.0f64; PANEL]; STEP];
        let (mut sums, mut abs, mut largest) = ([0.0; PANEL], [0.0; PANEL], [0.0f64; PANEL]);
        for ((&a, b), products) in a.iter().zip(b).zip(&mut products) {
            let power_a = power_of(a.abs().max(least));
            for lane in 0..PANEL {
                let product = a * b[lane];
                let power = power_a * power_of(b[lane].abs().max(least));
                let power = if product == 0.0 { 0.0 } else { power };
                largest[lane] = if power > largest[lane] { power } else { largest[lane] };
                products[lane] = product;
                sums[lane] += product;
                abs[lane] += product.abs();
            }
        }
        let mut units = [0.0; PANEL];
        for lane in 0..PANEL {
            units[lane] = largest[lane].max(power_of(lanes[lane].largest())) * KEPT;
        }
        let (mut below, mut above) = ([0.0; PANEL], [0.0; PANEL]);
        for products in &products[..a.len()] {
            for lane in 0..PANEL {
                // No term is other than 0 where the unit is 0.
                let loss = rest(products[lane].abs(), units[lane].max(f64::MIN_POSITIVE));
                below[lane] += if products[lane] > 0.0 { loss } else { 0.0 };
                above[lane] += if products[lane] < 0.0 { loss } else { 0.0 };
            }
        }
        for (lane, sum) in lanes.iter_mut().enumerate() {
            let least_of_terms = power_of(sum.smallest()).max(largest[lane]);
            if power_of(sum.smallest()) < largest[lane] {
                sum.cut(units[lane].max(f64::MIN_POSITIVE));
            }
            sum.sum += sums[lane];
            sum.abs += abs[lane];
            sum.slack = if sum.abs < exact { 0.0 } else { sum.abs * SLACK };
            sum.below += below[lane];
            sum.above += above[lane];
            let of_result = power_of(sum.largest());
            if of_result > least_of_terms {
                sum.cut(of_result * KEPT);
            }
        }
    }
    Sums {
        hi: lanes.map(|lane| lane.sum),
        lo: [0.0; PANEL],
        abs: lanes.map(|lane| lane.abs),
        cut: lanes.map(|lane| lane.below.max(lane.above)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::sums::{e4m3_row, plain_row};

    fn in_every_lane(b: &[f64]) -> Vec<[f64; PANEL]> {
        b.iter().map(|&b| [b; PANEL]).collect()
    }

    #[test]
    fn what_is_beyond_a_unit() {
        for (magnitude, unit, expected) in
            [(5.0, 2.0, 1.0), (4.0, 2.0, 0.0), (0.75, 0.5, 0.25), (3.0, 4.0, 3.0), (7.5, 1.0, 0.5)]
        {
            assert_eq!(rest(magnitude, unit), expected, "{magnitude} {unit}");
        }
        assert_eq!([power_of(5.5), power_of(4.0), power_of(0.3)], [4.0, 4.0, 0.25]);
    }

    #[test]
    fn whole_numbers_are_exact_up_to_14_bits() {
        let a: Vec<f64> = (0..200).map(|k| f64::from(k % 17 - 8)).collect();
        let b: Vec<f64> = (0..200).map(|k| f64::from(k * 5 % 17 - 8)).collect();
        let sums = e4m3_row(&a, &in_every_lane(&b));
        assert_eq!(sums.cut, [0.0; PANEL]);
        let plain = plain_row(&a, &in_every_lane(&b));
        assert_eq!((sums.hi, sums.abs), (plain.hi, plain.abs));
        // 64 times 256 is 2^14, of which 1 is kept, and one more is 2^14 + 64.
        let sums = e4m3_row(&[16.0; 65], &in_every_lane(&[16.0; 65]));
        assert_eq!((sums.hi[0], sums.cut[0]), (16640.0, 0.0));
        // 2^14 + 1 is cut to 2^14.
        let (mut a, mut b) = (vec![0.0; 64], vec![0.0; 64]);
        (a[0], b[0], a[40], b[40]) = (128.0, 128.0, 1.0, 1.0);
        assert_eq!(e4m3_row(&a, &in_every_lane(&b)).cut[0], 1.0);
        // So is what is added to a sum of other sign, and both are upward.
        (a[0], a[40]) = (-128.0, -1.0);
        assert_eq!(e4m3_row(&a, &in_every_lane(&b)).cut[0], 1.0);
    }

    #[test]
    fn a_small_factor_has_the_exponent_of_a_normal_one() {
        // 2^-9 has the exponent of 2^-6: times 2^8 that of 4, under which 2^-11 is kept.
        let (mut a, mut b) = (vec![0.0; 32], vec![0.0; 32]);
        (a[0], b[0], a[1], b[1]) = (2f64.powi(-9), 256.0, 2f64.powi(-9), 2f64.powi(-6));
        let sums = e4m3_row(&a, &in_every_lane(&b));
        assert_eq!(sums.hi[0], 0.5 + 2f64.powi(-15));
        assert_eq!(sums.cut[0], 2f64.powi(-15));
    }
}
