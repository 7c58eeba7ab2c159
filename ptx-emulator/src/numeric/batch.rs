//! `f32` operations on a whole warp, to nearest, in loops that the compiler vectorises.

use super::{NAN_F32, Rounding};

/// A register of 32 lanes.
pub type Warp32 = [u32; 32];

/// A 64-bit register of 32 lanes.
pub type Warp64 = [u64; 32];

#[inline(always)]
fn each(a: &Warp32, b: &Warp32, d: &mut Warp32, f: impl Fn(f32, f32) -> f32) {
    for ((d, &a), &b) in d.iter_mut().zip(a).zip(b) {
        let x = f(f32::from_bits(a), f32::from_bits(b));
        *d = if x.is_nan() { NAN_F32 } else { x.to_bits() };
    }
}

/// Calls the first where the processor has AVX2, else the second.
macro_rules! with_avx2 {
    ($wide:expr, $plain:expr) => {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has the feature that the function asks for.
            unsafe { $wide };
            return;
        }
        $plain;
    };
}

/// `add.rn.f32`.
#[inline]
pub fn add_f32(a: &Warp32, b: &Warp32, d: &mut Warp32) {
    with_avx2!(hardware::add_f32(a, b, d), each(a, b, d, |x, y| x + y));
}

/// `sub.rn.f32`.
#[inline]
pub fn sub_f32(a: &Warp32, b: &Warp32, d: &mut Warp32) {
    with_avx2!(hardware::sub_f32(a, b, d), each(a, b, d, |x, y| x - y));
}

/// `mul.rn.f32`.
#[inline]
pub fn mul_f32(a: &Warp32, b: &Warp32, d: &mut Warp32) {
    with_avx2!(hardware::mul_f32(a, b, d), each(a, b, d, |x, y| x * y));
}

/// `fma.rn.f32`.
#[inline]
pub fn fma_f32(a: &Warp32, b: &Warp32, c: &Warp32, d: &mut Warp32) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("fma") && is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has both features that the function asks for.
        unsafe { hardware::fma_f32(a, b, c, d) };
        return;
    }
    fma_f32_portable(a, b, c, d);
}

/// `fma.rn.f32` on any machine: see [`super::fma_f32`].
#[inline]
pub fn fma_f32_portable(a: &Warp32, b: &Warp32, c: &Warp32, d: &mut Warp32) {
    for lane in 0..32 {
        d[lane] = super::fma_f32(a[lane], b[lane], c[lane], Rounding::NearestEven);
    }
}

/// `fma.rn.f64`.
#[inline]
pub fn fma_f64(a: &Warp64, b: &Warp64, c: &Warp64, d: &mut Warp64) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("fma") && is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has both features that the function asks for.
        unsafe { hardware::fma_f64(a, b, c, d) };
        return;
    }
    for lane in 0..32 {
        d[lane] = super::fma_f64(a[lane], b[lane], c[lane], Rounding::NearestEven);
    }
}

/// `a * b + c` with one rounding, by the processor's own instruction where it has one.
#[inline]
pub(crate) fn fused_f64(a: f64, b: f64, c: f64) -> f64 {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("fma") {
        // SAFETY: the processor has the one feature that the function asks for.
        return unsafe { hardware::fused_f64(a, b, c) };
    }
    a.mul_add(b, c)
}

/// Loops on wider registers, 3 times faster; without the feature `mul_add` calls the C library, 12
/// times slower in `f64`.
#[cfg(target_arch = "x86_64")]
mod hardware {
    use super::super::arith64::finish;
    use super::{NAN_F32, Warp32, Warp64, each};

    #[target_feature(enable = "avx2")]
    pub fn add_f32(a: &Warp32, b: &Warp32, d: &mut Warp32) {
        each(a, b, d, |x, y| x + y);
    }

    #[target_feature(enable = "avx2")]
    pub fn sub_f32(a: &Warp32, b: &Warp32, d: &mut Warp32) {
        each(a, b, d, |x, y| x - y);
    }

    #[target_feature(enable = "avx2")]
    pub fn mul_f32(a: &Warp32, b: &Warp32, d: &mut Warp32) {
        each(a, b, d, |x, y| x * y);
    }

    #[target_feature(enable = "fma,avx2")]
    pub fn fma_f32(a: &Warp32, b: &Warp32, c: &Warp32, d: &mut Warp32) {
        for lane in 0..32 {
            let [x, y, z] = [a[lane], b[lane], c[lane]].map(f32::from_bits);
            let fused = x.mul_add(y, z);
            d[lane] = if fused.is_nan() { NAN_F32 } else { fused.to_bits() };
        }
    }

    #[target_feature(enable = "fma,avx2")]
    pub fn fma_f64(a: &Warp64, b: &Warp64, c: &Warp64, d: &mut Warp64) {
        let mut nan = false;
        for lane in 0..32 {
            let [x, y, z] = [a[lane], b[lane], c[lane]].map(f64::from_bits);
            let fused = x.mul_add(y, z);
            nan |= fused.is_nan();
            d[lane] = fused.to_bits();
        }
        if nan {
            for lane in 0..32 {
                d[lane] = finish(f64::from_bits(d[lane]), &[a[lane], b[lane], c[lane]]);
            }
        }
    }

    #[target_feature(enable = "fma")]
    pub fn fused_f64(a: f64, b: f64, c: f64) -> f64 {
        a.mul_add(b, c)
    }
}
