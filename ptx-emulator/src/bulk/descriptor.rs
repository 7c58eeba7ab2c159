//! Matrix descriptors: how `wgmma.mma_async` finds the elements of A and B in shared memory.
//!
//! PTX ISA, "Asynchronous Warpgroup Level Matrix Shared Memory Layout": matrices are made of core
//! matrices, 8 rows of 16 bytes. Bits 0 to 13 are the start address, 16 to 29 the leading and 32 to
//! 45 the stride byte offset, all in units of 16 bytes; 49 to 51 the base offset, 62 and 63 the
//! swizzle.

use super::tensor_map::Swizzle;
use std::fmt;

/// Along which extent an operand's elements are contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Major {
    /// Along K.
    K,
    /// Along M or N.
    Mn,
}

/// A decoded descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatrixDescriptor {
    /// Shared address of the first element.
    pub start: u32,
    /// Leading dimension byte offset.
    pub leading: u32,
    /// Stride dimension byte offset.
    pub stride: u32,
    /// The swizzle.
    pub swizzle: Swizzle,
}

/// What part of a matrix an instruction reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperandShape {
    /// Rows of A or columns of B.
    pub outer: u32,
    /// The instruction's K.
    pub depth: u32,
    /// Bytes of an element.
    pub element: u32,
    /// The contiguous extent.
    pub major: Major,
}

/// A descriptor that is not one, or does not fit the instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DescriptorError {
    /// Bits that have no meaning are set.
    Reserved(u64),
    /// A base offset, whose effect is not documented well enough to emulate.
    BaseOffset(u64),
    /// The swizzle's pattern does not start at the address: bits of the start address, or an offset
    /// between core matrices, that would shift it.
    Pattern {
        /// What is wrong: `start address`, `leading byte offset` or `stride byte offset`.
        what: &'static str,
        /// Its value.
        value: u32,
        /// Bytes after which the pattern repeats.
        pattern: u32,
    },
    /// Elements contiguous along M or N, of a type that has not 16 bits.
    Major(u32),
}

impl fmt::Display for DescriptorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reserved(bits) => {
                write!(f, "a matrix descriptor {bits:#018x} with reserved bits")
            }
            Self::BaseOffset(offset) => {
                write!(f, "a matrix descriptor with base offset {offset}: not emulated")
            }
            Self::Pattern { what, value, pattern } => write!(
                f,
                "a matrix descriptor whose {what} is {value:#x}: the swizzle repeats every \
                 {pattern} bytes"
            ),
            Self::Major(bytes) => write!(
                f,
                "an operand contiguous along M or N with elements of {bytes} bytes: only those of \
                 2 can be"
            ),
        }
    }
}

impl std::error::Error for DescriptorError {}

/// Bits of a descriptor with a meaning.
const MEANT: u64 = 0x3fff | 0x3fff << 16 | 0x3fff << 32 | 7 << 49 | 3 << 62;

impl MatrixDescriptor {
    /// Decodes the operand of an instruction.
    pub fn decode(bits: u64) -> Result<Self, DescriptorError> {
        if bits & !MEANT != 0 {
            return Err(DescriptorError::Reserved(bits));
        }
        if bits >> 49 & 7 != 0 {
            return Err(DescriptorError::BaseOffset(bits >> 49 & 7));
        }
        let field = |shift: u32| ((bits >> shift & 0x3fff) as u32) << 4;
        let modes = [Swizzle::None, Swizzle::B128, Swizzle::B64, Swizzle::B32];
        let swizzle = modes[(bits >> 62) as usize];
        Ok(MatrixDescriptor { start: field(0), leading: field(16), stride: field(32), swizzle })
    }

    /// The bits of the descriptor; of addresses and offsets only those that it has room for.
    pub fn encode(&self) -> u64 {
        let field = |bytes: u32| u64::from(bytes >> 4 & 0x3fff);
        let mode: u64 = match self.swizzle {
            Swizzle::None => 0,
            Swizzle::B128 => 1,
            Swizzle::B64 => 2,
            Swizzle::B32 => 3,
        };
        field(self.start) | field(self.leading) << 16 | field(self.stride) << 32 | mode << 62
    }

    /// Checks that the descriptor describes such an operand.
    pub fn check(&self, shape: &OperandShape) -> Result<(), DescriptorError> {
        if shape.major == Major::Mn && shape.element != 2 {
            return Err(DescriptorError::Major(shape.element));
        }
        if self.swizzle == Swizzle::None {
            return Ok(());
        }
        let span = self.swizzle.span();
        let pattern = 8 * span;
        let fail = |what, value| Err(DescriptorError::Pattern { what, value, pattern });
        if self.start % pattern >= span {
            return fail("start address", self.start);
        }
        let atoms = match shape.major {
            Major::K => shape.outer.div_ceil(8),
            Major::Mn => shape.depth.div_ceil(8),
        };
        if atoms > 1 && !self.stride.is_multiple_of(pattern) {
            return fail("stride byte offset", self.stride);
        }
        let is_wide = shape.major == Major::Mn && shape.outer * shape.element > span;
        if is_wide && !self.leading.is_multiple_of(pattern) {
            return fail("leading byte offset", self.leading);
        }
        Ok(())
    }

    /// The shared address of the element (`outer`, `k`), whose chunk of 16 bytes is contiguous.
    #[inline]
    pub fn address(&self, outer: u32, k: u32, shape: &OperandShape) -> u32 {
        let element = shape.element;
        let chunk = 16 / element;
        let span = self.swizzle.span();
        let width = span / 16;
        let (leading, stride) = (self.leading, self.stride);
        let offset = match (shape.major, self.swizzle) {
            (Major::K, Swizzle::None) => {
                outer % 8 * 16 + outer / 8 * stride + k % chunk * element + k / chunk * leading
            }
            (Major::K, _) => outer % 8 * span + outer / 8 * stride + k * element,
            (Major::Mn, Swizzle::None) => {
                outer % chunk * element + outer / chunk * stride + k % 8 * 16 + k / 8 * leading
            }
            (Major::Mn, _) => {
                outer % chunk * element
                    + outer / chunk % width * 16
                    + outer / (chunk * width) * leading
                    + k % 8 * span
                    + k / 8 * stride
            }
        };
        self.swizzle.apply(self.start.wrapping_add(offset))
    }

    /// Visits the operand by chunks of 16 bytes: (outer, k) of the first element, and its address.
    /// The others follow along the contiguous extent.
    pub fn for_each_chunk(&self, shape: &OperandShape, mut visit: impl FnMut(u32, u32, u32)) {
        let chunk = (16 / shape.element) as usize;
        let (outer_step, k_step) = match shape.major {
            Major::K => (1, chunk),
            Major::Mn => (chunk, 1),
        };
        for outer in (0..shape.outer).step_by(outer_step) {
            for k in (0..shape.depth).step_by(k_step) {
                visit(outer, k, self.address(outer, k, shape));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_where_they_belong() {
        let bits = 0x1234 | 1 << 16 | 64 << 32 | 1 << 62;
        let descriptor = MatrixDescriptor::decode(bits).unwrap();
        let expected =
            MatrixDescriptor { start: 0x12340, leading: 16, stride: 1024, swizzle: Swizzle::B128 };
        assert_eq!(descriptor, expected);
        assert_eq!(descriptor.encode(), bits);
        assert_eq!(MatrixDescriptor::decode(1 << 14), Err(DescriptorError::Reserved(1 << 14)));
        assert_eq!(MatrixDescriptor::decode(2 << 49), Err(DescriptorError::BaseOffset(2)));
    }

    #[test]
    fn misfits_are_named() {
        let shape = OperandShape { outer: 64, depth: 16, element: 2, major: Major::K };
        let start =
            |start| MatrixDescriptor { start, leading: 0, stride: 1024, swizzle: Swizzle::B128 };
        assert_eq!(start(1024 + 96).check(&shape), Ok(()));
        let error = start(1024 + 128).check(&shape).unwrap_err().to_string();
        assert!(error.contains("start address is 0x480: the swizzle repeats every 1024"));
        let error = MatrixDescriptor { stride: 512, ..start(0) }.check(&shape).unwrap_err();
        assert!(error.to_string().contains("stride byte offset"));
        let bytes = OperandShape { element: 1, major: Major::Mn, ..shape };
        assert_eq!(start(0).check(&bytes), Err(DescriptorError::Major(1)));
        let mn = OperandShape { major: Major::Mn, ..shape };
        let error = MatrixDescriptor { leading: 64, ..start(0) };
        assert_eq!(error.check(&mn), Ok(()));
        assert!(error.check(&OperandShape { outer: 128, ..mn }).is_err());
    }

    /// An element's index from its place (`major`, `other`) in a layout of nested extents and
    /// strides, as the PTX ISA writes them.
    fn nested(extents: &[u32], strides: &[u32], mut index: u32) -> u32 {
        let step = |(&extent, &stride): (&u32, &u32)| {
            let at = index % extent * stride;
            index /= extent;
            at
        };
        extents.iter().zip(strides).map(step).sum()
    }

    /// The worked examples of PTX ISA, "Strides" of the matrix layouts.
    #[test]
    fn worked_examples_agree() {
        type Layout<'a> = (&'a [u32], &'a [u32]);
        let check = |swizzle, shape: OperandShape, offsets: (u32, u32), mn: Layout, k: Layout| {
            let (leading, stride) = offsets;
            let descriptor = MatrixDescriptor { start: 0, leading, stride, swizzle };
            descriptor.check(&shape).unwrap();
            for outer in 0..shape.outer {
                for depth in 0..shape.depth {
                    let index = nested(mn.0, mn.1, outer) + nested(k.0, k.1, depth);
                    let address = descriptor.address(outer, depth, &shape);
                    assert_eq!(address, swizzle.apply(index * shape.element));
                }
            }
        };
        let shape = |outer, depth, element, major| OperandShape { outer, depth, element, major };
        let k_major = |outer, depth| shape(outer, depth, 4, Major::K);
        let mn_major = |outer| shape(outer, 16, 2, Major::Mn);
        check(Swizzle::None, k_major(16, 16), (256, 128), (&[8, 2], &[4, 32]), (&[4, 4], &[1, 64]));
        check(Swizzle::B32, k_major(16, 8), (16, 256), (&[8, 2], &[8, 64]), (&[4, 2], &[1, 4]));
        check(
            Swizzle::None,
            mn_major(16),
            (256, 128),
            (&[8, 1, 2], &[1, 8, 64]),
            (&[8, 2], &[8, 128]),
        );
        check(
            Swizzle::B32,
            mn_major(32),
            (256, 512),
            (&[8, 2, 2], &[1, 8, 128]),
            (&[8, 2], &[16, 256]),
        );
        check(
            Swizzle::B64,
            mn_major(64),
            (512, 1024),
            (&[8, 4, 2], &[1, 8, 256]),
            (&[8, 2], &[32, 512]),
        );
    }
}
