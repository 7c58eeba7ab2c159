//! Compiles the crate in a folder:
//! `cargo run -p cuda_builder --example ptx -- FOLDER [ARCH [CARGO'S ARGUMENTS]]`.

use std::error::Error;

use cuda_builder::{CudaBuilder, NvvmArch};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("the folder of a kernel crate is missing")?;
    let arch: NvvmArch = arguments.next().as_deref().unwrap_or("sm_75").parse()?;
    let build_args: Vec<String> = arguments.collect();
    let builder = CudaBuilder::new(folder).arch(arch).build_args(&build_args);
    let report = builder.build_with_report()?;
    println!("{} by rustc {}", report.path.display(), report.rustc_version);
    Ok(())
}
