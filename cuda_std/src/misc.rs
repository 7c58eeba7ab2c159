//! Debugging and measuring, and a word with the compiler.

use crate::gpu_only;
#[cfg(target_arch = "nvptx64")]
use core::arch::asm;

/// Stops the kernel for a debugger. With no debugger attached the launch fails.
///
/// Lowers to `brkpt` (PTX ISA, miscellaneous instructions).
#[gpu_only]
#[inline(always)]
pub fn breakpoint() {
    // SAFETY: stopping has no precondition.
    unsafe { asm!("brkpt;", options(nostack)) }
}

/// Raises performance-monitor event `counter`, 0 to 7; any other number traps.
///
/// Lowers to `pmevent` with an immediate number (PTX ISA, miscellaneous instructions).
#[gpu_only]
#[inline(always)]
pub fn profiler_counter(counter: u32) {
    macro_rules! event {
        ($($number:literal)*) => {
            match counter {
                // SAFETY: counting has no precondition.
                $($number => unsafe {
                    asm!(concat!("pmevent ", $number, ";"), options(nomem, nostack))
                },)*
                _ => panic!("a profiler counter is 0 to 7"),
            }
        };
    }
    event!(0 1 2 3 4 5 6 7)
}

/// Has the line of global memory that holds the address brought into the L2 cache.
///
/// Lowers to `prefetch.global.L2` (PTX ISA, `prefetch`).
///
/// # Safety
/// The address is one of global memory, as of an element that may be read.
#[gpu_only]
#[inline(always)]
pub unsafe fn prefetch_l2<T>(address: *const T) {
    // SAFETY: the caller's promise; nothing is changed.
    unsafe { asm!("prefetch.global.L2 [{}];", in(reg64) address, options(nostack)) }
}

/// The same number, which the compiler takes for another: what is computed from it is computed
/// behind this call, and not kept in registers from before.
///
/// Lowers to nothing but a name, `mov.u32` (PTX ISA, data movement and conversion instructions).
#[inline(always)]
pub fn afresh(number: u32) -> u32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let mut number = number;
        // SAFETY: changes nothing; without `pure` it keeps its place.
        unsafe { asm!("mov.u32 {0}, {0};", inout(reg32) number, options(nostack)) };
        number
    }
    #[cfg(not(target_arch = "nvptx64"))]
    number
}

/// [`afresh`] of both halves.
#[inline(always)]
pub fn afresh_i64(number: i64) -> i64 {
    let high = afresh((number >> 32) as u32);
    (u64::from(high) << 32 | u64::from(afresh(number as u32))) as i64
}

/// The multiprocessor's clock-cycle counter.
///
/// Lowers to a read of `%clock64` (PTX ISA, special registers); it is not moved across memory
/// accesses.
#[gpu_only]
#[inline(always)]
pub fn clock() -> u64 {
    let cycles: u64;
    // SAFETY: reads a special register.
    unsafe { asm!("mov.u64 {}, %clock64;", out(reg64) cycles, options(nostack)) }
    cycles
}
