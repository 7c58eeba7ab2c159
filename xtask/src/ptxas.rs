//! Assembles the PTX for every GPU generation that it is meant for, and reads what the assembler
//! says of each kernel.
//!
//! A driver does the same at run time. Done here, it needs no GPU, and a kernel that spills
//! registers or that some generation refuses fails a build and not a user.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use gemm_spec::Target;
use rayon::prelude::*;
use xshell::{Shell, cmd};

use crate::nvidia_tools::{NVDISASM, PTXAS};
use crate::workspace::Workspace;

/// Turing to Blackwell: what release 13 of the assembler knows (it dropped sm_70).
const ARCHS: [&str; 9] =
    ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_110", "sm_120"];

#[derive(clap::Args)]
pub struct Args {
    /// A GPU to assemble for, such as sm_90; all of sm_75 to sm_120 where none is named
    #[arg(long, num_args = 1.., value_name = "ARCH")]
    arch: Vec<String>,
    /// Prints the machine code of this kernel for the last GPU that it was assembled for
    #[arg(long, value_name = "KERNEL")]
    sass: Option<String>,
}

/// What the assembler says of one kernel on one GPU.
#[derive(Clone, Debug, Default, PartialEq)]
struct Usage {
    registers: u32,
    shared_bytes: u32,
    stack_bytes: u32,
    spill_bytes: u32,
}

/// What the assembler said of one PTX file on one GPU.
#[derive(Debug, Default, PartialEq)]
pub struct Assembly {
    kernels: BTreeMap<String, Usage>,
    warnings: Vec<String>,
}

pub fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let asked = !args.arch.is_empty();
    let archs: Vec<String> =
        if asked { args.arch.clone() } else { ARCHS.map(String::from).to_vec() };
    let wanted: Vec<(Target, String)> = Target::ALL
        .into_iter()
        .flat_map(|target| gpus_for(target.arch(), &archs, asked).map(move |gpu| (target, gpu)))
        .collect();
    if let Some(arch) = archs.iter().find(|arch| !wanted.iter().any(|(_, gpu)| gpu == *arch)) {
        let targets = Target::ALL.map(Target::arch).join(", ");
        bail!("no PTX file is for {arch}: they are compiled for {targets}");
    }

    let ptxas = PTXAS.find(workspace, |sh, path| knows(sh, path, &wanted))?;
    let version = cmd!(workspace.sh, "{ptxas} --version").quiet().read()?;
    say!("{}", version.lines().find(|line| line.contains("release")).unwrap_or("ptxas"))?;

    let dir = workspace.sh.create_temp_dir()?;
    let cubin = |(target, gpu): &(Target, String)| {
        dir.path().join(format!("{}-{gpu}.cubin", target.arch()))
    };
    let cubins: Vec<_> = wanted.iter().map(|of| (of.0, cubin(of))).collect();
    // On all cores: a file takes the assembler half a minute.
    let ptx = Target::ALL.map(|target| workspace.ptx_file(target.arch()));
    let file = |of: Target| &ptx[Target::ALL.iter().position(|target| *target == of).unwrap_or(0)];
    let all: Vec<_> = wanted
        .par_iter()
        .map(|of| assemble(&ptxas, file(of.0), &of.1, &cubin(of)))
        .collect::<Result<_>>()?;

    let mut problems = BTreeSet::new();
    let mut assemblies = wanted.iter().zip(all);
    for target in Target::ALL {
        let mut columns = Vec::new();
        // They are in the targets' order.
        let count = wanted.iter().filter(|(of, _)| *of == target).count();
        for ((_, gpu), assembly) in assemblies.by_ref().take(count) {
            problems.extend(find_problems(target, gpu, &assembly));
            columns.push((gpu.as_str(), assembly));
        }
        say!("{}", table(target, &columns).trim_end())?;
    }
    if let Some(kernel) = &args.sass {
        print_sass(workspace, kernel, &cubins)?;
    }
    if !problems.is_empty() {
        let lines: Vec<String> = problems.into_iter().collect();
        bail!("{} problems:\n{}", lines.len(), lines.join("\n"));
    }
    say!("no spills, no stack, no warnings")?;
    Ok(())
}

/// The GPUs among `archs` that PTX for `target` runs on. Those of a target with a suffix (sm_90a)
/// run on just that one, which the default list does not name.
fn gpus_for(target: &str, archs: &[String], asked: bool) -> impl Iterator<Item = String> + use<> {
    let is_specific = target.ends_with(|c: char| c.is_ascii_alphabetic());
    let gpus: Vec<String> = if is_specific {
        let takes = |arch: &&String| !asked || **arch == target;
        archs.iter().find(takes).map(|_| target.to_owned()).into_iter().collect()
    } else {
        let takes = |arch: &&String| capability(arch) >= capability(target);
        archs.iter().filter(takes).cloned().collect()
    };
    gpus.into_iter()
}

/// 90 for sm_90 and sm_90a; `None` for what is no name of a GPU.
fn capability(arch: &str) -> Option<u32> {
    arch.strip_prefix("sm_")?.trim_end_matches(|c: char| c.is_ascii_alphabetic()).parse().ok()
}

/// True where the assembler knows every GPU that is wanted.
fn knows(sh: &Shell, ptxas: &Path, wanted: &[(Target, String)]) -> Result<bool> {
    let help = cmd!(sh, "{ptxas} --help").quiet().read()?;
    Ok(wanted.iter().all(|(_, gpu)| help.contains(&format!("'{gpu}'"))))
}

/// Assembles a PTX file for a GPU.
pub fn assemble(ptxas: &Path, ptx: &Path, gpu: &str, cubin: &Path) -> Result<Assembly> {
    let mut command = Command::new(ptxas);
    command.arg("-v").arg(format!("-arch={gpu}")).arg(ptx).arg("-o").arg(cubin);
    let output = command.output().with_context(|| format!("{}", ptxas.display()))?;
    // The assembler writes to either stream, by release.
    let log = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} for {gpu}:\n{log}", ptx.display());
    parse(&log).with_context(|| format!("ptxas said:\n{log}"))
}

/// Reads the output of `ptxas -v`.
fn parse(log: &str) -> Result<Assembly> {
    let mut assembly = Assembly::default();
    let mut current: Option<String> = None;
    for line in log.lines() {
        if line.contains("warning") || line.contains("Potential Performance Loss") {
            assembly.warnings.push(line.trim().to_owned());
        } else if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            let name = rest.split('\'').next().unwrap_or_default().to_owned();
            assembly.kernels.insert(name.clone(), Usage::default());
            current = Some(name);
        } else if let Some(name) = &current {
            let usage = assembly.kernels.get_mut(name).context("a kernel just inserted")?;
            read_numbers(line, usage)?;
        }
    }
    Ok(assembly)
}

/// Takes "8 bytes stack frame" and its like from a line of facts that commas separate.
fn read_numbers(line: &str, usage: &mut Usage) -> Result<()> {
    let facts = line.strip_prefix("ptxas info    :").unwrap_or(line);
    for fact in facts.split(',') {
        let number = || {
            let word = fact.split_whitespace().find(|word| word.parse::<u32>().is_ok());
            word.and_then(|word| word.parse().ok()).with_context(|| format!("no number: {fact}"))
        };
        if fact.ends_with(" registers") {
            usage.registers = number()?;
        } else if fact.ends_with(" smem") {
            usage.shared_bytes = number()?;
        } else if fact.ends_with(" stack frame") || fact.ends_with(" lmem") {
            usage.stack_bytes = usage.stack_bytes.max(number()?);
        } else if fact.ends_with(" spill stores") || fact.ends_with(" spill loads") {
            usage.spill_bytes += number()?;
        }
    }
    Ok(())
}

/// What must not be: a kernel of the table that is missing, and what an assembly itself has.
fn find_problems(target: Target, gpu: &str, assembly: &Assembly) -> Vec<String> {
    let expected: BTreeSet<&str> = gemm_spec::of_module(target).map(|kernel| kernel.name).collect();
    let missing = expected.iter().filter(|name| !assembly.kernels.contains_key(**name));
    let missing = missing.map(|name| format!("{name} is in the table and not in the PTX"));
    missing.chain(assembly.problems(gpu)).collect()
}

impl Assembly {
    /// What no kernel may have: spills, local memory, warnings.
    pub fn problems(&self, gpu: &str) -> Vec<String> {
        let mut problems = Vec::new();
        for (name, usage) in &self.kernels {
            if usage.spill_bytes > 0 {
                problems.push(format!("{gpu}: {name} spills {} bytes", usage.spill_bytes));
            }
            if usage.stack_bytes > 0 {
                let bytes = usage.stack_bytes;
                problems.push(format!("{gpu}: {name} has {bytes} bytes of local memory"));
            }
        }
        problems.extend(self.warnings.iter().map(|warning| format!("{gpu}: {warning}")));
        problems
    }
}

/// One line a kernel: shared bytes, and registers on each GPU.
fn table(target: Target, columns: &[(&str, Assembly)]) -> String {
    let names: BTreeSet<&String> = columns.iter().flat_map(|(_, a)| a.kernels.keys()).collect();
    let width = names.iter().map(|name| name.len()).max().unwrap_or(0);
    let mut text = format!("\n{}.ptx: registers a thread on each GPU\n", target.arch());
    text += &format!("{:width$}  {:>6}", "kernel", "shared");
    for (gpu, _) in columns {
        text += &format!("  {gpu:>6}");
    }
    text.push('\n');
    for name in names {
        let usages = columns.iter().filter_map(|(_, assembly)| assembly.kernels.get(name));
        let shared = usages.map(|usage| usage.shared_bytes).max().unwrap_or(0);
        text += &format!("{name:width$}  {shared:>6}");
        for (_, assembly) in columns {
            let registers = assembly.kernels.get(name).map(|usage| usage.registers.to_string());
            text += &format!("  {:>6}", registers.as_deref().unwrap_or("-"));
        }
        text.push('\n');
    }
    text.push('\n');
    text
}

fn print_sass(workspace: &Workspace, kernel: &str, cubins: &[(Target, PathBuf)]) -> Result<()> {
    let modules = Target::ALL.into_iter().flat_map(gemm_spec::of_module);
    let known = modules.into_iter().find(|k| k.name == kernel);
    let target = known.with_context(|| format!("no kernel is called {kernel}"))?.target;
    let cubin = cubins.iter().rev().find(|(of, _)| *of == target);
    let (_, cubin) = cubin.with_context(|| format!("{kernel} was assembled for no GPU"))?;
    let nvdisasm = NVDISASM.find(workspace, |_, _| Ok(true))?;
    let listing = cmd!(workspace.sh, "{nvdisasm} -c {cubin}").quiet().read()?;
    say!("{kernel} in {}", cubin.file_name().unwrap_or_default().display())?;
    say!("{}", section(&listing, kernel).context("nvdisasm does not list the kernel")?)?;
    Ok(())
}

/// The lines of a kernel's section in a listing.
fn section(listing: &str, kernel: &str) -> Option<String> {
    let starts = format!(".text.{kernel}:");
    let lines = listing.lines().skip_while(|line| !line.starts_with(&starts));
    let lines: Vec<&str> = lines.skip(1).take_while(|line| !line.contains("//-----")).collect();
    (!lines.is_empty()).then(|| lines.join("\n").trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'f' for 'sm_90'
ptxas info    : Function properties for f
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 2048 bytes smem
ptxas info    : Compile time = 2.029 ms
ptxas warning : something is off
ptxas info    : Compiling entry function 'g' for 'sm_90'
ptxas info    : Function properties for g
    16 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 255 registers
";

    #[test]
    fn reads_what_ptxas_prints() {
        let assembly = parse(LOG).unwrap();
        let f = Usage { registers: 40, shared_bytes: 2048, stack_bytes: 0, spill_bytes: 0 };
        let g = Usage { registers: 255, shared_bytes: 0, stack_bytes: 16, spill_bytes: 20 };
        assert_eq!(assembly.kernels, BTreeMap::from([("f".into(), f), ("g".into(), g)]));
        assert_eq!(assembly.warnings, ["ptxas warning : something is off"]);
    }

    #[test]
    fn spills_stack_warnings_and_missing_kernels_are_problems() {
        let problems = find_problems(Target::Sm70, "sm_90", &parse(LOG).unwrap());
        for said in
            ["g spills 20 bytes", "g has 16 bytes", "something is off", "k02_tiled_16_f32 is"]
        {
            assert!(problems.iter().any(|problem| problem.contains(said)), "{said}: {problems:?}");
        }
        assert!(!problems.iter().any(|problem| problem.contains(": f ")));
    }

    #[test]
    fn each_target_has_its_gpus() {
        let archs: Vec<String> = ["sm_75", "sm_90", "sm_120"].map(String::from).to_vec();
        let gpus = |target, asked| gpus_for(target, &archs, asked).collect::<Vec<_>>();
        assert_eq!(gpus("sm_70", false), archs);
        assert_eq!(gpus("sm_80", false), ["sm_90", "sm_120"]);
        assert_eq!(gpus("sm_90a", false), ["sm_90a"]);
        assert_eq!(gpus("sm_90a", true), [""; 0]);
    }

    #[test]
    fn a_section_ends_where_the_next_begins() {
        let listing = "f:\n.text.f:\n  A ;\n  B ;\n//--------- .text.g ----\n.text.g:\n  C ;\n";
        assert_eq!(section(listing, "f").unwrap(), "  A ;\n  B ;");
        assert_eq!(section(listing, "g").unwrap(), "  C ;");
        assert_eq!(section(listing, "h"), None);
    }
}
