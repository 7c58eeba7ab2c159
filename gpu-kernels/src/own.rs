//! Epilogues that other crates add to these kernels.
//!
//! # Idea
//!
//! ```text
//! for each sum that a thread has of a tile:
//!     sum = epilogue(sum, its row and column of C)
//! C = alpha * sum + beta * C, as without it
//! ```
//!
//! A body that takes one is called with a value of a type of one's own, which has what the epilogue
//! reads: [`k11_tensor_core!`](crate::k11_tensor_core), [`k10_grouped_order!`] and, with the
//! feature `warp_group`, [`warp_group!`](crate::warp_group) make entry points that do so, with
//! parameters behind those of every kernel. `gemmite::OwnKernel` launches them.
//!
//! [`k10_grouped_order!`]: crate::k10_grouped_order
//!
//! # Preconditions
//!
//! One product in one launch: rows and columns are counted from the launch's first.

use crate::Element;
use gemm_spec::GemmParams;

/// What becomes of a sum before alpha, beta and C's old value take part.
pub trait Epilogue<T: Element>: Copy {
    /// Whether sums stay what they are, and nothing is called.
    const IS_PLAIN: bool = false;
    /// Whether nothing else is compiled than what a lean entry point does (`Kernel::lean` of the
    /// table).
    const IS_LEAN: bool = false;

    /// What takes the place of the sum for the element of C at (row, column).
    ///
    /// # Safety
    /// The element lies in C, and what the value has addresses of may be read.
    unsafe fn apply(self, sum: T::Sum, at: (u64, u64)) -> T::Sum;
}

/// No epilogue.
#[derive(Clone, Copy, Debug)]
pub struct Plain;

impl<T: Element> Epilogue<T> for Plain {
    const IS_PLAIN: bool = true;

    #[inline(always)]
    unsafe fn apply(self, sum: T::Sum, _: (u64, u64)) -> T::Sum {
        sum
    }
}

/// No epilogue, of a lean entry point.
#[derive(Clone, Copy, Debug)]
pub struct Lean;

impl<T: Element> Epilogue<T> for Lean {
    const IS_PLAIN: bool = true;
    const IS_LEAN: bool = true;

    #[inline(always)]
    unsafe fn apply(self, sum: T::Sum, _: (u64, u64)) -> T::Sum {
        sum
    }
}

/// Applies an epilogue to sums, of which number i is that of the element `at(i)`. Those of a tile
/// past C's end, which are not written, count as the nearest of C.
///
/// # Safety
/// As [`Epilogue::apply`]; C is not empty.
#[inline(always)]
pub unsafe fn apply<T: Element, E: Epilogue<T>>(
    epilogue: E,
    p: &GemmParams<T::Sum>,
    sums: &mut [T::Sum],
    at: impl Fn(usize) -> (u64, u64),
) {
    if !E::IS_PLAIN {
        for i in 0..sums.len() {
            let (row, col) = at(i);
            // SAFETY: the caller's promise.
            sums[i] = unsafe { epilogue.apply(sums[i], (row.min(p.m - 1), col.min(p.n - 1))) };
        }
    }
}

/// The value of an epilogue that a row of a list may have.
#[macro_export]
macro_rules! epilogue_or_plain {
    () => {
        $crate::Plain
    };
    ($epilogue:expr) => {
        $epilogue
    };
}
