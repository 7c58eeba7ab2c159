//! `cuda_std::mbarrier`.

use cuda_std::mbarrier::{Mbarrier, Parity, fence_init};
use cuda_std::{SharedPtr, async_copy, cluster, kernel, shared_array, thread, tma, warp};

/// What a barrier answers: bit 0 to 3 are `test` of an even, of an odd phase, `try_wait` of the
/// same.
///
/// # Safety
/// As the methods.
unsafe fn answers(barrier: SharedPtr<Mbarrier>) -> u32 {
    // SAFETY: the caller's promise.
    unsafe {
        u32::from(barrier.test(Parity::EVEN))
            | u32::from(barrier.test(Parity::ODD)) << 1
            | u32::from(barrier.try_wait(Parity::EVEN)) << 2
            | u32::from(barrier.try_wait(Parity::ODD)) << 3
    }
}

/// One thread, a barrier for two arrivals. Leaves `answers` in `out`: fresh, after one arrival,
/// after two, after two more; then after an arrival that expects 32 bytes and another one, after
/// 16 bytes have come, after 32. The bytes are the first at `bytes`, which come to lie behind one
/// another and are left in `out` behind the answers.
///
/// # Safety
/// `bytes` points to 8 words, `out` to 15 that nothing else accesses, both at multiples of 16.
#[kernel(max_threads = 1)]
pub unsafe fn phases(bytes: *const u32, out: *mut u32) {
    // SAFETY: the caller's promise; one thread.
    unsafe {
        let barrier = shared_array![Mbarrier; 1];
        let landing = shared_array![u32; 8];
        barrier.init(2);
        fence_init();
        out.write(answers(barrier));
        barrier.arrive();
        out.add(1).write(answers(barrier));
        barrier.arrive();
        out.add(2).write(answers(barrier));
        barrier.arrive();
        barrier.arrive();
        out.add(3).write(answers(barrier));

        barrier.arrive_expect(16);
        barrier.expect(16);
        barrier.arrive();
        out.add(4).write(answers(barrier));
        tma::load_bytes(landing, bytes, 16, barrier);
        // Long enough for the bytes to come; the answer is the same before.
        for _ in 0..100 {
            thread::nanosleep(1000);
        }
        out.add(5).write(answers(barrier));
        tma::load_bytes(landing.add(4), bytes.add(4), 16, barrier);
        barrier.wait(Parity::EVEN);
        out.add(6).write(answers(barrier));
        barrier.invalidate();
        for i in 0..8 {
            out.add(7 + i).write(landing.add(i).read());
        }
    }
}

macro_rules! rings {
    ($($name:ident, $copies:literal;)*) => {$(
        /// One block of 64 threads: the first warp puts `count` words for each lane through a ring
        /// of 3 stages, the second warp takes them and leaves them at `out`, in order: words of a
        /// lane are 32 apart.
        ///
        /// # Safety
        /// `words` and `out` point to 32 * `count` words; nothing else accesses those at `out`.
        #[kernel(max_threads = 64)]
        pub unsafe fn $name(words: *const u32, count: u32, out: *mut u32) {
            // SAFETY: the caller's promise.
            unsafe { pass_through_ring::<$copies>(words, count, out) }
        }
    )*};
}

rings! {
    ring, false;
    ring_of_copies, true;
}

/// With COPIES the words are copied asynchronously, and the copies arrive for their threads.
///
/// # Safety
/// As the kernels.
#[inline(always)]
unsafe fn pass_through_ring<const COPIES: bool>(words: *const u32, count: u32, out: *mut u32) {
    const STAGES: usize = 3;
    let (warp, lane) = (thread::thread_idx_x() / 32, warp::lane_id() as usize);
    // SAFETY: the caller's promise; a stage is written when its readers have arrived at `empty`,
    // and read when its writers have arrived at `full`.
    unsafe {
        let full = shared_array![Mbarrier; STAGES];
        let empty = shared_array![Mbarrier; STAGES];
        let stages = shared_array![u32; 32 * STAGES];
        if thread::thread_idx_x() == 0 {
            for stage in 0..STAGES {
                full.add(stage).init(32);
                empty.add(stage).init(32);
            }
            fence_init();
        }
        thread::sync_threads();
        let (mut stage, mut parity) = (0, Parity::EVEN);
        for i in 0..count as usize {
            let place = stages.add(32 * stage + lane);
            if warp == 0 {
                empty.add(stage).wait(parity.flipped());
                let word = words.add(32 * i + lane);
                if COPIES {
                    async_copy::copy_if(true, place, word, true);
                    async_copy::arrive_on(full.add(stage));
                } else {
                    place.write(word.read());
                    full.add(stage).arrive();
                }
            } else {
                full.add(stage).wait(parity);
                // Another lane's.
                let other = stages.add(32 * stage + 31 - lane);
                out.add(32 * i + 31 - lane).write(other.read());
                empty.add(stage).arrive();
            }
            stage += 1;
            if stage == STAGES {
                (stage, parity) = (0, parity.flipped());
            }
        }
    }
}

/// A cluster of 4 blocks of 32 threads: all lanes of all blocks arrive at the barrier of block
/// `target`, which expects 128. Leaves in `out[rank]` whether the barrier of the block's own has
/// ended its phase.
///
/// # Safety
/// `target` is below 4, `out` points to 4 words that nothing else accesses.
#[kernel(max_threads = 32, cluster = 4)]
pub unsafe fn remote_arrival(target: u32, out: *mut u32) {
    // SAFETY: the caller's promise; the cluster's barriers part initialisation, use, and end.
    unsafe {
        let barrier = shared_array![Mbarrier; 1];
        if thread::thread_idx_x() == 0 {
            barrier.init(128);
            fence_init();
        }
        cluster::sync();
        barrier.in_block(target).arrive();
        if cluster::block_rank() == target {
            barrier.wait(Parity::EVEN);
        }
        cluster::sync();
        if thread::thread_idx_x() == 0 {
            let ended = u32::from(barrier.test(Parity::EVEN));
            out.add(cluster::block_rank() as usize).write(ended);
        }
    }
}
