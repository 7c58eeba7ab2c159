//! The kernels as PTX, built by `cargo xtask build-ptx` and committed.

use crate::own;
use gemm_spec::{Kernel, Target};

/// A target's module: every kernel of the table with that target.
pub(crate) fn source(target: Target) -> &'static str {
    match target {
        Target::Sm70 => include_str!("../ptx/sm_70.ptx"),
        Target::Sm80 => include_str!("../ptx/sm_80.ptx"),
        Target::Sm90 => include_str!("../ptx/sm_90.ptx"),
        Target::Sm90a => include_str!("../ptx/sm_90a.ptx"),
    }
}

/// The text that has a kernel, and what it is called.
pub(crate) fn whole(kernel: &Kernel) -> (&'static str, String) {
    match own::ptx_of(kernel) {
        Some(text) => (text, format!("{}.ptx", kernel.name)),
        None => (source(kernel.target), format!("{}.ptx", kernel.target.arch())),
    }
}

/// The module with that kernel alone, or all of another crate's: a driver compiles what it is
/// given, and a product needs one kernel. The others' lines are empty, so that lines have the
/// numbers that they have in the file.
pub(crate) fn of_kernel(kernel: &Kernel) -> String {
    if let Some(text) = own::ptx_of(kernel) {
        return text.to_string();
    }
    let entry = format!(".visible .entry {}(", kernel.name);
    let mut skipping = false;
    let mut text = String::new();
    for line in source(kernel.target).lines() {
        skipping |= line.starts_with(".visible .entry ") && !line.starts_with(&entry);
        if !skipping {
            text.push_str(line);
        }
        text.push('\n');
        // An entry ends with a brace at the start of a line.
        skipping &= line != "}";
    }
    text
}

/// What the kernels were made from: of each target, the start of the hash that stands at the head
/// of its file.
pub(crate) fn fingerprint() -> String {
    let hash = |target| {
        let line = source(target).lines().find_map(|line| line.strip_prefix("// sha256 of "));
        let hash = line.and_then(|line| line.rsplit(' ').next()).unwrap_or_default();
        hash.get(..16).unwrap_or(hash).to_string()
    };
    Target::ALL.map(hash).join("-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemm_spec::entries;

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
    fn every_kernel_is_in_its_targets_module() {
        for kernel in entries() {
            let entry = format!(".entry {}(", kernel.name);
            assert!(source(kernel.target).contains(&entry), "{} is not built", kernel.name);
        }
    }

    #[test]
    fn a_kernels_module_has_that_kernel_and_is_whole() {
        for kernel in entries() {
            let text = of_kernel(kernel);
            assert_eq!(text.matches(".entry ").count(), 1, "{}", kernel.name);
            assert!(text.contains(&format!(".entry {}(", kernel.name)), "{}", kernel.name);
            assert_eq!(text.matches("\n{\n").count(), text.matches("\n}\n").count());
            assert!(text.contains(".version ") && text.contains(".address_size 64"));
            let file = source(kernel.target).lines();
            assert!(text.lines().zip(file).all(|(line, whole)| line.is_empty() || line == whole));
        }
    }

    #[test]
    fn modules_are_written_for_their_target() {
        for target in Target::ALL {
            let (major, minor) = target.ptx_version();
            assert!(source(target).contains(&format!(".version {major}.{minor}\n")), "{target:?}");
            assert!(source(target).contains(&format!(".target {}\n", target.arch())), "{target:?}");
            assert!(!source(target).contains('\0'), "{target:?}");
        }
    }
}
