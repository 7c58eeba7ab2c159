//! Where a case's operands lie, and the guards around them.

use gemmite::{Element, Layout, Shape, Strides};

/// Elements of guard in front of each operand and after it.
pub const GUARD: usize = 64;

/// How the elements of an operand are spread over its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Row after row.
    RowMajor,
    /// Column after column.
    ColMajor,
    /// Row after row with three unused elements after each.
    Padded,
    /// Every other element of rows that lie apart.
    Spaced,
    /// Row after row, so many elements further behind the guard.
    Behind(usize),
    /// The last row first.
    RowsBackwards,
    /// Each row from its end.
    ColsBackwards,
    /// Column after column, from the last element to the first.
    Backwards,
    /// One row, which stands for all of them. For inputs only.
    RepeatedRow,
    /// One column, which stands for all of them. For inputs only.
    RepeatedCol,
    /// One element, which stands for all of them. For inputs only.
    RepeatedElement,
    /// These distances.
    Strides(Strides),
}

impl Place {
    /// Distances between neighbours of a matrix of `shape`.
    pub fn strides(self, shape: Shape) -> Strides {
        let (rows, cols) = (shape.rows as isize, shape.cols as isize);
        match self {
            Place::RowMajor | Place::Behind(_) => Strides::new(cols, 1),
            Place::ColMajor => Strides::new(1, rows),
            Place::Padded => Strides::new(cols + 3, 1),
            Place::Spaced => Strides::new(2 * cols + 5, 2),
            Place::RowsBackwards => Strides::new(-cols, 1),
            Place::ColsBackwards => Strides::new(cols, -1),
            Place::Backwards => Strides::new(-1, -rows),
            Place::RepeatedRow => Strides::new(0, 1),
            Place::RepeatedCol => Strides::new(1, 0),
            Place::RepeatedElement => Strides::new(0, 0),
            Place::Strides(strides) => strides,
        }
    }

    /// The layout of a matrix of `shape` in a buffer with guards.
    pub fn layout(self, shape: Shape) -> Layout {
        let strides = self.strides(shape);
        let [down, across] = reaches(shape, strides);
        let before = match self {
            Place::Behind(elements) => elements,
            _ => (down.min(0) + across.min(0)).unsigned_abs(),
        };
        Layout { shape, strides, offset: GUARD + before }
    }
}

/// Elements from the first row to the last, and from the first column to the last.
fn reaches(shape: Shape, strides: Strides) -> [isize; 2] {
    let reach = |count: usize, stride: isize| count.saturating_sub(1) as isize * stride;
    [reach(shape.rows, strides.row), reach(shape.cols, strides.col)]
}

/// A value that no case computes, to recognise what must not be touched. NaN for floating point, so
/// that whoever reads it spoils his result as well.
pub fn poison<T: Element>() -> T {
    match T::DTYPE {
        gemmite::DType::I8 => T::from_f64(f64::from(0x5A)),
        gemmite::DType::I32 => T::from_f64(f64::from(0x5AFE_5AFEu32 as i32)),
        _ => T::from_f64(f64::NAN),
    }
}

/// An operand in a buffer of its own, poison in front of it, after it, and between its elements.
#[derive(Clone, Debug)]
pub struct Placed<T> {
    /// The whole buffer, guards included.
    pub buffer: Vec<T>,
    /// Where in the buffer the operand lies.
    pub layout: Layout,
}

impl<T: Element> Placed<T> {
    /// A buffer of poison for an operand of `shape` placed by `place`.
    pub fn poisoned(shape: Shape, place: Place) -> Self {
        let layout = place.layout(shape);
        let (before, [down, across]) = (layout.offset - GUARD, reaches(shape, layout.strides));
        let after = (down.max(0) + across.max(0)) as usize;
        let len = if shape.is_empty() { 0 } else { before + after + 1 };
        Placed { buffer: vec![poison(); GUARD + len + GUARD], layout }
    }

    /// The operand whose element (i, j) is `element(i, j)`. Where elements share an address, the
    /// last one stays.
    pub fn new(shape: Shape, place: Place, mut element: impl FnMut(usize, usize) -> T) -> Self {
        let mut placed = Placed::poisoned(shape, place);
        for i in 0..shape.rows {
            for j in 0..shape.cols {
                placed.buffer[placed.layout.index(i, j)] = element(i, j);
            }
        }
        placed
    }

    /// The buffer's bytes with those of the operand's elements cleared: what must not change.
    pub fn surroundings(&self) -> Vec<u8> {
        let mut bytes = bytemuck::cast_slice::<T, u8>(&self.buffer).to_vec();
        for i in 0..self.layout.shape.rows {
            for j in 0..self.layout.shape.cols {
                let at = self.layout.index(i, j) * size_of::<T>();
                bytes[at..at + size_of::<T>()].fill(0);
            }
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACES: [Place; 10] = [
        Place::RowMajor,
        Place::ColMajor,
        Place::Padded,
        Place::Spaced,
        Place::RowsBackwards,
        Place::ColsBackwards,
        Place::Backwards,
        Place::RepeatedRow,
        Place::RepeatedCol,
        Place::RepeatedElement,
    ];

    #[test]
    fn operands_fill_the_room_between_their_guards() {
        for place in PLACES {
            for shape in [Shape::new(1, 1), Shape::new(3, 5), Shape::new(5, 3), Shape::new(0, 4)] {
                let placed = Placed::new(shape, place, |_, _| 1.0f32);
                placed.layout.check(placed.buffer.len()).unwrap();
                let (first, rest) = placed.buffer.split_at(GUARD);
                let (inside, last) = rest.split_at(rest.len() - GUARD);
                assert!(first.iter().chain(last).all(|x| x.is_nan()), "{place:?} {shape}");
                if !shape.is_empty() {
                    assert!(
                        inside[0] == 1.0 && inside[inside.len() - 1] == 1.0,
                        "{place:?} {shape}"
                    );
                }
            }
        }
    }

    #[test]
    fn surroundings_see_guards_and_gaps_and_not_elements() {
        let before = Placed::new(Shape::new(2, 2), Place::Padded, |_, _| 1i32);
        let mut after = before.clone();
        let inside = after.layout.index(1, 1);
        after.buffer[inside] = 7;
        assert!(before.surroundings() == after.surroundings());
        let gap = after.layout.index(0, 1) + 1;
        for outside in [0, GUARD - 1, gap, inside + 1, after.buffer.len() - 1] {
            let mut after = before.clone();
            after.buffer[outside] = 7;
            assert!(before.surroundings() != after.surroundings(), "{outside}");
        }
    }
}
