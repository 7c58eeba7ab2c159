//! Races of strong accesses with weak ones and with strong ones that are too far away, at each
//! level of the checker; and what is ordered, which is not reported.

mod few_lines;

use ptx_emulator::{Launch, Report, ReportKind};

const HEAD: &str = "
.version 8.0
.target sm_90
.address_size 64
.visible .entry f(.param .u64 words)
{
    .reg .pred %p;
    .reg .b32 %r<9>;
    .reg .b64 %rd<2>;
    .shared .align 16 .b8 data[512];
    ld.param.u64 %rd1, [words];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
";

/// Behind the kernel's end, what makes the checker look at barriers alone, at clocks, and at fences
/// between blocks.
const BARRIERS: &str = "";
const CLOCKS: &str = "ret; fence.proxy.async;";
const FENCES: &str = "ret; fence.acq_rel.gpu;";

const TWO_WARPS: Launch = Launch::new(1, 64);
const TWO_BLOCKS: Launch = Launch::new(2, 1);
const CLUSTER: Launch = Launch { cluster: [2, 1, 1], ..TWO_BLOCKS };

fn run(body: &str, launch: &Launch) -> Result<(), Box<Report>> {
    few_lines::run(&format!("{HEAD}{body}\n}}\n"), (256, 256), launch)
}

/// Whether it is reported as a race; nothing else may be.
fn races(body: &str, launch: &Launch) -> bool {
    match run(body, launch) {
        Ok(()) => false,
        Err(report) => {
            assert_eq!(report.kind, ReportKind::DataRace, "{report}\n{body}");
            true
        }
    }
}

/// The first thread of one warp, or block, does this; then that of another one does that.
fn two(launch: &Launch, first: &str, second: &str, level: &str) -> String {
    let other = if launch.grid[0] == 1 { "%r1, 32" } else { "%r2, 1" };
    format!(
        "setp.eq.u32 %p, {other}; @%p bra other;
         setp.ne.u32 %p, %r1, 0; @%p ret; {first} ret;
         other: {second} ret; {level}"
    )
}

/// In shared memory or global.
fn spaces(text: &str) -> [String; 2] {
    [("shared", "data"), ("global", "%rd1")]
        .map(|(space, base)| text.replace("SPACE", space).replace("BASE", base))
}

#[test]
fn a_weak_write_counts_behind_an_atomic_of_its_thread() {
    for level in [BARRIERS, CLOCKS] {
        for first in [
            "st.SPACE.u32 [BASE], 1; red.SPACE.add.u32 [BASE], 1;",
            "st.SPACE.u32 [BASE], 1; st.SPACE.u8 [BASE+1], 1; red.SPACE.add.u32 [BASE], 1;",
            "st.SPACE.u32 [BASE], 1; st.relaxed.gpu.SPACE.u32 [BASE], 1;
             red.SPACE.add.u32 [BASE], 1;",
        ] {
            let second = "red.SPACE.add.u32 [BASE], 1;";
            for body in spaces(&two(&TWO_WARPS, first, second, level)) {
                assert!(races(&body, &TWO_WARPS), "{body}");
            }
        }
    }
}

#[test]
fn a_weak_write_before_a_warp_barrier_counts_for_other_warps() {
    for level in [BARRIERS, CLOCKS] {
        let body = |red: &str| {
            format!(
                "setp.ge.u32 %p, %r1, 32; @%p bra other;
                 setp.eq.u32 %p, %r1, 0; @%p st.SPACE.u32 [BASE], 1; bar.warp.sync -1;
                 red.SPACE.add.u32 [BASE], 1; ret;
                 other: {red} ret; {level}"
            )
        };
        for body in spaces(&body("")) {
            assert!(!races(&body, &TWO_WARPS), "{body}");
        }
        for body in spaces(&body("red.SPACE.add.u32 [BASE], 1;")) {
            assert!(races(&body, &TWO_WARPS), "{body}");
        }
    }
}

#[test]
fn a_weak_write_before_a_barrier_does_not_race_with_atomics() {
    for level in [BARRIERS, CLOCKS] {
        for body in spaces(&format!(
            "setp.eq.u32 %p, %r1, 0; @%p st.SPACE.u32 [BASE], 1;
             @%p red.SPACE.add.u32 [BASE], 1;
             bar.sync 0; red.SPACE.add.u32 [BASE], 1; ret; {level}"
        )) {
            assert!(!races(&body, &TWO_WARPS), "{body}");
        }
    }
}

#[test]
fn a_weak_write_of_a_block_counts_behind_its_atomic() {
    for level in [BARRIERS, CLOCKS, FENCES] {
        let red = "red.global.add.u32 [%rd1], 1;";
        let body = |first: &str| two(&TWO_BLOCKS, &format!("{first} {red}"), red, level);
        assert!(races(&body("st.global.u32 [%rd1], 1;"), &TWO_BLOCKS), "{level}");
        assert!(!races(&body(""), &TWO_BLOCKS), "{level}");
    }
}

/// A block sets a word, releases it, and adds to it; another one acquires, and adds too.
#[test]
fn a_weak_write_that_is_released_does_not_race_with_atomics() {
    let red = "red.global.add.u32 [%rd1+64], 1;";
    let body = |fence: &str| {
        two(
            &TWO_BLOCKS,
            &format!(
                "st.global.u32 [%rd1+64], 1; {fence} {red} st.relaxed.gpu.global.u32 [%rd1], 1;"
            ),
            &format!(
                "ld.relaxed.gpu.global.u32 %r3, [%rd1]; setp.eq.u32 %p, %r3, 0; @%p bra other;
                 fence.acq_rel.gpu; {red}"
            ),
            "",
        )
    };
    assert!(!races(&body("fence.acq_rel.gpu;"), &TWO_BLOCKS));
    assert!(races(&body(""), &TWO_BLOCKS));
}

#[test]
fn atomics_of_the_blocks_scope_race_with_those_of_others() {
    let red = |scope: &str| format!("red.relaxed.{scope}.global.add.u32 [%rd1], 1;");
    for level in [BARRIERS, CLOCKS, FENCES] {
        for (first, second, launch, expected) in [
            ("cta", "cta", TWO_BLOCKS, true),
            ("cta", "gpu", TWO_BLOCKS, true),
            ("gpu", "cta", TWO_BLOCKS, true),
            ("gpu", "sys", TWO_BLOCKS, false),
            ("cluster", "gpu", TWO_BLOCKS, true),
            ("cluster", "gpu", CLUSTER, false),
            ("cluster", "cluster", CLUSTER, false),
            ("cta", "cta", TWO_WARPS, false),
            ("cta", "cluster", TWO_WARPS, false),
        ] {
            let body = two(&launch, &red(first), &red(second), level);
            assert_eq!(races(&body, &launch), expected, "{first} {second} {level}");
        }
    }
    // What a cluster does by itself is not looked at where fences order blocks.
    for level in [BARRIERS, CLOCKS] {
        for (first, second) in [("cta", "cluster"), ("cluster", "cta"), ("cta", "cta")] {
            let body = two(&CLUSTER, &red(first), &red(second), level);
            assert!(races(&body, &CLUSTER), "{first} {second} {level}");
        }
    }
}

#[test]
fn strong_loads_and_stores_have_scopes_too() {
    for (first, second, expected) in [
        ("st.relaxed.cta", "ld.relaxed.gpu", true),
        ("st.relaxed.gpu", "ld.relaxed.cta", true),
        ("st.volatile", "ld.relaxed.gpu", false),
        ("ld.relaxed.cta", "st.relaxed.gpu", true),
        ("ld.relaxed.gpu", "st.volatile", false),
    ] {
        let text = |what: &str| match what.starts_with("st") {
            true => format!("{what}.global.u32 [%rd1], 1;"),
            false => format!("{what}.global.u32 %r3, [%rd1];"),
        };
        for level in [BARRIERS, CLOCKS, FENCES] {
            let body = two(&TWO_BLOCKS, &text(first), &text(second), level);
            assert_eq!(races(&body, &TWO_BLOCKS), expected, "{first} {second} {level}");
        }
    }
}

/// A block's own reads come before its write in the order of its program, and strong ones of others
/// need no order.
#[test]
fn a_weak_read_counts_for_other_blocks_alone() {
    for level in [BARRIERS, CLOCKS, FENCES] {
        for weak in ["ld.relaxed.cta", "ld"] {
            let read = format!("{weak}.global.u32 %r3, [%rd1];");
            let strong = "ld.relaxed.gpu.global.u32 %r4, [%rd1];";
            for (first, write, expected) in [
                (strong, "st.relaxed.gpu", false),
                (strong, "st", true),
                (strong, "st.relaxed.cta", true),
                (&*read, "st.relaxed.gpu", true),
            ] {
                let second = format!("{read} {write}.global.u32 [%rd1], 1;");
                let body = two(&TWO_BLOCKS, first, &second, level);
                assert_eq!(races(&body, &TWO_BLOCKS), expected, "{first} {second} {level}");
            }
        }
    }
}

/// Atomics without a scope are of the GPU's; those of a block are enough in its shared memory.
#[test]
fn atomics_reach_whom_they_need() {
    let red = "red.SPACE.add.u32 [BASE], 1;";
    for level in [BARRIERS, CLOCKS, FENCES] {
        let body = two(&TWO_BLOCKS, red, red, level).replace("SPACE", "global");
        assert!(!races(&body.replace("BASE", "%rd1"), &TWO_BLOCKS), "{level}");
    }
    let red = "red.relaxed.cta.shared.add.u32 [data], 1;";
    for level in [BARRIERS, CLOCKS] {
        let set = "setp.eq.u32 %p, %r1, 0; @%p st.shared.u32 [data], 1; bar.sync 0;";
        let body = format!("{set} {}", two(&TWO_WARPS, red, red, level));
        assert!(!races(&body, &TWO_WARPS), "{level}");
    }
}

/// Halves of a warp pass words among themselves; to each other they may not.
#[test]
fn a_warp_barrier_orders_the_lanes_of_its_mask() {
    let each = "setp.lt.u32 %p, %r1, 16; selp.b32 %r3, 0xffff, 0xffff0000, %p; bar.warp.sync %r3;";
    let branches = "setp.lt.u32 %p, %r1, 16; @%p bra low; bar.warp.sync 0xffff0000; bra both;
         low: bar.warp.sync 0xffff; both:";
    let one = "setp.lt.u32 %p, %r1, 16; @!%p bra both; bar.warp.sync 0xffff; both:";
    let all = "bar.warp.sync 0xffffffff;";
    let register = "mov.b32 %r3, -1; bar.warp.sync %r3;";
    for (sync, lane, expected) in [
        (each, 1, false),
        (each, 16, true),
        (branches, 15, false),
        (branches, 16, true),
        (one, 1, true),
        (one, 16, true),
        (all, 16, false),
        (register, 31, false),
    ] {
        let body = format!(
            "shl.b32 %r4, %r1, 2; mov.b32 %r5, data; add.u32 %r6, %r5, %r4;
             st.shared.u32 [%r6], %r1; {sync}
             xor.b32 %r7, %r4, {}; add.u32 %r7, %r7, %r5; ld.shared.u32 %r8, [%r7]; ret;",
            4 * lane
        );
        assert_eq!(races(&body, &Launch::new(1, 32)), expected, "{lane} {sync}");
    }
}

/// "If the exiting threads are holding up the barrier, the barrier is released" (PTX ISA, "exit").
#[test]
fn barriers_without_a_count_do_not_wait_for_threads_that_exit() {
    const THREE_WARPS: Launch = Launch::new(1, 96);
    // The two warps that stay read each other's words.
    let body = |leaves: usize, sync: &str, level: &str| {
        format!(
            "shr.u32 %r3, %r1, 5; setp.eq.u32 %p, %r3, {leaves}; @%p ret;
             shl.b32 %r4, %r1, 2; mov.b32 %r5, data; add.u32 %r6, %r5, %r4;
             st.shared.u32 [%r6], %r1; {sync}
             xor.b32 %r7, %r4, {}; add.u32 %r7, %r7, %r5; ld.shared.u32 %r8, [%r7]; ret; {level}",
            [128 * 3, 128 * 2, 128][leaves]
        )
    };
    let popc = "setp.eq.u32 %p, %r0, %r0; bar.red.popc.u32 %r0, 1, %p;
        setp.ne.u32 %p, %r0, 64; @%p trap;";
    for level in [BARRIERS, CLOCKS] {
        for leaves in 0..3 {
            for sync in ["bar.sync 0;", "bar.sync 3; bar.sync 3; bar.sync 0;", popc] {
                let text = body(leaves, sync, level);
                if let Err(report) = run(&text, &THREE_WARPS) {
                    panic!("{report}\n{text}");
                }
            }
            assert!(races(&body(leaves, "", level), &THREE_WARPS));
            let report = run(&body(leaves, "bar.sync 0, 96;", level), &THREE_WARPS).unwrap_err();
            assert_eq!(report.kind, ReportKind::Deadlock, "{report}");
        }
    }
}

#[test]
fn warps_that_arrive_and_exit_are_counted() {
    let arrives = "setp.lt.u32 %p, %r1, 32; @!%p bra other; bar.arrive 0, 64; ret; other:";
    run(&format!("{arrives} bar.sync 0; ret;"), &TWO_WARPS).unwrap();
    let report =
        run(&format!("{arrives} bar.sync 1; bar.sync 0; bar.sync 0, 64; ret;"), &TWO_WARPS);
    assert_eq!(report.unwrap_err().kind, ReportKind::Deadlock);
}

/// A warp passes words to another by a flag, of the block's scope or a wider one.
#[test]
fn releases_and_acquires_order_warps_of_a_block() {
    let body = |store: &str, load: &str, level: &str| {
        let first = format!("st.SPACE.u32 [BASE+64], 1; {store} [BASE], 1;");
        let second = format!(
            "{load} %r3, [BASE]; setp.eq.u32 %p, %r3, 0; @%p bra other;
             ld.SPACE.u32 %r4, [BASE+64];"
        );
        let set = "setp.eq.u32 %p, %r1, 0; @%p st.SPACE.u32 [BASE], 0; bar.sync 0;";
        spaces(&format!("{set} {}", two(&TWO_WARPS, &first, &second, level)))
    };
    for level in [BARRIERS, CLOCKS] {
        for scope in ["cta", "gpu"] {
            let [store, load] =
                ["st.release", "ld.acquire"].map(|s| format!("{s}.{scope}.SPACE.u32"));
            for body in body(&store, &load, level) {
                assert!(!races(&body, &TWO_WARPS), "{body}");
            }
            let exchange = format!("atom.release.{scope}.SPACE.exch.b32 %r5,");
            let add = format!("atom.acquire.{scope}.SPACE.or.b32");
            for text in body(&exchange, &add, level) {
                let text = text.replace("or.b32 %r3, [data]", "or.b32 %r3, [data], 0");
                let text = text.replace("or.b32 %r3, [%rd1]", "or.b32 %r3, [%rd1], 0");
                assert!(!races(&text, &TWO_WARPS), "{text}");
            }
        }
    }
    // Two releases of which no other warp has read one.
    let first = "st.SPACE.u32 [BASE+64], 1; st.release.cta.SPACE.u32 [BASE], 1;";
    let second = "ld.SPACE.u32 %r4, [BASE+64]; st.release.cta.SPACE.u32 [BASE], 1;";
    for body in spaces(&two(&TWO_WARPS, first, second, BARRIERS)) {
        assert!(races(&body, &TWO_WARPS), "{body}");
    }
}

/// Warp 1 writes a word and tells warp 0, which tells another block.
#[test]
fn what_a_flag_of_the_block_passes_on_is_released() {
    let body = |scope: &str, first: &str| {
        format!(
            "setp.ne.u32 %p, %r2, 0; @%p bra second;
             setp.ne.u32 %p, %r1, 32; @%p bra other;
             {first} st.release.{scope}.global.u32 [%rd1+32], 1; ret;
             other: setp.ne.u32 %p, %r1, 0; @%p ret;
             poll: ld.acquire.{scope}.global.u32 %r6, [%rd1+32]; setp.eq.u32 %p, %r6, 0;
             @%p bra poll; st.release.gpu.global.u32 [%rd1], 1; ret;
             second: setp.ne.u32 %p, %r1, 0; @%p ret;
             again: ld.acquire.gpu.global.u32 %r6, [%rd1]; setp.eq.u32 %p, %r6, 0; @%p bra again;
             ld.global.u32 %r7, [%rd1+64]; ret;"
        )
    };
    let blocks = Launch::new(2, 64);
    let write = "st.global.u32 [%rd1+64], 7;";
    for scope in ["cta", "gpu"] {
        assert!(!races(&body(scope, write), &blocks), "{scope}");
        // The flag itself is among what is released.
        let flag = body(scope, write).replace("[%rd1+64]; ret;", "[%rd1+32]; ret;");
        assert!(!races(&flag, &blocks), "{scope}");
    }
    // The write comes behind the flag.
    let late =
        body("cta", "").replace("[%rd1+32], 1; ret;", &format!("[%rd1+32], 1; {write} ret;"));
    assert!(races(&late, &blocks));
}

#[test]
fn intervals_whose_numbers_come_again_are_others() {
    let body = |barriers: &str| {
        format!(
            "setp.eq.u32 %p, %r1, 0; @%p st.SPACE.u32 [BASE], 1; {barriers}
             setp.eq.u32 %p, %r1, 1; @%p ld.SPACE.u32 %r3, [BASE]; ret;"
        )
    };
    let of_warp = "bar.warp.sync -1;".repeat(2048);
    let of_block = "mov.u32 %r4, 0; again: bar.sync 0; add.u32 %r4, %r4, 1;
                    setp.lt.u32 %p, %r4, 65535; @%p bra again;";
    for barriers in [&of_warp, of_block] {
        for body in spaces(&body(barriers)) {
            assert!(!races(&body, &Launch::new(1, 32)), "{} bytes", body.len());
        }
    }
    // What comes behind them is looked at.
    for body in spaces(&format!("{of_warp} st.SPACE.u32 [BASE], 1; ret;")) {
        assert!(races(&body, &Launch::new(1, 32)));
    }
}
