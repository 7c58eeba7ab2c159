//! Tiles in shared memory as tensor cores read them, and the 64-bit descriptors of such tiles.
//!
//! (PTX ISA, "Shared Memory Matrix Layout", "Strides", "Matrix Descriptor Format".)

use super::{Element, sealed};
use crate::half::{bf16, f16};
use crate::shared::SharedPtr;
use core::marker::PhantomData;

/// How 16-byte chunks are exchanged within rows so that a column of them lies in different banks.
///
/// The same pattern is asked of the copy engine, in the tensor map, and of the tensor cores, in the
/// descriptor: 8 rows of [`ROW_BYTES`](Swizzle::ROW_BYTES), within which chunk c of row r lies
/// where chunk c ^ r would (for [`B128`]; for [`B64`] it is c ^ r / 2, for [`B32`] c ^ r / 4).
pub trait Swizzle: sealed::Sealed + Copy {
    /// A row of the tile.
    #[doc(hidden)]
    type Row;
    /// Bytes of a row.
    const ROW_BYTES: u32;
    /// The descriptor's bits 62 and 63.
    #[doc(hidden)]
    const LAYOUT: u32;

    /// Where the byte at `offset` of a tile of plain rows lies in the swizzled tile.
    #[inline(always)]
    fn swizzled(offset: u32) -> u32 {
        offset ^ (offset >> 3 & (Self::ROW_BYTES - 16))
    }
}

/// Rows of 128 bytes.
#[derive(Clone, Copy, Debug)]
pub struct B128;
/// Rows of 64 bytes.
#[derive(Clone, Copy, Debug)]
pub struct B64;
/// Rows of 32 bytes.
#[derive(Clone, Copy, Debug)]
pub struct B32;

macro_rules! swizzles {
    ($($name:ident, $bytes:literal, $layout:literal;)*) => {$(
        impl sealed::Sealed for $name {}

        impl Swizzle for $name {
            type Row = [u8; $bytes];
            const ROW_BYTES: u32 = $bytes;
            const LAYOUT: u32 = $layout;
        }
    )*};
}

swizzles! {
    B128, 128, 1;
    B64, 64, 2;
    B32, 32, 3;
}

/// `ROWS` rows of `S::ROW_BYTES` bytes of `T`, swizzled, from a multiple of 1024 bytes on: what the
/// copy engine makes of a box with that inner extent and that swizzle. `ROWS` is a multiple of 8
/// (of 16 for B64, of 32 for B32, so that tiles in an array follow one another without a gap).
///
/// `shared_array![Tile<bf16, 64>; STAGES]` is an array of tiles; a pointer to other shared memory
/// becomes one to a tile by [`SharedPtr::cast`].
#[repr(C, align(1024))]
pub struct Tile<T, const ROWS: usize, S: Swizzle = B128> {
    rows: [S::Row; ROWS],
    element: PhantomData<T>,
}

impl<T, const ROWS: usize, S: Swizzle> Tile<T, ROWS, S> {
    /// Elements of a row.
    pub const COLUMNS: usize = S::ROW_BYTES as usize / size_of::<T>();
    /// Bytes of the tile, which are those that a copy of its box brings.
    pub const BYTES: u32 = {
        assert!(size_of::<Self>() == ROWS * S::ROW_BYTES as usize, "rows fill whole kilobytes");
        size_of::<Self>() as u32
    };
}

impl<T, const ROWS: usize, S: Swizzle> SharedPtr<Tile<T, ROWS, S>> {
    /// The element in a row and a column of the tile.
    ///
    /// # Safety
    /// The pointer is to a tile; row and column are in it.
    #[inline(always)]
    pub unsafe fn element(self, row: u32, column: u32) -> SharedPtr<T> {
        let offset = S::swizzled(row * S::ROW_BYTES + column * size_of::<T>() as u32);
        // SAFETY: a swizzle permutes the tile's bytes, and keeps an element's together.
        unsafe { self.cast::<u8>().add(offset as usize).cast() }
    }
}

/// K-major: a row of the tile is one of A's rows, or one of B's columns, and K runs along it.
#[derive(Clone, Copy, Debug)]
pub struct KMajor;
/// MN-major: a row of the tile is one K, and A's rows or B's columns run along it. For elements of
/// 16 bits alone.
#[derive(Clone, Copy, Debug)]
pub struct MnMajor;

/// The direction in which a tile of `T` is contiguous.
pub trait Major<T>: sealed::Sealed + Copy {
    /// The instruction's `imm-trans`.
    #[doc(hidden)]
    const TRANSPOSED: u32;
}

impl sealed::Sealed for KMajor {}
impl sealed::Sealed for MnMajor {}

impl<T: Element> Major<T> for KMajor {
    const TRANSPOSED: u32 = 0;
}
impl Major<f16> for MnMajor {
    const TRANSPOSED: u32 = 1;
}
impl Major<bf16> for MnMajor {
    const TRANSPOSED: u32 = 1;
}

/// Where a tile of A or B lies and how: what `wgmma` takes in the place of registers.
///
/// Only [`SharedPtr::k_major`] and [`SharedPtr::mn_major`] make one, and only for tiles that the
/// tensor cores read.
///
/// ```compile_fail,E0277
/// use cuda_std::{SharedPtr, wgmma::{Tf32, Tile}};
/// // Only elements of 16 bits can be transposed.
/// unsafe fn f(tile: SharedPtr<Tile<Tf32, 64>>) {
///     unsafe { tile.mn_major() };
/// }
/// ```
///
/// ```compile_fail,E0080
/// use cuda_std::{SharedPtr, bf16, wgmma::{B64, Tile}};
/// // A row of 64 bytes has two instructions' K.
/// unsafe fn f(tile: SharedPtr<Tile<bf16, 64, B64>>) {
///     unsafe { tile.k_major().step::<2>() };
/// }
/// fn main() {
///     unsafe { f(SharedPtr::from_host(std::ptr::null_mut())) }
/// }
/// ```
pub struct Descriptor<T, M, S = B128> {
    /// The fields in which descriptors of one kind differ; the others follow from `S`.
    low: u32,
    what: PhantomData<(T, M, S)>,
}

impl<T, M, S> Clone for Descriptor<T, M, S> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, M, S> Copy for Descriptor<T, M, S> {}

/// Addresses and distances are in units of 16 bytes, 14 bits each.
#[inline(always)]
const fn field(bytes: u32) -> u32 {
    bytes >> 4 & 0x3fff
}

impl<T, M, S: Swizzle> Descriptor<T, M, S> {
    /// The high half: the distance between groups of 8 rows, and the swizzle.
    const HIGH: u32 = field(8 * S::ROW_BYTES) | S::LAYOUT << 30;

    #[inline(always)]
    fn new(address: u32, leading_bytes: u32) -> Self {
        Descriptor { low: field(address) | field(leading_bytes) << 16, what: PhantomData }
    }

    /// The descriptor as the instruction takes it.
    #[inline(always)]
    pub fn bits(self) -> u64 {
        u64::from(Self::HIGH) << 32 | u64::from(self.low)
    }

    /// The tile, for threads that read it, or what lies as far behind it as the steps say. A
    /// descriptor has 18 bits of the address; the others, in which blocks of a cluster differ, are
    /// those of `near`.
    ///
    /// # Safety
    /// `near` lies in the shared memory of the tile's block.
    #[inline(always)]
    pub unsafe fn tile<U, const ROWS: usize>(
        self,
        near: SharedPtr<U>,
    ) -> SharedPtr<Tile<T, ROWS, S>> {
        let address = (address(near) & !0x3ffff) | (self.low & 0x3fff) << 4;
        // SAFETY: the address of the pointer of which the descriptor was made, or of another part
        // of what it points to.
        #[cfg(target_arch = "nvptx64")]
        return unsafe { SharedPtr::from_address(address) };
        #[cfg(not(target_arch = "nvptx64"))]
        return SharedPtr::from_host(core::ptr::without_provenance_mut(address as usize));
    }

    /// The same of a tile that lies so many bytes further on, which do not carry into the other
    /// fields: shared memory ends before 2^18.
    ///
    /// # Safety
    /// There is such a tile, as this one is.
    #[inline(always)]
    pub unsafe fn past(self, bytes: u32) -> Self {
        Descriptor { low: self.low + (bytes >> 4), what: PhantomData }
    }
}

/// The address in shared memory; on the host, in its place, the low bits of the pointer.
#[inline(always)]
fn address<T>(pointer: SharedPtr<T>) -> u32 {
    #[cfg(target_arch = "nvptx64")]
    return pointer.address();
    #[cfg(not(target_arch = "nvptx64"))]
    return pointer.host_address() as u32;
}

impl<T: Element, const ROWS: usize, S: Swizzle> SharedPtr<Tile<T, ROWS, S>> {
    /// The tile as A, with M along its rows, or as B, with N along them, and K within a row.
    ///
    /// The distance between groups of 8 rows ("stride byte offset") is that of a tile; the other
    /// one ("leading") is not used with a swizzle, and 1 by custom.
    ///
    /// # Safety
    /// The pointer is to a tile, or to a group of 8 rows of one (for another part of M or N). Rows
    /// that the instruction's M or N needs behind the tile's last are those of the next tiles.
    #[inline(always)]
    pub unsafe fn k_major(self) -> Descriptor<T, KMajor, S> {
        const { assert!(Tile::<T, ROWS, S>::BYTES > 0, "evaluated: rows come in groups of 8") };
        Descriptor::new(address(self), 16)
    }

    /// The tile as A or B with K along its rows, and M or N within a row. Further columns follow in
    /// the next tiles of an array: M or N is 64 elements a tile for B128.
    ///
    /// "Leading byte offset" is the distance from tile to tile, "stride" that of 8 rows of K.
    ///
    /// # Safety
    /// The pointer is to a tile, and those that the instruction's M or N need follow it.
    #[inline(always)]
    pub unsafe fn mn_major(self) -> Descriptor<T, MnMajor, S>
    where
        MnMajor: Major<T>,
    {
        Descriptor::new(address(self), Tile::<T, ROWS, S>::BYTES)
    }
}

impl<T: Element, S: Swizzle> Descriptor<T, KMajor, S> {
    /// The K of instruction number `STEPS` in the rows: 32 bytes on for each, from the rows' start.
    /// Steps of a step add up, and past the end of the rows they name others.
    #[inline(always)]
    pub fn step<const STEPS: u32>(self) -> Self {
        const { assert!(32 * STEPS < S::ROW_BYTES, "the step lies behind the end of the rows") };
        // SAFETY: within the rows; the instruction takes parts of them.
        unsafe { self.past(32 * STEPS) }
    }
}

impl<T: Element, S: Swizzle> Descriptor<T, MnMajor, S> {
    /// The K of instruction number `STEPS`: 16 rows on for each.
    ///
    /// # Safety
    /// The tile has so many rows.
    #[inline(always)]
    pub unsafe fn step<const STEPS: u32>(self) -> Self {
        // SAFETY: the caller's promise.
        unsafe { self.past(16 * STEPS * S::ROW_BYTES) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Tf32;
    use super::*;

    #[test]
    fn swizzles_are_those_of_the_manual() {
        // PTX ISA, "Swizzling modes": the chunk's number is exchanged by bits of the row's.
        for row in 0..16 {
            for chunk in 0..8 {
                let at = 128 * row + 16 * chunk + 5;
                assert_eq!(B128::swizzled(at), 128 * row + 16 * (chunk ^ (row % 8)) + 5);
            }
            for chunk in 0..4 {
                let at = 64 * row + 16 * chunk;
                assert_eq!(B64::swizzled(at), 64 * row + 16 * (chunk ^ (row / 2 % 4)));
            }
            for chunk in 0..2 {
                let at = 32 * row + 16 * chunk;
                assert_eq!(B32::swizzled(at), 32 * row + 16 * (chunk ^ (row / 4 % 2)));
            }
        }
    }

    fn tile<T, const ROWS: usize, S: Swizzle>(address: usize) -> SharedPtr<Tile<T, ROWS, S>> {
        SharedPtr::from_host(std::ptr::without_provenance_mut(address))
    }

    #[test]
    fn descriptors_have_the_fields_of_the_manual() {
        // SAFETY: nothing is read.
        let [a, b, c] = unsafe {
            [
                tile::<bf16, 64, B128>(0x8400).k_major().step::<3>().bits(),
                tile::<bf16, 64, B128>(0x400).mn_major().step::<1>().bits(),
                tile::<i8, 128, B64>(0x400).k_major().bits(),
            ]
        };
        assert_eq!(a, 0x846 | 1 << 16 | 64 << 32 | 1 << 62);
        assert_eq!(b, (0x40 + 128) | 512 << 16 | 64 << 32 | 1 << 62);
        assert_eq!(c, 0x40 | 1 << 16 | 32 << 32 | 2 << 62);
    }

    #[test]
    fn a_descriptor_leads_back_to_its_tile() {
        // SAFETY: nothing is read.
        let tile: SharedPtr<Tile<Tf32, 8>> = unsafe {
            let first = tile::<Tf32, 64, B128>(0x2_008400);
            first.k_major().past(0x2000).tile(tile::<u8, 8, B128>(0x2_000400))
        };
        assert_eq!(address(tile), 0x2_00a400, "with the block's number");
    }

    #[test]
    fn a_tile_is_its_rows() {
        assert_eq!(Tile::<bf16, 64>::BYTES, 8192);
        assert_eq!(Tile::<bf16, 64>::COLUMNS, 64);
        assert_eq!(Tile::<Tf32, 256, B32>::COLUMNS, 8);
        assert_eq!(align_of::<Tile<i8, 32, B32>>(), 1024);
        // SAFETY: nothing is read.
        let element = unsafe { tile::<f16, 8, B128>(0x400).element(3, 9) };
        assert_eq!(address(element), 0x400 + 3 * 128 + (1 ^ 3) * 16 + 2);
    }
}
