//! `tma`: boxes of tensors of every rank, swizzles, edges, multicast, plain bytes.

use cuda_std::wgmma::{B32, B64, B128, Swizzle};
use gemmite::cuda::{TensorLayout, TensorSwizzle};

use super::launch::{Launch, map, words};
use crate::floats::random_bits;
use crate::gpu::{Buffer, Gpu, sm_90a};

/// A box of a tensor of words and where it is put in another one.
struct Case {
    sizes: &'static [u64],
    boxes: &'static [u32],
    at: &'static [i32],
    to_sizes: &'static [u64],
    to: &'static [i32],
    swizzle: TensorSwizzle,
}

/// The index, in a tensor of these sizes and strides in words, of the box's element; `None` where
/// it is outside.
fn index(sizes: &[u64], strides: &[u64], at: &[i32], inside: &[u64]) -> Option<usize> {
    let mut index = 0;
    for dimension in 0..sizes.len() {
        let coordinate = i64::from(at[dimension]) + inside[dimension] as i64;
        if !(0..sizes[dimension] as i64).contains(&coordinate) {
            return None;
        }
        index += coordinate as u64 * strides[dimension];
    }
    Some(index as usize)
}

/// Strides in words, each dimension 4 words longer than it has to be.
fn strides(sizes: &[u64]) -> Vec<u64> {
    let mut strides = vec![1];
    for size in &sizes[..sizes.len() - 1] {
        let last = strides[strides.len() - 1];
        strides.push((last * size).next_multiple_of(4) + 4);
    }
    strides
}

fn layout(sizes: &[u64], boxes: &[u32]) -> TensorLayout {
    let bytes: Vec<u64> = strides(sizes)[1..].iter().map(|words| 4 * words).collect();
    words(sizes, boxes).strides(&bytes)
}

/// Words from the first of a tensor to its last, in chunks of 16 bytes.
fn extent(sizes: &[u64]) -> usize {
    let last = sizes.iter().zip(strides(sizes)).map(|(size, stride)| (size - 1) * stride);
    (last.sum::<u64>() as usize + 1).next_multiple_of(4)
}

fn swizzled(swizzle: TensorSwizzle, word: usize) -> usize {
    let offset = 4 * word as u32;
    let offset = match swizzle {
        TensorSwizzle::None => offset,
        TensorSwizzle::B32 => B32::swizzled(offset),
        TensorSwizzle::B64 => B64::swizzled(offset),
        TensorSwizzle::B128 => B128::swizzled(offset),
    };
    offset as usize / 4
}

impl Case {
    fn check(&self, gpu: &Gpu, hint: u32) {
        let &Case { sizes, boxes, at, to_sizes, to, swizzle } = self;
        let rank = sizes.len();
        let count: u32 = boxes.iter().product();
        let from: Vec<u32> = random_bits(extent(sizes)).map(|bits| bits as u32 | 1).collect();
        let before: Vec<u32> = (0..extent(to_sizes) as u32).map(|i| i << 1).collect();
        let (from_words, to_words) = (Buffer::new(&from), Buffer::new(&before));
        let raw = Buffer::<u32>::zeros(count as usize);
        let from_map = map(&layout(sizes, boxes).swizzle(swizzle), &from_words);
        let to_map = map(&layout(to_sizes, boxes).swizzle(swizzle), &to_words);
        let places = Buffer::new(&[at, to].concat());
        let arguments = [
            (&from_map).into(),
            (&to_map).into(),
            (&places).into(),
            count.into(),
            hint.into(),
            (&raw).into(),
        ];
        Launch::new(1, 64).run(gpu, &format!("copy_box_{rank}"), &arguments);

        // Where a store writes: to the end of the chunk of 16 bytes in which a row ends.
        let mut written = to_sizes.to_vec();
        written[0] = written[0].next_multiple_of(4);
        let (mut raw_expected, mut expected) = (vec![0; count as usize], before);
        for word in 0..count as u64 {
            let mut rest = word;
            let inside: Vec<u64> = boxes
                .iter()
                .map(|size| {
                    let inside = rest % u64::from(*size);
                    rest /= u64::from(*size);
                    inside
                })
                .collect();
            let element = index(sizes, &strides(sizes), at, &inside).map_or(0, |i| from[i]);
            raw_expected[swizzled(swizzle, word as usize)] = element;
            if let Some(i) = index(&written, &strides(to_sizes), to, &inside) {
                expected[i] = element.wrapping_add(1);
            }
        }
        assert_eq!(raw.download(), raw_expected, "loaded, rank {rank}, {swizzle:?}, hint {hint}");
        assert_eq!(to_words.download(), expected, "stored, rank {rank}, {swizzle:?}, hint {hint}");
    }
}

/// Innermost coordinates are multiples of 4 words, and those of stores are not negative: an H100
/// answers "illegal instruction" to others.
#[rustfmt::skip]
const CASES: &[Case] = &[
    Case { sizes: &[300], boxes: &[64], at: &[248], to_sizes: &[200], to: &[148],
        swizzle: TensorSwizzle::None },
    Case { sizes: &[64, 20], boxes: &[32, 8], at: &[16, 7], to_sizes: &[80, 30], to: &[40, 20],
        swizzle: TensorSwizzle::None },
    Case { sizes: &[64, 20], boxes: &[32, 64], at: &[48, -2], to_sizes: &[36, 30], to: &[8, 3],
        swizzle: TensorSwizzle::B128 },
    Case { sizes: &[64, 90], boxes: &[16, 64], at: &[20, 20], to_sizes: &[64, 70], to: &[8, 60],
        swizzle: TensorSwizzle::B64 },
    Case { sizes: &[64, 90], boxes: &[8, 64], at: &[60, 40], to_sizes: &[64, 70], to: &[8, 16],
        swizzle: TensorSwizzle::B32 },
    Case { sizes: &[16, 7, 5], boxes: &[8, 4, 3], at: &[4, 1, 3], to_sizes: &[12, 9, 9],
        to: &[8, 6, 7], swizzle: TensorSwizzle::None },
    Case { sizes: &[32, 16, 5], boxes: &[32, 8, 3], at: &[0, 5, 1], to_sizes: &[32, 9, 9],
        to: &[0, 1, 2], swizzle: TensorSwizzle::B128 },
    Case { sizes: &[8, 5, 4, 3], boxes: &[4, 3, 2, 2], at: &[4, 1, 3, 0], to_sizes: &[12, 9, 9, 9],
        to: &[4, 2, 3, 4], swizzle: TensorSwizzle::None },
    Case { sizes: &[8, 3, 4, 3, 2], boxes: &[4, 2, 2, 3, 2], at: &[4, 1, 2, 0, 1],
        to_sizes: &[8, 6, 7, 8, 9], to: &[4, 2, 3, 4, 5], swizzle: TensorSwizzle::None },
];

#[rustfmt::skip]
const BEFORE_THE_FIRST_COLUMN: Case =
    Case { sizes: &[64, 20], boxes: &[32, 8], at: &[-8, -3], to_sizes: &[80, 30], to: &[4, 2],
        swizzle: TensorSwizzle::None };

/// A store writes whole chunks of 16 bytes: here the 3 words behind the 41 columns too.
#[rustfmt::skip]
const WITHIN_16_BYTES: Case =
    Case { sizes: &[33, 20], boxes: &[32, 8], at: &[16, 3], to_sizes: &[41, 30], to: &[16, 4],
        swizzle: TensorSwizzle::None };

/// All cases of a rank, with each hint.
fn check_rank(rank: usize) {
    sm_90a(|gpu| {
        for case in CASES.iter().filter(|case| case.sizes.len() == rank) {
            for hint in 0..3 {
                case.check(gpu, hint);
            }
        }
    });
}

#[test]
fn boxes_of_1_dimension() {
    check_rank(1);
}

#[test]
fn boxes_of_2_dimensions() {
    check_rank(2);
}

#[test]
fn boxes_of_3_dimensions() {
    check_rank(3);
}

#[test]
fn boxes_of_4_dimensions() {
    check_rank(4);
}

#[test]
fn boxes_of_5_dimensions() {
    check_rank(5);
}

#[test]
fn boxes_that_begin_before_the_first_column() {
    sm_90a(|gpu| BEFORE_THE_FIRST_COLUMN.check(gpu, 0));
}

#[test]
fn rows_that_end_within_16_bytes() {
    sm_90a(|gpu| WITHIN_16_BYTES.check(gpu, 0));
}

#[test]
fn a_prefetch_changes_nothing() {
    sm_90a(|gpu| {
        for case in CASES.iter().rev() {
            let numbers = vec![5u32; extent(case.sizes)];
            let from = Buffer::new(&numbers);
            let from_map = map(&layout(case.sizes, case.boxes), &from);
            let (at, out) = (Buffer::new(case.at), Buffer::<u32>::zeros(1));
            let kernel = format!("prefetch_box_{}", case.sizes.len());
            let arguments = [(&from_map).into(), (&at).into(), (&out).into()];
            Launch::new(1, 1).run(gpu, &kernel, &arguments);
            assert_eq!((out.download(), from.download()), (vec![1], numbers), "{kernel}");
        }
    });
}

#[test]
fn a_box_goes_to_the_blocks_of_the_mask() {
    sm_90a(|gpu| {
        let numbers: Vec<u32> = random_bits(64 * 32).map(|bits| bits as u32).collect();
        let from = Buffer::new(&numbers);
        let from_map = map(&words(&[64, 32], &[16, 16]), &from);
        let at = Buffer::new(&[8i32, 4]);
        let wanted: Vec<u32> = (0..256).map(|i| numbers[(4 + i / 16) * 64 + 8 + i % 16]).collect();
        for (sender, blocks) in (0..4u32).flat_map(|sender| (1..16u32).map(move |b| (sender, b))) {
            let out = Buffer::<u32>::zeros(1024);
            let arguments = [
                (&from_map).into(),
                (&at).into(),
                sender.into(),
                blocks.into(),
                (blocks & 1).into(),
                (&out).into(),
            ];
            Launch::new(4, 32).run(gpu, "multicast", &arguments);
            for (rank, found) in out.download().chunks_exact(256).enumerate() {
                let expected = if blocks >> rank & 1 != 0 { &wanted[..] } else { &[7; 256] };
                assert_eq!(found, expected, "sender {sender}, blocks {blocks:#b}, block {rank}");
            }
        }
    });
}

#[test]
fn bytes_go_there_and_back() {
    const COUNT: usize = 50;
    sm_90a(|gpu| {
        let numbers: Vec<u32> = random_bits(128 * COUNT).map(|bits| bits as u32 >> 1).collect();
        let (from, to) = (Buffer::new(&numbers), Buffer::<u32>::zeros(128 * COUNT));
        let last = Buffer::<u32>::zeros(COUNT);
        let count = COUNT as u32;
        let arguments = [(&from).into(), (&to).into(), count.into(), (&last).into()];
        Launch::new(1, 32).run(gpu, "copy_bytes", &arguments);
        let expected: Vec<u32> = numbers.iter().map(|number| number + 1).collect();
        assert_eq!(to.download(), expected);
        let lasts: Vec<u32> = expected.chunks_exact(128).map(|piece| piece[127]).collect();
        assert_eq!(last.download(), lasts);
    });
}
