//! `cuda_std::mma`.

use cuda_std::{kernel, mma, thread};
#[cfg(feature = "sm_80")]
use cuda_std::{shared_array, warp};

/// One-dimensional grid, a thread an element: `out[i]` is `permute_bytes` of the low word, the high
/// word and the selector in `words[i]`.
///
/// # Safety
/// `out` points to as many words as `words` has elements, that nothing else accesses.
#[kernel]
pub unsafe fn permute(words: &[[u32; 3]], out: *mut u32) {
    let i = thread::index_1d() as usize;
    if let Some([low, high, selector]) = words.get(i) {
        // SAFETY: each thread has its own element.
        unsafe { out.add(i).write(mma::permute_bytes(*low, *high, *selector)) };
    }
}

#[cfg(feature = "sm_80")]
macro_rules! loads {
    ($($name:ident, $function:ident;)*) => {$(
        #[doc = concat!("One block of 32 threads, whose shared memory is `elements`. Each calls `",
            stringify!($function), "` with the address of element `starts[lane]` and leaves the \
            four words in `out + 4 * lane`.")]
        ///
        /// # Safety
        /// `elements` has 512 elements and `starts` 32, multiples of 8 up to 504; `out` points to
        /// 128 words that nothing else accesses.
        #[kernel(max_threads = 32)]
        pub unsafe fn $name(elements: &[u16], starts: &[u32], out: *mut u32) {
            let lane = warp::lane_id() as usize;
            // SAFETY: the caller's promise; all lanes make the call, behind a barrier.
            unsafe {
                let shared = shared_array![u16; 512];
                for i in 0..16 {
                    let i = i * 32 + lane;
                    shared.add(i).write(*elements.get_unchecked(i));
                }
                thread::sync_threads();
                let start = *starts.get_unchecked(lane) as usize;
                let [a, b, c, d] = mma::$function(shared.add(start));
                let out = out.add(4 * lane);
                out.write(a);
                out.add(1).write(b);
                out.add(2).write(c);
                out.add(3).write(d);
            }
        }
    )*};
}

#[cfg(feature = "sm_80")]
loads! {
    load_rows, load_matrices;
    load_columns, load_matrices_transposed;
}

#[cfg(any(feature = "sm_80", feature = "sm_90"))]
macro_rules! products {
    ($($name:ident, $function:ident, $a:ty, $b:ty, $c:ty;)*) => {$(
        #[doc = concat!("Blocks of 32 threads, a product each. Each thread of the grid has its \
            arguments of `", stringify!($function), "` in `a`, `b` and `c`, and leaves the result \
            in `out`.")]
        ///
        /// # Safety
        /// The pointers are to an element for each thread of the grid, and nothing else accesses
        /// those at `out`.
        #[kernel(max_threads = 32)]
        pub unsafe fn $name(a: *const $a, b: *const $b, c: *const $c, out: *mut $c) {
            let i = thread::index_1d() as usize;
            // SAFETY: the caller's promise; whole warps make the call.
            unsafe {
                let (a, b, c) = (a.add(i).read(), b.add(i).read(), c.add(i).read());
                out.add(i).write(mma::$function(a, b, c));
            }
        }
    )*};
}

#[cfg(feature = "sm_80")]
products! {
    product_f16, multiply_f16, [u32; 4], [u32; 2], [f32; 4];
    product_bf16, multiply_bf16, [u32; 4], [u32; 2], [f32; 4];
    product_i8, multiply_i8, [u32; 4], [u32; 2], [i32; 4];
    product_u8, multiply_u8, [u32; 2], u32, [u32; 4];
}

#[cfg(feature = "sm_90")]
products! {
    product_f64, multiply_f64, [[f64; 2]; 2], [f64; 2], [f64; 4];
}
