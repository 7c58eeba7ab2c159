//! `wgmma`: every element type and N against a product on the CPU, through boxes that the copy
//! engine has brought and swizzled.
//!
//! The elements are small integers, whose products and sums every type here holds exactly, so that
//! the results are equal and not close.

use std::fmt::Debug;

use bytemuck::Pod;
use cuda_std::half::{bf16, f16};
use cuda_std::wgmma::place;
use gemmite::cuda::{TensorElement, TensorLayout, TensorSwizzle};

use super::launch::{Launch, map};
use crate::floats::random_bits;
use crate::gpu::{Buffer, Gpu, sm_90a};

/// Every N of an instruction.
const ALL_N: [usize; 10] = [8, 16, 32, 64, 96, 128, 160, 192, 224, 256];

/// An element type: its name in kernels, its bytes, and how a small integer is written.
struct Type {
    name: &'static str,
    tensor: TensorElement,
    bytes: usize,
    /// Integers from -limit to limit.
    limit: i64,
    encode: fn(i64) -> u32,
}

/// Sign, exponent and mantissa of a small integer in 8 bits.
fn eight_bits(value: i64, bias: u32, mantissa_bits: u32) -> u32 {
    if value == 0 {
        return 0;
    }
    let (sign, size) = (u32::from(value < 0) << 7, value.unsigned_abs() as u32);
    let exponent = size.ilog2();
    let mantissa = (size << mantissa_bits >> exponent) & ((1 << mantissa_bits) - 1);
    assert_eq!(size << mantissa_bits >> exponent << exponent, size << mantissa_bits, "{value}");
    sign | (exponent + bias) << mantissa_bits | mantissa
}

const TYPES: [Type; 6] = [
    Type {
        name: "f16",
        tensor: TensorElement::F16,
        bytes: 2,
        limit: 8,
        encode: |x| f16::from_f32(x as f32).to_bits().into(),
    },
    Type {
        name: "bf16",
        tensor: TensorElement::Bf16,
        bytes: 2,
        limit: 8,
        encode: |x| bf16::from_f32(x as f32).to_bits().into(),
    },
    // The lower 13 bits count for nothing.
    Type {
        name: "tf32",
        tensor: TensorElement::F32,
        bytes: 4,
        limit: 8,
        encode: |x| (x as f32).to_bits() | (x as u32).wrapping_mul(0x9e37) & 0x1fff,
    },
    Type {
        name: "e4m3",
        tensor: TensorElement::U8,
        bytes: 1,
        limit: 8,
        encode: |x| eight_bits(x, 7, 3),
    },
    Type {
        name: "e5m2",
        tensor: TensorElement::U8,
        bytes: 1,
        limit: 8,
        encode: |x| eight_bits(x, 15, 2),
    },
    Type {
        name: "i8",
        tensor: TensorElement::U8,
        bytes: 1,
        limit: 127,
        encode: |x| x as u8 as u32,
    },
];

fn type_named(name: &str) -> &'static Type {
    TYPES.iter().find(|t| t.name == name).expect("a type")
}

/// A matrix of small integers, row by row.
struct Matrix {
    columns: usize,
    elements: Vec<i64>,
}

impl Matrix {
    /// Different for each `seed`.
    fn random(rows: usize, columns: usize, limit: i64, seed: usize) -> Self {
        let bits = random_bits(rows * columns + seed).skip(seed);
        let number = |bits: u64| (bits >> 8) as i64 % (2 * limit + 1) - limit;
        Matrix { columns, elements: bits.map(|bits| number(bits & (u64::MAX >> 1))).collect() }
    }

    fn rows(&self) -> usize {
        self.elements.len() / self.columns
    }

    fn at(&self, row: usize, column: usize) -> i64 {
        self.elements[row * self.columns + column]
    }

    fn transposed(&self) -> Matrix {
        let (rows, columns) = (self.columns, self.rows());
        let place = |i: usize| self.at(i % columns, i / columns);
        Matrix { columns, elements: (0..rows * columns).map(place).collect() }
    }

    /// This times `other` transposed: both have K along their rows.
    fn product(&self, other: &Matrix) -> Vec<i64> {
        let row = |matrix: &Matrix, i: usize| {
            matrix.elements[i * matrix.columns..(i + 1) * matrix.columns].to_vec()
        };
        let mut sums = Vec::new();
        for i in 0..self.rows() {
            let a = row(self, i);
            for j in 0..other.rows() {
                sums.push(a.iter().zip(row(other, j)).map(|(a, b)| a * b).sum());
            }
        }
        sums
    }

    fn encoded(&self, of: &Type) -> Vec<u8> {
        let bytes = |x: &i64| (of.encode)(*x).to_le_bytes()[..of.bytes].to_vec();
        self.elements.iter().flat_map(bytes).collect()
    }

    /// The matrix on the device, and the map of its boxes of `rows` rows of `row_bytes` bytes.
    fn upload(
        &self,
        of: &Type,
        rows: usize,
        swizzle: TensorSwizzle,
        row_bytes: usize,
    ) -> (Buffer<u8>, gemmite::cuda::TensorMap) {
        let buffer = Buffer::new(&self.encoded(of));
        let sizes = [self.columns as u64, self.rows() as u64];
        let boxes = [(row_bytes / of.bytes) as u32, rows as u32];
        let layout = TensorLayout::new(of.tensor, &sizes, &boxes).swizzle(swizzle);
        let map = map(&layout, &buffer);
        (buffer, map)
    }
}

/// A sum as an integer.
trait Sum: Pod + Debug {
    fn integer(self) -> i64;
}

impl Sum for f32 {
    fn integer(self) -> i64 {
        assert_eq!(self.fract(), 0.0, "{self}");
        self as i64
    }
}

impl Sum for i32 {
    fn integer(self) -> i64 {
        self.into()
    }
}

/// The product that a launch left, against the CPU's.
fn compare<S: Sum>(out: &Buffer<S>, expected: &[i64], columns: usize, what: &str) {
    let found: Vec<i64> = out.download().into_iter().map(Sum::integer).collect();
    let wrong = found.iter().zip(expected).position(|(found, expected)| found != expected);
    if let Some(i) = wrong {
        let (row, column) = (i / columns, i % columns);
        panic!("{what}: ({row}, {column}) is {} and not {}", found[i], expected[i]);
    }
    assert_eq!(found.len(), expected.len());
}

const B128: TensorSwizzle = TensorSwizzle::B128;

fn check_product<S: Sum>(gpu: &Gpu, of: &Type, n: usize, count: usize) {
    let k = count * 128 / of.bytes;
    let (a, b) = (Matrix::random(64, k, of.limit, n), Matrix::random(n, k, of.limit, 7 * n));
    let (_a, a_map) = a.upload(of, 64, B128, 128);
    let (_b, b_map) = b.upload(of, n, B128, 128);
    let out = Buffer::<S>::zeros(64 * n);
    let kernel = format!("product_{}_{n}", of.name);
    let arguments = [(&a_map).into(), (&b_map).into(), (count as u32).into(), (&out).into()];
    Launch::new(1, 128).run(gpu, &kernel, &arguments);
    compare(&out, &a.product(&b), n, &kernel);
}

#[test]
fn every_type_and_n() {
    sm_90a(|gpu| {
        for of in &TYPES {
            for n in ALL_N {
                for count in [1, 3] {
                    match of.name {
                        "i8" => check_product::<i32>(gpu, of, n, count),
                        _ => check_product::<f32>(gpu, of, n, count),
                    }
                }
            }
        }
    });
}

#[test]
fn bytes_wrap_at_32_bits_and_have_a_sign() {
    sm_90a(|gpu| {
        let of = type_named("i8");
        let a = Matrix { columns: 128, elements: vec![-128; 64 * 128] };
        let b = Matrix::random(64, 128, 127, 1);
        let ((_a, a_map), (_b, b_map)) = (a.upload(of, 64, B128, 128), b.upload(of, 64, B128, 128));
        let out = Buffer::<i32>::zeros(64 * 64);
        let arguments = [(&a_map).into(), (&b_map).into(), 1u32.into(), (&out).into()];
        Launch::new(1, 128).run(gpu, "product_i8_64", &arguments);
        compare(&out, &a.product(&b), 64, "-128");
    });
}

#[test]
fn operands_along_m_and_n() {
    // Kernel, whether A and B are transposed, N.
    const CASES: [(&str, bool, bool, usize); 6] = [
        ("a_transposed_f16", true, false, 64),
        ("a_transposed_bf16", true, false, 256),
        ("b_transposed_f16", false, true, 192),
        ("b_transposed_bf16", false, true, 96),
        ("both_transposed_f16", true, true, 128),
        ("both_transposed_bf16", true, true, 256),
    ];
    sm_90a(|gpu| {
        for (kernel, a_transposed, b_transposed, n) in CASES {
            let of = type_named(kernel.rsplit('_').next().unwrap());
            let (a, b) = (Matrix::random(64, 64, 8, 3), Matrix::random(n, 64, 8, 5));
            let upload = |matrix: &Matrix, transposed: bool, rows| match transposed {
                true => matrix.transposed().upload(of, 64, B128, 128),
                false => matrix.upload(of, rows, B128, 128),
            };
            let (_a, a_map) = upload(&a, a_transposed, 64);
            let (_b, b_map) = upload(&b, b_transposed, n);
            let out = Buffer::<f32>::zeros(64 * n);
            let arguments = [(&a_map).into(), (&b_map).into(), (&out).into()];
            Launch::new(1, 128).run(gpu, kernel, &arguments);
            compare(&out, &a.product(&b), n, kernel);
        }
    });
}

/// Word i of step s of thread t of A's fragments, at `(s * 4 + i) * 128 + t`.
fn fragments(a: &Matrix, of: &Type) -> Vec<u32> {
    let bytes = a.encoded(of);
    let mut words = vec![0; 2048];
    for (at, word) in words.iter_mut().enumerate() {
        let (step, i, thread) = (at / 512, at / 128 % 4, at % 128);
        let row = thread / 32 * 16 + thread % 32 / 4 + i % 2 * 8;
        let start = row * 128 + step * 32 + i / 2 * 16 + thread % 4 * 4;
        *word = u32::from_le_bytes(bytes[start..start + 4].try_into().unwrap());
    }
    words
}

fn check_registers<S: Sum>(gpu: &Gpu, kernel: &str, of: &Type, n: usize, transposed: bool) {
    let k = 128 / of.bytes;
    let (a, b) = (Matrix::random(64, k, of.limit, 11), Matrix::random(n, k, of.limit, 13));
    let (_b, b_map) = match transposed {
        true => b.transposed().upload(of, 64, B128, 128),
        false => b.upload(of, 64, B128, 128),
    };
    let (a_words, out) = (Buffer::new(&fragments(&a, of)), Buffer::<S>::zeros(64 * n));
    let arguments = [(&a_words).into(), (&b_map).into(), (&out).into()];
    Launch::new(1, 128).run(gpu, kernel, &arguments);
    compare(&out, &a.product(&b), n, kernel);
}

#[test]
fn a_from_registers() {
    sm_90a(|gpu| {
        for (name, n) in [("f16", 64), ("bf16", 256), ("tf32", 128), ("e4m3", 64), ("e5m2", 128)] {
            let kernel = format!("registers_{name}");
            check_registers::<f32>(gpu, &kernel, type_named(name), n, false);
        }
        check_registers::<i32>(gpu, "registers_i8", type_named("i8"), 64, false);
        let [f16, bf16] = ["f16", "bf16"].map(type_named);
        check_registers::<f32>(gpu, "registers_transposed_f16", f16, 128, true);
        check_registers::<f32>(gpu, "registers_transposed_bf16", bf16, 64, true);
    });
}

#[test]
fn every_swizzle_for_tensor_cores_and_threads() {
    sm_90a(|gpu| {
        let of = type_named("bf16");
        for (bytes, swizzle) in [(128, B128), (64, TensorSwizzle::B64), (32, TensorSwizzle::B32)] {
            let k = bytes / 2;
            let (a, b) = (Matrix::random(64, k, 8, 17), Matrix::random(64, k, 8, 19));
            let (_a, a_map) = a.upload(of, 64, swizzle, bytes);
            let (_b, b_map) = b.upload(of, 64, swizzle, bytes);
            let out = Buffer::<f32>::zeros(64 * 64);
            let kernel = format!("swizzled_{bytes}");
            let arguments = [(&a_map).into(), (&b_map).into(), (&out).into()];
            Launch::new(1, 128).run(gpu, &kernel, &arguments);
            let rows: Vec<Vec<i64>> = a.elements.chunks_exact(k).map(<[i64]>::to_vec).collect();
            let turned = rows.into_iter().rev().flatten().collect();
            let turned = Matrix { columns: k, elements: turned };
            compare(&out, &turned.product(&b), 64, &kernel);
        }
    });
}

#[test]
fn products_run_beside_copies() {
    sm_90a(|gpu| {
        let of = type_named("bf16");
        for count in [1, 2, 3, 10, 64] {
            let k = 64 * count;
            let (a, b) = (Matrix::random(128, k, 8, 23), Matrix::random(128, k, 8, 29));
            let (_a, a_map) = a.upload(of, 64, B128, 128);
            let (_b, b_map) = b.upload(of, 64, B128, 128);
            let out = Buffer::<f32>::zeros(64 * 256);
            let launch = Launch { shared_bytes: 3 * 4 * 8192, ..Launch::new(1, 128) };
            let arguments =
                [(&a_map).into(), (&b_map).into(), (count as u32).into(), (&out).into()];
            launch.run(gpu, "pipelined", &arguments);
            let product = a.product(&b);
            // Rows 64 to 127 stand on the right of rows 0 to 63.
            let expected: Vec<i64> = (0..64 * 256)
                .map(|i| (i / 256, i % 256))
                .map(|(row, column)| product[(row + column / 128 * 64) * 128 + column % 128])
                .collect();
            compare(&out, &expected, 256, "pipelined");
        }
    });
}

#[test]
fn places_are_those_of_warps() {
    // PTX ISA, "Register Fragments for wgmma.mma_async", matrix D, read off the figure.
    for (thread, index, expected) in [
        (0, 0, (0, 0)),
        (0, 1, (0, 1)),
        (0, 2, (8, 0)),
        (3, 3, (8, 7)),
        (4, 0, (1, 0)),
        (31, 0, (7, 6)),
        (32, 4, (16, 8)),
        (127, 127, (63, 255)),
    ] {
        assert_eq!(place(thread, index), expected);
    }
}
