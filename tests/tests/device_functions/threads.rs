//! `thread`, `misc` and what `#[kernel]` makes of arguments and bounds.

use std::process::Command;

use crate::gpu::{Buffer, EmptySlice, Slice, each_module};

const INDEX_WORDS: usize = 32;

fn expected_indices((gx, gy, gz): (u32, u32, u32), (bx, by, bz): (u32, u32, u32)) -> Vec<u32> {
    let mut words = Vec::new();
    let mut index = 0;
    for block in (0..gx * gy * gz).map(|i| [i % gx, i / gx % gy, i / gx / gy]) {
        for thread in (0..bx * by * bz).map(|i| [i % bx, i / bx % by, i / bx / by]) {
            let extents = [bx, by, bz, gx, gy, gz];
            for _ in 0..2 {
                words.extend(thread);
                words.extend(block);
                words.extend(extents);
            }
            let [x, y, z] = [0, 1, 2].map(|axis| block[axis] * extents[axis] + thread[axis]);
            words.extend([index, x, x, y, x, y, z, (index == 0) as u32 * 1000 + 32]);
            index += 1;
        }
    }
    words
}

#[test]
fn indices() {
    each_module(|gpu| {
        let shapes = [
            ((1, 1, 1), (1, 1, 1)),
            ((3, 1, 1), (33, 1, 1)),
            ((2, 3, 4), (5, 3, 2)),
            ((1, 2, 1), (1, 1, 64)),
            ((2, 1, 2), (1024, 1, 1)),
            ((1, 1, 3), (1, 1024, 1)),
        ];
        for (grid, block) in shapes {
            let expected = expected_indices(grid, block);
            assert_eq!(expected.len() % INDEX_WORDS, 0);
            let out = Buffer::<u32>::zeros(expected.len());
            gpu.run("thread_indices", grid, block, &[&&out]);
            assert_eq!(out.download(), expected, "grid {grid:?}, block {block:?}");
        }
    });
}

#[test]
fn barriers() {
    each_module(|gpu| {
        let cases: [fn(usize) -> u32; 4] = [
            |_| 0,
            |_| 1,
            |i| (i == 77) as u32,
            |i| (i % 3) as u32, // Any number but 0 is true.
        ];
        for predicate in cases {
            let predicates: Vec<u32> = (0..128).map(predicate).collect();
            let count = predicates.iter().filter(|predicate| **predicate != 0).count() as u32;
            let expected: Vec<u32> = (0..128)
                .flat_map(|i| [(i + 1) % 128 * 3, count, (count == 128) as u32, (count > 0) as u32])
                .collect();
            let out = Buffer::<u32>::zeros(512);
            gpu.run("barriers", 1, 128, &[&Slice(&Buffer::new(&predicates)), &&out]);
            assert_eq!(out.download(), expected);
        }
    });
}

#[test]
fn fences_order_a_message() {
    each_module(|gpu| {
        let launches = [
            ("fence_block", 1, 64),
            ("fence_grid", 2, 1),
            ("fence_device", 2, 1),
            ("fence_system", 2, 1),
        ];
        for (kernel, grid, block) in launches {
            for _ in 0..50 {
                let words = [(); 3].map(|()| Buffer::<u32>::zeros(1));
                let [data, flag, out] = &words;
                gpu.run(kernel, grid, block, &[&data, &flag, &out]);
                assert_eq!(words.each_ref().map(Buffer::download), [[42], [1], [42]], "{kernel}");
            }
        }
    });
}

#[test]
fn the_clock_advances_over_a_sleep() {
    each_module(|gpu| {
        for counter in 0..8u32 {
            let out = Buffer::<u64>::zeros(3);
            gpu.run("clocks", 1, 1, &[&&out, &counter, &0u32]);
            let [before, after, counted] = out.download()[..] else { unreachable!() };
            assert!(before < after, "{before} to {after}");
            assert_eq!(counted, 1);
        }
    });
}

#[test]
fn slices_are_pointer_and_length() {
    each_module(|gpu| {
        let (x, y) = (Buffer::new(&[1.0f32, 2.0, 3.0]), Buffer::new(&[0.5f32, 0.25]));
        let lengths = Buffer::<u64>::zeros(2);
        gpu.run("slices", 1, 1, &[&Slice(&x), &Slice(&y), &&lengths]);
        assert_eq!(y.download(), [1.5, 2.25]);
        assert_eq!(lengths.download(), [3, 2]);
        gpu.run("slices", 1, 1, &[&EmptySlice, &EmptySlice, &&lengths]);
        assert_eq!(lengths.download(), [0, 0]);
    });
}

#[test]
fn a_launch_beyond_max_threads_fails_and_the_next_one_works() {
    each_module(|gpu| {
        let out = Buffer::<u32>::zeros(1);
        assert!(gpu.try_run("bounded", 1, 65, 0, &[&&out]).is_err());
        assert_eq!(out.download(), [0]);
        gpu.run("bounded", 1, 64, &[&&out]);
        assert_eq!(out.download(), [7]);
    });
}

const CHILD: &str = "GEMMITE_TEST_OF_A_PANIC";

/// A failed kernel takes its process's context with it, so that it runs in a process of its own.
#[test]
fn a_panic_ends_the_kernel() {
    let in_child = std::env::var_os(CHILD).is_some();
    each_module(|gpu| {
        let x = Buffer::new(&[5u32, 6]);
        let out = Buffer::<u32>::zeros(1);
        let launch = |index: u32| gpu.try_run("panics", 1, 1, 0, &[&Slice(&x), &index, &&out]);
        assert_eq!(launch(1), Ok(()), "{}", gpu.name);
        assert_eq!(out.download(), [6]);
        if in_child {
            assert!(launch(2).is_err(), "an index out of bounds went by");
            println!("the launch failed");
            std::process::exit(0);
        }
        let program = std::env::current_exe().expect("this program");
        let output = Command::new(program)
            .args(["--exact", "threads::a_panic_ends_the_kernel", "--nocapture"])
            .env(CHILD, "1")
            .output()
            .expect("the child runs");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("the launch failed"), "{output:?}");
    });
}
