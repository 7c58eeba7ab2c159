//! Files of `gemmite tune`.

use crate::Target;
use gemmite::emulator::Options;
use gemmite::tune::{Tuning, tune};
use gemmite::{Device, Element, Gemm, Layout, Op, OutputOf, Plan, Shape, bf16};
use std::sync::LazyLock;

/// What a tuning says, under a checksum that is right: one that is not hides all else.
pub const TUNING: Target = Target {
    name: "tuning",
    what: "files of `gemmite tune` with right checksums, taken by an emulated GPU",
    seeds: || vec![TEXT.clone().into_bytes()],
    words: &[
        "plan ",
        "end ",
        "bf16",
        "f32",
        "f64",
        "i8",
        "full",
        "tf32",
        "bf16x6",
        "x",
        "along",
        "00",
        "01",
        "10",
        "11",
        "-",
        "yes",
        "no",
        "rows",
        "skew ",
        "k02_tiled_16",
        "skinny_row",
        "warp_group_64x64",
        "inf",
        "NaN",
        "\n",
    ],
    read,
};

static DEVICE: LazyLock<Device> = LazyLock::new(|| {
    let options = Options { arch: (8, 0), threads: 1, ..Options::default() };
    Device::emulator_with(&options).expect("it is a known one")
});

/// Of three products, whose last plans were the fastest.
static TEXT: LazyLock<String> = LazyLock::new(|| {
    let mut tuning = Tuning::new(&DEVICE).expect("it has plans");
    add::<f32, f32>(&mut tuning, Op::None, [9, 7, 40]);
    add::<f32, f32>(&mut tuning, Op::Transpose, [5, 8, 16]);
    add::<bf16, f32>(&mut tuning, Op::None, [3, 8, 24]);
    tuning.to_string()
});

fn add<T: Element, C: OutputOf<T>>(tuning: &mut Tuning, op_b: Op, [m, n, k]: [usize; 3]) {
    let gemm = Gemm::<T, C>::default().op_b(op_b);
    let b = if op_b == Op::Transpose { [n, k] } else { [k, n] };
    let [a, b] = [[m, k], b].map(|[rows, cols]| Layout::row_major(Shape::new(rows, cols)));
    let mut last_wins =
        |plans: &[Plan]| (0..plans.len()).rev().map(|i| Ok(1.0 + i as f64)).collect();
    tuning.add(&tune(&DEVICE, &gemm, [a, b], &mut last_wins).expect("it has plans"));
}

fn read(input: &[u8]) -> bool {
    let text = String::from_utf8_lossy(input);
    let Ok(tuning) = with_checksum(&text).parse::<Tuning>() else { return false };
    let again: Tuning = tuning.to_string().parse().expect("what was written is read");
    assert!(again == tuning, "{tuning}");
    DEVICE.forget_tuning();
    match DEVICE.take_tuning(&tuning) {
        Ok(()) => true,
        Err(error) => {
            assert!(error.is_tuning(), "{error}");
            false
        }
    }
}

/// The text with its last line's checksum in order, that of the library's: FNV-1a.
fn with_checksum(text: &str) -> String {
    let body = text.trim_end().rfind('\n').map_or("", |end| &text[..=end]);
    let sum = body.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let plans = body.lines().filter(|line| line.starts_with("plan ")).count();
    format!("{body}end {plans} {sum:016x}\n")
}
