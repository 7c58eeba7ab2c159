//! Bad input to the command, and what is answered: each case's exit status and its message stand in
//! bad_input.txt, to the letter. `GEMMITE_ACCEPT=1 cargo test -p gemmite-cli --test bad_input`
//! writes that file anew, for a reader of the difference to judge.
#![cfg(target_os = "linux")]

mod common;

use common::Folder;
use std::process::{Command, Stdio};

/// Headers, each of a file of 16 bytes of data.
const HEADERS: [(&str, &str); 20] = [
    ("negative", "{'descr': '<f4', 'fortran_order': False, 'shape': (-2, -2), }"),
    ("fraction", "{'descr': '<f4', 'fortran_order': False, 'shape': (2.0, 2), }"),
    ("hexadecimal", "{'descr': '<f4', 'fortran_order': False, 'shape': (0x2, 2), }"),
    (
        "beyond_u64",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (18446744073709551616, 0), }",
    ),
    ("u64", "{'descr': '<f4', 'fortran_order': False, 'shape': (18446744073709551615, 1), }"),
    ("overflow", "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967297), }"),
    ("no_tuple", "{'descr': '<f4', 'fortran_order': False, 'shape': [2, 2], }"),
    ("no_comma", "{'descr': '<f4', 'fortran_order': False, 'shape': (2 2), }"),
    ("order_none", "{'descr': '<f4', 'fortran_order': None, 'shape': (2, 2), }"),
    ("order_lower_case", "{'descr': '<f4', 'fortran_order': false, 'shape': (2, 2), }"),
    ("order_text", "{'descr': '<f4', 'fortran_order': 'False', 'shape': (2, 2), }"),
    ("twice", "{'descr': '<f4', 'descr': '<f8', 'fortran_order': False, 'shape': (2, 2), }"),
    ("another_key", "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), 'x': 1, }"),
    ("object", "{'descr': '|O', 'fortran_order': False, 'shape': (2, 1), }"),
    ("complex", "{'descr': '<c8', 'fortran_order': False, 'shape': (2, 1), }"),
    ("text", "{'descr': '<U1', 'fortran_order': False, 'shape': (2, 2), }"),
    ("no_dtype", "{'descr': '', 'fortran_order': False, 'shape': (2, 2), }"),
    ("called", "{'descr': __import__('os').system('ls'), 'fortran_order': False, 'shape': (2, 2)}"),
    ("zeros", "\0\0\0\0"),
    ("nothing", ""),
];

/// Answers, line by line.
#[derive(Default)]
struct Answers(String);

impl Answers {
    /// Adds what the command answers, which has to be an error and to leave no file.
    fn add(&mut self, folder: &Folder, line: &str) {
        let before = folder.names();
        let found = folder.gemmite(&line.split_whitespace().collect::<Vec<_>>());
        assert_eq!(folder.names(), before, "{line} left a file");
        assert!(found.stdout.is_empty() || line.contains("--device"), "{line}: {}", found.stdout);
        let code = found.code.unwrap_or_default();
        assert!(code == 1 || code == 2, "{line}: {found:?}");
        self.0 += &format!("$ gemmite {line}: {code}\n");
        for line in found.stderr.lines().filter(|line| !line.trim().is_empty()) {
            // The list of kernels grows.
            let line = line.split_once("k01_naive").map_or(line, |(before, _)| before).trim_end();
            self.0 += &format!("    {line}\n");
        }
    }
}

fn files(folder: &Folder) {
    folder.f32("good.npy", 2, 2, &[1.0, 2.0, 3.0, 4.0]);
    for (name, header) in HEADERS {
        folder.npy(&format!("{name}.npy"), header, &[0; 16]);
    }
    let start = |bytes: &[u8]| [&b"\x93NUMPY"[..], bytes].concat();
    let long = [&b"\x02\x00\x00\x00\x01\x00"[..], &[b'{'; 65_536]].concat();
    for (name, bytes) in [
        ("magic", start(b"")),
        ("version", start(b"\x01\x00")),
        ("length", start(b"\x03\x00\xff")),
        ("length_lies", start(b"\x01\x00\x30\x00{'descr': '<f4', 'fortran_order': False, 'shape'")),
        ("braces", start(&long)),
        ("not_utf8", start(b"\x03\x00\x03\x00\x00\x00{\xff}")),
    ] {
        std::fs::write(folder.file(&format!("{name}.npy")), bytes).unwrap();
    }
    std::fs::write(folder.file("suite.csv"), "dtype,layout\nf32,nn\n").unwrap();
    std::fs::write(folder.file("begun.csv"), "# device: X\n").unwrap();
    std::fs::write(folder.file("bytes.csv"), b"# device: \xff\n\0\0\0").unwrap();
}

#[test]
fn every_answer_is_the_one_that_is_written_down() {
    let folder = Folder::new();
    files(&folder);
    let mut answers = Answers::default();
    for name in folder.names().iter().filter(|name| name.ends_with(".npy") && *name != "good.npy") {
        answers.add(&folder, &format!("matmul {name} good.npy -o c.npy"));
    }
    for line in [
        "matmul good.npy good.npy -o c.npy --alpha one",
        "matmul good.npy good.npy -o c.npy --beta 2",
        "matmul good.npy good.npy -o c.npy --device cpu --alpha -1e39",
        "matmul good.npy good.npy -o c.npy --device emulator --tuning suite.csv",
        "matmul good.npy good.npy -o c.npy --device cpu --tf32 --bf16x6",
        "matmul good.npy good.npy -o c.npy --device emulator:9.9",
        "matmul good.npy good.npy -o c.npy --device cuda:18446744073709551616",
        "matmul good.npy good.npy -o c.npy --device emulator:8.0 --kernel k02_tiled_16/",
        "matmul good.npy good.npy -o c.npy --device emulator:8.0 --kernel k09_async_copy/2",
        "matmul good.npy good.npy -o c.npy --kernel warp_group_scaled_128x128",
        "bench 2 2 2 --kernel warp_group_scaled_128x128",
        "explain 2 2 2 --device emulator --kernel warp_group_grouped_128x256",
        "matmul good.npy good.npy -o /proc/c.npy --device cpu",
        "matmul good.npy good.npy -o /dev/full --force --device cpu",
        "matmul good.npy good.npy -o good.npy/c.npy",
        "generate --shape -1x2 -o c.npy",
        "generate --shape 18446744073709551616x1 -o c.npy",
        "generate --shape 2x2 --seed -1 -o c.npy",
        "generate --shape 2x2 --dtype f31 -o c.npy",
        "explain 18446744073709551615 18446744073709551615 1 --device emulator",
        "explain 18446744073709551616 1 1 --device emulator",
        "explain 9223372036854775807 1 1 --device emulator",
        "explain 2 2 2 --device emulator --kernel nonsense/99999999999",
        "explain 2 2 2 --device emulator --dtype bf16 --tf32",
        "explain 2 2 2 --device emulator --dtype bf16 --bf16x6",
        "explain 2 2 2 --device emulator --tf32 --bf16x6",
        "explain 2 2 2 --device emulator --batch 0",
        "explain 2 2 2 --device emulator --tuning suite.csv --batch 2",
        "explain 2 2 2 --device emulator --tuning suite.csv --batch-invariant",
        "tune 2 2 2 --dtype bf16 --tf32",
        "bench 18446744073709551615 2 2 --device cpu",
        "bench 2 2 2 --device cpu --batch 0",
        "bench 2 2 2 --device cpu --dtype bf16 --tf32",
        "bench 2 2 2 --device cpu --beta 1e39",
        "bench 2 2 2 --device cpu --against none,gemm",
        "bench 2 2 2 --tuning suite.csv --batch 2",
        "report suite.csv",
        "report bytes.csv",
        "report good.npy",
        "report begun.csv -o .",
        "report begun.csv --records .",
    ] {
        answers.add(&folder, line);
    }
    // Of extents that numbers just hold there is a plan, at once.
    let plan = "explain 90000000000000000 100 1 --device emulator --kernel k02_tiled_16";
    folder.gemmite(&plan.split(' ').collect::<Vec<_>>()).ok();
    // Any number is a factor, whatever it begins with.
    for factor in ["-1e-3", "-inf"] {
        let line = format!("bench 2 2 2 --device cpu --against none --rounds 1 --alpha {factor}");
        folder.gemmite(&line.split(' ').collect::<Vec<_>>()).ok();
        let line =
            format!("matmul good.npy good.npy -o c{factor}.npy --device cpu --alpha {factor}");
        folder.gemmite(&line.split(' ').collect::<Vec<_>>()).ok();
    }
    if std::env::var_os("GEMMITE_ACCEPT").is_some_and(|value| value == "1") {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/bad_input.txt");
        std::fs::write(path, &answers.0).unwrap();
    } else {
        let expected = include_str!("bad_input.txt");
        let mut lines = answers.0.lines().zip(expected.lines());
        let differs = lines.find(|(found, expected)| found != expected);
        assert!(answers.0 == expected, "the first that differs, found and expected: {differs:#?}");
    }
}

/// Runs a line of the shell in the folder.
fn shell(folder: &Folder, line: &str) -> common::Ran {
    let mut shell = Command::new("sh");
    shell.current_dir(folder.path()).env("GEMMITE", common::program()).args(["-c", line]);
    common::Ran::from(shell.stdin(Stdio::null()).output().unwrap())
}

#[test]
fn pipes_are_read_as_far_as_they_go() {
    let folder = Folder::new();
    folder.f32("good.npy", 2, 2, &[1.0, 2.0, 3.0, 4.0]);
    let product = "matmul /dev/stdin good.npy -o c.npy --device cpu";
    shell(&folder, &format!("cat good.npy | \"$GEMMITE\" {product}")).ok();
    assert_eq!(folder.f32_data("c.npy"), [7.0, 10.0, 15.0, 22.0]);
    // A header that promises an EiB costs no memory.
    let huge = "{'descr': '<f4', 'fortran_order': False, 'shape': (288230376151711744, 1), }";
    folder.npy("huge.npy", huge, &[0; 64]);
    folder.f32("one.npy", 1, 1, &[1.0]);
    let line = "ulimit -v 4000000; cat huge.npy | \
                \"$GEMMITE\" matmul /dev/stdin one.npy -o d.npy --device cpu";
    shell(&folder, line).error(&["/dev/stdin", "truncated", "1152921504606846976 bytes"]);
    assert_eq!(folder.names(), ["c.npy", "good.npy", "huge.npy", "one.npy"]);
}

#[test]
fn a_full_terminal_is_an_error_and_files_are_made() {
    let folder = Folder::new();
    folder.f32("good.npy", 2, 2, &[1.0, 2.0, 3.0, 4.0]);
    for line in [
        "info",
        "demo --size 16 --device cpu",
        "explain 16 16 16 --device emulator",
        "matmul good.npy good.npy -o c.npy --device cpu",
    ] {
        let ran = shell(&folder, &format!("\"$GEMMITE\" {line} >/dev/full"));
        ran.error(&["cannot write to standard output: No space left on device"]);
    }
    assert_eq!(folder.names(), ["c.npy", "good.npy"]);
    assert_eq!(folder.f32_data("c.npy"), [7.0, 10.0, 15.0, 22.0]);
}
