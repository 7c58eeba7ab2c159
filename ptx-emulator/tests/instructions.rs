//! One small module of PTX per variant of an instruction, run and compared.
//!
//! A case is a module with one kernel of parameters (in, out, n), its input, and the output
//! expected: computed here in another way than the emulator's, or stated by hand. It says its
//! bound: bit for bit, bit for bit but for which NaN, or for approximate functions within the error
//! that PTX states. A GPU is to meet the same bounds:
//! `cargo test -p ptx-emulator --test instructions -- --ignored export` writes every case to the
//! folder that the variable `PTX_CASES` names, as `file.ptx`, `file.in` and `file.out`, with a table
//! `cases.csv` of launches and bounds. The output buffer holds zeros before a launch.

#[path = "instructions/approximate.rs"]
mod approximate;
#[path = "instructions/case.rs"]
mod case;
#[path = "instructions/convert.rs"]
mod convert;
#[path = "instructions/float.rs"]
mod float;
#[path = "instructions/inputs.rs"]
mod inputs;
#[path = "instructions/matrix.rs"]
mod matrix;
#[path = "instructions/oracle.rs"]
mod oracle;
#[path = "instructions/wgmma.rs"]
mod wgmma;

use std::fmt::Write as _;

use case::{Case, ENTRY};
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

/// Runs cases and fails with the list of those that differ.
fn check(cases: &[Case]) {
    let mut failures = String::new();
    for case in cases {
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
    check(&float::arithmetic_cases());
}

#[test]
fn selection() {
    check(&float::selection_cases());
}

#[test]
fn predicates() {
    check(&float::predicate_cases());
}

#[test]
fn approximations() {
    check(&approximate::cases());
}

#[test]
fn integer_conversions() {
    check(&convert::integer_cases());
}

#[test]
fn mixed_conversions() {
    check(&convert::mixed_cases());
}

#[test]
fn float_conversions() {
    check(&convert::float_cases());
}

#[test]
fn packed_conversions() {
    check(&convert::packed_cases());
}

#[test]
#[ignore = "the machine does not execute these yet"]
fn matrix_moves() {
    check(&matrix::matrix_cases());
}

#[test]
#[ignore = "the machine does not execute these yet"]
fn mma() {
    check(&matrix::mma_cases());
}

#[test]
#[ignore = "the machine does not execute these yet"]
fn wgmma() {
    check(&wgmma::cases());
}

/// All cases.
fn all() -> Vec<Case> {
    [
        float::arithmetic_cases(),
        float::selection_cases(),
        float::predicate_cases(),
        approximate::cases(),
        convert::integer_cases(),
        convert::mixed_cases(),
        convert::float_cases(),
        convert::packed_cases(),
        matrix::matrix_cases(),
        matrix::mma_cases(),
        wgmma::cases(),
    ]
    .concat()
}

#[test]
#[ignore = "writes files for a run on a GPU"]
fn export() {
    let folder = std::env::var_os("PTX_CASES").expect("PTX_CASES names a folder");
    let folder = std::path::Path::new(&folder);
    std::fs::create_dir_all(folder).unwrap();
    let mut table = "name,file,blocks,threads,n,width,bound\n".to_owned();
    for (i, case) in all().iter().enumerate() {
        let file = format!("{i:04}_{}", case.name.replace(['.', ':', ' '], "_"));
        let Case { name, blocks, threads, n, width, bound, .. } = case;
        writeln!(table, "{name},{file},{blocks},{threads},{n},{width},\"{bound:?}\"").unwrap();
        std::fs::write(folder.join(&file).with_extension("ptx"), &case.ptx).unwrap();
        std::fs::write(folder.join(&file).with_extension("in"), &case.input).unwrap();
        std::fs::write(folder.join(&file).with_extension("out"), &case.expected).unwrap();
    }
    std::fs::write(folder.join("cases.csv"), table).unwrap();
}
