//! Inputs: right ones with a few changes, and bytes at random.

use rand::{Rng, RngExt};

/// The longest input.
const MOST: usize = 1 << 16;

/// Numbers at which programs err.
const NUMBERS: [&str; 14] = [
    "0",
    "1",
    "-1",
    "255",
    "65535",
    "65536",
    "2147483647",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999999",
    "1e999",
];

/// An input from one of the seeds, or now and then from nothing.
pub fn input(rng: &mut impl Rng, seeds: &[Vec<u8>], words: &[&str]) -> Vec<u8> {
    let mut input = match rng.random_range(0..16) {
        0 => {
            let len = rng.random_range(0..64);
            (0..len).map(|_| rng.random()).collect()
        }
        _ if seeds.is_empty() => {
            let len = rng.random_range(0..128);
            (0..len).map(|_| rng.random()).collect()
        }
        _ => seeds[rng.random_range(0..seeds.len())].clone(),
    };
    // Mostly few changes, so that much of the input is understood.
    let changes = match rng.random_range(0..4) {
        0 | 1 => 1,
        2 => rng.random_range(2..4),
        _ => rng.random_range(4..10),
    };
    for _ in 0..changes {
        change(rng, &mut input, seeds, words);
    }
    input.truncate(MOST);
    input
}

fn change(rng: &mut impl Rng, input: &mut Vec<u8>, seeds: &[Vec<u8>], words: &[&str]) {
    let at = rng.random_range(0..=input.len());
    let few = |rng: &mut dyn Rng| 1 + (rng.next_u32() % 16) as usize;
    let end = input.len().min(at + few(rng));
    let place = at..end;
    match rng.random_range(0..10) {
        0 if at < input.len() => input[at] ^= 1 << rng.random_range(0..8),
        1 if at < input.len() => {
            input[at] = [0, 1, 0x7f, 0x80, 0xff, b'\n'][rng.random_range(0..6)]
        }
        2 => input.truncate(at),
        3 => drop(input.drain(place)),
        4 => {
            let copy = input[place].to_vec();
            let to = rng.random_range(0..=input.len());
            drop(input.splice(to..to, copy));
        }
        5 | 6 if !words.is_empty() => {
            let word = words[rng.random_range(0..words.len())];
            let end = if rng.random() { end } else { at };
            drop(input.splice(at..end, word.bytes()));
        }
        7 | 8 => number(rng, input, at),
        9 if !seeds.is_empty() => {
            let other = &seeds[rng.random_range(0..seeds.len())];
            let from = rng.random_range(0..=other.len());
            let to = other.len().min(from + 4 * few(rng));
            drop(input.splice(at..at, other[from..to].iter().copied()));
        }
        _ => drop(input.splice(at..at, [rng.random::<u8>()])),
    }
}

/// Puts another number in the place of the first behind `at`, or there.
fn number(rng: &mut impl Rng, input: &mut Vec<u8>, at: usize) {
    let is_digit = |byte: &u8| byte.is_ascii_digit();
    let from = input[at..].iter().position(is_digit).map_or(at, |from| at + from);
    let to =
        input[from..].iter().position(|byte| !is_digit(byte)).map_or(input.len(), |to| from + to);
    let number = NUMBERS[rng.random_range(0..NUMBERS.len())];
    drop(input.splice(from..to, number.bytes()));
}
