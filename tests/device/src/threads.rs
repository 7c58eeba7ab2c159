//! `cuda_std::thread`, `#[kernel]` and `misc`.

use cuda_std::atomic::{AtomicU32, Ordering};
use cuda_std::{kernel, misc, shared_array, thread};

/// Words that [`thread_indices`] writes for each thread.
pub const INDEX_WORDS: usize = 32;

/// Any grid. For each thread, at `out + INDEX_WORDS * index_u64()`: the scalar indices and extents,
/// the vector ones, and the indices in the grid.
///
/// # Safety
/// `out` points to `INDEX_WORDS` words for each thread of the launch, that nothing else accesses.
#[kernel]
pub unsafe fn thread_indices(out: *mut u32) {
    let (thread_idx, block_idx) = (thread::thread_idx(), thread::block_idx());
    let (block_dim, grid_dim) = (thread::block_dim(), thread::grid_dim());
    let (two, three) = (thread::index_2d(), thread::index_3d());
    let words: [u32; INDEX_WORDS] = [
        thread::thread_idx_x(),
        thread::thread_idx_y(),
        thread::thread_idx_z(),
        thread::block_idx_x(),
        thread::block_idx_y(),
        thread::block_idx_z(),
        thread::block_dim_x(),
        thread::block_dim_y(),
        thread::block_dim_z(),
        thread::grid_dim_x(),
        thread::grid_dim_y(),
        thread::grid_dim_z(),
        thread_idx.x,
        thread_idx.y,
        thread_idx.z,
        block_idx.x,
        block_idx.y,
        block_idx.z,
        block_dim.x,
        block_dim.y,
        block_dim.z,
        grid_dim.x,
        grid_dim.y,
        grid_dim.z,
        thread::index(),
        thread::index_1d(),
        two.x,
        two.y,
        three.x,
        three.y,
        three.z,
        thread::first() as u32 * 1000 + thread::warp_size(),
    ];
    // SAFETY: the caller's promise; each thread has its own words.
    unsafe {
        let out = out.add(thread::index_u64() as usize * INDEX_WORDS);
        // Unrolled by hand, so that the words never lie in local memory.
        macro_rules! write {
            ($($i:literal)*) => { $(out.add($i).write(words[$i]);)* };
        }
        write!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
        write!(16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31);
    }
}

/// One block of 128 threads. Leaves in `out + 4 * thread`: what the thread 1 further wrote to
/// shared memory before a barrier, and the count, and, or of `predicates[thread]`.
///
/// # Safety
/// `predicates` has 128 elements and `out` points to 512, that nothing else accesses.
#[kernel(max_threads = 128)]
pub unsafe fn barriers(predicates: &[u32], out: *mut u32) {
    let thread = thread::thread_idx_x() as usize;
    // SAFETY: thread < 128; a barrier stands between the write and the read of another thread's
    // element.
    unsafe {
        let shared = shared_array![u32; 128];
        shared.add(thread).write(thread as u32 * 3);
        thread::sync_threads();
        let predicate = *predicates.get_unchecked(thread);
        let out = out.add(4 * thread);
        out.write(shared.add((thread + 1) % 128).read());
        out.add(1).write(thread::sync_threads_count(predicate));
        out.add(2).write(thread::sync_threads_and(predicate));
        out.add(3).write(thread::sync_threads_or(predicate));
    }
}

macro_rules! fences {
    ($($name:ident, $fence:ident;)*) => {$(
        #[doc = concat!("Two blocks of one thread, or for the block's fence one of two warps. The \
            first writes `data`, \
            fences with `", stringify!($fence), "` and raises `flag`; the second waits for the \
            flag, fences and copies \
            `data` to `out`.")]
        ///
        /// # Safety
        /// The pointers are to words that are 0 and that nothing else accesses.
        #[kernel]
        pub unsafe fn $name(data: *mut u32, flag: *mut u32, out: *mut u32) {
            // SAFETY: the caller's promise.
            let flag = unsafe { AtomicU32::from_ptr(flag) };
            let thread = thread::index_1d();
            // SAFETY: the fences and the flag order the write before the read.
            unsafe {
                if thread == 0 {
                    data.write_volatile(42);
                    thread::$fence();
                    flag.store(1, Ordering::Relaxed);
                } else if thread == thread::block_dim_x() * thread::grid_dim_x() - 1 {
                    while flag.load(Ordering::Relaxed) == 0 {
                        thread::nanosleep(100);
                    }
                    thread::$fence();
                    out.write(data.read_volatile());
                }
            }
        }
    )*};
}

fences! {
    fence_block, block_fence;
    fence_grid, grid_fence;
    fence_device, device_fence;
    fence_system, system_fence;
}

/// One thread. Leaves in `out` the clock before and after a sleep, and 1 after counting event
/// `counter`; stops for a debugger where `stop` is 1.
///
/// # Safety
/// `out` points to three numbers that nothing else accesses; `counter` is 0 to 7.
#[kernel]
pub unsafe fn clocks(out: *mut u64, counter: u32, stop: u32) {
    if stop == 1 {
        misc::breakpoint();
    }
    let before = misc::clock();
    thread::nanosleep(2000);
    let after = misc::clock();
    misc::profiler_counter(counter);
    // SAFETY: the caller's promise.
    unsafe {
        out.write(before);
        out.add(1).write(after);
        out.add(2).write(1);
    }
}

/// One thread. `y[i] += x[i]` for as many elements as both slices have; leaves their lengths in
/// `lengths`.
///
/// # Safety
/// Nothing else accesses `y`, nor the two numbers at `lengths`.
#[kernel]
pub unsafe fn slices(x: &[f32], y: &mut [f32], lengths: *mut u64) {
    for (y, x) in y.iter_mut().zip(x) {
        *y += *x;
    }
    // SAFETY: the caller's promise.
    unsafe {
        lengths.write(x.len() as u64);
        lengths.add(1).write(y.len() as u64);
    }
}

/// At most 64 threads. Thread 0 writes 7 to `out`: a launch of more threads must fail.
///
/// # Safety
/// `out` points to a word that nothing else accesses.
#[kernel(max_threads = 32 * 2, min_blocks = 1)]
pub unsafe fn bounded(out: *mut u32) {
    if thread::thread_idx_x() == 0 {
        // SAFETY: the caller's promise.
        unsafe { out.write(7) };
    }
}

/// One thread. Panics where `index` is no index of `x`, and so makes the launch fail.
///
/// # Safety
/// `out` points to a word that nothing else accesses.
#[kernel]
pub unsafe fn panics(x: &[u32], index: u32, out: *mut u32) {
    // SAFETY: the caller's promise.
    unsafe { out.write(x[index as usize]) };
}
