//! The device compiler from the packages of Debian and its kin, unpacked into a cache folder.
//!
//! Nothing here needs root or changes the system: `apt-get download` fetches (and checks the
//! signatures of the index), `dpkg -x` unpacks, and apt's own state lies in the cache folder.
//! A finished compiler is the folder `debian-<version>`; it gets this name only when it is whole.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{SystemTime, UNIX_EPOCH};

use super::{DeviceToolchain, OLDEST_RUSTC, Source, release_number};

/// Start of the names of folders that a fetch is working in.
const UNFINISHED: &str = "unfinished-";

/// Why this way gave no compiler.
pub(super) enum Failure {
    /// It is not open here: not such a system, no way to the mirror, no package new enough.
    Unavailable(String),
    /// The cache folder could not be used.
    Cache { action: String, source: io::Error },
}

fn cache_error(action: &str, path: &Path) -> impl FnOnce(io::Error) -> Failure {
    let action = format!("{action} {}", path.display());
    move |source| Failure::Cache { action, source }
}

/// The compiler in the cache, fetched first if it is not there or not whole.
pub(super) fn find_or_fetch(cache: &Path) -> Result<DeviceToolchain, Failure> {
    let cache = std::path::absolute(cache).map_err(cache_error("finding", cache))?;
    fs::create_dir_all(&cache).map_err(cache_error("creating", &cache))?;
    let lock_path = cache.join("lock");
    let lock = File::create(&lock_path).map_err(cache_error("creating", &lock_path))?;
    lock.lock().map_err(cache_error("locking", &lock_path))?; // until the end of this function
    remove_leftovers(&cache)?;
    if let Some(found) = in_cache(&cache)? {
        return Ok(found);
    }
    let mut reasons = Vec::new();
    for lists in [Lists::System, Lists::Own] {
        match Apt::new(&cache, lists).and_then(|apt| apt.fetch(&cache)) {
            Ok(()) => {
                return in_cache(&cache)?.ok_or_else(|| {
                    Failure::Unavailable("the unpacked compiler does not run".to_owned())
                });
            }
            Err(Failure::Unavailable(reason)) => reasons.push(reason),
            Err(failure) => return Err(failure),
        }
    }
    reasons.dedup();
    Err(Failure::Unavailable(reasons.join("; then, with a fresh index: ")))
}

/// A file in the folders that a fetch has made: nothing else is ever removed.
const OURS: &str = ".made-by-cuda-builder";

/// The newest whole compiler in the cache. A folder that a fetch made, and whose compiler does not
/// run, is removed.
fn in_cache(cache: &Path) -> Result<Option<DeviceToolchain>, Failure> {
    let mut found: Option<DeviceToolchain> = None;
    for entry in fs::read_dir(cache).map_err(cache_error("reading", cache))?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(version) = name.strip_prefix("debian-") else { continue };
        let root = entry.path();
        match probe(&root, version) {
            Ok(toolchain) => {
                let newer = |old: &DeviceToolchain| {
                    release_number(&toolchain.release) > release_number(&old.release)
                };
                if found.as_ref().is_none_or(newer) {
                    found = Some(toolchain);
                }
            }
            Err(_) if root.join(OURS).is_file() => {
                fs::remove_dir_all(&root).map_err(cache_error("removing", &root))?;
            }
            Err(_) => {}
        }
    }
    Ok(found)
}

/// Removes what an interrupted fetch left behind. What does not go stays for the next time: a
/// dpkg that outlived its caller may still be writing there.
fn remove_leftovers(cache: &Path) -> Result<(), Failure> {
    for entry in fs::read_dir(cache).map_err(cache_error("reading", cache))?.flatten() {
        let is_unfinished = entry.file_name().to_string_lossy().starts_with(UNFINISHED);
        if is_unfinished && entry.path().join("root").join(OURS).is_file() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    Ok(())
}

/// Removes rustc's own sources, which come with those of `core` and take five times their space.
fn keep_library_sources(root: &Path) -> Result<(), Failure> {
    let versions = fs::read_dir(root.join("usr/src")).into_iter().flatten().flatten();
    let versions = versions.map(|entry| entry.path()).filter(|path| path.join("library").is_dir());
    for folder in versions {
        for entry in fs::read_dir(&folder).map_err(cache_error("reading", &folder))?.flatten() {
            let path = entry.path();
            if path.is_dir() && !path.is_symlink() && !path.ends_with("library") {
                fs::remove_dir_all(&path).map_err(cache_error("removing", &path))?;
            }
        }
    }
    Ok(())
}

/// The compiler under `root`, if it runs.
fn probe(root: &Path, version: &str) -> Result<DeviceToolchain, String> {
    let source = Source::Debian { root: root.to_owned(), version: version.to_owned() };
    let rustc = find_rustc(root).ok_or("no rustc in the packages")?;
    DeviceToolchain::probe(&rustc, library_folders(root), source)
}

/// `usr/bin/rustc`, or, where versions live side by side, `usr/lib/rust-1.96/bin/rustc`.
fn find_rustc(root: &Path) -> Option<PathBuf> {
    let plain = root.join("usr/bin/rustc");
    if plain.is_file() {
        return Some(plain);
    }
    fs::read_dir(root.join("usr/lib"))
        .ok()?
        .flatten()
        .map(|entry| entry.path().join("bin/rustc"))
        .find(|path| path.is_file())
}

/// The folders under `usr/lib` (two levels) that hold shared libraries.
fn library_folders(root: &Path) -> Vec<PathBuf> {
    let top = root.join("usr/lib");
    let inside = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
    };
    let mut folders = vec![top.clone()];
    for folder in inside(&top) {
        folders.extend(inside(&folder).into_iter().filter(|path| path.ends_with("lib")));
        folders.push(folder);
    }
    folders.retain(|folder| {
        let mut entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.any(|entry| entry.file_name().to_string_lossy().contains(".so"))
    });
    folders.sort();
    folders
}

/// Which package index apt reads.
#[derive(Clone, Copy, PartialEq)]
enum Lists {
    /// The system's, as it is.
    System,
    /// A fresh one in the cache folder: the system's may be missing (containers) or stale.
    Own,
}

/// apt's tools, told to keep their state in the cache folder.
struct Apt {
    config: PathBuf,
    /// What apt said of an index that it could not fetch: it does not call that a failure.
    warnings: String,
}

impl Apt {
    fn new(cache: &Path, lists: Lists) -> Result<Self, Failure> {
        for tool in ["apt-get", "dpkg"] {
            if Command::new(tool).arg("--version").output().is_err() {
                return Err(Failure::Unavailable(format!("there is no {tool} on this system")));
            }
        }
        let folder = cache.join("apt");
        for part in ["cache/archives/partial", "lists/partial"] {
            let path = folder.join(part);
            fs::create_dir_all(&path).map_err(cache_error("creating", &path))?;
        }
        let config = folder.join("apt.conf");
        let text = Self::config(&folder, lists);
        fs::write(&config, text).map_err(cache_error("writing", &config))?;
        let mut apt = Apt { config, warnings: String::new() };
        if lists == Lists::Own {
            eprintln!("fetching the package index of the distribution ...");
            let output = checked(apt.command("apt-get", &["update"], cache))?;
            let said = String::from_utf8_lossy(&output.stderr);
            if let Some(line) = said.lines().find(|line| line.starts_with("W: ")) {
                apt.warnings = format!(" (apt-get update: {})", line.trim_start_matches("W: "));
            }
        }
        Ok(apt)
    }

    /// Read after the system's configuration: keeps mirrors, keys and proxies, moves the state.
    fn config(folder: &Path, lists: Lists) -> String {
        let folder = folder.display();
        let mut text = format!(
            "Dir::Cache \"{folder}/cache\";\n\
             Dir::Cache::pkgcache \"\";\n\
             Dir::Cache::srcpkgcache \"\";\n\
             Debug::NoLocking \"true\";\n\
             APT::Sandbox::User \"root\";\n\
             Acquire::Languages \"none\";\n\
             #clear APT::Update::Pre-Invoke;\n\
             #clear APT::Update::Post-Invoke;\n\
             #clear APT::Update::Post-Invoke-Success;\n"
        );
        if lists == Lists::Own {
            text += &format!("Dir::State::Lists \"{folder}/lists\";\n");
        }
        text
    }

    fn command(&self, tool: &str, arguments: &[&str], folder: &Path) -> Command {
        let mut command = Command::new(tool);
        command.arg("-q").arg("-c").arg(&self.config).args(arguments).current_dir(folder);
        command
    }

    /// Standard output of one of apt's tools.
    fn run(&self, tool: &str, arguments: &[&str], folder: &Path) -> Result<String, Failure> {
        let output = checked(self.command(tool, arguments, folder))?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Downloads and unpacks the newest compiler into `cache/debian-<version>`.
    fn fetch(&self, cache: &Path) -> Result<(), Failure> {
        let compiler = self.newest_compiler(cache)?;
        let packages = self.closure(&compiler, cache)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let work = cache.join(format!("{UNFINISHED}{now}"));
        let debs = work.join("debs");
        let root = work.join("root");
        for folder in [&debs, &root] {
            fs::create_dir_all(folder).map_err(cache_error("creating", folder))?;
        }
        let ours = root.join(OURS);
        fs::write(&ours, "").map_err(cache_error("writing", &ours))?;
        let bytes: u64 = packages.values().map(|package| package.bytes).sum();
        eprintln!(
            "fetching the device compiler ({} {}, about {} MB) ...",
            compiler.name,
            compiler.version,
            bytes.div_ceil(1_000_000)
        );
        let mut arguments = vec!["download"];
        arguments.extend(packages.keys().map(String::as_str));
        self.run("apt-get", &arguments, &debs)?;
        for deb in fs::read_dir(&debs).map_err(cache_error("reading", &debs))?.flatten() {
            let mut command = Command::new("dpkg");
            command.arg("-x").arg(deb.path()).arg(&root);
            checked(command)?;
        }
        keep_library_sources(&root)?;
        probe(&root, &compiler.version).map_err(Failure::Unavailable)?;
        // An epoch's colon would end the folder's entry in LD_LIBRARY_PATH.
        let place = cache.join(format!("debian-{}", compiler.version.replace(':', "_")));
        fs::rename(&root, &place).map_err(cache_error("naming", &place))?;
        for folder in [work, cache.join("apt")] {
            fs::remove_dir_all(&folder).map_err(cache_error("removing", &folder))?;
        }
        Ok(())
    }

    /// The newest of the distribution's rustc packages that has its sources packaged too.
    fn newest_compiler(&self, cache: &Path) -> Result<Package, Failure> {
        let names = self.run("apt-cache", &["pkgnames", "rustc"], cache)?;
        let names: Vec<&str> = names.lines().filter(|name| is_compiler(name)).collect();
        let packages = self.show(&names, cache)?;
        let newest = packages.into_values().max_by_key(|package| release_number(&package.version));
        match newest {
            Some(package) if release_number(&package.version) >= Some(OLDEST_RUSTC) => Ok(package),
            Some(package) => Err(Failure::Unavailable(format!(
                "the newest is {} {}, which is too old",
                package.name, package.version
            ))),
            None => Err(Failure::Unavailable(format!("the index has no rustc{}", self.warnings))),
        }
    }

    /// The compiler, its sources, and the libraries it needs that the system does not have.
    fn closure(
        &self,
        compiler: &Package,
        cache: &Path,
    ) -> Result<BTreeMap<String, Package>, Failure> {
        let installed = installed_packages();
        let mut all = BTreeMap::new();
        let mut wanted = vec![compiler.name.clone(), sources_of(&compiler.name)];
        while !wanted.is_empty() {
            let names: Vec<&str> = wanted.iter().map(String::as_str).collect();
            let found = self.show(&names, cache)?;
            if let Some(missing) = wanted.iter().find(|name| !found.contains_key(*name)) {
                return Err(Failure::Unavailable(format!("the index has no package {missing}")));
            }
            all.extend(found);
            wanted = all.values().flat_map(|package| package.depends.clone()).collect();
            wanted.sort();
            wanted.dedup();
            wanted.retain(|name| !all.contains_key(name) && is_needed(name, &installed));
        }
        Ok(all)
    }

    /// The candidate of each name that the index has.
    fn show(&self, names: &[&str], cache: &Path) -> Result<BTreeMap<String, Package>, Failure> {
        if names.is_empty() {
            return Ok(BTreeMap::new());
        }
        let mut arguments = vec!["show", "--no-all-versions"];
        arguments.extend(names);
        let text = self.run("apt-cache", &arguments, cache)?;
        Ok(parse_stanzas(&text).into_iter().map(|p| (p.name.clone(), p)).collect())
    }
}

/// Runs a command; a failure has its standard error.
fn checked(mut command: Command) -> Result<Output, Failure> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .env("LC_ALL", "C")
        .output()
        .map_err(|error| Failure::Unavailable(format!("{name} cannot be run: {error}")))?;
    if output.status.success() {
        return Ok(output);
    }
    let message = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = message.lines().filter(|line| line.starts_with("E: ")).collect();
    let message = if lines.is_empty() { message.trim().to_owned() } else { lines.join(" ") };
    Err(Failure::Unavailable(format!("{name} fails: {message}")))
}

/// One entry of the package index.
#[derive(Debug, PartialEq)]
struct Package {
    name: String,
    version: String,
    bytes: u64,
    depends: Vec<String>,
}

/// Reads the output of `apt-cache show`.
fn parse_stanzas(text: &str) -> Vec<Package> {
    let mut packages = Vec::new();
    for stanza in text.split("\n\n") {
        let value =
            |key: &str| stanza.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
        let (Some(name), Some(version)) = (value("Package"), value("Version")) else { continue };
        let mut depends: Vec<String> = Vec::new();
        for list in [value("Pre-Depends"), value("Depends")].into_iter().flatten() {
            depends.extend(list.split(',').filter_map(first_alternative));
        }
        packages.push(Package {
            name: name.to_owned(),
            version: version.to_owned(),
            bytes: value("Size").and_then(|size| size.parse().ok()).unwrap_or(0),
            depends,
        });
    }
    packages
}

/// `libz3-4` of `libz3-4:any (>= 4.8) | libz3-5`.
fn first_alternative(dependency: &str) -> Option<String> {
    let name = dependency.split('|').next()?.split_whitespace().next()?;
    Some(name.split(':').next()?.to_owned())
}

/// `rustc`, `rustc-web`, `rustc-1.96`: not `rustc-dbgsym` and the like.
fn is_compiler(name: &str) -> bool {
    match name.strip_prefix("rustc") {
        Some("" | "-web" | "-mozilla") => true,
        Some(rest) => rest.strip_prefix('-').is_some_and(|version| {
            version.contains('.') && version.chars().all(|c| c.is_ascii_digit() || c == '.')
        }),
        None => false,
    }
}

/// `rust-src` of `rustc`, `rust-web-src` of `rustc-web`, `rust-1.96-src` of `rustc-1.96`.
fn sources_of(compiler: &str) -> String {
    format!("{}-src", compiler.replacen("rustc", "rust", 1))
}

/// Rust's own libraries and LLVM always; other shared libraries if the system lacks them.
/// A C compiler and its headers are not the builder's to fetch: who compiles Rust has them.
fn is_needed(name: &str, installed: &[String]) -> bool {
    if name.starts_with("libstd-rust") || name.starts_with("libllvm") {
        return true;
    }
    name.starts_with("lib") && !name.ends_with("-dev") && !installed.iter().any(|i| i == name)
}

/// Names of the packages that the system has.
fn installed_packages() -> Vec<String> {
    let mut command = Command::new("dpkg-query");
    command.args(["-W", "-f", "${db:Status-Abbrev}${Package}\n"]);
    let output = checked(command).map(|output| output.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&output);
    text.lines().filter_map(|line| line.strip_prefix("ii ")).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stanzas_are_read() {
        let text = "Package: rustc-web\nVersion: 1.96.0+dfsg1-1~deb12u2\nSize: 4450500\n\
                    Depends: libc6 (>= 2.34), libstd-rust-web-dev (= 1.96.0), gcc | clang\n\
                    Description: x\n\nPackage: a\nVersion: 1:2\n\n";
        let packages = parse_stanzas(text);
        assert_eq!(packages.len(), 2);
        assert_eq!(packages[0].depends, ["libc6", "libstd-rust-web-dev", "gcc"]);
        assert_eq!((packages[0].bytes, packages[1].version.as_str()), (4_450_500, "1:2"));
    }

    #[test]
    fn package_names() {
        for name in ["rustc", "rustc-web", "rustc-1.96"] {
            assert!(is_compiler(name), "{name}");
        }
        for name in ["rustc-web-dbgsym", "rust", "rustc-", "rustc-1", "rustcat"] {
            assert!(!is_compiler(name), "{name}");
        }
        assert_eq!(sources_of("rustc-web"), "rust-web-src");
        assert_eq!(sources_of("rustc-1.96"), "rust-1.96-src");
        let installed = ["libz3-4".to_owned(), "libllvm22".to_owned()];
        let needed = ["libllvm22", "libstd-rust-web-dev", "libedit2"];
        assert!(needed.iter().all(|name| is_needed(name, &installed)));
        assert!(["libz3-4", "libc-dev", "gcc"].iter().all(|name| !is_needed(name, &installed)));
    }
}
