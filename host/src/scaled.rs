//! Products of floats of 8 bits with scales for blocks of their elements.

use crate::backend::Operands;
use crate::device::{Device, DeviceMatrix, Stream};
use crate::element::OutputOf;
use crate::error::{Error, Kind, Operand};
use crate::gemm::Gemm;
use crate::matrix::{Matrix, MatrixMut, MatrixRef};
use crate::plan::{ScaledProduct, output_shape};
use fp8::F8E4M3;
use half::bf16;

/// A product of matrices of [`F8E4M3`] whose blocks have scales, as in DeepSeek-V3 (arXiv
/// 2412.19437, section 3.3.2): made by [`Gemm::block_scaled`].
///
/// With q = k / 128, C = alpha * (sum over q of a_scale(i, q) * b_scale(q, j / 128) * the sum of
/// block q's products) + beta * C. The sums of a block are those of a product without scales, and
/// what they make is added up in f32, so that Hopper's tensor cores lose less than in long sums of
/// their own.
///
/// | | matrix | scales |
/// |---|---|---|
/// | A | m x k | m x ceil(k / 128) |
/// | B | k x n | ceil(k / 128) x ceil(n / 128) |
///
/// An operand and its scales are given together, both before the transpose: an A that is
/// transposed is k x m, and so are its scales. Any strides.
///
/// It runs on the CPU and on GPUs of compute capability 9.0.
///
/// ```
/// use gemmite::{Device, F8E4M3, Gemm, Matrix, Op, Shape};
/// let a = Matrix::from_fn(Shape::new(3, 256), |_, _| F8E4M3::ONE)?;
/// let a_scales = Matrix::from_fn(Shape::new(3, 2), |i, q| (i + q) as f32)?;
/// let b = Matrix::from_fn(Shape::new(5, 256), |_, _| F8E4M3::ONE)?;
/// let b_scales = Matrix::from_fn(Shape::new(1, 2), |_, _| 0.5f32)?;
/// let gemm = Gemm::new().op_b(Op::Transpose).block_scaled();
/// let c = gemm.run(&Device::cpu(), (a.view(), a_scales.view()), (b.view(), b_scales.view()))?;
/// assert_eq!(c[(2, 4)].to_f32(), 128.0 * 0.5 * (2.0 + 3.0));
/// # Ok::<(), gemmite::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use = "nothing is computed before a call like `run`"]
pub struct ScaledGemm<C: OutputOf<F8E4M3> = bf16> {
    gemm: Gemm<F8E4M3, C>,
}

impl<C: OutputOf<F8E4M3>> Gemm<F8E4M3, C> {
    /// The same product of operands with scales for blocks of 128.
    pub fn block_scaled(self) -> ScaledGemm<C> {
        ScaledGemm { gemm: self }
    }
}

/// A matrix of the host, then its scales.
type HostPair<'a> = (MatrixRef<'a, F8E4M3>, MatrixRef<'a, f32>);
/// The same of a device.
type DevicePair<'a> = (&'a DeviceMatrix<F8E4M3>, &'a DeviceMatrix<f32>);

impl<C: OutputOf<F8E4M3>> ScaledGemm<C> {
    /// The product without the scales.
    pub(crate) fn gemm(&self) -> &Gemm<F8E4M3, C> {
        &self.gemm
    }

    /// The product into a new matrix, from host data: each a matrix, then its scales.
    ///
    /// # Errors
    /// When shapes do not match, beta was set, memory does not suffice, or the device has no kernel
    /// or fails.
    pub fn run(
        &self,
        device: &Device,
        a: HostPair<'_>,
        b: HostPair<'_>,
    ) -> Result<Matrix<C>, Error> {
        let options = self.gemm.options();
        if options.beta.is_some() {
            return Err(Error::new(Kind::BetaWithoutC));
        }
        let shape = output_shape(options.op_a, options.op_b, a.0.layout(), b.0.layout())?;
        let mut c = Matrix::zeros(shape)?;
        self.run_into(device, a, b, &mut c)?;
        Ok(c)
    }

    /// The product on host data, into C, of which nothing but its elements is written.
    ///
    /// # Errors
    /// As [`Self::run`], but for beta; C is as it was then.
    pub fn run_into<'c>(
        &self,
        device: &Device,
        (a, a_scales): HostPair<'_>,
        (b, b_scales): HostPair<'_>,
        c: impl Into<MatrixMut<'c, C>>,
    ) -> Result<(), Error> {
        let mut c = c.into();
        let (of_a, of_b) = ((a.layout(), a_scales.layout()), (b.layout(), b_scales.layout()));
        // Before any copy.
        ScaledProduct::new::<C>(self.gemm.options(), of_a, of_b, c.layout())?;
        let (a, a_scales) = (device.upload(a)?, device.upload(a_scales)?);
        let (b, b_scales) = (device.upload(b)?, device.upload(b_scales)?);
        let mut product = match self.gemm.options().beta {
            Some(_) => device.upload(c.view())?,
            None => device.zeros(c.shape())?,
        };
        self.run_device((&a, &a_scales), (&b, &b_scales), &mut product)?;
        c.assign(&product.download()?);
        Ok(())
    }

    /// The product on matrices of one device; C holds it when the call returns.
    ///
    /// # Errors
    /// When shapes do not match, the matrices are on different devices, C repeats rows or columns,
    /// or the device has no kernel or fails.
    pub fn run_device(
        &self,
        a: DevicePair<'_>,
        b: DevicePair<'_>,
        c: &mut DeviceMatrix<C>,
    ) -> Result<(), Error> {
        self.multiply(None, a, b, c)
    }

    /// Enqueues the product on `stream` and returns; the order of calls is kept as by
    /// [`Gemm::enqueue`].
    ///
    /// # Errors
    /// As [`Self::run_device`], and when the stream is another device's. A fault while it runs
    /// shows where it is waited for.
    pub fn enqueue(
        &self,
        stream: &Stream,
        a: DevicePair<'_>,
        b: DevicePair<'_>,
        c: &mut DeviceMatrix<C>,
    ) -> Result<(), Error> {
        if !c.is_on(&stream.backend) {
            let expected = c.device().to_string();
            return Err(Error::new(Kind::ForeignStream { expected }));
        }
        self.multiply(Some(stream), a, b, c)
    }

    fn multiply(
        &self,
        stream: Option<&Stream>,
        (a, a_scales): DevicePair<'_>,
        (b, b_scales): DevicePair<'_>,
        c: &mut DeviceMatrix<C>,
    ) -> Result<(), Error> {
        let device = c.device();
        let backend = &device.backend;
        for (operand, is_here) in [
            (Operand::A, a.is_on(backend) && a_scales.is_on(backend)),
            (Operand::B, b.is_on(backend) && b_scales.is_on(backend)),
        ] {
            if !is_here {
                let expected = device.to_string();
                return Err(Error::new(Kind::DifferentDevices { operand, expected }));
            }
        }
        let (of_a, of_b) = ((a.layout(), a_scales.layout()), (b.layout(), b_scales.layout()));
        let product = ScaledProduct::new::<C>(self.gemm.options(), of_a, of_b, c.layout())?;
        backend.multiply_scaled(
            stream.map(|stream| &*stream.queue),
            &product,
            self.gemm.kernel_choice(),
            Operands {
                a: &*a.memory,
                b: &*b.memory,
                c: &mut *c.memory,
                sources: Default::default(),
                amax: None,
            },
            [&*a_scales.memory, &*b_scales.memory],
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemm_spec::{Op, Shape};

    fn of<T: crate::Element>(rows: usize, cols: usize) -> Matrix<T> {
        Matrix::from_fn(Shape::new(rows, cols), |_, _| T::from_f64(1.0)).unwrap()
    }

    #[test]
    fn scales_of_other_shapes_are_refused() {
        let (a, b) = (of::<F8E4M3>(3, 129), of::<F8E4M3>(129, 300));
        let run = |a_scales: Matrix<f32>, b_scales: Matrix<f32>| {
            let (a, b) = ((a.view(), a_scales.view()), (b.view(), b_scales.view()));
            Gemm::<F8E4M3>::new().block_scaled().run(&Device::cpu(), a, b)
        };
        assert!(run(of(3, 2), of(2, 3)).is_ok());
        for (a_scales, b_scales, what) in [
            (of(3, 1), of(2, 3), "a 3x129 A has 3x2 scales and 3x1"),
            (of(1, 2), of(2, 3), "a 3x129 A has 3x2 scales and 1x2"),
            (of(3, 2), of(3, 2), "a 129x300 B has 2x3 scales and 3x2"),
            (of(3, 2), of(129, 300), "a 129x300 B has 2x3 scales and 129x300"),
        ] {
            let error = run(a_scales, b_scales).unwrap_err();
            assert!(error.is_shape() && error.to_string().contains(what), "{error}");
        }
        let (a, b) = (of::<F8E4M3>(129, 3), of::<F8E4M3>(300, 129));
        let (a_scales, b_scales) = (of::<f32>(2, 3), of::<f32>(3, 2));
        let gemm = Gemm::<F8E4M3>::new().op_a(Op::Transpose).op_b(Op::Transpose).block_scaled();
        let (a, b) = ((a.view(), a_scales.view()), (b.view(), b_scales.view()));
        let c = gemm.run(&Device::cpu(), a, b).unwrap();
        assert_eq!((c.shape(), c[(0, 0)].to_f32()), (Shape::new(3, 300), 129.0));
    }

    #[test]
    fn devices_without_the_kernel_say_so() {
        let (a, b) = (of::<F8E4M3>(4, 16), of::<F8E4M3>(16, 4));
        let (a_scales, b_scales) = (of::<f32>(4, 1), of::<f32>(1, 1));
        let run = |device: &Device, gemm: Gemm<F8E4M3>| {
            let (a, b) = ((a.view(), a_scales.view()), (b.view(), b_scales.view()));
            gemm.block_scaled().run(device, a, b)
        };
        let ada = Device::emulator((8, 9)).unwrap();
        let error = run(&ada, Gemm::new()).unwrap_err();
        assert!(error.is_unsupported() && error.to_string().contains("9.0"), "{error}");
        for name in ["k02_tiled_16", "warp_group_128x128"] {
            let hopper = Device::emulator((9, 0)).unwrap();
            let error = run(&hopper, Gemm::new().kernel(name)).unwrap_err();
            assert!(error.is_unsupported() && error.to_string().contains(name), "{error}");
            assert!(error.to_string().contains("there is: warp_group_scaled"), "{error}");
        }
        let named = Gemm::new().kernel("warp_group_scaled_128x128");
        let hopper = Device::emulator((9, 0)).unwrap();
        assert_eq!(run(&hopper, named.clone()).unwrap().shape(), Shape::new(4, 4));
        assert!(run(&Device::cpu(), named).unwrap_err().is_unsupported());
    }
}
