//! `mbarrier`: phases, bytes, a ring of stages, arrivals from other blocks.

use super::launch::Launch;
use crate::floats::random_bits;
use crate::gpu::{Buffer, sm_90a};

fn random_words(count: usize) -> Vec<u32> {
    random_bits(count).map(|bits| bits as u32).collect()
}

#[test]
fn a_phase_ends_with_its_arrivals_and_bytes() {
    sm_90a(|gpu| {
        let words = random_words(8);
        let (bytes, out) = (Buffer::new(&words), Buffer::<u32>::zeros(15));
        Launch::new(1, 1).run(gpu, "phases", &[(&bytes).into(), (&out).into()]);
        // Bits: test even, test odd, try_wait even, try_wait odd.
        let (odd, even) = (0b1010, 0b0101);
        let found = out.download();
        assert_eq!(found[..4], [odd, odd, even, odd], "arrivals");
        assert_eq!(found[4..7], [odd, odd, even], "bytes");
        assert_eq!(found[7..], words[..]);
    });
}

#[test]
fn a_ring_keeps_its_order() {
    const COUNT: usize = 1000;
    sm_90a(|gpu| {
        for kernel in ["ring", "ring_of_copies"] {
            let words = random_words(32 * COUNT);
            let (from, out) = (Buffer::new(&words), Buffer::<u32>::zeros(32 * COUNT));
            let count = COUNT as u32;
            Launch::new(1, 64).run(gpu, kernel, &[(&from).into(), count.into(), (&out).into()]);
            assert!(out.download() == words, "{kernel}");
        }
    });
}

#[test]
fn arrivals_reach_the_block_that_is_meant() {
    sm_90a(|gpu| {
        for target in 0..4u32 {
            let out = Buffer::new(&[9u32; 4]);
            Launch::new(4, 32).run(gpu, "remote_arrival", &[target.into(), (&out).into()]);
            let expected: Vec<u32> = (0..4).map(|rank| u32::from(rank == target)).collect();
            assert_eq!(out.download(), expected);
        }
    });
}
