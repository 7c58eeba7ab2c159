//! `cuda_std::cluster` and `cuda_std::grid`.

use cuda_std::mbarrier::{Mbarrier, Parity, fence_init};
use cuda_std::{cluster, fence, grid, kernel, shared_array, thread, tma};

/// Blocks of one thread in clusters of 2 x 1 x 2. Block (x, y, z) leaves in 8 words of `out`, from
/// 8 * its number in x, y, z order on: its rank in the cluster, the cluster's size, the cluster's
/// index and the grid's clusters along x, y, z.
///
/// # Safety
/// `out` points to 8 words for each block, that nothing else accesses.
#[kernel(max_threads = 1, cluster = (2, 1, 2))]
pub unsafe fn cluster_indices(out: *mut u32) {
    let words = [
        cluster::block_rank(),
        cluster::block_count(),
        cluster::cluster_idx_x(),
        cluster::cluster_idx_y(),
        cluster::cluster_idx_z(),
        cluster::cluster_dim_x(),
        cluster::cluster_dim_y(),
        cluster::cluster_dim_z(),
    ];
    // SAFETY: each block has its own words.
    unsafe {
        let out = out.add(8 * thread::index() as usize);
        for (i, word) in words.iter().enumerate() {
            out.add(i).write(*word);
        }
    }
}

/// A cluster of 4 blocks of 32 threads. Each thread writes 1000 * rank + thread + `round` into the
/// shared memory of the next block, for 50 rounds; after each, thread t reads word 31 - t of the
/// block after the next, and leaves the sum over the rounds in `out[32 * rank + t]`.
///
/// # Safety
/// `out` points to 128 words that nothing else accesses.
#[kernel(max_threads = 32, cluster = 4)]
pub unsafe fn neighbours(out: *mut u32) {
    let thread = thread::thread_idx_x();
    let rank = cluster::block_rank();
    // SAFETY: the cluster's barriers stand between the accesses of different threads.
    unsafe {
        let words = shared_array![u32; 32];
        let mut sum = 0;
        for round in 0..50 {
            let place = words.add(thread as usize).in_block((rank + 1) % 4);
            place.write(1000 * rank + thread + round);
            // The two halves of `sync`, with work between them.
            cluster::arrive();
            sum += round;
            cluster::wait();
            sum += words.add(31 - thread as usize).in_block((rank + 2) % 4).read();
            cluster::arrive_relaxed();
            cluster::wait();
        }
        out.add((32 * rank + thread) as usize).write(sum);
    }
}

/// Words that the copy engine takes from block to block.
#[repr(align(16))]
#[derive(Clone, Copy)]
pub struct Words([u32; 4]);

/// A cluster of 2 blocks of 32 threads. Each thread writes 1000 * rank + thread + `round` four
/// times into its shared memory, which is sent to the other block, for 20 rounds; in
/// `out[32 * rank + t]` it leaves the sum of what came for thread 31 - t.
///
/// # Safety
/// `out` points to 64 words that nothing else accesses.
#[kernel(max_threads = 32, cluster = 2)]
pub unsafe fn sends(out: *mut u32) {
    let (thread, rank) = (thread::thread_idx_x(), cluster::block_rank());
    // SAFETY: each block writes memory of its own, and again when the other has got it and the
    // cluster has met; it reads what has been counted.
    unsafe {
        let own = shared_array![Words; 32];
        let come = shared_array![Words; 32];
        let full = shared_array![Mbarrier; 1];
        if thread == 0 {
            full.init(1);
            fence_init();
        }
        cluster::sync();
        let mut sum = 0;
        for round in 0..20 {
            own.add(thread as usize).write(Words([1000 * rank + thread + round; 4]));
            fence::async_shared();
            thread::sync_threads();
            if thread == 0 {
                full.arrive_expect(512);
                let other = 1 - rank;
                tma::send(come.in_block(other), own, 512, full.in_block(other));
            }
            full.wait(Parity::of(round));
            let words = come.add(31 - thread as usize).read().0;
            sum += words.iter().sum::<u32>();
            cluster::sync();
        }
        out.add((32 * rank + thread) as usize).write(sum);
    }
}

/// One thread lets the next kernel start, waits for about a millisecond, and writes `value` to
/// `word`.
///
/// # Safety
/// `word` points to a word that no kernel but this and `waits_for_grid` accesses.
#[kernel(max_threads = 1)]
pub unsafe fn launches_dependents(word: *mut u32, value: u32) {
    grid::launch_dependents();
    for _ in 0..1000 {
        thread::nanosleep(1000);
    }
    // SAFETY: the caller's promise.
    unsafe { word.write_volatile(value) };
}

/// One thread leaves in `out` the word as it is now and as it is when the kernel before has ended.
///
/// # Safety
/// `word` points to a word, `out` to two that nothing else accesses.
#[kernel(max_threads = 1)]
pub unsafe fn waits_for_grid(word: *const u32, out: *mut u32) {
    // SAFETY: the caller's promise; the first read may race with the kernel before, which is what
    // the test is about.
    unsafe {
        out.write(word.read_volatile());
        grid::wait_for_grids();
        out.add(1).write(word.read_volatile());
    }
}
