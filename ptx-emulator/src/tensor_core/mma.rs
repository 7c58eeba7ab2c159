//! `mma.sync` on the registers of a warp (PTX ISA 9.7.14.5.14).

use super::shape::{MMA_SHAPES, MmaShape};
use super::{Accumulator, Arithmetic, Element, Product, Shape, Unit, layout};

/// An `mma.sync` instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mma {
    /// The sizes.
    pub shape: Shape,
    /// The type of A.
    pub a: Element,
    /// The type of B.
    pub b: Element,
    /// The type of C.
    pub c: Accumulator,
    /// The type of D.
    pub d: Accumulator,
    /// `.satfinite`.
    pub satfinite: bool,
}

/// How many registers each operand has: of 64 bits in f64, else of 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the operands")]
pub struct Registers {
    pub a: usize,
    pub b: usize,
    pub c: usize,
    pub d: usize,
}

/// Registers of a warp: a 32-bit register of 32 lanes each.
type Warp = [[u32; 32]];

impl Mma {
    /// The row of [`MMA_SHAPES`] that has these sizes and types, if any.
    pub fn table_row(&self) -> Option<&'static MmaShape> {
        MMA_SHAPES.iter().find(|row| {
            row.shape == self.shape
                && self.c == self.d
                && row.elements.contains(&self.a)
                && row.elements.contains(&self.b)
                && row.accumulators.contains(&self.d)
        })
    }

    /// The numbers of registers.
    pub fn registers(&self) -> Registers {
        let Shape { m, n, k } = self.shape;
        let of = |elements: usize, bits: usize| {
            let word = if bits == 64 { 64 } else { 32 };
            elements * bits / word / 32
        };
        Registers {
            a: of(m * k, self.a.bits()),
            b: of(k * n, self.b.bits()),
            c: of(m * n, self.c.bits()),
            d: of(m * n, self.d.bits()),
        }
    }

    /// The product that an architecture computes.
    pub fn product(&self, arch: (u32, u32)) -> Product {
        Product {
            shape: self.shape,
            a: self.a,
            b: self.b,
            c: self.c,
            d: self.d,
            arithmetic: Arithmetic::of(arch, Unit::Mma, self.a),
            satfinite: self.satfinite,
            negate_a: false,
            negate_b: false,
        }
    }

    /// Executes it for a warp; f64 has [`Mma::execute_f64`].
    ///
    /// # Panics
    ///
    /// If the operands have not the numbers of registers that [`Mma::registers`] says.
    pub fn execute(&self, product: &Product, a: &Warp, b: &Warp, c: &Warp, d: &mut Warp) {
        let Shape { m, n, k } = self.shape;
        let mut matrix_a = [0; 16 * 32];
        let mut matrix_b = [0; 32 * 8];
        let mut matrix_c = [0; 16 * 8];
        let mut matrix_d = [0; 16 * 8];
        let (bits_a, bits_b) = (self.a.bits(), self.b.bits());
        gather_a(a, bits_a, m, k, &mut matrix_a[..m * k]);
        let place_b = |lane, i| {
            let (row, column) = layout::b(bits_b, lane, i);
            row * n + column
        };
        gather(b, bits_b, &mut matrix_b[..k * n], place_b);
        let place = |lane, i| {
            let (row, column) = layout::c(lane, i);
            row * n + column
        };
        gather(c, self.c.bits(), &mut matrix_c[..m * n], place);
        let (a, b) = (&matrix_a[..m * k], &matrix_b[..k * n]);
        product.run(a, b, Some(&matrix_c[..m * n]), &mut matrix_d[..m * n]);
        scatter(&matrix_d[..m * n], self.d.bits(), d, place);
    }

    /// Executes it in f64 for a warp, in 64-bit registers.
    ///
    /// # Panics
    ///
    /// If the operands have not the numbers of registers that [`Mma::registers`] says.
    pub fn execute_f64(
        &self,
        product: &Product,
        a: &[[u64; 32]],
        b: &[[u64; 32]],
        c: &[[u64; 32]],
        d: &mut [[u64; 32]],
    ) {
        let Shape { m, n, k } = self.shape;
        let (mut matrix_a, mut matrix_b) = ([0; 16 * 16], [0; 16 * 8]);
        let (mut matrix_c, mut matrix_d) = ([0; 16 * 8], [0; 16 * 8]);
        for lane in 0..32 {
            for (i, register) in a.iter().enumerate() {
                let (row, column) = layout::a(64, m, lane, i);
                matrix_a[row * k + column] = register[lane];
            }
            for (i, register) in b.iter().enumerate() {
                let (row, column) = layout::b(64, lane, i);
                matrix_b[row * n + column] = register[lane];
            }
            for (i, register) in c.iter().enumerate() {
                let (row, column) = layout::c(lane, i);
                matrix_c[row * n + column] = register[lane];
            }
        }
        let (a, b) = (&matrix_a[..m * k], &matrix_b[..k * n]);
        product.run_f64(a, b, Some(&matrix_c[..m * n]), &mut matrix_d[..m * n]);
        for lane in 0..32 {
            for (i, register) in d.iter_mut().enumerate() {
                let (row, column) = layout::c(lane, i);
                register[lane] = matrix_d[row * n + column];
            }
        }
    }
}

/// Takes A, row-major m x k, out of the registers of a warp.
#[inline]
pub(super) fn gather_a(registers: &Warp, bits: usize, m: usize, k: usize, matrix: &mut [u32]) {
    let place = |bits: usize, m: usize| {
        move |lane, i| {
            let (row, column) = layout::a(bits, m, lane, i);
            row * k + column
        }
    };
    match (bits, m) {
        (8, 8) => gather_of::<8>(registers, matrix, place(8, 8)),
        (8, _) => gather_of::<8>(registers, matrix, place(8, 16)),
        (16, _) => gather_of::<16>(registers, matrix, place(16, 16)),
        _ => gather_of::<32>(registers, matrix, place(32, 16)),
    }
}

/// Takes elements of `bits` out of registers to their places in a matrix.
#[inline(always)]
pub(super) fn gather(
    registers: &Warp,
    bits: usize,
    matrix: &mut [u32],
    place: impl Fn(usize, usize) -> usize,
) {
    // Constants, so that the places are computed ahead.
    match bits {
        8 => gather_of::<8>(registers, matrix, place),
        16 => gather_of::<16>(registers, matrix, place),
        _ => gather_of::<32>(registers, matrix, place),
    }
}

#[inline(always)]
fn gather_of<const BITS: usize>(
    registers: &Warp,
    matrix: &mut [u32],
    place: impl Fn(usize, usize) -> usize,
) {
    let per_register = 32 / BITS;
    assert_eq!(registers.len() * per_register * 32, matrix.len(), "registers of the operand");
    for (number, register) in registers.iter().enumerate() {
        for (lane, &word) in register.iter().enumerate() {
            for i in 0..per_register {
                let element = word >> (i * BITS) & (u32::MAX >> (32 - BITS));
                matrix[place(lane, number * per_register + i)] = element;
            }
        }
    }
}

/// The inverse of [`gather`] for C and D.
#[inline(always)]
pub(super) fn scatter(
    matrix: &[u32],
    bits: usize,
    registers: &mut Warp,
    place: impl Fn(usize, usize) -> usize,
) {
    let per_register = 32 / bits;
    assert_eq!(registers.len() * per_register * 32, matrix.len(), "registers of the operand");
    for (number, register) in registers.iter_mut().enumerate() {
        for (lane, word) in register.iter_mut().enumerate() {
            *word = if bits == 32 {
                matrix[place(lane, number)]
            } else {
                matrix[place(lane, 2 * number)] | matrix[place(lane, 2 * number + 1)] << 16
            };
        }
    }
}
