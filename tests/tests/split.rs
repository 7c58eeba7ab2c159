//! f32 as sums of three bf16: how far sums are from exact ones, beside those of f32 itself, and
//! what becomes of numbers that bf16 has not.

use gemmite::emulator::Options;
use gemmite::{Device, Gemm, Matrix, Op, Precision, Shape, random};
use gemmite_tests::{hopper, say};

const VARIANT: &str = "warp_group_split_128x128";

/// Of sums, relative to those of the products' magnitudes: the root of the mean square of the
/// errors, and the largest.
#[derive(Clone, Copy, Debug)]
struct Errors {
    rms: f64,
    most: f64,
}

fn errors(found: &Matrix<f32>, exact: &Matrix<f64>, of: &Matrix<f64>) -> Errors {
    let pairs = found.as_slice().iter().zip(exact.as_slice()).zip(of.as_slice());
    let each = pairs.map(|((&found, exact), of)| (f64::from(found) - exact).abs() / of);
    let (sum, most) = each.fold((0.0, 0.0), |(sum, most), x: f64| (sum + x * x, x.max(most)));
    Errors { rms: (sum / found.as_slice().len() as f64).sqrt(), most }
}

/// The errors of f32 by its own kernel, and by three bf16.
fn of_both(device: &Device, by: &str, a: &Matrix<f32>, b: &Matrix<f32>) -> [Errors; 2] {
    let wide = |of: &Matrix<f32>, magnitude: bool| {
        let value = |x: f32| if magnitude { f64::from(x.abs()) } else { f64::from(x) };
        Matrix::from_fn(of.shape(), |i, j| value(of[(i, j)])).unwrap()
    };
    let sums = |magnitude| {
        let (a, b) = (wide(a, magnitude), wide(b, magnitude));
        Gemm::<f64>::new().run(&Device::cpu(), &a, &b).unwrap()
    };
    let (exact, of) = (sums(false), sums(true));
    let full = Gemm::<f32>::new().kernel(by).run(device, a, b).unwrap();
    let split = Gemm::<f32>::new().precision(Precision::Bf16x6).kernel(VARIANT);
    let split = split.run(device, a, b).unwrap();
    [errors(&full, &exact, &of), errors(&split, &exact, &of)]
}

/// No further from the exact sums than f32's own, of signs that cancel and of one sign.
fn is_as_exact(device: &Device, by: &str, (m, n, k): (usize, usize, usize)) {
    let shapes = [Shape::new(m, k), Shape::new(k, n)];
    type Make = fn(Shape, u64) -> Result<Matrix<f32>, gemmite::Error>;
    for (name, make) in [
        ("N(0, 1)", random::normal::<f32> as Make),
        ("from 0 to 1", random::uniform::<f32> as Make),
    ] {
        let (a, b) = (make(shapes[0], 1).unwrap(), make(shapes[1], 2).unwrap());
        let [full, split] = of_both(device, by, &a, &b);
        let (units, full_units) = (split.rms * 2f64.powi(24), full.rms * 2f64.powi(24));
        say(&format!(
            "{m}x{n}x{k} {name} on {}: of 2^-24 of the magnitudes' sum {units:.3} in the mean and \
             {:.3} at most, f32 {full_units:.3} and {:.3}",
            device.name(),
            split.most * 2f64.powi(24),
            full.most * 2f64.powi(24),
        ));
        assert!(split.rms <= 1.1 * full.rms && split.most <= 1.5 * full.most, "{split:?} {full:?}");
    }
}

/// An infinity meets second summands that are 0 or negative, and numbers above bf16's largest and
/// below its least lose nothing that f32 keeps.
fn numbers_that_bf16_has_not(device: &Device) {
    let gemm = Gemm::<f32>::new().precision(Precision::Bf16x6).kernel(VARIANT);
    let one = |a: f32, b: f32| {
        let of = |x| Matrix::from_fn(Shape::new(1, 1), |_, _| x).unwrap();
        gemm.run(device, &of(a), &of(b)).unwrap()[(0, 0)]
    };
    let inf = f32::INFINITY;
    // The second summand of the first is negative, that of the second 0, of the third positive.
    for b in [1.007, 1.0, 1.003] {
        assert_eq!([one(inf, b), one(-inf, b), one(b, -inf)], [inf, -inf, -inf], "{b}");
    }
    // The first summand of the least number of f32 is bf16's least, not 0.
    assert_eq!([one(inf, f32::from_bits(1)), one(-f32::from_bits(1 << 14), inf)], [inf, -inf]);
    assert!(one(inf, 0.0).is_nan() && one(f32::NAN, 1.0).is_nan() && one(inf, f32::NAN).is_nan());
    assert!(one(f32::from_bits(0x7F80_0001), 2.0).is_nan());
    assert_eq!(
        [one(f32::MAX, 1.0), one(f32::MAX, 2.0), one(-f32::MAX, 0.5)],
        [f32::MAX, inf, -f32::MAX / 2.0]
    );
    // 24 digits, the last of which is a third summand's.
    for x in [16_777_215.0f32, 8_388_609.0, 1.000_000_1, 3.141_592_7e-20, 2f32.powi(-109)] {
        assert_eq!([one(x, 1.0), one(-2.0, x)], [x, -2.0 * x]);
    }
    let lost = (one(1.234_567_8e-38, 1.0) - 1.234_567_8e-38).abs();
    let most = f32::from_bits(1 << 15); // 2^-134
    assert!(lost <= most, "{lost:e}");
}

#[test]
fn emulated() {
    let options = Options { multiprocessors: Some(4), arch: (9, 0), ..Options::default() };
    let device = Device::emulator_with(&options).unwrap();
    numbers_that_bf16_has_not(&device);
    is_as_exact(&device, "k02_tiled_16", (20, 30, 900));
}

#[test]
fn on_cuda() {
    let Some(device) = hopper() else { return };
    numbers_that_bf16_has_not(&device);
    for k in [64, 512, 4096, 32_768] {
        is_as_exact(&device, "k10_grouped_order", (500, 700, k));
    }
}

/// Asked for by name, and where it is faster: large products on Hopper, and no others.
#[test]
fn is_taken_where_it_is_faster() {
    let plan = |device: &Device, precision, (m, n, k): (usize, usize, usize)| {
        let layout = |rows, cols| gemmite::Layout::row_major(Shape::new(rows, cols));
        let gemm = Gemm::<f32>::new().op_b(Op::Transpose).precision(precision);
        let plan = gemm.plan(device.info(), layout(m, k), layout(n, k)).unwrap();
        plan.kernel.unwrap().variant
    };
    let hopper = Device::emulator((9, 0)).unwrap();
    let large = (4095, 4097, 4099);
    assert_eq!(plan(&hopper, Precision::Bf16x6, large), VARIANT);
    assert_ne!(plan(&hopper, Precision::Full, large), VARIANT);
    assert_ne!(plan(&hopper, Precision::Bf16x6, (64, 64, 64)), VARIANT);
    assert_ne!(plan(&Device::emulator((8, 0)).unwrap(), Precision::Bf16x6, large), VARIANT);
}
