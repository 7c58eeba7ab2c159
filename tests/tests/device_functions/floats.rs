//! `GpuFloat`, bit for bit against std, and the approximations against their bounds in f64.

use std::f32::consts::PI;

use cuda_std::GpuFloat;

use crate::gpu::{Buffer, Slice, each_module};

/// A sequence of bits that looks random and is the same at every run (Steele, Lea, Flood:
/// "SplitMix", 2014).
pub fn random_bits(count: usize) -> impl Iterator<Item = u64> {
    (1..=count as u64).map(|i| {
        let bits = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    })
}

macro_rules! check_floats {
    ($test:ident, $kernel:literal, $type:ident, $bits:ident) => {
        #[test]
        fn $test() {
            let largest_odd = 2.0 / $type::EPSILON - 1.0;
            let special = [
                0.0,
                0.5,
                1.0,
                1.5,
                2.5,
                0.25,
                3.0,
                1e-30,
                1e30,
                largest_odd,
                largest_odd / 2.0,
                0.5 - $type::EPSILON / 4.0,
                1.0 - $type::EPSILON / 2.0,
                $type::MIN_POSITIVE,
                $type::from_bits(1),
                $type::MAX,
                $type::INFINITY,
                $type::NAN,
            ];
            let signed = special.into_iter().flat_map(|x| [x, -x]);
            let moderate = random_bits(4000).map(|bits| (bits as i64 >> 40) as $type / 4096.0);
            let any = random_bits(4000).map(|bits| $type::from_bits(bits as $bits));
            let xs: Vec<$type> = signed.chain(moderate).chain(any).collect();
            let turned = |by: usize| -> Vec<$type> {
                (0..xs.len()).map(|i| xs[(i * 31 + by) % xs.len()]).collect()
            };
            let (ys, zs) = (turned(7), turned(1001));
            let exponents = [0, 1, -1, 2, 3, -3, 10, 31, -31, 100, i32::MAX, i32::MIN];
            let ns: Vec<i32> = (0..xs.len()).map(|i| exponents[i % exponents.len()]).collect();
            each_module(|gpu| {
                let out = Buffer::<$type>::zeros(12 * xs.len());
                let [x, y, z] = [&xs, &ys, &zs].map(|values| Buffer::new(values));
                let arguments: [&dyn crate::gpu::Argument; 5] =
                    [&Slice(&x), &Slice(&y), &Slice(&z), &Slice(&Buffer::new(&ns)), &&out];
                gpu.run($kernel, xs.len().div_ceil(128) as u32, 128, &arguments);
                for (i, results) in out.download().chunks(12).enumerate() {
                    let (x, y, z, n) = (xs[i], ys[i], zs[i], ns[i]);
                    let expected = [
                        x.floor(),
                        x.ceil(),
                        x.round(),
                        x.round_ties_even(),
                        x.trunc(),
                        x.fract(),
                        x.abs(),
                        x.signum(),
                        x.sqrt(),
                        x.copysign(y),
                        x.mul_add(y, z),
                        // The same multiplications and the same division.
                        GpuFloat::powi(x, n),
                    ];
                    for (function, (result, expected)) in results.iter().zip(expected).enumerate() {
                        let same = result.to_bits() == expected.to_bits()
                            || result.is_nan() && expected.is_nan();
                        assert!(
                            same,
                            "function {function} of {x:e}, {y:e}, {z:e}, {n}: \
                            {result:e}, not {expected:e}"
                        );
                    }
                }
            });
        }
    };
}

check_floats!(floats_f32, "floats_f32", f32, u32);
check_floats!(floats_f64, "floats_f64", f64, u64);

/// A function of [`cuda_std::float::approx`]: place in the kernel's output, exact function, and the
/// bound on the error at (x, exact result), or `None` outside of its domain.
type Approximation = (usize, &'static str, fn(f64) -> f64, fn(f64, f64) -> Option<f64>);

const APPROXIMATIONS: [Approximation; 5] = [
    (0, "exp2", f64::exp2, |x, exact| (-126.0..128.0).contains(&x).then(|| exact * 2f64.powi(-22))),
    (1, "log2", f64::log2, |x, exact| {
        let scale = if 0.5 < x && x < 2.0 { 1.0 } else { exact.abs() };
        (x >= f32::MIN_POSITIVE as f64 && x.is_finite()).then(|| scale * 2f64.powi(-22))
    }),
    (2, "sin", f64::sin, |x, _| trigonometric_bound(x)),
    (3, "cos", f64::cos, |x, _| trigonometric_bound(x)),
    (
        4,
        "rsqrt",
        |x| 1.0 / x.sqrt(),
        |x, exact| {
            (x >= f32::MIN_POSITIVE as f64 && x.is_finite()).then(|| exact * 2f64.powf(-22.4))
        },
    ),
];

fn trigonometric_bound(x: f64) -> Option<f64> {
    let pi = PI as f64;
    match x.abs() {
        x if x <= 2.0 * pi => Some(2f64.powf(-20.5)),
        x if x <= 100.0 * pi => Some(2f64.powf(-14.7)),
        _ => None,
    }
}

#[test]
fn approximations_are_within_their_bounds() {
    let steps = (-40_000..40_000).map(|i| i as f32 / 128.0); // -312.5 to 312.5
    let near_one = (-20_000..20_000).map(|i| 1.0 + i as f32 / 16384.0);
    let any = random_bits(50_000).map(|bits| f32::from_bits(bits as u32));
    let xs: Vec<f32> = steps.chain(near_one).chain(any).filter(|x| !x.is_nan()).collect();
    each_module(|gpu| {
        let out = Buffer::<f32>::zeros(5 * xs.len());
        let x = Buffer::new(&xs);
        gpu.run("approximations", xs.len().div_ceil(128) as u32, 128, &[&Slice(&x), &&out]);
        let results = out.download();
        for (place, name, function, bound) in APPROXIMATIONS {
            let mut checked = 0;
            let mut worst = (0.0, 0.0);
            for (i, x) in xs.iter().enumerate() {
                let exact = function(*x as f64);
                let Some(bound) = bound(*x as f64, exact) else { continue };
                let error = (results[5 * i + place] as f64 - exact).abs();
                assert!(error <= bound, "{name}({x:e}): {error:e} of {bound:e} in {}", gpu.name);
                checked += 1;
                if error > worst.0 * bound {
                    worst = (error / bound, *x as f64);
                }
            }
            assert!(checked > 20_000, "{name}: {checked} arguments");
            println!(
                "{name}: {checked} arguments, worst {:.3} of its bound at {:e}",
                worst.0, worst.1
            );
        }
    });
}

#[test]
fn approximations_of_special_numbers() {
    each_module(|gpu| {
        let xs = [0.0, f32::INFINITY, -1.0];
        let out = Buffer::<f32>::zeros(15);
        gpu.run("approximations", 1, 32, &[&Slice(&Buffer::new(&xs)), &&out]);
        let out = out.download();
        assert_eq!(out[0..5], [1.0, f32::NEG_INFINITY, 0.0, 1.0, f32::INFINITY]);
        assert_eq!([out[5], out[6], out[9]], [f32::INFINITY, f32::INFINITY, 0.0]);
        assert!(out[7].is_nan() && out[8].is_nan() && out[11].is_nan() && out[14].is_nan());
    });
}
