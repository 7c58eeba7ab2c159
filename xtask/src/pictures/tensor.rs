//! Step 11: a warp's tile of the block's, what one instruction of it multiplies and which lane
//! holds what of that, and where the rows lie that a warp reads together.

use std::collections::BTreeMap;

use gemm_spec::{Kernel, Tiles};

use super::places::{of_warp, threads};
use super::strips::a_thread;
use super::svg::Svg;

/// Pixels of an element of an instruction.
const ELEMENT: f64 = 15.0;
/// Pixels of a word of shared memory.
const WORD: (f64, f64) = (13.5, 15.0);
/// Banks of shared memory, each a word of 4 bytes wide.
const BANKS: usize = 32;
/// Rows that are read at once: those of a matrix of `ldmatrix`, with 16 bytes of each.
const READ: usize = 8;

/// Extent along K of an instruction: of a row of A four lanes hold two words each.
fn instruction_depth(kernel: &Kernel) -> usize {
    2 * 4 * 4 / kernel.dtype.size_bytes()
}

/// The lane that holds sum (row, col) of an instruction.
fn lane_of_sum(row: usize, col: usize) -> usize {
    row % 8 * 4 + col / 2
}

/// The lane that holds an element of A or B: `outer` is its row or column, `word` its k in words.
fn lane_of_factor(outer: usize, word: usize) -> usize {
    outer % 8 * 4 + word % 4
}

pub fn picture(kernel: &Kernel) -> String {
    let ([rows, cols, _], [warp_rows, warp_cols]) = (kernel.tiles.block, kernel.tiles.warp);
    let ([high, wide], deep) = (kernel.tiles.thread, instruction_depth(kernel));
    let about = format!(
        "Left: a block computes {rows} x {cols} elements of C, a warp {warp_rows} x {warp_cols} of \
         them, an instruction {high} x {wide}; below, rows of a tile in shared memory and the \
         banks that they lie in, chunks in their order and chunks that change places. Right: which \
         lane holds each element of A, B and C of one instruction; of C, lane l has two neighbours \
         of row l / 4 and two of the row 8 further down."
    );
    let title = format!("Step 11, {}: a warp multiplies small matrices", kernel.dtype);
    let mut svg = Svg::new(&title, &about, (900.0, 594.0));
    block(&mut svg, kernel, (72.0, 106.0), 360.0);
    instruction(&mut svg, a_thread(kernel) % 32, (500.0, 66.0), [high, wide, deep], kernel);
    memory(&mut svg, kernel, 388.0);
    svg.finish()
}

/// The block's tile with its warps, and the tiles of a step beside it, to scale, `side` wide.
fn block(svg: &mut Svg, kernel: &Kernel, (x, y): (f64, f64), side: f64) {
    let [rows, cols, depth] = kernel.tiles.block;
    let [warp_rows, warp_cols] = kernel.tiles.warp;
    let ([high, wide], k) = (kernel.tiles.thread, instruction_depth(kernel));
    let size = |count: usize| count as f64 * side / cols as f64;
    let warp = a_thread(kernel) / 32;
    let [row, col] = of_warp(kernel, warp).map(|places| places[0]);
    let deep = size(depth);
    let (a, b) = ((x - deep - 6.0, y), (x, y - deep - 6.0));
    for (at, extent) in
        [(a, (deep, size(rows))), (b, (size(cols), deep)), ((x, y), (side, size(rows)))]
    {
        svg.rect("empty edge", at, extent);
    }
    svg.rect("a", (a.0, y + size(row)), (deep, size(warp_rows)));
    svg.rect("b", (x + size(col), b.1), (size(warp_cols), deep));
    svg.rect("c", (x + size(col), y + size(row)), (size(warp_cols), size(warp_rows)));
    // An instruction in the warp's tile: not the first, so that it is seen to be one of many.
    let (row, col) = (row + high, col + 2 * wide);
    svg.rect("a2", (a.0, y + size(row)), (size(k), size(high)));
    svg.rect("b2", (x + size(col), b.1), (size(wide), size(k)));
    svg.rect("c2", (x + size(col), y + size(row)), (size(wide), size(high)));
    for row in (0..rows).step_by(warp_rows) {
        for col in (0..cols).step_by(warp_cols) {
            let extent = (size(warp_cols), size(warp_rows));
            svg.rect("none edge", (x + size(col), y + size(row)), extent);
        }
    }
    let note = format!("the block's tile, {rows} x {cols}, and {depth} of K of A and B (to scale)");
    svg.text("small muted", (20.0, 46.0), &note);
    svg.text("small", (a.0, b.1 + 12.0), "A");
    svg.text("small", (a.0 + deep - 10.0, b.1 + 12.0), "B");
    let below = y + size(rows);
    let instructions = warp_rows / high * (warp_cols / wide);
    let lines = [
        ("c edge", format!("a warp, {warp_rows} x {warp_cols}: one of {}", threads(kernel) / 32)),
        ("c2", format!("an instruction, {high} x {wide} x {k}: {instructions} for each {k} of K")),
    ];
    for (line, (class, words)) in lines.iter().enumerate() {
        let at = (20.0 + 178.0 * line as f64, below + 22.0);
        svg.rect(class, (at.0, at.1 - 10.0), (11.0, 11.0));
        svg.text("small", (at.0 + 18.0, at.1), words);
    }
}

/// A, B and C of one instruction, in each box its lane; one lane's are filled.
fn instruction(
    svg: &mut Svg,
    lane: usize,
    (x, y): (f64, f64),
    [high, wide, deep]: [usize; 3],
    kernel: &Kernel,
) {
    let in_word = 4 / kernel.dtype.size_bytes();
    let (right, below) = (x + deep as f64 * ELEMENT + 10.0, y + deep as f64 * ELEMENT + 10.0);
    let mut draw = |class: &str, (x, y): (f64, f64), (row, col): (usize, usize), holder: usize| {
        let class = format!("{class}{} thin", if holder == lane { "2" } else { "" });
        let at = (x + col as f64 * ELEMENT, y + row as f64 * ELEMENT);
        svg.rect(&class, at, (ELEMENT, ELEMENT));
        svg.text("tiny mid", (at.0 + ELEMENT / 2.0, at.1 + 11.0), &holder.to_string());
    };
    for k in 0..deep {
        for row in 0..high {
            draw("a", (x, below), (row, k), lane_of_factor(row, k / in_word));
        }
        for col in 0..wide {
            draw("b", (right, y), (k, col), lane_of_factor(col, k / in_word));
        }
    }
    for row in 0..high {
        for col in 0..wide {
            draw("c", (right, below), (row, col), lane_of_sum(row, col));
        }
    }
    let (group, member) = (lane / 4, lane % 4);
    svg.text("small muted", (x, 46.0), "one instruction, and the lane that holds each element");
    let lines = [
        format!("C, {high} x {wide}, has A, {high} x {deep},"),
        format!("times B, {deep} x {wide}, added to it."),
        String::new(),
        format!("Filled: what lane {lane} holds."),
        format!("{lane} / 4 = {group}, {lane} % 4 = {member}; of C"),
        format!("rows {group} and {group} + 8,"),
        format!("columns 2 * {member} and 2 * {member} + 1."),
        format!("Of A the same rows, of B column {group}:"),
        format!("{in_word} neighbours along K in a register,"),
        format!("at k {in_word} * {member} and {} + {in_word} * {member}.", deep / 2),
    ];
    for (line, words) in lines.iter().enumerate() {
        svg.text("small", (x, y + 40.0 + line as f64 * 17.0), words);
    }
    for (words, at) in [("A", (x, below - 4.0)), ("B", (right - 12.0, y + 12.0))] {
        svg.text("small", at, words);
    }
    svg.text("small", (right + wide as f64 * ELEMENT + 5.0, below + 12.0), "C");
}

/// The words of shared memory that the first 16 bytes of each of [`READ`] rows of so many chunks
/// lie in, swizzled or not, and the row.
fn read_words(chunks: usize, swizzled: bool) -> BTreeMap<usize, usize> {
    let place = |row: usize| if swizzled { Tiles::swizzled(row, 0, chunks) } else { 0 };
    let row = |row: usize| (0..4).map(move |word| ((row * chunks + place(row)) * 4 + word, row));
    (0..READ).flat_map(row).collect()
}

/// How often shared memory has to be asked for them.
fn rounds(chunks: usize, swizzled: bool) -> usize {
    let mut banks = [0; BANKS];
    read_words(chunks, swizzled).keys().for_each(|word| banks[word % BANKS] += 1);
    banks.into_iter().max().unwrap_or(0)
}

fn times(rounds: usize) -> String {
    if rounds == 1 { "at once".to_owned() } else { format!("in {rounds} rounds") }
}

/// The first rows of the tile of A as they lie in shared memory, not swizzled and swizzled.
fn memory(svg: &mut Svg, kernel: &Kernel, top: f64) {
    let ([rows, _, depth], bytes) = (kernel.tiles.block, kernel.dtype.size_bytes());
    let note = format!(
        "A's tile in shared memory, rows along K, {READ} of them: a line has {BANKS} banks"
    );
    svg.text("small muted", (20.0, top - 26.0), &note);
    let note = "numbers: 16 bytes of a row, read together by ldmatrix; red: a bank met again";
    svg.text("small muted", (20.0, top - 11.0), note);
    let chunks = depth * bytes / 16;
    let mut y = top;
    for swizzled in [false, true] {
        let words = match swizzled {
            false => "Chunks of 16 bytes in their order: read",
            true => "Chunks that change places from row to row: read",
        };
        let words = format!("{words} {}", times(rounds(chunks, swizzled)));
        y = lines(svg, chunks, swizzled, y) + 13.0;
        svg.text("small", (20.0, y), &words);
        y += 10.0;
    }
    let across = rows * bytes / 16;
    let words = format!(
        "Rows across K, of {across} chunks, change eight: read {}, not {}.",
        times(rounds(across, true)),
        times(rounds(across, false)),
    );
    svg.text("small", (20.0, y + 10.0), &words);
}

/// [`READ`] rows of so many chunks, in lines of all banks; tells where they end.
fn lines(svg: &mut Svg, chunks: usize, swizzled: bool, top: f64) -> f64 {
    let read = read_words(chunks, swizzled);
    let mut met = [false; BANKS];
    for word in 0..READ * chunks * 4 {
        let (line, bank) = (word / BANKS, word % BANKS);
        let class = match read.get(&word) {
            Some(_) if met[bank] => "bad thin",
            Some(_) => "a2 thin",
            None => "a thin",
        };
        let at = (20.0 + bank as f64 * WORD.0, top + line as f64 * WORD.1);
        svg.rect(class, at, WORD);
        if let Some(row) = read.get(&word) {
            met[bank] = true;
            svg.text("tiny mid", (at.0 + WORD.0 / 2.0, at.1 + 11.0), &row.to_string());
        }
    }
    top + (READ * chunks * 4).div_ceil(BANKS) as f64 * WORD.1
}

#[cfg(test)]
mod tests {
    use gemm_spec::{DType, KernelFamily};

    use super::super::places::places;
    use super::*;

    /// Those of `places`, which another test holds to cover the tile.
    #[test]
    fn a_lane_has_the_sums_of_its_places() {
        let kernel = Kernel::find("k11_tensor_core", DType::F16).unwrap();
        let [high, wide] = kernel.tiles.thread;
        for row in 0..high {
            for col in 0..wide {
                let [rows, cols] = places(kernel, lane_of_sum(row, col));
                assert!(rows.contains(&row) && cols.contains(&col), "({row}, {col})");
            }
        }
    }

    #[test]
    fn a_lane_holds_four_words_of_a_and_two_of_b() {
        for (extent, words) in [(16, 4), (8, 2)] {
            let mut held = [0; 32];
            for outer in 0..extent {
                (0..8).for_each(|word| held[lane_of_factor(outer, word)] += 1);
            }
            assert_eq!(held, [words; 32]);
        }
    }

    #[test]
    fn swizzled_rows_are_read_at_once() {
        let by_matrices = |kernel: &&Kernel| {
            kernel.family == KernelFamily::TensorCore && kernel.dtype.size_bytes() <= 2
        };
        for kernel in gemm_spec::kernels().filter(by_matrices) {
            let [rows, cols, depth] = kernel.tiles.block;
            for row in [rows, cols, depth] {
                let chunks = row * kernel.dtype.size_bytes() / 16;
                assert_eq!(rounds(chunks, true), 1, "{}, {row}", kernel.name);
            }
        }
        // Rows of 64 bytes: every second one meets.
        assert_eq!(rounds(4, false), 4);
    }
}
