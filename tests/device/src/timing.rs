//! Kernels that the benchmark harness is checked with: one whose time is known to be nothing, one
//! whose bytes are known, and two that are wrong.

use cuda_std::{kernel, thread};

/// Does nothing.
///
/// # Safety
/// None is needed.
#[kernel]
pub unsafe fn empty() {}

/// Copies `count` words of 16 bytes, in blocks of 256 threads that copy 1024 of them each, four a
/// thread.
///
/// # Safety
/// `from` points to `count` words that nothing writes to, `to` to as many that nothing else
/// accesses.
#[kernel(max_threads = 256)]
pub unsafe fn copy_words(from: *const u128, to: *mut u128, count: u64) {
    let (count, step) = (count as usize, thread::block_dim_x() as usize);
    let first = thread::block_idx_x() as usize * step * 4 + thread::thread_idx_x() as usize;
    // SAFETY: indices below `count`; each is one thread's alone.
    unsafe {
        if first + 3 * step < count {
            // Four loads in flight before the first store.
            let (from, to) = (from.add(first), to.add(first));
            let (a, b) = (from.read(), from.add(step).read());
            let (c, d) = (from.add(2 * step).read(), from.add(3 * step).read());
            to.write(a);
            to.add(step).write(b);
            to.add(2 * step).write(c);
            to.add(3 * step).write(d);
        } else {
            let mut index = first;
            while index < count {
                to.add(index).write(from.add(index).read());
                index += step;
            }
        }
    }
}

/// C = A * B for row-major `n` x `n` matrices of `f32`, one thread an element, rows along y, all
/// but the last `rows_less` rows of C and the last `terms_less` terms of each sum.
///
/// # Safety
/// `a`, `b` and `c` point to n * n elements; nothing writes to A's and B's, and nothing else
/// accesses C's. Both last numbers are at most n.
#[kernel(max_threads = 256)]
pub unsafe fn product_with_less(
    a: *const f32,
    b: *const f32,
    c: *mut f32,
    n: u32,
    rows_less: u32,
    terms_less: u32,
) {
    let (row, col) = (thread::index_2d().y, thread::index_2d().x);
    if row >= n - rows_less || col >= n {
        return;
    }
    let (row, col, n) = (row as usize, col as usize, n as usize);
    let mut sum = 0.0;
    let mut term = 0;
    while term < n - terms_less as usize {
        // SAFETY: row, col and term are below n.
        sum += unsafe { *a.add(row * n + term) * *b.add(term * n + col) };
        term += 1;
    }
    // SAFETY: as above, and the element is this thread's alone.
    unsafe { c.add(row * n + col).write(sum) };
}
