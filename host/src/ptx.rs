//! The kernels as PTX, built by `cargo xtask build-ptx` and committed.

use gemm_spec::Target;

/// A target's module: every kernel of the table with that target.
pub(crate) fn source(target: Target) -> &'static str {
    match target {
        Target::Sm70 => include_str!("../ptx/sm_70.ptx"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemm_spec::kernels;

    #[test]
    fn every_kernel_is_in_its_targets_module() {
        for kernel in kernels() {
            let entry = format!(".entry {}(", kernel.name);
            assert!(source(kernel.target).contains(&entry), "{} is not built", kernel.name);
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
