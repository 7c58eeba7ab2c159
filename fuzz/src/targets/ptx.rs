//! Texts of PTX, for the emulator.

use crate::Target;
use gemm_spec::{DType, Kernel};
use gemmite::emulator::ptx_emulator::Module;
use gemmite::emulator::{self, Options};
use gemmite::{Device, Gemm, Matrix, Shape};
use std::sync::{Arc, LazyLock};

/// The emulator's parser, and the lowering of every kernel of a text.
pub const PARSE: Target = Target {
    name: "ptx",
    what: "texts of PTX: the parser, and every instruction",
    seeds: || {
        let names = ["k01_naive_i32", "repack_f16", "k02_tiled_8_f16", "k03_thread_column_f64"];
        let mut seeds: Vec<_> = names.map(text).into();
        let more = include_str!("../../../ptx-emulator/src/syntax/tests/instructions.txt");
        let lines: Vec<&str> = more.lines().collect();
        seeds.extend(lines.chunks(8).map(|lines| of_instructions(&lines.join("\n"))));
        seeds
    },
    words: &WORDS,
    read: |input| {
        let text = String::from_utf8_lossy(input);
        let Ok(module) = Module::parse(&text) else { return false };
        let kernels: Vec<String> = module.kernels().map(str::to_owned).collect();
        let checked: Vec<bool> =
            kernels.iter().map(|kernel| module.check(kernel).is_ok()).collect();
        checked.contains(&true)
    },
};

/// A kernel with changes, run by the library.
pub const RUN: Target = Target {
    name: "run",
    what: "kernels with changes in their PTX, run by the library on an emulated GPU",
    seeds: || vec![text(KERNEL)],
    words: &WORDS,
    read: run,
};

const KERNEL: &str = "k01_naive_f32";

const WORDS: [&str; 48] = [
    ".version 8.0\n",
    ".target sm_90\n",
    ".visible",
    ".entry",
    ".func",
    ".param",
    ".reg",
    ".global",
    ".shared",
    ".const",
    ".local",
    ".align",
    ".b8",
    ".u32",
    ".f32",
    ".pred",
    ".v4",
    ".maxntid",
    ".reqnctapercluster",
    ".minnctapersm",
    "<4294967295>",
    "[1099511627775]",
    "mov.u32",
    "call",
    "ret;",
    "bra",
    "exit;",
    "bar.sync 0;",
    "ld.global.f32",
    "st.shared.u32",
    "atom.global.add.u32",
    "%r1",
    "%p1",
    "%rd1",
    "@%p1",
    "@!%p1",
    "{",
    "}",
    "[",
    "]",
    ",",
    ";",
    ":",
    "/*",
    "//",
    "\"",
    "-",
    "0f7F800000",
];

/// A module with a kernel of these instructions.
fn of_instructions(text: &str) -> Vec<u8> {
    let text = format!(
        ".version 8.6\n.target sm_90a\n.address_size 64\n\
         .global .b32 x;\n.visible .entry f(.param .u64 a) {{\n\
         .reg .b32 %r<9>;\n.reg .b64 %rd<9>;\n.reg .f32 %f<9>;\n.reg .f64 %fd<9>;\n\
         .reg .b16 %rs<9>;\n.reg .pred p, q, %p<9>;\n.shared .align 16 .b8 s[256];\n\
         {text}\nret;\n}}\n"
    );
    text.into_bytes()
}

/// A kernel's module without the empty lines that stand for other kernels.
fn text(name: &str) -> Vec<u8> {
    let kernel =
        gemm_spec::entries().find(|kernel| kernel.name == name).expect("it is in the table");
    let text = emulator::ptx_of(kernel);
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with("//"));
    lines.flat_map(|line| [line, "\n"]).collect::<String>().into_bytes()
}

fn run(input: &[u8]) -> bool {
    static A: LazyLock<Matrix<f32>> = LazyLock::new(|| {
        Matrix::from_fn(Shape::new(3, 3), |i, j| (3 * i + j) as f32).expect("it is small")
    });
    let name = Kernel::find("k01_naive", DType::F32).map_or("", |kernel| kernel.name);
    let text = String::from_utf8_lossy(input);
    // Of a text without the kernel the library's would run.
    if !text.contains(&format!(".entry {name}(")) {
        return false;
    }
    let options = Options {
        ptx: Some(Arc::from(text)),
        threads: 1,
        step_limit: 20_000,
        ..Options::default()
    };
    let gpu = Device::emulator_with(&options).expect("there is such a GPU");
    let done = Gemm::new().kernel("k01_naive").run(&gpu, &*A, &*A);
    if let Err(error) = &done {
        assert!(error.is_emulator_report() || error.is_jit(), "{error}");
    }
    done.is_ok()
}
