//! `atom` and `red` in global and shared memory (PTX ISA 9.7.13.6, 9.7.13.7).
//!
//! Each thread has an address of its own, so that results do not depend on an order; one family of
//! cases adds up in one place.

use super::case::{Bound, Case, register};
use super::float::{float, flush, halves, operands};
use super::inputs::Random;
use super::integer::{bits, low, value, words};
use super::oracle::{Exact, Float, Mode};

/// A kernel in which each thread loads three slots, sets its place in a buffer to the first,
/// executes and writes the old value and the new one, 8 bytes each. `$space` is where the place is.
const TEMPLATE: &str = include_str!("templates/atomic.ptx");

/// What an operation leaves in memory.
fn result(op: &str, of: &str, [a, b, c]: [u64; 3]) -> u64 {
    let [x, y] = [a, b].map(|word| value(of, word));
    low(
        of,
        match op {
            "add" => x + y,
            "min" => x.min(y),
            "max" => x.max(y),
            "and" => x & y,
            "or" => x | y,
            "xor" => x ^ y,
            "exch" => y,
            "cas" => {
                if x == y {
                    value(of, c)
                } else {
                    x
                }
            }
            // Counts up to the operand and then from 0, or down from it.
            "inc" => {
                if x >= y {
                    0
                } else {
                    x + 1
                }
            }
            _ => {
                if x == 0 || x > y {
                    y
                } else {
                    x - 1
                }
            }
        },
    )
}

/// The operation's inputs: comparisons that hold, and counters near their ends.
fn integers() -> Vec<[u64; 3]> {
    let mut inputs = words(3);
    for (i, input) in inputs.iter_mut().enumerate() {
        if i % 3 == 0 {
            input[1] = input[0];
        } else if i % 3 == 1 {
            input[0] = input[1].wrapping_add(i as u64 % 5).wrapping_sub(2);
        }
    }
    inputs
}

fn case(op: &str, of: &str, space: &str, order: &str) -> Case {
    let name = format!("{order}.{space}.{op}.{of}");
    let width = bits(of) as usize / 8;
    made(&name, space, (register(of), width), &integers(), |x| result(op, of, x))
}

/// A case of `atom`, and where there is one of `red`, whose name goes on as given.
fn made(
    name: &str,
    space: &str,
    (kind, width): (&str, usize),
    inputs: &[[u64; 3]],
    f: impl Fn([u64; 3]) -> u64,
) -> Case {
    let (compares, exchanges) = (name.contains(".cas."), name.contains(".exch."));
    let red =
        if compares || exchanges { String::new() } else { format!("    red{name} [%rd6], %b;\n") };
    let text = TEMPLATE
        .replace("$declaration", &declaration(space))
        .replace("$place", &place(space))
        .replace("$space", space)
        .replace("$kind", kind)
        .replace("$third", if compares { ", %c" } else { "" })
        .replace("$instruction", &format!("atom{name}"))
        .replace("$red", &red);
    let mut expected = Vec::new();
    for x in inputs {
        let once = f(*x);
        let last = if red.is_empty() { once } else { f([once, x[1], x[2]]) };
        let mask = u64::MAX >> (64 - 8 * width);
        expected.extend((x[0] & mask).to_le_bytes());
        expected.extend(last.to_le_bytes());
    }
    Case {
        name: format!("atom{name}"),
        ptx: text,
        blocks: inputs.len().div_ceil(128) as u32,
        threads: 128,
        n: inputs.len() as u32,
        input: inputs.iter().flatten().flat_map(|x| x.to_le_bytes()).collect(),
        expected,
        width,
        bound: Bound::Bits,
    }
}

/// Additions of floats. Of f32, subnormal numbers are zeros in global memory and numbers in shared.
fn float_cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for space in ["global", "shared"] {
        for (of, kind, width) in [
            ("f32", "f32", 4),
            ("f64", "f64", 8),
            ("noftz.f16x2", "b32", 4),
            ("noftz.bf16x2", "b32", 4),
            ("noftz.f16", "b16", 2),
            ("noftz.bf16", "b16", 2),
        ] {
            let single = of.trim_start_matches("noftz.");
            let float = float(single);
            let mut inputs = operands(single, 2);
            inputs.retain(|x| x[..2].iter().all(|&x| is_ordinary(single, x)));
            let flushes = of == "f32" && space == "global";
            let name = format!(".{space}.add.{of}");
            cases.push(made(&name, space, (kind, width), &inputs, |x| {
                let sum = |x: [u64; 3]| {
                    let [a, b] = [x[0], x[1]].map(|x| if flushes { flush(float, x) } else { x });
                    let sum = add(float, a, b);
                    if flushes { flush(float, sum) } else { sum }
                };
                if single.ends_with("x2") { halves(x, sum) } else { sum(x) }
            }));
        }
    }
    cases
}

/// Neither infinite nor NaN, nor, in f64, where the oracle's error terms underflow.
fn is_ordinary(of: &str, word: u64) -> bool {
    let float = float(of);
    let finite = |x: u64| float.value(x).is_finite();
    match of {
        "f64" => word << 1 == 0 || (600..1500).contains(&(word >> 52 & 0x7ff)),
        _ if of.ends_with("x2") => finite(word & 0xffff) && finite(word >> 16 & 0xffff),
        _ => finite(word),
    }
}

/// The sum rounded to nearest; of two zeros, -0 if both are.
fn add(float: Float, a: u64, b: u64) -> u64 {
    if float == Float::F64 {
        return (f64::from_bits(a) + f64::from_bits(b)).to_bits(); // its ties have no pattern
    }
    let minus = a & b & float.sign_bit() != 0;
    if [a, b].iter().any(|&x| !float.value(x).is_finite()) {
        return a; // a sum that overflowed before stays: the other one is finite
    }
    float.round(Exact::sum(float.value(a), float.value(b)), minus, Mode::Nearest)
}

fn declaration(space: &str) -> String {
    if space == "shared" { "    .shared .align 8 .b8 places[1024];".into() } else { String::new() }
}

/// The address of a thread's place: in shared memory, or where it will write the new value.
fn place(space: &str) -> String {
    if space == "shared" {
        "    mov.u64 %rd6, places;\n    mul.wide.u32 %rd5, %r4, 8;\n    add.u64 %rd6, %rd6, %rd5;"
            .to_owned()
    } else {
        "    add.u64 %rd6, %rd4, 8;".to_owned()
    }
}

/// All threads of four blocks add to two counters: integers, so the sum is the same in any order.
fn sums() -> Case {
    let mut random = Random(0x0bad_cafe_0123_4567);
    let words: Vec<u32> = (0..512).map(|_| random.next() as u32).collect();
    let mut sums = [0u32; 2];
    for (i, word) in words.iter().enumerate() {
        sums[i % 2] = sums[i % 2].wrapping_add(*word);
    }
    Case {
        name: "red.global.add.u32 of all threads".to_owned(),
        ptx: include_str!("templates/sum.ptx").to_owned(),
        blocks: 4,
        threads: 128,
        n: 512,
        input: words.iter().flat_map(|x| x.to_le_bytes()).collect(),
        expected: sums.iter().flat_map(|x| x.to_le_bytes()).collect(),
        width: 8,
        bound: Bound::Bits,
    }
}

pub fn cases() -> Vec<Case> {
    let mut cases = float_cases();
    cases.push(sums());
    for space in ["global", "shared"] {
        for (op, types) in [
            ("add", &["u32", "s32", "u64"][..]),
            ("min", &["u32", "s32", "u64", "s64"]),
            ("max", &["u32", "s32", "u64", "s64"]),
            ("and", &["b32", "b64"]),
            ("or", &["b32", "b64"]),
            ("xor", &["b32", "b64"]),
            ("exch", &["b32", "b64"]),
            ("cas", &["b32", "b64"]),
            ("inc", &["u32"]),
            ("dec", &["u32"]),
        ] {
            for of in types {
                cases.push(case(op, of, space, ""));
            }
        }
        cases.push(case("add", "u32", space, ".relaxed.gpu"));
        cases.push(case("max", "s64", space, ".relaxed.cta"));
    }
    cases.push(case("cas", "b16", "global", ".acq_rel.gpu"));
    cases
}
