//! The thread's place in its block and grid, barriers and fences.

use crate::gpu_only;
use crate::vector::{UVec2, UVec3};
#[cfg(target_arch = "nvptx64")]
use core::arch::asm;

macro_rules! special_registers {
    ($($name:ident, $range:expr, $register:literal, $what:literal;)*) => {
        $(
            #[doc = concat!($what, ", ", stringify!($range), ".")]
            ///
            #[doc = concat!("Lowers to a read of `%", $register, "` (PTX ISA, special registers). \
                The compiler knows the range.")]
            #[gpu_only]
            #[inline(always)]
            pub fn $name() -> u32 {
                // SAFETY: reading a special register has no precondition.
                let value = unsafe { crate::intrinsics::$name() };
                // SAFETY: no launch can exceed the range (CUDA C++ Programming Guide, technical
                // specifications).
                unsafe { core::hint::assert_unchecked(($range).contains(&value)) };
                value
            }
        )*
    };
}

special_registers! {
    thread_idx_x, 0..1024, "tid.x", "The thread's index in its block along x";
    thread_idx_y, 0..1024, "tid.y", "The thread's index in its block along y";
    thread_idx_z, 0..64, "tid.z", "The thread's index in its block along z";
    block_idx_x, 0..0x7fff_ffff, "ctaid.x", "The block's index in its grid along x";
    block_idx_y, 0..65_535, "ctaid.y", "The block's index in its grid along y";
    block_idx_z, 0..65_535, "ctaid.z", "The block's index in its grid along z";
    block_dim_x, 1..=1024, "ntid.x", "Threads of a block along x";
    block_dim_y, 1..=1024, "ntid.y", "Threads of a block along y";
    block_dim_z, 1..=64, "ntid.z", "Threads of a block along z";
    grid_dim_x, 1..=0x7fff_ffff, "nctaid.x", "Blocks of the grid along x";
    grid_dim_y, 1..=65_535, "nctaid.y", "Blocks of the grid along y";
    grid_dim_z, 1..=65_535, "nctaid.z", "Blocks of the grid along z";
}

/// Waits until all threads of the block are here; what they wrote to shared and global memory
/// before is visible to all of them after.
///
/// Lowers to `bar.sync 0` (PTX ISA, parallel synchronization and communication instructions). Every
/// thread of the block that has not exited must reach the same call, or the block hangs; a call in
/// a branch that only some threads take does not.
#[gpu_only]
#[inline(always)]
pub fn sync_threads() {
    // SAFETY: a barrier touches no memory; a thread that never comes makes the block hang, which is
    // no memory error.
    unsafe { crate::intrinsics::sync_threads(0) }
}

/// [`sync_threads`], and the number of the block's threads whose `predicate` is not 0.
///
/// Lowers to `bar.red.popc.u32` on barrier 0 (PTX ISA, parallel synchronization and communication
/// instructions), with [`sync_threads`]' condition.
#[gpu_only]
#[inline(always)]
pub fn sync_threads_count(predicate: u32) -> u32 {
    // SAFETY: as for `sync_threads`.
    unsafe { crate::intrinsics::sync_threads_count(0, predicate != 0) }
}

/// [`sync_threads`], and 1 where no thread's `predicate` is 0, else 0.
///
/// Lowers to `bar.red.and.pred` on barrier 0 (PTX ISA, parallel synchronization and communication
/// instructions), with [`sync_threads`]' condition.
#[gpu_only]
#[inline(always)]
pub fn sync_threads_and(predicate: u32) -> u32 {
    // SAFETY: as for `sync_threads`.
    unsafe { crate::intrinsics::sync_threads_and(0, predicate != 0) as u32 }
}

/// [`sync_threads`], and 1 where some thread's `predicate` is not 0, else 0.
///
/// Lowers to `bar.red.or.pred` on barrier 0 (PTX ISA, parallel synchronization and communication
/// instructions), with [`sync_threads`]' condition.
#[gpu_only]
#[inline(always)]
pub fn sync_threads_or(predicate: u32) -> u32 {
    // SAFETY: as for `sync_threads`.
    unsafe { crate::intrinsics::sync_threads_or(0, predicate != 0) as u32 }
}

/// Orders this thread's memory accesses before and after, as the other threads of its block see
/// them. No thread waits.
///
/// Lowers to `membar.cta` (PTX ISA, parallel synchronization and communication instructions).
#[gpu_only]
#[inline(always)]
pub fn block_fence() {
    // SAFETY: a fence has no precondition.
    unsafe { crate::intrinsics::block_fence() }
}

/// Orders this thread's memory accesses before and after, as the other threads of its grid see
/// them. No thread waits.
///
/// Lowers to `membar.gl` (PTX ISA, parallel synchronization and communication instructions), as
/// [`device_fence`] does: PTX has no scope between a block's cluster and the device.
#[gpu_only]
#[inline(always)]
pub fn grid_fence() {
    device_fence()
}

/// Orders this thread's memory accesses before and after, as the other threads of the device see
/// them. No thread waits.
///
/// Lowers to `membar.gl` (PTX ISA, parallel synchronization and communication instructions).
#[gpu_only]
#[inline(always)]
pub fn device_fence() {
    // SAFETY: a fence has no precondition.
    unsafe { crate::intrinsics::device_fence() }
}

/// Orders this thread's memory accesses before and after, as the host and other devices see them
/// too. No thread waits.
///
/// Lowers to `membar.sys` (PTX ISA, parallel synchronization and communication instructions).
#[gpu_only]
#[inline(always)]
pub fn system_fence() {
    // SAFETY: a fence has no precondition.
    unsafe { crate::intrinsics::system_fence() }
}

/// Suspends the thread for a time between 0 and 2 * `nanos`, at most about a millisecond.
///
/// Lowers to `nanosleep.u32` (PTX ISA, miscellaneous instructions); sm_70 and later.
#[gpu_only]
#[inline(always)]
pub fn nanosleep(nanos: u32) {
    // SAFETY: waiting has no precondition.
    unsafe { asm!("nanosleep.u32 {};", in(reg32) nanos, options(nomem, nostack)) }
}

/// The thread's index in its block.
#[gpu_only]
#[inline(always)]
pub fn thread_idx() -> UVec3 {
    UVec3::new(thread_idx_x(), thread_idx_y(), thread_idx_z())
}

/// The block's index in its grid.
#[gpu_only]
#[inline(always)]
pub fn block_idx() -> UVec3 {
    UVec3::new(block_idx_x(), block_idx_y(), block_idx_z())
}

/// Threads of a block along each axis.
#[gpu_only]
#[inline(always)]
pub fn block_dim() -> UVec3 {
    UVec3::new(block_dim_x(), block_dim_y(), block_dim_z())
}

/// Blocks of the grid along each axis.
#[gpu_only]
#[inline(always)]
pub fn grid_dim() -> UVec3 {
    UVec3::new(grid_dim_x(), grid_dim_y(), grid_dim_z())
}

/// A number that only this thread of the grid has: blocks in x, y, z order, and within a block
/// threads in x, y, z order. Below 2^32; a thread whose number is larger traps (see [`index_u64`]).
#[gpu_only]
#[inline(always)]
pub fn index() -> u32 {
    in_u32(index_u64())
}

/// [`index`], for grids of 2^32 threads and more.
#[gpu_only]
#[inline(always)]
pub fn index_u64() -> u64 {
    linear_index(block_idx(), grid_dim(), thread_idx(), block_dim())
}

/// The thread's index in the grid along x. A thread whose index does not fit 32 bits traps.
#[gpu_only]
#[inline(always)]
pub fn index_1d() -> u32 {
    in_u32(along(block_idx_x(), block_dim_x(), thread_idx_x()))
}

/// The thread's indices in the grid along x and y. A thread for which one does not fit 32 bits
/// traps.
#[gpu_only]
#[inline(always)]
pub fn index_2d() -> UVec2 {
    UVec2::new(index_1d(), in_u32(along(block_idx_y(), block_dim_y(), thread_idx_y())))
}

/// The thread's indices in the grid along x, y and z. A thread for which one does not fit 32 bits
/// traps.
#[gpu_only]
#[inline(always)]
pub fn index_3d() -> UVec3 {
    let UVec2 { x, y } = index_2d();
    UVec3::new(x, y, in_u32(along(block_idx_z(), block_dim_z(), thread_idx_z())))
}

/// Whether this is the thread (0, 0, 0) of the block (0, 0, 0): true in one thread of the grid.
#[gpu_only]
#[inline(always)]
pub fn first() -> bool {
    block_idx() == UVec3::default() && thread_idx() == UVec3::default()
}

/// Threads of a warp: 32 on every GPU so far.
///
/// Lowers to the constant 32, which PTX calls `WARP_SZ`.
#[gpu_only]
#[inline(always)]
pub fn warp_size() -> u32 {
    // SAFETY: reading a constant has no precondition.
    unsafe { crate::intrinsics::warp_size() }
}

#[cfg_attr(not(target_arch = "nvptx64"), allow(dead_code))]
#[inline(always)]
fn in_u32(index: u64) -> u32 {
    assert!(index <= u32::MAX as u64, "the thread's index does not fit 32 bits");
    index as u32
}

#[cfg_attr(not(target_arch = "nvptx64"), allow(dead_code))]
#[inline(always)]
fn along(block: u32, threads: u32, thread: u32) -> u64 {
    block as u64 * threads as u64 + thread as u64
}

/// Wraps at 2^64, which would take longer than a year to count to.
#[cfg_attr(not(target_arch = "nvptx64"), allow(dead_code))]
#[inline(always)]
fn linear_index(block_idx: UVec3, grid_dim: UVec3, thread_idx: UVec3, block_dim: UVec3) -> u64 {
    let linear = |index: UVec3, dim: UVec3| {
        (index.z as u64 * dim.y as u64 + index.y as u64) * dim.x as u64 + index.x as u64
    };
    linear(block_idx, grid_dim)
        .wrapping_mul(block_dim.element_product() as u64)
        .wrapping_add(linear(thread_idx, block_dim))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_index_counts_every_thread_once_in_order() {
        let (grid, block) = (UVec3::new(3, 2, 4), UVec3::new(5, 3, 2));
        let axes = |dim: UVec3| {
            (0..dim.z).flat_map(move |z| {
                (0..dim.y).flat_map(move |y| (0..dim.x).map(move |x| UVec3::new(x, y, z)))
            })
        };
        let mut expected = 0;
        for block_idx in axes(grid) {
            for thread_idx in axes(block) {
                assert_eq!(linear_index(block_idx, grid, thread_idx, block), expected);
                expected += 1;
            }
        }
    }

    #[test]
    fn large_indices_do_not_wrap() {
        assert_eq!(along(0x7fff_fffe, 1024, 1023), 0x7fff_ffff * 1024 - 1);
        assert!(std::panic::catch_unwind(|| in_u32(1 << 32)).is_err());
        assert_eq!(in_u32(u32::MAX as u64), u32::MAX);
        let grid = UVec3::new(0x7fff_ffff, 2, 1);
        let last = UVec3::new(0x7fff_fffe, 1, 0);
        let index = linear_index(last, grid, UVec3::new(31, 0, 0), UVec3::new(32, 1, 1));
        assert_eq!(index, 0x7fff_ffff * 2 * 32 - 1);
    }

    #[test]
    fn the_host_is_told_why_it_panics() {
        let panic = std::panic::catch_unwind(thread_idx_x).unwrap_err();
        let text = panic.downcast_ref::<&str>().unwrap();
        assert!(text.contains("`thread_idx_x` runs only on the GPU"), "{text}");
    }
}
