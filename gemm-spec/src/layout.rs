//! Where the elements of a matrix lie.

use core::fmt;

/// Rows and columns of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub cols: usize,
}

impl Shape {
    /// A shape of `rows` by `cols`.
    pub const fn new(rows: usize, cols: usize) -> Self {
        Shape { rows, cols }
    }

    /// Rows and columns exchanged.
    pub const fn transposed(self) -> Self {
        Shape { rows: self.cols, cols: self.rows }
    }

    /// Number of elements, or `None` where it exceeds `isize::MAX`.
    pub const fn checked_len(self) -> Option<usize> {
        match self.rows.checked_mul(self.cols) {
            Some(len) if len <= isize::MAX as usize => Some(len),
            _ => None,
        }
    }

    /// True where there is no element.
    pub const fn is_empty(self) -> bool {
        self.rows == 0 || self.cols == 0
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.rows, self.cols)
    }
}

/// Distances, in elements, between neighbours in a column (`row`) and in a row (`col`).
///
/// They may be negative or zero; element (i, j) lies at `i * row + j * col` from element (0, 0).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Strides {
    /// From element (i, j) to (i + 1, j).
    pub row: isize,
    /// From element (i, j) to (i, j + 1).
    pub col: isize,
}

impl Strides {
    /// Strides of `row` and `col` elements.
    pub const fn new(row: isize, col: isize) -> Self {
        Strides { row, col }
    }

    /// Contiguous rows, one after the other: C order.
    pub const fn row_major(shape: Shape) -> Self {
        Strides { row: shape.cols as isize, col: 1 }
    }

    /// Contiguous columns, one after the other: Fortran order.
    pub const fn col_major(shape: Shape) -> Self {
        Strides { row: 1, col: shape.rows as isize }
    }
}

/// What a product does with an operand before it multiplies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Op {
    /// Takes it as it is.
    #[default]
    None,
    /// Exchanges rows and columns; no data moves, only the strides change places.
    Transpose,
}

/// Shape and strides of a matrix within a buffer, and where in the buffer element (0, 0) lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// Rows and columns.
    pub shape: Shape,
    /// Distances between neighbours, in elements.
    pub strides: Strides,
    /// Index of element (0, 0) in the buffer.
    pub offset: usize,
}

/// Why a layout does not fit a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutError {
    /// The distance to some element exceeds `isize::MAX` elements.
    Overflow,
    /// Some element lies in front of the buffer's start.
    BeforeStart,
    /// The buffer has `have` elements and the layout reaches `need`.
    TooShort {
        /// Elements that the layout needs.
        need: usize,
        /// Elements that the buffer has.
        have: usize,
    },
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LayoutError::Overflow => f.write_str("strides reach further than isize::MAX elements"),
            LayoutError::BeforeStart => f.write_str("strides reach in front of the buffer"),
            LayoutError::TooShort { need, have } => {
                write!(f, "the buffer has {have} elements and the layout needs {need}")
            }
        }
    }
}

impl core::error::Error for LayoutError {}

impl Layout {
    /// Contiguous rows from the buffer's start.
    pub const fn row_major(shape: Shape) -> Self {
        Layout { shape, strides: Strides::row_major(shape), offset: 0 }
    }

    /// Contiguous columns from the buffer's start.
    pub const fn col_major(shape: Shape) -> Self {
        Layout { shape, strides: Strides::col_major(shape), offset: 0 }
    }

    /// `shape` with `strides`, element (0, 0) at the buffer's start.
    pub const fn strided(shape: Shape, strides: Strides) -> Self {
        Layout { shape, strides, offset: 0 }
    }

    /// The layout of `op` of this matrix; the elements stay where they are.
    pub const fn apply(self, op: Op) -> Self {
        match op {
            Op::None => self,
            Op::Transpose => Layout {
                shape: self.shape.transposed(),
                strides: Strides { row: self.strides.col, col: self.strides.row },
                offset: self.offset,
            },
        }
    }

    /// Index in the buffer of element (`row`, `col`), which lies in the shape of a layout that
    /// [`Layout::check`] took.
    pub const fn index(&self, row: usize, col: usize) -> usize {
        let distance = row as isize * self.strides.row + col as isize * self.strides.col;
        self.offset.wrapping_add_signed(distance)
    }

    /// Whether it has the same elements at the same places: strides of extents of 1 do not count.
    pub fn lies_as(&self, other: &Layout) -> bool {
        let Shape { rows, cols } = self.shape;
        let is_alike = |extent: usize, a: isize, b: isize| extent <= 1 || a == b;
        self.shape == other.shape
            && self.offset == other.offset
            && is_alike(rows, self.strides.row, other.strides.row)
            && is_alike(cols, self.strides.col, other.strides.col)
    }

    /// Checks that every element lies in a buffer of `len` elements.
    pub const fn check(&self, len: usize) -> Result<(), LayoutError> {
        if self.shape.is_empty() {
            return Ok(());
        }
        let Some(row_reach) = reach(self.shape.rows, self.strides.row) else {
            return Err(LayoutError::Overflow);
        };
        let Some(col_reach) = reach(self.shape.cols, self.strides.col) else {
            return Err(LayoutError::Overflow);
        };
        // Each term is at most 2^126 in magnitude, so the sums of three stay in an i128.
        let min = self.offset as i128 + min0(row_reach) + min0(col_reach);
        let max = self.offset as i128 + max0(row_reach) + max0(col_reach);
        if min < 0 {
            return Err(LayoutError::BeforeStart);
        }
        if max >= isize::MAX as i128 {
            return Err(LayoutError::Overflow);
        }
        if max as usize >= len {
            return Err(LayoutError::TooShort { need: max as usize + 1, have: len });
        }
        Ok(())
    }

    /// True where two different (row, col) pairs share an element, so that the matrix cannot be
    /// written to.
    ///
    /// Exact: i * row + j * col repeats within the shape if and only if the smallest step that
    /// returns to the same element, |col| / g rows against |row| / g columns with g = gcd(|row|,
    /// |col|), fits in it.
    pub const fn overlaps_itself(&self) -> bool {
        let Shape { rows, cols } = self.shape;
        if self.shape.is_empty() {
            return false;
        }
        let (row, col) = (self.strides.row.unsigned_abs(), self.strides.col.unsigned_abs());
        match (row, col) {
            (0, 0) => rows > 1 || cols > 1,
            _ => {
                let g = gcd(row, col);
                col / g < rows && row / g < cols
            }
        }
    }
}

/// Signed distance from the first to the last of `count` (at least 1) elements `stride` apart.
const fn reach(count: usize, stride: isize) -> Option<i128> {
    let last = count - 1;
    if last > isize::MAX as usize {
        return if stride == 0 { Some(0) } else { None };
    }
    Some(last as i128 * stride as i128)
}

const fn min0(x: i128) -> i128 {
    if x < 0 { x } else { 0 }
}

const fn max0(x: i128) -> i128 {
    if x > 0 { x } else { 0 }
}

const fn gcd(mut a: usize, mut b: usize) -> usize {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::string::ToString;

    #[test]
    fn check_agrees_with_enumeration() {
        let len = 12;
        for layout in small_layouts() {
            let mut indices = layout_indices(&layout);
            let fits = indices.all(|index| (0..len as isize).contains(&index));
            assert_eq!(layout.check(len).is_ok(), fits, "{layout:?}");
        }
    }

    #[test]
    fn overlap_agrees_with_enumeration() {
        for layout in small_layouts() {
            let mut seen = HashSet::new();
            let repeats = layout_indices(&layout).any(|index| !seen.insert(index));
            assert_eq!(layout.overlaps_itself(), repeats, "{layout:?}");
        }
    }

    #[test]
    fn index_is_where_the_element_lies() {
        let layout = Layout { shape: Shape::new(2, 3), strides: Strides::new(-3, 1), offset: 3 };
        assert_eq!(layout.check(6), Ok(()));
        assert_eq!(layout.index(0, 2), 5);
        assert_eq!(layout.index(1, 0), 0);
        assert_eq!(layout.apply(Op::Transpose).index(2, 0), 5);
    }

    #[test]
    fn huge_layouts_are_errors_and_not_panics() {
        let max = usize::MAX;
        for (rows, cols) in [(max, 1), (1, max), (max, max), (max / 2, 2)] {
            for stride in [isize::MIN, -1, 1, isize::MAX] {
                let strides = Strides::new(stride, stride);
                let layout = Layout { shape: Shape::new(rows, cols), strides, offset: max };
                assert!(layout.check(max).is_err(), "{layout:?}");
                let _ = layout.overlaps_itself();
            }
        }
        let broadcast = Layout::strided(Shape::new(max, 1), Strides::new(0, 0));
        assert_eq!(broadcast.check(1), Ok(()));
        assert_eq!(Shape::new(max, 2).checked_len(), None);
        let most = isize::MAX as usize;
        assert_eq!([1, 2].map(|cols| Shape::new(most, cols).checked_len()), [Some(most), None]);
    }

    #[test]
    fn errors_say_what_is_wrong() {
        let layout = Layout { offset: 3, ..Layout::row_major(Shape::new(2, 5)) };
        assert_eq!(layout.check(13), Ok(()));
        let short = LayoutError::TooShort { need: 13, have: 12 };
        assert_eq!(layout.check(12), Err(short));
        assert_eq!(short.to_string(), "the buffer has 12 elements and the layout needs 13");
        let back = Layout { strides: Strides::new(-5, 1), ..layout };
        assert_eq!(back.check(12), Err(LayoutError::BeforeStart));
        let far = Layout { offset: isize::MAX as usize + 1, ..layout };
        assert_eq!(far.check(usize::MAX), Err(LayoutError::Overflow));
        for error in [LayoutError::BeforeStart, LayoutError::Overflow] {
            assert!(error.to_string().starts_with("strides reach"));
        }
    }

    fn small_layouts() -> impl Iterator<Item = Layout> {
        let sizes = || 0..4usize;
        let strides = || -4..5isize;
        sizes().flat_map(move |rows| {
            sizes().flat_map(move |cols| {
                strides().flat_map(move |row| {
                    strides().flat_map(move |col| {
                        [0, 5].into_iter().map(move |offset| Layout {
                            shape: Shape::new(rows, cols),
                            strides: Strides::new(row, col),
                            offset,
                        })
                    })
                })
            })
        })
    }

    fn layout_indices(layout: &Layout) -> impl Iterator<Item = isize> + use<> {
        let Layout { shape, strides, offset } = *layout;
        (0..shape.rows as isize).flat_map(move |i| {
            (0..shape.cols as isize)
                .map(move |j| offset as isize + i * strides.row + j * strides.col)
        })
    }
}
