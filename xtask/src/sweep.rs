//! Time by tile: builds a step of the ladder with many tiles and measures each.
//!
//! The kernels are those of the ladder's own body, in a small crate that is written for them; none
//! of it lands in the library.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use cuda_builder::CudaBuilder;
use gemm_spec::{BRINGERS, DType, Kernel, KernelFamily, Target, Tiles};

use crate::build_ptx::nvvm_arch;
use crate::workspace::Workspace;

#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  cargo xtask sweep k10_grouped_order --dtype f32 --block 128x128x8,256x128x8 --thread 8x8,16x8
  cargo xtask sweep k06_no_conflicts -- 4096 4096 4096 --against cublas

Only tiles that divide each other take part. Every kernel is verified before it is timed.")]
pub struct Args {
    /// The step: a variant with tiles, as k04_thread_tile or a later one
    variant: String,
    /// The elements
    #[arg(long, default_value = "f32")]
    dtype: DType,
    /// Rows and columns of a block's tile, and its step along K [default: those of the table]
    #[arg(long, value_delimiter = ',', value_parser = parse::<3>, value_name = "MxNxK")]
    block: Vec<[usize; 3]>,
    /// Rows and columns of a warp's tile [default: those of the table]
    #[arg(long, value_delimiter = ',', value_parser = parse::<2>, value_name = "MxN")]
    warp: Vec<[usize; 2]>,
    /// Rows and columns of a thread's tile [default: those of the table]
    #[arg(long, value_delimiter = ',', value_parser = parse::<2>, value_name = "MxN")]
    thread: Vec<[usize; 2]>,
    /// Steps in shared memory at a time [default: as the table]
    #[arg(long, value_delimiter = ',', value_name = "N")]
    stages: Vec<usize>,
    /// Blocks to fit on a multiprocessor [default: as the table]
    #[arg(long, value_delimiter = ',', value_name = "N")]
    min_blocks: Vec<usize>,
    /// Builds the PTX, says where it is, and measures nothing
    #[arg(long)]
    build: bool,
    /// Go to `gemmite bench` as they are; the shape comes first
    #[arg(last = true, default_values = ["4096", "4096", "4096", "--against", "none"])]
    bench: Vec<String>,
}

/// `128x64` as [128, 64].
fn parse<const N: usize>(text: &str) -> Result<[usize; N], String> {
    let numbers: Result<Vec<usize>, _> = text.split('x').map(str::parse).collect();
    let wrong = || format!("expected {N} numbers with x between them");
    numbers.map_err(|_| wrong())?.try_into().map_err(|_| wrong())
}

pub fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let Some(base) = Kernel::find(&args.variant, args.dtype) else {
        let (variant, dtype) = (&args.variant, args.dtype);
        bail!("the table has no {variant} of {dtype}; {} have tiles to choose", with_tiles(dtype));
    };
    let Some(entries) = entries_macro(base) else {
        bail!("{} has no tiles to choose; {} have", args.variant, with_tiles(args.dtype));
    };
    let kernels = candidates(args, base);
    ensure!(!kernels.is_empty(), "no choice of these tiles fits together");
    let ptx = build(workspace, entries, &kernels)?;
    say!("{}: {} kernels", workspace.display(&ptx), kernels.len())?;
    if args.build {
        return Ok(());
    }
    let ptx = ptx.to_str().context("the target folder's name is no UTF-8")?;
    let (dtype, bench) = (args.dtype.name(), args.bench.iter().map(String::as_str));
    let arguments = ["bench"].into_iter().chain(bench).chain(["--dtype", dtype, "--ptx", ptx]);
    let arguments: Vec<String> = arguments.map(String::from).collect();
    workspace.run_where_we_stand(&["--release", "--package", "gemmite-cli"], &arguments)
}

/// The macro of gpu-kernels that makes entry points of `base`'s body with any tiles: the family's
/// first variant has its name, and the others have none of their own.
fn entries_macro(base: &Kernel) -> Option<&'static str> {
    let has_macro = matches!(
        base.family,
        KernelFamily::ThreadTile
            | KernelFamily::VectorLoads
            | KernelFamily::NoConflicts
            | KernelFamily::WarpTile
            | KernelFamily::DoubleBuffer
            | KernelFamily::AsyncCopy
            | KernelFamily::GroupedOrder
            | KernelFamily::TensorCore
            | KernelFamily::WarpSpecialized
    );
    let first = gemm_spec::kernels().find(|kernel| kernel.family == base.family)?;
    has_macro.then_some(first.variant)
}

/// The variants of `dtype` whose tiles can be chosen.
fn with_tiles(dtype: DType) -> String {
    let is_one = |variant: &&str| Kernel::find(variant, dtype).and_then(entries_macro).is_some();
    gemm_spec::variants().filter(is_one).collect::<Vec<_>>().join(", ")
}

/// The choices that fit together.
fn candidates(args: &Args, base: &Kernel) -> Vec<Kernel> {
    fn or<T: Copy>(asked: &[T], table: T) -> Vec<T> {
        if asked.is_empty() { vec![table] } else { asked.to_vec() }
    }
    let by_warps = base.tiles.warp != [base.tiles.block[0], base.tiles.block[1]];
    let mut kernels = Vec::new();
    for block in or(&args.block, base.tiles.block) {
        let whole = [block[0], block[1]];
        for warp in if by_warps { or(&args.warp, base.tiles.warp) } else { vec![whole] } {
            for thread in or(&args.thread, base.tiles.thread) {
                for stages in or(&args.stages, base.tiles.stages) {
                    for min_blocks in or(&args.min_blocks, base.tiles.min_blocks) {
                        let tiles = Tiles::of_threads(block, warp, thread, stages, min_blocks);
                        let kernel = Kernel { tiles, ..*base };
                        kernels.extend(fits(&kernel, by_warps).then_some(kernel));
                    }
                }
            }
        }
    }
    kernels
}

fn fits(kernel: &Kernel, by_warps: bool) -> bool {
    let Tiles { block, warp, thread, .. } = kernel.tiles;
    let divides = |a: usize, b: usize| a != 0 && b.is_multiple_of(a);
    let nested =
        (0..2).all(|axis| divides(thread[axis], warp[axis]) && divides(warp[axis], block[axis]));
    if !nested {
        return false;
    }
    let threads = kernel.block().0 as usize;
    let lanes = 16 / kernel.dtype.size_bytes();
    let bring = match kernel.family {
        KernelFamily::WarpSpecialized => BRINGERS,
        _ => threads,
    };
    let fills_a_warp = match kernel.family {
        // Two times 8 columns are read at a time.
        KernelFamily::TensorCore => divides(16, warp[1]),
        _ => warp[0] / thread[0] * (warp[1] / thread[1]) == 32,
    };
    (32..=1024).contains(&threads)
        && (!by_warps || fills_a_warp)
        && (0..2).all(|axis| divides(bring * lanes, block[axis] * block[2]))
        && kernel.shared_bytes() <= 227 << 10
}

/// The entry point's name, from which `gemmite bench --ptx` reads the tiles.
fn name(kernel: &Kernel) -> String {
    let Tiles { block: [m, n, k], warp, thread, stages, min_blocks, .. } = kernel.tiles;
    let ([wm, wn], [tm, tn]) = (warp, thread);
    let Kernel { variant, dtype, .. } = kernel;
    format!("{variant}_{m}x{n}x{k}_{wm}x{wn}_{tm}x{tn}_{stages}_{min_blocks}_{dtype}")
}

/// Writes the crate, with entry points by the macro `entries`, and compiles it.
fn build(workspace: &Workspace, entries: &str, kernels: &[Kernel]) -> Result<PathBuf> {
    let variant = kernels[0].variant;
    // One for each process: others may sweep beside us.
    let folder = workspace.target_dir.join(format!("sweep/{}", std::process::id()));
    let root = workspace.root.display();
    let dynamic = kernels[0].dynamic_shared_bytes() > 0;
    let features = if dynamic { ", features = [\"dynamic-shared\"]" } else { "" };
    let manifest = format!(
        "[package]\nname = \"sweep\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\
         [workspace]\n\
         [dependencies]\n\
         cuda_std = {{ path = \"{root}/cuda_std\"{features} }}\n\
         gemm-spec = {{ path = \"{root}/gemm-spec\" }}\n\
         gpu-kernels = {{ path = \"{root}/gpu-kernels\", default-features = false }}\n"
    );
    let mut source = format!(
        "#![no_std]\n#![feature(abi_ptx, asm_experimental_arch)]\n\
         use cuda_std::half::{{bf16, f16}};\n\
         gpu_kernels::{entries}! {{\n"
    );
    for kernel in kernels {
        let Tiles { block, warp, thread, stages, min_blocks, .. } = kernel.tiles;
        let (name, dtype) = (name(kernel), kernel.dtype);
        writeln!(
            source,
            "({name}, \"{variant}\", {dtype}, {block:?}, {warp:?}, {thread:?}, {stages}, \
             {min_blocks}),"
        )?;
    }
    source.push_str("}\n");
    let sh = &workspace.sh;
    sh.write_file(folder.join("Cargo.toml"), manifest)?;
    sh.write_file(folder.join("src/lib.rs"), source)?;
    // The versions that the kernels of the library are built with; cargo drops what is not needed.
    sh.copy_file(workspace.root.join("Cargo.lock"), folder.join("Cargo.lock"))?;
    // cp.async needs 8.0; a later target would give nothing more.
    let target = if dynamic { kernels[0].target } else { Target::Sm70 };
    let (major, minor) = target.ptx_version();
    let ptx = folder.join("sweep.ptx");
    CudaBuilder::new(&folder)
        .arch(nvvm_arch(target))
        .ptx_version(major, minor)
        .allow_local(true)
        .target_dir(&workspace.target_dir)
        .beside("sweep")
        .copy_to(&ptx)
        .build()?;
    Ok(ptx)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tiles_that_fit_are_tried() {
        let base = Kernel::find("k10_grouped_order", DType::F32).unwrap();
        assert!(fits(base, true));
        let with = |tiles: Tiles| fits(&Kernel { tiles, ..*base }, true);
        assert!(!with(Tiles { thread: [8, 7], ..base.tiles }));
        assert!(!with(Tiles { thread: [16, 8], ..base.tiles }));
        assert!(!with(Tiles { stages: 1000, ..base.tiles }));
        assert!(name(base).starts_with("k10_grouped_order_") && name(base).ends_with("_f32"));
    }

    #[test]
    fn variants_are_made_by_macros_that_there_are() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../gpu-kernels/src/ladder");
        let mut made = 0;
        for entries in gemm_spec::kernels().filter_map(entries_macro) {
            let text = std::fs::read_to_string(format!("{root}/{entries}.rs")).unwrap();
            assert!(text.contains(&format!("macro_rules! {entries} {{")), "{entries}");
            made += 1;
        }
        assert!(made > 9);
        let of = |variant, dtype| entries_macro(Kernel::find(variant, dtype).unwrap());
        assert_eq!(of("k10_grouped_64x64", DType::F32), Some("k10_grouped_order"));
        assert_eq!(of("k11_tensor_deep", DType::I8), Some("k11_tensor_core"));
        for variant in ["k03_thread_column", "warp_group_128x128", "skinny_row"] {
            assert_eq!(of(variant, DType::F16), None, "{variant}");
        }
        assert!(with_tiles(DType::F32).starts_with("k04_thread_tile, k05"));
    }

    #[test]
    fn tiles_are_read() {
        assert_eq!(parse::<3>("128x64x8"), Ok([128, 64, 8]));
        assert!(parse::<2>("128x64x8").is_err() && parse::<2>("ax1").is_err());
    }
}
