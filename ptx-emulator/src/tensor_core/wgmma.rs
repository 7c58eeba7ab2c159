//! `wgmma.mma_async` on the accumulators of a warpgroup (PTX ISA 9.7.15.5).
//!
//! Where the operands lie in shared memory is the caller's business: here they are matrices.

use super::mma::{gather, gather_a, scatter};
use super::{Accumulator, Arithmetic, Element, Product, Shape, Unit, layout};

/// A `wgmma.mma_async` instruction: m is 64, k 32 bytes of A.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wgmma {
    /// Columns: a multiple of 8 up to 256.
    pub n: usize,
    /// The type of A.
    pub a: Element,
    /// The type of B.
    pub b: Element,
    /// The type of the accumulators.
    pub d: Accumulator,
    /// `.satfinite` of integers.
    pub satfinite: bool,
    /// `imm-scale-a` is -1.
    pub negate_a: bool,
    /// `imm-scale-b` is -1.
    pub negate_b: bool,
}

impl Wgmma {
    /// The sizes.
    pub fn shape(&self) -> Shape {
        Shape::new(64, self.n, 256 / self.a.bits())
    }

    /// Whether PTX has it: of integers, n beyond 32 is a multiple of 16.
    pub fn is_valid(&self) -> bool {
        use {Accumulator as D, Element as E};
        let n = self.n.is_multiple_of(8) && (8..=256).contains(&self.n);
        n && match (self.a, self.b) {
            (E::F16, E::F16) | (E::E4m3 | E::E5m2, E::E4m3 | E::E5m2) => {
                matches!(self.d, D::F16 | D::F32)
            }
            (E::Bf16, E::Bf16) | (E::Tf32, E::Tf32) => self.d == D::F32,
            (E::S8 | E::U8, E::S8 | E::U8) => {
                let n = self.n <= 24 || self.n.is_multiple_of(16);
                n && self.d == D::S32 && !self.negate_a && !self.negate_b
            }
            _ => false,
        }
    }

    /// 32-bit accumulator registers of a thread.
    pub fn accumulator_registers(&self) -> usize {
        64 * self.n / 128 * self.d.bits() / 32
    }

    /// A's 32-bit registers of a thread, if it is in registers: 4 for every type.
    pub const A_REGISTERS: usize = 4;

    /// A, row-major 64 x k, out of the registers of the four warps.
    pub fn a_from_registers(&self, warps: [&[[u32; 32]]; 4]) -> Vec<u32> {
        let (bits, k) = (self.a.bits(), self.shape().k);
        let mut matrix = vec![0; 64 * k];
        for (warp, rows) in warps.into_iter().zip(matrix.chunks_mut(16 * k)) {
            gather_a(warp, bits, 16, k, rows);
        }
        matrix
    }

    /// D = A * B + D, or A * B, if not `accumulate`; `a` is row-major 64 x k, `b` row-major k x n,
    /// an element a word; `accumulators` are those of the four warps.
    ///
    /// # Panics
    ///
    /// If a slice has not the length that the instruction says.
    pub fn execute(
        &self,
        arch: (u32, u32),
        a: &[u32],
        b: &[u32],
        accumulate: bool,
        accumulators: [&mut [[u32; 32]]; 4],
    ) {
        let shape = self.shape();
        let product = Product {
            shape,
            a: self.a,
            b: self.b,
            c: self.d,
            d: self.d,
            arithmetic: Arithmetic::of(arch, Unit::Wgmma, self.a),
            satfinite: self.satfinite,
            negate_a: self.negate_a,
            negate_b: self.negate_b,
        };
        let place = |lane, i| {
            let (row, column) = layout::wgmma_accumulator(lane, i);
            row * shape.n + column
        };
        let (bits, elements) = (self.d.bits(), 16 * shape.n);
        let mut c = vec![0; shape.m * shape.n];
        if accumulate {
            for (warp, rows) in accumulators.iter().zip(c.chunks_mut(elements)) {
                gather(warp, bits, rows, place);
            }
        }
        let mut d = vec![0; shape.m * shape.n];
        product.run(a, b, accumulate.then_some(&c[..]), &mut d);
        for (warp, rows) in accumulators.into_iter().zip(d.chunks(elements)) {
            scatter(rows, bits, warp, place);
        }
    }
}
