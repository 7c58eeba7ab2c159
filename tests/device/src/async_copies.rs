//! `cuda_std::async_copy`.

use cuda_std::async_copy::{commit_group, copy_if, copy_part_if, wait_group, walk};
use cuda_std::{kernel, shared_array, thread};

macro_rules! copies {
    ($($name:ident, $type:ty;)*) => {$(
        #[doc = concat!("One block of 64 threads, whose shared memory is the 64 `",
            stringify!($type), "` at `before` first. Each thread calls `copy_if` for its element, \
            with `starts[thread]`, `sources[thread]` as the address and `wanted[thread]`, and \
            waits for it; thread 63 - i leaves element i in `out`.")]
        ///
        /// # Safety
        /// The slices have 64 elements, `before` and `out` point to 64, and nothing else accesses
        /// those at `out`. Where a thread starts a copy that is wanted, its source is in global
        /// memory; where it starts one, the source is aligned.
        #[kernel(max_threads = 64)]
        pub unsafe fn $name(
            starts: &[u32],
            wanted: &[u32],
            sources: &[u64],
            before: *const $type,
            out: *mut $type,
        ) {
            let thread = thread::thread_idx_x() as usize;
            // SAFETY: the caller's promise; a barrier stands between the accesses of different
            // threads to an element, and behind the wait.
            unsafe {
                let shared = shared_array![$type; 64];
                shared.add(thread).write(before.add(thread).read());
                thread::sync_threads();
                let start = *starts.get_unchecked(thread) != 0;
                let wanted = *wanted.get_unchecked(thread) != 0;
                let source = *sources.get_unchecked(thread) as *const $type;
                copy_if(start, shared.add(thread), source, wanted);
                commit_group();
                wait_group::<0>();
                thread::sync_threads();
                let other = 63 - thread;
                out.add(other).write(shared.add(other).read());
            }
        }
    )*};
}

copies! {
    copy_if_4, u32;
    copy_if_8, u64;
    copy_if_16, u128;
}

/// One block of 32 threads: each leaves the first `bytes[thread]` bytes of word number `thread` of
/// `source` in `out`, and zeros behind them.
///
/// # Safety
/// `bytes` and `out` have 32 elements, of which nothing else accesses those at `out`; of each word
/// so many bytes may be read.
#[kernel(max_threads = 32)]
pub unsafe fn copy_parts(bytes: &[u32], source: *const u128, out: *mut u128) {
    let thread = thread::thread_idx_x() as usize;
    // SAFETY: the caller's promise; a thread touches its own place alone.
    unsafe {
        let place = shared_array![u128; 32].add(thread);
        place.write(u128::MAX);
        copy_part_if(true, place, source.add(thread), *bytes.get_unchecked(thread));
        commit_group();
        wait_group::<0>();
        out.add(thread).write(place.read());
    }
}

/// Copies of 16 bytes that a thread has in a group.
const COPIES: usize = 8;

macro_rules! groups {
    ($($name:ident, $full:literal, $empty:literal, $pending:literal;)*) => {$(
        #[doc = concat!("One block of 32 threads. Each starts ", $full, " groups of ",
            "`COPIES` copies of 16 bytes and then ", $empty, " empty ones; copy c of group g \
            brings word (g * COPIES + c) * 32 + thread of `source`. It waits until at most ",
            $pending, " groups are on their way, reads at once, the last copies first, and leaves \
            the words of the other groups at the same places of `out`.")]
        ///
        /// # Safety
        /// `source` points to `COPIES * 32` words for each full group, `out` to as many that
        /// nothing else accesses.
        #[kernel(max_threads = 32)]
        pub unsafe fn $name(source: *const u128, out: *mut u128) {
            const EMPTY: usize = $empty;
            const ARRIVED: usize = $full + EMPTY - $pending;
            let thread = thread::thread_idx_x() as usize;
            // SAFETY: indices below the extents; a thread has its own words, which it reads when
            // their copies have arrived. The array is written before any copy into it starts.
            unsafe {
                let shared = shared_array![u128; $full * COPIES * 32];
                for word in 0..$full * COPIES {
                    shared.add(word * 32 + thread).write(u128::MAX);
                }
                thread::sync_threads();
                for group in 0..$full + EMPTY {
                    let copies = if group < $full { COPIES } else { 0 };
                    for copy in 0..copies {
                        let word = (group * COPIES + copy) * 32 + thread;
                        copy_if(true, shared.add(word), source.add(word), true);
                    }
                    commit_group();
                }
                wait_group::<$pending>();
                for word in (0..ARRIVED * COPIES).rev() {
                    let word = word * 32 + thread;
                    out.add(word).write(shared.add(word).read());
                }
                // The block's shared memory is its own until the last copies have arrived.
                wait_group::<0>();
            }
        }
    )*};
}

groups! {
    groups_0, 4, 0, 0;
    groups_1, 4, 0, 1;
    groups_2, 4, 0, 2;
    groups_3, 4, 0, 3;
    groups_behind_empty, 1, 2, 2;
}

/// One-dimensional grid, a thread an element: leaves in `out + 3 * i` the addresses `addresses[i]`,
/// that `distances[i]` bytes on, and that as many bytes on again.
///
/// # Safety
/// The slices have equal lengths; `out` points to three times as many elements that nothing else
/// accesses.
#[kernel]
pub unsafe fn walks(addresses: &[u64], distances: &[u64], out: *mut u64) {
    let i = thread::index_1d() as usize;
    if i >= addresses.len() {
        return;
    }
    // SAFETY: i is an index of both slices, and each thread has its own elements of `out`.
    unsafe {
        let distance = distances.get_unchecked(i).cast_signed();
        let first = *addresses.get_unchecked(i) as *const u128;
        let second = walk(first, distance);
        let out = out.add(3 * i);
        out.write(first as u64);
        out.add(1).write(second as u64);
        out.add(2).write(walk(second, distance) as u64);
    }
}
