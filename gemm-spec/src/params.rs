//! The parameter block that the host passes and a kernel reads.

use crate::order::TileOrder;
use crate::{DType, EpilogueParams, Shape, Strides};

/// Sizes, strides and factors of one launch: C = alpha * A * B + beta * C.
///
/// Every kernel that reads A and B by address has the same four parameters, in this order: `a:
/// *const T`, `b: *const T`, `c: *mut T`, each the address of element (0, 0) in global memory, and
/// this block by value. (Those that read by tensor maps have three maps in the place of A and B,
/// then C's address and the block.) The pointers stand apart because the compiler then knows that
/// they point to global memory; a pointer that it finds in a block is a generic one, and slower.
/// The block is one struct on both sides, so host and device can't disagree on its fields.
///
/// Transposes are strides that have changed places. Strides count elements and may be negative;
/// element (i, j) of A lies at `a + i * a_row_stride + j * a_col_stride`, in 64-bit arithmetic.
///
/// `S` is the type of the sums, of alpha and of beta: f32 where the elements are f16 or bf16, i32
/// where they are i8, else the element type. Where sums of i32 become a C of floats, alpha and beta
/// hold the bits of an f32.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GemmParams<S> {
    /// Rows of A and of C.
    pub m: u64,
    /// Columns of B and of C.
    pub n: u64,
    /// Columns of A, rows of B.
    pub k: u64,
    /// Elements from A(i, j) to A(i + 1, j).
    pub a_row_stride: i64,
    /// Elements from A(i, j) to A(i, j + 1).
    pub a_col_stride: i64,
    /// Elements from B(i, j) to B(i + 1, j).
    pub b_row_stride: i64,
    /// Elements from B(i, j) to B(i, j + 1).
    pub b_col_stride: i64,
    /// Elements from C(i, j) to C(i + 1, j).
    pub c_row_stride: i64,
    /// Elements from C(i, j) to C(i, j + 1).
    pub c_col_stride: i64,
    /// Factor of the product.
    pub alpha: S,
    /// Factor of C's old value; not used where `reads_c` is 0.
    pub beta: S,
    /// 1 where C's old value takes part, 0 where C is written and never read.
    pub reads_c: u32,
    /// C's dtype, `DType as u32`. What is none of the [`DType::outputs`] of the kernel's elements
    /// stands for the first of them.
    pub output: u32,
    /// [`Reads`], as a number.
    pub reads: u32,
    /// [`Writes`], as a number.
    pub writes: u32,
    /// The products of the launch, where it is more than one.
    pub slices: Slices,
    /// The order of tiles, for kernels whose clusters go on from tile to tile of a product.
    pub order: TileOrder,
    /// What else becomes of the sums. Kernels that do not do it never get any.
    pub epilogue: EpilogueParams,
}

/// When a product may read A and B.
///
/// Kernels of compute capability 9.0 start while the one before them in their stream ends
/// (programmatic dependent launch), and wait for it before they touch memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Reads {
    /// After all that was enqueued before, which may write to them.
    #[default]
    InOrder = 0,
    /// At once: nothing that was enqueued before and has not ended writes to them. C is written in
    /// order nevertheless, and what an epilogue and scales are made of is read so.
    AtOnce = 1,
    /// As [`Reads::InOrder`], where what was enqueued just before does write to them, so that it
    /// is no use to have them brought near meanwhile.
    Behind = 2,
}

/// How boxes of C go to memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Writes {
    /// Each as it comes, through the L2 cache as everything else.
    #[default]
    Plain = 0,
    /// As late as can be, both groups' at one time, and tiles row by row: C is most of what a fast
    /// memory moves.
    Late = 1,
    /// C is more than the L2 cache holds, and most of what memory moves: its lines are the first to
    /// leave the cache, before those of A and B.
    FirstOut = 2,
}

/// Products that one launch computes alike, its slices: those of a batch, or parts of one product,
/// whose K is split.
///
/// A grid has a layer of blocks along z for each, except that blocks of kernels that take tensor
/// maps go on from slice to slice as they do from tile to tile.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slices {
    /// K of the last slice; that of the others is [`GemmParams::k`].
    pub last_k: u64,
    /// Bytes from A of one slice to A of the next, as long as A is no tensor map.
    pub a: i64,
    /// The same for B.
    pub b: i64,
    /// Bytes from C of one slice to C of the next.
    pub c: i64,
    /// Slices, from 1 up.
    pub count: u32,
    /// What a slice adds to the coordinate along K in maps of A and B. For a kernel that
    /// [`takes_steps_in_turn`](crate::Kernel::takes_steps_in_turn), a step of it. Where it is not
    /// 0, K is in parts.
    pub map_k: u32,
    /// What a slice adds to the last coordinate in maps of A and B, and of a C of 16 bits: 1 for a
    /// batch, 0 for parts of K, whose sums have 32 bits. In maps of a C of 32 bits it is 1 always.
    pub map_batch: u32,
    /// Columns of a block's tile, where they are fewer than the kernel's, which
    /// [`narrows`](crate::Kernel::narrows): a multiple of 8, as many as the boxes of B's map have
    /// rows. Else 0.
    pub tile_cols: u32,
}

impl Slices {
    /// One product with sums of `k` products.
    pub const fn one(k: u64) -> Self {
        Slices { last_k: k, a: 0, b: 0, c: 0, count: 1, map_k: 0, map_batch: 0, tile_cols: 0 }
    }
}

/// Elements along K that have one scale, and columns of B that do.
pub const SCALE_BLOCK: usize = 128;

/// Where the scales of A and B lie, for kernels that take the parameters `a_scales: *const f32`,
/// `b_scales: *const f32` and this block behind those of every kernel.
///
/// With q = k / [`SCALE_BLOCK`], C = alpha * (sum over q of a_scale(i, q) * b_scale(q, j /
/// `SCALE_BLOCK`) * the sum of block q's products) + beta * C: a scale of A is for one row and a
/// block of K, one of B for a block of K and one of columns, as in DeepSeek-V3 (arXiv 2412.19437,
/// section 3.3.2). Strides count elements and may be negative.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScaleParams {
    /// Elements from A's scale of a row to that of the next row.
    pub a_row_stride: i64,
    /// Elements from A's scale of a block of K to that of the next.
    pub a_k_stride: i64,
    /// Elements from B's scale of a block of K to that of the next.
    pub b_k_stride: i64,
    /// Elements from B's scale of a block of columns to that of the next.
    pub b_col_stride: i64,
}

impl ScaleParams {
    /// The block's bytes, as words.
    pub fn words(&self) -> [u64; 4] {
        let ScaleParams { a_row_stride, a_k_stride, b_k_stride, b_col_stride } = *self;
        [a_row_stride, a_k_stride, b_k_stride, b_col_stride].map(i64::cast_unsigned)
    }
}

/// Products of a launch of a kernel for products of several shapes. Their maps are parameters, of
/// which a kernel has 4352 bytes up to PTX 8.0.
pub const GROUPED_MAX: usize = 8;

/// One of the products of such a launch, whose kernels take a table of [`GROUPED_MAX`] times three
/// maps and then as many of these, `start: *mut T`, `offsets: *const i32` and a [`GemmParams`], of
/// which count the factors, C's dtype and, as their count, the slices.
///
/// Where `offsets` is a null pointer, each product has its maps and its C. Else all are in rows of
/// one A and one C, those of the first entry: product number g has the rows from offset g to offset
/// g + 1, and matrix number g of B's map. There may be any number of them.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GroupedProduct {
    /// Rows of A and C.
    pub m: u64,
    /// Columns of B and C.
    pub n: u64,
    /// Columns of A, rows of B. Where it is 0, the maps of A and B end before element 64 of each
    /// extent, and nothing is read.
    pub k: u64,
    /// Bytes to C's element (0, 0) from where the launch says.
    pub c: i64,
    /// Elements from C(i, j) to C(i + 1, j).
    pub c_row_stride: i64,
    /// Elements from C(i, j) to C(i, j + 1).
    pub c_col_stride: i64,
}

impl GroupedProduct {
    /// The block's bytes, as words.
    pub fn words(&self) -> [u64; 6] {
        let GroupedProduct { m, n, k, c, c_row_stride, c_col_stride } = *self;
        let [c, row, col] = [c, c_row_stride, c_col_stride].map(i64::cast_unsigned);
        [m, n, k, c, row, col]
    }
}

/// Sizes and strides of copies to rows that are contiguous, by a kernel with the parameters
/// `source: *const T`, `target: *mut T`, both the addresses of element (0, 0), and this block; then
/// the same three of other copies, of which there may be none.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RepackParams {
    /// Matrices, each of which has a layer of the grid's blocks along z: those of the first copies,
    /// then those of the others.
    pub layers: u64,
    /// Rows.
    pub rows: u64,
    /// Columns.
    pub cols: u64,
    /// Elements from (i, j) to (i + 1, j) in the source.
    pub row_stride: i64,
    /// Elements from (i, j) to (i, j + 1) in the source.
    pub col_stride: i64,
    /// Elements from (i, j) to (i + 1, j) in the target: 16 bytes, times a number that is at least
    /// the row's. What a row has behind its columns is written too.
    pub pitch: u64,
    /// Elements from matrix to matrix in the source.
    pub source_step: i64,
    /// The same in the target.
    pub target_step: i64,
}

impl RepackParams {
    /// The block's bytes, as words.
    pub fn words(&self) -> [u64; 8] {
        let RepackParams { layers, rows, cols, pitch, .. } = *self;
        let signed = [self.row_stride, self.col_stride, self.source_step, self.target_step];
        let [row_stride, col_stride, source_step, target_step] = signed.map(i64::cast_unsigned);
        [layers, rows, cols, row_stride, col_stride, pitch, source_step, target_step]
    }
}

/// Whether an operand with these strides, along the extent that C keeps and along K, is read along
/// K by a kernel that reads it as it is stored.
pub const fn is_along_k(outer_stride: isize, k_stride: isize) -> bool {
    k_stride == 1 && outer_stride != 1
}

impl<S> GemmParams<S> {
    /// Whether a kernel that takes tiles as they are stored reads A in rows along K: else it reads
    /// them along A's rows, which are contiguous then.
    #[inline(always)]
    pub fn a_is_along_k(&self) -> bool {
        is_along_k(self.a_row_stride as isize, self.a_col_stride as isize)
    }

    /// The same for B, in rows along K or along B's columns.
    #[inline(always)]
    pub fn b_is_along_k(&self) -> bool {
        is_along_k(self.b_col_stride as isize, self.b_row_stride as isize)
    }

    /// The block of a launch whose C has `shape`, with sums of `k` products; `strides` are those of
    /// A, B and C. C's old value takes part where `beta` is there; `zero` stands in for it where it
    /// is not. C has the dtype that it has unless another is asked for.
    pub fn new(
        shape: Shape,
        k: usize,
        [a, b, c]: [Strides; 3],
        alpha: S,
        beta: Option<S>,
        zero: S,
    ) -> Self {
        GemmParams {
            m: shape.rows as u64,
            n: shape.cols as u64,
            k: k as u64,
            a_row_stride: a.row as i64,
            a_col_stride: a.col as i64,
            b_row_stride: b.row as i64,
            b_col_stride: b.col as i64,
            c_row_stride: c.row as i64,
            c_col_stride: c.col as i64,
            alpha,
            reads_c: u32::from(beta.is_some()),
            beta: beta.unwrap_or(zero),
            output: 0,
            reads: Reads::InOrder as u32,
            writes: Writes::Plain as u32,
            slices: Slices::one(k as u64),
            order: TileOrder::default(),
            epilogue: EpilogueParams::default(),
        }
    }

    /// The same with a C of that dtype.
    pub fn output(self, dtype: DType) -> Self {
        GemmParams { output: dtype as u32, ..self }
    }

    /// The same that reads A and B so.
    pub fn reads(self, reads: Reads) -> Self {
        GemmParams { reads: reads as u32, ..self }
    }

    /// The same, writing C so.
    pub fn writes(self, writes: Writes) -> Self {
        GemmParams { writes: writes as u32, ..self }
    }

    /// The same for so many products; `k` is that of all but the last.
    pub fn slices(self, slices: Slices) -> Self {
        GemmParams { slices, ..self }
    }

    /// The same with that order of tiles.
    pub fn order(self, order: TileOrder) -> Self {
        GemmParams { order, ..self }
    }

    /// The same with that epilogue.
    pub fn epilogue(self, epilogue: EpilogueParams) -> Self {
        GemmParams { epilogue, ..self }
    }
}
