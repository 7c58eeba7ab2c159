//! Sums that go to memory first: those of parts of K, and those behind which comes an epilogue that
//! the kernel has not. A second kernel adds them up and takes them to C.

use super::{Addresses, Driver, Parts, address, block, copies, multiply};
use crate::error::{Error, Kind};
use crate::plan::{Chosen, Factor, Fusion, Product, Rows, part_len};
use gemm_spec::order::TileOrder;
use gemm_spec::{DType, Layout, Slices, Strides};

/// Enqueues the product without its epilogue and with C in memory of its own, and the kernel that
/// finishes it.
///
/// # Safety
/// As [`enqueue`](super::enqueue).
pub(super) unsafe fn enqueue(
    driver: &dyn Driver,
    product: &Product,
    addresses: &Addresses,
    chosen: Chosen,
) -> Result<(), Error> {
    let shape = product.shape();
    let dtype = match product.fusion.is_none() {
        true => product.dtype.accumulator(),
        // Epilogues compute in f32.
        false => DType::F32,
    };
    // Parts of whole numbers are added up as such, and rounded to f32 once.
    let is_added_first = dtype != product.dtype.accumulator() && product.dtype.is_integer();
    let count = if is_added_first { 1 } else { chosen.parts };
    let (sums, bytes) = copies::in_rows(dtype, shape)?;
    let total = bytes.checked_mul(count).filter(|&total| isize::try_from(total).is_ok());
    let total = total.ok_or_else(|| Error::new(Kind::TooLarge { shape, dtype }))?;
    let len = part_len(chosen.kernel, product.k, chosen.parts);
    let parts = match chosen.parts {
        1 => Parts { tile_cols: chosen.tile_cols, is_read_next: true, ..Parts::ONE },
        count => Parts { count, len, bytes, is_read_next: true, ..Parts::ONE },
    };
    let memory = driver.allocate(total)?;
    let plain = Product {
        output: dtype,
        c: sums,
        alpha: Factor::of(dtype, u8::from(product.k > 0)),
        beta: None,
        fusion: Fusion::default(),
        ..*product
    };
    let places = Addresses { c: memory, sources: Default::default(), amax: None, ..*addresses };
    // SAFETY: the caller's promise; the memory holds the sums and is nobody else's.
    let done = unsafe {
        let multiplied = match count == chosen.parts {
            true => multiply(driver, &plain, &places, chosen, parts),
            false => enqueue(driver, &plain, &places, chosen),
        };
        multiplied.and_then(|()| {
            let sums = Sums { dtype, layout: sums, memory, parts: count, bytes };
            finish(driver, product, addresses, &sums)
        })
    };
    driver.release(memory);
    done
}

/// Sums in memory.
struct Sums {
    dtype: DType,
    /// Of a part.
    layout: Layout,
    memory: u64,
    parts: usize,
    /// From part to part.
    bytes: usize,
}

/// # Safety
/// As [`enqueue`], with the sums in memory.
unsafe fn finish(
    driver: &dyn Driver,
    product: &Product,
    addresses: &Addresses,
    sums: &Sums,
) -> Result<(), Error> {
    let has = driver.info().compute_capability.unwrap_or_default();
    let rows = Rows::of(product);
    let kernel = rows.adding(sums.dtype, sums.parts, sums.layout.shape, has);
    let step = (sums.bytes / sums.dtype.size_bytes()) as isize;
    // What the kernel takes for A is a part; see there.
    let (a, b) = (sums.layout, Layout { strides: Strides::new(step, 1), ..sums.layout });
    let parts = Product { a, b, k: sums.parts, ..*product };
    let slices = Slices::one(sums.parts as u64);
    // A shape that fits into memory has launches.
    for launch in kernel.launches(sums.layout.shape).into_iter().flatten() {
        let (row, col) = launch.start;
        let from = address(sums.memory, sums.dtype, &sums.layout, row, col);
        let to = super::address_of_c(product, addresses, &launch);
        let block = block::Block::of(&parts, &launch, (slices, TileOrder::default()));
        let block = block.at(addresses);
        let (from, to) = (bytemuck::bytes_of(&from), bytemuck::bytes_of(&to));
        // SAFETY: the kernel takes two addresses and the block by value; the caller vouches for the
        // memory.
        unsafe { driver.launch(kernel, &launch, &[from, to, block.bytes()])? };
    }
    Ok(())
}
