//! Which matrices tensor maps can describe.

use gemm_spec::{DIRECT_ROWS, DType, Layout, Strides};

/// Whether a tensor map can describe a matrix (CUDA driver API, `cuTensorMapEncodeTiled`): it is
/// contiguous along one extent, and along the other it goes forward by a multiple of 16 bytes, from
/// an address that is one too. The layout's index 0 is at `base`.
pub(crate) fn mappable(layout: &Layout, dtype: DType, base: u64) -> bool {
    let Layout { shape, strides, offset } = *layout;
    let bytes = dtype.size_bytes() as u64;
    let address = base.wrapping_add(bytes.wrapping_mul(offset as u64));
    let stride = match (strides.row, strides.col) {
        (stride, 1) | (1, stride) => u64::try_from(stride).unwrap_or(0).saturating_mul(bytes),
        _ => 0,
    };
    let extents_fit = shape.rows.max(shape.cols) <= i32::MAX as usize;
    let stride_fits = stride > 0 && stride.is_multiple_of(16) && stride < 1 << 40;
    extents_fit && stride_fits && address.is_multiple_of(16)
}

/// Whether maps of every eighth row can describe the matrices of a batch, so many elements apart:
/// contiguous along one extent, along the other they go forward, and one lies behind the other as
/// its rows do, or all are one.
pub(crate) fn mappable_by_rows(
    layout: &Layout,
    dtype: DType,
    (batch, step): (usize, isize),
) -> bool {
    let Layout { shape, strides, .. } = *layout;
    let (rows, pitch) = match (strides.row, strides.col) {
        (pitch, 1) => (shape.rows, pitch),
        (1, pitch) => (shape.cols, pitch),
        _ => return false,
    };
    let pitch = usize::try_from(pitch).unwrap_or(0);
    let matrix = rows.saturating_mul(pitch);
    let count = if step == 0 { 1 } else { batch };
    // Of a matrix whose strides are both 1, rows are columns too.
    let is_dense = count <= 1 || pitch > 1 && usize::try_from(step) == Ok(matrix);
    let extents_fit = rows.saturating_mul(count).max(shape.cols) <= i32::MAX as usize;
    let pitch_fits = pitch > 0 && pitch.saturating_mul(DIRECT_ROWS * dtype.size_bytes()) < 1 << 40;
    is_dense && extents_fit && pitch_fits && shape.rows <= i32::MAX as usize
}

/// [`skew`] of rows that begin at multiples of 16 bytes and of no more: within sectors of 32.
pub(super) const WITHIN_SECTORS: u8 = 7;

/// [`Task::skew`](super::choose::Task::skew) of an operand, which begins with a line: of the places
/// within lines where its rows or columns begin, all but one are no line's first.
pub(super) fn skew(layout: &Layout, dtype: DType) -> u8 {
    let Strides { row, col } = layout.strides;
    let between = row.unsigned_abs().max(col.unsigned_abs()).saturating_mul(dtype.size_bytes());
    // 128 bytes and more, 64, 32, 16.
    match between.trailing_zeros() {
        7.. => 0,
        6 => 4,
        5 => 6,
        _ => WITHIN_SECTORS,
    }
}
