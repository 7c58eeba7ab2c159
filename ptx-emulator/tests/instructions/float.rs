//! `add`, `sub`, `mul`, `fma`, `mad`, `div`, `rcp`, `sqrt` of every float type, and `min`, `max`,
//! `abs`, `neg`, `copysign`, `testp`, `setp` (PTX ISA 9.7.3, 9.7.4, 9.7.6).

use super::case::{Bound, Case};
use super::inputs::floats;
use super::oracle::{Exact, Float, Mode};

/// An instruction's parts: `fma.rn.ftz.f32` is `fma`, [`rn`, `ftz`] and `f32`.
pub struct Parts<'a> {
    pub opcode: &'a str,
    pub modifiers: Vec<&'a str>,
    pub types: &'a str,
}

impl<'a> Parts<'a> {
    pub fn of(instruction: &'a str) -> Parts<'a> {
        let mut modifiers: Vec<&str> = instruction.split('.').collect();
        let types = modifiers.pop().unwrap();
        Parts { opcode: modifiers.remove(0), modifiers, types }
    }

    pub fn has(&self, modifier: &str) -> bool {
        self.modifiers.contains(&modifier)
    }

    pub fn mode(&self) -> Mode {
        mode(&self.modifiers)
    }
}

/// The rounding among modifiers; to nearest without one.
pub fn mode(modifiers: &[&str]) -> Mode {
    let named = |name: &&&str| matches!(**name, "rz" | "rzi" | "rm" | "rmi" | "rp" | "rpi" | "rna");
    match modifiers.iter().find(named).map_or("rn", |name| &name[..2]) {
        "rz" => Mode::Zero,
        "rm" => Mode::Down,
        "rp" => Mode::Up,
        _ if modifiers.contains(&"rna") => Mode::Away,
        _ => Mode::Nearest,
    }
}

pub fn float(name: &str) -> Float {
    match name {
        "f16" | "f16x2" => Float::F16,
        "bf16" | "bf16x2" => Float::Bf16,
        "f64" => Float::F64,
        _ => Float::F32,
    }
}

/// `.ftz`: zero of the same sign for a subnormal number.
pub fn flush(float: Float, bits: u64) -> u64 {
    if float.is_subnormal(bits) { bits & float.sign_bit() } else { bits }
}

/// `.sat`: to [0, 1], NaN to +0.
pub fn saturate(float: Float, bits: u64) -> u64 {
    let x = float.value(bits);
    if x >= 1.0 {
        float.round(Exact::Number(1.0), false, Mode::Nearest)
    } else if x > 0.0 {
        bits
    } else {
        0
    }
}

/// `.relu`: +0 for what is negative, the NaN for NaN.
pub fn relu(float: Float, bits: u64) -> u64 {
    if float.value(bits).is_nan() {
        float.nan()
    } else if bits & float.sign_bit() != 0 {
        0
    } else {
        bits
    }
}

/// The exact result of an operation on finite numbers, and whether it is -0 if it is zero.
fn exact(opcode: &str, mode: Mode, [a, b, c]: [f64; 3]) -> (Exact, bool) {
    let minus = |x: f64| x.is_sign_negative();
    let of_sum = |x: bool, y: bool| if x == y { x } else { mode == Mode::Down };
    let integer = |x: f64| x.fract() == 0.0 && x.abs() < 1e15;
    match opcode {
        "add" => (Exact::sum(a, b), of_sum(minus(a), minus(b))),
        "sub" => (Exact::sum(a, -b), of_sum(minus(a), !minus(b))),
        "mul" => (Exact::product(a, b), minus(a) != minus(b)),
        "div" | "sqrt" if a == 0.0 => {
            (Exact::Number(0.0), minus(a) != (opcode == "div" && minus(b)))
        }
        "div" => (Exact::Quotient(a, b), minus(a) != minus(b)),
        "rcp" => (Exact::Quotient(1.0, a), minus(a)),
        "sqrt" => (Exact::Root(a), minus(a)),
        _ => {
            let zero = if a * b == 0.0 && c == 0.0 {
                of_sum(minus(a) != minus(b), minus(c))
            } else {
                mode == Mode::Down
            };
            let exact = if integer(a) && integer(b) && integer(c) {
                Exact::Integer(a as i128 * b as i128 + c as i128)
            } else {
                Exact::sum(a * b, c) // the product of two numbers of 24 bits is exact
            };
            (exact, zero)
        }
    }
}

/// The operation in f64, for infinities and NaNs.
fn native(opcode: &str, [a, b, c]: [f64; 3]) -> f64 {
    match opcode {
        "add" => a + b,
        "sub" => a - b,
        "mul" => a * b,
        "div" => a / b,
        "rcp" => 1.0 / a,
        "sqrt" => a.sqrt(),
        _ => a.mul_add(b, c),
    }
}

/// An arithmetic instruction on one element.
fn arithmetic(parts: &Parts, float: Float, operands: [u64; 3]) -> u64 {
    let count = operand_count(parts.opcode);
    let operands = operands.map(|x| if parts.has("ftz") { flush(float, x) } else { x });
    let values = operands.map(|x| float.value(x));
    let general = native(parts.opcode, values);
    let mode = parts.mode();
    let divides_by_zero = match parts.opcode {
        "div" => values[1] == 0.0,
        "rcp" => values[0] == 0.0,
        "sqrt" => values[0] < 0.0,
        _ => false,
    };
    let result = if general.is_nan() {
        float.nan()
    } else if divides_by_zero || values[..count].iter().any(|x| !x.is_finite()) {
        float.round(Exact::Number(0.0), general.is_sign_negative(), mode)
            | if general.is_infinite() { float.infinity() } else { 0 }
    } else if float == Float::F64 && mode == Mode::Nearest {
        general.to_bits()
    } else {
        let (exact, zero_is_negative) = exact(parts.opcode, mode, values);
        // What counts for `.ftz` is the exact result: one that is less than the least normal number
        // is subnormal when it is rounded toward zero.
        let toward_zero = float.round(exact, zero_is_negative, Mode::Zero);
        let flushed = parts.has("ftz") && flush(float, toward_zero) != toward_zero;
        let toward_zero = flush(float, toward_zero);
        if flushed { toward_zero } else { float.round(exact, zero_is_negative, mode) }
    };
    let result = if parts.has("ftz") { flush(float, result) } else { result };
    if parts.has("sat") {
        saturate(float, result)
    } else if parts.has("relu") {
        relu(float, result)
    } else {
        result
    }
}

pub fn operand_count(opcode: &str) -> usize {
    match opcode {
        "fma" | "mad" => 3,
        "rcp" | "sqrt" | "abs" | "neg" | "testp" => 1,
        _ => 2,
    }
}

/// Applies a function of halves to both halves of packed operands.
pub fn halves(operands: [u64; 3], f: impl Fn([u64; 3]) -> u64) -> u64 {
    f(operands.map(|x| x & 0xffff)) | f(operands.map(|x| x >> 16 & 0xffff)) << 16
}

/// Operands of an instruction; packed ones are made of two single ones.
pub fn operands(of: &str, count: usize) -> Vec<[u64; 3]> {
    let mut inputs = floats(float(of), count);
    if of.ends_with("x2") {
        let high = inputs.clone();
        for (i, input) in inputs.iter_mut().enumerate() {
            let other = high[(7 * i + 3) % high.len()];
            for (x, y) in input.iter_mut().zip(other) {
                *x |= y << 16;
            }
        }
    }
    inputs
}

fn case(
    instruction: &str,
    result: &str,
    bound: Bound,
    f: impl Fn(&Parts, [u64; 3]) -> u64,
) -> Case {
    let parts = Parts::of(instruction);
    let count = operand_count(parts.opcode);
    let types = [parts.types; 3];
    let mut inputs = operands(parts.types, count);
    // The oracle's error terms would underflow or overflow in f64.
    if parts.types == "f64"
        && matches!(parts.opcode, "add" | "sub" | "mul" | "div" | "rcp" | "sqrt")
    {
        let wild = |x: u64| {
            let field = x >> 52 & 0x7ff;
            field != 0x7ff && x << 1 != 0 && !(600..1500).contains(&field)
        };
        inputs.retain(|input| !input[..count].iter().any(|&x| wild(x)));
    }
    if parts.types == "f64" && count == 3 {
        inputs = integers_as_f64();
    }
    Case::of_threads(instruction, (result, &types[..count]), &inputs, bound, |x| {
        if parts.types.ends_with("x2") { halves(x, |x| f(&parts, x)) } else { f(&parts, x) }
    })
}

/// Integers of up to 49 bits, the third so that sums cancel, and special values.
fn integers_as_f64() -> Vec<[u64; 3]> {
    let mut random = super::inputs::Random(7);
    let mut inputs: Vec<[f64; 3]> = (0..500)
        .map(|_| {
            let [a, b] = [(); 2].map(|()| (random.next() as i64 >> random.below(40) >> 15) as f64);
            let c = -(a * b) % 1e14;
            [a, b, if random.below(2) == 0 { c } else { random.below(1 << 40) as f64 }]
        })
        .collect();
    for a in [0.0, -0.0, 1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
        for b in [0.0, -0.0, -3.0, f64::INFINITY] {
            inputs.extend([0.0, -0.0, 3.0, f64::INFINITY, f64::NAN].map(|c| [a, b, c]));
        }
    }
    inputs.into_iter().map(|x| x.map(f64::to_bits)).collect()
}

/// Every arithmetic instruction.
pub fn arithmetic_cases() -> Vec<Case> {
    let mut names = Vec::new();
    let modes = ["rn", "rz", "rm", "rp"];
    for op in ["add", "sub", "mul"] {
        names.extend(
            ["f32", "rz.ftz.f32", "ftz.f32", "sat.f32", "rn.ftz.sat.f32"]
                .map(|rest| format!("{op}.{rest}")),
        );
        names.push(format!("{op}.f64"));
        for mode in modes {
            names.extend([format!("{op}.{mode}.f32"), format!("{op}.{mode}.f64")]);
        }
        for of in ["f16", "f16x2"] {
            names.extend(["", ".rn", ".ftz", ".sat", ".ftz.sat"].map(|m| format!("{op}{m}.{of}")));
        }
        for of in ["bf16", "bf16x2"] {
            names.extend(["", ".rn"].map(|m| format!("{op}{m}.{of}")));
        }
    }
    for op in ["fma", "mad", "div", "rcp", "sqrt"] {
        for mode in modes {
            names.extend(["f32", "ftz.f32", "f64"].map(|rest| format!("{op}.{mode}.{rest}")));
        }
    }
    for rest in ["rn.sat.f32", "rm.ftz.sat.f32"] {
        names.extend([format!("fma.{rest}"), format!("mad.{rest}")]);
    }
    for of in ["f16", "f16x2"] {
        names.extend(["", ".ftz", ".sat", ".relu", ".ftz.relu"].map(|m| format!("fma.rn{m}.{of}")));
    }
    for of in ["bf16", "bf16x2"] {
        names.extend(["", ".relu"].map(|m| format!("fma.rn{m}.{of}")));
    }
    let bound = |name: &str| {
        if name.ends_with("f64") { Bound::BitsOrNan(Float::F64) } else { Bound::Bits }
    };
    names
        .iter()
        .map(|name| {
            let of = Parts::of(name).types;
            case(name, of, bound(name), |parts, x| arithmetic(parts, float(of), x))
        })
        .collect()
}

/// `min` and `max`: the number wins over NaN, or with `.NaN` NaN wins; -0 is below +0.
fn extreme(parts: &Parts, float: Float, [a, b, _]: [u64; 3]) -> u64 {
    let [mut a, mut b] = [a, b].map(|x| if parts.has("ftz") { flush(float, x) } else { x });
    let nan = |x: u64| float.value(x).is_nan();
    let sign = (a ^ b) & float.sign_bit();
    if parts.has("xorsign") {
        [a, b] = [a, b].map(|x| x & (float.sign_bit() - 1));
    }
    let winner = match (nan(a), nan(b)) {
        (true, true) => return float.nan(),
        (true, false) | (false, true) if parts.has("NaN") => return float.nan(),
        (true, false) => b,
        (false, true) => a,
        _ => {
            let key = |x: u64| (float.value(x), x & float.sign_bit() == 0);
            let a_is_less = key(a).partial_cmp(&key(b)).unwrap().is_lt();
            if a_is_less == (parts.opcode == "min") { a } else { b }
        }
    };
    if parts.has("xorsign") { winner | sign } else { winner }
}

/// `min`, `max`, `abs`, `neg`, `copysign`.
pub fn selection_cases() -> Vec<Case> {
    let mut names = Vec::new();
    for op in ["min", "max"] {
        names.push(format!("{op}.f64"));
        let half = ["", ".ftz", ".NaN", ".xorsign.abs", ".ftz.NaN.xorsign.abs"];
        let brain = ["", ".NaN", ".xorsign.abs", ".NaN.xorsign.abs"];
        names.extend(half.map(|m| format!("{op}{m}.f32")));
        names.extend(half.map(|m| format!("{op}{m}.f16")));
        names.extend(half.map(|m| format!("{op}{m}.f16x2")));
        names.extend(brain.map(|m| format!("{op}{m}.bf16")));
        names.extend(brain.map(|m| format!("{op}{m}.bf16x2")));
    }
    for op in ["abs", "neg"] {
        names.extend(
            ["f32", "ftz.f32", "f64", "f16", "ftz.f16", "f16x2", "ftz.f16x2", "bf16", "bf16x2"]
                .map(|rest| format!("{op}.{rest}")),
        );
    }
    names.extend(["copysign.f32", "copysign.f64"].map(str::to_owned));
    let mut cases = Vec::new();
    for name in &names {
        let of = Parts::of(name).types;
        let exactly = matches!(Parts::of(name).opcode, "min" | "max") && of != "f64";
        let packed = of.ends_with("x2");
        let bound = if exactly || packed { Bound::Bits } else { Bound::BitsOrNan(float(of)) };
        let mut made = case(name, of, bound, |parts, x| {
            let (float, sign) = (float(of), float(of).sign_bit());
            let flushed = if parts.has("ftz") { flush(float, x[0]) } else { x[0] };
            match parts.opcode {
                "abs" => flushed & !sign,
                "neg" => flushed ^ sign,
                "copysign" => x[0] & sign | x[1] & !sign,
                _ => extreme(parts, float, x),
            }
        });
        if packed && !exactly {
            // PTX does not say which NaN.
            made = without_nan(made, float(of));
        }
        cases.push(made);
    }
    cases
}

/// Drops inputs of which a half is NaN.
fn without_nan(mut case: Case, float: Float) -> Case {
    let nan = |bytes: &[u8]| {
        bytes[..4].chunks(2).any(|half| {
            let half = u16::from_le_bytes(half.try_into().unwrap());
            float.value(half.into()).is_nan()
        })
    };
    let (mut input, mut expected) = (Vec::new(), Vec::new());
    for (slots, word) in case.input.chunks(24).zip(case.expected.chunks(8)) {
        if !slots.chunks(8).any(nan) {
            input.extend_from_slice(slots);
            expected.extend_from_slice(word);
        }
    }
    case.n = (expected.len() / 8) as u32;
    case.blocks = case.n.div_ceil(case.threads);
    (case.input, case.expected) = (input, expected);
    case
}

/// `testp` and `setp`.
pub fn predicate_cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for of in ["f32", "f64"] {
        for property in ["finite", "infinite", "number", "notanumber", "normal", "subnormal"] {
            let name = format!("testp.{property}.{of}");
            cases.push(case(&name, "pred", Bound::Bits, |_, x| {
                let (value, subnormal) = (float(of).value(x[0]), float(of).is_subnormal(x[0]));
                u64::from(match property {
                    "finite" => value.is_finite(),
                    "infinite" => value.is_infinite(),
                    "number" => !value.is_nan(),
                    "notanumber" => value.is_nan(),
                    "normal" => value.is_finite() && !subnormal,
                    _ => subnormal,
                })
            }));
        }
    }
    let comparisons = [
        "eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan",
    ];
    for of in ["f32", "ftz.f32", "f64", "f16", "bf16"] {
        for comparison in comparisons {
            let name = format!("setp.{comparison}.{of}");
            cases.push(case(&name, "pred", Bound::Bits, |parts, x| {
                let float = float(parts.types);
                let value = |x| float.value(if parts.has("ftz") { flush(float, x) } else { x });
                u64::from(compare(comparison, value(x[0]), value(x[1])))
            }));
        }
    }
    cases
}

/// The comparisons of floats; those with `u` hold if an operand is NaN.
fn compare(comparison: &str, a: f64, b: f64) -> bool {
    let unordered = a.is_nan() || b.is_nan();
    match comparison {
        "num" => !unordered,
        "nan" => unordered,
        _ if unordered => comparison.ends_with('u'),
        _ => match &comparison[..2] {
            "eq" => a == b,
            "ne" => a != b,
            "lt" => a < b,
            "le" => a <= b,
            "gt" => a > b,
            _ => a >= b,
        },
    }
}
