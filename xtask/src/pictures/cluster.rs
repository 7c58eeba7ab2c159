//! Beyond the ladder: what the blocks of a cluster bring for each other, and what lies in a block's
//! shared memory.

use gemm_spec::{C_BOXES, Kernel};

use super::svg::Svg;

/// Columns of a box of C: 128 bytes of 16-bit elements.
const BOX: usize = 64;

/// Pixels of a row or column of C.
const SCALE: f64 = 0.9;

/// Pixels of a KiB of shared memory.
const KIB: f64 = 3.7;

pub fn picture(kernel: &Kernel) -> String {
    let [rows, cols, depth] = kernel.tiles.block;
    let (stages, cluster) = (kernel.tiles.stages, kernel.tiles.cluster);
    let title = "Beyond the ladder: a cluster's tiles, and a block's shared memory";
    let about = format!(
        "A cluster of {cluster} blocks computes tiles of {rows} x {cols} that lie one below the \
         other. In each step a block copies its own {rows} rows of A to itself, and {} of the \
         {cols} columns of B to all blocks of the cluster. Shared memory holds {stages} stages of \
         A and B, and {C_BOXES} boxes of C for each group.",
        cols / cluster
    );
    let mut svg = Svg::new(title, &about, (900.0, 480.0));
    let note = "To scale, but for K. Strong colours: what block 1 brings. B's boxes go to both \
                blocks at once.";
    svg.text("small muted", (20.0, 46.0), note);
    let (left, top) = (180.0, 110.0);
    let (width, height) = (cols as f64 * SCALE, rows as f64 * SCALE);
    for block in 0..cluster {
        let strong = if block == 0 { "" } else { "2" };
        let share = width / cluster as f64;
        let x = left + block as f64 * share;
        svg.rect(&format!("b{strong} thin"), (x, top - 34.0), (share, 28.0));
        let words = format!("{} columns of B", cols / cluster);
        svg.text("small mid", (x + share / 2.0, top - 16.0), &words);
        let y = top + block as f64 * (height + 6.0);
        svg.rect(&format!("a{strong} thin"), (left - 34.0, y), (28.0, height));
        svg.text("small", (20.0, y + height / 2.0 + 4.0), &format!("{rows} rows of A"));
        let groups = rows / kernel.tiles.warp[0];
        for group in 0..groups {
            let high = height / groups as f64;
            let y = y + group as f64 * high;
            svg.rect("c thin", (left, y), (width, high));
            let words = format!("block {block}, group {group}: {} x {cols} sums", rows / groups);
            svg.text("small mid", (left + width / 2.0, y + high / 2.0 + 4.0), &words);
        }
    }
    let words = format!("{depth} values of K a step");
    svg.text("small mid muted", (left + width / 2.0, top - 42.0), &words);
    work(&mut svg, kernel, (480.0, top));
    memory(&mut svg, kernel, top + cluster as f64 * (height + 6.0) + 40.0);
    svg.finish()
}

/// What a block's groups do at one time, beside each other.
fn work(svg: &mut Svg, kernel: &Kernel, (left, top): (f64, f64)) {
    let [rows, ..] = kernel.tiles.block;
    let (wait, multiply, write) = (24.0, 120.0, 36.0);
    svg.text("", (left, top), "At one time in a block (a scheme, lengths are not measured):");
    let mut bar = |class: &str, (x, y): (f64, f64), length: f64, words: &str| {
        svg.rect(&format!("{class} thin"), (left + x, y), (length, 26.0));
        svg.text("small mid", (left + x + length / 2.0, y + 17.0), words);
    };
    let mut y = top + 34.0;
    let turn = multiply + write;
    // The last ones have arrived before the last products; then the next tile's follow.
    let (first, ahead) = (wait + multiply - 12.0, 2.0);
    bar("a", (0.0, y), first, "copies for tile 0");
    bar("a", (first + ahead, y), turn - ahead, "copies for tile 1");
    for _ in 0..rows / kernel.tiles.warp[0] {
        y += 58.0;
        for tile in 0..2 {
            let at = wait + f64::from(tile) * turn;
            bar("c", (at, y), multiply, &format!("multiply tile {tile}"));
            bar("c2", (at + multiply, y), write - 2.0, "write");
        }
    }
    svg.text("small muted", (left, top + 28.0), "one thread of 128 brings");
    for group in 0..rows / kernel.tiles.warp[0] {
        let at = (left, top + 86.0 + 58.0 * group as f64);
        svg.text("small muted", at, &format!("128 threads: group {group}"));
    }
    let words = "While C is written, the next tile's first stages arrive.";
    svg.text("small muted", (left, y + 50.0), words);
}

/// The stages and the boxes of C, one behind the other.
fn memory(svg: &mut Svg, kernel: &Kernel, top: f64) {
    let [rows, cols, depth] = kernel.tiles.block;
    let kib = |elements: usize| (elements * kernel.dtype.size_bytes()) as f64 / 1024.0;
    let (a, b) = (kib(rows * depth), kib(cols * depth));
    let of_c = kib(rows * BOX) * C_BOXES as f64;
    let total = kernel.shared_bytes() as f64 / 1024.0;
    let words = format!("A block's shared memory, {total:.1} KiB:");
    svg.text("", (20.0, top), &words);
    let mut x = 20.0;
    let mut part = |class: &str, size: f64, words: &str| {
        svg.rect(&format!("{class} thin"), (x, top + 12.0), (size * KIB, 34.0));
        svg.text("small mid", (x + size * KIB / 2.0, top + 33.0), words);
        x += size * KIB;
    };
    for stage in 0..kernel.tiles.stages {
        part("a", a, &format!("A {stage}"));
        part("b", b, &format!("B {stage}"));
    }
    part("c", of_c, "C");
    let words = format!(
        "{} stages of {a} KiB of A and {b} KiB of B, and {C_BOXES} boxes of C a group; behind \
         them the barriers, two a stage",
        kernel.tiles.stages
    );
    svg.text("small muted", (20.0, top + 64.0), &words);
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemm_spec::DType;

    /// What is drawn is all that there is, but for the barriers.
    #[test]
    fn parts_fill_the_memory() {
        let kernel = Kernel::find("warp_group_128x256", DType::BF16).unwrap();
        let [rows, cols, depth] = kernel.tiles.block;
        let stages = kernel.tiles.stages * (rows + cols) * depth;
        let drawn = (stages + rows * BOX * C_BOXES) * kernel.dtype.size_bytes();
        let left = kernel.shared_bytes() - drawn;
        assert_eq!(left, 2 * kernel.tiles.stages * 8);
    }
}
