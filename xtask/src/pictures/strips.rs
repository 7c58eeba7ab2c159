//! Steps 2 to 4: the strips of A and B that a block reads, and within its tile what a warp and a
//! thread compute and read.

use gemm_spec::{Kernel, KernelFamily};

use super::places::{of_warp, places, runs, threads};
use super::svg::Svg;

pub fn picture(kernel: &Kernel) -> String {
    let [rows, cols, depth] = kernel.tiles.block;
    let [thread_rows, thread_cols] = kernel.tiles.thread;
    let [warp_rows, warp_cols] = kernel.warp_extent();
    let about = format!(
        "Left: a block computes {rows} x {cols} elements of C and reads a strip of {rows} rows \
         of A and one of {cols} columns of B, {depth} of K at a time. Right: within the tile a \
         warp computes {warp_rows} x {warp_cols} elements, a thread {thread_rows} x \
         {thread_cols}."
    );
    let number = kernel.variant.get(1..3).unwrap_or_default().trim_start_matches('0');
    let title =
        format!("Step {number}, {}: what a block, a warp and a thread read", kernel.variant);
    let mut svg = Svg::new(&title, &about, (900.0, 486.0));
    matrices(&mut svg, kernel);
    let side = 320.0;
    let thread = a_thread(kernel);
    tile(&mut svg, kernel, thread, (500.0, 110.0), side);
    let words = [
        ("bold none", format!("the block's tile, {rows} x {cols}: {} threads", threads(kernel))),
        ("c edge", format!("a warp, {warp_rows} x {warp_cols}")),
        ("c2", format!("a thread, {thread_rows} x {thread_cols}: {}", per_k(kernel))),
    ];
    for (line, (class, words)) in words.iter().enumerate() {
        let y = 470.0;
        let x = [20.0, 330.0, 480.0][line];
        svg.rect(class, (x, y - 10.0), (11.0, 11.0));
        svg.text("small", (x + 18.0, y), words);
    }
    svg.finish()
}

fn per_k(kernel: &Kernel) -> String {
    let [rows, cols] = kernel.tiles.thread;
    let products = if rows * cols == 1 { "product" } else { "products" };
    format!("{rows} + {cols} reads for {} {products}", rows * cols)
}

/// The thread that is drawn: in the middle of a warp that is not at the edge.
pub fn a_thread(kernel: &Kernel) -> usize {
    let warps = threads(kernel) / 32;
    warps / 3 * 32 + 13
}

/// A, B and C with their strips, not to scale.
fn matrices(svg: &mut Svg, kernel: &Kernel) {
    let [rows, cols, depth] = kernel.tiles.block;
    let (left, top, side, gap) = (20.0, 60.0, 170.0, 20.0);
    let (right, below) = (left + side + gap, top + side + gap);
    let [a, b, c] = [(left, below), (right, top), (right, below)];
    let part = side / 5.0;
    for at in [a, b, c] {
        svg.rect("empty edge", at, (side, side));
    }
    svg.rect("a", (a.0, a.1 + 2.0 * part), (side, part));
    svg.rect("b", (b.0 + 3.0 * part, b.1), (part, side));
    let step = 12.0;
    svg.rect("a2", (a.0 + 60.0, a.1 + 2.0 * part), (step, part));
    svg.rect("b2", (b.0 + 3.0 * part, b.1 + 60.0), (part, step));
    svg.rect("c bold", (c.0 + 3.0 * part, c.1 + 2.0 * part), (part, part));
    svg.text("", (a.0 + 6.0, a.1 + 18.0), "A");
    svg.text("", (b.0 + 6.0, b.1 + 18.0), "B");
    svg.text("", (c.0 + 6.0, c.1 + 18.0), "C");
    svg.text("small", (a.0 + 6.0, a.1 + 2.0 * part - 5.0), &format!("{rows} rows, all of K"));
    svg.text("small", (b.0 + 6.0, b.1 + side - 8.0), &format!("{cols} columns"));
    svg.text("small", (a.0 + 40.0, a.1 + 3.0 * part + 14.0), &format!("a step: {depth} of K"));
    svg.text("small muted", (20.0, 46.0), "a block of the grid (not to scale)");
    svg.text("small muted", (430.0, 46.0), "its tile (to scale), and the factors of one step");
}

/// The block's tile of C with the tiles of A and B of one step beside it, to scale; the largest
/// extent is `side` wide.
pub fn tile(svg: &mut Svg, kernel: &Kernel, thread: usize, (x, y): (f64, f64), side: f64) {
    let [rows, cols, depth] = kernel.tiles.block;
    let unit = side / rows.max(cols) as f64;
    let size = |count: usize| count as f64 * unit;
    // Tiles of a step that would be as large as C's are drawn narrower.
    let deep = size(depth).min(40.0);
    let (a, b) = ((x - deep - 10.0, y), (x, y - deep - 10.0));
    svg.rect("empty", a, (deep, size(rows)));
    svg.rect("empty", b, (size(cols), deep));
    svg.rect("empty", (x, y), (size(cols), size(rows)));
    let [warp_rows, warp_cols] = of_warp(kernel, thread / 32).map(|places| runs(&places));
    let [thread_rows, thread_cols] = places(kernel, thread).map(|places| runs(&places));
    for (class_a, class_b, class_c, rows, cols) in
        [("a", "b", "c", &warp_rows, &warp_cols), ("a2", "b2", "c2", &thread_rows, &thread_cols)]
    {
        for &(row, count) in rows {
            svg.rect(class_a, (a.0, y + size(row)), (deep, size(count)));
            for &(col, wide) in cols {
                svg.rect(class_c, (x + size(col), y + size(row)), (size(wide), size(count)));
            }
        }
        for &(col, count) in cols {
            svg.rect(class_b, (x + size(col), b.1), (size(count), deep));
        }
    }
    for (at, extent) in
        [(a, (deep, size(rows))), (b, (size(cols), deep)), ((x, y), (size(cols), size(rows)))]
    {
        svg.rect("none edge", at, extent);
    }
    if kernel.family != KernelFamily::NoConflicts && kernel.family != KernelFamily::WarpTile {
        let narrowed = if deep < size(depth) { ", drawn narrower" } else { "" };
        svg.text("small", (a.0, y + size(rows) + 15.0), &format!("tile_a{narrowed}"));
        svg.text("small", (x + size(cols) + 6.0, b.1 + 12.0), "tile_b");
    }
}
