//! Products on device addresses and streams of the caller's.

use super::launch::CudaDriver;
use crate::device::Device;
use crate::element::{Element, OutputOf};
use crate::epilogue::{Epilogue, Fused};
use crate::error::{Error, Kind, Operand};
use crate::gemm::Gemm;
use crate::launch::{self, Addresses, Scales};
use crate::plan::{Batch, Fusion, Product, RowsProduct, ScaledProduct};
use crate::scaled::ScaledGemm;
use cust::stream::Stream;
use fp8::F8E4M3;
use gemm_spec::{Layout, Reads};

/// Device addresses (`DevicePointer::as_raw` of cust) and layouts of A, B and C.
///
/// An address is that of the layout's index 0, so a layout with negative strides has an offset.
/// Layouts are those before the transposes of [`Gemm`].
#[derive(Clone, Copy, Debug)]
pub struct RawOperands {
    /// Address of A.
    pub a: u64,
    /// Layout of A, in elements.
    pub a_layout: Layout,
    /// Address of B.
    pub b: u64,
    /// Layout of B, in elements.
    pub b_layout: Layout,
    /// Address of C.
    pub c: u64,
    /// Layout of C, in elements.
    pub c_layout: Layout,
    /// When A and B may be read. With [`Reads::AtOnce`] products of few tiles, which leave a part
    /// of the GPU idle, run beside each other as far as they can; [`Reads::InOrder`] is always
    /// right.
    pub reads: Reads,
}

impl RawOperands {
    /// Those of a product without an epilogue.
    fn addresses(&self) -> Addresses {
        let RawOperands { a, b, c, .. } = *self;
        Addresses { a, b, c, sources: Default::default(), amax: None }
    }
}

/// Device address (of the layout's index 0) and layout of a matrix.
#[derive(Clone, Copy, Debug)]
pub struct RawMatrix {
    /// The address.
    pub address: u64,
    /// The layout, in elements.
    pub layout: Layout,
}

/// An [`Epilogue`] with data at device addresses; its amax is the address of an f32.
pub type RawEpilogue = Epilogue<RawMatrix, RawMatrix, u64>;

impl<T: Element, C: OutputOf<T>> Gemm<T, C> {
    /// Enqueues C = alpha * op(A) * op(B) + beta * C on a stream of cust's and returns; the work is
    /// ordered by that stream and nothing else.
    ///
    /// # Safety
    /// - Stream and addresses belong to the primary context of `device`.
    /// - Every element of the three layouts lies in allocated device memory, aligned for T, C's for
    ///   C's elements.
    /// - C's memory overlaps neither A's nor B's.
    /// - With [`Reads::AtOnce`] nothing that was enqueued before, on any stream, and has not ended
    ///   writes to A or B.
    /// - Until the stream has got past this work, the memory stays allocated, nobody writes to A's
    ///   and B's, and nobody touches C's; and `device`, a clone of it, or a matrix or stream of it
    ///   is there: the kernels go with the last of them.
    ///
    /// # Errors
    /// When shapes do not match, C repeats rows or columns, `device` is no CUDA device, or it
    /// refuses the launch.
    pub unsafe fn enqueue_raw(
        &self,
        device: &Device,
        stream: &Stream,
        operands: RawOperands,
    ) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        unsafe { self.enqueue_raw_batch(device, stream, operands, Batch::ONE) }
    }

    /// The same for a batch, whose first matrices `operands` describes.
    ///
    /// # Safety
    /// As [`Gemm::enqueue_raw`], for the matrices of all products.
    ///
    /// # Errors
    /// As [`Gemm::enqueue_raw`], and when matrices of C might share elements.
    pub unsafe fn enqueue_raw_batch(
        &self,
        device: &Device,
        stream: &Stream,
        operands: RawOperands,
        batch: Batch,
    ) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        unsafe { self.multiply_raw(device, stream, operands, RawEpilogue::new(), batch) }
    }

    /// The same for a list of products, each with a shape of its own.
    ///
    /// # Safety
    /// As [`Gemm::enqueue_raw`], for each product; no C overlaps a matrix of another.
    ///
    /// # Errors
    /// As [`Gemm::enqueue_raw`]; the message says of which product it is.
    pub unsafe fn enqueue_raw_grouped(
        &self,
        device: &Device,
        stream: &Stream,
        list: &[RawOperands],
    ) -> Result<(), Error> {
        let context = super::backend::context_of(device)?;
        let of = |(number, operands): (usize, &RawOperands)| {
            self.raw_product(operands, Fusion::default()).map_err(|error| error.of_product(number))
        };
        let products = list.iter().enumerate().map(of).collect::<Result<Vec<_>, _>>()?;
        let addresses: Vec<_> = list.iter().map(RawOperands::addresses).collect();
        let _current = context.make_current()?;
        let driver = CudaDriver { context, stream: stream.as_inner() };
        // SAFETY: the caller's promise.
        unsafe { launch::enqueue_grouped(&driver, &products, self.kernel_choice(), &addresses) }
    }

    /// As [`Gemm::enqueue_rows`], for an A and a C with the rows of all products, and the first of
    /// the matrices B, which lie `b_step` elements apart, 0 where all products have one. At the
    /// address `offsets` are `count` + 1 numbers of i32.
    ///
    /// # Safety
    /// As [`Gemm::enqueue_raw`], for the matrices B of all products, and for the offsets as for A.
    ///
    /// # Errors
    /// As [`Gemm::enqueue_raw`], and when no kernel reads the offsets
    /// ([`Error::is_unsupported`]).
    pub unsafe fn enqueue_raw_rows(
        &self,
        device: &Device,
        stream: &Stream,
        operands: RawOperands,
        (count, b_step): (usize, isize),
        offsets: u64,
    ) -> Result<(), Error> {
        let context = super::backend::context_of(device)?;
        let product = self.raw_product(&operands, Fusion::default())?;
        let rows = RowsProduct { product, count, b_step, first_offset: 0 };
        let _current = context.make_current()?;
        let driver = CudaDriver { context, stream: stream.as_inner() };
        let addresses = operands.addresses();
        // SAFETY: the caller's promise.
        unsafe { launch::enqueue_rows(&driver, &rows, self.kernel_choice(), addresses, offsets) }
    }

    /// The checked product, with an epilogue whose layouts are.
    fn raw_product(&self, operands: &RawOperands, fusion: Fusion) -> Result<Product, Error> {
        let RawOperands { a_layout, b_layout, c_layout, reads, .. } = *operands;
        let (bytes, c_bytes) = (size_of::<T>(), size_of::<C>());
        check_layouts(&[
            (Operand::A, a_layout, bytes),
            (Operand::B, b_layout, bytes),
            (Operand::C, c_layout, c_bytes),
        ])?;
        let layouts = [a_layout, b_layout, c_layout];
        let product = Product::new::<T, C>(self.options(), layouts, fusion)?;
        Ok(Product { reads, ..product })
    }

    /// # Safety
    /// As [`Gemm::enqueue_raw`], for the epilogue's addresses too.
    pub(crate) unsafe fn multiply_raw(
        &self,
        device: &Device,
        stream: &Stream,
        operands: RawOperands,
        epilogue: RawEpilogue,
        batch: Batch,
    ) -> Result<(), Error> {
        let context = super::backend::context_of(device)?;
        let fusion = epilogue.fusion();
        for (i, layout) in fusion.sources.into_iter().enumerate() {
            let bytes = Fusion::dtypes(C::DTYPE)[i].size_bytes();
            check_layouts(layout.map(|layout| (Fusion::NAMES[i], layout, bytes)).as_slice())?;
        }
        let product = self.raw_product(&operands, fusion)?.batched(batch)?;
        let _current = context.make_current()?;
        let [bias, residual] = epilogue.matrices.map(|of| of.map(|of| of.address));
        let [rows, cols] = epilogue.factors.map(|of| of.map(|of| of.address));
        let sources = [bias, residual, rows, cols];
        let addresses = Addresses { sources, amax: epilogue.amax, ..operands.addresses() };
        let driver = CudaDriver { context, stream: stream.as_inner() };
        // SAFETY: the caller's promise.
        unsafe { launch::enqueue(&driver, &product, self.kernel_choice(), addresses) }
    }
}

impl<T: Element, C: OutputOf<T> + Element<Scalar = f32>> Fused<'_, T, C, RawEpilogue> {
    /// As [`Gemm::enqueue_raw`].
    ///
    /// # Safety
    /// As [`Gemm::enqueue_raw`], and the same for the epilogue's addresses: its sources lie in
    /// allocated device memory, aligned for their elements, nobody writes to them, and C's memory
    /// does not overlap them; amax is an f32 that nobody touches, outside of all of them.
    ///
    /// # Errors
    /// As [`Gemm::enqueue_raw`], and when a matrix of the epilogue has a shape that does not fit.
    pub unsafe fn enqueue_raw(
        self,
        device: &Device,
        stream: &Stream,
        operands: RawOperands,
    ) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        unsafe { self.gemm.multiply_raw(device, stream, operands, self.epilogue, Batch::ONE) }
    }
}

/// Errors for layouts of elements of so many bytes that go beyond the address space.
fn check_layouts(layouts: &[(Operand, Layout, usize)]) -> Result<(), Error> {
    for &(operand, layout, bytes) in layouts {
        layout.check(isize::MAX as usize / bytes).map_err(|source| {
            Error::new(Kind::Layout { operand: Some(operand), layout, source })
        })?;
    }
    Ok(())
}

/// Device addresses and layouts of the scales of A and B, as [`RawOperands`] has them of these.
#[derive(Clone, Copy, Debug)]
pub struct RawScales {
    /// Address of A's scales.
    pub a: u64,
    /// Layout of A's scales, in elements.
    pub a_layout: Layout,
    /// Address of B's scales.
    pub b: u64,
    /// Layout of B's scales, in elements.
    pub b_layout: Layout,
}

impl<C: OutputOf<F8E4M3>> ScaledGemm<C> {
    /// Enqueues the product on a stream of cust's, as [`Gemm::enqueue_raw`] does.
    ///
    /// # Safety
    /// As there; the same as for A and B goes for their scales, which are f32.
    ///
    /// # Errors
    /// As there, and when the scales' shapes do not match.
    pub unsafe fn enqueue_raw(
        &self,
        device: &Device,
        stream: &Stream,
        operands: RawOperands,
        scales: RawScales,
    ) -> Result<(), Error> {
        let context = super::backend::context_of(device)?;
        let RawOperands { a, a_layout, b, b_layout, c, c_layout, reads } = operands;
        check_layouts(&[
            (Operand::A, a_layout, size_of::<F8E4M3>()),
            (Operand::A, scales.a_layout, size_of::<f32>()),
            (Operand::B, b_layout, size_of::<F8E4M3>()),
            (Operand::B, scales.b_layout, size_of::<f32>()),
            (Operand::C, c_layout, size_of::<C>()),
        ])?;
        let (of_a, of_b) = ((a_layout, scales.a_layout), (b_layout, scales.b_layout));
        let gemm = self.gemm();
        let mut product = ScaledProduct::new::<C>(gemm.options(), of_a, of_b, c_layout)?;
        product.product.reads = reads;
        let _current = context.make_current()?;
        let addresses = Addresses { a, b, c, sources: Default::default(), amax: None };
        let scales = Scales { a: scales.a, b: scales.b };
        let driver = CudaDriver { context, stream: stream.as_inner() };
        // SAFETY: the caller's promise.
        unsafe {
            launch::enqueue_scaled(&driver, &product, gemm.kernel_choice(), addresses, scales)
        }
    }
}
