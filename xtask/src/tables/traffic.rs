//! What kernels read, by the formulas that the CPU hierarchy's counts prove
//! (`gemmite::reference::hierarchy`).

use anyhow::Result;
use gemm_spec::{Kernel, KernelFamily};

use super::{first_instance, markdown};

/// M = N = K of the totals.
const SIZE: usize = 4096;

/// Reads of `variants`, for their f32 instances (or first ones, which have the same tiles).
pub fn table(variants: &[&str]) -> Result<String> {
    let head = [
        "kernel",
        "block, warp, thread",
        "shared memory",
        "reads of global memory",
        "reads of shared memory",
        "the same, broadcasts once",
    ];
    let mut rows = Vec::new();
    for variant in variants {
        let kernel = Kernel::find(variant, gemm_spec::DType::F32);
        let kernel = kernel.map_or_else(|| first_instance(variant), Ok)?;
        let [rows_of_block, cols_of_block, depth] = kernel.tiles.block;
        let block = [rows_of_block, cols_of_block];
        let [warp, thread] = [kernel.warp_extent(), kernel.tiles.thread];
        let by = |[rows, cols]: [usize; 2]| format!("{rows} x {cols}");
        let mut row = vec![format!("`{variant}`")];
        if kernel.family == KernelFamily::Naive {
            row.push(format!("{}, {}, {}", by(block), by(warp), by(thread)));
            row.push(reads([1, 1]));
            row.extend(["none".to_owned(), "none".to_owned()]);
            row.insert(2, "none".to_owned());
        } else {
            let of_depth = format!("{} by {depth} of K", by(block));
            row.push(format!("{of_depth}, {}, {}", by(warp), by(thread)));
            row.push(format!("{} KiB", three_digits(kernel.shared_bytes() as f64 / 1024.0)));
            row.extend([block, thread, warp].map(reads));
        }
        rows.push(row);
    }
    let head = head.map(str::to_owned);
    let note = format!(
        "Elements of A and B for each multiply-add, 1 / rows + 1 / columns of what reads them \
         together; totals at {SIZE}^3, and \
         shared memory of a block, in f32."
    );
    Ok(format!("{}\n{note}\n", markdown(&head, &rows)))
}

/// 1 / rows + 1 / columns as a fraction, and the bytes that a product reads in all.
fn reads([rows, cols]: [usize; 2]) -> String {
    let (above, below) = reduced(rows + cols, rows * cols);
    let elements = SIZE.pow(3) as f64 * above as f64 / below as f64;
    let fraction = if below == 1 { above.to_string() } else { format!("{above}/{below}") };
    format!("{fraction}: {} GB", three_digits(elements * 4.0 / 1e9))
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
        assert_eq!(reads([1, 1]), "2: 550 GB");
        assert_eq!(reads([128, 128]), "1/64: 4.29 GB");
        assert_eq!(reads([16, 128]), "9/128: 19.3 GB");
        assert_eq!(reads([8, 1]), "9/8: 309 GB");
    }

    #[test]
    fn kernels_are_described_by_their_tiles() {
        let table = table(&["k01_naive", "k07_warp_tile"]).unwrap();
        let naive = "| `k01_naive` | 16 x 16, 2 x 16, 1 x 1 | none | 2: 550 GB | none | none |";
        assert!(table.contains(naive), "{table}");
        let warp = "8 of K, 32 x 64, 8 x 8 | 8.25 KiB | 1/64: 4.29 GB | 1/4: 68.7 GB |";
        assert!(table.contains(warp), "{table}");
    }
}
