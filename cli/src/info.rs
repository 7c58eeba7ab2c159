//! `gemmite info`: what the machine has, and which kernels run on it.

use std::io::Write;

use anyhow::Result;
use gemm_spec::Kernel;
use gemmite::{DType, Device, DeviceInfo, Gemm, Layout, Precision, Shape, with_element};

use gemmite_bench::text;

/// Prints the CPU, the driver and each GPU. No GPU is no error.
pub fn run(out: &mut impl Write) -> Result<()> {
    writeln!(out, "gemmite  {}", env!("CARGO_PKG_VERSION"))?;
    writeln!(out, "cpu      {}", Device::cpu().name())?;
    writeln!(out, "emulator --device emulator:X.Y runs GPU kernels on the CPU and checks them")?;
    let count = match Device::cuda_count() {
        Ok(count) => count,
        Err(why) => {
            writeln!(out, "gpu      none: {why}")?;
            return Ok(());
        }
    };
    if count == 0 {
        writeln!(out, "gpu      none: the driver is there and sees no device")?;
    }
    for ordinal in 0..count {
        match Device::cuda(ordinal) {
            Ok(device) => gpu(out, ordinal, device.info())?,
            Err(why) => writeln!(out, "\ncuda:{ordinal}   not usable: {why}")?,
        }
    }
    Ok(())
}

fn gpu(out: &mut impl Write, ordinal: usize, info: &DeviceInfo) -> Result<()> {
    let version = |version: Option<(u32, u32)>| {
        version.map_or("unknown".into(), |(major, minor)| format!("{major}.{minor}"))
    };
    let size = |bytes: Option<u64>| bytes.map_or("unknown".into(), text::bytes);
    let shared = size(info.shared_memory_per_block.map(u64::from));
    let optin = size(info.shared_memory_per_block_optin.map(u64::from));
    let multiprocessors = info.multiprocessors.map_or("unknown".into(), |count| count.to_string());
    writeln!(out, "\ncuda:{ordinal}   {}", info.name)?;
    writeln!(out, "  driver               for CUDA up to {}", version(info.driver_version))?;
    writeln!(out, "  compute capability   {}", version(info.compute_capability))?;
    let moves = info.memory_bandwidth.map_or("unknown".into(), text::bytes);
    writeln!(out, "  memory               {}, {moves} a second", size(info.total_memory))?;
    writeln!(out, "  L2 cache             {}", size(info.l2_cache))?;
    writeln!(out, "  shared memory        {shared} a block, {optin} on request")?;
    writeln!(out, "  multiprocessors      {multiprocessors}")?;
    if let Some(clusters) = info.clusters_of_eight {
        writeln!(out, "  clusters of eight    {clusters} at a time")?;
    }
    writeln!(out, "  kernels that fit")?;
    let head = ["kernel", "dtypes", "threads a block", "shared memory"].map(String::from);
    let mut rows = vec![head.to_vec()];
    rows.extend(gemm_spec::variants().map(|variant| kernel(variant, info)));
    for line in text::table(2, &rows).lines() {
        writeln!(out, "    {line}")?;
    }
    Ok(())
}

/// A row of the table: the dtypes, and tf32 and bf16x6, for which `info`'s GPU can run the variant,
/// and what a block of it takes.
fn kernel(variant: &str, info: &DeviceInfo) -> Vec<String> {
    let full = DType::ALL.map(|dtype| (dtype, Precision::Full));
    let fewer = [Precision::Tf32, Precision::Bf16x6].map(|precision| (DType::F32, precision));
    let fitting: Vec<&Kernel> = full
        .into_iter()
        .chain(fewer)
        .filter_map(|(dtype, precision)| Kernel::find_in(variant, dtype, precision))
        .filter(|kernel| fits(kernel, info))
        .collect();
    if fitting.is_empty() {
        return vec![variant.into(), "none".into()];
    }
    let dtypes: Vec<_> = fitting.iter().map(|kernel| kernel.precision.name(kernel.dtype)).collect();
    let shared = fitting.iter().map(|kernel| kernel.shared_bytes()).max().unwrap_or(0);
    let threads = fitting[0].block().0 * fitting[0].block().1;
    let shared = text::bytes(shared as u64);
    vec![variant.into(), dtypes.join(" "), threads.to_string(), shared]
}

fn fits(kernel: &Kernel, info: &DeviceInfo) -> bool {
    // Rows of a multiple of 16 bytes, as some kernels take them alone, and of any order, since some
    // take operands along K alone.
    let square = Shape::new(64, 64);
    let (rows, cols) = (Layout::row_major(square), Layout::col_major(square));
    with_element!(kernel.dtype, T => {
        let gemm = Gemm::<T>::new().precision(kernel.precision).kernel(kernel.variant);
        let mut stored = [rows, cols].into_iter().flat_map(|a| [(a, rows), (a, cols)]);
        stored.any(|(a, b)| gemm.plan(info, a, b).is_ok())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_of_any_precision_and_order_fit() {
        let hopper = Device::emulator((9, 0)).unwrap();
        let dtypes = |variant| kernel(variant, hopper.info())[1].clone();
        assert_eq!(dtypes("warp_group_split_128x128"), "bf16x6");
        assert_eq!(dtypes("warp_group_swap_ab_128x256"), "tf32");
        assert_eq!(dtypes("warp_group_128x256"), "i8 f8e4m3 f8e5m2 f16 bf16 tf32");
        for variant in gemm_spec::variants() {
            assert_ne!(dtypes(variant), "none", "{variant}");
        }
        let older = Device::emulator((8, 0)).unwrap();
        assert_eq!(kernel("warp_group_split_128x128", older.info())[1], "none");
    }
}
