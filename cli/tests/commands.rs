//! `gemmite generate`, `gemmite info`, `gemmite demo`, and the help.

mod common;

use common::{Folder, has_gpu};
use gemmite::{Shape, random};

#[test]
fn generate_writes_what_the_library_makes() {
    let folder = Folder::new();
    let arguments = ["generate", "--shape", "5x7", "--dtype", "f32", "--seed", "42", "-o"];
    let run = |name: &str, more: &[&str]| {
        let stdout = folder.gemmite(&[&arguments, &[name][..], more].concat()).ok();
        assert!(stdout.starts_with("5x7 f32"), "{stdout}");
        folder.f32_data(name)
    };
    let shape = Shape::new(5, 7);
    assert_eq!(run("a.npy", &[]), random::normal::<f32>(shape, 42).unwrap().as_slice());
    let uniform = run("b.npy", &["--distribution", "uniform"]);
    assert_eq!(uniform, random::uniform::<f32>(shape, 42).unwrap().as_slice());
    let integers = run("c.npy", &["--distribution", "integers"]);
    assert!(integers.iter().all(|x| x.abs() <= 9.0 && x.fract() == 0.0));
}

#[test]
fn generate_rejects_what_is_no_shape() {
    let folder = Folder::new();
    let shape = |shape: &str| folder.gemmite(&["generate", "--shape", shape, "-o", "a.npy"]);
    shape("512").usage(&["ROWSxCOLS", "512x256"]);
    shape("9999999999x9999999999").usage(&["larger than any memory"]);
    folder.gemmite(&["generate", "--shape", "1x1"]).usage(&["--output"]);
    // An EiB: a size that a shape may have and no machine does.
    shape("536870912x536870912").error(&["out of memory"]);
    assert!(folder.names().is_empty());
}

#[test]
fn explain_shows_the_plan_and_what_it_was_chosen_among() {
    let folder = Folder::new();
    let explain = |more: &[&str]| {
        let product = ["explain", "128", "128", "65536", "--dtype", "bf16", "--layout", "nt"];
        folder.gemmite(&[&product, more].concat())
    };
    let text = explain(&["--device", "emulator"]).ok();
    assert!(text.contains("product     nt bf16: 128x128, sums of 65536"), "{text}");
    assert!(text.contains("plan        warp_group_") && text.contains("parts"), "{text}");
    let all = explain(&["--device", "emulator", "--all"]).ok();
    assert!(all.lines().count() > text.lines().count(), "{all}");
    // The plan that is taken is the first of the list.
    let plan = |line: &str| line.split(',').next().map(str::to_owned).unwrap_or_default();
    let chosen = text.lines().find_map(|line| line.strip_prefix("plan        ")).unwrap();
    assert_eq!(plan(text.lines().nth(7).unwrap()), plan(chosen), "{text}");
    let named = explain(&["--device", "emulator:8.0", "--kernel", "k02_tiled_16/4"]).ok();
    assert!(named.contains("k02_tiled_16_bf16, K in 4 parts, grid 8x8x4"), "{named}");
    explain(&["--device", "cpu"]).error(&["no plans"]);
    explain(&["--device", "emulator", "--kernel", "k99"]).error(&["no kernel is named", "k99"]);
}

#[test]
fn info_says_what_there_is() {
    let stdout = Folder::new().gemmite(&["info"]).ok();
    assert!(stdout.contains("cpu      CPU, "), "{stdout}");
    if has_gpu() {
        for word in ["compute capability", "memory", "multiprocessors", "k02_tiled_32"] {
            assert!(stdout.contains(word), "no {word:?} in:\n{stdout}");
        }
    } else {
        assert!(stdout.contains("gpu      none: "), "{stdout}");
        assert!(stdout.contains("driver"), "{stdout}");
    }
}

#[test]
fn bench_times_what_it_has_verified() {
    let bench = |arguments: &[&str]| Folder::new().gemmite(&[&["bench"], arguments].concat());
    let small = ["30", "20", "10", "--device", "cpu", "--rounds", "2"];
    let stdout = bench(&small).ok();
    for word in ["f32 nn 30x20x10", "gemmite", "gemm ", "matrixmultiply", "ndarray", "FLOP/s"] {
        assert!(stdout.contains(word), "no {word:?} in:\n{stdout}");
    }
    let with = |more: &[&str]| bench(&[&small[..], more].concat());
    let stdout = with(&["--dtype", "bf16", "--layout", "tt", "--batch", "3"]).ok();
    assert!(stdout.contains("bf16 tt 30x20x10 batch 3"), "{stdout}");
    assert!(stdout.contains("unsupported  the crate has no product of bf16"), "{stdout}");
    let stdout = with(&["--against", "none", "--beta", "-0.5", "--sustained", "0.05"]).ok();
    assert!(stdout.contains("beta=-0.5") && stdout.contains("sustained"), "{stdout}");
    let stdout = with(&["--against", "none", "--tf32"]).ok();
    assert!(stdout.contains("tf32 nn 30x20x10"), "{stdout}");
    with(&["--against", "cublas"]).error(&["cublas", "does not run on"]);
    with(&["--against", "blas"]).error(&["blas", "matrixmultiply"]);
    with(&["--kernel", "k99"]).error(&["k99"]);
    bench(&["0", "1", "1", "--device", "cpu"]).error(&["extent of 0"]);
    bench(&["4000000000", "4000000000", "1", "--device", "cpu"]).error(&["larger than any memory"]);
    bench(&["1", "1"]).usage(&["<K>"]);
    bench(&["1", "1", "1", "--layout", "xy"]).usage(&["nn, nt, tn or tt"]);
}

#[test]
fn report_makes_a_page_of_a_record() {
    let folder = Folder::new();
    folder.gemmite(&["report", "--records", "."]).error(&["no record", "cargo xtask bench"]);
    folder.gemmite(&["report", "none.csv"]).error(&["none.csv"]);
    let record = concat!(env!("CARGO_MANIFEST_DIR"), "/../bench/tests/data/record.csv");
    let stdout = folder.gemmite(&["report", record, "-o", "page.html", "--svg", "pictures"]).ok();
    assert!(stdout.starts_with("page.html from "), "{stdout}");
    assert!(folder.names().contains(&"page.html".into()));
    assert!(stdout.lines().any(|line| line.ends_with("ratio.svg")), "{stdout}");
    folder.gemmite(&["report", "page.html"]).error(&["is not a record"]);
    // Where the page is refused, no folder is left for its pictures.
    let before = folder.names();
    std::fs::write(folder.file("notes.txt"), "mine").unwrap();
    let refused = ["report", record, "-o", "notes.txt", "--svg", "more/pictures"];
    folder.gemmite(&refused).error(&["notes.txt", "is no report"]);
    std::fs::remove_file(folder.file("notes.txt")).unwrap();
    assert_eq!(folder.names(), before);
}

#[test]
fn report_takes_the_fullest_record_of_the_latest_day() {
    let folder = Folder::new();
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/../bench/tests/data/record.csv");
    let fixture = std::fs::read_to_string(fixture).unwrap();
    std::fs::create_dir_all(folder.file("records/gpu")).unwrap();
    let write = |name: &str, date: &str, started: &str, lines: usize| {
        let facts = format!("# date: {date}\n# started: {started} UTC\n");
        let lines = fixture.lines().filter(|line| !line.starts_with('#')).take(1 + lines);
        let text = facts + &lines.collect::<Vec<_>>().join("\n");
        std::fs::write(folder.file("records/gpu").join(name), text).unwrap();
    };
    let takes = |name: &str| {
        let stdout = folder.gemmite(&["report", "--records", "records"]).ok();
        assert!(stdout.trim_end().ends_with(&format!("gpu/{name}.csv")), "{name}: {stdout}");
    };
    // Names sort in another order than what the records say of themselves.
    write("2026-01-09-fff.csv", "2026-01-01", "23:00", 40);
    takes("2026-01-09-fff");
    write("2026-01-02-bbb.csv", "2026-01-02", "06:00", 30);
    takes("2026-01-02-bbb");
    write("2026-01-02-ccc.csv", "2026-01-02", "09:00", 8);
    takes("2026-01-02-bbb");
    write("2026-01-02-aaa.csv", "2026-01-02", "07:00", 30);
    takes("2026-01-02-aaa");
    std::fs::write(folder.file("records/gpu/2027-01-01-twins.csv"), "a,b\n1,2\n").unwrap();
    takes("2026-01-02-aaa");
    // As `cargo xtask report` has it.
    let mut command = std::process::Command::new(common::program());
    command.arg("report").env("GEMMITE_RECORDS", folder.file("records"));
    let stdout = String::from_utf8(command.output().unwrap().stdout).unwrap();
    assert!(stdout.trim_end().ends_with("gpu/2026-01-02-aaa.csv"), "{stdout}");
}

#[test]
fn demo_verifies_every_dtype() {
    let stdout = Folder::new().gemmite(&["demo", "--size", "100", "--device", "cpu"]).ok();
    for word in [
        "i8 ",
        "i32",
        "f8e4m3",
        "f8e5m2",
        "f16",
        "bf16",
        "f32",
        "f64",
        "ijk",
        "kij",
        "unrolled_16",
        "tiled_16",
    ] {
        assert!(stdout.contains(word), "no {word:?} in:\n{stdout}");
    }
    assert!(stdout.ends_with("12 products verified, 0 wrong, 0 skipped\n"), "{stdout}");

    let best = Folder::new().gemmite(&["demo", "--size", "100"]).ok();
    let last = if has_gpu() {
        "8 products verified, 0 wrong, 0 skipped\n"
    } else {
        "13 products verified, 0 wrong, 8 skipped\n"
    };
    assert!(best.ends_with(last), "{best}");
    assert!(has_gpu() || best.contains("emulated 128x128"), "{best}");
}

#[test]
fn demo_of_reference_001() {
    let stdout = Folder::new().gemmite(&["demo", "--reference", "001", "--size", "70"]).ok();
    for word in ["70x70 i32", "cpu Duration: ", "correctness check pass"] {
        assert!(stdout.contains(word), "no {word:?} in:\n{stdout}");
    }
    if has_gpu() {
        let words =
            ["cuda Duration: ", "cuda tile Duration: ", "kernel alone", "threads per block"];
        for word in words.into_iter().chain(["7 products verified, 0 wrong, 0 skipped"]) {
            assert!(stdout.contains(word), "no {word:?} in:\n{stdout}");
        }
    } else {
        assert!(stdout.contains("skipped: cuda, cuda tile"), "{stdout}");
        assert!(stdout.ends_with("2 products verified, 0 wrong, 4 skipped\n"), "{stdout}");
    }
    let unknown = Folder::new().gemmite(&["demo", "--reference", "999"]);
    unknown.usage(&["999", "001"]);
}

#[test]
fn a_device_that_is_asked_for_is_not_replaced() {
    Folder::new().gemmite(&["demo", "--device", "cuda:99"]).error(&["CUDA device 99"]);
}

#[test]
fn explain_knows_batch_invariance_and_tunings() {
    let folder = Folder::new();
    let explain = |more: &[&str]| {
        let args = ["explain", "5", "4096", "4096", "--dtype", "bf16", "--device", "emulator"];
        folder.gemmite(&[&args, more].concat())
    };
    let text = explain(&["--batch-invariant", "--all"]).ok();
    assert!(text.contains("warp_group") && !text.contains("parts,"), "{text}");
    assert!(explain(&["--all"]).ok().contains("parts,"));
    std::fs::write(folder.file("t.txt"), "gemmite tuning, version 3\ngpu = a\n").unwrap();
    explain(&["--tuning", "t.txt"]).error(&["damaged", "keeps its own plans"]);
    std::fs::write(folder.file("t.txt"), "plans").unwrap();
    explain(&["--tuning", "t.txt"]).error(&["is no file of `gemmite tune`"]);
    explain(&["--tuning", "none.txt"]).error(&["none.txt"]);
}

#[test]
fn outputs_that_cannot_be_are_refused_before_any_work() {
    let folder = Folder::new();
    let long = format!("{}.txt", "a".repeat(300));
    let outputs =
        [(long.as_str(), "name too long (os"), ("/proc/plans.txt", "/proc"), ("", "value")];
    for (output, problem) in outputs {
        // What it reads and the device come after the output.
        let missing = ["matmul", "none.npy", "none.npy", "--output", output];
        let tune = ["tune", "64", "64", "64", "--device", "cpu", "--output", output];
        for line in [&missing[..], &tune] {
            let ran = folder.gemmite(line);
            assert_ne!(ran.code, Some(0), "{ran:?}");
            assert!(ran.stderr.contains(problem), "{problem:?} is not in {ran:?}");
        }
    }
    assert!(folder.names().is_empty());
}

#[test]
fn tune_measures_on_a_gpu_alone() {
    let folder = Folder::new();
    for device in ["cpu", "emulator:8.0"] {
        let args = ["tune", "64", "64", "64", "--device", device];
        folder.gemmite(&args).error(&["measures on a GPU"]);
    }
    assert!(folder.names().is_empty());
    folder.gemmite(&["tune", "64", "64"]).usage(&["3 values", "but 2"]);
}

#[test]
fn help_has_examples() {
    for command in ["matmul", "generate", "demo", "tune"] {
        let help = Folder::new().gemmite(&[command, "--help"]).ok();
        assert!(help.contains("Examples:\n  gemmite "), "{help}");
        let mut lines = help.lines().filter(|line| !line.contains("[possible values"));
        assert!(lines.all(|line| line.chars().count() <= 100), "{help}");
    }
}
