//! The kernels' machine code for the GPUs that the project is measured on, built from their PTX by
//! `cargo xtask build-ptx` and committed (docs/decisions/0018-machine-code.md).

use crate::own;
use gemm_spec::Kernel;

/// The compute capability that the code is for. No other GPU runs it.
const CAPABILITY: (u32, u32) = (9, 0);

/// A head of text, with a line for each kernel; behind an empty line the code, deflated.
const FILE: &[u8] = include_bytes!("../cubin/sm_90.cubins");

/// The code of a kernel for a GPU of that compute capability, if it is one of the table's and there
/// is such code.
pub(crate) fn of_kernel(kernel: &Kernel, capability: (u32, u32)) -> Option<Vec<u8>> {
    if capability != CAPABILITY || own::ptx_of(kernel).is_some() {
        return None;
    }
    let end = FILE.windows(2).position(|bytes| bytes == b"\n\n")?;
    let (head, code) = (std::str::from_utf8(&FILE[..end]).ok()?, &FILE[end + 2..]);
    let is_it = |line: &&str| line.split(' ').next() == Some(kernel.name);
    let mut numbers = head.lines().find(is_it)?.split(' ').skip(1).map(str::parse::<usize>);
    let mut number = || numbers.next()?.ok();
    let (first, bytes, size) = (number()?, number()?, number()?);
    let deflated = code.get(first..)?.get(..bytes)?;
    miniz_oxide::inflate::decompress_to_vec_with_limit(deflated, size).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemm_spec::Target;

    #[test]
    fn every_kernel_that_runs_there_has_code() {
        let mut lean = 0;
        let both = |kernel: &'static Kernel| [Some(kernel), kernel.lean()].into_iter().flatten();
        let kernels = gemm_spec::entries().flat_map(both);
        for kernel in kernels.filter(|kernel| kernel.target.runs_on(CAPABILITY)) {
            let code = of_kernel(kernel, CAPABILITY).unwrap_or_default();
            assert!(code.starts_with(b"\x7fELF"), "{}", kernel.name);
            let name = [kernel.name.as_bytes(), b"\0"].concat();
            assert!(code.windows(name.len()).any(|bytes| bytes == name), "{}", kernel.name);
            lean += usize::from(kernel.whole().is_some());
        }
        let all = gemm_spec::of_module(Target::Sm90a).filter(|kernel| kernel.whole().is_some());
        assert!(lean > 0 && lean == all.count());
    }

    #[test]
    fn other_gpus_get_none() {
        for capability in [(7, 0), (8, 0), (8, 9), (10, 0), (12, 0)] {
            let kernels = gemm_spec::entries();
            assert!(kernels.into_iter().all(|kernel| of_kernel(kernel, capability).is_none()));
        }
    }
}
