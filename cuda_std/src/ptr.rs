//! State spaces of generic pointers.

use crate::gpu_only;
#[cfg(target_arch = "nvptx64")]
use core::arch::asm;

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

#[cfg(target_arch = "nvptx64")]
macro_rules! convert {
    ($instruction:literal, $ptr:ident, $address_space:ident) => {{
        let result: u64;
        macro_rules! cvta {
                    ($space:literal) => {
                        asm!(concat!($instruction, ".", $space, ".u64 {}, {};"), out(reg64) result,
                            in(reg64) $ptr as u64, options(pure, nomem, nostack))
                    };
                }
        // SAFETY: computes an address; the caller promises that it exists.
        unsafe {
            match $address_space {
                AddressSpace::Global => cvta!("global"),
                AddressSpace::Shared => cvta!("shared"),
                AddressSpace::Constant => cvta!("const"),
                AddressSpace::Local => cvta!("local"),
            }
        }
        result as *const T
    }};
}

/// The address that a generic pointer has within a state space. It may be followed only by instructions for that space.
///
/// Lowers to `cvta.to` (PTX ISA, data movement and conversion instructions).
///
/// # Safety
/// The pointer lies in the state space.
#[gpu_only]
#[inline(always)]
pub unsafe fn convert_generic_to_specific_address_space<T>(
    ptr: *const T,
    address_space: AddressSpace,
) -> *const T {
    convert!("cvta.to", ptr, address_space)
}

/// The generic pointer for an address within a state space.
///
/// Lowers to `cvta` (PTX ISA, data movement and conversion instructions).
///
/// # Safety
/// The address lies within the state space.
#[gpu_only]
#[inline(always)]
pub unsafe fn convert_specific_address_space_to_generic<T>(
    ptr: *const T,
    address_space: AddressSpace,
) -> *const T {
    convert!("cvta", ptr, address_space)
}
