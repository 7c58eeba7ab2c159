//! Compiles the kernels to the PTX files that the library embeds, and tells whether the committed
//! ones are today's.
//!
//! The files are committed, so that users of the library need no device compiler, and beside them
//! machine code that is made from them ([`cubins`]). A file's header
//! records the compiler and the hash of everything else that made it (see `source_hash`); `--check`
//! compares both.

mod cubins;
mod entries;
mod header;

pub use header::Header;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use cuda_builder::toolchain::{DeviceToolchain, RUSTC_VARIABLE, default_cache};
use cuda_builder::{BuildReport, CudaBuilder, NvvmArch};
use gemm_spec::Target;

use crate::source_hash::Sources;
use crate::workspace::Workspace;

/// Says, as 1, that a hash alone is no check: what `.ci/run` asks for.
const REQUIRE_REBUILD: &str = "GEMMITE_REQUIRE_REBUILD";

#[derive(clap::Args)]
pub struct Args {
    /// Changes nothing; fails where a committed file is not what today's sources give
    #[arg(long)]
    check: bool,
}

pub fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let sources = Sources::read(workspace)?;
    if args.check { check(workspace, &sources) } else { build_all(workspace, &sources) }
}

/// Builds the PTX files if one is missing or older than its sources.
pub fn make_current(workspace: &Workspace) -> Result<()> {
    let stale = stale(workspace)?;
    if stale.is_empty() {
        return Ok(());
    }
    note!("{}; building", stale.join("; "))?;
    build_all(workspace, &Sources::read(workspace)?)
}

/// What is wrong with each committed file that is missing or older than its sources.
pub fn stale(workspace: &Workspace) -> Result<Vec<String>> {
    let mut stale = stale_files(workspace, &Sources::read(workspace)?);
    if stale.is_empty() {
        stale.extend(cubins::stale(workspace)?);
    }
    Ok(stale)
}

/// The committed files, without which the library does not compile.
pub fn files(workspace: &Workspace) -> Vec<PathBuf> {
    let ptx = Target::ALL.map(|target| workspace.ptx_file(target.arch()));
    ptx.into_iter().chain([cubins::path(workspace)]).collect()
}

fn stale_files(workspace: &Workspace, sources: &Sources) -> Vec<String> {
    Target::ALL.into_iter().filter_map(|target| staleness(workspace, sources, target)).collect()
}

fn build_all(workspace: &Workspace, sources: &Sources) -> Result<()> {
    for (target, text) in build(workspace, sources, &Target::ALL)? {
        let path = workspace.ptx_file(target.arch());
        let said = workspace.display(&path);
        if std::fs::read_to_string(&path).is_ok_and(|old| old == text) {
            say!("{said} is unchanged")?;
            continue;
        }
        // Renamed into place: nothing that runs beside us reads half a file.
        let unfinished = path.with_extension(format!("ptx.{}.new", std::process::id()));
        workspace.sh.write_file(&unfinished, &text)?;
        std::fs::rename(&unfinished, &path)?;
        let kernels = gemm_spec::of_module(target).count();
        say!("{said} written: {kernels} kernels")?;
    }
    cubins::build(workspace)
}

fn check(workspace: &Workspace, sources: &Sources) -> Result<()> {
    let stale = stale_files(workspace, sources);
    if !stale.is_empty() {
        bail!("{}: run `cargo xtask build-ptx` and commit the result", stale.join("; "));
    }
    let ours = compiler_line(workspace);
    let mut ours_too = Vec::new();
    for target in Target::ALL {
        let said = workspace.display(&workspace.ptx_file(target.arch()));
        let recorded = Header::read(&workspace.ptx_file(target.arch()))?.compiler;
        match &ours {
            Ok(ours) if *ours == recorded => ours_too.push(target),
            Ok(ours) => say!(
                "{said}: the hash is today's; only the hash was compared, because {recorded} made \
                 the file and here is {ours}"
            )?,
            Err(error) => say!(
                "{said}: the hash is today's; only the hash was compared, because there is no \
                 device compiler here: {error:#}"
            )?,
        }
    }
    let required = std::env::var(REQUIRE_REBUILD).is_ok_and(|value| value == "1");
    ensure_rebuilt(&ours_too, required)?;
    for (target, rebuilt) in build(workspace, sources, &ours_too)? {
        compare_with_rebuild(workspace, target, &rebuilt)?;
    }
    cubins::check(workspace)
}

/// Fails where a rebuild is required of all files, and only `ours` are this compiler's.
fn ensure_rebuilt(ours: &[Target], required: bool) -> Result<()> {
    ensure!(
        !required || ours.len() == Target::ALL.len(),
        "{REQUIRE_REBUILD} is 1, and not all files are this compiler's: name theirs by \
         {RUSTC_VARIABLE}, or run `cargo xtask build-ptx` and commit the result"
    );
    Ok(())
}

fn compare_with_rebuild(workspace: &Workspace, target: Target, rebuilt: &str) -> Result<()> {
    let path = workspace.ptx_file(target.arch());
    let said = workspace.display(&path);
    let committed = std::fs::read_to_string(&path)?.replace("\r\n", "\n");
    if let Some((line, (old, new))) = first_difference(&committed, rebuilt) {
        bail!(
            "{said}:{line} is not what the same compiler makes of these sources\n\
             committed: {old}\n  rebuilt: {new}\n\
             run `cargo xtask build-ptx` and commit the result"
        );
    }
    say!("{said}: the hash is today's, and a rebuild by its compiler is the same")?;
    Ok(())
}

/// What is wrong with the committed file, judged by its header; `None` where it is today's.
fn staleness(workspace: &Workspace, sources: &Sources, target: Target) -> Option<String> {
    let path = workspace.ptx_file(target.arch());
    let said = workspace.display(&path);
    if !path.exists() {
        return Some(format!("{said} is missing"));
    }
    match Header::read(&path) {
        Ok(header) if header.hash == sources.hash(&settings(target)) => None,
        Ok(_) => Some(format!("{said} was built from other sources")),
        Err(error) => Some(format!("{error:#}")),
    }
}

/// Everything that [`builder`] asks for, for the hash.
fn settings(target: Target) -> String {
    let (major, minor) = target.ptx_version();
    format!("arch {} ptx {major}.{minor} release", target.arch())
}

/// What compiles the kernels of a feature. A test knows all that is asked for here.
fn builder(kernels: &Path, target: Target, feature: &str) -> CudaBuilder {
    let (major, minor) = target.ptx_version();
    CudaBuilder::new(kernels).arch(nvvm_arch(target)).ptx_version(major, minor).build_args(&[
        "--no-default-features",
        "--features",
        feature,
    ])
}

pub fn nvvm_arch(target: Target) -> NvvmArch {
    match target {
        Target::Sm70 => NvvmArch::Compute70,
        Target::Sm80 => NvvmArch::Compute80,
        Target::Sm90 => NvvmArch::Compute90,
        Target::Sm90a => NvvmArch::Compute90a,
    }
}

/// The texts of targets' files: header and PTX, checked against the table of kernels.
fn build(
    workspace: &Workspace,
    sources: &Sources,
    targets: &[Target],
) -> Result<Vec<(Target, String)>> {
    if targets.is_empty() {
        return Ok(Vec::new());
    }
    let compiler = compiler_line(workspace)?;
    let reports = compile(workspace, targets)?;
    let finish = |&target: &Target| {
        let mut ptx = String::new();
        for (_, report) in reports.iter().filter(|(of, _)| *of == target) {
            sources.ensure_cover(workspace, &report.sources)?;
            let text = std::fs::read_to_string(&report.path);
            append(&mut ptx, &text.with_context(|| report.path.display().to_string())?)?;
        }
        entries::check(&ptx, target)?;
        let header = Header::new(target, compiler.clone(), sources.hash(&settings(target)));
        Ok((target, format!("{header}{ptx}")))
    };
    targets.iter().map(finish).collect()
}

/// Makes one module of `module`, which may be empty, and of another part of it.
fn append(module: &mut String, part: &str) -> Result<()> {
    /// What LLVM writes before each function, behind what all of them share.
    const NEXT: &str = "\t// .globl\t";
    if module.is_empty() {
        module.push_str(part);
        return Ok(());
    }
    let head = |text: &str| text.find(NEXT).context("a part of a module has no functions");
    let (ours, theirs) = (head(module)?, head(part)?);
    ensure!(module[..ours] == part[..theirs], "parts of a module declare different things");
    module.push_str(&part[theirs..]);
    Ok(())
}

/// Compiles the kernels for each target, Hopper's in two parts. The compiler takes a single core,
/// so there are two lanes of it; one part of Hopper's takes about as long as all the rest.
fn compile(workspace: &Workspace, targets: &[Target]) -> Result<Vec<(Target, BuildReport)>> {
    let (kernels, target_dir) = (workspace.root.join("gpu-kernels"), &workspace.target_dir);
    let compile = |target: Target, feature: &'static str, beside: Option<&str>| {
        let mut builder = builder(&kernels, target, feature).target_dir(target_dir);
        if let Some(lane) = beside {
            builder = builder.beside(lane);
        }
        let report = builder.build_with_report();
        let report = report.with_context(|| format!("compiling gpu-kernels for {feature}"))?;
        Ok((target, report))
    };
    let rest = || {
        let feature = |target: Target| match target {
            Target::Sm90a => "sm_90a_first",
            other => other.arch(),
        };
        let compile = |&target: &Target| compile(target, feature(target), None);
        targets.iter().map(compile).collect()
    };
    let second = || {
        let hopper = targets.iter().filter(|target| **target == Target::Sm90a);
        hopper.map(|&target| compile(target, "sm_90a_second", Some("hopper"))).collect()
    };
    let (rest, second): (Result<Vec<_>>, Result<Vec<_>>) = rayon::join(rest, second);
    Ok([rest?, second?].concat())
}

/// The device compiler, as headers record it; it is fetched where it has to be.
fn compiler_line(workspace: &Workspace) -> Result<String> {
    Ok(format!("rustc {}", device_compiler(workspace)?.description()))
}

/// The compiler that the builder uses.
pub fn device_compiler(workspace: &Workspace) -> Result<DeviceToolchain> {
    Ok(DeviceToolchain::find_or_fetch(&default_cache(&workspace.target_dir))?)
}

/// The first line, from 1, in which two texts differ, with both versions of it.
fn first_difference<'a>(old: &'a str, new: &'a str) -> Option<(usize, (&'a str, &'a str))> {
    if old == new {
        return None;
    }
    let (mut old, mut new) = (old.lines(), new.lines());
    for number in 1.. {
        match (old.next(), new.next()) {
            (None, None) => break,
            (a, b) if a == b => {}
            (a, b) => return Some((number, (a.unwrap_or("(end)"), b.unwrap_or("(end)")))),
        }
    }
    Some((1, ("other line ends", "")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_module_are_joined_behind_one_head() {
        let part = |name: &str| format!(".version 8.0\n\t// .globl\t{name}\n.entry {name}\n");
        let mut module = String::new();
        append(&mut module, &part("a")).unwrap();
        append(&mut module, &part("b")).unwrap();
        let b = "\t// .globl\tb\n.entry b\n";
        assert_eq!(module, part("a") + b);
        assert!(append(&mut module, &part("c").replace("8.0", "8.1")).is_err());
        assert!(append(&mut module, ".version 8.0\n").is_err());
    }

    #[test]
    fn settings_tell_all_that_the_builder_is_asked_for() {
        for target in Target::ALL {
            let (major, minor) = target.ptx_version();
            // What `settings` has words for. Whoever asks for more adds words there and asks here.
            let told = CudaBuilder::new("kernels")
                .arch(nvvm_arch(target))
                .ptx_version(major, minor)
                .release(true)
                .build_args(&["--no-default-features", "--features", "feature"]);
            let asked = builder(Path::new("kernels"), target, "feature");
            assert_eq!(format!("{asked:?}"), format!("{told:?}"));
        }
    }

    #[test]
    fn a_rebuild_that_is_required_is_one_of_all_files() {
        assert!(ensure_rebuilt(&[], false).is_ok());
        assert!(ensure_rebuilt(&Target::ALL, true).is_ok());
        let error = ensure_rebuilt(&Target::ALL[1..], true).unwrap_err().to_string();
        assert!(error.contains("GEMMITE_REQUIRE_REBUILD is 1"), "{error}");
    }

    #[test]
    fn nothing_to_build_takes_no_compiler() {
        let mut workspace = Workspace::find().unwrap();
        let sources = Sources::read(&workspace).unwrap();
        // No compiler is fetched to there; one that is installed would do.
        workspace.target_dir = "/dev/null".into();
        assert!(build(&workspace, &sources, &[]).unwrap().is_empty());
    }

    #[test]
    fn the_first_difference_is_found() {
        assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
        assert_eq!(first_difference("a\nb\n", "a\nc\n"), Some((2, ("b", "c"))));
        assert_eq!(first_difference("a\n", "a\nc\n"), Some((2, ("(end)", "c"))));
        assert!(first_difference("a\n", "a").is_some());
    }
}
