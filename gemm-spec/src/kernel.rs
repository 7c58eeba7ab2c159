//! What the host knows of a kernel: its algorithm, its tiles, and the launches that cover C.

#[cfg(test)]
mod tests;

use crate::boxes::{C_BOX_BYTES, DIRECT_FURTHER_BYTES, box_cols, c_boxes};
use crate::skinny::THREADS;
use crate::{DType, KernelFamily, Places, Precision, SPLIT, Target, order};

/// Threads that bring tiles for those that multiply ([`KernelFamily::WarpSpecialized`]).
pub const BRINGERS: usize = 128;

/// Steps along K that are worth a block of their own, at least, on average.
const LEAST_STEPS: usize = 4;

/// Which way the x index of a thread runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ThreadOrder {
    /// x along the columns of C: neighbouring threads touch neighbouring addresses of row-major
    /// data, so a warp's accesses coalesce.
    AlongColumns,
    /// x along the rows of C: neighbouring threads are a row stride apart. Slower on row-major
    /// data, kept to be measured.
    AlongRows,
}

/// How A and B have to be stored for a kernel. `n` is as it is, in rows, `t` is transposed, in
/// columns; A's letter comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stored {
    /// In any way.
    Any,
    /// Both in rows.
    Nn,
    /// A in rows, B in columns.
    Nt,
    /// A in columns, B in rows.
    Tn,
    /// Both in columns.
    Tt,
}

impl Stored {
    /// Whether it is so for an A and a B that lie along K.
    pub fn takes(self, [a_along_k, b_along_k]: [bool; 2]) -> bool {
        match self {
            Stored::Any => true,
            Stored::Nn => a_along_k && !b_along_k,
            Stored::Nt => a_along_k && b_along_k,
            Stored::Tn => !a_along_k && !b_along_k,
            Stored::Tt => !a_along_k && b_along_k,
        }
    }

    /// Whether columns of B are rows along K.
    pub const fn b_is_along_k(self) -> bool {
        matches!(self, Stored::Nt | Stored::Tt)
    }

    /// As it stands in the names of kernels.
    pub const fn name(self) -> &'static str {
        match self {
            Stored::Any => "",
            Stored::Nn => "nn",
            Stored::Nt => "nt",
            Stored::Tn => "tn",
            Stored::Tt => "tt",
        }
    }
}

/// How a kernel deals out C and K.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tiles {
    /// Rows and columns of C that a block computes, and how much of K it takes in one step.
    pub block: [usize; 3],
    /// Rows and columns of C that a warp computes; those of the block where the kernel does not
    /// deal out C by warps.
    pub warp: [usize; 2],
    /// Rows and columns of C that a thread computes; on tensor cores, that one instruction of a
    /// warp computes.
    pub thread: [usize; 2],
    /// Steps whose tiles of A and B lie in shared memory at one time.
    pub stages: usize,
    /// Blocks that are to fit on one multiprocessor: a bound on the registers of a thread.
    pub min_blocks: usize,
    /// Blocks of a cluster. The tiles of C of two lie one below the other: they share columns of B.
    /// Those of an odd last row may lie side by side
    /// ([`of_clusters`](crate::order::of_clusters)). Those of 8 lie in four rows of two: each
    /// brings what it needs, in step with the others, so that the L2 cache is asked once for
    /// what several want.
    pub cluster: usize,
}

impl Tiles {
    /// Square tiles, one element a thread.
    pub const fn square(tile: usize) -> Tiles {
        Tiles::of_threads([tile; 3], [tile; 2], [1, 1], 1, 1)
    }

    /// Tiles dealt out to warps and threads, without clusters.
    pub const fn of_threads(
        block: [usize; 3],
        warp: [usize; 2],
        thread: [usize; 2],
        stages: usize,
        min_blocks: usize,
    ) -> Tiles {
        Tiles { block, warp, thread, stages, min_blocks, cluster: 1 }
    }

    /// Tiles of a [`KernelFamily::WarpGroup`] kernel: a group of four warps takes 64 rows, in one
    /// instruction.
    pub const fn of_groups(block: [usize; 3], cluster: usize, stages: usize) -> Tiles {
        let group = [64, block[1]];
        Tiles { block, warp: group, thread: group, stages, min_blocks: 1, cluster }
    }

    /// Elements that follow each row of a padded tile in shared memory: where a row's length is a
    /// multiple of 32 words, 8 rows of 4 words then lie in 32 different banks.
    pub const PADDING: usize = 4;

    /// Elements in shared memory: the tiles of A and B of every stage, each of their rows followed
    /// by `padding` elements.
    pub const fn shared_len(block: [usize; 3], stages: usize, padding: usize) -> usize {
        let [rows, cols, depth] = block;
        let row = rows.saturating_add(cols).saturating_add(2 * padding);
        row.saturating_mul(depth).saturating_mul(stages)
    }

    /// Elements from one row to the next of a tile of `outer` x `depth` elements of `bytes` bytes
    /// that tensor cores read, stored in rows along K or along the outer extent. Rows that a warp
    /// reads together lie in different banks: 8 rows of 4 words, or 4 rows of 8 words or of 4
    /// double words; or 8 rows of 16 bytes, by [`Tiles::swizzled`].
    pub const fn tensor_pitch([outer, depth]: [usize; 2], along_k: bool, bytes: usize) -> usize {
        let (row, padding) = match (along_k, bytes) {
            (true, 1 | 2) => (depth, 0),
            (true, _) => (depth, 4),
            (false, 1 | 2) => (outer, 0),
            (false, 8) => (outer, 4),
            (false, _) => (outer, 8),
        };
        row.saturating_add(padding)
    }

    /// The place in row `row` of its chunk number `chunk`, of `chunks` of 16 bytes, a power of two:
    /// where elements have 1 or 2 bytes a tile has no padding, and its chunks change places
    /// instead. Eight rows lie 16 bytes each in 32 different banks (`ldmatrix`) where their numbers
    /// are different modulo 8, since 128 bytes are all banks.
    ///
    /// That of a row a multiple of 8 further on is the same, and that of chunk `chunk ^ other` is
    /// that of `chunk`, `^ other`.
    pub const fn swizzled(row: usize, chunk: usize, chunks: usize) -> usize {
        let rows = if chunks < 8 { 8 / chunks } else { 1 };
        chunk ^ (row / rows % (8 / rows))
    }

    /// Elements that such a tile takes in either form.
    pub const fn tensor_len([outer, depth]: [usize; 2], bytes: usize) -> usize {
        let along_k = outer.saturating_mul(Tiles::tensor_pitch([outer, depth], true, bytes));
        let across = depth.saturating_mul(Tiles::tensor_pitch([outer, depth], false, bytes));
        if along_k > across { along_k } else { across }
    }
}

/// One kernel: an entry point of a PTX module, and what the host has to know to launch it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The entry point: the variant's name and the dtype's, as in `k02_tiled_16_f32`, with the way
    /// of storing between them where it matters, as in `warp_group_128x256_nt_bf16`.
    pub name: &'static str,
    /// The name without the dtype, by which a user chooses: `k02_tiled_16`.
    pub variant: &'static str,
    /// Its algorithm.
    pub family: KernelFamily,
    /// The elements of A and B; C's are of one of [`DType::outputs`].
    pub dtype: DType,
    /// How it multiplies them.
    pub precision: Precision,
    /// How it deals out the work.
    pub tiles: Tiles,
    /// Which way the x index of its threads runs.
    pub order: ThreadOrder,
    /// How A and B are stored.
    pub stored: Stored,
    /// The module that holds it.
    pub target: Target,
}

impl Kernel {
    /// Threads of a block along (x, y); for tiles too large to count, more than any GPU allows.
    pub fn block(&self) -> (u32, u32) {
        let [rows, cols, _] = self.tiles.block;
        let [thread_rows, thread_cols] = self.tiles.thread;
        let threads = |extent: usize, thread: usize| extent.checked_div(thread).unwrap_or(0);
        let (x, y) = (threads(cols, thread_cols), threads(rows, thread_rows));
        let count = |threads: usize| u32::try_from(threads).unwrap_or(u32::MAX);
        match self.family {
            KernelFamily::Naive | KernelFamily::Tiled => (count(x), count(y)),
            KernelFamily::TensorCore => {
                let [warp_rows, warp_cols] = self.tiles.warp;
                let warps = threads(rows, warp_rows).saturating_mul(threads(cols, warp_cols));
                (count(warps.saturating_mul(32)), 1)
            }
            // One group of four warps brings what the others multiply.
            family if family.is_warp_group() => {
                let groups = threads(rows, self.tiles.warp[0]).saturating_add(1);
                (count(groups.saturating_mul(128)), 1)
            }
            KernelFamily::WarpSpecialized => {
                (count(x.saturating_mul(y).saturating_add(BRINGERS)), 1)
            }
            KernelFamily::Skinny => (count(THREADS), 1),
            // Warps stand behind each other along the parts.
            KernelFamily::FinishOverlapped => {
                (count(x.saturating_mul(y).saturating_mul(self.tiles.block[2])), 1)
            }
            _ => (count(x.saturating_mul(y)), 1),
        }
    }

    /// Rows and columns of C that the 32 lanes of a warp compute together, side by side or spread:
    /// of as many of each the warp needs factors.
    ///
    /// It is [`Tiles::warp`] where C is dealt out by warps; elsewhere the tiles of 32 threads in
    /// the order of their numbers, as many in a row as the block has there.
    pub fn warp_extent(&self) -> [usize; 2] {
        let Tiles { block, warp, thread, .. } = self.tiles;
        match self.family {
            KernelFamily::WarpTile
            | KernelFamily::DoubleBuffer
            | KernelFamily::AsyncCopy
            | KernelFamily::GroupedOrder
            | KernelFamily::TensorCore
            | KernelFamily::WarpSpecialized
            | KernelFamily::WarpGroup
            | KernelFamily::WarpGroupScaled
            | KernelFamily::WarpGroupGrouped
            | KernelFamily::WarpGroupDirect
            | KernelFamily::WarpGroupStreamK
            | KernelFamily::WarpGroupHalves
            | KernelFamily::WarpGroupInStep
            | KernelFamily::WarpGroupPingPong
            | KernelFamily::WarpGroupSwapAb
            | KernelFamily::WarpGroupSplit
            | KernelFamily::Skinny
            | KernelFamily::Repack
            | KernelFamily::Finish
            | KernelFamily::FinishOverlapped => warp,
            KernelFamily::Naive
            | KernelFamily::Tiled
            | KernelFamily::ThreadColumn
            | KernelFamily::ThreadTile
            | KernelFamily::VectorLoads
            | KernelFamily::NoConflicts => {
                let across = |axis: usize| (block[axis] / thread[axis]).clamp(1, 32);
                match self.order {
                    ThreadOrder::AlongColumns => {
                        [32 / across(1) * thread[0], across(1) * thread[1]]
                    }
                    ThreadOrder::AlongRows => [across(0) * thread[0], 32 / across(0) * thread[1]],
                }
            }
        }
    }

    /// Bytes of shared memory of a block.
    pub const fn shared_bytes(&self) -> usize {
        let Tiles { block, stages, .. } = self.tiles;
        let sum = self.dtype.accumulator().size_bytes();
        let padded = Tiles::shared_len(block, stages, Tiles::PADDING);
        match self.family {
            KernelFamily::Naive | KernelFamily::Finish => 0,
            // The sums of all warps along the parts.
            KernelFamily::FinishOverlapped => match block[2] {
                0 | 1 => 0,
                depth => depth.saturating_mul(block[1]).saturating_mul(sum),
            },
            KernelFamily::Tiled
            | KernelFamily::ThreadColumn
            | KernelFamily::ThreadTile
            | KernelFamily::VectorLoads => Tiles::shared_len(block, stages, 0).saturating_mul(sum),
            KernelFamily::NoConflicts | KernelFamily::WarpTile | KernelFamily::DoubleBuffer => {
                padded.saturating_mul(sum)
            }
            KernelFamily::AsyncCopy | KernelFamily::GroupedOrder => {
                padded.saturating_mul(self.dtype.size_bytes())
            }
            // Two barriers a stage, of 8 bytes.
            KernelFamily::WarpSpecialized => padded
                .saturating_mul(self.dtype.size_bytes())
                .saturating_add(stages.saturating_mul(16)),
            KernelFamily::Skinny => self.tiles.skinny_len(16 / sum).saturating_mul(sum),
            KernelFamily::Repack => block[0] * block[1] * self.dtype.size_bytes(),
            KernelFamily::TensorCore => {
                let ([rows, cols, depth], bytes) = (block, self.dtype.size_bytes());
                let a = Tiles::tensor_len([rows, depth], bytes);
                let b = Tiles::tensor_len([cols, depth], bytes);
                // Two barriers a stage, of 8 bytes, where warps do not wait for each other.
                let barriers = if self.overlaps() { 16 } else { 0 };
                let stage = a.saturating_add(b).saturating_mul(bytes);
                stage.saturating_add(barriers).saturating_mul(stages)
            }
            _ => {
                let [rows, cols, depth] = block;
                let row = depth.saturating_mul(self.stored_bytes());
                let further = if self.takes_row_maps() { DIRECT_FURTHER_BYTES } else { 0 };
                let parts = self.parts_of_cluster();
                let boxes = c_boxes(cols, parts).saturating_mul(rows / self.tiles.warp[0]);
                let cols = cols.next_multiple_of(box_cols(cols, self.reads_b_along_k(), parts));
                let stage = rows.saturating_add(cols).saturating_mul(row).saturating_add(further);
                // Two barriers a stage, of 8 bytes; where halves meet one for each warp, and one.
                let meetings = if parts > 1 { 5 * 8 } else { 0 };
                let stages = stage.saturating_add(16).saturating_mul(stages);
                stages.saturating_add(boxes.saturating_mul(C_BOX_BYTES)).saturating_add(meetings)
            }
        }
    }

    /// Whether it multiplies elements of f32 as sums of bf16 ([`Precision::Bf16x6`]), or makes
    /// copies of both operands for that: rows along K, in which for each
    /// [`SPLIT_DEPTH`](crate::SPLIT_DEPTH) elements all first summands lie behind each other, then
    /// all second and all third ones.
    pub const fn splits_elements(&self) -> bool {
        matches!(self.precision, Precision::Bf16x6)
    }

    /// Bytes of an element of A or B in shared memory.
    const fn stored_bytes(&self) -> usize {
        match self.splits_elements() {
            true => SPLIT * DType::BF16.size_bytes(),
            false => self.dtype.size_bytes(),
        }
    }

    /// Blocks of a cluster.
    pub const fn cluster(&self) -> usize {
        self.tiles.cluster
    }

    /// Blocks of a cluster that take parts of K of one tile: of most kernels one.
    pub const fn parts_of_cluster(&self) -> usize {
        match self.family {
            KernelFamily::WarpGroupHalves => self.tiles.cluster,
            _ => 1,
        }
    }

    /// Rows and columns of tiles that a cluster takes at a time.
    pub const fn cluster_tiles(&self) -> [usize; 2] {
        let cluster = self.tiles.cluster / self.parts_of_cluster();
        let [down, across] = order::cluster_tiles(cluster as u32);
        [down as usize, across as usize]
    }

    /// Clusters that run at one time, at least one, for each block that fits on a multiprocessor.
    pub const fn clusters_at_once(&self, places: Places) -> u32 {
        let clusters = match self.tiles.cluster {
            8 => places.clusters_of_eight,
            cluster => places.multiprocessors / cluster as u32,
        };
        if clusters == 0 { 1 } else { clusters }
    }

    /// Whether parts of K take its steps in turn, each as many: its clusters' blocks are in step,
    /// and those of all parts read what lies beside each other.
    pub const fn takes_steps_in_turn(&self) -> bool {
        matches!(self.family, KernelFamily::WarpGroupInStep)
    }

    /// Whether its groups take a block's tiles in turn, so that C is written while the next tile is
    /// multiplied.
    pub const fn takes_tiles_in_turn(&self) -> bool {
        matches!(self.family, KernelFamily::WarpGroupPingPong)
    }

    /// Whether what it takes for B is read in rows along K.
    const fn reads_b_along_k(&self) -> bool {
        // There it is A.
        self.swaps_operands() || self.stored.b_is_along_k()
    }

    /// Whether it computes the transposed C, from the transposed B and A: what the table says of
    /// its tiles' rows is true of columns of C. A lies along K. The host gives it the transposed
    /// product.
    pub const fn swaps_operands(&self) -> bool {
        matches!(self.family, KernelFamily::WarpGroupSwapAb)
    }

    /// Whether A and B reach it as tensor maps: each contiguous along one of its extents, and at a
    /// multiple of 16 bytes from row to row.
    pub const fn takes_maps(&self) -> bool {
        self.family.is_warp_group() && !self.takes_row_maps()
    }

    /// Whether it takes A and B as maps of every eighth row: each contiguous along one of its
    /// extents, and along the other one forward.
    pub const fn takes_row_maps(&self) -> bool {
        matches!(self.family, KernelFamily::WarpGroupDirect)
    }

    /// Whether copies of operands that are made for it lie along K, else along C's rows and
    /// columns; `None` where it reads operands as they are no slower.
    pub const fn copies_are_along_k(&self) -> Option<bool> {
        match self.family {
            KernelFamily::WarpSpecialized => Some(false),
            _ if self.takes_maps() => Some(true),
            _ => None,
        }
    }

    /// Whether its blocks stay, and go on from tile to tile until all are done: a grid has no more
    /// of them than run at one time.
    pub const fn is_resident(&self) -> bool {
        self.family.is_warp_group()
    }

    /// Whether its tiles may go row after row, where C is most of what memory moves.
    pub const fn goes_by_rows(&self) -> bool {
        let [rows, cols, _] = self.tiles.block;
        self.is_resident() && rows == 128 && cols == 128
    }

    /// Whether it may start while the kernel before it in its stream ends: it waits for that one
    /// before it touches memory, and lets the next one start.
    pub const fn overlaps(&self) -> bool {
        self.is_resident()
            || matches!(
                self.family,
                KernelFamily::Repack
                    | KernelFamily::FinishOverlapped
                    | KernelFamily::WarpSpecialized
            )
            || matches!((self.family, self.dtype), (KernelFamily::TensorCore, DType::F64))
            || matches!((self.family, self.target), (KernelFamily::Skinny, Target::Sm90))
    }

    /// Whether one launch computes several slices; see [`Slices`](crate::Slices). Step 9 does not,
    /// which has no registers left for it, and stream-K divides one product.
    pub const fn takes_slices(&self) -> bool {
        !matches!(self.family, KernelFamily::AsyncCopy | KernelFamily::WarpGroupStreamK)
    }

    /// Whether its tiles may have fewer columns than [`Tiles::block`] says, for more of them; see
    /// [`Slices::tile_cols`](crate::Slices::tile_cols).
    pub const fn narrows(&self) -> bool {
        matches!(self.family, KernelFamily::WarpGroupHalves) && self.stored.b_is_along_k()
    }

    /// Whether it takes the sums through biases and activations that the parameter block has.
    pub const fn has_epilogues(&self) -> bool {
        matches!(
            self.family,
            KernelFamily::WarpGroup
                | KernelFamily::WarpGroupStreamK
                | KernelFamily::WarpGroupInStep
                | KernelFamily::WarpGroupPingPong
        )
    }

    /// The same with tiles of so many columns, or its own where that is 0.
    pub const fn narrowed(mut self, tile_cols: usize) -> Kernel {
        if tile_cols > 0 {
            self.tiles.block[1] = tile_cols;
        }
        self
    }

    /// Whether blocks join what they have of a tile, in memory that the launch brings: such a
    /// kernel takes `sums: *mut S`, with room for the tile of each of its blocks, `keys: *mut u64`,
    /// one for each group of four warps that multiplies, and `key: u64` behind the parameters of
    /// every kernel.
    pub const fn joins(&self) -> bool {
        matches!(self.family, KernelFamily::WarpGroupStreamK)
    }

    /// How many blocks may share one tile, where sums have `k` products: one, but for those that
    /// [`join`](Kernel::joins) what they have.
    pub fn blocks_of_tile(&self, k: usize) -> u32 {
        match self.joins() {
            true => (k / (LEAST_STEPS * self.tiles.block[2].max(1))).clamp(1, 1 << 16) as u32,
            false => 1,
        }
    }

    /// The kernel in the module of 9.0, where it takes more shared memory than a block has on most
    /// GPUs of 8.x; else as it is.
    pub(crate) const fn where_it_fits(mut self) -> Self {
        if matches!(self.target, Target::Sm80) && self.dynamic_shared_bytes() > 99 << 10 {
            self.target = Target::Sm90;
        }
        self
    }

    /// Bytes of shared memory that the launch has to ask for, because the kernel declares none.
    pub const fn dynamic_shared_bytes(&self) -> usize {
        match self.family {
            KernelFamily::AsyncCopy
            | KernelFamily::GroupedOrder
            | KernelFamily::TensorCore
            | KernelFamily::WarpSpecialized => self.shared_bytes(),
            family if family.is_warp_group() => self.shared_bytes(),
            _ => 0,
        }
    }
}
