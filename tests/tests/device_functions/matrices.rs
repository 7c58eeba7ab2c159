//! `mma`: each instruction against a product on the CPU, by way of the documented places of the
//! elements in a warp's registers.

use std::fmt::Debug;

use bytemuck::Pod;
use cuda_std::half::{bf16, f16};
use cuda_std::mma::permute_bytes;

use crate::floats::random_bits;
use crate::gpu::{Buffer, Gpu, Slice, each_module, each_module_from};

/// Rows of A and of the sums.
const ROWS: usize = 16;
/// Columns of B and of the sums.
const COLS: usize = 8;

/// `group` and `member` of the module's doc.
fn place(lane: usize) -> (usize, usize) {
    (lane / 4, lane % 4)
}

/// Row and column of a lane's sum number i.
fn place_of_sum(lane: usize, i: usize) -> (usize, usize) {
    let (group, member) = place(lane);
    (group + i / 2 * 8, 2 * member + i % 2)
}

/// An instruction with factors `T`, of which one or several are in a register, and sums `S`.
#[derive(Clone, Copy)]
struct Instruction<T, S> {
    kernel: &'static str,
    /// The compute capability that it needs.
    first: (i32, i32),
    /// Its extent along K.
    depth: usize,
    /// The sum with the products of the pairs added.
    sum: fn(&[[T; 2]], S) -> S,
}

/// Three matrices, row by row.
struct Case<T, S> {
    a: Vec<T>,
    b: Vec<T>,
    c: Vec<S>,
}

impl<T: Pod, S: Pod + PartialOrd + Debug> Instruction<T, S> {
    /// Factors in a register, neighbours along K.
    const PER_WORD: usize = if size_of::<T>() < 4 { 4 / size_of::<T>() } else { 1 };

    /// Row and k of the elements of A that a lane holds, in the order of its registers' bytes.
    fn places_of_a(self, lane: usize) -> impl Iterator<Item = (usize, usize)> {
        let ((group, member), per_word) = (place(lane), Self::PER_WORD);
        (0..self.depth / (4 * per_word)).flat_map(move |run| {
            let k = move |element| (run * 4 + member) * per_word + element;
            let word = move |row| (0..per_word).map(move |element| (row, k(element)));
            [group, group + 8].into_iter().flat_map(word)
        })
    }

    /// k and column of the elements of B.
    fn places_of_b(self, lane: usize) -> impl Iterator<Item = (usize, usize)> {
        let ((group, member), per_word) = (place(lane), Self::PER_WORD);
        (0..self.depth / (4 * per_word)).flat_map(move |run| {
            (0..per_word).map(move |element| ((run * 4 + member) * per_word + element, group))
        })
    }

    fn case(
        self,
        a: impl Fn(usize, usize) -> T,
        b: impl Fn(usize, usize) -> T,
        c: S,
    ) -> Case<T, S> {
        let a = (0..ROWS * self.depth).map(|i| a(i / self.depth, i % self.depth)).collect();
        let b = (0..self.depth * COLS).map(|i| b(i / COLS, i % COLS)).collect();
        Case { a, b, c: vec![c; ROWS * COLS] }
    }

    /// `count` cases of what `factor` and `addend` make of random bits.
    fn random(
        self,
        count: usize,
        factor: impl Fn(u64) -> T,
        addend: impl Fn(u64) -> S,
    ) -> Vec<Case<T, S>> {
        let (a, b, c) = (ROWS * self.depth, self.depth * COLS, ROWS * COLS);
        let bits: Vec<u64> = random_bits(count * (a + b + c)).collect();
        let factors = |bits: &[u64]| bits.iter().map(|bits| factor(*bits)).collect();
        (bits.chunks(a + b + c))
            .map(|bits| Case {
                a: factors(&bits[..a]),
                b: factors(&bits[a..a + b]),
                c: bits[a + b..].iter().map(|bits| addend(*bits)).collect(),
            })
            .collect()
    }

    /// Element (row, col) of the result.
    fn expected(self, case: &Case<T, S>, (row, col): (usize, usize)) -> S {
        let pairs: Vec<[T; 2]> = (0..self.depth)
            .map(|k| [case.a[row * self.depth + k], case.b[k * COLS + col]])
            .collect();
        (self.sum)(&pairs, case.c[row * COLS + col])
    }

    /// Every case, on every GPU module that has the instruction.
    fn check(self, what: &str, cases: &[Case<T, S>]) {
        each_module_from(self.first, |gpu| {
            let found = self.on_gpu(gpu, cases);
            for (i, found) in found.into_iter().enumerate() {
                let (case, lane, i) = (i / 128, i % 128 / 4, i % 4);
                let (row, col) = place_of_sum(lane, i);
                let expected = self.expected(&cases[case], (row, col));
                assert!(
                    same(found, expected),
                    "{} of {}, {what}, case {case}, row {row}, column {col} (lane {lane}, sum \
                     {i}): {found:?}, not {expected:?}",
                    self.kernel,
                    gpu.name
                );
            }
        });
    }

    /// The lanes' sums, four of each, case after case.
    fn on_gpu(self, gpu: &Gpu, cases: &[Case<T, S>]) -> Vec<S> {
        let (mut a, mut b, mut c) = (Vec::new(), Vec::new(), Vec::new());
        for case in cases {
            for lane in 0..32 {
                a.extend(self.places_of_a(lane).map(|(row, k)| case.a[row * self.depth + k]));
                b.extend(self.places_of_b(lane).map(|(k, col)| case.b[k * COLS + col]));
                let places = (0..4).map(|i| place_of_sum(lane, i));
                c.extend(places.map(|(row, col)| case.c[row * COLS + col]));
            }
        }
        let (a, b, c) = (Buffer::new(&a), Buffer::new(&b), Buffer::new(&c));
        let out = Buffer::<S>::zeros(cases.len() * ROWS * COLS);
        gpu.run(self.kernel, cases.len() as u32, 32, &[&&a, &&b, &&c, &&out]);
        out.download()
    }
}

/// Equal, or both not a number.
fn same<S: PartialOrd>(a: S, b: S) -> bool {
    let nan = |x: &S| x.partial_cmp(x).is_none();
    a == b || nan(&a) && nan(&b)
}

/// The result is exact where the products' sum is, which is the tests' choice of numbers.
fn sum_of_f16(pairs: &[[u16; 2]], sum: f32) -> f32 {
    let wide = |bits| f64::from(f16::from_bits(bits).to_f32());
    pairs.iter().fold(f64::from(sum), |sum, [a, b]| sum + wide(*a) * wide(*b)) as f32
}

fn sum_of_bf16(pairs: &[[u16; 2]], sum: f32) -> f32 {
    let wide = |bits| f64::from(bf16::from_bits(bits).to_f32());
    pairs.iter().fold(f64::from(sum), |sum, [a, b]| sum + wide(*a) * wide(*b)) as f32
}

const F16: Instruction<u16, f32> =
    Instruction { kernel: "product_f16", first: (8, 0), depth: 16, sum: sum_of_f16 };
const BF16: Instruction<u16, f32> =
    Instruction { kernel: "product_bf16", first: (8, 0), depth: 16, sum: sum_of_bf16 };
const I8: Instruction<i8, i32> = Instruction {
    kernel: "product_i8",
    first: (8, 0),
    depth: 32,
    sum: |pairs, sum| {
        let product = |[a, b]: &[i8; 2]| i32::from(*a) * i32::from(*b);
        sum.wrapping_add(pairs.iter().map(product).sum())
    },
};
const U8: Instruction<u8, u32> = Instruction {
    kernel: "product_u8",
    first: (8, 0),
    depth: 16,
    sum: |pairs, sum| {
        let product = |[a, b]: &[u8; 2]| u32::from(*a) * u32::from(*b);
        sum.wrapping_add(pairs.iter().map(product).sum())
    },
};
const F64: Instruction<f64, f64> = Instruction {
    kernel: "product_f64",
    first: (9, 0),
    depth: 8,
    sum: |pairs, sum| pairs.iter().fold(sum, |sum, [a, b]| sum + a * b),
};

/// A whole number of magnitude `most` at most.
fn whole(bits: u64, most: u64) -> f64 {
    (bits % (2 * most + 1)) as f64 - most as f64
}

/// One number in 64 is infinite or none, the others are small and whole.
fn special(bits: u64) -> f64 {
    match bits >> 32 & 0xff {
        0 => f64::INFINITY,
        1 => f64::NEG_INFINITY,
        2 | 3 => f64::NAN,
        _ => whole(bits, 3),
    }
}

/// Checks random whole numbers, then special ones among them. `most` is the magnitude of factors.
fn check_floats<T: Pod, S: Pod + PartialOrd + Debug + Into<f64>>(
    instruction: Instruction<T, S>,
    most: u64,
    factor: fn(f64) -> T,
    addend: fn(f64) -> S,
) {
    let whole_numbers =
        instruction.random(50, |bits| factor(whole(bits, most)), |bits| addend(whole(bits, 1000)));
    instruction.check("whole numbers", &whole_numbers);
    let cases = instruction.random(50, |bits| factor(special(bits)), |bits| addend(special(bits)));
    // All four kinds of results are there, else the test would be none.
    let places = (0..ROWS * COLS).map(|i| (i / COLS, i % COLS));
    let results: Vec<f64> = (cases.iter())
        .flat_map(|case| places.clone().map(|place| instruction.expected(case, place).into()))
        .collect();
    let kinds: [fn(&f64) -> bool; 4] =
        [|x| x.is_finite(), |x| *x == f64::INFINITY, |x| *x == f64::NEG_INFINITY, |x| x.is_nan()];
    let counts = kinds.map(|kind| results.iter().filter(|x| kind(x)).count());
    assert!(counts.iter().all(|count| *count > 50), "{}: {counts:?}", instruction.kernel);
    instruction.check("infinities and NaN", &cases);
}

fn f16_bits(x: f64) -> u16 {
    f16::from_f64(x).to_bits()
}

fn bf16_bits(x: f64) -> u16 {
    bf16::from_f64(x).to_bits()
}

#[test]
fn f16_products() {
    check_floats(F16, 1000, f16_bits, |x| x as f32);
    let (largest, smallest) = (f16_bits(65504.0), 1);
    let case = |a: u16, b: u16| F16.case(|_, _| a, |_, _| b, 0.0);
    F16.check("the largest by the largest", &[case(largest, largest)]);
    F16.check("the least, subnormal", &[case(smallest, smallest), case(largest, smallest)]);
}

#[test]
fn bf16_products() {
    check_floats(BF16, 200, bf16_bits, |x| x as f32);
    let (one, largest, smallest) = (bf16_bits(1.0), bf16::MAX.to_bits(), 1);
    // One in each row of A, so that no sum is beyond f32.
    let single = |row: usize, k: usize| if row == k { largest } else { 0 };
    BF16.check("the largest by 1", &[BF16.case(single, |_, _| one, 0.0)]);
    let power = bf16_bits(f64::from(2.0f32.powi(40)));
    let least = BF16.case(|_, _| smallest, |_, _| power, 0.0);
    BF16.check("the least, subnormal, by 2^40", &[least]);
}

#[test]
fn i8_products() {
    let cases = I8.random(50, |bits| (bits >> 8) as i8, |bits| (bits as i32) >> 16);
    I8.check("random bytes", &cases);
    let cases = I8.random(50, |bits| (bits >> 8) as i8, |bits| bits as i32);
    I8.check("random bytes, sums of any size", &cases);
    for (a, b) in [(-128, -128), (-128, 127), (127, 127)] {
        for c in [0, i32::MAX, i32::MIN, -1] {
            let what = format!("all {a} by all {b} and {c}, modulo 2^32");
            I8.check(&what, &[I8.case(|_, _| a, |_, _| b, c)]);
        }
    }
}

#[test]
fn u8_products() {
    let cases = U8.random(50, |bits| (bits >> 8) as u8, |bits| bits as u32 >> 16);
    U8.check("random bytes", &cases);
    let cases = U8.random(50, |bits| (bits >> 8) as u8, |bits| bits as u32);
    U8.check("random bytes, sums of any size", &cases);
    for (a, b) in [(255, 255), (255, 1), (128, 128)] {
        for c in [0, u32::MAX, 1 << 31] {
            let what = format!("all {a} by all {b} and {c}, modulo 2^32");
            U8.check(&what, &[U8.case(|_, _| a, |_, _| b, c)]);
        }
    }
}

#[test]
fn f64_products() {
    check_floats(F64, 1 << 24, |x| x, |x| x);
    let least = f64::from_bits(1);
    let case = F64.case(|_, k| k as f64, |_, _| least, least);
    F64.check("the least, subnormal", &[case]);
}

/// The oracle's places, by themselves. (Products hold the places along K of A only to those of B:
/// another order of k in both gives the same sums.)
#[test]
fn lanes_hold_every_element_once() {
    fn check<T: Pod, S: Pod + PartialOrd + Debug>(instruction: Instruction<T, S>) {
        let depth = instruction.depth;
        let places = |of: &dyn Fn(usize) -> Vec<usize>| {
            let mut places: Vec<usize> = (0..32).flat_map(of).collect();
            places.sort_unstable();
            places
        };
        let of_a = |lane| instruction.places_of_a(lane).map(|(row, k)| row * depth + k).collect();
        assert_eq!(places(&of_a), (0..ROWS * depth).collect::<Vec<_>>(), "{}", instruction.kernel);
        let of_b = |lane| instruction.places_of_b(lane).map(|(k, col)| k * COLS + col).collect();
        assert_eq!(places(&of_b), (0..depth * COLS).collect::<Vec<_>>(), "{}", instruction.kernel);
    }
    check(F16);
    check(I8);
    check(U8);
    check(F64);
    // Lane 13 is member 1 of group 3; as the docs of the functions say.
    let a: Vec<_> = F16.places_of_a(13).collect();
    assert_eq!(a, [(3, 2), (3, 3), (11, 2), (11, 3), (3, 10), (3, 11), (11, 10), (11, 11)]);
    let b: Vec<_> = F16.places_of_b(13).collect();
    assert_eq!(b, [(2, 3), (3, 3), (10, 3), (11, 3)]);
    let b: Vec<_> = I8.places_of_b(13).map(|(k, _)| k).collect();
    assert_eq!(b, [4, 5, 6, 7, 20, 21, 22, 23]);
    let a: Vec<_> = U8.places_of_a(13).collect();
    assert_eq!(a, [(3, 4), (3, 5), (3, 6), (3, 7), (11, 4), (11, 5), (11, 6), (11, 7)]);
    let a: Vec<_> = F64.places_of_a(13).collect();
    assert_eq!(a, [(3, 1), (11, 1), (3, 5), (11, 5)]);
    assert_eq!([0, 1, 2, 3].map(|i| place_of_sum(13, i)), [(3, 2), (3, 3), (11, 2), (11, 3)]);
}

/// The two elements of a lane's word i of four matrices whose rows start at `starts`.
fn loaded(starts: &[u32], transposed: bool, lane: usize, i: usize) -> [usize; 2] {
    let (group, member) = place(lane);
    let element = |row: usize, col: usize| starts[8 * i + row] as usize + col;
    [0, 1].map(|second| match transposed {
        false => element(group, 2 * member + second),
        true => element(2 * member + second, group),
    })
}

#[test]
fn matrices_are_loaded_as_they_are_and_transposed() {
    // Number i is element i: any other one is noticed.
    let elements: Vec<u16> = (0..512).map(|i| i + 1000).collect();
    let in_order: Vec<u32> = (0..32).map(|lane| 8 * lane).collect();
    let padded = (0..32).map(|lane| lane / 16 * 256 + lane % 16 * 16).collect();
    // Rows anywhere, some of them the same.
    let random: Vec<u32> = random_bits(32 * 20).map(|bits| (bits >> 20) as u32 % 64 * 8).collect();
    let mut runs = vec![in_order, padded];
    runs.extend(random.chunks(32).map(<[u32]>::to_vec));
    each_module_from((8, 0), |gpu| {
        for (kernel, transposed) in [("load_rows", false), ("load_columns", true)] {
            for starts in &runs {
                let out = Buffer::<u32>::zeros(128);
                let (from, at) = (Buffer::new(&elements), Buffer::new(starts));
                gpu.run(kernel, 1, 32, &[&Slice(&from), &Slice(&at), &&out]);
                for (word, found) in out.download().into_iter().enumerate() {
                    let (lane, i) = (word / 4, word % 4);
                    let places = loaded(starts, transposed, lane, i);
                    let [low, high] = places.map(|place| u32::from(elements[place]));
                    let found = [found & 0xffff, found >> 16];
                    assert_eq!(
                        found,
                        [low, high],
                        "{kernel} of {}: lane {lane}, matrix {i}, rows at {starts:?}",
                        gpu.name
                    );
                }
            }
        }
    });
}

#[test]
fn bytes_are_permuted_as_on_the_host() {
    let numbers: Vec<u32> = random_bits(30_000).map(|bits| bits as u32).collect();
    let mut words: Vec<[u32; 3]> =
        numbers.chunks_exact(3).map(|words| [words[0], words[1], words[2]]).collect();
    // Every selector of 16 bits once.
    words.extend((0..=0xffff).map(|selector| [0x8342_c106, 0x07e5_24f9, selector]));
    each_module(|gpu| {
        let (input, out) = (Buffer::new(&words), Buffer::<u32>::zeros(words.len()));
        gpu.run("permute", words.len().div_ceil(256) as u32, 256, &[&Slice(&input), &&out]);
        for ([low, high, selector], found) in words.iter().zip(out.download()) {
            let expected = permute_bytes(*low, *high, *selector);
            assert_eq!(
                format!("{found:08x}"),
                format!("{expected:08x}"),
                "permute of {}: {low:08x}, {high:08x}, selector {selector:08x}",
                gpu.name
            );
        }
    });
}
