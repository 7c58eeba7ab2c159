//! Step 5: how packs of 16 bytes of a row-major A become columns of the transposed tile.

use gemm_spec::Kernel;

use super::places::{lanes_of_pack, threads};
use super::svg::Svg;

/// Rows of A that are drawn.
const ROWS: usize = 16;
const CELL: f64 = 24.0;

/// The lane that carries element (row, k) of the tile: `Courier` for a matrix contiguous along K.
fn lane(row: usize, k: usize, depth: usize, pack: usize) -> usize {
    row * (depth / pack) + k / pack
}

pub fn picture(kernel: &Kernel) -> String {
    let [rows, _, depth] = kernel.tiles.block;
    let [thread_rows, thread_cols] = kernel.tiles.thread;
    let pack = lanes_of_pack(kernel);
    let about = format!(
        "The first {ROWS} rows of a step's tile of A, {depth} of K wide. Each lane reads {pack} \
         neighbours of a row with one instruction of 16 bytes, and writes them one below the other \
         to the transposed tile in shared memory."
    );
    let title = "Step 5: packs of 16 bytes, and the transposed tile of A";
    let mut svg = Svg::new(title, &about, (900.0, 492.0));
    let (left, top) = (20.0, 74.0);
    let note =
        format!("A in global memory: {ROWS} of {rows} rows, {depth} of K; the number is the lane");
    svg.text("small muted", (left, top - 14.0), &note);
    let right = 470.0;
    let note = format!("tile_a in shared memory: {depth} rows, one for each k");
    svg.text("small muted", (right, top - 14.0), &note);
    for row in 0..ROWS {
        for k in 0..depth {
            let lane = lane(row, k, depth, pack);
            let class = if lane == 5 { "a2 thin" } else { "a thin" };
            let from = (left + k as f64 * CELL, top + row as f64 * CELL);
            let to = (right + row as f64 * CELL, top + k as f64 * CELL);
            for (x, y) in [from, to] {
                svg.rect(class, (x, y), (CELL, CELL));
                svg.text("small mid", (x + CELL / 2.0, y + 16.0), &lane.to_string());
            }
        }
        for at in (0..depth).step_by(pack) {
            let from = (left + at as f64 * CELL, top + row as f64 * CELL);
            svg.rect("none bold", from, (pack as f64 * CELL, CELL));
        }
    }
    let x = left + depth as f64 * CELL + 16.0;
    svg.text("small", (x, top + 62.0), "one read of 16 bytes a lane");
    svg.text("small", (x, top + 82.0), &format!("and {pack} writes of one element,"));
    svg.text("small", (x, top + 98.0), &format!("to {pack} rows of tile_a"));
    let share = rows * depth / threads(kernel);
    let reads = thread_rows + thread_cols;
    let facts = [
        format!(
            "A thread's share of the tile: {rows} x {depth} / {} = {share} elements.",
            threads(kernel)
        ),
        format!("step 4: {share} reads of one element; step 5: {} of 16 bytes.", share / pack),
        format!("For each k a thread reads {thread_rows} factors of A and {thread_cols} of B:"),
        format!(
            "step 4's source: {reads} reads of one element; step 5: {} of 16 bytes.",
            reads / pack
        ),
    ];
    for (line, words) in facts.iter().enumerate() {
        svg.text("", (right, top + depth as f64 * CELL + 44.0 + line as f64 * 24.0), words);
    }
    svg.finish()
}
