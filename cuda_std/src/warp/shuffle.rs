//! Values that lanes of a warp read from each other.
//!
//! `width` divides the warp into groups of neighbouring lanes, each of which behaves as a warp of
//! its own; it is 1, 2, 4, 8, 16 or 32, and any other value traps. The result is the value of the
//! source lane and `true`, or, where the source lane would lie outside of the group, the thread's
//! own value and `false`. A value of 8 or 16 bytes takes two or four instructions.

use crate::gpu_only;

/// A type that the lanes of a warp can pass to each other.
pub trait WarpShuffleValue: Copy + private::Shuffle {}

/// The value of the lane `delta` below.
///
/// Lowers to `shfl.sync.up.b32` (PTX ISA, data movement and conversion instructions).
///
/// # Safety
/// `mask` holds the calling lane and its source lane, and every lane in it that has not exited
/// makes the same call with the same mask.
#[gpu_only]
#[inline(always)]
pub unsafe fn warp_shuffle_up<T: WarpShuffleValue>(
    mask: u32,
    value: T,
    delta: u32,
    width: u32,
) -> (T, bool) {
    let control = control(width, 0);
    // SAFETY: the caller's promise.
    value.by(|word| unsafe { crate::intrinsics::shuffle_up(mask, word, delta, control) })
}

/// The value of the lane `delta` above.
///
/// Lowers to `shfl.sync.down.b32` (PTX ISA, data movement and conversion instructions).
///
/// # Safety
/// `mask` holds the calling lane and its source lane, and every lane in it that has not exited
/// makes the same call with the same mask.
#[gpu_only]
#[inline(always)]
pub unsafe fn warp_shuffle_down<T: WarpShuffleValue>(
    mask: u32,
    value: T,
    delta: u32,
    width: u32,
) -> (T, bool) {
    let control = control(width, 31);
    // SAFETY: the caller's promise.
    value.by(|word| unsafe { crate::intrinsics::shuffle_down(mask, word, delta, control) })
}

/// The value of lane `idx` of the group, modulo its width.
///
/// Lowers to `shfl.sync.idx.b32` (PTX ISA, data movement and conversion instructions).
///
/// # Safety
/// `mask` holds the calling lane and its source lane, and every lane in it that has not exited
/// makes the same call with the same mask.
#[gpu_only]
#[inline(always)]
pub unsafe fn warp_shuffle_idx<T: WarpShuffleValue>(
    mask: u32,
    value: T,
    idx: u32,
    width: u32,
) -> (T, bool) {
    let control = control(width, 31);
    // SAFETY: the caller's promise.
    value.by(|word| unsafe { crate::intrinsics::shuffle_idx(mask, word, idx, control) })
}

/// The value of the lane whose number is this lane's, exclusive or `lane_mask`. Unlike the others
/// it may read from a group below; a source lane in a group above is outside.
///
/// Lowers to `shfl.sync.bfly.b32` (PTX ISA, data movement and conversion instructions).
///
/// # Safety
/// `mask` holds the calling lane and its source lane, and every lane in it that has not exited
/// makes the same call with the same mask.
#[gpu_only]
#[inline(always)]
pub unsafe fn warp_shuffle_xor<T: WarpShuffleValue>(
    mask: u32,
    value: T,
    lane_mask: u32,
    width: u32,
) -> (T, bool) {
    let control = control(width, 31);
    // SAFETY: the caller's promise.
    value.by(|word| unsafe { crate::intrinsics::shuffle_xor(mask, word, lane_mask, control) })
}

/// The instruction's operand c: the mask of the lane bits that number a group, and the clamp.
#[cfg_attr(not(target_arch = "nvptx64"), allow(dead_code))]
#[inline(always)]
fn control(width: u32, clamp: u32) -> u32 {
    assert!(width.is_power_of_two() && width <= 32, "width must be 1, 2, 4, 8, 16 or 32");
    ((32 - width) << 8) | clamp
}

#[cfg(target_arch = "nvptx64")]
use crate::intrinsics::WithPredicate;

mod private {
    pub trait Shuffle: Sized {
        /// Passes each 32-bit word of the value through `shuffle`.
        #[cfg(target_arch = "nvptx64")]
        fn by(self, shuffle: impl Fn(u32) -> super::WithPredicate) -> (Self, bool);
    }
}

macro_rules! shuffle_values {
    ($($type:ty: |$value:ident| $to_word:expr, |$word:ident| $from_word:expr;)*) => {
        $(
            impl WarpShuffleValue for $type {}
            impl private::Shuffle for $type {
                #[cfg(target_arch = "nvptx64")]
                #[inline(always)]
                fn by(self, shuffle: impl Fn(u32) -> WithPredicate) -> (Self, bool) {
                    let $value = self;
                    let WithPredicate { value: $word, predicate } = shuffle($to_word);
                    ($from_word, predicate)
                }
            }
        )*
    };
}

shuffle_values! {
    u8: |value| value as u32, |word| word as u8;
    i8: |value| value as u32, |word| word as i8;
    u16: |value| value as u32, |word| word as u16;
    i16: |value| value as u32, |word| word as i16;
    u32: |value| value, |word| word;
    i32: |value| value as u32, |word| word as i32;
    f32: |value| value.to_bits(), |word| f32::from_bits(word);
    crate::f16: |value| value.to_bits() as u32, |word| crate::f16::from_bits(word as u16);
    crate::bf16: |value| value.to_bits() as u32, |word| crate::bf16::from_bits(word as u16);
}

macro_rules! wide_shuffle_values {
    ($($type:ty: $half:ident, $bits:ident, |$value:ident| $to_bits:expr, $from_bits:expr;)*) => {
        $(
            impl WarpShuffleValue for $type {}
            impl private::Shuffle for $type {
                #[cfg(target_arch = "nvptx64")]
                #[inline(always)]
                fn by(self, shuffle: impl Fn(u32) -> WithPredicate) -> (Self, bool) {
                    let $value = self;
                    let bits: $bits = $to_bits;
                    // The predicate depends on the lanes only.
                    let (low, predicate) = (bits as $half).by(&shuffle);
                    let (high, _) = ((bits >> $half::BITS) as $half).by(&shuffle);
                    ($from_bits(((high as $bits) << $half::BITS) | low as $bits), predicate)
                }
            }
        )*
    };
}

wide_shuffle_values! {
    u64: u32, u64, |value| value, core::convert::identity;
    i64: u32, u64, |value| value as u64, u64::cast_signed;
    f64: u32, u64, |value| value.to_bits(), f64::from_bits;
    u128: u64, u128, |value| value, core::convert::identity;
    i128: u64, u128, |value| value as u128, u128::cast_signed;
}

#[cfg(test)]
mod tests {
    use super::control;

    #[test]
    fn control_holds_segment_mask_and_clamp() {
        // Of CUDA C++ (sm_30_intrinsics.hpp): ((warpSize - width) << 8) | 0x1f, and without the
        // clamp for up.
        assert_eq!(control(32, 31), 0x001f);
        assert_eq!(control(32, 0), 0x0000);
        assert_eq!(control(16, 31), 0x101f);
        assert_eq!(control(1, 31), 0x1f1f);
    }

    #[test]
    fn widths_that_divide_no_warp_are_refused() {
        for width in [0, 3, 12, 33, 64] {
            assert!(std::panic::catch_unwind(|| control(width, 31)).is_err(), "{width}");
        }
    }
}
