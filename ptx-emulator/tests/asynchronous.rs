//! What mbarriers, copies, products and the like must not do, in few lines each.

mod few_lines;

use ptx_emulator::{Launch, Module, Report, ReportKind};

const HEAD: &str = "
.version 8.0
.target sm_90a
.address_size 64
.const .align 16 .b32 constants[16];
.visible .entry f(.param .u64 words)
{
    .reg .pred %p;
    .reg .b32 %r<9>;
    .reg .b64 %rd<9>;
    .shared .align 16 .b8 data[64];
    .shared .align 8 .b64 barrier;
    ld.param.u64 %rd1, [words];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, data;
    mov.u32 %r3, barrier;
";

/// Of 16 words that are given, nothing has written the upper half.
fn run(body: &str, launch: &Launch) -> Result<(), Box<Report>> {
    few_lines::run(&format!("{HEAD}{body} ret;\n}}\n"), (64, 32), launch)
}

/// The report that a body has to end with.
fn report(body: &str, launch: &Launch) -> Box<Report> {
    let Err(report) = run(body, launch) else { panic!("no report: {body}") };
    report
}

const ONE: Launch = Launch::new(1, 1);
const CLUSTER: Launch = Launch { cluster: [2, 1, 1], ..Launch::new(2, 1) };

#[test]
fn the_blocks_own_memory_is_no_other_blocks() {
    // The first block has the address of its own words in %r4, or of the other block's.
    let body = |rank: u32, then: &str| {
        format!(
            "st.shared.v4.u32 [%r2], {{%r1, %r1, %r1, %r1}}; mbarrier.init.shared.b64 [%r3], 1;
             fence.proxy.async; barrier.cluster.arrive; barrier.cluster.wait;
             mov.u32 %r4, %cluster_ctarank; setp.ne.u32 %p, %r4, 0; @%p bra end;
             mapa.shared::cluster.u32 %r4, %r2, {rank}; mapa.shared::cluster.u32 %r5, %r3, {rank};
             cvt.u64.u32 %rd2, %r5; add.u64 %rd3, %rd2, 0x100000000;
             {then} end: barrier.cluster.arrive; barrier.cluster.wait;"
        )
    };
    let store = "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r4], 16;
                 cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;";
    for then in [
        "mbarrier.arrive.shared.b64 %rd4, [%r5];",
        "mbarrier.test_wait.parity.shared::cta.b64 %p, [%r5], 1;",
        "mbarrier.inval.shared.b64 [%r5]; mbarrier.init.shared.b64 [%r5], 1;",
        store,
    ] {
        run(&body(0, then), &CLUSTER).unwrap();
        let report = report(&body(1, then), &CLUSTER);
        assert_eq!(report.kind, ReportKind::OutOfBounds, "{report}\n{then}");
    }
    run(&body(1, "mbarrier.arrive.shared::cluster.b64 _, [%r5];"), &CLUSTER).unwrap();
    let beyond = "mbarrier.arrive.shared.b64 %rd4, [%rd3];";
    assert_eq!(report(&body(0, beyond), &CLUSTER).kind, ReportKind::OutOfBounds);
}

#[test]
fn what_is_reduced_has_been_written() {
    let body = |offset: u32| {
        format!(
            "st.shared.v4.u32 [data], {{%r1, %r1, %r1, %r1}}; fence.proxy.async;
             cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd1+{offset}], [%r2], 16;
             cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
        )
    };
    run(&body(16), &ONE).unwrap();
    assert_eq!(report(&body(32), &ONE).kind, ReportKind::Uninitialized);
}

#[test]
fn constants_are_not_stored_to() {
    for body in [
        "mov.u64 %rd2, constants; st.global.u32 [%rd2], %r1;",
        "mov.u64 %rd2, constants; red.global.add.u32 [%rd2], 1;",
        "st.shared.v4.u32 [data], {%r1, %r1, %r1, %r1}; fence.proxy.async;
         mov.u64 %rd2, constants;
         cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r2], 16;
         cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;",
    ] {
        assert_eq!(report(body, &ONE).kind, ReportKind::ReadOnly, "{body}");
    }
}

#[test]
fn a_bulk_stores_destination_is_called_so() {
    let store = "cp.async.bulk.global.shared::cta.bulk_group [%rd1+8], [%r2], 16;";
    let report = report(store, &ONE);
    assert!(report.message.contains("destination"), "{report}");
    assert_eq!(report.address.map(|address| address % 16), Some(8));
}

#[test]
fn a_reduction_that_a_type_has_not_is_known_before_it_runs() {
    let reduce = "cp.reduce.async.bulk.global.shared::cta.bulk_group.min.f32 [%rd1], [%r2], 16;";
    let module = Module::parse(&format!("{HEAD}{reduce} ret;\n}}\n")).unwrap();
    assert!(module.check("f").is_err());
}

#[test]
fn lanes_of_one_member_mask_have_that_mask() {
    // Two groups of 16 lanes; the third lane's mask is the second argument.
    let body = |third: &str, then: &str| {
        format!(
            "setp.lt.u32 %p, %r1, 16; selp.b32 %r4, 0xffff, 0xffff0000, %p;
             setp.eq.u32 %p, %r1, 2; selp.b32 %r4, {third}, %r4, %p; {then}"
        )
    };
    let elect = "elect.sync %r5|%p, %r4; and.b32 %r6, %r1, 16; setp.ne.u32 %p, %r5, %r6; @%p trap;";
    let warp = Launch::new(1, 32);
    for then in ["bar.warp.sync %r4;", "vote.sync.ballot.b32 %r5, 1, %r4;", elect] {
        run(&body("%r4", then), &warp).unwrap();
        let report = report(&body("0x4", then), &warp);
        assert_eq!(report.kind, ReportKind::Divergence, "{report}\n{then}");
    }
}

#[test]
fn windows_are_where_the_isa_has_them() {
    let body = |rank: u32, is: &str| {
        format!(
            "mov.u32 %r4, %cluster_ctarank; setp.ne.u32 %p, %r4, 0; @%p bra end;
             mov.u64 %rd3, data; cvta.shared.u64 %rd2, %rd3;
             mapa.u64 %rd2, %rd2, {rank}; {is} @!%p trap;
             end: barrier.cluster.arrive; barrier.cluster.wait;"
        )
    };
    for (rank, space, expected) in [
        (0, "shared", true),
        (0, "shared::cta", true),
        (1, "shared", false),
        (1, "shared::cta", false),
        (1, "shared::cluster", true),
        (1, "global", false),
    ] {
        let is = format!("isspacep.{space} %p, %rd2;");
        assert_eq!(run(&body(rank, &is), &CLUSTER).is_ok(), expected, "{rank} {space}");
    }
    // A parameter's window is inside that of global memory.
    let parameter = "mov.b64 %rd2, words; cvta.param.u64 %rd2, %rd2; isspacep.global %p, %rd2;
         @!%p trap; ld.global.u64 %rd3, [%rd2]; setp.ne.u64 %p, %rd3, %rd1; @%p trap;";
    run(parameter, &ONE).unwrap();
}

#[test]
fn copies_to_one_place_are_as_many_as_a_launch_has_steps_for() {
    let body = "mov.u32 %r4, 0; again: cp.async.cg.shared.global [data], [%rd1], 16;
         add.u32 %r4, %r4, 1; setp.lt.u32 %p, %r4, 65536; @%p bra again; cp.async.wait_all;";
    run(body, &ONE).unwrap();
}

#[test]
fn a_fence_of_initialisations_releases_nothing_else() {
    // The second block uses what the first has initialised, or has written before that.
    let body = |fence: &str, then: &str| {
        format!(
            "mov.u32 %r4, %cluster_ctarank; st.shared.u32 [%r2], %r1;
             mbarrier.init.shared.b64 [%r3], 2; {fence}
             barrier.cluster.arrive.relaxed; barrier.cluster.wait;
             setp.ne.u32 %p, %r4, 1; @%p bra end;
             mapa.shared::cluster.u32 %r5, %r2, 0; mapa.shared::cluster.u32 %r6, %r3, 0; {then}
             end: barrier.cluster.arrive; barrier.cluster.wait;"
        )
    };
    let arrive = "mbarrier.arrive.shared::cluster.b64 _, [%r6];";
    let load = "ld.shared::cluster.u32 %r7, [%r5];";
    let (inits, all) = ("fence.mbarrier_init.release.cluster;", "fence.acq_rel.cluster;");
    for (fence, then) in [(inits, arrive), (all, arrive), (all, load)] {
        run(&body(fence, then), &CLUSTER).unwrap();
    }
    for (fence, then) in [("", arrive), (inits, load)] {
        let report = report(&body(fence, then), &CLUSTER);
        assert_eq!(report.kind, ReportKind::DataRace, "{report}\n{then}");
    }
}

#[test]
fn one_thread_begins_and_ends_an_mbarrier() {
    let warp = Launch::new(1, 32);
    let init = "mbarrier.init.shared.b64 [barrier], 1;";
    let first = "setp.ne.u32 %p, %r1, 0; @%p bra on;";
    let inval = "mbarrier.inval.shared.b64 [barrier];";
    for body in [init.to_owned(), format!("{first} {init} on: bar.sync 0; {inval}")] {
        let report = report(&body, &warp);
        assert_eq!(report.kind, ReportKind::Mbarrier, "{report}");
        assert_eq!(report.thread, Some([1, 0, 0]), "{report}");
        assert!(report.message.contains("several threads of a warp"), "{report}");
    }
    run(&format!("{first} {init} {inval} on:"), &warp).unwrap();
    // Each its own.
    let own = ".shared .align 8 .b8 many[256]; mov.u32 %r4, many; mad.lo.u32 %r4, %r1, 8, %r4;
        mbarrier.init.shared.b64 [%r4], 1; mbarrier.inval.shared.b64 [%r4];";
    run(own, &warp).unwrap();
}

#[test]
fn prefetches_in_bulk_are_passed_over() {
    run("cp.async.bulk.prefetch.L2.global [%rd1], 16;", &ONE).unwrap();
    run("cp.async.bulk.prefetch.L2.global.L2::cache_hint [%rd1], 16, %rd2;", &ONE).unwrap();
    let report = report("cp.async.bulk.prefetch.L2.global [%rd1];", &ONE);
    assert_eq!(report.kind, ReportKind::Invalid, "{report}");
}

#[test]
fn an_address_has_a_rank_after_its_block_has_exited() {
    let body = "mov.u32 %r4, %cluster_ctarank; setp.eq.u32 %p, %r4, 1; @%p bra on;
        mov.u32 %r5, 0; again: add.u32 %r5, %r5, 1; setp.lt.u32 %p, %r5, 20000; @%p bra again;
        mapa.shared::cluster.u32 %r6, %r2, 1;";
    let rank = "getctarank.shared::cluster.u32 %r7, %r6; setp.ne.u32 %p, %r7, 1; @%p trap; on:";
    run(&format!("{body} {rank}"), &CLUSTER).unwrap();
    // The block's memory is gone all the same.
    let report = report(&format!("{body} ld.shared::cluster.u32 %r7, [%r6]; on:"), &CLUSTER);
    assert_eq!(report.kind, ReportKind::UseAfterFree, "{report}");
}

#[test]
fn a_copy_of_nothing_is_complete_at_once() {
    let copy = "mbarrier.init.shared.b64 [barrier], 1; mov.u32 %r4, 0;
        cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes
            [data], [%rd1], %r4, [barrier];";
    run(copy, &ONE).unwrap();
    run(&format!("{copy} mbarrier.inval.shared.b64 [barrier];"), &ONE).unwrap();
    let report = report(&copy.replace("%r4, 0", "%r4, 16"), &ONE);
    assert_eq!(report.kind, ReportKind::Asynchronous, "{report}");
}
