//! The inner product of packed i32 blocks.

/// acc += a * b, wrapping, for row-major blocks.
///
/// acc: (rows, cols), a: (rows, depth), b: (depth, cols).
pub(super) fn add_product(acc: &mut [i32], a: &[i32], b: &[i32], cols: usize, depth: usize) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2, as just asked.
        return unsafe { add_product_avx2(acc, a, b, cols, depth) };
    }
    add_product_any(acc, a, b, cols, depth);
}

/// The same body, compiled for AVX2: the baseline of x86-64 has no 32-bit vector multiply.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn add_product_avx2(acc: &mut [i32], a: &[i32], b: &[i32], cols: usize, depth: usize) {
    add_product_any(acc, a, b, cols, depth);
}

#[inline(always)]
fn add_product_any(acc: &mut [i32], a: &[i32], b: &[i32], cols: usize, depth: usize) {
    // Four rows of b at a time: the row of acc is loaded and stored once for them.
    const STEP: usize = 4;
    for (acc_row, a_row) in acc.chunks_exact_mut(cols).zip(a.chunks_exact(depth)) {
        let a_steps = a_row.chunks_exact(STEP);
        let b_steps = b.chunks_exact(STEP * cols);
        for (&p, b_row) in a_steps.remainder().iter().zip(b_steps.remainder().chunks_exact(cols)) {
            for (sum, &q) in acc_row.iter_mut().zip(b_row) {
                *sum = sum.wrapping_add(p.wrapping_mul(q));
            }
        }
        for (p, b_rows) in a_steps.zip(b_steps) {
            let (b01, b23) = b_rows.split_at(2 * cols);
            let ((b0, b1), (b2, b3)) = (b01.split_at(cols), b23.split_at(cols));
            let rows = b0.iter().zip(b1).zip(b2).zip(b3);
            for (sum, (((&q0, &q1), &q2), &q3)) in acc_row.iter_mut().zip(rows) {
                let low = p[0].wrapping_mul(q0).wrapping_add(p[1].wrapping_mul(q1));
                let high = p[2].wrapping_mul(q2).wrapping_add(p[3].wrapping_mul(q3));
                *sum = sum.wrapping_add(low).wrapping_add(high);
            }
        }
    }
}
