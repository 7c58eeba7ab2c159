//! Operands that are copied before a product although a kernel could read them as they are: f32 to
//! rows along M and N, short rows of 16 bits along K. The same numbers as without copies.

use gemmite::emulator::Options;
use gemmite::{Device, Gemm, KernelChoice, Matrix, Op, Shape, bf16, random};
use gemmite_tests::{cuda, is_hopper, say};

const OPS: [[Op; 2]; 4] = [
    [Op::None, Op::None],
    [Op::None, Op::Transpose],
    [Op::Transpose, Op::None],
    [Op::Transpose, Op::Transpose],
];

/// A, B and a product of them that reads C.
fn product([m, n, k]: [usize; 3], ops: [Op; 2]) -> (Matrix<f32>, Matrix<f32>, Gemm<f32>) {
    let stored = |op, rows, cols| match op {
        Op::None => Shape::new(rows, cols),
        Op::Transpose => Shape::new(cols, rows),
    };
    let of = |shape, seed| random::integers(shape, seed, -3..=3).unwrap();
    let gemm = Gemm::default().op_a(ops[0]).op_b(ops[1]).alpha(2.0).beta(-1.0);
    (of(stored(ops[0], m, k), 1), of(stored(ops[1], k, n), 2), gemm)
}

/// Computes C = 2 op(A) op(B) - C, exactly, as it is chosen and by another kernel.
fn check(device: &Device, sizes: [usize; 3], ops: [Op; 2], choice: &KernelChoice) {
    let (a, b, gemm) = product(sizes, ops);
    let c: Matrix<f32> = random::integers(Shape::new(sizes[0], sizes[1]), 3, -9..=9).unwrap();
    let (mut expected, mut found) = (c.clone(), c);
    gemm.clone().kernel("k08_double_buffer").run_into(device, &a, &b, &mut expected).unwrap();
    gemm.kernel(choice.clone()).run_into(device, &a, &b, &mut found).unwrap();
    assert!(found == expected, "{sizes:?} {ops:?} {choice:?}");
}

#[test]
fn copies_along_m_and_n_on_the_emulator() {
    let options = Options { arch: (9, 0), multiprocessors: Some(2), ..Options::default() };
    let device = Device::emulator_with(&options).unwrap();
    let mut number = 0;
    for ops in OPS {
        for copied in [[true, true], [true, false], [false, true]] {
            // Less than a tile, ends in every direction, more than one part.
            for (sizes, parts) in [([33, 65, 7], 1), ([130, 261, 35], 1), ([131, 3, 150], 2)] {
                let variant = "k12_warp_specialized".into();
                let choice = KernelChoice::Planned { variant, copied, parts };
                let (a, b, gemm) = product(sizes, ops);
                let gemm = gemm.kernel(choice.clone());
                let plan = gemm.plan_on(&device, a.view().layout(), b.view().layout()).unwrap();
                assert_eq!((plan.copied, plan.parts), (copied, parts), "{plan}");
                check(&device, sizes, ops, &choice);
                number += 1;
            }
        }
    }
    assert_eq!(number, 36);
}

/// A last column is computed as a row, out of the copies.
#[test]
fn a_column_is_apart_on_the_emulator() {
    let options = Options { arch: (9, 0), multiprocessors: Some(2), ..Options::default() };
    let device = Device::emulator_with(&options).unwrap();
    for ops in OPS {
        // Two blocks side by side, and a column or two.
        for (sizes, copied) in [([128, 513, 70], [true; 2]), ([127, 514, 260], [false, true])] {
            let variant = "k12_warp_specialized".into();
            let choice = KernelChoice::Planned { variant, copied, parts: 1 };
            let (a, b, gemm) = product(sizes, ops);
            let gemm = gemm.kernel(choice.clone());
            let plan = gemm.plan_on(&device, a.view().layout(), b.view().layout()).unwrap();
            let rest = plan.rest.unwrap_or_else(|| panic!("{plan}"));
            assert_eq!((rest.of_rows, rest.from, rest.turned), (false, 512, true), "{plan}");
            check(&device, sizes, ops, &choice);
        }
    }
}

/// 8 columns in rows of half a sector, which are computed as rows of the transposed C.
#[test]
fn short_rows_are_copied_on_the_emulator() {
    let options = Options { arch: (9, 0), multiprocessors: Some(2), ..Options::default() };
    let device = Device::emulator_with(&options).unwrap();
    let of =
        |rows, cols, seed| random::integers::<bf16>(Shape::new(rows, cols), seed, -1..=1).unwrap();
    for (m, n, copied) in [(192, 8, [true, false]), (8, 24, [false, true])] {
        let (a, b) = (of(m, 200, 1), of(200, n, 2));
        let variant = "warp_group_64x64".into();
        let choice = KernelChoice::Planned { variant, copied, parts: 1 };
        let gemm = Gemm::<bf16>::default().kernel(choice);
        let plan = gemm.plan_on(&device, a.view().layout(), b.view().layout()).unwrap();
        assert_eq!((plan.copied, plan.turned), (copied, n == 8), "{plan}");
        let found = gemm.run(&device, &a, &b).unwrap();
        let other = Gemm::<bf16>::default().kernel("k02_tiled_16");
        let expected = other.run(&device, &a, &b).unwrap();
        assert!(found == expected, "{m} x {n}");
    }
}

#[test]
fn cuda_copies_along_m_and_n() {
    let Some(device) = cuda() else { return };
    let is_hopper = is_hopper(&device);
    for ops in OPS {
        for sizes in [[4095, 4097, 4099], [2047, 2049, 2051], [2048; 3], [2049, 2047, 2050]] {
            let (a, b, gemm) = product(sizes, ops);
            let plan = gemm.plan_on(&device, a.view().layout(), b.view().layout()).unwrap();
            let is_odd = sizes != [2048; 3];
            let copied = [is_odd, is_odd || ops[1] == Op::Transpose];
            assert!(!is_hopper || plan.copied == copied, "{sizes:?} {ops:?}: {plan}");
            // Of an H100's multiprocessors.
            let has_column = plan.rest.is_some_and(|rest| rest.turned);
            assert!(!is_hopper || has_column == (sizes[1] % 256 == 1), "{sizes:?} {ops:?}: {plan}");
            check(&device, sizes, ops, &KernelChoice::Auto);
        }
    }
    say("copies of f32");
}
