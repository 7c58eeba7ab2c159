//! 16-bit floats: the types of the crate `half`, with the device's conversions and fused
//! multiply-add.

pub use ::half::{bf16, f16};

#[cfg(target_arch = "nvptx64")]
use crate::cfg::ComputeCapability;
#[cfg(target_arch = "nvptx64")]
use core::arch::asm;

/// What a kernel does with `f16` and `bf16`.
///
/// The types' own `to_f32` and `from_f32` work on the device too, but in some twenty integer
/// instructions each.
pub trait HalfExt: Copy + private::Sealed {
    /// The same value as f32; exact, and NaN stays NaN.
    ///
    /// f16 lowers to `cvt.f32.f16` (PTX ISA, data movement and conversion instructions), bf16 to
    /// `shl.b32` by 16.
    fn to_f32_gpu(self) -> f32;

    /// The nearest value, ties to even; too large a value becomes infinite, NaN stays NaN.
    ///
    /// f16 lowers to `cvt.rn.f16.f32`, bf16 to `cvt.rn.bf16.f32` from sm_80 and to integer code
    /// before (PTX ISA, data movement and conversion instructions).
    fn from_f32_gpu(value: f32) -> Self;

    /// Two numbers, each rounded as by [`Self::from_f32_gpu`], as one word with the first in its
    /// low half.
    ///
    /// Lowers to `cvt.rn.f16x2.f32` or `cvt.rn.bf16x2.f32` from sm_80 (PTX ISA, data movement and
    /// conversion instructions).
    fn pack_gpu(pair: [f32; 2]) -> u32;

    /// `self * a + b`, rounded once.
    ///
    /// f16 lowers to `fma.rn.f16`, bf16 to `fma.rn.bf16` from sm_80 (PTX ISA, half-precision
    /// floating-point instructions). Before sm_80 bf16 is computed through f64, to the same bits
    /// except those of a NaN.
    fn mul_add_gpu(self, a: Self, b: Self) -> Self;
}

mod private {
    pub trait Sealed {}
    impl Sealed for super::f16 {}
    impl Sealed for super::bf16 {}
}

macro_rules! pack {
    ($half:ident, $instruction:literal) => {
        #[inline(always)]
        fn pack_gpu(pair: [f32; 2]) -> u32 {
            #[cfg(target_arch = "nvptx64")]
            if ComputeCapability::from_cuda_arch_env().value() >= 800 {
                let bits: u32;
                // SAFETY: converts registers; the module is for sm_80 or later.
                unsafe {
                    asm!(concat!($instruction, " {}, {}, {};"), out(reg32) bits,
                        in(reg32) pair[1], in(reg32) pair[0], options(pure, nomem, nostack));
                }
                return bits;
            }
            let [first, second] = pair.map($half::from_f32_gpu).map($half::to_bits);
            u32::from(first) | u32::from(second) << 16
        }
    };
}

impl HalfExt for f16 {
    pack!(f16, "cvt.rn.f16x2.f32");

    #[inline(always)]
    fn to_f32_gpu(self) -> f32 {
        #[cfg(target_arch = "nvptx64")]
        {
            let value: f32;
            // SAFETY: converts a register.
            unsafe {
                asm!("cvt.f32.f16 {}, {};", out(reg32) value, in(reg16) self.to_bits(),
                    options(pure, nomem, nostack));
            }
            value
        }
        #[cfg(not(target_arch = "nvptx64"))]
        self.to_f32()
    }

    #[inline(always)]
    fn from_f32_gpu(value: f32) -> Self {
        #[cfg(target_arch = "nvptx64")]
        {
            let bits: u16;
            // SAFETY: converts a register.
            unsafe {
                asm!("cvt.rn.f16.f32 {}, {};", out(reg16) bits, in(reg32) value,
                    options(pure, nomem, nostack));
            }
            f16::from_bits(bits)
        }
        #[cfg(not(target_arch = "nvptx64"))]
        f16::from_f32(value)
    }

    #[inline(always)]
    fn mul_add_gpu(self, a: Self, b: Self) -> Self {
        #[cfg(target_arch = "nvptx64")]
        {
            let bits: u16;
            // SAFETY: computes on registers.
            unsafe {
                asm!("fma.rn.f16 {}, {}, {}, {};", out(reg16) bits, in(reg16) self.to_bits(),
                    in(reg16) a.to_bits(), in(reg16) b.to_bits(), options(pure, nomem, nostack));
            }
            f16::from_bits(bits)
        }
        #[cfg(not(target_arch = "nvptx64"))]
        f16::from_f32_gpu(mul_add_to_odd(self.to_f32_gpu(), a.to_f32_gpu(), b.to_f32_gpu()))
    }
}

impl HalfExt for bf16 {
    pack!(bf16, "cvt.rn.bf16x2.f32");

    #[inline(always)]
    fn to_f32_gpu(self) -> f32 {
        f32::from_bits((self.to_bits() as u32) << 16)
    }

    #[inline(always)]
    fn from_f32_gpu(value: f32) -> Self {
        #[cfg(target_arch = "nvptx64")]
        if ComputeCapability::from_cuda_arch_env().value() >= 800 {
            let bits: u16;
            // SAFETY: converts a register; the module is for sm_80 or later.
            unsafe {
                asm!("cvt.rn.bf16.f32 {}, {};", out(reg16) bits, in(reg32) value,
                    options(pure, nomem, nostack));
            }
            return bf16::from_bits(bits);
        }
        bf16::from_bits(narrow_to_bf16(value))
    }

    #[inline(always)]
    fn mul_add_gpu(self, a: Self, b: Self) -> Self {
        #[cfg(target_arch = "nvptx64")]
        if ComputeCapability::from_cuda_arch_env().value() >= 800 {
            let bits: u16;
            // SAFETY: computes on registers; the module is for sm_80 or later.
            unsafe {
                asm!("fma.rn.bf16 {}, {}, {}, {};", out(reg16) bits, in(reg16) self.to_bits(),
                    in(reg16) a.to_bits(), in(reg16) b.to_bits(), options(pure, nomem, nostack));
            }
            return bf16::from_bits(bits);
        }
        bf16::from_f32_gpu(mul_add_to_odd(self.to_f32_gpu(), a.to_f32_gpu(), b.to_f32_gpu()))
    }
}

/// The bits of the bf16 nearest to `value`, ties to even.
#[inline(always)]
fn narrow_to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        // Quiet, so that a NaN whose payload lies in the lower half does not become infinite.
        return (bits >> 16) as u16 | 0x0040;
    }
    // Just less than half a unit, plus 1 where the kept part is odd; a carry out of it is the next
    // binade or infinity.
    ((bits + 0x7fff + ((bits >> 16) & 1)) >> 16) as u16
}

/// `a * b + c` for 16-bit floats that were widened, rounded to odd in f32: truncated, with the last
/// bit set where that was inexact. Rounding the result to 16 bits then gives what one rounding of
/// the exact value gives (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved
/// algorithms using rounding to odd", 2008).
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn mul_add_to_odd(a: f32, b: f32, c: f32) -> f32 {
    // Exact: the factors have at most 11 bits each.
    let product = a as f64 * b as f64;
    let c = c as f64;
    let sum = product + c;
    if !sum.is_finite() {
        return sum as f32;
    }
    // Knuth's two-sum: sum + error is the exact value.
    let c_part = sum - product;
    let error = (product - (sum - c_part)) + (c - c_part);
    let sum = f64::from_bits(to_odd(sum.to_bits(), sum, error));
    let rounded = sum as f32;
    if !rounded.is_finite() {
        return rounded;
    }
    let error = sum - rounded as f64;
    f32::from_bits(to_odd(rounded.to_bits() as u64, rounded as f64, error) as u32)
}

/// The bits of `value` rounded to odd, where `value` is the nearest number to `value + error`.
#[inline(always)]
fn to_odd(bits: u64, value: f64, error: f64) -> u64 {
    if error == 0.0 || bits & 1 == 1 {
        return bits;
    }
    // The neighbour on the error's side; it is odd because `value` is even. A zero has the sign of
    // what it was rounded from, so its neighbour is the smallest number of that sign.
    if (error > 0.0) == value.is_sign_positive() { bits + 1 } else { bits - 1 }
}
