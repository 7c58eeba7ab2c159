//! What the expansion of [`kernel`](crate::kernel) calls.

/// Compiles where `T` may be passed to a kernel by copying its bytes.
#[inline(always)]
pub const fn argument_is_copy<T: Copy>() {}

/// Compiles where a pointer to `T` is one address.
#[inline(always)]
pub const fn pointee_is_sized<T: Sized>() {}

/// Fails at compile time where rustc can't pass `T` to an entry.
#[inline(always)]
pub const fn argument_is_passable<T>() {
    assert!(
        align_of::<T>() <= 16,
        "a kernel argument can't be aligned to more than 16 bytes: pass a pointer to it"
    );
}

/// The slice that a launch passed as a pointer and a length. The pointer may be null where the
/// length is 0, as an empty device buffer's is.
///
/// # Safety
/// Where `len` is not 0: `pointer` points to `len` elements of `T` in memory that the device can
/// read, aligned for `T`, that nothing writes while the slice lives.
#[inline(always)]
pub unsafe fn slice<'a, T>(pointer: *const T, len: usize) -> &'a [T] {
    if len == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { core::slice::from_raw_parts(pointer, len) }
}

/// The slice to write that a launch passed as a pointer and a length. The pointer may be null where
/// the length is 0.
///
/// # Safety
/// Where `len` is not 0: `pointer` points to `len` elements of `T` in memory that the device can
/// read and write, aligned for `T`, that nothing else accesses while the slice lives. Every thread
/// of the launch gets the same slice, so that no thread may touch an element that another one
/// touches.
#[inline(always)]
pub unsafe fn slice_mut<'a, T>(pointer: *mut T, len: usize) -> &'a mut [T] {
    if len == 0 {
        return &mut [];
    }
    // SAFETY: the caller's promise.
    unsafe { core::slice::from_raw_parts_mut(pointer, len) }
}

/// A parameter of `BYTES` bytes that the kernel takes by its address: what `#[grid_constant]`
/// declares in the entry.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug)]
pub struct GridConstant<const BYTES: usize>([u8; BYTES]);
