//! The tensors of a product's operands, as maps describe them.

use crate::cuda::{L2Promotion, TensorElement, TensorLayout, TensorSwizzle};
use crate::plan::{Product, is_mappable_step, mappable};
use gemm_spec::{
    DIRECT_ROWS, DType, Kernel, Layout, Op, Shape, Slices, c_row_bytes, is_along_k,
    swapped_box_rows,
};

/// A tensor at a device address, which a map is made of; in operand number `of`, of A, B and C.
#[derive(Clone, Debug)]
pub(super) struct Tensor {
    pub layout: TensorLayout,
    pub of: usize,
    pub address: u64,
}

/// The tensors of A, B and C for one launch, whose first elements lie at the addresses, in boxes as
/// the kernel copies them: 64 rows of 128 bytes, or fewer as [`Kernel::operand_box_rows`] says, or
/// of 64 bytes as [`Kernel::operand_row_bytes`] and for C [`c_row_bytes`] say, swizzled. C's is
/// A's, and not used, where none can describe it.
pub(super) fn of_operands(
    kernel: &Kernel,
    product: &Product,
    slices: Slices,
    [a, b, c]: [u64; 3],
) -> [Tensor; 3] {
    let Product { dtype, output, a: a_layout, b: b_layout, c: c_layout, batch, .. } = product;
    // Parts of K lie within the one A and B, and have a C each.
    let further = |step: isize| match slices.map_batch {
        0 => (1, 0),
        _ => (slices.count, step),
    };
    let of_b = b_layout.apply(Op::Transpose);
    let extents = [a_layout.shape.rows, of_b.shape.rows, product.k].map(|extent| extent as u64);
    let along_k = [a_layout, &of_b].map(|of| is_along_k(of.strides.row, of.strides.col));
    let boxes = kernel.operand_box_rows(extents, along_k, slices.tile_cols);
    let bytes = kernel.operand_row_bytes(along_k);
    let of = |layout: &Layout, i: usize, batch| {
        let is_along_k = is_along_k(layout.strides.row, layout.strides.col);
        let layout = if is_along_k { *layout } else { layout.apply(Op::Transpose) };
        in_boxes(*dtype, &layout, (boxes[i], bytes[i]), batch)
    };
    let of_a = Tensor { layout: of(a_layout, 0, further(batch.a)), of: 0, address: a };
    let of_b = Tensor { layout: of(&of_b, 1, further(batch.b)), of: 1, address: b };
    // Who computes C transposed writes it as it is, in rows.
    let (c_layout, c_box) = match kernel.swaps_operands() {
        true => {
            let rows = swapped_box_rows(kernel.tiles.block[1], output.size_bytes());
            (&c_layout.apply(Op::Transpose), (rows, 128))
        }
        false => (c_layout, (64, c_row_bytes(kernel.tiles.block[1], output.size_bytes()))),
    };
    // The address is that of the first element, past the layout's offset.
    let from_there = Layout { offset: 0, ..*c_layout };
    let each = (slices.count, slices.c as isize / output.size_bytes() as isize);
    let is_mapped = mappable(&from_there, *output, c)
        && c_layout.strides.col == 1
        && is_mappable_step(slices.count as usize, *output, each.1);
    let of_c = match is_mapped {
        true => {
            let layout = in_boxes(*output, c_layout, (c_box.0 as u32, c_box.1), each);
            Tensor { layout, of: 2, address: c }
        }
        false => of_a.clone(),
    };
    [of_a, of_b, of_c]
}

/// The tensors of A, B and C for one of a list of products, as kernels for lists take them: in
/// boxes of 64 rows, of so many matrices B, that many elements apart. Where there is nothing to
/// sum, those of A and B are of one row of 16 bytes at their addresses.
pub(super) fn of_one(product: &Product, [a, b, c]: [u64; 3], of_b: (u32, isize)) -> [Tensor; 3] {
    let Product { dtype, output, a: a_layout, b: b_layout, c: c_layout, .. } = product;
    let of = |layout: &Layout, count| {
        let row = Layout::row_major(Shape::new(1, 16 / dtype.size_bytes()));
        let (layout, count) = match (product.k, layout.strides.col) {
            (0, _) => (row, (1, 0)),
            (_, 1) if layout.strides.row != 1 => (*layout, count),
            _ => (layout.apply(Op::Transpose), count),
        };
        in_boxes(*dtype, &layout, (64, 128), count)
    };
    let of_a = Tensor { layout: of(a_layout, (1, 0)), of: 0, address: a };
    let of_b = Tensor { layout: of(&b_layout.apply(Op::Transpose), of_b), of: 1, address: b };
    let from_there = Layout { offset: 0, ..*c_layout };
    let of_c = match mappable(&from_there, *output, c) && c_layout.strides.col == 1 {
        true => {
            let layout = in_boxes(*output, c_layout, (64, 128), (1, 0));
            Tensor { layout, of: 2, address: c }
        }
        false => of_a.clone(),
    };
    [of_a, of_b, of_c]
}

/// The tensors of every eighth row of A and of B, whose rows begin anywhere, for one launch: in
/// boxes of eight rows, which have 128 bytes along K, swizzled, else a chunk of 16 bytes more than
/// a block's tiles. The matrices of a batch lie one below the other.
pub(super) fn of_rows(
    kernel: &Kernel,
    product: &Product,
    slices: Slices,
    [a, b]: [u64; 2],
) -> [[Tensor; DIRECT_ROWS]; 2] {
    let Product { dtype, a: a_layout, b: b_layout, batch, .. } = product;
    let of_b = b_layout.apply(Op::Transpose);
    let of = |layout: &Layout, (of, address): (usize, u64), step: isize, extent: usize| {
        let is_along_k = is_along_k(layout.strides.row, layout.strides.col);
        let layout = if is_along_k { *layout } else { layout.apply(Op::Transpose) };
        let count = if slices.map_batch == 0 || step == 0 { 1 } else { slices.count as u64 };
        let rows = layout.shape.rows as u64 * count;
        let bytes = dtype.size_bytes() as u64;
        let pitch = layout.strides.row as u64 * bytes;
        let (width, swizzle) = match is_along_k {
            true => (128, TensorSwizzle::B128),
            false => (extent as u64 * bytes + CHUNK, TensorSwizzle::None),
        };
        std::array::from_fn(|class| {
            // Of classes that have no row, the maps are read and what they bring is not.
            let class = if (class as u64) < rows { class as u64 } else { 0 };
            let first = address.wrapping_add(class * pitch);
            let shift = first % CHUNK;
            let sizes = [
                layout.shape.cols as u64 + shift / bytes,
                (rows - class).div_ceil(DIRECT_ROWS as u64),
                1,
            ];
            let boxes = [(width / bytes) as u32, DIRECT_ROWS as u32, 1];
            let eighth = DIRECT_ROWS as u64 * pitch;
            let layout = TensorLayout::new(element(*dtype), &sizes, &boxes)
                .strides(&[eighth, eighth])
                .swizzle(swizzle)
                .promotion(L2Promotion::B128);
            Tensor { layout, of, address: first - shift }
        })
    };
    let [rows, cols, _] = kernel.tiles.block;
    [of(a_layout, (0, a), batch.a, rows), of(&of_b, (1, b), batch.b, cols)]
}

/// Bytes that the copy engine moves at once.
const CHUNK: u64 = 16;

/// The layout of a matrix with contiguous rows, in boxes of so many rows of 128 or 64 bytes; of so
/// many matrices, that many elements apart.
fn in_boxes(
    dtype: DType,
    layout: &Layout,
    (rows, row_bytes): (u32, usize),
    (count, step): (u32, isize),
) -> TensorLayout {
    let Layout { shape, strides, .. } = *layout;
    let bytes = dtype.size_bytes() as u64;
    let pitch = strides.row as u64 * bytes;
    let sizes = [shape.cols as u64, shape.rows as u64, count.into()];
    let step = if count > 1 { step as u64 * bytes } else { pitch };
    let boxes = [(row_bytes as u64 / bytes) as u32, rows, 1];
    let swizzle = if row_bytes == 128 { TensorSwizzle::B128 } else { TensorSwizzle::B64 };
    TensorLayout::new(element(dtype), &sizes, &boxes)
        .strides(&[pitch, step])
        .swizzle(swizzle)
        // Rows of 256 bytes would be twice as many reads where matrices are not aligned to them.
        .promotion(L2Promotion::B128)
}

/// What maps call a dtype.
fn element(dtype: DType) -> TensorElement {
    match dtype {
        DType::F16 => TensorElement::F16,
        DType::BF16 => TensorElement::Bf16,
        DType::F32 => TensorElement::F32,
        DType::F64 => TensorElement::F64,
        DType::I32 => TensorElement::I32,
        DType::I8 | DType::F8E4M3 | DType::F8E5M2 => TensorElement::U8,
    }
}
