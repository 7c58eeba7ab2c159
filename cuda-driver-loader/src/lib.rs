//! The CUDA driver's symbols, opened at run time.
//!
//! `cust` and `cust_raw` link against `libcuda`: without a CUDA toolkit a program does not build,
//! and without a driver it does not start. This crate defines every `cu*` function that cust_raw
//! 0.11.3 declares as a forwarder, which opens the driver's library at the first call. So a program
//! builds with no toolkit and starts with no driver, and `cust::init` answers [`NO_DEVICE`] there.
//!
//! A program uses it with one line, which a dependency in Cargo.toml alone does not replace (an
//! unused crate is not linked):
//!
//! ```
//! extern crate cuda_driver_loader as _;
//! ```
//!
//! The build scripts of cust and cust_raw still look for a folder with a `lib64` in it;
//! `CUDA_LIBRARY_PATH=/` is one on most 64-bit Linux systems, any other will do, nothing needs to
//! be in it.
//!
//! # What a forwarder answers
//! | state | answer |
//! |---|---|
//! | no driver library, `cuInit` | 100 `CUDA_ERROR_NO_DEVICE` |
//! | no driver library, all others | 3 `CUDA_ERROR_NOT_INITIALIZED` |
//! | the driver lacks the function | 500 `CUDA_ERROR_NOT_FOUND` |
//! | the driver answers a code that cust_raw's enum has | that code |
//! | the driver answers a newer code | 999 `CUDA_ERROR_UNKNOWN` |
//!
//! The last row keeps a code that is no variant out of a Rust enum. [`last_error`] has the code as
//! the driver gave it. Functions got by [`symbol`] have the same by [`answered`].
//!
//! # The library
//! `libcuda.so.1`, then `libcuda.so`; or what the environment variable `CUDA_DRIVER_LIBRARY` names,
//! unless it is empty, and nothing else then. It is never closed.

mod codes;
mod forward;

use libloading::Library;
use std::error::Error;
use std::ffi::CStr;
use std::sync::OnceLock;

pub use codes::{NO_DEVICE, NOT_FOUND, NOT_INITIALIZED, answered, describe, last_error};
pub use forward::FORWARDED;

#[cfg(not(windows))]
const LIBRARIES: &[&str] = &["libcuda.so.1", "libcuda.so"];
#[cfg(windows)]
const LIBRARIES: &[&str] = &["nvcuda.dll"];

/// Names the driver's library, instead of the system's.
const OVERRIDE: &str = "CUDA_DRIVER_LIBRARY";

/// The driver's library, opened once; or why it could not be.
fn library() -> Result<&'static Library, &'static str> {
    static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
    LIBRARY.get_or_init(open).as_ref().map_err(String::as_str)
}

fn open() -> Result<Library, String> {
    // An empty name would open the program itself.
    if let Some(path) = std::env::var_os(OVERRIDE).filter(|path| !path.is_empty()) {
        // SAFETY: the library's initialisers run; the user has named it as the driver.
        return unsafe { Library::new(&path) }
            .map_err(|error| format!("{OVERRIDE}: {}", reason(error)));
    }
    let mut reasons = Vec::new();
    for name in LIBRARIES {
        // SAFETY: the library's initialisers run; it is the system's driver.
        match unsafe { Library::new(*name) } {
            Ok(library) => return Ok(library),
            Err(error) => reasons.push(reason(error)),
        }
    }
    Err(reasons.join("; "))
}

/// The system's own words: libloading's `Display` only names the call that failed.
fn reason(error: libloading::Error) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

/// Why the driver's library could not be opened; `None` where it was.
pub fn load_error() -> Option<&'static str> {
    library().err()
}

/// The address of the driver's function `name`, for those that are newer than cust_raw; `None`
/// where there is no driver, or it has no such function.
///
/// The caller casts it to a pointer of the function's type as `cuda.h` declares it, but with
/// `c_int` for the answer, and gives that to [`answered`].
///
/// ```
/// // CUDA 12.0
/// let launch_ex = cuda_driver_loader::symbol(c"cuLaunchKernelEx");
/// assert_eq!(launch_ex.is_some(), cuda_driver_loader::load_error().is_none());
/// ```
pub fn symbol(name: &CStr) -> Option<*const ()> {
    // SAFETY: the symbol is a function, and a function's address may be held as a pointer; it is
    // not called here.
    let address = unsafe { library().ok()?.get::<*const ()>(name) };
    address.ok().map(|address| *address).filter(|address| !address.is_null())
}
