//! `registers`, `barrier`, `warp::elect`, `mma::store_matrices`.

use super::launch::Launch;
use crate::floats::random_bits;
use crate::gpu::{Buffer, Gpu, sm_90a};

#[test]
fn registers_change_hands() {
    sm_90a(|gpu| {
        let numbers: Vec<u32> = random_bits(128).map(|bits| bits as u32).collect();
        let (from, out) = (Buffer::new(&numbers), Buffer::<u32>::zeros(256));
        // More blocks than fit at once would share the product of the last; one does.
        Launch::new(1, 384).run(gpu, "register_counts", &[(&from).into(), (&out).into()]);
        let sums = numbers.iter().cycle().map(|number| number.wrapping_mul(63 * 64 / 2));
        assert_eq!(out.download(), sums.take(256).collect::<Vec<_>>());
    });
}

#[test]
fn pairs_of_warps_meet_alone() {
    sm_90a(|gpu| {
        let out = Buffer::<u32>::zeros(128);
        Launch::new(1, 128).run(gpu, "named_barriers", &[100u32.into(), (&out).into()]);
        let mut numbers: Vec<u32> = (1..=128).collect();
        for _ in 0..100 {
            let before = numbers.clone();
            for (i, number) in numbers.iter_mut().enumerate() {
                *number = number.wrapping_mul(3).wrapping_add(before[i ^ 63]);
            }
        }
        assert_eq!(out.download(), numbers);
    });
}

#[test]
fn one_lane_is_elected() {
    sm_90a(|gpu| {
        for mask in [u32::MAX, 1, 1 << 31, 0x0f0f_0000, 0x8000_0001] {
            let out = Buffer::<u32>::zeros(64);
            Launch::new(1, 64).run(gpu, "elected", &[mask.into(), (&out).into()]);
            for warp in out.download().chunks_exact(32) {
                let lanes = |bit: u32| -> Vec<usize> {
                    (0..32).filter(|lane| warp[*lane] & bit != 0).collect()
                };
                assert_eq!(lanes(1).len(), 1, "{warp:?}");
                let [lane] = lanes(2)[..] else { panic!("mask {mask:#x}: {warp:?}") };
                assert!(mask >> lane & 1 != 0, "mask {mask:#x} elected {lane}");
            }
        }
    });
}

/// Stores the same words by `kernel` and on the CPU: `place` is the row and column, in matrix i, of
/// the halves of a lane's word i.
fn check_stores(gpu: &Gpu, kernel: &str, place: impl Fn(usize, usize) -> (usize, usize)) {
    let words: Vec<u32> = random_bits(128).map(|bits| bits as u32).collect();
    // Every second of 64 places, in disorder, so that half of the memory stays as it is.
    let starts: Vec<u32> = (0..32).map(|lane| 8 * ((lane * 13 % 32) * 2 + lane % 2)).collect();
    let (from, out) = (Buffer::new(&words), Buffer::<u16>::zeros(512));
    let arguments = [(&Buffer::new(&starts)).into(), 32usize.into(), (&from).into(), (&out).into()];
    Launch::new(1, 32).run(gpu, kernel, &arguments);
    let mut expected = vec![0xffff; 512];
    for (lane, words) in words.chunks_exact(4).enumerate() {
        for (matrix, word) in words.iter().enumerate() {
            for half in 0..2 {
                let (row, column) = place(lane, half);
                let start = starts[8 * matrix + row] as usize;
                expected[start + column] = (word >> (16 * half)) as u16;
            }
        }
    }
    assert_eq!(out.download(), expected, "{kernel}");
}

#[test]
fn matrices_are_stored() {
    sm_90a(|gpu| {
        check_stores(gpu, "store_rows", |lane, half| (lane / 4, 2 * (lane % 4) + half));
        check_stores(gpu, "store_columns", |lane, half| (2 * (lane % 4) + half, lane / 4));
    });
}
