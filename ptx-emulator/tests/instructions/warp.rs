//! Exchange and votes in a warp (PTX ISA 9.7.9.6, 9.7.13): `shfl`, `vote`, `match`, `redux`,
//! `activemask`, with all lanes and with half of them.

use super::case::{Bound, Case, fill};
use super::inputs::Random;
use super::integer::{low, value};

const TILES: usize = 8;

/// The lanes of a case: all, or the even ones.
#[derive(Clone, Copy, PartialEq)]
enum Lanes {
    All,
    Even,
}

impl Lanes {
    fn mask(self) -> u32 {
        if self == Lanes::All { u32::MAX } else { 0x5555_5555 }
    }

    fn has(self, lane: usize) -> bool {
        self.mask() >> lane & 1 == 1
    }
}

/// A warp's words: what a lane gets from those of all.
type Function<'a> = &'a dyn Fn(Lanes, &[[u32; 2]; 32], usize) -> [u32; 2];

/// A case for all lanes and one for the even ones: two words in, two out. In the body `%r4` and
/// `%r5` are the words, `%r6` and `%r7` the results, `$mask` the lanes; lanes that take no part
/// keep 0.
fn cases_of(name: &str, body: &str, word: &dyn Fn(u64) -> u32, f: Function<'_>) -> Vec<Case> {
    let mut cases = Vec::new();
    for lanes in [Lanes::All, Lanes::Even] {
        let mut random = Random(0x00ab_cdef_0123_4567);
        let (mut input, mut expected) = (Vec::new(), Vec::new());
        for _ in 0..TILES {
            let mut words = [[0; 2]; 32];
            for word_of in words.iter_mut().flatten() {
                *word_of = word(random.next());
            }
            for lane in 0..32 {
                let result = if lanes.has(lane) { f(lanes, &words, lane) } else { [0; 2] };
                input.extend(words[lane].iter().flat_map(|x| x.to_le_bytes()));
                expected.extend(result.iter().flat_map(|x| x.to_le_bytes()));
            }
        }
        let mask = format!("{:#x}", lanes.mask());
        let skip = if lanes == Lanes::All {
            ""
        } else {
            "    and.b32 %r1, %r2, 1;\n    setp.ne.u32 %p2, %r1, 0;\n    @%p2 bra done;\n"
        };
        let body = format!(
            "    ld.global.v2.b32 {{%r4, %r5}}, [%rd3];\n    mov.u32 %r6, 0;\n    \
             mov.u32 %r7, 0;\n{skip}{}done:\n    st.global.v2.b32 [%rd4], {{%r6, %r7}};",
            body.replace("$mask", &mask)
        );
        let values = [
            ("$name", name),
            ("$version", "8.4"),
            ("$declarations", "    .reg .pred %p<3>;"),
            ("$input", "8"),
            ("$output", "8"),
            ("$body", &body),
        ];
        let half = if lanes == Lanes::All { "" } else { " of even lanes" };
        cases.push(Case {
            name: format!("{name}{half}"),
            ptx: fill(include_str!("templates/warp.ptx"), &values),
            blocks: TILES as u32,
            threads: 32,
            n: TILES as u32,
            input,
            expected,
            width: 8,
            bound: Bound::Bits,
        });
    }
    cases
}

/// Where a shuffle reads from, and whether it is in range (PTX ISA 9.7.9.6).
fn source(mode: &str, lane: usize, b: u32, c: u32) -> (usize, bool) {
    let (lane, b) = (lane as i32, (b & 31) as i32);
    let (clamp, segment) = ((c & 31) as i32, (c >> 8 & 31) as i32);
    let last = lane & segment | clamp & !segment;
    let first = lane & segment;
    let (from, inside) = match mode {
        "up" => (lane - b, lane - b >= last),
        "down" => (lane + b, lane + b <= last),
        "bfly" => (lane ^ b, lane ^ b <= last),
        _ => (first | b & !segment, first | b & !segment <= last),
    };
    (if inside { from } else { lane } as usize, inside)
}

fn shuffles() -> Vec<Case> {
    let mut cases = Vec::new();
    for mode in ["up", "down", "bfly", "idx"] {
        // Whole warps, eights, and a tighter clamp.
        for c in [if mode == "up" { 0u32 } else { 31 }, 0x1800 | 31, 0x1807] {
            for b in [0u32, 1, 2, 4, 6, 17] {
                let c = if mode == "up" { c & !31 } else { c };
                // Even lanes read even lanes only.
                let odd = b % 2 == 1;
                let name = format!("shfl.sync.{mode}.b32 by {b}, {c:#x}");
                let body = format!(
                    "    shfl.sync.{mode}.b32 %r6|%p1, %r4, {b}, {c}, $mask;\n    \
                     selp.b32 %r7, 1, 0, %p1;\n"
                );
                let mut made = cases_of(&name, &body, &|x| x as u32, &|_, words, lane| {
                    let (from, inside) = source(mode, lane, b, c);
                    [words[from][0], u32::from(inside)]
                });
                made.truncate(if odd { 1 } else { 2 });
                cases.extend(made);
            }
        }
    }
    cases
}

fn votes() -> Vec<Case> {
    let mut cases = Vec::new();
    // Few, half or nearly all of the words are true.
    let word = |x: u64| u32::from(x >> 20 & 7 != 0);
    let all = |lanes: Lanes, words: &[[u32; 2]; 32], on: u32| {
        (0..32).filter(|&lane| lanes.has(lane)).all(|lane| words[lane][0] == on)
    };
    for (mode, f) in [
        ("all", (|yes, _| yes) as fn(bool, bool) -> bool),
        ("any", |_, no| !no),
        ("uni", |yes, no| yes || no),
    ] {
        let name = format!("vote.sync.{mode}.pred");
        let body = format!(
            "    setp.ne.u32 %p1, %r4, 0;\n    {name} %p2, %p1, $mask;\n    \
             selp.b32 %r6, 1, 0, %p2;\n    {name} %p2, !%p1, $mask;\n    \
             selp.b32 %r7, 1, 0, %p2;\n"
        );
        cases.extend(cases_of(&name, &body, &word, &|lanes, words, _| {
            let (yes, no) = (all(lanes, words, 1), all(lanes, words, 0));
            [f(yes, no).into(), f(no, yes).into()]
        }));
    }
    let body = "    setp.ne.u32 %p1, %r4, 0;\n    vote.sync.ballot.b32 %r6, %p1, $mask;\n    \
                activemask.b32 %r7;\n";
    cases.extend(cases_of("vote.sync.ballot.b32", body, &word, &|lanes, words, _| {
        let ballot = (0..32).filter(|&lane| lanes.has(lane));
        [ballot.map(|lane| words[lane][0] << lane).sum(), lanes.mask()]
    }));
    cases
}

fn matches() -> Vec<Case> {
    let word = |x: u64| (x >> 30) as u32 % 4;
    let same = |lanes: Lanes, words: &[[u32; 2]; 32], lane: usize| -> u32 {
        let equal = (0..32).filter(|&other| lanes.has(other) && words[other][0] == words[lane][0]);
        equal.map(|lane| 1 << lane).sum()
    };
    let any = "    match.any.sync.b32 %r6, %r4, $mask;\n";
    let all = "    match.all.sync.b32 %r6|%p1, %r4, $mask;\n    selp.b32 %r7, 1, 0, %p1;\n";
    let mut cases = cases_of("match.any.sync.b32", any, &word, &|lanes, words, lane| {
        [same(lanes, words, lane), 0]
    });
    for (name, modulus) in [("match.all.sync.b32", 4), ("match.all.sync.b32 of one value", 1)] {
        let word = |x: u64| (x >> 30) as u32 % modulus;
        cases.extend(cases_of(name, all, &word, &|lanes, words, lane| {
            let whole = same(lanes, words, lane) == lanes.mask();
            [if whole { lanes.mask() } else { 0 }, whole.into()]
        }));
    }
    cases
}

fn reductions() -> Vec<Case> {
    let mut cases = Vec::new();
    for (op, of) in [
        ("add", "u32"),
        ("add", "s32"),
        ("min", "u32"),
        ("min", "s32"),
        ("max", "u32"),
        ("max", "s32"),
        ("and", "b32"),
        ("or", "b32"),
        ("xor", "b32"),
    ] {
        let name = format!("redux.sync.{op}.{of}");
        let body = format!("    {name} %r6, %r4, $mask;\n");
        cases.extend(cases_of(&name, &body, &|x| x as u32, &|lanes, words, _| {
            let taking = (0..32).filter(|&lane| lanes.has(lane));
            let values = taking.map(|lane| value(of, words[lane][0].into()));
            let result = values.reduce(|x, y| match op {
                "add" => x + y,
                "min" => x.min(y),
                "max" => x.max(y),
                "and" => x & y,
                "or" => x | y,
                _ => x ^ y,
            });
            [low(of, result.unwrap()) as u32, 0]
        }));
    }
    cases
}

pub fn cases() -> Vec<Case> {
    [shuffles(), votes(), matches(), reductions()].concat()
}
