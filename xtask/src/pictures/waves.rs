//! Step 10: the tiles of C that one wave of blocks computes, and the strips that it reads.

use std::collections::HashSet;

use anyhow::{Context, Result};
use gemm_spec::{Kernel, order};

use super::svg::Svg;
use crate::workspace::Workspace;

/// Multiprocessors of an H100 SXM.
const MULTIPROCESSORS: usize = 132;
/// M = N = K of the panels.
const SIZES: [usize; 2] = [4096, 8192];
const SIDE: f64 = 176.0;

/// Rows of tiles in a group, from the kernel's source.
pub fn group(workspace: &Workspace) -> Result<u32> {
    let path = "gpu-kernels/src/ladder/k10_grouped_order.rs";
    let text = workspace.sh.read_file(path)?;
    let (_, value) = text.split_once("const GROUP: u32 = ").context("no GROUP in k10's source")?;
    let value = value.split(';').next().unwrap_or_default();
    value.parse().with_context(|| format!("GROUP = {value}"))
}

/// What a wave touches.
struct Wave {
    tiles: Vec<(u32, u32)>,
    rows: usize,
    cols: usize,
}

/// The waves of `wave` blocks that compute C of `tiles` x `tiles` tiles.
fn waves(tiles: u32, group: u32, wave: usize) -> Vec<Wave> {
    let blocks: Vec<u32> = (0..tiles * tiles).collect();
    let of = |blocks: &[u32]| {
        let place = |block: &u32| order::grouped(*block, tiles, tiles, group);
        let tiles: Vec<(u32, u32)> = blocks.iter().map(place).collect();
        let rows = tiles.iter().map(|(row, _)| row).collect::<HashSet<_>>().len();
        let cols = tiles.iter().map(|(_, col)| col).collect::<HashSet<_>>().len();
        Wave { tiles, rows, cols }
    };
    blocks.chunks(wave).map(of).collect()
}

/// Strips of A and B that the waves touch, added up.
fn strips(waves: &[Wave]) -> usize {
    waves.iter().map(|wave| wave.rows + wave.cols).sum()
}

pub fn picture(kernel: &Kernel, group: u32) -> String {
    let wave = MULTIPROCESSORS * kernel.tiles.min_blocks;
    let [tile, _, _] = kernel.tiles.block;
    let cases = SIZES.map(|size| [1, group].map(|group| (size, group)));
    let describe = |(size, group): (usize, u32)| {
        let waves = waves((size / tile) as u32, group, wave);
        format!(
            "{size} in groups of {group}: {} strips in the first wave",
            waves[0].rows + waves[0].cols
        )
    };
    let about = cases.concat().into_iter().map(describe).collect::<Vec<_>>().join("; ");
    let title = "Step 10: the tiles of C in the first wave of blocks";
    let mut svg = Svg::new(title, &about, (900.0, 352.0));
    let note = format!(
        "{MULTIPROCESSORS} multiprocessors with {} blocks each: a wave of {wave}. Its tiles are \
         green; the strips of A (left) and B (above) that it reads are blue and orange.",
        kernel.tiles.min_blocks
    );
    svg.text("small muted", (20.0, 46.0), &note);
    for (number, (size, group)) in cases.concat().into_iter().enumerate() {
        panel(&mut svg, 36.0 + number as f64 * 220.0, (size, tile), group, wave);
    }
    svg.finish()
}

fn panel(svg: &mut Svg, left: f64, (size, tile): (usize, usize), group: u32, wave: usize) {
    let tiles = (size / tile) as u32;
    let waves = waves(tiles, group, wave);
    let first = &waves[0];
    let (top, cell) = (108.0, SIDE / f64::from(tiles));
    let words =
        if group == 1 { "row by row".to_owned() } else { format!("groups of {group} rows") };
    svg.text("", (left, 74.0), &format!("{size}^3, {words}"));
    svg.rect("empty", (left, top), (SIDE, SIDE));
    let (mut rows, mut cols) = (HashSet::new(), HashSet::new());
    for &(row, col) in &first.tiles {
        let at = (left + f64::from(col) * cell, top + f64::from(row) * cell);
        svg.rect("c2", at, (cell, cell));
        if rows.insert(row) {
            svg.rect("a2", (left - 14.0, at.1), (10.0, cell));
        }
        if cols.insert(col) {
            svg.rect("b2", (at.0, top - 14.0), (cell, 10.0));
        }
    }
    svg.rect("none edge", (left, top), (SIDE, SIDE));
    let (y, strips) = (top + SIDE + 22.0, strips(&waves));
    let sum = format!("{} + {} = {} strips", first.rows, first.cols, first.rows + first.cols);
    svg.text("", (left, y), &sum);
    let all = format!("all {} waves: {strips}", waves.len());
    svg.text("small muted", (left, y + 20.0), &all);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strips_are_those_of_the_documentation() {
        // gemm_spec::order: 32 x 32 tiles in waves of 132.
        let first = |group| (waves(32, group, 132)[0].rows, waves(32, group, 132)[0].cols);
        assert_eq!((first(1), first(8)), ((5, 32), (8, 17)));
        assert_eq!([strips(&waves(32, 1, 132)), strips(&waves(32, 8, 132))], [295, 220]);
    }
}
