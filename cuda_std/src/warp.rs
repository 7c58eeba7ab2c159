//! What the threads of a warp do together.
//!
//! `mask` names the lanes that take part: bit i is lane i.

use crate::gpu_only;

pub use reduce::{WarpReduceValue, WarpReductionOp, warp_reduce};
pub use shuffle::{
    WarpShuffleValue, warp_shuffle_down, warp_shuffle_idx, warp_shuffle_up, warp_shuffle_xor,
};

mod reduce;
mod shuffle;

/// The thread's lane in its warp, 0..32.
///
/// Lowers to a read of `%laneid` (PTX ISA, special registers).
#[gpu_only]
#[inline(always)]
pub fn lane_id() -> u32 {
    // SAFETY: reading a special register has no precondition.
    let lane = unsafe { crate::intrinsics::lane_id() };
    // SAFETY: a warp has 32 lanes.
    unsafe { core::hint::assert_unchecked(lane < 32) };
    lane
}

/// The lanes that run this instruction together now. A snapshot: lanes of one branch may be here at
/// different times.
///
/// Lowers to `activemask.b32` (PTX ISA, parallel synchronization and communication instructions).
#[gpu_only]
#[inline(always)]
pub fn activemask() -> u32 {
    // SAFETY: reading the mask has no precondition.
    unsafe { crate::intrinsics::activemask() }
}

/// Waits until the lanes in `mask` are here; what they wrote to memory before is visible to all of
/// them after.
///
/// Lowers to `bar.warp.sync` (PTX ISA, parallel synchronization and communication instructions).
///
/// # Safety
/// `mask` holds the calling lane, and every lane in it that has not exited calls `sync_warp` with
/// the same mask.
#[gpu_only]
#[inline(always)]
pub unsafe fn sync_warp(mask: u32) {
    // SAFETY: the caller's promise.
    unsafe { crate::intrinsics::sync_warp(mask) }
}

/// True in one lane of `mask`, the same one at every call with this mask: the lane that starts
/// copies, say. ptxas knows then that one lane alone runs what follows.
///
/// Lowers to `elect.sync` (PTX ISA, parallel synchronization and communication instructions); sm_90
/// and later.
///
/// # Safety
/// `mask` holds the calling lane, and every lane in it that has not exited makes the same call with
/// the same mask.
#[gpu_only]
#[inline(always)]
pub unsafe fn elect(mask: u32) -> bool {
    // SAFETY: the caller's promise.
    unsafe { crate::intrinsics::elect(mask) }.predicate
}

/// Whether `predicate` is true in all lanes of `mask`.
///
/// Lowers to `vote.sync.all.pred` (PTX ISA, parallel synchronization and communication
/// instructions).
///
/// # Safety
/// `mask` holds the calling lane, and every lane in it that has not exited makes the same call with
/// the same mask.
#[gpu_only]
#[inline(always)]
pub unsafe fn warp_vote_all(mask: u32, predicate: bool) -> bool {
    // SAFETY: the caller's promise.
    unsafe { crate::intrinsics::vote_all(mask, predicate) }
}

/// Whether `predicate` is true in some lane of `mask`.
///
/// Lowers to `vote.sync.any.pred` (PTX ISA, parallel synchronization and communication
/// instructions).
///
/// # Safety
/// `mask` holds the calling lane, and every lane in it that has not exited makes the same call with
/// the same mask.
#[gpu_only]
#[inline(always)]
pub unsafe fn warp_vote_any(mask: u32, predicate: bool) -> bool {
    // SAFETY: the caller's promise.
    unsafe { crate::intrinsics::vote_any(mask, predicate) }
}

/// The lanes of `mask` in which `predicate` is true.
///
/// Lowers to `vote.sync.ballot.b32` (PTX ISA, parallel synchronization and communication
/// instructions).
///
/// # Safety
/// `mask` holds the calling lane, and every lane in it that has not exited makes the same call with
/// the same mask.
#[gpu_only]
#[inline(always)]
pub unsafe fn warp_vote_ballot(mask: u32, predicate: bool) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { crate::intrinsics::vote_ballot(mask, predicate) }
}

/// A type that [`warp_match_any`] and [`warp_match_all`] compare, by its bits: 0.0 differs from
/// -0.0, and a NaN equals the same NaN.
pub trait WarpMatchValue: Copy + private::Match {}

macro_rules! match_values {
    ($($type:ty: $any:ident, $all:ident, |$value:ident| $to_bits:expr;)*) => {
        $(
            impl WarpMatchValue for $type {}
            impl private::Match for $type {
                #[gpu_only]
                #[inline(always)]
                unsafe fn any(self, mask: u32) -> u32 {
                    let $value = self;
                    // SAFETY: the caller's promise.
                    unsafe { crate::intrinsics::$any(mask, $to_bits) }
                }

                #[gpu_only]
                #[inline(always)]
                unsafe fn all(self, mask: u32) -> Option<u32> {
                    let $value = self;
                    // SAFETY: the caller's promise.
                    let lanes = unsafe { crate::intrinsics::$all(mask, $to_bits) };
                    if lanes.predicate { Some(lanes.value) } else { None }
                }
            }
        )*
    };
}

match_values! {
    u32: match_any_32, match_all_32, |value| value;
    i32: match_any_32, match_all_32, |value| value as u32;
    f32: match_any_32, match_all_32, |value| value.to_bits();
    u64: match_any_64, match_all_64, |value| value;
    i64: match_any_64, match_all_64, |value| value as u64;
    f64: match_any_64, match_all_64, |value| value.to_bits();
}

/// The lanes of `mask` that have the same `value` as this one.
///
/// Lowers to `match.any.sync.b32` or `.b64` (PTX ISA, parallel synchronization and communication
/// instructions); sm_70 and later.
///
/// # Safety
/// `mask` holds the calling lane, and every lane in it that has not exited makes the same call with
/// the same mask.
#[inline(always)]
pub unsafe fn warp_match_any<T: WarpMatchValue>(mask: u32, value: T) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { value.any(mask) }
}

/// The lanes of `mask`, where all of them have the same `value`; `None` where they have not.
///
/// Lowers to `match.all.sync.b32` or `.b64` (PTX ISA, parallel synchronization and communication
/// instructions); sm_70 and later.
///
/// # Safety
/// `mask` holds the calling lane, and every lane in it that has not exited makes the same call with
/// the same mask.
#[inline(always)]
pub unsafe fn warp_match_all<T: WarpMatchValue>(mask: u32, value: T) -> Option<u32> {
    // SAFETY: the caller's promise.
    unsafe { value.all(mask) }
}

mod private {
    pub trait Match {
        /// # Safety
        /// As for `warp_match_any`.
        unsafe fn any(self, mask: u32) -> u32;
        /// # Safety
        /// As for `warp_match_all`.
        unsafe fn all(self, mask: u32) -> Option<u32>;
    }
}
