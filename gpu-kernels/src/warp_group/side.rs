//! How an operand's tiles lie: rows along K, or along the extent that C keeps.

use super::{GROUP_ROWS, Rows64};
use crate::SharedTile;
use core::marker::PhantomData;
use cuda_std::wgmma::{self, B64, B128, Descriptor, KMajor, Major, MnMajor, Swizzle, Tile};
use gemm_spec::box_rows;

/// The direction in which tiles of an operand are contiguous, and the boxes that make them.
pub trait Side<T> {
    /// As the instructions name it.
    type Major: Major<T>;
    /// How its tiles are swizzled, which says how long their rows are.
    type Swizzle: Swizzle;
    /// Whether it is K.
    const ALONG_K: bool;
    /// A box's extent that is not K, and the rows of 128 bytes that it takes in a stage.
    const BOX: usize;
    /// Whether a copy brings half of a box in any case.
    const IS_HALVED: bool = false;

    /// Rows of 128 bytes that a box's copy brings, of an operand with so many rows along K; the
    /// others are not touched. Of boxes along the extent itself the copy brings all, or as many as
    /// K has.
    #[inline(always)]
    fn box_rows(extent: u64, _k: u64) -> u32 {
        let all = Self::BOX as u32;
        if Self::ALONG_K { box_rows(extent, all) } else { all }
    }

    /// The tiles that the instructions read from here on.
    ///
    /// # Safety
    /// There are such tiles.
    unsafe fn first(tiles: SharedTile<Rows64<T>>) -> Part<T, Self>;

    /// The four instructions' parts of a stage.
    ///
    /// # Safety
    /// The stage's tiles are there.
    unsafe fn parts(tile: Part<T, Self>) -> [Part<T, Self>; 4];
}

/// What an instruction reads of an operand.
pub type Part<T, S> = Descriptor<T, <S as Side<T>>::Major, <S as Side<T>>::Swizzle>;

/// Boxes of so many rows of an operand along K, or of 64 elements along the extent that C keeps, or
/// of 32 in rows of 64 bytes.
pub struct Boxes<M, const EXTENT: usize>(PhantomData<M>);

impl<T: wgmma::Element, const EXTENT: usize> Side<T> for Boxes<KMajor, EXTENT> {
    type Major = KMajor;
    type Swizzle = B128;
    const ALONG_K: bool = true;
    const BOX: usize = EXTENT;

    #[inline(always)]
    unsafe fn first(tiles: SharedTile<Rows64<T>>) -> Part<T, Self> {
        // SAFETY: the caller's promise; boxes of whole patterns of 8 rows follow one another.
        unsafe { tiles.k_major() }
    }

    #[inline(always)]
    unsafe fn parts(tile: Part<T, Self>) -> [Part<T, Self>; 4] {
        [tile, tile.step::<1>(), tile.step::<2>(), tile.step::<3>()]
    }
}

impl<T: wgmma::Element> Side<T> for Boxes<MnMajor, GROUP_ROWS>
where
    MnMajor: Major<T>,
{
    type Major = MnMajor;
    type Swizzle = B128;
    const ALONG_K: bool = false;
    const BOX: usize = GROUP_ROWS;

    #[inline(always)]
    fn box_rows(_extent: u64, k: u64) -> u32 {
        box_rows(k, GROUP_ROWS as u32)
    }

    #[inline(always)]
    unsafe fn first(tiles: SharedTile<Rows64<T>>) -> Part<T, Self> {
        // SAFETY: the caller's promise.
        unsafe { tiles.mn_major() }
    }

    #[inline(always)]
    unsafe fn parts(tile: Part<T, Self>) -> [Part<T, Self>; 4] {
        // SAFETY: elements have 16 bits, so that the tile has 64 values of K.
        unsafe { [tile, tile.step::<1>(), tile.step::<2>(), tile.step::<3>()] }
    }
}

/// Two rows of K in one of 128 bytes.
impl<T: wgmma::Element> Side<T> for Boxes<MnMajor, 32>
where
    MnMajor: Major<T>,
{
    type Major = MnMajor;
    type Swizzle = B64;
    const ALONG_K: bool = false;
    const BOX: usize = 32;

    #[inline(always)]
    fn box_rows(_extent: u64, k: u64) -> u32 {
        box_rows(k, GROUP_ROWS as u32) / 2
    }

    #[inline(always)]
    unsafe fn first(tiles: SharedTile<Rows64<T>>) -> Part<T, Self> {
        // SAFETY: the caller's promise; one tile has all of the instructions' columns.
        unsafe { tiles.cast::<Tile<T, GROUP_ROWS, B64>>().mn_major() }
    }

    #[inline(always)]
    unsafe fn parts(tile: Part<T, Self>) -> [Part<T, Self>; 4] {
        // SAFETY: as of longer rows.
        unsafe { [tile, tile.step::<1>(), tile.step::<2>(), tile.step::<3>()] }
    }
}
