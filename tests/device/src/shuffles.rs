//! `cuda_std::warp`'s shuffles.

use cuda_std::half::{bf16, f16};
use cuda_std::{kernel, warp};

macro_rules! shuffles {
    ($($name:ident, $type:ident;)*) => {$(
        #[doc = concat!("One block of 32 threads. For up, down, idx and xor as `mode` 0 to 3: \
            leaves the shuffled \
            `values[thread]` in `out[32 * mode + thread]` and its flag in `flags` likewise; \
            values are `",
            stringify!($type), "`.")]
        ///
        /// # Safety
        /// `values` has 32 elements, and `out` and `flags` point to 128 each, that nothing else
        /// accesses.
        #[kernel(max_threads = 32)]
        pub unsafe fn $name(values: &[$type], out: *mut $type, flags: *mut u32, by: u32,
            width: u32) {
            const ALL: u32 = u32::MAX;
            let lane = warp::lane_id() as usize;
            // SAFETY: all lanes make the calls.
            unsafe {
                let value = *values.get_unchecked(lane);
                let results = [
                    warp::warp_shuffle_up(ALL, value, by, width),
                    warp::warp_shuffle_down(ALL, value, by, width),
                    warp::warp_shuffle_idx(ALL, value, by, width),
                    warp::warp_shuffle_xor(ALL, value, by, width),
                ];
                for (mode, &(value, flag)) in results.iter().enumerate() {
                    out.add(32 * mode + lane).write(value);
                    flags.add(32 * mode + lane).write(flag as u32);
                }
            }
        }
    )*};
}

shuffles! {
    shuffle_u8, u8;
    shuffle_i8, i8;
    shuffle_u16, u16;
    shuffle_i16, i16;
    shuffle_u32, u32;
    shuffle_i32, i32;
    shuffle_u64, u64;
    shuffle_i64, i64;
    shuffle_u128, u128;
    shuffle_i128, i128;
    shuffle_f32, f32;
    shuffle_f64, f64;
    shuffle_f16, f16;
    shuffle_bf16, bf16;
}
