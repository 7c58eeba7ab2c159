//! Kernels whose blocks join what they have of a tile, in memory that the launch brings.

use super::one::NOWHERE;
use super::{Addresses, Driver, Parts, launch_all};
use crate::device::DeviceInfo;
use crate::error::Error;
use crate::plan::Product;
use gemm_spec::{Kernel, order};
use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Enqueues the launch of a kernel that takes the product and [`joins`](Kernel::joins).
///
/// # Safety
/// As [`enqueue`](super::enqueue); the product is no batch, and the kernel does its epilogue.
pub(super) unsafe fn launch(
    driver: &dyn Driver,
    kernel: &'static Kernel,
    product: &Product,
    addresses: &Addresses,
) -> Result<(), Error> {
    if !is_shared(driver.info(), kernel, product) {
        // SAFETY: the caller's promise; nothing is joined.
        return unsafe { launch_all(driver, kernel, product, addresses, (Parts::ONE, &NOWHERE)) };
    }
    let blocks = blocks(driver.info(), kernel, product);
    let [rows, cols, _] = kernel.tiles.block;
    let groups = rows / kernel.tiles.warp[0];
    let of_sums = blocks * rows * cols * product.dtype.accumulator().size_bytes();
    let of_keys = blocks * groups * size_of::<u64>();
    let sums = driver.allocate(of_sums + of_keys)?;
    let (keys, key) = (sums + of_sums as u64, next_key());
    let more = [sums, keys, key];
    let more = more.each_ref().map(bytemuck::bytes_of);
    // SAFETY: the caller's promise; the kernel takes these three, the memory is as large as it
    // wants and nobody else's, and behind the sums, which are a multiple of 8 bytes.
    let done = unsafe {
        driver
            .let_read(keys, of_keys)
            .and_then(|()| launch_all(driver, kernel, product, addresses, (Parts::ONE, &more)))
    };
    driver.release(sums);
    done
}

/// Whether blocks of a kernel that joins share a tile of the product, and so need memory.
pub(super) fn is_shared(info: &DeviceInfo, kernel: &Kernel, product: &Product) -> bool {
    let clusters = || (blocks(info, kernel, product) / kernel.cluster()) as u32;
    let tiles = || kernel.joined_tiles(product.shape());
    kernel.joins() && order::shared_tiles(tiles(), clusters()) > 0
}

/// Blocks of the one launch.
fn blocks(info: &DeviceInfo, kernel: &Kernel, product: &Product) -> usize {
    let launch = kernel.launches(product.shape()).into_iter().flatten().next();
    let of_tile = kernel.blocks_of_tile(product.k);
    launch.map_or(0, |launch| kernel.resident(launch, of_tile, info.places()).grid.0 as usize)
}

/// A word that is in no memory, but for one chance in 2^64: another one each time in a process, and
/// from process to process. Kernels take their keys away, so that a graph may bring the same one
/// again.
fn next_key() -> u64 {
    static NEXT: OnceLock<AtomicU64> = OnceLock::new();
    let next = NEXT.get_or_init(|| AtomicU64::new(RandomState::new().hash_one(NEXT_SEED)));
    // An odd step goes through all words before one comes back; 0 is what a kernel leaves.
    loop {
        match next.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed) {
            0 => {}
            key => return key,
        }
    }
}

/// What the first key is made of, beside what the standard library draws.
const NEXT_SEED: &str = "stream-K";

#[cfg(test)]
mod tests {
    use super::next_key;
    use std::collections::HashSet;

    #[test]
    fn keys_are_not_seen_twice() {
        let keys: HashSet<u64> = (0..1000).map(|_| next_key()).collect();
        assert!(keys.len() == 1000 && !keys.contains(&0));
    }
}
