//! What becomes of the sums of a product before they are C.

use crate::cuda::RawMatrix;
use crate::device::{Device, DeviceMatrix, Stream};
use crate::element::{Element, OutputOf};
use crate::error::Error;
use crate::gemm::Gemm;
use crate::matrix::{Matrix, MatrixMut, MatrixRef};
use crate::plan::{Fusion, Plan, Product, output_shape};
use crate::streaming::Streaming;
use gemm_spec::{Activation, Layout, Shape};

/// What a product does with its sums, in f32 and in this order, with x the sum of row i and column
/// j:
///
/// 1. x = alpha x row_scale(i) col_scale(j) + beta C(i, j)
/// 2. x = activation(x + bias(i, j))
/// 3. Where it is [gated](Epilogue::gated), columns are pairs: x(i, j) is the even one of them
///    times the odd one, which has had its bias and no activation, and C has half as many columns.
/// 4. x = x + residual(i, j)
/// 5. amax = max(amax, |x|), and C(i, j) = x, rounded once to C's elements.
///
/// Matrices are of type `M` with C's elements, factors of type `F` with elements of f32. One with
/// a single row stands for the same row everywhere, one with a single column for the same column.
/// Where the data lies decides the type: [`HostEpilogue`], [`DeviceEpilogue`],
/// [`RawEpilogue`](crate::cuda::RawEpilogue).
///
/// ```
/// use gemmite::{Activation, Device, Gemm, HostEpilogue, Matrix, Shape};
/// let x = Matrix::from_vec(Shape::new(2, 1), vec![1.0f32, 2.0])?;
/// let w = Matrix::from_vec(Shape::new(1, 3), vec![1.0, -1.0, 0.5])?;
/// let bias = Matrix::from_vec(Shape::new(1, 3), vec![0.0, 1.5, -9.0])?;
/// let layer = HostEpilogue::new().bias(&bias).activation(Activation::Relu);
/// let y = Gemm::new().fused(layer).run(&Device::best(), &x, &w)?;
/// assert_eq!(y.as_slice(), [1.0, 0.5, 0.0, 2.0, 0.0, 0.0]);
/// # Ok::<(), gemmite::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "an epilogue does nothing before it is passed to a product"]
pub struct Epilogue<M, F, X> {
    /// Bias, residual.
    pub(crate) matrices: [Option<M>; 2],
    /// Of rows, of columns.
    pub(crate) factors: [Option<F>; 2],
    pub(crate) amax: Option<X>,
    pub(crate) activation: Activation,
    pub(crate) gated: bool,
}

/// An [`Epilogue`] with data in the host's memory, for a C of elements `C`.
pub type HostEpilogue<'a, C> = Epilogue<MatrixRef<'a, C>, MatrixRef<'a, f32>, &'a mut f32>;

/// An [`Epilogue`] with data on the device that multiplies, for a C of elements `C`. Its amax is a
/// matrix of one element.
pub type DeviceEpilogue<'a, C> =
    Epilogue<&'a DeviceMatrix<C>, &'a DeviceMatrix<f32>, &'a mut DeviceMatrix<f32>>;

impl<M, F, X> Default for Epilogue<M, F, X> {
    fn default() -> Self {
        Epilogue {
            matrices: [None, None],
            factors: [None, None],
            amax: None,
            activation: Activation::Identity,
            gated: false,
        }
    }
}

impl<M, F, X> Epilogue<M, F, X> {
    /// Nothing but alpha and beta.
    pub fn new() -> Self {
        Epilogue::default()
    }

    /// What is added before the activation: (m, n), (1, n) or (m, 1), with n the columns of op(B).
    pub fn bias(mut self, bias: impl Into<M>) -> Self {
        self.matrices[0] = Some(bias.into());
        self
    }

    /// What is added last; of C's shape, one row or one column of it.
    pub fn residual(mut self, residual: impl Into<M>) -> Self {
        self.matrices[1] = Some(residual.into());
        self
    }

    /// Factors of the rows of the sums: (m, 1), or (1, 1) for all, as the scale of a quantised A
    /// is.
    pub fn row_scale(mut self, factors: impl Into<F>) -> Self {
        self.factors[0] = Some(factors.into());
        self
    }

    /// Factors of the columns of the sums: (1, n), or (1, 1) for all, as the scale of a quantised
    /// B is.
    pub fn col_scale(mut self, factors: impl Into<F>) -> Self {
        self.factors[1] = Some(factors.into());
        self
    }

    /// The function that is applied to each element; [`Activation::Identity`] unless set.
    pub fn activation(mut self, activation: Activation) -> Self {
        self.activation = activation;
        self
    }

    /// Columns of op(B) are pairs of a gate, which gets the activation, and a value, which is
    /// multiplied by it: SwiGLU with [`Activation::Silu`], GEGLU with a GELU (Shazeer, GLU Variants
    /// Improve Transformer, 2020). C has half as many columns as op(B), and beta must not be set.
    pub fn gated(mut self) -> Self {
        self.gated = true;
        self
    }

    /// An f32 that is raised to the largest magnitude written, before that is rounded. A NaN that
    /// is written makes it NaN.
    pub fn amax(mut self, amax: X) -> Self {
        self.amax = Some(amax);
        self
    }

    /// Without what its matrices hold.
    pub(crate) fn fusion(&self) -> Fusion
    where
        M: Source,
        F: Source,
    {
        let [bias, residual] = self.matrices.each_ref().map(|of| of.as_ref().map(M::layout));
        let [rows, cols] = self.factors.each_ref().map(|of| of.as_ref().map(F::layout));
        Fusion {
            sources: [bias, residual, rows, cols],
            amax: self.amax.as_ref().map(|_| 0),
            activation: self.activation,
            gated: self.gated,
        }
    }
}

/// What an [`Epilogue`] has its matrices and factors in.
pub trait Source: sealed::Sealed {
    /// How it lies.
    fn layout(&self) -> Layout;
}

mod sealed {
    pub trait Sealed {}
}

/// Makes types that know their layouts sources.
macro_rules! sources {
    ($([$($of:tt)*] $type:ty, $layout:expr;)*) => {$(
        impl<$($of)*> sealed::Sealed for $type {}

        impl<$($of)*> Source for $type {
            fn layout(&self) -> Layout {
                $layout(self)
            }
        }
    )*};
}

sources! {
    ['a, T: Element] MatrixRef<'a, T>, MatrixRef::layout;
    ['a, T: Element] &'a DeviceMatrix<T>, |of: &Self| DeviceMatrix::layout(of);
    [] RawMatrix, |of: &Self| of.layout;
}

/// A product with an epilogue; made by [`Gemm::fused`].
#[derive(Debug)]
#[must_use = "nothing is computed before a call like `run`"]
pub struct Fused<'g, T: Element, C: OutputOf<T>, E> {
    pub(crate) gemm: &'g Gemm<T, C>,
    pub(crate) epilogue: E,
}

impl<T: Element, C: OutputOf<T> + Element<Scalar = f32>> Gemm<T, C> {
    /// The product followed by an epilogue, for a C of f32, f16 or bf16. Kernels for Hopper finish
    /// the sums that they have in registers where the epilogue is a row of biases (of a C by
    /// columns: a column) and an activation other than [`Activation::Gelu`], there is no beta, and
    /// C is of [`Element::Output`], 16 bits wide, with rows that start and end at multiples of 16
    /// bytes. All else is done by a second kernel, with sums of f32 in memory that the product
    /// takes for itself.
    pub fn fused<M, F, X>(
        &self,
        epilogue: Epilogue<M, F, X>,
    ) -> Fused<'_, T, C, Epilogue<M, F, X>> {
        Fused { gemm: self, epilogue }
    }
}

impl<T: Element, C: OutputOf<T>, M: Source, F: Source, X> Fused<'_, T, C, Epilogue<M, F, X>> {
    /// What a call with operands of these layouts would run on the device, as [`Gemm::plan_on`]
    /// says of a product alone: a kernel that finishes its sums while others are multiplied may be
    /// faster with an epilogue, and another one without.
    ///
    /// # Errors
    /// As [`Gemm::plan_on`], and when a matrix of the epilogue has a shape that does not fit.
    ///
    /// ```
    /// use gemmite::{Activation, Device, Gemm, HostEpilogue, Layout, Shape};
    /// let relu = HostEpilogue::<f32>::new().activation(Activation::Relu);
    /// let (x, w) = (Shape::new(64, 32), Shape::new(32, 16));
    /// let [x, w] = [x, w].map(Layout::row_major);
    /// let plan = Gemm::<f32>::new().fused(relu).plan_on(&Device::emulator((9, 0))?, x, w)?;
    /// assert!(plan.kernel.is_some());
    /// # Ok::<(), gemmite::Error>(())
    /// ```
    pub fn plan_on(&self, device: &Device, a: Layout, b: Layout) -> Result<Plan, Error> {
        let fusion = self.epilogue.fusion();
        let [a, b, sums] = self.gemm.layouts(a, b)?;
        let Shape { rows, cols } = sums.shape;
        let c = Layout::row_major(Shape::new(rows, fusion.cols_of_c(cols)));
        self.gemm
            .plan_product_on(device, &Product::new::<T, C>(self.gemm.options(), [a, b, c], fusion)?)
    }
}

impl<T: Element, C: OutputOf<T> + Element<Scalar = f32>> Fused<'_, T, C, HostEpilogue<'_, C>> {
    /// As [`Gemm::run`].
    ///
    /// # Errors
    /// As [`Gemm::run`], and when a matrix of the epilogue has a shape that does not fit.
    pub fn run<'a, 'b>(
        self,
        device: &Device,
        a: impl Into<MatrixRef<'a, T>>,
        b: impl Into<MatrixRef<'b, T>>,
    ) -> Result<Matrix<C>, Error> {
        let (a, b) = (a.into(), b.into());
        let options = self.gemm.options_without_beta()?;
        let sums = output_shape(options.op_a, options.op_b, a.layout(), b.layout())?;
        let cols = if self.epilogue.gated { sums.cols / 2 } else { sums.cols };
        let mut c = Matrix::zeros(Shape::new(sums.rows, cols))?;
        self.run_into(device, a, b, &mut c)?;
        Ok(c)
    }

    /// As [`Gemm::run_into`].
    ///
    /// # Errors
    /// As [`Gemm::run_into`], and when a matrix of the epilogue has a shape that does not fit.
    pub fn run_into<'a, 'b, 'c>(
        self,
        device: &Device,
        a: impl Into<MatrixRef<'a, T>>,
        b: impl Into<MatrixRef<'b, T>>,
        c: impl Into<MatrixMut<'c, C>>,
    ) -> Result<(), Error> {
        let operands = (a.into(), b.into());
        self.gemm.multiply_host(device, operands, c.into(), self.epilogue, &Streaming::new())
    }
}

impl<T: Element, C: OutputOf<T> + Element<Scalar = f32>> Fused<'_, T, C, DeviceEpilogue<'_, C>> {
    /// As [`Gemm::run_device`].
    ///
    /// # Errors
    /// As [`Gemm::run_device`], and when a matrix of the epilogue has a shape that does not fit or
    /// is on another device.
    pub fn run_device(
        self,
        a: &DeviceMatrix<T>,
        b: &DeviceMatrix<T>,
        c: &mut DeviceMatrix<C>,
    ) -> Result<(), Error> {
        self.gemm.multiply(None, (a, b), c, self.epilogue)
    }

    /// As [`Gemm::enqueue`], which holds for the epilogue's matrices too.
    ///
    /// # Errors
    /// As [`Gemm::enqueue`], and when a matrix of the epilogue has a shape that does not fit or is
    /// on another device.
    pub fn enqueue(
        self,
        stream: &Stream,
        a: &DeviceMatrix<T>,
        b: &DeviceMatrix<T>,
        c: &mut DeviceMatrix<C>,
    ) -> Result<(), Error> {
        self.gemm.multiply(Some(stream), (a, b), c, self.epilogue)
    }
}
