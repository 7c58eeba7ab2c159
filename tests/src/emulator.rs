//! The emulator as an engine, and the cases that are short enough for it.
//!
//! Every kernel of the table runs on the oldest GPU that has to run it, with whole buffers, so that
//! strides reach it as they are. The library's own choice runs from host slices and from device
//! matrices, on 8.0 and 9.0, and there from whole buffers too, of which some operands are copied
//! first. Of the table's cases those are left out whose emulation takes more
//! than `LONGEST` steps on a kernel: tests of all kernels together shall take few minutes.

use crate::case::Case;
use crate::engine::{Engine, Path};
use gemm_spec::{Kernel, KernelFamily, Target};
use gemmite::emulator::{Options, Timing};
use gemmite::{DType, Device, Element, OutputOf, Precision};
use std::iter;

/// The most multiplications of a case, with those of its blocks' tiles that lie outside of C: about
/// a tenth of a second for kernels without tensor cores.
const LONGEST: usize = 1 << 20;
/// The same for kernels that multiply on tensor cores, of which an instruction does thousands.
const LONGEST_ON_TENSOR_CORES: usize = 1 << 23;
/// The same for groups of warps, whose clusters compute tiles of 256 x 256 together.
const LONGEST_OF_WARP_GROUPS: usize = 1 << 25;
/// Of 512 x 256.
const LONGEST_OF_EIGHT_BLOCKS: usize = 1 << 26;

/// By how much cases are shorter whose C is not of the usual dtype: all that differs is the way to
/// C, which short ones go, too.
const OF_OTHER_OUTPUTS: usize = 4;

/// Of emulated GPUs for kernels whose blocks go on from tile to tile: so few that they do in small
/// cases.
const MULTIPROCESSORS: u32 = 4;

/// When asynchronous operations take effect, and which warps are late: with the environment
/// variable `GEMMITE_SEED=7` as this seed has it, else at the latest and none.
///
/// # Panics
/// The variable is no number.
pub fn timing() -> Timing {
    let Ok(seed) = std::env::var("GEMMITE_SEED") else { return Timing::default() };
    Timing::Seeded(seed.parse().unwrap_or_else(|_| panic!("GEMMITE_SEED is a number, not {seed}")))
}

/// Every kernel of `dtype`, multiplied so, and the library's own choice.
pub fn emulator_engines(dtype: DType, precision: Precision) -> Vec<Engine> {
    let open = |arch, multiprocessors| {
        let options = Options { arch, multiprocessors, timing: timing(), ..Options::default() };
        Device::emulator_with(&options).expect("it is a known one")
    };
    let variants = gemm_spec::variants().filter_map(|name| Kernel::find_in(name, dtype, precision));
    // On the first GPUs that run it, and where another module has it once more.
    let modules = variants.flat_map(|kernel| {
        let again = kernel.on(Target::Sm90.min_capability());
        iter::once(kernel).chain((again != kernel).then_some(again))
    });
    let mut engines: Vec<Engine> = modules
        .map(|kernel| {
            let multiprocessors = kernel.is_resident().then_some(MULTIPROCESSORS);
            let arch = kernel.target.min_capability();
            let device = open(arch, multiprocessors);
            Engine::new(&device, Some(kernel.variant), Path::Raw)
        })
        .collect();
    let paths =
        [(Target::Sm80, Path::Host), (Target::Sm90, Path::Device), (Target::Sm90, Path::Raw)];
    for (target, path) in paths {
        let device = open(target.min_capability(), None);
        engines.push(Engine::new(&device, None, path));
    }
    engines.into_iter().map(|engine| engine.precision(precision)).collect()
}

/// The kernel that computes `case` on an engine of the emulator; `None` where it is refused.
pub fn emulated_kernel<T: Element, C: OutputOf<T>>(
    case: &Case,
    engine: &Engine,
) -> Option<&'static Kernel> {
    let [a, b] = case.input_layouts();
    let plan = engine.gemm::<T, C>(case).plan(engine.device.info(), a, b).ok()?;
    plan.kernel
}

/// Whether `case` is short enough for an engine of the emulator. A refusal is.
pub fn is_short<T: Element, C: OutputOf<T>>(case: &Case, engine: &Engine) -> bool {
    let Some(kernel) = emulated_kernel::<T, C>(case, engine) else { return true };
    let [rows, cols, depth] = kernel.tiles.block;
    let [down, across] = kernel.cluster_tiles();
    let (m, n) = if kernel.swaps_operands() { (case.n, case.m) } else { (case.m, case.n) };
    let tiles = m.div_ceil(rows).next_multiple_of(down) * n.div_ceil(cols).next_multiple_of(across);
    let longest = match kernel.family {
        KernelFamily::TensorCore => LONGEST_ON_TENSOR_CORES,
        KernelFamily::WarpGroupInStep => LONGEST_OF_EIGHT_BLOCKS,
        family if family.is_warp_group() => LONGEST_OF_WARP_GROUPS,
        _ => LONGEST,
    };
    let longest = if C::DTYPE == T::DTYPE.output() { longest } else { longest / OF_OTHER_OUTPUTS };
    tiles * rows * cols * case.k.next_multiple_of(depth) <= longest
}
