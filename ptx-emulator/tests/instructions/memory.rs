//! `ld` and `st` of every type, vector and state space, with their qualifiers (PTX ISA 9.7.9.8,
//! 9.7.9.11), and `cp.async`.

use super::case::{Bound, Case, fill};
use super::inputs::Random;
use super::integer::{bits, low, value};

const THREADS: u32 = 96;

/// A state space: how its places are declared, and how a thread's 32 bytes get there.
struct Space {
    name: &'static str,
    declaration: &'static str,
    place: &'static str,
}

const COPY: &str = "    ld.global.v2.b64 {%rd7, %rd8}, [%rd3];\n    \
                    st$space.v2.b64 [%rd5], {%rd7, %rd8};\n    \
                    ld.global.v2.b64 {%rd7, %rd8}, [%rd3+16];\n    \
                    st$space.v2.b64 [%rd5+16], {%rd7, %rd8};";

const SPACES: [Space; 5] = [
    Space { name: ".global", declaration: "", place: "    mov.u64 %rd5, %rd3;" },
    Space { name: "", declaration: "", place: "    mov.u64 %rd5, %rd3;" },
    Space {
        name: ".shared",
        declaration: "    .shared .align 16 .b8 place[4096];",
        place: "    mov.u64 %rd5, place;\n    mul.wide.u32 %rd6, %r4, 32;\n    \
                add.u64 %rd5, %rd5, %rd6;\n$copy",
    },
    Space {
        name: ".local",
        declaration: "    .local .align 16 .b8 place[32];",
        place: "    mov.u64 %rd5, place;\n$copy",
    },
    // A generic address of shared memory.
    Space {
        name: " of shared",
        declaration: "    .shared .align 16 .b8 place[4096];",
        place: "    mov.u64 %rd5, place;\n    cvta.shared.u64 %rd5, %rd5;\n    \
                mul.wide.u32 %rd6, %r4, 32;\n    add.u64 %rd5, %rd5, %rd6;\n$copy",
    },
];

/// Bytes of every thread.
fn input() -> Vec<u8> {
    let mut random = Random(0x7777_1234_5678_9abd);
    (0..THREADS * 32).map(|_| random.next() as u8).collect()
}

/// The case of a load: `count` elements of a type to registers, which are then written, each to
/// `wide` bytes.
fn case(
    space: &Space,
    qualifier: &str,
    of: &str,
    count: usize,
    (kind, wide): (&str, usize),
) -> Case {
    let vector = if count == 1 { String::new() } else { format!(".v{count}") };
    let names: Vec<String> = (0..count).map(|i| format!("%d{i}")).collect();
    let registers = if count == 1 { names[0].clone() } else { format!("{{{}}}", names.join(", ")) };
    let generic = space.name.starts_with(' ');
    let written = if generic { "" } else { space.name };
    let load = format!("ld{qualifier}{written}{vector}.{of} {registers}, [%rd5]");
    let stores: String = names.iter().enumerate().fold(String::new(), |text, (i, name)| {
        text + &format!("    st.global.{kind} [%rd4+{}], {name};\n", wide * i)
    });
    let place = space.place.replace("$copy", &COPY.replace("$space", written));
    let values = [
        ("$load", &load[..]),
        ("$kind", kind),
        ("$declaration", space.declaration),
        ("$place", &place),
        ("$stores", &stores),
    ];
    let input = input();
    let mut expected = Vec::new();
    let size = bits(of) as usize / 8;
    for bytes in input.chunks(32) {
        let mut out = vec![0; 32];
        for i in 0..count {
            let mut word = [0; 8];
            word[..size].copy_from_slice(&bytes[size * i..size * (i + 1)]);
            // A narrow element is extended to the register's width.
            let register = low(&format!("s{}", 8 * wide), value(of, u64::from_le_bytes(word)));
            out[wide * i..wide * (i + 1)].copy_from_slice(&register.to_le_bytes()[..wide]);
        }
        expected.extend(out);
    }
    Case {
        name: load.replace(" {", " ").replace(['{', '}'], "")
            + if generic { space.name } else { "" },
        ptx: fill(include_str!("templates/memory.ptx"), &values),
        blocks: 2,
        threads: THREADS / 2,
        n: THREADS,
        input,
        expected,
        width: 8,
        bound: Bound::Bits,
    }
}

/// The register of a type, and its bytes.
fn register(of: &str) -> (&'static str, usize) {
    match bits(of) {
        8 | 16 => ("b16", 2),
        32 => ("b32", 4),
        _ => ("b64", 8),
    }
}

fn loads() -> Vec<Case> {
    let mut cases = Vec::new();
    for space in &SPACES {
        for of in ["u8", "s8", "b8", "u16", "s16", "b16", "u32", "s32", "b32", "u64", "s64", "b64"]
        {
            cases.push(case(space, "", of, 1, register(of)));
            for count in [2, 4] {
                if bits(of) as usize * count <= 128 {
                    cases.push(case(space, "", of, count, register(of)));
                }
            }
            if bits(of) < 32 {
                cases.push(case(space, "", of, 1, ("b32", 4)));
                cases.push(case(space, "", of, 1, ("b64", 8)));
            }
        }
    }
    let global = &SPACES[0];
    for qualifier in [".volatile", ".relaxed.gpu", ".acquire.sys", ".relaxed.cta"] {
        cases.push(case(global, qualifier, "u32", 1, ("b32", 4)));
        cases.push(case(&SPACES[2], qualifier, "u64", 1, ("b64", 8)));
    }
    for (i, hint) in CACHES.iter().enumerate() {
        // The hint stands after the state space.
        let space = Space { name: hint, declaration: "", place: global.place };
        let count = 1 + i % 2;
        cases.push(case(&space, "", "b32", count, ("b32", 4)));
    }
    cases
}

const CACHES: [&str; 10] = [
    ".global.ca",
    ".global.cg",
    ".global.cs",
    ".global.lu",
    ".global.cv",
    ".global.nc",
    ".global.nc.L1::no_allocate",
    ".global.L1::evict_last.L2::128B",
    ".global.L2::64B",
    ".global.nc.L2::256B",
];

/// The case of a store: 32 bytes, written in elements of a type.
fn store(qualifier: &str, of: &str, count: usize) -> Case {
    let size = bits(of) as usize / 8;
    let (kind, _) = register(of);
    let vector = if count == 1 { String::new() } else { format!(".v{count}") };
    let names: Vec<String> = (0..count).map(|i| format!("%d{i}")).collect();
    let registers = if count == 1 { names[0].clone() } else { format!("{{{}}}", names.join(", ")) };
    let load = format!("ld.global{vector}.{of} {registers}, [%rd5]");
    let name = format!("st{qualifier}{vector}.{of}");
    let stores = format!("    {name} [%rd4+16], {registers};");
    let values = [
        ("$load", &load[..]),
        ("$kind", kind),
        ("$declaration", ""),
        ("$place", "    mov.u64 %rd5, %rd3;"),
        ("$stores", &stores),
    ];
    let input = input();
    let expected = input.chunks(32).flat_map(|bytes| {
        let mut out = vec![0; 32];
        out[16..16 + size * count].copy_from_slice(&bytes[..size * count]);
        out
    });
    Case {
        name,
        ptx: fill(include_str!("templates/memory.ptx"), &values),
        blocks: 2,
        threads: THREADS / 2,
        n: THREADS,
        expected: expected.collect(),
        input,
        width: 8,
        bound: Bound::Bits,
    }
}

fn all_stores() -> Vec<Case> {
    let mut cases = Vec::new();
    for of in ["b8", "u8", "s16", "b16", "u32", "b32", "s64", "b64"] {
        for count in [1, 2, 4] {
            if bits(of) as usize * count <= 128 {
                cases.push(store(".global", of, count));
                cases.push(store("", of, count));
            }
        }
    }
    let qualifiers = [
        ".volatile.global",
        ".relaxed.gpu.global",
        ".release.sys.global",
        ".global.wb",
        ".global.cg",
        ".global.cs",
        ".global.wt",
        ".global.L1::no_allocate",
    ];
    cases.extend(qualifiers.map(|qualifier| store(qualifier, "b32", 1)));
    cases
}

/// `cp.async` of a size, with and without bytes left out, by groups and all at once.
fn copies() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, size, copied) in [
        ("cp.async.ca.shared.global [%rd5], [%rd3], 4", 4, 4),
        ("cp.async.ca.shared.global [%rd5], [%rd3], 8", 8, 8),
        ("cp.async.ca.shared.global [%rd5], [%rd3], 16", 16, 16),
        ("cp.async.cg.shared.global [%rd5], [%rd3], 16", 16, 16),
        ("cp.async.cg.shared.global.L2::128B [%rd5], [%rd3], 16", 16, 16),
        ("cp.async.ca.shared.global [%rd5], [%rd3], 16, 8", 16, 8),
        ("cp.async.cg.shared.global [%rd5], [%rd3], 16, 0", 16, 0),
        ("cp.async.ca.shared.global [%rd5], [%rd3], 4, 3", 4, 3),
    ] {
        for wait in [
            "cp.async.commit_group;\n    cp.async.wait_group 0",
            "cp.async.wait_all",
            "cp.async.commit_group;\n    cp.async.commit_group;\n    cp.async.wait_group 1",
        ] {
            let place = "    mov.u64 %rd5, place;\n    mul.wide.u32 %rd6, %r4, 16;\n    \
                         add.u64 %rd5, %rd5, %rd6;\n";
            let stores: String = (0..size / 4).fold(String::new(), |text, i| {
                text + &format!(
                    "    ld.shared.b32 %d0, [%rd5+{}];\n    st.global.b32 [%rd4+{}], %d0;\n",
                    4 * i,
                    4 * i
                )
            });
            let place = format!("{place}    {name};");
            let values = [
                ("$load", wait),
                ("$kind", "b32"),
                ("$declaration", "    .shared .align 16 .b8 place[1024];"),
                ("$place", &place),
                ("$stores", &stores),
            ];
            // The comment at the top is one line.
            let ptx = include_str!("templates/memory.ptx").replacen("$load", name, 1);
            let input = input();
            let expected = input.chunks(32).flat_map(|bytes| {
                let mut out = vec![0; 32];
                out[..copied].copy_from_slice(&bytes[..copied]);
                out
            });
            cases.push(Case {
                name: format!("{name} {}", wait.rsplit("    ").next().unwrap()),
                ptx: fill(&ptx, &values),
                blocks: 2,
                threads: THREADS / 2,
                n: THREADS,
                expected: expected.collect(),
                input,
                width: 8,
                bound: Bound::Bits,
            });
        }
    }
    cases
}

pub fn cases() -> Vec<Case> {
    [loads(), all_stores(), copies()].concat()
}
