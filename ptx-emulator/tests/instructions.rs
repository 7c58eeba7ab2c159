//! One small module of PTX per variant of an instruction, run and compared.
//!
//! A case is a module with one kernel of parameters (in, out, n), its input, and the output
//! expected: computed here in another way than the emulator's, or stated by hand. It says its
//! bound: bit for bit, bit for bit but for which NaN, or for approximate functions within the error
//! that PTX states. A GPU is to meet the same bounds, which the test `ptx_conformance` of
//! gemmite-tests checks. The output buffer holds zeros before a launch.

#[path = "instructions/cases.rs"]
mod cases;

use std::fmt::Write as _;

use cases::{Case, ENTRY};
use ptx_emulator::{Arch, Argument, Emulator, Launch, Module, Options};

/// Runs a case for an architecture.
fn output(case: &Case, arch: Arch) -> Result<Vec<u8>, String> {
    let module = Module::parse(&case.ptx).map_err(|error| error.to_string())?;
    let mut gpu = Emulator::new(Options { arch, ..Options::default() });
    let text = |error: ptx_emulator::Error| error.to_string();
    let input = gpu.allocate(case.input.len() as u64).map_err(text)?;
    let output = gpu.allocate(case.output_bytes() as u64).map_err(text)?;
    gpu.write(input, &case.input).map_err(text)?;
    gpu.write(output, &vec![0; case.output_bytes()]).map_err(text)?;
    let arguments = [Argument::from(input), Argument::from(output), Argument::from(case.n)];
    let launch = Launch::new(case.blocks, case.threads);
    gpu.launch(&module, ENTRY, &launch, &arguments).map_err(|report| report.to_string())?;
    let mut bytes = vec![0; case.output_bytes()];
    gpu.read(output, &mut bytes).map_err(text)?;
    Ok(bytes)
}

/// Runs a family's cases and fails with the list of those that differ.
fn check(family: &str) {
    let cases = cases::family(family);
    let mut failures = String::new();
    for case in &cases {
        let difference = match output(case, Arch::new(9, 0)) {
            Ok(output) => case.difference(&output),
            Err(error) => Some(format!("{}: {error}", case.name)),
        };
        if let Some(difference) = difference {
            writeln!(failures, "{difference}").unwrap();
        }
    }
    let count = failures.lines().count();
    assert!(failures.is_empty(), "{count} of {} differ:\n{failures}", cases.len());
}

#[test]
fn arithmetic() {
    check("arithmetic");
}

#[test]
fn selection() {
    check("selection");
}

#[test]
fn predicates() {
    check("predicates");
}

#[test]
fn approximations() {
    check("approximations");
}

#[test]
fn integer_conversions() {
    check("integer conversions");
}

#[test]
fn mixed_conversions() {
    check("mixed conversions");
}

#[test]
fn float_conversions() {
    check("float conversions");
}

#[test]
fn packed_conversions() {
    check("packed conversions");
}

#[test]
fn integers() {
    check("integers");
}

#[test]
fn bits() {
    check("bits");
}

#[test]
fn integer_predicates() {
    check("integer predicates");
}

#[test]
fn memory() {
    check("memory");
}

#[test]
fn atomics() {
    check("atomics");
}

#[test]
fn warps() {
    check("warps");
}

#[test]
fn matrix_moves() {
    check("matrix moves");
}

#[test]
fn mma() {
    check("mma");
}

#[test]
fn wgmma() {
    check("wgmma");
}
