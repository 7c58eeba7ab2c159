//! `cuda_std::tma` and `cuda_std::fence`.

use cuda_std::mbarrier::{Mbarrier, Parity, fence_init};
use cuda_std::tma::{self, CachePolicy, TensorMap};
use cuda_std::{SharedPtr, cluster, fence, kernel, shared_array, thread};

/// Words of the largest box.
const WORDS: usize = 2048;

/// A barrier for one arrival, made by thread 0 and known to the block.
///
/// # Safety
/// All threads of the block call this; `barrier` is as `init` wants it.
unsafe fn make_barrier(barrier: SharedPtr<Mbarrier>) {
    // SAFETY: the caller's promise.
    unsafe {
        if thread::thread_idx_x() == 0 {
            barrier.init(1);
            fence_init();
        }
        thread::sync_threads();
    }
}

macro_rules! copies {
    ($($name:ident, $rank:literal;)*) => {$(
        #[doc = concat!("One block of 64 threads, tensors of ", $rank, " dimensions of words. \
            Loads the box at `at[..", $rank, "]` of `from`, leaves its `words` words in `raw` as \
            they lie in shared memory, adds 1 to each, and stores them as the box at `at[", $rank,
            "..]` of `to`. `hint` is 0, or 1 or 2 for the policies to evict first and last.")]
        ///
        /// # Safety
        /// The maps are alive and their boxes have `words` words, at most 2048; nothing else
        /// accesses `to`'s tensor and `words` words at `raw`.
        #[kernel(max_threads = 64)]
        pub unsafe fn $name(
            #[grid_constant] from: &TensorMap<$rank>,
            #[grid_constant] to: &TensorMap<$rank>,
            at: &[i32; 2 * $rank],
            words: u32,
            hint: u32,
            raw: *mut u32,
        ) {
            let thread = thread::thread_idx_x();
            let mut start = [0; $rank];
            let mut target = [0; $rank];
            for i in 0..$rank {
                start[i] = at[i];
                target[i] = at[$rank + i];
            }
            // SAFETY: the caller's promise; barriers part the steps.
            unsafe {
                let tile = shared_array![Aligned; WORDS / 256].cast::<u32>();
                let full = shared_array![Mbarrier; 1];
                make_barrier(full);
                if thread == 0 {
                    full.arrive_expect(4 * words);
                    match hint {
                        0 => tma::load(tile, from, start, full),
                        1 => {
                            let policy = CachePolicy::evict_first();
                            tma::load_with_policy(tile, from, start, full, policy);
                        }
                        _ => {
                            let policy = CachePolicy::evict_last();
                            tma::load_with_policy(tile, from, start, full, policy);
                        }
                    }
                }
                full.wait(Parity::EVEN);
                let mut i = thread as usize;
                while i < words as usize {
                    let word = tile.add(i).read();
                    raw.add(i).write(word);
                    tile.add(i).write(word + 1);
                    i += 64;
                }
                fence::async_shared();
                thread::sync_threads();
                if thread == 0 {
                    if hint == 0 {
                        tma::store(to, target, tile);
                    } else {
                        let policy = CachePolicy::evict_first();
                        tma::store_with_policy(to, target, tile, policy);
                    }
                    tma::commit_group();
                    tma::wait_group::<0>();
                }
            }
        }
    )*};
}

/// A kilobyte at a multiple of a kilobyte, where a swizzle's pattern begins.
#[repr(align(1024))]
pub struct Aligned(pub [u32; 256]);

copies! {
    copy_box_1, 1;
    copy_box_2, 2;
    copy_box_3, 3;
    copy_box_4, 4;
    copy_box_5, 5;
}

macro_rules! prefetches {
    ($($name:ident, $rank:literal;)*) => {$(
        #[doc = concat!("One thread: prefetches the map and the box at `at` of a tensor of ", $rank,
            " dimensions, and leaves 1 in `out`.")]
        ///
        /// # Safety
        /// The map is alive; nothing else accesses the word at `out`.
        #[kernel(max_threads = 1)]
        pub unsafe fn $name(
            #[grid_constant] map: &TensorMap<$rank>,
            at: &[i32; $rank],
            out: *mut u32,
        ) {
            // SAFETY: the caller's promise.
            unsafe {
                tma::prefetch_map(map);
                tma::prefetch(map, *at);
                out.write(1);
            }
        }
    )*};
}

prefetches! {
    prefetch_box_1, 1;
    prefetch_box_2, 2;
    prefetch_box_3, 3;
    prefetch_box_4, 4;
    prefetch_box_5, 5;
}

/// A cluster of 4 blocks of 32 threads. Block `sender` sends the box at (`x`, `y`) of 256 words to
/// the blocks in `blocks`. Each block leaves the 256 words of its shared memory at `out + 256 *
/// rank`; they are 7 before.
///
/// # Safety
/// The map is alive and its box has 256 words; `sender` is below 4, `blocks` below 16; nothing else
/// accesses 1024 words at `out`.
#[kernel(max_threads = 32, cluster = 4)]
pub unsafe fn multicast(
    #[grid_constant] from: &TensorMap<2>,
    at: &[i32; 2],
    sender: u32,
    blocks: u32,
    hint: u32,
    out: *mut u32,
) {
    let (thread, rank) = (thread::thread_idx_x(), cluster::block_rank());
    // SAFETY: the caller's promise; the cluster's barriers part the steps.
    unsafe {
        let tile = shared_array![Aligned; 1].cast::<u32>();
        let full = shared_array![Mbarrier; 1];
        make_barrier(full);
        for i in 0..8 {
            tile.add(32 * i + thread as usize).write(7);
        }
        fence::async_shared();
        let wanted = blocks >> rank & 1 != 0;
        if thread == 0 && wanted {
            full.arrive_expect(1024);
        }
        cluster::sync();
        if thread == 0 && rank == sender {
            let (at, blocks) = ([at[0], at[1]], blocks as u16);
            if hint == 0 {
                tma::load_multicast(tile, from, at, full, blocks);
            } else {
                let policy = CachePolicy::evict_last();
                tma::load_multicast_with_policy(tile, from, at, full, blocks, policy);
            }
        }
        if wanted {
            full.wait(Parity::EVEN);
        }
        cluster::sync();
        for i in 0..8 {
            let i = 32 * i + thread as usize;
            out.add(256 * rank as usize + i).write(tile.add(i).read());
        }
    }
}

/// One block of 32 threads: for each of `count` pieces of 512 bytes, brings it to shared memory by
/// [`tma::load_bytes`], adds 1 to each word, and takes it to `to` by [`tma::store_bytes`] from a
/// second place, which is written again as soon as the store has read it. The pieces' last words
/// are then read back from global memory by the thread that waited, and left in `last`.
///
/// # Safety
/// `from` and `to` are multiples of 16 and point to `count` * 128 words, `last` to `count`; nothing
/// else accesses those at `to` and `last`.
#[kernel(max_threads = 32)]
pub unsafe fn copy_bytes(from: *const u32, to: *mut u32, count: u32, last: *mut u32) {
    let thread = thread::thread_idx_x() as usize;
    // SAFETY: the caller's promise; barriers part the steps.
    unsafe {
        let landing = shared_array![u32; 128];
        let leaving = shared_array![u32; 128];
        let full = shared_array![Mbarrier; 1];
        make_barrier(full);
        for piece in 0..count {
            let start = 128 * piece as usize;
            if thread == 0 {
                full.arrive_expect(512);
                tma::load_bytes(landing, from.add(start), 512, full);
            }
            full.wait(Parity::of(piece));
            if thread == 0 {
                tma::wait_group_read::<0>();
            }
            thread::sync_threads();
            for i in 0..4 {
                let i = 32 * i + thread;
                leaving.add(i).write(landing.add(i).read() + 1);
            }
            fence::async_shared();
            thread::sync_threads();
            if thread == 0 {
                tma::store_bytes(to.add(start), leaving, 512);
                tma::commit_group();
            }
        }
        if thread == 0 {
            tma::wait_group::<0>();
            // The stores came by the other way.
            fence::async_global();
            for piece in 0..count as usize {
                last.add(piece).write(to.add(128 * piece + 127).read_volatile());
            }
        }
    }
}

/// What is no parameter of an entry.
#[derive(Clone, Copy)]
pub struct Nothing;

/// A grid constant behind arguments that have no size or are not there. One thread leaves the
/// constant's address in `out`.
///
/// # Safety
/// `out` points to an address that nothing else accesses.
#[kernel]
#[allow(improper_ctypes_definitions)] // what has no size is not passed
pub unsafe fn behind_nothing<'a>(
    _nothing: Nothing,
    _first: &'a u64,
    #[cfg(any())] _gone: &[Missing],
    #[cfg(any())] _lost: Missing,
    #[cfg(not(any()))] _there: &'a [u64],
    #[grid_constant] map: &TensorMap<1>,
    out: *mut *const TensorMap<1>,
) {
    // SAFETY: the caller's promise.
    unsafe { *out = map };
}
