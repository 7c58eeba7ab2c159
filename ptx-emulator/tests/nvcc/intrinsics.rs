//! Integer intrinsics, and what the lanes of a warp tell each other.

use super::{Gpu, noise};
use ptx_emulator::Launch;

/// Numbers with few and with many bits, extremes among them.
fn words(count: usize, salt: usize) -> Vec<u32> {
    let ends = [0, 1, u32::MAX, 1 << 31, i32::MAX as u32];
    let random = noise(count + salt)[salt..].to_vec();
    let shifted = random.iter().map(|number| number >> (number % 29));
    (0..count).map(|i| ends[(i / 5 + salt) % 5]).take(25).chain(shifted).take(count).collect()
}

#[test]
fn bits() {
    let count = 100;
    let (a, b) = (words(count, 0), words(count, 3));
    let mut gpu = Gpu::new(include_str!("bits.ptx"));
    let (a_at, b_at) = (gpu.upload(&a), gpu.upload(&b));
    let out = gpu.space::<u32>(14 * count);
    let arguments = [a_at.into(), b_at.into(), out.into(), (count as i32).into()];
    gpu.launch("bits", Launch::new(2, 64), &arguments);
    let found = gpu.download::<u32>(out, 14 * count);
    let byte_dot = |x: u32, y: u32| -> i32 {
        let signed = |bytes: u32| bytes.to_le_bytes().map(|byte| i32::from(byte as i8));
        std::iter::zip(signed(x), signed(y)).map(|(x, y)| x * y).sum()
    };
    let bytes_sum = |x: u32, y: u32| {
        let (x, y) = (x.to_le_bytes(), y.to_le_bytes());
        u32::from_le_bytes(std::array::from_fn(|i| x[i].wrapping_add(y[i])))
    };
    let selected = |x: u32, y: u32| {
        let bytes = [x.to_le_bytes(), y.to_le_bytes()].concat();
        u32::from_le_bytes([5, 7, 1, 3].map(|i| bytes[i]))
    };
    let pair = |x: u32, y: u32| u64::from(y) << 32 | u64::from(x);
    for i in 0..count {
        let (x, y) = (a[i], b[i]);
        let expected = [
            x.leading_zeros(),
            if x == 0 { 0 } else { x.trailing_zeros() + 1 },
            x.count_ones(),
            x.reverse_bits(),
            (pair(x, y) << (y & 31) >> 32) as u32,
            selected(x, y),
            byte_dot(x, y).wrapping_add(17) as u32,
            ((u64::from(x) * u64::from(y)) >> 32) as u32,
            bytes_sum(x, y),
            x.abs_diff(y).wrapping_add(1000),
            (x & y) ^ (!x | 0x0f0f_0f0f),
            (x >> (y & 7)) & ((1 << (y & 15)) - 1),
            ((x as i32) >> (y & 31)) as u32,
            ((u64::from(x) + u64::from(y)) / 2) as u32,
        ];
        for (row, expected) in expected.into_iter().enumerate() {
            assert_eq!(found[row * count + i], expected, "row {row}: {x:#x}, {y:#x}");
        }
    }
}

#[test]
fn wide_integers() {
    let count = 100;
    let join = |(&high, &low): (&u32, &u32)| i64::from(high as i32) << 32 | i64::from(low);
    let a: Vec<i64> = std::iter::zip(&words(count, 1), &noise(count)).map(join).collect();
    let narrow = |(i, number): (usize, i64)| if i % 3 == 0 { number >> 40 } else { number };
    let b: Vec<i64> = std::iter::zip(&noise(count + 9)[9..], &words(count, 2))
        .map(join)
        .enumerate()
        .map(narrow)
        .map(|number| if number == 0 { 7 } else { number })
        .collect();
    let mut gpu = Gpu::new(include_str!("bits.ptx"));
    let (a_at, b_at) = (gpu.upload(&a), gpu.upload(&b));
    let out = gpu.space::<i64>(10 * count);
    let arguments = [a_at.into(), b_at.into(), out.into(), (count as i32).into()];
    gpu.launch("wide", Launch::new(2, 64), &arguments);
    let found = gpu.download::<i64>(out, 10 * count);
    for i in 0..count {
        let (x, y) = (a[i], b[i]);
        let expected = [
            x.wrapping_mul(y),
            x.wrapping_div(y),
            x.wrapping_rem(y),
            (x as u64 / y as u64) as i64,
            ((i128::from(x) * i128::from(y)) >> 64) as i64,
            i64::from(x.leading_zeros()),
            x.reverse_bits(),
            x.min(y),
            (x as f64 * 0.5) as i64,
            y as f32 as i64,
        ];
        for (row, expected) in expected.into_iter().enumerate() {
            assert_eq!(found[row * count + i], expected, "row {row}: {x}, {y}");
        }
    }
}

#[test]
fn carries() {
    let (mut a, b) = (words(4 * 32, 0), noise(4 * 32));
    // A carry through all words.
    a[..4].fill(u32::MAX);
    let number = |words: &[u32]| words.iter().rev().fold(0, |sum, &w| sum << 32 | u128::from(w));
    let pairs = || std::iter::zip(a.chunks(4).map(number), b.chunks(4).map(number));
    let mut gpu = Gpu::new(include_str!("bits.ptx"));
    let (a_at, b_at, sums) = (gpu.upload(&a), gpu.upload(&b), gpu.space::<u32>(4 * 32));
    gpu.launch("carries", Launch::new(1, 32), &[a_at.into(), b_at.into(), sums.into()]);
    let found = gpu.download::<u32>(sums, 4 * 32);
    let expected: Vec<u128> = pairs().map(|(a, b)| a.wrapping_add(b)).collect();
    assert_eq!(found.chunks(4).map(number).collect::<Vec<_>>(), expected);

    let out = gpu.space::<u32>(3 * 4 * 32);
    gpu.launch("wider", Launch::new(1, 32), &[a_at.into(), b_at.into(), out.into()]);
    let found = gpu.download::<u32>(out, 3 * 4 * 32);
    let operations = [u128::wrapping_add, u128::wrapping_sub, u128::wrapping_mul];
    let expected: Vec<u128> = operations
        .iter()
        .flat_map(|operation| pairs().map(move |(a, b)| operation(a, b)))
        .collect();
    assert_eq!(found.chunks(4).map(number).collect::<Vec<_>>(), expected);
}

#[test]
fn borrows() {
    let (a, b) = (words(2 * 32, 1), words(2 * 32, 2));
    let mut gpu = Gpu::new(include_str!("bits.ptx"));
    let (a_at, b_at, out) = (gpu.upload(&a), gpu.upload(&b), gpu.space::<u32>(4 * 32));
    gpu.launch("borrows", Launch::new(1, 32), &[a_at.into(), b_at.into(), out.into()]);
    let number = |words: &[u32]| u64::from(words[1]) << 32 | u64::from(words[0]);
    let pairs = || std::iter::zip(a.chunks(2), b.chunks(2));
    let differences = pairs().map(|(a, b)| number(a).wrapping_sub(number(b)));
    let product = |words: &[u32]| u64::from(words[0]) * u64::from(words[1]);
    let sums = pairs().map(|(a, b)| product(a).wrapping_add(number(b)));
    let found = gpu.download::<u32>(out, 4 * 32);
    let expected: Vec<u64> = differences.chain(sums).collect();
    assert_eq!(found.chunks(2).map(number).collect::<Vec<_>>(), expected);
}

#[test]
fn lanes() {
    let threads = 96;
    let input: Vec<i32> = noise(threads).into_iter().map(|number| (number % 7) as i32).collect();
    let mut gpu = Gpu::new(include_str!("warp.ptx"));
    let (from, out) = (gpu.upload(&input), gpu.space::<i32>(10 * threads));
    gpu.launch("warp", Launch::new(1, threads as u32), &[from.into(), out.into()]);
    let found = gpu.download::<i32>(out, 10 * threads);
    let threes = input.iter().filter(|&&number| number == 3).count() as i32;
    for (i, &value) in input.iter().enumerate() {
        let warp = &input[i / 32 * 32..][..32];
        let mask = |is: &dyn Fn(i32) -> bool| {
            (0..32).filter(|&lane| is(warp[lane])).fold(0_u32, |mask, lane| mask | 1 << lane) as i32
        };
        let odd = mask(&|other| other % 2 == 1).count_ones() as i32;
        let expected = [
            mask(&|other| other == value),
            -1,
            1,
            i32::from(warp.contains(&3)) + 2,
            warp.iter().sum(),
            *warp.iter().max().expect("32 of them"),
            warp[i % 32 / 8 * 8 + 5],
            threes,
            i32::from(input.contains(&6)),
            if value % 2 == 1 { odd } else { 0 },
        ];
        for (row, expected) in expected.into_iter().enumerate() {
            assert_eq!(found[row * threads + i], expected, "row {row}, thread {i}");
        }
    }
}
