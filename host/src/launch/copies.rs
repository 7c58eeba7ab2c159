//! Operands that are copied before a product, to rows along K.

use super::{Addresses, Driver, address};
use crate::error::{Error, Kind};
use crate::plan::{Batch, Product, layers};
use gemm_spec::{DType, Launch, Layout, Op, RepackParams, Shape, Strides};

/// The product with copies in the place of operands; they are given back when this is dropped.
pub(super) struct Copies<'a> {
    pub product: Product,
    pub addresses: Addresses,
    driver: &'a dyn Driver,
    memory: Vec<u64>,
}

impl Drop for Copies<'_> {
    fn drop(&mut self) {
        for &address in &self.memory {
            self.driver.release(address);
        }
    }
}

/// Enqueues copies of those of A and B that `copied` names.
///
/// # Safety
/// As [`enqueue`](super::enqueue).
pub(super) unsafe fn enqueue<'a>(
    driver: &'a dyn Driver,
    product: &Product,
    addresses: &Addresses,
    [copy_a, copy_b]: [bool; 2],
) -> Result<Copies<'a>, Error> {
    let (product, addresses) = (*product, *addresses);
    let mut copies = Copies { product, addresses, driver, memory: Vec::new() };
    let batch = product.batch;
    if copy_a {
        // SAFETY: the caller's promise.
        let (copy, memory) = unsafe { copies.one(&product.a, addresses.a, batch.a)? };
        (copies.product.a, copies.product.batch.a) = copy;
        copies.addresses.a = memory;
    }
    if copy_b {
        let b = product.b.apply(Op::Transpose);
        // SAFETY: the caller's promise.
        let ((layout, step), memory) = unsafe { copies.one(&b, addresses.b, batch.b)? };
        (copies.product.b, copies.product.batch.b) = (layout.apply(Op::Transpose), step);
        copies.addresses.b = memory;
    }
    Ok(copies)
}

impl Copies<'_> {
    /// Enqueues the copies of one operand, (outer, k), of all products of the batch, which lie
    /// `step` elements apart, to rows at multiples of 16 bytes. Returns the layout and the step of
    /// the copies, and where they are.
    ///
    /// # Safety
    /// The elements may be read.
    unsafe fn one(
        &mut self,
        source: &Layout,
        source_at: u64,
        step: isize,
    ) -> Result<((Layout, isize), u64), Error> {
        let Product { dtype, batch, .. } = self.product;
        // One that all products share is copied once.
        let count = if step == 0 { 1 } else { batch.count };
        let shape = source.shape;
        let (target, bytes) = in_rows(dtype, shape)?;
        let total = bytes.checked_mul(count).filter(|&total| isize::try_from(total).is_ok());
        let total = total.ok_or_else(|| Error::new(Kind::TooLarge { shape, dtype }))?;
        let memory = self.driver.allocate(total)?;
        self.memory.push(memory);
        let target_step = (bytes / dtype.size_bytes()) as isize;
        for range in layers(count) {
            let from = (&Batch::layout(*source, step, range.start), source_at, step);
            let to = (&Batch::layout(target, target_step, range.start), memory, target_step);
            // SAFETY: the caller's promise; the memory has room for all.
            unsafe { copy(self.driver, dtype, from, to, range.len() as u32)? };
        }
        let step = if step == 0 { 0 } else { target_step };
        Ok(((target, step), memory))
    }
}

/// Rows at multiples of 16 bytes, one behind the other, and the bytes of all of them. Long rows are
/// at multiples of 128, which are a step's: so no step is two reads.
pub(super) fn in_rows(dtype: DType, shape: Shape) -> Result<(Layout, usize), Error> {
    let size = dtype.size_bytes();
    let unit = if shape.cols >= 1024 / size { 128usize } else { 16 };
    let pitch = shape.cols.checked_next_multiple_of(unit.div_ceil(size));
    let bytes = pitch.and_then(|pitch| pitch.checked_mul(shape.rows)?.checked_mul(size));
    match (pitch, bytes) {
        (Some(pitch), Some(bytes)) if isize::try_from(bytes).is_ok() => {
            let strides = Strides::new(pitch as isize, 1);
            Ok((Layout { shape, strides, offset: 0 }, bytes))
        }
        _ => Err(Error::new(Kind::TooLarge { shape, dtype })),
    }
}

/// Enqueues the copies of so many matrices, (outer, k), with the distances from one to the next.
///
/// # Safety
/// The sources' elements may be read, the targets' memory may be written, rows to the end of their
/// pitch.
unsafe fn copy(
    driver: &dyn Driver,
    dtype: DType,
    (source, source_at, source_step): (&Layout, u64, isize),
    (target, target_at, target_step): (&Layout, u64, isize),
    layers: u32,
) -> Result<(), Error> {
    // `choose` has seen that there is one, and a shape that fits into memory has launches.
    let Some(kernel) = gemm_spec::repack(dtype) else { return Ok(()) };
    for launch in kernel.launches(source.shape).into_iter().flatten() {
        let launch = Launch { layers, ..launch };
        let (row, col) = launch.start;
        let from = address(source_at, dtype, source, row, col);
        let to = address(target_at, dtype, target, row, col);
        let params = RepackParams {
            rows: launch.shape.rows as u64,
            cols: launch.shape.cols as u64,
            row_stride: source.strides.row as i64,
            col_stride: source.strides.col as i64,
            pitch: target.strides.row as u64,
            source_step: source_step as i64,
            target_step: target_step as i64,
        };
        let (from, to) = (bytemuck::bytes_of(&from), bytemuck::bytes_of(&to));
        // SAFETY: the kernel takes two addresses and the block by value; the caller vouches for the
        // memory.
        unsafe {
            driver.launch(kernel, &launch, &[from, to, bytemuck::cast_slice(&params.words())])?;
        }
    }
    Ok(())
}
