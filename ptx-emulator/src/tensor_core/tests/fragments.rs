//! Layouts: bijections, the tables of the PTX ISA written out, ldmatrix against fragments.

use std::collections::HashSet;

use crate::tensor_core::layout::{self, Matrix8x8};
use crate::tensor_core::{Accumulator, MMA_SHAPES, Mma, Shape};

/// (lane, index) -> (row, column), as the PTX ISA writes it.
type Layout = fn(usize, usize) -> (usize, usize);

/// Asserts that a layout covers a matrix once.
fn bijective(
    rows: usize,
    columns: usize,
    threads: usize,
    layout: impl Fn(usize, usize) -> (usize, usize),
) {
    let mut seen = HashSet::new();
    for thread in 0..threads {
        for index in 0..rows * columns / threads {
            let (row, column) = layout(thread, index);
            assert!(row < rows && column < columns && seen.insert((row, column)));
        }
    }
    assert_eq!(seen.len(), rows * columns);
}

#[test]
fn every_fragment_covers_its_matrix_once() {
    for row in MMA_SHAPES {
        let Shape { m, n, k } = row.shape;
        let bits = row.elements[0].bits();
        bijective(m, k, 32, |lane, i| layout::a(bits, m, lane, i));
        bijective(k, n, 32, |lane, i| layout::b(bits, lane, i));
        bijective(m, n, 32, layout::c);
    }
    for n in (8..=256).step_by(8) {
        bijective(64, n, 128, layout::wgmma_accumulator);
    }
    for bits in [8, 16, 32] {
        bijective(64, 256 / bits, 128, |thread, i| layout::wgmma_a(bits, thread, i));
    }
    for transposed in [false, true] {
        bijective(8, 8, 32, |lane, i| layout::ldmatrix(lane, transposed)[i]);
    }
}

#[test]
fn fragments_are_those_of_the_isa() {
    let low = |i: usize, below: usize| usize::from(i >= below);
    let a_f16_k16: Layout = |l, i| {
        let row = if matches!(i, 0 | 1 | 4 | 5) { l >> 2 } else { (l >> 2) + 8 };
        (row, l % 4 * 2 + (i & 1) + if i >= 4 { 8 } else { 0 })
    };
    let a_s8_k32: Layout = |l, i| {
        let row = if i < 4 || (8..12).contains(&i) { l >> 2 } else { (l >> 2) + 8 };
        (row, l % 4 * 4 + (i & 3) + if i >= 8 { 16 } else { 0 })
    };
    let a_tf32_k8: Layout =
        |l, i| ((l >> 2) + if i % 2 == 0 { 0 } else { 8 }, l % 4 + if i < 2 { 0 } else { 4 });
    let a_f64_k16: Layout = |l, i| {
        if i % 2 == 0 { (l >> 2, i * 2 + l % 4) } else { ((l >> 2) + 8, i * 2 - 2 + l % 4) }
    };
    for lane in 0..32 {
        let (group, place) = (lane >> 2, lane % 4);
        for i in 0..16 {
            assert_eq!(layout::a(8, 16, lane, i), a_s8_k32(lane, i));
        }
        for i in 0..8 {
            assert_eq!(layout::a(16, 16, lane, i), a_f16_k16(lane, i));
            assert_eq!(layout::a(64, 16, lane, i), a_f64_k16(lane, i));
            assert_eq!(layout::b(8, lane, i), (place * 4 + (i & 3) + 16 * low(i, 4), group));
        }
        for i in 0..4 {
            assert_eq!(layout::a(32, 16, lane, i), a_tf32_k8(lane, i));
            assert_eq!(layout::b(16, lane, i), (place * 2 + (i & 1) + 8 * low(i, 2), group));
            assert_eq!(layout::b(64, lane, i), (place + 4 * i, group));
            assert_eq!(layout::c(lane, i), (group + 8 * low(i, 2), place * 2 + (i & 1)));
        }
        assert_eq!(layout::a(64, 8, lane, 0), (group, place));
        assert_eq!(layout::a(8, 8, lane, 3), (group, place * 4 + 3));
    }
    // wgmma, written as in the PTX ISA's figure.
    for thread in 0..128 {
        for i in 0..128 {
            let row = 16 * (thread / 32) + thread % 32 / 4 + 8 * (i / 2 % 2);
            let column = 8 * (i / 4) + 2 * (thread % 4) + i % 2;
            assert_eq!(layout::wgmma_accumulator(thread, i), (row, column));
        }
    }
}

#[test]
fn register_counts() {
    for row in MMA_SHAPES {
        for &element in row.elements {
            for &accumulator in row.accumulators {
                let (a, c) = (element, accumulator);
                let mma = Mma { shape: row.shape, a, b: a, c, d: c, satfinite: false };
                let Shape { m, n, k } = row.shape;
                let registers = mma.registers();
                let word = if accumulator == Accumulator::F64 { 64 } else { 32 };
                assert_eq!(registers.a * word * 32, m * k * element.bits());
                assert_eq!(registers.b * word * 32, k * n * element.bits());
                assert_eq!(registers.d * word * 32, m * n * accumulator.bits());
                assert_eq!(mma.table_row().unwrap().since, row.since);
            }
        }
    }
}

/// `ldmatrix.x4` on a row-major 16 x 16 tile gives A of m16n8k16, `ldmatrix.x2.trans` on a
/// row-major k x n tile B.
#[test]
fn ldmatrix_gives_fragments() {
    let tile: [[u16; 16]; 16] =
        std::array::from_fn(|row| std::array::from_fn(|column| (row * 16 + column) as u16));
    let matrix = |row: usize, column: usize| -> Matrix8x8 {
        std::array::from_fn(|i| std::array::from_fn(|j| tile[row + i][column + j]))
    };
    let matrices = [matrix(0, 0), matrix(8, 0), matrix(0, 8), matrix(8, 8)];
    let a = matrices.map(|matrix| layout::distribute(&matrix, false));
    let b = [matrix(0, 0), matrix(8, 0)].map(|matrix| layout::distribute(&matrix, true));
    for lane in 0..32 {
        for i in 0..8 {
            let (row, column) = layout::a(16, 16, lane, i);
            let half = (a[i / 2][lane] >> (16 * (i % 2))) as u16;
            assert_eq!(half, tile[row][column]);
        }
        for i in 0..4 {
            let (row, column) = layout::b(16, lane, i);
            let half = (b[i / 2][lane] >> (16 * (i % 2))) as u16;
            assert_eq!(half, tile[row][column]);
        }
    }
    for transposed in [false, true] {
        let register = layout::distribute(&matrices[1], transposed);
        assert_eq!(layout::collect(&register, transposed), matrices[1]);
        let moved = layout::transpose(&layout::transpose(&register));
        assert_eq!(moved, register);
    }
}
