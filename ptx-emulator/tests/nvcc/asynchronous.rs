//! Order between blocks, asynchronous copies, barrier objects, clusters.

use super::{Gpu, whole};
use ptx_emulator::{Arch, Launch};

#[test]
fn the_last_block_adds_up() {
    let count = 5000;
    let input: Vec<i32> = whole(count, 1000).collect();
    let mut gpu = Gpu::new(include_str!("last_block.ptx"));
    let (from, partial, sum) = (gpu.upload(&input), gpu.space::<i32>(7), gpu.space::<i32>(1));
    let arguments = [from.into(), partial.into(), sum.into(), (count as i32).into()];
    // Twice: the counter must have come round to zero.
    for _ in 0..2 {
        gpu.launch("last_block", Launch::new(7, 128), &arguments);
        assert_eq!(gpu.download::<i32>(sum, 1), [input.iter().sum::<i32>()]);
    }
}

#[test]
fn a_pipeline_of_copies() {
    for tiles in [1, 2, 3, 7] {
        let (blocks, row) = (2, 4 * 64);
        let input: Vec<f32> = whole(blocks * tiles * row, 1000).map(|n| n as f32).collect();
        let mut gpu = Gpu::new(include_str!("last_block.ptx"));
        let (from, to) = (gpu.upload(&input), gpu.space::<f32>(blocks * row));
        let arguments = [from.into(), to.into(), (tiles as i32).into()];
        gpu.launch("pipeline", Launch::new(blocks as u32, 64), &arguments);
        let found = gpu.download::<f32>(to, blocks * row);
        for (place, found) in found.into_iter().enumerate() {
            let (block, thread, part) = (place / row, place % row / 4, place % 4);
            let at = |tile| input[(block * tiles + tile) * row + 4 * (63 - thread) + part];
            assert_eq!(found, (0..tiles).map(at).sum::<f32>(), "{tiles} tiles: {place}");
        }
    }
}

#[test]
fn a_ring_of_blocks() {
    let blocks = 8;
    let input: Vec<i32> = whole(64 * blocks, 1000).collect();
    let mut gpu = Gpu::of(Arch::new(9, 0), include_str!("cluster.ptx"));
    let (from, to) = (gpu.upload(&input), gpu.space::<i32>(64 * blocks));
    gpu.launch("ring", Launch::new(blocks as u32, 64), &[from.into(), to.into()]);
    let expected: Vec<i32> = (0..64 * blocks)
        .map(|place| {
            let (block, thread) = (place / 64, place % 64);
            input[64 * (block / 4 * 4 + (block + 1) % 4) + 63 - thread]
        })
        .collect();
    assert_eq!(gpu.download::<i32>(to, 64 * blocks), expected);
}

#[test]
fn arrivals_at_a_barrier_object() {
    let input: Vec<i32> = whole(64, 1000).collect();
    let mut gpu = Gpu::of(Arch::new(9, 0), include_str!("cluster.ptx"));
    let (from, to) = (gpu.upload(&input), gpu.space::<i32>(64));
    gpu.launch("arrivals", Launch::new(1, 64), &[from.into(), to.into()]);
    let expected: Vec<i32> = (0..64).map(|i| 3 * input[i] + input[63 - i]).collect();
    assert_eq!(gpu.download::<i32>(to, 64), expected);
}
