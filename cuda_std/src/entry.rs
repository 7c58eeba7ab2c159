//! What the expansion of [`kernel`](crate::kernel) calls.

use core::marker::PhantomData;

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

/// Fails at compile time where nothing is passed whose address a kernel could have.
#[inline(always)]
pub const fn grid_constant_is_passable<T>() {
    assert!(size_of::<T>() != 0, "a `#[grid_constant]` argument has no address: its type is empty");
}

/// What `kernel` asks of an argument's type, which it sees by name alone.
#[derive(Debug)]
pub struct Argument<T: ?Sized>(PhantomData<T>);

/// The answer for types that are no pointers: where [`Argument`] has a constant of its own, that is
/// taken.
pub trait AnyArgument {
    /// Whether it is an address with a length or a table of functions.
    const IS_WIDE: bool = false;
}

impl<T: ?Sized> AnyArgument for Argument<T> {}

macro_rules! pointers {
    ($($pointer:ty),*) => {$(
        impl<T: ?Sized> Argument<$pointer> {
            /// Whether it is an address with a length or a table of functions.
            pub const IS_WIDE: bool = size_of::<$pointer>() != size_of::<usize>();
        }
    )*};
}

pointers!(&T, &mut T, *const T, *mut T);

/// Fails at compile time for a slice, or another wide pointer, that stands behind an alias: the
/// macro takes it for one parameter, and a launch passes two.
///
/// ```compile_fail,E0080
/// type Numbers<'a> = &'a [f32];
///
/// #[cuda_std::kernel]
/// pub unsafe fn hidden(numbers: Numbers<'_>) {}
/// ```
///
/// ```
/// type Number<'a> = &'a f32;
///
/// #[cuda_std::kernel]
/// pub unsafe fn passed(number: Number<'_>, numbers: &[f32], pair: [u64; 2]) {}
/// ```
#[inline(always)]
pub const fn argument_is_narrow(is_wide: bool) {
    assert!(
        !is_wide,
        "a type alias hides a slice or another wide pointer: write `&[T]`, or pass a pointer and \
         a length"
    );
}

/// The sum of the counts of parameters before one: its number.
pub const fn sum(counts: &[usize]) -> usize {
    match counts {
        [] => 0,
        [first, rest @ ..] => *first + sum(rest),
    }
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
/// declares in the entry. Its alignment `cuda_builder` writes, as the macro tells it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct GridConstant<const BYTES: usize>([u8; BYTES]);
