//! Numbers in a text or a launch that are larger than any memory: an error, at once, and no memory
//! taken.

use ptx_emulator::{Argument, Emulator, ErrorKind, Launch, Module, Options, Report, ReportKind};

const HEAD: &str = ".version 8.0\n.target sm_90\n.address_size 64\n";

fn module(text: &str) -> Module {
    Module::parse(&format!("{HEAD}{text}")).unwrap()
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
