//! `cluster` and `grid`.

use super::launch::Launch;
use crate::gpu::{Buffer, sm_90a};

#[test]
fn registers_of_a_cluster() {
    sm_90a(|gpu| {
        let (x, y, z) = (4, 3, 6);
        let out = Buffer::<u32>::zeros(8 * x * y * z);
        let blocks = (x as u32, y as u32, z as u32);
        let launch = Launch { blocks, ..Launch::new(1, 1) };
        launch.run(gpu, "cluster_indices", &[(&out).into()]);
        let found = out.download();
        for (block, words) in found.chunks_exact(8).enumerate() {
            let (bx, by, bz) = (block % x, block / x % y, block / (x * y));
            let expected = [bx % 2 + bz % 2 * 2, 4, bx / 2, by, bz / 2, x / 2, y, z / 2];
            assert_eq!(words, expected.map(|word| word as u32), "block {bx}, {by}, {bz}");
        }
    });
}

#[test]
fn blocks_reach_one_another() {
    sm_90a(|gpu| {
        let out = Buffer::<u32>::zeros(128);
        Launch::new(4, 32).run(gpu, "neighbours", &[(&out).into()]);
        let rounds: u32 = (0..50).sum();
        let expected: Vec<u32> = (0..128)
            .map(|i| (i / 32, i % 32))
            .map(|(rank, thread)| 50 * (1000 * ((rank + 1) % 4) + 31 - thread) + 2 * rounds)
            .collect();
        assert_eq!(out.download(), expected);
    });
}

#[test]
fn blocks_send_to_one_another() {
    sm_90a(|gpu| {
        let out = Buffer::<u32>::zeros(64);
        Launch::new(2, 32).run(gpu, "sends", &[(&out).into()]);
        let rounds: u32 = (0..20).sum();
        let expected: Vec<u32> = (0..64)
            .map(|i| (i / 32, i % 32))
            .map(|(rank, thread)| 4 * (20 * (1000 * (1 - rank) + 31 - thread) + rounds))
            .collect();
        assert_eq!(out.download(), expected);
    });
}

#[test]
fn a_dependent_kernel_overlaps_and_waits() {
    sm_90a(|gpu| {
        let (word, out) = (Buffer::new(&[0u32]), Buffer::<u32>::zeros(2));
        let mut overlapped = 0;
        for value in 1..=20u32 {
            let launch = Launch::new(1, 1);
            launch.start(gpu, "launches_dependents", &[(&word).into(), value.into()]);
            let launch = Launch { overlaps: true, ..launch };
            launch.run(gpu, "waits_for_grid", &[(&word).into(), (&out).into()]);
            let [before, after] = out.download()[..] else { unreachable!() };
            assert_eq!(after, value, "read behind the wait");
            assert!(before == value || before == value - 1, "{before} before {value}");
            overlapped += u32::from(before != value);
        }
        assert!(overlapped > 0, "the second kernel never began before the first one's end");
    });
}
