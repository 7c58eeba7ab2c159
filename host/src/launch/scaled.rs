//! From a product with scales to launches.

use super::{Addresses, Driver, Parts, copies, enqueue, launch_all};
use crate::error::Error;
use crate::plan::{KernelChoice, ScaledProduct, choose_scaled};

/// Device addresses of index 0 of the layouts of the scales of A and B.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scales {
    pub a: u64,
    pub b: u64,
}

/// Enqueues the product's launches.
///
/// # Safety
/// As [`enqueue`]; the same as for A and B goes for their scales.
pub(crate) unsafe fn enqueue_scaled(
    driver: &dyn Driver,
    scaled: &ScaledProduct,
    choice: &KernelChoice,
    addresses: Addresses,
    scales: Scales,
) -> Result<(), Error> {
    let product = &scaled.product;
    let bases = [addresses.a, addresses.b];
    let (kernel, copied) = choose_scaled(choice, product, bases, driver.info())?;
    if product.k == 0 || product.c.shape.is_empty() {
        // Neither operands nor scales take part.
        // SAFETY: the caller's promise.
        return unsafe { enqueue(driver, product, &KernelChoice::Auto, addresses) };
    }
    // SAFETY: the caller's promise.
    let copies = unsafe { copies::enqueue(driver, product, &addresses, (kernel, copied))? };
    let start = |base: u64, offset: usize| base.wrapping_add(4 * offset as u64);
    let a = start(scales.a, scaled.a_scales.offset);
    let b = start(scales.b, scaled.b_scales.offset);
    let places = scaled.places().words();
    let more = [bytemuck::bytes_of(&a), bytemuck::bytes_of(&b), bytemuck::cast_slice(&places)];
    // SAFETY: the kernel takes the scales' addresses and places; the caller vouches for the memory.
    unsafe { launch_all(driver, kernel, &copies.product, &copies.addresses, (Parts::ONE, &more)) }
}
