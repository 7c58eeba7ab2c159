//! The inner product of packed blocks of floats, each row for itself.

use gemm_spec::DType;
use std::ops::{Add, Mul};

/// acc += a * b for row-major blocks. Each element takes its products in the order of k, by a
/// multiplication and an addition, so that its bits depend on its row of a and its column of b and
/// on nothing else: not on the extents, and not on what instructions the processor has.
///
/// acc: (rows, cols), a: (rows, depth), b: (depth, cols).
pub(super) fn add_product<S: bytemuck::Pod>(
    dtype: DType,
    acc: &mut [S],
    a: &[S],
    b: &[S],
    (cols, depth): (usize, usize),
) {
    match dtype {
        DType::F64 => add_floats::<f64>(cast_mut(acc), cast(a), cast(b), cols, depth),
        _ => add_floats::<f32>(cast_mut(acc), cast(a), cast(b), cols, depth),
    }
}

fn cast<S: bytemuck::Pod, F: bytemuck::Pod>(block: &[S]) -> &[F] {
    bytemuck::cast_slice(block)
}

fn cast_mut<S: bytemuck::Pod, F: bytemuck::Pod>(block: &mut [S]) -> &mut [F] {
    bytemuck::cast_slice_mut(block)
}

fn add_floats<F>(acc: &mut [F], a: &[F], b: &[F], cols: usize, depth: usize)
where
    F: Copy + Add<Output = F> + Mul<Output = F>,
{
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2, as just asked.
        return unsafe { add_floats_avx2(acc, a, b, cols, depth) };
    }
    add_floats_any(acc, a, b, cols, depth);
}

/// The same body, compiled for AVX2, whose vectors are twice as long as the baseline's.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn add_floats_avx2<F>(acc: &mut [F], a: &[F], b: &[F], cols: usize, depth: usize)
where
    F: Copy + Add<Output = F> + Mul<Output = F>,
{
    add_floats_any(acc, a, b, cols, depth);
}

#[inline(always)]
fn add_floats_any<F>(acc: &mut [F], a: &[F], b: &[F], cols: usize, depth: usize)
where
    F: Copy + Add<Output = F> + Mul<Output = F>,
{
    // Four rows of b at a time: the row of acc is loaded and stored once for them.
    const STEP: usize = 4;
    for (acc_row, a_row) in acc.chunks_exact_mut(cols).zip(a.chunks_exact(depth)) {
        let a_steps = a_row.chunks_exact(STEP);
        let b_steps = b.chunks_exact(STEP * cols);
        let (a_rest, b_rest) = (a_steps.remainder(), b_steps.remainder());
        for (p, b_rows) in a_steps.zip(b_steps) {
            let (b01, b23) = b_rows.split_at(2 * cols);
            let ((b0, b1), (b2, b3)) = (b01.split_at(cols), b23.split_at(cols));
            let rows = b0.iter().zip(b1).zip(b2).zip(b3);
            for (sum, (((&q0, &q1), &q2), &q3)) in acc_row.iter_mut().zip(rows) {
                *sum = *sum + p[0] * q0 + p[1] * q1 + p[2] * q2 + p[3] * q3;
            }
        }
        for (&p, b_row) in a_rest.iter().zip(b_rest.chunks_exact(cols)) {
            for (sum, &q) in acc_row.iter_mut().zip(b_row) {
                *sum = *sum + p * q;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_added_in_the_order_of_k_on_every_processor() {
        let (rows, cols, depth) = (3, 19, 13);
        let some = |len: usize, by: f32| (0..len).map(|i| (i as f32 * by).sin()).collect();
        let (a, b): (Vec<f32>, Vec<f32>) = (some(rows * depth, 0.7), some(depth * cols, 1.3));
        let start: Vec<f32> = some(rows * cols, 0.1);
        let mut expected = start.clone();
        for i in 0..rows {
            for j in 0..cols {
                for k in 0..depth {
                    expected[i * cols + j] += a[i * depth + k] * b[k * cols + j];
                }
            }
        }
        let (mut best, mut any) = (start.clone(), start);
        add_product(DType::F32, &mut best, &a, &b, (cols, depth));
        add_floats_any(&mut any, &a, &b, cols, depth);
        assert_eq!((&best, &any), (&expected, &expected));
    }
}
