//! Makes the `-lcuda` of cust's and cust_raw's build scripts resolve where no CUDA toolkit is.
//!
//! An empty archive is enough: the symbols are this crate's, and the real driver is opened at run
//! time.

use std::path::PathBuf;
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    fs::write(out.join("libcuda.a"), b"!<arch>\n").expect("OUT_DIR can be written to");
    println!("cargo:rustc-link-search=native={}", out.display());
}
