//! The table of cases.

use crate::case::{Case, Data};
use crate::place::Place;
use gemmite::{Op, Strides};

const N: Op = Op::None;
const T: Op = Op::Transpose;

/// Every case that [`Chosen`] picks.
///
/// # Panics
/// As [`Chosen::of_environment`].
pub fn table() -> Vec<Case> {
    let mut cases = shapes();
    cases.extend(transposes());
    cases.extend(places());
    cases.extend(factors());
    cases.extend(copied());
    cases.extend(numbers());
    cases.extend(chunks());
    Chosen::of_environment().cases(cases)
}

/// Which runs there are, of those of cases on engines, for runs under a sanitizer: with the
/// environment variable `GEMMITE_CASES=small` those of cases of at most 50,000 products, with
/// `GEMMITE_CASES=large` those of the others; with `GEMMITE_CASES=small:2/6` every sixth of these,
/// from number 2 on, for several processes at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chosen {
    /// Whether the cases are small ones, where not all are picked.
    small: Option<bool>,
    part: usize,
    parts: usize,
}

impl Chosen {
    /// What the variable says; all where there is none.
    ///
    /// # Panics
    /// It says something else.
    pub fn of_environment() -> Self {
        match std::env::var("GEMMITE_CASES") {
            Ok(which) => Chosen::parse(&which),
            Err(_) => Chosen { small: None, part: 0, parts: 1 },
        }
    }

    fn parse(which: &str) -> Self {
        let (size, part) = which.split_once(':').unwrap_or((which, "0/1"));
        let small = match size {
            "small" => Some(true),
            "large" => Some(false),
            _ => None,
        };
        let numbers = part.split_once('/').and_then(|(part, parts)| {
            Some((part.parse().ok()?, parts.parse().ok()?)).filter(|&(part, parts)| part < parts)
        });
        let Some((part, parts)) = numbers.filter(|_| small.is_some()) else {
            panic!(
                "GEMMITE_CASES is small or large, or one with :PART/PARTS behind it, not {which}"
            )
        };
        Chosen { small, part, parts }
    }

    /// The cases that are picked.
    fn cases(self, mut cases: Vec<Case>) -> Vec<Case> {
        let is_small = |case: &Case| case.products() <= 50_000;
        cases.retain(|case| self.small.is_none_or(|small| small == is_small(case)));
        cases
    }

    /// Whether run number `number` of such cases is picked.
    pub fn has(self, number: usize) -> bool {
        number % self.parts == self.part
    }
}

/// Empty, single, around the tiles of 8, 16, 32, 128 and 256, prime, long and thin.
fn shapes() -> Vec<Case> {
    let empty = [
        ("no rows", 0, 5, 7),
        ("no columns", 5, 0, 7),
        ("no terms", 5, 7, 0),
        ("nothing", 0, 0, 0),
    ];
    let single = [
        ("one element", 1, 1, 1),
        ("one row", 1, 33, 20),
        ("one column", 33, 1, 20),
        ("one term", 19, 21, 1),
    ];
    let tiles = [
        ("below tile 8", 7, 7, 7),
        ("tile 8", 8, 8, 8),
        ("above tile 8", 9, 9, 9),
        ("below tile 16", 15, 15, 15),
        ("tile 16", 16, 16, 16),
        ("above tile 16", 17, 17, 17),
        ("below tile 32", 31, 31, 31),
        ("tile 32", 32, 32, 32),
        ("above tile 32", 33, 33, 33),
        ("tiles and ends mixed", 47, 65, 31),
        ("whole tiles", 64, 96, 128),
        ("below tile 128", 127, 127, 15),
        ("tile 128", 128, 128, 16),
        ("above tile 128", 129, 129, 17),
        ("above tile 256", 257, 130, 65),
    ];
    let odd = [
        ("primes", 37, 53, 71),
        ("more primes", 101, 3, 89),
        ("tall", 1031, 3, 5),
        ("wide", 3, 1031, 5),
        ("deep", 2, 3, 4099),
        ("flat", 150, 170, 2),
        ("large", 130, 190, 210),
    ];
    let all = [&empty[..], &single, &tiles, &odd].concat();
    all.into_iter().map(|(name, m, n, k)| Case::new(name, m, n, k)).collect()
}

fn transposes() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, op_a, op_b) in [("A B", N, N), ("At B", T, N), ("A Bt", N, T), ("At Bt", T, T)] {
        let aligned = Case::new(format!("{name}, aligned rows"), 144, 264, 72);
        cases.push(aligned.ops(op_a, op_b).factors(0.5, Some(-1.0)));
        let ends = Case::new(format!("{name}, ends within a pack"), 133, 259, 37);
        cases.push(ends.ops(op_a, op_b).data(Data::Integers));
        cases.push(
            Case::new(format!("{name}, exact"), 35, 18, 50).ops(op_a, op_b).data(Data::Integers),
        );
        let strided = Case::new(format!("{name}, strided"), 20, 41, 33).ops(op_a, op_b);
        cases.push(
            strided.places(Place::Padded, Place::Spaced, Place::ColMajor).factors(-2.0, Some(0.5)),
        );
    }
    cases
}

fn places() -> Vec<Case> {
    use Place::*;
    [
        ("columns first", ColMajor, ColMajor, ColMajor),
        ("A by columns", ColMajor, RowMajor, RowMajor),
        ("B by columns", RowMajor, ColMajor, RowMajor),
        ("C by columns", RowMajor, RowMajor, ColMajor),
        ("padded rows", Padded, Padded, Padded),
        ("every other element", Spaced, Spaced, Spaced),
        ("rows backwards", RowsBackwards, RowsBackwards, RowsBackwards),
        ("columns backwards", ColsBackwards, ColsBackwards, ColsBackwards),
        ("all backwards", Backwards, Backwards, Backwards),
        ("A one row, B one column", RepeatedRow, RepeatedCol, RowMajor),
        ("A one column, B one row", RepeatedCol, RepeatedRow, Padded),
        ("A one element", RepeatedElement, RowMajor, Backwards),
        ("all one element", RepeatedElement, RepeatedElement, Spaced),
    ]
    .into_iter()
    .map(|(name, a, b, c)| {
        let case = Case::new(name, 34, 21, 19).places(a, b, c).factors(1.0, Some(-1.0));
        case.data(Data::Integers)
    })
    .collect()
}

/// Operands that no tensor map describes, of a C so large that they are copied for one.
fn copied() -> Vec<Case> {
    use Place::*;
    [
        ("every other element of much", Spaced, Spaced),
        ("much backwards", Backwards, RowsBackwards),
        ("much of one row, one column", RepeatedRow, RepeatedCol),
        ("much by columns, backwards", ColMajor, ColsBackwards),
    ]
    .into_iter()
    .map(|(name, a, b)| Case::new(name, 130, 150, 70).places(a, b, RowMajor))
    .collect()
}

fn factors() -> Vec<Case> {
    let of = |name: &str, alpha, beta| Case::new(name, 25, 35, 18).factors(alpha, beta);
    vec![
        of("beta 0 reads no C", 1.0, Some(0.0)),
        of("beta 1", 1.0, Some(1.0)),
        of("beta -3", 1.0, Some(-3.0)),
        of("alpha 0", 0.0, None),
        of("alpha 0, beta 0", 0.0, Some(0.0)),
        of("alpha 0, beta 2", 0.0, Some(2.0)),
        of("alpha 0 reads no A and B", 0.0, Some(2.0)).data(Data::Nan),
        of("alpha -1", -1.0, None),
        of("alpha 2.5, beta -1.5", 2.5, Some(-1.5)),
        of("alpha 2.5, beta -1.5, padded", 2.5, Some(-1.5)).places(
            Place::Padded,
            Place::Padded,
            Place::Padded,
        ),
        Case::new("no terms, beta 2", 18, 9, 0).factors(1.0, Some(2.0)),
        Case::new("no terms, beta 0", 18, 9, 0).factors(3.0, Some(0.0)),
    ]
}

fn numbers() -> Vec<Case> {
    let of = |name: &str, data| Case::new(name, 33, 18, 35).data(data);
    vec![
        of("NaN", Data::Nan),
        of("NaN, beta", Data::Nan).factors(1.0, Some(1.0)),
        of("infinity at the ragged end", Data::Infinite),
        of("infinity, transposed, alpha -1", Data::Infinite).ops(T, T).factors(-1.0, Some(1.0)),
        of("past the end of the range", Data::Large),
        of("past the end of the range, beta", Data::Large).factors(-2.0, Some(3.0)),
        of("subnormal products", Data::Tiny),
        of("small whole numbers", Data::Integers),
    ]
}

/// Rows and columns that start at multiples of 16 bytes in every dtype, for kernels that take no
/// others; around tiles of 128 x 256 and steps of 64.
fn chunks() -> Vec<Case> {
    // Rows or columns of `length` elements, and the room up to a multiple of 16 behind them and
    // `gap` more.
    let at = |length: usize, gap: usize| (length.next_multiple_of(16) + gap) as isize;
    let rows = |length, gap| Place::Strides(Strides::new(at(length, gap), 1));
    let cols = |length, gap| Place::Strides(Strides::new(1, at(length, gap)));
    let shapes = [
        ("one row", 1, 8, 8),
        ("one tile, one step", 64, 64, 64),
        ("K within a step", 64, 64, 8),
        ("ends within tiles", 127, 248, 72),
        ("past tiles", 257, 520, 24),
        ("past tiles, odd ends", 131, 771, 20),
        ("five tiles of rows", 513, 96, 24),
        ("seven steps", 65, 72, 391),
    ];
    let mut cases = Vec::new();
    for (name, op_a, op_b) in [("A B", N, N), ("At B", T, N), ("A Bt", N, T), ("At Bt", T, T)] {
        for (i, (shape, m, n, k)) in shapes.into_iter().enumerate() {
            let gap = i % 2 * 32;
            let place = |op, rows_of, cols_of| match op {
                N => rows(cols_of, gap),
                T => rows(rows_of, gap),
            };
            let (a, b) = (place(op_a, m, k), place(op_b, k, n));
            let case = Case::new(format!("{name} in chunks, {shape}"), m, n, k).ops(op_a, op_b);
            let case = case.data(if i % 2 == 0 { Data::Integers } else { Data::Normal });
            cases.push(match i % 3 {
                0 => case.places(a, b, rows(n, 0)),
                // Alpha is -1 for whole numbers.
                1 => case.places(a, b, Place::Padded).factors(-1.5, Some(2.0)),
                _ => case.places(a, b, rows(n, gap)).factors(2.0, None),
            });
        }
    }
    let of = |name: &str, a, b, c| Case::new(name, 150, 300, 72).places(a, b, c);
    let (a, b, c) = (rows(72, 0), rows(300, 16), rows(300, 16));
    cases.extend([
        of("in chunks, beta", a, b, c).factors(0.5, Some(-1.0)),
        of("in chunks, beta 0", a, b, c).factors(0.5, Some(0.0)),
        of("in chunks, C by columns", a, b, cols(150, 0)),
        of("in chunks, C spaced", a, b, Place::Spaced).factors(3.0, Some(1.0)),
        of("in chunks, C backwards", a, b, Place::Backwards),
        of("in chunks, C in pairs", a, b, Place::Strides(Strides::new(302, 1))),
        of("by columns in chunks", cols(150, 0), cols(72, 48), c),
        of("all by columns in chunks", cols(150, 16), cols(72, 0), cols(150, 0)),
        of("in chunks, NaN", a, b, c).data(Data::Nan),
        of("in chunks, infinity", a, b, c).data(Data::Infinite),
        of("in chunks, past the end of the range", a, b, c).data(Data::Large),
        Case::new("in chunks, infinity at a ragged end", 140, 264, 67)
            .places(rows(67, 0), cols(67, 0), rows(264, 0))
            .data(Data::Infinite),
        Case::new("in chunks, no gaps", 128, 512, 192),
        // By half a chunk for elements of 16 bits, by a quarter for those of 32.
        Case::new("in chunks, C starts within one", 72, 136, 48).places(
            Place::RowMajor,
            Place::RowMajor,
            Place::Behind(4),
        ),
        Case::new("in chunks, C starts within one, further", 72, 136, 48).places(
            Place::RowMajor,
            Place::RowMajor,
            Place::Behind(2),
        ),
    ]);
    cases
}

/// More tiles of C than run at one time, for kernels whose blocks go on from tile to tile; those
/// that [`Chosen`] picks.
///
/// # Panics
/// As [`Chosen::of_environment`].
pub fn many_tiles() -> Vec<Case> {
    Chosen::of_environment().cases(vec![
        Case::new("many tiles", 2064, 2056, 24).data(Data::Integers),
        Case::new("many tiles, both along K", 2064, 2056, 48).ops(N, T).data(Data::Integers),
        Case::new("many tiles, C padded, beta", 2064, 2056, 8)
            .ops(T, T)
            .places(Place::RowMajor, Place::RowMajor, Place::Padded)
            .factors(2.0, Some(-1.0)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique() {
        let cases = table();
        let names: HashSet<_> = cases.iter().map(|case| case.name.clone()).collect();
        assert_eq!(names.len(), cases.len());
    }

    #[test]
    fn small_and_large_cases_are_all_once() {
        let sorted = |cases: Vec<Case>| {
            let mut names: Vec<_> = cases.iter().map(|case| format!("{case:?}")).collect();
            names.sort_unstable();
            names
        };
        let cases = || -> Vec<Case> { shapes().into_iter().chain(places()).collect() };
        let [small, large] = ["small", "large"].map(|size| Chosen::parse(size).cases(cases()));
        assert!(small.len() > 6 && large.len() > 6);
        assert!(small.iter().all(|case| case.products() <= 50_000));
        assert_eq!(sorted([small, large].concat()), sorted(cases()));
    }

    #[test]
    fn each_run_is_in_one_part() {
        let parts: Vec<_> = (0..6).map(|part| Chosen::parse(&format!("large:{part}/6"))).collect();
        let parts_with = |number| parts.iter().filter(|part| part.has(number)).count();
        assert!((0..100).all(|number| parts_with(number) == 1));
        assert!((0..100).all(|number| Chosen::parse("small").has(number)));
    }

    #[test]
    #[should_panic(expected = "one with :PART/PARTS behind it, not small:6/6")]
    fn there_is_no_part_behind_the_last() {
        Chosen::parse("small:6/6");
    }

    #[test]
    #[should_panic(expected = "GEMMITE_CASES is small or large")]
    fn there_are_no_other_sizes() {
        Chosen::parse("middle:1/6");
    }
}
