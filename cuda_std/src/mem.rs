//! How much shared memory the launch gave the block.

use crate::gpu_only;
#[cfg(target_arch = "nvptx64")]
use core::arch::asm;

/// Bytes of dynamic shared memory that the launch asked for.
///
/// Lowers to a read of `%dynamic_smem_size` (PTX ISA, special registers).
#[gpu_only]
#[inline(always)]
pub fn dynamic_smem_size() -> u32 {
    let bytes: u32;
    // SAFETY: reads a special register.
    unsafe {
        asm!("mov.u32 {}, %dynamic_smem_size;", out(reg32) bytes, options(pure, nomem, nostack));
    }
    bytes
}

/// Bytes of shared memory that the block has, static and dynamic, rounded up to the unit in which
/// the GPU gives it out (128 bytes from sm_80, 256 before), without what the system keeps for
/// itself.
///
/// Lowers to a read of `%total_smem_size` (PTX ISA, special registers).
#[gpu_only]
#[inline(always)]
pub fn total_smem_size() -> u32 {
    let bytes: u32;
    // SAFETY: reads a special register.
    unsafe {
        asm!("mov.u32 {}, %total_smem_size;", out(reg32) bytes, options(pure, nomem, nostack));
    }
    bytes
}
