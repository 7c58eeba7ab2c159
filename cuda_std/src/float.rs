//! Floating-point functions that `core` lacks.

/// Functions of f32 and f64.
pub trait GpuFloat: Copy + PartialOrd + private::Sealed {
    /// `self * a + b`, rounded once.
    ///
    /// Lowers to `fma.rn.f32` or `fma.rn.f64` (PTX ISA 9.7.3.6).
    fn mul_add(self, a: Self, b: Self) -> Self;
}

mod private {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

macro_rules! gpu_float {
    ($float:ident, $fma:ident) => {
        impl GpuFloat for $float {
            #[inline(always)]
            fn mul_add(self, a: Self, b: Self) -> Self {
                #[cfg(target_arch = "nvptx64")]
                return core::intrinsics::$fma(self, a, b);
                #[cfg(not(target_arch = "nvptx64"))]
                return $float::mul_add(self, a, b);
            }
        }
    };
}

gpu_float!(f32, fmaf32);
gpu_float!(f64, fmaf64);
