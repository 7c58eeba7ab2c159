//! Compiles the crate in `tests/fixture` and looks at the PTX and the errors.
//!
//! All builds share the workspace's target folder, so `core` is compiled once, and the device
//! compiler is fetched at most once. Needs one (see `cuda_builder::toolchain`), and no GPU.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use cuda_builder::{BuildReport, CudaBuilder, CudaBuilderError, NvvmArch, ptx};

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixture")
}

/// The workspace's target folder.
fn target() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("`target/tmp` has a parent")
}

/// As the workspace's own kernels are built for the oldest GPUs.
fn builder() -> CudaBuilder {
    CudaBuilder::new(fixture()).arch(NvvmArch::Compute70).ptx_version(7, 0).target_dir(target())
}

fn built(builder: CudaBuilder) -> (BuildReport, String) {
    let report = builder.build_with_report().unwrap_or_else(|error| panic!("{error}"));
    let text = fs::read_to_string(&report.path).unwrap();
    (report, text)
}

/// The body of one kernel.
fn body<'a>(text: &'a str, kernel: &str) -> &'a str {
    let start = text.find(&format!(".entry {kernel}(")).expect("the kernel is there");
    let end = text[start..].find("\n}").expect("its body ends") + start;
    &text[start..end]
}

#[test]
fn the_ptx_is_what_was_asked_for() {
    let (report, text) = built(builder());
    let entries = ptx::entries(&text);
    let mut names: Vec<_> = entries.iter().map(|entry| entry.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["accumulators", "arithmetic", "checked", "staged"]);
    let arithmetic = entries.iter().find(|entry| entry.name == "arithmetic").unwrap();
    assert_eq!(arithmetic.directives, [".maxntid 256, 1, 1", ".minnctapersm 2"]);
    assert_eq!(arithmetic.params.len(), 2);
    assert!(!text.contains("@kernel"));
    assert_eq!(ptx::version(&text), Some((7, 0)));
    assert!(text.contains(".target sm_70\n"));
    assert!(body(&text, "arithmetic").contains(", 700;"), "CUDA_ARCH did not reach the crate");
    // The fixture's own profile asks for no optimisation and for checks.
    assert!(!body(&text, "checked").contains("setp.eq.b64"), "{}", body(&text, "checked"));
    assert!(!text.contains(".file") && !text.contains(".loc"));
    let sources = ["Cargo.toml", "src/lib.rs"].map(|name| fixture().join(name));
    assert_eq!(report.sources, sources);
    assert!(report.dependencies.is_empty());
    assert!(report.rustc_version.contains("LLVM"), "{}", report.rustc_version);
    let paths = fixture().display().to_string();
    assert!(!text.contains(&paths) && !report.flags.concat().contains(&paths));
}

#[test]
fn nothing_is_done_twice_and_a_lost_file_is_made_again() {
    let (report, text) = built(builder());
    let assembly = report.path.with_extension("s");
    let written = fs::metadata(&assembly).unwrap().modified().unwrap();
    let start = Instant::now();
    built(builder());
    assert_eq!(fs::metadata(&assembly).unwrap().modified().unwrap(), written, "compiled again");
    // About a second when nothing else runs; other tests' builds may hold cargo's lock.
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    fs::remove_file(&assembly).unwrap();
    fs::remove_file(&report.path).unwrap();
    assert_eq!(built(builder()).1, text);
}

#[test]
fn copies_and_llvm_files() {
    let folder = tempfile::tempdir().unwrap();
    let [copy, module] = ["copy.ptx", "module.ll"].map(|name| folder.path().join(name));
    let all = builder().copy_to(&copy).final_module_path(&module).emit_llvm_bitcode(true);
    let (report, text) = built(all);
    assert_eq!(report.path, copy);
    let ir = fs::read_to_string(&module).unwrap();
    assert!(ir.contains("ptx_kernel void @arithmetic"), "no kernel in the LLVM text");
    assert_eq!(fs::read_to_string(report.llvm_ir.unwrap()).unwrap(), ir);
    assert!(fs::read(report.llvm_bitcode.unwrap()).unwrap().starts_with(b"BC"));
    assert_eq!(text, built(builder()).1, "the extra files change the code");
    assert!(built(builder()).0.llvm_ir.is_none());
    let nowhere = builder().copy_to(folder.path().join("no/folder.ptx")).build();
    assert!(matches!(nowhere, Err(CudaBuilderError::FailedToCopyPtxFile { .. })), "{nowhere:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn no_other_build_starts_before_all_is_copied() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("module.ll");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let build = {
        let builder = builder().final_module_path(&pipe);
        std::thread::spawn(move || built(builder))
    };
    // Opens when the build begins to copy; it then waits for us, as the text is no pipe's fill.
    let copied = fs::File::open(&pipe).unwrap();
    let lock = fs::File::open(target().join("cuda-builder/lock")).unwrap();
    for _ in 0..10 {
        assert!(lock.try_lock().is_err(), "another build could write what is being copied");
        std::thread::sleep(Duration::from_millis(20));
    }
    let text = std::io::read_to_string(copied).unwrap();
    assert!(text.len() > 1 << 16, "a pipe holds these {} bytes", text.len());
    assert_eq!(text, fs::read_to_string(build.join().unwrap().0.llvm_ir.unwrap()).unwrap());
}

#[test]
fn numeric_options_change_the_instructions() {
    let exact = ["mul.rn.f32", "add.rn.f32", "div.rn.f32", "sqrt.rn.f32"];
    let fast = ["fma.rn.f32", "div.full.f32", "sqrt.approx.f32"];
    let has = |builder: CudaBuilder, present: &[&str], absent: &[&str]| {
        let (_, text) = built(builder);
        let body = body(&text, "arithmetic");
        assert!(present.iter().all(|word| body.contains(word)), "{present:?} not in {body}");
        assert!(absent.iter().all(|word| !body.contains(word)), "{absent:?} in {body}");
    };
    has(builder(), &exact, &fast);
    has(builder().fma_contraction(true), &fast[..1], &fast[1..]);
    has(builder().fma_contraction(false).fast_div(true), &fast[1..2], &["fma.", "sqrt.approx"]);
    has(builder().fast_sqrt(true), &fast[2..], &["fma.", "div.full"]);
    // And back: cargo must not take one for the other.
    has(builder(), &exact, &fast);
}

#[test]
fn fast_sqrt_is_for_cuda_std_too() {
    let folder = tempfile::tempdir().unwrap();
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let manifest = format!(
        "[package]\nname = \"roots\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n\
        [dependencies]\ncuda_std = {{ path = {:?} }}\n",
        workspace.join("cuda_std")
    );
    let library = "#![no_std]\n#![feature(abi_ptx, asm_experimental_arch)]\n\
        use cuda_std::{GpuFloat, kernel};\n\
        #[kernel]\npub unsafe fn roots(x: *mut f32, y: *mut f64) {\n\
        unsafe { *x = GpuFloat::sqrt(*x); *y = GpuFloat::sqrt(*y); } }\n";
    // The workspace's versions, so that cargo asks no registry for others.
    let lock = fs::read_to_string(workspace.join("Cargo.lock")).unwrap();
    let files = [
        ("kernels/Cargo.toml", &*manifest),
        ("kernels/Cargo.lock", &lock),
        ("kernels/src/lib.rs", library),
    ];
    let krate = write_crate(folder.path(), &files);
    let builder = CudaBuilder::new(krate).arch(NvvmArch::Compute70).target_dir(target());
    for (fast, root) in [(false, "sqrt.rn.f32"), (true, "sqrt.approx.f32")] {
        let (_, text) = built(builder.clone().fast_sqrt(fast));
        let roots = body(&text, "roots");
        assert!(roots.contains(root) && roots.contains("sqrt.rn.f64"), "{roots}");
        assert_eq!(roots.matches("sqrt.").count(), 2, "{roots}");
    }
}

#[test]
fn rules_hold_unless_lifted() {
    let with = |feature| builder().build_args(&["--features", feature]);
    let problem = |builder: CudaBuilder| match builder.build() {
        Err(CudaBuilderError::BadPtx { problem, .. }) => problem,
        other => panic!("{other:?}"),
    };
    let found = problem(with("local"));
    assert!(
        matches!(&found, ptx::PtxProblem::Local { function, .. } if function == "local"),
        "{found}"
    );
    built(with("local").allow_local(true));
    let found = problem(with("call"));
    assert!(
        matches!(&found, ptx::PtxProblem::Call { function, .. } if function == "call"),
        "{found}"
    );
    built(with("call").allow_call(true));
    let found = problem(with("generic-shared"));
    assert!(matches!(&found, ptx::PtxProblem::GenericShared { .. }), "{found}");
    let found = problem(with("bad-bounds"));
    assert!(found.to_string().contains("1024 threads"), "{found}");
    // LLVM's own threshold leaves the accumulators in local memory: the check sees it.
    let found = problem(builder().unroll_threshold(300));
    assert!(
        matches!(&found, ptx::PtxProblem::Local { function, .. } if function == "accumulators"),
        "{found}"
    );
}

#[test]
fn a_broken_crate_shows_the_compilers_message() {
    let error = builder().build_args(&["--features", "broken"]).build().unwrap_err();
    let text = error.to_string();
    for part in ["fixture-kernels", "error[E0308]: mismatched types", "src/lib.rs", "not a number"]
    {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
    // Cargo's own errors, before any rustc runs.
    let error = builder().build_args(&["--features", "nowhere"]).build().unwrap_err();
    assert!(error.to_string().contains("nowhere"), "{error}");
    let error = builder().ptx_version(9, 9).build().unwrap_err();
    assert!(error.to_string().contains("9, 9"), "{error}");
}

#[test]
fn a_folder_without_a_crate() {
    let folder = tempfile::tempdir().unwrap();
    let none = CudaBuilder::new(folder.path()).build();
    assert!(matches!(none, Err(CudaBuilderError::CratePathDoesntExist(_))), "{none:?}");
    fs::write(folder.path().join("Cargo.toml"), "[package]\nname = 3\n").unwrap();
    let error = CudaBuilder::new(folder.path()).build().unwrap_err();
    assert!(matches!(error, CudaBuilderError::Metadata { .. }), "{error:?}");
    assert!(error.to_string().contains("Cargo.toml"), "{error}");
}

#[test]
fn options_that_this_back_end_has_not() {
    let refused: [(CudaBuilder, &str); 5] = [
        (builder().ftz(true), "ftz(true)"),
        (builder().nvvm_opts(false), "nvvm_opts(false)"),
        (builder().optix(true), "optix(true)"),
        (builder().override_libm(true), "override_libm(true)"),
        (builder().use_constant_memory_space(true), "use_constant_memory_space(true)"),
    ];
    for (builder, name) in refused {
        let error = builder.build().unwrap_err();
        assert!(
            matches!(&error, CudaBuilderError::UnsupportedOption { option, .. } if option == name),
            "{error:?}"
        );
        assert!(error.to_string().contains(name), "{error}");
    }
    let old = builder().arch(NvvmArch::Compute90a).ptx_version(7, 8).build().unwrap_err();
    assert_eq!(old.to_string(), "PTX 7.8 does not know compute_90a: it needs 8.0 or later");
}

/// A crate with its library outside `src`, an optional path dependency, and files of both that
/// code includes.
fn scattered_crate(folder: &Path) -> PathBuf {
    let manifest = "[package]\nname = \"scattered\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\
        [lib]\npath = \"device/lib.rs\"\n[workspace]\n\
        [dependencies]\nextra = { path = \"../extra\", optional = true }\n";
    let library = "#![no_std]\n#![feature(abi_ptx)]\n\
        #[panic_handler]\nfn panic(_: &core::panic::PanicInfo) -> ! { loop {} }\n\
        static TABLE: &[u8] = include_bytes!(\"../tables/own.bin\");\n\
        #[cfg(feature = \"extra\")] use extra::TABLE as MORE;\n\
        #[cfg(not(feature = \"extra\"))] static MORE: &str = \"\";\n\
        #[unsafe(no_mangle)]\npub unsafe extern \"ptx-kernel\" fn lookup(x: *mut u8, i: usize) {\n\
        unsafe { *x = TABLE.get(i).copied().unwrap_or(0) + MORE.as_bytes().len() as u8 } }\n";
    let extra = "[package]\nname = \"extra\"\nversion = \"0.0.0\"\nedition = \"2024\"\n";
    let files = [
        ("kernels/Cargo.toml", manifest),
        ("kernels/device/lib.rs", library),
        ("kernels/tables/own.bin", "abc"),
        ("extra/Cargo.toml", extra),
        (
            "extra/src/lib.rs",
            "#![no_std]\npub static TABLE: &str = include_str!(\"../more.txt\");\n",
        ),
        ("extra/more.txt", "abcd"),
    ];
    write_crate(folder, &files)
}

/// Writes files of the crate `kernels` and of others beside it; its folder.
fn write_crate(folder: &Path, files: &[(&str, &str)]) -> PathBuf {
    for (name, text) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    fs::canonicalize(folder.join("kernels")).unwrap()
}

#[test]
fn all_that_the_compiler_reads_is_a_source() {
    let folder = tempfile::Builder::new().prefix("with space").tempdir().unwrap();
    let krate = scattered_crate(folder.path());
    let extra = krate.with_file_name("extra");
    let base = CudaBuilder::new(&krate).arch(NvvmArch::Compute70).ptx_version(7, 0);
    let base = base.target_dir(target());
    let own = ["Cargo.toml", "device/lib.rs", "tables/own.bin"].map(|name| krate.join(name));
    assert_eq!(built(base.clone()).0.sources, own);
    let all = ["Cargo.toml", "more.txt", "src/lib.rs"].map(|name| extra.join(name));
    let all: Vec<_> = all.into_iter().chain(own).collect();
    for features in [&["--features", "extra"][..], &["-Fextra"], &["--all-features"]] {
        assert_eq!(built(base.clone().build_args(features)).0.sources, all, "{features:?}");
    }
    // Cargo has to watch them too, once each.
    let said = as_build_script(&krate, &["--features=extra"], &[]);
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    for path in all {
        let line = format!("cargo:rerun-if-changed={}\n", path.display());
        let of_folder = format!("cargo:rerun-if-changed={}\n", path.parent().unwrap().display());
        assert!(said.contains(&line) || said.contains(&of_folder), "{line:?} is not in:\n{said}");
    }
    assert_eq!(said.matches("own.bin\n").count(), 1, "{said}");
    // A library outside `src` too, where it does not compile.
    fs::write(krate.join("device/lib.rs"), "#![no_std]\nmod other;\n").unwrap();
    fs::write(krate.join("device/other.rs"), "static X: u32 = \"\";\n").unwrap();
    let broken = as_build_script(&krate, &[], &[]);
    assert!(!broken.status.success());
    let said = String::from_utf8_lossy(&broken.stdout).into_owned();
    let line = format!("cargo:rerun-if-changed={}\n", krate.join("device").display());
    assert!(said.contains(&line), "{line:?} is not in:\n{said}");
}

/// A crate with a build script of its own, and a file that the outer build script makes for it.
#[cfg(unix)]
#[test]
fn what_build_scripts_make_is_not_watched() {
    let folder = tempfile::tempdir().unwrap();
    let made = out_dir().join("made.bin");
    fs::create_dir_all(out_dir()).unwrap();
    fs::write(&made, "abc").unwrap();
    let made = fs::canonicalize(made).unwrap();
    let library = format!(
        "#![no_std]\n#![feature(abi_ptx)]\n\
        #[panic_handler]\nfn panic(_: &core::panic::PanicInfo) -> ! {{ loop {{}} }}\n\
        static OWN: &str = include_str!(concat!(env!(\"OUT_DIR\"), \"/own.txt\"));\n\
        static MADE: &[u8] = include_bytes!({made:?});\n\
        #[unsafe(no_mangle)]\npub unsafe extern \"ptx-kernel\" fn length(x: *mut usize) {{\n\
        unsafe {{ *x = OWN.len() + MADE.len() }} }}\n"
    );
    let script = "fn main() { let out = std::path::PathBuf::from(std::env::var_os(\"OUT_DIR\")\
        .unwrap()); std::fs::write(out.join(\"own.txt\"), \"own\").unwrap(); }\n";
    let manifest = "[package]\nname = \"making\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\
        [workspace]\n";
    let krate = write_crate(
        folder.path(),
        &[
            ("kernels/Cargo.toml", manifest),
            ("kernels/build.rs", script),
            ("kernels/src/lib.rs", &library),
        ],
    );
    // The target folder may lie behind a link.
    let link = folder.path().join("target");
    std::os::unix::fs::symlink(target(), &link).unwrap();
    let builder = CudaBuilder::new(&krate).arch(NvvmArch::Compute70).ptx_version(7, 0);
    let (report, _) = built(builder.target_dir(&link));
    let mut sources =
        ["Cargo.toml", "build.rs", "src/lib.rs"].map(|name| krate.join(name)).to_vec();
    sources.push(made);
    sources.sort();
    assert_eq!(report.sources, sources);
    let output = as_build_script(&krate, &[], &[]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!said.contains("made.bin") && !said.contains("own.txt"), "{said}");
}

#[test]
fn variables_that_go_into_the_code_are_watched() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = |name: &str, more: &str| {
        format!("[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n{more}")
    };
    let library = "#![no_std]\n#![feature(abi_ptx)]\n\
        #[panic_handler]\nfn panic(_: &core::panic::PanicInfo) -> ! { loop {} }\n\
        static OF_CARGO: &str = concat!(env!(\"OUT_DIR\"), env!(\"CARGO_PKG_NAME\"));\n\
        #[unsafe(no_mangle)]\npub unsafe extern \"ptx-kernel\" fn reading(x: *mut usize) {\n\
        unsafe { *x = OF_CARGO.len() + env!(\"CUDA_ARCH\").len() + TILE.len() } }\n\
        static TILE: &str = match option_env!(\"TEST_TILE\") {\n\
        Some(tile) => tile, None => read_below::SHAPE };\n";
    let below = "#![no_std]\npub const SHAPE: &str = match option_env!(\"TEST_SHAPE\") {\n\
        Some(shape) => shape, None => \"\" };\n";
    let script = "fn main() { println!(\"cargo:rerun-if-env-changed=TEST_NAMED\"); }\n";
    let dependency = "[workspace]\n[dependencies]\nread_below = { path = \"../below\" }\n";
    let files = [
        ("kernels/Cargo.toml", &*manifest("reading", dependency)),
        ("kernels/build.rs", script),
        ("kernels/src/lib.rs", library),
        ("below/Cargo.toml", &manifest("read_below", "")),
        ("below/src/lib.rs", below),
    ];
    let krate = write_crate(folder.path(), &files);
    // The second time all is there already.
    for tile in ["8", "8", "16"] {
        let output = as_build_script(&krate, &[], &[("TEST_TILE", tile)]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let names =
            said.lines().filter_map(|line| line.strip_prefix("cargo:rerun-if-env-changed="));
        let all = ["CUDA_BUILDER_RUSTC", "CUDA_BUILDER_CACHE"];
        let all = all.into_iter().chain(["TEST_NAMED", "TEST_SHAPE", "TEST_TILE"]);
        assert!(names.eq(all), "{said}");
    }
}

/// The folder in which a build script may write.
fn out_dir() -> PathBuf {
    target().join("debug/build/host-0123456789abcdef/out")
}

/// The example, which cargo test builds.
fn example() -> Command {
    // Beside this test's folder `deps`, whatever the profile.
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(Path::parent).unwrap();
    Command::new(profile.join("examples/ptx"))
}

/// The example, run as cargo runs a build script, in an environment that would break a build.
fn as_build_script(krate: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    example()
        .arg(krate)
        .arg("compute_70")
        .args(arguments)
        .env("OUT_DIR", out_dir())
        .envs([("PROFILE", "debug"), ("NUM_JOBS", "2"), ("TARGET", "x86_64-unknown-linux-gnu")])
        .envs([("RUSTFLAGS", "--nonsense"), ("CARGO_ENCODED_RUSTFLAGS", "--nonsense")])
        .envs([("RUSTC_WRAPPER", "/bin/false"), ("RUSTC_WORKSPACE_WRAPPER", "/bin/false")])
        .envs([("CARGO_BUILD_TARGET", "nonsense"), ("CARGO_PROFILE_RELEASE_LTO", "nonsense")])
        .envs(variables.iter().copied())
        .output()
        .expect("cargo test builds the example")
}

#[test]
fn in_a_build_script() {
    let output = as_build_script(&fixture(), &[], &[]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for name in ["Cargo.toml", "src", "Cargo.lock"] {
        let line = format!("cargo:rerun-if-changed={}\n", fixture().join(name).display());
        assert!(said.contains(&line), "{line:?} is not in:\n{said}");
    }
    assert!(said.contains("cargo:rerun-if-env-changed=CUDA_BUILDER_RUSTC"), "{said}");
    let place = target().join("cuda-builder").display().to_string();
    assert!(said.lines().last().unwrap().starts_with(&place), "{said}");
}

#[test]
fn a_relative_target_folder_is_the_callers() {
    let (above, name) = (target().parent().unwrap(), target().file_name().unwrap());
    let output = example()
        .arg(fixture())
        .current_dir(above)
        .env("CARGO_TARGET_DIR", name)
        .output()
        .expect("cargo test builds the example");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let place = target().join("cuda-builder").display().to_string();
    assert!(said.starts_with(&place), "{said}");
}

#[test]
fn a_named_compiler_that_will_not_do() {
    let output = as_build_script(&fixture(), &[], &[("CUDA_BUILDER_RUSTC", "/no/such/rustc")]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("/no/such/rustc"), "{said}");
}
