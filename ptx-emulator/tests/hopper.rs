//! Programs for compute capability 9.0: each runs and gives the right result; and each change to
//! it that takes away what it needs is reported, at the line that is named.

use ptx_emulator::bulk::{Swizzle, TensorElement, TensorMap};
use ptx_emulator::{Argument, Emulator, Launch, Module, Options, Report, ReportKind, Timing};
use std::fmt::Debug;

/// The text with other instructions in the lines of those names.
fn edited(text: &str, edits: &[(&str, &str)]) -> String {
    let line = |line: &str| {
        let name = line.split_once("// @").map_or("", |(_, name)| name);
        let edit = edits.iter().find(|(edited, _)| *edited == name);
        edit.map_or(line.to_string(), |(name, new)| format!("{new} // @{name}"))
    };
    let lines: Vec<String> = text.lines().map(line).collect();
    for (name, _) in edits {
        assert!(text.contains(&format!("// @{name}\n")), "no line {name}");
    }
    lines.join("\n")
}

/// The number of the line of that name, from 1.
fn line(text: &str, name: &str) -> u32 {
    let is_named = |line: &str| line.split_once("// @").is_some_and(|(_, found)| found == name);
    text.lines().position(is_named).map_or(0, |index| index as u32 + 1)
}

type Run<T> = fn(&str, Options) -> Result<T, Box<Report>>;

/// The program gives what it should, whenever asynchronous operations take effect.
fn gives<T: PartialEq + Debug>(text: &str, run: Run<T>, expected: &T) {
    for timing in [Timing::Latest, Timing::Eager, Timing::Seeded(1), Timing::Seeded(2)] {
        for checks in [true, false] {
            let options = Options { timing, checks, ..Options::default() };
            match run(text, options) {
                Ok(result) => assert_eq!(&result, expected, "{timing:?}"),
                Err(report) => panic!("{timing:?}: {report}"),
            }
        }
    }
}

/// The program with these edits is reported, at the line of that name.
fn fails<T>(text: &str, run: Run<T>, edits: &[(&str, &str)], kind: ReportKind, at: &str) {
    let text = edited(text, edits);
    let Err(report) = run(&text, Options::default()) else { panic!("{edits:?}: no report") };
    assert_eq!(report.kind, kind, "{edits:?}: {report}");
    assert_eq!(report.line, Some(line(&text, at)), "{edits:?}, line {at}: {report}");
}

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn upload(gpu: &mut Emulator, bytes: &[u8]) -> u64 {
    let address = gpu.allocate(bytes.len() as u64).expect("memory");
    gpu.write(address, bytes).expect("as large");
    address
}

fn download(gpu: &Emulator, address: u64, words: usize) -> Vec<u32> {
    let mut bytes = vec![0; 4 * words];
    gpu.read(address, &mut bytes).expect("as large");
    let word = |bytes: &[u8]| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    bytes.chunks_exact(4).map(word).collect()
}

fn module(text: &str) -> Module {
    Module::parse(text).unwrap_or_else(|error| panic!("{error}"))
}

fn map_argument(gpu: &Emulator, map: &TensorMap) -> Argument {
    let words = gpu.encode_tensor_map(map).expect("a map by the rules");
    Argument::bytes(words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>())
}

const RING: &str = include_str!("hopper/ring.ptx");
const STEPS: u32 = 5;

fn ring(text: &str, options: Options) -> Result<Vec<u32>, Box<Report>> {
    let mut gpu = Emulator::new(options);
    let words: Vec<u32> = (0..32 * STEPS).map(|i| i * 7).collect();
    let from = upload(&mut gpu, &bytes(&words));
    let to = gpu.allocate(u64::from(128 * STEPS)).expect("memory");
    let arguments = [from.into(), to.into(), STEPS.into()];
    gpu.launch(&module(text), "ring", &Launch::new(1, 64), &arguments)?;
    Ok(download(&gpu, to, 32 * STEPS as usize))
}

#[test]
fn a_ring_of_stages() {
    gives(RING, ring, &(0..32 * STEPS).map(|i| i * 7).collect());
    use ReportKind::{DataRace, Deadlock, Mbarrier, Misaligned, OutOfBounds};
    let passes = "setp.eq.u32 %q, 0, 0;";
    let fails = |name: &str, new: &str, kind, at: &str| fails(RING, ring, &[(name, new)], kind, at);
    fails("empty", passes, Mbarrier, "expect");
    fails("warp", "", DataRace, "copy");
    fails("full", passes, ReportKind::Uninitialized, "read");
    fails("release", "", Deadlock, "empty");
    fails("flip", "", Deadlock, "empty");
    fails("ready", "", DataRace, "full");
    fails("init", "", Mbarrier, "empty");
    fails("init", "mbarrier.init.shared::cta.b64 [barriers], 1;", Mbarrier, "init");
    fails("init", "mbarrier.init.shared::cta.b64 [barriers+24], 0;", Mbarrier, "init");
    fails("init", "mbarrier.init.shared::cta.b64 [barriers+28], 1;", Misaligned, "init");
    fails("init", "mbarrier.init.shared::cta.b64 [barriers+32], 1;", OutOfBounds, "init");
    fails("read", "ld.shared.u32 %value, [%full];", Mbarrier, "read");
    let expect = |count| format!("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%full], {count};");
    fails("expect", &expect(112), Deadlock, "empty");
    fails("expect", &expect(144), Deadlock, "empty");
    fails("expect", "", Deadlock, "empty");
}

#[test]
fn a_deadlock_says_who_waits_for_what() {
    let text = edited(RING, &[("release", "")]);
    let report = ring(&text, Options::default()).expect_err("a deadlock");
    let says = report.message.contains("waits for the end of phase 0 of the mbarrier at shared+");
    assert!(says && report.message.contains("1 of 1 arrivals missing"), "{report}");
}

const STORE: &str = include_str!("hopper/store.ptx");

/// A box of 32 x 8 of a tensor of 40 x 12, at (16, 6).
fn store(text: &str, options: Options) -> Result<Vec<u32>, Box<Report>> {
    store_at(text, options, [16, 6], 40)
}

fn store_at(
    text: &str,
    options: Options,
    [column, row]: [i32; 2],
    columns: u64,
) -> Result<Vec<u32>, Box<Report>> {
    let mut gpu = Emulator::new(options);
    let tensor = upload(&mut gpu, &[0xff; 48 * 12 * 4]);
    let element = TensorElement::U32;
    let map = TensorMap::new(element, tensor, &[columns, 12], &[48 * 4], &[32, 8]);
    let arguments = [map_argument(&gpu, &map), column.into(), row.into()];
    gpu.launch(&module(text), "store", &Launch::new(1, 64), &arguments)?;
    Ok(download(&gpu, tensor, 48 * 12))
}

#[test]
fn a_box_is_stored() {
    let expected: Vec<u32> = (0..12 * 48)
        .map(|i| match (i / 48, i % 48) {
            (row @ 6.., column @ 16..40) => (row - 6) * 32 + column - 16,
            _ => u32::MAX,
        })
        .collect();
    gives(STORE, store, &expected);
    use ReportKind::{DataRace, Divergence, Misaligned, OutOfBounds};
    let fails =
        |name: &str, new: &str, kind, at: &str| fails(STORE, store, &[(name, new)], kind, at);
    fails("proxy", "", DataRace, "store");
    fails("barrier", "", DataRace, "store");
    fails("wait", "", DataRace, "over");
    fails("wait", "cp.async.bulk.wait_group.read 1;", DataRace, "over");
    fails("commit", "", DataRace, "over");
    fails("again", "", DataRace, "store");
    fails("write", "", ReportKind::Uninitialized, "store");
    let at = |operands: &str| {
        format!("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group {operands};")
    };
    fails("store", &at("[%map, {%column, -1}], [%box]"), OutOfBounds, "store");
    fails("store", &at("[%map, {2, %row}], [%box]"), Misaligned, "store");
    fails("store", &at("[%map, {%column, %row}], [%box+64]"), Misaligned, "store");
    fails("store", &at("[%map, {%column, %row}], [%box+1024]"), OutOfBounds, "store");
    let prefetch = "{ .reg .b64 other; add.u64 other, %map, 64; prefetch.tensormap [other]; }";
    fails("store", prefetch, OutOfBounds, "store");
    fails("store", "setmaxnreg.inc.sync.aligned.u32 232;", Divergence, "store");
}

#[test]
fn whole_chunks_are_stored() {
    let report = store_at(STORE, Options::default(), [16, 6], 38).expect_err("a partial chunk");
    assert!(report.message.contains("whole chunks of 16 bytes"), "{report}");
    assert!(store_at(STORE, Options::default(), [0, 6], 38).is_ok());
}

fn reduce(text: &str, options: Options) -> Result<Vec<u32>, Box<Report>> {
    let mut gpu = Emulator::new(options);
    let sums = upload(&mut gpu, &bytes(&[100; 32]));
    gpu.launch(&module(text), "reduce", &Launch::new(3, 32), &[sums.into()])?;
    Ok(download(&gpu, sums, 32))
}

#[test]
fn blocks_reduce() {
    gives(STORE, reduce, &(0..32).map(|i| 100 + 3 * i).collect());
    fails(STORE, reduce, &[("drain", "")], ReportKind::Asynchronous, "reduce");
}

const PRODUCT: &str = include_str!("hopper/product.ptx");

fn bf16(value: i32) -> [u8; 2] {
    (((value as f32).to_bits() >> 16) as u16).to_le_bytes()
}

fn a(m: u32, k: u32) -> i32 {
    (m * 3 + k) as i32 % 5 - 2
}

fn b(n: u32, k: u32) -> i32 {
    (n + k * 2) as i32 % 7 - 3
}

fn product(text: &str, options: Options) -> Result<Vec<u32>, Box<Report>> {
    let mut gpu = Emulator::new(options);
    let of_a: Vec<u8> = (0..64 * 16).flat_map(|i| bf16(a(i / 16, i % 16))).collect();
    let of_b: Vec<u8> = (0..8 * 16).flat_map(|i| bf16(b(i / 16, i % 16))).collect();
    let (at_a, at_b) = (upload(&mut gpu, &of_a), upload(&mut gpu, &of_b));
    let map = |address, rows: u32| {
        let sizes = [16, u64::from(rows)];
        let map = TensorMap::new(TensorElement::Bf16, address, &sizes, &[32], &[16, rows]);
        map.swizzled(Swizzle::B32)
    };
    let sums = gpu.allocate(64 * 8 * 4).expect("memory");
    let maps = [map_argument(&gpu, &map(at_a, 64)), map_argument(&gpu, &map(at_b, 8))];
    let [a, b] = maps;
    gpu.launch(&module(text), "product", &Launch::new(1, 128), &[a, b, sums.into()])?;
    Ok(download(&gpu, sums, 64 * 8))
}

#[test]
fn a_warpgroup_multiplies() {
    let sum = |m, n| (0..16).map(|k| a(m, k) * b(n, k)).sum::<i32>();
    let expected = (0..64 * 8).map(|i| (sum(i / 8, i % 8) as f32).to_bits()).collect();
    gives(PRODUCT, product, &expected);
    use ReportKind::{Asynchronous, DataRace, Deadlock};
    let fails =
        |name: &str, new: &str, kind, at: &str| fails(PRODUCT, product, &[(name, new)], kind, at);
    fails("full", "setp.eq.u32 %q, 0, 0;", DataRace, "multiply");
    fails("fence", "", Asynchronous, "multiply");
    fails("fence", "wgmma.fence.sync.aligned; mov.f32 %d3, 0f00000000;", Asynchronous, "multiply");
    fails("commit", "", Asynchronous, "use");
    fails("wait", "", Asynchronous, "use");
    fails("wait", "wgmma.wait_group.sync.aligned 1;", Asynchronous, "use");
    fails("wait", "mov.f32 %x, %d2; wgmma.wait_group.sync.aligned 0;", Asynchronous, "wait");
    fails("load", "", Deadlock, "full");
    let write = "@%one st.shared.u32 [%a], 0; bar.sync 0;";
    fails("poke", write, DataRace, "multiply");
    let other = "or.b64 %desc_a, %desc_a, 0xc000001000010008;";
    fails("descriptor", other, Asynchronous, "multiply");
    let lanes = "or.b64 %desc_a, %desc_a, 0xc000001000010000; @%one xor.b64 %desc_a, %desc_a, 2;";
    fails("descriptor", lanes, ReportKind::Divergence, "multiply");
}

/// An accumulator is not asked for a fence where products follow each other, and is where A's
/// matrix was written with a proxy fence there is no report.
#[test]
fn what_the_fences_order_is_not_reported() {
    let text = edited(
        PRODUCT,
        &[("poke", "@%one st.shared.u16 [%a+2032], 0; fence.proxy.async; bar.sync 0;")],
    );
    assert!(product(&text, Options::default()).is_ok());
}

const CLUSTER: &str = include_str!("hopper/cluster.ptx");

fn exchange(text: &str, options: Options) -> Result<Vec<u32>, Box<Report>> {
    let mut gpu = Emulator::new(options);
    let to = upload(&mut gpu, &[0; 256]);
    gpu.launch(&module(text), "exchange", &Launch::new(2, 32), &[to.into()])?;
    Ok(download(&gpu, to, 64))
}

#[test]
fn blocks_of_a_cluster_exchange() {
    gives(CLUSTER, exchange, &(32..64).chain(0..32).collect());
    use ReportKind::{Barrier, DataRace};
    let fails = |edits: &[(&str, &str)], kind, at: &str| fails(CLUSTER, exchange, edits, kind, at);
    fails(&[("wait", "")], ReportKind::Uninitialized, "read");
    fails(&[("arrive", "barrier.cluster.arrive.relaxed.aligned;")], DataRace, "read");
    fails(&[("arrive", "")], Barrier, "wait");
    // Of the bits that a descriptor has no address can be made.
    let low = "and.b32 %mine, %mine, 262143; ld.shared.u32 %value, [%mine];";
    fails(&[("read", low)], ReportKind::OutOfBounds, "read");
    // Nobody reads, and nobody waits: a block may be gone when the other writes.
    let edits = [("arrive", ""), ("wait", ""), ("read", "mov.u32 %value, 0;")];
    let text = edited(CLUSTER, &edits);
    let report = exchange(&text, Options::default()).expect_err("a block that has exited");
    let kinds = [ReportKind::DataRace, ReportKind::UseAfterFree];
    assert!(kinds.contains(&report.kind), "{report}");
}

fn multicast(text: &str, options: Options) -> Result<Vec<u32>, Box<Report>> {
    let mut gpu = Emulator::new(options);
    let from = upload(&mut gpu, &bytes(&(0..32).collect::<Vec<u32>>()));
    let to = upload(&mut gpu, &[0; 256]);
    let arguments = [from.into(), to.into()];
    gpu.launch(&module(text), "multicast", &Launch::new(2, 32), &arguments)?;
    Ok(download(&gpu, to, 64))
}

#[test]
fn a_copy_goes_to_all_blocks() {
    gives(CLUSTER, multicast, &(0..32).chain(0..32).collect());
    fails(CLUSTER, multicast, &[("init", "")], ReportKind::DataRace, "copy");
}

fn registers(text: &str, options: Options) -> Result<(), Box<Report>> {
    let launch = Launch::new(1, 256);
    Emulator::new(options).launch(&module(text), "registers", &launch, &[]).map(|_| ())
}

#[test]
fn registers_are_handed_over() {
    use ReportKind::{Asynchronous, Deadlock};
    // 65536 registers for 256 threads are 248 each, by eights up to 255.
    gives(CLUSTER, registers, &());
    fails(CLUSTER, registers, &[("give", "")], Deadlock, "take");
    let more = "setmaxnreg.dec.sync.aligned.u32 256;";
    fails(CLUSTER, registers, &[("give", more)], Asynchronous, "give");
    let odd = "setmaxnreg.dec.sync.aligned.u32 100;";
    fails(CLUSTER, registers, &[("give", odd)], Asynchronous, "give");
}

const COPIES: &str = include_str!("hopper/copies.ptx");

fn copies(text: &str, options: Options) -> Result<Vec<u32>, Box<Report>> {
    let mut gpu = Emulator::new(options);
    let from = upload(&mut gpu, &bytes(&(5..37).collect::<Vec<u32>>()));
    let to = upload(&mut gpu, &[0; 128]);
    let arguments = [from.into(), to.into()];
    gpu.launch(&module(text), "copies", &Launch::new(1, 64), &arguments)?;
    Ok(download(&gpu, to, 32))
}

#[test]
fn copies_arrive() {
    gives(COPIES, copies, &(5..37).collect());
    let fails = |name: &str, new: &str, kind, at: &str| {
        fails(COPIES, copies, &[(name, new)], kind, at);
    };
    let more = "cp.async.mbarrier.arrive.shared::cta.b64 [full];";
    fails("arrive", more, ReportKind::Deadlock, "full");
    fails("full", "setp.eq.u32 %q, 0, 0;", ReportKind::Asynchronous, "read");
}
