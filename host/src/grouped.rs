//! Lists of products that have shapes of their own, in one call: a mixture of experts, for one.
//!
//! A GPU computes them in one launch where it has a kernel for that: blocks go on from product to
//! product, so that none waits for the end of another.

use crate::backend::Operands;
use crate::batch::DeviceBatch;
use crate::device::{Device, DeviceInfo, DeviceKind, DeviceMatrix, Stream};
use crate::element::{Element, OutputOf};
use crate::error::{Error, Kind};
use crate::gemm::Gemm;
use crate::matrix::{Matrix, MatrixMut, MatrixRef};
use crate::plan::{Fusion, GroupedPlan, KernelChoice, Product, RowsProduct, group};
use gemm_spec::{Layout, Shape};

/// A, B and C of a product, in a device's memory.
pub type DeviceProduct<'a, T, C> =
    (&'a DeviceMatrix<T>, &'a DeviceMatrix<T>, &'a mut DeviceMatrix<C>);

impl<T: Element, C: OutputOf<T>> Gemm<T, C> {
    /// The products of host matrices, each an A and a B, into new matrices.
    ///
    /// ```
    /// use gemmite::{Device, Gemm, Matrix, Shape};
    /// let of = |rows, cols| Matrix::from_fn(Shape::new(rows, cols), |i, j| (i + j) as f32);
    /// let (a, b) = ([of(3, 2)?, of(1, 4)?], [of(2, 5)?, of(4, 1)?]);
    /// let products = [(a[0].view(), b[0].view()), (a[1].view(), b[1].view())];
    /// let c = Gemm::new().run_grouped(&Device::best(), &products)?;
    /// assert_eq!((c[0].shape(), c[1].as_slice()), (Shape::new(3, 5), &[14.0][..]));
    /// # Ok::<(), gemmite::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Gemm::run`]; the message says of which product it is.
    pub fn run_grouped(
        &self,
        device: &Device,
        products: &[(MatrixRef<'_, T>, MatrixRef<'_, T>)],
    ) -> Result<Vec<Matrix<C>>, Error> {
        self.options_without_beta()?;
        let of = |(number, (a, b)): (usize, &(MatrixRef<'_, T>, MatrixRef<'_, T>))| {
            let shape = self.product(a.layout(), b.layout()).map(|product| product.c.shape);
            shape.and_then(Matrix::zeros).map_err(|error| error.of_product(number))
        };
        let mut c = products.iter().enumerate().map(of).collect::<Result<Vec<_>, _>>()?;
        let with_c = products.iter().zip(&mut c).map(|(&(a, b), c)| (a, b, c.view_mut()));
        self.run_grouped_into(device, with_c.collect())?;
        Ok(c)
    }

    /// C = alpha * op(A) * op(B) + beta * C for each product of a list of host matrices, each an A,
    /// a B and a C; they hold the results when the call returns.
    ///
    /// # Errors
    /// As [`Gemm::run_into`]; the message says of which product it is.
    pub fn run_grouped_into(
        &self,
        device: &Device,
        mut products: Vec<(MatrixRef<'_, T>, MatrixRef<'_, T>, MatrixMut<'_, C>)>,
    ) -> Result<(), Error> {
        let layouts = products.iter().map(|(a, b, c)| [a.layout(), b.layout(), c.layout()]);
        // Before any copy.
        let checked = self.list(layouts)?;
        let bases = vec![[0, 0]; checked.len()];
        if group(self.kernel_choice(), &travelled(&checked), &bases, device.info())?.is_some() {
            match self.run_grouped_staged(device, &mut products) {
                // One after the other they may fit, or go in panels; a kernel that was named takes
                // lists alone.
                Err(error)
                    if error.is_out_of_memory() && *self.kernel_choice() == KernelChoice::Auto => {}
                done => return done,
            }
        }
        for (number, (a, b, c)) in products.iter_mut().enumerate() {
            let done = self.run_into(device, *a, *b, c.reborrow());
            done.map_err(|error| error.of_product(number))?;
        }
        Ok(())
    }

    /// The same by way of the device's memory for all of it.
    fn run_grouped_staged(
        &self,
        device: &Device,
        products: &mut [(MatrixRef<'_, T>, MatrixRef<'_, T>, MatrixMut<'_, C>)],
    ) -> Result<(), Error> {
        let mut staged = Vec::with_capacity(products.len());
        for (a, b, c) in products.iter() {
            let on_c = match self.options().beta {
                Some(_) => device.upload(c.view())?,
                None => device.uninit(c.shape())?,
            };
            staged.push((device.upload(*a)?, device.upload(*b)?, on_c));
        }
        let list = staged.iter_mut().map(|(a, b, c)| (&*a, &*b, c));
        self.run_device_grouped(device, list.collect())?;
        // All of them before any C is written: the caller may have to begin again.
        let results = staged.iter().map(|(_, _, c)| c.download()).collect::<Result<Vec<_>, _>>()?;
        products.iter_mut().zip(&results).for_each(|((_, _, c), result)| c.assign(result));
        Ok(())
    }

    /// C = alpha * op(A) * op(B) + beta * C for each product of a list, on matrices of `device`;
    /// they hold the results when the call returns.
    ///
    /// # Errors
    /// As [`Gemm::run_device`]; the message says of which product it is.
    pub fn run_device_grouped(
        &self,
        device: &Device,
        products: Vec<DeviceProduct<'_, T, C>>,
    ) -> Result<(), Error> {
        self.multiply_grouped(device, None, products)
    }

    /// Enqueues C = alpha * op(A) * op(B) + beta * C for each product of a list on `stream` and
    /// returns; the order of calls is kept as by [`Gemm::enqueue`]. It can be recorded.
    ///
    /// ```
    /// use gemmite::{Device, Gemm, Matrix, Shape};
    /// let device = Device::cpu();
    /// let on = |rows, cols| device.upload(&Matrix::<f32>::zeros(Shape::new(rows, cols))?);
    /// let (a, b, mut c) = (on(3, 2)?, on(2, 5)?, on(3, 5)?);
    /// let (d, e, mut f) = (on(7, 4)?, on(4, 5)?, on(7, 5)?);
    /// let stream = device.stream()?;
    /// Gemm::new().enqueue_grouped(&stream, vec![(&a, &b, &mut c), (&d, &e, &mut f)])?;
    /// stream.synchronize()?;
    /// # Ok::<(), gemmite::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Gemm::enqueue`]; the message says of which product it is.
    pub fn enqueue_grouped(
        &self,
        stream: &Stream,
        products: Vec<DeviceProduct<'_, T, C>>,
    ) -> Result<(), Error> {
        // A stream of another device is said to be that.
        let device = products.first().map_or_else(|| stream.device(), |(_, _, c)| c.device());
        self.multiply_grouped(&device, Some(stream), products)
    }

    fn multiply_grouped(
        &self,
        device: &Device,
        stream: Option<&Stream>,
        products: Vec<DeviceProduct<'_, T, C>>,
    ) -> Result<(), Error> {
        let layouts = products.iter().map(|(a, b, c)| [a.layout(), b.layout(), c.layout()]);
        let checked = self.list(layouts)?;
        let operands = products.into_iter().map(|(a, b, c)| operands(a, b, c)).collect();
        let queue = stream.map(|stream| &*stream.queue);
        device.backend.multiply_grouped(queue, &checked, self.kernel_choice(), operands)
    }

    /// The checked products of a list.
    fn list(&self, layouts: impl Iterator<Item = [Layout; 3]>) -> Result<Vec<Product>, Error> {
        let of = |(number, layouts)| {
            let product = Product::new::<T, C>(self.options(), layouts, Fusion::default());
            product.map_err(|error| error.of_product(number))
        };
        layouts.enumerate().map(of).collect()
    }

    /// What a list of products of operands of these layouts would run on a device, without running
    /// anything; into matrices C of contiguous rows.
    ///
    /// ```
    /// use gemmite::{Device, Gemm, Layout, Shape, bf16};
    /// let of = |rows, cols| Layout::row_major(Shape::new(rows, cols));
    /// let list = [40, 0, 300].map(|tokens| (of(tokens, 4096), of(4096, 1024)));
    /// let hopper = Device::emulator((9, 0))?;
    /// let gemm = Gemm::<bf16>::new().kernel("warp_group_grouped_128x128");
    /// let plan = gemm.plan_grouped(hopper.info(), &list)?;
    /// assert_eq!(plan.kernel.unwrap().name, "warp_group_grouped_128x128_nn_bf16");
    /// // Left to the library, they are one launch where that is predicted to be faster.
    /// assert!(plan.microseconds > 0.0 && plan.plans.len() == 3);
    /// # Ok::<(), gemmite::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Gemm::plan`]; the message says of which product it is.
    pub fn plan_grouped(
        &self,
        device: &DeviceInfo,
        operands: &[(Layout, Layout)],
    ) -> Result<GroupedPlan, Error> {
        let of = |(number, &(a, b)): (usize, &(Layout, Layout))| {
            self.product(a, b).map_err(|error: Error| error.of_product(number))
        };
        let products = operands.iter().enumerate().map(of).collect::<Result<Vec<_>, _>>()?;
        let bases = vec![[0, 0]; products.len()];
        let grouped = group(self.kernel_choice(), &products, &bases, device)?;
        let alone = match grouped {
            // That kernel takes no product alone.
            Some(_) => self.clone().kernel(KernelChoice::Auto),
            None => self.clone(),
        };
        let plan = |(number, product)| {
            alone.plan_product(device, product).map_err(|error| error.of_product(number))
        };
        let plans = products.iter().enumerate().map(plan).collect::<Result<Vec<_>, _>>()?;
        let one_by_one = plans.iter().map(|plan| plan.prediction.total()).sum();
        let microseconds = grouped.as_ref().map_or(one_by_one, |list| list.prediction.total());
        Ok(GroupedPlan { kernel: grouped.map(|grouped| grouped.kernel), microseconds, plans })
    }

    /// C = alpha * A * B + beta * C for products whose rows of A and C lie one behind the other, by
    /// offsets in the device's memory: a mixture of experts, whose rows are the tokens of each.
    ///
    /// A is (m, k) and C (m, n), for all products; b has a matrix (k, n) for each, or one for all.
    /// Product number g has the rows from offset g to offset g + 1, so that there is an offset more
    /// than products, in a row or a column of elements side by side. An offset that is negative,
    /// past m, or smaller than one before it counts as the nearest number that is not. Rows of C
    /// that belong to no product keep what they hold.
    ///
    /// C holds the results when the call returns.
    ///
    /// ```
    /// use gemmite::{Device, Gemm, Matrix, Shape};
    /// let device = Device::best();
    /// let tokens = Matrix::from_fn(Shape::new(5, 2), |i, _| i as f32)?;
    /// let weights = [1.0, 10.0].map(|x| Matrix::from_fn(Shape::new(2, 3), |_, _| x));
    /// let [one, ten] = weights;
    /// let (a, b) = (device.upload(&tokens)?, device.upload_batch(&[one?.view(), ten?.view()])?);
    /// let offsets = device.upload(&Matrix::from_vec(Shape::new(1, 3), vec![0, 2, 5])?)?;
    /// let mut c = device.zeros(Shape::new(5, 3))?;
    /// Gemm::new().run_device_rows(&a, &b, &mut c, &offsets)?;
    /// let c = c.download()?;
    /// assert_eq!((c[(1, 0)], c[(4, 0)]), (2.0, 80.0));
    /// # Ok::<(), gemmite::Error>(())
    /// ```
    ///
    /// # Errors
    /// When shapes do not match, the matrices are on different devices, C repeats rows or columns,
    /// or the device fails.
    pub fn run_device_rows(
        &self,
        a: &DeviceMatrix<T>,
        b: &DeviceBatch<T>,
        c: &mut DeviceMatrix<C>,
        offsets: &DeviceMatrix<i32>,
    ) -> Result<(), Error> {
        self.multiply_rows(None, (a, b), c, offsets)
    }

    /// Enqueues what [`Gemm::run_device_rows`] computes on `stream` and returns. The offsets are
    /// read when the work runs, not before: work that comes before it on the stream may write them.
    /// The order of calls is kept as by [`Gemm::enqueue`]. It can be recorded.
    ///
    /// # Errors
    /// As [`Gemm::run_device_rows`]; on a GPU also when no kernel reads the offsets itself
    /// ([`Error::is_unsupported`]): those for f16 and bf16 on compute capability 9.0 do, of an A in
    /// rows, where A, B and the distances of their rows and of matrices B are multiples of 16
    /// bytes.
    pub fn enqueue_rows(
        &self,
        stream: &Stream,
        a: &DeviceMatrix<T>,
        b: &DeviceBatch<T>,
        c: &mut DeviceMatrix<C>,
        offsets: &DeviceMatrix<i32>,
    ) -> Result<(), Error> {
        self.multiply_rows(Some(stream), (a, b), c, offsets)
    }

    fn multiply_rows(
        &self,
        stream: Option<&Stream>,
        (a, b): (&DeviceMatrix<T>, &DeviceBatch<T>),
        c: &mut DeviceMatrix<C>,
        offsets: &DeviceMatrix<i32>,
    ) -> Result<(), Error> {
        let device = c.device();
        let rows = self.rows_product(a, b, c.layout(), offsets.layout())?;
        let (queue, kernel) = (stream.map(|stream| &*stream.queue), self.kernel_choice());
        let each = operands(a, b.matrix(), c);
        let done = device.backend.multiply_rows(queue, &rows, kernel, each, offsets.memory());
        let reads_here = stream.is_none() || !matches!(device.info().kind, DeviceKind::Cuda { .. });
        match done {
            Err(error) if error.is_unsupported() && reads_here && *kernel == KernelChoice::Auto => {
                let mut numbers = vec![0; rows.count + 1];
                let at = 4 * rows.first_offset;
                offsets.memory().read(at, bytemuck::cast_slice_mut(&mut numbers))?;
                for (number, product) in rows.products(&numbers).iter().enumerate() {
                    let each = operands(a, b.matrix(), c);
                    let done = device.backend.multiply(queue, product, kernel, each);
                    done.map_err(|error| error.of_product(number))?;
                }
                Ok(())
            }
            done => done,
        }
    }

    /// The checked products of rows.
    fn rows_product(
        &self,
        a: &DeviceMatrix<T>,
        b: &DeviceBatch<T>,
        c: Layout,
        offsets: Layout,
    ) -> Result<RowsProduct, Error> {
        let layouts = [a.layout(), b.layout(), c];
        let product = Product::new::<T, C>(self.options(), layouts, Fusion::default())?;
        let Shape { rows, cols } = offsets.shape;
        let is_line = rows == 1 && (offsets.strides.col == 1 || cols == 1)
            || cols == 1 && offsets.strides.row == 1;
        let count = rows.saturating_mul(cols).saturating_sub(1);
        let fits = !offsets.shape.is_empty() && (b.count() == 1 || b.count() == count);
        if !(is_line && fits) {
            let (found, products) = (offsets.shape, b.count());
            return Err(Error::new(Kind::Offsets { found, products }));
        }
        let b_step = if b.count() == 1 { 0 } else { b.step() };
        Ok(RowsProduct { product, count, b_step, first_offset: offsets.offset })
    }
}

/// The products with operands as they come to a device.
fn travelled(products: &[Product]) -> Vec<Product> {
    let of = |product: &Product| {
        let travelled = |layout: Layout| {
            crate::plan::transfer(&layout).map_or(layout, |transfer| transfer.copy)
        };
        let [a, b] = [product.a, product.b].map(travelled);
        Product { a, b, c: Layout::row_major(product.c.shape), ..*product }
    };
    products.iter().map(of).collect()
}

fn operands<'a, T: Element, C: Element>(
    a: &'a DeviceMatrix<T>,
    b: &'a DeviceMatrix<T>,
    c: &'a mut DeviceMatrix<C>,
) -> Operands<'a> {
    let (a, b, c) = (a.memory(), b.memory(), &mut *c.memory);
    Operands { a, b, c, sources: Default::default(), amax: None }
}
