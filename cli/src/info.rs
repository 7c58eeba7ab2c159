//! `gemmite info`: what the machine has, and which kernels run on it.

use std::io::Write;

use anyhow::Result;
use gemmite::{DType, Device, DeviceInfo, Gemm, KernelChoice, Layout, Shape, with_element};

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

/// A row of the table: the dtypes for which `info`'s GPU can run the variant, and what a block of
/// it takes.
fn kernel(variant: &str, info: &DeviceInfo) -> Vec<String> {
    let fitting: Vec<_> = DType::ALL
        .into_iter()
        .filter(|&dtype| fits(variant, dtype, info))
        .filter_map(|dtype| gemm_spec::Kernel::find(variant, dtype))
        .collect();
    if fitting.is_empty() {
        return vec![variant.into(), "none".into()];
    }
    let dtypes: Vec<_> = fitting.iter().map(|kernel| kernel.dtype.name()).collect();
    let shared = fitting.iter().map(|kernel| kernel.shared_bytes()).max().unwrap_or(0);
    let threads = fitting[0].block().0 * fitting[0].block().1;
    let shared = text::bytes(shared as u64);
    vec![variant.into(), dtypes.join(" "), threads.to_string(), shared]
}

fn fits(variant: &str, dtype: DType, info: &DeviceInfo) -> bool {
    // Rows of a multiple of 16 bytes, as some kernels take them alone.
    let square = Layout::row_major(Shape::new(64, 64));
    let choice = KernelChoice::from(variant);
    with_element!(dtype, T => Gemm::<T>::new().kernel(choice).plan(info, square, square).is_ok())
}
