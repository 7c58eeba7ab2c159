//! Input files that are wrong, each a message that names the file and says what to do, and outputs
//! that are whole or not there.

mod common;

use common::Folder;

/// `gemmite matmul bad.npy good.npy`, which has to fail and to leave nothing behind.
#[track_caller]
fn rejects(folder: &Folder, parts: &[&str]) {
    folder.f32("good.npy", 2, 2, &[1.0, 2.0, 3.0, 4.0]);
    let before = folder.names();
    let mut parts = parts.to_vec();
    parts.push("bad.npy");
    folder
        .gemmite(&["matmul", "bad.npy", "good.npy", "-o", "c.npy", "--device", "cpu"])
        .error(&parts);
    assert_eq!(folder.names(), before);
}

#[track_caller]
fn rejects_header(dictionary: &str, data: &[u8], parts: &[&str]) {
    let folder = Folder::new();
    folder.npy("bad.npy", dictionary, data);
    rejects(&folder, parts);
}

#[track_caller]
fn rejects_bytes(bytes: &[u8], parts: &[&str]) {
    let folder = Folder::new();
    std::fs::write(folder.file("bad.npy"), bytes).unwrap();
    rejects(&folder, parts);
}

#[test]
fn what_is_no_npy_file() {
    rejects(&Folder::new(), &["No such file"]);
    rejects_bytes(b"", &["no .npy file"]);
    rejects_bytes(b"1.0,2.0\n3.0,4.0\n", &["no .npy file", "numpy.save"]);
    rejects_bytes(b"\x93NUMPY\x09\x00abcdefgh", &["version 9.0"]);
    let folder = Folder::new();
    std::fs::create_dir(folder.file("bad.npy")).unwrap();
    rejects(&folder, &["a directory"]);
}

#[test]
fn broken_headers() {
    rejects_bytes(b"\x93NUMPY\x01\x00\xff\x00{'descr'", &["truncated", "within its header"]);
    rejects_bytes(b"\x93NUMPY\x02\x00\xff\xff\xff\xff{", &["4294967295 bytes"]);
    rejects_bytes(b"\x93NUMPY\x01\x00\x02\x00\xff\xfe", &["not text"]);
    rejects_header("{'descr': '<f4', 'shape': (2, 2)}", &[0; 16], &["'fortran_order' is missing"]);
    rejects_header("{'descr' '<f4'}", &[], &["malformed", "`:` is missing"]);
}

#[test]
fn lengths_that_are_not_the_shapes() {
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }\n";
    rejects_header(header, &[0; 15], &["truncated", "2x2 f32", "16 bytes", "has 15"]);
    rejects_header(header, &[0; 19], &["3 bytes follow"]);
    let huge = "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }\n";
    rejects_header(huge, &[], &["larger than any memory"]);
    // No memory is asked for before the length is compared: 2 TiB would not be there.
    let large = "{'descr': '<f8', 'fortran_order': True, 'shape': (524288, 524288), }\n";
    rejects_header(large, &[0; 8], &["truncated"]);
}

#[test]
fn shapes_that_are_no_matrix() {
    let of =
        |shape: &str| format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
    rejects_header(&of("(4,)"), &[0; 16], &["a vector of 4", "reshape"]);
    rejects_header(&of("(1, 2, 2)"), &[0; 16], &["3 dimensions", "[1, 2, 2]"]);
    rejects_header(&of("()"), &[0; 4], &["0 dimensions"]);
}

#[test]
fn dtypes_that_are_not_ours() {
    let of =
        |descr: &str| format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': (2, 2), }}");
    rejects_header(&of(">f4"), &[0; 16], &["big-endian", "astype('<f4')"]);
    rejects_header(&of("<i8"), &[0; 32], &["'<i8' is not supported", "astype('int32')"]);
    rejects_header(&of("|V2"), &[0; 8], &["--dtype bf16"]);
    let structured = "{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (2, 2), }";
    rejects_header(structured, &[0; 16], &["no plain number"]);
}

#[test]
fn a_stated_dtype_is_checked() {
    let folder = Folder::new();
    folder.f32("a.npy", 1, 1, &[1.0]);
    let stated = ["matmul", "a.npy", "a.npy", "-o", "c.npy", "--dtype", "f64"];
    folder.gemmite(&stated).error(&["a.npy", "it holds f32", "--dtype says f64"]);
}

#[test]
fn an_existing_output_is_kept() {
    let folder = Folder::new();
    folder.f32("a.npy", 1, 1, &[3.0]);
    std::fs::write(folder.file("c.npy"), "precious").unwrap();
    let matmul = ["matmul", "a.npy", "a.npy", "-o", "c.npy", "--device", "cpu"];
    folder.gemmite(&matmul).error(&["cannot write c.npy", "exists already", "--force"]);
    assert_eq!(std::fs::read(folder.file("c.npy")).unwrap(), b"precious");
    folder.gemmite(&[&matmul[..], &["--force"]].concat()).ok();
    assert_eq!(folder.f32_data("c.npy"), [9.0]);

    let generate = ["generate", "--shape", "2x2", "-o", "c.npy"];
    folder.gemmite(&generate).error(&["exists already"]);
    assert_eq!(folder.names(), ["a.npy", "c.npy"]);
}

#[test]
fn outputs_that_cannot_be() {
    let folder = Folder::new();
    let to =
        |output: &str| folder.gemmite(&["generate", "--shape", "2x2", "--force", "-o", output]);
    to("nowhere/a.npy").error(&["nowhere/a.npy", "the folder nowhere does not exist"]);
    to(".").error(&["a directory"]);
    to("").usage(&["a value is required"]);
    if cfg!(unix) {
        to("/dev/null").error(&["no regular file"]);
    }
    assert!(folder.names().is_empty());
}

#[cfg(unix)]
#[test]
fn an_output_behind_a_link_replaces_the_file_and_not_the_link() {
    let folder = Folder::new();
    std::fs::write(folder.file("real.npy"), "old").unwrap();
    std::os::unix::fs::symlink("real.npy", folder.file("link.npy")).unwrap();
    folder.gemmite(&["generate", "--shape", "2x2", "-o", "link.npy", "--force"]).ok();
    assert!(folder.file("link.npy").is_symlink());
    assert_eq!(folder.data("real.npy").len(), 16);
}

#[cfg(unix)]
#[test]
fn a_full_disk_leaves_nothing() {
    // A limit on the size of files stands in for the disk; the signal that it sends is ignored, so
    // that write() fails.
    let folder = Folder::new();
    let script = format!(
        "trap '' XFSZ; ulimit -f 8; exec {:?} generate --shape 1000x1000 -o a.npy",
        common::program()
    );
    let mut shell = std::process::Command::new("sh");
    let output = shell.current_dir(folder.path()).args(["-c", &script]).output().unwrap();
    common::Ran::from(output).error(&["cannot write a.npy", "too large"]);
    assert!(folder.names().is_empty());
}
