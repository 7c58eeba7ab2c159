//! Step 6: which banks of shared memory the lanes of a warp meet in.

use std::collections::BTreeMap;

use gemm_spec::{Kernel, Tiles};

use super::places::{lanes_of_pack, places};
use super::svg::Svg;

/// Banks of shared memory, each 4 bytes wide.
const BANKS: usize = 32;
const CELL: (f64, f64) = (26.0, 15.0);
const LEFT: f64 = 20.0;

/// The lanes that read each word, and the words of each bank: words of one bank are served one
/// after the other, lanes that want the same word at once.
type Access = BTreeMap<usize, Vec<usize>>;

/// Words (4 bytes) by lane.
fn access(words: impl Iterator<Item = (usize, usize)>) -> Access {
    let mut access = Access::new();
    for (lane, word) in words {
        access.entry(word).or_default().push(lane);
    }
    access
}

/// Words in the fullest bank: how often shared memory has to be asked.
fn rounds(access: &Access) -> usize {
    let mut banks = [0; BANKS];
    access.keys().for_each(|word| banks[word % BANKS] += 1);
    banks.into_iter().max().unwrap_or(0)
}

/// The transposing write of a warp: element 0 of each lane's pack of A (`Courier::store`).
fn write_of_a(kernel: &Kernel, padding: usize) -> Access {
    let ([rows, _, depth], pack) = (kernel.tiles.block, lanes_of_pack(kernel));
    let across = depth / pack;
    access((0..32).map(|lane| (lane, lane % across * pack * (rows + padding) + lane / across)))
}

/// The first factor of B of each lane, alone (`thread_tile`).
fn read_of_one(kernel: &Kernel) -> Access {
    access((0..32).map(|lane| (lane, places(kernel, lane)[1][0])))
}

/// The first pack of B's factors, of the 8 lanes that are served together.
fn read_of_b(kernel: &Kernel) -> Access {
    let pack = lanes_of_pack(kernel);
    access((0..8).flat_map(|lane| {
        let first = places(kernel, lane)[1][0];
        (0..pack).map(move |element| (lane, first + element))
    }))
}

pub fn picture(scalar: &Kernel, before: &Kernel, after: &Kernel) -> String {
    let padding = Tiles::PADDING;
    let pitch = after.tiles.block[0];
    let panels = [
        (
            "step 4, a warp reads its first factors of B: 16 threads in a row, 8 columns apart"
                .to_owned(),
            read_of_one(scalar),
        ),
        (
            format!("step 5, a warp writes a k of its packs of A: rows of {pitch} words"),
            write_of_a(before, 0),
        ),
        (
            format!("step 6, the same write: rows of {pitch} + {padding} words"),
            write_of_a(after, padding),
        ),
        (
            "step 5, lanes 0 to 7 read 16 bytes of B each: packs 8 columns apart".to_owned(),
            read_of_b(before),
        ),
        ("step 6, the same read: neighbours read neighbouring packs".to_owned(), read_of_b(after)),
    ];
    let about = panels.iter().map(|(words, access)| format!("{words}: {}", times(rounds(access))));
    let about = about.collect::<Vec<_>>().join(". ");
    let title = "Steps 4 to 6: the banks of shared memory that lanes meet in";
    let mut svg = Svg::new(title, &about, (900.0, 470.0));
    let note = "A column is a bank, a box a word of 4 bytes, the number in it the lane (the \
                first, where several want the word). Words of one bank wait for each other.";
    svg.text("small muted", (LEFT, 46.0), note);
    let mut top = 84.0;
    for (words, access) in &panels {
        top = panel(&mut svg, words, access, top);
    }
    svg.finish()
}

fn times(rounds: usize) -> String {
    if rounds == 1 { "once, no conflict".to_owned() } else { format!("{rounds} times") }
}

/// One access, down from `top`; tells where the next begins.
fn panel(svg: &mut Svg, words: &str, access: &Access, top: f64) -> f64 {
    let high = rounds(access);
    svg.text("", (LEFT, top), words);
    let bottom = top + 10.0 + high as f64 * CELL.1;
    let mut filled = [0; BANKS];
    for (word, lanes) in access {
        let bank = word % BANKS;
        let at = (LEFT + bank as f64 * CELL.0, bottom - (filled[bank] + 1) as f64 * CELL.1);
        let class = if filled[bank] == 0 { "c thin" } else { "bad thin" };
        svg.rect(class, at, CELL);
        svg.text("tiny mid", (at.0 + CELL.0 / 2.0, at.1 + 11.0), &lanes[0].to_string());
        filled[bank] += 1;
    }
    for (bank, filled) in filled.iter().enumerate() {
        let x = LEFT + bank as f64 * CELL.0;
        if *filled == 0 {
            svg.rect("empty thin", (x, bottom - CELL.1), CELL);
        }
        if bank % 4 == 0 || bank == BANKS - 1 {
            let words = bank.to_string();
            svg.text("tiny mid muted", (x + CELL.0 / 2.0, bottom + 12.0), &words);
        }
    }
    let sum = format!("served {}", times(rounds(access)));
    let class = if rounds(access) > 1 { "bad" } else { "c" };
    svg.rect(class, (682.0, top - 13.0), (170.0, 18.0));
    svg.text("mid", (767.0, top), &sum);
    bottom + 42.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemm_spec::DType;

    /// The guide's page of step 4 says so.
    #[test]
    fn two_rows_of_a_meet_in_step_4() {
        let kernel = Kernel::find("k04_thread_tile", DType::F32).unwrap();
        let depth = kernel.tiles.block[2];
        let read_of_a = access((0..32).map(|lane| (lane, places(kernel, lane)[0][0] * depth)));
        assert_eq!((read_of_a.len(), rounds(&read_of_a)), (2, 2));
    }

    #[test]
    fn padding_and_neighbours_end_the_conflicts() {
        let kernel = |variant| Kernel::find(variant, DType::F32).unwrap();
        let (before, after) = (kernel("k05_vector_loads"), kernel("k06_no_conflicts"));
        assert_eq!(rounds(&read_of_one(kernel("k04_thread_tile"))), 4);
        assert_eq!(rounds(&write_of_a(before, 0)), 2);
        assert_eq!(rounds(&write_of_a(after, Tiles::PADDING)), 1);
        assert_eq!(rounds(&read_of_b(before)), 2);
        assert_eq!(rounds(&read_of_b(after)), 1);
    }
}
