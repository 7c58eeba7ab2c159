//! Epilogues behind kernels that have none: their sums go to memory, and a second kernel takes them
//! from there to C.

use super::{Addresses, Driver, address, block};
use crate::error::{Error, Kind};
use crate::plan::{Factor, Fusion, KernelChoice, Product};
use gemm_spec::{DType, Layout, Strides};

/// Enqueues the product without its epilogue and with C in memory of its own, and the kernel that
/// finishes it.
///
/// # Safety
/// As [`enqueue`](super::enqueue).
pub(super) unsafe fn enqueue(
    driver: &dyn Driver,
    product: &Product,
    choice: &KernelChoice,
    addresses: &Addresses,
) -> Result<(), Error> {
    let shape = product.shape();
    let too_large = || Error::new(Kind::TooLarge { shape, dtype: DType::F32 });
    // Rows at multiples of 16 bytes.
    let pitch = shape.cols.checked_next_multiple_of(4).ok_or_else(too_large)?;
    let bytes = pitch.checked_mul(shape.rows).and_then(|len| len.checked_mul(4));
    let bytes = bytes.filter(|&bytes| isize::try_from(bytes).is_ok()).ok_or_else(too_large)?;
    let sums = Layout { shape, strides: Strides::new(pitch as isize, 1), offset: 0 };
    let memory = driver.allocate(bytes)?;
    let plain = Product {
        output: DType::F32,
        c: sums,
        alpha: Factor::F32(if product.k == 0 { 0.0 } else { 1.0 }),
        beta: None,
        fusion: Fusion::default(),
        ..*product
    };
    let places = Addresses { c: memory, sources: Default::default(), amax: None, ..*addresses };
    // SAFETY: the caller's promise; the memory holds the sums and is nobody else's.
    let done = unsafe {
        super::enqueue(driver, &plain, choice, places)
            .and_then(|()| finish(driver, product, addresses, (&sums, memory)))
    };
    driver.release(memory);
    done
}

/// # Safety
/// As [`enqueue`], with the sums in `memory`.
unsafe fn finish(
    driver: &dyn Driver,
    product: &Product,
    addresses: &Addresses,
    (sums, memory): (&Layout, u64),
) -> Result<(), Error> {
    let kernel = gemm_spec::finish();
    // One part; see the kernel. A shape that fits into memory has launches.
    let parts = Product { a: *sums, k: 1, ..*product };
    for launch in kernel.launches(sums.shape).into_iter().flatten() {
        let (row, col) = launch.start;
        let from = address(memory, DType::F32, sums, row, col);
        let to = super::address_of_c(product, addresses, &launch);
        let block = block::Block::of(&parts, addresses, &launch);
        let (from, to) = (bytemuck::bytes_of(&from), bytemuck::bytes_of(&to));
        // SAFETY: the kernel takes two addresses and the block by value; the caller vouches for the
        // memory.
        unsafe { driver.launch(kernel, &launch, &[from, to, block.bytes()])? };
    }
    Ok(())
}
