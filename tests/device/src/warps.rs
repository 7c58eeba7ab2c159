//! `cuda_std::warp` without the shuffles.

use cuda_std::{kernel, shared_array, thread, warp};

/// One block of 32 threads. Leaves in `out + 12 * thread`: lane, active mask (of all lanes, then of
/// the odd ones), the element of the next lane by way of shared memory; all, any and ballot of
/// `predicates[thread]` over all lanes and then over the lanes 8 to 23 (0 elsewhere).
///
/// # Safety
/// `predicates` has 32 elements and `out` points to 384, that nothing else accesses.
#[kernel(max_threads = 32)]
pub unsafe fn votes(predicates: &[u32], out: *mut u32) {
    const ALL: u32 = u32::MAX;
    let lane = warp::lane_id() as usize;
    // SAFETY: all lanes come to the calls for all lanes, and lanes 8 to 23 to those for them.
    unsafe {
        let shared = shared_array![u32; 32];
        let out = out.add(12 * thread::thread_idx_x() as usize);
        let predicate = *predicates.get_unchecked(lane) != 0;
        shared.add(lane).write(lane as u32 + 100);
        warp::sync_warp(ALL);
        out.write(lane as u32);
        out.add(1).write(warp::activemask());
        if lane % 2 == 1 {
            out.add(2).write(warp::activemask());
        }
        warp::sync_warp(ALL);
        out.add(3).write(shared.add((lane + 1) % 32).read());
        out.add(4).write(warp::warp_vote_all(ALL, predicate) as u32);
        out.add(5).write(warp::warp_vote_any(ALL, predicate) as u32);
        out.add(6).write(warp::warp_vote_ballot(ALL, predicate));
        if (8..24).contains(&lane) {
            let middle = 0x00ff_ff00;
            out.add(7).write(warp::warp_vote_all(middle, predicate) as u32);
            out.add(8).write(warp::warp_vote_any(middle, predicate) as u32);
            out.add(9).write(warp::warp_vote_ballot(middle, predicate));
        }
    }
}

macro_rules! matches {
    ($($name:ident, $type:ident;)*) => {$(
        #[doc = concat!("One block of 32 threads. Leaves in `out + 3 * thread` the lanes with the \
            same `values[thread]`, \
            and whether all have it and the mask that then results; values are `",
            stringify!($type), "`.")]
        ///
        /// # Safety
        /// `values` has 32 elements and `out` points to 96, that nothing else accesses.
        #[kernel(max_threads = 32)]
        pub unsafe fn $name(values: &[$type], out: *mut u32) {
            let lane = warp::lane_id() as usize;
            // SAFETY: all lanes make the calls.
            unsafe {
                let value = *values.get_unchecked(lane);
                let out = out.add(3 * lane);
                out.write(warp::warp_match_any(u32::MAX, value));
                let all = warp::warp_match_all(u32::MAX, value);
                out.add(1).write(all.is_some() as u32);
                out.add(2).write(all.unwrap_or(0));
            }
        }
    )*};
}

matches! {
    match_u32, u32;
    match_i32, i32;
    match_f32, f32;
    match_u64, u64;
    match_i64, i64;
    match_f64, f64;
}

#[cfg(feature = "sm_80")]
macro_rules! reductions {
    ($($name:ident, $type:ident;)*) => {$(
        #[doc = concat!("One block of 32 threads. The lanes of `mask` leave in `out + 6 * thread` \
            the sum, least, \
            greatest, and, or, exclusive or of their `values[thread]`, which are `",
            stringify!($type), "`.")]
        ///
        /// # Safety
        /// `values` has 32 elements and `out` points to 192, that nothing else accesses.
        #[kernel(max_threads = 32)]
        pub unsafe fn $name(values: &[$type], mask: u32, out: *mut $type) {
            use cuda_std::warp::{WarpReductionOp, warp_reduce};
            let lane = warp::lane_id() as usize;
            // SAFETY: the lanes of the mask make the calls.
            unsafe {
                let value = *values.get_unchecked(lane);
                let out = out.add(6 * lane);
                if mask >> lane & 1 == 1 {
                    out.write(warp_reduce(mask, value, WarpReductionOp::Add));
                    out.add(1).write(warp_reduce(mask, value, WarpReductionOp::Min));
                    out.add(2).write(warp_reduce(mask, value, WarpReductionOp::Max));
                    out.add(3).write(warp_reduce(mask, value, WarpReductionOp::And));
                    out.add(4).write(warp_reduce(mask, value, WarpReductionOp::Or));
                    out.add(5).write(warp_reduce(mask, value, WarpReductionOp::Xor));
                }
            }
        }
    )*};
}

#[cfg(feature = "sm_80")]
reductions! {
    reduce_u32, u32;
    reduce_i32, i32;
}
