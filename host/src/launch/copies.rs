//! Operands that are copied before a product, to rows along K, or along M and N.

use super::{Addresses, Driver, address};
use crate::error::{Error, Kind};
use crate::plan::{Batch, Product, layers};
use gemm_spec::{
    DType, Kernel, Launch, Layout, MAX_GRID_Y, Op, Reads, RepackParams, SPLIT_DEPTH, Shape,
    Strides, split_cols,
};

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

/// Enqueues copies of A and of B, where they are wanted, as they are made for `reader`: both by one
/// launch, if it can have blocks for all.
///
/// # Safety
/// As [`enqueue`](super::enqueue).
pub(super) unsafe fn enqueue<'a>(
    driver: &'a dyn Driver,
    product: &Product,
    addresses: &Addresses,
    (reader, [copy_a, copy_b]): (&Kernel, [bool; 2]),
) -> Result<Copies<'a>, Error> {
    let (product, addresses) = (*product, *addresses);
    let mut copies = Copies { product, addresses, driver, memory: Vec::new() };
    // `choose` has seen that there is one.
    let kernel = gemm_spec::repack(product.dtype, reader.precision);
    let Some((kernel, along_k)) = kernel.zip(reader.copies_are_along_k()) else {
        return Ok(copies);
    };
    // What makes the rows of the copies of an A of M x K and a B of K x N.
    let [turn_a, turn_b] = match along_k {
        true => [Op::None, Op::Transpose],
        false => [Op::Transpose, Op::None],
    };
    let batch = product.batch;
    if copy_a || copy_b {
        // Copies are read when they have ended.
        copies.product.reads = Reads::Behind;
    }
    let (mut of_a, mut of_b) = (Pending::default(), Pending::default());
    if copy_a {
        let a = product.a.apply(turn_a);
        let (pending, (layout, step), memory) = copies.one(kernel, &a, addresses.a, batch.a)?;
        of_a = pending;
        (copies.product.a, copies.product.batch.a) = (layout.apply(turn_a), step);
        copies.addresses.a = memory;
    }
    if copy_b {
        let b = product.b.apply(turn_b);
        let (pending, (layout, step), memory) = copies.one(kernel, &b, addresses.b, batch.b)?;
        of_b = pending;
        (copies.product.b, copies.product.batch.b) = (layout.apply(turn_b), step);
        copies.addresses.b = memory;
    }
    if kernel.splits_elements() {
        // What is multiplied from here on is a product of these.
        copies.product.dtype = DType::BF16;
        copies.product.k = copies.product.a.shape.cols;
    }
    // SAFETY: the caller's promise; the memory has room for all.
    unsafe {
        match (&of_a[..], &of_b[..]) {
            ([a], [b]) if a.launch.layers + b.launch.layers <= MAX_GRID_Y as u32 => {
                launch(driver, kernel, a, Some(b))?;
            }
            (a, b) => {
                for pending in a.iter().chain(b) {
                    launch(driver, kernel, pending, None)?;
                }
            }
        }
    }
    Ok(copies)
}

/// The launches that copy an operand.
type Pending = Vec<OneLaunch>;

/// A launch that copies an operand or a part of it.
struct OneLaunch {
    launch: Launch,
    /// Where that begins, and its copy.
    from: u64,
    to: u64,
    params: RepackParams,
}

/// Enqueues a launch, and a second one as its last layers.
///
/// # Safety
/// The sources' elements may be read, the targets' memory may be written, rows to the end of their
/// pitch.
unsafe fn launch(
    driver: &dyn Driver,
    kernel: &'static Kernel,
    first: &OneLaunch,
    second: Option<&OneLaunch>,
) -> Result<(), Error> {
    let mut of_both = first.launch;
    let mut arguments = Vec::with_capacity(2);
    for one in [Some(first), second] {
        let (from, to, params) =
            one.map_or_else(Default::default, |of| (of.from, of.to, of.params));
        arguments.push(([from, to], params.words()));
    }
    if let Some(OneLaunch { launch, .. }) = second {
        let (x, y) = of_both.grid;
        of_both.grid = (x.max(launch.grid.0), y.max(launch.grid.1));
        of_both.layers += launch.layers;
    }
    let arguments: Vec<&[u8]> = (arguments.iter())
        .flat_map(|([from, to], params)| {
            [bytemuck::bytes_of(from), bytemuck::bytes_of(to), bytemuck::cast_slice(params)]
        })
        .collect();
    // SAFETY: the kernel takes two addresses and a block by value, twice; the caller vouches for
    // the memory.
    unsafe { driver.launch(kernel, &of_both, &arguments) }
}

impl Copies<'_> {
    /// The copies of one operand's rows, of all products of the batch, which lie `step`
    /// elements apart, to rows at multiples of 16 bytes: the launches that make them, their layout
    /// and step, and where they are.
    fn one(
        &mut self,
        kernel: &'static Kernel,
        source: &Layout,
        source_at: u64,
        step: isize,
    ) -> Result<(Pending, (Layout, isize), u64), Error> {
        let Product { dtype, batch, .. } = self.product;
        // One that all products share is copied once.
        let count = if step == 0 { 1 } else { batch.count };
        let shape = source.shape;
        let splits = kernel.splits_elements();
        let (target, bytes) = if splits { in_summands(shape)? } else { in_rows(dtype, shape)? };
        let of_target = if splits { DType::BF16 } else { dtype };
        // Tiles that write zeros behind K take part too.
        let cols = if splits { shape.cols.next_multiple_of(SPLIT_DEPTH) } else { shape.cols };
        let written = Shape::new(shape.rows, cols);
        let total = bytes.checked_mul(count).filter(|&total| isize::try_from(total).is_ok());
        let total = total.ok_or_else(|| Error::new(Kind::TooLarge { shape, dtype }))?;
        let memory = self.driver.allocate(total)?;
        self.memory.push(memory);
        let target_step = (bytes / of_target.size_bytes()) as isize;
        let mut pending = Pending::new();
        for range in layers(count) {
            let source = Batch::layout(*source, step, range.start);
            let target = Batch::layout(target, target_step, range.start);
            // A shape that fits into memory has launches.
            for launch in kernel.launches(written).into_iter().flatten() {
                let launch = Launch { layers: range.len() as u32, ..launch };
                let (row, col) = launch.start;
                let params = RepackParams {
                    layers: u64::from(launch.layers),
                    rows: launch.shape.rows as u64,
                    cols: (shape.cols - col) as u64,
                    row_stride: source.strides.row as i64,
                    col_stride: source.strides.col as i64,
                    pitch: target.strides.row as u64,
                    source_step: step as i64,
                    target_step: target_step as i64,
                };
                let from = address(source_at, dtype, &source, row, col);
                let to = address(memory, of_target, &target, row, col);
                pending.push(OneLaunch { launch, from, to, params });
            }
        }
        Ok((pending, (target, if step == 0 { 0 } else { target_step }), memory))
    }
}

/// Rows at multiples of 16 bytes, one behind the other, and the bytes of all of them. Long rows are
/// at multiples of 128, which are a step's: so no step is two reads.
pub(super) fn in_rows(dtype: DType, shape: Shape) -> Result<(Layout, usize), Error> {
    let size = dtype.size_bytes();
    let unit = if shape.cols >= 1024 / size { 128usize } else { 16 };
    let pitch = shape.cols.checked_next_multiple_of(unit.div_ceil(size));
    let bytes = pitch.and_then(|pitch| pitch.checked_mul(shape.rows)?.checked_mul(size));
    match (pitch, bytes) {
        (Some(pitch), Some(bytes)) if isize::try_from(bytes).is_ok() => {
            let strides = Strides::new(pitch as isize, 1);
            Ok((Layout { shape, strides, offset: 0 }, bytes))
        }
        _ => Err(Error::new(Kind::TooLarge { shape, dtype })),
    }
}

/// Rows of bf16 of which each element of a matrix of that shape has three, one behind the other,
/// and the bytes of all of them.
fn in_summands(shape: Shape) -> Result<(Layout, usize), Error> {
    let cols = split_cols(shape.cols).filter(|&cols| isize::try_from(cols).is_ok());
    let cols = cols.ok_or_else(|| Error::new(Kind::TooLarge { shape, dtype: DType::F32 }))?;
    in_rows(DType::BF16, Shape::new(shape.rows, cols))
}
