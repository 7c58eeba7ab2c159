//! Files and names.

use crate::Target;
use gemmite::{
    DType, Device, DeviceChoice, DeviceInfo, Gemm, KernelChoice, Layout, Shape, bf16, with_element,
};
use gemmite_bench::record::Record;
use gemmite_bench::report;
use gemmite_bench::suite::{Epilogue, Ops, Suite};
use gemmite_cli::npy::{self, NpyFile};
use std::path::Path;
use std::sync::LazyLock;

/// Matrices in .npy files, from files, whose length is known, and from pipes.
pub const NPY: Target = Target {
    name: "npy",
    what: "matrices in .npy files",
    seeds: npy_seeds,
    words: &[
        "\u{93}NUMPY",
        "{",
        "}",
        "(",
        ")",
        ",",
        ":",
        "'",
        "\"",
        "'descr'",
        "'fortran_order'",
        "'shape'",
        "True",
        "False",
        "<f4",
        "|O",
        ">f8",
        "|V2",
        "<V1",
        "|u1",
        "L",
        "\u{e9}",
        "[('x', '<f4')]",
    ],
    read: read_npy,
};

fn npy_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for dtype in DType::ALL {
        with_element!(dtype, T => {
            let matrix = gemmite::random::integers::<T>(Shape::new(3, 5), 1, -9..=9);
            let mut file = Vec::new();
            npy::write(&mut file, &matrix.expect("it is small")).expect("memory takes it");
            seeds.push(file);
        });
    }
    let text = "{'shape': (2L, 3L), 'descr': \"<f8\", 'fortran_order': True}";
    let mut file = b"\x93NUMPY\x02\x00".to_vec();
    file.extend((text.len() as u32).to_le_bytes());
    file.extend(text.bytes());
    file.extend([7; 48]);
    seeds.push(file);
    seeds
}

fn read_npy(input: &[u8]) -> bool {
    // What the user says of the file: often nothing.
    let stated = usize::from(*input.last().unwrap_or(&0)) % (3 * DType::ALL.len());
    let stated = DType::ALL.get(stated).copied();
    let len = Some(input.len() as u64);
    let read = |len| NpyFile::from_reader(input, len, Path::new("fuzzed.npy"), stated);
    let (file, pipe) = (read(len), read(None));
    if let Ok(pipe) = pipe {
        with_element!(pipe.dtype(), T => {
            // A pipe says at its end what a file says at once.
            let loaded = pipe.read::<T>();
            assert_eq!(loaded.is_ok(), file.is_ok());
        });
    }
    let Ok(file) = file else { return false };
    let (shape, dtype) = (file.shape(), file.dtype());
    with_element!(dtype, T => {
        let loaded = file.read::<T>().expect("its length was checked");
        let view = loaded.view().expect("its layout was checked");
        assert_eq!(view.shape(), shape);
        let matrix = loaded.into_row_major().expect("it is small");
        let mut again = Vec::new();
        npy::write(&mut again, &matrix).expect("memory takes it");
        let len = Some(again.len() as u64);
        let again = NpyFile::from_reader(&again[..], len, Path::new("again.npy"), Some(dtype));
        assert_eq!(again.expect("what is written is read").shape(), shape);
    });
    true
}

/// Kernels, devices, dtypes, transposes and epilogues by their names.
pub const NAMES: Target = Target {
    name: "names",
    what: "kernels, devices, dtypes, transposes and epilogues by name",
    seeds: || {
        let kernels = gemm_spec::variants().map(str::to_owned);
        let parts = gemm_spec::variants().map(|name| format!("{name}/4"));
        let more =
            "auto best cpu cuda:1 emulator emulator:8.0 f8e4m3 bf16 nt alpha=2 beta=1 bias gelu";
        let more = more.split(' ').map(str::to_owned);
        kernels.chain(parts).chain(more).map(String::into_bytes).collect()
    },
    words: &[
        "/",
        ":",
        ".",
        "=",
        "auto",
        "emulator:",
        "cuda:",
        "alpha=",
        "beta=",
        "nan",
        "inf",
        "-",
    ],
    read: read_name,
};

static HOPPER: LazyLock<DeviceInfo> =
    LazyLock::new(|| Device::emulator((9, 0)).expect("there is such a GPU").info().clone());

fn read_name(input: &[u8]) -> bool {
    let text = String::from_utf8_lossy(input);
    let of = |rows, cols| Layout::row_major(Shape::new(rows, cols));
    let gemm = Gemm::<bf16>::new().kernel(KernelChoice::from(&*text));
    let plan = gemm.plan(&HOPPER, of(100, 1000), of(1000, 64));
    if let Ok(plan) = &plan {
        assert!(plan.kernel.is_some() && plan.parts >= 1 && !plan.to_string().is_empty());
    }
    let device = text.parse::<DeviceChoice>();
    if let Ok(device) = device {
        assert_eq!(device.to_string().parse(), Ok(device));
    }
    let ops = text.parse::<Ops>();
    if let Ok(ops) = &ops {
        assert_eq!(ops.to_string(), text);
    }
    let others = [text.parse::<DType>().is_ok(), text.parse::<Epilogue>().is_ok()];
    plan.is_ok() || device.is_ok() || ops.is_ok() || others.contains(&true)
}

/// Records of benchmarks, and the page that is made of each.
pub const RECORD: Target = Target {
    name: "record",
    what: "records of benchmarks, and their pages",
    seeds: || {
        let record = include_str!("../../../bench/tests/data/record.csv");
        // Its facts, its head, and some lines at a time.
        let lines: Vec<&str> = record.lines().collect();
        let head = lines.iter().position(|line| !line.starts_with('#')).unwrap_or(0) + 1;
        let part = |part: &[&str]| ([&lines[..head], part].concat().join("\n") + "\n").into_bytes();
        lines[head..].chunks(12).map(part).collect()
    },
    words: &[
        "\n", ",", "\"", "# ", ": ", "timed", "failed", "ours", "peer", "burst", "NaN", "inf",
        "-0", "1e308", "1e-320", "bf16", "nn", "cublas",
    ],
    read: |input| {
        let Ok(text) = std::str::from_utf8(input) else { return false };
        let Ok(record) = Record::from_csv(text) else { return false };
        assert!(record.rows().len() <= record.lines.len());
        for line in &record.lines {
            let _ = (line.spread(), line.problem());
        }
        if let Ok(text) = record.to_csv() {
            let again = Record::from_csv(&text).expect("what is written is read");
            assert_eq!(again.lines.len(), record.lines.len());
        }
        let _ = (report::html(&record), report::svgs(&record));
        true
    },
};

/// Suites of benchmarks.
pub const SUITE: Target = Target {
    name: "suite",
    what: "suites of benchmarks",
    seeds: || {
        let text = |name: &str| -> &[u8] {
            match name {
                "odd" => include_bytes!("../../../bench/suites/odd.csv"),
                "exact" => include_bytes!("../../../bench/suites/exact.csv"),
                "hopper" => include_bytes!("../../../bench/suites/hopper.csv"),
                _ => include_bytes!("../../../bench/suites/cpu.csv"),
            }
        };
        ["odd", "exact", "hopper", "cpu"].map(|name| text(name).to_vec()).to_vec()
    },
    words: &["\n", ",", "\"", "#", " ", "m", "tf32", "f32", "nn", "tt", "all", "bias", "alpha="],
    read: |input| {
        let Ok(text) = std::str::from_utf8(input) else { return false };
        let Ok(suite) = Suite::parse("fuzzed", text) else { return false };
        for row in &suite.rows {
            let _ = (row.lens(), row.layouts(), row.batch_strides());
            assert!(row.flop() > 0.0 && row.bytes() > 0.0);
        }
        !suite.rows.is_empty()
    },
};
