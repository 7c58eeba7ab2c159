//! Products that a device's memory does not hold: panel by panel.
//!
//! The smaller operand is cut into panels of columns of C, the other one into panels of rows. One
//! panel of the first stays on the device while all of the second come and go, two at a time: one
//! is copied while the other is multiplied.

use super::{Stage, check_choice, copy_in, multiply_staged};
use crate::backend::HostOperands;
use crate::device::DeviceInfo;
use crate::error::Error;
use crate::plan::{KernelChoice, Product};
use crate::streaming::{Progress, Streaming};
use gemm_spec::{Layout, Op};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Panels that are on their way at a time.
const WORKERS: usize = 2;
/// Rows of C that a panel has at least, if it can: with fewer, a GPU waits for copies.
const ENOUGH: usize = 2048;
/// Panels begin at multiples of so many rows and columns, where there are as many.
const GRANULE: usize = 64;

/// Rows and columns of a panel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Panels {
    pub rows: usize,
    pub cols: usize,
}

/// The bytes of the product's matrices on the device.
pub(super) fn bytes(product: &Product) -> Option<usize> {
    let shape = product.shape();
    needed(product, Panels { rows: shape.rows, cols: shape.cols }, 1)
}

/// The bytes of a panel of B's columns, and of so many panels of rows of A and C.
fn needed(product: &Product, panels: Panels, workers: usize) -> Option<usize> {
    let of = |rows: usize, cols: usize, bytes: usize| rows.checked_mul(cols)?.checked_mul(bytes);
    let size = product.dtype.size_bytes();
    let a = of(panels.rows, product.k, size)?;
    let c = of(panels.rows, panels.cols, product.output.size_bytes())?;
    let moving = a.checked_add(c)?.checked_mul(workers)?;
    of(panels.cols, product.k, size)?.checked_add(moving)
}

/// The panels of a product in so much memory: as few of columns as leave enough rows, since all of
/// A is copied for each of them. `None` where not even the smallest fit.
pub(super) fn panels(product: &Product, memory: usize) -> Option<Panels> {
    let shape = product.shape();
    let cut = |extent: usize, parts: usize| {
        let len = extent.div_ceil(parts);
        len.checked_next_multiple_of(GRANULE).unwrap_or(len).min(extent).max(1)
    };
    let mut smallest = None;
    let mut parts = 1;
    loop {
        let cols = cut(shape.cols, parts);
        let fits = |rows: &usize| {
            let needed = needed(product, Panels { rows: *rows, cols }, WORKERS);
            needed.is_some_and(|needed| needed <= memory)
        };
        // The most rows that fit, by halves.
        let mut tries = (0..usize::BITS).map(|i| cut(shape.rows, 1 << i.min(62)));
        if let Some(rows) = tries.find(fits) {
            if rows >= ENOUGH.min(shape.rows) {
                return Some(Panels { rows, cols });
            }
            smallest.get_or_insert(Panels { rows, cols });
        }
        if cols <= GRANULE || cols == 1 {
            return smallest;
        }
        parts *= 2;
    }
}

/// The part of the product that gives those rows and columns of C.
fn part(product: &Product, rows: &Range<usize>, cols: &Range<usize>) -> Product {
    let block = |layout: Layout, rows: Option<&Range<usize>>, cols: Option<&Range<usize>>| {
        let mut block = layout;
        if let Some(rows) = rows {
            block.offset = moved(block.offset, rows.start, layout.strides.row);
            block.shape.rows = rows.len();
        }
        if let Some(cols) = cols {
            block.offset = moved(block.offset, cols.start, layout.strides.col);
            block.shape.cols = cols.len();
        }
        block
    };
    Product {
        a: block(product.a, Some(rows), None),
        b: block(product.b, None, Some(cols)),
        c: block(product.c, Some(rows), Some(cols)),
        ..*product
    }
}

fn moved(offset: usize, count: usize, stride: isize) -> usize {
    offset.wrapping_add_signed((count as isize).wrapping_mul(stride))
}

/// The same product with the larger operand in A's place.
fn larger_first(product: &Product, operands: &HostOperands) -> (Product, HostOperands) {
    let shape = product.shape();
    if shape.rows >= shape.cols {
        return (*product, *operands);
    }
    let turned = |layout: Layout| layout.apply(Op::Transpose);
    let (a, b, c) = (turned(product.b), turned(product.a), turned(product.c));
    let operands = HostOperands { a: operands.b, b: operands.a, ..*operands };
    (Product { a, b, c, ..*product }, operands)
}

/// Checks, before any copy, that the choice runs on all panels. They are as large as the first but
/// for the last, which may be so small that it is computed turned.
fn check_panels(
    info: &DeviceInfo,
    product: &Product,
    kernel: &KernelChoice,
    (rows, cols): (usize, usize),
) -> Result<(), Error> {
    let ends = |extent: usize, len: usize| [0..len, (extent - 1) / len * len..extent];
    let shape = product.shape();
    for of_rows in ends(shape.rows, rows) {
        for of_cols in ends(shape.cols, cols) {
            check_choice(info, &part(product, &of_rows, &of_cols), kernel)?;
        }
    }
    Ok(())
}

/// The host's matrices, on their way to several threads.
struct Shared(HostOperands);

// SAFETY: the operands are read by all threads, and each element of C is touched by one.
unsafe impl Sync for Shared {}

impl Shared {
    fn operands(&self) -> &HostOperands {
        &self.0
    }
}

/// Multiplies panel by panel within so many bytes of the device's memory; `None` where not even the
/// smallest panels fit.
///
/// # Safety
/// As [`multiply_host`](super::multiply_host), for a product without an epilogue whose K is not 0.
pub(super) unsafe fn multiply<S: Stage + Sync>(
    device: &S,
    product: &Product,
    kernel: &KernelChoice,
    operands: &HostOperands,
    (memory, streaming): (usize, &Streaming<'_>),
) -> Option<Result<(), Error>> {
    let (product, operands) = match kernel {
        KernelChoice::Auto => larger_first(product, operands),
        // It is for operands that lie as they do.
        _ => (*product, *operands),
    };
    let Panels { rows, cols } = panels(&product, memory)?;
    let shape = product.shape();
    let down = shape.rows.div_ceil(rows);
    let of_rows = |number: usize| number * rows..shape.rows.min((number + 1) * rows);
    if let Err(error) = check_panels(device.device_info(), &product, kernel, (rows, cols)) {
        return Some(Err(error));
    }
    let all = down * shape.cols.div_ceil(cols);
    let (shared, done) = (Shared(operands), AtomicUsize::new(0));
    let say = || {
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        streaming.say(Progress { done, all });
    };
    for start in (0..shape.cols).step_by(cols) {
        let cols = start..shape.cols.min(start + cols);
        let of_b = part(&product, &of_rows(0), &cols).b;
        let b = device.within(|| {
            // SAFETY: the caller's promise.
            unsafe { copy_in(device, product.dtype, shared.operands().b, &of_b) }
        });
        let (b, b_layout) = match b {
            Ok(b) => b,
            Err(error) => return Some(Err(error)),
        };
        let (next, failed) = (AtomicUsize::new(0), Mutex::new(None));
        let stop = AtomicBool::new(false);
        let one = |number: usize| {
            let part = part(&product, &of_rows(number), &cols);
            let operands = shared.operands();
            // SAFETY: the caller's promise; no other thread has these rows of C.
            unsafe {
                let (a, a_layout) = copy_in(device, part.dtype, operands.a, &part.a)?;
                let part = Product { a: a_layout, b: b_layout, ..part };
                multiply_staged(device, &part, kernel, operands, [&a, &b])
            }
        };
        let work = || {
            while !stop.load(Ordering::Relaxed) {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= down {
                    break;
                }
                match device.within(|| one(number)) {
                    Ok(()) => say(),
                    Err(error) => {
                        stop.store(true, Ordering::Relaxed);
                        *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            (1..WORKERS.min(down)).for_each(|_| drop(scope.spawn(work)));
            work();
        });
        if let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Some(Err(error));
        }
    }
    Some(Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Fusion;
    use crate::{Gemm, Shape};

    fn product(m: usize, n: usize, k: usize) -> Product {
        let of = |rows, cols| Layout::row_major(Shape::new(rows, cols));
        let options = Gemm::<f32>::new().options();
        Product::new::<f32, f32>(options, [of(m, k), of(k, n), of(m, n)], Fusion::default())
            .unwrap()
    }

    #[test]
    fn panels_fit_and_are_few() {
        // All of B, and rows of A and C twice.
        let of = product(1 << 17, 1 << 12, 1 << 12);
        let found = panels(&of, 1 << 30).unwrap();
        assert_eq!(found.cols, 1 << 12);
        assert!(found.rows >= ENOUGH && needed(&of, found, WORKERS).unwrap() <= 1 << 30);
        // B does not fit.
        let of = product(1 << 17, 1 << 17, 1 << 12);
        let found = panels(&of, 1 << 30).unwrap();
        assert!(found.cols < 1 << 17 && found.rows >= ENOUGH);
        assert!(needed(&of, found, WORKERS).unwrap() <= 1 << 30);
        // So little that panels are small, and too little.
        let of = product(1000, 900, 1 << 16);
        let found = panels(&of, 64 << 20).unwrap();
        assert!(found.rows < 1000 && found.cols < 900);
        assert!(needed(&of, found, WORKERS).unwrap() <= 64 << 20);
        assert_eq!(panels(&of, 1 << 20), None);
        assert_eq!(panels(&product(1, 1, 1), 100), Some(Panels { rows: 1, cols: 1 }));
        assert_eq!(panels(&product(1 << 56, 1, 1), 2000), Some(Panels { rows: 64, cols: 1 }));
    }
}
