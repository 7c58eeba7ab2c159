//! From a product to launches: the kernel, its grids, and the values of its parameters. What
//! launches them is a [`Driver`].

mod block;
mod copies;
mod finish;
mod maps;
mod scaled;

pub(crate) use scaled::{Scales, enqueue_scaled};

use crate::backend::Each;
use crate::cuda::{TensorLayout, TensorMap};
use crate::device::DeviceInfo;
use crate::error::Error;
use crate::plan::{Chosen, KernelChoice, Product, Task, choose, choose_kernel, mappable};
use block::Block;
use gemm_spec::{Activation, DType, Kernel, Launch, Layout, Op, Strides};

/// Takes launches: a GPU's driver, or the emulator.
pub(crate) trait Driver {
    /// The facts of its device.
    fn info(&self) -> &DeviceInfo;

    /// The map of a tensor at a device address, as this device's kernels take it.
    fn encode(&self, layout: &TensorLayout, address: u64) -> Result<TensorMap, Error>;

    /// Memory of `bytes` bytes for the launches that follow, at a multiple of 256.
    fn allocate(&self, bytes: usize) -> Result<u64, Error>;

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

/// The most parameters that a kernel has: three maps, C's address, the block, and the addresses and
/// places of scales.
pub(crate) const MAX_ARGUMENTS: usize = 8;

/// Device addresses of index 0 of each layout.
pub(crate) type Addresses = Each<u64>;

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
    let (product, addresses) = &by_rows(product, addresses);
    let shape = product.shape();
    let (operands, bases) = ([&product.a, &product.b], [addresses.a, addresses.b]);
    let task = Task::new(product.dtype, shape, product.k, operands, bases);
    let task = task.precision(product.precision);
    let Chosen { mut kernel, copied } = choose(choice, task, driver.info())?;
    if shape.is_empty() {
        return Ok(());
    }
    let within = is_within_kernel(product, addresses);
    let is_separate =
        |kernel: &Kernel| !(product.fusion.is_none() || kernel.takes_maps() && within);
    if is_separate(kernel) {
        // SAFETY: the caller's promise.
        return unsafe { finish::enqueue(driver, product, choice, addresses) };
    }
    // SAFETY: the caller's promise.
    let copies = unsafe { copies::enqueue(driver, product, addresses, copied)? };
    let (product, addresses) = match &copies {
        Some(copies) => (&copies.product, &copies.addresses),
        None => {
            // There is no memory for them.
            kernel = choose_kernel(choice, task, driver.info())?;
            if is_separate(kernel) {
                let choice = KernelChoice::Spec(*kernel);
                // SAFETY: the caller's promise.
                return unsafe { finish::enqueue(driver, product, &choice, addresses) };
            }
            (product, addresses)
        }
    };
    // SAFETY: the caller's promise.
    unsafe { launch_all(driver, kernel, product, addresses, &[]) }
}

/// Enqueues the launches of a kernel that takes the product; `more` are the values of parameters
/// behind those of every kernel.
///
/// # Safety
/// As [`enqueue`]; the kernel takes `more` over memory that it may use.
unsafe fn launch_all(
    driver: &dyn Driver,
    kernel: &'static Kernel,
    product: &Product,
    addresses: &Addresses,
    more: &[&[u8]],
) -> Result<(), Error> {
    let multiprocessors = driver.info().multiprocessors.unwrap_or(u32::MAX);
    // `choose_kernel` has seen that the shape can be launched.
    for launch in kernel.launches(product.shape()).into_iter().flatten() {
        let launch = kernel.resident(launch, multiprocessors);
        let (row, col) = launch.start;
        let a = address(addresses.a, product.dtype, &product.a, row, 0);
        let b = address(addresses.b, product.dtype, &product.b, 0, col);
        let c = address_of_c(product, addresses, &launch);
        let block = Block::of(product, addresses, &launch);
        let c_argument = bytemuck::bytes_of(&c);
        // SAFETY: a kernel takes three addresses and the block by value, or three maps, C's address
        // and the block; the caller vouches for the memory.
        unsafe {
            if kernel.takes_maps() {
                let [map_a, map_b, map_c] = maps::of_operands(driver, product, [a, b, c])?;
                let [a, b, c] = [&map_a, &map_b, &map_c].map(|map| bytemuck::bytes_of(map.words()));
                let arguments = [&[a, b, c, c_argument, block.bytes()], more].concat();
                driver.launch(kernel, &launch, &arguments)?;
            } else {
                let (a, b) = (bytemuck::bytes_of(&a), bytemuck::bytes_of(&b));
                let arguments = [&[a, b, c_argument, block.bytes()], more].concat();
                driver.launch(kernel, &launch, &arguments)?;
            }
        }
    }
    Ok(())
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
        && !fusion.amax
        && !fusion.gated
        && fusion.activation != Activation::Gelu
        && product.beta.is_none();
    is_usual && in_chunks && mappable(c, *output, addresses.c) && is_row && is_little
}

/// The same product with rows of C that are contiguous, if its rows or columns are: kernels write
/// along rows. With contiguous columns that is Cᵀ = Bᵀ * Aᵀ, unless pairs of columns, and so not of
/// rows, belong together.
fn by_rows(product: &Product, addresses: Addresses) -> (Product, Addresses) {
    let Strides { row, col } = product.c.strides;
    if row != 1 || col == 1 || product.fusion.gated {
        return (*product, addresses);
    }
    let transposed = |layout: Layout| layout.apply(Op::Transpose);
    let Product { a, b, c, .. } = *product;
    let (a, b, c) = (transposed(b), transposed(a), transposed(c));
    let product = Product { a, b, c, fusion: product.fusion.transposed(), ..*product };
    let [bias, residual, rows, cols] = addresses.sources;
    let sources = [bias, residual, cols, rows];
    (product, Addresses { a: addresses.b, b: addresses.a, sources, ..addresses })
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
    use crate::plan::{Factor, Fusion, SOURCES};
    use gemm_spec::{Precision, Shape};

    #[test]
    fn contiguous_columns_become_rows() {
        let product = |c: Layout| Product {
            dtype: DType::F32,
            output: DType::F32,
            precision: Precision::Full,
            a: Layout::row_major(Shape::new(3, 5)),
            b: Layout::row_major(Shape::new(5, 4)),
            c,
            k: 5,
            alpha: Factor::F32(1.0),
            beta: None,
            fusion: Fusion::default(),
        };
        let addresses = Addresses { a: 1, b: 2, c: 3, sources: [None; SOURCES], amax: None };
        let by_columns = product(Layout::col_major(Shape::new(3, 4)));
        let (turned, places) = by_rows(&by_columns, addresses);
        assert_eq!((places.a, places.b, places.c), (2, 1, 3));
        assert_eq!(turned.c, Layout::row_major(Shape::new(4, 3)));
        assert_eq!((turned.a.shape, turned.b.shape), (Shape::new(4, 5), Shape::new(5, 3)));
        for (p, j) in (0..5).flat_map(|p| (0..4).map(move |j| (p, j))) {
            assert_eq!(turned.a.index(j, p), by_columns.b.index(p, j));
        }
        // Rows are left as they are, and so is a C with neither.
        for c in [Layout::row_major(Shape::new(3, 4)), Layout::row_major(Shape::new(3, 1))] {
            let (same, places) = by_rows(&product(c), addresses);
            assert_eq!((same.c, places.a), (c, 1));
        }
        let spaced = Layout::strided(Shape::new(3, 4), Strides::new(9, 2));
        assert_eq!(by_rows(&product(spaced), addresses).0.c, spaced);
    }
}
