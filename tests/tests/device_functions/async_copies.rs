//! `async_copy`: what is copied, zeroed and left alone, and which groups a wait waits for.

use std::fmt::Debug;

use bytemuck::Pod;

use crate::floats::random_bits;
use crate::gpu::{Argument, Buffer, Gpu, Slice, each_module_alone, each_module_from};

/// Whether a thread starts a copy, and whether it wants it.
type Choice = fn(usize) -> (bool, bool);

/// Threads copy random elements, each another's than its own; `unread` is an address for those of
/// which nothing is to be read.
fn check_copy_if<T: Pod + PartialEq + Debug>(
    gpu: &Gpu,
    kernel: &str,
    (what, choice): (&str, Choice),
    number: impl Fn(u64) -> T,
    unread: Option<u64>,
) {
    let numbers: Vec<T> = random_bits(128).map(&number).collect();
    let (from, before) = numbers.split_at(64);
    let source = |i: usize| 5 * i % 64;
    let choices: Vec<(bool, bool)> = (0..64).map(choice).collect();
    let buffer = Buffer::new(from);
    let address = |i: usize| buffer.address() + (source(i) * size_of::<T>()) as u64;
    let sources: Vec<u64> = (choices.iter().enumerate())
        .map(|(i, choice)| match unread {
            Some(unread) if *choice != (true, true) => unread,
            _ => address(i),
        })
        .collect();
    let starts: Vec<u32> = choices.iter().map(|choice| choice.0 as u32).collect();
    let wanted: Vec<u32> = choices.iter().map(|choice| choice.1 as u32).collect();
    let (starts, wanted) = (Buffer::new(&starts), Buffer::new(&wanted));
    let out = Buffer::<T>::zeros(64);
    let (sources, stored) = (Buffer::new(&sources), Buffer::new(before));
    let arguments: [&dyn Argument; 5] =
        [&Slice(&starts), &Slice(&wanted), &Slice(&sources), &&stored, &&out];
    gpu.run(kernel, 1, 64, &arguments);
    for (i, found) in out.download().into_iter().enumerate() {
        let (expected, meaning) = match choices[i] {
            (true, true) => (from[source(i)], "the copy"),
            (true, false) => (T::zeroed(), "zeros"),
            (false, _) => (before[i], "what was there"),
        };
        assert_eq!(
            found, expected,
            "{kernel} of {}, {what}: element {i} is not {meaning}",
            gpu.name
        );
    }
}

/// Every size, with every combination of starting and wanting.
fn check_every_copy(gpu: &Gpu, unread: Option<u64>) {
    let choices: [(&str, Choice); 6] = [
        ("all are copied", |_| (true, true)),
        ("none is wanted", |_| (true, false)),
        ("none is started", |_| (false, true)),
        ("none is started or wanted", |_| (false, false)),
        ("all choices beside each other", |i| (i % 2 == 0, i / 2 % 2 == 0)),
        ("the first are wanted, the odd started", |i| (i % 2 == 1, i < 37)),
    ];
    // No byte of them is 0, so that a copy is not mistaken for zeros.
    let full = |bits: u64| bits | 0x0101_0101_0101_0101;
    for choice in choices {
        check_copy_if(gpu, "copy_if_4", choice, |bits| full(bits) as u32, unread);
        check_copy_if(gpu, "copy_if_8", choice, full, unread);
        let wide = |bits| u128::from(full(bits)) << 64 | u128::from(full(bits.rotate_left(23)));
        check_copy_if(gpu, "copy_if_16", choice, wide, unread);
    }
}

#[test]
fn copies_are_made_zeroed_or_left_out() {
    each_module_from((8, 0), |gpu| check_every_copy(gpu, None));
}

/// Those that are not started or not wanted have an address behind which there is nothing: a read
/// of it would end the kernel with an illegal address.
#[test]
fn a_copy_that_is_not_wanted_reads_nothing() {
    let path = "async_copies::a_copy_that_is_not_wanted_reads_nothing";
    each_module_alone(path, (8, 0), |gpu| check_every_copy(gpu, Some(0)));
}

#[test]
fn parts_are_copied_and_zeros_behind_them() {
    each_module_from((8, 0), |gpu| {
        let words: Vec<u128> = random_bits(32).map(|bits| !(u128::from(bits) << 40)).collect();
        let bytes: Vec<u32> = (0..32).map(|thread| 7 * thread % 17).collect();
        let out = Buffer::<u128>::zeros(32);
        gpu.run("copy_parts", 1, 32, &[&Slice(&Buffer::new(&bytes)), &&Buffer::new(&words), &&out]);
        for (i, found) in out.download().into_iter().enumerate() {
            let mask = u128::MAX.checked_shr(128 - 8 * bytes[i]).unwrap_or(0);
            assert_eq!(found, words[i] & mask, "{}: {} bytes", gpu.name, bytes[i]);
        }
    });
}

/// Words of 16 bytes in a group of a block: those of `COPIES` in tests/device.
const GROUP: usize = 8 * 32;

/// Shared memory has `u128::MAX` before, and keeps it for a while where a wait does not wait.
#[test]
fn a_wait_leaves_only_its_latest_groups_on_their_way() {
    let kernels = [
        ("groups_0", 4, 4),
        ("groups_1", 4, 3),
        ("groups_2", 4, 2),
        ("groups_3", 4, 1),
        ("groups_behind_empty", 1, 1),
    ];
    each_module_from((8, 0), |gpu| {
        for (kernel, groups, arrived) in kernels {
            for round in 0..20u128 {
                let bits = random_bits(groups * GROUP).map(u128::from);
                let words: Vec<u128> = bits.map(|bits| bits << 64 | bits ^ round).collect();
                let out = Buffer::<u128>::zeros(groups * GROUP);
                gpu.run(kernel, 1, 32, &[&&Buffer::new(&words), &&out]);
                for (i, found) in out.download().into_iter().enumerate() {
                    let group = i / GROUP;
                    let expected = if group < arrived { words[i] } else { 0 };
                    let late = if found == u128::MAX { ", it had not arrived" } else { "" };
                    assert!(
                        found == expected,
                        "{kernel} of {}, round {round}: word {} of group {group} is {found:x}, \
                         not {expected:x}{late}",
                        gpu.name,
                        i % GROUP,
                    );
                }
            }
        }
    });
}

#[test]
fn walks_go_by_bytes_in_both_directions() {
    let addresses: Vec<u64> = random_bits(1000).collect();
    let small = [0, 1, 16, -16, 4096, -4096, 1 << 32, -(1 << 32)];
    let any = addresses.iter().rev().map(|bits| bits.cast_signed() >> 8);
    let distances: Vec<u64> =
        small.into_iter().chain(any).take(1000).map(i64::cast_unsigned).collect();
    each_module_from((8, 0), |gpu| {
        let (from, by) = (Buffer::new(&addresses), Buffer::new(&distances));
        let out = Buffer::<u64>::zeros(3 * addresses.len());
        gpu.run("walks", 4, 256, &[&Slice(&from), &Slice(&by), &&out]);
        for (i, found) in out.download().chunks(3).enumerate() {
            let (first, distance) = (addresses[i], distances[i]);
            let second = first.wrapping_add(distance);
            let expected = [first, second, second.wrapping_add(distance)];
            assert_eq!(found, expected, "walks of {}: {first:x} by {distance:x}", gpu.name);
        }
    });
}
