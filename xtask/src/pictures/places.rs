//! Where threads' elements lie: the formulas of gpu-kernels/src/ladder, on the host.

use gemm_spec::{BRINGERS, Kernel, KernelFamily, ThreadOrder};

/// Elements in 16 bytes of sums.
pub fn lanes_of_pack(kernel: &Kernel) -> usize {
    16 / kernel.dtype.accumulator().size_bytes()
}

/// The rows and the columns of the block's tile of C that a thread computes; on tensor cores, those
/// whose sums it holds.
pub fn places(kernel: &Kernel, thread: usize) -> [Vec<usize>; 2] {
    let [rows, cols, _] = kernel.tiles.block;
    let [thread_rows, thread_cols] = kernel.tiles.thread;
    let across = cols / thread_cols;
    let pack = lanes_of_pack(kernel);
    let (row, col) = match kernel.order {
        ThreadOrder::AlongColumns => (thread / across, thread % across),
        ThreadOrder::AlongRows => (thread % rows, thread / rows),
    };
    let spread = |first: usize, gap: usize, count: usize| -> Vec<usize> {
        (0..count).map(|i| first + i / pack * gap + i % pack).collect()
    };
    match kernel.family {
        KernelFamily::Naive
        | KernelFamily::Tiled
        | KernelFamily::ThreadColumn
        | KernelFamily::ThreadTile
        | KernelFamily::VectorLoads => {
            let side_by_side = |number, count| spread(number * count, pack, count);
            [side_by_side(row, thread_rows), side_by_side(col, thread_cols)]
        }
        KernelFamily::NoConflicts => [
            spread(row * pack, rows / thread_rows * pack, thread_rows),
            spread(col * pack, across * pack, thread_cols),
        ],
        KernelFamily::WarpTile
        | KernelFamily::DoubleBuffer
        | KernelFamily::AsyncCopy
        | KernelFamily::GroupedOrder
        | KernelFamily::WarpSpecialized => {
            // Those that bring come first, and have none.
            let others = if kernel.family == KernelFamily::WarpSpecialized { BRINGERS } else { 0 };
            let Some(thread) = thread.checked_sub(others) else { return [Vec::new(), Vec::new()] };
            let (warp, lane) = (thread / 32, thread % 32);
            let [warp_rows, warp_cols] = kernel.tiles.warp;
            let (warps_across, lanes_across) = (cols / warp_cols, warp_cols / thread_cols);
            let axis = |warp: usize, lane: usize, extent: usize, count: usize| {
                spread(warp * extent + lane * pack, extent / count * pack, count)
            };
            [
                axis(warp / warps_across, lane / lanes_across, warp_rows, thread_rows),
                axis(warp % warps_across, lane % lanes_across, warp_cols, thread_cols),
            ]
        }
        KernelFamily::TensorCore => of_instructions(kernel, thread),
        // Of the warps and lanes behind each other along K, which have the same, the first.
        KernelFamily::Skinny => {
            let (warp, lane) = (thread / 32, thread % 32);
            let [_, lanes_across] = gemm_spec::SKINNY_LANES;
            if warp >= cols / kernel.tiles.warp[1] || lane >= lanes_across {
                return [Vec::new(), Vec::new()];
            }
            let first = warp * kernel.tiles.warp[1] + lane * thread_cols;
            [(0..rows).collect(), (first..first + thread_cols).collect()]
        }
        KernelFamily::Repack | KernelFamily::Finish | KernelFamily::FinishOverlapped => {
            [Vec::new(), Vec::new()]
        }
        KernelFamily::WarpGroup
        | KernelFamily::WarpGroupScaled
        | KernelFamily::WarpGroupGrouped
        | KernelFamily::WarpGroupDirect
        | KernelFamily::WarpGroupStreamK
        | KernelFamily::WarpGroupHalves
        | KernelFamily::WarpGroupInStep
        | KernelFamily::WarpGroupPingPong
        | KernelFamily::WarpGroupSwapAb
        | KernelFamily::WarpGroupSplit => of_groups(kernel, thread),
    }
}

/// [`places`] of groups of four warps, of which the first brings what the others multiply.
fn of_groups(kernel: &Kernel, thread: usize) -> [Vec<usize>; 2] {
    let [_, cols, _] = kernel.tiles.block;
    if thread < 128 {
        return [Vec::new(), Vec::new()];
    }
    let (group, warp, lane) = (thread / 128 - 1, thread / 32 % 4, thread % 32);
    let first_row = group * kernel.tiles.warp[0] + warp * 16 + lane / 4;
    [
        vec![first_row, first_row + 8],
        (0..cols / 4).map(|j| j / 2 * 8 + lane % 4 * 2 + j % 2).collect(),
    ]
}

/// [`places`] on tensor cores: of 8 rows and 8 columns of an instruction row lane / 4, two columns.
fn of_instructions(kernel: &Kernel, thread: usize) -> [Vec<usize>; 2] {
    let (warp, lane) = (thread / 32, thread % 32);
    let [warp_rows, warp_cols] = kernel.tiles.warp;
    let warps_across = kernel.tiles.block[1] / warp_cols;
    let (row, col) = (warp / warps_across * warp_rows, warp % warps_across * warp_cols);
    [
        (0..warp_rows / 8).map(|i| row + i * 8 + lane / 4).collect(),
        (0..warp_cols / 4).map(|j| col + j / 2 * 8 + lane % 4 * 2 + j % 2).collect(),
    ]
}

/// Threads of a block.
pub fn threads(kernel: &Kernel) -> usize {
    let (x, y) = kernel.block();
    (x * y) as usize
}

/// The rows and the columns of a warp, each once, in order.
pub fn of_warp(kernel: &Kernel, warp: usize) -> [Vec<usize>; 2] {
    let mut both = [Vec::new(), Vec::new()];
    for lane in 0..32 {
        for (all, one) in both.iter_mut().zip(places(kernel, warp * 32 + lane)) {
            all.extend(one);
        }
    }
    both.map(|mut all| {
        all.sort_unstable();
        all.dedup();
        all
    })
}

/// Runs of neighbours: (first, count) of each.
pub fn runs(sorted: &[usize]) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for &place in sorted {
        match runs.last_mut() {
            Some((first, count)) if *first + *count == place => *count += 1,
            _ => runs.push((place, 1)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_cover_the_tile_once_and_warps_their_extent() {
        for kernel in gemm_spec::kernels() {
            let [rows, cols, _] = kernel.tiles.block;
            let mut covered = vec![false; rows * cols];
            for thread in 0..threads(kernel) {
                let [own_rows, own_cols] = places(kernel, thread);
                for (&row, &col) in
                    own_rows.iter().flat_map(|r| own_cols.iter().map(move |c| (r, c)))
                {
                    let seen = std::mem::replace(&mut covered[row * cols + col], true);
                    assert!(!seen, "{}: ({row}, {col}) twice", kernel.name);
                }
            }
            assert!(covered.iter().all(|&seen| seen), "{}", kernel.name);
            // There the extent is that of four warps, and one group brings operands; or some warps
            // have the others' elements.
            if kernel.is_resident() || kernel.family == KernelFamily::Skinny {
                continue;
            }
            for warp in 0..threads(kernel) / 32 {
                let extent = of_warp(kernel, warp).map(|places| places.len());
                let brings = kernel.family == KernelFamily::WarpSpecialized && warp < BRINGERS / 32;
                let expected = if brings { [0, 0] } else { kernel.warp_extent() };
                assert_eq!(extent, expected, "{}", kernel.name);
            }
        }
    }

    #[test]
    fn neighbours_form_runs() {
        assert_eq!(runs(&[0, 1, 2, 5, 7, 8]), [(0, 3), (5, 1), (7, 2)]);
        assert_eq!(runs(&[]), []);
    }
}
