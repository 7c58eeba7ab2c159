//! Whether a PTX module is the one that the table of kernels describes.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use cuda_builder::ptx::{self, Entry};
use gemm_spec::{
    DType, GROUPED_MAX, GemmParams, GroupedProduct, Kernel, KernelFamily, RepackParams,
    ScaleParams, Target,
};

/// Fails unless the entry points of `ptx` are the kernels of `target`, each with the parameters and
/// the launch bounds that the host launches it with.
pub fn check(text: &str, target: Target) -> Result<()> {
    let entries = ptx::entries(text);
    let mut unmatched: BTreeMap<&str, &Entry> =
        entries.iter().map(|entry| (entry.name.as_str(), entry)).collect();
    let mut problems = Vec::new();
    for kernel in gemm_spec::of_module(target) {
        match unmatched.remove(kernel.name) {
            Some(entry) => problems.extend(mismatch(kernel, entry)),
            None => problems.push(format!("{} is in the table and not in the PTX", kernel.name)),
        }
    }
    problems.extend(unmatched.keys().map(|name| format!("{name} is in no table of gemm-spec")));
    ensure!(problems.is_empty(), "the PTX for {}:\n{}", target.arch(), problems.join("\n"));
    Ok(())
}

fn mismatch(kernel: &Kernel, entry: &Entry) -> Option<String> {
    let pointer = size_of::<u64>();
    let block = block_bytes(kernel.dtype);
    let expected = match kernel.family {
        KernelFamily::Repack => [pointer, pointer, size_of::<RepackParams>()].repeat(2),
        KernelFamily::Finish | KernelFamily::FinishOverlapped => vec![pointer, pointer, block],
        KernelFamily::WarpGroupScaled => {
            let scales = [pointer, pointer, size_of::<ScaleParams>()];
            [&[TENSOR_MAP, TENSOR_MAP, TENSOR_MAP, pointer, block][..], &scales].concat()
        }
        KernelFamily::WarpGroupStreamK => {
            let operands = [TENSOR_MAP, TENSOR_MAP, TENSOR_MAP, pointer, block];
            [&operands[..], &[pointer, pointer, size_of::<u64>()]].concat()
        }
        KernelFamily::WarpGroupGrouped => {
            let numbers = size_of::<[GroupedProduct; GROUPED_MAX]>();
            vec![3 * TENSOR_MAP * GROUPED_MAX + numbers, pointer, pointer, block]
        }
        // Behind the addresses the maps of every eighth row of A and B.
        KernelFamily::WarpGroupDirect => {
            vec![pointer, pointer, pointer, block, 2 * gemm_spec::DIRECT_ROWS * TENSOR_MAP]
        }
        _ if kernel.takes_maps() => vec![TENSOR_MAP, TENSOR_MAP, TENSOR_MAP, pointer, block],
        _ => vec![pointer, pointer, pointer, block],
    };
    let params: Vec<usize> = entry.params.iter().map(|param| param.bytes).collect();
    if params != expected {
        return Some(format!("{}: parameters of {params:?} bytes, not {expected:?}", kernel.name));
    }
    let (x, y) = kernel.block();
    let threads = x * y;
    let bound = format!(".maxntid {threads}, 1, 1");
    if !entry.directives.contains(&bound) {
        let directives = entry.directives.join(" ");
        return Some(format!("{}: no `{bound}` among `{directives}`", kernel.name));
    }
    None
}

/// Bytes of a tensor map (`CUtensorMap` in cuda.h).
const TENSOR_MAP: usize = 128;

/// Bytes of the parameter block for elements of `dtype`.
fn block_bytes(dtype: DType) -> usize {
    match dtype.accumulator() {
        DType::F64 => size_of::<GemmParams<f64>>(),
        DType::I32 => size_of::<GemmParams<i32>>(),
        _ => size_of::<GemmParams<f32>>(),
    }
}
