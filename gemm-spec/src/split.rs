//! Elements of f32 as sums of bf16 ([`Precision::Bf16x6`](crate::Precision::Bf16x6)).

/// The summands of an element: 24 bits by three times 8.
pub const SPLIT: usize = 3;

/// Elements along K whose first summands lie behind each other, then their second, then their third
/// ones: 128 bytes each.
pub const SPLIT_DEPTH: usize = 64;

/// Columns of a matrix of which each of `cols` elements along K is split, with zeros to whole
/// [`SPLIT_DEPTH`]; `None` where there are too many to count.
pub const fn split_cols(cols: usize) -> Option<usize> {
    match cols.checked_next_multiple_of(SPLIT_DEPTH) {
        Some(whole) => whole.checked_mul(SPLIT),
        None => None,
    }
}
