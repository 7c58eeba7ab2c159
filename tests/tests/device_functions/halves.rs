//! `half`: conversions and fused multiply-add against integer arithmetic.

use cuda_std::half::{HalfExt, bf16, f16};

use crate::floats::random_bits;
use crate::gpu::{Buffer, Gpu, Slice, each_module};

/// A 16-bit format, for the oracles: digits of the significand with the leading one, and exponent
/// of the smallest number.
#[derive(Clone, Copy)]
struct Format {
    name: &'static str,
    digits: u32,
    least_exponent: i32,
    largest: f64,
}

const F16: Format = Format { name: "f16", digits: 11, least_exponent: -24, largest: 65504.0 };
const BF16: Format =
    Format { name: "bf16", digits: 8, least_exponent: -133, largest: 3.3895313892515355e38 };

impl Format {
    fn value(self, bits: u16) -> f64 {
        let fraction_bits = self.digits - 1;
        let exponent = ((bits & 0x7fff) >> fraction_bits) as i32;
        let fraction = (bits & ((1 << fraction_bits) - 1)) as f64;
        let top = 0x7fff >> fraction_bits;
        let magnitude = match exponent {
            0 => fraction * 2f64.powi(self.least_exponent),
            _ if exponent == top && fraction == 0.0 => f64::INFINITY,
            _ if exponent == top => f64::NAN,
            _ => {
                let significand = fraction + f64::from(1 << fraction_bits);
                significand * 2f64.powi(self.least_exponent + exponent - 1)
            }
        };
        if bits >> 15 == 1 { -magnitude } else { magnitude }
    }

    /// `sum * 2^exponent` rounded to the format, ties to even; exact in f64, infinite where too
    /// large.
    fn round(self, sum: i128, exponent: i32) -> f64 {
        let magnitude = sum.unsigned_abs();
        let length = (u128::BITS - magnitude.leading_zeros()) as i32;
        // Exponent of the last digit that is kept.
        let unit = (length + exponent - self.digits as i32).max(self.least_exponent);
        let dropped = unit - exponent;
        let value = match dropped {
            ..=0 => magnitude as f64 * 2f64.powi(exponent),
            1..=126 => {
                let (kept, rest) = (magnitude >> dropped, magnitude & ((1 << dropped) - 1));
                let half = 1 << (dropped - 1);
                let kept = kept + (rest > half || rest == half && kept & 1 == 1) as u128;
                kept as f64 * 2f64.powi(unit)
            }
            _ => 0.0,
        };
        let value = if value > self.largest { f64::INFINITY } else { value };
        if sum < 0 { -value } else { value }
    }

    /// The number of the format nearest to `x`, ties to even, as f64.
    fn nearest(self, x: f32) -> f64 {
        if x == 0.0 || !x.is_finite() {
            return x as f64;
        }
        let bits = x.to_bits();
        let exponent = (bits >> 23 & 0xff) as i32;
        let fraction = (bits & 0x7f_ffff) as i128;
        let significand = if exponent == 0 { fraction } else { fraction | 1 << 23 };
        let value = self.round(significand, exponent.max(1) - 150);
        value.copysign(x as f64)
    }
}

fn same(result: f64, expected: f64) -> bool {
    result.to_bits() == expected.to_bits() || result.is_nan() && expected.is_nan()
}

fn blocks(elements: usize) -> u32 {
    elements.div_ceil(256) as u32
}

fn all_bits() -> Vec<u16> {
    (0..=u16::MAX).collect()
}

#[test]
fn widening_is_exact_for_every_number() {
    let host = [
        (F16, "f16_to_f32", (|bits| f16::from_bits(bits).to_f32_gpu()) as fn(u16) -> f32),
        (BF16, "bf16_to_f32", |bits| bf16::from_bits(bits).to_f32_gpu()),
    ];
    let check = |format: Format, place: &str, results: &[f32]| {
        for (bits, result) in all_bits().into_iter().zip(results) {
            let expected = format.value(bits);
            assert!(
                same(*result as f64, expected),
                "{place}, {bits:04x}: {result:e}, not {expected:e}"
            );
        }
    };
    for (format, kernel, function) in host {
        check(format, "host", &all_bits().into_iter().map(function).collect::<Vec<_>>());
        each_module(|gpu| {
            let out = Buffer::<f32>::zeros(1 << 16);
            gpu.run(kernel, blocks(1 << 16), 256, &[&Slice(&Buffer::new(&all_bits())), &&out]);
            check(format, gpu.name, &out.download());
        });
    }
}

/// Every number of the format, the middle between it and the next, the neighbours of both, and
/// random ones.
fn narrowing_inputs(format: Format) -> Vec<f32> {
    let around = |x: f32| {
        let bits = x.to_bits();
        [bits.wrapping_sub(1), bits, bits.wrapping_add(1)].map(f32::from_bits)
    };
    let next = |bits: u16| format.value(bits.wrapping_add(1));
    let middles =
        all_bits().into_iter().map(|bits| ((format.value(bits) + next(bits)) / 2.0) as f32);
    let numbers = all_bits().into_iter().map(|bits| format.value(bits) as f32);
    let random = random_bits(200_000).map(|bits| f32::from_bits(bits as u32));
    let largest = [65519.996, 65520.0, 65536.0, f32::MAX, f32::from_bits(0x7f7f_7fff)];
    let payloads = [0x7f80_0001, 0xff80_0001, 0x7fc0_0000, 0x7fff_ffff].map(f32::from_bits);
    let edges = numbers.chain(middles).chain(largest).flat_map(around);
    edges.chain(random).chain(payloads).collect()
}

#[test]
fn narrowing_rounds_to_nearest_even() {
    let formats = [
        (F16, "f32_to_f16", (|x| f16::from_f32_gpu(x).to_bits()) as fn(f32) -> u16),
        (BF16, "f32_to_bf16", |x| bf16::from_f32_gpu(x).to_bits()),
    ];
    for (format, kernel, host) in formats {
        let inputs = narrowing_inputs(format);
        let check = |place: &str, results: &[u16]| {
            for (x, result) in inputs.iter().zip(results) {
                let (result, expected) = (format.value(*result), format.nearest(*x));
                assert!(
                    same(result, expected),
                    "{place}, {} of {x:e} ({:08x}): {result:e}, not {expected:e}",
                    format.name,
                    x.to_bits()
                );
            }
        };
        check("host", &inputs.iter().map(|x| host(*x)).collect::<Vec<_>>());
        each_module(|gpu| {
            let out = Buffer::<u16>::zeros(inputs.len());
            gpu.run(kernel, blocks(inputs.len()), 256, &[&Slice(&Buffer::new(&inputs)), &&out]);
            check(gpu.name, &out.download());
        });
    }
}

/// Triples of the format: random ones of moderate size, ones that nearly cancel or nearly tie, and
/// special numbers.
fn fma_inputs(format: Format) -> Vec<[u16; 3]> {
    let one = 0x7fff >> (format.digits - 1) >> 1 << (format.digits - 1);
    let ulp = 1 << (format.digits - 1);
    // Exponents of -12 to 12 around 1, any sign and fraction.
    let moderate = |bits: u64| {
        let exponent = (bits >> 20) as i32 % 13 * if bits >> 40 & 1 == 1 { 1 } else { -1 };
        let fraction = (bits & (ulp as u64 - 1)) as u16;
        (one + exponent * ulp) as u16 | fraction | ((bits >> 50 & 1) as u16 * 0x8000)
    };
    let random: Vec<u64> = random_bits(300_000).collect();
    let mut triples: Vec<[u16; 3]> = random
        .chunks(3)
        .map(|bits| [moderate(bits[0]), moderate(bits[1]), moderate(bits[2])])
        .collect();
    for bits in random.iter().take(30_000) {
        // c is about -a * b, or tiny beside it.
        let (a, b) = (moderate(*bits), moderate(bits.rotate_left(17)));
        let product = format.value(a) * format.value(b);
        let near = f32_bits_to(format, -product as f32);
        triples.push([a, b, near]);
        let tiny = (one - 12 * ulp) as u16;
        triples.push([a, b, tiny]);
        triples.push([a, b, tiny | 0x8000]);
    }
    let infinite = 0x7fff >> (format.digits - 1) << (format.digits - 1);
    let special = [0, 1, 2, ulp as u16, one as u16, infinite as u16 - 1, infinite as u16, 0x7fff];
    let special: Vec<u16> = special.into_iter().flat_map(|bits| [bits, bits | 0x8000]).collect();
    for a in &special {
        for b in &special {
            triples.extend(special.iter().map(|c| [*a, *b, *c]));
        }
    }
    triples
}

fn f32_bits_to(format: Format, x: f32) -> u16 {
    if format.digits == F16.digits {
        f16::from_f32(x).to_bits()
    } else {
        bf16::from_f32(x).to_bits()
    }
}

/// `a * b + c`, rounded once, by integers; `None` where these do not hold the sum.
fn exact_fma(format: Format, [a, b, c]: [u16; 3]) -> Option<f64> {
    let [a, b, c] = [a, b, c].map(|bits| format.value(bits));
    let plain = a * b + c;
    if !plain.is_finite() || a * b == 0.0 || plain == 0.0 {
        // Special numbers, exact sums, and zeros with the sign that IEEE 754 gives them. An
        // overflow of f64 can't be.
        return Some(if plain.is_finite() && plain != 0.0 { c } else { plain });
    }
    // Units of 2^-48 hold every product of f16, and those of moderate bf16.
    let unit = 2f64.powi(48);
    let whole =
        |x: f64| (x.abs() * unit < 2f64.powi(100) && (x * unit).fract() == 0.0).then_some(x * unit);
    let (product, addend) = (whole(a * b)?, whole(c)?);
    Some(format.round(product as i128 + addend as i128, -48))
}

fn check_fma(format: Format, place: &str, triples: &[[u16; 3]], results: &[u16]) {
    let mut checked = 0;
    for (triple, result) in triples.iter().zip(results) {
        let Some(expected) = exact_fma(format, *triple) else { continue };
        let result = format.value(*result);
        let values = triple.map(|bits| format.value(bits));
        assert!(
            same(result, expected),
            "{place}, {}: {values:?}: {result:e}, not {expected:e}",
            format.name
        );
        checked += 1;
    }
    assert!(checked > 100_000, "{checked} checked");
}

#[test]
fn fused_multiply_add_rounds_once() {
    let formats = [
        (F16, "fma_f16", (|a, b, c| f16_fma([a, b, c])) as fn(u16, u16, u16) -> u16),
        (BF16, "fma_bf16", |a, b, c| bf16_fma([a, b, c])),
    ];
    for (format, kernel, host) in formats {
        let triples = fma_inputs(format);
        let results: Vec<u16> = triples.iter().map(|[a, b, c]| host(*a, *b, *c)).collect();
        check_fma(format, "host", &triples, &results);
        each_module(|gpu| {
            let device = on_gpu(gpu, kernel, &triples);
            check_fma(format, gpu.name, &triples, &device);
            // Also where the integers can't tell: host and device agree.
            for ((host, device), triple) in results.iter().zip(&device).zip(&triples) {
                let (host, device) = (format.value(*host), format.value(*device));
                assert!(same(device, host), "{}, {}: {triple:04x?}", gpu.name, format.name);
            }
        });
    }
}

fn f16_fma(triple: [u16; 3]) -> u16 {
    let [a, b, c] = triple.map(f16::from_bits);
    a.mul_add_gpu(b, c).to_bits()
}

fn bf16_fma(triple: [u16; 3]) -> u16 {
    let [a, b, c] = triple.map(bf16::from_bits);
    a.mul_add_gpu(b, c).to_bits()
}

fn on_gpu(gpu: &Gpu, kernel: &str, triples: &[[u16; 3]]) -> Vec<u16> {
    let input = Buffer::<u16>::new(triples.as_flattened());
    let out = Buffer::<u16>::zeros(triples.len());
    gpu.run(kernel, blocks(triples.len()), 256, &[&Slice(&input), &&out]);
    out.download()
}
