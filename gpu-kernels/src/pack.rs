//! 16 bytes of elements: the widest access to global and to shared memory.

use crate::SharedTile;
use cuda_std::half::{bf16, f16};
use cuda_std::wgmma::Tf32;
use cuda_std::{F8E4M3, F8E5M2};

/// A type of which as many as fit make 16 bytes.
pub trait Packed: Copy {
    /// That many of them.
    type Pack: Copy + AsRef<[Self]> + AsMut<[Self]>;
    /// How many.
    const LANES: usize;
    /// All 0.
    const ZEROS: Self::Pack;
}

macro_rules! packs {
    ($($element:ident: $lanes:literal of $zero:expr,)*) => {$(
        impl Packed for $element {
            type Pack = [$element; $lanes];
            const LANES: usize = $lanes;
            const ZEROS: [$element; $lanes] = [$zero; $lanes];
        }
    )*};
}

packs! {
    i8: 16 of 0,
    i32: 4 of 0,
    u32: 4 of 0,
    F8E4M3: 16 of F8E4M3::from_bits(0),
    F8E5M2: 16 of F8E5M2::from_bits(0),
    f16: 8 of f16::from_bits(0),
    bf16: 8 of bf16::from_bits(0),
    f32: 4 of 0.0,
    Tf32: 4 of Tf32(0.0),
    f64: 2 of 0.0,
}

/// Reads 16 bytes of global memory. Lowers to `ld.global.v2.b64`.
///
/// # Safety
/// `source` is aligned to 16 bytes, and the 16 bytes may be read.
#[inline(always)]
pub unsafe fn read_global<T: Packed>(source: *const T) -> T::Pack {
    const { assert!(size_of::<T::Pack>() == 16) };
    // N.B. As one number of 16 bytes: LLVM reads an array of four words in two halves.
    // SAFETY: the caller's promise; every bit pattern is a pack.
    unsafe { core::mem::transmute_copy(&source.cast::<u128>().read()) }
}

/// Writes 16 bytes to global memory. Lowers to `st.global.v2.b64`.
///
/// # Safety
/// `target` is aligned to 16 bytes, and the 16 bytes may be written.
#[inline(always)]
pub unsafe fn write_global<T: Packed>(target: *mut T, lanes: T::Pack) {
    const { assert!(size_of::<T::Pack>() == 16) };
    // SAFETY: the caller's promise.
    unsafe { target.cast::<u128>().write(core::mem::transmute_copy(&lanes)) }
}

/// Reads 16 bytes of shared memory. Lowers to `ld.shared.v4.b32`, for elements of 8 bytes to
/// `.v2.b64`.
///
/// # Safety
/// `source` is aligned to 16 bytes, and the 16 bytes may be read.
#[inline(always)]
pub unsafe fn read_shared<T: Packed>(source: SharedTile<T>) -> T::Pack {
    const { assert!(size_of::<T::Pack>() == 16) };
    // SAFETY: as above.
    unsafe {
        match size_of::<T>() {
            8 => core::mem::transmute_copy(&source.cast::<u128>().read()),
            _ => core::mem::transmute_copy(&source.read_words()),
        }
    }
}

/// Writes 16 bytes to shared memory. Lowers to `st.shared.v2.b64`.
///
/// # Safety
/// `target` is aligned to 16 bytes, and the 16 bytes may be written.
#[inline(always)]
pub unsafe fn write_shared<T: Packed>(target: SharedTile<T>, lanes: T::Pack) {
    const { assert!(size_of::<T::Pack>() == 16) };
    // SAFETY: as above.
    unsafe { target.cast::<u128>().write(core::mem::transmute_copy(&lanes)) }
}
