//! Which instructions need a newer `.target` than sm_70 (PTX ISA, the "Target ISA Notes" of each).
//! Those of `mma` are in the table of its shapes.

use crate::error::Error;
use crate::program::{Builder, Needs};
use crate::syntax::ast::{self, Operand};

const TURING: Needs = Needs::From(7, 5);
const AMPERE: Needs = Needs::From(8, 0);
const ADA: Needs = Needs::From(8, 9);
const HOPPER: Needs = Needs::From(9, 0);
const BLACKWELL: Needs = Needs::From(10, 0);

const SUMS: &[&str] = &["add", "sub", "mul"];
const BFLOATS: &[&str] = &["bf16", "bf16x2"];
const HALVES: &[&str] = &["f16", "f16x2", "bf16", "bf16x2"];
const PAIRS: &[&str] = &["u16x2", "s16x2"];
const BRAIN_CONVERSIONS: &[&str] = &[
    "bf16.u8", "bf16.s8", "bf16.u16", "bf16.s16", "bf16.u32", "bf16.s32", "bf16.u64", "bf16.s64",
    "bf16.f16", "bf16.f64",
];

/// What is needed, by these opcodes, with one of these modifiers, or with all of several that
/// points join. An empty list is any.
const TABLE: &[(Needs, &[&str], &[&str])] = &[
    (TURING, &["ldmatrix", "movmatrix", "tanh"], &[]),
    (TURING, &["ex2"], HALVES),
    (TURING, &["ld"], &["L2::64B", "L2::128B", "L2::256B"]),
    (AMPERE, &["cp", "mbarrier", "redux", "createpolicy", "discard", "applypriority"], &[]),
    (AMPERE, &[], &["L2::cache_hint"]),
    (AMPERE, &["prefetch"], &["L2::evict_last", "L2::evict_normal"]),
    (AMPERE, &["fma"], &["relu", "bf16", "bf16x2"]),
    (AMPERE, &["neg", "abs"], BFLOATS),
    (AMPERE, &["min", "max"], HALVES),
    (AMPERE, &["min", "max"], &["NaN"]),
    (AMPERE, &["cvt"], &["relu", "f16x2", "bf16", "bf16x2", "tf32"]),
    (Needs::From(8, 6), &["min", "max"], &["xorsign"]),
    (ADA, &["cvt"], &["e4m3x2", "e5m2x2"]),
    (HOPPER, &[], &["cluster", "shared::cluster", "bulk"]),
    (HOPPER, &["mapa", "getctarank", "elect", "griddepcontrol", "stmatrix"], &[]),
    (HOPPER, &["mbarrier"], &["try_wait", "expect_tx", "complete_tx", "relaxed"]),
    (HOPPER, &["fence"], &["async", "mbarrier_init", "acquire", "release"]),
    (HOPPER, &["prefetch"], &["tensormap"]),
    (HOPPER, SUMS, BFLOATS),
    (HOPPER, &["add", "min", "max"], PAIRS),
    (HOPPER, &["min", "max"], &["relu"]),
    (HOPPER, &["ex2", "tanh", "set", "setp", "atom", "red"], BFLOATS),
    (HOPPER, &["cvt"], BRAIN_CONVERSIONS),
    (HOPPER, &["cvt"], &["tf32.rn", "tf32.rz"]),
    (Needs::Specific(9, 0), &["setmaxnreg"], &[]),
    (Needs::Hopper, &["wgmma"], &[]),
    (BLACKWELL, &["add", "sub", "mul", "fma"], &["f32x2"]),
    (BLACKWELL, &["ld", "st"], &["v8", "L2::evict_last", "L2::evict_normal", "L2::evict_first"]),
    (BLACKWELL, &["ld", "st"], &["v4.b64", "v4.u64", "v4.s64", "v4.f64"]),
    (BLACKWELL, &["cvt"], &["tf32.satfinite.rn", "tf32.satfinite.rz"]),
    (Needs::Specific(10, 0), &["cvt"], &["e2m3x2", "e3m2x2", "bf16x2.e4m3x2", "bf16x2.e5m2x2"]),
];

/// Fails if the module's `.target` has no such instruction.
pub(super) fn check(b: &Builder<'_, '_>, i: &ast::Instruction) -> Result<(), Error> {
    let has = |word: &str| i.modifiers.iter().any(|modifier| &**modifier == word);
    for (needs, opcodes, words) in TABLE {
        let is_it = opcodes.is_empty() || opcodes.contains(&&*i.opcode);
        if is_it && (words.is_empty() || words.iter().any(|words| words.split('.').all(has))) {
            b.need(*needs)?;
        }
    }
    let arrives = &*i.opcode == "mbarrier" && (has("arrive") || has("arrive_drop"));
    let counts = !matches!(i.operands.last(), Some(Operand::Address(_)));
    if arrives && counts && !has("noComplete") { b.need(HOPPER) } else { Ok(()) }
}
