//! What the tests of the command share: a folder of their own, the binary, and .npy files byte by
//! byte.
#![allow(dead_code)] // each test binary uses a part

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder that is gone when the test is over.
pub struct Folder(tempfile::TempDir);

impl Folder {
    pub fn new() -> Self {
        Folder(tempfile::tempdir().unwrap())
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Runs `gemmite` in the folder.
    pub fn gemmite(&self, arguments: &[&str]) -> Ran {
        let mut command = Command::new(program());
        Ran::from(command.current_dir(self.path()).args(arguments).output().unwrap())
    }

    /// Writes a .npy file of version 1.0 from the dictionary's text and the data's bytes.
    pub fn npy(&self, name: &str, dictionary: &str, data: &[u8]) {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend_from_slice(&(dictionary.len() as u16).to_le_bytes());
        bytes.extend_from_slice(dictionary.as_bytes());
        bytes.extend_from_slice(data);
        std::fs::write(self.file(name), bytes).unwrap();
    }

    /// Writes a C-order matrix of f32.
    pub fn f32(&self, name: &str, rows: usize, cols: usize, data: &[f32]) {
        let dictionary =
            format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {cols}), }}\n");
        let bytes: Vec<u8> = data.iter().flat_map(|x| x.to_le_bytes()).collect();
        self.npy(name, &dictionary, &bytes);
    }

    /// The names of the folder's files, sorted.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// What follows after the header of a .npy file of version 1.0.
    pub fn data(&self, name: &str) -> Vec<u8> {
        let bytes = std::fs::read(self.file(name)).unwrap();
        assert_eq!(&bytes[..8], b"\x93NUMPY\x01\x00");
        let header = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
        assert_eq!(header % 64, 0, "NumPy's alignment");
        bytes[header..].to_vec()
    }

    /// The elements of a matrix of f32.
    pub fn f32_data(&self, name: &str) -> Vec<f32> {
        let bytes = self.data(name);
        bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
    }
}

/// A finished run.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Ran {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Ran {
    /// Holds the run to exit status 0 and returns what it printed.
    #[track_caller]
    pub fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.stdout
    }

    /// Holds the run to exit status 1 and a message with all of `parts`.
    #[track_caller]
    pub fn error(self, parts: &[&str]) {
        self.fails(1, parts);
        assert!(self.stderr.starts_with("error: "), "{self:?}");
    }

    /// Holds the run to exit status 2 and a message with all of `parts`.
    #[track_caller]
    pub fn usage(self, parts: &[&str]) {
        self.fails(2, parts);
    }

    #[track_caller]
    fn fails(&self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        for part in parts {
            assert!(self.stderr.contains(part), "no {part:?} in:\n{}", self.stderr);
        }
    }
}

/// The command: the one that the environment names (in a bundle), else the one that cargo built.
pub fn program() -> PathBuf {
    std::env::var_os("GEMMITE_BIN").map_or(env!("CARGO_BIN_EXE_gemmite").into(), PathBuf::from)
}

/// Whether the machine has a GPU, by the word of the command itself. `GEMMITE_REQUIRE_CUDA=1` makes
/// a machine without one a failure.
pub fn has_gpu() -> bool {
    let info = Folder::new().gemmite(&["info"]).ok();
    let has_gpu = info.contains("compute capability");
    let required = std::env::var_os("GEMMITE_REQUIRE_CUDA").is_some_and(|value| value == "1");
    assert!(has_gpu || !required, "GEMMITE_REQUIRE_CUDA is 1 and there is no GPU:\n{info}");
    has_gpu
}
