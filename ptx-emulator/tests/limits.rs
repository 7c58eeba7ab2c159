//! Numbers in a text or a launch that are larger than any memory: an error, at once, and no memory
//! taken.

use ptx_emulator::{
    Arch, Argument, Emulator, ErrorKind, Launch, Module, Options, Report, ReportKind,
};

const HEAD: &str = ".version 8.0\n.target sm_90a\n.address_size 64\n";

fn module(text: &str) -> Module {
    Module::parse(&format!("{HEAD}{text}")).unwrap()
}

fn module_for(target: &str, text: &str) -> Module {
    Module::parse(&format!("{}{text}", HEAD.replace("sm_90a", target))).unwrap()
}

/// The report of a launch that has to end with one.
fn report(text: &str, launch: &Launch) -> Box<Report> {
    let mut gpu = Emulator::new(Options::default());
    let report = gpu.launch(&module(text), "f", launch, &[]).unwrap_err();
    assert_eq!(gpu.allocated(), (0, 0));
    report
}

#[test]
fn launches_of_more_threads_than_numbers_hold() {
    let most = [u32::MAX; 3];
    let one = Launch::new(1, 1);
    let empty = ".entry f() { ret; }";
    for launch in [
        Launch { block: most, ..one },
        Launch { grid: most, ..one },
        Launch { grid: most, cluster: most, ..one },
        Launch { dynamic_shared: u32::MAX, ..one },
    ] {
        let report = report(empty, &launch);
        assert_eq!(report.kind, ReportKind::LaunchLimit, "{report}");
    }
    let fenced = ".entry f() { fence.acq_rel.gpu; ret; }";
    let grid = [i32::MAX as u32, 65_535, 65_535];
    let report = report(fenced, &Launch { grid, ..one });
    assert_eq!(report.kind, ReportKind::LaunchLimit, "{report}");
}

#[test]
fn directives_of_more_threads_than_numbers_hold() {
    let cluster = ".entry f() .reqnctapercluster 65536, 65536, 2 { ret; }";
    let found = report(cluster, &Launch { grid: [65_536, 65_536, 2], ..Launch::new(1, 1) });
    assert_eq!(found.kind, ReportKind::LaunchLimit, "{found}");
    let text = ".entry f() .maxntid 4294967295, 4294967295, 4294967295 .minnctapersm 4294967295 \
                { setmaxnreg.dec.sync.aligned.u32 24; ret; }";
    let mut gpu = Emulator::new(Options::default());
    // Whatever it says of the registers, it says it.
    let _ = gpu.launch(&module(text), "f", &Launch::new(1, 128), &[]);
}

#[test]
fn registers_by_the_billion() {
    let checked = |body: &str| module(&format!(".entry f() {{ {body} ret; }}")).check("f");
    assert!(checked(".reg .b32 %r<60000>;").is_ok());
    for body in [
        ".reg .b32 %r<4294967295>;".to_owned(),
        ".reg .v4 .b32 %r<60000>;".to_owned(),
        ".reg .pred %p<70000>;".to_owned(),
        (0..70).map(|i| format!(".reg .b32 %a{i}_<1000>;\n")).collect(),
    ] {
        let error = checked(&body).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unsupported);
        assert!(error.to_string().contains("more than 65536 registers"), "{error}");
    }
}

#[test]
fn variables_take_memory_as_they_are_touched() {
    let text = ".global .align 4 .b8 big[12884901888];\n\
                .visible .entry f(.param .u64 p) { .reg .b64 %a<3>; .reg .b32 %r<2>;\n\
                mov.u64 %a1, big; ld.global.u32 %r1, [%a1+8589934592]; ld.param.u64 %a2, [p];\n\
                st.global.u32 [%a1+12884901884], 7; ld.global.u32 %r1, [%a1+12884901880];\n\
                st.global.u32 [%a2], %r1; ret; }";
    let mut gpu = Emulator::new(Options::default());
    let out = gpu.allocate(4).unwrap();
    gpu.launch(&module(text), "f", &Launch::new(1, 1), &[Argument::from(out)]).unwrap();
    let mut bytes = [1; 4];
    gpu.read(out, &mut bytes).unwrap();
    assert_eq!((bytes, gpu.allocated()), ([0; 4], (1, 4)));
    // Another module's variables have no room, which is said as often as it is asked.
    let two = ".global .b8 x[3221225472];\n.global .b8 y[3221225472];\n.entry f() { ret; }";
    let two = module(two);
    let mut again = || gpu.launch(&two, "f", &Launch::new(1, 1), &[]).unwrap_err();
    let (first, second) = (again(), again());
    assert_eq!(first.kind, ReportKind::LaunchLimit, "{first}");
    assert_eq!(first, second, "the first variable's memory was not given back");
}

#[test]
fn calls_inside_each_other_have_so_much_memory() {
    let calls = |declared: &str| {
        format!(
            ".func g() {{ {declared} call g; ret; }}\n\
             .entry f() {{ call g; ret; }}"
        )
    };
    for (declared, what) in [
        (".local .b8 x[400000];", "512 KB of local memory"),
        (".reg .b32 %r<60000>;", "registers in calls"),
        ("", "1000 calls inside each other"),
    ] {
        let report = report(&calls(declared), &Launch::new(1, 1));
        assert!(report.kind == ReportKind::StepLimit && report.message.contains(what), "{report}");
    }
}

/// Whatever a launch of `f` says, it says it.
fn answers(text: &str) {
    let mut gpu = Emulator::new(Options::default());
    let _ = gpu.launch(&module(text), "f", &Launch::new(1, 128), &[]);
}

#[test]
fn numbers_of_128_bits_are_refused_where_64_are_held() {
    for body in ["mov.b128 {%a, %b}, %q;", "mov.b128 %q, %clock64;"] {
        let text = format!(".entry f() {{ .reg .b128 %q; .reg .b64 %a, %b; {body} ret; }}");
        assert_eq!(module(&text).check("f").unwrap_err().kind, ErrorKind::Unsupported, "{body}");
    }
    answers(".global .b128 x = 1; .entry f() { ret; }");
}

#[test]
fn registers_of_a_thread_are_no_more_than_a_gpu_has() {
    answers(".entry f() .maxnreg 4294967295 { setmaxnreg.dec.sync.aligned.u32 24; ret; }");
}

#[test]
fn minima_have_two_operands() {
    let body = ".reg .f32 %d; max.f32 %d, 0f3F800000, 0f40000000, 0f40400000;";
    let error = module(&format!(".entry f() {{ {body} ret; }}")).check("f").unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);
}

#[test]
fn words_of_variables_are_where_their_addresses_say() {
    let text = ".visible .global .align 2 .b16 halves[8] = {1, 2, 3, 4, 5, 6, 7, 8};
        .visible .global .align 4 .b32 words[2048];
        .entry f() {
            .reg .b64 %a; .reg .b32 %x;
            mov.u64 %a, halves; ld.global.u32 %x, [%a+4];
            mov.u64 %a, words; st.global.u32 [%a], %x;
            st.global.u64 [%a+4088], %a; st.global.u64 [%a+8184], %a; ret; }";
    let mut gpu = Emulator::new(Options::default());
    let module = module(text);
    gpu.launch(&module, "f", &Launch::new(1, 1), &[]).unwrap();
}

#[test]
fn products_outlive_no_function() {
    let text = ".shared .align 1024 .b8 tiles[8192];
        .func g() { .reg .f32 %d<4>; .reg .b64 %m; .reg .b32 %t;
            mov.u32 %t, tiles; shr.u32 %t, %t, 4; cvt.u64.u32 %m, %t;
            wgmma.fence.sync.aligned;
            wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16
                {%d0, %d1, %d2, %d3}, %m, %m, 0, 1, 1, 0, 0;
            wgmma.commit_group.sync.aligned; ret; }
        .func h() { wgmma.wait_group.sync.aligned 0; ret; }";
    // In the kernel, or in another function that is as deep.
    for wait in ["wgmma.wait_group.sync.aligned 0;", "call h;"] {
        let mut gpu = Emulator::new(Options { checks: false, ..Options::default() });
        let module = module(&format!("{text} .entry f() {{ call g; {wait} ret; }}"));
        let report = gpu.launch(&module, "f", &Launch::new(1, 128), &[]).unwrap_err();
        assert!(report.to_string().contains("function returned"), "{report}");
    }
}

#[test]
fn modules_run_on_what_they_are_for() {
    let runs = |target: &str, arch: Arch| {
        let module = module_for(target, ".entry f() { ret; }");
        let mut gpu = Emulator::new(Options { arch, ..Options::default() });
        gpu.launch(&module, "f", &Launch::new(1, 1), &[]).map_err(|report| report.kind)
    };
    let limit = Err(ReportKind::LaunchLimit);
    for (target, arch, expected) in [
        ("sm_70", Arch::new(9, 0), Ok(())),
        ("sm_80", Arch::new(8, 6), Ok(())),
        ("sm_80", Arch::new(7, 5), limit),
        ("sm_90a", Arch::new(9, 0), Ok(())),
        ("sm_90a", Arch::new(7, 0), limit),
        ("sm_90a", Arch::new(10, 0), limit),
        ("sm_100f", Arch::new(10, 3), Ok(())),
        ("sm_100f", Arch::new(12, 0), limit),
    ] {
        assert_eq!(runs(target, arch).map(drop), expected, "{target} on {arch:?}");
    }
}

/// The last target that lacks an instruction, the first that has it (PTX ISA, "Target ISA Notes").
const NEEDS: &[(&str, &str, &str)] = &[
    ("sm_70", "sm_75", "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [t];"),
    ("sm_70", "sm_75", "tanh.approx.f32 %f1, %f2;"),
    ("sm_70", "sm_75", "ex2.approx.f16 %h1, %h2;"),
    ("sm_70", "sm_75", "ld.global.L2::128B.u32 %r1, [%rd1];"),
    (
        "sm_70",
        "sm_75",
        "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%r1, %r2}, {%r3}, {%r4}, {%r1, %r2};",
    ),
    ("sm_75", "sm_80", "cp.async.ca.shared.global [t], [%rd1], 4;"),
    ("sm_75", "sm_80", "cp.async.wait_all;"),
    ("sm_75", "sm_80", "mbarrier.init.shared.b64 [t], 1;"),
    ("sm_75", "sm_80", "redux.sync.add.s32 %r1, %r2, 1;"),
    ("sm_75", "sm_80", "ld.global.L2::cache_hint.u32 %r1, [%rd1], %rd2;"),
    ("sm_75", "sm_80", "prefetch.global.L2::evict_last [%rd1];"),
    ("sm_75", "sm_80", "fma.rn.bf16 %h1, %h2, %h3, %h4;"),
    ("sm_75", "sm_80", "abs.bf16 %h1, %h2;"),
    ("sm_75", "sm_80", "min.f16 %h1, %h2, %h3;"),
    ("sm_75", "sm_80", "max.NaN.f32 %f1, %f2, %f3;"),
    ("sm_75", "sm_80", "cvt.rn.bf16.f32 %h1, %f1;"),
    ("sm_80", "sm_86", "min.xorsign.abs.f32 %f1, %f2, %f3;"),
    ("sm_86", "sm_89", "cvt.rn.f16x2.e4m3x2 %r1, %h1;"),
    ("sm_89", "sm_90", "fence.acq_rel.cluster;"),
    ("sm_89", "sm_90", "st.shared::cluster.u32 [%r1], %r2;"),
    ("sm_89", "sm_90", "cp.async.bulk.commit_group;"),
    ("sm_89", "sm_90", "elect.sync %r1|%p1, 1;"),
    ("sm_89", "sm_90", "mbarrier.try_wait.parity.shared.b64 %p1, [t], 0;"),
    ("sm_89", "sm_90", "mbarrier.arrive.shared.b64 _, [t], 1;"),
    ("sm_89", "sm_90", "fence.proxy.async;"),
    ("sm_89", "sm_90", "prefetch.tensormap [%rd1];"),
    ("sm_89", "sm_90", "add.bf16 %h1, %h2, %h3;"),
    ("sm_89", "sm_90", "add.u16x2 %r1, %r2, %r3;"),
    ("sm_89", "sm_90", "max.relu.s32 %r1, %r2, %r3;"),
    ("sm_89", "sm_90", "setp.lt.bf16 %p1, %h1, %h2;"),
    ("sm_89", "sm_90", "cvt.f16.bf16 %h1, %h2;"),
    ("sm_89", "sm_90", "cvt.rz.tf32.f32 %r1, %f1;"),
    ("sm_89", "sm_90", "mov.u32 %r1, %cluster_ctarank;"),
    ("sm_90", "sm_90a", "setmaxnreg.dec.sync.aligned.u32 24;"),
    ("sm_90", "sm_90a", "wgmma.fence.sync.aligned;"),
    ("sm_90a", "sm_100", "add.f32x2 %rd1, %rd2, %rd3;"),
    ("sm_90a", "sm_100", "ld.global.v4.u64 {%rd1, %rd2, %rd3, %rd4}, [%rd1];"),
    ("sm_100", "sm_100a", "cvt.rn.f16x2.e2m3x2 %r1, %h1;"),
    ("sm_100a", "sm_90a", "wgmma.fence.sync.aligned;"),
];

#[test]
fn instructions_need_a_target_that_has_them() {
    for (before, least, body) in NEEDS {
        let checked = |target: &str| {
            let registers = ".reg .pred %p<5>; .reg .b16 %h<5>; .reg .b32 %r<5>; .reg .b64 %rd<5>;";
            let variables = ".reg .f32 %f<5>; .shared .align 16 .b8 t[16];";
            let text = format!(".entry f() {{ {registers} {variables} {body} ret; }}");
            module_for(target, &text).check("f")
        };
        let error = checked(before).expect_err(body);
        assert!(error.kind == ErrorKind::Invalid && error.to_string().contains(before), "{error}");
        checked(least).unwrap_or_else(|error| panic!("{least}: {body} {error}"));
    }
}

/// The report, if there is one, of a launch of a kernel with these directives.
fn launched(directives: &str, launch: Launch) -> Option<ReportKind> {
    let module = module(&format!(".entry f() {directives} {{ ret; }}"));
    let mut gpu = Emulator::new(Options::default());
    gpu.launch(&module, "f", &launch, &[]).err().map(|report| report.kind)
}

#[test]
fn clusters_are_as_the_kernel_says() {
    let clusters = |blocks| Launch { cluster: [blocks, 1, 1], ..Launch::new(4, 32) };
    let limit = Some(ReportKind::LaunchLimit);
    for (directives, launch, expected) in [
        (".explicitcluster", Launch::new(4, 32), limit),
        (".explicitcluster", clusters(2), None),
        (".explicitcluster .reqnctapercluster 2", Launch::new(4, 32), None),
        (".maxclusterrank 2", clusters(2), None),
        (".maxclusterrank 2", clusters(4), limit),
        (".reqntid 32 .reqnctapercluster 2 .blocksareclusters", Launch::new(1, 32), None),
        (".reqnctapercluster 2 .blocksareclusters", Launch::new(2, 32), Some(ReportKind::Invalid)),
        (".reqntid 32 .blocksareclusters", Launch::new(2, 32), Some(ReportKind::Invalid)),
    ] {
        assert_eq!(launched(directives, launch), expected, "{directives}: {launch:?}");
    }
    let older = module_for("sm_80", ".entry f() .maxclusterrank 2 { ret; }");
    assert_eq!(older.check("f").unwrap_err().kind, ErrorKind::Invalid);
}

#[test]
fn a_grid_of_clusters() {
    let text = ".entry f(.param .u64 p) .reqntid 1 .reqnctapercluster 2, 3 .blocksareclusters {
        .reg .b64 %a; .reg .b32 %x<3>;
        ld.param.u64 %a, [p]; mov.u32 %x1, %nctaid.x; mov.u32 %x2, %nctaid.y;
        st.global.v2.u32 [%a], {%x1, %x2}; ret; }";
    let mut gpu = Emulator::new(Options { checks: false, ..Options::default() });
    let out = gpu.allocate(8).unwrap();
    let launch = Launch { grid: [4, 5, 1], ..Launch::new(1, 1) };
    gpu.launch(&module(text), "f", &launch, &[Argument::from(out)]).unwrap();
    let mut bytes = [0; 8];
    gpu.read(out, &mut bytes).unwrap();
    assert_eq!(bytes, [8, 0, 0, 0, 15, 0, 0, 0]);
}

/// What PTX has no line of syntax for (PTX ISA 9.7.3, 9.7.4, 9.7.6), beside what it has.
#[test]
fn modifiers_are_those_of_the_instruction_and_type() {
    let f64s = ".reg .f64 %d, %x, %y;";
    let f32s = ".reg .f32 %d, %x, %y;";
    let f16s = ".reg .b16 %d, %x, %y;";
    let words = ".reg .b32 %x, %y; .reg .pred %d;";
    for (registers, wrong, right) in [
        (f64s, "add.sat.f64 %d, %x, %y;", "add.rz.f64 %d, %x, %y;"),
        (f64s, "mul.ftz.f64 %d, %x, %y;", "mul.f64 %d, %x, %y;"),
        (f64s, "fma.rn.sat.f64 %d, %x, %y, %x;", "fma.rn.f64 %d, %x, %y, %x;"),
        (f64s, "rcp.ftz.f64 %d, %x;", "rcp.approx.ftz.f64 %d, %x;"),
        (f32s, "min.xorsign.f32 %d, %x, %y;", "min.xorsign.abs.f32 %d, %x, %y;"),
        (f32s, "add.NaN.f32 %d, %x, %y;", "max.NaN.f32 %d, %x, %y;"),
        (f32s, "cos.f32 %d, %x;", "cos.approx.f32 %d, %x;"),
        (f32s, "lg2.ftz.f32 %d, %x;", "lg2.approx.ftz.f32 %d, %x;"),
        (f32s, "tanh.approx.ftz.f32 %d, %x;", "tanh.approx.f32 %d, %x;"),
        (f32s, "div.rn.approx.f32 %d, %x, %y;", "div.approx.f32 %d, %x, %y;"),
        (f32s, "div.full.sat.f32 %d, %x, %y;", "div.full.ftz.f32 %d, %x, %y;"),
        (f16s, "fma.rn.sat.relu.f16 %d, %x, %y, %x;", "fma.rn.relu.f16 %d, %x, %y, %x;"),
        (f16s, "min.relu.f16 %d, %x, %y;", "min.ftz.f16 %d, %x, %y;"),
        (f16s, "add.ftz.bf16 %d, %x, %y;", "add.ftz.f16 %d, %x, %y;"),
        (words, "setp.lt.ftz.u32 %d, %x, %y;", "setp.lt.u32 %d, %x, %y;"),
        (words, "slct.ftz.u32.s32 %x, %x, %y, %y;", "slct.u32.s32 %x, %x, %y, %y;"),
    ] {
        let checked =
            |body: &str| module(&format!(".entry f() {{ {registers} {body} }}")).check("f");
        assert!(checked(wrong).is_err(), "{wrong}");
        checked(right).unwrap_or_else(|error| panic!("{right} {error}"));
    }
}

#[test]
fn accesses_have_as_many_operands_as_they_take() {
    for (wrong, right) in [
        ("ld.global.u32 %r1, [%a], %a;", "ld.global.u32 %r1, [%a];"),
        ("ld.global.L2::cache_hint.u32 %r1, [%a];", "ld.global.L2::cache_hint.u32 %r1, [%a], %a;"),
        ("st.global.u32 [%a], %r1, %r2;", "st.global.u32 [%a], %r1;"),
        ("atom.global.add.u32 %r1, [%a], 1, 5;", "atom.global.add.u32 %r1, [%a], 1;"),
        ("atom.global.cas.b32 %r1, [%a], 1;", "atom.global.cas.b32 %r1, [%a], 1, 5;"),
        ("red.global.add.u32 [%a], 1, 5;", "red.global.add.L2::cache_hint.u32 [%a], 1, %a;"),
    ] {
        let text = |body: &str| format!(".entry f() {{ .reg .b32 %r<3>; .reg .b64 %a; {body} }}");
        let error = module(&text(wrong)).check("f").expect_err(wrong);
        assert_eq!(error.kind, ErrorKind::Invalid, "{wrong}: {error}");
        module(&text(right)).check("f").unwrap_or_else(|error| panic!("{right} {error}"));
    }
}
