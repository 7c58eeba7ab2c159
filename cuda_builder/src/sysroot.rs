//! `core` for device code, compiled once for all architectures.
//!
//! What it is compiled to is LLVM's code, which has no instructions of an architecture in it; the
//! last step of a build makes them. So `core` is made for the oldest architecture, and kept in a
//! folder that rustc takes for its sysroot.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::cargo::{DEVICE_TARGET, builds_std, device_command, run};
use crate::error::CudaBuilderError;
use crate::key;
use crate::options::Options;
use crate::toolchain::DeviceToolchain;

/// The crate of which cargo makes `core` a dependency.
const MANIFEST: &str = "[package]\nname = \"nothing\"\nedition = \"2024\"\n[workspace]\n";

/// The flags with which builds with these options below `target` find `core`: none where they ask
/// for other libraries, with which they get it. The error within is the message of rustc or cargo.
pub(crate) fn flags(
    toolchain: &DeviceToolchain,
    options: &Options,
    target: &Path,
) -> Result<Result<Vec<String>, String>, CudaBuilderError> {
    if builds_std(&options.build_args) {
        return Ok(Ok(Vec::new()));
    }
    let sysroot = find_or_make(toolchain, options, target)?;
    Ok(sysroot.map(|sysroot| vec![format!("--sysroot={}", sysroot.display())]))
}

/// The sysroot, made where there is none yet.
fn find_or_make(
    toolchain: &DeviceToolchain,
    options: &Options,
    target: &Path,
) -> Result<Result<PathBuf, String>, CudaBuilderError> {
    let folder = target.join("cuda-builder-core");
    let flags = options.core_flags();
    let made_by = [toolchain.description().to_owned(), toolchain.rustc().display().to_string()];
    let sysroot = folder.join(key(&flags, toolchain.rustc(), &made_by));
    let working = |path: &Path| CudaBuilderError::io(format!("writing {}", path.display()));
    fs::create_dir_all(&folder).map_err(working(&folder))?;
    let path = folder.join("lock");
    let lock = File::create(&path).and_then(|file| file.lock().map(|()| file));
    let _lock = lock.map_err(CudaBuilderError::io(format!("locking {}", path.display())))?;
    // It appears whole or not at all.
    if sysroot.is_dir() {
        return Ok(Ok(sysroot));
    }
    let place = sysroot.with_extension("new");
    let (krate, libraries) = (place.join("crate"), place.join("root").join(library_folder()));
    for folder in [&krate.join("src"), &libraries] {
        fs::create_dir_all(folder).map_err(working(folder))?;
    }
    fs::write(krate.join("Cargo.toml"), MANIFEST).map_err(working(&krate))?;
    fs::write(krate.join("src/lib.rs"), "#![no_std]\n").map_err(working(&krate))?;
    let mut command = device_command(toolchain, &krate, &place.join("target"), &flags);
    command.args(["--crate-type", "rlib", "-Zbuild-std=core"]);
    let made = match run(command)? {
        Ok(made) => made,
        Err(message) => return Ok(Err(message)),
    };
    let made = made.files.iter().filter(|file| file.extension().is_some_and(|e| e == "rlib"));
    for library in made.filter(|library| !library.ends_with("libnothing.rlib")) {
        let name = library.file_name().unwrap_or_default();
        fs::copy(library, libraries.join(name)).map_err(working(&libraries))?;
    }
    fs::rename(place.join("root"), &sysroot).map_err(working(&sysroot))?;
    // What is left is in nobody's way.
    let _ = fs::remove_dir_all(&place);
    Ok(Ok(sysroot))
}

/// Where rustc looks for a target's libraries in a sysroot.
fn library_folder() -> PathBuf {
    Path::new("lib/rustlib").join(DEVICE_TARGET).join("lib")
}
