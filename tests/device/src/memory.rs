//! Shared memory, `mem` and `ptr`.

use cuda_std::half::{bf16, f16};
use cuda_std::ptr::{AddressSpace, is_in_address_space};
use cuda_std::shared::dynamic_shared_mem;
use cuda_std::{kernel, mem, shared_array, thread};

macro_rules! reversals {
    ($($name:ident, $type:ty, $what:literal;)*) => {$(
        #[doc = concat!("One block of 64 threads: reverses the 64 elements at `data`, ", $what,
            ", through shared memory.")]
        ///
        /// # Safety
        /// `data` points to 64 elements that nothing else accesses.
        #[kernel(max_threads = 64)]
        pub unsafe fn $name(data: *mut $type) {
            const LEN: usize = 64;
            let thread = thread::thread_idx_x() as usize;
            // SAFETY: thread < 64; a barrier stands between the writes and the reads of other
            // threads' elements. The pointer takes detours within the array.
            unsafe {
                let before = shared_array![$type; LEN];
                let shared = shared_array![$type; LEN];
                before.add(thread).write(*data.add(thread));
                shared.add(LEN).sub(LEN - thread).write(*data.add(thread));
                thread::sync_threads();
                let mirror = shared.offset(LEN as isize - 1).offset(-(thread as isize));
                data.add(thread).write(mirror.cast::<u8>().cast::<$type>().read());
            }
        }
    )*};
}

/// 16 bytes that are moved by one instruction.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
pub struct Quad(pub [f32; 4]);

reversals! {
    reverse_u8, u8, "`u8`";
    reverse_i8, i8, "`i8`";
    reverse_u16, u16, "`u16`";
    reverse_i16, i16, "`i16`";
    reverse_f16, f16, "`f16`";
    reverse_bf16, bf16, "`bf16`";
    reverse_u32, u32, "`u32`";
    reverse_i32, i32, "`i32`";
    reverse_f32, f32, "`f32`";
    reverse_u64, u64, "`u64`";
    reverse_i64, i64, "`i64`";
    reverse_f64, f64, "`f64`";
    reverse_u128, u128, "`u128`";
    reverse_quad, Quad, "quadruples of `f32`";
}

/// One block of 64 threads: reverses the 64 quadruples at `data` through shared memory, which it
/// reads in words.
///
/// # Safety
/// `data` points to 64 elements that nothing else accesses.
#[kernel(max_threads = 64)]
pub unsafe fn reverse_by_words(data: *mut Quad) {
    let thread = thread::thread_idx_x() as usize;
    // SAFETY: thread < 64; a barrier stands between the writes and the reads of other threads'
    // elements.
    unsafe {
        let shared = shared_array![Quad; 64];
        shared.add(thread).write(*data.add(thread));
        thread::sync_threads();
        let words = shared.add(63 - thread).read_words();
        data.add(thread).write(Quad(words.map(f32::from_bits)));
    }
}

/// One block of as many threads as `data` has words, with as many words of dynamic shared memory:
/// reverses `data` through it. Leaves in `out`: the address of the dynamic shared memory, that of a
/// static array beside it, the dynamic size, and the total size.
///
/// # Safety
/// `data` has as many words as the block has threads; `out` points to 4; nothing else accesses
/// either.
#[kernel]
pub unsafe fn dynamic_shared(data: *mut u32, out: *mut u32) {
    let thread = thread::thread_idx_x() as usize;
    let threads = thread::block_dim_x() as usize;
    // SAFETY: each thread has its own word, and the barrier divides the writes from the reads.
    unsafe {
        let fixed = shared_array![u32; 100];
        fixed.add(thread % 100).write(thread as u32);
        let shared = dynamic_shared_mem::<u32>();
        shared.add(thread).write(*data.add(thread));
        thread::sync_threads();
        data.add(thread).write(shared.add(threads - 1 - thread).read());
        if thread == 0 {
            out.write(address(shared));
            out.add(1).write(address(fixed));
            out.add(2).write(mem::dynamic_smem_size());
            out.add(3).write(mem::total_smem_size());
        }
    }
}

/// The address in the shared window; 0 on the host, which has none.
#[inline(always)]
fn address(pointer: cuda_std::SharedPtr<u32>) -> u32 {
    #[cfg(target_arch = "nvptx64")]
    return pointer.address();
    #[cfg(not(target_arch = "nvptx64"))]
    {
        let _ = pointer;
        0
    }
}

/// One thread. For each generic address in `addresses`, leaves in `out + 4 * i` whether it is
/// global, shared, constant, local.
///
/// # Safety
/// `out` points to 4 words for each address, that nothing else accesses.
#[kernel]
pub unsafe fn address_spaces(addresses: &[u64], out: *mut u32) {
    const SPACES: [AddressSpace; 4] =
        [AddressSpace::Global, AddressSpace::Shared, AddressSpace::Constant, AddressSpace::Local];
    for (i, address) in addresses.iter().enumerate() {
        let pointer = *address as *const u8;
        for (space, &address_space) in SPACES.iter().enumerate() {
            // SAFETY: the pointer is not followed.
            let inside = unsafe { is_in_address_space(pointer, address_space) };
            // SAFETY: the caller's promise.
            unsafe { out.add(4 * i + space).write(inside as u32) };
        }
    }
}
