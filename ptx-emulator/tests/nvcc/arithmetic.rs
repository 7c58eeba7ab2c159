//! Half precision, double precision, and the functions of CUDA's mathematics library.

use super::{Gpu, noise, whole};
use ptx_emulator::{Argument, Launch};

/// The value of an f16 (5 bits of exponent) or bf16 (8 bits).
fn decoded(bits: u16, exponent_bits: u32) -> f64 {
    let fraction_bits = 15 - exponent_bits;
    let bias = (1 << (exponent_bits - 1)) - 1;
    let fraction = f64::from(bits & ((1 << fraction_bits) - 1));
    let exponent = i32::from(bits >> fraction_bits) & ((1 << exponent_bits) - 1);
    let unit = 2_f64.powi(exponent.max(1) - bias - fraction_bits as i32);
    let whole = if exponent == 0 { 0.0 } else { 2_f64.powi(fraction_bits as i32) };
    let sign = if bits >> 15 == 0 { 1.0 } else { -1.0 };
    sign * (whole + fraction) * unit
}

/// The finite number of the format that is nearest, the even one of two. Zeros are positive.
fn nearest(value: f64, exponent_bits: u32) -> u16 {
    let decoded = |bits| decoded(bits, exponent_bits);
    // Not above the magnitude, and the next one above it.
    let (mut below, mut above) = (0, ((1 << exponent_bits) - 1) << (15 - exponent_bits));
    while above - below > 1 {
        let middle = below + (above - below) / 2;
        match decoded(middle) <= value.abs() {
            true => below = middle,
            false => above = middle,
        }
    }
    let (down, up) = (value.abs() - decoded(below), decoded(above) - value.abs());
    let magnitude = if up < down || up == down && below % 2 == 1 { above } else { below };
    if value < 0.0 { magnitude | 0x8000 } else { magnitude }
}

/// f16 numbers that are multiples of 1/64 up to 8: sums of their products are exact in f64.
fn halves(count: usize) -> Vec<u16> {
    whole(count, 512).map(|number| nearest(f64::from(number) / 64.0, 5)).collect()
}

#[test]
fn axpy_in_half_precision() {
    let mut gpu = Gpu::new(include_str!("half_axpy.ptx"));
    let pairs = 100;
    let (a, x, y) = (nearest(1.234, 5), halves(2 * pairs), halves(2 * pairs + 1)[1..].to_vec());
    let (x_at, y_at) = (gpu.upload(&x), gpu.upload(&y));
    let arguments = [Argument::from(a), x_at.into(), y_at.into(), (pairs as i32).into()];
    gpu.launch("half_axpy", Launch::new(2, 64), &arguments);
    let expected: Vec<u16> = std::iter::zip(&x, &y)
        .map(|(&x, &y)| nearest(decoded(a, 5) * decoded(x, 5) + decoded(y, 5), 5))
        .collect();
    assert_eq!(gpu.download::<u16>(y_at, 2 * pairs), expected);
}

#[test]
fn sums_in_half_precision() {
    let mut gpu = Gpu::new(include_str!("half_axpy.ptx"));
    let count = 150;
    let (x, y) = (halves(count), halves(count + 7)[7..].to_vec());
    let (x_at, y_at) = (gpu.upload(&x), gpu.upload(&y));
    let to = gpu.space::<u16>(count);
    let arguments = [x_at.into(), y_at.into(), to.into(), (count as i32).into()];
    gpu.launch("half_sums", Launch::new(3, 64), &arguments);
    let expected: Vec<u16> = std::iter::zip(&x, &y)
        .map(|(&x, &y)| match (decoded(x, 5), decoded(y, 5)) {
            (x, y) if x > y => nearest(x + y, 5),
            (x, y) => nearest(x - nearest_value(2.0 * y), 5),
        })
        .collect();
    assert_eq!(gpu.download::<u16>(to, count), expected);
}

/// A value rounded to f16.
fn nearest_value(value: f64) -> f64 {
    decoded(nearest(value, 5), 5)
}

#[test]
fn to_bfloat16() {
    let mut gpu = Gpu::new(include_str!("half_axpy.ptx"));
    let mut input: Vec<f32> = noise(100)
        .into_iter()
        .map(|number| f32::from_bits(number & 0xbfff_ffff | 0x2000_0000))
        .collect();
    // Halfway between two, towards the even one below and above.
    input.extend([1.0, -1.0, 1.0 + 1.0 / 256.0, 1.0 + 3.0 / 256.0, 0.0]);
    let (from, to) = (gpu.upload(&input), gpu.space::<u16>(input.len()));
    let arguments = [from.into(), to.into(), (input.len() as i32).into()];
    gpu.launch("to_bfloat16", Launch::new(2, 64), &arguments);
    let expected: Vec<u16> = input.iter().map(|&x| nearest(f64::from(x), 8)).collect();
    assert_eq!(gpu.download::<u16>(to, input.len()), expected);
}

/// Horner's rule with fused steps, and a division: the bits are given.
#[test]
fn polynomial() {
    let mut gpu = Gpu::new(include_str!("dot.ptx"));
    let x: Vec<f64> = whole(64, 5000).map(|number| f64::from(number) / 777.0).collect();
    let (from, to) = (gpu.upload(&x), gpu.space::<f64>(64));
    let before = gpu.space::<u32>(64);
    gpu.launch("polynomial", Launch::new(1, 64), &[from.into(), to.into(), before.into()]);
    let coefficients = [1.0, -0.5, 0.25, 3.0, 1e-3];
    let expected: Vec<f64> = x
        .iter()
        .map(|&x| {
            let sum = coefficients.iter().rev().fold(0.0_f64, |sum, &c| sum.mul_add(x, c));
            sum / x.mul_add(x, 1.0)
        })
        .collect();
    assert_eq!(gpu.download::<f64>(to, 64), expected);
    let mut counts = gpu.download::<u32>(before, 64);
    counts.sort_unstable();
    assert_eq!(counts, (7..71).collect::<Vec<u32>>());
    let (variable, bytes) = gpu.emulator.variable(&gpu.module, "evaluations").expect("a variable");
    assert_eq!((gpu.download::<u32>(variable, 1), bytes), (vec![71], 4));
}

#[test]
fn softmax() {
    let (rows, columns) = (3, 77);
    let mut gpu = Gpu::new(include_str!("softmax.ptx"));
    let input: Vec<f32> =
        whole(rows * columns, 10_000).map(|number| number as f32 / 1000.0).collect();
    let (from, to) = (gpu.upload(&input), gpu.space::<f32>(rows * columns));
    let arguments = [from.into(), to.into(), (columns as i32).into()];
    gpu.launch("softmax", Launch::new(rows as u32, 64), &arguments);
    let found = gpu.download::<f32>(to, rows * columns);
    for (row, found) in std::iter::zip(input.chunks(columns), found.chunks(columns)) {
        let sum: f64 = row.iter().map(|&x| f64::from(x).exp()).sum();
        for (&x, &found) in std::iter::zip(row, found) {
            let expected = f64::from(x).exp() / sum;
            // A few units in the last place: two exponentials, a sum of 77, a quotient.
            let error = (f64::from(found) - expected).abs() / expected;
            assert!(error <= 2e-6, "softmax of {x}: {found}, not {expected}");
        }
    }
}

/// The largest error of each function in units of the last place is that of CUDA's documentation
/// (CUDA C++ Programming Guide, mathematical functions), and one more for the reference.
#[test]
fn functions() {
    let mut gpu = Gpu::new(include_str!("softmax.ptx"));
    let mut input: Vec<f32> =
        noise(100).into_iter().map(|number| number as f32 / 2.0_f32.powi(26)).collect();
    // Small, exact, and so large that the sine reduces its argument the long way.
    input.extend([1e-3, 0.5, 1.0, 2.5, 1e6, 123_456.79]);
    let count = input.len();
    let (from, to) = (gpu.upload(&input), gpu.space::<f32>(7 * count));
    let arguments = [from.into(), to.into(), (count as i32).into()];
    gpu.launch("functions", Launch::new(2, 64), &arguments);
    let found = gpu.download::<f32>(to, 7 * count);
    type Function = fn(f64) -> f64;
    let functions: [(&str, f64, Function); 7] = [
        ("sqrt", 0.5, f64::sqrt),
        ("rsqrt", 3.0, |x| 1.0 / x.sqrt()),
        ("log", 2.0, f64::ln),
        ("sin", 3.0, f64::sin),
        ("rounding", 0.5, |x| x.floor() - x.trunc() + x.round_ties_even()),
        ("pow", 5.0, |x| x.powf(1.5)),
        ("tanh", 3.0, f64::tanh),
    ];
    for ((name, bound, function), found) in std::iter::zip(functions, found.chunks(count)) {
        for (&x, &found) in std::iter::zip(&input, found) {
            let expected = function(f64::from(x));
            let rounded = expected as f32;
            let unit = f64::from(rounded.abs().next_up()) - f64::from(rounded.abs());
            let error = (f64::from(found) - expected).abs() / unit;
            assert!(error <= bound, "{name} of {x}: {found}, not {expected}");
        }
    }
}
