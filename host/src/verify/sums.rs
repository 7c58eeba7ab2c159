//! The reference's inner loops: sixteen columns of one row at a time, in arithmetic wider than the
//! tested one.
//!
//! Each loop is written once and compiled twice on x86-64: for the baseline, and for AVX2 with
//! fused multiply-add, chosen at run time. None of them reorders a sum between runs, so a
//! verification gives the same answer every time.

use super::aligned::aligned_body;
use gemm_spec::DType;

/// Columns of B that are summed together.
pub(super) const PANEL: usize = 16;

/// The sums of one row of A with the columns of a panel.
#[derive(Clone, Copy)]
pub(super) struct Sums {
    /// Sum of a * b, rounded to f64.
    pub hi: [f64; PANEL],
    /// What the sum has beyond `hi`; 0 where it was not kept.
    pub lo: [f64; PANEL],
    /// Sum of |a| * |b|.
    pub abs: [f64; PANEL],
    /// How far tensor cores that keep fewer bits may be from the sum; see `aligned`.
    pub cut: [f64; PANEL],
}

/// How a row of floating-point sums is computed. a: (k,), b: (k, PANEL).
pub(super) type SumRow = fn(&[f64], &[[f64; PANEL]]) -> Sums;

/// The sums of elements of a dtype.
pub(super) fn row_of(dtype: DType) -> SumRow {
    match dtype {
        DType::I8 => wrapped_row,
        DType::F8E4M3 => e4m3_row,
        DType::F8E5M2 => e5m2_row,
        DType::F64 => compensated_row,
        _ => plain_row,
    }
}

/// Compiles `$body` for the baseline and for AVX2 + FMA, and calls the better one.
macro_rules! multiversion {
    ($(#[$doc:meta])* fn $name:ident = $body:ident($in:ty) -> $out:ty) => {
        $(#[$doc])*
        pub(super) fn $name(a: &[$in], b: &[[$in; PANEL]]) -> $out {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma")]
                fn wide(a: &[$in], b: &[[$in; PANEL]]) -> $out {
                    $body(a, b)
                }
                if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                    // SAFETY: the CPU has just been asked for both features.
                    return unsafe { wide(a, b) };
                }
            }
            $body(a, b)
        }
    };
}

multiversion! {
    /// Wrapping sums of i32. a: (k,), b: (k, PANEL).
    fn wrapping_row = wrapping_body(i32) -> [i32; PANEL]
}

multiversion! {
    /// Sums in f64, for operands of at most 26 significant bits, whose products f64 holds exactly.
    fn plain_row = plain_body(f64) -> Sums
}

multiversion! {
    /// Sums in f64 with their rounding errors summed beside them: Dot2 of Ogita, Rump and Oishi,
    /// "Accurate sum and dot product", SIAM J. Sci. Comput. 26 (2005). As exact as arithmetic of
    /// twice the precision.
    fn compensated_row = compensated_body(f64) -> Sums
}

multiversion! {
    /// Sums of i8 as f64: those that wrapping i32 gives. The exact ones are whole numbers that f64
    /// holds.
    fn wrapped_row = wrapped_body(f64) -> Sums
}

multiversion! {
    /// Sums in f64, with what tensor cores may lose of sums of e4m3.
    fn e4m3_row = e4m3_body(f64) -> Sums
}

multiversion! {
    /// The same of e5m2.
    fn e5m2_row = e5m2_body(f64) -> Sums
}

#[inline(always)]
fn e4m3_body(a: &[f64], b: &[[f64; PANEL]]) -> Sums {
    aligned_body::<-6, -9>(a, b)
}

#[inline(always)]
fn e5m2_body(a: &[f64], b: &[[f64; PANEL]]) -> Sums {
    aligned_body::<-14, -16>(a, b)
}

#[inline(always)]
fn wrapped_body(a: &[f64], b: &[[f64; PANEL]]) -> Sums {
    let mut sums = plain_body(a, b);
    for lane in 0..PANEL {
        sums.hi[lane] = f64::from(sums.hi[lane] as i64 as i32);
        sums.abs[lane] = sums.hi[lane].abs();
    }
    sums
}

#[inline(always)]
fn wrapping_body(a: &[i32], b: &[[i32; PANEL]]) -> [i32; PANEL] {
    let mut sum = [0i32; PANEL];
    for (&a, b) in a.iter().zip(b) {
        for (sum, &b) in sum.iter_mut().zip(b) {
            *sum = sum.wrapping_add(a.wrapping_mul(b));
        }
    }
    sum
}

#[inline(always)]
fn plain_body(a: &[f64], b: &[[f64; PANEL]]) -> Sums {
    let (mut hi, mut abs) = ([0.0; PANEL], [0.0; PANEL]);
    for (&a, b) in a.iter().zip(b) {
        for lane in 0..PANEL {
            let product: f64 = a * b[lane];
            hi[lane] += product;
            abs[lane] += product.abs();
        }
    }
    Sums { hi, lo: [0.0; PANEL], abs, cut: [0.0; PANEL] }
}

#[inline(always)]
fn compensated_body(a: &[f64], b: &[[f64; PANEL]]) -> Sums {
    let (mut hi, mut lo, mut abs) = ([0.0; PANEL], [0.0; PANEL], [0.0; PANEL]);
    for (&a, b) in a.iter().zip(b) {
        for lane in 0..PANEL {
            let (product, error) = two_product(a, b[lane]);
            let (sum, carry) = two_sum(hi[lane], product);
            hi[lane] = sum;
            lo[lane] += carry + error;
            abs[lane] += product.abs();
        }
    }
    Sums { hi, lo, abs, cut: [0.0; PANEL] }
}

/// a * b as a rounded product and the exact rest (exact unless it underflows or overflows).
#[inline(always)]
pub(super) fn two_product(a: f64, b: f64) -> (f64, f64) {
    let product = a * b;
    (product, a.mul_add(b, -product))
}

/// a + b as a rounded sum and the exact rest (Knuth; exact unless it overflows).
#[inline(always)]
pub(super) fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let from_b = sum - a;
    let from_a = sum - from_b;
    (sum, (a - from_a) + (b - from_b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_agree_and_sum_in_every_lane() {
        let a: Vec<f64> = (0..33).map(|k| (k as f64 - 16.0) / 3.0).collect();
        let b: Vec<[f64; PANEL]> =
            (0..33).map(|k| std::array::from_fn(|j| (k * 7 + j * 3) as f64 / 11.0 - 4.0)).collect();
        for (row, body) in [
            (plain_row as fn(&[f64], &[[f64; PANEL]]) -> Sums, plain_body as fn(&_, &_) -> Sums),
            (compensated_row, compensated_body),
            (e4m3_row, e4m3_body),
            (e5m2_row, e5m2_body),
        ] {
            let (fast, base) = (row(&a, &b), body(&a, &b));
            assert_eq!((fast.hi, fast.lo, fast.abs), (base.hi, base.lo, base.abs));
            assert_eq!(fast.cut, base.cut);
            for lane in 0..PANEL {
                let sum: f64 = a.iter().zip(&b).map(|(a, b)| a * b[lane]).sum();
                assert!((fast.hi[lane] - sum).abs() < 1e-12 * fast.abs[lane]);
            }
        }
    }

    #[test]
    fn wrapping_sums_wrap() {
        let b = [[i32::MAX; PANEL]; 3];
        assert_eq!(wrapping_row(&[2, 1, 0], &b), [i32::MAX.wrapping_mul(3); PANEL]);
    }

    #[test]
    fn compensation_keeps_what_f64_loses() {
        // 1e16 + 1 - 1e16: a plain f64 sum gives 0.
        let b = [[1e16; PANEL], [1.0; PANEL], [-1e16; PANEL]];
        let sums = compensated_row(&[1.0, 1.0, 1.0], &b);
        assert_eq!(sums.hi[0] + sums.lo[0], 1.0);
        assert_eq!(plain_row(&[1.0, 1.0, 1.0], &b).hi[0], 0.0);
    }
}
