//! Compiles a Rust crate to PTX: the interface of Rust-CUDA's `cuda_builder` on rustc's own
//! `nvptx64-nvidia-cuda` target.
//!
//! It takes no CUDA toolkit, no GPU, no LLVM tools and no nightly: a rustc with the sources of
//! `core` is enough, and [`toolchain`] finds or fetches one.
//!
//! # The kernel crate
//! An ordinary library crate, a workspace member or not, with nothing special in its manifest;
//! it depends on `cuda_std` and has kernels marked `#[kernel]`. It is compiled as a `cdylib`
//! with `core`, whole-program optimisation, one codegen unit and panics that trap, whatever the
//! workspace's own profiles say. It can read the architecture from the environment variable
//! `CUDA_ARCH` (`700`, `900`, `1000`) at compile time.
//!
//! # From a build script
//! ```no_run
//! use cuda_builder::{CudaBuilder, NvvmArch};
//!
//! let out = std::path::PathBuf::from(std::env::var_os("OUT_DIR").unwrap());
//! CudaBuilder::new("../kernels")
//!     .arch(NvvmArch::Compute80)
//!     .copy_to(out.join("kernels.ptx"))
//!     .build()
//!     .unwrap_or_else(|error| panic!("{error}"));
//! ```
//! The program then has `include_str!(concat!(env!("OUT_DIR"), "/kernels.ptx"))`. The build has
//! its own target folder (`target/cuda-builder`, and `target/cuda-builder-core`, in which `core` is
//! compiled once for all architectures), so it never waits for the cargo that runs the
//! script; flags, wrappers and `CARGO_*` variables of that cargo do not reach it; and cargo
//! learns to run the script again when the crate, one of its path dependencies, a file that they
//! include, an environment variable that they read when they are compiled, a manifest or Cargo.lock
//! changes. A script that makes files for the crate, in `OUT_DIR`, has to say itself what they are
//! made of (`cargo:rerun-if-changed`).
//!
//! # From a program such as xtask
//! ```no_run
//! # use cuda_builder::{CudaBuilder, NvvmArch};
//! let report = CudaBuilder::new("gpu-kernels")
//!     .arch(NvvmArch::Compute70)
//!     .ptx_version(7, 0)
//!     .build_with_report()?;
//! println!("{} made by rustc {}", report.path.display(), report.rustc_version);
//! # Ok::<(), cuda_builder::CudaBuilderError>(())
//! ```
//! Progress goes to standard error. When nothing has changed, a second build takes about a
//! second. Equal sources, flags and compilers make equal bytes, wherever the folder lies.
//!
//! # What is done to the PTX
//! `#[kernel(max_threads = N, min_blocks = N, cluster = (X, Y, Z))]` leaves lines in the
//! module's assembly, which become directives of the entry ([`ptx::apply_kernel_lines`]). Then
//! the module is checked ([`ptx::check`]): the version and target asked for, no local memory,
//! no call, no generic access to shared memory.
//!
//! # How it differs from Rust-CUDA's
//! - The back end is rustc 1.95 or later, not rustc_codegen_nvvm with its own nightly, LLVM 7 and
//!   a CUDA toolkit.
//! - [`fma_contraction`](CudaBuilder::fma_contraction) is `false` by default, which is what
//!   `a * b + c` means in Rust.
//! - [`override_libm`](CudaBuilder::override_libm) is `false` by default.
//! - What this back end does not have is an error that names the option, never ignored:
//!   `ftz(true)`, `override_libm(true)`, `optix(true)`, `use_constant_memory_space(true)`,
//!   `nvvm_opts(false)`. There is no `nvptx_32`.
//! - [`release(false)`](CudaBuilder::release) is `opt-level` 1 with overflow checks and debug
//!   assertions, not the dev profile.
//! - The errors have the compiler's own message, and code that is slow by accident (local memory,
//!   calls, generic access to shared memory) is one, unless
//!   [allowed](CudaBuilder::allow_local).
//! - There is `core` only; `build_args(&["-Zbuild-std=core,alloc"])` adds `alloc` for a crate that
//!   brings a global allocator.
//! - More: [`ptx_version`](CudaBuilder::ptx_version),
//!   [`unroll_threshold`](CudaBuilder::unroll_threshold), [`target_dir`](CudaBuilder::target_dir),
//!   [`beside`](CudaBuilder::beside),
//!   [`build_with_report`](CudaBuilder::build_with_report).

mod arch;
mod cargo;
mod error;
pub mod ptx;
pub mod toolchain;

mod options;
mod sysroot;

pub use arch::{ArchVariant, NvvmArch};
pub use error::CudaBuilderError;
pub use options::DebugInfo;

use std::env;
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

use cargo::{Compile, DEVICE_TARGET, PROFILE, Package};
use options::Options;
use toolchain::DeviceToolchain;

/// Compiles a Rust crate to PTX.
///
/// The names are Rust-CUDA's; each method says what it does here. See the [crate] for
/// how to use it and how it differs.
#[derive(Clone, Debug)]
#[must_use = "nothing is compiled before `build`"]
pub struct CudaBuilder {
    path: PathBuf,
    options: Options,
}

/// A finished module and what made it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BuildReport {
    /// The PTX file.
    pub path: PathBuf,
    /// LLVM's text of the whole program after optimisation, if asked for.
    pub llvm_ir: Option<PathBuf>,
    /// The same as bitcode, if asked for.
    pub llvm_bitcode: Option<PathBuf>,
    /// The device compiler: release, commit and LLVM. Byte-equal PTX needs an equal one.
    pub rustc_version: String,
    /// The flags that decide on the code, without paths.
    pub flags: Vec<String>,
    /// The files that decide on the code, sorted: all of `src`, manifest and build script of the
    /// crate and its path dependencies, and what else of theirs the compiler has read
    /// (`include_bytes!`, a library outside `src`). Absolute paths.
    pub sources: Vec<PathBuf>,
    /// `name version` of each dependency that comes from a registry or repository, sorted.
    pub dependencies: Vec<String>,
}

impl CudaBuilder {
    /// A builder for the crate in this folder, the one with its `Cargo.toml`.
    pub fn new(path_to_crate_root: impl AsRef<Path>) -> Self {
        Self { path: path_to_crate_root.as_ref().to_owned(), options: Options::default() }
    }

    /// The architecture to compile for; the default is [`NvvmArch::Compute75`].
    ///
    /// A GPU runs PTX for its own architecture and for earlier ones. The device code can read
    /// the environment variable `CUDA_ARCH` (`700`, `900`, `1000`) at compile time.
    pub fn arch(mut self, arch: NvvmArch) -> Self {
        self.options.arch = arch;
        self
    }

    /// The PTX version to write, such as `(7, 0)` for what CUDA 11.0 and later load.
    ///
    /// The default is the lowest that knows the architecture, but at least 7.0.
    pub fn ptx_version(mut self, major: u32, minor: u32) -> Self {
        self.options.ptx_version = Some((major, minor));
        self
    }

    /// Whether to optimise fully and leave checks out; `true` by default.
    ///
    /// `false` keeps overflow checks and debug assertions (a failed one traps), optimises
    /// lightly (`opt-level` 1), and writes line information (see
    /// [`Self::generate_line_info`]). It often needs [`Self::allow_local`] and
    /// [`Self::allow_call`].
    pub fn release(mut self, release: bool) -> Self {
        self.options.release = release;
        self
    }

    /// What debug information to write, in release builds too; none by default.
    pub fn debug(mut self, debug: DebugInfo) -> Self {
        self.options.debug = debug;
        self
    }

    /// Whether to write line information, as [`DebugInfo::LineTables`] does. Unless this is called,
    /// a build that is not a release has it, and a release has none. (In Rust-CUDA a release
    /// ignores the call.)
    pub fn generate_line_info(mut self, generate_line_info: bool) -> Self {
        self.options.generate_line_info = Some(generate_line_info);
        self
    }

    /// `false` is refused by [`Self::build`]: there is no NVVM here. Use [`Self::release`].
    pub fn nvvm_opts(mut self, nvvm_opts: bool) -> Self {
        self.options.nvvm_opts = nvvm_opts;
        self
    }

    /// `true` (flush subnormal `f32` numbers to zero) is refused by [`Self::build`]: rustc
    /// cannot ask LLVM for it.
    pub fn ftz(mut self, ftz: bool) -> Self {
        self.options.ftz = ftz;
        self
    }

    /// Whether `f32` square roots are approximate (`sqrt.approx.f32`, at most 1 ulp off in
    /// most of the range) instead of rounded (`sqrt.rn.f32`); `false` by default.
    pub fn fast_sqrt(mut self, fast_sqrt: bool) -> Self {
        self.options.fast_sqrt = fast_sqrt;
        self
    }

    /// Whether `f32` divisions are approximate (`div.full.f32`, at most 2 ulp off) instead of
    /// rounded (`div.rn.f32`); `false` by default.
    pub fn fast_div(mut self, fast_div: bool) -> Self {
        self.options.fast_div = fast_div;
        self
    }

    /// Whether `a * b + c` becomes one fused operation with one rounding. **`false` by
    /// default**, unlike Rust-CUDA's: in Rust a product is rounded before the sum, and device
    /// code then gives what the same code gives on the CPU. It holds to the end, because the
    /// PTX says `mul.rn` and `add.rn`, which the driver may not fuse. An explicit
    /// `mul_add` is fused either way.
    pub fn fma_contraction(mut self, fma_contraction: bool) -> Self {
        self.options.fma_contraction = fma_contraction;
        self
    }

    /// Whether to write LLVM's text of the optimised whole program, beside the PTX
    /// ([`BuildReport::llvm_ir`]).
    pub fn emit_llvm_ir(mut self, emit_llvm_ir: bool) -> Self {
        self.options.emit_llvm_ir = emit_llvm_ir;
        self
    }

    /// Whether to write LLVM's bitcode of the optimised whole program, beside the PTX
    /// ([`BuildReport::llvm_bitcode`]).
    pub fn emit_llvm_bitcode(mut self, emit_llvm_bitcode: bool) -> Self {
        self.options.emit_llvm_bitcode = emit_llvm_bitcode;
        self
    }

    /// Where to copy LLVM's text of the optimised whole program.
    pub fn final_module_path(mut self, path: impl AsRef<Path>) -> Self {
        self.options.final_module_path = Some(path.as_ref().to_owned());
        self
    }

    /// Where to copy the finished PTX; [`Self::build`] then returns this path. A file that has
    /// the right content already is left alone.
    pub fn copy_to(mut self, path: impl AsRef<Path>) -> Self {
        self.options.copy_to = Some(path.as_ref().to_owned());
        self
    }

    /// More arguments for cargo, such as `--features` or `--locked`; calls add up.
    pub fn build_args(mut self, args: &[impl AsRef<str>]) -> Self {
        self.options.build_args.extend(args.iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// `true` is refused by [`Self::build`]: only plain CUDA modules are made.
    pub fn optix(mut self, optix: bool) -> Self {
        self.options.optix = optix;
        self
    }

    /// `true` is refused by [`Self::build`]: libdevice is not linked. `false` by default,
    /// unlike Rust-CUDA's.
    pub fn override_libm(mut self, override_libm: bool) -> Self {
        self.options.override_libm = override_libm;
        self
    }

    /// `true` is refused by [`Self::build`]: statics lie in global memory.
    pub fn use_constant_memory_space(mut self, use_constant_memory_space: bool) -> Self {
        self.options.use_constant_memory_space = use_constant_memory_space;
        self
    }

    /// How far LLVM unrolls loops, in its own unit (about one an instruction); 20000 by default.
    /// An array stays in registers only if every loop over it is unrolled whole.
    pub fn unroll_threshold(mut self, threshold: u32) -> Self {
        self.options.unroll_threshold = threshold;
        self
    }

    /// Whether the PTX may use local memory; `false` by default: a build that does is an error,
    /// because registers that spill there are the usual cause of a slow kernel.
    pub fn allow_local(mut self, allow_local: bool) -> Self {
        self.options.allow_local = allow_local;
        self
    }

    /// Whether the PTX may call functions; `false` by default: a build that does is an error.
    pub fn allow_call(mut self, allow_call: bool) -> Self {
        self.options.allow_call = allow_call;
        self
    }

    /// Cargo's target folder: what is built goes into `cuda-builder` in it, and a fetched
    /// compiler into `device-toolchain`. The default is the outer cargo's target folder in a
    /// build script, and else the one that cargo has for the kernel crate.
    pub fn target_dir(mut self, target_dir: impl AsRef<Path>) -> Self {
        self.options.target_dir = Some(target_dir.as_ref().to_owned());
        self
    }

    /// Builds in a folder of its own, `cuda-builder-NAME`, at the same time as builds that have
    /// another: those of one folder wait for each other, and the compiler takes a single core.
    pub fn beside(mut self, name: &str) -> Self {
        self.options.beside = Some(name.to_owned());
        self
    }

    /// Compiles the crate and returns the path of the PTX.
    ///
    /// In a build script it also tells cargo what to watch.
    ///
    /// # Errors
    /// An option that this back end does not have; no device compiler; a crate that does not
    /// compile ([`CudaBuilderError::BuildFailed`] has the compiler's message); PTX that breaks
    /// a rule of [`ptx::check`].
    pub fn build(self) -> Result<PathBuf, CudaBuilderError> {
        self.build_with_report().map(|report| report.path)
    }

    /// Like [`Self::build`], and tells what the PTX was made of.
    ///
    /// # Errors
    /// Those of [`Self::build`].
    pub fn build_with_report(self) -> Result<BuildReport, CudaBuilderError> {
        let options = &self.options;
        options.check()?;
        if !self.path.join("Cargo.toml").is_file() {
            return Err(CudaBuilderError::CratePathDoesntExist(self.path));
        }
        let reading = CudaBuilderError::io(format!("reading {}", self.path.display()));
        let folder = fs::canonicalize(&self.path).map_err(reading)?;
        let package = cargo::metadata(&folder, &options.build_args)?;
        if is_build_script() {
            watch(&package);
        }
        let target = match &options.target_dir {
            Some(folder) => std::path::absolute(folder)
                .map_err(CudaBuilderError::io(format!("finding {}", folder.display())))?,
            None => build_script_target().unwrap_or_else(|| package.target_directory.clone()),
        };
        let toolchain = DeviceToolchain::find_or_fetch(&toolchain::default_cache(&target))?;
        let target_dir = target.join(match &options.beside {
            Some(name) => format!("cuda-builder-{name}"),
            None => "cuda-builder".to_owned(),
        });
        let mut flags = options.all_flags();
        flags.extend(options.last_flags());
        let key = key(&flags, &folder, &options.build_args);
        let folder = target_dir.join(DEVICE_TARGET).join(PROFILE).join("ptx").join(key);
        let outputs = options.outputs(&folder, &package.lib_name);
        let mut last_flags = options.last_flags();
        last_flags
            .extend(outputs.iter().map(|(kind, path)| format!("--emit={kind}={}", path.display())));
        let failed = |message: String| CudaBuilderError::BuildFailed {
            package: package.name.clone(),
            arch: options.arch,
            message,
        };
        let mut all_flags = options.all_flags();
        all_flags.extend(sysroot::flags(&toolchain, options, &target)?.map_err(failed)?);
        let compile = Compile {
            toolchain: &toolchain,
            package: &package,
            target_dir: &target_dir,
            all_flags,
            last_flags,
            cuda_arch: options.arch.cuda_arch(),
            build_args: &options.build_args,
            outputs: outputs.iter().map(|(_, path)| path.clone()).collect(),
        };
        // Until all is delivered, no other build may write the outputs that this one reads.
        let _lock = compile.lock()?;
        let made = compile.run()?.map_err(failed)?;
        let read = compile.files_read()?;
        if is_build_script() {
            rerun_if_changed(&read);
            rerun_if_env_changed(compile.variables_read(&made));
        }
        let finished = self.finish(&package, &outputs[0].1)?;
        let path = deliver(&finished, &folder.join(format!("{}.ptx", package.lib_name)), options)?;
        let output = |kind| outputs.iter().find(|(k, _)| *k == kind).map(|(_, path)| path.clone());
        let llvm_ir = output("llvm-ir");
        if let (Some(from), Some(to)) = (&llvm_ir, &options.final_module_path) {
            let action = format!("copying LLVM's text to {}", to.display());
            fs::copy(from, to).map_err(CudaBuilderError::io(action))?;
        }
        Ok(BuildReport {
            path,
            llvm_ir,
            llvm_bitcode: output("llvm-bc"),
            rustc_version: toolchain.description().to_owned(),
            flags,
            sources: package.sources(read)?,
            dependencies: package.dependencies.clone(),
        })
    }

    /// Reads the compiler's text, writes the directives into it and checks it.
    fn finish(&self, package: &Package, path: &Path) -> Result<String, CudaBuilderError> {
        let options = &self.options;
        let text = fs::read_to_string(path)
            .map_err(CudaBuilderError::io(format!("reading the compiler's {}", path.display())))?;
        let asked = options.ptx_version();
        let expectations = ptx::Expectations {
            version: asked,
            target: options.arch.sm_name(),
            allow_local: options.allow_local,
            allow_call: options.allow_call,
        };
        // The check comes first: its line numbers are those of the file that is there to look at.
        ptx::check(&text, &expectations)
            .and_then(|()| ptx::apply_kernel_lines(&text))
            .map_err(|problem| CudaBuilderError::BadPtx {
                package: package.name.clone(),
                path: path.to_owned(),
                problem,
            })
            .and_then(|finished| match ptx::version(&finished) {
                Some(found) if found == asked => Ok(finished),
                _ => Err(CudaBuilderError::UnsupportedOption {
                    option: format!("ptx_version({}, {})", asked.0, asked.1),
                    reason: "this device compiler does not know that version".to_owned(),
                }),
            })
    }
}

/// Writes the PTX to its place and, if asked, to the copy; returns the path to hand out.
fn deliver(text: &str, place: &Path, options: &Options) -> Result<PathBuf, CudaBuilderError> {
    let action = format!("writing {}", place.display());
    write_if_new(place, text).map_err(CudaBuilderError::io(action))?;
    let Some(copy) = &options.copy_to else { return Ok(place.to_owned()) };
    write_if_new(copy, text)
        .map_err(|source| CudaBuilderError::FailedToCopyPtxFile { path: copy.clone(), source })?;
    Ok(copy.clone())
}

/// Leaves a file with this content alone, so that what includes it is not compiled again; else
/// the new content appears whole.
fn write_if_new(path: &Path, text: &str) -> std::io::Result<()> {
    if fs::read(path).is_ok_and(|present| present == text.as_bytes()) {
        return Ok(());
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let unfinished = path.with_file_name(name);
    fs::write(&unfinished, text)?;
    fs::rename(&unfinished, path)
}

/// A name for the folder of the outputs: different flags, crates and features must not share one.
fn key(flags: &[String], krate: &Path, build_args: &[String]) -> String {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    (flags, krate, build_args).hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Whether cargo runs this program as a build script.
fn is_build_script() -> bool {
    ["OUT_DIR", "PROFILE", "NUM_JOBS"].iter().all(|name| env::var_os(name).is_some())
}

/// In a build script: the outer cargo's target folder.
fn build_script_target() -> Option<PathBuf> {
    if !is_build_script() {
        return None;
    }
    let out = PathBuf::from(env::var_os("OUT_DIR")?);
    Some(target_of(&out, &env::var("TARGET").unwrap_or_default()).unwrap_or(out))
}

/// `target` of `target/[triple/]profile/build/package-hash/out`.
fn target_of(out: &Path, triple: &str) -> Option<PathBuf> {
    let build = out.ancestors().find(|folder| folder.ends_with("build"))?;
    let above = build.parent()?.parent()?;
    let target = if above.ends_with(triple) { above.parent()? } else { above };
    Some(target.to_owned())
}

/// Tells cargo what the PTX is made of.
fn watch(package: &Package) {
    rerun_if_changed(&package.watched());
    rerun_if_env_changed([toolchain::RUSTC_VARIABLE, toolchain::CACHE_VARIABLE]);
}

fn rerun_if_env_changed(names: impl IntoIterator<Item = impl Display>) {
    for name in names {
        println!("cargo:rerun-if-env-changed={name}");
    }
}

fn rerun_if_changed<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) {
    let out = env::var_os("OUT_DIR").and_then(|out| fs::canonicalize(out).ok());
    for path in paths {
        // What the script makes is newer than cargo's note of its run: it would run every time.
        if out.as_ref().is_none_or(|out| !path.starts_with(out)) {
            println!("cargo:rerun-if-changed={}", path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_folder_of_a_build_script() {
        let triple = "x86_64-unknown-linux-gnu";
        for out in ["/w/target/debug/build/a-1/out", "/w/target/debug/build/a/1/out"] {
            assert_eq!(target_of(Path::new(out), triple).unwrap(), Path::new("/w/target"));
        }
        let out = format!("/w/target/{triple}/release/build/a-1/out");
        assert_eq!(target_of(Path::new(&out), triple).unwrap(), Path::new("/w/target"));
        assert!(target_of(Path::new("/somewhere/else"), triple).is_none());
    }

    #[test]
    fn files_with_the_right_content_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.ptx");
        write_if_new(&path, "one").unwrap();
        let before = fs::metadata(&path).unwrap().modified().unwrap();
        write_if_new(&path, "one").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), before);
        write_if_new(&path, "two").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
