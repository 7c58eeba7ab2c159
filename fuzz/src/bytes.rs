//! Bytes as numbers, layouts and choices: what a fuzzed input means to a target that takes no text.

use gemmite::{Layout, Op, Shape, Strides};

/// The rest of an input; behind its end there are zeros.
pub struct Bytes<'a>(pub &'a [u8]);

impl Bytes<'_> {
    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    /// A number below `end`, which is at most 256.
    pub fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end
    }

    /// One of the elements.
    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len().min(256))]
    }

    /// A number of any size: small ones, ones near powers of two, and ones near the largest.
    pub fn number(&mut self) -> usize {
        let (kind, value) = (self.byte(), self.byte());
        match kind {
            0..128 => usize::from(value % 24),
            128..160 => usize::from(value) << (kind % 32),
            160..224 => (1usize << (kind % 64)).wrapping_add_signed(isize::from(value as i8)),
            _ => usize::MAX - usize::from(value),
        }
    }

    /// The same with a sign.
    pub fn signed(&mut self) -> isize {
        let sign = self.byte().is_multiple_of(2);
        let number = self.number() as isize;
        if sign { number.wrapping_neg() } else { number }
    }

    /// Any layout.
    pub fn layout(&mut self) -> Layout {
        let shape = Shape::new(self.number(), self.number());
        match self.byte() % 4 {
            0 => Layout::row_major(shape),
            1 => Layout::col_major(shape),
            _ => {
                let strides = Strides::new(self.signed(), self.signed());
                Layout { shape, strides, offset: self.number() }
            }
        }
    }

    /// A layout of that shape with small strides.
    pub fn near(&mut self, shape: Shape) -> Layout {
        let mut stride = || self.below(25) as isize - 12;
        let strides = Strides::new(stride(), stride());
        Layout { shape, strides, offset: self.below(100) }
    }

    /// Whether to transpose.
    pub fn op(&mut self) -> Op {
        self.one_of(&[Op::None, Op::Transpose])
    }
}
