//! `gemmite matmul` by its files and its output, on the CPU and on the best device.

mod common;

use std::process::{Command, Stdio};
use std::time::Duration;

use common::{Folder, has_gpu};
use gemmite::{Device, Gemm, Matrix, Op, Shape, bf16, f16, random};
use ndarray::{Array2, ShapeBuilder, arr2};

/// 2x3 and 3x2, and their product.
const A: [f32; 6] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
const B: [f32; 6] = [7.0, 8.0, 9.0, 10.0, 11.0, 12.0];
const AB: [f32; 4] = [58.0, 64.0, 139.0, 154.0];

fn folder() -> Folder {
    let folder = Folder::new();
    folder.f32("a.npy", 2, 3, &A);
    folder.f32("b.npy", 3, 2, &B);
    folder.f32("c0.npy", 2, 2, &[1.0, 10.0, 100.0, f32::NAN]);
    folder
}

#[test]
fn the_product_and_its_report() {
    let folder = folder();
    let stdout = folder.gemmite(&["matmul", "a.npy", "b.npy", "-o", "c.npy", "--verify"]).ok();
    assert_eq!(folder.f32_data("c.npy"), AB);
    let words =
        ["2x3 f32  a.npy", "3x2 f32  b.npy", "2x2 f32  c.npy", "device", "kernel", "GFLOP/s"];
    for word in words.into_iter().chain(["every element, all rows checked", "total"]) {
        assert!(stdout.contains(word), "no {word:?} in:\n{stdout}");
    }
    assert_eq!(folder.names(), ["a.npy", "b.npy", "c.npy", "c0.npy"]);
}

#[test]
fn the_emulator_is_a_device() {
    let folder = folder();
    let run = |device: &str, kernel: &str| {
        let fixed = ["matmul", "a.npy", "b.npy", "-o", "c.npy", "--force", "--verify"];
        let chosen = ["--device", device, "--kernel", kernel];
        folder.gemmite(&[&fixed[..], &chosen].concat())
    };
    let stdout = run("emulator:8.0", "k02_tiled_8").ok();
    assert_eq!(folder.f32_data("c.npy"), AB);
    let words = ["emulated GPU of compute capability 8.0", "k02_tiled_8_f32, grid 1x1 of 8x8"];
    assert!(words.iter().all(|word| stdout.contains(word)), "{stdout}");
    run("emulator", "k01_naive").ok();
}

#[test]
fn f32_is_multiplied_as_was_asked_for() {
    let folder = Folder::new();
    folder.f32("a.npy", 4, 4, &[2.0; 16]);
    folder.f32("b.npy", 4, 4, &[3.0; 16]);
    let run = |more: &[&str]| {
        let fixed = ["matmul", "a.npy", "b.npy", "-o", "c.npy", "--force", "--verify=all"];
        folder.gemmite(&[&fixed[..], more].concat())
    };
    for (digits, kernel) in
        [("--tf32", "warp_group_swap_ab_128x256"), ("--bf16x6", "warp_group_split_128x128")]
    {
        run(&["--device", "cpu", digits]).ok();
        assert_eq!(folder.f32_data("c.npy"), [24.0; 16]);
        let emulator = ["--device", "emulator", "--kernel", kernel];
        run(&emulator).error(&[kernel]);
        let stdout = run(&[&emulator[..], &[digits]].concat()).ok();
        assert!(stdout.contains(kernel), "{stdout}");
        assert_eq!(folder.f32_data("c.npy"), [24.0; 16]);
    }
    // A third has more digits than tf32: the bound is tf32's.
    folder.f32("a.npy", 4, 4, &[1.0 / 3.0; 16]);
    run(&["--device", "emulator", "--kernel", "warp_group_swap_ab_128x256", "--tf32"]).ok();
    assert_ne!(folder.f32_data("c.npy"), [4.0; 16]);
    ndarray_npy::write_npy(folder.file("a.npy"), &arr2(&[[1_f64]])).unwrap();
    let f64 = ["matmul", "a.npy", "a.npy", "-o", "d.npy", "--tf32"];
    folder.gemmite(&f64).error(&["--tf32 is for f32, and the matrices are of f64"]);
}

#[test]
fn an_emulated_gpu_is_counted() {
    let folder = folder();
    let fixed = ["matmul", "a.npy", "b.npy", "-o", "c.npy", "--statistics", "--device"];
    let run = |device| folder.gemmite(&[&fixed[..], &[device, "--kernel", "k01_naive"]].concat());
    let stdout = run("emulator").ok();
    // 4 sums of 3 products of two numbers of 4 bytes.
    for words in ["executed ", "global   96 B loaded, 16 B stored; ", "shared   0 B loaded"] {
        assert!(stdout.contains(words), "no {words:?} in:\n{stdout}");
    }
    folder
        .gemmite(&[&fixed[..], &["cpu", "--force"]].concat())
        .error(&["the device is cpu: add --device emulator"]);
}

#[test]
fn transposes_and_factors() {
    let folder = folder();
    let run = |arguments: &[&str]| {
        let fixed = ["matmul", "-o", "c.npy", "--force", "--verify=all"];
        folder.gemmite(&[&fixed, arguments].concat()).ok();
        folder.f32_data("c.npy")
    };
    assert_eq!(run(&["a.npy", "a.npy", "--transpose-b"]), [14.0, 32.0, 32.0, 77.0]);
    let both = run(&["b.npy", "a.npy", "--transpose-a", "--transpose-b"]);
    assert_eq!(both, [AB[0], AB[2], AB[1], AB[3]]);
    assert_eq!(run(&["a.npy", "b.npy", "--alpha", "-0.5"]), AB.map(|x| -0.5 * x));
    let added = run(&["a.npy", "b.npy", "--alpha", "2", "--beta", "-1", "--c", "c0.npy"]);
    assert_eq!(added[..3], [115.0, 118.0, 178.0]);
    assert!(added[3].is_nan());
    // With a beta of 0 the NaN is not read.
    assert_eq!(run(&["a.npy", "b.npy", "--beta", "0", "--c", "c0.npy"]), AB);
}

#[test]
fn factors_of_integers_are_integers() {
    let folder = Folder::new();
    ndarray_npy::write_npy(folder.file("a.npy"), &arr2(&[[3_i32, 4]])).unwrap();
    ndarray_npy::write_npy(folder.file("b.npy"), &arr2(&[[2_i32], [i32::MAX]])).unwrap();
    let arguments = ["matmul", "a.npy", "b.npy", "-o", "c.npy", "--alpha"];
    folder.gemmite(&[&arguments[..], &["0.5"]].concat()).error(&["i32", "0.5 is none"]);
    folder.gemmite(&[&arguments[..], &["-3", "--verify"]].concat()).ok();
    let c: Array2<i32> = ndarray_npy::read_npy(folder.file("c.npy")).unwrap();
    let wrapped = 6_i32.wrapping_add(4_i32.wrapping_mul(i32::MAX)).wrapping_mul(-3);
    assert_eq!(c, arr2(&[[wrapped]]));
}

/// The product of int8 files is one of int32, and so is the C that is added.
#[test]
fn products_of_i8_are_i32() {
    let folder = Folder::new();
    ndarray_npy::write_npy(folder.file("a.npy"), &arr2(&[[-128_i8, 127]])).unwrap();
    ndarray_npy::write_npy(folder.file("b.npy"), &arr2(&[[-128_i8], [127]])).unwrap();
    ndarray_npy::write_npy(folder.file("c0.npy"), &arr2(&[[1_000_000_i32]])).unwrap();
    let arguments = ["matmul", "a.npy", "b.npy", "-o", "c.npy", "--beta", "3", "--verify", "--c"];
    let stdout = folder.gemmite(&[&arguments[..], &["c0.npy"]].concat()).ok();
    assert!(stdout.contains("1x1 i32  c.npy"), "{stdout}");
    let c: Array2<i32> = ndarray_npy::read_npy(folder.file("c.npy")).unwrap();
    assert_eq!(c, arr2(&[[128 * 128 + 127 * 127 + 3_000_000]]));
    let refused = folder.gemmite(&[&arguments[..], &["a.npy", "--force"]].concat());
    refused.error(&["the product of i8 matrices is i32", "a.npy is i8"]);
}

/// Files of another writer and for another reader, in both orders: ndarray-npy for the dtypes that
/// it knows.
#[test]
fn files_of_ndarray_npy() {
    let folder = Folder::new();
    let a = Array2::from_shape_fn((5, 7).f(), |(i, j)| (3 * i + 7 * j) as f64 - 20.0);
    let b = Array2::from_shape_fn((7, 4), |(i, j)| (i * j) as f64 - 5.0);
    ndarray_npy::write_npy(folder.file("a.npy"), &a).unwrap();
    ndarray_npy::write_npy(folder.file("b.npy"), &b).unwrap();
    let stdout = folder.gemmite(&["matmul", "a.npy", "b.npy", "-o", "c.npy"]).ok();
    assert!(stdout.contains("5x7 f64  a.npy, Fortran order\n"), "{stdout}");
    let c: Array2<f64> = ndarray_npy::read_npy(folder.file("c.npy")).unwrap();
    assert_eq!(c, a.dot(&b));
    // C in Fortran order is read as what it is, and written in C order.
    let c0 = Array2::from_shape_fn((5, 4).f(), |(i, j)| (10 * i + j) as f64);
    ndarray_npy::write_npy(folder.file("c0.npy"), &c0).unwrap();
    let beta =
        ["matmul", "a.npy", "b.npy", "-o", "d.npy", "--beta", "1", "--c", "c0.npy", "--verify"];
    folder.gemmite(&beta).ok();
    let d: Array2<f64> = ndarray_npy::read_npy(folder.file("d.npy")).unwrap();
    assert_eq!(d, &c + &c0);
}

/// Each dtype goes through generate, matmul and the files, and comes out as from the library.
#[test]
fn every_dtype_equals_the_library() {
    fn expect<T: gemmite::Element>() -> Vec<u8> {
        let integers =
            |rows, cols, seed| random::integers::<T>(Shape::new(rows, cols), seed, -9..=9);
        let (a, b): (Matrix<T>, Matrix<T>) =
            (integers(33, 20, 1).unwrap(), integers(33, 17, 2).unwrap());
        let gemm = Gemm::new().op_a(Op::Transpose);
        let c = gemm.run(&Device::cpu(), &a, &b).unwrap();
        bytemuck::cast_slice(c.as_slice()).to_vec()
    }
    let cases = [
        ("i8", expect::<i8>()),
        ("i32", expect::<i32>()),
        ("f16", expect::<f16>()),
        ("bf16", expect::<bf16>()),
        ("f32", expect::<f32>()),
        ("f64", expect::<f64>()),
    ];
    for (dtype, expected) in cases {
        let folder = Folder::new();
        for (name, shape, seed) in [("a.npy", "33x20", "1"), ("b.npy", "33x17", "2")] {
            let arguments = ["--shape", shape, "--seed", seed, "--dtype", dtype, "-o", name];
            let integers = ["generate", "--distribution", "integers"];
            folder.gemmite(&[&integers[..], &arguments].concat()).ok();
        }
        let matmul = ["matmul", "a.npy", "b.npy", "--transpose-a", "-o", "c.npy", "--verify"];
        folder.gemmite(&[&matmul[..], &["--dtype", dtype]].concat()).ok();
        assert_eq!(folder.data("c.npy"), expected, "{dtype}");
    }
}

#[test]
fn raw_bytes_are_bfloat16_where_the_user_says_so() {
    let folder = Folder::new();
    let header = "{'descr': '|V2', 'fortran_order': False, 'shape': (1, 1), }";
    folder.npy("a.npy", header, &bf16::from_f32(3.0).to_le_bytes());
    folder.gemmite(&["matmul", "a.npy", "a.npy", "-o", "c.npy", "--dtype", "bf16"]).ok();
    assert_eq!(folder.data("c.npy"), bf16::from_f32(9.0).to_le_bytes());
}

#[test]
fn floats_of_8_bits_by_ml_dtypes_and_as_bytes() {
    let folder = Folder::new();
    let header =
        |descr: &str| format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': (1, 2), }}");
    // 3 and -0.5 in e4m3 and in e5m2: 9.25 with themselves.
    let (e4m3, e5m2) = ([0x44, 0xb0], [0x42, 0xb8]);
    let cases: [(&str, [u8; 2], &[&str]); 4] = [
        ("<V1", e4m3, &["--dtype", "f8e4m3"]),
        ("|u1", e4m3, &["--dtype", "e4m3"]),
        ("|u1", e5m2, &["--dtype", "e5m2"]),
        ("<f1", e5m2, &[]),
    ];
    for (descr, bytes, dtype) in cases {
        folder.npy("a.npy", &header(descr), &bytes);
        let matmul = ["matmul", "a.npy", "a.npy", "--transpose-b", "-o", "c.npy", "--force"];
        folder.gemmite(&[&matmul[..], &["--verify"], dtype].concat()).ok();
        assert_eq!(folder.data("c.npy"), bf16::from_f32(9.25).to_le_bytes(), "{descr}");
    }
    folder.npy("a.npy", &header("<V1"), &e4m3);
    let matmul = ["matmul", "a.npy", "a.npy", "--transpose-b", "-o", "d.npy"];
    folder.gemmite(&matmul).error(&["raw bytes", "--dtype f8e4m3"]);
    let generate = ["generate", "--shape", "3x4", "--dtype", "f8e5m2", "-o", "e.npy"];
    folder.gemmite(&generate).ok();
    folder.gemmite(&["matmul", "e.npy", "e.npy", "--transpose-b", "-o", "f.npy"]).ok();
}

#[test]
fn empty_matrices() {
    let folder = Folder::new();
    folder.f32("a.npy", 2, 0, &[]);
    folder.f32("b.npy", 0, 3, &[]);
    folder.gemmite(&["matmul", "a.npy", "b.npy", "-o", "c.npy", "--verify"]).ok();
    assert_eq!(folder.f32_data("c.npy"), [0.0; 6]);
    folder.f32("e.npy", 3, 2, &[1.0; 6]);
    folder.gemmite(&["matmul", "b.npy", "e.npy", "-o", "d.npy", "--verify"]).ok();
    assert!(folder.data("d.npy").is_empty());
}

#[test]
fn operands_that_do_not_fit() {
    let folder = folder();
    let to_c =
        |arguments: &[&str]| folder.gemmite(&[&["matmul", "-o", "c.npy"], arguments].concat());
    to_c(&["a.npy", "a.npy"]).error(&["shapes do not match", "a.npy is 2x3", "--transpose-a"]);
    to_c(&["a.npy", "b.npy", "--transpose-b"]).error(&["the transpose of b.npy is 2x3"]);
    folder.f32("c0.npy", 1, 2, &[0.0; 2]);
    to_c(&["a.npy", "b.npy", "--beta", "1", "--c", "c0.npy"])
        .error(&["the product is 2x2 and c0.npy is 1x2"]);
    ndarray_npy::write_npy(folder.file("d.npy"), &arr2(&[[1_f64, 2.0]; 3])).unwrap();
    to_c(&["a.npy", "d.npy"]).error(&["dtypes differ", "a.npy is f32", "d.npy is f64"]);
    assert!(!folder.file("c.npy").exists());
}

#[test]
fn wrong_usage_exits_with_2() {
    let folder = folder();
    let to_c = |arguments: &[&str]| {
        folder.gemmite(&[&["matmul", "a.npy", "b.npy", "-o", "c.npy"], arguments].concat())
    };
    to_c(&["--kernel", "k99"]).usage(&["k99", "k02_tiled_16"]);
    to_c(&["--device", "gpu"]).usage(&["gpu", "cuda:N"]);
    to_c(&["--dtype", "f8"]).usage(&["f8", "bf16"]);
    to_c(&["--alpha", "one"]).usage(&["one", "a number"]);
    to_c(&["--beta", "1"]).usage(&["--c"]);
    to_c(&["--c", "c0.npy"]).usage(&["--beta"]);
    to_c(&["--verify=some"]).usage(&["some"]);
    folder.gemmite(&["matmul", "a.npy", "b.npy"]).usage(&["--output"]);
    folder.gemmite(&["multiply"]).usage(&["multiply"]);
    assert!(!folder.file("c.npy").exists());
}

#[test]
fn devices_that_are_not_there() {
    let folder = folder();
    let to_c = |arguments: &[&str]| {
        folder.gemmite(&[&["matmul", "a.npy", "b.npy", "-o", "c.npy"], arguments].concat())
    };
    to_c(&["--device", "cuda:99"]).error(&["CUDA device 99", "--device cpu"]);
    to_c(&["--device", "cpu", "--kernel", "k01_naive"])
        .error(&["--kernel k01_naive needs a GPU", "leave --kernel out"]);
    if !has_gpu() {
        to_c(&["--device", "cuda"]).error(&["CUDA device 0", "driver"]);
        to_c(&["--kernel", "k01_naive"]).error(&["needs a GPU", "caused by", "driver"]);
    }
    assert!(!folder.file("c.npy").exists());
}

/// The signal is sent when the temporary file shows up, so that it arrives amid the writing.
#[cfg(unix)]
#[test]
fn an_interrupt_leaves_no_file() {
    let folder = Folder::new();
    let mut child = Command::new(common::program())
        .current_dir(folder.path())
        .args(["generate", "--shape", "6000x6000", "--distribution", "integers", "-o", "a.npy"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let is_temporary = |name: &String| name.starts_with(".gemmite-");
    while !folder.names().iter().any(is_temporary) && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_micros(200));
    }
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let status = child.wait().unwrap();
    // Where the machine was faster than the test, the file is whole.
    match status.code() {
        Some(0) => assert_eq!(folder.names(), ["a.npy"]),
        code => {
            assert!(kill.success());
            assert_eq!(code, Some(130));
            assert!(folder.names().is_empty(), "{:?}", folder.names());
        }
    }
}
