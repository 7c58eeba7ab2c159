//! Atomic numbers with CUDA's scopes.
//!
//! A scope says which threads an operation is atomic with and ordered with: for [`AtomicF32`] and
//! its like those of the device, for [`BlockAtomicF32`] and its like those of the block, for
//! [`SystemAtomicF32`] and its like those of the host and of other devices too. The block's types
//! are unsafe to use: nothing keeps another block away.
//!
//! A type has the layout of its number, so that a kernel that gets a pointer to the number can use
//! `from_ptr`. Orderings are those of `core::sync::atomic`; a sequentially consistent operation is
//! a `fence.sc` and then an acquiring operation or a relaxed store. sm_70 and later.
//!
//! In global memory `atom.add.f32` flushes subnormal arguments and results to zero; in shared
//! memory it does not (PTX ISA, "atom").

use core::cell::UnsafeCell;
pub use core::sync::atomic::Ordering;

#[cfg(target_arch = "nvptx64")]
#[macro_use]
mod device;
#[cfg(not(target_arch = "nvptx64"))]
mod host;

/// A number, as the bits that the instructions take.
trait Number: Copy {
    type Bits;
    fn into_bits(self) -> Self::Bits;
    fn out_of_bits(bits: Self::Bits) -> Self;
}

macro_rules! numbers {
    ($($number:ident as $bits:ident: $into:expr, $out:expr;)*) => {
        $(
            impl Number for $number {
                type Bits = $bits;

                #[inline(always)]
                fn into_bits(self) -> $bits {
                    $into(self)
                }

                #[inline(always)]
                fn out_of_bits(bits: $bits) -> Self {
                    $out(bits)
                }
            }
        )*
    };
}

numbers! {
    u32 as u32: core::convert::identity, core::convert::identity;
    i32 as u32: i32::cast_unsigned, u32::cast_signed;
    f32 as u32: f32::to_bits, f32::from_bits;
    u64 as u64: core::convert::identity, core::convert::identity;
    i64 as u64: i64::cast_unsigned, u64::cast_signed;
    f64 as u64: f64::to_bits, f64::from_bits;
}

/// What atomics of all numbers have.
macro_rules! common {
    ($name:ident, $number:ident, $width:literal, $register:ident, $scope:literal, $threads:literal,
     $($unsafety:ident, $safety:literal)?) => {
        #[doc = concat!("An atomic `", stringify!($number), "` for the threads of ", $threads, ".")]
        #[repr(transparent)]
        pub struct $name(UnsafeCell<$number>);

        // SAFETY: shared references access the number atomically. That no thread outside of the
        // scope does so at the same time is promised to the block's methods; the device's and the
        // system's scopes hold every thread that can get a reference, except that a device-scoped
        // atomic in memory that the host shares is the host code's to guard.
        unsafe impl Sync for $name {}

        impl $name {
            /// An atomic that holds `value`.
            ///
            /// # Safety
            /// On the device it lies in global memory, as a `static` does, or in shared memory:
            /// what an atomic does to a thread's own variables PTX leaves open.
            pub const unsafe fn new(value: $number) -> Self {
                $name(UnsafeCell::new(value))
            }

            /// The number that it holds.
            pub fn into_inner(self) -> $number {
                self.0.into_inner()
            }

            /// The number at `pointer`, as an atomic.
            ///
            /// # Safety
            #[doc = concat!("`pointer` is aligned to its ", $width, " bits and points to a `",
                stringify!($number),
                "` in global or shared memory that lives as long as the reference. Whatever \
                    accesses it meanwhile does so atomically and is of ",
                $threads, ".")]
            #[inline(always)]
            pub const unsafe fn from_ptr<'a>(pointer: *mut $number) -> &'a Self {
                // SAFETY: the caller's promise; the layouts are the same.
                unsafe { &*pointer.cast::<Self>() }
            }

            /// The number.
            ///
            #[doc = concat!("Lowers to `ld.relaxed.", $scope, ".b", $width, "` or `ld.acquire.",
                $scope, ".b", $width,
                "` (PTX ISA, \"ld\").")]
            ///
            /// # Panics
            /// `order` is `Release` or `AcqRel`: no load is.
            $(#[doc = $safety])?
            #[inline(always)]
            pub $($unsafety)? fn load(&self, order: Ordering) -> $number {
                #[cfg(target_arch = "nvptx64")]
                let bits = load!($scope, $width, $register, self.0.get(), order);
                #[cfg(not(target_arch = "nvptx64"))]
                // SAFETY: `self` is valid, and only accessed atomically.
                let bits = unsafe { host::atomic_at::<$number>(self.0.get()) }.load(order);
                Number::out_of_bits(bits)
            }

            /// Replaces the number.
            ///
            #[doc = concat!("Lowers to `st.relaxed.", $scope, ".b", $width, "` or `st.release.",
                $scope, ".b", $width,
                "` (PTX ISA, \"st\").")]
            ///
            /// # Panics
            /// `order` is `Acquire` or `AcqRel`: no store is.
            $(#[doc = $safety])?
            #[inline(always)]
            pub $($unsafety)? fn store(&self, value: $number, order: Ordering) {
                let bits = Number::into_bits(value);
                #[cfg(target_arch = "nvptx64")]
                store!($scope, $width, $register, self.0.get(), order, bits);
                #[cfg(not(target_arch = "nvptx64"))]
                // SAFETY: `self` is valid, and only accessed atomically.
                unsafe { host::atomic_at::<$number>(self.0.get()) }.store(bits, order);
            }
        }
    };
}

/// Read-modify-write operations: the method, what it does, the instruction's type and operation,
/// the instruction's argument, and the same operation for the host.
macro_rules! operations {
    ($name:ident, $number:ident, $register:ident, $scope:literal, $safety:tt,
     $($method:ident, $doc:literal, $op:expr, $argument:expr, $host:expr;)*) => {
        impl $name {
            $( operation! {
                $number, $register, $scope, $safety, $method, $doc, $op, $argument, $host
            } )*
        }
    };
}

macro_rules! operation {
    ($number:ident, $register:ident, $scope:literal, [$($unsafety:ident, $safety:literal)?],
     $method:ident, $doc:literal, $op:expr, $argument:expr, $host:expr) => {
        #[doc = concat!($doc, " Returns the number before.")]
        ///
        #[doc = concat!("Lowers to `atom.ORDER.", $scope, ".", $op, "` (PTX ISA, \"atom\").")]
        $(#[doc = $safety])?
        #[inline(always)]
        pub $($unsafety)? fn $method(&self, value: $number, order: Ordering) -> $number {
            #[cfg(target_arch = "nvptx64")]
            {
                let argument = Number::into_bits($argument(value));
                Number::out_of_bits(atom!($scope, $op, $register, self.0.get(), order, argument))
            }
            #[cfg(not(target_arch = "nvptx64"))]
            // SAFETY: `self` is valid, and only accessed atomically.
            unsafe {
                host::update(self.0.get(), order, |old| $host(old, value))
            }
        }
    };
}

macro_rules! compare_exchange {
    ($name:ident, $number:ident, $width:literal, $register:ident, $scope:literal,
     $($unsafety:ident, $safety:literal)?) => {
        impl $name {
            /// Replaces the number by `new` where it is `current`. Returns the number before: `Ok`
            /// where it was replaced, `Err` where not.
            ///
            #[doc = concat!("Lowers to `atom.ORDER.", $scope, ".cas.b", $width, "` (PTX ISA, \
                \"atom\"), with an ordering \
                that is as strong as both `success` and `failure`.")]
            ///
            /// # Panics
            /// `failure` is `Release` or `AcqRel`: no load is.
            $(#[doc = $safety])?
            #[inline(always)]
            pub $($unsafety)? fn compare_exchange(
                &self,
                current: $number,
                new: $number,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$number, $number> {
                let (current_bits, new_bits) = (Number::into_bits(current), Number::into_bits(new));
                #[cfg(target_arch = "nvptx64")]
                {
                    let order = joint(success, failure);
                    let old = cas!($scope, $width, $register, self.0.get(), order, current_bits,
                        new_bits);
                    let number = Number::out_of_bits(old);
                    if old == current_bits { Ok(number) } else { Err(number) }
                }
                #[cfg(not(target_arch = "nvptx64"))]
                // SAFETY: `self` is valid, and only accessed atomically.
                unsafe { host::atomic_at::<$number>(self.0.get()) }
                    .compare_exchange(current_bits, new_bits, success, failure)
                    .map(Number::out_of_bits)
                    .map_err(Number::out_of_bits)
            }
        }
    };
}

/// The weakest ordering that is as strong as both.
#[cfg_attr(not(target_arch = "nvptx64"), allow(dead_code))]
#[inline(always)]
fn joint(success: Ordering, failure: Ordering) -> Ordering {
    use Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
    match (success, failure) {
        (_, Release | AcqRel) => panic!("a failed exchange is a load, and no load releases"),
        (SeqCst, _) | (_, SeqCst) => SeqCst,
        (Release | AcqRel, Acquire) => AcqRel,
        (Relaxed, Acquire) => Acquire,
        (success, _) => success,
    }
}

macro_rules! float {
    ($name:ident, $number:ident, $width:literal, $register:ident, $add:literal, $scope:literal,
        $threads:literal,
     [$($unsafety:ident, $safety:literal)?]) => {
        common!($name, $number, $width, $register, $scope, $threads, $($unsafety, $safety)?);
        operations! { $name, $number, $register, $scope, [$($unsafety, $safety)?],
            fetch_add, "Adds `value`.", $add, core::convert::identity, |old, value| old + value;
            fetch_sub, "Subtracts `value`.", $add, core::ops::Neg::neg, |old, value| old - value;
        }
        bitwise!($name, $number, $width, $register, $scope, [$($unsafety, $safety)?]);
    };
}

macro_rules! integer {
    ($name:ident, $number:ident, $width:literal, $register:ident, $add:literal, $min:literal,
        $max:literal,
     $scope:literal, $threads:literal, [$($unsafety:ident, $safety:literal)?]) => {
        common!($name, $number, $width, $register, $scope, $threads, $($unsafety, $safety)?);
        operations! { $name, $number, $register, $scope, [$($unsafety, $safety)?],
            fetch_add, "Adds `value`, wrapping.", $add, core::convert::identity,
                $number::wrapping_add;
            fetch_sub, "Subtracts `value`, wrapping.", $add, $number::wrapping_neg,
                $number::wrapping_sub;
            fetch_min, "Takes the lesser of the number and `value`.", $min,
                core::convert::identity, Ord::min;
            fetch_max, "Takes the greater of the number and `value`.", $max,
                core::convert::identity, Ord::max;
        }
        bitwise!($name, $number, $width, $register, $scope, [$($unsafety, $safety)?]);
        compare_exchange!($name, $number, $width, $register, $scope, $($unsafety, $safety)?);
    };
}

macro_rules! bitwise {
    ($name:ident, $number:ident, $width:literal, $register:ident, $scope:literal,
        [$($unsafety:ident, $safety:literal)?]) => {
        operations! { $name, $number, $register, $scope, [$($unsafety, $safety)?],
            fetch_and, "Bitwise and with `value`.", concat!("and.b", $width),
                core::convert::identity,
                |old, value| on_bits(old, value, |old, value| old & value);
            fetch_or, "Bitwise or with `value`.", concat!("or.b", $width), core::convert::identity,
                |old, value| on_bits(old, value, |old, value| old | value);
            fetch_xor, "Bitwise exclusive or with `value`.", concat!("xor.b", $width),
                core::convert::identity,
                |old, value| on_bits(old, value, |old, value| old ^ value);
            swap, "Replaces the number by `value`.", concat!("exch.b", $width),
                core::convert::identity,
                |_, value| value;
        }
    };
}

#[cfg(not(target_arch = "nvptx64"))]
fn on_bits<T: Number>(old: T, value: T, op: impl Fn(T::Bits, T::Bits) -> T::Bits) -> T {
    T::out_of_bits(op(old.into_bits(), value.into_bits()))
}

macro_rules! scope {
    ($scope:literal, $threads:literal, $safety:tt, $f32:ident, $f64:ident, $u32:ident,
        $i32:ident, $u64:ident,
     $i64:ident) => {
        float!($f32, f32, "32", reg32, "add.f32", $scope, $threads, $safety);
        float!($f64, f64, "64", reg64, "add.f64", $scope, $threads, $safety);
        integer!(
            $u32, u32, "32", reg32, "add.u32", "min.u32", "max.u32", $scope, $threads, $safety
        );
        integer!(
            $i32, i32, "32", reg32, "add.s32", "min.s32", "max.s32", $scope, $threads, $safety
        );
        integer!(
            $u64, u64, "64", reg64, "add.u64", "min.u64", "max.u64", $scope, $threads, $safety
        );
        // PTX has no add.s64; the sum's bits are the same.
        integer!(
            $i64, i64, "64", reg64, "add.u64", "min.s64", "max.s64", $scope, $threads, $safety
        );
    };
}

scope!("gpu", "one device", [], AtomicF32, AtomicF64, AtomicU32, AtomicI32, AtomicU64, AtomicI64);
scope!(
    "sys",
    "the host and all devices",
    [],
    SystemAtomicF32,
    SystemAtomicF64,
    SystemAtomicU32,
    SystemAtomicI32,
    SystemAtomicU64,
    SystemAtomicI64
);
scope!("cta", "one block", [unsafe, "\n# Safety\nNo thread of another block accesses the number \
    at the same time."],
    BlockAtomicF32, BlockAtomicF64, BlockAtomicU32, BlockAtomicI32, BlockAtomicU64, BlockAtomicI64);

#[cfg(test)]
mod tests;
