//! From a product to launches: the kernel, its grids, and the values of its parameters. What
//! launches them is a [`Driver`].

mod copies;
mod maps;
mod scaled;

pub(crate) use scaled::{Scales, enqueue_scaled};

use crate::cuda::{TensorLayout, TensorMap};
use crate::device::DeviceInfo;
use crate::element::Scalar;
use crate::error::Error;
use crate::plan::{Chosen, Factor, KernelChoice, Product, Task, choose, choose_kernel};
use gemm_spec::{DType, GemmParams, Kernel, Launch, Layout, Op, Strides};
use std::mem::offset_of;

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

/// Device addresses of index 0 of the layouts of A, B and C.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addresses {
    pub a: u64,
    pub b: u64,
    pub c: u64,
}

/// Enqueues the product's launches.
///
/// # Safety
/// Every element of C's layout lies in memory of the driver's device at its address, A's and B's
/// too where the product reads them; until the work is done, nobody writes to A's and B's, and
/// nobody touches C's.
pub(crate) unsafe fn enqueue(
    driver: &dyn Driver,
    product: &Product,
    choice: &KernelChoice,
    addresses: Addresses,
) -> Result<(), Error> {
    let (product, addresses) = &by_rows(product, addresses);
    let shape = product.c.shape;
    let (operands, bases) = ([&product.a, &product.b], [addresses.a, addresses.b]);
    let task = Task::new(product.dtype, shape, product.k, operands, bases);
    let task = task.precision(product.precision);
    let Chosen { mut kernel, copied } = choose(choice, task, driver.info())?;
    if shape.is_empty() {
        return Ok(());
    }
    // SAFETY: the caller's promise.
    let copies = unsafe { copies::enqueue(driver, product, addresses, copied)? };
    let (product, addresses) = match &copies {
        Some(copies) => (&copies.product, &copies.addresses),
        None => {
            // There is no memory for them.
            kernel = choose_kernel(choice, task, driver.info())?;
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
    for launch in kernel.launches(product.c.shape).into_iter().flatten() {
        let launch = kernel.resident(launch, multiprocessors);
        let (row, col) = launch.start;
        let a = address(addresses.a, product.dtype, &product.a, row, 0);
        let b = address(addresses.b, product.dtype, &product.b, 0, col);
        let c = address(addresses.c, product.output, &product.c, row, col);
        let block = Block::of(product, &launch);
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

/// The same product with rows of C that are contiguous, if its rows or columns are: kernels write
/// along rows. With contiguous columns that is Cᵀ = Bᵀ * Aᵀ.
fn by_rows(product: &Product, addresses: Addresses) -> (Product, Addresses) {
    let Strides { row, col } = product.c.strides;
    if row != 1 || col == 1 {
        return (*product, addresses);
    }
    let transposed = |layout: Layout| layout.apply(Op::Transpose);
    let Product { a, b, c, .. } = *product;
    let product = Product { a: transposed(b), b: transposed(a), c: transposed(c), ..*product };
    (product, Addresses { a: addresses.b, b: addresses.a, ..addresses })
}

/// The parameter block of one launch, whose C is a panel.
fn params<S: Scalar>(product: &Product, launch: &Launch) -> GemmParams<S> {
    let strides = [product.a, product.b, product.c].map(|layout| layout.strides);
    let beta = product.beta.map(Factor::get);
    GemmParams::new(launch.shape, product.k, strides, product.alpha.get(), beta, S::ZERO)
        .output(product.output)
}

/// The bytes of a parameter block, with zeros between its fields.
struct Block {
    words: [u64; 12],
    len: usize,
}

impl Block {
    /// The block of a launch. Its fields lie at the same places for factors of the same size, which
    /// those of i32 and f32 are.
    fn of(product: &Product, launch: &Launch) -> Block {
        match product.alpha {
            Factor::I32(_) => Block::new(&params::<i32>(product, launch)),
            Factor::F32(_) => Block::new(&params::<f32>(product, launch)),
            Factor::F64(_) => Block::new(&params::<f64>(product, launch)),
        }
    }

    fn new<S: Scalar>(params: &GemmParams<S>) -> Block {
        const { assert!(size_of::<GemmParams<S>>() <= size_of::<[u64; 12]>()) };
        let mut words = [0; 12];
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
        macro_rules! put {
            ($($field:ident)*) => {$(
                let field = bytemuck::bytes_of(&params.$field);
                bytes[offset_of!(GemmParams<S>, $field)..][..field.len()].copy_from_slice(field);
            )*};
        }
        put!(m n k a_row_stride a_col_stride b_row_stride b_col_stride c_row_stride c_col_stride);
        put!(alpha beta reads_c output);
        Block { words, len: size_of::<GemmParams<S>>() }
    }

    fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.len]
    }
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
    use gemm_spec::{Precision, Shape};

    #[test]
    fn blocks_have_every_field() {
        fn check<S: Scalar>(alpha: S, beta: S) {
            let strides = [(-1, 2), (3, -4), (5, 6)].map(|(row, col)| Strides::new(row, col));
            let params = GemmParams::new(Shape::new(1, 2), 3, strides, alpha, Some(beta), S::ZERO)
                .output(DType::BF16);
            let block = Block::new(&params);
            assert_eq!(block.bytes().len(), size_of_val(&params));
            // SAFETY: the block has the struct's size and alignment and holds all of its fields.
            let read = unsafe { block.words.as_ptr().cast::<GemmParams<S>>().read() };
            assert_eq!(read, params);
        }
        check(7, -8);
        check(0.5f32, -1.5);
        check(0.25f64, -2.5);
    }

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
        };
        let addresses = Addresses { a: 1, b: 2, c: 3 };
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
