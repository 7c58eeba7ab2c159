//! Facts of the built PTX in host/ptx, which need no GPU: every kernel of the table is there, and
//! takes what the host passes.

use cuda_builder::ptx;
use gemm_spec::{
    C_BOXES, DIRECT_ROWS, DType, GROUPED_MAX, GemmParams, GroupedProduct, Kernel, KernelFamily,
    Precision, RepackParams, ScaleParams, Stored, Target, Tiles, of_module,
};
use std::path::PathBuf;

fn built(target: Target) -> String {
    let name = format!("../host/ptx/{}.ptx", target.arch());
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| {
        panic!("{}: {error}; build it with `cargo xtask build-ptx`", path.display())
    })
}

/// Bytes of a kernel's parameters: A, B, C, and the block, or the maps of the three, C's address,
/// and the block.
fn parameters(kernel: &Kernel) -> Vec<usize> {
    let block = match kernel.dtype.accumulator() {
        DType::I32 => size_of::<GemmParams<i32>>(),
        DType::F64 => size_of::<GemmParams<f64>>(),
        _ => size_of::<GemmParams<f32>>(),
    };
    match kernel.family {
        KernelFamily::Repack => [8, 8, size_of::<RepackParams>()].repeat(2),
        KernelFamily::Finish | KernelFamily::FinishOverlapped => vec![8, 8, block],
        KernelFamily::WarpGroupScaled => {
            vec![128, 128, 128, 8, block, 8, 8, size_of::<ScaleParams>()]
        }
        KernelFamily::WarpGroupGrouped => {
            let numbers = size_of::<[GroupedProduct; GROUPED_MAX]>();
            vec![3 * 128 * GROUPED_MAX + numbers, 8, 8, block]
        }
        KernelFamily::WarpGroupStreamK => vec![128, 128, 128, 8, block, 8, 8, 8],
        KernelFamily::WarpGroupDirect => vec![8, 8, 8, block, 2 * DIRECT_ROWS * 128],
        _ if kernel.takes_maps() => vec![128, 128, 128, 8, block],
        _ => vec![8, 8, 8, block],
    }
}

#[test]
fn every_kernel_has_its_entry_and_takes_what_the_host_passes() {
    for target in Target::ALL {
        let entries = ptx::entries(&built(target));
        for kernel in of_module(target) {
            let found: Vec<_> = entries.iter().filter(|e| e.name == kernel.name).collect();
            assert_eq!(found.len(), 1, "entries named {}", kernel.name);
            let bytes: Vec<_> = found[0].params.iter().map(|param| param.bytes).collect();
            assert_eq!(bytes, parameters(kernel), "{}", kernel.name);
        }
    }
}

#[test]
fn there_is_no_entry_beside_the_table() {
    for target in Target::ALL {
        for entry in ptx::entries(&built(target)) {
            let known = of_module(target).any(|kernel| kernel.name == entry.name);
            assert!(known, "{} is in the PTX and not in the table", entry.name);
        }
    }
}

#[test]
fn every_kernel_declares_the_threads_that_it_is_launched_with() {
    for target in Target::ALL {
        for entry in ptx::entries(&built(target)) {
            let kernel = of_module(target).find(|kernel| kernel.name == entry.name).unwrap();
            let (x, y) = kernel.block();
            let bound = format!(".maxntid {}, 1, 1", x * y);
            let found = entry.directives.iter().any(|line| line.trim() == bound);
            assert!(found, "{}: {:?}, not {bound}", kernel.name, entry.directives);
        }
    }
}

#[test]
fn the_committed_files_pass_the_builders_checks() {
    for target in Target::ALL {
        let expected = ptx::Expectations {
            version: target.ptx_version(),
            target: target.arch().to_owned(),
            allow_local: false,
            allow_call: false,
        };
        ptx::check(&built(target), &expected).unwrap();
    }
}

#[test]
fn version_and_target_are_the_tables() {
    for target in Target::ALL {
        let text = built(target);
        assert_eq!(ptx::version(&text), Some(target.ptx_version()));
        let line = format!(".target {}", target.arch());
        assert!(text.lines().any(|l| l.trim() == line), "no line {line:?}");
    }
}

/// Whether its threads bring A to registers.
fn has_a_in_registers(kernel: &Kernel) -> bool {
    kernel.precision == Precision::Tf32 && kernel.stored != Stored::Nt
}

/// Instructions of tensor cores in a kernel: those of a step, in each of its loops.
fn tensor_products(kernel: &Kernel) -> usize {
    match kernel.family {
        KernelFamily::TensorCore => (),
        // A row of 128 bytes, 32 at a time; with scales in each of two accumulators.
        KernelFamily::WarpGroupScaled => return 8,
        // Six products of summands.
        KernelFamily::WarpGroupSplit => return 24,
        // Of both halves of a tile's rows.
        KernelFamily::WarpGroupPingPong => return 8,
        // In each of two sets of registers.
        _ if has_a_in_registers(kernel) => return 8,
        family if family.is_warp_group() => return 4,
        _ => return 0,
    }
    let Tiles { block: [_, _, depth], warp, thread, .. } = kernel.tiles;
    let (k, each) = match kernel.dtype {
        DType::F64 => (8, 1),
        DType::I8 => (32, 1),
        DType::I32 => (16, 10), // products of bytes
        _ => (16, 1),
    };
    8 * (warp[0] / thread[0]) * (warp[1] / thread[1]) * (depth / k) * each
}

/// Barriers of a kernel for Hopper: for each output of 16 bits, one before its boxes are written,
/// and one before they are copied, or before each is where there are more than a group has, as for
/// each output of 32 bits of a kernel whose usual C is one; for sums that leave one by one, two in
/// a loop over the columns. Those of a group stand there for each of them. One of a block that is a
/// cluster by itself.
fn barriers_of_hopper(kernel: &Kernel) -> usize {
    // Which leaves out all but the usual C that leaves by its map.
    let is_lean = kernel.whole().is_some();
    // Before a stage goes back of which threads read A, in each turn.
    let from_registers = if has_a_in_registers(kernel) { 2 } else { 0 };
    if kernel.swaps_operands() {
        // Of each group, where stages are passed on, before and behind a box of the usual C is
        // written, and the two of sums that leave one by one; and of all, as below.
        let [rows, cols, _] = kernel.tiles.block;
        let boxes = cols / gemm_spec::swapped_box_rows(cols, kernel.dtype.output().size_bytes());
        // Of 32 bits one before the first of them, and one before each is copied; of a C that is
        // added to, one more for each, where its old values have come, and one before the first of
        // these are brought.
        let of_boxes = match (kernel.dtype.size_bytes() == 4, is_lean) {
            (true, _) => 1 + boxes,
            (_, true) => 2 * boxes,
            _ => (2 + 3) * boxes + 1,
        };
        let one_by_one = if is_lean { 0 } else { 2 };
        return rows / 64 * (1 + of_boxes + one_by_one + from_registers) + 2;
    }
    // What multiplies split elements is a kernel of bf16, and could write what these do.
    let dtype = if kernel.splits_elements() { DType::BF16 } else { kernel.dtype };
    let outputs = dtype.outputs().iter().filter(|&&o| !is_lean || o == dtype.output());
    let by_boxes = outputs.clone().filter(|output| output.size_bytes() == 2).count();
    let has_words =
        matches!(kernel.family, KernelFamily::WarpGroup | KernelFamily::WarpGroupHalves)
            && kernel.dtype.output().size_bytes() == 4;
    let by_words = if has_words { outputs.filter(|o| o.size_bytes() == 4).count() } else { 0 };
    let by_boxes = if kernel.takes_maps() { by_boxes } else { 0 };
    // The usual C once more, with an epilogue, where the kernel has these.
    let finished = !is_lean && kernel.has_epilogues() && kernel.dtype.output().size_bytes() == 2;
    let finished = usize::from(finished);
    let (groups, boxes) = (kernel.tiles.block[0] / 64, kernel.tiles.block[1].div_ceil(64));
    let of_words = by_words * groups * (1 + 2 * boxes);
    let in_turn = if boxes > C_BOXES { boxes } else { 1 };
    // Or of all groups, which copy at one time.
    let is_plain = matches!(kernel.family, KernelFamily::WarpGroup | KernelFamily::WarpGroupInStep);
    let may_meet = is_plain && groups > 1;
    let meet = usize::from(may_meet && boxes <= C_BOXES);
    // The usual C once more, where it is added to: before the boxes, and in a loop where the old
    // values have come, and where the new ones have been put; and before the first of these are
    // brought, where boxes are free while a tile is multiplied.
    let adds = !is_lean && dtype.output().size_bytes() == 2 && !kernel.takes_tiles_in_turn();
    let early = if is_plain { groups } else { 0 };
    let added = if kernel.takes_maps() && adds { 3 * groups + meet + early } else { 0 };
    // Both halves of a tile's rows have a code of their own where that is short.
    let halves = if is_lean && kernel.takes_tiles_in_turn() { 2 } else { 1 };
    let by_boxes = halves * by_boxes;
    // With an epilogue boxes are written in a loop.
    let copied = by_boxes * (groups * in_turn + meet) + finished * (groups + meet);
    let alone = usize::from(kernel.cluster() == 1);
    let is_list = kernel.family == KernelFamily::WarpGroupGrouped;
    // One of all groups and of who clears rows that no copy writes, those of an operand along K,
    // for both sides; but in lists, and where boxes are parts of those that others bring too.
    let shares = matches!(kernel.family, KernelFamily::WarpGroupInStep);
    let clears = kernel.takes_maps() && !is_list && !shares;
    let cleared = 2 * usize::from(clears);
    // Behind sums that are put down for others, and behind those that were read.
    let joined = if kernel.joins() { 2 * groups } else { 0 };
    // Behind those of the other half of K.
    let met = usize::from(kernel.parts_of_cluster() > 1);
    // Before rows are put where others were, and before they are multiplied.
    let settled = if kernel.takes_row_maps() { 2 } else { 0 };
    // Before a group's turn; and rows go column by column without a loop.
    let turns = if kernel.takes_tiles_in_turn() { groups } else { 0 };
    let by_rows = 2 * groups * if turns > 0 { boxes } else { 1 };
    let by_rows = if is_lean && by_boxes + by_words > 0 { 0 } else { by_rows };
    // Where stages are passed on, of a product whose groups take rows of one tile.
    let passes = kernel.takes_maps() && !kernel.joins() && !is_list;
    let passed = if passes { groups } else { 0 };
    let of_boxes = settled + (by_boxes + finished) * groups + copied + added;
    let read = groups * from_registers;
    passed + read + of_boxes + of_words + by_rows + cleared + joined + met + alone + turns
}

/// A barrier that the compiler copies into both sides of a branch makes a block wait for itself for
/// ever (docs/decisions/0006-barriers-are-not-copied.md), so each stands as often as the source
/// says.
#[test]
fn no_barrier_was_copied() {
    for target in Target::ALL {
        let text = built(target);
        for kernel in of_module(target) {
            let start = text.find(&format!(".entry {}(", kernel.name)).unwrap();
            let body = &text[start..start + text[start..].find("\n}").unwrap()];
            let expected = match kernel.family {
                KernelFamily::Naive | KernelFamily::Finish => 0,
                // Between the warps' sums and their sum.
                KernelFamily::FinishOverlapped => usize::from(kernel.tiles.block[2] > 1),
                // Between the two ways through shared memory.
                KernelFamily::Repack => 1,
                // Between the warps' sums and their sum.
                KernelFamily::Skinny => 1,
                // Two a step, and the step stands in the loop and behind it.
                KernelFamily::Tiled => 4,
                KernelFamily::ThreadColumn
                | KernelFamily::ThreadTile
                | KernelFamily::VectorLoads
                | KernelFamily::NoConflicts
                | KernelFamily::WarpTile => 2,
                // One for the first tiles, one a step.
                KernelFamily::DoubleBuffer => 2,
                // One before the first step and one in each, in four loops: each operand in packs
                // or not.
                KernelFamily::AsyncCopy | KernelFamily::GroupedOrder => 8,
                // Where stages have barriers of their own, one in front of each of eight loops:
                // each operand stored along K or not, in packs or not.
                KernelFamily::TensorCore if kernel.overlaps() => 8,
                // And one in each.
                KernelFamily::TensorCore => 16,
                // When the barriers of the stages are ready.
                KernelFamily::WarpSpecialized => 1,
                KernelFamily::WarpGroup
                | KernelFamily::WarpGroupScaled
                | KernelFamily::WarpGroupGrouped
                | KernelFamily::WarpGroupDirect
                | KernelFamily::WarpGroupStreamK
                | KernelFamily::WarpGroupHalves
                | KernelFamily::WarpGroupInStep
                | KernelFamily::WarpGroupPingPong
                | KernelFamily::WarpGroupSwapAb
                | KernelFamily::WarpGroupSplit => barriers_of_hopper(kernel),
            };
            assert_eq!(body.matches("bar.sync").count(), expected, "{}", kernel.name);
            let products =
                body.matches("mma.sync").count() + body.matches("wgmma.mma_async").count();
            assert_eq!(products, tensor_products(kernel), "{}", kernel.name);
            // Before the first step.
            let of_cluster = usize::from(kernel.is_resident() && kernel.cluster() > 1);
            let found = body.matches("barrier.cluster.wait").count();
            assert_eq!(found, of_cluster, "{}", kernel.name);
        }
    }
}

#[test]
fn the_readmes_table_has_every_variant_once() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    let readme = std::fs::read_to_string(path).unwrap();
    for variant in gemm_spec::variants() {
        let rows = readme.lines().filter(|line| line.starts_with(&format!("| `{variant}` |")));
        assert_eq!(rows.count(), 1, "rows of {variant}");
    }
}
