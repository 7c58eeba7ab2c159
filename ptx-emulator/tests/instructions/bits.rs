//! Logic, shifts and bit fields (PTX ISA 9.7.1, 9.7.8), bit by bit.

use super::case::{Bound, Case};
use super::integer::{bits, low, value, words};

/// A bit of a word.
fn bit(word: u64, place: u32) -> bool {
    place < 64 && word >> place & 1 == 1
}

/// A word out of its bits.
fn of_bits(count: u32, f: impl Fn(u32) -> bool) -> u64 {
    (0..count).map(|place| u64::from(f(place)) << place).sum()
}

fn case(
    name: &str,
    result: &str,
    operands: &[&str],
    inputs: &[[u64; 3]],
    f: impl Fn([u64; 3]) -> u64,
) -> Case {
    Case::of_threads(name, (result, operands), inputs, Bound::Bits, f)
}

/// Shift amounts and field places: small, and beyond every width.
fn amounts(mut inputs: Vec<[u64; 3]>, slot: usize) -> Vec<[u64; 3]> {
    for (i, input) in inputs.iter_mut().enumerate() {
        input[slot] = if i % 8 == 0 { input[slot] } else { i as u64 * 7 % 80 };
    }
    inputs
}

/// A function of two bits.
type Binary = fn(bool, bool) -> bool;

/// Places and lengths of fields: PTX defines those up to 255.
fn fields(inputs: Vec<[u64; 3]>, slot: usize) -> Vec<[u64; 3]> {
    let mut inputs = amounts(inputs, slot);
    inputs.iter_mut().for_each(|input| input[slot] &= 0xff);
    inputs
}

fn logic() -> Vec<Case> {
    let mut cases = Vec::new();
    for of in ["b16", "b32", "b64"] {
        let pair = [of; 2];
        let binary: [(&str, Binary); 3] =
            [("and", |x, y| x && y), ("or", |x, y| x || y), ("xor", |x, y| x != y)];
        for (op, f) in binary {
            cases.push(case(&format!("{op}.{of}"), of, &pair, &words(2), |x| {
                of_bits(bits(of), |place| f(bit(x[0], place), bit(x[1], place)))
            }));
        }
        cases.push(case(&format!("not.{of}"), of, &[of], &words(1), |x| {
            of_bits(bits(of), |place| !bit(x[0], place))
        }));
        cases.push(case(&format!("cnot.{of}"), of, &[of], &words(1), |x| {
            u64::from(value(of, x[0]) == 0)
        }));
    }
    // Every function of three bits would do; these name each bit of the table.
    for table in [0x01, 0x1b, 0x80, 0x96, 0xca, 0xe8, 0xfe] {
        let immediate = table.to_string();
        let types = ["b32", "b32", "b32", &immediate];
        let name = format!("lop3.b32 {table:#x}");
        let mut made = case("lop3.b32", "b32", &types, &words(3), |x| {
            of_bits(32, |place| {
                let [a, b, c] = x.map(|word| u32::from(bit(word, place)));
                table >> (4 * a + 2 * b + c) & 1 == 1
            })
        });
        made.name = name;
        cases.push(made);
    }
    cases
}

fn shifts() -> Vec<Case> {
    let mut cases = Vec::new();
    for width in [16, 32, 64] {
        for (op, kind) in [("shl", 'b'), ("shr", 'b'), ("shr", 'u'), ("shr", 's')] {
            let of = &format!("{kind}{width}")[..];
            let inputs = amounts(words(2), 1);
            cases.push(case(&format!("{op}.{of}"), of, &[of, "u32"], &inputs, |x| {
                let by = (x[1] as u32).min(width);
                let sign = kind == 's' && bit(x[0], width - 1);
                of_bits(width, |place| {
                    if op == "shl" {
                        place >= by && bit(x[0], place - by)
                    } else if place + by < width {
                        bit(x[0], place + by)
                    } else {
                        sign
                    }
                })
            }));
        }
    }
    for direction in ["l", "r"] {
        for mode in ["clamp", "wrap"] {
            let name = format!("shf.{direction}.{mode}.b32");
            let types = ["b32", "b32", "u32"];
            let inputs = amounts(words(3), 2);
            cases.push(case(&name, "b32", &types, &inputs, |x| {
                let by = if mode == "clamp" { (x[2] as u32).min(32) } else { x[2] as u32 % 32 };
                let both = (x[1] & 0xffff_ffff) << 32 | x[0] & 0xffff_ffff;
                let first = if direction == "l" { 32 - by } else { by };
                of_bits(32, |place| bit(both, first + place))
            }));
        }
    }
    cases
}

fn counts() -> Vec<Case> {
    let mut cases = Vec::new();
    for width in [32u32, 64] {
        let of = &format!("b{width}")[..];
        let ones = |word: u64| (0..width).filter(move |&place| bit(word, place));
        cases.push(case(&format!("popc.{of}"), "u32", &[of], &words(1), |x| {
            ones(x[0]).count() as u64
        }));
        cases.push(case(&format!("clz.{of}"), "u32", &[of], &words(1), |x| {
            ones(x[0]).max().map_or(width, |top| width - 1 - top).into()
        }));
        cases.push(case(&format!("brev.{of}"), of, &[of], &words(1), |x| {
            of_bits(width, |place| bit(x[0], width - 1 - place))
        }));
        for kind in ['u', 's'] {
            let of = &format!("{kind}{width}")[..];
            let top = |word: u64| {
                let negative = kind == 's' && bit(word, width - 1);
                (0..width).filter(|&place| bit(word, place) != negative).max()
            };
            cases.push(case(&format!("bfind.{of}"), "u32", &[of], &words(1), |x| {
                top(x[0]).unwrap_or(u32::MAX).into()
            }));
            cases.push(case(&format!("bfind.shiftamt.{of}"), "u32", &[of], &words(1), |x| {
                top(x[0]).map_or(u32::MAX, |top| width - 1 - top).into()
            }));
            let (places, types) = (fields(fields(words(3), 1), 2), [of, "u32", "u32"]);
            cases.push(case(&format!("bfe.{of}"), of, &types, &places, |x| {
                let (from, count) = (x[1] as u32, x[2] as u32);
                let last = (from + count).min(width).max(1) - 1;
                let sign = kind == 's' && count != 0 && bit(x[0], last.min(width - 1));
                of_bits(width, |place| {
                    if place < count && from + place < width {
                        bit(x[0], from + place)
                    } else {
                        sign
                    }
                })
            }));
        }
        for count in [0u32, 1, 7, 31, 40, 64, 200] {
            let immediate = count.to_string();
            let types = [of, of, "u32", &immediate];
            let mut made = case(&format!("bfi.{of}"), of, &types, &fields(words(3), 2), |x| {
                let from = x[2] as u32;
                of_bits(width, |place| {
                    let inside = place >= from && place - from < count;
                    if inside { bit(x[0], place - from) } else { bit(x[1], place) }
                })
            });
            made.name += &format!(" of {count} bits");
            cases.push(made);
        }
    }
    cases
}

fn masks() -> Vec<Case> {
    let mut cases = Vec::new();
    for mode in ["clamp", "wrap"] {
        let inputs = amounts(amounts(words(2), 0), 1);
        let name = format!("bmsk.{mode}.b32");
        cases.push(case(&name, "b32", &["u32", "u32"], &inputs, |x| {
            let limit = |x: u64| if mode == "clamp" { (x as u32).min(32) } else { x as u32 % 32 };
            let (from, count) = (limit(x[0]), limit(x[1]));
            of_bits(32, |place| place >= from && place - from < count)
        }));
        for of in ["u32", "s32"] {
            let name = format!("szext.{mode}.{of}");
            let inputs = amounts(words(2), 1);
            cases.push(case(&name, of, &[of, "u32"], &inputs, |x| {
                let count = if mode == "clamp" { (x[1] as u32).min(32) } else { x[1] as u32 % 32 };
                let sign = of == "s32" && count > 0 && bit(x[0], count - 1);
                of_bits(32, |place| if place < count { bit(x[0], place) } else { sign })
            }));
        }
    }
    cases
}

fn permutations() -> Vec<Case> {
    let types = ["b32"; 3];
    let byte = |x: [u64; 3], i: u64| {
        let both = (x[1] & 0xffff_ffff) << 32 | x[0] & 0xffff_ffff;
        both >> (8 * (i % 8)) & 0xff
    };
    let mut cases = vec![case("prmt.b32", "b32", &types, &words(3), |x| {
        (0..4)
            .map(|i| {
                let selector = x[2] >> (4 * i) & 0xf;
                let byte = byte(x, selector);
                let sign = if byte >> 7 == 1 { 0xff } else { 0 };
                (if selector & 8 != 0 { sign } else { byte }) << (8 * i)
            })
            .sum()
    })];
    // The bytes that each mode names, by the selector's two low bits, the lowest first.
    let modes: [(&str, [[u64; 4]; 4]); 6] = [
        ("f4e", [[0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5], [3, 4, 5, 6]]),
        ("b4e", [[0, 7, 6, 5], [1, 0, 7, 6], [2, 1, 0, 7], [3, 2, 1, 0]]),
        ("rc8", [[0; 4], [1; 4], [2; 4], [3; 4]]),
        ("ecl", [[0, 1, 2, 3], [1, 1, 2, 3], [2, 2, 2, 3], [3, 3, 3, 3]]),
        ("ecr", [[0, 0, 0, 0], [0, 1, 1, 1], [0, 1, 2, 2], [0, 1, 2, 3]]),
        ("rc16", [[0, 1, 0, 1], [2, 3, 2, 3], [0, 1, 0, 1], [2, 3, 2, 3]]),
    ];
    for (mode, table) in modes {
        cases.push(case(&format!("prmt.b32.{mode}"), "b32", &types, &words(3), |x| {
            let chosen = table[(x[2] & 3) as usize];
            (0..4).map(|i| byte(x, chosen[i]) << (8 * i)).sum()
        }));
    }
    cases
}

pub fn cases() -> Vec<Case> {
    let mut cases = [logic(), shifts(), counts(), masks(), permutations()].concat();
    // `fns`: the n-th set bit from a base, upward, downward or the base itself.
    let inputs: Vec<[u64; 3]> =
        words(3).iter().map(|x| [x[0], x[1] % 32, low("s32", i128::from(x[2] % 9) - 4)]).collect();
    cases.push(case("fns.b32", "b32", &["b32", "b32", "s32"], &inputs, |x| {
        let (base, n) = (x[1] as u32, x[2] as i32);
        let set = |place: &u32| bit(x[0], *place);
        let found = match n {
            0 => Some(base).filter(set),
            1.. => (base..32).filter(set).nth(n as usize - 1),
            _ => (0..=base).rev().filter(set).nth(n.unsigned_abs() as usize - 1),
        };
        found.unwrap_or(u32::MAX).into()
    }));
    cases
}
