//! `wgmma.mma_async` (PTX ISA 9.7.15.5): shared operands without swizzle, A in registers, scales.
//!
//! The input of a tile is the image of A and of B in shared memory and the accumulators. As in
//! `matrix`, products of small integers are exact, and those of other numbers are the model's.

use ptx_emulator::tensor_core::{Accumulator, Element, Shape, Wgmma, layout};

use super::case::{Bound, Case, fill};
use super::inputs::Random;
use super::matrix::{
    accumulator_name, accumulator_pattern, accumulator_register, element_name, integer, list,
    number, pattern,
};

const TILES: u32 = 2;

/// Where the operands are and how they are scaled.
#[derive(Clone, Copy, Default)]
struct Form {
    /// A is in registers.
    registers: bool,
    /// `scale-d` is false: the accumulators are not read.
    fresh: bool,
    /// `imm-trans-b`: B's rows of n are contiguous.
    transposed_b: bool,
}

/// Bytes from 8 rows to the next 8; along k the next 16 bytes are 128 bytes on.
const ROWS: usize = 256;
const NEXT: usize = 128;

/// The offset of an element of A (row, k) or B (column, k) in its image (PTX ISA 9.7.15.5.1.2, no
/// swizzle).
fn offset(bytes: usize, transposed: bool, row: usize, k: usize) -> usize {
    let per_line = 16 / bytes;
    if transposed {
        row % 8 * bytes + row / 8 * ROWS + k % 8 * 16 + k / 8 * NEXT
    } else {
        row % 8 * 16 + row / 8 * ROWS + k % per_line * bytes + k / per_line * NEXT
    }
}

fn instruction(wgmma: &Wgmma, form: Form) -> String {
    let Shape { n, k, .. } = wgmma.shape();
    let sign = |negative| if negative { ", -1" } else { ", 1" };
    let float = !wgmma.a.is_integer();
    let scales =
        if float { sign(wgmma.negate_a).to_owned() + sign(wgmma.negate_b) } else { String::new() };
    let halves = matches!(wgmma.a, Element::F16 | Element::Bf16);
    let transposes = match (halves, form.registers) {
        (true, false) => format!(", 0, {}", u32::from(form.transposed_b)),
        (true, true) => format!(", {}", u32::from(form.transposed_b)),
        _ => String::new(),
    };
    let a = if form.registers { list("a", Wgmma::A_REGISTERS) } else { "%rd5".to_owned() };
    format!(
        "wgmma.mma_async.sync.aligned.m64n{n}k{k}.{}.{}.{}{} {}, {a}, %rd6, %p2{};",
        accumulator_name(wgmma.d),
        element_name(wgmma.a),
        element_name(wgmma.b),
        if wgmma.satfinite { ".satfinite" } else { "" },
        list("d", wgmma.accumulator_registers()),
        scales + &transposes,
    )
}

/// The kernel: copies both images to shared memory, multiplies, stores the accumulators.
fn ptx(wgmma: &Wgmma, form: Form) -> String {
    let images = (64 + wgmma.n) * 32;
    let (kind, _) = accumulator_register(wgmma.d);
    let registers = wgmma.accumulator_registers();
    let each = |f: &dyn Fn(usize) -> String| (0..registers).map(f).collect::<String>();
    let strides = ((NEXT as u64 / 16) << 16) | ((ROWS as u64 / 16) << 32);
    let values = [
        ("$instruction", instruction(wgmma, form)),
        ("$kind", kind.to_owned()),
        ("$registers", registers.to_string()),
        ("$images", images.to_string()),
        ("$input", (images + 512 * registers).to_string()),
        ("$output", (512 * registers).to_string()),
        ("$each", (4 * registers).to_string()),
        ("$loads", each(&|i| format!("    ld.global.{kind} %d{i}, [%rd3+{}];\n", 4 * i))),
        ("$stores", each(&|i| format!("    st.global.{kind} [%rd4+{}], %d{i};\n", 4 * i))),
        ("$strides", strides.to_string()),
        ("$scale", u32::from(!form.fresh).to_string()),
    ];
    fill(include_str!("templates/wgmma.ptx"), &values.each_ref().map(|(k, v)| (*k, &v[..])))
}

/// The matrices of a tile: A 64 x k, B k x n, C and D 64 x n, row-major patterns.
struct Tile {
    a: Vec<u64>,
    b: Vec<u64>,
    c: Vec<u64>,
    d: Vec<u64>,
}

/// The input and output of a tile.
fn bytes(wgmma: &Wgmma, form: Form, tile: &Tile) -> (Vec<u8>, Vec<u8>) {
    let Shape { m, n, k } = wgmma.shape();
    let size = wgmma.a.bits() / 8;
    let mut input = vec![0; (m + n) * 32];
    let mut put = |start: usize, pattern: u64| {
        input[start..start + size].copy_from_slice(&pattern.to_le_bytes()[..size]);
    };
    for i in 0..m * k {
        put(offset(size, false, i / k, i % k), tile.a[i]);
    }
    for i in 0..k * n {
        put(m * 32 + offset(size, form.transposed_b, i % n, i / n), tile.b[i]);
    }
    let mut output = Vec::new();
    for thread in 0..128 {
        for i in 0..m * n / 128 {
            let (row, column) = layout::wgmma_accumulator(thread, i);
            let size = wgmma.d.bits() / 8;
            input.extend(&tile.c[row * n + column].to_le_bytes()[..size]);
            output.extend(&tile.d[row * n + column].to_le_bytes()[..size]);
        }
    }
    (input, output)
}

fn exact_tile(wgmma: &Wgmma, form: Form, random: &mut Random) -> Tile {
    let Shape { m, n, k } = wgmma.shape();
    let a: Vec<i64> = (0..m * k).map(|_| integer(wgmma.a, random)).collect();
    let b: Vec<i64> = (0..k * n).map(|_| integer(wgmma.b, random)).collect();
    let c: Vec<i64> = (0..m * n).map(|_| random.below(401) as i64 - 200).collect();
    let negative = wgmma.negate_a != wgmma.negate_b;
    let d = (0..m * n).map(|i| {
        let dot: i64 = (0..k).map(|j| a[i / n * k + j] * b[j * n + i % n]).sum();
        let start = if form.fresh { 0 } else { c[i] };
        accumulator_pattern(wgmma.d, start + if negative { -dot } else { dot })
    });
    Tile {
        d: d.collect(),
        a: a.iter().map(|&x| pattern(wgmma.a, x)).collect(),
        b: b.iter().map(|&x| pattern(wgmma.b, x)).collect(),
        c: c.iter().map(|&x| accumulator_pattern(wgmma.d, x)).collect(),
    }
}

fn model_tile(wgmma: &Wgmma, form: Form, random: &mut Random) -> Tile {
    let Shape { m, n, k } = wgmma.shape();
    let like = if wgmma.d == Accumulator::F16 { Element::F16 } else { Element::Tf32 };
    let mut numbers = |count, element| -> Vec<u64> {
        (0..count).map(|_| number(element, true, random)).collect()
    };
    let (a, b, c) = (numbers(m * k, wgmma.a), numbers(k * n, wgmma.b), numbers(m * n, like));
    // The model's accumulators are registers of four warps.
    let mut warps: [Vec<[u32; 32]>; 4] =
        std::array::from_fn(|_| vec![[0; 32]; wgmma.accumulator_registers()]);
    let half = wgmma.d == Accumulator::F16;
    let place = |i: usize| if half { (i / 2, i % 2 * 16) } else { (i, 0) };
    for thread in 0..128 {
        for i in 0..m * n / 128 {
            let (row, column) = layout::wgmma_accumulator(thread, i);
            let (register, shift) = place(i);
            warps[thread / 32][register][thread % 32] |= (c[row * n + column] as u32) << shift;
        }
    }
    let narrow = |x: &[u64]| x.iter().map(|&x| x as u32).collect::<Vec<_>>();
    let accumulators = warps.each_mut().map(|warp| &mut warp[..]);
    wgmma.execute((9, 0), &narrow(&a), &narrow(&b), !form.fresh, accumulators);
    let mut d = vec![0; m * n];
    for thread in 0..128 {
        for i in 0..m * n / 128 {
            let (row, column) = layout::wgmma_accumulator(thread, i);
            let (register, shift) = place(i);
            let word = warps[thread / 32][register][thread % 32] >> shift;
            d[row * n + column] = u64::from(if half { word & 0xffff } else { word });
        }
    }
    Tile { a, b, c, d }
}

fn case(
    wgmma: &Wgmma,
    form: Form,
    kind: &str,
    tile: fn(&Wgmma, Form, &mut Random) -> Tile,
) -> Case {
    assert!(wgmma.is_valid());
    let mut random = Random(0x0dd0_1234_5678_9abd);
    let (mut input, mut expected) = (Vec::new(), Vec::new());
    for _ in 0..TILES {
        let (words, results) = bytes(wgmma, form, &tile(wgmma, form, &mut random));
        input.extend(words);
        expected.extend(results);
    }
    let instruction = instruction(wgmma, form);
    let (opcode, operands) = instruction.split_once(' ').unwrap();
    let scales = operands.rsplit_once("%p2").unwrap().1.trim_end_matches(';');
    let registers = if form.registers { " a in registers" } else { "" };
    let fresh = if form.fresh { " without C" } else { "" };
    let name = format!("{opcode}{registers}{fresh}{}{kind}", scales.replace(',', ""));
    let (ptx, bound) = (ptx(wgmma, form), Bound::Bits);
    Case { name, ptx, blocks: TILES, threads: 128, n: TILES, input, expected, width: 8, bound }
}

pub fn cases() -> Vec<Case> {
    use {Accumulator as D, Element as E};
    let mut cases = Vec::new();
    let plain = Form::default();
    let of = |n, a, b, d| {
        let (satfinite, negate_a, negate_b) = (false, false, false);
        Wgmma { n, a, b, d, satfinite, negate_a, negate_b }
    };
    for (a, b, d) in [
        (E::F16, E::F16, D::F32),
        (E::F16, E::F16, D::F16),
        (E::Bf16, E::Bf16, D::F32),
        (E::Tf32, E::Tf32, D::F32),
        (E::E4m3, E::E4m3, D::F32),
        (E::E4m3, E::E5m2, D::F16),
        (E::E5m2, E::E4m3, D::F32),
        (E::E5m2, E::E5m2, D::F16),
        (E::S8, E::S8, D::S32),
        (E::U8, E::S8, D::S32),
        (E::S8, E::U8, D::S32),
        (E::U8, E::U8, D::S32),
    ] {
        for n in [8, 16, 64] {
            cases.push(case(&of(n, a, b, d), plain, "", exact_tile));
        }
        let wgmma = of(24, a, b, d);
        cases.push(case(&wgmma, Form { fresh: true, ..plain }, "", exact_tile));
        cases.push(case(&wgmma, Form { registers: true, ..plain }, "", exact_tile));
        if a.is_integer() {
            cases.push(case(&Wgmma { satfinite: true, ..wgmma }, plain, "", exact_tile));
            continue;
        }
        cases.push(case(&of(32, a, b, d), plain, " model", model_tile));
        cases.push(case(&Wgmma { negate_a: true, ..wgmma }, plain, "", exact_tile));
        cases.push(case(&Wgmma { negate_b: true, ..wgmma }, plain, " model", model_tile));
        if a.bits() == 16 {
            for registers in [false, true] {
                let form = Form { transposed_b: true, registers, ..plain };
                cases.push(case(&wgmma, form, "", exact_tile));
            }
        }
    }
    cases.push(case(&of(256, E::Bf16, E::Bf16, D::F32), plain, "", exact_tile));
    cases
}
