//! `warp`.

use std::fmt::Debug;

use bytemuck::Pod;

use crate::gpu::{Buffer, Gpu, Slice, each_module, each_module_from};

#[test]
fn votes() {
    each_module(|gpu| {
        let cases: [fn(u32) -> bool; 5] =
            [|_| false, |_| true, |i| i == 9, |i| (8..24).contains(&i), |i| i % 5 != 0];
        for predicate in cases {
            let ballot = (0..32).filter(|i| predicate(*i)).map(|i| 1 << i).sum::<u32>();
            let middle = 0x00ff_ff00;
            let predicates: Vec<u32> = (0..32).map(|i| predicate(i) as u32).collect();
            let out = Buffer::<u32>::zeros(384);
            gpu.run("votes", 1, 32, &[&Slice(&Buffer::new(&predicates)), &&out]);
            for (lane, words) in out.download().chunks(12).enumerate() {
                assert_eq!(words[0], lane as u32);
                let (active, active_odd) = (words[1], words[2]);
                assert_eq!(active >> lane & 1, 1);
                if lane % 2 == 1 {
                    assert_eq!(active_odd >> lane & 1, 1);
                    assert_eq!(active_odd & 0x5555_5555, 0, "even lanes are not in the branch");
                }
                assert_eq!(words[3], (lane as u32 + 1) % 32 + 100);
                let over = |mask: u32| {
                    [(ballot & mask == mask) as u32, (ballot & mask != 0) as u32, ballot & mask]
                };
                assert_eq!(words[4..7], over(u32::MAX), "lane {lane}, ballot {ballot:x}");
                let expected = if (8..24).contains(&lane) { over(middle) } else { [0; 3] };
                assert_eq!(words[7..10], expected, "lane {lane}, ballot {ballot:x}");
            }
        }
    });
}

fn check_match<T: Pod>(gpu: &Gpu, kernel: &str, values: [T; 32]) {
    let bits = values.map(|value| bytemuck::bytes_of(&value).to_vec());
    let out = Buffer::<u32>::zeros(96);
    gpu.run(kernel, 1, 32, &[&Slice(&Buffer::new(&values)), &&out]);
    for (lane, words) in out.download().chunks(3).enumerate() {
        let same = (0..32).filter(|i| bits[*i] == bits[lane]).map(|i| 1 << i).sum::<u32>();
        let all = same == u32::MAX;
        assert_eq!(words, [same, all as u32, if all { same } else { 0 }], "{kernel}, lane {lane}");
    }
}

#[test]
fn matches() {
    fn check<T: Pod>(gpu: &Gpu, kernel: &str, value: impl Fn(usize) -> T) {
        check_match(gpu, kernel, [value(3); 32]);
        check_match(gpu, kernel, std::array::from_fn(|i| value(i % 4)));
        check_match(gpu, kernel, std::array::from_fn(&value));
        check_match(gpu, kernel, std::array::from_fn(|i| value((i == 31) as usize)));
    }
    each_module(|gpu| {
        check(gpu, "match_u32", |i| i as u32);
        check(gpu, "match_i32", |i| -(i as i32));
        check(gpu, "match_f32", |i| [0.0, -0.0, f32::NAN, 1.0][i % 4] + (i / 4) as f32);
        // Values that differ in one half only.
        check(gpu, "match_u64", |i| (i as u64 % 8) << 32 | (i as u64 / 8));
        check(gpu, "match_i64", |i| -(i as i64) << 31);
        check(gpu, "match_f64", |i| [0.0, -0.0, f64::NAN, 1.0][i % 4] + (i / 4) as f64);
    });
}

/// The source lane and whether it is in reach, by the pseudo-code of the PTX ISA ("shfl.sync").
fn source(mode: usize, lane: usize, by: usize, width: usize) -> (usize, bool) {
    let (lane, by) = (lane as i64, by as i64 & 31);
    let segment = 32 - width as i64;
    let clamp = if mode == 0 { 0 } else { 31 };
    let max_lane = (lane & segment) | (clamp & !segment);
    let min_lane = lane & segment;
    let (source, in_reach) = match mode {
        0 => (lane - by, lane - by >= max_lane),
        1 => (lane + by, lane + by <= max_lane),
        2 => (min_lane | (by & !segment), (min_lane | (by & !segment)) <= max_lane),
        _ => (lane ^ by, lane ^ by <= max_lane),
    };
    if in_reach { (source as usize, true) } else { (lane as usize, false) }
}

fn check_shuffle<T: Pod + PartialEq + Debug>(gpu: &Gpu, kernel: &str, values: [T; 32]) {
    let input = Buffer::new(&values);
    for width in [1, 2, 4, 8, 16, 32] {
        for by in [0, 1, 2, 3, 5, 8, 15, 16, 31] {
            let (out, flags) = (Buffer::<T>::zeros(128), Buffer::<u32>::zeros(128));
            let (by, width) = (by as u32, width as u32);
            gpu.run(kernel, 1, 32, &[&Slice(&input), &&out, &&flags, &by, &width]);
            let sources: Vec<(usize, bool)> =
                (0..128).map(|i| source(i / 32, i % 32, by as usize, width as usize)).collect();
            let expected: Vec<T> = sources.iter().map(|(source, _)| values[*source]).collect();
            assert_eq!(
                out.download(),
                expected,
                "{kernel} of {}, by {by}, width {width}",
                gpu.name
            );
            let expected: Vec<u32> = sources.iter().map(|(_, flag)| *flag as u32).collect();
            assert_eq!(flags.download(), expected, "{kernel}, by {by}, width {width}");
        }
    }
}

/// Bits in all bytes, different in each lane.
fn word(i: usize) -> u128 {
    (i as u128 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
}

#[test]
fn shuffles() {
    use std::array::from_fn;
    each_module(|gpu| {
        check_shuffle(gpu, "shuffle_u8", from_fn(|i| word(i) as u8));
        check_shuffle(gpu, "shuffle_i8", from_fn(|i| word(i) as i8));
        check_shuffle(gpu, "shuffle_u16", from_fn(|i| word(i) as u16));
        check_shuffle(gpu, "shuffle_i16", from_fn(|i| word(i) as i16));
        check_shuffle(gpu, "shuffle_u32", from_fn(|i| word(i) as u32));
        check_shuffle(gpu, "shuffle_i32", from_fn(|i| word(i) as i32));
        check_shuffle(gpu, "shuffle_u64", from_fn(|i| word(i) as u64));
        check_shuffle(gpu, "shuffle_i64", from_fn(|i| word(i) as i64));
        check_shuffle(gpu, "shuffle_u128", from_fn(word));
        check_shuffle(gpu, "shuffle_i128", from_fn(|i| word(i) as i128));
        check_shuffle(gpu, "shuffle_f32", from_fn(|i| i as f32 + 0.1));
        check_shuffle(gpu, "shuffle_f64", from_fn(|i| i as f64 + 0.1));
        // The bits of halves.
        check_shuffle(gpu, "shuffle_f16", from_fn(|i| word(i) as u16));
        check_shuffle(gpu, "shuffle_bf16", from_fn(|i| word(i) as u16));
    });
}

#[test]
fn the_oracle_of_shuffles_is_right_where_it_is_plain() {
    assert_eq!(source(0, 5, 2, 32), (3, true));
    assert_eq!(source(0, 1, 2, 32), (1, false));
    assert_eq!(source(1, 30, 2, 32), (30, false));
    assert_eq!(source(1, 13, 2, 16), (15, true));
    assert_eq!(source(1, 14, 2, 16), (14, false));
    assert_eq!(source(2, 20, 3, 8), (19, true));
    assert_eq!(source(3, 20, 1, 32), (21, true));
    assert_eq!(source(3, 3, 16, 16), (3, false));
}

#[test]
fn reductions() {
    // The module for sm_70 has none: `warp_reduce` does not compile there.
    each_module_from((8, 0), |gpu| {
        let values: [u32; 32] = std::array::from_fn(|i| word(i) as u32);
        for mask in [u32::MAX, 1, 0x8000_0000, 0x0f0f_00f1, 0x5555_5555] {
            let lanes = || (0..32).filter(move |i| mask >> i & 1 == 1).map(|i| values[i as usize]);
            let signed = || lanes().map(|value| value as i32);
            let bits = [
                lanes().fold(u32::MAX, |a, b| a & b),
                lanes().fold(0, |a, b| a | b),
                lanes().fold(0, |a, b| a ^ b),
            ];
            let sum = lanes().fold(0, u32::wrapping_add);
            let (least, most) = (lanes().min().unwrap(), lanes().max().unwrap());
            let unsigned = [sum, least, most, bits[0], bits[1], bits[2]];
            let (least, most) = (signed().min().unwrap() as u32, signed().max().unwrap() as u32);
            let signed = [sum, least, most, bits[0], bits[1], bits[2]];
            for (kernel, expected) in [("reduce_u32", unsigned), ("reduce_i32", signed)] {
                let out = Buffer::<u32>::zeros(192);
                gpu.run(kernel, 1, 32, &[&Slice(&Buffer::new(&values)), &mask, &&out]);
                for (lane, results) in out.download().chunks(6).enumerate() {
                    let expected = if mask >> lane & 1 == 1 { expected } else { [0; 6] };
                    assert_eq!(results, expected, "{kernel}, mask {mask:x}, lane {lane}");
                }
            }
        }
    });
}
