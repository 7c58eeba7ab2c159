//! Overlap of one kernel with the next in a stream ("programmatic dependent launch"), for compute
//! capability 9.0.
//!
//! Without the launch attribute `CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION` on the
//! second kernel both functions do nothing. With it, the second kernel starts when all blocks of
//! the first have called [`launch_dependents`] or have ended, and what it does before
//! [`wait_for_grids`] runs beside the first one's end.

use crate::gpu_only;

/// This block lets the next kernel of the stream start, which can then run beside it.
///
/// Lowers to `griddepcontrol.launch_dependents` (PTX ISA, `griddepcontrol`).
#[gpu_only]
#[inline(always)]
pub fn launch_dependents() {
    // SAFETY: a hint to the scheduler, with no precondition.
    unsafe { crate::intrinsics::launch_dependents() }
}

/// Waits until the kernels that this one depends on have ended; what they wrote is visible after.
///
/// A thread touches nothing that they write, or read and this kernel writes, before this.
/// Lowers to `griddepcontrol.wait` (PTX ISA, `griddepcontrol`).
#[gpu_only]
#[inline(always)]
pub fn wait_for_grids() {
    // SAFETY: waiting has no precondition.
    unsafe { crate::intrinsics::wait_for_grids() }
}
