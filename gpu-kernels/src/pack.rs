//! 16 bytes of elements: the widest access to global and to shared memory.

use crate::SharedTile;
use cuda_std::half::{bf16, f16};
use cuda_std::wgmma::Tf32;
use cuda_std::{F8E4M3, F8E5M2, mma};

/// 16 bytes.
pub type Words = [u32; 4];

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

/// 16 bytes of 32, `shift` bytes from the first.
#[inline(always)]
pub fn cut([first, second]: [Words; 2], shift: u32) -> Words {
    let [a, b, c, d] = first;
    let [e, f, g, h] = second;
    // N.B. Word by word: arrays that are chosen from go through local memory.
    let pick = |bit, near, far| if shift & bit == 0 { near } else { far };
    let (a, b, c) = (pick(8, a, c), pick(8, b, d), pick(8, c, e));
    let (d, e, f) = (pick(8, d, f), pick(8, e, g), pick(8, f, h));
    let (a, b, c) = (pick(4, a, b), pick(4, b, c), pick(4, c, d));
    let (d, e) = (pick(4, d, e), pick(4, e, f));
    let selector = 0x3210 + 0x1111 * (shift % 4);
    let cut = |low, high| mma::permute_bytes(low, high, selector);
    [cut(a, b), cut(b, c), cut(c, d), cut(d, e)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the device's instruction does.
    #[test]
    fn a_pack_is_cut_out_of_two() {
        let bytes: [u8; 32] = std::array::from_fn(|i| i as u8 + 1);
        let word = |i: usize| u32::from_le_bytes(std::array::from_fn(|j| bytes[4 * i + j]));
        let chunks = [0, 4].map(|first| std::array::from_fn(|i| word(first + i)));
        for shift in 0..16 {
            let words = cut(chunks, shift as u32).map(u32::to_le_bytes);
            assert_eq!(words.as_flattened(), &bytes[shift..shift + 16], "{shift} bytes further");
        }
    }
}
