//! Compiles the kernels of tests/device and tests/own-kernels, so that the test binary carries
//! their PTX and needs no device compiler where it runs.

use std::env;
use std::error::Error;
use std::path::PathBuf;

use cuda_builder::{CudaBuilder, NvvmArch};

fn main() -> Result<(), Box<dyn Error>> {
    // sm_70 has the fallbacks for what the hardware lacks; sm_80 has it, but for the tensor cores'
    // f64.
    build(NvvmArch::Compute70, "sm_70", "")?;
    build(NvvmArch::Compute80, "sm_80", "sm_80")?;
    build(NvvmArch::Compute90, "sm_90", "sm_80,sm_90")?;
    build(NvvmArch::Compute90a, "sm_90a", "sm_80,sm_90,sm_90a")?;
    build_own(NvvmArch::Compute80, "sm_80")?;
    build_own(NvvmArch::Compute90a, "sm_90a")
}

/// As a user of the library builds kernels with epilogues.
fn build_own(arch: NvvmArch, target: &str) -> Result<(), Box<dyn Error>> {
    let path = PathBuf::from(env::var("OUT_DIR")?).join(format!("own_kernels_{target}.ptx"));
    CudaBuilder::new("own-kernels")
        .arch(arch)
        .build_args(&["--no-default-features", "--features", target])
        .copy_to(&path)
        .build()?;
    println!("cargo::rustc-env=OWN_KERNELS_{}={}", target.to_uppercase(), path.display());
    Ok(())
}

fn build(arch: NvvmArch, name: &str, features: &str) -> Result<(), Box<dyn Error>> {
    let path = PathBuf::from(env::var("OUT_DIR")?).join(format!("device_functions_{name}.ptx"));
    let (major, minor) = arch.min_ptx_version().max((7, 0));
    CudaBuilder::new("device")
        .arch(arch)
        .ptx_version(major, minor)
        .allow_local(true) // For `isspacep.local`; the test sees to it that nothing else is local.
        .build_args(&["--no-default-features", "--features", features])
        .copy_to(&path)
        .build()?;
    println!("cargo::rustc-env=DEVICE_FUNCTIONS_{}={}", name.to_uppercase(), path.display());
    Ok(())
}
