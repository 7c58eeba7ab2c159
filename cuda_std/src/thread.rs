//! The thread's place in its block and grid, barriers and fences.

use crate::gpu_only;

macro_rules! special_registers {
    ($($name:ident, $range:expr, $register:literal, $what:literal;)*) => {
        $(
            #[doc = concat!($what, ", ", stringify!($range), ".")]
            ///
            #[doc = concat!("Lowers to a read of `%", $register, "` (PTX ISA 10). The compiler knows the range.")]
            #[gpu_only]
            #[inline(always)]
            pub fn $name() -> u32 {
                // SAFETY: reading a special register has no precondition.
                let value = unsafe { crate::intrinsics::$name() };
                // SAFETY: no launch can exceed the range (CUDA C++ Programming Guide, technical specifications).
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

/// Waits until all threads of the block are here; what they wrote to shared and global memory before is visible to all of
/// them after.
///
/// Lowers to `bar.sync 0` (`barrier.sync.aligned`, PTX ISA 9.7.13.1). Every thread of the block that has not exited must
/// reach the same call, or the block hangs; a call in a branch that only some threads take does not.
#[gpu_only]
#[inline(always)]
pub fn sync_threads() {
    // SAFETY: a barrier touches no memory; a thread that never comes makes the block hang, which is no memory error.
    unsafe { crate::intrinsics::sync_threads() }
}
