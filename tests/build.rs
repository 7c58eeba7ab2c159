//! Compiles the kernels of tests/device and tests/own-kernels, so that the test binary carries
//! their PTX and needs no device compiler where it runs.

use std::env;
use std::error::Error;
use std::path::PathBuf;
use std::thread;

use cuda_builder::{CudaBuilder, NvvmArch};

type Done = Result<(), Box<dyn Error + Send + Sync>>;

fn main() -> Done {
    // In two folders at one time: the compiler takes a single core.
    let hopper = thread::spawn(for_hopper);
    // sm_70 has the fallbacks for what the hardware lacks; sm_80 has it, but for the tensor cores'
    // f64.
    build(NvvmArch::Compute70, "sm_70", "")?;
    build(NvvmArch::Compute80, "sm_80", "sm_80")?;
    build(NvvmArch::Compute90, "sm_90", "sm_80,sm_90")?;
    build_own(NvvmArch::Compute80, "sm_80")?;
    hopper.join().map_err(|_| "a build for sm_90a panicked")?
}

fn for_hopper() -> Done {
    build(NvvmArch::Compute90a, "sm_90a", "sm_80,sm_90,sm_90a")?;
    build_own(NvvmArch::Compute90a, "sm_90a")
}

fn build(arch: NvvmArch, target: &str, features: &str) -> Done {
    let (major, minor) = arch.min_ptx_version().max((7, 0));
    // Local memory is for `isspacep.local`; the test sees to it that nothing else is local.
    let builder = CudaBuilder::new("device").ptx_version(major, minor).allow_local(true);
    finish(builder, arch, &format!("device_functions_{target}"), features)
}

/// As a user of the library builds kernels with epilogues.
fn build_own(arch: NvvmArch, target: &str) -> Done {
    finish(CudaBuilder::new("own-kernels"), arch, &format!("own_kernels_{target}"), target)
}

/// Leaves a kernel crate's PTX in a file whose path is in an environment variable.
fn finish(builder: CudaBuilder, arch: NvvmArch, name: &str, features: &str) -> Done {
    // What is for Hopper is compiled in a folder of its own, beside the others.
    let builder = if arch == NvvmArch::Compute90a { builder.beside("hopper") } else { builder };
    let path = PathBuf::from(env::var("OUT_DIR")?).join(format!("{name}.ptx"));
    builder
        .arch(arch)
        .build_args(&["--no-default-features", "--features", features])
        .copy_to(&path)
        .build()?;
    println!("cargo::rustc-env={}={}", name.to_uppercase(), path.display());
    Ok(())
}
