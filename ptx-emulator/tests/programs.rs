//! Small programs about the machine itself: divergence, order of blocks, counts, determinism.

use ptx_emulator::{Argument, Emulator, Launch, Module, Options, ReportKind, Statistics};

/// Launches a kernel of one parameter, a buffer of words that are 0; returns them and the counts.
fn run(text: &str, launch: Launch, words: usize, options: Options) -> (Vec<u32>, Statistics) {
    let module = Module::parse(text).unwrap();
    let mut gpu = Emulator::new(options);
    let buffer = gpu.allocate(4 * words as u64).unwrap();
    gpu.write(buffer, &vec![0; 4 * words]).unwrap();
    let statistics = match gpu.launch(&module, "kernel", &launch, &[buffer.into()]) {
        Ok(statistics) => statistics,
        Err(report) => panic!("{report}"),
    };
    let mut bytes = vec![0; 4 * words];
    gpu.read(buffer, &mut bytes).unwrap();
    let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap());
    (bytes.chunks(4).map(word).collect(), statistics)
}

/// A kernel of one parameter, whose address in global memory is in `%rd1`.
fn kernel(body: &str) -> String {
    format!(
        ".version 7.8\n.target sm_80\n.address_size 64\n.visible .entry kernel(.param .u64 p)\n{{\n\
        .reg .pred %p<8>; .reg .b32 %r<16>; .reg .b64 %rd<8>;\n\
        ld.param.u64 %rd1, [p]; cvta.to.global.u64 %rd1, %rd1;\n{body}\n}}\n"
    )
}

#[test]
fn lanes_of_a_warp_take_a_lock_one_after_the_other() {
    // Each lane loops until it gets the lock, adds, and gives it back outside the loop.
    let text = kernel(
        "LOOP: atom.global.cas.b32 %r1, [%rd1], 0, 1;
         setp.ne.u32 %p1, %r1, 0;
         @%p1 bra LOOP;
         ld.volatile.global.u32 %r2, [%rd1+4];
         add.u32 %r2, %r2, 1;
         st.volatile.global.u32 [%rd1+4], %r2;
         membar.gl;
         atom.global.exch.b32 %r3, [%rd1], 0;
         ret;",
    );
    let (words, _) = run(&text, Launch::new(2, 64), 2, Options::default());
    assert_eq!(words, [0, 128]);
}

#[test]
fn blocks_wait_for_later_blocks() {
    // Block b waits until all blocks behind it have passed.
    let text = kernel(
        "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %nctaid.x;
         sub.u32 %r3, %r2, %r1; sub.u32 %r3, %r3, 1;
         LOOP: ld.acquire.gpu.global.u32 %r4, [%rd1];
         setp.ne.u32 %p1, %r4, %r3;
         @%p1 bra LOOP;
         mad.wide.u32 %rd2, %r3, 4, %rd1;
         st.global.u32 [%rd2+4], %r1;
         red.release.gpu.global.add.u32 [%rd1], 1;
         ret;",
    );
    let (words, _) = run(&text, Launch::new(5, 1), 6, Options::default());
    assert_eq!(words, [5, 4, 3, 2, 1, 0]);
}

#[test]
fn early_exits_do_not_part_the_others() {
    // In a loop some lanes leave; the rest meet at the barrier behind an `if` each time.
    let text = kernel(
        "mov.u32 %r1, %tid.x; mov.u32 %r2, 0;
         LOOP: and.b32 %r3, %r1, 1;
         setp.eq.u32 %p1, %r3, 0;
         @%p1 bra EVEN;
         setp.eq.u32 %p2, %r1, %r2;
         @%p2 exit;
         EVEN: bar.warp.sync 0xffffffff;
         add.u32 %r2, %r2, 1;
         setp.lt.u32 %p3, %r2, 32;
         @%p3 bra LOOP;
         mad.wide.u32 %rd2, %r1, 4, %rd1;
         st.global.u32 [%rd2], 1;
         ret;",
    );
    let (words, _) = run(&text, Launch::new(1, 32), 32, Options::default());
    assert_eq!(words, (0..32).map(|i| 1 - i % 2).collect::<Vec<_>>());
}

#[test]
fn the_result_and_the_report_do_not_depend_on_the_threads() {
    // Every block but the first writes past the end; the last ones sooner than the others.
    let text = kernel(
        "mov.u32 %r1, %ctaid.x; mov.u32 %r2, 0;
         sub.u32 %r3, 40, %r1; mul.lo.u32 %r3, %r3, 100;
         LOOP: add.u32 %r2, %r2, 1;
         setp.lt.u32 %p1, %r2, %r3;
         @%p1 bra LOOP;
         mad.wide.u32 %rd2, %r1, 64, %rd1;
         st.global.u32 [%rd2], %r2;
         ret;",
    );
    let module = Module::parse(&text).unwrap();
    let report = |threads: usize| {
        let mut gpu = Emulator::new(Options { threads, ..Options::default() });
        let buffer = gpu.allocate(4).unwrap();
        let arguments = [Argument::from(buffer)];
        let result = gpu.launch(&module, "kernel", &Launch::new(40, 1), &arguments);
        let mut bytes = [0; 4];
        gpu.read(buffer, &mut bytes).unwrap();
        (result.unwrap_err(), bytes)
    };
    let (first, bytes) = report(1);
    assert_eq!((first.kind, first.block), (ReportKind::OutOfBounds, Some([1, 0, 0])));
    for threads in [2, 3, 8] {
        assert_eq!(report(threads), (first.clone(), bytes));
    }
}

#[test]
fn sectors_and_bank_conflicts_are_counted() {
    let options = Options { statistics: true, ..Options::default() };
    let text = |stride: u32| {
        kernel(&format!(
            ".shared .align 4 .b8 tile[4096];
             mov.u32 %r1, %tid.x; mul.lo.u32 %r2, %r1, {stride};
             mov.u32 %r3, tile; mad.lo.u32 %r3, %r2, 4, %r3;
             st.shared.u32 [%r3], %r1;
             mad.wide.u32 %rd2, %r2, 4, %rd1;
             st.global.u32 [%rd2], %r1;
             ret;"
        ))
    };
    let counts = |stride: u32| {
        let (_, counts) = run(&text(stride), Launch::new(1, 32), 1024, options.clone());
        (counts.bank_conflicts, counts.global_sectors, counts.global_stored)
    };
    // Words that follow each other: 32 banks, 4 sectors (5 where they aren't aligned to one).
    assert_eq!(counts(1), (0, 4, 128));
    assert_eq!(counts(2), (1, 8, 128));
    assert_eq!(counts(8), (7, 32, 128));
    assert_eq!(counts(32), (31, 32, 128));
}

#[test]
fn the_first_unknown_instruction_is_named() {
    let text =
        kernel("add.u32 %r1, %r2, %r3;\ntex.1d.v4.f32.s32 {%r1, %r2, %r3, %r4}, [p, {%r5}];");
    let module = Module::parse(&text).unwrap();
    let error = module.check("kernel").unwrap_err();
    assert_eq!(error.at.map(|at| at.line), Some(9));
    assert!(error.to_string().contains("tex.1d.v4.f32.s32"), "{error}");
    let text = kernel("add.sat.u32 %r1, %r2, %r3;");
    let error = Module::parse(&text).unwrap().check("kernel").unwrap_err();
    assert!(error.to_string().contains("add.sat.u32"), "{error}");
    let text = kernel("add.u32 %r1, %r2, %rd3;");
    let error = Module::parse(&text).unwrap().check("kernel").unwrap_err();
    assert!(error.to_string().contains("64 bits"), "{error}");
}

/// A function that nobody can call is not looked at, though it has the parameters of one that is.
#[test]
fn functions_without_an_address_are_not_called() {
    let functions = ".func g(.param .b32 a) { ret; }
        .func h(.param .b32 a) { .reg .b32 %x; tex.1d.v4.f32.s32 {%x, %x, %x, %x}, [a, {%x}]; }";
    let text = |address: &str| {
        let body = kernel(&format!(
            "{address} {{ .param .b32 q; st.param.b32 [q], 1;
             P: .callprototype _ (.param .b32 _); call %rd2, (q), P; }} ret;"
        ));
        body.replace(".visible .entry", &format!("{functions}\n.visible .entry"))
    };
    run(&text("mov.u64 %rd2, g;"), Launch::new(1, 1), 1, Options::default());
    for address in
        ["mov.u64 %rd2, g; mov.u64 %rd3, h;", "mov.u64 %rd2, g; st.v2.u64 [%rd1], {g, h};"]
    {
        let error = Module::parse(&text(address)).unwrap().check("kernel").unwrap_err();
        assert!(error.to_string().contains("tex.1d"), "{error}");
    }
}
