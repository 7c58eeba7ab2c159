//! D = A * B + C of plain matrices, on which `mma` and `wgmma` stand.

use crate::numeric::{NAN_F64, Rounding, add_f16, add_f32, widen_f16};

use super::dot::{block, pattern};
use super::lanes::{Lanes, Left, Plain};
use super::planes::{BLOCK, Decoder, Row, SPECIAL, ZERO};
use super::{Accumulator, Arithmetic, Element, Shape};

/// A product of matrices; matrices are row-major patterns, one element a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Product {
    /// The sizes; n is a multiple of 8.
    pub shape: Shape,
    /// The type of A.
    pub a: Element,
    /// The type of B.
    pub b: Element,
    /// The type of C.
    pub c: Accumulator,
    /// The type of D.
    pub d: Accumulator,
    /// How float products are added.
    pub arithmetic: Arithmetic,
    /// `.satfinite` of integers: the sum is clamped rather than wrapped.
    pub satfinite: bool,
    /// A is negated (`imm-scale-a` of `wgmma`).
    pub negate_a: bool,
    /// B is negated.
    pub negate_b: bool,
}

impl Product {
    /// Computes D from m x k `a`, k x n `b` and m x n `c`; without `c` it is 0.
    ///
    /// # Panics
    ///
    /// If a slice has not the length that the shape says, or the type is f64.
    pub fn run(&self, a: &[u32], b: &[u32], c: Option<&[u32]>, d: &mut [u32]) {
        let Shape { m, n, k } = self.shape;
        assert!(a.len() == m * k && b.len() == k * n && d.len() == m * n);
        assert!(c.is_none_or(|c| c.len() == m * n) && n.is_multiple_of(BLOCK));
        if self.a.is_integer() {
            self.integers(a, b, c, d);
            return;
        }
        if self.arithmetic.widened {
            self.run_widened(a, b, c, d);
            return;
        }
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            let (values, exponents) = Decoder::new(self.a, self.negate_a).decode(a);
            let rows = Decoder::new(self.b, self.negate_b).decode_blocks(b, n);
            // SAFETY: the processor has the feature that the function asks for.
            unsafe { self.floats_avx2(&values, &exponents, &rows, c, d) };
            return;
        }
        self.run_plain(a, b, c, d);
    }

    /// See [`Arithmetic::widened`]: sorted along k, the two products are two steps.
    fn run_widened(&self, a: &[u32], b: &[u32], c: Option<&[u32]>, d: &mut [u32]) {
        let Shape { n, k, .. } = self.shape;
        let low = (0..k).filter(|k| k % 4 < 2);
        let order: Vec<usize> = low.chain((0..k).filter(|k| k % 4 >= 2)).collect();
        let a: Vec<u32> = a.chunks(k).flat_map(|row| order.iter().map(|&i| row[i])).collect();
        let b: Vec<u32> = order.iter().flat_map(|&i| &b[i * n..][..n]).copied().collect();
        let arithmetic = Arithmetic { widened: false, step: k / 2, ..self.arithmetic };
        Self { arithmetic, ..*self }.run(&a, &b, None, d);
        let Some(c) = c else { return };
        for (d, &c) in d.iter_mut().zip(c) {
            *d = match self.d {
                Accumulator::F16 => add_f16(*d as u16, c as u16).into(),
                _ => add_f32(*d, c, Rounding::NearestEven),
            };
        }
    }

    /// Float products on any machine.
    pub(super) fn run_plain(&self, a: &[u32], b: &[u32], c: Option<&[u32]>, d: &mut [u32]) {
        let (values, exponents) = Decoder::new(self.a, self.negate_a).decode(a);
        let rows = Decoder::new(self.b, self.negate_b).decode_blocks(b, self.shape.n);
        self.floats::<Plain>(&values, &exponents, &rows, c, d);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn floats_avx2(&self, a: &[f32], e: &[i16], b: &[Row], c: Option<&[u32]>, d: &mut [u32]) {
        self.floats::<super::lanes::Avx2>(a, e, b, c, d);
    }

    #[inline(always)]
    fn floats<L: Lanes>(&self, a: &[f32], e: &[i16], b: &[Row], c: Option<&[u32]>, d: &mut [u32]) {
        let Shape { n, k, .. } = self.shape;
        let min_exponent_c = if self.c == Accumulator::F16 { -14 } else { -126 };
        let min_exponent_d = if self.d == Accumulator::F16 { -14 } else { -126 };
        let step = self.arithmetic.step.min(k);
        let rows_of_a: Vec<Terms> = e.chunks(k).map(|e| Terms::of(e.iter())).collect();
        for (column, rows) in b.chunks(k).enumerate() {
            let of_b = Terms::of(rows.iter().flat_map(|row| &row.exponent));
            for (row, of_a) in rows_of_a.iter().enumerate() {
                let start = row * n + column * BLOCK;
                // Tiles reach past matrices' ends, where there are zeros.
                let add_zeros = of_a.make_zeros(of_b);
                let is_zero = |&bits: &u32| self.accumulator_value(bits) == 0.0;
                if add_zeros && c.is_none_or(|c| c[start..start + BLOCK].iter().all(is_zero)) {
                    d[start..start + BLOCK].fill(0);
                    continue;
                }
                let mut sum = [0f32; BLOCK];
                if let Some(c) = c {
                    for (sum, &bits) in sum.iter_mut().zip(&c[start..start + BLOCK]) {
                        *sum = self.accumulator_value(bits);
                    }
                }
                let mut min_exponent = min_exponent_c;
                for first in (0..k).step_by(step) {
                    let range = row * k + first..row * k + (first + step).min(k);
                    let left = Left { value: &a[range.clone()], exponent: &e[range] };
                    block::<L>(
                        self.arithmetic,
                        self.d,
                        left,
                        &rows[first..],
                        &mut sum,
                        min_exponent,
                    );
                    min_exponent = min_exponent_d;
                }
                for (d, sum) in d[start..start + BLOCK].iter_mut().zip(sum) {
                    *d = pattern(sum, self.d);
                }
            }
        }
    }

    #[inline(always)]
    fn accumulator_value(&self, bits: u32) -> f32 {
        match self.c {
            Accumulator::F16 => widen_f16(bits as u16),
            _ => f32::from_bits(bits),
        }
    }

    fn integers(&self, a: &[u32], b: &[u32], c: Option<&[u32]>, d: &mut [u32]) {
        let Shape { m, n, k } = self.shape;
        let value = |bits: &u32, element: Element| {
            if element == Element::S8 { i32::from(*bits as i8) } else { i32::from(*bits as u8) }
        };
        let a: Vec<i32> = a.iter().map(|bits| value(bits, self.a)).collect();
        let b: Vec<i32> = b.iter().map(|bits| value(bits, self.b)).collect();
        for row in 0..m {
            let out = &mut d[row * n..][..n];
            out.fill(0);
            // The products of one row are far from overflow: 2^16 each.
            for (&x, b) in a[row * k..][..k].iter().zip(b.chunks(n)) {
                for (d, &y) in out.iter_mut().zip(b) {
                    *d = d.wrapping_add((x * y) as u32);
                }
            }
            let Some(c) = c else { continue };
            for (d, &c) in out.iter_mut().zip(&c[row * n..]) {
                let (sum, c) = (*d as i32, c as i32);
                *d =
                    if self.satfinite { sum.saturating_add(c) } else { sum.wrapping_add(c) } as u32;
            }
        }
    }

    /// The product of f64: a chain of fused multiply-adds along ascending k.
    ///
    /// # Panics
    ///
    /// If a slice has not the length that the shape says.
    pub fn run_f64(&self, a: &[u64], b: &[u64], c: Option<&[u64]>, d: &mut [u64]) {
        let Shape { m, n, k } = self.shape;
        assert!(a.len() == m * k && b.len() == k * n && d.len() == m * n);
        match c {
            Some(c) => d.copy_from_slice(c),
            None => d.fill(0),
        }
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("fma") {
            // SAFETY: the processor has the feature that the function asks for.
            unsafe { doubles_fma(self.shape, a, b, d) };
            return;
        }
        doubles(self.shape, a, b, d);
    }
}

/// What the factors of one side of a block are.
#[derive(Clone, Copy)]
struct Terms {
    all_zero: bool,
    all_finite: bool,
}

impl Terms {
    #[inline(always)]
    fn of<'a>(mut exponents: impl Iterator<Item = &'a i16> + Clone) -> Terms {
        let all_finite = exponents.clone().all(|&e| e != SPECIAL);
        Terms { all_zero: exponents.all(|&e| e == ZERO), all_finite }
    }

    /// Whether all products with the other side's are zeros.
    #[inline(always)]
    fn make_zeros(self, other: Terms) -> bool {
        self.all_zero && other.all_finite || other.all_zero && self.all_finite
    }
}

/// The same code with the processor's own fused multiply-add; without it each is a call.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "fma")]
fn doubles_fma(shape: Shape, a: &[u64], b: &[u64], d: &mut [u64]) {
    doubles(shape, a, b, d);
}

#[inline(always)]
fn doubles(Shape { n, k, .. }: Shape, a: &[u64], b: &[u64], d: &mut [u64]) {
    for (a, d) in a.chunks(k).zip(d.chunks_mut(n)) {
        for (&x, b) in a.iter().zip(b.chunks(n)) {
            for (d, &y) in d.iter_mut().zip(b) {
                let [x, y, z] = [x, y, *d].map(f64::from_bits);
                *d = x.mul_add(y, z).to_bits();
            }
        }
        for d in d {
            if f64::from_bits(*d).is_nan() {
                *d = NAN_F64;
            }
        }
    }
}
