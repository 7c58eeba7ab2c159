//! Which colour, marker and dash each candidate has, the same in every chart of every record.

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

/// The looks of a record's names.
pub struct Palette {
    looks: HashMap<String, Look>,
}

impl Palette {
    /// Looks for the record's candidates and the kernels that `gemmite` chose.
    pub fn new(record: &Record) -> Palette {
        let lines = record.lines.iter();
        let mut names: Vec<&str> = lines
            .flat_map(|line| [Some(line.candidate.as_str()), kernel(line)])
            .flatten()
            .collect();
        // Known names first, so that none of the others takes their slot.
        names.sort_by_key(|name| (preferred(name).1, *name));
        names.dedup();
        let (mut looks, mut taken) = (HashMap::new(), HashSet::from([Look { slot: 0 }]));
        for name in names {
            let first = preferred(name).0;
            let slots = || (0..SLOTS).map(|i| Look { slot: (first + i) % SLOTS });
            let new_colour = |look: &Look| taken.iter().all(|other| other.class() != look.class());
            let look = match name {
                "gemmite" => Some(Look { slot: first }),
                _ => slots().find(new_colour).or(slots().find(|look| !taken.contains(look))),
            };
            let look = look.unwrap_or(Look { slot: first });
            taken.insert(look);
            looks.insert(name.to_owned(), look);
        }
        Palette { looks }
    }

    /// The look of `name`.
    pub fn look(&self, name: &str) -> Look {
        self.looks.get(name).copied().unwrap_or(Look { slot: preferred(name).0 })
    }
}

/// The kernel that a timed `gemmite` line names at the start of its note.
pub fn kernel(line: &Line) -> Option<&str> {
    let ours = line.candidate == "gemmite" && line.state == State::Timed;
    let end = line.note.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(line.note.len());
    Some(&line.note[..end]).filter(|name| ours && !name.is_empty())
}

/// The slot that a name has if no other has it, and whether the name is an unknown one.
fn preferred(name: &str) -> (usize, bool) {
    if let Some((_, slot)) = KNOWN.iter().find(|(known, _)| *known == name) {
        return (*slot, false);
    }
    // FNV-1a: the same on every machine and in every version.
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    ((hash % SLOTS as u64) as usize, true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{line, record};

    #[test]
    fn each_name_has_its_own_look() {
        let names: Vec<String> = (0..30).map(|i| format!("k{i:02}_new")).collect();
        let known = ["gemmite", "cublaslt_best", "torch"].map(str::to_owned);
        let lines: Vec<_> = names.iter().chain(&known).map(|name| line("a", name, 1.0)).collect();
        let palette = Palette::new(&record(&lines));
        let looks: HashSet<Look> = lines.iter().map(|l| palette.look(&l.candidate)).collect();
        assert_eq!(looks.len(), lines.len());
        assert_eq!(palette.look("torch"), Palette::new(&record(&[])).look("torch"));
        assert_eq!(palette.look("gemmite").class(), "c0");
    }

    #[test]
    fn a_note_starts_with_the_kernel() {
        let mut chosen = line("a", "gemmite", 1.0);
        assert_eq!(kernel(&chosen), None);
        chosen.note = "k02_tiled_16, by rule".into();
        assert_eq!(kernel(&chosen), Some("k02_tiled_16"));
        chosen.state = State::Refused;
        assert_eq!(kernel(&chosen), None);
    }
}
