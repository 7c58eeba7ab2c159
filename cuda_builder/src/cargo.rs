//! Driving cargo: what it knows of the kernel crate, and the compile step.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use serde_json::Value;

use crate::error::CudaBuilderError;
use crate::toolchain::DeviceToolchain;

pub(crate) const DEVICE_TARGET: &str = "nvptx64-nvidia-cuda";
/// The profile is made of `--config` settings alone, under a name that no manifest uses.
pub(crate) const PROFILE: &str = "cuda-device";
/// Tells device code its architecture.
const CUDA_ARCH: &str = "CUDA_ARCH";

/// What cargo knows of the kernel crate.
#[derive(Debug)]
pub(crate) struct Package {
    /// The package's name, as `-p` takes it.
    pub name: String,
    /// The library's name, with underscores: the stem of the files that rustc writes.
    pub lib_name: String,
    /// Cargo's target folder for it.
    pub target_directory: PathBuf,
    pub workspace_root: PathBuf,
    /// Folders of the crate and of all its path dependencies, the crate first.
    pub folders: Vec<PathBuf>,
    /// Their libraries outside `src`: the folder, or the file where that is not the library's own.
    pub libraries: Vec<PathBuf>,
    /// `name version` of the dependencies from registries and repositories, sorted.
    pub dependencies: Vec<String>,
}

/// A cargo command that knows nothing of a cargo that runs us.
///
/// A build script inherits its package's `CARGO_*`, the host's flags and wrappers: none of them
/// is meant for device code. What tells cargo where its home, its network and its job server
/// are stays.
fn clean_command(cargo: &Path) -> Command {
    let mut command = Command::new(cargo);
    for (name, _) in env::vars_os() {
        if is_outer_variable(&name.to_string_lossy()) {
            command.env_remove(name);
        }
    }
    // Empty means none, whatever a configuration file says.
    command.env("RUSTC_WRAPPER", "").env("RUSTC_WORKSPACE_WRAPPER", "");
    // A relative one is the caller's, who is not in the crate's folder.
    if let Some(Ok(target)) = env::var_os("CARGO_TARGET_DIR").map(std::path::absolute) {
        command.env("CARGO_TARGET_DIR", target);
    }
    // What it says is read by us, or goes into an error's text.
    command.env("CARGO_TERM_COLOR", "never");
    command
}

fn is_outer_variable(name: &str) -> bool {
    const KEPT: [&str; 3] = ["CARGO_HOME", "CARGO_MAKEFLAGS", "CARGO_TARGET_DIR"];
    const KEPT_GROUPS: [&str; 4] = ["CARGO_NET_", "CARGO_HTTP_", "CARGO_REGISTR", "CARGO_SOURCE_"];
    if name.starts_with("CARGO_") {
        return !KEPT.contains(&name) && !KEPT_GROUPS.iter().any(|group| name.starts_with(group));
    }
    let of_build_scripts =
        ["HOST", "TARGET", "PROFILE", "OUT_DIR", "OPT_LEVEL", "DEBUG", "NUM_JOBS", "CARGO"];
    name.starts_with("RUSTC")
        || matches!(name, "RUSTFLAGS" | "RUSTDOC" | "RUSTDOCFLAGS" | "CLIPPY_ARGS")
        || of_build_scripts.contains(&name)
        || name.starts_with("DEP_")
}

/// The cargo that runs us, else the one in the search path.
pub(crate) fn cargo_in_use() -> PathBuf {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into()).into()
}

/// Asks cargo about the crate in `folder`. `arguments` are those of the build, some of which
/// also concern `cargo metadata`.
pub(crate) fn metadata(folder: &Path, arguments: &[String]) -> Result<Package, CudaBuilderError> {
    let cargo = cargo_in_use();
    let mut command = clean_command(&cargo);
    if let Some(rustc) = env::var_os("RUSTC") {
        command.env("RUSTC", rustc);
    }
    command.current_dir(folder);
    command.args(["metadata", "--format-version=1", "--filter-platform", DEVICE_TARGET]);
    command.args(for_metadata(arguments));
    let action = format!("running {}", cargo.display());
    let output = command.output().map_err(CudaBuilderError::io(action))?;
    let failure = |message: String| CudaBuilderError::Metadata { path: folder.to_owned(), message };
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        return Err(failure(message.trim_end().to_owned()));
    }
    let metadata: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| failure(format!("`cargo metadata` wrote what cannot be read: {error}")))?;
    read_metadata(&metadata, folder).map_err(failure)
}

/// Those of a build's arguments that decide on what `cargo metadata` says.
fn for_metadata(arguments: &[String]) -> Vec<&str> {
    const ALONE: [&str; 5] =
        ["--locked", "--offline", "--frozen", "--all-features", "--no-default-features"];
    let mut taken = Vec::new();
    let mut arguments = arguments.iter().map(String::as_str);
    while let Some(argument) = arguments.next() {
        if matches!(argument, "--features" | "-F") {
            taken.push(argument);
            taken.extend(arguments.next());
        } else if ALONE.contains(&argument)
            || argument.starts_with("--features=")
            || argument.starts_with("-F")
        {
            taken.push(argument);
        }
    }
    taken
}

/// Picks the package in `folder` and what it depends on out of `cargo metadata`'s output.
fn read_metadata(metadata: &Value, folder: &Path) -> Result<Package, String> {
    let list = |value: &'_ Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let packages: BTreeMap<String, Value> =
        list(&metadata["packages"]).into_iter().map(|p| (text(&p["id"]), p)).collect();
    let nodes: BTreeMap<String, Value> =
        list(&metadata["resolve"]["nodes"]).into_iter().map(|n| (text(&n["id"]), n)).collect();
    let manifest = folder.join("Cargo.toml");
    let (id, package) = packages
        .iter()
        .find(|(_, package)| Path::new(&text(&package["manifest_path"])) == manifest)
        .ok_or("the manifest describes a workspace, not a package")?;
    let library = |package: &Value| {
        let mut targets = list(&package["targets"]).into_iter();
        targets.find(|target| {
            let kinds = list(&target["kind"]);
            kinds.iter().any(|kind| {
                matches!(kind.as_str(), Some("lib" | "rlib" | "dylib" | "cdylib" | "staticlib"))
            })
        })
    };
    let lib_name = library(package)
        .map(|target| text(&target["name"]).replace('-', "_"))
        .ok_or("the package has no library (src/lib.rs)")?;
    let mut seen = BTreeSet::new();
    let mut waiting = vec![id.clone()];
    let (mut folders, mut libraries) = (Vec::new(), Vec::new());
    let mut dependencies = Vec::new();
    while let Some(id) = waiting.pop() {
        if !seen.insert(id.clone()) {
            continue;
        }
        let package = packages.get(&id).ok_or_else(|| format!("{id} is not listed"))?;
        if package["source"].is_null() {
            let manifest = PathBuf::from(text(&package["manifest_path"]));
            let folder = manifest.parent().unwrap_or(&manifest);
            let root = library(package).map(|target| PathBuf::from(text(&target["src_path"])));
            libraries.extend(root.and_then(|root| outside_src(folder, &root)));
            folders.push(folder.to_owned());
        } else {
            dependencies.push(format!("{} {}", text(&package["name"]), text(&package["version"])));
        }
        for dependency in nodes.get(&id).map(|node| list(&node["deps"])).unwrap_or_default() {
            let kinds = list(&dependency["dep_kinds"]);
            if kinds.iter().any(|kind| kind["kind"].as_str() != Some("dev")) {
                waiting.push(text(&dependency["pkg"]));
            }
        }
    }
    dependencies.sort();
    folders[1..].sort();
    Ok(Package {
        name: text(&package["name"]),
        lib_name,
        target_directory: text(&metadata["target_directory"]).into(),
        workspace_root: text(&metadata["workspace_root"]).into(),
        folders,
        libraries,
        dependencies,
    })
}

/// What to watch of a library with that root file, unless it lies under `src` of its crate.
fn outside_src(folder: &Path, root: &Path) -> Option<PathBuf> {
    if root.starts_with(folder.join("src")) {
        return None;
    }
    // The crate's own folder, or one that it lies in, may have the target folder in it.
    let own = root.parent().filter(|parent| *parent != folder && parent.starts_with(folder));
    Some(own.unwrap_or(root).to_owned())
}

impl Package {
    /// The files that decide on the device code, sorted: manifests, build scripts and all that
    /// lies under `src` of the crate and its path dependencies, and all that the compiler has
    /// `read`.
    pub fn sources(&self, read: Vec<PathBuf>) -> Result<Vec<PathBuf>, CudaBuilderError> {
        let mut files = read;
        for folder in &self.folders {
            let tops = ["Cargo.toml", "build.rs"].map(|name| folder.join(name));
            files.extend(tops.into_iter().filter(|path| path.is_file()));
            let src = folder.join("src");
            let mut waiting = Vec::from_iter(src.is_dir().then_some(src));
            while let Some(folder) = waiting.pop() {
                let reading = || CudaBuilderError::io(format!("reading {}", folder.display()));
                for entry in fs::read_dir(&folder).map_err(reading())? {
                    let path = entry.map_err(reading())?.path();
                    if path.is_dir() {
                        waiting.push(path);
                    } else {
                        files.push(path);
                    }
                }
            }
        }
        files.sort();
        files.dedup();
        Ok(files)
    }

    /// What cargo has to watch for a build script that makes the PTX, beside what the compiler
    /// then reads.
    pub fn watched(&self) -> Vec<PathBuf> {
        let mut paths = Vec::new();
        for folder in &self.folders {
            paths.extend(["Cargo.toml", "build.rs", "src"].map(|name| folder.join(name)));
        }
        paths.extend_from_slice(&self.libraries);
        paths.extend(["Cargo.toml", "Cargo.lock"].map(|name| self.workspace_root.join(name)));
        // A missing path would make cargo run the build script every time.
        paths.retain(|path| path.exists());
        paths.dedup();
        paths
    }
}

/// What a call of cargo has made or found.
#[derive(Debug, Default)]
pub(crate) struct Made {
    /// Libraries and programs.
    pub files: Vec<PathBuf>,
    /// The folders in which build scripts may write.
    out_dirs: Vec<PathBuf>,
}

/// One call of rustc for the kernel crate, by way of cargo.
pub(crate) struct Compile<'a> {
    pub toolchain: &'a DeviceToolchain,
    pub package: &'a Package,
    pub target_dir: &'a Path,
    /// Flags for the crate and all that it is made of.
    pub all_flags: Vec<String>,
    /// Flags for the last step, in which the whole program is optimised and written.
    pub last_flags: Vec<String>,
    pub cuda_arch: String,
    pub build_args: &'a [String],
    /// The files that the last step has to leave.
    pub outputs: Vec<PathBuf>,
}

impl Compile<'_> {
    /// Waits until no other builder, in this process or another, works in the target folder.
    pub fn lock(&self) -> Result<File, CudaBuilderError> {
        let path = self.target_dir.join("lock");
        let locked = fs::create_dir_all(self.target_dir)
            .and_then(|()| File::create(&path))
            .and_then(|file| file.lock().map(|()| file));
        locked.map_err(CudaBuilderError::io(format!("locking {}", path.display())))
    }

    /// Runs cargo. The error is the message of rustc, or of cargo if rustc never ran.
    pub fn run(&self) -> Result<Result<Made, String>, CudaBuilderError> {
        for output in &self.outputs {
            if let Some(folder) = output.parent() {
                let action = format!("creating {}", folder.display());
                fs::create_dir_all(folder).map_err(CudaBuilderError::io(action))?;
            }
        }
        if self.outputs.iter().any(|output| !output.is_file()) {
            self.forget_last_step()?;
        }
        match run(self.command())? {
            Ok(made) => self.stand_in_for_linker().map(|()| Ok(made)),
            Err(message) => Ok(Err(message)),
        }
    }

    /// The files of the crate and its path dependencies that the compiler has read: sources
    /// wherever they lie, and what they include.
    pub fn files_read(&self) -> Result<Vec<PathBuf>, CudaBuilderError> {
        let folder = self.target_dir.join(DEVICE_TARGET).join(PROFILE);
        let path = folder.join(format!("{}.d", self.package.lib_name));
        let text = fs::read_to_string(&path)
            .map_err(CudaBuilderError::io(format!("reading {}", path.display())))?;
        let files = prerequisites(&text).into_iter().filter_map(|file| file.canonicalize().ok());
        let reading = CudaBuilderError::io(format!("reading {}", self.target_dir.display()));
        let own = self.target_dir.canonicalize().map_err(reading)?;
        // What a dependency's build script makes is no source.
        Ok(files.filter(|file| !file.starts_with(&own)).collect())
    }

    /// The environment variables that have gone into what was made: those that the compiler has
    /// read, and those that build scripts have named.
    pub fn variables_read(&self, made: &Made) -> BTreeSet<String> {
        let deps = self.target_dir.join(DEVICE_TARGET).join(PROFILE).join("deps");
        let own = deps.join(format!("{}.d", self.package.lib_name));
        let libraries = made.files.iter().map(|file| dep_info(file));
        let scripts = made.out_dirs.iter().map(|out| out.with_file_name("output"));
        let mut names = BTreeSet::new();
        for path in libraries.chain(scripts).chain([own]) {
            // Programs have no file of this name.
            let text = fs::read(path).unwrap_or_default();
            names.extend(variables(&String::from_utf8_lossy(&text)));
        }
        names.retain(|name| name != CUDA_ARCH && !is_outer_variable(name));
        names
    }

    fn command(&self) -> Command {
        let Compile { toolchain, package, target_dir, all_flags, .. } = self;
        let mut command = device_command(toolchain, &package.folders[0], target_dir, all_flags);
        command.args(["--package", &package.name, "--crate-type", "cdylib"]);
        command.args(self.build_args).arg("--").args(&self.last_flags);
        command.env(CUDA_ARCH, &self.cuda_arch);
        command
    }

    /// Makes the file that the linker would have made, where it is missing: without it cargo
    /// would run the last step every time.
    fn stand_in_for_linker(&self) -> Result<(), CudaBuilderError> {
        let folder = self.target_dir.join(DEVICE_TARGET).join(PROFILE).join("deps");
        let linked = folder.join(format!("{}.ptx", self.package.lib_name));
        if linked.is_file() {
            return Ok(());
        }
        let action = format!("writing {}", linked.display());
        fs::write(&linked, "").map_err(CudaBuilderError::io(action))
    }

    /// Cargo does not know of the files that the last step writes beside its own: when one has
    /// gone, cargo has to be told that the step was never done.
    fn forget_last_step(&self) -> Result<(), CudaBuilderError> {
        let folder = self.target_dir.join(DEVICE_TARGET).join(PROFILE).join(".fingerprint");
        let Ok(entries) = fs::read_dir(&folder) else { return Ok(()) };
        let prefix = format!("{}-", self.package.name);
        for entry in entries.flatten() {
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                let action = format!("removing {}", entry.path().display());
                fs::remove_dir_all(entry.path()).map_err(CudaBuilderError::io(action))?;
            }
        }
        Ok(())
    }
}

/// Whether a build's arguments ask for other libraries than `core`.
pub(crate) fn builds_std(arguments: &[String]) -> bool {
    arguments.iter().any(|argument| argument.starts_with("-Zbuild-std"))
}

/// `cargo rustc` for the library of the crate in `folder`, as device code.
pub(crate) fn device_command(
    toolchain: &DeviceToolchain,
    folder: &Path,
    target_dir: &Path,
    all_flags: &[String],
) -> Command {
    let mut command = clean_command(toolchain.cargo());
    command.envs(toolchain.command_env()).current_dir(folder);
    command.args(["rustc", "--lib", "--target", DEVICE_TARGET]);
    command.args(["--profile", PROFILE, "--message-format=json", "-Zpanic-immediate-abort"]);
    command.arg("--target-dir").arg(target_dir);
    let profile = ["inherits=\"release\"", "lto=\"fat\"", "panic=\"immediate-abort\""];
    for setting in
        profile.into_iter().chain(["codegen-units=1", "incremental=false", "debug=false"])
    {
        command.args(["--config", &format!("profile.{PROFILE}.{setting}")]);
    }
    command
        .env("CARGO_ENCODED_RUSTFLAGS", all_flags.join("\x1f"))
        // Where a configuration file moves the build folder, the outer cargo may hold its lock.
        .env("CARGO_BUILD_BUILD_DIR", target_dir);
    command
}

/// Runs cargo: what it has made or found. The error within is the message of rustc, or of cargo if
/// rustc never ran.
pub(crate) fn run(mut command: Command) -> Result<Result<Made, String>, CudaBuilderError> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(CudaBuilderError::io("running cargo"))?;
    let progress = child.stderr.take().map(|pipe| thread::spawn(move || read_progress(pipe)));
    let (rendered, made) = child.stdout.take().map(read_messages).unwrap_or_default();
    let said = progress.and_then(|thread| thread.join().ok()).unwrap_or_default();
    let status = child.wait().map_err(CudaBuilderError::io("waiting for cargo"))?;
    if status.success() {
        return Ok(Ok(made));
    }
    // Cargo's own last words ("could not compile") add nothing to rustc's.
    Ok(Err(if rendered.is_empty() { said } else { rendered }.trim_end().to_owned()))
}

/// The files behind the colon of the line that cargo writes beside a product.
fn prerequisites(line: &str) -> Vec<PathBuf> {
    let (_, files) = line.trim_end().split_once(": ").unwrap_or_default();
    // A space of a name has a backslash before it; no name has a zero.
    let files = files.replace("\\ ", "\0");
    files.split(' ').map(|name| name.replace('\0', " ").into()).collect()
}

/// The file beside a library in which rustc has noted what it has read.
fn dep_info(library: &Path) -> PathBuf {
    let stem = library.file_stem().unwrap_or_default().to_string_lossy();
    library.with_file_name(format!("{}.d", stem.strip_prefix("lib").unwrap_or(&stem)))
}

/// The environment variables that rustc has noted, or that a build script has said it depends on.
fn variables(text: &str) -> impl Iterator<Item = String> {
    const BEFORE: [&str; 3] =
        ["# env-dep:", "cargo:rerun-if-env-changed=", "cargo::rerun-if-env-changed="];
    let said = text.lines().filter_map(|line| BEFORE.iter().find_map(|b| line.strip_prefix(b)));
    // rustc notes the value too, if there is one.
    said.map(|said| said.split('=').next().unwrap_or(said).to_owned())
}

/// Passes cargo's progress on to standard error, if there is any, and returns the rest.
fn read_progress(pipe: impl Read) -> String {
    const PROGRESS: [&str; 7] =
        ["Compiling", "Downloading", "Downloaded", "Updating", "Blocking", "Locking", "Adding"];
    let mut rest = String::new();
    for line in BufReader::new(pipe).lines().map_while(Result::ok) {
        let word = line.split_whitespace().next().unwrap_or_default();
        if line.starts_with(' ') && PROGRESS.contains(&word) {
            eprintln!("{line}");
        } else {
            rest.push_str(&line);
            rest.push('\n');
        }
    }
    rest
}

/// Reads cargo's messages: shows warnings on standard error, returns the errors and what was made.
fn read_messages(pipe: impl Read) -> (String, Made) {
    let (mut errors, mut made) = (String::new(), Made::default());
    for line in BufReader::new(pipe).lines().map_while(Result::ok) {
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        let files = message["filenames"].as_array().into_iter().flatten();
        made.files.extend(files.filter_map(Value::as_str).map(PathBuf::from));
        made.out_dirs.extend(message["out_dir"].as_str().map(PathBuf::from));
        if message["reason"] != "compiler-message" {
            continue;
        }
        let message = &message["message"];
        let rendered = message["rendered"].as_str().unwrap_or_default();
        let level = message["level"].as_str().unwrap_or_default();
        if level.starts_with("error") {
            errors.push_str(rendered);
        } else if !is_noise(message["message"].as_str().unwrap_or_default()) {
            eprint!("{rendered}");
        }
    }
    (errors, made)
}

/// What rustc says of flags that the builder itself has chosen, and counts of messages.
fn is_noise(message: &str) -> bool {
    message.contains("unstable feature specified for `-Ctarget-feature`")
        || message.ends_with("warning emitted")
        || message.ends_with("warnings emitted")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outer_cargo_is_forgotten() {
        for name in [
            "CARGO_PKG_NAME",
            "CARGO_ENCODED_RUSTFLAGS",
            "RUSTFLAGS",
            "RUSTC",
            "RUSTC_WORKSPACE_WRAPPER",
            "RUSTC_WRAPPER",
            "CARGO_PROFILE_RELEASE_LTO",
            "OUT_DIR",
            "TARGET",
            "CARGO_CFG_TARGET_ARCH",
            "CARGO_BUILD_TARGET",
            "CARGO",
            "DEP_X_Y",
            "CARGO_INCREMENTAL",
            "CARGO_MANIFEST_DIR",
        ] {
            assert!(is_outer_variable(name), "{name}");
        }
        for name in [
            "CARGO_HOME",
            "RUSTUP_HOME",
            "RUSTUP_TOOLCHAIN",
            "CARGO_NET_OFFLINE",
            "PATH",
            "CARGO_HTTP_PROXY",
            "HOME",
            "CARGO_REGISTRIES_X_INDEX",
            "CARGO_MAKEFLAGS",
            "CARGO_REGISTRY_TOKEN",
            "CARGO_TARGET_DIR",
        ] {
            assert!(!is_outer_variable(name), "{name}");
        }
    }

    #[test]
    fn features_concern_metadata() {
        let arguments = ["-v", "--features", "a b", "-F", "c", "-Fd", "--locked", "--profile", "e"];
        let arguments = arguments.map(String::from);
        let taken = ["--features", "a b", "-F", "c", "-Fd", "--locked"];
        assert_eq!(for_metadata(&arguments), taken);
    }

    #[test]
    fn names_with_spaces_are_prerequisites() {
        let line = "/t/a\\ b.ptx: /k/a\\ b/lib.rs /k/table.bin\n";
        let files = ["/k/a b/lib.rs", "/k/table.bin"].map(PathBuf::from);
        assert_eq!(prerequisites(line), files);
    }

    #[test]
    fn variables_that_were_read_or_named() {
        let text = "/t/a.d: src/lib.rs\n\n# env-dep:UNSET\n# env-dep:SET=a=b\nNOT=1\n\
            cargo:rerun-if-env-changed=OLD\ncargo::rerun-if-env-changed=NEW\n";
        assert!(variables(text).eq(["UNSET", "SET", "OLD", "NEW"]));
        for (library, name) in [("libdep-1f.rlib", "dep-1f.d"), ("macros-2e.dll", "macros-2e.d")] {
            assert_eq!(dep_info(&Path::new("/t").join(library)), Path::new("/t").join(name));
        }
    }

    #[test]
    fn libraries_outside_src_are_watched_by_folder_or_alone() {
        let watched = |root: &str| outside_src(Path::new("/w/k"), Path::new(root));
        assert_eq!(watched("/w/k/src/lib.rs"), None);
        assert_eq!(watched("/w/k/device/lib.rs"), Some("/w/k/device".into()));
        for root in ["/w/k/lib.rs", "/w/lib.rs"] {
            assert_eq!(watched(root), Some(root.into()));
        }
    }

    #[test]
    fn metadata_is_read() {
        let metadata = serde_json::json!({
            "packages": [
                {"id": "k", "name": "my-kernels", "version": "0.1.0", "source": null,
                 "manifest_path": "/w/k/Cargo.toml",
                 "targets": [{"kind": ["bin"], "name": "b"},
                             {"kind": ["lib"], "name": "my-kernels",
                              "src_path": "/w/k/device/lib.rs"}]},
                {"id": "s", "name": "std", "version": "0.1.0", "source": null,
                 "manifest_path": "/w/s/Cargo.toml", "targets": []},
                {"id": "h", "name": "half", "version": "2.7.1", "source": "registry",
                 "manifest_path": "/r/half/Cargo.toml", "targets": []},
                {"id": "t", "name": "tests-only", "version": "1.0.0", "source": null,
                 "manifest_path": "/w/t/Cargo.toml", "targets": []}
            ],
            "resolve": {"nodes": [
                {"id": "k", "deps": [
                    {"pkg": "s", "dep_kinds": [{"kind": null}]},
                    {"pkg": "t", "dep_kinds": [{"kind": "dev"}]}]},
                {"id": "s", "deps": [{"pkg": "h", "dep_kinds": [{"kind": null}, {"kind": "dev"}]}]},
                {"id": "h", "deps": []}
            ]},
            "target_directory": "/w/target",
            "workspace_root": "/w"
        });
        let package = read_metadata(&metadata, Path::new("/w/k")).unwrap();
        assert_eq!(
            (package.name.as_str(), package.lib_name.as_str()),
            ("my-kernels", "my_kernels")
        );
        assert_eq!(package.folders, [Path::new("/w/k"), Path::new("/w/s")]);
        assert_eq!(package.libraries, [Path::new("/w/k/device")]);
        assert_eq!(package.dependencies, ["half 2.7.1"]);
        assert!(read_metadata(&metadata, Path::new("/w")).unwrap_err().contains("workspace"));
        assert!(read_metadata(&metadata, Path::new("/w/s")).unwrap_err().contains("src/lib.rs"));
    }
}
