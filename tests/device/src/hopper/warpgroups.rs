//! `cuda_std::registers`, `cuda_std::barrier`, `warp::elect` and `mma::store_matrices`.

use cuda_std::barrier::NamedBarrier;
use cuda_std::{kernel, mma, registers, shared_array, thread, warp};

/// One block of 384 threads: a warpgroup that gives registers back and passes on numbers, and two
/// that take more and sum 64 of them in as many registers. Thread t of warpgroup 1 and 2 leaves its
/// sum in `out[t - 128]`: of i * j over all i below 64 and j = `numbers[t % 128]`.
///
/// # Safety
/// `numbers` points to 128 words, `out` to 256 that nothing else accesses.
#[kernel(max_threads = 384, min_blocks = 1)]
pub unsafe fn register_counts(numbers: *const u32, out: *mut u32) {
    let thread = thread::thread_idx_x() as usize;
    // SAFETY: the caller's promise; the branch is the same for whole warpgroups.
    unsafe {
        let shared = shared_array![u32; 128];
        if thread < 128 {
            registers::decrease::<24>();
            shared.add(thread).write(numbers.add(thread).read());
            NamedBarrier::<1, 384>.arrive();
        } else {
            registers::increase::<240>();
            let mut sums = [0; 64];
            NamedBarrier::<1, 384>.sync();
            let number = shared.add(thread % 128).read();
            for (i, sum) in sums.iter_mut().enumerate() {
                *sum = i as u32 * number;
            }
            let mut total = 0;
            for sum in &sums {
                total += *sum;
            }
            out.add(thread - 128).write(total);
        }
    }
}

/// One block of 128 threads in two pairs of warps, each with a barrier of its own. `rounds` times
/// each thread gives its number to thread 63 - t of its pair, which adds it to 3 times its own; the
/// pairs never meet. Leaves the numbers, modulo 2^32, in `out`.
///
/// # Safety
/// `out` points to 128 words that nothing else accesses.
#[kernel(max_threads = 128)]
pub unsafe fn named_barriers(rounds: u32, out: *mut u32) {
    let thread = thread::thread_idx_x() as usize;
    let mut number = thread as u32 + 1;
    // SAFETY: barriers of the pair part the accesses of different threads.
    unsafe {
        let shared = shared_array![u32; 128];
        for _ in 0..rounds {
            shared.add(thread).write(number);
            if thread < 64 {
                NamedBarrier::<1, 64>.sync();
            } else {
                NamedBarrier::<2, 64>.sync();
            }
            number = number.wrapping_mul(3).wrapping_add(shared.add(thread ^ 63).read());
            if thread < 64 {
                NamedBarrier::<1, 64>.sync();
            } else {
                NamedBarrier::<2, 64>.sync();
            }
        }
        out.add(thread).write(number);
    }
}

/// One block of 64 threads: leaves in `out` 1 where `elect` of all lanes chose the thread, and 2
/// more where `elect` of the lanes in `mask` did, which only those call.
///
/// # Safety
/// `out` points to 64 words that nothing else accesses.
#[kernel(max_threads = 64)]
pub unsafe fn elected(mask: u32, out: *mut u32) {
    // SAFETY: the lanes of the mask make the call together.
    unsafe {
        let mut word = u32::from(warp::elect(u32::MAX));
        if mask >> warp::lane_id() & 1 != 0 {
            word += 2 * u32::from(warp::elect(mask));
        }
        out.add(thread::thread_idx_x() as usize).write(word);
    }
}

macro_rules! stores {
    ($($name:ident, $function:ident;)*) => {$(
        #[doc = concat!("One block of 32 threads, whose shared memory is 512 elements of 0xffff. \
            Each calls `", stringify!($function), "` with the address of element `starts[lane]` \
            and the four words at `words + 4 * lane`, and the elements are left in `out`.")]
        ///
        /// # Safety
        /// `starts` has 32 multiples of 8 up to 504, `words` points to 128 words, `out` to 512
        /// elements that nothing else accesses.
        #[kernel(max_threads = 32)]
        pub unsafe fn $name(starts: &[u32], words: *const u32, out: *mut u16) {
            let lane = warp::lane_id() as usize;
            // SAFETY: the caller's promise; barriers part the steps.
            unsafe {
                let shared = shared_array![u16; 512];
                for i in 0..16 {
                    shared.add(32 * i + lane).write(0xffff);
                }
                thread::sync_threads();
                let words = words.add(4 * lane);
                let words =
                    [words.read(), words.add(1).read(), words.add(2).read(), words.add(3).read()];
                let start = *starts.get_unchecked(lane) as usize;
                mma::$function(shared.add(start), words);
                thread::sync_threads();
                for i in 0..16 {
                    let i = 32 * i + lane;
                    out.add(i).write(shared.add(i).read());
                }
            }
        }
    )*};
}

stores! {
    store_rows, store_matrices;
    store_columns, store_matrices_transposed;
}
