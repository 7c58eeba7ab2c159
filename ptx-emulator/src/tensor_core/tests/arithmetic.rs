//! Products against the reference, against exact sums, and with special values.

use super::Random;
use super::reference;
use crate::tensor_core::{
    Accumulator as D, Arithmetic, Element as E, MMA_SHAPES, Mma, Product, Shape, Unit, Wgmma,
    layout,
};

const ARCHITECTURES: [(u32, u32); 6] = [(7, 0), (7, 5), (8, 0), (8, 9), (9, 0), (10, 0)];

/// How test data is made.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Data {
    /// Magnitudes near 1.
    Near,
    /// All exponents that the format has, subnormal numbers and zeros.
    Far,
    /// Any pattern: infinities and NaNs too.
    Any,
    /// Numbers near the ends of the format's range.
    Ends,
    /// Rows of A, columns of B and rows of C that are zero, and few infinities and NaNs.
    Gaps,
}

/// Leaves of some elements the signs alone.
fn make_gaps(
    matrix: &mut [u32],
    columns: usize,
    bits: usize,
    is_gap: impl Fn(usize, usize) -> bool,
) {
    for (place, element) in matrix.iter_mut().enumerate() {
        if is_gap(place / columns, place % columns) {
            *element &= 1 << (bits - 1);
        }
    }
}

fn pattern(random: &mut Random, element: E, data: Data) -> u32 {
    let bits = random.next();
    let (fraction, exponents) = match element {
        E::F16 => (10, 5),
        E::Bf16 => (7, 8),
        E::Tf32 => (23, 8),
        E::E4m3 => (3, 4),
        E::E5m2 => (2, 5),
        _ => panic!("a float"),
    };
    float(bits, random, fraction, exponents, data)
}

fn float(bits: u64, random: &mut Random, fraction: u32, exponents: u32, data: Data) -> u32 {
    let (sign, mask) = ((bits >> 40 & 1) as u32, (1u32 << fraction) - 1);
    let (bias, count) = ((1u32 << (exponents - 1)) - 1, (1u32 << exponents) - 1);
    let field = match data {
        Data::Near => bias + random.below(7) as u32 - 3,
        Data::Far => random.below(count.into()) as u32,
        Data::Any => random.below(u64::from(count) + 1) as u32,
        Data::Gaps if bits >> 54 & 255 == 0 => count,
        Data::Gaps => random.below(count.into()) as u32,
        Data::Ends if bits >> 41 & 3 == 0 => count - 1 - random.below(2) as u32,
        Data::Ends => random.below(2) as u32,
    };
    let small = if bits >> 50 & 7 == 0 { 0 } else { bits as u32 & mask };
    let zero = data != Data::Near && bits >> 53 & 15 == 0;
    sign << (fraction + exponents) | if zero { 0 } else { field << fraction | small }
}

fn accumulator(random: &mut Random, to: D, data: Data) -> u32 {
    let bits = random.next();
    let (fraction, exponents) = if to == D::F16 { (10, 5) } else { (23, 8) };
    float(bits, random, fraction, exponents, data)
}

/// All float products of the tensor cores: A's type, B's, C's and D's, and the shape.
fn float_products() -> Vec<(Unit, Shape, [E; 2], D)> {
    let mut products = Vec::new();
    for row in MMA_SHAPES.iter().filter(|row| row.elements[0] != E::F64) {
        for &a in row.elements.iter().filter(|a| !a.is_integer()) {
            for &b in row.elements {
                for &d in row.accumulators {
                    products.push((Unit::Mma, row.shape, [a, b], d));
                    let k = 256 / a.bits();
                    if row.shape.k == k {
                        products.push((Unit::Wgmma, Shape::new(64, 16, k), [a, b], d));
                    }
                }
            }
        }
    }
    products
}

#[test]
fn products_are_those_of_the_reference() {
    let mut random = Random(1);
    for (unit, shape, [a_type, b_type], d_type) in float_products() {
        for arch in ARCHITECTURES {
            for data in [Data::Near, Data::Far, Data::Any, Data::Ends, Data::Gaps] {
                let arithmetic = Arithmetic::of(arch, unit, a_type);
                let Shape { m, n, k } = shape;
                let mut matrix = |count, element| -> Vec<u32> {
                    (0..count).map(|_| pattern(&mut random, element, data)).collect()
                };
                let (mut a, mut b) = (matrix(m * k, a_type), matrix(k * n, b_type));
                let mut c: Vec<u32> =
                    (0..m * n).map(|_| accumulator(&mut random, d_type, data)).collect();
                if data == Data::Gaps {
                    make_gaps(&mut a, k, a_type.bits(), |row, _| row % 3 == 0);
                    make_gaps(&mut b, n, b_type.bits(), |_, column| column >= 8);
                    make_gaps(&mut c, n, d_type.bits(), |row, _| row % 4 > 0);
                }
                let product = Product {
                    shape,
                    a: a_type,
                    b: b_type,
                    c: d_type,
                    d: d_type,
                    arithmetic,
                    satfinite: false,
                    negate_a: false,
                    negate_b: false,
                };
                let mut d = vec![0; m * n];
                product.run_plain(&a, &b, Some(&c), &mut d);
                let plain = d.clone();
                product.run(&a, &b, Some(&c), &mut d);
                assert!(d == plain || arithmetic.widened);
                // A quarter of the elements, for the reference is slow.
                for place in (random.below(4) as usize..m * n).step_by(4) {
                    let (row, column) = (place / n, place % n);
                    let right: Vec<u32> = (0..k).map(|i| b[i * n + column]).collect();
                    let left = &a[row * k..][..k];
                    let types = ((a_type, b_type), (d_type, d_type));
                    let expected =
                        reference::dot(arithmetic, types.0, types.1, left, &right, c[place]);
                    assert_eq!(
                        d[place], expected,
                        "{unit:?} {shape:?} {a_type:?} {b_type:?} {d_type:?} {arch:?} {data:?}\n\
                         {left:x?}\n{right:x?}\n{:x}: {:x} but {expected:x}",
                        c[place], d[place],
                    );
                }
            }
        }
    }
}

/// Small integers: no bit is ever cut, whatever the architecture.
#[test]
fn sums_of_small_integers_are_exact() {
    let mut random = Random(2);
    for (unit, shape, [a_type, b_type], d_type) in float_products() {
        let Shape { m, n, k } = shape;
        let bits = |x: i64, element: E| match element {
            E::F16 => crate::numeric::narrow_f64_f16(x as f64).into(),
            E::Bf16 => crate::numeric::narrow_f64_bf16(x as f64).into(),
            E::Tf32 => (x as f32).to_bits(),
            _ => {
                let format = element.format().unwrap();
                format.from_f64(x as f64, crate::numeric::Rounding::NearestEven) as u32
            }
        };
        let mut numbers = |count: usize, bound: i64| -> Vec<i64> {
            (0..count).map(|_| random.below(2 * bound as u64 + 1) as i64 - bound).collect()
        };
        let (a, b, c) = (numbers(m * k, 4), numbers(k * n, 4), numbers(m * n, 100));
        let patterns = |x: &[i64], e| x.iter().map(|&x| bits(x, e)).collect::<Vec<_>>();
        let c_bits: Vec<u32> = c
            .iter()
            .map(|&x| match d_type {
                D::F16 => crate::numeric::narrow_f64_f16(x as f64).into(),
                _ => (x as f32).to_bits(),
            })
            .collect();
        for arch in ARCHITECTURES {
            let arithmetic = Arithmetic::of(arch, unit, a_type);
            let negate_a = arch == (9, 0);
            let product = Product {
                shape,
                a: a_type,
                b: b_type,
                c: d_type,
                d: d_type,
                arithmetic,
                satfinite: false,
                negate_a,
                negate_b: false,
            };
            let mut d = vec![0; m * n];
            product.run(&patterns(&a, a_type), &patterns(&b, b_type), Some(&c_bits), &mut d);
            for (place, &d) in d.iter().enumerate() {
                let (row, column) = (place / n, place % n);
                let dot: i64 = (0..k).map(|i| a[row * k + i] * b[i * n + column]).sum();
                let exact = c[place] + if negate_a { -dot } else { dot };
                let value = match d_type {
                    D::F16 => crate::numeric::widen_f16(d as u16),
                    _ => f32::from_bits(d),
                };
                assert_eq!(value, exact as f32, "{a_type:?} {d_type:?} {arch:?}");
            }
        }
    }
}

/// By hand: where the last kept bit lies.
#[test]
fn bits_beyond_the_accumulators_width_are_cut() {
    let one = |arch, tiny: f32| {
        let arithmetic = Arithmetic::of(arch, Unit::Mma, E::Bf16);
        let product = Product {
            shape: Shape::new(1, 8, 8),
            a: E::Bf16,
            b: E::Bf16,
            c: D::F32,
            d: D::F32,
            arithmetic,
            satfinite: false,
            negate_a: false,
            negate_b: false,
        };
        // 1 + 4 * tiny, the four small terms apart.
        let mut a = [0; 8];
        a[..4].fill(tiny.to_bits() >> 16);
        let mut d = [0; 8];
        product.run(&a, &[0x3f80; 64], Some(&[0x3f80_0000; 8]), &mut d);
        f32::from_bits(d[0])
    };
    let ulp = f32::EPSILON;
    assert_eq!(one((9, 0), ulp / 2.0), 1.0 + 2.0 * ulp);
    assert_eq!(one((9, 0), ulp / 4.0), 1.0 + ulp);
    assert_eq!(one((9, 0), ulp / 8.0), 1.0);
    assert_eq!(one((8, 0), ulp / 2.0), 1.0 + 2.0 * ulp);
    assert_eq!(one((8, 0), ulp / 4.0), 1.0);
    assert_eq!(one((7, 0), ulp / 2.0), 1.0);
    assert_eq!(one((9, 0), -ulp / 4.0), 1.0 - ulp);
    // Rounding is toward zero.
    assert_eq!(one((9, 0), -ulp / 8.0), 1.0);
}

#[test]
fn warps_and_matrices_agree() {
    let mut random = Random(3);
    for row in MMA_SHAPES.iter().filter(|row| row.elements[0] != E::F64) {
        let (a, b) = (row.elements[0], *row.elements.last().unwrap());
        for (&c, &d) in row.accumulators.iter().zip(row.accumulators) {
            let mma = Mma { shape: row.shape, a, b, c, d, satfinite: true };
            let Shape { m, n, k } = row.shape;
            let registers = mma.registers();
            let mut warp = |count: usize| -> Vec<[u32; 32]> {
                // Bytes that are small numbers in every type.
                (0..count).map(|_| [0; 32].map(|_| random.next() as u32 & 0x3a3a_3a3a)).collect()
            };
            let (ra, rb, rc) = (warp(registers.a), warp(registers.b), warp(registers.c));
            let mut rd = vec![[0; 32]; registers.d];
            let product = mma.product((9, 0));
            mma.execute(&product, &ra, &rb, &rc, &mut rd);
            let element = |registers: &[[u32; 32]], bits: usize, lane: usize, i: usize| {
                let word = registers[i * bits / 32][lane] >> (i * bits % 32);
                if bits == 32 { word } else { word & ((1 << bits) - 1) }
            };
            let (mut ma, mut mb) = (vec![0; m * k], vec![0; k * n]);
            let (mut mc, mut md) = (vec![0; m * n], vec![0; m * n]);
            for lane in 0..32 {
                for i in 0..m * k / 32 {
                    let (row, column) = layout::a(a.bits(), m, lane, i);
                    ma[row * k + column] = element(&ra, a.bits(), lane, i);
                }
                for i in 0..k * n / 32 {
                    let (row, column) = layout::b(b.bits(), lane, i);
                    mb[row * n + column] = element(&rb, b.bits(), lane, i);
                }
                for i in 0..m * n / 32 {
                    let (row, column) = layout::c(lane, i);
                    mc[row * n + column] = element(&rc, c.bits(), lane, i);
                }
            }
            product.run(&ma, &mb, Some(&mc), &mut md);
            for lane in 0..32 {
                for i in 0..m * n / 32 {
                    let (row, column) = layout::c(lane, i);
                    assert_eq!(element(&rd, d.bits(), lane, i), md[row * n + column], "{mma:?}");
                }
            }
        }
    }
}

#[test]
fn integers_wrap_or_saturate() {
    let mma = |satfinite| Mma {
        shape: Shape::new(16, 8, 32),
        a: E::S8,
        b: E::U8,
        c: D::S32,
        d: D::S32,
        satfinite,
    };
    let (a, b) = (vec![[0x8080_8080; 32]; 4], vec![[0xffff_ffff; 32]; 2]);
    let c = vec![[i32::MIN as u32 + 5; 32]; 4];
    let dot = -128 * 255 * 32;
    for (satfinite, expected) in [(true, i32::MIN), (false, (i32::MIN + 5).wrapping_add(dot))] {
        let mut d = vec![[0; 32]; 4];
        let mma = mma(satfinite);
        mma.execute(&mma.product((8, 0)), &a, &b, &c, &mut d);
        assert!(d.iter().flatten().all(|&x| x as i32 == expected), "{satfinite}");
    }
}

#[test]
fn doubles_are_chains_of_fma() {
    let mut random = Random(4);
    for row in MMA_SHAPES.iter().filter(|row| row.elements[0] == E::F64) {
        let (shape, e, f) = (row.shape, E::F64, D::F64);
        let mma = Mma { shape, a: e, b: e, c: f, d: f, satfinite: false };
        let registers = mma.registers();
        let mut warp = |count: usize| -> Vec<[u64; 32]> {
            let number = |bits: u64| bits >> 12 | (1000 + bits % 40) << 52 | bits << 63;
            (0..count).map(|_| [0; 32].map(|_| number(random.next()))).collect()
        };
        let (a, b, c) = (warp(registers.a), warp(registers.b), warp(registers.c));
        let mut d = vec![[0; 32]; registers.d];
        mma.execute_f64(&mma.product((9, 0)), &a, &b, &c, &mut d);
        for lane in 0..32 {
            for i in 0..registers.d {
                let (row, column) = layout::c(lane, i);
                let mut sum = f64::from_bits(c[i][lane]);
                for k in 0..shape.k {
                    // A's element (row, k) is with lane 4 * (row % 8) + k % 4; B's with 4n + k % 4.
                    let x = a[row / 8 + shape.m / 8 * (k / 4)][row % 8 * 4 + k % 4];
                    let y = b[k / 4][column * 4 + k % 4];
                    sum = f64::from_bits(x).mul_add(f64::from_bits(y), sum);
                }
                assert_eq!(d[i][lane], sum.to_bits(), "{shape:?}");
            }
        }
    }
}

#[test]
fn wgmma_in_registers() {
    let mut random = Random(5);
    for (a, d, n) in [(E::Bf16, D::F32, 256), (E::F16, D::F16, 24), (E::E4m3, D::F32, 8)] {
        let wgmma = Wgmma { n, a, b: a, d, satfinite: false, negate_a: false, negate_b: true };
        assert!(wgmma.is_valid());
        let Shape { m, k, .. } = wgmma.shape();
        let mut warps = |count: usize| -> [Vec<[u32; 32]>; 4] {
            std::array::from_fn(|_| {
                (0..count).map(|_| [0; 32].map(|_| random.next() as u32 & 0x3a3a_3a3a)).collect()
            })
        };
        let fragments = warps(Wgmma::A_REGISTERS);
        let mut sums = warps(wgmma.accumulator_registers());
        let before = sums.clone();
        let left = wgmma.a_from_registers(fragments.each_ref().map(|x| &x[..]));
        let right: Vec<u32> = (0..k * n).map(|_| random.next() as u32 & 0x3a3a).collect();
        wgmma.execute((9, 0), &left, &right, true, sums.each_mut().map(|x| &mut x[..]));
        let arithmetic = Arithmetic::of((9, 0), Unit::Wgmma, a);
        let sign = 1 << (a.bits() - 1);
        let mask = (sign << 1) - 1;
        for thread in (0..128).step_by(3) {
            for i in (0..m * n / 128).step_by(5) {
                let element = |warps: &[Vec<[u32; 32]>; 4]| {
                    let word = warps[thread / 32][i * d.bits() / 32][thread % 32];
                    if d == D::F16 { word >> (i % 2 * 16) & 0xffff } else { word }
                };
                let (row, column) = layout::wgmma_accumulator(thread, i);
                let b: Vec<u32> = (0..k).map(|k| right[k * n + column] & mask ^ sign).collect();
                let c = element(&before);
                let left = &left[row * k..][..k];
                let expected = reference::dot(arithmetic, (a, a), (d, d), left, &b, c);
                assert_eq!(element(&sums), expected, "{a:?} {thread} {i}");
            }
        }
    }
}
