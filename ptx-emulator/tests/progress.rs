//! Threads of a warp make progress each for itself: some may wait for others of their warp.

mod few_lines;

use ptx_emulator::{Launch, Report, ReportKind};

fn run(body: &str, launch: &Launch) -> Result<(), Box<Report>> {
    let text = format!(
        ".version 8.0
         .target sm_90
         .address_size 64
         .visible .entry f(.param .u64 words)
         {{
             .reg .pred %p, %q;
             .reg .b32 %r<9>;
             .reg .b64 %rd<2>;
             .shared .align 8 .b64 barrier;
             ld.param.u64 %rd1, [words];
             mov.u32 %r1, %tid.x;
             setp.ne.u32 %p, %r1, 0;
             {body}
         }}"
    );
    few_lines::run(&text, (256, 256), launch)
}

/// The first lane waits for so many arrivals, with that instruction and between these.
fn waits(arrivals: u32, wait: &str, before: &str, behind: &str) -> String {
    format!(
        "@%p bra begun; mbarrier.init.shared.b64 [barrier], {arrivals};
         begun: bar.sync 0;
         setp.eq.u32 %p, %r1, 0; @%p bra again;
         {before} bra done;
         again: mbarrier.{wait}.parity.shared.b64 %q, [barrier], 0; @!%q bra again;
         done: {behind} ret;"
    )
}

const ARRIVES: &str = "mbarrier.arrive.shared.b64 _, [barrier];";

#[test]
fn one_side_of_a_branch_may_wait_for_the_other() {
    for wait in ["try_wait", "test_wait"] {
        run(&waits(31, wait, ARRIVES, ""), &Launch::new(1, 32)).unwrap();
    }
    // Three sides: two wait for the third, which waits for none.
    let body = "@%p bra begun; mbarrier.init.shared.b64 [barrier], 30;
         begun: bar.sync 0;
         setp.eq.u32 %p, %r1, 0; @%p bra first; setp.eq.u32 %p, %r1, 1; @%p bra second;
         mbarrier.arrive.shared.b64 _, [barrier]; bra done;
         first: mbarrier.try_wait.parity.shared.b64 %q, [barrier], 0; @!%q bra first; bra done;
         second: mbarrier.try_wait.parity.shared.b64 %q, [barrier], 0; @!%q bra second;
         done: ret;";
    run(body, &Launch::new(1, 32)).unwrap();
}

#[test]
fn one_side_may_wait_for_what_comes_behind_the_branch() {
    for wait in ["try_wait", "test_wait"] {
        let behind = format!("@%p bra end; {ARRIVES} end:");
        run(&waits(31, wait, "", &behind), &Launch::new(1, 32)).unwrap();
    }
}

#[test]
fn both_sides_may_come_to_the_barrier_of_a_cluster() {
    let meet = "barrier.cluster.arrive; barrier.cluster.wait;";
    let body = format!("@%p bra other; {meet} bra done; other: {meet} done: ret;");
    run(&body, &Launch { cluster: [2, 1, 1], ..Launch::new(2, 32) }).unwrap();
}

/// As many as there are multiprocessors, each of which waits for all.
#[test]
fn blocks_of_a_grid_may_wait_for_each_other() {
    let body = "mov.u32 %r2, %nsmid; atom.add.release.gpu.global.u32 %r3, [%rd1], 1;
         again: ld.acquire.gpu.global.u32 %r3, [%rd1]; setp.ne.u32 %q, %r3, %r2; @%q bra again;
         ret;";
    run(body, &Launch::new(132, 1)).unwrap();
}

#[test]
fn a_wait_in_vain_is_a_deadlock_all_the_same() {
    // One arrival is missing, beside the branch and behind it, and lanes behind it that all must
    // be there for.
    for (before, behind) in [
        (ARRIVES, ""),
        ("", "@%p bra end; nanosleep.u32 1; end:"),
        ("", "barrier.cluster.arrive.aligned;"),
    ] {
        let report = run(&waits(32, "try_wait", before, behind), &Launch::new(1, 32)).unwrap_err();
        assert_eq!(report.kind, ReportKind::Deadlock, "{report}");
        assert!(report.message.contains("of 32 arrivals missing"), "{report}");
    }
}
