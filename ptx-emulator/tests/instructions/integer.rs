//! Integer arithmetic and comparisons (PTX ISA 9.7.1, 9.7.6), computed in 128 bits.

use super::case::{Bound, Case};
use super::float::Parts;
use super::inputs::Random;

/// The bits of a type: 32 of `s32`.
pub fn bits(of: &str) -> u32 {
    of[1..].parse().unwrap()
}

/// The value of a word's low bits in a type.
pub fn value(of: &str, word: u64) -> i128 {
    let unused = 64 - bits(of);
    if of.starts_with('s') {
        i128::from((word << unused) as i64 >> unused)
    } else {
        i128::from(word << unused >> unused)
    }
}

/// The low bits of a value.
pub fn low(of: &str, value: i128) -> u64 {
    value as u64 & (!0 >> (64 - bits(of)))
}

/// Words whose values in every type are small, extreme or any.
pub fn words(count: usize) -> Vec<[u64; 3]> {
    let mut random = Random(0x5851_f42d_4c95_7f2d);
    let special = |random: &mut Random| {
        let bit = 1u64 << random.below(64);
        match random.below(8) {
            0 => random.below(9).wrapping_sub(4),
            1 => bit,
            2 => bit.wrapping_sub(1),
            3 => !bit,
            4 => 0x8000_8000_8000_8000,
            5 => 0x7fff_7fff_7fff_7fff,
            6 => 0x8000_0000_8000_0000,
            _ => random.next(),
        }
    };
    let word = |random: &mut Random, i: usize| if i < count { special(random) } else { 0 };
    (0..1500).map(|_| [0, 1, 2].map(|i| word(&mut random, i))).collect()
}

/// A result cut to its type.
fn clamp(of: &str, value: i128) -> i128 {
    let bits = bits(of);
    value.clamp(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
}

/// The 24 low bits of a word.
fn value24(of: &str, word: u64) -> i128 {
    let word = (word << 40) as i64;
    if of == "s32" { i128::from(word >> 40) } else { i128::from(word as u64 >> 40) }
}

/// The part of a product that `.lo`, `.hi` or `.wide` names.
fn part(parts: &Parts, a: i128, b: i128) -> i128 {
    let bits = bits(parts.types);
    if parts.types == "u64" {
        let product = a as u128 * b as u128;
        return if parts.has("hi") { (product >> 64) as i128 } else { product as u64 as i128 };
    }
    let product = a * b;
    // The middle 32 bits of 48, or the upper 32.
    let of_24 = parts.opcode.ends_with("24");
    match () {
        () if parts.has("hi") && of_24 => product >> 16,
        () if parts.has("hi") => product >> bits,
        () => product,
    }
}

fn arithmetic(parts: &Parts, words: [u64; 3]) -> u64 {
    let of = parts.types;
    let [a, b, c] = words.map(|word| value(of, word));
    let wide = format!("s{}", 2 * bits(of));
    let value = match parts.opcode {
        "add" => a + b,
        "sub" => a - b,
        "mul" if parts.has("wide") => return low(&wide, a * b),
        "mul" => part(parts, a, b),
        "mad" if parts.has("wide") => {
            let c = if of.starts_with('s') { words[2] as i64 as i128 } else { words[2] as i128 };
            return low(&wide, a * b + c);
        }
        // The product's part is cut to the type before the sum.
        "mad" => self::value(of, low(of, part(parts, a, b))) + c,
        "mul24" => part(parts, value24(of, words[0]), value24(of, words[1])),
        "mad24" => {
            let product = part(parts, value24(of, words[0]), value24(of, words[1]));
            self::value(of, low(of, product)) + c
        }
        "div" => a / b,
        "rem" => a % b,
        "abs" => a.abs(),
        "neg" => -a,
        "min" => a.min(b),
        "max" => a.max(b),
        "sad" => c + (a - b).abs(),
        _ => panic!("{}", parts.opcode),
    };
    if parts.has("sat") {
        return low(of, clamp(of, value));
    }
    low(of, if parts.has("relu") { value.max(0) } else { value })
}

fn case(name: &str) -> Case {
    let parts = Parts::of(name);
    let of = parts.types;
    let mut operands = match parts.opcode {
        "abs" | "neg" => vec![of],
        "mad" | "mad24" | "sad" => vec![of; 3],
        _ => vec![of; 2],
    };
    let wide = if parts.has("wide") { if bits(of) == 16 { "b32" } else { "b64" } } else { of };
    if parts.has("wide") && parts.opcode == "mad" {
        operands[2] = wide;
    }
    let mut inputs = words(operands.len());
    if matches!(parts.opcode, "div" | "rem") {
        // PTX leaves these open.
        let open = |[a, b, _]: [u64; 3]| {
            let (a, b) = (value(of, a), value(of, b));
            b == 0 || b == -1 && low(of, -a) == low(of, a)
        };
        inputs.retain(|&words| !open(words));
    }
    Case::of_threads(name, (wide, &operands), &inputs, Bound::Bits, |x| arithmetic(&parts, x))
}

const TYPES: [&str; 6] = ["u16", "s16", "u32", "s32", "u64", "s64"];

pub fn arithmetic_cases() -> Vec<Case> {
    let mut names = Vec::new();
    for of in TYPES {
        for op in ["add", "sub", "mul.lo", "mul.hi", "mad.lo", "mad.hi", "div", "rem", "min", "max"]
        {
            names.push(format!("{op}.{of}"));
        }
        names.push(format!("sad.{of}"));
        if of.starts_with('s') {
            names.extend([format!("abs.{of}"), format!("neg.{of}")]);
        }
        if bits(of) < 64 {
            names.extend([format!("mul.wide.{of}"), format!("mad.wide.{of}")]);
        }
        if bits(of) == 32 {
            names.extend(
                ["mul24.lo", "mul24.hi", "mad24.lo", "mad24.hi"].map(|op| format!("{op}.{of}")),
            );
        }
    }
    let others = ["add.sat", "sub.sat", "mad.hi.sat", "mad24.hi.sat", "min.relu", "max.relu"];
    names.extend(others.map(|op| format!("{op}.s32")));
    let mut cases: Vec<Case> = names.iter().map(|name| case(name)).collect();
    cases.extend(packed_cases());
    cases.extend(dot_cases());
    cases
}

/// `add`, `min`, `max` of two halves.
fn packed_cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (of, half) in [("u16x2", "u16"), ("s16x2", "s16")] {
        for op in ["add", "min", "max", "min.relu", "max.relu"] {
            if op.ends_with("relu") && of == "u16x2" {
                continue;
            }
            let name = format!("{op}.{of}");
            let single = format!("{op}.{half}");
            cases.push(Case::of_threads(&name, (of, &[of; 2]), &words(2), Bound::Bits, |x| {
                super::float::halves(x, |x| arithmetic(&Parts::of(&single), x))
            }));
        }
    }
    cases
}

/// `dp4a` and `dp2a`.
fn dot_cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for a in ["u32", "s32"] {
        for b in ["u32", "s32"] {
            for (op, wide, shift) in [("dp4a", 8, 0), ("dp2a.lo", 16, 0), ("dp2a.hi", 16, 16)] {
                let name = format!("{op}.{a}.{b}");
                let small = |of: &str, bits: u32| format!("{}{bits}", &of[..1]);
                let result = if a == "s32" || b == "s32" { "s32" } else { "u32" };
                let types = [a, b, result];
                cases.push(Case::of_threads(
                    &name,
                    (result, &types),
                    &words(3),
                    Bound::Bits,
                    |x| {
                        let products = (0..32 / wide).map(|i| {
                            let x_part = value(&small(a, wide), x[0] >> (wide * i));
                            x_part * value(&small(b, 8), x[1] >> (8 * i + shift))
                        });
                        low("u32", value("s32", x[2]) + products.sum::<i128>())
                    },
                ));
            }
        }
    }
    cases
}

/// `setp` and `set` of integers, `slct`.
pub fn predicate_cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for of in TYPES {
        for comparison in ["eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs"] {
            if comparison.contains(['o', 's']) && comparison.len() == 2 && of.starts_with('s')
                || matches!(comparison, "hi") && of.starts_with('s')
            {
                continue;
            }
            let name = format!("setp.{comparison}.{of}");
            let holds = |x: [u64; 3]| {
                let (a, b) = (value(of, x[0]), value(of, x[1]));
                match comparison {
                    "eq" => a == b,
                    "ne" => a != b,
                    "lt" | "lo" => a < b,
                    "le" | "ls" => a <= b,
                    "gt" | "hi" => a > b,
                    _ => a >= b,
                }
            };
            let mut inputs = words(2);
            inputs.extend(words(1).iter().map(|&[a, _, _]| [a, a, 0]));
            cases.push(Case::of_threads(&name, ("pred", &[of; 2]), &inputs, Bound::Bits, |x| {
                holds(x).into()
            }));
            let name = format!("set.{comparison}.u32.{of}");
            cases.push(Case::of_threads(&name, ("u32", &[of; 2]), &inputs, Bound::Bits, |x| {
                if holds(x) { 0xffff_ffff } else { 0 }
            }));
            let name = format!("set.{comparison}.f32.{of}");
            cases.push(Case::of_threads(&name, ("b32", &[of; 2]), &inputs, Bound::Bits, |x| {
                if holds(x) { 0x3f80_0000 } else { 0 }
            }));
        }
    }
    for of in ["b16", "b32", "b64", "u32", "s64"] {
        let name = format!("slct.{of}.s32");
        let types = [of, of, "s32"];
        cases.push(Case::of_threads(&name, (of, &types), &words(3), Bound::Bits, |x| {
            low(of, i128::from(if (x[2] as i32) >= 0 { x[0] } else { x[1] }))
        }));
        let name = format!("slct.{of}.f32");
        let types = [of, of, "f32"];
        cases.push(Case::of_threads(&name, (of, &types), &words(3), Bound::Bits, |x| {
            // NaN selects the second, -0 the first.
            let first = f32::from_bits(x[2] as u32) >= 0.0;
            low(of, i128::from(if first { x[0] } else { x[1] }))
        }));
    }
    cases
}
