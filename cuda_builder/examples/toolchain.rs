//! Finds the device compiler, or fetches it into a folder:
//! `cargo run -p cuda_builder --example toolchain -- FOLDER`.

use std::error::Error;
use std::path::PathBuf;

use cuda_builder::toolchain::DeviceToolchain;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).ok_or("the cache folder is missing")?;
    match DeviceToolchain::find_or_fetch(&PathBuf::from(folder)) {
        Ok(toolchain) => {
            println!("rustc {} ({})", toolchain.description(), toolchain.source());
            Ok(())
        }
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1)
        }
    }
}
