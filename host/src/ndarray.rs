//! Conversions from and to `ndarray`, for arrays and views with any strides (feature `ndarray`).

use crate::element::Element;
use crate::error::Error;
use crate::matrix::{Matrix, MatrixMut, MatrixRef};
use ::ndarray::{Array2, ArrayBase, Data, DataMut, Ix2, RawData};
use gemm_spec::{Layout, Shape, Strides};

/// The view's layout from the lowest address of its elements.
fn layout_of<S: RawData>(array: &ArrayBase<S, Ix2>) -> Layout {
    let (rows, cols) = array.dim();
    let shape = Shape::new(rows, cols);
    let &[row, col] = array.strides() else { return Layout::row_major(shape) };
    if shape.is_empty() {
        return Layout::row_major(shape);
    }
    // With a stride of 0 an extent may be anything up to isize::MAX, and the product is 0.
    let below = |count: usize, stride: isize| ((count - 1) as isize * stride).min(0);
    let offset = (below(rows, row) + below(cols, col)).unsigned_abs();
    Layout { shape, strides: Strides::new(row, col), offset }
}

impl<'a, T: Element, S: Data<Elem = T>> From<&'a ArrayBase<S, Ix2>> for MatrixRef<'a, T> {
    /// A view of the same elements; nothing is copied.
    fn from(array: &'a ArrayBase<S, Ix2>) -> Self {
        let layout = layout_of(array);
        // SAFETY: ndarray keeps a view's elements in one allocation, `as_ptr` is element (0, 0),
        // and the array borrows every element for 'a.
        unsafe { MatrixRef::from_raw(array.as_ptr().sub(layout.offset), layout) }
    }
}

impl<'a, T: Element, S: DataMut<Elem = T>> From<&'a mut ArrayBase<S, Ix2>> for MatrixMut<'a, T> {
    /// A view of the same elements; nothing is copied.
    fn from(array: &'a mut ArrayBase<S, Ix2>) -> Self {
        // First of all: an array that shares its elements gets its own here, with other strides.
        let pointer = array.as_mut_ptr();
        let layout = layout_of(array);
        // SAFETY: as above; a mutable array's elements lie apart, and are ours for 'a.
        unsafe { MatrixMut::from_raw(pointer.sub(layout.offset), layout) }
    }
}

impl<T: Element> From<Matrix<T>> for Array2<T> {
    /// The same elements, row-major; nothing is copied.
    ///
    /// # Panics
    /// For an empty matrix with an extent that ndarray cannot hold (more than `isize::MAX`).
    fn from(matrix: Matrix<T>) -> Self {
        let Shape { rows, cols } = matrix.shape();
        Array2::from_shape_vec((rows, cols), matrix.into_vec())
            .expect("a matrix has rows * cols elements")
    }
}

impl<T: Element> Matrix<T> {
    /// A row-major copy of an array with any strides.
    ///
    /// # Errors
    /// When there is not memory enough.
    pub fn from_array<S: Data<Elem = T>>(array: &ArrayBase<S, Ix2>) -> Result<Self, Error> {
        MatrixRef::from(array).to_matrix()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Device, Gemm, matmul};
    use ::ndarray::{ArcArray2, Axis, CowArray, array, s};

    #[test]
    fn strided_views_are_read_in_place() {
        let big = Array2::from_shape_fn((9, 11), |(i, j)| (i * 11 + j) as f64);
        let (a, b) = (big.slice(s![..;-2, 1..7;3]), big.slice(s![3..5, ..;4]));
        let c: Array2<f64> = matmul(&Device::cpu(), &a, &b).unwrap().into();
        assert_eq!(c, a.dot(&b));
        let transposed = matmul(&Device::cpu(), &b.t(), &a.t()).unwrap();
        assert_eq!(Array2::from(transposed), c.t());
        let row = array![[1.0, 2.0]];
        let repeated = row.broadcast((4, 2)).unwrap();
        assert_eq!(Matrix::from_array(&repeated).unwrap()[(3, 1)], 2.0);
        let empty = big.slice(s![0..0, ..]);
        assert_eq!(MatrixRef::from(&empty).shape(), Shape::new(0, 11));
    }

    #[test]
    fn a_shared_array_is_written_after_it_has_got_its_own_elements() {
        let a = array![[1.0f32, 2.0], [3.0, 4.0]];
        let square = array![[7.0, 10.0], [15.0, 22.0]];
        let base = ArcArray2::<f32>::zeros((100, 100));
        let mut shared = base.clone().slice_move(s![..;50, ..;50]);
        Gemm::new().run_into(&Device::cpu(), &a, &a, &mut shared).unwrap();
        assert_eq!(shared, square);
        assert_eq!(base.sum(), 0.0);
        let mut borrowed = CowArray::from(base.slice(s![..;-50, ..;-50]));
        Gemm::new().run_into(&Device::cpu(), &a, &a, &mut borrowed).unwrap();
        assert_eq!(borrowed, square);
        assert_eq!(base.sum(), 0.0);
    }

    #[test]
    fn halves_of_an_array_are_written_apart() {
        let a = array![[1.0f32, 2.0], [3.0, 4.0]];
        let mut c = Array2::zeros((2, 4));
        // Each half's rows lie between the other's: neither may touch what is between.
        let (mut left, mut right) = c.view_mut().split_at(Axis(1), 2);
        std::thread::scope(|scope| {
            for half in [&mut left, &mut right] {
                scope.spawn(|| Gemm::new().run_into(&Device::cpu(), &a, &a, half).unwrap());
            }
        });
        let square = [[7.0, 10.0, 7.0, 10.0], [15.0, 22.0, 15.0, 22.0]];
        assert_eq!(c, Array2::from(square.to_vec()));
    }
}
