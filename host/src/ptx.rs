//! The kernels as PTX, built by `cargo xtask build-ptx` and committed.

use crate::own;
use gemm_spec::{Kernel, Target};

// `HEADS`, the heads of the modules in the order of `Target::ALL`, and `ENTRIES`, targets, names,
// lines and texts of the kernels: deflated by build.rs.
include!(concat!(env!("OUT_DIR"), "/ptx.rs"));

/// What stands at the head of a target's module.
pub(crate) fn head(target: Target) -> String {
    let place = Target::ALL.iter().position(|other| *other == target);
    place.map_or(String::new(), |place| inflate(HEADS[place]))
}

/// The name of the file that has a kernel.
pub(crate) fn file_name(kernel: &Kernel) -> String {
    let stem = if own::ptx_of(kernel).is_some() { kernel.name } else { kernel.target.arch() };
    format!("{stem}.ptx")
}

/// The module with that kernel alone, or all of another crate's: a driver compiles what it is
/// given, and a product needs one kernel. The others' lines are empty, so that lines have the
/// numbers that they have in the file.
pub(crate) fn of_kernel(kernel: &Kernel) -> String {
    if let Some(text) = own::ptx_of(kernel) {
        return text.to_string();
    }
    let mut text = head(kernel.target);
    let is_it = |(target, name, ..): &&(Target, &str, usize, &[u8])| {
        *target == kernel.target && *name == kernel.name
    };
    if let Some((.., line, entry)) = ENTRIES.iter().find(is_it) {
        let lines = text.matches('\n').count();
        text.extend(std::iter::repeat_n('\n', line - 1 - lines));
        text += &inflate(entry);
    }
    text
}

/// The text is build.rs's own, so that it can be inflated.
fn inflate(deflated: &[u8]) -> String {
    let bytes = miniz_oxide::inflate::decompress_to_vec(deflated).unwrap_or_default();
    String::from_utf8(bytes).unwrap_or_default()
}

/// What the kernels were made from: of each target, the start of the hash that stands at the head
/// of its file.
pub(crate) fn fingerprint() -> String {
    let hash = |target| {
        let head = head(target);
        let line = head.lines().find_map(|line| line.strip_prefix("// sha256 of "));
        let hash = line.and_then(|line| line.rsplit(' ').next()).unwrap_or_default();
        hash.get(..16).unwrap_or(hash).to_string()
    };
    Target::ALL.map(hash).join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_has_a_hash_of_each_target() {
        let fingerprint = fingerprint();
        let hashes: Vec<&str> = fingerprint.split('-').collect();
        assert_eq!(hashes.len(), Target::ALL.len());
        let is_hash =
            |hash: &&str| hash.len() == 16 && hash.chars().all(|digit| digit.is_ascii_hexdigit());
        assert!(hashes.iter().all(is_hash), "{fingerprint}");
    }

    #[test]
    fn a_kernels_module_has_that_kernel_and_is_whole() {
        for target in Target::ALL {
            let file = format!("{}/ptx/{}.ptx", env!("CARGO_MANIFEST_DIR"), target.arch());
            let file = std::fs::read_to_string(file).unwrap().replace("\r\n", "\n");
            let file: Vec<&str> = file.lines().collect();
            for kernel in gemm_spec::of_module(target) {
                let text = of_kernel(kernel);
                assert_eq!(text.matches(".entry ").count(), 1, "{}", kernel.name);
                assert!(text.contains(&format!(".entry {}(", kernel.name)), "{}", kernel.name);
                assert!(text.contains("\n{\n") && text.ends_with("\n}\n"), "{}", kernel.name);
                let mut lines = text.lines().zip(&file);
                assert!(lines.all(|(line, whole)| line.is_empty() || line == *whole));
            }
        }
    }

    #[test]
    fn modules_are_written_for_their_target() {
        for target in Target::ALL {
            let (major, minor) = target.ptx_version();
            let head = head(target);
            assert!(head.contains(&format!(".version {major}.{minor}\n")), "{target:?}");
            assert!(head.contains(&format!(".target {}\n", target.arch())), "{target:?}");
            assert!(head.contains(".address_size 64"), "{target:?}");
            assert!(!head.contains('\0'), "{target:?}");
        }
    }
}
