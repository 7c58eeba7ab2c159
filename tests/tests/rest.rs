//! Products whose last rows or columns are computed apart from the others, because they would be a
//! wave of their own: the same numbers as from a kernel that computes all.

use gemmite::emulator::Options;
use gemmite::{Device, Element, Gemm, Layout, Matrix, Op, OutputOf, Plan, Shape, bf16, random};
use gemmite_tests::{cuda, is_hopper, say};

/// A product of bf16 or f32: M, N, K, and how A and B are stored.
type Case = ((usize, usize, usize), [Op; 2]);

const NONE: Op = Op::None;
const TURNED: Op = Op::Transpose;
/// Those of f32 of which rows are apart, and columns.
const OF_F32: [Case; 2] = [((2112, 2048, 2048), [NONE, NONE]), ((3000, 3000, 3000), [NONE, NONE])];
/// Those of bf16 whose rows are apart.
const ROWS: [Case; 2] = [((4736, 4096, 4096), [NONE, NONE]), ((4736, 4096, 4096), [TURNED; 2])];
/// Those of bf16 whose columns are: of operands that a map describes, and that are copied; many.
const COLUMNS: [Case; 4] = [
    ((4096, 4736, 4096), [NONE, NONE]),
    ((4095, 4097, 4099), [NONE, NONE]),
    ((4095, 4097, 4099), [TURNED, NONE]),
    ((512, 8500, 4096), [NONE, TURNED]),
];

/// The product of stored A and B, alpha and beta 2 and -1, and how it is computed.
fn planned<T: Element>(
    device: &Device,
    ((m, n, k), [op_a, op_b]): Case,
) -> (Gemm<T, f32>, [Shape; 2], Plan)
where
    f32: OutputOf<T>,
{
    let stored = |op, rows, cols| match op {
        Op::None => Shape::new(rows, cols),
        Op::Transpose => Shape::new(cols, rows),
    };
    let shapes = [stored(op_a, m, k), stored(op_b, k, n)];
    let gemm = Gemm::<T, f32>::default().op_a(op_a).op_b(op_b).alpha(2.0).beta(-1.0);
    let [a, b] = shapes.map(Layout::row_major);
    let plan = gemm.plan_on(device, a, b).unwrap();
    (gemm, shapes, plan)
}

/// Computes the product, exactly, and by another kernel; whether rows are apart, or columns.
fn check<T: Element>(device: &Device, case: Case, other: &'static str) -> Option<bool>
where
    f32: OutputOf<T>,
{
    let (gemm, [of_a, of_b], plan) = planned::<T>(device, case);
    let of = |shape, seed| -> Matrix<T> { random::integers(shape, seed, -1..=1).unwrap() };
    let (a, b) = (of(of_a, 1), of(of_b, 2));
    let (m, n, _) = case.0;
    let c: Matrix<f32> = random::integers(Shape::new(m, n), 3, -9..=9).unwrap();
    let (mut expected, mut found) = (c.clone(), c);
    gemm.clone().kernel(other).run_into(device, &a, &b, &mut expected).unwrap();
    gemm.run_into(device, &a, &b, &mut found).unwrap();
    assert!(found == expected, "{case:?}: {plan}");
    plan.rest.map(|rest| rest.of_rows)
}

/// Which of these are cut goes by the GPU's memory too: on an H200 none of bf16 by rows.
#[test]
fn cuda_rest() {
    let Some(device) = cuda() else { return };
    let of_f32 = OF_F32.map(|case| check::<f32>(&device, case, "k08_double_buffer"));
    // Whose numbers of multiprocessors these products are for.
    if !is_hopper(&device) {
        return;
    }
    let of_bf16 = ROWS.into_iter().chain(COLUMNS);
    let of_bf16: Vec<_> =
        of_bf16.map(|case| check::<bf16>(&device, case, "k11_tensor_core")).collect();
    assert!([Some(true), Some(false)].map(|cut| of_f32.contains(&cut)) == [true; 2], "{of_f32:?}");
    assert!(of_bf16.contains(&Some(false)), "no columns are apart: {of_bf16:?}");
    say("rest");
}

/// What the other test computes is cut on a GPU like an H100, and how, which is seen without one.
#[test]
fn products_are_cut_on_132_multiprocessors() {
    let options = Options { arch: (9, 0), multiprocessors: Some(132), ..Options::default() };
    let device = Device::emulator_with(&options).unwrap();
    let is_of_rows = |case: Case, plan: Plan| match plan.rest {
        Some(rest) => rest.of_rows,
        None => panic!("{case:?} is not cut: {plan}"),
    };
    let of_f32 = OF_F32.map(|case| is_of_rows(case, planned::<f32>(&device, case).2));
    assert_eq!(of_f32, [true, false], "rows, columns");
    let of_bf16 = |case| is_of_rows(case, planned::<bf16>(&device, case).2);
    assert_eq!(ROWS.map(of_bf16), [true; 2], "rows");
    assert_eq!(COLUMNS.map(of_bf16), [false; 4], "columns");
}
