//! Products on a GPU whose last rows or columns are computed apart from the others, because they
//! would be a wave of their own: the same numbers as from a kernel that computes all.

use gemmite::{Device, Element, Gemm, Matrix, Op, OutputOf, Shape, bf16, random};
use gemmite_tests::{cuda, say};

/// Computes C = 2 op(A) op(B) - C, exactly, and by another kernel; whether a rest of rows, or of
/// columns, was apart.
fn check<T: Element>(
    device: &Device,
    (m, n, k): (usize, usize, usize),
    ops: [Op; 2],
    other: &'static str,
) -> bool
where
    f32: OutputOf<T>,
{
    let stored = |op, rows, cols| match op {
        Op::None => Shape::new(rows, cols),
        Op::Transpose => Shape::new(cols, rows),
    };
    let of = |shape, seed| -> Matrix<T> { random::integers(shape, seed, -1..=1).unwrap() };
    let (a, b) = (of(stored(ops[0], m, k), 1), of(stored(ops[1], k, n), 2));
    let c: Matrix<f32> = random::integers(Shape::new(m, n), 3, -9..=9).unwrap();
    let gemm = Gemm::<T, f32>::default().op_a(ops[0]).op_b(ops[1]).alpha(2.0).beta(-1.0);
    let plan = gemm.plan_on(device, a.view().layout(), b.view().layout()).unwrap();
    let rest = plan.rest.unwrap_or_else(|| panic!("{m}x{n}x{k} {ops:?} is not cut: {plan}"));
    let (mut expected, mut found) = (c.clone(), c);
    gemm.clone().kernel(other).run_into(device, &a, &b, &mut expected).unwrap();
    gemm.run_into(device, &a, &b, &mut found).unwrap();
    assert!(found == expected, "{m}x{n}x{k} {ops:?}: {plan}");
    rest.of_rows
}

#[test]
fn cuda_rest() {
    let Some(device) = cuda() else { return };
    let (none, turned) = (Op::None, Op::Transpose);
    let check_f32 = |shape| check::<f32>(&device, shape, [none, none], "k08_double_buffer");
    assert!(check_f32((2112, 2048, 2048)));
    assert!(!check_f32((3000, 3000, 3000)));
    let check = |device, shape, ops| check::<bf16>(device, shape, ops, "k11_tensor_core");
    // Rows more than whole waves, and columns; both, of operands that are copied; many.
    assert!(check(&device, (4300, 4096, 4096), [none, none]));
    assert!(check(&device, (4300, 4096, 4096), [turned, turned]));
    let apart = [
        check(&device, (4096, 4104, 4096), [none, turned]),
        check(&device, (4095, 4097, 4099), [none, none]),
        check(&device, (4095, 4097, 4099), [turned, none]),
        check(&device, (512, 28_672, 4096), [none, turned]),
    ];
    assert_eq!(apart, [false; 4], "columns");
    say("rest");
}
