//! Batches: many products of one shape in one call.
//!
//! A GPU computes them in one launch: a small product alone leaves most of it idle, and a launch
//! for each costs more than the product.

use crate::backend::Operands;
use crate::device::{Device, DeviceInfo, DeviceMatrix, Stream, with_elements};
use crate::element::{Element, OutputOf};
use crate::error::{Error, Kind};
use crate::gemm::Gemm;
use crate::matrix::{Matrix, MatrixRef, reserve};
use crate::plan::{Batch, Plan, Product, check_batch, output_shape, span, transfer};
use gemm_spec::{Layout, Shape};

/// Matrices of one shape in a device's memory, at equal distances from each other.
///
/// As an operand, one matrix stands for as many as C has.
///
/// ```
/// use gemmite::{Device, Gemm, Matrix, Shape};
/// let matrix = |i: usize| Matrix::from_fn(Shape::new(2, 2), |r, c| (i + r * c) as f32);
/// let (a, b) = ([matrix(0)?, matrix(1)?, matrix(2)?], [matrix(3)?]);
/// let device = Device::best();
/// let a = device.upload_batch(&[a[0].view(), a[1].view(), a[2].view()])?;
/// let b = device.upload_batch(&[b[0].view()])?;
/// let mut c = device.zeros_batch(3, Shape::new(2, 2))?;
/// Gemm::new().run_device_batch(&a, &b, &mut c)?;
/// assert_eq!(c.download()?[1].as_slice(), [6.0, 7.0, 9.0, 11.0]);
/// # Ok::<(), gemmite::Error>(())
/// ```
#[derive(Debug)]
pub struct DeviceBatch<T> {
    matrix: DeviceMatrix<T>,
    count: usize,
    step: isize,
}

impl<T: Element> DeviceBatch<T> {
    /// The first, with the buffer of all.
    pub(crate) fn matrix(&self) -> &DeviceMatrix<T> {
        &self.matrix
    }

    /// How many matrices there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Rows and columns of each.
    pub fn shape(&self) -> Shape {
        self.matrix.shape()
    }

    /// The layout of the first within the device's buffer.
    pub fn layout(&self) -> Layout {
        self.matrix.layout()
    }

    /// Elements from one matrix to the next.
    pub fn step(&self) -> isize {
        self.step
    }

    /// The device that holds them.
    pub fn device(&self) -> Device {
        self.matrix.device()
    }

    /// Copies the matrices to the host, after the work that was enqueued on them.
    ///
    /// # Errors
    /// When the host's memory does not suffice, or the driver fails; a fault of enqueued work can
    /// show here.
    pub fn download(&self) -> Result<Vec<Matrix<T>>, Error> {
        let layout = self.layout();
        let of = |index: usize| {
            let (first, end) = span(&Batch::layout(layout, self.step, index));
            let mut data: Vec<T> = reserve(Shape::new(1, end - first))?;
            data.resize(end - first, T::default());
            let bytes = bytemuck::cast_slice_mut(&mut data);
            self.matrix.memory().read(first * size_of::<T>(), bytes)?;
            let (start, _) = span(&layout);
            let offset = layout.offset - start;
            MatrixRef::new(&data, Layout { offset, ..layout })?.to_matrix()
        };
        let mut matrices = Vec::new();
        matrices.try_reserve_exact(self.count).map_err(|_| {
            let wanted = self.count.saturating_mul(size_of::<Matrix<T>>());
            Error::new(Kind::OutOfMemory { place: "the host".into(), wanted, free: None })
        })?;
        for index in 0..self.count {
            matrices.push(of(index)?);
        }
        Ok(matrices)
    }
}

impl<T: Element> DeviceBatch<T> {
    /// The matrix that lies in the buffer by `layout`: the way back from
    /// [`DeviceMatrix::into_batch`].
    ///
    /// # Errors
    /// When an element would lie outside of the buffer.
    pub fn into_matrix(mut self, layout: Layout) -> Result<DeviceMatrix<T>, Error> {
        check_batch(layout, (1, 0), self.matrix.memory().bytes() / size_of::<T>())?;
        self.matrix.set_layout(layout);
        Ok(self.matrix)
    }
}

impl<T: Element> DeviceMatrix<T> {
    /// The matrices that lie in this one's buffer by `layout` and at every `step` elements from
    /// there: blocks of a larger matrix, or every other row. They may overlap as operands.
    ///
    /// # Errors
    /// When an element would lie outside of the buffer.
    pub fn into_batch(
        mut self,
        layout: Layout,
        count: usize,
        step: isize,
    ) -> Result<DeviceBatch<T>, Error> {
        let len = self.memory().bytes() / size_of::<T>();
        check_batch(layout, (count, step), len)?;
        self.set_layout(layout);
        Ok(DeviceBatch { matrix: self, count, step })
    }
}

impl Device {
    /// Copies matrices of one shape to the device. Strides are kept where they are those of all and
    /// the elements of each lie side by side; else elements are gathered, row by row.
    ///
    /// # Errors
    /// When the shapes differ, the device's memory does not suffice
    /// ([`Error::is_out_of_memory`]), or the driver fails.
    pub fn upload_batch<T: Element>(
        &self,
        matrices: &[MatrixRef<'_, T>],
    ) -> Result<DeviceBatch<T>, Error> {
        let Some(first) = matrices.first() else {
            return self.zeros_batch(0, Shape::new(0, 0));
        };
        let shape = first.shape();
        if let Some(other) = matrices.iter().map(MatrixRef::shape).find(|other| *other != shape) {
            return Err(Error::new(Kind::BatchShapes { first: shape, other }));
        }
        let copy = |matrix: &MatrixRef<'_, T>| {
            transfer(&matrix.layout())
                .filter(|way| way.dense && Some(way.len) == shape.checked_len())
        };
        let way = copy(first).map(|way| way.copy);
        let is_kept = matrices.iter().all(|of| copy(of).map(|way| way.copy) == way);
        let mut batch = self.uninit_batch(matrices.len(), shape)?;
        let bytes = batch.step as usize * size_of::<T>();
        if let Some(layout) = way.filter(|_| is_kept) {
            batch.matrix.set_layout(layout);
        }
        for (index, matrix) in matrices.iter().enumerate() {
            let memory = &mut batch.matrix.memory;
            match is_kept && way.is_some() {
                true => with_elements(matrix, |data, _| {
                    memory.write(index * bytes, bytemuck::cast_slice(data))
                })?,
                false => {
                    let gathered = matrix.to_matrix()?;
                    memory.write(index * bytes, bytemuck::cast_slice(gathered.as_slice()))?;
                }
            }
        }
        Ok(batch)
    }

    /// Row-major matrices of zeros, one behind the other.
    ///
    /// # Errors
    /// When the device's memory does not suffice ([`Error::is_out_of_memory`]), or the driver
    /// fails.
    pub fn zeros_batch<T: Element>(
        &self,
        count: usize,
        shape: Shape,
    ) -> Result<DeviceBatch<T>, Error> {
        let mut batch = self.uninit_batch(count, shape)?;
        batch.matrix.memory.clear()?;
        Ok(batch)
    }

    /// Row-major matrices whose elements are unspecified, one behind the other.
    fn uninit_batch<T: Element>(
        &self,
        count: usize,
        shape: Shape,
    ) -> Result<DeviceBatch<T>, Error> {
        let too_large = || Error::new(Kind::TooLarge { shape, dtype: T::DTYPE });
        let len = shape.checked_len().ok_or_else(too_large)?;
        let all = len.checked_mul(count).ok_or_else(too_large)?;
        let mut matrix = self.uninit(Shape::new(1, all))?;
        matrix.set_layout(Layout::row_major(shape));
        Ok(DeviceBatch { matrix, count, step: len as isize })
    }
}

/// The products of so many matrices A and B.
fn products(a: usize, b: usize) -> Result<usize, Error> {
    match (a, b) {
        (1, count) | (count, 1) => Ok(count),
        (a, b) if a == b => Ok(a),
        _ => Err(Error::new(Kind::BatchCounts { a, b })),
    }
}

/// The distance from product to product of an operand.
fn step(count: usize, step: isize) -> isize {
    if count == 1 { 0 } else { step }
}

impl<T: Element, C: OutputOf<T>> Gemm<T, C> {
    /// The products of host matrices, number by number; one A or one B stands for as many as there
    /// are of the other.
    ///
    /// # Errors
    /// As [`Gemm::run`], and when matrices A are not as many as matrices B, or of several shapes.
    pub fn run_batch(
        &self,
        device: &Device,
        a: &[MatrixRef<'_, T>],
        b: &[MatrixRef<'_, T>],
    ) -> Result<Vec<Matrix<C>>, Error> {
        let options = self.options_without_beta()?;
        let count = products(a.len(), b.len())?;
        let (a, b) = (device.upload_batch(a)?, device.upload_batch(b)?);
        let shape = match count {
            0 => Shape::new(0, 0),
            _ => output_shape(options.op_a, options.op_b, a.layout(), b.layout())?,
        };
        let mut c = device.zeros_batch(count, shape)?;
        if count > 0 {
            self.run_device_batch(&a, &b, &mut c)?;
        }
        c.download()
    }

    /// C = alpha * op(A) * op(B) + beta * C for each product of a batch, on matrices of one device;
    /// C holds the results when the call returns.
    ///
    /// # Errors
    /// As [`Gemm::run_device`], and when A or B has neither one matrix nor as many as C, or
    /// matrices of C might share elements.
    pub fn run_device_batch(
        &self,
        a: &DeviceBatch<T>,
        b: &DeviceBatch<T>,
        c: &mut DeviceBatch<C>,
    ) -> Result<(), Error> {
        self.multiply_batch(None, (a, b), c)
    }

    /// Enqueues C = alpha * op(A) * op(B) + beta * C for each product of a batch on `stream` and
    /// returns; the order of calls is kept as by [`Gemm::enqueue`].
    ///
    /// # Errors
    /// As [`Gemm::run_device_batch`], and when the stream is another device's. A fault while it
    /// runs shows where it is waited for.
    pub fn enqueue_batch(
        &self,
        stream: &Stream,
        a: &DeviceBatch<T>,
        b: &DeviceBatch<T>,
        c: &mut DeviceBatch<C>,
    ) -> Result<(), Error> {
        self.multiply_batch(Some(stream), (a, b), c)
    }

    fn multiply_batch(
        &self,
        stream: Option<&Stream>,
        (a, b): (&DeviceBatch<T>, &DeviceBatch<T>),
        c: &mut DeviceBatch<C>,
    ) -> Result<(), Error> {
        let device = c.device();
        if stream.is_some_and(|stream| !c.matrix.is_on(&stream.backend)) {
            let expected = device.to_string();
            return Err(Error::new(Kind::ForeignStream { expected }));
        }
        let count = c.count;
        if [a.count, b.count].into_iter().any(|of| of != 1 && of != count) {
            return Err(Error::new(Kind::BatchOutput { a: a.count, b: b.count, c: count }));
        }
        let steps = [step(a.count, a.step), step(b.count, b.step)];
        let batch = Batch { count, a: steps[0], b: steps[1], c: c.step };
        let product = self.batch_product([a.layout(), b.layout(), c.layout()], batch)?;
        let operands = Operands {
            a: a.matrix.memory(),
            b: b.matrix.memory(),
            c: &mut *c.matrix.memory,
            sources: Default::default(),
            amax: None,
        };
        let queue = stream.map(|stream| &*stream.queue);
        device.backend.multiply(queue, &product, self.kernel_choice(), operands)
    }

    /// The checked product of a batch.
    pub(crate) fn batch_product(
        &self,
        layouts: [Layout; 3],
        batch: Batch,
    ) -> Result<Product, Error> {
        let fusion = crate::plan::Fusion::default();
        Product::new::<T, C>(self.options(), layouts, fusion)?.batched(batch)
    }

    /// What a batch of products of operands of these layouts would run on a device, without running
    /// anything; into matrices C of contiguous rows, whose distance is `batch.c`.
    ///
    /// # Errors
    /// As [`Gemm::plan`], and when matrices of C might share elements.
    pub fn plan_batch(
        &self,
        device: &DeviceInfo,
        a: Layout,
        b: Layout,
        batch: Batch,
    ) -> Result<Plan, Error> {
        self.plan_product(device, &self.batch_into_rows(a, b, batch)?)
    }

    /// All plans among which [`KernelChoice::Auto`](crate::KernelChoice::Auto) chooses for a batch,
    /// the one that it takes first.
    ///
    /// # Errors
    /// As [`Gemm::plans`], and when matrices of C might share elements.
    pub fn plans_batch(
        &self,
        device: &DeviceInfo,
        a: Layout,
        b: Layout,
        batch: Batch,
    ) -> Result<Vec<Plan>, Error> {
        Ok(self.plans_product(device, &self.batch_into_rows(a, b, batch)?))
    }

    fn batch_into_rows(&self, a: Layout, b: Layout, batch: Batch) -> Result<Product, Error> {
        self.batch_product(self.layouts(a, b)?, batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemm_spec::Strides;

    fn matrix(shape: Shape, seed: usize) -> Matrix<f32> {
        Matrix::from_fn(shape, |i, j| ((i * 5 + j * 3 + seed * 7) % 11) as f32 - 5.0).unwrap()
    }

    #[test]
    fn batches_are_their_products() {
        let (a, b) = (Shape::new(3, 4), Shape::new(4, 5));
        let many = |shape, seed: usize| [0, 1, 2].map(|i| matrix(shape, seed + i));
        let (a, b) = (many(a, 1), many(b, 9));
        let (a, b) = (a.each_ref().map(Matrix::view), b.each_ref().map(Matrix::view));
        for device in [Device::cpu(), Device::emulator((9, 0)).unwrap()] {
            for (a, b) in [(&a[..], &b[..]), (&a[..], &b[..1]), (&a[..1], &b[..]), (&[], &[])] {
                let c = Gemm::new().run_batch(&device, a, b).unwrap();
                assert_eq!(c.len(), if a.is_empty() { 0 } else { 3 });
                for (i, c) in c.iter().enumerate() {
                    let (a, b) = (a[i % a.len()], b[i % b.len()]);
                    assert_eq!(*c, Gemm::new().run(&Device::cpu(), a, b).unwrap(), "{device} {i}");
                }
            }
        }
    }

    /// The distance of matrices without elements is 0, and none of them overlap.
    #[test]
    fn batches_of_nothing_are_products_too() {
        for (m, n, k) in [(0, 5, 4), (3, 0, 4), (3, 5, 0)] {
            let (a, b) = (matrix(Shape::new(m, k), 1), matrix(Shape::new(k, n), 2));
            for device in [Device::cpu(), Device::emulator((9, 0)).unwrap()] {
                let c = Gemm::new().run_batch(&device, &[a.view(); 2], &[b.view()]).unwrap();
                assert_eq!(c, [(); 2].map(|()| Matrix::zeros(Shape::new(m, n)).unwrap()));
            }
        }
    }

    #[test]
    fn batches_keep_their_strides_or_are_gathered() {
        let [a, b] = [1, 2].map(|seed| matrix(Shape::new(3, 4), seed));
        let device = Device::cpu();
        let kept = device.upload_batch(&[a.t(), b.t()]).unwrap();
        assert_eq!((kept.layout().strides, kept.step()), (Strides::new(1, 4), 12));
        let square = matrix(Shape::new(3, 3), 3);
        let mixed = device.upload_batch(&[square.t(), square.view()]).unwrap();
        assert_eq!(mixed.layout().strides, Strides::new(3, 1));
        let [first, second] = &mixed.download().unwrap()[..] else { panic!() };
        assert_eq!((first[(0, 2)], second[(0, 2)]), (square[(2, 0)], square[(0, 2)]));
    }

    #[test]
    fn parts_of_a_matrix_are_a_batch() {
        // Two heads, side by side in the rows of one matrix.
        let both = matrix(Shape::new(4, 6), 1);
        let head = |cols| both.view().block(0..4, cols).unwrap();
        let device = Device::cpu();
        let layout = Layout { shape: Shape::new(4, 3), strides: Strides::new(6, 1), offset: 0 };
        let batch = || device.upload(&both).unwrap().into_batch(layout, 2, 3);
        let (heads, mut c) = (batch().unwrap(), batch().unwrap());
        let turned = Gemm::new().op_b(gemm_spec::Op::Transpose);
        let mut square = device.zeros_batch(2, Shape::new(4, 4)).unwrap();
        turned.run_device_batch(&heads, &heads, &mut square).unwrap();
        let head = head(3..6);
        assert_eq!(square.download().unwrap()[1], turned.run(&device, head, head).unwrap());
        Gemm::new().run_device_batch(&square, &heads, &mut c).unwrap();
        assert_eq!(c.download().unwrap().len(), 2);
        let beyond = device.upload(&both).unwrap().into_batch(layout, 3, 3);
        assert!(beyond.unwrap_err().is_layout());
        let mut shared = device.upload(&both).unwrap().into_batch(layout, 2, 2).unwrap();
        let error = Gemm::new().run_device_batch(&square, &heads, &mut shared).unwrap_err();
        assert!(error.is_layout(), "{error}");
    }

    #[test]
    fn batches_that_do_not_fit_are_refused() {
        let of = |rows, cols| matrix(Shape::new(rows, cols), 0);
        let (a, b) = (of(3, 4), of(4, 5));
        let device = Device::cpu();
        let run = |a: &[MatrixRef<'_, f32>], b: &[MatrixRef<'_, f32>]| {
            Gemm::new().run_batch(&device, a, b).unwrap_err().to_string()
        };
        assert!(run(&[a.view(); 3], &[b.view(); 2]).contains("3 matrices A and 2 matrices B"));
        assert!(run(&[a.view(), b.view()], &[b.view()]).contains("3x4 and 4x5"));
        assert!(run(&[b.view()], &[b.view()]).contains("4x5"));
        let (a, b) =
            (device.upload_batch(&[a.view(); 2]).unwrap(), device.upload_batch(&[b.view()]));
        let mut c = device.zeros_batch(3, Shape::new(3, 5)).unwrap();
        let error = Gemm::new().run_device_batch(&a, &b.unwrap(), &mut c).unwrap_err();
        assert!(error.is_shape() && error.to_string().contains("3 matrices C takes"), "{error}");
        assert!(device.zeros_batch::<f32>(usize::MAX, Shape::new(2, 2)).is_err());
    }
}
