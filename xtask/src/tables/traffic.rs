//! What kernels read, by the formulas that the CPU hierarchy's counts prove
//! (`gemmite::reference::hierarchy`).

use anyhow::Result;
use gemm_spec::{DType, Kernel, KernelFamily};

use super::{first_instance, markdown};

/// M = N = K of the totals.
const SIZE: usize = 4096;

/// Reads of `variants`, for their f32 instances; of those that have none, for f16.
pub fn table(variants: &[&str]) -> Result<String> {
    let kernels = variants.iter().map(|variant| instance(variant)).collect::<Result<Vec<_>>>()?;
    let on_tensor_cores = |kernel: &&Kernel| kernel.family == KernelFamily::TensorCore;
    let tiles = match kernels.iter().any(on_tensor_cores) {
        true => "block, warp, thread or instruction",
        false => "block, warp, thread",
    };
    let head = [
        "kernel",
        tiles,
        "shared memory",
        "reads of global memory",
        "reads of shared memory",
        "the same, broadcasts once",
    ];
    let rows: Vec<Vec<String>> = kernels.into_iter().map(row).collect();
    let head = head.map(str::to_owned);
    let note = format!(
        "Elements of A and B for each multiply-add, 1 / rows + 1 / columns of what reads them \
         together;\ntotals at {SIZE}^3, and shared memory of a block, in f32 where nothing else \
         is said."
    );
    Ok(format!("{}\n{note}\n", markdown(&head, &rows)))
}

fn instance(variant: &str) -> Result<&'static Kernel> {
    let find = |dtype| Kernel::find(variant, dtype);
    find(DType::F32).or_else(|| find(DType::F16)).map_or_else(|| first_instance(variant), Ok)
}

fn row(kernel: &Kernel) -> Vec<String> {
    let [rows_of_block, cols_of_block, depth] = kernel.tiles.block;
    let block = [rows_of_block, cols_of_block];
    let [warp, thread] = [kernel.warp_extent(), kernel.tiles.thread];
    let by = |[rows, cols]: [usize; 2]| format!("{rows} x {cols}");
    let reads = |tile| reads(tile, kernel.dtype);
    let name = match kernel.dtype {
        DType::F32 => format!("`{}`", kernel.variant),
        dtype => format!("`{}`, {dtype}", kernel.variant),
    };
    let none = || "none".to_owned();
    if kernel.family == KernelFamily::Naive {
        let tiles = format!("{}, {}, {}", by(block), by(warp), by(thread));
        return vec![name, tiles, none(), reads([1, 1]), none(), none()];
    }
    // The lanes of a warp bring the operands of its tensor cores together.
    let of_a_lane = match kernel.family {
        KernelFamily::TensorCore => warp,
        _ => thread,
    };
    vec![
        name,
        format!("{} by {depth} of K, {}, {}", by(block), by(warp), by(thread)),
        format!("{} KiB", three_digits(kernel.shared_bytes() as f64 / 1024.0)),
        reads(block),
        reads(of_a_lane),
        reads(warp),
    ]
}

/// 1 / rows + 1 / columns as a fraction, and the bytes that a product reads in all.
fn reads([rows, cols]: [usize; 2], dtype: DType) -> String {
    let (above, below) = reduced(rows + cols, rows * cols);
    let elements = SIZE.pow(3) as f64 * above as f64 / below as f64;
    let fraction = if below == 1 { above.to_string() } else { format!("{above}/{below}") };
    format!("{fraction}: {} GB", three_digits(elements * dtype.size_bytes() as f64 / 1e9))
}

fn reduced(above: usize, below: usize) -> (usize, usize) {
    let (mut a, mut b) = (above, below);
    while b > 0 {
        (a, b) = (b, a % b);
    }
    (above / a, below / a)
}

fn three_digits(value: f64) -> String {
    match value {
        v if v >= 99.95 => format!("{v:.0}"),
        v if v >= 9.995 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_fractions_and_totals() {
        assert_eq!(reads([1, 1], DType::F32), "2: 550 GB");
        assert_eq!(reads([128, 128], DType::F32), "1/64: 4.29 GB");
        assert_eq!(reads([16, 128], DType::F32), "9/128: 19.3 GB");
        assert_eq!(reads([8, 1], DType::F32), "9/8: 309 GB");
    }

    #[test]
    fn kernels_are_described_by_their_tiles() {
        let table = table(&["k01_naive", "k07_warp_tile"]).unwrap();
        let tensor = super::table(&["k11_tensor_core"]).unwrap();
        assert!(tensor.contains("| `k11_tensor_core`, f16 | 128 x 256 by 32 of K,"), "{tensor}");
        let naive = "| `k01_naive` | 16 x 16, 2 x 16, 1 x 1 | none | 2: 550 GB | none | none |";
        assert!(table.contains(naive), "{table}");
        let warp = "8 of K, 32 x 64, 8 x 8 | 8.25 KiB | 1/64: 4.29 GB | 1/4: 68.7 GB |";
        assert!(table.contains(warp), "{table}");
    }
}
