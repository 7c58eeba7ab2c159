//! How matrices travel between host and device.

use gemm_spec::Layout;

/// The elements of a buffer that a layout reaches: (first, one past the last), both 0 for an empty
/// shape.
///
/// The layout has passed [`Layout::check`].
pub(crate) fn span(layout: &Layout) -> (usize, usize) {
    if layout.shape.is_empty() {
        return (0, 0);
    }
    let reach = |count: usize, stride: isize| match stride {
        0 => 0, // a repeated row may be repeated usize::MAX times
        stride => (count - 1) as isize * stride,
    };
    let row = reach(layout.shape.rows, layout.strides.row);
    let col = reach(layout.shape.cols, layout.strides.col);
    let first = layout.offset.wrapping_add_signed(row.min(0) + col.min(0));
    let last = layout.offset.wrapping_add_signed(row.max(0) + col.max(0));
    (first, last + 1)
}

/// How a matrix travels between host and device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Transfer {
    /// The elements to copy, each once: the layout with the extents of stride 0 cut to 1.
    pub source: Layout,
    /// They lie side by side, and the span is copied as it is. Otherwise they are gathered row by
    /// row: what lies between them is not the matrix's, and may be changing.
    pub dense: bool,
    /// Elements that are copied.
    pub len: usize,
    /// The matrix's layout in the copy.
    pub copy: Layout,
}

/// Decides how a matrix travels; `None` where the copy would not fit into the address space.
pub(crate) fn transfer(layout: &Layout) -> Option<Transfer> {
    if layout.shape.is_empty() {
        let copy = Layout { offset: 0, ..*layout };
        return Some(Transfer { source: *layout, dense: true, len: 0, copy });
    }
    let mut source = *layout;
    if source.strides.row == 0 {
        source.shape.rows = 1;
    }
    if source.strides.col == 0 {
        source.shape.cols = 1;
    }
    let len = source.shape.checked_len()?;
    let (first, end) = span(&source);
    if end - first == len && !source.overlaps_itself() {
        let copy = Layout { offset: layout.offset - first, ..*layout };
        return Some(Transfer { source, dense: true, len, copy });
    }
    let mut copy = Layout { shape: layout.shape, ..Layout::row_major(source.shape) };
    if layout.strides.row == 0 {
        copy.strides.row = 0;
    }
    if layout.strides.col == 0 {
        copy.strides.col = 0;
    }
    Some(Transfer { source, dense: false, len, copy })
}
