//! `cvt` (PTX ISA 9.7.9.21).

use super::case::{Bound, Case};
use super::float::{float, flush, mode, relu, saturate};
use super::inputs::{floats, integers};
use super::oracle::{Exact, Float, Mode};

const INTEGERS: [&str; 8] = ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"];

fn is_integer(of: &str) -> bool {
    INTEGERS.contains(&of)
}

fn bits(of: &str) -> u32 {
    of[1..].parse().unwrap()
}

/// An integer out of the low bits of a word.
fn integer(of: &str, word: u64) -> i128 {
    let unused = 64 - bits(of);
    if of.starts_with('s') {
        i128::from((word << unused) as i64 >> unused)
    } else {
        i128::from(word << unused >> unused)
    }
}

/// The least and the greatest of a type.
fn range(of: &str) -> (i128, i128) {
    let bits = bits(of);
    if of.starts_with('s') {
        (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    } else {
        (0, (1 << bits) - 1)
    }
}

fn integral(x: f64, mode: Mode) -> f64 {
    match mode {
        Mode::Nearest | Mode::Away => x.round_ties_even(),
        Mode::Zero => x.trunc(),
        Mode::Down => x.floor(),
        Mode::Up => x.ceil(),
    }
}

/// The name's parts: modifiers, destination, source.
fn split(name: &str) -> (Vec<&str>, &str, &str) {
    let mut parts: Vec<&str> = name.split('.').skip(1).collect();
    let from = parts.pop().unwrap();
    let to = parts.pop().unwrap();
    (parts, to, from)
}

/// The format of an element of a type that may be packed.
fn element(of: &str) -> Float {
    match of {
        "tf32" => Float::Tf32,
        "e4m3x2" => Float::E4m3,
        "e5m2x2" => Float::E5m2,
        other => float(other),
    }
}

/// One element; the result of a signed type comes with its sign extended.
fn convert(name: &str, word: u64) -> u64 {
    let (modifiers, to, from) = split(name);
    let (has, mode) = (|m| modifiers.contains(&m), mode(&modifiers));
    if is_integer(from) && is_integer(to) {
        let value = integer(from, word);
        let (low, high) = range(to);
        let kept = if has("sat") { value.clamp(low, high) } else { integer(to, value as u64) };
        return kept as u64;
    }
    if is_integer(from) {
        if to == "f64" && mode == Mode::Nearest {
            return (integer(from, word) as f64).to_bits(); // its ties have no pattern in f64
        }
        return element(to).round(Exact::Integer(integer(from, word)), false, mode);
    }
    let format = element(from);
    let word = if has("ftz") && from == "f32" { flush(format, word) } else { word };
    let x = format.value(word & ((format.sign_bit() << 1).wrapping_sub(1)));
    if is_integer(to) {
        return to_integer(x, mode, from, to) as u64;
    }
    let to_format = element(to);
    let negative = word & format.sign_bit() != 0;
    let integral_mode = modifiers.iter().any(|m| m.len() == 3 && m.ends_with('i'));
    let x = if integral_mode { integral(x, mode) } else { x };
    let sign = if negative { to_format.sign_bit() } else { 0 };
    let fp8 = matches!(to_format, Float::E4m3 | Float::E5m2);
    let mut result = if x.is_nan() {
        to_format.nan()
    } else if x.is_infinite() {
        sign | to_format.infinity()
    } else {
        to_format.round(Exact::Number(x), negative, mode)
    };
    let overflows = result & !to_format.sign_bit() == to_format.infinity() && !x.is_nan();
    if (has("satfinite") || fp8) && overflows {
        result -= 1;
    }
    if has("ftz") && to == "f32" {
        result = flush(to_format, result);
    }
    if has("sat") {
        result = saturate(to_format, result);
    }
    if has("relu") {
        result = relu(to_format, result);
    }
    match to {
        "tf32" => result << 13,
        _ => result,
    }
}

/// A float to an integer: clamped; NaN is 0, or the pattern 100...0 when 64 bits take part.
fn to_integer(x: f64, mode: Mode, from: &str, to: &str) -> i128 {
    let (low, high) = range(to);
    if x.is_nan() {
        let wide = from == "f64" || bits(to) == 64;
        return if wide { integer(to, 1 << (bits(to) - 1)) } else { 0 };
    }
    (integral(x, mode) as i128).clamp(low, high)
}

fn case(name: &str) -> Case {
    let (_, to, from) = split(name);
    let inputs = if is_integer(from) { integers() } else { floats(float(from), 2) };
    let nan_is_open = to == "f64" || from == "f64" || from == to || (from, to) == ("bf16", "f32");
    let bound = match to {
        "tf32" => Bound::BitsOrNan(Float::F32),
        _ if nan_is_open && !is_integer(to) => Bound::BitsOrNan(element(to)),
        _ => Bound::Bits,
    };
    Case::of_threads(name, (to, &[from]), &inputs, bound, |x| convert(name, x[0]))
}

/// Integers to integers.
pub fn integer_cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for to in INTEGERS {
        for from in INTEGERS.into_iter().filter(|&from| from != to) {
            cases.push(case(&format!("cvt.{to}.{from}")));
            // PTX has .sat only where it can matter.
            if range(from).0 < range(to).0 || range(from).1 > range(to).1 {
                cases.push(case(&format!("cvt.sat.{to}.{from}")));
            }
        }
    }
    cases
}

/// Integers to floats and back. The assembler takes no 8-bit integers to or from bf16.
pub fn mixed_cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for float in ["f16", "bf16", "f32", "f64"] {
        for integer in INTEGERS {
            if float == "bf16" && bits(integer) == 8 {
                continue;
            }
            for mode in ["rn", "rz", "rm", "rp"] {
                cases.push(case(&format!("cvt.{mode}.{float}.{integer}")));
                cases.push(case(&format!("cvt.{mode}i.{integer}.{float}")));
            }
        }
    }
    cases.extend(["cvt.rzi.ftz.s32.f32", "cvt.rpi.ftz.u64.f32"].map(case));
    cases
}

/// Floats to floats.
pub fn float_cases() -> Vec<Case> {
    let mut names = Vec::new();
    for pair in ["f16.f32", "bf16.f32", "f16.f64", "bf16.f64", "f32.f64", "bf16.f16", "f16.bf16"] {
        names.extend(["rn", "rz", "rm", "rp"].map(|mode| format!("cvt.{mode}.{pair}")));
    }
    for of in ["f32", "f64", "f16", "bf16"] {
        names.extend(["rni", "rzi", "rmi", "rpi"].map(|mode| format!("cvt.{mode}.{of}.{of}")));
    }
    for to in ["f16", "bf16"] {
        for mode in ["rn", "rz"] {
            names.extend(
                ["relu", "satfinite", "relu.satfinite"]
                    .map(|modifier| format!("cvt.{mode}.{modifier}.{to}.f32")),
            );
        }
    }
    for mode in ["rna", "rn", "rz", "rn.relu", "rz.relu"] {
        names.push(format!("cvt.{mode}.tf32.f32"));
    }
    let others = [
        "f32.f16",
        "f64.f16",
        "f32.bf16",
        "f64.bf16",
        "f64.f32",
        "rn.ftz.f16.f32",
        "rn.ftz.f32.f64",
        "rn.sat.f32.f64",
        "ftz.sat.f32.f32",
        "sat.f32.f32",
        "sat.f16.f16",
        "sat.f64.f64",
        "rn.sat.f16.f32",
        "ftz.f64.f32",
        "sat.f32.f16",
        "rni.sat.f32.f32",
        "rni.ftz.f32.f32",
    ];
    names.extend(others.map(|rest| format!("cvt.{rest}")));
    names.iter().map(|name| case(name)).collect()
}

/// To packed pairs and between them.
pub fn packed_cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let inputs = floats(Float::F32, 2);
    for (to, modifiers) in [
        ("f16x2", ["rn", "rz", "rn.relu", "rz.satfinite", "rn.relu.satfinite"]),
        ("bf16x2", ["rn", "rz", "rn.relu", "rz.satfinite", "rn.relu.satfinite"]),
        ("e4m3x2", ["rn.satfinite", "rn.satfinite.relu", "", "", ""]),
        ("e5m2x2", ["rn.satfinite", "rn.satfinite.relu", "", "", ""]),
    ] {
        let shift = if to.starts_with('e') { 8 } else { 16 };
        for modifier in modifiers.into_iter().filter(|modifier| !modifier.is_empty()) {
            let name = format!("cvt.{modifier}.{to}.f32");
            // The first operand goes to the upper half.
            let pair = |x: [u64; 3]| convert(&name, x[0]) << shift | convert(&name, x[1]);
            cases.push(Case::of_threads(&name, (to, &["f32", "f32"]), &inputs, Bound::Bits, pair));
        }
    }
    let halves: Vec<[u64; 3]> =
        floats(Float::F16, 2).into_iter().map(|[a, b, _]| [b << 16 | a, 0, 0]).collect();
    let bytes: Vec<[u64; 3]> = (0..1 << 16).step_by(37).map(|x| [x, 0, 0]).collect();
    for fp8 in ["e4m3x2", "e5m2x2"] {
        for relu in ["", ".relu"] {
            let name = format!("cvt.rn.satfinite{relu}.{fp8}.f16x2");
            let narrow =
                |x: [u64; 3]| convert(&name, x[0] >> 16) << 8 | convert(&name, x[0] & 0xffff);
            cases.push(Case::of_threads(&name, (fp8, &["f16x2"]), &halves, Bound::Bits, narrow));
            let name = format!("cvt.rn{relu}.f16x2.{fp8}");
            let widen = |x: [u64; 3]| convert(&name, x[0] >> 8) << 16 | convert(&name, x[0] & 0xff);
            cases.push(Case::of_threads(&name, ("f16x2", &[fp8]), &bytes, Bound::Bits, widen));
        }
    }
    cases
}
