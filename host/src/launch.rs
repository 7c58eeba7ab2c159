//! From a product to launches: the kernel, its grids, and the values of its parameters. What
//! launches them is a [`Driver`].

mod block;
mod copies;
mod finish;
mod grouped;
mod join;
mod maps;
mod one;
mod scaled;

pub(crate) use grouped::{enqueue_grouped, enqueue_rows};
pub(crate) use one::{Again, Whole};
pub(crate) use scaled::{Scales, enqueue_scaled};

use crate::backend::Each;
use crate::cuda::{TensorLayout, TensorMap};
use crate::device::DeviceInfo;
use crate::error::Error;
use crate::plan::{Batch, Chosen, Found, KernelChoice, PlanCache, Product, Rest, Rows, Task};
use crate::plan::{choose_for, mappable};
use gemm_spec::{
    Activation, DType, Kernel, Launch, Layout, Reads, SPLIT, Shape, Slices, Strides, Writes,
};
use join::is_shared;
use one::{OneLaunch, as_taken};
use std::ops::Range;

/// Takes launches: a GPU's driver, or the emulator.
pub(crate) trait Driver {
    /// The facts of its device.
    fn info(&self) -> &DeviceInfo;

    /// What was chosen and launched on its device before, and what was tuned for it.
    fn plans(&self) -> &PlanCache;

    /// The map of a tensor at a device address, as this device's kernels take it; the layout has
    /// been [checked](TensorLayout::check).
    fn encode(&self, layout: &TensorLayout, address: u64) -> Result<TensorMap, Error>;

    /// Memory of `bytes` bytes for the launches that follow, at a multiple of 256.
    fn allocate(&self, bytes: usize) -> Result<u64, Error>;

    /// Says of memory from [`Driver::allocate`] that launches read it before anything has been
    /// written there, whatever it holds.
    fn let_read(&self, address: u64, bytes: usize) -> Result<(), Error>;

    /// Gives memory from [`Driver::allocate`] back when the launches so far are done.
    fn release(&self, address: u64);

    /// Enqueues one launch. `arguments` are the values of the kernel's parameters, in their order;
    /// they are copied before the call returns.
    ///
    /// # Safety
    /// The arguments are those that the kernel takes, over memory that it may use.
    unsafe fn launch(
        &self,
        kernel: &'static Kernel,
        launch: &Launch,
        arguments: &[&[u8]],
    ) -> Result<(), Error>;
}

/// Device addresses of index 0 of each layout.
pub(crate) type Addresses = Each<u64>;

/// How a launch divides a product: parts of K that it sums apart from each other, and tiles.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Parts {
    count: usize,
    /// K of all but the last.
    len: usize,
    /// Bytes from the sums of one to those of the next.
    bytes: usize,
    /// Columns of a tile, where they are fewer than the kernel's; else 0.
    tile_cols: usize,
    /// Whether C is memory for sums, which the next kernel reads.
    is_read_next: bool,
}

impl Parts {
    /// K is not split, and tiles are whole.
    const ONE: Parts = Parts { count: 1, len: 0, bytes: 0, tile_cols: 0, is_read_next: false };

    /// The products that a kernel computes for all of K or for its parts, from number `range.start`
    /// of the batch on, and the K of all but the last.
    fn slices(&self, kernel: &Kernel, product: &Product, range: &Range<usize>) -> (Slices, usize) {
        let Parts { count, len, bytes, tile_cols, .. } = *self;
        if count == 1 {
            let tile_cols = tile_cols as u32;
            return (Slices { tile_cols, ..batch(product, range.len()) }, product.k);
        }
        let size = product.dtype.size_bytes() as i64;
        let further = |stride: isize| (len as i64).wrapping_mul(stride as i64).wrapping_mul(size);
        // Steps past K's end find zeros there.
        let (last_k, map_k) = match kernel.takes_steps_in_turn() {
            true => (len, kernel.tiles.block[2]),
            false => (product.k - (count - 1) * len, len),
        };
        let slices = Slices {
            last_k: last_k as u64,
            a: further(product.a.strides.col),
            b: further(product.b.strides.row),
            c: bytes as i64,
            count: count as u32,
            map_k: map_k as u32,
            map_batch: 0,
            tile_cols: tile_cols as u32,
        };
        (slices, len)
    }
}

/// So many products of a batch, as a kernel takes them.
fn batch(product: &Product, count: usize) -> Slices {
    let Batch { a, b, c, .. } = product.batch;
    let bytes = |step: isize, dtype: DType| (step as i64).wrapping_mul(dtype.size_bytes() as i64);
    match count {
        1 => Slices::one(product.k as u64),
        _ => Slices {
            a: bytes(a, product.dtype),
            b: bytes(b, product.dtype),
            c: bytes(c, product.output),
            count: count as u32,
            map_batch: 1,
            ..Slices::one(product.k as u64)
        },
    }
}

/// Enqueues the product's launches.
///
/// # Safety
/// Every element of C's layout lies in memory of the driver's device at its address, A's and B's
/// too where the product reads them, and the epilogue's; until the work is done, nobody writes to
/// what is read, and nobody touches C's and amax.
pub(crate) unsafe fn enqueue(
    driver: &dyn Driver,
    product: &Product,
    choice: &KernelChoice,
    addresses: Addresses,
) -> Result<(), Error> {
    let (plans, info) = (driver.plans(), driver.info());
    let again = Again::of(product, choice, &addresses);
    let found = again.as_ref().map(|again| plans.launch(again));
    if let Some(Found::Before(whole)) = &found {
        // SAFETY: the caller's promise.
        return unsafe { whole.enqueue(driver, &addresses) };
    }
    let (of_caller, (product, turned)) = (addresses, product.oriented(choice, info));
    let addresses = if turned { transposed(addresses) } else { addresses };
    let task = Task::of(&product, [addresses.a, addresses.b]);
    let choose = |task: &Task| plans.choose(choice, task, info);
    let chosen = choose_for(&product, choice, &task, choose)?;
    if let KernelChoice::Own(own) = choice {
        own.check_alone(&product)?;
    }
    if product.shape().is_empty() || product.batch.count == 0 {
        return Ok(());
    }
    if let KernelChoice::Own(own) = choice {
        let (kernel, more) = (chosen.kernel, own.arguments());
        // SAFETY: the caller's promise, and that of who made it.
        return unsafe { launch_all(driver, kernel, &product, &addresses, (Parts::ONE, &more)) };
    }
    if let Some((again, Found::Never(since))) = again.zip(found)
        && let Some(whole) = Whole::of(info, (&product, turned), &addresses, &chosen)?
    {
        // SAFETY: the caller's promise.
        unsafe { whole.enqueue(driver, &of_caller)? };
        plans.keep_launch(again, whole, since);
        return Ok(());
    }
    // Another kernel would sum in another order.
    let may_change = *choice == KernelChoice::Auto && task.rows == Rows::Free;
    let parts = chosen.parts.max(chosen.rest.map_or(1, |rest| rest.parts));
    let joins = chosen.kernel.joins() || chosen.rest.is_some_and(|rest| rest.kernel.joins());
    let takes_memory = parts > 1 || chosen.copied != [false; 2] || joins;
    // SAFETY: the caller's promise.
    match unsafe { enqueue_chosen(driver, &product, &addresses, chosen) } {
        // There is no memory, and nothing has been launched that writes to C. Of memory for a
        // kernel's code, which may be loaded later, that is not so.
        Err(error) if error.is_out_of_data_memory() && takes_memory && may_change => {
            let task = task.in_place();
            let chosen = choose_for(&product, choice, &task, choose)?;
            // SAFETY: the caller's promise.
            unsafe { enqueue_chosen(driver, &product, &addresses, chosen) }
        }
        done => done,
    }
}

/// # Safety
/// As [`enqueue`].
unsafe fn enqueue_chosen(
    driver: &dyn Driver,
    product: &Product,
    addresses: &Addresses,
    chosen: Chosen,
) -> Result<(), Error> {
    let has_epilogue = does_epilogue(chosen.kernel, product, addresses);
    // Other epilogues need memory, which may be lacking when part of C has been written.
    if let Some(rest) = chosen.rest.filter(|_| product.fusion.is_none() || has_epilogue) {
        // SAFETY: the caller's promise.
        return unsafe { enqueue_apart(driver, product, addresses, (chosen, rest)) };
    }
    // SAFETY: the caller's promise.
    unsafe {
        match chosen.parts > 1 || !(product.fusion.is_none() || has_epilogue) {
            true => finish::enqueue(driver, product, addresses, chosen),
            false => {
                let parts = Parts { tile_cols: chosen.tile_cols, ..Parts::ONE };
                multiply(driver, product, addresses, chosen, parts)
            }
        }
    }
}

/// Enqueues copies of operands, and what two kernels compute of C with them.
///
/// # Safety
/// As [`enqueue`].
unsafe fn enqueue_apart(
    driver: &dyn Driver,
    product: &Product,
    addresses: &Addresses,
    (chosen, rest): (Chosen, Rest),
) -> Result<(), Error> {
    let own = Chosen { copied: [false; 2], rest: None, ..chosen };
    let apart = Chosen { kernel: rest.kernel, parts: rest.parts, ..own };
    // SAFETY: the caller's promise.
    unsafe {
        let copies = copies::enqueue(driver, product, addresses, (chosen.kernel, chosen.copied))?;
        let [main, last] = rest.products(&copies.product);
        let of_last = copies.addresses;
        let of_last = if rest.turned { transposed(of_last) } else { of_last };
        // One of them has parts at most. It comes first, since it may lack memory, and then nothing
        // that writes to C has been launched.
        if own.parts > 1 {
            enqueue_chosen(driver, &main, &copies.addresses, own)?;
            return enqueue_chosen(driver, &last, &of_last, apart);
        }
        enqueue_chosen(driver, &last, &of_last, apart)?;
        enqueue_chosen(driver, &main, &copies.addresses, own)
    }
}

/// Enqueues copies of operands, and the kernel that reads them.
///
/// # Safety
/// As [`enqueue`]; C has room for all parts, and the kernel does the epilogue.
unsafe fn multiply(
    driver: &dyn Driver,
    product: &Product,
    addresses: &Addresses,
    chosen: Chosen,
    parts: Parts,
) -> Result<(), Error> {
    // SAFETY: the caller's promise.
    unsafe {
        let copies = copies::enqueue(driver, product, addresses, (chosen.kernel, chosen.copied))?;
        let (product, addresses) = (&copies.product, &copies.addresses);
        // Of split elements K has as many.
        let summands = if chosen.kernel.splits_elements() { SPLIT } else { 1 };
        let parts = Parts { len: summands * parts.len, ..parts };
        match chosen.kernel.joins() {
            true => join::launch(driver, chosen.kernel, product, addresses),
            false => launch_all(driver, chosen.kernel, product, addresses, (parts, &[])),
        }
    }
}

/// Enqueues the launches of a kernel that takes the product, with K in parts; `more` are the values
/// of parameters behind those of every kernel.
///
/// # Safety
/// As [`enqueue`]; the kernel takes `more` over memory that it may use.
unsafe fn launch_all(
    driver: &dyn Driver,
    kernel: &'static Kernel,
    product: &Product,
    addresses: &Addresses,
    (parts, more): (Parts, &[&[u8]]),
) -> Result<(), Error> {
    let (product, addresses, _) = as_taken(kernel, product, addresses);
    for one in OneLaunch::all(driver.info(), kernel, &product, &addresses, parts) {
        // SAFETY: the caller's promise.
        unsafe { one?.enqueue(driver, &addresses, more)? };
    }
    Ok(())
}

/// When a launch reads A and B that may be read at once: in order where its blocks are one wave
/// that fills most of the GPU. Those of the launch before end together then, so that nothing is
/// gained, and copies would only take bandwidth from them.
fn reads_of(product: &Product, launch: &Launch, of_tile: u32, multiprocessors: u32) -> Reads {
    let (x, y) = launch.grid;
    let blocks = x.saturating_mul(y).saturating_mul(of_tile);
    match product.reads {
        Reads::AtOnce if blocks > multiprocessors / 2 && blocks <= multiprocessors => {
            Reads::InOrder
        }
        reads => reads,
    }
}

/// How a kernel writes C. A C that is most of what memory moves, and that the L2 cache does not
/// hold, is the first to leave it, unless the next kernel reads it. On an H200, whose memory is
/// fast, C is late where the cache holds A and B anyway, and kernels that can go through it row by
/// row do that instead of the former; on an H100 that takes longer (docs/performance.md).
fn writes_of(product: &Product, kernel: &Kernel, is_read_next: bool, info: &DeviceInfo) -> Writes {
    const HELD_BYTES: usize = 8 << 20;
    const C_BYTES: usize = 64 << 20;
    const OF_OPERANDS: usize = 4;
    let bytes = |layout: &Layout, dtype: DType| {
        let Shape { rows, cols } = layout.shape;
        rows.saturating_mul(cols).saturating_mul(dtype.size_bytes())
    };
    let [a, b] = [&product.a, &product.b].map(|layout| bytes(layout, product.dtype));
    let (of_operands, of_c) = (a.saturating_add(b), bytes(&product.c, product.output));
    let is_late = info.has_fast_memory() && of_operands <= HELD_BYTES;
    let is_most = of_c / OF_OPERANDS >= of_operands;
    let is_large = of_c.saturating_mul(product.batch.count) >= C_BYTES;
    match is_most && is_large && !is_read_next {
        _ if is_late && kernel.goes_by_rows() => Writes::Late,
        true => Writes::FirstOut,
        false if is_late => Writes::Late,
        false => Writes::Plain,
    }
}

/// Whether the kernel does the product's epilogue.
fn does_epilogue(kernel: &Kernel, product: &Product, addresses: &Addresses) -> bool {
    kernel.has_epilogues() && is_within_kernel(product, addresses)
}

/// Whether kernels that read tensor maps have the product's epilogue: a row of biases and an
/// activation other than the longest, for the usual C, of 16 bits, that a map can describe to its
/// end.
fn is_within_kernel(product: &Product, addresses: &Addresses) -> bool {
    let Product { output, c, fusion, .. } = product;
    let [bias, others @ ..] = &fusion.sources;
    let is_usual = *output == product.dtype.output() && output.size_bytes() == 2;
    let in_chunks = c.shape.cols.is_multiple_of(8) && c.strides.col == 1;
    let is_row = bias.is_none_or(|bias| {
        let address = address(addresses.sources[0].unwrap_or(0), *output, &bias, 0, 0);
        let Strides { row, col } = bias.strides;
        row == 0 && col == 1 && address.is_multiple_of(4)
    });
    let is_little = others.iter().all(Option::is_none)
        && fusion.amax.is_none()
        && !fusion.gated
        && fusion.activation != Activation::Gelu
        && product.beta.is_none();
    is_usual && in_chunks && mappable(c, *output, addresses.c) && is_row && is_little
}

/// The addresses for the transposed product.
fn transposed(addresses: Addresses) -> Addresses {
    let [bias, residual, rows, cols] = addresses.sources;
    let sources = [bias, residual, cols, rows];
    Addresses { a: addresses.b, b: addresses.a, sources, ..addresses }
}

/// Where the part of C that a launch writes begins.
fn address_of_c(product: &Product, addresses: &Addresses, launch: &Launch) -> u64 {
    let (row, col) = launch.start;
    let col = product.fusion.cols_of_c(col);
    address(addresses.c, product.output, &product.c, row, col)
}

/// The device address of element (row, col). It wraps for a layout of elements that are not read,
/// and only for those.
fn address(base: u64, dtype: DType, layout: &Layout, row: usize, col: usize) -> u64 {
    let Strides { row: row_stride, col: col_stride } = layout.strides;
    let distance = (row as isize)
        .wrapping_mul(row_stride)
        .wrapping_add((col as isize).wrapping_mul(col_stride));
    let index = layout.offset.wrapping_add_signed(distance);
    base.wrapping_add(index.wrapping_mul(dtype.size_bytes()) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::{h100, product};

    const H100: u64 = 3_352_000_000_000;
    const H200: u64 = 4_917_000_000_000;

    /// What a kernel is told of a product of bf16 on a GPU with such memory.
    fn told(
        variant: &str,
        (m, n, k): (usize, usize, usize),
        count: usize,
        bandwidth: u64,
        next: bool,
    ) -> Writes {
        let [a, b] = [(m, k), (k, n)].map(|(r, c)| Layout::row_major(Shape::new(r, c)));
        let mut product = product(a, b);
        product.batch.count = count;
        let kernel = Kernel::find(variant, DType::BF16).unwrap();
        let info = DeviceInfo { memory_bandwidth: Some(bandwidth), ..h100() };
        writes_of(&product, kernel, next, &info)
    }

    #[test]
    fn a_large_c_that_is_most_of_what_moves_leaves_the_cache_first() {
        for variant in ["warp_group_128x128", "warp_group_128x192"] {
            let on_h100 = |shape, count| told(variant, shape, count, H100, false);
            assert_eq!(on_h100((8192, 8192, 64), 1), Writes::FirstOut);
            assert_eq!(on_h100((8192, 8192, 8192), 1), Writes::Plain);
            assert_eq!(on_h100((4096, 4096, 64), 1), Writes::Plain);
            assert_eq!(on_h100((4096, 4096, 64), 2), Writes::FirstOut);
            assert_eq!(on_h100((0, 0, 0), 1), Writes::Plain);
            assert_eq!(told(variant, (8192, 8192, 64), 1, H100, true), Writes::Plain);
        }
    }

    #[test]
    fn a_fast_memory_gets_c_late() {
        let on_h200 = |variant, shape, next| told(variant, shape, 1, H200, next);
        let by_rows = "warp_group_128x128";
        assert_eq!(on_h200(by_rows, (8192, 8192, 64), false), Writes::Late);
        assert_eq!(on_h200(by_rows, (8192, 8192, 64), true), Writes::Late);
        assert_eq!(on_h200(by_rows, (8192, 8192, 8192), false), Writes::Plain);
        let other = "warp_group_128x192";
        assert_eq!(on_h200(other, (8192, 8192, 64), false), Writes::FirstOut);
        assert_eq!(on_h200(other, (8192, 8192, 64), true), Writes::Late);
        assert_eq!(on_h200(other, (4096, 4096, 64), false), Writes::Late);
        assert_eq!(on_h200(other, (8192, 8192, 8192), false), Writes::Plain);
    }
}
