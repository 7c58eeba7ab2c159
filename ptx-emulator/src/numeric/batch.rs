//! `f32` operations on a whole warp, to nearest, in loops that the compiler vectorises.

use super::{NAN_F32, Rounding};

/// A register of 32 lanes.
pub type Warp32 = [u32; 32];

#[inline]
fn each(a: &Warp32, b: &Warp32, d: &mut Warp32, f: impl Fn(f32, f32) -> f32) {
    for ((d, &a), &b) in d.iter_mut().zip(a).zip(b) {
        let x = f(f32::from_bits(a), f32::from_bits(b));
        *d = if x.is_nan() { NAN_F32 } else { x.to_bits() };
    }
}

/// `add.rn.f32`.
#[inline]
pub fn add_f32(a: &Warp32, b: &Warp32, d: &mut Warp32) {
    each(a, b, d, |x, y| x + y);
}

/// `sub.rn.f32`.
#[inline]
pub fn sub_f32(a: &Warp32, b: &Warp32, d: &mut Warp32) {
    each(a, b, d, |x, y| x - y);
}

/// `mul.rn.f32`.
#[inline]
pub fn mul_f32(a: &Warp32, b: &Warp32, d: &mut Warp32) {
    each(a, b, d, |x, y| x * y);
}

/// `fma.rn.f32`.
#[inline]
pub fn fma_f32(a: &Warp32, b: &Warp32, c: &Warp32, d: &mut Warp32) {
    fma_f32_portable(a, b, c, d);
}

/// `fma.rn.f32` on any machine: see [`super::fma_f32`].
#[inline]
pub fn fma_f32_portable(a: &Warp32, b: &Warp32, c: &Warp32, d: &mut Warp32) {
    for lane in 0..32 {
        d[lane] = super::fma_f32(a[lane], b[lane], c[lane], Rounding::NearestEven);
    }
}
