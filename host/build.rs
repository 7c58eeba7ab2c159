//! Deflates the kernels' PTX, each kernel by itself: as text it would make every program with the
//! library 25 MB larger.

use std::env;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use gemm_spec::{Target, module_entries, module_head};
use miniz_oxide::deflate::compress_to_vec;

/// Deflate's fastest: build scripts are not optimised.
const LEVEL: u8 = 1;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=ptx");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    // The heads of the modules in the order of `Target::ALL`, and the entries.
    let (mut heads, mut entries) = (String::new(), String::new());
    let store = |name: &str, text: &str| -> Result<String, Box<dyn Error>> {
        let path = out.join(format!("{name}.deflated"));
        fs::write(&path, compress_to_vec(text.as_bytes(), LEVEL))?;
        Ok(format!("include_bytes!({:?})", path.to_str().ok_or("OUT_DIR is not UTF-8")?))
    };
    for target in Target::ALL {
        let file = format!("ptx/{}.ptx", target.arch());
        let module = fs::read_to_string(&file).map_err(|error| format!("{file}: {error}"))?;
        let module = module.replace("\r\n", "\n");
        writeln!(heads, "    {},", store(target.arch(), module_head(&module))?)?;
        for entry in module_entries(&module) {
            let bytes = store(&format!("{}-{}", target.arch(), entry.name), entry.text)?;
            let (name, line) = (entry.name, entry.line);
            writeln!(entries, "    (Target::{target:?}, {name:?}, {line}, {bytes}),")?;
        }
    }
    let code = format!(
        "static HEADS: &[&[u8]] = &[\n{heads}];\n\
         static ENTRIES: &[(Target, &str, usize, &[u8])] = &[\n{entries}];\n"
    );
    Ok(fs::write(out.join("ptx.rs"), code)?)
}
