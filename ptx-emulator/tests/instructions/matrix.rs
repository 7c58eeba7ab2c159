//! `mma`, `ldmatrix`, `stmatrix`, `movmatrix` (PTX ISA 9.7.14.5).
//!
//! Products of small integers are exact in every type and order, so they are computed with
//! integers. Products of other numbers are compared with the crate's model of the tensor cores,
//! which only a GPU can confirm; their names say "model".

use ptx_emulator::tensor_core::{Accumulator, Element, MMA_SHAPES, Mma, MmaShape, Shape, layout};

use super::case::{Bound, Case, fill};
use super::inputs::{Random, moderate, special};
use super::oracle::{Exact, Float, Mode};

/// Tiles of a case; each is a block.
const TILES: u32 = 4;

pub fn element_name(element: Element) -> &'static str {
    match element {
        Element::F16 => "f16",
        Element::Bf16 => "bf16",
        Element::Tf32 => "tf32",
        Element::F64 => "f64",
        Element::S8 => "s8",
        Element::U8 => "u8",
        Element::E4m3 => "e4m3",
        Element::E5m2 => "e5m2",
    }
}

pub fn accumulator_name(accumulator: Accumulator) -> &'static str {
    match accumulator {
        Accumulator::F16 => "f16",
        Accumulator::F32 => "f32",
        Accumulator::F64 => "f64",
        Accumulator::S32 => "s32",
    }
}

fn format(element: Element) -> Option<Float> {
    Some(match element {
        Element::F16 => Float::F16,
        Element::Bf16 => Float::Bf16,
        Element::Tf32 => Float::F32,
        Element::F64 => Float::F64,
        Element::E4m3 => Float::E4m3,
        Element::E5m2 => Float::E5m2,
        Element::S8 | Element::U8 => return None,
    })
}

/// The pattern of an integer in a type.
pub fn pattern(element: Element, x: i64) -> u64 {
    match format(element) {
        Some(float) => float.round(Exact::Number(x as f64), false, Mode::Nearest),
        None => x as u64 & 0xff,
    }
}

pub fn accumulator_pattern(accumulator: Accumulator, x: i64) -> u64 {
    let float = match accumulator {
        Accumulator::F16 => Float::F16,
        Accumulator::F32 => Float::F32,
        Accumulator::F64 => Float::F64,
        Accumulator::S32 => return x as u32 as u64,
    };
    float.round(Exact::Number(x as f64), false, Mode::Nearest)
}

/// Numbers from -4 to 4, of unsigned types from 0 to 8.
pub fn integer(element: Element, random: &mut Random) -> i64 {
    let x = random.below(9) as i64;
    if element == Element::U8 { x } else { x - 4 }
}

/// Any number of a type: moderate, a few special values if asked for.
pub fn number(element: Element, specials: bool, random: &mut Random) -> u64 {
    let Some(float) = format(element) else { return random.next() & 0xff };
    let special = special(float);
    if specials && random.below(24) == 0 {
        return special[random.below(special.len() as u64) as usize];
    }
    moderate(float, random)
}

/// `count` registers `%name0`, ... in braces.
pub fn list(name: &str, count: usize) -> String {
    let names: Vec<String> = (0..count).map(|i| format!("%{name}{i}")).collect();
    format!("{{{}}}", names.join(", "))
}

/// A kernel of one warp a tile: each lane loads its words, executes the body and stores its words.
fn per_lane(
    name: &str,
    version: &str,
    words: (usize, usize),
    declarations: &str,
    (load, body, store): (String, String, String),
) -> String {
    let values = [
        ("$name", name),
        ("$version", version),
        ("$declarations", declarations),
        ("$input", &(4 * words.0).to_string()),
        ("$output", &(4 * words.1).to_string()),
        ("$body", &(load + &body + &store)),
    ];
    fill(include_str!("templates/warp.ptx"), &values)
}

fn loads(name: &str, kind: &str, bytes: usize, first: usize, count: usize) -> String {
    (0..count)
        .map(|i| format!("    ld.global.{kind} %{name}{i}, [%rd3+{}];\n", first + bytes * i))
        .collect()
}

fn stores(name: &str, kind: &str, bytes: usize, count: usize) -> String {
    (0..count)
        .map(|i| format!("    st.global.{kind} [%rd4+{}], %{name}{i};\n", bytes * i))
        .collect()
}

/// The registers that hold accumulators.
pub fn accumulator_register(accumulator: Accumulator) -> (&'static str, usize) {
    match accumulator {
        Accumulator::F32 => ("f32", 4),
        Accumulator::F64 => ("f64", 8),
        Accumulator::F16 | Accumulator::S32 => ("b32", 4),
    }
}

/// The module of an `mma`.
fn mma_ptx(mma: &Mma, name: &str) -> String {
    let registers = mma.registers();
    let (kind, bytes) = if mma.a == Element::F64 { ("f64", 8) } else { ("b32", 4) };
    let (c_kind, _) = accumulator_register(mma.c);
    let (d_kind, _) = accumulator_register(mma.d);
    let declarations = format!(
        "    .reg .{kind} %a<{}>;\n    .reg .{kind} %b<{}>;\n    .reg .{c_kind} %c<{}>;\n    \
         .reg .{d_kind} %d<{}>;\n",
        registers.a, registers.b, registers.c, registers.d
    );
    let load = loads("a", kind, bytes, 0, registers.a)
        + &loads("b", kind, bytes, bytes * registers.a, registers.b)
        + &loads("c", c_kind, bytes, bytes * (registers.a + registers.b), registers.c);
    let operands = [("d", registers.d), ("a", registers.a), ("b", registers.b), ("c", registers.c)]
        .map(|(name, count)| list(name, count));
    let body = format!("    {name} {};\n", operands.join(", "));
    let store = stores("d", d_kind, bytes, registers.d);
    let words = registers.a + registers.b + registers.c;
    let words = (words * bytes / 4, registers.d * bytes / 4);
    let newer = matches!(mma.a, Element::E4m3 | Element::E5m2)
        && (mma.shape.k == 16 || mma.d == Accumulator::F16);
    per_lane(name, if newer { "8.7" } else { "8.4" }, words, &declarations, (load, body, store))
}

fn mma_name(mma: &Mma) -> String {
    let Shape { m, n, k } = mma.shape;
    format!(
        "mma.sync.aligned.m{m}n{n}k{k}.row.col{}.{}.{}.{}.{}",
        if mma.satfinite { ".satfinite" } else { "" },
        accumulator_name(mma.d),
        element_name(mma.a),
        element_name(mma.b),
        accumulator_name(mma.c),
    )
}

/// Writes an element to its place among the registers of a lane.
fn place(bytes: &mut [u8], bits: usize, index: usize, pattern: u64) {
    let start = index * bits / 8;
    let pattern = pattern.to_le_bytes();
    bytes[start..start + bits / 8].copy_from_slice(&pattern[..bits / 8]);
}

/// The matrices of a tile, row-major patterns.
struct Tile {
    a: Vec<u64>,
    b: Vec<u64>,
    c: Vec<u64>,
    d: Vec<u64>,
}

/// The input and output of a warp.
fn registers(mma: &Mma, tile: &Tile) -> (Vec<u8>, Vec<u8>) {
    let Shape { m, n, k } = mma.shape;
    let (mut input, mut output) = (Vec::new(), Vec::new());
    for lane in 0..32 {
        let bytes = |elements: usize, bits: usize| elements / 32 * bits / 8;
        let (a, b) = (bytes(m * k, mma.a.bits()), bytes(k * n, mma.b.bits()));
        let mut words = vec![0; a + b + bytes(m * n, mma.c.bits())];
        for i in 0..m * k / 32 {
            let (row, column) = layout::a(mma.a.bits(), m, lane, i);
            place(&mut words[..a], mma.a.bits(), i, tile.a[row * k + column]);
        }
        for i in 0..k * n / 32 {
            let (row, column) = layout::b(mma.b.bits(), lane, i);
            place(&mut words[a..a + b], mma.b.bits(), i, tile.b[row * n + column]);
        }
        let mut results = vec![0; bytes(m * n, mma.d.bits())];
        for i in 0..m * n / 32 {
            let (row, column) = layout::c(lane, i);
            place(&mut words[a + b..], mma.c.bits(), i, tile.c[row * n + column]);
            place(&mut results, mma.d.bits(), i, tile.d[row * n + column]);
        }
        input.extend(words);
        output.extend(results);
    }
    (input, output)
}

/// A tile of integers.
fn exact_tile(mma: &Mma, random: &mut Random) -> Tile {
    let Shape { m, n, k } = mma.shape;
    let a: Vec<i64> = (0..m * k).map(|_| integer(mma.a, random)).collect();
    let b: Vec<i64> = (0..k * n).map(|_| integer(mma.b, random)).collect();
    let c: Vec<i64> = (0..m * n).map(|_| random.below(401) as i64 - 200).collect();
    let d = (0..m * n).map(|i| {
        let products = (0..k).map(|j| a[i / n * k + j] * b[j * n + i % n]);
        accumulator_pattern(mma.d, c[i] + products.sum::<i64>())
    });
    Tile {
        d: d.collect(),
        a: a.iter().map(|&x| pattern(mma.a, x)).collect(),
        b: b.iter().map(|&x| pattern(mma.b, x)).collect(),
        c: c.iter().map(|&x| accumulator_pattern(mma.c, x)).collect(),
    }
}

/// A tile of other numbers, with the model's result.
fn model_tile(mma: &Mma, specials: bool, random: &mut Random) -> Tile {
    let Shape { m, n, k } = mma.shape;
    let c_like = match mma.c {
        Accumulator::F16 => Element::F16,
        Accumulator::F64 => Element::F64,
        _ => Element::Tf32,
    };
    let mut numbers = |count, element| -> Vec<u64> {
        (0..count).map(|_| number(element, specials, random)).collect()
    };
    let (a, b, c) = (numbers(m * k, mma.a), numbers(k * n, mma.b), numbers(m * n, c_like));
    let product = mma.product((9, 0));
    let mut d = vec![0; m * n];
    if mma.a == Element::F64 {
        product.run_f64(&a, &b, Some(&c), &mut d);
    } else {
        let narrow = |x: &[u64]| x.iter().map(|&x| x as u32).collect::<Vec<_>>();
        let mut result = vec![0; m * n];
        product.run(&narrow(&a), &narrow(&b), Some(&narrow(&c)), &mut result);
        d = result.into_iter().map(u64::from).collect();
    }
    Tile { a, b, c, d }
}

fn mma_case(mma: &Mma, kind: &str, tile: impl Fn(&mut Random) -> Tile) -> Case {
    let mut random = Random(0x1234_5678_9abc_def1);
    let (mut input, mut expected) = (Vec::new(), Vec::new());
    for _ in 0..TILES {
        let (words, results) = registers(mma, &tile(&mut random));
        input.extend(words);
        expected.extend(results);
    }
    let name = mma_name(mma);
    let bound = if mma.a == Element::F64 { Bound::BitsOrNan(Float::F64) } else { Bound::Bits };
    let (ptx, name) = (mma_ptx(mma, &name), format!("{name}{kind}"));
    Case { name, ptx, blocks: TILES, threads: 32, n: TILES, input, expected, width: 8, bound }
}

/// Every type of a row of the table.
fn products_of(row: &MmaShape) -> Vec<Mma> {
    let mut products = Vec::new();
    for &a in row.elements {
        for &b in row.elements {
            for &d in row.accumulators {
                let mma = Mma { shape: row.shape, a, b, c: d, d, satfinite: false };
                products.push(mma);
                if d == Accumulator::S32 {
                    products.push(Mma { satfinite: true, ..mma });
                }
            }
        }
    }
    products
}

pub fn mma_cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for mma in MMA_SHAPES.iter().flat_map(products_of) {
        cases.push(mma_case(&mma, "", |random| exact_tile(&mma, random)));
        if mma.d != Accumulator::S32 {
            cases.push(mma_case(&mma, " model", |random| model_tile(&mma, false, random)));
            cases.push(mma_case(&mma, " model with special values", |random| {
                model_tile(&mma, true, random)
            }));
        }
    }
    cases
}

/// Rows of 8 halves for `ldmatrix` and `stmatrix`: lane l names row (5 l + 3) mod the rows.
fn scattered(rows: usize, lane: usize) -> usize {
    (5 * lane + 3) % rows
}

/// The halves of 8 x 8 matrices, and the registers that hold them: (halves, words by lane).
fn matrices(count: usize, transposed: bool, random: &mut Random) -> (Vec<u8>, Vec<u8>) {
    let rows = 8 * count;
    let halves: Vec<u16> = (0..8 * rows).map(|_| random.next() as u16).collect();
    let mut words = Vec::new();
    for lane in 0..32 {
        for matrix in 0..count {
            // The two halves of a register: neighbours in a row, or in a column.
            for i in 0..2 {
                let (group, pair) = (lane / 4, lane % 4 * 2 + i);
                let (row, column) = if transposed { (pair, group) } else { (group, pair) };
                let place = scattered(rows, 8 * matrix + row) * 8 + column;
                words.extend(halves[place].to_le_bytes());
            }
        }
    }
    (halves.iter().flat_map(|x| x.to_le_bytes()).collect(), words)
}

fn matrix_case(load: bool, count: usize, transposed: bool) -> Case {
    let name = format!(
        "{}.sync.aligned.m8n8.x{count}{}.shared.b16",
        if load { "ldmatrix" } else { "stmatrix" },
        if transposed { ".trans" } else { "" }
    );
    let declarations =
        format!("    .reg .b32 %d<{count}>;\n    .shared .align 16 .b8 tile[{}];\n", 128 * count);
    // The address of the row that this lane names, and of this lane's words.
    let address = format!(
        "    mov.u32 %r4, tile;\n    mad.lo.u32 %r5, %r2, 5, 3;\n    and.b32 %r5, %r5, {};\n    \
         mad.lo.u32 %r5, %r5, 16, %r4;\n    mad.lo.u32 %r6, %r2, {}, %r4;\n",
        8 * count - 1,
        4 * count
    );
    let copy = |from: &str, to: &str| -> String {
        (0..count)
            .map(|i| format!("    ld{from}+{}];\n    st{to}+{}], %r7;\n", 4 * i, 4 * i))
            .collect()
    };
    let (registers, wait) = (list("d", count), "    bar.warp.sync 0xffffffff;\n");
    let parts = if load {
        (
            address + &copy(".global.b32 %r7, [%rd3", ".shared.b32 [%r6") + wait,
            format!("    {name} {registers}, [%r5];\n"),
            stores("d", "b32", 4, count),
        )
    } else {
        (
            address + &loads("d", "b32", 4, 0, count),
            format!("    {name} [%r5], {registers};\n{wait}"),
            copy(".shared.b32 %r7, [%r6", ".global.b32 [%rd4"),
        )
    };
    let ptx = per_lane(&name, "8.4", (count, count), &declarations, parts);
    let mut random = Random(0xfeed_beef_1234_5677);
    let (mut input, mut expected) = (Vec::new(), Vec::new());
    for _ in 0..TILES {
        let (halves, words) = matrices(count, transposed, &mut random);
        let (from, to) = if load { (halves, words) } else { (words, halves) };
        input.extend(from);
        expected.extend(to);
    }
    let bound = Bound::Bits;
    Case { name, ptx, blocks: TILES, threads: 32, n: TILES, input, expected, width: 8, bound }
}

fn movmatrix_case() -> Case {
    let name = "movmatrix.sync.aligned.m8n8.trans.b16".to_owned();
    let parts = (
        "    ld.global.b32 %r4, [%rd3];\n".to_owned(),
        format!("    {name} %r5, %r4;\n"),
        "    st.global.b32 [%rd4], %r5;\n".to_owned(),
    );
    let ptx = per_lane(&name, "8.4", (1, 1), "", parts);
    let half = |lane: usize, i: usize| (lane * 2 + i) as u16;
    let input = (0..32).flat_map(|lane| [half(lane, 0), half(lane, 1)]);
    // Element (row, column) lies in lane 4 * row + column / 2.
    let moved = (0..32).flat_map(|lane| {
        let (column, row) = (lane / 4, lane % 4 * 2);
        [0, 1].map(|i| half((row + i) * 4 + column / 2, column % 2))
    });
    let input = input.flat_map(u16::to_le_bytes).collect();
    let expected = moved.flat_map(u16::to_le_bytes).collect();
    let bound = Bound::Bits;
    Case { name, ptx, blocks: 1, threads: 32, n: 1, input, expected, width: 8, bound }
}

pub fn matrix_cases() -> Vec<Case> {
    let mut cases = vec![movmatrix_case()];
    for count in [1, 2, 4] {
        for transposed in [false, true] {
            cases.push(matrix_case(true, count, transposed));
            cases.push(matrix_case(false, count, transposed));
        }
    }
    cases
}
