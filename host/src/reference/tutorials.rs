//! What the tutorials' code does where it is wrong, index for index, on the CPU. The guide's page
//! of corrections (docs/guide/corrections.md) names these tests.

use super::hierarchy::{self, Tiles};
use super::{ijk, unrolled_16};
use crate::{Matrix, Shape, random};
use gemm_spec::{DType, KernelFamily, kernels, order};
use std::collections::HashSet;

/// Python's `range(start, stop)`, and `range(start, stop, step)`.
fn range(start: usize, stop: usize, step: usize) -> impl Iterator<Item = usize> {
    (start..stop.max(start)).step_by(step)
}

/// "Tiled Matmul 101", loops 3: `range(M, 16)` starts at M.
#[test]
fn unrolled_loops_that_start_at_the_end_do_nothing() {
    for size in [16, 64, 2000] {
        assert_eq!(range(size, 16, 1).count(), 0, "{size}");
    }
    // Below 16 they run, past the matrix from the first step on.
    assert_eq!(range(10, 16, 1).next(), Some(10));
}

/// The same loops with their range mended, and with indices that leave out the inner loops' i0 and
/// j0: every sixteenth row and column of C has a sum, which is sixteen times sixteen of the right
/// one.
#[test]
fn unrolled_loops_without_the_inner_index_miss_most_of_c() {
    let size = 32;
    let ones = Matrix::from_fn(Shape::new(size, size), |_, _| 1).unwrap();
    let mut c = Matrix::<i32>::zeros(ones.shape()).unwrap();
    for i in range(0, size, 16) {
        for _i0 in 0..16 {
            for j in range(0, size, 16) {
                for _j0 in 0..16 {
                    for k in range(0, size, 16) {
                        for k0 in 0..16 {
                            let product = ones[(i, k + k0)] * ones[(k + k0, j)];
                            c.as_mut_slice()[i * size + j] += product;
                        }
                    }
                }
            }
        }
    }
    assert_eq!(c.as_slice().iter().filter(|&&sum| sum != 0).count(), 4);
    assert_eq!(c[(16, 16)], 16 * 16 * size as i32);
    let right = unrolled_16(ones.view(), ones.view()).unwrap();
    assert!(right.as_slice().iter().all(|&sum| sum == size as i32));
}

/// "Tiled Matmul 101": the tile of A is said to have the columns from 16 k to 16 (k + 1), with a k
/// that counts in steps of 16 already.
#[test]
fn a_tile_numbered_by_its_element_is_outside_of_a() {
    let columns = 64;
    let inside = |k: &usize| (k + 1) * 16 <= columns;
    assert_eq!(range(0, columns, 16).filter(inside).count(), 1, "only k = 0, of four");
}

/// "Speed up matrix multiplication 2": the tiled kernel's store has no guard, so that threads past
/// the edge write where other elements are, or behind the matrix.
#[test]
fn an_unguarded_store_writes_over_the_next_row_and_past_the_end() {
    let (width, tile) = (17, 16);
    let blocks = usize::div_ceil(width, tile);
    let (mut over, mut past) = (HashSet::new(), 0);
    for row in 0..blocks * tile {
        for col in 0..blocks * tile {
            let index = row * width + col;
            match index < width * width {
                // The thread's sum is 0: its column of B was masked.
                true if col >= width => _ = over.insert(index),
                true => {}
                false => past += 1,
            }
        }
    }
    assert!(over.contains(&width), "C(1, 0) is written by the thread of C(0, 17) too");
    assert_eq!((over.len(), past), (240, 495));
    // The tutorial's own size is a multiple of the tile, so that it never sees this.
    assert_eq!(2000 % tile, 0);
}

/// "Speed up matrix multiplication 2": the size in bytes is an `int`.
#[test]
fn a_size_in_bytes_outgrows_an_int() {
    let bytes = |width: i32| width.checked_mul(width).and_then(|count| count.checked_mul(4));
    assert!(bytes(23_170).is_some() && bytes(23_171).is_none());
}

/// "Tiled Matrix Multiplication": a thread uses an element of a tile once and not twice; it is the
/// block that uses it as often as the tile is wide, so that this, and not 2, divides the loads.
#[test]
fn a_tile_divides_the_loads_by_its_width() {
    let size = 64;
    let a = random::integers::<i32>(Shape::new(size, size), 1, -9..=9).unwrap();
    for (tile, lanes) in [(8, [4, 8]), (16, [2, 16]), (32, [1, 32])] {
        let tiles = Tiles {
            block_m: tile,
            block_n: tile,
            block_k: tile,
            warp_m: lanes[0],
            warp_n: lanes[1],
            thread_m: 1,
            thread_n: 1,
        };
        let (_, traffic) = hierarchy::matmul(tiles, a.view(), a.view()).unwrap();
        let naive = 2 * size.pow(3) as u64;
        assert_eq!(traffic.global_loads * tile as u64, naive);
        assert_eq!(traffic.shared_loads, naive, "each thread reads each factor once");
    }
}

/// "Matrix Multiplication" with Tileon, the kernel's numbers of blocks: with its group, which is
/// all of the rows, they go column after column, as with no group at all.
#[test]
fn a_group_of_all_rows_groups_nothing() {
    let (tiles_m, tiles_n) = (12, 7);
    for pid in 0..tiles_m * tiles_n {
        let in_group = tiles_m * tiles_n;
        let group = pid / in_group;
        let first = group * tiles_m;
        let rows = tiles_m.min(12 * 128 - first); // the tutorial takes M here, in elements
        let tile = (first + pid % rows, pid % in_group / rows);
        assert_eq!(tile, (pid % tiles_m, pid / tiles_m), "column after column");
        assert_eq!(tile, order::grouped(pid, tiles_m, tiles_n, tiles_m));
    }
}

/// The same kernel's mask: `offs_k` moves on and the bound moves back, so that each step masks
/// twice what it should.
#[test]
fn a_mask_that_moves_twice_drops_half_of_k() {
    // The tutorial's example: K = 256 and steps of 64.
    assert_eq!(columns_that_count(256, 64), 128);
    assert_eq!(columns_that_count(64, 64), 64, "one step loses nothing");
    assert_eq!(columns_that_count(128, 64), 64, "two lose the second");
    assert_eq!(columns_that_count(320, 64), 192, "five lose two");
}

/// Columns of A that the masked loads of the kernel let through.
fn columns_that_count(depth: i64, block: i64) -> i64 {
    let mut offsets: Vec<i64> = (0..block).collect();
    let mut counted = 0;
    for step in 0..(depth + block - 1) / block {
        counted += offsets.iter().filter(|&&offset| offset < depth - step * block).count() as i64;
        offsets.iter_mut().for_each(|offset| *offset += block);
    }
    counted
}

/// What the guide says that each step of the ladder reads is what its tiles, run by the hierarchy,
/// do read. (Where a kernel spreads a thread's rows and columns, the hierarchy has them side by
/// side; how many a warp has is the same.)
#[test]
fn every_step_reads_what_the_guide_says() {
    let tiled = |kernel: &&gemm_spec::Kernel| {
        kernel.dtype == DType::F32
            && !kernel.family.is_warp_group()
            && ![KernelFamily::Naive, KernelFamily::Skinny].contains(&kernel.family)
    };
    for kernel in kernels().filter(tiled) {
        let ([rows, cols, depth], [thread_rows, thread_cols]) =
            (kernel.tiles.block, kernel.tiles.thread);
        let [warp_rows, warp_cols] = kernel.warp_extent();
        let tiles = Tiles {
            block_m: rows,
            block_n: cols,
            block_k: depth,
            warp_m: warp_rows,
            warp_n: warp_cols,
            thread_m: thread_rows,
            thread_n: thread_cols,
        };
        let (m, n, k) = (rows, 2 * cols, 2 * depth);
        let a = random::normal::<f32>(Shape::new(m, k), 1).unwrap();
        let b = random::normal::<f32>(Shape::new(k, n), 2).unwrap();
        let (c, traffic) = hierarchy::matmul(tiles, a.view(), b.view()).unwrap();
        assert_eq!(c, ijk(a.view(), b.view()).unwrap(), "{}", kernel.name);
        let reads = |rows: usize, cols: usize| (m * n * k / rows + m * n * k / cols) as u64;
        assert_eq!(traffic.global_loads, reads(rows, cols), "{}", kernel.name);
        assert_eq!(traffic.shared_loads, reads(thread_rows, thread_cols), "{}", kernel.name);
        assert_eq!(traffic.warp_loads, reads(warp_rows, warp_cols), "{}", kernel.name);
    }
}
