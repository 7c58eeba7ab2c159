//! The product and its options.

use crate::backend::{HostOperands, Operands};
use crate::device::{Device, DeviceInfo, DeviceMatrix, Stream};
use crate::element::{Element, OutputOf, Scalar};
use crate::epilogue::{DeviceEpilogue, Epilogue, HostEpilogue};
use crate::error::{Error, Kind};
use crate::matrix::{Matrix, MatrixMut, MatrixRef};
use crate::plan::{
    Chosen, Fusion, KernelChoice, Options, Plan, Product, Rows, Task, candidates, choose,
    choose_for, output_shape,
};
use crate::streaming::Streaming;
use gemm_spec::{Kernel, Layout, Op, Precision, Shape};
use std::marker::PhantomData;

/// A * B on `device`, into a new matrix.
///
/// ```
/// use gemmite::{Device, Matrix, Shape, matmul};
/// let a = Matrix::from_vec(Shape::new(2, 2), vec![1.0f32, 2.0, 3.0, 4.0])?;
/// let b = Matrix::from_vec(Shape::new(2, 1), vec![10.0, 100.0])?;
/// let c = matmul(&Device::best(), &a, &b)?;
/// assert_eq!(c.as_slice(), [210.0, 430.0]);
/// # Ok::<(), gemmite::Error>(())
/// ```
///
/// # Errors
/// When A's columns are not as many as B's rows, memory does not suffice, or the device fails.
pub fn matmul<'a, 'b, T: Element>(
    device: &Device,
    a: impl Into<MatrixRef<'a, T>>,
    b: impl Into<MatrixRef<'b, T>>,
) -> Result<Matrix<T::Output>, Error> {
    Gemm::new().run(device, a, b)
}

/// The options of C = alpha * op(A) * op(B) + beta * C, and the ways to compute it.
///
/// - op(A): (m, k), op(B): (k, n), C: (m, n); any strides, any extents from 0 up.
/// - Without beta, or with a beta of 0, C's old value is never read.
/// - With an alpha of 0, A and B are never read. With k = 0 their product is 0.
/// - `i32` wraps around. `i8` is multiplied and summed in `i32`.
/// - `f16` and `bf16` are summed in `f32`, alpha * sum + beta * C is computed
///   in `f32` and rounded once.
/// - So are `F8E4M3` and `F8E5M2`, into a C of `bf16` unless another is asked for. Hopper's tensor
///   cores keep 14 bits of their sums, and no more (docs/numerics.md).
/// - C's elements are of type `C`: [`Element::Output`] unless [`Gemm::output`] asks for others.
///
/// ```
/// use gemmite::{Device, Gemm, Matrix, Shape, bf16};
/// let a = Matrix::from_vec(Shape::new(1, 2), vec![bf16::from_f32(256.0), bf16::ONE])?;
/// let b = Matrix::from_vec(Shape::new(2, 1), vec![bf16::ONE, bf16::ONE])?;
/// // 257 is no bf16.
/// let c: Matrix<f32> = Gemm::new().output().run(&Device::best(), &a, &b)?;
/// assert_eq!(c.as_slice(), [257.0]);
/// # Ok::<(), gemmite::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use = "nothing is computed before a call like `run`"]
pub struct Gemm<T: Element, C: OutputOf<T> = <T as Element>::Output> {
    options: Options<C::Scalar>,
    kernel: KernelChoice,
    operands: PhantomData<T>,
}

impl<T: Element, C: OutputOf<T>> Default for Gemm<T, C> {
    fn default() -> Self {
        let alpha = <C::Scalar as Scalar>::ONE;
        Gemm {
            options: Options {
                op_a: Op::None,
                op_b: Op::None,
                precision: Precision::Full,
                alpha,
                beta: None,
                batch_invariant: false,
            },
            kernel: KernelChoice::Auto,
            operands: PhantomData,
        }
    }
}

impl<T: Element> Gemm<T> {
    /// C = A * B, with C's elements as they are unless others are asked for, and the kernel chosen
    /// by the library.
    pub fn new() -> Self {
        Gemm::default()
    }
}

impl<T: Element, C: OutputOf<T>> Gemm<T, C> {
    /// The same with C's elements of type `D`; see [`OutputOf`] for the types that there are. Alpha
    /// and beta, where they were set before, are rounded to the nearest of `D`'s
    /// [`Element::Scalar`], halves to even ones.
    pub fn output<D: OutputOf<T>>(self) -> Gemm<T, D> {
        let Options { op_a, op_b, precision, alpha, beta, batch_invariant } = self.options;
        let convert = |factor: C::Scalar| match D::Scalar::DTYPE.is_integer() {
            true => D::Scalar::from_f64(factor.to_f64().round_ties_even()),
            false => D::Scalar::from_f64(factor.to_f64()),
        };
        let (alpha, beta) = (convert(alpha), beta.map(convert));
        let options = Options { op_a, op_b, precision, alpha, beta, batch_invariant };
        Gemm { options, kernel: self.kernel, operands: PhantomData }
    }

    /// What to do with A before it is multiplied.
    pub fn op_a(mut self, op: Op) -> Self {
        self.options.op_a = op;
        self
    }

    /// What to do with B before it is multiplied.
    pub fn op_b(mut self, op: Op) -> Self {
        self.options.op_b = op;
        self
    }

    /// The factor of the product; 1 unless set.
    pub fn alpha(mut self, alpha: C::Scalar) -> Self {
        self.options.alpha = alpha;
        self
    }

    /// The factor of C's old value, which takes no part unless this is set.
    pub fn beta(mut self, beta: C::Scalar) -> Self {
        self.options.beta = Some(beta);
        self
    }

    /// How exactly elements of f32 are multiplied; [`Precision::Full`] unless set. With
    /// [`Precision::Tf32`] a device that is faster so may cut them off to 10 bits of mantissa; what
    /// it adds up stays f32. With [`Precision::Bf16x6`] it may multiply them as sums of three bf16,
    /// whose sums are as exact as f32's but for elements below 2^-110, of which it may lose 2^-134,
    /// and for sums within 2^-7 of f32's largest number, which may become infinite. It needs memory
    /// for copies of both operands, 6 bytes an element, with K rounded up to a multiple of 64; rows
    /// that have to be alike are multiplied with all digits. Elements of other types are multiplied
    /// exactly in any case.
    ///
    /// ```
    /// use gemmite::{Device, Gemm, Matrix, Op, Precision, Shape};
    /// let a = Matrix::from_fn(Shape::new(2, 8), |_, _| 1.0f32 + f32::EPSILON)?;
    /// let gemm = Gemm::new().op_b(Op::Transpose).precision(Precision::Tf32);
    /// // The CPU computes as Hopper's tensor cores do.
    /// assert_eq!(gemm.run(&Device::cpu(), &a, &a)?.as_slice(), [8.0; 4]);
    /// # Ok::<(), gemmite::Error>(())
    /// ```
    pub fn precision(mut self, precision: Precision) -> Self {
        self.options.precision = precision;
        self
    }

    /// The kernel; [`KernelChoice::Auto`] unless set. A name is turned into a choice by `into()`.
    pub fn kernel(mut self, kernel: impl Into<KernelChoice>) -> Self {
        self.kernel = kernel.into();
        self
    }

    /// Whether the bits of a row of C must not depend on how many rows there are: a row of a
    /// product has the same ones where it is computed with other rows, or alone, from the same row
    /// of A, the same B and the same options, on the same device. Not so unless set.
    ///
    /// Kernels are then chosen among those that sum in one order, and K is not split; integers,
    /// which are summed exactly, are chosen for freely. It costs time, most of it where rows are
    /// few or sums are long (docs/numerics.md says how much). The device's memory has to suffice
    /// for copies of operands that a kernel needs; no other kernel takes the place of that one. The
    /// sign of a zero is unspecified here too.
    ///
    /// ```
    /// use gemmite::{Device, Gemm, Matrix, Shape, random};
    /// let a: Matrix<f32> = random::normal(Shape::new(100, 300), 1)?;
    /// let b: Matrix<f32> = random::normal(Shape::new(300, 50), 2)?;
    /// let (gemm, cpu) = (Gemm::new().batch_invariant(true), Device::cpu());
    /// let all = gemm.run(&cpu, &a, &b)?;
    /// let some = gemm.run(&cpu, a.view().block(0..7, 0..300)?, &b)?;
    /// assert_eq!(some, all.view().block(0..7, 0..50)?.to_matrix()?);
    /// # Ok::<(), gemmite::Error>(())
    /// ```
    pub fn batch_invariant(mut self, invariant: bool) -> Self {
        self.options.batch_invariant = invariant;
        self
    }

    /// What a call with operands of these layouts would run on a device, without running anything.
    ///
    /// # Errors
    /// When shapes do not match, or the device cannot run the chosen kernel.
    pub fn plan(&self, device: &DeviceInfo, a: Layout, b: Layout) -> Result<Plan, Error> {
        self.plan_product(device, &self.product(a, b)?)
    }

    /// As [`Gemm::plan`], with what was tuned for the device
    /// ([`Device::take_tuning`](crate::Device::take_tuning)).
    ///
    /// # Errors
    /// As [`Gemm::plan`].
    pub fn plan_on(&self, device: &Device, a: Layout, b: Layout) -> Result<Plan, Error> {
        self.plan_product_on(device, &self.product(a, b)?)
    }

    pub(crate) fn plan_product_on(
        &self,
        device: &Device,
        product: &Product,
    ) -> Result<Plan, Error> {
        let (info, plans) = (device.info(), device.backend.plans());
        self.plan_by(info, product, |task| match plans {
            Some(plans) => plans.choose(&self.kernel, task, info),
            None => choose(&self.kernel, task, info),
        })
    }

    pub(crate) fn plan_product(
        &self,
        device: &DeviceInfo,
        product: &Product,
    ) -> Result<Plan, Error> {
        self.plan_by(device, product, |task| choose(&self.kernel, task, device))
    }

    fn plan_by(
        &self,
        device: &DeviceInfo,
        product: &Product,
        choose: impl Fn(&Task) -> Result<Chosen, Error>,
    ) -> Result<Plan, Error> {
        if device.compute_capability.is_none() && self.kernel == KernelChoice::Auto {
            return Ok(Plan::of_cpu(product));
        }
        let turned = product.is_taken_turned(&self.kernel, device);
        // Buffers of a GPU start at multiples of 256 bytes.
        let task = Task::turned_if(turned, product);
        let chosen = choose_for(product, &self.kernel, &task, choose)?;
        Ok(Plan::new(product, turned, chosen, device))
    }

    /// All plans among which [`KernelChoice::Auto`] chooses, the one that it takes first.
    ///
    /// # Errors
    /// When shapes do not match. For the CPU, and where nothing runs, there are none.
    pub fn plans(&self, device: &DeviceInfo, a: Layout, b: Layout) -> Result<Vec<Plan>, Error> {
        Ok(self.plans_product(device, &self.product(a, b)?))
    }

    pub(crate) fn plans_product(&self, device: &DeviceInfo, product: &Product) -> Vec<Plan> {
        let turned = product.is_taken_turned(&KernelChoice::Auto, device);
        let task = Task::turned_if(turned, product);
        let mut chosen: Vec<_> = candidates(&task, device).collect();
        // Stable, so that of equals the first is the one that is chosen.
        chosen.sort_by(Chosen::compare);
        chosen.dedup();
        let plan = |chosen| Plan::new(product, turned, chosen, device);
        chosen.into_iter().map(plan).collect()
    }

    /// The product of operands of these layouts, into a C of contiguous rows.
    // A result so large is copied where it is not built in place.
    #[inline(always)]
    pub(crate) fn product(&self, a: Layout, b: Layout) -> Result<Product, Error> {
        Product::new::<T, C>(self.options, self.layouts(a, b)?, Fusion::default())
    }

    /// Operands of these layouts, and a C of contiguous rows.
    #[inline]
    pub(crate) fn layouts(&self, a: Layout, b: Layout) -> Result<[Layout; 3], Error> {
        let shape = output_shape(self.options.op_a, self.options.op_b, a, b)?;
        if !shape.is_empty() && shape.checked_len().is_none() {
            return Err(Error::new(Kind::TooLarge { shape, dtype: C::DTYPE }));
        }
        Ok([a, b, Layout::row_major(shape)])
    }

    /// Gets ready what [`Gemm::plan_on`] says: on a GPU the driver compiles and loads the kernel's
    /// entry points, which the first product that takes one does otherwise.
    ///
    /// # Errors
    /// As [`Gemm::plan`], and when the driver refuses the kernel.
    pub fn load(&self, device: &Device, a: Layout, b: Layout) -> Result<(), Error> {
        let plan = self.plan_on(device, a, b)?;
        let has = device.info().compute_capability.unwrap_or_default();
        let rows = Rows::of(&self.product(a, b)?);
        let kernels = plan.kernels(T::DTYPE, (rows, has));
        // Which entry point is launched goes by C's address, too.
        let both = |kernel: &'static Kernel| [Some(kernel), kernel.lean()].into_iter().flatten();
        kernels.flat_map(both).try_for_each(|kernel| device.backend.load(kernel))
    }

    /// alpha * op(A) * op(B) into a new matrix; host data, and the result is there when the call
    /// returns.
    ///
    /// # Errors
    /// When shapes do not match, beta was set, memory does not suffice, a kernel that was named is
    /// unknown or does not run here ([`Error::is_unsupported`]), or the device fails.
    pub fn run<'a, 'b>(
        &self,
        device: &Device,
        a: impl Into<MatrixRef<'a, T>>,
        b: impl Into<MatrixRef<'b, T>>,
    ) -> Result<Matrix<C>, Error> {
        let options = self.options_without_beta()?;
        let (a, b) = (a.into(), b.into());
        let shape = output_shape(options.op_a, options.op_b, a.layout(), b.layout())?;
        let mut c = Matrix::zeros(shape)?;
        self.run_into(device, a, b, &mut c)?;
        Ok(c)
    }

    /// C = alpha * op(A) * op(B) + beta * C on host data; C holds the result when the call returns.
    ///
    /// Of C's slice nothing but C's elements is written.
    ///
    /// # Errors
    /// As [`Gemm::run`], but for beta, and when C has not the product's shape. C's elements are
    /// unspecified then.
    pub fn run_into<'a, 'b, 'c>(
        &self,
        device: &Device,
        a: impl Into<MatrixRef<'a, T>>,
        b: impl Into<MatrixRef<'b, T>>,
        c: impl Into<MatrixMut<'c, C>>,
    ) -> Result<(), Error> {
        let (operands, epilogue) = ((a.into(), b.into()), HostEpilogue::new());
        self.multiply_host(device, operands, c.into(), epilogue, &Streaming::new())
    }

    pub(crate) fn multiply_host(
        &self,
        device: &Device,
        (a, b): (MatrixRef<'_, T>, MatrixRef<'_, T>),
        mut c: MatrixMut<'_, C>,
        epilogue: HostEpilogue<'_, C>,
        streaming: &Streaming<'_>,
    ) -> Result<(), Error> {
        let layouts = [a.layout(), b.layout(), c.layout()];
        let fusion = epilogue.fusion();
        let product = Product::new::<T, C>(self.options, layouts, fusion)?;
        let Epilogue { matrices, factors, amax, .. } = epilogue;
        let [bias, residual] = matrices.map(|of| of.map(|of| of.as_ptr().cast_mut().cast()));
        let [rows, cols] = factors.map(|of| of.map(|of| of.as_ptr().cast_mut().cast()));
        let operands = HostOperands {
            a: a.as_ptr().cast_mut().cast(),
            b: b.as_ptr().cast_mut().cast(),
            c: c.as_mut_ptr().cast(),
            sources: [bias, residual, rows, cols],
            amax: amax.map(|amax| std::ptr::from_mut(amax).cast()),
        };
        // SAFETY: the views hold their layouts' elements, C's and amax exclusively.
        unsafe { device.backend.multiply_host(&product, &self.kernel, &operands, streaming) }
    }

    /// C = alpha * op(A) * op(B) + beta * C on matrices of one device; C holds the result when the
    /// call returns.
    ///
    /// # Errors
    /// When shapes do not match, the matrices are on different devices, C repeats rows or columns,
    /// a kernel that was named does not run here ([`Error::is_unsupported`]), or the device fails.
    pub fn run_device(
        &self,
        a: &DeviceMatrix<T>,
        b: &DeviceMatrix<T>,
        c: &mut DeviceMatrix<C>,
    ) -> Result<(), Error> {
        self.multiply(None, (a, b), c, DeviceEpilogue::new())
    }

    /// Enqueues C = alpha * op(A) * op(B) + beta * C on `stream` and returns;
    /// [`Stream::synchronize`] and [`DeviceMatrix::download`] wait.
    ///
    /// The order of calls is kept for each matrix, over all streams: work that reads a matrix waits
    /// for the work before it that writes it, and the other way round.
    ///
    /// # Errors
    /// As [`Gemm::run_device`], when the stream is another device's or another thread records on it
    /// ([`Error::is_recording`]). A fault while it runs shows where it is waited for.
    pub fn enqueue(
        &self,
        stream: &Stream,
        a: &DeviceMatrix<T>,
        b: &DeviceMatrix<T>,
        c: &mut DeviceMatrix<C>,
    ) -> Result<(), Error> {
        self.multiply(Some(stream), (a, b), c, DeviceEpilogue::new())
    }

    pub(crate) fn multiply(
        &self,
        stream: Option<&Stream>,
        (a, b): (&DeviceMatrix<T>, &DeviceMatrix<T>),
        c: &mut DeviceMatrix<C>,
        epilogue: DeviceEpilogue<'_, C>,
    ) -> Result<(), Error> {
        let device = c.device();
        if stream.is_some_and(|stream| !c.is_on(&stream.backend)) {
            let expected = device.to_string();
            return Err(Error::new(Kind::ForeignStream { expected }));
        }
        let layouts = [a.layout(), b.layout(), c.layout()];
        let mut fusion = epilogue.fusion();
        fusion.amax = epilogue.amax.as_ref().map(|amax| amax.layout().offset);
        let product = Product::new::<T, C>(self.options, layouts, fusion)?;
        let Epilogue { matrices, factors, amax, .. } = epilogue;
        if let Some(amax) = amax.as_ref().filter(|amax| amax.shape() != Shape::new(1, 1)) {
            return Err(Error::new(Kind::Amax { found: amax.shape() }));
        }
        let [bias, residual] = matrices.map(|of| of.map(|of| of.memory()));
        let [rows, cols] = factors.map(|of| of.map(|of| of.memory()));
        let operands = Operands {
            a: a.memory(),
            b: b.memory(),
            c: &mut *c.memory,
            sources: [bias, residual, rows, cols],
            amax: amax.map(|amax| &mut *amax.memory),
        };
        let queue = stream.map(|stream| &*stream.queue);
        device.backend.multiply(queue, &product, &self.kernel, operands)
    }

    /// The options for a C without an old value.
    pub(crate) fn options_without_beta(&self) -> Result<Options<C::Scalar>, Error> {
        match self.options.beta {
            None => Ok(self.options),
            Some(_) => Err(Error::new(Kind::BetaWithoutC)),
        }
    }

    pub(crate) fn options(&self) -> Options<C::Scalar> {
        self.options
    }

    /// The same with C = op(A) * op(B).
    pub(crate) fn without_factors(mut self) -> Self {
        (self.options.alpha, self.options.beta) = (<C::Scalar as Scalar>::ONE, None);
        self
    }

    pub(crate) fn kernel_choice(&self) -> &KernelChoice {
        &self.kernel
    }
}

#[cfg(test)]
mod tests;
