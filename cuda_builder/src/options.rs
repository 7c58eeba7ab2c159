//! The settings of a build, which of them this back end has, and the compiler flags they become.

use std::path::{Path, PathBuf};

use crate::arch::NvvmArch;
use crate::error::CudaBuilderError;

/// What debug information the PTX has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DebugInfo {
    /// None.
    #[default]
    None,
    /// `.loc` and `.file` directives, as nvcc's `-lineinfo` writes them: profilers and
    /// sanitizers show source lines, and the code stays as fast. The paths are this machine's.
    LineTables,
}

/// All that can be set.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub arch: NvvmArch,
    pub ptx_version: Option<(u32, u32)>,
    pub release: bool,
    pub debug: DebugInfo,
    /// `None`: in what is no release.
    pub generate_line_info: Option<bool>,
    pub nvvm_opts: bool,
    pub ftz: bool,
    pub fast_sqrt: bool,
    pub fast_div: bool,
    pub fma_contraction: bool,
    pub emit_llvm_ir: bool,
    pub emit_llvm_bitcode: bool,
    pub optix: bool,
    pub override_libm: bool,
    pub use_constant_memory_space: bool,
    pub unroll_threshold: u32,
    pub allow_local: bool,
    pub allow_call: bool,
    pub target_dir: Option<PathBuf>,
    pub beside: Option<String>,
    pub copy_to: Option<PathBuf>,
    pub final_module_path: Option<PathBuf>,
    pub build_args: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            arch: NvvmArch::Compute75,
            ptx_version: None,
            release: true,
            debug: DebugInfo::None,
            generate_line_info: None,
            nvvm_opts: true,
            ftz: false,
            fast_sqrt: false,
            fast_div: false,
            fma_contraction: false,
            emit_llvm_ir: false,
            emit_llvm_bitcode: false,
            optix: false,
            override_libm: false,
            use_constant_memory_space: false,
            // LLVM's own 300 leaves an array of 128 accumulators in local memory.
            unroll_threshold: 20_000,
            allow_local: false,
            allow_call: false,
            target_dir: None,
            beside: None,
            copy_to: None,
            final_module_path: None,
            build_args: Vec::new(),
        }
    }
}

impl Options {
    /// Refuses what this back end does not have.
    pub fn check(&self) -> Result<(), CudaBuilderError> {
        let refused = [
            (self.ftz, "ftz(true)", "rustc has no way to ask LLVM for `.ftz` instructions"),
            (!self.nvvm_opts, "nvvm_opts(false)", "there is no NVVM in it; use release(false)"),
            (self.optix, "optix(true)", "it makes plain CUDA modules only"),
            (
                self.override_libm,
                "override_libm(true)",
                "it does not link libdevice; call cuda_std's GpuFloat functions",
            ),
            (
                self.use_constant_memory_space,
                "use_constant_memory_space(true)",
                "Rust has no address spaces, so statics stay in global memory",
            ),
        ];
        if let Some((_, option, reason)) = refused.into_iter().find(|(set, ..)| *set) {
            let (option, reason) = (option.to_owned(), reason.to_owned());
            return Err(CudaBuilderError::UnsupportedOption { option, reason });
        }
        let (arch, asked, needed) = (self.arch, self.ptx_version(), self.arch.min_ptx_version());
        if asked < needed {
            return Err(CudaBuilderError::PtxTooOld { arch, asked, needed });
        }
        Ok(())
    }

    /// The version asked for, else the lowest that knows the architecture, but not below 7.0:
    /// that is the oldest that current compilers write.
    pub fn ptx_version(&self) -> (u32, u32) {
        self.ptx_version.unwrap_or(self.arch.min_ptx_version().max((7, 0)))
    }

    /// Flags for the crate and for all that it is made of. They come after those that cargo
    /// makes of profiles, so they hold whatever the workspace's profiles say.
    pub fn all_flags(&self) -> Vec<String> {
        let (major, minor) = self.ptx_version();
        let asked = self.generate_line_info.unwrap_or(!self.release);
        let lines = self.debug == DebugInfo::LineTables || asked;
        let checks = if self.release { "off" } else { "on" };
        vec![
            format!("-Ctarget-cpu={}", self.arch.sm_name()),
            format!("-Ctarget-feature=+ptx{major}{minor}"),
            format!("-Copt-level={}", if self.release { 3 } else { 1 }),
            "-Ccodegen-units=1".to_owned(),
            format!("-Cdebuginfo={}", if lines { "line-directives-only" } else { "none" }),
            "-Cstrip=none".to_owned(),
            format!("-Cdebug-assertions={checks}"),
            format!("-Coverflow-checks={checks}"),
            // This pass of rustc's copies code into both sides of a branch and knows nothing of
            // barriers: it gave the two sides of `if` a barrier each, at which the block's threads
            // waited for each other for ever. LLVM's own passes know which calls must not be
            // copied.
            "-Zmir-enable-passes=-JumpThreading".to_owned(),
        ]
    }

    /// The same for `core`: as for the oldest architecture.
    pub fn core_flags(&self) -> Vec<String> {
        let arch = NvvmArch::ALL[0];
        Options { arch, ptx_version: None, ..self.clone() }.all_flags()
    }

    /// Flags for the last step, in which LLVM optimises the whole program, less the paths.
    pub fn last_flags(&self) -> Vec<String> {
        // There is nothing to link: after fat LTO one assembly text is the whole module.
        let mut flags = vec!["-Clinker=true".to_owned()];
        let mut llvm = |option: &str| flags.push(format!("-Cllvm-args={option}"));
        llvm(&format!("-unroll-threshold={}", self.unroll_threshold));
        llvm(if self.fma_contraction { "-nvptx-fma-level=2" } else { "-nvptx-fma-level=0" });
        llvm(if self.fast_div { "-nvptx-prec-divf32=1" } else { "-nvptx-prec-divf32=2" });
        llvm(if self.fast_sqrt { "-nvptx-prec-sqrtf32=0" } else { "-nvptx-prec-sqrtf32=1" });
        flags
    }

    /// The files that rustc is to write, as (kind of output, path); the first one is the PTX.
    pub fn outputs(&self, folder: &Path, stem: &str) -> Vec<(&'static str, PathBuf)> {
        let mut outputs = vec![("asm", folder.join(format!("{stem}.s")))];
        if self.emit_llvm_ir || self.final_module_path.is_some() {
            outputs.push(("llvm-ir", folder.join(format!("{stem}.ll"))));
        }
        if self.emit_llvm_bitcode {
            outputs.push(("llvm-bc", folder.join(format!("{stem}.bc"))));
        }
        outputs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_information_is_for_debugging_or_by_request() {
        let has_lines = |options: Options| {
            options.all_flags().contains(&"-Cdebuginfo=line-directives-only".to_owned())
        };
        let with = |release, debug, generate_line_info| {
            has_lines(Options { release, debug, generate_line_info, ..Options::default() })
        };
        assert!(!with(true, DebugInfo::None, None) && with(false, DebugInfo::None, None));
        assert!(with(true, DebugInfo::None, Some(true)));
        assert!(!with(false, DebugInfo::None, Some(false)));
        assert!(with(true, DebugInfo::LineTables, Some(false)));
    }

    #[test]
    fn core_is_the_same_for_all_architectures() {
        let flags = |arch| Options { arch, ..Options::default() }.core_flags();
        assert!(NvvmArch::ALL.iter().all(|&arch| flags(arch) == flags(NvvmArch::Compute70)));
        assert_ne!(
            Options { release: false, ..Options::default() }.core_flags(),
            flags(NvvmArch::Compute70)
        );
    }

    #[test]
    fn the_lowest_ptx_version_that_will_do() {
        let version = |arch| Options { arch, ..Options::default() }.ptx_version();
        assert_eq!(version(NvvmArch::Compute70), (7, 0));
        assert_eq!(version(NvvmArch::Compute90a), (8, 0));
        assert_eq!(version(NvvmArch::Compute100f), (8, 8));
        for &arch in NvvmArch::ALL {
            Options { arch, ..Options::default() }.check().unwrap();
        }
    }
}
