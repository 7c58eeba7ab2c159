//! The tutorials' kernels in CUDA C++ (bench/peers/twins.cu), built by nvcc when the run starts.
//!
//! They take part where every kernel of ours does: plain products of row-major matrices without
//! gaps. Two forms: `tutorial`, as the tutorials write it, and `twin`, with our parameters.

use super::{Absence, Entrant, Peer};
use crate::case::Case;
use crate::gpu::{Gpu, GpuWork, Operands};
use crate::suite::{Epilogue, Kernels, Row};
use anyhow::{Context, Result, ensure};
use cust::function::Function;
use cust::module::Module;
use cust::stream::Stream;
use gemm_spec::{GemmParams, Kernel, KernelFamily, ThreadOrder};
use gemmite::{Element, Op, Scalar, Shape};
use std::ffi::c_void;
use std::process::Command;

const SOURCE: &str = include_str!("../../peers/twins.cu");

/// The peers' kernels, loaded.
pub struct Nvcc {
    module: Module,
    /// The compiler's version, as in 13.0.
    pub version: String,
}

impl Nvcc {
    /// Builds the kernels for this GPU.
    pub fn build(gpu: &Gpu) -> Result<Nvcc, Absence> {
        let version = Command::new("nvcc").arg("--version").output();
        let Ok(version) = version else {
            return Err(Absence::missing("no nvcc in PATH"));
        };
        let version = String::from_utf8_lossy(&version.stdout).into_owned();
        let version = version.split_once("release ").and_then(|(_, rest)| rest.split(',').next());
        let version = version.unwrap_or("unknown").to_owned();
        let module = build(gpu).map_err(|error| Absence::of(&error))?;
        Ok(Nvcc { module, version })
    }

    /// Both forms of each algorithm and tile that our table has, in the thread order that
    /// coalesces.
    pub fn entrants<'a, T: Element>(
        &'a self,
        gpu: &'a Gpu,
        operands: &'a Operands,
        case: &'a Case<T>,
    ) -> Vec<Entrant<'a, T>> {
        let name = Peer::Nvcc.name();
        if case.row.kernels != Kernels::All {
            return Vec::new(); // the ladder's peers; they are no library
        }
        if let Err(error) = plain(&case.row) {
            return vec![Entrant::absent(name, Absence::unsupported(error.to_string()))];
        }
        let mut entrants = Vec::new();
        let kernels = gemm_spec::kernels()
            .filter(|kernel| kernel.dtype == T::DTYPE && kernel.order == ThreadOrder::AlongColumns);
        for kernel in kernels {
            for form in ["tutorial", "twin"] {
                let algorithm = match kernel.family {
                    KernelFamily::Naive => "naive",
                    KernelFamily::Tiled => "tiled",
                    _ => continue,
                };
                let tile = kernel.tiles.block[0];
                let function = format!("{form}_{algorithm}_{tile}_{}", kernel.dtype);
                let name = format!("{name}_{form}_{algorithm}_{tile}");
                let Ok(function) = self.module.get_function(&function) else { continue };
                let launch = launch::<T>(function, kernel, form == "twin", case.row);
                let work = GpuWork::new(gpu, operands, case, Box::new(launch));
                entrants.push(Entrant::peer(&name, format!("nvcc {}", self.version), work));
            }
        }
        if entrants.is_empty() {
            let reason = format!("bench/peers/twins.cu has no kernels of {}", T::DTYPE);
            entrants.push(Entrant::absent(name, Absence::unsupported(reason)));
        }
        entrants
    }
}

fn build(gpu: &Gpu) -> Result<Module> {
    let folder = tempfile::tempdir()?;
    let (source, cubin) = (folder.path().join("twins.cu"), folder.path().join("twins.cubin"));
    std::fs::write(&source, SOURCE)?;
    let output = Command::new("nvcc")
        .args(["-O3", "-cubin", "-arch", &gpu.arch()?, "-o"])
        .args([&cubin, &source])
        .output()?;
    ensure!(output.status.success(), "nvcc: {}", String::from_utf8_lossy(&output.stderr));
    Module::from_cubin(std::fs::read(&cubin)?, &[]).context("the driver does not load the cubin")
}

fn plain(row: &Row) -> Result<()> {
    let tight = Row::new(row.dtype, row.ops(), [row.m, row.n, row.k])?.leading == row.leading;
    let ops = [row.op_a, row.op_b] == [Op::None, Op::None];
    let is_plain = ops && tight && row.batch == 1 && row.epilogue == Epilogue::NONE;
    ensure!(is_plain, "the tutorials' kernels take plain row-major products alone");
    Ok(())
}

/// Calls a kernel of the form `(a, b, c, int m, int n, int k)`, or, with `twin`, one that takes the
/// three addresses and our parameter block.
fn launch<'a, T: Element>(
    function: Function<'a>,
    kernel: &Kernel,
    twin: bool,
    row: Row,
) -> impl FnMut([u64; 3], &Stream) -> Result<()> + 'a {
    let tile = kernel.tiles.block[0];
    let grid = [row.n, row.m].map(|extent| extent.div_ceil(tile) as u32);
    let tile = tile as u32;
    let sizes = [row.m, row.n, row.k].map(|extent| extent as i32);
    let strides = row.layouts().map(|layout| layout.strides);
    let (one, zero) = (T::Scalar::ONE, T::Scalar::ZERO);
    let params = GemmParams::new(Shape::new(row.m, row.n), row.k, strides, one, None, zero);
    move |addresses, stream| {
        let mut arguments: Vec<*mut c_void> = addresses.iter().map(argument).collect();
        if twin {
            arguments.push(argument(&params));
        } else {
            arguments.extend(sizes.iter().map(argument));
        }
        // SAFETY: the arguments are those that the kernels of the form take (peers/twins.cu), over
        // buffers that outlive the stream's work.
        unsafe {
            let (grid, block) = ((grid[0], grid[1], 1), (tile, tile, 1));
            stream.launch(&function, grid, block, 0, &arguments)?;
        }
        Ok(())
    }
}

/// The address of an argument, as a launch wants it.
pub(super) fn argument<T>(value: &T) -> *mut c_void {
    std::ptr::from_ref(value).cast_mut().cast()
}
