//! The two inner loops of a step over 8 columns, plain and with AVX2.

use super::planes::{BLOCK, Row};

/// A row of A for one step: values and exponents.
#[derive(Clone, Copy)]
pub(super) struct Left<'a> {
    pub value: &'a [f32],
    pub exponent: &'a [i16],
}

/// Terms that are added in 32 bits: each is less than 2^27.
const GROUP: usize = 8;

/// A way to run the loops.
pub(super) trait Lanes {
    /// The largest exponents of the products, and of `start`.
    fn largest(left: Left<'_>, right: &[Row], start: [i16; BLOCK]) -> [i16; BLOCK];

    /// The sums of the products, each scaled and cut to an integer; a scaled product is less than
    /// 2^27 in magnitude.
    fn sums(left: Left<'_>, right: &[Row], scale: [f32; BLOCK]) -> [f64; BLOCK];
}

/// For any machine.
pub(super) struct Plain;

impl Lanes for Plain {
    #[inline(always)]
    fn largest(left: Left<'_>, right: &[Row], start: [i16; BLOCK]) -> [i16; BLOCK] {
        let mut largest = start;
        for (&e, row) in left.exponent.iter().zip(right) {
            for (largest, &other) in largest.iter_mut().zip(&row.exponent) {
                *largest = (*largest).max(e + other);
            }
        }
        largest
    }

    #[inline(always)]
    fn sums(left: Left<'_>, right: &[Row], scale: [f32; BLOCK]) -> [f64; BLOCK] {
        let mut total = [0f64; BLOCK];
        for (values, rows) in left.value.chunks(GROUP).zip(right.chunks(GROUP)) {
            let mut sum = [0i32; BLOCK];
            for (&a, row) in values.iter().zip(rows) {
                for j in 0..BLOCK {
                    sum[j] += (a * row.value[j] * scale[j]) as i32;
                }
            }
            for j in 0..BLOCK {
                total[j] += f64::from(sum[j]);
            }
        }
        total
    }
}

/// For x86-64 with AVX2: `wgmma.m64n256k16` as a whole takes half the time of the plain way. To be
/// named only where the processor has it.
#[cfg(target_arch = "x86_64")]
pub(super) struct Avx2;

#[cfg(target_arch = "x86_64")]
impl Lanes for Avx2 {
    #[inline(always)]
    fn largest(left: Left<'_>, right: &[Row], start: [i16; BLOCK]) -> [i16; BLOCK] {
        // SAFETY: whoever names the type has asked the processor.
        unsafe { avx2::largest(left, right, start) }
    }

    #[inline(always)]
    fn sums(left: Left<'_>, right: &[Row], scale: [f32; BLOCK]) -> [f64; BLOCK] {
        // SAFETY: whoever names the type has asked the processor.
        unsafe { avx2::sums(left, right, scale) }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::*;

    use super::{BLOCK, GROUP, Left, Row};

    #[inline]
    #[target_feature(enable = "avx2")]
    fn load16(x: &[i16; BLOCK]) -> __m128i {
        // SAFETY: 16 bytes are read, at any alignment.
        unsafe { _mm_loadu_si128(x.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn load32(x: &[f32; BLOCK]) -> __m256 {
        // SAFETY: 32 bytes are read, at any alignment.
        unsafe { _mm256_loadu_ps(x.as_ptr()) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub fn largest(left: Left<'_>, right: &[Row], start: [i16; BLOCK]) -> [i16; BLOCK] {
        let mut largest = load16(&start);
        for (&e, row) in left.exponent.iter().zip(right) {
            let sum = _mm_add_epi16(_mm_set1_epi16(e), load16(&row.exponent));
            largest = _mm_max_epi16(largest, sum);
        }
        let mut result = start;
        // SAFETY: 16 bytes are written, at any alignment.
        unsafe { _mm_storeu_si128(result.as_mut_ptr().cast(), largest) };
        result
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub fn sums(left: Left<'_>, right: &[Row], scale: [f32; BLOCK]) -> [f64; BLOCK] {
        let scale = load32(&scale);
        let (mut low, mut high) = (_mm256_setzero_pd(), _mm256_setzero_pd());
        for (values, rows) in left.value.chunks(GROUP).zip(right.chunks(GROUP)) {
            let mut sum = _mm256_setzero_si256();
            for (&a, row) in values.iter().zip(rows) {
                let product = _mm256_mul_ps(_mm256_set1_ps(a), load32(&row.value));
                let cut = _mm256_cvttps_epi32(_mm256_mul_ps(product, scale));
                sum = _mm256_add_epi32(sum, cut);
            }
            low = _mm256_add_pd(low, _mm256_cvtepi32_pd(_mm256_castsi256_si128(sum)));
            high = _mm256_add_pd(high, _mm256_cvtepi32_pd(_mm256_extracti128_si256(sum, 1)));
        }
        let mut total = [0f64; BLOCK];
        // SAFETY: 32 bytes are written to each half, at any alignment.
        unsafe {
            _mm256_storeu_pd(total.as_mut_ptr(), low);
            _mm256_storeu_pd(total[4..].as_mut_ptr(), high);
        }
        total
    }
}
