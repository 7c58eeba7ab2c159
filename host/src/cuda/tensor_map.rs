//! Tensor maps: what the copy engine of compute capability 9.0 ("TMA") is told of a tensor.
//!
//! The limits are those of `cuTensorMapEncodeTiled` (CUDA Driver API, "Tensor Map Object
//! Management"). They are checked here, because the driver answers "invalid value" to all of them.

use crate::error::{DriverCode, Error, Kind};
use smallvec::SmallVec;
use std::ffi::{c_int, c_void};
use std::fmt;
use std::sync::OnceLock;

/// Most dimensions of a tensor.
const MAX_RANK: usize = 5;
/// Addresses and strides are multiples of so many bytes, and so is the inner extent of a box.
const GRANULE: u64 = 16;

/// A tensor's elements, as the copy engine has to know them: their size, and what is outside of the
/// tensor. The numbers are those of `CUtensorMapDataType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
#[non_exhaustive]
pub enum TensorElement {
    U8 = 0,
    U16 = 1,
    U32 = 2,
    I32 = 3,
    U64 = 4,
    I64 = 5,
    F16 = 6,
    F32 = 7,
    F64 = 8,
    Bf16 = 9,
    /// f32 that is rounded to TF32 on its way to shared memory.
    Tf32 = 11,
}

impl TensorElement {
    /// Bytes of an element in the tensor.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::U8 => 1,
            Self::U16 | Self::F16 | Self::Bf16 => 2,
            Self::U32 | Self::I32 | Self::F32 | Self::Tf32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }
}

/// How 16-byte chunks are exchanged within the rows of a box in shared memory, so that a column of
/// them lies in different banks. The number is `CUtensorMapSwizzle`'s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TensorSwizzle {
    /// Rows follow one another as they are.
    #[default]
    None = 0,
    /// Rows of 32 bytes at most.
    B32 = 1,
    /// Rows of 64 bytes at most.
    B64 = 2,
    /// Rows of 128 bytes at most.
    B128 = 3,
}

impl TensorSwizzle {
    /// Most bytes of a box's row.
    const fn row_bytes(self) -> u64 {
        match self {
            Self::None => u64::MAX,
            Self::B32 => 32,
            Self::B64 => 64,
            Self::B128 => 128,
        }
    }
}

/// How many bytes a read brings into the L2 cache at least. The number is
/// `CUtensorMapL2promotion`'s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum L2Promotion {
    /// What is read.
    #[default]
    None = 0,
    /// 64 bytes.
    B64 = 1,
    /// 128 bytes.
    B128 = 2,
    /// 256 bytes.
    B256 = 3,
}

/// A map as the GPU reads it: 128 opaque bytes at a multiple of 64, to be passed to a kernel by
/// value (`#[grid_constant] map: &TensorMap<RANK>` in the kernel).
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub struct TensorMap([u64; 16]);

impl TensorMap {
    /// A map that was not made by the driver.
    pub(crate) fn from_words(words: [u64; 16]) -> TensorMap {
        TensorMap(words)
    }

    /// The 128 bytes, as words.
    pub fn words(&self) -> &[u64; 16] {
        &self.0
    }
}

impl fmt::Debug for TensorMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TensorMap(..)")
    }
}

/// A tensor and its boxes, from which [`encode`](TensorLayout::encode) makes a [`TensorMap`].
///
/// All lists are innermost dimension first: a row-major matrix has its columns first.
///
/// N.B. Stores write whole chunks of 16 bytes: where the innermost size is no multiple of that,
/// they write to what lies behind the rows' ends, up to the next multiple.
///
/// ```
/// use gemmite::cuda::{TensorElement, TensorLayout, TensorSwizzle};
/// // A row-major 4096 x 1024 matrix of bf16, in boxes of 64 rows of 64 elements (128 bytes).
/// let layout = TensorLayout::new(TensorElement::Bf16, &[1024, 4096], &[64, 64])
///     .swizzle(TensorSwizzle::B128);
/// layout.check().unwrap();
/// // Rows that are one element too long to lie one behind another.
/// let odd = layout.strides(&[1025 * 2]);
/// assert!(odd.check().unwrap_err().to_string().contains("multiple of 16"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a layout is no map before it is encoded"]
pub struct TensorLayout {
    pub(crate) element: TensorElement,
    pub(crate) sizes: SmallVec<[u64; MAX_RANK]>,
    pub(crate) box_sizes: SmallVec<[u32; MAX_RANK]>,
    /// Of all dimensions but the innermost.
    pub(crate) stride_bytes: SmallVec<[u64; MAX_RANK]>,
    pub(crate) swizzle: TensorSwizzle,
    pub(crate) promotion: L2Promotion,
}

/// Which limit a layout breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TensorLayoutError {
    #[error("a tensor has 1 to 5 dimensions and this one has {0}")]
    Rank(usize),
    #[error("a tensor of {rank} dimensions needs {wanted} {what} and got {found}")]
    Count { what: &'static str, rank: usize, wanted: usize, found: usize },
    #[error("dimension {dimension} has {size} elements; 1 to 2^32 are possible")]
    Size { dimension: usize, size: u64 },
    #[error(
        "the stride of dimension {dimension} is {bytes} bytes; it must be a multiple of 16 below \
        2^40"
    )]
    Stride { dimension: usize, bytes: u64 },
    #[error("a box has {size} elements in dimension {dimension}; 1 to 256 are possible")]
    Box { dimension: usize, size: u32 },
    #[error("a row of a box has {0} bytes; it must be a multiple of 16")]
    BoxRow(u64),
    #[error(
        "a row of a box has {bytes} bytes; swizzle {swizzle:?} takes {} at most",
        .swizzle.row_bytes()
    )]
    Swizzle { swizzle: TensorSwizzle, bytes: u64 },
    #[error("the tensor's address {0:#x} must be a multiple of 16 and not 0")]
    Address(u64),
}

impl TensorLayout {
    /// A tensor of `sizes` whose elements follow one another, in boxes of `box_sizes`, not
    /// swizzled.
    pub fn new(element: TensorElement, sizes: &[u64], box_sizes: &[u32]) -> Self {
        let mut bytes = element.bytes();
        let outer = sizes.len().saturating_sub(1);
        let mut stride_bytes = SmallVec::new();
        for size in &sizes[..outer] {
            bytes = bytes.saturating_mul(*size);
            stride_bytes.push(bytes);
        }
        TensorLayout {
            element,
            sizes: SmallVec::from_slice(sizes),
            box_sizes: SmallVec::from_slice(box_sizes),
            stride_bytes,
            swizzle: TensorSwizzle::None,
            promotion: L2Promotion::None,
        }
    }

    /// With these strides, in bytes, of all dimensions but the innermost, whose elements always
    /// follow one another.
    pub fn strides(mut self, bytes: &[u64]) -> Self {
        self.stride_bytes = SmallVec::from_slice(bytes);
        self
    }

    /// With this swizzle.
    pub fn swizzle(mut self, swizzle: TensorSwizzle) -> Self {
        self.swizzle = swizzle;
        self
    }

    /// With reads that bring so many bytes into the L2 cache.
    pub fn promotion(mut self, promotion: L2Promotion) -> Self {
        self.promotion = promotion;
        self
    }

    /// Bytes of a box in shared memory, which are those that a copy reports to its barrier.
    pub fn box_bytes(&self) -> u64 {
        let bytes = self.element.bytes();
        self.box_sizes.iter().fold(bytes, |bytes, size| bytes.saturating_mul(u64::from(*size)))
    }

    /// Whether a map of this layout is possible, at a suitable address.
    ///
    /// # Errors
    /// Names the limit that is broken.
    pub fn check(&self) -> Result<(), Error> {
        self.limits().map_err(|source| Error::new(Kind::TensorLayout(source)))
    }

    /// Whether a tensor of a possible layout may lie at that address.
    pub(crate) fn check_at(&self, address: u64) -> Result<(), Error> {
        if address == 0 || !address.is_multiple_of(GRANULE) {
            return Err(Error::new(Kind::TensorLayout(TensorLayoutError::Address(address))));
        }
        Ok(())
    }

    fn limits(&self) -> Result<(), TensorLayoutError> {
        use TensorLayoutError::*;
        let rank = self.sizes.len();
        if !(1..=MAX_RANK).contains(&rank) {
            return Err(Rank(rank));
        }
        let counts = [
            ("extents of a box", rank, self.box_sizes.len()),
            ("strides", rank - 1, self.stride_bytes.len()),
        ];
        if let Some((what, wanted, found)) = counts.into_iter().find(|(_, a, b)| a != b) {
            return Err(Count { what, rank, wanted, found });
        }
        for (dimension, &size) in self.sizes.iter().enumerate() {
            if !(1..=1 << 32).contains(&size) {
                return Err(Size { dimension, size });
            }
        }
        for (outer, &bytes) in self.stride_bytes.iter().enumerate() {
            if !bytes.is_multiple_of(GRANULE) || bytes >= 1 << 40 {
                return Err(Stride { dimension: outer + 1, bytes });
            }
        }
        for (dimension, &size) in self.box_sizes.iter().enumerate() {
            if !(1..=256).contains(&size) {
                return Err(Box { dimension, size });
            }
        }
        let bytes = u64::from(self.box_sizes[0]) * self.element.bytes();
        if !bytes.is_multiple_of(GRANULE) {
            return Err(BoxRow(bytes));
        }
        if bytes > self.swizzle.row_bytes() {
            return Err(Swizzle { swizzle: self.swizzle, bytes });
        }
        Ok(())
    }

    /// The map of the tensor at a device address (`DevicePointer::as_raw` of cust).
    ///
    /// Using the map reaches that memory; making it does not.
    ///
    /// # Errors
    /// As [`check`](TensorLayout::check); when the address is 0 or no multiple of 16; when there is
    /// no driver, or one from before CUDA 12.
    pub fn encode(&self, address: u64) -> Result<TensorMap, Error> {
        self.check()?;
        self.encode_checked(address)
    }

    /// The same of a layout that has been checked.
    pub(crate) fn encode_checked(&self, address: u64) -> Result<TensorMap, Error> {
        self.check_at(address)?;
        let mut map = TensorMap([0; 16]);
        let ones = [1; MAX_RANK];
        let answer = match encode_tiled() {
            // SAFETY: the lists are as long as the rank says, the map is 128 bytes at a multiple of
            // 64, and the driver only looks at the address.
            Some(encode) => unsafe {
                encode(
                    &mut map,
                    self.element as c_int,
                    self.sizes.len() as u32,
                    std::ptr::without_provenance_mut(address as usize),
                    self.sizes.as_ptr(),
                    self.stride_bytes.as_ptr(),
                    self.box_sizes.as_ptr(),
                    ones.as_ptr(),
                    0,
                    self.swizzle as c_int,
                    self.promotion as c_int,
                    0,
                )
            },
            None if cuda_driver_loader::load_error().is_some() => {
                cuda_driver_loader::NOT_INITIALIZED
            }
            None => cuda_driver_loader::NOT_FOUND,
        };
        if answer == 0 {
            return Ok(map);
        }
        let (name, text) = cuda_driver_loader::describe(answer);
        let driver = DriverCode { call: "cuTensorMapEncodeTiled", code: answer, name, text };
        Err(Error::new(Kind::Driver { context: format!("a tensor map of {self:?}"), driver }))
    }
}

/// `cuTensorMapEncodeTiled`: map, element type, rank, address, sizes, strides, box, element
/// strides, interleave (none), swizzle, promotion, what is outside (zeros).
type EncodeTiled = unsafe extern "C" fn(
    *mut TensorMap,
    c_int,
    u32,
    *mut c_void,
    *const u64,
    *const u64,
    *const u32,
    *const u32,
    c_int,
    c_int,
    c_int,
    c_int,
) -> c_int;

/// The driver's function, which is newer than cust's bindings: CUDA 12.0.
fn encode_tiled() -> Option<EncodeTiled> {
    static FOUND: OnceLock<Option<EncodeTiled>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let address = cuda_driver_loader::symbol(c"cuTensorMapEncodeTiled")?;
        // SAFETY: the function has this type in cuda.h since CUDA 12.0, enums being ints.
        Some(unsafe { std::mem::transmute::<*const (), EncodeTiled>(address) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix() -> TensorLayout {
        TensorLayout::new(TensorElement::Bf16, &[4096, 128], &[64, 128])
            .swizzle(TensorSwizzle::B128)
    }

    #[test]
    fn packed_strides_are_the_default() {
        let layout = TensorLayout::new(TensorElement::F32, &[8, 3, 5, 2], &[8, 1, 1, 1]);
        assert_eq!(layout.stride_bytes[..], [32, 96, 480]);
        layout.check().unwrap();
        assert_eq!(layout.box_bytes(), 32);
        assert_eq!(matrix().box_bytes(), 16384);
        assert_eq!(TensorLayout::new(TensorElement::U8, &[16], &[16]).limits(), Ok(()));
    }

    #[test]
    fn each_limit_is_named() {
        use TensorElement::*;
        let new = TensorLayout::new;
        for (layout, part) in [
            (new(U8, &[], &[]), "this one has 0"),
            (new(U8, &[16; 6], &[1; 6]), "this one has 6"),
            (new(U8, &[16, 16], &[16]), "2 extents of a box and got 1"),
            (matrix().strides(&[]), "1 strides and got 0"),
            (new(U8, &[0], &[16]), "dimension 0 has 0 elements"),
            (new(U8, &[16, (1 << 32) + 1], &[16, 1]), "dimension 1 has 4294967297 elements"),
            (new(U8, &[24, 2], &[16, 1]), "stride of dimension 1 is 24 bytes"),
            (matrix().strides(&[1 << 40]), "below 2^40"),
            (new(U8, &[512], &[272]), "272 elements in dimension 0"),
            (new(U8, &[512, 16], &[16, 0]), "0 elements in dimension 1"),
            (new(F32, &[512], &[3]), "a row of a box has 12 bytes"),
            (new(F32, &[512], &[36]).swizzle(TensorSwizzle::B128), "has 144 bytes; swizzle B128"),
            (new(F32, &[512], &[20]).swizzle(TensorSwizzle::B64), "B64 takes 64 at most"),
            (new(F32, &[512], &[12]).swizzle(TensorSwizzle::B32), "B32 takes 32 at most"),
        ] {
            let error = layout.check().unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
            assert_eq!(layout.encode(0x1000).unwrap_err().to_string(), error);
        }
    }

    #[test]
    fn addresses_are_checked_before_the_driver_is_asked() {
        for address in [0, 8, 0x1001] {
            let error = matrix().encode(address).unwrap_err().to_string();
            assert!(error.contains(&format!("{address:#x}")), "{error}");
        }
    }

    #[test]
    fn the_driver_has_a_say() {
        match (cuda_driver_loader::load_error(), matrix().encode(0x7000_0000)) {
            (None, result) => assert!(result.unwrap().words().iter().any(|word| *word != 0)),
            (Some(_), result) => {
                let error = result.unwrap_err().to_string();
                assert!(error.contains("cuTensorMapEncodeTiled"), "{error}");
            }
        }
        assert_eq!((size_of::<TensorMap>(), align_of::<TensorMap>()), (128, 64));
    }
}
