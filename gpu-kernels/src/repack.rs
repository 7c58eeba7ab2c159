//! Copies an operand to rows along K, for kernels that read it in no other way.
//!
//! # Idea
//!
//! ```text
//! for each tile of 64 x 64 elements, in parallel:
//!     read it along the extent in which the source is contiguous, 16 bytes at a time
//!     put it into shared memory, row by row
//!     write its rows, 16 bytes at a time
//! ```
//!
//! # Mapping
//!
//! A block of 256 threads copies a tile; of several matrices, each has a layer of the grid. Where
//! the source is contiguous down its columns, the lanes of a warp read 64 bytes of each of 8
//! columns.
//!
//! # Shared memory
//!
//! The tile, each row followed by 16 bytes, so that neighbouring rows begin in different banks.
//!
//! # Preconditions
//!
//! Those of [`RepackParams`], and a grid from `Kernel::launches`. Any strides; elements move by
//! packs of 16 bytes where those of the source are contiguous and aligned, else one by one. The
//! target starts at a multiple of 16 bytes.

use crate::{Packed, SharedTile, pack};
use cuda_std::thread;
use gemm_spec::RepackParams;

/// Rows and columns of a tile.
const TILE: usize = 64;
/// Threads of a block.
const THREADS: usize = 256;

/// Elements from row to row of a tile.
const fn pitch<T: Packed>() -> usize {
    TILE + T::LANES
}

/// Copies the block's tile.
///
/// # Safety
///
/// By all threads of a block of `THREADS`; the pointers and the block of parameters describe a
/// source that may be read and a target that may be written, which nothing else touches meanwhile;
/// `tile` has `TILE` rows of `pitch` elements in the block's shared memory, at a multiple of 16
/// bytes.
#[inline(always)]
pub unsafe fn repack<T: Packed>(
    source: *const T,
    target: *mut T,
    p: &RepackParams,
    tile: SharedTile<T>,
) {
    const { assert!((TILE * TILE).is_multiple_of(THREADS * T::LANES)) };
    let matrix = i64::from(thread::block_idx_z());
    let source = source.wrapping_offset((matrix * p.source_step) as isize);
    let target = target.wrapping_offset((matrix * p.target_step) as isize);
    let row = u64::from(thread::block_idx_y()) * TILE as u64;
    let col = u64::from(thread::block_idx_x()) * TILE as u64;
    let packs_across = TILE / T::LANES;
    let down = p.row_stride.unsigned_abs() < p.col_stride.unsigned_abs();
    // SAFETY: elements of the source are read only inside of it, packs only where they are; the
    // tile is read when all of it has been written.
    unsafe {
        for v in 0..TILE * TILE / (THREADS * T::LANES) {
            let i = thread::thread_idx_x() as usize + v * THREADS;
            let (to_row, to_col) = match down {
                true => place_down::<T>(i),
                false => (i / packs_across, i % packs_across * T::LANES),
            };
            let at = (row + to_row as u64, col + to_col as u64);
            let to = tile.add(to_row * pitch::<T>() + to_col);
            match down {
                true => bring::<T, true>(source, p, at, to),
                false => bring::<T, false>(source, p, at, to),
            }
        }
        thread::sync_threads();
        for v in 0..TILE * TILE / (THREADS * T::LANES) {
            let i = thread::thread_idx_x() as usize + v * THREADS;
            let (from_row, from_col) = (i / packs_across, i % packs_across * T::LANES);
            let (row, col) = (row + from_row as u64, col + from_col as u64);
            if row < p.rows && col < p.cols {
                let lanes = pack::read_shared(tile.add(from_row * pitch::<T>() + from_col));
                pack::write_global(target.wrapping_add((row * p.pitch + col) as usize), lanes);
            }
        }
    }
}

/// Row and column of the tile's pack number `i`, down its columns: four packs below each other in
/// each of eight columns, then the next eight lanes' packs.
#[inline(always)]
fn place_down<T: Packed>(i: usize) -> (usize, usize) {
    let groups_down = TILE / T::LANES / 4;
    let (lane, group) = (i % 32, i / 32);
    let row = (group % groups_down * 4 + lane % 4) * T::LANES;
    (row, group / groups_down * 8 + lane / 4)
}

/// Brings a pack of the source from (row, col) on, down its column or along its row, to that place
/// of the tile; 0 for elements outside of the source.
///
/// # Safety
/// The source may be read, and the tile's elements written.
#[inline(always)]
unsafe fn bring<T: Packed, const DOWN: bool>(
    source: *const T,
    p: &RepackParams,
    (row, col): (u64, u64),
    to: SharedTile<T>,
) {
    let (left_down, left_across) = (p.rows.saturating_sub(row), p.cols.saturating_sub(col));
    let (stride, other) =
        if DOWN { (p.row_stride, p.col_stride) } else { (p.col_stride, p.row_stride) };
    let left = match DOWN {
        true if left_across > 0 => left_down,
        false if left_down > 0 => left_across,
        _ => 0,
    };
    let offset = row as i64 * p.row_stride + col as i64 * p.col_stride;
    let start = source.wrapping_offset(offset as isize);
    let bytes = (other as u64).wrapping_mul(size_of::<T>() as u64);
    let in_packs = stride == 1 && (source as u64 | bytes).is_multiple_of(16);
    let step = if DOWN { pitch::<T>() } else { 1 };
    // SAFETY: the elements lie in the source, and a pack of them starts at a multiple of 16 bytes.
    unsafe {
        if in_packs && left >= T::LANES as u64 {
            let lanes = pack::read_global(start);
            if DOWN {
                for (l, &element) in lanes.as_ref().iter().enumerate() {
                    to.add(l * step).write(element);
                }
            } else {
                pack::write_shared(to, lanes);
            }
        } else {
            for l in 0..T::LANES {
                let mut element = T::ZEROS.as_ref()[0];
                if (l as u64) < left {
                    element = start.wrapping_offset(l as isize * stride as isize).read();
                }
                to.add(l * step).write(element);
            }
        }
    }
}

/// Makes entry points from rows of a list.
#[cfg(feature = "sm_90")]
macro_rules! entries {
    ($((
        $name:ident, $variant:literal, $element:ident, [$bm:literal, $bn:literal, 1], $warp:tt,
        [$tm:literal, $tn:literal], $stages:literal, $min_blocks:literal
    ),)*) => {$(
        #[doc = concat!("`repack` for elements of the size of `", stringify!($element), "`.")]
        ///
        /// # Safety
        ///
        /// The pointers and the block describe a source that the grid may read and a target that it
        /// may write, which nothing else touches during the launch; the grid is one of
        /// `Kernel::launches`.
        #[cuda_std::kernel(max_threads = 256, min_blocks = $min_blocks)]
        pub unsafe fn $name(source: *const $element, target: *mut $element, p: RepackParams) {
            const { assert!($bm == TILE && $bn == TILE && $bm * $bn / ($tm * $tn) == THREADS) };
            let tile = cuda_std::shared_array![
                $element; TILE * (TILE + <$element as Packed>::LANES)
            ];
            // The kernel that reads the copy may get ready; the one before has ended.
            grid::launch_dependents();
            grid::wait_for_grids();
            // SAFETY: the tile is this block's own; the rest is the host's promise, passed on.
            unsafe { repack(source, target, &p, tile) }
        }
    )*};
}

#[cfg(feature = "sm_90")]
use cuda_std::{grid, half::f16};
#[cfg(feature = "sm_90")]
gemm_spec::repack_kernels!(entries);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packs_down_the_columns_cover_the_tile_once() {
        fn check<T: Packed>() {
            let mut seen = [[false; TILE]; TILE];
            for i in 0..TILE * TILE / T::LANES {
                let (row, col) = place_down::<T>(i);
                for l in 0..T::LANES {
                    assert!(!std::mem::replace(&mut seen[row + l][col], true));
                }
            }
            assert!(seen.as_flattened().iter().all(|&seen| seen));
        }
        check::<i8>();
        check::<f32>();
    }
}
