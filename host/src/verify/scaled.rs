//! Products of operands with scales for blocks of 128.

use super::bound::Rules;
use super::outcome::Verdict;
use super::sums::{self, PANEL, Sums};
use super::{Checked, Exactness, Mismatch, Problem, Reference, Rows};
use crate::element::{Element, OutputOf};
use crate::matrix::MatrixRef;
use fp8::F8E4M3;
use gemm_spec::{Op, SCALE_BLOCK, Shape};

/// [`check`](super::check) for the product of a [`ScaledGemm`](crate::ScaledGemm): `scales` are
/// those of A and of B, before the transposes as these.
///
/// The scales have to be finite, their products normal numbers of f32, and what comes out far from
/// the end of its range; else right elements may be called wrong.
///
/// # Errors
/// As `check`, and where the scales' shapes do not fit.
pub fn check_scaled<C: OutputOf<F8E4M3>>(
    problem: &Problem<'_, F8E4M3, C>,
    scales: [MatrixRef<'_, f32>; 2],
    out: MatrixRef<'_, C>,
    rows: Rows,
) -> Result<Exactness, Mismatch> {
    let checked = Checked::new(problem, out, false)?;
    let apply = |matrix: MatrixRef<'_, f32>, op| match op {
        Op::None => matrix.to_matrix(),
        Op::Transpose => matrix.t().to_matrix(),
    };
    let blocks = |extent: usize| extent.div_ceil(SCALE_BLOCK);
    let (a, b) = (checked.a.shape(), checked.b.shape());
    let expected = [Shape::new(a.rows, blocks(a.cols)), Shape::new(blocks(b.rows), blocks(b.cols))];
    let ops = [problem.op_a, problem.op_b];
    let mut applied = Vec::new();
    for ((scales, op), expected) in scales.into_iter().zip(ops).zip(expected) {
        let matrix = apply(scales, op).map_err(|_| Mismatch::output(expected, scales.shape()))?;
        if matrix.shape() != expected {
            return Err(Mismatch::output(expected, matrix.shape()));
        }
        applied.push(matrix);
    }
    // On a product's way there are its block's roundings, those of the scales' product and of
    // the product with it, and those of the blocks: no more than k + 3.
    let k = if checked.k == 0 { 0 } else { checked.k + 3 };
    let rules = Rules::new((F8E4M3::DTYPE, C::DTYPE), k, checked.alpha, checked.beta);
    let reference = Scaled { rules, a: applied[0].view(), b: applied[1].view() };
    let tally = checked.run(&reference, &rows.of(out.shape())?);
    tally.finish(F8E4M3::DTYPE, out.shape(), checked.a.shape().cols)
}

/// Sums of blocks, as without scales, times their scales.
struct Scaled<'a> {
    rules: Rules,
    /// (m, blocks of K).
    a: MatrixRef<'a, f32>,
    /// (blocks of K, blocks of n).
    b: MatrixRef<'a, f32>,
}

impl<C: Element> Reference<F8E4M3, C> for Scaled<'_> {
    type Operand = f64;
    type Sums = Sums;

    fn operand(element: F8E4M3) -> f64 {
        element.to_f64()
    }

    fn sums(&self, (row, col): (usize, usize), a: &[f64], b: &[[f64; PANEL]]) -> Sums {
        const { assert!(SCALE_BLOCK.is_multiple_of(PANEL)) };
        let none = [0.0; PANEL];
        let mut all = Sums { hi: none, lo: none, abs: none, cut: none };
        for (q, (a, b)) in a.chunks(SCALE_BLOCK).zip(b.chunks(SCALE_BLOCK)).enumerate() {
            let factor = self.a[(row, q)].to_f64() * self.b[(q, col / SCALE_BLOCK)].to_f64();
            let block = sums::e4m3_row(a, b);
            for lane in 0..PANEL {
                all.hi[lane] += block.hi[lane] * factor;
                all.abs[lane] += block.abs[lane] * factor.abs();
                all.cut[lane] += block.cut[lane] * factor.abs();
            }
        }
        all
    }

    fn judge(
        &self,
        sums: &Sums,
        lane: usize,
        c: Option<C>,
        out: C,
        operands: (&[f64], &[[f64; PANEL]]),
    ) -> Verdict {
        let c = c.map_or(0.0, C::to_f64);
        Verdict::bounded(out.to_f64(), &self.rules.expect(sums, lane, c, operands))
    }
}
