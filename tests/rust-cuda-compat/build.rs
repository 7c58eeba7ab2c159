//! Tells the kernels' source that it is compiled against Rust-CUDA.

fn main() {
    println!("cargo::rustc-cfg=rust_cuda");
    println!("cargo::rerun-if-changed=build.rs");
}
