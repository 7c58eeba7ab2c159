//! What fences and releases of one warp order between blocks: what is allowed is not reported.

mod few_lines;

use ptx_emulator::{Launch, Report, ReportKind};

const HEAD: &str = "
.version 8.0
.target sm_90
.address_size 64
.visible .entry f(.param .u64 words)
{
    .reg .pred %p, %q;
    .reg .b32 %r<9>;
    .reg .b64 %rd<2>;
    .shared .align 16 .b8 data[64];
    .shared .align 8 .b64 barrier;
    ld.param.u64 %rd1, [words];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
";

/// The second block's first thread waits for the flag in word 0, and does this then.
fn second(then: &str) -> String {
    format!(
        "second: setp.ne.u32 %p, %r1, 0; @%p ret;
         again: ld.acquire.gpu.global.u32 %r6, [%rd1]; setp.eq.u32 %p, %r6, 0; @%p bra again;
         {then} ret;"
    )
}

fn run(body: &str, launch: &Launch) -> Result<(), Box<Report>> {
    few_lines::run(&format!("{HEAD}{body}\n}}\n"), (256, 256), launch)
}

/// Blocks of two warps.
const BLOCKS: Launch = Launch::new(2, 64);

#[test]
fn a_release_in_shared_memory_is_none_between_blocks() {
    let body = "setp.ne.u32 %p, %r1, 0; @%p ret;
         mov.u32 %r3, 0; st.shared.u32 [data], %r3; membar.cta;
         atom.acq_rel.gpu.shared.add.u32 %r4, [data], 1; ret;";
    run(body, &Launch::new(2, 32)).unwrap();
}

#[test]
fn a_warp_that_waits_for_a_copy_may_release_what_it_has_read() {
    // Warp 1 starts a copy from word 16; warp 0 waits for it and raises the flag.
    let body = "setp.ne.u32 %p, %r2, 0; @%p bra second;
         setp.ne.u32 %p, %r1, 0; @%p bra begun;
         mbarrier.init.shared.b64 [barrier], 1; fence.proxy.async;
         begun: bar.sync 0; setp.ne.u32 %p, %r1, 32; @%p bra wait;
         mbarrier.arrive.expect_tx.shared.b64 _, [barrier], 16;
         mov.u32 %r3, data; mov.u32 %r4, barrier;
         cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes \
             [%r3], [%rd1+64], 16, [%r4];
         ret;
         wait: setp.ne.u32 %p, %r1, 0; @%p ret;
         still: mbarrier.try_wait.parity.shared.b64 %q, [barrier], 0; @!%q bra still;
         st.release.gpu.global.u32 [%rd1], 1; ret;";
    run(&format!("{body} {}", second("st.global.u32 [%rd1+64], 7;")), &BLOCKS).unwrap();
}

#[test]
fn a_release_releases_its_own_store() {
    // Warp 1 releases word 16; warp 0 sees it, and raises the flag.
    let body = "setp.ne.u32 %p, %r2, 0; @%p bra second;
         setp.ne.u32 %p, %r1, 32; @%p bra other; st.release.gpu.global.u32 [%rd1+64], 1; ret;
         other: setp.ne.u32 %p, %r1, 0; @%p ret;
         poll: ld.acquire.gpu.global.u32 %r6, [%rd1+64]; setp.eq.u32 %p, %r6, 0; @%p bra poll;
         st.release.gpu.global.u32 [%rd1], 1; ret;";
    run(&format!("{body} {}", second("ld.global.u32 %r7, [%rd1+64];")), &BLOCKS).unwrap();
}

#[test]
fn weak_and_strong_readers_of_a_block_are_kept_apart() {
    // Warp 0 reads word 16 weakly and raises the flag; warp 1 reads it strongly, at any time.
    let body = "setp.ne.u32 %p, %r2, 0; @%p bra second;
         setp.ne.u32 %p, %r1, 32; @%p bra other; ld.relaxed.gpu.global.u32 %r5, [%rd1+64]; ret;
         other: setp.ne.u32 %p, %r1, 0; @%p ret;
         ld.global.u32 %r6, [%rd1+64]; st.release.gpu.global.u32 [%rd1], 1; ret;";
    run(&format!("{body} {}", second("st.relaxed.gpu.global.u32 [%rd1+64], 7;")), &BLOCKS).unwrap();
}

#[test]
fn what_no_release_knows_of_is_a_race() {
    // Warp 1 reads word 16, and warp 0, which does not know, raises the flag.
    let body = "setp.ne.u32 %p, %r2, 0; @%p bra second;
         setp.ne.u32 %p, %r1, 32; @%p bra other; ld.global.u32 %r5, [%rd1+64]; ret;
         other: setp.ne.u32 %p, %r1, 0; @%p ret; st.release.gpu.global.u32 [%rd1], 1; ret;";
    let body = format!("{body} {}", second("st.global.u32 [%rd1+64], 7;"));
    let report = run(&body, &BLOCKS).unwrap_err();
    assert_eq!(report.kind, ReportKind::DataRace, "{report}");
}

/// Whether a first block that writes word 16 and does this races with the second one, which waits
/// for the flag in a way and reads the word.
fn is_a_race(first: &str, wait: &str) -> bool {
    let body = format!(
        "setp.ne.u32 %p, %r1, 0; @%p ret; setp.ne.u32 %p, %r2, 0; @%p bra again;
         st.global.u32 [%rd1+64], 7; {first} ret;
         again: {wait} setp.eq.u32 %p, %r6, 0; @%p bra again; ld.global.u32 %r7, [%rd1+64]; ret;"
    );
    match run(&body, &BLOCKS) {
        Ok(()) => false,
        Err(report) => {
            assert_eq!(report.kind, ReportKind::DataRace, "{report}\n{body}");
            true
        }
    }
}

#[test]
fn who_releases_does_not_acquire_and_who_acquires_does_not_release() {
    let (exchange, acquire) = ("atom.ORDER.gpu.global.exch.b32 %r3, [%rd1], 1;", "ld.acquire.gpu");
    let add = "atom.ORDER.gpu.global.add.u32 %r6, [%rd1], 0;";
    for (order, expected) in [("release", false), ("acq_rel", false), ("acquire", true)] {
        let wait = format!("{acquire}.global.u32 %r6, [%rd1];");
        assert_eq!(is_a_race(&exchange.replace("ORDER", order), &wait), expected, "{order}");
    }
    let release = "st.release.gpu.global.u32 [%rd1], 1;";
    for (order, expected) in [("acquire", false), ("acq_rel", false), ("release", true)] {
        assert_eq!(is_a_race(release, &add.replace("ORDER", order)), expected, "{order}");
    }
    let wait = "ld.relaxed.gpu.global.u32 %r6, [%rd1]; st.release.gpu.global.u32 [%rd1+32], 1;";
    assert!(is_a_race(release, wait));
}

#[test]
fn fences_of_less_reach_do_not_order_blocks() {
    let wait = "ld.acquire.gpu.global.u32 %r6, [%rd1];";
    for (scope, expected) in [("gpu", false), ("sys", false), ("cluster", true), ("cta", true)] {
        let fence = format!("fence.acq_rel.{scope};");
        let first = format!("{fence} st.relaxed.gpu.global.u32 [%rd1], 1;");
        assert_eq!(is_a_race(&first, wait), expected, "{scope}");
        let wait = format!("ld.relaxed.gpu.global.u32 %r6, [%rd1]; {fence}");
        let release = "st.release.gpu.global.u32 [%rd1], 1;";
        assert_eq!(is_a_race(release, &wait), expected, "{scope}");
    }
}

#[test]
fn what_a_fence_of_the_block_passes_on_a_fence_of_the_gpu_releases() {
    // Warp 1 writes word 16 and passes that on to warp 0 by a relaxed flag; warp 0 raises another.
    for scope in ["cta", "cluster"] {
        let body = format!(
            "setp.ne.u32 %p, %r2, 0; @%p bra second;
             setp.ne.u32 %p, %r1, 32; @%p bra other; st.global.u32 [%rd1+64], 7;
             fence.acq_rel.{scope}; st.relaxed.gpu.global.u32 [%rd1+32], 1; ret;
             other: setp.ne.u32 %p, %r1, 0; @%p ret;
             poll: ld.relaxed.gpu.global.u32 %r6, [%rd1+32]; setp.eq.u32 %p, %r6, 0;
             @%p bra poll; fence.acq_rel.gpu; st.relaxed.gpu.global.u32 [%rd1], 1; ret;"
        );
        run(&format!("{body} {}", second("ld.global.u32 %r7, [%rd1+64];")), &BLOCKS).unwrap();
    }
}

#[test]
fn the_other_side_is_named_in_its_own_block_of_the_cluster() {
    // The second block of the first cluster writes, and nobody releases that; the third one reads.
    let body = "setp.eq.u32 %p, %r2, 2; @%p bra second; setp.eq.u32 %p, %r2, 3; @%p ret;
         setp.ne.u32 %p, %r2, 1; @%p bra other;
         setp.ne.u32 %p, %r1, 32; @%p ret; st.global.u32 [%rd1+64], 7; ret;
         other: setp.ne.u32 %p, %r1, 0; @%p ret; st.release.gpu.global.u32 [%rd1], 1; ret;";
    let launch = Launch { cluster: [2, 1, 1], ..Launch::new(4, 64) };
    let body = format!("{body} {}", second("ld.global.u32 %r7, [%rd1+64];"));
    let report = run(&body, &launch).unwrap_err();
    let other = report.other.as_ref().unwrap();
    let sides = [(report.block, report.thread), (Some(other.block), Some(other.thread))];
    assert!(sides.contains(&(Some([1, 0, 0]), Some([32, 0, 0]))), "{report}");
}
