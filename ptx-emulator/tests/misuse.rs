//! Every class of misuse: a small program that commits it and is caught, with the line and the
//! thread, and its corrected twin that runs. The programs are in tests/misuse; the line that is to
//! be reported says so there in a comment, and so does the other side of a race.

use ptx_emulator::bulk::{Fill, Interleave, Promotion, Swizzle, TensorElement, TensorMap};
use ptx_emulator::{AccessKind, Arch, Argument, Emulator, Launch, Module, Options, Timing};
use ptx_emulator::{Report, ReportKind};

/// A file with the kernels `wrong` and `right`.
struct Case {
    name: &'static str,
    ptx: &'static str,
    /// Blocks and threads.
    launch: Launch,
    /// What the kernel is given; told whether it is the wrong one.
    arguments: fn(&mut Emulator, bool) -> Vec<Argument>,
    kind: ReportKind,
    at: At,
}

/// Who is at fault: blocks and threads along x.
enum At {
    /// A thread.
    Thread(u32, u32),
    /// Of a race, two threads and what they did; which of them comes second is nobody's fault.
    Sides([(AccessKind, u32, u32); 2]),
}

/// The file of this name.
macro_rules! case {
    ($name:literal, $launch:expr, $arguments:expr, $kind:ident, $at:expr) => {
        Case {
            name: $name,
            ptx: include_str!(concat!("misuse/", $name, ".ptx")),
            launch: $launch,
            arguments: $arguments,
            kind: ReportKind::$kind,
            at: $at,
        }
    };
}

const WARP: Launch = Launch::new(1, 32);
const TWO_WARPS: Launch = Launch::new(1, 64);
const DYNAMIC: Launch = Launch { dynamic_shared: 128, ..WARP };

fn cases() -> Vec<Case> {
    [memory_cases(), barrier_cases(), asynchronous_cases(), other_cases()]
        .into_iter()
        .flatten()
        .collect()
}

fn memory_cases() -> Vec<Case> {
    use AccessKind::{Read, Write};
    use At::{Sides, Thread};
    let two_blocks = Launch::new(2, 32);
    vec![
        case!("out_of_bounds_global", WARP, twenty_words, OutOfBounds, Thread(0, 20)),
        case!("out_of_bounds_below", WARP, two_arrays, OutOfBounds, Thread(0, 0)),
        case!("out_of_bounds_shared", TWO_WARPS, nothing, OutOfBounds, Thread(0, 32)),
        case!("out_of_bounds_dynamic", DYNAMIC, nothing, OutOfBounds, Thread(0, 16)),
        case!("use_after_free", WARP, perhaps_freed, UseAfterFree, Thread(0, 0)),
        case!("misaligned_global", WARP, written_words, Misaligned, Thread(0, 1)),
        case!("misaligned_shared", WARP, nothing, Misaligned, Thread(0, 1)),
        case!("uninitialized_global", WARP, new_words, Uninitialized, Thread(0, 0)),
        case!("uninitialized_shared", TWO_WARPS, nothing, Uninitialized, Thread(0, 40)),
        case!("race_shared", TWO_WARPS, nothing, DataRace, Sides([(Read, 0, 0), (Write, 0, 32)])),
        case!("race_warp", WARP, nothing, DataRace, Sides([(Write, 0, 1), (Read, 0, 0)])),
        case!(
            "race_same_instruction",
            WARP,
            new_words,
            DataRace,
            Sides([(Write, 0, 0), (Write, 0, 1)])
        ),
        case!(
            "race_global",
            two_blocks,
            written_words,
            DataRace,
            Sides([(Read, 1, 0), (Write, 0, 0)])
        ),
        case!(
            "race_with_fences",
            Launch::new(2, 1),
            written_words,
            DataRace,
            Sides([(Read, 1, 0), (Write, 0, 0)])
        ),
        case!(
            "race_release_of_a_warp",
            Launch::new(2, 64),
            written_words,
            DataRace,
            Sides([(Read, 1, 0), (Write, 0, 32)])
        ),
        case!(
            "race_release",
            Launch::new(2, 1),
            written_words,
            DataRace,
            Sides([(Read, 1, 0), (Write, 0, 0)])
        ),
    ]
}

fn barrier_cases() -> Vec<Case> {
    use At::Thread;
    vec![
        case!("divergent_barrier", TWO_WARPS, nothing, Divergence, Thread(0, 32)),
        case!("barrier_count", TWO_WARPS, nothing, Barrier, Thread(0, 32)),
        case!("barrier_of_two", Launch::new(1, 128), nothing, Barrier, Thread(0, 64)),
        case!("barrier_exit", TWO_WARPS, nothing, Deadlock, Thread(0, 0)),
        case!("deadlock", TWO_WARPS, nothing, Deadlock, Thread(0, 0)),
        case!("shuffle_divergence", WARP, nothing, Divergence, Thread(0, 0)),
    ]
}

/// What came with Ampere and Hopper.
fn asynchronous_cases() -> Vec<Case> {
    use AccessKind::{Read, Write};
    use At::{Sides, Thread};
    let one = Launch::new(1, 1);
    let pair = Launch::new(2, 1);
    let group = Launch::new(1, 128);
    vec![
        case!("product_in_a_branch", WARP, nothing, Divergence, Thread(0, 0)),
        case!("copy_without_wait", WARP, written_words, Asynchronous, Thread(0, 0)),
        case!("copy_wait_too_few", WARP, written_words, Asynchronous, Thread(0, 0)),
        case!(
            "copy_without_barrier",
            TWO_WARPS,
            written_words,
            DataRace,
            Sides([(Write, 0, 0), (Read, 0, 32)])
        ),
        case!("mbarrier_not_initialized", WARP, nothing, Mbarrier, Thread(0, 0)),
        case!("mbarrier_too_few", WARP, nothing, Deadlock, Thread(0, 0)),
        case!("transaction_count", TWO_WARPS, written_words, Deadlock, Thread(0, 0)),
        case!("bulk_misaligned", WARP, written_words, Misaligned, Thread(0, 0)),
        case!("proxy_fence", WARP, written_words, DataRace, Sides([(Read, 0, 0), (Write, 0, 0)])),
        case!("wgmma_without_wait", group, many_words, Asynchronous, Thread(0, 96)),
        case!(
            "wgmma_without_fence",
            group,
            many_words,
            DataRace,
            Sides([(Read, 0, 0), (Write, 0, 0)])
        ),
        case!(
            "slot_reused",
            TWO_WARPS,
            written_words,
            DataRace,
            Sides([(Write, 0, 0), (Read, 0, 32)])
        ),
        case!(
            "bulk_store_overwritten",
            WARP,
            written_words,
            DataRace,
            Sides([(Write, 0, 0), (Read, 0, 0)])
        ),
        case!("exit_with_a_copy", one, written_words, Asynchronous, Thread(0, 0)),
        case!("tensor_map", one, perhaps_a_map, Asynchronous, Thread(0, 0)),
        case!("tensor_bytes", one, a_map, Deadlock, Thread(0, 0)),
        case!("mbarrier_too_many", one, nothing, Mbarrier, Thread(0, 0)),
        case!("bulk_global", WARP, written_words, DataRace, Sides([(Read, 0, 0), (Write, 0, 0)])),
        case!(
            "bulk_store_read",
            one,
            written_words,
            DataRace,
            Sides([(Read, 0, 0), (Write, 0, 0)])
        ),
        case!(
            "bulk_store_race",
            pair,
            written_words,
            DataRace,
            Sides([(Write, 1, 0), (Write, 0, 0)])
        ),
        case!("registers_of_a_warp", Launch::new(1, 256), nothing, Deadlock, Thread(0, 0)),
        case!("registers", Launch::new(1, 256), nothing, Deadlock, Thread(0, 0)),
        case!("cluster_exit", pair, nothing, DataRace, Sides([(Read, 1, 0), (Write, 0, 0)])),
        case!("cluster_race", pair, nothing, DataRace, Sides([(Read, 1, 0), (Write, 0, 0)])),
        case!("cluster_space", pair, nothing, OutOfBounds, Thread(1, 0)),
    ]
}

fn other_cases() -> Vec<Case> {
    use At::Thread;
    let one = Launch::new(1, 1);
    vec![
        case!("read_only", one, nothing, ReadOnly, Thread(0, 0)),
        case!("trap", WARP, nothing, Trap, Thread(0, 5)),
        case!("endless", one, written_words, StepLimit, Thread(0, 0)),
    ]
}

fn nothing(_: &mut Emulator, _: bool) -> Vec<Argument> {
    vec![]
}

/// Memory that nothing has written.
fn new_words(gpu: &mut Emulator, _: bool) -> Vec<Argument> {
    vec![gpu.allocate(4 * 32).expect("memory").into()]
}

/// Zeros, more than any thread of a warp reads.
fn written_words(gpu: &mut Emulator, _: bool) -> Vec<Argument> {
    let words = gpu.allocate(4 * 64).expect("memory");
    gpu.write(words, &[0; 4 * 64]).expect("as large");
    vec![words.into()]
}

/// Zeros for a warpgroup.
fn many_words(gpu: &mut Emulator, _: bool) -> Vec<Argument> {
    let words = gpu.allocate(4 * 128).expect("memory");
    gpu.write(words, &[0; 4 * 128]).expect("as large");
    vec![words.into()]
}

/// The map of a tensor of 8 x 8 words, which is one box; or bytes that are no map.
fn perhaps_a_map(gpu: &mut Emulator, wrong: bool) -> Vec<Argument> {
    if wrong { vec![Argument::bytes([1; 128])] } else { a_map(gpu, wrong) }
}

fn a_map(gpu: &mut Emulator, _: bool) -> Vec<Argument> {
    let words = gpu.allocate(4 * 64).expect("memory");
    gpu.write(words, &[0; 4 * 64]).expect("as large");
    let map = TensorMap {
        element: TensorElement::U32,
        rank: 2,
        address: words,
        sizes: [8, 8, 1, 1, 1],
        strides: [32, 0, 0, 0],
        box_sizes: [8, 8, 1, 1, 1],
        element_strides: [1; 5],
        interleave: Interleave::None,
        swizzle: Swizzle::None,
        promotion: Promotion::None,
        fill: Fill::Zero,
    };
    let map = gpu.encode_tensor_map(&map).unwrap_or_else(|error| panic!("{error}"));
    vec![Argument::bytes(map.map(u64::to_le_bytes).concat())]
}

fn twenty_words(gpu: &mut Emulator, _: bool) -> Vec<Argument> {
    vec![gpu.allocate(4 * 20).expect("memory").into(), 20_u32.into()]
}

fn two_arrays(gpu: &mut Emulator, wrong: bool) -> Vec<Argument> {
    [written_words(gpu, wrong), new_words(gpu, wrong)].concat()
}

fn perhaps_freed(gpu: &mut Emulator, wrong: bool) -> Vec<Argument> {
    let words = gpu.allocate(4 * 32).expect("memory");
    gpu.write(words, &[1; 4 * 32]).expect("as large");
    if wrong {
        gpu.free(words).expect("it is allocated");
    }
    vec![words.into()]
}

/// The GPU that a text is for.
fn options(ptx: &str) -> Options {
    let arch = if ptx.contains("\n.target sm_90") { Arch::new(9, 0) } else { Arch::new(8, 0) };
    Options { arch, step_limit: 10_000, ..Options::default() }
}

fn run(case: &Case, kernel: &str, options: Options) -> Result<(), Box<Report>> {
    let module = Module::parse(case.ptx).unwrap_or_else(|error| panic!("{}: {error}", case.name));
    let mut gpu = Emulator::new(options);
    let arguments = (case.arguments)(&mut gpu, kernel == "wrong");
    gpu.launch(&module, kernel, &case.launch, &arguments).map(|_| ())
}

/// The line, from 1, with this in its comment.
fn marked(ptx: &str, comment: &str) -> Option<u32> {
    let is_marked =
        |line: &str| line.split_once(" // ").is_some_and(|(_, it)| it.contains(comment));
    (1..).zip(ptx.lines()).find(|(_, line)| is_marked(line)).map(|(number, _)| number)
}

/// What is wrong with a report, if anything.
fn complaint(case: &Case, report: &Report) -> Option<&'static str> {
    let thread = report.block.zip(report.thread).map(|(block, thread)| (block[0], thread[0]));
    if report.kind != case.kind {
        return Some("another kind");
    }
    match (&case.at, &report.other) {
        // Which of the loop's lines is the last is no matter.
        (_, None)
            if case.kind != ReportKind::StepLimit
                && report.line != marked(case.ptx, "reported") =>
        {
            Some("another line")
        }
        (At::Thread(block, of_block), None) => {
            (thread != Some((*block, *of_block))).then_some("another thread")
        }
        (At::Sides(sides), Some(other)) => {
            let lines = [marked(case.ptx, "one side"), marked(case.ptx, "the other side")];
            let is =
                |i: usize, line, place| lines[i] == line && Some((sides[i].1, sides[i].2)) == place;
            let there = (sides.iter().zip(lines)).position(|(side, line)| {
                line == Some(other.line) && *side == (other.access, other.block[0], other.thread[0])
            });
            match there {
                Some(there) if is(1 - there, report.line, thread) => None,
                _ => Some("other sides"),
            }
        }
        _ => Some("sides"),
    }
}

#[test]
fn misuse_is_reported() {
    let mut complaints = Vec::new();
    for case in cases() {
        let wrong = match run(&case, "wrong", options(case.ptx)) {
            Ok(()) => Some("no report".to_owned()),
            Err(report) => complaint(&case, &report).map(|what| format!("{what}: {report}")),
        };
        complaints.extend(wrong.map(|wrong| format!("{}: {wrong}", case.name)));
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// What is wrong only when a warp is late: in the order of turns that others have it runs.
fn late_case() -> Case {
    case!("left_behind", Launch::new(1, 96), nothing, Deadlock, At::Thread(0, 32))
}

#[test]
fn who_keeps_pace_by_chance_is_reported() {
    let case = late_case();
    assert!(run(&case, "wrong", options(case.ptx)).is_ok());
    let reports = (0..16).filter_map(|seed| {
        let options = Options { timing: Timing::Seeded(seed), ..options(case.ptx) };
        run(&case, "wrong", options).err()
    });
    let reports: Vec<_> = reports.collect();
    assert!(!reports.is_empty());
    for report in reports {
        assert_eq!(complaint(&case, &report), None, "{report}");
        assert!(report.message.starts_with("warp 1 (PTX line"), "{report}");
    }
}

/// Whenever asynchronous operations take effect.
#[test]
fn corrected_twins_run() {
    for timing in [Timing::Latest, Timing::Eager, Timing::Seeded(1), Timing::Seeded(2)] {
        for case in cases().into_iter().chain([late_case()]) {
            let options = Options { timing, ..options(case.ptx) };
            if let Err(report) = run(&case, "right", options) {
                panic!("{} with {timing:?}: {report}", case.name);
            }
        }
    }
}

/// The report of a launch of a kernel that takes one parameter and does nothing.
fn launch_report(kernel: &str, launch: Launch, arguments: &[Argument]) -> Option<ReportKind> {
    let ptx = ".version 7.0\n.target sm_80\n.address_size 64\n\
        .visible .entry small(.param .u64 p) .maxntid 64 { ret; }\n\
        .visible .entry exact(.param .u64 p) .reqntid 32, 2 { ret; }\n\
        .visible .entry free(.param .u64 p) { ret; }\n\
        .visible .entry full(.param .u64 p) { .shared .b8 tile[49152]; ret; }";
    let module = Module::parse(ptx).unwrap_or_else(|error| panic!("{error}"));
    let mut gpu = Emulator::new(options(ptx));
    gpu.launch(&module, kernel, &launch, arguments).err().map(|report| report.kind)
}

/// Of compute capability 8.0 (CUDA C++ Programming Guide, technical specifications).
#[test]
fn limits_of_a_launch() {
    let argument = &[Argument::from(0_u64)][..];
    let shape = |grid, block| Launch { grid, block, cluster: [1, 1, 1], dynamic_shared: 0 };
    let shared = |dynamic_shared| Launch { dynamic_shared, ..WARP };
    let limit = Some(ReportKind::LaunchLimit);
    for (kernel, launch, expected) in [
        ("free", shape([1, 1, 1], [1024, 1, 1]), None),
        ("free", shape([1, 1, 1], [1025, 1, 1]), limit),
        ("free", shape([1, 1, 1], [1, 1024, 1]), None),
        ("free", shape([1, 1, 1], [33, 32, 1]), limit),
        ("free", shape([1, 1, 1], [1, 1, 64]), None),
        ("free", shape([1, 1, 1], [1, 1, 65]), limit),
        ("free", shape([1, 1, 1], [0, 1, 1]), limit),
        ("free", shape([0, 1, 1], [1, 1, 1]), limit),
        ("free", shape([1, 65_536, 1], [1, 1, 1]), limit),
        ("free", shape([1, 1, 65_536], [1, 1, 1]), limit),
        ("free", shape([2, 3, 4], [4, 4, 4]), None),
        ("small", Launch::new(1, 64), None),
        ("small", Launch::new(1, 65), limit),
        ("small", shape([1, 1, 1], [8, 8, 1]), None),
        ("exact", shape([1, 1, 1], [32, 2, 1]), None),
        ("exact", Launch::new(1, 64), limit),
        ("free", shared(163 << 10), None),
        ("free", shared((163 << 10) + 1), limit),
        ("full", shared(115 << 10), None),
        ("full", shared((115 << 10) + 1), limit),
        ("free", Launch { cluster: [2, 1, 1], ..Launch::new(2, 32) }, limit),
    ] {
        let found = launch_report(kernel, launch, argument);
        assert_eq!(found, expected, "{kernel}: {launch:?}");
    }
}

#[test]
fn arguments_of_a_launch() {
    let pointer = Argument::from(0_u64);
    for (kernel, arguments, expected) in [
        ("free", vec![pointer.clone()], None),
        ("free", vec![], Some(ReportKind::Argument)),
        ("free", vec![pointer.clone(), pointer.clone()], Some(ReportKind::Argument)),
        ("free", vec![Argument::from(0_u32)], Some(ReportKind::Argument)),
        ("fre", vec![pointer], Some(ReportKind::NoSuchKernel)),
    ] {
        assert_eq!(launch_report(kernel, WARP, &arguments), expected, "{kernel}: {arguments:?}");
    }
}
