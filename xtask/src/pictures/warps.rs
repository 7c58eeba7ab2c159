//! Step 7: a warp's tile within the block's, before and after, and which lane has what.

use gemm_spec::Kernel;

use super::places::{lanes_of_pack, of_warp, places};
use super::strips::{a_thread, tile};
use super::svg::Svg;

const CELL: f64 = 20.0;

pub fn picture(before: &Kernel, after: &Kernel) -> String {
    let [rows, cols] = after.warp_extent();
    let [old_rows, old_cols] = before.warp_extent();
    let about = format!(
        "A warp computed {old_rows} x {old_cols} elements of the block's tile in step 6 and \
         computes a compact {rows} x {cols} in step 7. Its lanes lie row by row; a lane's \
         elements are four groups of 4 x 4, spread over the warp's tile."
    );
    let mut svg = Svg::new("Step 7: a compact tile for each warp", &about, (900.0, 330.0));
    let thread = a_thread(after);
    for (kernel, x, words) in [(before, 46.0, "step 6"), (after, 296.0, "step 7")] {
        let [rows, cols] = kernel.warp_extent();
        svg.text("small muted", (x, 46.0), &format!("{words}: a warp in the block's tile"));
        tile(&mut svg, kernel, thread, (x, 84.0), 180.0);
        let reads = rows + cols;
        let sum = format!("{rows} + {cols} = {reads} factors a k");
        svg.text("", (x, 290.0), &sum);
        svg.text("small muted", (x, 308.0), &format!("for {} products", rows * cols));
    }
    lanes(&mut svg, after, thread, (548.0, 84.0));
    svg.finish()
}

/// The warp's tile in groups as wide and high as a pack, each with the number of its lane.
fn lanes(svg: &mut Svg, kernel: &Kernel, thread: usize, (left, top): (f64, f64)) {
    let pack = lanes_of_pack(kernel);
    let [rows, cols] = kernel.warp_extent();
    let warp = thread / 32;
    let [first_row, first_col] = of_warp(kernel, warp).map(|places| places[0]);
    svg.text(
        "small muted",
        (left, 46.0),
        &format!("the {rows} x {cols} elements of that warp by lane:"),
    );
    svg.text(
        "small muted",
        (left, 62.0),
        &format!("a box is {pack} x {pack}, lane {} is filled", thread % 32),
    );
    for lane in 0..32 {
        let [own_rows, own_cols] = places(kernel, warp * 32 + lane);
        let class = if lane == thread % 32 { "c2 thin" } else { "c thin" };
        for row in own_rows.iter().step_by(pack) {
            for col in own_cols.iter().step_by(pack) {
                let x = left + ((col - first_col) / pack) as f64 * CELL;
                let y = top + ((row - first_row) / pack) as f64 * CELL;
                svg.rect(class, (x, y), (CELL, CELL));
                svg.text("small mid", (x + CELL / 2.0, y + 14.0), &lane.to_string());
            }
        }
    }
    let across = cols / kernel.tiles.thread[1];
    let words = format!("lanes 0 to {} read {across} neighbouring packs of tile_b,", across - 1);
    svg.text("small", (left, top + (rows / pack) as f64 * CELL + 22.0), &words);
    let words = "and all of them the same pack of tile_a: a broadcast";
    svg.text("small", (left, top + (rows / pack) as f64 * CELL + 38.0), words);
}
