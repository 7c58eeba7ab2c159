//! Products and a transposition.

use super::{Gpu, blocks, noise};

/// Floats whose products and sums are rounded, so that order and fusion show.
fn floats(count: usize) -> Vec<f32> {
    noise(count).into_iter().map(|number| number as f32 / 2.0_f32.powi(31) - 1.0).collect()
}

#[test]
fn transpose() {
    let (width, height) = (70, 50);
    let mut gpu = Gpu::new(include_str!("transpose.ptx"));
    let input = floats(width * height);
    let (from, to) = (gpu.upload(&input), gpu.space::<f32>(width * height));
    let arguments = [from.into(), to.into(), (width as i32).into(), (height as i32).into()];
    let grid = [width.div_ceil(32) as u32, height.div_ceil(32) as u32, 1];
    gpu.launch("transpose", blocks(grid, [32, 8, 1]), &arguments);
    let found = gpu.download::<f32>(to, width * height);
    for (place, value) in input.iter().enumerate() {
        let (row, column) = (place / width, place % width);
        assert_eq!(found[column * height + row], *value, "({row}, {column})");
    }
}

/// Both kernels go along k one by one and fuse, so that the bits are given.
#[test]
fn products() {
    for (kernel, side) in [("matmul_naive", 8), ("matmul_tiled", 16)] {
        for (m, n, k) in [(1, 1, 1), (16, 16, 16), (33, 20, 45)] {
            let mut gpu = Gpu::new(include_str!("matmul.ptx"));
            let (a, b) = (floats(m * k), floats(k * n));
            let (a_at, b_at) = (gpu.upload(&a), gpu.upload(&b));
            let c_at = gpu.space::<f32>(m * n);
            let sizes = [m, n, k].map(|size| (size as i32).into());
            let [m_is, n_is, k_is] = sizes;
            let arguments = [a_at.into(), b_at.into(), c_at.into(), m_is, n_is, k_is];
            let grid = [n.div_ceil(side) as u32, m.div_ceil(side) as u32, 1];
            gpu.launch(kernel, blocks(grid, [side as u32, side as u32, 1]), &arguments);
            let c = gpu.download::<f32>(c_at, m * n);
            for (place, value) in c.iter().enumerate() {
                let (row, column) = (place / n, place % n);
                let sum =
                    (0..k).fold(0.0_f32, |sum, i| a[row * k + i].mul_add(b[i * n + column], sum));
                assert_eq!(sum.to_bits(), value.to_bits(), "{kernel} {m} {n} {k}: {row}, {column}");
            }
        }
    }
}
