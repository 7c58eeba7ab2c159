//! How an operand's tiles lie: rows along K, or along the extent that C keeps.

use super::{GROUP_ROWS, Rows64};
use crate::SharedTile;
use cuda_std::wgmma::{self, Descriptor, KMajor, MnMajor};
use gemm_spec::box_rows;

/// The direction in which tiles of an operand are contiguous.
pub trait Side<T>: wgmma::Major<T> {
    /// Whether it is K.
    const ALONG_K: bool;

    /// Rows that a tile's copy brings, of an operand with so many rows along K; the others are not
    /// touched. Of tiles along the extent itself the copy brings all.
    #[inline(always)]
    fn box_rows(extent: u64) -> u32 {
        if Self::ALONG_K { box_rows(extent) } else { GROUP_ROWS as u32 }
    }

    /// The tiles that the instructions read from here on.
    ///
    /// # Safety
    /// There are such tiles.
    unsafe fn first(tiles: SharedTile<Rows64<T>>) -> Descriptor<T, Self>;

    /// The four instructions' parts of a stage.
    ///
    /// # Safety
    /// The stage's tiles are there.
    unsafe fn parts(tile: Descriptor<T, Self>) -> [Descriptor<T, Self>; 4];
}

impl<T: wgmma::Element> Side<T> for KMajor {
    const ALONG_K: bool = true;

    #[inline(always)]
    unsafe fn first(tiles: SharedTile<Rows64<T>>) -> Descriptor<T, Self> {
        // SAFETY: the caller's promise.
        unsafe { tiles.k_major() }
    }

    #[inline(always)]
    unsafe fn parts(tile: Descriptor<T, Self>) -> [Descriptor<T, Self>; 4] {
        [tile, tile.step::<1>(), tile.step::<2>(), tile.step::<3>()]
    }
}

impl<T: wgmma::Element> Side<T> for MnMajor
where
    MnMajor: wgmma::Major<T>,
{
    const ALONG_K: bool = false;

    #[inline(always)]
    unsafe fn first(tiles: SharedTile<Rows64<T>>) -> Descriptor<T, Self> {
        // SAFETY: the caller's promise.
        unsafe { tiles.mn_major() }
    }

    #[inline(always)]
    unsafe fn parts(tile: Descriptor<T, Self>) -> [Descriptor<T, Self>; 4] {
        // SAFETY: elements have 16 bits, so that the tile has 64 values of K.
        unsafe { [tile, tile.step::<1>(), tile.step::<2>(), tile.step::<3>()] }
    }
}
