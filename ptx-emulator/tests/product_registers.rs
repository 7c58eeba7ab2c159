//! Registers that products of warpgroups and bulk copies read: whoever has not written them.

mod few_lines;

use ptx_emulator::{Argument, Emulator, Launch, Module, Options, Report, ReportKind};

/// 64 x 16 of A from `a`, times 16 x 8 ones: each thread's first sum goes to its word.
fn product(before: &str, a: &str, accumulate: &str) -> String {
    format!(
        ".version 8.0
         .target sm_90a
         .address_size 64
         .visible .entry f(.param .u64 words)
         {{
             .reg .pred %p;
             .reg .b32 %r<24>;
             .reg .b64 %rd<4>;
             .reg .f32 %f<4>;
             .shared .align 16 .b8 never[512];
             .shared .align 1024 .b8 ones[512];
             ld.param.u64 %rd1, [words];
             mov.u32 %r1, %tid.x;
             mad.wide.u32 %rd3, %r1, 4, %rd1;
             mov.u32 %r2, ones; shl.b32 %r3, %r1, 2; add.u32 %r3, %r2, %r3;
             st.shared.u32 [%r3], 0x3c003c00;
             fence.proxy.async; bar.sync 0;
             shr.u32 %r2, %r2, 4; cvt.u64.u32 %rd2, %r2; or.b64 %rd2, %rd2, 0x800080000;
             setp.ne.u64 %p, %rd1, 0;
             {before}
             wgmma.fence.sync.aligned;
             wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16
                 {{%f0, %f1, %f2, %f3}}, {a}, %rd2, {accumulate}, 1, 1, 0;
             wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
             st.global.f32 [%rd3], %f0;
         }}"
    )
}

const A: &str = "{%r20, %r21, %r22, %r23}";
const TWOS: &str = "mov.u32 %r20, 0x40004000; mov.u32 %r21, %r20; mov.u32 %r22, %r20;
                    mov.u32 %r23, %r20;";
const SUMS: &str = "mov.f32 %f0, 0f40E00000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;";
/// A from shared memory that nothing has written.
const NEVER: &str = "mov.u32 %r6, never; and.b32 %r7, %r1, 31; shl.b32 %r7, %r7, 4;
     add.u32 %r6, %r6, %r7;
     ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r20, %r21, %r22, %r23}, [%r6];";

fn sum(text: &str) -> f32 {
    let mut gpu = Emulator::new(Options { threads: 1, ..Options::default() });
    let words = gpu.allocate(512).unwrap();
    let module = Module::parse(text).unwrap();
    gpu.launch(&module, "f", &Launch::new(1, 128), &[Argument::from(words)]).unwrap();
    let mut bytes = [0; 4];
    gpu.read(words, &mut bytes).unwrap();
    f32::from_le_bytes(bytes)
}

#[test]
fn what_nothing_has_written_is_zero() {
    for _ in 0..3 {
        // 7 + 16 * 2, and then registers that such warps leave.
        assert_eq!(sum(&product(&format!("{TWOS} {SUMS}"), A, "%p")), 39.0);
        assert_eq!(sum(&product(SUMS, A, "%p")), 7.0);
        assert_eq!(sum(&product(&format!("{TWOS} {SUMS}"), A, "%p")), 39.0);
        assert_eq!(sum(&product(TWOS, A, "%p")), 32.0);
        assert_eq!(sum(&product(&format!("{TWOS} {SUMS}"), A, "0")), 32.0);
    }
}

fn report(text: &str) -> Result<(), Box<Report>> {
    few_lines::run(text, (512, 512), &Launch::new(1, 128))
}

#[test]
fn what_is_made_of_it_is_reported_where_it_is_stored() {
    let kind = |text: &str| report(text).map_err(|report| report.kind);
    assert_eq!(kind(&product(&format!("{TWOS} {SUMS}"), A, "%p")), Ok(()));
    assert_eq!(kind(&product(&format!("{NEVER} {SUMS}"), A, "%p")), Err(ReportKind::Uninitialized));
    // Nobody looks.
    let unused =
        product(&format!("{NEVER} {SUMS}"), A, "%p").replace("st.global.f32 [%rd3], %f0;", "");
    assert_eq!(kind(&unused), Ok(()));
    // Accumulators that take part, or do not.
    let marked = format!("{TWOS} {SUMS} ld.shared.f32 %f0, [never];");
    assert_eq!(kind(&product(&marked, A, "%p")), Err(ReportKind::Uninitialized));
    assert_eq!(kind(&product(&marked, A, "0")), Ok(()));
    // A descriptor says where to read.
    let descriptor = format!("{TWOS} {SUMS} ld.shared.u64 %rd2, [never];");
    let unused = product(&descriptor, A, "%p").replace("st.global.f32 [%rd3], %f0;", "");
    assert_eq!(kind(&unused), Err(ReportKind::Uninitialized));
}

#[test]
fn a_copy_of_nobody_knows_how_many_bytes_is_reported() {
    let copy = |size: &str| {
        format!(
            ".version 8.0
             .target sm_90
             .address_size 64
             .visible .entry f(.param .u64 words)
             {{
                 .reg .pred %p;
                 .reg .b32 %r<9>;
                 .reg .b64 %rd<2>;
                 .shared .align 16 .b8 to[16];
                 .shared .align 8 .b64 barrier;
                 .shared .b32 never;
                 ld.param.u64 %rd1, [words];
                 mov.u32 %r1, %tid.x; setp.ne.u32 %p, %r1, 0; @%p ret;
                 mov.u32 %r2, to; mov.u32 %r3, barrier; {size};
                 mbarrier.init.shared.b64 [barrier], 1; fence.proxy.async;
                 mbarrier.arrive.expect_tx.shared.b64 _, [barrier], 16;
                 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes
                     [%r2], [%rd1], %r4, [%r3];
                 again: mbarrier.try_wait.parity.shared.b64 %p, [barrier], 0; @!%p bra again;
             }}"
        )
    };
    report(&copy("mov.u32 %r4, 16")).unwrap();
    let fault = report(&copy("ld.shared.u32 %r4, [never]")).unwrap_err();
    assert_eq!(fault.kind, ReportKind::Uninitialized, "{fault}");
}
