//! Packs of a few elements, as numbers on their way through registers.

use crate::Packed;
use cuda_std::misc::afresh_i64;

/// The bits of L elements side by side, in one access.
///
/// N.B. Packs travel as numbers: arrays that are made in a branch fall into local memory.
///
/// # Safety
/// They lie at a multiple of their bytes, and may be read.
#[inline(always)]
pub unsafe fn read_pack<T, const L: usize>(source: *const T) -> u128 {
    // SAFETY: the caller's promise.
    unsafe {
        match size_of::<[T; L]>() {
            4 => u128::from(source.cast::<u32>().read()),
            8 => u128::from(source.cast::<u64>().read()),
            16 => source.cast::<u128>().read(),
            _ => unreachable!("no pack"),
        }
    }
}

/// The bits of the first `count` elements `stride` apart, then 0; of L where there are more.
///
/// # Safety
/// They may be read.
#[inline(always)]
pub unsafe fn gather<T, const L: usize>(source: *const T, stride: i64, count: u32) -> u128 {
    let (mut source, stride) = (source, afresh_i64(stride) as isize);
    let mut bits = 0u128;
    for l in 0..L {
        let mut element = 0u64;
        if (l as u32) < count {
            // SAFETY: the caller's promise.
            element = unsafe { read_bits(source) };
        }
        bits = bits >> (8 * size_of::<T>()) | u128::from(element) << (8 * size_of::<T>() * (L - 1));
        source = source.wrapping_offset(stride);
    }
    bits
}

/// The elements of a pack.
#[inline(always)]
pub fn unpacked<T: Packed, const L: usize>(bits: u128) -> [T; L] {
    const { assert!(size_of::<[T; L]>() <= 16) };
    // SAFETY: the number is long enough, and every bit pattern is an element.
    unsafe { core::mem::transmute_copy(&bits) }
}

/// An element's bits.
///
/// # Safety
/// It may be read.
#[inline(always)]
unsafe fn read_bits<T>(source: *const T) -> u64 {
    // SAFETY: the caller's promise.
    unsafe {
        match size_of::<T>() {
            1 => u64::from(source.cast::<u8>().read()),
            2 => u64::from(source.cast::<u16>().read()),
            4 => u64::from(source.cast::<u32>().read()),
            8 => source.cast::<u64>().read(),
            _ => unreachable!("no element"),
        }
    }
}
