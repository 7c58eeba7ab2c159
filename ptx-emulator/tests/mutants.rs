//! Kernels with changes at random: whatever the text says, the emulator answers, with a result, an
//! error or a report, the same on one thread of the CPU and on three, and never panics.

use proptest::prelude::*;
use proptest::sample::{Index, select};
use ptx_emulator::{Arch, Argument, Emulator, Launch, Module, Options, Report};

/// Kernels of nvcc, one file for each family of instructions, and programs with what nvcc does not
/// write.
const TEXTS: [&str; 24] = [
    include_str!("nvcc/bits.ptx"),
    include_str!("nvcc/call.ptx"),
    include_str!("nvcc/cluster.ptx"),
    include_str!("nvcc/divergence.ptx"),
    include_str!("nvcc/dot.ptx"),
    include_str!("nvcc/half_axpy.ptx"),
    include_str!("nvcc/histogram.ptx"),
    include_str!("nvcc/indirect.ptx"),
    include_str!("nvcc/last_block.ptx"),
    include_str!("nvcc/matmul.ptx"),
    include_str!("nvcc/reduction.ptx"),
    include_str!("nvcc/scan.ptx"),
    include_str!("nvcc/softmax.ptx"),
    include_str!("nvcc/warp.ptx"),
    include_str!("misuse/barrier_count.ptx"),
    include_str!("misuse/cluster_race.ptx"),
    include_str!("misuse/copy_wait_too_few.ptx"),
    include_str!("misuse/mbarrier_too_few.ptx"),
    include_str!("misuse/product_in_a_branch.ptx"),
    include_str!("misuse/proxy_fence.ptx"),
    include_str!("misuse/registers.ptx"),
    include_str!("misuse/slot_reused.ptx"),
    include_str!("misuse/transaction_count.ptx"),
    include_str!("misuse/wgmma_without_wait.ptx"),
];

/// Pieces of PTX that mean something in many places.
const PIECES: [&str; 48] = [
    "%r1",
    "%rd1",
    "%f1",
    "%p1",
    "!%p1",
    "_",
    "%tid.x",
    "%laneid",
    "0",
    "1",
    "-1",
    "31",
    "32",
    "64",
    "0xffffffff",
    "0x8000000000000000",
    "0f7FC00000",
    "0d7FF0000000000000",
    ".u8",
    ".s16",
    ".u32",
    ".s64",
    ".b64",
    ".f16",
    ".f32",
    ".f64",
    ".pred",
    ".v2",
    ".v4",
    ".global",
    ".shared",
    ".local",
    ".param",
    ".sat",
    ".ftz",
    ".rz",
    ".cc",
    ".hi",
    ".wide",
    ".uni",
    ".sync",
    "[%rd1]",
    "[%rd1+-4]",
    "{%r1, %r2}",
    "%r1|%p1",
    "$L__BB0_2",
    "ret;",
    "bar.sync 0;",
];

/// What is done to a word of the text.
#[derive(Clone, Debug)]
enum Change {
    Remove,
    Replace(&'static str),
    Insert(&'static str),
    /// By another word of the same text.
    Swap(Index),
}

fn change() -> impl Strategy<Value = (Index, Change)> {
    let what = prop_oneof![
        1 => Just(Change::Remove),
        3 => select(&PIECES[..]).prop_map(Change::Replace),
        1 => select(&PIECES[..]).prop_map(Change::Insert),
        3 => any::<Index>().prop_map(Change::Swap),
    ];
    (any::<Index>(), what)
}

/// Words, numbers and marks, with the space between them.
fn words(text: &str) -> Vec<&str> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || "_$%".contains(c);
    let mut words = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let dot = usize::from(first == '.');
        let length = match rest[dot..].find(|c| !is_word(c)) {
            Some(0) => first.len_utf8(),
            Some(length) => dot + length,
            None => rest.len(),
        };
        words.push(&rest[..length]);
        rest = &rest[length..];
    }
    words
}

/// The text behind its header, with changes.
fn mutated(text: &str, changes: &[(Index, Change)]) -> String {
    let body = text.find(".address_size 64").expect("a header");
    let (header, body) = text.split_at(body);
    let original = words(body);
    let meaningful: Vec<usize> =
        (0..original.len()).filter(|&i| !original[i].trim().is_empty()).collect();
    let mut out: Vec<String> = original.iter().map(|&word| word.to_owned()).collect();
    for (place, change) in changes {
        let place = meaningful[place.index(meaningful.len())];
        out[place] = match change {
            Change::Remove => String::new(),
            Change::Replace(piece) => (*piece).to_owned(),
            Change::Insert(piece) => format!("{piece} {}", out[place]),
            Change::Swap(other) => original[meaningful[other.index(meaningful.len())]].to_owned(),
        };
    }
    header.to_owned() + &out.concat()
}

/// Launches all its kernels, each parameter an address of ones of its own or a small number, and
/// gives what is in memory then, or the report.
fn run(text: &str, threads: usize) -> Vec<Result<Vec<u8>, Box<Report>>> {
    let Ok(module) = Module::parse(text) else {
        return vec![];
    };
    let launch = |kernel: &str| {
        let options = Options {
            arch: Arch::new(9, 0),
            step_limit: 2000,
            threads,
            memory: 1 << 24,
            ..Options::default()
        };
        let mut gpu = Emulator::new(options);
        let memory = gpu.allocate(1 << 16).expect("memory");
        gpu.write(memory, &[1; 1 << 16]).expect("as large");
        // The parameters as the header says; a wrong guess is an error of the launch.
        let header = text.split_once(&format!(".entry {kernel}")).map_or("", |(_, rest)| rest);
        let header = header.split_once(')').map_or("", |(header, _)| header);
        let arguments: Vec<Argument> = header
            .split(".param")
            .skip(1)
            .zip(0_u64..)
            .map(|(parameter, i)| match parameter.trim_start().get(..4) {
                Some(".u64" | ".b64") => (memory + 8192 * i).into(),
                Some(".u16" | ".b16") => 1_u16.into(),
                _ => 5_i32.into(),
            })
            .collect();
        let launch = Launch { dynamic_shared: 256, ..Launch::new(4, 64) };
        gpu.launch(&module, kernel, &launch, &arguments)?;
        let mut bytes = vec![0; 1 << 16];
        gpu.read(memory, &mut bytes).expect("as large");
        Ok(bytes)
    };
    module.kernels().map(launch).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn an_answer_and_no_panic(
        text in select(&TEXTS[..]),
        changes in proptest::collection::vec(change(), 1..4),
    ) {
        let text = mutated(text, &changes);
        prop_assert_eq!(run(&text, 1), run(&text, 3));
    }
}

#[test]
fn without_changes_they_run_too() {
    for text in TEXTS {
        assert_eq!(mutated(text, &[]), text);
        assert_eq!(run(text, 1), run(text, 3));
    }
}
