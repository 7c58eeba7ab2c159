//! From a list of products to launches.

use super::{Addresses, Driver, address, block, enqueue, maps, transposed};
use crate::cuda::TensorMap;
use crate::error::Error;
use crate::plan::{KernelChoice, Product, RowsProduct, blocks, choose_rows, group};
use gemm_spec::order::TileOrder;
use gemm_spec::{GROUPED_MAX, GroupedProduct, Kernel, Launch, Shape, Slices};

/// Words of a map.
const MAP_WORDS: usize = 16;

/// Enqueues the launches of a list of products.
///
/// # Safety
/// As [`enqueue`], for each product; no C has elements of another's matrices.
pub(crate) unsafe fn enqueue_grouped(
    driver: &dyn Driver,
    products: &[Product],
    choice: &KernelChoice,
    addresses: &[Addresses],
) -> Result<(), Error> {
    let bases: Vec<_> = addresses.iter().map(|of| [of.a, of.b]).collect();
    let Some(grouped) = group(choice, products, &bases, driver.info())? else {
        for (number, (product, addresses)) in products.iter().zip(addresses).enumerate() {
            // SAFETY: the caller's promise.
            unsafe { enqueue(driver, product, choice, *addresses) }
                .map_err(|error| error.of_product(number))?;
        }
        return Ok(());
    };
    let addresses = |&(number, product): &(usize, Product)| match grouped.turned {
        true => (product, transposed(addresses[number])),
        false => (product, addresses[number]),
    };
    let list: Vec<_> = grouped.products.iter().map(addresses).collect();
    // The first has the longest sums; where others' are empty, their operands may lie nowhere.
    let somewhere = list.first().map_or(0, |of| starts(of)[0]);
    for some in list.chunks(GROUPED_MAX) {
        // SAFETY: the caller's promise.
        unsafe { launch(driver, grouped.kernel, some, somewhere)? };
    }
    Ok(())
}

/// Where the first elements of A, B and C lie.
fn starts((product, of): &(Product, Addresses)) -> [u64; 3] {
    let Product { dtype, output, a, b, c, .. } = product;
    [(of.a, *dtype, a), (of.b, *dtype, b), (of.c, *output, c)]
        .map(|(base, dtype, layout)| address(base, dtype, layout, 0, 0))
}

/// Enqueues the launch of some; where sums are empty, their maps start `somewhere`.
///
/// # Safety
/// As [`enqueue_grouped`], for products that the kernel takes, no more than it has room for.
unsafe fn launch(
    driver: &dyn Driver,
    kernel: &'static Kernel,
    list: &[(Product, Addresses)],
    somewhere: u64,
) -> Result<(), Error> {
    let Some(&(first, _)) = list.first() else { return Ok(()) };
    let [_, _, start] = starts(&list[0]);
    let mut maps = Vec::with_capacity(GROUPED_MAX);
    let mut numbers = Vec::with_capacity(GROUPED_MAX);
    let mut tiles = 0;
    for of in list {
        let (product, [a, b, c]) = (&of.0, starts(of));
        let [a, b] = if product.k == 0 { [somewhere; 2] } else { [a, b] };
        maps.push(encoded(driver, maps::of_one(product, [a, b, c], (1, 0)))?);
        numbers.push(numbers_of(product, product.k, c.wrapping_sub(start)));
        tiles += blocks(kernel, product.shape());
    }
    let slices = Slices { count: list.len() as u32, ..Slices::one(first.k as u64) };
    let arguments = (maps, numbers, [start, 0], slices);
    // SAFETY: the caller's promise.
    unsafe { launch_list(driver, kernel, &first, tiles, arguments) }
}

/// The maps of three tensors.
fn encoded(driver: &dyn Driver, tensors: [maps::Tensor; 3]) -> Result<[TensorMap; 3], Error> {
    let map = |of: &maps::Tensor| {
        of.layout.check()?;
        driver.encode(&of.layout, of.address)
    };
    let [a, b, c] = tensors.each_ref().map(map);
    Ok([a?, b?, c?])
}

/// The product's numbers, whose C lies so many bytes from where the launch says.
fn numbers_of(product: &Product, k: usize, c: u64) -> GroupedProduct {
    let Shape { rows, cols } = product.shape();
    GroupedProduct {
        m: rows as u64,
        n: cols as u64,
        k: k as u64,
        c: c.cast_signed(),
        c_row_stride: product.c.strides.row as i64,
        c_col_stride: product.c.strides.col as i64,
    }
}

/// What a launch gets: maps and numbers of its products, the addresses from which C's are counted
/// and of the offsets, and how many products there are.
type Arguments = (Vec<[TensorMap; 3]>, Vec<GroupedProduct>, [u64; 2], Slices);

/// # Safety
/// The kernel takes the arguments over memory that it may use.
unsafe fn launch_list(
    driver: &dyn Driver,
    kernel: &'static Kernel,
    product: &Product,
    tiles: usize,
    (maps, numbers, [start, offsets], slices): Arguments,
) -> Result<(), Error> {
    let grid = (tiles.min(i32::MAX as usize) as u32, 1);
    let shape = product.shape();
    let launch = Launch { grid, layers: 1, block: kernel.block(), start: (0, 0), shape };
    let launch = kernel.resident(launch, 1, driver.info().places());
    let block = block::Block::of(product, &launch, (slices, TileOrder::default()));
    // Maps of all products there is room for, then their numbers.
    let mut table = [0u64; GROUPED_MAX * (3 * MAP_WORDS + 6)];
    let (of_maps, of_numbers) = table.split_at_mut(GROUPED_MAX * 3 * MAP_WORDS);
    let words = maps.iter().flatten().flat_map(|map| *map.words());
    of_maps.iter_mut().zip(words).for_each(|(to, word)| *to = word);
    let words = numbers.iter().flat_map(GroupedProduct::words);
    of_numbers.iter_mut().zip(words).for_each(|(to, word)| *to = word);
    let table = bytemuck::cast_slice(&table[..]);
    let (start, offsets) = (bytemuck::bytes_of(&start), bytemuck::bytes_of(&offsets));
    // SAFETY: the kernel takes the table, two addresses and the block; the caller vouches for the
    // memory.
    unsafe { driver.launch(kernel, &launch, &[table, start, offsets, block.bytes()]) }
}

/// Enqueues the products of rows whose offsets, in memory at that address, are read when they run.
///
/// # Safety
/// As [`enqueue`], for A and C with all their rows, and for the matrices B of all products. There
/// is an offset more than products, at a multiple of 4 bytes, and nobody writes to them.
pub(crate) unsafe fn enqueue_rows(
    driver: &dyn Driver,
    rows: &RowsProduct,
    choice: &KernelChoice,
    addresses: Addresses,
    offsets: u64,
) -> Result<(), Error> {
    let bases = [addresses.a, addresses.b];
    let (kernel, product) = choose_rows(choice, rows, bases, driver.info())?;
    if product.shape().is_empty() || rows.count == 0 {
        return Ok(());
    }
    let Product { dtype, output, k, .. } = product;
    let a = address(addresses.a, dtype, &product.a, 0, 0);
    let b = address(addresses.b, dtype, &product.b, 0, 0);
    let c = address(addresses.c, output, &product.c, 0, 0);
    let offsets = offsets.wrapping_add(4 * rows.first_offset as u64);
    // Of empty sums the maps are never used for what lies in them.
    let [a, b] = if k == 0 { [offsets & !15; 2] } else { [a, b] };
    let of_b = (rows.count as u32, rows.b_step);
    let maps = encoded(driver, maps::of_one(&product, [a, b, c], of_b))?;
    let shape = product.shape();
    // Each product has one row of tiles more than its rows fill, at most.
    let per_row = blocks(kernel, Shape::new(1, shape.cols));
    let tiles = blocks(kernel, shape).saturating_add(rows.count.saturating_mul(per_row));
    let slices = Slices { count: rows.count as u32, ..Slices::one(k as u64) };
    let arguments = (vec![maps], vec![numbers_of(&product, k, 0)], [c, offsets], slices);
    // SAFETY: the caller's promise.
    unsafe { launch_list(driver, kernel, &product, tiles, arguments) }
}
