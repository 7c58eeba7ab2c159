//! The approximate functions (PTX ISA 9.7.3, 9.7.4), against `f64` within the bounds that PTX
//! states.

use super::case::{Bound, Case};
use super::float::{Parts, float, flush, operand_count, operands};
use super::oracle::Float;

/// The function's true value, to the precision of `f64`.
fn value(opcode: &str, x: f64, y: f64) -> f64 {
    match opcode {
        "div" => x / y,
        "rcp" => 1.0 / x,
        "sqrt" => x.sqrt(),
        "rsqrt" => 1.0 / x.sqrt(),
        "sin" => x.sin(),
        "cos" => x.cos(),
        "lg2" => x.log2(),
        "ex2" => x.exp2(),
        _ => x.tanh(),
    }
}

/// PTX's bound of a function: relative and absolute error.
fn bound(parts: &Parts) -> (f64, f64) {
    let power = |e: f64| e.exp2();
    // A result that is subnormal may be off by a unit of it.
    let tiny = power(-149.0);
    match (parts.opcode, parts.types) {
        ("div", _) => (power(-22.0), 2.0 * tiny),
        ("rcp", "f32") => (power(-23.0), tiny),
        ("sqrt", _) => (power(-23.0), tiny),
        ("rsqrt", "f32") => (power(-22.9), 0.0),
        ("sin" | "cos", _) => (0.0, power(-20.5)),
        ("lg2", _) => (power(-22.0), power(-22.0)),
        ("ex2", "f32") => (power(-22.0), tiny),
        ("tanh", "f32") => (power(-11.0), tiny),
        ("ex2", "f16" | "f16x2") => (power(-9.9), power(-24.0)),
        ("ex2", _) => (power(-7.0), tiny),
        ("tanh", "f16" | "f16x2") => (0.0, power(-10.987)),
        ("tanh", _) => (0.0, power(-8.0)),
        // The f64 approximations keep 20 fraction bits.
        _ => (power(-19.0), 0.0),
    }
}

/// What PTX defines for an operand: the true value with `.ftz` and the division's special range.
fn expected(parts: &Parts, float: Float, x: [u64; 3]) -> f64 {
    let ftz = parts.has("ftz");
    let [a, b] = [x[0], x[1]].map(|x| float.value(if ftz { flush(float, x) } else { x }));
    if parts.opcode == "div" && parts.has("approx") && b.is_finite() && b.abs() > 126f64.exp2() {
        return if a.is_finite() { 0.0f64.copysign(a * b) } else { f64::NAN };
    }
    value(parts.opcode, a, b)
}

/// Whether an operand is one for which PTX states a bound, and the result is not near where it
/// overflows or is flushed.
fn is_bounded(parts: &Parts, float: Float, x: [u64; 3]) -> bool {
    let result = expected(parts, float, x);
    let (smallest, largest) = match float {
        Float::F16 => (6.2e-5, 6.5e4),
        Float::F64 => (2.3e-308, 1.7e308),
        _ => (1.2e-38, 3.3e38),
    };
    let ordinary = result == 0.0
        || !result.is_finite()
        || result.abs() < largest && (result.abs() > smallest || !parts.has("ftz"));
    let overflows = result.is_finite() && result.abs() >= largest;
    let angle = float.value(x[0]).abs();
    let circular = matches!(parts.opcode, "sin" | "cos");
    ordinary && !overflows && !(circular && angle.is_finite() && angle > std::f64::consts::TAU)
}

pub fn cases() -> Vec<Case> {
    let mut names: Vec<String> = Vec::new();
    for op in ["div.approx", "div.full", "rcp.approx", "sqrt.approx", "rsqrt.approx"] {
        names.extend([format!("{op}.f32"), format!("{op}.ftz.f32")]);
    }
    for op in ["sin", "cos", "lg2", "ex2"] {
        names.extend([format!("{op}.approx.f32"), format!("{op}.approx.ftz.f32")]);
    }
    names.extend(
        [
            "tanh.approx.f32",
            "rcp.approx.ftz.f64",
            "rsqrt.approx.f64",
            "rsqrt.approx.ftz.f64",
            "ex2.approx.f16",
            "tanh.approx.f16",
            "ex2.approx.ftz.bf16",
            "tanh.approx.bf16",
        ]
        .map(str::to_owned),
    );
    names.iter().map(|name| case(name)).collect()
}

fn case(name: &str) -> Case {
    let parts = Parts::of(name);
    let float = float(parts.types);
    let count = if parts.opcode == "div" { operand_count("div") } else { 1 };
    let mut inputs = operands(parts.types, count);
    inputs.retain(|&x| is_bounded(&parts, float, x));
    let (relative, absolute) = bound(&parts);
    let within = Bound::Within { float, relative, absolute };
    let types = [parts.types; 2];
    Case::of_threads(name, (parts.types, &types[..count]), &inputs, within, |x| {
        expected(&parts, float, x).to_bits()
    })
}
