//! Batches: products of one shape, whose matrices lie at equal distances.

use super::Product;
use crate::error::{Error, Kind};
use gemm_spec::{DType, Layout, Shape};

/// How many products a batch has, and how far apart their matrices are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Products.
    pub count: usize,
    /// Elements from A of one product to A of the next; 0 where all have one A.
    pub a: isize,
    /// The same for B.
    pub b: isize,
    /// The same for C.
    pub c: isize,
}

impl Batch {
    /// One product alone.
    pub(crate) const ONE: Batch = Batch { count: 1, a: 0, b: 0, c: 0 };

    /// The layout of product number `index`, of a matrix whose distance is `step`.
    pub(crate) fn layout(layout: Layout, step: isize, index: usize) -> Layout {
        let distance = (index as isize).wrapping_mul(step);
        Layout { offset: layout.offset.wrapping_add_signed(distance), ..layout }
    }
}

/// Checks that all matrices of a batch lie in a buffer of `len` elements.
///
/// # Errors
/// Where one does not.
pub(crate) fn check_batch(
    layout: Layout,
    (count, step): (usize, isize),
    len: usize,
) -> Result<(), Error> {
    let refused = |source| Error::new(Kind::Layout { operand: None, layout, source });
    layout.check(len).map_err(refused)?;
    let further = count.saturating_sub(1);
    if further == 0 || step == 0 || layout.shape.is_empty() {
        return Ok(());
    }
    let last = isize::try_from(further).ok().and_then(|further| further.checked_mul(step));
    let offset = last.ok_or_else(|| refused(gemm_spec::LayoutError::Overflow))?;
    let offset = layout
        .offset
        .checked_add_signed(offset)
        .ok_or_else(|| refused(gemm_spec::LayoutError::BeforeStart))?;
    Layout { offset, ..layout }.check(len).map_err(refused)
}

/// Whether maps reach so many matrices whose distance is `step`.
pub(crate) fn is_mappable_step(count: usize, dtype: DType, step: isize) -> bool {
    let is_whole = step.wrapping_mul(dtype.size_bytes() as isize) % 16 == 0;
    is_near_step(count, dtype, step) && (count <= 1 || is_whole)
}

/// Whether maps could, if matrices began at multiples of 16 bytes: what a kernel sees of C's.
pub(crate) fn is_near_step(count: usize, dtype: DType, step: isize) -> bool {
    let is_near = |bytes: isize| (0..1 << 40).contains(&bytes);
    count <= 1 || step.checked_mul(dtype.size_bytes() as isize).is_some_and(is_near)
}

impl Product {
    /// The same for a batch.
    ///
    /// # Errors
    /// Where C's of two products might share elements: each extent, from the smallest stride up,
    /// has to lie within a step of the next.
    #[inline]
    pub(crate) fn batched(self, batch: Batch) -> Result<Product, Error> {
        if batch.count == 1 {
            // One C alone has been checked, and exactly.
            return Ok(Product { batch, ..self });
        }
        let Layout { shape: Shape { rows, cols }, strides, .. } = self.c;
        let mut extents = [(strides.row, rows), (strides.col, cols), (batch.c, batch.count)];
        extents.sort_by_key(|(stride, _)| stride.unsigned_abs());
        let may_share = batch.count > 1 && !self.c.shape.is_empty();
        let mut reach = 0u128;
        for (stride, count) in extents {
            if may_share && count > 1 && stride.unsigned_abs() as u128 <= reach {
                return Err(Error::new(Kind::BatchOverlap { layout: self.c, batch }));
            }
            reach += stride.unsigned_abs() as u128 * (count.max(1) as u128 - 1);
        }
        Ok(Product { batch, ..self }.forwards())
    }

    /// The same with C's of the batch one behind the other: from the last to the first, where they
    /// lie so.
    fn forwards(mut self) -> Product {
        let Batch { count, a, b, c } = self.batch;
        if c < 0 && count > 1 {
            self.a = Batch::layout(self.a, a, count - 1);
            self.b = Batch::layout(self.b, b, count - 1);
            self.c = Batch::layout(self.c, c, count - 1);
            let turned = |step: isize| step.wrapping_neg();
            self.batch = Batch { count, a: turned(a), b: turned(b), c: turned(c) };
        }
        self
    }

    /// The products of the batch from number `start` on.
    pub(crate) fn at_number(&self, start: usize) -> Product {
        let Product { a, b, c, batch, .. } = *self;
        let count = batch.count.saturating_sub(start);
        Product {
            a: Batch::layout(a, batch.a, start),
            b: Batch::layout(b, batch.b, start),
            c: Batch::layout(c, batch.c, start),
            batch: Batch { count, ..batch },
            ..*self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Gemm;
    use crate::plan::Fusion;
    use gemm_spec::Strides;

    fn product(c: Layout) -> Product {
        let Shape { rows, cols } = c.shape;
        let (a, b) = (Shape::new(rows, 5), Shape::new(5, cols));
        let layouts = [Layout::row_major(a), Layout::row_major(b), c];
        Product::new::<f32, f32>(Gemm::<f32>::new().options(), layouts, Fusion::default()).unwrap()
    }

    #[test]
    fn matrices_of_a_batch_lie_apart() {
        let c = Layout::row_major(Shape::new(4, 6));
        let of = |c: Layout, count, step| {
            product(c).batched(Batch { count, a: 0, b: 0, c: step }).is_ok()
        };
        assert!(of(c, 1, 0) && of(c, 3, 24) && of(c, 3, -24) && of(c, 0, 0));
        assert!(!of(c, 2, 0) && !of(c, 2, 23) && !of(c, 2, 1) && !of(c, 3, -5));
        // Side by side: [rows, batch, columns].
        let beside = Layout { strides: Strides::new(18, 1), ..c };
        assert!(of(beside, 3, 6) && !of(beside, 4, 6) && !of(beside, 3, 5));
        // One row of each, then the next row of each; columns that are further apart than all.
        let between = Layout { strides: Strides::new(3, 12), ..c };
        assert!(of(between, 3, 1) && !of(between, 4, 1));
        assert!(of(c, 2, isize::MAX) && of(c, 2, isize::MIN));
        // One row or one column each, whatever its stride.
        let row = Layout::strided(Shape::new(1, 6), Strides::new(0, 1));
        for one in [row, row.apply(gemm_spec::Op::Transpose)] {
            assert!(of(one, 2, 6) && !of(one, 2, 5), "{one:?}");
        }
        // Nothing lies where nothing else may.
        assert!(of(Layout::row_major(Shape::new(0, 6)), 2, 0));
        // Rows that interlock, of one C.
        let interlocked = Layout::strided(Shape::new(4, 2), Strides::new(3, 5));
        assert!(of(interlocked, 1, 0) && !of(interlocked, 2, 100));
    }

    #[test]
    fn a_batch_that_goes_back_is_turned_round() {
        let c = Layout { offset: 100, ..Layout::row_major(Shape::new(4, 6)) };
        let batch = Batch { count: 3, a: 7, b: -2, c: -30 };
        let mut product = product(c);
        product.b.offset = 4;
        let turned = product.batched(batch).unwrap();
        assert_eq!(turned.batch, Batch { count: 3, a: -7, b: 2, c: 30 });
        assert_eq!([turned.a.offset, turned.b.offset, turned.c.offset], [14, 0, 40]);
    }

    #[test]
    fn a_batch_goes_on_from_any_of_its_products() {
        let batch = Batch { count: 5, a: 20, b: 30, c: 24 };
        let all = product(Layout::row_major(Shape::new(4, 6))).batched(batch).unwrap();
        let from = all.at_number(2);
        assert_eq!([from.a.offset, from.b.offset, from.c.offset], [40, 60, 48]);
        assert_eq!(from.batch, Batch { count: 3, ..batch });
        assert_eq!(all.at_number(7).batch.count, 0);
    }

    #[test]
    fn batches_fit_into_their_buffers() {
        let layout = Layout::row_major(Shape::new(4, 6));
        let check = |count, step, len| check_batch(layout, (count, step), len).is_ok();
        assert!(check(3, 24, 72) && !check(3, 24, 71) && !check(2, -1, 72) && check(0, 9, 24));
        assert!(check(usize::MAX, 0, 24) && !check(usize::MAX, 1, 24) && !check(2, isize::MAX, 24));
    }

    /// Distances of a batch's matrices in elements of 2 bytes: multiples of 16 bytes, forward, less
    /// than 2^40 bytes.
    #[test]
    fn maps_reach_matrices_of_a_batch_at_multiples_of_16_bytes() {
        let reaches = |count, step| is_mappable_step(count, DType::BF16, step);
        for (step, expected) in [
            (0, true),
            (8, true),
            (4, false),
            (-8, false),
            (1 << 38, true),
            (1 << 39, false),
            (isize::MAX, false),
        ] {
            assert_eq!(reaches(2, step), expected, "{step}");
            assert!(reaches(1, step));
        }
    }
}
