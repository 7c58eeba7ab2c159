//! `cuda_std::atomic`.

use cuda_std::atomic::*;
use cuda_std::{kernel, thread};

/// The ordering that a launch names: relaxed, acquire, release, both, sequentially consistent as 0
/// to 4.
#[inline(always)]
fn ordering(number: u32) -> Ordering {
    match number {
        0 => Ordering::Relaxed,
        1 => Ordering::Acquire,
        2 => Ordering::Release,
        3 => Ordering::AcqRel,
        _ => Ordering::SeqCst,
    }
}

/// What a failed exchange and a load can have of it.
#[inline(always)]
fn load_ordering(order: Ordering) -> Ordering {
    match order {
        Ordering::Release => Ordering::Relaxed,
        Ordering::AcqRel => Ordering::Acquire,
        order => order,
    }
}

/// What a store can have of it.
#[inline(always)]
fn store_ordering(order: Ordering) -> Ordering {
    match order {
        Ordering::Acquire => Ordering::Relaxed,
        Ordering::AcqRel => Ordering::Release,
        order => order,
    }
}

/// Operations on all numbers. Each cell has its own; `old` gets the number before from each thread
/// and operation.
macro_rules! common {
    ($type:ident, $number:ident, $cells:ident, $arguments:ident, $olds:ident,
        $order:ident; $($method:ident)*) => {{
        let thread = thread::index_1d() as usize;
        let threads = (thread::block_dim_x() * thread::grid_dim_x()) as usize;
        let value = *$arguments.get_unchecked(thread);
        let mut cell = 0;
        $(
            let old = $type::from_ptr($cells.add(cell)).$method(value, $order);
            $olds.add(cell * threads + thread).write(old);
            cell += 1;
        )*
        let number = $type::from_ptr($cells.add(cell)).load(load_ordering($order));
        $olds.add(cell * threads + thread).write(number);
        cell += 1;
        $type::from_ptr($cells.add(cell)).store(value, store_ordering($order));
        cell + 1
    }};
}

macro_rules! floats {
    ($($name:ident, $type:ident, $number:ident;)*) => {$(
        #[doc = concat!("`", stringify!($type), "`: any grid along x, of one block for the \
            block's types. With \
            `arguments[thread of the grid]` each thread does on the cells 0 to 7: fetch_add, \
            fetch_sub, fetch_and, \
            fetch_or, fetch_xor, swap, load, store. `olds[cell * threads + thread]` gets what it \
            returned.")]
        ///
        /// # Safety
        /// `arguments` has an element for each thread, `cells` points to 8 numbers, `olds` to 7 for
        /// each thread, and nothing else accesses them.
        #[kernel]
        #[allow(unused_unsafe)] // Only the block's methods are unsafe.
        pub unsafe fn $name(cells: *mut $number, arguments: &[$number], olds: *mut $number,
            order: u32) {
            let order = ordering(order);
            // SAFETY: the caller's promise.
            unsafe {
                let _ = common!($type, $number, cells, arguments, olds, order;
                    fetch_add fetch_sub fetch_and fetch_or fetch_xor swap);
            }
        }
    )*};
}

macro_rules! integers {
    ($($name:ident, $type:ident, $number:ident;)*) => {$(
        #[doc = concat!("`", stringify!($type), "`: any grid along x, of one block for the \
            block's types. With \
            `arguments[thread of the grid]` each thread does on the cells 0 to 9: fetch_add, \
            fetch_sub, fetch_and, \
            fetch_or, fetch_xor, swap, fetch_min, fetch_max, load, store. `olds[cell * threads + \
            thread]` gets what it \
            returned. On cell 10 it adds its argument by compare_exchange, on cell 11 it fails at \
            that.")]
        ///
        /// # Safety
        /// `arguments` has an element for each thread, `cells` points to 12 numbers, `olds` to 12
        /// for each thread, and nothing else accesses them.
        #[kernel]
        #[allow(unused_unsafe)] // Only the block's methods are unsafe.
        pub unsafe fn $name(cells: *mut $number, arguments: &[$number], olds: *mut $number,
            order: u32) {
            let order = ordering(order);
            // SAFETY: the caller's promise.
            unsafe {
                let next = common!($type, $number, cells, arguments, olds, order;
                    fetch_add fetch_sub fetch_and fetch_or fetch_xor swap fetch_min fetch_max);
                let thread = thread::index_1d() as usize;
                let threads = (thread::block_dim_x() * thread::grid_dim_x()) as usize;
                let value = *arguments.get_unchecked(thread);
                let failure = load_ordering(order);
                let sum = $type::from_ptr(cells.add(next));
                let mut expected = sum.load(Ordering::Relaxed);
                while let Err(found) =
                    sum.compare_exchange(expected, expected.wrapping_add(value), order, failure)
                {
                    expected = found;
                }
                olds.add(next * threads + thread).write(expected);
                let constant = $type::from_ptr(cells.add(next + 1));
                let found = match constant.compare_exchange(1, 2, order, failure) {
                    Ok(_) => 0,
                    Err(found) => found,
                };
                olds.add((next + 1) * threads + thread).write(found);
            }
        }
    )*};
}

floats! {
    atomic_f32, AtomicF32, f32;
    atomic_f64, AtomicF64, f64;
    system_atomic_f32, SystemAtomicF32, f32;
    system_atomic_f64, SystemAtomicF64, f64;
    block_atomic_f32, BlockAtomicF32, f32;
    block_atomic_f64, BlockAtomicF64, f64;
}

integers! {
    atomic_u32, AtomicU32, u32;
    atomic_i32, AtomicI32, i32;
    atomic_u64, AtomicU64, u64;
    atomic_i64, AtomicI64, i64;
    system_atomic_u32, SystemAtomicU32, u32;
    system_atomic_i32, SystemAtomicI32, i32;
    system_atomic_u64, SystemAtomicU64, u64;
    system_atomic_i64, SystemAtomicI64, i64;
    block_atomic_u32, BlockAtomicU32, u32;
    block_atomic_i32, BlockAtomicI32, i32;
    block_atomic_u64, BlockAtomicU64, u64;
    block_atomic_i64, BlockAtomicI64, i64;
}

macro_rules! messages {
    ($($name:ident, $type:ident;)*) => {$(
        #[doc = concat!("Thread 0 of the grid writes `data` and raises the `", stringify!($type),
            "` at `flag` with \
            release; the grid's last thread waits for it with acquire and copies `data` to `out`. \
            `strong` makes both \
            sequentially consistent.")]
        ///
        /// # Safety
        /// The pointers are to words that are 0 and that nothing else accesses.
        #[kernel]
        #[allow(unused_unsafe)] // Only the block's methods are unsafe.
        pub unsafe fn $name(data: *mut u32, flag: *mut u32, out: *mut u32, strong: u32) {
            let (release, acquire) = match strong {
                0 => (Ordering::Release, Ordering::Acquire),
                _ => (Ordering::SeqCst, Ordering::SeqCst),
            };
            let thread = thread::index_1d();
            // SAFETY: the flag orders the write before the read.
            unsafe {
                let flag = $type::from_ptr(flag);
                if thread == 0 {
                    data.write_volatile(43);
                    flag.store(1, release);
                } else if thread == thread::block_dim_x() * thread::grid_dim_x() - 1 {
                    while flag.load(acquire) == 0 {}
                    out.write(data.read_volatile());
                }
            }
        }
    )*};
}

messages! {
    message_device, AtomicU32;
    message_system, SystemAtomicU32;
    message_block, BlockAtomicU32;
}
