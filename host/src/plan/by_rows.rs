//! What kernels of boxes take more for a C that leaves by rows.

use super::choose::Task;
use gemm_spec::Kernel;

/// Microseconds in which a group writes 64 columns of its tile to a C that the copy engine cannot;
/// the same of one that is read too, also by groups in turn, which read less of it at a time.
const ROWS_OF_C: f64 = 0.7;
const OLD_ROWS_OF_C: f64 = 2.8;
const OLD_ROWS_IN_TURN: f64 = 12.0;

/// Microseconds in which groups of kernels of boxes write so many tiles each that the copy engine
/// cannot; of those in turn, which read C by pairs in whole tiles alone, the last.
pub(super) fn by_rows_of_c(kernel: &Kernel, task: &Task, tiles: f64) -> f64 {
    let [rows, cols, _] = kernel.tiles.block;
    let (m, n) = (task.shape.rows, task.shape.cols);
    let by_rows = !n.is_multiple_of(16 / task.output.size_bytes());
    let in_turn = kernel.takes_tiles_in_turn();
    let ragged = !m.is_multiple_of(rows) || !n.is_multiple_of(cols);
    let of_64 = match task.reads_c {
        false => ROWS_OF_C,
        true if in_turn => OLD_ROWS_IN_TURN,
        true => OLD_ROWS_OF_C,
    };
    let tiles = match in_turn && task.reads_c {
        // Others are written while the other group multiplies.
        true if by_rows || ragged => 1.0,
        false if by_rows => tiles,
        _ => 0.0,
    };
    cols.div_ceil(64) as f64 * of_64 * tiles
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::KernelChoice;
    use crate::plan::tests::{h100, task};
    use gemm_spec::DType;

    #[test]
    fn groups_in_turn_do_not_read_c_by_rows() {
        let variant = |size: usize, reads_c: bool| {
            let plain = task(DType::BF16, (size, size));
            let task = Task { maps: true, k: size, along_k: [true; 2], reads_c, ..plain };
            crate::plan::choose(&KernelChoice::Auto, &task, &h100()).unwrap().kernel
        };
        for size in [3000, 3072] {
            assert!(variant(size, false).takes_tiles_in_turn(), "{size}");
            let reads = variant(size, true);
            assert_eq!(reads.takes_tiles_in_turn(), size == 3072, "{size}: {}", reads.name);
        }
    }
}
