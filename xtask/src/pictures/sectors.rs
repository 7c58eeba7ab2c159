//! Step 1: which 32-byte sectors of global memory a warp touches, for both orders of the threads.

use std::collections::BTreeSet;

use gemm_spec::{Kernel, ThreadOrder};

use super::places::places;
use super::svg::Svg;

/// Columns of each matrix.
const SIZE: usize = 4096;
/// Elements of f32 in a sector.
const SECTOR: usize = 8;
/// Pixels of an element.
const CELL: f64 = 10.0;
const TOP: f64 = 92.0;
const HEIGHT: f64 = 236.0;

/// The elements of each matrix that the first warp touches in its first step.
fn touched(kernel: &Kernel) -> [BTreeSet<(usize, usize)>; 3] {
    let mut touched = [BTreeSet::new(), BTreeSet::new(), BTreeSet::new()];
    for lane in 0..32 {
        let [rows, cols] = places(kernel, lane);
        let (row, col) = (rows[0], cols[0]);
        for (set, place) in touched.iter_mut().zip([(row, 0), (0, col), (row, col)]) {
            set.insert(place);
        }
    }
    touched
}

fn sectors(elements: &BTreeSet<(usize, usize)>) -> BTreeSet<usize> {
    elements.iter().map(|(row, col)| (row * SIZE + col) / SECTOR).collect()
}

pub fn picture(coalesced: &Kernel, uncoalesced: &Kernel) -> String {
    let counts =
        [coalesced, uncoalesced].map(|k| touched(k).each_ref().map(|set| sectors(set).len()));
    let about = format!(
        "The elements of A, B and C that the 32 lanes of a warp touch. Threads along the columns: \
         {} sectors of 32 bytes of A, {} of B, {} of C. Threads along the rows: {}, {} and {}.",
        counts[0][0], counts[0][1], counts[0][2], counts[1][0], counts[1][1], counts[1][2]
    );
    let title = "Step 1: the sectors of global memory that a warp touches";
    let mut svg = Svg::new(title, &about, (900.0, TOP + 2.0 * HEIGHT - 60.0));
    let note = "Each window shows the first 16 x 16 elements of a matrix. Filled: an element of \
                the first warp, for the first k. Outlined: a sector of 32 bytes.";
    svg.text("small muted", (20.0, 46.0), note);
    for (number, kernel) in [coalesced, uncoalesced].into_iter().enumerate() {
        row(&mut svg, kernel, TOP + number as f64 * HEIGHT);
    }
    svg.finish()
}

fn row(svg: &mut Svg, kernel: &Kernel, top: f64) {
    svg.text("", (20.0, top - 14.0), kernel.variant);
    let way = match kernel.order {
        ThreadOrder::AlongColumns => "threadIdx.x along the columns",
        ThreadOrder::AlongRows => "threadIdx.x along the rows",
    };
    svg.text("small muted", (200.0, top - 14.0), way);
    let names = ["reads of A", "reads of B", "writes of C"];
    let classes = ["a2", "b2", "c2"];
    let [extent, _, _] = kernel.tiles.block;
    let side = extent as f64 * CELL;
    for (number, elements) in touched(kernel).iter().enumerate() {
        let left = 20.0 + number as f64 * 300.0;
        svg.rect("empty thin", (left, top), (side, side));
        for (row, col) in elements {
            let at = (left + *col as f64 * CELL, top + *row as f64 * CELL);
            svg.rect(classes[number], at, (CELL, CELL));
        }
        let sectors = sectors(elements);
        for sector in &sectors {
            let (row, col) = (sector * SECTOR / SIZE, sector * SECTOR % SIZE);
            let at = (left + col as f64 * CELL, top + row as f64 * CELL);
            svg.rect("none bold", at, (SECTOR as f64 * CELL, CELL));
        }
        let words = [
            names[number].to_owned(),
            format!("{} elements", elements.len()),
            if sectors.len() == 1 {
                "1 sector".to_owned()
            } else {
                format!("{} sectors", sectors.len())
            },
        ];
        for (line, words) in words.iter().enumerate() {
            let class = if line == 2 { "" } else { "small muted" };
            svg.text(class, (left + side + 10.0, top + 14.0 + line as f64 * 19.0), words);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemm_spec::DType;

    #[test]
    fn sectors_are_counted() {
        let counts = |variant| {
            let kernel = Kernel::find(variant, DType::F32).unwrap();
            touched(kernel).each_ref().map(|set| sectors(set).len())
        };
        assert_eq!(counts("k01_naive"), [2, 2, 4]);
        assert_eq!(counts("k01_naive_uncoalesced"), [16, 1, 16]);
    }
}
