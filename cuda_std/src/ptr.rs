//! State spaces of generic pointers.
//!
//! Rust-CUDA's conversions between generic and specific addresses are left out: a generic pointer
//! to shared memory is what `cuda_builder` refuses, and shared memory has
//! [`SharedPtr`](crate::SharedPtr).

use crate::gpu_only;

/// A state space of PTX (PTX ISA, state spaces).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AddressSpace {
    /// Memory of the whole device.
    Global,
    /// Memory of the block.
    Shared,
    /// Constants of the module.
    Constant,
    /// Memory of the thread.
    Local,
}

/// Whether a generic pointer lies in a state space.
///
/// Lowers to `isspacep` (PTX ISA, data movement and conversion instructions).
///
/// N.B. An H100 with driver 580 answers false for [`AddressSpace::Constant`] of the generic address
/// of a `.const` variable.
///
/// # Safety
/// None beyond a kernel's own: the pointer is not followed. Unsafe because it is in Rust-CUDA.
#[gpu_only]
#[inline(always)]
pub unsafe fn is_in_address_space<T>(ptr: *const T, address_space: AddressSpace) -> bool {
    use crate::intrinsics;
    let ptr = ptr.cast();
    // SAFETY: the instruction looks at the address alone.
    unsafe {
        match address_space {
            AddressSpace::Global => intrinsics::is_global(ptr),
            AddressSpace::Shared => intrinsics::is_shared(ptr),
            AddressSpace::Constant => intrinsics::is_constant(ptr),
            AddressSpace::Local => intrinsics::is_local(ptr),
        }
    }
}
