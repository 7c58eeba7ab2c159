//! Reductions, prefix sums and histograms.

use super::{Gpu, noise, whole};
use ptx_emulator::Launch;

#[test]
fn reduction() {
    for count in [1, 31, 256, 1000, 5000] {
        let mut gpu = Gpu::new(include_str!("reduction.ptx"));
        let input: Vec<f32> = whole(count, 100).map(|number| number as f32).collect();
        let (from, sum) = (gpu.upload(&input), gpu.upload(&[0.0_f32]));
        let arguments = [from.into(), sum.into(), (count as i32).into()];
        gpu.launch("reduction", Launch::new(3, 256), &arguments);
        assert_eq!(gpu.download::<f32>(sum, 1), [input.iter().sum::<f32>()], "{count}");
    }
}

#[test]
fn maximum() {
    let mut gpu = Gpu::new(include_str!("reduction.ptx"));
    let input: Vec<i32> = noise(4 * 128).into_iter().map(|number| number as i32).collect();
    let (from, to) = (gpu.upload(&input), gpu.space::<i32>(4));
    let launch = Launch { dynamic_shared: 4 * 128, ..Launch::new(4, 128) };
    gpu.launch("maximum", launch, &[from.into(), to.into()]);
    let expected: Vec<i32> =
        input.chunks(128).filter_map(|piece| piece.iter().max()).copied().collect();
    assert_eq!(gpu.download::<i32>(to, 4), expected);
}

#[test]
fn scan() {
    let mut gpu = Gpu::new(include_str!("scan.ptx"));
    let count = 700;
    let input: Vec<u32> = noise(count);
    let (from, to) = (gpu.upload(&input), gpu.space::<u32>(count));
    let arguments = [from.into(), to.into(), (count as i32).into()];
    gpu.launch("scan", Launch::new(3, 256), &arguments);
    let add = |sum: &mut u32, number: &u32| {
        *sum = sum.wrapping_add(*number);
        Some(*sum)
    };
    let expected: Vec<u32> =
        input.chunks(256).flat_map(|piece| piece.iter().scan(0, add)).collect();
    assert_eq!(gpu.download::<u32>(to, count), expected);
}

#[test]
fn compact() {
    let mut gpu = Gpu::new(include_str!("scan.ptx"));
    let input = noise(128);
    let (from, to) = (gpu.upload(&input), gpu.upload(&[0_u32; 128]));
    let counts = gpu.space::<u32>(4);
    gpu.launch("compact", Launch::new(2, 64), &[from.into(), to.into(), counts.into()]);
    let (found, counts) = (gpu.download::<u32>(to, 128), gpu.download::<u32>(counts, 4));
    for (warp, piece) in input.chunks(32).enumerate() {
        let odd: Vec<u32> = piece.iter().copied().filter(|number| number % 2 == 1).collect();
        assert_eq!(counts[warp] as usize, odd.len());
        assert_eq!(found[warp * 32..][..odd.len()], odd);
        assert!(found[warp * 32 + odd.len()..(warp + 1) * 32].iter().all(|&number| number == 0));
    }
}

#[test]
fn histogram() {
    let mut gpu = Gpu::new(include_str!("histogram.ptx"));
    let input: Vec<u8> = noise(10_000).into_iter().map(|number| (number % 200) as u8).collect();
    let (from, bins) = (gpu.upload(&input), gpu.upload(&[0_u32; 256]));
    let arguments = [from.into(), bins.into(), (input.len() as i32).into()];
    gpu.launch("histogram", Launch::new(4, 192), &arguments);
    let mut expected = [0_u32; 256];
    input.iter().for_each(|&byte| expected[usize::from(byte)] += 1);
    assert_eq!(gpu.download::<u32>(bins, 256), expected);
}

#[test]
fn atomics() {
    let mut gpu = Gpu::new(include_str!("histogram.ptx"));
    let input: Vec<i32> = noise(256).into_iter().map(|number| number as i32).collect();
    let from = gpu.upload(&input);
    let extrema = gpu.upload(&[i32::MAX, i32::MIN]);
    let bits = gpu.upload(&[u32::MAX, 0, 0, 0, 100, 5]);
    let (sum, product) = (gpu.upload(&[0_u64]), gpu.upload(&[1_u32]));
    let arguments = [from.into(), extrema.into(), bits.into(), sum.into(), product.into()];
    gpu.launch("atomics", Launch::new(4, 64), &arguments);

    let extremes = [input.iter().min(), input.iter().max()].map(|number| *number.expect("some"));
    assert_eq!(gpu.download::<i32>(extrema, 2), extremes);
    let numbers = || input.iter().map(|&number| number as u32);
    let and = numbers().fold(u32::MAX, |a, b| a & b);
    let or = numbers().fold(0, |a, b| a | b);
    let xor = numbers().fold(0, |a, b| a ^ b);
    // The sixth increment gives 6, and the next one 0; a decrement from above 9 gives 9.
    let down = (0..256).fold(100_u32, |n, _| if n == 0 || n > 9 { 9 } else { n - 1 });
    assert_eq!(gpu.download::<u32>(bits, 6), [and, or, xor, 256 % 7, down, 77]);
    let total = input.iter().fold(0_u64, |sum, &n| sum.wrapping_add(i64::from(n) as u64));
    assert_eq!(gpu.download::<u64>(sum, 1), [total]);
    let odd = numbers().fold(1_u32, |product, n| product.wrapping_mul(n | 1));
    assert_eq!(gpu.download::<u32>(product, 1), [odd]);
}

#[test]
fn dot() {
    let mut gpu = Gpu::new(include_str!("dot.ptx"));
    let eighths = |count| whole(count, 1000).map(|number| f64::from(number) / 8.0);
    let x: Vec<f64> = eighths(3000).collect();
    let y: Vec<f64> = eighths(3000).skip(1).chain([0.5]).collect();
    let (from, and) = (gpu.upload(&x), gpu.upload(&y));
    let result = gpu.upload(&[0.0_f64]);
    let arguments = [from.into(), and.into(), result.into(), 3000_i32.into()];
    gpu.launch("dot", Launch::new(5, 256), &arguments);
    let expected: f64 = x.iter().zip(&y).map(|(x, y)| x * y).sum();
    assert_eq!(gpu.download::<f64>(result, 1), [expected]);
}
