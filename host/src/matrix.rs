//! Matrices and views in host memory.

use crate::element::Element;
use crate::error::{Error, Kind, Operand};
use gemm_spec::{Layout, Op, Shape};
use std::marker::PhantomData;
use std::ops::{Index, Range};

/// A matrix that owns its elements, row-major: element (i, j) is the `i * cols + j`th.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix<T> {
    data: Vec<T>,
    shape: Shape,
}

impl<T: Element> Matrix<T> {
    /// A matrix of `shape` from its elements, row by row.
    ///
    /// # Errors
    /// When `data` has not exactly rows * columns elements.
    pub fn from_vec(shape: Shape, data: Vec<T>) -> Result<Self, Error> {
        if shape.checked_len() != Some(data.len()) {
            return Err(Error::new(Kind::DataLength { shape, found: data.len() }));
        }
        Ok(Matrix { data, shape })
    }

    /// A matrix of zeros.
    ///
    /// # Errors
    /// When there is not memory enough, or the shape has more bytes than addresses.
    pub fn zeros(shape: Shape) -> Result<Self, Error> {
        let mut data = reserve(shape)?;
        data.resize(shape.rows * shape.cols, T::default());
        Ok(Matrix { data, shape })
    }

    /// The matrix whose element (i, j) is `element(i, j)`, called row by row.
    ///
    /// # Errors
    /// When there is not memory enough.
    pub fn from_fn(
        shape: Shape,
        mut element: impl FnMut(usize, usize) -> T,
    ) -> Result<Self, Error> {
        let mut data = reserve(shape)?;
        // A shape without columns may have usize::MAX rows to go through.
        let rows = if shape.is_empty() { 0 } else { shape.rows };
        for i in 0..rows {
            data.extend((0..shape.cols).map(|j| element(i, j)));
        }
        Ok(Matrix { data, shape })
    }

    /// Rows and columns.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The elements, row by row.
    pub fn as_slice(&self) -> &[T] {
        &self.data
    }

    /// The elements, row by row.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        &mut self.data
    }

    /// The elements, row by row.
    pub fn into_vec(self) -> Vec<T> {
        self.data
    }

    /// Element (`row`, `col`), or `None` outside the shape.
    pub fn get(&self, row: usize, col: usize) -> Option<T> {
        self.view().get(row, col)
    }

    /// A view of the whole matrix.
    pub fn view(&self) -> MatrixRef<'_, T> {
        // SAFETY: the vector holds the shape's elements, and is borrowed with `self`.
        unsafe { MatrixRef::from_raw(self.data.as_ptr(), Layout::row_major(self.shape)) }
    }

    /// A view of the whole matrix, to be written through.
    pub fn view_mut(&mut self) -> MatrixMut<'_, T> {
        // SAFETY: the vector holds the shape's elements, apart, and is borrowed with `self`.
        unsafe { MatrixMut::from_raw(self.data.as_mut_ptr(), Layout::row_major(self.shape)) }
    }

    /// The transposed view; no data moves.
    pub fn t(&self) -> MatrixRef<'_, T> {
        self.view().t()
    }
}

impl<T: Element> Index<(usize, usize)> for Matrix<T> {
    type Output = T;

    /// Element (row, col).
    ///
    /// # Panics
    /// Outside the shape, as a slice does.
    fn index(&self, (row, col): (usize, usize)) -> &T {
        let Shape { rows, cols } = self.shape;
        assert!(row < rows && col < cols, "element ({row}, {col}) of a {} matrix", self.shape);
        &self.data[row * self.shape.cols + col]
    }
}

/// An empty vector with room for the elements of `shape`.
pub(crate) fn reserve<T: Element>(shape: Shape) -> Result<Vec<T>, Error> {
    let too_large = || Error::new(Kind::TooLarge { shape, dtype: T::DTYPE });
    let len = shape.checked_len().ok_or_else(too_large)?;
    let wanted = len.checked_mul(size_of::<T>()).ok_or_else(too_large)?;
    let mut data = Vec::new();
    data.try_reserve_exact(len).map_err(|_| {
        Error::new(Kind::OutOfMemory { place: "the host".into(), wanted, free: None })
    })?;
    Ok(data)
}

/// A matrix in someone else's memory, with strides of any size and sign; zero repeats a row or a
/// column.
///
/// It borrows its elements and nothing between them.
#[derive(Clone, Copy, Debug)]
pub struct MatrixRef<'a, T> {
    /// Where the layout's index 0 lies. Every element of the layout is at `data + index`, valid to
    /// read for 'a.
    data: *const T,
    layout: Layout,
    borrow: PhantomData<&'a T>,
}

// SAFETY: a shared borrow of elements, as `&T` is.
unsafe impl<T: Sync> Send for MatrixRef<'_, T> {}
// SAFETY: a shared borrow of elements, as `&T` is.
unsafe impl<T: Sync> Sync for MatrixRef<'_, T> {}

impl<'a, T: Element> MatrixRef<'a, T> {
    /// The view of `data` by `layout`, whose strides and offset count elements.
    ///
    /// # Errors
    /// When an element would lie outside `data`.
    pub fn new(data: &'a [T], layout: Layout) -> Result<Self, Error> {
        check(layout, data.len())?;
        // SAFETY: every element lies in the slice, which is borrowed for 'a.
        Ok(unsafe { MatrixRef::from_raw(data.as_ptr(), layout) })
    }

    /// The view of the elements at `data` plus the layout's indices.
    ///
    /// # Safety
    /// Every element of the layout lies in one allocation with `data`, is initialised, and is
    /// written by nobody for 'a.
    pub(crate) unsafe fn from_raw(data: *const T, layout: Layout) -> Self {
        MatrixRef { data, layout, borrow: PhantomData }
    }

    /// Rows and columns.
    pub fn shape(&self) -> Shape {
        self.layout.shape
    }

    /// Shape, strides and offset, in elements from the start of the buffer that the view was made
    /// of.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The start of the buffer that the view was made of; the elements lie at the layout's indices
    /// from it.
    pub fn as_ptr(&self) -> *const T {
        self.data
    }

    /// The transposed view; no data moves.
    pub fn t(&self) -> Self {
        MatrixRef { layout: self.layout.apply(Op::Transpose), ..*self }
    }

    /// The view of some rows and columns; no data moves.
    ///
    /// # Errors
    /// When they reach outside the shape.
    pub fn block(&self, rows: Range<usize>, cols: Range<usize>) -> Result<Self, Error> {
        let shape = self.layout.shape;
        if rows.start > rows.end
            || cols.start > cols.end
            || rows.end > shape.rows
            || cols.end > shape.cols
        {
            return Err(Error::new(Kind::Block { shape, rows, cols }));
        }
        let block = Shape::new(rows.len(), cols.len());
        let offset = match block.is_empty() {
            true => self.layout.offset,
            false => self.layout.index(rows.start, cols.start),
        };
        Ok(MatrixRef { layout: Layout { shape: block, offset, ..self.layout }, ..*self })
    }

    /// Element (`row`, `col`), or `None` outside the shape.
    #[inline]
    pub fn get(&self, row: usize, col: usize) -> Option<T> {
        self.element(row, col).copied()
    }

    /// A row-major copy.
    ///
    /// # Errors
    /// When there is not memory enough: a view that repeats rows may be larger than its data.
    pub fn to_matrix(&self) -> Result<Matrix<T>, Error> {
        Matrix::from_fn(self.shape(), |i, j| self[(i, j)])
    }

    #[inline]
    fn element(&self, row: usize, col: usize) -> Option<&'a T> {
        let Shape { rows, cols } = self.layout.shape;
        // SAFETY: elements of the layout are valid to read for 'a.
        (row < rows && col < cols).then(|| unsafe { &*self.data.add(self.layout.index(row, col)) })
    }
}

impl<T: Element> Index<(usize, usize)> for MatrixRef<'_, T> {
    type Output = T;

    /// Element (row, col).
    ///
    /// # Panics
    /// Outside the shape, as a slice does.
    #[inline]
    fn index(&self, (row, col): (usize, usize)) -> &T {
        let outside = || panic!("element ({row}, {col}) of a {} matrix", self.layout.shape);
        self.element(row, col).unwrap_or_else(outside)
    }
}

impl<'a, T: Element> From<&'a Matrix<T>> for MatrixRef<'a, T> {
    fn from(matrix: &'a Matrix<T>) -> Self {
        matrix.view()
    }
}

/// A matrix in someone else's memory, to be written through; no two of its elements share an
/// address.
///
/// It borrows its elements and nothing between them.
#[derive(Debug)]
pub struct MatrixMut<'a, T> {
    /// Where the layout's index 0 lies. Every element of the layout is at `data + index`, ours
    /// alone for 'a.
    data: *mut T,
    layout: Layout,
    borrow: PhantomData<&'a mut T>,
}

// SAFETY: an exclusive borrow of elements, as `&mut T` is.
unsafe impl<T: Send> Send for MatrixMut<'_, T> {}
// SAFETY: an exclusive borrow of elements, as `&mut T` is.
unsafe impl<T: Sync> Sync for MatrixMut<'_, T> {}

impl<'a, T: Element> MatrixMut<'a, T> {
    /// The view of `data` by `layout`, whose strides and offset count elements.
    ///
    /// # Errors
    /// When an element would lie outside `data`, or two elements would share an address.
    pub fn new(data: &'a mut [T], layout: Layout) -> Result<Self, Error> {
        check(layout, data.len())?;
        if layout.overlaps_itself() {
            return Err(Error::new(Kind::Overlap { operand: Operand::C, layout }));
        }
        // SAFETY: every element lies in the slice, which is ours for 'a, and they lie apart.
        Ok(unsafe { MatrixMut::from_raw(data.as_mut_ptr(), layout) })
    }

    /// The view of the elements at `data` plus the layout's indices.
    ///
    /// # Safety
    /// Every element of the layout lies in one allocation with `data` and is initialised, no two
    /// are the same, and nobody else touches them for 'a.
    pub(crate) unsafe fn from_raw(data: *mut T, layout: Layout) -> Self {
        MatrixMut { data, layout, borrow: PhantomData }
    }

    /// Rows and columns.
    pub fn shape(&self) -> Shape {
        self.layout.shape
    }

    /// Shape, strides and offset, in elements from the start of the buffer that the view was made
    /// of.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The start of the buffer that the view was made of; the elements lie at the layout's indices
    /// from it.
    pub fn as_mut_ptr(&mut self) -> *mut T {
        self.data
    }

    /// The same matrix, to be read.
    pub fn view(&self) -> MatrixRef<'_, T> {
        // SAFETY: the elements are ours, and borrowed from here on.
        unsafe { MatrixRef::from_raw(self.data, self.layout) }
    }

    /// The same matrix, for a shorter time.
    pub fn reborrow(&mut self) -> MatrixMut<'_, T> {
        MatrixMut { data: self.data, layout: self.layout, borrow: PhantomData }
    }

    /// The transposed view; no data moves.
    pub fn t(self) -> Self {
        MatrixMut { layout: self.layout.apply(Op::Transpose), ..self }
    }

    /// Writes a matrix of the same shape over this one's elements.
    pub(crate) fn assign(&mut self, from: &Matrix<T>) {
        let Shape { rows, cols } = self.layout.shape;
        // Of rows without elements there may be more than anyone waits for.
        for i in 0..if cols == 0 { 0 } else { rows } {
            for j in 0..cols {
                self.set(i, j, from[(i, j)]);
            }
        }
    }

    /// Writes element (`row`, `col`); false, and nothing written, outside the shape.
    pub fn set(&mut self, row: usize, col: usize, value: T) -> bool {
        let Shape { rows, cols } = self.layout.shape;
        let inside = row < rows && col < cols;
        if inside {
            // SAFETY: elements of the layout are ours to write.
            unsafe { *self.data.add(self.layout.index(row, col)) = value };
        }
        inside
    }
}

impl<'a, T: Element> From<&'a mut Matrix<T>> for MatrixMut<'a, T> {
    fn from(matrix: &'a mut Matrix<T>) -> Self {
        matrix.view_mut()
    }
}

fn check(layout: Layout, len: usize) -> Result<(), Error> {
    layout.check(len).map_err(|source| Error::new(Kind::Layout { operand: None, layout, source }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemm_spec::Strides;

    #[test]
    fn lengths_are_checked() {
        let error = Matrix::from_vec(Shape::new(2, 3), vec![0f32; 5]).unwrap_err();
        assert!(error.is_shape() && error.to_string().contains("has 6 elements"), "{error}");
        assert!(Matrix::from_vec(Shape::new(usize::MAX, 2), vec![0f32; 2]).is_err());
        assert!(Matrix::<f64>::zeros(Shape::new(usize::MAX, 1)).unwrap_err().is_shape());
        assert!(Matrix::<f64>::zeros(Shape::new(1 << 40, 1 << 15)).unwrap_err().is_out_of_memory());
    }

    #[test]
    fn views_look_where_the_layout_says() {
        let matrix = Matrix::from_fn(Shape::new(2, 3), |i, j| (10 * i + j) as i32).unwrap();
        assert_eq!(matrix.t()[(2, 1)], 12);
        assert_eq!(matrix.t().to_matrix().unwrap().as_slice(), [0, 10, 1, 11, 2, 12]);
        assert_eq!(matrix.get(2, 0), None);
        assert_eq!(matrix[(1, 2)], 12);

        let block = matrix.view().block(1..2, 1..3).unwrap();
        assert_eq!(block.to_matrix().unwrap().as_slice(), [11, 12]);
        assert!(matrix.view().block(0..3, 0..1).unwrap_err().is_shape());

        // Rows backwards.
        let layout = Layout { shape: Shape::new(2, 3), strides: Strides::new(-3, 1), offset: 3 };
        let flipped = MatrixRef::new(matrix.as_slice(), layout).unwrap();
        assert_eq!(flipped[(0, 0)], 10);
        assert_eq!(flipped[(1, 2)], 2);
    }

    #[test]
    fn layouts_are_checked() {
        let mut data = [0f32; 6];
        let outside = Layout::row_major(Shape::new(2, 4));
        assert!(MatrixRef::new(&data, outside).unwrap_err().is_layout());
        let repeated = Layout::strided(Shape::new(4, 2), Strides::new(0, 1));
        assert!(MatrixRef::new(&data, repeated).is_ok());
        let error = MatrixMut::new(&mut data, repeated).unwrap_err();
        assert!(error.is_layout() && error.to_string().contains("share one address"), "{error}");
    }
}
