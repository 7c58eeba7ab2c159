//! Compiles the kernels of tests/device, so that the test binary carries their PTX and needs no
//! device compiler where it runs.

use std::env;
use std::error::Error;
use std::path::PathBuf;

use cuda_builder::{CudaBuilder, NvvmArch};

fn main() -> Result<(), Box<dyn Error>> {
    // sm_70 has the fallbacks for what the hardware lacks; sm_80 has it.
    build(NvvmArch::Compute70, "sm_70", &[])?;
    build(NvvmArch::Compute80, "sm_80", &["--features", "sm_80"])
}

fn build(arch: NvvmArch, name: &str, arguments: &[&str]) -> Result<(), Box<dyn Error>> {
    let path = PathBuf::from(env::var("OUT_DIR")?).join(format!("device_functions_{name}.ptx"));
    CudaBuilder::new("device")
        .arch(arch)
        .ptx_version(7, 0)
        .allow_local(true) // For `isspacep.local`; the test sees to it that nothing else is local.
        .build_args(arguments)
        .copy_to(&path)
        .build()?;
    println!("cargo::rustc-env=DEVICE_FUNCTIONS_{}={}", name.to_uppercase(), path.display());
    Ok(())
}
