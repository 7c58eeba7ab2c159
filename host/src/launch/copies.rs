//! Operands that are copied before a product, to rows along K.

use super::{Addresses, Driver, address};
use crate::error::{Error, Kind};
use crate::plan::Product;
use gemm_spec::{DType, Layout, Op, RepackParams, Shape, Strides};

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
    let dtype = product.dtype;
    if copy_a {
        let (memory, layout) = copies.room(dtype, product.a.shape)?;
        // SAFETY: the caller's promise; the memory is as large as the layout.
        unsafe { one(driver, dtype, (&product.a, addresses.a), (&layout, memory))? };
        (copies.product.a, copies.addresses.a) = (layout, memory);
    }
    if copy_b {
        let b = product.b.apply(Op::Transpose);
        let (memory, layout) = copies.room(dtype, b.shape)?;
        // SAFETY: as above.
        unsafe { one(driver, dtype, (&b, addresses.b), (&layout, memory))? };
        (copies.product.b, copies.addresses.b) = (layout.apply(Op::Transpose), memory);
    }
    Ok(copies)
}

impl Copies<'_> {
    /// Memory for a copy of that shape, with rows at multiples of 16 bytes, and its layout.
    fn room(&mut self, dtype: DType, shape: Shape) -> Result<(u64, Layout), Error> {
        let (layout, bytes) = in_rows(dtype, shape)?;
        let memory = self.driver.allocate(bytes)?;
        self.memory.push(memory);
        Ok((memory, layout))
    }
}

/// Rows at multiples of 16 bytes, one behind the other, and the bytes of all of them.
pub(super) fn in_rows(dtype: DType, shape: Shape) -> Result<(Layout, usize), Error> {
    let size = dtype.size_bytes();
    let pitch = shape.cols.checked_next_multiple_of(16usize.div_ceil(size));
    let bytes = pitch.and_then(|pitch| pitch.checked_mul(shape.rows)?.checked_mul(size));
    match (pitch, bytes) {
        (Some(pitch), Some(bytes)) if isize::try_from(bytes).is_ok() => {
            let strides = Strides::new(pitch as isize, 1);
            Ok((Layout { shape, strides, offset: 0 }, bytes))
        }
        _ => Err(Error::new(Kind::TooLarge { shape, dtype })),
    }
}

/// Enqueues the copy of one operand, (outer, k).
///
/// # Safety
/// The source's elements may be read, the target's memory may be written, rows to the end of their
/// pitch.
unsafe fn one(
    driver: &dyn Driver,
    dtype: DType,
    (source, source_at): (&Layout, u64),
    (target, target_at): (&Layout, u64),
) -> Result<(), Error> {
    // `choose` has seen that there is one, and a shape that fits into memory has launches.
    let Some(kernel) = gemm_spec::repack(dtype) else { return Ok(()) };
    for launch in kernel.launches(source.shape).into_iter().flatten() {
        let (row, col) = launch.start;
        let from = address(source_at, dtype, source, row, col);
        let to = address(target_at, dtype, target, row, col);
        let params = RepackParams {
            rows: launch.shape.rows as u64,
            cols: launch.shape.cols as u64,
            row_stride: source.strides.row as i64,
            col_stride: source.strides.col as i64,
            pitch: target.strides.row as u64,
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
