//! Reductions over the lanes of a warp.

/// What [`warp_reduce`] does with the lanes' values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WarpReductionOp {
    /// Their sum, which wraps.
    Add,
    /// The least of them.
    Min,
    /// The greatest of them.
    Max,
    /// Their bitwise and.
    And,
    /// Their bitwise or.
    Or,
    /// Their bitwise exclusive or.
    Xor,
}

/// A type that [`warp_reduce`] reduces.
pub trait WarpReduceValue: Copy + private::Reduce {}

impl WarpReduceValue for u32 {}
impl WarpReduceValue for i32 {}

/// The values of the lanes in `mask`, reduced to one; every one of these lanes gets it.
///
/// Lowers to `redux.sync` with `.add.u32`, `.min` or `.max` with `.u32` or `.s32`, `.and.b32`,
/// `.or.b32`, `.xor.b32` (PTX ISA, parallel synchronization and communication instructions). Does
/// not compile for less than sm_80, which has no such instruction.
///
/// # Safety
/// `mask` holds the calling lane, and every lane in it that has not exited makes the same call with
/// the same mask and operation.
#[inline(always)]
pub unsafe fn warp_reduce<T: WarpReduceValue>(mask: u32, value: T, op: WarpReductionOp) -> T {
    // SAFETY: the caller's promise; the implementation checks the capability.
    unsafe { value.reduce::<()>(mask, op) }
}

mod private {
    use super::WarpReductionOp;
    use crate::gpu_only;

    pub trait Reduce {
        /// `Late` is any type: a generic function's check of the capability runs only where the
        /// function is used.
        ///
        /// # Safety
        /// As for `warp_reduce`.
        unsafe fn reduce<Late>(self, mask: u32, op: WarpReductionOp) -> Self;
    }

    macro_rules! reduce {
        ($type:ident, $min:ident, $max:ident) => {
            impl Reduce for $type {
                #[gpu_only]
                #[inline(always)]
                unsafe fn reduce<Late>(self, mask: u32, op: WarpReductionOp) -> Self {
                    use crate::intrinsics::*;
                    const {
                        let arch = crate::cfg::ComputeCapability::from_cuda_arch_env().value();
                        assert!(arch >= 800, "warp_reduce needs sm_80 or later");
                    }
                    let value = self as u32;
                    // SAFETY: the caller's promise, and the module is for sm_80 or later.
                    let result = unsafe {
                        match op {
                            WarpReductionOp::Add => reduce_add(value, mask),
                            WarpReductionOp::Min => $min(value, mask),
                            WarpReductionOp::Max => $max(value, mask),
                            WarpReductionOp::And => reduce_and(value, mask),
                            WarpReductionOp::Or => reduce_or(value, mask),
                            WarpReductionOp::Xor => reduce_xor(value, mask),
                        }
                    };
                    result as $type
                }
            }
        };
    }

    reduce!(u32, reduce_min_unsigned, reduce_max_unsigned);
    reduce!(i32, reduce_min_signed, reduce_max_signed);
}
