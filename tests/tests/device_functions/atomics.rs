//! `atomic`: what many threads did to one number must be explained by some order in which they did
//! it.

use std::collections::HashMap;
use std::fmt::Debug;

use bytemuck::Pod;

use crate::gpu::{Buffer, Gpu, Slice, each_module};

const ORDERINGS: u32 = 5;

/// Whether the operations (number before, number after) can have happened one after the other from
/// `first` to `last`: in the graph of numbers they form a path that uses each operation once
/// (Euler).
fn is_history(first: u64, last: u64, operations: &[(u64, u64)]) -> bool {
    let mut balance: HashMap<u64, i64> = HashMap::new();
    let mut next: HashMap<u64, Vec<u64>> = HashMap::new();
    for (before, after) in operations {
        *balance.entry(*before).or_default() += 1;
        *balance.entry(*after).or_default() -= 1;
        next.entry(*before).or_default().push(*after);
    }
    *balance.entry(first).or_default() -= 1;
    *balance.entry(last).or_default() += 1;
    let balanced = balance.values().all(|balance| *balance == 0);
    // Every operation is reached from the first number.
    let mut reached = 0;
    let mut open = vec![first];
    while let Some(number) = open.pop() {
        for after in next.remove(&number).unwrap_or_default() {
            reached += 1;
            open.push(after);
        }
    }
    balanced && reached == operations.len()
}

#[test]
fn histories_are_told_from_accidents() {
    assert!(is_history(0, 6, &[(3, 6), (0, 1), (1, 3)]));
    assert!(is_history(5, 5, &[(5, 5), (5, 5)]));
    assert!(is_history(5, 5, &[]));
    assert!(!is_history(0, 3, &[(0, 1), (0, 2)]), "a lost update");
    assert!(!is_history(0, 1, &[(0, 1), (7, 7)]), "a number from nowhere");
    assert!(!is_history(0, 2, &[(0, 1)]), "a wrong result");
}

trait Number: Pod + Debug + PartialEq {
    const IS_FLOAT: bool;
    fn bits(self) -> u64;
    /// A number to start from, and one for each thread: such that float sums are exact.
    fn first() -> Self;
    fn argument(i: usize) -> Self;
    fn constant() -> Self;
    fn apply(cell: usize, old: Self, argument: Self) -> Self;
}

macro_rules! integer {
    ($($type:ident as $bits:ident;)*) => {$(
        impl Number for $type {
            const IS_FLOAT: bool = false;

            fn bits(self) -> u64 {
                self as $bits as u64
            }

            fn first() -> Self {
                0x1234_5678_9abc_def0_u64 as $type
            }

            fn argument(i: usize) -> Self {
                (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) as $type ^ ((i as $type) << 7)
            }

            fn constant() -> Self {
                5
            }

            fn apply(cell: usize, old: Self, argument: Self) -> Self {
                match cell {
                    0 | 10 => old.wrapping_add(argument),
                    1 => old.wrapping_sub(argument),
                    2 => old & argument,
                    3 => old | argument,
                    4 => old ^ argument,
                    5 => argument,
                    6 => old.min(argument),
                    7 => old.max(argument),
                    _ => unreachable!(),
                }
            }
        }
    )*};
}

integer! {
    u32 as u32;
    i32 as u32;
    u64 as u64;
    i64 as u64;
}

macro_rules! float {
    ($($type:ident;)*) => {$(
        impl Number for $type {
            const IS_FLOAT: bool = true;

            fn bits(self) -> u64 {
                self.to_bits() as u64
            }

            fn first() -> Self {
                1000.0
            }

            fn argument(i: usize) -> Self {
                (i as u32 * 7919 % 4093) as $type + 1.0
            }

            fn constant() -> Self {
                5.0
            }

            fn apply(cell: usize, old: Self, argument: Self) -> Self {
                let (a, b) = (old.to_bits(), argument.to_bits());
                match cell {
                    0 => old + argument,
                    1 => old - argument,
                    2 => $type::from_bits(a & b),
                    3 => $type::from_bits(a | b),
                    4 => $type::from_bits(a ^ b),
                    5 => argument,
                    _ => unreachable!(),
                }
            }
        }
    )*};
}

float! {
    f32;
    f64;
}

fn check<T: Number>(gpu: &Gpu, kernel: &str, (grid, block): (u32, u32)) {
    let threads = (grid * block) as usize;
    let arguments: Vec<T> = (0..threads).map(T::argument).collect();
    // Cells with a history, then load, store, and for integers the sum by exchange and the
    // constant.
    let operations = if T::IS_FLOAT { 6 } else { 8 };
    let (load, store, sum, constant) = (operations, operations + 1, operations + 2, operations + 3);
    let count = if T::IS_FLOAT { store + 1 } else { constant + 1 };
    for order in 0..ORDERINGS {
        let mut first = vec![T::first(); count];
        if !T::IS_FLOAT {
            first[constant] = T::constant();
        }
        let cells = Buffer::new(&first);
        let olds = Buffer::<T>::zeros(count * threads);
        gpu.run(kernel, grid, block, &[&&cells, &Slice(&Buffer::new(&arguments)), &&olds, &order]);
        let (cells, olds) = (cells.download(), olds.download());
        let context = |cell| format!("{kernel} of {}, ordering {order}, cell {cell}", gpu.name);
        let check_history = |cell: usize, operation: usize| {
            let before = &olds[cell * threads..][..threads];
            let history: Vec<(u64, u64)> = before
                .iter()
                .zip(&arguments)
                .map(|(old, argument)| (old.bits(), T::apply(operation, *old, *argument).bits()))
                .collect();
            let explained = is_history(first[cell].bits(), cells[cell].bits(), &history);
            assert!(explained, "{}", context(cell));
        };
        for cell in 0..operations {
            check_history(cell, cell);
        }
        let all_are = |cell: usize, value: T| {
            olds[cell * threads..][..threads].iter().all(|old| old.bits() == value.bits())
        };
        assert!(all_are(load, T::first()), "{}", context(load));
        assert_eq!(cells[load], T::first(), "{}", context(load));
        assert!(arguments.contains(&cells[store]), "{}", context(store));
        if !T::IS_FLOAT {
            check_history(sum, 10);
            assert!(all_are(constant, T::constant()), "{}", context(constant));
            assert_eq!(cells[constant], T::constant(), "{}", context(constant));
        }
    }
}

#[test]
fn device_scope() {
    each_module(|gpu| {
        let launch = (8, 64);
        check::<f32>(gpu, "atomic_f32", launch);
        check::<f64>(gpu, "atomic_f64", launch);
        check::<u32>(gpu, "atomic_u32", launch);
        check::<i32>(gpu, "atomic_i32", launch);
        check::<u64>(gpu, "atomic_u64", launch);
        check::<i64>(gpu, "atomic_i64", launch);
    });
}

#[test]
fn system_scope() {
    each_module(|gpu| {
        let launch = (8, 64);
        check::<f32>(gpu, "system_atomic_f32", launch);
        check::<f64>(gpu, "system_atomic_f64", launch);
        check::<u32>(gpu, "system_atomic_u32", launch);
        check::<i32>(gpu, "system_atomic_i32", launch);
        check::<u64>(gpu, "system_atomic_u64", launch);
        check::<i64>(gpu, "system_atomic_i64", launch);
    });
}

#[test]
fn block_scope() {
    each_module(|gpu| {
        let launch = (1, 512);
        check::<f32>(gpu, "block_atomic_f32", launch);
        check::<f64>(gpu, "block_atomic_f64", launch);
        check::<u32>(gpu, "block_atomic_u32", launch);
        check::<i32>(gpu, "block_atomic_i32", launch);
        check::<u64>(gpu, "block_atomic_u64", launch);
        check::<i64>(gpu, "block_atomic_i64", launch);
    });
}

#[test]
fn release_and_acquire_order_a_message() {
    each_module(|gpu| {
        let launches =
            [("message_device", 2, 1), ("message_system", 2, 1), ("message_block", 1, 64)];
        for (kernel, grid, block) in launches {
            for strong in (0..50u32).map(|i| i % 2) {
                let words = [(); 3].map(|()| Buffer::<u32>::zeros(1));
                let [data, flag, out] = &words;
                gpu.run(kernel, grid, block, &[&data, &flag, &out, &strong]);
                assert_eq!(words.each_ref().map(Buffer::download), [[43], [1], [43]], "{kernel}");
            }
        }
    });
}
