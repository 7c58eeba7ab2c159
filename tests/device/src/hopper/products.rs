//! `cuda_std::wgmma`.

use cuda_std::mbarrier::{Mbarrier, Parity, fence_init};
use cuda_std::tma::{self, TensorMap};
use cuda_std::wgmma::{self, Accumulate, B32, B64, B128, Tf32, Tile, place};
use cuda_std::{F8E4M3, F8E5M2, SharedPtr, bf16, f16, kernel, shared, shared_array, thread};

/// Waits for `count` stages one after another; `load` starts a stage's copies of `bytes` bytes, in
/// one thread, and `multiply` uses them.
///
/// # Safety
/// All threads of the block call this with a barrier's storage, and the closures' promises hold.
#[inline(always)]
unsafe fn stages(
    full: SharedPtr<Mbarrier>,
    count: u32,
    bytes: u32,
    load: impl Fn(u32),
    mut multiply: impl FnMut(Accumulate),
) {
    let first = thread::thread_idx_x() == 0;
    // SAFETY: the caller's promise; all threads have left a stage before the next one is loaded.
    unsafe {
        if first {
            full.init(1);
            fence_init();
        }
        thread::sync_threads();
        for stage in 0..count {
            if first {
                full.arrive_expect(bytes);
                load(stage);
            }
            full.wait(Parity::of(stage));
            multiply(if stage == 0 { Accumulate::Start } else { Accumulate::Continue });
            thread::sync_threads();
        }
    }
}

/// Leaves a thread's sums in the 64 x N matrix at `out`, rows first.
macro_rules! leave {
    ($sums:ident, $n:literal, $out:ident) => {
        for i in 0..$n / 2 {
            let (row, column) = place(thread::thread_idx_x(), i as u32);
            $out.add((row * $n + column) as usize).write($sums[i]);
        }
    };
}

macro_rules! products {
    ($($name:ident, $type:ty, $sum:ty, $n:literal;)*) => {$(
        #[doc = concat!("One block of 128 threads: the product of 64 x K and K x ", $n, " `",
            stringify!($type), "`, K being `count` times 128 bytes, both K-major, left in `out`. \
            The sums are nonsense before the first product.")]
        ///
        /// # Safety
        /// The maps are alive, their boxes have rows of 128 bytes, swizzled so, 64 of A and as many
        /// as columns of B; nothing else accesses the product at `out`.
        #[kernel(max_threads = 128)]
        pub unsafe fn $name(
            #[grid_constant] a: &TensorMap<2>,
            #[grid_constant] b: &TensorMap<2>,
            count: u32,
            out: *mut $sum,
        ) {
            type A = Tile<$type, 64>;
            type B = Tile<$type, $n>;
            let mut sums = [nonsense::<$sum>(); $n / 2];
            // SAFETY: the caller's promise; `stages` parts loads from products.
            unsafe {
                let (a_tile, b_tile) = (shared_array![A; 1], shared_array![B; 1]);
                let full = shared_array![Mbarrier; 1];
                let load = |stage: u32| {
                    let at = [(stage as usize * A::COLUMNS) as i32, 0];
                    tma::load(a_tile, a, at, full);
                    tma::load(b_tile, b, at, full);
                };
                stages(full, count, A::BYTES + B::BYTES, load, |first| {
                    let (a, b) = (a_tile.k_major(), b_tile.k_major());
                    wgmma::fence(&mut sums);
                    wgmma::multiply(&mut sums, a, b, first);
                    wgmma::multiply(&mut sums, a.step::<1>(), b.step::<1>(), Accumulate::Continue);
                    wgmma::multiply(&mut sums, a.step::<2>(), b.step::<2>(), Accumulate::Continue);
                    wgmma::multiply(&mut sums, a.step::<3>(), b.step::<3>(), Accumulate::Continue);
                    wgmma::commit_group();
                    wgmma::wait_group::<0, _>(&mut sums);
                });
                leave!(sums, $n, out);
            }
        }
    )*};
}

/// A value that would be seen in a sum.
fn nonsense<T>() -> T {
    const { assert!(size_of::<T>() == 4) };
    // SAFETY: f32 and i32 have any bits; these are a NaN, and a number larger than all sums.
    unsafe { core::mem::transmute_copy(&0x7fff_0001_u32) }
}

products! {
    product_f16_8, f16, f32, 8;
    product_f16_16, f16, f32, 16;
    product_f16_32, f16, f32, 32;
    product_f16_64, f16, f32, 64;
    product_f16_96, f16, f32, 96;
    product_f16_128, f16, f32, 128;
    product_f16_160, f16, f32, 160;
    product_f16_192, f16, f32, 192;
    product_f16_224, f16, f32, 224;
    product_f16_256, f16, f32, 256;
    product_bf16_8, bf16, f32, 8;
    product_bf16_16, bf16, f32, 16;
    product_bf16_32, bf16, f32, 32;
    product_bf16_64, bf16, f32, 64;
    product_bf16_96, bf16, f32, 96;
    product_bf16_128, bf16, f32, 128;
    product_bf16_160, bf16, f32, 160;
    product_bf16_192, bf16, f32, 192;
    product_bf16_224, bf16, f32, 224;
    product_bf16_256, bf16, f32, 256;
    product_tf32_8, Tf32, f32, 8;
    product_tf32_16, Tf32, f32, 16;
    product_tf32_32, Tf32, f32, 32;
    product_tf32_64, Tf32, f32, 64;
    product_tf32_96, Tf32, f32, 96;
    product_tf32_128, Tf32, f32, 128;
    product_tf32_160, Tf32, f32, 160;
    product_tf32_192, Tf32, f32, 192;
    product_tf32_224, Tf32, f32, 224;
    product_tf32_256, Tf32, f32, 256;
    product_e4m3_8, F8E4M3, f32, 8;
    product_e4m3_16, F8E4M3, f32, 16;
    product_e4m3_32, F8E4M3, f32, 32;
    product_e4m3_64, F8E4M3, f32, 64;
    product_e4m3_96, F8E4M3, f32, 96;
    product_e4m3_128, F8E4M3, f32, 128;
    product_e4m3_160, F8E4M3, f32, 160;
    product_e4m3_192, F8E4M3, f32, 192;
    product_e4m3_224, F8E4M3, f32, 224;
    product_e4m3_256, F8E4M3, f32, 256;
    product_e5m2_8, F8E5M2, f32, 8;
    product_e5m2_16, F8E5M2, f32, 16;
    product_e5m2_32, F8E5M2, f32, 32;
    product_e5m2_64, F8E5M2, f32, 64;
    product_e5m2_96, F8E5M2, f32, 96;
    product_e5m2_128, F8E5M2, f32, 128;
    product_e5m2_160, F8E5M2, f32, 160;
    product_e5m2_192, F8E5M2, f32, 192;
    product_e5m2_224, F8E5M2, f32, 224;
    product_e5m2_256, F8E5M2, f32, 256;
    product_i8_8, i8, i32, 8;
    product_i8_16, i8, i32, 16;
    product_i8_32, i8, i32, 32;
    product_i8_64, i8, i32, 64;
    product_i8_96, i8, i32, 96;
    product_i8_128, i8, i32, 128;
    product_i8_160, i8, i32, 160;
    product_i8_192, i8, i32, 192;
    product_i8_224, i8, i32, 224;
    product_i8_256, i8, i32, 256;
}

macro_rules! transposed {
    ($($name:ident, $type:ty, $a:ident, $b:ident, $n:literal, $b_tiles:literal, $b_rows:literal;)*)
    => {$(
        #[doc = concat!("As the products above, of 64 x 64 and 64 x ", $n, " `",
            stringify!($type), "`, A ", stringify!($a), ", B ", stringify!($b), ".")]
        ///
        /// # Safety
        /// As the products above; the boxes of an MN-major operand are 64 rows of K.
        #[kernel(max_threads = 128)]
        pub unsafe fn $name(
            #[grid_constant] a: &TensorMap<2>,
            #[grid_constant] b: &TensorMap<2>,
            out: *mut f32,
        ) {
            type B = Tile<$type, $b_rows>;
            let mut sums = [nonsense::<f32>(); $n / 2];
            // SAFETY: the caller's promise; `stages` parts loads from products.
            unsafe {
                let a_tile = shared_array![Tile<$type, 64>; 1];
                let b_tiles = shared_array![B; $b_tiles];
                let full = shared_array![Mbarrier; 1];
                let load = |_| {
                    tma::load(a_tile, a, [0, 0], full);
                    for i in 0..$b_tiles {
                        tma::load(b_tiles.add(i), b, [64 * i as i32, 0], full);
                    }
                };
                stages(full, 1, 8192 + $b_tiles * B::BYTES, load, |first| {
                    let (a, b) = (a_tile.$a(), b_tiles.$b());
                    wgmma::fence(&mut sums);
                    wgmma::multiply(&mut sums, a, b, first);
                    wgmma::multiply(&mut sums, a.step::<1>(), b.step::<1>(), Accumulate::Continue);
                    wgmma::multiply(&mut sums, a.step::<2>(), b.step::<2>(), Accumulate::Continue);
                    wgmma::multiply(&mut sums, a.step::<3>(), b.step::<3>(), Accumulate::Continue);
                    wgmma::commit_group();
                    wgmma::wait_group::<0, _>(&mut sums);
                });
                leave!(sums, $n, out);
            }
        }
    )*};
}

transposed! {
    a_transposed_f16, f16, mn_major, k_major, 64, 1, 64;
    a_transposed_bf16, bf16, mn_major, k_major, 256, 1, 256;
    b_transposed_f16, f16, k_major, mn_major, 192, 3, 64;
    b_transposed_bf16, bf16, k_major, mn_major, 96, 2, 64;
    both_transposed_f16, f16, mn_major, mn_major, 128, 2, 64;
    both_transposed_bf16, bf16, mn_major, mn_major, 256, 4, 64;
}

macro_rules! from_registers {
    ($($name:ident, $type:ty, $sum:ty, $b:ident, $n:literal, $at:expr;)*) => {$(
        #[doc = concat!("As the products above, of 64 rows of 128 bytes and ", $n, " `",
            stringify!($type), "`, A from registers: word i of step s of thread t is \
            `a[(s * 4 + i) * 128 + t]`. B is ", stringify!($b), ".")]
        ///
        /// # Safety
        /// As the products above; `a` points to 2048 words.
        #[kernel(max_threads = 128)]
        pub unsafe fn $name(
            a: *const u32,
            #[grid_constant] b: &TensorMap<2>,
            out: *mut $sum,
        ) {
            type B = Tile<$type, 64>;
            let thread = thread::thread_idx_x() as usize;
            let mut sums = [nonsense::<$sum>(); $n / 2];
            // SAFETY: the caller's promise; `stages` parts loads from products.
            unsafe {
                let b_tiles = shared_array![B; $n / 64];
                let full = shared_array![Mbarrier; 1];
                let load = |_| {
                    for i in 0..$n / 64 {
                        let at: fn(i32) -> [i32; 2] = $at;
                        tma::load(b_tiles.add(i as usize), b, at(i), full);
                    }
                };
                let mut steps = [[0; 4]; 4];
                for s in 0..4 {
                    for i in 0..4 {
                        steps[s][i] = a.add((4 * s + i) * 128 + thread).read();
                    }
                }
                stages(full, 1, $n * 128, load, |first| {
                    let b = b_tiles.$b();
                    wgmma::fence(&mut (&mut sums, &mut steps));
                    wgmma::multiply_registers(&mut sums, &steps[0], b, first);
                    let next = Accumulate::Continue;
                    wgmma::multiply_registers(&mut sums, &steps[1], b.step::<1>(), next);
                    wgmma::multiply_registers(&mut sums, &steps[2], b.step::<2>(), next);
                    wgmma::multiply_registers(&mut sums, &steps[3], b.step::<3>(), next);
                    wgmma::commit_group();
                    wgmma::wait_group::<0, _>(&mut (&mut sums, &mut steps));
                });
                leave!(sums, $n, out);
            }
        }
    )*};
}

from_registers! {
    registers_f16, f16, f32, k_major, 64, |i| [0, 64 * i];
    registers_bf16, bf16, f32, k_major, 256, |i| [0, 64 * i];
    registers_tf32, Tf32, f32, k_major, 128, |i| [0, 64 * i];
    registers_e4m3, F8E4M3, f32, k_major, 64, |i| [0, 64 * i];
    registers_e5m2, F8E5M2, f32, k_major, 128, |i| [0, 64 * i];
    registers_i8, i8, i32, k_major, 64, |i| [0, 64 * i];
    registers_transposed_f16, f16, f32, mn_major, 128, |i| [64 * i, 0];
    registers_transposed_bf16, bf16, f32, mn_major, 64, |i| [64 * i, 0];
}

macro_rules! swizzles {
    ($($name:ident, $swizzle:ident, [$($step:literal)*];)*) => {$(
        #[doc = concat!("As the products above, of 64 and 64 rows of `bf16` that are as long as `",
            stringify!($swizzle), "` has them. The tiles' element (row, column) goes through \
            `SharedPtr::element` too: A is read by threads, turned over (row 63 - row) and written \
            back before the product.")]
        ///
        /// # Safety
        /// As the products above, with rows of the swizzle's length.
        #[kernel(max_threads = 128)]
        pub unsafe fn $name(
            #[grid_constant] a: &TensorMap<2>,
            #[grid_constant] b: &TensorMap<2>,
            out: *mut f32,
        ) {
            type Rows = Tile<bf16, 64, $swizzle>;
            let mut sums = [nonsense::<f32>(); 32];
            let row = thread::thread_idx_x();
            // SAFETY: the caller's promise; barriers part the steps.
            unsafe {
                let (a_tile, b_tile) = (shared_array![Rows; 1], shared_array![Rows; 1]);
                let full = shared_array![Mbarrier; 1];
                let load = |_| {
                    tma::load(a_tile, a, [0, 0], full);
                    tma::load(b_tile, b, [0, 0], full);
                };
                stages(full, 1, 2 * Rows::BYTES, load, |first| {
                    for column in 0..Rows::COLUMNS as u32 {
                        let place = a_tile.element(row % 64, column);
                        let element = place.read();
                        thread::sync_threads();
                        if row < 64 {
                            a_tile.element(63 - row, column).write(element);
                        }
                    }
                    cuda_std::fence::async_shared();
                    thread::sync_threads();
                    let (a, b) = (a_tile.k_major(), b_tile.k_major());
                    wgmma::fence(&mut sums);
                    wgmma::multiply(&mut sums, a, b, first);
                    let next = Accumulate::Continue;
                    $(wgmma::multiply(&mut sums, a.step::<$step>(), b.step::<$step>(), next);)*
                    let _ = next;
                    wgmma::commit_group();
                    wgmma::wait_group::<0, _>(&mut sums);
                });
                leave!(sums, 64, out);
            }
        }
    )*};
}

swizzles! {
    swizzled_128, B128, [1 2 3];
    swizzled_64, B64, [1];
    swizzled_32, B32, [];
}

/// One block of 128 threads, dynamic shared memory of 3 * 256 rows of 128 bytes: the
/// product of 128 x K and K x 128 `bf16`, K being 64 * `count`, in a ring of 3 stages. Each of the
/// two accumulators of a thread has 64 x 128; a stage's products run while the next ones are
/// started. `out` has 64 x 256 elements; rows 64 to 127 of A make its right half.
///
/// # Safety
/// As the products above, A's box being 64 rows, loaded twice; `count` is at least 1.
#[kernel(max_threads = 128, min_blocks = 1)]
pub unsafe fn pipelined(
    #[grid_constant] a: &TensorMap<2>,
    #[grid_constant] b: &TensorMap<2>,
    count: u32,
    out: *mut f32,
) {
    const STAGES: u32 = 3;
    const BYTES: u32 = 3 * 64 * 128 + 64 * 128;
    type Rows = Tile<bf16, 64>;
    let first = thread::thread_idx_x() == 0;
    let mut sums = [[0.0_f32; 64]; 2];
    // SAFETY: the caller's promise; a stage is loaded again when its products have ended.
    unsafe {
        // Per stage: 64 rows of A, 64 more, and 128 of B.
        let tiles = shared::dynamic_shared_mem::<Rows>();
        let full = shared_array![Mbarrier; STAGES as usize];
        let load = |step: u32| {
            let (stage, tile) = (step % STAGES, tiles.add((step % STAGES * 4) as usize));
            let full = full.add(stage as usize);
            let k = (64 * step) as i32;
            full.arrive_expect(BYTES);
            tma::load(tile, a, [k, 0], full);
            tma::load(tile.add(1), a, [k, 64], full);
            tma::load(tile.add(2), b, [k, 0], full);
            tma::load(tile.add(3), b, [k, 64], full);
        };
        if first {
            for stage in 0..STAGES as usize {
                full.add(stage).init(1);
            }
            fence_init();
            for step in 0..count.min(STAGES - 1) {
                load(step);
            }
        }
        thread::sync_threads();
        for step in 0..count {
            let stage = step % STAGES;
            full.add(stage as usize).wait(Parity::of(step / STAGES));
            let tile = tiles.add((4 * stage) as usize);
            let (a, b) = (tile.k_major(), tile.add(2).k_major());
            let low = tile.add(1).k_major();
            let next = Accumulate::Continue;
            wgmma::fence(&mut sums);
            wgmma::multiply(&mut sums[0], a, b, next);
            wgmma::multiply(&mut sums[0], a.step::<1>(), b.step::<1>(), next);
            wgmma::multiply(&mut sums[0], a.step::<2>(), b.step::<2>(), next);
            wgmma::multiply(&mut sums[0], a.step::<3>(), b.step::<3>(), next);
            wgmma::multiply(&mut sums[1], low, b, next);
            wgmma::multiply(&mut sums[1], low.step::<1>(), b.step::<1>(), next);
            wgmma::multiply(&mut sums[1], low.step::<2>(), b.step::<2>(), next);
            wgmma::multiply(&mut sums[1], low.step::<3>(), b.step::<3>(), next);
            wgmma::commit_group();
            // The products of the step before have ended, in all warps behind the barrier.
            wgmma::wait_group::<1, _>(&mut ());
            thread::sync_threads();
            if first && step + STAGES - 1 < count {
                load(step + STAGES - 1);
            }
        }
        wgmma::wait_group::<0, _>(&mut sums);
        for (half, sums) in sums.iter().enumerate() {
            for (i, sum) in sums.iter().enumerate() {
                let (row, column) = place(thread::thread_idx_x(), i as u32);
                let at = row * 256 + 128 * half as u32 + column;
                out.add(at as usize).write(*sum);
            }
        }
    }
}
