//! The hierarchy against the plain loop, its counts against formulas, and tiles that it refuses.

use super::super::ijk;
use super::*;
use crate::{bf16, f16, random};
use gemm_spec::{DType, Layout, Strides};
use proptest::prelude::*;
use std::error::Error as _;

/// block_m, block_n, block_k; warp_m, warp_n; thread_m, thread_n.
const fn tiles(block: [usize; 3], warp: [usize; 2], thread: [usize; 2]) -> Tiles {
    let ([block_m, block_n, block_k], [warp_m, warp_n], [thread_m, thread_n]) =
        (block, warp, thread);
    Tiles { block_m, block_n, block_k, warp_m, warp_n, thread_m, thread_n }
}

const CONFIGURATIONS: [Tiles; 6] = [
    tiles([4, 8, 1], [4, 8], [1, 1]),
    tiles([8, 16, 3], [4, 8], [1, 1]),
    tiles([32, 16, 4], [16, 8], [2, 2]),
    tiles([3, 64, 5], [3, 64], [3, 2]),
    tiles([64, 9, 7], [32, 3], [1, 3]),
    tiles([64, 64, 8], [32, 32], [8, 4]),
];

/// Sizes around a tile: none, one, a prime, one less, the tile, one more, and more than two.
fn around(tile: usize) -> Vec<usize> {
    let mut sizes = vec![0, 1, 7, tile - 1, tile, tile + 1, 2 * tile + 1];
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

fn every_shape(mut visit: impl FnMut(Tiles, [usize; 3])) {
    for tiles in CONFIGURATIONS {
        for m in around(tiles.block_m) {
            for n in around(tiles.block_n) {
                for k in around(tiles.block_k) {
                    visit(tiles, [m, n, k]);
                }
            }
        }
    }
}

/// The traffic by the formulas of its documentation.
fn formulas(tiles: Tiles, [m, n, k]: [usize; 3]) -> Traffic {
    let Tiles { block_m, block_n, block_k, warp_m, warp_n, thread_m, thread_n } = tiles;
    let (tiles_m, tiles_n) = (m.div_ceil(block_m), n.div_ceil(block_n));
    let (padded_m, padded_n) = (tiles_m * block_m, tiles_n * block_n);
    let padded_k = k.div_ceil(block_k) * block_k;
    let padded = padded_m * padded_n * padded_k;
    let elements = |count: usize| count as u64;
    Traffic {
        global_loads: elements(m * k * tiles_n + k * n * tiles_m),
        global_stores: elements(m * n),
        shared_stores: elements(padded_m * padded_k * tiles_n + padded_k * padded_n * tiles_m),
        shared_loads: elements(padded / thread_m + padded / thread_n),
        warp_loads: elements(padded / warp_m + padded / warp_n),
        multiply_adds: elements(padded),
    }
}

/// Equal to the plain loop's, a zero's sign and all.
fn assert_bits<T: Element>(
    c: &Matrix<T::Output>,
    a: MatrixRef<'_, T>,
    b: MatrixRef<'_, T>,
    what: &str,
) {
    let expected = ijk(a, b).unwrap();
    assert_eq!(c, &expected, "{what}");
    fn bytes<T: Element>(matrix: &Matrix<T>) -> &[u8] {
        bytemuck::cast_slice(matrix.as_slice())
    }
    assert_eq!(bytes(c), bytes(&expected), "{what}");
}

fn equal_on_integers<T: Element>() {
    every_shape(|tiles, [m, n, k]| {
        // Zeros times negative numbers among them: products of -0.
        let a = random::integers::<T>(Shape::new(m, k), 1, -4..=4).unwrap();
        let b = random::integers::<T>(Shape::new(k, n), 2, -4..=4).unwrap();
        let (c, traffic) = matmul(tiles, a.view(), b.view()).unwrap();
        let what = format!("{m} x {n} x {k} by {tiles:?}");
        assert_bits::<T>(&c, a.view(), b.view(), &what);
        assert_eq!(traffic, formulas(tiles, [m, n, k]), "{what}");
    });
}

#[test]
fn equal_to_the_plain_loop_on_i8() {
    equal_on_integers::<i8>();
}

#[test]
fn equal_to_the_plain_loop_on_i32() {
    equal_on_integers::<i32>();
}

#[test]
fn equal_to_the_plain_loop_on_f16() {
    equal_on_integers::<f16>();
}

#[test]
fn equal_to_the_plain_loop_on_bf16() {
    equal_on_integers::<bf16>();
}

#[test]
fn equal_to_the_plain_loop_on_f32() {
    equal_on_integers::<f32>();
}

#[test]
fn equal_to_the_plain_loop_on_f64() {
    equal_on_integers::<f64>();
}

/// A random view of `shape` that is transposed, has a gap after each row, or both.
fn operand<T: Element>(data: &Matrix<T>, shape: Shape, transpose: bool) -> MatrixRef<'_, T> {
    let gap = data.shape().cols as isize;
    let strides = if transpose { Strides::new(1, gap) } else { Strides::new(gap, 1) };
    MatrixRef::new(data.as_slice(), Layout::strided(shape, strides)).unwrap()
}

prop_compose! {
    fn any_tiles()(
        lanes_m in prop::sample::select(vec![1usize, 2, 4, 8, 16, 32]),
        thread in (1usize..6, 1usize..6),
        warps in (1usize..4, 1usize..4),
        block_k in 1usize..10,
    ) -> Tiles {
        let warp = [lanes_m * thread.0, LANES / lanes_m * thread.1];
        let block = [warps.0 * warp[0], warps.1 * warp[1], block_k];
        tiles(block, warp, thread.into())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn any_tiles_shapes_and_strides(
        tiles in any_tiles(),
        (m, n, k) in (0usize..150, 0usize..150, 0usize..30),
        transposed: (bool, bool),
        seed: u64,
    ) {
        // Not whole numbers: the order of the sums has to be the plain loop's as well.
        let data = random::normal::<f32>(Shape::new(160, 160), seed).unwrap();
        let a = operand(&data, Shape::new(m, k), transposed.0);
        let b = operand(&data, Shape::new(k, n), transposed.1);
        prop_assert_eq!(tiles.check(DType::F32), Ok(()));
        let (c, traffic) = matmul(tiles, a, b).unwrap();
        assert_bits(&c, a, b, "random tiles");
        prop_assert_eq!(traffic, formulas(tiles, [m, n, k]));
    }
}

#[test]
fn sums_wrap_around() {
    let a = Matrix::from_vec(Shape::new(1, 3), vec![i32::MAX, 65_537, -5]).unwrap();
    let b = Matrix::from_vec(Shape::new(3, 1), vec![3, 65_537, i32::MIN]).unwrap();
    let (c, _) = matmul(CONFIGURATIONS[0], a.view(), b.view()).unwrap();
    assert_bits(&c, a.view(), b.view(), "wrapping");
}

#[test]
fn infinity_meets_no_padding() {
    let a = Matrix::from_vec(Shape::new(1, 1), vec![f32::INFINITY]).unwrap();
    let b = Matrix::from_vec(Shape::new(1, 2), vec![2.0f32, -2.0]).unwrap();
    for tiles in CONFIGURATIONS {
        let (c, _) = matmul(tiles, a.view(), b.view()).unwrap();
        assert_eq!(c.as_slice(), [f32::INFINITY, f32::NEG_INFINITY]);
    }
}

/// What the module's documentation says in its table, at the sizes of a kernel for large products.
#[test]
fn whole_tiles_have_the_textbook_traffic() {
    let tiles = tiles([128, 128, 8], [32, 64], [8, 8]);
    assert_eq!((tiles.warps(), tiles.threads(), tiles.lanes()), (8, 256, (4, 8)));
    let (m, n, k) = (256, 384, 64);
    let a = random::normal::<f32>(Shape::new(m, k), 1).unwrap();
    let b = random::normal::<f32>(Shape::new(k, n), 2).unwrap();
    let (c, traffic) = matmul(tiles, a.view(), b.view()).unwrap();
    assert_bits(&c, a.view(), b.view(), "whole tiles");
    let mnk = (m * n * k) as f64;
    let per_multiply_add = |x: usize, y: usize| mnk * (1.0 / x as f64 + 1.0 / y as f64);
    assert_eq!(traffic.multiply_adds as f64, mnk);
    assert_eq!(traffic.global_loads as f64, per_multiply_add(128, 128));
    assert_eq!(traffic.shared_stores, traffic.global_loads, "nothing is padded");
    assert_eq!(traffic.warp_loads as f64, per_multiply_add(32, 64));
    assert_eq!(traffic.shared_loads as f64, per_multiply_add(8, 8));
    assert_eq!(traffic.global_stores, (m * n) as u64);
}

#[test]
fn impossible_tiles_are_refused() {
    let a = Matrix::<f32>::zeros(Shape::new(5, 5)).unwrap();
    let refused = |block, warp, thread, expected: TilesError| {
        let tiles = tiles(block, warp, thread);
        assert_eq!(tiles.check(DType::F32), Err(expected), "{tiles:?}");
        let error = matmul(tiles, a.view(), a.view()).unwrap_err();
        assert!(error.is_unsupported() && !error.is_shape());
        assert_eq!(error.source().and_then(|source| source.downcast_ref()), Some(&expected));
        assert!(error.to_string().contains(&expected.to_string()), "{error}");
        assert!(error.to_string().contains("f32") && error.to_string().contains("block_k"));
    };
    for zero in 0..7 {
        let mut sizes = [32, 32, 8, 32, 32, 4, 8];
        sizes[zero] = 0;
        let [block_m, block_n, block_k, warp_m, warp_n, thread_m, thread_n] = sizes;
        let warp = [warp_m, warp_n];
        refused([block_m, block_n, block_k], warp, [thread_m, thread_n], TilesError::Zero);
    }
    refused([48, 32, 8], [32, 32], [4, 8], TilesError::Block);
    refused([32, 48, 8], [32, 32], [4, 8], TilesError::Block);
    refused([16, 32, 8], [32, 32], [4, 8], TilesError::Block);
    refused([32, 32, 8], [32, 32], [3, 8], TilesError::Warp);
    refused([32, 32, 8], [32, 32], [4, 5], TilesError::Warp);
    refused([32, 32, 8], [32, 32], [4, 4], TilesError::Lanes(8, 8));
    refused([4, 8, 8], [4, 8], [4, 4], TilesError::Lanes(1, 2)); // the sketch's warp
    refused([128, 264, 8], [4, 8], [1, 1], TilesError::Threads(128, 264));
    refused([64, 128, 8], [64, 128], [16, 16], TilesError::Registers);
    refused([32, 32, 1000], [32, 32], [4, 8], TilesError::Shared);
    let max = usize::MAX;
    refused([max, max, max], [max, max], [1, 1], TilesError::Lanes(max, max));
    refused([max, 1, 1], [max, 1], [max, 1], TilesError::Lanes(1, 1));
    refused([max / 32 * 32, 1, 1], [max / 32 * 32, 1], [max / 32, 1], TilesError::Registers);
    refused([32, 32, max], [32, 32], [4, 8], TilesError::Shared);
}

#[test]
fn limits_depend_on_the_sums() {
    // 16 * 8 + 16 + 8 values of one register, or of two.
    let many_registers = tiles([64, 64, 8], [64, 64], [16, 8]);
    // 2 * 128 * 160 values are 160 KiB, or 320.
    let deep = tiles([128, 128, 160], [32, 32], [4, 8]);
    for dtype in DType::ALL {
        let (registers, shared) = match dtype {
            DType::F64 => (Err(TilesError::Registers), Err(TilesError::Shared)),
            _ => (Ok(()), Ok(())),
        };
        assert_eq!(many_registers.check(dtype), registers, "{dtype}");
        assert_eq!(deep.check(dtype), shared, "{dtype}");
    }
}

#[test]
fn shapes_that_do_not_fit_are_errors() {
    let tiles = CONFIGURATIONS[0];
    let a = Matrix::<f32>::zeros(Shape::new(2, 3)).unwrap();
    assert!(matmul(tiles, a.view(), a.view()).unwrap_err().is_shape());

    // One element, repeated.
    let repeated = |rows, cols| {
        let layout = Layout::strided(Shape::new(rows, cols), Strides::new(0, 0));
        MatrixRef::new(&[1f32], layout).unwrap()
    };
    let error = matmul(tiles, repeated(1 << 40, 1), repeated(1, 8)).unwrap_err();
    let source = error.source().and_then(|source| source.downcast_ref());
    assert_eq!(source, Some(&TilesError::Grid(Shape::new(1 << 40, 8))));
    assert!(matmul(tiles, repeated(usize::MAX, 1), repeated(1, usize::MAX)).is_err());
    // An empty C needs no blocks, however many rows it has.
    let (c, traffic) = matmul(tiles, repeated(usize::MAX, 0), repeated(0, 0)).unwrap();
    assert!(c.as_slice().is_empty() && traffic == Traffic::default());
}
