//! The operations on the host, by `core`'s atomics on the number's bits.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::Number;

/// The atomic of a number's bits.
pub trait Bits: Sized {
    type Atomic: 'static;
    fn fetch_update(atomic: &Self::Atomic, order: Ordering, new: impl FnMut(Self) -> Self) -> Self;
}

macro_rules! bits {
    ($bits:ident, $atomic:ident) => {
        impl Bits for $bits {
            type Atomic = $atomic;

            fn fetch_update(
                atomic: &$atomic,
                order: Ordering,
                mut new: impl FnMut($bits) -> $bits,
            ) -> $bits {
                let failure = match order {
                    Ordering::SeqCst => Ordering::SeqCst,
                    _ => Ordering::Acquire,
                };
                match atomic.fetch_update(order, failure, |old| Some(new(old))) {
                    Ok(old) | Err(old) => old,
                }
            }
        }
    };
}

bits!(u32, AtomicU32);
bits!(u64, AtomicU64);

/// # Safety
/// `pointer` is aligned to its size and points to a live number that is only accessed atomically.
pub unsafe fn atomic_at<'a, T: Number<Bits: Bits>>(
    pointer: *mut T,
) -> &'a <T::Bits as Bits>::Atomic {
    // SAFETY: the caller's promise; the atomic has the size of the bits, which is that of the
    // number.
    unsafe { &*pointer.cast() }
}

/// Replaces the number by `new` of it; returns the one before.
///
/// # Safety
/// As for [`atomic_at`].
pub unsafe fn update<T: Number<Bits: Bits>>(
    pointer: *mut T,
    order: Ordering,
    mut new: impl FnMut(T) -> T,
) -> T {
    // SAFETY: the caller's promise.
    let atomic = unsafe { atomic_at(pointer) };
    let old = T::Bits::fetch_update(atomic, order, |old| new(T::out_of_bits(old)).into_bits());
    T::out_of_bits(old)
}
