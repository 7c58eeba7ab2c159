//! Right products pass and wrong ones are caught.

use super::*;
use crate::matrix::Matrix;
use crate::{F8E4M3, F8E5M2, bf16, f16, random, reference};
use gemm_spec::{Layout, Precision};

const M: usize = 37;
const N: usize = 41;
const K: usize = 53;

fn operands<T: Element>() -> (Matrix<T>, Matrix<T>) {
    let a = random::normal(Shape::new(M, K), 11).unwrap();
    let b = random::normal(Shape::new(K, N), 12).unwrap();
    (a, b)
}

/// Runs `$body` with `$t` as each floating-point type.
macro_rules! for_floats {
    ($t:ident => $body:block) => {
        for_floats!(@one f16, $t, $body);
        for_floats!(@one bf16, $t, $body);
        for_floats!(@one f32, $t, $body);
        for_floats!(@one f64, $t, $body);
    };
    (@one $type:ty, $t:ident, $body:block) => {{
        type $t = $type;
        $body
    }};
}

/// The sums in another order than the reference's: from the end, in f32 or f64, eight at a time.
fn backwards<T: Element>(a: &Matrix<T>, b: &Matrix<T>) -> Matrix<T::Output> {
    Matrix::from_fn(Shape::new(a.shape().rows, b.shape().cols), |i, j| {
        let mut sums = [T::Scalar::ZERO; 8];
        for k in (0..a.shape().cols).rev() {
            let product = a[(i, k)].widen().times(b[(k, j)].widen());
            sums[k % 8] = sums[k % 8].plus(product);
        }
        T::narrow(sums.into_iter().fold(T::Scalar::ZERO, T::Scalar::plus))
    })
    .unwrap()
}

fn with<T: Element>(c: &Matrix<T>, at: (usize, usize), value: T) -> Matrix<T> {
    Matrix::from_fn(c.shape(), |i, j| if (i, j) == at { value } else { c[(i, j)] }).unwrap()
}

fn other_orders_pass<T: Element>() {
    let (a, b) = operands::<T>();
    let problem = Problem::product(a.view(), b.view());
    for c in [reference::ijk(a.view(), b.view()).unwrap(), backwards(&a, &b)] {
        let exactness = check(&problem, c.view(), Rows::All).unwrap();
        assert_eq!(exactness.checked, M * N);
        assert!(exactness.max_err_over_bound > 0.0 && exactness.max_err_over_bound < 1.0);
        assert!(exactness.worst.is_some());
    }
}

#[test]
fn other_orders_of_summation_pass() {
    for_floats!(Float => {
        other_orders_pass::<Float>();
    });
    other_orders_pass::<crate::F8E4M3>();
    other_orders_pass::<crate::F8E5M2>();
}

#[test]
fn one_wrong_element_is_found() {
    for_floats!(Float => {
        let (a, b) = operands::<Float>();
        let problem = Problem::product(a.view(), b.view());
        let right = reference::ijk(a.view(), b.view()).unwrap();
        for at in [(0, 0), (M - 1, N - 1), (17, 16), (20, 15)] {
            let off = <Float as Element>::from_f64(right[at].to_f64() + 1.0);
            let mismatch = check(&problem, with(&right, at, off).view(), Rows::All).unwrap_err();
            let worst = mismatch.worst().unwrap();
            assert_eq!((mismatch.wrong_elements(), (worst.row, worst.col)), (1, at));
            assert_eq!(worst.got, off.to_f64());
        }
    });
}

#[test]
fn nan_and_infinity_are_found() {
    for_floats!(Float => {
        let (a, b) = operands::<Float>();
        let problem = Problem::product(a.view(), b.view());
        let right = reference::ijk(a.view(), b.view()).unwrap();
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let wrong = with(&right, (3, 5), <Float as Element>::from_f64(value));
            let mismatch = check(&problem, wrong.view(), Rows::All).unwrap_err();
            assert_eq!(mismatch.wrong_elements(), 1, "{mismatch}");
            assert!(mismatch.to_string().contains("(3, 5)"), "{mismatch}");
        }
    });
}

#[test]
fn swapped_rows_are_found() {
    for_floats!(Float => {
        let (a, b) = operands::<Float>();
        let right = reference::ijk(a.view(), b.view()).unwrap();
        let swapped = Matrix::from_fn(right.shape(), |i, j| match i {
            4 => right[(5, j)],
            5 => right[(4, j)],
            _ => right[(i, j)],
        })
        .unwrap();
        let problem = Problem::product(a.view(), b.view());
        let mismatch = check(&problem, swapped.view(), Rows::All).unwrap_err();
        assert!(mismatch.wrong_elements() > N, "{mismatch}");
        assert!([4, 5].contains(&mismatch.worst().unwrap().row));
    });
}

#[test]
fn errors_of_twice_the_bound_are_found() {
    let (a, b) = operands::<f64>();
    let problem = Problem::product(a.view(), b.view());
    let right = reference::ijk(a.view(), b.view()).unwrap();
    let wrong = with(&right, (8, 9), 1e9);
    let worst = check(&problem, wrong.view(), Rows::All).unwrap_err().worst().unwrap();
    for sign in [-1.0, 1.0] {
        let inside = with(&right, (8, 9), worst.expected + sign * 0.9 * worst.bound);
        let exactness = check(&problem, inside.view(), Rows::All).unwrap();
        assert!((exactness.max_err_over_bound - 0.9).abs() < 0.01, "{exactness}");
        let outside = with(&right, (8, 9), worst.expected + sign * 2.0 * worst.bound);
        let mismatch = check(&problem, outside.view(), Rows::All).unwrap_err();
        assert_eq!(mismatch.wrong_elements(), 1);
        let times = mismatch.worst().unwrap().error_over_bound().unwrap();
        assert!((times - 2.0).abs() < 0.01, "{times}");
    }
    let nan = with(&right, (8, 9), f64::NAN);
    let mismatch = check(&problem, nan.view(), Rows::All).unwrap_err();
    assert_eq!(mismatch.worst().unwrap().error_over_bound(), None);
}

#[test]
fn f64_is_held_to_more_than_f64() {
    // In exact arithmetic 2^-40; a plain f64 reference would lose it.
    let a = Matrix::from_vec(Shape::new(1, 3), vec![1e16, 2f64.powi(-40), -1e16]).unwrap();
    let b = Matrix::from_vec(Shape::new(3, 1), vec![1.0f64; 3]).unwrap();
    let zero = Matrix::<f64>::zeros(Shape::new(1, 1)).unwrap();
    let problem = Problem::product(a.view(), b.view());
    let exactness = check(&problem, zero.view(), Rows::All).unwrap();
    assert!(exactness.max_err_over_bound > 0.0, "{exactness}");
}

#[test]
fn integers_are_exact_and_wrap() {
    let a =
        Matrix::from_fn(Shape::new(M, K), |i, j| (i as i32 - 9) * 61_234_567 - j as i32).unwrap();
    let b =
        Matrix::from_fn(Shape::new(K, N), |i, j| (j as i32 + 5) * 7_654_321 - i as i32).unwrap();
    let c =
        Matrix::from_fn(Shape::new(M, N), |i, j| ((i * j) as i32).wrapping_mul(1_234_567)).unwrap();
    let product = reference::ijk(a.view(), b.view()).unwrap();
    let right = Matrix::from_fn(c.shape(), |i, j| {
        product[(i, j)].wrapping_mul(-3).wrapping_add(c[(i, j)].wrapping_mul(100_003))
    })
    .unwrap();
    let problem = Problem {
        alpha: -3,
        beta: Some(100_003),
        c: Some(c.view()),
        ..Problem::product(a.view(), b.view())
    };
    let exactness = check(&problem, right.view(), Rows::All).unwrap();
    assert_eq!((exactness.max_err_over_bound, exactness.worst), (0.0, None));
    for off in [-1, 1, i32::MIN] {
        let wrong = with(&right, (36, 40), right[(36, 40)].wrapping_add(off));
        let mismatch = check(&problem, wrong.view(), Rows::All).unwrap_err();
        assert_eq!(mismatch.wrong_elements(), 1, "{mismatch}");
        assert_eq!(mismatch.worst().unwrap().error_over_bound(), None);
    }
}

#[test]
fn transposes_alpha_and_beta_are_applied() {
    for_floats!(Float => {
        let (a, b) = operands::<Float>();
        let c = random::normal::<Float>(Shape::new(M, N), 13).unwrap();
        let product = reference::ijk(a.view(), b.view()).unwrap();
        // Rounded from f64, so a little more exact than an engine.
        let exact = Matrix::from_fn(c.shape(), |i, j| {
            let sum: f64 = (0..K).map(|k| a[(i, k)].to_f64() * b[(k, j)].to_f64()).sum();
            <Float as Element>::from_f64(1.5 * sum - 0.25 * c[(i, j)].to_f64())
        })
        .unwrap();
        let (at, bt) = (a.t().to_matrix().unwrap(), b.t().to_matrix().unwrap());
        let problem = Problem {
            op_a: Op::Transpose,
            op_b: Op::Transpose,
            alpha: 1.5,
            beta: Some(-0.25),
            c: Some(c.view()),
            ..Problem::product(at.view(), bt.view())
        };
        check(&problem, exact.view(), Rows::All).unwrap();
        check(&problem, product.view(), Rows::All).unwrap_err();
        let other_beta = Problem { beta: Some(0.25), ..problem };
        check(&other_beta, exact.view(), Rows::All).unwrap_err();
        let other_alpha = Problem { alpha: 1.25, ..problem };
        check(&other_alpha, exact.view(), Rows::All).unwrap_err();
        let nothing = Problem { alpha: 0.0, beta: Some(1.0), ..problem };
        assert_eq!(check(&nothing, c.view(), Rows::All).unwrap().max_err_over_bound, 0.0);
    });
}

#[test]
fn what_is_not_read_may_be_nan() {
    let nan = Matrix::from_fn(Shape::new(3, 3), |_, _| f32::NAN).unwrap();
    let one = Matrix::from_fn(Shape::new(3, 3), |i, j| f32::from(u8::from(i == j))).unwrap();
    let product = Problem::product(one.view(), one.view());
    for beta in [None, Some(0.0)] {
        let problem = Problem { beta, c: Some(nan.view()), ..product };
        check(&problem, one.view(), Rows::All).unwrap();
    }
    let problem = Problem {
        alpha: 0.0,
        beta: Some(2.0),
        c: Some(one.view()),
        ..Problem::product(nan.view(), nan.view())
    };
    let twice = Matrix::from_fn(one.shape(), |i, j| 2.0 * one[(i, j)]).unwrap();
    check(&problem, twice.view(), Rows::All).unwrap();
    check(&problem, nan.view(), Rows::All).unwrap_err();
    let problem = Problem { beta: Some(1.0), c: Some(nan.view()), ..product };
    check(&problem, nan.view(), Rows::All).unwrap();
    check(&problem, one.view(), Rows::All).unwrap_err();
}

#[test]
fn nan_and_infinite_inputs_spread_as_ieee_says() {
    let mut a = random::normal::<f32>(Shape::new(M, K), 1).unwrap();
    let b = random::normal::<f32>(Shape::new(K, N), 2).unwrap();
    a.as_mut_slice()[7 * K + 3] = f32::NAN;
    a.as_mut_slice()[9 * K + 3] = f32::INFINITY;
    let problem = Problem::product(a.view(), b.view());
    let c = reference::ijk(a.view(), b.view()).unwrap();
    check(&problem, c.view(), Rows::All).unwrap();
    let finite = Matrix::from_fn(c.shape(), |i, j| if i == 7 { 0.0 } else { c[(i, j)] }).unwrap();
    assert_eq!(check(&problem, finite.view(), Rows::All).unwrap_err().wrong_elements(), N);
    let flipped = Matrix::from_fn(c.shape(), |i, j| if i == 9 { -c[(i, j)] } else { c[(i, j)] });
    assert_eq!(
        check(&problem, flipped.unwrap().view(), Rows::All).unwrap_err().wrong_elements(),
        N
    );
}

/// Where nothing rounds one product of thousands is missed, and views that repeat a number more
/// often than memory has room for are an error.
#[test]
fn long_sums_of_whole_numbers_are_exact() {
    let k = 1 << 16;
    let of = |shape: Shape| {
        Matrix::<f32>::from_fn(shape, |i, j| ((i * 7 + j * 3) % 5) as f32 - 2.0).unwrap()
    };
    let (a, b) = (of(Shape::new(2, k)), of(Shape::new(k, 3)));
    let problem = Problem::product(a.view(), b.view());
    let c = reference::ijk(a.view(), b.view()).unwrap();
    assert_eq!(check(&problem, c.view(), Rows::All).unwrap().max_err_over_bound, 0.0);
    let wrong = with(&c, (1, 2), c[(1, 2)] + 1.0);
    assert_eq!(check(&problem, wrong.view(), Rows::All).unwrap_err().wrong_elements(), 1);
    let halves = Problem { alpha: 0.5, ..problem };
    let half = Matrix::from_fn(c.shape(), |i, j| 0.5 * wrong[(i, j)]).unwrap();
    assert!(check(&halves, half.view(), Rows::All).is_ok());

    let (one, k) = ([1i32], 1 << 60);
    let of = |shape| Layout::strided(shape, gemm_spec::Strides::new(0, 0));
    let a = MatrixRef::new(&one, of(Shape::new(1, k))).unwrap();
    let b = MatrixRef::new(&one, of(Shape::new(k, 1))).unwrap();
    let c = Matrix::<i32>::zeros(Shape::new(1, 1)).unwrap();
    let error = check(&Problem::product(a, b), c.view(), Rows::All).unwrap_err();
    assert!(error.to_string().contains("no room"), "{error}");
}

#[test]
fn sampled_rows_are_checked_whole() {
    let (a, b) = operands::<f32>();
    let problem = Problem::product(a.view(), b.view());
    let right = reference::ijk(a.view(), b.view()).unwrap();
    let rows = Rows::Sampled { count: 5, seed: 3 };
    let chosen = rows.of(right.shape()).unwrap();
    assert!((5..=7).contains(&chosen.len()) && chosen[0] == 0 && *chosen.last().unwrap() == M - 1);
    assert_eq!(check(&problem, right.view(), rows).unwrap().checked, chosen.len() * N);
    for i in 0..M {
        let wrong = with(&right, (i, N - 1), f32::NAN);
        assert_eq!(check(&problem, wrong.view(), rows).is_err(), chosen.contains(&i));
    }
    // One of each fifth, other ones in other runs.
    let of = |rows: Rows| rows.of(Shape::new(1000, 1)).unwrap();
    let chosen = of(Rows::Sampled { count: 5, seed: 3 });
    assert!((0..5).all(|band| chosen.iter().any(|row| row / 200 == band)), "{chosen:?}");
    assert_ne!(of(Rows::drawn(20)), of(Rows::drawn(20)));
    assert_eq!(Rows::Sampled { count: 0, seed: 1 }.of(right.shape()).unwrap(), [0, M - 1]);
    assert_eq!(Rows::Sampled { count: M, seed: 1 }.of(right.shape()).unwrap().len(), M);
    assert!(Rows::All.of(Shape::new(usize::MAX, 0)).unwrap().is_empty());
}

#[test]
fn strided_outputs_and_odd_panels() {
    for n in [1, 15, 16, 17, 33] {
        let a = random::normal::<f32>(Shape::new(5, 7), 1).unwrap();
        let b = random::normal::<f32>(Shape::new(7, n), 2).unwrap();
        let c = reference::ijk(a.view(), b.view()).unwrap();
        let transposed = c.t().to_matrix().unwrap();
        let problem = Problem::product(a.view(), b.view());
        assert_eq!(check(&problem, transposed.t(), Rows::All).unwrap().checked, 5 * n);
        let mut wrong = transposed;
        *wrong.as_mut_slice().last_mut().unwrap() += 1.0;
        check(&problem, wrong.t(), Rows::All).unwrap_err();
    }
}

#[test]
fn empty_products_have_nothing_to_check_and_empty_sums_are_zero() {
    let (none, flat) = (Matrix::<f32>::zeros(Shape::new(0, 4)), Matrix::zeros(Shape::new(4, 0)));
    let (none, flat) = (none.unwrap(), flat.unwrap());
    let empty: Matrix<f32> = Matrix::zeros(Shape::new(0, 0)).unwrap();
    let problem = Problem::product(none.view(), flat.view());
    assert_eq!(check(&problem, empty.view(), Rows::All).unwrap().checked, 0);
    let problem = Problem::product(flat.view(), none.view());
    let zero = Matrix::zeros(Shape::new(4, 4)).unwrap();
    assert_eq!(check(&problem, zero.view(), Rows::All).unwrap().checked, 16);
    let wrong = with(&zero, (2, 2), 1e-30);
    assert_eq!(check(&problem, wrong.view(), Rows::All).unwrap_err().wrong_elements(), 1);
}

#[test]
fn shapes_that_do_not_fit_are_mismatches() {
    let (a, b) = operands::<f32>();
    let c = Matrix::zeros(Shape::new(M, N)).unwrap();
    let text = |problem: &Problem<f32>, out: MatrixRef<f32>| {
        let mismatch = check(problem, out, Rows::All).unwrap_err();
        assert_eq!((mismatch.wrong_elements(), mismatch.worst().is_none()), (0, true));
        mismatch.to_string()
    };
    let problem = Problem::product(a.view(), b.view());
    assert!(text(&problem, c.t()).contains("41x37"));
    assert!(text(&Problem::product(b.view(), a.view()), c.view()).contains("53x41"));
    let without_c = Problem { beta: Some(1.0), ..problem };
    assert!(text(&without_c, c.view()).contains("old value"));
    let other_c = Problem { c: Some(c.t()), ..without_c };
    assert!(text(&other_c, c.view()).contains("41x37"));
    // A sum so long that its bound would let zeros pass.
    let layout =
        |rows, cols| Layout::strided(Shape::new(rows, cols), gemm_spec::Strides::new(0, 0));
    let long = MatrixRef::new(&[1.0f32], layout(1, 1 << 23)).unwrap();
    let zero = Matrix::zeros(Shape::new(1, 1)).unwrap();
    assert!(text(&Problem::product(long, long.t()), zero.view()).contains("too large"));
    // Of 8 bits it is so earlier.
    fn judged<T: Element>(k: usize) -> Result<Exactness, Mismatch> {
        let layout = Layout::strided(Shape::new(1, k), gemm_spec::Strides::new(0, 0));
        let one = [T::from_f64(1.0)];
        let long = MatrixRef::new(&one, layout).unwrap();
        let c = Matrix::from_fn(Shape::new(1, 1), |_, _| T::Output::from_f64(k as f64)).unwrap();
        check(&Problem::product(long, long.t()), c.view(), Rows::All)
    }
    for judge in [judged::<F8E4M3>, judged::<F8E5M2>] {
        assert!(judge(1 << 15).is_ok());
        assert!(judge((1 << 15) + 1).unwrap_err().to_string().contains("too large"));
    }
}

/// What is allowed of f32 as it is, and as sums of three bf16.
#[test]
fn split_elements_have_bounds_of_their_own() {
    let passes = |a: &[f32], b: &[f32], c: f32| {
        let a = Matrix::from_fn(Shape::new(1, a.len()), |_, k| a[k]).unwrap();
        let b = Matrix::from_fn(Shape::new(b.len(), 1), |k, _| b[k]).unwrap();
        let c = Matrix::from_fn(Shape::new(1, 1), |_, _| c).unwrap();
        [Precision::Full, Precision::Bf16x6].map(|precision| {
            let problem = Problem { precision, ..Problem::product(a.view(), b.view()) };
            check(&problem, c.view(), Rows::All).is_ok()
        })
    };
    let (both, neither, split_alone) = ([true; 2], [false; 2], [false, true]);
    // First summands are rounded: 512 times 2048, 16 times, fill 24 bits.
    let (mut a, mut b) = ([511.0; 17], [2047.0; 17]);
    (a[16], b[16]) = (1.0, 1.0);
    assert_eq!(passes(&a, &b, 16_736_273.0), both);
    assert_eq!(passes(&a, &b, 16_736_272.0), split_alone);
    assert_eq!(passes(&a[..9], &b[..9], 511.0 * 2047.0 * 9.0 - 1.0), neither);
    let large = (2f32.powi(65) - 2f32.powi(56), 2f32.powi(63));
    assert_eq!(passes(&[large.0], &[large.1], large.0 * large.1), both);
    assert_eq!(passes(&[large.0], &[large.1], f32::INFINITY), split_alone);
    assert_eq!(passes(&[large.0], &[0.98 * large.1], f32::INFINITY), neither);
    // What is lost of small elements, and of others not, whatever they meet.
    let small = 1.234_567_8 * 2f32.powi(-120);
    assert_eq!(passes(&[small], &[1e30], small * 1e30 + 4e-11), split_alone);
    assert_eq!(passes(&[small], &[1e30], small * 1e30 + 6e-11), neither);
    assert_eq!(passes(&[1e38, 1e-3], &[0.0, 1.0], 0.0), neither);
    // Six products among subnormal numbers.
    let [x, y] = [57 << 23 | 0x42_48E5, 56 << 23 | 0x5E_4CA3].map(f32::from_bits);
    assert_eq!(passes(&[x], &[y], f32::from_bits(675)), both);
    assert_eq!(passes(&[x], &[y], f32::from_bits(672)), split_alone);
    assert_eq!(passes(&[x], &[y], f32::from_bits(660)), neither);
    // A part of a product that is no more than what is left out of all.
    let (x, y) = (1.7, 5.3);
    assert_eq!(passes(&[x], &[y], x * y), both);
    assert_eq!(passes(&[x], &[y], x * y + 2e-5), split_alone);
    assert_eq!(passes(&[x], &[y], x * y + 6e-5), neither);
}
