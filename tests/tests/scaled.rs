//! Products with scales for blocks of 128, on every engine that has them.

use gemmite::emulator::Options;
use gemmite::verify::{Problem, Rows, check_scaled};
use gemmite::{
    Device, F8E4M3, Gemm, Layout, Matrix, MatrixMut, Op, OutputOf, Shape, Strides, bf16, f16,
    random,
};
use gemmite_tests::{hopper, say};

/// One product.
#[derive(Clone, Copy, Debug)]
struct Case {
    m: usize,
    n: usize,
    k: usize,
    ops: [Op; 2],
    alpha: f32,
    beta: Option<f32>,
    /// Whether A's last element is NaN.
    has_nan: bool,
}

const NT: [Op; 2] = [Op::None, Op::Transpose];

fn case(m: usize, n: usize, k: usize) -> Case {
    Case { m, n, k, ops: NT, alpha: 1.0, beta: None, has_nan: false }
}

/// Whole tiles, ends in every direction, several tiles a block, operands that have to be copied,
/// factors.
fn cases() -> Vec<Case> {
    let [none, transposed] = [Op::None, Op::Transpose];
    vec![
        case(128, 128, 128),
        case(256, 128, 512),
        case(1, 1, 1),
        case(5, 300, 130),
        case(129, 127, 257),
        case(200, 136, 272),
        case(600, 300, 144),
        Case { ops: [none, none], ..case(130, 144, 160) },
        Case { ops: [transposed, none], ..case(64, 128, 400) },
        Case { ops: [transposed, transposed], ..case(70, 129, 144) },
        Case { alpha: -0.75, beta: Some(0.5), ..case(100, 192, 384) },
        Case { alpha: 0.0, beta: Some(2.0), ..case(100, 50, 200) },
        Case { has_nan: true, ..case(66, 130, 272) },
        case(0, 5, 7),
        case(40, 30, 0),
    ]
}

fn stored(op: Op, rows: usize, cols: usize) -> Shape {
    if op == Op::None { Shape::new(rows, cols) } else { Shape::new(cols, rows) }
}

/// From 2^-3 to 2^3.
fn scales(shape: Shape, seed: u64) -> Matrix<f32> {
    let exponents: Matrix<f32> = random::uniform(shape, seed).unwrap();
    Matrix::from_fn(shape, |i, j| (6.0 * exponents[(i, j)] - 3.0).exp2()).unwrap()
}

/// Runs a case into a C whose rows or columns lie apart, and gives the largest error as a part of
/// its bound.
fn run<C: OutputOf<F8E4M3>>(case: Case, device: &Device, by_columns: bool) -> f64
where
    C::Scalar: From<f32>,
{
    let Case { m, n, k, ops: [op_a, op_b], .. } = case;
    let blocks = |extent: usize| extent.div_ceil(128);
    let mut a: Matrix<F8E4M3> = random::normal(stored(op_a, m, k), 1).unwrap();
    if case.has_nan {
        *a.as_mut_slice().last_mut().unwrap() = F8E4M3::NAN;
    }
    let b: Matrix<F8E4M3> = random::normal(stored(op_b, k, n), 2).unwrap();
    let a_scales = scales(stored(op_a, m, blocks(k)), 3);
    let b_scales = scales(stored(op_b, blocks(k), blocks(n)), 4);
    let shape = Shape::new(m, n);
    let strides = match by_columns {
        true => Strides::new(1, m as isize + 3),
        false => Strides::new(n as isize + 3, 1),
    };
    let layout = Layout::strided(shape, strides);
    let poison = C::from_f64(f64::NAN);
    let mut buffer = vec![poison; (m.max(n) + 3) * m.max(n).max(1)];
    let old: Matrix<C> = random::normal(shape, 5).unwrap();
    let mut c = MatrixMut::new(&mut buffer, layout).unwrap();
    for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
        if case.beta.is_some() {
            c.set(i, j, old[(i, j)]);
        }
    }
    let alpha = C::Scalar::from(case.alpha);
    let beta = case.beta.map(C::Scalar::from);
    let gemm = Gemm::<F8E4M3>::new().output::<C>().op_a(op_a).op_b(op_b).alpha(alpha);
    let gemm = match beta {
        Some(beta) => gemm.beta(beta),
        None => gemm,
    };
    let (of_a, of_b) = ((a.view(), a_scales.view()), (b.view(), b_scales.view()));
    gemm.block_scaled().run_into(device, of_a, of_b, c.reborrow()).unwrap();
    let problem = Problem {
        a: a.view(),
        b: b.view(),
        op_a,
        op_b,
        precision: Default::default(),
        alpha,
        beta,
        c: Some(old.view()),
    };
    let of = [a_scales.view(), b_scales.view()];
    let exactness = check_scaled(&problem, of, c.view(), Rows::All);
    let exactness = exactness.unwrap_or_else(|wrong| panic!("{case:?} on {device}: {wrong}"));
    let written = buffer.iter().filter(|element| !element.to_f64().is_nan()).count();
    let expected = m * n - if case.has_nan { n } else { 0 };
    assert_eq!(written, expected, "{case:?} on {device}");
    exactness.max_err_over_bound
}

fn on(device: &Device) {
    let mut largest = 0.0f64;
    for (i, case) in cases().into_iter().enumerate() {
        largest = largest.max(run::<bf16>(case, device, i % 3 == 2));
        largest = largest.max(run::<f32>(case, device, false));
        if i % 2 == 0 {
            largest = largest.max(run::<f16>(case, device, false));
        }
    }
    assert!(largest > 0.0);
    say(&format!("with scales on {device}: largest error {largest:.3} of its bound"));
}

#[test]
fn cpu_scaled() {
    on(&Device::cpu());
}

#[test]
fn emulator_scaled() {
    // So few multiprocessors that blocks go on from tile to tile.
    let options = Options { multiprocessors: Some(4), ..Options::default() };
    on(&Device::emulator_with(&options).unwrap());
}

#[test]
fn cuda_scaled() {
    let Some(device) = hopper() else { return };
    on(&device);
}

/// A wrong scale shows, and so does one that belongs to the next row, block of K or of columns.
#[test]
fn wrong_scales_are_found() {
    let (m, n, k) = (20, 256, 256);
    let a: Matrix<F8E4M3> = random::normal(Shape::new(m, k), 1).unwrap();
    let b: Matrix<F8E4M3> = random::normal(Shape::new(k, n), 2).unwrap();
    let (a_scales, b_scales) = (scales(Shape::new(m, 2), 3), scales(Shape::new(2, 2), 4));
    let run = |of_a: &Matrix<f32>, of_b: &Matrix<f32>| {
        let (a, b) = ((a.view(), of_a.view()), (b.view(), of_b.view()));
        Gemm::<F8E4M3>::new().block_scaled().run(&Device::cpu(), a, b).unwrap()
    };
    let problem = Problem::product(a.view(), b.view());
    let check = |c: &Matrix<bf16>| {
        check_scaled(&problem, [a_scales.view(), b_scales.view()], c.view(), Rows::All)
    };
    assert!(check(&run(&a_scales, &b_scales)).is_ok());
    let moved = |scales: &Matrix<f32>, rows: usize, cols: usize| {
        let Shape { rows: m, cols: n } = scales.shape();
        Matrix::from_fn(scales.shape(), |i, j| scales[((i + rows) % m, (j + cols) % n)]).unwrap()
    };
    for (of_a, of_b) in [
        (moved(&a_scales, 1, 0), moved(&b_scales, 0, 0)),
        (moved(&a_scales, 0, 1), moved(&b_scales, 0, 0)),
        (moved(&a_scales, 0, 0), moved(&b_scales, 1, 0)),
        (moved(&a_scales, 0, 0), moved(&b_scales, 0, 1)),
    ] {
        check(&run(&of_a, &of_b)).unwrap_err();
    }
}
