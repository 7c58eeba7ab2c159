//! Functions of f32 that the hardware approximates, each one instruction, with the error that the
//! PTX ISA states.
//!
//! Subnormal arguments and results are kept, unless the name ends in `ftz`: then they are zeros,
//! which is faster. On the host std's functions take their place, which
//! are more exact.

#[cfg(target_arch = "nvptx64")]
use core::arch::asm;

macro_rules! approximations {
    ($($(#[doc = $doc:literal])* $name:ident = $instruction:literal, |$x:ident| $host:expr;)*) => {
        $(
            $(#[doc = $doc])*
            #[inline(always)]
            pub fn $name($x: f32) -> f32 {
                #[cfg(target_arch = "nvptx64")]
                {
                    let result: f32;
                    // SAFETY: computes on registers.
                    unsafe {
                        asm!(concat!($instruction, " {}, {};"), out(reg32) result, in(reg32) $x,
                            options(pure, nomem, nostack));
                    }
                    result
                }
                #[cfg(not(target_arch = "nvptx64"))]
                $host
            }
        )*
    };
}

approximations! {
    /// 2 to the power of `x`. Relative error at most 2^-22 where the result is normal.
    ///
    /// Lowers to `ex2.approx.f32` (PTX ISA, floating-point instructions).
    exp2 = "ex2.approx.f32", |x| x.exp2();

    /// The logarithm to the base 2. Absolute error at most 2^-22 for `x` in (0.5, 2), elsewhere
    /// relative error at most 2^-22. NaN for `x` < 0.
    ///
    /// Lowers to `lg2.approx.f32` (PTX ISA, floating-point instructions).
    log2 = "lg2.approx.f32", |x| x.log2();

    /// The sine. Absolute error at most 2^-20.5 for `x` in [-2 pi, 2 pi] and 2^-14.7 in [-100 pi,
    /// 100 pi].
    ///
    /// Lowers to `sin.approx.f32` (PTX ISA, floating-point instructions).
    sin = "sin.approx.f32", |x| x.sin();

    /// The cosine. Absolute error at most 2^-20.5 for `x` in [-2 pi, 2 pi] and 2^-14.7 in [-100 pi,
    /// 100 pi].
    ///
    /// Lowers to `cos.approx.f32` (PTX ISA, floating-point instructions).
    cos = "cos.approx.f32", |x| x.cos();

    /// 1 / sqrt(`x`). Relative error at most 2^-22.4.
    ///
    /// Lowers to `rsqrt.approx.f32` (PTX ISA, floating-point instructions).
    rsqrt = "rsqrt.approx.f32", |x| 1.0 / x.sqrt();

    /// 1 / `x`. Relative error at most 2^-23.
    ///
    /// Lowers to `rcp.approx.f32` (PTX ISA, floating-point instructions).
    recip = "rcp.approx.f32", |x| 1.0 / x;

    /// [`exp2`], whose subnormal results are 0.
    ///
    /// Lowers to `ex2.approx.ftz.f32` (PTX ISA, floating-point instructions).
    exp2_ftz = "ex2.approx.ftz.f32", |x| x.exp2();

    /// [`recip`] of numbers whose reciprocals are normal; 0 of others that are large.
    ///
    /// Lowers to `rcp.approx.ftz.f32` (PTX ISA, floating-point instructions).
    recip_ftz = "rcp.approx.ftz.f32", |x| 1.0 / x;
}
