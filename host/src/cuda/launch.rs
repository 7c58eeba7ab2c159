//! Launches.

use super::context::CudaContext;
use super::driver::Check;
use super::launch_ex::{LaunchAttribute, LaunchConfig, launch_ex};
use super::maps::TensorMaps;
use super::module::Function;
use crate::element::{Element, Scalar};
use crate::error::Error;
use crate::plan::{Factor, KernelChoice, Product, Task, choose_kernel};
use cust::sys::{self, CUstream};
use gemm_spec::{DType, GemmParams, Kernel, Launch, Layout, Op, Strides};
use half::{bf16, f16};
use std::ffi::c_void;

/// Device addresses of index 0 of the layouts of A, B and C.
#[derive(Clone, Copy, Debug)]
pub(super) struct Addresses {
    pub a: u64,
    pub b: u64,
    pub c: u64,
}

/// Enqueues the product's launches on `stream`. The context is current.
///
/// # Safety
/// Every element of C's layout lies in device memory of this context at its address, A's and B's
/// too where the product reads them; until the stream has got so far, nobody writes to A's and B's,
/// and nobody touches C's.
pub(super) unsafe fn enqueue(
    context: &CudaContext,
    stream: CUstream,
    product: &Product,
    choice: &KernelChoice,
    addresses: Addresses,
) -> Result<(), Error> {
    let (product, addresses) = &by_rows(product, addresses);
    // SAFETY: the caller's promise, for the dtype that the product has.
    unsafe {
        match product.dtype {
            DType::I8 => typed::<i8>(context, stream, product, choice, *addresses),
            DType::I32 => typed::<i32>(context, stream, product, choice, *addresses),
            DType::F16 => typed::<f16>(context, stream, product, choice, *addresses),
            DType::BF16 => typed::<bf16>(context, stream, product, choice, *addresses),
            DType::F32 => typed::<f32>(context, stream, product, choice, *addresses),
            DType::F64 => typed::<f64>(context, stream, product, choice, *addresses),
        }
    }
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

/// # Safety
/// As [`enqueue`]; T is the product's dtype.
unsafe fn typed<T: Element>(
    context: &CudaContext,
    stream: CUstream,
    product: &Product,
    choice: &KernelChoice,
    addresses: Addresses,
) -> Result<(), Error> {
    let shape = product.c.shape;
    let (operands, bases) = ([&product.a, &product.b], [addresses.a, addresses.b]);
    let task = Task::new(T::DTYPE, shape, product.k, operands, bases);
    let kernel = choose_kernel(choice, task, context.info())?;
    if shape.is_empty() {
        return Ok(());
    }
    let function = context.modules().function(kernel, context)?;
    let multiprocessors = context.info().multiprocessors.unwrap_or(u32::MAX);
    // `choose_kernel` has seen that the shape can be launched.
    for launch in kernel.launches(shape).into_iter().flatten() {
        let launch = kernel.resident(launch, multiprocessors);
        let (row, col) = launch.start;
        let mut a = address::<T>(addresses.a, &product.a, row, 0);
        let mut b = address::<T>(addresses.b, &product.b, 0, col);
        let mut c = address::<T::Output>(addresses.c, &product.c, row, col);
        let mut params: GemmParams<T::Scalar> = params(product, &launch);
        let (c_argument, block) = ((&raw mut c).cast(), (&raw mut params).cast());
        // SAFETY: a kernel takes three addresses and the block by value, or three maps, C's address
        // and the block, which the driver copies before it returns; grid and block are the kernel's
        // own, within the device's limits; the caller vouches for the memory.
        let result = unsafe {
            if kernel.takes_maps() {
                let mut maps = TensorMaps::new::<T>(product, [a, b, c])?;
                let [map_a, map_b, map_c] = maps.arguments();
                let arguments = [map_a, map_b, map_c, c_argument, block];
                launch_kernel(function, kernel, &launch, stream, arguments)
            } else {
                let (a, b) = ((&raw mut a).cast(), (&raw mut b).cast());
                launch_kernel(function, kernel, &launch, stream, [a, b, c_argument, block])
            }
        };
        let ((grid_x, grid_y), (block_x, block_y)) = (launch.grid, launch.block);
        result.check("cuLaunchKernel", || {
            let device = context.name();
            format!(
                "launching {} for a C of shape {shape} (grid {grid_x}x{grid_y}, block \
                {block_x}x{block_y}) on {device}",
                kernel.name
            )
        })?;
    }
    Ok(())
}

/// Kernels of compute capability 9.0 start while the one before them in the stream ends, and wait for
/// it before they touch memory.
///
/// # Safety
/// The arguments are those that the kernel takes, over memory that it may use.
unsafe fn launch_kernel<const N: usize>(
    function: Function,
    kernel: &Kernel,
    launch: &Launch,
    stream: CUstream,
    mut arguments: [*mut c_void; N],
) -> sys::CUresult {
    let ((grid_x, grid_y), (block_x, block_y)) = (launch.grid, launch.block);
    // `choose_kernel` has held it against the device's limit.
    let shared = kernel.dynamic_shared_bytes() as u32;
    // SAFETY: the caller's promise; the attribute is for kernels that wait for the grids before them.
    unsafe {
        match launch_ex().filter(|_| kernel.takes_maps()) {
            Some(launch_ex) => {
                let mut overlap = LaunchAttribute::overlap();
                let config = LaunchConfig {
                    grid: [grid_x, grid_y, 1],
                    block: [block_x, block_y, 1],
                    shared,
                    stream,
                    attributes: &raw mut overlap,
                    count: 1,
                };
                let (config, arguments) = (&raw const config, arguments.as_mut_ptr());
                launch_ex(config, function.0, arguments, std::ptr::null_mut())
            }
            None => sys::cuLaunchKernel(
                function.0,
                grid_x,
                grid_y,
                1,
                block_x,
                block_y,
                1,
                shared,
                stream,
                arguments.as_mut_ptr(),
                std::ptr::null_mut(),
            ),
        }
    }
}

/// The parameter block of one launch, whose C is a panel.
fn params<S: Scalar>(product: &Product, launch: &Launch) -> GemmParams<S> {
    let strides = [product.a, product.b, product.c].map(|layout| layout.strides);
    let beta = product.beta.map(Factor::get);
    GemmParams::new(launch.shape, product.k, strides, product.alpha.get(), beta, S::ZERO)
}

/// The device address of element (row, col). It wraps for a layout of elements that are not read,
/// and only for those.
fn address<T>(base: u64, layout: &Layout, row: usize, col: usize) -> u64 {
    let Strides { row: row_stride, col: col_stride } = layout.strides;
    let distance = (row as isize)
        .wrapping_mul(row_stride)
        .wrapping_add((col as isize).wrapping_mul(col_stride));
    let index = layout.offset.wrapping_add_signed(distance);
    base.wrapping_add(index.wrapping_mul(size_of::<T>()) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemm_spec::Shape;

    #[test]
    fn contiguous_columns_become_rows() {
        let product = |c: Layout| Product {
            dtype: DType::F32,
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
