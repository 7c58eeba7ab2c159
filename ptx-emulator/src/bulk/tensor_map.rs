//! The description of a tensor in global memory, with the driver's rules for it.
//!
//! CUDA driver API, "Tensor Map Object Management", `cuTensorMapEncodeTiled`. Dimension 0 is the
//! contiguous one.

use std::fmt;

/// The type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum TensorElement {
    U8 = 0,
    U16,
    U32,
    I32,
    U64,
    I64,
    F16,
    F32,
    F64,
    Bf16,
    F32Ftz,
    Tf32,
    Tf32Ftz,
}

impl TensorElement {
    /// All, in the order of the driver's numbers.
    pub const ALL: [TensorElement; 13] = [
        Self::U8,
        Self::U16,
        Self::U32,
        Self::I32,
        Self::U64,
        Self::I64,
        Self::F16,
        Self::F32,
        Self::F64,
        Self::Bf16,
        Self::F32Ftz,
        Self::Tf32,
        Self::Tf32Ftz,
    ];

    /// Bytes of an element.
    pub const fn bytes(self) -> u32 {
        match self {
            Self::U8 => 1,
            Self::U16 | Self::F16 | Self::Bf16 => 2,
            Self::U32 | Self::I32 | Self::F32 | Self::F32Ftz | Self::Tf32 | Self::Tf32Ftz => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }

    /// Whether it is a floating-point type.
    pub const fn is_float(self) -> bool {
        !matches!(self, Self::U8 | Self::U16 | Self::U32 | Self::I32 | Self::U64 | Self::I64)
    }

    /// Whether a copy changes the bits: it flushes subnormals, or rounds to TF32.
    pub const fn is_converted(self) -> bool {
        matches!(self, Self::F32Ftz | Self::Tf32 | Self::Tf32Ftz)
    }
}

/// How bytes of the innermost dimensions are interleaved in global memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Interleave {
    /// Not.
    #[default]
    None = 0,
    /// NC/8HWC8, slices of 16 bytes.
    B16,
    /// NC/16HWC16, slices of 32 bytes.
    B32,
}

/// How chunks of 16 bytes change places in shared memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Swizzle {
    /// Not.
    #[default]
    None = 0,
    /// Within 32 bytes.
    B32,
    /// Within 64 bytes.
    B64,
    /// Within 128 bytes.
    B128,
}

impl Swizzle {
    /// All modes.
    pub const ALL: [Swizzle; 4] = [Self::None, Self::B32, Self::B64, Self::B128];

    /// The bytes within which chunks change places; 16 without a swizzle.
    pub const fn span(self) -> u32 {
        16 << self as u32
    }

    /// Where the byte that the plain layout has at `address` lies: the chunk's number within its
    /// span is changed by the number of the 128-byte line. Both are taken from the absolute shared
    /// address (PTX ISA, "Swizzling Modes"; the pattern repeats after 8 spans).
    #[inline]
    pub const fn apply(self, address: u32) -> u32 {
        let mask = (1 << self as u32) - 1;
        address ^ (((address >> 7) & mask) << 4)
    }
}

/// How much more than asked for is brought into the L2 cache: no effect here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Promotion {
    /// Nothing.
    #[default]
    None = 0,
    /// 64 bytes.
    B64,
    /// 128 bytes.
    B128,
    /// 256 bytes.
    B256,
}

/// What a load puts where the box lies outside the tensor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Fill {
    /// Zeros.
    #[default]
    Zero = 0,
    /// A NaN that multiplications may take for zero; of floating-point types.
    Nan,
}

impl Fill {
    /// The byte at `address` of filled memory. The NaN is not documented: 0x7ff7 in each 16 bits
    /// is what others saw on compute capability 12.0.
    pub const fn byte(self, address: u32) -> u8 {
        match self {
            Self::Zero => 0,
            Self::Nan => [0xf7, 0x7f][(address & 1) as usize],
        }
    }
}

/// A tensor in global memory and the box of it that a copy moves: the arguments of
/// `cuTensorMapEncodeTiled`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorMap {
    /// The elements' type.
    pub element: TensorElement,
    /// Dimensions, 1 to 5; of the arrays below only so many count (of the strides one fewer).
    pub rank: u32,
    /// Address of the first element.
    pub address: u64,
    /// Elements in each dimension.
    pub sizes: [u64; 5],
    /// Bytes between elements, in each dimension from the second on.
    pub strides: [u64; 4],
    /// Elements of a box in each dimension, strided ones counted whole.
    pub box_sizes: [u32; 5],
    /// Every how many elements one is copied, in each dimension.
    pub element_strides: [u32; 5],
    /// Interleaving.
    pub interleave: Interleave,
    /// The swizzle.
    pub swizzle: Swizzle,
    /// The promotion.
    pub promotion: Promotion,
    /// The fill.
    pub fill: Fill,
}

/// A rule of `cuTensorMapEncodeTiled` that the arguments break; the driver says
/// `CUDA_ERROR_INVALID_VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorMapError {
    argument: &'static str,
    rule: String,
}

impl TensorMapError {
    /// The driver's name of the argument.
    pub fn argument(&self) -> &'static str {
        self.argument
    }
}

impl fmt::Display for TensorMapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cuTensorMapEncodeTiled: {} {}", self.argument, self.rule)
    }
}

impl std::error::Error for TensorMapError {}

fn require(
    holds: bool,
    argument: &'static str,
    rule: impl FnOnce() -> String,
) -> Result<(), TensorMapError> {
    match holds {
        true => Ok(()),
        false => Err(TensorMapError { argument, rule: rule() }),
    }
}

impl TensorMap {
    /// A map of `sizes` elements at `address`, rows apart by `strides` bytes, in boxes of
    /// `box_sizes`; nothing swizzled, interleaved or left out, filled with zeros. Slices that are
    /// too long are cut; what is wrong with them [`check`](Self::check) says.
    pub fn new(
        element: TensorElement,
        address: u64,
        sizes: &[u64],
        strides: &[u64],
        box_sizes: &[u32],
    ) -> Self {
        fn padded<T: Copy, const N: usize>(values: &[T], rest: T) -> [T; N] {
            std::array::from_fn(|i| values.get(i).copied().unwrap_or(rest))
        }
        TensorMap {
            element,
            rank: sizes.len() as u32,
            address,
            sizes: padded(sizes, 1),
            strides: padded(strides, 0),
            box_sizes: padded(box_sizes, 1),
            element_strides: [1; 5],
            interleave: Interleave::None,
            swizzle: Swizzle::None,
            promotion: Promotion::None,
            fill: Fill::Zero,
        }
    }

    /// With a swizzle.
    pub fn swizzled(self, swizzle: Swizzle) -> Self {
        TensorMap { swizzle, ..self }
    }

    /// Checks every rule that the driver documents.
    pub fn check(&self) -> Result<(), TensorMapError> {
        let rank = self.rank;
        require((1..=5).contains(&rank), "tensorRank", || format!("is {rank}, not 1 to 5"))?;
        let interleaved = self.interleave != Interleave::None;
        require(!interleaved || rank >= 3, "tensorRank", || {
            format!("is {rank}, but interleaved tensors have at least 3 dimensions")
        })?;
        let align = if self.interleave == Interleave::B32 { 32 } else { 16 };
        require(self.address.is_multiple_of(align), "globalAddress", || {
            format!("{:#x} is not a multiple of {align}", self.address)
        })?;
        for (i, &size) in self.sizes().iter().enumerate() {
            require((1..=1 << 32).contains(&size), "globalDim", || {
                format!("[{i}] is {size}, not 1 to 2^32")
            })?;
        }
        for (i, &stride) in self.strides().iter().enumerate() {
            require(stride.is_multiple_of(align) && stride < 1 << 40, "globalStrides", || {
                format!("[{i}] is {stride}, not a multiple of {align} below 2^40")
            })?;
        }
        self.check_box()?;
        require(self.fill == Fill::Zero || self.element.is_float(), "oobFill", || {
            format!("is NaN, but {:?} has none", self.element)
        })
    }

    fn check_box(&self) -> Result<(), TensorMapError> {
        for (i, &size) in self.box_sizes().iter().enumerate() {
            require((1..=256).contains(&size), "boxDim", || {
                format!("[{i}] is {size}, not 1 to 256")
            })?;
        }
        let row = self.row_bytes();
        require(self.interleave != Interleave::None || row.is_multiple_of(16), "boxDim", || {
            format!("[0] makes rows of {row} bytes, not a multiple of 16")
        })?;
        let strides = &self.element_strides[..self.rank as usize];
        for (i, &stride) in strides.iter().enumerate() {
            require((1..=8).contains(&stride), "elementStrides", || {
                format!("[{i}] is {stride}, not 1 to 8")
            })?;
        }
        let span = self.swizzle.span();
        let is_narrow = self.swizzle == Swizzle::None || row <= span;
        require(self.interleave != Interleave::None || is_narrow, "boxDim", || {
            format!("[0] makes rows of {row} bytes, more than the swizzle's {span}")
        })?;
        let swizzle_fits = self.interleave != Interleave::B32 || self.swizzle == Swizzle::B32;
        require(swizzle_fits, "swizzle", || "is not B32, but the interleaving is".to_string())
    }

    /// Elements in each dimension that counts.
    pub fn sizes(&self) -> &[u64] {
        &self.sizes[..self.rank as usize]
    }

    /// Bytes between elements in each dimension from the second on.
    pub fn strides(&self) -> &[u64] {
        &self.strides[..self.rank as usize - 1]
    }

    /// The box's extents.
    pub fn box_sizes(&self) -> &[u32] {
        &self.box_sizes[..self.rank as usize]
    }

    /// Bytes of a row of the box.
    pub fn row_bytes(&self) -> u32 {
        self.box_sizes[0] * self.element.bytes()
    }

    /// Elements that are copied along a dimension. The first has no stride unless interleaved.
    pub fn copied(&self, dimension: usize) -> u32 {
        match dimension {
            0 => self.box_sizes[0],
            _ => self.box_sizes[dimension].div_ceil(self.element_strides[dimension]),
        }
    }

    /// Bytes of a box in shared memory: what a load adds to its barrier's transactions, wherever
    /// the box lies.
    pub fn box_bytes(&self) -> u32 {
        let extents = (1..self.rank as usize).map(|dimension| self.copied(dimension));
        extents.fold(self.row_bytes(), u32::saturating_mul)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map() -> TensorMap {
        TensorMap::new(TensorElement::F16, 0x1000, &[100, 50], &[208], &[64, 32])
    }

    fn broken(map: TensorMap) -> String {
        map.check().unwrap_err().to_string()
    }

    #[test]
    fn every_rule_is_named() {
        assert_eq!(map().check(), Ok(()));
        let is = |map: TensorMap, argument: &str, part: &str| {
            let text = broken(map);
            assert!(text.contains(argument) && text.contains(part), "{text}");
        };
        is(TensorMap { rank: 0, ..map() }, "tensorRank", "is 0");
        is(TensorMap { rank: 6, ..map() }, "tensorRank", "is 6");
        is(TensorMap { address: 0x1008, ..map() }, "globalAddress", "0x1008");
        is(TensorMap { sizes: [0, 1, 1, 1, 1], ..map() }, "globalDim", "[0] is 0");
        is(TensorMap { sizes: [1, (1 << 32) + 1, 1, 1, 1], ..map() }, "globalDim", "[1]");
        is(TensorMap { strides: [200, 0, 0, 0], ..map() }, "globalStrides", "200");
        is(TensorMap { strides: [1 << 40, 0, 0, 0], ..map() }, "globalStrides", "2^40");
        is(TensorMap { box_sizes: [64, 257, 1, 1, 1], ..map() }, "boxDim", "257");
        is(TensorMap { box_sizes: [4, 32, 1, 1, 1], ..map() }, "boxDim", "rows of 8 bytes");
        is(TensorMap { element_strides: [1, 9, 1, 1, 1], ..map() }, "elementStrides", "9");
        is(map().swizzled(Swizzle::B64), "boxDim", "more than the swizzle's 64");
        let interleave = Interleave::B32;
        is(TensorMap { interleave, ..map() }, "tensorRank", "at least 3");
        is(TensorMap { interleave, rank: 3, ..map() }, "globalStrides", "multiple of 32");
        let strides = [224, 224, 0, 0];
        is(TensorMap { interleave, rank: 3, strides, ..map() }, "swizzle", "is not B32");
        let fill = Fill::Nan;
        is(TensorMap { fill, element: TensorElement::U16, ..map() }, "oobFill", "U16");
    }

    /// The tables of PTX ISA, "Swizzling Modes": at each place the chunk that it holds.
    #[test]
    fn swizzles_are_those_of_the_tables() {
        let b128 = [
            "01234567", "10325476", "23016745", "32107654", "45670123", "54761032", "67452301",
            "76543210",
        ];
        let b64 = &b128[..4];
        let b32 = &b128[..2];
        let tables = [(Swizzle::B128, &b128[..]), (Swizzle::B64, b64), (Swizzle::B32, b32)];
        for (swizzle, table) in tables {
            for address in (0..4096).step_by(16) {
                let row = table[address / 128 % table.len()].as_bytes();
                let place = address / 16 % 8;
                let chunk = (row[place] - b'0') as usize;
                let from = address / 128 * 128 + chunk * 16;
                assert_eq!(swizzle.apply(from as u32), address as u32);
                assert_eq!(swizzle.apply(swizzle.apply(from as u32 + 7)), from as u32 + 7);
            }
        }
        assert_eq!(Swizzle::None.apply(0xfff), 0xfff);
    }
}
