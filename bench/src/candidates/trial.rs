//! Kernels on trial: the bodies of the ladder with other tiles than the table's, from a PTX module
//! that `cargo xtask sweep` makes.
//!
//! An entry's name tells all that its launch has to know. The kernel
//! `k10_grouped_order_128x128x8_32x64_8x8_4_2_f32` is the body of `k10_grouped_order` with those
//! block, warp and thread tiles, 4 stages, and room for 2 blocks on a multiprocessor.

use super::nvcc::argument;
use super::{Absence, Entrant};
use crate::case::Case;
use crate::gpu::{Gpu, GpuWork, Operands};
use crate::record::Side;
use anyhow::{Context, Result, ensure};
use cust::function::Function;
use cust::module::Module;
use cust::stream::Stream;
use cust::sys::{self, CUfunction_attribute};
use gemm_spec::{GemmParams, Kernel, Tiles};
use gemmite::{Element, Scalar, Shape};
use std::path::Path;

/// A module with its entries.
pub struct Trial {
    module: Module,
    entries: Vec<(String, Kernel)>,
}

impl Trial {
    /// Loads the module. The GPU's context is current.
    pub fn open(path: &Path) -> Result<Trial> {
        let said = || path.display().to_string();
        let text = std::fs::read_to_string(path).with_context(said)?;
        let names = text.lines().filter_map(|line| {
            line.strip_prefix(".visible .entry ")?.split('(').next().map(str::to_owned)
        });
        let entries = names
            .map(|name| Ok((name.clone(), kernel(&name).with_context(|| name.clone())?)))
            .collect::<Result<Vec<_>>>()
            .with_context(said)?;
        ensure!(!entries.is_empty(), "{}: no entry point", path.display());
        let module = Module::from_ptx(text, &[]).with_context(said)?;
        Ok(Trial { module, entries })
    }

    /// The module's kernels for the case's elements.
    pub fn entrants<'a, T: Element>(
        &'a self,
        gpu: &'a Gpu,
        operands: &'a Operands,
        case: &'a Case<T>,
    ) -> Vec<Entrant<'a, T>> {
        let entries = self.entries.iter().filter(|(_, kernel)| kernel.dtype == T::DTYPE);
        let entrant = |(name, kernel): &'a (String, Kernel)| {
            let function = self.module.get_function(name).map_err(anyhow::Error::from);
            let launched = function.and_then(|function| launch::<T>(function, kernel, case));
            let candidate = match launched {
                Ok(launch) => {
                    let work = GpuWork::new(gpu, operands, case, Box::new(launch));
                    Ok(Box::new(work) as Box<dyn super::Candidate<T> + 'a>)
                }
                Err(error) => Err(Absence::of(&error)),
            };
            Entrant { name: name.clone(), side: Side::Ours, note: String::new(), candidate }
        };
        entries.map(entrant).collect()
    }
}

/// What an entry's name says.
fn kernel(name: &str) -> Option<Kernel> {
    let (rest, dtype) = name.rsplit_once('_')?;
    let base = gemm_spec::kernels().find(|kernel| {
        kernel.dtype.name() == dtype && rest.starts_with(&format!("{}_", kernel.variant))
    })?;
    let numbers = rest[base.variant.len() + 1..].split('_').map(|part| {
        part.split('x').map(|number| number.parse().ok()).collect::<Option<Vec<usize>>>()
    });
    let numbers: Vec<Vec<usize>> = numbers.collect::<Option<_>>()?;
    let [block, warp, thread, stages, min_blocks] = numbers.try_into().ok()?;
    let tiles = Tiles::of_threads(
        block.try_into().ok()?,
        warp.try_into().ok()?,
        thread.try_into().ok()?,
        *stages.first()?,
        *min_blocks.first()?,
    );
    Some(Kernel { tiles, ..*base })
}

fn launch<'a, T: Element>(
    function: Function<'a>,
    kernel: &Kernel,
    case: &'a Case<T>,
) -> Result<impl FnMut([u64; 3], &Stream) -> Result<()> + 'a> {
    let row = &case.row;
    let shape = Shape::new(row.m, row.n);
    let launches: Vec<_> = kernel.launches(shape).context("no grid")?.collect();
    if launches.len() != 1 || row.batch != 1 || row.epilogue.is_fused() {
        return Err(Absence::unsupported("only plain products of one launch are tried").into());
    }
    let [a, b, c] = row.layouts();
    let strides = [a.apply(row.op_a), b.apply(row.op_b), c].map(|layout| layout.strides);
    let (alpha, beta) = (case.alpha(), case.beta());
    let params = GemmParams::new(shape, row.k, strides, alpha, beta, T::Scalar::ZERO);
    let shared = kernel.dynamic_shared_bytes() as u32;
    let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    // SAFETY: the function is of a module that outlives it.
    let result =
        unsafe { sys::cuFuncSetAttribute(function.to_raw(), attribute, shared.cast_signed()) };
    ensure!(result == sys::CUresult::CUDA_SUCCESS, "{shared} bytes of shared memory: {result:?}");
    let (grid, block) = (launches[0].grid, launches[0].block);
    Ok(move |addresses: [u64; 3], stream: &Stream| {
        let [a, b, c] = addresses.each_ref().map(argument);
        let arguments = [a, b, c, argument(&params)];
        // SAFETY: every kernel of the ladder takes three addresses and the block, over buffers that
        // outlive the stream's work; the geometry is that of its tiles.
        unsafe {
            let (grid, block) = ((grid.0, grid.1, 1), (block.0, block.1, 1));
            stream.launch(&function, grid, block, shared, &arguments)?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemmite::DType;

    #[test]
    fn names_tell_the_launch() {
        let kernel = kernel("k10_grouped_order_256x128x8_64x64_16x8_4_1_f32").unwrap();
        assert_eq!((kernel.variant, kernel.dtype), ("k10_grouped_order", DType::F32));
        assert_eq!(kernel.tiles.block, [256, 128, 8]);
        assert_eq!((kernel.tiles.stages, kernel.block()), (4, (256, 1)));
        for wrong in ["k99_1x1x1_1x1_1x1_1_1_f32", "k10_grouped_order_f32", "x"] {
            assert!(super::kernel(wrong).is_none(), "{wrong}");
        }
    }
}
