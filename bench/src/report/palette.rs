//! Which colour, marker and dash each name has in the charts of a record.
//!
//! Names that meet in a picture have a palette of their own: candidates one, the kernels behind
//! `gemmite` another. The first eight names of a palette have eight colours; more of them are told
//! apart by colour and marker together. Ours and the known peers look the same in every record.

use super::ladder::LADDER;
use crate::record::{Line, Record, State};
use std::collections::{HashMap, HashSet};

/// Colours in [`super::style::COLOURS`].
const COLOURS: usize = 8;
/// Marker shapes. Their number and that of the colours have no common factor, so every slot is
/// another pair.
const SHAPES: usize = 5;
/// Pairs of colour and shape.
const SLOTS: usize = COLOURS * SHAPES;
/// Dash patterns of lines.
const DASHES: [&str; 5] = ["none", "6 3", "2 3", "9 3 2 3", "4 2"];

/// Names with a slot of their own, none of them in the colour of losses. Peers of a GPU never meet
/// those of the CPU in one record.
const KNOWN: [(&str, usize); 11] = [
    ("gemmite", 0),
    ("cublaslt_best", 2),
    ("cublaslt_first", 6),
    ("cublas", 4),
    ("torch", 3),
    ("triton", 31),
    ("nvcc", 5),
    ("gemm", 2),
    ("matrixmultiply", 4),
    ("ndarray", 3),
    ("numpy", 6),
];

/// The look of one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Look {
    /// Which of the slots.
    slot: usize,
}

impl Look {
    /// The CSS class that sets the colour `--c`.
    pub fn class(self) -> String {
        format!("c{}", self.slot % COLOURS)
    }

    /// The marker's shape: 0 circle, 1 square, 2 triangle, 3 diamond, 4 triangle on its tip.
    pub fn shape(self) -> usize {
        self.slot % SHAPES
    }

    /// The line's `stroke-dasharray`.
    pub fn dash(self) -> &'static str {
        DASHES[self.slot % DASHES.len()]
    }
}

/// The looks of names that meet in a picture.
pub struct Palette {
    looks: HashMap<String, Look>,
}

impl Palette {
    /// Looks for the candidates of a record, without those of the ladder alone, whose figures need
    /// none.
    pub fn of_candidates(record: &Record) -> Palette {
        let lines = record.lines.iter().filter(|line| line.suite != LADDER);
        Palette::new(lines.map(|line| line.candidate.as_str()))
    }

    /// Looks for these names.
    pub fn new<'a>(names: impl Iterator<Item = &'a str>) -> Palette {
        let mut names: Vec<&str> = names.collect();
        // Known names first, so that none of the others takes their slot.
        names.sort_by_key(|name| (known(name).is_none(), *name));
        names.dedup();
        let (mut looks, mut taken) = (HashMap::new(), HashSet::new());
        for name in names {
            let first = known(name).unwrap_or(0);
            let slots = || (0..SLOTS).map(|i| Look { slot: (first + i) % SLOTS });
            let new_colour =
                |look: &Look| taken.iter().all(|other: &Look| other.class() != look.class());
            let look = slots().find(new_colour).or(slots().find(|look| !taken.contains(look)));
            let look = look.unwrap_or(Look { slot: first });
            taken.insert(look);
            looks.insert(name.to_owned(), look);
        }
        Palette { looks }
    }

    /// The look of `name`.
    pub fn look(&self, name: &str) -> Look {
        self.looks.get(name).copied().unwrap_or(Look { slot: 0 })
    }
}

/// The slot of a known name.
fn known(name: &str) -> Option<usize> {
    KNOWN.iter().find(|(known, _)| *known == name).map(|(_, slot)| *slot)
}

/// The kernel that a timed `gemmite` line names at the start of its note, without the dtype.
pub fn kernel(line: &Line) -> Option<&str> {
    let ours = line.candidate == "gemmite" && line.state == State::Timed;
    let end = line.note.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(line.note.len());
    let name = &line.note[..end];
    let variant = name.strip_suffix(line.dtype.as_str()).and_then(|rest| rest.strip_suffix('_'));
    Some(variant.unwrap_or(name)).filter(|name| ours && !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{line, record};

    /// The looks of these names together.
    fn looks(names: &[String]) -> Vec<Look> {
        let palette = Palette::new(names.iter().map(String::as_str));
        names.iter().map(|name| palette.look(name)).collect()
    }

    #[test]
    fn eight_names_have_eight_colours_and_more_have_other_markers() {
        let known = ["gemmite", "cublaslt_best", "cublaslt_first", "cublas", "torch", "triton"];
        let known: Vec<String> = known.map(str::to_owned).into();
        for seed in 0..50 {
            let names = (0..30).map(|i| format!("k{i:02}_idea_{seed}"));
            let names: Vec<String> = known.iter().cloned().chain(names).collect();
            let classes = |names: &[String]| -> HashSet<String> {
                looks(names).into_iter().map(Look::class).collect()
            };
            assert_eq!(classes(&names[..8]).len(), 8);
            assert_eq!(classes(&names[6..14]).len(), 8);
            assert_eq!(looks(&names).into_iter().collect::<HashSet<_>>().len(), names.len());
            assert_eq!(looks(&names)[..6], looks(&known), "known names keep their looks");
        }
        assert_eq!(looks(&known)[0].class(), "c0");
    }

    #[test]
    fn the_ladder_takes_no_colours() {
        let names: Vec<String> = (0..30).map(|i| format!("k{i:02}_idea")).collect();
        let mut lines: Vec<_> = names.iter().map(|name| line("ladder", name, 1.0)).collect();
        lines.push(line("square", "torch", 1.0));
        let palette = Palette::of_candidates(&record(&lines));
        assert_eq!(palette.looks.len(), 1);
    }

    #[test]
    fn a_note_starts_with_the_kernel() {
        let mut chosen = line("a", "gemmite", 1.0);
        assert_eq!(kernel(&chosen), None);
        chosen.note = "k02_tiled_16, by rule".into();
        assert_eq!(kernel(&chosen), Some("k02_tiled_16"));
        chosen.note = "k02_tiled_16_f32".into();
        assert_eq!(kernel(&chosen), Some("k02_tiled_16"));
        chosen.state = State::Refused;
        assert_eq!(kernel(&chosen), None);
    }
}
