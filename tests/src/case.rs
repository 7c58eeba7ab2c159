//! One case: what is multiplied, where it lies, and what the numbers are.

use crate::place::{Place, Placed};
use gemmite::{DType, Element, Layout, Op, Scalar, Shape, random};

/// The numbers that an operand holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// N(0, 1); for i32 a hundred times that, for i8 32 times.
    Normal,
    /// Whole numbers from -8 to 8: sums are exact in most dtypes, so that one wrong product shows.
    Integers,
    /// N(0, 1) with NaN in the last row and column of A, and in the last of B.
    Nan,
    /// N(0, 1) with infinities of both signs (e4m3: the largest numbers) in A's last column and in
    /// B's last row, and zeros to meet them.
    Infinite,
    /// Numbers whose products reach the end of the dtype's range and go past it; in two of four
    /// rows of A they stay just within. A row of A has one sign and B has none, so that no sum may
    /// be NaN, or infinite in two ways. i32 wraps around, i8 has its whole range.
    Large,
    /// Numbers whose products are subnormal or 0, of bf16 not all 0 when they have been rounded.
    Tiny,
}

/// A product to compute, in any dtype.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// What a failure is reported by.
    pub name: String,
    /// Rows of C.
    pub m: usize,
    /// Columns of C.
    pub n: usize,
    /// Terms of each sum.
    pub k: usize,
    /// What is done with A first.
    pub op_a: Op,
    /// What is done with B first.
    pub op_b: Op,
    /// Where A, B and C lie; A and B as they are before the transpose.
    pub places: [Place; 3],
    /// Factor of the product, rounded to the dtype's scalar (towards 0 for i32).
    pub alpha: f64,
    /// Factor of C's old value, rounded likewise.
    pub beta: Option<f64>,
    /// The numbers.
    pub data: Data,
}

impl Case {
    /// A row-major product of N(0, 1) numbers without alpha and beta.
    pub fn new(name: impl Into<String>, m: usize, n: usize, k: usize) -> Case {
        Case {
            name: name.into(),
            m,
            n,
            k,
            op_a: Op::None,
            op_b: Op::None,
            places: [Place::RowMajor; 3],
            alpha: 1.0,
            beta: None,
            data: Data::Normal,
        }
    }

    /// With these transposes.
    pub fn ops(self, op_a: Op, op_b: Op) -> Case {
        Case { op_a, op_b, ..self }
    }

    /// With A, B and C placed so.
    pub fn places(self, a: Place, b: Place, c: Place) -> Case {
        Case { places: [a, b, c], ..self }
    }

    /// With these factors.
    pub fn factors(self, alpha: f64, beta: Option<f64>) -> Case {
        Case { alpha, beta, ..self }
    }

    /// With these numbers.
    pub fn data(self, data: Data) -> Case {
        Case { data, ..self }
    }

    /// Multiplications that the case takes.
    pub fn products(&self) -> usize {
        self.m * self.n * self.k
    }

    /// Alpha in the scalar of a C of `C`.
    pub fn alpha<C: Element>(&self) -> C::Scalar {
        C::Scalar::from_f64(self.alpha)
    }

    /// Beta in the scalar of a C of `C`.
    pub fn beta<C: Element>(&self) -> Option<C::Scalar> {
        self.beta.map(C::Scalar::from_f64)
    }

    /// True where an engine has to read the old value of a C of `C`.
    pub fn reads_c<C: Element>(&self) -> bool {
        self.beta::<C>().is_some_and(|beta| beta != C::Scalar::ZERO)
    }

    /// The layouts of A and B in their buffers.
    pub fn input_layouts(&self) -> [Layout; 2] {
        let a = stored(Shape::new(self.m, self.k), self.op_a);
        let b = stored(Shape::new(self.k, self.n), self.op_b);
        [(a, self.places[0]), (b, self.places[1])].map(|(shape, place)| place.layout(shape))
    }

    /// A, in its place.
    pub fn a<T: Element>(&self) -> Placed<T> {
        let shape = stored(Shape::new(self.m, self.k), self.op_a);
        let data = self.numbers::<T>(shape, 1);
        Placed::new(shape, self.places[0], |i, j| {
            let (row, depth) = if self.op_a == Op::None { (i, j) } else { (j, i) };
            let number = self.of_one_sign(data[(i, j)], row);
            self.special(number, (row + 1 == self.m, depth + 1 == self.k), row)
        })
    }

    /// B, in its place.
    pub fn b<T: Element>(&self) -> Placed<T> {
        let shape = stored(Shape::new(self.k, self.n), self.op_b);
        let data = self.numbers::<T>(shape, 2);
        Placed::new(shape, self.places[1], |i, j| {
            let (depth, col) = if self.op_b == Op::None { (i, j) } else { (j, i) };
            let number = self.of_one_sign(data[(i, j)], 0);
            self.special(number, (col + 1 == self.n, depth + 1 == self.k), col + 1)
        })
    }

    /// C's old value in its place: poison where no engine may read it.
    pub fn c<C: Element>(&self) -> Placed<C> {
        let shape = Shape::new(self.m, self.n);
        if !self.reads_c::<C>() {
            return Placed::poisoned(shape, self.places[2]);
        }
        let data = self.numbers::<C>(shape, 3);
        Placed::new(shape, self.places[2], |i, j| data[(i, j)])
    }

    fn numbers<T: Element>(&self, shape: Shape, seed: u64) -> gemmite::Matrix<T> {
        let range = match (self.data, T::DTYPE) {
            (Data::Integers, _) => -8..=8,
            (Data::Large, DType::I8) => -128..=127,
            (Data::Large, DType::I32) => i32::MIN..=i32::MAX,
            _ => return self.scaled(random::normal(shape, seed).expect("test operands are small")),
        };
        random::integers(shape, seed, range).expect("test operands are small")
    }

    fn scaled<T: Element>(&self, normal: gemmite::Matrix<T>) -> gemmite::Matrix<T> {
        // The square roots of the largest number and of the least normal one, roughly.
        let exp = match (self.data, T::DTYPE) {
            (Data::Large, DType::F8E4M3) => 4,
            (Data::Large, DType::F16 | DType::F8E5M2) => 7,
            (Data::Large, DType::BF16 | DType::F32) => 63,
            (Data::Large, DType::F64) => 511,
            // Products are not subnormal in f32, but factors are.
            (Data::Tiny, DType::F8E4M3) => -6,
            (Data::Tiny, DType::F16 | DType::F8E5M2) => -9,
            (Data::Tiny, DType::BF16) => -65,
            (Data::Tiny, DType::F32) => -70,
            (Data::Tiny, DType::F64) => -532,
            _ => return normal,
        };
        let factor = 2f64.powi(exp);
        let scaled = |i, j| T::from_f64(normal[(i, j)].to_f64() * factor);
        gemmite::Matrix::from_fn(normal.shape(), scaled).expect("test operands are small")
    }

    /// A large number of a row of A, which is negative where the row is odd and a 32nd in two of
    /// four rows; B's are those of row 0.
    fn of_one_sign<T: Element>(&self, number: T, row: usize) -> T {
        if self.data != Data::Large || T::DTYPE.is_integer() {
            return number;
        }
        let factor = [1.0, -1.0, 1.0 / 32.0, -1.0 / 32.0][row % 4];
        T::from_f64(number.to_f64().abs() * factor)
    }

    /// The number at a place of an input where the case has a special one: at the last row of A or
    /// column of B, at the last step of the sums, and in row or column `at`.
    fn special<T: Element>(&self, number: T, (last, last_step): (bool, bool), at: usize) -> T {
        match self.data {
            Data::Nan if last && last_step && !T::DTYPE.is_integer() => T::from_f64(f64::NAN),
            Data::Infinite if last_step && !T::DTYPE.is_integer() => match at % 4 {
                0 => infinity(false),
                1 => infinity(true),
                2 => T::from_f64(0.0),
                _ => number,
            },
            _ => number,
        }
    }
}

/// Infinity of a sign; the largest number where the dtype has none.
fn infinity<T: Element>(is_negative: bool) -> T {
    match T::DTYPE {
        // Conversions to it stop at the largest number.
        DType::F8E5M2 => bytemuck::cast(if is_negative { 0xfc_u8 } else { 0x7c }),
        _ if is_negative => T::from_f64(f64::NEG_INFINITY),
        _ => T::from_f64(f64::INFINITY),
    }
}

fn stored(shape: Shape, op: Op) -> Shape {
    match op {
        Op::None => shape,
        Op::Transpose => shape.transposed(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run_case_with;
    use gemmite::{F8E4M3, F8E5M2, OutputOf, bf16, f16};

    /// Whether a C that has `number` in its place (row, 0), and is right elsewhere, passes.
    fn passes<T: Element, C: OutputOf<T>>(case: &Case, row: usize, number: f64) -> bool {
        let done = run_case_with::<T, C>(case, |a, b, c| {
            let rows = |i: usize| (0..case.k).map(move |p| (i, p));
            for i in 0..case.m {
                for j in 0..case.n {
                    let term = |(i, p)| {
                        let a: f64 = a.buffer[a.layout.index(i, p)].to_f64();
                        a * b.buffer[b.layout.index(p, j)].to_f64()
                    };
                    let sum = case.alpha * rows(i).map(term).sum::<f64>();
                    let old = c.layout.index(i, j);
                    let old = case.beta.map_or(0.0, |beta| beta * c.buffer[old].to_f64());
                    let right = if (i, j) == (row, 0) { number } else { sum + old };
                    let at = c.layout.index(i, j);
                    c.buffer[at] = C::from_f64(right);
                }
            }
            Ok(())
        });
        done.is_ok()
    }

    fn large_numbers_can_fail<T: Element, C: OutputOf<T>>() {
        let case = Case::new("large", 8, 3, 35).data(Data::Large);
        for case in [case.clone(), case.factors(-2.0, Some(3.0))] {
            let mut infinite = 0;
            for row in 0..8 {
                let what = format!("{} to {}: {case:?}, row {row}", T::DTYPE, C::DTYPE);
                let sign = if row % 2 == 0 { case.alpha } else { -case.alpha };
                for wrong in [f64::NAN, 0.0, -sign * f64::INFINITY] {
                    assert!(!passes::<T, C>(&case, row, wrong), "{what}: {wrong}");
                }
                infinite += usize::from(passes::<T, C>(&case, row, sign * f64::INFINITY));
            }
            // Rows of a 32nd stay within the range.
            let of_eight_bits = [DType::F8E4M3, DType::F8E5M2].contains(&T::DTYPE);
            assert!(of_eight_bits || (3..=5).contains(&infinite), "{infinite}: {case:?}");
        }
    }

    #[test]
    fn large_numbers_leave_one_result() {
        large_numbers_can_fail::<f16, f16>();
        large_numbers_can_fail::<bf16, bf16>();
        large_numbers_can_fail::<bf16, f32>();
        large_numbers_can_fail::<f32, f32>();
        large_numbers_can_fail::<f64, f64>();
        large_numbers_can_fail::<F8E4M3, bf16>();
        large_numbers_can_fail::<F8E5M2, f16>();
    }

    #[test]
    fn tiny_numbers_are_not_all_zero() {
        fn zeros_fail<T: Element, C: OutputOf<T>>() {
            let case = Case::new("tiny", 8, 3, 35).data(Data::Tiny);
            let wrong = (0..8).filter(|&row| !passes::<T, C>(&case, row, 0.0)).count();
            assert!(wrong > 4, "{} to {}: {wrong}", T::DTYPE, C::DTYPE);
        }
        zeros_fail::<f16, f16>();
        zeros_fail::<bf16, bf16>();
        zeros_fail::<bf16, f32>();
        zeros_fail::<f32, f32>();
        zeros_fail::<f64, f64>();
        zeros_fail::<F8E4M3, bf16>();
    }
}
